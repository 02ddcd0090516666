//! Completion times of transfers.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::sync::Arc;

use crate::common::*;
use proptest::prelude::*;
use silvan_congestion::Mechanism;
use silvan_congestion::receiver::Notification;
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::config::{Architecture, Config, ForwardingMode};
use silvan_fabric::outcome::{Outcome, Values};
use silvan_network::topology::Topology;
use silvan_network::traffic::{
    Arrivals, Bursts, Cdf, Flow, Incast, Listed, ListedTransfer, Pattern, Sizes, Traffic,
};

/// A column of the table of transfers; a time that does not exist is NaN.
fn column(outcome: &Outcome, name: &str) -> Vec<f64> {
    let table = outcome.tables.iter().find(|table| table.name == "transfers").unwrap();
    let column = table.columns.iter().find(|column| column.name == name).unwrap();
    match &column.values {
        Values::U64(values) => values.iter().map(|&value| value as f64).collect(),
        Values::F64(values) => values.clone(),
        _ => panic!("{name} has no numbers"),
    }
}

/// Packets of up to 1000 bytes of payload with a header of 50 bytes, acknowledgements of 64 bytes, and
/// recorded transfers.
fn recorded(duration: Time, notification: Option<Notification>) -> Config {
    let mut config = config(duration);
    (config.packet.mtu, config.packet.header) = (Bytes(1_000), Bytes(50));
    config.packet.control = Bytes(64);
    config.congestion.notification = notification;
    config.measure.transfers = Some(true);
    config
}

/// Sizes around the boundaries of packets.
fn sizes() -> Vec<u64> {
    let around = |packets: u64| [1_000 * packets - 1, 1_000 * packets, 1_000 * packets + 1];
    [1, 2, 500].into_iter().chain([1, 2, 3, 4, 30].into_iter().flat_map(around)).collect()
}

/// Transfers of all sizes from one host to another, one after the other on the empty network.
fn alone(topology: &Topology, config: &mut Config, (from, to): (&str, &str)) -> Outcome {
    let flow = |(at, size): (usize, u64)| Flow {
        name: Some(format!("f{at}")),
        start: us(100 * at as u64),
        message: Some(Bytes(size)),
        total: Some(Bytes(size)),
        ..flow(from, to)
    };
    config.flows = sizes().into_iter().enumerate().map(flow).collect();
    run(topology, config)
}

fn line(rates: [u64; 3]) -> Topology {
    let [first, between, last] = rates;
    topology(&format!(
        r#"{{"kind": "custom", "hosts": ["A", "B"], "switches": [{{"name": "S"}}, {{"name": "T"}}], "link_delay": "1 us",
            "links": [{{"from": "A", "to": "S", "rate": "{first} Gbit/s"}},
                      {{"from": "S", "to": "T", "rate": "{between} Gbit/s", "delay": "500 ns"}},
                      {{"from": "T", "to": "B", "rate": "{last} Gbit/s"}}]}}"#
    ))
}

/// Compares with a closed form, for links of 100, 400 and 100 Gbit/s with a switch latency of 100 ns. A full
/// packet takes 84 ns on slow links and 21 ns on the fast one, where it starts 63 ns after its head has
/// arrived.
#[test]
fn completion_times_are_those_of_the_closed_form() {
    let outcome =
        alone(&line([100, 400, 100]), &mut recorded(us(2_000), Some(Notification::AckEach)), ("A", "B"));
    let (bytes, ideal, acked) =
        (column(&outcome, "bytes"), column(&outcome, "ideal_ns"), column(&outcome, "ideal_acked_ns"));
    for ((bytes, ideal), acked) in bytes.into_iter().zip(ideal).zip(acked) {
        let packets = (bytes / 1_000.0).ceil();
        let last = bytes - 1_000.0 * (packets - 1.0) + 50.0;
        // All but the last packet leave the first link, and the last one passes all links.
        let (delays, slow, fast) = (2_700.0, 0.08, 0.02);
        let alone = 84.0 * (packets - 1.0) + delays + last * (slow - fast) + last * slow;
        // A small last packet waits for the one before it on the last link.
        let behind = 84.0 * (packets - 1.0) + delays + 63.0 + if packets > 1.0 { last * slow } else { 0.0 };
        let expected = if packets > 1.0 { alone.max(behind) } else { alone };
        assert!((ideal - expected).abs() < 1e-6, "{bytes} bytes: {ideal} ns, not {expected}");
        let ack = 2_700.0 + 64.0 * (slow - fast) + 64.0 * slow;
        let wait = if packets > 1.0 { (64.0 - last).max(0.0) * slow } else { 0.0 };
        assert!((acked - expected - wait - ack).abs() < 1e-6, "{bytes} bytes: {acked} ns");
    }
    for name in ["slowdown", "acked_slowdown"] {
        assert!(column(&outcome, name).iter().all(|&slowdown| slowdown == 1.0), "{name}");
    }
}

#[test]
fn all_switches_need_the_ideal_time_on_an_empty_network() {
    for rates in [[100, 100, 100], [100, 400, 100], [400, 100, 400], [50, 100, 200], [200, 100, 50]] {
        for notification in [None, Some(Notification::Ack), Some(Notification::AckEach)] {
            let architectures = [Architecture::Voq, Architecture::Iq, Architecture::Cioq];
            let stored = architectures.map(|architecture| (architecture, ForwardingMode::StoreAndForward));
            let kinds = architectures.map(|architecture| (architecture, ForwardingMode::CutThrough));
            for architecture in [kinds, stored].concat() {
                let mut config = recorded(us(2_000), notification);
                (config.switch.architecture, config.switch.forwarding) =
                    (Some(architecture.0), architecture.1);
                let outcome = alone(&line(rates), &mut config, ("A", "B"));
                let slowdowns = column(&outcome, "slowdown");
                assert_eq!(slowdowns.len(), sizes().len());
                assert!(
                    slowdowns.iter().all(|&slowdown| slowdown == 1.0),
                    "{rates:?} {notification:?} {architecture:?}: {slowdowns:?}"
                );
                let acked = column(&outcome, "acked_slowdown");
                let expected = |slowdown: &f64| match notification {
                    None => slowdown.is_nan(),
                    Some(_) => *slowdown == 1.0,
                };
                assert!(acked.iter().all(expected), "{rates:?} {notification:?} {architecture:?}: {acked:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// All rates are such that a byte takes a whole number of picoseconds, because the limits of hosts are
    /// rounded otherwise.
    #[test]
    fn hosts_with_limits_need_the_ideal_time(
        seed in prop::collection::vec(any::<u8>(), 8..40),
        injection in prop::option::of(prop::sample::select(vec![5u64, 8, 10, 20])),
        drain in prop::option::of(prop::sample::select(vec![5u64, 8, 10, 20])),
        (fcfs, stores) in (any::<bool>(), any::<bool>()),
    ) {
        let topology = topology(&random_network(&seed, 4, 6).replace("13 Gbit/s", "10 Gbit/s"));
        let mut config = recorded(us(3_000), Some(Notification::AckEach));
        if stores {
            config.switch.forwarding = ForwardingMode::StoreAndForward;
        }
        config.host.injection_rate = injection.map(Rate::from_gbit);
        config.host.drain_rate = drain.map(Rate::from_gbit);
        config.switch.latency = Time::from_ns(130);
        config.switch.buffer = Bytes(1 << 20);
        config.host.buffer = Bytes(1 << 20);
        if fcfs {
            config.switch.arbitration = Some(silvan_fabric::config::Arbitration::Fcfs);
        }
        let outcome = alone(&topology, &mut config, ("H0", "H5"));
        for name in ["slowdown", "acked_slowdown"] {
            let slowdowns = column(&outcome, name);
            prop_assert!(slowdowns.iter().all(|&slowdown| slowdown == 1.0), "{}: {:?}", name, slowdowns);
        }
    }
}

#[test]
fn summaries_count_unfinished_transfers_and_ranges_of_sizes() {
    let mut config = recorded(us(200), None);
    let end = |start: u64, size: u64| Flow {
        name: Some(format!("{start} {size}")),
        start: us(start),
        message: Some(Bytes(size)),
        total: Some(Bytes(size)),
        ..flow("A", "B")
    };
    config.warmup = us(10);
    config.flows = vec![end(0, 100), end(20, 500), end(40, 1_000), end(60, 1_001), end(199, 50_000)];
    let outcome = run(&line([100, 100, 100]), &config);
    let transfers = outcome.summary.transfers.as_ref().unwrap();
    assert_eq!((transfers.started, transfers.unfinished, transfers.undelivered), (5, 1, 1));
    let ranges: Vec<_> =
        transfers.sizes.iter().map(|one| (one.above_bytes, one.up_to_bytes, one.transfers)).collect();
    assert_eq!(ranges, [(None, None, 3), (Some(0), Some(1_000), 2), (Some(1_000), Some(3_000), 1)]);
    assert_eq!(transfers.sizes[0].class, "flows");
    assert!(outcome.account.iter().any(|line| line.starts_with("1 of 5 transfers were unfinished")));
    assert!(column(&outcome, "delivered_ns")[4].is_nan());
}

/// The waiting time of a message of one packet at a link that serves Poisson arrivals (M/D/1): rho / (2 (1 -
/// rho)) service times on average.
#[test]
fn waiting_times_are_those_of_queueing_theory() {
    let topology = line([100, 100, 100]);
    let mut config = recorded(us(200_000), None);
    config.host.buffer = Bytes(1 << 20);
    let mut traffic = pattern(Pattern::Hotspots { to: vec!["B".into()] });
    traffic.hosts = Some(vec!["A".into()]);
    // 1000 bytes with their header take 84 ns, and one message arrives per 133.33 ns: a load of 63 %.
    (traffic.rate, traffic.arrivals) = (Some(Rate::from_gbit(60)), Arrivals::Poisson);
    config.traffic = vec![traffic];
    config.measure.interval = us(20_000);
    let outcome = run(&topology, &config);
    let waits: Vec<f64> = column(&outcome, "delivered_ns")
        .iter()
        .zip(column(&outcome, "start_ns"))
        .zip(column(&outcome, "ideal_ns"))
        .map(|((end, start), ideal)| end - start - ideal)
        .filter(|wait| !wait.is_nan())
        .collect();
    let mean = waits.iter().sum::<f64>() / waits.len() as f64;
    let load = 0.63;
    assert_near(mean, 84.0 * load / (2.0 * (1.0 - load)), 0.02, "mean waiting time");
    assert!(waits.len() > 1_000_000);
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let topology =
        topology(r#"{"kind": "two-level-fat-tree", "leaves": 4, "spines": 2, "hosts_per_leaf": 4}"#);
    let mut config = recorded(us(400), Some(Notification::AckEach));
    let mut traffic = pattern(Pattern::Uniform { include_self: false });
    (traffic.rate, traffic.arrivals) = (Some(Rate::from_gbit(6)), Arrivals::Poisson);
    (traffic.message, traffic.message_max) = (Some(Bytes(100)), Some(Bytes(9_000)));
    config.traffic = vec![traffic];
    config.measure.interval = us(50);
    let one = run(&topology, &config);
    config.threads = 3;
    let several = run(&topology, &config);
    assert!(one.summary.transfers.as_ref().unwrap().started > 100);
    assert_eq!(one.summary.transfers, several.summary.transfers);
    assert_eq!(one.tables, several.tables);
}

/// Traffic from A to B whose message sizes have a distribution with these points: bytes and cumulative
/// percentages.
fn sized(points: &[(u32, f64)]) -> Traffic {
    let mut traffic = pattern(Pattern::Hotspots { to: vec!["B".into()] });
    traffic.hosts = Some(vec!["A".into()]);
    traffic.sizes = Some(Sizes::File { file: "sizes.txt".into() });
    traffic.loaded.sizes = Some(Arc::new(Cdf::new(points).unwrap()));
    traffic
}

#[test]
fn the_offered_load_is_the_given_share_of_the_hosts_rate() {
    let bursts = Bursts { on: us(3), off: us(7) };
    for (arrivals, bursts, percent) in [
        (Arrivals::Periodic, None, 35),
        (Arrivals::Poisson, None, 50),
        (Arrivals::Periodic, Some(bursts), 20),
        (Arrivals::Poisson, Some(bursts), 20),
    ] {
        let mut traffic = sized(&[(500, 0.0), (2_000, 60.0), (3_000, 100.0)]);
        (traffic.load_percent, traffic.arrivals, traffic.bursts) = (Some(percent), arrivals, bursts);
        // Bursts vary more than single messages.
        let duration = if bursts.is_some() { us(300_000) } else { us(200_000) };
        let mut config = recorded(duration, None);
        config.traffic = vec![traffic];
        config.measure.interval = us(20_000);
        let outcome = run(&line([100, 100, 100]), &config);
        let offered: f64 = column(&outcome, "bytes").iter().sum::<f64>() * 8_000.0 / duration.0 as f64;
        let what = format!("{arrivals:?} {bursts:?}");
        assert_near(offered, f64::from(percent), if bursts.is_some() { 0.02 } else { 0.005 }, &what);
    }
}

/// The mean waiting time of messages of one packet and random sizes (M/G/1): the arrival rate times the
/// second moment of the service time, divided by twice the idle share (Pollaczek and Khinchine).
#[test]
fn waiting_times_of_random_sizes_are_those_of_queueing_theory() {
    let mut config = recorded(us(60_000), None);
    config.host.buffer = Bytes(1 << 20);
    let mut traffic = sized(&[(100, 0.0), (200, 50.0), (1_000, 100.0)]);
    (traffic.load_percent, traffic.arrivals) = (Some(60), Arrivals::Poisson);
    config.traffic = vec![traffic];
    config.measure.interval = us(20_000);
    let outcome = run(&line([100, 100, 100]), &config);
    let waits: Vec<f64> = column(&outcome, "delivered_ns")
        .iter()
        .zip(column(&outcome, "start_ns"))
        .zip(column(&outcome, "ideal_ns"))
        .map(|((end, start), ideal)| end - start - ideal)
        .filter(|wait| !wait.is_nan())
        .collect();
    // A byte takes 0.08 ns, and each packet has a header of 50 bytes.
    let moment = |power: i32| {
        let of = |low: f64, high: f64| {
            let (low, high) = ((low + 50.0) * 0.08, (high + 50.0) * 0.08);
            (high.powi(power + 1) - low.powi(power + 1)) / (f64::from(power + 1) * (high - low))
        };
        (of(100.0, 200.0) + of(200.0, 1_000.0)) / 2.0
    };
    let mean_bytes = (150.0 + 600.0) / 2.0;
    let rate = 0.6 / (mean_bytes * 0.08);
    let expected = rate * moment(2) / (2.0 * (1.0 - rate * moment(1)));
    let mean = waits.iter().sum::<f64>() / waits.len() as f64;
    assert_near(mean, expected, 0.02, "mean waiting time");
}

/// A closed loop with one outstanding message: the next one starts a think time after the last
/// acknowledgement.
#[test]
fn closed_loops_wait_for_the_last_acknowledgement() {
    for notification in [Notification::AckEach, Notification::Ack, Notification::AckMessage] {
        let mut traffic = sized(&[(500, 0.0), (5_000, 100.0)]);
        (traffic.outstanding, traffic.think) = (Some(1), Some(us(2)));
        let mut config = recorded(us(3_000), Some(notification));
        config.traffic = vec![traffic];
        let outcome = run(&line([100, 400, 100]), &config);
        let (starts, ends) = (column(&outcome, "start_ns"), column(&outcome, "acked_ns"));
        assert!(starts.len() > 300 && starts[0] < 2_000.0);
        for (end, next) in ends.iter().zip(&starts[1..]) {
            assert!((next - end - 2_000.0).abs() < 1e-6, "{notification:?}: {end} {next}");
        }
        assert!(column(&outcome, "acked_slowdown").iter().all(|&one| one == 1.0 || one.is_nan()));
    }
    let mut traffic = pattern(Pattern::Uniform { include_self: false });
    (traffic.outstanding, traffic.message) = (Some(5), Some(Bytes(3_000)));
    let mut config = recorded(us(200), Some(Notification::AckEach));
    config.traffic = vec![traffic];
    let topology = topology(r#"{"kind": "star", "hosts": 4, "link_rate": "100 Gbit/s"}"#);
    let outcome = run(&topology, &config);
    let (starts, ends) = (column(&outcome, "start_ns"), column(&outcome, "acked_ns"));
    let at = 100_000.0;
    let under_way =
        starts.iter().zip(&ends).filter(|(start, end)| **start <= at && (end.is_nan() || **end > at));
    assert_eq!(under_way.count(), 20, "five of each host");
}

#[test]
fn incasts_have_distinct_senders_within_their_jitter() {
    let topology = topology(r#"{"kind": "star", "hosts": 8, "link_rate": "100 Gbit/s"}"#);
    let incast = Incast { senders: 5, to: None, every: Some(us(50)), jitter: Some(us(4)) };
    let mut traffic = pattern(Pattern::Incast(incast));
    traffic.message = Some(Bytes(20_000));
    let mut config = recorded(us(1_000), None);
    config.traffic = vec![traffic];
    let outcome = run(&topology, &config);
    let codes = |name: &str| {
        let table = outcome.tables.iter().find(|table| table.name == "transfers").unwrap();
        let column = table.columns.iter().find(|column| column.name == name).unwrap();
        let Values::Name { codes, .. } = &column.values else { panic!("{name}") };
        codes.clone()
    };
    let (starts, from, to) = (column(&outcome, "start_ns"), codes("from"), codes("to"));
    assert_eq!(starts.len(), 100);
    let mut receivers = Vec::new();
    for incast in 0..20 {
        let own = 5 * incast..5 * incast + 5;
        let begin = 50_000.0 * incast as f64;
        assert!(starts[own.clone()].iter().all(|start| (begin..begin + 4_000.0).contains(start)));
        let mut members = from[own.clone()].to_vec();
        members.push(to[own.start]);
        members.sort_unstable();
        members.dedup();
        assert_eq!(members.len(), 6, "the receiver does not send");
        assert!(to[own.clone()].iter().all(|one| *one == to[own.start]));
        receivers.push(to[own.start]);
    }
    receivers.sort_unstable();
    receivers.dedup();
    assert!(receivers.len() > 3, "{receivers:?}");
}

/// A host has more transfers with flows of their own than it can send at a time. They are due at three times,
/// 50 ns apart. There may be acknowledgements or a reaction.
#[test]
fn listed_transfers_start_at_their_times_and_all_end() {
    for (notification, mechanism) in
        [(None, Mechanism::None), (Some(Notification::AckEach), Mechanism::None), (None, Mechanism::IbCc)]
    {
        let mut traffic =
            pattern(Pattern::Listed(Listed { file: "flows.txt".into(), starts_at: Time::ZERO }));
        let transfer = |at: u64| ListedTransfer {
            from: 0,
            to: 1,
            bytes: 100 + at % 7 * 400,
            start: Time::from_ns(at / 1_500 * 50),
            sl: (at % 2) as u8,
        };
        traffic.loaded.transfers = Some(Arc::new((0..4_500).map(transfer).collect()));
        let mut config = recorded(us(5_000), notification);
        config.congestion.mechanism = mechanism;
        config.traffic = vec![traffic];
        let outcome = run(&line([100, 100, 50]), &config);
        let transfers = outcome.summary.transfers.as_ref().unwrap();
        assert_eq!((transfers.started, transfers.unfinished), (4_500, 0), "{notification:?} {mechanism:?}");
        let starts = column(&outcome, "start_ns");
        assert_eq!((starts[0], starts[1_500], starts[4_499]), (0.0, 50.0, 100.0));
        assert_eq!(column(&outcome, "bytes").iter().sum::<f64>(), 5_848_800.0);
    }
}

#[test]
fn sources_do_not_depend_on_the_number_of_threads() {
    let topology = topology(
        r#"{"kind": "two-level-fat-tree", "leaves": 4, "spines": 2, "hosts_per_leaf": 4, "link_rate": "100 Gbit/s"}"#,
    );
    let mut config = recorded(us(300), Some(Notification::AckEach));
    config.congestion.marking = Some(silvan_congestion::marking::Marking::None);
    let uniform = || pattern(Pattern::Uniform { include_self: false });
    let closed =
        Traffic { outstanding: Some(3), think: Some(us(1)), message: Some(Bytes(4_000)), ..uniform() };
    let sized =
        Traffic { sizes: Some(Sizes::Rpc), load_percent: Some(30), arrivals: Arrivals::Poisson, ..uniform() };
    let incast = Incast { senders: 6, to: None, every: None, jitter: Some(us(1)) };
    let incast = Traffic {
        load_percent: Some(10),
        sizes: Some(Sizes::Hadoop),
        arrivals: Arrivals::Poisson,
        ..pattern(Pattern::Incast(incast))
    };
    config.traffic = vec![closed, sized, incast];
    config.ecmp = Some(Default::default());
    config.measure.interval = us(50);
    let one = run(&topology, &config);
    config.threads = 3;
    let several = run(&topology, &config);
    assert!(one.summary.transfers.as_ref().unwrap().started > 1_000);
    assert_eq!(one.summary.transfers, several.summary.transfers);
    assert_eq!(one.tables, several.tables);
}
