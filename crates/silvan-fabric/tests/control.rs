//! Marks, notifications and injection delays, compared with small cases computed by hand.
//!
//! Links carry 2 bytes per nanosecond (16 Gbit/s), so a packet of 2048 bytes takes 1024 ns.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use crate::common::*;
use silvan_congestion::Notification;
use silvan_congestion::marking::{Fecn, Marking, MarkingPattern};
use silvan_congestion::reaction::{Cct, CctTable, PerSl, Reaction};
use silvan_engine::{Bytes, Rate};
use silvan_fabric::config::{Config, Scheduler};
use silvan_fabric::outcome::Outcome;
use silvan_fabric::queueing::HostQueues;
use silvan_network::topology::Topology;
use silvan_network::traffic::Flow;

fn star(hosts: u32) -> Topology {
    topology(&format!(
        r#"{{"kind": "star", "hosts": {hosts}, "link_rate": "16 Gbit/s", "link_delay": "10 ns"}}"#
    ))
}

/// Number of packets that a flow sends in 100 us if its index never falls below `ccti_min`.
fn sent(table: CctTable, ccti_min: u16, flow: Flow) -> u64 {
    let mut config = config(us(100));
    config.congestion = ib_cc();
    config.congestion.reaction = Some(Reaction::Cct(Cct { ccti_min, table, ..Cct::default() }));
    config.flows = vec![flow];
    run(&star(3), &config).summary.packets_injected
}

/// Number of packets that start within 100 us, one per period.
fn each(period_ns: f64) -> u64 {
    (100_000.0 / period_ns).ceil() as u64
}

#[test]
fn an_index_delays_packets_by_its_entry_of_the_table() {
    let plain = || flow("H1", "H2");
    let list = |at: usize, delay| {
        let mut delays_ns = vec![0; 128];
        delays_ns[at] = delay;
        CctTable::List { delays_ns }
    };
    assert_eq!(sent(list(5, 1_024), 0, plain()), each(1_024.0));
    assert_eq!(sent(list(5, 1_024), 5, plain()), each(2_048.0));
    assert_eq!(sent(list(5, 8_976), 5, plain()), each(10_000.0));
    assert_eq!(sent(list(5, 1_024), 4, plain()), each(1_024.0));
    // The delay is twice three packet times.
    assert_eq!(sent(CctTable::Linear { packets: 2, entries: 128 }, 3, plain()), each(7.0 * 1_024.0));
    // The delay is 7 us at the divisor, and a quarter of this at half the divisor; the scale multiplies
    // both.
    let quadratic = |divisor, scale| CctTable::Quadratic { divisor, scale, entries: 128 };
    assert_eq!(sent(quadratic(95, 1), 95, plain()), each(1_024.0 + 7_000.0));
    assert_eq!(sent(quadratic(100, 1), 50, plain()), each(1_024.0 + 1_750.0));
    assert_eq!(sent(quadratic(100, 3), 50, plain()), each(1_024.0 + 5_250.0));
    // A multiplier of 13, halved twice, gives 3.25 packet times.
    let iba = |entry| {
        let mut entries = vec![0; 128];
        entries[1] = entry;
        CctTable::Iba { entries }
    };
    assert_eq!(sent(iba(2 << 14 | 13), 1, plain()), each(4.25 * 1_024.0));
    assert_eq!(sent(iba(13), 1, plain()), each(14.0 * 1_024.0));
}

#[test]
fn the_delay_of_a_small_packet_is_smaller_in_proportion() {
    let mut delays_ns = vec![0; 128];
    delays_ns[1] = 3 * 1_024;
    // A quarter of a packet takes 256 ns, and is delayed by three times this time.
    let small = Flow { message: Some(Bytes(512)), ..flow("H1", "H2") };
    assert_eq!(sent(CctTable::List { delays_ns }, 1, small), each(1_024.0));
}

#[test]
fn service_levels_may_have_an_index_of_their_own() {
    let mut config = config(us(100));
    config.congestion = ib_cc();
    let table = CctTable::Linear { packets: 1, entries: 128 };
    let other = PerSl {
        sl: 3,
        ccti_increase: None,
        ccti_limit: None,
        ccti_min: Some(9),
        ccti_timer: None,
        trigger_threshold: None,
    };
    let cct = Cct { ccti_min: 1, table, per_sl: vec![other], ..Cct::default() };
    config.congestion.reaction = Some(Reaction::Cct(cct));
    config.flows = vec![flow("H1", "H2"), Flow { sl: 3, ..flow("H3", "H4") }];
    let outcome = run(&star(4), &config);
    let received: Vec<u64> = outcome.summary.classes.iter().map(|class| class.delivered_packets).collect();
    // The periods are two and ten packet times. The last packet may still be on its way.
    assert!((each(2_048.0) - 1..=each(2_048.0)).contains(&received[0]), "{received:?}");
    assert!((each(10_240.0) - 1..=each(10_240.0)).contains(&received[1]), "{received:?}");
}

/// Two hosts send to a third one, and only the port to that host marks packets.
fn marking(fecn: Fecn, message: u64) -> Outcome {
    let mut config = config(us(2_000));
    config.congestion.marking = Some(Marking::Fecn(fecn));
    let message = Some(Bytes(message));
    config.flows = vec![Flow { message, ..flow("H1", "H3") }, Flow { message, ..flow("H2", "H3") }];
    run(&star(3), &config)
}

#[test]
fn every_so_many_eligible_packets_are_marked() {
    let regular = |marking_rate| {
        let fecn = Fecn { marking_rate, pattern: MarkingPattern::Regular, ..Fecn::default() };
        marking(fecn, 2_048).summary
    };
    let all = regular(0);
    // When the buffers are full, every packet is marked. About 1953 packets leave in 2 ms.
    assert!((1_800..=all.packets_delivered).contains(&all.fecn_marks), "{}", all.fecn_marks);
    for rate in [1, 2, 6, 40] {
        let marks = regular(rate).fecn_marks;
        let expected = all.fecn_marks / (u64::from(rate) + 1);
        assert!(marks.abs_diff(expected) <= 1, "{marks} instead of {expected}");
    }
}

#[test]
fn marks_at_random_keep_their_share() {
    let eligible = marking(Fecn { marking_rate: 0, ..Fecn::default() }, 2_048).summary.fecn_marks as f64;
    let shares = [
        (Fecn { marking_rate: 3, ..Fecn::default() }, 0.25),
        (Fecn { marking_rate: 9, ..Fecn::default() }, 0.1),
        (Fecn { percent: Some(60), ..Fecn::default() }, 0.6),
        (Fecn { percent: Some(100), ..Fecn::default() }, 1.0),
    ];
    for (fecn, share) in shares {
        let marks = marking(fecn, 2_048).summary.fecn_marks as f64;
        let deviation = (eligible * share * (1.0 - share)).sqrt();
        assert!((marks - eligible * share).abs() <= 5.0 * deviation, "{marks} of {eligible}, not {share}");
    }
}

#[test]
fn packets_below_the_packet_size_are_not_marked() {
    let fecn = |packet_size| Fecn { packet_size, marking_rate: 0, ..Fecn::default() };
    // 511 bytes are less than 8 credit blocks of 64 bytes.
    assert_eq!(marking(fecn(8), 511).summary.fecn_marks, 0);
    assert!(marking(fecn(8), 512).summary.fecn_marks > 1_000);
    assert_eq!(marking(fecn(33), 2_048).summary.fecn_marks, 0);
    assert!(marking(fecn(32), 2_048).summary.fecn_marks > 1_000);
}

#[test]
fn a_port_without_a_queue_marks_nothing_and_threshold_zero_neither() {
    let off = Fecn { threshold: 0, marking_rate: 0, ..Fecn::default() };
    assert_eq!(marking(off, 2_048).summary.fecn_marks, 0);
    let mut config = config(us(500));
    config.congestion.marking = Some(Marking::Fecn(Fecn { marking_rate: 0, ..Fecn::default() }));
    config.flows = vec![flow("H1", "H3"), flow("H2", "H4")];
    assert_eq!(run(&star(4), &config).summary.fecn_marks, 0);
}

#[test]
fn every_mark_returns_to_its_source_once() {
    for notification in [Notification::Cnp, Notification::Ack, Notification::Backward] {
        let mut config = config(us(1_000));
        config.congestion.notification = Some(notification);
        config.congestion.marking = Some(Marking::Fecn(Fecn { marking_rate: 4, ..Fecn::default() }));
        // The flows stop early, so all marks have returned at the end.
        config.flows = ["H1", "H2"].map(|from| Flow { stop: Some(us(300)), ..flow(from, "H3") }).into();
        let summary = run(&star(3), &config).summary;
        assert!(summary.fecn_marks > 50, "{notification:?}: {}", summary.fecn_marks);
        assert_eq!(summary.becn_received, summary.fecn_marks, "{notification:?}");
    }
}

/// Data rate of H1 in Gbit/s, which injects at most 8 Gbit/s and acknowledges the packets that it receives at 5 Gbit/s.
fn beside_acknowledgements(scheduler: Scheduler, queues: HostQueues, is_included: bool) -> f64 {
    let mut config = config(us(4_000));
    config.scheduler = scheduler;
    config.warmup = us(1_000);
    config.congestion = ib_cc();
    config.congestion.notification = Some(Notification::AckEach);
    config.host.queues = Some(queues);
    config.host.injection_rate = Some(Rate::from_gbit(8));
    config.host.injection_includes_control = is_included;
    config.flows = vec![flow("H1", "H2"), Flow { rate: Some(Rate::from_gbit(5)), ..flow("H3", "H1") }];
    rates(&run(&star(4), &config))[0]
}

#[test]
fn control_packets_take_their_share_of_the_injection_rate() {
    // One control packet of 64 bytes for each 2048 bytes at 5 Gbit/s.
    let share = 5.0 * 64.0 / 2_048.0;
    for (scheduler, queues) in [
        (Scheduler::EventOrdered, HostQueues::None),
        (Scheduler::Binned, HostQueues::None),
        (Scheduler::EventOrdered, HostQueues::Single),
    ] {
        let what = format!("{scheduler:?}, {queues:?}");
        assert_near(beside_acknowledgements(scheduler, queues, false), 8.0, 1e-3, &what);
        assert_near(beside_acknowledgements(scheduler, queues, true), 8.0 - share, 1e-3, &what);
    }
}

/// H1 sends to a slow host and to a fast one, from a buffer with one or several queues.
fn to_slow_and_fast(queues: HostQueues, queue_count: u16, fast: &str) -> f64 {
    let mut config: Config = config(us(4_000));
    config.warmup = us(2_000);
    config.host.queues = Some(queues);
    config.switch.queue_count = queue_count;
    config.host.output_buffer = Bytes(16_384);
    config.host.buffer = Bytes(8_192);
    config.switch.buffer = Bytes(65_536);
    // H2 receives little from H1, because its link is slow and two other hosts send to it.
    config.flows = vec![flow("H1", "H2"), flow("H1", fast), flow("H5", "H2"), flow("H6", "H2")];
    config.host.drain_rate = None;
    let network = topology(
        r#"{"kind": "custom", "link_rate": "16 Gbit/s", "link_delay": "10 ns",
            "hosts": ["H1", "H2", "H3", "H4", "H5", "H6"], "switches": [{"name": "S"}],
            "links": [{"from": "H1", "to": "S"}, {"from": "H2", "to": "S", "rate": "2 Gbit/s"},
                      {"from": "H3", "to": "S"}, {"from": "H4", "to": "S"},
                      {"from": "H5", "to": "S"}, {"from": "H6", "to": "S"}]}"#,
    );
    config.switch.queues = Some(silvan_fabric::queueing::Queues::PerDestination);
    config.switch.queue_buffer = Some(Bytes(8_192));
    config.host.injection_rate = Some(Rate::from_gbit(16));
    rates(&run(&network, &config))[1]
}

#[test]
fn packets_to_a_slow_host_block_those_behind_them_in_the_same_queue_only() {
    // H2 receives 2 Gbit/s, a third of it from H1. In a single queue, packets of both flows take turns.
    let third = 2.0 / 3.0;
    assert_near(to_slow_and_fast(HostQueues::Single, 4, "H3"), third, 0.05, "one queue");
    assert_near(to_slow_and_fast(HostQueues::PerDestination, 4, "H3"), 16.0 - third, 0.05, "one each");
    assert_near(to_slow_and_fast(HostQueues::DestinationModulo, 2, "H3"), 16.0 - third, 0.05, "another one");
    assert_near(to_slow_and_fast(HostQueues::DestinationModulo, 2, "H4"), third, 0.05, "the same one");
    assert_near(to_slow_and_fast(HostQueues::DestinationModulo, 3, "H4"), 16.0 - third, 0.05, "modulo 3");
}
