//! Computes the thresholds and the headroom of receivers with pause frames.

use silvan_engine::{Bytes, Rate, Time};
use silvan_network::routing::Tables;
use silvan_network::topology::{Link, NodeRef, Topology};

use super::{Builder, FaultPlan, WiredChannel, small};
use crate::config::{Config, FlowControl, SharedMemory, WatchdogAction};
use crate::error::{Reason, SetupError};
use crate::faults::PlannedChanges;
use crate::link::{ChannelId, FrameSpec, Frames, ReceiverSpec, Rule, SwitchMemory};
use crate::queueing::Queues;

/// The division of the memory of switches with pause frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PauseMemory {
    /// The smallest and the largest headroom of a virtual lane of a switch's input, in bytes.
    pub headroom: (u32, u32),
    /// The shared memory of the switch that has the least left to share; `None` if inputs have memory of
    /// their own.
    pub shared: Option<SharedPauseMemory>,
}

/// The shared memory of a switch with pause frames, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedPauseMemory {
    /// All memory of the switch.
    pub memory: u64,
    /// The headroom of all inputs and lanes together.
    pub headroom: u64,
    /// The reserves of all inputs and lanes together.
    pub reserve: u64,
    /// The rest, which inputs share.
    pub left: u64,
}

/// The division of the memory of switches; `None` without pause frames, or without links to switches.
///
/// # Errors
/// A [`SetupError`] with the first key whose value is invalid.
pub fn pause_memory(
    topology: &Topology,
    tables: &Tables,
    config: &Config,
) -> Result<Option<PauseMemory>, SetupError> {
    let changes = PlannedChanges::new(&config.events, topology, config.duration, config.seed)?;
    let builder = Builder::new(topology, tables, config, FaultPlan { changes, ..FaultPlan::default() })?;
    let Some(pfc) = &builder.model.pauses else { return Ok(None) };
    let to_switch = builder.directed().filter(|way| matches!(way.to.node, NodeRef::Switch(_)));
    let headrooms: Vec<u32> = to_switch
        .map(|WiredChannel { id, link, .. }| builder.headroom(pfc, builder.paced(id, link), false))
        .collect();
    let (Some(&least), Some(&most)) = (headrooms.iter().min(), headrooms.iter().max()) else {
        return Ok(None);
    };
    let shared = match &pfc.shared {
        Some(shared) => {
            builder.shared_memories(pfc, shared)?.into_iter().min_by_key(|(memory, _)| memory.size)
        }
        None => None,
    };
    let shared = shared.map(|(SwitchMemory { size, headroom, .. }, reserve)| SharedPauseMemory {
        memory: size + headroom + reserve,
        headroom,
        reserve,
        left: size,
    });
    Ok(Some(PauseMemory { headroom: (least, most), shared }))
}

/// A direction of a link, and the lowest rate that it has during the run.
#[derive(Clone, Copy)]
struct PacedLink<'a> {
    link: &'a Link,
    slowest: Rate,
}

/// Settings of pause frames or of on/off flow control, in bytes. Missing settings are derived from the link.
pub(super) struct PauseModel {
    /// The value of `flow_control.kind`.
    kind: &'static str,
    xoff: Option<u32>,
    xon: Option<u32>,
    headroom: Option<u32>,
    /// Bytes of a message on the link; zero for on/off flow control, whose messages take no space.
    pub frame: u32,
    response: Time,
    /// The length of a pause that stops the run; `Time::NEVER` if none does.
    longest: Time,
    shared: Option<SharedMemory>,
    /// Lanes that are never paused, one bit per lane.
    lossy: u16,
    /// `switch.buffer`.
    buffer: Bytes,
}

impl PauseModel {
    /// Resolves the settings of pause frames or of on/off flow control. Returns `None` with credits.
    pub fn new(config: &Config) -> Result<Option<Self>, SetupError> {
        let size = |value: Option<Bytes>, key| value.map(|value| small(value, key)).transpose();
        let given = match &config.flow_control {
            FlowControl::Credits(_) => return Ok(None),
            FlowControl::OnOff(given) => {
                return Ok(Some(Self {
                    kind: "on-off",
                    xoff: size(given.xoff, "flow_control.xoff")?,
                    xon: size(given.xon, "flow_control.xon")?,
                    headroom: None,
                    frame: 0,
                    response: Time::ZERO,
                    longest: Time::NEVER,
                    shared: None,
                    lossy: 0,
                    buffer: config.switch.buffer,
                }));
            }
            FlowControl::Pfc(given) => given,
        };
        if let Some(shared) = &given.shared {
            small(shared.reserve, "flow_control.shared.reserve")?;
            small(shared.resume_offset, "flow_control.shared.resume_offset")?;
            size(shared.headroom_pool, "flow_control.shared.headroom_pool")?;
        }
        Ok(Some(Self {
            kind: "pfc",
            xoff: size(given.xoff, "flow_control.xoff")?,
            xon: size(given.xon, "flow_control.xon")?,
            headroom: size(given.headroom, "flow_control.headroom")?,
            frame: small(given.frame, "flow_control.frame")?,
            response: given.response_time,
            longest: given
                .watchdog
                .filter(|_| given.watchdog_action == WatchdogAction::Stop)
                .unwrap_or(Time::NEVER),
            shared: given.shared.clone(),
            lossy: config.lossy_lanes(),
            buffer: config.switch.buffer,
        }))
    }
}

impl Builder<'_> {
    /// The pause frames of a network, or the messages of on/off flow control. Fails if a link for pause
    /// frames is one-way, if the memory of inputs is divided, or if a buffer is too small.
    pub(super) fn frames(&self, pfc: &PauseModel) -> Result<Frames, SetupError> {
        if pfc.frame > 0 && self.topology.links.iter().any(|link| link.channels().count() < 2) {
            let topology = self.topology.name.clone();
            return Err(Reason::OneWayPauses { topology }.of("flow_control.kind", "pfc"));
        }
        if !self.model.switch.shared && self.model.switch.queues != Queues::Single {
            return Err(Reason::DividedMemory.of("flow_control.kind", pfc.kind));
        }
        let memories = match &pfc.shared {
            Some(shared) => {
                self.shared_memories(pfc, shared)?.into_iter().map(|(memory, _)| memory).collect()
            }
            None => Vec::new(),
        };
        let slowest = self.topology.links.iter().map(|link| link.rate).min().unwrap_or_default();
        let mut channels = Vec::new();
        for WiredChannel { id, link, to, .. } in self.directed() {
            let paced = self.paced(id, link);
            let capacity = match to.node {
                NodeRef::Switch(_) => self.model.switch.lane,
                NodeRef::Host(_) => self.model.host.lane,
            };
            let rule = match (to.node, &pfc.shared) {
                (NodeRef::Switch(switch), Some(shared)) => Rule::Shared {
                    switch,
                    shift: shift(shared, link.rate, slowest),
                    headroom: self.headroom(pfc, paced, false),
                    reserve: shared.reserve.0 as u32,
                },
                (NodeRef::Switch(_), None) => self.fixed(pfc, paced, false, capacity)?,
                (NodeRef::Host(_), _) => self.fixed(pfc, paced, true, capacity)?,
            };
            // If all links have two channels, these have consecutive numbers, the first of which is even.
            channels.push(ReceiverSpec { rule, capacity, reverse: id ^ 1 as ChannelId });
        }
        let spec = FrameSpec { bytes: pfc.frame, response: pfc.response, longest: pfc.longest };
        let lanes = (usize::from(self.model.lanes.count), pfc.lossy);
        Ok(Frames::new(spec, lanes, &channels, memories))
    }

    /// The thresholds of a virtual lane at a link's receiver with `capacity` bytes for the lane. Fails if the
    /// headroom leaves no room, or if `xon` exceeds `xoff`.
    fn fixed(
        &self,
        pfc: &PauseModel,
        paced: PacedLink<'_>,
        to_host: bool,
        capacity: u32,
    ) -> Result<Rule, SetupError> {
        let link = paced.link;
        let headroom = if self.paused_lanes(pfc) == 0 { 0 } else { self.headroom(pfc, paced, to_host) };
        let most = capacity.saturating_sub(headroom);
        let xoff = pfc.xoff.unwrap_or(most);
        if xoff > most || capacity <= headroom {
            let room = headroom.into();
            let reason = Reason::NoRoomAboveThreshold { rate: link.rate, delay: link.delay, capacity, room };
            return Err(match pfc.xoff {
                Some(xoff) => reason.of("flow_control.xoff", Bytes(xoff.into())),
                None => reason.of("flow_control.kind", pfc.kind),
            });
        }
        let usual = xoff.saturating_sub(2 * self.model.full_space).max(xoff / 2);
        let xon = pfc.xon.unwrap_or(usual);
        if xon > xoff {
            return Err(Reason::XonAboveXoff { xoff }.of("flow_control.xon", Bytes(xon.into())));
        }
        Ok(Rule::Fixed { xoff, xon, headroom })
    }

    /// The number of lanes that can be paused.
    fn paused_lanes(&self, pfc: &PauseModel) -> u32 {
        u32::from(self.model.lanes.count) - pfc.lossy.count_ones()
    }

    /// A direction of a link with its lowest rate, by its channel.
    fn paced<'b>(&self, id: ChannelId, link: &'b Link) -> PacedLink<'b> {
        let slowest = self.slowest_rates.get_or_init(|| self.find_slowest_rates());
        PacedLink { link, slowest: slowest.get(id as usize).copied().unwrap_or(link.rate) }
    }

    /// The lowest rate of each channel during the run; empty if no link changes.
    fn find_slowest_rates(&self) -> Vec<Rate> {
        if self.changes.links.is_empty() {
            return Vec::new();
        }
        let mut slowest: Vec<Rate> = self.topology.links.iter().map(|link| link.rate).collect();
        for change in &self.changes.links {
            slowest[change.link] = slowest[change.link].min(change.state.rate);
        }
        let ways = self.topology.links.iter().zip(slowest);
        ways.flat_map(|(link, rate)| link.channels().map(move |_| rate)).collect()
    }

    /// The configured headroom of a lane, or else the space for all packets that can arrive from the packet
    /// that exceeds the threshold until a pause takes effect (IEEE 802.1Q, annex N).
    ///
    /// That packet starts one link delay before its head arrives, and is stored after the time that
    /// [`Builder::stored_after`] returns. The frame may have to wait for a packet or another frame that started
    /// one picosecond earlier. It then needs its transmission time, the link delay and the response time. Until
    /// then, the sender may send without gaps, and it completes the packet that it starts one picosecond before
    /// the end of this time.
    ///
    /// If the rate of the link changes during the run, the frame and the transmission before it are assumed
    /// to use the lowest rate, and the sender the usual one.
    fn headroom(&self, pfc: &PauseModel, PacedLink { link, slowest }: PacedLink<'_>, to_host: bool) -> u32 {
        if let Some(headroom) = pfc.headroom {
            return headroom;
        }
        if pfc.frame == 0 {
            return self.room_above_threshold(link, to_host);
        }
        let sizes = self.model.sizes;
        let (back, full) = (slowest.pace(), sizes.mtu + sizes.header);
        let stored_after = self.stored_after(link, to_host);
        let longest = back.time(full.max(sizes.control).max(pfc.frame));
        let window = stored_after + longest + back.time(pfc.frame) + link.delay + link.delay + pfc.response;
        let started = self.space_of_packets_in(window.saturating_sub(Time(2)), link.rate);
        u32::try_from(u64::from(self.model.full_space) + started).unwrap_or(u32::MAX)
    }

    /// The maximum buffer space of packets that can be sent completely within a given time.
    fn space_of_packets_in(&self, span: Time, rate: Rate) -> u64 {
        let bytes = u128::from(span.0) * u128::from(rate.0) / 8_000_000_000_000;
        let (space, size) = *self.largest_space.get_or_init(|| self.find_largest_space());
        u64::try_from((bytes * u128::from(space)).div_ceil(u128::from(size))).unwrap_or(u64::MAX)
    }

    /// The buffer space and the size of the packets that need the most space relative to their size.
    fn find_largest_space(&self) -> (u32, u32) {
        let space = |size: u32| (self.model.sizes.space(size), size);
        let relative = |a: (u32, u32), b: (u32, u32)| u64::from(a.0) * u64::from(b.1);
        let worst =
            self.packet_sizes().into_iter().map(space).max_by(|a, b| relative(*a, *b).cmp(&relative(*b, *a)));
        worst.unwrap_or((1, 1))
    }

    /// Sizes of packets among which are those that need the most buffer space relative to their size.
    fn packet_sizes(&self) -> Vec<u32> {
        let sizes = self.model.sizes;
        let (mtu, header, block) = (u64::from(sizes.mtu), sizes.header, sizes.credit_block);
        let mut found = vec![sizes.mtu + header, sizes.control.max(1)];
        let last = |bytes: u64, piece: u64| match bytes % piece.max(1) {
            0 => piece,
            rest => rest,
        };
        for flow in &self.model.flows {
            let message = u64::from(flow.message);
            let end = if flow.total == u64::MAX { message } else { last(flow.total, message) };
            found.extend([last(message, mtu), last(end, mtu)].map(|payload| payload as u32 + header));
        }
        let traffic = &self.model.traffic;
        let varies = !self.model.config.jobs.is_empty()
            || self.model.config.external.is_some()
            || traffic.iter().any(|traffic| traffic.is_varied || traffic.has_any_size());
        found.extend(traffic.iter().map(|traffic| last(u64::from(traffic.message), mtu) as u32 + header));
        if varies {
            // The smallest packet, or the smallest one that needs one more block.
            let least = 1 + header;
            found.extend([least, least.div_ceil(block) * block + 1].map(|size| size.min(sizes.mtu + header)));
        }
        found
    }

    /// The shared memory of each switch, and the reserves of its inputs, in bytes. Fails if the memory of a
    /// switch is too small.
    fn shared_memories(
        &self,
        pfc: &PauseModel,
        shared: &SharedMemory,
    ) -> Result<Vec<(SwitchMemory, u64)>, SetupError> {
        let (lanes, paused) = (u64::from(self.model.lanes.count), u64::from(self.paused_lanes(pfc)));
        let count = self.topology.switches.len();
        let (mut ports, mut headroom) = (vec![0u64; count], vec![0u64; count]);
        for WiredChannel { id, link, to, .. } in self.directed() {
            if let NodeRef::Switch(switch) = to.node {
                ports[switch as usize] += 1;
                headroom[switch as usize] +=
                    paused * u64::from(self.headroom(pfc, self.paced(id, link), false));
            }
        }
        let mut memories = Vec::with_capacity(count);
        for (switch, (ports, headroom)) in ports.into_iter().zip(headroom).enumerate() {
            let given = shared.memory.unwrap_or(Bytes(ports * pfc.buffer.0));
            let whole = u64::from(small(given, "flow_control.shared.memory")?);
            let pool = shared.headroom_pool.map_or(headroom, |pool| pool.0);
            let reserve = lanes * ports * shared.reserve.0;
            let needed = pool + reserve + u64::from(self.model.full_space);
            if whole < needed {
                let name = self.topology.switches[switch].name.clone();
                let reason = Reason::NoSharedMemory { switch: name, headroom: pool, reserve, needed };
                return Err(reason.of("flow_control.shared.memory", given));
            }
            let (size, resume_offset) = (whole - pool - reserve, shared.resume_offset.0);
            memories.push((
                SwitchMemory { size, headroom: pool, resume_offset, ..SwitchMemory::default() },
                reserve,
            ));
        }
        Ok(memories)
    }
}

/// The exponent of the power of two by which free memory is divided for a link of this rate. Negative
/// exponents multiply.
fn shift(shared: &SharedMemory, rate: Rate, slowest: Rate) -> i8 {
    let doublings = if shared.alpha_by_rate { (rate.0 / slowest.0.max(1)).max(1).ilog2() } else { 0 };
    shared.alpha_shift.saturating_sub(doublings as i8).max(-32)
}
