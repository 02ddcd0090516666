//! Numbers and times of generated messages, compared with small cases computed by hand.
//!
//! Links carry 2 bytes per nanosecond (16 Gbit/s), so a packet of 2048 bytes takes 1024 ns. A packet's head
//! takes 10 + 100 + 10 ns from one host through the switch to another.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use crate::common::*;
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::config::Config;
use silvan_fabric::outcome::{ClassSummary, LatencySummary, Outcome};
use silvan_network::topology::Topology;
use silvan_network::traffic::{Arrivals, Flow, Pattern, Traffic};

/// Time that a packet's head takes through the network, in nanoseconds.
const WAY: u64 = 120;
/// Transmission time of a full packet, in nanoseconds.
const PACKET: u64 = 1024;

fn star(hosts: u32) -> Topology {
    topology(&format!(
        r#"{{"kind": "star", "hosts": {hosts}, "link_rate": "16 Gbit/s", "link_delay": "10 ns"}}"#
    ))
}

fn ns(ns: u64) -> Time {
    Time(1_000 * ns)
}

fn class<'a>(outcome: &'a Outcome, name: &str) -> &'a ClassSummary {
    outcome.summary.classes.iter().find(|class| class.class == name).unwrap()
}

fn latency<'a>(outcome: &'a Outcome, name: &str, since: &str) -> &'a LatencySummary {
    let matches = |one: &&LatencySummary| one.class == name && one.since == since;
    outcome.summary.latency.iter().find(matches).unwrap()
}

fn one_flow(duration: Time, flow: Flow) -> Outcome {
    run(&star(4), &Config { flows: vec![flow], ..config(duration) })
}

#[test]
fn a_periodic_flow_sends_a_message_per_period_from_its_start_on() {
    // A message of 2048 bytes every 2048 ns: at 5000, 7048, and so on; the 47th and last one at 99 208.
    let slow = Flow { rate: Some(Rate::from_gbit(8)), start: ns(5_000), ..flow("H1", "H2") };
    let outcome = one_flow(us(100), slow);
    assert_eq!(outcome.summary.packets_injected, 47);
    // The last packet is still on the wire at the end, because it would arrive at 99 208 + 120 + 1024 ns.
    assert_eq!(outcome.summary.packets_delivered, 46);
    assert_eq!(class(&outcome, "H1->H2").last_delivery_ns, Some(5_000 + 45 * 2_048 + WAY + PACKET));
    for since in ["generation", "injection"] {
        let latency = latency(&outcome, "H1->H2", since);
        assert_eq!((latency.mean_ns, latency.max_ns), ((WAY + PACKET) as f64, WAY + PACKET), "{since}");
    }
}

#[test]
fn periods_that_are_no_whole_picoseconds_do_not_drift() {
    // 1000 bytes at 3 Gbit/s take 2666.66... ns, so there are 300 messages in 800 us, the last one at 797
    // 333.3 ns.
    let message = Some(Bytes(1_000));
    let outcome = one_flow(us(800), Flow { message, rate: Some(Rate::from_gbit(3)), ..flow("H1", "H2") });
    assert_eq!(outcome.summary.packets_injected, 300);
    assert_eq!(class(&outcome, "H1->H2").last_delivery_ns, Some(797_333 + WAY + 500));
}

#[test]
fn a_flow_stops_generating_at_its_stop() {
    let flow = |stop| Flow { rate: Some(Rate::from_gbit(8)), stop: Some(stop), ..flow("H1", "H2") };
    // Messages start at 0, 2048, 4096, 6144 and 8192 ns.
    assert_eq!(one_flow(us(100), flow(ns(10_000))).summary.packets_delivered, 5);
    assert_eq!(one_flow(us(100), flow(ns(8_193))).summary.packets_delivered, 5);
    assert_eq!(one_flow(us(100), flow(ns(8_191))).summary.packets_delivered, 4);
}

#[test]
fn a_total_is_cut_into_messages_and_these_into_packets() {
    // Messages of 5000, 5000 and 2000 bytes: the first two become packets of 2048, 2048 and 904 bytes each,
    // the last one a packet of 2000 bytes.
    let outcome = one_flow(
        us(100),
        Flow { message: Some(Bytes(5_000)), total: Some(Bytes(12_000)), ..flow("H1", "H2") },
    );
    let flow = &outcome.summary.flows[0];
    assert_eq!((outcome.summary.packets_delivered, flow.received_bytes), (7, 12_000));
    // The packets follow each other without a gap.
    assert_eq!(flow.completed_ns, Some(6_000 + WAY));
}

#[test]
fn a_message_larger_than_the_link_carries_in_its_period_queues_at_the_host() {
    // Two messages of 4096 bytes, generated at 0 and 1024 ns. The second one waits until 2048 ns, when the
    // first one has been sent.
    let rate = Some(Rate::from_gbit(32));
    let message = Some(Bytes(4_096));
    let outcome = one_flow(us(100), Flow { rate, message, total: Some(Bytes(8_192)), ..flow("H1", "H2") });
    assert_eq!(outcome.summary.flows[0].completed_ns, Some(4 * PACKET + WAY));
    // Packets end after 1, 2, 3 and 4 packet times. They were generated at 0, 0, 1024 and 1024 ns.
    let since_generation = latency(&outcome, "H1->H2", "generation");
    assert_eq!(since_generation.mean_ns, (WAY * 4 + PACKET * (1 + 2 + 2 + 3)) as f64 / 4.0);
    assert_eq!(since_generation.max_ns, WAY + 3 * PACKET);
}

#[test]
fn poisson_arrivals_keep_the_rate_and_are_spread_as_they_must() {
    // 4883 messages are expected in 10 ms, with a standard deviation of 70.
    let flow = Flow { rate: Some(Rate::from_gbit(8)), arrivals: Arrivals::Poisson, ..flow("H1", "H2") };
    let counts: Vec<f64> = (1..=8)
        .map(|seed| {
            let config = Config { seed, flows: vec![flow.clone()], ..config(us(10_000)) };
            run(&star(4), &config).summary.packets_injected as f64
        })
        .collect();
    let mean = counts.iter().sum::<f64>() / 8.0;
    assert!((mean - 4_883.0).abs() < 4.0 * 70.0 / 8.0_f64.sqrt(), "{counts:?}");
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 7.0;
    // Chi-squared with 7 degrees of freedom is between 0.6 and 24.3 with a probability of 99.8 %.
    assert!((0.6 / 7.0..24.3 / 7.0).contains(&(variance / 4_883.0)), "{counts:?}");
}

#[test]
fn periodic_sources_of_a_pattern_have_phases_of_their_own() {
    let slow = Traffic { rate: Some(Rate::from_gbit(1)), ..pattern(Pattern::Shift { by: 1 }) };
    let mut firsts = Vec::new();
    for host in 1..=8 {
        let traffic = Traffic { hosts: Some(vec![format!("H{host}")]), ..slow.clone() };
        let outcome = run(&star(8), &Config { traffic: vec![traffic], ..config(us(164)) });
        // There is a message every 16 384 ns, so ten complete periods contain ten messages, wherever the
        // periods begin.
        assert!((10..=11).contains(&outcome.summary.packets_injected));
        let last = class(&outcome, "traffic.0").last_delivery_ns.unwrap();
        firsts.push((last - WAY - PACKET) % 16_384);
    }
    firsts.sort_unstable();
    firsts.dedup();
    assert_eq!(firsts.len(), 8, "{firsts:?}");
    assert!(firsts[7] - firsts[0] > 16_384 / 3, "phases are spread over the period: {firsts:?}");
}

/// Number of packets that each host receives from a pattern with three packets per host.
fn received(hosts: u32, traffic: Traffic) -> Vec<u64> {
    let traffic = vec![Traffic { packets_per_host: Some(3), ..traffic }];
    let mut config = Config { traffic, ..config(us(200)) };
    config.measure.interval = us(200);
    let outcome = run(&star(hosts), &config);
    assert_eq!(outcome.summary.packets_injected, outcome.summary.packets_delivered);
    let span = outcome.summary.simulated_ns as f64;
    outcome
        .summary
        .hosts
        .iter()
        .map(|host| (host.received_gbit_s * span / 8.0 / 2_048.0).round() as u64)
        .collect()
}

#[test]
fn patterns_reach_the_hosts_that_they_name() {
    assert_eq!(received(5, pattern(Pattern::Shift { by: 2 })), [3; 5]);
    let only = |hosts: &[&str], kind| Traffic {
        hosts: Some(hosts.iter().map(|&host| host.to_owned()).collect()),
        ..pattern(kind)
    };
    // H4 sends to H1, H5 to H2.
    assert_eq!(received(5, only(&["H4", "H5"], Pattern::Shift { by: 2 })), [3, 3, 0, 0, 0]);
    // Senders are assigned to the hotspots round robin. The hotspot of H2 is H2 itself, so H2 sends nothing.
    let to = vec!["H2".to_owned(), "H5".to_owned()];
    assert_eq!(received(6, pattern(Pattern::Hotspots { to: to.clone() })), [0, 3 * 3, 0, 0, 3 * 3, 0]);
    assert_eq!(received(6, only(&["H2", "H3", "H4"], Pattern::Hotspots { to })), [0, 3, 0, 0, 3, 0]);
    assert_eq!(received(7, pattern(Pattern::Permutation)), [3; 7]);
}

#[test]
fn uniform_traffic_reaches_all_hosts_alike_and_the_sender_only_if_asked_to() {
    let from_one = |include_self| {
        let traffic = Traffic {
            hosts: Some(vec!["H3".into()]),
            packets_per_host: Some(6_000),
            ..pattern(Pattern::Uniform { include_self })
        };
        let outcome = run(&star(4), &Config { traffic: vec![traffic], ..config(us(7_000)) });
        let span = outcome.summary.simulated_ns as f64;
        let packets = |gbit_s: f64| (gbit_s * span / 8.0 / 2_048.0).round();
        outcome.summary.hosts.iter().map(|host| packets(host.received_gbit_s)).collect::<Vec<_>>()
    };
    for (include_self, expected) in [(false, [2_000.0, 2_000.0, 0.0, 2_000.0]), (true, [1_500.0; 4])] {
        let counts = from_one(include_self);
        assert_eq!(counts.iter().sum::<f64>(), 6_000.0);
        for (count, expected) in counts.iter().zip(expected) {
            // The tolerance is five standard deviations of a binomial distribution.
            assert!(
                (count - expected).abs() <= 5.0 * 36.6 && (*count == 0.0) == (expected == 0.0),
                "{counts:?}"
            );
        }
    }
}

#[test]
fn sources_of_one_host_take_turns() {
    // Three flows of one host, each with 10 packets. Their last packets are the 28th, 29th and 30th that the
    // host sends.
    let total = Some(Bytes(10 * 2_048));
    let flows = ["H2", "H3", "H4"].map(|to| Flow { total, ..flow("H1", to) });
    let outcome = run(&star(4), &Config { flows: flows.into(), ..config(us(100)) });
    let completed: Vec<u64> = outcome.summary.flows.iter().map(|flow| flow.completed_ns.unwrap()).collect();
    assert_eq!(completed, [28, 29, 30].map(|packets| packets * PACKET + WAY));
}

#[test]
fn an_injection_rate_spaces_the_packets_of_a_host() {
    // 8 Gbit/s on a link of 16 Gbit/s is a packet every 2048 ns, and each packet is sent at the link's rate.
    let mut config = config(us(100));
    config.host.injection_rate = Some(Rate::from_gbit(8));
    config.flows = vec![Flow { total: Some(Bytes(5 * 2_048)), ..flow("H1", "H2") }];
    let outcome = run(&star(4), &config);
    assert_eq!(outcome.summary.flows[0].completed_ns, Some(4 * 2 * PACKET + PACKET + WAY));
}

#[test]
fn control_per_message_takes_its_overhead_once() {
    // Messages of two packets, and 700 ns for each message.
    let mut config = config(us(100));
    config.host.message_overhead = ns(700);
    config.flows =
        vec![Flow { message: Some(Bytes(4_096)), total: Some(Bytes(3 * 4_096)), ..flow("H1", "H2") }];
    let outcome = run(&star(4), &config);
    let completed = outcome.summary.flows[0].completed_ns.unwrap();
    // The overhead occurs between messages, and possibly before the first one.
    let expected = [2, 3].map(|times| 6 * PACKET + times * 700 + WAY);
    assert!(expected.contains(&completed), "{completed} is none of {expected:?}");
}
