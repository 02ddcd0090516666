//! The forwarding tables of all switches, stored in blocks that tables share.
//!
//! In a large network, most blocks of forwarding tables occur many times, because switches select their upward port by
//! the position of the destination among its neighbors. With 11,664 hosts, the 685 tables (8 MB) consist of 299
//! distinct blocks (0.5 MB), which stay in the cache.

use rustc_hash::FxHashMap;

use crate::port::Port;

/// Number of destinations in a block.
const BLOCK: usize = 64;

/// Output ports of consecutive destinations.
type Block = [u8; BLOCK];

#[derive(Debug, Default)]
pub(super) struct Routes {
    blocks: Box<[Block]>,
    /// All tables in sequence. For each block of a table, this contains the index in `blocks`.
    tables: Box<[u32]>,
}

impl Routes {
    /// The output port for a destination at a switch whose table begins at `row`.
    #[inline(always)]
    pub fn of(&self, row: u32, dst: u32) -> u32 {
        let block = self.tables[row as usize + dst as usize / BLOCK];
        u32::from(self.blocks[block as usize][dst as usize % BLOCK])
    }
}

/// Builds [`Routes`] from tables.
#[derive(Debug, Default)]
pub(super) struct RoutesBuilder {
    blocks: Vec<Block>,
    tables: Vec<u32>,
    known_blocks: FxHashMap<Block, u32>,
    /// Maps the address of a table to the start of its entry. Switches with equal tables share an entry.
    known_tables: FxHashMap<usize, u32>,
}

impl RoutesBuilder {
    /// Adds the table of a switch, which has an output port per destination. Returns its start.
    pub fn add(&mut self, table: &[Port]) -> u32 {
        let row = self.tables.len() as u32;
        let place = table.as_ptr() as usize;
        let known = *self.known_tables.entry(place).or_insert(row);
        if known == row {
            table.chunks(BLOCK).for_each(|ports| self.add_block(ports));
        }
        known
    }

    /// Adds a table that no other switch has. Returns its start.
    pub fn add_new(&mut self, table: &[Port]) -> u32 {
        let row = self.tables.len() as u32;
        table.chunks(BLOCK).for_each(|ports| self.add_block(ports));
        row
    }

    fn add_block(&mut self, ports: &[Port]) {
        // No packets are sent to destinations without a route.
        let block = std::array::from_fn(|at| ports.get(at).map_or(0, |port| port.0 as u8));
        let next = self.blocks.len() as u32;
        let id = *self.known_blocks.entry(block).or_insert(next);
        if id == next {
            self.blocks.push(block);
        }
        self.tables.push(id);
    }

    pub fn build(self) -> Routes {
        Routes { blocks: self.blocks.into(), tables: self.tables.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_those_of_the_tables() {
        let hosts = 1000;
        // Upward ports depend on the destination's position among 18; downward ports lead to the switch's own hosts.
        let of = |switch: u32, dst: u32| if dst / 100 == switch { 18 + dst % 18 } else { dst % 18 };
        let tables: Vec<Vec<Port>> =
            (0..10).map(|switch| (0..hosts).map(|dst| Port(of(switch, dst) as u16)).collect()).collect();
        let mut builder = RoutesBuilder::default();
        let rows: Vec<u32> = tables.iter().map(|table| builder.add(table)).collect();
        assert_eq!(builder.add(&tables[3]), rows[3], "one that is known");
        let routes = builder.build();
        for (switch, &row) in rows.iter().enumerate() {
            (0..hosts).for_each(|dst| assert_eq!(routes.of(row, dst), of(switch as u32, dst)));
        }
        // Nine phases of the 18 ports, the last block, and the blocks with the switches' own hosts.
        assert!(routes.blocks.len() < 50, "{} blocks", routes.blocks.len());
    }
}
