//! Determines which networks the binned scheduler supports, and builds their outputs.

use std::sync::Arc;

use silvan_congestion::marking::Marker;
use silvan_engine::bins::UNSCHEDULED;
use silvan_engine::units::BytePace;
use silvan_engine::{Bins, Rate, Time};
use silvan_network::port::{LaneOrder, Vl};

use super::changes::ChangingLinks;
use super::credit::OutputLedgers;
use super::ordered::Ordered;
use super::pauses::Pauses;
use super::prefetch::MANY;
use super::reports::Reports;
use super::run::{OutputClock, OutputLinks};
use super::tails::TailLinks;
use super::{
    Bank, Binned, BinnedSwitch, ChannelInput, Feeder, Hashing, MAX_INPUTS, NONE, OutputLink, OutputPlaces,
    Outputs, REMOTE, Remote, RemoteOutput, TO_HOST,
};
use crate::lane_tables::{LaneArbiters, LaneTables};
use crate::link::{ChannelId, LinkParameters, Receiver, Rule};
use crate::lookahead::{Effects, Partitioning, Reach};
use crate::not_binned::NotBinned;
use crate::switch::Ports;
use crate::switch_marking::SwitchMarking;
use crate::trimming::Trimmer;
use crate::voq::{ALL_EVENTS, DEPARTURES, Output, UNMARKED, VoqOutputs};

#[cfg(test)]
mod tests;

/// The minimum number of packets that can arrive in a bin with all links busy for bins to be worthwhile. Each bin has a
/// fixed cost. See docs/internals.md for the measurements.
const LEAST_ARRIVALS: u64 = 1;

/// How the outputs of switches queue packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputQueues {
    /// Each output has a queue per input.
    PerInput,
    /// Each output has one queue for all inputs. If `control_first`, control packets leave it before data
    /// packets.
    Fifo { control_first: bool },
}

/// The properties of a network on which the binned scheduler depends.
pub(crate) struct Plan<'a> {
    pub effects: &'a Effects<'a>,
    /// The pace at which hosts drain their input buffers.
    pub drain: BytePace,
    /// Whether hosts answer packets that are not marked.
    pub acknowledges: bool,
    /// Whether packets of a flow may overtake each other.
    pub may_reorder: bool,
    pub lanes: u8,
    /// The lane that outputs serve before all others, if there is one.
    pub first_lane: Option<Vl>,
    /// The tables by which outputs select lanes, if there are any.
    pub lane_tables: Option<Arc<LaneTables>>,
    /// Bytes that a packet of the maximum size occupies in a buffer.
    pub full_space: u32,
    /// Bytes that a control packet occupies.
    pub control_space: u32,
    /// How the outputs of switches queue packets; `None` if they depend on each other.
    pub queues: Option<OutputQueues>,
    pub credit_block: u32,
    /// Whether departures will be recorded.
    pub records: bool,
}

impl Plan<'_> {
    /// Checks whether the binned scheduler supports the network. All limits follow from the scheduler's design. It runs
    /// outputs one by one within a bin, so the decisions of an output may depend only on its own arrivals and credit.
    /// Records store sizes in 16 bits and inputs in 8 bits. Bins require a lookahead.
    ///
    /// # Errors
    /// The reason why the network is not supported.
    pub fn fits(&self, switches: &[Ports]) -> Result<(), NotBinned> {
        if self.queues.is_none() {
            return Err(NotBinned::DependentOutputs);
        }
        switches.iter().try_for_each(Ports::steers_by_packet)?;
        self.effects.links.has_ledgers_of_lanes()?;
        let needs = [
            // Packets leave the buffers of hosts without events.
            (self.hosts_may_pause(), NotBinned::PausingHosts),
            (self.effects.trims && self.effects.links.has_messages(), NotBinned::TrimsAndPauses),
            (!switches.iter().all(|ports| ports.count() <= MAX_INPUTS), NotBinned::ManyPorts),
            // A notification occupies another output of the same switch at the same instant, and a mark at a departure
            // cannot be predicted before the bin begins. See the module `reports`.
            (!switches.iter().all(may_report), NotBinned::ReportsOfDepartures),
            (self.most_space() > u32::from(u16::MAX), NotBinned::LargePackets),
            (self.effects.links.all_parameters().len() > 255, NotBinned::ManyKindsOfLinks),
            (self.effects.reach().is_none(), NotBinned::NoLookahead),
        ];
        needs.into_iter().find(|(is_needed, _)| *is_needed).map_or(Ok(()), |(_, why)| Err(why))
    }

    /// Checks whether the binned scheduler is probably faster than the event-ordered one.
    ///
    /// # Errors
    /// The reason why it is not.
    pub fn is_worthwhile(&self, switches: &[Ports]) -> Result<(), NotBinned> {
        let width = self.effects.reach().map_or(0, |reach| 1 << reach.shift());
        let ports = switches.iter().flat_map(|switch| switch.wiring.iter().flatten());
        let arrivals: u64 = ports
            .map(|port| (width << 8) / self.effects.links.span(port.into, self.effects.largest).0.max(1))
            .sum();
        if arrivals < LEAST_ARRIVALS << 8 { Err(NotBinned::FewArrivals) } else { Ok(()) }
    }

    /// Bytes that the largest packet occupies in a buffer.
    fn most_space(&self) -> u32 {
        self.full_space.max(self.control_space)
    }

    /// Whether the buffer of a host can be so full that the host sends a pause frame. If a host takes packets out of its
    /// buffer as fast as its link delivers them, each has left when the next one is stored.
    fn hosts_may_pause(&self) -> bool {
        let Some(frames) = self.effects.links.frames() else { return false };
        self.effects.hosts_at.keys().any(|&channel| {
            let link = &self.effects.links.all_parameters()[self.effects.links.parameters_index(channel)];
            let is_small = match frames.rule(channel) {
                Rule::Fixed { xoff, headroom, .. } => self.most_space() <= xoff + headroom,
                Rule::Shared { .. } => false,
            };
            !is_small || !self.drain.is_as_fast_as(link.pace)
        }) || self.effects.links.changes_hosts()
    }
}

/// Whether a switch sends no notifications to sources, or sends them only when packets arrive.
fn may_report(ports: &Ports) -> bool {
    ports.marking.report.is_none() || ports.marking.marker.marks_only_arrivals()
}

impl Outputs {
    /// Divides a supported network into the outputs of each partition's switches, and the switches themselves.
    pub fn new(
        plan: &Plan,
        partitioning: &Partitioning,
        switches: Vec<Ports>,
    ) -> (Vec<Self>, Vec<BinnedSwitch>) {
        let Some(reach) = plan.effects.reach() else { return Default::default() };
        let mut builder = OutputsBuilder::new(plan, partitioning, reach);
        let mut next = vec![0; partitioning.count];
        let mut binned = Vec::with_capacity(switches.len());
        for (index, mut ports) in switches.into_iter().enumerate() {
            let partition = partitioning.of_switch[index];
            let first = next[usize::from(partition)];
            builder.add(&mut ports, first);
            next[usize::from(partition)] += ports.count() as u32;
            binned.push(BinnedSwitch { ports, first });
        }
        let outputs =
            (0..partitioning.count as u16).map(|partition| builder.outputs(partition, &binned)).collect();
        (outputs, binned)
    }
}

/// The initial scheduler state of an unwired output.
pub(super) fn fresh() -> Binned {
    Binned {
        ready_at: Time::NEVER,
        sent_bytes: 0,
        far_end: 0,
        row: TO_HOST,
        stamp: 0,
        planned: UNSCHEDULED,
        link: 0,
        input: 0,
    }
}

struct OutputsBuilder<'a> {
    plan: &'a Plan<'a>,
    partition: &'a Partitioning,
    reach: Reach,
    /// One entry per switch.
    markings: Vec<Option<SwitchMarking>>,
    trimmers: Vec<Option<Box<Trimmer>>>,
    /// The partition and the output that send on each channel; `None` if a host does.
    senders: Vec<Option<(u16, u32)>>,
    /// Whether the packets of all inputs share a queue.
    is_fifo: bool,
}

impl<'a> OutputsBuilder<'a> {
    fn new(plan: &'a Plan<'a>, partition: &'a Partitioning, reach: Reach) -> Self {
        let is_fifo = matches!(plan.queues, Some(OutputQueues::Fifo { .. }));
        let senders = vec![None; plan.effects.receivers.len()];
        Self { plan, partition, reach, markings: Vec::new(), trimmers: Vec::new(), senders, is_fifo }
    }

    /// Takes the marking rule and the trimming from a switch, whose first output has the index `first` in its partition.
    fn add(&mut self, ports: &mut Ports, first: u32) {
        for (output, wiring) in (first..).zip(ports.wiring.iter()) {
            if let Some(wiring) = wiring {
                self.senders[wiring.out as usize] = Some((ports.partition, output));
            }
        }
        let none = SwitchMarking::new(Marker::None, ports.count(), self.plan.full_space);
        self.markings.push(Some(std::mem::replace(&mut ports.marking, none)));
        self.trimmers.push(ports.trimmer.take());
    }

    fn outputs(&mut self, partition: u16, switches: &[BinnedSwitch]) -> Outputs {
        let own = self.markings.iter_mut().zip(&self.partition.of_switch);
        let own = own.filter(|(_, there)| **there == partition).filter_map(|(marking, _)| marking.take());
        let marking = SwitchMarking::join(own.collect());
        let needs = match &marking.marker {
            Marker::None => UNMARKED,
            _ if marking.watches_arrivals() || marking.report.is_some() => ALL_EVENTS,
            _ => DEPARTURES,
        };
        // Pause frames arrive like notifications, and packets are trimmed or lost on arrival. A recording has all events.
        let links = self.plan.effects.links;
        let acts =
            links.has_messages() || self.plan.effects.trims || links.has_changes() || self.plan.records;
        let needs = if acts { ALL_EVENTS } else { needs };
        let is_wide = own_ports(switches, partition) > 64;
        match (self.plan.lanes, needs) {
            (1, _) if self.is_fifo => Outputs::OneFifo(Box::new(self.bank(partition, switches, marking))),
            (2, _) if self.is_fifo && self.plan.lane_tables.is_none() => {
                Outputs::TwoFifos(Box::new(self.bank(partition, switches, marking)))
            }
            _ if self.is_fifo => Outputs::Fifos(Box::new(self.bank(partition, switches, marking))),
            _ if marking.marker.needs_queues() || is_wide || self.plan.lane_tables.is_some() => {
                Outputs::Many(Box::new(self.bank(partition, switches, marking)))
            }
            (1, UNMARKED) => Outputs::One(Box::new(self.bank(partition, switches, marking))),
            (1, DEPARTURES) => Outputs::OneMarking(Box::new(self.bank(partition, switches, marking))),
            (1, _) => Outputs::OneSampling(Box::new(self.bank(partition, switches, marking))),
            (2, UNMARKED) => Outputs::Two(Box::new(self.bank(partition, switches, marking))),
            (2, DEPARTURES) => Outputs::TwoMarking(Box::new(self.bank(partition, switches, marking))),
            _ => Outputs::Many(Box::new(self.bank(partition, switches, marking))),
        }
    }

    /// The trimming at the outputs of a partition.
    fn trimmer(&mut self, partition: u16) -> Option<Box<Trimmer>> {
        let own = self.trimmers.iter_mut().zip(&self.partition.of_switch);
        let own = own.filter(|(_, there)| **there == partition).filter_map(|(trimmer, _)| trimmer.take());
        Trimmer::join(own.map(|trimmer| *trimmer)).map(Box::new)
    }

    fn links(&self) -> Vec<OutputLink> {
        let (smallest, credit_block) = (self.plan.effects.smallest, self.plan.credit_block);
        let most_space = u64::from(self.plan.most_space());
        let all = self.plan.effects.links.all_parameters();
        // A link may change its rate before credit arrives.
        let fastest =
            all.iter().map(|link| link.rate).max().filter(|_| self.plan.effects.links.has_changes());
        let has_clock = self.plan.effects.links.clock().is_some();
        let has_frames = self.plan.effects.links.has_messages();
        let link = |parameters: &LinkParameters| {
            if has_frames {
                // There is always credit, so all credit is booked early.
                return OutputLink { parameters: *parameters, least_ps: 1 << 30, full_ps: 0 };
            }
            // A packet occupies whole credit blocks, so the link consumes buffer space faster than it transmits bytes.
            // The fastest case is the smallest packet that just exceeds a whole number of blocks.
            let pace = fastest.map_or(parameters.pace, Rate::pace);
            let span = pace.time(smallest).0.saturating_sub(1);
            let bound_ps = span / u64::from(smallest + credit_block - 1);
            // If the pace has no bound or credits return at certain times only, no credit is booked early.
            let least_ps = if has_clock { 0 } else { bound_ps };
            let full_ps = if least_ps == 0 { u64::MAX / 8 } else { most_space * least_ps };
            OutputLink { parameters: *parameters, least_ps, full_ps }
        };
        all.iter().map(link).collect()
    }

    /// The times at which the outputs of a partition get credits, if they get them at certain times only.
    fn clock(&self, places: &Arc<OutputPlaces>) -> Option<Box<OutputClock>> {
        let clock = self.plan.effects.links.clock()?.clone();
        Some(Box::new(OutputClock { clock, places: Arc::clone(places) }))
    }

    /// The partition and input at the far end of a channel to a switch; `None` for a channel to a host.
    fn entry(&self, switches: &[BinnedSwitch], receiver: Receiver) -> Option<(u16, ChannelInput)> {
        let (far, input) = receiver?;
        let BinnedSwitch { ports, first } = &switches[far as usize];
        Some((ports.partition, ChannelInput { first: *first, row: ports.table().row, input: input.0 as u8 }))
    }

    /// Creates the records of a partition's outputs, and the list of switches of other partitions to which they send.
    fn records<const LANES: usize>(
        &self,
        partition: u16,
        switches: &[BinnedSwitch],
    ) -> (Vec<Output<LANES, Binned>>, Vec<Remote>) {
        let (mut records, mut remotes) = (Vec::new(), Vec::new());
        for switch in own(switches, partition) {
            for (number, wiring) in switch.ports.wiring.iter().enumerate() {
                let mut record = Output::<LANES, Binned>::new(number as u8, fresh());
                let own = &mut record.own;
                if let Some(channel) = wiring.map(|wiring| wiring.out) {
                    own.link = self.plan.effects.links.parameters_index(channel) as u8;
                    match self.entry(switches, self.plan.effects.receivers[channel as usize]) {
                        Some((there, entry)) if there == partition => {
                            own.row = entry.row;
                            own.set_peer(entry.first);
                            own.input = entry.input;
                        }
                        Some((there, entry)) => {
                            own.row = REMOTE;
                            own.set_peer(remotes.len() as u32);
                            let switch =
                                self.plan.effects.receivers[channel as usize].map_or(NONE, |(far, _)| far);
                            remotes.push(Remote { partition: there, entry, switch });
                        }
                        None => {
                            let host = self.plan.effects.hosts_at.get(&channel).copied().unwrap_or(NONE);
                            let place = self.partition.of_host.get(host as usize);
                            own.set_peer(place.map_or(Binned::PEER, |place| place.1));
                        }
                    }
                    let lanes = usize::from(self.plan.lanes);
                    for (vl, lane) in record.lanes.iter_mut().enumerate().take(lanes) {
                        lane.available = self.plan.effects.links.capacity(channel, Vl::new(vl));
                    }
                }
                records.push(record);
            }
        }
        (records, remotes)
    }

    /// Returns the sender for each input of a partition, and the list of senders that are outputs of other partitions.
    fn feeders(&self, partition: u16, switches: &[BinnedSwitch]) -> (Box<[Feeder]>, Vec<RemoteOutput>) {
        let parameters = self.plan.effects.links.all_parameters();
        let mut senders = Vec::new();
        let inputs = own(switches, partition).flat_map(|switch| switch.ports.wiring.iter());
        let feeders = inputs.map(|wiring| {
            let into = wiring.map_or(ChannelId::MAX, |wiring| wiring.into);
            match self.senders.get(into as usize).copied().flatten() {
                None => Feeder::Host(into),
                Some((there, output)) if there == partition => Feeder::Output(output),
                Some((there, output)) => {
                    let delay = parameters[self.plan.effects.links.parameters_index(into)].delay;
                    senders.push(RemoteOutput { partition: there, output, channel: into, delay });
                    Feeder::Remote(senders.len() as u32 - 1)
                }
            }
        });
        (feeders.collect(), senders)
    }

    /// The links of the switches, if a packet may leave on a faster link than the one on which it arrives.
    fn tails(
        &self,
        partition: u16,
        switches: &[BinnedSwitch],
        places: &Arc<OutputPlaces>,
    ) -> Option<Box<TailLinks>> {
        own(switches, partition).any(|switch| switch.ports.may_underrun).then(|| {
            let links = self.plan.effects.links;
            let link =
                |channel| if channel == ChannelId::MAX { 0 } else { links.parameters_index(channel) as u8 };
            let of_inputs = places.channels.iter().map(|&(_, into)| link(into)).collect();
            let of_outputs: Vec<u8> = places.channels.iter().map(|&(out, _)| link(out)).collect();
            let rates: Vec<u64> = links.all_parameters().iter().map(|one| one.rate.0).collect();
            Box::new(TailLinks::new(Arc::clone(places), of_inputs, &of_outputs, &rates))
        })
    }

    /// The buffers of the inputs, if switches send pause frames.
    fn pauses(&self, places: &Arc<OutputPlaces>) -> Option<Box<Pauses>> {
        self.plan.effects.links.frames()?;
        let agenda = Bins::new(self.reach.shift(), self.reach.bins());
        Some(Box::new(Pauses::new(Arc::clone(places), agenda)))
    }

    /// The data on changes of links, if there are any.
    fn changes(
        &self,
        partition: u16,
        switches: &[BinnedSwitch],
        places: &Arc<OutputPlaces>,
    ) -> Option<Box<ChangingLinks>> {
        let links = self.plan.effects.links;
        links.has_changes().then(|| {
            let switches = own(switches, partition)
                .flat_map(|switch| std::iter::repeat_n(switch.ports.place, switch.ports.count()));
            let switches = links.changes_routes().then(|| switches.collect());
            Box::new(ChangingLinks { places: Arc::clone(places), switches })
        })
    }

    fn bank<const LANES: usize, const MARKS: u8, const FIFO: bool>(
        &mut self,
        partition: u16,
        switches: &[BinnedSwitch],
        marking: SwitchMarking,
    ) -> Bank<LANES, MARKS, FIFO> {
        let channels = self.plan.effects.receivers.len();
        let (records, remotes) = self.records::<LANES>(partition, switches);
        let (feeders, senders) = self.feeders(partition, switches);
        let (count, lanes) = (records.len(), usize::from(self.plan.lanes));
        let width = own_ports(switches, partition);
        let output_of = |&sender: &Option<(u16, u32)>| {
            sender.filter(|&(there, _)| there == partition).map_or(NONE, |(_, output)| output)
        };
        // Channels of outputs in other partitions have no entry in this partition.
        let entry = |&far: &Receiver| {
            let (there, entry) = self.entry(switches, far)?;
            (there == partition).then_some(entry)
        };
        let entries = self.plan.effects.receivers.iter().map(entry).collect();
        let capacities = records.iter().flat_map(|record| &record.lanes[..lanes]);
        let credits = OutputLedgers::new(capacities.map(|lane| lane.available).collect(), lanes, channels);
        let (shift, bins) = (self.reach.shift(), self.reach.bins());
        debug_assert!(bins < usize::from(UNSCHEDULED));
        let reads_queues = marking.marker.needs_queues();
        let order = LaneOrder { lanes, first: self.plan.first_lane };
        let rows = own(switches, partition)
            .flat_map(|switch| std::iter::repeat_n(switch.ports.table().row, switch.ports.count()));
        let hashing = hashing(partition, switches, &remotes);
        let reports =
            marking.report.map(|bytes| Box::new(Reports::new(bytes.get(), rows.collect(), count * lanes)));
        let places = Arc::new(places(partition, switches));
        let pauses = self.pauses(&places);
        let ordered =
            (pauses.is_some() || reports.is_some()).then(|| Box::new(Ordered::new(Arc::clone(&places))));
        let mut voq = VoqOutputs::new(records, width, order, reads_queues, &marking);
        voq.arbiters =
            self.plan.lane_tables.as_ref().map(|tables| Box::new(LaneArbiters::new(tables, count)));
        voq.control_first = self.plan.queues == Some(OutputQueues::Fifo { control_first: true });
        Bank {
            arrivals: Bins::new(shift, bins),
            planned: Bins::new(shift, bins),
            shift,
            bin: 0,
            start: Time::ZERO,
            voq,
            marking,
            trimmer: self.trimmer(partition),
            wiring: OutputLinks { credits, links: self.links(), reports, clock: self.clock(&places) },
            are_many: count >= MANY,
            prefetches: count >= MANY || hashing.is_some(),
            acts_on_all: self.plan.acknowledges || self.plan.may_reorder,
            // A new route may be faster than the old one.
            may_reorder: self.plan.may_reorder || self.plan.effects.links.has_changes(),
            feeders,
            tails: self.tails(partition, switches, &places),
            pauses,
            ordered,
            is_watched: self.plan.effects.links.has_changes() || self.plan.records,
            changes: self.changes(partition, switches, &places),
            senders: senders.into(),
            remotes: remotes.into(),
            routes: switches.first().map(|one| Arc::clone(&one.ports.table().routes)).unwrap_or_default(),
            hashing,
            output_of: self.senders.iter().map(output_of).collect(),
            entries,
            hops: 0,
            events: 0,
            at_hand: Vec::new(),
            to_decide: Vec::new(),
            several: Vec::new(),
        }
    }
}

/// Where the outputs of a partition are.
fn places(partition: u16, switches: &[BinnedSwitch]) -> OutputPlaces {
    let of_ports = || {
        own(switches, partition)
            .flat_map(|switch| switch.ports.wiring.iter().map(move |wiring| (switch, wiring)))
    };
    let unwired = (ChannelId::MAX, ChannelId::MAX);
    OutputPlaces {
        channels: of_ports()
            .map(|(_, wiring)| wiring.map_or(unwired, |wiring| (wiring.out, wiring.into)))
            .collect(),
        firsts: of_ports().map(|(switch, _)| switch.first).collect(),
        ports: of_ports().map(|(switch, _)| switch.ports.count() as u16).collect(),
    }
}

/// The hash functions of a partition's own switches and of the switches to which it sends; `None` if any of
/// these switches does not hash packets.
fn hashing(partition: u16, switches: &[BinnedSwitch], remotes: &[Remote]) -> Option<Box<Hashing>> {
    let own = own(switches, partition)
        .flat_map(|switch| std::iter::repeat_n(switch.ports.hasher(), switch.ports.count()));
    let remote = remotes.iter().map(|remote| switches[remote.switch as usize].ports.hasher());
    Some(Box::new(Hashing { own: own.collect::<Option<_>>()?, remote: remote.collect::<Option<_>>()? }))
}

/// The number of ports of the largest switch of a partition.
fn own_ports(switches: &[BinnedSwitch], partition: u16) -> usize {
    own(switches, partition).map(|switch| switch.ports.count()).max().unwrap_or(0)
}

fn own(switches: &[BinnedSwitch], partition: u16) -> impl Iterator<Item = &BinnedSwitch> {
    switches.iter().filter(move |switch| switch.ports.partition == partition)
}
