//! InfiniBand's reaction: the congestion control table and the index into it (IBA 1.2.1 annex
//! A10; Paper I, 2.2; Paper III, VII.B).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of a channel adapter, the same for all service levels unless `per_sl` says else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Cct {
    /// Added to a flow's index for each BECN.
    pub ccti_increase: u16,
    /// Upper bound of the index.
    pub ccti_limit: u16,
    /// Lower bound of the index.
    pub ccti_min: u16,
    /// Period after which every index is decremented by one, in units of 1.024 us.
    pub ccti_timer: u32,
    /// Whether an index belongs to a queue pair (flow) or to a service level.
    pub level: ControlLevel,
    /// The congestion control table: injection rate delays.
    pub table: CctTable,
    /// Parameters of single service levels, in place of the above.
    pub per_sl: Vec<PerSl>,
}

/// Whether an index belongs to a queue pair (flow) or to a service level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ControlLevel {
    /// Per flow.
    Qp,
    /// Per service level of the port.
    Sl,
}

/// Parameters of one service level; what is not given is as for all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PerSl {
    /// The service level, 0 to 15.
    pub sl: u8,
    /// See [`Cct::ccti_increase`].
    pub ccti_increase: Option<u16>,
    /// See [`Cct::ccti_limit`].
    pub ccti_limit: Option<u16>,
    /// See [`Cct::ccti_min`].
    pub ccti_min: Option<u16>,
    /// See [`Cct::ccti_timer`].
    pub ccti_timer: Option<u32>,
}

/// How the table is given. Delays are those of a full packet (MTU); those of shorter packets
/// are shorter in proportion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum CctTable {
    /// CCT[i] = scale * i^2 * 7 / divisor^2 microseconds: the switch vendor's rule with divisor
    /// 95, Paper III's with 106.
    Quadratic {
        /// See the formula.
        divisor: u32,
        /// See the formula; Paper IV's larger networks need more than 1.
        scale: u32,
        /// Number of entries, 128 or more.
        entries: u16,
    },
    /// The delays one by one, in nanoseconds for a full packet.
    List {
        /// 128 or more delays.
        delays_ns: Vec<u64>,
    },
    /// As IBA encodes them: bits 15..14 shift, bits 13..0 multiplier; the delay is the packet's
    /// transmission time times multiplier / 2^shift.
    Iba {
        /// 128 or more entries.
        entries: Vec<u16>,
    },
}

impl Default for Cct {
    fn default() -> Self {
        Self {
            ccti_increase: 1,
            ccti_limit: 127,
            ccti_min: 0,
            ccti_timer: 150,
            level: ControlLevel::Qp,
            table: CctTable::Quadratic { divisor: 106, scale: 1, entries: 128 },
            per_sl: Vec::new(),
        }
    }
}
