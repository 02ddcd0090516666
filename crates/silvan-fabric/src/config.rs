//! The configuration of a run, without topology and tables. The structs below [`Config`] are tables of the
//! scenario file, so their documentation appears in its JSON Schema and is written for users.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_congestion::isolation::Isolation;
use silvan_congestion::reaction::Reaction;
use silvan_congestion::{Components, Congestion, LinkLayer, Mechanism};
use silvan_engine::{Bytes, Rate, Time};
pub use silvan_network::packet_format::Packet;
use silvan_network::routing::adaptive::Heuristic;
pub use silvan_network::routing::ecmp::Selection;
pub use silvan_network::routing::path_bits::PathBits;
pub use silvan_network::routing::path_states::Retirement;
pub use silvan_network::routing::spraying::Spraying;
use silvan_network::routing::{self, Tables};
use silvan_network::traffic::{Flow, Job, Traffic};

use crate::faults::{Event, Recovery, Rerouting};
use crate::lane_tables::VlArbitration;
use crate::queueing::{HostQueues, Memory, Queues};

/// The configuration of a run, without topology and tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Seed of all random streams.
    pub seed: u64,
    /// Simulated time at which the run ends at the latest.
    pub duration: Time,
    /// Start of the averages in the summary.
    pub warmup: Time,
    /// See [`Packet`].
    pub packet: Packet,
    /// See [`Lanes`].
    pub lanes: Lanes,
    /// See [`FlowControl`].
    pub flow_control: FlowControl,
    /// See [`LinkConfig`].
    pub link: LinkConfig,
    /// See [`SwitchConfig`].
    pub switch: SwitchConfig,
    /// See [`HostConfig`].
    pub host: HostConfig,
    /// See [`Congestion`].
    pub congestion: Congestion,
    /// See [`AdaptiveRouting`]; `None` to use only the forwarding tables.
    pub adaptive_routing: Option<AdaptiveRouting>,
    /// See [`Ecmp`]; `None` to use only the forwarding tables.
    pub ecmp: Option<Ecmp>,
    /// See [`PathBits`]. The tables contain the routes to all LIDs that packets use.
    pub path_bits: PathBits,
    /// The rate at which all ports of a host together inject data, if they share a limit.
    pub shared_injection: Option<Rate>,
    /// Changes of links and hosts during the run.
    pub events: Vec<Event>,
    /// See [`Rerouting`].
    pub rerouting: Rerouting,
    /// See [`Recovery`]; `None` if lost packets are not sent again.
    pub recovery: Option<Recovery>,
    /// Explicit flows.
    pub flows: Vec<Flow>,
    /// Traffic patterns.
    pub traffic: Vec<Traffic>,
    /// Parallel applications.
    pub jobs: Vec<Job>,
    /// See [`ExternalTraffic`]; `None` if all messages are those of the configuration.
    pub external: Option<ExternalTraffic>,
    /// Whether the run ends at the first sample at which all jobs have finished or cannot continue, if before
    /// `duration`. Has no effect with `external`.
    pub ends_with_jobs: bool,
    /// Service levels of paths, and lanes of switches, as required by [`Assignment::Paths`] and
    /// [`Assignment::Routing`].
    pub path_lanes: Option<Arc<routing::Lanes>>,
    /// The tables while any link is down, if [`Rerouting::tables`] names them.
    pub tables_after_faults: Option<Arc<Tables>>,
    /// See [`Measure`].
    pub measure: Measure,
    /// Number of threads that the run may use, if its network can be partitioned.
    pub threads: u16,
    /// See [`Scheduler`].
    pub scheduler: Scheduler,
    /// See [`Engine::skip`].
    pub skip: bool,
    /// Whether departures will be recorded ([`crate::Simulation::record`]).
    pub records: bool,
}

impl Config {
    /// The active components of congestion management.
    #[must_use]
    pub fn components(&self) -> Components {
        self.congestion.components(&self.packet)
    }

    /// The component that makes the network an Ethernet network, in the notation of scenarios; `None` if
    /// there is no such component.
    #[must_use]
    pub fn ethernet(&self) -> Option<String> {
        let is_ethernet = |layer| layer == Some(LinkLayer::Ethernet);
        let parts = self.components();
        if let FlowControl::Pfc(_) = self.flow_control {
            return Some("flow_control.kind = \"pfc\"".to_owned());
        }
        if is_ethernet(parts.marking.link_layer()) {
            return Some(format!("congestion.marking.kind = \"{}\"", parts.marking.kind()));
        }
        let found = parts.reactions().find(|reaction| is_ethernet(reaction.properties().link_layer))?;
        Some(format!("congestion.reaction.kind = \"{}\"", found.kind()))
    }

    /// The order in which outputs serve packets. By default, this is [`Arbitration::Fcfs`] in Ethernet
    /// networks whose switches permit it, and [`Arbitration::RoundRobin`] in others.
    #[must_use]
    pub fn arbitration(&self) -> Arbitration {
        let may_be_fcfs = || {
            let (mechanism, switch, parts) = (self.congestion.mechanism, &self.switch, self.components());
            switch.has_plain_queues(mechanism)
                && parts.isolation == Isolation::None
                && !parts.marking.needs_input_queues()
                && !matches!(self.lanes.assignment, Assignment::Paths | Assignment::Routing)
        };
        self.switch.arbitration.unwrap_or_else(|| {
            if self.ethernet().is_some() && may_be_fcfs() {
                Arbitration::Fcfs
            } else {
                Arbitration::RoundRobin
            }
        })
    }

    /// The adaptive routing of the given type, if it is enabled.
    #[must_use]
    pub fn chosen_routes(&self, per: RoutePer) -> Option<&AdaptiveRouting> {
        self.adaptive_routing.as_ref().filter(|adaptive| adaptive.is_per(per))
    }

    /// How switches hash packets onto the ports of minimal routes; `None` if they do not.
    #[must_use]
    pub fn hashing(&self) -> Option<&Ecmp> {
        self.ecmp.as_ref().filter(|ecmp| ecmp.enabled)
    }

    /// Whether completion times of transfers are recorded; by default, if a traffic pattern has flows of its
    /// own.
    #[must_use]
    pub fn records_transfers(&self) -> bool {
        self.measure.transfers.unwrap_or_else(|| self.traffic.iter().any(Traffic::has_own_flows))
    }

    /// Whether packets may get lost on links or be dropped.
    #[must_use]
    pub fn loses_packets(&self) -> bool {
        let loses = |event: &Event| event.loses_packets(self.link.retry.is_some());
        self.events.iter().any(loses) || self.lossy_lanes() != 0
    }

    /// Virtual lanes whose packets are dropped if they do not fit into a buffer: one bit per lane.
    #[must_use]
    pub fn lossy_lanes(&self) -> u16 {
        match &self.flow_control {
            FlowControl::Pfc(pfc) => pfc.lossy_lanes.iter().fold(0, |lanes, lane| lanes | 1 << (lane & 15)),
            FlowControl::Credits(_) | FlowControl::OnOff(_) => 0,
        }
    }

    /// Whether packets of a flow have different entropy values or path bits.
    #[must_use]
    pub fn sprays(&self) -> bool {
        self.path_bits == PathBits::PerPacket || self.hashing().is_some_and(|ecmp| ecmp.spraying.is_on())
    }

    /// Whether packets of a flow can overtake each other. A packet that is sent again arrives after later
    /// ones.
    #[must_use]
    pub fn may_reorder(&self) -> bool {
        let detours = self.path_lanes.as_ref().is_some_and(|lanes| lanes.bias().is_some());
        let trims = self.switch.trimming.is_some();
        let overtakes = detours || self.chosen_routes(RoutePer::Packet).is_some() || self.sprays();
        overtakes || trims || self.recovery.is_some()
    }

    /// Warnings about traffic for which explicit rates have no benefit, because each message is a single
    /// packet. Each packet is then announced like a flow.
    #[must_use]
    pub fn announced_packets(&self) -> Vec<String> {
        let Reaction::ExplicitRate(_) = self.components().reaction else { return Vec::new() };
        let mtu = self.packet.mtu;
        let is_packet = |least: Option<Bytes>, most: Option<Bytes>| most.or(least).is_none_or(|m| m <= mtu);
        let flows = self.flows.iter().map(|flow| is_packet(flow.message, None));
        let flows = flows.enumerate().map(|(at, single)| (format!("flow.{at}"), single, true));
        let traffic = self.traffic.iter().map(|traffic| match traffic.largest_of_file() {
            Some(largest) => Bytes(largest) <= mtu,
            None => is_packet(traffic.message, traffic.message_max),
        });
        let traffic = traffic.zip(&self.traffic).enumerate().map(|(at, (single, traffic))| {
            (format!("traffic.{at}"), single, traffic.largest_of_file().is_none())
        });
        let single = flows.chain(traffic).filter(|(_, single, _)| *single);
        let warn = |(key, _, has_key)| {
            let advice = if has_key { format!("set {key}.message to") } else { "use messages of".to_owned() };
            format!(
                "{key} announces every packet: its messages have one packet each, and explicit rates \
                 announce and withdraw each message; {advice} more than packet.mtu, {mtu}"
            )
        };
        single.map(warn).collect()
    }
}

/// Messages that a program sends during the run. The run then uses the event-ordered scheduler and one thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExternalTraffic {
    /// Name of the messages in results.
    pub name: String,
}

impl Default for ExternalTraffic {
    fn default() -> Self {
        Self { name: "external".to_owned() }
    }
}

/// Virtual lanes, and the mapping of service levels to them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Lanes {
    /// Number of virtual lanes for data on every link, 1 to 15.
    #[schemars(range(min = 1, max = 15))]
    pub count: u8,
    /// Virtual lane of each service level, starting with level 0. Levels that are not used can be omitted
    /// at the end. Default: the service level modulo `count`.
    #[schemars(length(min = 1, max = 16))]
    pub sl_to_vl: Option<Vec<u8>>,
    /// Virtual lane of control packets, except tear-downs, which stay behind the data of their flow. By
    /// default, an answer to data uses the lane of the data packet, or with service levels of paths, the lane
    /// of its own path. Other control packets use the lane of their flow. Congestion on that lane then also
    /// delays them.
    pub control: Option<u8>,
    /// Whether outputs of switches serve the lane `control` before all others. By default, lanes take turns.
    /// Hosts always send control packets before data.
    pub control_priority: bool,
    /// Tables by which switches and hosts select the lane of the next packet. Hosts then send control packets before the
    /// data of their own lane only. Default: lanes take turns, with one packet per turn.
    pub arbitration: Option<VlArbitration>,
    /// The rule that determines the virtual lane of a data packet.
    pub assignment: Assignment,
    /// File with service levels by pair of hosts, in the format of OpenSM's `path-sl`. The name is relative
    /// to the scenario. Pairs that are not listed have level 0.
    pub path_levels: Option<String>,
    /// File with SL-to-VL tables of switches, in the format of `opensm-sl2vl.dump`. The name is relative to
    /// the scenario. By default, and at switches that are not listed, the lane number is the service level.
    pub tables: Option<String>,
}

impl Lanes {
    /// Number of service levels with which all lanes can be used.
    #[must_use]
    pub fn levels(&self) -> u8 {
        self.sl_to_vl.as_ref().map_or(self.count, |lanes| lanes.len().min(16) as u8)
    }

    /// The virtual lane of a service level, if the service level determines lanes. Levels without an entry have the first lane.
    #[must_use]
    pub fn of_level(&self, level: u8) -> u8 {
        match &self.sl_to_vl {
            Some(map) => map.get(usize::from(level)).copied().unwrap_or(0),
            None => level % self.count.max(1),
        }
    }
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            count: 1,
            sl_to_vl: None,
            control: None,
            control_priority: false,
            arbitration: None,
            assignment: Assignment::ServiceLevel,
            path_levels: None,
            tables: None,
        }
    }
}

/// How a receiver prevents its senders from overflowing its buffers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum FlowControl {
    /// The receiver grants credits for free buffer space, as in InfiniBand and in the credit-based flow
    /// control (CBFC) of Ultra Ethernet. The unit of credits is `packet.credit_block`. Messages with credits
    /// take no space on the link.
    Credits(Credits),
    /// The receiver pauses and resumes the sender at buffer thresholds (Xoff/Xon). Xoff and Xon messages take
    /// no space on the link.
    OnOff(OnOff),
    /// The receiver pauses and resumes virtual lanes of the sender, as in priority flow control (PFC, IEEE
    /// 802.1Q clause 36), where priorities correspond to virtual lanes. It sends frames on the other
    /// direction of the link. A frame waits for the packet that is being sent and states which lanes are
    /// paused when it starts. It takes effect `response_time` after its arrival. A pause lasts until a frame
    /// ends it, so frames that only extend a pause are not modeled.
    Pfc(Pfc),
}

impl Default for FlowControl {
    fn default() -> Self {
        Self::Credits(Credits::default())
    }
}

/// How credits return.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Credits {
    /// Time between two messages that return credits, at most 1 ms. A message returns the credits of all
    /// packets that have left the buffer of the link since the previous one, so a credit is late by up to
    /// this time. Each direction of a link has its own clock with a random phase. Default: each packet
    /// returns its credit immediately. In InfiniBand, 65,536 symbol times pass at most; in Ultra Ethernet,
    /// `CF_MIN_SPACING` to `CF_MAX_SPACING` (specification 1.0, 5.2, as in the CBFC document of the Switch
    /// Abstraction Interface).
    pub return_spacing: Option<Time>,
    /// Credits that the virtual lanes of a link share. Default: each lane has an equal part of the buffer.
    pub shared: Option<SharedCredits>,
}

/// Credits that the virtual lanes of a link share: the credit pool of a sender in Ultra Ethernet (CBFC, as in
/// the document of the Switch Abstraction Interface).
///
/// ```text
///  pool   = buffer of the receiver - reserve of all lanes
///  shared = what a lane uses beyond its reserve
/// ```
///
/// A packet needs credit from the reserve of its lane or from the pool. The pool provides credit if enough is
/// left, and if `shared` of the lane, with the packet, is at most the threshold: `limit`, or the free part of
/// the pool divided by `2^alpha_shift`. One of `k` busy lanes then gets up to `1 / (2^alpha_shift + k)` of
/// the pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SharedCredits {
    /// Credit that each lane has for itself, at least one packet. Default: one full packet.
    pub reserve: Option<Bytes>,
    /// Static threshold: how much of the pool a lane may use.
    pub limit: Option<Bytes>,
    /// Dynamic threshold: a lane may use the free part of the pool, divided by this power of two. Negative
    /// values multiply. With neither threshold, a lane may use all of the pool.
    #[schemars(range(min = -7, max = 10))]
    pub alpha_shift: Option<i8>,
}

/// Errors of links, and how they are repaired. By default, links have no errors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LinkConfig {
    /// The mean number of frames (packets on a link) that are bad when they arrive, per billion, at most half
    /// of them. Each direction of a link draws errors from a separate random stream, for each frame and
    /// independently of its size. Acknowledgements of `retry` get lost with the same probability. Other
    /// messages between the ends of a link have no errors. Errors need `retry`, because no packet may get
    /// lost.
    #[schemars(range(min = 0, max = 500_000_000))]
    pub error_rate_ppb: u32,
    /// Link-level retry: bad frames are sent again over the same link.
    pub retry: Option<LinkRetry>,
}

impl LinkConfig {
    /// Whether links have no errors and no retry.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// Link-level retry (LLR), as in Ultra Ethernet (specification 1.0, 5.1; the LLR document of the Switch
/// Abstraction Interface) and, in this form, in InfiniBand: go-back-N.
///
/// The sender numbers its frames and keeps them in a replay buffer until they are acknowledged. The receiver
/// delivers only the frame with the expected number. For the first other or bad frame, it returns a NACK. It
/// then discards all frames without an answer until the expected frame arrives, except that it acknowledges
/// delivered frames again. After a NACK, the sender first sends all unacknowledged frames again. A bad frame
/// is discarded before any part of it is forwarded. Acknowledgements are cumulative. They take the delay of
/// the link and no space on it. With a frame time `f`, a round trip `R` from the end of a frame to its
/// answer, a probability `p` of errors, and a buffer for `R + f`, the throughput relative to the link is
/// about `(1 - p) / (1 - p + p (1 + R / f))`. The defaults are those of the document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LinkRetry {
    /// Number of frames that the replay buffer of each direction can hold.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub frames: u32,
    /// Bytes that the replay buffer can hold. A sender starts a new frame only if the buffer has room for the
    /// largest one. With less than the link carries in a round trip, throughput is lower.
    pub bytes: Bytes,
    /// If there is no acknowledgement for this time, the sender sends all unacknowledged frames again. Must
    /// be more than the round trip with two frames and an acknowledgement that waits for `ack_spacing`.
    pub timer: Time,
    /// Number of replays without an acknowledgement in between after which the run stops with an error: the
    /// link has failed.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub count: u32,
    /// Minimum interval between two acknowledgements, as the number of bytes that the link transmits in that
    /// time.
    pub ack_spacing: Bytes,
}

impl Default for LinkRetry {
    fn default() -> Self {
        Self {
            frames: 100,
            bytes: Bytes(102_400),
            timer: Time::from_us(10),
            count: 255,
            ack_spacing: Bytes(2_048),
        }
    }
}

/// Thresholds of on/off flow control, for each virtual lane of an input port (thesis, 2.1.4).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OnOff {
    /// Fill above which the sender is paused. Default: the highest value that leaves space for the data in
    /// flight, which depends on the link.
    pub xoff: Option<Bytes>,
    /// Fill at or below which the sender resumes. Default: two full packets below `xoff`, or half of `xoff`
    /// if that is more.
    pub xon: Option<Bytes>,
}

/// Pause frames, and the buffers of receivers with pause frames.
///
/// A receiver must store what arrives until its pause takes effect: the packets that are sent while the frame
/// waits for the largest packet, crosses the link and is processed, those on their way, and one that has just
/// started (IEEE 802.1Q, annex N). By default, this headroom is derived from the delay and the rate of each
/// link:
///
/// ```text
///  headroom = full packet + rate * (largest packet / rate + frame / rate + 2 delay + latency + response_time)
/// ```
///
/// `latency` is the time after which a packet is stored: `switch.latency` at a switch, plus the time of a full
/// packet if the switch stores and forwards, and the time of a full packet at a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Pfc {
    /// Fill of a virtual lane at an input above which the lane is paused. Default: the lane's share of the
    /// buffer minus the headroom.
    pub xoff: Option<Bytes>,
    /// Fill at or below which the lane resumes. Default: two full packets below `xoff`, or half of `xoff` if
    /// that is more.
    pub xon: Option<Bytes>,
    /// Space above `xoff` for each virtual lane of an input. If it is too small, the run stops with an error
    /// when a packet does not fit: only packets on `lossy_lanes` are dropped. Default: derived from the link
    /// and its rates during the run.
    pub headroom: Option<Bytes>,
    /// Bytes of a pause frame on the link. Default: a frame of 64 bytes, the preamble of 8 bytes, and the gap
    /// of 12.
    pub frame: Bytes,
    /// Time from the arrival of a frame until the sender starts no more packets of a paused lane.
    pub response_time: Time,
    /// A lane that is paused for at least this time without interruption is reported. Default: no lane is
    /// reported.
    pub watchdog: Option<Time>,
    /// The reaction if the watchdog reports a lane: a warning at the end of the run, or an error.
    pub watchdog_action: WatchdogAction,
    /// Memory that all inputs of a switch share, with thresholds that depend on its free space. Default: each
    /// input has its own memory, with fixed thresholds.
    pub shared: Option<SharedMemory>,
    /// Virtual lanes that are never paused: a packet that does not fit into its lane's memory is dropped.
    /// Without shared memory, this is the lane's share of the buffer of its input. With shared memory, it is
    /// the memory below the threshold, because these lanes have no headroom. Packets on other lanes are never
    /// dropped.
    #[schemars(inner(range(max = 15)))]
    pub lossy_lanes: Vec<u8>,
}

impl Default for Pfc {
    fn default() -> Self {
        Self {
            xoff: None,
            xon: None,
            headroom: None,
            frame: Bytes(84),
            response_time: Time::ZERO,
            watchdog: None,
            watchdog_action: WatchdogAction::Warn,
            shared: None,
            lossy_lanes: Vec::new(),
        }
    }
}

/// The reaction if a lane is paused for too long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WatchdogAction {
    /// The results contain a warning.
    #[default]
    Warn,
    /// The run stops with an error at the next sample. The error states when the pause reached the limit.
    Stop,
}

/// Memory that the inputs of a switch share, with dynamic thresholds, in the manner of the switch model of
/// HPCC (SIGCOMM 2019) and of merchant switches (Choudhury and Hahne, IEEE/ACM ToN 1998).
///
/// ```text
///  free      = memory - headroom and reserve of all inputs and lanes - shared bytes in use
///  threshold = free / 2^alpha_shift
/// ```
///
/// Each lane of an input first uses its reserve, then shared memory up to the threshold. A packet beyond the
/// threshold, or beyond the free memory, uses the headroom of the lane. A packet that leaves frees headroom
/// first. After an arrival, a lane is paused if it uses headroom, or at least `threshold` bytes of shared
/// memory. After a departure, a lane resumes if it uses no headroom, and either no shared memory or at most
/// the threshold minus `resume_offset`. Thresholds of hosts are fixed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SharedMemory {
    /// Memory of a switch, which contains the headroom and the reserve of all its inputs. In some simulators,
    /// the memory to share does not contain the headroom: give the sum here. `silvan check` prints what is
    /// left to share. Default: `switch.buffer` for each of its connected ports.
    pub memory: Option<Bytes>,
    /// The threshold is the free memory divided by this power of two. Negative values multiply.
    #[schemars(range(min = -7, max = 10))]
    pub alpha_shift: i8,
    /// Whether the threshold of an input doubles for each doubling of the rate of its link over the slowest
    /// link.
    pub alpha_by_rate: bool,
    /// Memory that is reserved for each virtual lane of an input.
    pub reserve: Bytes,
    /// How far below the threshold the shared bytes of a lane must be when it resumes.
    pub resume_offset: Bytes,
    /// Headroom that all inputs and lanes of a switch have together. Default: the sum of their headrooms.
    /// With less, the run stops with an error if the pool is exhausted.
    pub headroom_pool: Option<Bytes>,
}

impl Default for SharedMemory {
    fn default() -> Self {
        Self {
            memory: None,
            alpha_shift: 3,
            alpha_by_rate: false,
            reserve: Bytes(4_096),
            resume_offset: Bytes(3_072),
            headroom_pool: None,
        }
    }
}

/// The rule that determines the virtual lane of a data packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Assignment {
    /// The service level of the packet, mapped by `sl_to_vl`.
    ServiceLevel,
    /// The number of the destination (from 0), modulo the number of lanes other than `control`.
    Destination,
    /// The index of the destination among the destinations that share an output port of the first switch,
    /// modulo the number of lanes other than `control`. Destinations that would share queues on the way up
    /// get separate lanes (vFtree, thesis 2.3.1).
    Vftree,
    /// The service level of the path, from `path_levels`, mapped by the SL-to-VL tables of each switch on
    /// the route, from `tables`: the configuration of a subnet manager. The packet keeps its service level
    /// but may change lanes on its route. On links of hosts, `sl_to_vl` determines the lane.
    Paths,
    /// The route, by a rule of the routing that prevents packets from waiting for each other in a cycle:
    /// datelines for `dimension-order` on tori (2 lanes); one more lane after each link between groups for
    /// `minimal` (2 lanes in a dragonfly) and `valiant` (3 in a dragonfly, 2 in a dragonfly+). A packet may
    /// change lanes on its route. On links of hosts, it has the lane of service level 0, or of the level of
    /// its path.
    Routing,
}

/// Adaptive routing: switches select routes per flow (a flow is a message), by set-up packets that precede
/// the flow, or per packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdaptiveRouting {
    /// Whether adaptive routing is enabled. Useful for studies that compare runs with and without it.
    pub enabled: bool,
    /// Whether a route is selected per flow or per packet.
    pub per: RoutePer,
    /// The criterion by which a switch compares its ports (per flow). Default: `flow-count`.
    pub heuristic: Option<Heuristic>,
    /// Number of flows in the route cache of an input port; further flows use the default port. Default:
    /// unlimited.
    #[schemars(range(max = 1_048_576))]
    pub cache: Option<u32>,
    /// Loads that differ by less than this are considered equal (per packet). Default: a full packet.
    pub grade: Option<Bytes>,
    /// Service levels whose data packets are routed adaptively (per packet). Other levels use the ports of
    /// the tables. Default: all levels.
    #[schemars(length(min = 1, max = 16), inner(range(max = 15)))]
    pub levels: Option<Vec<u8>>,
    /// Data packets that use the ports of the tables in spite of adaptive routing (per packet).
    pub pinned: Vec<Pinned>,
}

/// Whether a route is selected per flow or per packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RoutePer {
    /// For each flow, by a packet that precedes it; on fat trees (Zdornov and Birk, SYSTOR 2009).
    #[default]
    Flow,
    /// For each packet, at each switch: among the ports on a shortest route to the destination, the least
    /// loaded one. The load is the data that waits for the port plus the occupied space of the buffer at its
    /// far end. See also `host.delivery`.
    Packet,
}

/// Data packets that use the ports of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pinned {
    /// Packets of flows that the reaction throttles at the time of sending.
    Throttled,
    /// Packets for destinations on a CAM line of a switch, at that switch.
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
    /// Whether adaptive routing is enabled and of the given type.
    #[must_use]
    pub fn is_per(&self, per: RoutePer) -> bool {
        self.enabled && self.per == per
    }

    /// Whether these packets use the ports of the tables.
    #[must_use]
    pub fn pins(&self, what: Pinned) -> bool {
        self.pinned.contains(&what)
    }
}

/// Equal-cost multipath (ECMP): each switch hashes packets onto all ports that lead to the destination by the
/// fewest hops. The hash covers the sending and the receiving host and the number of the traffic source, so
/// all packets of a flow take one route, unless hosts spray packets. Each switch has a salt from its own
/// random stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ecmp {
    /// Whether switches hash packets. Useful for studies that compare runs with and without it.
    pub enabled: bool,
    /// How hosts select the entropy value of each packet, which switches also hash.
    pub spraying: Spraying,
    /// Number of entropy values of a flow (with `spraying`), a power of two.
    #[schemars(range(min = 1, max = 32_768))]
    pub values: u16,
    /// How switches select ports with the entropy values (with `spraying`).
    pub selection: Selection,
    /// How values are retired after losses, and restored (with the spraying `path-states`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retirement: Option<Retirement>,
}

impl Default for Ecmp {
    fn default() -> Self {
        Self {
            enabled: true,
            spraying: Spraying::None,
            values: 64,
            selection: Selection::Hash,
            retirement: None,
        }
    }
}

/// Architecture, queues and buffers of switches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SwitchConfig {
    /// Read ports, buffers and arbitration. The default depends on the mechanism: `iq` for `fbicm` and
    /// `ccfit`, `cioq` for `renato`, `pfister` and `mvcm`, `voq` for all others.
    pub architecture: Option<Architecture>,
    /// The order in which an output serves packets (`voq` architecture). The default depends on the link
    /// layer: `fcfs` if a component of the scenario is one of Ethernet, `round-robin` otherwise. Components
    /// of Ethernet are pause frames (`flow_control.kind = "pfc"`), the marking rules `red`, `telemetry` and
    /// `sampled`, and the reactions that adapters for Ethernet have, such as `dcqcn` or `nscc`. Switches
    /// whose queues do not permit `fcfs`, such as those with special queues, serve inputs round robin.
    pub arbitration: Option<Arbitration>,
    /// How an input buffer is divided into queues. The default depends on the mechanism: `single` for
    /// `fbicm` and `ccfit` and with `cioq` switches, `per-output` otherwise.
    pub queues: Option<Queues>,
    /// Queues per input and virtual lane, for organizations with a configurable number
    /// (`destination-modulo`, `output-modulo`).
    #[schemars(range(min = 1, max = 1024))]
    pub queue_count: u16,
    /// Whether the queues of an input share its memory. Default: shared if there is one queue, or one per
    /// output; divided otherwise.
    pub memory: Option<Memory>,
    /// Memory of each queue if the input's memory is divided. Default: equal parts of that memory, which must
    /// each hold a full packet.
    pub queue_buffer: Option<Bytes>,
    /// Memory of an input port, for all virtual lanes together.
    pub buffer: Bytes,
    /// Time from the arrival of a packet's head to its earliest departure. In a store-and-forward switch, time
    /// from the arrival of its tail.
    pub latency: Time,
    /// Whether a switch can forward a packet before all of it has arrived.
    pub forwarding: ForwardingMode,
    /// Memory of an output port, for all virtual lanes together (`cioq` architecture). Default: the same as
    /// for an input.
    pub output_buffer: Option<Bytes>,
    /// Rate at which an input's read port transfers a packet (`iq` and `cioq` architectures). Default: the
    /// rate of the output link (`iq`), or twice the rate of the fastest link (`cioq`). With a faster
    /// crossbar, the read port is free before the packet has left, and the packet waits at its output.
    pub crossbar: Option<Rate>,
    /// Iterations of iSLIP per matching (`iq` architecture). A matching is computed when the state of the
    /// switch changes: a packet arrives, a port becomes free, or credit returns.
    #[schemars(range(min = 1, max = 16))]
    pub islip_iterations: u8,
    /// Size of a cell (`iq` architecture). If the iterations leave a pair of free ports unmatched, the
    /// matching is repeated after the time of a cell at the rate of the read ports. With 0, the pair waits
    /// for the next change.
    pub islip_cell: Bytes,
    /// Whether control packets, except tear-downs, precede the data of their input. The default depends on
    /// the mechanism: true for `ccfit`, false otherwise.
    pub control_first: Option<bool>,
    /// Whether outputs have queues of limited size without flow control, and trim the packets that do not
    /// fit. Default: switches do not trim packets, and flow control applies.
    pub trimming: Option<Trimming>,
}

impl SwitchConfig {
    /// The architecture for a mechanism.
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

    /// The queues for a mechanism.
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

    /// Whether each input has a queue in shared memory for each output, which `fcfs` needs.
    #[must_use]
    pub fn has_plain_queues(&self, mechanism: Mechanism) -> bool {
        self.architecture(mechanism) == Architecture::Voq
            && self.queues(mechanism) == Queues::PerOutput
            && self.memory(mechanism) == Memory::Shared
    }

    /// Whether control packets precede data for a mechanism.
    #[must_use]
    pub fn control_first(&self, mechanism: Mechanism) -> bool {
        self.control_first.unwrap_or(mechanism == Mechanism::Ccfit)
    }
}

impl Default for SwitchConfig {
    fn default() -> Self {
        Self {
            architecture: None,
            arbitration: None,
            queues: None,
            queue_count: 8,
            memory: None,
            queue_buffer: None,
            buffer: Bytes(131_072),
            latency: Time::from_ns(100),
            forwarding: ForwardingMode::CutThrough,
            output_buffer: None,
            crossbar: None,
            islip_iterations: 1,
            islip_cell: Bytes(64),
            control_first: None,
            trimming: None,
        }
    }
}

/// Packet trimming, as in Ultra Ethernet: an output whose queue is full removes the payload of a data packet,
/// and sends the header ahead of all data. The receiver answers the header with a negative acknowledgement,
/// and the source sends the packet again. Needs a lane for headers and other control packets (`lanes.control`
/// with `control_priority`), and the reaction `nscc` or `rccc`. If outputs do not serve first come, first
/// served (`switch.arbitration`), the limit applies to the packets in all queues that feed the output.
///
/// With trimming, there is no flow control: receivers give no credits, and `switch.buffer` and `host.buffer`
/// do not apply. A packet waits only for its output. Queues of headers have no limit, so switches drop no
/// headers and no control packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trimming {
    /// Bytes of data that may wait for an output on each virtual lane, at least a full packet. The packet
    /// that is being sent does not count.
    pub queue: Bytes,
    /// Queues of the outputs to links of some rates, instead of `queue`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<QueueOfRate>,
    /// Bytes of a header on the link.
    #[serde(default = "header_size")]
    pub size: Bytes,
    /// Which packet loses its payload. Default: `either` with outputs that serve first come, first served,
    /// and `arriving` with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub which: Option<Trimmed>,
}

impl Trimming {
    /// Which packet loses its payload if outputs serve packets in this order.
    #[must_use]
    pub fn which(&self, arbitration: Arbitration) -> Trimmed {
        self.which.unwrap_or(match arbitration {
            Arbitration::Fcfs => Trimmed::Either,
            Arbitration::RoundRobin => Trimmed::Arriving,
        })
    }
}

/// The queue of outputs to links of one rate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueOfRate {
    /// The rate of the link.
    pub rate: Rate,
    /// Bytes of data that may wait for the output on each virtual lane, at least a full packet.
    pub queue: Bytes,
}

fn header_size() -> Bytes {
    Bytes(64)
}

/// Which packet loses its payload if the queue of an output is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Trimmed {
    /// The packet that arrives or the newest one in the queue, with equal probability. The newest one is
    /// trimmed only if this makes enough room. The random choice avoids a bias against sources whose packets
    /// always arrive just after those of other sources. Requires outputs that serve first come, first served.
    Either,
    /// The packet that arrives.
    Arriving,
}

/// The order in which an output serves packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arbitration {
    /// The output serves its inputs round robin.
    RoundRobin,
    /// First come, first served, regardless of the input.
    Fcfs,
}

/// When a switch handles a packet: selects its route, queues and marks it, counts it as stored for pause
/// frames, and sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ForwardingMode {
    /// Virtual cut-through: `switch.latency` after the arrival of the packet's head. To a faster link, a
    /// packet starts so late that its tail arrives in time.
    CutThrough,
    /// `switch.latency` after the arrival of the packet's tail, which is one transmission time on the incoming
    /// link later.
    StoreAndForward,
}

/// Read ports and arbitration of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Architecture {
    /// InfiniBand VOQ switch: one read port per queue, so an input can send to several outputs at the same
    /// time; each output serves its inputs round robin.
    Voq,
    /// Input-queued switch: one read port per input, matched to outputs by iSLIP.
    Iq,
    /// Combined input and output queues with a faster crossbar: one read port per input, one write port per
    /// output.
    Cioq,
}

/// How hosts send and receive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostConfig {
    /// Maximum injection rate. Default: the rate of the host's link.
    pub injection_rate: Option<Rate>,
    /// Whether the injection rate also limits control packets, such as notifications and acknowledgements.
    /// Control packets still precede data. The time per message (`message_overhead`) delays only data.
    /// InfiniBand does not determine this: annex A10 of its specification only demands that a channel adapter
    /// returns notifications as soon as possible. Default: false, because the rate is usually that of the bus
    /// of a host, and the adapter itself generates these packets.
    pub injection_includes_control: bool,
    /// Maximum rate at which a host drains its input buffer. Default: the rate of the host's link.
    pub drain_rate: Option<Rate>,
    /// Memory of the input port, for all virtual lanes together.
    pub buffer: Bytes,
    /// Time that a host needs per message in addition to sending its packets (the inverse of its maximum
    /// message rate).
    pub message_overhead: Time,
    /// How the buffer between a host's queues per destination and its link is divided. With `none`, there is
    /// no such buffer, and destinations never wait for each other. Default: `single` with special queues,
    /// `none` otherwise.
    pub queues: Option<HostQueues>,
    /// Memory of the buffer that `queues` divides, for all virtual lanes together; with queues per
    /// destination, memory of each queue.
    pub output_buffer: Bytes,
    /// When a packet that overtook an earlier one of its flow counts as delivered.
    pub delivery: Delivery,
}

/// When a packet that overtook an earlier one of its flow counts as delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// When the packet and all earlier packets of its flow have been drained. Until then, the packet waits in the
    /// memory of the host.
    #[default]
    InOrder,
    /// When the packet has been drained. Only the last packet of a message waits for all earlier packets of its
    /// flow, because it completes the message.
    OutOfOrder,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            injection_rate: None,
            injection_includes_control: false,
            drain_rate: None,
            buffer: Bytes(65_536),
            message_overhead: Time::ZERO,
            queues: None,
            output_buffer: Bytes(65_536),
            delivery: Delivery::InOrder,
        }
    }
}

/// Which quantities are recorded over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Measure {
    /// Length of a sampling interval of all time series. A run has at most a million intervals.
    pub interval: Time,
    /// Record utilization, buffer fill and marks of every switch output over time.
    pub links: bool,
    /// Record throughput of every host over time.
    pub hosts: bool,
    /// Record throughput, latency and marks of every class of traffic (such as a flow or a pattern) over
    /// time.
    pub classes: bool,
    /// Record congestion trees over time: roots, branches, contributors and victims.
    pub forest: bool,
    /// Record the CongestionLog of InfiniBand: for each switch, the latest 15 packets that it marked; for
    /// each host, the latest 13 notifications that raised the index of a flow or service level to
    /// `trigger_threshold` (a parameter of the reaction `cct`).
    pub congestion_log: bool,
    /// Record the completion times of transfers: of each message of a flow or pattern. Each has a row in the
    /// table `transfers`, up to two million rows, and the summary has quantiles of their slowdowns by size.
    /// Default: true if any traffic has `sizes`, `outstanding`, or the pattern `listed` or `incast`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfers: Option<bool>,
}

impl Default for Measure {
    fn default() -> Self {
        Self {
            interval: Time::from_us(1000),
            links: true,
            hosts: true,
            classes: true,
            forest: true,
            congestion_log: false,
            transfers: None,
        }
    }
}

/// How a run is simulated. The results do not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Engine {
    /// Whether to skip work of jobs that repeats earlier work exactly, and to state in the summary what was skipped
    /// (docs/performance.md). The run then uses the event-ordered scheduler and one thread. Default: false.
    pub skip: bool,
}

impl Engine {
    /// Whether the value is the default.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The scheduler of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// The scheduler that is probably faster: the binned one if it supports the scenario, unless the network
    /// is small.
    #[default]
    Auto,
    /// Switches and hosts act at events, which one queue orders by time.
    EventOrdered,
    /// Outputs of switches act in intervals of time (bins). An error if the network, flow control,
    /// notification or traffic does not permit it.
    Binned,
    /// The binned scheduler if it supports the scenario, even for small networks. For tests.
    #[serde(skip)]
    BinnedIfPossible,
}

impl Scheduler {
    /// Whether the value is the default.
    #[must_use]
    pub fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adaptive_routing_applies_only_if_it_is_enabled() {
        let adaptive = |enabled, per| AdaptiveRouting { enabled, per, ..AdaptiveRouting::default() };
        let is = |enabled| {
            let flow = adaptive(enabled, RoutePer::Flow);
            let packet = adaptive(enabled, RoutePer::Packet);
            [&flow, &packet].map(|one| [RoutePer::Flow, RoutePer::Packet].map(|per| one.is_per(per)))
        };
        assert_eq!(is(true), [[true, false], [false, true]]);
        assert_eq!(is(false), [[false; 2]; 2]);
        let pinned = AdaptiveRouting { pinned: vec![Pinned::Isolated], ..AdaptiveRouting::default() };
        assert_eq!([Pinned::Throttled, Pinned::Isolated].map(|what| pinned.pins(what)), [false, true]);
    }

    #[test]
    fn mechanisms_have_the_switches_that_they_were_designed_for() {
        let of = |mechanism| {
            let switch = SwitchConfig::default();
            (switch.architecture(mechanism), switch.queues(mechanism), switch.memory(mechanism))
        };
        use Mechanism::{Ccfit, Ecocc, Fbicm, Hfdi, IbCc, Mvcm, Pfister, Qcn, Renato, Saa};
        for mechanism in [Mechanism::None, IbCc, Hfdi, Ecocc, Saa, Qcn] {
            assert_eq!(
                of(mechanism),
                (Architecture::Voq, Queues::PerOutput, Memory::Shared),
                "{mechanism:?}"
            );
        }
        for mechanism in [Fbicm, Ccfit] {
            assert_eq!(of(mechanism), (Architecture::Iq, Queues::Single, Memory::Shared), "{mechanism:?}");
        }
        for mechanism in [Renato, Pfister, Mvcm] {
            assert_eq!(of(mechanism), (Architecture::Cioq, Queues::Single, Memory::Shared), "{mechanism:?}");
        }
        let first = |mechanism| SwitchConfig::default().control_first(mechanism);
        assert_eq!([Ccfit, Fbicm, IbCc].map(first), [true, false, false]);
        let divided = SwitchConfig { queues: Some(Queues::PerDestination), ..SwitchConfig::default() };
        assert_eq!(divided.memory(IbCc), Memory::Divided);
    }
}
