//! Schedules the operations of each rank: dependencies, CPUs, matching. A [`Carrier`] transports the
//! messages.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Deref;

use silvan_engine::Time;
use silvan_engine::saved::{Saved, Writer};

use super::loggp::per_byte;
use super::matching::Matching;
use super::waits::Waits;
use super::{Call, Execution, Parameters, TooLong, stuck};
use crate::trace::{ANY_SIZE, Kind, Operation, Trace, When};

/// Maximum number of faults of each kind that are reported.
const KEPT: usize = 10;

/// The latest representable time, 106 days in ps.
const END: u64 = u64::MAX / 2;

/// Adds a span to a time. [`Agenda`] rejects results that are out of range.
pub(super) fn later(now: u64, span: u128) -> u64 {
    (u128::from(now) + span).min(u128::from(END) + 1) as u64
}

/// Kinds of events, in the order in which events of one instant are processed. Arrivals precede new operations, so
/// that a message sent first arrives first even if nothing takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Saved)]
enum What {
    /// A message or its request has arrived.
    Arrived,
    /// The data of a rendezvous has arrived.
    DataArrived,
    /// The first byte of a message or a request has arrived.
    Head,
    /// The first byte of the data of a rendezvous has arrived.
    DataHead,
    /// An interface may have sent a message completely.
    Sent,
    /// The CPU has passed a message or a request to the carrier.
    Inject,
    /// The CPU has passed the data of a rendezvous to the carrier.
    DataInject,
    /// The permission for a rendezvous has arrived.
    Permit,
    Started,
    Finished,
    Post,
    Ready,
}

/// Time in ps, kind of event, rank, operation within the rank. Events of messages contain the operation of the sender.
type Event = Reverse<(u64, What, u32, u32)>;

/// The stage of a message that a parcel carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Saved)]
pub enum Part {
    /// The whole message, sent eagerly.
    Whole,
    /// The request of a rendezvous, without data.
    Request,
    /// The permission that answers a request, without data.
    Permission,
    /// The data of a rendezvous.
    Data,
}

/// Data that a rank passes to the carrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Saved)]
#[saved(relative(Self::save_relative))]
pub struct Parcel {
    /// The rank of the send operation.
    pub rank: u32,
    /// The number of the send within its rank.
    pub index: u32,
    /// The stage of the message.
    pub part: Part,
    /// The source rank.
    pub from: u32,
    /// The destination rank.
    pub to: u32,
    /// Number of bytes.
    pub bytes: u64,
    /// The network interface.
    pub nic: u8,
}

impl Parcel {
    fn save_relative(&self, to: &mut Writer<'_>) {
        let Self { rank, index, part, from, to: receiver, bytes, nic } = self;
        rank.save(to);
        to.put_operation(*index, *rank);
        part.save(to);
        from.save(to);
        receiver.save(to);
        bytes.save(to);
        nic.save(to);
    }
}

/// Future events.
#[derive(Debug, Default, Saved)]
#[saved(relative(Self::save_relative))]
pub struct Agenda {
    events: BinaryHeap<Event>,
    /// The first operation whose time was out of range.
    beyond: Option<(u32, u32)>,
}

impl Agenda {
    fn save_relative(&self, to: &mut Writer<'_>) {
        let mut events: Vec<_> = self.events.iter().map(|Reverse(event)| event).collect();
        events.sort_unstable();
        to.label("Agenda.events");
        to.put_state(&(events.len() as u64).to_le_bytes());
        for &(time, what, rank, index) in events {
            to.put_time(time);
            what.save(to);
            rank.save(to);
            to.put_operation(index, rank);
        }
        self.beyond.save(to);
    }

    fn push(&mut self, time: u64, what: What, rank: u32, index: u32) {
        if time > END {
            self.beyond.get_or_insert((rank, index));
            return;
        }
        self.events.push(Reverse((time, what, rank, index)));
    }

    /// Schedules the complete arrival of a parcel at a time (ps).
    pub fn arrives(&mut self, time: u64, parcel: &Parcel) {
        let what = match parcel.part {
            Part::Whole | Part::Request => What::Arrived,
            Part::Data => What::DataArrived,
            Part::Permission => What::Permit,
        };
        self.push(time, what, parcel.rank, parcel.index);
    }

    /// Schedules the departure of a parcel's last byte from its sender at a time (ps).
    pub fn left(&mut self, time: u64, parcel: &Parcel) {
        // An eager send finished earlier, when the CPU became free.
        if parcel.part == Part::Data {
            self.push(time, What::Finished, parcel.rank, parcel.index);
        }
    }

    /// Schedules the arrival of a parcel's first byte at a time (ps), at which [`Carrier::head`] will be called.
    pub fn head(&mut self, time: u64, parcel: &Parcel) {
        let what = if parcel.part == Part::Data { What::DataHead } else { What::Head };
        self.push(time, what, parcel.rank, parcel.index);
    }

    /// Schedules a call of [`Carrier::sent`] at a time (ps), to check whether a parcel has been sent
    /// completely.
    pub fn sent(&mut self, time: u64, parcel: &Parcel) {
        self.push(time, What::Sent, parcel.rank, parcel.index);
    }
}

/// Transports parcels between ranks. All times are in ps.
pub trait Carrier {
    /// Accepts a parcel. During this call or later, the carrier must report to the agenda when the parcel
    /// has left and when it has arrived.
    fn carry(&mut self, now: u64, parcel: &Parcel, agenda: &mut Agenda);

    /// Called when the first byte of a parcel arrives, at the time that this carrier scheduled.
    fn head(&mut self, _now: u64, _parcel: &Parcel, _agenda: &mut Agenda) {}

    /// Called when the interface of a parcel's sender may have sent a message completely, at the time that this
    /// carrier scheduled. The parcel only identifies the interface; its stage is not known.
    fn sent(&mut self, _now: u64, _parcel: &Parcel, _agenda: &mut Agenda) {}
}

/// State of a rank.
#[derive(Debug, Default, Saved)]
pub(super) struct Rank {
    /// Time in ps at which each CPU becomes free.
    #[saved(past)]
    cpus: Vec<u64>,
    /// Time until which at least one CPU is busy.
    #[saved(past)]
    busy_until: u64,
}

impl Rank {
    fn cpu(&mut self, number: u8) -> &mut u64 {
        let number = usize::from(number);
        if self.cpus.len() <= number {
            self.cpus.resize(number + 1, 0);
        }
        &mut self.cpus[number]
    }
}

/// The ranks of a trace during execution.
#[derive(Debug, Saved)]
#[saved(relative(Self::save_relative, Self::restore_relative))]
pub struct Ranks<T: Deref<Target = Trace>> {
    pub(super) trace: T,
    #[saved(constant)]
    parameters: Parameters,
    pub(super) agenda: Agenda,
    pub(super) waits: Waits,
    pub(super) ranks: Vec<Rank>,
    pub(super) matching: Matching,
    /// The matched receive of each rendezvous in progress, by the number of its send.
    pub(super) receives: HashMap<usize, u32>,
    /// For each mark of the trace, the index of its call in the outcome.
    pub(super) calls: Vec<u32>,
    /// The number of unfinished operations of each call.
    pub(super) open: Vec<u64>,
    pub(super) outcome: Execution,
    /// The times in which CPUs were busy, if they are recorded.
    #[saved(constant)]
    busy_times: Option<Vec<BusyTime>>,
}

/// A time in which a CPU of a rank computed or handled a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusyTime {
    /// The rank.
    pub rank: u32,
    /// The start.
    pub start: Time,
    /// The end.
    pub end: Time,
    /// Whether the CPU computed.
    pub computes: bool,
}

/// An operation of a rank.
#[derive(Debug, Clone, Copy)]
struct RankOperation {
    rank: u32,
    /// Its index among the operations of the rank.
    index: u32,
    /// Its index in the trace.
    at: usize,
}

impl<T: Deref<Target = Trace>> Ranks<T> {
    /// Creates all ranks before their first operation, which starts at `start`. The carrier, not the ranks, accounts
    /// for latency and gaps.
    pub fn new(trace: T, parameters: &Parameters, start: Time) -> Self {
        Self::some(trace, parameters, start, |_| true)
    }

    /// Same as [`Ranks::new`], but for some of the ranks. The other ranks do nothing, and the agenda must
    /// receive parcels only for the selected ranks.
    pub fn some(trace: T, parameters: &Parameters, start: Time, has: impl Fn(u32) -> bool) -> Self {
        let count = trace.ranks() as usize;
        let mut agenda = Agenda::default();
        let mut unfinished = 0;
        for rank in (0..trace.ranks()).filter(|&rank| has(rank)) {
            for (index, operation) in trace.of_rank(rank).enumerate() {
                unfinished += 1;
                if trace.waits(operation) == 0 {
                    agenda.push(start.0, What::Ready, rank, index as u32);
                }
            }
        }
        let (calls, open, list) = calls(&trace, has);
        Self {
            parameters: *parameters,
            agenda,
            waits: Waits::new(count),
            ranks: std::iter::repeat_with(Rank::default).take(count).collect(),
            matching: Matching::new(count),
            receives: HashMap::new(),
            calls,
            open,
            outcome: Execution {
                finished: vec![Time::ZERO; count],
                span: Time::ZERO,
                computing: vec![Time::ZERO; count],
                busy: vec![Time::ZERO; count],
                calls: list,
                messages: 0,
                unfinished,
                stuck: Vec::new(),
                circle: Vec::new(),
                unreceived: (0, Vec::new()),
                truncated: (0, Vec::new()),
            },
            busy_times: None,
            trace,
        }
    }

    /// Records the times in which CPUs are busy from now on.
    pub fn record_busy_times(&mut self) {
        self.busy_times = Some(Vec::new());
    }

    /// Returns the recorded times in which CPUs were busy, and ends the recording. Their starts are in order for each CPU.
    pub fn take_busy_times(&mut self) -> Vec<BusyTime> {
        self.busy_times.take().unwrap_or_default()
    }

    /// The trace.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The trace, shared with these ranks.
    pub fn shared(&self) -> T
    where
        T: Clone,
    {
        self.trace.clone()
    }

    /// Time of the next pending event of the ranks; `None` if no event is pending.
    #[must_use]
    pub fn next(&self) -> Option<Time> {
        self.agenda.events.peek().map(|Reverse((time, ..))| Time(*time))
    }

    /// Whether all operations of these ranks have finished.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.outcome.unfinished == 0
    }

    /// The agenda, for a carrier that determines later when a parcel leaves and arrives.
    pub const fn agenda(&mut self) -> &mut Agenda {
        &mut self.agenda
    }

    /// Adds the results of ranks that were executed separately; `has` selects these ranks.
    pub fn join(&mut self, other: Self, has: impl Fn(u32) -> bool) {
        let Self { waits, agenda, ranks, matching, receives, open, outcome, .. } = self;
        let theirs = other.outcome;
        let lists = ranks.iter_mut().zip(other.ranks).zip(matching.0.iter_mut().zip(other.matching.0));
        let lists = lists.zip(waits.0.iter_mut().zip(other.waits.0));
        for (rank, (((own, of_rank), (own_matching, of_matching)), (own_waits, of_waits))) in (0..).zip(lists)
        {
            if !has(rank) {
                continue;
            }
            (*own, *own_matching, *own_waits) = (of_rank, of_matching, of_waits);
            let at = rank as usize;
            outcome.finished[at] = theirs.finished[at];
            outcome.computing[at] = theirs.computing[at];
            outcome.busy[at] = theirs.busy[at];
        }
        agenda.events.extend(other.agenda.events);
        receives.extend(other.receives);
        let calls = outcome.calls.iter_mut().zip(theirs.calls);
        for ((own, call), (open, still)) in calls.zip(open.iter_mut().zip(other.open)) {
            own.start = own.start.into_iter().chain(call.start).min();
            *open += still;
            own.end = if *open == 0 { own.end.max(call.end) } else { None };
        }
        outcome.messages += theirs.messages;
        outcome.unfinished += theirs.unfinished;
        outcome.truncated.0 += theirs.truncated.0;
        outcome.truncated.1.extend(theirs.truncated.1);
        outcome.truncated.1.truncate(KEPT);
    }

    /// Processes all events up to and including the time `until`.
    ///
    /// # Errors
    /// [`TooLong`] if the time of an operation exceeds the range. This operation never finishes. A repeated call
    /// continues with the other operations.
    pub fn advance(&mut self, until: Time, carrier: &mut impl Carrier) -> Result<(), TooLong> {
        while let Some(&Reverse((now, what, rank, index))) = self.agenda.events.peek()
            && now <= until.0
        {
            self.agenda.events.pop();
            let at = self.trace.first(rank) + index as usize;
            let operation = RankOperation { rank, index, at };
            match what {
                What::Ready => self.ready(now, rank, index, at),
                What::Started => self.release(now, rank, at, When::Start),
                What::Finished => self.finish(now, rank, at),
                What::Inject | What::DataInject => self.inject(now, what, operation, carrier),
                What::Head | What::DataHead => {
                    let parcel = self.parcel(what == What::DataHead, rank, index, at);
                    carrier.head(now, &parcel, &mut self.agenda);
                }
                What::Sent => {
                    let parcel = self.parcel(false, rank, index, at);
                    carrier.sent(now, &parcel, &mut self.agenda);
                }
                What::Arrived => self.arrived(now, operation, carrier),
                What::DataArrived => {
                    if let Some(receive) = self.receives.remove(&at) {
                        self.receive(now, at, self.trace.operation(at).peer, receive);
                    }
                }
                What::Permit => self.permit(now, rank, index, at),
                What::Post => self.post(now, operation, carrier),
            }
            if let Some((rank, index)) = self.agenda.beyond.take() {
                let operation = self.trace.operation(self.trace.first(rank) + index as usize);
                return Err(TooLong { rank, operation });
            }
        }
        Ok(())
    }

    /// Does not count the time for which CPUs will be busy after the end of a run, with operations that have begun or wait for
    /// a CPU. These times begin at the end or before, because a CPU is never idle while an operation waits for it.
    pub fn cut(&mut self, end: Time) {
        for (rank, busy) in self.ranks.iter_mut().zip(&mut self.outcome.busy) {
            busy.0 -= rank.busy_until.saturating_sub(end.0).min(busy.0);
            rank.busy_until = rank.busy_until.min(end.0);
        }
        for &Reverse((time, what, rank, index)) in &self.agenda.events {
            let operation = self.trace.operation(self.trace.of_rank(rank).start + index as usize);
            if what == What::Finished && operation.kind == Kind::Calc {
                let span = later(0, u128::from(operation.size) * 1000);
                self.outcome.computing[rank as usize].0 -= time.saturating_sub(end.0).min(span);
            }
        }
    }

    /// Returns the result, even if some operations have not finished.
    pub fn close(mut self) -> Execution {
        self.outcome.span = self.outcome.finished.iter().copied().max().unwrap_or_default();
        let mut sends = self.matching.unreceived(&self.trace);
        self.outcome.unreceived.0 = sends.len() as u64;
        sends.truncate(KEPT);
        self.outcome.unreceived.1 = sends;
        if !self.outcome.complete() {
            (self.outcome.stuck, self.outcome.circle) =
                stuck::explain(&self.trace, &self.waits, &self.parameters, KEPT);
        }
        self.outcome.calls.sort_by_key(|call| (call.start.is_none(), call.start, call.comm, call.number));
        self.outcome
    }

    /// Occupies a CPU as soon as the CPU is free; returns start and end.
    fn occupy(&mut self, now: u64, rank: u32, at: usize, span: u128) -> (u64, u64) {
        let number = self.trace.operation(at).cpu;
        let own = &mut self.ranks[rank as usize];
        let cpu = own.cpu(number);
        let start = now.max(*cpu);
        let end = later(start, span);
        *cpu = end;
        // `busy` counts overlapping operations once, because `busy_until` excludes the time already counted.
        self.outcome.busy[rank as usize].0 += end.saturating_sub(start.max(own.busy_until));
        own.busy_until = own.busy_until.max(end);
        if let Some(times) = &mut self.busy_times
            && end > start
        {
            let computes = self.trace.operation(at).kind == Kind::Calc;
            times.push(BusyTime { rank, start: Time(start), end: Time(end), computes });
        }
        (start, end)
    }

    const fn is_rendezvous(&self, bytes: u64) -> bool {
        bytes > self.parameters.rendezvous_above
    }

    fn ready(&mut self, now: u64, rank: u32, index: u32, at: usize) {
        if let Some(call) = self.call(at) {
            let start = &mut self.outcome.calls[call].start;
            *start = Some(start.map_or(Time(now), |start| start.min(Time(now))));
        }
        let operation = self.trace.operation(at);
        let overhead = u128::from(self.parameters.overhead.0);
        let (start, end) = match operation.kind {
            Kind::Delay => (now, later(now, u128::from(operation.size) * 1000)),
            Kind::Calc => self.occupy(now, rank, at, u128::from(operation.size) * 1000),
            Kind::Send if self.is_rendezvous(operation.size) => self.occupy(now, rank, at, overhead),
            Kind::Send => {
                let bytes = per_byte(operation.size, self.parameters.overhead_per_byte_fs);
                self.occupy(now, rank, at, overhead + bytes)
            }
            Kind::Recv => {
                let (start, _) = self.occupy(now, rank, at, 0);
                return self.agenda.push(start, What::Post, rank, index);
            }
        };
        self.agenda.push(start, What::Started, rank, index);
        match operation.kind {
            Kind::Send => {
                self.agenda.push(end, What::Inject, rank, index);
                if !self.is_rendezvous(operation.size) {
                    self.agenda.push(end, What::Finished, rank, index);
                }
            }
            kind => {
                if kind == Kind::Calc {
                    self.outcome.computing[rank as usize].0 += end - start;
                }
                self.agenda.push(end, What::Finished, rank, index);
            }
        }
    }

    /// The parcel of a send. It carries the data after a permission, or else the whole message or a request.
    fn parcel(&self, is_data: bool, rank: u32, index: u32, at: usize) -> Parcel {
        let Operation { peer, size, nic, .. } = self.trace.operation(at);
        let (part, bytes) = match (is_data, self.is_rendezvous(size)) {
            (true, _) => (Part::Data, size),
            (false, true) => (Part::Request, 0),
            (false, false) => (Part::Whole, size),
        };
        Parcel { rank, index, part, from: rank, to: peer, bytes, nic }
    }

    fn inject(
        &mut self,
        now: u64,
        what: What,
        RankOperation { rank, index, at }: RankOperation,
        carrier: &mut impl Carrier,
    ) {
        let parcel = self.parcel(what == What::DataInject, rank, index, at);
        if parcel.to == rank {
            self.agenda.arrives(now, &parcel);
            self.agenda.left(now, &parcel);
        } else {
            carrier.carry(now, &parcel, &mut self.agenda);
        }
    }

    fn arrived(&mut self, now: u64, send: RankOperation, carrier: &mut impl Carrier) {
        let Operation { peer, tag, .. } = self.trace.operation(send.at);
        if let Some(receive) = self.matching.arrive(peer, send.rank, tag, send.index) {
            self.matched(now, send, receive, carrier);
        }
    }

    fn post(
        &mut self,
        now: u64,
        RankOperation { rank, index, at }: RankOperation,
        carrier: &mut impl Carrier,
    ) {
        // The receive starts now, so release operations that wait for its start.
        self.release(now, rank, at, When::Start);
        let Operation { peer, tag, .. } = self.trace.operation(at);
        if let Some((from, send)) = self.matching.post(rank, peer, tag, index) {
            let send_at = self.trace.first(from) + send as usize;
            self.matched(now, RankOperation { rank: from, index: send, at: send_at }, index, carrier);
        }
    }

    /// Handles a send and a receive that match.
    fn matched(
        &mut self,
        now: u64,
        RankOperation { rank: from, index: send, at }: RankOperation,
        receive: u32,
        carrier: &mut impl Carrier,
    ) {
        let Operation { peer, size, nic, .. } = self.trace.operation(at);
        let receive_at = self.trace.first(peer) + receive as usize;
        self.outcome.messages += 1;
        let room = self.trace.operation(receive_at).size;
        if room != ANY_SIZE && size > room {
            self.outcome.truncated.0 += 1;
            if self.outcome.truncated.1.len() < KEPT {
                self.outcome.truncated.1.push((at, receive_at));
            }
        }
        if !self.is_rendezvous(size) {
            return self.receive(now, at, peer, receive);
        }
        self.receives.insert(at, receive);
        let part = Part::Permission;
        let permission = Parcel { rank: from, index: send, part, from: peer, to: from, bytes: 0, nic };
        if peer == from {
            self.agenda.arrives(now, &permission);
        } else {
            carrier.carry(now, &permission, &mut self.agenda);
        }
    }

    fn permit(&mut self, now: u64, rank: u32, index: u32, at: usize) {
        let bytes = per_byte(self.trace.operation(at).size, self.parameters.overhead_per_byte_fs);
        let (_, end) = self.occupy(now, rank, at, bytes);
        self.agenda.push(end, What::DataInject, rank, index);
    }

    /// Handles the data of the send `at`, which has arrived and whose receive is posted.
    fn receive(&mut self, now: u64, at: usize, to: u32, receive: u32) {
        let bytes = per_byte(self.trace.operation(at).size, self.parameters.overhead_per_byte_fs);
        let span = u128::from(self.parameters.overhead.0) + bytes;
        let receive_at = self.trace.first(to) + receive as usize;
        let (_, end) = self.occupy(now, to, receive_at, span);
        self.agenda.push(end, What::Finished, to, receive);
    }

    fn finish(&mut self, now: u64, rank: u32, at: usize) {
        self.waits.finish(&self.trace, rank, at);
        self.outcome.unfinished -= 1;
        let latest = &mut self.outcome.finished[rank as usize];
        *latest = (*latest).max(Time(now));
        if let Some(call) = self.call(at) {
            self.open[call] -= 1;
            if self.open[call] == 0 {
                self.outcome.calls[call].end = Some(Time(now));
            }
        }
        self.release(now, rank, at, When::Finish);
    }

    fn release(&mut self, now: u64, rank: u32, at: usize, when: When) {
        let Self { trace, waits, agenda, .. } = self;
        for &next in trace.successors(at, when).iter() {
            if waits.release(trace, rank, next) == 0 {
                agenda.push(now, What::Ready, rank, next);
            }
        }
    }

    /// The index of the collective operation to which an operation belongs; `None` if it belongs to none.
    fn call(&self, at: usize) -> Option<usize> {
        let mark = self.trace.mark_of(at)?;
        Some(self.calls[mark] as usize)
    }
}

/// Returns the call of each mark of a trace, the number of operations of the selected ranks in each call, and the
/// calls.
fn calls(trace: &Trace, has: impl Fn(u32) -> bool) -> (Vec<u32>, Vec<u64>, Vec<Call>) {
    let mut known: HashMap<(u32, u32), u32> = HashMap::new();
    let (mut of_mark, mut open, mut list) = (Vec::new(), Vec::new(), Vec::new());
    for mark in trace.marks() {
        let call = *known.entry((mark.comm, mark.number)).or_insert_with(|| {
            let (comm, number) = (mark.comm, mark.number);
            list.push(Call { kind: mark.kind, comm, number, ranks: 0, start: None, end: None });
            open.push(0);
            (list.len() - 1) as u32
        });
        list[call as usize].ranks += 1;
        if mark.first < mark.end && has(trace.rank_of(mark.first)) {
            open[call as usize] += (mark.end - mark.first) as u64;
        }
        of_mark.push(call);
    }
    (of_mark, open, list)
}
