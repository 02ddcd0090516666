//! Leaf switches with hosts, and spine switches; every leaf is connected to every spine.
//!
//! ```text
//!   spines     L2.1   L2.2   L2.3      each leaf has `parallel` links
//!               | \  / | \  / |        to each spine
//!               |  \/  |  \/  |
//!   leaves     L1.1 ... L1.2 ...
//!              /|\      /|\            `hosts_per_leaf` each
//!             H H H    H H H
//! ```
//!
//! The tree is PGFT(2; hosts_per_leaf,leaves; 1,spines; 1,parallel); nodes and ports are numbered as in
//! [`super::pgft`]. [`FatTree648`] is the fabric of Paper IV (Sun Datacenter InfiniBand Switch 648). That
//! paper calls it three-stage, because a packet passes up to three crossbars.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Rate, Time};

use super::parameters::{default_link_delay, default_link_rate, within};
use super::pgft::{Labels, LevelLinks, Pgft};
use super::{MAX_FCFS_PORTS, Topology, TopologyError};

const KIND: &str = "two-level-fat-tree";

/// Leaves and spines; see the [module](self) for a drawing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TwoLevelFatTree {
    /// Number of leaf switches, 1 to 1024; fewer with `parallel`, because a switch has at most 1024 ports.
    /// Switches with more than 256 ports need `switch.arbitration = "fcfs"`.
    #[schemars(range(min = 1, max = 1024))]
    pub leaves: u32,
    /// Number of spine switches, 1 to 1023; limited by the ports of a leaf switch together with `hosts_per_leaf`.
    #[schemars(range(min = 1, max = 1023))]
    pub spines: u32,
    /// Hosts per leaf switch, 1 to 1023.
    #[schemars(range(min = 1, max = 1023))]
    pub hosts_per_leaf: u32,
    /// Parallel links between a leaf and each spine, 1 to 1023. Default: 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1023))]
    pub parallel: u32,
    /// Data rate of every link.
    #[serde(default = "default_link_rate")]
    pub link_rate: Rate,
    /// Propagation delay of every link.
    #[serde(default = "default_link_delay")]
    pub link_delay: Time,
    /// Data rate of the links between leaves and spines. Default: `link_rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink_rate: Option<Rate>,
    /// Propagation delay of the links between leaves and spines. Default: `link_delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink_delay: Option<Time>,
}

fn one() -> u32 {
    1
}

impl TwoLevelFatTree {
    /// A tree with single links of default rate and delay.
    #[must_use]
    pub fn new(leaves: u32, spines: u32, hosts_per_leaf: u32) -> Self {
        Self {
            leaves,
            spines,
            hosts_per_leaf,
            parallel: 1,
            link_rate: default_link_rate(),
            link_delay: default_link_delay(),
            uplink_rate: None,
            uplink_delay: None,
        }
    }

    /// Builds the network.
    ///
    /// # Errors
    /// If a parameter is out of range, or the tree exceeds the limits.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let name = format!(
            "two-level fat tree, {} leaves of {} hosts, {} spines",
            self.leaves, self.hosts_per_leaf, self.spines
        );
        self.build_named(&name)
    }

    fn build_named(&self, name: &str) -> Result<Topology, TopologyError> {
        let check = |name, value, most| within(KIND, name, value, 1, most);
        let leaves = check("leaves", self.leaves, MAX_FCFS_PORTS)?;
        let spines = check("spines", self.spines, MAX_FCFS_PORTS - 1)?;
        let hosts = check("hosts_per_leaf", self.hosts_per_leaf, MAX_FCFS_PORTS - 1)?;
        let parallel = check("parallel", self.parallel, MAX_FCFS_PORTS - 1)?;
        self.check_ports()?;
        let shape = Pgft { m: vec![hosts, leaves], w: vec![1, spines], p: vec![1, parallel] };
        let parameters = format!(
            "`leaves` = {leaves}, `spines` = {spines}, `hosts_per_leaf` = {hosts}, `parallel` = {parallel}"
        );
        let own = LevelLinks { rate: ("link_rate", self.link_rate), delay: ("link_delay", self.link_delay) };
        let up = own.or_else(("uplink_rate", self.uplink_rate), ("uplink_delay", self.uplink_delay));
        shape.wire_levels(
            Labels { kind: KIND, parameters: &parameters, name, most_ports: MAX_FCFS_PORTS },
            &[own, up],
        )
    }

    /// Rejects switches with too many ports and names the parameters that cause them.
    fn check_ports(&self) -> Result<(), TopologyError> {
        let Self { leaves, spines, hosts_per_leaf: hosts, parallel, .. } = self;
        let leaf = format!("`spines` = {spines} with `hosts_per_leaf` = {hosts}, `parallel` = {parallel}");
        let spine = format!("`leaves` = {leaves} with `parallel` = {parallel}");
        let sizes = [("leaf", hosts + spines * parallel, leaf), ("spine", leaves * parallel, spine)];
        match sizes.into_iter().find(|(_, ports, _)| *ports > u32::from(MAX_FCFS_PORTS)) {
            None => Ok(()),
            Some((which, ports, by)) => Err(TopologyError(format!(
                "{KIND}: {by} makes {which} switches of {ports} ports; at most {MAX_FCFS_PORTS} are possible"
            ))),
        }
    }
}

/// The 648-port fabric of Paper IV: 36 leaf switches with 18 hosts each below 18 spines, 54 crossbars of 36 ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FatTree648 {
    /// Data rate of every link.
    pub link_rate: Rate,
    /// Propagation delay of every link.
    pub link_delay: Time,
}

impl Default for FatTree648 {
    fn default() -> Self {
        Self { link_rate: default_link_rate(), link_delay: default_link_delay() }
    }
}

impl FatTree648 {
    /// Builds the network.
    ///
    /// # Errors
    /// If a rate or delay is out of range.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let tree = TwoLevelFatTree {
            link_rate: self.link_rate,
            link_delay: self.link_delay,
            ..TwoLevelFatTree::new(36, 18, 18)
        };
        tree.build_named("648-port fat tree")
            .map_err(|e| TopologyError(e.to_string().replacen(KIND, "fat-tree-648", 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_648_fabric_consists_of_36_port_crossbars() {
        let built = FatTree648::default().build().unwrap();
        built.validate().unwrap();
        assert_eq!((built.hosts.len(), built.switches.len(), built.links.len()), (648, 54, 1296));
        assert!(built.switches.iter().all(|s| s.ports == 36));
    }

    #[test]
    fn parallel_links_are_connected() {
        let spec = TwoLevelFatTree { parallel: 3, ..TwoLevelFatTree::new(4, 2, 6) };
        let built = spec.build().unwrap();
        built.validate().unwrap();
        assert_eq!((built.hosts.len(), built.switches.len(), built.links.len()), (24, 6, 24 + 24));
    }

    #[test]
    fn invalid_parameters_are_reported() {
        let message =
            |spec: TwoLevelFatTree| spec.build().map_err(|e| e.to_string()).err().unwrap_or_default();
        assert_eq!(
            message(TwoLevelFatTree::new(0, 2, 3)),
            "two-level-fat-tree: `leaves` = 0 is out of range; it must be 1 to 1024"
        );
        assert_eq!(
            message(TwoLevelFatTree { parallel: 0, ..TwoLevelFatTree::new(2, 2, 3) }),
            "two-level-fat-tree: `parallel` = 0 is out of range; it must be 1 to 1023"
        );
        assert_eq!(
            message(TwoLevelFatTree::new(2, 1024, 2)),
            "two-level-fat-tree: `spines` = 1024 is out of range; it must be 1 to 1023"
        );
        assert_eq!(
            message(TwoLevelFatTree::new(2, 900, 125)),
            "two-level-fat-tree: `spines` = 900 with `hosts_per_leaf` = 125, `parallel` = 1 makes leaf switches of \
             1025 ports; at most 1024 are possible"
        );
        assert_eq!(
            message(TwoLevelFatTree { parallel: 2, ..TwoLevelFatTree::new(513, 2, 2) }),
            "two-level-fat-tree: `leaves` = 513 with `parallel` = 2 makes spine switches of 1026 ports; at most 1024 \
             are possible"
        );
        assert_eq!(message(TwoLevelFatTree::new(512, 256, 256)), "", "a plane of 131,072 hosts");
        assert_eq!(
            message(TwoLevelFatTree::new(256, 2, 0)),
            "two-level-fat-tree: `hosts_per_leaf` = 0 is out of range; it must be 1 to 1023"
        );
        let dead = FatTree648 { link_rate: Rate(0), ..FatTree648::default() };
        assert_eq!(
            dead.build().map_err(|e| e.to_string()).err().unwrap_or_default(),
            "fat-tree-648: `link_rate` = 0 bit/s carries no data; it must be more than 0, for example \
             \"16 Gbit/s\""
        );
    }
}
