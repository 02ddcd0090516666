//! CIOQ switches, marking and validation, and the reactions that require acknowledgements.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use crate::common::*;
use proptest::prelude::*;
use silvan_congestion::marking::{Fecn, Ipm, Marking, Mvpm, Opm};
use silvan_congestion::reaction::{Cct, Lipd, Mvcm, RateControl, Reaction, StaticWindow};
use silvan_congestion::{Congestion, Mechanism, Notification};
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::RoundTrips;
use silvan_fabric::config::{Architecture, Config};
use silvan_fabric::queueing::Queues;
use silvan_network::traffic::{Flow, Pattern};

/// A configuration with links of one byte per nanosecond and the packets of MVCM.
fn cycles(duration: Time) -> Config {
    let mut config = config(duration);
    config.packet.mtu = Bytes(256);
    config.packet.header = Bytes(22);
    config.packet.control = Bytes(22);
    config.switch.architecture = Some(Architecture::Cioq);
    config.switch.buffer = Bytes(1024);
    config.switch.latency = Time::from_ns(2);
    config
}

const DUMBBELL: &str =
    r#"{"kind": "dumbbell", "link_rate": "8 Gbit/s", "trunk_rate": "8 Gbit/s", "link_delay": "1 ns"}"#;

fn since_injection(outcome: &silvan_fabric::outcome::Outcome) -> f64 {
    outcome.summary.latency.iter().find(|latency| latency.since == "injection").unwrap().mean_ns
}

#[test]
fn an_idle_switch_adds_only_its_latency() {
    let topology = topology(DUMBBELL);
    for (to, hops) in [("H2", 1.0), ("H5", 2.0)] {
        let mut config = cycles(us(50));
        config.flows = vec![Flow { total: Some(Bytes(256)), ..flow("H1", to) }];
        assert_eq!(since_injection(&run(&topology, &config)), hops * 2.0 + (hops + 1.0) + 278.0, "{to}");
    }
}

/// FIFO inputs lose throughput to head-of-line blocking, as found by Karol et al. A crossbar at twice the
/// link rate compensates for the loss.
#[test]
fn a_speedup_of_two_compensates_for_fifo_queues() {
    let topology = topology(r#"{"kind": "star", "hosts": 8}"#);
    let mut config = config(us(20_000));
    config.warmup = us(2_000);
    config.switch.queues = Some(Queues::Single);
    config.traffic = vec![pattern(Pattern::Uniform { include_self: true })];
    let mut throughput = |architecture, crossbar| {
        config.switch.architecture = Some(architecture);
        config.switch.crossbar = crossbar;
        run(&topology, &config).summary.throughput_gbit_s / 8.0 / 16.0
    };
    assert_near(throughput(Architecture::Iq, None), 0.6184, 0.03, "one");
    let alone = throughput(Architecture::Cioq, Some(Rate::from_gbit(16)));
    assert!((0.55..0.70).contains(&alone), "output buffers alone do not: {alone}");
    assert!(throughput(Architecture::Cioq, None) > 0.97, "two");
}

/// With a window of w packets, a single flow sends w packets per round trip, or at the rate of the link.
#[test]
fn a_window_limits_the_packets_per_round_trip() {
    let topology = topology(DUMBBELL);
    let mut config = cycles(us(400));
    config.warmup = us(40);
    config.flows = vec![flow("H1", "H5")];
    let trips = RoundTrips::new(&topology, &tables(&topology), &config);
    let trip = trips.longest();
    // The round trip crosses two switches and three links in each direction, with a packet and its
    // acknowledgement.
    assert_eq!(trip.shortest, Time::from_ns(2 * (2 * 2 + 3) + 278 + 22));
    assert_eq!((trip.hops, trip.stages, trip.radix, trip.packets()), (2, 1, 4, 2));
    config.congestion.notification = Some(Notification::AckEach);
    for (packets, expected) in [(1, 256.0 / 314.0), (2, 256.0 / 278.0), (5, 256.0 / 278.0)] {
        config.congestion.reaction =
            Some(Reaction::StaticWindow(StaticWindow { packets, ..StaticWindow::default() }));
        assert_near(rates(&run(&topology, &config))[0], 8.0 * expected, 0.002, &format!("window {packets}"));
    }
}

/// Three flows congest H5. One of them crosses the trunk, which the victim from H2 to H4 shares.
fn hot_and_cold(congestion: Congestion) -> silvan_fabric::outcome::Outcome {
    let topology = topology(DUMBBELL);
    let mut config = cycles(us(2_000));
    config.warmup = us(200);
    config.congestion = congestion;
    config.flows = vec![flow("H6", "H5"), flow("H7", "H5"), flow("H1", "H5")];
    config.flows.push(Flow { rate: Some(Rate::from_gbit(4)), ..flow("H2", "H4") });
    run(&topology, &config)
}

#[test]
fn every_mechanism_helps_the_victim_and_keeps_the_root_busy() {
    let of = |mechanism| {
        let outcome = hot_and_cold(Congestion { mechanism, ..Congestion::default() });
        let latency = outcome.summary.latency.iter().filter(|latency| latency.since == "generation");
        let (rates, latencies) = (rates(&outcome), latency.map(|l| l.mean_ns).collect::<Vec<_>>());
        (rates[..3].iter().sum::<f64>(), rates[3], latencies[3])
    };
    let (_, victim, without) = of(Mechanism::None);
    assert!(victim < 3.0, "{victim}: the trunk is not blocked");
    for mechanism in [Mechanism::Renato, Mechanism::Pfister, Mechanism::Mvcm] {
        let (root, victim, latency) = of(mechanism);
        assert!(latency < without / 2.0, "{mechanism:?}: victim's latency {latency} ns, {without} without");
        assert!(victim > 3.5, "{mechanism:?}: victim {victim} Gbit/s");
        assert!(root > 0.8 * 8.0 * 256.0 / 278.0, "{mechanism:?}: root {root} Gbit/s");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, failure_persistence: None, ..ProptestConfig::default() })]

    /// With any marking and reaction, all packets arrive in order and all invariants hold.
    #[test]
    fn marking_reaction_and_queues_can_be_combined(
        seed in prop::collection::vec(any::<u8>(), 40),
        (switches, hosts, lanes) in (1usize..5, 2usize..8, 1u8..3),
        marking in prop::sample::select(vec![
            Marking::None, Marking::Fecn(Fecn::default()), Marking::Ipm(Ipm {}), Marking::Opm(Opm::default()),
            Marking::Mvpm(Mvpm::default()),
        ]),
        reaction in prop::sample::select(vec![
            Reaction::None, Reaction::Cct(Cct::default()), Reaction::StaticWindow(StaticWindow { packets: 2, ..StaticWindow::default() }),
            Reaction::Aimd(RateControl { window: Some(1), ..RateControl::default() }),
            Reaction::Fimd(RateControl::default()), Reaction::Lipd(Lipd::default()),
            Reaction::Mvcm(Mvcm::default()),
        ]),
        queues in prop::sample::select(vec![
            Queues::Single, Queues::PerOutput, Queues::PerDestination, Queues::OutputModulo,
        ]),
        (buffer, output, message) in (2_100u64..20_000, 2_100u64..20_000, 1u64..9_000),
        fast in any::<bool>(),
        flows in prop::collection::vec((0usize..8, 0usize..8, 0u8..4), 1..10),
    ) {
        let topology = topology(&random_network(&seed, switches, hosts));
        let mut config = config(us(60_000));
        config.seed = u64::from(seed[0]);
        config.measure.interval = us(50);
        config.lanes.count = lanes;
        config.switch.architecture = Some(Architecture::Cioq);
        config.switch.queues = Some(queues);
        config.switch.queue_count = 3;
        config.switch.queue_buffer = Some(Bytes(2_112));
        config.switch.buffer = Bytes(buffer.max(2_112 * 3 * u64::from(lanes)));
        config.switch.output_buffer = Some(Bytes(output * u64::from(lanes)));
        config.switch.crossbar = fast.then_some(Rate::from_gbit(200));
        config.congestion = Congestion {
            marking: Some(marking),
            notification: Some(Notification::AckEach),
            reaction: Some(reaction),
            ..Congestion::default()
        };
        for (from, to, sl) in flows {
            let (from, to) = (from % hosts, if sl % 2 == 0 { 0 } else { to % hosts });
            if from != to {
                let name = Some(format!("f{}", config.flows.len()));
                let flow = flow(&format!("H{from}"), &format!("H{to}"));
                config.flows.push(Flow { name, message: Some(Bytes(message)), stop: Some(us(200)), sl, ..flow });
            }
        }
        let mut uniform = pattern(Pattern::Uniform { include_self: false });
        (uniform.stop, uniform.rate) = (Some(us(150)), Some(Rate::from_gbit(2)));
        config.traffic = vec![uniform];
        let outcome = match try_run(&topology, &config) {
            Ok(outcome) => outcome,
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        prop_assert_eq!(outcome.summary.packets_inside, 0, "all traffic has stopped");
    }
}
