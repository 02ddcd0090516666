//! Keys of events, which contain the class of an event and the node that it concerns.

use silvan_network::port::Port;

/// The class of an event, in the upper bits of its key. At each instant, all arrivals are handled before the wake-ups
/// of senders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// A packet's head is ready for arbitration at a switch.
    SwitchArrival = 0,
    /// A packet's tail has arrived at a host.
    HostArrival = 1,
    /// A packet that waited for its tail (from a slow to a fast link) is ready.
    SwitchReady = 2,
    /// A host has drained a packet for which another packet waits.
    HostDrained = 3,
    /// A notification about a congestion tree has arrived at a switch.
    SwitchNotice = 4,
    /// A notification about a congestion tree has arrived at a host.
    HostNotice = 5,
    /// Flow control with pause frames, link-level retry, and links that change: space becomes free, a receiver may have to send
    /// a frame, a frame takes effect, frames must be sent again, or links change. The port is the stage; see [`super::Stage`].
    Link = 6,
    /// A timer of a component of a host expires.
    HostTimer = 7,
    /// A rank of a job can act.
    Job = 8,
    /// Traffic that waits for deliveries starts; used if there are several partitions.
    Trigger = 9,
    /// End of the warm-up.
    Warmup = 10,
    /// The position of a sample in the order of events, not an event. Events with lower keys precede the sample,
    /// others follow it.
    Sample = 11,
    /// A switch output tries to send again.
    SwitchWake = 12,
    /// A host tries to send again.
    HostWake = 13,
}

impl Class {
    /// Whether the event only wakes a sender. The number of such events is not part of the results.
    #[inline]
    pub fn is_wake(self) -> bool {
        matches!(self, Self::SwitchWake | Self::HostWake)
    }

    #[inline]
    fn of(bits: u32) -> Self {
        match bits {
            0 => Self::SwitchArrival,
            1 => Self::HostArrival,
            2 => Self::SwitchReady,
            3 => Self::HostDrained,
            4 => Self::SwitchNotice,
            5 => Self::HostNotice,
            6 => Self::Link,
            7 => Self::HostTimer,
            8 => Self::Job,
            9 => Self::Trigger,
            10 => Self::Warmup,
            11 => Self::Sample,
            12 => Self::SwitchWake,
            _ => Self::HostWake,
        }
    }
}

/// An event's key: class, node (18 bits), port index (10 bits).
#[inline]
pub(crate) fn key(class: Class, node: u32, port: Port) -> u32 {
    debug_assert!(node < MAX_NODES && u32::from(port.0) < MAX_PORTS);
    (class as u32) << 28 | node << PORT_BITS | u32::from(port.0)
}

/// The fields of a [`key`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventKey {
    pub class: Class,
    pub node: u32,
    pub port: Port,
}

/// Splits a [`key`] into its fields.
#[inline]
pub(crate) fn unkey(key: u32) -> EventKey {
    EventKey {
        class: Class::of(key >> 28),
        node: key >> PORT_BITS & (MAX_NODES - 1),
        port: Port((key & (MAX_PORTS - 1)) as u16),
    }
}

/// Bits of a port index in a key.
const PORT_BITS: u32 = 10;
/// The number of nodes of one kind that an event's key can identify.
pub(crate) const MAX_NODES: u32 = 1 << (28 - PORT_BITS);
/// The number of ports of a switch that an event's key can identify.
pub(crate) const MAX_PORTS: u32 = 1 << PORT_BITS;
