//! The full three-level fat tree of switches with radix r: r^3/4 hosts below 5 r^2/4 switches. With 36
//! ports: 11,664 hosts, 1620 switches.
//!
//! ```text
//!   level 3    L3.1   L3.2   L3.3   L3.4       (r/2)^2 core switches, r ports down
//!              each to one level-2 switch of every pod
//!   level 2    L2.1  L2.2 | L2.3  L2.4 | ...   r/2 per pod, r/2 ports down and up
//!                |  \/  |
//!                |  /\  |
//!   level 1    L1.1  L1.2 | L1.3  L1.4 | ...   r/2 per pod, r/2 hosts each
//!              / \   / \        (r = 4: 4 pods, 16 hosts)
//! ```
//!
//! The tree is PGFT(3; r/2,r/2,r; 1,r/2,r/2; 1,1,1); nodes and ports are numbered as in [`super::pgft`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Rate, Time};

use super::parameters::{default_link_delay, default_link_rate};
use super::pgft::{Labels, LevelLinks, Pgft};
use super::{MAX_FCFS_PORTS, Topology, TopologyError};

const KIND: &str = "three-level-fat-tree";

/// The largest even radix with which the number of hosts is within the limit.
const MAX_RADIX: u32 = 92;

/// A full three-level fat tree of switches with equal radix; see the [module](self) for a drawing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThreeLevelFatTree {
    /// Ports of every switch, an even number from 4 to 92.
    #[schemars(range(min = 4, max = 92), extend("multipleOf" = 2))]
    pub radix: u32,
    /// Data rate of every link.
    #[serde(default = "default_link_rate")]
    pub link_rate: Rate,
    /// Propagation delay of every link.
    #[serde(default = "default_link_delay")]
    pub link_delay: Time,
    /// Data rate of the links above the leaf switches. Default: `link_rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink_rate: Option<Rate>,
    /// Propagation delay of the links above the leaf switches. Default: `link_delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink_delay: Option<Time>,
    /// Data rate of the links between the second and third levels of switches. Default: `uplink_rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_rate: Option<Rate>,
    /// Propagation delay of the links between the second and third levels of switches. Default:
    /// `uplink_delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_delay: Option<Time>,
}

impl ThreeLevelFatTree {
    /// A tree with the default link.
    #[must_use]
    pub fn new(radix: u32) -> Self {
        Self {
            radix,
            link_rate: default_link_rate(),
            link_delay: default_link_delay(),
            uplink_rate: None,
            uplink_delay: None,
            core_rate: None,
            core_delay: None,
        }
    }

    /// Builds the network.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let radix = self.radix;
        if !(4..=MAX_RADIX).contains(&radix) || !radix.is_multiple_of(2) {
            return Err(TopologyError(format!(
                "{KIND}: `radix` = {radix} makes no full tree; it must be an even number from 4 to {MAX_RADIX}"
            )));
        }
        let (half, full) = ((radix / 2) as u16, radix as u16);
        let shape = Pgft { m: vec![half, half, full], w: vec![1, half, half], p: vec![1; 3] };
        let name = format!("three-level fat tree of {radix}-port switches");
        let parameters = format!("`radix` = {radix}");
        let own = LevelLinks { rate: ("link_rate", self.link_rate), delay: ("link_delay", self.link_delay) };
        let up = own.or_else(("uplink_rate", self.uplink_rate), ("uplink_delay", self.uplink_delay));
        let core = up.or_else(("core_rate", self.core_rate), ("core_delay", self.core_delay));
        shape.wire_levels(
            Labels { kind: KIND, parameters: &parameters, name: &name, most_ports: MAX_FCFS_PORTS },
            &[own, up, core],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_of_every_switch_is_used() {
        for (radix, hosts, switches) in [(4, 16, 20), (36, 11_664, 1620)] {
            let built = ThreeLevelFatTree::new(radix).build().unwrap();
            built.validate().unwrap();
            assert_eq!((built.hosts.len(), built.switches.len()), (hosts, switches));
            assert!(built.switches.iter().all(|s| u32::from(s.ports) == radix));
            assert!(built.wiring().switches.iter().flatten().all(Option::is_some));
        }
    }

    #[test]
    fn invalid_parameters_are_reported() {
        for radix in [0, 2, 7, 94] {
            assert_eq!(
                ThreeLevelFatTree::new(radix).build().map_err(|e| e.to_string()).err(),
                Some(format!(
                    "three-level-fat-tree: `radix` = {radix} makes no full tree; it must be an even number from 4 \
                     to 92"
                ))
            );
        }
        assert!(ThreeLevelFatTree::new(92).build().is_ok());
    }
}
