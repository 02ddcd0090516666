//! Errors. They state why a configuration cannot be set up and which key of the scenario causes this, or why
//! a run cannot continue.

use std::fmt;

use silvan_engine::{Bytes, Rate, Time};

use crate::link::{MAX_NODES, MAX_PORTS};
use crate::not_binned::NotBinned;

/// A configuration that cannot be set up on its network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SetupError {
    /// Dotted path of the scenario's key, for example `switch.queue_buffer` or `traffic.0.message`.
    pub key: String,
    /// The rejected value, if the scenario gives one.
    pub value: Option<String>,
    /// The reason, and how to correct it.
    pub reason: Reason,
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.key)?;
        if let Some(value) = &self.value {
            write!(f, " = {value}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// The reason for which a key is invalid, as the rest of a sentence that starts with "key = value: ".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// More nodes than event keys can identify.
    #[error("a network may have up to {MAX_NODES} hosts and as many switches")]
    TooManyNodes,
    /// Fewer entropy values than source routes.
    #[error(
        "must be at least {0}, the number of source routes from a switch of hosts, or no packet would take some of them"
    )]
    FewerValuesThanRoutes(u64),
    /// A switch with more ports than its queues or event keys can identify.
    #[error(
        "switch {switch} has {ports} ports; a switch may have up to 256, or up to {MAX_PORTS} with switch.arbitration = \
         \"fcfs\""
    )]
    TooManyPorts {
        /// Name of the switch.
        switch: String,
        /// Number of ports of the switch.
        ports: u16,
    },
    /// The links have too many different combinations of parameters.
    #[error("{0}")]
    TooManyKindsOfLinks(String),
    /// A network that the binned scheduler does not support.
    #[error("does not support this network, because {0}; use \"auto\" or \"event-ordered\"")]
    NotBinned(NotBinned),
    /// A host that is not wired.
    #[error("host {0} has no link")]
    NoLink(String),
    /// More transfers than a run supports.
    #[error("gives more than {most} transfers; use a longer period, a lower load, or a shorter run")]
    TooManyTransfers {
        /// The maximum number.
        most: usize,
    },
    /// A host with more sources than the source number of a packet can represent.
    #[error(
        "host {0} has too much traffic with a flow for each message; at most 60 patterns of this kind per host"
    )]
    TooManyFlows(String),
    /// A name that does not belong to any host.
    #[error("there is no host named `{0}`")]
    NoSuchHost(String),
    /// A name that does not belong to any switch or port of a switch.
    #[error("there is no switch or port of a switch named `{0}`; ports have names such as \"S1:3\"")]
    NoSuchPort(String),
    /// A name that does not belong to any link.
    #[error(
        "there is no link at `{0}`; name a port of a switch that has a link, such as \"S1:3\", or a host"
    )]
    NoSuchLink(String),
    /// A link that an event names twice.
    #[error("the link at `{0}` is in the list twice; each link has two ends, and one of them is enough")]
    LinkTwice(String),
    /// A host that an event names twice.
    #[error("is in the list twice")]
    HostTwice,
    /// More different forwarding tables than a run supports.
    #[error(
        "needs more than {most} different sets of tables; let links go down less often, or use a shorter run"
    )]
    TooManyTables {
        /// The maximum number.
        most: usize,
    },
    /// A name that does not belong to any switch.
    #[error("there is no switch named `{0}`")]
    NoSuchSwitch(String),
    /// A rate above the usual one of a link.
    #[error("must be at most the rate of the slowest of these links, {slowest}")]
    FasterThanLink {
        /// The rate of the slowest link.
        slowest: Rate,
    },
    /// More changes of links and hosts than a run supports.
    #[error(
        "gives more than {most} changes of links or hosts; let them occur less often, or use a shorter run"
    )]
    TooManyChanges {
        /// The maximum number.
        most: usize,
    },
    /// An output whose rate has no entry in the thresholds of the marking rule.
    #[error("has no entry for {rate}, at which {from} sends; each rate of the network needs one")]
    NoThresholds {
        /// The rate of the link.
        rate: Rate,
        /// The sending port.
        from: String,
    },
    /// A queue for packet trimming without room for a packet.
    #[error("must be {needed} B (a full packet) to 1 GiB")]
    ShortQueue {
        /// Bytes of a full packet.
        needed: u32,
    },
    /// A rate for which a queue is set, but at which no switch sends.
    #[error("no switch sends at this rate; the rates are {rates}")]
    UnusedRate {
        /// The rates at which switches send, in words.
        rates: String,
    },
    /// A rate that is given twice.
    #[error("is already given by {first}")]
    RepeatedRate {
        /// The key of the first one.
        first: String,
    },
    /// An invalid size of the header of a trimmed packet.
    #[error("must be 1 B to {most} B, the size of a full packet")]
    HeaderSize {
        /// Bytes of a full packet.
        most: u32,
    },
    /// Packet trimming without a lane for headers.
    #[error(
        "needs a lane that precedes data for headers and other control packets; set lanes.control and \
         lanes.control_priority = true"
    )]
    NoHeaderLane,
    /// Packet trimming with a reaction that does not handle lost packets.
    #[error(
        "does not send packets again that switches have trimmed; use \"nscc\" or \"rccc\" for all hosts, or leave out \
         switch.trimming"
    )]
    NoRetransmission,
    /// A pair of hosts without a route; the text names both.
    #[error("{0}")]
    NoRoute(String),
    /// Pairs of hosts without a route.
    #[error("leaves {pairs} pairs of hosts without a route; the first is {first}")]
    Unroutable {
        /// Number of pairs.
        pairs: u64,
        /// A text that names one of the pairs without a route.
        first: String,
    },
    /// A switch has no route to a host that it may have to notify.
    #[error(
        "switch {switch} may have to notify host {host}, but has no route to it: \
             congestion.notification cannot be \"backward\" here"
    )]
    NoWayBack {
        /// Name of the switch.
        switch: String,
        /// Name of the host.
        host: String,
    },
    /// Adaptive routing per flow on an unsuitable network; the text states the reason.
    #[error("{0}")]
    NotAdaptive(String),
    /// A size above the supported range.
    #[error("must be at most 1 GiB")]
    TooLarge,
    /// A buffer that is too small for a packet.
    #[error("leaves {share} B for {}, less than one packet of {needed} B (packet.mtu + packet.header, in blocks of \
             packet.credit_block); must be at least {}", parts_named(*lanes, *queues),
             Bytes(u64::from(*needed) * u64::from(*lanes) * u64::from(*queues)))]
    TooSmall {
        /// Bytes per lane and queue.
        share: u64,
        /// Number of virtual lanes that share the buffer.
        lanes: u32,
        /// Number of queues of each lane that share the buffer.
        queues: u32,
        /// Bytes that a packet needs, in whole credit blocks.
        needed: u32,
    },
    /// An invalid size of the memory of a queue: too small for a packet, or too large.
    #[error(
        "must hold a packet of {needed} B (packet.mtu + packet.header, in blocks of packet.credit_block), and be \
             at most 1 GiB"
    )]
    QueueBuffer {
        /// Bytes that a packet needs, in whole credit blocks.
        needed: u32,
    },
    /// Queues of divided memory are too small for a packet.
    #[error(
        "each of {queues} queues per input has {size}, less than a packet's {needed} bytes; set \
             switch.queue_buffer, or a larger switch.buffer"
    )]
    QueueTooSmall {
        /// Queues per input and virtual lane.
        queues: u32,
        /// Memory of each queue.
        size: Bytes,
        /// Bytes that a packet needs, in whole credit blocks.
        needed: u32,
    },
    /// A crossbar that is slower than a link.
    #[error("must be at least the rate of the fastest link, {fastest}")]
    SlowCrossbar {
        /// The rate of the fastest link.
        fastest: Rate,
    },
    /// Special queues on one-way links.
    #[error(
        "special queues send notifications back over the link on which a packet arrived, but {topology} has one-way links; \
             use bidirectional links, or set congestion.isolation.kind = \"none\""
    )]
    OneWayLinks {
        /// Name of the topology.
        topology: String,
    },
    /// Flow control that pauses virtual lanes, with divided memory.
    #[error(
        "stops whole virtual lanes, so the queues of an input must share its memory; set switch.memory = \
             \"shared\", or use credits"
    )]
    DividedMemory,
    /// Pause frames on one-way links.
    #[error(
        "pause frames return over the link on which packets arrive, but {topology} has one-way links; use bidirectional \
             links, or flow_control.kind = \"on-off\""
    )]
    OneWayPauses {
        /// Name of the topology.
        topology: String,
    },
    /// The shared memory of a switch is too small.
    #[error(
        "switch {switch} needs at least {needed} B: {headroom} B of headroom, {reserve} B of reserves, and a packet; use \
             more memory, or less of these"
    )]
    NoSharedMemory {
        /// Name of the switch.
        switch: String,
        /// Bytes of headroom.
        headroom: u64,
        /// Bytes of reserves.
        reserve: u64,
        /// Bytes that are needed.
        needed: u64,
    },
    /// With on/off flow control or pause frames, a buffer is too small for the packets on their way.
    #[error("the receiver of a link of {rate} with a delay of {delay} has {capacity} bytes for a virtual lane, \
             but needs {room} above the threshold for the packets on their way when it stops its sender; {}",
            way_out(*capacity, *room))]
    NoRoomAboveThreshold {
        /// Rate of the link.
        rate: Rate,
        /// Delay of the link.
        delay: Time,
        /// Bytes of the receiver's buffer per virtual lane.
        capacity: u32,
        /// Bytes required above the threshold.
        room: u64,
    },
    /// A resume threshold above the stop threshold.
    #[error("must be at most the threshold at which the sender is stopped, {xoff} B here")]
    XonAboveXoff {
        /// The stop threshold.
        xoff: u32,
    },
    /// Shared credits with divided memory.
    #[error("the queues of an input must share its memory; set switch.memory = \"shared\"")]
    DividedCredits,
    /// A reserve of credits that is less than a packet, or more than the buffer.
    #[error("must be {least} B, the space of a packet, to {most} B, the buffer's share of a lane")]
    CreditReserve {
        /// Space of the largest packet.
        least: u32,
        /// Bytes of the buffer per lane.
        most: u32,
    },
    /// A replay buffer without room for a frame.
    #[error("must have room for the largest packet on a link, {largest} B")]
    NoRoomForFrame {
        /// Bytes of the largest packet on the wire.
        largest: u32,
    },
    /// A timer of link-level retry that expires before an acknowledgement can arrive.
    #[error(
        "must be more than {least}, the longest time until an acknowledgement arrives on a link of {rate} with a delay of \
             {delay}"
    )]
    ShortRetryTimer {
        /// Rate of the link.
        rate: Rate,
        /// Delay of the link.
        delay: Time,
        /// The longest time until an acknowledgement arrives.
        least: Time,
    },
    /// Marking depends on buffers that the switches do not have.
    #[error("requires buffers at inputs and outputs; use switch.architecture = \"cioq\", which has both")]
    NoOutputBuffers,
    /// A parameter of a congestion management component is invalid; the text states the reason.
    #[error("{0}")]
    Component(String),
    /// A reaction counts acknowledgements, but there are none.
    #[error(
        "must be \"ack-each\" with this congestion.reaction, which counts the acknowledgements of single packets"
    )]
    NoAcknowledgements,
    /// A reaction waits for grants, but receivers send none.
    #[error("must be \"ack-grant\" with this congestion.reaction, which waits for grants of the receivers")]
    NoGrants,
    /// A reaction reads telemetry, but switches write none.
    #[error("must be \"telemetry\" with this congestion.reaction, which reads the telemetry of switches")]
    NoTelemetry,
    /// There are more flows, patterns and jobs than packets can identify.
    #[error("there may be up to 65,535 flows and patterns")]
    TooManyClasses,
    /// A maximum message size below the minimum.
    #[error("must be at least the smallest message")]
    LargestBelowSmallest,
    /// A forest has no hotspots, or the network has fewer than two hosts.
    #[error("a forest needs a hotspot and two hosts")]
    NoForest,
    /// A job that does not fit on its hosts or cannot finish.
    #[error("job `{name}`: {what}")]
    Job {
        /// Name of the job.
        name: String,
        /// The reason, and how to correct the job.
        what: String,
    },
    /// Counters that cannot be created; the text states the reason.
    #[error("{0}")]
    NoCounters(&'static str),
}

fn parts_named(lanes: u32, queues: u32) -> String {
    match (lanes, queues) {
        (1, 1) => "the lane".to_owned(),
        (_, 1) => format!("each of {lanes} lanes"),
        (1, _) => format!("each of {queues} queues"),
        _ => format!("each of {queues} queues of {lanes} lanes"),
    }
}

fn way_out(capacity: u32, room: u64) -> String {
    match u64::from(capacity).checked_sub(room) {
        None | Some(0) => "use a larger buffer".to_owned(),
        Some(most) => format!("choose at most {most} B, or a larger buffer"),
    }
}

impl Reason {
    /// This reason, for a key.
    pub(crate) fn at(self, key: impl Into<String>) -> SetupError {
        SetupError { key: key.into(), value: None, reason: self }
    }

    /// This reason, for a key and its value.
    pub(crate) fn of(self, key: impl Into<String>, value: impl fmt::Display) -> SetupError {
        let value = Some(value.to_string());
        SetupError { key: key.into(), value, reason: self }
    }
}

/// Why a run could not be built or cannot continue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The configuration cannot be run.
    #[error(transparent)]
    Configuration(#[from] SetupError),
    /// Packets wait for each other in a cycle.
    #[error(
        "deadlock at {now}: each of these outputs waits for buffer space that only the next can free: {cycle}"
    )]
    Deadlock {
        /// Simulated time at which the deadlock was found.
        now: Time,
        /// The cycle, port by port.
        cycle: String,
    },
    /// Packets wait, but no event is pending that could resume them.
    #[error("network stalled at {now}; blocked: {waiting}")]
    Stalled {
        /// Simulated time at which the stall was found.
        now: Time,
        /// Which packets wait, and where.
        waiting: String,
    },
    /// A packet did not fit into the buffer of its receiver, because the space above the threshold is too
    /// small.
    #[error("buffer overflow at {now}: {what}")]
    Overflow {
        /// Simulated time at which the packet arrived.
        now: Time,
        /// The link, the missing space, and the setting.
        what: String,
    },
    /// A lane was paused for longer than the watchdog permits.
    #[error(
        "pause watchdog at {now}: {link} is paused on VL {vl} since {since}, and flow_control.watchdog is {limit}"
    )]
    PausedTooLong {
        /// Simulated time at which the pause reached the limit.
        now: Time,
        /// Name of the link.
        link: String,
        /// The virtual lane.
        vl: u8,
        /// The time at which the pause began.
        since: Time,
        /// The setting.
        limit: Time,
    },
    /// The frames of a link were sent again too many times without progress.
    #[error(
        "link failure at {now}: {link} has sent its frames again more than {count} times without an acknowledgement; increase \
             link.retry.count, or decrease link.error_rate_ppb"
    )]
    LinkFailed {
        /// Simulated time at which the link failed.
        now: Time,
        /// Name of the link.
        link: String,
        /// The setting.
        count: u32,
    },
    /// An invariant of the model was violated, which is an error in the simulator.
    #[error("model error at {now}: {what}")]
    Broken {
        /// Simulated time.
        now: Time,
        /// The violated invariant.
        what: String,
    },
}
