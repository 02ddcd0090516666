//! Ranks of switches for up*/down* routing if the user names no root.
//!
//! | rule | ranks |
//! | --- | --- |
//! | layering | the layers of a tree: switches with hosts at the bottom, every link between adjacent layers |
//! | even distances | distance from the switches with the most hosts at one distance, similar to OpenSM |
//! | center | distance from the switch with the smallest distance to its farthest host |
//!
//! A network of several layers may have a few hosts at upper switches, such as management nodes or the
//! aggregation nodes inside switches. Therefore, the bottom layer is also tried without the switches that
//! have the fewest hosts. With several roots, there may be no legal path between two hosts at upper switches.
//! With a single root, there is always a legal path.

use std::collections::BTreeSet;

use super::RoutingError;
use super::graph::{FAR, Graph};

/// Maximum number of steps of the search for a root: switches times the sum of switches and edges.
const MAX_SEARCH: u64 = 4_000_000_000;

/// The distances of hosts from a switch.
struct HostDistances {
    /// Distance of the farthest host.
    farthest: u32,
    /// Sum of the distances of all hosts.
    total: u64,
    /// Largest number of hosts with the same distance.
    alike: u64,
}

/// Ranks to try, in order of preference; rank 0 is the highest.
///
/// # Errors
/// If the network is too large.
pub(super) fn candidates(graph: &Graph) -> Result<Vec<Vec<u32>>, RoutingError> {
    let mut found = layerings(graph);
    let distances = distances(graph)?;
    let from = |roots: &[usize]| graph.hops(roots, |_, _| true);
    let alike = distances.iter().map(|of| of.alike).max().unwrap_or(0);
    let even: Vec<usize> = (0..graph.len()).filter(|&s| distances[s].alike == alike).collect();
    found.push(from(&even));
    let nearest = |switches: &[usize]| {
        switches.iter().copied().min_by_key(|&s| (distances[s].farthest, distances[s].total))
    };
    let most = graph.homes().map(|home| graph.hosts_at(home)).max().unwrap_or(0);
    let bottom: Vec<usize> = graph.homes().filter(|&home| graph.hosts_at(home) * 2 > most).collect();
    let all: Vec<usize> = (0..graph.len()).collect();
    found.extend(
        [nearest(&bottom), center_of(&distances), nearest(&all)].iter().flatten().map(|&s| from(&[s])),
    );
    let mut seen = BTreeSet::new();
    found.retain(|ranks| seen.insert(ranks.clone()));
    Ok(found)
}

/// The switch with the smallest distance to its farthest host, or the first of several.
///
/// # Errors
/// If the network is too large.
pub(super) fn center(graph: &Graph) -> Result<Vec<usize>, RoutingError> {
    Ok(center_of(&distances(graph)?).into_iter().collect())
}

fn center_of(distances: &[HostDistances]) -> Option<usize> {
    (0..distances.len()).min_by_key(|&s| distances[s].farthest)
}

fn distances(graph: &Graph) -> Result<Vec<HostDistances>, RoutingError> {
    if graph.len() as u64 * (graph.len() + graph.edge_count()) as u64 > MAX_SEARCH {
        return Err(RoutingError::Unsuitable(format!(
            "up-down: a network of {} switches is too large to search for a root; name a switch as `root`",
            graph.len()
        )));
    }
    let of = |root: usize| {
        let hops = graph.hops(&[root], |_, _| true);
        let mut hosts = Vec::new();
        let (mut farthest, mut total) = (0, 0);
        for home in graph.homes() {
            let (hop, count) = (hops[home], u64::from(graph.hosts_at(home)));
            farthest = farthest.max(hop);
            if hop != FAR {
                let at = hop as usize;
                hosts.resize(hosts.len().max(at + 1), 0);
                hosts[at] += count;
                total += u64::from(hop) * count;
            }
        }
        HostDistances { farthest, total, alike: hosts.into_iter().max().unwrap_or(0) }
    };
    Ok((0..graph.len()).map(of).collect())
}

/// The layerings of the network. The bottom layer consists of the switches with at least a given number of
/// hosts.
fn layerings(graph: &Graph) -> Vec<Vec<u32>> {
    let counts: BTreeSet<u32> = graph.homes().map(|home| graph.hosts_at(home)).collect();
    counts.into_iter().filter_map(|least| layering(graph, least)).collect()
}

/// Ranks by layer if every link joins adjacent layers, where the bottom layer consists of the switches with at least
/// `least` hosts. `None` if there are other links or only one layer.
fn layering(graph: &Graph, least: u32) -> Option<Vec<u32>> {
    let bottom: Vec<usize> = graph.homes().filter(|&home| graph.hosts_at(home) >= least).collect();
    let layers = graph.hops(&bottom, |_, _| true);
    let top = layers.iter().copied().filter(|&layer| layer != FAR).max()?;
    let mut links =
        (0..graph.len()).flat_map(|s| graph.edges(s).iter().map(move |edge| (s, edge.to as usize)));
    let is_layered = links.all(|(s, to)| layers[s].abs_diff(layers[to]) == 1);
    (is_layered && top > 0).then(|| layers.into_iter().map(|layer| top.saturating_sub(layer)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::custom::{Custom, CustomLink, CustomSwitch};
    use crate::topology::parameters::{default_link_delay, default_link_rate};

    /// A graph with a number of hosts per switch, and with links between switches.
    fn graph(hosts: &[u32], links: &[(usize, usize)]) -> Graph {
        let link =
            |from: String, to: String| CustomLink { from, to, rate: None, delay: None, one_way: false };
        let mut names = Vec::new();
        let mut all: Vec<CustomLink> =
            links.iter().map(|&(a, b)| link(format!("S{a}"), format!("S{b}"))).collect();
        for (s, &count) in hosts.iter().enumerate() {
            for _ in 0..count {
                let name = format!("H{}", names.len());
                all.push(link(name.clone(), format!("S{s}")));
                names.push(name);
            }
        }
        let switches =
            (0..hosts.len()).map(|s| CustomSwitch { name: format!("S{s}"), ports: None }).collect();
        let spec = Custom {
            hosts: names,
            switches,
            links: all,
            link_rate: default_link_rate(),
            link_delay: default_link_delay(),
        };
        Graph::new(&spec.build().unwrap())
    }

    #[test]
    fn trees_are_ranked_by_layer() {
        let links: Vec<(usize, usize)> = (0..3).flat_map(|leaf| [(leaf, 3), (leaf, 4)]).collect();
        assert_eq!(layering(&graph(&[2, 2, 2, 0, 0], &links), 1), Some(vec![1, 1, 1, 0, 0]));
        // A leaf without hosts is a separate layer, and the spines keep a common rank.
        assert_eq!(layering(&graph(&[2, 2, 0, 0, 0], &links), 1), Some(vec![2, 2, 0, 1, 1]));
        let uneven = graph(&[2, 2, 2, 1, 0], &links);
        assert_eq!(layering(&uneven, 1), None, "the host at a spine makes it part of the bottom layer");
        assert_eq!(layering(&uneven, 2), Some(vec![1, 1, 1, 0, 0]));
    }

    #[test]
    fn rings_have_no_layers() {
        let links = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)];
        assert_eq!(layerings(&graph(&[1; 5], &links)), Vec::<Vec<u32>>::new());
    }

    #[test]
    fn the_switch_with_even_distances_is_a_root() {
        // A chain: S2 has four of six hosts at the same distance.
        let chain = graph(&[0, 2, 0, 2, 2], &[(0, 1), (1, 2), (2, 3), (3, 4)]);
        let ranks = candidates(&chain).unwrap();
        assert!(ranks.contains(&vec![2, 1, 0, 1, 2]), "{ranks:?}");
        assert_eq!(center(&chain), Ok(vec![2]));
    }
}
