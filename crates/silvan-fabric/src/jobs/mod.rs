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
//! Each partition has the ranks of its hosts. What a rank does concerns its own host only; see [`JobMessage`]
//! for what partitions tell each other.

mod closed;
mod ideal;
mod running;
mod tables;

use std::sync::Arc;

use silvan_engine::{Event, Time};
use silvan_trace::Trace;
use silvan_trace::execute::{Execution, Parameters, Parcel, Ranks};

use crate::context::Context;
use crate::host::Host;
use crate::link::{Class, key};
use crate::message::{JobMessage, Mailbox};
use crate::port::Port;

pub(crate) use closed::Closed;
pub(crate) use ideal::{Ideal, Way};
use running::{Room, Running};
pub(crate) use tables::into_tables;

/// Slowdowns cannot be counted.
#[derive(Debug)]
pub(crate) struct NoHistogram;

/// The most messages that are kept for the table of messages, of all jobs together.
const MOST_MESSAGES: usize = 2_000_000;

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
    /// Empty between calls.
    handed: Vec<Parcel>,
}

impl Jobs {
    /// The jobs of a network, whose classes follow each other, in one partition; none without any.
    pub fn new(setups: &[Arc<Setup>], partition: usize) -> Result<Option<Self>, NoHistogram> {
        let Some(first_class) = setups.first().map(|setup| setup.class) else { return Ok(None) };
        let running = |setup: &Arc<Setup>| Running::new(Arc::clone(setup), partition);
        let list = setups.iter().map(running).collect::<Option<_>>().ok_or(NoHistogram)?;
        let room = Room::new(MOST_MESSAGES);
        Ok(Some(Self { list, first_class, scheduled: None, room, handed: Vec::new() }))
    }

    /// Plans the first event.
    pub fn start(&mut self, ctx: &mut Context) {
        self.schedule(ctx);
    }

    /// Whether all have finished, or cannot go on, given what each partition knows.
    pub fn are_over<'a>(partitions: impl Iterator<Item = &'a Self> + Clone) -> bool {
        let jobs = partitions.clone().next().map_or(0, |jobs| jobs.list.len());
        jobs > 0 && (0..jobs).all(|job| partitions.clone().any(|jobs| jobs.list[job].is_over()))
    }

    /// What came of each, given what each partition knows, in a network with these hosts.
    pub fn close<'h>(
        mut partitions: impl Iterator<Item = Self>,
        host: impl Fn(u32) -> &'h Host,
        now: Time,
    ) -> Vec<Closed> {
        let Some(first) = partitions.next() else { return Vec::new() };
        let mut list = first.list;
        for jobs in partitions {
            list.iter_mut().zip(jobs.list).for_each(|(job, other)| job.join(other));
        }
        running::trim(&mut list, MOST_MESSAGES);
        list.into_iter().map(|job| Closed::new(job, &host, now)).collect()
    }

    fn running(&mut self, class: u16) -> (u16, &mut Running) {
        let job = class - self.first_class;
        (job, &mut self.list[usize::from(job)])
    }

    /// Takes in what the ranks of another partition sent.
    pub fn collect(&mut self, mailbox: &mut Mailbox, hosts: &[Host]) {
        for message in mailbox.jobs.drain(..) {
            match message {
                JobMessage::Parcel(job, flow, travel) => self.list[usize::from(job)].expect(flow, travel),
                JobMessage::Received(job, row, time) => self.list[usize::from(job)].is_there(row, time),
                JobMessage::Finished(job, time) => {
                    self.list[usize::from(job)].partition_finished(time, hosts);
                }
            }
        }
    }

    /// What ranks do at this instant: after all that arrives, before hosts send.
    #[inline]
    pub fn step(&mut self, ctx: &mut Context, hosts: &mut [Host]) {
        if self.scheduled.is_some_and(|time| time <= ctx.now) || !ctx.meters.messages_in.is_empty() {
            self.do_step(ctx, hosts);
        }
    }

    #[inline(never)]
    fn do_step(&mut self, ctx: &mut Context, hosts: &mut [Host]) {
        let mut messages = std::mem::take(&mut ctx.meters.messages_in);
        for (class, flow) in messages.drain(..) {
            let (job, running) = self.running(class);
            running.arrived(flow, ctx.now, (job, &mut ctx.outbox));
        }
        ctx.meters.messages_in = messages;
        let Self { list, room, handed, .. } = self;
        for (job, running) in (0..).zip(list) {
            if running.next().is_some_and(|time| time <= ctx.now) {
                running.step(ctx, hosts, (handed, room), job);
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
