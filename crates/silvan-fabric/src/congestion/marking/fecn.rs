//! InfiniBand's marking: forward explicit congestion notification (IBA 1.2.1 annex A10; Paper I,
//! 2.1; Paper II, II and IV).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Bytes;

/// Parameters of a switch's congestion manager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Fecn {
    /// 0: never mark; 1 to 15: a uniformly decreasing fill at which marking starts, that is
    /// (16 - threshold) / 16 of the input buffer's share of a virtual lane.
    pub threshold: u8,
    /// The fill above which a port enters the congestion state, in place of `threshold`.
    pub upper: Option<Bytes>,
    /// The fill at or below which it leaves the state; by default `hysteresis` below the upper.
    pub lower: Option<Bytes>,
    /// Distance between upper and lower threshold where `lower` is not given; zero gives the
    /// single threshold of Paper II's unfair case.
    pub hysteresis: Bytes,
    /// Which fill is held against the threshold.
    pub fill: FillMapping,
    /// Mean number of eligible packets sent between two marked ones.
    pub marking_rate: u16,
    /// Whether marks fall at random or every so many packets.
    pub pattern: MarkingPattern,
    /// Packets smaller than this are not marked, in credits of 64 bytes (as in OpenSM and IBA).
    pub packet_size: u8,
    /// Ports that enter the congestion state even without credits.
    pub victim_mask: VictimMask,
}

/// Which fill of the queues that feed an output is held against the threshold (Paper I, 3.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FillMapping {
    /// Each virtual output queue alone.
    Each,
    /// The sum over the input ports.
    Sum,
    /// The sum, against the threshold divided by the number of contributing input ports.
    SumPerInput,
}

/// Whether marks fall at random or regularly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MarkingPattern {
    /// Each eligible packet with probability 1 / (Marking_Rate + 1) (Paper II).
    Random,
    /// Every (Marking_Rate + 1)-th eligible packet.
    Regular,
}

/// Which switch ports have the Victim_Mask set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VictimMask {
    /// Ports that face hosts, as a host never considers itself congested (the usual setting).
    Hosts,
    /// No port.
    None,
    /// All ports.
    All,
}

impl Default for Fecn {
    fn default() -> Self {
        Self {
            threshold: 15,
            upper: None,
            lower: None,
            hysteresis: Bytes(2112),
            fill: FillMapping::Sum,
            marking_rate: 1,
            pattern: MarkingPattern::Random,
            packet_size: 8,
            victim_mask: VictimMask::Hosts,
        }
    }
}
