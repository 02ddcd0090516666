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
//!
//! Each partition has the ranks of its hosts. What a rank does concerns its own host only; see [`mail`] for what
//! partitions tell each other.

mod closed;
mod ideal;
mod mail;
mod running;
mod tables;

use std::borrow::BorrowMut;
use std::sync::Arc;

use silvan_engine::{Event, Time};
use silvan_trace::Trace;
use silvan_trace::execute::{Execution, Parameters, Parcel, Ranks};

use crate::context::Context;
use crate::host::Host;
use crate::link::{Class, key};
use crate::port::Port;

pub(crate) use closed::Closed;
pub(crate) use ideal::{Ideal, Way};
pub(crate) use mail::Mail;
use running::{Room, Running};
pub(crate) use tables::into_tables;

/// The most messages that are kept for the table of messages, of all jobs together.
const MOST_MESSAGES: usize = 2_000_000;

/// A parcel on its way.
#[derive(Debug, Clone, Copy)]
struct Travel {
    parcel: Parcel,
    /// When the rank handed it over.
    handed: Time,
    /// Its row in the log of the partition that it comes from; none for those that are not logged.
    row: Option<u32>,
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

/// Where a rank is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub host: u32,
    /// The partition of that host, and its place there.
    pub at: (u16, u32),
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
    pub trace: Arc<Trace>,
    pub parameters: Parameters,
    /// Per rank.
    pub places: Vec<Place>,
    pub ideal: Ideal,
    /// What came of it on an ideal crossbar.
    pub alone: Execution,
    pub start: Time,
    /// Payload of a message of no bytes.
    pub least: u64,
}

impl Setup {
    /// Its ranks in one partition, before their first operation.
    fn ranks(&self, part: usize) -> Ranks<Arc<Trace>> {
        let has = |rank: u32| usize::from(self.places[rank as usize].at.0) == part;
        Ranks::some(Arc::clone(&self.trace), &self.parameters, self.start, has)
    }
}

/// All jobs of a network, as far as the ranks of one partition are concerned.
#[derive(Debug)]
pub(crate) struct Jobs {
    list: Vec<Running>,
    first_class: u16,
    /// When the event for what the ranks do next is; none if there is none.
    scheduled: Option<Time>,
    room: Room,
    outbox: Vec<Parcel>,
    /// For each partition.
    mail: Vec<Mail>,
}

impl Jobs {
    /// Jobs whose classes follow each other, divided as their hosts are; none without any. Hosts account for their
    /// time from now on, and the first events are planned.
    pub fn start(mut setups: Vec<Setup>, ctx: &mut Context, hosts: &mut [Host]) -> Option<Vec<Self>> {
        let Some(first_class) = setups.first().map(|setup| setup.class) else { return Some(Vec::new()) };
        for place in setups.iter_mut().flat_map(|setup| &mut setup.places) {
            let host = &mut hosts[place.host as usize];
            place.at = (host.part, host.place);
            host.hours = Some(Box::default());
        }
        let setups: Vec<Arc<Setup>> = setups.into_iter().map(Arc::new).collect();
        let parts = ctx.parts.len().max(1);
        let of_part = |part: usize| {
            let running = |setup: &Arc<Setup>| Running::new(Arc::clone(setup), part);
            let list = setups.iter().map(running).collect::<Option<_>>()?;
            let mail = (0..parts).map(|_| Mail::default()).collect();
            let room = Room::new(MOST_MESSAGES);
            let mut jobs = Self { list, first_class, scheduled: None, room, outbox: Vec::new(), mail };
            jobs.schedule(ctx.part_mut(part as u16));
            Some(jobs)
        };
        (0..parts).map(of_part).collect()
    }

    /// Whether all have finished, or cannot go on, given what each partition knows.
    pub fn are_over(parts: &[Self]) -> bool {
        let jobs = parts.first().map_or(0, |jobs| jobs.list.len());
        jobs > 0 && (0..jobs).all(|job| parts.iter().any(|part| part.list[job].is_over()))
    }

    /// What came of each, given what each partition knows.
    pub fn close<H: BorrowMut<Host>>(parts: Vec<Self>, hosts: &[H], now: Time) -> Vec<Closed> {
        let mut parts = parts.into_iter();
        let Some(first) = parts.next() else { return Vec::new() };
        let mut list = first.list;
        for jobs in parts {
            list.iter_mut().zip(jobs.list).for_each(|(job, other)| job.join(other));
        }
        running::trim(&mut list, MOST_MESSAGES);
        list.into_iter().map(|job| Closed::new(job, hosts, now)).collect()
    }

    fn running(&mut self, class: u16) -> (u16, &mut Running, &mut [Mail]) {
        let job = class - self.first_class;
        (job, &mut self.list[usize::from(job)], &mut self.mail)
    }

    /// What ranks do at this instant: after all that arrives, before hosts send.
    #[inline]
    pub fn step<H: BorrowMut<Host>>(&mut self, ctx: &mut Context, hosts: &mut [H]) {
        if self.scheduled.is_some_and(|time| time <= ctx.now) || !ctx.meters.messages_in.is_empty() {
            self.do_step(ctx, hosts);
        }
    }

    #[inline(never)]
    fn do_step<H: BorrowMut<Host>>(&mut self, ctx: &mut Context, hosts: &mut [H]) {
        let mut messages = std::mem::take(&mut ctx.meters.messages_in);
        for (class, flow) in messages.drain(..) {
            let (job, running, mail) = self.running(class);
            running.arrived(flow, ctx.now, (job, mail));
        }
        ctx.meters.messages_in = messages;
        let Self { list, room, outbox, mail, .. } = self;
        for (job, running) in (0..).zip(list) {
            if running.next().is_some_and(|time| time <= ctx.now) {
                running.step(ctx, hosts, (outbox, room), (job, mail));
            }
        }
        if self.scheduled.is_some_and(|time| time <= ctx.now) {
            self.scheduled = None;
        }
        self.schedule(ctx);
    }

    /// Takes note of what has left, after hosts have sent.
    #[inline]
    pub fn note(&mut self, ctx: &mut Context) {
        if !ctx.meters.messages_out.is_empty() {
            self.do_note(ctx);
        }
    }

    fn do_note(&mut self, ctx: &mut Context) {
        let mut messages = std::mem::take(&mut ctx.meters.messages_out);
        for (class, flow, end) in messages.drain(..) {
            self.running(class).1.left(flow, end);
        }
        ctx.meters.messages_out = messages;
        self.schedule(ctx);
    }

    /// Plans an event for what ranks do next, unless there is one by then.
    fn schedule(&mut self, ctx: &mut Context) {
        let Some(next) = self.list.iter().filter_map(Running::next).min() else { return };
        if self.scheduled.is_none_or(|time| next < time) {
            self.scheduled = Some(next);
            ctx.queue.push(Event { time: next, key: key(Class::Job, 0, Port::FIRST), data: 0 });
        }
    }
}
