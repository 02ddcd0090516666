//! How switches mark packets: one file per rule or family of rules.

mod buffers;
mod fecn;
mod sampled;

pub(crate) use buffers::{Arrival, BufferRule};
pub use buffers::{Mvpm, Opm};
pub use fecn::{Fecn, FillMapping, MarkingPattern, VictimMask};
pub(crate) use fecn::{FecnRule, FecnState, Fill};
pub use sampled::Sampled;
pub(crate) use sampled::SampledRule;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::cache::prefetch;

use crate::port::PortVl;

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

/// A marking rule. What one does not do is as here: nothing.
pub(crate) trait Rule {
    /// What it keeps per output port and virtual lane.
    type State;

    /// Whether it marks packets as they arrive, by what waits for their output.
    fn samples(&self) -> bool {
        false
    }

    /// Whether it looks at the fill of single queues.
    fn needs_queues(&self) -> bool {
        false
    }

    /// Whether a change that leaves `sum` bytes in all queues can matter to the port: a cheap question that spares
    /// most of the others.
    fn is_concerned(&self, _port: &Self::State, _sum: u32) -> bool {
        false
    }

    /// A queue that feeds the port grew or shrank. `is_root` tells whether the port has credits to send; it costs
    /// something, so ask only when it matters.
    fn fill_changed(&self, _port: &mut Self::State, _fill: &Fill, _is_root: impl FnOnce() -> bool) {}

    /// A packet of this size has come in, with which `sum` bytes wait: whether that marks it, and how severe
    /// congestion is.
    fn arrived(&self, _port: &mut Self::State, _size: u32, _sum: u32) -> Option<Severity> {
        None
    }

    /// Whether a packet of this size that leaves now is marked.
    fn marks(&self, _port: &mut Self::State, _size: u32) -> bool {
        false
    }

    /// How severe the congestion is that a packet is marked for that leaves, where marks say that.
    fn severity(&self, _port: &mut Self::State) -> Severity {
        0
    }

    /// A packet came into an input buffer, of which `used` bytes are in use now.
    fn came_into_buffer(&self, _used: u32) -> Arrival {
        Arrival::Nothing
    }

    /// A packet leaves an output buffer, of which `used` bytes are in use with it: whether that marks it, and
    /// whether it validates it.
    fn leaves_buffer(&self, _used: u32, _is_marked: bool) -> (bool, bool) {
        (false, false)
    }

    /// Whether the port is in the congestion state, and how often it entered it.
    fn state(&self, _port: &Self::State) -> (bool, u32) {
        (false, 0)
    }
}

/// A rule with its state for one switch, per output port and virtual lane.
#[derive(Debug)]
pub(crate) struct Ruled<R: Rule> {
    pub rule: Arc<R>,
    pub ports: Box<[R::State]>,
}

/// The marking rule of one switch with its state.
#[derive(Debug)]
pub(crate) enum Marker {
    None,
    Fecn(Ruled<FecnRule>),
    Sampled(Ruled<SampledRule>),
    Buffers(Ruled<BufferRule>),
}

/// Does the same with a rule and its ports, whichever that is, or else something where there is none.
macro_rules! with_rule {
    ($marker:expr, ($rule:ident, $ports:ident) => $then:expr, $otherwise:expr) => {
        match $marker {
            Marker::None => $otherwise,
            Marker::Fecn(Ruled { rule: $rule, ports: $ports }) => $then,
            Marker::Sampled(Ruled { rule: $rule, ports: $ports }) => $then,
            Marker::Buffers(Ruled { rule: $rule, ports: $ports }) => $then,
        }
    };
}

/// See [`Rule`]; `lane` is a virtual lane of an output port.
impl Marker {
    #[inline(always)]
    pub fn is_concerned(&self, lane: PortVl, sum: u32) -> bool {
        // Checked without a panic, so that rules that answer no for every port cost nothing.
        with_rule!(self, (rule, ports) => ports.get(lane.index()).is_some_and(|port| rule.is_concerned(port, sum)), false)
    }

    /// Has the state of a lane brought into the cache.
    #[inline]
    pub fn prefetch(&self, lane: PortVl) {
        with_rule!(self, (_rule, ports) => prefetch(ports, lane.index()), ());
    }

    pub fn needs_queues(&self) -> bool {
        with_rule!(self, (rule, _ports) => rule.needs_queues(), false)
    }

    #[inline(always)]
    pub fn samples(&self) -> bool {
        with_rule!(self, (rule, _ports) => rule.samples(), false)
    }

    #[inline]
    pub fn fill_changed(&mut self, lane: PortVl, fill: &Fill, is_root: impl FnOnce() -> bool) {
        with_rule!(self, (rule, ports) => rule.fill_changed(&mut ports[lane.index()], fill, is_root), ());
    }

    pub fn arrived(&mut self, lane: PortVl, size: u32, sum: u32) -> Option<Severity> {
        with_rule!(self, (rule, ports) => rule.arrived(&mut ports[lane.index()], size, sum), None)
    }

    #[inline(always)]
    pub fn marks(&mut self, lane: PortVl, size: u32) -> bool {
        with_rule!(self, (rule, ports) => ports.get_mut(lane.index()).is_some_and(|port| rule.marks(port, size)), false)
    }

    pub fn severity(&mut self, lane: PortVl) -> Severity {
        with_rule!(self, (rule, ports) => rule.severity(&mut ports[lane.index()]), 0)
    }

    /// Whether it marks by the memory in use of single buffers.
    #[inline]
    pub fn watches_buffers(&self) -> bool {
        matches!(self, Self::Buffers(_))
    }

    pub fn came_into_buffer(&self, used: u32) -> Arrival {
        with_rule!(self, (rule, _ports) => rule.came_into_buffer(used), Arrival::Nothing)
    }

    pub fn leaves_buffer(&self, used: u32, is_marked: bool) -> (bool, bool) {
        with_rule!(self, (rule, _ports) => rule.leaves_buffer(used, is_marked), (false, false))
    }

    pub fn state(&self, lane: PortVl) -> (bool, u32) {
        with_rule!(self, (rule, ports) => rule.state(&ports[lane.index()]), (false, 0))
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
