//! Up*/down* routing on any graph, which is deadlock-free with one virtual lane.
//!
//! Switches are ranked by their distance from the roots, and switches at equal distance by their number. A
//! hop to a switch with a better rank goes up, any other hop goes down. A path first goes up, then down,
//! and never up again, so there is no dependency cycle.
//!
//! The tables depend only on the destination, not on whether a packet has already gone down. Therefore, if
//! a switch has a path that only goes down, it uses the shortest such path, even if a shorter path starts
//! upwards. Every other switch sends up, on the shortest path to a switch with a downward path. A packet
//! that goes down thus never meets an entry that goes up.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::graph::{Balancer, FAR, Graph};
use super::{RoutingError, Tables};
use crate::topology::{Shape, Topology};

/// Maximum number of steps of the search for a root, about ten seconds.
const MAX_SEARCH: u64 = 4_000_000_000;

/// Up*/down* routing; among equally good ports, the one with the fewest destinations so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpDown {
    /// The switch at the top, or several switches. Default: on a fat tree, all its top switches; on any
    /// other graph, the switch with the smallest distance to its farthest host (the first of several).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<Roots>,
}

/// One switch or several, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Roots {
    /// The only root.
    One(String),
    /// Several roots, all of the highest rank.
    Several(Vec<String>),
}

impl UpDown {
    /// Computes the tables of a valid topology.
    ///
    /// # Errors
    /// [`RoutingError::Unsuitable`] if a root does not exist, if several roots leave a pair of hosts
    /// without a legal path (with one root, this never happens), or if links are unidirectional.
    pub(super) fn compute(&self, topology: &Topology) -> Result<Tables, RoutingError> {
        if topology.has_one_way_links() {
            return Err(RoutingError::Unsuitable(format!(
                "up-down: {} has unidirectional links, but up*/down* needs both directions; use destination-tag on a \
                 k-ary n-fly, or shortest-path",
                topology.name
            )));
        }
        let graph = Graph::new(topology);
        let roots = self.roots(topology, &graph)?;
        let levels = graph.hops(&roots, |_, _| true);
        let mut by_rank: Vec<usize> = (0..graph.len()).collect();
        by_rank.sort_by_key(|&s| (levels[s], s));
        let is_up = |from: usize, to: usize| (levels[to], to) < (levels[from], from);

        let mut balancer = Balancer::new(topology, &graph);
        for home in graph.homes() {
            // The search runs backwards from the home switch, so packets go from `to` to `from`.
            let down = graph.hops(&[home], is_up);
            let mut cost = down.clone();
            for &switch in by_rank.iter().filter(|&&s| down[s] == FAR) {
                let above = graph.edges(switch).iter().map(|e| e.to as usize).filter(|&to| is_up(switch, to));
                cost[switch] = above.map(|to| cost[to]).min().map_or(FAR, |least| least.saturating_add(1));
            }
            balancer.route(home, &cost, |switch, edge| {
                let to = edge.to as usize;
                if down[switch] == FAR {
                    is_up(switch, to) && cost[to] != FAR && cost[to] + 1 == cost[switch]
                } else {
                    is_up(to, switch) && down[to] != FAR && down[to] + 1 == down[switch]
                }
            })?;
        }
        Ok(balancer.finish())
    }

    fn roots(&self, topology: &Topology, graph: &Graph) -> Result<Vec<usize>, RoutingError> {
        let names = match &self.root {
            None => return default_roots(topology, graph),
            Some(Roots::One(name)) => std::slice::from_ref(name),
            Some(Roots::Several(names)) => names.as_slice(),
        };
        if names.is_empty() {
            return Err(RoutingError::Unsuitable(
                "up-down: `root` is an empty list; name at least one switch, or leave it out".to_owned(),
            ));
        }
        let find = |name: &String| {
            topology.switch_named(name).map(|s| s as usize).ok_or_else(|| {
                RoutingError::Unsuitable(format!(
                    "up-down: `root` = {name:?} is not a switch of this network; its switches are named like {:?}",
                    topology.switches.first().map_or("", |s| s.name.as_str())
                ))
            })
        };
        names.iter().map(find).collect()
    }
}

fn default_roots(topology: &Topology, graph: &Graph) -> Result<Vec<usize>, RoutingError> {
    if let Shape::FatTree(tree) | Shape::ShuffledFatTree(tree) = &topology.shape
        && tree.switches() == graph.len() as u64
    {
        return Ok((tree.first_switch(tree.levels()) as usize..graph.len()).collect());
    }
    if graph.len() as u64 * (graph.len() + graph.edge_count()) as u64 > MAX_SEARCH {
        return Err(RoutingError::Unsuitable(format!(
            "up-down: a network of {} switches is too large to search for a root; name a switch as `root`",
            graph.len()
        )));
    }
    let farthest = |root: usize| {
        let hops = graph.hops(&[root], |_, _| true);
        graph.homes().map(|home| hops[home]).max()
    };
    Ok((0..graph.len()).min_by_key(|&root| farthest(root)).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::super::{RoutingSpec, analyze, deadlock_cycle};
    use super::*;
    use crate::topology::dumbbell::Dumbbell;
    use crate::topology::k_ary_n_tree::KAryNTree;
    use crate::topology::parameters::{
        default_link_delay, default_link_rate, host, host_end, switch, switch_end,
    };
    use crate::topology::two_level::{FatTree648, TwoLevelFatTree};
    use crate::topology::{Link, Shape};
    use proptest::prelude::*;

    /// A connected graph: switch `i` is connected to one of the earlier ones, with some additional links.
    fn random_graph() -> impl Strategy<Value = Topology> {
        let tree = prop::collection::vec(any::<prop::sample::Index>(), 0..14);
        let more = prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..20);
        (tree, more, prop::collection::vec(0u32..3, 15)).prop_map(|(tree, more, hosts)| {
            let count = tree.len() + 1;
            let mut pairs: Vec<(usize, usize)> =
                tree.iter().enumerate().map(|(i, above)| (i + 1, above.index(i + 1))).collect();
            pairs.extend(more.iter().map(|(a, b)| (a.index(count), b.index(count))).filter(|(a, b)| a != b));
            wire(count, &pairs, &hosts)
        })
    }

    fn wire(count: usize, pairs: &[(usize, usize)], hosts_at: &[u32]) -> Topology {
        let mut ports = vec![0u16; count];
        let mut end = |s: usize| {
            ports[s] += 1;
            switch_end(s as u32, ports[s])
        };
        let link =
            |a, b| Link { a, b, rate: default_link_rate(), delay: default_link_delay(), one_way: false };
        let mut links: Vec<Link> = pairs.iter().map(|&(a, b)| link(end(a), end(b))).collect();
        let mut hosts = Vec::new();
        for (s, &n) in hosts_at.iter().enumerate().take(count) {
            for _ in 0..n.max(u32::from(s == 0)) {
                links.push(link(host_end(hosts.len() as u32), end(s)));
                hosts.push(host(format!("H{}", hosts.len())));
            }
        }
        let switches = (0..).zip(&ports).map(|(s, &p)| switch(format!("S{s}"), p)).collect();
        Topology { name: "random".to_owned(), hosts, switches, links, units: 0, shape: Shape::Arbitrary }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn any_graph_is_routed_without_deadlock(topology in random_graph(), root in 0usize..15) {
            let named = topology.switches.get(root).map(|s| Roots::One(s.name.clone()));
            let tables = RoutingSpec::UpDown(UpDown { root: named }).compute(&topology).unwrap();
            prop_assert_eq!(tables.validate(&topology), Ok(()));
            let analysis = analyze(&topology, &tables);
            prop_assert_eq!(analysis.problems, Vec::<String>::new());
            prop_assert_eq!(analysis.unroutable, 0);
            prop_assert_eq!(deadlock_cycle(&topology, &tables), None);
        }

        #[test]
        fn shortest_paths_are_shortest(topology in random_graph()) {
            let tables = RoutingSpec::ShortestPath(Default::default()).compute(&topology).unwrap();
            let short = analyze(&topology, &tables);
            prop_assert_eq!(short.unroutable, 0);
            let graph = Graph::new(&topology);
            let mut hops = 0;
            for from in graph.homes() {
                let distance = graph.hops(&[from], |_, _| true);
                for to in graph.homes() {
                    let hosts = |s: usize| u64::from(graph.hosts_at(s));
                    let pairs = hosts(from) * (hosts(to) - u64::from(from == to));
                    hops += pairs * (u64::from(distance[to]) + 1);
                }
            }
            let found: u64 = short.hops.iter().zip(0u64..).map(|(pairs, n)| pairs * n).sum();
            prop_assert_eq!(found, hops);
        }
    }

    #[test]
    fn the_center_is_the_root() {
        // A chain S0 - S1 - S2 - S3 - S4 with one host per switch.
        let chain = wire(5, &[(0, 1), (1, 2), (2, 3), (3, 4)], &[1; 5]);
        assert_eq!(default_roots(&chain, &Graph::new(&chain)), Ok(vec![2]));
        let tree = TwoLevelFatTree::new(3, 2, 2).build().unwrap();
        assert_eq!(default_roots(&tree, &Graph::new(&tree)), Ok(vec![3, 4]), "the spines");
        let anonymous = Topology { shape: Shape::Arbitrary, ..tree };
        assert_eq!(
            default_roots(&anonymous, &Graph::new(&anonymous)),
            Ok(vec![3]),
            "distances are measured to hosts"
        );
    }

    #[test]
    fn fat_trees_are_balanced_from_all_their_spines() {
        let topology = FatTree648::default().build().unwrap();
        let tables = RoutingSpec::UpDown(UpDown::default()).compute(&topology).unwrap();
        let analysis = analyze(&topology, &tables);
        assert_eq!(analysis.unroutable, 0);
        let loads = &analysis.between_switches;
        assert_eq!((loads.channels, loads.min, loads.max), (1296, 630, 630));
    }

    #[test]
    fn high_switches_balance_the_destinations_that_pass_them() {
        let topology = KAryNTree::new(4, 3).build().unwrap();
        for routing in [RoutingSpec::UpDown(UpDown::default()), RoutingSpec::ShortestPath(Default::default())]
        {
            let loads = analyze(&topology, &routing.compute(&topology).unwrap()).between_switches;
            assert_eq!((loads.min, loads.max), (48, 60), "as even as with D-mod-K");
        }
    }

    #[test]
    fn invalid_roots_are_reported() {
        let testbed = Dumbbell::default().build().unwrap();
        let message = |topology: &Topology, root| {
            let spec = RoutingSpec::UpDown(UpDown { root: Some(root) });
            spec.compute(topology).map_err(|e| e.to_string()).err().unwrap_or_default()
        };
        assert_eq!(
            message(&testbed, Roots::One("H1".to_owned())),
            "up-down: `root` = \"H1\" is not a switch of this network; its switches are named like \"S1\""
        );
        assert_eq!(
            message(&testbed, Roots::Several(Vec::new())),
            "up-down: `root` is an empty list; name at least one switch, or leave it out"
        );
        let chain = wire(5, &[(0, 1), (1, 2), (2, 3), (3, 4)], &[1; 5]);
        assert_eq!(
            message(&chain, Roots::Several(vec!["S0".to_owned(), "S4".to_owned()])),
            "no legal path leads from switch S3 to switch S0; choose other roots, or a single one"
        );
    }
}
