//! Hosts with several ports.
//!
//! Each entry of [`Topology::hosts`] has one port. A host with several ports is a [`Machine`]: a group of entries, one per
//! port. The ports of machines are wired in one of three ways:
//!
//! | wiring | port k of a machine |
//! | --- | --- |
//! | [`Cabling::Planes`] | is at the machine's place in copy k of the network; the copies are not connected |
//! | [`Cabling::Rails`] | is at the k-th of consecutive leaf switches, with the ports k of other machines |
//! | [`Cabling::Block`] | is the k-th of consecutive hosts of the network, mostly at the same switch |

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{End, Host, Link, NodeRef, Shape, Switch, Topology, TopologyError};

/// Maximum number of ports of a host.
pub const MAX_HOST_PORTS: u16 = 64;

/// A host with one or more ports.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Machine {
    /// Its name in scenarios. Its ports are named after it ("H3.1"), unless it has only one.
    pub name: String,
    /// Its ports in order, as indices into [`Topology::hosts`].
    pub ports: Vec<u32>,
}

/// How the ports of hosts are connected to the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cabling {
    /// Each port is connected to a separate copy of the network, a plane.
    Planes,
    /// The ports with the same number are a rail: the ports of a host are connected to consecutive leaf switches, each of
    /// which connects ports with the same number.
    Rails,
    /// The ports of a host take the places of consecutive hosts of the network.
    Block,
}

/// The nodes of a part of a network that is not connected to the rest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkPart {
    /// Indices into [`Topology::hosts`], in ascending order.
    pub hosts: Vec<u32>,
    /// Indices into [`Topology::switches`], in ascending order.
    pub switches: Vec<u32>,
}

/// The part of the network of each node; see [`Topology::part_numbers`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartNumbers {
    /// By host.
    pub hosts: Vec<u32>,
    /// By switch.
    pub switches: Vec<u32>,
}

fn wrong<T>(text: String) -> Result<T, TopologyError> {
    Err(TopologyError(text))
}

/// The name of a port of a machine.
pub(super) fn port_name(machine: &str, port: usize) -> String {
    format!("{machine}.{}", port + 1)
}

impl Topology {
    /// The machine with a given name.
    #[must_use]
    pub fn machine_named(&self, name: &str) -> Option<&Machine> {
        self.machines.iter().find(|machine| machine.name == name)
    }

    /// Gives each host several ports. With [`Cabling::Planes`], the network has as many machines as it had hosts;
    /// with the other wirings, the hosts of the network become the ports of fewer machines, named H1, H2 and so on.
    ///
    /// # Errors
    /// If the hosts of the network already have several ports, or cannot be grouped.
    pub fn with_ports(self, count: u16, wiring: Cabling) -> Result<Self, TopologyError> {
        if !self.machines.is_empty() {
            return wrong("hosts of the network already have several ports".to_owned());
        }
        if !(2..=MAX_HOST_PORTS).contains(&count) {
            return wrong(format!("a host has {count} ports; it must have 2 to {MAX_HOST_PORTS}"));
        }
        match wiring {
            Cabling::Planes => Ok(self.in_planes(count)),
            Cabling::Rails => {
                let groups = self.rails(count)?;
                Ok(self.grouped(groups, &format!("{count} rails")))
            }
            Cabling::Block => {
                let hosts = self.hosts.len();
                if !hosts.is_multiple_of(usize::from(count)) {
                    return wrong(format!("{hosts} hosts cannot be divided into groups of {count} ports"));
                }
                let all: Vec<u32> = (0..hosts as u32).collect();
                let groups = all.chunks_exact(usize::from(count)).map(<[u32]>::to_vec).collect();
                Ok(self.grouped(groups, &format!("hosts of {count} ports")))
            }
        }
    }

    /// Copies of the network, each of which has one port of each host: those of a plane have consecutive numbers.
    fn in_planes(self, count: u16) -> Self {
        let planes = usize::from(count);
        let port = |host: u32, plane: usize| host + (plane * self.hosts.len()) as u32;
        let switch = |at: u32, plane: usize| at + (plane * self.switches.len()) as u32;
        let copy = |plane: usize, end: End| {
            let node = match end.node {
                NodeRef::Host(host) => NodeRef::Host(port(host, plane)),
                NodeRef::Switch(at) => NodeRef::Switch(switch(at, plane)),
            };
            End { node, ..end }
        };
        let hosts = (0..planes).flat_map(|plane| {
            let named = move |host: &Host| Host { name: port_name(&host.name, plane), ..host.clone() };
            self.hosts.iter().map(named)
        });
        let switches = (0..planes).flat_map(|plane| {
            let named =
                move |at: &Switch| Switch { name: format!("P{}.{}", plane + 1, at.name), ..at.clone() };
            self.switches.iter().map(named)
        });
        let links = (0..planes).flat_map(|plane| {
            self.links.iter().map(move |link| Link {
                a: copy(plane, link.a),
                b: copy(plane, link.b),
                ..*link
            })
        });
        let machines = (0..).zip(&self.hosts).map(|(at, host)| Machine {
            name: host.name.clone(),
            ports: (0..planes).map(|plane| port(at, plane)).collect(),
        });
        Self {
            name: format!("{count} planes, each a {}", self.name),
            hosts: hosts.collect(),
            units: 0,
            switches: switches.collect(),
            links: links.collect(),
            machines: machines.collect(),
            shape: Shape::Planes(Box::new(self.shape.clone())),
        }
    }

    /// The ports of each machine, if port k is at the k-th of consecutive leaf switches.
    fn rails(&self, count: u16) -> Result<Vec<Vec<u32>>, TopologyError> {
        let wiring = self.wiring();
        let mut leaves: Vec<(NodeRef, Vec<u32>)> = Vec::new();
        for (host, home) in (0..).zip(&wiring.hosts) {
            let Some((End { node, .. }, _)) = *home else { continue };
            match leaves.last_mut() {
                Some((leaf, hosts)) if *leaf == node => hosts.push(host),
                _ => leaves.push((node, vec![host])),
            }
        }
        let mut distinct: Vec<NodeRef> = leaves.iter().map(|(leaf, _)| *leaf).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let each = leaves.first().map_or(0, |(_, hosts)| hosts.len());
        if distinct.len() < leaves.len() || leaves.iter().any(|(_, hosts)| hosts.len() != each) {
            return wrong(
                "rails need leaf switches with equal numbers of hosts, whose numbers are consecutive"
                    .to_owned(),
            );
        }
        if !leaves.len().is_multiple_of(usize::from(count)) {
            return wrong(format!(
                "{} leaf switches cannot be divided into groups of {count} rails",
                leaves.len()
            ));
        }
        let group = |leaves: &[(NodeRef, Vec<u32>)]| -> Vec<Vec<u32>> {
            (0..each).map(|at| leaves.iter().map(|(_, hosts)| hosts[at]).collect()).collect()
        };
        Ok(leaves.chunks_exact(usize::from(count)).flat_map(group).collect())
    }

    /// The network whose hosts are the ports of machines.
    fn grouped(mut self, groups: Vec<Vec<u32>>, what: &str) -> Self {
        self.machines =
            (1..).zip(groups).map(|(number, ports)| Machine { name: format!("H{number}"), ports }).collect();
        for machine in &self.machines {
            for (port, &host) in machine.ports.iter().enumerate() {
                self.hosts[host as usize].name = port_name(&machine.name, port);
            }
        }
        self.name = format!("{}, {what}", self.name);
        self
    }

    /// The parts of the network that are not connected with each other, in the order of their first hosts. Links are
    /// followed in both directions. Nodes without links to hosts belong to no part.
    #[must_use]
    pub fn parts(&self) -> Vec<NetworkPart> {
        if self.machines.is_empty() {
            // Networks whose hosts have one port are connected.
            let all = |count: usize| (0..count as u32).collect();
            return vec![NetworkPart { hosts: all(self.hosts.len()), switches: all(self.switches.len()) }];
        }
        let wiring = self.wiring();
        let mut part_of = vec![usize::MAX; self.switches.len()];
        let mut parts: Vec<NetworkPart> = Vec::new();
        let mut open = Vec::new();
        for (host, home) in (0..).zip(&wiring.hosts) {
            let Some((End { node: NodeRef::Switch(home), .. }, _)) = *home else { continue };
            if part_of[home as usize] == usize::MAX {
                let number = parts.len();
                parts.push(NetworkPart::default());
                part_of[home as usize] = number;
                open.push(home);
                while let Some(switch) = open.pop() {
                    parts[number].switches.push(switch);
                    for (End { node, .. }, _) in wiring.switches[switch as usize].iter().flatten() {
                        if let NodeRef::Switch(next) = *node
                            && part_of[next as usize] == usize::MAX
                        {
                            part_of[next as usize] = number;
                            open.push(next);
                        }
                    }
                }
                parts[number].switches.sort_unstable();
            }
            parts[part_of[home as usize]].hosts.push(host);
        }
        parts
    }

    /// The number of the part of each host and of each switch, in the order of [`Topology::parts`].
    #[must_use]
    pub fn part_numbers(&self) -> PartNumbers {
        let mut numbers =
            PartNumbers { hosts: vec![0; self.hosts.len()], switches: vec![0; self.switches.len()] };
        for (number, part) in (0..).zip(self.parts()) {
            part.hosts.iter().for_each(|&host| numbers.hosts[host as usize] = number);
            part.switches.iter().for_each(|&switch| numbers.switches[switch as usize] = number);
        }
        numbers
    }

    /// A part of the network as a network of its own, in which each host has one port.
    #[must_use]
    pub fn only(&self, part: &NetworkPart) -> Self {
        let place = |list: &[u32], at: u32| list.binary_search(&at).ok().map(|at| at as u32);
        let moved = |end: End| {
            let node = match end.node {
                NodeRef::Host(host) => NodeRef::Host(place(&part.hosts, host)?),
                NodeRef::Switch(switch) => NodeRef::Switch(place(&part.switches, switch)?),
            };
            Some(End { node, ..end })
        };
        let links =
            self.links.iter().filter_map(|link| Some(Link { a: moved(link.a)?, b: moved(link.b)?, ..*link }));
        Self {
            name: self.name.clone(),
            hosts: part.hosts.iter().map(|&host| self.hosts[host as usize].clone()).collect(),
            units: 0,
            switches: part.switches.iter().map(|&switch| self.switches[switch as usize].clone()).collect(),
            links: links.collect(),
            machines: Vec::new(),
            shape: match &self.shape {
                Shape::Planes(shape) => (**shape).clone(),
                _ => Shape::Arbitrary,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::star::Star;
    use super::super::two_level::TwoLevelFatTree;
    use super::*;
    use crate::routing::{RoutingSpec, analyze, deadlock_cycle, is_sound};

    fn names(topology: &Topology, machine: usize) -> Vec<(String, String)> {
        let wiring = topology.wiring();
        let name = |&port: &u32| {
            let leaf = wiring.hosts[port as usize].unwrap().0;
            (topology.hosts[port as usize].name.clone(), topology.port_name(leaf))
        };
        topology.machines[machine].ports.iter().map(name).collect()
    }

    fn strings<const N: usize>(list: [(&str, &str); N]) -> Vec<(String, String)> {
        list.map(|(host, leaf)| (host.to_owned(), leaf.to_owned())).to_vec()
    }

    #[test]
    fn planes_are_copies_that_are_not_connected() {
        let base = TwoLevelFatTree::new(2, 1, 2).build().unwrap();
        let planes = base.clone().with_ports(2, Cabling::Planes).unwrap();
        planes.validate().unwrap();
        assert_eq!((planes.hosts.len(), planes.switches.len(), planes.links.len()), (8, 6, 12));
        assert_eq!(names(&planes, 2), strings([("H3.1", "P1.L1.2:1"), ("H3.2", "P2.L1.2:1")]));
        let parts = planes.parts();
        assert_eq!(
            parts.iter().map(|part| part.hosts.clone()).collect::<Vec<_>>(),
            [[0, 1, 2, 3], [4, 5, 6, 7]]
        );
        let plane = planes.only(&parts[1]);
        assert_eq!(plane.links, base.links, "same places, same ports");
        assert_eq!(plane.shape, base.shape);
    }

    #[test]
    fn each_plane_has_the_routes_of_the_network() {
        let base = TwoLevelFatTree::new(3, 2, 2).build().unwrap();
        let planes = base.clone().with_ports(3, Cabling::Planes).unwrap();
        let routing = RoutingSpec::suitable(&planes);
        let (tables, own) = (routing.compute(&planes).unwrap(), routing.compute(&base).unwrap());
        for (plane, part) in planes.parts().iter().enumerate() {
            for (own, &switch) in own.out.iter().zip(&part.switches) {
                let row = &tables.out[switch as usize];
                let of_plane: Vec<u16> = part.hosts.iter().map(|&host| row[host as usize]).collect();
                assert_eq!(&of_plane, own, "plane {plane}");
                assert_eq!(row.iter().filter(|&&port| port == 0).count(), 12, "no route to other planes");
            }
        }
        let analysis = analyze(&planes, &tables);
        assert_eq!((analysis.unroutable, analysis.pairs), (0, 3 * 6 * 5));
        assert_eq!(analysis.loads[..12], analyze(&base, &own).loads, "as in one plane");
        assert!(is_sound(&planes, &tables));
        assert_eq!(deadlock_cycle(&planes, &tables), None);
    }

    #[test]
    fn a_missing_route_within_a_plane_is_found() {
        let planes =
            Star { hosts: 3, ..Star::default() }.build().unwrap().with_ports(2, Cabling::Planes).unwrap();
        let mut tables = RoutingSpec::suitable(&planes).compute(&planes).unwrap();
        tables.out[1][4] = 0;
        assert!(!is_sound(&planes, &tables));
        assert_eq!(analyze(&planes, &tables).unroutable, 2, "from two hosts to H2.2");
    }

    #[test]
    fn rails_connect_ports_with_the_same_number() {
        let base = TwoLevelFatTree::new(4, 2, 3).build().unwrap();
        let rails = base.clone().with_ports(2, Cabling::Rails).unwrap();
        rails.validate().unwrap();
        assert_eq!(rails.machines.len(), 6);
        assert_eq!(names(&rails, 1), strings([("H2.1", "L1.1:2"), ("H2.2", "L1.2:2")]));
        assert_eq!(names(&rails, 5), strings([("H6.1", "L1.3:3"), ("H6.2", "L1.4:3")]));
        assert_eq!((rails.parts().len(), &rails.links), (1, &base.links));
        let block = base.with_ports(2, Cabling::Block).unwrap();
        assert_eq!(names(&block, 1), strings([("H2.1", "L1.1:3"), ("H2.2", "L1.2:1")]));
    }

    #[test]
    fn hosts_that_cannot_be_grouped_are_reported() {
        let message = |count, wiring| {
            let base = TwoLevelFatTree::new(3, 2, 3).build().unwrap();
            base.with_ports(count, wiring).map_err(|e| e.to_string()).err().unwrap_or_default()
        };
        assert_eq!(message(2, Cabling::Rails), "3 leaf switches cannot be divided into groups of 2 rails");
        assert_eq!(message(2, Cabling::Block), "9 hosts cannot be divided into groups of 2 ports");
        assert_eq!(message(1, Cabling::Planes), "a host has 1 ports; it must have 2 to 64");
        let twice =
            Star { hosts: 4, ..Star::default() }.build().unwrap().with_ports(2, Cabling::Block).unwrap();
        let error = twice.with_ports(2, Cabling::Planes).unwrap_err();
        assert_eq!(error.to_string(), "hosts of the network already have several ports");
    }
}
