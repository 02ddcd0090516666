//! Forwarding tables and what can be said of them before a run.

use crate::topology::Topology;

/// Linear forwarding tables: for each switch and destination host the output port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    /// `out[switch][host]` is the output port (from 1), or [`Tables::NO_ROUTE`].
    pub out: Vec<Vec<u16>>,
}

impl Tables {
    /// The switch does not know this destination.
    pub const NO_ROUTE: u16 = 0;

    /// Tables without any route, of the right size.
    #[must_use]
    pub fn empty(topology: &Topology) -> Self {
        Self { out: vec![vec![Self::NO_ROUTE; topology.hosts.len()]; topology.switches.len()] }
    }
}
