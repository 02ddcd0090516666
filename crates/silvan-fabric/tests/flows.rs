//! Flows that are announced before they start: adaptive routes, explicit rates, and FCFS switches.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use crate::common::*;
use proptest::prelude::*;
use silvan_congestion::reaction::{ExplicitRate, Injection, Probing, Reaction};
use silvan_congestion::{Congestion, Mechanism};
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::config::{AdaptiveRouting, Arbitration, Architecture, Config};
use silvan_fabric::outcome::Outcome;
use silvan_network::routing::adaptive::Heuristic;
use silvan_network::topology::Topology;
use silvan_network::traffic::{Flow, Pattern};

/// The network of figure 1 of Zdornov and Birk with its six flows of one megabyte.
fn figure_1() -> (Topology, Config) {
    let topology = topology(
        r#"{"kind": "custom", "link_rate": "8 Gbit/s", "link_delay": "5 ns",
            "hosts": ["A", "B", "C", "D", "E", "F", "P", "Q", "R"],
            "switches": [{"name": "S1"}, {"name": "S2"}],
            "links": [{"from": "A", "to": "S1"}, {"from": "B", "to": "S1"}, {"from": "C", "to": "S1"},
                      {"from": "D", "to": "S1"}, {"from": "E", "to": "S2"}, {"from": "F", "to": "S2"},
                      {"from": "P", "to": "S2"}, {"from": "Q", "to": "S2"}, {"from": "R", "to": "S2"},
                      {"from": "S1", "to": "S2"}]}"#,
    );
    let mut config = config(us(8_000));
    config.packet.mtu = Bytes(2_000);
    config.switch.buffer = Bytes(16_384);
    let size = Some(Bytes(1_000_000));
    let pairs = [("A", "P"), ("B", "Q"), ("C", "R"), ("D", "R"), ("E", "R"), ("F", "R")];
    config.flows = pairs.map(|(from, to)| Flow { message: size, total: size, ..flow(from, to) }).into();
    (topology, config)
}

/// Completion time of the last flow, in milliseconds.
fn completion_ms(outcome: &Outcome) -> f64 {
    let times = outcome.summary.flows.iter().map(|flow| flow.completed_ns.unwrap());
    times.max().unwrap() as f64 / 1e6
}

#[test]
fn explicit_rates_save_a_fifth_of_the_phase() {
    let (topology, mut config) = figure_1();
    assert_near(completion_ms(&run(&topology, &config)), 5.0, 0.01, "without control");
    for injection in [Injection::PeriodicSelection, Injection::ShapedVirtualClock] {
        for arbitration in [Arbitration::RoundRobin, Arbitration::Fcfs] {
            let rates = ExplicitRate { injection, ..ExplicitRate::default() };
            config.congestion.reaction = Some(Reaction::ExplicitRate(rates));
            config.switch.arbitration = Some(arbitration);
            let outcome = run(&topology, &config);
            assert_near(completion_ms(&outcome), 4.0, 0.01, &format!("{injection:?} {arbitration:?}"));
            let announced = outcome.summary.announced.unwrap();
            assert_eq!(
                (announced.flows, announced.busiest_link_ns),
                (6, 4_000_000),
                "four flows of a millisecond"
            );
            assert_eq!(outcome.summary.classes[2].last_delivery_ns, outcome.summary.flows[2].completed_ns);
        }
    }
}

/// The receiver returns weights only if they differ from those that the source has, so nearly all of the 3000
/// packets cause no answer.
#[test]
fn data_packets_report_only_changes_of_weights() {
    let (topology, mut config) = figure_1();
    let rates = ExplicitRate { probing: Probing::Piggyback, ..ExplicitRate::default() };
    config.congestion.reaction = Some(Reaction::ExplicitRate(rates));
    let outcome = run(&topology, &config);
    assert_near(completion_ms(&outcome), 4.0, 0.01, "figure 1");
    let announced = outcome.summary.announced.unwrap();
    assert_eq!((announced.flows, announced.busiest_link_ns), (6, 4_000_000));
    assert!((1..300).contains(&announced.probes), "{} answers", announced.probes);
}

#[test]
fn retained_flows_are_announced_once_for_messages_of_one_size() {
    let (topology, mut config) = figure_1();
    config.duration = us(9_000);
    let announced = |config: &Config| {
        let outcome = run(&topology, config);
        let end = completion_ms(&outcome);
        (outcome.summary.announced.unwrap().flows, end)
    };
    for probing in [Probing::Packets, Probing::Piggyback] {
        for (retain, megabytes, expected) in
            [(false, 2_000_000, 12), (true, 2_000_000, 6), (true, 1_500_000, 12)]
        {
            let rates = ExplicitRate { retain, probing, ..ExplicitRate::default() };
            config.congestion.reaction = Some(Reaction::ExplicitRate(rates));
            config.flows.iter_mut().for_each(|flow| flow.total = Some(Bytes(megabytes)));
            let (flows, end) = announced(&config);
            assert_eq!(flows, expected, "{probing:?}, retain {retain}, {megabytes} bytes");
            assert_near(end, megabytes as f64 * 4e-6, 0.015, "completion");
        }
    }
}

/// The rates of two flows of one host differ by a factor of two. Periodic selection spaces all packets
/// equally, and each flow gets its rate.
#[test]
fn selection_gives_each_flow_its_rate() {
    let topology = topology(r#"{"kind": "star", "hosts": 5, "link_rate": "8 Gbit/s"}"#);
    let mut config = config(us(20_000));
    let total = |bytes| Some(Bytes(bytes));
    // H5 receives 4 MB in total, a quarter of it from H1; only H1 sends to H4.
    config.flows = vec![
        Flow { message: total(1_000_000), total: total(1_000_000), ..flow("H1", "H5") },
        Flow { message: total(3_000_000), total: total(3_000_000), ..flow("H2", "H5") },
        Flow { message: total(1_000_000), total: total(1_000_000), ..flow("H1", "H4") },
    ];
    config.congestion.mechanism = Mechanism::Saa;
    let outcome = run(&topology, &config);
    let ends: Vec<f64> = outcome.summary.flows.iter().map(|f| f.completed_ns.unwrap() as f64 / 1e6).collect();
    // The most loaded link needs 4 ms. H1's own link needs 2 ms, and the flow from H1 to H4 crosses no link
    // with a higher load.
    for (end, expected) in ends.iter().zip([4.0, 4.0, 2.0]) {
        assert_near(*end, expected, 0.02, "end of a flow");
    }
}

#[test]
fn adaptive_routes_spread_flows_that_the_tables_put_on_one_link() {
    // H1 to H4 are on one leaf, and send to hosts with the same default up link.
    let topology = topology(
        r#"{"kind": "modified-k-ary-n-tree", "k": 4, "n": 2, "horizontal_width": 1, "link_rate": "8 Gbit/s"}"#,
    );
    let mut config = config(us(10_000));
    let size = Some(Bytes(1_000_000));
    let pairs = [("H1", "H5"), ("H2", "H9"), ("H3", "H13")];
    config.flows = pairs.map(|(from, to)| Flow { message: size, total: size, ..flow(from, to) }).into();
    assert_near(completion_ms(&run(&topology, &config)), 3.0, 0.01, "by tables");
    config.adaptive_routing = Some(AdaptiveRouting::default());
    assert_near(completion_ms(&run(&topology, &config)), 1.0, 0.02, "adaptive");
    config.adaptive_routing = Some(AdaptiveRouting { cache: Some(0), ..AdaptiveRouting::default() });
    assert_near(completion_ms(&run(&topology, &config)), 3.0, 0.02, "without cache entries");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// With any adaptive routing and rates, all packets arrive in order and all invariants hold.
    #[test]
    fn announced_flows_lose_nothing(
        (k, n, width) in (2u32..5, 1u32..4, 0u32..3),
        heuristic in prop::sample::select(Heuristic::ALL.to_vec()),
        cache in prop::option::of(0u32..4),
        mechanism in prop::sample::select(vec![
            Mechanism::None, Mechanism::IbCc, Mechanism::Ecocc, Mechanism::Mvcm, Mechanism::Saa, Mechanism::Fbicm,
        ]),
        (adaptive, fcfs, virtual_clock, priority) in any::<(bool, bool, bool, bool)>(),
        (piggyback, retain) in any::<(bool, bool)>(),
        (lanes, message, probe) in (1u8..3, 1u64..20_000, 1u64..50),
        flows in prop::collection::vec((0usize..64, 0usize..64, 0u8..4, 1u64..60_000), 1..16),
    ) {
        let topology = topology(&format!(
            r#"{{"kind": "modified-k-ary-n-tree", "k": {k}, "n": {n}, "horizontal_width": {width}}}"#
        ));
        let hosts = topology.hosts.len();
        let mut config = config(us(60_000));
        config.measure.interval = us(50);
        config.lanes.count = lanes;
        config.lanes.control = (priority && lanes > 1).then_some(1);
        config.switch.buffer = Bytes(16_384 * u64::from(lanes));
        config.switch.control_first = priority.then_some(true);
        config.congestion = Congestion { mechanism, ..Congestion::default() };
        let voq = matches!(mechanism, Mechanism::None | Mechanism::IbCc | Mechanism::Saa);
        if voq && fcfs {
            config.switch.arbitration = Some(Arbitration::Fcfs);
        } else if mechanism == Mechanism::Mvcm && fcfs {
            config.switch.architecture = Some(Architecture::Cioq);
        }
        if mechanism == Mechanism::Saa {
            let injection =
                if virtual_clock { Injection::ShapedVirtualClock } else { Injection::PeriodicSelection };
            config.congestion.reaction =
                Some(Reaction::ExplicitRate(ExplicitRate {
                    injection,
                    probing: if piggyback { Probing::Piggyback } else { Probing::Packets },
                    probe: us(probe),
                    retain,
                }));
        }
        if adaptive {
            config.adaptive_routing = Some(AdaptiveRouting { heuristic: Some(heuristic), cache, ..AdaptiveRouting::default() });
        }
        for (from, to, sl, bytes) in flows {
            let (from, to) = (from % hosts, if sl % 2 == 0 { 0 } else { to % hosts });
            if from != to {
                let name = Some(format!("f{}", config.flows.len()));
                let flow = flow(&format!("H{}", from + 1), &format!("H{}", to + 1));
                let (message, total) = (Some(Bytes(message)), Some(Bytes(bytes)));
                config.flows.push(Flow { name, message, total, sl, ..flow });
            }
        }
        let mut some = pattern(Pattern::Uniform { include_self: false });
        (some.stop, some.rate, some.start) = (Some(us(150)), Some(Rate::from_gbit(2)), Time::from_ns(700));
        config.traffic = vec![some];
        let outcome = match try_run(&topology, &config) {
            Ok(outcome) => outcome,
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        prop_assert_eq!(outcome.summary.packets_inside, 0, "all traffic has stopped");
        for flow in &outcome.summary.flows {
            prop_assert!(flow.completed_ns.is_some(), "{} is not complete", flow.flow);
        }
    }
}
