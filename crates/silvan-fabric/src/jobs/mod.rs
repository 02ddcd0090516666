//! Applications: what posts messages to hosts and waits for messages. There are two kinds: jobs, whose ranks compute, post
//! messages to their hosts and wait for messages from other ranks; and a program outside the model ([`External`]).
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

mod application;
mod closed;
mod external;
mod failed_ports;
mod failover;
mod ideal;
mod log;
mod record;
mod repeated;
mod running;

use std::sync::Arc;

use silvan_engine::saved::Saved;
use silvan_engine::{Event, Time};
use silvan_network::port::Port;
use silvan_network::traffic::{JobPorts, Piece, PortUse, QueuePairs, Sends};
use silvan_trace::Trace;
use silvan_trace::execute::{Execution, Inside, Parameters, Parcel, Part, Ranks};

use crate::context::Context;
use crate::host::Host;
use crate::link::{Class, key};
use crate::message::{JobMessage, Mailbox};
use crate::packet::FlowAddress;
use crate::recorder::RunRecord;

use application::{Application, Instant, Room};
pub(crate) use closed::Closed;
pub use closed::JobSummary;
pub(crate) use external::{External, ExternalSetup};
pub use external::{ExternalMessage, Fate, Heard};
use failed_ports::FailedPorts;
pub(crate) use failed_ports::PortChange;
pub(crate) use ideal::{Ideal, StoredLinks, Way};
pub(crate) use repeated::{JobsAt, PlannedJobs};
use running::Running;

/// The histogram of slowdowns could not be created.
#[derive(Debug)]
pub(crate) struct NoHistogram;

/// Maximum number of rows in the table of messages, for all jobs together.
const MOST_MESSAGES: usize = 2_000_000;

/// The record of a message.
#[derive(Debug, Clone, Copy, Saved)]
pub(crate) struct Logged {
    /// The number of the send within its rank.
    #[saved(count)]
    pub index: u32,
    pub from: u32,
    pub to: u32,
    pub bytes: u64,
    /// The flow of the message; if several ports carry it, that of the part that arrived last.
    pub flow: FlowAddress,
    /// The time at which the rank posted the message.
    pub handed: Time,
    /// The time at which the last byte of the message left the sending host.
    pub left: Option<Time>,
    /// The time at which the whole message had arrived.
    pub there: Option<Time>,
    /// The transfer time of the message on an empty network.
    #[saved(span)]
    pub alone: Time,
}

impl Logged {
    /// The message, as its rank passed it on, except for its stage and its interface.
    pub fn parcel(&self) -> Parcel {
        let &Self { index, from, to, bytes, .. } = self;
        Parcel { rank: from, index, part: Part::Whole, from, to, bytes, nic: 0 }
    }
}

/// The position of a rank in the network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub host: u32,
    /// The host's partition, and the host's position in the partition.
    pub at: (u16, u32),
    /// Index of the rank's first source at that host. The source for a rank on another host is this index
    /// plus that rank's `slot`, and [`Setup::sharing`] more for each further queue pair.
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
    /// One entry per rank, for the port of [`Job::hosts`](silvan_network::traffic::Job::hosts).
    pub places: Vec<Place>,
    /// The ports of hosts, if some of them have several. Those of a host are in one partition.
    pub ports: Option<Arc<JobPorts>>,
    /// For each rank, the places of all ports from which it may send, if hosts have several.
    pub senders: Vec<Vec<Place>>,
    pub queue_pairs: QueuePairs,
    /// The largest number of ranks on a host.
    pub sharing: u16,
    /// For each rank, its host, or the index of its host among those with several ports.
    pub machine_of: Vec<u32>,
    /// Number of reduction units, which are the last ranks.
    pub units: u32,
    pub ideal: Ideal,
    /// The job's execution on an ideal crossbar.
    pub alone: Execution,
    pub start: Time,
    pub sends: Sends,
    /// How messages between ranks of one host are transported.
    pub inside: Inside,
    /// Payload of a message of zero bytes.
    pub least: u64,
}

impl Setup {
    /// Whether messages move to other ports if their ports fail.
    pub fn moves_messages(&self) -> bool {
        self.ports.as_ref().is_some_and(|ports| ports.failover.is_some())
    }

    /// Creates the ranks in one partition, before their first operation.
    fn ranks(&self, partition: usize) -> Ranks<Arc<Trace>> {
        let has = |rank: u32| usize::from(self.places[rank as usize].at.0) == partition;
        Ranks::some(Arc::clone(&self.trace), &self.parameters, self.start, has)
    }

    /// Whether a pair of ports is left for a parcel.
    fn can_move(&self, &Parcel { from, to, .. }: &Parcel, failed: &FailedPorts) -> bool {
        self.ports.as_ref().is_some_and(|ports| ports.has_live((from, to), |pair| failed.are_live(pair)))
    }

    /// Whether each port takes the next packet of a parcel when it has sent the last one.
    fn sprays(&self) -> bool {
        self.ports.as_ref().is_some_and(|ports| ports.used == PortUse::Spray)
    }

    /// The pieces of a parcel between ranks of different hosts, with the flow of each. Ports that have failed are not used if
    /// there are others.
    fn pieces(&self, parcel: &Parcel, failed: &FailedPorts) -> Vec<(FlowAddress, u64)> {
        let &Parcel { from, to, index, bytes, .. } = parcel;
        let Some(ports) = &self.ports else {
            let (from, to) = (&self.places[from as usize], &self.places[to as usize]);
            let flow = FlowAddress { host: from.host, source: from.source + to.slot, destination: to.host };
            return vec![(flow, bytes)];
        };
        self.with_flows(parcel, ports.pieces((from, to), index, bytes, |pair| failed.are_live(pair)))
    }

    /// The packets with which the ports begin if they take packets in turn; see [`JobPorts::first_packets`].
    fn first_packets(&self, parcel: &Parcel, failed: &FailedPorts) -> Vec<(FlowAddress, u64)> {
        let &Parcel { from, to, index, bytes, .. } = parcel;
        let is_live = |pair| failed.are_live(pair);
        let first = self.ports.as_ref().map(|ports| ports.first_packets((from, to), index, bytes, is_live));
        self.with_flows(parcel, first.unwrap_or_default())
    }

    /// Divides the pieces of a parcel among the queue pairs of its ranks. `turn` is the number of the parcel from its rank to
    /// the other.
    fn on_queue_pairs(&self, turn: u32, pieces: Vec<(FlowAddress, u64)>) -> Vec<(FlowAddress, u64)> {
        let parts_of = |(flow, bytes): (FlowAddress, u64)| {
            let parts = self.queue_pairs.parts(turn, bytes, self.ideal.mtu);
            parts.map(move |(pair, bytes)| {
                (FlowAddress { source: flow.source + pair * self.sharing, ..flow }, bytes)
            })
        };
        pieces.into_iter().flat_map(parts_of).collect()
    }

    /// If a parcel has several parts while no port has failed, their flows; otherwise empty.
    fn flows_of_parts(&self, parcel: &Parcel) -> Vec<FlowAddress> {
        let Place { host, .. } = self.places[parcel.from as usize];
        if host == self.places[parcel.to as usize].host {
            return Vec::new();
        }
        let failed = FailedPorts::new(Vec::new());
        let mut pieces = self.pieces(parcel, &failed);
        let mut count = pieces.len() as u64;
        if self.queue_pairs.split {
            pieces = self.on_queue_pairs(0, pieces);
            count = pieces.len() as u64;
        }
        if let Some(ports) = self.ports.as_ref().filter(|_| self.sprays()) {
            pieces = self.first_packets(parcel, &failed);
            count = ports.packets(parcel.bytes);
        }
        match count {
            1 => Vec::new(),
            _ => pieces.into_iter().map(|(flow, _)| flow).collect(),
        }
    }

    fn with_flows(&self, parcel: &Parcel, pieces: Vec<Piece>) -> Vec<(FlowAddress, u64)> {
        let (senders, to) = (&self.senders[parcel.from as usize], &self.places[parcel.to as usize]);
        let with_flow = |Piece { from, to: destination, bytes }: Piece| {
            let source = senders.iter().find(|place| place.host == from).map_or(0, |place| place.source);
            (FlowAddress { host: from, source: source + to.slot, destination }, bytes)
        };
        pieces.into_iter().map(with_flow).collect()
    }
}

/// Has an application act if it is due. Returns whether the run must stop.
fn act(application: &mut impl Application, at: &mut Instant) -> bool {
    if application.next().is_some_and(|time| time <= at.ctx.now) {
        application.step(at);
    }
    application.stops_run()
}

/// All applications of a network: the jobs, with the ranks of one partition, and the program outside the model.
#[derive(Debug, Saved)]
pub(crate) struct Jobs {
    list: Vec<Running>,
    /// The last application. With it, there is one partition.
    external: Option<Box<External>>,
    first_class: u16,
    /// The ports of hosts that have failed.
    failed: FailedPorts,
    /// The time for which the next event for an action of an application is scheduled; `None` if there is no event.
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

    /// Whether the numbers of messages select the ports of their packets, so that equal messages use other ports later.
    pub fn choose_ports_by_number(&self) -> bool {
        let divides = |ports: &JobPorts| matches!(ports.used, PortUse::Stripe | PortUse::Spray);
        self.list.iter().any(|job| job.setup.ports.as_deref().is_some_and(divides))
    }

    /// Creates the applications of a network, whose classes are consecutive, in one partition; `None` if there
    /// are none. `ports` contains the failures of ports.
    pub fn new(
        setups: &[Arc<Setup>],
        external: Option<&Arc<ExternalSetup>>,
        ports: Vec<PortChange>,
        partition: usize,
    ) -> Result<Option<Self>, NoHistogram> {
        let classes = setups.iter().map(|setup| setup.class);
        let first = classes.chain(external.map(|external| external.class)).next();
        let Some(first_class) = first else { return Ok(None) };
        let running = |setup: &Arc<Setup>| Running::new(Arc::clone(setup), partition);
        let list = setups.iter().map(running).collect::<Option<_>>().ok_or(NoHistogram)?;
        let external = external.map(|setup| Box::new(External::new(Arc::clone(setup))));
        let room = Room::new(MOST_MESSAGES);
        let failed = FailedPorts::new(ports);
        Ok(Some(Self { list, external, first_class, failed, scheduled: None, room, handed: Vec::new() }))
    }

    /// The messages of the program outside the model, if there is one.
    pub fn external(&mut self) -> Option<&mut External> {
        self.external.as_deref_mut()
    }

    /// Schedules the first event.
    pub fn start(&mut self, ctx: &mut Context) {
        self.schedule(ctx);
    }

    /// Whether all jobs have finished or cannot continue, according to all partitions. A program outside the
    /// model may always continue.
    pub fn are_over<'a>(partitions: impl Iterator<Item = &'a Self> + Clone) -> bool {
        let jobs = partitions.clone().next().map_or(0, |jobs| jobs.list.len());
        let has_others = partitions.clone().any(|jobs| jobs.external.is_some());
        jobs > 0
            && !has_others
            && (0..jobs).all(|job| partitions.clone().any(|jobs| jobs.list[job].is_over()))
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

    /// Handles the messages about jobs from another partition.
    pub fn collect(&mut self, mailbox: &mut Mailbox, hosts: &[Host]) {
        for message in mailbox.jobs.drain(..) {
            match message {
                JobMessage::Parcel(job, flow, travel) => {
                    self.list[usize::from(job)].expect_from_afar(flow, travel);
                }
                JobMessage::Received(job, arrival) => self.list[usize::from(job)].is_there(arrival),
                JobMessage::Finished(job, time) => {
                    self.list[usize::from(job)].partition_finished(time, hosts);
                }
            }
        }
    }

    /// Has the applications act at this instant, after all arrivals and before hosts send. Returns whether the run
    /// must stop before hosts send.
    #[inline]
    pub fn step(&mut self, ctx: &mut Context, hosts: &mut [Host]) -> bool {
        let is_due = self.scheduled.is_some_and(|time| time <= ctx.now) || !ctx.meters.messages_in.is_empty();
        is_due && self.do_step(ctx, hosts)
    }

    #[inline(never)]
    fn do_step(&mut self, ctx: &mut Context, hosts: &mut [Host]) -> bool {
        let Self { list, external, room, handed, first_class, failed, .. } = self;
        // Packets that waited for lost ones may then have arrived.
        for port in failed.take_due(ctx.now) {
            for (number, running) in (0..).zip(&mut *list).filter(|(_, job)| job.setup.moves_messages()) {
                running.fail_over(port, &mut Instant { ctx, hosts, number, room, handed, failed });
            }
        }
        let mut messages = std::mem::take(&mut ctx.meters.messages_in);
        for (class, flow) in messages.drain(..) {
            let number = class - *first_class;
            let at = &mut Instant { ctx, hosts, number, room, handed, failed };
            let is_known = match list.get_mut(usize::from(number)) {
                Some(running) => running.received(flow, at),
                None => external.as_mut().is_some_and(|external| external.received(flow, at)),
            };
            if !is_known {
                ctx.report_broken(format!("a message of job {number} has arrived that was not posted"));
            }
        }
        ctx.meters.messages_in = messages;
        let mut stops = false;
        for (number, running) in (0..).zip(list) {
            stops |= act(running, &mut Instant { ctx, hosts, number, room, handed, failed });
        }
        if let Some(external) = external {
            let number = external.class() - *first_class;
            stops |= act(&mut **external, &mut Instant { ctx, hosts, number, room, handed, failed });
        }
        if self.scheduled.is_some_and(|time| time <= ctx.now) {
            self.scheduled = None;
        }
        self.schedule(ctx);
        stops
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
            let number = class - self.first_class;
            let is_known = match self.list.get_mut(usize::from(number)) {
                Some(running) => running.left(flow, end),
                None => self.external.as_mut().is_some_and(|external| external.left(flow, end)),
            };
            if !is_known {
                ctx.report_broken(format!("a message of job {number} has left that was not posted"));
            }
        }
        ctx.meters.messages_out = messages;
        self.schedule(ctx);
    }

    /// Schedules an event for the next action of an application, unless an event is already scheduled at or
    /// before that time.
    fn schedule(&mut self, ctx: &mut Context) {
        let of_external = self.external.as_ref().and_then(|external| external.next());
        let of_jobs = self.list.iter().filter_map(Running::next);
        // Failures of ports do not matter any more once the jobs are over.
        let of_ports = self.failed.next().filter(|_| self.list.iter().any(|job| !job.is_over()));
        let Some(next) = of_jobs.chain(of_external).chain(of_ports).min() else { return };
        if self.scheduled.is_none_or(|time| next < time) {
            self.scheduled = Some(next);
            ctx.queue.push(Event { time: next, key: key(Class::Job, 0, Port::FIRST), data: 0 });
        }
    }
}
