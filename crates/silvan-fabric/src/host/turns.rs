//! The turns of hosts in the binned scheduler. A host that never has more than one message to send takes
//! turns instead of wake-ups: like an output, it attempts to send when its link is free and its credit has
//! returned. In each bin, turns follow the events of the bin. A host that handles an event first takes its
//! earlier turns.

use silvan_engine::Time;
use silvan_engine::bins::UNSCHEDULED;
use silvan_engine::cache::prefetch_lines;
use silvan_engine::saved::Saved;
use silvan_network::port::Vl;

use super::Host;
use crate::context::Context;
use crate::link::CreditWay;

/// How many turns in advance a host is prefetched.
const AHEAD: usize = 4;
/// How many turns in advance the memory that a host refers to is prefetched.
const SOON: usize = 2;

/// The next turn of a host.
#[derive(Debug, Saved)]
pub(super) struct HostTurn {
    /// `Time::NEVER` if the host waits for a wake-up.
    pub at: Time,
    /// The slot in which the host is scheduled.
    slot: u16,
}

impl Default for HostTurn {
    fn default() -> Self {
        Self { at: Time::NEVER, slot: UNSCHEDULED }
    }
}

/// Takes the turns of the current bin before a time.
#[inline]
pub(crate) fn take_turns(ctx: &mut Context, hosts: &mut [Host], before: Time) {
    let Some(turns) = &mut ctx.turns else { return };
    let mut due = std::mem::take(&mut turns.due);
    turns.bins.take(&mut due);
    let (now, prefetches) = (ctx.now, turns.prefetches);
    for (at, &place) in due.iter().enumerate() {
        if prefetches {
            if let Some(&next) = due.get(at + AHEAD) {
                prefetch_lines::<_, 5>(hosts, next as usize);
            }
            if let Some(&next) = due.get(at + SOON) {
                hosts[next as usize].prefetch_turn(ctx);
            }
        }
        hosts[place as usize].take_scheduled(ctx, before);
    }
    ctx.now = now;
    due.clear();
    if let Some(turns) = &mut ctx.turns {
        turns.due = due;
    }
}

impl Host {
    /// Prefetches the data that a turn will use.
    #[inline]
    fn prefetch_turn(&self, ctx: &Context) {
        prefetch_lines::<_, 2>(&self.sources, 0);
        ctx.links.prefetch_lane(self.out, Vl::FIRST);
        ctx.links.prefetch_channel(self.out);
    }

    #[inline]
    fn take_scheduled(&mut self, ctx: &mut Context, before: Time) {
        if ctx.turns.as_ref().is_some_and(|turns| turns.bins.is_due(self.turn.slot)) {
            self.take_turns(ctx, before);
            if let Some(turns) = &mut ctx.turns {
                turns.bins.schedule_again(self.place, self.turn.at, &mut self.turn.slot);
            }
        }
    }

    /// Takes the turns of this host before a time.
    #[inline]
    pub(super) fn take_turns(&mut self, ctx: &mut Context, before: Time) {
        while self.turn.at < before {
            ctx.now = self.turn.at;
            // Control packets in the outbox have been added after this turn.
            self.turn.at = self.attempt_solo(ctx, 0, true).unwrap_or(Time::NEVER);
        }
    }

    /// Takes the turns before this instant. The caller plans the next attempt.
    pub(super) fn end_turns(&mut self, ctx: &mut Context) {
        let now = ctx.now;
        self.take_turns(ctx, now);
        ctx.now = now;
        let at = std::mem::replace(&mut self.turn.at, Time::NEVER);
        if at < Time::NEVER
            && let Some(message) = self.on_hand
        {
            let destination = message.destination;
            let way = CreditWay { channel: self.out, vl: self.lane(0, destination), dst: destination };
            ctx.links.forget_expected(way, at);
        }
    }

    /// Whether the next attempt to send is a turn. A host with control packets to send waits for wake-ups.
    #[inline]
    pub(super) fn takes_turns(&self, ctx: &Context) -> bool {
        ctx.turns.is_some() && self.control.is_empty()
    }

    /// Schedules the next attempt to send.
    #[inline]
    pub(super) fn plan_turn(&mut self, ctx: &mut Context, time: Time) {
        match &mut ctx.turns {
            Some(turns) if self.control.is_empty() => {
                self.turn.at = time;
                turns.bins.schedule(self.place, time, &mut self.turn.slot);
            }
            _ => ctx.wake(self.out, time),
        }
    }
}
