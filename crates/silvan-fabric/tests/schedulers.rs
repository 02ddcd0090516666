//! Both schedulers give the same outcome, with any number of threads.
//!
//! The networks are small, but their outputs, hosts and jobs are spread over several partitions.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::sync::Arc;

use crate::common::*;
use silvan_congestion::marking::{Fecn, FillMapping, InBandTelemetry, Marking, Red, Sampled};
use silvan_congestion::reaction::{Dcqcn, Hpcc, Reaction};
use silvan_congestion::{Congestion, Mechanism, Notification};
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::config::{
    AdaptiveRouting, Arbitration, Architecture, Config, Delivery, Ecmp, FlowControl, ForwardingMode, OnOff,
    Pfc, RoutePer, Scheduler, SharedMemory, Spraying,
};
use silvan_fabric::faults::{Event, EventKind, Recovery, RecoveryKind};
use silvan_fabric::lane_tables::{HighLimit, VlArbitration};
use silvan_fabric::outcome::Outcome;
use silvan_fabric::queueing::{HostQueues, Queues};
use silvan_fabric::simulation::Simulation;
use silvan_network::topology::Topology;
use silvan_network::traffic::{Arrivals, Flow, Job, Pattern, QueuePairs, Sends, Traffic};
use silvan_trace::execute::Parameters;
use silvan_trace::{Operation, TraceBuilder};

/// Runs with one scheduler and a number of threads. Returns the outcome without the values that depend on the
/// scheduler, and whether the binned scheduler was used.
fn run_as(topology: &Topology, config: &Config, scheduler: Scheduler, threads: u16) -> (Outcome, bool) {
    let (tables, config) = (tables(topology), Config { threads, scheduler, ..config.clone() });
    let mut simulation = Simulation::new(topology, &tables, &config).unwrap();
    let count = simulation.partitions().unwrap_or(1);
    assert_eq!(count, usize::from(threads), "each thread has a partition");
    let is_binned = simulation.is_binned();
    while !simulation.advance(1_000).unwrap().done {}
    (simulation.finish().unwrap().regardless_of_scheduler(), is_binned)
}

/// The outcome of a run, which is the same for all schedulers and thread counts. `is_binned` states whether
/// the binned scheduler supports this run.
fn same(topology: &Topology, config: &Config, is_binned: bool) -> Outcome {
    let (expected, general) = run_as(topology, config, Scheduler::EventOrdered, 1);
    assert!(!general);
    assert!(expected.summary.packets_delivered > 200, "{}", expected.summary.packets_delivered);
    let [bins, events] = [Scheduler::BinnedIfPossible, Scheduler::EventOrdered];
    for (scheduler, threads) in [(bins, 1), (bins, 2), (bins, 3), (events, 2)] {
        let (outcome, binned) = run_as(topology, config, scheduler, threads);
        assert_eq!(binned, is_binned && scheduler == bins);
        assert_eq!(outcome.summary, expected.summary, "{scheduler:?}, {threads} threads");
        for (own, other) in outcome.tables.iter().zip(&expected.tables) {
            assert!(own == other, "{scheduler:?}, {threads} threads: table {}", own.name);
        }
        assert!(outcome == expected, "{scheduler:?}, {threads} threads: account or warnings");
    }
    expected
}

fn tree() -> Topology {
    topology(r#"{"kind": "k-ary-n-tree", "k": 4, "n": 2, "link_rate": "16 Gbit/s", "link_delay": "30 ns"}"#)
}

/// Random traffic of all hosts, and four hosts of other switches that overload H1.
fn load() -> Config {
    let mut config = config(us(60));
    (config.warmup, config.measure.interval) = (us(10), us(7));
    config.switch.buffer = Bytes(16_384);
    config.host.drain_rate = Some(Rate::from_gbit(14));
    let pattern = pattern(Pattern::Uniform { include_self: false });
    let random = Traffic { rate: Some(Rate::from_gbit(6)), arrivals: Arrivals::Poisson, ..pattern };
    config.traffic = vec![Traffic { message: Some(Bytes(3_000)), name: Some("random".into()), ..random }];
    config.flows = ["H5", "H9", "H10", "H13"].map(|from| flow(from, "H1")).into();
    config
}

#[test]
fn without_marks_on_one_lane_two_and_three() {
    for lanes in [1, 2, 3] {
        let mut config = load();
        config.lanes.count = lanes;
        config.traffic[0].sl = lanes - 1;
        same(&tree(), &config, true);
    }
}

/// Traffic that waits for deliveries requires the order of all events, which the binned scheduler does not
/// keep.
#[test]
fn with_traffic_that_waits_for_deliveries() {
    let mut config = load();
    config.flows.push(Flow { start_after_packets: Some(200), ..flow("H2", "H15") });
    let triggers = same(&tree(), &config, false).summary.triggers;
    assert!(triggers[0].started_ns.is_some(), "{triggers:?}");
}

/// The links between partitions determine the lookahead, and each packet and credit takes the delay of its
/// own link.
#[test]
fn on_links_with_different_delays() {
    let mut links = Vec::new();
    for leaf in 1..=4 {
        for host in 4 * leaf - 3..=4 * leaf {
            links.push(format!(r#"{{"from": "H{host}", "to": "L{leaf}", "delay": "{} ns"}}"#, 10 + host));
        }
        links.push(format!(r#"{{"from": "L{leaf}", "to": "S", "delay": "{} ns"}}"#, 40 * leaf));
    }
    let names = |letter: &str, count: usize| {
        (1..=count).map(|at| format!(r#""{letter}{at}""#)).collect::<Vec<_>>().join(",")
    };
    let switches: Vec<String> =
        ["L1", "L2", "L3", "L4", "S"].iter().map(|name| format!(r#"{{"name": "{name}"}}"#)).collect();
    let network = topology(&format!(
        r#"{{"kind": "custom", "link_rate": "16 Gbit/s", "hosts": [{}], "switches": [{}], "links": [{}]}}"#,
        names("H", 16),
        switches.join(","),
        links.join(",")
    ));
    same(&network, &load(), true);
}

#[test]
fn with_marks_of_single_queues_and_of_all() {
    for (lanes, fill) in [(1, FillMapping::Sum), (1, FillMapping::Each), (2, FillMapping::SumPerInput)] {
        let mut config = load();
        config.lanes.count = lanes;
        config.congestion = ib_cc();
        config.congestion.marking = Some(Marking::Fecn(Fecn { fill, threshold: 13, ..Fecn::default() }));
        let summary = same(&tree(), &config, true).summary;
        assert!(summary.fecn_marks > 20 && summary.becn_received > 5, "{fill:?}: {summary:?}");
    }
}

#[test]
fn with_acknowledgements_of_every_packet() {
    let mut config = load();
    config.congestion = ib_cc();
    config.congestion.notification = Some(Notification::AckEach);
    config.lanes = silvan_fabric::config::Lanes { count: 2, control: Some(1), ..config.lanes };
    same(&tree(), &config, true);
}

#[test]
fn with_samples_that_switches_report_to_sources() {
    for lanes in [1, 2] {
        let mut config = load();
        config.lanes.count = lanes;
        config.switch.arbitration = Some(Arbitration::RoundRobin);
        config.congestion.mechanism = Mechanism::Qcn;
        let sampled = Sampled { set_point: Bytes(4_096), sample: Bytes(9_000), ..Sampled::default() };
        config.congestion.marking = Some(Marking::Sampled(sampled));
        for notification in [Notification::Backward, Notification::Cnp] {
            config.congestion.notification = Some(notification);
            let is_binned = true;
            let summary = same(&tree(), &config, is_binned).summary;
            assert!(summary.fecn_marks > 20 && summary.becn_received > 5, "{notification:?}: {summary:?}");
        }
    }
}

#[test]
fn in_switches_of_other_kinds() {
    for architecture in [Architecture::Iq, Architecture::Cioq] {
        let mut config = load();
        config.switch.architecture = Some(architecture);
        same(&tree(), &config, false);
    }
    let mut config = load();
    config.switch.queues = Some(Queues::PerDestination);
    config.switch.queue_buffer = Some(Bytes(8_192));
    same(&tree(), &config, false);
}

#[test]
fn with_isolation_in_special_queues() {
    for mechanism in [Mechanism::Ecocc, Mechanism::Ccfit] {
        let mut config = load();
        config.switch.buffer = Bytes(65_536);
        config.congestion = Congestion { mechanism, ..Congestion::default() };
        let isolation = same(&tree(), &config, false).summary.isolation.unwrap();
        assert!(isolation.allocations > 0 && isolation.stop > 0, "{mechanism:?}: {isolation:?}");
    }
}

#[test]
fn with_on_off_flow_control() {
    let mut config = load();
    config.flow_control = FlowControl::OnOff(OnOff { xoff: Some(Bytes(8_000)), xon: Some(Bytes(6_000)) });
    for drain in [None, config.host.drain_rate] {
        config.host.drain_rate = drain;
        let pauses = same(&tree(), &config, drain.is_none()).summary.pauses.unwrap();
        assert!(pauses.pause_frames > 0 && pauses.longest_ns > 0.0, "{pauses:?}");
    }
}

#[test]
fn with_routes_that_packets_choose() {
    let mut config = load();
    config.adaptive_routing = Some(AdaptiveRouting { per: RoutePer::Packet, ..AdaptiveRouting::default() });
    let reordering = same(&tree(), &config, false).summary.reordering.unwrap();
    assert!(reordering.late_packets > 0, "{reordering:?}");
}

#[test]
fn with_messages_of_jobs() {
    let mut build = TraceBuilder::new(6, 1 << 12).unwrap();
    // Each rank sends to all others, receives from them and computes, and repeats this once.
    for rank in 0..6 {
        let mut sequence = silvan_trace::sequence::Sequence::new(rank);
        for bytes in [3_000, 9_000] {
            for other in (0..6).filter(|&other| other != rank) {
                sequence.start(&mut build, Operation::send(other, bytes, 0)).unwrap();
            }
            for other in (0..6).filter(|&other| other != rank) {
                sequence.blocking(&mut build, Operation::recv(other, bytes, 0)).unwrap();
            }
            sequence.compute(&mut build, 500 * u64::from(rank)).unwrap();
        }
    }
    let mut config = load();
    config.duration = us(600);
    config.ends_with_jobs = false;
    config.jobs = vec![Job {
        name: "exchange".into(),
        trace: Arc::new(build.finish().unwrap()),
        // Two ranks are on one host, and the others on hosts of other switches.
        hosts: vec![1, 1, 4, 8, 12, 15],
        units: 0,
        ports: None,
        parameters: Parameters { rendezvous_above: 8_000, ..Parameters::default() },
        start: us(5),
        sl: 0,
        sends: Sends::default(),
        queue_pairs: QueuePairs::default(),
        memory_rate: None,
    }];
    let outcome = same(&tree(), &config, true);
    let job = &outcome.summary.jobs[0];
    // 28 ordered pairs of ranks are on different hosts, with two messages each.
    assert_eq!((job.messages, job.unfinished_operations), (56, 0), "{job:?}");
    assert!(job.finished_ns.is_some());
}

#[test]
fn with_packets_that_switches_hash_onto_ports() {
    for (lanes, spraying) in [
        (1, Spraying::None),
        (2, Spraying::None),
        (1, Spraying::Oblivious),
        (1, Spraying::Random),
        (2, Spraying::Bitmap),
        (2, Spraying::Reps),
        (3, Spraying::Mixed),
    ] {
        let mut config = load();
        config.congestion = ib_cc();
        config.congestion.notification = Some(Notification::AckEach);
        config.lanes.count = lanes;
        if lanes > 1 {
            (config.lanes.control, config.lanes.control_priority) = (Some(1), true);
        }
        config.ecmp = Some(Ecmp { spraying, values: 8, ..Ecmp::default() });
        if spraying == Spraying::Random {
            config.host.delivery = Delivery::OutOfOrder;
        }
        let outcome = same(&tree(), &config, true);
        let late = outcome.summary.reordering.map_or(0, |found| found.late_packets);
        assert_eq!(late > 5, spraying.is_on(), "{spraying:?}: {late}");
    }
}

/// Two levels whose upper links are four times as fast, with several paths.
fn two_rates() -> Topology {
    let mut links = Vec::new();
    for host in 0..16 {
        links.push(format!(r#"{{"from": "H{}", "to": "L{}"}}"#, host + 1, host / 4 + 1));
    }
    for leaf in 1..=4 {
        for spine in 1..=2 {
            links.push(format!(r#"{{"from": "L{leaf}", "to": "S{spine}", "rate": "64 Gbit/s"}}"#));
        }
    }
    let names = (1..=16).map(|at| format!(r#""H{at}""#)).collect::<Vec<_>>().join(",");
    let switches: Vec<String> =
        ["L1", "L2", "L3", "L4", "S1", "S2"].iter().map(|name| format!(r#"{{"name": "{name}"}}"#)).collect();
    topology(&format!(
        r#"{{"kind": "custom", "link_rate": "16 Gbit/s", "link_delay": "30 ns", "hosts": [{names}],
            "switches": [{}], "links": [{}]}}"#,
        switches.join(","),
        links.join(",")
    ))
}

#[test]
fn with_queues_of_all_inputs() {
    for (lanes, topology) in [(1, tree()), (2, tree()), (3, two_rates()), (1, two_rates())] {
        for control_first in [false, true] {
            let mut config = load();
            config.switch.arbitration = Some(Arbitration::Fcfs);
            config.switch.control_first = Some(control_first);
            config.lanes.count = lanes;
            config.traffic[0].sl = lanes - 1;
            config.congestion = ib_cc();
            config.congestion.notification = Some(Notification::AckEach);
            let summary = same(&topology, &config, true).summary;
            assert!(summary.fecn_marks > 0 && summary.becn_received > 0, "{lanes}: {summary:?}");
        }
    }
}

#[test]
fn with_tables_of_lanes() {
    for (lanes, arbitration, control) in [
        (2, Arbitration::RoundRobin, None),
        (2, Arbitration::Fcfs, Some(1)),
        (3, Arbitration::RoundRobin, Some(2)),
        (3, Arbitration::Fcfs, None),
    ] {
        let mut config = load();
        config.switch.arbitration = Some(arbitration);
        config.lanes.count = lanes;
        config.lanes.control = control;
        let (high, low) = (vec![(1, 40), (1, 0), (0, 3)], vec![(2, 9), (0, 1), (1, 1)]);
        config.lanes.arbitration = Some(VlArbitration { high, low, limit: HighLimit(1) });
        config.traffic[0].sl = 1;
        config.congestion = ib_cc();
        let summary = same(&tree(), &config, true).summary;
        assert!(summary.fecn_marks > 0 && summary.becn_received > 0, "{lanes}: {summary:?}");
    }
}

#[test]
fn with_links_faster_than_those_that_feed_them() {
    for lanes in [1, 2] {
        let mut config = load();
        config.lanes.count = lanes;
        same(&two_rates(), &config, true);
    }
}

/// Three switches in a row, of which two have more than 64 ports.
fn wide() -> Topology {
    let mut links = vec![r#"{"from": "S1", "to": "S2"}, {"from": "S2", "to": "S3"}"#.to_owned()];
    for host in 1..=140 {
        let switch = if host <= 68 {
            1
        } else if host <= 136 {
            2
        } else {
            3
        };
        links.push(format!(r#"{{"from": "S{switch}", "to": "H{host}"}}"#));
    }
    let names = (1..=140).map(|at| format!(r#""H{at}""#)).collect::<Vec<_>>().join(",");
    topology(&format!(
        r#"{{"kind": "custom", "link_rate": "16 Gbit/s", "link_delay": "30 ns", "hosts": [{names}],
            "switches": [{{"name": "S1"}}, {{"name": "S2"}}, {{"name": "S3"}}], "links": [{}]}}"#,
        links.join(",")
    ))
}

#[test]
fn in_switches_with_more_than_64_ports() {
    let wide = wide();
    for arbitration in [Arbitration::Fcfs, Arbitration::RoundRobin] {
        let mut config = load();
        config.duration = us(30);
        config.switch.arbitration = Some(arbitration);
        config.flows = ["H60", "H67", "H68", "H66", "H90"].map(|from| flow(from, "H136")).into();
        config.congestion = ib_cc();
        assert!(same(&wide, &config, true).summary.fecn_marks > 0);
        config.host.drain_rate = None;
        config.switch.buffer = Bytes(24_000);
        config.flow_control = FlowControl::Pfc(Pfc::default());
        assert!(same(&wide, &config, true).summary.pauses.unwrap().pause_frames > 0);
    }
}

/// The pauses of hosts and switches, which also occupy links, for memory of inputs and of switches. Some of
/// the frames cross the borders of partitions.
#[test]
fn with_pause_frames() {
    let mut pauses = Vec::new();
    for arbitration in [Arbitration::Fcfs, Arbitration::RoundRobin] {
        for (lanes, shared) in [(1, None), (2, None), (3, None), (1, Some(0)), (2, Some(2)), (3, Some(-1))] {
            for (topology, response_time) in [(tree(), Time::ZERO), (two_rates(), Time::from_ns(700))] {
                let mut config = load();
                config.host.drain_rate = None;
                config.switch.arbitration = Some(arbitration);
                config.switch.buffer = Bytes(24_000 * u64::from(lanes));
                config.lanes.count = lanes;
                config.traffic[0].sl = lanes - 1;
                let shared = shared.map(|alpha_shift| SharedMemory {
                    memory: Some(Bytes(160_000 * u64::from(lanes))),
                    alpha_shift,
                    reserve: Bytes(2_000),
                    ..SharedMemory::default()
                });
                config.flow_control = FlowControl::Pfc(Pfc { shared, response_time, ..Pfc::default() });
                let found = same(&topology, &config, true).summary.pauses.unwrap();
                pauses.push(found.pause_frames);
            }
        }
    }
    assert!(pauses.iter().filter(|&&frames| frames > 0).count() > 12, "{pauses:?}");
}

/// A host that drains its buffer slowly pauses its switch, at times that depend on all arrivals.
#[test]
fn with_pause_frames_of_hosts() {
    let mut config = load();
    config.flow_control = FlowControl::Pfc(Pfc::default());
    same(&tree(), &config, false);
}

#[test]
fn with_rdma_over_ethernet() {
    for is_telemetry in [false, true] {
        for spraying in [Spraying::None, Spraying::Oblivious] {
            let mut config = load();
            config.host.drain_rate = None;
            config.switch.arbitration = Some(Arbitration::Fcfs);
            config.flow_control = FlowControl::Pfc(Pfc {
                shared: Some(SharedMemory {
                    memory: Some(Bytes(200_000)),
                    alpha_shift: 3,
                    reserve: Bytes(2_000),
                    ..SharedMemory::default()
                }),
                ..Pfc::default()
            });
            config.ecmp = Some(Ecmp { spraying, ..Ecmp::default() });
            let (marking, reaction) = if is_telemetry {
                (Marking::Telemetry(InBandTelemetry {}), Reaction::Hpcc(Hpcc::default()))
            } else {
                (Marking::Red(Red::default()), Reaction::Dcqcn(Dcqcn::default()))
            };
            config.congestion = Congestion {
                marking: Some(marking),
                notification: Some(Notification::AckEach),
                reaction: Some(reaction),
                ..Congestion::default()
            };
            same(&two_rates(), &config, true);
        }
    }
}

/// A star whose hosts all send to one of them.
fn star(hosts: usize) -> (Topology, Config) {
    let mut config = config(us(60));
    config.flows = (2..=hosts).map(|host| flow(&format!("H{host}"), "H1")).collect();
    (topology(&format!(r#"{{"kind": "star", "hosts": {hosts}, "link_rate": "16 Gbit/s"}}"#)), config)
}

#[test]
fn by_default_bins_are_used_if_they_contain_packets() {
    let scheduler = |(topology, config): (Topology, Config)| {
        run(&topology, &Config { scheduler: Scheduler::Auto, ..config }).summary.scheduler
    };
    let small = scheduler(star(3));
    assert_eq!(small.kind, "event-ordered");
    assert!(small.reason.unwrap().contains("contain less than one packet"), "{small:?}");
    let large = scheduler(star(60));
    assert_eq!((large.kind, large.reason), ("binned", None));
}

#[test]
fn a_scenario_selects_the_scheduler() {
    let (topology, config) = star(3);
    let [binned, ordered] = [Scheduler::Binned, Scheduler::EventOrdered]
        .map(|scheduler| run(&topology, &Config { scheduler, ..config.clone() }));
    assert_eq!(binned.account.last().unwrap(), "The binned scheduler ran the switches.");
    assert_eq!(
        ordered.account.last().unwrap(),
        "The event-ordered scheduler ran the switches, because the scenario selects it."
    );
    assert_ne!(binned.summary.events, ordered.summary.events, "only the events differ");
    assert!(binned.regardless_of_scheduler() == ordered.regardless_of_scheduler());
}

#[test]
fn a_network_that_bins_do_not_support_is_refused_with_the_reason() {
    let (topology, mut config) = star(3);
    config.switch.architecture = Some(Architecture::Cioq);
    let error =
        |scheduler| try_run(&topology, &Config { scheduler, ..config.clone() }).map_err(|e| e.to_string());
    assert_eq!(
        error(Scheduler::Binned).unwrap_err(),
        "scheduler = binned: does not support this network, because the outputs of its switches depend on each other; \
         use \"auto\" or \"event-ordered\""
    );
    let summary = error(Scheduler::Auto).unwrap().summary;
    assert_eq!(summary.scheduler.reason, Some("the outputs of its switches depend on each other"));
}

#[test]
fn with_control_packets_larger_than_data() {
    let mut config = load();
    config.congestion = ib_cc();
    config.packet.mtu = Bytes(512);
    config.packet.control = Bytes(2_000);
    let is_binned = true;
    let summary = same(&tree(), &config, is_binned).summary;
    assert!(summary.becn_received > 5, "{summary:?}");
}

/// Links go down, lose rate and lose packets, at times in the middle of bins, together with other
/// changes and samples.
fn changing(config: &mut Config, leaf: &str, spine: &str) {
    let changed = |kind, links: &[&str], start_ns: u64, lasts_ns: u64| Event {
        links: links.iter().map(|&link| link.into()).collect(),
        ..event(kind, "", Time::from_ns(start_ns), Time::from_ns(lasts_ns))
    };
    config.events = vec![
        changed(EventKind::Down, &["H5", leaf], 17_300, 9_100),
        // The time of a sample.
        changed(EventKind::Down, &["H1"], 21_000, 1_300),
        changed(EventKind::Down, &["H10"], 24_000, 50),
        Event {
            rate: Some(Rate::from_gbit(5)),
            ..changed(EventKind::Rate, &["H2", spine, "H1"], 30_010, 12_000)
        },
        Event {
            loss_ppb: Some(20_000_000),
            ..changed(EventKind::Errors, &["H9", "H13", leaf], 5_000, 40_000)
        },
        Event {
            every: Some(Time::from_ns(2_500)),
            jitter: Some(Time::from_ns(700)),
            ..changed(EventKind::Down, &["H14"], 40_000, 400)
        },
    ];
}

#[test]
fn with_links_that_change() {
    let mut lost = 0;
    for arbitration in [Arbitration::Fcfs, Arbitration::RoundRobin] {
        for lanes in [1, 2] {
            for recovery in [None, Some(RecoveryKind::SelectiveRepeat), Some(RecoveryKind::GoBackN)] {
                for (topology, spine) in [(tree(), "L2.1:1"), (two_rates(), "S1:1")] {
                    let leaf = if spine == "S1:1" { "L3:5" } else { "L1.3:5" };
                    let mut config = load();
                    config.switch.arbitration = Some(arbitration);
                    config.lanes.count = lanes;
                    config.traffic[0].sl = lanes - 1;
                    config.congestion = ib_cc();
                    changing(&mut config, leaf, spine);
                    if recovery != Some(RecoveryKind::GoBackN) {
                        config.rerouting.delay = Some(Time::from_ns(3_100));
                    }
                    config.recovery = recovery.map(|kind| Recovery::new(kind, us(4)));
                    let summary = same(&topology, &config, true).summary;
                    lost += summary.losses.unwrap().data_packets;
                }
            }
        }
    }
    assert!(lost > 500, "{lost}");
}

#[test]
fn with_links_that_change_and_pause_frames() {
    for port_delay in [None, Some(Time::from_ns(600))] {
        for delay in [None, Some(Time::from_ns(2_000))] {
            let mut config = load();
            config.duration = us(90);
            config.host.drain_rate = None;
            config.switch.arbitration = Some(Arbitration::Fcfs);
            config.switch.buffer = Bytes(60_000);
            config.flow_control = FlowControl::Pfc(Pfc { xoff: Some(Bytes(8_000)), ..Pfc::default() });
            config.ecmp = Some(Ecmp::default());
            config.congestion = Congestion {
                marking: Some(Marking::Red(Red::default())),
                notification: Some(Notification::AckEach),
                reaction: Some(Reaction::Dcqcn(Dcqcn::default())),
                ..Congestion::default()
            };
            config.recovery = Some(Recovery::new(RecoveryKind::SelectiveRepeat, us(5)));
            changing(&mut config, "L3:5", "S1:1");
            (config.rerouting.delay, config.rerouting.port_delay) = (delay, port_delay);
            let summary = same(&two_rates(), &config, true).summary;
            assert!(summary.pauses.unwrap().pause_frames > 0 && summary.losses.unwrap().data_packets > 10);
        }
    }
}

/// With credits, with pause frames of both kinds of memory, and with links that change.
#[test]
fn with_switches_that_store_packets() {
    let storing = || {
        let mut config = load();
        config.switch.forwarding = ForwardingMode::StoreAndForward;
        config
    };
    for (topology, leaf, spine) in [(tree(), "L1.3:5", "L2.1:1"), (two_rates(), "L3:5", "S1:1")] {
        for arbitration in [Arbitration::Fcfs, Arbitration::RoundRobin] {
            let mut config = storing();
            config.switch.arbitration = Some(arbitration);
            config.congestion = ib_cc();
            config.congestion.notification = Some(Notification::AckEach);
            assert!(same(&topology, &config, true).summary.fecn_marks > 20);

            let mut changed = config.clone();
            changing(&mut changed, leaf, spine);
            changed.rerouting.delay = Some(Time::from_ns(3_100));
            changed.recovery = Some(Recovery::new(RecoveryKind::SelectiveRepeat, us(4)));
            assert!(same(&topology, &changed, true).summary.losses.unwrap().data_packets > 10);

            config.host.drain_rate = None;
            config.switch.buffer = Bytes(40_000);
            for shared in
                [None, Some(SharedMemory { memory: Some(Bytes(200_000)), ..SharedMemory::default() })]
            {
                config.flow_control = FlowControl::Pfc(Pfc { shared, ..Pfc::default() });
                assert!(same(&topology, &config, true).summary.pauses.unwrap().pause_frames > 0);
            }
        }
    }
    for architecture in [Architecture::Iq, Architecture::Cioq] {
        let mut config = storing();
        config.switch.architecture = Some(architecture);
        same(&two_rates(), &config, false);
    }
}

/// Hosts that stall, drain packets more slowly in one or both directions, and fail.
#[test]
fn with_hosts_that_change() {
    for recovery in [None, Some(RecoveryKind::SelectiveRepeat)] {
        let mut config = load();
        config.duration = us(90);
        config.host.injection_rate = Some(Rate::from_gbit(15));
        changing(&mut config, "L1.3:5", "L2.1:1");
        config.recovery = recovery.map(|kind| Recovery::new(kind, us(4)));
        let of_host = |kind, host: &str, start_ns, lasts_ns| Event {
            links: Vec::new(),
            hosts: vec![host.into()],
            ..event(kind, "", Time::from_ns(start_ns), Time::from_ns(lasts_ns))
        };
        let rate = Some(Rate::from_gbit(5));
        config.events.extend([
            of_host(EventKind::Stall, "H1", 20_003, 2_100),
            Event { rate, ..of_host(EventKind::Drain, "H1", 28_000, 9_999) },
            Event { rate, shared: true, ..of_host(EventKind::Drain, "H6", 13_000, 30_000) },
            Event { lasts: None, ..of_host(EventKind::Stop, "H3", 33_333, 0) },
        ]);
        same(&tree(), &config, true);
        // With pause frames, a host that stalls or drains slowly may pause its switch.
        config.host.drain_rate = None;
        config.flow_control = FlowControl::Pfc(Pfc { xoff: Some(Bytes(6_000)), ..Pfc::default() });
        config.events.retain(|event| event.kind != EventKind::Stop);
        same(&tree(), &config, false);
    }
}

#[test]
fn with_output_buffers_of_hosts() {
    for queues in [HostQueues::Single, HostQueues::PerDestination] {
        for lanes in [1, 2] {
            for injection_rate in [None, Some(Rate::from_gbit(20))] {
                let mut config = load();
                config.host.queues = Some(queues);
                config.host.injection_rate = injection_rate;
                config.lanes.count = lanes;
                config.traffic[0].sl = lanes - 1;
                config.congestion = ib_cc();
                assert!(same(&tree(), &config, true).summary.becn_received > 5);
            }
        }
    }
}
