//! Switches whose outputs serve packets first come, first served, regardless of the input (infinite speedup: Zdornov
//! and Birk, section 2). Any number of packets can leave an input's memory at the same time for different outputs,
//! and an output sends one packet at a time.
//!
//! If `switch.control_first` is set, control packets precede data. Tear-down packets are an exception: they
//! stay behind the data of their flow.
//!
//! With packet trimming ([`crate::trimming`]), the data of a lane has a limit. A trimmed packet no longer
//! occupies memory of its input, and its header waits on the lane of control packets.

use std::collections::VecDeque;

use silvan_congestion::facts::{QueueChange, QueueFill};
use silvan_engine::cache::{prefetch, prefetch_lines};
use silvan_engine::saved::Saved;
use silvan_network::port::{Port, Vl};
use silvan_network::port_set::Ports256;

use super::{Architecture, Outgoing, Ports};
use crate::context::Context;
use crate::packet::PacketId;
use crate::trimming::Trimmer;

#[cfg(test)]
mod tests;

/// A waiting packet, and its input.
type Waiting = (PacketId, Port);

/// One virtual lane of an output: the waiting packets. It occupies one cache line.
#[derive(Debug, Default, Saved)]
#[repr(align(64))]
struct FcfsLane {
    data: VecDeque<Waiting>,
    /// Packets that precede `data`.
    #[expect(clippy::box_collection, reason = "the lane would occupy two cache lines")]
    control: Box<VecDeque<Waiting>>,
    /// Number of packets in `control`.
    controls: u32,
    /// Waiting bytes of this lane.
    bytes: u32,
    /// Waiting bytes of all virtual lanes of the output; used only in its first lane, as are the following fields.
    all_bytes: u32,
    /// The virtual lane to consider first.
    turn: Vl,
    /// Whether the output will be settled at the end of this instant.
    dirty: bool,
}

impl FcfsLane {
    /// The packet that is sent next.
    fn front(&self) -> Option<Waiting> {
        let queue = if self.controls == 0 { &self.data } else { &*self.control };
        queue.front().copied()
    }

    /// Removes the packet that is sent next, which has `size` bytes.
    fn pop_front(&mut self, size: u32) {
        self.bytes -= size;
        if self.controls == 0 {
            self.data.pop_front();
        } else {
            self.control.pop_front();
            self.controls -= 1;
        }
    }

    /// Adds a packet of `size` bytes.
    fn push_back(&mut self, waiting: Waiting, size: u32, is_control: bool) {
        self.bytes += size;
        if is_control {
            self.control.push_back(waiting);
            self.controls += 1;
        } else {
            self.data.push_back(waiting);
        }
    }
}

#[derive(Debug, Saved)]
pub(crate) struct FcfsSwitch {
    pub ports: Ports,
    /// State per output and virtual lane.
    lanes: Box<[FcfsLane]>,
    control_first: bool,
}

impl FcfsSwitch {
    pub fn new(ports: Ports, control_first: bool) -> Self {
        let count = ports.count();
        let lanes = (0..count * ports.lanes).map(|_| FcfsLane::default()).collect();
        Self { lanes, ports, control_first }
    }

    /// The first lane of an output.
    #[inline(always)]
    fn first_lane(&mut self, output: Port) -> &mut FcfsLane {
        &mut self.lanes[self.ports.lane(output, Vl::FIRST).index()]
    }

    /// Adds a packet to the queue of its lane.
    #[inline(always)]
    fn store(&mut self, ctx: &mut Context, output: Port, (id, input): Waiting) {
        let packet = &ctx.packets[id];
        let (vl, size) = (packet.vl, packet.size);
        let first = self.control_first && !packet.kind.follows_data();
        let lane = &mut self.lanes[self.ports.lane(output, vl).index()];
        lane.push_back((id, input), size, first);
        let sum = lane.bytes;
        self.first_lane(output).all_bytes += size;
        self.ports.arrives(ctx, output, id, sum);
        self.fill_changed(ctx, output, vl, input);
    }

    #[inline]
    fn fill_changed(&mut self, ctx: &mut Context, output: Port, vl: Vl, input: Port) {
        let lane = self.ports.lane(output, vl);
        let sum = self.lanes[lane.index()].bytes;
        if self.ports.watches_queue(lane, sum) {
            let queue = Some(QueueFill { input, bytes: sum });
            let change = QueueChange { now: ctx.now, queue, queue_bytes: sum, inputs: Ports256::EMPTY };
            self.ports.queue_changed(ctx, output, vl, &change);
        }
    }

    /// The packets on a lane of an input, with the outputs for which they wait.
    fn of_input(&self, input: Port, vl: Vl) -> impl Iterator<Item = (Port, PacketId)> {
        let lanes = Port::all(self.ports.count()).map(move |output| (output, self.ports.lane(output, vl)));
        let all = lanes.flat_map(move |(output, lane)| {
            let FcfsLane { control, data, .. } = &self.lanes[lane.index()];
            control.iter().chain(data.iter()).map(move |&entry| (output, entry))
        });
        all.filter(move |(_, (_, from))| *from == input).map(|(output, (id, _))| (output, id))
    }
}

impl Architecture for FcfsSwitch {
    #[inline(always)]
    fn ports(&self) -> &Ports {
        &self.ports
    }

    #[inline(always)]
    fn ports_mut(&mut self) -> &mut Ports {
        &mut self.ports
    }

    /// If the arriving packet does not fit into the queue of its output, trims this packet or the newest one
    /// in the queue.
    fn make_room(&mut self, ctx: &mut Context, input: Port, id: PacketId) {
        let packet = &ctx.packets[id];
        let (output, vl, size) = (self.ports.route_of(packet), packet.vl, packet.size);
        let Some(trimmer) = &mut self.ports.trimmer else { return };
        let at = output.index() * self.ports.lanes + vl.index();
        let lane = &mut self.lanes[at];
        let fits = |trimmer: &Trimmer, bytes: u32| trimmer.fits(output.index(), bytes, size);
        if fits(trimmer, lane.bytes) {
            return;
        }
        // Data lanes carry no other packets, so the queue `data` has all of their bytes.
        let newest = trimmer.takes_newest(at).then(|| lane.data.back().copied()).flatten();
        let newest = newest.filter(|&(newest, _)| fits(trimmer, lane.bytes - ctx.packets[newest].size));
        let Some((newest, of)) = newest else {
            return self.ports.trim(ctx, (input, output), id);
        };
        lane.data.pop_back();
        lane.bytes -= ctx.packets[newest].size;
        self.lanes[self.ports.lane(output, Vl::FIRST).index()].all_bytes -= ctx.packets[newest].size;
        self.ports.trim(ctx, (of, output), newest);
        self.store(ctx, output, (newest, of));
        self.note_headers(ctx, newest);
    }

    fn waiting_bytes(&self, output: Port, vl: Vl) -> u32 {
        self.lanes[self.ports.lane(output, vl).index()].bytes
    }

    fn enqueue(&mut self, ctx: &mut Context, input: Port, id: PacketId) {
        let packet = &ctx.packets[id];
        let output = self.ports.route_of(packet);
        self.store(ctx, output, (id, input));
        let channel = self.ports.out(output);
        let free_at = ctx.free_at(channel);
        if free_at > ctx.now {
            ctx.wake(channel, free_at);
        } else if !std::mem::replace(&mut self.first_lane(output).dirty, true) {
            ctx.dirty_outputs.push((self.ports.place, output));
        }
    }

    /// Called when an output is free or credit has returned.
    fn wake(&mut self, ctx: &mut Context, output: Port) {
        if !self.first_lane(output).dirty {
            self.settle(ctx, output);
        }
    }

    /// Sends from an output, if possible.
    fn settle(&mut self, ctx: &mut Context, output: Port) {
        let (channel, order) = (self.ports.out(output), self.ports.lane_order());
        let state = self.first_lane(output);
        state.dirty = false;
        let (first, waiting) = (state.turn, state.all_bytes);
        let free_at = ctx.free_at(channel);
        if free_at > ctx.now {
            ctx.wake(channel, free_at);
            return;
        }
        if waiting == 0 {
            return;
        }
        for vl in order.from(first) {
            let lane = &mut self.lanes[self.ports.lane(output, vl).index()];
            if lane.bytes == 0 {
                continue;
            }
            let Some((id, input)) = lane.front() else {
                let node = self.ports.node;
                ctx.report_broken(format!("switch {node} counts {} bytes in an empty queue", lane.bytes));
                continue;
            };
            let packet = &ctx.packets[id];
            let (way, space, size) = ((channel, vl, packet.dst), packet.space, packet.size);
            if !ctx.has_credit_or_wait(way, space) {
                continue;
            }
            lane.pop_front(size);
            let left = lane.bytes;
            let state = self.first_lane(output);
            state.turn = order.after(first, vl);
            state.all_bytes -= size;
            self.fill_changed(ctx, output, vl, input);
            self.ports.departs(ctx, id, Outgoing::unbuffered(output, left));
            let end = self.ports.transmit(ctx, id, input, output, None);
            if waiting > size {
                ctx.wake(channel, end);
            }
            return;
        }
    }

    fn queued_bytes(&self, output: Port) -> u32 {
        self.lanes[self.ports.lane(output, Vl::FIRST).index()].all_bytes
    }

    fn buffered(&self, ctx: &Context, input: Port, vl: Vl) -> u32 {
        self.of_input(input, vl).map(|(_, id)| ctx.packets[id].space).sum()
    }

    fn all_buffered(&self, ctx: &Context, add: &mut dyn FnMut(Port, Vl, u32)) {
        for (at, FcfsLane { control, data, .. }) in self.lanes.iter().enumerate() {
            let vl = Vl::new(at % self.ports.lanes);
            for &(id, input) in control.iter().chain(data) {
                add(input, vl, ctx.packets[id].space);
            }
        }
    }

    /// The outputs for which packets of an input wait.
    fn heads(&self, ctx: &Context, input: Port, vl: Vl) -> Vec<(Port, Vl)> {
        // A trimmed packet occupies no memory of an input.
        let stored = self.of_input(input, vl).filter(|&(_, id)| ctx.packets[id].space > 0);
        let mut outputs: Vec<Port> = stored.map(|(output, _)| output).collect();
        outputs.sort_unstable();
        outputs.dedup();
        outputs.into_iter().map(|output| (output, vl)).collect()
    }

    #[inline]
    fn prefetch(&self) {
        prefetch_lines::<_, 3>(std::slice::from_ref(self), 0);
    }

    fn prefetches_in_steps(&self) -> bool {
        true
    }

    #[inline]
    fn prefetch_route(&self, ctx: &Context, input: Port, id: PacketId) {
        self.ports.prefetch_route(&ctx.packets[id]);
        ctx.links.prefetch_lane(self.ports.feeder(input), Vl::FIRST);
    }

    #[inline]
    fn prefetch_output(&self, output: Port) {
        prefetch(&self.lanes, self.ports.lane(output, Vl::FIRST).index());
    }

    #[inline]
    fn prefetch_arrival(&self, ctx: &Context, _input: Port, id: PacketId) {
        let packet = &ctx.packets[id];
        // With steering, the packet may take another output.
        let output = self.ports.route(packet.dst);
        if output.index() < self.ports.count() {
            let lane = self.ports.lane(output, packet.vl);
            prefetch(&self.lanes, lane.index());
            self.ports.marking.marker.prefetch(lane.index());
            ctx.links.prefetch_channel(self.ports.out(output));
            ctx.links.prefetch_way((self.ports.out(output), packet.vl, packet.dst));
        }
    }

    #[inline]
    fn prefetch_wake(&self, ctx: &Context, output: Port) {
        ctx.links.prefetch_lane(self.ports.out(output), Vl::FIRST);
        let lane = &self.lanes[self.ports.lane(output, Vl::FIRST).index()];
        if let Some((id, input)) = lane.front() {
            ctx.packets.prefetch(id);
            ctx.links.prefetch_lane(self.ports.feeder(input), Vl::FIRST);
        }
    }
}
