//! The division of buffers into queues, which determines the other packets that a packet must wait for.
//!
//! | file | content |
//! | --- | --- |
//! | this file | the static organizations (1Q, VOQsw, VOQnet, DBBM, OBQA, DAMQ) and their parameters |
//! | `arbitration` | arbitration among normal and special queues |
//! | `buffers` | the queues of a node, with any organization, and the selection of those that may send next |
//! | `isolation` | special queues and CAM lines: FBICM, HFDI and the isolation of CCFIT and EcoCC |
//! | [`cost`] | the cost of special queues in memory cells |
//!
//! Switches and host adapters use the same queues. An adapter is a node with one input and one output.

mod arbitration;
pub(crate) mod buffers;
pub mod cost;
pub(crate) mod isolation;
mod rings;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_network::port::Port;

/// How the input buffer of a switch is divided into queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Queues {
    /// One queue per output of the switch: VOQsw, or DAMQ if the queues share their memory.
    PerOutput,
    /// One first-in first-out queue (1Q).
    Single,
    /// One queue per destination in the network (VOQnet): packets do not wait behind packets for other destinations.
    PerDestination,
    /// `queue_count` queues; the number of a packet's queue is its destination modulo `queue_count` (DBBM).
    DestinationModulo,
    /// `queue_count` queues; the number of a packet's queue is its output port modulo `queue_count` (OBQA).
    OutputModulo,
}

/// Whether the queues of an input share its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Memory {
    /// A queue may use all free memory.
    Shared,
    /// Each queue has its own share, with separate credits.
    Divided,
}

impl Queues {
    /// The default use of memory for queues of this kind.
    #[must_use]
    pub fn usual_memory(self) -> Memory {
        match self {
            Self::PerOutput | Self::Single => Memory::Shared,
            Self::PerDestination | Self::DestinationModulo | Self::OutputModulo => Memory::Divided,
        }
    }
}

/// The division of the buffer between a host's queues per destination and its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HostQueues {
    /// Hosts have no such buffer.
    None,
    /// One normal queue, and special queues if there are any.
    Single,
    /// One queue per destination, each with its own memory.
    PerDestination,
    /// `switch.queue_count` queues, each with its share of the memory; the number of a packet's queue is its
    /// destination modulo this number.
    DestinationModulo,
}

/// How a packet's queue is selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Organisation {
    Single,
    /// One queue per output.
    PerOutput,
    /// One queue per destination, created when it is first needed.
    PerDestination,
    DestinationModulo(u32),
    OutputModulo(u32),
}

impl Organisation {
    pub fn new(queues: Queues, count: u16) -> Self {
        let count = u32::from(count.max(1));
        match queues {
            Queues::Single => Self::Single,
            Queues::PerOutput => Self::PerOutput,
            Queues::PerDestination => Self::PerDestination,
            Queues::DestinationModulo => Self::DestinationModulo(count),
            Queues::OutputModulo => Self::OutputModulo(count),
        }
    }

    /// Number of queues per input and virtual lane that exist from the start.
    pub fn fixed(self, outputs: usize) -> usize {
        match self {
            Self::Single => 1,
            Self::PerOutput => outputs,
            Self::PerDestination => 0,
            Self::DestinationModulo(count) | Self::OutputModulo(count) => count as usize,
        }
    }

    /// The index of the fixed queue for a packet with the given output and destination.
    pub fn index(self, output: Port, destination: u32) -> usize {
        match self {
            Self::Single | Self::PerDestination => 0,
            Self::PerOutput => output.index(),
            Self::DestinationModulo(count) => (destination % count) as usize,
            Self::OutputModulo(count) => output.index() % count as usize,
        }
    }
}
