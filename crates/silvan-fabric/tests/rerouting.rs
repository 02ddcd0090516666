//! New forwarding tables after links have failed: which packets are lost, and whether the others use the new routes.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use crate::common::*;
use crate::faults::{down, latency, losses, ten_packets};
use silvan_engine::{Bytes, Time};
use silvan_fabric::config::{AdaptiveRouting, Config, Ecmp, RoutePer};
use silvan_fabric::faults::{Event, Rerouting};
use silvan_fabric::outcome::Summary;
use silvan_fabric::queueing::{Memory, Queues};
use silvan_network::topology::Topology;

/// A - L1 - { S1, S2 } - L2 - B, with the rates, delays and latencies of the network of [`ten_packets`].
fn two_spines() -> (Topology, Config) {
    let topology = topology(
        r#"{"kind": "custom", "hosts": ["A", "B"], "link_delay": "100 ns", "link_rate": "8 Gbit/s",
            "switches": [{"name": "L1", "ports": 3}, {"name": "S1", "ports": 2}, {"name": "S2", "ports": 2},
                         {"name": "L2", "ports": 3}],
            "links": [{"from": "A", "to": "L1:1"}, {"from": "L1:2", "to": "S1:1"}, {"from": "L1:3", "to": "S2:1"},
                      {"from": "S1:2", "to": "L2:2"}, {"from": "S2:2", "to": "L2:3"}, {"from": "L2:1", "to": "B"}]}"#,
    );
    let (_, mut config) = ten_packets();
    config.rerouting.delay = Some(us(20));
    (topology, config)
}

/// For each of two ports, the number of packets that are lost if its link goes down at 15 us. Checks that the
/// numbers are equal in all kinds of switches.
fn lost_at(ports: [&str; 2], topology: &Topology, config: &Config, lasts: Option<Time>) -> [u64; 2] {
    ports.map(|port| {
        let mut config =
            Config { events: vec![Event { lasts, ..down(port, us(15), us(1)) }], ..config.clone() };
        config.switch.memory = Some(Memory::Shared);
        let lost = run_in_all_switches(topology, &config).into_iter().map(|(name, outcome)| {
            let Summary { packets_delivered, packets_inside, .. } = outcome.summary;
            assert_eq!(packets_delivered + packets_inside + losses(&outcome).data_packets, 10, "{name}");
            assert_eq!(latency(&outcome).1, 1_550, "{name}: both routes take the same time");
            losses(&outcome).data_packets
        });
        let lost: Vec<u64> = lost.collect();
        assert!(lost.iter().all(|&one| one == lost[0]), "{lost:?}");
        lost[0]
    })
}

/// Packet k reaches L1 at 10 k us + 150 ns. The flow uses one of the spines.
#[test]
fn new_tables_take_effect_after_the_delay() {
    let (topology, mut config) = two_spines();
    let sorted = |mut lost: [u64; 2]| {
        lost.sort_unstable();
        lost
    };
    for (delay_us, lost) in [(5, 0), (6, 1), (20, 2), (60, 6), (1_000, 8)] {
        config.rerouting.delay = Some(us(delay_us));
        for ports in [["L1:2", "L1:3"], ["L2:2", "L2:3"]] {
            assert_eq!(
                sorted(lost_at(ports, &topology, &config, None)),
                [0, lost],
                "{delay_us} us, {ports:?}"
            );
        }
    }
    config.rerouting.delay = Some(us(20));
    // In the first case, the link is up again before the tables change; in the second case, only afterwards.
    assert_eq!(sorted(lost_at(["L1:2", "L1:3"], &topology, &config, Some(us(7)))), [0, 1]);
    assert_eq!(sorted(lost_at(["L1:2", "L1:3"], &topology, &config, Some(us(40)))), [0, 2]);
}

/// A sends without pause. With the memory of one packet per destination, the link of each spine alternately waits for
/// credit, also after the tables have changed.
#[test]
fn queues_per_destination_use_the_credit_of_new_routes() {
    let (topology, mut config) = two_spines();
    config.flows = vec![flow("A", "B")];
    config.switch.queues = Some(Queues::PerDestination);
    config.switch.queue_buffer = Some(Bytes(1_100));
    config.measure.interval = us(3);
    let delivered = |config: &Config| {
        let alone = run(&topology, config);
        let threads = run(&topology, &Config { threads: 2, ..config.clone() });
        assert_eq!(alone, threads);
        let lost = alone.summary.losses.map_or(0, |losses| losses.data_packets);
        alone.summary.packets_delivered + lost
    };
    let undisturbed = delivered(&config);
    for port in ["L1:2", "L1:3"] {
        config.events = vec![Event { lasts: None, ..down(port, us(15), us(1)) }];
        let events = delivered(&config);
        assert!(undisturbed.abs_diff(events) <= 2, "{port}: {events} of {undisturbed}");
    }
}

#[test]
fn a_switch_stops_using_its_own_ports_after_their_delay() {
    let (topology, mut config) = two_spines();
    config.ecmp = Some(Ecmp::default());
    for (delay_us, lost) in [(5, 0), (6, 1), (30, 3)] {
        config.rerouting = Rerouting { port_delay: Some(us(delay_us)), ..Rerouting::default() };
        let mut own = lost_at(["L1:2", "L1:3"], &topology, &config, None);
        own.sort_unstable();
        assert_eq!(own, [0, lost], "{delay_us} us");
        // The first leaf has no information about the links of the other one.
        let mut far = lost_at(["L2:2", "L2:3"], &topology, &config, None);
        far.sort_unstable();
        assert_eq!(far, [0, 8]);
    }
}

#[test]
fn adaptive_routing_avoids_ports_that_are_down() {
    let (topology, mut config) = two_spines();
    config.adaptive_routing =
        Some(AdaptiveRouting { enabled: true, per: RoutePer::Packet, ..AdaptiveRouting::default() });
    config.rerouting = Rerouting { port_delay: Some(us(5)), ..Rerouting::default() };
    assert_eq!(lost_at(["L1:2", "L1:3"], &topology, &config, None), [0, 0]);
    config.rerouting = Rerouting { delay: Some(us(5)), ..Rerouting::default() };
    assert_eq!(lost_at(["L2:2", "L2:3"], &topology, &config, None), [0, 0]);
    config.rerouting = Rerouting::default();
    let lost = lost_at(["L1:2", "L1:3"], &topology, &config, None);
    assert_eq!(
        lost[0] + lost[1],
        8,
        "each packet chooses one of two idle ports, and would choose the other one"
    );
}
