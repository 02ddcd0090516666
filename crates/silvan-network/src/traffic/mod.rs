//! Traffic: sources, destinations, amounts and times.

pub mod forest;
mod job;
pub mod listed;
mod sizes;
pub mod source;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Bytes, Rate, Time};

pub use forest::Forest;
pub use job::{ArrivalPort, InnerLinks, Job, JobPorts, MOST_SHARING, Piece, PortUse, QueuePairs, Sends};
pub use listed::{Incast, Listed, ListedTransfer, MOST_LISTED};
pub use sizes::{Cdf, Sizes};

/// The largest message of sources that generate messages. Transfers of lists, and messages of jobs, can be larger.
pub const LARGEST_MESSAGE: Bytes = Bytes(1 << 30);

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
    /// Time at which the flow starts, 0 s by default.
    #[serde(default)]
    pub start: Time,
    /// Starts the flow when this number of data packets of all classes has been delivered in the whole
    /// network since the start of the run. `start` must not be given then. This is an external trigger, not a
    /// message in the network. `stop` is still a time of the run.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub start_after_packets: Option<u64>,
    /// Time at which the flow stops. Default: never.
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
    /// Name in results. Default: its key, "traffic.0", "traffic.1" and so on.
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
    /// Distribution of message sizes. `rate` then refers to messages of mean size. Each message has a
    /// separate flow, like a queue pair: flows to the same host may take different routes with `[ecmp]`, and
    /// the reaction starts with its initial state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Sizes>,
    /// Offered payload of each host as a percentage of the rate at which the host can inject, instead of `rate`. For an incast,
    /// the offered payload of all hosts together, as a percentage of the rate of all hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub load_percent: Option<u32>,
    /// Alternation of busy and silent periods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bursts: Option<Bursts>,
    /// Closed loop: number of messages of each host that are outstanding at any time, instead of `rate`. A
    /// host generates the next message at the time `think` after the last acknowledgement of an earlier one.
    /// Receivers must acknowledge all data. Each message has a separate flow, as with `sizes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub outstanding: Option<u32>,
    /// Time from the end of a message to the next one in a closed loop. Default: 0 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Time>,
    /// Time at which the traffic starts, 0 s by default.
    #[serde(default)]
    pub start: Time,
    /// Starts the traffic when this number of data packets of all classes has been delivered in the whole
    /// network since the start of the run. `start` must not be given then. This is an external trigger, not a
    /// message in the network. `stop` is still a time of the run.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub start_after_packets: Option<u64>,
    /// Time at which the traffic stops. Default: never.
    pub stop: Option<Time>,
    /// Total number of data packets that each host sends. Default: unlimited.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub packets_per_host: Option<u64>,
    /// Service level, 0 to 15. Default: 0.
    #[serde(default)]
    #[schemars(range(max = 15))]
    pub sl: u8,
    /// The content of the files that `sizes` and `pattern` name.
    #[serde(skip)]
    pub loaded: Loaded,
}

/// The content of files that traffic refers to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Loaded {
    /// The distribution of [`Sizes::File`].
    pub sizes: Option<Arc<Cdf>>,
    /// The transfers of [`Pattern::Listed`].
    pub transfers: Option<Arc<Vec<ListedTransfer>>>,
}

/// Busy and silent periods of exponentially distributed lengths. A source generates messages only in busy
/// periods. The mean over all periods is `rate` or `load_percent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// Mean length of a busy period.
    pub on: Time,
    /// Mean length of a silent period.
    pub off: Time,
}

impl Flow {
    /// The name in results.
    #[must_use]
    pub fn shown_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("{}->{}", self.from, self.to))
    }
}

impl Traffic {
    /// The name in results of the pattern at this place of the list `traffic`.
    #[must_use]
    pub fn shown_name(&self, at: usize) -> String {
        self.name.clone().unwrap_or_else(|| format!("traffic.{at}"))
    }

    /// Whether each message has a separate flow.
    #[must_use]
    pub fn has_own_flows(&self) -> bool {
        let is_listed = matches!(self.pattern, Pattern::Listed(_) | Pattern::Incast(_));
        self.sizes.is_some() || self.outstanding.is_some() || is_listed
    }

    /// The largest size of a distribution or of listed transfers, in bytes; `None` if other keys determine
    /// the sizes.
    #[must_use]
    pub fn largest_of_file(&self) -> Option<u64> {
        let listed = || self.loaded.transfers.as_ref()?.iter().map(|transfer| transfer.bytes).max();
        self.cdf().map(|sizes| sizes.largest().into()).or_else(listed)
    }

    /// The distribution of sizes, if there is one.
    #[must_use]
    pub fn cdf(&self) -> Option<Arc<Cdf>> {
        let sizes = self.sizes.as_ref()?;
        sizes.published().map(Arc::new).or_else(|| self.loaded.sizes.clone())
    }
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
    /// All messages go to the `n` given hosts; sender `i` sends to host `i mod n` of these, both numbered
    /// from 0.
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
    /// The messages of a host go to all other hosts, one after another, starting after the sender.
    AllToAll,
    /// Silent, windy or moving congestion trees: given percentages of the hosts send to hotspots, to random
    /// hosts, or both (Paper IV). Roles and hotspots are drawn from the seed.
    Forest(Forest),
    /// Many hosts send to one at nearly the same time, repeatedly.
    Incast(Incast),
    /// The transfers that a file lists.
    Listed(Listed),
}
