//! Hosts, switches and the links between them.
//!
//! A [`Topology`] is plain data: generators (one file per family) and importers of real fabrics
//! build it, [`Topology::validate`] checks it, routing and the model read it.
//!
//! | file | family |
//! | --- | --- |
//! | [`dumbbell`] | two switches and a trunk, the testbed of the papers |
//! | [`star`] | one switch |
//! | [`pgft`] | any parallel-ports generalised fat tree |
//! | [`k_ary_n_tree`] | k-ary n-trees |
//! | [`k_ary_n_fly`] | k-ary n-flies: multistage networks, one-way or bidirectional |
//! | [`modified_tree`] | k-ary n-trees with horizontal links |
//! | [`two_level`] | leaves and spines, with the 648-port fabric as a preset |
//! | [`three_level`] | the full three-level tree of one kind of switch |
//! | [`grid`] | tori, meshes and `HyperX` |
//! | [`dragonfly`] | dragonflies |
//! | [`dragonfly_plus`] | dragonflies whose groups are of leaves and spines |
//! | [`custom`] | lists of hosts, switches and links |
//!
//! [`spec`] chooses among them in a scenario; [`validate`](Topology::validate) is the one check
//! that every topology passes, generated or imported.

use std::fmt;

pub mod custom;
#[cfg(test)]
mod distances;
pub mod dragonfly;
pub mod dragonfly_plus;
pub mod dumbbell;
pub mod grid;
mod groups;
pub mod k_ary_n_fly;
pub mod k_ary_n_tree;
pub mod modified_tree;
pub(crate) mod parameters;
pub mod pgft;
pub mod spec;
pub mod star;
pub mod three_level;
pub mod two_level;
mod validate;

pub use grid::Grid;
pub use groups::{Arrangement, Groups, Inside};
pub use k_ary_n_fly::Fly;
pub use pgft::Pgft;
pub use spec::TopologySpec;

use silvan_engine::{Rate, Time};

/// Most hosts of a topology.
pub const MAX_HOSTS: u64 = 200_000;
/// Most switches of a topology.
pub const MAX_SWITCHES: u64 = 100_000;
/// Most links of a topology, parallel ones counted each.
pub const MAX_LINKS: u64 = 2_000_000;
/// Most ports of one switch: what an event of a run can name.
pub const MAX_SWITCH_PORTS: u16 = 256;
/// Most ports of all switches together, wired or not.
pub const MAX_PORTS: u64 = 2 * MAX_LINKS;
/// Longest propagation delay of a link, one second.
pub const MAX_LINK_DELAY: Time = Time(1_000_000_000_000);

/// A host: source and sink of traffic, with one network port (port 1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// As shown in results and used in scenarios; unique among all nodes.
    pub name: String,
    /// What the subnet manager calls its port, in imported fabrics.
    pub lid: Option<u16>,
    /// Port GUID in imported fabrics.
    pub guid: Option<u64>,
}

/// A switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    /// As shown in results and used in scenarios; unique among all nodes.
    pub name: String,
    /// Number of external ports; they are numbered 1..=ports, as on the device.
    pub ports: u16,
    /// What the subnet manager calls it, in imported fabrics.
    pub lid: Option<u16>,
    /// Node GUID in imported fabrics.
    pub guid: Option<u64>,
}

/// A node by kind and index into [`Topology::hosts`] or [`Topology::switches`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeRef {
    /// Index into [`Topology::hosts`].
    Host(u32),
    /// Index into [`Topology::switches`].
    Switch(u32),
}

/// One end of a link: a node and its port number (from 1; a host has port 1 only).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// The node.
    pub node: NodeRef,
    /// Its port, from 1.
    pub port: u16,
}

/// A link: two directed channels of the same rate and delay, or one if it is one-way.
///
/// Where links are one-way, a port has a sending and a receiving side that may lead to different
/// nodes; a wired port has both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// One end; the sending one of a one-way link.
    pub a: End,
    /// The other end.
    pub b: End,
    /// Data rate of each direction (after line coding).
    pub rate: Rate,
    /// Propagation delay of each direction; more than zero.
    pub delay: Time,
    /// Whether there is only the channel from `a` to `b`.
    pub one_way: bool,
}

impl Link {
    /// The sending and the receiving end of each of its channels: first from `a` to `b`, then,
    /// unless it is one-way, from `b` to `a`.
    pub fn channels(&self) -> impl Iterator<Item = (End, End)> + use<> {
        let back = (!self.one_way).then_some((self.b, self.a));
        std::iter::once((self.a, self.b)).chain(back)
    }
}

/// A wired network.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    /// The family, for messages and reports ("4-ary 3-tree").
    pub name: String,
    /// All hosts; a host's index is its number everywhere in the model.
    pub hosts: Vec<Host>,
    /// All switches.
    pub switches: Vec<Switch>,
    /// All links, in no particular order.
    pub links: Vec<Link>,
    /// What a routing made for the family needs to know; empty for arbitrary graphs.
    pub shape: Shape,
}

/// The regular structure of a generated topology, for the routings that rely on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Shape {
    /// Nothing is known beyond the graph.
    #[default]
    Arbitrary,
    /// A parallel-ports generalised fat tree; see [`Pgft`]. It may have links within a level besides.
    FatTree(Pgft),
    /// The same, with hosts and switches numbered as a perfect shuffle has them; see
    /// [`k_ary_n_fly`].
    ShuffledFatTree(Pgft),
    /// A multistage network of one-way links; see [`Fly`].
    Fly(Fly),
    /// A torus, mesh or `HyperX`; see [`Grid`].
    Grid(Grid),
    /// A dragonfly or dragonfly+; see [`Groups`].
    Groups(Groups),
}

/// What is wrong with a topology, in terms of its nodes and ports.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TopologyError(pub String);

impl fmt::Display for NodeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(i) => write!(f, "host {i}"),
            Self::Switch(i) => write!(f, "switch {i}"),
        }
    }
}

impl Topology {
    /// The name of a node, "?" for one that does not exist.
    #[must_use]
    pub fn name_of(&self, node: NodeRef) -> &str {
        match node {
            NodeRef::Host(i) => self.hosts.get(i as usize).map_or("?", |host| &host.name),
            NodeRef::Switch(i) => self.switches.get(i as usize).map_or("?", |switch| &switch.name),
        }
    }

    /// The host of a given name.
    #[must_use]
    pub fn host_named(&self, name: &str) -> Option<u32> {
        self.hosts.iter().position(|h| h.name == name).and_then(|i| u32::try_from(i).ok())
    }

    /// The switch of a given name.
    #[must_use]
    pub fn switch_named(&self, name: &str) -> Option<u32> {
        self.switches.iter().position(|s| s.name == name).and_then(|i| u32::try_from(i).ok())
    }

    /// A port as people write it: the node's name, a colon, the port number ("S1:4").
    #[must_use]
    pub fn port_name(&self, end: End) -> String {
        format!("{}:{}", self.name_of(end.node), end.port)
    }

    /// Whether some link is one-way.
    #[must_use]
    pub fn has_one_way_links(&self) -> bool {
        self.links.iter().any(|link| link.one_way)
    }

    /// Number of directed channels: two per link, one for a one-way link.
    #[must_use]
    pub fn channel_count(&self) -> usize {
        self.links.iter().map(|link| if link.one_way { 1 } else { 2 }).sum()
    }

    /// Where each port of each node sends to: `peers[node][port - 1]`, hosts first, then
    /// switches, with the index of the link.
    #[must_use]
    pub fn wiring(&self) -> Wiring {
        let mut wiring = Wiring {
            hosts: vec![None; self.hosts.len()],
            switches: self.switches.iter().map(|s| vec![None; usize::from(s.ports)]).collect(),
        };
        for (index, link) in self.links.iter().enumerate() {
            for (from, to) in link.channels() {
                let slot = match from.node {
                    NodeRef::Host(i) => wiring.hosts.get_mut(i as usize),
                    NodeRef::Switch(i) => wiring
                        .switches
                        .get_mut(i as usize)
                        .and_then(|ports| ports.get_mut(usize::from(from.port).wrapping_sub(1))),
                };
                if let Some(slot) = slot {
                    *slot = Some((to, index));
                }
            }
        }
        wiring
    }
}

/// Where every port sends to, and over which link; see [`Topology::wiring`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wiring {
    /// For each host, where its port 1 sends to.
    pub hosts: Vec<Option<(End, usize)>>,
    /// For each switch, where each port (index = port - 1) sends to.
    pub switches: Vec<Vec<Option<(End, usize)>>>,
}
