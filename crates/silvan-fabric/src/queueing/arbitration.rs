//! Arbitration among the queues that wait for an output, where some of them are special.
//!
//! Normal queues must go first, or uncongested packets wait behind congested ones; special queues must not starve
//! (Gran's thesis, 3.7, which proposes an arbitration that considers the situation at the root). With every rule
//! except round robin, a special queue has a *due time*. Before that time it yields to other queues: those of its
//! input that wait for the same output, other inputs that wait for this output, and, with one read port per input,
//! other outputs that want this input. Without such queues it may always send.
//!
//! - `strict`: a special queue is due when its first packet has waited for `longest_wait`, and then goes first.
//!   Time for which Stop holds it does not count: going first then would help no queue.
//! - `weighted`: a special queue is due as often as the root can accept its packets, and then has its turn as with
//!   round robin, so it never passes more normal queues than with round robin. The rate at which the root's output
//!   can send, divided evenly among the inputs that contribute to the root, is reported upstream with Allocate,
//!   Stop and Go. Every switch divides the reported rate evenly among its special queues for that line. More than
//!   its share would wait in front of the root and be stopped, at the cost of normal queues; with less, the root
//!   might idle. A queue that sends a packet is due again when the packet's bytes have passed at its share. A
//!   queue that sent early is not charged for it. A queue that was late catches up by one packet, so that it does
//!   not delay normal queues for long after a Stop. A queue whose tree is gone (an orphan) is due at once: its
//!   packets are no longer congested.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Rate, Time};

use super::isolation::SpecialQueueRule;
use crate::port::PortVl;

/// How normal and special queues take turns at an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SpecialArbitration {
    /// All queues take turns, as published for FBICM, CCFIT, HFDI and EcoCC.
    #[default]
    RoundRobin,
    /// Normal queues first, except special queues that have waited for `longest_wait`.
    Strict,
    /// All queues take turns, but special ones only as often as the root of their tree can accept a packet, which
    /// Allocate, Stop and Go report upstream.
    Weighted,
}

/// A special queue of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpecialQueue {
    pub input: PortVl,
    /// Its number at the input.
    pub number: usize,
}

/// What a queue is to the arbitration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Ahead of all others.
    Control,
    Normal,
    Special(SpecialQueue),
}

/// The due times of a node's special queues.
#[derive(Debug)]
pub(super) struct DueTimes {
    /// With `strict`, the longest wait; none with `weighted`.
    longest_wait: Option<Time>,
    /// Special queues of an input.
    queues: usize,
    /// `[input * queues + number]`
    due: Box<[Time]>,
}

impl DueTimes {
    /// None if all queues simply take turns.
    pub fn new(rule: &SpecialQueueRule, inputs: usize) -> Option<Self> {
        let longest_wait = match rule.arbitration {
            SpecialArbitration::RoundRobin => return None,
            SpecialArbitration::Strict => Some(rule.longest_wait),
            SpecialArbitration::Weighted => None,
        };
        let queues = rule.queues;
        Some(Self { longest_wait, queues, due: vec![Time::ZERO; inputs * queues].into() })
    }

    #[inline]
    fn index(&self, queue: SpecialQueue) -> usize {
        queue.input.index() * self.queues + queue.number
    }

    /// A special queue may send from now on: it has a new first packet, or is no longer stopped.
    pub fn may_go(&mut self, queue: SpecialQueue, now: Time) {
        let index = self.index(queue);
        let due = &mut self.due[index];
        *due = match self.longest_wait {
            Some(wait) => now + wait,
            None => now.max(*due),
        };
    }

    /// A special queue sends a packet of `bytes`. `share` gives its share of the root's rate while its tree exists;
    /// it visits all lines, and is called only with `weighted`.
    pub fn served(
        &mut self,
        queue: SpecialQueue,
        bytes: u32,
        share: impl FnOnce() -> Option<Rate>,
        now: Time,
    ) {
        let index = self.index(queue);
        let due = &mut self.due[index];
        *due = match self.longest_wait {
            Some(wait) => now + wait,
            None => share().map_or(now, |share| now.max(now.min(*due) + span(bytes, share))),
        };
    }

    /// A special queue was released.
    pub fn forget(&mut self, queue: SpecialQueue) {
        let index = self.index(queue);
        self.due[index] = Time::ZERO;
    }

    /// Whether a queue lets others go first.
    pub fn lets_pass(&self, standing: Standing, now: Time) -> bool {
        match standing {
            Standing::Control | Standing::Normal => false,
            Standing::Special(queue) => self.due[self.index(queue)] > now,
        }
    }

    /// The queue of a ring whose turn it is; the queues are given in the order of the ring.
    pub fn choose<Q: Copy>(&self, ring: impl Iterator<Item = (Q, Standing)>, now: Time) -> Option<Q> {
        let (mut first, mut in_turn, mut late) = (None, None, None);
        for (queue, standing) in ring {
            first = first.or(Some(queue));
            match standing {
                Standing::Control => return Some(queue),
                Standing::Normal => in_turn = in_turn.or(Some(queue)),
                Standing::Special(special) => {
                    let due = self.due[self.index(special)];
                    let is_earliest = late.is_none_or(|(earliest, _)| due < earliest);
                    if due <= now && self.longest_wait.is_none() {
                        in_turn = in_turn.or(Some(queue));
                    } else if due <= now && is_earliest {
                        late = Some((due, queue));
                    }
                }
            }
        }
        late.map(|(_, queue)| queue).or(in_turn).or(first)
    }
}

/// Time of some bytes at a rate, in whole picoseconds; at most the duration of the longest run.
fn span(bytes: u32, rate: Rate) -> Time {
    let ps = u128::from(bytes) * 8_000_000_000_000 / u128::from(rate.0.max(1));
    Time(ps.min(u128::from(u32::MAX) << 24) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queueing::SpecialQueues;

    const NS: u64 = 1_000;
    const INPUT: PortVl = PortVl::FIRST;

    fn special(number: usize) -> SpecialQueue {
        SpecialQueue { input: INPUT, number }
    }

    /// Special queues 0 and 1 of input 0.
    fn due_times(arbitration: SpecialArbitration) -> Option<DueTimes> {
        let longest_wait = Some(Time(500 * NS));
        let special = SpecialQueues { arbitration, longest_wait, ..SpecialQueues::default() };
        DueTimes::new(&special.rule(1_000), 1)
    }

    /// The queue that sends at each time; `normal` says whether a normal queue waits. A special queue sends at
    /// `share`.
    fn sequence(
        of: &mut DueTimes,
        times: &[u64],
        specials: usize,
        normal: impl Fn(u64) -> bool,
        share: Option<Rate>,
    ) -> String {
        let mut ring: Vec<(char, Standing)> = vec![('n', Standing::Normal)];
        for at in 0..specials {
            of.may_go(special(at), Time::ZERO);
            ring.push((['a', 'b'][at], Standing::Special(special(at))));
        }
        let mut sent = String::new();
        for &time in times {
            let now = Time(time * NS);
            let asks = |(_, standing): &(char, Standing)| *standing != Standing::Normal || normal(time);
            let name = of.choose(ring.iter().copied().filter(asks), now).unwrap();
            sent.push(name);
            let place = ring.iter().position(|&(other, _)| other == name).unwrap();
            let served = ring.remove(place);
            if let Standing::Special(queue) = served.1 {
                of.served(queue, 1_000, || share, now);
                of.may_go(queue, now);
            }
            ring.push(served);
        }
        sent
    }

    #[test]
    fn all_in_turn_needs_no_due_times() {
        assert!(due_times(SpecialArbitration::RoundRobin).is_none());
    }

    /// A packet every 100 ns, a wait of 500 ns at most: each special queue sends every sixth or seventh packet.
    #[test]
    fn strict_lets_special_queues_wait_for_so_long() {
        let every: Vec<u64> = (0..20).map(|slot| slot * 100).collect();
        let mut of = due_times(SpecialArbitration::Strict).unwrap();
        assert_eq!(sequence(&mut of, &every, 1, |_| true, None), "nnnnnannnnannnnannnn");
        let mut of = due_times(SpecialArbitration::Strict).unwrap();
        assert_eq!(sequence(&mut of, &every, 2, |_| true, None), "nnnnnabnnnabnnnabnnn");
        // No other queue waits: they send at once, in turn.
        let mut of = due_times(SpecialArbitration::Strict).unwrap();
        assert_eq!(sequence(&mut of, &every[..6], 2, |_| false, None), "ababab");
    }

    /// 1,000 bytes take 100 ns at 80 Gbit/s; the root accepts 20 Gbit/s: every fourth packet.
    #[test]
    fn weighted_gives_special_queues_what_the_root_takes() {
        let every: Vec<u64> = (0..12).map(|slot| slot * 100).collect();
        let share = Some(Rate::from_gbit(20));
        let mut of = due_times(SpecialArbitration::Weighted).unwrap();
        assert_eq!(sequence(&mut of, &every, 1, |_| true, share), "nannannnannn");
        let mut of = due_times(SpecialArbitration::Weighted).unwrap();
        assert_eq!(sequence(&mut of, &every, 2, |_| true, share), "nabnabnnabnn");
        // Packets that it sends while no other queue waits are not charged.
        let mut of = due_times(SpecialArbitration::Weighted).unwrap();
        assert_eq!(sequence(&mut of, &every, 1, |time| time >= 500, share), "aaaaannnannn");
        // Without a share, its tree is gone.
        let mut of = due_times(SpecialArbitration::Weighted).unwrap();
        assert_eq!(sequence(&mut of, &every[..4], 1, |_| true, None), "nana");
    }

    /// Late by 1 us, a queue makes up for one packet, not for two.
    #[test]
    fn weighted_makes_up_for_one_packet() {
        let mut times = vec![0];
        times.extend((10..20).map(|slot| slot * 100));
        let mut of = due_times(SpecialArbitration::Weighted).unwrap();
        assert_eq!(sequence(&mut of, &times, 1, |_| true, Some(Rate::from_gbit(20))), "nananannnan");
    }

    #[test]
    fn control_goes_first_and_a_queue_that_is_given_back_starts_anew() {
        let mut of = due_times(SpecialArbitration::Weighted).unwrap();
        let ring = [(0, Standing::Special(special(1))), (1, Standing::Control), (2, Standing::Normal)];
        assert_eq!(of.choose(ring.into_iter(), Time(NS)), Some(1));
        assert_eq!(of.choose(std::iter::empty::<(u8, Standing)>(), Time(NS)), None);
        of.served(special(1), 1_000, || Some(Rate(1)), Time(NS));
        assert_eq!(of.choose([ring[0], ring[2]].into_iter(), Time(2 * NS)), Some(2));
        of.forget(special(1));
        of.may_go(special(1), Time(2 * NS));
        assert_eq!(of.choose([ring[0], ring[2]].into_iter(), Time(2 * NS)), Some(0));
    }
}
