//! Collective operations by named algorithm, as rounds of messages.
//!
//! In a round a rank posts all receives, then all sends, and goes on when all have finished. The
//! algorithms are those of Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication
//! Operations in MPICH" (2005), and of Bruck et al. (1997). What an algorithm cannot do is an error that
//! names those that can: never is another one taken in silence.

mod exchange;
mod rooted;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A collective operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Collective {
    /// Everybody gets the combination of all vectors.
    AllReduce,
    /// Everybody gets everybody's block.
    AllGather,
    /// Each gets its block of the combination.
    ReduceScatter,
    /// Everybody has a block for everybody.
    AllToAll,
    /// The root's vector goes to all.
    Broadcast,
    /// The root gets the combination.
    Reduce,
    /// The root gets everybody's block.
    Gather,
    /// Each gets its block of the root.
    Scatter,
    /// Nobody leaves before all have come.
    Barrier,
    /// Each gets the combination of those before it.
    Scan,
}

/// How it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// From neighbour to neighbour.
    Ring,
    /// Exchange at doubling distance of all one has.
    RecursiveDoubling,
    /// Exchange at halving distance of half of it; for an all-reduce, doubling again after that.
    RecursiveHalving,
    /// A binomial tree.
    Binomial,
    /// One partner after the other, each round another shift.
    Pairwise,
    /// Bruck's, in the logarithm of the number of ranks.
    Bruck,
    /// At doubling distance, to one side.
    Dissemination,
    /// All messages at once, or from the root, or along a chain.
    Linear,
}

/// All operations.
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
    /// Its name, as in files and messages.
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

    /// The algorithms that it has; the first is used where none is chosen.
    #[must_use]
    pub const fn algorithms(self) -> &'static [Algorithm] {
        use Algorithm::{
            Binomial, Bruck, Dissemination, Linear, Pairwise, RecursiveDoubling, RecursiveHalving, Ring,
        };
        match self {
            Self::AllReduce => &[RecursiveDoubling, Ring, RecursiveHalving, Binomial],
            Self::AllGather => &[Ring, RecursiveDoubling, Bruck],
            Self::ReduceScatter => &[Pairwise, Ring, RecursiveHalving],
            Self::AllToAll => &[Pairwise, Bruck, Linear],
            Self::Broadcast => &[Binomial, Ring, Linear],
            Self::Reduce | Self::Gather | Self::Scatter => &[Binomial, Linear],
            Self::Barrier => &[Dissemination, RecursiveDoubling, Binomial],
            Self::Scan => &[RecursiveDoubling, Linear],
        }
    }
}

impl Algorithm {
    /// Its name, as in files and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::RecursiveDoubling => "recursive-doubling",
            Self::RecursiveHalving => "recursive-halving",
            Self::Binomial => "binomial",
            Self::Pairwise => "pairwise",
            Self::Bruck => "bruck",
            Self::Dissemination => "dissemination",
            Self::Linear => "linear",
        }
    }
}

/// Which algorithm each operation is done by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice([Algorithm; COLLECTIVES.len()]);

impl Default for Choice {
    fn default() -> Self {
        Self(COLLECTIVES.map(|operation| operation.algorithms()[0]))
    }
}

impl Choice {
    /// The algorithm for an operation.
    #[must_use]
    pub const fn of(&self, operation: Collective) -> Algorithm {
        self.0[operation as usize]
    }

    /// Chooses by name, as "all-reduce" and "ring".
    ///
    /// # Errors
    /// A name that is none, or an algorithm that the operation does not have; says which there are.
    pub fn set(&mut self, operation: &str, algorithm: &str) -> Result<(), String> {
        let Some(known) = COLLECTIVES.into_iter().find(|one| one.name() == operation) else {
            let names = COLLECTIVES.map(Collective::name).join(", ");
            return Err(format!("collective operation `{operation}` is not one of {names}"));
        };
        let Some(&chosen) = known.algorithms().iter().find(|one| one.name() == algorithm) else {
            let names: Vec<&str> = known.algorithms().iter().map(|one| one.name()).collect();
            return Err(format!("{operation} by `{algorithm}` is not one of {}", names.join(", ")));
        };
        self.0[known as usize] = chosen;
        Ok(())
    }
}

/// Bytes of a collective operation.
#[derive(Debug, Clone, Copy)]
pub enum Sizes<'s> {
    /// The vector (all-reduce, broadcast, reduce, scan), or each block.
    Uniform(u64),
    /// The block of each rank (all-gather, reduce-scatter, gather, scatter).
    PerRank(&'s [u64]),
    /// All-to-all: what this rank sends to each, and receives from each.
    Matrix {
        /// To each rank.
        sends: &'s [u64],
        /// From each rank.
        recvs: &'s [u64],
    },
}

/// One collective operation over ranks `0..ranks`.
#[derive(Debug, Clone, Copy)]
pub struct Call<'s> {
    /// The operation.
    pub operation: Collective,
    /// How it is done.
    pub algorithm: Algorithm,
    /// How many take part.
    pub ranks: u32,
    /// The root, where there is one.
    pub root: u32,
    /// Bytes.
    pub sizes: Sizes<'s>,
}

/// What a rank sends and receives at once: peers and bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Round {
    /// To whom, and how much.
    pub sends: Vec<(u32, u64)>,
    /// From whom, and how much.
    pub recvs: Vec<(u32, u64)>,
}

impl Round {
    fn send(peer: u32, bytes: u64) -> Self {
        Self { sends: vec![(peer, bytes)], recvs: Vec::new() }
    }

    fn recv(peer: u32, bytes: u64) -> Self {
        Self { sends: Vec::new(), recvs: vec![(peer, bytes)] }
    }

    fn exchange(to: u32, sent: u64, from: u32, received: u64) -> Self {
        Self { sends: vec![(to, sent)], recvs: vec![(from, received)] }
    }
}

/// Takes the rounds of a rank one by one: all of a large operation need not be in memory.
pub(crate) type Take<'t, E> = &'t mut dyn FnMut(&Round) -> Result<(), E>;

impl<'s> Call<'s> {
    /// A call, if its algorithm can do it.
    ///
    /// # Errors
    /// The algorithm is not one of the operation's, needs a power of two of ranks, or blocks of one size;
    /// the root is none of the ranks; there are not as many sizes as ranks.
    pub fn new(
        operation: Collective,
        algorithm: Algorithm,
        ranks: u32,
        root: u32,
        sizes: Sizes<'s>,
    ) -> Result<Self, String> {
        let (name, by) = (operation.name(), algorithm.name());
        if !operation.algorithms().contains(&algorithm) {
            let names: Vec<&str> = operation.algorithms().iter().map(|one| one.name()).collect();
            return Err(format!("{name} by `{by}` is not one of {}", names.join(", ")));
        }
        if root >= ranks {
            return Err(format!("{name}: the root {root} is none of the {ranks} ranks"));
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
                Collective::AllGather => "ring or bruck",
                _ => "pairwise or ring",
            };
            return Err(format!("{name} by {by} needs a power of two of ranks, not {ranks}; take {others}"));
        }
        if algorithm == Algorithm::Bruck && matches!(sizes, Sizes::Matrix { .. }) {
            return Err(format!("{name} by bruck needs blocks of one size; take pairwise or linear"));
        }
        Ok(Self { operation, algorithm, ranks, root, sizes })
    }

    /// Gives the rounds of rank `me` one by one.
    ///
    /// # Errors
    /// Those of `take`.
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

    /// The bytes of the whole vector.
    fn vector(&self) -> u64 {
        match self.sizes {
            Sizes::Uniform(bytes) => bytes,
            Sizes::PerRank(list) | Sizes::Matrix { sends: list, .. } => sum(list.iter().copied()),
        }
    }

    /// The block of a rank, counted round the ring.
    fn block(&self, rank: u32) -> u64 {
        match self.sizes {
            Sizes::Uniform(bytes) => bytes,
            Sizes::PerRank(list) | Sizes::Matrix { sends: list, .. } => list[(rank % self.ranks) as usize],
        }
    }

    /// Blocks of `count` ranks from `from` on, round the ring.
    fn blocks(&self, from: u32, count: u32) -> u64 {
        match self.sizes {
            Sizes::Uniform(bytes) => bytes.saturating_mul(u64::from(count)),
            _ => sum((0..count).map(|step| self.block(self.ahead(from, step)))),
        }
    }

    /// The rank `by` places further on the ring.
    const fn ahead(&self, rank: u32, by: u32) -> u32 {
        ((rank as u64 + by as u64) % self.ranks as u64) as u32
    }

    /// The rank `by` places (fewer than there are ranks) back on the ring.
    const fn back(&self, rank: u32, by: u32) -> u32 {
        self.ahead(rank, self.ranks - by)
    }
}

/// Sizes come from files: a sum stops at the end of its range, and the size is refused where it is used.
fn sum(sizes: impl Iterator<Item = u64>) -> u64 {
    sizes.fold(0, u64::saturating_add)
}
