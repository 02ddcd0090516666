//! Every generated packet is delivered, and no packet waits forever.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use crate::common::*;
use silvan_congestion::{Congestion, Mechanism};
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::config::Config;
use silvan_fabric::outcome::Outcome;
use silvan_fabric::queueing::{HostQueues, Memory, Queues};
use silvan_network::traffic::{Flow, Pattern, Traffic};

fn star(hosts: u32) -> silvan_network::topology::Topology {
    topology(&format!(r#"{{"kind": "star", "hosts": {hosts}}}"#))
}

/// Checks that `packets` packets in total are delivered and that none is left inside the network.
fn assert_complete(outcome: &Outcome, packets: u64, what: &str) {
    let summary = &outcome.summary;
    assert_eq!((summary.packets_delivered, summary.packets_inside), (packets, 0), "{what}");
}

fn uniform(packets: u64, sl: u8) -> Traffic {
    let pattern = pattern(Pattern::Uniform { include_self: false });
    Traffic { packets_per_host: Some(packets), sl, ..pattern }
}

/// A flow that the host skipped for lack of credit is not idle. The flow keeps its messages when the host
/// sends a flow on another lane.
#[test]
fn flows_that_lack_credit_are_not_removed() {
    let mechanisms = [Mechanism::IbCc, Mechanism::Pfister, Mechanism::Renato, Mechanism::Mvcm];
    for (hosts, buffer, mechanism) in
        [(70, 4_224, Mechanism::IbCc)].into_iter().chain(mechanisms.map(|mechanism| (34, 16_384, mechanism)))
    {
        let mut config = config(us(100_000));
        config.measure.interval = us(10_000);
        config.lanes.count = 2;
        config.switch.buffer = Bytes(buffer);
        config.congestion = Congestion { mechanism, ..Congestion::default() };
        let rate = Some(Rate::from_gbit(8));
        config.traffic = [0, 1].map(|sl| Traffic { rate, ..uniform(200, sl) }).into();
        let outcome = run(&star(hosts), &config);
        assert_complete(&outcome, u64::from(hosts) * 400, &format!("{hosts} hosts, {mechanism:?}"));
    }
}

fn two_flows(config: &mut Config) {
    let total = Some(Bytes(40_960));
    let one = Flow { name: Some("f".into()), message: Some(Bytes(100)), total, ..flow("H1", "H2") };
    let other = Flow { name: Some("g".into()), total, ..flow("H1", "H2") };
    config.flows = vec![one, other];
}

/// Two flows need credit for the same share of the memory. After one of them has sent its last packet, the
/// host must check the other one again.
#[test]
fn flows_that_share_memory_both_complete() {
    let organizations = [Queues::PerDestination, Queues::OutputModulo, Queues::DestinationModulo];
    for (queues, queue_buffer) in
        organizations.into_iter().flat_map(|queues| [2_048, 4_096].map(|buffer| (queues, buffer)))
    {
        let mut config = config(us(1_000));
        config.switch.queues = Some(queues);
        config.switch.memory = Some(Memory::Divided);
        config.switch.queue_buffer = Some(Bytes(queue_buffer));
        two_flows(&mut config);
        let outcome = run(&star(2), &config);
        assert_complete(&outcome, 410 + 20, &format!("{queues:?}, {queue_buffer} B"));
    }
}

/// A flow waits for space in its host's output buffer while the host may not inject.
#[test]
fn flows_that_wait_for_the_output_buffer_complete() {
    for queues in [HostQueues::Single, HostQueues::PerDestination] {
        let mut config = config(us(2_000));
        config.host.queues = Some(queues);
        config.host.output_buffer = Bytes(4_096);
        config.host.injection_rate = Some(Rate::from_gbit(2));
        config.host.message_overhead = us(3);
        two_flows(&mut config);
        let outcome = run(&star(2), &config);
        assert_complete(&outcome, 410 + 20, &format!("{queues:?}"));
    }
}

/// A ready flow must wait because a notification arrived. The host must schedule a wake-up for the time at
/// which the flow may continue, even if the source can generate further messages.
#[test]
fn throttled_flows_are_released() {
    let mut config = config(us(20_000));
    config.congestion = ib_cc();
    config.measure.interval = us(1_000);
    config.traffic = vec![Traffic { message: Some(Bytes(9_000)), ..uniform(6, 0) }];
    assert_complete(&run(&star(29), &config), 29 * 6, "six packets from each host");
}

/// A small packet that lacks credit is sent later, even if a larger one waits behind it.
#[test]
fn packets_of_all_sizes_get_their_credit() {
    let mut config = config(us(5_000));
    config.lanes.count = 3;
    config.switch.buffer = Bytes(3 * 2_112);
    config.host.buffer = Bytes(3 * 2_112);
    config.host.drain_rate = Some(Rate::from_gbit(3));
    config.congestion = ib_cc();
    config.congestion.notification = Some(silvan_congestion::Notification::AckEach);
    let total = Some(Bytes(30_000));
    let flow = |from: usize, to: usize, sl: u8, message: u64| Flow {
        name: Some(format!("{from} {to} {sl}")),
        message: Some(Bytes(message)),
        total,
        sl,
        ..flow(&format!("H{from}"), &format!("H{to}"))
    };
    let pairs = (1..=6).flat_map(|from| (1..=6).filter(move |&to| to != from).map(move |to| (from, to)));
    config.flows =
        pairs.map(|(from, to)| flow(from, to, (from + to) as u8 % 3, 64 * (from * to) as u64)).collect();
    let outcome = run(&star(6), &config);
    assert_eq!(outcome.summary.packets_inside, 0);
    assert!(outcome.summary.flows.iter().all(|flow| flow.received_bytes == 30_000));
}

/// A host answers on two lanes. Answers on a lane with credit do not wait for the other lane.
#[test]
fn control_packets_of_a_lane_do_not_wait_for_those_of_another() {
    let mut config = config(us(400));
    config.lanes.count = 2;
    config.switch.buffer = Bytes(2 * 4_224);
    config.congestion.notification = Some(silvan_congestion::Notification::AckEach);
    config.congestion.reaction = Some(silvan_congestion::reaction::Reaction::StaticWindow(
        silvan_congestion::reaction::StaticWindow::default(),
    ));
    // H2, H3 and H4 overload H5 on lane 1, so the answers of H2 to H6 wait for credit. H1 sends on lane 0 and
    // needs answers of H2.
    let on = |from: &str, to: &str, sl: u8| Flow { sl, ..flow(from, to) };
    let alone = on("H1", "H2", 0);
    config.flows = vec![alone.clone()];
    let free = rates(&run(&star(6), &config))[0];
    config.flows = vec![alone, on("H2", "H5", 1), on("H3", "H5", 1), on("H4", "H5", 1), on("H6", "H2", 1)];
    let shared = rates(&run(&star(6), &config))[0];
    assert!(shared > 0.45 * free, "{shared} of {free} Gbit/s, although half of the link is free");
}

#[test]
fn a_run_without_remaining_traffic_ends_without_warnings() {
    let mut config = config(Time::from_us(50_000));
    two_flows(&mut config);
    assert_complete(&run(&star(2), &config), 430, "idle afterwards");
}
