//! The turns of ports that share an injection limit ([`crate::shared_injection`]).

use super::{Attempt, Host};
use crate::context::Context;
use crate::shared_injection::SharedInjection;

impl Host {
    fn shared<'a>(&self, ctx: &'a Context) -> Option<&'a SharedInjection> {
        self.shared.map(|at| &ctx.shared_injection[at as usize])
    }

    /// Whether the port is the first one that waits, and the limit permits a packet.
    #[inline]
    pub(super) fn has_turn(&self, ctx: &Context) -> bool {
        let has = |shared: &SharedInjection| shared.first() == Some(self.out) && shared.free_at() <= ctx.now;
        self.shared(ctx).is_some_and(has)
    }

    /// Whether the limit permits a packet of this port now.
    #[inline]
    pub(super) fn may_inject(&self, ctx: &Context) -> bool {
        self.shared(ctx).is_none_or(|shared| {
            shared.free_at() <= ctx.now && shared.first().is_none_or(|first| first == self.out)
        })
    }

    /// Lets the port wait for its turn if it has data to send.
    #[inline(never)]
    pub(super) fn wait_for_turn(&mut self, ctx: &mut Context) {
        let Some(at) = self.shared else { return };
        self.release_held(ctx.now);
        self.generate(ctx);
        self.release_throttled(ctx.now);
        if self.flows.ready() == 0 && !self.flows.has_held() {
            return self.plan_wake(ctx, Attempt::Idle);
        }
        let shared = &mut ctx.shared_injection[at as usize];
        shared.wait(self.out, ctx.now);
        if shared.first() == Some(self.out) {
            let free_at = shared.free_at();
            ctx.wake(self.out, free_at);
        }
    }

    /// Passes the bytes of a packet of this port that starts now through the limit, and wakes the port whose turn is next.
    #[inline(never)]
    pub(super) fn inject_with_others(&mut self, ctx: &mut Context, at: u32, size: u32) {
        ctx.shared_injection[at as usize].pass(ctx.now, size);
        self.end_turn(ctx);
    }

    /// Ends the turn of this port, if it has one, and wakes the next one that waits.
    #[inline(never)]
    pub(super) fn end_turn(&mut self, ctx: &mut Context) {
        let Some(at) = self.shared else { return };
        let shared = &mut ctx.shared_injection[at as usize];
        let ended = shared.end_turn(self.out);
        let (next, free_at) = (shared.first(), shared.free_at());
        if let Some(since) = ended {
            self.note_injection_wait(since, ctx.now);
        }
        if let Some(next) = next {
            ctx.wake(next, free_at.max(ctx.now));
        }
    }

    /// Whether the port waits for its turn.
    pub(super) fn waits_for_turn(&self, ctx: &Context) -> bool {
        self.shared(ctx).is_some_and(|shared| shared.has_waiting(self.out))
    }
}
