//! Checks all routes that adaptive routing can select, under any load: whether they end, whether they visit a switch
//! twice, and whether packets can wait for each other in a cycle.
//!
//! As in [`crate::routing::deadlock`], a channel depends on the channels that a packet may request at its end, but a
//! packet may request several channels for one destination. If there are no cycles, there is no deadlock (Dally and
//! Seitz 1987).

use std::fmt;

use super::table::AdaptiveTables;
use crate::routing::deadlock::{ChannelName, Dependencies, cycle_text, named};
use crate::routing::graph::PortGraph;
use crate::topology::{NodeRef, Topology, Wiring};

/// A fault of the possible routes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteFault {
    /// A route does not end at the destination.
    Astray {
        /// The last switch.
        switch: String,
        /// The port of the last switch.
        port: u16,
        /// The destination.
        to: String,
    },
    /// A route returns to a switch.
    Revisit {
        /// The switch.
        switch: String,
        /// The destination.
        to: String,
    },
    /// Channels that can wait for each other in a cycle.
    Cycle(Vec<ChannelName>),
}

impl fmt::Display for RouteFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Astray { switch, port, to } => {
                write!(f, "a route to host {to} leads elsewhere at switch {switch}, port {port}")
            }
            Self::Revisit { switch, to } => {
                write!(f, "a route to host {to} returns to switch {switch}")
            }
            Self::Cycle(channels) => {
                write!(f, "packets can wait for each other in a cycle: {}", cycle_text(channels))
            }
        }
    }
}

/// Checks all routes between all pairs of hosts. The running time limits the check to trees of some hundred
/// hosts.
///
/// # Errors
/// The first fault.
pub fn check_relation(topology: &Topology, tables: &AdaptiveTables) -> Result<(), RouteFault> {
    let wiring = topology.wiring();
    let network = PortGraph::new(topology, &wiring);
    let mut relation = Relation {
        topology,
        tables,
        wiring: &wiring,
        waits: vec![Vec::new(); network.ports()],
        network: &network,
        after: vec![None; network.ports()],
    };
    for to in 0..topology.hosts.len() as u32 {
        relation.explore(to)?;
        relation.no_revisit(to)?;
    }
    match Dependencies::of_one_lane(relation.waits).cycle(&network) {
        Some(cycle) => Err(RouteFault::Cycle(named(topology, &wiring, cycle))),
        None => Ok(()),
    }
}

/// The search for routes. The state of a packet is the slot of the input port that the packet has reached.
struct Relation<'a> {
    topology: &'a Topology,
    tables: &'a AdaptiveTables,
    wiring: &'a Wiring,
    network: &'a PortGraph,
    /// Bit set of the output ports that packets on each channel can request, indexed by the slot of the
    /// channel's sending port.
    waits: Vec<Vec<u64>>,
    /// The states that can follow each state on routes to one host; `None` for states that are not reached.
    after: Vec<Option<Vec<usize>>>,
}

impl Relation<'_> {
    /// Finds all states on routes to a host from all other hosts. Fails if a route does not end at the host.
    fn explore(&mut self, to: u32) -> Result<(), RouteFault> {
        self.after.fill(None);
        let mut found: Vec<(usize, u16)> = Vec::new();
        for (from, peer) in self.wiring.hosts.iter().enumerate() {
            if let (true, Some((end, _))) = (from != to as usize, peer)
                && let NodeRef::Switch(switch) = end.node
            {
                found.push((switch as usize, end.port));
            }
        }
        while let Some((switch, input)) = found.pop() {
            let Some(state) = self.network.slot(switch, input) else { continue };
            if self.after[state].is_some() {
                continue;
            }
            let (default, alternates) = self.tables.switches[switch].candidates(input, to);
            let mut after = Vec::new();
            for &port in alternates.iter().chain([&default]) {
                let out = self.wiring.switches[switch].get(usize::from(port).wrapping_sub(1));
                match out.copied().flatten().map(|(end, _)| (end.node, end.port)) {
                    Some((NodeRef::Host(host), _)) if host == to => {}
                    Some((NodeRef::Switch(next), entered)) => {
                        self.wait(switch, input, port);
                        found.push((next as usize, entered));
                        after.extend(self.network.slot(next as usize, entered));
                    }
                    _ => {
                        let switch = self.topology.switches[switch].name.clone();
                        let to = self.topology.hosts[to as usize].name.clone();
                        return Err(RouteFault::Astray { switch, port, to });
                    }
                }
            }
            self.after[state] = Some(after);
        }
        Ok(())
    }

    /// Records that a packet at an input port can request an output port that leads to a switch.
    fn wait(&mut self, switch: usize, input: u16, port: u16) {
        let peer = self.wiring.switches[switch][usize::from(input) - 1];
        let Some((NodeRef::Switch(before), by)) = peer.map(|(end, _)| (end.node, end.port)) else { return };
        let Some(slot) = self.network.slot(before as usize, by) else { return };
        let set = &mut self.waits[slot];
        set.resize(self.network.ports_of(switch).div_ceil(64), 0);
        let bit = usize::from(port) - 1;
        set[bit / 64] |= 1 << (bit % 64);
    }

    /// Checks for each state that no route from it visits its switch again.
    fn no_revisit(&self, to: u32) -> Result<(), RouteFault> {
        let mut seen = vec![usize::MAX; self.after.len()];
        let mut stack = Vec::new();
        for switch in 0..self.network.switches() {
            let own = |slot: usize| {
                self.network
                    .slot(switch, 1)
                    .is_some_and(|first| (first..first + self.network.ports_of(switch)).contains(&slot))
            };
            for state in
                (1..=self.network.ports_of(switch) as u16).filter_map(|p| self.network.slot(switch, p))
            {
                stack.extend(self.after[state].iter().flatten());
                while let Some(next) = stack.pop() {
                    if own(next) {
                        let switch = self.topology.switches[switch].name.clone();
                        return Err(RouteFault::Revisit {
                            switch,
                            to: self.topology.hosts[to as usize].name.clone(),
                        });
                    }
                    // States that were already searched from another input of the switch are skipped.
                    if std::mem::replace(&mut seen[next], switch) != switch {
                        stack.extend(self.after[next].iter().flatten());
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::Side;
    use super::*;
    use crate::topology::TopologySpec;
    use crate::topology::modified_tree::ModifiedTree;

    #[test]
    fn small_trees_have_no_cycles() {
        for (k, n) in [(2, 3), (2, 4), (3, 3), (4, 2), (4, 3), (5, 1)] {
            for width in 0..=3 {
                let topology = ModifiedTree::new(k, n, width).build().unwrap();
                let tables = AdaptiveTables::new(&topology).unwrap();
                let checked = check_relation(&topology, &tables).map_err(|fault| fault.to_string());
                assert_eq!(checked, Ok(()), "{}", topology.name);
            }
        }
    }

    #[test]
    fn plain_trees_with_parallel_links_too() {
        let spec: TopologySpec =
            serde_json::from_str(r#"{"kind": "pgft", "m": [4, 3, 2], "w": [1, 2, 3], "p": [1, 2, 2]}"#)
                .unwrap();
        let topology = spec.build().unwrap();
        assert_eq!(check_relation(&topology, &AdaptiveTables::new(&topology).unwrap()), Ok(()));
    }

    /// Checks a tree in which the named switches send packets to one side regardless of their input port:
    /// L3.1 to the right, the others to the left.
    fn turned(names: &[&str]) -> Result<(), String> {
        let topology = ModifiedTree::new(2, 3, 1).build().unwrap();
        let mut tables = AdaptiveTables::new(&topology).unwrap();
        for name in names {
            let switch = topology.switch_named(name).unwrap() as usize;
            for onward in &mut tables.switches[switch].onward {
                *onward = if *name == "L3.1" { Side::Right } else { Side::Left };
            }
        }
        check_relation(&topology, &tables).map_err(|fault| fault.to_string())
    }

    #[test]
    fn reversing_routes_are_detected() {
        assert_eq!(turned(&["L3.2"]), Err("a route to host H1 returns to switch L3.1".to_owned()));
    }

    #[test]
    fn cycles_are_reported_port_by_port() {
        // `check_relation` would first report that a route returns to a switch.
        let topology = ModifiedTree::new(2, 3, 1).build().unwrap();
        let mut tables = AdaptiveTables::new(&topology).unwrap();
        for (name, side) in [("L3.1", Side::Right), ("L3.2", Side::Left)] {
            let switch = topology.switch_named(name).unwrap() as usize;
            tables.switches[switch].onward.fill(side);
        }
        let wiring = topology.wiring();
        let network = PortGraph::new(&topology, &wiring);
        let ports = network.ports();
        let mut relation = Relation {
            topology: &topology,
            tables: &tables,
            wiring: &wiring,
            network: &network,
            waits: vec![Vec::new(); ports],
            after: vec![None; ports],
        };
        relation.explore(0).unwrap();
        let cycle = Dependencies::of_one_lane(relation.waits).cycle(&network).unwrap();
        let fault = RouteFault::Cycle(named(&topology, &wiring, cycle));
        assert_eq!(
            fault.to_string(),
            "packets can wait for each other in a cycle: L3.1:3 -> L3.2:3, L3.2:3 -> L3.1:3"
        );
    }

    #[test]
    fn routes_that_lead_elsewhere_are_detected() {
        let mut topology = ModifiedTree::new(2, 2, 1).build().unwrap();
        let tables = AdaptiveTables::new(&topology).unwrap();
        topology.links.retain(|link| topology_port(link.b) != ("L2.2", 1));
        assert_eq!(
            check_relation(&topology, &tables).map_err(|fault| fault.to_string()),
            Err("a route to host H1 leads elsewhere at switch L2.2, port 1".to_owned())
        );
    }

    /// The port of an end, with the name of the switch if it is the second top switch of a 2-ary 2-tree.
    fn topology_port(end: crate::topology::End) -> (&'static str, u16) {
        (if end.node == NodeRef::Switch(3) { "L2.2" } else { "" }, end.port)
    }
}
