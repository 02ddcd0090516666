//! Switches with combined input and output queues (CIOQ) and a crossbar that is faster than the links.
//!
//! ```text
//!  in 0  =[ queues ]==\             /==[ FIFO ]= out 0
//!  in 1  =[ queues ]===*  crossbar *===[ FIFO ]= out 1     one read port per input,
//!  in 2  =[ queues ]==/             \==[ FIFO ]= out 2     one write port per output
//! ```
//!
//! The input buffer is one first-in first-out queue unless `switch.queues` selects another organization. A packet moves
//! at the crossbar's rate (by default twice the rate of the links, the speedup of MVCM, 5.1), but no faster than it
//! arrives. It starts to move when its input's read port and its output's write port are free and the output buffer has
//! room for the whole packet. Switching is virtual cut-through: a packet may leave the output buffer as soon as it
//! begins to move there, so an idle switch adds only its latency. Outputs serve their inputs in rounds
//! ([`super::rounds`]). An input has one read port for all its lanes.

use silvan_congestion::facts::{InputBuffer, InputVerdict, QueueChange, QueueFill};
use silvan_engine::Time;
use silvan_engine::cache::{prefetch, prefetch_lines};
use silvan_engine::saved::Saved;
use silvan_engine::units::BytePace;
use silvan_network::port::{LaneOrder, Lanes, Port, PortVl, Vl};
use silvan_network::port_set::PortSet;

use super::rounds::Rounds;
use super::{Architecture, Ports};
use crate::context::Context;
use crate::lane_tables::LaneSequence;
use crate::link::CreditWay;
use crate::message::CreditReturn;
use crate::packet::{Fifo, PacketId};
use crate::queueing::buffers::{Buffers, Passage, QueueId, Stored};
use crate::switch_marking::OutputFill;

#[cfg(test)]
mod tests;

/// A packet that is leaving the memory of a port: the time at which its tail leaves, its lane, and its space.
#[derive(Debug, Saved)]
struct LeavingPacket {
    end: Time,
    lane: PortVl,
    space: u32,
}

impl LeavingPacket {
    const NOTHING: Self = Self { end: Time::NEVER, lane: PortVl::FIRST, space: 0 };

    /// If the packet's tail has left by now, returns its lane and the space that became free.
    #[inline]
    fn left(&mut self, now: Time) -> Option<(PortVl, u32)> {
        (self.end <= now).then(|| {
            self.end = Time::NEVER;
            (self.lane, self.space)
        })
    }
}

#[derive(Debug, Saved)]
struct CioqInput {
    leaving: LeavingPacket,
    /// The time at which the read port becomes free.
    read_free: Time,
}

/// One virtual lane of an output.
#[derive(Debug, Clone, Default, Saved)]
struct CioqLane {
    queue: Fifo,
    /// Memory in use, including the packet that is leaving.
    used: u32,
    /// Bytes on the wire of the queued packets.
    bytes: u32,
    /// The input to consider first.
    turn: Port,
}

#[derive(Debug, Saved)]
struct CioqOutput {
    leaving: LeavingPacket,
    /// The time at which the write port becomes free.
    write_free: Time,
    /// The virtual lane to consider first for the write port; the next field is the one for the link.
    write_turn: Vl,
    link_turn: Vl,
    /// Number of packets in its queues.
    held: u32,
    /// Whether the output will be settled at the end of this instant.
    dirty: bool,
}

#[derive(Debug, Saved)]
pub(crate) struct CioqSwitch<S: PortSet, L: Lanes> {
    pub ports: Ports,
    pub buffers: Buffers<S, L>,
    inputs: Box<[CioqInput]>,
    /// Memory in use for each input and virtual lane, including packets that are leaving.
    used: Box<[u32]>,
    outputs: Box<[CioqOutput]>,
    /// State per output and virtual lane.
    lanes: Box<[CioqLane]>,
    rounds: Rounds<S>,
    crossbar: BytePace,
    /// Memory per virtual lane of an output.
    output_lane: u32,
}

impl<S: PortSet, L: Lanes> CioqSwitch<S, L> {
    pub fn new(ports: Ports, buffers: Buffers<S, L>, crossbar: BytePace, output_lane: u32) -> Self {
        let (count, lanes) = (ports.count(), ports.lanes);
        let input = |_| CioqInput { leaving: LeavingPacket::NOTHING, read_free: Time::ZERO };
        let output = |_| CioqOutput {
            leaving: LeavingPacket::NOTHING,
            write_free: Time::ZERO,
            write_turn: Vl::FIRST,
            link_turn: Vl::FIRST,
            held: 0,
            dirty: false,
        };
        Self {
            inputs: (0..count).map(input).collect(),
            used: vec![0; count * lanes].into(),
            outputs: (0..count).map(output).collect(),
            lanes: vec![CioqLane::default(); count * lanes].into(),
            rounds: Rounds::new(count * lanes, !buffers.is_fifo()),
            ports,
            buffers,
            crossbar,
            output_lane,
        }
    }

    /// The order in which the virtual lanes of an output take turns. With one lane, the compiler knows the result.
    #[inline(always)]
    fn lane_order(&self) -> LaneOrder {
        match self.buffers.lanes() {
            1 => LaneOrder { lanes: 1, first: None },
            _ => self.ports.lane_order(),
        }
    }

    /// The lanes of an output in the order in which it tries to put their packets on the link.
    #[inline(always)]
    fn lanes_on_link(&self, output: Port) -> LaneSequence {
        match self.buffers.lanes() {
            1 => LaneSequence::of(std::iter::once(Vl::FIRST)),
            _ => self.ports.lanes_of(output, self.outputs[output.index()].link_turn),
        }
    }

    /// Bytes of an input's memory that are in use. Frees the space of a packet that has already left it.
    fn used_of_input(&mut self, input: Port, vl: Vl, now: Time) -> u32 {
        if let Some((lane, space)) = self.inputs[input.index()].leaving.left(now) {
            self.used[lane.index()] -= space;
        }
        self.used[self.buffers.lane(input, vl).index()]
    }

    /// Frees the space of a packet that has already left the memory of an output.
    #[inline]
    fn expire(&mut self, output: Port, now: Time) {
        if let Some((lane, space)) = self.outputs[output.index()].leaving.left(now) {
            self.lanes[lane.index()].used -= space;
        }
    }

    /// Applies a marking rule that depends on the fill of an input buffer after a packet has entered the buffer.
    fn arrived(&mut self, ctx: &mut Context, (input, vl): (Port, Vl), id: PacketId) {
        let used_bytes = self.used_of_input(input, vl, ctx.now);
        match self.ports.marking.marker.enters_buffer(&InputBuffer { used_bytes }) {
            InputVerdict::Forward => {}
            InputVerdict::Mark => self.mark(ctx, id),
            InputVerdict::MarkContenders => {
                let mut congested = vec![false; self.outputs.len()];
                for id in self.buffers.waiting(&ctx.packets, input, vl) {
                    congested[self.ports.route_of(&ctx.packets[id]).index()] = true;
                }
                for input in Port::all(self.inputs.len()) {
                    for id in self.buffers.waiting(&ctx.packets, input, vl) {
                        if congested[self.ports.route_of(&ctx.packets[id]).index()] {
                            self.mark(ctx, id);
                        }
                    }
                }
            }
        }
    }

    /// Marks a data packet.
    fn mark(&mut self, ctx: &mut Context, id: PacketId) {
        let packet = &ctx.packets[id];
        if packet.is_data() {
            self.ports.mark(ctx, self.ports.route_of(packet), id, 0);
        }
    }

    /// Notifies the marking rule that the number of bytes that wait for an output has changed, either in an input queue
    /// (for the given destination) or in the output buffer.
    #[inline]
    fn fill_changed(&mut self, ctx: &mut Context, (output, vl): (Port, Vl), queue: Option<(Port, u32)>) {
        let sum = self.waiting_bytes(output, vl);
        if self.ports.watches_queue(self.buffers.lane(output, vl), sum) {
            self.report_fill(ctx, (output, vl), queue, sum);
        }
    }

    /// See [`Self::fill_changed`].
    #[inline(never)]
    fn report_fill(
        &mut self,
        ctx: &mut Context,
        (output, vl): (Port, Vl),
        queue: Option<(Port, u32)>,
        sum: u32,
    ) {
        let fill = |(input, dst)| {
            let bytes = self.buffers.telling_bytes(Passage { input, output, vl }, dst, None);
            QueueFill { input, bytes }
        };
        let queue = queue.filter(|_| self.ports.marking.marker.needs_queues()).map(fill);
        let inputs = self.buffers.requests(self.buffers.lane(output, vl)).widen();
        let change = QueueChange { now: ctx.now, queue, queue_bytes: sum, inputs };
        self.ports.queue_changed(ctx, output, vl, &change);
    }

    /// Schedules the outputs for which a packet has just become the head of a queue.
    #[inline]
    fn ask_all(&mut self, ctx: &mut Context) {
        if self.buffers.changes.is_empty() {
            return;
        }
        if let Some(what) = self.buffers.changes.take_broken() {
            ctx.report_broken(format!("switch {}: {what}", self.ports.node));
        }
        while let Some((lane, input)) = self.buffers.changes.asked().pop() {
            self.ask(ctx, lane.port(self.buffers.lanes()), input);
        }
        self.buffers.changes.clear();
    }

    /// Schedules an output because an input has a packet for it.
    #[inline]
    fn ask(&mut self, ctx: &mut Context, output: Port, input: Port) {
        let state = &mut self.outputs[output.index()];
        let free_at = self.inputs[input.index()].read_free.max(state.write_free);
        if free_at > ctx.now {
            ctx.wake(self.ports.out(output), free_at);
        } else if !std::mem::replace(&mut state.dirty, true) {
            ctx.dirty_outputs.push((self.ports.place, output));
        }
    }

    /// Puts the next packet on the link, if the link is free and there is credit.
    fn send(&mut self, ctx: &mut Context, output: Port) {
        let channel = self.ports.out(output);
        if ctx.free_at(channel) > ctx.now {
            return;
        }
        for vl in self.lanes_on_link(output) {
            let lane = self.buffers.lane(output, vl);
            let Some(id) = self.lanes[lane.index()].queue.head() else { continue };
            let packet = &ctx.packets[id];
            let (dst, space) = (packet.dst, packet.space);
            if ctx.has_credit_or_wait(CreditWay { channel, vl, dst }, space) {
                self.send_head(ctx, (output, vl), id);
                return;
            }
        }
    }

    /// Puts the packet at the head of an output lane on the link.
    fn send_head(&mut self, ctx: &mut Context, (output, vl): (Port, Vl), id: PacketId) {
        let order = self.lane_order();
        let (at, packet) = (self.buffers.lane(output, vl), &ctx.packets[id]);
        let (space, size) = (packet.space, packet.size);
        let lane = &mut self.lanes[at.index()];
        lane.queue.pop(&mut ctx.packets);
        lane.bytes -= size;
        let state = &mut self.outputs[output.index()];
        state.held -= 1;
        state.link_turn = order.after(state.link_turn, vl);
        self.ports.note_lane(output, vl, size);
        self.depart(ctx, output, vl, id);
        let end = match space {
            0 => self.ports.send_header(ctx, id, output),
            _ => ctx.send(self.ports.out(output), id),
        };
        // The transmission of the previous packet ends at or before `end`.
        self.expire(output, end);
        self.outputs[output.index()].leaving = LeavingPacket { end, lane: at, space };
    }

    /// Applies the marking rule to a packet that leaves an output buffer.
    fn depart(&mut self, ctx: &mut Context, output: Port, vl: Vl, id: PacketId) {
        // Report the fill that remains after the packet has left (Paper I, 3.2.1).
        self.fill_changed(ctx, (output, vl), None);
        self.expire(output, ctx.now);
        let buffer_bytes = self.lanes[self.buffers.lane(output, vl).index()].used;
        let queue_bytes = self.waiting_bytes(output, vl);
        self.ports.departs(ctx, output, id, OutputFill { queue_bytes, buffer_bytes });
    }

    /// Starts to move a packet from an input to an output buffer, if possible. Returns whether a packet has started.
    fn take_in(&mut self, ctx: &mut Context, output: Port) -> bool {
        if self.outputs[output.index()].write_free > ctx.now {
            return false;
        }
        let order = self.lane_order();
        let first = self.outputs[output.index()].write_turn;
        for vl in order.from(first) {
            if let Some((input, queue)) = self.choose(ctx, output, vl) {
                self.outputs[output.index()].write_turn = order.after(first, vl);
                self.move_packet(ctx, Passage { input, output, vl }, queue);
                return true;
            }
        }
        false
    }

    /// Selects the next readable input and its queue. Returns `None` if there is none, if the output waits
    /// for a busy input, or if the packet does not fit into the output buffer.
    fn choose(&mut self, ctx: &mut Context, output: Port, vl: Vl) -> Option<(Port, QueueId)> {
        let lane = self.buffers.lane(output, vl);
        let asking = self.buffers.requests(lane);
        if asking.is_empty() {
            return None;
        }
        let free_at = |input: Port| self.inputs[input.index()].read_free;
        let mut busy = S::default();
        for input in asking.iter() {
            if free_at(input) > ctx.now {
                busy.insert(input);
            }
        }
        let asking = (asking, S::default);
        let choice = self.rounds.choice_of_free(lane, asking, busy, ctx.now, free_at);
        let input = choice.next(self.lanes[lane.index()].turn)?;
        let queue = self.buffers.front(lane, input, ctx.now)?;
        let space = ctx.packets[self.buffers.head(queue)?].space;
        self.expire(output, ctx.now);
        let used = self.lanes[lane.index()].used;
        (used + space <= self.output_lane).then_some((input, queue))
    }

    fn move_packet(&mut self, ctx: &mut Context, passage: Passage, queue: QueueId) {
        let Passage { input, output, vl } = passage;
        let Some(id) = self.buffers.head(queue) else {
            let node = self.ports.node;
            return ctx.report_broken(format!("switch {node}: an empty queue has a turn at an output"));
        };
        let packet = &ctx.packets[id];
        let (dst, size, space, tail) = (packet.dst, packet.size, packet.space, packet.tail_lag);
        self.buffers.take(&mut ctx.packets, ctx.now, queue, output);
        let end = (ctx.now + self.crossbar.time(size)).max(tail);
        let input_lane = self.buffers.lane(input, vl);
        let from = &mut self.inputs[input.index()];
        from.read_free = end;
        // The transmission of the previous packet ends at or before `end`.
        if let Some((lane, space)) = from.leaving.left(end) {
            self.used[lane.index()] -= space;
        }
        from.leaving = LeavingPacket { end, lane: input_lane, space };
        let way = CreditWay { channel: self.ports.feeder(input), vl, dst };
        if space > 0 {
            ctx.release(CreditReturn { way, space, leaves_at: end, ledger: ctx.packets.ledger(id) });
        }
        let state = &mut self.outputs[output.index()];
        state.write_free = end;
        state.held += 1;
        let at = self.buffers.lane(output, vl);
        let to = &mut self.lanes[at.index()];
        to.turn = input.after(self.inputs.len());
        to.queue.push(id, &mut ctx.packets);
        to.used += space;
        to.bytes += size;
        self.rounds.served(at, input, (ctx.now, end));
        self.fill_changed(ctx, (output, vl), Some((input, dst)));
    }

    /// Schedules the next wake-up of an output for the earliest of these times: if packets wait, the time at
    /// which the link becomes free; if packets wait at inputs, also the times at which the write port or the
    /// read port of such an input becomes free. Returning credit also wakes the output.
    fn plan(&mut self, ctx: &mut Context, output: Port) {
        let (channel, now) = (self.ports.out(output), ctx.now);
        let state = &self.outputs[output.index()];
        let requests = output.with_lanes(self.buffers.lanes()).map(|lane| self.buffers.requests(lane));
        let asking = requests.fold(S::default(), S::or);
        let asked = !asking.is_empty();
        let mut at = Time::NEVER;
        let mut consider = |time: Time| {
            if time > now {
                at = at.min(time);
            }
        };
        if asked || state.held > 0 {
            consider(ctx.free_at(channel));
        }
        if asked {
            consider(state.write_free);
            asking.iter().for_each(|input| consider(self.inputs[input.index()].read_free));
        }
        if at < Time::NEVER {
            ctx.wake(channel, at);
        }
    }
}

impl<S: PortSet, L: Lanes> Architecture for CioqSwitch<S, L> {
    #[inline(always)]
    fn ports(&self) -> &Ports {
        &self.ports
    }

    #[inline(always)]
    fn ports_mut(&mut self) -> &mut Ports {
        &mut self.ports
    }

    /// Replaces the packet's tail lag by the time at which its tail has arrived, because the packet cannot move
    /// earlier.
    fn note_tail(&mut self, ctx: &mut Context, input: Port, id: PacketId) {
        self.ports.note_tail(ctx, input, id);
    }

    /// Bytes that wait for an output lane on both sides of the crossbar.
    fn waiting_bytes(&self, output: Port, vl: Vl) -> u32 {
        let lane = self.buffers.lane(output, vl);
        self.buffers.sum(lane) + self.lanes[lane.index()].bytes
    }

    fn enqueue(&mut self, ctx: &mut Context, input: Port, id: PacketId) {
        let packet = &ctx.packets[id];
        let (vl, space, dst) = (packet.vl, packet.space, packet.dst);
        let output = self.ports.route_of(packet);
        self.used[self.buffers.lane(input, vl).index()] += space;
        let stored = self.buffers.store(&mut ctx.packets, ctx.now, input, output, id);
        if self.ports.marking.marker.watches_input_buffers() {
            self.arrived(ctx, (input, vl), id);
        }
        let sum = self.waiting_bytes(output, vl);
        self.ports.arrives(ctx, output, id, sum);
        self.fill_changed(ctx, (output, vl), Some((input, dst)));
        if stored == Stored::First {
            self.ask(ctx, output, input);
        }
        self.ask_all(ctx);
    }

    /// Called when the output's link or write port becomes free, when the read port of an input with packets for the
    /// output becomes free, or when credit returns.
    fn wake(&mut self, ctx: &mut Context, output: Port) {
        if !self.outputs[output.index()].dirty {
            self.settle(ctx, output);
        }
    }

    /// Sends a packet from an output, moves a packet into its buffer if possible, and schedules its next
    /// wake-up.
    fn settle(&mut self, ctx: &mut Context, output: Port) {
        self.outputs[output.index()].dirty = false;
        self.expire(output, ctx.now);
        if self.outputs[output.index()].held > 0 {
            self.send(ctx, output);
        }
        if self.take_in(ctx, output) {
            self.send(ctx, output);
        }
        self.ask_all(ctx);
        self.plan(ctx, output);
    }

    fn queued_bytes(&self, output: Port) -> u32 {
        let lanes = self.buffers.lanes();
        let waiting: u32 = output.with_lanes(lanes).map(|lane| self.buffers.sum(lane)).sum();
        let held = &self.lanes[output.lane_range(lanes)];
        waiting + held.iter().map(|lane| lane.bytes).sum::<u32>()
    }

    fn buffered(&self, ctx: &Context, input: Port, vl: Vl) -> u32 {
        self.buffers.space(&ctx.packets, input, vl)
    }

    fn heads(&self, ctx: &Context, input: Port, vl: Vl) -> Vec<(Port, Vl)> {
        let heads = self.buffers.heads(&ctx.packets, input, vl);
        heads.into_iter().map(|output| (output, vl)).collect()
    }

    #[inline]
    fn prefetch(&self) {
        prefetch_lines::<_, 9>(std::slice::from_ref(self), 0);
    }

    fn prefetches_in_steps(&self) -> bool {
        true
    }

    #[inline]
    fn prefetch_route(&self, ctx: &Context, input: Port, id: PacketId) {
        prefetch(&self.inputs, input.index());
        self.ports.prefetch_route(&ctx.packets[id]);
    }

    #[inline]
    fn prefetch_output(&self, output: Port) {
        prefetch(&self.outputs, output.index());
        prefetch(&self.lanes, self.buffers.lane(output, Vl::FIRST).index());
    }

    #[inline]
    fn prefetch_arrival(&self, ctx: &Context, input: Port, id: PacketId) {
        let packet = &ctx.packets[id];
        let (output, vl) = (self.ports.route_of(packet), packet.vl);
        if output.index() >= self.ports.count() {
            return;
        }
        let lane = self.buffers.lane(output, vl);
        self.buffers.prefetch(input, vl, output, packet.dst, None);
        self.prefetch_output(output);
        self.rounds.prefetch(lane);
        ctx.links.prefetch_channel(self.ports.out(output));
        self.ports.prefetch_credit(ctx, (input, output), packet);
    }

    #[inline]
    fn prefetch_wake(&self, ctx: &Context, output: Port) {
        let lane = self.buffers.lane(output, Vl::FIRST);
        ctx.links.prefetch_lane(self.ports.out(output), Vl::FIRST);
        self.rounds.prefetch(lane);
        if let Some(id) = self.lanes[lane.index()].queue.head() {
            ctx.packets.prefetch(id);
        }
        let next = self.buffers.requests(lane).next(self.lanes[lane.index()].turn);
        let Some(input) = next else { return };
        prefetch(&self.inputs, input.index());
        if let Some(id) = self.buffers.first_packet(lane, input, ctx.now) {
            ctx.packets.prefetch(id);
        }
        ctx.links.prefetch_lane(self.ports.feeder(input), Vl::FIRST);
    }
}
