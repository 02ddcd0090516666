//! One switch with all hosts (Paper II, the single-switch setup with seven hosts).
//!
//! ```text
//!   H1   H2   H3
//!     \  |  /
//!       S1        host Hi on port i
//!     /  |  \
//!   H4  ...  Hn
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Rate, Time};

use super::parameters::{
    check_delay, check_rate, default_link_delay, default_link_rate, host_end, numbered_hosts, switch,
    switch_end, within,
};
use super::{Link, MAX_FCFS_PORTS, Shape, Topology, TopologyError};

const KIND: &str = "star";

/// One switch with all hosts; see the [module](self) for a drawing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Star {
    /// Number of hosts, 1 to 1,024; more than 256 need outputs that serve packets first come, first served.
    #[schemars(range(min = 1, max = 1024))]
    pub hosts: u32,
    /// Data rate of every link.
    pub link_rate: Rate,
    /// Propagation delay of every link.
    pub link_delay: Time,
}

impl Default for Star {
    fn default() -> Self {
        Self { hosts: 7, link_rate: default_link_rate(), link_delay: default_link_delay() }
    }
}

impl Star {
    /// Builds the network.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let hosts = within(KIND, "hosts", self.hosts, 1, MAX_FCFS_PORTS)?;
        check_rate(KIND, "link_rate", self.link_rate)?;
        check_delay(KIND, "link_delay", self.link_delay)?;
        Ok(Topology {
            name: format!("star of {hosts}"),
            hosts: numbered_hosts(u64::from(hosts)),
            switches: vec![switch("S1".to_owned(), hosts)],
            links: (1..=hosts)
                .map(|port| Link {
                    a: host_end(u32::from(port) - 1),
                    b: switch_end(0, port),
                    rate: self.link_rate,
                    delay: self.link_delay,
                    one_way: false,
                })
                .collect(),
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
    fn every_host_has_its_port() {
        let built = Star::default().build().unwrap();
        built.validate().unwrap();
        assert_eq!((built.hosts.len(), built.switches.len(), built.links.len()), (7, 1, 7));
        assert_eq!(built.wiring().switches[0][6].map(|(end, _)| end), Some(host_end(6)));
    }

    #[test]
    fn invalid_parameters_are_reported() {
        let message = |hosts| Star { hosts, ..Star::default() }.build().map_err(|e| e.to_string()).err();
        let wrong = |hosts| Some(format!("star: `hosts` = {hosts} is out of range; it must be 1 to 1024"));
        assert_eq!(message(0), wrong(0));
        assert_eq!(message(1025), wrong(1025));
        assert_eq!(message(1024), None);
    }
}
