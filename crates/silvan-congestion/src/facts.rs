//! Facts that the components of congestion management receive, and the answers that they return.
//!
//! Components have no access to the simulator. Each call passes the facts that they may use: the time, sizes, the fill
//! of queues, and the contents of a packet. Times are in picoseconds since the start of the run; sizes and fills are
//! in bytes. Sizes of packets include headers unless they are called payload.

use std::cell::RefCell;

use silvan_engine::saved::Saved;
use silvan_engine::{Rate, Time};
use silvan_network::port::{Port, Vl};
use silvan_network::port_set::Ports256;
use smallvec::SmallVec;

/// Severity of congestion from 1 to 63 (IEEE 802.1Qau has six bits); 0 if marks are single bits.
pub type Severity = u8;

/// Data about an output that a switch writes into a departing packet for the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub struct Telemetry {
    /// The time at which the packet started to leave.
    pub time: Time,
    /// Bytes that the output had sent since the start of the run.
    pub sent_bytes: u64,
    /// Bytes in the queues that feed the output's lane.
    pub queue_bytes: u32,
    /// Rate of the output's link.
    pub rate: Rate,
}

/// The telemetry that a packet has collected. Few routes have more than four hops, so lists rarely need heap
/// memory.
pub type Hops = SmallVec<[Telemetry; 4]>;

/// A change in the queues that feed a virtual lane of an output.
#[derive(Debug, Clone, Copy)]
pub struct QueueChange {
    /// The time of the change.
    pub now: Time,
    /// The queue that changed, with its fill. Present if the rule needs single queues
    /// ([`super::marking::MarkingRule::needs_queues`]).
    pub queue: Option<QueueFill>,
    /// Bytes in all queues that feed the lane, after the change.
    pub queue_bytes: u32,
    /// Inputs with packets for the lane, after the change.
    pub inputs: Ports256,
}

/// The fill of the queue of one input for a lane of an output.
#[derive(Debug, Clone, Copy)]
pub struct QueueFill {
    /// The input.
    pub input: Port,
    /// Bytes in the queue.
    pub bytes: u32,
}

/// A packet that arrives at the queues of an output.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// The time at which the packet may be served, which is after the latency of the switch.
    pub now: Time,
    /// Bytes of the packet on the wire.
    pub size: u32,
    /// Whether the packet is a data packet.
    pub is_data: bool,
    /// Bytes in all queues that feed the lane, including this packet.
    pub queue_bytes: u32,
    /// Bytes that the output has sent since the start of the run, on all lanes.
    pub sent_bytes: u64,
    /// Rate of the output's link.
    pub rate: Rate,
}

/// A packet that starts to leave an output.
#[derive(Debug, Clone, Copy)]
pub struct Departure {
    /// The time at which the first bit of the packet is sent.
    pub now: Time,
    /// Bytes of the packet on the wire.
    pub size: u32,
    /// Whether the packet is a data packet.
    pub is_data: bool,
    /// Whether a switch has marked the packet.
    pub is_marked: bool,
    /// Bytes in all queues that feed the lane, excluding this packet.
    pub queue_bytes: u32,
    /// Bytes in use of the lane's share of the output buffer, including this packet; zero in switches without output
    /// buffers.
    pub buffer_bytes: u32,
    /// Bytes that the output has sent since the start of the run, on all lanes, excluding this packet.
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

/// The decision of a marking rule about a packet at an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The packet is not changed.
    Forward,
    /// The packet is marked.
    Mark(Severity),
    /// The packet's validation bit is set: the packet is marked, and leaves through a congested output (MVCM,
    /// 4.1).
    Validate,
    /// If the packet is a data packet, it collects telemetry.
    Stamp(Telemetry),
}

/// An input buffer that a packet has entered, in a switch with buffers at inputs and outputs.
#[derive(Debug, Clone, Copy)]
pub struct InputBuffer {
    /// Bytes in use of the lane's share, including the packet.
    pub used_bytes: u32,
}

/// The decision of a marking rule about a packet that enters an input buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputVerdict {
    /// Nothing is marked.
    Forward,
    /// The packet is marked.
    Mark,
    /// All packets at inputs of the switch that wait for the same outputs as the packets in this buffer are
    /// marked.
    MarkContenders,
}

/// The congestion state of a lane of an output, for measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortState {
    /// Whether the lane is in the congestion state of the rule.
    pub is_congested: bool,
    /// Number of times that the lane became congested.
    pub entered: u32,
}

/// The information in an answer about the route of a packet (MVCM, 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Neither marked nor validated.
    Cold,
    /// The packet is marked but not validated: it waited because of the congestion of other flows.
    Warm,
    /// Validated; or marked, if switches do not validate.
    Hot,
}

#[cfg(test)]
impl Mark {
    /// Converts the letters H and W of tests; all other letters mean cold.
    pub fn of_letter(letter: char) -> Self {
        match letter {
            'H' => Self::Hot,
            'W' => Self::Warm,
            _ => Self::Cold,
        }
    }
}

/// The next packet of a flow that has data to send.
#[derive(Debug, Clone, Copy)]
pub struct Next {
    /// The earliest time at which the packet may be sent.
    pub now: Time,
    /// Bytes of the packet on the wire.
    pub size: u32,
    /// Payload bytes of the packet.
    pub payload: u32,
}

/// A packet that its source has started to send.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// The time at which the transmission started.
    pub now: Time,
    /// The time at which the packet's tail leaves the host.
    pub end: Time,
    /// Bytes of the packet on the wire.
    pub size: u32,
    /// Payload bytes of the packet.
    pub payload: u32,
}

/// An answer that reaches the source of a data packet: a notification or an acknowledgement from the receiver, or a
/// report from a switch.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The time at which the answer arrives.
    pub now: Time,
    /// The time at which the source began to send the data packet.
    pub sent_at: Time,
    /// Payload bytes that the answer acknowledges; zero if it is not an acknowledgement.
    pub bytes: u32,
    /// Number of packets that contain these bytes.
    pub packets: u32,
    /// The state of the packet's route, as the answer reports it.
    pub mark: Mark,
    /// Severity of the congestion; 0 if marks are single bits.
    pub severity: Severity,
    /// Telemetry that the data packet collected, in the order of its hops; empty unless switches stamp packets.
    pub hops: &'a [Telemetry],
}

/// A packet that its source considers lost because of a negative acknowledgement or a timeout.
#[derive(Debug, Clone, Copy)]
pub struct Lost {
    /// The time at which the source detects the loss.
    pub now: Time,
    /// The time at which the source began to send the packet.
    pub sent_at: Time,
    /// Whether an answer to the packet reports the loss, so that the time since `sent_at` is a round trip.
    pub is_answer: bool,
    /// Payload bytes that were lost.
    pub payload: u32,
    /// Whether the bytes were lost at the output to the receiver, where only flows to that receiver compete.
    pub at_last_hop: bool,
}

/// A message that a source adds to a flow.
#[derive(Debug, Clone, Copy)]
pub struct Queued {
    /// The time at which the message is added.
    pub now: Time,
    /// Payload bytes of the message.
    pub bytes: u64,
}

/// A grant from the receiver that reaches the source of a flow.
#[derive(Debug, Clone, Copy)]
pub struct Grant {
    /// The time at which the grant arrives.
    pub now: Time,
    /// The granted amount. The components define its unit, such as quanta of 256 bytes for `rccc`.
    pub bytes: u32,
}

/// A flow that a host receives, with the data needed to answer its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub struct Sender {
    /// The sending host.
    pub host: u32,
    /// Index of the flow's source at the sending host.
    pub source: u16,
    /// Number of the connection of this source. A source with flows for single messages has one connection
    /// per message.
    pub connection: u32,
    /// Class of traffic, for the meters.
    pub class: u16,
    /// Service level of the received packet.
    pub sl: u8,
    /// Virtual lane of the received packet.
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
pub struct Received<'a> {
    /// The time at which the packet's tail arrives.
    pub now: Time,
    /// The flow of the packet.
    pub from: Sender,
    /// Bytes of the packet on the wire.
    pub size: u32,
    /// Payload bytes of the packet.
    pub payload: u32,
    /// The time at which the source began to send the packet.
    pub sent_at: Time,
    /// Whether a switch has marked the packet.
    pub is_marked: bool,
    /// Severity of the congestion; 0 if marks are single bits.
    pub severity: Severity,
    /// Whether a switch has validated the mark.
    pub is_validated: bool,
    /// Whether the packet is the last one of its message.
    pub is_last: bool,
    /// Telemetry that the packet has collected, which the answer to the packet takes; `None` if packets carry none.
    pub hops: Option<&'a RefCell<Vec<Telemetry>>>,
    /// The target of the flow that the packet carries; 0 if packets carry no targets.
    pub target: u32,
    /// Entropy value of the packet; 0 if packets have none.
    pub entropy: u16,
    /// Number of the packet within the flow, if packets can overtake each other.
    pub number: Option<u64>,
    /// Whether the source of the packet requests an acknowledgement, if acknowledgements cover several packets.
    pub asks: bool,
    /// Whether the packet has arrived before, with loss recovery.
    pub is_repeated: bool,
}

/// A request from a source that has reached the receiver of the flow.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// The time at which the request arrives.
    pub now: Time,
    /// The flow.
    pub from: Sender,
    /// The requested amount, in the unit of grants.
    pub bytes: u32,
    /// Whether the source repeats the request because it has waited for a grant, which may have been lost.
    pub is_repeated: bool,
}
