//! Facts that the components of congestion management receive, and what they answer.
//!
//! A component never reads the simulator. Each call gives it the facts that it may use: the time, sizes, the
//! fill of queues, what a packet brought along. Times are in picoseconds since the start of the run, sizes and
//! fills in bytes. Sizes of packets include headers unless the field says payload.
#![allow(dead_code, reason = "an interface: a fact need not have a reader among the present components")]

use silvan_engine::{Rate, Time};

pub(crate) use crate::packet::Telemetry;
use crate::port::{Port, Vl};
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

/// What an answer says about the way of a packet (MVCM, 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Neither marked nor validated.
    Cold,
    /// Marked, not validated: it waited behind other flows' congestion.
    Warm,
    /// Validated; or marked, where switches do not validate.
    Hot,
}

#[cfg(test)]
impl Mark {
    /// H, W or C, as tests write a series of answers.
    pub fn of_letter(letter: char) -> Self {
        match letter {
            'H' => Self::Hot,
            'W' => Self::Warm,
            _ => Self::Cold,
        }
    }
}

/// The next packet of a flow that has something to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Next {
    /// The earliest time in question.
    pub now: Time,
    /// Bytes of the packet on the wire.
    pub size: u32,
    /// Bytes of its payload.
    pub payload: u32,
}

/// A packet that its source has started to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    /// When it started.
    pub now: Time,
    /// When its tail leaves the host.
    pub end: Time,
    /// Bytes of the packet on the wire.
    pub size: u32,
    /// Bytes of its payload.
    pub payload: u32,
}

/// An answer to a data packet that reaches the source of the packet: a notification or an acknowledgement of
/// the receiver, or a report of a switch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer<'a> {
    /// When the answer arrives.
    pub now: Time,
    /// When the source began to send the data packet that is answered.
    pub sent_at: Time,
    /// Payload bytes that the answer acknowledges; zero if it is not an acknowledgement.
    pub bytes: u32,
    pub mark: Mark,
    pub severity: Severity,
    /// Telemetry that the data packet collected, in the order of its hops; empty unless switches stamp packets.
    pub hops: &'a [Telemetry],
}

/// A message that a source adds to a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queued {
    pub now: Time,
    /// Payload bytes of the message.
    pub bytes: u64,
}

/// A grant of the receiver that reaches the source of a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant {
    /// When the grant arrives.
    pub now: Time,
    /// What is granted: its meaning belongs to the components, as a rule payload bytes.
    pub bytes: u32,
}

/// A flow that a host receives, and how answers to its source travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sender {
    /// The host that sends.
    pub host: u32,
    /// Which of the host's sources the flow belongs to.
    pub source: u16,
    /// Class of traffic, for the meters.
    pub class: u16,
    /// Service level and virtual lane of the packet that showed the flow.
    pub sl: u8,
    pub vl: Vl,
}

impl Sender {
    /// Identifies a flow of a receiving host: the sending host and its source.
    pub fn key(&self) -> (u32, u16) {
        (self.host, self.source)
    }
}

/// A data packet whose tail has reached its host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Received<'a> {
    /// When its tail arrives.
    pub now: Time,
    pub from: Sender,
    /// Bytes of the packet on the wire.
    pub size: u32,
    /// Bytes of its payload.
    pub payload: u32,
    /// When its source began to send it.
    pub sent_at: Time,
    /// Whether a switch has marked it.
    pub is_marked: bool,
    pub severity: Severity,
    /// Whether a switch has validated the mark.
    pub is_validated: bool,
    /// Whether it is the last packet of its message.
    pub is_last: bool,
    /// Telemetry that it has collected.
    pub hops: &'a [Telemetry],
}

/// A request of a source that has reached the receiver of the flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    /// When it arrives.
    pub now: Time,
    pub from: Sender,
    /// What is requested: its meaning belongs to the components, as a rule payload bytes.
    pub bytes: u32,
}
