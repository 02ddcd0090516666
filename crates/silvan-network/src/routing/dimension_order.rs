//! Dimension-order routing on tori, meshes and `HyperX`: packets move to their destination's coordinate in the first
//! dimension, then in the second, and so on.
//!
//! Meshes and `HyperX` have no dependency cycles, but a ring of five or more switches of a torus has one. (In a ring
//! of four, routes over two links go up from even coordinates and down from odd ones, see [`Grid::port_towards`], so
//! no two of them overlap.) Packets then need two lanes, with a dateline between the last switch of each ring and its
//! first (Dally and Seitz 1987). [`datelines`] assigns lanes as torus-2QoS does: for each dimension, the service
//! level of a pair of hosts indicates whether the route crosses the dateline. If so, packets use lane 1 of that ring,
//! otherwise lane 0. A route covers at most half of a ring, so the used part of lane 1 does not form a ring either.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::lanes::{LEVELS, LaneMaps, Lanes};
use super::{RoutingError, Tables};
use crate::topology::{Grid, Shape, Topology};

/// Dimension order, for tori, meshes and `HyperX`. It can deadlock on a torus with a ring of five or more
/// switches, unless `lanes.assignment = "routing"` provides two lanes. No parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DimensionOrder {}

impl DimensionOrder {
    /// Computes the tables of a valid topology.
    ///
    /// # Errors
    /// [`RoutingError::Unsuitable`] if the topology is not a generated torus, mesh or `HyperX`.
    pub(super) fn compute(&self, topology: &Topology) -> Result<Tables, RoutingError> {
        let grid = grid_of(topology)?;
        let hosts = 0..topology.hosts.len();
        let table = |switch| hosts.clone().map(|host| port(grid, switch, host)).collect();
        Ok(Tables::new((0..topology.switches.len()).map(table).collect()))
    }
}

fn grid_of(topology: &Topology) -> Result<&Grid, RoutingError> {
    match &topology.shape {
        Shape::Grid(grid) if grid.switches() == topology.switches.len() as u64 => Ok(grid),
        _ => Err(RoutingError::Unsuitable(format!(
            "dimension-order: {} is not a generated torus, mesh or HyperX; use up-down",
            topology.name
        ))),
    }
}

/// The output port of a switch towards a host.
fn port(grid: &Grid, switch: usize, host: usize) -> u16 {
    let home = grid.home(host);
    let ends = |dimension| (grid.coordinate(switch, dimension), grid.coordinate(home, dimension));
    let ahead = (0..grid.sizes.len()).find(|&dimension| ends(dimension).0 != ends(dimension).1);
    ahead.map_or(grid.host_port(host), |dimension| {
        let (from, to) = ends(dimension);
        grid.port_towards(dimension, from, to)
    })
}

/// The dimensions whose rings need datelines.
fn long_rings(grid: &Grid) -> Vec<usize> {
    (0..grid.sizes.len()).filter(|&dimension| grid.is_ring(dimension) && grid.sizes[dimension] > 4).collect()
}

/// The lanes that make dimension order deadlock-free: two on a torus with a ring of five or more switches,
/// otherwise one.
///
/// # Errors
/// [`RoutingError::Unsuitable`] if the topology is not a generated torus, mesh or `HyperX`, has such rings in
/// more than four dimensions, or is too large for tables of lanes.
pub(super) fn datelines(topology: &Topology) -> Result<Lanes, RoutingError> {
    let grid = grid_of(topology)?;
    let rings = long_rings(grid);
    if LEVELS >> rings.len() == 0 {
        return Err(RoutingError::Unsuitable(format!(
            "dimension-order: {} has {} dimensions with rings of five or more switches; datelines of at most 4 fit \
             a service level",
            topology.name,
            rings.len()
        )));
    }
    let (mut levels, mut maps) = super::lanes::same_everywhere(topology, [0; LEVELS])?;
    let crosses = |dimension, from, to| {
        let (from, to) = (grid.coordinate(from, dimension), grid.coordinate(to, dimension));
        from != to && grid.goes_up(dimension, from, to) != (to > from)
    };
    for from in 0..topology.hosts.len() {
        for to in 0..topology.hosts.len() {
            let crossed = |&dimension: &usize| crosses(dimension, grid.home(from), grid.home(to));
            let bits = rings.iter().enumerate().filter(|(_, ring)| crossed(ring));
            levels.set(from, to, bits.fold(0, |level, (bit, _)| level | 1 << bit));
        }
    }
    let lane_of_bit = |bit: usize| std::array::from_fn(|level| (level >> bit & 1) as u8);
    set_maps(topology, &mut maps, |port| {
        let dimension = grid.dimension_of(port)?;
        rings.iter().position(|&ring| ring == dimension).map(lane_of_bit)
    });
    Ok(Lanes { levels, maps, detours: None })
}

/// Sets the map that `of` returns for an output, if any, for all inputs of the output.
fn set_maps(topology: &Topology, maps: &mut LaneMaps, of: impl Fn(u16) -> Option<[u8; LEVELS]>) {
    for (at, switch) in topology.switches.iter().enumerate() {
        for output in 1..=switch.ports {
            let Some(map) = of(output) else { continue };
            for input in 0..=switch.ports {
                maps.set(at, input, output, map);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lane_check::check_lanes;
    use super::super::{RoutingSpec, analyze, deadlock_cycle, trace};
    use super::*;
    use crate::topology::TopologySpec;
    use crate::topology::grid::{GridSpec, Rows};
    use crate::topology::star::Star;

    fn routed(rows: Rows, sizes: &[u32], hosts: u32) -> (Topology, Tables) {
        let topology = GridSpec::new(sizes, hosts).build(rows).unwrap();
        let tables = RoutingSpec::DimensionOrder(DimensionOrder {}).compute(&topology).unwrap();
        (topology, tables)
    }

    const SIZES: [&[u32]; 9] = [&[2], &[3], &[4], &[5], &[8], &[6, 7], &[4, 4], &[5, 2, 4], &[5, 3, 5, 3]];

    #[test]
    fn routes_are_shortest() {
        for rows in [Rows::Rings, Rows::Lines, Rows::Full] {
            for sizes in SIZES {
                let (topology, tables) = routed(rows, sizes, 1);
                let found = analyze(&topology, &tables);
                assert_eq!((found.unroutable, &found.problems[..]), (0, &[][..]), "{}", topology.name);
                let shortest = RoutingSpec::ShortestPath(Default::default()).compute(&topology).unwrap();
                assert_eq!(found.hops, analyze(&topology, &shortest).hops, "{}", topology.name);
            }
        }
    }

    #[test]
    fn only_long_rings_deadlock_and_never_with_datelines() {
        for rows in [Rows::Rings, Rows::Lines, Rows::Full] {
            for sizes in SIZES {
                let (topology, tables) = routed(rows, sizes, 1);
                let is_long = rows == Rows::Rings && sizes.iter().any(|&size| size > 4);
                assert_eq!(deadlock_cycle(&topology, &tables).is_some(), is_long, "{}", topology.name);
                let lanes = datelines(&topology).unwrap();
                let found = check_lanes(&topology, &tables, &lanes);
                assert_eq!((&found.cycle, found.discarded), (&None, 0), "{}", topology.name);
                assert_eq!(lanes.count(), if is_long { 2 } else { 1 });
                assert_eq!(found.lanes.len(), usize::from(lanes.count()));
            }
        }
    }

    #[test]
    fn a_dependency_cycle_is_a_ring() {
        let (topology, tables) = routed(Rows::Rings, &[5, 4], 1);
        let cycle = super::super::cycle_text(&deadlock_cycle(&topology, &tables).unwrap());
        assert_eq!(
            cycle,
            "S0.0:2 -> S1.0:3, S1.0:2 -> S2.0:3, S2.0:2 -> S3.0:3, S3.0:2 -> S4.0:3, S4.0:2 -> S0.0:3"
        );
    }

    #[test]
    fn uniform_traffic_loads_a_ring_evenly() {
        // The routes from a switch of an even ring have k^2/4 links in total, half of them in each direction.
        for size in [4u32, 6, 8] {
            let (topology, tables) = routed(Rows::Rings, &[size], 1);
            let loads = analyze(&topology, &tables).between_switches;
            let mean = f64::from(size * size) / 8.0;
            assert_eq!((loads.mean, loads.channels), (mean, u64::from(2 * size)));
            assert!(loads.max as f64 - mean <= 1.0 && mean - loads.min as f64 <= 1.0, "{loads:?}");
        }
        let (topology, tables) = routed(Rows::Full, &[4, 5], 3);
        let loads = analyze(&topology, &tables).between_switches;
        // With h hosts per switch, a link of a row of k switches carries h^2 * (switches / k) flows.
        assert_eq!((loads.min, loads.max), (9 * 4, 9 * 5));
    }

    #[test]
    fn the_first_dimension_is_routed_first() {
        let (topology, tables) = routed(Rows::Rings, &[5, 5], 1);
        let path = trace(&topology, &topology.wiring(), &tables, 0, 24).unwrap();
        let names: Vec<&str> = path.channels[1..].iter().map(|c| topology.name_of(c.from.node)).collect();
        assert_eq!(names, ["S0.0", "S4.0", "S4.4"], "down across both datelines");
        let lanes = datelines(&topology).unwrap();
        assert_eq!((lanes.levels.get(0, 24), lanes.levels.get(0, 12), lanes.levels.get(0, 4)), (3, 0, 1));
    }

    #[test]
    fn other_networks_are_rejected() {
        let star = Star::default().build().unwrap();
        let spec = RoutingSpec::DimensionOrder(DimensionOrder {});
        let message = spec.compute(&star).unwrap_err().to_string();
        assert_eq!(
            message,
            "dimension-order: star of 7 is not a generated torus, mesh or HyperX; use up-down"
        );
        let many = TopologySpec::Torus(GridSpec::new(&[5, 5, 5, 5, 5], 1)).build().unwrap();
        let message = datelines(&many).unwrap_err().to_string();
        assert_eq!(
            message,
            "dimension-order: 5 x 5 x 5 x 5 x 5 torus, a host per switch has 5 dimensions with rings of five or more \
             switches; datelines of at most 4 fit a service level"
        );
    }
}
