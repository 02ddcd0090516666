//! Valiant routes of dragonflies and dragonfly+ (Valiant 1982; Kim and others 2008). A route is minimal to a random
//! intermediate group, which depends on the pair of source and destination, and minimal from there. [`Ugal`] selects
//! for each packet between such a route and the minimal one.
//!
//! The intermediate group differs from the groups of source and destination; within a group, and if there are
//! only two groups, routes are minimal. With [`Valiant`], the intermediate group depends only on the pair and
//! the parameter `draw`, so packets of a pair arrive in order and the routes can be checked before a run.
//!
//! ```text
//! dragonfly     source group    intermediate     destination's
//!                 local 0         local 1          local 2          lanes
//!                       global 0         global 1
//!
//!   dragonfly+    up 0            down 0, up 1     down 1
//!                       global 0         global 1
//! ```
//!
//! Dependencies lead only in this order, so three lanes are sufficient for a dragonfly, and two for a dragonfly+. A
//! packet's switch, source and destination determine its stage. Forwarding tables cannot represent this, because they
//! depend only on the destination, and SL-to-VL tables cannot either, because they depend on ports and service level.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Bytes;

use super::adaptive::heuristic::mixed;
use super::lanes::{LEVELS, Lanes};
use super::minimal::{groups_of, minimal_port, port_to_group, tables};
use super::{RoutingError, Tables};
use crate::topology::{Groups, Inside, Topology};

/// Routes over a random group for each pair of hosts, for dragonflies and dragonfly+. Needs
/// `lanes.assignment = "routing"`, with three lanes in a dragonfly and two in a dragonfly+.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Valiant {
    /// Selects one of the possible random assignments of groups to pairs.
    #[serde(default)]
    pub draw: u32,
}

impl Valiant {
    /// Computes the tables of minimal routes, which packets follow from the intermediate group.
    ///
    /// # Errors
    /// [`RoutingError::Unsuitable`] if the topology is not a generated dragonfly or dragonfly+.
    pub(super) fn compute(&self, topology: &Topology) -> Result<Tables, RoutingError> {
        Ok(tables(topology, groups_of(topology, "valiant")?))
    }

    /// Computes the detours, and the lanes that make them deadlock-free.
    ///
    /// # Errors
    /// Same as [`Valiant::compute`], and if the network is too large for tables of lanes.
    pub(super) fn lanes(&self, topology: &Topology) -> Result<Lanes, RoutingError> {
        let shape = groups_of(topology, "valiant")?;
        let (levels, maps) = super::lanes::same_everywhere(topology, [0; LEVELS])?;
        Ok(Lanes { levels, maps, detours: Some(Detours { shape, drawn: Drawn::PerPair(self.draw) }) })
    }
}

/// UGAL-L (Kim and others 2008): each packet uses the minimal route or a route over a random group, selected
/// by the queues of its first switch. It uses the minimal route if `q_min * H_min <= q_val * H_val + bias`,
/// where q is the number of bytes that wait for the output port of the route or occupy the buffer at its far
/// end, and H is the number of links between switches on the route. For dragonflies and dragonfly+. Needs
/// `lanes.assignment = "routing"`, with three lanes in a dragonfly and two in a dragonfly+. Receivers deliver
/// in order; control packets use minimal routes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ugal {
    /// Bias in favor of minimal routes: bytes multiplied by links.
    #[serde(default)]
    pub bias: Bytes,
}

impl Ugal {
    /// The tables of minimal routes.
    ///
    /// # Errors
    /// [`RoutingError::Unsuitable`] if the topology is not a generated dragonfly or dragonfly+.
    pub(super) fn compute(&self, topology: &Topology) -> Result<Tables, RoutingError> {
        Ok(tables(topology, groups_of(topology, "ugal")?))
    }

    /// Computes the detours, and the lanes that make them deadlock-free.
    ///
    /// # Errors
    /// Same as [`Ugal::compute`], and if the network is too large for tables of lanes.
    pub(super) fn lanes(&self, topology: &Topology) -> Result<Lanes, RoutingError> {
        let shape = groups_of(topology, "ugal")?;
        let (levels, maps) = super::lanes::same_everywhere(topology, [0; LEVELS])?;
        Ok(Lanes {
            levels,
            maps,
            detours: Some(Detours { shape, drawn: Drawn::PerPacket { bias: self.bias } }),
        })
    }
}

/// Whether the intermediate group is selected per pair or per packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drawn {
    /// Per pair of hosts, depending on the parameter `draw`.
    PerPair(u32),
    /// Per packet, which may also use the minimal route.
    PerPacket { bias: Bytes },
}

/// The intermediate groups of detours, and the lanes before and after these groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detours {
    shape: Groups,
    drawn: Drawn,
}

impl Detours {
    /// Number of lanes that the detours need.
    #[must_use]
    pub fn lanes(&self) -> u8 {
        match self.shape.inside {
            Inside::Mesh => 3,
            Inside::LeavesAndSpines { .. } => 2,
        }
    }

    /// The bias in favor of minimal routes, if a route is selected for each packet.
    #[must_use]
    pub fn bias(&self) -> Option<Bytes> {
        match self.drawn {
            Drawn::PerPair(_) => None,
            Drawn::PerPacket { bias } => Some(bias),
        }
    }

    /// Number of groups, which bounds the number of possible detours.
    #[must_use]
    pub fn groups(&self) -> usize {
        usize::from(self.shape.groups)
    }

    /// The intermediate group of a pair; `None` if both hosts are in one group, if there is no third group,
    /// or if a route is selected for each packet.
    #[must_use]
    pub fn of_pair(&self, src: usize, dst: usize) -> Option<usize> {
        match self.drawn {
            Drawn::PerPair(draw) => self.third(mixed([draw, src as u32, dst as u32]), src, dst),
            Drawn::PerPacket { .. } => None,
        }
    }

    /// The group that a random number selects among those that contain neither the source nor the destination; `None`
    /// if both are in one group or there is no other group.
    #[must_use]
    pub fn third(&self, number: u64, src: usize, dst: usize) -> Option<usize> {
        let (from, to) = (self.shape.group(self.shape.home(src)), self.shape.group(self.shape.home(dst)));
        if from == to || self.groups() < 3 {
            return None;
        }
        // The index among all groups except these two.
        let number = (number % (self.groups() as u64 - 2)) as usize;
        let (low, high) = (from.min(to), from.max(to));
        let skipped = number + usize::from(number >= low);
        Some(skipped + usize::from(skipped >= high))
    }

    /// Whether a host is connected to a switch.
    #[must_use]
    pub fn is_home(&self, switch: usize, host: usize) -> bool {
        self.shape.home(host) == switch
    }

    /// The output port and lane for a packet of a pair. `port` is the port of the table for the destination.
    /// If a route is selected for each packet, the result is for the minimal route.
    #[must_use]
    pub fn step(&self, switch: usize, port: u16, src: usize, dst: usize) -> (u16, u8) {
        self.step_over(switch, port, (src, dst), self.of_pair(src, dst))
    }

    /// The output port and lane for a packet with or without an intermediate group. `port` is the port of the table for
    /// the destination.
    #[must_use]
    pub fn step_over(
        &self,
        switch: usize,
        port: u16,
        (src, dst): (usize, usize),
        between: Option<usize>,
    ) -> (u16, u8) {
        let shape = self.shape;
        let at = shape.group(switch);
        let (from, to) = (shape.group(shape.home(src)), shape.group(shape.home(dst)));
        if at == from {
            return (between.map_or(port, |group| port_to_group(shape, switch, group, dst)), 0);
        }
        let lane = match shape.inside {
            Inside::Mesh => 1 + u8::from(at == to),
            // If a packet reaches a spine of the intermediate group that has no link to the next group, it goes down to
            // a leaf and up to another spine.
            Inside::LeavesAndSpines { leaves } => {
                let is_spine = shape.place(switch) >= usize::from(leaves);
                u8::from(at == to || !is_spine || port > leaves)
            }
        };
        (port, lane)
    }

    /// Number of links between switches on the route of a packet from host `src` to host `dst`. `next`
    /// returns the switch at the other end of a port's link.
    #[must_use]
    pub fn links(
        &self,
        (src, dst): (usize, usize),
        between: Option<usize>,
        next: impl Fn(usize, u16) -> usize,
    ) -> u64 {
        let (mut at, home) = (self.shape.home(src), self.shape.home(dst));
        let mut links = 0;
        // At most three groups, with at most four switches each.
        while at != home && links < 16 {
            let port = minimal_port(self.shape, at, dst);
            at = next(at, self.step_over(at, port, (src, dst), between).0);
            links += 1;
        }
        links
    }
}

#[cfg(test)]
mod tests {
    use super::super::lane_check::{check_folded, check_lanes};
    use super::super::{RoutingSpec, analyze_lanes, trace_lanes};
    use super::*;
    use crate::topology::dragonfly::Dragonfly;
    use crate::topology::dragonfly_plus::DragonflyPlus;
    use crate::topology::{Arrangement, NodeRef};

    fn networks() -> Vec<Topology> {
        let mut found = Vec::new();
        for arrangement in [Arrangement::Absolute, Arrangement::Relative] {
            for (p, a, h, g) in [(2, 4, 2, None), (1, 3, 1, None), (1, 4, 2, Some(2)), (1, 6, 3, Some(7))] {
                found.push(Dragonfly { arrangement, g, ..Dragonfly::new(p, a, h) }.build().unwrap());
            }
            for (p, leaves, spines, h, g) in [(2, 2, 2, 2, None), (1, 3, 2, 2, Some(3)), (1, 4, 4, 2, None)] {
                let spec = DragonflyPlus { arrangement, g, ..DragonflyPlus::new(p, leaves, spines, h) };
                found.push(spec.build().unwrap());
            }
        }
        found
    }

    fn routed(topology: &Topology, draw: u32) -> (Tables, Lanes) {
        let spec = RoutingSpec::Valiant(Valiant { draw });
        (spec.compute(topology).unwrap(), spec.lanes(topology).unwrap().unwrap())
    }

    /// The groups on the route of a packet between two hosts, in order.
    fn groups_on_way(topology: &Topology, tables: &Tables, lanes: &Lanes, from: u32, to: u32) -> Vec<usize> {
        let (wiring, shape) = (topology.wiring(), groups_of(topology, "valiant").unwrap());
        let path = trace_lanes(topology, &wiring, (tables, Some(lanes)), from, to).unwrap();
        let switches = path.channels.iter().filter_map(|channel| match channel.from.node {
            NodeRef::Switch(at) => Some(shape.group(at as usize)),
            NodeRef::Host(_) => None,
        });
        let mut groups: Vec<usize> = switches.collect();
        groups.dedup();
        groups
    }

    #[test]
    fn packets_use_one_intermediate_group_and_arrive() {
        for topology in networks() {
            let shape = groups_of(&topology, "valiant").unwrap();
            let (tables, lanes) = routed(&topology, 3);
            for from in 0..topology.hosts.len() as u32 {
                for to in (0..topology.hosts.len() as u32).filter(|&to| to != from) {
                    let groups = groups_on_way(&topology, &tables, &lanes, from, to);
                    let ends = [from, to].map(|host| shape.group(shape.home(host as usize)));
                    let expected = match (ends[0] == ends[1], shape.groups) {
                        (true, _) => 1,
                        (false, 2) => 2,
                        (false, _) => 3,
                    };
                    assert_eq!(groups.len(), expected, "{}: {groups:?}", topology.name);
                }
            }
            let found = analyze_lanes(&topology, &tables, Some(&lanes));
            let pairs = topology.hosts.len() as u64 * (topology.hosts.len() as u64 - 1);
            assert_eq!((found.pairs, found.unroutable), (pairs, 0));
            assert!(found.hops.len() <= 8, "at most seven switches: {:?}", found.hops);
        }
    }

    #[test]
    fn the_lanes_prevent_deadlock_and_fewer_lanes_do_not() {
        let mut deadlocks = 0;
        for topology in networks() {
            for draw in 0..3 {
                let (tables, lanes) = routed(&topology, draw);
                let found = check_lanes(&topology, &tables, &lanes);
                assert_eq!((&found.cycle, found.discarded), (&None, 0), "{}", topology.name);
                assert!(found.lanes.len() <= usize::from(lanes.count()));
                deadlocks += u32::from(check_folded(&topology, &tables, &lanes, |_| 0).cycle.is_some());
            }
        }
        assert!(deadlocks > 20, "{deadlocks}");
    }

    #[test]
    fn adaptive_packets_use_any_route_without_deadlock() {
        for topology in networks() {
            let spec = RoutingSpec::Ugal(Ugal { bias: Bytes(5) });
            let (tables, lanes) = (spec.compute(&topology).unwrap(), spec.lanes(&topology).unwrap().unwrap());
            assert_eq!((lanes.bias(), routed(&topology, 0).1.bias()), (Some(Bytes(5)), None));
            let found = check_lanes(&topology, &tables, &lanes);
            assert_eq!((&found.cycle, found.discarded), (&None, 0), "{}", topology.name);
            // The check includes the routes over all groups.
            let of_one = check_lanes(&topology, &tables, &routed(&topology, 0).1);
            for verdict in &found.lanes {
                let fewer = of_one.lanes.iter().find(|other| other.lane == verdict.lane);
                assert!(verdict.channels >= fewer.map_or(0, |fewer| fewer.channels));
            }
        }
    }

    #[test]
    fn the_number_of_links_of_routes_agrees_with_traces() {
        for topology in networks() {
            let wiring = topology.wiring();
            let next = |at: usize, port: u16| match wiring.switches[at][usize::from(port) - 1].unwrap().0.node
            {
                NodeRef::Switch(next) => next as usize,
                NodeRef::Host(_) => panic!("no switch"),
            };
            let (tables, lanes) = routed(&topology, 2);
            let detours = lanes.detours.unwrap();
            for (from, to) in
                (0..topology.hosts.len()).flat_map(|from| (0..topology.hosts.len()).map(move |to| (from, to)))
            {
                if from == to {
                    continue;
                }
                let path =
                    trace_lanes(&topology, &wiring, (&tables, Some(&lanes)), from as u32, to as u32).unwrap();
                // Links of hosts are not between switches.
                let traced = path.channels.len() as u64 - 2;
                assert_eq!(detours.links((from, to), detours.of_pair(from, to), next), traced);
                assert!(detours.links((from, to), None, next) <= 3);
            }
        }
    }

    #[test]
    fn intermediate_groups_are_uniformly_distributed() {
        let topology = Dragonfly::new(2, 4, 2).build().unwrap();
        let (tables, lanes) = routed(&topology, 0);
        let mut met = [0u32; 9];
        for (from, to) in (0..8).flat_map(|from| (8..16).map(move |to| (from, to))) {
            met[groups_on_way(&topology, &tables, &lanes, from, to)[1]] += 1;
        }
        assert_eq!((met[0], met[1]), (0, 0));
        assert!(met[2..].iter().all(|&count| (3..=17).contains(&count)), "64 pairs over 7 groups: {met:?}");
        let (_, other) = routed(&topology, 1);
        let differs = (8..16).any(|to| {
            let way = |lanes| groups_on_way(&topology, &tables, lanes, 0, to)[1];
            way(&lanes) != way(&other)
        });
        assert!(differs, "another value of draw selects other groups");
    }
}
