//! The marking rules of switches. Each rule or family of rules has its own file; this file lists them.
//!
//! | file | rule |
//! | --- | --- |
//! | `fecn` | InfiniBand: queues of a root above a threshold |
//! | `buffers` | IPM, OPM and MVPM: the fill of buffers at inputs and outputs |
//! | `sampled` | QCN: samples of arriving packets |
//! | `red` | Ethernet: the queue of the output between two thresholds |
//! | `telemetry` | no marks: switches write the state of their outputs into packets |
//!
//! To add a rule, write a file with its parameters, the rule and tests, and add a line to the list `markings!` below.
//! The list generates the enum of the configuration, [`Marking`], and that of the switches in a run, [`Marker`]. The
//! other modules do not depend on the rule in use.

mod buffers;
mod fecn;
mod red;
mod sampled;
mod telemetry;

pub(crate) use buffers::BufferRule;
pub use buffers::{Ipm, Mvpm, Opm};
pub(crate) use fecn::FecnRule;
pub use fecn::{Fecn, FecnThresholds, FillMapping, MarkingPattern, PortSetting, VictimMask};
pub(crate) use red::RedRule;
pub use red::{Red, RedThresholds};
pub use sampled::Sampled;
pub(crate) use sampled::SampledRule;
pub use telemetry::InBandTelemetry;
pub(crate) use telemetry::StampRule;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::cache::prefetch;
use silvan_engine::random::Stream;
use silvan_engine::saved::Saved;
use silvan_engine::{Bytes, Rate, Time};
use silvan_network::port::PortVl;

use super::kebab;
use super::link_layer::LinkLayer;
use super::unfit::{Check, Limits, ensure};
use crate::facts::{
    Arrival, Departure, InputBuffer, InputVerdict, PortState, QueueChange, Severity, Verdict,
};

/// The parameters of a marking rule, and the requirements for the rest of the configuration that follow from them.
pub trait MarkingParameters {
    /// Whether the rule needs switches with buffers at inputs and outputs.
    fn needs_output_buffers(&self) -> bool {
        false
    }

    /// Whether the rule needs the fill of the queues of single inputs, so switches must have a queue per
    /// input and output.
    fn needs_input_queues(&self) -> bool {
        false
    }

    /// Whether marks can carry the severity of congestion, see [`super::Feedback`].
    fn has_severities(&self) -> bool {
        true
    }

    /// The link layer for which the rule is designed. `None` if it suits every link layer.
    fn link_layer(&self) -> Option<LinkLayer> {
        None
    }

    /// Whether packets collect telemetry instead of marks.
    fn stamps(&self) -> bool {
        false
    }

    /// Whether thresholds depend on the network's round trip.
    fn needs_round_trip(&self) -> bool {
        false
    }

    /// The lower and upper threshold of an output of this rate. `None` if they do not depend on the rate or
    /// on the network's round trip, or if the parameters have no thresholds for this rate.
    fn thresholds(&self, _rate: Rate, _round_trip: Option<Time>) -> Option<(Bytes, Bytes)> {
        None
    }

    /// Whether the parameters have thresholds for outputs of this rate.
    fn has_thresholds(&self, _rate: Rate) -> bool {
        true
    }

    /// Whether packets carry a second bit, which distinguishes contributors from victims.
    fn validates(&self) -> bool {
        false
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// Returns the first invalid parameter.
    fn check(&self, _limits: &Limits) -> Check {
        Ok(())
    }

    /// The keys of parameters that name switches or ports, relative to the component's table, each with the
    /// name.
    fn named_ports(&self) -> Vec<(String, &str)> {
        Vec::new()
    }
}

/// Checks the rates of the list `thresholds`. `replaced` contains the given keys that the list replaces.
///
/// # Errors
/// Fails if a rate is zero or has two entries, or if a list with entries replaces a given key.
fn check_rates(rates: impl Iterator<Item = Rate>, mut replaced: impl Iterator<Item = &'static str>) -> Check {
    let mut known = Vec::new();
    for (index, rate) in rates.enumerate() {
        let key = format!("thresholds.{index}.rate");
        ensure(rate != Rate(0), &key, || "must be more than 0 bit/s".to_owned())?;
        let first = known.iter().position(|&other| other == rate);
        ensure(first.is_none(), &key, || {
            format!("has an entry already, `thresholds.{}`", first.unwrap_or_default())
        })?;
        known.push(rate);
    }
    let contradiction = replaced.next().filter(|_| !known.is_empty());
    ensure(contradiction.is_none(), contradiction.unwrap_or_default(), || {
        "must be left out, because `thresholds` states it for each rate".to_owned()
    })
}

/// The properties of the switches for which a rule is created. They are the same in the whole network.
#[derive(Debug, Clone, Copy, Default)]
pub struct SwitchFacts {
    /// Bytes of the input buffer for each virtual lane.
    pub lane: u32,
    /// Bytes of the output buffer for each virtual lane.
    pub output_lane: u32,
    /// Bytes that a full packet occupies in a buffer.
    pub full_space: u32,
    /// Whether each queue holds packets for only one output. If so, its fill cannot exceed that of all queues of the
    /// output.
    pub queues_have_one_output: bool,
    /// Rate of the slowest output.
    pub slowest: Rate,
    /// The shortest round trip of any output, if the rule needs it.
    pub round_trip: Option<Time>,
}

/// What a marking rule may know about an output.
#[derive(Debug, Clone, Copy, Default)]
pub struct OutputFacts {
    /// Whether a host is at the far end of the link.
    pub faces_host: bool,
    /// Rate of the link.
    pub rate: Rate,
    /// The longest round trip of the hosts whose packets use the output, if the rule needs it.
    pub round_trip: Option<Time>,
}

/// A virtual lane of an output for which the state of a rule is created.
#[derive(Debug, Clone, Copy)]
pub struct RuleLane<'a> {
    /// Name of the switch.
    pub switch_name: &'a str,
    /// Number of ports of the switch.
    pub ports: usize,
    /// The output.
    pub output: OutputFacts,
    seed: u64,
    switch: usize,
    /// Index of the port.
    port: usize,
    lane: PortVl,
}

impl RuleLane<'_> {
    /// The name of the port, such as "S1:3".
    pub fn port_name(&self) -> String {
        format!("{}:{}", self.switch_name, self.port + 1)
    }

    /// The random stream of the lane for marks.
    pub fn random(&self) -> Stream {
        Stream::new(self.seed, "marking", (self.switch as u64) << 16 | self.lane.index() as u64)
    }
}

/// The outputs of a switch for which states are created.
#[derive(Debug, Clone, Copy)]
pub struct SwitchOutputs<'a> {
    /// Seed of the run.
    pub seed: u64,
    /// Index of the switch.
    pub switch: usize,
    /// Name of the switch.
    pub name: &'a str,
    /// Number of virtual lanes.
    pub lanes: usize,
    /// By port.
    pub ports: &'a [OutputFacts],
}

impl<'a> SwitchOutputs<'a> {
    fn lanes(&self) -> impl Iterator<Item = RuleLane<'a>> {
        let Self { seed, switch, name, lanes, ports } = *self;
        PortVl::all(ports.len(), lanes).map(move |lane| {
            let port = lane.port(lanes).index();
            RuleLane { switch_name: name, ports: ports.len(), output: ports[port], seed, switch, port, lane }
        })
    }
}

/// The greatest severity, which is limited by a field of six bits (IEEE 802.1Qau).
const MOST_SEVERE: i64 = 63;

/// Quantized feedback (Fb of IEEE 802.1Qau, negated) for a queue of `bytes` that had `before` bytes at the
/// last sample: the distance above the set point plus `weight` times the growth. It is limited to the range
/// from 0 to `set_point` x (2 `weight` + 1), and scaled to 0 to 63. Zero means no congestion.
fn severity(bytes: u32, before: u32, set_point: u32, weight: u32) -> Severity {
    let [bytes, before, set_point, weight] = [bytes, before, set_point, weight].map(i64::from);
    let feedback = bytes - set_point + weight * (bytes - before);
    let most = set_point.max(1) * (2 * weight + 1);
    (feedback.clamp(0, most) * MOST_SEVERE / most) as Severity
}

/// A rule that decides which packets the switches mark. The default methods mark no packet.
///
/// A rule has one [`Self::State`] per output port and virtual lane of a switch. The methods `watches_*` state
/// which calls the rule needs. By default, it needs all calls except `enters_buffer`. Fewer calls are faster.
/// For a departing packet, `queue_changed` is called before `departs`. The state derives `Saved`, because
/// checkpoints of a run contain it.
pub trait MarkingRule {
    /// The state per output port and virtual lane.
    type State: Saved;

    /// The initial state of a lane.
    fn port(&self, lane: &RuleLane) -> Self::State;

    /// Whether [`QueueChange::queue`] must contain the fill of the single queue that changed.
    fn needs_queues(&self) -> bool {
        false
    }

    /// Whether the rule reads [`Departure::sent_bytes`], whose computation is slow.
    fn reads_sent_bytes(&self) -> bool {
        false
    }

    /// Whether the rule needs [`Self::queue_changed`] for any change.
    fn watches_queues(&self) -> bool {
        true
    }

    /// Whether the rule needs [`Self::queue_changed`] for a change that leaves `queue_bytes` in all queues of
    /// the lane together. This test is fast and avoids most calls of [`Self::queue_changed`].
    fn watches_queue(&self, _port: &Self::State, _queue_bytes: u32) -> bool {
        true
    }

    /// Handles a change in the size of a queue that feeds the lane.
    ///
    /// `has_credit` returns whether the output has credit for a full packet in addition to the current or next one. An
    /// output without that credit is not the root of a congestion tree. Rules should call `has_credit` only if they
    /// need the result, because it is slow.
    fn queue_changed(
        &self,
        _port: &mut Self::State,
        _change: &QueueChange,
        _has_credit: impl FnOnce() -> bool,
    ) {
    }

    /// The fill of all queues of a lane up to which the rule needs neither [`Self::queue_changed`] nor
    /// [`Self::departs`], provided that [`Self::watches_queue`] (for an empty queue) and [`Self::watches_departures`]
    /// are false. `None` if there is no such fill.
    fn quiet_fill(&self) -> Option<u32> {
        None
    }

    /// Whether the rule needs [`Self::arrives`].
    fn watches_arrivals(&self) -> bool {
        true
    }

    /// Whether the rule marks packets only on arrival. If so, the binned scheduler supports switches that notify
    /// sources.
    fn marks_only_arrivals(&self) -> bool {
        false
    }

    /// Whether [`Self::arrives`] may mark a packet within the next `bytes` bytes of arriving data.
    fn may_mark_arrivals(&self, _port: &Self::State, _bytes: u32) -> bool {
        true
    }

    /// Whether the rule does not need [`Self::arrives`] for a packet of this size that has entered a queue. A
    /// rule that needs only some arrivals counts the arrivals that it skips in this method, which is fast.
    fn skips_arrival(&self, _port: &mut Self::State, _size: u32, _is_data: bool) -> bool {
        false
    }

    /// Decides whether to mark a packet that has entered a queue of the lane.
    fn arrives(&self, _port: &mut Self::State, _arrival: &Arrival) -> Verdict {
        Verdict::Forward
    }

    /// Whether the rule needs [`Self::departs`] for a packet that starts to leave.
    fn watches_departures(&self, _port: &Self::State) -> bool {
        true
    }

    /// Decides whether to mark a packet that starts to leave through the lane. See [`Self::queue_changed`] for
    /// `has_credit`.
    fn departs(
        &self,
        _port: &mut Self::State,
        _departure: &Departure,
        _has_credit: impl FnOnce() -> bool,
    ) -> Verdict {
        Verdict::Forward
    }

    /// Whether the rule needs [`Self::enters_buffer`], which is called only in switches with input and output buffers.
    fn watches_input_buffers(&self) -> bool {
        false
    }

    /// Decides which packets to mark after a packet has entered an input buffer.
    fn enters_buffer(&self, _buffer: &InputBuffer) -> InputVerdict {
        InputVerdict::Forward
    }

    /// The congestion state of the lane, for measurements.
    fn state(&self, _port: &Self::State) -> PortState {
        PortState::default()
    }
}

/// A rule with its states for one switch, one per output port and virtual lane.
#[derive(Debug, Saved)]
pub struct Ruled<R: MarkingRule> {
    /// The rule, which all switches share.
    #[saved(constant)]
    pub rule: Arc<R>,
    /// The state of each lane of each output.
    pub ports: Box<[R::State]>,
}

impl<R: MarkingRule> Ruled<R> {
    fn new(rule: R) -> Self {
        Self { rule: Arc::new(rule), ports: Box::default() }
    }

    /// The same rule, with initial states for the outputs of a switch.
    fn at(&self, outputs: &SwitchOutputs) -> Self {
        let ports = outputs.lanes().map(|lane| self.rule.port(&lane)).collect();
        Self { rule: Arc::clone(&self.rule), ports }
    }

    /// Whether the lane's rule needs all calls about its queue or its departing packets.
    fn needs_all(&self, lane: usize) -> bool {
        let port = &self.ports[lane];
        self.rule.watches_queue(port, 0) || self.rule.watches_departures(port)
    }

    /// Joins the states of several switches that have the same rule. Returns `None` if there are no switches.
    fn join(all: Vec<Self>) -> Option<Self> {
        let rule = Arc::clone(&all.first()?.rule);
        Some(Self { rule, ports: all.into_iter().flat_map(|ruled| ruled.ports).collect() })
    }
}

/// Defines the marking rules. Each entry has the documentation, the name, the type of the parameters in a
/// configuration, the function that creates the rule from them, and the type of the rule.
macro_rules! markings {
    ($( $(#[$meta:meta])* $name:ident($parameters:ty) => $make:path as $rule:ty; )*) => {
        /// A marking rule with its parameters.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "kebab-case")]
        pub enum Marking {
            /// No packet is marked.
            None,
            $( $(#[$meta])* $name($parameters), )*
        }

        impl Marking {
            /// The name of the kind in a scenario.
            #[must_use]
            pub fn kind(&self) -> String {
                let name = match self {
                    Self::None => "None",
                    $( Self::$name(_) => stringify!($name), )*
                };
                kebab(name)
            }

            /// The parameters of the rule. `None` if there is no rule.
            #[must_use]
            pub fn parameters(&self) -> Option<&dyn MarkingParameters> {
                match self {
                    Self::None => None,
                    $( Self::$name(parameters) => Some(parameters), )*
                }
            }

            /// Creates the rule for the switches of a network, without any states.
            pub fn marker(&self, switches: &SwitchFacts) -> Marker {
                match self {
                    Self::None => Marker::None,
                    $( Self::$name(parameters) => Marker::$name(Ruled::new($make(parameters, switches))), )*
                }
            }
        }

        /// The marking rule of one switch with its states.
        #[derive(Debug, Saved)]
        pub enum Marker {
            /// No packet is marked.
            None,
            $( $(#[$meta])* $name(Ruled<$rule>), )*
        }

        /// The methods of [`MarkingRule`]. `lane` is a virtual lane of an output port.
        impl Marker {
            /// The same rule, with initial states for the outputs of a switch.
            pub fn at(&self, outputs: &SwitchOutputs) -> Self {
                match self {
                    Self::None => Self::None,
                    $( Self::$name(ruled) => Self::$name(ruled.at(outputs)), )*
                }
            }

            /// See [`MarkingRule::quiet_fill`]. If there is no rule, every fill is quiet.
            pub fn quiet_fill(&self) -> Option<u32> {
                match self {
                    Self::None => Some(u32::MAX),
                    $( Self::$name(ruled) => ruled.rule.quiet_fill(), )*
                }
            }

            /// See [`MarkingRule::watches_queues`].
            pub fn watches_queues(&self) -> bool {
                match self {
                    Self::None => false,
                    $( Self::$name(ruled) => ruled.rule.watches_queues(), )*
                }
            }

            /// See [`MarkingRule::marks_only_arrivals`].
            pub fn marks_only_arrivals(&self) -> bool {
                match self {
                    Self::None => true,
                    $( Self::$name(ruled) => ruled.rule.marks_only_arrivals(), )*
                }
            }

            /// See [`MarkingRule::skips_arrival`].
            #[inline(always)]
            pub fn skips_arrival(&mut self, lane: usize, size: u32, is_data: bool) -> bool {
                match self {
                    Self::None => true,
                    $( Self::$name(Ruled { rule, ports }) => {
                        ports.get_mut(lane).is_some_and(|port| rule.skips_arrival(port, size, is_data))
                    } )*
                }
            }

            /// See [`MarkingRule::may_mark_arrivals`].
            pub fn may_mark_arrivals(&self, lane: usize, bytes: u32) -> bool {
                match self {
                    Self::None => false,
                    $( Self::$name(Ruled { rule, ports }) => rule.may_mark_arrivals(&ports[lane], bytes), )*
                }
            }

            /// Joins the markers of several switches in the given order. All of them must have the same rule.
            pub fn join(markers: Vec<Self>) -> Self {
                match markers.first() {
                    None | Some(Self::None) => Self::None,
                    $( Some(Self::$name(_)) => {
                        let same = |marker| if let Self::$name(ruled) = marker { Some(ruled) } else { None };
                        let all = markers.into_iter().filter_map(same).collect();
                        Ruled::join(all).map_or(Self::None, Self::$name)
                    } )*
                }
            }

            /// Prefetches the state of a lane.
            #[inline]
            pub fn prefetch(&self, lane: usize) {
                match self {
                    Self::None => {}
                    $( Self::$name(ruled) => prefetch(&ruled.ports, lane), )*
                }
            }

            /// Whether the rule reads [`Departure::sent_bytes`].
            pub fn reads_sent_bytes(&self) -> bool {
                match self {
                    Self::None => false,
                    $( Self::$name(ruled) => ruled.rule.reads_sent_bytes(), )*
                }
            }

            /// See [`MarkingRule::needs_queues`].
            pub fn needs_queues(&self) -> bool {
                match self {
                    Self::None => false,
                    $( Self::$name(ruled) => ruled.rule.needs_queues(), )*
                }
            }

            /// See [`MarkingRule::watches_queue`].
            #[inline(always)]
            pub fn watches_queue(&self, lane: usize, queue_bytes: u32) -> bool {
                match self {
                    Self::None => false,
                    // Unlike an index expression, `get` cannot panic, so the compiler can remove it for rules that
                    // return false for every lane.
                    $( Self::$name(Ruled { rule, ports }) => {
                        ports.get(lane).is_some_and(|port| rule.watches_queue(port, queue_bytes))
                    } )*
                }
            }

            /// See [`MarkingRule::queue_changed`]. Returns [`Self::needs_all`] for the lane.
            #[inline]
            pub fn queue_changed(
                &mut self,
                lane: usize,
                change: &QueueChange,
                has_credit: impl FnOnce() -> bool,
            ) -> bool {
                match self {
                    Self::None => false,
                    $( Self::$name(ruled) => {
                        ruled.rule.queue_changed(&mut ruled.ports[lane], change, has_credit);
                        ruled.needs_all(lane)
                    } )*
                }
            }

            /// Whether the rule needs all queue changes and departures of a lane in its present state.
            pub fn needs_all(&self, lane: usize) -> bool {
                match self {
                    Self::None => false,
                    $( Self::$name(ruled) => ruled.needs_all(lane), )*
                }
            }

            /// See [`MarkingRule::watches_arrivals`].
            #[inline(always)]
            pub fn watches_arrivals(&self) -> bool {
                match self {
                    Self::None => false,
                    $( Self::$name(ruled) => ruled.rule.watches_arrivals(), )*
                }
            }

            /// See [`MarkingRule::arrives`].
            pub fn arrives(&mut self, lane: usize, arrival: &Arrival) -> Verdict {
                match self {
                    Self::None => Verdict::Forward,
                    $( Self::$name(Ruled { rule, ports }) => {
                        rule.arrives(&mut ports[lane], arrival)
                    } )*
                }
            }

            /// See [`MarkingRule::watches_departures`].
            #[inline(always)]
            pub fn watches_departures(&self, lane: usize) -> bool {
                match self {
                    Self::None => false,
                    $( Self::$name(Ruled { rule, ports }) => {
                        ports.get(lane).is_some_and(|port| rule.watches_departures(port))
                    } )*
                }
            }

            /// See [`MarkingRule::departs`].
            #[inline(always)]
            pub fn departs(
                &mut self,
                lane: usize,
                departure: &Departure,
                has_credit: impl FnOnce() -> bool,
            ) -> Verdict {
                match self {
                    Self::None => Verdict::Forward,
                    $( Self::$name(Ruled { rule, ports }) => {
                        rule.departs(&mut ports[lane], departure, has_credit)
                    } )*
                }
            }

            /// See [`MarkingRule::watches_input_buffers`].
            #[inline]
            pub fn watches_input_buffers(&self) -> bool {
                match self {
                    Self::None => false,
                    $( Self::$name(ruled) => ruled.rule.watches_input_buffers(), )*
                }
            }

            /// See [`MarkingRule::enters_buffer`].
            pub fn enters_buffer(&self, buffer: &InputBuffer) -> InputVerdict {
                match self {
                    Self::None => InputVerdict::Forward,
                    $( Self::$name(ruled) => ruled.rule.enters_buffer(buffer), )*
                }
            }

            /// See [`MarkingRule::state`].
            pub fn state(&self, lane: usize) -> PortState {
                match self {
                    Self::None => PortState::default(),
                    $( Self::$name(Ruled { rule, ports }) => rule.state(&ports[lane]), )*
                }
            }
        }
    };
}

markings! {
    /// InfiniBand's FECN: outputs in the congestion state mark packets.
    Fecn(Fecn) => Fecn::rule as FecnRule;
    /// Input packet marking: if an input buffer is full, packets that wait for the same outputs as its packets are
    /// marked.
    Ipm(Ipm) => Ipm::rule as BufferRule;
    /// Output packet marking: packets that leave an output buffer whose fill is above a threshold are marked.
    Opm(Opm) => Opm::rule as BufferRule;
    /// Marking at inputs and validation at outputs, with two bits per packet.
    Mvpm(Mvpm) => Mvpm::rule as BufferRule;
    /// Arriving packets are sampled, and marked if the queue is above its set point or grows fast (QCN).
    Sampled(Sampled) => Sampled::rule as SampledRule;
    /// Between two thresholds, the share of departing packets that are marked grows with the queues of the
    /// output (ECN of Ethernet switches, RED).
    Red(Red) => Red::rule as RedRule;
    /// In-band telemetry: switches write the state of their outputs into data packets instead of marking them.
    Telemetry(InBandTelemetry) => InBandTelemetry::rule as StampRule;
}

impl Marking {
    /// See [`MarkingParameters::link_layer`].
    #[must_use]
    pub fn link_layer(&self) -> Option<LinkLayer> {
        self.parameters().and_then(|parameters| parameters.link_layer())
    }

    /// See [`MarkingParameters::needs_output_buffers`].
    #[must_use]
    pub fn needs_output_buffers(&self) -> bool {
        self.parameters().is_some_and(|parameters| parameters.needs_output_buffers())
    }

    /// See [`MarkingParameters::needs_input_queues`].
    #[must_use]
    pub fn needs_input_queues(&self) -> bool {
        self.parameters().is_some_and(|parameters| parameters.needs_input_queues())
    }

    /// See [`MarkingParameters::has_severities`]. True if there is no rule.
    #[must_use]
    pub fn has_severities(&self) -> bool {
        self.parameters().is_none_or(|parameters| parameters.has_severities())
    }

    /// See [`MarkingParameters::stamps`].
    #[must_use]
    pub fn stamps(&self) -> bool {
        self.parameters().is_some_and(|parameters| parameters.stamps())
    }

    /// See [`MarkingParameters::needs_round_trip`].
    #[must_use]
    pub fn needs_round_trip(&self) -> bool {
        self.parameters().is_some_and(|parameters| parameters.needs_round_trip())
    }

    /// See [`MarkingParameters::thresholds`].
    #[must_use]
    pub fn thresholds(&self, rate: Rate, round_trip: Option<Time>) -> Option<(Bytes, Bytes)> {
        self.parameters()?.thresholds(rate, round_trip)
    }

    /// See [`MarkingParameters::validates`].
    #[must_use]
    pub fn validates(&self) -> bool {
        self.parameters().is_some_and(|parameters| parameters.validates())
    }

    /// See [`MarkingParameters::check`].
    ///
    /// # Errors
    /// Returns the first invalid parameter.
    pub fn check(&self, limits: &Limits) -> Check {
        self.parameters().map_or(Ok(()), |parameters| parameters.check(limits))
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
