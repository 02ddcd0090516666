//! Expands collective operations to rounds of messages, with a selectable algorithm.
//!
//! In each round, a rank posts all receives, then all sends, and continues when all of them have finished. Two binary trees
//! consist of several independent streams of rounds.
//! The algorithms are those of Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication
//! Operations in MPICH" (2005), and of Bruck et al. (1997); double trees and `pat` are those of NCCL (Jeaugey 2025). If an
//! algorithm does not support an operation, the error lists the algorithms that do. No other algorithm is substituted.

mod exchange;
mod nvls;
mod rooted;
mod trees;
mod tuner;

pub(crate) use nvls::{PIECES, SWITCH_PARTS, Shares};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub(crate) use tuner::StepLatency;
pub use tuner::{CpuVendor, Gpu, LatencySet, Protocol, Tuned, Tuner};

/// A collective operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Collective {
    /// Every rank receives the combination of all vectors.
    AllReduce,
    /// Every rank receives the blocks of all ranks.
    AllGather,
    /// Every rank receives its block of the combination.
    ReduceScatter,
    /// Every rank sends a different block to every other rank.
    AllToAll,
    /// Every rank receives the root's vector.
    Broadcast,
    /// The root receives the combination of all vectors.
    Reduce,
    /// The root receives the blocks of all ranks.
    Gather,
    /// Every rank receives its block from the root.
    Scatter,
    /// No rank continues before all ranks have reached the barrier.
    Barrier,
    /// Every rank receives the combination of its own vector and those of all earlier ranks.
    Scan,
}

/// An algorithm for a collective operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Messages between neighboring ranks on a ring.
    Ring,
    /// Exchange of all data, over distances that double in each round.
    RecursiveDoubling,
    /// Exchange of half of the data, over distances that halve in each round. An all-reduce then uses
    /// doubling distances again.
    RecursiveHalving,
    /// A binomial tree.
    Binomial,
    /// Two binary trees at the same time, each with one half of the data, in chunks.
    DoubleTree,
    /// Reduce-scatter between the ranks of each host, ring all-reduce between the ranks of all hosts with the same number, and
    /// all-gather between the ranks of each host.
    Hierarchical,
    /// Switches within hosts combine and copy the data (NVLS of NCCL). Between hosts, double trees of the ranks with the same
    /// number each reduce a share of it (NVLS tree) in an all-reduce; the ranks of other operations must share a host.
    Nvls,
    /// A different partner in each round.
    Pairwise,
    /// Bruck's algorithm, with a logarithmic number of rounds.
    Bruck,
    /// Parallel aggregated trees: Bruck's algorithm with the long distances at the beginning of an all-gather and at the end of
    /// a reduce-scatter, when messages are small.
    Pat,
    /// Messages in one direction, over distances that double in each round.
    Dissemination,
    /// All messages are sent at the same time, directly to or from the root, or along a chain.
    Linear,
    /// The network combines the data: each rank sends its vector to a reducer and receives the result from it.
    /// See [`crate::reduction`].
    InNetwork,
}

/// All collective operations.
pub const COLLECTIVES: [Collective; 10] = [
    Collective::AllReduce,
    Collective::AllGather,
    Collective::ReduceScatter,
    Collective::AllToAll,
    Collective::Broadcast,
    Collective::Reduce,
    Collective::Gather,
    Collective::Scatter,
    Collective::Barrier,
    Collective::Scan,
];

impl Collective {
    /// The operation's name in files and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all-reduce",
            Self::AllGather => "all-gather",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllToAll => "all-to-all",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Barrier => "barrier",
            Self::Scan => "scan",
        }
    }

    /// The algorithms that support the operation; the first one is the default.
    #[must_use]
    pub const fn algorithms(self) -> &'static [Algorithm] {
        use Algorithm::{
            Binomial, Bruck, Dissemination, DoubleTree, Hierarchical, InNetwork, Linear, Nvls, Pairwise, Pat,
            RecursiveDoubling, RecursiveHalving, Ring,
        };
        match self {
            Self::AllReduce => &[
                RecursiveDoubling,
                Ring,
                RecursiveHalving,
                Binomial,
                DoubleTree,
                Hierarchical,
                Nvls,
                InNetwork,
            ],
            Self::AllGather => &[Ring, RecursiveDoubling, Bruck, Pat, Nvls],
            Self::ReduceScatter => &[Pairwise, Ring, RecursiveHalving, Pat, Nvls],
            Self::AllToAll => &[Pairwise, Bruck, Linear],
            Self::Broadcast => &[Binomial, Ring, Linear],
            Self::Reduce | Self::Gather | Self::Scatter => &[Binomial, Linear],
            Self::Barrier => &[Dissemination, RecursiveDoubling, Binomial, InNetwork],
            Self::Scan => &[RecursiveDoubling, Linear],
        }
    }
}

impl Algorithm {
    /// The algorithm's name in files and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::RecursiveDoubling => "recursive-doubling",
            Self::RecursiveHalving => "recursive-halving",
            Self::Binomial => "binomial",
            Self::DoubleTree => "double-tree",
            Self::Hierarchical => "hierarchical",
            Self::Nvls => "nvls",
            Self::Pairwise => "pairwise",
            Self::Bruck => "bruck",
            Self::Pat => "pat",
            Self::Dissemination => "dissemination",
            Self::Linear => "linear",
            Self::InNetwork => "in-network",
        }
    }
}

/// An algorithm with its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variant {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Consecutive ranks that share a host ([`Algorithm::Hierarchical`], [`Algorithm::Nvls`]).
    pub ranks_per_host: u32,
    /// Maximum size of a chunk in bytes ([`Algorithm::DoubleTree`], [`Algorithm::Nvls`]).
    pub chunk: u64,
    /// Maximum number of rings ([`Algorithm::Ring`]), at most [`STREAMS`]. There are no more rings than ranks on a host.
    pub channels: u8,
    /// Chooses the protocol, and if `is_default`, the algorithm of each call.
    pub tuner: Option<Tuner>,
    /// The time that each message of an algorithm of NCCL waits before it is sent.
    pub latencies: Option<LatencySet>,
    /// The protocol of the messages if the tuner does not choose it. It determines latencies only.
    pub protocol: Protocol,
    /// Whether the algorithm was not selected.
    pub is_default: bool,
}

impl From<Algorithm> for Variant {
    fn from(algorithm: Algorithm) -> Self {
        Variant { is_default: false, algorithm, ..Choice::default().of(Collective::AllReduce) }
    }
}

/// Default size of a chunk of [`Algorithm::DoubleTree`] and [`Algorithm::Nvls`].
pub const CHUNK: u64 = 1 << 17;

/// The selected algorithm for each operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    algorithms: [Algorithm; COLLECTIVES.len()],
    /// See [`Variant::ranks_per_host`].
    pub ranks_per_host: u32,
    /// See [`Variant::chunk`].
    pub chunk: u64,
    /// See [`Variant::channels`].
    pub channels: u8,
    /// See [`Variant::tuner`].
    pub tuner: Option<Tuner>,
    /// See [`Variant::latencies`].
    pub latencies: Option<LatencySet>,
    /// See [`Variant::protocol`].
    pub protocol: Protocol,
    is_default: [bool; COLLECTIVES.len()],
}

impl Default for Choice {
    fn default() -> Self {
        let algorithms = COLLECTIVES.map(|operation| operation.algorithms()[0]);
        let is_default = [true; COLLECTIVES.len()];
        let (latencies, protocol) = (None, Protocol::Simple);
        Self {
            algorithms,
            ranks_per_host: 1,
            chunk: CHUNK,
            channels: 1,
            tuner: None,
            latencies,
            protocol,
            is_default,
        }
    }
}

impl Choice {
    /// The selected algorithm for an operation, with its settings.
    #[must_use]
    pub const fn of(&self, operation: Collective) -> Variant {
        let algorithm = self.algorithms[operation as usize];
        let is_default = self.is_default[operation as usize];
        let Self { ranks_per_host, chunk, channels, tuner, latencies, protocol, .. } = *self;
        Variant { algorithm, ranks_per_host, chunk, channels, tuner, latencies, protocol, is_default }
    }

    /// Selects an algorithm by names, such as "all-reduce" and "ring".
    ///
    /// # Errors
    /// If a name is unknown or the operation does not support the algorithm. The message lists the valid
    /// names.
    pub fn set(&mut self, operation: &str, algorithm: &str) -> Result<(), String> {
        let Some(known) = COLLECTIVES.into_iter().find(|one| one.name() == operation) else {
            let names = COLLECTIVES.map(Collective::name).join(", ");
            return Err(format!("collective operation `{operation}` is not one of {names}"));
        };
        let Some(&chosen) = known.algorithms().iter().find(|one| one.name() == algorithm) else {
            let names: Vec<&str> = known.algorithms().iter().map(|one| one.name()).collect();
            return Err(format!("algorithm `{algorithm}` of {operation} is not one of {}", names.join(", ")));
        };
        self.algorithms[known as usize] = chosen;
        self.is_default[known as usize] = false;
        Ok(())
    }
}

/// Sizes of a collective operation, in bytes.
#[derive(Debug, Clone, Copy)]
pub enum Sizes<'s> {
    /// Size of the vector (all-reduce, broadcast, reduce, scan), or of each block.
    Uniform(u64),
    /// The block of each rank (all-gather, reduce-scatter, gather, scatter).
    PerRank(&'s [u64]),
    /// For all-to-all: the bytes that this rank sends to each rank, and the bytes that it receives from
    /// each rank.
    Matrix {
        /// Bytes sent to each rank.
        sends: &'s [u64],
        /// Bytes received from each rank.
        recvs: &'s [u64],
    },
}

/// One collective operation over ranks `0..ranks`.
#[derive(Debug, Clone, Copy)]
pub struct Call<'s> {
    /// The operation.
    pub operation: Collective,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Number of participating ranks.
    pub ranks: u32,
    /// The root, less than `ranks`. Ignored if the operation has no root.
    pub root: u32,
    /// The sizes of vectors or blocks.
    pub sizes: Sizes<'s>,
    /// Consecutive participants that share a host ([`Algorithm::Hierarchical`], [`Algorithm::Ring`]). If it does not divide the
    /// number of participants, each has a host of its own.
    pub ranks_per_host: u32,
    /// Maximum size of a chunk in bytes ([`Algorithm::DoubleTree`], [`Algorithm::Nvls`]).
    pub chunk: u64,
    /// See [`Variant::channels`].
    pub channels: u8,
    /// See [`Variant::tuner`].
    pub tuner: Option<Tuner>,
    /// See [`Variant::latencies`].
    pub latencies: Option<LatencySet>,
    /// See [`Variant::protocol`].
    pub protocol: Protocol,
    /// See [`Variant::is_default`].
    pub is_default: bool,
}

/// Messages that a rank sends and receives at the same time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Round {
    /// Destination and bytes of each message.
    pub sends: Vec<(u32, u64)>,
    /// Source and bytes of each message.
    pub recvs: Vec<(u32, u64)>,
    /// Number of the stream of rounds, below [`STREAMS`]. A round waits for the previous round of its stream only.
    pub stream: u8,
    /// Number of the tag of the messages, below [`STREAMS`].
    pub tag: u8,
}

/// The size of a received message that is not known.
pub(crate) const ANY_BYTES: u64 = u64::MAX;

/// The hosts of participants do not suit an algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misplaced {
    /// Their numbers on hosts differ: the name of the algorithm, and their number on the first host.
    Uneven(&'static str, u32),
    /// They are on several hosts: the name of the operation.
    SeveralHosts(&'static str),
}

/// Maximum number of streams of rounds that a rank executes at the same time in a collective operation.
pub const STREAMS: u8 = 64;

impl Round {
    fn send(peer: u32, bytes: u64) -> Self {
        Self { sends: vec![(peer, bytes)], ..Self::default() }
    }

    fn recv(peer: u32, bytes: u64) -> Self {
        Self { recvs: vec![(peer, bytes)], ..Self::default() }
    }

    fn exchange(to: u32, sent: u64, from: u32, received: u64) -> Self {
        Self { sends: vec![(to, sent)], recvs: vec![(from, received)], ..Self::default() }
    }
}

/// A callback that receives the rounds of a rank one by one, so that a large operation need not be in
/// memory.
pub(crate) type Take<'t, E> = &'t mut dyn FnMut(&Round) -> Result<(), E>;

impl<'s> Call<'s> {
    /// Creates a call if the algorithm supports it.
    ///
    /// # Errors
    /// If the operation does not support the algorithm, the algorithm needs blocks of equal size or a number
    /// of ranks that is a power of two, or hosts with several ranks, the root is out of range, or the number of sizes differs
    /// from the number of ranks.
    pub fn new(
        operation: Collective,
        variant: impl Into<Variant>,
        ranks: u32,
        root: u32,
        sizes: Sizes<'s>,
    ) -> Result<Self, String> {
        let Variant { algorithm, ranks_per_host, chunk, channels, tuner, latencies, protocol, is_default } =
            variant.into();
        let (name, by) = (operation.name(), algorithm.name());
        if !operation.algorithms().contains(&algorithm) {
            let names: Vec<&str> = operation.algorithms().iter().map(|one| one.name()).collect();
            return Err(format!("algorithm `{by}` of {name} is not one of {}", names.join(", ")));
        }
        if root >= ranks {
            return Err(format!("{name}: the root {root} is not one of the {ranks} ranks"));
        }
        let wrong = match sizes {
            Sizes::Uniform(_) => None,
            Sizes::PerRank(list) => (list.len() != ranks as usize).then_some(list.len()),
            Sizes::Matrix { sends, recvs } => {
                [sends.len(), recvs.len()].into_iter().find(|&length| length != ranks as usize)
            }
        };
        if let Some(length) = wrong {
            return Err(format!("{name}: {length} sizes for {ranks} ranks"));
        }
        let scattered = matches!(operation, Collective::AllGather | Collective::ReduceScatter);
        let doubling = matches!(algorithm, Algorithm::RecursiveDoubling | Algorithm::RecursiveHalving);
        if scattered && doubling && !ranks.is_power_of_two() {
            let others = match operation {
                Collective::AllGather => "ring, bruck or pat",
                _ => "pairwise, ring or pat",
            };
            return Err(format!("{name} by {by} needs a power of two of ranks, not {ranks}; use {others}"));
        }
        if algorithm == Algorithm::Bruck && matches!(sizes, Sizes::Matrix { .. }) {
            return Err(format!("{name} by bruck needs blocks of equal size; use pairwise or linear"));
        }
        if matches!(algorithm, Algorithm::Hierarchical | Algorithm::Nvls) && ranks_per_host <= 1 {
            return Err(format!(
                "{name} by {by} needs several ranks per host (job.ranks_per_host); use ring"
            ));
        }
        Ok(Self {
            operation,
            algorithm,
            ranks,
            root,
            sizes,
            ranks_per_host,
            chunk,
            channels,
            tuner,
            latencies,
            protocol,
            is_default,
        })
    }

    /// Lets the tuner choose. Returns the call with the chosen algorithm, protocol and number of participants on each host, and
    /// the name of algorithm and protocol. `members` maps the index of a participant to its rank, and consecutive ranks share a
    /// host.
    ///
    /// # Errors
    /// If the algorithm needs equally many participants on each host, or all on one host.
    pub(crate) fn tuned(&self, members: &dyn Fn(u32) -> u32) -> Result<(Self, &'static str), Misplaced> {
        let mut call = *self;
        let mut name = self.algorithm.name();
        if let Some(tuner) = self.tuner.filter(|_| self.ranks > 1) {
            let bytes = match self.operation {
                Collective::AllGather | Collective::ReduceScatter => self.blocks(0, self.ranks),
                _ => self.vector(),
            };
            let (hosts, each) = (self.hosts(members), self.on_each_host(members).ok());
            let tuned = Tuned { operation: self.operation, ranks: self.ranks, hosts, each, bytes };
            let given = (!self.is_default).then_some(self.algorithm);
            call.protocol = Protocol::Simple;
            if let Some((algorithm, protocol)) = tuner.choose(&tuned, given) {
                (call.algorithm, call.protocol) = (algorithm, protocol);
                name = tuner::name(algorithm, protocol);
            }
        }
        let of_hosts = match call.algorithm {
            Algorithm::Hierarchical | Algorithm::Nvls => {
                let name = call.algorithm.name();
                call.on_each_host(members).map_err(|first| Misplaced::Uneven(name, first))?
            }
            Algorithm::Ring if call.channels > 1 => call.on_each_host(members).unwrap_or(1),
            _ => 1,
        };
        let is_switched = call.algorithm == Algorithm::Nvls && call.operation != Collective::AllReduce;
        if is_switched && of_hosts < call.ranks {
            return Err(Misplaced::SeveralHosts(call.operation.name()));
        }
        Ok((Self { ranks_per_host: of_hosts, ..call }, name))
    }

    /// The size of a message with a number of bytes of data. The protocol of a whole job changes sizes later.
    pub(crate) fn size(&self, data: u64) -> u64 {
        if self.tuner.is_some() { self.protocol.size(data) } else { data }
    }

    /// The number of hosts, if consecutive ranks share them.
    pub(crate) fn hosts(&self, members: &dyn Fn(u32) -> u32) -> u32 {
        let host = |place: u32| members(place) / self.ranks_per_host.max(1);
        1 + (1..self.ranks).filter(|&place| host(place) != host(place - 1)).count() as u32
    }

    /// The number of participants on each host, which are consecutive ones; as an error, that on the first host if the numbers
    /// differ.
    fn on_each_host(&self, members: &dyn Fn(u32) -> u32) -> Result<u32, u32> {
        let host = |place: u32| members(place) / self.ranks_per_host.max(1);
        let each = (0..self.ranks).take_while(|&place| host(place) == host(0)).count() as u32;
        // Each block of participants shares a host, and the next block has another one.
        let is_block = |place: u32| host(place) == host(place / each * each);
        let is_even = (0..self.ranks).all(|place| {
            let is_next = place < each || !place.is_multiple_of(each) || host(place) != host(place - each);
            is_block(place) && is_next
        });
        if is_even && self.ranks.is_multiple_of(each) { Ok(each) } else { Err(each) }
    }

    /// Passes the rounds of rank `me` to `take`, one by one. If the algorithm is [`Algorithm::InNetwork`],
    /// the peer is the reducer, whose number is [`Call::reducer`]. With [`Algorithm::Nvls`], the peers with this number and the
    /// next one are parts of the switch within the host. A call of a single rank has no rounds.
    ///
    /// # Errors
    /// The errors of `take`.
    pub fn rounds<E>(&self, me: u32, take: Take<'_, E>) -> Result<(), E> {
        if self.ranks <= 1 {
            return Ok(());
        }
        match self.operation {
            Collective::AllReduce => exchange::all_reduce(self, me, take),
            Collective::AllGather => exchange::all_gather(self, me, take),
            Collective::ReduceScatter => exchange::reduce_scatter(self, me, take),
            Collective::AllToAll => exchange::all_to_all(self, me, take),
            Collective::Barrier => exchange::barrier(self, me, take),
            Collective::Scan => exchange::scan(self, me, take),
            Collective::Broadcast => rooted::broadcast(self, me, self.vector(), take),
            Collective::Reduce => rooted::reduce(self, me, self.vector(), take),
            Collective::Gather => rooted::gather(self, me, take),
            Collective::Scatter => rooted::scatter(self, me, take),
        }
    }

    /// The peer that represents the reducer of an [`Algorithm::InNetwork`] call: the number after those of
    /// all ranks.
    #[must_use]
    pub const fn reducer(&self) -> u32 {
        self.ranks
    }

    /// The bytes that an [`Algorithm::InNetwork`] call reduces: none in a barrier.
    pub(crate) fn reduced(&self) -> u64 {
        if self.operation == Collective::Barrier { 0 } else { self.vector() }
    }

    /// The bytes of the whole vector.
    fn vector(&self) -> u64 {
        match self.sizes {
            Sizes::Uniform(bytes) => bytes,
            Sizes::PerRank(list) | Sizes::Matrix { sends: list, .. } => sum(list.iter().copied()),
        }
    }

    /// The block size of a rank; `rank` is taken modulo the number of ranks.
    fn block(&self, rank: u32) -> u64 {
        match self.sizes {
            Sizes::Uniform(bytes) => bytes,
            Sizes::PerRank(list) | Sizes::Matrix { sends: list, .. } => list[(rank % self.ranks) as usize],
        }
    }

    /// The total block size of `count` ranks, starting with `from`, modulo the number of ranks.
    fn blocks(&self, from: u32, count: u32) -> u64 {
        match self.sizes {
            Sizes::Uniform(bytes) => bytes.saturating_mul(u64::from(count)),
            _ => sum((0..count).map(|step| self.block(self.ahead(from, step)))),
        }
    }

    /// The rank `by` positions after `rank` on the ring.
    const fn ahead(&self, rank: u32, by: u32) -> u32 {
        ((rank as u64 + by as u64) % self.ranks as u64) as u32
    }

    /// The rank `by` positions (fewer than there are ranks) before `rank` on the ring.
    const fn back(&self, rank: u32, by: u32) -> u32 {
        self.ahead(rank, self.ranks - by)
    }
}

/// The sizes come from files, so the sum saturates. A sum that is too large is rejected where it is used.
fn sum(sizes: impl Iterator<Item = u64>) -> u64 {
    sizes.fold(0, u64::saturating_add)
}

/// The size of one of `parts` parts of about the same size.
pub(crate) const fn part(whole: u64, parts: u64, index: u64) -> u64 {
    whole / parts + (index < whole % parts) as u64
}
