//! Summarizes a scenario: its network, the link loads of its routing, and the cost of a run
//! ([`crate::estimate`]).

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::Serialize;
use silvan_congestion::reaction::Reaction;
use silvan_engine::Rate;
use silvan_fabric::RoundTrips;
use silvan_fabric::config::{Arbitration, Architecture, Config, RoutePer};
use silvan_network::routing::path_bits::PathBits;
use silvan_network::routing::{Analysis, Division, Tables, analyze_lanes};
use silvan_network::topology::Topology;
use silvan_network::traffic::forest::{ForestRoles, Role};
use silvan_network::traffic::{Forest, Job, Pattern, Traffic};
use silvan_trace::check::Contents;
use silvan_trace::trace::CollectiveUse;

use crate::estimate::{Estimate, estimate, rates};
use crate::network;
use crate::rows;
use crate::scenario::Scenario;
use crate::spec::Spec;

/// Result of [`Scenario::check`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Name of the scenario, if it has one.
    pub name: Option<String>,
    /// The family or origin of the network.
    pub topology: String,
    /// Number of hosts.
    pub hosts: usize,
    /// Number of switches.
    pub switches: usize,
    /// Number of links, full-duplex or unidirectional.
    pub links: usize,
    /// Kind of routing.
    pub routing: String,
    /// How packets deviate from the routes of `routing`, in words: `[ecmp]`, spraying, adaptive routing, path bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<String>,
    /// The order in which outputs serve packets.
    pub arbitration: Arbitration,
    /// The component that makes the network an Ethernet network, in the notation of scenarios; `None` if there is no
    /// such component.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ethernet: Option<String>,
    /// Thresholds of marks at outputs, for each rate of links, if they depend on the rate or the round trip.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<Thresholds>,
    /// The division of the memory of switches with pause frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pauses: Option<PauseReport>,
    /// A dependency cycle of channels in which packets can wait for each other, or `None`.
    pub deadlock: Option<String>,
    /// The error with which a run fails because its routes can deadlock, or `None`.
    pub refusal: Option<String>,
    /// Ordered pairs of hosts for which the tables have a route.
    pub pairs_routed: u64,
    /// Ordered pairs of hosts without a route.
    pub pairs_unroutable: u64,
    /// Number of flows on the directed links between switches if every host sends to every other host.
    pub all_to_all: LinkLoad,
    /// Number of named flows.
    pub flows: usize,
    /// Number of traffic patterns.
    pub traffic: usize,
    /// Parallel applications.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobReport>,
    /// Roles of the hosts in each forest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forests: Vec<ForestReport>,
    /// The round trip on the longest route. Present if a reaction needs acknowledgements or the round trip,
    /// or if switches have both input and output buffers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<RoundTripReport>,
    /// Estimated cost of a run.
    pub estimate: Estimate,
    /// Warnings about keys that have no effect, the file of the topology, the routes, sources that never
    /// start, recorded data, and threads.
    pub warnings: Vec<String>,
}

/// The work of a job's ranks. Serialized to JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobReport {
    /// Name of the job.
    pub job: String,
    /// Number of ranks.
    pub ranks: usize,
    /// Hosts of the ranks, in the order of the ranks. Consecutive ranks on one host are listed once.
    pub hosts: Vec<String>,
    /// Number of reduction units that the ranks use.
    pub units: usize,
    /// Number of messages that the ranks and the units send.
    pub messages: u64,
    /// Total payload of the messages in bytes.
    pub bytes: u64,
    /// Collective operations that are expanded into messages, with their algorithms.
    pub collectives: Vec<CollectiveUse>,
    /// Notes of the trace reader.
    pub notes: Vec<String>,
}

/// Roles of the hosts in a forest, drawn from the seed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ForestReport {
    /// Name of the traffic pattern, or else its key, such as `traffic.0`.
    pub traffic: String,
    /// The hotspots, one for each subset of contributors and mixed hosts. If hotspots move, these are the
    /// first ones.
    pub hotspots: Vec<String>,
    /// Number of times the hotspots move before the end.
    pub moves: u32,
    /// Number of hosts that send only to their hotspot.
    pub contributors: usize,
    /// Number of hosts that send only to random hosts.
    pub victims: usize,
    /// Number of hosts that send to both.
    pub mixed: usize,
    /// Number of contributors and mixed hosts in each subset.
    pub subset_sizes: Vec<usize>,
    /// Upper bound of the average received rate of a host that is not a hotspot, in Gbit/s, if there were
    /// no hotspots (t_max of Paper IV): the random traffic that victims and mixed hosts offer, divided by
    /// the number of hosts, but at most the drain rate of a host.
    pub tmax_gbit_s: f64,
}

/// The longest round trip of a packet and its acknowledgement between hosts that communicate, and the window that
/// it requires.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RoundTripReport {
    /// Name of the sender with the longest round trip.
    pub from: String,
    /// Name of its receiver.
    pub to: String,
    /// Number of groups of hosts that have no traffic with each other. Each has a round trip of its own; this is the
    /// longest one.
    pub groups: usize,
    /// Most switches on a route.
    pub hops: u32,
    /// Stages of the network.
    pub stages: u32,
    /// Largest number of hosts at one switch, among the switches with a host that communicates.
    pub radix: u32,
    /// Time from the start of a full packet until its acknowledgement has arrived, without load, in ns.
    pub shortest_ns: f64,
    /// Number of packets that can be sent during the round trip.
    pub window: f64,
    /// The smallest window that does not slow down a flow: `window`, rounded up.
    pub packets: u16,
}

/// The thresholds of marks at outputs of a rate. Serialized to JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Thresholds {
    /// Rate of the link in Gbit/s.
    pub gbit_s: f64,
    /// Bytes up to which no packet is marked.
    pub min_bytes: u64,
    /// Bytes above which all packets are marked.
    pub max_bytes: u64,
}

/// The division of the memory of switches with pause frames. Serialized to JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PauseReport {
    /// The smallest headroom of a virtual lane of a switch's input, in bytes.
    pub least_headroom_bytes: u32,
    /// The largest headroom of a virtual lane of a switch's input, in bytes.
    pub most_headroom_bytes: u32,
    /// The shared memory of the switch with the least memory to share. Present if inputs share memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<SharedReport>,
}

/// The memory that the inputs of a switch share. Serialized to JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SharedReport {
    /// All memory of the switch, in bytes.
    pub memory_bytes: u64,
    /// Headroom of all its inputs and lanes.
    pub headroom_bytes: u64,
    /// Reserves of all its inputs and lanes.
    pub reserve_bytes: u64,
    /// Bytes that remain for all lanes to share.
    pub left_bytes: u64,
}

/// Number of flows on the directed links between switches.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkLoad {
    /// Directed links between switches.
    pub links: u64,
    /// Fewest flows on a link.
    pub min: u64,
    /// Most flows on a link.
    pub max: u64,
    /// Mean number of flows per link.
    pub mean: f64,
}

/// Returns a warning if the run uses fewer threads than requested.
fn threads(scenario: &Scenario, asked: u16) -> Option<String> {
    if asked <= 1 {
        return None;
    }
    match scenario.simulation().ok()?.partitions() {
        Err(why) => Some(format!("threads = {asked}: the run uses one thread, because {why}")),
        Ok(partitions) if partitions < usize::from(asked) => Some(format!(
            "threads = {asked}: the run uses {partitions} threads, because its network has only that many partitions"
        )),
        Ok(_) => None,
    }
}

/// How a run divides flows over the shortest paths; `None` if this depends on the load, on random detours or on LIDs.
#[must_use]
pub fn division(config: &Config) -> Option<Division> {
    let has_detours = config.path_lanes.as_ref().is_some_and(|lanes| lanes.detours.is_some());
    match config.hashing() {
        Some(ecmp) if ecmp.spraying.is_on() => Some(Division::Even),
        Some(_) => Some(Division::Hashed(config.seed)),
        None if config.chosen_routes(RoutePer::Packet).is_some() => Some(Division::Even),
        None if config.adaptive_routing.is_some() || config.path_bits.is_used() || has_detours => None,
        None => Some(Division::Tables),
    }
}

/// Returns a text that states how packets deviate from the tables. `None` if they do not.
#[must_use]
pub fn choice(config: &Config) -> Option<String> {
    if let Some(ecmp) = config.hashing() {
        let how = if ecmp.spraying.is_on() {
            "packets sprayed over the shortest paths (ecmp.spraying)"
        } else {
            "each flow hashed onto one of the shortest paths ([ecmp])"
        };
        return Some(how.to_owned());
    }
    if config.chosen_routes(RoutePer::Packet).is_some() {
        return Some("each packet takes any shortest path (adaptive routing)".to_owned());
    }
    if config.chosen_routes(RoutePer::Flow).is_some() {
        return Some("each flow takes any shortest path (adaptive routing)".to_owned());
    }
    match config.path_bits {
        PathBits::Zero => None,
        PathBits::PerFlow => Some("each flow uses one of the LIDs of its destination".to_owned()),
        PathBits::PerPacket => Some("packets use all LIDs of their destination in turn".to_owned()),
    }
}

/// Summarizes a scenario that has already been built.
pub(crate) fn report(scenario: &Scenario, topology: &Topology, tables: &Tables, config: &Config) -> Report {
    let spec = &scenario.spec;
    let analysis = analyze_lanes(topology, tables, config.path_lanes.as_deref());
    let load = &analysis.between_switches;
    let deadlock = network::deadlock(topology, tables, config);
    let refused = deadlock.as_ref().map(|cycle| scenario.refuse_deadlock(cycle, topology, config));
    let mut warnings = scenario.notes.clone();
    warnings.extend_from_slice(scenario.file_notes());
    warnings.extend(network::findings(spec, topology, tables, config));
    warnings.extend(late(spec));
    warnings.extend(config.announced_packets());
    warnings.extend(rows::warning(spec, topology));
    warnings.extend(threads(scenario, config.threads));
    let trips = round_trips(topology, tables, config);
    Report {
        name: spec.name.clone(),
        topology: topology.name.clone(),
        hosts: topology.hosts.len(),
        switches: topology.switches.len(),
        links: topology.links.len(),
        routing: scenario.routing_kind().to_owned(),
        arbitration: config.arbitration(),
        ethernet: config.ethernet(),
        thresholds: thresholds(topology, trips.as_ref(), config),
        pauses: pauses(topology, tables, config),
        choice: choice(config),
        deadlock,
        refusal: refused.and_then(Result::err).map(|error| error.to_string()),
        pairs_routed: analysis.pairs,
        pairs_unroutable: analysis.unroutable,
        all_to_all: LinkLoad { links: load.channels, min: load.min, max: load.max, mean: load.mean },
        flows: spec.flow.len(),
        traffic: spec.traffic.len(),
        jobs: config.jobs.iter().map(|job| job_report(job, topology)).collect(),
        forests: forests(spec, topology),
        round_trip: trips.map(|trips| round_trip(topology, &trips)),
        estimate: estimate((spec, &config.traffic, &config.jobs), topology, mean_hops(&analysis)),
        warnings,
    }
}

fn job_report(job: &Job, topology: &Topology) -> JobReport {
    let (members, units) = job.hosts.split_at(job.hosts.len() - job.units as usize);
    // The units of switches within hosts are those of the machines.
    let units: HashSet<u32> = match &job.ports {
        Some(ports) => ports.machine_of[members.len()..].iter().copied().collect(),
        None => units.iter().copied().collect(),
    };
    let machines = topology.machines.iter();
    let machine_of: HashMap<u32, &str> = machines
        .flat_map(|machine| machine.ports.iter().map(|&port| (port, machine.name.as_str())))
        .collect();
    let name = |host: &u32| machine_of.get(host).copied().unwrap_or(&topology.hosts[*host as usize].name);
    let mut hosts: Vec<String> = members.iter().map(name).map(str::to_owned).collect();
    hosts.dedup();
    let contents = Contents::of(&job.trace);
    JobReport {
        job: job.name.clone(),
        ranks: members.len(),
        units: units.len(),
        hosts,
        messages: contents.sends,
        bytes: contents.bytes,
        collectives: job.trace.collectives.clone(),
        notes: job.trace.notes.clone(),
    }
}

/// The round trips from which default parameters follow; `None` if nothing depends on them.
fn round_trips(topology: &Topology, tables: &Tables, config: &Config) -> Option<RoundTrips> {
    let (congestion, switch) = (&config.congestion, &config.switch);
    let parts = congestion.components(&config.packet);
    let needs = |reaction: &Reaction| {
        let properties = reaction.properties();
        properties.needs_acknowledgements || properties.needs_round_trip
    };
    let has_output_buffers = switch.architecture(congestion.mechanism) == Architecture::Cioq;
    let is_needed = has_output_buffers || parts.reactions().any(needs) || parts.marking.needs_round_trip();
    is_needed.then(|| RoundTrips::new(topology, tables, config))
}

fn round_trip(topology: &Topology, trips: &RoundTrips) -> RoundTripReport {
    let trip = trips.longest();
    let name = |host: u32| topology.hosts[host as usize].name.clone();
    RoundTripReport {
        from: name(trip.pair.0),
        to: name(trip.pair.1),
        groups: trips.count(),
        hops: trip.hops,
        stages: trip.stages,
        radix: trip.radix,
        shortest_ns: trip.shortest.0 as f64 / 1e3,
        window: trip.window(),
        packets: trip.packets(),
    }
}

fn thresholds(topology: &Topology, trips: Option<&RoundTrips>, config: &Config) -> Vec<Thresholds> {
    let marking = config.components().marking;
    let trip = trips.map(|trips| trips.longest().shortest);
    let rates: BTreeSet<Rate> = topology.links.iter().map(|link| link.rate).collect();
    let of = |rate: Rate| {
        let (min, max) = marking.thresholds(rate, trip)?;
        Some(Thresholds { gbit_s: rate.as_gbit_f64(), min_bytes: min.0, max_bytes: max.0 })
    };
    rates.into_iter().filter_map(of).collect()
}

/// `None` if switches have no pause frames, or if the network cannot be set up, which [`Scenario::simulation`]
/// reports.
fn pauses(topology: &Topology, tables: &Tables, config: &Config) -> Option<PauseReport> {
    let found = silvan_fabric::pause_memory(topology, tables, config).ok()??;
    let (least_headroom_bytes, most_headroom_bytes) = found.headroom;
    let shared = found.shared.map(|shared| SharedReport {
        memory_bytes: shared.memory,
        headroom_bytes: shared.headroom,
        reserve_bytes: shared.reserve,
        left_bytes: shared.left,
    });
    Some(PauseReport { least_headroom_bytes, most_headroom_bytes, shared })
}

fn forests(spec: &Spec, topology: &Topology) -> Vec<ForestReport> {
    let all = spec.traffic.iter().enumerate();
    all.filter_map(|(number, traffic)| match &traffic.pattern {
        Pattern::Forest(forest) => Some(forest_report(spec, topology, number, (traffic, forest))),
        _ => None,
    })
    .collect()
}

fn forest_report(
    spec: &Spec,
    topology: &Topology,
    number: usize,
    (traffic, forest): (&Traffic, &Forest),
) -> ForestReport {
    let hosts = topology.hosts.len() as u32;
    let senders: Vec<u32> = match &traffic.hosts {
        Some(names) => names.iter().filter_map(|name| topology.host_named(name)).collect(),
        None => (0..hosts).collect(),
    };
    let end = traffic.stop.unwrap_or(spec.duration).min(spec.duration);
    let placement =
        ForestRoles::draw(forest, (&senders, hosts), (spec.seed, number as u64), (traffic.start, end));
    let (host, drain) = rates(spec, topology);
    let offered = traffic.rate.unwrap_or(host).min(host).as_gbit_f64() * placement.t_max(forest.p, hosts);
    let count = |wanted: fn(Role) -> bool| placement.hosts(wanted).count();
    let hotspots = placement.hotspots.of(0).iter();
    ForestReport {
        traffic: traffic.shown_name(number),
        hotspots: hotspots.map(|&host| topology.hosts[host as usize].name.clone()).collect(),
        moves: placement.hotspots.periods() - 1,
        contributors: count(|role| matches!(role, Role::Contributor { .. })),
        victims: count(|role| role == Role::Victim),
        mixed: count(|role| matches!(role, Role::Mixed { .. })),
        subset_sizes: placement.subset_sizes(),
        tmax_gbit_s: offered.min(drain.as_gbit_f64()),
    }
}

/// Returns warnings about flows and patterns that start at or after the end of the run.
fn late(spec: &Spec) -> Vec<String> {
    let flows = spec.flow.iter().enumerate().map(|(i, flow)| (format!("flow.{i}"), flow.start));
    let traffic = spec.traffic.iter().enumerate().map(|(i, traffic)| (format!("traffic.{i}"), traffic.start));
    let late = flows.chain(traffic).filter(|(_, start)| *start >= spec.duration);
    late.map(|(key, start)| format!("{key} never starts: its start, {start}, is not before the end"))
        .collect()
}

/// Average number of links that a packet crosses if every host sends to every other host.
fn mean_hops(analysis: &Analysis) -> f64 {
    let pairs: u64 = analysis.hops.iter().sum();
    // A path through n switches crosses n + 1 links.
    let links: u64 = (1..).zip(&analysis.hops).map(|(links, pairs)| links * pairs).sum();
    links as f64 / pairs.max(1) as f64
}
