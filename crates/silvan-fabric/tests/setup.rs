//! Each invalid configuration is rejected at the invalid key, with a specific reason.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use crate::common::{self, config, flow, pattern, run, run_with, tables, topology, try_run, us};
use silvan_congestion::marking::{Fecn, Ipm, Marking};
use silvan_congestion::reaction::{Cct, CctTable, Reaction, StaticWindow};
use silvan_congestion::{Mechanism, Notification};
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::config::{AdaptiveRouting, Arbitration, Architecture, Config, FlowControl, OnOff};
use silvan_fabric::queueing::{HostQueues, Memory, Queues};
use silvan_fabric::simulation::ModelError;
use silvan_fabric::{HostNames, Reason, SetupError};
use silvan_network::routing::Tables;
use silvan_network::topology::{End, Host, Link, NodeRef, Switch, Topology};
use silvan_network::traffic::{Forest, Job, Pattern, QueuePairs, Sends};
use silvan_trace::TraceBuilder;
use silvan_trace::execute::Parameters;

fn refused(topology: &Topology, tables: &Tables, config: &Config) -> SetupError {
    match run_with(topology, tables, config) {
        Err(ModelError::Configuration(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it ran"),
    }
}

/// The error for the testbed with one flow after the given change.
fn changed(change: impl FnOnce(&mut Topology, &mut Tables, &mut Config)) -> SetupError {
    let mut network = topology(r#"{"kind": "dumbbell"}"#);
    let (mut routes, mut settings) = (tables(&network), config(us(10)));
    settings.flows = vec![flow("H1", "H4")];
    change(&mut network, &mut routes, &mut settings);
    refused(&network, &routes, &settings)
}

/// Same as [`changed`], but changes only the configuration.
fn with(change: impl FnOnce(&mut Config)) -> SetupError {
    changed(|_, _, config| change(config))
}

macro_rules! assert_refused {
    ($error:expr, $key:expr, $reason:pat) => {
        let error = $error;
        assert_eq!(error.key, $key, "{error}");
        assert!(matches!(error.reason, $reason), "{:?}", error.reason);
    };
}

#[test]
fn a_network_has_bounds() {
    let host = |name: &str| Host { name: name.into(), lid: None, lmc: 0, guid: None };
    assert_refused!(
        changed(|network, _, _| network.hosts.resize(1 << 20, host(""))),
        "topology",
        Reason::TooManyNodes
    );
    assert_refused!(
        changed(|network, _, _| network.switches[1].ports = 257),
        "topology",
        Reason::TooManyPorts { ports: 257, .. }
    );
    assert_refused!(
        changed(|network, _, config| {
            network.hosts.push(host("alone"));
            config.measure.forest = false;
        }),
        "topology",
        Reason::NoLink(_)
    );
    // Each link has a different delay, and its two directions count as different kinds of links.
    let (switches, ports) = (129_u32, 256_u32);
    let link = |number: u32| Link {
        a: End { node: NodeRef::Host(number), port: 1 },
        b: End { node: NodeRef::Switch(number / ports), port: (number % ports) as u16 + 1 },
        rate: Rate::from_gbit(1),
        delay: Time(u64::from(number) + 1),
        one_way: false,
    };
    let hosts = switches * ports;
    let many = Topology {
        name: "many".into(),
        hosts: vec![host(""); hosts as usize],
        switches: vec![
            Switch { name: "S".into(), ports: ports as u16, lid: None, lmc: 0, guid: None };
            switches as usize
        ],
        links: (0..hosts).map(link).collect(),
        units: 0,
        machines: Vec::new(),
        shape: Default::default(),
    };
    let nowhere = Tables::new(vec![vec![Tables::NO_ROUTE; hosts as usize]; switches as usize]);
    assert_refused!(refused(&many, &nowhere, &config(us(1))), "topology", Reason::TooManyKindsOfLinks(_));
}

#[test]
fn packets_need_routes() {
    assert_refused!(with(|config| config.flows[0].from = "H99".into()), "flow.0.from", Reason::NoSuchHost(_));
    assert_refused!(with(|config| config.flows[0].to = "H99".into()), "flow.0.to", Reason::NoSuchHost(_));
    let senders = |config: &mut Config| {
        config.traffic = vec![pattern(Pattern::Uniform { include_self: false })];
        config.traffic[0].hosts = Some(vec!["H1".into(), "S1".into()]);
    };
    assert_refused!(with(senders), "traffic.0.hosts.1", Reason::NoSuchHost(_));
    let hotspot = |config: &mut Config| {
        config.traffic = vec![pattern(Pattern::Hotspots { to: vec!["X".into()] })];
    };
    assert_refused!(with(hotspot), "traffic.0.pattern.to.0", Reason::NoSuchHost(_));
    let hole = |tables: &mut Tables, host: usize| {
        tables.out.iter_mut().for_each(|table| table[host] = Tables::NO_ROUTE);
    };
    assert_refused!(changed(|_, tables, _| hole(tables, 3)), "flow.0.to", Reason::NoRoute(_));
    let unroutable = changed(|_, tables, config| {
        hole(tables, 6);
        config.traffic = vec![pattern(Pattern::Uniform { include_self: false })];
    });
    assert_eq!(
        unroutable.to_string().split(';').next(),
        Some("routing.kind: leaves 6 pairs of hosts without a route")
    );
    assert_refused!(unroutable, "routing.kind", Reason::Unroutable { pairs: 6, .. });
    let back = changed(|_, tables, _| hole(tables, 0));
    assert_refused!(back, "flow.0.to", Reason::NoRoute(_));
    let hotspot = changed(|_, tables, config| {
        hole(tables, 6);
        config.traffic = vec![pattern(Pattern::Hotspots { to: vec!["H7".into()] })];
    });
    assert_refused!(hotspot, "traffic.0.pattern.to", Reason::NoRoute(_));
    let no_way_back = changed(|_, tables, config| {
        hole(tables, 6);
        config.congestion = common::ib_cc();
        config.congestion.notification = Some(Notification::Backward);
    });
    assert_refused!(no_way_back, "congestion.notification", Reason::NoWayBack { .. });
    // The tables of one-way stages have a port for each host, but lead to other hosts.
    let one_way = topology(r#"{"kind": "k-ary-n-fly", "k": 2, "n": 2}"#);
    let mut settings = config(us(10));
    settings.flows = vec![flow("H1", "H2")];
    settings.congestion = common::ib_cc();
    settings.congestion.notification = Some(Notification::Backward);
    let error = refused(&one_way, &tables(&one_way), &settings);
    assert_refused!(error, "congestion.notification", Reason::NoWayBack { .. });
    let network = topology(r#"{"kind": "torus", "sizes": [4, 4]}"#);
    let mut settings = config(us(10));
    settings.flows = vec![flow("H1", "H2")];
    settings.adaptive_routing = Some(AdaptiveRouting::default());
    let error = refused(&network, &tables(&network), &settings);
    assert_refused!(error, "adaptive_routing", Reason::NotAdaptive(_));
}

#[test]
fn sizes_have_bounds() {
    let large = Bytes(1 << 31);
    for (key, change) in [
        ("packet.mtu", (|config, size| config.packet.mtu = size) as fn(&mut Config, Bytes)),
        ("packet.header", |config, size| config.packet.header = size),
        ("packet.control", |config, size| config.packet.control = size),
        ("packet.credit_block", |config, size| config.packet.credit_block = size),
        ("switch.buffer", |config, size| config.switch.buffer = size),
        ("host.buffer", |config, size| config.host.buffer = size),
        ("switch.output_buffer", |config, size| config.switch.output_buffer = Some(size)),
        ("host.output_buffer", |config, size| {
            config.host.queues = Some(HostQueues::Single);
            config.host.output_buffer = size;
        }),
        ("flow_control.xoff", |config, size| {
            config.flow_control = FlowControl::OnOff(OnOff { xoff: Some(size), xon: None });
        }),
        ("flow_control.xon", |config, size| {
            config.flow_control = FlowControl::OnOff(OnOff { xoff: None, xon: Some(size) });
        }),
        ("flow.0.message", |config, size| config.flows[0].message = Some(size)),
        ("traffic.0.message", |config, size| {
            config.traffic = vec![pattern(Pattern::Uniform { include_self: false })];
            config.traffic[0].message = Some(size);
        }),
        ("traffic.0.message_max", |config, size| {
            config.traffic = vec![pattern(Pattern::Uniform { include_self: false })];
            config.traffic[0].message_max = Some(size);
        }),
    ] {
        let error = with(|config| change(config, large));
        assert_refused!(error.clone(), key, Reason::TooLarge);
        assert_eq!(error.to_string(), format!("{key} = 2 GiB: must be at most 1 GiB"));
    }
}

#[test]
fn buffers_hold_a_packet() {
    assert_refused!(
        with(|config| config.switch.buffer = Bytes(2_047)),
        "switch.buffer",
        Reason::TooSmall { share: 2_047, lanes: 1, queues: 1, needed: 2_048 }
    );
    let in_lanes = with(|config| {
        config.lanes.count = 4;
        config.host.buffer = Bytes(4 * 2_047);
    });
    assert_refused!(in_lanes, "host.buffer", Reason::TooSmall { share: 2_047, lanes: 4, .. });
    let adapter = with(|config| {
        config.host.queues = Some(HostQueues::DestinationModulo);
        config.host.output_buffer = Bytes(8 * 2_047);
    });
    assert_refused!(adapter, "host.output_buffer", Reason::TooSmall { share: 2_047, queues: 8, .. });
    let divided = with(|config| {
        config.switch.memory = Some(Memory::Divided);
        config.switch.buffer = Bytes(2_048);
    });
    assert_refused!(divided, "switch.queue_buffer", Reason::QueueTooSmall { .. });
    let queue = with(|config| config.switch.queue_buffer = Some(Bytes(2_047)));
    assert_refused!(queue, "switch.queue_buffer", Reason::QueueBuffer { needed: 2_048 });
    let slow = with(|config| {
        config.switch.architecture = Some(Architecture::Iq);
        config.switch.crossbar = Some(Rate::from_gbit(1));
    });
    assert_refused!(slow, "switch.crossbar", Reason::SlowCrossbar { .. });
}

#[test]
fn on_off_flow_control_needs_room() {
    let on_off = |xoff, xon| FlowControl::OnOff(OnOff { xoff, xon });
    let divided = with(|config| {
        config.flow_control = on_off(None, None);
        config.switch.queues = Some(Queues::PerDestination);
        config.switch.queue_buffer = Some(Bytes(8_192));
    });
    assert_refused!(divided, "flow_control.kind", Reason::DividedMemory);
    let high = with(|config| config.flow_control = on_off(Some(Bytes(131_072)), None));
    assert_refused!(high, "flow_control.xoff", Reason::NoRoomAboveThreshold { .. });
    let small = with(|config| {
        config.flow_control = on_off(None, None);
        config.switch.buffer = Bytes(4_096);
    });
    assert_refused!(small, "flow_control.kind", Reason::NoRoomAboveThreshold { .. });
    let above = with(|config| config.flow_control = on_off(Some(Bytes(20_000)), Some(Bytes(20_001))));
    assert_refused!(above, "flow_control.xon", Reason::XonAboveXoff { xoff: 20_000 });
}

#[test]
fn parts_of_congestion_management_go_together() {
    let no_outputs = with(|config| config.congestion.marking = Some(Marking::Ipm(Ipm {})));
    assert_refused!(no_outputs, "congestion.marking.kind", Reason::NoOutputBuffers);
    let order = with(|config| {
        let fecn = Fecn { upper: Some(Bytes(100)), lower: Some(Bytes(200)), ..Fecn::default() };
        config.congestion.marking = Some(Marking::Fecn(fecn));
    });
    assert_refused!(order, "congestion.marking.lower", Reason::Component(_));
    let unanswered = with(|config| {
        config.congestion = common::ib_cc();
        config.congestion.reaction =
            Some(Reaction::StaticWindow(StaticWindow { packets: 2, ..StaticWindow::default() }));
    });
    assert_refused!(unanswered, "congestion.notification", Reason::NoAcknowledgements);
    // The last delay is 7 us x scale x 127^2 with a divisor of 1: 0.903 s with a scale of 8, and 1.016 s with
    // 9.
    let scaled = |scale| {
        let table = CctTable::Quadratic { divisor: 1, scale, entries: 128 };
        move |config: &mut Config| {
            config.congestion = common::ib_cc();
            config.congestion.reaction = Some(Reaction::Cct(Cct { table, ..Cct::default() }));
        }
    };
    assert_refused!(with(scaled(9)), "congestion.reaction.table.scale", Reason::Component(_));
    let (network, mut settings) = (topology(r#"{"kind": "dumbbell"}"#), config(us(10)));
    scaled(8)(&mut settings);
    assert!(run_with(&network, &tables(&network), &settings).is_ok());
    let network = topology(r#"{"kind": "k-ary-n-fly", "k": 2, "n": 3}"#);
    let mut settings = config(us(10));
    settings.flows = vec![flow("H1", "H8")];
    settings.congestion.mechanism = Mechanism::Fbicm;
    let error = refused(&network, &tables(&network), &settings);
    assert_refused!(error, "congestion.isolation", Reason::OneWayLinks { .. });
}

/// All counters have valid ranges, so no scenario can cause this error.
#[test]
fn counters_that_cannot_be_created_are_reported() {
    let reason = Reason::NoCounters("latencies cannot be counted");
    let error = SetupError { key: "measure".into(), value: None, reason };
    assert_eq!(error.to_string(), "measure: latencies cannot be counted");
    let of_run = ModelError::Configuration(error).to_string();
    assert!(of_run.ends_with("measure: latencies cannot be counted"), "{of_run}");
}

#[test]
fn names_are_resolved_to_numbers() {
    let mut network = topology(r#"{"kind": "dumbbell"}"#);
    network.hosts[5].name = "H2".into();
    let names = HostNames::new(&network);
    assert_eq!(names.find("H2", "flow.0.to"), Ok(1), "the first one with that name");
    assert_eq!(names.find("H7", "flow.0.to"), Ok(6));
    assert_refused!(names.find("S1", "job.0.hosts.3").unwrap_err(), "job.0.hosts.3", Reason::NoSuchHost(_));
}

#[test]
fn sources_are_validated() {
    let sizes = with(|config| {
        config.traffic = vec![pattern(Pattern::Uniform { include_self: false })];
        config.traffic[0].message = Some(Bytes(2_000));
        config.traffic[0].message_max = Some(Bytes(1_000));
    });
    assert_refused!(sizes, "traffic.0.message_max", Reason::LargestBelowSmallest);
    let forest = with(|config| {
        config.traffic = vec![pattern(Pattern::Forest(Forest {
            hotspots: 0,
            contributors: 100,
            victims: 0,
            mixed: 0,
            p: 0,
            lifetime: None,
        }))];
    });
    assert_refused!(forest, "traffic.0.pattern.hotspots", Reason::NoForest);
    let many = with(|config| config.flows = vec![flow("H1", "H4"); 1 << 16]);
    assert_refused!(many, "traffic", Reason::TooManyClasses);
    let job = with(|config| {
        let trace = TraceBuilder::new(2, 1 << 20).unwrap().finish().unwrap();
        config.jobs = vec![Job {
            name: "lost".into(),
            trace: Arc::new(trace),
            hosts: vec![0],
            units: 0,
            ports: None,
            parameters: Parameters::default(),
            start: Time::ZERO,
            sl: 0,
            sends: Sends::default(),
            queue_pairs: QueuePairs::default(),
            memory_rate: None,
        }];
    });
    assert_eq!(job.to_string(), "job.0: job `lost`: 2 ranks, 1 places on 7 hosts");
    assert_refused!(job, "job.0", Reason::Job { .. });
}

/// Switches with more than 256 ports need outputs that serve first come, first served.
#[test]
fn large_switches_serve_first_come_first_served() {
    let tree = r#"{"kind": "two-level-fat-tree", "leaves": 300, "spines": 2, "hosts_per_leaf": 2}"#;
    let topology = topology(tree);
    let mut config = config(us(400));
    let mut traffic = pattern(Pattern::Permutation);
    traffic.packets_per_host = Some(5);
    config.traffic = vec![traffic];
    config.measure.forest = false;
    let refused = try_run(&topology, &config).map(drop).map_err(|error| error.to_string());
    let expected = "switch L2.1 has 300 ports; a switch may have up to 256, or up to 1024 with switch.arbitration = \"fcfs\"";
    assert!(refused.clone().is_err_and(|what| what.contains(expected)), "{refused:?}");
    config.switch.arbitration = Some(Arbitration::Fcfs);
    let one = run(&topology, &config);
    assert_eq!((one.summary.packets_delivered, one.summary.packets_inside), (3_000, 0));
    config.threads = 3;
    let several = run(&topology, &config);
    assert_eq!((&one.summary.hosts, &one.tables), (&several.summary.hosts, &several.tables));
}
