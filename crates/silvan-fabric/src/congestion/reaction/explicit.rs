//! Explicit rates: a flow's share of its busiest link, as the links themselves add it up (SAA:
//! Zdornov and Birk, sections 5 and 6).
//!
//! A flow that takes w_f on a link's full rate goes at r = w_f / W_f of it, where W_f is the largest sum
//! of such times over the links of its route. A packet announces w_f before the flow starts and brings
//! W_f back, others probe for it again while the flow lasts, a last one takes w_f off the links.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Time;

/// Parameters of explicit rates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExplicitRate {
    /// How a host spaces the packets of its flows.
    pub injection: Injection,
    /// From the start of a flow to its first probe; each further one comes after twice the time.
    pub probe: Time,
}

impl Default for ExplicitRate {
    fn default() -> Self {
        Self { injection: Injection::PeriodicSelection, probe: Time::from_us(10) }
    }
}

/// How a host spaces the packets of its flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Injection {
    /// A packet every d_p / R, R being the rate of all flows together, of the flow that has sent least
    /// for its rate (PS). A packet that was held up moves all later ones.
    PeriodicSelection,
    /// A packet as soon as some flow has sent none for d_p / r of its own, of that which has sent least
    /// for its rate (SVC).
    ShapedVirtualClock,
}
