//! From topology, tables and configuration to a network that can run.

use std::sync::Arc;

use silvan_engine::random::Stream;
use silvan_engine::units::BytePace;
use silvan_engine::{Bytes, EventQueue, Rate, Time};

use crate::config::{Architecture, Config};
use crate::congestion::Notification;
use crate::congestion::marking::{FecnRule, Marker, Marking};
use crate::congestion::reaction::{Cct, Reaction};
use crate::core::Core;
use crate::host::{Host, HostSpec, Sizes};
use crate::link::{ChannelId, ChannelSpec, Class, Links, MAX_NODES, MAX_PORTS, key};
use crate::measure::{ClassMeter, FlowName, LinkName, Meters, Series, Trees};
use crate::packet::Pool;
use crate::routing::{self, Tables};
use crate::simulation::ModelError;
use crate::switch::{IqSwitch, PortWiring, Ports, Switch, VoqSwitch};
use crate::topology::{End, Link, NodeRef, Topology};
use crate::traffic::source::{Chooser, Clock, Source};
use crate::traffic::{Arrivals, Flow, Pattern, Traffic};

/// A network ready to run.
pub(crate) struct Network {
    pub core: Core,
    pub hosts: Vec<Host>,
    pub switches: Vec<Switch>,
    /// The switch and input at the receiving end of each channel; none for a host.
    pub receiver: Vec<Option<(u32, usize)>>,
    pub series: Series,
    pub trees: Trees,
    pub link_names: Vec<String>,
    /// Whether each host is anyone's destination.
    pub is_destination: Vec<bool>,
}

struct Builder<'a> {
    topology: &'a Topology,
    tables: &'a Tables,
    config: &'a Config,
    sizes: Sizes,
    /// Receive buffer per virtual lane of a switch and of a host.
    switch_lane: u32,
    host_lane: u32,
}

fn wrong(text: impl Into<String>) -> ModelError {
    ModelError::Configuration(text.into())
}

fn small(bytes: Bytes, what: &str) -> Result<u32, ModelError> {
    u32::try_from(bytes.0)
        .ok()
        .filter(|&bytes| bytes <= 1 << 30)
        .ok_or_else(|| wrong(format!("{what} = {bytes}: must be at most 1 GiB")))
}

/// Builds the network; see [`crate::simulation::Simulation::new`].
pub(crate) fn build(topology: &Topology, tables: &Tables, config: &Config) -> Result<Network, ModelError> {
    let builder = Builder::new(topology, tables, config)?;
    builder.check_routes()?;
    let (links, receiver) = builder.links();
    let switches = builder.switches()?;
    let mut hosts = builder.hosts()?;
    let mut classes = Vec::new();
    let mut is_destination = vec![false; topology.hosts.len()];
    let flows = builder.add_sources(&mut hosts, &mut classes, &mut is_destination)?;
    let names = builder.link_names();
    let link_names: Vec<String> = names.iter().map(|(name, _)| name.clone()).collect();
    let link_list: Vec<LinkName> = names.iter().map(|(_, link)| link.clone()).collect();
    let trees = Trees::new(builder.full_space(), &link_list, flows.len(), &switches);
    let host_names = topology.hosts.iter().map(|host| host.name.clone()).collect();
    let measure = &config.measure;
    let series = Series::new(measure.interval, (measure.hosts, measure.links), host_names, flows, names);
    let core = Core {
        now: Time::ZERO,
        queue: EventQueue::new(builder.event_spacing()),
        packets: Pool::default(),
        links,
        meters: Meters::new(classes, hosts.len()),
        dirty_switches: Vec::new(),
        dirty_hosts: Vec::new(),
    };
    Ok(Network { core, hosts, switches, receiver, series, trees, link_names, is_destination })
}

impl<'a> Builder<'a> {
    fn new(topology: &'a Topology, tables: &'a Tables, config: &'a Config) -> Result<Self, ModelError> {
        if topology.hosts.len() as u64 >= u64::from(MAX_NODES)
            || topology.switches.len() as u64 >= u64::from(MAX_NODES)
        {
            return Err(wrong(format!("a network may have up to {MAX_NODES} hosts and as many switches")));
        }
        if let Some(switch) = topology.switches.iter().find(|switch| u32::from(switch.ports) > MAX_PORTS) {
            let (name, ports) = (&switch.name, switch.ports);
            return Err(wrong(format!(
                "switch {name} has {ports} ports; a switch may have up to {MAX_PORTS}"
            )));
        }
        let packet = &config.packet;
        let sizes = Sizes {
            mtu: small(packet.mtu, "packet.mtu")?,
            header: small(packet.header, "packet.header")?,
            control: small(packet.control, "packet.control")?,
            credit_block: small(packet.credit_block, "packet.credit_block")?.max(1),
        };
        let lane = |buffer, what| -> Result<u32, ModelError> {
            let per_lane = small(buffer, what)? / u32::from(config.lanes.count.max(1));
            let whole = per_lane / sizes.credit_block * sizes.credit_block;
            let needed = sizes.space(sizes.mtu + sizes.header).max(sizes.space(sizes.control));
            if whole < needed {
                return Err(wrong(format!(
                    "{what} = {buffer}: leaves {whole} bytes per virtual lane, less than a packet's {needed}"
                )));
            }
            Ok(whole)
        };
        let switch_lane = lane(config.switch.buffer, "switch.buffer")?;
        let host_lane = lane(config.host.buffer, "host.buffer")?;
        Ok(Self { topology, tables, config, sizes, switch_lane, host_lane })
    }

    fn full_space(&self) -> u32 {
        self.sizes.space(self.sizes.mtu + self.sizes.header)
    }

    /// A guess at the time between events, for the queue's geometry: every host busy, some eight
    /// events per packet.
    fn event_spacing(&self) -> Time {
        let rates = self.topology.links.iter().map(|link| link.rate).max();
        let span = rates.unwrap_or(Rate::from_gbit(1)).pace().time(self.sizes.mtu + self.sizes.header);
        Time(span.0 / (8 * self.topology.hosts.len().max(1) as u64))
    }

    fn routing_error(error: impl std::fmt::Display) -> ModelError {
        wrong(error.to_string())
    }

    /// Every pair of hosts that may exchange packets has a route, there and back.
    fn check_routes(&self) -> Result<(), ModelError> {
        if !self.config.traffic.is_empty() {
            let analysis = routing::analyse(self.topology, self.tables);
            if analysis.unroutable > 0 {
                let first = analysis.problems.first().cloned().unwrap_or_default();
                return Err(wrong(format!("{} pairs of hosts have no route: {first}", analysis.unroutable)));
            }
        }
        let wiring = self.topology.wiring();
        for flow in &self.config.flows {
            let (from, to) = (self.host(&flow.from)?, self.host(&flow.to)?);
            for (a, b) in [(from, to), (to, from)] {
                routing::trace(self.topology, &wiring, self.tables, a, b).map_err(Self::routing_error)?;
            }
        }
        Ok(())
    }

    fn host(&self, name: &str) -> Result<u32, ModelError> {
        self.topology.host_named(name).ok_or_else(|| wrong(format!("there is no host named `{name}`")))
    }

    /// Each link's two channels, 2 i from its end a and 2 i + 1 from its end b.
    fn directed(&self) -> impl Iterator<Item = (ChannelId, &'a Link, End, End)> {
        let both = |(index, link): (usize, &'a Link)| {
            let id = 2 * index as ChannelId;
            [(id, link, link.a, link.b), (id + 1, link, link.b, link.a)]
        };
        self.topology.links.iter().enumerate().flat_map(both)
    }

    fn links(&self) -> (Links, Vec<Option<(u32, usize)>>) {
        let node = |end: End| match end.node {
            NodeRef::Host(index) => (true, index, 0),
            NodeRef::Switch(index) => (false, index, u32::from(end.port) - 1),
        };
        let mut receiver = Vec::new();
        let specs: Vec<ChannelSpec> = self
            .directed()
            .map(|(_, link, from, to)| {
                let ((from_host, from_node, from_port), (to_host, to_node, to_port)) = (node(from), node(to));
                receiver.push((!to_host).then_some((to_node, to_port as usize)));
                let arrival = if to_host { Class::HostArrival } else { Class::SwitchArrival };
                let wake = if from_host { Class::HostWake } else { Class::SwitchWake };
                ChannelSpec {
                    rate: link.rate,
                    delay: link.delay,
                    receiver_latency: self.config.switch.latency,
                    to_host,
                    arrival_key: key(arrival, to_node, to_port),
                    wake_key: key(wake, from_node, from_port),
                    lane_capacity: if to_host { self.host_lane } else { self.switch_lane },
                }
            })
            .collect();
        (Links::new(&specs, self.config.lanes.count), receiver)
    }

    fn switches(&self) -> Result<Vec<Switch>, ModelError> {
        let mut wiring: Vec<Box<[Option<PortWiring>]>> = self
            .topology
            .switches
            .iter()
            .map(|switch| vec![None; usize::from(switch.ports)].into())
            .collect();
        let slowest = self.topology.links.iter().map(|link| link.rate).min().unwrap_or_default();
        for (id, link, from, to) in self.directed() {
            if let NodeRef::Switch(index) = from.node {
                wiring[index as usize][usize::from(from.port) - 1] = Some(PortWiring {
                    out: id,
                    into: id ^ 1,
                    faces_host: matches!(to.node, NodeRef::Host(_)),
                    may_underrun: link.rate > slowest,
                });
            }
        }
        let rule = self.marking_rule()?;
        let config = &self.config.switch;
        let build = |(index, wiring): (usize, Box<[Option<PortWiring>]>)| {
            let marker = self.marker(rule.as_ref(), index, &wiring);
            let lanes = usize::from(self.config.lanes.count);
            let table = &self.tables.out[index];
            let ports = Ports::new(index as u32, lanes, wiring, table, marker, self.full_space());
            match config.architecture {
                Architecture::Voq => Switch::Voq(VoqSwitch::new(ports)),
                Architecture::Iq => Switch::Iq(IqSwitch::new(ports, config.queues, config.islip_iterations)),
            }
        };
        Ok(wiring.into_iter().enumerate().map(build).collect())
    }

    fn marking_rule(&self) -> Result<Option<Arc<FecnRule>>, ModelError> {
        match self.config.congestion.parts().0 {
            Marking::None => Ok(None),
            Marking::Fecn(fecn) => {
                let rule = fecn.rule(Bytes(u64::from(self.switch_lane)));
                rule.map(|rule| Some(Arc::new(rule)))
                    .map_err(|what| wrong(format!("congestion.marking: {what}")))
            }
        }
    }

    fn marker(&self, rule: Option<&Arc<FecnRule>>, switch: usize, wiring: &[Option<PortWiring>]) -> Marker {
        let Some(rule) = rule else { return Marker::None };
        let lanes = usize::from(self.config.lanes.count);
        let ports = (0..wiring.len() * lanes)
            .map(|lane| {
                let owner = (switch as u64) << 16 | lane as u64;
                let random = Stream::new(self.config.seed, "marking", owner);
                rule.port(wiring[lane / lanes].is_some_and(|port| port.faces_host), random)
            })
            .collect();
        Marker::Fecn { rule: Arc::clone(rule), ports }
    }

    fn hosts(&self) -> Result<Vec<Host>, ModelError> {
        let (_, notification, reaction) = self.config.congestion.parts();
        let cct = match reaction {
            Reaction::None => None,
            Reaction::Cct(cct) => Some(cct),
        };
        let mut channels = vec![None; self.topology.hosts.len()];
        for (id, link, from, _) in self.directed() {
            if let NodeRef::Host(index) = from.node {
                channels[index as usize] = Some((id, link.rate));
            }
        }
        let mut tables: Vec<(Rate, Arc<[u64]>)> = Vec::new();
        let mut hosts = Vec::with_capacity(channels.len());
        for (index, channel) in channels.into_iter().enumerate() {
            let name = &self.topology.hosts[index].name;
            let (out, rate) = channel.ok_or_else(|| wrong(format!("host {name} has no link")))?;
            let reaction = cct.as_ref().map(|cct| {
                let delays = self.delays(cct, rate, &mut tables);
                let mut random = Stream::new(self.config.seed, "ccti timer", index as u64);
                cct.rule(delays, self.sizes.mtu + self.sizes.header, &mut random)
            });
            hosts.push(Host::new(self.host_spec(index as u32, out, notification, reaction)));
        }
        Ok(hosts)
    }

    fn host_spec(
        &self,
        id: u32,
        out: ChannelId,
        notification: Notification,
        reaction: Option<crate::congestion::reaction::CctRule>,
    ) -> HostSpec {
        let config = &self.config.host;
        HostSpec {
            id,
            out,
            into: out ^ 1,
            injection: config.injection_rate.map_or(BytePace::INSTANT, Rate::pace),
            drain: config.drain_rate.map_or(BytePace::INSTANT, Rate::pace),
            message_overhead: config.message_overhead,
            sizes: self.sizes,
            lanes: self.config.lanes.count,
            notification,
            reaction,
        }
    }

    /// The table of delays, shared by hosts of equal link rate.
    fn delays(&self, cct: &Cct, rate: Rate, tables: &mut Vec<(Rate, Arc<[u64]>)>) -> Arc<[u64]> {
        if let Some((_, table)) = tables.iter().find(|(known, _)| *known == rate) {
            return Arc::clone(table);
        }
        let span = rate.pace().time(self.sizes.mtu + self.sizes.header);
        let table: Arc<[u64]> = cct.table.delays_ps(span).into();
        tables.push((rate, Arc::clone(&table)));
        table
    }

    fn vl(&self, sl: u8) -> u8 {
        let count = self.config.lanes.count.max(1);
        match &self.config.lanes.sl_to_vl {
            Some(map) => map.get(usize::from(sl)).copied().unwrap_or(0).min(count - 1),
            None => sl % count,
        }
    }

    /// Gives every host its sources and every flow or pattern its class. Returns the named flows.
    fn add_sources(
        &self,
        hosts: &mut [Host],
        classes: &mut Vec<ClassMeter>,
        is_destination: &mut [bool],
    ) -> Result<Vec<(String, FlowName)>, ModelError> {
        let mut named = Vec::new();
        for flow in &self.config.flows {
            let (from, to) = (self.host(&flow.from)?, self.host(&flow.to)?);
            let name = flow.name.clone().unwrap_or_else(|| format!("{}->{}", flow.from, flow.to));
            let class = self.add_class(classes, &name)?;
            let host = &mut hosts[from as usize];
            let source = host.sources.len() as u16;
            host.sources.push(self.flow_source(flow, class, from, to, source)?);
            is_destination[to as usize] = true;
            named.push((name, FlowName { class, host: from, source, destination: to }));
        }
        for (number, traffic) in self.config.traffic.iter().enumerate() {
            let name = traffic.name.clone().unwrap_or_else(|| format!("traffic {}", number + 1));
            let class = self.add_class(classes, &name)?;
            self.add_pattern(traffic, class, hosts, is_destination)?;
        }
        Ok(named)
    }

    fn add_class(&self, classes: &mut Vec<ClassMeter>, name: &str) -> Result<u16, ModelError> {
        let class = u16::try_from(classes.len())
            .map_err(|_| wrong("there may be up to 65,535 flows and patterns"))?;
        let meter = ClassMeter::new(name.to_string()).ok_or_else(|| wrong("no histogram could be made"))?;
        classes.push(meter);
        Ok(class)
    }

    fn message_size(&self, message: Option<Bytes>) -> Result<u32, ModelError> {
        small(message.unwrap_or(self.config.packet.mtu), "message").map(|bytes| bytes.max(1))
    }

    fn clock(&self, rate: Option<Rate>, arrivals: Arrivals, message: u32) -> Clock {
        match (rate, arrivals) {
            (None, _) => Clock::Saturating,
            (Some(rate), Arrivals::Periodic) => Clock::Periodic { pace: rate.pace(), carry: 0 },
            (Some(rate), Arrivals::Poisson) => Clock::Poisson { mean_ps: rate.pace().time(message).0 },
        }
    }

    fn flow_source(
        &self,
        flow: &Flow,
        class: u16,
        from: u32,
        to: u32,
        source: u16,
    ) -> Result<Source, ModelError> {
        let message = self.message_size(flow.message)?;
        let owner = u64::from(from) << 16 | u64::from(source);
        Ok(Source {
            class,
            sl: flow.sl,
            vl: self.vl(flow.sl),
            chooser: Chooser::Fixed(to),
            clock: self.clock(flow.rate, flow.arrivals, message),
            message,
            next_at: flow.start,
            stop: flow.stop.unwrap_or(Time::NEVER),
            left: flow.total.map_or(u64::MAX, |total| total.0),
            destinations: Stream::new(self.config.seed, "destinations", owner),
            arrivals: Stream::new(self.config.seed, "arrivals", owner),
            backlog: 0,
            ready: 0,
        })
    }

    fn add_pattern(
        &self,
        traffic: &Traffic,
        class: u16,
        hosts: &mut [Host],
        is_destination: &mut [bool],
    ) -> Result<(), ModelError> {
        let senders: Vec<u32> = match &traffic.hosts {
            Some(names) => names.iter().map(|name| self.host(name)).collect::<Result<_, _>>()?,
            None => (0..hosts.len() as u32).collect(),
        };
        let targets = self.targets(&traffic.pattern, class, hosts.len())?;
        let message = self.message_size(traffic.message)?;
        for (position, &sender) in senders.iter().enumerate() {
            let Some(chooser) = chooser(&traffic.pattern, &targets, position, sender, hosts.len()) else {
                continue;
            };
            match &chooser {
                Chooser::Fixed(to) => is_destination[*to as usize] = true,
                _ => is_destination.fill(true),
            }
            let host = &mut hosts[sender as usize];
            let owner = u64::from(sender) << 16 | host.sources.len() as u64;
            let mut arrivals = Stream::new(self.config.seed, "arrivals", owner);
            let clock = self.clock(traffic.rate, traffic.arrivals, message);
            let phase = match (&clock, traffic.rate) {
                (Clock::Saturating, _) | (_, None) => 0,
                (Clock::Periodic { .. }, Some(rate)) => {
                    let spacing = u128::from(rate.pace().time(message).0);
                    ((spacing * u128::from(arrivals.next_u32())) >> 32) as u64
                }
                (Clock::Poisson { mean_ps }, _) => arrivals.exponential(*mean_ps),
            };
            host.sources.push(Source {
                class,
                sl: traffic.sl,
                vl: self.vl(traffic.sl),
                chooser,
                clock,
                message,
                next_at: traffic.start + Time(phase),
                stop: traffic.stop.unwrap_or(Time::NEVER),
                left: u64::MAX,
                destinations: Stream::new(self.config.seed, "destinations", owner),
                arrivals,
                backlog: 0,
                ready: 0,
            });
        }
        Ok(())
    }

    /// The hosts a pattern is about: its hotspots, or a permutation's images.
    fn targets(&self, pattern: &Pattern, class: u16, hosts: usize) -> Result<Vec<u32>, ModelError> {
        match pattern {
            Pattern::Hotspots { to } => to.iter().map(|name| self.host(name)).collect(),
            Pattern::Permutation => {
                let mut random = Stream::new(self.config.seed, "permutation", u64::from(class));
                let mut images: Vec<u32> = (0..hosts as u32).collect();
                // About one permutation in e has no fixed point; a single host has none at all.
                while hosts > 1 && images.iter().enumerate().any(|(at, &image)| at as u32 == image) {
                    random.shuffle(&mut images);
                }
                Ok(images)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Names of all channels out of switches and hosts: "S1:3->H4".
    fn link_names(&self) -> Vec<(String, LinkName)> {
        let name = |end: End| match end.node {
            NodeRef::Host(_) => self.topology.name_of(end.node).to_string(),
            NodeRef::Switch(_) => format!("{}:{}", self.topology.name_of(end.node), end.port),
        };
        self.directed()
            .map(|(channel, _, from, to)| {
                let switch = match from.node {
                    NodeRef::Switch(index) => Some((index, usize::from(from.port) - 1)),
                    NodeRef::Host(_) => None,
                };
                (format!("{}->{}", name(from), name(to)), LinkName { channel, switch })
            })
            .collect()
    }
}

/// How one sender of a pattern chooses destinations; none if it has nobody to send to.
fn chooser(pattern: &Pattern, targets: &[u32], position: usize, me: u32, hosts: usize) -> Option<Chooser> {
    let count = hosts as u32;
    let fixed = |to: u32| (to != me).then_some(Chooser::Fixed(to));
    match pattern {
        Pattern::Uniform { include_self } => (count > 1 || *include_self).then_some(Chooser::Uniform {
            me,
            hosts: count,
            include_self: *include_self,
        }),
        Pattern::Hotspots { .. } => fixed(targets[position % targets.len().max(1)]),
        Pattern::Shift { by } => fixed((me + by % count) % count),
        Pattern::Permutation => fixed(targets[me as usize]),
        Pattern::AllToAll => (count > 1).then_some(Chooser::InTurn { me, hosts: count, next: 1 }),
    }
}
