//! k-ary n-trees: k^n hosts below n levels of k^(n-1) switches each. Switches have k ports down and k ports
//! up (none up at the top). Papers II, V and VI use these trees.
//!
//! ```text
//!   level 2   L2.1   L2.2      2-ary 2-tree: every level-1 switch
//!              |  \ /  |       is wired to every level-2 switch
//!              |  / \  |
//!   level 1   L1.1   L1.2
//!             /  \   /  \
//!            H1  H2 H3  H4
//! ```
//!
//! A k-ary n-tree is PGFT(n; k,..,k; 1,k,..,k; 1,..,1); nodes and ports are numbered as in [`super::pgft`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Rate, Time};

use super::parameters::{default_link_delay, default_link_rate, within};
use super::pgft::{Labels, MAX_LEVELS, Pgft};
use super::{MAX_FCFS_PORTS, Topology, TopologyError};

const KIND: &str = "k-ary-n-tree";

/// A k-ary n-tree; see the [module](self) for a drawing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KAryNTree {
    /// Ports of a switch in each direction, 2 to 512.
    /// Switches with more than 256 ports need `switch.arbitration = "fcfs"`.
    #[schemars(range(min = 2, max = 512))]
    pub k: u32,
    /// Levels of switches, 1 to 16.
    #[schemars(range(min = 1, max = 16))]
    pub n: u32,
    /// Data rate of every link.
    #[serde(default = "default_link_rate")]
    pub link_rate: Rate,
    /// Propagation delay of every link.
    #[serde(default = "default_link_delay")]
    pub link_delay: Time,
}

impl KAryNTree {
    /// A tree with the default link.
    #[must_use]
    pub fn new(k: u32, n: u32) -> Self {
        Self { k, n, link_rate: default_link_rate(), link_delay: default_link_delay() }
    }

    /// Builds the network.
    ///
    /// # Errors
    /// If a parameter is out of range, or the tree exceeds the limits.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let k = within(KIND, "k", self.k, 2, MAX_FCFS_PORTS / 2)?;
        let levels = usize::from(within(KIND, "n", self.n, 1, MAX_LEVELS as u16)?);
        let mut w = vec![k; levels];
        w[0] = 1;
        let shape = Pgft { m: vec![k; levels], w, p: vec![1; levels] };
        let name = format!("{}-ary {}-tree", self.k, self.n);
        let parameters = format!("`k` = {}, `n` = {}", self.k, self.n);
        shape.wire(
            Labels { kind: KIND, parameters: &parameters, name: &name, most_ports: MAX_FCFS_PORTS },
            self.link_rate,
            self.link_delay,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_papers() {
        for (k, n, hosts, switches) in [
            (2, 3, 8, 12),
            (4, 3, 64, 48),
            (4, 4, 256, 256),
            (4, 5, 1024, 1280),
            (16, 3, 4096, 768),
            (5, 1, 5, 1),
        ] {
            let built = KAryNTree::new(k, n).build().unwrap();
            built.validate().unwrap();
            assert_eq!((built.hosts.len(), built.switches.len()), (hosts, switches), "{}", built.name);
            assert_eq!(built.links.len(), hosts * n as usize);
        }
        assert_eq!(KAryNTree::new(4, 3).build().unwrap().name, "4-ary 3-tree");
    }

    #[test]
    fn invalid_parameters_are_reported() {
        let message =
            |k, n| KAryNTree::new(k, n).build().map_err(|e| e.to_string()).err().unwrap_or_default();
        assert_eq!(message(1, 3), "k-ary-n-tree: `k` = 1 is out of range; it must be 2 to 512");
        assert_eq!(message(4, 0), "k-ary-n-tree: `n` = 0 is out of range; it must be 1 to 16");
        assert_eq!(
            message(16, 5),
            "k-ary-n-tree: `k` = 16, `n` = 5 make more than 200000 hosts, which is the maximum; choose smaller values"
        );
        assert_eq!(
            message(2, 16),
            "k-ary-n-tree: `k` = 2, `n` = 16 make more than 100000 switches, which is the maximum; choose smaller \
             values"
        );
    }
}
