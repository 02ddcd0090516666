//! Timers of a host's components: one per flow or service level for the reaction, and one for the receiver
//! component.
//!
//! After each call, a component returns the time at which it needs its timer. The host schedules an event for
//! the earliest of these times. No memory is allocated before the
//! first timer is armed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use silvan_congestion::reaction::{FlowRef, Reactor, StateLevel};
use silvan_engine::saved::Saved;
use silvan_engine::{Event, Time};
use silvan_network::port::Port;

use super::Host;
use crate::context::Context;
use crate::link::{Class, key};

/// The owner of a timer: the index of a flow or service level, or [`RECEIVER`].
type Owner = u32;

/// The owner of the receiver component's timer.
const RECEIVER: Owner = Owner::MAX;

#[derive(Debug, Default, Saved)]
pub(super) struct Timers {
    /// Ordered by time. An entry is valid only if its owner is armed for that time.
    entries: BinaryHeap<Reverse<(Time, Owner)>>,
    /// For each flow or service level, the time of its valid entry.
    armed: Vec<Option<Time>>,
    receiver: Option<Time>,
    /// The time of the earliest pending event.
    event: Option<Time>,
}

impl Timers {
    fn armed(&mut self, owner: Owner) -> &mut Option<Time> {
        if owner == RECEIVER {
            return &mut self.receiver;
        }
        let index = owner as usize;
        if self.armed.len() <= index {
            self.armed.resize(index + 1, None);
        }
        &mut self.armed[index]
    }

    /// Arms a timer, unless it is already armed for an earlier time.
    fn arm(&mut self, owner: Owner, time: Time) {
        let armed = self.armed(owner);
        if armed.is_none_or(|armed| time < armed) {
            *armed = Some(time);
            self.entries.push(Reverse((time, owner)));
        }
    }

    /// Disarms the timer of a flow whose state is removed.
    pub fn disarm(&mut self, owner: Owner) {
        *self.armed(owner) = None;
    }

    /// Removes and returns an owner whose timer has expired; `None` if no timer has expired.
    fn take(&mut self, now: Time) -> Option<Owner> {
        while let Some(&Reverse((time, owner))) = self.entries.peek()
            && time <= now
        {
            self.entries.pop();
            let armed = self.armed(owner);
            if *armed == Some(time) {
                *armed = None;
                return Some(owner);
            }
        }
        None
    }

    /// The time for which an event must be scheduled, recorded as scheduled; `None` if no other event is
    /// needed.
    fn missing_event(&mut self) -> Option<Time> {
        let &Reverse((time, _)) = self.entries.peek()?;
        let is_missing = self.event.is_none_or(|event| time < event);
        is_missing.then(|| *self.event.insert(time))
    }
}

impl Host {
    /// Arms the timer of a flow or its service level, if the reaction needs it.
    #[inline]
    pub(super) fn arm(&mut self, ctx: &mut Context, of: FlowRef) {
        if let Some(reactor) = &self.reactor
            && let Some(time) = reactor.next_timer(of)
        {
            let owner = match reactor.level() {
                StateLevel::Flow | StateLevel::Destination => of.flow,
                StateLevel::ServiceLevel => u32::from(of.sl),
            };
            self.arm_owner(ctx, owner, time);
        }
    }

    /// Arms the timer of the receiver component.
    #[inline(never)]
    pub(super) fn arm_responder(&mut self, ctx: &mut Context, time: Time) {
        self.arm_owner(ctx, RECEIVER, time);
    }

    #[inline(never)]
    fn arm_owner(&mut self, ctx: &mut Context, owner: Owner, time: Time) {
        self.timers.get_or_insert_default().arm(owner, time);
        self.plan_timers(ctx);
    }

    /// Schedules an event at the earliest time at which a timer may expire.
    fn plan_timers(&mut self, ctx: &mut Context) {
        if let Some(time) = self.timers.as_mut().and_then(|timers| timers.missing_event()) {
            let key = key(Class::HostTimer, self.place, Port::FIRST);
            ctx.queue.push(Event { time: time.max(ctx.now), key, data: 0 });
        }
    }

    /// Handles a timer event: expires all timers that are due.
    pub fn expire_timers(&mut self, ctx: &mut Context) {
        let now = ctx.now;
        if let Some(timers) = &mut self.timers
            && timers.event.is_some_and(|event| event <= now)
        {
            timers.event = None;
        }
        while let Some(owner) = self.timers.as_mut().and_then(|timers| timers.take(now)) {
            if owner == RECEIVER {
                self.expire_receiver(ctx);
            } else {
                self.expire(ctx, owner);
            }
        }
        self.plan_timers(ctx);
    }

    fn expire_receiver(&mut self, ctx: &mut Context) {
        if self.responder.next_timer().is_some_and(|time| time <= ctx.now) {
            self.respond_to_timer(ctx);
            if self.responder.next_timer().is_some_and(|time| time <= ctx.now) {
                self.has_stuck_timer(ctx, "receiver");
            }
        } else if let Some(time) = self.responder.next_timer() {
            self.arm_responder(ctx, time);
        }
    }

    /// Expires the timer of a flow or service level.
    fn expire(&mut self, ctx: &mut Context, owner: Owner) {
        let level = self.reactor.as_ref().map(Reactor::level);
        let is_of_flow = level != Some(StateLevel::ServiceLevel);
        let of = if is_of_flow { self.reference(owner) } else { FlowRef { flow: 0, sl: owner as u8 } };
        let Some(reactor) = &mut self.reactor else {
            return ctx.report_broken(format!("host {} has a timer of a reaction that it lacks", self.id));
        };
        if reactor.next_timer(of).is_some_and(|time| time <= ctx.now) {
            reactor.timer(of, ctx.now);
            if reactor.next_timer(of).is_some_and(|time| time <= ctx.now) {
                return self.has_stuck_timer(ctx, "reaction");
            }
        }
        // An answer at the same time may already have updated the state. The flow is checked in any case, so
        // that its turn does not depend on the order of the two events.
        if is_of_flow {
            self.recheck_permission(owner);
            self.reconsider(owner, ctx.now);
        }
        self.wake(ctx);
        self.arm(ctx, of);
    }

    /// Ends the run if the time of a timer does not advance, because the timer would expire endlessly.
    #[cold]
    fn has_stuck_timer(&mut self, ctx: &mut Context, component: &str) {
        let what = format!("the timer of the {component} of host {} does not advance", self.id);
        ctx.report_broken(what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_expires_once_at_its_earliest_time() {
        let mut timers = Timers::default();
        timers.arm(3, Time(50));
        timers.arm(3, Time(70));
        assert_eq!(timers.missing_event(), Some(Time(50)));
        timers.arm(3, Time(20));
        assert_eq!((timers.missing_event(), timers.missing_event()), (Some(Time(20)), None));
        timers.arm(RECEIVER, Time(20));
        assert_eq!(timers.take(Time(19)), None);
        assert_eq!([timers.take(Time(20)), timers.take(Time(20))], [Some(3), Some(RECEIVER)]);
        assert_eq!(timers.take(Time(50)), None, "the later entry of owner 3 does not count");
    }

    #[test]
    fn a_forgotten_flow_has_no_timer() {
        let mut timers = Timers::default();
        timers.arm(0, Time(5));
        timers.disarm(0);
        timers.arm(0, Time(9));
        assert_eq!([timers.take(Time(8)), timers.take(Time(9))], [None, Some(0)]);
    }
}
