//! Hosts with a single source that always has data to send, and without a reaction or another component that
//! needs flows. They have one message at a time and need no arbitration.

use silvan_engine::Time;
use silvan_network::traffic::source::{Chooser, Clock, Message, Source};

use super::Host;
use crate::context::Context;
use crate::link::CreditWay;
use crate::packet::FlowAddress;

impl Host {
    /// Whether this host never has more than one message to send.
    pub fn is_solo(&self) -> bool {
        let is_simple = |source: &Source| {
            matches!(source.clock, Clock::Saturating)
                && !matches!(source.chooser, Chooser::Forest(_))
                && !source.has_own_flows()
        };
        let is_free = self.reactor.is_none() && self.announcer.is_none() && self.hours.is_none();
        let is_free = is_free && self.adapter.is_none() && self.order.is_none() && !self.has_units;
        let is_free = is_free && self.arbiter.is_none() && self.shared.is_none();
        is_free && matches!(&*self.sources, [source] if is_simple(source))
    }

    /// Sends a packet if possible, and schedules the next attempt.
    pub(super) fn settle_solo(&mut self, ctx: &mut Context, blocked_lanes: u16) {
        let is_turn = self.takes_turns(ctx);
        if let Some(next) = self.attempt_solo(ctx, blocked_lanes, is_turn) {
            self.plan_turn(ctx, next);
        }
    }

    /// Sends the next packet of the current message, after generating a message if there is none. Returns the
    /// time of the next attempt; `None` if there are no more messages, or if a wake-up follows. A turn needs no
    /// wake-up for credit that is on its way.
    #[inline]
    pub(super) fn attempt_solo(
        &mut self,
        ctx: &mut Context,
        blocked_lanes: u16,
        is_turn: bool,
    ) -> Option<Time> {
        let message = match self.on_hand.take() {
            Some(message) => message,
            None => {
                let source = &mut self.sources[0];
                let due = source.next_draw(ctx.now)?;
                if due > ctx.now {
                    return Some(due);
                }
                let message = source.draw(ctx.now);
                let flow = FlowAddress { host: self.id, source: 0, destination: message.destination };
                ctx.meters.generated(source.class, flow, message.left, message.created);
                message
            }
        };
        let Message { destination, left, .. } = message;
        let vl = self.lane(0, destination);
        let payload = left.min(u64::from(self.sizes.mtu)) as u32;
        let size = payload + self.sizes.header;
        let way = CreditWay { channel: self.out, vl, dst: destination };
        let space = self.sizes.space(size);
        let is_blocked = blocked_lanes >> vl.0 & 1 == 1;
        if is_blocked || !ctx.links.has_credit(way, space, ctx.now) {
            self.on_hand = Some(message);
            return if is_blocked { None } else { wait_for_credit(ctx, (way, space), is_turn) };
        }
        let left = left - u64::from(payload);
        let packet = self.data_packet(ctx.now, 0, &message, payload, left == 0, vl);
        ctx.meters.injected(&packet);
        let id = ctx.packets.insert(packet);
        self.inject(ctx, size);
        let end = ctx.send(self.out, id);
        if left == 0 {
            self.sources[0].finished(&message);
            self.injection.free_at += self.message_overhead;
        } else {
            self.on_hand = Some(Message { left, ..message });
        }
        Some(end.max(self.injection.free_at))
    }
}

/// Waits for the credit of a packet. In a turn, returns the time at which credit arrives that is on its way;
/// otherwise, a wake-up follows.
#[inline(never)]
fn wait_for_credit(ctx: &mut Context, (way, space): (CreditWay, u32), is_turn: bool) -> Option<Time> {
    if is_turn {
        return ctx.links.expect_credit(way, space);
    }
    ctx.links.wait_for_credit(way, space, &mut ctx.queue);
    None
}
