//! What a run needs to know besides topology and tables. Every struct here is also a table of
//! the scenario file, so each field's documentation is what a user reads in its JSON Schema.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Bytes, Rate, Time};

use crate::congestion::Congestion;
use crate::traffic::{Flow, Traffic};

/// Everything but topology and tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// All randomness derives from it.
    pub seed: u64,
    /// Simulated time at which the run ends.
    pub duration: Time,
    /// The summary's averages start here.
    pub warmup: Time,
    /// See [`Packet`].
    pub packet: Packet,
    /// See [`Lanes`].
    pub lanes: Lanes,
    /// See [`SwitchConfig`].
    pub switch: SwitchConfig,
    /// See [`HostConfig`].
    pub host: HostConfig,
    /// See [`Congestion`].
    pub congestion: Congestion,
    /// Explicit flows.
    pub flows: Vec<Flow>,
    /// Traffic patterns.
    pub traffic: Vec<Traffic>,
    /// See [`Measure`].
    pub measure: Measure,
}

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

/// Virtual lanes and the mapping of service levels to them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Lanes {
    /// Number of data virtual lanes on every link, 1 to 15.
    pub count: u8,
    /// Virtual lane of each service level; by default the service level modulo `count`.
    pub sl_to_vl: Option<Vec<u8>>,
    /// Virtual lane of control packets (notifications, acknowledgements); by default that of the
    /// packet they answer, whose congestion then holds them back too.
    pub control: Option<u8>,
}

impl Default for Lanes {
    fn default() -> Self {
        Self { count: 1, sl_to_vl: None, control: None }
    }
}

/// How switches are built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SwitchConfig {
    /// Input organisation and crossbar.
    pub architecture: Architecture,
    /// How an input buffer is divided into queues (the `voq` architecture always has one queue
    /// per output).
    pub queues: Queues,
    /// Memory of an input port, all virtual lanes together.
    pub buffer: Bytes,
    /// From the arrival of a packet's head to its earliest departure.
    pub latency: Time,
    /// Iterations of iSLIP per matching (`iq` architecture).
    pub islip_iterations: u8,
}

impl Default for SwitchConfig {
    fn default() -> Self {
        Self {
            architecture: Architecture::Voq,
            queues: Queues::PerOutput,
            buffer: Bytes(131_072),
            latency: Time::from_ns(100),
            islip_iterations: 1,
        }
    }
}

/// Input organisation and crossbar of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Architecture {
    /// InfiniBand VOQ switch: a queue per output with a read port each, so one input may feed
    /// several outputs at once; each output serves its inputs round robin.
    Voq,
    /// Input-queued switch: one read port per input, matched to outputs by iSLIP.
    Iq,
}

/// How an input buffer is divided into queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Queues {
    /// One queue per output of the switch (VOQsw).
    PerOutput,
    /// One first-in first-out queue per input port (1Q).
    Single,
}

/// How hosts send and receive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostConfig {
    /// The most a host injects; by default its link's rate.
    pub injection_rate: Option<Rate>,
    /// The most a host takes out of its input buffer; by default its link's rate.
    pub drain_rate: Option<Rate>,
    /// Memory of the input port, all virtual lanes together.
    pub buffer: Bytes,
    /// Time a host needs per message besides sending its packets (the inverse of its largest
    /// message rate).
    pub message_overhead: Time,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self { injection_rate: None, drain_rate: None, buffer: Bytes(65_536), message_overhead: Time::ZERO }
    }
}

/// What is recorded over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Measure {
    /// Length of a sampling interval of all time series.
    pub interval: Time,
    /// Record utilisation, buffer fill and marks of every switch output over time.
    pub links: bool,
    /// Record throughput of every host over time.
    pub hosts: bool,
}

impl Default for Measure {
    fn default() -> Self {
        Self { interval: Time::from_us(1000), links: true, hosts: true }
    }
}
