//! The LID of a host to which packets are sent, if hosts have several LIDs (LMC > 0).
//!
//! A port with LMC m ignores the lower m bits of the destination LID, the path bits. The sender of a packet selects them, and
//! the switches have an entry of their forwarding table for each LID.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How hosts select the path bits of packets. The InfiniBand specification leaves the selection to the software of hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PathBits {
    /// Packets are sent to base LIDs: path bits are zero.
    #[default]
    Zero,
    /// Each flow has one LID, by a hash of sending host, receiving host and traffic source, modulo the number of LIDs.
    PerFlow,
    /// The packets of each flow use one LID after another, in an order that is permuted at random before each
    /// round. They can overtake each other. An answer has the path bits of the packet that it answers.
    PerPacket,
}

impl PathBits {
    /// Whether packets are sent to other LIDs than base LIDs.
    #[must_use]
    pub fn is_used(self) -> bool {
        self != Self::Zero
    }
}
