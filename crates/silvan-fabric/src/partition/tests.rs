//! Tests of the order of events in a partition. Packets are put on the links of hosts by hand.

use silvan_network::port::Vl;
use silvan_network::traffic::Flow;

use super::*;
use crate::config::{Arbitration, Architecture, Scheduler};
use crate::link::{CreditWay, EventKey, unkey};
use crate::message::{SourceReport, Word};
use crate::packet::Packet;
use crate::queueing::Queues;
use crate::tests::{config, flow, network, run_to, send_marked, star, times, topology};

/// The host to which all others send, and the output of the switch to it.
const TARGET: u32 = 3;
const OUTPUT: Port = Port(3);

/// One switch of each kind whose outputs serve their inputs in turn, with each scheduler that supports it.
fn stars() -> impl Iterator<Item = (&'static str, Partition)> {
    let kinds = [
        ("VOQ", Architecture::Voq, Queues::PerOutput, Scheduler::EventOrdered),
        ("VOQ in bins", Architecture::Voq, Queues::PerOutput, Scheduler::Binned),
        ("a queue per destination", Architecture::Voq, Queues::PerDestination, Scheduler::EventOrdered),
        ("iSLIP", Architecture::Iq, Queues::PerOutput, Scheduler::EventOrdered),
    ];
    kinds.into_iter().map(|(name, architecture, queues, scheduler)| {
        let partition = star(|config| {
            config.switch.architecture = Some(architecture);
            config.switch.queues = Some(queues);
            config.scheduler = scheduler;
        });
        (name, partition)
    })
}

/// The sources of the packets that are on the link to the target, in their order.
fn on_last_link(partition: &Partition) -> Vec<u32> {
    let ctx = &partition.ctx;
    let arrivals = ctx.queue.iter().filter(|event| unkey(event.key).class == Class::HostArrival);
    let mut arrivals: Vec<(Time, u32)> =
        arrivals.map(|event| (event.time, ctx.packets[event.data].src)).collect();
    arrivals.sort_unstable();
    arrivals.into_iter().map(|(_, source)| source).collect()
}

/// Has a host start to send a packet to the target at a time.
fn send(partition: &mut Partition, from: u32, at: Time) {
    send_marked(partition, (from, TARGET), at);
}

/// Makes host 0 send immediately, so that the turn passes to input 1. Packets of hosts 2 and 1 follow. The first one
/// waits for the output, and the second one arrives at the instant at which the output becomes free. Returns that
/// instant.
fn arrive_when_free(partition: &mut Partition) -> Time {
    let (head_delay, span) = times(partition);
    send(partition, 0, Time::ZERO);
    send(partition, 2, Time(1));
    send(partition, 1, span);
    head_delay + span
}

#[test]
fn a_packet_that_arrives_when_an_output_becomes_free_takes_part_in_its_decision() {
    for (name, mut partition) in stars() {
        let free_at = arrive_when_free(&mut partition);
        run_to(&mut partition, free_at);
        if partition.outputs.is_some() {
            partition.bin(partition.tick_of(free_at), Time::NEVER);
        } else {
            partition.run(free_at.0 + 1, u64::MAX);
        }
        assert_eq!(on_last_link(&partition).last(), Some(&1), "{name}: it is the turn of input 1");
        assert_eq!(partition.queued_bytes(0, OUTPUT), 1_000, "{name}: the packet of input 2 waits");
    }
}

#[test]
fn a_sample_sees_the_arrivals_of_its_time_but_no_decision() {
    for (name, mut partition) in stars() {
        let free_at = arrive_when_free(&mut partition);
        run_to(&mut partition, free_at);
        partition.run_to_sample(free_at);
        assert_eq!(partition.queued_bytes(0, OUTPUT), 2_000, "{name}: both packets wait");
        assert!(!on_last_link(&partition).contains(&1), "{name}: none has left");
        assert_eq!(partition.next_tick(), partition.tick_of(free_at), "{name}: the instant continues");
        let end = free_at + Time(1);
        let end = if partition.outputs.is_some() { partition.tick_of(free_at) + 1 } else { end.0 };
        partition.run(end, u64::MAX);
        assert_eq!(on_last_link(&partition).last(), Some(&1), "{name}");
        assert_eq!(partition.queued_bytes(0, OUTPUT), 1_000, "{name}");
    }
}

#[test]
fn an_output_decides_after_all_arrivals_of_an_instant() {
    for (name, mut partition) in stars() {
        let (head_delay, span) = times(&partition);
        send(&mut partition, 0, Time::ZERO);
        // The arrival at input 0 is handled first, but it is the turn of input 1.
        let later = Time(20 * span.0);
        send(&mut partition, 0, later);
        send(&mut partition, 1, later);
        let bin_after = partition.tick_of(later + head_delay) + 1;
        partition.run(bin_after, u64::MAX);
        assert_eq!(on_last_link(&partition), [1], "{name}");
    }
}

#[test]
fn first_come_first_served_is_by_input_at_one_instant() {
    let mut partition = star(|config| config.switch.arbitration = Some(Arbitration::Fcfs));
    let (head_delay, span) = times(&partition);
    let later = Time(20 * span.0);
    for (from, at) in [(0, Time::ZERO), (2, later), (1, later)] {
        send(&mut partition, from, at);
    }
    partition.run((later + head_delay + span).0 + 1, u64::MAX);
    assert_eq!(on_last_link(&partition), [1, 2]);
}

#[test]
fn work_is_handled_instant_by_instant_up_to_a_limit() {
    let mut partition = star(|_| {});
    let (head_delay, _) = times(&partition);
    for (from, at) in [(0, Time::ZERO), (1, Time::ZERO), (2, Time(1))] {
        send(&mut partition, from, at);
    }
    // Two packets arrive at the switch at one instant, which is handled as a whole.
    assert_eq!(partition.run(u64::MAX, 1), 2);
    assert_eq!(partition.ctx.now, head_delay);
    assert_eq!(partition.run(head_delay.0 + 1, u64::MAX), 0, "the end is exclusive, and nothing else is due");
}

#[test]
fn reports_follow_the_packets_of_their_instant_in_the_order_of_their_causes() {
    let mut partition = star(|_| {});
    let (head_delay, span) = times(&partition);
    send(&mut partition, 0, Time::ZERO);
    run_to(&mut partition, head_delay);
    let Switches::Voq(switches) = &mut partition.switches else { panic!("VOQ switches are the default") };
    switches[0].ports.marking.report = Some(std::num::NonZeroU32::new(64).unwrap());
    let out = switches[0].ports.out(OUTPUT);
    let report =
        |destination| SourceReport { to: TARGET, destination, source: 0, severity: 0, sent_at: Time::ZERO };
    let causes = [(0, true, Port(2)), (0, false, Port(3)), (0, true, Port(1))];
    partition.ctx.reports = (0..).zip(causes).map(|(number, cause)| (cause, report(number))).collect();
    // Reports wait for the end of an instant.
    partition.run(head_delay.0 + 1, u64::MAX);
    let ctx = &mut partition.ctx;
    let mut sent: Vec<Event> =
        ctx.queue.iter().filter(|event| unkey(event.key).class == Class::HostNotice).copied().collect();
    sent.sort_by_key(|event| event.time);
    let own = ctx.links.span(out, 64);
    let first = ctx.free_at(out) - Time(3 * own.0);
    assert_eq!(first, head_delay + span, "the packet of that instant precedes the reports");
    let ends: Vec<Time> = sent.iter().map(|event| event.time - ctx.links.delay(out)).collect();
    assert_eq!(ends, [1, 2, 3].map(|count| first + Time(count * own.0)));
    let order: Vec<u32> = sent
        .iter()
        .map(|event| match ctx.notices.take(event.data) {
            Some(Word::Report(report)) => report.destination,
            other => panic!("{other:?} is no report"),
        })
        .collect();
    assert_eq!(order, [1, 2, 0], "reports that arrived precede own ones, and lower ports higher ones");
}

#[test]
fn a_sample_is_not_later_than_the_end_of_the_warm_up() {
    let mut partition = star(|config| config.warmup = Time::from_us(40));
    let (sample, warmup) = (Time::from_us(100), Time::from_us(40));
    // A packet is drained between the end of the warm-up and the sample.
    let packet = Packet { dst: TARGET, ..Packet::example() };
    let drained = Time::from_us(60);
    partition.expect_sample(sample);
    partition.start(warmup);
    partition.ctx.meters.will_deliver(&packet, (Time::ZERO, drained));
    assert_eq!(
        partition.ctx.meters.packets_delivered, 0,
        "the end of the warm-up counts what was drained before"
    );
    partition.run(warmup.0 + 1, u64::MAX);
    assert!(partition.ctx.meters.warm);
    assert_eq!(partition.ctx.meters.packets_delivered, 1, "from then on, the next reading is the sample");
}

#[test]
fn traffic_starts_at_the_delivery_that_it_waits_for() {
    let mut partition = star(|config| {
        let waiting = Flow { start_after_packets: Some(2), start: Time::ZERO, ..flow("H3", "H1") };
        config.flows.push(waiting);
    });
    partition.start(Time::ZERO);
    let (head_delay, span) = times(&partition);
    let own = partition.hosts[2].out;
    for from in [0, 1] {
        send(&mut partition, from, Time::ZERO);
    }
    let delay = partition.ctx.links.delay(partition.hosts[0].out);
    // The second packet follows the first one on the last link.
    let second = head_delay + span + span + delay;
    partition.run(second.0, u64::MAX);
    assert_eq!((partition.ctx.meters.packets_delivered, partition.ctx.free_at(own)), (1, Time::ZERO));
    partition.run(second.0 + 1, u64::MAX);
    assert_eq!(partition.ctx.meters.packets_delivered, 2);
    assert!(partition.ctx.free_at(own) > second, "the host sends at the same instant");
}

#[test]
fn the_next_tick_is_that_of_the_first_event_host_or_output() {
    for scheduler in [Scheduler::EventOrdered, Scheduler::Binned] {
        let mut partition = star(|config| config.scheduler = scheduler);
        assert_eq!(partition.next_tick(), NEVER);
        let (head_delay, span) = times(&partition);
        send(&mut partition, 0, span);
        assert_eq!(partition.next_tick(), partition.tick_of(span), "the event");
        partition.run(partition.tick_of(span) + 1, u64::MAX);
        let arrival = span + head_delay;
        assert_eq!(partition.next_tick(), partition.tick_of(arrival), "the arrival at the switch");
        assert!(!partition.is_idle());
    }
}

#[test]
fn ticks_are_instants_or_bins() {
    let ordered = star(|_| {});
    assert_eq!((ordered.tick_of(Time(70_000)), ordered.ticks_in(Time(70_000))), (70_000, 70_000));
    assert_eq!(ordered.ticks_in(Time::ZERO), 1);
    let binned = star(|config| config.scheduler = Scheduler::Binned);
    let outputs = binned.outputs.as_ref().unwrap();
    let width = outputs.end_of_bin().0;
    assert_eq!([0, width - 1, width, 3 * width].map(|time| binned.tick_of(Time(time))), [0, 0, 1, 3]);
    assert_eq!([1, width, 3 * width + 1].map(|time| binned.ticks_in(Time(time))), [1, 1, 3]);
}

#[test]
fn partitions_are_neighbors_in_both_directions_and_not_of_themselves() {
    let channels = [(0, 1), (1, 1), (3, 0)];
    let near = Neighbors::new(4, channels.into_iter(), false);
    assert_eq!(near.of, [vec![1, 3], vec![0], vec![], vec![0]]);
    let all = Neighbors::new(3, [].into_iter(), true);
    assert_eq!(all.of, [vec![1, 2], vec![0, 2], vec![0, 1]]);
}

/// Two switches in separate partitions, with one host each.
fn pair() -> (Vec<Partition>, (u32, u32)) {
    let mut config = config(Time::from_us(100));
    config.flows = vec![Flow { start: Time::from_us(90), ..flow("H1", "H2") }];
    config.threads = 2;
    let network = network(
        &topology(r#"{"kind": "dumbbell", "left": 1, "right": 1, "trunk_rate": "16 Gbit/s"}"#),
        &config,
    );
    assert_eq!(network.partitions.len(), 2);
    let partitions = network.partitions;
    let trunk = partitions[0].ports(0).out(Port(1));
    let own = partitions[0].hosts[0].out;
    (partitions, (own, trunk))
}

#[test]
fn a_packet_crosses_a_border_and_its_credit_returns() {
    let (mut partitions, (own, trunk)) = pair();
    let [first, second] = &mut partitions[..] else { panic!("there are two partitions") };
    let packet = Packet { src: 0, dst: 1, size: 1_000, space: 1_024, ..Packet::example() };
    let id = first.ctx.packets.insert(packet);
    first.ctx.packets.set_number(id, 77);
    first.ctx.send(own, id);
    assert_eq!(first.run(u64::MAX, u64::MAX), 1, "the packet arrives at the first switch");
    let (head_delay, delay) = (
        first.ctx.links.all_parameters()[first.ctx.links.parameters_index(own)].head_delay,
        first.ctx.links.delay(trunk),
    );
    assert_eq!(first.ctx.packets.alive(), 0, "the packet belongs to the other partition");
    assert_eq!(first.packets_inside().count(), 1, "but is counted until that one has received it");
    let capacity = first.ctx.links.capacity(trunk, Vl::FIRST);
    let lacks = |partition: &mut Partition, now| {
        !partition.ctx.links.has_credit(CreditWay { channel: trunk, vl: Vl::FIRST, dst: 1 }, capacity, now)
    };
    assert!(lacks(first, Time::from_us(50)), "the packet has spent credit");

    let mut mailbox = std::mem::take(&mut first.ctx.outbox[1]);
    assert_eq!(mailbox.earliest(), head_delay + head_delay);
    second.collect(&mut mailbox);
    assert!(mailbox.is_empty() && first.is_idle());
    let arrived = second.ctx.queue.iter().next().copied().unwrap();
    assert_eq!(unkey(arrived.key), EventKey { class: Class::SwitchArrival, node: 0, port: Port(1) });
    assert_eq!(arrived.time, head_delay + head_delay);
    assert_eq!(second.ctx.packets.marks(arrived.data).number, 77, "the packet keeps its number");
    second.run(arrived.time.0 + 1, u64::MAX);

    let left = arrived.time + second.ctx.links.span(second.ports(0).out(Port::FIRST), 1_000);
    let mut mailbox = std::mem::take(&mut second.ctx.outbox[0]);
    assert_eq!(mailbox.earliest(), left + delay);
    first.collect(&mut mailbox);
    assert!(lacks(first, left + delay - Time(1)), "the credit is still on its way");
    assert!(!lacks(first, left + delay));
}

#[test]
fn a_partition_that_waits_for_credit_is_woken_when_it_arrives_from_another_one() {
    let (mut partitions, (_, trunk)) = pair();
    let ctx = &mut partitions[0].ctx;
    let vl = Vl::FIRST;
    let way = CreditWay { channel: trunk, vl, dst: 1 };
    let capacity = ctx.links.capacity(trunk, vl);
    let packet = Packet { dst: 1, size: 1_000, space: capacity, ..Packet::example() };
    let id = ctx.packets.insert(packet);
    ctx.send(trunk, id);
    assert!(!ctx.has_credit_or_wait(way, capacity));
    assert!(ctx.queue.is_empty(), "no credit is on its way");
    let (mut mailbox, leaves_at) = (Mailbox::default(), Time::from_us(3));
    let back = leaves_at + ctx.links.delay(trunk);
    let ledger = crate::packet::NO_LEDGER;
    mailbox.send_credit(crate::message::CreditReturn { way, space: capacity, leaves_at, ledger }, back);
    ctx.collect(&mut mailbox);
    let wake = ctx.queue.pop().unwrap();
    assert_eq!(
        (wake.time, unkey(wake.key)),
        (back, EventKey { class: Class::SwitchWake, node: 0, port: Port(1) })
    );
    ctx.now = back;
    assert!(ctx.take_wakes(wake) && ctx.has_credit_or_wait(way, capacity));
}
