//! How switches mark packets: one file per rule or family of rules.

mod buffers;
mod fecn;

pub(crate) use buffers::{Arrival, BufferRule};
pub use buffers::{Mvpm, Opm};
pub use fecn::{Fecn, FillMapping, MarkingPattern, VictimMask};
pub(crate) use fecn::{FecnRule, Fill, PortVl};

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::cache::prefetch;

/// A marking rule with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Marking {
    /// No packet is marked.
    None,
    /// InfiniBand's forward explicit congestion notification.
    Fecn(Fecn),
    /// Input packet marking: a full input buffer marks what waits for the outputs it asks for.
    Ipm,
    /// Output packet marking: an output buffer above a threshold marks what leaves.
    Opm(Opm),
    /// Marking at inputs, validation at outputs: two bits per packet.
    Mvpm(Mvpm),
}

impl Marking {
    /// Whether it needs buffers at inputs and outputs.
    #[must_use]
    pub fn needs_output_buffers(&self) -> bool {
        matches!(self, Self::Ipm | Self::Opm(_) | Self::Mvpm(_))
    }

    /// Whether packets carry a second bit, without which marks are no proof of guilt.
    #[must_use]
    pub fn validates(&self) -> bool {
        matches!(self, Self::Mvpm(_))
    }
}

/// The marking rule of one switch with its state per output port and virtual lane.
#[derive(Debug, Clone)]
pub(crate) enum Marker {
    None,
    Fecn { rule: Arc<FecnRule>, ports: Box<[PortVl]> },
    Buffers(BufferRule),
}

impl Marker {
    /// Whether a change that leaves `sum` bytes in all queues of a lane can matter to the rule.
    #[inline]
    pub fn is_concerned(&self, lane: usize, sum: u32) -> bool {
        match self {
            Self::None | Self::Buffers(_) => false,
            Self::Fecn { rule, ports } => rule.is_concerned(&ports[lane], sum),
        }
    }

    /// Has the state of a lane brought into the cache.
    #[inline]
    pub fn foresee(&self, lane: usize) {
        if let Self::Fecn { ports, .. } = self {
            prefetch(ports, lane);
        }
    }

    /// Whether the rule is told of the queues that feed an output and marks what leaves there. Rules that
    /// look at whole buffers are not.
    #[inline]
    pub fn follows_fills(&self) -> bool {
        !matches!(self, Self::None | Self::Buffers(_))
    }

    /// Whether the rule looks at the fill of single queues.
    pub fn needs_queues(&self) -> bool {
        match self {
            Self::None | Self::Buffers(_) => false,
            Self::Fecn { rule, .. } => rule.needs_queues(),
        }
    }

    /// See [`FecnRule::fill_changed`]; `lane` numbers the output ports' virtual lanes.
    #[inline]
    pub fn fill_changed(&mut self, lane: usize, fill: &Fill, is_root: impl FnOnce() -> bool) {
        match self {
            Self::None | Self::Buffers(_) => {}
            Self::Fecn { rule, ports } => rule.fill_changed(&mut ports[lane], fill, is_root),
        }
    }

    /// Whether a packet of this size that leaves now is marked.
    #[inline]
    pub fn marks(&mut self, lane: usize, size: u32) -> bool {
        match self {
            Self::None | Self::Buffers(_) => false,
            Self::Fecn { rule, ports } => rule.marks(&mut ports[lane], size),
        }
    }

    /// Whether the output is in the congestion state, and how often it entered it.
    pub fn state(&self, lane: usize) -> (bool, u64) {
        match self {
            Self::None | Self::Buffers(_) => (false, 0),
            Self::Fecn { ports, .. } => (ports[lane].is_congested(), u64::from(ports[lane].entered)),
        }
    }
}
