//! The links that single flows use if switches hash flows onto the shortest paths, or divide their packets over them.

use super::Tables;
use super::ecmp::{Hash, HashedFields};
use super::port_groups::PortGroups;
use crate::topology::{NodeRef, Topology, Wiring};

/// How flows are divided over the shortest paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Division {
    /// Each flow takes the path that the forwarding tables determine.
    Tables,
    /// Each flow takes one path, which the hash functions of a run with this seed select.
    Hashed(u64),
    /// The packets of each flow are divided evenly.
    Even,
}

/// The routes of a network, with flows divided according to a [`Division`].
#[derive(Debug)]
pub struct Shares {
    groups: PortGroups,
    wiring: Wiring,
    /// The first end of each link.
    first_ends: Vec<NodeRef>,
    /// The hash function of each switch; empty unless flows are hashed.
    hashes: Vec<Hash>,
}

impl Shares {
    /// Computes the routes for tables that have been checked.
    #[must_use]
    pub fn new(topology: &Topology, tables: &Tables, division: Division) -> Self {
        let switches = 0..topology.switches.len() as u64;
        let (groups, hashes) = match division {
            Division::Tables => (PortGroups::of_lids(&Tables::new(tables.out.clone())), Vec::new()),
            Division::Even => (PortGroups::new(topology, tables), Vec::new()),
            Division::Hashed(seed) => {
                (PortGroups::new(topology, tables), switches.map(|s| Hash::new(seed, s)).collect())
            }
        };
        let first_ends = topology.links.iter().map(|link| link.a.node).collect();
        Self { groups, wiring: topology.wiring(), first_ends, hashes }
    }

    /// The directed links on the routes of a flow, each with the share (0 to 1) of the flow's packets.
    /// `connection` is the number of the traffic source in the sending host. A directed link has twice the
    /// number of its link, plus one from the second end to the first. `None` if some packets do not arrive.
    ///
    /// # Panics
    /// If the source does not exist.
    #[must_use]
    pub fn links(&self, source: u32, destination: u32, connection: u16) -> Option<Vec<(usize, f64)>> {
        let mut found = Vec::new();
        // Shortest paths have equal lengths, so all parts of a flow are equally far from the destination.
        let mut here = vec![(NodeRef::Host(source), 1.0)];
        for _ in 0..=self.wiring.switches.len() {
            let mut next: Vec<(NodeRef, f64)> = Vec::new();
            for (node, share) in here {
                for (slot, share) in
                    self.onward(node, share, &HashedFields { source, destination, connection, entropy: 0 })
                {
                    let (end, link) = slot?;
                    found.push((2 * link + usize::from(self.first_ends[link] != node), share));
                    match next.iter_mut().find(|(known, _)| *known == end.node) {
                        Some((_, sum)) => *sum += share,
                        None => next.push((end.node, share)),
                    }
                }
            }
            if next.iter().all(|&(node, _)| node == NodeRef::Host(destination)) {
                return (!next.is_empty()).then_some(found);
            }
            here = next;
        }
        None
    }

    /// The ends of the ports by which the packets of a flow leave a node, with their shares.
    fn onward(&self, node: NodeRef, share: f64, fields: &HashedFields) -> Vec<(Option<Wired>, f64)> {
        let at = match node {
            NodeRef::Host(host) if host == fields.source => {
                return vec![(self.wiring.hosts[host as usize], share)];
            }
            NodeRef::Host(_) => return Vec::new(),
            NodeRef::Switch(at) => at as usize,
        };
        let wired =
            |port: u16| self.wiring.switches[at].get(usize::from(port).wrapping_sub(1)).copied().flatten();
        let choices = &self.groups.switches[at];
        match self.hashes.get(at) {
            Some(hash) => {
                vec![(hash.port(choices, fields).and_then(wired), share)]
            }
            None => {
                let ports = choices.ports(fields.destination as usize);
                let part = share / ports.len().max(1) as f64;
                if ports.is_empty() {
                    vec![(None, part)]
                } else {
                    ports.iter().map(|&p| (wired(p), part)).collect()
                }
            }
        }
    }
}

/// The end at the other side of a port, and the number of the link.
type Wired = (crate::topology::End, usize);

#[cfg(test)]
mod tests {
    use super::super::RoutingSpec;
    use super::*;
    use crate::topology::two_level::TwoLevelFatTree;

    #[test]
    fn sprayed_packets_use_every_spine_and_hashed_flows_one() {
        // Two leaves of two hosts, two spines.
        let topology = TwoLevelFatTree::new(2, 2, 2).build().unwrap();
        let tables = RoutingSpec::suitable(&topology).compute(&topology).unwrap();
        let sprayed = Shares::new(&topology, &tables, Division::Even).links(0, 3, 0).unwrap();
        let shares: Vec<f64> = sprayed.iter().map(|&(_, share)| share).collect();
        assert_eq!(shares, [1.0, 0.5, 0.5, 0.5, 0.5, 1.0]);
        let hashed = Shares::new(&topology, &tables, Division::Hashed(1));
        let ways: Vec<Vec<(usize, f64)>> = (0..2).map(|from| hashed.links(from, 3, 0).unwrap()).collect();
        assert!(
            ways.iter().all(|way| way.len() == 4 && way.iter().all(|&(_, share)| share == 1.0)),
            "{ways:?}"
        );
        let plain = Shares::new(&topology, &tables, Division::Tables).links(0, 3, 0).unwrap();
        assert_eq!(plain.iter().map(|&(_, share)| share).collect::<Vec<_>>(), [1.0; 4]);
        let lost = Shares::new(&topology, &Tables::empty(&topology), Division::Tables);
        assert_eq!(lost.links(0, 3, 0), None);
        let own = sprayed.first().map(|&(link, _)| link / 2).unwrap();
        assert!(
            topology.links[own].a.node == NodeRef::Host(0) || topology.links[own].b.node == NodeRef::Host(0)
        );
    }
}
