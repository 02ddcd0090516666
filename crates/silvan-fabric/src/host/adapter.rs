//! The output buffer of a host's adapter (Paper V, III.B; Paper VI, 3.2).
//!
//! ```text
//!  flows (one queue per destination) -> arbiter -> normal queues  -> link
//!                                                  special queues ->
//! ```
//!
//! The arbiter moves one packet at a time, at the injection rate. It selects among the flows that the
//! reaction permits to send and whose destination no CAM line has stopped. If the injection rate includes
//! control packets, these move first, one at a time, and wait for the link outside the buffer. The buffer is a node with one
//! input and one output; see [`crate::queueing`].

use rustc_hash::{FxHashMap, FxHashSet};
use silvan_engine::saved::Saved;
use silvan_network::port::{ManyLanes, Port, PortVl, Vl};
use silvan_network::port_set::Ports64;
use silvan_network::traffic::source::Message;

use super::{Attempt, Host, PacketSizes};
use crate::context::Context;
use crate::link::CreditWay;
use crate::message::Word;
use crate::packet::Contents;
use crate::queueing::Organisation;
use crate::queueing::buffers::Buffers;
use crate::queueing::isolation::Cams;

/// Maximum number of virtual lanes.
const MOST_LANES: usize = 16;

#[derive(Debug, Saved)]
pub(crate) struct Adapter {
    pub buffers: Buffers<Ports64, ManyLanes>,
    #[saved(constant)]
    organisation: Organisation,
    /// Capacity of one part of the buffer on one virtual lane, in bytes. A part is the whole buffer or, if
    /// memory is divided, one queue's share.
    #[saved(constant)]
    part: u32,
    /// Bytes in use per virtual lane, if the memory is not divided.
    whole: [u32; MOST_LANES],
    /// Bytes in use per virtual lane and share, if the memory is divided.
    shares: FxHashMap<(Vl, u32), u32>,
    lane_turn: Vl,
    /// The virtual lanes of all messages that have been expected, one bit each.
    lanes_in_use: u16,
    /// The smallest payload of a packet of these messages, in bytes; `u32::MAX` without messages.
    least_payload: u32,
    /// The shares of divided memory that have refused a packet since all held flows were last tried.
    #[saved(scratch)]
    refusing: FxHashSet<(Vl, u32)>,
}

impl Adapter {
    pub fn new(buffers: Buffers<Ports64, ManyLanes>, organisation: Organisation, part: u32) -> Self {
        Self {
            buffers,
            organisation,
            part,
            whole: [0; MOST_LANES],
            shares: FxHashMap::default(),
            lane_turn: Vl::FIRST,
            lanes_in_use: 0,
            least_payload: u32::MAX,
            refusing: FxHashSet::default(),
        }
    }

    /// Records that the buffer has refused a packet.
    pub fn note_refusal(&mut self, vl: Vl, dst: u32) {
        if self.organisation != Organisation::Single {
            self.refusing.insert(self.place(vl, dst));
        }
    }

    /// Forgets which packets the buffer has refused.
    pub fn clear_refusals(&mut self) {
        self.refusing.clear();
    }

    /// Whether the buffer may admit a packet that it has refused, after a packet for `dst` has left.
    fn may_admit_refused(&self, vl: Vl, dst: u32, sizes: &PacketSizes) -> bool {
        let least = sizes.space(self.least_payload.saturating_add(sizes.header));
        let has_room = self.used(vl, dst).saturating_add(least) <= self.part;
        has_room
            && (self.organisation == Organisation::Single || self.refusing.contains(&self.place(vl, dst)))
    }

    fn place(&self, vl: Vl, dst: u32) -> (Vl, u32) {
        let part = match self.organisation {
            Organisation::PerDestination => dst,
            organisation => organisation.index(Port::FIRST, dst) as u32,
        };
        (vl, part)
    }

    /// Bytes in use in the part of the memory for a destination.
    #[inline]
    fn used(&self, vl: Vl, dst: u32) -> u32 {
        if self.organisation == Organisation::Single {
            return self.whole[vl.index() % MOST_LANES];
        }
        self.shares.get(&self.place(vl, dst)).copied().unwrap_or(0)
    }

    /// Whether the buffer has room for a packet of `space` bytes, and no CAM line stops the packet's
    /// destination.
    pub fn admits(&self, vl: Vl, dst: u32, space: u32) -> bool {
        let used = self.used(vl, dst);
        let stopped = self.buffers.cams.as_ref().is_some_and(|cams| cams.stops(PortVl::of_host(vl), dst));
        used + space <= self.part && !stopped
    }

    /// Accounts for a message of the host. Each packet of the message has a payload of at least `least`
    /// bytes.
    pub fn expect(&mut self, vl: Vl, least: u32) {
        self.lanes_in_use |= 1 << vl.0;
        self.least_payload = self.least_payload.min(least);
    }

    /// Whether the buffer has no room even for the smallest packet of the host's messages. False if memory is
    /// divided, and without messages.
    pub fn is_full(&self, sizes: &PacketSizes) -> bool {
        // Without messages, there is no smallest packet.
        if self.organisation != Organisation::Single || self.lanes_in_use == 0 {
            return false;
        }
        let least = sizes.space(self.least_payload.saturating_add(sizes.header));
        let mut lanes = self.lanes_in_use;
        while lanes != 0 {
            if self.whole[lanes.trailing_zeros() as usize % MOST_LANES] + least <= self.part {
                return false;
            }
            lanes &= lanes - 1;
        }
        true
    }

    /// Accounts for a packet that has entered the buffer.
    pub fn admit(&mut self, vl: Vl, dst: u32, space: u32) {
        if self.organisation == Organisation::Single {
            self.whole[vl.index() % MOST_LANES] += space;
            return;
        }
        *self.shares.entry(self.place(vl, dst)).or_default() += space;
    }

    fn left(&mut self, vl: Vl, dst: u32, space: u32) {
        if self.organisation == Organisation::Single {
            self.whole[vl.index() % MOST_LANES] -= space;
            return;
        }
        let place = self.place(vl, dst);
        if let Some(used) = self.shares.get_mut(&place) {
            *used -= space;
            if *used == 0 {
                self.shares.remove(&place);
            }
        }
    }
}

impl Host {
    /// Clears the recorded changes of the output buffer after a step, and reports an inconsistency among
    /// them.
    #[inline]
    pub(super) fn end_changes(&mut self, ctx: &mut Context) {
        if let Some(adapter) = &mut self.adapter
            && !adapter.buffers.changes.is_empty()
        {
            if let Some(what) = adapter.buffers.changes.take_broken() {
                ctx.report_broken(format!("output buffer of host {}: {what}", self.id));
            }
            adapter.buffers.changes.clear();
        }
    }

    /// Accounts for a message of a source that will pass through the output buffer.
    pub(super) fn expect(&mut self, source: usize, message: &Message) {
        let vl = self.lane(source, message.destination);
        let rest = (message.left % u64::from(self.sizes.mtu)) as u32;
        let least = if rest == 0 && message.left > 0 { self.sizes.mtu } else { rest };
        if let Some(adapter) = &mut self.adapter {
            adapter.expect(vl, least);
        }
    }

    /// The CAM of the output buffer, if there is one.
    pub fn cams(&self) -> Option<&Cams> {
        self.adapter.as_ref().and_then(|adapter| adapter.buffers.cams.as_ref())
    }

    /// Handles a notification from the neighboring switch about a CAM line, or a report of a switch that has
    /// marked a packet.
    pub fn notice(&mut self, ctx: &mut Context, id: u32) {
        let notice = match ctx.notices.take(id) {
            Some(Word::Line(notice)) => notice,
            Some(Word::Report(report)) => return self.reported(ctx, report),
            None | Some(Word::Signal(..)) => {
                return ctx.report_broken(format!("notification {id} has arrived twice at host {}", self.id));
            }
        };
        if let Some(adapter) = &mut self.adapter {
            adapter.buffers.received(&mut ctx.packets, ctx.now, Port::FIRST, notice);
            self.end_changes(ctx);
            self.wake(ctx);
        }
    }

    /// Same as [`Host::settle`], for a host with an output buffer.
    pub(super) fn settle_adapter(&mut self, ctx: &mut Context) {
        self.move_control(ctx);
        let sent = self.send_buffered(ctx);
        let mut attempt = Attempt::Idle;
        if self.injection.free_at <= ctx.now {
            attempt = self.draw_and_send(ctx, 0);
        }
        // The messages just generated may have added announcements or requests.
        self.move_control(ctx);
        let wants = attempt == Attempt::Sent || !self.control.is_empty();
        if !sent && wants && self.send_buffered(ctx) && self.injection.free_at <= ctx.now {
            // The packet that left may have made room for a held flow.
            attempt = self.draw_and_send(ctx, 0);
        }
        let free_at = ctx.free_at(self.out);
        let waits = self.adapter.as_ref().is_some_and(|adapter| {
            Port::FIRST.with_lanes(self.lanes.into()).any(|vl| adapter.buffers.sum(vl) > 0)
        });
        if (waits || !self.control.is_empty()) && free_at > ctx.now {
            ctx.wake(self.out, free_at);
        }
        if self.control.has_unmoved() && self.control.passes_at() > ctx.now {
            ctx.wake(self.out, self.control.passes_at());
        }
        // A ready flow only waits for its turn. A held flow may have received room or permission when another
        // packet moved.
        let waits = self.flows.ready() > 0 || self.flows.has_held();
        let next = if waits { Some(ctx.now) } else { self.next_attempt(ctx, attempt) };
        if let Some(next) = next.map(|next| next.max(self.injection.free_at))
            && next > ctx.now
        {
            ctx.wake(self.out, next);
        }
    }

    /// Puts a packet on the link if the link is free: a control packet, or a packet from the buffer. Returns
    /// whether a packet was sent.
    fn send_buffered(&mut self, ctx: &mut Context) -> bool {
        if ctx.free_at(self.out) > ctx.now {
            return false;
        }
        if self.arbiter.is_some() {
            return self.send_buffered_by_tables(ctx);
        }
        if !self.control.is_empty() && self.send_control(ctx, &mut 0) {
            return true;
        }
        let turn = self.adapter.as_ref().map_or(Vl::FIRST, |adapter| adapter.lane_turn);
        turn.in_turn(self.lanes.into()).any(|vl| self.send_buffered_on(ctx, vl))
    }

    /// Puts a packet of one lane from the buffer on the link, which is free. Returns whether a packet was sent.
    pub(super) fn send_buffered_on(&mut self, ctx: &mut Context, vl: Vl) -> bool {
        let (id, out, lanes) = (self.id, self.out, usize::from(self.lanes));
        let Some(adapter) = &mut self.adapter else {
            ctx.report_broken(format!("host {id} has no output buffer to send from"));
            return false;
        };
        let output = PortVl::of_host(vl);
        adapter.buffers.unpark(&ctx.packets, ctx.now, output);
        while let Some(queue) = adapter.buffers.front(output, Port::FIRST, ctx.now) {
            let Some(id) = adapter.buffers.head(queue) else {
                ctx.report_broken(format!("an empty queue in the output buffer of host {id} has a turn"));
                break;
            };
            let (dst, space) = (ctx.packets[id].dst, ctx.packets[id].space);
            if ctx.has_credit_or_wait(CreditWay { channel: out, vl, dst }, space) {
                adapter.buffers.take(&mut ctx.packets, ctx.now, queue, Port::FIRST);
                adapter.left(vl, dst, space);
                if adapter.may_admit_refused(vl, dst, &self.sizes) {
                    self.flows.may_be_admitted();
                }
                adapter.lane_turn = vl.after(lanes);
                let packet = &mut ctx.packets[id];
                let size = packet.size;
                if let Contents::Data { injected, .. } = &mut packet.contents {
                    *injected = ctx.now;
                    ctx.meters.injected(packet);
                }
                ctx.send(out, id);
                self.note_lane(vl, size);
                self.end_changes(ctx);
                return true;
            }
            if !ctx.links.is_divided() {
                break;
            }
            adapter.buffers.park(queue);
        }
        false
    }
}
