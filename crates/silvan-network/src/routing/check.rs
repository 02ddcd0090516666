//! Checks the effect of given tables: single paths, and the load of every link if every host sends to every other
//! host.

use std::collections::BTreeMap;

use serde::Serialize;

use super::graph::{Block, PortGraph, Target};
use super::{Lanes, RoutingError, Tables};
use crate::topology::{End, Link, NodeRef, Topology, Wiring};

/// One direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Channel {
    /// The sending port.
    pub from: End,
    /// The receiving port.
    pub to: End,
    /// Index into [`Topology::links`].
    pub link: usize,
}

/// All channels from one host to another, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// The first channel starts at the source host, the last one ends at the destination.
    pub channels: Vec<Channel>,
}

impl Path {
    /// Number of switches on the path.
    #[must_use]
    pub fn switches(&self) -> usize {
        self.channels.len().saturating_sub(1)
    }
}

/// Follows the tables from one host to another.
///
/// # Errors
/// Returns the reason if a packet does not arrive: a host that does not exist or has no link, a missing
/// route, a port without a link, a loop, or delivery to another host.
pub fn trace(
    topology: &Topology,
    wiring: &Wiring,
    tables: &Tables,
    from: u32,
    to: u32,
) -> Result<Path, RoutingError> {
    trace_lanes(topology, wiring, (tables, None), from, to)
}

/// Follows the tables from one host to all LIDs of another, and returns the paths in the order of the path bits. A message
/// about a LID other than the base LID contains its path bits.
///
/// # Errors
/// The reason, as text, for the first LID that packets do not reach.
pub fn trace_lids(
    topology: &Topology,
    wiring: &Wiring,
    tables: &Tables,
    from: u32,
    to: u32,
) -> Result<Vec<Path>, String> {
    let path = |path_bits| {
        let found = trace_lid(topology, wiring, Forwarding { tables, path_bits, lanes: None }, from, to);
        found.map_err(|error| match path_bits {
            0 => error.to_string(),
            bits => format!("{error} (path bits {bits})"),
        })
    };
    (0..tables.lids()).map(path).collect()
}

/// Same as [`trace`], with detours determined by `lanes` in addition to the tables.
///
/// # Errors
/// Same as [`trace`].
pub fn trace_lanes(
    topology: &Topology,
    wiring: &Wiring,
    (tables, lanes): (&Tables, Option<&Lanes>),
    from: u32,
    to: u32,
) -> Result<Path, RoutingError> {
    trace_lid(topology, wiring, Forwarding { tables, path_bits: 0, lanes }, from, to)
}

/// The data that determine the route of a packet between two hosts.
#[derive(Clone, Copy)]
struct Forwarding<'a> {
    tables: &'a Tables,
    /// Selects one of the LIDs of the destination.
    path_bits: usize,
    /// The lanes, if they determine detours.
    lanes: Option<&'a Lanes>,
}

fn trace_lid(
    topology: &Topology,
    wiring: &Wiring,
    forwarding: Forwarding,
    from: u32,
    to: u32,
) -> Result<Path, RoutingError> {
    let Forwarding { tables, path_bits, lanes } = forwarding;
    let host = |index: u32| {
        topology.hosts.get(index as usize).map(|h| h.name.clone()).ok_or_else(|| {
            let count = topology.hosts.len();
            RoutingError::BadHost(format!("host {index} does not exist; there are {count}, from 0"))
        })
    };
    let (source, destination) = (host(from)?, host(to)?);
    let Some((mut arrival, link)) = wiring.hosts.get(from as usize).copied().flatten() else {
        return Err(RoutingError::BadHost(format!("host {source} has no link")));
    };
    let mut channels = vec![Channel { from: End { node: NodeRef::Host(from), port: 1 }, to: arrival, link }];
    loop {
        let at = match arrival.node {
            NodeRef::Host(arrived) if arrived == to => return Ok(Path { channels }),
            NodeRef::Host(arrived) => {
                let last = channels.last().map_or(arrival, |c| c.from);
                return Err(RoutingError::WrongHost {
                    from: source,
                    to: destination,
                    switch: topology.name_of(last.node).to_owned(),
                    port: last.port,
                    arrived: host(arrived)?,
                });
            }
            NodeRef::Switch(at) => at,
        };
        let switch = topology.name_of(arrival.node).to_owned();
        if channels.iter().any(|c| c.from.node == arrival.node) {
            return Err(RoutingError::Loop { from: source, to: destination, switch });
        }
        let mut port = tables.port_by(path_bits, at as usize, to as usize);
        if port == Tables::NO_ROUTE {
            return Err(RoutingError::NoRoute { from: source, to: destination, switch });
        }
        if let Some(detours) = lanes.and_then(|lanes| lanes.detours.as_ref()) {
            port = detours.step(at as usize, port, from as usize, to as usize).0;
        }
        let ports = wiring.switches.get(at as usize);
        let Some((next, link)) = ports.and_then(|p| p.get(usize::from(port) - 1)).copied().flatten() else {
            return Err(RoutingError::Unwired { from: source, to: destination, switch, port });
        };
        channels.push(Channel { from: End { node: arrival.node, port }, to: next, link });
        arrival = next;
    }
}

/// The distribution of all-to-all traffic over a set of channels. There is one flow for each ordered pair of
/// hosts and each LID of the destination.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LoadSummary {
    /// Number of channels.
    pub channels: u64,
    /// Number of flows on the channel with the fewest flows; 0 without channels.
    pub min: u64,
    /// Flows on the most loaded channel.
    pub max: u64,
    /// Mean number of flows per channel; 0 without channels.
    pub mean: f64,
    /// Number of channels by number of flows.
    pub histogram: BTreeMap<u64, u64>,
}

impl LoadSummary {
    fn of(loads: impl Iterator<Item = u64>) -> Self {
        let mut histogram = BTreeMap::new();
        for load in loads {
            *histogram.entry(load).or_insert(0) += 1;
        }
        let channels: u64 = histogram.values().sum();
        let flows: u64 = histogram.iter().map(|(load, count)| load * count).sum();
        Self {
            channels,
            min: histogram.keys().next().copied().unwrap_or(0),
            max: histogram.keys().next_back().copied().unwrap_or(0),
            mean: if channels == 0 { 0.0 } else { flows as f64 / channels as f64 },
            histogram,
        }
    }
}

/// Properties of tables over all ordered pairs of hosts; see [`analyze`].
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Analysis {
    /// Number of pairs whose packets arrive, for all LIDs of the destination.
    pub pairs: u64,
    /// Number of pairs whose packets do not arrive, for at least one LID of the destination.
    pub unroutable: u64,
    /// The reasons for the first unroutable pairs, at most [`MAX_PROBLEMS`].
    pub problems: Vec<String>,
    /// `hops[n]` is the number of routes through `n` switches. Each pair has [`Tables::lids`] routes.
    pub hops: Vec<u64>,
    /// Flows on each link from its end `a` to `b`, and from `b` to `a` (zero if the link is unidirectional).
    pub loads: Vec<[u64; 2]>,
    /// The loads of the channels between switches.
    pub between_switches: LoadSummary,
}

impl Analysis {
    /// Adds the properties of the pairs of another part of the network, except for `between_switches`.
    fn add(&mut self, other: Self) {
        self.pairs += other.pairs;
        self.unroutable += other.unroutable;
        self.problems.extend(other.problems);
        self.problems.truncate(MAX_PROBLEMS);
        self.hops.resize(self.hops.len().max(other.hops.len()), 0);
        self.hops.iter_mut().zip(other.hops).for_each(|(sum, hops)| *sum += hops);
        for (sum, loads) in self.loads.iter_mut().zip(other.loads) {
            sum.iter_mut().zip(loads).for_each(|(sum, load)| *sum += load);
        }
    }
}

/// Maximum number of entries of [`Analysis::problems`].
pub const MAX_PROBLEMS: usize = 5;

/// Follows the tables for all ordered pairs of hosts of the same [part](Topology::parts) of the network. Each pair has one
/// flow per LID of the destination. The
/// paths to a LID form a tree along which flows are added up, so the running time is proportional to the
/// number of LIDs times the number of switches, not to the number of pairs.
#[must_use]
pub fn analyze(topology: &Topology, tables: &Tables) -> Analysis {
    analyze_among(topology, tables, &vec![true; topology.hosts.len()])
}

/// Same as [`analyze`], for the pairs of those hosts for which `among` is true.
fn analyze_among(topology: &Topology, tables: &Tables, among: &[bool]) -> Analysis {
    let parts = topology.parts();
    if let [_] = parts[..] {
        return analyze_part(topology, tables, among);
    }
    let mut sum = Analysis { loads: vec![[0; 2]; topology.links.len()], ..Analysis::default() };
    for part in parts {
        let mut of_part = vec![false; among.len()];
        part.hosts.iter().for_each(|&host| of_part[host as usize] = among[host as usize]);
        sum.add(analyze_part(topology, tables, &of_part));
    }
    sum.between_switches = between_switches(topology, &sum.loads);
    sum
}

/// Same as [`analyze_among`], for hosts that are connected.
fn analyze_part(topology: &Topology, tables: &Tables, among: &[bool]) -> Analysis {
    let wiring = topology.wiring();
    let mut network = PortGraph::new(topology, &wiring);
    let is_homeless = |(home, &counts): (&Option<u32>, &bool)| home.is_none() && counts;
    let homeless = network.homes.iter().zip(among).filter(|&pair| is_homeless(pair)).count() as u64;
    network.keep_hosts(among);
    let network = network;
    let mut trees = Trees {
        network: &network,
        tables: tables.all_rows().map(|rows| Block::new(rows, topology.switches.len())).collect(),
        path_bits: 0,
        lost: vec![false; topology.switches.len()],
        hosts_at: network.hosts_at(),
        stage: vec![TraceState::New; topology.switches.len()],
        order: Vec::new(),
        flows: vec![0; topology.switches.len()],
        loads: vec![0; network.ports()],
        reached_by: vec![0; topology.switches.len()],
    };
    let mut analysis = Analysis::default();
    let mut reaches_itself = vec![0; topology.hosts.len()];
    for (to, home) in network.homes.iter().enumerate().filter(|(to, _)| among[*to]) {
        let unroutable_before = analysis.unroutable;
        trees.lost.fill(false);
        for path_bits in 0..tables.lids() {
            trees.path_bits = path_bits;
            trees.resolve(to);
            trees.add_flows(to, &mut analysis);
            let is_good = home.is_some_and(|h| matches!(trees.stage[h as usize], TraceState::Good(_)));
            reaches_itself[to] += u64::from(is_good);
        }
        trees.count_pairs(to, &mut analysis);
        analysis.unroutable += homeless - u64::from(home.is_none());
        if analysis.unroutable > unroutable_before && analysis.problems.len() < MAX_PROBLEMS {
            explain(topology, &wiring, tables, to as u32, &mut analysis.problems);
        }
    }
    let injected = |host: u32| {
        if !among[host as usize] {
            return 0;
        }
        let home = network.homes[host as usize].map_or(0, |h| trees.reached_by[h as usize]);
        home - reaches_itself[host as usize]
    };
    let load = |end: End| match end.node {
        NodeRef::Host(host) if (host as usize) < topology.hosts.len() => injected(host),
        NodeRef::Host(_) => 0,
        NodeRef::Switch(s) => network.slot(s as usize, end.port).map_or(0, |slot| trees.loads[slot]),
    };
    let loads = |link: &Link| [load(link.a), if link.one_way { 0 } else { load(link.b) }];
    analysis.loads = topology.links.iter().map(loads).collect();
    analysis.between_switches = between_switches(topology, &analysis.loads);
    analysis
}

/// The loads of the channels between switches.
fn between_switches(topology: &Topology, loads: &[[u64; 2]]) -> LoadSummary {
    let is_switch = |end: End| matches!(end.node, NodeRef::Switch(_));
    let between = topology.links.iter().zip(loads);
    let between = between.filter(|(link, _)| is_switch(link.a) && is_switch(link.b));
    let directed = |(link, &loads): (&Link, &[u64; 2])| loads.into_iter().take(link.channels().count());
    LoadSummary::of(between.flat_map(directed))
}

/// Same as [`analyze`], with detours determined by `lanes` in addition to the tables. The running time is then
/// proportional to the number of pairs. Detours are ignored if the tables alone leave a pair unroutable.
#[must_use]
pub fn analyze_lanes(topology: &Topology, tables: &Tables, lanes: Option<&Lanes>) -> Analysis {
    analyze_lanes_among(topology, tables, lanes, &vec![true; topology.hosts.len()])
}

/// Same as [`analyze_lanes`], for the pairs of those hosts for which `among`, which has one entry per host,
/// is true.
pub fn analyze_lanes_among(
    topology: &Topology,
    tables: &Tables,
    lanes: Option<&Lanes>,
    among: &[bool],
) -> Analysis {
    let wiring = topology.wiring();
    let direct = analyze_among(topology, tables, among);
    let Some(lanes) = lanes.filter(|lanes| lanes.detours.is_some() && direct.unroutable == 0) else {
        return direct;
    };
    let mut analysis = Analysis { loads: vec![[0; 2]; topology.links.len()], ..Analysis::default() };
    let hosts: Vec<usize> = (0..topology.hosts.len()).filter(|&host| among[host]).collect();
    for (from, to) in hosts.iter().flat_map(|&from| hosts.iter().map(move |&to| (from, to))) {
        let mut next = wiring.hosts[from].filter(|_| from != to);
        let (mut sender, mut switches) = (NodeRef::Host(from as u32), 0);
        while let Some((end, link)) = next {
            analysis.loads[link][usize::from(topology.links[link].a.node != sender)] += 1;
            sender = end.node;
            let NodeRef::Switch(at) = sender else { break };
            switches += 1;
            let at = at as usize;
            let (port, _) = lanes.step(at, (end.port, tables.port(at, to)), (from, to), 0);
            next = wiring.switches[at].get(usize::from(port).wrapping_sub(1)).copied().flatten();
            next = next.filter(|_| switches <= topology.switches.len());
        }
        if from != to && sender == NodeRef::Host(to as u32) {
            analysis.hops.resize(analysis.hops.len().max(switches + 1), 0);
            analysis.hops[switches] += 1;
            analysis.pairs += 1;
        } else {
            analysis.unroutable += u64::from(from != to);
        }
    }
    analysis.between_switches = between_switches(topology, &analysis.loads);
    analysis
}

/// Traces routes to one destination until there are [`MAX_PROBLEMS`] problems.
fn explain(topology: &Topology, wiring: &Wiring, tables: &Tables, to: u32, problems: &mut Vec<String>) {
    for from in (0..topology.hosts.len() as u32).filter(|&from| from != to) {
        if let Err(problem) = trace_lids(topology, wiring, tables, from, to) {
            problems.push(problem);
            if problems.len() == MAX_PROBLEMS {
                return;
            }
        }
    }
}

/// State of a switch with respect to the current destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TraceState {
    /// Not visited.
    New,
    /// On the path being followed.
    Open,
    /// Packets arrive, and cross this number of switches, including this one.
    Good(u32),
    /// Packets do not arrive.
    Bad,
}

/// The trees of paths to the destinations, one after the other, and the totals over all of them.
struct Trees<'a> {
    network: &'a PortGraph,
    /// By path bits.
    tables: Vec<Block<'a>>,
    /// The path bits of the current destination.
    path_bits: usize,
    /// Switches from which packets do not arrive at the current destination for some path bits.
    lost: Vec<bool>,
    /// Number of hosts that send to each switch, without those that `keep_hosts` removed.
    hosts_at: Vec<u64>,
    stage: Vec<TraceState>,
    /// Switches in the order in which they became [`TraceState::Good`]. The next switch on the path from a switch
    /// precedes that switch in the list.
    order: Vec<usize>,
    /// Flows through each switch to the current destination; zero between destinations.
    flows: Vec<u64>,
    /// Flows out of each port.
    loads: Vec<u64>,
    /// Number of LIDs that packets from each switch reach.
    reached_by: Vec<u64>,
}

impl Trees<'_> {
    /// Determines from which switches packets with the current path bits reach a destination.
    fn resolve(&mut self, to: usize) {
        self.tables[self.path_bits].load(to);
        self.stage.fill(TraceState::New);
        self.order.clear();
        let mut path = Vec::new();
        for start in 0..self.hosts_at.len() {
            if self.hosts_at[start] == 0 {
                continue;
            }
            let mut at = start;
            let end = loop {
                match self.stage[at] {
                    TraceState::New => {}
                    TraceState::Open => break TraceState::Bad,
                    known => break known,
                }
                self.stage[at] = TraceState::Open;
                path.push(at);
                match self.network.target(at, self.tables[self.path_bits].port(at, to)) {
                    Target::Switch(next) => at = next as usize,
                    Target::Host(host) if host as usize == to => break TraceState::Good(0),
                    Target::Host(_) | Target::Nothing => break TraceState::Bad,
                }
            };
            let mut end = end;
            while let Some(switch) = path.pop() {
                if let TraceState::Good(hops) = end {
                    end = TraceState::Good(hops + 1);
                    self.order.push(switch);
                }
                self.stage[switch] = end;
            }
        }
    }

    /// Counts the pairs with the destination `to`, after all its path bits were resolved.
    fn count_pairs(&self, to: usize, analysis: &mut Analysis) {
        let home = self.network.homes[to].map(|h| h as usize);
        for (switch, &hosts) in self.hosts_at.iter().enumerate() {
            let sources = hosts - u64::from(home == Some(switch));
            *(if self.lost[switch] { &mut analysis.unroutable } else { &mut analysis.pairs }) += sources;
        }
    }

    /// Adds a flow to `to`, the destination that was resolved last, from each other host whose packets
    /// arrive.
    fn add_flows(&mut self, to: usize, analysis: &mut Analysis) {
        let home = self.network.homes[to].map(|h| h as usize);
        for switch in 0..self.hosts_at.len() {
            let sources = self.hosts_at[switch] - u64::from(home == Some(switch));
            match self.stage[switch] {
                TraceState::Good(hops) if self.hosts_at[switch] > 0 => {
                    let hops = hops as usize;
                    if analysis.hops.len() <= hops {
                        analysis.hops.resize(hops + 1, 0);
                    }
                    analysis.hops[hops] += sources;
                    self.reached_by[switch] += 1;
                    self.flows[switch] += sources;
                }
                TraceState::Good(_) => {}
                TraceState::New | TraceState::Open | TraceState::Bad => self.lost[switch] = true,
            }
        }
        for &switch in self.order.iter().rev() {
            let flows = std::mem::take(&mut self.flows[switch]);
            let port = self.tables[self.path_bits].port(switch, to);
            if let Some(slot) = self.network.slot(switch, port) {
                self.loads[slot] += flows;
            }
            if let Target::Switch(next) = self.network.target(switch, port) {
                self.flows[next as usize] += flows;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::RoutingSpec;
    use super::super::d_mod_k::DModK;
    use super::super::shortest_path::ShortestPath;
    use super::*;
    use crate::topology::dumbbell::Dumbbell;
    use crate::topology::k_ary_n_tree::KAryNTree;
    use crate::topology::pgft::PgftSpec;
    use crate::topology::star::Star;
    use crate::topology::two_level::FatTree648;
    use proptest::prelude::*;
    use silvan_engine::{Rate, Time};

    fn testbed() -> (Topology, Tables) {
        let topology = Dumbbell::default().build().unwrap();
        let tables = RoutingSpec::ShortestPath(ShortestPath {}).compute(&topology).unwrap();
        (topology, tables)
    }

    #[test]
    fn the_testbed_routes_its_42_pairs() {
        let (topology, tables) = testbed();
        let analysis = analyze(&topology, &tables);
        assert_eq!((analysis.pairs, analysis.unroutable), (42, 0));
        assert_eq!(analysis.hops, [0, 3 * 2 + 4 * 3, 2 * 3 * 4]);
        assert_eq!(analysis.loads[7], [12, 12], "the trunk, both directions");
        assert_eq!(analysis.loads[0], [6, 6], "each host sends to six others");
        assert_eq!(analysis.between_switches.histogram, BTreeMap::from([(12, 2)]));
    }

    #[test]
    fn a_star_has_no_channels_between_switches() {
        let topology = Star::default().build().unwrap();
        let tables = RoutingSpec::suitable(&topology).compute(&topology).unwrap();
        let analysis = analyze(&topology, &tables);
        assert_eq!(analysis.between_switches, LoadSummary::default());
        assert_eq!(analysis.pairs, 42);
    }

    #[test]
    fn all_to_all_on_the_648_fabric_is_even() {
        let topology = FatTree648::default().build().unwrap();
        let tables = RoutingSpec::DModK(DModK {}).compute(&topology).unwrap();
        let analysis = analyze(&topology, &tables);
        assert_eq!((analysis.pairs, analysis.unroutable), (648 * 647, 0));
        assert_eq!(analysis.between_switches.histogram, BTreeMap::from([(630, 1296)]));
        assert_eq!(analysis.hops, [0, 648 * 17, 0, 648 * 630]);
    }

    #[test]
    fn paths_name_every_channel() {
        let (topology, tables) = testbed();
        let path = trace(&topology, &topology.wiring(), &tables, 0, 4).unwrap();
        let named: Vec<String> = path
            .channels
            .iter()
            .map(|c| format!("{} -> {} ({})", topology.port_name(c.from), topology.port_name(c.to), c.link))
            .collect();
        assert_eq!(named, ["H1:1 -> S1:1 (0)", "S1:4 -> S2:5 (7)", "S2:2 -> H5:1 (4)"]);
        assert_eq!(path.switches(), 2);
    }

    #[test]
    fn undelivered_packets_are_explained() {
        let (topology, tables) = testbed();
        let message = |switch: usize, port: u16| {
            let mut tables = tables.clone();
            tables.out[switch][4] = port;
            let error = trace(&topology, &topology.wiring(), &tables, 0, 4).unwrap_err().to_string();
            let analysis = analyze(&topology, &tables);
            assert_eq!(analysis.problems[0], error);
            assert_eq!(analysis.problems.len(), MAX_PROBLEMS.min(analysis.unroutable as usize));
            assert_eq!(analysis.pairs + analysis.unroutable, 42);
            (error, analysis.unroutable)
        };
        assert_eq!(message(0, 0), ("from H1 to H5: switch S1 has no route to H5".to_owned(), 3));
        assert_eq!(message(1, 5), ("from H1 to H5: the route returns to switch S1 and loops".to_owned(), 6));
        assert_eq!(message(1, 1), ("from H1 to H5: switch S2 delivers to host H4 by port 1".to_owned(), 6));
        assert_eq!(
            message(1, 9),
            ("from H1 to H5: switch S2 sends out of port 9, which has no link".to_owned(), 6)
        );
    }

    #[test]
    fn invalid_input_is_reported_without_panic() {
        let (mut topology, tables) = testbed();
        let wiring = topology.wiring();
        assert_eq!(
            trace(&topology, &wiring, &tables, 0, 7).map_err(|e| e.to_string()),
            Err("host 7 does not exist; there are 7, from 0".to_owned())
        );
        assert_eq!(analyze(&topology, &Tables::new(Vec::new())).unroutable, 42);
        topology.links.remove(0);
        let analysis = analyze(&topology, &tables);
        assert_eq!((analysis.pairs, analysis.unroutable), (30, 12), "all pairs with H1 are unroutable");
        assert_eq!(
            trace(&topology, &topology.wiring(), &tables, 0, 1).map_err(|e| e.to_string()),
            Err("host H1 has no link".to_owned())
        );
        let nowhere = End { node: NodeRef::Switch(77), port: 1 };
        topology.links[0].b = nowhere;
        assert!(analyze(&topology, &tables).unroutable > 12);
    }

    /// The loads, hops and pairs that `analyze` should compute, determined one path at a time.
    fn pair_by_pair(topology: &Topology, tables: &Tables) -> (u64, Vec<u64>, Vec<[u64; 2]>) {
        let wiring = topology.wiring();
        let (mut pairs, mut hops, mut loads) = (0, Vec::new(), vec![[0, 0]; topology.links.len()]);
        let hosts = topology.hosts.len() as u32;
        for (from, to) in (0..hosts).flat_map(|f| (0..hosts).map(move |t| (f, t))) {
            let Ok(path) = trace(topology, &wiring, tables, from, to) else { continue };
            if from == to {
                continue;
            }
            pairs += 1;
            hops.resize(hops.len().max(path.switches() + 1), 0);
            hops[path.switches()] += 1;
            for channel in path.channels {
                let backwards = topology.links[channel.link].b == channel.from;
                loads[channel.link][usize::from(backwards)] += 1;
            }
        }
        (pairs, hops, loads)
    }

    proptest! {
        #[test]
        fn trees_and_single_paths_agree(
            changes in prop::collection::vec((0usize..12, 0usize..8, 0u16..6), 0..20),
        ) {
            let topology = KAryNTree::new(2, 3).build().unwrap();
            let mut tables = RoutingSpec::DModK(DModK {}).compute(&topology).unwrap();
            for (switch, host, port) in changes {
                tables.out[switch][host] = port;
            }
            let analysis = analyze(&topology, &tables);
            let (pairs, hops, loads) = pair_by_pair(&topology, &tables);
            prop_assert_eq!(analysis.pairs, pairs);
            prop_assert_eq!(analysis.pairs + analysis.unroutable, 56);
            prop_assert_eq!(analysis.loads, loads);
            let trim = |mut v: Vec<u64>| { while v.last() == Some(&0) { v.pop(); } v };
            prop_assert_eq!(trim(analysis.hops), trim(hops));
        }

        #[test]
        fn random_fat_trees_are_valid_and_routed(
            levels in prop::collection::vec((1u32..4, 1u32..4, 1u32..3), 1..4),
        ) {
            let (m, mut w, mut p): (Vec<u32>, Vec<u32>, Vec<u32>) =
                (levels.iter().map(|l| l.0).collect(), levels.iter().map(|l| l.1).collect(),
                 levels.iter().map(|l| l.2).collect());
            (w[0], p[0]) = (1, 1);
            let spec = PgftSpec {
                m, w, p: Some(p), link_rate: Rate::from_gbit(16), link_delay: Time::from_ns(20),
                level_rates: None,
                level_delays: None,
            };
            let topology = spec.build().unwrap();
            prop_assert_eq!(topology.validate(), Ok(()));
            for routing in [RoutingSpec::DModK(DModK {}), RoutingSpec::UpDown(Default::default())] {
                let tables = routing.compute(&topology).unwrap();
                prop_assert_eq!(tables.validate(&topology), Ok(()));
                prop_assert_eq!(analyze(&topology, &tables).unroutable, 0);
                prop_assert_eq!(super::super::deadlock_cycle(&topology, &tables), None);
            }
        }
    }
}
