//! Keys of events: what an event is about and whom it concerns.

use crate::port::Port;

/// What an event is about; the upper bits of its key. Within an instant, whatever arrives is
/// handled before whoever wants to send is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// A packet's head is ready for arbitration at a switch.
    SwitchArrival = 0,
    /// A packet's tail is in at a host.
    HostArrival = 1,
    /// A packet that had to wait for its tail (slow link to fast link) is ready.
    SwitchReady = 2,
    /// A host has drained a packet that somebody waits for.
    HostDrained = 3,
    /// A notification about a congestion tree is in at a switch.
    SwitchNotice = 4,
    /// A notification about a congestion tree is in at a host.
    HostNotice = 5,
    /// A timer of a component of a host expires.
    HostTimer = 6,
    /// A rank of a job has something to do.
    Job = 7,
    /// Traffic that waits for deliveries begins, where there are several partitions.
    Trigger = 8,
    /// End of the warm-up.
    Warmup = 9,
    /// No event: where somebody looks, what comes before this has happened, what comes after has not.
    Sample = 10,
    /// A switch output wants to look again.
    SwitchWake = 11,
    /// A host wants to look again.
    HostWake = 12,
}

impl Class {
    /// Whether it only asks somebody to look: how many there are is not part of the results.
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
            6 => Self::HostTimer,
            7 => Self::Job,
            8 => Self::Trigger,
            9 => Self::Warmup,
            10 => Self::Sample,
            11 => Self::SwitchWake,
            _ => Self::HostWake,
        }
    }
}

/// An event's key: class, node (20 bits), port index (8 bits).
#[inline]
pub(crate) fn key(class: Class, node: u32, port: Port) -> u32 {
    debug_assert!(node < MAX_NODES && u32::from(port.0) < MAX_PORTS);
    (class as u32) << 28 | node << 8 | u32::from(port.0)
}

/// Takes a [`key`] apart.
#[inline]
pub(crate) fn unkey(key: u32) -> (Class, u32, Port) {
    (Class::of(key >> 28), key >> 8 & (MAX_NODES - 1), Port((key & (MAX_PORTS - 1)) as u16))
}

/// Nodes of a kind that an event's key can name.
pub(crate) const MAX_NODES: u32 = 1 << 20;
/// Ports of a switch that an event's key can name.
pub(crate) const MAX_PORTS: u32 = 1 << 8;
