//! A fast check of tables that need no diagnosis: one pass proves that every packet arrives and that packets cannot
//! wait for each other in a cycle.

use super::Tables;
use super::deadlock::{Dependencies, LaneOf};
use super::graph::{Block, PortGraph, Target};
use crate::topology::{PartNumbers, Topology};

/// Returns whether every host has a link, every entry of every table for a destination in the same [part](Topology::parts) of
/// the network leads to a switch or to its destination, and the
/// dependencies between the channels of all entries contain no cycle.
///
/// Then no route has a loop, because a loop is a cycle of dependencies; so every route ends, and it can only
/// end at its destination. The tables also cannot deadlock on a single lane. The condition is sufficient but
/// not necessary, because it includes entries that no packet uses: if it fails, use [`super::analyze`] and
/// [`super::deadlock_cycle`], which follow the routes. The running time is proportional to the number of
/// entries.
#[must_use]
pub fn is_sound(topology: &Topology, tables: &Tables) -> bool {
    let wiring = topology.wiring();
    let network = PortGraph::new(topology, &wiring);
    if network.homes.iter().any(Option::is_none) {
        return false;
    }
    let switches = topology.switches.len();
    let mut found = Found { dependencies: Dependencies::new(&network, 1), last: vec![None; network.ports()] };
    let parts = topology.part_numbers();
    let is_sound = |rows| is_each_sound(&network, Block::new(rows, switches), &parts, &mut found);
    tables.all_rows().all(is_sound) && found.dependencies.cycle(&network).is_none()
}

/// The dependencies between channels found so far.
struct Found {
    dependencies: Dependencies,
    /// The next port of the last dependency of each channel. Most dependencies are equal to the last one of their
    /// channel, and these need no search in the set.
    last: Vec<Option<u16>>,
}

/// Checks the entries for the same path bits, and adds their dependencies.
fn is_each_sound(network: &PortGraph, mut block: Block, parts: &PartNumbers, found: &mut Found) -> bool {
    let hosts = parts.hosts.len();
    for first in (0..hosts).step_by(Block::WIDTH) {
        block.load(first);
        for switch in 0..network.switches() {
            for to in first..hosts.min(first + Block::WIDTH) {
                let port = block.port(switch, to);
                if port == Tables::NO_ROUTE && parts.hosts[to] != parts.switches[switch] {
                    continue;
                }
                let Some(slot) = network.slot(switch, port) else { return false };
                match network.target(switch, port) {
                    Target::Host(host) if host as usize == to => {}
                    Target::Switch(next) => {
                        let next = next as usize;
                        let onward = block.port(next, to);
                        if found.last[slot].replace(onward) == Some(onward) {
                            continue;
                        }
                        if matches!(network.target(next, onward), Target::Switch(_)) {
                            found.dependencies.add(
                                network,
                                slot,
                                LaneOf { switch: next, port: onward, lane: 0 },
                            );
                        }
                    }
                    Target::Host(_) | Target::Nothing => return false,
                }
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::shortest_path::ShortestPath;
    use super::super::{RoutingSpec, analyze, deadlock_cycle};
    use super::*;
    use crate::topology::NodeRef;
    use crate::topology::dumbbell::Dumbbell;
    use crate::topology::k_ary_n_tree::KAryNTree;
    use crate::topology::two_level::FatTree648;
    use proptest::prelude::*;

    #[test]
    fn tables_of_trees_are_sound() {
        for topology in [KAryNTree::new(4, 3).build().unwrap(), FatTree648::default().build().unwrap()] {
            let tables = RoutingSpec::suitable(&topology).compute(&topology).unwrap();
            assert!(is_sound(&topology, &tables), "{}", topology.name);
        }
    }

    #[test]
    fn a_host_without_a_link_is_not_sound() {
        let mut topology = Dumbbell::default().build().unwrap();
        let tables = RoutingSpec::ShortestPath(ShortestPath {}).compute(&topology).unwrap();
        assert!(is_sound(&topology, &tables));
        topology.links.retain(|link| link.a.node != NodeRef::Host(0) && link.b.node != NodeRef::Host(0));
        assert!(!is_sound(&topology, &tables));
    }

    proptest! {
        /// Tables with some random entries: sound tables deliver every packet and cannot deadlock.
        #[test]
        fn sound_tables_deliver_and_cannot_deadlock(
            changes in prop::collection::vec((0usize..80, 0usize..64, 0u16..9), 0..4),
        ) {
            let topology = KAryNTree::new(4, 3).build().unwrap();
            let mut tables = RoutingSpec::suitable(&topology).compute(&topology).unwrap();
            let (switches, hosts) = (topology.switches.len(), topology.hosts.len());
            for (switch, host, port) in changes {
                tables.out[switch % switches][host % hosts] = port;
            }
            let delivers = analyze(&topology, &tables).unroutable == 0;
            if is_sound(&topology, &tables) {
                prop_assert!(delivers && deadlock_cycle(&topology, &tables).is_none());
            }
        }
    }
}
