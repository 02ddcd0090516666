//! Traffic that starts after a number of deliveries, ends after a number of packets, or sends messages of
//! different sizes; and time series of traffic classes.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use crate::common::{assert_near, config, flow, ib_cc, pattern, run, testbed, topology, us};
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::outcome::{Outcome, Values};
use silvan_network::traffic::{Arrivals, Flow, Pattern, Traffic};

const STAR: &str = r#"{"kind": "star", "hosts": 8}"#;

fn numbers(outcome: &Outcome, column: &str) -> Vec<f64> {
    let table = outcome.tables.iter().find(|table| table.name == "classes").unwrap();
    match &table.columns.iter().find(|found| found.name == column).unwrap().values {
        Values::U64(values) => values.iter().map(|&value| value as f64).collect(),
        Values::F64(values) => values.clone(),
        Values::U32(codes) | Values::Name { codes, .. } => codes.iter().map(|&code| code.into()).collect(),
    }
}

fn hot(to: &str) -> Traffic {
    let to = Pattern::Hotspots { to: vec![to.into()] };
    let hosts = Some(vec!["H1".into(), "H2".into(), "H3".into()]);
    Traffic { name: Some("hot".into()), hosts, ..pattern(to) }
}

#[test]
fn a_triggered_flow_starts_at_the_instant_of_the_delivery() {
    let topology = topology(STAR);
    let mut config = config(us(1_000));
    let background = Flow { rate: Some(Rate::from_gbit(3)), ..flow("H1", "H2") };
    let total = |packets: u64| Some(Bytes(packets * 2048));
    config.flows = vec![Flow { total: total(100), ..background.clone() }];
    let hundredth = run(&topology, &config).summary.flows[0].completed_ns.unwrap();
    config.flows = vec![Flow { total: total(1), ..flow("H3", "H4") }];
    let alone = run(&topology, &config).summary.flows[0].completed_ns.unwrap();
    let triggered = Flow { total: total(1), start_after_packets: Some(100), ..flow("H3", "H4") };
    config.flows = vec![background, triggered];
    let outcome = run(&topology, &config);
    let trigger = &outcome.summary.triggers[0];
    assert_eq!((trigger.class.as_str(), trigger.started_ns), ("H3->H4", Some(hundredth)));
    let completed = outcome.summary.flows[1].completed_ns.unwrap();
    assert!(completed.abs_diff(hundredth + alone) <= 1, "{completed}, not {hundredth} + {alone}");
    assert!(outcome.account.iter().any(|line| line.starts_with("`H3->H4` started at ")), "{outcome:?}");
}

#[test]
fn triggers_follow_each_other_and_count_all_classes() {
    let topology = topology(STAR);
    let mut config = config(us(2_000));
    config.flows = vec![Flow { total: Some(Bytes(50 * 2048)), ..flow("H5", "H6") }];
    let first = Traffic { start_after_packets: Some(50), packets_per_host: Some(10), ..hot("H7") };
    let second = Traffic { start_after_packets: Some(80), rate: Some(Rate::from_gbit(1)), ..hot("H8") };
    config.traffic = vec![Traffic { name: Some("second".into()), ..second }, first];
    let outcome = run(&topology, &config);
    let classes = &outcome.summary.classes;
    assert_eq!(classes[2].delivered_packets, 30, "the traffic started by 50 packets brings the total to 80");
    let started: Vec<_> = outcome.summary.triggers.iter().map(|t| t.started_ns.unwrap()).collect();
    assert!(started[0] < started[1]);
    // From this time, each of three hosts sends at 1 Gbit/s.
    let expected = 3.0 * (2_000_000 - started[1]) as f64 / (8 * 2048) as f64;
    assert!((classes[1].delivered_packets as f64 - expected).abs() <= 6.0, "{classes:?}, not {expected}");
    assert_eq!(outcome, run(&topology, &config));
}

#[test]
fn traffic_that_is_never_triggered_is_warned_about() {
    let topology = topology(STAR);
    let mut config = config(us(100));
    config.flows = vec![Flow { total: Some(Bytes(5 * 2048)), ..flow("H5", "H6") }];
    config.traffic = vec![Traffic { start_after_packets: Some(6), ..hot("H7") }];
    let outcome = run(&topology, &config);
    let warning = "`hot` never started: it waits for 6 packets to be delivered, and 5 were.";
    assert!(outcome.warnings.iter().any(|line| line == warning), "{:?}", outcome.warnings);
    assert_eq!(outcome.summary.triggers[0].started_ns, None);
    assert_eq!(outcome.summary.classes[1].delivered_packets, 0);
    // A stop time remains valid, although there is nothing to send after it.
    config.traffic =
        vec![Traffic { start_after_packets: Some(5), stop: Some(Time::from_ns(1)), ..hot("H7") }];
    assert_eq!(run(&topology, &config).summary.classes[1].delivered_packets, 0);
}

#[test]
fn packets_per_host_are_counted_exactly() {
    let topology = topology(STAR);
    let mut config = config(us(1_000));
    // A message has two full packets and one of 904 bytes, so 37 packets are 12 messages and one packet.
    config.traffic = vec![Traffic { message: Some(Bytes(5_000)), packets_per_host: Some(37), ..hot("H8") }];
    let summary = run(&topology, &config).summary;
    assert_eq!(summary.classes[0].delivered_packets, 3 * 37);
    assert_near(summary.throughput_gbit_s, 3.0 * (12.0 * 5_000.0 + 2048.0) * 8e-6, 1e-9, "payload");
    let varied = Traffic { message_max: Some(Bytes(9_000)), ..config.traffic[0].clone() };
    config.traffic = vec![varied];
    assert_eq!(run(&topology, &config).summary.classes[0].delivered_packets, 3 * 37);
}

#[test]
fn varied_messages_offer_the_configured_rate() {
    let topology = topology(STAR);
    let mut config = config(us(20_000));
    config.warmup = us(100);
    for arrivals in [Arrivals::Periodic, Arrivals::Poisson] {
        let (message, message_max) = (Some(Bytes(256)), Some(Bytes(1_024)));
        let rate = Some(Rate(1_600_000_001));
        let uniform = pattern(Pattern::Uniform { include_self: false });
        config.traffic = vec![Traffic { message, message_max, rate, arrivals, ..uniform }];
        let summary = run(&topology, &config).summary;
        assert_near(summary.throughput_gbit_s, 8.0 * 1.6, 0.02, "payload");
        let mean = summary.throughput_gbit_s * 19.9e6 / 8.0 / summary.latency[0].count as f64;
        assert_near(mean, 640.0, 0.01, "size of a packet");
    }
}

#[test]
fn classes_over_time_add_up_to_the_summary() {
    let (topology, mut config) = testbed(us(1_950));
    config.congestion = ib_cc();
    config.flows[4].start = us(500);
    let outcome = run(&topology, &config);
    let summary = &outcome.summary;
    let class = numbers(&outcome, "class");
    let of = |wanted: usize, column: &str| -> Vec<f64> {
        let rows = class.iter().zip(numbers(&outcome, column));
        rows.filter(|(class, _)| **class == wanted as f64).map(|(_, value)| value).collect()
    };
    for (index, told) in summary.classes.iter().enumerate() {
        let packets = of(index, "delivered_packets");
        assert_eq!(packets.len(), 20, "the last interval is half as long as the others");
        assert_eq!(packets.iter().sum::<f64>(), told.delivered_packets as f64);
        assert_eq!(of(index, "marked_packets").iter().sum::<f64>(), told.marked_packets as f64);
        for (since, latency) in ["generation", "injection"].iter().zip(&summary.latency[2 * index..]) {
            let means = of(index, &format!("mean_since_{since}_ns"));
            let sum: f64 =
                means.iter().zip(&packets).filter(|(_, n)| **n > 0.0).map(|(mean, n)| mean * n).sum();
            assert_near(sum / told.delivered_packets as f64, latency.mean_ns, 1e-9, since);
            for (mean, packets) in means.iter().zip(&packets) {
                assert_eq!(mean.is_nan(), *packets == 0.0);
            }
        }
        let longest = of(index, "max_since_generation_ns").into_iter().fold(0.0, f64::max);
        assert_eq!(longest.floor() as u64, summary.latency[2 * index].max_ns);
        let rates = of(index, "throughput_gbit_s");
        let mean = (rates[..19].iter().sum::<f64>() * 100.0 + rates[19] * 50.0) / 1_950.0;
        assert_near(mean, told.received_gbit_s, 1e-9, "throughput");
    }
    assert!(summary.classes.iter().any(|class| class.marked_packets > 0));
    config.measure.classes = false;
    let without = run(&topology, &config);
    assert_eq!(numbers(&without, "class"), [0.0; 0]);
    assert_eq!(without.summary, outcome.summary);
}
