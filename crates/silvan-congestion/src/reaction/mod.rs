//! Reactions of sources to the answers to their packets. Each reaction has its own file; this file lists them.
//!
//! | file | reaction |
//! | --- | --- |
//! | `cct` | the congestion control table of InfiniBand and of Pfister's mechanism |
//! | `window` | a static window per flow |
//! | `rate` | AIMD, FIMD and LIPD, with or without a static window (Renato) |
//! | `mvcm` | a dynamic window, then waiting slots |
//! | `qcn` | a rate that marks reduce according to the severity of congestion, and that recovers by itself |
//! | `dcqcn` | DCQCN: a rate that notifications decrease, more if they are frequent, and that recovers by itself |
//! | `dctcp` | DCTCP: a window that shrinks with the share of marked packets |
//! | `timely` | TIMELY: a rate by the gradient of the delay |
//! | `swift` | Swift: a window controlled by a target delay |
//! | `hpcc` | HPCC: a rate by the utilization of the links, from telemetry |
//! | `pcc_rtt` | a rate by the round-trip time, in the manner of adapters with programmable congestion control |
//! | `pcc_telemetry` | a rate by telemetry, in the manner of adapters with programmable congestion control |
//! | `nscc` | Ultra Ethernet: a window by marks and by the delay of queues |
//! | `rccc` | Ultra Ethernet: credit of the receiver, with or without the window of `nscc` |
//! | `explicit` | parameters of explicit rates, which `host/announce.rs` in `silvan-fabric` implements |
//!
//! To add a reaction, write a file with its parameters, its rule and tests, and add a line to the list `reactions!`
//! below. The list generates the enum of the configuration, [`Reaction`], and that of the hosts in a run, [`Reactor`].
//! The other modules do not depend on the reaction in use. `paced` contains common code of reactions with a rate; a
//! reaction that only defines a law of the rate, such as `timely`, needs no other module. `progress` contains common
//! code of reactions with windows in bytes, and `destinations` states that several flows share.

mod cct;
mod dcqcn;
mod dctcp;
mod destinations;
mod explicit;
mod flows;
mod hpcc;
mod mvcm;
mod nscc;
mod paced;
mod pcc_rtt;
mod pcc_telemetry;
mod progress;
mod qcn;
mod rate;
mod rccc;
mod swift;
mod timely;
mod window;

pub(crate) use cct::CctRule;
pub use cct::{Cct, CctTable, ControlLevel, PerSl, TimerStart};
pub(crate) use dcqcn::DcqcnRule;
pub use dcqcn::{Dcqcn, DcqcnOrder, DcqcnSet};
pub use dctcp::Dctcp;
pub(crate) use dctcp::DctcpRule;
pub use destinations::Destinations;
pub(crate) use explicit::Announced;
pub use explicit::{ExplicitRate, Injection, Probing};
pub use flows::FlowRef;
use flows::Flows;
pub use hpcc::Hpcc;
pub(crate) use hpcc::HpccRule;
pub use mvcm::Mvcm;
pub(crate) use mvcm::MvcmRule;
pub(crate) use nscc::NsccRule;
pub use nscc::{Nscc, NsccLevel, NsccRules};
pub use pcc_rtt::PccRtt;
pub(crate) use pcc_rtt::PccRttRule;
pub(crate) use pcc_telemetry::PccTelemetryRule;
pub use pcc_telemetry::{PccTelemetry, SampledHop};
pub use qcn::Qcn;
pub(crate) use qcn::QcnRule;
pub(crate) use rate::RateRule;
pub use rate::{Lipd, RateControl};
pub use rccc::Rccc;
pub(crate) use rccc::RcccRule;
pub use swift::Swift;
pub(crate) use swift::SwiftRule;
pub use timely::Timely;
pub(crate) use timely::TimelyRule;
pub use window::StaticWindow;
pub(crate) use window::{WindowRule, WindowState};

use std::cell::RefCell;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::saved::Saved;
use silvan_engine::{Rate, Time};

use super::kebab;
use super::link_layer::LinkLayer;
use super::round_trip::RoundTrip;
use super::unfit::{Check, Limits};
use crate::facts::{Answer, Grant, Lost, Next, Queued, Sent};
use crate::receiver::Pacing;

/// The properties of a reaction on which the rest of the configuration depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Properties {
    /// Whether the reaction needs an acknowledgement of every packet.
    pub needs_acknowledgements: bool,
    /// Whether the reaction can slow down sources even if no packet is marked.
    pub acts_without_marks: bool,
    /// Whether marks affect the reaction.
    pub reads_marks: bool,
    /// The link layer for which the reaction is designed. `None` if it suits every link layer.
    pub link_layer: Option<LinkLayer>,
    /// Whether some parameters depend on the network's round trip.
    pub needs_round_trip: bool,
    /// Whether the reaction needs telemetry of the switches.
    pub needs_telemetry: bool,
    /// Whether the reaction reads telemetry of the switches if packets carry it.
    pub reads_telemetry: bool,
    /// Whether all packets of a flow must take one route.
    pub needs_one_route: bool,
    /// Whether sources send requests to receivers.
    pub sends_requests: bool,
    /// Whether sources wait for grants of the receivers.
    pub needs_grants: bool,
    /// Whether the reaction suits switches that trim packets, because it adapts to lost packets.
    pub handles_loss: bool,
    /// Whether an acknowledgement may cover several packets ([`crate::receiver::AcknowledgeUnit`]).
    pub counts_bytes: bool,
    /// Whether links or receivers control the flows of all hosts together, so that all hosts must have this reaction.
    pub concerns_all_hosts: bool,
}

impl Properties {
    /// Sources ignore marks.
    const NONE: Self = Self {
        needs_acknowledgements: false,
        acts_without_marks: false,
        reads_marks: false,
        link_layer: None,
        needs_round_trip: false,
        needs_telemetry: false,
        reads_telemetry: false,
        needs_one_route: false,
        sends_requests: false,
        needs_grants: false,
        handles_loss: false,
        counts_bytes: true,
        concerns_all_hosts: false,
    };

    /// A reaction that slows down sources only because of marks.
    pub const NOTIFIED: Self = Self { reads_marks: true, ..Self::NONE };

    /// A reaction that counts the acknowledgements of single packets and reads their marks.
    pub const ACKNOWLEDGED: Self = Self {
        needs_acknowledgements: true,
        acts_without_marks: true,
        reads_marks: true,
        counts_bytes: false,
        ..Self::NONE
    };
}

/// The parameters of a reaction.
pub trait ReactionParameters {
    /// The properties that follow from the parameters.
    fn properties(&self) -> Properties;

    /// Checks the parameters.
    ///
    /// # Errors
    /// Returns the first invalid parameter.
    fn check(&self, _limits: &Limits) -> Check {
        Ok(())
    }
}

/// A host for which a rule is created.
#[derive(Debug)]
pub struct Source<'a> {
    /// Number of the host.
    pub host: u32,
    /// Rate of the host's link.
    pub rate: Rate,
    /// Bytes on the wire of a full packet.
    pub full_size: u32,
    /// Payload bytes of a full packet.
    pub mtu: u32,
    /// The round trip of the hosts that exchange traffic with this one. Present if [`Properties::needs_round_trip`] is true.
    pub round_trip: Option<&'a RoundTrip>,
    /// Whether switches trim packets.
    pub trims: bool,
    /// Seed of the run, from which random streams are derived.
    pub seed: u64,
    /// Tables that hosts with the same rate share.
    pub tables: &'a SharedTables,
}

impl Source<'_> {
    /// Bytes of a packet that are not payload.
    pub fn header(&self) -> u32 {
        self.full_size - self.mtu
    }

    /// The shortest round trip; zero if [`Self::round_trip`] is `None`.
    pub fn shortest_round_trip(&self) -> Time {
        self.round_trip.map_or(Time::ZERO, |trip| trip.shortest)
    }
}

/// Tables that hosts with the same link rate share.
#[derive(Debug, Default)]
pub struct SharedTables {
    by_rate: RefCell<FxHashMap<u64, Arc<[u64]>>>,
}

impl SharedTables {
    /// The table of a rate, created at the first call for this rate.
    pub fn get(&self, rate: Rate, make: impl FnOnce() -> Vec<u64>) -> Arc<[u64]> {
        let mut by_rate = self.by_rate.borrow_mut();
        Arc::clone(by_rate.entry(rate.0).or_insert_with(|| make().into()))
    }
}

/// To what the states of a rule belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateLevel {
    /// To the flows of a host.
    Flow,
    /// To its service levels.
    ServiceLevel,
    /// To the destinations of its flows, for all ports of a host with several.
    Destination,
}

impl From<ControlLevel> for StateLevel {
    fn from(level: ControlLevel) -> Self {
        match level {
            ControlLevel::Qp => Self::Flow,
            ControlLevel::Sl => Self::ServiceLevel,
        }
    }
}

impl StateLevel {
    /// Whether flows of a host can have a state in common.
    #[must_use]
    pub fn is_shared(self) -> bool {
        self != Self::Flow
    }
}

/// A rule by which a host decides when its flows may send. The default methods do nothing.
///
/// Depending on [`Self::level`], a rule has one [`Self::State`] per service level, per flow (the traffic of a source of the
/// host to one destination), or per destination. The state derives `Saved`, because checkpoints of a run contain it.
pub trait ReactionRule {
    /// The state per flow, service level or destination.
    type State: Saved;

    /// Whether [`Self::level`] can be [`StateLevel::Destination`].
    const HAS_DESTINATIONS: bool = false;

    /// Whether answers without a mark affect the reaction, as they do for windows. If false, answers can only slow
    /// flows down.
    fn counts_answers(&self) -> bool;

    /// Whether data packets carry a [`Self::target`].
    fn has_targets(&self) -> bool {
        false
    }

    /// To what states belong.
    fn level(&self) -> StateLevel {
        StateLevel::Flow
    }

    /// The state of a flow of service level `sl` that has received no answers.
    fn fresh(&self, sl: u8) -> Self::State;

    /// The earliest time, starting with `next.now`, at which the next packet may start; `None` if an answer, a grant or
    /// a timer determines the time.
    fn may_send_at(&self, state: &Self::State, sl: u8, next: &Next) -> Option<Time>;

    /// Records a packet that has been sent.
    fn sent(&self, _state: &mut Self::State, _sent: &Sent) {}

    /// Handles the arrival of an acknowledgement, before [`Self::answered`]. Returns the amount to request
    /// from the receiver, as [`Self::request`] does.
    fn acknowledged(&self, _state: &mut Self::State) -> u32 {
        0
    }

    /// Handles an answer.
    fn answered(&self, _state: &mut Self::State, _sl: u8, _answer: &Answer) {}

    /// Handles a grant from the receiver.
    fn granted(&self, _state: &mut Self::State, _grant: &Grant) {}

    /// Handles the loss of a packet, which waits to be sent again. Returns the amount to request from the receiver, as
    /// [`Self::request`] does.
    fn lost(&self, _state: &mut Self::State, _lost: &Lost) -> u32 {
        0
    }

    /// Records that a packet with this payload is no longer in flight: it has arrived, but its own answer was
    /// lost.
    fn arrived(&self, _state: &mut Self::State, _payload: u32) {}

    /// The amount to request from the receiver again if the flow has waited for a grant; zero if it does not wait for one.
    fn missing_grant(&self, _state: &Self::State) -> u32 {
        0
    }

    /// The amount to request from the receiver after a message has joined the flow; zero for no request.
    fn request(&self, _state: &mut Self::State, _queued: &Queued) -> u32 {
        0
    }

    /// The target that the next data packet of a flow carries to its receiver, computed as if the packet had been
    /// sent. `None` if packets carry no targets. `sharing` is the number of the host's flows that may send,
    /// including this flow.
    fn target(&self, _state: &Self::State, _next: &Next, _sharing: u32) -> Option<u32> {
        None
    }

    /// Whether the next packet requests an acknowledgement, if acknowledgements cover several packets. It does if it is
    /// the first packet of the flow, or if the flow cannot send another packet of this size before the answer.
    fn must_ask(&self, _state: &Self::State, _next: &Next) -> bool {
        false
    }

    /// Handles a message that is added to a flow without messages. If states belong to service levels, this
    /// method is called only if no flow of the level has a message.
    fn restarted(&self, _state: &mut Self::State) {}

    /// The time at which the rule needs [`Self::timer`] next, if any. The host reads it after each change of the state
    /// except [`Self::arrived`].
    fn next_timer(&self, _state: &Self::State) -> Option<Time> {
        None
    }

    /// Handles the timer at the time that [`Self::next_timer`] returned. Afterwards, `next_timer` must return a later
    /// time or `None`. The timer may release a waiting flow. If states belong to service levels, waiting flows keep
    /// their scheduled times.
    fn timer(&self, _state: &mut Self::State, _now: Time) {}

    /// Whether the state is equivalent to a fresh one.
    fn is_fresh(&self, state: &Self::State, sl: u8, now: Time) -> bool;

    /// The strength with which a flow is slowed down, for measurements. The reaction defines its meaning,
    /// such as the index into the congestion control table.
    fn strength(&self, _state: &Self::State, _sl: u8, _now: Time) -> u16 {
        0
    }

    /// The congestion log contains an event each time the strength rises to this value or beyond. 0 for no events.
    fn trigger(&self, _sl: u8) -> u16 {
        0
    }
}

/// Defines the reactions. Each entry has the documentation, the name, the type of the parameters in a
/// configuration, the function that creates the rule of a host from them if hosts need one, and the type of the rule.
macro_rules! reactions {
    ($( $(#[$meta:meta])* $name:ident($parameters:ty) => $make:path as $rule:ty; )*) => {
        /// A reaction with its parameters.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "kebab-case")]
        pub enum Reaction {
            /// Marks are ignored.
            None,
            $( $(#[$meta])* $name($parameters), )*
        }

        impl Reaction {
            /// The name of the kind in a scenario.
            #[must_use]
            pub fn kind(&self) -> String {
                let name = match self {
                    Self::None => "None",
                    $( Self::$name(_) => stringify!($name), )*
                };
                kebab(name)
            }

            /// The parameters, if there is a reaction.
            #[must_use]
            pub fn parameters(&self) -> Option<&dyn ReactionParameters> {
                match self {
                    Self::None => None,
                    $( Self::$name(parameters) => Some(parameters), )*
                }
            }

            /// Creates the reaction of a host, if hosts need one.
            pub fn reactor(&self, source: &Source) -> Option<Reactor> {
                match self {
                    Self::None => None,
                    $( Self::$name(parameters) => {
                        $make(parameters, source).map(|rule| Reactor::$name(Flows::new(rule)))
                    } )*
                }
            }
        }

        /// The reaction of one host, with the states of its flows.
        #[derive(Debug, Saved)]
        pub enum Reactor {
            $( $(#[$meta])* $name(Flows<$rule>), )*
        }

        /// The methods of [`ReactionRule`] for a flow.
        impl Reactor {
            /// See [`ReactionRule::level`].
            #[inline]
            pub fn level(&self) -> StateLevel {
                match self { $( Self::$name(flows) => flows.rule.level(), )* }
            }

            /// See [`ReactionRule::counts_answers`].
            #[inline]
            pub fn counts_answers(&self) -> bool {
                match self { $( Self::$name(flows) => flows.rule.counts_answers(), )* }
            }

            /// See [`ReactionRule::has_targets`].
            #[inline]
            pub fn has_targets(&self) -> bool {
                match self { $( Self::$name(flows) => flows.rule.has_targets(), )* }
            }

            /// Starts a flow to a host. Its index is the next unused one or that of an earlier flow.
            #[inline]
            pub fn begin(&mut self, flow: FlowRef, destination: u32) {
                match self { $( Self::$name(flows) => flows.begin(flow, destination), )* }
            }

            /// Shares states that belong to destinations with another port of the host, which has the same rule.
            pub fn share_with(&mut self, other: &Self) {
                match (self, other) {
                    $( (Self::$name(flows), Self::$name(other)) => flows.share_with(other), )*
                    _ => {}
                }
            }

            /// The destinations of the flows, if states belong to them.
            #[inline]
            pub fn destinations(&self) -> Option<&Destinations> {
                match self { $( Self::$name(flows) => flows.destinations(), )* }
            }

            /// Determines the host to which each port of the network belongs, if states belong to destinations.
            pub fn set_hosts(&mut self, host_of: Arc<[u32]>) {
                match self { $( Self::$name(flows) => flows.set_hosts(host_of), )* }
            }

            /// See [`ReactionRule::may_send_at`].
            #[inline(always)]
            pub fn may_send_at(&self, flow: FlowRef, next: &Next) -> Option<Time> {
                match self { $( Self::$name(flows) => {
                    flows.of(flow, |rule, state| rule.may_send_at(state, flow.sl, next))
                } )* }
            }

            /// See [`ReactionRule::sent`].
            #[inline]
            pub fn sent(&mut self, flow: FlowRef, sent: &Sent) {
                match self { $( Self::$name(flows) => {
                    flows.of_mut(flow, |rule, state| rule.sent(state, sent))
                } )* }
            }

            /// See [`ReactionRule::acknowledged`].
            #[inline]
            pub fn acknowledged(&mut self, flow: FlowRef) -> u32 {
                match self { $( Self::$name(flows) => {
                    flows.of_mut(flow, |rule, state| rule.acknowledged(state))
                } )* }
            }

            /// See [`ReactionRule::answered`].
            pub fn answered(&mut self, flow: FlowRef, answer: &Answer) {
                match self { $( Self::$name(flows) => {
                    flows.of_mut(flow, |rule, state| rule.answered(state, flow.sl, answer))
                } )* }
            }

            /// See [`ReactionRule::granted`].
            pub fn granted(&mut self, flow: FlowRef, grant: &Grant) {
                match self { $( Self::$name(flows) => {
                    flows.of_mut(flow, |rule, state| rule.granted(state, grant))
                } )* }
            }

            /// See [`ReactionRule::lost`].
            pub fn lost(&mut self, flow: FlowRef, lost: &Lost) -> u32 {
                match self { $( Self::$name(flows) => {
                    flows.of_mut(flow, |rule, state| rule.lost(state, lost))
                } )* }
            }

            /// See [`ReactionRule::arrived`].
            pub fn arrived(&mut self, flow: FlowRef, payload: u32) {
                match self { $( Self::$name(flows) => {
                    flows.of_mut(flow, |rule, state| rule.arrived(state, payload))
                } )* }
            }

            /// See [`ReactionRule::missing_grant`].
            pub fn missing_grant(&self, flow: FlowRef) -> u32 {
                match self { $( Self::$name(flows) => {
                    flows.of(flow, |rule, state| rule.missing_grant(state))
                } )* }
            }

            /// See [`ReactionRule::request`].
            #[inline]
            pub fn request(&mut self, flow: FlowRef, queued: &Queued) -> u32 {
                match self { $( Self::$name(flows) => {
                    flows.of_mut(flow, |rule, state| rule.request(state, queued))
                } )* }
            }

            /// See [`ReactionRule::must_ask`].
            pub fn must_ask(&self, flow: FlowRef, next: &Next) -> bool {
                match self { $( Self::$name(flows) => {
                    flows.of(flow, |rule, state| rule.must_ask(state, next))
                } )* }
            }

            /// See [`ReactionRule::target`].
            #[inline]
            pub fn target(&self, flow: FlowRef, next: &Next, sharing: u32) -> Option<u32> {
                match self { $( Self::$name(flows) => {
                    flows.of(flow, |rule, state| rule.target(state, next, sharing))
                } )* }
            }

            /// See [`ReactionRule::restarted`].
            #[inline]
            pub fn restarted(&mut self, flow: FlowRef) {
                match self { $( Self::$name(flows) => {
                    flows.of_mut(flow, |rule, state| rule.restarted(state))
                } )* }
            }

            /// See [`ReactionRule::next_timer`].
            #[inline]
            pub fn next_timer(&self, flow: FlowRef) -> Option<Time> {
                match self { $( Self::$name(flows) => flows.next_timer(flow), )* }
            }

            /// See [`ReactionRule::timer`].
            pub fn timer(&mut self, flow: FlowRef, now: Time) {
                match self { $( Self::$name(flows) => {
                    flows.of_mut(flow, |rule, state| rule.timer(state, now))
                } )* }
            }

            /// See [`ReactionRule::is_fresh`].
            pub fn is_fresh(&self, flow: FlowRef, now: Time) -> bool {
                match self { $( Self::$name(flows) => {
                    flows.of(flow, |rule, state| rule.is_fresh(state, flow.sl, now))
                } )* }
            }

            /// See [`ReactionRule::strength`].
            pub fn strength(&self, flow: FlowRef, now: Time) -> u16 {
                match self { $( Self::$name(flows) => {
                    flows.of(flow, |rule, state| rule.strength(state, flow.sl, now))
                } )* }
            }

            /// See [`ReactionRule::trigger`].
            pub fn trigger(&self, sl: u8) -> u16 {
                match self { $( Self::$name(flows) => flows.rule.trigger(sl), )* }
            }

            /// The [`Self::strength`] of a flow to a host before its first message.
            pub fn initial_strength(&self, sl: u8, destination: u32, now: Time) -> u16 {
                match self { $( Self::$name(flows) => {
                    flows.before_begin(sl, destination, |rule, state| rule.strength(state, sl, now))
                } )* }
            }

            /// Prefetches the state of a flow.
            #[inline]
            pub fn prefetch(&self, flow: u32) {
                match self { $( Self::$name(flows) => flows.prefetch(flow), )* }
            }
        }
    };
}

reactions! {
    /// InfiniBand's congestion control table: an index that grows with marks and shrinks with time selects the delay.
    Cct(Cct) => Cct::rule as CctRule;
    /// A maximum number of unacknowledged packets per flow; marks are ignored.
    StaticWindow(StaticWindow) => StaticWindow::rule as WindowRule;
    /// A marked acknowledgement divides the rate of a flow, and an unmarked one raises it by a step.
    Aimd(RateControl) => RateControl::aimd as RateRule;
    /// Same as `aimd`, but the lower the rate, the larger the steps.
    Fimd(RateControl) => RateControl::fimd as RateRule;
    /// A marked acknowledgement adds a unit of delay between packets, and an unmarked acknowledgement removes a unit.
    Lipd(Lipd) => Lipd::rule as RateRule;
    /// Validated marks shrink a window and then add waiting slots; other marks only shrink the window.
    Mvcm(Mvcm) => Mvcm::rule as MvcmRule;
    /// Rates that the links on a flow's route assign.
    ExplicitRate(ExplicitRate) => ExplicitRate::rule as Announced;
    /// A rate that marks reduce by their severity, and that recovers in cycles of bytes and of time.
    Qcn(Qcn) => Qcn::rule as QcnRule;
    /// DCQCN: a rate that notifications decrease, and that increases again with time.
    Dcqcn(Dcqcn) => Dcqcn::rule as DcqcnRule;
    /// DCTCP: a window that shrinks with the share of packets that are marked.
    Dctcp(Dctcp) => Dctcp::rule as DctcpRule;
    /// TIMELY: a rate that follows the gradient of the round-trip delay.
    Timely(Timely) => Timely::rule as TimelyRule;
    /// Swift: a window controlled by a target round-trip delay.
    Swift(Swift) => Swift::rule as SwiftRule;
    /// HPCC: a rate that follows the utilization of the links, which switches report in telemetry.
    Hpcc(Hpcc) => Hpcc::rule as HpccRule;
    /// A rate controlled by probes of the round-trip time, modeled on adapters with programmable congestion
    /// control.
    PccRtt(PccRtt) => PccRtt::rule as PccRttRule;
    /// A rate controlled by the telemetry of one switch of the route, modeled on adapters with programmable
    /// congestion control.
    PccTelemetry(PccTelemetry) => PccTelemetry::rule as PccTelemetryRule;
    /// Ultra Ethernet's NSCC: a window that marks and the delay of queues control.
    Nscc(Nscc) => Nscc::rule as NsccRule;
    /// Ultra Ethernet's RCCC: a flow sends while it has credit, which the receiver grants at up to its link rate.
    Rccc(Rccc) => Rccc::rule as RcccRule;
}

impl Reaction {
    /// The properties on which the rest of the configuration depends.
    #[must_use]
    pub fn properties(&self) -> Properties {
        self.parameters().map_or(Properties::NONE, ReactionParameters::properties)
    }

    /// Whether the ports of a host share the states of their flows to a destination.
    #[must_use]
    pub fn is_of_destinations(&self) -> bool {
        matches!(self, Self::Nscc(Nscc { level: NsccLevel::Destination, .. }))
    }

    /// How a host grants credit; `None` unless the reaction is `rccc`.
    pub fn pacing(&self, source: &Source) -> Option<Pacing> {
        match self {
            Self::Rccc(rccc) => Some(rccc.pacing(source)),
            _ => None,
        }
    }

    /// See [`ReactionParameters::check`].
    ///
    /// # Errors
    /// Returns the first invalid parameter.
    pub fn check(&self, limits: &Limits) -> Check {
        self.parameters().map_or(Ok(()), |parameters| parameters.check(limits))
    }
}

/// Arguments for tests of reactions.
#[cfg(test)]
mod trial {
    use silvan_engine::Time;

    use crate::facts::{Answer, Mark, Next, Sent, Severity};

    /// A packet of `size` bytes whose tail leaves at `end` (picoseconds).
    pub fn sent(end: u64, size: u32) -> Sent {
        Sent { now: Time::ZERO, end: Time(end), size, payload: size }
    }

    /// A flow whose next packet may start at `now` (picoseconds) at the earliest.
    pub fn next(now: u64) -> Next {
        Next { now: Time(now), size: 2_048, payload: 2_048 }
    }

    /// An answer that arrives at `now`, in picoseconds.
    pub fn answer(mark: Mark, severity: Severity, now: u64) -> Answer<'static> {
        Answer { now: Time(now), sent_at: Time::ZERO, bytes: 0, packets: 1, mark, severity, hops: &[] }
    }
}
