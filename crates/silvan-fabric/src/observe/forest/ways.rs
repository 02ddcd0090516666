//! The routes of flows through the network, link by link, and the congestion trees on these routes.

use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};
use silvan_network::routing::adaptive::FlowKey;

use super::NONE;
use super::map::{Map, StaticRoutes};
use super::moment::Moment;
use crate::partition::View;

/// The root on a packet's route or, if there is none, the first branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meets {
    Nothing,
    /// A link.
    Branch(u32),
    /// Index of the root.
    Root(u32),
}

/// The routes of flows at one moment. If a flow has one route that does not follow from forwarding tables alone, the route is
/// stored, because finding it takes several searches in hash tables, and many packets of a flow may be in the network.
pub(super) struct SampledRoutes<'a> {
    pub view: View<'a>,
    pub map: &'a Map,
    /// The range in `links` of each stored route.
    of: FxHashMap<FlowKey, Range<usize>>,
    links: Vec<u32>,
}

impl<'a> SampledRoutes<'a> {
    pub fn new(view: View<'a>, map: &'a Map) -> Self {
        Self { view, map, of: FxHashMap::default(), links: Vec::new() }
    }

    /// Finds the root on a packet's route from its source to its destination or, if there is none, the first
    /// branch. If the packets of a flow can take several routes, all of these are considered.
    pub fn meets(&mut self, (key, vl): (FlowKey, u8), moment: &Moment) -> Meets {
        let map = self.map;
        match &map.tables {
            Some(tables) => first_met(plain_way(key, tables, map), vl, map, moment),
            None if map.has_choice => first_met(ways(key, self.view, map).into_iter(), vl, map, moment),
            None => first_met(self.links_of(key).iter().copied(), vl, map, moment),
        }
    }

    /// Visits the links on a flow's current route, starting at the source.
    pub fn pass(&mut self, key: FlowKey, each: impl FnMut(u32)) {
        let (view, map) = (self.view, self.map);
        match &map.tables {
            Some(tables) => plain_way(key, tables, map).for_each(each),
            None if map.has_choice => way(key, view, map).for_each(each),
            None => self.links_of(key).iter().copied().for_each(each),
        }
    }

    /// The links on a flow's current route, starting at the source.
    fn links_of(&mut self, key: FlowKey) -> &[u32] {
        let Self { view, map, of, links } = self;
        let range = of.entry(key).or_insert_with(|| {
            let first = links.len();
            links.extend(way(key, *view, map));
            first..links.len()
        });
        &links[range.clone()]
    }
}

/// The first root among `links` or, if there is none, the first branch. If packets change lanes, the lane on
/// each link is unknown, so all lanes count.
#[inline(always)]
fn first_met(links: impl Iterator<Item = u32>, vl: u8, map: &Map, moment: &Moment) -> Meets {
    let mut found = Meets::Nothing;
    for link in links {
        let member = &moment.members[link as usize];
        if member.holds(vl) || map.changes_lanes && member.is_in() {
            if member.depth == 0 {
                return Meets::Root(member.root);
            }
            if found == Meets::Nothing {
                found = Meets::Branch(link);
            }
        }
    }
    found
}

/// Same as [`way`], if the forwarding tables alone determine routes.
#[inline(always)]
fn plain_way(key: FlowKey, tables: &StaticRoutes, map: &Map) -> impl Iterator<Item = u32> {
    let mut link = map.of_host[key.source as usize];
    let mut left = tables.of.len() + 1;
    std::iter::from_fn(move || {
        let here = link;
        if here == NONE || left == 0 {
            return None;
        }
        left -= 1;
        link = match tables.far.get(here as usize) {
            Some(&far) if far != NONE => {
                let output = usize::from(tables.of[far as usize].port(key.destination).0);
                map.outputs[far as usize].get(output).copied().unwrap_or(NONE)
            }
            _ => NONE,
        };
        Some(here)
    })
}

/// The links of all possible routes of a flow whose packets take several routes, in order of their distance
/// from its source.
fn ways(key: FlowKey, view: View, map: &Map) -> Vec<u32> {
    if let Some(lids) = view.all_ports().find_map(|ports| ports.hasher()?.hash.lids()) {
        return ways_by_lid(key, lids, view, map);
    }
    let mut links = vec![map.of_host[key.source as usize]];
    links.retain(|&link| link != NONE);
    let (mut met, mut next) = (FxHashSet::default(), 0);
    while let Some(&link) = links.get(next) {
        next += 1;
        let receiver = view.receiver[map.links[link as usize].channel as usize];
        let Some((switch, _)) = receiver.filter(|&(switch, _)| met.insert(switch)) else { continue };
        let ports = view.ports(switch);
        let chosen = ports.chooser().map(|chooser| chooser.outputs(key.destination));
        let Some(ports) = chosen.or_else(|| ports.hashed_outputs(key.destination)) else { continue };
        let outputs = ports.iter().filter_map(|port| map.outputs[switch as usize].get(port.index()));
        links.extend(outputs.filter(|&&link| link != NONE));
    }
    links
}

/// The links of the routes to all LIDs of the destination, one route after another.
fn ways_by_lid(key: FlowKey, lids: u16, view: View, map: &Map) -> Vec<u32> {
    let mut links = Vec::new();
    let first = Some(map.of_host[key.source as usize]).filter(|&link| link != NONE);
    for lid in 0..lids {
        let next = |&link: &u32| {
            let (switch, _) = view.receiver[map.links[link as usize].channel as usize]?;
            let output = view.ports(switch).hashed_output(&key, lid)?;
            map.outputs[switch as usize].get(output.index()).copied().filter(|&link| link != NONE)
        };
        links.extend(std::iter::successors(first, next).take(view.switch_count() + 1));
    }
    links
}

/// The links on a flow's current route, starting at the source.
fn way(key: FlowKey, view: View, map: &Map) -> impl Iterator<Item = u32> {
    // A route passes each switch at most once, because tables are checked before the run.
    let most = view.switch_count() + 1;
    let first = Some(map.of_host[key.source as usize]).filter(|&link| link != NONE);
    let next = move |&link: &u32| {
        let (switch, input) = view.receiver[map.links[link as usize].channel as usize]?;
        let ports = view.ports(switch);
        let routes = ports.director().and_then(|director| director.routes.as_ref());
        let hashed = || ports.hashed_output(&key, 0);
        let plain = || hashed().unwrap_or_else(|| ports.output_of(key.source, key.destination));
        let output = routes.map_or_else(
            || plain().index(),
            |routes| usize::from(routes.state.forward(&routes.table, input.number(), key)).wrapping_sub(1),
        );
        map.outputs[switch as usize].get(output).copied().filter(|&link| link != NONE)
    };
    std::iter::successors(first, next).take(most)
}

#[cfg(test)]
mod tests {
    use silvan_engine::Time;

    use super::*;
    use crate::config::Ecmp;
    use crate::tests::{config, network, topology};

    #[test]
    fn stored_routes_are_those_that_are_followed_anew() {
        let topology =
            topology(r#"{"kind": "two-level-fat-tree", "leaves": 2, "spines": 4, "hosts_per_leaf": 4}"#);
        let mut config = config(Time::from_us(1));
        config.ecmp = Some(Ecmp::default());
        let mut network = network(&topology, &config);
        let mut observer = network.forest.take().unwrap();
        let view = network.view(Time::from_us(1));
        observer.map.find_hosts(view);
        assert!(observer.map.tables.is_none() && !observer.map.has_choice);
        let mut routes = SampledRoutes::new(view, &observer.map);
        let mut inner: FxHashSet<u32> = FxHashSet::default();
        for key in (0..8).flat_map(|source| (0..8).map(move |destination| (source, destination))) {
            let key = FlowKey { source: key.0, destination: key.1, connection: 0 };
            let expected: Vec<u32> = way(key, view, &observer.map).collect();
            for _ in 0..2 {
                let mut found = Vec::new();
                routes.pass(key, |link| found.push(link));
                assert_eq!(found, expected, "{key:?}");
            }
            inner.extend(expected.get(1).filter(|_| expected.len() == 4));
        }
        assert_eq!(routes.of.len(), 64);
        assert!(inner.len() > 4, "the leaves use several of their uplinks: {inner:?}");
    }
}
