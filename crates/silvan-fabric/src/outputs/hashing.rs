//! Equal-cost multipath with the binned scheduler: the outputs of packets that switches hash onto ports. The results are
//! those of [`crate::switch::Hasher`].

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::routes::{Routes, RoutesBuilder};
use super::{MAX_INPUTS, Remote};
use crate::packet::Pool;
use crate::port::Port;
use crate::routing::ecmp::{Fields, Hash};
use crate::switch::Ports;
use crate::voq::Head;

/// Maximum number of groups of ports in a network. Their numbers follow those of the ports in a byte.
pub(super) const MOST_GROUPS: usize = 256 - MAX_INPUTS;

/// How a switch hashes packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct HashedSwitch {
    /// The start of its table in [`Groups::routes`].
    row: u32,
    hash: Hash,
}

/// The groups of ports of all switches.
#[derive(Debug)]
pub(super) struct Groups {
    /// The port for each destination; from [`MAX_INPUTS`], the number of a group.
    routes: Routes,
    /// The ports of each group, counted from 0.
    ports: Box<[Box<[u8]>]>,
}

/// The hashing of the switches to which a partition sends.
#[derive(Debug)]
pub(super) struct Hashing {
    groups: Arc<Groups>,
    /// By output, for the first outputs of switches.
    pub own: Box<[HashedSwitch]>,
    /// In the order of [`super::Bank::remotes`].
    pub remote: Box<[HashedSwitch]>,
}

impl Hashing {
    /// The port of a packet at a switch.
    #[inline(always)]
    pub fn port(&self, switch: HashedSwitch, packets: &Pool, head: &Head) -> u32 {
        let port = self.groups.routes.of(switch.row, head.dst());
        if (port as usize) < MAX_INPUTS {
            return port;
        }
        let ports = &self.groups.ports[port as usize - MAX_INPUTS];
        let packet = &packets[head.packet];
        let (source, destination, connection) = (packet.src, packet.dst, packet.source);
        let fields = Fields { source, destination, connection, entropy: packets.entropy(head.packet) };
        u32::from(ports[switch.hash.index(&fields, ports.len())])
    }
}

/// Whether the groups of ports of all switches are few enough.
pub(super) fn has_few_groups<'a>(switches: impl Iterator<Item = &'a Ports>) -> bool {
    let mut known: FxHashMap<&[u16], ()> = FxHashMap::default();
    for hasher in switches.filter_map(Ports::hasher) {
        let several = hasher.choices.groups().iter().filter(|group| group.len() > 1);
        known.extend(several.map(|group| (&**group, ())));
        if known.len() > MOST_GROUPS {
            return false;
        }
    }
    true
}

/// Builds [`Hashing`] from switches.
#[derive(Debug, Default)]
pub(super) struct HashingBuilder {
    routes: RoutesBuilder,
    groups: Vec<Box<[u8]>>,
    known: FxHashMap<Box<[u8]>, u16>,
    /// One per switch; empty if switches do not hash packets.
    switches: Vec<HashedSwitch>,
}

impl HashingBuilder {
    /// Adds a switch. All switches hash packets, or none does.
    pub fn add(&mut self, ports: &Ports) {
        let Some(hasher) = ports.hasher() else { return };
        let numbers: Vec<Port> = ports
            .table()
            .iter()
            .enumerate()
            .map(|(host, &table)| match hasher.choices.ports(host) {
                [] => table,
                [port] => Port::of_number(*port),
                several => self.group(several),
            })
            .collect();
        let row = self.routes.add_new(&numbers);
        self.switches.push(HashedSwitch { row, hash: hasher.hash });
    }

    /// The number of a group of ports, as if it was a port.
    fn group(&mut self, ports: &[u16]) -> Port {
        let ports: Box<[u8]> = ports.iter().map(|&port| Port::of_number(port).0 as u8).collect();
        let groups = &mut self.groups;
        let number = *self.known.entry(ports).or_insert_with_key(|ports| {
            groups.push(ports.clone());
            (MAX_INPUTS + groups.len() - 1) as u16
        });
        Port(number)
    }

    /// Ends the list of switches. Returns the groups, if switches hash packets, and the hashing of each switch.
    pub fn build(self) -> (Option<Arc<Groups>>, Vec<HashedSwitch>) {
        if self.switches.is_empty() {
            return (None, Vec::new());
        }
        let groups = Groups { routes: self.routes.build(), ports: self.groups.into() };
        (Some(Arc::new(groups)), self.switches)
    }
}

impl Hashing {
    /// The hashing of a partition. `own` contains the numbers of its switches and their numbers of ports.
    pub fn new(
        groups: &Arc<Groups>,
        switches: &[HashedSwitch],
        own: impl Iterator<Item = (usize, usize)>,
        remotes: &[Remote],
    ) -> Self {
        let own = own.flat_map(|(switch, ports)| std::iter::repeat_n(switches[switch], ports)).collect();
        let remote = remotes.iter().map(|remote| switches[remote.switch as usize]).collect();
        Self { groups: Arc::clone(groups), own, remote }
    }
}
