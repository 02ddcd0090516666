//! Hosts that select the virtual lane of the next packet by tables with weights ([`crate::lane_tables`]). On each lane,
//! control packets precede data.

use silvan_network::port::Vl;

use super::{Attempt, Host};
use crate::context::Context;
use crate::lane_tables::LaneSequence;

impl Host {
    /// Records that the host sends a packet of `bytes` on a lane.
    #[inline]
    pub(super) fn note_lane(&mut self, vl: Vl, bytes: u32) {
        if let Some(arbiter) = &mut self.arbiter {
            arbiter.served(0, vl, bytes);
        }
    }

    /// The mask of all lanes except one.
    fn other_lanes(&self, vl: Vl) -> u16 {
        ((1u32 << self.lanes) - 1) as u16 & !(1 << vl.0)
    }

    /// Sends a control packet of one lane. Returns whether a packet was sent.
    fn send_control_on(&mut self, ctx: &mut Context, vl: Vl) -> bool {
        let mut others = self.other_lanes(vl);
        let is_sent = !self.control.is_empty() && self.send_control(ctx, &mut others);
        if is_sent {
            self.note_lane(vl, self.sizes.control);
        }
        is_sent
    }

    /// Same as [`Host::send_if_possible`], for a host without an output buffer whose link is free.
    pub(super) fn send_by_tables(&mut self, ctx: &mut Context) {
        let attempt = loop {
            match self.attempt_lanes(ctx) {
                // Sources may generate other messages instead of those that were just throttled.
                Attempt::Idle if self.drawing().any(|source| source.wants_to_draw(ctx.now)) => {}
                attempt => break attempt,
            }
        };
        // The messages just generated may have added announcements or requests.
        if attempt == Attempt::Sent || self.send_control_by_tables(ctx) {
            return self.plan_wake(ctx, Attempt::Sent);
        }
        if !self.control.is_empty() && self.control.passes_at() > ctx.now {
            // Data waits at least as long.
            ctx.wake(self.out, self.control.passes_at());
        } else if self.injection.free_at > ctx.now {
            ctx.wake(self.out, self.injection.free_at);
        } else {
            self.plan_wake(ctx, attempt);
        }
    }

    /// Tries the lanes one after the other, until a packet is sent.
    fn attempt_lanes(&mut self, ctx: &mut Context) -> Attempt {
        let mut attempt = Attempt::Blocked;
        for vl in self.sequence() {
            if self.control.passes_at() <= ctx.now && self.send_control_on(ctx, vl) {
                return Attempt::Sent;
            }
            // Data stays behind control packets of its lane.
            if self.control.waits_on(vl) || self.injection.free_at > ctx.now {
                continue;
            }
            match self.draw_and_send(ctx, self.other_lanes(vl)) {
                Attempt::Sent => return Attempt::Sent,
                Attempt::Idle => attempt = Attempt::Idle,
                Attempt::Blocked => {}
            }
        }
        attempt
    }

    fn send_control_by_tables(&mut self, ctx: &mut Context) -> bool {
        self.control.passes_at() <= ctx.now && self.sequence().any(|vl| self.send_control_on(ctx, vl))
    }

    /// Same as [`Host::send_buffered`], for a host whose link is free.
    pub(super) fn send_buffered_by_tables(&mut self, ctx: &mut Context) -> bool {
        self.sequence().any(|vl| self.send_control_on(ctx, vl) || self.send_buffered_on(ctx, vl))
    }

    /// The lanes in the order in which the host tries them; none if it has no tables.
    fn sequence(&self) -> LaneSequence {
        self.arbiter.as_ref().map(|arbiter| arbiter.sequence(0)).unwrap_or_default()
    }
}
