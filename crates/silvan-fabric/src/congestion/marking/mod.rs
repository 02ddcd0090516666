//! How switches mark packets: one file per rule or family of rules.

mod at_switch;
mod buffers;
mod fecn;
mod sampled;

pub(crate) use at_switch::{Applied, Arriving, MarkedLane, OutputFacts, SwitchMarking};
pub(crate) use buffers::BufferRule;
pub use buffers::{Mvpm, Opm};
pub(crate) use fecn::FecnRule;
pub use fecn::{Fecn, FillMapping, MarkingPattern, VictimMask};
pub use sampled::Sampled;
pub(crate) use sampled::SampledRule;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::cache::prefetch;

use crate::facts::{
    Arrival, Departure, InputBuffer, InputVerdict, PortState, QueueChange, Severity, Verdict,
};

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

/// The greatest severity: the field has six bits (IEEE 802.1Qau).
const MOST_SEVERE: i64 = 63;

/// Quantized feedback (Fb of IEEE 802.1Qau) of a queue that holds `bytes`, and held `before` at the last
/// sample: its distance above the set point, plus `weight` times its growth. Zero if that is not congestion.
fn severity(bytes: u32, before: u32, set_point: u32, weight: u32) -> Severity {
    let [bytes, before, set_point, weight] = [bytes, before, set_point, weight].map(i64::from);
    let feedback = bytes - set_point + weight * (bytes - before);
    let most = set_point.max(1) * (2 * weight + 1);
    (feedback.clamp(0, most) * MOST_SEVERE / most) as Severity
}

/// A rule that decides which packets switches mark. Default methods do nothing.
///
/// A rule keeps one [`Self::State`] per output port and virtual lane of a switch. The methods `watches_*` say
/// which calls the rule needs; by default it gets all of them, and a rule that needs fewer says so for speed.
/// For a packet that leaves, the order of calls is `queue_changed`, then `departs`.
pub(crate) trait MarkingRule {
    /// What the rule keeps per output port and virtual lane.
    type State;

    /// Whether [`QueueChange::queue`] must give the fill of the single queue that changed.
    fn needs_queues(&self) -> bool {
        false
    }

    /// Whether the rule needs [`Self::queue_changed`] for a change that leaves `queue_bytes` in all queues of
    /// the lane. The answer is a cheap test that avoids most of those calls.
    fn watches_queue(&self, _port: &Self::State, _queue_bytes: u32) -> bool {
        true
    }

    /// A queue that feeds the lane grew or shrank.
    ///
    /// `has_credit` tells whether the output has credit for a full packet besides the one that it sends now or
    /// sends next. Without that, an output is no root of a congestion tree. The question costs time: ask only
    /// if the answer matters.
    fn queue_changed(
        &self,
        _port: &mut Self::State,
        _change: &QueueChange,
        _has_credit: impl FnOnce() -> bool,
    ) {
    }

    /// A fill of all queues of a lane up to which the rule needs neither [`Self::queue_changed`] nor [`Self::departs`],
    /// as long as neither [`Self::watches_queue`] (of an empty queue) nor [`Self::watches_departures`] is true. None:
    /// there is no such fill.
    fn quiet_fill(&self) -> Option<u32> {
        None
    }

    /// Whether the rule needs [`Self::arrives`].
    fn watches_arrivals(&self) -> bool {
        true
    }

    /// Whether the rule marks packets only as they arrive. Then the binned scheduler can have switches notify sources.
    fn marks_only_arrivals(&self) -> bool {
        false
    }

    /// Whether [`Self::arrives`] may mark a packet among the next `bytes` bytes of data that arrive.
    fn may_mark_arrivals(&self, _port: &Self::State, _bytes: u32) -> bool {
        true
    }

    /// A packet has come into a queue of the lane.
    fn arrives(&self, _port: &mut Self::State, _arrival: &Arrival) -> Verdict {
        Verdict::Forward
    }

    /// Whether the rule needs [`Self::departs`] for a packet that leaves now.
    fn watches_departures(&self, _port: &Self::State) -> bool {
        true
    }

    /// A packet starts to leave through the lane. For `has_credit` see [`Self::queue_changed`].
    fn departs(
        &self,
        _port: &mut Self::State,
        _departure: &Departure,
        _has_credit: impl FnOnce() -> bool,
    ) -> Verdict {
        Verdict::Forward
    }

    /// Whether the rule needs [`Self::enters_buffer`], which only switches with buffers at inputs and outputs
    /// call.
    fn watches_input_buffers(&self) -> bool {
        false
    }

    /// A packet has come into an input buffer.
    fn enters_buffer(&self, _buffer: &InputBuffer) -> InputVerdict {
        InputVerdict::Forward
    }

    /// The congestion state of the lane, for measurement.
    fn state(&self, _port: &Self::State) -> PortState {
        PortState::default()
    }
}

/// A rule with its state for one switch, per output port and virtual lane.
#[derive(Debug)]
pub(crate) struct Ruled<R: MarkingRule> {
    pub rule: Arc<R>,
    pub ports: Box<[R::State]>,
}

impl<R: MarkingRule> Ruled<R> {
    /// Joins the state of several switches, which have the same rule; none of none.
    fn join(all: Vec<Self>) -> Option<Self> {
        let rule = Arc::clone(&all.first()?.rule);
        Some(Self { rule, ports: all.into_iter().flat_map(|ruled| ruled.ports).collect() })
    }
}

/// The marking rule of one switch with its state.
#[derive(Debug)]
pub(crate) enum Marker {
    None,
    Fecn(Ruled<FecnRule>),
    Sampled(Ruled<SampledRule>),
    Buffers(Ruled<BufferRule>),
}

/// Evaluates `$then` with the rule and the states of a marker, or `$otherwise` without a rule.
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

/// The methods of [`MarkingRule`]; `lane` is a virtual lane of an output port.
impl Marker {
    /// Prefetches the state of a lane.
    #[inline]
    pub fn prefetch(&self, lane: usize) {
        with_rule!(self, (_rule, ports) => prefetch(ports, lane), ());
    }

    pub fn needs_queues(&self) -> bool {
        with_rule!(self, (rule, _ports) => rule.needs_queues(), false)
    }

    #[inline(always)]
    pub fn watches_queue(&self, lane: usize, queue_bytes: u32) -> bool {
        // Checked without a panic, so that rules that answer no for every port cost nothing.
        with_rule!(self, (rule, ports) => {
            ports.get(lane).is_some_and(|port| rule.watches_queue(port, queue_bytes))
        }, false)
    }

    #[inline]
    pub fn queue_changed(&mut self, lane: usize, change: &QueueChange, has_credit: impl FnOnce() -> bool) {
        with_rule!(self, (rule, ports) => {
            rule.queue_changed(&mut ports[lane], change, has_credit);
        }, ());
    }

    #[inline(always)]
    pub fn watches_arrivals(&self) -> bool {
        with_rule!(self, (rule, _ports) => rule.watches_arrivals(), false)
    }

    pub fn arrives(&mut self, lane: usize, arrival: &Arrival) -> Verdict {
        with_rule!(self, (rule, ports) => {
            rule.arrives(&mut ports[lane], arrival)
        }, Verdict::Forward)
    }

    pub fn marks_only_arrivals(&self) -> bool {
        with_rule!(self, (rule, _ports) => rule.marks_only_arrivals(), true)
    }

    pub fn may_mark_arrivals(&self, lane: usize, bytes: u32) -> bool {
        with_rule!(self, (rule, ports) => rule.may_mark_arrivals(&ports[lane], bytes), false)
    }

    #[inline(always)]
    pub fn watches_departures(&self, lane: usize) -> bool {
        with_rule!(self, (rule, ports) => {
            ports.get(lane).is_some_and(|port| rule.watches_departures(port))
        }, false)
    }

    #[inline]
    pub fn departs(
        &mut self,
        lane: usize,
        departure: &Departure,
        has_credit: impl FnOnce() -> bool,
    ) -> Verdict {
        with_rule!(self, (rule, ports) => {
            rule.departs(&mut ports[lane], departure, has_credit)
        }, Verdict::Forward)
    }

    #[inline]
    pub fn watches_input_buffers(&self) -> bool {
        with_rule!(self, (rule, _ports) => rule.watches_input_buffers(), false)
    }

    pub fn enters_buffer(&self, buffer: &InputBuffer) -> InputVerdict {
        with_rule!(self, (rule, _ports) => rule.enters_buffer(buffer), InputVerdict::Forward)
    }

    pub fn state(&self, lane: usize) -> PortState {
        with_rule!(self, (rule, ports) => rule.state(&ports[lane]), PortState::default())
    }

    /// See [`MarkingRule::quiet_fill`]; without a rule no fill matters.
    pub fn quiet_fill(&self) -> Option<u32> {
        with_rule!(self, (rule, _ports) => rule.quiet_fill(), Some(u32::MAX))
    }

    /// Joins the markers of several switches in their order. All have the same rule.
    pub fn join(markers: Vec<Self>) -> Self {
        let (mut fecn, mut sampled, mut buffers) = (Vec::new(), Vec::new(), Vec::new());
        for marker in markers {
            match marker {
                Self::None => {}
                Self::Fecn(ruled) => fecn.push(ruled),
                Self::Sampled(ruled) => sampled.push(ruled),
                Self::Buffers(ruled) => buffers.push(ruled),
            }
        }
        let fecn = Ruled::join(fecn).map(Self::Fecn);
        let sampled = Ruled::join(sampled).map(Self::Sampled);
        fecn.or(sampled).or(Ruled::join(buffers).map(Self::Buffers)).unwrap_or(Self::None)
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
