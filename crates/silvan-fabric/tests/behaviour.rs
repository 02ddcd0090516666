//! The effect of mechanisms on flows, and the texts that describe a run.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod common;

use common::*;
use silvan_congestion::marking::{Fecn, InBandTelemetry, Marking, PortSetting};
use silvan_congestion::reaction::{Cct, ControlLevel, Reaction};
use silvan_congestion::{CoalescePer, Coalescing, HostSetting, Notification};
use silvan_engine::{Bytes, Rate};
use silvan_fabric::config::Config;
use silvan_fabric::simulation::{ModelError, jain};
use silvan_network::routing::RoutingSpec;
use silvan_network::topology::Topology;
use silvan_network::traffic::{Flow, Pattern};

#[test]
fn congestion_control_frees_the_victim_and_is_fair() {
    let (topology, mut config) = testbed(us(250_000));
    config.warmup = us(100_000);
    config.congestion = ib_cc();
    let outcome = run(&topology, &config);
    let rates = rates(&outcome);
    assert!(rates[0] > 12.7, "the victim gets {}", rates[0]);
    assert!(rates[1..].iter().sum::<f64>() > 12.0, "the hot link is used: {rates:?}");
    assert!(jain(&rates[1..]) > 0.99, "contributors get {rates:?}");
    assert!(outcome.summary.becn_received > 100);
    assert!(outcome.warnings.is_empty(), "{:?}", outcome.warnings);
}

/// All components of a family, with their usual parameters. The schema lists them, so new components are
/// included.
fn all<T: schemars::JsonSchema + serde::de::DeserializeOwned>() -> Vec<T> {
    let schema = schemars::schema_for!(T).to_value();
    let kinds = schema["oneOf"].as_array().unwrap().iter().map(|one| match one.get("const") {
        Some(name) => name.clone(),
        None => serde_json::json!({ "kind": one["properties"]["kind"]["const"] }),
    });
    kinds.map(|kind| serde_json::from_value(kind).unwrap()).collect()
}

/// Four flows to one host. Measurement begins after control has settled.
fn incast() -> (Topology, Config) {
    let mut config = config(us(6_000));
    config.warmup = us(3_000);
    config.flows = ["H2", "H3", "H4", "H5"].map(|from| flow(from, "H1")).into();
    (topology(r#"{"kind": "star", "hosts": 5}"#), config)
}

#[test]
fn every_marking_rule_marks_in_every_switch_that_it_goes_with() {
    let (topology, mut config) = incast();
    let mut tried = 0;
    let marks = |marking: &Marking| *marking != Marking::None && !marking.stamps();
    for marking in all::<Marking>().into_iter().filter(marks) {
        config.congestion.marking = Some(marking.clone());
        for (switch, outcome) in run_in_all_switches(&topology, &config) {
            let marks = outcome.summary.fecn_marks;
            // RED marks at most 1 % of the packets up to 200 kB, by default.
            assert!(marks > 15, "{marking:?} in {switch} marks {marks}");
            tried += 1;
        }
    }
    assert!(tried >= 5 + 5 + 3, "FECN and samples in all, the rules of buffers in one: {tried}");
}

/// With the marking rule and the receiver that it needs, each reaction reduces the latency, and the link to
/// the hot host keeps part of its throughput. The required part is small, because QCN recovers in cycles of
/// 15 ms, which are longer than the run.
#[test]
fn every_reaction_shortens_queues_in_every_switch() {
    let (topology, mut config) = incast();
    let fecn = Marking::Fecn(Fecn::default());
    config.congestion.marking = Some(fecn.clone());
    let without = run_in_all_switches(&topology, &config);
    for mut reaction in all::<Reaction>().into_iter().filter(|reaction| *reaction != Reaction::None) {
        if let Reaction::PccTelemetry(parameters) = &mut reaction {
            // The default is more than the buffers of this network.
            parameters.queue = Bytes(8_000);
        }
        let goes_with = |notification: &Notification| {
            let (acknowledges, grants) = (notification.acknowledges_each(), notification.grants());
            if reaction.properties().needs_grants {
                return grants && acknowledges == reaction.properties().needs_acknowledgements;
            }
            !reaction.properties().needs_acknowledgements || acknowledges
        };
        config.congestion.notification = all::<Notification>().into_iter().find(goes_with);
        let telemetry = Marking::Telemetry(InBandTelemetry {});
        config.congestion.marking =
            Some(if reaction.properties().needs_telemetry { telemetry } else { fecn.clone() });
        config.congestion.reaction = Some(reaction.clone());
        for ((switch, outcome), (_, before)) in run_in_all_switches(&topology, &config).iter().zip(&without) {
            let (latency, usual) = (mean_latency_us(outcome), mean_latency_us(before));
            assert!(latency < 0.9 * usual, "{reaction:?} in {switch}: {latency} us, {usual} us without it");
            let rates = rates(outcome);
            let (sum, least) = (rates.iter().sum::<f64>(), rates.iter().copied().fold(f64::MAX, f64::min));
            // The round trip of this network holds only two packets. HPCC then keeps a slow flow at its
            // lowest rate, 1 % of the link, for a long time.
            assert!(sum > 3.0 && least > 0.01 * sum, "{reaction:?} in {switch}: {rates:?}");
        }
    }
}

#[test]
fn every_receiver_goes_with_every_switch() {
    let (topology, mut config) = incast();
    config.congestion.marking = Some(Marking::Fecn(Fecn::default()));
    for notification in all::<Notification>() {
        config.congestion.notification = Some(notification);
        for (switch, outcome) in run_in_all_switches(&topology, &config) {
            let delivered = outcome.summary.packets_delivered;
            assert!(delivered > 100, "{notification:?} in {switch} delivers {delivered}");
            let answers = notification.notifies() || notification.acknowledges_each();
            assert!(!answers || outcome.summary.becn_received > 10, "{notification:?} in {switch}");
        }
    }
}

#[test]
fn acknowledgements_are_as_effective_as_notification_packets() {
    let (topology, mut config) = testbed(us(250_000));
    config.warmup = us(100_000);
    config.congestion = ib_cc();
    config.congestion.notification = Some(Notification::Ack);
    let outcome = run(&topology, &config);
    assert!(rates(&outcome)[0] > 12.5, "the victim gets {}", rates(&outcome)[0]);
}

#[test]
fn receivers_that_coalesce_return_few_notifications() {
    let (topology, mut config) = testbed(us(20_000));
    config.congestion = ib_cc();
    let notified = |per: Option<CoalescePer>| {
        let mut config = config.clone();
        config.congestion.coalescing = per.map(|per| Coalescing { interval: us(500), per });
        run(&topology, &config).summary.becn_received
    };
    let (all, per_flow, per_port) =
        (notified(None), notified(Some(CoalescePer::Flow)), notified(Some(CoalescePer::Port)));
    // There are 40 intervals, two hosts that receive marks, and five flows.
    assert!(all > 5 * 41, "{all}");
    assert!((41..=5 * 41).contains(&per_flow), "{per_flow}");
    assert!((41..=2 * 41).contains(&per_port), "{per_port}");
}

#[test]
fn a_slow_destination_alone_creates_congestion_and_is_marked() {
    let topology = topology(r#"{"kind": "star", "hosts": 3}"#);
    let mut config = config(us(60_000));
    config.warmup = us(20_000);
    config.host.drain_rate = Some(Rate::from_gbit(8));
    config.congestion = ib_cc();
    config.flows = vec![flow("H1", "H2")];
    let outcome = run(&topology, &config);
    assert!(outcome.summary.fecn_marks > 0, "one VOQ creates the congestion");
    assert!((6.5..=8.0).contains(&rates(&outcome)[0]), "drained at {}", rates(&outcome)[0]);
    let root = "S1:2->H2";
    assert!(!outcome.account.iter().any(|line| line.contains(root)), "{:?}", outcome.account);
}

#[test]
fn without_victim_mask_a_port_to_a_slow_host_is_treated_as_a_victim() {
    let topology = topology(r#"{"kind": "star", "hosts": 3}"#);
    let mut config = config(us(5_000));
    config.host.drain_rate = Some(Rate::from_gbit(8));
    config.congestion = ib_cc();
    let mask = silvan_congestion::marking::VictimMask::None;
    config.congestion.marking = Some(Marking::Fecn(Fecn { victim_mask: mask, ..Fecn::default() }));
    config.flows = vec![flow("H1", "H2")];
    let marks = run(&topology, &config).summary.fecn_marks;
    config.congestion.marking = None;
    let masked = run(&topology, &config).summary.fecn_marks;
    assert!(marks * 4 < masked, "{marks} marks without the mask, {masked} with it");
}

#[test]
fn single_ports_have_their_own_threshold_and_victim_mask() {
    // Two roots, at H4 and H5, each with two senders.
    let topology = topology(r#"{"kind": "star", "hosts": 7}"#);
    let mut config = config(us(5_000));
    config.congestion = ib_cc();
    config.flows = vec![flow("H1", "H4"), flow("H2", "H4"), flow("H3", "H5"), flow("H6", "H5")];
    let marks_of = |config: &silvan_fabric::config::Config| {
        let outcome = run(&topology, config);
        outcome.summary.fecn_marks
    };
    let with = |setting: PortSetting| {
        let fecn = Fecn { ports: vec![setting], ..Fecn::default() };
        Some(Marking::Fecn(fecn))
    };
    let at = |name: &str| vec![name.to_owned()];
    let all = marks_of(&config);
    config.congestion.marking =
        with(PortSetting { at: at("S1:4"), threshold: Some(0), ..PortSetting::default() });
    let one = marks_of(&config);
    assert!(all * 4 < one * 10 && one * 10 < all * 6, "{one} marks of one port, {all} of both");
    config.congestion.marking =
        with(PortSetting { at: at("S1"), threshold: Some(0), ..PortSetting::default() });
    assert_eq!(marks_of(&config), 0);

    config.host.drain_rate = Some(Rate::from_gbit(8));
    config.flows = vec![flow("H1", "H2")];
    config.congestion.marking = None;
    let masked = marks_of(&config);
    config.congestion.marking =
        with(PortSetting { at: at("S1:2"), victim_mask: Some(false), ..PortSetting::default() });
    let marks = marks_of(&config);
    assert!(marks * 4 < masked, "{marks} marks without the mask, {masked} with it");
}

#[test]
fn single_hosts_have_their_own_reaction() {
    // Two senders to H4, of which one has its own reaction.
    let topology = topology(r#"{"kind": "star", "hosts": 6}"#);
    let mut config = config(us(5_000));
    config.congestion = ib_cc();
    config.flows = vec![flow("H1", "H4"), flow("H2", "H4")];
    let rates = |config: &silvan_fabric::config::Config| {
        let outcome = run(&topology, config);
        [0, 1].map(|class| outcome.summary.classes[class].received_gbit_s)
    };
    let alike = rates(&config);
    let of = |reaction| HostSetting { at: vec!["H1".to_owned()], reaction };
    config.congestion.hosts = vec![of(Reaction::None)];
    let ignored = rates(&config);
    assert!(ignored[0] > 1.3 * alike[0] && ignored[1] < alike[1], "{ignored:?} instead of {alike:?}");
    let quick = Cct { ccti_timer: 10, ..Cct::default() };
    config.congestion.hosts = vec![of(Reaction::Cct(quick))];
    let quick = rates(&config);
    assert!(quick[0] > 1.1 * quick[1] && quick[0] < ignored[0], "{quick:?} instead of {alike:?}");
}

#[test]
fn control_per_service_level_throttles_bystanders_of_the_same_host() {
    let topology = topology(r#"{"kind": "star", "hosts": 6}"#);
    let mut config = config(us(60_000));
    config.warmup = us(20_000);
    config.congestion = ib_cc();
    config.flows = vec![flow("H1", "H6"), flow("H2", "H6"), flow("H3", "H6"), flow("H1", "H5")];
    let bystander = |level, config: &mut silvan_fabric::config::Config| {
        config.congestion.reaction = Some(Reaction::Cct(Cct { level, ..Cct::default() }));
        rates(&run(&topology, config))[3]
    };
    let (qp, sl) = (bystander(ControlLevel::Qp, &mut config), bystander(ControlLevel::Sl, &mut config));
    assert!(qp > 1.5 * sl, "H1 to H5 gets {qp} per queue pair and {sl} per service level");
}

#[test]
fn virtual_lanes_isolate() {
    let (topology, mut config) = testbed(us(10_000));
    config.lanes.count = 2;
    config.flows[0].sl = 1;
    let rates = rates(&run(&topology, &config));
    assert!(rates[0] > 12.5, "the victim on its own lane gets {}", rates[0]);
    assert_near(rates[1..].iter().sum(), 13.0, 0.02, "the others share the hot link");
}

#[test]
fn a_ring_with_shortest_paths_deadlocks_and_the_cycle_is_reported() {
    let hosts: Vec<String> = (1..=7).map(|i| format!("\"H{i}\"")).collect();
    let switches: Vec<String> = (1..=7).map(|i| format!(r#"{{"name": "S{i}", "ports": 3}}"#)).collect();
    let links: Vec<String> = (1..=7)
        .flat_map(|i| {
            let host = format!(r#"{{"from": "H{i}", "to": "S{i}:1"}}"#);
            [host, format!(r#"{{"from": "S{i}:2", "to": "S{}:3"}}"#, i % 7 + 1)]
        })
        .collect();
    let ring = format!(
        r#"{{"kind": "custom", "hosts": [{}], "switches": [{}], "links": [{}]}}"#,
        hosts.join(","),
        switches.join(","),
        links.join(",")
    );
    let topology = topology(&ring);
    let shortest = RoutingSpec::ShortestPath(Default::default()).compute(&topology).unwrap();
    let mut config = config(us(50_000));
    config.switch.buffer = Bytes(4096);
    config.traffic = vec![pattern(Pattern::Shift { by: 3 })];
    let Err(error) = run_with(&topology, &shortest, &config) else { panic!("no deadlock") };
    assert!(matches!(error, ModelError::Deadlock { .. }), "{error}");
    let text = error.to_string();
    for name in ["S1:2->S2:3", "S2:2->S3:3", "S3:2->S4:3", "S4:2->S5:3", "S7:2->S1:3"] {
        assert!(text.contains(name), "{text} names {name}");
    }
    // Up*/down* routing delivers the same traffic.
    run(&topology, &config);
}

#[test]
fn settings_without_effect_are_warned_about() {
    let topology = topology(r#"{"kind": "star", "hosts": 3}"#);
    let mut config = config(us(1_000));
    config.congestion = ib_cc();
    config.flows = vec![flow("H1", "H2"), Flow { start: us(5_000), ..flow("H2", "H3") }];
    let warnings = run(&topology, &config).warnings;
    assert_eq!(
        warnings,
        [
            "`H2->H3` never sent: it starts after the end, or its hosts were blocked.",
            "Congestion control had no effect: no packet was marked.",
        ]
    );
}

#[test]
fn the_account_names_root_contributors_and_victim() {
    let (topology, config) = testbed(us(20_000));
    let account = run(&topology, &config).account.join("\n");
    for part in [
        "S2:2->H5 (100 % of the samples). Up to 6 links waited for a root at a time.",
        "Contributors (they send through a root): ",
        "Victims (held back by a tree whose root they do not send through): H1->H4 (sent ",
    ] {
        assert!(account.contains(part), "{account}\nlacks: {part}");
    }
}

#[test]
fn an_invalid_run_is_rejected_with_the_reason() {
    let topology = topology(r#"{"kind": "star", "hosts": 3}"#);
    let message = |change: fn(&mut silvan_fabric::config::Config)| {
        let mut config = config(us(10));
        config.flows = vec![flow("H1", "H2")];
        change(&mut config);
        try_run(&topology, &config).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(message(|c| c.flows[0].to = "H9".into()), "flow.0.to: there is no host named `H9`");
    assert_eq!(
        message(|c| c.switch.buffer = Bytes(2000)),
        "switch.buffer = 2 KB: leaves 2000 B for the lane, less than one packet of 2048 B (packet.mtu + packet.header, in \
         blocks of packet.credit_block); must be at least 2 KiB"
    );
    assert_eq!(
        message(|c| {
            let fecn = Fecn { upper: Some(Bytes(1)), lower: Some(Bytes(2)), ..Fecn::default() };
            c.congestion.marking = Some(Marking::Fecn(fecn));
        }),
        "congestion.marking.lower: must be at most the upper threshold, 1 B"
    );
}
