//! A switch with any queue organization. This module contains the state and code that do not depend on its
//! arbitration.
//!
//! ```text
//! in 0  =[ normal queues | special queues ]==\     crossbar: a read port per queue and round
//! in 1  =[ normal queues | special queues ]===*    robin, or one read port per input and
//! in 2  =[ normal queues | special queues ]==/     iSLIP
//! ```
//!
//! For one queue per output, shared memory, no special queues and a read port per queue, [`super::VoqSwitch`] gives
//! the same results faster.

use silvan_congestion::facts::{QueueChange, QueueFill};
use silvan_engine::Time;
use silvan_engine::cache::prefetch_lines;
use silvan_engine::saved::Saved;
use silvan_engine::units::BytePace;
use silvan_network::port::{Lanes, Port, PortVl, Vl};
use silvan_network::port_set::PortSet;

use super::{Architecture, Ports};
use crate::context::Context;
use crate::link::{ChannelId, Class, CreditWay};
use crate::message::Word;
use crate::packet::{NO_LEDGER, Packet, PacketId};
use crate::queueing::buffers::{Buffers, Moved, Passage, QueueId, Stored};
use crate::queueing::isolation::{Cams, Notice};
use crate::switch_marking::OutputFill;

/// The arbitration of a [`QueuedSwitch`], with its state.
pub(crate) trait Arbiter<S: PortSet, L: Lanes>: std::fmt::Debug + Sized {
    /// Called when a packet for a lane of an output has become the head of a queue at an input.
    fn ask(switch: &mut QueuedSwitch<S, L, Self>, ctx: &mut Context, lane: PortVl, input: Port);

    /// Called when an output is free or credit has returned.
    fn wake(switch: &mut QueuedSwitch<S, L, Self>, ctx: &mut Context, output: Port);

    /// Sends the packets that `output` can send now. An arbiter with one read port per input decides for all
    /// outputs of the switch together.
    fn settle(switch: &mut QueuedSwitch<S, L, Self>, ctx: &mut Context, output: Port);

    /// Called when a notification occupies an output's link.
    fn note_sending(&mut self, _output: Port) {}

    /// The inputs to which a free output will probably give its turn.
    fn likely(&self, _lane: PortVl, requests: S) -> S {
        requests
    }

    /// Prefetches the state of an input.
    fn prefetch_input(&self, _input: Port) {}
}

/// A packet that an output may send because it is at the head of a queue.
#[derive(Debug, Clone, Copy, Saved)]
pub(super) struct QueueHead {
    pub queue: QueueId,
    id: PacketId,
    dst: u32,
    size: u32,
}

/// The effect of sending a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Served {
    /// The time at which the packet's input may be read again.
    pub read_until: Time,
    /// The time at which the packet's output becomes free.
    pub end: Time,
    /// Bytes that remain queued for the packet's lane of the output.
    pub left: u32,
}

/// A lane of an output, and the channel on which the output sends.
#[derive(Debug, Clone, Copy)]
pub(super) struct LaneOnLink {
    pub lane: PortVl,
    pub vl: Vl,
    pub channel: ChannelId,
}

/// Returns the queue of an input that an output lane may serve, if there is credit on the output's channel.
/// With divided memory, queues whose packets lack credit are moved to a separate list, so that other queues
/// can send. The error is the space for which the packet lacks credit, or 0 if no queue may send.
#[inline(always)]
pub(super) fn candidate<S: PortSet, L: Lanes>(
    ctx: &mut Context,
    buffers: &mut Buffers<S, L>,
    LaneOnLink { lane, vl, channel }: LaneOnLink,
    input: Port,
) -> Result<QueueHead, u32> {
    loop {
        let queue = buffers.front(lane, input, ctx.now).ok_or(0u32)?;
        let Some(id) = buffers.head(queue) else {
            ctx.report_broken("an empty queue has a turn at an output".into());
            // The output waits, instead of trying the same queue again.
            return Err(u32::MAX);
        };
        let Packet { dst, size, space, .. } = ctx.packets[id];
        // The header of a packet that was trimmed here occupies no memory. An error of 0 would mean that there is no
        // packet.
        let space = space.max(1);
        let way = CreditWay { channel, vl, dst };
        if !ctx.links.is_divided() {
            let has_credit = ctx.has_credit_or_wait(way, space);
            return if has_credit { Ok(QueueHead { queue, id, dst, size }) } else { Err(space) };
        }
        let ledger = if buffers.relays { ctx.packets.ledger(id) } else { NO_LEDGER };
        if ctx.has_credit_or_wait_behind(ledger, way, space) {
            return Ok(QueueHead { queue, id, dst, size });
        }
        buffers.park(queue);
    }
}

// `repr(C)` keeps this order in memory, starting at the beginning of a cache line. The first eight lines contain
// everything that each packet uses.
#[derive(Debug, Saved)]
#[repr(C, align(64))]
pub(crate) struct QueuedSwitch<S: PortSet, L: Lanes, A> {
    /// Rate of an input's read port, if it differs from the rate of the link.
    crossbar: Option<Box<BytePace>>,
    pub ports: Ports,
    pub arbiter: A,
    pub buffers: Buffers<S, L>,
}

impl<S: PortSet, L: Lanes, A: Arbiter<S, L>> QueuedSwitch<S, L, A> {
    pub fn new(ports: Ports, mut buffers: Buffers<S, L>, arbiter: A, crossbar: Option<BytePace>) -> Self {
        // Relays store routes, so they require routes that do not change.
        buffers.relays = buffers.is_per_destination() && !ports.stores_routes();
        Self { ports, buffers, arbiter, crossbar: crossbar.map(Box::new) }
    }

    /// Reports buffer changes to the marking rule, the arbiter and the neighbors.
    #[inline]
    pub(super) fn spread(&mut self, ctx: &mut Context) {
        if !self.buffers.changes.is_empty() {
            self.spread_all(ctx);
        }
    }

    #[inline(never)]
    fn spread_all(&mut self, ctx: &mut Context) {
        if let Some(what) = self.buffers.changes.take_broken() {
            ctx.report_broken(format!("switch {}: {what}", self.ports.node));
        }
        self.mark_moved(ctx);
        for at in 0..self.buffers.changes.asked().len() {
            let (lane, input) = self.buffers.changes.asked()[at];
            A::ask(self, ctx, lane, input);
        }
        self.send_notices(ctx);
        self.buffers.changes.clear();
    }

    /// Reports packets that have moved between queues to the marking rule.
    fn mark_moved(&mut self, ctx: &mut Context) {
        while let Some(moved) = self.buffers.changes.moved().pop() {
            let lane = self.buffers.lane(moved.output, moved.vl);
            let sum = self.buffers.sum(lane);
            if self.ports.watches_queue(lane, sum) {
                self.fill_matters(ctx, moved, sum);
            }
        }
    }

    /// Sends the notifications that are due. They precede all packets that have not started.
    fn send_notices(&mut self, ctx: &mut Context) {
        // Without special queues, there are none.
        let Some(cams) = &self.buffers.cams else { return };
        for (port, notice) in self.buffers.changes.notices().drain(..) {
            let Some(wiring) = self.ports.wiring[port.index()] else {
                let node = self.ports.node;
                ctx.report_broken(format!(
                    "switch {node} has a CAM line for its unwired port {}",
                    port.number()
                ));
                continue;
            };
            let class = if wiring.faces_host { Class::HostNotice } else { Class::SwitchNotice };
            let bytes = cams.wire_size(&notice.message);
            ctx.notify(wiring.out, class, Word::Line(notice), bytes);
            self.arbiter.note_sending(port);
        }
    }

    /// Reports a change of a queue's size to a marking rule that watches the queue.
    #[inline(never)]
    fn fill_matters(&mut self, ctx: &mut Context, changed: Moved, sum: u32) {
        let Moved { input, output, vl, dst } = changed;
        let fill = || {
            let open = ctx.links.relay_queue_of(CreditWay { channel: self.ports.feeder(input), vl, dst });
            QueueFill { input, bytes: self.buffers.telling_bytes(Passage { input, output, vl }, dst, open) }
        };
        let queue = self.ports.marking.marker.needs_queues().then(fill);
        let inputs = self.buffers.requests(self.buffers.lane(output, vl)).widen();
        let change = QueueChange { now: ctx.now, queue, queue_bytes: sum, inputs };
        self.ports.queue_changed(ctx, output, vl, &change);
    }

    /// Sends the packet at the head of a queue.
    #[inline(always)]
    pub(super) fn serve(
        &mut self,
        ctx: &mut Context,
        Passage { input, output, vl }: Passage,
        QueueHead { queue, id, dst, size }: QueueHead,
    ) -> Served {
        let left = self.buffers.take(&mut ctx.packets, ctx.now, queue, output);
        if self.buffers.relays
            && self.buffers.head(queue).is_none()
            && self.buffers.has_own_queue(ctx.packets[id].kind())
        {
            ctx.links.close_relay(ctx.packets.ledger(id));
        }
        if self.ports.watches_queue(self.buffers.lane(output, vl), left) {
            self.fill_matters(ctx, Moved { input, output, vl, dst }, left);
        }
        let read =
            self.crossbar.as_ref().map(|pace| (ctx.now + pace.time(size)).max(ctx.packets[id].tail_lag));
        self.ports.departs(ctx, output, id, OutputFill::of_queues(left));
        self.ports.note_lane(output, vl, size);
        let end = self.ports.transmit(ctx, id, input, output, read);
        Served { read_until: read.unwrap_or(end), end, left }
    }
}

impl<S: PortSet, L: Lanes, A: Arbiter<S, L>> Architecture for QueuedSwitch<S, L, A> {
    #[inline(always)]
    fn ports(&self) -> &Ports {
        &self.ports
    }

    #[inline(always)]
    fn ports_mut(&mut self) -> &mut Ports {
        &mut self.ports
    }

    fn cams(&self) -> Option<&Cams> {
        self.buffers.cams.as_ref()
    }

    /// If an input is read faster than it is filled, replaces the packet's tail lag by the time at which its tail has
    /// arrived, because reading cannot end earlier.
    fn note_tail(&mut self, ctx: &mut Context, input: Port, id: PacketId) {
        if self.crossbar.is_some() {
            self.ports.note_tail(ctx, input, id);
        }
    }

    fn waiting_bytes(&self, output: Port, vl: Vl) -> u32 {
        self.buffers.sum(self.buffers.lane(output, vl))
    }

    #[inline(never)]
    fn enqueue(&mut self, ctx: &mut Context, input: Port, id: PacketId) {
        let packet = &ctx.packets[id];
        let (vl, dst) = (packet.vl, packet.dst);
        let output = self.ports.route_of(packet);
        let ledger = if self.buffers.relays { ctx.packets.ledger(id) } else { NO_LEDGER };
        let stored = if ledger != NO_LEDGER && self.buffers.has_own_queue(packet.kind()) {
            let queue = ctx.links.relay_queue(ledger).unwrap_or_else(|| {
                let queue = self.buffers.open_queue(input, vl);
                ctx.links.open_relay(ledger, queue);
                queue
            });
            self.buffers.store_in(queue, &mut ctx.packets, ctx.now, (input, output), id)
        } else {
            self.buffers.store(&mut ctx.packets, ctx.now, input, output, id)
        };
        let lane = self.buffers.lane(output, vl);
        let sum = self.buffers.sum(lane);
        self.ports.arrives(ctx, output, id, sum);
        if self.ports.watches_queue(lane, sum) {
            self.fill_matters(ctx, Moved { input, output, vl, dst }, sum);
        }
        match stored {
            Stored::Behind => {}
            Stored::First => A::ask(self, ctx, lane, input),
            Stored::Otherwise => self.spread(ctx),
        }
    }

    /// Called when an output is free or credit has returned.
    fn wake(&mut self, ctx: &mut Context, output: Port) {
        if ctx.links.is_divided() {
            let of_output = output.with_lanes(self.buffers.lanes());
            of_output.for_each(|lane| self.buffers.unpark(&ctx.packets, ctx.now, lane));
            self.buffers.changes.asked().clear();
        }
        A::wake(self, ctx, output);
    }

    /// Sends the packets that an output or, with iSLIP, any output of the switch can send now.
    fn settle(&mut self, ctx: &mut Context, output: Port) {
        A::settle(self, ctx, output);
    }

    /// Handles a notification from the next node about one of its CAM lines.
    fn notice(&mut self, ctx: &mut Context, port: Port, notice: Notice) {
        self.buffers.received(&mut ctx.packets, ctx.now, port, notice);
        self.spread(ctx);
    }

    /// Called when a notification occupies an output's link.
    fn note_sending(&mut self, output: Port) {
        self.arbiter.note_sending(output);
    }

    fn queued_bytes(&self, output: Port) -> u32 {
        output.with_lanes(self.buffers.lanes()).map(|lane| self.buffers.sum(lane)).sum()
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
        prefetch_lines::<_, 8>(std::slice::from_ref(self), 0);
    }

    /// Queues and ledgers are found through relays, other data through the forwarding table, which is in a nearby cache.
    fn prefetches_in_steps(&self) -> bool {
        self.buffers.relays
    }

    #[inline]
    fn prefetch_route(&self, ctx: &Context, _input: Port, id: PacketId) {
        self.ports.prefetch_route(&ctx.packets[id]);
        ctx.links.prefetch_relay(ctx.packets.ledger(id));
    }

    #[inline]
    fn prefetch_output(&self, output: Port) {
        self.buffers.prefetch_output(self.buffers.lane(output, Vl::FIRST));
    }

    #[inline]
    fn prefetch_arrival(&self, ctx: &Context, input: Port, id: PacketId) {
        let packet = &ctx.packets[id];
        let (output, vl) = (self.ports.route_of(packet), packet.vl);
        if output.index() >= self.ports.count() {
            return;
        }
        let lane = self.buffers.lane(output, vl);
        let ledger = if self.buffers.relays { ctx.packets.ledger(id) } else { NO_LEDGER };
        let open = if ledger == NO_LEDGER { None } else { ctx.links.relay_queue(ledger) };
        self.buffers.prefetch(input, vl, output, packet.dst, open);
        self.ports.marking.marker.prefetch(lane.index());
        self.arbiter.prefetch_input(input);
        ctx.links.prefetch_channel(self.ports.out(output));
        if ledger != NO_LEDGER {
            let next = CreditWay { channel: self.ports.out(output), vl, dst: packet.dst };
            return ctx.links.prefetch_ledgers(ledger, next);
        }
        self.ports.prefetch_credit(ctx, (input, output), packet);
    }

    #[inline]
    fn prefetch_wake(&self, ctx: &Context, output: Port) {
        let lane = self.buffers.lane(output, Vl::FIRST);
        ctx.links.prefetch_lane(self.ports.out(output), Vl::FIRST);
        self.ports.marking.marker.prefetch(lane.index());
        let requests = self.buffers.requests(lane);
        let next = self.arbiter.likely(lane, requests).next(self.buffers.turn(lane).input);
        let Some(input) = next else { return };
        if let Some(id) = self.buffers.first_packet(lane, input, ctx.now) {
            ctx.packets.prefetch(id);
        }
        ctx.links.prefetch_lane(self.ports.feeder(input), Vl::FIRST);
    }
}
