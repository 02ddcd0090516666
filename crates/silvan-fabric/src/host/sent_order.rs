//! Losses that a sender infers from acknowledgements of packets that it sent later. Packets of one flow may overtake each
//! other, so this needs a distance in the order of sending, which also counts packets that were sent again.

use std::collections::VecDeque;

use silvan_engine::Time;
use silvan_engine::saved::Saved;

/// After this many packets of the order of sending, an acknowledgement that has not arrived counts as lost if acknowledgements
/// of other packets report its packet as arrived. Acknowledgements on other routes may overtake it until then.
const REPORTED: u64 = 16;

/// The order in which a flow sent its packets, and those that acknowledgements of other packets report as arrived.
#[derive(Debug, Default, Saved)]
pub(super) struct SentOrder {
    /// The place in the order of sending of the first entry of `sent`.
    first: u64,
    /// Numbers of packets, and the times at which they were sent. Entries of packets that were acknowledged remain until a
    /// packet is acknowledged that was sent the given distance later.
    sent: VecDeque<(u64, Time)>,
    /// The place after the last packet in this order that has been acknowledged.
    acknowledged: u64,
    /// The place before which packets were checked for reports by acknowledgements of others.
    checked: u64,
    arrived: NumberSet,
}

impl SentOrder {
    /// Adds a packet that is being sent.
    pub fn push(&mut self, number: u64, now: Time) {
        self.sent.push_back((number, now));
    }

    /// Handles an acknowledgement of the packet that was sent at a time. `earlier` are the packets before `number` that have
    /// arrived, as in [`Marks`](crate::packet::Marks::earlier), and `oldest` is the lowest number of the
    /// packets that have not been acknowledged.
    pub fn acknowledge(&mut self, (number, sent_at): (u64, Time), earlier: u64, oldest: Option<u64>) {
        let at = self.sent.partition_point(|&(_, time)| time < sent_at);
        if self.sent.get(at) == Some(&(number, sent_at)) {
            self.acknowledged = self.acknowledged.max(self.first + at as u64 + 1);
        }
        match oldest {
            Some(oldest) => self.arrived.insert(number, earlier, oldest),
            None => {
                self.first += self.sent.len() as u64;
                self.sent.clear();
                self.arrived = NumberSet::default();
            }
        }
    }

    /// Returns the next packet such that one that was sent [`REPORTED`] packets later has been acknowledged, once.
    pub fn next_to_check(&mut self) -> Option<(u64, Time)> {
        self.checked = self.checked.max(self.first);
        if self.checked + REPORTED >= self.acknowledged {
            return None;
        }
        self.checked += 1;
        self.sent.get((self.checked - 1 - self.first) as usize).copied()
    }

    /// Removes and returns the next packet such that one that was sent `distance` packets later has been acknowledged.
    pub fn take_overtaken(&mut self, distance: u16) -> Option<(u64, Time)> {
        if self.first + u64::from(distance) >= self.acknowledged {
            return None;
        }
        self.first += 1;
        self.sent.pop_front()
    }

    /// Whether an acknowledgement of another packet has reported this packet as arrived.
    pub fn has_arrived(&self, number: u64) -> bool {
        self.arrived.contains(number)
    }
}

/// A set of packet numbers that are close to each other.
#[derive(Debug, Default, Saved)]
struct NumberSet {
    /// The first number of the first block, in units of 64.
    first: u64,
    blocks: VecDeque<u64>,
}

impl NumberSet {
    /// Adds the numbers `number - 1 - k` of the bits k that are set in `earlier`. Numbers in blocks before that of `oldest` are
    /// not stored.
    fn insert(&mut self, number: u64, earlier: u64, oldest: u64) {
        while self.first < oldest / 64 {
            if self.blocks.pop_front().is_none() {
                self.first = oldest / 64;
                break;
            }
            self.first += 1;
        }
        // In `word`, bit j stands for `start + j`.
        let start = number.saturating_sub(64);
        let Some(word) = earlier.reverse_bits().checked_shr(64 - (number - start) as u32) else { return };
        let (block, shift) = (start / 64, start % 64);
        self.add(block, word << shift);
        self.add(block + 1, word.checked_shr(64 - shift as u32).unwrap_or(0));
    }

    fn add(&mut self, block: u64, word: u64) {
        let Some(at) = block.checked_sub(self.first).filter(|_| word != 0) else { return };
        let at = at as usize;
        if self.blocks.len() <= at {
            self.blocks.resize(at + 1, 0);
        }
        self.blocks[at] |= word;
    }

    fn contains(&self, number: u64) -> bool {
        let block = (number / 64).checked_sub(self.first).and_then(|at| self.blocks.get(at as usize));
        block.is_some_and(|block| block >> (number % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_overtaken_at_a_distance_in_the_order_of_sending() {
        let mut order = SentOrder::default();
        (0..6).for_each(|number| order.push(number, Time(10 * number)));
        // Packet 0 is sent again.
        order.push(0, Time(60));
        order.acknowledge((2, Time(20)), 0, Some(0));
        assert_eq!(order.take_overtaken(3), None, "packet 2 was sent 2 packets after packet 0");
        order.acknowledge((4, Time(40)), 0, Some(0));
        assert_eq!(
            [(); 3].map(|()| order.take_overtaken(3)),
            [Some((0, Time(0))), Some((1, Time(10))), None]
        );
        order.acknowledge((1, Time(10)), 0, Some(0));
        assert_eq!(order.take_overtaken(3), None, "the entry of packet 1 has been removed");
        order.acknowledge((0, Time(60)), 0, Some(0));
        assert_eq!(
            [(); 3].map(|()| order.take_overtaken(3)),
            [Some((2, Time(20))), Some((3, Time(30))), None]
        );
        order.acknowledge((5, Time(50)), 0, None);
        assert_eq!((order.first, order.sent.len()), (7, 0), "nothing is outstanding");
    }

    #[test]
    fn acknowledgements_report_earlier_packets() {
        for (number, arrived) in
            [(5, vec![4, 0]), (64, vec![0, 63]), (150, vec![149, 128, 127, 86]), (200, vec![])]
        {
            let mut order = SentOrder::default();
            let earlier = arrived.iter().fold(0, |bits, one| bits | 1 << (number - 1 - one));
            order.acknowledge((number, Time(0)), earlier, Some(0));
            let found = (0..300).filter(|&one| order.has_arrived(one)).collect::<Vec<u64>>();
            let mut sorted = arrived.clone();
            sorted.sort_unstable();
            assert_eq!(found, sorted, "{number}");
        }
    }

    #[test]
    fn packets_are_checked_once_when_a_later_one_has_been_acknowledged() {
        let mut order = SentOrder::default();
        (0..40).for_each(|number| order.push(number, Time(number)));
        order.acknowledge((17, Time(17)), 0, Some(0));
        let mut next = || order.next_to_check().map(|(number, _)| number);
        assert_eq!([next(), next(), next()], [Some(0), Some(1), None]);
        order.acknowledge((19, Time(19)), 0, Some(0));
        assert_eq!(order.take_overtaken(18), Some((0, Time(0))));
        let mut next = || order.next_to_check().map(|(number, _)| number);
        assert_eq!([next(), next(), next()], [Some(2), Some(3), None]);
    }

    #[test]
    fn numbers_of_packets_that_are_not_outstanding_are_forgotten() {
        let mut set = NumberSet::default();
        for number in 1..10_000_u64 {
            set.insert(number, u64::MAX, number.saturating_sub(100));
            assert!(set.blocks.len() <= 3 && set.contains(number - 1) && !set.contains(number), "{number}");
        }
        set.insert(1_000_000, 1, 999_990);
        assert!(set.contains(999_999) && !set.contains(9_998) && set.blocks.len() == 1);
    }
}
