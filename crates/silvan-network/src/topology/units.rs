//! Reduction units: parts of switches that combine the data of several hosts.
//!
//! A unit is a separate host at an additional port of its switch. All packets from and to the unit pass
//! through the switch and wait there like other packets. The units of a job form a tree of adjacent switches,
//! which spans the switches of the job's hosts:
//!
//! ```text
//!                    spine -- unit (root)
//!                   /     \
//!       unit -- leaf       leaf -- unit
//!              / | \       / | \
//!             H  H  H     H  H  H
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use silvan_engine::{Rate, Time};

use super::{End, Host, Link, MAX_FCFS_PORTS, NodeRef, Topology, TopologyError};

/// The switches whose units combine the data of some hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitTree {
    /// The switches, in ascending order.
    pub switches: Vec<u32>,
    /// The parent of each switch, as an index into `switches`; the root has none. A switch and its parent are
    /// adjacent.
    pub parents: Vec<Option<u32>>,
    /// The switch of each given host, as an index into `switches`.
    pub homes: Vec<u32>,
}

impl Topology {
    /// The name of the unit of a switch.
    fn unit_name(&self, switch: u32) -> String {
        format!("{}/unit", self.switches[switch as usize].name)
    }

    /// Adds a reduction unit to each of some switches, at a new port. The rate of its link is by default the total rate
    /// of the switch's links, so that all links can send to the unit, or receive from it, at the same time.
    ///
    /// [`Topology::shape`] becomes [`super::Shape::Arbitrary`], because regular structures do not include
    /// units.
    ///
    /// Returns the index of the unit in [`Topology::hosts`] for each of these switches.
    ///
    /// # Errors
    /// If a switch already has [`MAX_FCFS_PORTS`] ports.
    pub fn add_units(
        &mut self,
        switches: &BTreeSet<u32>,
        rate: Option<Rate>,
        delay: Time,
    ) -> Result<BTreeMap<u32, u32>, TopologyError> {
        let mut units = BTreeMap::new();
        let mut rates = vec![0u64; self.switches.len()];
        for (link, end) in self.links.iter().flat_map(|link| [(link, link.a), (link, link.b)]) {
            if let NodeRef::Switch(switch) = end.node {
                let sum = &mut rates[switch as usize];
                *sum = sum.saturating_add(link.rate.0);
            }
        }
        for &switch in switches {
            let name = self.unit_name(switch);
            let own = &mut self.switches[switch as usize];
            if own.ports >= MAX_FCFS_PORTS {
                return Err(TopologyError(format!(
                    "switch {} has {} ports and no port for a reduction unit; a switch has at most {MAX_FCFS_PORTS}",
                    own.name, own.ports
                )));
            }
            own.ports += 1;
            let unit = self.hosts.len() as u32;
            self.links.push(Link {
                a: End { node: NodeRef::Host(unit), port: 1 },
                b: End { node: NodeRef::Switch(switch), port: own.ports },
                rate: rate.unwrap_or(Rate(rates[switch as usize])),
                delay,
                one_way: false,
            });
            self.hosts.push(Host { name, lid: None, lmc: 0, guid: None });
            self.units += 1;
            units.insert(switch, unit);
        }
        self.shape = super::Shape::Arbitrary;
        Ok(units)
    }

    /// The tree of switches that combines the data of some hosts. If no root is given, the root is a switch
    /// with the least distance to the farthest host, and among these one with the least sum of distances. If
    /// there are several, `number` modulo their count selects one of them.
    ///
    /// # Errors
    /// If the switches of the hosts and the root are not connected in both directions.
    pub fn unit_tree(
        &self,
        hosts: &[u32],
        root: Option<u32>,
        number: usize,
    ) -> Result<UnitTree, TopologyError> {
        let mut home_of = vec![None; self.hosts.len()];
        let mut next: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); self.switches.len()];
        for link in self.links.iter().filter(|link| !link.one_way) {
            match (link.a.node, link.b.node) {
                (NodeRef::Host(host), NodeRef::Switch(switch))
                | (NodeRef::Switch(switch), NodeRef::Host(host)) => home_of[host as usize] = Some(switch),
                (NodeRef::Switch(one), NodeRef::Switch(other)) => {
                    next[one as usize].insert(other);
                    next[other as usize].insert(one);
                }
                (NodeRef::Host(_), NodeRef::Host(_)) => {}
            }
        }
        let apart =
            |name: &str| TopologyError(format!("no switch is connected with {name} in both directions"));
        let homes: Vec<u32> = hosts
            .iter()
            .map(|&host| home_of[host as usize].ok_or_else(|| apart(&self.hosts[host as usize].name)))
            .collect::<Result<_, _>>()?;
        let leaves: BTreeSet<u32> = homes.iter().copied().collect();
        let root = match root {
            Some(root) => root,
            None => best_root(&next, &leaves, number).ok_or_else(|| {
                TopologyError(
                    "no switch is connected with all hosts of the job in both directions".to_owned(),
                )
            })?,
        };
        let hops = distances(&next, root);
        let mut parent_of = vec![None; self.switches.len()];
        let mut members = BTreeSet::from([root]);
        for &leaf in &leaves {
            let mut at = leaf;
            while at != root && parent_of[at as usize].is_none() {
                members.insert(at);
                let closer = |&&other: &&u32| {
                    hops[other as usize].is_some_and(|far| Some(far + 1) == hops[at as usize])
                };
                let Some(&parent) = next[at as usize].iter().find(closer) else {
                    return Err(apart(&self.switches[leaf as usize].name));
                };
                parent_of[at as usize] = Some(parent);
                at = parent;
            }
        }
        let switches: Vec<u32> = members.into_iter().collect();
        let index = |switch: u32| switches.partition_point(|&other| other < switch) as u32;
        let parents = switches.iter().map(|&switch| parent_of[switch as usize].map(index)).collect();
        let homes = homes.into_iter().map(index).collect();
        Ok(UnitTree { parents, homes, switches })
    }
}

/// The number of links from a switch to each switch; `None` if there is no path.
fn distances(next: &[BTreeSet<u32>], from: u32) -> Vec<Option<u32>> {
    let mut hops = vec![None; next.len()];
    hops[from as usize] = Some(0);
    let mut open = VecDeque::from([(from, 0)]);
    while let Some((at, far)) = open.pop_front() {
        for &other in &next[at as usize] {
            if hops[other as usize].is_none() {
                hops[other as usize] = Some(far + 1);
                open.push_back((other, far + 1));
            }
        }
    }
    hops
}

/// The root of a tree to some leaf switches; see [`Topology::unit_tree`]. `None` if no switch reaches all of them.
fn best_root(next: &[BTreeSet<u32>], leaves: &BTreeSet<u32>, number: usize) -> Option<u32> {
    // The largest distance and the sum of distances of each switch.
    let mut costs = vec![Some((0, 0)); next.len()];
    for &leaf in leaves {
        for (cost, far) in costs.iter_mut().zip(distances(next, leaf)) {
            *cost = cost
                .zip(far)
                .map(|((most, sum), far): ((u32, u64), u32)| (most.max(far), sum + u64::from(far)));
        }
    }
    let least = costs.iter().flatten().min()?;
    let best: Vec<u32> =
        (0..).zip(&costs).filter(|(_, cost)| cost.as_ref() == Some(least)).map(|one| one.0).collect();
    best.get(number % best.len().max(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::three_level::ThreeLevelFatTree;
    use crate::topology::two_level::TwoLevelFatTree;

    fn tree(topology: &Topology, hosts: &[u32], number: usize) -> (Vec<String>, Vec<Option<u32>>, Vec<u32>) {
        let UnitTree { switches, parents, homes } = topology.unit_tree(hosts, None, number).unwrap();
        let names = switches.iter().map(|&at| topology.switches[at as usize].name.clone());
        (names.collect(), parents, homes)
    }

    #[test]
    fn hosts_of_one_switch_need_one_unit() {
        let leaves = TwoLevelFatTree::new(3, 2, 4).build().unwrap();
        assert_eq!(tree(&leaves, &[4, 7], 5), (vec!["L1.2".to_owned()], vec![None], vec![0, 0]));
    }

    #[test]
    fn jobs_with_different_numbers_use_different_spines() {
        let topology = TwoLevelFatTree::new(3, 2, 4).build().unwrap();
        let hosts = [0, 4, 8, 9];
        let leaves = ["L1.1", "L1.2", "L1.3"];
        for (number, spine) in [(0, "L2.1"), (1, "L2.2"), (2, "L2.1")] {
            let (switches, parents, homes) = tree(&topology, &hosts, number);
            assert_eq!(switches[..3], leaves);
            assert_eq!(switches[3], spine);
            assert_eq!(parents, [Some(3), Some(3), Some(3), None]);
            assert_eq!(homes, [0, 1, 2, 2]);
        }
        let given = topology.unit_tree(&hosts, topology.switch_named("L1.2"), 0).unwrap();
        let names: Vec<&str> =
            given.switches.iter().map(|&at| topology.switches[at as usize].name.as_str()).collect();
        assert_eq!(names, ["L1.1", "L1.2", "L1.3", "L2.1"], "a leaf as the root");
        assert_eq!(given.parents, [Some(3), None, Some(3), Some(1)]);
    }

    #[test]
    fn parents_are_adjacent_and_lead_to_the_root() {
        let topology = ThreeLevelFatTree::new(4).build().unwrap();
        let all: Vec<u32> = (0..topology.end_hosts()).collect();
        for number in 0..5 {
            let UnitTree { switches, parents, homes } = topology.unit_tree(&all, None, number).unwrap();
            assert_eq!(
                (switches.len(), homes.len()),
                (8 + 4 + 1, 16),
                "leaves, one switch per pod, a core switch"
            );
            for mut at in homes.iter().copied() {
                let mut far = 0;
                while let Some(parent) = parents[at as usize] {
                    let pair = [switches[at as usize], switches[parent as usize]].map(NodeRef::Switch);
                    let joins = |link: &Link| {
                        [link.a.node, link.b.node] == pair || [link.b.node, link.a.node] == pair
                    };
                    assert!(topology.links.iter().any(joins));
                    (at, far) = (parent, far + 1);
                }
                assert_eq!(far, 2);
            }
        }
    }

    #[test]
    fn a_unit_has_the_rate_of_all_links_of_its_switch() {
        let mut topology = TwoLevelFatTree::new(3, 2, 4).build().unwrap();
        let rate = topology.links[0].rate;
        let unit_of = topology.add_units(&BTreeSet::from([1, 3]), None, Time::from_ns(1)).unwrap();
        topology.validate().unwrap();
        assert_eq!((topology.end_hosts(), topology.hosts.len()), (12, 14));
        let units: Vec<(&str, u64)> = topology.hosts[12..]
            .iter()
            .zip(&topology.links[topology.links.len() - 2..])
            .map(|(unit, link)| (unit.name.as_str(), link.rate.0 / rate.0))
            .collect();
        assert_eq!(units, [("L1.2/unit", 6), ("L2.1/unit", 3)]);
        assert_eq!([0, 1, 3].map(|switch| unit_of.get(&switch).copied()), [None, Some(12), Some(13)]);
    }

    #[test]
    fn a_switch_without_a_free_port_number_is_reported() {
        let mut topology = TwoLevelFatTree::new(1024, 2, 1).build().unwrap();
        let error = topology.add_units(&BTreeSet::from([1024]), None, Time::from_ns(1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "switch L2.1 has 1024 ports and no port for a reduction unit; a switch has at most 1024"
        );
    }
}
