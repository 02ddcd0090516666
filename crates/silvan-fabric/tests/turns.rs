//! The order in which an output selects packets, compared with counts and times of small cases computed by
//! hand.
//!
//! Links carry 2 bytes per nanosecond (16 Gbit/s), so a packet of 2048 bytes takes 1024 ns. A packet's head
//! takes 10 + 100 + 10 ns from one host through the switch to another.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use crate::common::*;
use proptest::prelude::*;
use silvan_congestion::Notification;
use silvan_engine::{Bytes, Time};
use silvan_fabric::config::{Arbitration, Architecture, Config};
use silvan_fabric::lane_tables::{HighLimit, VlArbitration};
use silvan_fabric::outcome::Outcome;
use silvan_fabric::queueing::{HostQueues, Queues};
use silvan_network::topology::Topology;
use silvan_network::traffic::Flow;

const WAY: u64 = 120;
const PACKET: u64 = 1024;

fn star(hosts: u32) -> Topology {
    topology(&format!(
        r#"{{"kind": "star", "hosts": {hosts}, "link_rate": "16 Gbit/s", "link_delay": "10 ns"}}"#
    ))
}

fn ns(ns: u64) -> Time {
    Time(1_000 * ns)
}

/// All kinds of switches, each with a name for messages.
fn switches() -> Vec<(String, Config)> {
    let mut all = Vec::new();
    let kinds = [
        (Architecture::Voq, Arbitration::RoundRobin, None),
        (Architecture::Voq, Arbitration::Fcfs, None),
        (Architecture::Voq, Arbitration::RoundRobin, Some(Queues::Single)),
        (Architecture::Iq, Arbitration::RoundRobin, Some(Queues::PerOutput)),
        (Architecture::Iq, Arbitration::RoundRobin, Some(Queues::Single)),
        (Architecture::Cioq, Arbitration::RoundRobin, None),
        (Architecture::Cioq, Arbitration::RoundRobin, Some(Queues::PerOutput)),
    ];
    for (architecture, arbitration, queues) in kinds {
        let mut one = config(us(200));
        one.switch.architecture = Some(architecture);
        one.switch.arbitration = Some(arbitration);
        one.switch.queues = queues;
        all.push((format!("{architecture:?}, {arbitration:?}, {queues:?}"), one));
    }
    all
}

fn completed(outcome: &Outcome) -> Vec<u64> {
    outcome.summary.flows.iter().map(|flow| flow.completed_ns.unwrap()).collect()
}

fn packets(count: u64) -> Option<Bytes> {
    Some(Bytes(count * 2_048))
}

/// An output with several waiting inputs is never idle, and serves the inputs evenly.
#[test]
fn an_output_is_shared_evenly_and_is_always_busy() {
    for (what, mut config) in switches() {
        config.flows = ["H1", "H2", "H3"].map(|from| Flow { total: packets(20), ..flow(from, "H4") }).into();
        let outcome = run(&star(5), &config);
        let mut times = completed(&outcome);
        times.sort_unstable();
        // Sixty packets leave without a gap. If the crossbar is faster than the links, the first packet
        // leaves slightly later.
        let slack = if what.starts_with("Cioq") { 2 * PACKET } else { 0 };
        assert!((60 * PACKET + WAY..=60 * PACKET + WAY + slack).contains(&times[2]), "{what}: {times:?}");
        // The other flows end at most one turn earlier.
        assert!(times[0] >= times[2] - 2 * PACKET - slack, "{what}: {times:?}");
    }
}

/// A host with little to send does not wait until hosts with much to send have finished.
#[test]
fn a_short_flow_waits_for_one_packet_of_each_other() {
    for (what, mut config) in switches() {
        let short = Flow { start: ns(20_000), total: packets(1), ..flow("H3", "H4") };
        config.flows = vec![flow("H1", "H4"), flow("H2", "H4"), short];
        let outcome = run(&star(5), &config);
        let latency = outcome.summary.flows[2].completed_ns.unwrap() - 20_000;
        if what.contains("Fcfs") {
            // The packet follows all earlier packets: H1 and H2 have sent 20 packets each, because their
            // buffers are large enough, and 20 packets have left.
            let behind = 2 * (20_000 / PACKET + 1) - 20_000 / PACKET;
            let expected = behind * PACKET + PACKET + WAY;
            assert!(latency.abs_diff(expected) <= 2 * PACKET, "{what}: {latency} ns instead of {expected}");
        } else {
            // The packet waits at most for the packet in transmission, one packet of each other flow, and its
            // own transmission. With an output buffer, it also waits for the packets in that buffer.
            let most = if what.starts_with("Cioq") { 40 } else { 4 };
            assert!(latency <= most * PACKET + WAY, "{what}: {latency} ns");
        }
    }
}

/// Flows to different hosts do not affect each other: each takes the same time as on an empty network.
#[test]
fn flows_to_different_outputs_do_not_wait_for_each_other() {
    for (what, mut config) in switches() {
        config.flows = [("H1", "H4"), ("H2", "H5"), ("H3", "H6"), ("H4", "H1"), ("H5", "H2"), ("H6", "H3")]
            .map(|(from, to)| Flow { total: packets(30), ..flow(from, to) })
            .into();
        let outcome = run(&star(6), &config);
        let cioq = what.starts_with("Cioq");
        for time in completed(&outcome) {
            let alone = 30 * PACKET + WAY;
            assert!(time == alone || cioq && (alone..alone + 2 * PACKET).contains(&time), "{what}: {time}");
        }
    }
}

/// The packet at the head of a first-in first-out queue blocks the packets behind it. With queues per output,
/// packets for other outputs do not wait.
#[test]
fn only_first_in_first_out_queues_block_packets_to_idle_outputs() {
    for (what, mut config) in switches() {
        if what.contains("Cioq") {
            continue;
        }
        // H1 and H2 keep the output of H3 busy; every other packet of H1 is for H4, which is idle.
        config.flows = vec![
            Flow { total: packets(20), ..flow("H1", "H3") },
            Flow { total: packets(20), ..flow("H1", "H4") },
            Flow { total: packets(40), ..flow("H2", "H3") },
        ];
        let outcome = run(&star(4), &config);
        let to_idle = completed(&outcome)[1];
        // If nothing blocks the packet, it is the 40th packet of its host. If each packet waits behind a
        // packet to H3, which gets every other turn there, one packet leaves in every four packet times.
        let alone = 40 * PACKET + WAY;
        if what.contains("Single") {
            assert!(to_idle > alone - PACKET, "{what}: {to_idle}");
        } else {
            assert_eq!(to_idle, alone, "{what}");
        }
        // All sixty packets to H3 pass its output, which takes at least this time.
        let last = completed(&outcome)[0].max(completed(&outcome)[2]);
        assert!(last >= 60 * PACKET + WAY, "{what}: {last}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// In any switch, no host receives or sends faster than its link, and all packets arrive. The last packet
    /// arrives at most two packet times later than if one link carried all packets of all hosts one after the
    /// other.
    #[test]
    fn all_arrives_no_sooner_and_not_much_later_than_links_allow(
        pairs in prop::collection::vec((0_u32..5, 0_u32..5, 1_u64..8), 1..8),
        which in 0_usize..7,
    ) {
        let (what, mut config) = switches().swap_remove(which);
        let mut sent = [0_u64; 5];
        let mut received = [0_u64; 5];
        for (at, &(from, to, count)) in pairs.iter().enumerate().filter(|(_, (from, to, _))| from != to) {
            sent[from as usize] += count;
            received[to as usize] += count;
            let name = Some(format!("F{at}"));
            let (from, to) = (format!("H{}", from + 1), format!("H{}", to + 1));
            config.flows.push(Flow { name, total: packets(count), ..flow(&from, &to) });
        }
        prop_assume!(!config.flows.is_empty());
        let all: u64 = sent.iter().sum();
        let busiest = sent.into_iter().chain(received).max().unwrap();
        let outcome = run(&star(5), &config);
        prop_assert_eq!(outcome.summary.packets_delivered, all);
        let last = completed(&outcome).into_iter().max().unwrap();
        prop_assert!(last >= busiest * PACKET + WAY, "{}: {}", what, last);
        prop_assert!(last <= (all + 2) * PACKET + WAY, "{}: {}", what, last);
    }
}

/// Two lanes share the output to H5 equally, regardless of events at other outputs. A single turn of lanes
/// for all outputs of a switch would not suffice: a second output could make the same lane first at H5 every
/// time.
#[test]
fn lanes_take_turns_at_each_output() {
    for (name, mut config) in switches() {
        // With arbitration by arrival, the share depends on the order of arrivals.
        if config.switch.arbitration == Some(Arbitration::Fcfs) {
            continue;
        }
        config.lanes.count = 2;
        let on = |from: &str, to: &str, sl: u8, start: u64| Flow { sl, start: ns(start), ..flow(from, to) };
        config.flows = vec![on("H1", "H5", 0, 0), on("H2", "H5", 1, 0), on("H3", "H6", 0, PACKET / 2)];
        let rates = rates(&run(&star(6), &config));
        assert!((rates[0] - rates[1]).abs() < 0.05 * rates[0], "{name}: {rates:?} Gbit/s");
        assert!(rates[2] > 1.8 * rates[0], "{name}: {rates:?} Gbit/s");
    }
}

/// Tables of two lanes whose weights are given in packets.
fn tables(high: &[(u8, u8)], low: &[(u8, u8)], limit: HighLimit) -> Option<VlArbitration> {
    let entries = |table: &[(u8, u8)]| table.iter().map(|&(vl, packets)| (vl, 32 * packets)).collect();
    Some(VlArbitration { high: entries(high), low: entries(low), limit })
}

/// The tables, and the packets that the second lane sends before the first one sends a packet. Both lanes always have
/// packets.
fn shares() -> Vec<(Option<VlArbitration>, u64)> {
    vec![
        (None, 1),
        (tables(&[], &[(0, 1), (1, 3)], HighLimit(0)), 3),
        (tables(&[(1, 1), (0, 0), (1, 3), (0, 1)], &[], HighLimit(0)), 4),
        (tables(&[(1, 1)], &[(0, 7)], HighLimit(0)), 1),
        (tables(&[(1, 7)], &[(0, 1)], HighLimit(2)), 4),
        (tables(&[(1, 7)], &[(0, 1)], HighLimit(3)), 6),
        (tables(&[(1, 1)], &[(0, 1)], HighLimit::UNLIMITED), 60),
    ]
}

/// Checks the times at which two flows of 60 packets end on lanes 0 and 1 of the same link, and that the link is always
/// busy.
fn check_shares(what: &str, config: &Config, (hosts, flows): (u32, [(&str, &str); 2]), slack: u64) {
    for (arbitration, share) in shares() {
        let mut config = config.clone();
        config.lanes.count = 2;
        config.lanes.arbitration = arbitration.clone();
        let flow_on =
            |(sl, (from, to)): (u8, (&str, &str))| Flow { sl, total: packets(60), ..flow(from, to) };
        config.flows = (0..).zip(flows).map(flow_on).collect();
        let times = completed(&run(&star(hosts), &config));
        let expected = [120, 60 + 60 / share];
        for (time, expected) in times.iter().zip(expected) {
            let early = (expected - 2) * PACKET;
            let late = (expected + 1) * PACKET + WAY + slack;
            assert!(
                (early..=late).contains(time),
                "{what}, {arbitration:?}: {times:?}, not {expected} packets"
            );
        }
        assert!(*times.iter().max().unwrap() <= 120 * PACKET + WAY + slack, "{what}: {times:?}");
    }
}

#[test]
fn outputs_share_a_link_by_the_weights_of_lanes() {
    for (what, config) in switches() {
        let slack = if what.starts_with("Cioq") { 2 * PACKET } else { 0 };
        check_shares(&what, &config, (3, [("H1", "H3"), ("H2", "H3")]), slack);
    }
}

#[test]
fn hosts_share_their_link_by_the_weights_of_lanes() {
    check_shares("hosts", &config(us(200)), (3, [("H1", "H2"), ("H1", "H3")]), 0);
}

/// Acknowledgements of a third flow fill the output buffer, from which packets then leave by the tables.
#[test]
fn packets_leave_output_buffers_by_the_weights_of_lanes() {
    for queues in [HostQueues::Single, HostQueues::PerDestination] {
        let mut config = config(us(4_000));
        config.host.queues = Some(queues);
        config.host.output_buffer = Bytes(4 * 2_048);
        config.lanes.count = 2;
        config.lanes.arbitration = tables(&[], &[(0, 1), (1, 3)], HighLimit(0));
        config.congestion.notification = Some(Notification::AckEach);
        let own = |sl, to, count| Flow { sl, total: packets(count), ..flow("H1", to) };
        config.flows = vec![own(0, "H2", 600), own(1, "H3", 1_800), flow("H4", "H1")];
        let summary = run(&star(4), &config).summary;
        let times = [0, 1].map(|at: usize| summary.flows[at].completed_ns.unwrap());
        assert!(times[0].abs_diff(times[1]) < times[1] / 10, "{queues:?}: {times:?}");
    }
}
