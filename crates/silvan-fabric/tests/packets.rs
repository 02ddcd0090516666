//! Adaptive routing per packet: available ports, load criterion, pinned packets, and delivery order.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use crate::common::*;
use silvan_congestion::Mechanism;
use silvan_engine::{Bytes, Rate};
use silvan_fabric::config::{AdaptiveRouting, Architecture, Config, Pinned, RoutePer};
use silvan_fabric::outcome::{Outcome, Values};
use silvan_fabric::queueing::Queues;
use silvan_network::topology::Topology;
use silvan_network::traffic::{Flow, Pattern};

fn per_packet() -> AdaptiveRouting {
    AdaptiveRouting { per: RoutePer::Packet, ..AdaptiveRouting::default() }
}

/// Two leaves with the same number of hosts, and three spines.
fn leaves_and_spines(hosts: usize) -> Topology {
    let names: Vec<String> = (0..2 * hosts).map(|host| format!("\"H{host}\"")).collect();
    let mut links: Vec<String> =
        (0..2 * hosts).map(|host| format!(r#"{{"from": "H{host}", "to": "L{}"}}"#, host / hosts)).collect();
    for leaf in 0..2 {
        links.extend((0..3).map(|spine| format!(r#"{{"from": "L{leaf}", "to": "S{spine}"}}"#)));
    }
    topology(&format!(
        r#"{{"kind": "custom", "link_rate": "8 Gbit/s", "link_delay": "5 ns", "hosts": [{}],
            "switches": [{{"name": "L0"}}, {{"name": "L1"}}, {{"name": "S0"}}, {{"name": "S1"}}, {{"name": "S2"}}],
            "links": [{}]}}"#,
        names.join(", "),
        links.join(", ")
    ))
}

/// The utilization of each link between switches, summed over the intervals, with the name of the link.
fn carried(outcome: &Outcome) -> Vec<(String, f64)> {
    let table = outcome.tables.iter().find(|table| table.name == "links").unwrap();
    let column = |name| &table.columns.iter().find(|column| column.name == name).unwrap().values;
    let (Values::Name { codes, names }, Values::F64(busy)) = (column("link"), column("utilisation")) else {
        panic!("columns of other types")
    };
    let mut sums = vec![0.0; names.len()];
    codes.iter().zip(busy).for_each(|(&code, busy)| sums[code as usize] += busy);
    names.iter().cloned().zip(sums).filter(|(name, _)| !name.contains('H')).collect()
}

#[test]
fn three_flows_of_one_leaf_share_its_up_links_evenly() {
    let topology = leaves_and_spines(3);
    let mut config = config(us(2_000));
    let size = Some(Bytes(1_000_000));
    config.flows = (0..3)
        .map(|host| Flow {
            message: size,
            total: size,
            ..flow(&format!("H{host}"), &format!("H{}", host + 3))
        })
        .collect();
    config.measure.links = true;
    config.adaptive_routing = Some(per_packet());
    let outcome = run(&topology, &config);
    for done in &outcome.summary.flows {
        assert_near(done.completed_ns.unwrap() as f64 / 1e6, 1.0, 0.02, "each at full rate");
    }
    let up: Vec<f64> =
        carried(&outcome).iter().filter(|(name, _)| name.starts_with("L0:")).map(|x| x.1).collect();
    assert_eq!(up.len(), 3);
    up.iter().for_each(|&busy| assert_near(busy / up.iter().sum::<f64>(), 1.0 / 3.0, 0.02, "of the load"));
    // Routes of equal length have equal latency, so packets arrive in order.
    let found = outcome.summary.reordering.unwrap();
    assert_eq!((found.late_packets, found.most_held_bytes, outcome.summary.packets_inside), (0, 0, 0));
}

/// An up link with a quarter of the rate of the other two gets a quarter of their load.
#[test]
fn a_slow_link_gets_load_in_proportion_to_its_rate() {
    let mut topology = leaves_and_spines(3);
    let slow = topology.links.len() - 3;
    for link in [slow - 3, slow] {
        topology.links[link].rate = Rate::from_gbit(2);
    }
    // Until the buffers at the slow link are full, its packets delay the in-order delivery of others.
    let mut config = config(us(4_000));
    config.warmup = us(2_000);
    config.flows = (0..3).map(|host| flow(&format!("H{host}"), &format!("H{}", host + 3))).collect();
    config.adaptive_routing = Some(per_packet());
    let summary = run(&topology, &config).summary;
    assert_near(summary.throughput_gbit_s, 18.0, 0.03, "of 2 + 8 + 8 Gbit/s");
    let found = summary.reordering.unwrap();
    assert!(found.late_packets > 100 && found.held_packets > 1_000, "{found:?}");
    // The slow link needs half a millisecond to send its buffered data. In this time, three hosts receive
    // less than 2 MB.
    assert!((100_000.0..600_000.0).contains(&found.mean_held_ns), "{found:?}");
    assert!((200_000..2_000_000).contains(&found.most_held_bytes), "{found:?}");
}

#[test]
fn loads_within_a_grade_are_considered_equal() {
    // If the load stays below the grade, ports are selected at random, and random selections collide.
    let topology = topology(r#"{"kind": "k-ary-n-tree", "k": 4, "n": 3, "link_rate": "8 Gbit/s"}"#);
    let share = |grade| {
        let mut config = config(us(1_000));
        config.traffic = vec![pattern(Pattern::Permutation)];
        config.host.injection_rate = Some(Rate(7_000_000_000));
        config.adaptive_routing = Some(AdaptiveRouting { grade, ..per_packet() });
        let outcome = run(&topology, &config);
        (outcome.summary.throughput_gbit_s / (64.0 * 7.0), outcome.summary.reordering.unwrap().late_packets)
    };
    let (full, drawn) = (share(None), share(Some(Bytes(1 << 30))));
    assert!(full.0 > 0.98 && drawn.0 < full.0 && drawn.1 > full.1, "{full:?} {drawn:?}");
}

#[test]
fn other_levels_and_control_packets_use_the_ports_of_the_tables() {
    let topology = topology(r#"{"kind": "k-ary-n-tree", "k": 2, "n": 3, "link_rate": "8 Gbit/s"}"#);
    let mut config = config(us(500));
    config.traffic = vec![pattern(Pattern::Uniform { include_self: false })];
    config.congestion.mechanism = Mechanism::IbCc;
    let by_tables = run(&topology, &config).regardless_of_scheduler().summary;
    config.adaptive_routing = Some(AdaptiveRouting { levels: Some(vec![1, 7]), ..per_packet() });
    let mut of_level_0 = run(&topology, &config).regardless_of_scheduler().summary;
    let reordering = of_level_0.reordering.take().unwrap();
    assert_eq!((reordering.late_packets, reordering.held_packets), (0, 0));
    assert_eq!(by_tables, of_level_0);
}

/// The twelve hosts of the other leaves send to H1.
fn hotspot(config: &mut Config) -> Topology {
    let hosts: Vec<String> = (5..=16).map(|host| format!("H{host}")).collect();
    config.traffic = vec![silvan_network::traffic::Traffic {
        hosts: Some(hosts),
        ..pattern(Pattern::Hotspots { to: vec!["H1".into()] })
    }];
    topology(r#"{"kind": "k-ary-n-tree", "k": 4, "n": 2, "link_rate": "8 Gbit/s"}"#)
}

/// Number of links from leaves to spines that were busy for more than 1 % of an interval in total.
fn used_up_ports(outcome: &Outcome) -> usize {
    let span = 1.0;
    carried(outcome).iter().filter(|(name, busy)| name.starts_with("L1.") && *busy > 0.01 * span).count()
}

#[test]
fn throttled_flows_keep_one_route() {
    let ways = |pinned: Vec<Pinned>| {
        let mut config = config(us(3_000));
        config.warmup = us(2_000);
        config.measure.links = true;
        config.congestion.mechanism = Mechanism::IbCc;
        config.adaptive_routing = Some(AdaptiveRouting { pinned, ..per_packet() });
        let topology = hotspot(&mut config);
        let outcome = run(&topology, &config);
        (used_up_ports(&outcome), outcome.summary.reordering.unwrap().late_packets)
    };
    let (free, pinned) = (ways(Vec::new()), ways(vec![Pinned::Throttled]));
    assert!(pinned.1 < free.1, "{pinned:?} of {free:?}");
}

#[test]
fn destinations_on_a_cam_line_keep_one_route() {
    let late = |pinned: Vec<Pinned>, mechanism| {
        let mut config = config(us(3_000));
        config.congestion.mechanism = mechanism;
        config.adaptive_routing = Some(AdaptiveRouting { pinned, ..per_packet() });
        let topology = hotspot(&mut config);
        run(&topology, &config).summary.reordering.unwrap().late_packets
    };
    for mechanism in [Mechanism::Fbicm, Mechanism::Hfdi, Mechanism::Ecocc] {
        let (free, pinned) = (late(Vec::new(), mechanism), late(vec![Pinned::Isolated], mechanism));
        assert!(3 * pinned < free, "{mechanism:?}: {pinned} of {free}");
    }
}

/// For any switch and queues, debug builds check all invariants, and that no packet is lost.
#[test]
fn every_architecture_supports_adaptive_packets() {
    let topology = topology(r#"{"kind": "k-ary-n-tree", "k": 3, "n": 2, "link_rate": "8 Gbit/s"}"#);
    let architectures = [
        (Architecture::Voq, Queues::PerOutput),
        (Architecture::Iq, Queues::PerOutput),
        (Architecture::Iq, Queues::Single),
        (Architecture::Voq, Queues::PerDestination),
        (Architecture::Voq, Queues::DestinationModulo),
        (Architecture::Cioq, Queues::Single),
        (Architecture::Cioq, Queues::PerOutput),
    ];
    for (architecture, queues) in architectures {
        let mut config = config(us(300));
        config.switch.architecture = Some(architecture);
        config.switch.queues = Some(queues);
        config.switch.queue_buffer = (queues == Queues::PerDestination).then_some(Bytes(8_192));
        config.traffic = vec![pattern(Pattern::Permutation)];
        let by_tables = run(&topology, &config).summary.throughput_gbit_s;
        config.adaptive_routing = Some(per_packet());
        let chosen = run(&topology, &config).summary;
        // If a queue contains packets for several outputs, they block each other regardless of their
        // routes.
        let least = if queues == Queues::PerOutput { 1.0 } else { 0.9 };
        let who = format!("{architecture:?} {queues:?}");
        assert!(
            chosen.throughput_gbit_s > least * by_tables,
            "{who}: {} {by_tables}",
            chosen.throughput_gbit_s
        );
        assert!(chosen.reordering.unwrap().late_packets > 0, "{who}");
    }
}

/// Compared with a single switch, which is a non-blocking network, random permutations get nearly the same
/// throughput with adaptive routing, and 0.6 to 0.8 of it with forwarding tables.
#[test]
fn random_permutations_get_nearly_the_throughput_of_one_switch() {
    let tree = topology(r#"{"kind": "fat-tree-648", "link_rate": "16 Gbit/s"}"#);
    let one = topology(r#"{"kind": "star", "hosts": 64, "link_rate": "16 Gbit/s"}"#);
    let per_host = |topology: &Topology, adaptive: Option<AdaptiveRouting>, seed: u64| {
        let mut config = config(us(250));
        config.warmup = us(100);
        config.seed = seed;
        config.host.injection_rate = Some(Rate(13_500_000_000));
        config.traffic = vec![pattern(Pattern::Permutation)];
        config.adaptive_routing = adaptive;
        let summary = run(topology, &config).summary;
        summary.throughput_gbit_s / summary.hosts.len() as f64
    };
    for seed in 1..=2 {
        let best = per_host(&one, None, seed);
        let (by_tables, chosen) = (per_host(&tree, None, seed), per_host(&tree, Some(per_packet()), seed));
        assert!(chosen > 0.98 * best, "{chosen} of {best}");
        assert!((0.6..0.8).contains(&(by_tables / best)), "{by_tables} of {best}");
    }
}
