//! A job: the ranks of a trace on hosts.

use std::sync::Arc;

use silvan_engine::Time;
use silvan_trace::Trace;
use silvan_trace::execute::Parameters;

/// A parallel application: a trace, and where its ranks are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// As shown in results; no other job's.
    pub name: String,
    /// What its ranks do.
    pub trace: Arc<Trace>,
    /// Per rank, the index of its host.
    pub hosts: Vec<u32>,
    /// What messages cost the ranks: overheads, and from which size on a message waits for its receive.
    /// Latency and gaps have no effect: the network's are real.
    pub parameters: Parameters,
    /// When its ranks begin.
    pub start: Time,
    /// Service level of its messages.
    pub sl: u8,
}
