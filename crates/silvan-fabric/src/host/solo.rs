//! A host without a reaction, with a single source that always has data to send. It has one message at a time, so it
//! needs neither flows nor arbitration among them.

use super::{Attempt, Host};
use crate::context::Context;
use crate::traffic::source::{Chooser, Clock, Message, Source};

impl Host {
    /// Whether this host never has more than one message to send.
    pub(super) fn is_solo(&self) -> bool {
        let is_simple = |source: &Source| {
            matches!(source.clock, Clock::Saturating) && !matches!(source.chooser, Chooser::Forest(_))
        };
        let is_free = self.reactor.is_none() && self.announcer.is_none();
        let is_free = is_free && self.adapter.is_none() && self.order.is_none();
        is_free && matches!(&*self.sources, [source] if is_simple(source))
    }

    /// Sends a packet if possible, and schedules the next wake-up.
    pub(super) fn settle_solo(&mut self, ctx: &mut Context, blocked_lanes: u16) {
        let now = ctx.now;
        let next = match self.send_solo(ctx, blocked_lanes) {
            // Returning credit wakes the host.
            Attempt::Blocked => return,
            Attempt::Sent if self.on_hand.is_some() || !self.control.is_empty() => Some(now),
            Attempt::Sent => self.sources[0].next_draw(now),
            Attempt::Idle => self.sources[0].next_draw(now).filter(|next| *next > now),
        };
        if let Some(next) = next {
            ctx.wake(self.out, next.max(ctx.free_at(self.out)).max(self.injection.free_at));
        }
    }

    /// Sends the next packet of the current message, after generating a message if there is none.
    fn send_solo(&mut self, ctx: &mut Context, blocked_lanes: u16) -> Attempt {
        let message = match self.on_hand.take() {
            Some(message) => message,
            None => {
                let source = &mut self.sources[0];
                if !source.wants_to_draw(ctx.now) {
                    return Attempt::Idle;
                }
                let message = source.draw(ctx.now);
                ctx.meters.generated(source.class, message.left);
                message
            }
        };
        let Message { destination, left, .. } = message;
        let vl = self.lane(0, destination);
        let payload = left.min(u64::from(self.sizes.mtu)) as u32;
        let size = payload + self.sizes.header;
        if blocked_lanes >> vl.0 & 1 == 1
            || !ctx.has_credit_or_wait((self.out, vl, destination), self.sizes.space(size))
        {
            self.on_hand = Some(message);
            return Attempt::Blocked;
        }
        let left = left - u64::from(payload);
        let packet = self.data_packet(ctx.now, 0, &message, payload, left == 0, vl);
        ctx.meters.injected(&packet);
        let id = ctx.packets.insert(packet);
        self.injection.pass(ctx.now, size);
        ctx.send(self.out, id);
        if left == 0 {
            self.sources[0].finished(&message);
            self.injection.free_at += self.message_overhead;
        } else {
            self.on_hand = Some(Message { left, ..message });
        }
        Attempt::Sent
    }
}
