//! Two switches connected by a trunk, with hosts on both sides: the testbed of Papers I to III and
//! configuration #1 of Paper V.
//!
//! ```text
//!   H1 --+                  +-- H4
//!   H2 --+-- S1 ====== S2 --+-- H5
//!   H3 --+     trunk        +-- H6
//!                           +-- H7
//! ```
//!
//! Hosts are numbered left to right and top to bottom. On both switches, the hosts use the first ports and
//! the trunk uses the next one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Rate, Time};

use super::parameters::{
    check_delay, check_rate, default_link_delay, default_link_rate, host_end, numbered_hosts, switch,
    switch_end, within,
};
use super::{Link, MAX_FCFS_PORTS, Shape, Topology, TopologyError};

const KIND: &str = "dumbbell";

/// Two switches connected by a trunk; see the [module](self) for a drawing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Dumbbell {
    /// Hosts on switch S1, 1 to 1023.
    /// Switches with more than 256 ports need `switch.arbitration = "fcfs"`.
    #[schemars(range(min = 1, max = 1023))]
    pub left: u32,
    /// Hosts on switch S2, 1 to 1023.
    #[schemars(range(min = 1, max = 1023))]
    pub right: u32,
    /// Data rate of every host link.
    pub link_rate: Rate,
    /// Propagation delay of every link, including the trunk.
    pub link_delay: Time,
    /// Data rate of the link between the switches. Default: twice `link_rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trunk_rate: Option<Rate>,
}

impl Default for Dumbbell {
    fn default() -> Self {
        Self {
            left: 3,
            right: 4,
            link_rate: default_link_rate(),
            link_delay: default_link_delay(),
            trunk_rate: None,
        }
    }
}

impl Dumbbell {
    /// Builds the network.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let left = within(KIND, "left", self.left, 1, MAX_FCFS_PORTS - 1)?;
        let right = within(KIND, "right", self.right, 1, MAX_FCFS_PORTS - 1)?;
        check_rate(KIND, "link_rate", self.link_rate)?;
        check_delay(KIND, "link_delay", self.link_delay)?;
        let trunk_rate = self.trunk_rate.unwrap_or(Rate(self.link_rate.0.saturating_mul(2)));
        check_rate(KIND, "trunk_rate", trunk_rate)?;

        let sides = (1..=left).map(|port| (0, port)).chain((1..=right).map(|port| (1, port)));
        let mut links: Vec<Link> = (0u32..)
            .zip(sides)
            .map(|(host, (switch, port))| Link {
                a: host_end(host),
                b: switch_end(switch, port),
                rate: self.link_rate,
                delay: self.link_delay,
                one_way: false,
            })
            .collect();
        links.push(Link {
            a: switch_end(0, left + 1),
            b: switch_end(1, right + 1),
            rate: trunk_rate,
            delay: self.link_delay,
            one_way: false,
        });
        Ok(Topology {
            name: format!("dumbbell {left} + {right}"),
            hosts: numbered_hosts(u64::from(left) + u64::from(right)),
            switches: vec![switch("S1".to_owned(), left + 1), switch("S2".to_owned(), right + 1)],
            links,
            units: 0,
            machines: Vec::new(),
            shape: Shape::Arbitrary,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_testbed_is_the_default() {
        let built = Dumbbell::default().build().unwrap();
        built.validate().unwrap();
        let wired: Vec<String> = built
            .links
            .iter()
            .map(|l| format!("{} {} {}", built.port_name(l.a), built.port_name(l.b), l.rate.as_gbit_f64()))
            .collect();
        assert_eq!(
            wired,
            [
                "H1:1 S1:1 16",
                "H2:1 S1:2 16",
                "H3:1 S1:3 16",
                "H4:1 S2:1 16",
                "H5:1 S2:2 16",
                "H6:1 S2:3 16",
                "H7:1 S2:4 16",
                "S1:4 S2:5 32",
            ]
        );
    }

    #[test]
    fn invalid_parameters_are_reported() {
        let message = |spec: Dumbbell| spec.build().map_err(|e| e.to_string()).err();
        assert_eq!(
            message(Dumbbell { left: 0, ..Dumbbell::default() }).as_deref(),
            Some("dumbbell: `left` = 0 is out of range; it must be 1 to 1023")
        );
        assert_eq!(
            message(Dumbbell { right: 70_000, ..Dumbbell::default() }).as_deref(),
            Some("dumbbell: `right` = 70000 is out of range; it must be 1 to 1023")
        );
        assert_eq!(
            message(Dumbbell { trunk_rate: Some(Rate(0)), ..Dumbbell::default() }).as_deref(),
            Some(
                "dumbbell: `trunk_rate` = 0 bit/s carries no data; it must be more than 0, for example \
                 \"16 Gbit/s\""
            )
        );
        assert_eq!(
            message(Dumbbell { link_delay: Time::ZERO, ..Dumbbell::default() }).as_deref(),
            Some(
                "dumbbell: `link_delay` = 0 ps is out of range; it must be more than 0 and at most 1 s, for \
                 example \"20 ns\""
            )
        );
    }
}
