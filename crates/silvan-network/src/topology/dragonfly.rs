//! Dragonflies (Kim, Dally, Scott and Abts, ISCA 2008): groups of `a` fully connected switches, with `p`
//! hosts and `h` global links per switch.
//!
//! ```text
//!   to group  1  2     3  4     5  6     7  8
//!             |  |     |  |     |  |     |  |        p = 2, a = 4, h = 2:
//!            G0.0 --- G0.1 --- G0.2 --- G0.3         9 groups of 4 switches, 72 hosts;
//!             |  \___________________/  |            group 0 is drawn (its switches are
//!             |  |     |  |     |  |     |  |        joined each to each)
//!            H1  H2   H3  H4   H5  H6   H7  H8
//! ```
//!
//! A balanced dragonfly has a = 2 p = 2 h, so that one global link per pair of groups can carry all uniform traffic
//! between them. A full dragonfly has g = a h + 1 groups. [`super::Groups`] describes the numbering of nodes and
//! ports, and [`super::Arrangement`] the destinations of global links.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Rate, Time};

use super::groups::{Arrangement, Cables, Given, Inside};
use super::parameters::{default_link_delay, default_link_rate, within};
use super::{MAX_FCFS_PORTS, Topology, TopologyError};

const KIND: &str = "dragonfly";

/// A dragonfly; see the [module](self) for a drawing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dragonfly {
    /// Hosts per switch, 1 to 1024.
    /// Switches with more than 256 ports need `switch.arbitration = "fcfs"`.
    #[schemars(range(min = 1, max = 1024))]
    pub p: u32,
    /// Switches per group, 1 to 1024.
    #[schemars(range(min = 1, max = 1024))]
    pub a: u32,
    /// Global links per switch, 1 to 1024.
    #[schemars(range(min = 1, max = 1024))]
    pub h: u32,
    /// Number of groups, 2 to a h + 1. Default: a h + 1.
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

impl Dragonfly {
    /// A dragonfly with all groups, the default arrangement and the default link.
    #[must_use]
    pub fn new(p: u32, a: u32, h: u32) -> Self {
        let (link_rate, link_delay) = (default_link_rate(), default_link_delay());
        Self {
            p,
            a,
            h,
            g: None,
            arrangement: Arrangement::Absolute,
            link_rate,
            link_delay,
            global_delay: None,
        }
    }

    /// Builds the network.
    ///
    /// # Errors
    /// If a parameter is out of range, or the network exceeds the limits.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let switches = within(KIND, "a", self.a, 1, MAX_FCFS_PORTS)?;
        let Self { link_rate, link_delay, global_delay, arrangement, g, .. } = *self;
        let given = Given {
            kind: KIND,
            family: "dragonfly",
            hosts: ("p", self.p),
            global: ("h", self.h),
            groups: g,
            arrangement,
            cables: Cables { link_rate, link_delay, global_delay },
        };
        given.build(Inside::Mesh, switches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::distances::Distances;
    use crate::topology::{NodeRef, Shape};

    #[test]
    fn sizes_and_distances_follow_closed_forms() {
        for arrangement in [Arrangement::Absolute, Arrangement::Relative] {
            for (p, a, h) in [(1, 2, 1), (2, 4, 2), (1, 3, 2), (3, 6, 3), (1, 1, 4)] {
                let built = Dragonfly { arrangement, ..Dragonfly::new(p, a, h) }.build().unwrap();
                built.validate().unwrap();
                let g = a * h + 1;
                let (hosts, switches) = (built.hosts.len() as u32, built.switches.len() as u32);
                assert_eq!((hosts, switches), (p * a * g, a * g), "{}", built.name);
                let links = p * a * g + g * a * (a - 1) / 2 + g * (g - 1) / 2;
                assert_eq!(built.links.len() as u32, links);
                // Every port has a link.
                assert_eq!(built.switches[0].ports as u32, p + a - 1 + h);
                let found = Distances::of(&built);
                assert!(found.diameter <= 3, "local, global, local: {}", found.diameter);
            }
        }
    }

    #[test]
    fn the_mean_distance_is_that_of_one_global_link() {
        // The route over the single global link between two groups is an upper bound of the distance. It has
        // one global link, and a local link for each end that is not at the global link. Of the a^2 pairs of
        // switches in two groups, a have a given end at the global link.
        for a in [2u64, 3, 5, 8] {
            let built = Dragonfly::new(1, a as u32, 1).build().unwrap();
            let g = a + 1;
            let local = g * a * (a - 1);
            let far = g * (g - 1) * (a * a + 2 * (a * a - a));
            let found = Distances::of(&built);
            assert!(found.sum <= local + far);
            let Shape::Groups(shape) = built.shape else { unreachable!("a dragonfly") };
            assert_eq!(shape.rounds(), 1);
        }
    }

    #[test]
    fn every_pair_of_groups_has_its_links() {
        for arrangement in [Arrangement::Absolute, Arrangement::Relative] {
            for (a, h, g, rounds) in [(4, 2, 9, 1), (4, 2, 5, 2), (4, 2, 4, 2), (4, 2, 3, 4), (4, 2, 2, 8)] {
                let built = Dragonfly { arrangement, g: Some(g), ..Dragonfly::new(1, a, h) }.build().unwrap();
                let mut between = vec![vec![0; g as usize]; g as usize];
                let group = |node| match node {
                    NodeRef::Switch(at) => Some((at / a) as usize),
                    NodeRef::Host(_) => None,
                };
                for link in &built.links {
                    if let (Some(near), Some(far)) = (group(link.a.node), group(link.b.node))
                        && near != far
                    {
                        between[near][far] += 1;
                        between[far][near] += 1;
                    }
                }
                for (near, row) in between.iter().enumerate() {
                    for (far, &links) in row.iter().enumerate() {
                        assert_eq!(links, if near == far { 0 } else { rounds }, "{}", built.name);
                    }
                }
                // From half of the groups to the other half.
                let half = g as usize / 2;
                let crossing: usize =
                    between[..half].iter().map(|row| row[half..].iter().sum::<usize>()).sum();
                assert_eq!(crossing, half * (g as usize - half) * rounds);
            }
        }
    }

    #[test]
    fn global_links_lead_to_the_documented_groups() {
        let named = |arrangement| {
            let built = Dragonfly { arrangement, ..Dragonfly::new(2, 2, 1) }.build().unwrap();
            let global = &built.links[built.links.len() - 3..];
            let names = global.iter().map(|l| format!("{} {}", built.port_name(l.a), built.port_name(l.b)));
            names.collect::<Vec<_>>()
        };
        assert_eq!(named(Arrangement::Absolute), ["G0.0:4 G1.0:4", "G0.1:4 G2.0:4", "G1.1:4 G2.1:4"]);
        assert_eq!(named(Arrangement::Relative), ["G0.0:4 G1.1:4", "G0.1:4 G2.0:4", "G1.0:4 G2.1:4"]);
    }

    #[test]
    fn links_between_groups_may_be_longer() {
        let spec = Dragonfly { global_delay: Some(Time::from_ns(300)), ..Dragonfly::new(1, 2, 1) };
        let built = spec.build().unwrap();
        let long = built.links.iter().filter(|link| link.delay == Time::from_ns(300)).count();
        assert_eq!((long, built.links.len()), (3, 6 + 3 + 3));
    }

    #[test]
    fn invalid_parameters_are_reported() {
        let message = |spec: Dragonfly| spec.build().map_err(|e| e.to_string()).err().unwrap_or_default();
        assert_eq!(
            message(Dragonfly::new(0, 4, 2)),
            "dragonfly: `p` = 0 is out of range; it must be 1 to 1024"
        );
        assert_eq!(
            message(Dragonfly::new(2, 0, 2)),
            "dragonfly: `a` = 0 is out of range; it must be 1 to 1024"
        );
        assert_eq!(
            message(Dragonfly::new(2, 4, 1025)),
            "dragonfly: `h` = 1025 is out of range; it must be 1 to 1024"
        );
        for g in [1, 10] {
            assert_eq!(
                message(Dragonfly { g: Some(g), ..Dragonfly::new(2, 4, 2) }),
                format!(
                    "dragonfly: `g` = {g} is out of range; it must be 2 to 9, as a group has 8 global ports and a link \
                     to each other group"
                )
            );
        }
        assert_eq!(
            message(Dragonfly::new(400, 400, 400)),
            "dragonfly: `p` = 400, `h` = 400 need switches of 1199 ports in groups of 400; at most 1024 are possible"
        );
        assert_eq!(
            message(Dragonfly::new(2, 128, 127)),
            "dragonfly: `p` = 2, `h` = 127, groups of 128, 16257 of them make more than 200000 hosts, which is \
             the maximum; choose smaller values"
        );
        assert_eq!(
            message(Dragonfly::new(1, 513, 511)),
            "dragonfly: `p` = 1, `h` = 511, groups of 513, 262144 of them make more than 200000 hosts, which is the \
             maximum; choose smaller values"
        );
        assert_eq!(message(Dragonfly { g: Some(2), ..Dragonfly::new(300, 2, 1) }), "");
        let still = Dragonfly { global_delay: Some(Time::ZERO), ..Dragonfly::new(1, 2, 1) };
        assert!(message(still).starts_with("dragonfly: `global_delay` = 0 ps is out of range"));
    }
}
