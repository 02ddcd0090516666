//! Facts that the components of congestion management receive, and what they answer.
//!
//! A component never reads the simulator. Each call gives it the facts that it may use: the time, sizes, the
//! fill of queues, what a packet brought along. Times are in picoseconds since the start of the run, sizes and
//! fills in bytes. Sizes of packets include headers unless the field says payload.
#![allow(dead_code, reason = "an interface: a fact need not have a reader among the present components")]

use silvan_engine::{Rate, Time};

use crate::port::Port;
use crate::port_set::Ports256;

/// How severe congestion is: 1 to 63 (IEEE 802.1Qau has six bits); 0 where a mark is one bit.
pub(crate) type Severity = u8;

/// A change in the queues that feed a virtual lane of an output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueChange {
    /// When the change happens.
    pub now: Time,
    /// The queue that changed and its fill, if the rule needs single queues
    /// ([`super::marking::MarkingRule::needs_queues`]).
    pub queue: Option<QueueFill>,
    /// Bytes in all queues that feed the lane, after the change.
    pub queue_bytes: u32,
    /// Inputs with packets for the lane, after the change.
    pub inputs: Ports256,
}

/// The fill of the queue of one input for a lane of an output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueFill {
    pub input: Port,
    pub bytes: u32,
}

/// A packet that arrives at the queues of an output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    /// When the packet may be served: after the latency of the switch.
    pub now: Time,
    /// Bytes of the packet on the wire.
    pub size: u32,
    /// Whether it is a data packet.
    pub is_data: bool,
    /// Bytes in all queues that feed the lane, with this packet.
    pub queue_bytes: u32,
    /// Bytes that the output has sent since the start of the run, on all lanes.
    pub sent_bytes: u64,
    /// Rate of the output's link.
    pub rate: Rate,
}

/// A packet that starts to leave an output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Departure {
    /// When its first bit is sent.
    pub now: Time,
    /// Bytes of the packet on the wire.
    pub size: u32,
    /// Whether it is a data packet.
    pub is_data: bool,
    /// Whether a switch has marked it.
    pub is_marked: bool,
    /// Bytes in all queues that feed the lane, without this packet.
    pub queue_bytes: u32,
    /// Bytes in use of the lane's share of the output buffer, with this packet; zero in switches that have no
    /// output buffers.
    pub buffer_bytes: u32,
    /// Bytes that the output has sent since the start of the run, on all lanes, without this packet.
    pub sent_bytes: u64,
    /// Rate of the output's link.
    pub rate: Rate,
}

/// What a switch writes into a packet about the output it leaves through, for the source to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Telemetry {
    /// When the packet started to leave.
    pub time: Time,
    /// Bytes that the output had sent by then since the start of the run.
    pub sent_bytes: u64,
    /// Bytes in the queues that feed the output's lane.
    pub queue_bytes: u32,
    /// Rate of the output's link.
    pub rate: Rate,
}

impl Departure {
    /// The telemetry of the output at this departure.
    pub fn telemetry(&self) -> Telemetry {
        let Self { now: time, sent_bytes, queue_bytes, rate, .. } = *self;
        Telemetry { time, sent_bytes, queue_bytes, rate }
    }
}

/// What a marking rule decides about a packet at an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The packet stays as it is.
    Forward,
    /// The packet is marked.
    Mark(Severity),
    /// The packet gets the validation bit: it is marked and leaves through a congested output (MVCM, 4.1).
    Validate,
    /// The packet collects telemetry, if it is a data packet.
    Stamp(Telemetry),
}

/// A packet has come into an input buffer of a switch that has buffers at inputs and outputs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InputBuffer {
    /// Bytes in use of the lane's share, with the packet.
    pub used_bytes: u32,
}

/// What a marking rule decides about a packet that comes into an input buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputVerdict {
    /// Nothing is marked.
    Forward,
    /// The packet is marked.
    Mark,
    /// All packets of the switch are marked that wait at inputs for an output that a packet in this buffer
    /// waits for.
    MarkContenders,
}

/// The congestion state of a lane of an output, for measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PortState {
    /// Whether the rule considers the lane congested.
    pub is_congested: bool,
    /// How often it became so.
    pub entered: u32,
}
