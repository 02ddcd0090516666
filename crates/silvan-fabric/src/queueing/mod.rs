//! How buffers are divided into queues, so that packets wait behind as few others as possible.
//!
//! | file | what |
//! | --- | --- |
//! | here | the static organizations (1Q, VOQsw, VOQnet, DBBM, OBQA, DAMQ) and their parameters |
//! | `arbitration` | arbitration among normal and special queues |
//! | `buffers` | the queues of a node, of any organization, and which of them may send next |
//! | `isolation` | special queues and CAM lines: FBICM, HFDI and what the hybrids share with them |
//! | [`cost`] | what special queues cost in memory cells |
//!
//! Switches and host adapters use the same queues; an adapter is a node of one input and one
//! output.

mod arbitration;
pub(crate) mod buffers;
pub mod cost;
pub(crate) mod isolation;
mod rings;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::port::Port;

pub use arbitration::SpecialArbitration;
pub use isolation::{Isolation, SpecialQueues};

/// How the input buffer of a switch is divided into queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Queues {
    /// One queue per output of the switch: VOQsw; DAMQ where the queues share their memory.
    PerOutput,
    /// One first-in first-out queue (1Q).
    Single,
    /// One queue per destination in the network (VOQnet): no packet waits behind one with another destination.
    PerDestination,
    /// `queue_count` queues; a packet is stored in queue number destination modulo `queue_count` (DBBM).
    DestinationModulo,
    /// `queue_count` queues; a packet is stored in queue number output port modulo `queue_count` (OBQA).
    OutputModulo,
}

/// Whether the queues of an input share its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Memory {
    /// Any queue may use all free memory.
    Shared,
    /// Each queue has its own share, with its own credits.
    Divided,
}

impl Queues {
    /// How queues of this kind use the memory by default.
    #[must_use]
    pub fn usual_memory(self) -> Memory {
        match self {
            Self::PerOutput | Self::Single => Memory::Shared,
            Self::PerDestination | Self::DestinationModulo | Self::OutputModulo => Memory::Divided,
        }
    }
}

/// How the buffer between a host's queues per destination and its link is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HostQueues {
    /// There is no such buffer.
    None,
    /// One queue, and the special queues if there are any.
    Single,
    /// One queue per destination, each with a memory of its own.
    PerDestination,
    /// `switch.queue_count` queues, each with its share of the memory; a packet is stored in queue number destination
    /// modulo their number.
    DestinationModulo,
}

/// Which queue a packet is stored in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Organisation {
    /// One queue.
    Single,
    /// A queue per output.
    PerOutput,
    /// A queue per destination, made when it is needed.
    PerDestination,
    /// Destination modulo a number.
    DestinationModulo(u32),
    /// Output modulo a number.
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

    /// Queues per input and virtual lane that exist from the start.
    pub fn fixed(self, outputs: usize) -> usize {
        match self {
            Self::Single => 1,
            Self::PerOutput => outputs,
            Self::PerDestination => 0,
            Self::DestinationModulo(count) | Self::OutputModulo(count) => count as usize,
        }
    }

    /// Which of the fixed queues a packet for an output and a destination is stored in.
    pub fn index(self, output: Port, destination: u32) -> usize {
        match self {
            Self::Single | Self::PerDestination => 0,
            Self::PerOutput => output.index(),
            Self::DestinationModulo(count) => (destination % count) as usize,
            Self::OutputModulo(count) => output.index() % count as usize,
        }
    }
}
