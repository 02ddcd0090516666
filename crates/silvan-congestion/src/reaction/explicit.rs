//! Explicit rates: the links compute each flow's share of its busiest link (SAA: Zdornov and Birk, sections 5 and 6).
//!
//! A flow that needs the time w_f at the full rate of a link sends at r = w_f / W_f of that rate, where W_f is the
//! largest sum of such times over the links of its route. Before the flow starts, a packet announces w_f and returns
//! W_f. While the flow lasts, probes or its data packets read W_f again. A final packet removes w_f from the links,
//! unless the flow is retained for the next phase of an application.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Time;

use super::{Properties, ReactionParameters, ReactionRule, Source};
use crate::facts::Next;
use crate::unfit::{Check, Limits, ensure_time};

/// Parameters of explicit rates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExplicitRate {
    /// How a host spaces the packets of its flows.
    pub injection: Injection,
    /// How a running flow reads the weights of its links.
    pub probing: Probing,
    /// Time from the start of a flow to its first probe packet. The time to each further probe is twice the previous
    /// one. Not used if data packets carry the weights.
    pub probe: Time,
    /// Whether links keep the weight of a flow after its end. The next message between the same hosts then starts
    /// immediately with the retained rate, as in an application whose communication phases repeat. If its size differs,
    /// the flow is removed and announced again.
    pub retain: bool,
}

impl Default for ExplicitRate {
    fn default() -> Self {
        Self {
            injection: Injection::PeriodicSelection,
            probing: Probing::Packets,
            probe: Time::from_us(10),
            retain: false,
        }
    }
}

impl ReactionParameters for ExplicitRate {
    fn properties(&self) -> Properties {
        Properties {
            acts_without_marks: true,
            reads_marks: false,
            concerns_all_hosts: true,
            ..Properties::NOTIFIED
        }
    }

    fn check(&self, _limits: &Limits) -> Check {
        ensure_time("probe", Some(self.probe))
    }
}

impl ExplicitRate {
    /// Returns no rule: hosts announce their flows to the links, which assign the rates.
    pub(super) fn rule(&self, _source: &Source) -> Option<Announced> {
        None
    }
}

/// A type without values, because no host has this rule.
#[derive(Debug)]
pub enum Announced {}

impl ReactionRule for Announced {
    type State = ();

    fn counts_answers(&self) -> bool {
        match *self {}
    }

    fn fresh(&self, _sl: u8) {
        match *self {}
    }

    fn may_send_at(&self, _state: &(), _sl: u8, _next: &Next) -> Option<Time> {
        match *self {}
    }

    fn is_fresh(&self, _state: &(), _sl: u8, _now: Time) -> bool {
        match *self {}
    }
}

/// How a host spaces the packets of its flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Injection {
    /// PS: every d_p / R, where d_p is the time of a packet at the full rate and R is the sum of the rates of
    /// all flows, sends a packet of the flow that has sent least relative to its rate. A delayed packet
    /// delays all later ones.
    PeriodicSelection,
    /// SVC: sends a packet as soon as some flow with rate r has sent none for d_p / r. Of several such flows, selects
    /// the one that has sent least relative to its rate.
    ShapedVirtualClock,
}

/// How a running flow reads the weights of its links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Probing {
    /// The source sends probe packets, which the destination returns.
    Packets,
    /// Each data packet carries the W_f that its source last received, and collects the current W_f. The
    /// destination returns the current W_f only if the two differ (Zdornov and Birk, section 5.2).
    Piggyback,
}
