//! An ideal crossbar whose interfaces send several messages at the same time.
//!
//! A host with messages for several ranks sends one packet of each message in turn, so the messages share the rate of
//! the link. This model divides the rate evenly at any time: if `n` messages are being sent, each progresses at one
//! `n`th of the rate. Messages from one rank to another are sent one after the other, because they use one queue pair.
//!
//! A receiving interface accepts messages one after the other, in the order in which their first bytes arrive. A
//! message has arrived when both its sender and this interface have finished with it.

use std::collections::{HashMap, VecDeque};

use super::loggp::{Copies, Cost};
use super::ranks::{Agenda, Carrier, Parcel, Part, later};

/// A message that is being sent, or that waits for an earlier message to the same rank.
#[derive(Debug)]
struct Sending {
    parcel: Parcel,
    cost: Cost,
    /// Time in ps that the rest of the message takes at the full rate.
    left: u128,
}

/// An interface of a host.
#[derive(Debug, Default)]
struct Interface {
    /// The messages of each pair of ranks, if there are any.
    flows: Vec<VecDeque<Sending>>,
    /// The time for which the values of `left` are valid.
    since: u64,
    /// The time at which the next message will be complete, unless another one is posted first.
    next: Option<u64>,
    /// The time at which the interface will have received all messages that have arrived so far.
    incoming: u64,
}

impl Interface {
    /// Advances the first message of each flow to the time `now`.
    fn progress(&mut self, now: u64) {
        let share = u128::from(now - self.since) / self.flows.len().max(1) as u128;
        for flow in &mut self.flows {
            flow[0].left = flow[0].left.saturating_sub(share);
        }
        self.since = now;
    }

    /// Schedules the end of the message that will be complete next.
    fn plan(&mut self, agenda: &mut Agenda) {
        let first = self.flows.iter().map(|flow| &flow[0]).min_by_key(|sending| sending.left);
        self.next = first.map(|sending| {
            let end = later(self.since, sending.left * self.flows.len() as u128);
            agenda.sent(end, &sending.parcel);
            end
        });
    }
}

/// The crossbar that this module describes.
#[derive(Debug)]
pub struct Interleaved<C> {
    /// The host of each rank.
    hosts: Vec<u32>,
    cost: C,
    copies: Copies,
    /// Interfaces by host and number.
    interfaces: HashMap<(u32, u8), Interface>,
    /// For messages that only the sender or only the receiver has finished: the time at which it did.
    halves: HashMap<Parcel, u64>,
}

impl<C: Fn(&Parcel) -> Cost> Interleaved<C> {
    /// Creates a crossbar; `hosts` gives the host of each rank.
    pub fn new(hosts: Vec<u32>, copies: Copies, cost: C) -> Self {
        Self { hosts, cost, copies, interfaces: HashMap::new(), halves: HashMap::new() }
    }

    fn interface(&mut self, rank: u32, number: u8) -> &mut Interface {
        self.interfaces.entry((self.hosts[rank as usize], number)).or_default()
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
}

impl<C: Fn(&Parcel) -> Cost> Carrier for Interleaved<C> {
    fn carry(&mut self, now: u64, parcel: &Parcel, agenda: &mut Agenda) {
        if self.hosts[parcel.from as usize] == self.hosts[parcel.to as usize] {
            return self.copies.carry(now, parcel, agenda);
        }
        let cost = (self.cost)(parcel);
        if parcel.part == Part::Permission {
            return agenda.arrives(later(now, u128::from(cost.latency)), parcel);
        }
        let interface = self.interface(parcel.from, parcel.nic);
        interface.progress(now);
        let pair = |flow: &VecDeque<Sending>| (flow[0].parcel.from, flow[0].parcel.to);
        let sending = Sending { parcel: *parcel, cost, left: cost.sending };
        match interface.flows.iter().position(|flow| pair(flow) == (parcel.from, parcel.to)) {
            Some(at) => interface.flows[at].push_back(sending),
            None => {
                agenda.head(later(now, u128::from(cost.latency)), parcel);
                interface.flows.push(VecDeque::from([sending]));
            }
        }
        interface.plan(agenda);
    }

    fn sent(&mut self, now: u64, parcel: &Parcel, agenda: &mut Agenda) {
        let interface = self.interface(parcel.from, parcel.nic);
        // Ignore an outdated end: another message has been posted since it was scheduled.
        if interface.next != Some(now) {
            return;
        }
        interface.progress(now);
        let mut done = Vec::new();
        for flow in &mut interface.flows {
            if flow[0].left == 0
                && let Some(sending) = flow.pop_front()
            {
                done.push(sending);
                if let Some(next) = flow.front() {
                    agenda.head(later(now, u128::from(next.cost.latency)), &next.parcel);
                }
            }
        }
        interface.flows.retain(|flow| !flow.is_empty());
        interface.plan(agenda);
        for Sending { parcel, cost, .. } in done {
            let tail = (u128::from(now) + cost.span).saturating_sub(cost.sending) as u64;
            agenda.left(tail.max(now), &parcel);
            self.is_done(later(tail, u128::from(cost.latency)).max(now), &parcel, agenda);
        }
    }

    fn head(&mut self, now: u64, parcel: &Parcel, agenda: &mut Agenda) {
        let cost = (self.cost)(parcel);
        let interface = self.interface(parcel.to, parcel.nic);
        let start = now.max(interface.incoming);
        interface.incoming = later(start, cost.receiving);
        self.is_done(later(start, cost.span), parcel, agenda);
    }
}
