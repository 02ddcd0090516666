//! Random small networks and traffic. Debug builds check the credits, the order and the conservation of
//! packets. A violation ends the run with an error.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use crate::common::*;
use proptest::prelude::*;
use silvan_congestion::Notification;
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::config::Architecture;
use silvan_fabric::queueing::Queues;
use silvan_network::traffic::{Arrivals, Flow, Pattern};

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold_and_all_packets_arrive(
        seed in prop::collection::vec(any::<u8>(), 40),
        switches in 1usize..5,
        hosts in 2usize..8,
        lanes in 1u8..4,
        (buffer, header, message) in (7_000u64..60_000, 0u64..40, 1u64..9_000),
        (iq, single, ack, cc, limited) in any::<(bool, bool, bool, bool, bool)>(),
        flows in prop::collection::vec((0usize..8, 0usize..8, 0u8..4, any::<bool>()), 1..10),
    ) {
        let topology = topology(&random_network(&seed, switches, hosts));
        let mut config = config(us(30_000));
        config.seed = u64::from(seed[0]);
        config.measure.interval = us(50);
        config.lanes.count = lanes;
        config.packet.header = Bytes(header);
        config.switch.buffer = Bytes(buffer.max(2_200 * u64::from(lanes)));
        config.host.buffer = config.switch.buffer;
        config.switch.architecture = Some(if iq { Architecture::Iq } else { Architecture::Voq });
        config.switch.queues = Some(if single { Queues::Single } else { Queues::PerOutput });
        if cc {
            config.congestion = ib_cc();
            config.congestion.notification = Some(if ack { Notification::Ack } else { Notification::Cnp });
        }
        if limited {
            config.host.injection_rate = Some(Rate(7_000_000_000));
            config.host.drain_rate = Some(Rate(6_100_000_000));
        }
        for (from, to, sl, paced) in flows {
            let (from, to) = (from % hosts, to % hosts);
            if from == to {
                continue;
            }
            config.flows.push(Flow {
                message: Some(Bytes(message)),
                stop: Some(us(300)),
                sl,
                rate: paced.then_some(Rate::from_gbit(3)),
                arrivals: if ack { Arrivals::Poisson } else { Arrivals::Periodic },
                ..flow(&format!("H{from}"), &format!("H{to}"))
            });
        }
        let mut uniform = pattern(Pattern::Uniform { include_self: false });
        uniform.stop = Some(us(200));
        uniform.rate = Some(Rate::from_gbit(1));
        uniform.start = Time::from_ns(500);
        config.traffic = vec![uniform];
        let outcome = try_run(&topology, &config);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        prop_assert_eq!(outcome.summary.packets_inside, 0, "all traffic has stopped");
        prop_assert_eq!(outcome.summary.packets_delivered, outcome.summary.packets_injected);
    }
}
