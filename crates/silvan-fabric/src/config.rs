//! What a run needs to know besides topology and tables. Every struct here is also a table of
//! the scenario file, so each field's documentation is what a user reads in its JSON Schema.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Bytes, Rate, Time};

use crate::congestion::reaction::Reaction;
use crate::congestion::{Congestion, Mechanism, Parts};
pub use crate::packet_format::Packet;
use crate::queueing::{HostQueues, Memory, Queues};
use crate::routing;
use crate::routing::adaptive::Heuristic;
use crate::traffic::{Flow, Job, Traffic};

/// Everything but topology and tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// All randomness derives from it.
    pub seed: u64,
    /// Simulated time at which the run ends.
    pub duration: Time,
    /// The summary's averages start here.
    pub warmup: Time,
    /// See [`Packet`].
    pub packet: Packet,
    /// See [`Lanes`].
    pub lanes: Lanes,
    /// See [`FlowControl`].
    pub flow_control: FlowControl,
    /// See [`SwitchConfig`].
    pub switch: SwitchConfig,
    /// See [`HostConfig`].
    pub host: HostConfig,
    /// See [`Congestion`].
    pub congestion: Congestion,
    /// See [`AdaptiveRouting`]; none for the forwarding tables alone.
    pub adaptive_routing: Option<AdaptiveRouting>,
    /// Explicit flows.
    pub flows: Vec<Flow>,
    /// Traffic patterns.
    pub traffic: Vec<Traffic>,
    /// Parallel applications.
    pub jobs: Vec<Job>,
    /// Whether the run ends at the first sample at which all jobs have finished, if that is before
    /// `duration`.
    pub ends_with_jobs: bool,
    /// Service levels of paths and lanes of switches, where [`Assignment::Paths`] or [`Assignment::Routing`] decides.
    pub path_lanes: Option<Arc<routing::Lanes>>,
    /// See [`Measure`].
    pub measure: Measure,
    /// Threads that may work at the run, where its network allows more than one.
    pub threads: u16,
}

impl Config {
    /// The parts of congestion management in force.
    #[must_use]
    pub fn parts(&self) -> Parts {
        self.congestion.parts(&self.packet)
    }

    /// How routes are chosen for flows, or for packets, if they are.
    #[must_use]
    pub fn chosen_routes(&self, per: RoutePer) -> Option<&AdaptiveRouting> {
        self.adaptive_routing.as_ref().filter(|adaptive| adaptive.is_per(per))
    }

    /// Whether packets of a flow may overtake each other.
    #[must_use]
    pub fn may_reorder(&self) -> bool {
        let detours = self.path_lanes.as_ref().is_some_and(|lanes| lanes.bias().is_some());
        detours || self.chosen_routes(RoutePer::Packet).is_some()
    }

    /// What explicit rates do no good: traffic whose messages are single packets, each of which is
    /// announced and taken back like a flow.
    #[must_use]
    pub fn announced_packets(&self) -> Vec<String> {
        let Reaction::ExplicitRate(_) = self.parts().reaction else { return Vec::new() };
        let mtu = self.packet.mtu;
        let is_packet = |least: Option<Bytes>, most: Option<Bytes>| most.or(least).is_none_or(|m| m <= mtu);
        let flows = self.flows.iter().map(|flow| is_packet(flow.message, None));
        let flows = flows.enumerate().map(|(at, single)| (format!("flow.{at}"), single));
        let traffic = self.traffic.iter().map(|traffic| is_packet(traffic.message, traffic.message_max));
        let traffic = traffic.enumerate().map(|(at, single)| (format!("traffic.{at}"), single));
        let single = flows.chain(traffic).filter(|(_, single)| *single);
        let warn = |(key, _)| {
            format!(
                "{key} announces every packet: its messages are of one packet, and explicit rates announce each \
                 message and take it back; give {key}.message more than packet.mtu, {mtu}"
            )
        };
        single.map(warn).collect()
    }
}

/// Virtual lanes and the mapping of service levels to them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Lanes {
    /// Number of data virtual lanes on every link, 1 to 15.
    #[schemars(range(min = 1, max = 15))]
    pub count: u8,
    /// Virtual lane of each service level, from 0 on, as far as they are used; by default the service
    /// level modulo `count`.
    #[schemars(length(min = 1, max = 16))]
    pub sl_to_vl: Option<Vec<u8>>,
    /// Virtual lane of control packets (notifications, acknowledgements); by default that of the
    /// packet they answer, whose congestion then holds them back too.
    pub control: Option<u8>,
    /// What decides the virtual lane of a data packet.
    pub assignment: Assignment,
    /// Service levels by pair of hosts, as OpenSM's `path-sl` has them: the file, relative to the scenario.
    /// Pairs that it does not name have level 0.
    pub path_levels: Option<String>,
    /// SL-to-VL tables of switches, as `opensm-sl2vl.dump` has them: the file, relative to the scenario. By
    /// default, and at switches that it does not name, the lane has the number of the level.
    pub tables: Option<String>,
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            count: 1,
            sl_to_vl: None,
            control: None,
            assignment: Assignment::ServiceLevel,
            path_levels: None,
            tables: None,
        }
    }
}

/// How a receiver keeps its senders from overflowing its buffers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum FlowControl {
    /// It gives credits for what is free, as InfiniBand does.
    #[default]
    Credits,
    /// It stops the sender and lets it go by its buffer's fill (Xon/Xoff, priority flow control).
    OnOff(OnOff),
}

/// Thresholds of on/off flow control, for each virtual lane of an input port (thesis, 2.1.4).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OnOff {
    /// Fill above which the sender is stopped; by default as high as what is on its way then allows,
    /// which depends on the link.
    pub xoff: Option<Bytes>,
    /// Fill at or below which the sender may go on; by default two full packets below `xoff`, or half of
    /// it if that is more.
    pub xon: Option<Bytes>,
}

/// What decides the virtual lane of a data packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Assignment {
    /// Its service level, by `sl_to_vl`.
    ServiceLevel,
    /// Its destination's number, modulo the number of lanes.
    Destination,
    /// Its destination's place among those that share its way out of the source's switch, modulo
    /// the number of lanes: hosts that would share queues on the way up get lanes of their own
    /// (vFtree, thesis 2.3.1).
    Vftree,
    /// The service level of its path, from `path_levels`, by the SL-to-VL tables of each switch it comes to,
    /// from `tables`: as the subnet manager has set a fabric up. It keeps its service level and may change
    /// lanes on its way. At hosts `sl_to_vl` says the lane.
    Paths,
    /// Its way, so that packets cannot wait for each other in a circle, by the rule of the routing: datelines
    /// for `dimension-order` on tori (2 lanes), a lane more behind each link between groups for `minimal`
    /// (2 lanes in a dragonfly) and `valiant` (3 in a dragonfly, 2 in a dragonfly+). A packet may change lanes
    /// on its way. On the links of hosts it has that of service level 0, or of the level of its path.
    Routing,
}

/// Routes that switches choose: flow by flow (a flow is a message), by packets that go ahead of them, or packet by
/// packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdaptiveRouting {
    /// Whether it is in force: for studies that have it on and off.
    pub enabled: bool,
    /// What a route is chosen for.
    pub per: RoutePer,
    /// What a switch compares its ports by (flows); by default `flow-count`.
    pub heuristic: Option<Heuristic>,
    /// Flows that the route cache of an input port holds; those beyond it take the default port. By
    /// default as many as there are.
    #[schemars(range(max = 1_048_576))]
    pub cache: Option<u32>,
    /// Loads that differ by less than this are alike (packets); by default a full packet.
    pub grade: Option<Bytes>,
    /// Service levels whose data choose (packets); by default all. Others take the tables' ports.
    #[schemars(length(min = 1, max = 16), inner(range(max = 15)))]
    pub levels: Option<Vec<u8>>,
    /// What takes the tables' ports all the same (packets).
    pub pinned: Vec<Pinned>,
}

/// What a route is chosen for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RoutePer {
    /// A flow, by a packet that goes ahead of it; on fat trees (Zdornov and Birk, SYSTOR 2009).
    #[default]
    Flow,
    /// A packet, at each switch: among the ports that lead to the destination by the fewest hops it takes the
    /// least loaded, by what waits for it and by what is in use of the buffer at its far end. Receivers
    /// deliver in order.
    Packet,
}

/// Data that do not choose their ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pinned {
    /// Packets of flows that the reaction holds back as they are sent.
    Throttled,
    /// Packets for destinations on a line of a switch's CAMs, at that switch.
    Isolated,
}

impl Default for AdaptiveRouting {
    fn default() -> Self {
        Self {
            enabled: true,
            per: RoutePer::Flow,
            heuristic: None,
            cache: None,
            grade: None,
            levels: None,
            pinned: Vec::new(),
        }
    }
}

impl AdaptiveRouting {
    /// Whether routes are chosen for such, in force.
    #[must_use]
    pub fn is_per(&self, per: RoutePer) -> bool {
        self.enabled && self.per == per
    }

    /// Whether such data do not choose.
    #[must_use]
    pub fn pins(&self, what: Pinned) -> bool {
        self.pinned.contains(&what)
    }
}

/// How switches are built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SwitchConfig {
    /// Read ports, buffers and arbitration; by default as the mechanism has it: `iq` for `fbicm` and
    /// `ccfit`, `cioq` for `renato`, `pfister` and `mvcm`, else `voq`.
    pub architecture: Option<Architecture>,
    /// Whom an output serves next (`voq` architecture).
    pub arbitration: Arbitration,
    /// How an input buffer is divided into queues; by default as the mechanism has it: `single` for
    /// `fbicm` and `ccfit` and with `cioq` switches, else `per-output`.
    pub queues: Option<Queues>,
    /// Queues per input and virtual lane where the organisation leaves it open
    /// (`destination-modulo`, `output-modulo`).
    #[schemars(range(min = 1, max = 1024))]
    pub queue_count: u16,
    /// Whether queues share the memory of their input; by default they do where there is one, or
    /// one per output, and do not otherwise.
    pub memory: Option<Memory>,
    /// Memory of each queue where it is divided; by default the input's, in equal parts. Queues per
    /// destination need it.
    pub queue_buffer: Option<Bytes>,
    /// Memory of an input port, all virtual lanes together.
    pub buffer: Bytes,
    /// From the arrival of a packet's head to its earliest departure.
    pub latency: Time,
    /// Memory of an output port, all virtual lanes together (`cioq` architecture); by default as
    /// much as an input's.
    pub output_buffer: Option<Bytes>,
    /// Rate at which an input's read port gives a packet away (`iq` and `cioq` architectures); by
    /// default that of the link it leaves on (`iq`), or twice that of the fastest link (`cioq`). With a
    /// faster crossbar the port is free before the packet has left, which waits at its output.
    pub crossbar: Option<Rate>,
    /// Iterations of iSLIP per matching (`iq` architecture). A matching is made when something changes at the switch: a
    /// packet comes, a port is free, credit is back. A pair that it leaves unmatched waits for the next change,
    /// though both its ports are free. Switches that match anew in each of many cells of a packet find it a cell
    /// later; 4 iterations come near that.
    #[schemars(range(min = 1, max = 16))]
    pub islip_iterations: u8,
    /// Whether control packets (notifications, acknowledgements) go ahead of the data of their
    /// input; by default as the mechanism has it: so for `ccfit`, else not.
    pub control_first: Option<bool>,
}

impl SwitchConfig {
    /// The architecture in force with a mechanism.
    #[must_use]
    pub fn architecture(&self, mechanism: Mechanism) -> Architecture {
        self.architecture.unwrap_or(if mechanism.is_input_queued() {
            Architecture::Iq
        } else if mechanism.is_output_buffered() {
            Architecture::Cioq
        } else {
            Architecture::Voq
        })
    }

    /// The queues in force with a mechanism.
    #[must_use]
    pub fn queues(&self, mechanism: Mechanism) -> Queues {
        let single = mechanism.is_input_queued() || self.architecture(mechanism) == Architecture::Cioq;
        self.queues.unwrap_or(if single { Queues::Single } else { Queues::PerOutput })
    }

    /// Whether the queues share the memory of their input.
    #[must_use]
    pub fn memory(&self, mechanism: Mechanism) -> Memory {
        self.memory.unwrap_or_else(|| self.queues(mechanism).usual_memory())
    }

    /// Whether control packets go ahead with a mechanism.
    #[must_use]
    pub fn control_first(&self, mechanism: Mechanism) -> bool {
        self.control_first.unwrap_or(mechanism == Mechanism::Ccfit)
    }
}

impl Default for SwitchConfig {
    fn default() -> Self {
        Self {
            architecture: None,
            arbitration: Arbitration::RoundRobin,
            queues: None,
            queue_count: 8,
            memory: None,
            queue_buffer: None,
            buffer: Bytes(131_072),
            latency: Time::from_ns(100),
            output_buffer: None,
            crossbar: None,
            islip_iterations: 1,
            control_first: None,
        }
    }
}

/// Whom an output serves next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arbitration {
    /// Its inputs in turn.
    RoundRobin,
    /// Who came first, from whichever input.
    Fcfs,
}

/// Read ports and arbitration of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Architecture {
    /// InfiniBand VOQ switch: a read port per queue, so one input may feed several outputs at
    /// once; each output serves its inputs round robin.
    Voq,
    /// Input-queued switch: one read port per input, matched to outputs by iSLIP.
    Iq,
    /// Buffers at inputs and outputs and a faster crossbar: one read port per input, one write port
    /// per output.
    Cioq,
}

/// How hosts send and receive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostConfig {
    /// The most a host injects; by default its link's rate.
    pub injection_rate: Option<Rate>,
    /// The most a host takes out of its input buffer; by default its link's rate.
    pub drain_rate: Option<Rate>,
    /// Memory of the input port, all virtual lanes together.
    pub buffer: Bytes,
    /// Time a host needs per message besides sending its packets (the inverse of its largest
    /// message rate).
    pub message_overhead: Time,
    /// How the buffer between a host's queues per destination and its link is divided; `none` for no
    /// such buffer, where no destination ever waits for another. By default as the mechanism has it:
    /// `single` where there are special queues, else `none`.
    pub queues: Option<HostQueues>,
    /// Memory of that buffer, all virtual lanes together; of each queue where they are per
    /// destination.
    pub output_buffer: Bytes,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            injection_rate: None,
            drain_rate: None,
            buffer: Bytes(65_536),
            message_overhead: Time::ZERO,
            queues: None,
            output_buffer: Bytes(65_536),
        }
    }
}

/// What is recorded over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Measure {
    /// Length of a sampling interval of all time series, of which a run has at most a million.
    pub interval: Time,
    /// Record utilisation, buffer fill and marks of every switch output over time.
    pub links: bool,
    /// Record throughput of every host over time.
    pub hosts: bool,
    /// Record throughput, latency and marks of every class of traffic (a flow, a pattern) over time.
    pub classes: bool,
    /// Record congestion trees: their roots and branches over time, who feeds them, and who only suffers.
    pub forest: bool,
}

impl Default for Measure {
    fn default() -> Self {
        Self { interval: Time::from_us(1000), links: true, hosts: true, classes: true, forest: true }
    }
}

/// Which scheduler a run has. The results are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// The binned scheduler where the network allows it.
    #[default]
    Fastest,
    /// The event-ordered scheduler.
    General,
}
