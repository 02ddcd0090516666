//! Transfers: messages from their generation to the delivery of their last byte and, if receivers acknowledge
//! data, to their last acknowledgement.
//!
//! The messages of a flow are delivered in order, so the last packet of a message belongs to the first
//! message of its flow that is not delivered. Each partition keeps the messages of its hosts. A receiver in
//! another partition keeps the times of delivery until the next sample.
//!
//! If packets may get lost, the time at which a message was generated identifies it within its flow, and all
//! partitions keep deliveries and losses until the next sample. A transfer from which a packet was lost does
//! not finish.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use silvan_engine::Time;
use silvan_engine::saved::Saved;

use crate::packet::FlowAddress;

/// A transfer. A time is [`Time::NEVER`] if the event has not occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
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
#[derive(Debug, Clone, Copy, Saved)]
struct Open {
    transfer: Transfer,
    unacked: u64,
    has_lost: bool,
}

/// The messages of a flow that were not finished at the last sample, in the order of their generation.
#[derive(Debug, Default, Clone, Saved)]
struct OpenTransfers {
    messages: VecDeque<Open>,
    /// Number of messages that have been delivered. These are the first ones.
    delivered: usize,
    /// Number of messages that have been acknowledged completely. These are the first ones.
    acknowledged: usize,
    /// Whether [`Transfers::changed`] contains the flow.
    has_changed: bool,
}

impl OpenTransfers {
    /// Records a delivery. Hosts may report deliveries before their time, and then not in the order of time.
    /// Messages are delivered in order, so the times of deliveries are kept in order.
    fn deliver(&mut self, now: Time) {
        let Some(first) = self.messages.get_mut(self.delivered) else { return };
        first.transfer.delivered = now;
        let mut at = self.delivered;
        while at > 0 && self.messages[at - 1].transfer.delivered > now {
            self.messages[at].transfer.delivered = self.messages[at - 1].transfer.delivered;
            self.messages[at - 1].transfer.delivered = now;
            at -= 1;
        }
        self.delivered += 1;
    }

    /// Records an acknowledgement. Returns whether a message is now acknowledged completely.
    fn acknowledge(&mut self, mut bytes: u64, now: Time) -> bool {
        let before = self.acknowledged;
        while bytes > 0
            && let Some(one) = self.messages.get_mut(self.acknowledged)
        {
            let part = bytes.min(one.unacked);
            bytes -= part;
            one.unacked -= part;
            if one.unacked > 0 {
                break;
            }
            one.transfer.acked = now;
            self.acknowledged += 1;
        }
        self.acknowledged > before
    }

    /// The first message that was generated at a time, has not been delivered, and has not lost a packet.
    fn intact(&mut self, start: Time) -> Option<&mut Open> {
        let is_wanted = |one: &&mut Open| {
            one.transfer.start == start && one.transfer.delivered == Time::NEVER && !one.has_lost
        };
        self.messages.iter_mut().find(is_wanted)
    }

    /// Moves the finished transfers of a flow that may lose packets to `finished`.
    fn take_intact(&mut self, awaits_acks: bool, finished: &mut Vec<Transfer>) {
        self.messages.retain(|one| {
            let Transfer { delivered, acked, .. } = one.transfer;
            let is_over = delivered != Time::NEVER && (!awaits_acks || acked != Time::NEVER);
            finished.extend(is_over.then_some(one.transfer));
            !is_over
        });
        self.acknowledged = self.messages.iter().take_while(|one| one.transfer.acked != Time::NEVER).count();
    }
}

/// The transfers of the hosts of a partition.
#[derive(Debug, Default, Clone, Saved)]
pub(crate) struct Transfers {
    /// Whether receivers acknowledge all data, so a transfer lasts until its last acknowledgement.
    awaits_acks: bool,
    /// Flows with transfers that had not finished at the last sample.
    open: FxHashMap<FlowAddress, OpenTransfers>,
    /// Flows with deliveries or acknowledgements since the last sample.
    changed: Vec<FlowAddress>,
    /// Deliveries of messages from hosts of other partitions since the last sample.
    elsewhere: Vec<(FlowAddress, Time)>,
    /// Present if packets may get lost.
    apart: Option<Apart>,
}

/// Deliveries and losses in a partition since the last sample, if packets may get lost.
#[derive(Debug, Default, Clone, Saved)]
struct Apart {
    /// The flow, the time at which the message was generated, and the time of delivery.
    delivered: Vec<(FlowAddress, Time, Time)>,
    lost: Vec<(FlowAddress, Time)>,
}

impl Transfers {
    /// `may_lose` states whether packets may get lost.
    pub fn new(awaits_acks: bool, may_lose: bool) -> Self {
        Self { awaits_acks, apart: may_lose.then(Apart::default), ..Self::default() }
    }

    /// Whether receivers acknowledge all data.
    pub fn awaits_acks(&self) -> bool {
        self.awaits_acks
    }

    /// Records that a message was generated.
    pub fn begin(&mut self, flow: FlowAddress, class: u16, bytes: u64, start: Time) {
        let FlowAddress { host: from, destination: to, .. } = flow;
        let transfer = Transfer { from, to, class, bytes, start, delivered: Time::NEVER, acked: Time::NEVER };
        let unacked = if self.awaits_acks { bytes } else { 0 };
        self.open.entry(flow).or_default().messages.push_back(Open { transfer, unacked, has_lost: false });
    }

    /// Returns a flow and lists it among those that have changed; `None` if its sender is in another
    /// partition.
    fn change(&mut self, address: FlowAddress) -> Option<&mut OpenTransfers> {
        let flow = self.open.get_mut(&address)?;
        if !std::mem::replace(&mut flow.has_changed, true) {
            self.changed.push(address);
        }
        Some(flow)
    }

    /// Records the delivery of the last byte of a message that was generated at `start`. The time of delivery
    /// may be later than now.
    pub fn deliver(&mut self, address: FlowAddress, start: Time, time: Time) {
        if let Some(apart) = &mut self.apart {
            return apart.delivered.push((address, start, time));
        }
        match self.change(address) {
            Some(flow) => flow.deliver(time),
            None => self.elsewhere.push((address, time)),
        }
    }

    /// Records that a packet of a message, which was generated at `start`, was lost.
    pub fn lose(&mut self, address: FlowAddress, start: Time) {
        if let Some(apart) = &mut self.apart {
            apart.lost.push((address, start));
        }
    }

    /// Records an acknowledgement. If packets may overtake each other, acknowledgements count for the first
    /// messages of their flow. Returns whether a message is now acknowledged completely.
    pub fn acknowledge(&mut self, address: FlowAddress, bytes: u64, now: Time) -> bool {
        self.change(address).is_some_and(|flow| flow.acknowledge(bytes, now))
    }

    /// Moves all finished transfers of the changed flows to `finished`.
    fn finish(&mut self, finished: &mut Vec<Transfer>) {
        for address in std::mem::take(&mut self.changed) {
            let Some(flow) = self.open.get_mut(&address) else { continue };
            flow.has_changed = false;
            if self.apart.is_some() {
                flow.take_intact(self.awaits_acks, finished);
                if flow.messages.is_empty() {
                    self.open.remove(&address);
                }
                continue;
            }
            let acknowledged = if self.awaits_acks { flow.acknowledged } else { flow.messages.len() };
            let count = flow.delivered.min(acknowledged);
            finished.extend(flow.messages.drain(..count).map(|one| one.transfer));
            flow.delivered -= count;
            flow.acknowledged = flow.acknowledged.saturating_sub(count);
            if flow.messages.is_empty() {
                self.open.remove(&address);
            }
        }
    }

    /// Removes and returns the transfers that have finished in any partition since the last sample, in an
    /// order that does not depend on the partitions.
    pub fn take_finished<'a>(partitions: impl Iterator<Item = &'a mut Self>) -> Vec<Transfer> {
        let mut partitions: Vec<&mut Self> = partitions.collect();
        let elsewhere: Vec<_> =
            partitions.iter_mut().flat_map(|own| std::mem::take(&mut own.elsewhere)).collect();
        for (address, time) in elsewhere {
            if let Some(own) = partitions.iter_mut().find(|own| own.open.contains_key(&address)) {
                own.deliver(address, Time::ZERO, time);
            }
        }
        Self::bring_together(&mut partitions);
        let mut finished = Vec::new();
        partitions.iter_mut().for_each(|own| own.finish(&mut finished));
        finished.sort_unstable_by_key(Transfer::order);
        finished
    }

    /// Applies the deliveries and losses of all partitions, if packets may get lost.
    fn bring_together(partitions: &mut [&mut Self]) {
        let all: Vec<Apart> =
            partitions.iter_mut().filter_map(|own| own.apart.as_mut()).map(std::mem::take).collect();
        let mut apply = |address: FlowAddress, start: Time, delivered: Option<Time>| {
            let own = partitions.iter_mut().find(|own| own.open.contains_key(&address));
            if let Some(one) = own.and_then(|own| own.change(address)).and_then(|flow| flow.intact(start)) {
                match delivered {
                    Some(time) => one.transfer.delivered = time,
                    None => one.has_lost = true,
                }
            }
        };
        for &(address, start) in all.iter().flat_map(|apart| &apart.lost) {
            apply(address, start, None);
        }
        for &(address, start, time) in all.iter().flat_map(|apart| &apart.delivered) {
            apply(address, start, Some(time));
        }
    }

    /// The transfers that have not finished, in no particular order.
    pub fn open(&self) -> impl Iterator<Item = &Transfer> {
        self.open.values().flat_map(|flow| &flow.messages).map(|one| &one.transfer)
    }
}

impl Transfer {
    /// The key by which transfers are sorted in results.
    pub fn order(&self) -> impl Ord + use<> {
        (self.start, self.from, self.to, self.class, self.bytes, self.delivered, self.acked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: FlowAddress = FlowAddress { host: 1, source: 0, destination: 2 };
    const OTHER: FlowAddress = FlowAddress { host: 0, source: 0, destination: 2 };

    fn times(finished: &[Transfer]) -> Vec<[u64; 3]> {
        finished.iter().map(|one| [one.start.0, one.delivered.0, one.acked.0]).collect()
    }

    #[test]
    fn transfers_last_until_delivery_or_the_last_acknowledgement() {
        let mut silent = Transfers::new(false, false);
        silent.begin(FLOW, 0, 100, Time(1));
        silent.begin(FLOW, 0, 50, Time(2));
        silent.deliver(FLOW, Time(0), Time(7));
        assert_eq!(silent.open().filter(|one| one.delivered == Time::NEVER).count(), 1);
        silent.deliver(FLOW, Time(0), Time(9));
        let finished = Transfers::take_finished([&mut silent].into_iter());
        assert_eq!(times(&finished), [[1, 7, u64::MAX], [2, 9, u64::MAX]]);

        let mut acked = Transfers::new(true, false);
        acked.begin(FLOW, 0, 100, Time(1));
        acked.begin(FLOW, 0, 50, Time(2));
        acked.acknowledge(FLOW, 60, Time(6));
        acked.deliver(FLOW, Time(0), Time(7));
        acked.deliver(FLOW, Time(0), Time(8));
        assert!(Transfers::take_finished([&mut acked].into_iter()).is_empty());
        acked.acknowledge(FLOW, 70, Time(9));
        acked.acknowledge(FLOW, 20, Time(11));
        acked.acknowledge(FLOW, 99, Time(12));
        let finished = Transfers::take_finished([&mut acked].into_iter());
        assert_eq!(times(&finished), [[1, 7, 9], [2, 8, 11]]);
        assert_eq!(acked.open().count(), 0);
    }

    #[test]
    fn deliveries_that_are_reported_early_keep_the_order_of_messages() {
        let mut transfers = Transfers::new(false, false);
        (1..=4).for_each(|start| transfers.begin(FLOW, 0, 100, Time(start)));
        for time in [10, 40, 20, 30] {
            transfers.deliver(FLOW, Time(0), Time(time));
        }
        let finished = Transfers::take_finished([&mut transfers].into_iter());
        assert_eq!(times(&finished), [[1, 10], [2, 20], [3, 30], [4, 40]].map(|[a, b]| [a, b, u64::MAX]));
        assert_eq!(transfers.open().count(), 0);
    }

    #[test]
    fn deliveries_in_other_partitions_count_at_the_next_sample() {
        let (mut sender, mut receiver) = (Transfers::new(false, false), Transfers::new(false, false));
        sender.begin(FLOW, 3, 100, Time(5));
        sender.begin(OTHER, 3, 100, Time(5));
        receiver.deliver(FLOW, Time(0), Time(9));
        receiver.deliver(OTHER, Time(0), Time(9));
        let finished = Transfers::take_finished([&mut receiver, &mut sender].into_iter());
        assert_eq!(
            finished.iter().map(|one| (one.from, one.delivered)).collect::<Vec<_>>(),
            [(0, Time(9)), (1, Time(9))]
        );
        assert!(sender.open().count() == 0 && receiver.elsewhere.is_empty());
    }

    /// The first message loses two packets, so the delivery of its last packet does not finish it.
    #[test]
    fn transfers_that_lost_packets_do_not_finish() {
        let lossy = || Transfers::new(false, true);
        let (mut sender, mut link, mut receiver) = (lossy(), lossy(), lossy());
        (1..=3).for_each(|start| sender.begin(FLOW, 0, 100, Time(start)));
        link.lose(FLOW, Time(1));
        link.lose(FLOW, Time(1));
        receiver.deliver(FLOW, Time(1), Time(7));
        receiver.deliver(FLOW, Time(3), Time(9));
        let mut finished = || Transfers::take_finished([&mut receiver, &mut link, &mut sender].into_iter());
        assert_eq!(times(&finished()), [[3, 9, u64::MAX]]);
        assert_eq!(times(&finished()), [[0; 3]; 0]);
        receiver.deliver(FLOW, Time(2), Time(11));
        let finished = Transfers::take_finished([&mut sender, &mut receiver].into_iter());
        assert_eq!(times(&finished), [[2, 11, u64::MAX]]);
        assert_eq!(sender.open().map(|one| one.start).collect::<Vec<_>>(), [Time(1)]);
    }
}
