//! Checks whether packets can wait for each other in a cycle.
//!
//! A packet that occupies a buffer at the end of one channel waits for space at the end of the next channel
//! on its path, so the first channel depends on the second. If these dependencies contain no cycle, the
//! tables cannot deadlock (Dally and Seitz 1987); otherwise, some traffic can deadlock. If packets stay on
//! one virtual lane, the result is valid for each lane, because all lanes use the same tables.
//! [`super::lane_check`] handles lanes that depend on the path.

use std::fmt;

use super::Tables;
use super::graph::{Block, PortGraph, Target};
use crate::topology::{End, NodeRef, Topology, Wiring};

/// The name of a directed channel between two switches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelName {
    /// The sending port, "S1:3".
    pub from: String,
    /// The receiving port, "S2:1".
    pub to: String,
}

impl fmt::Display for ChannelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.from, self.to)
    }
}

/// A cycle of channels as one line: "S1:3 -> S2:1, S2:4 -> S1:2".
#[must_use]
pub fn cycle_text(cycle: &[ChannelName]) -> String {
    cycle.iter().map(ChannelName::to_string).collect::<Vec<_>>().join(", ")
}

/// Finds a cycle in the dependencies between the channels that any pair of hosts uses. Each channel waits for
/// the next, and the last waits for the first. Returns `None` if the tables are deadlock-free. Routes that
/// loop also form cycles.
#[must_use]
pub fn deadlock_cycle(topology: &Topology, tables: &Tables) -> Option<Vec<ChannelName>> {
    let wiring = topology.wiring();
    let network = PortGraph::new(topology, &wiring);
    let dependencies = Dependencies::of(&network, tables);
    Some(named(topology, &wiring, dependencies.cycle(&network)?))
}

/// A directed channel, given by the sending switch and port, and one of its virtual lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LaneOf {
    pub switch: usize,
    pub port: u16,
    pub lane: usize,
}

pub(super) fn named(topology: &Topology, wiring: &Wiring, channels: Vec<LaneOf>) -> Vec<ChannelName> {
    let name = |LaneOf { switch, port, .. }: LaneOf| {
        let from = End { node: NodeRef::Switch(switch as u32), port };
        let to = wiring.switches[switch][usize::from(port) - 1].map_or(from, |(end, _)| end);
        ChannelName { from: topology.port_name(from), to: topology.port_name(to) }
    };
    channels.into_iter().map(name).collect()
}

/// For each lane of each channel, a bit set of the lanes of output ports that its packets can request at the
/// switch where the channel ends; empty if there are none. The index is a slot of [`PortGraph`] times the
/// number of lanes, plus the lane.
pub(super) struct Dependencies {
    lanes: usize,
    sets: Vec<Vec<u64>>,
}

impl Dependencies {
    /// Creates dependencies between channels with `lanes` lanes, without any entries.
    pub(super) fn new(network: &PortGraph, lanes: usize) -> Self {
        Self { lanes, sets: vec![Vec::new(); network.ports() * lanes] }
    }

    /// Dependencies between channels with one lane, by slot.
    pub(super) fn of_one_lane(sets: Vec<Vec<u64>>) -> Self {
        Self { lanes: 1, sets }
    }

    /// Number of a lane of a channel; `None` if the port does not exist.
    pub(super) fn number(&self, network: &PortGraph, LaneOf { switch, port, lane }: LaneOf) -> Option<usize> {
        network.slot(switch, port).map(|slot| slot * self.lanes + lane)
    }

    /// Number of lanes of all channels together.
    pub(super) fn len(&self) -> usize {
        self.sets.len()
    }

    /// Adds the dependency of lane number `waiting` on the lane `onward`, which starts where the first lane ends.
    pub(super) fn add(&mut self, network: &PortGraph, waiting: usize, onward: LaneOf) {
        let LaneOf { switch, port, lane } = onward;
        let bit = (usize::from(port) - 1) * self.lanes + lane;
        let set = &mut self.sets[waiting];
        if set.is_empty() {
            set.resize((network.ports_of(switch) * self.lanes).div_ceil(64), 0);
        }
        set[bit / 64] |= 1 << (bit % 64);
    }

    /// The first dependency of the lane with number `waiting` at or after position `from`, and the position after the
    /// dependency. The lane ends at switch `end`.
    pub(super) fn next(&self, waiting: usize, end: usize, from: usize) -> Option<(LaneOf, usize)> {
        let bit = next_bit(&self.sets[waiting], from)?;
        Some((LaneOf { switch: end, port: (bit / self.lanes) as u16 + 1, lane: bit % self.lanes }, bit + 1))
    }

    /// Same as [`Self::next`] for channels with one lane. The channels are given by slot.
    pub(super) fn onward(&self, network: &PortGraph, slot: usize, from: usize) -> Option<(usize, usize)> {
        let bit = next_bit(&self.sets[slot], from)?;
        let Target::Switch(end) = network.target_of(slot) else { return None };
        Some((network.slot(end as usize, bit as u16 + 1)?, bit + 1))
    }

    pub(super) fn of(network: &PortGraph, tables: &Tables) -> Self {
        let mut dependencies = Self::new(network, 1);
        let hosts_at = network.hosts_at();
        // The last destination for which each switch was visited.
        let mut met = vec![usize::MAX; hosts_at.len()];
        for rows in tables.all_rows() {
            met.fill(usize::MAX);
            dependencies.add_routes(network, (&hosts_at, &mut met), Block::new(rows, hosts_at.len()));
        }
        dependencies
    }

    /// Adds the dependencies of the tables for the same path bits.
    fn add_routes(
        &mut self,
        network: &PortGraph,
        (hosts_at, met): (&[u64], &mut [usize]),
        mut tables: Block,
    ) {
        for (to, home) in network.homes.iter().enumerate() {
            tables.load(to);
            for (start, &hosts) in hosts_at.iter().enumerate() {
                if hosts == u64::from(home.is_some_and(|h| h as usize == start)) {
                    continue;
                }
                let mut at = start;
                while met[at] != to {
                    met[at] = to;
                    let port = tables.port(at, to);
                    let (Target::Switch(next), Some(slot)) =
                        (network.target(at, port), network.slot(at, port))
                    else {
                        break;
                    };
                    at = next as usize;
                    let onward = tables.port(at, to);
                    if let Target::Switch(_) = network.target(at, onward) {
                        self.add(network, slot, LaneOf { switch: at, port: onward, lane: 0 });
                    }
                }
            }
        }
    }

    /// Finds a cycle by depth-first search. The stack is explicit, because paths may be long.
    pub(super) fn cycle(&self, network: &PortGraph) -> Option<Vec<LaneOf>> {
        #[derive(Clone, Copy, PartialEq)]
        enum VisitState {
            New,
            Open,
            Done,
        }
        let mut marks = vec![VisitState::New; self.sets.len()];
        for first in self.all(network) {
            // Each entry on the stack is a channel with the position up to which its dependencies have been searched.
            let mut stack = vec![(first, 0)];
            while let Some((channel, searched)) = stack.last_mut() {
                let LaneOf { switch: at, port: out, .. } = *channel;
                let (Some(number), Target::Switch(end)) =
                    (self.number(network, *channel), network.target(at, out))
                else {
                    break;
                };
                if marks[number] == VisitState::Done {
                    stack.pop();
                    continue;
                }
                marks[number] = VisitState::Open;
                let Some((next, after)) = self.next(number, end as usize, *searched) else {
                    marks[number] = VisitState::Done;
                    stack.pop();
                    continue;
                };
                *searched = after;
                let next_mark = self.number(network, next).map_or(VisitState::Done, |n| marks[n]);
                if next_mark == VisitState::Open {
                    let first = stack.iter().position(|&(c, _)| c == next)?;
                    return Some(stack[first..].iter().map(|&(c, _)| c).collect());
                }
                if next_mark == VisitState::New {
                    stack.push((next, 0));
                }
            }
        }
        None
    }

    /// All lanes of all ports.
    pub(super) fn all<'a>(&'a self, network: &'a PortGraph) -> impl Iterator<Item = LaneOf> + 'a {
        let ports = (0..network.switches())
            .flat_map(|switch| (1..=network.ports_of(switch) as u16).map(move |port| (switch, port)));
        ports.flat_map(|(switch, port)| (0..self.lanes).map(move |lane| LaneOf { switch, port, lane }))
    }
}

/// The first set bit at or after a position.
fn next_bit(set: &[u64], from: usize) -> Option<usize> {
    let mut word = from / 64;
    let mut bits = set.get(word)? & (u64::MAX << (from % 64));
    while bits == 0 {
        word += 1;
        bits = *set.get(word)?;
    }
    Some(word * 64 + bits.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::super::RoutingSpec;
    use super::super::shortest_path::ShortestPath;
    use super::super::up_down::UpDown;
    use super::*;
    use crate::topology::custom::{Custom, CustomLink, CustomSwitch};
    use crate::topology::parameters::{default_link_delay, default_link_rate};

    /// A ring of switches with two hosts each.
    fn ring(switches: usize) -> Topology {
        let link =
            |from: String, to: String| CustomLink { from, to, rate: None, delay: None, one_way: false };
        let mut links = Vec::new();
        for s in 0..switches {
            links.push(link(format!("S{s}"), format!("S{}", (s + 1) % switches)));
            links.extend((0..2).map(|h| link(format!("H{}", 2 * s + h), format!("S{s}"))));
        }
        let spec = Custom {
            hosts: (0..2 * switches).map(|h| format!("H{h}")).collect(),
            switches: (0..switches).map(|s| CustomSwitch { name: format!("S{s}"), ports: None }).collect(),
            links,
            link_rate: default_link_rate(),
            link_delay: default_link_delay(),
        };
        spec.build().unwrap()
    }

    #[test]
    fn rings_deadlock_on_shortest_paths_but_not_with_up_down() {
        for (switches, deadlocks) in [(3, false), (4, true), (5, true), (9, true)] {
            let topology = ring(switches);
            let shortest = RoutingSpec::ShortestPath(ShortestPath {}).compute(&topology).unwrap();
            let cycle = deadlock_cycle(&topology, &shortest);
            assert_eq!(cycle.is_some(), deadlocks, "{switches} switches: {cycle:?}");
            let legal = RoutingSpec::UpDown(UpDown::default()).compute(&topology).unwrap();
            assert_eq!(deadlock_cycle(&topology, &legal), None, "{switches} switches");
        }
    }

    #[test]
    fn the_cycle_is_reported_port_by_port() {
        let topology = ring(5);
        let tables = RoutingSpec::ShortestPath(ShortestPath {}).compute(&topology).unwrap();
        let cycle = deadlock_cycle(&topology, &tables).unwrap();
        assert_eq!(
            cycle_text(&cycle),
            "S0:1 -> S1:1, S1:2 -> S2:1, S2:2 -> S3:1, S3:2 -> S4:1, S4:2 -> S0:4"
        );
    }

    #[test]
    fn only_channels_that_hosts_use_count() {
        let topology = ring(4);
        let mut tables = RoutingSpec::UpDown(UpDown::default()).compute(&topology).unwrap();
        assert_eq!(deadlock_cycle(&topology, &tables), None);
        // Packets for H0 circulate forever.
        let onward = [1, 2, 2, 2];
        for (table, port) in tables.out.iter_mut().zip(onward) {
            table[0] = port;
        }
        let cycle = deadlock_cycle(&topology, &tables).unwrap();
        assert_eq!(cycle_text(&cycle), "S0:1 -> S1:1, S1:2 -> S2:1, S2:2 -> S3:1, S3:2 -> S0:4");
        // The entries are the same, but H0 is the only host, so no other host sends to it.
        let mut lonely = topology;
        lonely.hosts.truncate(1);
        lonely.links.retain(|l| !matches!(l.a.node, NodeRef::Host(h) if h > 0));
        assert_eq!(deadlock_cycle(&lonely, &tables), None);
        assert_eq!(deadlock_cycle(&lonely, &Tables::new(Vec::new())), None);
    }

    #[test]
    fn bits_are_found_across_words() {
        let set = [1 << 5, 0, 1 | 1 << 63];
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(bit) = next_bit(&set, from) {
            found.push(bit);
            from = bit + 1;
        }
        assert_eq!(found, [5, 128, 191]);
    }
}
