//! The internal representation of a trace: a graph of operations for each rank, stored as a structure of
//! arrays.
//!
//! An operation may wait until other operations of its rank finish or start. Operations on the same CPU of a
//! rank are executed one by one; different CPUs work concurrently. Messages are matched as in MPI: first in,
//! first out for each source, destination and tag, with wildcards for source and tag.

use silvan_engine::saved::Saved;
use std::collections::HashMap;
use std::fmt;

use crate::collective::{Algorithm, Call, Misplaced, SWITCH_PARTS, Shares};
use crate::sequence::{Sequence, Switched};

/// Wildcard. As a peer, it means any source; as a tag, it means any tag below [`COLLECTIVE_TAGS`].
pub const ANY: u32 = u32::MAX;
/// The size of a receive that accepts messages of any size.
pub const ANY_SIZE: u64 = u64::MAX;
/// First tag for collective operations. Wildcards do not match these tags, and MPI tags are smaller.
pub const COLLECTIVE_TAGS: u32 = 1 << 31;
/// Interface of messages to and from a switch that connects the ranks of a host, see [`Trace::switches`]. Files cannot use it.
pub const SWITCH_NIC: u8 = u8::MAX;
/// Maximum number of ranks of a trace.
pub const MAX_RANKS: u32 = 1 << 20;
/// Maximum number of operations and dependencies together, unless the caller sets another limit. Each uses
/// at most 40 bytes while a trace is built.
pub const MAX_ITEMS: u64 = 1 << 27;

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Saved)]
#[repr(u8)]
pub enum Kind {
    /// Sends a message.
    Send,
    /// Receives a message.
    Recv,
    /// Computes, which occupies a CPU.
    Calc,
    /// Lets time pass without using a CPU.
    Delay,
}

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Saved)]
pub struct Operation {
    /// Kind of the operation.
    pub kind: Kind,
    /// Destination or source of a message ([`ANY`] means any source); 0 for other kinds.
    pub peer: u32,
    /// Size of a message in bytes ([`ANY_SIZE`] in a receive means any size), or duration in ns.
    pub size: u64,
    /// Tag of a message ([`ANY`] in a receive means any tag); 0 for other kinds.
    pub tag: u32,
    /// Number of the CPU within the rank.
    pub cpu: u8,
    /// Number of the network interface within the rank.
    pub nic: u8,
}

impl Operation {
    /// Sends `bytes` to rank `to`.
    #[must_use]
    pub const fn send(to: u32, bytes: u64, tag: u32) -> Self {
        Self { kind: Kind::Send, peer: to, size: bytes, tag, cpu: 0, nic: 0 }
    }

    /// Receives up to `bytes` from rank `from`.
    #[must_use]
    pub const fn recv(from: u32, bytes: u64, tag: u32) -> Self {
        Self { kind: Kind::Recv, peer: from, size: bytes, tag, cpu: 0, nic: 0 }
    }

    /// Computes for `ns` nanoseconds.
    #[must_use]
    pub const fn calc(ns: u64) -> Self {
        Self { kind: Kind::Calc, peer: 0, size: ns, tag: 0, cpu: 0, nic: 0 }
    }

    /// Waits for `ns` nanoseconds.
    #[must_use]
    pub const fn delay(ns: u64) -> Self {
        Self { kind: Kind::Delay, peer: 0, size: ns, tag: 0, cpu: 0, nic: 0 }
    }

    /// Returns a message to or from a switch within its host.
    #[must_use]
    pub(crate) const fn at_switch(mut self) -> Self {
        self.nic = SWITCH_NIC;
        self
    }

    /// Returns the same operation on another CPU.
    #[must_use]
    pub const fn on(mut self, cpu: u8) -> Self {
        self.cpu = cpu;
        self
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peer, size, tag, .. } = *self;
        match self.kind {
            Kind::Send => write!(f, "send {size} bytes to rank {peer}, tag {tag}"),
            Kind::Recv => {
                let from = if peer == ANY { "any rank".to_owned() } else { format!("rank {peer}") };
                let tag = if tag == ANY { "any tag".to_owned() } else { format!("tag {tag}") };
                if size == ANY_SIZE {
                    return write!(f, "receive from {from}, {tag}");
                }
                write!(f, "receive {size} bytes from {from}, {tag}")
            }
            Kind::Calc => write!(f, "compute {size} ns"),
            Kind::Delay => write!(f, "wait {size} ns"),
        }
    }
}

/// The condition of a dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum When {
    /// The earlier operation has finished.
    Finish,
    /// The earlier operation has started.
    Start,
}

/// The reason why a trace cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The number of ranks is zero or too large.
    #[error("{0} ranks; a trace has 1 to {MAX_RANKS}")]
    Ranks(u64),
    /// The participants of a collective operation that distinguishes hosts are not evenly distributed.
    #[error(
        "`{0}` needs the same number of consecutive participants on each host; the first host has {1}; use `ring`, or change \
         ranks_per_host"
    )]
    Uneven(&'static str, u32),
    /// The participants of a collective operation by the switch of a host are on several hosts.
    #[error("{0} by `nvls` needs all participants on one host; use `ring`, or change ranks_per_host")]
    SeveralHosts(&'static str),
    /// Ranks that stand for the network and for switches within hosts would have the same numbers.
    #[error("`in-network` and `nvls` cannot be combined in a program; choose one of them")]
    Mixed,
    /// There are more operations and dependencies than allowed.
    #[error("more than {0} operations and dependencies; raise the limit if there is memory for more")]
    TooLarge(u64),
    /// An operation names a rank that does not exist.
    #[error("rank {rank}: {operation}: there is no rank {}; there are {ranks}", operation.peer)]
    Peer {
        /// Rank of the operation.
        rank: u32,
        /// The operation.
        operation: Operation,
        /// The number of ranks.
        ranks: u32,
    },
    /// A message uses [`SWITCH_NIC`].
    #[error("rank {rank}: {operation}: network interface {SWITCH_NIC} is reserved; use a smaller number")]
    Interface {
        /// Rank of the operation.
        rank: u32,
        /// The operation.
        operation: Operation,
    },
    /// Operations wait for each other in a cycle.
    #[error("rank {rank}: operations wait for each other in a cycle: {}", cycle(.operations))]
    Cycle {
        /// The rank.
        rank: u32,
        /// The operations of the cycle. Each waits for the next, and the last waits for the first.
        operations: Vec<(u32, Operation)>,
    },
}

impl From<Misplaced> for BuildError {
    fn from(misplaced: Misplaced) -> Self {
        match misplaced {
            Misplaced::Uneven(algorithm, first) => Self::Uneven(algorithm, first),
            Misplaced::SeveralHosts(operation) => Self::SeveralHosts(operation),
        }
    }
}

fn cycle(operations: &[(u32, Operation)]) -> String {
    const SHOWN: usize = 6;
    let mut parts: Vec<String> =
        operations.iter().take(SHOWN).map(|(index, op)| format!("{index} ({op})")).collect();
    if operations.len() > SHOWN {
        parts.push(format!("... {} in all", operations.len()));
    }
    parts.join(" after ")
}

/// Number of times that a collective operation was expanded with a certain algorithm.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, Hash)]
pub struct CollectiveUse {
    /// Name of the operation, such as "all-reduce".
    pub operation: &'static str,
    /// Name of the algorithm, such as "ring".
    pub algorithm: &'static str,
    /// Number of calls. A call counts once for each participating rank.
    pub calls: u64,
}

/// The consecutive operations of one rank in an expanded collective operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mark {
    /// First operation, as a number over all ranks.
    pub first: usize,
    /// End of the range (exclusive).
    pub end: usize,
    /// Index into [`Trace::collectives`].
    pub kind: u16,
    /// The communicator.
    pub comm: u32,
    /// Number of earlier collective operations of the rank on that communicator.
    pub number: u32,
}

/// The edges of all operations. Those of operation `i` are `targets[offsets[i]..offsets[i + 1]]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Edges {
    offsets: Vec<u32>,
    targets: Vec<u32>,
}

impl Edges {
    fn of(&self, operation: usize) -> &[u32] {
        &self.targets[self.offsets[operation] as usize..self.offsets[operation + 1] as usize]
    }
}

/// A trace: the operations of all ranks, rank by rank. All peers are in range, and the graphs have no cycles.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Trace {
    /// Index of the first operation of each rank, followed by the total number of operations.
    first: Vec<usize>,
    kind: Vec<Kind>,
    peer: Vec<u32>,
    size: Vec<u64>,
    tag: Vec<u32>,
    cpu: Vec<u8>,
    nic: Vec<u8>,
    /// Number of dependencies of each operation.
    waits: Vec<u32>,
    after_finish: Edges,
    after_start: Edges,
    /// Marks of collective operations, in the order of the operations.
    marks: Vec<Mark>,
    /// Collective operations that were expanded into messages.
    pub collectives: Vec<CollectiveUse>,
    /// Notes of the reader about assumptions, and about contents that have no effect.
    pub notes: Vec<String>,
    /// Reducers. They are the last ranks, in this order.
    pub reducers: Vec<Reducer>,
    /// For each rank that is a part of the switch that connects the ranks of a host ([`Algorithm::Nvls`]), a rank of this host.
    /// They are the last ranks, in this order; a trace does not have both these and reducers.
    pub switches: Vec<u32>,
}

/// A rank that represents the network in the collective operations of a communicator: it combines the vectors
/// of the other ranks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reducer {
    /// The ranks whose vectors are combined.
    pub members: Vec<u32>,
    /// The bytes of the vector of each operation, in order.
    pub calls: Vec<u64>,
    /// The tag of the messages.
    pub tag: u32,
}

impl Trace {
    /// Number of ranks of the application: all ranks except reducers and switches.
    #[must_use]
    pub fn members(&self) -> u32 {
        self.ranks() - (self.reducers.len() + self.switches.len()) as u32
    }

    /// Number of ranks, including reducers and switches.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        // The number of ranks is at most `MAX_RANKS`, so it fits.
        (self.first.len() - 1) as u32
    }

    /// Number of operations of all ranks.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.kind.len()
    }

    /// Number of dependencies of all ranks.
    #[must_use]
    pub fn dependencies(&self) -> usize {
        self.after_finish.targets.len() + self.after_start.targets.len()
    }

    /// The operations of a rank, as numbers over all ranks.
    #[must_use]
    pub fn of_rank(&self, rank: u32) -> std::ops::Range<usize> {
        self.first[rank as usize]..self.first[rank as usize + 1]
    }

    /// Number of the first operation of a rank.
    #[must_use]
    pub fn first(&self, rank: u32) -> usize {
        self.first[rank as usize]
    }

    /// The rank to which an operation belongs.
    #[must_use]
    pub fn rank_of(&self, operation: usize) -> u32 {
        (self.first.partition_point(|&first| first <= operation) - 1) as u32
    }

    /// One operation, by its number over all ranks.
    #[must_use]
    pub fn operation(&self, at: usize) -> Operation {
        Operation {
            kind: self.kind[at],
            peer: self.peer[at],
            size: self.size[at],
            tag: self.tag[at],
            cpu: self.cpu[at],
            nic: self.nic[at],
        }
    }

    /// Number of dependencies of each operation.
    #[must_use]
    pub fn waits(&self) -> &[u32] {
        &self.waits
    }

    /// Operations that wait until an operation finishes or starts, as `when` states. They belong to the rank
    /// of the operation and are numbered within it.
    #[must_use]
    pub fn successors(&self, operation: usize, when: When) -> &[u32] {
        match when {
            When::Finish => self.after_finish.of(operation),
            When::Start => self.after_start.of(operation),
        }
    }

    /// The marks of collective operations, in the order of the operations.
    #[must_use]
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// The index of the mark that contains an operation. `None` if no mark does.
    #[must_use]
    pub fn mark_of(&self, operation: usize) -> Option<usize> {
        let after = self.marks.partition_point(|mark| mark.first <= operation);
        let mark = after.checked_sub(1)?;
        (operation < self.marks[mark].end).then_some(mark)
    }

    /// Replaces the size of each message. Receives that accept any size stay as they are.
    pub fn resize_messages(&mut self, size_of: impl Fn(u64) -> u64) {
        for (kind, size) in self.kind.iter().zip(&mut self.size) {
            if *kind == Kind::Send || *kind == Kind::Recv && *size != ANY_SIZE {
                *size = size_of(*size);
            }
        }
    }

    /// Multiplies all durations by a factor and rounds them to nanoseconds. The results saturate at 0 and at
    /// the largest value.
    pub fn scale_time(&mut self, factor: f64) {
        for (kind, size) in self.kind.iter().zip(&mut self.size) {
            if matches!(kind, Kind::Calc | Kind::Delay) {
                *size = scaled(*size, factor);
            }
        }
    }
}

/// Multiplies a duration by a factor and rounds it; the conversion from float to integer saturates.
pub(crate) fn scaled(ns: u64, factor: f64) -> u64 {
    if (factor - 1.0).abs() < f64::EPSILON { ns } else { (ns as f64 * factor).round() as u64 }
}

#[derive(Debug, Default)]
struct Rank {
    operations: Vec<Operation>,
    /// Dependencies (from, when, to), which mean that `to` waits for `from`.
    edges: Vec<(u32, When, u32)>,
    /// First operation, end, kind and communicator of each collective operation.
    marks: Vec<(u32, u32, u16, u32)>,
}

/// Collects operations and dependencies, in any order of ranks. The methods panic if a rank does not exist.
#[derive(Debug)]
pub struct TraceBuilder {
    ranks: Vec<Option<Box<Rank>>>,
    items: u64,
    limit: u64,
    collectives: Vec<CollectiveUse>,
    /// Notes for the trace, see [`Trace::notes`].
    pub notes: Vec<String>,
    reducers: Vec<Reducer>,
    /// The index of each reducer by communicator, number of members, and first member.
    reducer_of: HashMap<(u32, u32, u32), usize>,
    /// See [`Trace::switches`].
    switches: Vec<u32>,
    /// The operations of the switches.
    switched: Vec<Switched>,
}

impl TraceBuilder {
    /// Starts an empty trace. `limit` is the maximum number of operations and dependencies together, at most
    /// 2^32 - 1.
    ///
    /// # Errors
    /// [`BuildError::Ranks`] if the number of ranks is out of range.
    pub fn new(ranks: u64, limit: u64) -> Result<Self, BuildError> {
        let count = u32::try_from(ranks).ok().filter(|count| (1..=MAX_RANKS).contains(count));
        let count = count.ok_or(BuildError::Ranks(ranks))? as usize;
        let limit = limit.min(u64::from(u32::MAX));
        let ranks = std::iter::repeat_with(|| None).take(count).collect();
        Ok(Self {
            ranks,
            items: 0,
            limit,
            collectives: Vec::new(),
            notes: Vec::new(),
            reducers: Vec::new(),
            reducer_of: HashMap::new(),
            switches: Vec::new(),
            switched: Vec::new(),
        })
    }

    /// Number of ranks, including the reducers and switches so far.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// Number of operations that a rank has so far.
    #[must_use]
    pub fn operations(&self, rank: u32) -> u32 {
        self.ranks[rank as usize].as_ref().map_or(0, |rank| rank.operations.len() as u32)
    }

    /// Number of ranks of the application.
    fn members(&self) -> u32 {
        self.ranks() - (self.reducers.len() + self.switches.len()) as u32
    }

    /// Checks whether a number of additional operations and dependencies is allowed, before they are created.
    ///
    /// # Errors
    /// [`BuildError::TooLarge`] if the limit would be exceeded.
    pub fn allow(&self, items: u64) -> Result<(), BuildError> {
        let most = self.limit.saturating_sub(self.items);
        if items > most { Err(BuildError::TooLarge(self.limit)) } else { Ok(()) }
    }

    fn rank(&mut self, rank: u32) -> Result<&mut Rank, BuildError> {
        self.allow(1)?;
        self.items += 1;
        Ok(self.ranks[rank as usize].get_or_insert_default())
    }

    /// Adds an operation to a rank and returns its number within the rank.
    ///
    /// # Errors
    /// [`BuildError::TooLarge`] if the limit would be exceeded, or [`BuildError::Peer`] if the peer is out of
    /// range.
    pub fn push(&mut self, rank: u32, operation: Operation) -> Result<u32, BuildError> {
        // Only collective operations exchange messages with reducers and switches.
        let ranks = if operation.tag < COLLECTIVE_TAGS { self.members() } else { self.ranks() };
        let wildcard = operation.kind == Kind::Recv && operation.peer == ANY;
        let message = matches!(operation.kind, Kind::Send | Kind::Recv);
        if message && !wildcard && operation.peer >= ranks {
            return Err(BuildError::Peer { rank, operation, ranks });
        }
        if message && operation.nic == SWITCH_NIC && operation.tag < COLLECTIVE_TAGS {
            return Err(BuildError::Interface { rank, operation });
        }
        let own = self.rank(rank)?;
        own.operations.push(operation);
        Ok((own.operations.len() - 1) as u32)
    }

    /// Makes `later` wait for `earlier`. Both are operations of this rank.
    ///
    /// # Errors
    /// [`BuildError::TooLarge`] if the limit would be exceeded.
    pub fn wait(&mut self, rank: u32, later: u32, earlier: u32, when: When) -> Result<(), BuildError> {
        let own = self.rank(rank)?;
        debug_assert!((later.max(earlier) as usize) < own.operations.len());
        own.edges.push((earlier, when, later));
        Ok(())
    }

    /// Marks the operations of a rank, starting with `first`, as part of a collective operation.
    pub(crate) fn mark_collective(
        &mut self,
        (rank, first, comm): (u32, u32, u32),
        operation: &'static str,
        algorithm: &'static str,
    ) {
        let mut known = self.collectives.iter();
        let kind = known.position(|use_| use_.operation == operation && use_.algorithm == algorithm);
        let kind = kind.unwrap_or_else(|| {
            self.collectives.push(CollectiveUse { operation, algorithm, calls: 0 });
            self.collectives.len() - 1
        });
        self.collectives[kind].calls += 1;
        if let Some(own) = self.ranks[rank as usize].as_mut()
            && first < own.operations.len() as u32
        {
            own.marks.push((first, own.operations.len() as u32, kind as u16, comm));
        }
    }

    /// Returns the reducer of a call, which is created with the first call of its communicator; `None` if the call
    /// needs none.
    ///
    /// # Errors
    /// [`BuildError::Ranks`] if there would be too many ranks, and [`BuildError::TooLarge`].
    pub(crate) fn reducer(
        &mut self,
        call: &Call<'_>,
        members: &dyn Fn(u32) -> u32,
        me: u32,
        (comm, tag): (u32, u32),
    ) -> Result<Option<u32>, BuildError> {
        if call.algorithm != Algorithm::InNetwork || call.ranks <= 1 {
            return Ok(None);
        }
        if !self.switches.is_empty() {
            return Err(BuildError::Mixed);
        }
        let known = (comm, call.ranks, members(0));
        let first = self.members();
        let index = match self.reducer_of.get(&known) {
            Some(&index) => index,
            None => {
                if self.ranks() >= MAX_RANKS {
                    return Err(BuildError::Ranks(u64::from(MAX_RANKS) + 1));
                }
                let members = (0..call.ranks).map(members).collect();
                self.reducers.push(Reducer { members, calls: Vec::new(), tag });
                self.ranks.push(None);
                self.reducer_of.insert(known, self.reducers.len() - 1);
                self.reducers.len() - 1
            }
        };
        if me == 0 {
            self.reducers[index].calls.push(call.reduced());
        }
        Ok(Some(first + index as u32))
    }

    /// Returns the first of the ranks of the switch that connects the ranks of a host, for a collective operation of some of them
    /// by [`Algorithm::Nvls`]. `ranks_per_host` is the number of ranks on each host. The first participant adds the operations of
    /// the switch.
    ///
    /// # Errors
    /// [`BuildError::Ranks`] if there would be too many ranks, and [`BuildError::Mixed`].
    pub(crate) fn switch(
        &mut self,
        participants: impl Iterator<Item = u32>,
        (me, ranks_per_host): (u32, u32),
        (comm, shares): (u32, Shares),
    ) -> Result<u32, BuildError> {
        if !self.reducers.is_empty() {
            return Err(BuildError::Mixed);
        }
        if self.switches.is_empty() {
            let hosts = (0..self.ranks()).step_by(ranks_per_host.max(1) as usize);
            self.switches = hosts.flat_map(|rank| [rank; SWITCH_PARTS as usize]).collect();
            let ranks = self.ranks.len() + self.switches.len();
            if ranks > MAX_RANKS as usize {
                return Err(BuildError::Ranks(ranks as u64));
            }
            self.ranks.resize_with(ranks, || None);
        }
        let first = self.members() + SWITCH_PARTS * (me / ranks_per_host.max(1));
        let participants: Vec<u32> = participants.collect();
        if participants[0] == me {
            self.switched.push(Switched { first, participants, comm, shares });
        }
        Ok(first)
    }

    /// Adds the operations of reducers: each receives the vectors of all members, then sends the result to all.
    fn add_reducers(&mut self) -> Result<(), BuildError> {
        let reducers = std::mem::take(&mut self.reducers);
        let first = self.ranks() - (reducers.len() + self.switches.len()) as u32;
        for (rank, reducer) in (first..).zip(&reducers) {
            let mut sequence = Sequence::new(rank);
            for &bytes in &reducer.calls {
                let messages = |of: fn(u32, u64, u32) -> Operation| {
                    reducer.members.iter().map(move |&member| of(member, bytes, reducer.tag))
                };
                sequence.together(self, messages(Operation::recv))?;
                sequence.together(self, messages(Operation::send))?;
            }
        }
        self.reducers = reducers;
        Ok(())
    }

    /// Builds the trace.
    ///
    /// # Errors
    /// [`BuildError::Cycle`] if operations wait for each other in a cycle, and [`BuildError::TooLarge`].
    pub fn finish(mut self) -> Result<Trace, BuildError> {
        self.add_reducers()?;
        for switched in std::mem::take(&mut self.switched) {
            switched.add(&mut self)?;
        }
        self.build()
    }

    /// Continues a trace: the new one has the same collective operations, notes and switches.
    pub(crate) fn like(trace: &Trace, ranks: u64, limit: u64) -> Result<Self, BuildError> {
        let build = Self::new(ranks, limit)?;
        let (collectives, notes) = (trace.collectives.clone(), trace.notes.clone());
        Ok(Self { collectives, notes, switches: trace.switches.clone(), ..build })
    }

    /// Marks operations of a rank as part of a collective operation of a trace that this one continues.
    pub(crate) fn mark_again(&mut self, rank: u32, (first, end): (u32, u32), mark: &Mark) {
        if let Some(own) = self.ranks[rank as usize].as_mut() {
            own.marks.push((first, end, mark.kind, mark.comm));
        }
    }

    /// Builds the trace of the ranks.
    fn build(self) -> Result<Trace, BuildError> {
        let mut trace = Trace {
            first: Vec::with_capacity(self.ranks.len() + 1),
            kind: Vec::new(),
            peer: Vec::new(),
            size: Vec::new(),
            tag: Vec::new(),
            cpu: Vec::new(),
            nic: Vec::new(),
            waits: Vec::new(),
            after_finish: Edges { offsets: vec![0], targets: Vec::new() },
            after_start: Edges { offsets: vec![0], targets: Vec::new() },
            marks: Vec::new(),
            collectives: self.collectives,
            notes: self.notes,
            reducers: self.reducers,
            switches: self.switches,
        };
        trace.first.push(0);
        // Each rank is consumed here, so its memory is released as soon as its operations are in the arrays.
        for (number, rank) in self.ranks.into_iter().enumerate() {
            if let Some(rank) = rank {
                append(&mut trace, number as u32, *rank)?;
            }
            trace.first.push(trace.kind.len());
        }
        Ok(trace)
    }
}

fn append(trace: &mut Trace, number: u32, mut rank: Rank) -> Result<(), BuildError> {
    let first = trace.kind.len();
    trace.waits.resize(first + rank.operations.len(), 0);
    for operation in &rank.operations {
        trace.kind.push(operation.kind);
        trace.peer.push(operation.peer);
        trace.size.push(operation.size);
        trace.tag.push(operation.tag);
        trace.cpu.push(operation.cpu);
        trace.nic.push(operation.nic);
    }
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    for &(from, end, kind, comm) in &rank.marks {
        let next = numbers.entry(comm).or_default();
        let (number, from, end) = (*next, first + from as usize, first + end as usize);
        trace.marks.push(Mark { first: from, end, kind, comm, number });
        *next += 1;
    }
    // Sort the edges, so that the same trace in two formats runs identically.
    rank.edges.sort_unstable();
    let mut edges = rank.edges.iter().peekable();
    for index in 0..rank.operations.len() as u32 {
        while let Some(&&(_, when, to)) = edges.peek().filter(|edge| edge.0 == index) {
            trace.waits[first + to as usize] += 1;
            let list = if when == When::Finish { &mut trace.after_finish } else { &mut trace.after_start };
            list.targets.push(to);
            edges.next();
        }
        for list in [&mut trace.after_finish, &mut trace.after_start] {
            list.offsets.push(list.targets.len() as u32);
        }
    }
    trace.first.push(first);
    let cycle = find_cycle(trace, first);
    trace.first.pop();
    match cycle {
        Some(operations) => Err(BuildError::Cycle { rank: number, operations }),
        None => Ok(()),
    }
}

/// Returns operations with numbers from `first` that wait for each other in a cycle, if there are any.
fn find_cycle(trace: &Trace, first: usize) -> Option<Vec<(u32, Operation)>> {
    let count = trace.kind.len() - first;
    let mut left: Vec<u32> = trace.waits[first..].to_vec();
    let mut ready: Vec<u32> = (0..count as u32).filter(|&op| left[op as usize] == 0).collect();
    let mut done = 0;
    while let Some(op) = ready.pop() {
        done += 1;
        for when in [When::Finish, When::Start] {
            for &next in trace.successors(first + op as usize, when) {
                left[next as usize] -= 1;
                if left[next as usize] == 0 {
                    ready.push(next);
                }
            }
        }
    }
    if done == count {
        return None;
    }
    // Each remaining operation waits for another remaining one, so following the dependencies must lead to a
    // cycle.
    let mut waits_for = vec![u32::MAX; count];
    for op in (0..count as u32).filter(|&op| left[op as usize] > 0) {
        for when in [When::Finish, When::Start] {
            trace
                .successors(first + op as usize, when)
                .iter()
                .for_each(|&next| waits_for[next as usize] = op);
        }
    }
    let mut at = (0..count).find(|&op| left[op] > 0)?;
    for _ in 0..count {
        at = waits_for[at] as usize;
    }
    let start = at;
    let mut operations = Vec::new();
    loop {
        operations.push((at as u32, trace.operation(first + at)));
        at = waits_for[at] as usize;
        if at == start {
            return Some(operations);
        }
    }
}
