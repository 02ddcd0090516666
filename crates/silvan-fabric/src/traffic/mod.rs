//! Traffic: sources, destinations, amounts and times.

pub mod forest;
mod job;
pub(crate) mod source;
pub(crate) mod trigger;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Bytes, Rate, Time};

pub use forest::Forest;
pub use job::{Job, MOST_SHARING, Sends};

/// A flow from one host to another, with its own time series of throughput.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Name in results. Default: "from->to".
    pub name: Option<String>,
    /// Name of the sending host.
    pub from: String,
    /// Name of the receiving host.
    pub to: String,
    /// Time at which it starts, 0 s by default.
    #[serde(default)]
    pub start: Time,
    /// Starts the flow when this number of data packets has been delivered in the whole network, counting
    /// all classes since the start of the run; `start` must not be given then. This is an external trigger,
    /// not a message in the network. `stop` is still a time of the run.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub start_after_packets: Option<u64>,
    /// Time at which it stops. Default: never.
    pub stop: Option<Time>,
    /// Size of a message. Default: one packet.
    pub message: Option<Bytes>,
    /// Offered payload rate. Default: the rate at which the host can inject.
    pub rate: Option<Rate>,
    /// Total payload. Default: unlimited.
    pub total: Option<Bytes>,
    /// How messages are spaced if `rate` is given.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Service level, 0 to 15. Default: 0.
    #[serde(default)]
    #[schemars(range(max = 15))]
    pub sl: u8,
}

/// A pattern of traffic over a set of hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Name in results.
    pub name: Option<String>,
    /// Names of the sending hosts: a list, or a text with a range such as `H[1-64]` (also within a list).
    /// Default: all hosts.
    pub hosts: Option<Vec<String>>,
    /// How destinations are chosen.
    pub pattern: Pattern,
    /// Offered payload rate per host. Default: the rate at which the host can inject.
    pub rate: Option<Rate>,
    /// How messages are spaced if `rate` is given.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Size of a message. Default: one packet.
    pub message: Option<Bytes>,
    /// Largest message size, if sizes vary: the size of each message is uniformly distributed from
    /// `message` to this value. `rate` then refers to messages of mean size; periodic messages are evenly
    /// spaced regardless of their size.
    pub message_max: Option<Bytes>,
    /// Time at which it starts, 0 s by default.
    #[serde(default)]
    pub start: Time,
    /// Starts the traffic when this number of data packets has been delivered in the whole network,
    /// counting all classes since the start of the run; `start` must not be given then. This is an external
    /// trigger, not a message in the network. `stop` is still a time of the run.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub start_after_packets: Option<u64>,
    /// Time at which it stops. Default: never.
    pub stop: Option<Time>,
    /// Total number of data packets that each host sends. Default: unlimited.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub packets_per_host: Option<u64>,
    /// Service level, 0 to 15. Default: 0.
    #[serde(default)]
    #[schemars(range(max = 15))]
    pub sl: u8,
}

/// How messages of a given rate are spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Evenly spaced.
    #[default]
    Periodic,
    /// A Poisson process.
    Poisson,
}

/// How destinations are chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pattern {
    /// Each message goes to a random host.
    Uniform {
        /// Whether a host may send to itself. Default: false.
        #[serde(default)]
        include_self: bool,
    },
    /// All messages go to the given hosts; sender `i` sends to the `i mod n`-th of them.
    Hotspots {
        /// Names of the hotspots: a list, or a text with a range such as `H[1-4]` (also within a list).
        to: Vec<String>,
    },
    /// Host `i` sends to host `i + by` modulo the number of hosts.
    Shift {
        /// Distance.
        by: u32,
    },
    /// A random permutation without fixed points, drawn from the seed.
    Permutation,
    /// Each message goes to the next host in turn, starting after the sender.
    AllToAll,
    /// Silent, windy or moving congestion trees: given percentages of the hosts send to hotspots, to random
    /// hosts, or both (Paper IV). Roles and hotspots are drawn from the seed.
    Forest(Forest),
}
