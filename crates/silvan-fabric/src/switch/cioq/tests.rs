//! Tests of the times at which packets move through the crossbar, and of the memory on both sides.

use silvan_network::port::OneLane;
use silvan_network::port_set::Ports64;

use super::*;
use crate::config;
use crate::packet::Packet;
use crate::partition::Partition;
use crate::switch::Switches;
use crate::tests::{enqueue, packet, star};

const OUTPUT: Port = Port(3);

fn partition() -> Partition {
    star(|config| config.switch.architecture = Some(config::Architecture::Cioq))
}

fn parts(partition: &mut Partition) -> (&mut CioqSwitch<Ports64, OneLane>, &mut Context) {
    let Switches::Cioq(switches) = &mut partition.switches else { panic!("the switch is of another kind") };
    (&mut switches[0], &mut partition.ctx)
}

fn arrive(switch: &mut CioqSwitch<Ports64, OneLane>, ctx: &mut Context, input: u16) -> PacketId {
    enqueue(switch, ctx, Port(input), packet(input.into(), OUTPUT.0.into()))
}

/// Bytes of the packets at the output.
fn at_output(switch: &CioqSwitch<Ports64, OneLane>) -> u32 {
    switch.lanes[switch.ports.lane(OUTPUT, Vl::FIRST).index()].bytes
}

#[test]
fn the_tail_of_a_packet_frees_its_memory_once() {
    let mut leaving = LeavingPacket { end: Time(50), lane: PortVl::new(2), space: 64 };
    assert_eq!(leaving.left(Time(49)), None);
    assert_eq!(leaving.left(Time(50)), Some((PortVl::new(2), 64)));
    assert_eq!(leaving.left(Time(90)), None);
    let mut nothing = LeavingPacket::NOTHING;
    assert_eq!(nothing.left(Time(90)), None);
}

#[test]
fn a_packet_passes_an_idle_switch_at_once() {
    let mut partition = partition();
    let (switch, ctx) = parts(&mut partition);
    arrive(switch, ctx, 0);
    switch.settle(ctx, OUTPUT);
    let channel = switch.ports.out(OUTPUT);
    assert_eq!(ctx.free_at(channel), ctx.links.span(channel, 1_000), "it leaves while it moves");
    assert_eq!((at_output(switch), switch.queued_bytes(OUTPUT)), (0, 0));
}

#[test]
fn a_packet_moves_when_its_read_port_and_its_write_port_are_free() {
    let mut partition = partition();
    let (switch, ctx) = parts(&mut partition);
    // The crossbar is twice as fast as the links.
    let move_time = switch.crossbar.time(1_000);
    assert_eq!(Time(2 * move_time.0), ctx.links.span(switch.ports.out(OUTPUT), 1_000));
    for input in [0, 1] {
        arrive(switch, ctx, input);
    }
    switch.settle(ctx, OUTPUT);
    assert_eq!(switch.queued_bytes(OUTPUT), 1_000, "the write port takes one packet at a time");
    assert_eq!((switch.inputs[0].read_free, switch.outputs[3].write_free), (move_time, move_time));
    // A packet for another output waits for the read port.
    enqueue(switch, ctx, Port(0), packet(0, 2));
    switch.settle(ctx, Port(2));
    assert_eq!(switch.queued_bytes(Port(2)), 1_000);
    ctx.now = move_time;
    switch.settle(ctx, OUTPUT);
    switch.settle(ctx, Port(2));
    assert_eq!(at_output(switch), 1_000, "it has moved, but the link is busy");
    assert_eq!(switch.queued_bytes(Port(2)), 0);
}

#[test]
fn a_packet_moves_no_faster_than_it_arrives() {
    let mut partition = partition();
    let (switch, ctx) = parts(&mut partition);
    let tail = Time(switch.crossbar.time(1_000).0 * 3);
    enqueue(switch, ctx, Port(0), Packet { tail_lag: tail, ..packet(0, OUTPUT.0.into()) });
    switch.settle(ctx, OUTPUT);
    assert_eq!((switch.inputs[0].read_free, switch.outputs[3].write_free), (tail, tail));
}

#[test]
fn a_packet_waits_at_its_input_until_the_output_buffer_has_room() {
    let mut partition = partition();
    let (switch, ctx) = parts(&mut partition);
    switch.output_lane = 2_048;
    for input in [0, 1, 2] {
        arrive(switch, ctx, input);
    }
    let span = ctx.links.span(switch.ports.out(OUTPUT), 1_000);
    let move_time = switch.crossbar.time(1_000);
    switch.settle(ctx, OUTPUT);
    ctx.now = move_time;
    switch.settle(ctx, OUTPUT);
    assert_eq!(switch.used_of_input(Port(1), Vl::FIRST, ctx.now), 1_024, "this one is moving");
    ctx.now = Time(2 * move_time.0) - Time(1);
    switch.settle(ctx, OUTPUT);
    assert_eq!(
        switch.queued_bytes(OUTPUT),
        2_000,
        "one packet is leaving and one waits, so there is no room"
    );
    assert_eq!(switch.inputs[2].read_free, Time::ZERO);
    ctx.now = span;
    switch.settle(ctx, OUTPUT);
    assert!(switch.inputs[2].read_free > span, "the first one has left");
    assert_eq!(switch.used_of_input(Port(1), Vl::FIRST, ctx.now), 0, "the second one has moved");
}

#[test]
fn outputs_serve_their_inputs_in_turn() {
    let mut partition = partition();
    let (switch, ctx) = parts(&mut partition);
    for input in [2, 0, 2, 1] {
        arrive(switch, ctx, input);
    }
    let mut order = Vec::new();
    for _ in 0..4 {
        let before: Vec<Time> = switch.inputs.iter().map(|input| input.read_free).collect();
        switch.settle(ctx, OUTPUT);
        let after = switch.inputs.iter().map(|input| input.read_free);
        order.extend((0..4).zip(after).filter(|&(at, time)| time != before[at]).map(|(at, _)| at));
        ctx.now = ctx.free_at(switch.ports.out(OUTPUT));
    }
    assert_eq!(order, [0, 1, 2, 2]);
}
