//! The forwarding tables of all switches, stored in blocks that tables share.
//!
//! In a large network, most blocks of forwarding tables occur many times, because switches select their
//! upward port by the position of the destination among its neighbors. With 11,664 hosts, the 685 tables (16
//! MB) consist of 299 distinct blocks, which stay in the cache.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use silvan_engine::cache::prefetch;
use silvan_engine::saved::Saved;
use silvan_network::port::Port;
use silvan_network::routing::ecmp::{Hash, HashedFields};
use silvan_network::routing::port_groups::Choices;

use crate::packet::{PacketId, Pool};

/// Number of destinations in a block.
const BLOCK: usize = 64;

/// Numbers of groups of ports follow those of ports.
const FIRST_GROUP: u32 = 1 << 16;

/// Tables with a value for each destination host.
#[derive(Debug, Default)]
struct Blocks<T> {
    blocks: Box<[[T; BLOCK]]>,
    /// All tables in sequence. For each block of a table, this contains the index in `blocks`.
    tables: Box<[u32]>,
}

impl<T: Copy> Blocks<T> {
    /// The value for a destination in the table that begins at `row`.
    #[inline(always)]
    fn of(&self, row: u32, dst: u32) -> T {
        let block = self.tables[row as usize + dst as usize / BLOCK];
        self.blocks[block as usize][dst as usize % BLOCK]
    }
}

/// The forwarding tables of all switches, and the groups of ports onto which switches hash packets.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    ports: Blocks<Port>,
    /// With hashing: the port for each destination; from [`FIRST_GROUP`], the number of a group.
    choices: Blocks<u32>,
    groups: Box<[Box<[Port]>]>,
}

/// How a switch hashes packets onto its ports.
#[derive(Debug, Clone, Copy, Saved)]
pub(crate) struct Hasher {
    /// The start of the switch's table of choices.
    row: u32,
    #[saved(constant)]
    pub hash: Hash,
}

impl Routes {
    /// The output port for a destination at a switch whose table begins at `row`. Tables are checked before
    /// the run, so every receiving host has a route.
    #[inline(always)]
    pub fn port(&self, row: u32, dst: u32) -> Port {
        self.ports.of(row, dst)
    }

    /// The output port of a packet at a switch that hashes packets.
    #[inline(always)]
    pub fn hashed(&self, hasher: Hasher, dst: u32, fields: impl FnOnce() -> HashedFields) -> Port {
        match self.choices(hasher, dst) {
            Ok(port) => port,
            Err(ports) => ports[hasher.hash.index(&fields(), ports.len())],
        }
    }

    /// The only port for a destination at a switch that hashes packets or, as an error, the group of ports.
    #[inline(always)]
    fn choices(&self, hasher: Hasher, dst: u32) -> Result<Port, &[Port]> {
        match self.choices.of(hasher.row, dst) {
            port if port < FIRST_GROUP => Ok(Port(port as u16)),
            group => Err(&self.groups[(group - FIRST_GROUP) as usize]),
        }
    }

    /// All ports for a destination at a switch that hashes packets.
    pub fn all_hashed(&self, hasher: Hasher, dst: u32) -> Vec<Port> {
        self.choices(hasher, dst).map_or_else(<[Port]>::to_vec, |port| vec![port])
    }
}

/// The fields of a packet that switches hash.
#[inline(always)]
pub(crate) fn fields(packets: &Pool, id: PacketId) -> HashedFields {
    let packet = &packets[id];
    let (source, destination, connection) = (packet.src, packet.dst, packet.source);
    HashedFields { source, destination, connection, entropy: packets.entropy(id) }
}

/// The forwarding table of a switch.
#[derive(Debug, Clone, Saved)]
pub(crate) struct ForwardingTable {
    pub routes: Arc<Routes>,
    /// Its start in [`Routes`].
    pub row: u32,
}

impl ForwardingTable {
    /// See [`Routes::port`].
    #[inline(always)]
    pub fn port(&self, dst: u32) -> Port {
        self.routes.port(self.row, dst)
    }

    /// Prefetches the position of the block that contains a destination.
    #[inline]
    pub fn prefetch(&self, dst: u32) {
        prefetch(&self.routes.ports.tables, self.row as usize + dst as usize / BLOCK);
    }
}

#[derive(Debug)]
struct BlocksBuilder<T> {
    blocks: Vec<[T; BLOCK]>,
    tables: Vec<u32>,
    known: FxHashMap<[T; BLOCK], u32>,
}

impl<T> Default for BlocksBuilder<T> {
    fn default() -> Self {
        Self { blocks: Vec::new(), tables: Vec::new(), known: FxHashMap::default() }
    }
}

impl<T: Copy + Eq + std::hash::Hash> BlocksBuilder<T> {
    /// Adds a table. Returns its start.
    fn add(&mut self, values: &[T]) -> u32 {
        let row = self.tables.len() as u32;
        for chunk in values.chunks(BLOCK) {
            // The last block is filled up. No packets are sent to destinations that do not exist.
            let block = std::array::from_fn(|at| chunk.get(at).copied().unwrap_or(chunk[0]));
            let next = self.blocks.len() as u32;
            let id = *self.known.entry(block).or_insert(next);
            if id == next {
                self.blocks.push(block);
            }
            self.tables.push(id);
        }
        row
    }

    fn build(self) -> Blocks<T> {
        Blocks { blocks: self.blocks.into(), tables: self.tables.into() }
    }
}

/// Builds [`Routes`] from tables, which have a port (from 1) for each host.
#[derive(Debug, Default)]
pub(crate) struct RoutesBuilder<'t> {
    ports: BlocksBuilder<Port>,
    /// Switches with equal tables share them.
    known_tables: FxHashMap<&'t [u16], u32>,
    choices: BlocksBuilder<u32>,
    groups: Vec<Box<[Port]>>,
    known_groups: FxHashMap<Box<[u16]>, u32>,
}

/// The port with a number that counts from 1. "No route" becomes an index out of range.
fn port_of(number: u16) -> Port {
    Port(number.wrapping_sub(1))
}

impl<'t> RoutesBuilder<'t> {
    /// Adds the table of a switch. Returns its start.
    pub fn add(&mut self, table: &'t [u16]) -> u32 {
        let Self { ports, known_tables, .. } = self;
        let fresh = || ports.add(&table.iter().copied().map(port_of).collect::<Vec<_>>());
        *known_tables.entry(table).or_insert_with(fresh)
    }

    /// Adds the choices of a switch that hashes packets; `table` applies to destinations without choices.
    pub fn add_choices(&mut self, table: &[u16], choices: &Choices, hash: Hash) -> Hasher {
        let number = |(host, &port): (usize, &u16)| match choices.ports(host) {
            [] => u32::from(port_of(port).0),
            [port] => u32::from(port_of(*port).0),
            several => self.group(several),
        };
        let numbers: Vec<u32> = table.iter().enumerate().map(number).collect();
        Hasher { row: self.choices.add(&numbers), hash }
    }

    /// The number of a group of ports, which is added if it is new.
    fn group(&mut self, ports: &[u16]) -> u32 {
        if let Some(&known) = self.known_groups.get(ports) {
            return known;
        }
        let number = FIRST_GROUP + self.groups.len() as u32;
        self.groups.push(ports.iter().copied().map(port_of).collect());
        self.known_groups.insert(ports.into(), number);
        number
    }

    pub fn build(self) -> Arc<Routes> {
        let Self { ports, choices, groups, .. } = self;
        Arc::new(Routes { ports: ports.build(), choices: choices.build(), groups: groups.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_those_of_the_tables() {
        let hosts = 1000;
        // Upward ports depend on the destination's position among 18; downward ports lead to the switch's own
        // hosts.
        let of =
            |switch: u32, dst: u32| 1 + if dst / 100 == switch { 18 + dst % 18 } else { dst % 18 } as u16;
        let tables: Vec<Vec<u16>> =
            (0..10).map(|switch| (0..hosts).map(|dst| of(switch, dst)).collect()).collect();
        let mut builder = RoutesBuilder::default();
        let rows: Vec<u32> = tables.iter().map(|table| builder.add(table)).collect();
        assert_eq!(builder.add(&tables[3]), rows[3], "one that is known");
        let routes = builder.build();
        for (switch, &row) in rows.iter().enumerate() {
            (0..hosts).for_each(|dst| assert_eq!(routes.port(row, dst).number(), of(switch as u32, dst)));
        }
        // Nine phases of the 18 ports, the last block, and the blocks with the switches' own hosts.
        assert!(routes.ports.blocks.len() < 50, "{} blocks", routes.ports.blocks.len());
    }
}
