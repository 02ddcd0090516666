//! Records how long a host with ranks of a job sends, lacks credit, or is throttled.

use silvan_engine::Time;
use silvan_engine::saved::Saved;

use super::Host;
use crate::context::Context;

/// The reason why a host does not send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Saved)]
enum Wait {
    /// The host has no data to send.
    #[default]
    Traffic,
    /// The host lacks credit.
    Credit,
    /// All flows with messages are throttled by the reaction.
    Control,
}

/// Time spent so far in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Saved)]
pub(crate) struct Spent {
    /// Sending, or waiting for the injection limit or the message overhead.
    #[saved(count)]
    pub sending: Time,
    /// Waiting for credit.
    #[saved(count)]
    pub blocked: Time,
    /// Waiting while all flows with messages were throttled.
    #[saved(count)]
    pub throttled: Time,
}

impl Spent {
    /// The mean of some times; zero if there are none.
    pub fn mean(all: impl Iterator<Item = Self>) -> Self {
        let (mut sum, mut count) = (Self::default(), 0);
        for spent in all {
            sum.sending += spent.sending;
            sum.blocked += spent.blocked;
            sum.throttled += spent.throttled;
            count += 1;
        }
        let share = |time: Time| Time(time.0 / count.max(1));
        Self { sending: share(sum.sending), blocked: share(sum.blocked), throttled: share(sum.throttled) }
    }
}

/// The state of a host since it last settled, and the time spent in each state before that.
#[derive(Debug, Clone, Copy, Default, Saved)]
struct HostActivity {
    #[saved(latest)]
    since: Time,
    /// The end of the current transmission.
    #[saved(latest)]
    busy_until: Time,
    /// The reason why the host does not send after `busy_until`.
    then: Wait,
    spent: Spent,
}

/// The time that a host spends in each state.
#[derive(Debug, Default, Saved)]
pub(crate) struct Hours {
    now: HostActivity,
    /// Earlier states since the last exchange between partitions. Only at the next exchange do other
    /// partitions receive the time at which a job has finished.
    past: Vec<HostActivity>,
}

impl Hours {
    /// The time spent until `time`, which must not be before the last exchange between partitions.
    pub fn until(&self, time: Time) -> Spent {
        let past = self.past.iter().rev();
        let state = std::iter::once(&self.now).chain(past).find(|state| state.since <= time);
        state.unwrap_or(&self.now).until(time)
    }

    /// Changes the state of the host. `exchanged` is the time of the last exchange between partitions. If
    /// `exchanged` is `Time::NEVER`, the earlier states are not kept.
    fn change(&mut self, state: HostActivity, exchanged: Time) {
        if self.now.since < exchanged {
            self.past.clear();
        }
        if exchanged < Time::NEVER {
            self.past.push(self.now);
        }
        self.now = HostActivity { spent: self.now.until(state.since), ..state };
    }
}

impl HostActivity {
    fn until(&self, now: Time) -> Spent {
        let mut spent = self.spent;
        let sent = self.busy_until.min(now).max(self.since);
        spent.sending += sent - self.since;
        match self.then {
            Wait::Traffic => {}
            Wait::Credit => spent.blocked += now - sent,
            Wait::Control => spent.throttled += now - sent,
        }
        spent
    }
}

impl Host {
    /// Records the state of the host after it has settled.
    #[inline(never)]
    pub(super) fn note_hours(&mut self, ctx: &Context) {
        let now = ctx.now;
        // A host whose link is down waits as if it lacked credit.
        let free_at = Some(ctx.free_at(self.out)).filter(|&time| time < Time::NEVER).unwrap_or(now);
        // The host settles again at its turn, which it does not know.
        let turn_at = if self.waits_for_turn(ctx) { Time::NEVER } else { Time::ZERO };
        let busy_until = free_at.max(self.injection.free_at).max(turn_at);
        // While the link is busy, nothing can be sent. The host settles again when the link becomes free.
        let waits = self.flows.ready() > 0 || self.flows.has_held() || !self.control.is_empty();
        let is_buffered = || self.adapter.is_some() && !self.buffered(&ctx.packets).is_empty();
        let then = if busy_until <= now && (waits || is_buffered()) {
            Wait::Credit
        } else if !waits && self.flows.throttled() > 0 {
            Wait::Control
        } else {
            Wait::Traffic
        };
        let Some(hours) = &mut self.hours else { return };
        let state = HostActivity { since: now, busy_until, then, spent: Spent::default() };
        hours.change(state, ctx.exchanged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host that sends from 10 to 20 ps, lacks credit until 35 ps, sends until 45 ps and then has nothing
    /// to send.
    fn hours(exchanged: Time) -> Hours {
        let mut hours = Hours::default();
        for (since, busy_until, then) in
            [(10, 20, Wait::Credit), (25, 0, Wait::Credit), (35, 45, Wait::Traffic), (50, 0, Wait::Traffic)]
        {
            let state = HostActivity {
                since: Time(since),
                busy_until: Time(busy_until),
                then,
                spent: Spent::default(),
            };
            hours.change(state, exchanged);
        }
        hours
    }

    fn told(hours: &Hours, time: u64) -> (u64, u64) {
        let spent = hours.until(Time(time));
        (spent.sending.0, spent.blocked.0)
    }

    #[test]
    fn time_spent_is_known_since_the_last_exchange() {
        let alone = hours(Time::NEVER);
        assert!(alone.past.is_empty());
        assert_eq!([50, 60].map(|time| told(&alone, time)), [(20, 15); 2]);
        let times = [15, 20, 25, 30, 35, 40, 60];
        let wanted = [(5, 0), (10, 0), (10, 5), (10, 10), (10, 15), (15, 15), (20, 15)];
        assert_eq!(times.map(|time| told(&hours(Time(12)), time)), wanted);
        let later = hours(Time(30));
        assert_eq!(later.past.len(), 2, "since when it lacked credit at 30 ps");
        assert_eq!(times[3..].iter().map(|&time| told(&later, time)).collect::<Vec<_>>(), wanted[3..]);
    }
}
