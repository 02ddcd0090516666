//! Runs a trace without a network: MPI matching, LogGP costs, detection of operations that never finish.
//!
//! | parameter | cost |
//! | --- | --- |
//! | `latency` (L) | of each message, from sending to receiving the first byte |
//! | `gap` (g) | minimum time between two messages of a network interface, per direction |
//! | `gap_per_byte` (G) | of each byte, at the sender's interface and, pipelined, at the receiver's |
//! | `overhead` (o) | of the sender's and the receiver's CPU, per message |
//! | `overhead_per_byte` (O) | of both CPUs, per byte |
//! | `rendezvous_above` (S) | larger messages wait for their receive |
//!
//! A message of `n` bytes occupies the sender's CPU for o + n O. It then enters the interface, which is busy
//! for max(g, n G). Its first byte reaches the receiver's interface after L. That interface accepts messages
//! one after the other in this order, as an output of a crossbar without internal congestion. When the last
//! byte has arrived and the receive is posted, the receiver's CPU is busy for o + n O, after which the
//! receive has finished. An eager send has finished when the sender's CPU is free again.
//!
//! A message larger than S starts with a request, which contains no data and costs o. When the request has
//! arrived and the receive is posted, a permission returns after L. The sender's CPU is then busy for n O,
//! and the data follows. The send has finished when the data has left.
//!
//! A receive is posted when its dependencies have finished and its CPU is free. Messages between two ranks
//! are matched in the order in which they were sent. Messages from a rank to itself do not use the network.
//!
//! The model is based on Alexandrov et al., "LogGP" (1995), and Hoefler, Schneider and Lumsdaine, "LogGOPSim"
//! (2010). LogGOPSim differs in three points: it charges `n - 1` bytes, the CPU time per byte overlaps with
//! the network, and a rendezvous ends at the sender when the receive is matched. It also orders simultaneous events
//! differently: of the operations of a CPU that become ready at once, sends precede receives, and computations are last, and
//! messages that arrive at once are in the order in which their sends became ready. Here, the orders are those of the file and
//! of the ranks.

//!
//! | type | purpose |
//! | --- | --- |
//! | [`Ranks`] | schedules the operations of each rank: dependencies, CPUs, matching |
//! | [`Carrier`] | transports messages between ranks: here at LogGP costs, in a simulation over the network |

mod inside;
mod interleaved;
mod loggp;
mod matching;
mod ranks;
mod repeated;
mod stuck;
mod turns;
mod waits;

use silvan_engine::saved::Saved;
use silvan_engine::{Rate, Time};

use crate::trace::{Operation, Trace};
pub use inside::{InnerLink, Inside, Machines};
pub use interleaved::{Interfaces, Interleaved};
pub use loggp::{Copies, Cost, Crossbar};
pub use ranks::{Agenda, BusyTime, Carrier, Parcel, Part, Ranks};
pub use repeated::CallsAt;
pub use stuck::{Stuck, Why};

/// Costs of communication. By default, all times are zero and no message waits for its receive, so only
/// computations and delays take time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// Latency of a message (L).
    pub latency: Time,
    /// CPU time per message (o).
    pub overhead: Time,
    /// Minimum time between messages of an interface (g).
    pub gap: Time,
    /// Time per byte of an interface (G), in femtoseconds.
    pub gap_per_byte_fs: u64,
    /// CPU time per byte (O), in femtoseconds.
    pub overhead_per_byte_fs: u64,
    /// Messages larger than this number of bytes wait until their receive is posted (S).
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
    /// The value of G for a link with a given data rate, rounded to the nearest femtosecond.
    #[must_use]
    pub fn gap_of(rate: Rate) -> u64 {
        const FS_BITS: u128 = 8_000_000_000_000_000;
        ((FS_BITS + u128::from(rate.0) / 2) / u128::from(rate.0.max(1))) as u64
    }
}

/// The error if the times of a trace exceed the range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Saved)]
#[error("rank {rank}: {operation}: ends after more than 100 days; check the unit of time")]
pub struct TooLong {
    /// Rank of the operation.
    pub rank: u32,
    /// The operation that exceeds the range.
    pub operation: Operation,
}

/// The result of running a trace.
#[derive(Debug, Clone, PartialEq, Eq, Saved)]
pub struct Execution {
    /// Time at which each rank finished its last operation.
    #[saved(latest)]
    pub finished: Vec<Time>,
    /// Time at which the last rank finished.
    #[saved(latest)]
    pub span: Time,
    /// Time that the CPUs of each rank spent computing.
    #[saved(count)]
    pub computing: Vec<Time>,
    /// Time during which at least one CPU of each rank computed or handled a message.
    #[saved(count)]
    pub busy: Vec<Time>,
    /// Collective operations, in the order in which they started.
    pub calls: Vec<Call>,
    /// Number of messages that matched a receive.
    #[saved(count)]
    pub messages: u64,
    /// Number of operations that never finished.
    #[saved(count)]
    pub unfinished: u64,
    /// The first operations that wait for another rank.
    pub stuck: Vec<Stuck>,
    /// Ranks that wait for each other in a cycle. Each rank waits for the next, and the last waits for the
    /// first.
    pub circle: Vec<u32>,
    /// Messages that were never received: their number, and the first of their sends, as numbers over all
    /// ranks.
    pub unreceived: (u64, Vec<usize>),
    /// Messages longer than the matching receive: their number, and the first pairs of send and receive.
    pub truncated: (u64, Vec<(usize, usize)>),
}

/// An executed collective operation, over all participating ranks.
#[derive(Debug, Clone, PartialEq, Eq, Saved)]
pub struct Call {
    /// Index into [`Trace::collectives`].
    pub kind: u16,
    /// Communicator of the operation.
    pub comm: u32,
    /// Number of earlier operations on this communicator.
    pub number: u32,
    /// Number of participating ranks.
    pub ranks: u32,
    /// Time at which the first rank started the operation; `None` if no rank did.
    pub start: Option<Time>,
    /// Time at which the last rank finished the operation; `None` if a rank did not.
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
/// [`TooLong`] if a time exceeds the range.
pub fn execute(trace: &Trace, parameters: &Parameters) -> Result<Execution, TooLong> {
    let hosts: Vec<u32> = (0..trace.ranks()).collect();
    let mut crossbar = Machines {
        machine_of: &hosts,
        inside: Inside::Copies(Copies::default()),
        links: &mut Interfaces::default(),
        outside: Crossbar::new(hosts.clone(), |parcel| parameters.cost(parcel)),
    };
    let mut ranks = Ranks::new(trace, parameters, Time::ZERO);
    ranks.advance(Time::NEVER, &mut crossbar)?;
    Ok(ranks.close())
}
