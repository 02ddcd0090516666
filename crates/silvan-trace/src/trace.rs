//! The internal representation of a trace: a graph of operations for each rank, stored as a structure of
//! arrays.
//!
//! An operation may wait until other operations of its rank finish or start. Operations on the same CPU of a
//! rank are executed one by one; different CPUs work concurrently. Messages are matched as in MPI: first in,
//! first out for each source, destination and tag, with wildcards for source and tag.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use crate::collective::{Algorithm, Call, Misplaced, SWITCH_PARTS, Shares};
pub use crate::operation::{ANY, ANY_SIZE, Kind, Operation, SWITCH_NIC, When};
use crate::pages::{Page, PageWriter, Pages, Stored};
use crate::sequence::{Sequence, Switched};

/// First tag for collective operations. Wildcards do not match these tags, and MPI tags are smaller.
pub const COLLECTIVE_TAGS: u32 = 1 << 31;
/// Maximum number of ranks of a trace.
pub const MAX_RANKS: u32 = 1 << 20;
/// Maximum number of operations and dependencies together, unless the caller sets another limit. Each uses
/// at most 40 bytes while a trace is built.
pub const MAX_ITEMS: u64 = 1 << 27;
/// The same limit for traces of which a part may be in a temporary file, see [`TraceBuilder::keep`].
pub const MAX_STORED: u64 = 1 << 36;
/// Maximum number of operations and dependencies that such a trace keeps in memory, unless the caller sets another one.
pub const MAX_KEPT: u64 = 1 << 25;
/// Maximum number of operations of a rank.
const MAX_OF_RANK: usize = u32::MAX as usize - 1;

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
    /// A rank has more operations than can be numbered.
    #[error("rank {0}: more than {MAX_OF_RANK} operations")]
    LargeRank(u32),
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
    /// The temporary file for a large trace cannot be written.
    #[error("the trace is too large for memory, and the folder for temporary files cannot store it: {0}")]
    Unstored(String),
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
#[derive(Debug, Clone, PartialEq, Eq)]
struct Edges {
    offsets: Vec<u32>,
    targets: Vec<u32>,
}

impl Default for Edges {
    fn default() -> Self {
        Self { offsets: vec![0], targets: Vec::new() }
    }
}

impl Edges {
    fn of(&self, operation: usize) -> &[u32] {
        &self.targets[self.offsets[operation] as usize..self.offsets[operation + 1] as usize]
    }

    /// Adds the edges of the next operation.
    fn push(&mut self, targets: &[u32]) {
        self.targets.extend_from_slice(targets);
        // The number of items in memory is limited to 2^32 - 1.
        self.offsets.push(self.targets.len() as u32);
    }
}

/// The operations of all ranks, rank by rank, as a structure of arrays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Arrays {
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
}

impl Arrays {
    fn operation(&self, at: usize) -> Operation {
        Operation {
            kind: self.kind[at],
            peer: self.peer[at],
            size: self.size[at],
            tag: self.tag[at],
            cpu: self.cpu[at],
            nic: self.nic[at],
        }
    }

    fn stored(&self, at: usize) -> Stored<'_> {
        let (finish, start) = (self.after_finish.of(at), self.after_start.of(at));
        Stored { operation: self.operation(at), waits: self.waits[at], finish, start }
    }

    fn push(&mut self, stored: &Stored<'_>) {
        let Operation { kind, peer, size, tag, cpu, nic } = stored.operation;
        self.kind.push(kind);
        self.peer.push(peer);
        self.size.push(size);
        self.tag.push(tag);
        self.cpu.push(cpu);
        self.nic.push(nic);
        self.waits.push(stored.waits);
        self.after_finish.push(stored.finish);
        self.after_start.push(stored.start);
    }
}

/// Where the operations of a trace are.
#[derive(Debug, Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are few traces, and each access to an operation uses the arrays"
)]
enum Store {
    Memory(Arrays),
    /// A temporary file, of which a part is in memory.
    File(Arc<Pages>),
}

/// Numbers of operations of a rank.
#[derive(Debug)]
pub struct Successors<'t>(List<'t>);

#[derive(Debug)]
enum List<'t> {
    Slice(&'t [u32]),
    OfPage(Arc<Page>, std::ops::Range<usize>),
}

impl Deref for Successors<'_> {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        match &self.0 {
            List::Slice(numbers) => numbers,
            List::OfPage(page, range) => page.numbers(range.clone()),
        }
    }
}

/// A trace: the operations of all ranks, rank by rank. All peers are in range, and the graphs have no cycles.
///
/// The operations of a large trace may be in a temporary file, see [`TraceBuilder::keep`]. Two traces are equal if their
/// contents are, wherever these are stored.
///
/// # Panics
/// Methods that access an operation panic if the temporary file cannot be read.
#[derive(Debug, Clone)]
pub struct Trace {
    /// Index of the first operation of each rank, followed by the total number of operations.
    first: Vec<usize>,
    store: Store,
    /// Number of dependencies of all ranks.
    dependencies: u64,
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

impl PartialEq for Trace {
    fn eq(&self, other: &Self) -> bool {
        let Self { first, store: _, dependencies, marks, collectives, notes, reducers, switches } = self;
        let same = *first == other.first
            && *dependencies == other.dependencies
            && *marks == other.marks
            && *collectives == other.collectives
            && *notes == other.notes
            && *reducers == other.reducers
            && *switches == other.switches;
        same && match (&self.store, &other.store) {
            (Store::Memory(own), Store::Memory(theirs)) => own == theirs,
            _ => (0..self.operations()).all(|at| {
                self.operation(at) == other.operation(at)
                    && self.waits(at) == other.waits(at)
                    && [When::Finish, When::Start]
                        .into_iter()
                        .all(|when| *self.successors(at, when) == *other.successors(at, when))
            }),
        }
    }
}

impl Eq for Trace {}

impl Hash for Trace {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { first, store: _, dependencies: _, marks, collectives, notes, reducers, switches } = self;
        (first, marks, collectives, notes, reducers, switches).hash(state);
        for at in 0..self.operations() {
            self.operation(at).hash(state);
            self.successors(at, When::Finish).hash(state);
            self.successors(at, When::Start).hash(state);
        }
    }
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
        self.first[self.first.len() - 1]
    }

    /// Number of dependencies of all ranks.
    #[must_use]
    pub const fn dependencies(&self) -> u64 {
        self.dependencies
    }

    /// Whether the operations are in a temporary file.
    #[must_use]
    pub const fn is_stored(&self) -> bool {
        matches!(self.store, Store::File(_))
    }

    /// Passes on the page of an operation in the temporary file, and its place there.
    fn with<R>(&self, pages: &Pages, at: usize, each: impl FnOnce(&Arc<Page>, usize) -> R) -> R {
        let rank = self.rank_of(at);
        pages.with(rank, (at - self.first(rank)) as u32, each)
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
        match &self.store {
            Store::Memory(arrays) => arrays.operation(at),
            Store::File(pages) => self.with(pages, at, |page, place| page.operation(place)),
        }
    }

    /// Number of dependencies of an operation.
    #[must_use]
    pub fn waits(&self, at: usize) -> u32 {
        match &self.store {
            Store::Memory(arrays) => arrays.waits[at],
            Store::File(pages) => self.with(pages, at, |page, place| page.waits(place)),
        }
    }

    /// Operations that wait until an operation finishes or starts, as `when` states. They belong to the rank
    /// of the operation and are numbered within it.
    #[must_use]
    pub fn successors(&self, operation: usize, when: When) -> Successors<'_> {
        Successors(match &self.store {
            Store::Memory(arrays) => List::Slice(match when {
                When::Finish => arrays.after_finish.of(operation),
                When::Start => arrays.after_start.of(operation),
            }),
            Store::File(pages) => self.with(pages, operation, |page, place| {
                let range = page.successors(place, when);
                if range.is_empty() { List::Slice(&[]) } else { List::OfPage(Arc::clone(page), range) }
            }),
        })
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
    ///
    /// # Errors
    /// [`BuildError::Unstored`] if the temporary file of a large trace cannot be written.
    pub fn resize_messages(&mut self, size_of: impl Fn(u64) -> u64) -> Result<(), BuildError> {
        self.resize(|kind, size| match kind {
            Kind::Send => size_of(size),
            Kind::Recv if size != ANY_SIZE => size_of(size),
            _ => size,
        })
    }

    /// Multiplies all durations by a factor and rounds them to nanoseconds. The results saturate at 0 and at
    /// the largest value.
    ///
    /// # Errors
    /// [`BuildError::Unstored`] if the temporary file of a large trace cannot be written.
    pub fn scale_time(&mut self, factor: f64) -> Result<(), BuildError> {
        self.resize(|kind, size| match kind {
            Kind::Calc | Kind::Delay => scaled(size, factor),
            Kind::Send | Kind::Recv => size,
        })
    }

    fn resize(&mut self, size_of: impl Fn(Kind, u64) -> u64) -> Result<(), BuildError> {
        match &mut self.store {
            Store::Memory(arrays) => {
                for (kind, size) in arrays.kind.iter().zip(&mut arrays.size) {
                    *size = size_of(*kind, *size);
                }
            }
            Store::File(pages) => {
                if let Some(changed) = pages.resized(size_of).map_err(unstored)? {
                    *pages = Arc::new(changed);
                }
            }
        }
        Ok(())
    }
}

fn unstored(error: std::io::Error) -> BuildError {
    BuildError::Unstored(error.to_string())
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
    is_closed: bool,
}

/// Collects operations and dependencies, in any order of ranks. The methods panic if a rank does not exist.
#[derive(Debug)]
pub struct TraceBuilder {
    ranks: Vec<Option<Box<Rank>>>,
    /// The ranks that are complete.
    built: Built,
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
            built: Built::default(),
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

    /// Same as [`TraceBuilder::new`], for a trace of any size: if there are more than `kept` operations and dependencies,
    /// those of the ranks that are [closed](Self::close) are written to a temporary file. `limit` is at most [`MAX_STORED`].
    ///
    /// # Errors
    /// Same as [`TraceBuilder::new`].
    pub fn keep(ranks: u64, limit: u64, kept: u64) -> Result<Self, BuildError> {
        if cfg!(target_family = "wasm") {
            // There is no file system.
            return Self::new(ranks, limit.min(MAX_ITEMS));
        }
        let build = Self::new(ranks, limit)?;
        let built = Built { kept: kept.min(u64::from(u32::MAX)), ..Built::default() };
        Ok(Self { limit: limit.min(MAX_STORED), built, ..build })
    }

    /// Number of ranks, including the reducers and switches so far.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// Number of operations that a rank has so far, until it is closed.
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
    /// [`BuildError::TooLarge`] or [`BuildError::LargeRank`] if a limit would be exceeded, or [`BuildError::Peer`] if the peer is
    /// out of range.
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
        if own.operations.len() >= MAX_OF_RANK {
            return Err(BuildError::LargeRank(rank));
        }
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

    /// States that a rank is complete: nothing may be added to it. Its memory is reduced, and may be released, see
    /// [`keep`](Self::keep).
    ///
    /// # Errors
    /// [`BuildError::Cycle`] if operations of the rank wait for each other in a cycle, and [`BuildError::Unstored`].
    pub fn close(&mut self, rank: u32) -> Result<(), BuildError> {
        self.ranks[rank as usize].get_or_insert_default().is_closed = true;
        if self.items > self.built.kept {
            self.built.store_all(self.ranks.len() as u32)?;
        }
        if self.built.pages.is_some() {
            // Ranks that were closed out of order are still here when the first one is written.
            for number in if self.built.is_complete { rank..rank + 1 } else { 0..self.ranks() } {
                self.built.store(number, self.ranks[number as usize].take_if(|rank| rank.is_closed))?;
            }
            self.built.is_complete = true;
            return Ok(());
        }
        while let Some(next) = self.ranks.get_mut(self.built.next as usize)
            && let Some(complete) = next.take_if(|rank| rank.is_closed)
        {
            self.built.append(Some(complete))?;
        }
        Ok(())
    }

    /// Builds the trace of the ranks.
    fn build(self) -> Result<Trace, BuildError> {
        let Self { ranks, mut built, collectives, notes, reducers, switches, .. } = self;
        let count = ranks.len();
        // Each rank is consumed here, so its memory is released as soon as its operations are in the arrays.
        let done = if built.pages.is_some() { 0 } else { built.next as usize };
        for (number, rank) in ranks.into_iter().enumerate().skip(done) {
            match built.pages {
                Some(_) => built.store(number as u32, rank)?,
                None => built.append(rank)?,
            }
        }
        let Built { arrays, mut first, pages, marks, dependencies, .. } = built;
        let store = match pages {
            None => Store::Memory(arrays),
            Some(pages) => {
                let pages = pages.finish(count).map_err(unstored)?;
                let mut next = 0;
                first = vec![0];
                first.extend((0..count as u32).map(|rank| {
                    next += pages.operations(rank) as usize;
                    next
                }));
                Store::File(Arc::new(pages))
            }
        };
        let mut trace =
            Trace { first, store, dependencies, marks: Vec::new(), collectives, notes, reducers, switches };
        let mut marks = marks;
        marks.sort_by_key(|(rank, _)| *rank);
        for (rank, marks) in marks {
            let first = trace.first(rank);
            trace.marks.extend(marks.into_iter().map(|mark| Mark {
                first: first + mark.first,
                end: first + mark.end,
                ..mark
            }));
        }
        Ok(trace)
    }
}

/// The ranks of a trace that are complete.
#[derive(Debug)]
struct Built {
    /// The first ranks, in memory.
    arrays: Arrays,
    /// Index of the first operation of each of these ranks, followed by the number of operations.
    first: Vec<usize>,
    /// The number of these ranks.
    next: u32,
    /// Maximum number of operations and dependencies in memory.
    kept: u64,
    /// The temporary file; `None` while all ranks are in memory.
    pages: Option<PageWriter>,
    /// Whether all ranks that are complete are in the file.
    is_complete: bool,
    /// The marks of each rank that has any, with the numbers of operations within the rank.
    marks: Vec<(u32, Vec<Mark>)>,
    dependencies: u64,
}

impl Default for Built {
    fn default() -> Self {
        Self {
            arrays: Arrays::default(),
            first: vec![0],
            next: 0,
            kept: u64::MAX,
            pages: None,
            is_complete: false,
            marks: Vec::new(),
            dependencies: 0,
        }
    }
}

impl Built {
    /// Adds the next rank to those in memory.
    fn append(&mut self, rank: Option<Box<Rank>>) -> Result<(), BuildError> {
        let number = self.next;
        if let Some(rank) = rank {
            let arrays = &mut self.arrays;
            let (marks, dependencies) = rank.finish(number, &mut |stored| {
                arrays.push(stored);
                Ok(())
            })?;
            self.add(number, marks, dependencies);
        }
        self.first.push(self.arrays.kind.len());
        self.next += 1;
        Ok(())
    }

    fn add(&mut self, rank: u32, marks: Vec<Mark>, dependencies: u64) {
        self.dependencies += dependencies;
        if !marks.is_empty() {
            self.marks.push((rank, marks));
        }
    }

    /// Moves the ranks in memory to the file.
    fn store_all(&mut self, ranks: u32) -> Result<(), BuildError> {
        if self.pages.is_some() {
            return Ok(());
        }
        let mut pages = PageWriter::new(ranks).map_err(unstored)?;
        let arrays = std::mem::take(&mut self.arrays);
        for (rank, range) in (0..).zip(self.first.windows(2)) {
            pages.begin(rank);
            (range[0]..range[1]).try_for_each(|at| pages.push(&arrays.stored(at))).map_err(unstored)?;
            pages.end().map_err(unstored)?;
        }
        self.pages = Some(pages);
        Ok(())
    }

    /// Adds a rank to those in the file, unless it is there already.
    fn store(&mut self, number: u32, rank: Option<Box<Rank>>) -> Result<(), BuildError> {
        let (Some(rank), Some(pages)) = (rank, &mut self.pages) else { return Ok(()) };
        pages.begin(number);
        let (marks, dependencies) =
            rank.finish(number, &mut |stored| pages.push(stored).map_err(unstored))?;
        pages.end().map_err(unstored)?;
        self.add(number, marks, dependencies);
        Ok(())
    }
}

impl Rank {
    /// Passes on the operations with their dependencies. Returns the marks, with the numbers of operations within the rank, and
    /// the number of dependencies.
    fn finish(
        mut self,
        number: u32,
        each: &mut dyn FnMut(&Stored<'_>) -> Result<(), BuildError>,
    ) -> Result<(Vec<Mark>, u64), BuildError> {
        // Sort the edges, so that the same trace in two formats runs identically.
        self.edges.sort_unstable();
        let Self { operations, edges, marks, .. } = self;
        let mut waits = vec![0; operations.len()];
        edges.iter().for_each(|&(_, _, to)| waits[to as usize] += 1);
        if let Some(operations) = find_cycle(&operations, &waits, &edges) {
            return Err(BuildError::Cycle { rank: number, operations });
        }
        let mut rest = &edges[..];
        let mut lists = [Vec::new(), Vec::new()];
        for (index, (&operation, &waits)) in (0..).zip(operations.iter().zip(&waits)) {
            lists.iter_mut().for_each(Vec::clear);
            while let Some((&(from, when, to), later)) = rest.split_first()
                && from == index
            {
                lists[usize::from(when == When::Start)].push(to);
                rest = later;
            }
            let [finish, start] = &lists;
            each(&Stored { operation, waits, finish, start })?;
        }
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        let marks = marks.iter().map(|&(first, end, kind, comm)| {
            let next = numbers.entry(comm).or_default();
            *next += 1;
            Mark { first: first as usize, end: end as usize, kind, comm, number: *next - 1 }
        });
        Ok((marks.collect(), edges.len() as u64))
    }
}

/// Returns operations of a rank that wait for each other in a cycle, if there are any. The dependencies are sorted.
fn find_cycle(
    operations: &[Operation],
    waits: &[u32],
    edges: &[(u32, When, u32)],
) -> Option<Vec<(u32, Operation)>> {
    // Operations that wait only for those before them have no cycle.
    if edges.iter().all(|&(from, _, to)| from < to) {
        return None;
    }
    let count = operations.len();
    let successors = |op: u32| {
        let first = edges.partition_point(|edge| edge.0 < op);
        edges[first..].iter().take_while(move |edge| edge.0 == op).map(|edge| edge.2)
    };
    let mut left: Vec<u32> = waits.to_vec();
    let mut ready: Vec<u32> = (0..count as u32).filter(|&op| left[op as usize] == 0).collect();
    let mut done = 0;
    while let Some(op) = ready.pop() {
        done += 1;
        for next in successors(op) {
            left[next as usize] -= 1;
            if left[next as usize] == 0 {
                ready.push(next);
            }
        }
    }
    if done == count {
        return None;
    }
    // Each remaining operation waits for another remaining one, so following the dependencies must lead to a
    // cycle.
    let mut waits_for = vec![u32::MAX; count];
    for &(from, _, to) in edges.iter().filter(|edge| left[edge.0 as usize] > 0) {
        waits_for[to as usize] = from;
    }
    let mut at = (0..count).find(|&op| left[op] > 0)?;
    for _ in 0..count {
        at = waits_for[at] as usize;
    }
    let start = at;
    let mut found = Vec::new();
    loop {
        found.push((at as u32, operations[at]));
        at = waits_for[at] as usize;
        if at == start {
            return Some(found);
        }
    }
}
