//! Tests of the order in which an output with one queue per lane serves packets.

use super::*;
use crate::config::{Arbitration, Config};
use crate::packet::{Contents, Kind, Packet};
use crate::partition::Partition;
use crate::switch::Switches;
use crate::tests::{enqueue, packet, star};

const OUTPUT: Port = Port(3);

fn partition(set: impl FnOnce(&mut Config)) -> Partition {
    star(|config| {
        config.switch.arbitration = Some(Arbitration::Fcfs);
        config.lanes.count = 2;
        set(config);
    })
}

type Fifos = VoqSwitch<{ crate::voq::MOST_LANES }, true>;

fn parts(partition: &mut Partition) -> (&mut Fifos, &mut Context) {
    let Switches::LanedFifo(switches) = &mut partition.switches else {
        panic!("the switch is of another kind")
    };
    (&mut switches[0], &mut partition.ctx)
}

fn arrive(switch: &mut Fifos, ctx: &mut Context, input: u16, vl: u8, kind: Kind) -> PacketId {
    let packet =
        Packet { contents: Contents::example(kind), vl: Vl(vl), ..packet(input.into(), OUTPUT.0.into()) };
    enqueue(switch, ctx, Port(input), packet)
}

/// Sends packets until none can leave.
fn sent(switch: &mut Fifos, ctx: &mut Context) -> Vec<PacketId> {
    let mut sent = Vec::new();
    loop {
        let waiting = |switch: &Fifos, ctx: &Context| {
            let mut all = Vec::new();
            switch.outputs.all_packets(&ctx.packets, 0..4, |_, _, id| all.push(id));
            all
        };
        let before = waiting(switch, ctx);
        switch.settle(ctx, OUTPUT);
        let after = waiting(switch, ctx);
        let gone: Vec<PacketId> = before.into_iter().filter(|id| !after.contains(id)).collect();
        if gone.is_empty() {
            return sent;
        }
        sent.extend(gone);
        ctx.now = ctx.free_at(switch.ports.out(OUTPUT));
    }
}

#[test]
fn packets_of_a_lane_leave_in_the_order_of_their_arrival() {
    let mut partition = partition(|_| {});
    let (switch, ctx) = parts(&mut partition);
    let ids = [2, 0, 1, 0].map(|input| arrive(switch, ctx, input, 0, Kind::Data));
    assert_eq!(switch.queued_bytes(OUTPUT), 4_000);
    assert_eq!(sent(switch, ctx), ids);
    assert_eq!(switch.queued_bytes(OUTPUT), 0);
}

#[test]
fn lanes_take_turns() {
    let mut partition = partition(|_| {});
    let (switch, ctx) = parts(&mut partition);
    let ids = [(0, 0), (1, 0), (2, 1), (3, 1)].map(|(input, vl)| arrive(switch, ctx, input, vl, Kind::Data));
    assert_eq!(sent(switch, ctx), [ids[0], ids[2], ids[1], ids[3]]);
}

#[test]
fn control_packets_precede_data_but_not_the_data_of_their_flow() {
    for control_first in [false, true] {
        let mut partition = partition(|config| config.switch.control_first = Some(control_first));
        let (switch, ctx) = parts(&mut partition);
        let kinds = [Kind::Data, Kind::Cnp, Kind::TearDown, Kind::Ack];
        let [data, cnp, tear_down, ack] = kinds.map(|kind| arrive(switch, ctx, 0, 0, kind));
        let expected = if control_first { [cnp, ack, data, tear_down] } else { [data, cnp, tear_down, ack] };
        assert_eq!(sent(switch, ctx), expected);
    }
}

#[test]
fn a_lane_without_credit_lets_the_other_lane_pass() {
    let mut partition = partition(|_| {});
    let (switch, ctx) = parts(&mut partition);
    let channel = switch.ports.out(OUTPUT);
    let all = ctx.links.capacity(channel, Vl(0));
    let other = ctx.packets.insert(Packet { space: all, ..packet(0, OUTPUT.0.into()) });
    ctx.send(channel, other);
    ctx.now = ctx.free_at(channel);
    let ids = [0, 1].map(|vl| arrive(switch, ctx, 0, vl, Kind::Data));
    assert_eq!(sent(switch, ctx), [ids[1]]);
    assert_eq!(switch.heads(ctx, Port(0), Vl(0)), [(OUTPUT, Vl(0))], "the other one still waits");
    assert_eq!((switch.buffered(ctx, Port(0), Vl(0)), switch.buffered(ctx, Port(0), Vl(1))), (1_024, 0));
}
