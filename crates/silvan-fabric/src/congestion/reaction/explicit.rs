//! Explicit rates: the share that a flow has of its busiest link, computed by the links (SAA: Zdornov and Birk,
//! sections 5 and 6).
//!
//! A flow that needs the time w_f at the full rate of a link sends at r = w_f / W_f of that rate, where W_f is the
//! largest sum of such times over the links of its route. A packet announces w_f before the flow starts and returns
//! W_f; probes read it again while the flow lasts; a last packet removes w_f from the links.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Time;

use super::{ReactionParameters, ReactionRule, Source};
use crate::congestion::unfit::{Check, Limits, ensure_time};
use crate::facts::Next;

/// Parameters of explicit rates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExplicitRate {
    /// How a host spaces the packets of its flows.
    pub injection: Injection,
    /// Time from the start of a flow to its first probe; each further probe follows after twice the time.
    pub probe: Time,
}

impl Default for ExplicitRate {
    fn default() -> Self {
        Self { injection: Injection::PeriodicSelection, probe: Time::from_us(10) }
    }
}

impl ReactionParameters for ExplicitRate {
    fn needs_acknowledgements(&self) -> bool {
        false
    }

    fn acts_without_marks(&self) -> bool {
        true
    }

    fn reads_marks(&self) -> bool {
        false
    }

    fn check(&self, _limits: &Limits) -> Check {
        ensure_time("probe", Some(self.probe))
    }
}

impl ExplicitRate {
    /// No rule: hosts announce their flows to the links, which assign the rates.
    pub(super) fn rule(&self, _source: &Source) -> Option<Announced> {
        None
    }
}

/// A rule that no host has.
#[derive(Debug)]
pub(crate) enum Announced {}

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
    /// A packet every d_p / R, where R is the rate of all flows together, of the flow that has sent least relative to
    /// its rate (PS). A packet that was delayed delays all later ones.
    PeriodicSelection,
    /// A packet as soon as some flow has sent none for d_p / r, with its own r; among several, of the flow that has
    /// sent least relative to its rate (SVC).
    ShapedVirtualClock,
}
