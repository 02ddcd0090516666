//! Switches with independent outputs, in the event-ordered scheduler: VOQ switches, and switches whose outputs serve
//! packets first come, first served. They run the outputs of [`crate::voq`] with the links of a partition, and wake them
//! by events. They also support networks that the binned scheduler does not support, and serve as the reference for that
//! scheduler in tests.

use silvan_engine::cache::prefetch_lines;
use silvan_engine::saved::Saved;
use silvan_network::port::{Port, Vl};

use crate::context::Context;
use crate::link::{ChannelId, MAX_NODES, MAX_PORTS};
use crate::packet::{PacketId, Pool};
use crate::switch::ordered::{EventLinks, OnChannel};
use crate::switch::{Architecture, Ports};
use crate::voq::{ALL_EVENTS, Head, MOST_HOSTS, MOST_INPUTS, Output, QueueRoom, Slot, VoqOutputs};

// Outputs store the number of each host and, with queues that all inputs share, of each input.
const _: () = assert!(MAX_NODES <= MOST_HOSTS && MAX_PORTS <= MOST_INPUTS);

#[cfg(test)]
mod tests;

/// The data that the event-ordered scheduler stores with an output.
#[derive(Debug, Clone, Copy, Saved)]
struct EventOutput {
    /// The channel on which the output sends.
    channel: ChannelId,
    port: Port,
    /// Whether the output will be settled at this instant.
    dirty: bool,
}

impl<const L: usize> OnChannel for Output<L, EventOutput> {
    #[inline(always)]
    fn channel(&self) -> ChannelId {
        self.own.channel
    }

    #[inline(always)]
    fn port(&self) -> Port {
        self.own.port
    }
}

/// If `FIFO`, each output has one queue per virtual lane, which holds the packets of all inputs. Otherwise, it has one
/// queue per lane and input. `LANES` is 1 for FIFO outputs with one lane, and for others if [`fits_one_lane`] returns true;
/// otherwise, it is [`crate::voq::MOST_LANES`].
#[derive(Debug, Saved)]
pub(crate) struct VoqSwitch<const LANES: usize, const FIFO: bool> {
    pub ports: Ports,
    outputs: VoqOutputs<LANES, ALL_EVENTS, FIFO, EventOutput>,
}

/// Whether the variant for one lane supports the outputs of a switch.
pub(crate) fn fits_one_lane(ports: &Ports) -> bool {
    let fits = ports.full_space() <= u16::MAX.into();
    fits && ports.lanes == 1 && ports.count() <= 64 && !ports.marking.marker.needs_queues()
}

impl<const LANES: usize, const FIFO: bool> VoqSwitch<LANES, FIFO> {
    /// `control_first` states whether control packets precede data in the queues of a `FIFO`.
    pub fn new(mut ports: Ports, control_first: bool) -> Self {
        let record = |port: Port| {
            Output::new(port.0 as u8, EventOutput { channel: ports.out(port), port, dirty: false })
        };
        let records = Port::all(ports.count()).map(record).collect();
        let reads_queues = !FIFO && ports.marking.marker.needs_queues();
        let mut outputs =
            VoqOutputs::new(records, ports.count(), ports.lane_order(), reads_queues, &ports.marking);
        outputs.control_first = control_first;
        outputs.arbiters = ports.arbiters.take();
        Self { outputs, ports }
    }

    /// The packets of an input for an output and lane.
    fn packets<'a>(
        &'a self,
        pool: &'a Pool,
        input: Port,
        output: Port,
        vl: Vl,
    ) -> impl Iterator<Item = PacketId> + 'a {
        let slot = Slot::new(output.index(), vl.index(), input.index());
        self.outputs.packets(pool, slot)
    }

    /// Same as [`super::Switch::heads`], for packets that change lanes: all queues that contain a packet that arrived
    /// on the given lane.
    fn holders(&self, ctx: &Context, input: Port, vl: Vl) -> Vec<(Port, Vl)> {
        let came = |id: PacketId| self.ports.came(&ctx.packets[id]) == vl;
        let all = Vl::all(self.ports.lanes)
            .flat_map(|lane| Port::all(self.ports.count()).map(move |output| (output, lane)));
        all.filter(|&(output, lane)| self.packets(&ctx.packets, input, output, lane).any(came)).collect()
    }
}

impl<const LANES: usize, const FIFO: bool> Architecture for VoqSwitch<LANES, FIFO> {
    #[inline(always)]
    fn ports(&self) -> &Ports {
        &self.ports
    }

    #[inline(always)]
    fn ports_mut(&mut self) -> &mut Ports {
        &mut self.ports
    }

    fn waiting_bytes(&self, output: Port, vl: Vl) -> u32 {
        self.outputs.lane(output.index(), vl).sum
    }

    /// If packets may lose their payloads instead of the arriving one, such a header is queued.
    fn make_room(&mut self, ctx: &mut Context, input: Port, id: PacketId) {
        let packet = &ctx.packets[id];
        let (output, vl, size) = (self.ports.route_of(packet), packet.vl.index(), packet.size);
        let Some(trimmer) = &mut self.ports.trimmer else { return };
        let slot = Slot::new(output.index(), vl, input.index());
        match self.outputs.make_room(trimmer, slot, size) {
            QueueRoom::Enough => {}
            QueueRoom::Trimmed => self.ports.trim(ctx, (input, output), id),
            QueueRoom::Replaces(newest, packet) => {
                let input = Port::new(newest.input());
                self.ports.trim(ctx, (input, output), packet);
                self.enqueue(ctx, input, packet);
                self.note_headers(ctx, packet);
            }
        }
    }

    #[inline]
    fn enqueue(&mut self, ctx: &mut Context, input: Port, id: PacketId) {
        let packet = &ctx.packets[id];
        let output = self.ports.route_of(packet);
        let (head, vl) = (Head::of(id, packet), packet.vl.index());
        let slot = Slot::new(output.index(), vl, input.index());
        let (now, place) = (ctx.now, self.ports.place);
        let schedule = &mut EventLinks::new(ctx, place);
        if !self.outputs.enqueue(schedule, &mut self.ports.marking, slot, head, now) {
            return;
        }
        let channel = self.ports.out(output);
        let free_at = ctx.free_at(channel);
        if free_at > now {
            ctx.wake(channel, free_at);
        } else if !std::mem::replace(&mut self.outputs.records[slot.output()].own.dirty, true) {
            ctx.dirty_outputs.push((place, output));
        }
    }

    #[inline]
    fn wake(&mut self, ctx: &mut Context, output: Port) {
        // If a packet arrived at this instant, the output is already scheduled.
        if !self.outputs.records[output.index()].own.dirty {
            self.settle(ctx, output);
        }
    }

    /// Sends from an output, if possible. The output will be woken when it can send the next packet.
    #[inline]
    fn settle(&mut self, ctx: &mut Context, output: Port) {
        let own = &mut self.outputs.records[output.index()].own;
        own.dirty = false;
        let channel = own.channel;
        let (now, free_at) = (ctx.now, ctx.free_at(channel));
        if free_at > now {
            ctx.wake(channel, free_at);
            return;
        }
        let place = self.ports.place;
        let schedule = &mut EventLinks::new(ctx, place);
        let Ok(sending) = self.outputs.settle(schedule, &mut self.ports.marking, output.index(), now) else {
            return;
        };
        let end =
            self.ports.transmit(ctx, sending.head.packet, Port::new(sending.slot.input()), output, None);
        if self.outputs.records[output.index()].waiting != 0 {
            ctx.wake(channel, end);
        }
    }

    #[cfg(debug_assertions)]
    fn rests(&mut self, ctx: &mut Context, output: Port) -> bool {
        let Some(channel) = self.ports.wiring[output.index()].as_ref().map(|wiring| wiring.out) else {
            return true;
        };
        if ctx.free_at(channel) > ctx.now || self.outputs.records[output.index()].own.dirty {
            return true;
        }
        self.settle(ctx, output);
        ctx.free_at(channel) <= ctx.now
    }

    #[inline]
    fn queued_bytes(&self, output: Port) -> u32 {
        self.outputs.queued_bytes(output.index())
    }

    fn buffered(&self, ctx: &Context, input: Port, vl: Vl) -> u32 {
        let space = |id: PacketId| {
            let packet = &ctx.packets[id];
            if self.ports.came(packet) == vl { packet.space } else { 0 }
        };
        let all = self.ports.changes_lanes();
        let lanes = Vl::all(self.ports.lanes).filter(|&lane| all || lane == vl);
        let outputs = lanes.flat_map(|lane| Port::all(self.ports.count()).map(move |output| (output, lane)));
        let packets = outputs.flat_map(|(output, lane)| self.packets(&ctx.packets, input, output, lane));
        packets.map(space).sum()
    }

    fn all_buffered(&self, ctx: &Context, add: &mut dyn FnMut(Port, Vl, u32)) {
        self.outputs.all_packets(&ctx.packets, 0..self.ports.count(), |input, _, id| {
            let packet = &ctx.packets[id];
            add(Port::new(input), self.ports.came(packet), packet.space);
        });
    }

    fn heads(&self, ctx: &Context, input: Port, vl: Vl) -> Vec<(Port, Vl)> {
        if self.ports.changes_lanes() {
            return self.holders(ctx, input, vl);
        }
        let outputs = self.outputs.requested(0, self.ports.count(), input, vl);
        outputs.into_iter().map(|output| (output, vl)).collect()
    }

    #[inline]
    fn prefetch(&self) {
        if FIFO {
            prefetch_lines::<_, 3>(std::slice::from_ref(self), 0);
        }
    }

    fn prefetches_in_steps(&self) -> bool {
        FIFO
    }

    #[inline]
    fn prefetch_route(&self, ctx: &Context, input: Port, id: PacketId) {
        self.ports.prefetch_route(&ctx.packets[id]);
        ctx.links.prefetch_lane(self.ports.feeder(input), Vl::FIRST);
    }

    #[inline]
    fn prefetch_output(&self, output: Port) {
        self.outputs.prefetch(output.index());
    }

    #[inline]
    fn prefetch_arrival(&self, ctx: &Context, input: Port, id: PacketId) {
        let packet = &ctx.packets[id];
        // With steering, the packet may take another output, and the table may have none for its destination.
        let output = self.ports.route(packet.dst);
        if output.index() >= self.ports.count() {
            return;
        }
        self.outputs.prefetch(output.index());
        let (vl, input) = (packet.vl.index(), input.index());
        self.outputs.prefetch_queue(Slot::new(output.index(), vl, input));
        let channel = self.ports.out(output);
        ctx.links.prefetch_channel(channel);
        ctx.links.prefetch_lane(channel, packet.vl);
    }

    #[inline]
    fn prefetch_wake(&self, ctx: &Context, output: Port) {
        ctx.links.prefetch_lane(self.ports.out(output), Vl::FIRST);
        let Some(slot) = self.outputs.next_slot(output.index()) else { return };
        self.outputs.prefetch_queue(slot);
        ctx.links.prefetch_lane(self.ports.feeder(Port::new(slot.input())), Vl::FIRST);
    }
}
