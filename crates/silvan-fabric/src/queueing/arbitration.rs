//! Arbitration among the normal and special queues that wait for the same output.
//!
//! Normal queues must take precedence, because otherwise uncongested packets wait behind congested ones. But special
//! queues must not starve (Gran's thesis, 3.7, proposes an arbitration that considers the situation at the root). With
//! every rule except round robin, a special queue has a *due time*. Before that time, it yields to other queues: to
//! queues of its input that wait for the same output, to other inputs that wait for this output, and, with one read
//! port per input, to other outputs that request this input. If there are no such queues, it may always send.
//!
//! - `strict`: a special queue is due when its first packet has waited for `longest_wait`, and then takes
//!   precedence. Time during which Stop applies does not count, because the queue cannot send then. If all
//!   inputs of an output have to yield, the input whose queue is due first is served, because it has waited
//!   longest. A round robin would start after the input that a normal queue used, and would always choose the
//!   next input.
//! - `weighted`: a special queue is due as often as the root can accept its packets. It then takes its turn as with
//!   round robin, so it never passes more normal queues than with round robin. The rate of the root's output is divided
//!   evenly among the inputs that contribute to the root, and is reported upstream with Allocate, Stop and Go. Every
//!   switch divides the reported rate evenly among its special queues for that line. If a queue sent more than its
//!   share, the surplus would wait in front of the root and be stopped, at the cost of normal queues. If it sent less,
//!   the root might be idle. After sending a packet, a queue is due again after the time that the packet takes at the
//!   queue's share of the rate. A queue that sends early is not charged for it. A late queue catches up by only one
//!   packet, so it does not delay normal queues for long after a Stop. A queue whose tree no longer exists (an orphan)
//!   is due immediately, because its packets are no longer congested.

use silvan_engine::saved::Saved;
use silvan_engine::{Rate, Time};
use silvan_network::port::PortVl;

use silvan_congestion::isolation::SpecialArbitration;

use super::isolation::SpecialQueueRule;

/// A special queue of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpecialQueue {
    pub input: PortVl,
    /// Number of the queue at its input.
    pub number: usize,
}

/// The precedence of a queue in arbitration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Precedes all others.
    Control,
    Normal,
    Special(SpecialQueue),
}

/// The due times of a node's special queues.
#[derive(Debug, Saved)]
pub(super) struct DueTimes {
    /// The longest wait with `strict`; `None` with `weighted`.
    #[saved(span)]
    longest_wait: Option<Time>,
    /// Number of special queues of an input.
    queues: usize,
    /// Indexed by `input * queues + number`.
    due: Box<[Time]>,
}

impl DueTimes {
    /// Returns `None` if all queues take turns.
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

    /// Records that a special queue may send, because it has a new first packet or is no longer stopped.
    pub fn may_go(&mut self, queue: SpecialQueue, now: Time) {
        let index = self.index(queue);
        let due = &mut self.due[index];
        *due = match self.longest_wait {
            Some(wait) => now + wait,
            None => now.max(*due),
        };
    }

    /// Records that a special queue sends a packet of `bytes`. `share` returns the queue's share of the root's rate
    /// while the tree exists. Because `share` visits all lines, it is called only with `weighted`.
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

    /// Resets the due time of a special queue that was released.
    pub fn forget(&mut self, queue: SpecialQueue) {
        let index = self.index(queue);
        self.due[index] = Time::ZERO;
    }

    /// Whether a queue yields to other queues.
    pub fn lets_pass(&self, standing: Standing, now: Time) -> bool {
        match standing {
            Standing::Control | Standing::Normal => false,
            Standing::Special(queue) => self.due[self.index(queue)] > now,
        }
    }

    /// Whether the order of due times decides between queues that yield, as it does with `strict`.
    pub fn is_strict(&self) -> bool {
        self.longest_wait.is_some()
    }

    /// The time at which a special queue is due; zero for other queues.
    pub fn due(&self, standing: Standing) -> Time {
        match standing {
            Standing::Control | Standing::Normal => Time::ZERO,
            Standing::Special(queue) => self.due[self.index(queue)],
        }
    }

    /// Selects the queue whose turn it is. `ring` contains the queues in the order of their turns. If all
    /// queues yield, the first one is selected. `None` without queues.
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

/// The transmission time of a number of bytes at a rate, in whole picoseconds, limited to about 20 hours.
fn span(bytes: u32, rate: Rate) -> Time {
    let ps = u128::from(bytes) * 8_000_000_000_000 / u128::from(rate.0.max(1));
    Time(ps.min(u128::from(u32::MAX) << 24) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use silvan_congestion::isolation::SpecialQueues;

    const NS: u64 = 1_000;
    const INPUT: PortVl = PortVl::FIRST;

    fn special(number: usize) -> SpecialQueue {
        SpecialQueue { input: INPUT, number }
    }

    /// Special queues 0 and 1 of input 0.
    fn due_times(arbitration: SpecialArbitration) -> Option<DueTimes> {
        let longest_wait = Some(Time(500 * NS));
        let special = SpecialQueues { arbitration, longest_wait, ..SpecialQueues::default() };
        DueTimes::new(&SpecialQueueRule::new(&special, 1_000), 1)
    }

    /// The queue that sends at each time. `normal` returns whether a normal queue waits. The special queue may use the
    /// rate `share`.
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

    /// A packet is sent every 100 ns and the longest wait is 500 ns, so each special queue sends every fifth
    /// packet.
    #[test]
    fn strict_lets_special_queues_wait_for_so_long() {
        let every: Vec<u64> = (0..20).map(|slot| slot * 100).collect();
        let mut of = due_times(SpecialArbitration::Strict).unwrap();
        assert_eq!(sequence(&mut of, &every, 1, |_| true, None), "nnnnnannnnannnnannnn");
        let mut of = due_times(SpecialArbitration::Strict).unwrap();
        assert_eq!(sequence(&mut of, &every, 2, |_| true, None), "nnnnnabnnnabnnnabnnn");
        // If no other queue waits, special queues send immediately and alternate.
        let mut of = due_times(SpecialArbitration::Strict).unwrap();
        assert_eq!(sequence(&mut of, &every[..6], 2, |_| false, None), "ababab");
    }

    /// 1,000 bytes take 100 ns at 80 Gbit/s. The root accepts 20 Gbit/s, which is every fourth packet.
    #[test]
    fn weighted_gives_special_queues_what_the_root_takes() {
        let every: Vec<u64> = (0..12).map(|slot| slot * 100).collect();
        let share = Some(Rate::from_gbit(20));
        let mut of = due_times(SpecialArbitration::Weighted).unwrap();
        assert_eq!(sequence(&mut of, &every, 1, |_| true, share), "nannannnannn");
        let mut of = due_times(SpecialArbitration::Weighted).unwrap();
        assert_eq!(sequence(&mut of, &every, 2, |_| true, share), "nabnabnnabnn");
        // Packets that the queue sends while no other queue waits are not charged.
        let mut of = due_times(SpecialArbitration::Weighted).unwrap();
        assert_eq!(sequence(&mut of, &every, 1, |time| time >= 500, share), "aaaaannnannn");
        // Without a share, the tree no longer exists.
        let mut of = due_times(SpecialArbitration::Weighted).unwrap();
        assert_eq!(sequence(&mut of, &every[..4], 1, |_| true, None), "nana");
    }

    /// A queue that is late by 1 us catches up by one packet, not by two.
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
