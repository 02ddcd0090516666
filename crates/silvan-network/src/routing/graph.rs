//! Common code of the algorithms for arbitrary graphs: the switches as a graph, and the selection among
//! equally good ports.

use super::{RoutingError, Tables};
use crate::topology::{NodeRef, Topology, Wiring};

/// Distance if there is no path.
pub(super) const FAR: u32 = u32::MAX;

/// A port of a switch that leads to another switch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    pub port: u16,
    pub to: u32,
}

/// The switches, the links between them, and the positions of the hosts. Created from a valid topology.
#[derive(Debug)]
pub(super) struct Graph {
    /// Edges of all switches, ordered by switch and port.
    edges: Vec<Edge>,
    /// The edges of switch `s` are `edges[first_edge[s]..first_edge[s + 1]]`.
    first_edge: Vec<usize>,
    /// Ports of switch `s` are numbered from `first_port[s]` in arrays over all ports.
    first_port: Vec<usize>,
    /// For each switch, its hosts with the ports that lead to them, in the order of the hosts.
    hosts: Vec<Vec<(u32, u16)>>,
    /// Number of hosts that send to each switch.
    senders: Vec<u32>,
    /// For each switch, the switches with an edge to it; `None` if these equal the targets of its edges, because links
    /// are bidirectional.
    before: Option<Vec<Vec<u32>>>,
}

impl Graph {
    pub fn new(topology: &Topology) -> Self {
        let wiring = topology.wiring();
        let mut graph = Self {
            edges: Vec::new(),
            first_edge: vec![0],
            first_port: vec![0],
            hosts: vec![Vec::new(); topology.switches.len()],
            senders: vec![0; topology.switches.len()],
            before: topology.has_one_way_links().then(|| vec![Vec::new(); topology.switches.len()]),
        };
        for (end, _) in wiring.hosts.iter().flatten() {
            if let NodeRef::Switch(switch) = end.node {
                graph.senders[switch as usize] += 1;
            }
        }
        let mut ports_so_far = 0;
        for (switch, ports) in wiring.switches.iter().enumerate() {
            for (port, peer) in (1..).zip(ports) {
                match peer.map(|(end, _)| end.node) {
                    Some(NodeRef::Switch(to)) => {
                        graph.edges.push(Edge { port, to });
                        if let Some(before) = &mut graph.before {
                            before[to as usize].push(switch as u32);
                        }
                    }
                    Some(NodeRef::Host(host)) => graph.hosts[switch].push((host, port)),
                    None => {}
                }
            }
            graph.hosts[switch].sort_unstable();
            ports_so_far += ports.len();
            graph.first_edge.push(graph.edges.len());
            graph.first_port.push(ports_so_far);
        }
        graph
    }

    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// Number of links between switches, counted per direction.
    pub fn edge_count(&self) -> usize {
        self.edges.len()
    }

    pub fn edges(&self, switch: usize) -> &[Edge] {
        &self.edges[self.first_edge[switch]..self.first_edge[switch + 1]]
    }

    /// Switches with a link to a host.
    pub fn homes(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.len()).filter(|&s| !self.hosts[s].is_empty())
    }

    pub fn hosts_at(&self, switch: usize) -> u32 {
        self.hosts[switch].len() as u32
    }

    /// Number of hosts that send to a switch. With unidirectional links, it may differ from
    /// [`Self::hosts_at`].
    pub fn senders_at(&self, switch: usize) -> u32 {
        self.senders[switch]
    }

    /// Index of the first edge of a switch in arrays over all edges.
    pub fn first_edge(&self, switch: usize) -> usize {
        self.first_edge[switch]
    }

    /// The hosts that receive from a switch.
    pub fn hosts_of(&self, switch: usize) -> impl Iterator<Item = u32> + '_ {
        self.hosts[switch].iter().map(|&(host, _)| host)
    }

    /// The index of the edge at a port in arrays over all edges, and the switch to which it leads. `None` if
    /// the port leads to no switch.
    pub fn edge_at(&self, switch: usize, port: u16) -> Option<(usize, usize)> {
        let at = self.edges(switch).binary_search_by_key(&port, |edge| edge.port).ok()?;
        let at = self.first_edge[switch] + at;
        Some((at, self.edges[at].to as usize))
    }

    /// The switch to which a port leads, if it leads to a switch.
    pub fn target(&self, (switch, port): (usize, u16)) -> Option<usize> {
        self.edge_at(switch, port).map(|(_, to)| to)
    }

    /// The ports of a switch that lead to another switch.
    pub fn ports_to(&self, switch: usize, to: usize) -> Vec<u16> {
        self.edges(switch).iter().filter(|edge| edge.to as usize == to).map(|edge| edge.port).collect()
    }

    /// Distance of each switch from the nearest of the source switches over edges for which `allow(from, to)` is true,
    /// where `from` is the nearer switch; [`FAR`] if there is no path.
    pub fn hops(&self, sources: &[usize], allow: impl Fn(usize, usize) -> bool) -> Vec<u32> {
        let mut hops = vec![FAR; self.len()];
        let mut queue = Vec::with_capacity(self.len());
        for &source in sources {
            if hops[source] == FAR {
                hops[source] = 0;
                queue.push(source);
            }
        }
        let mut next = 0;
        while let Some(&from) = queue.get(next) {
            next += 1;
            for edge in self.edges(from) {
                let to = edge.to as usize;
                if hops[to] == FAR && allow(from, to) {
                    hops[to] = hops[from] + 1;
                    queue.push(to);
                }
            }
        }
        hops
    }

    /// Distance of each switch to `home`; [`FAR`] if there is no path.
    pub fn hops_to(&self, home: usize) -> Vec<u32> {
        let Some(before) = &self.before else { return self.hops(&[home], |_, _| true) };
        let mut hops = vec![FAR; self.len()];
        hops[home] = 0;
        let mut queue = vec![home];
        let mut next = 0;
        while let Some(&to) = queue.get(next) {
            next += 1;
            for &from in &before[to] {
                if hops[from as usize] == FAR {
                    hops[from as usize] = hops[to] + 1;
                    queue.push(from as usize);
                }
            }
        }
        hops
    }
}

/// Fills tables destination by destination. Among equally good ports, each destination is assigned to the port with the
/// fewest destinations so far, or to the lowest of several such ports.
///
/// Only destinations whose packets pass the switch are counted. High in a tree, packets to only every n-th
/// destination pass a switch. If all destinations were counted, these n-th destinations could all be assigned
/// to one port.
pub(super) struct Balancer<'a> {
    topology: &'a Topology,
    graph: &'a Graph,
    tables: Tables,
    /// Number of destinations assigned to each port of each switch.
    loads: Vec<u32>,
    /// The equally good ports of each switch towards the current home switch.
    good: Vec<Edge>,
    first_good: Vec<usize>,
    /// Switches in order of decreasing distance from the home switch.
    order: Vec<usize>,
    /// For each switch, whether packets to the current host pass it.
    is_passed: Vec<bool>,
}

impl<'a> Balancer<'a> {
    pub fn new(topology: &'a Topology, graph: &'a Graph) -> Self {
        Self {
            topology,
            graph,
            tables: Tables::empty(topology),
            loads: vec![0; graph.first_port.last().copied().unwrap_or(0)],
            good: Vec::new(),
            first_good: Vec::new(),
            order: (0..graph.len()).collect(),
            is_passed: Vec::new(),
        }
    }

    /// Routes all hosts of switch `home`. `cost` is the distance of each switch from `home`.
    /// `is_good(switch, edge)` returns whether an edge starts a path with this cost. Such an edge must lead
    /// to a switch with a lower cost. Fails if a switch that receives from hosts has no such edge.
    pub fn route(
        &mut self,
        home: usize,
        cost: &[u32],
        is_good: impl Fn(usize, Edge) -> bool,
    ) -> Result<(), RoutingError> {
        self.good.clear();
        self.first_good.clear();
        for switch in 0..self.graph.len() {
            self.first_good.push(self.good.len());
            if switch != home {
                let edges = self.graph.edges(switch).iter();
                self.good.extend(edges.filter(|&&e| is_good(switch, e)));
                // Packets start only at hosts, so a switch to which no host sends, such as a spine that lost
                // its link to a leaf, need not have a route to every destination.
                if self.graph.senders[switch] > 0 && self.first_good[switch] == self.good.len() {
                    return Err(self.unreachable(switch, home));
                }
            }
        }
        self.first_good.push(self.good.len());
        self.order.sort_unstable_by_key(|&s| (std::cmp::Reverse(cost[s]), s));
        for &(host, last_port) in &self.graph.hosts[home] {
            self.is_passed.clear();
            self.is_passed.extend(self.graph.senders.iter().map(|&senders| senders > 0));
            for &switch in &self.order {
                let good = &self.good[self.first_good[switch]..self.first_good[switch + 1]];
                let first = self.graph.first_port[switch];
                let load = |edge: &Edge| first + usize::from(edge.port) - 1;
                let port = match good.iter().min_by_key(|e| self.loads[load(e)]) {
                    Some(edge) => {
                        if self.is_passed[switch] {
                            self.loads[load(edge)] += 1;
                            self.is_passed[edge.to as usize] = true;
                        }
                        edge.port
                    }
                    None if switch == home => last_port,
                    None => Tables::NO_ROUTE,
                };
                self.tables.out[switch][host as usize] = port;
            }
        }
        Ok(())
    }

    pub fn finish(self) -> Tables {
        self.tables
    }

    fn unreachable(&self, from: usize, to: usize) -> RoutingError {
        let name = |s: usize| &self.topology.switches[s].name;
        RoutingError::Unsuitable(format!(
            "no legal path leads from switch {} to switch {}; choose other roots, or a single one",
            name(from),
            name(to)
        ))
    }
}

/// The entries of all tables for a block of consecutive destinations and the same path bits. Code that reads
/// all tables destination by destination uses such copies, because the cache lines of the tables of a large
/// network would be evicted before the next destination.
pub(super) struct Block<'a> {
    rows: &'a [Vec<u16>],
    /// The first destination of the block.
    first: usize,
    /// The entries of all switches, switch by switch.
    ports: Vec<u16>,
}

impl<'a> Block<'a> {
    /// Number of entries in a cache line of 64 bytes.
    pub const WIDTH: usize = 32;

    pub fn new(rows: &'a [Vec<u16>], switches: usize) -> Self {
        Self { rows, first: usize::MAX, ports: vec![Tables::NO_ROUTE; switches * Self::WIDTH] }
    }

    /// Copies the entries of the block that contains a destination, unless they are present.
    pub fn load(&mut self, to: usize) {
        let first = to - to % Self::WIDTH;
        if first == self.first {
            return;
        }
        self.first = first;
        for (at, ports) in self.ports.chunks_exact_mut(Self::WIDTH).enumerate() {
            let table = self.rows.get(at).map_or(&[][..], |table| table.get(first..).unwrap_or_default());
            let present = table.len().min(Self::WIDTH);
            ports[..present].copy_from_slice(&table[..present]);
            ports[present..].fill(Tables::NO_ROUTE);
        }
    }

    /// Same as [`Tables::port`], for a destination of the block.
    pub fn port(&self, switch: usize, to: usize) -> u16 {
        self.ports[switch * Self::WIDTH + to % Self::WIDTH]
    }
}

/// The node to which a port leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Nothing,
    Host(u32),
    Switch(u32),
}

/// The wiring, in a form suitable for following tables that may be invalid. Ports out of range lead nowhere.
pub(super) struct PortGraph {
    /// The slots of switch `s` start at `first[s]`. A slot is the index of a port in arrays over all ports.
    first: Vec<usize>,
    targets: Vec<Target>,
    /// The switch to which each host sends, if there is one.
    pub homes: Vec<Option<u32>>,
}

impl PortGraph {
    pub fn new(topology: &Topology, wiring: &Wiring) -> Self {
        let mut network = Self { first: vec![0], targets: Vec::new(), homes: Vec::new() };
        let known = |node: NodeRef| match node {
            NodeRef::Host(i) if (i as usize) < topology.hosts.len() => Target::Host(i),
            NodeRef::Switch(i) if (i as usize) < topology.switches.len() => Target::Switch(i),
            _ => Target::Nothing,
        };
        for ports in &wiring.switches {
            network
                .targets
                .extend(ports.iter().map(|peer| peer.map_or(Target::Nothing, |(e, _)| known(e.node))));
            network.first.push(network.targets.len());
        }
        network.homes = wiring
            .hosts
            .iter()
            .map(|peer| match peer.map(|(end, _)| known(end.node)) {
                Some(Target::Switch(home)) => Some(home),
                _ => None,
            })
            .collect();
        network
    }

    pub fn switches(&self) -> usize {
        self.first.len() - 1
    }

    /// Number of ports of all switches.
    pub fn ports(&self) -> usize {
        self.targets.len()
    }

    /// Number of ports of a switch, 0 if it does not exist.
    pub fn ports_of(&self, switch: usize) -> usize {
        match self.first.get(switch..) {
            Some([first, after, ..]) => after - first,
            _ => 0,
        }
    }

    /// Index of a port (from 1) in arrays over all ports.
    pub fn slot(&self, switch: usize, port: u16) -> Option<usize> {
        let port = usize::from(port);
        (port >= 1 && port <= self.ports_of(switch)).then(|| self.first[switch] + port - 1)
    }

    pub fn target_of(&self, slot: usize) -> Target {
        self.targets[slot]
    }

    pub fn target(&self, switch: usize, port: u16) -> Target {
        self.slot(switch, port).map_or(Target::Nothing, |slot| self.targets[slot])
    }

    /// Clears the entry in `homes` of each host for which `among` is false. Such a host is then no source.
    pub fn keep_hosts(&mut self, among: &[bool]) {
        for (home, _) in self.homes.iter_mut().zip(among).filter(|(_, is_kept)| !**is_kept) {
            *home = None;
        }
    }

    /// Number of hosts that send to each switch, without those that [`Self::keep_hosts`] removed.
    pub fn hosts_at(&self) -> Vec<u64> {
        let mut count = vec![0; self.switches()];
        for home in self.homes.iter().flatten() {
            count[*home as usize] += 1;
        }
        count
    }
}
