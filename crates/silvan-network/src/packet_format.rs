//! How messages are divided into packets, and the size of packets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Bytes;

/// How messages are divided into packets, and the size of packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Packet {
    /// Maximum payload of a packet.
    pub mtu: Bytes,
    /// Size of header and trailer of every data packet, in addition to the payload. Default: 64 B with the
    /// mechanisms of RDMA over converged Ethernet and of Ultra Ethernet, otherwise 0 B.
    pub header: Bytes,
    /// Size of a control packet (congestion notification, acknowledgement) on the wire.
    pub control: Bytes,
    /// Unit in which buffer space and credits are counted.
    pub credit_block: Bytes,
}

impl Default for Packet {
    fn default() -> Self {
        Self { mtu: Bytes(2048), header: Bytes(0), control: Bytes(64), credit_block: Bytes(64) }
    }
}
