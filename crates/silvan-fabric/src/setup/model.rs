//! The resolved configuration of a network, in which all presets and defaults are evaluated, sizes are in
//! bytes, and buffers are in whole credit blocks. Settings that need no resolution are read from the given
//! configuration.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use silvan_congestion::Components;
use silvan_congestion::isolation::Isolation;
use silvan_congestion::unfit::{Limits, Unfit};
use silvan_engine::units::BytePace;
use silvan_engine::{Bytes, Rate, Time};
use silvan_network::port::Vl;
use silvan_network::routing::Tables;
use silvan_network::routing::adaptive::Heuristic;
use silvan_network::topology::Topology;
use silvan_network::traffic::{Pattern, Traffic};

use super::offered::{self, Offered, OfferedFlow};
use super::pfc::PauseModel;
use super::round_trip::RoundTrips;
use super::{HostNames, small};
use crate::config::{
    AdaptiveRouting, Arbitration, Architecture, Assignment, Config, Credits, FlowControl, ForwardingMode,
    Pinned, QueueOfRate, RoutePer, SwitchConfig, Trimmed, Trimming,
};
use crate::error::{Reason, SetupError};
use crate::host::PacketSizes;
use crate::lane_tables::LaneTables;
use crate::queueing::isolation::SpecialQueueRule;
use crate::queueing::{HostQueues, Memory, Organisation, Queues};
use crate::trimming::TrimmingRule;

/// A rate that imposes no limit.
const UNLIMITED: Rate = Rate(u64::MAX);

/// The pace of a limit; instantaneous without one.
fn pace_up_to(limit: Rate) -> BytePace {
    if limit == UNLIMITED { BytePace::INSTANT } else { limit.pace() }
}

/// The resolved settings of a network and its traffic.
pub(super) struct Model<'a> {
    /// The settings as they were given.
    pub config: &'a Config,
    pub sizes: PacketSizes,
    /// Buffer space that a full packet occupies, in bytes.
    pub full_space: u32,
    pub lanes: LaneModel,
    pub switch: SwitchModel,
    /// The pace at which packets are read from inputs of switches; `None` means the pace of the link on which
    /// a packet leaves. Always present with output buffers.
    pub crossbar: Option<BytePace>,
    pub host: HostModel,
    /// How receivers stop their senders; `None` with credits.
    pub pauses: Option<PauseModel>,
    /// The settings of credits; `None` with another flow control.
    pub credits: Option<&'a Credits>,
    /// The components of congestion management in effect.
    pub parts: Components,
    /// For each host with a separate reaction, the index of its setting in `parts.hosts`.
    pub own_reactions: FxHashMap<u32, usize>,
    /// The rule of special queues, if there are any.
    pub special: Option<Arc<SpecialQueueRule>>,
    /// The longest round trip between hosts with traffic, if a reaction or the marking rule needs it.
    pub round_trips: Option<RoundTrips>,
    /// How routes of flows are selected, if routing is adaptive per flow.
    pub flow_routes: Option<FlowChoice>,
    /// How routes of packets are selected, if routing is adaptive per packet.
    pub packet_routes: Option<PacketChoice>,
    pub flows: Vec<OfferedFlow>,
    pub traffic: Vec<Offered<'a>>,
}

/// The assignment of virtual lanes.
pub(super) struct LaneModel {
    pub count: u8,
    /// The lane of control packets; `None` if they use the lane of the packets that they answer.
    pub control: Option<u8>,
    /// The lane that outputs of switches serve before all others; `None` without such a lane.
    pub first: Option<u8>,
    /// The tables of all ports; `None` if lanes take turns with single packets.
    pub tables: Option<Arc<LaneTables>>,
    /// The lanes of data packets: all except the control lane, or lane 0 if no other lane exists.
    pub data: Vec<u8>,
    pub assignment: Assignment,
    /// The lane of each service level.
    of_level: [u8; 16],
}

/// The settings that all switches share.
pub(super) struct SwitchModel {
    pub architecture: Architecture,
    pub arbitration: Arbitration,
    pub queues: Queues,
    pub organisation: Organisation,
    /// Whether the queues of an input share its memory.
    pub shared: bool,
    /// Memory of each queue in bytes, if memory is divided and this size is configured. Otherwise, all queues
    /// have equal shares.
    pub queue_buffer: Option<Bytes>,
    /// Memory of an input, in bytes per virtual lane. With packet trimming, the default limit of a queue.
    pub lane: u32,
    /// Memory of an output, in bytes per virtual lane. Unlimited with packet trimming.
    pub output_lane: u32,
    pub latency: Time,
    /// Whether switches handle packets when their tails have arrived.
    pub stores: bool,
    pub islip_iterations: u8,
    /// Bytes of a cell of iSLIP. A matching is repeated after the transmission time of a cell; zero means no
    /// repetition.
    pub islip_cell: u32,
    pub control_first: bool,
    /// Packet trimming, if switches trim packets.
    pub trimming: Option<TrimmingRule>,
    /// Limits of queues in bytes for outputs of particular rates, with packet trimming.
    pub queues_of_rates: Box<[(Rate, u32)]>,
}

/// The settings that all hosts share.
pub(super) struct HostModel {
    /// Memory of the input, in bytes per virtual lane.
    pub lane: u32,
    injection: Rate,
    /// Whether control packets pass the injection limit.
    pub limits_control: bool,
    drain: Rate,
    pub message_overhead: Time,
    /// The organization of the output buffer, and the bytes of each queue and virtual lane; `None` without
    /// such a buffer.
    pub output: Option<(Organisation, u32)>,
}

/// How routes of flows are selected.
#[derive(Clone, Copy)]
pub(super) struct FlowChoice {
    pub heuristic: Heuristic,
    /// Maximum number of flows in the route cache of an input port; `None` for no limit.
    pub cache: Option<u32>,
}

/// How routes of packets are selected.
pub(super) struct PacketChoice {
    /// The unit in which loads are compared, in bytes.
    pub grade: u32,
    /// Service levels whose data packets are routed adaptively, one bit per level.
    pub levels: u16,
    pub pins_throttled: bool,
    pub pins_isolated: bool,
}

/// Checks settings that do not depend on the network: the sizes of packets and buffers, packet trimming, and
/// the requirements of the components of congestion management. Flow control and the number of classes are
/// checked later.
///
/// # Errors
/// A [`SetupError`] with the first key whose value is invalid.
pub fn check(config: &Config) -> Result<(), SetupError> {
    let sizes = packet_sizes(config)?;
    let switch = SwitchModel::new(config, sizes)?;
    let parts = config.components();
    HostModel::new(config, sizes, parts.isolation != Isolation::None)?;
    check_components(&parts, sizes, &switch)
}

fn packet_sizes(config: &Config) -> Result<PacketSizes, SetupError> {
    let packet = &config.packet;
    Ok(PacketSizes {
        mtu: small(packet.mtu, "packet.mtu")?,
        header: small(packet.header, "packet.header")?,
        control: small(packet.control, "packet.control")?,
        credit_block: small(packet.credit_block, "packet.credit_block")?.max(1),
    })
}

/// Checks that the switch and the other components meet the requirements of the marking rule and the
/// reaction, and that the parameters of both are valid.
fn check_components(
    components: &Components,
    sizes: PacketSizes,
    switch: &SwitchModel,
) -> Result<(), SetupError> {
    let Components { marking, notification, reaction, .. } = components;
    let properties = reaction.properties();
    if marking.needs_output_buffers() && switch.architecture != Architecture::Cioq {
        return Err(Reason::NoOutputBuffers.at("congestion.marking.kind"));
    }
    if properties.needs_grants && !notification.grants() {
        return Err(Reason::NoGrants.at("congestion.notification"));
    }
    if properties.needs_acknowledgements && !notification.acknowledges_each() {
        return Err(Reason::NoAcknowledgements.at("congestion.notification"));
    }
    if properties.needs_telemetry && !marking.stamps() {
        return Err(Reason::NoTelemetry.at("congestion.marking.kind"));
    }
    if let (Some(_), false) =
        (switch.trimming, components.reactions().all(|reaction| reaction.properties().handles_loss))
    {
        return Err(Reason::NoRetransmission.at("congestion.reaction.kind"));
    }
    let limits = Limits {
        lane: Bytes(u64::from(switch.lane)),
        full: Bytes(u64::from(sizes.mtu) + u64::from(sizes.header)),
    };
    let of = |component: &'static str| {
        move |unfit: Unfit| Reason::Component(unfit.what).at(format!("congestion.{component}.{}", unfit.key))
    };
    marking.check(&limits).map_err(of("marking"))?;
    reaction.check(&limits).map_err(of("reaction"))?;
    let of_hosts = |unfit: Unfit| Reason::Component(unfit.what).at(format!("congestion.{}", unfit.key));
    components.check_hosts(&limits).map_err(of_hosts)
}

/// Checks that the class number of a packet has enough bits for all classes. The roles of a forest are up to
/// three classes.
fn check_classes(config: &Config) -> Result<(), SetupError> {
    let of_pattern = |traffic: &Traffic| if matches!(traffic.pattern, Pattern::Forest(_)) { 3 } else { 1 };
    let patterns: usize = config.traffic.iter().map(of_pattern).sum();
    let applications = config.jobs.len() + usize::from(config.external.is_some());
    if config.flows.len() + patterns + applications > usize::from(u16::MAX) {
        return Err(Reason::TooManyClasses.at("traffic"));
    }
    Ok(())
}

/// The pace of a crossbar, which must not be slower than the fastest link; see [`Model::crossbar`].
fn crossbar(
    config: &Config,
    topology: &Topology,
    architecture: Architecture,
) -> Result<Option<BytePace>, SetupError> {
    let fastest = topology.links.iter().map(|link| link.rate).max().unwrap_or_default();
    match config.switch.crossbar {
        Some(crossbar) if crossbar < fastest => {
            Err(Reason::SlowCrossbar { fastest }.of("switch.crossbar", crossbar))
        }
        None if architecture == Architecture::Cioq => Ok(Some(Rate(2 * fastest.0).pace())),
        given => Ok(given.map(Rate::pace)),
    }
}

/// See [`Model::own_reactions`].
fn own_reactions(parts: &Components, topology: &Topology) -> Result<FxHashMap<u32, usize>, SetupError> {
    let mut found = FxHashMap::default();
    if parts.hosts.is_empty() {
        return Ok(found);
    }
    let names = HostNames::new(topology);
    for (index, setting) in parts.hosts.iter().enumerate() {
        let hosts = names.find_all(&setting.at, &format!("congestion.hosts.{index}.at"))?;
        found.extend(hosts.into_iter().map(|host| (host, index)));
    }
    Ok(found)
}

impl<'a> Model<'a> {
    /// Resolves a configuration for its network.
    pub fn new(topology: &Topology, tables: &Tables, config: &'a Config) -> Result<Self, SetupError> {
        check_classes(config)?;
        let sizes = packet_sizes(config)?;
        let lanes = LaneModel::new(config);
        let parts = config.components();
        let switch = SwitchModel::new(config, sizes)?;
        check_components(&parts, sizes, &switch)?;
        let special = match &parts.isolation {
            Isolation::None => None,
            Isolation::SpecialQueues(special) => {
                Some(Arc::new(SpecialQueueRule::new(special, sizes.mtu + sizes.header)))
            }
        };
        let trips = || RoundTrips::new(topology, tables, config);
        let needs_round_trip = parts.reactions().any(|reaction| reaction.properties().needs_round_trip)
            || parts.marking.needs_round_trip();
        let packet_routes = config.chosen_routes(RoutePer::Packet);
        let flow_routes = config.chosen_routes(RoutePer::Flow).map(|adaptive| FlowChoice {
            heuristic: adaptive.heuristic.unwrap_or_default(),
            cache: adaptive.cache,
        });
        Ok(Self {
            config,
            sizes,
            full_space: sizes.space(sizes.mtu + sizes.header),
            crossbar: crossbar(config, topology, switch.architecture)?,
            switch,
            host: HostModel::new(config, sizes, special.is_some())?,
            pauses: PauseModel::new(config)?,
            credits: match &config.flow_control {
                FlowControl::Credits(credits) => Some(credits),
                FlowControl::OnOff(_) | FlowControl::Pfc(_) => None,
            },
            round_trips: needs_round_trip.then(trips),
            own_reactions: own_reactions(&parts, topology)?,
            parts,
            special,
            flow_routes,
            packet_routes: packet_routes.map(|adaptive| PacketChoice::new(adaptive, sizes)),
            flows: offered::flows(config, topology)?,
            traffic: offered::patterns(config, topology)?,
            lanes,
        })
    }
}

impl LaneModel {
    fn new(config: &Config) -> Self {
        let given = &config.lanes;
        let count = given.count.max(1);
        let data: Vec<u8> = (0..count).filter(|&vl| given.control != Some(vl)).collect();
        let control = given.control.map(|lane| lane.min(count - 1));
        Self {
            count,
            control,
            first: control.filter(|_| given.control_priority && count > 1),
            tables: given
                .arbitration
                .as_ref()
                .filter(|_| count > 1)
                .map(|given| Arc::new(LaneTables::new(given, count))),
            data: if data.is_empty() { vec![0] } else { data },
            assignment: given.assignment,
            of_level: std::array::from_fn(|level| given.of_level(level as u8).min(count - 1)),
        }
    }

    /// The virtual lane of a service level from 0 to 15.
    pub fn of(&self, level: u8) -> u8 {
        self.of_level[usize::from(level & 15)]
    }

    /// The virtual lanes of all service levels.
    pub fn of_levels(&self) -> [u8; 16] {
        self.of_level
    }
}

/// A virtual lane's share of a port's memory in bytes, in whole credit blocks. Unlimited with packet
/// trimming. Fails if the largest packet does not fit.
fn lane_share(config: &Config, sizes: PacketSizes, buffer: Bytes, key: &str) -> Result<u32, SetupError> {
    if config.switch.trimming.is_some() {
        return Ok(crate::link::UNLIMITED);
    }
    let lanes = u32::from(config.lanes.count.max(1));
    let per_lane = small(buffer, key)? / lanes;
    let whole = per_lane / sizes.credit_block * sizes.credit_block;
    let needed = sizes.space(sizes.mtu + sizes.header).max(sizes.space(sizes.control));
    if whole < needed {
        let share = buffer.0 / u64::from(lanes);
        return Err(Reason::TooSmall { share, lanes, queues: 1, needed }.of(key, buffer));
    }
    Ok(whole)
}

impl SwitchModel {
    fn new(config: &Config, sizes: PacketSizes) -> Result<Self, SetupError> {
        let (given, mechanism) = (&config.switch, config.congestion.mechanism);
        let (architecture, queues) = (given.architecture(mechanism), given.queues(mechanism));
        let output_buffer = given.output_buffer.unwrap_or(given.buffer);
        let needed = sizes.space(sizes.mtu + sizes.header);
        if let Some(size) = given.queue_buffer
            && !(u64::from(needed)..=1 << 30).contains(&size.0)
        {
            return Err(Reason::QueueBuffer { needed }.of("switch.queue_buffer", size));
        }
        let trimming = given.trimming.as_ref().map(|given| trimming(given, config, sizes)).transpose()?;
        let lane = lane_share(config, sizes, given.buffer, "switch.buffer")?;
        Ok(Self {
            architecture,
            arbitration: config.arbitration(),
            queues,
            organisation: Organisation::new(queues, given.queue_count),
            shared: given.memory(mechanism) == Memory::Shared,
            queue_buffer: given.queue_buffer,
            lane: trimming.map_or(lane, |rule| rule.limit),
            output_lane: lane_share(config, sizes, output_buffer, "switch.output_buffer")?,
            latency: given.latency,
            stores: given.forwarding == ForwardingMode::StoreAndForward,
            islip_iterations: given.islip_iterations,
            islip_cell: u32::try_from(given.islip_cell.0).unwrap_or(u32::MAX),
            control_first: given.control_first(mechanism),
            trimming,
            queues_of_rates: queues_of_rates(given, sizes)?,
        })
    }
}

/// The limit of a queue for packet trimming, given at a key. It must hold a full packet.
fn queue_limit(queue: Bytes, sizes: PacketSizes, key: &str) -> Result<u32, SetupError> {
    let limit = small(queue, key)?;
    let needed = sizes.mtu + sizes.header;
    if limit < needed { Err(Reason::ShortQueue { needed }.of(key, queue)) } else { Ok(limit) }
}

/// See [`SwitchModel::queues_of_rates`].
fn queues_of_rates(given: &SwitchConfig, sizes: PacketSizes) -> Result<Box<[(Rate, u32)]>, SetupError> {
    let of_rates = given.trimming.iter().flat_map(|trimming| trimming.rates.iter());
    let mut found: Vec<(Rate, u32)> = Vec::new();
    for (index, QueueOfRate { rate, queue }) in of_rates.enumerate() {
        let key = format!("switch.trimming.rates.{index}");
        if let Some(first) = found.iter().position(|(other, _)| other == rate) {
            let first = format!("switch.trimming.rates.{first}");
            return Err(Reason::RepeatedRate { first }.of(format!("{key}.rate"), rate));
        }
        found.push((*rate, queue_limit(*queue, sizes, &format!("{key}.queue"))?));
    }
    Ok(found.into())
}

fn trimming(given: &Trimming, config: &Config, sizes: PacketSizes) -> Result<TrimmingRule, SetupError> {
    const KEY: &str = "switch.trimming";
    let full = sizes.mtu + sizes.header;
    let limit = queue_limit(given.queue, sizes, &format!("{KEY}.queue"))?;
    let size = small(given.size, &format!("{KEY}.size"))?;
    if !(1..=full).contains(&size) {
        return Err(Reason::HeaderSize { most: full }.of(format!("{KEY}.size"), given.size));
    }
    let lanes = &config.lanes;
    let headers = lanes.control.filter(|_| lanes.control_priority && lanes.count > 1);
    let headers = headers.map(Vl).ok_or_else(|| Reason::NoHeaderLane.at(KEY))?;
    let is_random = given.which(config.arbitration()) == Trimmed::Either;
    Ok(TrimmingRule { limit, size, credit_block: sizes.credit_block, headers, is_random })
}

impl HostModel {
    fn new(config: &Config, sizes: PacketSizes, has_special: bool) -> Result<Self, SetupError> {
        let given = &config.host;
        let preset = if has_special { HostQueues::Single } else { HostQueues::None };
        let organisation = match given.queues.unwrap_or(preset) {
            HostQueues::None => None,
            HostQueues::Single => Some(Organisation::Single),
            HostQueues::PerDestination => Some(Organisation::PerDestination),
            HostQueues::DestinationModulo => {
                Some(Organisation::new(Queues::DestinationModulo, config.switch.queue_count))
            }
        };
        let lane = lane_share(config, sizes, given.buffer, "host.buffer")?;
        let mut output = None;
        if let Some(organisation) = organisation {
            const KEY: &str = "host.output_buffer";
            let (queues, lanes) = (organisation.fixed(1).max(1) as u32, u32::from(config.lanes.count.max(1)));
            let share = small(given.output_buffer, KEY)? / (queues * lanes);
            let needed = sizes.space(sizes.mtu + sizes.header);
            if share < needed {
                let reason = Reason::TooSmall { share: share.into(), lanes, queues, needed };
                return Err(reason.of(KEY, given.output_buffer));
            }
            output = Some((organisation, share));
        }
        Ok(Self {
            lane,
            injection: given.injection_rate.unwrap_or(UNLIMITED),
            limits_control: given.injection_includes_control,
            drain: given.drain_rate.unwrap_or(UNLIMITED),
            message_overhead: given.message_overhead,
            output,
        })
    }

    /// The maximum rate at which a host injects on a route of the given rate.
    pub fn injection_rate(&self, way: Rate) -> Rate {
        self.injection.min(way)
    }

    /// The maximum rate at which a host receives on a route of the given rate.
    pub fn drain_rate(&self, way: Rate) -> Rate {
        self.drain.min(way)
    }

    /// The pace at which a host puts packets on a link of the given rate; instantaneous if only the link
    /// limits the host.
    pub fn injection(&self, link: Rate) -> BytePace {
        // The message overhead is added to the time for sending, so sending must take time. The same is true
        // for moving packets into an output buffer.
        let takes_time = self.message_overhead > Time::ZERO || self.output.is_some();
        if self.injection == UNLIMITED && !takes_time {
            BytePace::INSTANT
        } else {
            self.injection_rate(link).pace()
        }
    }

    /// The pace at which a host puts packets on a faster link; instantaneous if only the link limits the host.
    pub fn usual_injection(&self) -> BytePace {
        pace_up_to(self.injection)
    }

    /// The pace at which a host empties its input buffer.
    pub fn drain(&self) -> BytePace {
        pace_up_to(self.drain)
    }
}

impl PacketChoice {
    fn new(given: &AdaptiveRouting, sizes: PacketSizes) -> Self {
        let full = Bytes(u64::from(sizes.mtu + sizes.header));
        let bit = |levels: u16, &level: &u8| levels | 1 << (level & 15);
        Self {
            grade: u32::try_from(given.grade.unwrap_or(full).0).unwrap_or(u32::MAX),
            levels: given.levels.as_ref().map_or(u16::MAX, |levels| levels.iter().fold(0, bit)),
            pins_throttled: given.pins(Pinned::Throttled),
            pins_isolated: given.pins(Pinned::Isolated),
        }
    }
}
