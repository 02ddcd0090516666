//! How messages are cut into packets, and what a packet occupies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Bytes;

/// How messages are cut into packets, and what a packet occupies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Packet {
    /// Largest payload of a packet.
    pub mtu: Bytes,
    /// Header and trailer of every data packet, on top of the payload.
    pub header: Bytes,
    /// Size of a control packet (congestion notification, acknowledgement) on the wire.
    pub control: Bytes,
    /// Buffers and credits are counted in blocks of this size.
    pub credit_block: Bytes,
}

impl Default for Packet {
    fn default() -> Self {
        Self { mtu: Bytes(2048), header: Bytes(0), control: Bytes(64), credit_block: Bytes(64) }
    }
}
