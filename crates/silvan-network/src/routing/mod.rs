//! Forwarding tables, and their analysis before a run.
//!
//! | file | contents |
//! | --- | --- |
//! | [`d_mod_k`] | D-mod-K on fat trees |
//! | [`destination_tag`] | by the destination's digits, on unidirectional k-ary n-flies |
//! | [`dimension_order`] | dimension by dimension, on tori, meshes and `HyperX` |
//! | [`minimal`] | over one global link, on dragonflies and dragonfly+ |
//! | [`valiant`] | over a random intermediate group per pair of hosts, or per packet if that is better (UGAL) |
//! | [`up_down`] | up*/down* on any graph |
//! | [`ranks`] | ranks of switches for up*/down* without given roots |
//! | [`fill`] | moves destinations to links without flows |
//! | [`shortest_path`] | fewest hops on any graph, which may deadlock |
//! | [`check`] | paths, loads and unroutable pairs of any tables |
//! | [`spread`] | whether routes leave links unused, or load them unevenly |
//! | [`adaptive`] | routes selected switch by switch when a flow starts |
//! | [`path_bits`] | the LIDs that packets use, if hosts have several |
//! | [`shares`] | links of single flows if switches hash or divide them |
//! | [`port_groups`] | ports among which each packet can select |
//! | [`deadlock`] | whether packets can wait for each other in a cycle |
//! | [`sound`] | a fast check that all packets arrive and cannot wait for each other in a cycle |
//! | [`ecmp`] | hash functions by which switches select among ports |
//! | [`spraying`], [`path_states`] | entropy values of packets, and their states after losses |
//! | [`lanes`] | service levels of paths, and their mapping to lanes by switches |
//! | [`lane_check`] | deadlock check per lane |
//!
//! Tables depend only on destinations: the current switch and the destination of a packet determine its next hop,
//! as in InfiniBand's linear forwarding tables. A host may have several LIDs, each with its own routes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::topology::{End, NodeRef, Shape, Topology, TopologyError};

pub mod adaptive;
pub mod check;
pub mod d_mod_k;
pub mod deadlock;
pub mod destination_tag;
pub mod dimension_order;
pub mod ecmp;
mod fill;
mod graph;
pub mod lane_check;
pub mod lanes;
pub mod minimal;
pub mod path_bits;
pub mod path_states;
pub mod port_groups;
mod ranks;
pub mod shares;
pub mod shortest_path;
pub mod sound;
pub mod spraying;
pub mod spread;
pub mod up_down;
pub mod valiant;

pub use check::analyze_lanes_among;
pub use check::{
    Analysis, Channel, LoadSummary, Path, analyze, analyze_lanes, trace, trace_lanes, trace_lids,
};
pub use deadlock::{ChannelName, cycle_text, deadlock_cycle};
pub use lane_check::{LaneAnalysis, LaneVerdict, check_lanes};
pub use lanes::{LaneMaps, Lanes, PathLevels};
pub use shares::{Division, Shares};
pub use sound::is_sound;
pub use spread::Spread;

use d_mod_k::DModK;
use destination_tag::DestinationTag;
use dimension_order::DimensionOrder;
use minimal::Minimal;
use shortest_path::ShortestPath;
use up_down::UpDown;
use valiant::{Ugal, Valiant};

/// Maximum number of entries (switches times hosts) of computed tables, which take 1 GB of memory.
pub const MAX_TABLE_ENTRIES: u64 = 500_000_000;

/// Linear forwarding tables: the output port for each switch and destination host.
///
/// A port with LID mask control (LMC) m answers to 2^m consecutive LIDs, starting at its base LID. Switches
/// have an entry for each of them. The lower m bits of a LID are its path bits, which the sender of a packet
/// selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    /// `out[switch][host]` is the output port (from 1) for the base LID of the host, or [`Tables::NO_ROUTE`].
    pub out: Vec<Vec<u16>>,
    /// Tables of the other LIDs of hosts: `further[i]` is for path bits `i + 1`. Hosts with fewer LIDs than others
    /// repeat their entries. Empty if all hosts have one LID.
    pub further: Vec<Vec<Vec<u16>>>,
}

/// The reason why tables cannot be computed, or why a packet does not arrive with them. Nodes are given by name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    /// The network is invalid.
    #[error("{0}")]
    Topology(#[from] TopologyError),
    /// The algorithm does not support the network, or a parameter is invalid.
    #[error("{0}")]
    Unsuitable(String),
    /// Tables of the wrong size or with ports that do not exist.
    #[error("{0}")]
    BadTables(String),
    /// A host that does not exist, or has no link.
    #[error("{0}")]
    BadHost(String),
    /// A switch has no entry for the destination.
    #[error("from {from} to {to}: switch {switch} has no route to {to}")]
    NoRoute {
        /// Source host.
        from: String,
        /// Destination host.
        to: String,
        /// The switch that cannot forward the packet.
        switch: String,
    },
    /// The table names a port without a link.
    #[error("from {from} to {to}: switch {switch} sends out of port {port}, which has no link")]
    Unwired {
        /// Source host.
        from: String,
        /// Destination host.
        to: String,
        /// The switch that cannot forward the packet.
        switch: String,
        /// The table's entry.
        port: u16,
    },
    /// The packet returns to a switch that it has already passed.
    #[error("from {from} to {to}: the route returns to switch {switch} and loops")]
    Loop {
        /// Source host.
        from: String,
        /// Destination host.
        to: String,
        /// The first switch that is passed twice.
        switch: String,
    },
    /// The packet is delivered to another host.
    #[error("from {from} to {to}: switch {switch} delivers to host {arrived} by port {port}")]
    WrongHost {
        /// Source host.
        from: String,
        /// Destination host.
        to: String,
        /// The last switch.
        switch: String,
        /// The table's entry.
        port: u16,
        /// The host that receives the packet.
        arrived: String,
    },
}

impl Tables {
    /// The switch has no route to the destination.
    pub const NO_ROUTE: u16 = 0;

    /// Tables for one LID per host.
    #[must_use]
    pub fn new(out: Vec<Vec<u16>>) -> Self {
        Self { out, further: Vec::new() }
    }

    /// The largest number of LIDs of a host.
    #[must_use]
    pub fn lids(&self) -> usize {
        1 + self.further.len()
    }

    /// The tables for path bits: the output port for each switch and destination host. If there are no such
    /// tables, those of the base LIDs.
    #[must_use]
    pub fn rows(&self, path_bits: usize) -> &[Vec<u16>] {
        let further = path_bits.checked_sub(1).and_then(|at| self.further.get(at));
        further.map_or(&self.out, |rows| rows)
    }

    /// The tables of all LIDs, in the order of the path bits.
    pub fn all_rows(&self) -> impl Iterator<Item = &[Vec<u16>]> {
        (0..self.lids()).map(|path_bits| self.rows(path_bits))
    }

    /// Tables of the correct size without any route.
    #[must_use]
    pub fn empty(topology: &Topology) -> Self {
        Self::new(vec![vec![Self::NO_ROUTE; topology.hosts.len()]; topology.switches.len()])
    }

    /// The entries for some of the hosts, in the given order. Hosts that do not exist are omitted.
    #[must_use]
    pub fn of_hosts(&self, hosts: &[usize]) -> Self {
        let rows = |rows: &[Vec<u16>]| {
            rows.iter().map(|row| hosts.iter().filter_map(|&host| row.get(host).copied()).collect()).collect()
        };
        Self { out: rows(&self.out), further: self.further.iter().map(|further| rows(further)).collect() }
    }

    /// Adds the routes to the reduction units of a network, for tables of the network without units. A unit receives
    /// packets from the hosts and the units of its own switch and of adjacent switches; other switches have no route to
    /// it. Such routes have at most one link between switches, so they cannot add a cycle of dependencies.
    #[must_use]
    pub fn with_units(mut self, topology: &Topology) -> Self {
        let wiring = topology.wiring();
        let units = topology.end_hosts() as usize..topology.hosts.len();
        for rows in std::iter::once(&mut self.out).chain(&mut self.further) {
            for (row, ports) in rows.iter_mut().zip(&wiring.switches) {
                // The lowest port that leads to the switch of the unit, or to the unit itself.
                let port = |unit: usize| {
                    let home = wiring.hosts[unit].map(|(end, _)| end.node);
                    let unit = Some(NodeRef::Host(unit as u32));
                    let leads = |peer: &Option<(End, usize)>| {
                        let node = peer.map(|(end, _)| end.node);
                        node == unit || node == home
                    };
                    ports.iter().position(leads).map_or(Self::NO_ROUTE, |port| port as u16 + 1)
                };
                row.extend(units.clone().map(port));
            }
        }
        self
    }

    /// The output port of a switch towards the base LID of a host, or [`Tables::NO_ROUTE`] if there is no entry.
    #[must_use]
    pub fn port(&self, switch: usize, host: usize) -> u16 {
        self.port_by(0, switch, host)
    }

    /// The output port of a switch towards a LID of a host, or [`Tables::NO_ROUTE`] if there is no entry.
    #[must_use]
    pub fn port_by(&self, path_bits: usize, switch: usize, host: usize) -> u16 {
        let table = self.rows(path_bits).get(switch);
        table.and_then(|table| table.get(host)).copied().unwrap_or(Self::NO_ROUTE)
    }

    /// Checks that there is a table per switch with an entry per host, and that every entry is a port of
    /// its switch or [`Tables::NO_ROUTE`]. [`analyze`] checks whether packets arrive.
    ///
    /// # Errors
    /// [`RoutingError::BadTables`] with the first violated condition.
    pub fn validate(&self, topology: &Topology) -> Result<(), RoutingError> {
        self.all_rows().try_for_each(|rows| validate_rows(rows, topology))
    }
}

fn validate_rows(rows: &[Vec<u16>], topology: &Topology) -> Result<(), RoutingError> {
    let (tables, switches, hosts) = (rows.len(), topology.switches.len(), topology.hosts.len());
    if tables != switches {
        return Err(RoutingError::BadTables(format!(
            "there are {tables} forwarding tables for {switches} switches; there must be one for each"
        )));
    }
    for (switch, table) in topology.switches.iter().zip(rows) {
        if table.len() != hosts {
            return Err(RoutingError::BadTables(format!(
                "the forwarding table of switch {} has {} entries; it must have one for each of {hosts} hosts",
                switch.name,
                table.len()
            )));
        }
        if let Some(host) = table.iter().position(|&port| port > switch.ports) {
            return Err(RoutingError::BadTables(format!(
                "the forwarding table of switch {} sends to host {} by port {}; its ports are 1 to {}",
                switch.name, topology.hosts[host].name, table[host], switch.ports
            )));
        }
    }
    Ok(())
}

/// An algorithm that computes tables: its `kind` and the parameters of that kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum RoutingSpec {
    /// D-mod-K, for fat trees and bidirectional k-ary n-flies.
    DModK(DModK),
    /// By the digits of the destination, for unidirectional k-ary n-flies.
    DestinationTag(DestinationTag),
    /// Dimension by dimension, for tori, meshes and `HyperX`.
    DimensionOrder(DimensionOrder),
    /// Over the link between the two groups, for dragonflies and dragonfly+.
    Minimal(Minimal),
    /// Over a random group per pair of hosts, for dragonflies and dragonfly+.
    Valiant(Valiant),
    /// Minimal or over a random group, depending on the load at the first switch, for dragonflies and dragonfly+.
    Ugal(Ugal),
    /// Up*/down*, deadlock-free on any graph with bidirectional links.
    UpDown(UpDown),
    /// Fewest hops on any graph; can deadlock if there are rings.
    ShortestPath(ShortestPath),
}

impl RoutingSpec {
    /// The default routing of a network: D-mod-K on a fat tree or bidirectional k-ary n-fly, destination-tag
    /// on a unidirectional k-ary n-fly, dimension order on a torus, mesh or `HyperX`, minimal routes on a
    /// dragonfly or dragonfly+, fewest hops on other networks with unidirectional links, up*/down* otherwise.
    #[must_use]
    pub fn suitable(topology: &Topology) -> Self {
        let shape = match &topology.shape {
            Shape::Planes(shape) => shape,
            shape => shape,
        };
        match shape {
            Shape::FatTree(_) | Shape::ShuffledFatTree(_) => Self::DModK(DModK {}),
            Shape::Fly(_) => Self::DestinationTag(DestinationTag {}),
            Shape::Grid(_) => Self::DimensionOrder(DimensionOrder {}),
            Shape::Groups(_) => Self::Minimal(Minimal {}),
            Shape::Arbitrary | Shape::Planes(_) if topology.has_one_way_links() => {
                Self::ShortestPath(ShortestPath {})
            }
            Shape::Arbitrary | Shape::Planes(_) => Self::UpDown(UpDown::default()),
        }
    }

    /// Computes the tables, in which all pairs of hosts of the same part of the network are routed.
    ///
    /// # Errors
    /// [`RoutingError::Topology`] if the network is invalid, [`RoutingError::Unsuitable`] if the algorithm
    /// cannot route it or there would be more than [`MAX_TABLE_ENTRIES`] entries.
    pub fn compute(&self, topology: &Topology) -> Result<Tables, RoutingError> {
        topology.validate()?;
        let (switches, hosts) = (topology.switches.len() as u64, topology.hosts.len() as u64);
        if switches * hosts > MAX_TABLE_ENTRIES {
            return Err(RoutingError::Unsuitable(format!(
                "tables of {switches} switches for {hosts} hosts have more than {MAX_TABLE_ENTRIES} entries, the \
                 maximum; choose a smaller network"
            )));
        }
        let parts = topology.parts();
        if let [_] = parts[..] {
            return self.compute_connected(topology);
        }
        let mut tables = Tables::empty(topology);
        for part in parts {
            let own = self.compute_connected(&topology.only(&part))?;
            for (&switch, row) in part.switches.iter().zip(&own.out) {
                for (&host, &port) in part.hosts.iter().zip(row) {
                    tables.out[switch as usize][host as usize] = port;
                }
            }
        }
        Ok(tables)
    }

    fn compute_connected(&self, topology: &Topology) -> Result<Tables, RoutingError> {
        match self {
            Self::DModK(spec) => spec.compute(topology),
            Self::DestinationTag(spec) => spec.compute(topology),
            Self::DimensionOrder(spec) => spec.compute(topology),
            Self::Minimal(spec) => spec.compute(topology),
            Self::Valiant(spec) => spec.compute(topology),
            Self::Ugal(spec) => spec.compute(topology),
            Self::UpDown(spec) => spec.compute(topology),
            Self::ShortestPath(spec) => spec.compute(topology),
        }
    }

    /// The lanes that make the routes deadlock-free, for algorithms that define such lanes: dimension order,
    /// minimal, Valiant and UGAL routes. The algorithm must support the topology.
    ///
    /// # Errors
    /// [`RoutingError::Unsuitable`] if the network is of another family, or too large.
    pub fn lanes(&self, topology: &Topology) -> Result<Option<Lanes>, RoutingError> {
        match self {
            Self::DimensionOrder(_) => dimension_order::datelines(topology).map(Some),
            Self::Minimal(_) => minimal::stages(topology).map(Some),
            Self::Valiant(spec) => spec.lanes(topology).map(Some),
            Self::Ugal(spec) => spec.lanes(topology).map(Some),
            Self::DModK(_) | Self::DestinationTag(_) | Self::UpDown(_) | Self::ShortestPath(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::dumbbell::Dumbbell;
    use crate::topology::k_ary_n_tree::KAryNTree;

    #[test]
    fn every_kind_is_read_by_its_name() {
        let testbed = Dumbbell::default().build().unwrap();
        for json in [
            r#"{"kind": "up-down"}"#,
            r#"{"kind": "up-down", "root": "S2"}"#,
            r#"{"kind": "up-down", "root": ["S2", "S1"]}"#,
            r#"{"kind": "shortest-path"}"#,
        ] {
            let spec: RoutingSpec = serde_json::from_str(json).unwrap();
            let tables = spec.compute(&testbed).unwrap();
            assert_eq!(tables.out, [[1, 2, 3, 4, 4, 4, 4], [5, 5, 5, 1, 2, 3, 4]], "{json}");
            let written = serde_json::to_string(&spec).unwrap();
            assert_eq!(serde_json::from_str::<RoutingSpec>(&written).unwrap(), spec);
        }
        let wrong = serde_json::from_str::<RoutingSpec>(r#"{"kind": "d-mod-k", "root": "S2"}"#);
        assert_eq!(
            wrong.map_err(|e| e.to_string()),
            Err("unknown field `root`, there are no fields".to_owned())
        );
    }

    #[test]
    fn the_suitable_algorithm_routes_every_family() {
        for topology in [Dumbbell::default().build().unwrap(), KAryNTree::new(2, 3).build().unwrap()] {
            let tables = RoutingSpec::suitable(&topology).compute(&topology).unwrap();
            assert_eq!(analyze(&topology, &tables).unroutable, 0, "{}", topology.name);
        }
    }

    #[test]
    fn invalid_networks_and_tables_are_rejected() {
        let mut testbed = Dumbbell::default().build().unwrap();
        let mut tables = RoutingSpec::suitable(&testbed).compute(&testbed).unwrap();
        assert_eq!(tables.validate(&testbed), Ok(()));
        let message =
            |tables: &Tables, topology| tables.validate(topology).map_err(|e| e.to_string()).err().unwrap();
        tables.out[1][2] = 6;
        assert_eq!(
            message(&tables, &testbed),
            "the forwarding table of switch S2 sends to host H3 by port 6; its ports are 1 to 5"
        );
        tables.out[0].pop();
        assert_eq!(
            message(&tables, &testbed),
            "the forwarding table of switch S1 has 6 entries; it must have one for each of 7 hosts"
        );
        tables.out.pop();
        assert_eq!(
            message(&tables, &testbed),
            "there are 1 forwarding tables for 2 switches; there must be one for each"
        );
        testbed.links.pop();
        assert_eq!(
            RoutingSpec::suitable(&testbed).compute(&testbed).map_err(|e| e.to_string()).err().as_deref(),
            Some("no path leads from host H1 to host H4")
        );
    }
}
