//! How switches mark packets: one file per rule.

mod fecn;

pub use fecn::{Fecn, FillMapping, MarkingPattern, VictimMask};

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
