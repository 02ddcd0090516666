//! Parallel applications: ranks that compute, post messages to their hosts and wait for messages from other
//! ranks.
//!
//! ```text
//!  trace -> ranks -> message -> flow of the host -> network -> host -> message -> ranks
//! ```
//!
//! The executor ([`silvan_trace::execute::Ranks`]) determines the actions of ranks and their times; the
//! network determines the duration of messages. All messages from one rank to another form one flow, because
//! they use one queue pair. They arrive in the order of posting, so the last packet of a message identifies
//! the message. A message has arrived when its last packet has been drained. Messages between ranks on one
//! host do not use the network.
//!
//! | message | packets |
//! | --- | --- |
//! | eager | its bytes |
//! | rendezvous | a request of no bytes, a permission of no bytes back, then its bytes |
//! | of zero bytes | one packet of the size of a control packet |
//!
//! Each partition runs the ranks of its hosts. The actions of a rank affect only its own host; see
//! [`JobMessage`] for the messages between partitions.

mod closed;
mod ideal;
mod record;
mod running;

use std::sync::Arc;

use silvan_engine::saved::Saved;
use silvan_engine::{Event, Time};
use silvan_network::port::Port;
use silvan_network::traffic::Sends;
use silvan_trace::Trace;
use silvan_trace::execute::{Copies, Execution, Parameters, Parcel, Ranks};

use crate::context::Context;
use crate::host::Host;
use crate::link::{Class, key};
use crate::message::{JobMessage, Mailbox};
use crate::recorder::RunRecord;

pub(crate) use closed::Closed;
pub use closed::JobSummary;
pub(crate) use ideal::{Ideal, StoredLinks, Way};
use running::{Room, Running};

/// The histogram of slowdowns could not be created.
#[derive(Debug)]
pub(crate) struct NoHistogram;

/// Maximum number of rows in the table of messages, for all jobs together.
const MOST_MESSAGES: usize = 2_000_000;

/// The record of a message.
#[derive(Debug, Clone, Copy, Saved)]
pub(crate) struct Logged {
    pub from: u32,
    pub to: u32,
    pub bytes: u64,
    /// The time at which the rank posted the message.
    pub handed: Time,
    /// The time at which the last byte of the message left the sending host.
    pub left: Option<Time>,
    /// The time at which the whole message had arrived.
    pub there: Option<Time>,
    /// The transfer time of the message on an empty network.
    pub alone: Time,
}

/// The position of a rank in the network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub host: u32,
    /// The host's partition, and the host's position in the partition.
    pub at: (u16, u32),
    /// Index of the rank's first source at that host. The source for a rank on another host is this index
    /// plus that rank's `slot`.
    pub source: u16,
    /// Index of the rank among the ranks of its job on that host.
    pub slot: u16,
}

/// The data about a job that the network needs before the run.
#[derive(Debug)]
pub(crate) struct Setup {
    pub name: String,
    pub class: u16,
    pub trace: Arc<Trace>,
    pub parameters: Parameters,
    /// One entry per rank.
    pub places: Vec<Place>,
    /// Number of reduction units, which are the last ranks.
    pub units: u32,
    pub ideal: Ideal,
    /// The job's execution on an ideal crossbar.
    pub alone: Execution,
    pub start: Time,
    pub sends: Sends,
    /// How messages between ranks of one host are copied.
    pub copies: Copies,
    /// Payload of a message of zero bytes.
    pub least: u64,
}

impl Setup {
    /// Creates the ranks in one partition, before their first operation.
    fn ranks(&self, partition: usize) -> Ranks<Arc<Trace>> {
        let has = |rank: u32| usize::from(self.places[rank as usize].at.0) == partition;
        Ranks::some(Arc::clone(&self.trace), &self.parameters, self.start, has)
    }
}

/// All jobs of a network, with the ranks of one partition.
#[derive(Debug, Saved)]
pub(crate) struct Jobs {
    list: Vec<Running>,
    first_class: u16,
    /// The time for which the next event for an action of a rank is scheduled; `None` if there is no event.
    scheduled: Option<Time>,
    room: Room,
    /// Scratch space, empty between calls.
    handed: Vec<Parcel>,
}

impl Jobs {
    /// Records when the CPUs of ranks are busy.
    pub fn record(&mut self) {
        self.list.iter_mut().for_each(|job| job.ranks.record_busy_times());
    }

    /// Adds when CPUs of ranks were busy, and the messages of ranks, to a recording.
    pub fn add_to(&mut self, recording: &mut RunRecord) {
        record::add(&mut self.list, recording);
    }

    /// Creates the jobs of a network, whose classes are consecutive, in one partition; `None` if there are no
    /// jobs.
    pub fn new(setups: &[Arc<Setup>], partition: usize) -> Result<Option<Self>, NoHistogram> {
        let Some(first_class) = setups.first().map(|setup| setup.class) else { return Ok(None) };
        let running = |setup: &Arc<Setup>| Running::new(Arc::clone(setup), partition);
        let list = setups.iter().map(running).collect::<Option<_>>().ok_or(NoHistogram)?;
        let room = Room::new(MOST_MESSAGES);
        Ok(Some(Self { list, first_class, scheduled: None, room, handed: Vec::new() }))
    }

    /// Schedules the first event.
    pub fn start(&mut self, ctx: &mut Context) {
        self.schedule(ctx);
    }

    /// Whether all jobs have finished or cannot continue, according to all partitions.
    pub fn are_over<'a>(partitions: impl Iterator<Item = &'a Self> + Clone) -> bool {
        let jobs = partitions.clone().next().map_or(0, |jobs| jobs.list.len());
        jobs > 0 && (0..jobs).all(|job| partitions.clone().any(|jobs| jobs.list[job].is_over()))
    }

    /// The results of each job, combined from all partitions.
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

    /// Handles the messages about jobs from another partition.
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

    /// Handles the actions of ranks at this instant, after all arrivals and before hosts send.
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
            if !running.arrived(flow, ctx.now, (job, &mut ctx.outbox)) {
                ctx.report_broken(format!("a message of job {job} has arrived that was not posted"));
            }
        }
        ctx.meters.messages_in = messages;
        let Self { list, room, handed, .. } = self;
        for (job, running) in (0..).zip(list) {
            if running.next().is_some_and(|time| time <= ctx.now) {
                running.release(ctx, hosts, job);
                running.step(ctx, hosts, (handed, room), job);
            }
        }
        if self.scheduled.is_some_and(|time| time <= ctx.now) {
            self.scheduled = None;
        }
        self.schedule(ctx);
    }

    /// Records the messages that have left, after hosts have sent.
    #[inline]
    pub fn note(&mut self, ctx: &mut Context) {
        if !ctx.meters.messages_out.is_empty() {
            self.do_note(ctx);
        }
    }

    fn do_note(&mut self, ctx: &mut Context) {
        let mut messages = std::mem::take(&mut ctx.meters.messages_out);
        for (class, flow, end) in messages.drain(..) {
            let (job, running) = self.running(class);
            if !running.left(flow, end) {
                ctx.report_broken(format!("a message of job {job} has left that was not posted"));
            }
        }
        ctx.meters.messages_out = messages;
        self.schedule(ctx);
    }

    /// Schedules an event for the next action of a rank, unless an event is already scheduled at or before
    /// that time.
    fn schedule(&mut self, ctx: &mut Context) {
        let Some(next) = self.list.iter().filter_map(Running::next).min() else { return };
        if self.scheduled.is_none_or(|time| next < time) {
            self.scheduled = Some(next);
            ctx.queue.push(Event { time: next, key: key(Class::Job, 0, Port::FIRST), data: 0 });
        }
    }
}
