//! Up*/down* routing on any graph with bidirectional links. It is deadlock-free with one virtual lane.
//!
//! Switches are ranked by their distance from the roots or by their layer ([`ranks`]), and switches of equal
//! rank by their number. A hop to a switch with a better rank goes up, any other hop goes down. A path first
//! goes up, then down, and never up again, so there is no dependency cycle.
//!
//! The tables depend only on the destination, not on whether a packet has already gone down. Therefore, if
//! a switch has a path that only goes down, it uses the shortest such path, even if a shorter path starts
//! upwards. Every other switch sends up, on the shortest path to a switch with a downward path. A packet
//! that goes down thus never meets an entry that goes up.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::LoadSummary;
use super::graph::{Balancer, Edge, FAR, Graph};
use super::{RoutingError, Tables, analyze, fill, ranks, spread};
use crate::topology::{Shape, Topology};

/// The search ends when the [`score`] of tables is at most this percentage of [`spread::even_maximum`], the flows on the
/// most loaded link if flows are divided evenly over all shortest paths.
const EVEN_ENOUGH: u64 = 110;

/// Up*/down* routing. Among equally good ports, each destination is assigned to the port with the fewest
/// destinations so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpDown {
    /// The switch at the top, or several switches. Default: on a fat tree, all its top switches; on a
    /// dumbbell, star, custom or imported network, the top of its layers, the switches with the most even
    /// distances to hosts, or a single switch, whichever balances all-to-all traffic best; on any other
    /// network, the switch with the smallest distance to its farthest host (the first of several).
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
    /// [`RoutingError::Unsuitable`] if a root does not exist, if the list of roots is empty, if several roots
    /// leave a pair of hosts without a legal path, if links are unidirectional, or if the network is too
    /// large to search for roots.
    pub(super) fn compute(&self, topology: &Topology) -> Result<Tables, RoutingError> {
        if topology.has_one_way_links() {
            return Err(RoutingError::Unsuitable(format!(
                "up-down: {} has unidirectional links, but up*/down* needs both directions; use destination-tag on a \
                 k-ary n-fly, or shortest-path",
                topology.name
            )));
        }
        let graph = Graph::new(topology);
        match &self.root {
            Some(roots) => {
                let roots = named_roots(topology, roots)?;
                by_ranks(topology, &graph, &graph.hops(&roots, |_, _| true))
            }
            None if topology.shape == Shape::Arbitrary => search(topology, &graph),
            None => {
                let roots = default_roots(topology, &graph)?;
                by_ranks(topology, &graph, &graph.hops(&roots, |_, _| true))
            }
        }
    }
}

/// The ranks of the switches, and the routes that they permit.
struct RankOrder<'a> {
    graph: &'a Graph,
    levels: &'a [u32],
    by_rank: Vec<usize>,
}

/// The routes that up*/down* permits towards a home switch.
struct Towards<'a> {
    order: &'a RankOrder<'a>,
    /// Distance over a path that only goes down; [`FAR`] if there is none.
    down: Vec<u32>,
    /// Distance over the permitted path.
    cost: Vec<u32>,
}

impl<'a> RankOrder<'a> {
    fn new(graph: &'a Graph, levels: &'a [u32]) -> Self {
        let mut by_rank: Vec<usize> = (0..graph.len()).collect();
        by_rank.sort_by_key(|&s| (levels[s], s));
        Self { graph, levels, by_rank }
    }

    fn is_up(&self, from: usize, to: usize) -> bool {
        (self.levels[to], to) < (self.levels[from], from)
    }

    fn towards(&'a self, home: usize) -> Towards<'a> {
        // The search runs backwards from the home switch, so packets go from `to` to `from`.
        let down = self.graph.hops(&[home], |from, to| self.is_up(from, to));
        let mut cost = down.clone();
        for &switch in self.by_rank.iter().filter(|&&s| down[s] == FAR) {
            let edges = self.graph.edges(switch).iter();
            let above = edges.map(|edge| edge.to as usize).filter(|&to| self.is_up(switch, to));
            cost[switch] = above.map(|to| cost[to]).min().map_or(FAR, |least| least.saturating_add(1));
        }
        Towards { order: self, down, cost }
    }
}

impl Towards<'_> {
    /// Whether an edge of a switch starts a permitted path.
    fn permits(&self, switch: usize, edge: Edge) -> bool {
        let (Self { order, down, cost }, to) = (self, edge.to as usize);
        if down[switch] == FAR {
            order.is_up(switch, to) && cost[to] != FAR && cost[to] + 1 == cost[switch]
        } else {
            order.is_up(to, switch) && down[to] != FAR && down[to] + 1 == down[switch]
        }
    }
}

/// Tables for given ranks of the switches.
fn by_ranks(topology: &Topology, graph: &Graph, levels: &[u32]) -> Result<Tables, RoutingError> {
    let order = RankOrder::new(graph, levels);
    let mut balancer = Balancer::new(topology, graph);
    for home in graph.homes() {
        let towards = order.towards(home);
        balancer.route(home, &towards.cost, |switch, edge| towards.permits(switch, edge))?;
    }
    Ok(balancer.finish())
}

/// The number of flows on the most loaded link between switches, times the number of all such links, divided by the
/// number of links with flows. The factor is a penalty for unused links.
fn score(loads: &LoadSummary) -> f64 {
    let idle = loads.histogram.get(&0).copied().unwrap_or(0);
    let used = loads.channels.saturating_sub(idle).max(1);
    loads.max as f64 * loads.channels as f64 / used as f64
}

/// The tables with the lowest [`score`] among the candidate ranks that give all pairs of hosts a path. The
/// search ends at a score of at most [`EVEN_ENOUGH`] percent of an even division. Destinations are then moved
/// to links without flows.
fn search(topology: &Topology, graph: &Graph) -> Result<Tables, RoutingError> {
    let even = spread::even_maximum(graph);
    let mut best: Option<(f64, Vec<u32>, Tables)> = None;
    let mut failure = None;
    for ranks in ranks::candidates(graph)? {
        match by_ranks(topology, graph, &ranks) {
            Err(error) => failure = Some(error),
            Ok(tables) => {
                let score = score(&analyze(topology, &tables).between_switches);
                if best.as_ref().is_none_or(|&(least, ..)| score < least) {
                    best = Some((score, ranks, tables));
                }
                if score * 100.0 <= even * EVEN_ENOUGH as f64 {
                    break;
                }
            }
        }
    }
    match (best, failure) {
        (Some((_, ranks, tables)), _) => {
            let order = RankOrder::new(graph, &ranks);
            Ok(fill::fill(graph, tables, |home| {
                let towards = order.towards(home);
                let permitted = |switch: usize| {
                    let edges = graph.edges(switch).iter().copied();
                    edges.filter(|&edge| switch != home && towards.permits(switch, edge)).collect()
                };
                (0..graph.len()).map(permitted).collect()
            }))
        }
        (None, Some(error)) => Err(error),
        (None, None) => by_ranks(topology, graph, &vec![0; graph.len()]),
    }
}

fn named_roots(topology: &Topology, roots: &Roots) -> Result<Vec<usize>, RoutingError> {
    let names = match roots {
        Roots::One(name) => std::slice::from_ref(name),
        Roots::Several(names) => names.as_slice(),
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

fn default_roots(topology: &Topology, graph: &Graph) -> Result<Vec<usize>, RoutingError> {
    if let Shape::FatTree(tree) | Shape::ShuffledFatTree(tree) = &topology.shape
        && tree.switches() == graph.len() as u64
    {
        return Ok((tree.first_switch(tree.levels()) as usize..graph.len()).collect());
    }
    ranks::center(graph)
}

#[cfg(test)]
mod tests {
    use super::super::{RoutingSpec, Spread, analyze, deadlock_cycle};
    use super::*;
    use crate::topology::dumbbell::Dumbbell;
    use crate::topology::k_ary_n_tree::KAryNTree;
    use crate::topology::parameters::{
        default_link_delay, default_link_rate, host, host_end, switch, switch_end,
    };
    use crate::topology::two_level::{FatTree648, TwoLevelFatTree};
    use crate::topology::{Link, NodeRef, Shape};
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
        Topology {
            name: "random".to_owned(),
            hosts,
            switches,
            links,
            units: 0,
            machines: Vec::new(),
            shape: Shape::Arbitrary,
        }
    }

    /// Routes from the center of the network.
    fn by_center(topology: &Topology) -> Tables {
        let graph = Graph::new(topology);
        let center = ranks::center(&graph).unwrap();
        by_ranks(topology, &graph, &graph.hops(&center, |_, _| true)).unwrap()
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
        fn default_roots_route_any_graph_without_deadlock(topology in random_graph()) {
            let tables = RoutingSpec::UpDown(UpDown::default()).compute(&topology).unwrap();
            prop_assert_eq!(tables.validate(&topology), Ok(()));
            let analysis = analyze(&topology, &tables);
            prop_assert_eq!(analysis.unroutable, 0);
            prop_assert_eq!(deadlock_cycle(&topology, &tables), None);
            let first = score(&analyze(&topology, &by_center(&topology)).between_switches);
            let even = spread::even_maximum(&Graph::new(&topology));
            prop_assert!(score(&analysis.between_switches) <= first.max(1.1 * even));
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
    }

    #[test]
    fn trees_of_unknown_shape_are_balanced_from_all_their_spines() {
        for (tree, least, most) in [
            (TwoLevelFatTree::new(6, 4, 4).build().unwrap(), 20, 20),
            (KAryNTree::new(4, 3).build().unwrap(), 48, 60),
            (FatTree648::default().build().unwrap(), 630, 630),
        ] {
            let anonymous = Topology { shape: Shape::Arbitrary, ..tree };
            let tables = RoutingSpec::UpDown(UpDown::default()).compute(&anonymous).unwrap();
            let analysis = analyze(&anonymous, &tables);
            let loads = &analysis.between_switches;
            assert_eq!((loads.min, loads.max), (least, most), "{}", anonymous.name);
            assert_eq!(Spread::of(&anonymous, &tables, &analysis).findings(), Vec::<String>::new());
        }
    }

    /// A spine that lost its link to a leaf has no route to the leaf's hosts. This is valid, because no
    /// packet starts at a spine.
    #[test]
    fn trees_that_lost_links_use_all_others() {
        let tree = FatTree648::default().build().unwrap();
        let is_between =
            |link: &Link| matches!((link.a.node, link.b.node), (NodeRef::Switch(_), NodeRef::Switch(_)));
        let between: Vec<usize> = (0..tree.links.len()).filter(|&at| is_between(&tree.links[at])).collect();
        for (lost, most) in [(vec![0], 1_260), (vec![0, 1, 2], 1_260), (vec![0, 19, 38, 57], 1_260)] {
            let mut broken = tree.clone();
            let lost: Vec<usize> = lost.iter().map(|&at| between[at]).collect();
            let mut at = 0..;
            broken.links.retain(|_| !lost.contains(&at.next().unwrap()));
            for shape in [tree.shape.clone(), Shape::Arbitrary] {
                let broken = Topology { shape, ..broken.clone() };
                let tables = RoutingSpec::UpDown(UpDown::default()).compute(&broken).unwrap();
                let analysis = analyze(&broken, &tables);
                assert_eq!(analysis.unroutable, 0);
                assert_eq!(deadlock_cycle(&broken, &tables), None);
                let loads = &analysis.between_switches;
                // Eighteen hosts share seventeen links or fewer.
                assert!(loads.min > 0 && loads.max <= most, "{loads:?}");
                assert_eq!(Spread::of(&broken, &tables, &analysis).findings(), Vec::<String>::new());
            }
        }
    }

    #[test]
    fn one_root_leaves_links_unused() {
        let tree = FatTree648::default().build().unwrap();
        let root = Roots::One(tree.switches[36].name.clone());
        let tables = RoutingSpec::UpDown(UpDown { root: Some(root) }).compute(&tree).unwrap();
        let analysis = analyze(&tree, &tables);
        let spread = Spread::of(&tree, &tables, &analysis);
        assert_eq!((spread.links, spread.idle, spread.most, spread.even), (1296, 1224, 11_340, 630.0));
        let findings = spread.findings();
        assert!(findings[0].starts_with(
            "the routes leave 1,224 of 1,296 directed links between switches unused that shortest paths could use \
             without a deadlock, such as "
        ));
        assert!(findings[1].contains("carries 11,340 flows, 18.0 times as many"), "{findings:?}");
    }

    #[test]
    fn hosts_at_spines_do_not_hide_the_layers() {
        // Four leaves of three hosts, two spines of one host each: the spines reach each other only over a leaf.
        let pairs: Vec<(usize, usize)> = (0..4).flat_map(|leaf| [(leaf, 4), (leaf, 5)]).collect();
        let tree = wire(6, &pairs, &[3, 3, 3, 3, 1, 1]);
        let tables = RoutingSpec::UpDown(UpDown::default()).compute(&tree).unwrap();
        let analysis = analyze(&tree, &tables);
        assert_eq!(analysis.unroutable, 0);
        assert_eq!(deadlock_cycle(&tree, &tables), None);
        let spread = Spread::of(&tree, &tables, &analysis);
        assert_eq!(spread.findings(), Vec::<String>::new(), "{spread:?}");
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
