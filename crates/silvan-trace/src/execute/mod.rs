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

//!
//! | part | what it does |
//! | --- | --- |
//! | [`Ranks`] | what each rank does when: dependencies, cpus, matching |
//! | [`Carrier`] | what takes messages from rank to rank: here LogGP's costs, in a simulation the network |

mod loggp;
mod matching;
mod ranks;
mod stuck;

use silvan_engine::{Rate, Time};

use crate::trace::{Operation, Trace};
pub use loggp::{Cost, Crossbar};
pub use ranks::{Agenda, Carrier, Parcel, Part, Ranks};
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
    /// Time that at least one cpu of each rank computed, or handled a message.
    pub busy: Vec<Time>,
    /// Collective operations, in the order in which they began.
    pub calls: Vec<Call>,
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

/// A collective operation as it was executed, over all ranks that take part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Which of [`Trace::collectives`] it is.
    pub kind: u16,
    /// Its communicator.
    pub comm: u32,
    /// How many this communicator had before it.
    pub number: u32,
    /// Ranks that take part.
    pub ranks: u32,
    /// When the first rank came to it; none if none did.
    pub start: Option<Time>,
    /// When the last operation of it finished, if all did.
    pub end: Option<Time>,
}

impl Execution {
    /// Whether all operations finished.
    #[must_use]
    pub const fn complete(&self) -> bool {
        self.unfinished == 0
    }
}

/// Runs a trace.
///
/// # Errors
/// [`TooLong`].
pub fn execute(trace: &Trace, parameters: &Parameters) -> Result<Execution, TooLong> {
    let mut crossbar = Crossbar::new((0..trace.ranks()).collect(), |parcel| parameters.cost(parcel));
    let mut ranks = Ranks::new(trace, parameters, Time::ZERO);
    ranks.advance(Time::NEVER, &mut crossbar)?;
    Ok(ranks.close())
}
