//! Tests of single decisions of a host: turns of flows, precedence of control packets, times of attempts and
//! of deliveries.

use silvan_congestion::Mechanism;
use silvan_congestion::reaction::{Dcqcn, Reaction};
use silvan_engine::Event;
use silvan_network::port::Port;

use super::flows::Connection;
use super::outbox::ControlPacket;
use super::*;
use crate::config::{Config, Scheduler};
use crate::link::{Class, CreditWay, key, unkey};
use crate::message::SourceReport;
use crate::packet::{Contents, Kind};
use crate::partition::Partition;
use crate::tests::{packet, star};

/// A star of hosts with two virtual lanes. Host 0 has one source, and the tests add its messages.
fn partition(set: impl FnOnce(&mut Config)) -> Partition {
    star(|config| {
        config.lanes.count = 2;
        set(config);
    })
}

fn parts(partition: &mut Partition) -> (&mut Host, &mut Context) {
    (&mut partition.hosts[0], &mut partition.ctx)
}

/// Adds a message of `packets` full packets.
fn add(host: &mut Host, ctx: &mut Context, destination: u32, packets: u64) {
    let left = packets * u64::from(host.sizes.mtu);
    host.sources[0].backlog += 1;
    host.add_message(ctx, 0, Message { destination, created: ctx.now, left, hot: false });
}

/// Lets the host send whenever its link and its injection limit permit it, at most `most` times. Returns the
/// destinations of the packets.
fn send(host: &mut Host, ctx: &mut Context, most: usize) -> Vec<u32> {
    let before = ctx.packets.alive();
    for _ in 0..most {
        host.settle(ctx);
        ctx.now = ctx.now.max(ctx.free_at(host.out)).max(host.injection.free_at);
    }
    ctx.packets.iter().skip(before).map(|packet| packet.dst).collect()
}

/// The times of the scheduled wake-ups of the host, in ascending order.
fn wakes(host: &Host, ctx: &Context) -> Vec<Time> {
    let own = key(Class::HostWake, host.place, Port::FIRST);
    let mut times: Vec<Time> =
        ctx.queue.iter().filter(|event| event.key == own).map(|event| event.time).collect();
    times.sort_unstable();
    times
}

/// Takes the credit of a lane of the host's link, except for `left` bytes.
fn exhaust(host: &Host, ctx: &mut Context, vl: Vl, left: u32) {
    let space = ctx.links.capacity(host.out, vl) - left;
    let id = ctx.packets.insert(Packet { size: 1, space, vl, ..packet(0, 3) });
    ctx.send(host.out, id);
    ctx.now = ctx.free_at(host.out);
}

/// Returns credit to a host, and advances the time to the arrival of the credit.
fn give_credit(host: &Host, ctx: &mut Context, vl: Vl, space: u32) {
    let (way, ledger) = (CreditWay { channel: host.out, vl, dst: 3 }, crate::packet::NO_LEDGER);
    ctx.release(crate::message::CreditReturn { way, space, leaves_at: ctx.now, ledger });
    ctx.now += ctx.links.delay(host.out);
}

/// A control packet on a lane.
fn control(host: &Host, vl: u8) -> ControlPacket {
    let flow = Connection { source: 0, destination: 3 };
    ControlPacket { vl: Vl(vl), ..host.control_for(Contents::example(Kind::Ack), flow) }
}

#[test]
fn flows_take_turns_packet_by_packet() {
    let mut partition = partition(|_| {});
    let (host, ctx) = parts(&mut partition);
    for (destination, packets) in [(3, 2), (1, 3), (2, 1)] {
        add(host, ctx, destination, packets);
    }
    assert_eq!(send(host, ctx, 8), [3, 1, 2, 3, 1, 1]);
    add(host, ctx, 2, 1);
    assert_eq!(send(host, ctx, 2), [2]);
}

#[test]
fn a_host_sends_one_packet_at_a_time() {
    let mut partition = partition(|_| {});
    let (host, ctx) = parts(&mut partition);
    add(host, ctx, 3, 2);
    assert_eq!(ctx.packets.alive(), 0);
    host.settle(ctx);
    let free_at = ctx.free_at(host.out);
    assert_eq!((ctx.packets.alive(), wakes(host, ctx)), (1, vec![free_at]));
    ctx.now = free_at - Time(1);
    host.settle(ctx);
    assert_eq!(ctx.packets.alive(), 1, "the link is busy");
}

#[test]
fn a_flow_that_lacks_credit_keeps_its_turn() {
    let mut partition = partition(|_| {});
    let (host, ctx) = parts(&mut partition);
    host.lane_of = Some([0, 1, 0, 0].into());
    exhaust(host, ctx, Vl(1), 64);
    for destination in [1, 2, 3] {
        add(host, ctx, destination, 1);
    }
    assert_eq!(send(host, ctx, 1), [2], "flow 1 lacks credit");
    give_credit(host, ctx, Vl(1), 1 << 14);
    assert_eq!(send(host, ctx, 2), [1, 3], "it precedes flow 3");
}

#[test]
fn a_host_without_credit_is_woken_by_it_and_by_nothing_else() {
    let mut partition = partition(|config| config.lanes.count = 1);
    let (host, ctx) = parts(&mut partition);
    exhaust(host, ctx, Vl(0), 64);
    ctx.queue = silvan_engine::EventQueue::new(Time(1_000), Time::ZERO);
    add(host, ctx, 3, 1);
    host.settle(ctx);
    assert_eq!(wakes(host, ctx), [], "no credit is on its way");
    let back = ctx.now + ctx.links.delay(host.out);
    give_credit(host, ctx, Vl(0), 1 << 14);
    assert_eq!(wakes(host, ctx), [back]);
}

#[test]
fn control_packets_precede_data() {
    let mut partition = partition(|_| {});
    let (host, ctx) = parts(&mut partition);
    add(host, ctx, 1, 1);
    host.control.push_back(control(host, 1));
    host.control.push_back(control(host, 0));
    send(host, ctx, 4);
    let sent: Vec<(Kind, Vl)> = ctx.packets.iter().map(|packet| (packet.kind(), packet.vl)).collect();
    assert_eq!(sent, [(Kind::Ack, Vl(1)), (Kind::Ack, Vl(0)), (Kind::Data, Vl(0))]);
}

#[test]
fn a_control_packet_without_credit_keeps_data_off_its_lane_only() {
    let mut partition = partition(|_| {});
    let (host, ctx) = parts(&mut partition);
    host.lane_of = Some([0, 1, 0, 0].into());
    // The credit suffices only for a small data packet.
    exhaust(host, ctx, Vl(1), 0);
    for destination in [1, 3] {
        add(host, ctx, destination, 1);
    }
    host.control.push_back(control(host, 1));
    assert_eq!(send(host, ctx, 3), [3]);
    assert_eq!(host.control.len(), 1);
}

#[test]
fn the_injection_limit_spaces_packets_and_messages_have_an_overhead() {
    let mut partition = partition(|config| {
        config.host.injection_rate = Some(silvan_engine::Rate::from_gbit(1));
        config.host.message_overhead = Time::from_us(7);
    });
    let (host, ctx) = parts(&mut partition);
    add(host, ctx, 3, 2);
    add(host, ctx, 2, 1);
    let span = host.injection.free_at;
    assert_eq!(span, Time::ZERO);
    host.settle(ctx);
    let first = host.injection.free_at;
    assert!(first > ctx.free_at(host.out), "the limit is slower than the link");
    assert_eq!(wakes(host, ctx), [first]);
    ctx.now = ctx.free_at(host.out);
    host.settle(ctx);
    assert_eq!(ctx.packets.alive(), 1, "the limit applies");
    ctx.now = first;
    host.settle(ctx);
    // The message to host 2 has a single packet, and its turn came second.
    assert_eq!(ctx.packets.iter().map(|packet| packet.dst).collect::<Vec<_>>(), [3, 2]);
    assert_eq!(host.injection.free_at, first + first + Time::from_us(7));
}

/// A star whose hosts inject data and control packets at 1 Gbit/s, 8 ns per byte.
fn limited(set: impl FnOnce(&mut Config)) -> Partition {
    partition(|config| {
        config.host.injection_rate = Some(silvan_engine::Rate::from_gbit(1));
        config.host.injection_includes_control = true;
        set(config);
    })
}

#[test]
fn control_packets_pass_the_injection_limit_and_delay_data() {
    let mut partition = limited(|_| {});
    let (host, ctx) = parts(&mut partition);
    host.record_waits(Time::ZERO);
    let bytes = u64::from(host.sizes.control);
    add(host, ctx, 3, 1);
    for to in [5, 6] {
        host.control.push_back(ControlPacket { to, ..control(host, 0) });
    }
    host.settle(ctx);
    assert_eq!(ctx.packets.alive(), 1);
    ctx.now = ctx.free_at(host.out);
    host.settle(ctx);
    assert_eq!(ctx.packets.alive(), 1, "the second control packet waits for the limit");
    let waits: Vec<_> = host.waits.as_ref().unwrap().rows().iter().map(|row| (row.kind, row.until)).collect();
    assert!(waits.contains(&(RecordedWaitKind::Injection, Time::from_ns(8 * bytes))), "{waits:?}");
    assert_eq!(send(host, ctx, 4), [6, 3]);
    let full = u64::from(host.sizes.mtu + host.sizes.header);
    assert_eq!(host.injection.free_at, Time::from_ns(8 * (2 * bytes + full)));
}

#[test]
fn control_packets_do_not_wait_for_the_time_per_message() {
    let mut partition = limited(|config| config.host.message_overhead = Time::from_us(90));
    let (host, ctx) = parts(&mut partition);
    add(host, ctx, 3, 1);
    add(host, ctx, 2, 1);
    host.settle(ctx);
    let next = host.injection.free_at;
    let passed = next - Time::from_us(90);
    host.control.push_back(control(host, 0));
    for (now, sent) in [(ctx.free_at(host.out), 1), (passed, 2)] {
        ctx.now = now;
        host.settle(ctx);
        assert_eq!(ctx.packets.alive(), sent);
    }
    assert_eq!(host.injection.free_at, next, "the time per message continues");
    ctx.now = next;
    host.control.push_back(control(host, 0));
    host.settle(ctx);
    assert_eq!(ctx.packets.alive(), 3);
    assert_eq!(host.injection.free_at, next + Time::from_ns(8 * u64::from(host.sizes.control)));
}

#[test]
fn control_packets_move_to_an_adapter_before_data() {
    let mut partition = limited(|config| config.host.queues = Some(crate::queueing::HostQueues::Single));
    let (host, ctx) = parts(&mut partition);
    for to in [5, 6] {
        host.control.push_back(ControlPacket { to, ..control(host, 0) });
    }
    add(host, ctx, 3, 1);
    host.settle(ctx);
    assert!(ctx.packets.alive() == 1 && host.control.has_unmoved() && host.control.oldest(0).is_none());
    ctx.now = ctx.free_at(host.out);
    host.settle(ctx);
    assert_eq!(ctx.packets.alive(), 1, "neither the other control packet nor data has moved");
    assert_eq!(send(host, ctx, 3), [6, 3]);
    let passed = host.injection.free_at;
    assert_eq!(ctx.now, passed);
    add(host, ctx, 2, 1);
    host.settle(ctx);
    host.control.push_back(control(host, 0));
    for (now, sent) in [(ctx.free_at(host.out), 4), (host.injection.free_at, 5)] {
        ctx.now = now;
        host.settle(ctx);
        assert_eq!(ctx.packets.alive(), sent);
    }
}

#[test]
fn a_host_settles_once_per_instant() {
    let mut partition = partition(|_| {});
    let (host, ctx) = parts(&mut partition);
    add(host, ctx, 3, 1);
    host.wake(ctx);
    host.wake(ctx);
    assert_eq!(ctx.dirty_hosts, [0]);
    host.woken(ctx);
    assert_eq!(ctx.packets.alive(), 0, "it will be settled at the end of the instant");
    host.settle(ctx);
    assert_eq!(ctx.packets.alive(), 1);
    ctx.dirty_hosts.clear();
    host.wake(ctx);
    assert_eq!(ctx.dirty_hosts, [0]);
}

#[test]
fn a_packet_is_delivered_when_it_has_been_drained_and_its_credit_returns_then() {
    let mut partition = partition(|config| {
        config.host.drain_rate = Some(silvan_engine::Rate::from_gbit(1));
    });
    let (host, ctx) = parts(&mut partition);
    ctx.meters.is_awaited = true;
    // A packet has used all credit of the link to the host.
    let all = ctx.links.capacity(host.into, Vl(0));
    let id = ctx.packets.insert(Packet { space: all, ..packet(3, 0) });
    ctx.send(host.into, id);
    let arrival = ctx.queue.pop().unwrap();
    ctx.now = arrival.time;
    let head_at = arrival.time - ctx.packets[id].tail_lag;
    let done = head_at + silvan_engine::Rate::from_gbit(1).pace().time(1_000);
    host.receive(ctx, id);
    assert_eq!(ctx.packets.alive(), 0);
    let drained = ctx.queue.pop().unwrap();
    assert_eq!((drained.time, unkey(drained.key).class), (done, Class::HostDrained));
    ctx.now = done - Time(1);
    host.count_drained(ctx);
    assert_eq!(ctx.meters.packets_delivered, 0);
    ctx.now = done;
    host.count_drained(ctx);
    assert_eq!(ctx.meters.packets_delivered, 1);
    let back = done + ctx.links.delay(host.into);
    let has_credit = |ctx: &mut Context, now| {
        ctx.links.has_credit(CreditWay { channel: host.into, vl: Vl(0), dst: 0 }, all, now)
    };
    assert_eq!([back - Time(1), back].map(|now| has_credit(ctx, now)), [false, true]);
}

#[test]
fn a_host_that_starts_is_woken_for_its_first_message() {
    let mut partition = partition(|_| {});
    let (host, ctx) = parts(&mut partition);
    host.start(ctx);
    assert_eq!(wakes(host, ctx), [Time::from_us(90)]);
    let Partition { hosts, ctx, .. } = &mut partition;
    hosts[1].start(ctx);
    assert_eq!(wakes(&hosts[1], ctx), [], "a host without sources");
}

/// A started partition of the binned scheduler. From time 0, its first host always has data to send.
fn solo() -> Partition {
    let mut partition = partition(|config| {
        config.scheduler = Scheduler::Binned;
        config.flows[0].start = Time::ZERO;
        config.lanes.count = 1;
    });
    partition.start(Time::ZERO);
    partition
}

#[test]
fn a_host_takes_its_turns_before_a_time_and_plans_the_next_one() {
    let mut partition = solo();
    let (host, ctx) = parts(&mut partition);
    assert!(host.is_solo && host.takes_turns(ctx));
    assert_eq!((host.turn.at, wakes(host, ctx)), (Time::ZERO, vec![]));
    let span = ctx.links.span(host.out, host.sizes.mtu + host.sizes.header);
    host.take_turns(ctx, Time(2 * span.0 + 1));
    assert_eq!(ctx.entering.len(), 3, "at 0, and after one and two packets");
    assert_eq!(host.turn.at, Time(3 * span.0));
    host.take_turns(ctx, Time(3 * span.0));
    assert_eq!(ctx.entering.len(), 3, "the time is exclusive");
}

#[test]
fn a_host_that_waits_for_a_control_packet_takes_no_turns() {
    let mut partition = solo();
    let (host, ctx) = parts(&mut partition);
    host.control.push_back(control(host, 0));
    assert!(!host.takes_turns(ctx));
    host.plan_turn(ctx, Time::from_us(5));
    assert_eq!(wakes(host, ctx), [Time::from_us(5)]);
    assert_eq!(host.turn.at, Time::ZERO, "the turn is not changed");
}

#[test]
fn a_host_that_handles_an_event_has_taken_its_earlier_turns() {
    let mut partition = solo();
    let (host, ctx) = parts(&mut partition);
    let span = ctx.links.span(host.out, host.sizes.mtu + host.sizes.header);
    ctx.now = Time(span.0 + 5);
    host.end_turns(ctx);
    assert_eq!((ctx.entering.len(), ctx.now), (2, Time(span.0 + 5)));
    assert_eq!(host.turn.at, Time::NEVER, "the next attempt is planned by the caller");
}

/// Returns credit that arrives at the host at `time`.
fn release(host: &Host, ctx: &mut Context, space: u32, time: Time) {
    let way = CreditWay { channel: host.out, vl: Vl(0), dst: 3 };
    let times = crate::link::ReturnTimes::new(time - ctx.links.delay(host.out), ctx.now);
    ctx.links.release((way, crate::packet::NO_LEDGER), space, times, &mut ctx.queue);
}

/// A host that has used all of its credit: the space of a packet, the number of packets, and the time of each.
struct WithoutCredit {
    space: u32,
    count: u64,
    span: Time,
}

/// Has a host send until it lacks credit.
fn send_all(host: &mut Host, ctx: &mut Context) -> WithoutCredit {
    let space = host.sizes.space(host.sizes.mtu + host.sizes.header);
    let count = u64::from(ctx.links.capacity(host.out, Vl(0)) / space);
    let span = ctx.links.span(host.out, host.sizes.mtu + host.sizes.header);
    host.take_turns(ctx, Time(count * span.0));
    WithoutCredit { space, count, span }
}

#[test]
fn a_host_without_credit_takes_its_turn_when_the_credit_arrives() {
    let mut partition = solo();
    let (host, ctx) = parts(&mut partition);
    let capacity = ctx.links.capacity(host.out, Vl(0));
    let space = host.sizes.space(host.sizes.mtu + host.sizes.header);
    let count = u64::from(capacity / space);
    let span = ctx.links.span(host.out, host.sizes.mtu + host.sizes.header);
    host.take_turns(ctx, Time(count * span.0));
    assert_eq!(ctx.entering.len() as u64, count);
    assert_eq!(host.turn.at, Time(count * span.0));
    // Enough credit arrives in two parts.
    ctx.now = host.turn.at;
    let back = Time(host.turn.at.0 + 7_000);
    release(host, ctx, space / 2, back - Time(9));
    release(host, ctx, space - space / 2, back);
    let before = host.turn.at + Time(1);
    host.take_turns(ctx, before);
    assert_eq!((host.turn.at, ctx.entering.len() as u64), (back, count));
    host.take_turns(ctx, back + Time(1));
    assert_eq!(ctx.entering.len() as u64, count + 1);
}

#[test]
fn a_control_packet_does_not_delay_an_earlier_turn() {
    let mut partition = solo();
    let (host, ctx) = parts(&mut partition);
    let WithoutCredit { space, count, span } = send_all(host, ctx);
    ctx.now = host.turn.at;
    let back = host.turn.at + Time(7_000);
    release(host, ctx, space, back);
    // A control packet is added after the time of the credit, but before the turns until then have been taken.
    ctx.now = back + Time(5);
    host.control.push_back(control(host, 0));
    host.end_turns(ctx);
    assert_eq!(ctx.entering.len() as u64, count + 1);
    assert_eq!(ctx.free_at(host.out), back + span, "the data packet has left when its credit arrived");
}

#[test]
fn a_control_packet_that_lacks_the_credit_of_a_turn_is_woken_by_it() {
    let mut partition = solo();
    let (host, ctx) = parts(&mut partition);
    let WithoutCredit { space, .. } = send_all(host, ctx);
    let back = host.turn.at + Time(7_000);
    release(host, ctx, space, back);
    let before = host.turn.at + Time(1);
    host.take_turns(ctx, before);
    assert_eq!(host.turn.at, back, "the turn waits for the credit");
    ctx.now = back - Time(5);
    host.control.push_back(control(host, 0));
    host.settle(ctx);
    let events = std::iter::from_fn(|| ctx.queue.pop());
    let mut events: Vec<_> = events.filter(|event| event.time == back).collect();
    assert_eq!((host.turn.at, events.len()), (Time::NEVER, 1), "one wake-up instead of the turn");
    ctx.now = back;
    assert!(ctx.take_wakes(events.remove(0)));
}

#[test]
fn a_turn_is_in_the_bin_of_its_time() {
    let mut partition = solo();
    let bins = partition.ctx.turns.as_ref().unwrap().bins.next();
    assert_eq!(bins, Some(0));
    let span = partition.ctx.links.span(0, partition.hosts[0].sizes.mtu + partition.hosts[0].sizes.header);
    partition.run(1, u64::MAX);
    let next = partition.ctx.turns.as_ref().unwrap().bins.next();
    assert_eq!(next, Some(partition.tick_of(span)));
    assert_eq!(partition.hosts[0].turn.at, span);
}

#[test]
fn control_packets_of_each_lane_leave_in_order_and_the_oldest_lane_first() {
    let mut partition = partition(|_| {});
    let (host, _) = parts(&mut partition);
    for (vl, to) in [(1, 5), (0, 6), (1, 7)] {
        host.control.push_back(ControlPacket { to, ..control(host, vl) });
    }
    let outbox = &mut host.control;
    assert_eq!(outbox.oldest(0), Some((Vl(1), 5)));
    assert_eq!(outbox.oldest(0b10), Some((Vl(0), 6)), "lane 1 is blocked");
    assert_eq!(outbox.oldest(0b11), None);
    assert_eq!(outbox.pop(Vl(1)).map(|control| control.to), Some(5));
    assert_eq!(outbox.oldest(0), Some((Vl(0), 6)));
    assert_eq!((outbox.len(), outbox.is_empty()), (2, false));
    assert_eq!(
        [Vl(0), Vl(1), Vl(1)].map(|vl| outbox.pop(vl).map(|control| control.to)),
        [Some(6), Some(7), None]
    );
    assert!(outbox.is_empty());
}

#[test]
fn a_host_accounts_for_the_time_in_which_it_lacks_credit_or_data() {
    let mut partition = partition(|config| config.host.queues = Some(crate::queueing::HostQueues::Single));
    let (host, ctx) = parts(&mut partition);
    host.record_hours();
    let spent = |host: &Host, ctx: &Context| {
        let Spent { sending, blocked, throttled } = host.hours.as_ref().unwrap().until(ctx.now);
        (sending, blocked, throttled)
    };
    let idle = (Time::ZERO, Time::ZERO, Time::ZERO);
    host.settle(ctx);
    ctx.now = Time(1_000);
    assert_eq!(spent(host, ctx), idle, "neither data nor packets in the output buffer");
    exhaust(host, ctx, Vl(0), 0);
    let since = ctx.now;
    add(host, ctx, 3, 1);
    host.settle(ctx);
    // The output buffer takes the packet at the injection rate.
    let moved = host.injection.free_at;
    ctx.now = moved;
    host.settle(ctx);
    ctx.now = moved + Time(5_000);
    assert_eq!(spent(host, ctx), (moved - since, Time(5_000), Time::ZERO), "it waits there for credit");
}

#[test]
fn throttled_flows_are_counted_until_they_may_send() {
    let mut partition = partition(|_| {});
    let (host, ctx) = parts(&mut partition);
    for destination in [1, 2, 3] {
        host.flow_of(0, destination);
    }
    assert_eq!(host.throttled_flows(), 0);
    host.flows.throttle(0, Time(700));
    host.flows.close(2);
    assert_eq!(host.throttled_flows(), 2);
    assert_eq!(host.flows.take_released(Time(699)), None);
    assert_eq!(host.flows.take_released(Time(700)), Some(0));
    assert_eq!(host.throttled_flows(), 1);
    assert!(host.flows.reopen(2) && !host.flows.reopen(2));
    assert_eq!((host.throttled_flows(), ctx.dirty_hosts.len()), (0, 0));
}

#[test]
fn an_event_for_a_timer_is_scheduled_once() {
    let mut partition = partition(|_| {});
    let (host, ctx) = parts(&mut partition);
    let timers = |ctx: &Context| {
        let own = |event: &&Event| unkey(event.key).class == Class::HostTimer;
        let mut times: Vec<u64> = ctx.queue.iter().filter(own).map(|event| event.time.0).collect();
        times.sort_unstable();
        times
    };
    host.arm_responder(ctx, Time(700));
    host.arm_responder(ctx, Time(900));
    assert_eq!(timers(ctx), [700], "the receiver component arms its timer again when it expires");
    host.arm_responder(ctx, Time(300));
    assert_eq!(timers(ctx), [300, 700]);
}

#[test]
fn the_turn_of_a_flow_does_not_depend_on_the_order_of_a_notification_and_its_timer() {
    let queued = [[true, false], [false, true]].map(|steps| {
        let mut partition = partition(|config| {
            config.congestion.mechanism = Mechanism::Dcqcn;
            let reaction = Dcqcn { first_rate_percent: 90, ..Dcqcn::default() };
            config.congestion.reaction = Some(Reaction::Dcqcn(reaction));
        });
        let (host, ctx) = parts(&mut partition);
        let notify = |host: &mut Host, ctx: &mut Context| {
            let sent_at = ctx.now;
            host.reported(ctx, SourceReport { to: 0, destination: 3, source: 0, severity: 0, sent_at });
        };
        add(host, ctx, 3, 2);
        notify(host, ctx);
        host.settle(ctx);
        let flow = host.flows.find(0, 3).unwrap();
        let released_at = host.may_send_at(flow, ctx.now).unwrap();
        assert_eq!(host.throttled_flows(), 1);
        // The flow may have sent long ago, but the host has not looked for it before its rate changes.
        ctx.now = host.reactor.as_ref().unwrap().next_timer(host.reference(flow)).unwrap();
        assert!(ctx.now > released_at);
        for is_notified in steps {
            if is_notified { notify(host, ctx) } else { host.expire_timers(ctx) }
        }
        add(host, ctx, 1, 1);
        send(host, ctx, 2)
    });
    assert_eq!(queued, [[3, 1]; 2]);
}
