//! Dragonfly+ networks (Shpiner and others, `HiPINEB` 2017): groups of leaves, which have the hosts, and
//! spines, which have the global links. Every leaf is connected to every spine of its group.
//!
//! ```text
//!   to group   1   2    3   4
//!              |   |    |   |        p = 2, leaves = 2, spines = 2, h = 2:
//!             G0.2     G0.3          5 groups, 20 hosts; group 0 is drawn
//!              |   \  /   |
//!              |   /  \   |
//!             G0.0     G0.1
//!             |  |     |  |
//!            H1  H2   H3  H4
//! ```
//!
//! [`super::Groups`] describes the numbering of nodes and ports, [`super::Arrangement`] the destinations of
//! global links.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Rate, Time};

use super::groups::{Arrangement, Cables, Given, Inside};
use super::parameters::{default_link_delay, default_link_rate, within};
use super::{MAX_FCFS_PORTS, Topology, TopologyError};

const KIND: &str = "dragonfly-plus";

/// A dragonfly+; see the [module](self) for a drawing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DragonflyPlus {
    /// Hosts per leaf, 1 to 1024.
    /// Switches with more than 256 ports need `switch.arbitration = "fcfs"`.
    #[schemars(range(min = 1, max = 1024))]
    pub p: u32,
    /// Leaves per group, 1 to 1024.
    #[schemars(range(min = 1, max = 1024))]
    pub leaves: u32,
    /// Spines per group, 1 to 1024.
    #[schemars(range(min = 1, max = 1024))]
    pub spines: u32,
    /// Global links per spine, 1 to 1024.
    #[schemars(range(min = 1, max = 1024))]
    pub h: u32,
    /// Number of groups, 2 to spines * h + 1. Default: spines * h + 1.
    #[schemars(range(min = 2))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub g: Option<u32>,
    /// The group to which each global link leads.
    #[serde(default)]
    pub arrangement: Arrangement,
    /// Data rate of every link.
    #[serde(default = "default_link_rate")]
    pub link_rate: Rate,
    /// Propagation delay of every link, except those between groups if `global_delay` is given.
    #[serde(default = "default_link_delay")]
    pub link_delay: Time,
    /// Propagation delay of links between groups. Default: `link_delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_delay: Option<Time>,
}

impl DragonflyPlus {
    /// A dragonfly+ with all groups, the default arrangement and the default link.
    #[must_use]
    pub fn new(p: u32, leaves: u32, spines: u32, h: u32) -> Self {
        let (link_rate, link_delay) = (default_link_rate(), default_link_delay());
        let arrangement = Arrangement::Absolute;
        Self { p, leaves, spines, h, g: None, arrangement, link_rate, link_delay, global_delay: None }
    }

    /// Builds the network.
    ///
    /// # Errors
    /// If a parameter is out of range, or the network exceeds the limits.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let leaves = within(KIND, "leaves", self.leaves, 1, MAX_FCFS_PORTS)?;
        let spines = within(KIND, "spines", self.spines, 1, MAX_FCFS_PORTS)?;
        let Self { link_rate, link_delay, global_delay, arrangement, g, .. } = *self;
        let given = Given {
            kind: KIND,
            family: "dragonfly+",
            hosts: ("p", self.p),
            global: ("h", self.h),
            groups: g,
            arrangement,
            cables: Cables { link_rate, link_delay, global_delay },
        };
        given.build(Inside::LeavesAndSpines { leaves }, leaves + spines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::distances::Distances;

    #[test]
    fn sizes_and_distances_follow_closed_forms() {
        for arrangement in [Arrangement::Absolute, Arrangement::Relative] {
            for (p, leaves, spines, h) in [(1, 2, 2, 1), (2, 2, 2, 2), (3, 4, 4, 4), (1, 3, 1, 4)] {
                let spec = DragonflyPlus { arrangement, ..DragonflyPlus::new(p, leaves, spines, h) };
                let built = spec.build().unwrap();
                built.validate().unwrap();
                let g = spines * h + 1;
                let (hosts, switches) = (built.hosts.len() as u32, built.switches.len() as u32);
                assert_eq!((hosts, switches), (p * leaves * g, (leaves + spines) * g), "{}", built.name);
                let links = p * leaves * g + leaves * spines * g + g * (g - 1) / 2;
                assert_eq!(built.links.len() as u32, links);
                // Leaves of the same group are two links apart, and leaves of different groups three: up,
                // across, down.
                let is_leaf = |at: usize| (at % (leaves + spines) as usize) < leaves as usize;
                let found = Distances::between(&built, is_leaf);
                assert_eq!(found.diameter, 3);
                let (g, leaves) = (u64::from(g), u64::from(leaves));
                assert_eq!(found.sum, 2 * g * leaves * (leaves - 1) + 3 * g * (g - 1) * leaves * leaves);
            }
        }
    }

    #[test]
    fn invalid_parameters_are_reported() {
        let message = |spec: DragonflyPlus| spec.build().map_err(|e| e.to_string()).err().unwrap_or_default();
        assert_eq!(
            message(DragonflyPlus::new(2, 0, 2, 2)),
            "dragonfly-plus: `leaves` = 0 is out of range; it must be 1 to 1024"
        );
        assert_eq!(
            message(DragonflyPlus::new(2, 2, 0, 2)),
            "dragonfly-plus: `spines` = 0 is out of range; it must be 1 to 1024"
        );
        assert_eq!(
            message(DragonflyPlus::new(1000, 2, 60, 2)),
            "dragonfly-plus: `p` = 1000, `h` = 2 need switches of 1060 ports in groups of 62; at most 1024 are possible"
        );
        assert_eq!(
            message(DragonflyPlus { g: Some(6), ..DragonflyPlus::new(2, 2, 2, 2) }),
            "dragonfly-plus: `g` = 6 is out of range; it must be 2 to 5, as a group has 4 global ports and a link to \
             each other group"
        );
        assert_eq!(message(DragonflyPlus { g: Some(2), ..DragonflyPlus::new(300, 2, 2, 1) }), "");
        assert!(message(DragonflyPlus::new(1, 2, 1022, 1022)).contains("make more than"));
        assert!(message(DragonflyPlus::new(1, 2, 254, 254)).contains("make more than"));
    }
}
