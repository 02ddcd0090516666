//! Deliveries that are known in advance: when a packet starts to cross its last link, the time at which its host will
//! have drained it is known. These times are needed if traffic waits for a number of deliveries and there are several
//! partitions.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use silvan_engine::Time;
use silvan_engine::saved::Saved;

use crate::order::Order;
use crate::packet::Packet;
use crate::sink::HostSink;

/// The receiving side of a host.
#[derive(Debug, Saved)]
struct ReceivingHost {
    sink: HostSink,
    /// Present if packets may overtake each other.
    order: Option<Order>,
}

/// The deliveries to the hosts of a partition.
#[derive(Debug, Saved)]
pub(crate) struct Ahead {
    /// Indexed by the host's place in the partition.
    hosts: Vec<ReceivingHost>,
    /// The times of future deliveries.
    due: BinaryHeap<Reverse<Time>>,
    past: u64,
}

impl Ahead {
    /// Takes the empty input buffer and the packet order of each host, ordered by the host's place in the partition. Must
    /// be called before the first event.
    pub fn new(hosts: impl Iterator<Item = (HostSink, Option<Order>)>) -> Self {
        let hosts = hosts.map(|(sink, order)| ReceivingHost { sink, order });
        Self { hosts: hosts.collect(), due: BinaryHeap::new(), past: 0 }
    }

    /// Records that the tail of a data packet with this packet number will arrive at a host at `arrival`.
    pub fn expect(&mut self, host: u32, packet: (u64, &Packet), arrival: Time) {
        let ReceivingHost { sink, order } = &mut self.hosts[host as usize];
        let head_at = arrival.saturating_sub(packet.1.tail_lag);
        let done = sink.drained_at(packet.1, (head_at, arrival));
        let count = order.as_mut().map_or(1, |order| order.let_go(packet.0, packet.1, done));
        self.due.extend(std::iter::repeat_n(Reverse(done), count));
    }

    /// Number of all known deliveries, including past ones.
    pub fn known(&self) -> u64 {
        self.past + self.due.len() as u64
    }

    /// The time of the first delivery that is not past.
    pub fn next(&self) -> Option<Time> {
        self.due.peek().map(|&Reverse(time)| time)
    }

    /// Treats deliveries before this time as past from now on.
    pub fn pass(&mut self, time: Time) {
        while self.next().is_some_and(|due| due < time) {
            self.due.pop();
            self.past += 1;
        }
    }

    /// The number of past deliveries, and the times of those before `end`.
    pub fn before(&self, end: Time) -> (u64, Vec<Time>) {
        let due = self.due.iter().map(|&Reverse(time)| time).filter(|&time| time < end);
        (self.past, due.collect())
    }
}
