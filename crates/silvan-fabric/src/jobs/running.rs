//! A running job, in one partition.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

use hdrhistogram::Histogram;
use rustc_hash::FxHashMap;
use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_network::traffic::source::Message;
use silvan_network::traffic::{QueuePairs, Sends};
use silvan_trace::Trace;
use silvan_trace::execute::{Agenda, Carrier, Interfaces, Machines, Parcel, Part, Ranks, TooLong};

use super::application::{Application, Instant, Room};
use super::failed_ports::FailedPorts;
use super::log::Log;
use super::{Logged, Place, Setup};
use crate::context::Context;
use crate::host::{Host, Spent};
use crate::message::{JobMessage, LoggedArrival, Travel};
use crate::packet::FlowAddress;

/// A host with ranks of the job.
#[derive(Debug, Clone, Saved)]
pub(super) struct AtHost {
    pub host: u32,
    /// The host's position in its partition.
    place: u32,
    /// The use of time by the host until the job finished.
    pub spent: Option<Spent>,
    /// With sequential sends: whether the host is sending a message.
    is_sending: bool,
    /// With sequential sends: the pieces that wait.
    pub(super) line: VecDeque<PostedPiece>,
}

/// A piece of a parcel that a host sends.
#[derive(Debug, Clone, Copy, Saved)]
pub(super) struct PostedPiece {
    pub flow: FlowAddress,
    pub travel: Travel,
}

/// The pieces of a parcel that are under way.
#[derive(Debug, Clone, Copy, Saved)]
pub(super) struct PiecesLeft {
    /// Number of pieces that have not left completely; zero once the parcel has left.
    pub leaving: u32,
    /// Number of pieces that have not arrived.
    pub coming: u32,
    /// Payload that no port has taken yet. The numbers of pieces include it.
    pub rest: u64,
    /// The time at which the last of the pieces that have left did so.
    #[saved(latest)]
    pub left: Time,
}

/// A running job, with its ranks on the hosts of one partition.
#[derive(Debug, Saved)]
pub(super) struct Running {
    pub setup: Arc<Setup>,
    partition: u16,
    // The order of the first two matters: relative states number the operations and the rows in what follows by them.
    pub ranks: Ranks<Arc<Trace>>,
    /// Messages from this partition, in the order of posting.
    pub log: Log,
    /// If repetitions are watched and the repetition of a part of the program begins, the number of its operations; otherwise
    /// zero.
    pub boundary: u32,
    /// `None` if repetitions are not watched.
    #[saved(constant)]
    watched: Option<Watched>,
    /// For each flow from this partition, the parcels that have not left completely, in the order of posting.
    pub(super) leaving: FxHashMap<FlowAddress, VecDeque<Travel>>,
    /// For each flow to this partition, the parcels that have not arrived, in the order of posting.
    pub(super) coming: FxHashMap<FlowAddress, VecDeque<Travel>>,
    /// The parcels of several pieces that are under way.
    pub(super) joined: FxHashMap<Parcel, PiecesLeft>,
    /// The next packets of parcels of which each port takes one after the other: by the time at which a host will have sent the
    /// packet before, its flow and its parcel.
    next_packets: BTreeMap<(Time, u32), (FlowAddress, Travel)>,
    /// The queue pair of the next parcel from a rank to another, if they use queue pairs in turn.
    turns: FxHashMap<(u32, u32), u32>,
    /// The links between ranks of one host.
    links: Interfaces,
    /// Sorted by host.
    pub hosts: Vec<AtHost>,
    /// With sequential sends: the times at which hosts will have sent a message, with these hosts.
    pub(super) ends: BinaryHeap<Reverse<(Time, u32)>>,
    /// Number of partitions with unfinished ranks, according to the messages that this partition has
    /// received.
    open: usize,
    /// The latest time at which a rank finished, so far.
    #[saved(latest)]
    latest: Time,
    /// The time at which the last rank finished.
    pub done: Option<Time>,
    /// Slowdowns of messages compared with an empty network, in thousandths.
    #[saved(count)]
    pub slowdowns: Histogram<u64>,
    #[saved(count)]
    pub slowdown_sum: u64,
    #[saved(count)]
    pub sent_bytes: Vec<u64>,
    #[saved(count)]
    pub received_bytes: Vec<u64>,
    /// Payload that moved to other ports because its port had failed.
    #[saved(count)]
    pub moved_bytes: u64,
    /// Number of messages that are not in the log.
    #[saved(count)]
    pub unlogged: u64,
    /// The time and the reason of an operation that will never finish. This is the first failure; among
    /// simultaneous failures, it is that of the first rank.
    pub failed: Option<(Time, TooLong)>,
}

/// The rank whose repetitions are watched.
#[derive(Debug)]
struct Watched {
    rank: u32,
    /// The positions of the rank at which a part of its program begins to repeat itself, with the number of operations of the
    /// part.
    repetitions: Vec<(u32, u32)>,
    /// The number of these that the rank has reached.
    reached: usize,
}

/// Collects the messages that ranks post to ranks on other hosts.
struct PostedMessages<'a> {
    parcels: &'a mut Vec<Parcel>,
}

impl Carrier for PostedMessages<'_> {
    fn carry(&mut self, _now: u64, parcel: &Parcel, _agenda: &mut Agenda) {
        self.parcels.push(*parcel);
    }
}

/// Whether a parcel carries the bytes of its message.
pub(super) fn has_bytes(parcel: &Parcel) -> bool {
    matches!(parcel.part, Part::Whole | Part::Data)
}

impl Running {
    /// Creates the state of a job in a partition; `None` if its histogram cannot be created.
    pub fn new(setup: Arc<Setup>, partition: usize) -> Option<Self> {
        let all = setup.places.iter().chain(setup.senders.iter().flatten());
        let own = all.filter(|place| usize::from(place.at.0) == partition);
        let mut hosts: Vec<AtHost> = own
            .map(|&Place { host, at, .. }| AtHost {
                host,
                place: at.1,
                spent: None,
                is_sending: false,
                line: VecDeque::new(),
            })
            .collect();
        hosts.sort_by_key(|at| at.host);
        hosts.dedup_by_key(|at| at.host);
        let count = setup.places.len();
        let ranks = (0..).zip(&setup.places).filter(|(rank, _)| !setup.trace.of_rank(*rank).is_empty());
        let mut busy: Vec<u16> = ranks.map(|(_, place)| place.at.0).collect();
        busy.sort_unstable();
        busy.dedup();
        let open = busy.len();
        Some(Self {
            partition: partition as u16,
            ranks: setup.ranks(partition),
            log: Log::default(),
            boundary: 0,
            watched: None,
            leaving: FxHashMap::default(),
            coming: FxHashMap::default(),
            joined: FxHashMap::default(),
            next_packets: BTreeMap::new(),
            turns: FxHashMap::default(),
            links: Interfaces::default(),
            hosts,
            ends: BinaryHeap::new(),
            open,
            latest: setup.start,
            // A job without operations has finished before it starts.
            done: (open == 0).then_some(setup.start),
            slowdowns: Histogram::new_with_bounds(1, 1 << 44, 2).ok()?,
            slowdown_sum: 0,
            sent_bytes: vec![0; count],
            received_bytes: vec![0; count],
            moved_bytes: 0,
            unlogged: 0,
            failed: None,
            setup,
        })
    }

    /// Whether the job has finished or cannot finish.
    pub fn is_over(&self) -> bool {
        self.done.is_some() || self.failed.is_some()
    }

    /// Has the run stop whenever the first rank whose program repeats a part begins with that. Returns whether there is such a
    /// rank.
    pub fn watch_repetitions(&mut self) -> bool {
        let ranks = 0..self.setup.trace.ranks();
        self.watched = ranks.into_iter().find_map(|rank| {
            let repetitions = self.ranks.repetitions(rank);
            (!repetitions.is_empty()).then_some(Watched { rank, repetitions, reached: 0 })
        });
        self.pass_boundaries();
        self.watched.is_some()
    }

    /// The number of operations of the longest part of its program that the watched rank has begun to repeat since the last call;
    /// zero if it has not.
    fn next_boundaries(&mut self) -> u32 {
        let Some(watched) = &mut self.watched else { return 0 };
        let mut longest = 0;
        let mut position = None;
        while let Some((begin, period)) = watched.repetitions.get(watched.reached) {
            let position = *position.get_or_insert_with(|| self.ranks.position(watched.rank));
            if position < *begin {
                break;
            }
            watched.reached += 1;
            longest = longest.max(*period);
        }
        longest
    }

    /// Passes over the boundaries that a restored state is beyond.
    pub fn pass_boundaries(&mut self) {
        self.next_boundaries();
    }

    fn fails(&mut self, now: Time, error: TooLong) {
        if self.failed.as_ref().is_none_or(|(first, known)| (now, error.rank) < (*first, known.rank)) {
            self.failed = Some((now, error));
        }
    }

    /// Records that all ranks of a partition have finished, the last one at `time`.
    pub fn partition_finished(&mut self, time: Time, hosts: &[Host]) {
        self.open -= 1;
        self.latest = self.latest.max(time);
        if self.open > 0 {
            return;
        }
        self.done = Some(self.latest);
        for at in &mut self.hosts {
            let host = &hosts[at.place as usize];
            at.spent = host.hours.as_ref().map(|hours| hours.until(self.latest));
        }
    }

    fn hand_over(
        &mut self,
        ctx: &mut Context,
        hosts: &mut [Host],
        parcel: Parcel,
        (room, failed): (&mut Room, &FailedPorts),
        job: u16,
    ) {
        let mut pieces = self.setup.pieces(&parcel, failed);
        let (mut row, mut alone) = (None, Time::ZERO);
        if has_bytes(&parcel) {
            self.sent_bytes[parcel.from as usize] += parcel.bytes;
            alone = self.alone(&pieces);
            row = self.log(ctx.now, &parcel, (pieces[0].0, alone), room);
        }
        pieces = self.on_queue_pairs(&parcel, pieces);
        let (mut count, mut rest) = (pieces.len() as u32, 0);
        if let Some(ports) = self.setup.ports.as_ref().filter(|_| self.setup.sprays()) {
            count = ports.packets(parcel.bytes) as u32;
            pieces = self.setup.first_packets(&parcel, failed);
            rest = parcel.bytes - pieces.iter().map(|(_, bytes)| bytes).sum::<u64>();
        }
        if count > 1 {
            let is_near = self.setup.places[parcel.to as usize].at.0 == self.partition;
            let coming = if is_near { count } else { 0 };
            self.joined.insert(parcel, PiecesLeft { leaving: count, coming, rest, left: Time::ZERO });
        }
        for (flow, bytes) in pieces {
            let least = bytes.max(self.setup.least);
            let travel = Travel { parcel, handed: ctx.now, row, pieces: count, bytes: least, alone };
            self.post(ctx, hosts, PostedPiece { flow, travel }, job);
        }
    }

    /// Divides the pieces of a parcel among the queue pairs of its ranks.
    pub(super) fn on_queue_pairs(
        &mut self,
        parcel: &Parcel,
        pieces: Vec<(FlowAddress, u64)>,
    ) -> Vec<(FlowAddress, u64)> {
        let QueuePairs { count, split } = self.setup.queue_pairs;
        if count == 1 {
            return pieces;
        }
        let turn = match split {
            true => 0,
            false => {
                let turns = self.turns.entry((parcel.from, parcel.to)).or_default();
                std::mem::replace(turns, (*turns + 1) % u32::from(count))
            }
        };
        self.setup.on_queue_pairs(turn, pieces)
    }

    /// Passes a piece to its host, or to the line of pieces that wait there.
    pub(super) fn post(&mut self, ctx: &mut Context, hosts: &mut [Host], posted: PostedPiece, job: u16) {
        if self.is_sequential(&posted.travel.parcel) {
            let at = self.at_host(posted.flow.host);
            if self.hosts[at].is_sending {
                self.hosts[at].line.push_back(posted);
                return;
            }
            self.hosts[at].is_sending = true;
        }
        self.dispatch(ctx, hosts, posted, job);
    }

    /// Has ports that have sent a packet of a parcel take the next one.
    fn post_next(&mut self, ctx: &mut Context, hosts: &mut [Host], failed: &FailedPorts, job: u16) {
        let chunk = self.setup.ports.as_ref().map_or(0, |ports| ports.chunk);
        while let Some(next) = self.next_packets.first_entry()
            && next.key().0 <= ctx.now
        {
            let (mut flow, travel) = next.remove();
            let joined = self.joined.get_mut(&travel.parcel).filter(|joined| joined.rest > 0);
            let Some(joined) = joined else { continue };
            let bytes = joined.rest.min(chunk);
            joined.rest -= bytes;
            if !failed.are_live((flow.host, flow.destination)) {
                let packet = Parcel { bytes, ..travel.parcel };
                flow = self.setup.first_packets(&packet, failed)[0].0;
            }
            let bytes = bytes.max(self.setup.least);
            let posted = PostedPiece { flow, travel: Travel { bytes, ..travel } };
            let at = self.at_host(flow.host);
            if self.is_sequential(&travel.parcel) && self.hosts[at].is_sending {
                self.hosts[at].line.push_front(posted);
            } else {
                self.post(ctx, hosts, posted, job);
            }
        }
    }

    /// Whether a parcel waits until its host has sent earlier ones. Permissions do not wait.
    pub(super) fn is_sequential(&self, parcel: &Parcel) -> bool {
        self.setup.sends == Sends::Sequential && parcel.part != Part::Permission
    }

    /// The position of a host in the list of hosts.
    fn at_host(&self, host: u32) -> usize {
        self.hosts.partition_point(|at| at.host < host)
    }

    /// With sequential sends, starts the next message of hosts that have finished a message.
    fn release(&mut self, ctx: &mut Context, hosts: &mut [Host], job: u16) {
        while let Some(&Reverse((time, host))) = self.ends.peek()
            && time <= ctx.now
        {
            self.ends.pop();
            let at = self.at_host(host);
            match self.hosts[at].line.pop_front() {
                Some(posted) => self.dispatch(ctx, hosts, posted, job),
                None => self.hosts[at].is_sending = false,
            }
        }
    }

    /// Passes a piece of a parcel to its host.
    fn dispatch(&mut self, ctx: &mut Context, hosts: &mut [Host], posted: PostedPiece, job: u16) {
        let PostedPiece { flow, travel } = posted;
        self.leaving.entry(flow).or_default().push_back(travel);
        let partition = self.setup.places[travel.parcel.to as usize].at.0;
        if partition == self.partition {
            self.expect(flow, travel);
        } else {
            ctx.outbox[usize::from(partition)].jobs.push(JobMessage::Parcel(job, flow, travel));
        }
        let (created, left) = (travel.handed, travel.bytes);
        let message = Message { destination: flow.destination, created, left, hot: false };
        let place = self.hosts[self.at_host(flow.host)].place;
        hosts[place as usize].feed(ctx, flow.source, message);
    }

    /// Records that a parcel of a flow to this partition was posted.
    pub fn expect(&mut self, flow: FlowAddress, travel: Travel) {
        self.coming.entry(flow).or_default().push_back(travel);
    }

    /// Records that a parcel of a flow from another partition was posted.
    pub fn expect_from_afar(&mut self, flow: FlowAddress, travel: Travel) {
        if travel.pieces > 1 {
            let all = PiecesLeft { leaving: 0, coming: travel.pieces, rest: 0, left: Time::ZERO };
            self.joined.entry(travel.parcel).or_insert(all);
        }
        self.expect(flow, travel);
    }

    /// The time that the pieces of a parcel take on an empty network.
    fn alone(&self, pieces: &[(FlowAddress, u64)]) -> Time {
        let of = |&(flow, bytes): &(FlowAddress, u64)| {
            self.setup.ideal.message(flow.host, flow.destination, bytes)
        };
        pieces.iter().map(of).max().unwrap_or_default()
    }

    /// Adds a row for a message, if the log has space. Returns the index of the row.
    fn log(
        &mut self,
        now: Time,
        parcel: &Parcel,
        (flow, alone): (FlowAddress, Time),
        room: &mut Room,
    ) -> Option<u32> {
        if !room.take(now) {
            self.unlogged += 1;
            return None;
        }
        self.log.push(Logged {
            index: parcel.index,
            from: parcel.from,
            to: parcel.to,
            bytes: parcel.bytes,
            flow,
            handed: now,
            left: None,
            there: None,
            alone,
        });
        Some((self.log.len() - 1) as u32)
    }

    /// Counts a message that has arrived. `flow` is that of its last part.
    fn count_received(&mut self, (travel, flow): (Travel, FlowAddress), at: &mut Instant) {
        let now = at.ctx.now;
        let Travel { parcel, handed, row, alone, .. } = travel;
        self.received_bytes[parcel.to as usize] += parcel.bytes;
        let thousandths = 1000.0 * (now - handed).0 as f64 / alone.0.max(1) as f64;
        let thousandths = (thousandths.round() as u64).max(1);
        self.slowdowns.saturating_record(thousandths);
        self.slowdown_sum = self.slowdown_sum.saturating_add(thousandths);
        let Some(row) = row else { return };
        let from = self.setup.places[parcel.from as usize].at.0;
        let arrival = LoggedArrival { row, flow, time: now };
        if from == self.partition {
            self.is_there(arrival);
        } else {
            at.ctx.outbox[usize::from(from)].jobs.push(JobMessage::Received(at.number, arrival));
        }
    }

    /// Counts a piece of a parcel that has arrived. Returns whether all pieces have.
    fn is_complete(&mut self, parcel: &Parcel) -> bool {
        let Some(joined) = self.joined.get_mut(parcel) else { return true };
        joined.coming -= 1;
        let is_complete = joined.coming == 0;
        if is_complete {
            // All pieces have left before.
            self.joined.remove(parcel);
        }
        is_complete
    }

    /// Counts a piece of a parcel that will have left at `end`. If all pieces have, returns the time of the last one; `None` if
    /// they had before some of them moved to other ports.
    fn last_to_leave(&mut self, parcel: &Parcel, end: Time) -> Option<Time> {
        let joined = self.joined.get_mut(parcel).filter(|joined| joined.leaving > 0)?;
        joined.leaving -= 1;
        joined.left = joined.left.max(end);
        let left = (joined.leaving == 0).then_some(joined.left);
        if joined.leaving == 0 && joined.coming == 0 {
            // The pieces arrive in another partition.
            self.joined.remove(parcel);
        }
        left
    }

    /// Records that a logged message has arrived.
    pub fn is_there(&mut self, LoggedArrival { row, flow, time }: LoggedArrival) {
        let logged = &mut self.log[row as usize];
        (logged.there, logged.flow) = (Some(time), flow);
    }

    /// Adds the results of the ranks of another partition.
    pub fn join(&mut self, mut other: Self) {
        let places = &self.setup.places;
        self.ranks.join(other.ranks, |rank| places[rank as usize].at.0 == other.partition);
        self.hosts.extend(other.hosts);
        // The bounds are equal, so no value is out of range.
        let _ = self.slowdowns.add(&other.slowdowns);
        self.slowdown_sum = self.slowdown_sum.saturating_add(other.slowdown_sum);
        let bytes = self.sent_bytes.iter_mut().zip(other.sent_bytes);
        bytes.for_each(|(sum, bytes)| *sum += bytes);
        let bytes = self.received_bytes.iter_mut().zip(other.received_bytes);
        bytes.for_each(|(sum, bytes)| *sum += bytes);
        self.moved_bytes += other.moved_bytes;
        self.log.append(&mut other.log);
        self.unlogged += other.unlogged;
        if let Some((time, error)) = other.failed {
            self.fails(time, error);
        }
    }
}

impl Application for Running {
    /// The time of the next action of a rank or, with sequential sends, of the next message of a host.
    fn next(&self) -> Option<Time> {
        let end = self.ends.peek().map(|Reverse((time, _))| *time);
        let packet = self.next_packets.keys().next().map(|(time, _)| *time);
        self.ranks.next().into_iter().chain(end).chain(packet).min()
    }

    fn received(&mut self, flow: FlowAddress, at: &mut Instant) -> bool {
        let travel = self.coming.get_mut(&flow).and_then(VecDeque::pop_front);
        let Some(travel) = travel else { return false };
        if travel.pieces > 1 && !self.is_complete(&travel.parcel) {
            return true;
        }
        self.ranks.agenda().arrives(at.ctx.now.0, &travel.parcel);
        if has_bytes(&travel.parcel) {
            self.count_received((travel, flow), at);
        }
        true
    }

    fn left(&mut self, flow: FlowAddress, end: Time) -> bool {
        let travel = self.leaving.get_mut(&flow).and_then(VecDeque::pop_front);
        let Some(travel) = travel else { return false };
        let Travel { parcel, row, pieces, .. } = travel;
        if self.is_sequential(&parcel) {
            self.ends.push(Reverse((end, flow.host)));
        }
        if pieces > 1 && self.joined.get(&parcel).is_some_and(|joined| joined.rest > 0) {
            self.next_packets.insert((end, flow.host), (flow, travel));
        }
        let end = if pieces > 1 { self.last_to_leave(&parcel, end) } else { Some(end) };
        let Some(end) = end else { return true };
        self.ranks.agenda().left(end.0, &parcel);
        if let Some(row) = row {
            self.log[row as usize].left = Some(end);
        }
        true
    }

    fn stops_run(&self) -> bool {
        self.boundary > 0
    }

    /// Releases messages of hosts that have finished a message, runs the ranks up to the current time, and passes the
    /// messages that they post to their hosts.
    fn step(&mut self, at: &mut Instant) {
        let Instant { ctx, hosts, number: job, room, handed, failed } = at;
        let job = *job;
        self.post_next(ctx, hosts, failed, job);
        self.release(ctx, hosts, job);
        let setup = Arc::clone(&self.setup);
        let outside = PostedMessages { parcels: handed };
        let (machine_of, inside) = (setup.machine_of.as_slice(), setup.inside);
        let mut carrier = Machines { machine_of, inside, links: &mut self.links, outside };
        let was_done = self.ranks.is_done();
        let mut failures = Vec::new();
        while let Err(error) = self.ranks.advance(ctx.now, &mut carrier) {
            failures.push(error);
        }
        failures.into_iter().for_each(|error| self.fails(ctx.now, error));
        for parcel in handed.drain(..) {
            self.hand_over(ctx, hosts, parcel, (room, failed), job);
        }
        if self.watched.is_some() {
            self.boundary = self.boundary.max(self.next_boundaries());
        }
        if self.ranks.is_done() && !was_done {
            self.partition_finished(ctx.now, hosts);
            let others = (0..).zip(&mut ctx.outbox).filter(|(partition, _)| *partition != self.partition);
            others.for_each(|(_, mailbox)| mailbox.jobs.push(JobMessage::Finished(job, ctx.now)));
        }
    }
}

/// Limits the logs of all jobs to the first `most` messages. Of the messages posted at one instant, those of
/// the first jobs and ranks remain. Sorts each log in this order.
pub(super) fn trim(jobs: &mut [Running], most: usize) {
    for job in jobs.iter_mut() {
        job.log.sort_by_key(|row| (row.handed, row.from));
    }
    let logs: Vec<&[Logged]> = jobs.iter().map(|job| job.log.as_slice()).collect();
    let kept = first(&logs, most);
    for (job, kept) in jobs.iter_mut().zip(kept) {
        job.unlogged += (job.log.len() - kept) as u64;
        job.log.truncate(kept);
    }
}

/// For each log, the number of its rows that are among the first `most` rows of all logs.
fn first(logs: &[&[Logged]], most: usize) -> Vec<usize> {
    let mut kept: Vec<usize> = logs.iter().map(|log| log.len()).collect();
    let all: usize = kept.iter().sum();
    let rows = logs.iter().enumerate().flat_map(|(job, log)| log.iter().map(move |row| (row.handed, job)));
    if all > most {
        let mut rows: Vec<(Time, usize)> = rows.collect();
        rows.sort_unstable();
        rows[most..].iter().for_each(|&(_, job)| kept[job] -= 1);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(handed: u64) -> Logged {
        let (handed, alone) = (Time(handed), Time(1));
        let flow = FlowAddress { host: 0, source: 0, destination: 1 };
        Logged { index: 0, from: 0, to: 1, bytes: 1, flow, handed, left: None, there: None, alone }
    }

    #[test]
    fn the_first_messages_of_all_jobs_are_kept() {
        let logs: [Vec<Logged>; 2] = [[1, 4, 4, 9].map(row).into(), [2, 4, 5].map(row).into()];
        let logs = logs.each_ref().map(Vec::as_slice);
        assert_eq!(first(&logs, 7), [4, 3]);
        assert_eq!(first(&logs, 5), [3, 2]);
        assert_eq!(first(&logs, 3), [2, 1]);
        assert_eq!(first(&logs, 0), [0, 0]);
    }

    #[test]
    fn messages_of_one_instant_get_room_together() {
        let mut room = Room::new(2);
        let taken: Vec<bool> = [3, 5, 5, 5, 6].map(|time| room.take(Time(time))).into();
        assert_eq!(taken, [true, true, true, true, false]);
    }
}
