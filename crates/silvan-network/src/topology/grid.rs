//! Tori, meshes and `HyperX`: switches at the points of a grid, each with the same number of hosts, with links
//! within the rows of each dimension.
//!
//! ```text
//!          torus                    mesh                   HyperX
//!    +--------------+                                  +-----------+
//!    S0.1-S1.1-S2.1-+        S0.1--S1.1--S2.1        S0.1--S1.1--S2.1
//!      |    |    |             |     |     |           |     |     |
//!    S0.0-S1.0-S2.0-+        S0.0--S1.0--S2.0        S0.0--S1.0--S2.0
//!    +--------------+                                  +-----------+
//! ```
//!
//! All three networks in the figure have `sizes = [3, 2]`. The rows of a torus are rings (a k-ary n-cube if all
//! sizes are k), and those of a mesh are lines. In the rows of a `HyperX` (Ahn and others, SC 2009; flattened
//! butterfly), all switches are connected to each other.
//!
//! # Numbering
//! A switch has a coordinate, from 0, in each dimension. [`Topology::switches`] is ordered with the first
//! dimension varying fastest: switch `x + y * sizes[0] + z * sizes[0] * sizes[1]` is named `Sx.y.z`. Hosts
//! are numbered switch by switch. On a switch, ports 1 ..= `hosts` lead to its hosts, followed by the ports
//! of the first dimension, those of the second, and so on:
//!
//! | rows are | ports of a dimension of size k | |
//! | --- | --- | --- |
//! | rings, lines | 2 | up to the next coordinate, down to the previous one |
//! | fully connected | k - 1 | to the other coordinates, in their order |
//!
//! At the ends of a line, one of the two ports has no link. In a ring of two switches, two links would connect
//! the same switches, so the ring is built as a line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::{Rate, Time};

use super::parameters::{
    check_delay, check_rate, check_size, default_link_delay, default_link_rate, host_end, numbered_hosts,
    one, switch, switch_end, within,
};
use super::{Link, MAX_FCFS_PORTS, MAX_LINKS, MAX_SWITCHES, Shape, Topology, TopologyError};

/// Maximum number of dimensions.
pub const MAX_DIMENSIONS: usize = 8;

/// How the switches of a row are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// Each to the next, and the last to the first: a torus.
    Rings,
    /// Each to the next: a mesh.
    Lines,
    /// All to each other: a `HyperX`.
    Full,
}

impl Rows {
    /// The `kind` of the topology in scenarios.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Rings => "torus",
            Self::Lines => "mesh",
            Self::Full => "hyperx",
        }
    }
}

/// The shape of a torus, mesh or `HyperX`; the [module](self) describes the numbering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// How the switches of a row are connected.
    pub rows: Rows,
    /// Switches per row in each dimension, 2 or more.
    pub sizes: Vec<u16>,
    /// Hosts per switch.
    pub hosts: u16,
}

impl Grid {
    /// Number of switches.
    #[must_use]
    pub fn switches(&self) -> u64 {
        self.sizes.iter().fold(1, |product: u64, &size| product.saturating_mul(u64::from(size)))
    }

    /// Difference between the numbers of neighboring switches in a dimension.
    fn stride(&self, dimension: usize) -> usize {
        self.sizes[..dimension].iter().map(|&size| usize::from(size)).product()
    }

    /// The coordinate of a switch in a dimension.
    #[must_use]
    pub fn coordinate(&self, switch: usize, dimension: usize) -> u16 {
        (switch / self.stride(dimension) % usize::from(self.sizes[dimension])) as u16
    }

    /// The switch to which a host is connected.
    #[must_use]
    pub fn home(&self, host: usize) -> usize {
        host / usize::from(self.hosts)
    }

    /// The port (from 1) that leads to a host, on the switch of the host.
    #[must_use]
    pub fn host_port(&self, host: usize) -> u16 {
        (host % usize::from(self.hosts)) as u16 + 1
    }

    /// Whether the rows of a dimension are rings. A row of two switches is a line.
    #[must_use]
    pub fn is_ring(&self, dimension: usize) -> bool {
        self.rows == Rows::Rings && self.sizes[dimension] > 2
    }

    /// Number of ports of a switch in a dimension.
    fn ports_of(&self, dimension: usize) -> u16 {
        if self.rows == Rows::Full { self.sizes[dimension] - 1 } else { 2 }
    }

    /// The first port of a switch in a dimension.
    fn first_port(&self, dimension: usize) -> u32 {
        let before: u32 = (0..dimension).map(|d| u32::from(self.ports_of(d))).sum();
        u32::from(self.hosts) + before + 1
    }

    /// The dimension of a port, if it does not lead to a host.
    #[must_use]
    pub fn dimension_of(&self, port: u16) -> Option<usize> {
        (0..self.sizes.len()).rev().find(|&dimension| u32::from(port) >= self.first_port(dimension))
    }

    /// The output port on the shorter route from coordinate `from` of a row to another coordinate `to`. If both
    /// directions around a ring are equally long, the route goes up from even coordinates, and down from odd
    /// ones.
    #[must_use]
    pub fn port_towards(&self, dimension: usize, from: u16, to: u16) -> u16 {
        // Port numbers of a switch fit in 16 bits.
        let first = self.first_port(dimension) as u16;
        match self.rows {
            Rows::Full => first + to - u16::from(to > from),
            _ => first + u16::from(!self.goes_up(dimension, from, to)),
        }
    }

    /// Whether the route between two coordinates of a ring or line goes up.
    #[must_use]
    pub fn goes_up(&self, dimension: usize, from: u16, to: u16) -> bool {
        if !self.is_ring(dimension) {
            return to > from;
        }
        let size = self.sizes[dimension];
        let up = (to + size - from) % size;
        match (2 * up).cmp(&size) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => from.is_multiple_of(2),
            std::cmp::Ordering::Greater => false,
        }
    }

    fn links_of_row(&self, dimension: usize) -> u64 {
        let size = u64::from(self.sizes[dimension]);
        match self.rows {
            Rows::Full => size * (size - 1) / 2,
            _ if self.is_ring(dimension) => size,
            _ => size - 1,
        }
    }

    /// The links of all rows of a dimension, each given as two switches with their ports.
    fn pairs(&self, dimension: usize) -> impl Iterator<Item = [(u32, u16); 2]> + '_ {
        let (stride, size) = (self.stride(dimension), self.sizes[dimension]);
        let first = self.first_port(dimension) as u16;
        (0..self.switches() as usize).flat_map(move |from| {
            let at = self.coordinate(from, dimension);
            let others = match self.rows {
                Rows::Full => at + 1..size,
                _ if at + 1 < size => at + 1..at + 2,
                _ if self.is_ring(dimension) => 0..1,
                _ => 0..0,
            };
            others.map(move |other| {
                let to = from - usize::from(at) * stride + usize::from(other) * stride;
                let (near, far) = match self.rows {
                    Rows::Full => (first + other - 1, first + at),
                    _ => (first, first + 1),
                };
                [(from as u32, near), (to as u32, far)]
            })
        })
    }

    fn name_of(&self, switch: usize) -> String {
        let digits: Vec<String> =
            (0..self.sizes.len()).map(|dimension| self.coordinate(switch, dimension).to_string()).collect();
        format!("S{}", digits.join("."))
    }
}

/// A torus, mesh or `HyperX`; see the [module](self) for a drawing of each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GridSpec {
    /// Switches in each dimension, 2 to 1024; 1 to 8 dimensions.
    /// Switches with more than 256 ports need `switch.arbitration = "fcfs"`.
    #[schemars(length(min = 1, max = 8), inner(range(min = 2, max = 1024)))]
    pub sizes: Vec<u32>,
    /// Hosts per switch, 1 to 1023. Default: 1.
    #[schemars(range(min = 1, max = 1023))]
    #[serde(default = "one")]
    pub hosts_per_switch: u32,
    /// Data rate of every link.
    #[serde(default = "default_link_rate")]
    pub link_rate: Rate,
    /// Propagation delay of every link.
    #[serde(default = "default_link_delay")]
    pub link_delay: Time,
}

impl GridSpec {
    /// A grid with the default link.
    #[must_use]
    pub fn new(sizes: &[u32], hosts_per_switch: u32) -> Self {
        let (link_rate, link_delay) = (default_link_rate(), default_link_delay());
        Self { sizes: sizes.to_vec(), hosts_per_switch, link_rate, link_delay }
    }

    /// Builds the network.
    ///
    /// # Errors
    /// If a parameter is out of range, or the network exceeds the limits.
    pub fn build(&self, rows: Rows) -> Result<Topology, TopologyError> {
        let kind = rows.kind();
        let grid = self.checked(rows)?;
        check_rate(kind, "link_rate", self.link_rate)?;
        check_delay(kind, "link_delay", self.link_delay)?;
        let link = |a, b| Link { a, b, rate: self.link_rate, delay: self.link_delay, one_way: false };
        let (switches, hosts) = (grid.switches() as usize, grid.switches() * u64::from(grid.hosts));
        let to_host = |host: usize| {
            let at = switch_end(grid.home(host) as u32, grid.host_port(host));
            link(host_end(host as u32), at)
        };
        let mut links: Vec<Link> = (0..hosts as usize).map(to_host).collect();
        for dimension in 0..grid.sizes.len() {
            let pairs = grid.pairs(dimension);
            links.extend(
                pairs.map(|[(from, near), (to, far)]| link(switch_end(from, near), switch_end(to, far))),
            );
        }
        let ports = grid.first_port(grid.sizes.len()) as u16 - 1;
        let sizes: Vec<String> = grid.sizes.iter().map(u16::to_string).collect();
        let each = if grid.hosts == 1 { "a host".to_owned() } else { format!("{} hosts", grid.hosts) };
        let family = if rows == Rows::Full { "HyperX" } else { kind };
        Ok(Topology {
            name: format!("{} {family}, {each} per switch", sizes.join(" x ")),
            hosts: numbered_hosts(hosts),
            switches: (0..switches).map(|at| switch(grid.name_of(at), ports)).collect(),
            links,
            units: 0,
            machines: Vec::new(),
            shape: Shape::Grid(grid),
        })
    }

    /// Returns the shape, or an error if it exceeds the limits.
    fn checked(&self, rows: Rows) -> Result<Grid, TopologyError> {
        let kind = rows.kind();
        let dimensions = self.sizes.len();
        if dimensions == 0 || dimensions > MAX_DIMENSIONS {
            return Err(TopologyError(format!(
                "{kind}: `sizes` has {dimensions} entries; it must have 1 to {MAX_DIMENSIONS}, one per dimension"
            )));
        }
        let size =
            |(at, &size): (usize, &u32)| within(kind, &format!("sizes[{at}]"), size, 2, MAX_FCFS_PORTS);
        let sizes = self.sizes.iter().enumerate().map(size).collect::<Result<Vec<u16>, _>>()?;
        let hosts = within(kind, "hosts_per_switch", self.hosts_per_switch, 1, MAX_FCFS_PORTS - 1)?;
        let grid = Grid { rows, sizes, hosts };
        let ports = grid.first_port(dimensions) - 1;
        let parameters = format!("`sizes` = {:?}, `hosts_per_switch` = {hosts}", self.sizes);
        if ports > u32::from(MAX_FCFS_PORTS) {
            return Err(TopologyError(format!(
                "{kind}: {parameters} need switches of {ports} ports; at most {MAX_FCFS_PORTS} are possible"
            )));
        }
        let switches = grid.switches();
        let each = u64::from(hosts);
        let within_rows = (0..dimensions)
            .map(|d| (switches / u64::from(grid.sizes[d])).saturating_mul(grid.links_of_row(d)))
            .fold(0u64, u64::saturating_add);
        // If the number of switches exceeds its limit, the other numbers may overflow.
        let (hosts, links) = if switches > MAX_SWITCHES {
            (0, MAX_LINKS)
        } else {
            (switches * each, within_rows.saturating_add(switches * each))
        };
        check_size(kind, &parameters, [hosts, switches, links])?;
        Ok(grid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::TopologySpec;
    use crate::topology::distances::Distances;

    fn built(kind: &str, sizes: &[u16], hosts: u16) -> Topology {
        let json = serde_json::json!({ "kind": kind, "sizes": sizes, "hosts_per_switch": hosts });
        serde_json::from_value::<TopologySpec>(json).unwrap().build().unwrap()
    }

    fn message(kind: &str, sizes: &[u32], hosts: u32) -> String {
        let json = serde_json::json!({ "kind": kind, "sizes": sizes, "hosts_per_switch": hosts });
        let spec = serde_json::from_value::<TopologySpec>(json).unwrap();
        spec.build().map_err(|e| e.to_string()).err().unwrap_or_default()
    }

    const SIZES: [&[u16]; 8] = [&[2], &[3], &[5], &[4, 4], &[2, 3], &[3, 5, 2], &[4, 4, 4], &[2, 2, 2, 2]];

    /// The sum of the distances between all pairs of switches in a row of `k`.
    fn row_sum(rows: Rows, k: u64) -> u64 {
        match rows {
            Rows::Rings if k > 2 => k * (k * k / 4),
            Rows::Rings | Rows::Lines => k * (k * k - 1) / 3,
            Rows::Full => k * (k - 1),
        }
    }

    #[test]
    fn sizes_and_distances_follow_closed_forms() {
        for (kind, rows) in [("torus", Rows::Rings), ("mesh", Rows::Lines), ("hyperx", Rows::Full)] {
            for sizes in SIZES {
                let topology = built(kind, sizes, 2);
                let switches: u64 = sizes.iter().map(|&k| u64::from(k)).product();
                let links: u64 = sizes
                    .iter()
                    .map(|&k| {
                        let k = u64::from(k);
                        switches / k
                            * match rows {
                                Rows::Rings if k > 2 => k,
                                Rows::Rings | Rows::Lines => k - 1,
                                Rows::Full => k * (k - 1) / 2,
                            }
                    })
                    .sum();
                let counts = (topology.switches.len(), topology.hosts.len(), topology.links.len());
                assert_eq!(counts.0 as u64, switches, "{}", topology.name);
                assert_eq!((counts.1 as u64, counts.2 as u64), (2 * switches, links + 2 * switches));
                let found = Distances::of(&topology);
                let diameter: u64 = sizes
                    .iter()
                    .map(|&k| match rows {
                        Rows::Rings if k > 2 => u64::from(k) / 2,
                        Rows::Rings | Rows::Lines => u64::from(k) - 1,
                        Rows::Full => 1,
                    })
                    .sum();
                assert_eq!(u64::from(found.diameter), diameter, "{}", topology.name);
                // Dimensions are independent: each pair of coordinates occurs (switches / k)^2 times.
                let sum: u64 = sizes
                    .iter()
                    .map(|&k| (switches / u64::from(k)).pow(2) * row_sum(rows, u64::from(k)))
                    .sum();
                assert_eq!(found.sum, sum, "{}", topology.name);
            }
        }
    }

    #[test]
    fn the_bisection_has_the_expected_number_of_links() {
        // The halves along the last dimension, of size k, are connected by two links per ring, one link per line,
        // and a quarter of k squared links per fully connected row.
        for (kind, per_row) in [("torus", 2), ("mesh", 1), ("hyperx", 4)] {
            let topology = built(kind, &[4, 3, 4], 1);
            let Shape::Grid(grid) = &topology.shape else { unreachable!("a grid") };
            let low = |end: crate::topology::End| match end.node {
                crate::topology::NodeRef::Switch(at) => grid.coordinate(at as usize, 2) < 2,
                crate::topology::NodeRef::Host(host) => grid.coordinate(grid.home(host as usize), 2) < 2,
            };
            let crossing = topology.links.iter().filter(|link| low(link.a) != low(link.b)).count();
            assert_eq!(crossing, 12 * per_row, "{kind}");
        }
    }

    #[test]
    fn nodes_and_ports_are_numbered_as_documented() {
        let torus = built("torus", &[3, 2], 2);
        let links: Vec<String> = torus
            .links
            .iter()
            .map(|l| format!("{} {}", torus.port_name(l.a), torus.port_name(l.b)))
            .collect();
        assert_eq!(links[0..3], ["H1:1 S0.0:1", "H2:1 S0.0:2", "H3:1 S1.0:1"]);
        assert_eq!(links[12..15], ["S0.0:3 S1.0:4", "S1.0:3 S2.0:4", "S2.0:3 S0.0:4"]);
        assert_eq!(links[18..], ["S0.0:5 S0.1:6", "S1.0:5 S1.1:6", "S2.0:5 S2.1:6"]);
        let full = built("hyperx", &[3], 1);
        let links: Vec<String> = full.links[3..]
            .iter()
            .map(|l| format!("{} {}", full.port_name(l.a), full.port_name(l.b)))
            .collect();
        assert_eq!(links, ["S0:2 S1:2", "S0:3 S2:2", "S1:3 S2:3"]);
        assert_eq!(torus.name, "3 x 2 torus, 2 hosts per switch");
        assert_eq!(full.name, "3 HyperX, a host per switch");
    }

    #[test]
    fn invalid_parameters_are_reported() {
        assert_eq!(
            message("torus", &[], 1),
            "torus: `sizes` has 0 entries; it must have 1 to 8, one per dimension"
        );
        assert_eq!(message("mesh", &[4, 1], 1), "mesh: `sizes[1]` = 1 is out of range; it must be 2 to 1024");
        assert_eq!(
            message("hyperx", &[1025], 1),
            "hyperx: `sizes[0]` = 1025 is out of range; it must be 2 to 1024"
        );
        assert_eq!(
            message("torus", &[4], 0),
            "torus: `hosts_per_switch` = 0 is out of range; it must be 1 to 1023"
        );
        assert_eq!(
            message("hyperx", &[900, 60], 67),
            "hyperx: `sizes` = [900, 60], `hosts_per_switch` = 67 need switches of 1025 ports; at most 1024 are \
             possible"
        );
        assert_eq!(
            message("torus", &[250; 8], 8),
            "torus: `sizes` = [250, 250, 250, 250, 250, 250, 250, 250], `hosts_per_switch` = 8 make more \
             than 100000 switches, which is the maximum; choose smaller values"
        );
        assert_eq!(
            message("torus", &[250, 250], 4),
            "torus: `sizes` = [250, 250], `hosts_per_switch` = 4 make more than 200000 hosts, which is \
             the maximum; choose smaller values"
        );
    }
}
