//! Checks whether packets can wait for each other in a cycle, if each path has a service level and each
//! switch has SL-to-VL tables.
//!
//! A channel has several lanes with separate buffers. A packet that occupies a buffer of one lane waits for the lane
//! that the next switch selects, so dependencies exist between lanes of channels. A cycle may contain several lanes (if
//! switches change lanes), and a lane outside of any cycle can still be blocked by a lane in a cycle.

use serde::Serialize;

use super::Tables;
use super::deadlock::{Dependencies, LaneOf, named};
use super::graph::{PortGraph, Target};
use super::lanes::{LEVELS, Lanes};
use crate::topology::{NodeRef, Topology, Wiring};

/// One virtual lane of all channels between switches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LaneVerdict {
    /// Number of the virtual lane.
    pub lane: u8,
    /// Number of channels on which a pair of hosts uses the lane.
    pub channels: u64,
    /// Number of the lane's channels that are in a cycle: zero if the lane cannot deadlock.
    pub in_circles: u64,
}

/// Result of [`check_lanes`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LaneAnalysis {
    /// The lanes used by channels between switches, in order.
    pub lanes: Vec<LaneVerdict>,
    /// One cycle, with the lane of each channel: "S1:3 -> S2:1 (VL 0), S2:4 -> S1:2 (VL 1)".
    pub cycle: Option<String>,
    /// Number of pairs whose packets a switch discards, on at least one of their routes, because its table
    /// has lane 15 for their service level.
    pub discarded: u64,
}

/// Follows the tables and all possible detours for all ordered pairs of hosts, on the lanes of their packets.
#[must_use]
pub fn check_lanes(topology: &Topology, tables: &Tables, lanes: &Lanes) -> LaneAnalysis {
    check_folded(topology, tables, lanes, |lane| lane)
}

/// Same as [`check_lanes`], with each lane replaced by `fold(lane)`.
pub(super) fn check_folded(
    topology: &Topology,
    tables: &Tables,
    lanes: &Lanes,
    fold: fn(u8) -> u8,
) -> LaneAnalysis {
    let wiring = topology.wiring();
    let network = PortGraph::new(topology, &wiring);
    let dependencies = Dependencies::new(&network, LEVELS);
    let all = dependencies.len();
    let mut walk = Walk {
        wiring: &wiring,
        network: &network,
        tables,
        path_bits: 0,
        lanes,
        fold,
        dependencies,
        is_used: vec![false; all],
        met: vec![usize::MAX; all],
        is_discarded: vec![false; all],
        path: Vec::new(),
    };
    let hosts = topology.hosts.len();
    let mut analysis = LaneAnalysis::default();
    for to in 0..hosts {
        let used = (0..hosts).fold(0u16, |used, from| used | 1 << lanes.levels.get(from, to));
        for level in (0..LEVELS as u8).filter(|level| used >> level & 1 == 1) {
            let sources = (0..hosts).filter(|&from| from != to && lanes.levels.get(from, to) == level);
            analysis.discarded += sources.filter(|&from| walk.lids(from, to, level)).count() as u64;
        }
    }
    let in_cycle = StrongComponents::find(&walk.dependencies, &network);
    analysis.lanes = (0..LEVELS)
        .map(|lane| {
            let of_lane =
                |flags: &[bool]| flags.iter().skip(lane).step_by(LEVELS).filter(|&&f| f).count() as u64;
            LaneVerdict { lane: lane as u8, channels: of_lane(&walk.is_used), in_circles: of_lane(&in_cycle) }
        })
        .filter(|verdict| verdict.channels > 0)
        .collect();
    analysis.cycle = walk.dependencies.cycle(&network).map(|cycle| {
        let on: Vec<usize> = cycle.iter().map(|&LaneOf { lane, .. }| lane).collect();
        let names = named(topology, &wiring, cycle);
        let with_lane = names.iter().zip(on).map(|(name, lane)| format!("{name} (VL {lane})"));
        with_lane.collect::<Vec<_>>().join(", ")
    });
    analysis
}

/// Follows all pairs and records the dependencies.
struct Walk<'a> {
    wiring: &'a Wiring,
    network: &'a PortGraph,
    tables: &'a Tables,
    /// The path bits of the LID of the current route.
    path_bits: usize,
    lanes: &'a Lanes,
    fold: fn(u8) -> u8,
    dependencies: Dependencies,
    /// Whether any pair uses a lane of a channel, indexed by the lane's number in the dependencies.
    is_used: Vec<bool>,
    /// For each lane of a channel, a number that identifies the last route that visited it.
    met: Vec<usize>,
    /// For each lane of a channel, whether packets on the last route that visited it are discarded.
    is_discarded: Vec<bool>,
    path: Vec<usize>,
}

impl Walk<'_> {
    /// Follows one pair to all LIDs of the destination. Returns whether its packets are discarded on some route.
    fn lids(&mut self, from: usize, to: usize, level: u8) -> bool {
        (0..self.tables.lids()).fold(false, |is_discarded, path_bits| {
            self.path_bits = path_bits;
            self.ways(from, to, level) | is_discarded
        })
    }

    /// Follows one pair on all its routes to a LID. Returns whether its packets are discarded on some route.
    fn ways(&mut self, from: usize, to: usize, level: u8) -> bool {
        let Some(detours) = self.lanes.detours else { return self.pair((from, to), level, None) };
        let pair = to * self.wiring.hosts.len() + from;
        if detours.bias().is_none() {
            return self.pair((from, to), level, Some((pair, detours.of_pair(from, to))));
        }
        // Check all possible detours and the minimal route. The numbers below `groups - 2` select each other
        // group once.
        let others =
            (0..detours.groups().saturating_sub(2)).map(|number| detours.third(number as u64, from, to));
        let mut ways: Vec<Option<usize>> = others.chain([None]).collect();
        ways.dedup();
        let count = detours.groups() + 1;
        let mut is_discarded = false;
        for (number, between) in ways.into_iter().enumerate() {
            is_discarded |= self.pair((from, to), level, Some((pair * count + number, between)));
        }
        is_discarded
    }

    /// Follows one pair until its route joins one that was followed before. If there are detours, `way` contains the
    /// number of the route and its intermediate group.
    fn pair(&mut self, (from, to): (usize, usize), level: u8, way: Option<(usize, Option<usize>)>) -> bool {
        let route = way.map_or(to * LEVELS + usize::from(level), |(number, _)| number);
        let stamp = route * self.tables.lids() + self.path_bits;
        let between = way.and_then(|(_, between)| between);
        let Some((start, _)) = self.wiring.hosts.get(from).copied().flatten() else { return false };
        let mut arrival = start;
        self.path.clear();
        let is_discarded = loop {
            let NodeRef::Switch(at) = arrival.node else { break false };
            let at = at as usize;
            let ports = (arrival.port, self.tables.port_by(self.path_bits, at, to));
            let (port, lane) = self.lanes.step_over(at, ports, (from, to), level, between);
            // A table may contain ports that do not exist. Such pairs have no route.
            let (Some(slot), target) = (self.network.slot(at, port), self.network.target(at, port)) else {
                break false;
            };
            let Some(lane) = lane.map(self.fold) else { break true };
            let Target::Switch(_) = target else { break false };
            let onward = LaneOf { switch: at, port, lane: usize::from(lane) };
            if let Some(&waiting) = self.path.last() {
                self.dependencies.add(self.network, waiting, onward);
            }
            let number = slot * LEVELS + onward.lane;
            if self.met[number] == stamp {
                break self.is_discarded[number];
            }
            self.met[number] = stamp;
            self.is_discarded[number] = false;
            self.is_used[number] = true;
            self.path.push(number);
            let Some((next, _)) = self.wiring.switches[at][usize::from(port) - 1] else { break false };
            arrival = next;
        };
        for &number in &self.path {
            self.is_discarded[number] = is_discarded;
        }
        is_discarded
    }
}

/// The strongly connected components of the dependencies (Tarjan 1972). Components with more than one
/// member, or with a member that waits for itself, are cycles.
struct StrongComponents<'a> {
    dependencies: &'a Dependencies,
    network: &'a PortGraph,
    /// The order in which the lanes of channels were reached, from 1; 0 for lanes that are not yet reached.
    order: Vec<u32>,
    /// The position in this order of the earliest open lane to which each lane is known to lead.
    low: Vec<u32>,
    is_open: Vec<bool>,
    open: Vec<usize>,
    in_circle: Vec<bool>,
    reached: u32,
}

impl<'a> StrongComponents<'a> {
    /// For each lane of each channel, whether it is in a cycle.
    fn find(dependencies: &'a Dependencies, network: &'a PortGraph) -> Vec<bool> {
        let all = dependencies.len();
        let mut search = Self {
            dependencies,
            network,
            order: vec![0; all],
            low: vec![0; all],
            is_open: vec![false; all],
            open: Vec::new(),
            in_circle: vec![false; all],
            reached: 0,
        };
        for first in dependencies.all(network) {
            search.from(first);
        }
        search.in_circle
    }

    fn enter(&mut self, number: usize) {
        self.reached += 1;
        (self.order[number], self.low[number]) = (self.reached, self.reached);
        self.is_open[number] = true;
        self.open.push(number);
    }

    fn from(&mut self, first: LaneOf) {
        let number_of = |channel| self.dependencies.number(self.network, channel);
        let Some(start) = number_of(first).filter(|&n| self.order[n] == 0) else { return };
        self.enter(start);
        let mut stack = vec![(first, start, 0)];
        while let Some(&mut (LaneOf { switch, port, .. }, number, ref mut searched)) = stack.last_mut() {
            let next = match self.network.target(switch, port) {
                Target::Switch(end) => self.dependencies.next(number, end as usize, *searched),
                Target::Host(_) | Target::Nothing => None,
            };
            if let Some((next, after)) = next {
                *searched = after;
                let Some(onward) = self.dependencies.number(self.network, next) else { continue };
                self.in_circle[number] |= onward == number;
                if self.order[onward] == 0 {
                    self.enter(onward);
                    stack.push((next, onward, 0));
                } else if self.is_open[onward] {
                    self.low[number] = self.low[number].min(self.order[onward]);
                }
                continue;
            }
            stack.pop();
            if let Some(&(_, before, _)) = stack.last() {
                self.low[before] = self.low[before].min(self.low[number]);
            }
            if self.low[number] == self.order[number] {
                self.close(number);
            }
        }
    }

    /// Removes a component from `open`; `root` is the member that was entered first.
    fn close(&mut self, root: usize) {
        let first = self.open.iter().rposition(|&n| n == root).unwrap_or(0);
        let members = self.open.split_off(first);
        for &member in &members {
            self.is_open[member] = false;
            self.in_circle[member] |= members.len() > 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lanes::{IDENTITY, LaneMaps, PathLevels};
    use super::super::{RoutingSpec, shortest_path::ShortestPath};
    use super::*;
    use crate::topology::custom::{Custom, CustomLink};

    /// A ring of five switches with one host each, on shortest paths.
    fn ring() -> (Topology, Tables) {
        let link =
            |from: String, to: String| CustomLink { from, to, rate: None, delay: None, one_way: false };
        let links = (0..5).flat_map(|s| {
            [link(format!("S{s}"), format!("S{}", (s + 1) % 5)), link(format!("H{s}"), format!("S{s}"))]
        });
        let json = serde_json::json!({ "hosts": [], "switches": [], "links": [] });
        let mut spec: Custom = serde_json::from_value(json).unwrap();
        spec.links = links.collect();
        spec.hosts = (0..5).map(|h| format!("H{h}")).collect();
        let names = (0..5).map(|s| serde_json::json!({ "name": format!("S{s}") }));
        spec.switches = names.map(|name| serde_json::from_value(name).unwrap()).collect();
        let topology = spec.build().unwrap();
        let tables = RoutingSpec::ShortestPath(ShortestPath {}).compute(&topology).unwrap();
        (topology, tables)
    }

    fn lanes(topology: &Topology) -> Lanes {
        Lanes {
            levels: PathLevels::new(topology, 0).unwrap(),
            maps: LaneMaps::new(topology, IDENTITY).unwrap(),
            detours: None,
        }
    }

    #[test]
    fn one_lane_of_a_ring_has_a_cycle_and_two_have_none() {
        let (topology, tables) = ring();
        let mut two = lanes(&topology);
        let one = check_lanes(&topology, &tables, &two);
        assert_eq!(one.lanes, [LaneVerdict { lane: 0, channels: 10, in_circles: 10 }]);
        let cycle = one.cycle.unwrap();
        assert!(cycle.starts_with("S0:1 -> S1:1 (VL 0), S1:2 -> S2:1 (VL 0), "), "{cycle}");
        // Pairs whose route passes between S4 and S0 have another service level.
        for (from, to) in [(3, 0), (4, 1), (0, 3), (1, 4)] {
            two.levels.set(from, to, 1);
        }
        let found = check_lanes(&topology, &tables, &two);
        assert_eq!((&found.cycle, found.discarded), (&None, 0));
        let lane = |lane, channels| LaneVerdict { lane, channels, in_circles: 0 };
        assert_eq!(found.lanes, [lane(0, 10), lane(1, 6)]);
        // Tables that map both levels to one lane restore the cycle.
        for switch in 0..5 {
            for (input, output) in (0..=3).flat_map(|input| (1..=3).map(move |output| (input, output))) {
                assert!(two.maps.set(switch, input, output, [2; LEVELS]));
            }
        }
        let joined = check_lanes(&topology, &tables, &two);
        assert_eq!(joined.lanes, [LaneVerdict { lane: 2, channels: 10, in_circles: 10 }]);
        assert!(joined.cycle.is_some());
    }

    #[test]
    fn changing_lanes_en_route_also_breaks_the_cycle() {
        let (topology, tables) = ring();
        let mut dateline = lanes(&topology);
        // S0 moves packets that arrive from S4 or S1 to lane 1.
        let s0 = topology.switch_named("S0").unwrap() as usize;
        let wiring = topology.wiring();
        let leads_to = |port: u16| wiring.switches[s0][usize::from(port) - 1].map(|(end, _)| end.node);
        let ring_ports: Vec<u16> =
            (1..=3).filter(|&port| matches!(leads_to(port), Some(NodeRef::Switch(_)))).collect();
        let [left, right] = ring_ports[..] else { unreachable!("a ring has two directions") };
        for (input, output) in [(left, right), (right, left)] {
            dateline.maps.set(s0, input, output, [1; LEVELS]);
        }
        let found = check_lanes(&topology, &tables, &dateline);
        assert_eq!(found.cycle, None, "this is sufficient for paths of two links");
        assert_eq!(found.lanes.iter().map(|l| (l.lane, l.in_circles)).collect::<Vec<_>>(), [(0, 0), (1, 0)]);
    }

    #[test]
    fn discarded_pairs_are_counted() {
        let (topology, tables) = ring();
        let mut some = lanes(&topology);
        some.levels.set(0, 1, 15);
        some.levels.set(0, 2, 15);
        assert_eq!(check_lanes(&topology, &tables, &some).discarded, 2);
        let all = Lanes { maps: LaneMaps::new(&topology, [15; LEVELS]).unwrap(), ..some };
        let found = check_lanes(&topology, &tables, &all);
        assert_eq!((found.discarded, found.lanes.len()), (20, 0));
        let nothing = check_lanes(&topology, &Tables::new(Vec::new()), &all);
        assert_eq!(nothing, LaneAnalysis::default());
    }
}
