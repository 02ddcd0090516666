//! A notification packet for each marked packet, optionally coalesced.

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Time;

use super::{ReceiverRule, Replies, Sink};
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
pub(crate) struct NotifyMarks {
    coalescing: Option<Coalescing>,
}

/// The times at which a receiver may send the next notification packets, if it coalesces them.
#[derive(Debug, Default)]
pub(crate) struct Coalescer {
    /// One entry per flow, or one for the port.
    next_at: FxHashMap<(u32, u16), Time>,
    /// Number of entries at which those whose time has passed will next be removed.
    tidy_at: usize,
}

/// With fewer entries, none are removed.
const FEW: usize = 64;

impl Coalescer {
    /// Whether a mark on a packet that arrives now causes a notification packet.
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
    type State = Coalescer;

    const WATCHES_UNMARKED: bool = false;
    const ACKNOWLEDGES_EACH: bool = false;
    const NOTIFIES: bool = true;

    fn new(sink: &Sink) -> Self {
        Self { coalescing: sink.coalescing }
    }

    fn received(&self, state: &mut Coalescer, packet: &Received, out: &mut Replies) {
        let passes = |coalescing: &Coalescing| state.passes(coalescing, packet);
        if packet.is_marked && self.coalescing.as_ref().is_none_or(passes) {
            out.notify(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::{count, packet, sink};
    use super::*;

    /// The times at which notifications are sent in 6 us for two flows, each with a mark every microsecond.
    fn notified(coalescing: Option<Coalescing>) -> Vec<(u64, u32)> {
        let rule = NotifyMarks::new(&Sink { coalescing, ..sink() });
        let (mut state, mut out, mut notified) = (Coalescer::default(), Replies::default(), Vec::new());
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
        rule.received(&mut Coalescer::default(), &packet(1, 0, false, true), &mut out);
        assert!(out.is_empty(), "no mark");
    }
}
