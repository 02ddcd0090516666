//! The definitions of the measured quantities.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use crate::common::*;
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::outcome::{Outcome, Values};
use silvan_fabric::queueing::HostQueues;
use silvan_network::traffic::Flow;

fn column<'a>(outcome: &'a Outcome, table: &str, column: &str) -> &'a Values {
    let table = outcome.tables.iter().find(|known| known.name == table).unwrap();
    &table.columns.iter().find(|known| known.name == column).unwrap().values
}

fn sum(outcome: &Outcome, table: &str, name: &str) -> u64 {
    match column(outcome, table, name) {
        Values::U64(values) => values.iter().sum(),
        Values::U32(values) => values.iter().map(|&value| u64::from(value)).sum(),
        _ => panic!("{name} is not a count"),
    }
}

#[test]
fn received_counts_drained_packets() {
    let topology = topology(r#"{"kind": "dumbbell"}"#);
    let mut config = config(us(1_000));
    config.host.drain_rate = Some(Rate(100_000_000));
    config.host.buffer = Bytes(1 << 20);
    config.flows = vec![flow("H1", "H4")];
    let outcome = run(&topology, &config);
    assert_near(rates(&outcome)[0], 0.1, 0.25, "Gbit/s received");
    assert!(rates(&outcome)[0] <= 0.1);
    let summary = &outcome.summary;
    assert_eq!(sum(&outcome, "flows", "received_bytes"), summary.flows[0].received_bytes);
    assert!(summary.classes[0].last_delivery_ns.unwrap() <= summary.simulated_ns);
    assert!(summary.packets_inside > 400, "the packets of a full buffer: {}", summary.packets_inside);
}

/// Traffic that waits for a number of deliveries starts when these packets have been drained.
#[test]
fn triggers_wait_for_the_drain() {
    let topology = topology(r#"{"kind": "star", "hosts": 4}"#);
    let mut config = config(us(1_000));
    config.packet.mtu = Bytes(2_000);
    config.host.drain_rate = Some(Rate::from_gbit(1));
    config.host.buffer = Bytes(1 << 20);
    let second = Flow { start_after_packets: Some(10), ..flow("H3", "H4") };
    config.flows = vec![flow("H1", "H2"), second];
    let outcome = run(&topology, &config);
    // Ten packets of 2000 bytes at 1 Gbit/s take 160 us, starting with the arrival of the first
    // one.
    let started = outcome.summary.triggers[0].started_ns.unwrap();
    assert!((160_000..161_000).contains(&started), "{started}");
}

#[test]
fn sent_counts_packets_on_the_link() {
    let topology = topology(r#"{"kind": "star", "hosts": 4, "link_rate": "8 Gbit/s"}"#);
    let mut config = config(us(100));
    config.host.queues = Some(HostQueues::Single);
    config.host.injection_rate = Some(Rate::from_gbit(40));
    config.host.output_buffer = Bytes(1 << 20);
    config.flows = vec![flow("H1", "H2"), flow("H3", "H2")];
    let outcome = run(&topology, &config);
    let full = 2_048.0 * 8.0 / 100_000.0;
    for host in &outcome.summary.hosts {
        assert!(host.sent_gbit_s <= 8.0 + full, "{}: {}", host.host, host.sent_gbit_s);
    }
}

#[test]
fn utilisation_is_at_most_one() {
    let topology = topology(r#"{"kind": "star", "hosts": 4, "link_rate": "13 Gbit/s"}"#);
    for interval in [700, 1_000, 3_333, 100_000] {
        let mut config = config(us(200));
        config.measure.interval = Time::from_ns(interval);
        config.flows = vec![flow("H1", "H2"), flow("H3", "H2"), flow("H2", "H4")];
        let outcome = run(&topology, &config);
        let Values::F64(shares) = column(&outcome, "links", "utilisation") else { panic!() };
        assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{interval} ns");
        let busy = shares.iter().filter(|share| **share > 0.999).count();
        assert!(busy * 5 > shares.len(), "{busy} of {}", shares.len());
    }
}

/// A packet that several outputs mark counts as one marked packet.
#[test]
fn each_marked_packet_counts_once() {
    let (topology, mut config) = testbed(us(3_000));
    config.congestion = ib_cc();
    let outcome = run(&topology, &config);
    let summary = &outcome.summary;
    let delivered: u64 = summary.classes.iter().map(|class| class.marked_packets).sum();
    assert!(summary.fecn_marks > 100);
    assert!(delivered <= summary.fecn_marks && summary.fecn_marks <= delivered + summary.packets_inside);
    assert_eq!(sum(&outcome, "links", "fecn_marks"), summary.fecn_marks);
    assert_eq!(sum(&outcome, "network", "fecn_marks"), summary.fecn_marks);
}

/// The order of `[[flow]]` in the file does not affect the results.
#[test]
fn flows_are_served_in_the_order_of_their_names() {
    use silvan_fabric::config::Architecture;
    use silvan_network::traffic::Arrivals;
    let topology = topology(r#"{"kind": "star", "hosts": 6}"#);
    for architecture in [Architecture::Voq, Architecture::Iq, Architecture::Cioq] {
        let mut config = config(us(300));
        config.switch.architecture = Some(architecture);
        let named = |at: usize| Flow {
            name: Some(format!("f{at}")),
            rate: at.is_multiple_of(2).then_some(Rate::from_gbit(3)),
            arrivals: if at.is_multiple_of(2) { Arrivals::Poisson } else { Arrivals::Periodic },
            ..flow(&format!("H{}", 1 + at % 3), &format!("H{}", 4 + at % 2))
        };
        config.flows = (0..12).map(named).collect();
        let told = |outcome: &Outcome| {
            let mut flows = outcome.summary.flows.clone();
            flows.sort_by(|a, b| a.flow.cmp(&b.flow));
            format!("{flows:?} {}", outcome.summary.packet_hops)
        };
        let first = told(&run(&topology, &config));
        config.flows.reverse();
        assert_eq!(told(&run(&topology, &config)), first, "{architecture:?}");
        config.flows.rotate_left(5);
        assert_eq!(told(&run(&topology, &config)), first, "{architecture:?}");
    }
}
