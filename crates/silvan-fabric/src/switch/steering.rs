//! Arrivals of packets at switches: selects the output and the lane of a packet that the forwarding table alone does not
//! determine. The parts of [`Steering`] have the settings and the state for this.

use silvan_engine::Event;
use silvan_network::port::{Port, Vl};
use silvan_network::routing::adaptive::mixed;

use super::ports::report_missing_steering;
use super::{Architecture, Ports, Steering};
use crate::context::Context;
use crate::packet::{Kind, PacketId};

/// Accepts a packet that has passed the switch's pipeline, or whose head has, and is ready for arbitration.
#[inline(always)]
pub(crate) fn accept<A: Architecture>(switch: &mut A, ctx: &mut Context, input: Port, id: PacketId) {
    if switch.ports().steering.is_some() {
        steer(switch, ctx, input, id);
    } else if switch.ports().has_several_tables() {
        ctx.packets[id].out = switch.ports().route(ctx.packets[id].dst);
    }
    let wait = if switch.ports().may_underrun { switch.ports().waits_for_tail(ctx, input, id) } else { None };
    switch.note_tail(ctx, input, id);
    if let Some((time, key)) = wait {
        ctx.queue.push(Event { time, key, data: id });
        return;
    }
    switch.admit(ctx, input, id);
}

/// Selects the output and the lane of a packet if the forwarding table alone does not determine them.
#[inline(never)]
fn steer<A: Architecture>(switch: &mut A, ctx: &mut Context, input: Port, id: PacketId) {
    match switch.ports().steering.as_deref() {
        Some(Steering::Packets(_)) => choose_port(switch, ctx, id),
        Some(Steering::Hashed(_)) => switch.ports().hash_packet(ctx, id),
        Some(Steering::Detours(..)) => {
            choose_detour(switch, ctx, id);
            switch.ports().choose_lane(ctx, input, id);
        }
        Some(Steering::Lanes(_)) => switch.ports().choose_lane(ctx, input, id),
        Some(Steering::Flows(_)) => switch.ports_mut().direct_flow(ctx, input, id),
        None => {}
    }
}

/// Selects the output of a packet that has arrived, if each packet is routed adaptively.
#[inline(never)]
fn choose_port(switch: &mut dyn Architecture, ctx: &mut Context, id: PacketId) {
    let mut best =
        switch.ports_mut().chooser_mut().map(|of| std::mem::take(&mut of.best)).unwrap_or_default();
    let Some(chooser) = switch.ports().chooser() else { return report_missing_steering(switch.ports(), ctx) };
    let packet = &ctx.packets[id];
    let (vl, dst) = (packet.vl, packet.dst);
    let mut output = switch.ports().route(dst);
    let mut chosen = 0;
    if let Some(ports) = chooser.ports(packet)
        && !(chooser.pins_isolated && switch.cams().is_some_and(|cams| cams.lists(vl, dst)))
    {
        let mut least = u64::MAX;
        best.clear();
        for port in ports.iter().map(|&number| Port::of_number(number)) {
            if switch.ports().avoids(port) {
                continue;
            }
            let grade = load(switch, ctx, port, vl) / u64::from(chooser.grade);
            if grade < least {
                least = grade;
                best.clear();
            }
            if grade == least {
                best.push(port);
            }
        }
        let number = mixed([chooser.seed, switch.ports().node, chooser.count]) % best.len().max(1) as u64;
        output = best.get(number as usize).copied().unwrap_or(output);
        chosen = 1;
    }
    ctx.packets[id].out = output;
    if let Some(chooser) = switch.ports_mut().chooser_mut() {
        chooser.best = best;
        chooser.count = chooser.count.wrapping_add(chosen);
    }
}

/// Decides whether a packet takes a detour, if this switch is that of its source. Only data packets take
/// detours.
#[inline(never)]
fn choose_detour(switch: &mut dyn Architecture, ctx: &mut Context, id: PacketId) {
    let ports = switch.ports();
    let Some(Steering::Detours(maps, of)) = ports.steering.as_deref() else {
        return report_missing_steering(ports, ctx);
    };
    let Some(detours) = &maps.detours else { return report_missing_steering(ports, ctx) };
    let packet = &ctx.packets[id];
    let (node, pair) = (ports.node as usize, (packet.src as usize, packet.dst as usize));
    if !detours.is_home(node, pair.0) {
        return;
    }
    let number = mixed([of.seed, ports.node, of.count]);
    let drawn = detours.third(number, pair.0, pair.1).filter(|_| packet.is_data());
    let is_longer = |group: usize| {
        let table = ports.route(packet.dst).number();
        let next = |at: usize, port: u16| of.neighbours[at][Port::of_number(port).index()] as usize;
        let cost = |between: Option<usize>| {
            let (port, lane) = detours.step_over(node, table, pair, between);
            load(switch, ctx, Port::of_number(port), Vl(lane)) * detours.links(pair, between, next)
        };
        cost(None) <= cost(Some(group)) + of.bias
    };
    let detour = drawn.filter(|&group| !is_longer(group)).map(|group| group as u16);
    ctx.packets.set_detour(id, detour);
    let count = u32::from(drawn.is_some());
    if let Some(Steering::Detours(_, of)) = switch.ports_mut().steering.as_deref_mut() {
        of.count = of.count.wrapping_add(count);
    }
}

impl Ports {
    /// Selects the output of a packet that has arrived, if flows have individual routes.
    fn direct_flow(&mut self, ctx: &mut Context, input: Port, id: PacketId) {
        let table = self.route(ctx.packets[id].dst);
        let Some(Steering::Flows(director)) = self.steering.as_deref_mut() else {
            return report_missing_steering(self, ctx);
        };
        // A reply no longer announces its flow.
        let number = ctx.packets.carried_announcement(id).filter(|_| ctx.packets[id].kind() != Kind::Reply);
        let packet = &mut ctx.packets[id];
        let announced = number.map(|number| ctx.announcements.get_mut(number));
        let bytes = announced.as_ref().map_or(0, |announced| announced.bytes);
        let output = director.direct(input, packet, bytes).unwrap_or(table);
        packet.out = output;
        if let Some(announced) = announced {
            match director.weigh(output, packet.kind(), bytes) {
                Some(weight) => announced.largest_ps = announced.largest_ps.max(weight),
                // The packet that announced the flow was lost.
                None if ctx.links.has_changes() => {}
                None => {
                    let (node, port) = (self.node, output.number());
                    ctx.report_broken(format!(
                        "switch {node} removes a flow from port {port} that was not announced"
                    ));
                }
            }
        }
    }
}

/// Bytes that wait for an output, plus the bytes in use on a lane of the buffer at the far end of its link.
fn load(switch: &dyn Architecture, ctx: &Context, output: Port, vl: Vl) -> u64 {
    let in_use = ctx.links.outstanding(switch.ports().out(output), vl, ctx.now);
    u64::from(switch.queued_bytes(output)) + u64::from(in_use)
}
