//! Closed forms that every simulator of a lossless network must match.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use crate::common::*;
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::config::Architecture;
use silvan_fabric::queueing::Queues;
use silvan_network::traffic::{Arrivals, Flow, Pattern};

/// Mean latency since injection of the first class, in nanoseconds.
fn since_injection(outcome: &silvan_fabric::outcome::Outcome) -> f64 {
    outcome.summary.latency.iter().find(|latency| latency.since == "injection").unwrap().mean_ns
}

#[test]
fn zero_load_latency_is_hops_plus_serialization() {
    let topology = topology(r#"{"kind": "dumbbell", "link_delay": "7 ns", "trunk_rate": "16 Gbit/s"}"#);
    for (bytes, serialization) in [(64, 32.0), (2048, 1024.0), (1000, 500.0)] {
        for (to, hops) in [("H2", 1.0), ("H5", 2.0)] {
            let mut config = config(us(100));
            config.flows = vec![Flow { total: Some(Bytes(bytes)), ..flow("H1", to) }];
            let outcome = run(&topology, &config);
            let expected = hops * 100.0 + (hops + 1.0) * 7.0 + serialization;
            assert_eq!(since_injection(&outcome), expected, "{bytes} bytes to {to}");
        }
    }
}

/// Every hop, including host links, takes the delay of the link, and every switch adds its latency.
#[test]
fn zero_load_latency_on_multistage_networks() {
    for (links, paths) in [
        ("unidirectional", [("H1", "H2", 3.0), ("H1", "H16", 3.0), ("H64", "H5", 3.0)]),
        ("bidirectional", [("H1", "H2", 1.0), ("H1", "H16", 3.0), ("H64", "H5", 5.0)]),
    ] {
        let topology = topology(&format!(
            r#"{{"kind": "k-ary-n-fly", "k": 4, "n": 3, "links": "{links}", "link_delay": "7 ns"}}"#
        ));
        for (from, to, switches) in paths {
            for (bytes, serialization) in [(278, 139.0), (2048, 1024.0)] {
                let mut config = config(us(100));
                config.flows = vec![Flow { total: Some(Bytes(bytes)), ..flow(from, to) }];
                let expected = switches * 100.0 + (switches + 1.0) * 7.0 + serialization;
                let outcome = run(&topology, &config);
                assert_eq!(since_injection(&outcome), expected, "{links}, {bytes} bytes {from} to {to}");
            }
        }
    }
}

/// In a network with unidirectional links, packets may leave a switch through the port through which they
/// arrived. VOQ switches and switches with one read port per input permit this.
#[test]
fn multistage_networks_carry_the_identity_at_full_rate() {
    let topology = topology(r#"{"kind": "k-ary-n-fly", "k": 2, "n": 3}"#);
    for architecture in [Architecture::Voq, Architecture::Iq] {
        for by in [1, 4] {
            let mut config = config(us(1_000));
            config.warmup = us(100);
            config.switch.architecture = Some(architecture);
            config.traffic = vec![pattern(Pattern::Shift { by })];
            for host in &run(&topology, &config).summary.hosts {
                assert_near(host.received_gbit_s, 16.0, 0.005, &format!("{} under shift {by}", host.host));
            }
        }
    }
}

/// The hot flows 000 -> 111 and 011 -> 111 share an output of the second stage equally. Traffic from other
/// hosts to host 101 crosses the same switch and is not blocked.
#[test]
fn the_root_of_two_hot_flows_is_at_the_second_stage() {
    for links in ["unidirectional", "bidirectional"] {
        let topology = topology(&format!(r#"{{"kind": "k-ary-n-fly", "k": 2, "n": 3, "links": "{links}"}}"#));
        let mut config = config(us(5_000));
        config.warmup = us(1_000);
        config.flows = vec![flow("H1", "H8"), flow("H4", "H8"), flow("H2", "H6"), flow("H3", "H6")];
        let outcome = run(&topology, &config);
        for rate in rates(&outcome) {
            assert_near(rate, 8.0, 0.01, links);
        }
        assert!(outcome.account.iter().any(|line| line.contains("S2.2:")), "{links}: {:?}", outcome.account);
    }
}

#[test]
fn a_faster_link_starts_late_enough_to_send_without_gaps() {
    let topology = topology(r#"{"kind": "dumbbell", "link_delay": "7 ns"}"#);
    let mut config = config(us(100));
    config.flows = vec![Flow { total: Some(Bytes(2048)), ..flow("H1", "H5") }];
    // On the trunk, the packet takes 512 ns, so the switch must wait until enough of the packet has
    // arrived. After the trunk, the packet takes 1024 ns again.
    assert_eq!(since_injection(&run(&topology, &config)), 200.0 + 21.0 + 512.0 + 1024.0);
}

#[test]
fn after_a_slow_link_fast_links_wait_for_the_tail() {
    let topology = topology(
        r#"{"kind": "custom", "hosts": ["A", "B"], "link_delay": "1 ns",
            "switches": [{"name": "S", "ports": 2}, {"name": "T", "ports": 2}],
            "links": [{"from": "A", "to": "S"}, {"from": "S", "to": "T", "rate": "4 Gbit/s"}, {"from": "T", "to": "B"}]}"#,
    );
    let mut config = config(us(100));
    config.flows = vec![Flow { total: Some(Bytes(2000)), ..flow("A", "B") }];
    assert_eq!(since_injection(&run(&topology, &config)), 4000.0 + 200.0 + 3.0);
}

#[test]
fn parking_lot_shares_and_the_victim() {
    let (topology, mut config) = testbed(us(20_000));
    config.warmup = us(5_000);
    let shares: Vec<f64> = rates(&run(&topology, &config)).iter().map(|rate| rate / 13.0).collect();
    for (share, expected) in shares.iter().zip([1.0 / 6.0, 1.0 / 6.0, 1.0 / 6.0, 1.0 / 3.0, 1.0 / 3.0]) {
        assert_near(*share, expected, 0.005, "share");
    }
}

#[test]
fn the_farthest_hosts_of_a_tree_get_the_least() {
    let topology = topology(r#"{"kind": "k-ary-n-tree", "k": 2, "n": 3}"#);
    let mut config = config(us(20_000));
    config.warmup = us(2_000);
    config.flows = (2..=8).map(|host| flow(&format!("H{host}"), "H1")).collect();
    let rates = rates(&run(&topology, &config));
    let expected = [2.0, 8.0, 8.0, 16.0, 16.0, 16.0, 16.0].map(|parts| 16.0 / parts);
    for (host, (rate, expected)) in rates.iter().zip(expected).enumerate() {
        assert_near(*rate, expected, 0.005, &format!("H{}", host + 2));
    }
}

#[test]
fn fifo_input_queues_saturate_as_karol_et_al_found() {
    for (hosts, expected) in [(2, 0.75), (4, 0.6552), (8, 0.6184)] {
        let topology = topology(&format!(r#"{{"kind": "star", "hosts": {hosts}}}"#));
        let mut config = config(us(30_000));
        config.warmup = us(500);
        config.switch.architecture = Some(Architecture::Iq);
        config.switch.queues = Some(Queues::Single);
        config.traffic = vec![pattern(Pattern::Uniform { include_self: true })];
        let throughput = run(&topology, &config).summary.throughput_gbit_s / (16.0 * f64::from(hosts));
        assert_near(throughput, expected, 0.01, &format!("{hosts} x {hosts}"));
        config.switch.queues = Some(Queues::PerOutput);
        // The queues share the buffer of their input, which must be large enough to keep all of them
        // backlogged.
        config.switch.buffer = Bytes(4 << 20);
        config.warmup = us(5_000);
        let throughput = run(&topology, &config).summary.throughput_gbit_s / (16.0 * f64::from(hosts));
        assert!(throughput > 0.97, "iSLIP with a queue per output: {throughput}");
    }
}

#[test]
fn a_source_with_random_arrivals_is_an_m_d_1_queue() {
    let topology = topology(r#"{"kind": "star", "hosts": 2}"#);
    for (load, tolerance) in [(0.5, 0.03), (0.8, 0.05)] {
        let mut config = config(us(200_000));
        config.flows = vec![Flow {
            rate: Some(Rate((16e9 * load) as u64)),
            arrivals: Arrivals::Poisson,
            ..flow("H1", "H2")
        }];
        let outcome = run(&topology, &config);
        let latency = &outcome.summary.latency;
        let waiting = (latency[0].mean_ns - latency[1].mean_ns) / 1024.0;
        assert_near(waiting, load / (2.0 * (1.0 - load)), tolerance, &format!("waiting at {load}"));
    }
}

#[test]
fn d_mod_k_carries_shifts_at_full_rate() {
    let topology = topology(r#"{"kind": "k-ary-n-tree", "k": 3, "n": 2}"#);
    for by in 1..9 {
        let mut config = config(us(1_000));
        config.warmup = us(100);
        config.traffic = vec![pattern(Pattern::Shift { by })];
        let outcome = run(&topology, &config);
        for host in &outcome.summary.hosts {
            assert_near(host.received_gbit_s, 16.0, 0.005, &format!("{} under shift {by}", host.host));
        }
    }
}

#[test]
fn a_flow_with_a_total_reports_its_completion_time() {
    let topology = topology(r#"{"kind": "star", "hosts": 2, "link_delay": "10 ns"}"#);
    let mut config = config(us(1_000));
    let total = Bytes(100 * 2048 + 100);
    config.flows = vec![Flow { total: Some(total), start: us(10), ..flow("H1", "H2") }];
    let flow = &run(&topology, &config).summary.flows[0];
    assert_eq!(flow.received_bytes, total.0);
    // The sum of 10 us, 100 full packets and 100 bytes at 2 bytes per ns, two links and one switch.
    assert_eq!(flow.completed_ns, Some(10_000 + 100 * 1024 + 50 + 120));
}

#[test]
fn messages_cost_their_overhead() {
    let topology = topology(r#"{"kind": "star", "hosts": 2}"#);
    let mut config = config(us(10_000));
    config.host.message_overhead = Time::from_ns(1_000);
    config.flows = vec![Flow { message: Some(Bytes(64)), ..flow("H1", "H2") }];
    assert_near(rates(&run(&topology, &config))[0], 64.0 * 8.0 / 1_032.0, 0.001, "small messages");
}
