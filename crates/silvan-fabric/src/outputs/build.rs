//! Which networks can be run output by output, and how that begins.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use silvan_engine::units::BytePace;
use silvan_engine::{Bins, Time};

use super::foresee::MANY;
use super::port::{MAX_INPUTS, MAX_LANES, Port, REMOTE, UNPLANNED};
use super::routes::{Routes, RoutesBuilder};
use super::{Bank, Entry, Feeder, Kind, Mail, NONE, Outputs, Partition, Remote, Sender};
use crate::congestion::marking::{FecnRule, FecnState, Marker, Ruled};
use crate::host::Limiter;
use crate::link::{ChannelId, LinkKind, Links, Receiver, Returns};
use crate::packet::Fifo;
use crate::port::Vl;
use crate::switch::{Ports, Switch};

/// Bins are no wider than this, in bits of picoseconds: wider ones hold several arrivals for an output, which
/// have to be sorted.
const WIDEST: u32 = 16;
/// Bins in which something may be planned, at least.
const BINS: u64 = 256;

/// What a network must tell to be run this way.
pub(crate) struct Plan<'a> {
    pub links: &'a Links,
    /// Per channel: the switch and input at its far end, none for a host.
    pub receivers: &'a [Receiver],
    /// The host at each channel's far end, where one is.
    pub hosts_at: FxHashMap<ChannelId, u32>,
    /// The channel that each host sends on.
    pub hosts_from: Vec<(ChannelId, u32)>,
    /// How fast hosts drain their input buffers.
    pub drain: BytePace,
    /// Whether hosts answer packets that are not marked.
    pub acknowledges: bool,
    pub lanes: u8,
    /// Bytes that the largest packet occupies in a buffer.
    pub full_space: u32,
    /// Bytes that a control packet occupies.
    pub control_space: u32,
    /// Whether hosts have output buffers: these look at more times than their link asks for.
    pub have_adapters: bool,
    /// Bytes of the smallest packet on the wire.
    pub smallest: u32,
    pub credit_block: u32,
    /// How fast switches may read a packet out of an input's memory, where that is not its link's rate.
    pub crossbar: Option<BytePace>,
    /// Bytes of the smallest notification that switches send to the next node, if they send any.
    pub least_notice: Option<u32>,
}

/// The lookahead and the longest that a packet's head takes to the next switch.
struct Reach {
    least: Time,
    most: Time,
}

impl Plan<'_> {
    /// Whether an output needs nothing but its arrivals and credits.
    ///
    /// # Errors
    /// What it needs besides, in words.
    pub fn fits(&self, switches: &[Switch]) -> Result<(), &'static str> {
        let are = |is: fn(&Ports) -> bool| switches.iter().all(|switch| is(switch.ports()));
        let tables: u64 = switches.iter().map(|switch| switch.ports().table().len() as u64).sum();
        let needs = [
            (
                !switches.iter().all(|switch| matches!(switch, Switch::Voq(_))),
                "its switches decide as a whole",
            ),
            (!are(|ports| ports.director().is_none()), "its flows are announced to switches"),
            (!are(|ports| ports.chooser().is_none()), "each packet chooses its port by the load of all"),
            (!are(|ports| !ports.changes_lanes()), "its switches choose the lanes of packets"),
            (!self.links.is_plain(), "its buffers are divided, or stop their senders"),
            (self.have_adapters, "its hosts have output buffers"),
            (usize::from(self.lanes) > MAX_LANES, "it has more than two virtual lanes"),
            (!are(|ports| ports.count() <= MAX_INPUTS), "a switch has more than 64 ports"),
            (!are(|ports| !ports.may_underrun), "a link is faster than another one that feeds it"),
            (!are(|ports| ports.report.is_none()), "its switches notify sources themselves"),
            (!are(|ports| !ports.is_quantized), "its marks say how severe congestion is"),
            (
                !are(|ports| ports.marker.is_binned()),
                "its marking rule looks at more than the sum of an output's queues",
            ),
            (self.full_space > u32::from(u16::MAX), "its packets occupy more than 65,535 bytes"),
            (self.control_space > self.full_space, "its control packets are larger than others"),
            (tables > u64::from(u32::MAX), "its forwarding tables are too large"),
            (self.links.kinds().len() > 255, "its links differ in more than 255 ways"),
            (self.reach().is_none(), "the delays of its links differ too much, or are too short"),
        ];
        needs.into_iter().find(|(is_needed, _)| *is_needed).map_or(Ok(()), |(_, why)| Err(why))
    }

    /// The time that the smallest packet takes on the fastest link.
    pub fn least_span(&self) -> Time {
        self.links.kinds().iter().map(|link| link.pace.time(self.smallest)).min().unwrap_or(Time::NEVER)
    }

    /// The least time in which a switch acts on the one at the far end of a link of some kind: by a packet, by the
    /// credit for one that came from there, or by a notification.
    pub fn reach_of(&self, link: &LinkKind) -> Time {
        let read = self.crossbar.map(|pace| pace.time(self.smallest));
        let freed = read.map_or(self.least_span(), |read| read.min(self.least_span())) + link.delay;
        let told = self.least_notice.map(|bytes| link.pace.time(bytes) + link.delay);
        [Some(link.head_delay), Some(freed), told].into_iter().flatten().min().unwrap_or(Time::NEVER)
    }

    /// See [`Reach`]; none where that allows no bins.
    fn reach(&self) -> Option<Reach> {
        let mut reach = Reach { least: Time::NEVER, most: Time::ZERO };
        let span = self.least_span();
        for link in self.links.kinds() {
            reach.least = reach.least.min(link.head_delay).min(span + link.delay);
            reach.most = reach.most.max(link.head_delay);
        }
        let shift = reach.shift();
        (shift > 5 && reach.most.0 >> shift < 1 << 14).then_some(reach)
    }
}

impl Reach {
    fn shift(&self) -> u32 {
        self.least.0.max(1).ilog2().min(WIDEST)
    }

    fn bins(&self) -> usize {
        (BINS.max((self.most.0 >> self.shift()) + 2)) as usize
    }
}

impl Outputs {
    /// The outputs of the switches, for each partition, of a network that fits. The switches keep what does
    /// not change.
    pub fn new(plan: &Plan, partition: &Partition, switches: &mut Vec<Switch>) -> Vec<Self> {
        let Some(reach) = plan.reach() else { return Vec::new() };
        let mut builder = Builder::new(plan, partition, reach);
        let mut next = vec![0; partition.count];
        for (index, switch) in std::mem::take(switches).into_iter().enumerate() {
            let Switch::Voq(switch) = switch else { continue };
            let mut ports = switch.ports;
            builder.add(&mut ports);
            let part = partition.of_switch[index];
            let first = next[usize::from(part)];
            next[usize::from(part)] += ports.count() as u32;
            switches.push(Switch::Apart { ports: Box::new(ports), first });
        }
        let routes = Arc::new(std::mem::take(&mut builder.routes).build());
        (0..partition.count as u16).map(|part| builder.outputs(part, &routes, switches)).collect()
    }
}

struct Builder<'a> {
    plan: &'a Plan<'a>,
    partition: &'a Partition,
    reach: Reach,
    rule: Option<Arc<FecnRule>>,
    /// Per switch.
    markers: Vec<Box<[FecnState]>>,
    routes: RoutesBuilder,
    /// Per switch: where its forwarding table begins.
    rows: Vec<u32>,
}

impl<'a> Builder<'a> {
    fn new(plan: &'a Plan<'a>, partition: &'a Partition, reach: Reach) -> Self {
        let (markers, routes, rows) = Default::default();
        Self { plan, partition, reach, rule: None, markers, routes, rows }
    }

    /// Takes the marking rule and the forwarding table of a switch.
    fn add(&mut self, ports: &mut Ports) {
        let markers = match std::mem::replace(&mut ports.marker, Marker::None).into_binned() {
            Ok(Some(Ruled { rule, ports })) => {
                self.rule = Some(rule);
                ports
            }
            Ok(None) => Box::default(),
            // Not of a network that fits.
            Err(marker) => {
                ports.marker = marker;
                Box::default()
            }
        };
        self.markers.push(markers);
        self.rows.push(self.routes.add(ports.table()));
    }

    fn outputs(&mut self, part: u16, routes: &Arc<Routes>, switches: &[Switch]) -> Outputs {
        match (self.plan.lanes, self.rule.is_some()) {
            (1, false) => Outputs::One(Box::new(self.bank(part, routes, switches))),
            (1, true) => Outputs::OneMarking(Box::new(self.bank(part, routes, switches))),
            (_, false) => Outputs::Two(Box::new(self.bank(part, routes, switches))),
            (_, true) => Outputs::TwoMarking(Box::new(self.bank(part, routes, switches))),
        }
    }

    fn kinds(&self) -> Vec<Kind> {
        let Plan { smallest, credit_block, full_space, .. } = *self.plan;
        let kind = |link: &LinkKind| {
            // A packet occupies whole credit blocks: space is spent faster than the wire takes bytes, at
            // most by as much as by packets of the smallest size and all but a byte of a block besides.
            let span = link.pace.time(smallest).0.saturating_sub(1);
            let least_ps = span / u64::from(smallest + credit_block - 1);
            // Without a bound on the pace nothing is booked early.
            let full_ps = if least_ps == 0 { u64::MAX / 8 } else { u64::from(full_space) * least_ps };
            Kind { link: *link, least_ps, full_ps }
        };
        self.plan.links.kinds().iter().map(kind).collect()
    }

    /// Where a packet goes that is sent on a channel to a switch, and the partition of that switch; none to a host.
    fn entry(&self, switches: &[Switch], receiver: Receiver) -> Option<(u16, Entry)> {
        let (far, input) = receiver?;
        let (part, first) = switches[far as usize].apart().unwrap_or_default();
        Some((part, Entry { first, row: self.rows[far as usize], input: input.0 as u8 }))
    }

    /// The ports of a partition's switches, and the switches of other partitions that they send to.
    fn ports<const LANES: usize>(&self, part: u16, switches: &[Switch]) -> (Vec<Port<LANES>>, Vec<Remote>) {
        let (mut ports, mut remotes) = (Vec::new(), Vec::new());
        for switch in own(switches, part) {
            for (number, wiring) in switch.ports().wiring.iter().enumerate() {
                let mut port = Port::<LANES>::new(number as u8);
                if let Some(channel) = wiring.map(|wiring| wiring.out) {
                    port.kind = self.plan.links.kind_index(channel) as u8;
                    match self.entry(switches, self.plan.receivers[channel as usize]) {
                        Some((there, entry)) if there == part => {
                            (port.peer, port.row, port.input) = (entry.first, entry.row, entry.input);
                        }
                        Some((there, entry)) => {
                            (port.peer, port.row) = (remotes.len() as u32, REMOTE);
                            remotes.push(Remote { part: there, entry });
                        }
                        None => {
                            let host = self.plan.hosts_at.get(&channel).copied().unwrap_or(NONE);
                            port.peer =
                                self.partition.of_host.get(host as usize).map_or(NONE, |place| place.1);
                        }
                    }
                    for (vl, lane) in port.lanes.iter_mut().enumerate() {
                        lane.available = self.plan.links.capacity(channel, Vl::new(vl));
                    }
                }
                ports.push(port);
            }
        }
        (ports, remotes)
    }

    /// Who sends to each input of a partition, and those of them that are outputs of others.
    fn feeders(&self, part: u16, switches: &[Switch]) -> (Box<[Feeder]>, Vec<Sender>) {
        let mut output_of = vec![None; self.plan.receivers.len()];
        for switch in switches {
            let Some((part, first)) = switch.apart() else { continue };
            for (output, wiring) in (first..).zip(switch.ports().wiring.iter()) {
                if let Some(wiring) = wiring {
                    output_of[wiring.out as usize] = Some((part, output));
                }
            }
        }
        let kinds = self.plan.links.kinds();
        let mut senders = Vec::new();
        let inputs = own(switches, part).flat_map(|switch| switch.ports().wiring.iter());
        let feeders = inputs.map(|wiring| {
            let into = wiring.map_or(ChannelId::MAX, |wiring| wiring.into);
            match output_of.get(into as usize).copied().flatten() {
                None => Feeder::Host(into),
                Some((there, output)) if there == part => Feeder::Output(output),
                Some((there, output)) => {
                    let delay = kinds[self.plan.links.kind_index(into)].delay;
                    senders.push(Sender { part: there, output, delay });
                    Feeder::Remote(senders.len() as u32 - 1)
                }
            }
        });
        (feeders.collect(), senders)
    }

    fn bank<const LANES: usize, const MARKS: bool>(
        &mut self,
        part: u16,
        routes: &Arc<Routes>,
        switches: &[Switch],
    ) -> Bank<LANES, MARKS> {
        let channels = self.plan.receivers.len();
        let (ports, remotes) = self.ports::<LANES>(part, switches);
        let (feeders, senders) = self.feeders(part, switches);
        let count = ports.len();
        let width = own(switches, part).map(|switch| switch.ports().count()).max().unwrap_or(0);
        let mut output_of = vec![NONE; channels];
        let wirings = own(switches, part).flat_map(|switch| switch.ports().wiring.iter());
        for (output, wiring) in (0..).zip(wirings) {
            if let Some(wiring) = wiring {
                output_of[wiring.out as usize] = output;
            }
        }
        // Those of outputs of other partitions are never asked for.
        let entry = |&far: &Receiver| {
            let (there, entry) = self.entry(switches, far)?;
            (there == part).then_some(entry)
        };
        let entries = self.plan.receivers.iter().map(entry).collect();
        let mut markers = Vec::new();
        for (index, &there) in self.partition.of_switch.iter().enumerate() {
            if there == part {
                markers.extend(std::mem::take(&mut self.markers[index]));
            }
        }
        let lanes = |port: &Port<LANES>| port.lanes.map(|lane| lane.available);
        let (shift, bins) = (self.reach.shift(), self.reach.bins());
        debug_assert!(bins < usize::from(UNPLANNED));
        Bank {
            arrivals: Bins::new(shift, bins),
            planned: Bins::new(shift, bins),
            shift,
            bin: 0,
            next_look: Time::ZERO,
            capacities: ports.iter().flat_map(lanes).collect(),
            ports: ports.into(),
            queues: vec![Fifo::default(); count * LANES * width].into(),
            width,
            are_many: count >= MANY,
            returns: vec![Returns::default(); count * LANES].into(),
            spills: Vec::new(),
            early: Vec::new(),
            early_sums: vec![0; count * LANES].into(),
            wanted: vec![0; count * LANES].into(),
            #[cfg(debug_assertions)]
            in_flight: vec![0; count * LANES].into(),
            sinks: self
                .partition
                .of_host
                .iter()
                .filter(|place| place.0 == part)
                .map(|_| Limiter::new(self.plan.drain))
                .collect(),
            acknowledges: self.plan.acknowledges,
            feeders,
            senders: senders.into(),
            remotes: remotes.into(),
            mail: (0..self.partition.count).map(|_| Mail::default()).collect(),
            kinds: self.kinds(),
            routes: Arc::clone(routes),
            output_of: output_of.into(),
            entries,
            least: self.rule.as_ref().map_or(u32::MAX, |rule| rule.least()),
            rule: self.rule.clone(),
            full_space: self.plan.full_space,
            markers: markers.into(),
            marks: vec![0; count].into(),
            hops: 0,
            events: 0,
            at_hand: Vec::new(),
            to_decide: Vec::new(),
            several: Vec::new(),
        }
    }
}

/// The switches of a partition.
fn own(switches: &[Switch], part: u16) -> impl Iterator<Item = &Switch> {
    switches.iter().filter(move |switch| switch.apart().is_some_and(|(there, _)| there == part))
}
