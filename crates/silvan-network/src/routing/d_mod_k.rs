//! D-mod-K on parallel-ports generalized fat trees (Zahavi 2010).
//!
//! At a switch of level `l` that is not above host `d`, a packet for `d` leaves through up port
//! `floor(d / (w_1 * .. * w_l)) mod (w_(l+1) * p_(l+1))`, counted from 0. Consecutive destinations are thus
//! distributed over all up ports, level by level. Each destination has a single path down from any switch.
//! The digits of `d` determine the child and, among parallel links, the link that the child would use
//! upwards. On a tree whose switches below the top have as many links up as down, every link then carries at
//! most one flow of any shift permutation, and every down link carries the traffic for a single destination.
//!
//! On a bidirectional k-ary n-fly, this is turnaround routing: packets go forward by the destination's digits,
//! starting with the lowest, to the first stage that reaches the destination, and then back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RoutingError, Tables};
use crate::topology::k_ary_n_fly::unshuffled;
use crate::topology::{Pgft, Shape, Topology};

/// D-mod-K, for fat trees (`pgft`, `k-ary-n-tree`, `two-level-fat-tree`, `fat-tree-648`,
/// `three-level-fat-tree`) and bidirectional k-ary n-flies (`k-ary-n-fly`). No parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DModK {}

impl DModK {
    /// Computes the tables of a valid topology.
    ///
    /// # Errors
    /// [`RoutingError::Unsuitable`] if the topology is not a generated fat tree, or has other numbers of
    /// hosts or switches.
    pub(super) fn compute(&self, topology: &Topology) -> Result<Tables, RoutingError> {
        let (Shape::FatTree(tree) | Shape::ShuffledFatTree(tree)) = &topology.shape else {
            return Err(RoutingError::Unsuitable(format!(
                "d-mod-k: {} is not a generated fat tree; use up-down or shortest-path, or imported tables",
                topology.name
            )));
        };
        let (hosts, switches) = (topology.hosts.len() as u64, topology.switches.len() as u64);
        if !tree.is_valid() || (tree.hosts(), tree.switches()) != (hosts, switches) {
            return Err(RoutingError::Unsuitable(format!(
                "d-mod-k: the network has {hosts} hosts and {switches} switches, which are not those of {tree}; \
                 use up-down or shortest-path"
            )));
        }
        let mut out = Vec::with_capacity(topology.switches.len());
        for level in 1..=tree.levels() {
            out.extend(tables(tree, level));
        }
        if matches!(topology.shape, Shape::ShuffledFatTree(_)) {
            out = renumbered(tree, out);
        }
        Ok(Tables::new(out))
    }
}

/// Renumbers the tables of a tree, so that hosts and switches are in the order of the shuffle.
fn renumbered(tree: &Pgft, mut tables: Vec<Vec<u16>>) -> Vec<Vec<u16>> {
    let (hosts, switches) = unshuffled(tree);
    let table = |at: usize| {
        let table = std::mem::take(&mut tables[at]);
        hosts.iter().map(|&host| table[host as usize]).collect()
    };
    switches.iter().map(|&at| at as usize).map(table).collect()
}

/// The tables of all switches of a level. The generator ensures that all ports fit their type.
fn tables(tree: &Pgft, level: usize) -> impl Iterator<Item = Vec<u16>> {
    let (siblings, below) = (tree.siblings(level), tree.hosts_below(level));
    let (m, p) = (u64::from(tree.m[level - 1]), u64::from(tree.p[level - 1]));
    let hosts_of_child = tree.hosts_below(level - 1);
    let down_ports = u64::from(tree.down_ports(level));
    // A switch without up ports is above every host, so all its entries of `up` are replaced.
    let up_ports = u64::from(tree.up_ports(level)).max(1);
    // The entries of switches of one level differ only for the hosts below them.
    let up: Vec<u16> =
        (0..tree.hosts()).map(|host| (1 + down_ports + host / siblings % up_ports) as u16).collect();
    (0..tree.nodes_at(level)).map(move |switch| {
        let mut table = up.clone();
        let first = switch / siblings * below;
        for (host, port) in (first..).zip(&mut table[first as usize..(first + below) as usize]) {
            *port = (1 + host / hosts_of_child % m + host / siblings % p * m) as u16;
        }
        table
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::{RoutingSpec, analyze, deadlock_cycle, trace};
    use super::*;
    use crate::topology::TopologySpec;
    use crate::topology::dumbbell::Dumbbell;
    use crate::topology::k_ary_n_tree::KAryNTree;
    use crate::topology::two_level::{FatTree648, TwoLevelFatTree};

    fn routed(topology: Topology) -> (Topology, Tables) {
        let tables = RoutingSpec::DModK(DModK {}).compute(&topology).unwrap();
        assert_eq!(tables.validate(&topology), Ok(()));
        (topology, tables)
    }

    /// The channels of a path as (link, reverse direction).
    fn channels(topology: &Topology, tables: &Tables, from: u32, to: u32) -> Vec<(usize, bool)> {
        let path = trace(topology, &topology.wiring(), tables, from, to).unwrap();
        path.channels.iter().map(|c| (c.link, topology.links[c.link].b == c.from)).collect()
    }

    #[test]
    fn ports_follow_the_formula() {
        let (topology, tables) = routed(KAryNTree::new(4, 3).build().unwrap());
        // Host 45 is 2-3-1 in base 4 (most significant digit first).
        let at = |switch: &str| tables.out[topology.switch_named(switch).unwrap() as usize][45];
        assert_eq!(at("L1.1"), 1 + 4 + 1, "up by the lowest digit");
        assert_eq!(at("L2.1"), 1 + 4 + 3, "up by the next digit");
        assert_eq!(at("L3.1"), 1 + 2, "down to the subtree of the highest digit");
        assert_eq!(at("L2.9"), 1 + 3);
        assert_eq!(at("L1.12"), 1 + 1);
    }

    /// The shares of the last link for all-to-one traffic, if every output serves its inputs round-robin
    /// (Paper II: 1/4, 1/64 and 1/768 on the 4-ary 3-tree).
    #[test]
    fn all_to_one_has_the_shares_of_the_published_law() {
        let (topology, tables) = routed(KAryNTree::new(4, 3).build().unwrap());
        for to in [0, 27, 63] {
            let paths: Vec<Vec<(usize, bool)>> = (0..64)
                .filter(|&from| from != to)
                .map(|from| channels(&topology, &tables, from, to))
                .collect();
            let mut contenders: BTreeMap<(usize, bool), BTreeSet<(usize, bool)>> = BTreeMap::new();
            for hop in paths.iter().flat_map(|path| path.windows(2)) {
                contenders.entry(hop[1]).or_default().insert(hop[0]);
            }
            let mut shares = BTreeMap::new();
            for path in &paths {
                let one_in: usize = path.iter().skip(1).map(|hop| contenders[hop].len()).product();
                *shares.entry(one_in).or_insert(0) += 1;
            }
            assert_eq!(shares, BTreeMap::from([(4, 3), (64, 12), (768, 48)]), "to host {to}");
        }
    }

    #[test]
    fn shift_permutations_never_share_a_link() {
        let parallel = TwoLevelFatTree { parallel: 3, ..TwoLevelFatTree::new(4, 2, 6) };
        for topology in [
            KAryNTree::new(2, 3).build().unwrap(),
            KAryNTree::new(4, 3).build().unwrap(),
            KAryNTree::new(3, 4).build().unwrap(),
            parallel.build().unwrap(),
            three_levels_with_parallel_links(),
        ] {
            check_shifts(topology, 1);
        }
        check_shifts(FatTree648::default().build().unwrap(), 13);
    }

    /// A tree with twelve hosts per pod, two parallel links upwards, and as many links up as down.
    fn three_levels_with_parallel_links() -> Topology {
        let spec: TopologySpec =
            serde_json::from_str(r#"{"kind": "pgft", "m": [4, 3, 2], "w": [1, 2, 3], "p": [1, 2, 2]}"#)
                .unwrap();
        spec.build().unwrap()
    }

    fn check_shifts(topology: Topology, step: usize) {
        let (topology, tables) = routed(topology);
        let wiring = topology.wiring();
        let hosts = topology.hosts.len() as u32;
        for shift in (1..hosts).step_by(step) {
            let mut used = vec![[false; 2]; topology.links.len()];
            for from in 0..hosts {
                let path = trace(&topology, &wiring, &tables, from, (from + shift) % hosts).unwrap();
                for channel in path.channels {
                    let backwards = topology.links[channel.link].b == channel.from;
                    let slot = &mut used[channel.link][usize::from(backwards)];
                    assert!(
                        !std::mem::replace(slot, true),
                        "{}: shift {shift} puts two flows on {}",
                        topology.name,
                        topology.port_name(channel.from)
                    );
                }
            }
        }
    }

    #[test]
    fn every_link_down_serves_one_destination() {
        let (topology, tables) = routed(KAryNTree::new(4, 3).build().unwrap());
        let mut served: BTreeMap<(usize, bool), BTreeSet<u32>> = BTreeMap::new();
        for (from, to) in (0..64).flat_map(|f| (0..64).map(move |t| (f, t))) {
            for channel in channels(&topology, &tables, from, to) {
                if channel.1 {
                    served.entry(channel).or_default().insert(to);
                }
            }
        }
        assert_eq!(served.len(), 3 * 64, "every link is used");
        assert!(served.values().all(|destinations| destinations.len() == 1));
    }

    #[test]
    fn large_trees_are_routed_without_deadlock() {
        let (topology, tables) = routed(KAryNTree::new(16, 3).build().unwrap());
        let analysis = analyze(&topology, &tables);
        assert_eq!((analysis.pairs, analysis.unroutable), (4096 * 4095, 0));
        assert_eq!(analysis.hops, [0, 4096 * 15, 0, 4096 * 240, 0, 4096 * 3840]);
        assert_eq!(deadlock_cycle(&topology, &tables), None);
    }

    #[test]
    fn other_networks_are_rejected() {
        let testbed = Dumbbell::default().build().unwrap();
        assert_eq!(
            RoutingSpec::DModK(DModK {}).compute(&testbed).map_err(|e| e.to_string()),
            Err("d-mod-k: dumbbell 3 + 4 is not a generated fat tree; use up-down or shortest-path, or imported \
                 tables"
                .to_owned())
        );
        let mut cut = KAryNTree::new(2, 2).build().unwrap();
        cut.hosts.pop();
        cut.links.retain(|l| l.a.node != crate::topology::NodeRef::Host(3));
        assert_eq!(
            RoutingSpec::DModK(DModK {}).compute(&cut).map_err(|e| e.to_string()),
            Err("d-mod-k: the network has 3 hosts and 4 switches, which are not those of PGFT(2; 2,2; 1,2; 1,1); \
                 use up-down or shortest-path"
                .to_owned())
        );
    }
}
