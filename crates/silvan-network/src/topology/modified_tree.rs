//! Modified k-ary n-trees: k-ary n-trees with horizontal links, for adaptive routing per flow.
//!
//! A k-ary n-tree can be considered an ideal fat tree in which every large node, a *logical node*, consists
//! of small switches: the switches of one level that reach the same hosts downwards. In plain trees, the
//! switches of a logical node are not connected to each other, so only one route leads down from a switch to
//! each host below. In modified trees, the switches of a logical node form a row, and neighbors are connected
//! by `horizontal_width` parallel links.
//!
//! ```text
//!              .------- one logical node ---------.
//!   level 3    L3.1 === L3.2 === L3.3 === L3.4          2-ary 3-tree, width 2:
//!               |        |        |        |            "===" is two links
//!   level 2    L2.1 === L2.2     L2.3 === L2.4
//!               |        |        |        |            (not drawn: what crosses
//!   level 1    L1.1     L1.2     L1.3     L1.4          between the columns)
//!              |  |     |  |     |  |     |  |
//!              H1 H2    H3 H4    H5 H6    H7 H8
//! ```
//!
//! A row has two ends, because packets in a ring could wait for each other in a cycle. Switches of level
//! `l` form rows of k^(l-1); a leaf switch is a logical node by itself. With width 2, the 20480 switch
//! ports of the 16-ary 3-tree (32 per switch, 16 at the top) become 22460, an increase of 9.7 %.
//!
//! Nodes and ports are numbered as in [`super::pgft`]. The ports down and up are followed by those to the
//! left neighbor, and those to the right neighbor. Every port is connected. Routing algorithms for the
//! plain tree, such as D-mod-K, remain valid and do not use the horizontal links.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Rate, Time};

use super::parameters::{check_size, default_link_delay, default_link_rate, switch_end, within};
use super::pgft::{Labels, MAX_LEVELS, Pgft};
use super::{Link, MAX_FCFS_PORTS, Topology, TopologyError};

const KIND: &str = "modified-k-ary-n-tree";

fn default_width() -> u32 {
    2
}

/// A k-ary n-tree with horizontal links between the switches that reach the same hosts downwards;
/// see the [module](self) for a drawing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModifiedTree {
    /// Ports of a switch in each direction, down and up, 2 to 512.
    /// Switches with more than 256 ports need `switch.arbitration = "fcfs"`.
    #[schemars(range(min = 2, max = 512))]
    pub k: u32,
    /// Levels of switches, 1 to 16.
    #[schemars(range(min = 1, max = 16))]
    pub n: u32,
    /// Parallel links between neighboring switches that reach the same hosts downwards, 0 to 511. 0 gives the
    /// plain tree. Default: 2.
    #[serde(default = "default_width")]
    #[schemars(range(max = 511))]
    pub horizontal_width: u32,
    /// Data rate of every link.
    #[serde(default = "default_link_rate")]
    pub link_rate: Rate,
    /// Propagation delay of every link.
    #[serde(default = "default_link_delay")]
    pub link_delay: Time,
}

impl ModifiedTree {
    /// A tree with the default link.
    #[must_use]
    pub fn new(k: u32, n: u32, horizontal_width: u32) -> Self {
        let (link_rate, link_delay) = (default_link_rate(), default_link_delay());
        Self { k, n, horizontal_width, link_rate, link_delay }
    }

    /// Builds the network.
    ///
    /// # Errors
    /// If a parameter is out of range, or the tree exceeds the limits.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let k = within(KIND, "k", self.k, 2, MAX_FCFS_PORTS / 2)?;
        let levels = usize::from(within(KIND, "n", self.n, 1, MAX_LEVELS as u16)?);
        let width = within(KIND, "horizontal_width", self.horizontal_width, 0, MAX_FCFS_PORTS / 2 - 1)?;
        let mut w = vec![k; levels];
        w[0] = 1;
        let tree = Pgft { m: vec![k; levels], w, p: vec![1; levels] };
        let parameters = format!("`k` = {k}, `n` = {levels}, `horizontal_width` = {width}");
        let links = tree.links().saturating_add(horizontal_links(&tree, width));
        check_size(KIND, &parameters, [tree.hosts(), tree.switches(), links])?;
        let name = format!("{k}-ary {levels}-tree, horizontal width {width}");
        let labels = Labels { kind: KIND, parameters: &parameters, name: &name, most_ports: MAX_FCFS_PORTS };
        let mut topology = tree.clone().wire(labels, self.link_rate, self.link_delay)?;
        // Horizontal links have the same rate and delay as all others.
        let like = topology.links[0];
        add_rows(&mut topology, &tree, width, &like)?;
        Ok(topology)
    }
}

/// Number of pairs of neighbors in all rows, multiplied by the width.
fn horizontal_links(tree: &Pgft, width: u16) -> u64 {
    (1..=tree.levels()).fold(0, |sum: u64, level| {
        let (switches, row) = (tree.nodes_at(level), tree.siblings(level));
        sum.saturating_add((switches - switches / row).saturating_mul(u64::from(width)))
    })
}

/// Connects the switches of every row from left to right. Ports are added when they are connected, so ports
/// to the left come first.
fn add_rows(topology: &mut Topology, tree: &Pgft, width: u16, like: &Link) -> Result<(), TopologyError> {
    for level in 1..=tree.levels() {
        let (first, row) = (tree.first_switch(level), tree.siblings(level));
        for left in (0..tree.nodes_at(level)).filter(|at| at % row + 1 < row) {
            for _ in 0..width {
                let [a, b] = [left, left + 1].map(|at| {
                    let switch = &mut topology.switches[(first + at) as usize];
                    switch.ports += 1;
                    switch_end((first + at) as u32, switch.ports)
                });
                topology.links.push(Link { a, b, ..*like });
            }
        }
    }
    let most = topology.switches.iter().map(|switch| switch.ports).max().unwrap_or(0);
    if most > MAX_FCFS_PORTS {
        return Err(TopologyError(format!(
            "{KIND}: `k` = {}, `horizontal_width` = {width} make switches of {most} ports; at most \
             {MAX_FCFS_PORTS} are possible",
            tree.m[0]
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::k_ary_n_tree::KAryNTree;
    use super::*;
    use crate::routing::{RoutingSpec, analyze, deadlock_cycle};

    fn ports(topology: &Topology) -> usize {
        topology.switches.iter().map(|switch| usize::from(switch.ports)).sum()
    }

    #[test]
    fn the_tree_of_the_drawing_is_connected_as_documented() {
        let built = ModifiedTree::new(2, 3, 2).build().unwrap();
        built.validate().unwrap();
        let horizontal: Vec<String> = built.links[8 * 3..]
            .iter()
            .map(|l| format!("{} {}", built.port_name(l.a), built.port_name(l.b)))
            .collect();
        assert_eq!(
            horizontal,
            [
                "L2.1:5 L2.2:5",
                "L2.1:6 L2.2:6",
                "L2.3:5 L2.4:5",
                "L2.3:6 L2.4:6",
                "L3.1:3 L3.2:3",
                "L3.1:4 L3.2:4",
                "L3.2:5 L3.3:3",
                "L3.2:6 L3.3:4",
                "L3.3:5 L3.4:3",
                "L3.3:6 L3.4:4",
            ]
        );
    }

    /// Width 2 increases the number of ports of the 16-ary 3-tree by about 10 % (SYSTOR 2009, section 4.2).
    #[test]
    fn ports_add_up() {
        let plain = KAryNTree::new(16, 3).build().unwrap();
        assert_eq!(ports(&plain), 20_480);
        for width in 0..=4 {
            let built = ModifiedTree::new(16, 3, width).build().unwrap();
            built.validate().unwrap();
            assert_eq!(built.hosts.len(), 4096);
            // Level 2 has 16 rows of 16 switches, and level 3 has one row of 256. Each link adds two ports.
            let neighbors = 16 * 15 + 255;
            assert_eq!(ports(&built), 20_480 + 2 * neighbors * width as usize, "width {width}");
            let wired = built.wiring().switches.iter().flatten().filter(|peer| peer.is_some()).count();
            assert_eq!(wired, ports(&built), "every port is connected");
        }
    }

    #[test]
    fn width_0_is_the_plain_tree_and_its_routing_is_valid_for_all_widths() {
        let plain = KAryNTree::new(4, 3).build().unwrap();
        let tables = RoutingSpec::suitable(&plain).compute(&plain).unwrap();
        let none = ModifiedTree::new(4, 3, 0).build().unwrap();
        assert_eq!((&none.links, &none.switches), (&plain.links, &plain.switches));
        for width in 1..=3 {
            let built = ModifiedTree::new(4, 3, width).build().unwrap();
            assert_eq!(RoutingSpec::suitable(&built).compute(&built).unwrap(), tables);
            assert_eq!(analyze(&built, &tables).hops, analyze(&plain, &tables).hops);
            assert_eq!(deadlock_cycle(&built, &tables), None);
        }
    }

    #[test]
    fn invalid_parameters_are_reported() {
        let message = |k, n, width| {
            ModifiedTree::new(k, n, width).build().map_err(|e| e.to_string()).err().unwrap_or_default()
        };
        assert_eq!(
            message(4, 2, 512),
            "modified-k-ary-n-tree: `horizontal_width` = 512 is out of range; it must be 0 to 511"
        );
        assert_eq!(
            message(400, 2, 400),
            "modified-k-ary-n-tree: `k` = 400, `horizontal_width` = 400 make switches of 1200 ports; at most \
             1024 are possible"
        );
        assert_eq!(
            message(21, 4, 127),
            "modified-k-ary-n-tree: `k` = 21, `n` = 4, `horizontal_width` = 127 make more than 2000000 links, \
             which is the maximum; choose smaller values"
        );
    }
}
