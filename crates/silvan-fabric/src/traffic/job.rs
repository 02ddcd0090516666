//! A job: the ranks of a trace, placed on hosts.

use std::sync::Arc;

use silvan_engine::Time;
use silvan_trace::Trace;
use silvan_trace::execute::Parameters;

/// A parallel application: a trace, and the hosts of its ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Name in results; unique among all jobs.
    pub name: String,
    /// The operations of its ranks.
    pub trace: Arc<Trace>,
    /// For each rank, the index of its host.
    pub hosts: Vec<u32>,
    /// Costs of messages for the ranks: overheads, and the size from which a message waits for its receive.
    /// Latency and gaps have no effect: they result from the simulated network.
    pub parameters: Parameters,
    /// Time at which its ranks start.
    pub start: Time,
    /// Service level of its messages.
    pub sl: u8,
}
