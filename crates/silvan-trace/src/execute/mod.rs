//! A trace run without a network: MPI matching, costs as in LogGP, and what waits for ever.
//!
//! | parameter | what it costs |
//! | --- | --- |
//! | `latency` (L) | each message, from the first byte sent to the first byte there |
//! | `gap` (g) | the least time between two messages of a network interface, each way |
//! | `gap_per_byte` (G) | each byte, at the sender's interface and, pipelined, at the receiver's |
//! | `overhead` (o) | the sender's cpu and the receiver's, per message |
//! | `overhead_per_byte` (O) | both, per byte |
//! | `rendezvous_above` (S) | messages of more bytes wait for their receive |
//!
//! A message of `n` bytes keeps the sender's cpu busy for o + n O. It then enters the interface, which
//! is busy for max(g, n G); its first byte reaches the receiver's interface L later, which takes one message
//! after the other in this order, as an output of a crossbar without congestion inside does. When the last
//! byte is there and the receive is posted, the receiver's cpu is busy for o + n O, and the receive has
//! finished. An eager send has finished when the cpu is free again.
//!
//! Above S bytes a request of no bytes goes first, at a cost of o. When it is there and the receive is
//! posted, a permission comes back L later; the sender's cpu is busy for n O, and the bytes go. The send has
//! finished when they have left.
//!
//! A receive is posted when what it waits for is done and its cpu is free. Messages between two ranks are
//! matched in the order in which they were sent. What a rank sends to itself meets no network.
//!
//! After Alexandrov et al., "LogGP" (1995), and Hoefler, Schneider and Lumsdaine, "LogGOPSim" (2010). There
//! `n - 1` bytes are charged, the cpu's time per byte overlaps with the network's, and a rendezvous ends at
//! the sender when the receive is matched.

mod matching;
mod stuck;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use silvan_engine::{Rate, Time};

use crate::trace::{ANY_SIZE, Kind, Operation, Trace, When};
use matching::Matching;
pub use stuck::{Stuck, Why};

/// What communication costs. Without any of it, only computing takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// L.
    pub latency: Time,
    /// o.
    pub overhead: Time,
    /// g.
    pub gap: Time,
    /// G, in femtoseconds.
    pub gap_per_byte_fs: u64,
    /// O, in femtoseconds.
    pub overhead_per_byte_fs: u64,
    /// S: larger messages wait for their receive.
    pub rendezvous_above: u64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            latency: Time::ZERO,
            overhead: Time::ZERO,
            gap: Time::ZERO,
            gap_per_byte_fs: 0,
            overhead_per_byte_fs: 0,
            rendezvous_above: u64::MAX,
        }
    }
}

impl Parameters {
    /// G of a link of some data rate, to the nearest femtosecond.
    #[must_use]
    pub fn gap_of(rate: Rate) -> u64 {
        const FS_BITS: u128 = 8_000_000_000_000_000;
        ((FS_BITS + u128::from(rate.0) / 2) / u128::from(rate.0.max(1))) as u64
    }
}

/// Why a trace cannot be run at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rank {rank}: {operation}: ends after more than 100 days; is the unit of time right?")]
pub struct TooLong {
    /// The rank.
    pub rank: u32,
    /// The operation with which the range of time ends.
    pub operation: Operation,
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// When each rank finished its last operation.
    pub finished: Vec<Time>,
    /// When the last rank did.
    pub span: Time,
    /// Time that the cpus of each rank computed.
    pub computing: Vec<Time>,
    /// Messages that were matched.
    pub messages: u64,
    /// Operations that never finished.
    pub unfinished: u64,
    /// The first of those that wait for another rank.
    pub stuck: Vec<Stuck>,
    /// Ranks that wait for each other in a circle, each for the next, the last for the first.
    pub circle: Vec<u32>,
    /// Messages that nobody received: how many, and the sends of the first (numbers over all ranks).
    pub unreceived: (u64, Vec<usize>),
    /// Messages longer than their receive: how many, and sends and receives of the first.
    pub truncated: (u64, Vec<(usize, usize)>),
}

impl Execution {
    /// Whether all operations finished.
    #[must_use]
    pub const fn complete(&self) -> bool {
        self.unfinished == 0
    }
}

/// So many of each kind of fault are kept.
const KEPT: usize = 10;

/// What happens, in the order in which it is done at one instant: what concerns the network before what
/// starts anew, so that a message sent first is there first also where nothing takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A message, or its request, is there.
    Arrived,
    /// The bytes of a rendezvous are there.
    DataArrived,
    /// The first byte of a message or a request is there.
    Head,
    /// The first byte of a rendezvous's data is there.
    DataHead,
    /// The cpu has handed a message or a request over.
    Inject,
    /// It has handed the data of a rendezvous over.
    DataInject,
    /// The permission for a rendezvous is there.
    Permit,
    Started,
    Finished,
    Post,
    Ready,
}

/// Time in ps, what, rank, operation within the rank. Events of messages name the sender's.
type Event = Reverse<(u64, What, u32, u32)>;

/// Resources of a rank: when each is free again, in ps.
#[derive(Debug, Default)]
struct Free {
    cpus: Vec<u64>,
    outgoing: Vec<u64>,
    incoming: Vec<u64>,
}

fn slot(list: &mut Vec<u64>, number: u8) -> &mut u64 {
    let number = usize::from(number);
    if list.len() <= number {
        list.resize(number + 1, 0);
    }
    &mut list[number]
}

struct Machine<'t> {
    trace: &'t Trace,
    parameters: Parameters,
    events: BinaryHeap<Event>,
    /// Dependencies of each operation that are not yet met; [`DONE`] when it has finished.
    waits: Vec<u32>,
    free: Vec<Free>,
    matching: Matching,
    /// The receive of each rendezvous that is under way, by its send.
    receives: HashMap<usize, u32>,
    outcome: Execution,
}

/// In place of a number of dependencies.
const DONE: u32 = u32::MAX;

/// The latest time, in ps: 106 days.
const END: u64 = u64::MAX / 2;

/// Runs a trace.
///
/// # Errors
/// [`TooLong`].
pub fn execute(trace: &Trace, parameters: &Parameters) -> Result<Execution, TooLong> {
    let ranks = trace.ranks() as usize;
    let mut machine = Machine {
        trace,
        parameters: *parameters,
        events: BinaryHeap::new(),
        waits: trace.waits().to_vec(),
        free: std::iter::repeat_with(Free::default).take(ranks).collect(),
        matching: Matching::new(ranks),
        receives: HashMap::new(),
        outcome: Execution {
            finished: vec![Time::ZERO; ranks],
            span: Time::ZERO,
            computing: vec![Time::ZERO; ranks],
            messages: 0,
            unfinished: trace.operations() as u64,
            stuck: Vec::new(),
            circle: Vec::new(),
            unreceived: (0, Vec::new()),
            truncated: (0, Vec::new()),
        },
    };
    machine.run()?;
    Ok(machine.close())
}

impl Machine<'_> {
    fn run(&mut self) -> Result<(), TooLong> {
        for rank in 0..self.trace.ranks() {
            for (index, operation) in self.trace.of_rank(rank).enumerate() {
                if self.waits[operation] == 0 {
                    self.events.push(Reverse((0, What::Ready, rank, index as u32)));
                }
            }
        }
        while let Some(Reverse((now, what, rank, index))) = self.events.pop() {
            let at = self.trace.first(rank) + index as usize;
            match what {
                What::Ready => self.ready(now, rank, index, at)?,
                What::Started => self.release(now, rank, at, When::Start),
                What::Finished => self.finish(now, rank, at),
                What::Inject | What::DataInject => self.inject(now, what, rank, index, at)?,
                What::Head | What::DataHead => self.head(now, what, rank, index, at)?,
                What::Arrived => self.arrived(now, rank, index, at)?,
                What::DataArrived => {
                    if let Some(receive) = self.receives.remove(&at) {
                        self.receive(now, at, self.trace.operation(at).peer, receive)?;
                    }
                }
                What::Permit => self.permit(now, rank, index, at)?,
                What::Post => self.post(now, rank, index, at)?,
            }
        }
        Ok(())
    }

    fn close(mut self) -> Execution {
        self.outcome.span = self.outcome.finished.iter().copied().max().unwrap_or_default();
        let mut sends = self.matching.unreceived(self.trace);
        self.outcome.unreceived.0 = sends.len() as u64;
        sends.truncate(KEPT);
        self.outcome.unreceived.1 = sends;
        if !self.outcome.complete() {
            (self.outcome.stuck, self.outcome.circle) =
                stuck::explain(self.trace, &self.waits, &self.parameters, KEPT);
        }
        self.outcome
    }

    /// A later time, refused beyond the range.
    fn later(&self, now: u64, span: u128, at: usize) -> Result<u64, TooLong> {
        let end = u128::from(now) + span;
        if end > u128::from(END) {
            return Err(TooLong { rank: self.trace.rank_of(at), operation: self.trace.operation(at) });
        }
        Ok(end as u64)
    }

    fn push(&mut self, time: u64, what: What, rank: u32, index: u32) {
        self.events.push(Reverse((time, what, rank, index)));
    }

    /// Keeps a cpu busy from when it is free on; gives start and end.
    fn occupy(&mut self, now: u64, rank: u32, at: usize, span: u128) -> Result<(u64, u64), TooLong> {
        let cpu = self.trace.operation(at).cpu;
        let start = now.max(*slot(&mut self.free[rank as usize].cpus, cpu));
        let end = self.later(start, span, at)?;
        *slot(&mut self.free[rank as usize].cpus, cpu) = end;
        Ok((start, end))
    }

    const fn is_rendezvous(&self, bytes: u64) -> bool {
        bytes > self.parameters.rendezvous_above
    }

    fn ready(&mut self, now: u64, rank: u32, index: u32, at: usize) -> Result<(), TooLong> {
        let operation = self.trace.operation(at);
        let overhead = u128::from(self.parameters.overhead.0);
        let (start, end) = match operation.kind {
            Kind::Delay => (now, self.later(now, u128::from(operation.size) * 1000, at)?),
            Kind::Calc => self.occupy(now, rank, at, u128::from(operation.size) * 1000)?,
            Kind::Send if self.is_rendezvous(operation.size) => self.occupy(now, rank, at, overhead)?,
            Kind::Send => {
                let bytes = per_byte(operation.size, self.parameters.overhead_per_byte_fs);
                self.occupy(now, rank, at, overhead + bytes)?
            }
            Kind::Recv => {
                let (start, _) = self.occupy(now, rank, at, 0)?;
                self.push(start, What::Post, rank, index);
                return Ok(());
            }
        };
        self.push(start, What::Started, rank, index);
        match operation.kind {
            Kind::Send => {
                self.push(end, What::Inject, rank, index);
                if !self.is_rendezvous(operation.size) {
                    self.push(end, What::Finished, rank, index);
                }
            }
            kind => {
                if kind == Kind::Calc {
                    self.outcome.computing[rank as usize].0 += end - start;
                }
                self.push(end, What::Finished, rank, index);
            }
        }
        Ok(())
    }

    /// Bytes that a message puts on the network now: none in the request of a rendezvous.
    const fn on_network(&self, what: What, bytes: u64) -> u64 {
        if matches!(what, What::DataInject | What::DataHead) || !self.is_rendezvous(bytes) {
            bytes
        } else {
            0
        }
    }

    fn inject(&mut self, now: u64, what: What, rank: u32, index: u32, at: usize) -> Result<(), TooLong> {
        let operation = self.trace.operation(at);
        if operation.peer == rank {
            let (next, left) = match what {
                What::DataInject => (What::DataArrived, true),
                _ => (What::Arrived, false),
            };
            self.push(now, next, rank, index);
            if left {
                self.push(now, What::Finished, rank, index);
            }
            return Ok(());
        }
        let span = per_byte(self.on_network(what, operation.size), self.parameters.gap_per_byte_fs);
        let start = now.max(*slot(&mut self.free[rank as usize].outgoing, operation.nic));
        let busy = self.later(start, span.max(u128::from(self.parameters.gap.0)), at)?;
        *slot(&mut self.free[rank as usize].outgoing, operation.nic) = busy;
        let head = self.later(start, u128::from(self.parameters.latency.0), at)?;
        let next = if what == What::DataInject { What::DataHead } else { What::Head };
        self.push(head, next, rank, index);
        if what == What::DataInject {
            let left = self.later(start, span, at)?;
            self.push(left, What::Finished, rank, index);
        }
        Ok(())
    }

    fn head(&mut self, now: u64, what: What, rank: u32, index: u32, at: usize) -> Result<(), TooLong> {
        let operation = self.trace.operation(at);
        let span = per_byte(self.on_network(what, operation.size), self.parameters.gap_per_byte_fs);
        let to = operation.peer as usize;
        let start = now.max(*slot(&mut self.free[to].incoming, operation.nic));
        let busy = self.later(start, span.max(u128::from(self.parameters.gap.0)), at)?;
        *slot(&mut self.free[to].incoming, operation.nic) = busy;
        let there = self.later(start, span, at)?;
        let next = if what == What::DataHead { What::DataArrived } else { What::Arrived };
        self.push(there, next, rank, index);
        Ok(())
    }

    fn arrived(&mut self, now: u64, rank: u32, index: u32, at: usize) -> Result<(), TooLong> {
        let operation = self.trace.operation(at);
        match self.matching.arrive(operation.peer, rank, operation.tag, index) {
            Some(receive) => self.matched(now, rank, index, at, receive),
            None => Ok(()),
        }
    }

    fn post(&mut self, now: u64, rank: u32, index: u32, at: usize) -> Result<(), TooLong> {
        // Others may wait for the start of a receive: that is here.
        self.release(now, rank, at, When::Start);
        let operation = self.trace.operation(at);
        match self.matching.post(rank, operation.peer, operation.tag, index) {
            Some((from, send)) => {
                let send_at = self.trace.first(from) + send as usize;
                self.matched(now, from, send, send_at, index)
            }
            None => Ok(()),
        }
    }

    /// A send and a receive have found each other.
    fn matched(&mut self, now: u64, from: u32, send: u32, at: usize, receive: u32) -> Result<(), TooLong> {
        let operation = self.trace.operation(at);
        let receive_at = self.trace.first(operation.peer) + receive as usize;
        self.outcome.messages += 1;
        let room = self.trace.operation(receive_at).size;
        if room != ANY_SIZE && operation.size > room {
            self.outcome.truncated.0 += 1;
            if self.outcome.truncated.1.len() < KEPT {
                self.outcome.truncated.1.push((at, receive_at));
            }
        }
        if !self.is_rendezvous(operation.size) {
            return self.receive(now, at, operation.peer, receive);
        }
        self.receives.insert(at, receive);
        let back = if operation.peer == from { 0 } else { u128::from(self.parameters.latency.0) };
        let time = self.later(now, back, at)?;
        self.push(time, What::Permit, from, send);
        Ok(())
    }

    fn permit(&mut self, now: u64, rank: u32, index: u32, at: usize) -> Result<(), TooLong> {
        let bytes = per_byte(self.trace.operation(at).size, self.parameters.overhead_per_byte_fs);
        let (_, end) = self.occupy(now, rank, at, bytes)?;
        self.push(end, What::DataInject, rank, index);
        Ok(())
    }

    /// The bytes of the send `at` are there and its receive is posted.
    fn receive(&mut self, now: u64, at: usize, to: u32, receive: u32) -> Result<(), TooLong> {
        let bytes = per_byte(self.trace.operation(at).size, self.parameters.overhead_per_byte_fs);
        let span = u128::from(self.parameters.overhead.0) + bytes;
        let receive_at = self.trace.first(to) + receive as usize;
        let (_, end) = self.occupy(now, to, receive_at, span)?;
        self.push(end, What::Finished, to, receive);
        Ok(())
    }

    fn finish(&mut self, now: u64, rank: u32, at: usize) {
        self.waits[at] = DONE;
        self.outcome.unfinished -= 1;
        let latest = &mut self.outcome.finished[rank as usize];
        *latest = (*latest).max(Time(now));
        self.release(now, rank, at, When::Finish);
    }

    fn release(&mut self, now: u64, rank: u32, at: usize, when: When) {
        let trace = self.trace;
        for &next in trace.successors(at, when) {
            let waits = &mut self.waits[trace.first(rank) + next as usize];
            *waits -= 1;
            if *waits == 0 {
                self.push(now, What::Ready, rank, next);
            }
        }
    }
}

/// Bytes at a pace in fs, as ps, a part of one counted as whole.
fn per_byte(bytes: u64, pace_fs: u64) -> u128 {
    (u128::from(bytes) * u128::from(pace_fs)).div_ceil(1000)
}
