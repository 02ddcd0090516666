//! Minimal routes of dragonflies and dragonfly+, which use one link between the two groups.
//!
//! ```text
//!   dragonfly     local (lane 0), global (lane 0), local (lane 1)
//!   dragonfly+    up, global, down: on one lane
//! ```
//!
//! If two groups are connected by several links, a switch with some of these links selects one of its own
//! links, and any other switch selects one of all links. The number of the destination determines the
//! selection, so that all switches agree. Between leaves of a dragonfly+ group, it determines the spine.
//!
//! In a dragonfly, local links before the global link and local links after it must not wait for each
//! other, so there are two lanes ([`stages`]; Kim and others 2008). A dragonfly+ needs no additional lane,
//! because dependencies lead only from up links to global links to down links.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::lanes::{LEVELS, Lanes};
use super::{RoutingError, Tables};
use crate::topology::{Groups, Inside, Shape, Topology};

/// Minimal routes over one link between the two groups, for dragonflies and dragonfly+. They can deadlock in
/// a dragonfly, unless `lanes.assignment = "routing"` provides two lanes. No parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Minimal {}

impl Minimal {
    /// Computes the tables of a valid topology.
    ///
    /// # Errors
    /// [`RoutingError::Unsuitable`] if the topology is not a generated dragonfly or dragonfly+.
    pub(super) fn compute(&self, topology: &Topology) -> Result<Tables, RoutingError> {
        Ok(tables(topology, groups_of(topology, "minimal")?))
    }
}

/// The shape of a dragonfly or dragonfly+. `kind` is the kind of routing, which messages name.
pub(super) fn groups_of(topology: &Topology, kind: &str) -> Result<Groups, RoutingError> {
    match topology.shape {
        Shape::Groups(shape) if shape.all_switches() == topology.switches.len() as u64 => Ok(shape),
        _ => Err(RoutingError::Unsuitable(format!(
            "{kind}: {} is not a generated dragonfly or dragonfly+; use up-down",
            topology.name
        ))),
    }
}

/// The tables to all hosts.
pub(super) fn tables(topology: &Topology, shape: Groups) -> Tables {
    let hosts = 0..topology.hosts.len();
    let table = |switch| hosts.clone().map(|host| minimal_port(shape, switch, host)).collect();
    Tables::new((0..topology.switches.len()).map(table).collect())
}

/// The output port of a switch towards a host.
pub(super) fn minimal_port(shape: Groups, switch: usize, host: usize) -> u16 {
    let (home, place) = (shape.home(host), shape.place(switch));
    if switch == home {
        return shape.host_port(host);
    }
    if shape.group(switch) != shape.group(home) {
        return port_to_group(shape, switch, shape.group(home), host);
    }
    let spine = || {
        let leaves = usize::from(shape.with_hosts());
        shape.local_port(place, leaves + host % usize::from(shape.with_global()))
    };
    shape.local_port(place, shape.place(home)).or_else(spine).unwrap_or(Tables::NO_ROUTE)
}

/// The output port of a switch towards another group; `host` selects among several links.
pub(super) fn port_to_group(shape: Groups, switch: usize, to: usize, host: usize) -> u16 {
    let (from, place, rounds) = (shape.group(switch), shape.place(switch), shape.rounds());
    let own = || (0..rounds).map(|round| shape.gate(from, to, round)).filter(|&(gate, _)| gate == place);
    let count = own().count();
    if count > 0 {
        return own().nth(host % count).map_or(Tables::NO_ROUTE, |(_, port)| port);
    }
    let (gate, _) = shape.gate(from, to, host % rounds);
    // From a spine without such a link, go down to a leaf, and up again.
    let leaf = || shape.local_port(place, host % usize::from(shape.with_hosts()));
    shape.local_port(place, gate).or_else(leaf).unwrap_or(Tables::NO_ROUTE)
}

/// The lanes that make minimal routes deadlock-free: two in a dragonfly, one in a dragonfly+.
///
/// # Errors
/// [`RoutingError::Unsuitable`] if the topology is not a dragonfly or dragonfly+, or is too large for
/// tables of lanes.
pub(super) fn stages(topology: &Topology) -> Result<Lanes, RoutingError> {
    let shape = groups_of(topology, "minimal")?;
    let (levels, mut maps) = super::lanes::same_everywhere(topology, [0; LEVELS])?;
    if shape.inside == Inside::Mesh {
        let hosts = shape.hosts;
        let first_global = hosts + shape.switches;
        for (at, switch) in topology.switches.iter().enumerate() {
            for input in first_global..=switch.ports {
                for output in hosts + 1..first_global {
                    maps.set(at, input, output, [1; LEVELS]);
                }
            }
        }
    }
    Ok(Lanes { levels, maps, detours: None })
}

#[cfg(test)]
mod tests {
    use super::super::lane_check::check_lanes;
    use super::super::{RoutingSpec, analyze, deadlock_cycle};
    use super::*;
    use crate::topology::dragonfly::Dragonfly;
    use crate::topology::dragonfly_plus::DragonflyPlus;
    use crate::topology::{Arrangement, NodeRef};

    fn networks() -> Vec<Topology> {
        let mut found = Vec::new();
        for arrangement in [Arrangement::Absolute, Arrangement::Relative] {
            for (p, a, h, g) in
                [(2, 4, 2, None), (1, 3, 1, None), (2, 4, 2, Some(3)), (1, 6, 3, Some(7)), (1, 1, 3, None)]
            {
                found.push(Dragonfly { arrangement, g, ..Dragonfly::new(p, a, h) }.build().unwrap());
            }
            for (p, leaves, spines, h, g) in [(2, 2, 2, 2, None), (1, 3, 2, 2, Some(3)), (2, 4, 4, 2, None)] {
                let spec = DragonflyPlus { arrangement, g, ..DragonflyPlus::new(p, leaves, spines, h) };
                found.push(spec.build().unwrap());
            }
        }
        found
    }

    fn shape(topology: &Topology) -> Groups {
        groups_of(topology, "minimal").unwrap()
    }

    #[test]
    fn every_route_has_one_global_link_at_most() {
        for topology in networks() {
            let tables = RoutingSpec::Minimal(Minimal {}).compute(&topology).unwrap();
            let found = analyze(&topology, &tables);
            assert_eq!((found.unroutable, &found.problems[..]), (0, &[][..]), "{}", topology.name);
            assert!(found.hops.len() <= 5, "at most four switches: {:?}", found.hops);
            let shape = shape(&topology);
            let wiring = topology.wiring();
            for from in 0..topology.hosts.len() as u32 {
                for to in 0..topology.hosts.len() as u32 {
                    let path = super::super::trace(&topology, &wiring, &tables, from, to).unwrap();
                    let group = |node| match node {
                        NodeRef::Switch(at) => shape.group(at as usize),
                        NodeRef::Host(host) => shape.group(shape.home(host as usize)),
                    };
                    let changes =
                        path.channels.iter().filter(|c| group(c.from.node) != group(c.to.node)).count();
                    let differ =
                        shape.group(shape.home(from as usize)) != shape.group(shape.home(to as usize));
                    assert_eq!(changes, usize::from(differ));
                }
            }
        }
    }

    #[test]
    fn lanes_make_minimal_routes_deadlock_free() {
        let mut deadlocks = 0;
        for topology in networks() {
            let tables = RoutingSpec::Minimal(Minimal {}).compute(&topology).unwrap();
            let is_mesh = shape(&topology).inside == Inside::Mesh;
            let one = deadlock_cycle(&topology, &tables);
            assert!(one.is_none() || is_mesh, "{}: {one:?}", topology.name);
            deadlocks += u32::from(one.is_some());
            let lanes = stages(&topology).unwrap();
            let found = check_lanes(&topology, &tables, &lanes);
            assert_eq!((found.cycle, found.discarded), (None, 0), "{}", topology.name);
            let has_locals = topology.switches.len() > usize::from(shape(&topology).groups);
            assert_eq!(lanes.count(), if is_mesh && has_locals { 2 } else { 1 }, "{}", topology.name);
        }
        assert!(deadlocks >= 4, "{deadlocks}");
    }

    #[test]
    fn uniform_traffic_loads_global_links_evenly() {
        let topology = Dragonfly::new(2, 4, 2).build().unwrap();
        let tables = RoutingSpec::Minimal(Minimal {}).compute(&topology).unwrap();
        let loads = analyze(&topology, &tables).loads;
        let global = &loads[loads.len() - 36..];
        assert!(global.iter().all(|&both| both == [64, 64]), "8 hosts to 8 hosts: {global:?}");
    }

    #[test]
    fn other_networks_are_rejected() {
        let star = crate::topology::star::Star::default().build().unwrap();
        let message = RoutingSpec::Minimal(Minimal {}).compute(&star).unwrap_err().to_string();
        assert_eq!(message, "minimal: star of 7 is not a generated dragonfly or dragonfly+; use up-down");
    }
}
