//! The extended routing table of a switch, with a default port and alternate ports for each destination.

use crate::routing::d_mod_k::DModK;
use crate::routing::{RoutingError, RoutingSpec, Tables};
use crate::topology::{NodeRef, Pgft, Shape, Topology};

/// The ports that can be used instead of the default one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alternates {
    /// The destination is not below: any up port.
    Up,
    /// The destination is below: the ports to one neighbor in the row. The input port of the packet determines the
    /// neighbor.
    Sideways,
}

/// The entry of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The port (from 1) that is used unless another port is better.
    pub default: u16,
    /// The alternate ports.
    pub alternates: Alternates,
}

/// A direction within a row of switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// The table of one switch (ERT in SYSTOR 2009), indexed by destination, with the lists of ports to which the
/// entries refer.
#[derive(Debug, Clone)]
pub struct ExtendedTable {
    switch: u32,
    entries: Vec<Entry>,
    up: Vec<u16>,
    left: Vec<u16>,
    right: Vec<u16>,
    /// The side to which packets from an input port may continue (index = port - 1).
    pub(super) onward: Vec<Side>,
}

impl ExtendedTable {
    /// Index of the table's switch in [`Topology::switches`].
    #[must_use]
    pub fn switch(&self) -> u32 {
        self.switch
    }

    /// Number of ports of the switch.
    #[must_use]
    pub fn ports(&self) -> u16 {
        self.onward.len() as u16
    }

    /// The entry of a destination host; `None` for hosts that do not exist.
    #[must_use]
    pub fn entry(&self, destination: u32) -> Option<Entry> {
        self.entries.get(destination as usize).copied()
    }

    /// The default port of a destination; [`Tables::NO_ROUTE`] without an entry.
    #[must_use]
    #[inline]
    pub fn default_port(&self, destination: u32) -> u16 {
        self.entries.get(destination as usize).map_or(Tables::NO_ROUTE, |entry| entry.default)
    }

    /// Whether packets for a destination go up from this switch, because the destination is not below it.
    /// False if the destination has no entry.
    #[must_use]
    pub fn is_up(&self, destination: u32) -> bool {
        self.entry(destination).is_some_and(|entry| entry.alternates == Alternates::Up)
    }

    /// The default port, and all ports that can replace it, for a packet that arrived at port `input` (from 1). The
    /// list may include the default port. If there is no entry, the port is [`Tables::NO_ROUTE`].
    #[must_use]
    #[inline]
    pub fn candidates(&self, input: u16, destination: u32) -> (u16, &[u16]) {
        let Some(entry) = self.entries.get(destination as usize) else { return (Tables::NO_ROUTE, &[]) };
        let alternates = match entry.alternates {
            Alternates::Up => &self.up,
            Alternates::Sideways => match self.onward.get(usize::from(input).wrapping_sub(1)) {
                Some(Side::Left) => &self.left,
                Some(Side::Right) => &self.right,
                None => return (entry.default, &[]),
            },
        };
        (entry.default, alternates)
    }
}

/// The tables of all switches.
#[derive(Debug, Clone)]
pub struct AdaptiveTables {
    /// The table of each switch, in the order of [`Topology::switches`].
    pub switches: Vec<ExtendedTable>,
}

impl AdaptiveTables {
    /// Tables of a fat tree, with or without horizontal links; default ports are those of D-mod-K.
    ///
    /// # Errors
    /// [`RoutingError::Topology`] if the network is invalid, [`RoutingError::Unsuitable`] if it is not a
    /// generated fat tree or is too large for tables.
    pub fn new(topology: &Topology) -> Result<Self, RoutingError> {
        let Shape::FatTree(tree) = &topology.shape else {
            return Err(RoutingError::Unsuitable(format!(
                "adaptive flow routing: {} is not a generated fat tree; choose modified-k-ary-n-tree",
                topology.name
            )));
        };
        let defaults = RoutingSpec::DModK(DModK {}).compute(topology)?;
        let place = RowPositions::new(tree);
        let wiring = topology.wiring();
        let mut switches: Vec<ExtendedTable> = Vec::with_capacity(defaults.out.len());
        for (switch, (ports, default)) in wiring.switches.iter().zip(defaults.out).enumerate() {
            let own = place.of(switch);
            let mut table = ExtendedTable {
                switch: switch as u32,
                entries: entries(tree, own, default),
                up: Vec::new(),
                left: Vec::new(),
                right: Vec::new(),
                onward: vec![own.longer_side(); ports.len()],
            };
            for (port, onward) in (1u16..).zip(&mut table.onward) {
                let peer = ports[usize::from(port) - 1].map(|(end, _)| end.node);
                let Some(NodeRef::Switch(peer)) = peer else { continue };
                let other = place.of(peer as usize);
                if other.level > own.level {
                    table.up.push(port);
                } else if other.level == own.level && peer as usize > switch {
                    table.right.push(port);
                    *onward = Side::Left;
                } else if other.level == own.level {
                    table.left.push(port);
                    *onward = Side::Right;
                }
            }
            switches.push(table);
        }
        Ok(Self { switches })
    }
}

fn entries(tree: &Pgft, own: RowPosition, default: Vec<u16>) -> Vec<Entry> {
    let below = tree.hosts_below(own.level);
    let is_above = |host: usize| host as u64 / below == own.row_number;
    let entry = |(host, default): (usize, u16)| Entry {
        default,
        alternates: if is_above(host) { Alternates::Sideways } else { Alternates::Up },
    };
    default.into_iter().enumerate().map(entry).collect()
}

/// The position of a switch in its row.
#[derive(Clone, Copy)]
struct RowPosition {
    level: usize,
    /// Number of the row within its level.
    row_number: u64,
    /// Position in the row, from the left.
    at: u64,
    /// Number of switches in the row.
    row: u64,
}

impl RowPosition {
    /// The side with more switches; the right side for a switch in the middle.
    fn longer_side(self) -> Side {
        if self.row - 1 - self.at >= self.at { Side::Right } else { Side::Left }
    }
}

struct RowPositions<'a> {
    tree: &'a Pgft,
    firsts: Vec<u64>,
}

impl<'a> RowPositions<'a> {
    fn new(tree: &'a Pgft) -> Self {
        Self { tree, firsts: (1..=tree.levels()).map(|level| tree.first_switch(level)).collect() }
    }

    fn of(&self, switch: usize) -> RowPosition {
        let level = self.firsts.partition_point(|&first| first <= switch as u64).max(1);
        let (within, row) = (switch as u64 - self.firsts[level - 1], self.tree.siblings(level));
        RowPosition { level, row_number: within / row, at: within % row, row }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::dumbbell::Dumbbell;
    use crate::topology::modified_tree::ModifiedTree;

    #[test]
    fn entries_name_the_ports_of_the_drawing() {
        let topology = ModifiedTree::new(2, 3, 2).build().unwrap();
        let tables = AdaptiveTables::new(&topology).unwrap();
        let at = |name: &str| &tables.switches[topology.switch_named(name).unwrap() as usize];
        // Host H8 is not below L1.1, so packets go up. The lowest digit of H8 selects the default port.
        assert_eq!(at("L1.1").candidates(1, 7), (4, &[3, 4][..]));
        assert_eq!(at("L1.1").candidates(1, 1), (2, &[][..]), "there is one route to a host of the switch");
        // L2.1 is the left one of two switches above H1 to H4, so packets may go to the right from any input.
        assert_eq!(at("L2.1").candidates(1, 3), (2, &[5, 6][..]));
        assert_eq!(at("L2.1").candidates(3, 3), (2, &[5, 6][..]));
        assert_eq!(at("L2.1").candidates(5, 3), (2, &[][..]), "a packet from the right must go down");
        assert_eq!(at("L2.2").candidates(1, 3), (2, &[5, 6][..]), "to the left");
        // In a row of four switches, L3.2 has one switch to its left and two to its right.
        assert_eq!(at("L3.2").candidates(1, 7), (2, &[5, 6][..]));
        assert_eq!(at("L3.3").candidates(1, 7), (2, &[3, 4][..]));
        assert_eq!(
            at("L3.3").candidates(3, 7),
            (2, &[5, 6][..]),
            "a packet from the left continues to the right"
        );
        assert_eq!(at("L3.4").candidates(3, 7), (2, &[][..]), "the row ends");
        assert_eq!(at("L3.1").candidates(1, 8), (Tables::NO_ROUTE, &[][..]));
        assert_eq!(at("L3.1").candidates(0, 7), (2, &[][..]));
    }

    #[test]
    fn the_middle_of_an_odd_row_goes_right() {
        let topology = ModifiedTree::new(3, 2, 1).build().unwrap();
        let tables = AdaptiveTables::new(&topology).unwrap();
        let middle = &tables.switches[topology.switch_named("L2.2").unwrap() as usize];
        assert_eq!(middle.candidates(1, 8), (3, &[5][..]));
        assert_eq!(topology.port_name(topology.links[topology.links.len() - 1].a), "L2.2:5");
    }

    #[test]
    fn other_networks_are_rejected() {
        let testbed = Dumbbell::default().build().unwrap();
        assert_eq!(
            AdaptiveTables::new(&testbed).map(|_| ()).map_err(|e| e.to_string()),
            Err("adaptive flow routing: dumbbell 3 + 4 is not a generated fat tree; choose modified-k-ary-n-tree"
                .to_owned())
        );
    }
}
