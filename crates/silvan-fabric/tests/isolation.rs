//! Queue organizations and special queues on random small networks and traffic. Debug builds check the
//! credits, the order and the conservation of packets. These tests also check that all packets arrive and
//! that all resources are released.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use crate::common::*;
use proptest::prelude::*;
use silvan_congestion::isolation::{Isolation, SpecialArbitration, SpecialQueues};
use silvan_congestion::{Congestion, Mechanism};
use silvan_engine::{Bytes, Rate};
use silvan_fabric::config::{Architecture, Config};
use silvan_fabric::outcome::{Outcome, Values};
use silvan_fabric::queueing::{HostQueues, Memory, Queues};
use silvan_network::traffic::{Flow, Pattern};

/// Adds flows that stop after 200 us, some of them to the same host, and uniform traffic.
fn load(config: &mut Config, hosts: usize, flows: &[(usize, usize, u8)], message: u64) {
    for &(from, to, sl) in flows {
        let (from, to) = (from % hosts, if sl % 2 == 0 { 0 } else { to % hosts });
        if from != to {
            let message = Some(Bytes(message));
            let flow = flow(&format!("H{from}"), &format!("H{to}"));
            let name = Some(format!("f{}", config.flows.len()));
            config.flows.push(Flow { name, message, stop: Some(us(200)), sl, ..flow });
        }
    }
    let mut uniform = pattern(Pattern::Uniform { include_self: false });
    (uniform.stop, uniform.rate) = (Some(us(150)), Some(Rate::from_gbit(2)));
    config.traffic = vec![uniform];
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// No packet is reordered, lost or stuck when packets move to special queues, or when these are exhausted
    /// or released. Every CAM line and special queue is free again after the traffic stops.
    #[test]
    fn special_queues_are_allocated_and_released(
        seed in prop::collection::vec(any::<u8>(), 40),
        (switches, hosts, lanes) in (1usize..5, 2usize..8, 1u8..3),
        (queues, destinations) in (prop::sample::select(vec![0u8, 1, 2, 4]), 1u16..5),
        mechanism in prop::sample::select(vec![
            Mechanism::Fbicm, Mechanism::Ccfit, Mechanism::Hfdi, Mechanism::Ecocc,
        ]),
        (at_root, buffered, message) in (any::<bool>(), any::<bool>(), 1u64..9_000),
        (detection, stop, go) in (1u64..12_000, 2_100u64..12_000, 0u64..2_000),
        (arbitration, wait) in (
            prop::sample::select(vec![
                SpecialArbitration::RoundRobin, SpecialArbitration::Strict, SpecialArbitration::Weighted,
            ]),
            1u64..30,
        ),
        flows in prop::collection::vec((0usize..8, 0usize..8, 0u8..4), 2..12),
    ) {
        let topology = topology(&random_network(&seed, switches, hosts));
        let mut config = config(us(30_000));
        config.measure.interval = us(50);
        config.lanes.count = lanes;
        config.switch.buffer = Bytes(16_384 * u64::from(lanes));
        let special = SpecialQueues {
            queues, destinations, detection: Some(Bytes(detection)), stop: Some(Bytes(stop)), go: Some(Bytes(go)),
            at_root: at_root || mechanism.is_input_queued(), arbitration, longest_wait: Some(us(wait)),
            ..SpecialQueues::default()
        };
        let isolation = Some(Isolation::SpecialQueues(special));
        config.congestion = Congestion { mechanism, isolation, ..Congestion::default() };
        config.host.queues = (!buffered).then_some(HostQueues::None);
        load(&mut config, hosts, &flows, message);
        let outcome = match try_run(&topology, &config) {
            Ok(outcome) => outcome,
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        prop_assert_eq!(outcome.summary.packets_inside, 0, "all traffic has stopped");
        let isolation = outcome.summary.isolation.unwrap();
        prop_assert_eq!((isolation.in_use, isolation.lines_in_use), (0, 0), "{:?}", isolation);
        prop_assert!(queues > 0 || isolation.allocations == 0);
    }

    /// With any organization of the queues, all packets arrive in order and all invariants hold.
    #[test]
    fn queue_organizations_lose_no_packets(
        seed in prop::collection::vec(any::<u8>(), 40),
        (switches, hosts, lanes) in (1usize..5, 2usize..8, 1u8..3),
        queues in prop::sample::select(vec![
            Queues::Single, Queues::PerOutput, Queues::PerDestination, Queues::DestinationModulo,
            Queues::OutputModulo,
        ]),
        host in prop::sample::select(vec![
            HostQueues::None, HostQueues::Single, HostQueues::PerDestination, HostQueues::DestinationModulo,
        ]),
        (iq, divided, control_first, cc, fast) in any::<(bool, bool, bool, bool, bool)>(),
        (count, message) in (1u16..5, 1u64..9_000),
        flows in prop::collection::vec((0usize..8, 0usize..8, 0u8..4), 2..12),
    ) {
        let topology = topology(&random_network(&seed, switches, hosts));
        let mut config = config(us(30_000));
        config.measure.interval = us(50);
        config.lanes.count = lanes;
        config.switch.architecture = Some(if iq { Architecture::Iq } else { Architecture::Voq });
        config.switch.queues = Some(queues);
        config.switch.queue_count = count;
        config.switch.memory = divided.then_some(Memory::Divided);
        config.switch.queue_buffer = Some(Bytes(4_096));
        config.switch.control_first = Some(control_first);
        config.switch.crossbar = (iq && fast).then_some(Rate::from_gbit(40));
        config.host.queues = Some(host);
        if cc {
            config.congestion = ib_cc();
        }
        load(&mut config, hosts, &flows, message);
        let outcome = match try_run(&topology, &config) {
            Ok(outcome) => outcome,
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        prop_assert_eq!(outcome.summary.packets_inside, 0, "all traffic has stopped");
    }

    /// With one queue per output, the general queued switch has the same results as the fast VOQ switch.
    #[test]
    fn the_fast_switch_agrees_with_the_general_one(
        seed in prop::collection::vec(any::<u8>(), 40),
        (switches, hosts, lanes) in (1usize..5, 2usize..8, 1u8..3),
        message in 1u64..9_000,
        flows in prop::collection::vec((0usize..8, 0usize..8, 0u8..4), 2..12),
    ) {
        let topology = topology(&random_network(&seed, switches, hosts));
        let mut config = config(us(300));
        config.lanes.count = lanes;
        config.switch.buffer = Bytes(16_384);
        load(&mut config, hosts, &flows, message);
        let fast = run(&topology, &config);
        // This setting selects the general switch. It has no other effect, because there are no control packets.
        config.switch.control_first = Some(true);
        let general = run(&topology, &config);
        // The number of events may differ, because one switch checks its queues more often.
        prop_assert!(fast.regardless_of_scheduler() == general.regardless_of_scheduler());
    }
}

/// Numbers of rows of the table `tree_links`.
#[derive(Debug)]
struct Branches {
    /// Rows of links that are not roots.
    all: usize,
    /// Rows of links for which only packets in special queues wait.
    isolated: usize,
}

fn branches(outcome: &Outcome) -> Branches {
    let links = outcome.tables.iter().find(|table| table.name == "tree_links").unwrap();
    let column = |name: &str| match &links.columns.iter().find(|column| column.name == name).unwrap().values {
        Values::U32(values) => values,
        _ => panic!("{name} has no numbers"),
    };
    let rows = column("depth").iter().zip(column("isolated")).filter(|(depth, _)| **depth > 0);
    Branches { all: rows.clone().count(), isolated: rows.filter(|(_, isolated)| **isolated == 1).count() }
}

/// A victim shares a link with a contributor to a congested host. It is blocked unless there are special
/// queues. No flow is throttled.
#[test]
fn victims_pass_congested_flows() {
    let star = |mechanism: Mechanism, queues: u8| {
        let topology = topology(
            r#"{"kind": "custom", "hosts": ["A", "B", "V", "X", "Y", "Z"], "switches": [{"name": "S1"}, {"name": "S2"}],
               "links": [{"from": "A", "to": "S1"}, {"from": "B", "to": "S2"}, {"from": "V", "to": "S1"},
                         {"from": "X", "to": "S2"}, {"from": "Y", "to": "S2"}, {"from": "Z", "to": "S2"},
                         {"from": "S1", "to": "S2", "rate": "32 Gbit/s"}]}"#,
        );
        let mut config = config(us(1_000));
        config.switch.buffer = Bytes(65_536);
        config.congestion.mechanism = mechanism;
        // A single read port can forward the traffic of the fast link only if the crossbar is equally fast.
        config.switch.crossbar = mechanism.is_input_queued().then_some(Rate::from_gbit(32));
        if mechanism != Mechanism::None {
            let parts = config.components();
            let Isolation::SpecialQueues(special) = parts.isolation else { panic!("no special queues") };
            config.congestion.isolation = Some(Isolation::SpecialQueues(SpecialQueues { queues, ..special }));
            config.congestion.reaction = Some(silvan_congestion::reaction::Reaction::None);
        }
        // A, B and another host overload X; V's flow to Y shares the link between the switches.
        config.flows = vec![flow("A", "X"), flow("B", "X"), flow("Z", "X"), flow("V", "Y")];
        let outcome = run(&topology, &config);
        (outcome.summary.flows[3].received_gbit_s, branches(&outcome))
    };
    let (blocked, found) = star(Mechanism::None, 0);
    assert!(blocked < 12.0, "{blocked}");
    assert!(found.all > 5 && found.isolated == 0, "{found:?}");
    for mechanism in [Mechanism::Fbicm, Mechanism::Ccfit, Mechanism::Hfdi, Mechanism::Ecocc] {
        let (free, found) = star(mechanism, 2);
        assert!(free > 15.0, "{mechanism:?}: {free}");
        assert!(found.all > 5 && found.isolated == found.all, "{mechanism:?}: {found:?}");
    }
}
