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

use std::collections::{HashMap, VecDeque};

use silvan_engine::saved::Saved;

use super::loggp::Cost;
use super::ranks::{Agenda, Carrier, Parcel, Part, later};

/// A message that is being sent, or that waits for an earlier message to the same rank.
#[derive(Debug, Saved)]
struct Sending {
    parcel: Parcel,
    cost: Cost,
    /// Number of packets that have not left completely.
    left: u64,
}

impl Sending {
    /// The transmission time of the next packet.
    fn packet(&self) -> u128 {
        match self.left {
            1 => self.cost.sending - self.cost.packet * u128::from(self.cost.packets - 1),
            _ => self.cost.packet,
        }
    }
}

/// An interface of a host.
#[derive(Debug, Default, Saved)]
struct Interface {
    /// The messages of each pair of ranks, if there are any, in the order of their turns. A packet of the first pair is
    /// being sent.
    flows: VecDeque<VecDeque<Sending>>,
    /// The time at which the packet that is being sent started.
    since: u64,
    /// The time at which the next message will be complete, unless another one is posted first.
    next: Option<u64>,
    /// The time at which the interface will have received all messages that have arrived so far.
    incoming: u64,
}

impl Interface {
    /// Advances to the time `now`, before which no message is complete: all packets are full ones.
    fn progress(&mut self, now: u64) {
        let round: u128 = self.flows.iter().map(|flow| flow[0].cost.packet).sum();
        if round == 0 {
            self.since = now;
            return;
        }
        let rounds = u128::from(now - self.since) / round;
        // A message whose last packet ends at this instant keeps this packet.
        let fewest = self.flows.iter().map(|flow| flow[0].left - 1).min().unwrap_or(0);
        let rounds = rounds.min(u128::from(fewest)) as u64;
        self.flows.iter_mut().for_each(|flow| flow[0].left -= rounds);
        self.since = later(self.since, u128::from(rounds) * round);
        while let Some(flow) = self.flows.front_mut().filter(|flow| flow[0].left > 1) {
            let end = later(self.since, flow[0].packet());
            if end > now {
                break;
            }
            flow[0].left -= 1;
            self.since = end;
            self.flows.rotate_left(1);
        }
    }

    /// Schedules the end of the message that will be complete next.
    fn plan(&mut self, agenda: &mut Agenda) {
        let round: u128 = self.flows.iter().map(|flow| flow[0].cost.packet).sum();
        let mut before = 0;
        let ends = self.flows.iter().map(|flow| {
            let (first, start) = (&flow[0], before);
            before += first.cost.packet;
            let last = first.cost.sending - first.cost.packet * u128::from(first.cost.packets - 1);
            (start + u128::from(first.left - 1) * round + last, &first.parcel)
        });
        self.next = ends.min_by_key(|&(end, _)| end).map(|(end, parcel)| {
            let end = later(self.since, end);
            agenda.sent(end, parcel);
            end
        });
    }

    /// Removes the message whose last packet has just left. Returns it, and the next message of its pair of ranks.
    fn complete(&mut self, now: u64) -> Option<(Sending, Option<&Sending>)> {
        self.progress(now);
        let mut flow = self.flows.pop_front()?;
        let done = flow.pop_front()?;
        self.since = now;
        if flow.is_empty() {
            return Some((done, None));
        }
        self.flows.push_back(flow);
        Some((done, self.flows.back().and_then(VecDeque::front)))
    }
}

/// The state of the interfaces of a crossbar.
#[derive(Debug, Default, Saved)]
pub struct Interfaces {
    /// Interfaces by host and number.
    interfaces: HashMap<(u32, u8), Interface>,
    /// For messages that only the sender or only the receiver has finished: the time at which that side
    /// finished.
    halves: HashMap<Parcel, u64>,
}

impl Interfaces {
    fn interface(&mut self, host: u32, parcel: &Parcel) -> &mut Interface {
        self.interfaces.entry((host, parcel.nic)).or_default()
    }

    /// Records that the sender or the receiver finishes a message at `time`. The other side may have finished already.
    fn is_done(&mut self, time: u64, parcel: &Parcel, agenda: &mut Agenda) {
        match self.halves.remove(parcel) {
            Some(other) => agenda.arrives(time.max(other), parcel),
            None => {
                self.halves.insert(*parcel, time);
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
        let pair = |flow: &VecDeque<Sending>| (flow[0].parcel.from, flow[0].parcel.to);
        let sending = Sending { parcel: *parcel, cost, left: cost.packets };
        match interface.flows.iter().position(|flow| pair(flow) == (parcel.from, parcel.to)) {
            Some(at) => interface.flows[at].push_back(sending),
            None => {
                agenda.head(later(now, u128::from(cost.latency)), parcel);
                interface.flows.push_back(VecDeque::from([sending]));
            }
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
        let Some((Sending { parcel, cost, .. }, next)) = interface.complete(now) else { return };
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
    use super::*;

    /// A message with packets of 10 ps. Its last packet may be shorter.
    fn sending(to: u32, sending: u128) -> Sending {
        let parcel = Parcel { rank: 0, index: to, part: Part::Whole, from: 0, to, bytes: 1, nic: 0 };
        let packets = sending.div_ceil(10) as u64;
        let packet = if packets > 1 { 10 } else { sending };
        let cost = Cost { latency: 0, span: sending, sending, receiving: sending, packets, packet };
        Sending { parcel, cost, left: packets }
    }

    /// The times at which messages with the given posting times and lengths are complete, computed packet by
    /// packet from the definition. A new message has its turn after all others.
    fn by_packets(posted: &[(u64, u128)]) -> Vec<u64> {
        let mut ends = vec![0; posted.len()];
        let (mut ring, mut now, mut next): (VecDeque<(usize, u128)>, u64, usize) = (VecDeque::new(), 0, 0);
        while next < posted.len() || !ring.is_empty() {
            if ring.is_empty() {
                now = now.max(posted[next].0);
            }
            while next < posted.len() && posted[next].0 <= now {
                ring.push_back((next, posted[next].1));
                next += 1;
            }
            let (message, left) = ring[0];
            let end = now + left.min(10) as u64;
            // Messages that are posted while a packet is sent precede the rest of its message.
            while next < posted.len() && posted[next].0 < end {
                ring.push_back((next, posted[next].1));
                next += 1;
            }
            now = end;
            ring.pop_front();
            if left > 10 {
                ring.push_back((message, left - 10));
            } else {
                ends[message] = now;
            }
        }
        ends
    }

    /// The same times, computed with the events of the interface.
    fn by_events(posted: &[(u64, u128)]) -> Vec<u64> {
        let (mut interface, mut agenda) = (Interface::default(), Agenda::default());
        let mut ends = vec![0; posted.len()];
        let mut next = 0;
        loop {
            let due = posted.get(next).map_or(u64::MAX, |&(at, _)| at);
            match interface.next.filter(|&end| end <= due) {
                Some(end) => {
                    let (done, _) = interface.complete(end).unwrap();
                    ends[done.parcel.to as usize] = end;
                }
                None if due == u64::MAX => return ends,
                None => {
                    interface.progress(due);
                    interface.flows.push_back(VecDeque::from([sending(next as u32, posted[next].1)]));
                    next += 1;
                }
            }
            interface.plan(&mut agenda);
        }
    }

    #[test]
    fn messages_of_one_packet_finish_one_after_the_other() {
        assert_eq!(by_events(&[(0, 10), (0, 10), (0, 7)]), [10, 20, 27]);
        // Two packets and a half, one, and two: 1 2 3 1 3 1.
        assert_eq!(by_events(&[(0, 25), (0, 10), (0, 20)]), [55, 20, 50]);
    }

    #[test]
    fn whole_rounds_are_those_of_single_packets() {
        let mut seed = 1u64;
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..500 {
            let mut at = 0;
            let one = |_| {
                // Avoid the ends of packets, where the result depends on the order of events.
                at += [0, draw(4), draw(50)][draw(3) as usize] * 10;
                let most = [3, 30, 400][draw(3) as usize];
                (at + u64::from(at > 0) * 3, 10 * u128::from(1 + draw(most)))
            };
            let posted: Vec<(u64, u128)> = (0..8).map(one).collect();
            assert_eq!(by_events(&posted), by_packets(&posted), "{posted:?}");
        }
    }
}
