//! How switches mark packets: one file per rule.

mod fecn;

pub use fecn::{Fecn, FillMapping, MarkingPattern, VictimMask};
pub(crate) use fecn::{FecnRule, Fill, PortVl};

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A marking rule with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Marking {
    /// No packet is marked.
    None,
    /// InfiniBand's forward explicit congestion notification.
    Fecn(Fecn),
}

/// The marking rule of one switch with its state per output port and virtual lane.
#[derive(Debug, Clone)]
pub(crate) enum Marker {
    None,
    Fecn { rule: Arc<FecnRule>, ports: Box<[PortVl]> },
}

impl Marker {
    /// Whether a change that leaves `sum` bytes in all queues of a lane can matter to the rule.
    #[inline]
    pub fn is_concerned(&self, lane: usize, sum: u32) -> bool {
        match self {
            Self::None => false,
            Self::Fecn { rule, ports } => rule.is_concerned(&ports[lane], sum),
        }
    }

    /// Whether the rule looks at the fill of single queues.
    pub fn needs_queues(&self) -> bool {
        match self {
            Self::None => false,
            Self::Fecn { rule, .. } => rule.needs_queues(),
        }
    }

    /// See [`FecnRule::fill_changed`]; `lane` numbers the output ports' virtual lanes.
    #[inline]
    pub fn fill_changed(&mut self, lane: usize, fill: &Fill<'_>, is_root: impl FnOnce() -> bool) {
        match self {
            Self::None => {}
            Self::Fecn { rule, ports } => rule.fill_changed(&mut ports[lane], fill, is_root),
        }
    }

    /// Whether a packet of this size that leaves now is marked.
    #[inline]
    pub fn marks(&mut self, lane: usize, size: u32) -> bool {
        match self {
            Self::None => false,
            Self::Fecn { rule, ports } => rule.marks(&mut ports[lane], size),
        }
    }

    /// Whether the output is in the congestion state, and how often it entered it.
    pub fn state(&self, lane: usize) -> (bool, u64) {
        match self {
            Self::None => (false, 0),
            Self::Fecn { ports, .. } => (ports[lane].is_congested(), u64::from(ports[lane].entered)),
        }
    }
}
