//! Transfers: messages from their generation to the delivery of their last byte and, if receivers acknowledge data, to
//! their last acknowledgement.
//!
//! The messages of a flow are delivered in order, so the last packet of a message belongs to the first message of its
//! flow that is not delivered. Each partition keeps the messages of its hosts. A receiver in another partition keeps
//! the times of delivery until the next sample.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use silvan_engine::Time;

/// A flow: its host, the index of its source at the host, and its destination.
pub(crate) type Way = (u32, u16, u32);

/// A transfer. A time is [`Time::NEVER`] if the event has not occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub from: u32,
    pub to: u32,
    pub class: u16,
    pub bytes: u64,
    pub start: Time,
    /// The time at which the receiver had drained the last byte.
    pub delivered: Time,
    /// The time at which the source received the last acknowledgement.
    pub acked: Time,
}

/// A transfer with the number of bytes that have not been acknowledged.
#[derive(Debug, Clone, Copy)]
struct Open {
    transfer: Transfer,
    unacked: u64,
}

/// The transfers of the hosts of a partition.
#[derive(Debug, Default, Clone)]
pub(crate) struct Transfers {
    /// Whether receivers acknowledge all data, so a transfer lasts until its last acknowledgement.
    awaits_acks: bool,
    /// Transfers that have not finished, in the order of their generation.
    open: FxHashMap<Way, VecDeque<Open>>,
    /// Transfers that have finished since the last sample.
    finished: Vec<Transfer>,
    /// Deliveries from hosts of other partitions since the last sample.
    elsewhere: Vec<(Way, Time)>,
}

impl Transfers {
    pub fn new(awaits_acks: bool) -> Self {
        Self { awaits_acks, ..Self::default() }
    }

    /// Whether receivers acknowledge all data.
    pub fn awaits_acks(&self) -> bool {
        self.awaits_acks
    }

    /// Records that a message was generated.
    pub fn begin(&mut self, (from, source, to): Way, class: u16, bytes: u64, start: Time) {
        let transfer = Transfer { from, to, class, bytes, start, delivered: Time::NEVER, acked: Time::NEVER };
        let unacked = if self.awaits_acks { bytes } else { 0 };
        self.open.entry((from, source, to)).or_default().push_back(Open { transfer, unacked });
    }

    /// Records that the last byte of a message was delivered.
    pub fn deliver(&mut self, way: Way, now: Time) {
        let Some(open) = self.open.get_mut(&way) else {
            self.elsewhere.push((way, now));
            return;
        };
        if let Some(first) = open.iter_mut().find(|one| one.transfer.delivered == Time::NEVER) {
            first.transfer.delivered = now;
        }
        self.finish(way);
    }

    /// Records an acknowledgement. If packets may overtake each other, acknowledgements count for the first messages of
    /// their flow. Returns whether a message is now acknowledged completely.
    pub fn acknowledge(&mut self, way: Way, mut bytes: u64, now: Time) -> bool {
        let Some(open) = self.open.get_mut(&way) else { return false };
        let mut is_complete = false;
        for one in open {
            let part = bytes.min(one.unacked);
            bytes -= part;
            one.unacked -= part;
            if part > 0 && one.unacked == 0 {
                one.transfer.acked = now;
                is_complete = true;
            }
            if bytes == 0 {
                break;
            }
        }
        self.finish(way);
        is_complete
    }

    /// Removes the transfers of a flow that have finished.
    fn finish(&mut self, way: Way) {
        let Some(open) = self.open.get_mut(&way) else { return };
        while let Some(first) = open.front()
            && first.unacked == 0
            && first.transfer.delivered != Time::NEVER
        {
            self.finished.push(first.transfer);
            open.pop_front();
        }
        if open.is_empty() {
            self.open.remove(&way);
        }
    }

    /// The transfers that have finished in any partition since the last sample, in an order that does not depend on
    /// the partitions.
    pub fn take_finished<'a>(partitions: impl Iterator<Item = &'a mut Self>) -> Vec<Transfer> {
        let mut partitions: Vec<&mut Self> = partitions.collect();
        let elsewhere: Vec<_> =
            partitions.iter_mut().flat_map(|own| std::mem::take(&mut own.elsewhere)).collect();
        for (way, time) in elsewhere {
            if let Some(own) = partitions.iter_mut().find(|own| own.open.contains_key(&way)) {
                own.deliver(way, time);
            }
        }
        let mut finished: Vec<_> =
            partitions.iter_mut().flat_map(|own| std::mem::take(&mut own.finished)).collect();
        finished.sort_unstable_by_key(Transfer::order);
        finished
    }

    /// The transfers that have not finished, in no particular order.
    pub fn open(&self) -> impl Iterator<Item = &Transfer> {
        self.open.values().flatten().map(|one| &one.transfer)
    }
}

impl Transfer {
    /// The order in which transfers appear in results.
    pub fn order(&self) -> (Time, u32, u32, u16, u64, Time, Time) {
        (self.start, self.from, self.to, self.class, self.bytes, self.delivered, self.acked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAY: Way = (1, 0, 2);

    fn times(finished: &[Transfer]) -> Vec<[u64; 3]> {
        finished.iter().map(|one| [one.start.0, one.delivered.0, one.acked.0]).collect()
    }

    #[test]
    fn transfers_last_until_delivery_or_the_last_acknowledgement() {
        let mut silent = Transfers::new(false);
        silent.begin(WAY, 0, 100, Time(1));
        silent.begin(WAY, 0, 50, Time(2));
        silent.deliver(WAY, Time(7));
        assert_eq!(silent.open().count(), 1);
        silent.deliver(WAY, Time(9));
        let finished = Transfers::take_finished([&mut silent].into_iter());
        assert_eq!(times(&finished), [[1, 7, u64::MAX], [2, 9, u64::MAX]]);

        let mut acked = Transfers::new(true);
        acked.begin(WAY, 0, 100, Time(1));
        acked.begin(WAY, 0, 50, Time(2));
        acked.acknowledge(WAY, 60, Time(6));
        acked.deliver(WAY, Time(7));
        acked.deliver(WAY, Time(8));
        assert!(Transfers::take_finished([&mut acked].into_iter()).is_empty());
        acked.acknowledge(WAY, 70, Time(9));
        acked.acknowledge(WAY, 20, Time(11));
        acked.acknowledge(WAY, 99, Time(12));
        let finished = Transfers::take_finished([&mut acked].into_iter());
        assert_eq!(times(&finished), [[1, 7, 9], [2, 8, 11]]);
        assert_eq!(acked.open().count(), 0);
    }

    #[test]
    fn deliveries_in_other_partitions_count_at_the_next_sample() {
        let (mut sender, mut receiver) = (Transfers::new(false), Transfers::new(false));
        sender.begin(WAY, 3, 100, Time(5));
        sender.begin((0, 0, 2), 3, 100, Time(5));
        receiver.deliver(WAY, Time(9));
        receiver.deliver((0, 0, 2), Time(9));
        let finished = Transfers::take_finished([&mut receiver, &mut sender].into_iter());
        assert_eq!(
            finished.iter().map(|one| (one.from, one.delivered)).collect::<Vec<_>>(),
            [(0, Time(9)), (1, Time(9))]
        );
        assert!(sender.open().count() == 0 && receiver.elsewhere.is_empty());
    }
}
