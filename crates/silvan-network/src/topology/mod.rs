//! Hosts, switches and the links between them.
//!
//! A [`Topology`] is plain data. Generators (one file per family) and importers of real fabrics create it,
//! [`Topology::validate`] checks it, and routing and simulation read it.
//!
//! | file | family |
//! | --- | --- |
//! | [`dumbbell`] | two switches and a trunk, the testbed of Papers I to III |
//! | [`star`] | one switch |
//! | [`pgft`] | any parallel-ports generalized fat tree |
//! | [`k_ary_n_tree`] | k-ary n-trees |
//! | [`k_ary_n_fly`] | k-ary n-flies: multistage networks, unidirectional or bidirectional |
//! | [`modified_tree`] | k-ary n-trees with horizontal links |
//! | [`two_level`] | leaves and spines, with the 648-port fabric as a preset |
//! | [`three_level`] | the full three-level tree of switches with equal radix |
//! | [`grid`] | tori, meshes and `HyperX` |
//! | [`dragonfly`] | dragonflies |
//! | [`dragonfly_plus`] | dragonflies whose groups consist of leaves and spines |
//! | [`custom`] | lists of hosts, switches and links |
//! | [`ports`] | gives the hosts of any network several ports |
//! | [`units`] | adds reduction units to the switches of any network |
//!
//! [`spec`] selects a generator in a scenario. [`validate`](Topology::validate) checks every topology,
//! whether generated or imported.

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
pub mod ports;
pub mod spec;
pub mod star;
pub mod three_level;
pub mod two_level;
mod units;
mod validate;

pub use grid::Grid;
pub use groups::{Arrangement, Groups, Inside};
pub use k_ary_n_fly::Fly;
pub use pgft::Pgft;
pub use ports::{Cabling, MAX_HOST_PORTS, Machine, NetworkPart, PartNumbers};
pub use spec::TopologySpec;
pub use units::UnitTree;

use silvan_engine::{Rate, Time};

/// The part of error messages that explains why a host has no second port.
pub const HOST_PORTS: &str = "a host has one port: write a host with several ports as one host per rail, such as A-rail1 \
                              and A-rail2, and give a job both, as the scenario two-rails does";

/// Whether a name has only characters that are visible, or blanks: no control characters, no characters that change
/// the direction of text, and none without width.
#[must_use]
pub fn is_visible(name: &str) -> bool {
    name.chars().all(|c| {
        !c.is_control()
            && !matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    })
}

/// Maximum number of hosts of a topology.
pub const MAX_HOSTS: u64 = 200_000;
/// Maximum number of switches of a topology.
pub const MAX_SWITCHES: u64 = 100_000;
/// Maximum number of links of a topology; parallel links count individually.
pub const MAX_LINKS: u64 = 2_000_000;
/// Maximum number of ports of a switch with queues per input.
pub const MAX_SWITCH_PORTS: u16 = 256;
/// Maximum number of ports of a switch whose outputs serve first come, first served. Larger port numbers do not fit in an
/// event.
pub const MAX_FCFS_PORTS: u16 = 1_024;
/// Maximum number of ports of all switches together, connected or not.
pub const MAX_PORTS: u64 = 2 * MAX_LINKS;
/// Maximum propagation delay of a link, one second.
pub const MAX_LINK_DELAY: Time = Time(1_000_000_000_000);

/// A host: source and sink of traffic, with one network port (port 1). A port of a host with several ports is such an
/// entry, too; see [`Machine`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Host {
    /// Name in results and scenarios; unique among all nodes.
    pub name: String,
    /// Base LID of its port, in imported fabrics.
    pub lid: Option<u16>,
    /// LID mask control (LMC) of its port: the port has 2^LMC consecutive LIDs, starting at the base LID.
    pub lmc: u8,
    /// Port GUID in imported fabrics.
    pub guid: Option<u64>,
}

/// A switch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Switch {
    /// Name in results and scenarios; unique among all nodes.
    pub name: String,
    /// Number of external ports, which are numbered 1..=ports as on the device.
    pub ports: u16,
    /// Base LID of the switch, in imported fabrics.
    pub lid: Option<u16>,
    /// LID mask control (LMC) of its management port.
    pub lmc: u8,
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
    /// The node's port, from 1.
    pub port: u16,
}

/// A link, which consists of two directed channels with the same rate and delay, or of one channel if it is
/// unidirectional.
///
/// With unidirectional links, the sending and the receiving side of a port may lead to different nodes. A
/// connected port uses both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Link {
    /// One end; the sending end of a unidirectional link.
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
    /// The sending and the receiving end of each channel: first from `a` to `b`, then, unless the link is
    /// unidirectional, from `b` to `a`.
    pub fn channels(&self) -> impl Iterator<Item = (End, End)> + use<> {
        let back = (!self.one_way).then_some((self.b, self.a));
        std::iter::once((self.a, self.b)).chain(back)
    }
}

/// A network of hosts, switches and links.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    /// The family, for messages and reports ("4-ary 3-tree").
    pub name: String,
    /// All hosts, followed by the reduction units, which send and receive as hosts do. The index of a host is its
    /// number everywhere in the model.
    pub hosts: Vec<Host>,
    /// Number of reduction units, the last entries of `hosts`; see [`Topology::add_units`]. Patterns of traffic do not
    /// include them.
    pub units: u32,
    /// All switches.
    pub switches: Vec<Switch>,
    /// All links, in no particular order.
    pub links: Vec<Link>,
    /// The hosts with several ports, which consist of entries of `hosts`. Hosts with one port are included then. Empty if
    /// all hosts have one port.
    pub machines: Vec<Machine>,
    /// The regular structure, for routing algorithms of the family.
    pub shape: Shape,
}

/// The regular structure of a generated topology, for routing algorithms that rely on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Shape {
    /// No structure is known.
    #[default]
    Arbitrary,
    /// A parallel-ports generalized fat tree; see [`Pgft`]. It may also have links within a level.
    FatTree(Pgft),
    /// Same as `FatTree`, but with hosts and switches numbered for a perfect shuffle; see [`k_ary_n_fly`].
    ShuffledFatTree(Pgft),
    /// A multistage network with unidirectional links; see [`Fly`].
    Fly(Fly),
    /// A torus, mesh or `HyperX`; see [`Grid`].
    Grid(Grid),
    /// A dragonfly or dragonfly+; see [`Groups`].
    Groups(Groups),
    /// Copies of a network that are not connected; see [`Cabling::Planes`].
    Planes(Box<Shape>),
}

/// An invalid topology, described by its nodes and ports.
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
    /// Number of hosts without the reduction units.
    #[must_use]
    pub fn end_hosts(&self) -> u32 {
        self.hosts.len() as u32 - self.units
    }

    /// The name of a node, "?" for one that does not exist.
    #[must_use]
    pub fn name_of(&self, node: NodeRef) -> &str {
        match node {
            NodeRef::Host(i) => self.hosts.get(i as usize).map_or("?", |host| &host.name),
            NodeRef::Switch(i) => self.switches.get(i as usize).map_or("?", |switch| &switch.name),
        }
    }

    /// The host with a given name.
    #[must_use]
    pub fn host_named(&self, name: &str) -> Option<u32> {
        self.hosts.iter().position(|h| h.name == name).and_then(|i| u32::try_from(i).ok())
    }

    /// The switch with a given name.
    #[must_use]
    pub fn switch_named(&self, name: &str) -> Option<u32> {
        self.switches.iter().position(|s| s.name == name).and_then(|i| u32::try_from(i).ok())
    }

    /// The name of a port: the node's name, a colon, the port number ("S1:4").
    #[must_use]
    pub fn port_name(&self, end: End) -> String {
        format!("{}:{}", self.name_of(end.node), end.port)
    }

    /// The network without some of its hosts, and the previous numbers of the remaining hosts. The shape of
    /// the result is [`Shape::Arbitrary`].
    #[must_use]
    pub fn without_hosts(&self, is_left_out: impl Fn(&Host) -> bool) -> (Self, Vec<usize>) {
        let kept: Vec<usize> =
            (0..self.hosts.len()).filter(|&host| !is_left_out(&self.hosts[host])).collect();
        let mut number = vec![None; self.hosts.len()];
        for (new, &old) in (0..).zip(&kept) {
            number[old] = Some(new);
        }
        let moved = |end: End| match end.node {
            NodeRef::Switch(_) => Some(end),
            NodeRef::Host(host) => {
                let new = number.get(host as usize).copied().flatten()?;
                Some(End { node: NodeRef::Host(new), ..end })
            }
        };
        let units = kept.iter().filter(|&&host| host >= self.end_hosts() as usize).count() as u32;
        let links =
            self.links.iter().filter_map(|link| Some(Link { a: moved(link.a)?, b: moved(link.b)?, ..*link }));
        let topology = Self {
            name: self.name.clone(),
            hosts: kept.iter().map(|&host| self.hosts[host].clone()).collect(),
            units,
            switches: self.switches.clone(),
            links: links.collect(),
            machines: Vec::new(),
            shape: Shape::Arbitrary,
        };
        (topology, kept)
    }

    /// Whether some link is unidirectional.
    #[must_use]
    pub fn has_one_way_links(&self) -> bool {
        self.links.iter().any(|link| link.one_way)
    }

    /// Number of directed channels: two per link, one for a unidirectional link.
    #[must_use]
    pub fn channel_count(&self) -> usize {
        self.links.iter().map(|link| if link.one_way { 1 } else { 2 }).sum()
    }

    /// Finds the end to which each port of each node sends, with the index of the link. `None` for ports that
    /// do not send. Links of nodes or ports that do not exist are ignored.
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

/// The destination of every port, with the index of the link; see [`Topology::wiring`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wiring {
    /// For each host, the destination of its port 1.
    pub hosts: Vec<Option<(End, usize)>>,
    /// For each switch, the destination of each port (index = port - 1).
    pub switches: Vec<Vec<Option<(End, usize)>>>,
}
