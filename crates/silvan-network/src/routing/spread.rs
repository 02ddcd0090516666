//! Whether routes use the links of a network: links without flows that shortest paths could use, and the load of the most
//! loaded link compared with flows that are divided evenly over all shortest paths.
//!
//! A link without flows counts only if some shortest path between two hosts contains it, and if the
//! dependencies along that path close no cycle with the dependencies of the tables. Links that a switch with
//! hosts has in excess of destinations do not count. For each link, a limited
//! number of paths is tried, so the number of links is a lower bound. If the tables have a cycle, no link
//! counts, because their routes need several lanes.

use std::collections::{HashMap, VecDeque};

use super::check::Analysis;
use super::deadlock::Dependencies;
use super::graph::{Edge, FAR, Graph, PortGraph};
use super::{ChannelName, Tables};
use crate::topology::{End, NodeRef, Topology};

/// Maximum number of channels that the searches for cycles visit.
const MAX_STEPS: u64 = 50_000_000;
/// Maximum number of links with which the search extends the path through one link to one destination.
const MAX_TRIES: u32 = 200;

/// Use of the links between switches by all-to-all traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct Spread {
    /// Number of directed links between switches.
    pub links: u64,
    /// Number of directed links that carry no flow, although a shortest path could use them without closing a cycle.
    pub idle: u64,
    /// One of the idle links, if there are any.
    pub example: Option<ChannelName>,
    /// Flows on the most loaded link.
    pub most: u64,
    /// Flows on the most loaded link if flows were divided evenly over all shortest paths.
    pub even: f64,
}

impl Spread {
    /// Examines tables, given their analysis. No links are counted as idle if the network has unidirectional
    /// links or the tables have a cycle.
    #[must_use]
    pub fn of(topology: &Topology, tables: &Tables, analysis: &Analysis) -> Self {
        let graph = Graph::new(topology);
        let mut spread = Self {
            links: analysis.between_switches.channels,
            idle: 0,
            example: None,
            most: analysis.between_switches.max,
            even: even_maximum(&graph) * tables.lids() as f64,
        };
        if analysis.between_switches.min > 0 || topology.has_one_way_links() {
            return spread;
        }
        let wiring = topology.wiring();
        let network = PortGraph::new(topology, &wiring);
        let Some(mut search) = Search::new(&graph, &network, tables) else { return spread };
        let idle = search.idle(topology, analysis);
        let idle = without_excess(&graph, idle, tables.lids() as u64);
        spread.idle = idle.len() as u64;
        spread.example = idle.first().map(|&(switch, port)| {
            let from = End { node: NodeRef::Switch(switch as u32), port };
            let to = wiring.switches[switch][usize::from(port) - 1].map_or(from, |(end, _)| end);
            ChannelName { from: topology.port_name(from), to: topology.port_name(to) }
        });
        spread
    }

    /// The flows on the most loaded link, divided by those with an even division. 1 without flows.
    #[must_use]
    pub fn imbalance(&self) -> f64 {
        if self.even > 0.0 { self.most as f64 / self.even } else { 1.0 }
    }

    /// Messages about unused links, and about a link with more than twice the flows of an even division.
    #[must_use]
    pub fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        if let Some(example) = &self.example {
            findings.push(format!(
                "the routes leave {} of {} directed links between switches unused that shortest paths could use without \
                 a deadlock, such as {example}",
                grouped(self.idle),
                grouped(self.links)
            ));
        }
        if self.imbalance() > 2.0 {
            findings.push(format!(
                "the routes are unbalanced: if every host sends to every other host, the most loaded link between \
                 switches carries {} flows, {:.1} times as many as with flows divided evenly over all shortest paths ({})",
                grouped(self.most),
                self.imbalance(),
                grouped(self.even.round() as u64)
            ));
        }
        findings
    }
}

/// A number with a comma after each group of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Flows on the most loaded link between switches if every host sends to every other host, and every switch divides flows
/// evenly over its links on shortest paths.
pub(super) fn even_maximum(graph: &Graph) -> f64 {
    let mut loads = vec![0.0; graph.edge_count()];
    let mut order: Vec<usize> = (0..graph.len()).collect();
    let mut flows = vec![0.0; graph.len()];
    for home in graph.homes() {
        let hops = graph.hops_to(home);
        order.sort_unstable_by_key(|&s| (std::cmp::Reverse(hops[s]), s));
        for (switch, flows) in flows.iter_mut().enumerate() {
            *flows = f64::from(graph.senders_at(switch)) * f64::from(graph.hosts_at(home));
        }
        for &switch in order.iter().filter(|&&s| hops[s] != FAR && s != home) {
            let is_nearer = |edge: &Edge| hops[edge.to as usize].wrapping_add(1) == hops[switch];
            let edges = graph.edges(switch);
            let count = edges.iter().filter(|edge| is_nearer(edge)).count();
            let share = flows[switch] / count as f64;
            let first = graph.first_edge(switch);
            for (at, edge) in edges.iter().enumerate().filter(|(_, edge)| is_nearer(edge)) {
                loads[first + at] += share;
                flows[edge.to as usize] += share;
            }
        }
    }
    loads.into_iter().fold(0.0, f64::max)
}

/// The idle links that remain if each switch with hosts may leave links unused that it has in excess. Without
/// a choice of routes per source, a link to or from such a switch is needed only for a destination, so a
/// switch with fewer destinations than links cannot use all of them.
fn without_excess(graph: &Graph, mut idle: Vec<Hop>, lids: u64) -> Vec<Hop> {
    let hosts: u64 = graph.homes().map(|home| u64::from(graph.hosts_at(home))).sum();
    let excess = |switch: usize, destinations: u64| {
        (graph.edges(switch).len() as u64).saturating_sub(destinations.saturating_mul(lids))
    };
    let own = |home: usize| u64::from(graph.hosts_at(home));
    let mut into: HashMap<usize, u64> = graph.homes().map(|home| (home, excess(home, own(home)))).collect();
    let mut from: HashMap<usize, u64> =
        graph.homes().map(|home| (home, excess(home, hosts - own(home)))).collect();
    idle.retain(|&hop| {
        let spend = |counts: &mut HashMap<usize, u64>, switch: usize| match counts.get_mut(&switch) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        };
        let is_excess = graph.target(hop).is_some_and(|to| spend(&mut into, to)) || spend(&mut from, hop.0);
        !is_excess
    });
    idle
}

/// A directed link between switches: the sending switch and its port.
type Hop = (usize, u16);

/// Searches for shortest paths through links without flows.
struct Search<'a> {
    graph: &'a Graph,
    network: &'a PortGraph,
    dependencies: Dependencies,
    /// Position of each slot in an order in which every channel comes before the channels for which it waits.
    place: Vec<u32>,
    steps: u64,
    /// The last search in which each slot was visited.
    visited: Vec<u32>,
    search: u32,
}

impl<'a> Search<'a> {
    /// `None` if the tables have a cycle.
    fn new(graph: &'a Graph, network: &'a PortGraph, tables: &Tables) -> Option<Self> {
        let dependencies = Dependencies::of(network, tables);
        if dependencies.cycle(network).is_some() {
            return None;
        }
        let place = places(network, &dependencies);
        let visited = vec![0; network.ports()];
        Some(Self { graph, network, dependencies, place, steps: 0, visited, search: 0 })
    }

    /// The links without flows that a shortest path could use.
    fn idle(&mut self, topology: &Topology, analysis: &Analysis) -> Vec<Hop> {
        let mut open: Vec<Hop> = Vec::new();
        for (link, loads) in topology.links.iter().zip(&analysis.loads) {
            for ((from, to), load) in link.channels().zip(loads) {
                if let (NodeRef::Switch(switch), NodeRef::Switch(_), 0) = (from.node, to.node, load) {
                    open.push((switch as usize, from.port));
                }
            }
        }
        open.sort_unstable();
        let mut found = Vec::new();
        for home in self.graph.homes() {
            if open.is_empty() || self.steps > MAX_STEPS {
                break;
            }
            let hops = self.graph.hops_to(home);
            open.retain(|&hop| {
                let is_found = self.is_usable(hop, home, &hops);
                if is_found {
                    found.push(hop);
                }
                !is_found
            });
        }
        found.sort_unstable();
        found
    }

    /// Whether a shortest path to `home` can contain a link without closing a cycle. Also false if the search
    /// has too many steps.
    fn is_usable(&mut self, hop: Hop, home: usize, hops: &[u32]) -> bool {
        let Some(to) = self.graph.target(hop) else { return false };
        if hops[hop.0] == FAR || hops[to].wrapping_add(1) != hops[hop.0] {
            return false;
        }
        let mut tries = MAX_TRIES;
        let mut path = VecDeque::from([hop]);
        self.extend_back(&mut path, (home, hops), &mut tries)
    }

    /// Extends a path backwards to a switch with hosts, and then forwards to its destination.
    fn extend_back(
        &mut self,
        path: &mut VecDeque<Hop>,
        (home, hops): (usize, &[u32]),
        tries: &mut u32,
    ) -> bool {
        let first = path[0].0;
        if self.graph.senders_at(first) > 0 {
            return self.extend(path, (home, hops), tries);
        }
        for edge in self.graph.edges(first).to_vec() {
            let before = edge.to as usize;
            if hops[before] == FAR || hops[before] != hops[first] + 1 {
                continue;
            }
            // The links are bidirectional, so the port at the other end leads back.
            for port in self.graph.ports_to(before, first) {
                if *tries == 0 {
                    return false;
                }
                *tries -= 1;
                if !self.closes_cycle((before, port), path, false) {
                    path.push_front((before, port));
                    if self.extend_back(path, (home, hops), tries) {
                        return true;
                    }
                    path.pop_front();
                }
            }
        }
        false
    }

    fn extend(&mut self, path: &mut VecDeque<Hop>, (home, hops): (usize, &[u32]), tries: &mut u32) -> bool {
        let Some(at) = path.back().and_then(|&hop| self.graph.target(hop)) else { return false };
        if at == home {
            return true;
        }
        for edge in self.graph.edges(at).to_vec() {
            if hops[edge.to as usize].wrapping_add(1) != hops[at] {
                continue;
            }
            if *tries == 0 {
                return false;
            }
            *tries -= 1;
            if !self.closes_cycle((at, edge.port), path, true) {
                path.push_back((at, edge.port));
                if self.extend(path, (home, hops), tries) {
                    return true;
                }
                path.pop_back();
            }
        }
        false
    }

    /// Whether a link that extends a path, at its end or at its start, closes a cycle. This is the case if a later link of
    /// the path already waits for an earlier one.
    fn closes_cycle(&mut self, hop: Hop, path: &VecDeque<Hop>, is_last: bool) -> bool {
        let slots: Vec<usize> = path.iter().filter_map(|&(s, port)| self.network.slot(s, port)).collect();
        let Some(own) = self.network.slot(hop.0, hop.1) else { return true };
        if is_last { self.waits_for(&[own], &slots) } else { self.waits_for(&slots, &[own]) }
    }

    /// Whether any channel of `from` waits for any channel of `to`, directly or indirectly. Also true if the
    /// search has too many steps.
    fn waits_for(&mut self, from: &[usize], to: &[usize]) -> bool {
        let last = to.iter().map(|&slot| self.place[slot]).max().unwrap_or(0);
        self.search += 1;
        let mut open: Vec<usize> = from.iter().copied().filter(|&slot| self.place[slot] < last).collect();
        while let Some(slot) = open.pop() {
            if self.visited[slot] == self.search {
                continue;
            }
            self.visited[slot] = self.search;
            self.steps += 1;
            if to.contains(&slot) || self.steps > MAX_STEPS {
                return true;
            }
            let mut position = 0;
            while let Some((next, after)) = self.dependencies.onward(self.network, slot, position) {
                position = after;
                if self.place[next] <= last {
                    open.push(next);
                }
            }
        }
        false
    }
}

/// Positions of the channels in an order in which each channel comes before those for which it waits. The
/// dependencies must have no cycle.
fn places(network: &PortGraph, dependencies: &Dependencies) -> Vec<u32> {
    let mut place = vec![u32::MAX; network.ports()];
    let mut is_open = vec![false; network.ports()];
    let mut next_place = network.ports() as u32;
    for first in 0..network.ports() {
        let mut stack = vec![(first, 0)];
        while let Some((slot, position)) = stack.last_mut() {
            if place[*slot] != u32::MAX {
                stack.pop();
                continue;
            }
            is_open[*slot] = true;
            match dependencies.onward(network, *slot, *position) {
                Some((next, after)) => {
                    *position = after;
                    if !is_open[next] {
                        stack.push((next, 0));
                    }
                }
                None => {
                    next_place -= 1;
                    place[*slot] = next_place;
                    stack.pop();
                }
            }
        }
    }
    place
}
