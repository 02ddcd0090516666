//! Restores the order of a flow's packets if they may overtake each other. The sender numbers the packets,
//! and the receiver delivers them in this order.
//!
//! A packet that arrives before an earlier one of its flow is drained from the input buffer as usual. With
//! delivery in order, it then waits in the host's memory, and counts as delivered when the last missing
//! packet has been drained. With delivery out of order, only the last packet of a message waits, because it
//! completes the message.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;
use silvan_engine::Time;
use silvan_engine::saved::Saved;

use crate::meters::{Meters, Reordering};
use crate::packet::Packet;

/// State of a flow at its receiver.
#[derive(Debug, Default, Saved)]
struct Sequence {
    /// The number of the next packet to deliver.
    next: u64,
    /// The highest number that has arrived, plus one.
    newest: u64,
    /// For each packet from `next` up to the highest number that has arrived, whether it has arrived.
    arrived: VecDeque<bool>,
    /// Packets that wait for an earlier one, with the times at which they had been drained.
    held: BTreeMap<u64, (Time, Packet)>,
}

impl Sequence {
    /// Moves on from the next packet, and adds the packets that waited for it to `ready`.
    fn pass(&mut self, now: Time, ready: &mut Vec<Packet>, held_bytes: &mut u64, tally: &mut Reordering) {
        loop {
            self.arrived.pop_front();
            self.next += 1;
            if self.arrived.front() != Some(&true) {
                return;
            }
            let Some((since, packet)) = self.held.remove(&self.next) else { continue };
            *held_bytes -= u64::from(packet.payload());
            tally.released += 1;
            tally.waited_ps += u128::from((now - since).0);
            ready.push(packet);
        }
    }
}

/// The packet numbers of a host's flows.
#[derive(Debug, Default, Saved)]
pub(crate) struct Order {
    /// Whether packets of throttled flows take the ports of the forwarding tables.
    pub pins_throttled: bool,
    /// Whether the receiver delivers packets out of order, except for the last one of a message.
    accepts: bool,
    /// The number of the next packet to send, for each source and destination.
    sent: FxHashMap<(u16, u32), u64>,
    /// Flows by sending host and source.
    received: FxHashMap<(u32, u16), Sequence>,
    /// Bytes of payload that wait for earlier packets.
    held_bytes: u64,
    /// The packets to deliver; empty between calls.
    ready: Vec<Packet>,
}

impl Order {
    pub fn new(pins_throttled: bool, accepts: bool) -> Self {
        Self { pins_throttled, accepts, ..Self::default() }
    }

    /// An order with the same rules and without packets.
    pub fn fresh(&self) -> Self {
        Self::new(self.pins_throttled, self.accepts)
    }

    /// Returns the number of the next packet from one of this host's sources to a destination.
    #[inline]
    pub fn next_number(&mut self, source: u16, destination: u32) -> u64 {
        let next = self.sent.entry((source, destination)).or_default();
        *next += 1;
        *next - 1
    }

    /// Adds a packet with its number, which was drained at `done`. Afterwards, `ready` contains the packets
    /// to deliver at that time.
    fn take(&mut self, number: u64, packet: &Packet, done: Time, tally: &mut Reordering) {
        let flow = self.received.entry((packet.src, packet.source)).or_default();
        tally.late += u64::from(number < flow.newest);
        flow.newest = flow.newest.max(number + 1);
        if number != flow.next {
            let ahead = number.saturating_sub(flow.next) as usize;
            if flow.arrived.len() <= ahead {
                flow.arrived.resize(ahead + 1, false);
            }
            flow.arrived[ahead] = true;
            if self.accepts && !packet.ends_message() {
                self.ready.push(*packet);
                return;
            }
            flow.held.insert(number, (done, *packet));
            self.held_bytes += u64::from(packet.payload());
            tally.held += 1;
            tally.most_bytes = tally.most_bytes.max(self.held_bytes);
            return;
        }
        self.ready.push(*packet);
        flow.pass(done, &mut self.ready, &mut self.held_bytes, tally);
    }

    /// Stops waiting for packets of a flow, which never arrive, and delivers those that waited for them only.
    pub fn give_up(&mut self, meters: &mut Meters, flow: (u32, u16), missing: &[u64], now: Time) {
        let sequence = self.received.entry(flow).or_default();
        for &number in missing {
            match number.saturating_sub(sequence.next) as usize {
                0 => sequence.pass(now, &mut self.ready, &mut self.held_bytes, &mut meters.reordering),
                ahead => {
                    let length = sequence.arrived.len().max(ahead + 1);
                    sequence.arrived.resize(length, false);
                    sequence.arrived[ahead] = true;
                }
            }
        }
        self.ready.drain(..).for_each(|packet| meters.delivered(&packet, now));
    }

    /// The number of the next packet from one of this host's sources to a destination.
    pub fn next_of(&self, source: u16, destination: u32) -> u64 {
        self.sent.get(&(source, destination)).copied().unwrap_or_default()
    }

    /// Adds a packet that has been drained, and delivers all packets that can be delivered now.
    pub fn deliver(&mut self, meters: &mut Meters, number: u64, packet: &Packet, done: Time) {
        self.take(number, packet, done, &mut meters.reordering);
        self.ready.drain(..).for_each(|packet| meters.delivered(&packet, done));
    }

    /// Adds a packet as [`Self::deliver`] does, and returns the number of packets that can then be delivered.
    pub fn let_go(&mut self, number: u64, packet: &Packet, done: Time) -> usize {
        self.take(number, packet, done, &mut Reordering::default());
        self.ready.drain(..).count()
    }

    /// The number of the next packet to send, for each source and destination.
    pub fn sent(&self) -> impl Iterator<Item = ((u16, u32), u64)> {
        self.sent.iter().map(|(&flow, &number)| (flow, number))
    }

    /// For each flow by sending host and source: the number of the next packet to deliver, and a number that is higher than
    /// those of all packets that have arrived.
    pub fn received(&self) -> impl Iterator<Item = ((u32, u16), u64, u64)> {
        self.received.iter().map(|(&flow, sequence)| {
            let Sequence { next, newest, arrived, held } = sequence;
            let listed = next.saturating_add(arrived.len() as u64);
            let held = held.last_key_value().map_or(0, |(&number, _)| number.saturating_add(1));
            (flow, *next, listed.max(held).max(*newest))
        })
    }

    /// The packets that wait for earlier ones and have not been delivered.
    pub fn held(&self) -> impl Iterator<Item = &Packet> {
        self.received.values().flat_map(|flow| flow.held.values().map(|(_, packet)| packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Contents, Segment};

    fn packet(src: u32, source: u16) -> Packet {
        Packet { src, source, ..Packet::example() }
    }

    #[test]
    fn packets_are_delivered_in_the_order_of_their_numbers() {
        let (mut order, mut tally) = (Order::new(false, false), Reordering::default());
        let mut delivered = Vec::new();
        for (step, number) in [0, 3, 1, 4, 2, 5, 7].into_iter().enumerate() {
            order.take(number, &packet(1, 0), Time(10 * step as u64), &mut tally);
            delivered.push(order.ready.drain(..).count());
            assert_eq!(order.held().count() as u64 * 100, order.held_bytes);
        }
        assert_eq!(delivered, [1, 0, 1, 0, 3, 1, 0]);
        // Packet 3 waited from 10 to 40, and packet 4 from 30 to 40. Packets 1 and 2 arrived after later
        // ones. Packet 7 still waits.
        let Reordering { late, held, released, waited_ps, most_bytes } = tally;
        assert_eq!((late, held, released, waited_ps, most_bytes), (2, 3, 2, 40, 200));
    }

    #[test]
    fn only_the_last_packet_of_a_message_waits_if_packets_are_accepted_out_of_order() {
        let (mut order, mut tally) = (Order::new(false, true), Reordering::default());
        let mut delivered = Vec::new();
        // Packets 3 and 5 are the last ones of their messages.
        for (step, number) in [1, 3, 2, 5, 0, 4].into_iter().enumerate() {
            let is_last = number % 2 == 1 && number > 1;
            let segment = Segment { bytes: 100, created: Time(0), is_last };
            let packet = Packet { contents: Contents::data(segment, Time(0)), ..packet(1, 0) };
            order.take(number, &packet, Time(10 * step as u64), &mut tally);
            delivered.push(order.ready.drain(..).count());
            assert_eq!(order.held().count() as u64 * 100, order.held_bytes);
        }
        assert_eq!(delivered, [1, 0, 1, 0, 2, 2]);
        // Packet 3 waited from 10 to 40, and packet 5 from 30 to 50.
        let Reordering { late, held, released, waited_ps, most_bytes } = tally;
        assert_eq!((late, held, released, waited_ps, most_bytes), (3, 2, 2, 50, 200));
    }

    #[test]
    fn packets_that_never_arrive_are_not_waited_for() {
        let (mut order, mut tally) = (Order::new(false, false), Reordering::default());
        let mut meters = Meters::new(vec![crate::meters::ClassMeter::default()], 16);
        for number in [0, 2, 5] {
            order.take(number, &packet(1, 0), Time(10), &mut tally);
        }
        order.ready.clear();
        // Packet 3 has arrived but has not been drained.
        order.give_up(&mut meters, (1, 0), &[1, 4], Time(30));
        assert_eq!((meters.packets_delivered, order.held().count()), (1, 1), "packet 2 only");
        assert_eq!(order.let_go(3, &packet(1, 0), Time(40)), 2, "packets 3 and 5");
        assert_eq!((order.received().next().map(|flow| flow.1), order.held_bytes), (Some(6), 0));
    }

    #[test]
    fn flows_do_not_wait_for_each_other() {
        let (mut order, mut tally) = (Order::new(false, false), Reordering::default());
        order.take(1, &packet(1, 0), Time(0), &mut tally);
        order.take(0, &packet(1, 1), Time(1), &mut tally);
        order.take(0, &packet(2, 0), Time(2), &mut tally);
        assert_eq!((order.ready.len(), order.held().count(), tally.late), (2, 1, 0));
    }
}
