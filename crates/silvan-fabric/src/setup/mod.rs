//! Builds a runnable network from topology, tables and configuration.

mod control;
mod credits;
mod exchanges;
mod faults;
mod jobs;
mod model;
mod offered;
mod partition;
mod pause;
mod pfc;
mod queues;
mod round_trip;
mod routes;
mod sources;
#[cfg(test)]
mod tests;
mod ways;

pub use credits::{ShortCredit, short_credit};
pub use faults::{FaultPlan, RemainingNetwork};
pub use model::check;
pub(crate) use partition::Choice;
pub use pfc::{PauseMemory, SharedPauseMemory, pause_memory};
pub use round_trip::RoundTrips;
pub use routes::{HostNames, check_links, check_routes};
pub use sources::permutation;

use std::cell::OnceCell;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use silvan_congestion::Components;
use silvan_congestion::reaction::Reactor;
use silvan_congestion::round_trip::RoundTrip;
use silvan_engine::random::Stream;
use silvan_engine::saved::Saved;
use silvan_engine::{Bytes, Rate, Time};
use silvan_network::port::{Port, Vl};
use silvan_network::routing::Tables;
use silvan_network::routing::path_bits::PathBits;
use silvan_network::routing::path_states::Retirement;
use silvan_network::routing::port_groups::PortGroups;
use silvan_network::routing::spraying::{Sprayer, Spraying};
use silvan_network::topology::{End, Link, MAX_FCFS_PORTS, Machine, NodeRef, Topology};
use silvan_network::traffic::forest::ForestRoles;

use self::model::{Model, SwitchModel};
use self::partition::{DividedNetwork, Whole};
use self::sources::placement;
use crate::config::{Config, Delivery, Selection};
use crate::error::{Reason, SetupError};
use crate::faults::{HostChange, LinkChange, PlannedChanges, RecoveryKind, Reroutes};
use crate::host::{Adapter, Host, HostSpec, RecoveryRule};
use crate::lane_tables::LaneArbiters;
use crate::link::{
    BufferDivision, Change, ChannelId, ChannelSpec, Class, Control, HostPaces, Links, MAX_NODES, MAX_PORTS,
    Receiver, UNLIMITED, What, key,
};
use crate::lookahead::Lookahead;
use crate::meters::{Meters, Transfers};
use crate::observe::{ForestObserver, LinkName, Series};
use crate::order::Order;
use crate::outcome::{ChangeLog, Group, HostPorts, Recording, Sections, TransferPlan};
use crate::partition::{Neighbors, Partition, Places, View};
use crate::routes::{ForwardingTable, Routes, RoutesBuilder};
use crate::switch::{NumberedTable, PortLayout, Ports, Steering};
use crate::switch_marking::SwitchMarking;
use crate::table::ResultNames;
use crate::trimming::Trimmer;

/// A runnable network.
#[derive(Saved)]
pub(crate) struct Network {
    pub partitions: Vec<Partition>,
    #[saved(constant)]
    pub places: Places,
    /// The partitions that exchange messages.
    #[saved(constant)]
    pub neighbors: Neighbors,
    /// For each channel, the receiving switch and its input; `None` for channels to hosts.
    #[saved(constant)]
    pub receiver: Vec<Receiver>,
    /// The sums of the counters of all partitions at the last sample.
    pub totals: Meters,
    pub series: Series,
    /// Congestion trees, if they are recorded.
    pub forest: Option<Box<ForestObserver>>,
    /// The optional sections of the results.
    pub sections: Sections,
    /// The changes of links and hosts.
    #[saved(constant)]
    pub changes: ChangeLog,
    #[saved(constant)]
    pub names: ResultNames,
    /// Whether each host is the destination of any traffic.
    #[saved(constant)]
    pub is_destination: Vec<bool>,
    /// Groups of hosts for the summary.
    #[saved(constant)]
    pub groups: Vec<Group>,
    /// Hosts with several ports.
    #[saved(constant)]
    pub machines: Vec<HostPorts>,
    #[saved(constant)]
    pub lookahead: Lookahead,
    /// Why the event-ordered scheduler runs the switches; `Ok` if the binned one does.
    #[saved(constant)]
    pub choice: Choice,
    /// The components of congestion management in effect.
    #[saved(constant)]
    pub parts: Components,
    /// The longest of the round trips from which parameters follow, and their number, one for each group of hosts; `None`
    /// if no component needs them.
    #[saved(constant)]
    pub round_trip: Option<(RoundTrip, usize)>,
    /// See [`short_credit`].
    #[saved(constant)]
    pub short_credit: Option<ShortCredit>,
}

// Every port number of a valid topology fits in an event key.
const _: () = assert!(MAX_FCFS_PORTS as u32 == MAX_PORTS);

impl Network {
    /// Updates all counters to `now`, and adds up the counts of the partitions.
    pub fn gather(&mut self, now: Time) {
        self.partitions.iter_mut().for_each(|partition| partition.prepare_sample(now));
        self.totals.gather(self.partitions.iter_mut().map(|partition| &mut partition.ctx.meters));
    }

    /// Records the transfers that have finished since the last call.
    pub fn collect_transfers(&mut self, now: Time) {
        let meters = self.partitions.iter_mut().map(|partition| &mut partition.ctx.meters);
        let finished = Transfers::take_finished(meters.filter_map(|meters| meters.transfers.as_deref_mut()));
        let Self { partitions, places, receiver, totals, sections, .. } = self;
        if let Some(transfers) = &mut sections.transfers {
            transfers.add(View { now, totals, receiver, places, partitions }, finished);
        }
    }

    /// Sets the time of the next sample.
    pub fn expect_sample(&mut self, time: Time) {
        self.partitions.iter_mut().for_each(|partition| partition.expect_sample(time));
    }

    /// The view for observers.
    pub fn view(&self, now: Time) -> View<'_> {
        let Self { partitions, places, receiver, totals, .. } = self;
        View { now, totals, receiver, places, partitions }
    }
}

/// A channel: one direction of a link, with its two ends.
#[derive(Debug, Clone, Copy)]
struct WiredChannel<'a> {
    id: ChannelId,
    link: &'a Link,
    from: End,
    to: End,
}

#[derive(Debug, Clone, Copy)]
struct HostLink {
    /// The channel on which the host sends.
    out: ChannelId,
    /// The channel on which it receives.
    into: ChannelId,
    rate: Rate,
}

struct Builder<'a> {
    topology: &'a Topology,
    tables: &'a Tables,
    model: Model<'a>,
    /// The roles of the hosts for each traffic pattern; `None` if the pattern is not a forest.
    forests: Vec<Option<ForestRoles>>,
    /// Changes during the run, and the tables that follow.
    changes: PlannedChanges,
    reroutes: Reroutes,
    /// See [`Builder::find_largest_space`]; computed when it is first needed.
    largest_space: OnceCell<(u32, u32)>,
    /// See [`Builder::find_slowest_rates`]; computed when it is first needed.
    slowest_rates: OnceCell<Vec<Rate>>,
}

/// Creates the error for settings from which counters cannot be created.
fn wrong(what: &'static str) -> SetupError {
    Reason::NoCounters(what).at("measure")
}

fn small(bytes: Bytes, key: &str) -> Result<u32, SetupError> {
    u32::try_from(bytes.0)
        .ok()
        .filter(|&bytes| bytes <= 1 << 30)
        .ok_or_else(|| Reason::TooLarge.of(key, bytes))
}

/// Builds the network from inputs that passed [`check_routes`]; see [`crate::simulation::Simulation::new`].
pub(crate) fn build(
    topology: &Topology,
    tables: &Tables,
    config: &Config,
    faults: FaultPlan,
) -> Result<Network, SetupError> {
    let builder = Builder::new(topology, tables, config, faults)?;
    check_links(&builder.model.parts, topology)?;
    let (mut links, receiver) = builder.links()?;
    links
        .plan_changes(builder.planned_changes(), config.lossy_lanes() != 0, config.seed)
        .map_err(|what| Reason::TooManyKindsOfLinks(what.to_owned()).at("event"))?;
    let switches = builder.ports()?;
    let mut hosts = builder.hosts()?;
    let mut classes = Vec::new();
    let mut is_destination = vec![false; topology.hosts.len()];
    let (flows, triggers) = builder.add_sources(&mut hosts, &mut classes, &mut is_destination)?;
    let jobs = builder.jobs(&mut hosts, &mut classes, &mut is_destination)?;
    let external = builder.external(&mut hosts, &mut classes)?;
    let (link_names, link_list): (Vec<String>, Vec<LinkName>) = builder.link_names().into_iter().unzip();
    let measure = &config.measure;
    let forest = if measure.forest {
        let is_short = builder.is_short_of_credit(ForestObserver::BUSY)?;
        let of_links = (&*link_list, &*is_short);
        Some(Box::new(ForestObserver::new(config, builder.model.full_space, of_links, &switches)))
    } else {
        None
    };
    let (flow_names, flows) = flows.into_iter().unzip();
    let names = ResultNames {
        links: Arc::new(link_names),
        hosts: Arc::new(topology.hosts.iter().map(|host| host.name.clone()).collect()),
        switches: Arc::new(topology.switches.iter().map(|switch| switch.name.clone()).collect()),
        classes: Arc::new(classes.iter().map(|class| class.name.clone()).collect()),
        flows: Arc::new(flow_names),
    };
    let class_names = measure.classes.then(|| Arc::clone(&names.classes));
    let recorded = (measure.hosts, measure.links);
    let series = Series::new(measure.interval, recorded, hosts.len(), class_names, flows, link_list);
    let mut meters = Meters::new(classes, hosts.len());
    meters.warmup = config.warmup;
    let of_applications =
        jobs.iter().map(|job| job.class).chain(external.iter().map(|external| external.class));
    meters.jobs_from = of_applications.min().unwrap_or(u16::MAX);
    let plan = builder.transfer_plan();
    let has_own_flows = builder.model.traffic.iter().any(|traffic| traffic.has_own_flows);
    if config.records_transfers() || has_own_flows {
        meters.transfers = Some(Box::new(Transfers::new(
            plan.awaits_acks,
            config.loses_packets() && config.recovery.is_none(),
        )));
    }
    let transfers = config.records_transfers().then_some(plan);
    let sections = Sections::new(&Recording { config, parts: &builder.model.parts, transfers });
    let totals = meters.fresh();
    let whole = Whole { links, meters, hosts, switches, triggers, jobs, external };
    let DividedNetwork { partitions, places, neighbors, lookahead, choice } =
        builder.divide(whole, &receiver, config.scheduler)?;
    let groups = builder.groups();
    let short_credit = builder.short_credit()?;
    let changes = builder.change_log();
    let Model { parts, round_trips, .. } = builder.model;
    Ok(Network {
        parts,
        round_trip: round_trips.map(|trips| (*trips.longest(), trips.count())),
        short_credit,
        partitions,
        places,
        neighbors,
        totals,
        receiver,
        series,
        forest,
        sections,
        changes,
        names,
        is_destination,
        groups,
        machines: topology.machines.iter().map(ports_of).collect(),
        lookahead,
        choice,
    })
}

fn ports_of(machine: &Machine) -> HostPorts {
    HostPorts { name: machine.name.clone(), ports: machine.ports.clone() }
}

impl<'a> Builder<'a> {
    fn new(
        topology: &'a Topology,
        tables: &'a Tables,
        config: &'a Config,
        FaultPlan { changes, reroutes }: FaultPlan,
    ) -> Result<Self, SetupError> {
        if topology.hosts.len() as u64 >= u64::from(MAX_NODES)
            || topology.switches.len() as u64 >= u64::from(MAX_NODES)
        {
            return Err(Reason::TooManyNodes.at("topology"));
        }
        let model = Model::new(topology, tables, config)?;
        routes::check_switches(config, topology)?;
        if let Some(ecmp) = config.hashing().filter(|ecmp| ecmp.selection == Selection::SourceRoute) {
            let (_, routes) = PortGroups::new(topology, tables).place_values(topology);
            if routes > ecmp.values.into() {
                return Err(Reason::FewerValuesThanRoutes(routes).at("ecmp.values"));
            }
        }
        let forests = model.traffic.iter().enumerate().map(|traffic| placement(&model, traffic, topology));
        let forests = forests.collect();
        let (largest_space, slowest_rates) = (OnceCell::new(), OnceCell::new());
        Ok(Self { topology, tables, model, forests, changes, reroutes, largest_space, slowest_rates })
    }

    /// How transfers are recorded.
    fn transfer_plan(&self) -> TransferPlan {
        let notification = self.model.parts.notification;
        // Receipts acknowledge each packet.
        let has_receipts = self.model.config.recovery.is_some();
        TransferPlan {
            sizes: self.model.sizes,
            awaits_acks: has_receipts || notification.answers_unmarked(),
            is_each: has_receipts || notification.acknowledges_each(),
            from: self.model.config.warmup,
            flows: self.model.flows.len() as u16,
            host_paces: (self.model.host.usual_injection(), self.model.host.drain()),
        }
    }

    /// Estimates the time between events, which determines the bucket width of the event queue. The estimate
    /// assumes that every host is busy, with about eight events per packet, or two if only hosts have events.
    fn event_spacing(&self, is_binned: bool) -> Time {
        let to_host = |link: &&Link| [link.a, link.b].iter().any(|end| matches!(end.node, NodeRef::Host(_)));
        let rates = self.topology.links.iter().filter(to_host).map(|link| link.rate).max();
        let events = if is_binned { 2 } else { 8 };
        let span =
            rates.unwrap_or(Rate::from_gbit(1)).pace().time(self.model.sizes.mtu + self.model.sizes.header);
        Time(span.0 / (events * self.topology.hosts.len().max(1) as u64))
    }

    /// Twice the longest time in which a full packet crosses a link and a switch. Nodes rarely schedule
    /// events further ahead.
    fn event_reach(&self) -> Time {
        let full = self.model.sizes.mtu + self.model.sizes.header;
        let crossing = self.topology.links.iter().map(|link| link.rate.pace().time(full) + link.delay);
        let longest = crossing.max().unwrap_or_default() + self.model.switch.latency;
        longest + longest
    }

    /// The number of full packets that can be on all links at one time.
    fn packets_on_links(&self) -> u64 {
        let full = self.model.sizes.mtu + self.model.sizes.header;
        let on = |link: &Link| link.delay.0 / link.rate.pace().time(full).0.max(1);
        self.directed().map(|way| on(way.link)).sum()
    }

    /// All channels in the order of their links: first the channel from end a of a link, then, unless the
    /// link is one-way, the channel from its end b.
    fn directed(&self) -> impl Iterator<Item = WiredChannel<'a>> {
        let ways = self.topology.links.iter().flat_map(|link| link.channels().map(move |way| (link, way)));
        (0..).zip(ways).map(|(id, (link, (from, to)))| WiredChannel { id, link, from, to })
    }

    fn links(&self) -> Result<(Links, Vec<Receiver>), SetupError> {
        let node = |end: End| match end.node {
            NodeRef::Host(index) => (true, index, Port::FIRST),
            NodeRef::Switch(index) => (false, index, Port::of_number(end.port)),
        };
        self.check_shared_credits()?;
        let control = self.control_by_messages()?;
        let mut receiver = Vec::new();
        let divisions: Vec<(BufferDivision, u32)> = (0..self.topology.switches.len())
            .map(|switch| self.division(switch))
            .collect::<Result<_, _>>()?;
        let specs: Vec<ChannelSpec> = self
            .directed()
            .map(|WiredChannel { link, from, to, .. }| {
                let ((from_host, from_node, from_port), (to_host, to_node, to_port)) = (node(from), node(to));
                receiver.push((!to_host).then_some((to_node, to_port)));
                let arrival = if to_host { Class::HostArrival } else { Class::SwitchArrival };
                let wake = if from_host { Class::HostWake } else { Class::SwitchWake };
                let whole = || (BufferDivision::Whole, self.model.host.lane);
                let (division, region_capacity) =
                    if to_host { whole() } else { divisions[to_node as usize].clone() };
                let region_capacity = match self.model.credits.and_then(|credits| credits.shared.as_ref()) {
                    _ if control.is_some() || self.model.switch.trimming.is_some() => UNLIMITED,
                    None => region_capacity,
                    // The most that one lane can use.
                    Some(shared) => {
                        let pool = self.pool(shared, region_capacity)?;
                        pool.reserve + pool.size
                    }
                };
                Ok(ChannelSpec {
                    rate: link.rate,
                    delay: link.delay,
                    receiver_latency: self.model.switch.latency,
                    to_host,
                    to_storing: !to_host && self.model.switch.stores,
                    arrival_key: key(arrival, to_node, to_port),
                    wake_key: key(wake, from_node, from_port),
                    region_capacity,
                    division,
                })
            })
            .collect::<Result<_, SetupError>>()?;
        let mut links = Links::new(&specs, self.model.lanes.count)
            .map_err(|what| Reason::TooManyKindsOfLinks(what).at("topology"))?;
        if let Some(control) = control {
            links.set_control(control);
        }
        if let Some(credits) = self.model.credits {
            links.set_credit_rules(self.credit_rules(credits)?);
        }
        Ok((links, receiver))
    }

    /// Flow control by messages; `None` with credits.
    fn control_by_messages(&self) -> Result<Option<Control>, SetupError> {
        let frames = self.model.pauses.as_ref().map(|pauses| self.frames(pauses)).transpose()?;
        Ok(frames.map(Control::Frames))
    }

    /// The changes during the run, with the names of links and hosts; without names if nothing changes.
    fn change_log(&self) -> ChangeLog {
        let links = self.topology.links.iter();
        let links = links.map(|link| format!("{} - {}", self.end_name(link.a), self.end_name(link.b)));
        let hosts = self.topology.hosts.iter().map(|host| host.name.clone());
        let is_empty = self.changes.links.is_empty() && self.changes.hosts.is_empty();
        let usual = self.topology.links.iter().flat_map(|link| [(link.a, link.rate), (link.b, link.rate)]);
        let mut rates = vec![Rate::default(); self.topology.hosts.len()];
        for (end, rate) in usual {
            if let NodeRef::Host(host) = end.node {
                rates[host as usize] = rate;
            }
        }
        ChangeLog {
            names: if is_empty { Vec::new() } else { links.chain(hosts).collect() },
            links: self.topology.links.len(),
            rates,
            changes: self.changes.clone(),
            tables: self.reroutes.times.iter().map(|(time, _)| *time).collect(),
        }
    }

    /// The changes of channels, ports, tables and hosts before the end of the run, in order of time.
    fn planned_changes(&self) -> Vec<Change> {
        let PlannedChanges { links, hosts } = &self.changes;
        if links.is_empty() && hosts.is_empty() {
            return Vec::new();
        }
        let mut channels = vec![Vec::new(); self.topology.links.len()];
        let mut into = vec![ChannelId::MAX; self.topology.hosts.len()];
        let mut rates = vec![Rate::default(); self.topology.hosts.len()];
        let ways = self.topology.links.iter().enumerate();
        let ways = ways.flat_map(|(index, link)| link.channels().map(move |ends| (index, link.rate, ends)));
        for (channel, (link, rate, (from, to))) in (0..).zip(ways) {
            channels[link].push(channel);
            if let NodeRef::Host(host) = to.node {
                into[host as usize] = channel;
            }
            if let NodeRef::Host(host) = from.node {
                rates[host as usize] = rate;
            }
        }
        let mut planned = Vec::new();
        for &LinkChange { time, link, state } in links {
            for &channel in &channels[link] {
                planned.push(Change { time, what: What::Channel(channel, state) });
            }
        }
        if let Some(delay) = self.model.config.rerouting.port_delay {
            let mut is_up = vec![true; self.topology.links.len()];
            for &LinkChange { time, link, state } in links {
                if std::mem::replace(&mut is_up[link], state.is_up) != state.is_up {
                    let change = |&channel: &ChannelId| Change {
                        time: time + delay,
                        what: What::Port(channel, state.is_up),
                    };
                    planned.extend(channels[link].iter().map(change));
                }
            }
        }
        let tables = self.reroutes.times.iter();
        planned.extend(tables.map(|&(time, number)| Change { time, what: What::Tables(number) }));
        for &HostChange { time, host, state } in hosts {
            let usual = self.model.host.injection(rates[host]);
            let shared = state.drain.filter(|_| state.is_shared).map(Rate::pace);
            let paces = HostPaces {
                injection: shared.filter(|&pace| usual.is_as_fast_as(pace)).unwrap_or(usual),
                is_shared: state.is_shared,
                is_stopped: state.is_stopped,
            };
            planned.push(Change { time, what: What::Host(into[host], paces) });
        }
        planned.retain(|change| change.time < self.model.config.duration);
        planned.sort_by_key(|change| change.time);
        planned
    }

    /// The ports of all switches.
    fn ports(&self) -> Result<Vec<Ports>, SetupError> {
        let mut wiring: Vec<Box<[Option<PortLayout>]>> = self
            .topology
            .switches
            .iter()
            .map(|switch| vec![None; usize::from(switch.ports)].into())
            .collect();
        let rates = self.topology.links.iter().map(|link| link.rate);
        let slowest = rates.chain(self.changes.links.iter().map(|change| change.state.rate)).min();
        let slowest = slowest.unwrap_or_default();
        for WiredChannel { id, link, from, to } in self.directed() {
            if let NodeRef::Switch(index) = from.node {
                wiring[index as usize][Port::of_number(from.port).index()] = Some(PortLayout {
                    out: id,
                    // The incoming channel is set below.
                    into: ChannelId::MAX,
                    rate: link.rate,
                    faces_host: matches!(to.node, NodeRef::Host(_)),
                    may_underrun: link.rate > slowest && !self.model.switch.stores,
                });
            }
        }
        for WiredChannel { id, to, .. } in self.directed() {
            if let NodeRef::Switch(index) = to.node
                && let Some(port) = &mut wiring[index as usize][Port::of_number(to.port).index()]
            {
                port.into = id;
            }
        }
        let rule = self.marking_rule();
        let mut directors = self.directors()?.map(Vec::into_iter);
        let mut choosers = self.choosers().map(Vec::into_iter);
        let neighbours = self.neighbours();
        let (routes, mut tables) = self.routes();
        let build = |(index, wiring): (usize, Box<[Option<PortLayout>]>)| {
            let marker = self.marker(&rule, index, &wiring);
            let director = directors.as_mut().and_then(|directors| directors.next()).map(Steering::Flows);
            let chooser = choosers.as_mut().and_then(|choosers| choosers.next()).map(Steering::Packets);
            let own = std::mem::take(&mut tables[index]);
            let hasher = own[0].hasher.map(Steering::Hashed);
            let lanes_of_paths = || self.steering_by_lanes(&neighbours);
            let steering = director.or(chooser).or(hasher).or_else(lanes_of_paths).map(Box::new);
            let lanes = usize::from(self.model.lanes.count);
            let table = ForwardingTable { routes: Arc::clone(&routes), row: own[0].row };
            let mut marking = SwitchMarking::new(marker, wiring.len(), self.model.full_space);
            if self.model.config.measure.congestion_log {
                marking.keep_log();
            }
            let mut ports = Ports::new(index as u32, lanes, wiring, table, (marking, steering));
            self.set_way_back(&mut ports);
            ports.first_lane = self.model.lanes.first.map(Vl);
            let arbiters = |tables| Box::new(LaneArbiters::new(tables, ports.count()));
            ports.arbiters = self.model.lanes.tables.as_ref().map(arbiters);
            let SwitchModel { trimming, queues_of_rates, .. } = &self.model.switch;
            let link = |wiring: &Option<PortLayout>| wiring.map(|wiring| (wiring.rate, wiring.faces_host));
            let stream =
                |lane| Stream::new(self.model.config.seed, "trimming", (index as u64) << 16 | lane as u64);
            let trimmer =
                |rule| Trimmer::new((rule, queues_of_rates), ports.wiring.iter().map(link), lanes, stream);
            ports.trimmer = trimming.map(trimmer).map(Box::new);
            if own.len() > 1 {
                ports.all_tables = own.into();
            }
            ports
        };
        Ok(wiring.into_iter().enumerate().map(build).collect())
    }

    /// The forwarding tables of all switches and, for each switch, its original table and those after each
    /// rerouting.
    fn routes(&self) -> (Arc<Routes>, Vec<Vec<NumberedTable>>) {
        let mut builder = RoutesBuilder::default();
        let others = self.reroutes.others.iter().map(|other| (&other.topology, &other.tables));
        let mut found = vec![Vec::new(); self.topology.switches.len()];
        for (topology, tables) in std::iter::once((self.topology, self.tables)).chain(others) {
            let hashing = self.hashing(topology, tables).unwrap_or_default();
            let adapts = self.model.packet_routes.is_some() && !self.reroutes.others.is_empty();
            let choices = adapts.then(|| PortGroups::new(topology, tables).switches);
            for (switch, (table, found)) in tables.out.iter().zip(&mut found).enumerate() {
                let hasher = hashing.get(switch);
                let hasher = hasher.map(|(choices, hash)| builder.add_choices(table, choices, *hash));
                let choices = choices.as_ref().map(|choices| Arc::clone(&choices[switch]));
                found.push(NumberedTable { row: builder.add(table), hasher, choices });
            }
        }
        (builder.build(), found)
    }

    fn hosts(&self) -> Result<Vec<Host>, SetupError> {
        let reactions = self.reactions();
        let first_switches = self.first_switches();
        let paths = self.paths();
        let mut lanes: FxHashMap<usize, Option<Arc<[u8]>>> = FxHashMap::default();
        let mut channels = vec![None; self.topology.hosts.len()];
        let mut into = vec![ChannelId::MAX; self.topology.hosts.len()];
        for WiredChannel { id, link, from, to } in self.directed() {
            match (from.node, to.node) {
                (NodeRef::Host(index), _) => channels[index as usize] = Some((id, link.rate)),
                (_, NodeRef::Host(index)) => into[index as usize] = id,
                _ => {}
            }
        }
        let mut hosts = Vec::with_capacity(channels.len());
        let shared = self.shared_limits();
        let groups = self.sharing_windows();
        let mut rates: FxHashMap<u32, Rate> = FxHashMap::default();
        for group in &groups {
            let own = group.iter().filter_map(|&port| channels[port as usize]);
            let sum = Rate(own.map(|(_, rate)| rate.0).sum());
            rates.extend(group.iter().map(|&port| (port, sum)));
        }
        for (index, channel) in channels.into_iter().enumerate() {
            let name = &self.topology.hosts[index].name;
            let (out, rate) = channel.ok_or_else(|| Reason::NoLink(name.clone()).at("topology"))?;
            let rate_of_windows = rates.get(&(index as u32)).copied().unwrap_or(rate);
            let reactor = reactions.reactor(index as u32, rate_of_windows);
            let switch = first_switches[index];
            let lane_of = lanes.entry(switch).or_insert_with(|| self.destination_lanes(switch)).clone();
            let adapter = self.adapter();
            let at = HostLink { out, into: into[index], rate };
            let spec = self.host_spec(index as u32, at, reactor, lane_of, adapter);
            let shared = shared.get(&(index as u32)).copied();
            hosts.push(Host::new(HostSpec { paths: paths.clone(), shared, ..spec }));
        }
        self.share_windows(&mut hosts, &groups);
        Ok(hosts)
    }

    /// For each port that shares an injection limit, the index of the limit.
    fn shared_limits(&self) -> FxHashMap<u32, u32> {
        if self.model.config.shared_injection.is_none() {
            return FxHashMap::default();
        }
        self.ports_of_machines().collect()
    }

    /// The ports of hosts with several ports, each with the index of its host.
    fn ports_of_machines(&self) -> impl Iterator<Item = (u32, u32)> {
        let machines = (0..).zip(&self.topology.machines);
        machines.flat_map(|(at, machine)| machine.ports.iter().map(move |&port| (port, at)))
    }

    fn host_spec(
        &self,
        id: u32,
        HostLink { out, into, rate }: HostLink,
        reactor: Option<Reactor>,
        lane_of: Option<Arc<[u8]>>,
        adapter: Option<Box<Adapter>>,
    ) -> HostSpec {
        let Model { host, lanes, parts, .. } = &self.model;
        HostSpec {
            id,
            out,
            into,
            injection: host.injection(rate),
            shared: None,
            limits_control: host.limits_control,
            message_overhead: host.message_overhead,
            sizes: self.model.sizes,
            lanes: lanes.count,
            control_lane: lanes.control.map(Vl),
            arbiter: lanes.tables.as_ref().map(|tables| Box::new(LaneArbiters::new(tables, 1))),
            reactor,
            responder: self.responder(id, rate),
            validates: parts.marking.validates(),
            has_units: parts.acknowledge.is_some(),
            lane_of,
            paths: None,
            adapter,
            announcer: self.announcer(id, rate),
            order: self.order(),
            sprayer: self.sprayer(id),
            recovery: self.model.config.recovery.as_ref().map(|recovery| RecoveryRule {
                timeout: recovery.timeout,
                goes_back: recovery.kind == RecoveryKind::GoBackN,
                has_acks: parts.notification.acknowledges_each(),
                reordering: recovery.reordering,
            }),
            log: self.model.config.measure.congestion_log.then(Box::default),
        }
    }

    /// The component that restores the packet order at a host; `None` unless packets may overtake each other.
    fn order(&self) -> Option<Box<Order>> {
        let pins = self.model.packet_routes.as_ref().is_some_and(|choice| choice.pins_throttled);
        let accepts = self.model.config.host.delivery == Delivery::OutOfOrder;
        self.model.config.may_reorder().then(|| Box::new(Order::new(pins, accepts)))
    }

    /// The component that selects the entropy values or path bits of a host's packets; `None` unless the
    /// packets of a flow have several.
    fn sprayer(&self, host: u32) -> Option<Box<Sprayer>> {
        let seed = self.model.config.seed;
        let sprayer = match self.model.config.path_bits {
            PathBits::PerPacket => {
                let values = self.tables.lids() as u16;
                Sprayer::new(Spraying::Oblivious, values, Retirement::default(), (seed, host))
                    .with_direct_values()
            }
            PathBits::Zero | PathBits::PerFlow => {
                let ecmp = self.model.config.hashing().filter(|ecmp| ecmp.spraying.is_on())?;
                let retirement = ecmp.retirement.clone().unwrap_or_default();
                let sprayer = Sprayer::new(ecmp.spraying, ecmp.values, retirement, (seed, host));
                match ecmp.selection {
                    Selection::Hash => sprayer,
                    Selection::SourceRoute => sprayer.with_direct_values(),
                }
            }
        };
        Some(Box::new(sprayer))
    }

    /// The name of an end of a link, such as "S1:3" or "H4".
    fn end_name(&self, end: End) -> String {
        match end.node {
            NodeRef::Host(_) => self.topology.name_of(end.node).to_string(),
            NodeRef::Switch(_) => self.topology.port_name(end),
        }
    }

    /// The names of all channels, such as "S1:3->H4", with their outputs.
    fn link_names(&self) -> Vec<(String, LinkName)> {
        let lanes = usize::from(self.model.lanes.count);
        self.directed()
            .map(|way| {
                let switch = match way.from.node {
                    NodeRef::Switch(index) => Some((index, Port::of_number(way.from.port))),
                    NodeRef::Host(_) => None,
                };
                (self.channel_name(&way), LinkName { channel: way.id, switch, lanes })
            })
            .collect()
    }

    fn channel_name(&self, way: &WiredChannel) -> String {
        format!("{}->{}", self.end_name(way.from), self.end_name(way.to))
    }
}
