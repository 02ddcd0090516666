//! One operation of a rank.

use std::fmt;

use silvan_engine::saved::Saved;

/// Wildcard. As a peer, it means any source; as a tag, it means any tag below [`COLLECTIVE_TAGS`](crate::trace::COLLECTIVE_TAGS).
pub const ANY: u32 = u32::MAX;
/// The size of a receive that accepts messages of any size.
pub const ANY_SIZE: u64 = u64::MAX;
/// Interface of messages to and from a switch that connects the ranks of a host, see
/// [`Trace::switches`](crate::trace::Trace::switches). Files cannot use it.
pub const SWITCH_NIC: u8 = u8::MAX;

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Saved)]
#[repr(u8)]
pub enum Kind {
    /// Sends a message.
    Send,
    /// Receives a message.
    Recv,
    /// Computes, which occupies a CPU.
    Calc,
    /// Lets time pass without using a CPU.
    Delay,
}

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Saved)]
pub struct Operation {
    /// Kind of the operation.
    pub kind: Kind,
    /// Destination or source of a message ([`ANY`] means any source); 0 for other kinds.
    pub peer: u32,
    /// Size of a message in bytes ([`ANY_SIZE`] in a receive means any size), or duration in ns.
    pub size: u64,
    /// Tag of a message ([`ANY`] in a receive means any tag); 0 for other kinds.
    pub tag: u32,
    /// Number of the CPU within the rank.
    pub cpu: u8,
    /// Number of the network interface within the rank.
    pub nic: u8,
}

impl Operation {
    /// Sends `bytes` to rank `to`.
    #[must_use]
    pub const fn send(to: u32, bytes: u64, tag: u32) -> Self {
        Self { kind: Kind::Send, peer: to, size: bytes, tag, cpu: 0, nic: 0 }
    }

    /// Receives up to `bytes` from rank `from`.
    #[must_use]
    pub const fn recv(from: u32, bytes: u64, tag: u32) -> Self {
        Self { kind: Kind::Recv, peer: from, size: bytes, tag, cpu: 0, nic: 0 }
    }

    /// Computes for `ns` nanoseconds.
    #[must_use]
    pub const fn calc(ns: u64) -> Self {
        Self { kind: Kind::Calc, peer: 0, size: ns, tag: 0, cpu: 0, nic: 0 }
    }

    /// Waits for `ns` nanoseconds.
    #[must_use]
    pub const fn delay(ns: u64) -> Self {
        Self { kind: Kind::Delay, peer: 0, size: ns, tag: 0, cpu: 0, nic: 0 }
    }

    /// Returns a message to or from a switch within its host.
    #[must_use]
    pub(crate) const fn at_switch(mut self) -> Self {
        self.nic = SWITCH_NIC;
        self
    }

    /// Returns the same operation on another CPU.
    #[must_use]
    pub const fn on(mut self, cpu: u8) -> Self {
        self.cpu = cpu;
        self
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peer, size, tag, .. } = *self;
        match self.kind {
            Kind::Send => write!(f, "send {size} bytes to rank {peer}, tag {tag}"),
            Kind::Recv => {
                let from = if peer == ANY { "any rank".to_owned() } else { format!("rank {peer}") };
                let tag = if tag == ANY { "any tag".to_owned() } else { format!("tag {tag}") };
                if size == ANY_SIZE {
                    return write!(f, "receive from {from}, {tag}");
                }
                write!(f, "receive {size} bytes from {from}, {tag}")
            }
            Kind::Calc => write!(f, "compute {size} ns"),
            Kind::Delay => write!(f, "wait {size} ns"),
        }
    }
}

/// The condition of a dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum When {
    /// The earlier operation has finished.
    Finish,
    /// The earlier operation has started.
    Start,
}
