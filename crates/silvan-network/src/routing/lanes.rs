//! The virtual lanes of packets, which depend on the service levels of pairs of hosts and on the tables with which
//! switches map a service level to a lane.
//!
//! A packet keeps its service level (SL) from end to end; each switch selects the output lane (VL) by input
//! port, output port and SL (InfiniBand Architecture Specification, vol. 1, 7.6.6 and 14.2.5.8). The subnet
//! manager informs hosts of the SL of a path. Some routing engines, such as LASH, DFSSSP, Nue and
//! torus-2QoS, need several lanes to be deadlock-free.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use silvan_engine::Bytes;

use super::RoutingError;
use super::valiant::Detours;
use crate::topology::Topology;

/// Number of service levels, and of entries of an SL-to-VL table.
pub const LEVELS: usize = 16;
/// Entry of an SL-to-VL table that discards packets with the service level.
pub const DISCARD: u8 = 15;
/// Maximum number of stored service levels of pairs, which take 256 MiB of memory.
pub const MAX_PAIRS: usize = 256 << 20;
/// Maximum number of stored SL-to-VL tables. A switch has one for each pair of an output port and an input,
/// which is a port or the switch itself.
pub const MAX_MAPS: usize = 64 << 20;

/// The virtual lane of each service level.
pub type Map = [u8; LEVELS];

/// The default table, in which the lane number equals the service level.
pub const IDENTITY: Map = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Service levels by pair of hosts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PathLevels {
    hosts: usize,
    /// By source, then by destination.
    levels: Vec<u8>,
}

impl PathLevels {
    /// Creates a table with the same level for all pairs. Only the lowest four bits of `level` are used.
    /// Returns `None` if there are more than [`MAX_PAIRS`] pairs.
    #[must_use]
    pub fn new(topology: &Topology, level: u8) -> Option<Self> {
        let hosts = topology.hosts.len();
        let pairs = hosts.checked_mul(hosts).filter(|&pairs| pairs <= MAX_PAIRS)?;
        Some(Self { hosts, levels: vec![level & 15; pairs] })
    }

    /// The service level of packets from one host to another; 0 if a host does not exist.
    #[must_use]
    pub fn get(&self, from: usize, to: usize) -> u8 {
        if to >= self.hosts {
            return 0;
        }
        self.levels.get(from * self.hosts + to).copied().unwrap_or(0)
    }

    /// The levels that any pair has, as a bit set.
    #[must_use]
    pub fn used(&self) -> u16 {
        self.levels.iter().fold(0, |used, &level| used | 1 << level)
    }

    /// Sets the level of a pair, if both hosts exist. Only the lowest four bits of `level` are used.
    pub fn set(&mut self, from: usize, to: usize, level: u8) {
        if from < self.hosts && to < self.hosts {
            self.levels[from * self.hosts + to] = level & 15;
        }
    }
}

/// An entry of the table by which a switch maps levels to lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneEntry {
    /// Index of the switch.
    pub switch: usize,
    /// Number of the input port, from 1.
    pub input: u16,
    /// Number of the output port, from 1.
    pub output: u16,
    /// Service level.
    pub level: u8,
    /// The virtual lane of the service level.
    pub lane: u8,
}

/// The SL-to-VL tables of all switches, by input and output port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneMaps {
    /// The distinct tables. There are few, because most ports have equal tables.
    known: Vec<Map>,
    by_map: HashMap<Map, u32>,
    /// Index of a table by switch, then output port, then input port from 0 (the switch itself).
    used: Vec<Vec<u32>>,
    ports: Vec<usize>,
}

/// Excludes `by_map`, which is an index of `known`.
impl Hash for LaneMaps {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.known, &self.used, &self.ports).hash(state);
    }
}

impl LaneMaps {
    /// Uses the same table for all ports of all switches. Returns `None` if there would be more than
    /// [`MAX_MAPS`] tables.
    #[must_use]
    pub fn new(topology: &Topology, map: Map) -> Option<Self> {
        let ports: Vec<usize> = topology.switches.iter().map(|s| usize::from(s.ports)).collect();
        let mut sum = 0usize;
        for &ports in &ports {
            sum = sum.checked_add(ports.checked_mul(ports + 1)?).filter(|&sum| sum <= MAX_MAPS)?;
        }
        let used = ports.iter().map(|&ports| vec![0; ports * (ports + 1)]).collect();
        Some(Self { known: vec![map], by_map: HashMap::from([(map, 0)]), used, ports })
    }

    fn place(&self, switch: usize, input: u16, output: u16) -> Option<usize> {
        let ports = *self.ports.get(switch)?;
        let (input, output) = (usize::from(input), usize::from(output));
        (input <= ports && (1..=ports).contains(&output)).then(|| (output - 1) * (ports + 1) + input)
    }

    /// The table between two ports of a switch; the identity if there is none.
    #[must_use]
    pub fn get(&self, switch: usize, input: u16, output: u16) -> &Map {
        let place = self.place(switch, input, output);
        place.map_or(&IDENTITY, |place| &self.known[self.used[switch][place] as usize])
    }

    /// Sets the table between two ports of a switch. Input 0 is the switch itself. Returns `false` if the
    /// switch or a port does not exist.
    pub fn set(&mut self, switch: usize, input: u16, output: u16, map: Map) -> bool {
        let Some(place) = self.place(switch, input, output) else { return false };
        let index = *self.by_map.entry(map).or_insert_with(|| {
            self.known.push(map);
            // At most MAX_MAPS.
            (self.known.len() - 1) as u32
        });
        self.used[switch][place] = index;
        true
    }

    /// Finds a table entry that maps one of the given levels (a bit set) to a lane that does not exist if there are
    /// `count` lanes. Only tables between two different ports with links are searched.
    #[must_use]
    pub fn beyond(&self, topology: &Topology, levels: u16, count: u8) -> Option<LaneEntry> {
        let wiring = topology.wiring();
        for (switch, peers) in wiring.switches.iter().enumerate() {
            let linked = || (1u16..).zip(peers).filter(|(_, peer)| peer.is_some()).map(|(port, _)| port);
            for (input, output) in linked().flat_map(|input| linked().map(move |output| (input, output))) {
                let used = (0..LEVELS as u8).zip(self.get(switch, input, output));
                let mut used = used.filter(|&(level, _)| input != output && levels >> level & 1 == 1);
                if let Some((level, &lane)) = used.find(|&(_, &lane)| lane != DISCARD && lane >= count) {
                    return Some(LaneEntry { switch, input, output, level, lane });
                }
            }
        }
        None
    }

    /// The table of all pairs of different ports with links, over all switches. `None` if their tables differ
    /// or there is no such pair.
    #[must_use]
    pub fn common(&self, topology: &Topology) -> Option<Map> {
        let wiring = topology.wiring();
        let mut found: Option<Map> = None;
        for (switch, peers) in wiring.switches.iter().enumerate() {
            let linked = || (1u16..).zip(peers).filter(|(_, peer)| peer.is_some()).map(|(port, _)| port);
            for (input, output) in linked().flat_map(|input| linked().map(move |output| (input, output))) {
                let map = self.get(switch, input, output);
                if input != output && found.is_some_and(|found| found != *map) {
                    return None;
                }
                if input != output {
                    found = Some(*map);
                }
            }
        }
        found
    }
}

/// Returns level 0 for all pairs, and the same table everywhere.
///
/// # Errors
/// [`RoutingError::Unsuitable`] if the network is too large for these tables.
pub(super) fn same_everywhere(topology: &Topology, map: Map) -> Result<(PathLevels, LaneMaps), RoutingError> {
    let many = || RoutingError::Unsuitable(format!("{} is too large for tables of lanes", topology.name));
    let levels = PathLevels::new(topology, 0).ok_or_else(many)?;
    Ok((levels, LaneMaps::new(topology, map).ok_or_else(many)?))
}

/// The data that determines the lanes of packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lanes {
    /// Service levels of paths.
    pub levels: PathLevels,
    /// The mapping of levels to lanes.
    pub maps: LaneMaps,
    /// Routes that also depend on the source, with their lanes; `None` if packets follow only the tables.
    pub detours: Option<Detours>,
}

impl Lanes {
    /// The output port and lane with which a switch forwards a packet from one host to another. If there is no
    /// lane, the packet is discarded. `ports` contains the input port of the packet and the output port in the
    /// table.
    #[must_use]
    pub fn step(
        &self,
        switch: usize,
        (input, port): (u16, u16),
        (src, dst): (usize, usize),
        level: u8,
    ) -> (u16, Option<u8>) {
        let between = self.detours.as_ref().and_then(|detours| detours.of_pair(src, dst));
        self.step_over(switch, (input, port), (src, dst), level, between)
    }

    /// Same as [`Self::step`], for a packet over the intermediate group `between`, or without a detour if it
    /// is `None`.
    #[must_use]
    pub fn step_over(
        &self,
        switch: usize,
        (input, port): (u16, u16),
        way: (usize, usize),
        level: u8,
        between: Option<usize>,
    ) -> (u16, Option<u8>) {
        match &self.detours {
            Some(detours) => {
                let (port, lane) = detours.step_over(switch, port, way, between);
                (port, Some(lane))
            }
            None => (port, self.lane(switch, input, port, level)),
        }
    }

    /// The bias in favor of minimal routes, if a route is selected for each packet (UGAL).
    #[must_use]
    pub fn bias(&self) -> Option<Bytes> {
        self.detours.as_ref().and_then(Detours::bias)
    }

    /// Number of lanes. If there are detours, this is the number that they need. Otherwise, it is one more
    /// than the highest lane that a table has for the level of any pair, at least 1.
    #[must_use]
    pub fn count(&self) -> u8 {
        if let Some(detours) = &self.detours {
            return detours.lanes();
        }
        let levels = self.levels.used();
        let lanes = self.maps.known.iter().flat_map(|map| (0..LEVELS).map(|level| (level, map[level])));
        let used = lanes.filter(|&(level, lane)| levels >> level & 1 == 1 && lane != DISCARD);
        used.map(|(_, lane)| lane + 1).max().unwrap_or(1)
    }

    /// The lane on which a switch sends without detours; `None` if it discards the packet.
    #[must_use]
    pub fn lane(&self, switch: usize, input: u16, output: u16, level: u8) -> Option<u8> {
        let lane = self.maps.get(switch, input, output)[usize::from(level & 15)];
        (lane != DISCARD).then_some(lane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::dumbbell::Dumbbell;

    #[test]
    fn levels_are_stored_by_pair() {
        let testbed = Dumbbell::default().build().unwrap();
        let mut levels = PathLevels::new(&testbed, 3).unwrap();
        levels.set(1, 6, 0x15);
        levels.set(7, 0, 1);
        assert_eq!((levels.get(1, 6), levels.get(0, 6), levels.get(0, 7), levels.get(7, 0)), (5, 3, 0, 0));
    }

    #[test]
    fn tables_are_stored_by_ports() {
        let testbed = Dumbbell::default().build().unwrap();
        let mut maps = LaneMaps::new(&testbed, [0; LEVELS]).unwrap();
        assert_eq!(maps.common(&testbed), Some([0; LEVELS]));
        assert!(maps.set(0, 1, 4, [2; LEVELS]) && maps.set(0, 0, 4, [3; LEVELS]));
        for (switch, input, output) in [(0, 5, 1), (0, 1, 0), (0, 1, 5), (2, 1, 1)] {
            assert!(!maps.set(switch, input, output, IDENTITY), "{switch} {input} {output}");
            assert_eq!(maps.get(switch, input, output), &IDENTITY);
        }
        assert_eq!((maps.get(0, 1, 4)[0], maps.get(0, 0, 4)[0], maps.get(0, 1, 3)[0]), (2, 3, 0));
        assert_eq!(maps.common(&testbed), None);
        let lanes = Lanes { levels: PathLevels::new(&testbed, 0).unwrap(), maps, detours: None };
        assert_eq!((lanes.count(), lanes.step(0, (1, 4), (0, 6), 9)), (4, (4, Some(2))));
        assert_eq!(lanes.lane(0, 1, 4, 9), Some(2));
        let mut lanes = lanes;
        lanes.maps.set(0, 1, 4, [DISCARD; LEVELS]);
        assert_eq!(lanes.lane(0, 1, 4, 9), None);
    }
}
