//! Defines the scenario file as types. The JSON Schema contains the
//! documentation of each field, so it is written for users.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserializer, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Serialize, Serializer};
use silvan_congestion::Congestion;
use silvan_engine::{Rate, Time};
use silvan_fabric::config::{
    AdaptiveRouting, Ecmp, Engine, ExternalTraffic, FlowControl, HostConfig, Lanes, LinkConfig, Measure,
    Packet, PathBits, Scheduler, SwitchConfig,
};
use silvan_fabric::faults::{Event, Recovery, Rerouting};
use silvan_network::routing::RoutingSpec;
use silvan_network::topology::TopologySpec;
use silvan_network::traffic::{Flow, Traffic};

use crate::jobs::JobSpec;
use crate::ports::Ports;
use crate::reduction::Reduction;
use crate::threads::Threads;

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks for it")]
const fn is_yes(value: &bool) -> bool {
    *value
}

const fn first_seed() -> u64 {
    1
}

/// A scenario: the network, its traffic, its congestion management, and what is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Short name of the scenario. It appears in results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A statement of what the scenario demonstrates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Seed of all random streams, 1 by default: the same scenario and seed give the same results.
    #[serde(default = "first_seed")]
    pub seed: u64,
    /// Length of a clock cycle, at most 1 s. If it is given, times can be written in cycles ("3 cycles")
    /// and rates in bytes per cycle ("0.25 bytes/cycle"), provided that they are whole numbers of
    /// picoseconds and bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle: Option<Time>,
    /// Simulated time at which the run ends, at most one hour. Can be omitted with `external`.
    pub duration: Time,
    /// Start of the averages in the summary, 0 s by default.
    #[serde(default)]
    pub warmup: Time,
    /// Hosts, switches and links.
    pub topology: TopologySource,
    /// How forwarding tables are computed. Default: `d-mod-k` for fat trees and bidirectional k-ary n-flies,
    /// `destination-tag` for unidirectional ones, `dimension-order` for tori, meshes and `HyperX`, `minimal`
    /// for dragonflies and dragonfly+, `shortest-path` for custom networks with unidirectional links,
    /// `up-down` for all others.
    pub routing: Routing,
    /// How messages are divided into packets, and the size of packets.
    #[serde(default)]
    pub packet: Packet,
    /// Virtual lanes, and the mapping of service levels to them.
    #[serde(default)]
    pub lanes: Lanes,
    /// How receivers prevent their buffers from overflowing.
    #[serde(default)]
    pub flow_control: FlowControl,
    /// Errors of links, and how they are repaired.
    #[serde(default, skip_serializing_if = "LinkConfig::is_plain")]
    pub link: LinkConfig,
    /// Architecture, queues and buffers of switches.
    #[serde(default)]
    pub switch: SwitchConfig,
    /// How hosts send and receive.
    #[serde(default)]
    pub host: HostConfig,
    /// Congestion management.
    #[serde(default)]
    pub congestion: Congestion,
    /// Hosts with several ports. By default, each host has one port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Ports>,
    /// Adaptive routing: switches select the output port per flow (on fat trees) or per packet. By default
    /// they use the forwarding tables only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adaptive_routing: Option<AdaptiveRouting>,
    /// Equal-cost multipath: switches hash packets onto the ports of all minimal routes. By default they use the
    /// forwarding tables only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecmp: Option<Ecmp>,
    /// Changes during the run: links that go down, lose a part of their rate or lose packets, and hosts that
    /// stall, stop or receive more slowly.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub event: Vec<Event>,
    /// How routes change when links go down and come up. By default, routes do not change.
    #[serde(default, skip_serializing_if = "Rerouting::is_off")]
    pub rerouting: Rerouting,
    /// How hosts send packets again that were lost. By default, they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// Flows from one host to another. Each has its own time series of throughput.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flow: Vec<Flow>,
    /// Patterns of traffic between many hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<Traffic>,
    /// Parallel applications. Their ranks wait for messages from each other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub job: Vec<JobSpec>,
    /// Messages that a program sends, which uses Silvan as a library (docs/library.md). `silvan run` cannot run
    /// such a scenario. A program can also send in a network without this key, if no flow, pattern or job
    /// sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalTraffic>,
    /// Reduction units of switches, for jobs with collective operations of the algorithm `in-network`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduction: Option<Reduction>,
    /// Whether the run ends at the end of the sampling interval in which the last job finishes, if that is
    /// before `duration`. Default: true.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub end_with_jobs: bool,
    /// Which quantities are recorded over time.
    #[serde(default)]
    pub measure: Measure,
    /// Threads that the run may use: a number from 1 to 256, or "auto" for the number of cores of the
    /// machine. Default: 1. The results do not depend on the number.
    #[serde(default, skip_serializing_if = "Threads::is_one")]
    pub threads: Threads,
    /// The scheduler of the run. Default: "auto". Of the results, only the number of events depends on the
    /// scheduler.
    #[serde(default, skip_serializing_if = "Scheduler::is_auto")]
    pub scheduler: Scheduler,
    /// How the run is simulated. The results do not depend on it.
    #[serde(default, skip_serializing_if = "Engine::is_default")]
    pub engine: Engine,
}

/// A topology, generated or read from a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum TopologySource {
    /// Read from the description of a real fabric.
    File(FileTopology),
    /// Generated by a rule, or listed in the scenario.
    Generated(TopologySpec),
}

/// A topology read from a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FileTopology {
    /// A real fabric: output of `ibnetdiscover` or `iblinkinfo`, an ibsim netlist, `opensm-subnet.lst`,
    /// `opensm-smdb.dump`, `ibdiagnet2.db_csv` or `ibdiagnet2.net_dump`. Files of HPCC's simulator (nodes are
    /// named by their numbers), of `SimAI` and of htsim (`.topo`) are also read. These formats contain rates and
    /// delays. Latencies of switches in a file of htsim apply unless the scenario sets `switch.latency`. Hosts
    /// may have several ports.
    File {
        /// The file, plain or compressed (`.gz`). The name is relative to the scenario.
        file: String,
        /// Propagation delay of every link, 20 ns by default, unless the file contains delays.
        #[serde(default = "usual_delay")]
        link_delay: Time,
        /// Data rate of links for which the file gives no width and speed. By default such links are an
        /// error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default_rate: Option<Rate>,
    },
}

const fn usual_delay() -> Time {
    Time::from_ns(20)
}

/// How forwarding tables are computed, and whether a cycle of dependencies is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routing {
    /// The algorithm or file.
    pub source: RoutingSource,
    /// Run even if packets can wait for each other in a cycle.
    pub allow_deadlock: bool,
}

/// A routing algorithm, or tables read from a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum RoutingSource {
    /// Read from the dump of a subnet manager.
    Table(TableRouting),
    /// Computed.
    Computed(RoutingSpec),
}

/// Tables read from a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum TableRouting {
    /// Forwarding tables of a subnet manager: `opensm-lfts.dump`, the output of `dump_fts`, `opensm.fdbs`,
    /// or the static ports of `ibdiagnet2.far`.
    Table {
        /// The file, plain or compressed (`.gz`). The name is relative to the scenario.
        file: String,
        /// The LIDs to which packets are sent, if ports have several (LMC > 0). Switches have a route to each LID.
        #[serde(default, skip_serializing_if = "is_zero")]
        path_bits: PathBits,
    },
}

fn is_zero(path_bits: &PathBits) -> bool {
    !path_bits.is_used()
}

/// Whether a table has a `kind`. The variant is selected before deserialization, because an untagged enum
/// would hide errors inside the variant.
fn is_kind(table: &toml::Table, kind: &str) -> bool {
    table.get("kind").and_then(toml::Value::as_str) == Some(kind)
}

impl<'de> Deserialize<'de> for TopologySource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let table = toml::Table::deserialize(deserializer)?;
        let file = is_kind(&table, "file");
        let value = toml::Value::Table(table);
        if file { value.try_into().map(Self::File) } else { value.try_into().map(Self::Generated) }
            .map_err(|e: toml::de::Error| D::Error::custom(e.message()))
    }
}

impl Routing {
    /// The LIDs to which packets are sent.
    #[must_use]
    pub fn path_bits(&self) -> PathBits {
        match self.source {
            RoutingSource::Table(TableRouting::Table { path_bits, .. }) => path_bits,
            RoutingSource::Computed(_) => PathBits::Zero,
        }
    }
}

impl<'de> Deserialize<'de> for Routing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut table = toml::Table::deserialize(deserializer)?;
        let allow_deadlock = match table.remove("allow_deadlock") {
            None => false,
            Some(toml::Value::Boolean(allow)) => allow,
            Some(_) => return Err(D::Error::custom("`allow_deadlock` must be true or false")),
        };
        let file = is_kind(&table, "table");
        let value = toml::Value::Table(table);
        let source = if file {
            value.try_into().map(RoutingSource::Table)
        } else {
            value.try_into().map(RoutingSource::Computed)
        };
        let source = source.map_err(|e: toml::de::Error| D::Error::custom(e.message()))?;
        Ok(Self { source, allow_deadlock })
    }
}

impl Serialize for Routing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut table = toml::Table::try_from(&self.source).map_err(S::Error::custom)?;
        table.insert("allow_deadlock".to_owned(), toml::Value::Boolean(self.allow_deadlock));
        table.serialize(serializer)
    }
}

impl JsonSchema for Routing {
    fn schema_name() -> Cow<'static, str> {
        "Routing".into()
    }

    /// The schema of the source only. [`crate::schema()`] adds `allow_deadlock` to each kind.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        RoutingSource::json_schema(generator)
    }
}
