//! How switches mark packets: one file per rule or family of rules.

mod buffers;
mod fecn;
mod sampled;

pub(crate) use buffers::{Arrival, BufferRule};
pub use buffers::{Mvpm, Opm};
pub use fecn::{Fecn, FillMapping, MarkingPattern, VictimMask};
pub(crate) use fecn::{FecnRule, Fill, PortVl};
pub use sampled::Sampled;
pub(crate) use sampled::{SampledRule, Sampler};

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
    /// Packets sampled as they arrive are marked, where the queue is above its set point or grows (QCN).
    Sampled(Sampled),
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

/// How severe congestion is, as a mark says it: 1 to 63; 0 where it is a bit.
pub(crate) type Severity = u8;

/// The greatest severity: the field has six bits (IEEE 802.1Qau).
const MOST_SEVERE: i64 = 63;

/// Quantized feedback (IEEE 802.1Qau's Fb) on a queue of so many bytes, which had `before` when that was
/// looked at last: how far it is above the set point, and `weight` times how much it has grown. Zero where
/// that is no congestion.
fn severity(bytes: u32, before: u32, set_point: u32, weight: u32) -> Severity {
    let [bytes, before, set_point, weight] = [bytes, before, set_point, weight].map(i64::from);
    let feedback = bytes - set_point + weight * (bytes - before);
    let most = set_point.max(1) * (2 * weight + 1);
    (feedback.clamp(0, most) * MOST_SEVERE / most) as Severity
}

/// The marking rule of one switch with its state per output port and virtual lane.
#[derive(Debug, Clone)]
pub(crate) enum Marker {
    None,
    Fecn { rule: Arc<FecnRule>, ports: Box<[PortVl]> },
    Sampled { rule: SampledRule, ports: Box<[Sampler]> },
    Buffers(BufferRule),
}

impl Marker {
    /// Whether a change that leaves `sum` bytes in all queues of a lane can matter to the rule.
    #[inline]
    pub fn is_concerned(&self, lane: usize, sum: u32) -> bool {
        match self {
            Self::Fecn { rule, ports } => rule.is_concerned(&ports[lane], sum),
            Self::None | Self::Sampled { .. } | Self::Buffers(_) => false,
        }
    }

    /// Has the state of a lane brought into the cache.
    #[inline]
    pub fn foresee(&self, lane: usize) {
        match self {
            Self::Fecn { ports, .. } => prefetch(ports, lane),
            Self::Sampled { ports, .. } => prefetch(ports, lane),
            Self::None | Self::Buffers(_) => {}
        }
    }

    /// Whether the rule is told of the queues that feed an output and marks what leaves there.
    #[inline]
    pub fn follows_fills(&self) -> bool {
        matches!(self, Self::Fecn { .. })
    }

    /// Whether the rule looks at the fill of single queues.
    pub fn needs_queues(&self) -> bool {
        match self {
            Self::Fecn { rule, .. } => rule.needs_queues(),
            Self::None | Self::Sampled { .. } | Self::Buffers(_) => false,
        }
    }

    /// Whether packets are marked as they arrive, by what waits for their output.
    #[inline]
    pub fn samples(&self) -> bool {
        matches!(self, Self::Sampled { .. })
    }

    /// See [`FecnRule::fill_changed`]; `lane` numbers the output ports' virtual lanes.
    #[inline]
    pub fn fill_changed(&mut self, lane: usize, fill: &Fill, is_root: impl FnOnce() -> bool) {
        if let Self::Fecn { rule, ports } = self {
            rule.fill_changed(&mut ports[lane], fill, is_root);
        }
    }

    /// A packet of this size has come in, with which `sum` bytes wait for the lane of an output: whether that
    /// marks it, and how severe congestion is.
    pub fn arrived(&mut self, lane: usize, size: u32, sum: u32) -> Option<Severity> {
        match self {
            Self::Sampled { rule, ports } => rule.arrived(&mut ports[lane], size, sum),
            Self::None | Self::Fecn { .. } | Self::Buffers(_) => None,
        }
    }

    /// Whether a packet of this size that leaves now is marked.
    #[inline]
    pub fn marks(&mut self, lane: usize, size: u32) -> bool {
        match self {
            Self::Fecn { rule, ports } => rule.marks(&mut ports[lane], size),
            Self::None | Self::Sampled { .. } | Self::Buffers(_) => false,
        }
    }

    /// How severe the congestion is that an output marks a packet for.
    pub fn severity(&mut self, lane: usize) -> Severity {
        match self {
            Self::Fecn { rule, ports } => rule.severity(&mut ports[lane]),
            Self::None | Self::Sampled { .. } | Self::Buffers(_) => 0,
        }
    }

    /// A packet came into an input buffer, of which `used` bytes are in use now.
    pub fn came_into_buffer(&self, used: u32) -> Arrival {
        match self {
            Self::Buffers(rule) => rule.arrival(used),
            Self::None | Self::Fecn { .. } | Self::Sampled { .. } => Arrival::Nothing,
        }
    }

    /// A packet leaves an output buffer, of which `used` bytes are in use with it: whether that marks it, and
    /// whether it validates it.
    pub fn leaves_buffer(&self, used: u32, is_marked: bool) -> (bool, bool) {
        match self {
            Self::Buffers(rule) => rule.departure(used, is_marked),
            Self::None | Self::Fecn { .. } | Self::Sampled { .. } => (false, false),
        }
    }

    /// Whether the output is in the congestion state, and how often it entered it.
    pub fn state(&self, lane: usize) -> (bool, u64) {
        match self {
            Self::Fecn { ports, .. } => (ports[lane].is_congested(), u64::from(ports[lane].entered)),
            Self::Sampled { ports, .. } => (ports[lane].is_congested(), u64::from(ports[lane].entered)),
            Self::None | Self::Buffers(_) => (false, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::severity;

    #[test]
    fn feedback_counts_how_far_the_queue_is_above_and_how_fast_it_grows() {
        let of = |bytes, before| severity(bytes, before, 26_000, 2);
        assert_eq!(of(26_000, 26_000), 0, "at the set point, and steady");
        assert_eq!(of(20_000, 18_000), 0, "below it, and growing slowly");
        assert_eq!(of(24_000, 20_000), 2, "it will be above: (-2,000 + 2 x 4,000) of 130,000, in 63rds");
        assert_eq!(of(52_000, 26_000), 37, "26,000 + 2 x 26,000 of 130,000");
        assert_eq!(of(52_000, 65_000), 0, "far above, but shrinking as fast");
        assert_eq!(of(200_000, 26_000), 63);
        assert_eq!(severity(1, 0, 0, 0), 63, "without a set point any queue is as bad as can be");
        assert_eq!(severity(u32::MAX, 0, u32::MAX, 16), 30, "no overflow");
    }
}
