//! Sends a notification packet for each marked packet, optionally coalesced and delayed.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Time;
use silvan_engine::saved::Saved;

use super::{ReceiverRule, Replies, Reply, Sink};
use crate::facts::Received;

/// How receivers coalesce notification packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Coalescing {
    /// Minimum time between two notification packets.
    pub interval: Time,
    /// Whether the interval applies to each flow or to the whole port.
    #[serde(default)]
    pub per: CoalescePer,
}

/// Whether the interval applies to each flow or to the whole port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CoalescePer {
    /// Each flow that the host receives.
    #[default]
    Flow,
    /// All flows that the host receives, together.
    Port,
}

#[derive(Debug)]
pub struct NotifyMarks {
    coalescing: Option<Coalescing>,
    /// See [`Sink::notification_delay`].
    delay: Time,
}

/// The state of a receiver of marks.
#[derive(Debug, Default, Saved)]
pub struct Notifier {
    coalescer: Coalescer,
    /// Notification packets that are not ready, with the times at which they become ready, in the order of
    /// these times.
    delayed: VecDeque<(Time, Reply)>,
}

/// The times at which a receiver may send the next notification packets, if it coalesces them.
#[derive(Debug, Default, Saved)]
pub struct Coalescer {
    /// One entry per flow, or one for the port.
    #[saved(past)]
    next_at: FxHashMap<(u32, u16), Time>,
    /// With this number of entries or more, the next insertion first removes the entries whose time has passed.
    /// There is no removal below [`FEW`] entries.
    tidy_at: usize,
}

/// Number of entries below which none are removed.
const FEW: usize = 64;

impl Coalescer {
    /// Whether a mark on a packet that arrives now causes a notification packet. If so, the interval starts
    /// again.
    fn passes(&mut self, coalescing: &Coalescing, packet: &Received) -> bool {
        let (now, flow) = match coalescing.per {
            CoalescePer::Flow => (packet.now, packet.from.key()),
            CoalescePer::Port => (packet.now, (0, 0)),
        };
        if self.next_at.get(&flow).is_some_and(|&next| now < next) {
            return false;
        }
        if self.next_at.len() >= self.tidy_at.max(FEW) {
            self.next_at.retain(|_, next| now < *next);
            self.tidy_at = 2 * self.next_at.len();
        }
        self.next_at.insert(flow, now + coalescing.interval);
        true
    }
}

impl ReceiverRule for NotifyMarks {
    type State = Notifier;

    const WATCHES_UNMARKED: bool = false;
    const ACKNOWLEDGES_EACH: bool = false;
    const NOTIFIES: bool = true;

    fn new(sink: &Sink) -> Self {
        Self { coalescing: sink.coalescing, delay: sink.notification_delay }
    }

    fn received(&self, state: &mut Notifier, packet: &Received, out: &mut Replies) {
        let passes = |coalescing: &Coalescing| state.coalescer.passes(coalescing, packet);
        if !packet.is_marked || !self.coalescing.as_ref().is_none_or(passes) {
            return;
        }
        if self.delay == Time::ZERO {
            out.notify(packet);
        } else {
            state.delayed.push_back((packet.now + self.delay, Reply::notification(packet)));
        }
    }

    fn next_timer(&self, state: &Notifier) -> Option<Time> {
        state.delayed.front().map(|(ready, _)| *ready)
    }

    fn timer(&self, state: &mut Notifier, now: Time, out: &mut Replies) {
        while state.delayed.front().is_some_and(|(ready, _)| *ready <= now) {
            if let Some((_, reply)) = state.delayed.pop_front() {
                out.send(reply);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::{count, packet, sink};
    use super::*;

    /// The times at which notifications are sent within 6 us for two flows, each of which receives a mark
    /// every microsecond.
    fn notified(coalescing: Option<Coalescing>) -> Vec<(u64, u32)> {
        let rule = NotifyMarks::new(&Sink { coalescing, ..sink() });
        let (mut state, mut out, mut notified) = (Notifier::default(), Replies::default(), Vec::new());
        for us in 0..6 {
            for host in [1, 2] {
                rule.received(&mut state, &packet(host, us * 1_000_000, true, false), &mut out);
                if count(&mut out).0 > 0 {
                    notified.push((us, host));
                }
            }
        }
        notified
    }

    #[test]
    fn notifications_keep_their_distance_per_flow_or_port() {
        let coalesced = |per| notified(Some(Coalescing { interval: Time::from_us(3), per }));
        assert_eq!(notified(None).len(), 12);
        assert_eq!(coalesced(CoalescePer::Flow), [(0, 1), (0, 2), (3, 1), (3, 2)]);
        assert_eq!(coalesced(CoalescePer::Port), [(0, 1), (3, 1)]);
        let (rule, mut out) = (NotifyMarks::new(&sink()), Replies::default());
        rule.received(&mut Notifier::default(), &packet(1, 0, false, true), &mut out);
        assert!(out.is_empty(), "no mark");
    }

    #[test]
    fn a_delayed_notification_is_ready_after_the_delay_and_keeps_the_order() {
        let rule = NotifyMarks::new(&Sink { notification_delay: Time(55), ..sink() });
        let (mut state, mut out) = (Notifier::default(), Replies::default());
        for (host, now) in [(1, 10), (2, 10), (3, 40)] {
            rule.received(&mut state, &packet(host, now, true, false), &mut out);
        }
        assert!(out.is_empty());
        assert_eq!(rule.next_timer(&state), Some(Time(65)));
        rule.timer(&mut state, Time(65), &mut out);
        let hosts: Vec<u32> = out.drain().map(|reply| reply.to.host).collect();
        assert_eq!((hosts, rule.next_timer(&state)), (vec![1, 2], Some(Time(95))));
        rule.timer(&mut state, Time(95), &mut out);
        assert_eq!((count(&mut out).0, rule.next_timer(&state)), (1, None));
    }
}
