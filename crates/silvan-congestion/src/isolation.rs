//! Parameters of the isolation of congested flows in special queues (FBICM, HFDI and the isolation of EcoCC).
//! `silvan_fabric::queueing` implements it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Bytes, Time};

/// An isolation rule with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Isolation {
    /// Congested flows share queues with other flows.
    None,
    /// Special queues, which are allocated to congestion trees as these appear.
    SpecialQueues(SpecialQueues),
}

/// Parameters of isolation in special queues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SpecialQueues {
    /// Number of special queues per input port and virtual lane (CFQs, HPQs), each with a CAM line.
    #[schemars(range(max = 64))]
    pub queues: u8,
    /// Maximum number of destinations in a CAM line.
    #[schemars(range(min = 1, max = 4096))]
    pub destinations: u16,
    /// A root is detected when a normal queue exceeds this fill; by default six full packets.
    pub detection: Option<Bytes>,
    /// Fill of a special queue above which the switch sends the line of the queue upstream, followed by Stop; by default
    /// six full packets.
    pub stop: Option<Bytes>,
    /// A stopped queue upstream may send again at or below this fill; by default four full packets.
    pub go: Option<Bytes>,
    /// Whether the root's own switch allocates special queues for it. This is not needed if there is one normal queue
    /// per output.
    pub at_root: bool,
    /// Size of a notification on the wire without its list of destinations, each of which adds two bytes.
    pub message: Bytes,
    /// How normal and special queues take turns at an output.
    pub arbitration: SpecialArbitration,
    /// With `arbitration = "strict"`: the time after which a special queue that may send precedes normal queues; by
    /// default 10 us.
    pub longest_wait: Option<Time>,
}

impl Default for SpecialQueues {
    fn default() -> Self {
        Self {
            queues: 2,
            destinations: 8,
            detection: None,
            stop: None,
            go: None,
            at_root: false,
            message: Bytes(16),
            arbitration: SpecialArbitration::RoundRobin,
            longest_wait: None,
        }
    }
}

/// The fills at which special queues change their state, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IsolationThresholds {
    /// See [`SpecialQueues::detection`].
    pub detection: Bytes,
    /// See [`SpecialQueues::stop`].
    pub stop: Bytes,
    /// See [`SpecialQueues::go`].
    pub go: Bytes,
}

impl SpecialQueues {
    /// The thresholds; `full` is the size of a full packet in bytes.
    #[must_use]
    pub fn thresholds(&self, full: u64) -> IsolationThresholds {
        let or = |given: Option<Bytes>, packets| given.unwrap_or(Bytes(packets * full));
        IsolationThresholds { detection: or(self.detection, 6), stop: or(self.stop, 6), go: or(self.go, 4) }
    }
}

/// How normal and special queues take turns at an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SpecialArbitration {
    /// All queues take turns, as published for FBICM, CCFIT, HFDI and EcoCC.
    #[default]
    RoundRobin,
    /// Normal queues precede special queues, except those that have waited for `longest_wait`.
    Strict,
    /// All queues take turns, but special ones only as often as the root of their tree can accept a packet; Allocate,
    /// Stop and Go report this rate upstream.
    Weighted,
}
