//! What sources do about returned marks: one file per reaction.

mod cct;

pub use cct::{Cct, CctTable, ControlLevel, PerSl};
pub(crate) use cct::{CctRule, CctState};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A reaction with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Reaction {
    /// Marks are ignored.
    None,
    /// InfiniBand's congestion control table.
    Cct(Cct),
}
