//! Parallel applications: ranks that compute, hand messages to their hosts and wait for others' messages.
//!
//! ```text
//!  trace -> ranks -> message -> flow of the host -> network -> host -> message -> ranks
//! ```
//!
//! What a rank does when is the executor's ([`silvan_trace::execute::Ranks`]); what a message takes is the
//! network's. All messages from one rank to another are one flow, as they have one queue pair; they arrive in
//! the order in which they were handed over, so that the last packet of one tells which it was. A message is there when
//! its last packet has been drained. Ranks on one host meet no network.
//!
//! | message | packets |
//! | --- | --- |
//! | eager | its bytes |
//! | rendezvous | a request of no bytes, a permission of no bytes back, then its bytes |
//! | of no bytes | one packet of the size of a control packet |

mod closed;
mod ideal;
mod tables;

use std::borrow::BorrowMut;
use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use silvan_engine::{Event, Time};
use silvan_trace::Trace;
use silvan_trace::execute::{Agenda, Carrier, Execution, Parcel, Part, Ranks};

use crate::core::Core;
use crate::host::{Host, Spent};
use crate::link::{Class, key};
use crate::port::Port;
use crate::traffic::source::Message;

pub(crate) use closed::Closed;
pub(crate) use ideal::{Ideal, Way};
pub(crate) use tables::into_tables;

/// The most messages that are kept for the table of messages, of all jobs together.
const MOST_MESSAGES: usize = 2_000_000;

/// A parcel on its way.
#[derive(Debug, Clone, Copy)]
struct Travel {
    parcel: Parcel,
    /// Its row in the log; none for those that are not logged.
    row: Option<u32>,
}

/// Parcels from one rank to another, in the order in which they were handed over.
#[derive(Debug, Default)]
struct Lane {
    parcels: VecDeque<Travel>,
    /// How many of them have wholly left.
    left: usize,
}

/// What is known of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Logged {
    pub from: u32,
    pub to: u32,
    pub bytes: u64,
    /// When the rank handed it over.
    pub handed: Time,
    /// When its last byte had left the host.
    pub left: Option<Time>,
    /// When it was there.
    pub there: Option<Time>,
    /// How long it takes on an empty network.
    pub alone: Time,
}

/// What the sender of a job's hosts spent its time with until the job had finished.
#[derive(Debug, Clone, Copy, Default)]
struct AtHost {
    host: u32,
    spent: Option<Spent>,
}

/// Where a rank is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub host: u32,
    /// The first of its sources there: one for each rank of another host.
    pub source: u16,
    /// Its number among the ranks of its job on that host.
    pub slot: u16,
}

/// Which flow a packet is of: its source host, the source there, its destination.
type FlowKey = (u32, u16, u32);

/// Everything the network needs to know of a job before it runs.
#[derive(Debug)]
pub(crate) struct Setup {
    pub name: String,
    pub class: u16,
    pub ranks: Ranks<Arc<Trace>>,
    /// Per rank.
    pub places: Vec<Place>,
    pub ideal: Ideal,
    /// What came of it on an ideal crossbar.
    pub alone: Execution,
    pub start: Time,
    /// Payload of a message of no bytes.
    pub least: u64,
}

/// A job at work.
#[derive(Debug)]
pub(crate) struct Running {
    setup: Setup,
    lanes: FxHashMap<FlowKey, Lane>,
    hosts: Vec<AtHost>,
    /// When the last rank had finished.
    done: Option<Time>,
    /// How many times as long as on an empty network messages took, in thousandths.
    slowdowns: hdrhistogram::Histogram<u64>,
    /// Their sum.
    slowdown_sum: u64,
    sent_bytes: Vec<u64>,
    received_bytes: Vec<u64>,
    log: Vec<Logged>,
    /// Messages beyond those of the log.
    unlogged: u64,
    /// Why it does not go on.
    failed: Option<String>,
}

/// All jobs of a network.
#[derive(Debug)]
pub(crate) struct Jobs {
    list: Vec<Running>,
    first_class: u16,
    /// When the event for what the ranks do next is; none if there is none.
    scheduled: Option<Time>,
    /// Rows left in the log.
    room: usize,
    outbox: Vec<Parcel>,
}

/// Collects what ranks hand over. What stays on a host is there at once.
struct Outbox<'a> {
    places: &'a [Place],
    parcels: &'a mut Vec<Parcel>,
}

impl Carrier for Outbox<'_> {
    fn carry(&mut self, now: u64, parcel: &Parcel, agenda: &mut Agenda) {
        if self.places[parcel.from as usize].host == self.places[parcel.to as usize].host {
            agenda.arrives(now, parcel);
            agenda.left(now, parcel);
        } else {
            self.parcels.push(*parcel);
        }
    }
}

impl Running {
    fn new(setup: Setup) -> Option<Self> {
        let mut hosts: Vec<AtHost> =
            setup.places.iter().map(|place| AtHost { host: place.host, spent: None }).collect();
        hosts.sort_by_key(|at| at.host);
        hosts.dedup_by_key(|at| at.host);
        let ranks = setup.places.len();
        let slowdowns = hdrhistogram::Histogram::new_with_bounds(1, 1 << 44, 2).ok()?;
        // One without operations has finished before it starts.
        let done = setup.ranks.is_done().then_some(setup.start);
        Some(Self {
            setup,
            lanes: FxHashMap::default(),
            hosts,
            done,
            slowdowns,
            slowdown_sum: 0,
            sent_bytes: vec![0; ranks],
            received_bytes: vec![0; ranks],
            log: Vec::new(),
            unlogged: 0,
            failed: None,
        })
    }

    /// When its ranks want to do something next.
    fn next(&self) -> Option<Time> {
        if self.failed.is_some() { None } else { self.setup.ranks.next() }
    }

    /// Whether nothing more will come of it.
    fn is_over(&self) -> bool {
        self.done.is_some() || self.failed.is_some()
    }

    /// Has the ranks do what is due, and gives hosts what they hand over.
    fn step<H: BorrowMut<Host>>(
        &mut self,
        core: &mut Core,
        hosts: &mut [H],
        (outbox, room): (&mut Vec<Parcel>, &mut usize),
    ) {
        let Setup { ranks, places, .. } = &mut self.setup;
        let mut carrier = Outbox { places, parcels: outbox };
        if let Err(error) = ranks.advance(core.now, &mut carrier) {
            self.failed = Some(error.to_string());
        }
        for parcel in outbox.drain(..) {
            self.hand_over(core, hosts, parcel, room);
        }
        if self.setup.ranks.is_done() && self.done.is_none() {
            self.done = Some(core.now);
            for at in &mut self.hosts {
                let host: &Host = hosts[at.host as usize].borrow();
                at.spent = host.hours.as_ref().map(|hours| hours.until(core.now));
            }
        }
    }

    fn hand_over<H: BorrowMut<Host>>(
        &mut self,
        core: &mut Core,
        hosts: &mut [H],
        parcel: Parcel,
        room: &mut usize,
    ) {
        let places = &self.setup.places;
        let (Place { host: from, source, .. }, Place { host: to, slot, .. }) =
            (places[parcel.from as usize], places[parcel.to as usize]);
        let source = source + slot;
        let row = if matches!(parcel.part, Part::Whole | Part::Data) {
            self.sent_bytes[parcel.from as usize] += parcel.bytes;
            self.log(core.now, &parcel, (from, to), room)
        } else {
            None
        };
        self.lanes.entry((from, source, to)).or_default().parcels.push_back(Travel { parcel, row });
        let left = parcel.bytes.max(self.setup.least);
        let message = Message { destination: to, created: core.now, left, hot: false };
        hosts[from as usize].borrow_mut().feed(core, source, message);
    }

    /// A row for a message, if there is room.
    fn log(&mut self, now: Time, parcel: &Parcel, (from, to): (u32, u32), room: &mut usize) -> Option<u32> {
        if *room == 0 {
            self.unlogged += 1;
            return None;
        }
        *room -= 1;
        let alone = self.setup.ideal.message(from, to, parcel.bytes);
        self.log.push(Logged {
            from: parcel.from,
            to: parcel.to,
            bytes: parcel.bytes,
            handed: now,
            left: None,
            there: None,
            alone,
        });
        Some((self.log.len() - 1) as u32)
    }

    /// The first message of a flow that has not left did so, at `end`.
    fn left(&mut self, flow: FlowKey, end: Time) {
        let Some(lane) = self.lanes.get_mut(&flow) else { return };
        let Some(travel) = lane.parcels.get(lane.left) else { return };
        lane.left += 1;
        self.setup.ranks.agenda().left(end.0, &travel.parcel);
        if let Some(row) = travel.row {
            self.log[row as usize].left = Some(end);
        }
    }

    /// The first message of a flow is there.
    fn arrived(&mut self, flow: FlowKey, now: Time) {
        let Some(lane) = self.lanes.get_mut(&flow) else { return };
        let Some(Travel { parcel, row }) = lane.parcels.pop_front() else { return };
        debug_assert!(lane.left > 0, "what is there has left");
        lane.left = lane.left.saturating_sub(1);
        self.setup.ranks.agenda().arrives(now.0, &parcel);
        if matches!(parcel.part, Part::Whole | Part::Data) {
            self.received_bytes[parcel.to as usize] += parcel.bytes;
        }
        if let Some(row) = row {
            let logged = &mut self.log[row as usize];
            logged.there = Some(now);
            let thousandths = 1000.0 * (now - logged.handed).0 as f64 / logged.alone.0.max(1) as f64;
            let thousandths = (thousandths.round() as u64).max(1);
            self.slowdowns.saturating_record(thousandths);
            self.slowdown_sum = self.slowdown_sum.saturating_add(thousandths);
        }
    }
}

impl Jobs {
    /// Jobs whose classes follow each other; none without any.
    pub fn new(setups: Vec<Setup>) -> Option<Self> {
        let first_class = setups.first()?.class;
        let list = setups.into_iter().map(Running::new).collect::<Option<Vec<_>>>()?;
        Some(Self { list, first_class, scheduled: None, room: MOST_MESSAGES, outbox: Vec::new() })
    }

    /// Lets hosts account for their time, and plans the first event.
    pub fn start<H: BorrowMut<Host>>(&mut self, core: &mut Core, hosts: &mut [H]) {
        core.meters.jobs_from = self.first_class;
        for at in self.list.iter().flat_map(|job| &job.hosts) {
            hosts[at.host as usize].borrow_mut().hours = Some(Box::default());
        }
        self.schedule(core);
    }

    /// Whether all have finished, or cannot go on.
    pub fn are_over(&self) -> bool {
        self.list.iter().all(Running::is_over)
    }

    /// What came of each.
    pub fn close<H: BorrowMut<Host>>(self, hosts: &[H], now: Time) -> Vec<Closed> {
        self.list.into_iter().map(|job| Closed::new(job, hosts, now)).collect()
    }

    fn running(&mut self, class: u16) -> &mut Running {
        &mut self.list[usize::from(class - self.first_class)]
    }

    /// What ranks do at this instant: after all that arrives, before hosts send.
    #[inline]
    pub fn step<H: BorrowMut<Host>>(&mut self, core: &mut Core, hosts: &mut [H]) {
        if self.scheduled.is_some_and(|time| time <= core.now) || !core.meters.messages_in.is_empty() {
            self.do_step(core, hosts);
        }
    }

    fn do_step<H: BorrowMut<Host>>(&mut self, core: &mut Core, hosts: &mut [H]) {
        let mut messages = std::mem::take(&mut core.meters.messages_in);
        for (class, flow) in messages.drain(..) {
            self.running(class).arrived(flow, core.now);
        }
        core.meters.messages_in = messages;
        let Self { list, room, outbox, .. } = self;
        for job in list {
            if job.next().is_some_and(|time| time <= core.now) {
                job.step(core, hosts, (outbox, room));
            }
        }
        if self.scheduled.is_some_and(|time| time <= core.now) {
            self.scheduled = None;
        }
        self.schedule(core);
    }

    /// Takes note of what has left, after hosts have sent.
    #[inline]
    pub fn note(&mut self, core: &mut Core) {
        if !core.meters.messages_out.is_empty() {
            self.do_note(core);
        }
    }

    fn do_note(&mut self, core: &mut Core) {
        let mut messages = std::mem::take(&mut core.meters.messages_out);
        for (class, flow, end) in messages.drain(..) {
            self.running(class).left(flow, end);
        }
        core.meters.messages_out = messages;
        self.schedule(core);
    }

    /// Plans an event for what ranks do next, unless there is one by then.
    fn schedule(&mut self, core: &mut Core) {
        let Some(next) = self.list.iter().filter_map(Running::next).min() else { return };
        if self.scheduled.is_none_or(|time| next < time) {
            self.scheduled = Some(next);
            core.queue.push(Event { time: next, key: key(Class::Job, 0, Port::FIRST), data: 0 });
        }
    }
}
