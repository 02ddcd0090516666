//! The VOQ switch of the event-ordered scheduler. It runs the outputs of [`crate::voq`] with the links of a partition,
//! and wakes them by events. It also supports networks that the binned scheduler does not support, and serves as the
//! reference for that scheduler in tests.

use silvan_engine::saved::Saved;
use silvan_engine::{Rate, Time};
use silvan_network::port::{Port, Vl};

use crate::context::Context;
use crate::link::ChannelId;
use crate::packet::{PacketId, Pool};
use crate::switch::{Architecture, Ports};
use crate::switch_marking::Applied;
use crate::voq::{ALL_EVENTS, Head, MISSING_PACKET, Need, Output, Slot, VoqOutputs, Wires};

/// The data that the event-ordered scheduler stores with an output.
#[derive(Debug, Clone, Copy, Saved)]
struct Ordered {
    /// The channel on which the output sends.
    channel: ChannelId,
    /// Whether the output will be settled at this instant.
    dirty: bool,
}

/// Accesses the links of a switch's outputs, which the context stores. The number identifies the switch in events.
struct Wiring(u32);

impl<const L: usize> Wires<L, Ordered, Context> for Wiring {
    #[inline(always)]
    fn packets(ctx: &mut Context) -> &mut Pool {
        &mut ctx.packets
    }

    #[inline(always)]
    fn free_at(&self, ctx: &Context, output: &Output<L, Ordered>) -> Time {
        ctx.free_at(output.own.channel)
    }

    #[inline(always)]
    fn has_credit(&mut self, ctx: &mut Context, output: &mut Output<L, Ordered>, need: Need) -> bool {
        let Need { vl, dst, space, now, .. } = need;
        ctx.links.has_credit((output.own.channel, Vl::new(vl), dst), space, now)
    }

    fn wait_for_credit(&mut self, ctx: &mut Context, output: &mut Output<L, Ordered>, need: Need) -> Time {
        let Need { vl, dst, space, .. } = need;
        let way = (output.own.channel, Vl::new(vl), dst);
        ctx.links.wait_for_credit(way, space, &mut ctx.queue);
        // An event wakes the output.
        Time::NEVER
    }

    fn sent(&self, ctx: &Context, output: &Output<L, Ordered>) -> u64 {
        ctx.links.sent_by(output.own.channel, ctx.now)
    }

    fn rate(&self, ctx: &Context, output: &Output<L, Ordered>) -> Rate {
        ctx.links.rate(output.own.channel)
    }

    fn applied(&mut self, ctx: &mut Context, output: &Output<L, Ordered>, applied: Applied) {
        ctx.note_applied((self.0, true, Port(output.number.into())), applied);
    }

    #[cold]
    fn packet_is_missing(&mut self, ctx: &mut Context, output: &Output<L, Ordered>) {
        ctx.report_broken(format!("channel {}: {MISSING_PACKET}", output.own.channel));
    }
}

/// `LANES` is 1 if [`fits_one_lane`] returns true for the switch; otherwise, it is
/// [`crate::voq::MOST_LANES`].
#[derive(Debug, Saved)]
pub(crate) struct VoqSwitch<const LANES: usize> {
    pub ports: Ports,
    outputs: VoqOutputs<LANES, ALL_EVENTS, false, Ordered>,
}

/// Whether the variant for one lane supports the outputs of a switch.
pub(crate) fn fits_one_lane(ports: &Ports) -> bool {
    let fits = ports.full_space() <= u16::MAX.into();
    fits && ports.lanes == 1 && ports.count() <= 64 && !ports.marking.marker.needs_queues()
}

impl<const LANES: usize> VoqSwitch<LANES> {
    pub fn new(ports: Ports) -> Self {
        let record =
            |port: Port| Output::new(port.0 as u8, Ordered { channel: ports.out(port), dirty: false });
        let records = Port::all(ports.count()).map(record).collect();
        let reads_queues = ports.marking.marker.needs_queues();
        let outputs =
            VoqOutputs::new(records, ports.count(), ports.lane_order(), reads_queues, &ports.marking);
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

impl<const LANES: usize> Architecture for VoqSwitch<LANES> {
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

    #[inline]
    fn enqueue(&mut self, ctx: &mut Context, input: Port, id: PacketId) {
        let packet = &ctx.packets[id];
        let output = self.ports.route_of(packet);
        let (head, vl) = (Head::of(id, packet), packet.vl.index());
        let slot = Slot::new(output.index(), vl, input.index());
        let (now, place) = (ctx.now, self.ports.place);
        let wires = (&mut Wiring(place), &mut *ctx);
        if !self.outputs.enqueue(wires, &mut self.ports.marking, slot, head, now) {
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
        let wires = (&mut Wiring(place), &mut *ctx);
        let Ok(sending) = self.outputs.settle(wires, &mut self.ports.marking, output.index(), now) else {
            return;
        };
        let end =
            self.ports.transmit(ctx, sending.head.packet, Port::new(sending.slot.input()), output, None);
        if self.outputs.records[output.index()].waiting != 0 {
            ctx.wake(channel, end);
        }
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

    fn heads(&self, ctx: &Context, input: Port, vl: Vl) -> Vec<(Port, Vl)> {
        if self.ports.changes_lanes() {
            return self.holders(ctx, input, vl);
        }
        let outputs = self.outputs.requested(0, self.ports.count(), input, vl);
        outputs.into_iter().map(|output| (output, vl)).collect()
    }

    #[inline]
    fn prefetch_arrival(&self, ctx: &Context, input: Port, id: PacketId) {
        let packet = &ctx.packets[id];
        let output = self.ports.route(packet.dst);
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
