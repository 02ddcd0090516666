//! Equal-cost multipath: the routes of flows, which follow from the hashes of switches, and the throughput
//! with collisions.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::BTreeSet;

use crate::common::*;
use silvan_congestion::isolation::{Isolation, SpecialQueues};
use silvan_congestion::marking::{Fecn, FillMapping, Marking, Red};
use silvan_congestion::reaction::{Nscc, Reaction};
use silvan_congestion::{Congestion, Notification};
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::config::{Architecture, Config, Delivery, Ecmp, Spraying};
use silvan_fabric::outcome::{Outcome, Values};
use silvan_fabric::queueing::Queues;
use silvan_network::routing::ecmp::{Hash, HashedFields};
use silvan_network::routing::port_groups::PortGroups;
use silvan_network::topology::{Link, NodeRef, Topology};
use silvan_network::traffic::{Flow, Pattern, Traffic};

const TREES: [&str; 4] = [
    r#"{"kind": "k-ary-n-tree", "k": 2, "n": 4, "link_rate": "8 Gbit/s"}"#,
    r#"{"kind": "two-level-fat-tree", "leaves": 4, "spines": 3, "hosts_per_leaf": 3, "parallel": 2, "link_rate": "8 Gbit/s"}"#,
    r#"{"kind": "three-level-fat-tree", "radix": 4, "link_rate": "8 Gbit/s"}"#,
    r#"{"kind": "pgft", "m": [4, 4, 2], "w": [1, 2, 2], "p": [1, 2, 1], "link_rate": "8 Gbit/s"}"#,
];

/// The links between switches that carried any traffic.
fn used(outcome: &Outcome) -> BTreeSet<String> {
    let table = outcome.tables.iter().find(|table| table.name == "links").unwrap();
    let column = |name| &table.columns.iter().find(|column| column.name == name).unwrap().values;
    let (Values::Name { codes, names }, Values::F64(busy)) = (column("link"), column("utilisation")) else {
        panic!("columns of other types")
    };
    let rows = codes.iter().zip(busy).filter(|(_, busy)| **busy > 0.0);
    rows.map(|(&code, _)| names[code as usize].clone()).filter(|name| !name.starts_with('H')).collect()
}

/// The names of the links of a route, which follow from the hashes of the switches.
fn route(topology: &Topology, groups: &PortGroups, seed: u64, fields: &HashedFields) -> Vec<String> {
    let wiring = topology.wiring();
    let mut at = wiring.hosts[fields.source as usize].unwrap().0.node;
    let mut links = Vec::new();
    while let NodeRef::Switch(switch) = at {
        let choices = &groups.switches[switch as usize];
        let port = Hash::new(seed, u64::from(switch)).port(choices, fields).unwrap();
        at = wiring.switches[switch as usize][usize::from(port) - 1].unwrap().0.node;
        let name = &topology.switches[switch as usize].name;
        let far = match at {
            NodeRef::Switch(_) => String::new(),
            NodeRef::Host(host) => topology.hosts[host as usize].name.clone(),
        };
        links.push(format!("{name}:{port}->{far}"));
    }
    assert_eq!(at, NodeRef::Host(fields.destination));
    links
}

fn hashed(mut config: Config) -> Config {
    config.ecmp = Some(Ecmp::default());
    config
}

/// Each flow uses the links that its hashes determine, and no others. The names of links to switches contain
/// the far port, so only their beginnings are compared.
#[test]
fn flows_take_the_routes_of_their_hashes() {
    for (seed, text) in (1..).zip(TREES) {
        let topology = topology(text);
        let groups = PortGroups::new(&topology, &tables(&topology));
        let hosts = topology.hosts.len() as u32;
        let mut expected = BTreeSet::new();
        let mut config = hashed(config(us(40)));
        config.seed = seed;
        for host in 0..hosts {
            let to = (host * 5 + 3) % hosts;
            if to == host {
                continue;
            }
            let names = [host, to].map(|at| topology.hosts[at as usize].name.clone());
            config.flows.push(Flow { rate: Some(Rate::from_gbit(1)), ..flow(&names[0], &names[1]) });
            let fields = HashedFields { source: host, destination: to, connection: 0, entropy: 0 };
            expected.extend(route(&topology, &groups, seed, &fields));
        }
        let outcome = run(&topology, &config);
        let found: BTreeSet<String> = used(&outcome)
            .into_iter()
            .map(|name| {
                let (from, to) = name.split_once("->").unwrap();
                format!("{from}->{}", if to.starts_with('H') { to } else { "" })
            })
            .collect();
        assert_eq!(found, expected, "{text}");
        assert_eq!(outcome.summary.reordering, None, "flows have one route each");
        let by_tables = run(&topology, &Config { ecmp: None, ..config });
        assert_ne!(used(&by_tables), used(&outcome), "{text}");
    }
}

/// The number of their source distinguishes several flows between the same two hosts.
#[test]
fn flows_of_several_sources_take_several_routes() {
    let topology = topology(TREES[1]);
    let mut config = hashed(config(us(100)));
    config.flows = (0..8)
        .map(|number| Flow {
            name: Some(format!("F{number}")),
            rate: Some(Rate::from_gbit(1)),
            ..flow("H1", "H12")
        })
        .collect();
    let up = |outcome: &Outcome| {
        used(outcome).iter().filter(|name| name.starts_with("L1.1:") && !name.contains("->H")).count()
    };
    let outcome = run(&topology, &config);
    assert!((3..=6).contains(&up(&outcome)), "{:?}", used(&outcome));
    assert_eq!(up(&run(&topology, &Config { ecmp: None, ..config })), 1);
}

/// With as many flows as ports, hashes collide. A permutation gets less throughput than with one switch, but
/// more than a single port would give.
#[test]
fn a_permutation_suffers_from_collisions() {
    let topology = topology(r#"{"kind": "k-ary-n-tree", "k": 8, "n": 2, "link_rate": "8 Gbit/s"}"#);
    let mut share = Vec::new();
    for seed in 1..=4 {
        let mut config = hashed(config(us(300)));
        (config.seed, config.warmup) = (seed, us(100));
        config.traffic = vec![pattern(Pattern::Permutation)];
        (config.host.injection_rate, config.host.drain_rate) = (None, None);
        share.push(run(&topology, &config).summary.throughput_gbit_s / (64.0 * 8.0));
    }
    assert!(share.iter().all(|share| (0.3..0.8).contains(share)), "{share:?}");
}

/// For all of these switches and queues, debug builds check all invariants, and that no packet is lost or
/// overtakes another one.
#[test]
fn every_architecture_hashes_packets() {
    let topology = topology(TREES[3]);
    let architectures = [
        (Architecture::Voq, Queues::PerOutput),
        (Architecture::Iq, Queues::PerOutput),
        (Architecture::Iq, Queues::Single),
        (Architecture::Voq, Queues::PerDestination),
        (Architecture::Voq, Queues::DestinationModulo),
        (Architecture::Cioq, Queues::Single),
    ];
    for (architecture, queues) in architectures {
        let mut config = hashed(config(us(200)));
        config.switch.architecture = Some(architecture);
        config.switch.queues = Some(queues);
        config.switch.queue_buffer = (queues == Queues::PerDestination).then_some(Bytes(8_192));
        config.congestion = ib_cc();
        config.traffic = vec![pattern(Pattern::Permutation)];
        let outcome = run(&topology, &config);
        assert!(outcome.summary.throughput_gbit_s > 50.0, "{architecture:?} {queues:?}");
        config.threads = 3;
        assert_eq!(run(&topology, &config).summary, outcome.summary, "{architecture:?} {queues:?}");
    }
}

const RULES: [Spraying; 5] =
    [Spraying::Oblivious, Spraying::Random, Spraying::Bitmap, Spraying::Reps, Spraying::Mixed];

fn sprayed(config: Config, spraying: Spraying, values: u16) -> Config {
    Config { ecmp: Some(Ecmp { spraying, values, ..Ecmp::default() }), ..config }
}

/// NSCC, and marks for queues between 0.2 and 0.8 of 43 packets, rounded up to whole packets.
fn nscc() -> Congestion {
    Congestion {
        marking: Some(Marking::Red(Red {
            min: Bytes(37_350),
            max: Bytes(145_250),
            percent: 100,
            ..Red::default()
        })),
        notification: Some(Notification::AckEach),
        reaction: Some(Reaction::Nscc(Nscc::default())),
        ..Congestion::default()
    }
}

/// Packets of 4,150 bytes, messages of 4 MB, and hosts without limits.
fn long_messages(duration: Time, pattern: Traffic) -> Config {
    let mut config = config(duration);
    (config.packet.mtu, config.packet.header) = (Bytes(4_086), Bytes(64));
    (config.switch.buffer, config.host.buffer) = (Bytes(1 << 19), Bytes(1 << 19));
    (config.host.injection_rate, config.host.drain_rate) = (None, None);
    config.traffic = vec![Traffic { message: Some(Bytes(4_000_000)), ..pattern }];
    config.congestion = nscc();
    config
}

/// With spraying, a permutation gets most of the throughput of a single switch; with one route per flow,
/// hashes collide. Rules that read marks need less memory for packets that wait for earlier ones.
#[test]
fn spraying_divides_flows_over_all_routes() {
    let topology = topology(
        r#"{"kind": "k-ary-n-tree", "k": 8, "n": 2, "link_rate": "100 Gbit/s", "link_delay": "1 us"}"#,
    );
    let share = |spraying| {
        let mut config = sprayed(long_messages(us(300), pattern(Pattern::Permutation)), spraying, 64);
        config.warmup = us(100);
        let summary = run(&topology, &config).summary;
        (summary.throughput_gbit_s / (64.0 * 100.0 * 4_086.0 / 4_150.0), summary.reordering)
    };
    let (one, none) = share(Spraying::None);
    assert!(one < 0.7 && none.is_none(), "{one}");
    let found = RULES.map(|rule| {
        let (throughput, found) = share(rule);
        let found = found.unwrap();
        println!("{rule:?}: {throughput:.3} of the rate, {found:?}");
        assert!(throughput > 0.83, "{rule:?}: {throughput}");
        assert!(found.late_packets > 100, "{rule:?}: {found:?}");
        (throughput, found.most_held_bytes)
    });
    for blind in &found[..2] {
        assert!(found[2..].iter().all(|one| one.0 > blind.0 && one.1 < blind.1), "{found:?}");
    }
}

/// If the receiver accepts packets out of order, only the last packet of each message waits for earlier
/// packets.
#[test]
fn accepted_packets_need_little_memory() {
    let topology = topology(
        r#"{"kind": "k-ary-n-tree", "k": 4, "n": 2, "link_rate": "100 Gbit/s", "link_delay": "1 us"}"#,
    );
    let found = |delivery| {
        let mut config = sprayed(long_messages(us(400), pattern(Pattern::Permutation)), Spraying::Random, 16);
        config.host.delivery = delivery;
        config.traffic[0].message = Some(Bytes(100_000));
        let summary = run(&topology, &config).summary;
        (summary.reordering.unwrap(), summary.throughput_gbit_s)
    };
    let ((held, in_order), (accepted, out_of_order)) =
        (found(Delivery::InOrder), found(Delivery::OutOfOrder));
    // The packets arrive at the same times in both cases.
    assert_eq!(accepted.late_packets, held.late_packets);
    assert!(accepted.held_packets * 10 < held.held_packets, "{accepted:?} {held:?}");
    assert!(accepted.most_held_bytes * 5 < held.most_held_bytes, "{accepted:?} {held:?}");
    assert!(out_of_order >= in_order && out_of_order < 1.03 * in_order, "{out_of_order} {in_order}");
}

/// One of four spines has a slow link. Rules that read marks avoid the entropy values that lead over it.
#[test]
fn rules_that_read_marks_avoid_a_slow_link() {
    let mut topology = topology(
        r#"{"kind": "two-level-fat-tree", "leaves": 2, "spines": 4, "hosts_per_leaf": 3,
            "link_rate": "100 Gbit/s", "link_delay": "1 us"}"#,
    );
    let is_inside = |link: &Link| [link.a, link.b].iter().all(|end| matches!(end.node, NodeRef::Switch(_)));
    let slow = topology.links.iter().position(is_inside).unwrap();
    topology.links[slow].rate = Rate::from_gbit(25);
    let throughput = |rule| {
        let mut config = sprayed(long_messages(us(1_000), pattern(Pattern::Shift { by: 3 })), rule, 64);
        config.warmup = us(500);
        run(&topology, &config).summary.throughput_gbit_s
    };
    let found = RULES.map(throughput);
    println!("{found:?}");
    let blind = found[0].max(found[1]);
    assert!(found[2..].iter().all(|&rate| rate > 1.1 * blind), "{found:?}");
}

/// For all of these switches and queues, debug builds check all invariants, and that no packet is lost. The
/// result does not depend on the number of threads.
#[test]
fn every_architecture_sprays_packets() {
    let topology = topology(TREES[3]);
    let kinds = [
        (Architecture::Voq, Queues::PerOutput),
        (Architecture::Iq, Queues::Single),
        (Architecture::Voq, Queues::PerDestination),
        (Architecture::Cioq, Queues::PerOutput),
    ];
    for ((architecture, queues), rule) in kinds.into_iter().zip(RULES.into_iter().rev()) {
        let mut config = sprayed(config(us(200)), rule, 32);
        config.switch.architecture = Some(architecture);
        config.switch.queues = Some(queues);
        config.switch.queue_buffer = (queues == Queues::PerDestination).then_some(Bytes(8_192));
        config.congestion = nscc();
        config.traffic = vec![pattern(Pattern::Permutation)];
        let outcome = run(&topology, &config);
        assert!(outcome.summary.reordering.as_ref().unwrap().late_packets > 0, "{architecture:?} {rule:?}");
        config.threads = 3;
        assert_eq!(run(&topology, &config).summary, outcome.summary, "{architecture:?} {rule:?}");
    }
}

/// Packets from A to B use two slow links in turn. The special queue of the link that is detected first
/// holds packets for both links. It exceeds the threshold, although the packets for this link do not.
#[test]
fn the_fill_of_special_queues_with_several_outputs_causes_marks() {
    let topology = topology(
        r#"{"kind": "custom", "hosts": ["A", "B"], "link_rate": "16 Gbit/s",
            "switches": [{"name": "S"}, {"name": "T"}, {"name": "U"}, {"name": "V"}],
            "links": [{"from": "A", "to": "S"}, {"from": "B", "to": "V"},
                      {"from": "S", "to": "T", "rate": "4 Gbit/s"}, {"from": "S", "to": "U", "rate": "4 Gbit/s"},
                      {"from": "T", "to": "V"}, {"from": "U", "to": "V"}]}"#,
    );
    let mut config = hashed(config(us(400)));
    config.ecmp = Some(Ecmp { spraying: Spraying::Oblivious, ..Ecmp::default() });
    config.switch.buffer = Bytes(131_072);
    config.flows = vec![flow("A", "B")];
    let marks = |upper, config: &mut Config| {
        let special = SpecialQueues {
            at_root: true,
            detection: Some(Bytes(8_192)),
            stop: Some(Bytes(120_000)),
            go: Some(Bytes(110_000)),
            ..SpecialQueues::default()
        };
        let marking = Fecn { upper: Some(Bytes(upper)), fill: FillMapping::Each, ..Fecn::default() };
        config.congestion = Congestion {
            isolation: Some(Isolation::SpecialQueues(special)),
            marking: Some(Marking::Fecn(marking)),
            ..Congestion::default()
        };
        run(&topology, config).summary.fecn_marks
    };
    assert!(marks(98_304, &mut config) > 0);
    // On one route, the same queue holds only packets for one link.
    assert_eq!(marks(131_072, &mut config), 0);
}
