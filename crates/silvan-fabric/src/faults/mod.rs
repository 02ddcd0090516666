//! Changes of links and hosts during a run: links that go down, lose packets or have another rate, hosts that
//! stall, stop or drain packets more slowly, and new routes. [`plan`] determines the times, and [`reroute`]
//! the routes. The module `link` applies them.

mod plan;
mod reroute;
mod width;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Rate, Time};

pub use plan::PlannedChanges;
pub(crate) use plan::{HostChange, HostState, LinkChange};
pub use reroute::completed;
pub(crate) use reroute::{FaultRoutes, Remaining, Reroutes, around};
pub use width::Width;

/// A change of links or hosts for a time, once or repeatedly. If several changes of a link overlap, the link
/// is down if one of them takes it down. It has the lowest of their rates and the highest of their losses. If
/// several changes of a host overlap, it stalls until the last stall ends, and drains at the lowest rate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Name of the event, for readers of the scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What happens.
    pub kind: EventKind,
    /// The links of the kinds `down`, `rate` and `errors`, each by a port at one of its ends: a port of a
    /// switch ("S1:3"), or a host, which stands for all of its ports. A list, or a text with a range such as
    /// `S[1-4]:9` (also within a list). Both directions of a link change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
    /// Switches all of whose links change at the same times. A list, or a text with a range.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<String>,
    /// The hosts of the kinds `stall`, `drain` and `stop`, with all of their ports. A list, or a text with a
    /// range.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The rate while the change lasts. Required by the kind `drain`, and by the kind `rate` without `width`,
    /// where it is at most the usual rate of the links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// For the kind `rate`, instead of `rate`: the number of lanes that a link keeps, such as "1x" of the usual
    /// 4x, or "2x of 8x". The link has this share of its usual rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<Width>,
    /// For the kind `drain`: whether the rate is that of a bus or a memory through which packets in both
    /// directions pass, such as PCIe. The hosts then also inject data packets at this rate, if it is lower than
    /// usual. A packet takes twice as long if packets in the other direction pass when it starts or has
    /// arrived, even if it then waits. With traffic in both directions, each direction therefore gets half of the
    /// rate. By default, the hosts send at their usual rate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// For the kind `errors`: the mean number of packets that are lost, per billion, at most half of them.
    /// Each direction of a link has a separate random stream, which draws for each packet, independently of
    /// its size. With `link.retry`, this is instead the number of bad frames, which are sent again, and the
    /// same share of acknowledgements gets lost. A value below `link.error_rate_ppb` then has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500_000_000))]
    pub loss_ppb: Option<u32>,
    /// The time at which the change begins, 0 s by default.
    #[serde(default)]
    pub start: Time,
    /// How long the change lasts. Default: until the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Time>,
    /// The time from one beginning to the next, for a change that repeats, such as a link that flaps.
    /// Default: it occurs once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Time>,
    /// The longest delay of each occurrence. Delays are uniformly distributed, and differ between links and
    /// hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Time>,
    /// The mean time from the end of a change to the next one, for changes at random times. The times between
    /// changes, and from `start` to the first change, are exponentially distributed. They differ between
    /// links and hosts, but all links of a switch in `switches` change together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_time_between: Option<Time>,
}

/// The kinds of changes of links and hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// The links are down. Packets on them are lost. Switches discard packets for these links, and hosts
    /// wait.
    Down,
    /// The links have the given rate or width, starting with the next packet.
    Rate,
    /// Packets get lost on the links at random.
    Errors,
    /// The hosts do not remove packets from their input buffers.
    Stall,
    /// The hosts drain their input buffers at the given rate, if it is lower than usual.
    Drain,
    /// The hosts fail for the rest of the run. Their links go down, and they neither send nor repeat packets.
    /// Packets that have arrived count as delivered when they would have been drained.
    Stop,
}

impl EventKind {
    /// The name in scenarios.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Rate => "rate",
            Self::Errors => "errors",
            Self::Stall => "stall",
            Self::Drain => "drain",
            Self::Stop => "stop",
        }
    }

    /// Whether the event concerns hosts, and not links.
    #[must_use]
    pub fn is_of_hosts(self) -> bool {
        matches!(self, Self::Stall | Self::Drain | Self::Stop)
    }

    /// Whether links are down because of the event.
    #[must_use]
    pub fn takes_down(self) -> bool {
        matches!(self, Self::Down | Self::Stop)
    }

    /// Whether the event has a rate.
    #[must_use]
    pub fn has_rate(self) -> bool {
        matches!(self, Self::Rate | Self::Drain)
    }
}

impl Event {
    /// Whether the event may cause packets to be lost. `retries` states whether links have link-level retry.
    #[must_use]
    pub fn loses_packets(&self, retries: bool) -> bool {
        self.kind.takes_down() || self.kind == EventKind::Errors && !retries
    }
}

/// How routes change when links go down and come up. By default, they do not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rerouting {
    /// The time from a change to new forwarding tables in all switches, as of a subnet manager or a routing
    /// protocol. A route that is still a shortest one of the remaining network stays; other routes take
    /// shortest paths, on which destinations are distributed evenly. With `[ecmp]` or adaptive routing per
    /// packet, the groups of ports change, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Time>,
    /// A file with forwarding tables that replace the computed ones. All switches change to them `delay`
    /// after a link goes down, and back `delay` after all links are up again. The file has one of the formats
    /// of `routing.file`, such as a second dump of OpenSM. The name is relative to the scenario. Routes that
    /// the file lacks do not change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tables: Option<String>,
    /// The time from a change until a switch stops using its own port at the link, or uses it again. This
    /// applies to packets that can take one of several ports: with `[ecmp]`, where such packets are hashed
    /// onto the other ports, or with adaptive routing per packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_delay: Option<Time>,
}

impl Rerouting {
    /// Whether routes never change.
    #[must_use]
    pub fn is_off(&self) -> bool {
        *self == Self::default()
    }
}

/// How hosts send lost packets again, as queue pairs of reliable connections do. Each flow numbers its
/// packets, and its receiver answers each packet with a receipt, a control packet, unless
/// `congestion.notification` acknowledges each packet anyway. By default, lost packets are not sent again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recovery {
    /// Which packets are sent again.
    pub kind: RecoveryKind,
    /// The time from the start of a packet until it is sent again, unless a receipt arrives. In hardware,
    /// timeouts are 4.096 us times a power of two, such as 67.1 ms (2^14).
    pub timeout: Time,
    /// A packet also counts as lost when a packet is acknowledged that its flow sent at least this many packets later, with
    /// selective repeat. Each acknowledgement then states which of the 64 packets before the acknowledged one have arrived, so a
    /// packet whose acknowledgement was lost does not count as lost. Default: packets count as lost after the timeout only.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reordering: Option<u16>,
}

impl Recovery {
    /// Recovery that considers packets as lost after the timeout only.
    #[must_use]
    pub fn new(kind: RecoveryKind, timeout: Time) -> Self {
        Self { kind, timeout, reordering: None }
    }

    /// Whether packets after a lost one are not sent again.
    #[must_use]
    pub fn repeats_only_lost(&self) -> bool {
        self.kind == RecoveryKind::SelectiveRepeat
    }
}

/// Which packets are sent again after a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecoveryKind {
    /// The lost packets, after the timeout. The receiver accepts packets in any order.
    SelectiveRepeat,
    /// The sender repeats the first lost packet and all later ones. The receiver accepts only the next
    /// packet, and requests it when another one arrives. Packets of a flow must not overtake each other.
    GoBackN,
}
