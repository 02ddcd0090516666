//! Who sends what to whom, when.

pub mod forest;
mod job;
pub(crate) mod source;
pub(crate) mod trigger;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Bytes, Rate, Time};

pub use forest::Forest;
pub use job::Job;

/// One flow from a host to a host, with its own series of throughput over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// As shown in results; by default "from->to".
    pub name: Option<String>,
    /// Name of the sending host.
    pub from: String,
    /// Name of the receiving host.
    pub to: String,
    /// When it starts; by default at once.
    #[serde(default)]
    pub start: Time,
    /// Starts at the instant at which so many data packets have been delivered in the whole network,
    /// of all classes and since the start of the run; then no `start` may be given. It is the
    /// experimenter's hand that starts it, like the end of the warm-up, no message in the network.
    /// `stop` remains a time of the run.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub start_after_packets: Option<u64>,
    /// When it stops; by default never.
    pub stop: Option<Time>,
    /// Size of a message; by default one packet.
    pub message: Option<Bytes>,
    /// Payload offered per time; by default as much as the host can inject.
    pub rate: Option<Rate>,
    /// Payload in all; by default without end.
    pub total: Option<Bytes>,
    /// How messages are spaced when `rate` is given.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Service level.
    #[serde(default)]
    #[schemars(range(max = 15))]
    pub sl: u8,
}

/// A pattern of traffic over a set of hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// As shown in results.
    pub name: Option<String>,
    /// Names of the sending hosts; by default all.
    pub hosts: Option<Vec<String>>,
    /// How destinations are chosen.
    pub pattern: Pattern,
    /// Payload offered per host and time; by default as much as the host can inject.
    pub rate: Option<Rate>,
    /// How messages are spaced when `rate` is given.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Size of a message; by default one packet.
    pub message: Option<Bytes>,
    /// Size of the largest message, where sizes vary: that of each message is drawn evenly from
    /// `message` to this. `rate` then is that of messages of mean size, periodic ones being evenly
    /// spaced whatever their sizes.
    pub message_max: Option<Bytes>,
    /// When it starts; by default at once.
    #[serde(default)]
    pub start: Time,
    /// Starts at the instant at which so many data packets have been delivered in the whole network,
    /// of all classes and since the start of the run; then no `start` may be given. It is the
    /// experimenter's hand that starts it, like the end of the warm-up, no message in the network.
    /// `stop` remains a time of the run.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub start_after_packets: Option<u64>,
    /// When it stops; by default never.
    pub stop: Option<Time>,
    /// Data packets that each host sends in all; by default without end.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub packets_per_host: Option<u64>,
    /// Service level.
    #[serde(default)]
    #[schemars(range(max = 15))]
    pub sl: u8,
}

/// How messages of a given rate are spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Evenly.
    #[default]
    Periodic,
    /// As a Poisson process.
    Poisson,
}

/// How destinations are chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pattern {
    /// Each message to a host drawn at random.
    Uniform {
        /// Whether a host may draw itself.
        #[serde(default)]
        include_self: bool,
    },
    /// All to the given hosts; sender `i` sends to the `i mod n`-th of them.
    Hotspots {
        /// Names of the hotspots.
        to: Vec<String>,
    },
    /// Host `i` to host `i + by` modulo the number of hosts.
    Shift {
        /// Distance.
        by: u32,
    },
    /// One random permutation without fixed points, drawn from the seed.
    Permutation,
    /// Each message to the next host in turn, starting after oneself.
    AllToAll,
    /// Congestion trees that stand, sway or move: shares of the hosts send to hotspots, to hosts
    /// drawn at random, or both (Paper IV). Roles and hotspots are drawn from the seed.
    Forest(Forest),
}
