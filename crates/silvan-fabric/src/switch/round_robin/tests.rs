//! Tests of single decisions of an output.

use silvan_network::port::ManyLanes;
use silvan_network::port_set::Ports64;

use super::*;
use crate::link::CreditWay;
use crate::packet::{Packet, PacketId};
use crate::partition::Partition;
use crate::queueing::Queues;
use crate::switch::Switches;
use crate::tests::{enqueue, packet, star};

type Switch = QueuedSwitch<Ports64, ManyLanes, RoundRobin<Ports64>>;

const OUTPUT: Port = Port(3);

/// A switch with one queue at each of four inputs, and two virtual lanes.
fn partition() -> Partition {
    star(|config| {
        config.switch.queues = Some(Queues::Single);
        config.lanes.count = 2;
    })
}

fn parts(partition: &mut Partition) -> (&mut Switch, &mut Context) {
    let Switches::LanedRoundRobin(switches) = &mut partition.switches else {
        panic!("the switch has several lanes")
    };
    (&mut switches[0], &mut partition.ctx)
}

/// Queues a packet for the output. Returns whether the output will be settled.
fn arrive(switch: &mut Switch, ctx: &mut Context, (input, vl): (u16, u8), space: u32) -> bool {
    ctx.dirty_outputs.clear();
    let first = switch.buffers.lane(OUTPUT, Vl::FIRST);
    switch.buffers.turn_mut(first).dirty = false;
    let packet = Packet { vl: Vl(vl), space, ..packet(input.into(), OUTPUT.0.into()) };
    enqueue(switch, ctx, Port(input), packet);
    !ctx.dirty_outputs.is_empty()
}

/// The packets that wait at any input.
fn waiting(switch: &Switch, ctx: &Context) -> Vec<PacketId> {
    let all = Port::all(4).flat_map(|port| [(port, Vl(0)), (port, Vl(1))]);
    all.flat_map(|(port, vl)| switch.buffers.waiting(&ctx.packets, port, vl)).collect()
}

/// Settles the output until it sends nothing. Returns the inputs and the lanes of the packets.
fn sent(switch: &mut Switch, ctx: &mut Context) -> Vec<(u32, u8)> {
    let mut sent = Vec::new();
    loop {
        let held = waiting(switch, ctx);
        switch.settle(ctx, OUTPUT);
        let left = waiting(switch, ctx);
        let gone: Vec<PacketId> = held.into_iter().filter(|one| !left.contains(one)).collect();
        let [id] = gone[..] else {
            assert!(gone.is_empty(), "an output sends one packet at a time");
            return sent;
        };
        sent.push((ctx.packets[id].src, ctx.packets[id].vl.0));
        ctx.now = ctx.free_at(switch.ports.out(OUTPUT));
    }
}

#[test]
fn inputs_and_lanes_take_turns() {
    let mut partition = partition();
    let (switch, ctx) = parts(&mut partition);
    for of in [(0, 0), (1, 1), (2, 0), (2, 1), (1, 0), (0, 0)] {
        arrive(switch, ctx, of, 1_024);
    }
    assert_eq!(sent(switch, ctx), [(0, 0), (1, 1), (1, 0), (2, 1), (2, 0), (0, 0)]);
    for of in [(0, 0), (2, 0), (3, 1)] {
        arrive(switch, ctx, of, 1_024);
    }
    // Lane 0 was served last, and its last input was input 0.
    assert_eq!(sent(switch, ctx), [(3, 1), (2, 0), (0, 0)]);
}

/// Uses up the credit of a lane of the output's link, except for `left` bytes.
fn exhaust(switch: &Switch, ctx: &mut Context, vl: u8, left: u32) {
    let channel = switch.ports.out(OUTPUT);
    let capacity = ctx.links.capacity(channel, Vl(vl));
    let id = ctx.packets.insert(Packet {
        size: 1,
        space: capacity - left,
        vl: Vl(vl),
        ..packet(0, OUTPUT.0.into())
    });
    ctx.now = ctx.now.max(ctx.free_at(channel));
    ctx.send(channel, id);
    ctx.now = ctx.free_at(channel);
}

#[test]
fn an_input_that_lacks_credit_keeps_its_turn_and_does_not_block_the_other_lane() {
    let mut partition = partition();
    let (switch, ctx) = parts(&mut partition);
    exhaust(switch, ctx, 0, 512);
    for (of, space) in [((0, 0), 1_024), ((1, 0), 64), ((2, 1), 1_024)] {
        arrive(switch, ctx, of, space);
    }
    assert_eq!(sent(switch, ctx), [(2, 1)], "the small packet does not overtake the large one");
    let blocked = switch.buffers.turn(switch.buffers.lane(OUTPUT, Vl(0))).blocked;
    assert_eq!(blocked, 1_024);
    assert!(!arrive(switch, ctx, (2, 0), 1_024), "the credit is too little for this one, too");
    assert!(arrive(switch, ctx, (3, 0), 512), "this one may have its turn first");
    let channel = switch.ports.out(OUTPUT);
    ctx.release(crate::message::CreditReturn {
        way: CreditWay { channel, vl: Vl(0), dst: OUTPUT.0.into() },
        space: 4_096,
        leaves_at: ctx.now,
        ledger: crate::packet::NO_LEDGER,
    });
    ctx.now += ctx.links.delay(channel);
    let first = switch.buffers.lane(OUTPUT, Vl::FIRST);
    switch.buffers.turn_mut(first).dirty = false;
    RoundRobin::wake(switch, ctx, OUTPUT);
    assert_eq!(switch.buffers.turn(switch.buffers.lane(OUTPUT, Vl(0))).blocked, 0);
    assert_eq!(waiting(switch, ctx).len(), 3, "the wake-up has sent the first packet");
    ctx.now = ctx.free_at(channel);
    assert_eq!(sent(switch, ctx), [(1, 0), (2, 0), (3, 0)]);
}

#[test]
fn a_packet_that_is_taken_from_an_empty_queue_ends_the_run() {
    let mut partition = partition();
    let (switch, ctx) = parts(&mut partition);
    assert_eq!(switch.buffers.take(&mut ctx.packets, ctx.now, 0, OUTPUT), 0);
    switch.spread(ctx);
    let (_, what) = ctx.broken().unwrap();
    assert_eq!(what, "switch 0: a packet was taken from an empty queue");
    // Other changes are not affected.
    arrive(switch, ctx, (0, 0), 1_024);
    assert_eq!(sent(switch, ctx), [(0, 0)]);
}

#[test]
fn an_output_is_woken_when_its_link_is_free_and_packets_wait() {
    let mut partition = partition();
    let (switch, ctx) = parts(&mut partition);
    let channel = switch.ports.out(OUTPUT);
    let wakes = |ctx: &Context| {
        let own = ctx
            .queue
            .iter()
            .filter(|event| crate::link::unkey(event.key).class == crate::link::Class::SwitchWake);
        own.map(|event| event.time).collect::<Vec<_>>()
    };
    arrive(switch, ctx, (0, 0), 1_024);
    switch.settle(ctx, OUTPUT);
    assert_eq!(wakes(ctx), [], "no packet waits");
    ctx.now = silvan_engine::Time(1);
    assert!(!arrive(switch, ctx, (1, 0), 1_024), "the link is busy");
    assert_eq!(wakes(ctx), [ctx.free_at(channel)]);
}
