//! Links and hosts that fail or change their rate during a run: which packets are lost, and when the others
//! arrive.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;

use crate::common::*;
use proptest::prelude::*;
use silvan_congestion::Mechanism;
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::FaultPlan;
use silvan_fabric::config::{
    Arbitration, Architecture, Config, FlowControl, LinkConfig, LinkRetry, OnOff, Pfc, SharedMemory,
};
use silvan_fabric::faults::{Event, EventKind, Recovery, RecoveryKind};
use silvan_fabric::outcome::{LossSummary, Outcome, Summary, Values};
use silvan_fabric::queueing::{Memory, Queues};
use silvan_fabric::simulation::{ModelError, Simulation};
use silvan_network::topology::Topology;
use silvan_network::traffic::Flow;

/// A - S1 - S2 - S3 - B. A byte takes 1 ns, a link has a delay of 100 ns, and a switch a latency of 50 ns.
///
/// A packet of 1,000 bytes that A starts at t starts at S1 at t + 150 ns, at S2 at t + 300 ns, at S3 at t +
/// 450 ns, and is at B at t + 1,550 ns.
fn three_switches(duration: Time) -> (Topology, Config) {
    let topology = topology(
        r#"{"kind": "custom", "hosts": ["A", "B"], "link_delay": "100 ns", "link_rate": "8 Gbit/s",
            "switches": [{"name": "S1", "ports": 2}, {"name": "S2", "ports": 2}, {"name": "S3", "ports": 2}],
            "links": [{"from": "A", "to": "S1:1"}, {"from": "S1:2", "to": "S2:1"}, {"from": "S2:2", "to": "S3:1"},
                      {"from": "S3:2", "to": "B"}]}"#,
    );
    let mut config = config(duration);
    config.packet.mtu = Bytes(1_000);
    config.packet.header = Bytes(0);
    config.switch.latency = Time::from_ns(50);
    (topology, config)
}

/// The same network with a flow of ten packets, one of which A starts every 10 us.
pub(crate) fn ten_packets() -> (Topology, Config) {
    let (topology, mut config) = three_switches(us(100));
    let rate = Some(Rate(800_000_000));
    config.flows = vec![Flow { message: Some(Bytes(1_000)), rate, ..flow("A", "B") }];
    (topology, config)
}

pub(crate) fn down(link: &str, start: Time, lasts: Time) -> Event {
    event(EventKind::Down, link, start, lasts)
}

pub(crate) fn losses(outcome: &Outcome) -> LossSummary {
    outcome.summary.losses.unwrap()
}

/// The latency since generation of the flow: the mean and the maximum, in nanoseconds.
pub(crate) fn latency(outcome: &Outcome) -> (f64, u64) {
    let found = outcome.summary.latency.iter().find(|one| one.since == "generation").unwrap();
    (found.mean_ns, found.max_ns)
}

#[test]
fn a_packet_is_lost_if_its_link_is_down_between_its_start_and_its_arrival() {
    let (topology, mut config) = ten_packets();
    assert_eq!(latency(&run(&topology, &config)), (1_550.0, 1_550));
    let at = us(20);
    let (start, arrival) = (at + Time::from_ns(150), at + Time::from_ns(300));
    // A change at the instant of an arrival follows the arrival, and precedes the decisions of that instant.
    let cases = [
        (start.saturating_sub(Time(1)), Time(1), 0),
        (start.saturating_sub(Time(1)), Time(2), 1),
        (start, Time(1), 1),
        (arrival.saturating_sub(Time(1)), Time(1), 1),
        (arrival, us(5), 0),
        (us(15), us(30), 3),
    ];
    for (time, lasts, lost) in cases {
        config.events = vec![down("S1:2", time, lasts)];
        for (name, outcome) in run_in_all_switches(&topology, &config) {
            let LossSummary { data_packets, payload_bytes, links, .. } = losses(&outcome);
            assert_eq!((data_packets, payload_bytes), (lost, 1_000 * lost), "{name}: {time}, {lasts}");
            assert_eq!((outcome.summary.packets_delivered, links), (10 - lost, lost.min(1)), "{name}");
            assert_eq!(latency(&outcome), (1_550.0, 1_550), "{name}");
        }
    }
}

/// Packet k crosses the link of S2 to S3 from k us + 300 ns to k us + 450 ns.
#[test]
fn a_switch_discards_what_it_would_send_at_the_pace_of_the_link() {
    let (topology, mut config) = three_switches(us(100));
    config.flows = vec![flow("A", "B")];
    config.events = vec![down("S2:2", us(50), us(10))];
    for (name, outcome) in run_in_all_switches(&topology, &config) {
        // The last packet that is delivered before the end starts at 98 us.
        assert_eq!(
            (losses(&outcome).data_packets, outcome.summary.packets_delivered),
            (10, 99 - 10),
            "{name}"
        );
        let table = outcome.tables.iter().find(|table| table.name == "losses").unwrap();
        let Values::Name { codes, names } = &table.columns[0].values else { panic!("no names") };
        assert_eq!(
            codes.iter().map(|&code| names[code as usize].as_str()).collect::<Vec<_>>(),
            ["S2:2->S3:1"]
        );
        let sentence =
            "Links changed during the run: S2:2 - S3:1 went down once and was up at 8 Gbit/s at the end.";
        assert!(outcome.account.iter().any(|line| line == sentence), "{name}: {:?}", outcome.account);
    }
}

#[test]
fn a_host_waits_until_its_link_is_up() {
    let (topology, mut config) = ten_packets();
    // The head of packet 2 has left the first link, and packet 3 waits from 30 us to 35.5 us.
    config.events = vec![down("A", us(20) + Time::from_ns(500), us(15))];
    for (name, outcome) in run_in_all_switches(&topology, &config) {
        assert_eq!(
            (losses(&outcome), outcome.summary.packets_delivered),
            (LossSummary::default(), 10),
            "{name}"
        );
        assert_eq!(latency(&outcome).1, 5_500 + 1_550, "{name}");
    }
}

/// At half the rate, the tail of a packet arrives 1,000 ns later at the next switch. The head waits there for
/// this time, because the next link is faster.
#[test]
fn a_rate_applies_from_the_next_packet_on() {
    let (topology, mut config) = ten_packets();
    let slower = |start, lasts| Event {
        rate: Some(Rate::from_gbit(4)),
        ..event(EventKind::Rate, "S3:1", start, lasts)
    };
    for (start, lasts, slow) in [
        (us(45), us(20), 2.0),
        // Packet 5 starts at 50.3 us on this link.
        (us(50) + Time::from_ns(300), Time(1), 1.0),
        (us(50) + Time::from_ns(300) + Time(1), us(9), 0.0),
    ] {
        config.events = vec![slower(start, lasts)];
        for (name, outcome) in run_in_all_switches(&topology, &config) {
            if name == "cioq" {
                continue;
            }
            assert_eq!(latency(&outcome).0, 1_550.0 + slow * 100.0, "{name}: {start}");
            assert_eq!((outcome.summary.packets_delivered, &outcome.summary.losses), (10, &None), "{name}");
        }
    }
}

#[test]
fn all_links_of_a_switch_fail_together() {
    let (topology, mut config) = ten_packets();
    let failure = Event { links: Vec::new(), switches: vec!["S2".to_owned()], ..down("", us(15), us(10)) };
    config.events = vec![failure];
    let outcome = run(&topology, &config);
    assert_eq!((losses(&outcome).data_packets, outcome.summary.packets_delivered), (1, 9));
    let events = outcome.tables.iter().find(|table| table.name == "events").unwrap();
    let Values::F64(times) = &events.columns[1].values else { panic!("no times") };
    assert_eq!(*times, [15_000.0, 15_000.0, 25_000.0, 25_000.0]);
}

/// Packet 2 has arrived at 21.55 us, and packet 3 at 31.55 us.
#[test]
fn a_host_that_stalls_or_drains_slower_delays_packets() {
    let (topology, mut config) = ten_packets();
    let of_host = |kind, start, lasts| Event {
        links: Vec::new(),
        hosts: vec!["B".into()],
        ..event(kind, "", start, lasts)
    };
    config.events = vec![of_host(EventKind::Stall, us(15), us(10))];
    for (name, outcome) in run_in_all_switches(&topology, &config) {
        assert_eq!(
            (latency(&outcome).1, outcome.summary.packets_delivered),
            (6_000, 10),
            "{name}: packet 2 waits until 25 us, and drains at the rate of the link"
        );
    }
    // At half the rate of the link, a packet takes 1,000 ns longer.
    config.events =
        vec![Event { rate: Some(Rate::from_gbit(4)), ..of_host(EventKind::Drain, us(15), us(20)) }];
    for (name, outcome) in run_in_all_switches(&topology, &config) {
        assert_eq!(latency(&outcome), (1_550.0 + 2.0 * 100.0, 2_550), "{name}: packets 2 and 3");
    }
}

/// The time at which the ten packets of each flow have arrived, in nanoseconds. The event `drain` applies to
/// B.
fn arrivals_with(drain: Event, flows: &[(&str, &str)]) -> Vec<u64> {
    let (topology, mut config) = three_switches(us(100));
    let ten = |&(from, to): &(&str, &str)| Flow {
        message: Some(Bytes(1_000)),
        total: Some(Bytes(10_000)),
        ..flow(from, to)
    };
    config.flows = flows.iter().map(ten).collect();
    config.events = vec![Event { links: Vec::new(), hosts: vec!["B".into()], ..drain }];
    let found = run_in_all_switches(&topology, &config);
    let times = |outcome: &Outcome| {
        outcome.summary.flows.iter().map(|flow| flow.completed_ns.unwrap()).collect::<Vec<_>>()
    };
    let first = times(&found[0].1);
    for (name, outcome) in found {
        assert_eq!(times(&outcome), first, "{name}");
    }
    first
}

/// A packet takes 1,000 ns on a link, 1,550 ns to the other host, and 1,000 ns through a host at the rate of
/// the link.
#[test]
fn both_directions_of_a_host_share_a_rate() {
    let (both, there, back) = ([("A", "B"), ("B", "A")], [("A", "B")], [("B", "A")]);
    let drain = |gbit, shared| Event {
        rate: Some(Rate::from_gbit(gbit)),
        shared,
        lasts: None,
        ..event(EventKind::Drain, "", us(0), us(1))
    };
    assert_eq!(arrivals_with(drain(8, false), &both), [10_550, 10_550]);
    // B starts its first packets at 0 and 1,000 ns. The first packet of A has arrived at 1,550 ns, while B
    // sends, and is drained from the arrival of its head, at 550 ns, until 2,550 ns. B then starts and drains
    // a packet every 2,000 ns: it has drained packet k at 2,550 ns + (k - 1) 2,000 ns, and starts packet k >
    // 2 at (k - 2) 2,000 ns.
    assert_eq!(arrivals_with(drain(8, true), &both), [2_550 + 9 * 2_000, 8 * 2_000 + 1_550]);
    // With traffic in one direction, that direction has the whole rate.
    assert_eq!(arrivals_with(drain(8, true), &there), [10_550]);
    assert_eq!(arrivals_with(drain(8, true), &back), [10_550]);
    assert_eq!(arrivals_with(drain(4, true), &back), [9 * 2_000 + 1_550]);
    assert_eq!(arrivals_with(drain(4, false), &back), [10_550]);
    // Five packets start before 5 us, three at 5, 7 and 9 us, and two at 11 and 12 us.
    let limited = Event { start: us(5), lasts: Some(us(5)), ..drain(4, true) };
    assert_eq!(arrivals_with(limited, &back), [12_000 + 1_550]);
}

/// A and B start packet k at k 10 us. The packet of A starts on the link of S3 to B at k 10 us + 450 ns, and
/// arrives 1,100 ns later.
#[test]
fn a_host_that_stops_loses_what_is_on_its_way_and_sends_nothing_any_more() {
    let (topology, mut config) = ten_packets();
    config.flows.push(Flow { from: "B".into(), to: "A".into(), ..config.flows[0].clone() });
    let arrival = us(50) + Time::from_ns(1_550);
    let (start, sent) = (arrival.saturating_sub(Time::from_ns(1_100)), us(50) + Time::from_ns(150));
    // Packets 6 to 9 of A are lost at the link of B, and packet 5 of A if it has not arrived. B does not send
    // its packets 6 to 9, and its packet 5 is lost if it has not reached S3.
    for (at, lost, delivered) in [
        (us(50) + Time(1), (5, 1), 5 + 5),
        (sent, (5, 0), 5 + 6),
        (start, (5, 0), 5 + 6),
        (arrival.saturating_sub(Time(1)), (5, 0), 5 + 6),
        (arrival, (4, 0), 6 + 6),
    ] {
        let stop = Event {
            lasts: None,
            links: Vec::new(),
            hosts: vec!["B".into()],
            ..event(EventKind::Stop, "", at, us(1))
        };
        config.events = vec![stop];
        for (name, outcome) in run_in_all_switches(&topology, &config) {
            let rows = losses_by_link(&outcome);
            let expected = [("S3:2->B", lost.0), ("B->S3:2", lost.1)].into_iter().filter(|row| row.1 > 0);
            let expected: BTreeMap<String, u64> =
                expected.map(|(link, count)| (link.to_owned(), count)).collect();
            assert_eq!((rows, outcome.summary.packets_delivered), (expected, delivered), "{name}: {at}");
            assert!(outcome.account.contains(&format!("B stopped at {at}.")), "{:?}", outcome.account);
        }
    }
}

/// The data packets that were lost on each link.
fn losses_by_link(outcome: &Outcome) -> BTreeMap<String, u64> {
    let table = outcome.tables.iter().find(|table| table.name == "losses").unwrap();
    let (Values::Name { codes, names }, Values::U64(counts)) =
        (&table.columns[0].values, &table.columns[1].values)
    else {
        panic!("other columns")
    };
    codes.iter().map(|&code| names[code as usize].clone()).zip(counts.iter().copied()).collect()
}

/// A sends a packet every 1,000 ns. B stalls, and its link is paused. When B stops, the last switch ignores
/// the pause and discards a packet per 1,000 ns.
#[test]
fn a_host_that_has_stopped_does_not_pause_its_link() {
    let (topology, mut config) = three_switches(us(200));
    config.switch.buffer = Bytes(1 << 18);
    config.host.buffer = Bytes(1 << 18);
    config.flows = vec![flow("A", "B")];
    let of_host = |kind, start, lasts| Event {
        links: Vec::new(),
        hosts: vec!["B".into()],
        lasts,
        ..event(kind, "", start, us(1))
    };
    let stall = of_host(EventKind::Stall, us(0), Some(us(500)));
    let sent = |config: &Config, events: &[Event]| {
        let config = Config { events: events.to_vec(), ..config.clone() };
        let summary = run(&topology, &config).summary;
        (summary.packets_injected, summary.losses.map_or(0, |losses| losses.data_packets))
    };
    let (xoff, xon) = (Some(Bytes(4_000)), Some(Bytes(2_000)));
    let frames = FlowControl::Pfc(Pfc { xoff, xon, ..Pfc::default() });
    for flow_control in [frames, FlowControl::OnOff(OnOff { xoff, xon })] {
        config.flow_control = flow_control;
        let (held, none) = sent(&config, std::slice::from_ref(&stall));
        // The message that pauses the link of B is on its way from 5,550 ns, when the fifth packet is at B,
        // until 5,650 ns.
        for start in [us(5) + Time::from_ns(600), us(50)] {
            let (all, lost) = sent(&config, &[stall.clone(), of_host(EventKind::Stop, start, None)]);
            let rest = (us(200) - start).0 / 1_000_000;
            assert!((rest - 2..=rest + 1).contains(&lost), "{start}: {lost} lost");
            assert!(none == 0 && held < 20 && all > rest, "{start}: {held}, then {all}");
        }
    }
}

fn recovered(outcome: &Outcome) -> (u64, u64, u64) {
    let found = losses(outcome).recovery.unwrap();
    (found.resent_packets, found.discarded_packets, found.timeouts)
}

/// Packets 2 and 3 are lost, and time out at 70 us and 80 us. All packets behind them wait for them.
#[test]
fn selective_repeat_sends_lost_packets_again_after_the_timeout() {
    let (topology, mut config) = ten_packets();
    config.events = vec![down("S1:2", us(15), us(20))];
    config.recovery = Some(Recovery::new(RecoveryKind::SelectiveRepeat, us(50)));
    for (name, outcome) in run_in_all_switches(&topology, &config) {
        assert_eq!((losses(&outcome).data_packets, outcome.summary.packets_delivered), (2, 10), "{name}");
        assert_eq!((recovered(&outcome), latency(&outcome).1), ((2, 0, 2), 50_000 + 1_550), "{name}");
    }
    // Receipts arrive 2,164 ns after the start of a packet. With a shorter timeout, all packets are sent
    // again.
    for (timeout, repeated) in [(2_165, 0), (2_163, 10)] {
        config.events = vec![down("S1:2", us(99), us(1))];
        config.recovery = Some(Recovery::new(RecoveryKind::SelectiveRepeat, Time::from_ns(timeout)));
        let outcome = run(&topology, &config);
        assert_eq!(
            (recovered(&outcome), outcome.summary.packets_delivered),
            ((repeated, repeated, repeated), 10)
        );
        let warned = outcome.warnings.iter().any(|warning| warning.contains("recovery.timeout"));
        assert_eq!(warned, repeated > 0, "{:?}", outcome.warnings);
    }
}

/// For each time at which a packet is generated, the time at which its payload is delivered, in nanoseconds;
/// NaN for lost packets.
fn delivered_ns(outcome: &Outcome) -> BTreeMap<u64, f64> {
    let table = outcome.tables.iter().find(|table| table.name == "transfers").unwrap();
    let column = |name| {
        let column = table.columns.iter().find(|column| column.name == name).unwrap();
        let Values::F64(times) = &column.values else { panic!("no times") };
        times.iter().copied()
    };
    column("start_ns").map(|start| start as u64).zip(column("delivered_ns")).collect()
}

/// Compares the time of each delivery with the one that `expected` returns for the number of the packet.
/// Packet k is generated at k times `every`.
fn assert_delivered(outcome: &Outcome, every: Time, expected: impl Fn(u64) -> Option<f64>, name: &str) {
    let found = delivered_ns(outcome);
    assert!(found.len() > 8, "{name}: {found:?}");
    for (start, delivered) in found {
        if let Some(expected) = expected(start * 1_000 / every.0) {
            let same = expected.total_cmp(&delivered).is_eq() || (expected.is_nan() && delivered.is_nan());
            assert!(same, "{name}: the packet of {start} ns: {delivered} instead of {expected}");
        }
    }
}

/// A - S1 - S2 - B, and S1 - S3 - S2. The link of S1 and S2 fails at 25 us and is up at 65 us. Tables change
/// at 45 us and 85 us.
///
/// Packets take 1,400 ns over S1 and S2, and 1,550 ns over S3. Packets 3 and 4 are lost. If they are repeated
/// after 53 us, they arrive at 84.55 us over S3 and at 94.4 us, and all later packets have waited for them.
#[test]
fn a_rerouted_flow_recovers_at_the_predicted_nanosecond() {
    let topology = topology(
        r#"{"kind": "custom", "hosts": ["A", "B"], "link_delay": "100 ns", "link_rate": "8 Gbit/s",
            "switches": [{"name": "S1", "ports": 3}, {"name": "S2", "ports": 3}, {"name": "S3", "ports": 2}],
            "links": [{"from": "A", "to": "S1:1"}, {"from": "S1:2", "to": "S2:2"}, {"from": "S2:1", "to": "B"},
                      {"from": "S1:3", "to": "S3:1"}, {"from": "S3:2", "to": "S2:3"}]}"#,
    );
    let (_, mut config) = ten_packets();
    config.measure.transfers = Some(true);
    config.events = vec![down("S1:2", us(25), us(40))];
    config.rerouting.delay = Some(us(20));
    let at = |number: u64, ns: u64| (number * 10_000 + ns) as f64;
    let over_s3 = |number: u64| if (5..=8).contains(&number) { 1_550 } else { 1_400 };
    let lost = |number| Some(if matches!(number, 3 | 4) { f64::NAN } else { at(number, over_s3(number)) });
    for (name, outcome) in run_in_all_switches(&topology, &config) {
        assert_delivered(&outcome, us(10), lost, name);
    }
    config.recovery = Some(Recovery::new(RecoveryKind::SelectiveRepeat, us(53)));
    let repeated = |number| {
        Some(match number {
            0..=2 => at(number, 1_400),
            3 => 84_550.0,
            _ => 94_400.0,
        })
    };
    for (name, outcome) in run_in_all_switches(&topology, &config) {
        assert_delivered(&outcome, us(10), repeated, name);
        assert_eq!(recovered(&outcome), (2, 0, 2), "{name}");
    }
}

/// A sends without pauses. The link from S2 to S3 is down from 10.25 us to 13.25 us, and again every 20 us.
/// Packet k starts on it at k us + 300 ns, so packets 10 to 12 and 30 to 32 and the receipts of packets 9 and
/// 29 are lost.
///
/// If packets are repeated after 29.5 us, packets 9 to 12 start at 39 to 42 us, and packets 29 to 32 at 59 to
/// 62 us. Later packets wait at B for them. A sends packet 39 at 43 us, and packet 46 at 50 us, which is
/// lost.
#[test]
fn a_flow_over_a_flapping_link_recovers_at_the_predicted_nanosecond() {
    let (topology, mut config) = three_switches(us(70));
    config.measure.transfers = Some(true);
    config.flows =
        vec![Flow { message: Some(Bytes(1_000)), rate: Some(Rate::from_gbit(8)), ..flow("A", "B") }];
    let flap = Event { every: Some(us(20)), ..down("S2:2", us(10) + Time::from_ns(250), us(3)) };
    config.events = vec![flap];
    let at = |start: u64| (start * 1_000 + 1_550) as f64;
    let lost = |number| match number {
        0..=49 => Some(if matches!(number % 20, 10..=12) { f64::NAN } else { at(number) }),
        _ => None,
    };
    for (name, outcome) in run_in_all_switches(&topology, &config) {
        assert_delivered(&outcome, us(1), lost, name);
    }
    let timeout = Time::from_ns(29_500);
    config.recovery = Some(Recovery::new(RecoveryKind::SelectiveRepeat, timeout));
    let repeated = |number| match number {
        0..=9 => Some(at(number)),
        10..=29 => Some(at(number.min(12) + 30)),
        30..=45 => Some(at(number.min(32) + 30)),
        _ => None,
    };
    for (name, outcome) in run_in_all_switches(&topology, &config) {
        assert_delivered(&outcome, us(1), repeated, name);
    }
}

/// A sends a packet every 2 us, and the link from S2 to S3 has a quarter of its rate from 20 us to 40 us.
/// Packets 10 to 14 start there at 20.3, 24.3, 28.3, 32.3 and 36.3 us, and wait at S3 for their tails, 3 us
/// longer than usual. Packet 15 starts at 40.3 us. The following packets start without gaps, until packet 25
/// starts at 50.3 us, which is its usual time.
#[test]
fn a_flow_over_a_slower_link_recovers_at_the_predicted_nanosecond() {
    let (topology, mut config) = three_switches(us(100));
    config.measure.transfers = Some(true);
    config.flows =
        vec![Flow { message: Some(Bytes(1_000)), rate: Some(Rate::from_gbit(4)), ..flow("A", "B") }];
    let rate = Some(Rate::from_gbit(2));
    config.events = vec![Event { rate, ..event(EventKind::Rate, "S2:2", us(20), us(20)) }];
    let started = |number: u64| match number {
        10..=14 => 20_300 + 4_000 * (number - 10) + 3_000,
        15..=25 => 40_300 + 1_000 * (number - 15),
        _ => 2_000 * number + 300,
    };
    let expected = |number| (number < 49).then(|| (started(number) + 1_250) as f64);
    for (name, outcome) in run_in_all_switches(&topology, &config) {
        if name != "cioq" {
            assert_delivered(&outcome, us(2), expected, name);
        }
    }
}

/// Packet 4 reaches B at 41.55 us. The request for packet 2 takes 450 ns until it starts at S1, 64 ns for its
/// bytes, and 100 ns on the link to A. A therefore starts packet 2 again at 42.164 us, followed by packets 3
/// and 4.
#[test]
fn go_back_n_sends_all_packets_again_from_the_first_lost_one_on() {
    let (topology, mut config) = ten_packets();
    config.events = vec![down("S1:2", us(15), us(20))];
    config.recovery = Some(Recovery::new(RecoveryKind::GoBackN, us(70)));
    for (name, outcome) in run_in_all_switches(&topology, &config) {
        assert_eq!((losses(&outcome).data_packets, outcome.summary.packets_delivered), (2, 10), "{name}");
        assert_eq!((recovered(&outcome), latency(&outcome).1), ((3, 1, 0), 22_164 + 1_550), "{name}");
    }
}

/// A sends without pauses. A lost packet costs four packet times: its own, and those until the request
/// arrives, which follows the end of the next packet by 1,164 ns.
#[test]
fn the_efficiency_of_go_back_n_with_random_losses() {
    let (topology, mut config) = three_switches(us(20_000));
    config.measure.interval = us(1_000);
    config.flows = vec![flow("A", "B")];
    config.recovery = Some(Recovery::new(RecoveryKind::GoBackN, us(100)));
    let errors =
        Event { loss_ppb: Some(1_000_000), lasts: None, ..event(EventKind::Errors, "S2:2", us(0), us(1)) };
    config.events = vec![errors];
    let outcome = run(&topology, &config);
    let (lost, timeouts) = (losses(&outcome).data_packets, recovered(&outcome).2);
    assert!((8..35).contains(&lost), "{lost} of 20,000");
    let used = outcome.summary.packets_delivered + 4 * lost + 100 * timeouts;
    assert_near(used as f64, 20_000.0, 0.001, "packet times");
}

/// A sends without pauses, and each lost packet costs its own packet time.
#[test]
fn the_efficiency_of_selective_repeat_with_random_losses() {
    let (topology, mut config) = three_switches(us(20_000));
    config.measure.interval = us(1_000);
    config.flows = vec![flow("A", "B")];
    config.recovery = Some(Recovery::new(RecoveryKind::SelectiveRepeat, us(100)));
    let errors =
        Event { loss_ppb: Some(10_000_000), lasts: None, ..event(EventKind::Errors, "S2:2", us(0), us(1)) };
    config.events = vec![errors];
    let outcome = run(&topology, &config);
    let LossSummary { data_packets: lost, control_packets: receipts, .. } = losses(&outcome);
    assert!((140..260).contains(&lost) && receipts > 140, "{lost} and {receipts} of 20,000");
    // Packets that are repeated because their receipt was lost are discarded. At the end, packets wait for a
    // lost one.
    let used = outcome.summary.packets_delivered + lost + recovered(&outcome).1;
    assert_near(used as f64, 20_000.0, 0.006, "packet times");
}

/// Two hosts send to a third at the rate of its link, and no reaction reduces their rates.
fn overload() -> (Topology, Config) {
    let topology = topology(r#"{"kind": "star", "hosts": 3, "link_rate": "8 Gbit/s"}"#);
    let mut config = config(us(2_000));
    config.packet.mtu = Bytes(1_000);
    config.packet.header = Bytes(0);
    config.switch.buffer = Bytes(100_000);
    config.host.buffer = Bytes(100_000);
    config.flows = ["H1", "H2"].map(|from| flow(from, "H3")).to_vec();
    config.switch.memory = Some(Memory::Shared);
    config.flow_control = FlowControl::Pfc(Pfc { lossy_lanes: vec![0], ..Pfc::default() });
    (topology, config)
}

/// Packets that do not fit are dropped, and the full link delivers one packet per microsecond.
#[test]
fn a_lossy_lane_drops_what_does_not_fit_into_a_full_buffer() {
    let (topology, mut config) = overload();
    for recovery in [None, Some(Recovery::new(RecoveryKind::SelectiveRepeat, us(500)))] {
        let recovers = recovery.is_some();
        config.recovery = recovery;
        for (name, outcome) in run_in_all_switches(&topology, &config) {
            let LossSummary { data_packets, dropped_packets, .. } = losses(&outcome);
            let Summary { packets_delivered, packets_inside, .. } = outcome.summary;
            assert_eq!(dropped_packets, Some(data_packets), "{name}");
            // Both inputs fill at half the rate of the link: 97 packets of 16 blocks each after 194 us, and
            // then half of all packets are lost.
            let output = if name == "cioq" { 97 } else { 0 };
            assert_near(data_packets as f64, (2_000 + 2 - 194 - output) as f64, 0.005, name);
            let received = packets_delivered + if recovers { recovered(&outcome).1 } else { 0 };
            // With recovery, packets behind a lost one wait for it at the host.
            let held = if recovers { packets_inside.saturating_sub(194 + output) } else { 0 };
            assert_near((received + held) as f64, 1_998.0, 0.004, name);
            assert!(packets_inside >= 2 * 97 - 4, "{name}: the buffers are full, {packets_inside}");
        }
    }
}

/// Two flows use the lossless lane, and two the lossy one. Only the lossless lane is paused, and only the
/// lossy one loses packets.
#[test]
fn other_lanes_pause_and_lose_nothing() {
    let (topology, mut config) = overload();
    config.lanes.count = 2;
    let with_level =
        |sl: u8| ["H1", "H2"].map(|from| Flow { name: Some(format!("{from} {sl}")), sl, ..flow(from, "H3") });
    config.flows = [with_level(0), with_level(1)].concat();
    for shared in [None, Some(SharedMemory { memory: Some(Bytes(200_000)), ..SharedMemory::default() })] {
        config.flow_control = FlowControl::Pfc(Pfc { lossy_lanes: vec![1], shared, ..Pfc::default() });
        let outcome = run(&topology, &config);
        assert!(losses(&outcome).data_packets > 100);
        let table = outcome.tables.iter().find(|table| table.name == "losses").unwrap();
        let of = |name| table.columns.iter().find(|column| column.name == name).map(|column| &column.values);
        assert_eq!(of("dropped_packets"), of("data_packets"), "no link fails");
        let paused = outcome.tables.iter().find(|table| table.name == "pauses").unwrap();
        let lanes = paused.columns.iter().find(|column| column.name == "vl").unwrap();
        let Values::U32(lanes) = &lanes.values else { panic!("no numbers") };
        assert!(!lanes.is_empty() && lanes.iter().all(|&lane| lane == 0), "{lanes:?}");
        let of_lane = |flows: &[Flow]| run(&topology, &Config { flows: flows.to_vec(), ..config.clone() });
        let (lossless, lossy) = (of_lane(&config.flows[..2]), of_lane(&config.flows[2..]));
        assert_eq!(losses(&lossless), LossSummary { dropped_packets: Some(0), ..LossSummary::default() });
        let pauses = |outcome: &Outcome| outcome.summary.pauses.as_ref().unwrap().pause_frames;
        assert!(pauses(&lossless) > 0 && pauses(&lossy) == 0);
    }
}

/// The remaining networks have the same tables with and without rerouting.
#[test]
fn remaining_networks_lack_links_that_are_down_and_have_routes_around_them() {
    let topology =
        topology(r#"{"kind": "two-level-fat-tree", "leaves": 3, "spines": 3, "hosts_per_leaf": 4}"#);
    let tables = tables(&topology);
    let mut config = config(us(100));
    config.events = vec![down("L1.1:5", us(10), us(50)), down("L1.2:6", us(30), us(10))];
    let networks = |config: &Config| {
        let plan = FaultPlan::of(config, &topology, &tables).unwrap();
        plan.remaining_networks(&topology, &tables).collect::<Vec<_>>()
    };
    let without = networks(&config);
    config.rerouting.delay = Some(us(5));
    let with = networks(&config);
    assert_eq!(with.iter().map(|one| one.time).collect::<Vec<_>>(), [us(10), us(30), us(40), us(60)]);
    assert_eq!(with.iter().map(|one| one.worse.len()).collect::<Vec<_>>(), [1, 1, 0, 0]);
    let missing = with.iter().map(|one| topology.links.len() - one.topology.links.len());
    assert_eq!(missing.collect::<Vec<_>>(), [1, 2, 1, 0]);
    assert_eq!(with, without, "the same networks and tables");
    assert!(with[0].tables != with[1].tables && with[0].tables != tables);
    assert!(with[3].tables == tables && with[0].tables == with[2].tables);
}

/// Link-level retry without errors does not affect losses: a link that goes down discards its retry state.
#[test]
fn links_with_retry_lose_the_same_packets_when_they_go_down() {
    let (topology, mut config) = three_switches(us(200));
    config.flows = vec![flow("A", "B"), Flow { rate: Some(Rate::from_gbit(3)), ..flow("B", "A") }];
    config.events = vec![
        Event { every: Some(us(31)), ..down("S2:2", us(20), us(7)) },
        Event { every: Some(us(43)), ..down("A", us(40), us(3)) },
    ];
    for recovery in [None, Some(Recovery::new(RecoveryKind::SelectiveRepeat, us(20)))] {
        config.recovery = recovery;
        config.link = LinkConfig::default();
        let without = run_in_all_switches(&topology, &config);
        config.link.retry = Some(LinkRetry::default());
        for ((name, with), (_, without)) in run_in_all_switches(&topology, &config).iter().zip(&without) {
            assert!(losses(with).data_packets > 20, "{name}");
            assert_eq!((losses(with), latency(with)), (losses(without), latency(without)), "{name}");
            assert_eq!(with.summary.packets_delivered, without.summary.packets_delivered, "{name}");
        }
    }
}

/// Frames of the replay buffer are lost once, and credits return, which debug builds check.
#[test]
fn frames_that_wait_for_a_repetition_are_lost_when_their_link_goes_down() {
    let (topology, mut config) = three_switches(us(1_000));
    config.flows = vec![flow("A", "B"), flow("B", "A")];
    config.link = LinkConfig { error_rate_ppb: 200_000_000, retry: Some(LinkRetry::default()) };
    config.measure.interval = us(10);
    for links in ["S2:2", "A", "S3:2"] {
        config.events = vec![Event { every: Some(us(20)), ..down(links, us(5), us(2)) }];
        for (name, outcome) in run_in_all_switches(&topology, &config) {
            let Summary { packets_delivered, retries, .. } = &outcome.summary;
            let (lost, bad) = (losses(&outcome).data_packets, retries.as_ref().unwrap().bad);
            assert!(
                lost > 50 && bad > 100 && *packets_delivered > 300,
                "{name}: {lost}, {bad}, {packets_delivered}"
            );
        }
    }
}

/// Errors of a link with retry cost time, but no packet is lost.
#[test]
fn frames_that_errors_damage_are_sent_again_with_retry() {
    let (topology, mut config) = ten_packets();
    let errors = Event { loss_ppb: Some(500_000_000), ..event(EventKind::Errors, "S2:2", us(0), us(100)) };
    config.events = vec![errors];
    config.link.retry = Some(LinkRetry::default());
    let outcome = run(&topology, &config);
    let bad = outcome.summary.retries.unwrap().bad;
    assert!(bad > 3 && outcome.summary.losses.is_none());
    assert_eq!(outcome.summary.packets_delivered, 10);
    config.link.retry = None;
    assert!(losses(&run(&topology, &config)).data_packets > 2);
}

#[test]
fn samples_name_the_links_that_are_down() {
    let (topology, mut config) = ten_packets();
    config.measure.interval = us(10);
    config.events = vec![down("S2:2", us(15), us(20))];
    let mut simulation = Simulation::new(&topology, &tables(&topology), &config).unwrap();
    let mut found = Vec::new();
    while !simulation.advance(1).unwrap().done {
        let latest = simulation.latest();
        if found.last().is_none_or(|(time, _)| *time < latest.time_ns) {
            found.push((latest.time_ns, latest.links_down.len()));
        }
    }
    let down_at = |ns: u64| found.iter().find(|(time, _)| *time == ns).unwrap().1;
    assert_eq!([10_000, 20_000, 30_000, 40_000].map(down_at), [0, 2, 2, 0], "both directions");
}

/// All mechanisms with a reaction that supports loss recovery.
fn reactions() -> impl Iterator<Item = Mechanism> {
    let has_none = [Mechanism::None, Mechanism::Saa, Mechanism::Fbicm, Mechanism::Hfdi];
    let isolates = [Mechanism::Ccfit, Mechanism::Ecocc];
    Mechanism::ALL.into_iter().filter(move |one| !has_none.contains(one) && !isolates.contains(one))
}

/// Packets and control packets of both directions are lost. Reactions do not count lost packets as in flight,
/// and requests are repeated. All data arrive, and after the losses the flows are as fast as without
/// losses.
#[test]
fn every_reaction_recovers_from_losses() {
    let (topology, mut config) = three_switches(us(6_000));
    config.measure.interval = us(500);
    let errors = Event { loss_ppb: Some(20_000_000), ..event(EventKind::Errors, "S2:2", us(0), us(3_000)) };
    let finite = |from: &str| {
        let to = if from == "A" { "B" } else { "A" };
        Flow { total: Some(Bytes(100_000)), ..flow(from, to) }
    };
    for kind in [RecoveryKind::SelectiveRepeat, RecoveryKind::GoBackN] {
        config.recovery = Some(Recovery::new(kind, us(40)));
        for mechanism in reactions() {
            config.congestion.mechanism = mechanism;
            config.events = vec![errors.clone()];
            config.flows = ["A", "B"].map(&finite).to_vec();
            config.warmup = us(0);
            let summary = run(&topology, &config).summary;
            assert_eq!(
                (summary.packets_delivered, summary.packets_inside),
                (200, 0),
                "{mechanism:?}, {kind:?}"
            );
            config.flows = vec![Flow { start: us(3_000), ..flow("A", "B") }, flow("B", "A")];
            config.warmup = us(5_000);
            config.events = vec![Event { loss_ppb: Some(1), ..errors.clone() }];
            let without = run(&topology, &config);
            assert_eq!(losses(&without).data_packets, 0, "{mechanism:?}");
            config.events = vec![errors.clone()];
            let outcome = run(&topology, &config);
            let (lost, resent) = (losses(&outcome), recovered(&outcome).0);
            assert!(
                lost.data_packets > 10 && lost.control_packets > 10 && resent >= lost.data_packets,
                "{lost:?}"
            );
            let received = |outcome: &Outcome| {
                outcome.summary.flows.iter().map(|flow| flow.received_gbit_s).collect::<Vec<_>>()
            };
            let (rates, before) = (received(&outcome), received(&without));
            for (rate, before) in rates.iter().zip(&before) {
                assert!(
                    (0.97 * before..1.03 * before).contains(rate),
                    "{mechanism:?}, {kind:?}: {rates:?}, {before:?}"
                );
            }
        }
    }
}

/// Transfers that lost packets finish only with recovery.
#[test]
fn transfers_that_lost_packets_are_unfinished_without_recovery() {
    let (topology, mut config) = three_switches(us(100));
    let listed = |total| Flow { total: Some(Bytes(total)), message: Some(Bytes(5_000)), ..flow("A", "B") };
    config.flows = vec![listed(20_000)];
    config.measure.transfers = Some(true);
    // Packet 7 belongs to the second of four messages.
    config.events = vec![down("S1:2", us(7) + Time::from_ns(200), Time(1))];
    let unfinished = |config: &Config| run(&topology, config).summary.transfers.unwrap().unfinished;
    assert_eq!(unfinished(&config), 1);
    for kind in [RecoveryKind::SelectiveRepeat, RecoveryKind::GoBackN] {
        config.recovery = Some(Recovery::new(kind, us(10)));
        assert_eq!(unfinished(&config), 0);
    }
}

/// The time on an empty network refers to the usual rates, even if a link or both directions of a host are
/// slower until the end.
#[test]
fn ideal_times_do_not_depend_on_changes() {
    let (topology, mut config) = ten_packets();
    config.measure.transfers = Some(true);
    let late =
        |kind| Event { rate: Some(Rate::from_gbit(1)), lasts: None, ..event(kind, "S2:2", us(97), us(1)) };
    let of_host = |name: &str| Event {
        links: Vec::new(),
        hosts: vec![name.to_owned()],
        shared: true,
        ..late(EventKind::Drain)
    };
    config.events = vec![late(EventKind::Rate), of_host("A"), of_host("B")];
    let outcome = run(&topology, &config);
    let column = |name: &str| {
        let table = outcome.tables.iter().find(|table| table.name == "transfers").unwrap();
        let column = table.columns.iter().find(|column| column.name == name).unwrap();
        let Values::F64(values) = &column.values else { panic!("no numbers") };
        values.clone()
    };
    assert_eq!(column("ideal_ns"), [1_550.0; 10]);
    assert_eq!(column("slowdown"), [1.0; 10]);
}

/// The host or the switch that changes, the start and the length in nanoseconds, and the kind.
type Change = (usize, u64, u64, u8);

/// The kind of flow control, the changes, and the load.
fn changing() -> impl Strategy<Value = (u8, Vec<Change>, RandomLoad)> {
    let event = (0..12usize, 0..60_000u64, 1..20_000u64, 0..8u8);
    let events = prop::collection::vec(event, 1..6);
    let flows = prop::collection::vec((0..8usize, 0..8usize, 0..2u8), 1..6);
    let network = (prop::collection::vec(any::<u8>(), 40), 2..5usize, 2..8usize, 1..3u8, 0..3usize);
    (0..3u8, events, network, flows, any::<bool>()).prop_map(|(kind, events, network, flows, cc)| {
        let (seed, switches, hosts, lanes, architecture) = network;
        let (stop, uniform_stop, message) = (us(60), us(50), 3_000);
        let load =
            RandomLoad { seed, switches, hosts, lanes, architecture, cc, message, flows, stop, uniform_stop };
        (kind, events, load)
    })
}

fn run_changing(kind: u8, events: &[Change], load: &RandomLoad, threads: u16) -> Result<Outcome, ModelError> {
    let hosts = load.hosts;
    run_random_load(us(80), load.clone(), |config| {
        let of = |&(node, start, lasts, kind): &Change| {
            let (is_odd, kind) = (kind >= 4, kind % 4);
            let kinds = [EventKind::Down, EventKind::Rate, EventKind::Stall, EventKind::Drain];
            let kind = match kinds[usize::from(kind)] {
                EventKind::Stall if is_odd => EventKind::Stop,
                kind => kind,
            };
            let (start, lasts) = (Time::from_ns(start), Time::from_ns(lasts));
            let rate = matches!(kind, EventKind::Rate | EventKind::Drain).then(|| Rate::from_gbit(5));
            let host = vec![format!("H{}", node % hosts)];
            let base = Event { links: Vec::new(), rate, ..event(kind, "", start, lasts) };
            match kind {
                EventKind::Stop => Event { hosts: host, lasts: None, ..base },
                EventKind::Drain => Event { hosts: host, shared: is_odd, ..base },
                EventKind::Stall => Event { hosts: host, ..base },
                _ if node < hosts => Event { links: host, ..base },
                _ => Event { switches: vec![format!("S{}", node % load.switches)], ..base },
            }
        };
        config.events = events.iter().map(of).collect();
        config.rerouting.delay = events.iter().any(|event| event.3 >= 4).then_some(us(4));
        // With new routes, packets may overtake each other.
        let repeats = [RecoveryKind::SelectiveRepeat, RecoveryKind::GoBackN]
            [usize::from(config.rerouting.delay.is_none())];
        config.recovery = load.seed[0]
            .is_multiple_of(2)
            .then_some(Recovery::new(repeats, us(u64::from(load.seed[1] % 30 + 1))));
        config.threads = threads;
        config.measure.interval = us(3);
        if kind == 1 {
            config.flow_control = FlowControl::OnOff(Default::default());
            config.switch.buffer = Bytes(1 << 18);
            config.host.buffer = Bytes(1 << 18);
        } else if kind == 0 && load.seed[2].is_multiple_of(3) {
            config.link = LinkConfig { error_rate_ppb: 10_000_000, retry: Some(LinkRetry::default()) };
        } else if kind == 2 && load.architecture == 0 {
            config.flow_control = FlowControl::Pfc(Pfc { xoff: Some(Bytes(20_000)), ..Pfc::default() });
            config.switch.arbitration = Some(Arbitration::Fcfs);
            config.switch.buffer = Bytes(1 << 20);
            config.host.buffer = Bytes(1 << 20);
            config.host.drain_rate = Some(Rate::from_gbit(4));
        } else if kind == 2 && load.architecture == 1 {
            config.switch.architecture = Some(Architecture::Voq);
            config.switch.queues = Some(Queues::PerDestination);
            config.switch.queue_buffer = Some(Bytes(8_192));
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Debug builds check all counts and credits at every sample.
    #[test]
    fn counts_and_credits_are_right_and_results_do_not_depend_on_threads((kind, events, load) in changing()) {
        let alone = run_changing(kind, &events, &load, 1);
        // New routes may have cycles.
        let is_fine = matches!(alone, Ok(_) | Err(ModelError::Deadlock { .. }));
        prop_assert!(is_fine, "{:?}", alone.err());
        for threads in [2, 4] {
            prop_assert!(alone == run_changing(kind, &events, &load, threads), "{threads} threads");
        }
    }
}
