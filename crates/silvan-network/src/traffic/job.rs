//! A job: the ranks of a trace, placed on hosts.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Rate, Time};
use silvan_trace::Trace;
use silvan_trace::execute::Parameters;

/// Maximum number of ranks of a job on one host or reduction unit, which has one source for each pair of a
/// local and a remote rank.
pub const MOST_SHARING: u16 = 64;

/// How a host sends messages of a job that are posted at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sends {
    /// Messages to different ranks share the link: the host sends their packets round-robin.
    #[default]
    Interleaved,
    /// One message after the other, in the order in which they are posted.
    Sequential,
}

/// A parallel application: a trace, and the hosts of its ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Name in results; unique among all jobs.
    pub name: String,
    /// The operations of its ranks.
    pub trace: Arc<Trace>,
    /// For each rank, the index of its host.
    pub hosts: Vec<u32>,
    /// Number of reduction units, which are the last ranks.
    pub units: u32,
    /// Costs of messages for the ranks: overheads, and the size from which a message waits until its receive
    /// is posted. Latency and gaps have no effect: they result from the simulated network.
    pub parameters: Parameters,
    /// Time at which its ranks start.
    pub start: Time,
    /// How the hosts of the job send messages that are posted at the same time.
    pub sends: Sends,
    /// The rate of messages between ranks of one host. `None` means that they take no time.
    pub memory_rate: Option<Rate>,
    /// Service level of its messages.
    pub sl: u8,
}
