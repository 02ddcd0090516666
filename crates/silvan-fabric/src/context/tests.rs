//! Tests of what crosses links: within a partition, and between partitions.

use silvan_congestion::facts::Telemetry;
use silvan_engine::Rate;

use super::*;
use crate::link::{BufferDivision, ChannelSpec, key};
use crate::meters::ClassMeter;
use crate::packet::{Contents, Kind};

/// Bytes of each buffer.
const CAPACITY: u32 = 4_096;
const DELAY: Time = Time(10_000);
const LATENCY: Time = Time(500);

/// Channel 0 leads from switch 0 to switch 1, channel 1 from switch 1 to switch 0, and channel 2 from switch 1 to host 0.
fn links() -> Links {
    let spec = |(from, class, to): (u32, Class, u32)| ChannelSpec {
        rate: Rate::from_gbit(8),
        delay: DELAY,
        receiver_latency: LATENCY,
        to_host: class == Class::HostArrival,
        to_storing: false,
        arrival_key: key(class, to, Port(7)),
        wake_key: key(Class::SwitchWake, from, Port(5)),
        region_capacity: CAPACITY,
        division: BufferDivision::Whole,
    };
    let channels = [(0, Class::SwitchArrival, 1), (1, Class::SwitchArrival, 0), (1, Class::HostArrival, 0)];
    Links::new(&channels.map(spec), 1).unwrap()
}

/// A context with the given borders.
fn context_with(borders: Option<Borders>, is_binned: bool) -> Context {
    let partitions = if borders.is_some() { 2 } else { 1 };
    let meters = Meters::new(vec![ClassMeter::new("f".into())], 2);
    Context::new(links(), meters, EventQueue::new(Time(1_000), Time::ZERO), (partitions, borders), is_binned)
}

/// The only partition.
fn alone() -> Context {
    context_with(None, false)
}

/// Switch 0 is in partition 0, and switch 1 and the host are in partition 1.
fn divided(me: u16) -> Context {
    context_with(Some(Borders { me, ends: Arc::new([(0, 1), (1, 0), (1, 1)]) }), false)
}

/// Sends a packet on a channel now.
fn send(ctx: &mut Context, channel: ChannelId, space: u32) -> PacketId {
    let packet = Packet { size: 1_000, space, ..Packet::example() };
    let id = ctx.packets.insert(packet);
    ctx.send(channel, id);
    id
}

fn way(channel: ChannelId) -> CreditWay {
    CreditWay { channel, vl: Vl::FIRST, dst: 9 }
}

fn credit(channel: ChannelId, space: u32, leaves_at: Time) -> CreditReturn {
    CreditReturn { way: way(channel), space, leaves_at, ledger: NO_LEDGER }
}

/// Whether the sender of a channel has credit for its whole buffer at a time.
fn has_all(ctx: &mut Context, channel: ChannelId, now: Time) -> bool {
    ctx.links.has_credit(way(channel), CAPACITY, now)
}

#[test]
fn credit_returns_a_link_delay_after_its_space_is_free() {
    let mut ctx = alone();
    send(&mut ctx, 0, 1_024);
    assert!(!has_all(&mut ctx, 0, Time(1)));
    let leaves_at = Time(30_000);
    ctx.release(credit(0, 1_024, leaves_at));
    assert!(!has_all(&mut ctx, 0, leaves_at + DELAY - Time(1)));
    assert!(has_all(&mut ctx, 0, leaves_at + DELAY));
    assert!(has_all(&mut ctx, 1, Time::ZERO), "the other channel has its own");
}

#[test]
fn credit_for_a_sender_of_another_partition_goes_into_the_mailbox_of_that_partition() {
    let (mut receiver, mut sender) = (divided(1), divided(0));
    send(&mut sender, 0, 1_024);
    let leaves_at = Time(30_000);
    receiver.release(credit(0, 1_024, leaves_at));
    assert_eq!(receiver.outbox[0].earliest(), leaves_at + DELAY);
    assert!(receiver.outbox[1].is_empty());
    let balance = receiver.links.balance(0, Vl::FIRST);
    assert_eq!(balance, divided(1).links.balance(0, Vl::FIRST), "its own ledger of that channel is not used");
    let mut mailbox = std::mem::take(&mut receiver.outbox[0]);
    sender.collect(&mut mailbox);
    assert!(!has_all(&mut sender, 0, leaves_at + DELAY - Time(1)));
    assert!(has_all(&mut sender, 0, leaves_at + DELAY));
}

#[test]
fn credit_for_an_own_sender_stays_in_the_partition() {
    let mut ctx = divided(1);
    send(&mut ctx, 2, 1_024);
    ctx.release(credit(2, 1_024, Time(5)));
    assert!(ctx.outbox.iter().all(Mailbox::is_empty));
    assert!(has_all(&mut ctx, 2, Time(5) + DELAY));
}

#[test]
fn a_sender_that_waits_is_woken_once_when_its_credit_arrives() {
    let mut ctx = alone();
    send(&mut ctx, 0, CAPACITY);
    ctx.now = ctx.free_at(0);
    assert!(!ctx.has_credit_or_wait(way(0), 100));
    let after = |ctx: &mut Context| {
        let mut wakes = Vec::new();
        while let Some(event) = ctx.queue.pop() {
            if unkey(event.key).class == Class::SwitchWake {
                wakes.push(event);
            }
        }
        wakes
    };
    assert_eq!(after(&mut ctx), [], "no credit is on its way");
    // The first credit is too little.
    ctx.release(credit(0, 64, ctx.now));
    ctx.release(credit(0, 64, ctx.now + Time(300)));
    let wakes = after(&mut ctx);
    let back = ctx.now + Time(300) + DELAY;
    assert_eq!(wakes.iter().map(|event| event.time).collect::<Vec<_>>(), [back]);
    ctx.now = back;
    assert!(ctx.take_wakes(wakes[0]));
    assert!(ctx.has_credit_or_wait(way(0), 100));
    assert!(!ctx.has_credit_or_wait(way(0), 129), "that is all");
}

#[test]
fn a_sender_is_not_woken_for_credit_that_another_packet_has_used() {
    let mut ctx = alone();
    send(&mut ctx, 0, CAPACITY);
    ctx.now = ctx.free_at(0);
    let soon = ctx.now + DELAY;
    let later = soon + Time(300) + DELAY;
    ctx.release(credit(0, 64, ctx.now));
    ctx.release(credit(0, 64, ctx.now + Time(5)));
    assert!(!ctx.has_credit_or_wait(way(0), 128));
    ctx.now = soon;
    assert!(ctx.has_credit_or_wait(way(0), 64));
    send(&mut ctx, 0, 64);
    assert!(!ctx.has_credit_or_wait(way(0), 128));
    ctx.release(credit(0, 64, later - DELAY));
    let mut woken = Vec::new();
    while let Some(event) = ctx.queue.pop() {
        ctx.now = event.time;
        if unkey(event.key).class == Class::SwitchWake && ctx.take_wakes(event) {
            woken.push(event.time);
        }
    }
    assert_eq!(woken, [later]);
}

/// A sender may wait for credit, room in the replay buffer and an open lane. Each of them wakes it at once.
#[test]
fn credit_that_returns_later_does_not_cancel_a_pending_attempt() {
    let mut ctx = alone();
    send(&mut ctx, 0, CAPACITY);
    ctx.now = ctx.free_at(0);
    assert!(!ctx.has_credit_or_wait(way(0), 100));
    ctx.links.reopen(0, ctx.now, &mut ctx.queue);
    ctx.release(credit(0, 128, ctx.now + Time(300)));
    let wakes =
        std::iter::from_fn(|| ctx.queue.pop()).filter(|event| unkey(event.key).class == Class::SwitchWake);
    let wakes: Vec<Event> = wakes.collect();
    assert_eq!(wakes[0].time, ctx.now);
    assert!(!ctx.take_wakes(wakes[0]), "without credit, the sender is not woken");
    let back = ctx.now + Time(300) + DELAY;
    let next: Vec<Event> = std::iter::from_fn(|| ctx.queue.pop()).collect();
    let next = wakes.iter().chain(&next).filter(|event| event.time == back).copied().next().unwrap();
    ctx.now = back;
    assert!(ctx.take_wakes(next) && ctx.has_credit_or_wait(way(0), 100));
}

#[test]
fn wake_ups_of_a_sender_at_one_instant_cause_one_attempt() {
    let mut ctx = alone();
    send(&mut ctx, 0, CAPACITY);
    let free_at = ctx.free_at(0);
    ctx.wake(0, free_at);
    ctx.wake(0, free_at);
    assert!(!ctx.has_credit_or_wait(way(0), 100));
    ctx.release(credit(0, 128, free_at - DELAY));
    let wakes: Vec<Event> = ctx.queue.iter().filter(|event| event.time == free_at).copied().collect();
    let wakes = wakes.iter().filter(|event| unkey(event.key).class == Class::SwitchWake).count();
    assert_eq!(wakes, 2, "the link is free and the credit is back");
    while let Some(event) = ctx.queue.pop() {
        if unkey(event.key).class == Class::SwitchWake {
            ctx.now = event.time;
            assert!(ctx.take_wakes(event));
            assert_eq!(
                ctx.queue.iter().filter(|event| unkey(event.key).class == Class::SwitchWake).count(),
                0
            );
        }
    }
    assert_eq!(ctx.now, free_at);
}

#[test]
fn a_wake_up_does_not_count_after_an_earlier_one_was_requested() {
    let mut ctx = alone();
    ctx.wake(0, Time(900));
    ctx.wake(0, Time(400));
    let events: Vec<Event> = std::iter::from_fn(|| ctx.queue.pop()).collect();
    assert_eq!(events.iter().map(|event| event.time).collect::<Vec<_>>(), [Time(400), Time(900)]);
    let counts = events.into_iter().map(|event| {
        ctx.now = event.time;
        ctx.take_wakes(event)
    });
    assert_eq!(counts.collect::<Vec<_>>(), [true, false]);
}

#[test]
fn a_packet_for_a_switch_arrives_with_its_head_and_one_for_a_host_with_its_tail() {
    let mut ctx = alone();
    let (first, second) = (send(&mut ctx, 0, 1_024), send(&mut ctx, 2, 1_024));
    let span = ctx.links.span(0, 1_000);
    let events: Vec<Event> = std::iter::from_fn(|| ctx.queue.pop()).collect();
    assert_eq!(
        events.iter().map(|event| (event.time, event.data)).collect::<Vec<_>>(),
        [(DELAY + LATENCY, first), (span + DELAY, second)]
    );
    assert_eq!(unkey(events[0].key), EventKey { class: Class::SwitchArrival, node: 1, port: Port(7) });
    assert_eq!(ctx.packets[first].tail_lag, span);
}

#[test]
fn a_packet_takes_everything_that_it_carries_to_another_partition() {
    let (mut sender, mut receiver) = (divided(0), divided(1));
    let id = sender.packets.insert(Packet { size: 1_000, space: 1_024, ..Packet::example() });
    sender.packets.set_number(id, 5);
    sender.packets.set_entropy(id, 99);
    let hop = Telemetry { time: Time(3), sent_bytes: 5, queue_bytes: 17, rate: Rate::from_gbit(8) };
    sender.packets.stamp(id, hop);
    let announcement =
        crate::message::Announcement { kind: Kind::Probe, bytes: 8, largest_ps: 21, known_ps: 3 };
    let number = sender.announcements.add(announcement);
    sender.packets.set_announcement(id, Some(number));
    let marks = sender.packets.marks(id);
    sender.send(0, id);
    assert_eq!((sender.packets.alive(), sender.count_inside()), (0, 1));
    let mut mailbox = std::mem::take(&mut sender.outbox[1]);
    assert_eq!((sender.count_inside(), mailbox.earliest()), (0, DELAY + LATENCY));
    // Another packet has taken the same slot before.
    let other = receiver.packets.insert(Packet::example());
    receiver.packets.stamp(other, Telemetry { queue_bytes: 1, ..hop });
    receiver.packets.set_ledger(other, 4);
    receiver.packets.remove(other);
    receiver.collect(&mut mailbox);
    let arrival = receiver.queue.pop().unwrap();
    let id = arrival.data;
    assert_eq!(
        (arrival.time, unkey(arrival.key)),
        (DELAY + LATENCY, EventKey { class: Class::SwitchArrival, node: 1, port: Port(7) })
    );
    let came = receiver.packets.marks(id);
    assert_eq!((came.number, came.entropy), (marks.number, marks.entropy));
    assert_eq!(receiver.packets.take_telemetry(id), [hop]);
    assert_eq!(receiver.packets.ledger(id), NO_LEDGER, "its ledger belongs to the other partition");
    let number = receiver.packets.announcement(id).unwrap();
    assert_eq!(receiver.announcements.take(number).largest_ps, 21);
}

#[test]
fn a_notification_occupies_the_link_and_crosses_a_border() {
    let word = Word::Signal(0, 1);
    for (mut ctx, is_outside) in [(alone(), false), (divided(0), true)] {
        send(&mut ctx, 0, 1_024);
        let (free_at, span) = (ctx.free_at(0), ctx.links.span(0, 64));
        ctx.notify(0, Class::SwitchNotice, word.clone(), 64);
        assert_eq!(ctx.free_at(0), free_at + span, "it follows the packet");
        let expected = free_at + span + DELAY;
        if is_outside {
            let [(time, key, sent)] = &ctx.outbox[1].notices[..] else { panic!("one was sent") };
            assert_eq!((*time, unkey(*key).class, sent), (expected, Class::SwitchNotice, &word));
        } else {
            let event = std::iter::from_fn(|| ctx.queue.pop()).find(|event| event.time == expected).unwrap();
            assert_eq!(unkey(event.key), EventKey { class: Class::SwitchNotice, node: 1, port: Port(7) });
            assert_eq!(ctx.notices.take(event.data), Some(word.clone()));
        }
    }
}

#[test]
fn a_report_that_a_switch_forwards_also_takes_its_latency() {
    let mut ctx = alone();
    let report = SourceReport { to: 0, destination: 1, source: 0, severity: 0, sent_at: Time::ZERO };
    for (channel, class, latency) in [(0, Class::SwitchNotice, LATENCY), (2, Class::HostNotice, Time::ZERO)] {
        ctx.notify(channel, class, Word::Report(report), 64);
        let event = ctx.queue.pop().unwrap();
        assert_eq!(event.time, ctx.links.span(channel, 64) + DELAY + latency);
    }
}

#[test]
fn packets_for_binned_outputs_enter_without_an_event() {
    let mut ctx = context_with(None, true);
    let id = send(&mut ctx, 0, 1_024);
    assert!(ctx.queue.is_empty());
    let [Entering { channel: 0, packet, when }] = ctx.entering[..] else { panic!("one has entered") };
    assert_eq!((packet, when), (id, DELAY + LATENCY));
    assert!(!ctx.is_idle());
}

#[test]
fn a_context_is_local_if_nothing_leaves_it() {
    assert!(alone().is_local() && !alone().is_binned());
    assert!(!divided(0).is_local() && !divided(0).is_binned());
    let binned = context_with(None, true);
    assert!(binned.is_binned() && !binned.is_local());
    let ctx = divided(0);
    assert_eq!([0, 1, 2].map(|channel| ctx.sends_on(channel)), [true, false, false]);
    assert_eq!([0, 1, 2].map(|channel| ctx.receives_on(channel)), [false, true, false]);
}

#[test]
fn the_first_violated_invariant_counts() {
    let mut ctx = alone();
    for (time, what) in [(3, "first"), (5, "second")] {
        ctx.now = Time(time);
        ctx.report_broken(what.into());
    }
    assert_eq!(ctx.broken(), Some((Time(3), "first".into())));
}

#[test]
fn a_notification_that_arrives_twice_ends_the_run() {
    let mut ctx = alone();
    let id = ctx.notices.add(Word::Signal(0, 1));
    ctx.notices.take(id);
    assert_eq!(ctx.link_event(Port(Stage::Obeyed as u16), id), None);
    assert!(ctx.broken().unwrap().1.contains("twice"));
}

#[test]
fn deliveries_are_known_when_a_packet_starts_to_cross_its_last_link() {
    let mut ctx = divided(1);
    // The host drains at half the rate of its link.
    let sink = HostSink::new(Rate::from_gbit(4).pace());
    ctx.ahead = Some(Box::new(Ahead::new([(sink.clone(), None), (sink, None)].into_iter())));
    let span = ctx.links.span(2, 1_000);
    send(&mut ctx, 2, 1_024);
    let control = ctx.packets.insert(Packet {
        contents: Contents::example(Kind::Ack),
        size: 64,
        space: 64,
        ..Packet::example()
    });
    ctx.now = span;
    ctx.send(2, control);
    send(&mut ctx, 1, 1_024);
    let ahead = ctx.ahead.as_mut().unwrap();
    assert_eq!(ahead.known(), 1, "neither control packets nor packets for switches count");
    let drained = DELAY + Time(2 * span.0);
    assert_eq!(ahead.next(), Some(drained));
    assert_eq!(ahead.before(drained), (0, vec![]));
    assert_eq!(ahead.before(drained + Time(1)), (0, vec![drained]));
    ahead.pass(drained);
    assert_eq!(ahead.next(), Some(drained), "a delivery at the end is not past");
    ahead.pass(drained + Time(1));
    assert_eq!((ahead.next(), ahead.known(), ahead.before(Time::NEVER)), (None, 1, (1, vec![])));
}
