//! Which networks can be run output by output, and how that begins.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use silvan_engine::{Bins, Time};

use super::port::{MAX_INPUTS, MAX_LANES, Port, UNPLANNED};
use super::{Bank, Entry, Feeder, Kind, NONE, Outputs};
use crate::congestion::marking::{FecnRule, Marker, PortVl};
use crate::link::{ChannelId, LinkKind, Links, Returns};
use crate::packet::Fifo;
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
    pub receivers: &'a [Option<(u32, usize)>],
    /// The host at each channel's far end, where one is.
    pub hosts_at: FxHashMap<ChannelId, u32>,
    pub lanes: u8,
    /// Bytes that the largest packet occupies in a buffer.
    pub full_space: u32,
    /// Bytes of the smallest packet on the wire.
    pub smallest: u32,
    pub credit_block: u32,
}

/// The lookahead and the longest that a packet's head takes to the next switch.
struct Reach {
    least: Time,
    most: Time,
}

impl Plan<'_> {
    /// Whether an output needs nothing but its arrivals and credits: VOQ switches of up to 63 ports, one or
    /// two virtual lanes, credits for undivided buffers, routes by table alone, links as fast as those that
    /// feed them, no more than 255 kinds of links, and none of them without delay.
    fn fits(&self, switches: &[Switch]) -> bool {
        let is_plain = |switch: &Switch| match switch {
            Switch::Voq(switch) => {
                let ports = &switch.ports;
                let marking = match &ports.marker {
                    Marker::None => true,
                    Marker::Fecn { rule, .. } => !rule.needs_queues(),
                    Marker::Buffers(_) => false,
                };
                ports.is_plain() && ports.count() <= MAX_INPUTS && marking
            }
            _ => false,
        };
        usize::from(self.lanes) <= MAX_LANES
            && self.full_space <= u32::from(u16::MAX)
            && self.links.is_plain()
            && self.links.kinds().len() < 256
            && switches.iter().all(is_plain)
    }

    /// See [`Reach`]; none where that allows no bins.
    fn reach(&self) -> Option<Reach> {
        let (mut span, mut delay, mut reach) =
            (Time::NEVER, Time::NEVER, Reach { least: Time::NEVER, most: Time::ZERO });
        let kinds: Vec<LinkKind> = self.links.kinds().collect();
        for (channel, receiver) in (0..).zip(self.receivers) {
            let link = &kinds[self.links.kind_index(channel)];
            span = span.min(link.pace.time(self.smallest));
            delay = delay.min(link.delay);
            if receiver.is_some() {
                reach.least = reach.least.min(link.head_delay);
                reach.most = reach.most.max(link.head_delay);
            }
        }
        reach.least = reach.least.min(span + delay);
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
    /// The outputs of the switches, if the network can be run this way: the switches keep what does not change.
    pub fn new(plan: &Plan, switches: &mut Vec<Switch>) -> Option<Self> {
        if switches.is_empty() || !plan.fits(switches) {
            return None;
        }
        let reach = plan.reach()?;
        let mut first = 0;
        let parts: Vec<Ports> = std::mem::take(switches)
            .into_iter()
            .filter_map(|switch| match switch {
                Switch::Voq(switch) => Some(switch.ports),
                _ => None,
            })
            .collect();
        let mut builder = Builder::new(plan, reach);
        for mut ports in parts {
            builder.add(&mut ports);
            let count = ports.count() as u32;
            switches.push(Switch::Apart { ports: Box::new(ports), first });
            first += count;
        }
        let marks = builder.rule.is_some();
        Some(match (plan.lanes, marks) {
            (1, false) => Self::One(Box::new(builder.bank(switches))),
            (1, true) => Self::OneMarking(Box::new(builder.bank(switches))),
            (_, false) => Self::Two(Box::new(builder.bank(switches))),
            (_, true) => Self::TwoMarking(Box::new(builder.bank(switches))),
        })
    }
}

struct Builder<'a> {
    plan: &'a Plan<'a>,
    reach: Reach,
    rule: Option<Arc<FecnRule>>,
    markers: Vec<PortVl>,
    routes: Vec<u8>,
    /// Where each forwarding table begins, by its address: switches that route alike share one.
    known: FxHashMap<usize, u32>,
    /// Per switch: where its table begins.
    rows: Vec<u32>,
}

impl<'a> Builder<'a> {
    fn new(plan: &'a Plan<'a>, reach: Reach) -> Self {
        let known = FxHashMap::default();
        Self { plan, reach, rule: None, markers: Vec::new(), routes: Vec::new(), known, rows: Vec::new() }
    }

    /// Takes the marking rule and the forwarding table of a switch.
    fn add(&mut self, ports: &mut Ports) {
        if let Marker::Fecn { rule, ports: markers } = std::mem::replace(&mut ports.marker, Marker::None) {
            self.rule = Some(rule);
            self.markers.extend(markers);
        }
        let table = ports.table();
        let routes = &mut self.routes;
        let row = *self.known.entry(table.as_ptr() as usize).or_insert_with(|| {
            let row = routes.len() as u32;
            // Where there is no route, nobody sends.
            routes.extend(table.iter().map(|&port| port as u8));
            row
        });
        self.rows.push(row);
    }

    fn kinds(&self) -> Vec<Kind> {
        let Plan { smallest, credit_block, full_space, .. } = *self.plan;
        let kind = |link: LinkKind| {
            // A packet occupies whole credit blocks: space is spent faster than the wire takes bytes, at
            // most by as much as by packets of the smallest size and all but a byte of a block besides.
            let span = link.pace.time(smallest).0.saturating_sub(1);
            let least_ps = span / u64::from(smallest + credit_block - 1);
            Kind {
                rate: link.rate,
                pace: link.pace,
                delay: link.delay,
                head_delay: link.head_delay,
                memo: (0, Time::ZERO),
                least_ps,
                // Without a bound on the pace nothing is booked early.
                room_ps: if least_ps == 0 { u64::MAX / 2 } else { 3 * u64::from(full_space) * least_ps },
            }
        };
        self.plan.links.kinds().map(kind).collect()
    }

    fn bank<const LANES: usize, const MARKS: bool>(self, switches: &[Switch]) -> Bank<LANES, MARKS> {
        let plan = self.plan;
        let firsts: Vec<u32> = switches.iter().map(Switch::first_output).collect();
        let count: usize = switches.iter().map(|switch| switch.ports().count()).sum();
        let width = switches.iter().map(|switch| switch.ports().count()).max().unwrap_or(0);
        let channels = plan.receivers.len();
        let (mut output_of, mut entries) = (vec![NONE; channels], vec![None; channels]);
        let mut ports = Vec::with_capacity(count);
        let mut capacities = Vec::with_capacity(count * LANES);
        for (&first, switch) in firsts.iter().zip(switches) {
            for (number, wiring) in switch.ports().wiring.iter().enumerate() {
                let mut port = Port::<LANES>::new(number as u8);
                let channel = wiring.map(|wiring| wiring.out);
                if let Some(channel) = channel {
                    output_of[channel as usize] = first + number as u32;
                    port.kind = plan.links.kind_index(channel) as u8;
                    match plan.receivers[channel as usize] {
                        Some((far, input)) => {
                            (port.peer, port.row) = (firsts[far as usize], self.rows[far as usize]);
                            port.input = input as u8;
                        }
                        None => port.peer = plan.hosts_at.get(&channel).copied().unwrap_or(NONE),
                    }
                }
                for (vl, lane) in port.lanes.iter_mut().enumerate() {
                    lane.available = channel.map_or(0, |channel| plan.links.capacity(channel, vl as u8));
                    capacities.push(lane.available);
                }
                ports.push(port);
            }
        }
        for (channel, receiver) in plan.receivers.iter().enumerate() {
            if let (NONE, Some((far, input))) = (output_of[channel], receiver) {
                let (first, row) = (firsts[*far as usize], self.rows[*far as usize]);
                entries[channel] = Some(Entry { first, row, input: *input as u8 });
            }
        }
        let inputs = switches.iter().flat_map(|switch| switch.ports().wiring.iter());
        let feeder = |into: ChannelId| match output_of.get(into as usize) {
            Some(&output) if output != NONE => Feeder::Output(output),
            _ => Feeder::Host(into),
        };
        let feeders =
            inputs.map(|wiring| feeder(wiring.map_or(ChannelId::MAX, |wiring| wiring.into))).collect();
        debug_assert!(self.reach.bins() < usize::from(UNPLANNED));
        Bank {
            arrivals: Bins::new(self.reach.shift(), self.reach.bins()),
            planned: Bins::new(self.reach.shift(), self.reach.bins()),
            shift: self.reach.shift(),
            bin: 0,
            next_look: Time::ZERO,
            ports: ports.into(),
            queues: vec![Fifo::default(); count * LANES * width].into(),
            width,
            returns: vec![Returns::default(); count * LANES].into(),
            spills: Vec::new(),
            wanted: vec![0; count * LANES].into(),
            #[cfg(debug_assertions)]
            in_flight: vec![0; count * LANES].into(),
            capacities: capacities.into(),
            feeders,
            kinds: self.kinds(),
            routes: self.routes.into(),
            output_of: output_of.into(),
            entries: entries.into(),
            least: self.rule.as_ref().map_or(u32::MAX, |rule| rule.least()),
            rule: self.rule,
            full_space: plan.full_space,
            markers: self.markers.into(),
            marks: vec![0; count].into(),
            hops: 0,
            events: 0,
            at_hand: Vec::new(),
            to_decide: Vec::new(),
            several: Vec::new(),
        }
    }
}
