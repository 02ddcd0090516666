//! Deliveries that are known before they happen, where traffic waits for a number of them and there are several
//! partitions: when a packet begins to cross the last link, it is known when its host will have drained it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use silvan_engine::Time;

use crate::limiter::Limiter;
use crate::order::Order;
use crate::packet::Packet;

/// What a host will take in.
#[derive(Debug)]
struct Sink {
    drain: Limiter,
    /// Where packets may overtake each other.
    order: Option<Order>,
}

/// The deliveries to the hosts of a partition.
#[derive(Debug)]
pub(crate) struct Ahead {
    /// By the places of hosts.
    sinks: Vec<Sink>,
    /// When packets will have been delivered, without those that are past.
    due: BinaryHeap<Reverse<Time>>,
    past: u64,
}

impl Ahead {
    /// For hosts in the order of their places, each with the limit of its drain and its order of packets, before
    /// anything happens.
    pub fn new(hosts: impl Iterator<Item = (Limiter, Option<Order>)>) -> Self {
        let sinks = hosts.map(|(drain, order)| Sink { drain, order });
        Self { sinks: sinks.collect(), due: BinaryHeap::new(), past: 0 }
    }

    /// A data packet with its number will be in at a host at a time.
    pub fn expect(&mut self, host: u32, packet: (u64, &Packet), arrival: Time) {
        let sink = &mut self.sinks[host as usize];
        let head_at = arrival.saturating_sub(packet.1.tail_lag);
        let done = sink.drain.pass(head_at, packet.1.size).max(arrival);
        let count = sink.order.as_mut().map_or(1, |order| order.let_go(packet.0, packet.1, done));
        self.due.extend(std::iter::repeat_n(Reverse(done), count));
    }

    /// All deliveries that are known, past ones as well.
    pub fn known(&self) -> u64 {
        self.past + self.due.len() as u64
    }

    /// The first delivery that is not past.
    pub fn next(&self) -> Option<Time> {
        self.due.peek().map(|&Reverse(time)| time)
    }

    /// What is before a time is past from now on.
    pub fn pass(&mut self, time: Time) {
        while self.next().is_some_and(|due| due < time) {
            self.due.pop();
            self.past += 1;
        }
    }

    /// How many deliveries are past, and when those are that come before a time.
    pub fn before(&self, end: Time) -> (u64, Vec<Time>) {
        let due = self.due.iter().map(|&Reverse(time)| time).filter(|&time| time < end);
        (self.past, due.collect())
    }
}
