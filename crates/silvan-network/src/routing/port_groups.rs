//! Groups of output ports for adaptive routing, as subnet managers configure them. A switch can select among all
//! ports that are on a shortest route to the destination.
//!
//! ```text
//! S1   S2   S3      a leaf can send up through any port, except packets for its own hosts;
//! \   |   /        a spine has one port down to each leaf, and no alternatives
//!      leaf
//! ```
//!
//! If the port in the forwarding table for a destination is not on a shortest route, only that port is used.
//! Packets that are not routed adaptively use the table's port, which is a member of the group.

use std::collections::HashMap;
use std::sync::Arc;

use super::deadlock::{Dependencies, LaneOf, named};
use super::graph::{FAR, Graph, PortGraph, Target};
use super::{ChannelName, Tables};
use crate::topology::{End, NodeRef, Topology};

/// The groups of one switch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choices {
    /// For each host, the index into `groups`.
    of_host: Vec<u32>,
    /// Ports (from 1) in ascending order, or in the order of path bits; empty if there is no route.
    groups: Vec<Box<[u16]>>,
}

/// Builds the groups of one switch, host by host.
#[derive(Debug, Clone, Default)]
struct ChoicesBuilder {
    choices: Choices,
    /// The numbers of the groups.
    numbers: HashMap<Box<[u16]>, u32>,
}

impl ChoicesBuilder {
    /// The number of a group, which is added if it is new.
    fn number(&mut self, ports: Box<[u16]>) -> u32 {
        let fresh = self.choices.groups.len() as u32;
        let groups = &mut self.choices.groups;
        *self.numbers.entry(ports).or_insert_with_key(|ports| {
            groups.push(ports.clone());
            fresh
        })
    }
}

impl Choices {
    /// The ports for each host.
    fn of(hosts: impl Iterator<Item = Vec<u16>>) -> Self {
        let mut builder = ChoicesBuilder::default();
        for ports in hosts {
            let number = builder.number(ports.into());
            builder.choices.of_host.push(number);
        }
        builder.choices
    }

    /// The union of the groups for each host with other groups of the same switch.
    fn joined(&self, other: &Self) -> Self {
        let mut builder = ChoicesBuilder::default();
        let mut known: HashMap<(u32, u32), u32> = HashMap::new();
        for (&own, &others) in self.of_host.iter().zip(&other.of_host) {
            let number = *known.entry((own, others)).or_insert_with(|| {
                let mut ports = [&*self.groups[own as usize], &*other.groups[others as usize]].concat();
                ports.sort_unstable();
                ports.dedup();
                builder.number(ports.into())
            });
            builder.choices.of_host.push(number);
        }
        builder.choices
    }

    /// The ports towards a host; empty without a route.
    #[inline]
    #[must_use]
    pub fn ports(&self, host: usize) -> &[u16] {
        self.of_host.get(host).map_or(&[], |&group| &self.groups[group as usize])
    }
}

/// The port groups of all switches; see the module documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortGroups {
    /// By switch.
    pub switches: Vec<Arc<Choices>>,
}

impl PortGroups {
    /// Computes the groups of a network whose tables have been checked. The shortest routes to a host are
    /// those to the switch to which the host sends.
    #[must_use]
    pub fn new(topology: &Topology, tables: &Tables) -> Self {
        let graph = Graph::new(topology);
        let wiring = topology.wiring();
        let homes = PortGraph::new(topology, &wiring).homes;
        let mut switches = vec![ChoicesBuilder::default(); topology.switches.len()];
        let mut distances: HashMap<u32, Vec<u32>> = HashMap::new();
        // For each switch, the ports that lead nearer to the switch of the last host, with the number of their group, if it
        // has one. Consecutive hosts are often at the same switch.
        let mut last: Vec<(Vec<u16>, Option<u32>)> = vec![Default::default(); switches.len()];
        for (host, home) in homes.iter().enumerate() {
            if host == 0 || homes[host - 1] != *home {
                let hops =
                    home.map(|home| &*distances.entry(home).or_insert_with(|| graph.hops_to(home as usize)));
                let ports = |switch| hops.map_or_else(Vec::new, |hops| nearer(&graph, hops, switch));
                last.iter_mut().enumerate().for_each(|(switch, last)| *last = (ports(switch), None));
            }
            for (switch, (builder, (ports, known))) in switches.iter_mut().zip(&mut last).enumerate() {
                let number = match tables.port(switch, host) {
                    Tables::NO_ROUTE => builder.number(Box::default()),
                    port if ports.contains(&port) => {
                        *known.get_or_insert_with(|| builder.number(ports.as_slice().into()))
                    }
                    port => builder.number(Box::new([port])),
                };
                builder.choices.of_host.push(number);
            }
        }
        Self { switches: switches.into_iter().map(|builder| Arc::new(builder.choices)).collect() }
    }

    /// For each switch, the place value of its digit in source routes, and the number of source routes. Switches that are
    /// equally far from the nearest host have equal place values: the number of routes below them.
    #[must_use]
    pub fn place_values(&self, topology: &Topology) -> (Vec<u64>, u64) {
        let wiring = topology.wiring();
        let mut stages: Vec<Option<usize>> = vec![None; topology.switches.len()];
        let mut here: Vec<u32> = PortGraph::new(topology, &wiring).homes.into_iter().flatten().collect();
        let mut place_values = Vec::new();
        let mut routes: u64 = 1;
        while !here.is_empty() {
            here.retain(|&switch| stages[switch as usize].is_none());
            let mut above = Vec::new();
            let mut most = 1;
            for &switch in &here {
                stages[switch as usize] = Some(place_values.len());
                let groups = &self.switches[switch as usize].groups;
                most = groups.iter().map(|group| group.len() as u64).max().unwrap_or(1).max(most);
                let peers = wiring.switches[switch as usize].iter().flatten();
                above.extend(peers.filter_map(|(end, _)| match end.node {
                    NodeRef::Switch(peer) => Some(peer),
                    NodeRef::Host(_) => None,
                }));
            }
            place_values.push(routes);
            routes = routes.saturating_mul(most);
            here = above;
        }
        let of_stage = |stage: &Option<usize>| stage.map_or(1, |stage| place_values[stage]);
        (stages.iter().map(of_stage).collect(), routes)
    }

    /// The ports towards the LIDs of hosts, in the order of the path bits. If all ports towards a host are
    /// equal, the port is listed once.
    #[must_use]
    pub fn of_lids(tables: &Tables) -> Self {
        let choices = |switch: usize| {
            let of_host = |host: usize| {
                let base = tables.port(switch, host);
                // No packet for a LID passes a switch without a route to the LID, so the entry has no effect.
                let port = |path_bits| match tables.port_by(path_bits, switch, host) {
                    Tables::NO_ROUTE => base,
                    port => port,
                };
                let mut ports: Vec<u16> = (0..tables.lids()).map(port).collect();
                if ports.iter().all(|&port| port == base) {
                    ports.truncate(1);
                }
                if base == Tables::NO_ROUTE {
                    ports.retain(|&port| port != base);
                }
                ports
            };
            Arc::new(Choices::of((0..tables.out[switch].len()).map(of_host)))
        };
        Self { switches: (0..tables.out.len()).map(choices).collect() }
    }

    /// The ports of tables, with one port per destination.
    #[must_use]
    pub fn of_tables(tables: &Tables) -> Self {
        let of_switch = |switch: usize| {
            Choices::of((0..tables.out[switch].len()).map(|host| match tables.port(switch, host) {
                Tables::NO_ROUTE => Vec::new(),
                port => vec![port],
            }))
        };
        Self { switches: (0..tables.out.len()).map(|switch| Arc::new(of_switch(switch))).collect() }
    }

    /// The union of the groups of each switch and host. Both arguments must be groups of one network.
    #[must_use]
    pub fn joined(&self, other: &Self) -> Self {
        let both = self.switches.iter().zip(&other.switches);
        let both = both.map(|(one, other)| Arc::new(one.joined(other)));
        Self { switches: both.collect() }
    }

    /// The ports of a switch towards a host; empty without a route.
    #[must_use]
    pub fn ports(&self, switch: usize, host: usize) -> &[u16] {
        self.switches.get(switch).map_or(&[], |choices| choices.ports(host))
    }

    /// Returns a cycle in which packets can wait for each other with some selection of ports; `None` if there is no
    /// cycle.
    #[must_use]
    pub fn deadlock_cycle(&self, topology: &Topology) -> Option<Vec<ChannelName>> {
        let wiring = topology.wiring();
        let network = PortGraph::new(topology, &wiring);
        let mut dependencies = Dependencies::new(&network, 1);
        let hosts_at = network.hosts_at();
        // The last destination for which each switch was visited.
        let mut met = vec![usize::MAX; hosts_at.len()];
        for (to, home) in network.homes.iter().enumerate() {
            if self.is_alike(to, *home) {
                continue;
            }
            let at_home = |switch: usize| u64::from(home.is_some_and(|home| home as usize == switch));
            let starts = hosts_at.iter().enumerate().filter(|&(switch, &hosts)| hosts > at_home(switch));
            let mut open: Vec<usize> = starts.map(|(switch, _)| switch).collect();
            while let Some(at) = open.pop() {
                if met[at] == to {
                    continue;
                }
                met[at] = to;
                for &port in self.ports(at, to) {
                    let (Target::Switch(next), Some(slot)) =
                        (network.target(at, port), network.slot(at, port))
                    else {
                        continue;
                    };
                    let next = next as usize;
                    for &onward in self.ports(next, to) {
                        if let Target::Switch(_) = network.target(next, onward) {
                            dependencies.add(&network, slot, LaneOf { switch: next, port: onward, lane: 0 });
                        }
                    }
                    open.push(next);
                }
            }
        }
        Some(named(topology, &wiring, dependencies.cycle(&network)?))
    }

    /// Whether packets for a host use the same ports as those for the previous host, except at the host's own
    /// switch `home`. If so, they cause the same dependencies.
    fn is_alike(&self, host: usize, home: Option<u32>) -> bool {
        let mut others =
            self.switches.iter().enumerate().filter(|&(at, _)| home.is_none_or(|h| h as usize != at));
        host > 0 && others.all(|(_, choices)| choices.of_host[host] == choices.of_host[host - 1])
    }
}

/// The ports of each switch that are on a shortest route to a host.
#[derive(Debug)]
pub struct ShortestPorts {
    graph: Graph,
    /// For each host, its switch and the switch's port at which the link of the host ends.
    homes: Vec<Option<(u32, u16)>>,
    /// For each switch with hosts, the distance of every switch to it, and whether a shortest route from some
    /// host to it passes that switch.
    hops: HashMap<u32, Vec<(u32, bool)>>,
    /// The last result, for a switch and the switch of a host. Consecutive hosts are often at the same
    /// switch.
    last: (usize, u32, Vec<u16>),
}

impl ShortestPorts {
    /// Computes the distances between the switches of a network.
    #[must_use]
    pub fn new(topology: &Topology) -> Self {
        let graph = Graph::new(topology);
        let home = |peer: &Option<(End, usize)>| match peer.map(|(end, _)| end) {
            Some(End { node: NodeRef::Switch(switch), port }) => Some((switch, port)),
            _ => None,
        };
        let homes: Vec<Option<(u32, u16)>> = topology.wiring().hosts.iter().map(home).collect();
        let mut found = HashMap::new();
        for &(home, _) in homes.iter().flatten() {
            found.entry(home).or_insert_with(|| {
                let hops = graph.hops_to(home as usize);
                let mut is_passed = vec![false; graph.len()];
                homes.iter().flatten().for_each(|(switch, _)| is_passed[*switch as usize] = true);
                let mut order: Vec<usize> = (0..graph.len()).filter(|&switch| hops[switch] != FAR).collect();
                order.sort_unstable_by_key(|&switch| std::cmp::Reverse(hops[switch]));
                for switch in order.into_iter().filter(|&switch| hops[switch] > 0) {
                    if is_passed[switch] {
                        let edges = graph.edges(switch).iter().map(|edge| edge.to as usize);
                        edges.filter(|&to| hops[to] < hops[switch]).for_each(|to| is_passed[to] = true);
                    }
                }
                hops.into_iter().zip(is_passed).collect()
            });
        }
        let hops = found;
        Self { graph, homes, hops, last: (usize::MAX, u32::MAX, Vec::new()) }
    }

    /// The ports of a switch; empty if there is no route, or if no packet for the host passes the switch. At
    /// the host's own switch, the port at which the link of the host ends. The host must exist.
    pub fn ports(&mut self, switch: usize, host: usize) -> &[u16] {
        let Some((home, port)) = self.homes[host] else { return &[] };
        if home as usize == switch {
            self.last = (usize::MAX, u32::MAX, vec![port]);
        } else if (self.last.0, self.last.1) != (switch, home) {
            let hops = self.hops.get(&home).filter(|hops| hops[switch].1);
            let ports = hops.map_or_else(Vec::new, |hops| {
                let is_nearer = |to: u32| hops[to as usize].0 < hops[switch].0;
                let edges = self.graph.edges(switch).iter().filter(|edge| is_nearer(edge.to));
                edges.map(|edge| edge.port).collect()
            });
            self.last = (switch, home, ports);
        }
        &self.last.2
    }
}

/// The ports of a switch that lead to another switch with a smaller distance in `hops`.
fn nearer(graph: &Graph, hops: &[u32], switch: usize) -> Vec<u16> {
    let is_nearer = |to: u32| hops[to as usize] != FAR && hops[to as usize] < hops[switch];
    graph.edges(switch).iter().filter(|edge| is_nearer(edge.to)).map(|edge| edge.port).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{RoutingSpec, cycle_text};
    use super::*;
    use crate::topology::custom::{Custom, CustomLink, CustomSwitch};
    use crate::topology::grid::{GridSpec, Rows};
    use crate::topology::k_ary_n_tree::KAryNTree;
    use crate::topology::parameters::{default_link_delay, default_link_rate};

    fn groups(topology: &Topology) -> (Tables, PortGroups) {
        let tables = RoutingSpec::suitable(topology).compute(topology).unwrap();
        let found = PortGroups::new(topology, &tables);
        (tables, found)
    }

    /// Two leaves with two hosts each, and two spines. A leaf has two links to the first spine and one to the
    /// second.
    fn leaves_and_spines() -> Topology {
        let link = |from: &str, to: &str| CustomLink {
            from: from.to_owned(),
            to: to.to_owned(),
            rate: None,
            delay: None,
            one_way: false,
        };
        let mut links: Vec<CustomLink> = [("H0", "L0"), ("H1", "L0"), ("H2", "L1"), ("H3", "L1")]
            .iter()
            .map(|(h, l)| link(h, l))
            .collect();
        for leaf in ["L0", "L1"] {
            links.extend(["S0", "S0", "S1"].iter().map(|spine| link(leaf, spine)));
        }
        let spec = Custom {
            hosts: (0..4).map(|h| format!("H{h}")).collect(),
            switches: ["L0", "L1", "S0", "S1"]
                .map(|name| CustomSwitch { name: name.to_owned(), ports: None })
                .into(),
            links,
            link_rate: default_link_rate(),
            link_delay: default_link_delay(),
        };
        spec.build().unwrap()
    }

    #[test]
    fn a_leaf_can_use_any_up_port_and_a_spine_all_ports_to_the_leaf() {
        let topology = leaves_and_spines();
        let (tables, groups) = groups(&topology);
        let of = |switch: usize| (0..4).map(|host| groups.ports(switch, host)).collect::<Vec<_>>();
        assert_eq!(of(0), [&[1][..], &[2], &[3, 4, 5], &[3, 4, 5]]);
        assert_eq!(of(2), [&[1, 2][..], &[1, 2], &[3, 4], &[3, 4]]);
        assert_eq!(of(3), [&[1][..], &[1], &[2], &[2]]);
        assert_eq!(groups.ports(9, 0), &[] as &[u16]);
        for switch in 0..4 {
            assert!((0..4).all(|host| groups.ports(switch, host).contains(&tables.port(switch, host))));
        }
        assert_eq!(groups.deadlock_cycle(&topology), None);
    }

    #[test]
    fn trees_have_alternatives_only_upwards_and_do_not_deadlock() {
        let topology = KAryNTree::new(3, 3).build().unwrap();
        let (_, groups) = groups(&topology);
        for (switch, choices) in groups.switches.iter().enumerate() {
            let sizes = choices.groups.iter().map(|group| group.len());
            let expected = if switch < 18 {
                [1, 3].contains(&sizes.clone().max().unwrap())
            } else {
                sizes.max() == Some(1)
            };
            assert!(expected, "switch {switch}");
        }
        assert_eq!(groups.deadlock_cycle(&topology), None);
    }

    #[test]
    fn a_table_entry_off_the_shortest_routes_has_no_alternatives() {
        let topology = leaves_and_spines();
        let (mut tables, _) = groups(&topology);
        tables.out[2][3] = 1;
        tables.out[0][3] = Tables::NO_ROUTE;
        let groups = PortGroups::new(&topology, &tables);
        assert_eq!((groups.ports(2, 3), groups.ports(2, 2)), (&[1][..], &[3, 4][..]));
        assert_eq!(groups.ports(0, 3), &[] as &[u16]);
        // S0 sends packets for H3 to L0, which has no route.
        assert_eq!(groups.deadlock_cycle(&topology), None);
        tables.out[0][3] = 3;
        let groups = PortGroups::new(&topology, &tables);
        let cycle = groups.deadlock_cycle(&topology).map(|cycle| cycle_text(&cycle));
        assert_eq!(cycle.as_deref(), Some("L0:3 -> S0:1, S0:1 -> L0:3"));
    }

    #[test]
    fn tori_deadlock() {
        let topology = GridSpec::new(&[4, 4], 1).build(Rows::Rings).unwrap();
        let (_, groups) = groups(&topology);
        assert!(groups.deadlock_cycle(&topology).is_some());
    }
}
