//! An ideal crossbar whose interfaces send several messages at the same time.
//!
//! A host with messages for several ranks sends one packet of each message after the other. This model has
//! the same result: `n` messages of one packet each leave one after the other, and long messages share the
//! rate of the link. The model counts whole rounds instead of single packets, so its run time does not depend
//! on the sizes of messages. Messages from one rank to another are sent one after the other, because they use
//! one queue pair.
//!
//! A receiving interface accepts messages one after the other, in the order in which their first bytes arrive. A
//! message has arrived when both its sender and this interface have finished with it.

use std::collections::HashMap;

use silvan_engine::Time;
use silvan_engine::saved::Saved;

use super::loggp::Cost;
use super::ranks::{Agenda, Carrier, Parcel, Part, later};
use super::turns::{Sending, Turns};
use crate::trace::SWITCH_NIC;

/// An interface of a host.
#[derive(Debug, Default, Saved)]
struct Interface {
    /// The messages that it sends.
    turns: Turns,
    /// The time at which the packet that is being sent started; without a meaning if there is none. While there is one, `next`
    /// tells states apart.
    #[saved(latest)]
    since: u64,
    /// The time at which the next message will be complete, unless another one is posted first.
    #[saved(time)]
    next: Option<u64>,
    /// The time at which the interface will have received all messages that have arrived so far.
    #[saved(past)]
    incoming: u64,
}

impl Interface {
    /// Advances to the time `now`, before which no message is complete: all packets are full ones.
    fn progress(&mut self, now: u64) {
        let round = self.turns.round();
        if round == 0 {
            self.since = now;
            return;
        }
        // A message whose last packet ends at this instant keeps this packet.
        let rounds = (u128::from(now - self.since) / round).min(u128::from(self.turns.full_rounds()));
        self.turns.skip(rounds as u64);
        self.since = later(self.since, rounds * round);
        let passed = self.turns.advance(u128::from(now - self.since));
        self.since = later(self.since, passed);
    }

    /// Schedules the end of the message that will be complete next.
    fn plan(&mut self, agenda: &mut Agenda) {
        self.next = self.turns.next().map(|(time, parcel)| {
            let end = later(self.since, time);
            agenda.sent(end, &parcel);
            end
        });
    }

    /// Removes the message whose last packet has just left. Returns it, and the next message of its pair of ranks.
    fn complete(&mut self, now: u64) -> Option<(Sending, Option<Sending>)> {
        self.progress(now);
        let done = self.turns.complete()?;
        self.since = now;
        Some(done)
    }
}

/// The state of the interfaces of a crossbar.
#[derive(Debug, Default, Saved)]
pub struct Interfaces {
    /// Interfaces by host and number.
    interfaces: HashMap<(u32, u8), Interface>,
    /// For messages that only the sender or only the receiver has finished: the time at which that side
    /// finished.
    halves: HashMap<Parcel, Time>,
}

impl Interfaces {
    fn interface(&mut self, host: u32, parcel: &Parcel) -> &mut Interface {
        let nic = if parcel.nic == SWITCH_NIC { 0 } else { parcel.nic };
        self.interfaces.entry((host, nic)).or_default()
    }

    /// Records that the sender or the receiver finishes a message at `time`. The other side may have finished already.
    fn is_done(&mut self, time: u64, parcel: &Parcel, agenda: &mut Agenda) {
        match self.halves.remove(parcel) {
            Some(other) => agenda.arrives(time.max(other.0), parcel),
            None => {
                self.halves.insert(*parcel, Time(time));
            }
        }
    }

    /// Accepts a parcel from a host.
    pub(super) fn carry(
        &mut self,
        now: u64,
        (host, cost): (u32, Cost),
        parcel: &Parcel,
        agenda: &mut Agenda,
    ) {
        if parcel.part == Part::Permission {
            return agenda.arrives(later(now, u128::from(cost.latency)), parcel);
        }
        let interface = self.interface(host, parcel);
        interface.progress(now);
        if interface.turns.push(Sending { parcel: *parcel, cost }) {
            agenda.head(later(now, u128::from(cost.latency)), parcel);
        }
        interface.plan(agenda);
    }

    /// The host of the sender of a parcel may have sent a message completely.
    pub(super) fn sent(&mut self, now: u64, host: u32, parcel: &Parcel, agenda: &mut Agenda) {
        let interface = self.interface(host, parcel);
        // Ignore an outdated end: another message has been posted since it was scheduled.
        if interface.next != Some(now) {
            return;
        }
        let Some((Sending { parcel, cost }, next)) = interface.complete(now) else { return };
        if let Some(next) = next {
            agenda.head(later(now, u128::from(next.cost.latency)), &next.parcel);
        }
        interface.plan(agenda);
        let tail = (u128::from(now) + cost.span).saturating_sub(cost.sending) as u64;
        agenda.left(tail.max(now), &parcel);
        self.is_done(later(tail, u128::from(cost.latency)).max(now), &parcel, agenda);
    }

    /// The first byte of a parcel arrives at a host.
    pub(super) fn head(&mut self, now: u64, (host, cost): (u32, Cost), parcel: &Parcel, agenda: &mut Agenda) {
        let interface = self.interface(host, parcel);
        let start = now.max(interface.incoming);
        interface.incoming = later(start, cost.receiving);
        self.is_done(later(start, cost.span), parcel, agenda);
    }
}

/// The crossbar that this module describes.
#[derive(Debug)]
pub struct Interleaved<C> {
    /// The host of each rank.
    hosts: Vec<u32>,
    cost: C,
    interfaces: Interfaces,
}

impl<C: Fn(&Parcel) -> Cost> Interleaved<C> {
    /// Creates a crossbar; `hosts` gives the host of each rank. Messages within a host are those of [`super::Machines`].
    pub fn new(hosts: Vec<u32>, cost: C) -> Self {
        Self { hosts, cost, interfaces: Interfaces::default() }
    }
}

impl<C: Fn(&Parcel) -> Cost> Carrier for Interleaved<C> {
    fn carry(&mut self, now: u64, parcel: &Parcel, agenda: &mut Agenda) {
        self.interfaces.carry(now, (self.hosts[parcel.from as usize], (self.cost)(parcel)), parcel, agenda);
    }

    fn sent(&mut self, now: u64, parcel: &Parcel, agenda: &mut Agenda) {
        self.interfaces.sent(now, self.hosts[parcel.from as usize], parcel, agenda);
    }

    fn head(&mut self, now: u64, parcel: &Parcel, agenda: &mut Agenda) {
        self.interfaces.head(now, (self.hosts[parcel.to as usize], (self.cost)(parcel)), parcel, agenda);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use silvan_engine::saved::{Reader, Writer};

    use super::*;

    /// A message that is posted at a time.
    #[derive(Debug, Clone, Copy)]
    struct Posted {
        at: u64,
        /// Messages to one rank are sent one after the other.
        to: u32,
        sending: u128,
        packet: u128,
    }

    /// Messages to different ranks with packets of 10 ps. Their last packets may be shorter.
    fn to_different_ranks(posted: &[(u64, u128)]) -> Vec<Posted> {
        let one = |(to, &(at, sending))| Posted { at, to, sending, packet: 10 };
        (0..).zip(posted).map(one).collect()
    }

    fn sending(index: usize, Posted { to, sending, packet, .. }: Posted) -> Sending {
        let parcel =
            Parcel { rank: 0, index: index as u32, part: Part::Whole, from: 0, to, bytes: 1, nic: 0 };
        let packets = sending.div_ceil(packet) as u64;
        let packet = if packets > 1 { packet } else { sending };
        let cost = Cost { latency: 0, span: sending, sending, receiving: sending, packets, packet };
        Sending { parcel, cost }
    }

    /// Adds a message to the queue of its pair of ranks. A new queue has its turn after all others.
    fn post(ring: &mut VecDeque<(u32, VecDeque<(usize, u128)>)>, message: usize, posted: Posted) {
        match ring.iter_mut().find(|(to, _)| *to == posted.to) {
            Some((_, queue)) => queue.push_back((message, posted.sending)),
            None => ring.push_back((posted.to, VecDeque::from([(message, posted.sending)]))),
        }
    }

    /// The times at which messages are complete, computed packet by packet from the definition.
    fn by_packets(posted: &[Posted]) -> Vec<u64> {
        let mut ends = vec![0; posted.len()];
        let (mut ring, mut now, mut next) = (VecDeque::new(), 0, 0);
        while next < posted.len() || !ring.is_empty() {
            if ring.is_empty() {
                now = now.max(posted[next].at);
                post(&mut ring, next, posted[next]);
                next += 1;
            }
            let (message, left) = ring[0].1[0];
            let packet = posted[message].packet;
            let end = now + left.min(packet) as u64;
            // Messages that are posted while a packet is sent precede the rest of its message.
            while next < posted.len() && posted[next].at < end {
                post(&mut ring, next, posted[next]);
                next += 1;
            }
            now = end;
            let (to, mut queue) = ring.pop_front().unwrap();
            if left > packet {
                queue[0].1 -= packet;
            } else {
                ends[message] = now;
                queue.pop_front();
            }
            if !queue.is_empty() {
                ring.push_back((to, queue));
            }
        }
        ends
    }

    /// The same times, computed with the events of the interface. With few messages, it is saved and
    /// restored before some of the events.
    fn by_events(posted: &[Posted]) -> Vec<u64> {
        let (mut interface, mut agenda) = (Interface::default(), Agenda::default());
        let mut ends = vec![0; posted.len()];
        let mut next = 0;
        for event in 0.. {
            let due = posted.get(next).map_or(u64::MAX, |posted| posted.at);
            if event % 7 == 6 && posted.len() < 100 {
                interface = restored(&interface);
            }
            match interface.next.filter(|&end| end <= due) {
                Some(end) => {
                    let (done, _) = interface.complete(end).unwrap();
                    ends[done.parcel.index as usize] = end;
                }
                None if due == u64::MAX => break,
                None => {
                    interface.progress(due);
                    interface.turns.push(sending(next, posted[next]));
                    next += 1;
                }
            }
            interface.plan(&mut agenda);
        }
        ends
    }

    fn restored(interface: &Interface) -> Interface {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        interface.save(&mut writer);
        writer.finish().unwrap();
        Interface::load(&mut Reader::new(bytes.as_slice())).unwrap()
    }

    /// Draws messages to `ranks` ranks whose packets take up to 10 * `packets` ps.
    fn drawn(draw: &mut impl FnMut(u64) -> u64, count: u32, ranks: u64, packets: u64) -> Vec<Posted> {
        let mut at = 0;
        let one = |_| {
            // Avoid the ends of packets, where the result depends on the order of events.
            at += [0, draw(4), draw(50)][draw(3) as usize] * 10;
            let most = [3, 30, 400][draw(3) as usize];
            Posted {
                at: at + u64::from(at > 0) * 3,
                to: draw(ranks) as u32,
                sending: 10 * u128::from(1 + draw(most)),
                packet: 10 * u128::from(1 + draw(packets)),
            }
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn messages_of_one_packet_finish_one_after_the_other() {
        assert_eq!(by_events(&to_different_ranks(&[(0, 10), (0, 10), (0, 7)])), [10, 20, 27]);
        // Two packets and a half, one, and two: 1 2 3 1 3 1.
        assert_eq!(by_events(&to_different_ranks(&[(0, 25), (0, 10), (0, 20)])), [55, 20, 50]);
    }

    #[test]
    fn equal_messages_to_many_ranks_finish_in_the_last_round() {
        let (ranks, packets) = (5_000, 1_000_000);
        let posted = to_different_ranks(&vec![(0, 10 * packets); ranks]);
        let before = 10 * (packets as u64 - 1) * ranks as u64;
        let wanted: Vec<u64> = (1..=ranks as u64).map(|turn| before + 10 * turn).collect();
        assert_eq!(by_events(&posted), wanted);
    }

    #[test]
    fn whole_rounds_are_those_of_single_packets() {
        let mut seed = 1u64;
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for (count, ranks, packets) in [(8, 1 << 20, 1), (8, 4, 3), (60, 1 << 20, 1), (60, 10, 3)] {
            for _ in 0..200 {
                let posted = drawn(&mut draw, count, ranks, packets);
                assert_eq!(by_events(&posted), by_packets(&posted), "{posted:?}");
            }
        }
    }
}
