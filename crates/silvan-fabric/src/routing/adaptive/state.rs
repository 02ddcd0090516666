//! One switch: what it remembers, and what it does with set-up, data and tear-down packets.
//!
//! All of it depends on this switch alone, so the same functions serve whole networks of flows
//! ([`super::flow_level`]) and switches that see packets.

use super::cache::{FlowKey, RouteCache};
use super::heuristic::Heuristic;
use super::table::ExtendedTable;

/// A flow as its set-up packet announces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Its name.
    pub key: FlowKey,
    /// Bytes it is to send.
    pub bytes: u64,
}

/// What is set up over an output link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkLoad {
    /// Flows.
    pub flows: u32,
    /// Bytes of these flows.
    pub bytes: u64,
}

/// What a switch remembers: a counter per output link and a cache per input port.
#[derive(Debug, Clone)]
pub struct SwitchState {
    loads: Vec<LinkLoad>,
    caches: Vec<RouteCache>,
}

/// The output port for the set-up packet of a flow that came in by port `input` (from 1). A
/// function of the switch's own table and state.
#[must_use]
pub fn choose(
    table: &ExtendedTable,
    state: &SwitchState,
    input: u16,
    flow: &Flow,
    heuristic: Heuristic,
) -> u16 {
    let (default, alternates) = table.candidates(input, flow.key.destination);
    if alternates.is_empty() || state.cache(input).is_none_or(RouteCache::is_full) {
        return default;
    }
    let measure = |port| heuristic.measure(state.load(port), (table.switch(), port), flow.key);
    let mut best = (measure(default), default);
    for &port in alternates {
        let measured = measure(port);
        // Strictly less: an equal port is not worth an entry.
        if measured < best.0 {
            best = (measured, port);
        }
    }
    best.1
}

impl SwitchState {
    /// A switch without flows. `cache_entries` bounds the cache of each input port.
    #[must_use]
    pub fn new(table: &ExtendedTable, cache_entries: Option<u32>) -> Self {
        let ports = usize::from(table.ports());
        Self { loads: vec![LinkLoad::default(); ports], caches: vec![RouteCache::new(cache_entries); ports] }
    }

    /// What is set up over an output port (from 1); nothing for a port that does not exist.
    #[must_use]
    #[inline]
    pub fn load(&self, port: u16) -> LinkLoad {
        self.loads.get(usize::from(port).wrapping_sub(1)).copied().unwrap_or_default()
    }

    /// The cache of an input port (from 1).
    #[must_use]
    #[inline]
    pub fn cache(&self, input: u16) -> Option<&RouteCache> {
        self.caches.get(usize::from(input).wrapping_sub(1))
    }

    /// Routes a set-up packet: enters the flow and counts it. A flow that has an entry already
    /// keeps its port and is not counted again.
    pub fn set_up(&mut self, table: &ExtendedTable, input: u16, flow: &Flow, heuristic: Heuristic) -> u16 {
        if let Some(port) = self.cache(input).and_then(|cache| cache.get(flow.key)) {
            return port;
        }
        let port = choose(table, self, input, flow, heuristic);
        if table.entry(flow.key.destination).is_some_and(|entry| entry.default != port) {
            if let Some(cache) = self.caches.get_mut(usize::from(input).wrapping_sub(1)) {
                cache.insert(flow.key, port);
            }
        }
        if let Some(load) = self.loads.get_mut(usize::from(port).wrapping_sub(1)) {
            load.flows = load.flows.saturating_add(1);
            load.bytes = load.bytes.saturating_add(flow.bytes);
        }
        port
    }

    /// Routes a data packet: by the flow's entry, else by the default port.
    #[must_use]
    pub fn forward(&self, table: &ExtendedTable, input: u16, key: FlowKey) -> u16 {
        let cached = self.cache(input).and_then(|cache| cache.get(key));
        cached.unwrap_or_else(|| table.candidates(input, key.destination).0)
    }

    /// Routes a tear-down packet, as data, and erases the flow behind it.
    pub fn tear_down(&mut self, table: &ExtendedTable, input: u16, flow: &Flow) -> u16 {
        let cache = self.caches.get_mut(usize::from(input).wrapping_sub(1));
        let cached = cache.and_then(|cache| cache.remove(flow.key));
        let port = cached.unwrap_or_else(|| table.candidates(input, flow.key.destination).0);
        if let Some(load) = self.loads.get_mut(usize::from(port).wrapping_sub(1)) {
            load.flows = load.flows.saturating_sub(1);
            load.bytes = load.bytes.saturating_sub(flow.bytes);
        }
        port
    }

    /// Whether it remembers nothing: no flow is set up over any link, and all caches are empty.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.loads.iter().all(|load| *load == LinkLoad::default())
            && self.caches.iter().all(RouteCache::is_empty)
    }

    /// Forgets all flows.
    pub fn clear(&mut self) {
        self.loads.fill(LinkLoad::default());
        self.caches.iter_mut().filter(|cache| !cache.is_empty()).for_each(RouteCache::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::AdaptiveTables;
    use super::*;
    use crate::topology::modified_tree::ModifiedTree;

    /// The leaf L1.1 of a 4-ary 2-tree: hosts at ports 1 to 4, ports 5 to 8 up.
    fn leaf() -> ExtendedTable {
        let topology = ModifiedTree::new(4, 2, 1).build().unwrap();
        AdaptiveTables::new(&topology).unwrap().switches.swap_remove(0)
    }

    fn flow(destination: u32, connection: u32, bytes: u64) -> Flow {
        Flow { key: FlowKey { source: 0, destination, connection }, bytes }
    }

    #[test]
    fn the_default_port_wins_ties_and_leaves_no_entry() {
        let (table, count) = (leaf(), Heuristic::FlowCount);
        let mut state = SwitchState::new(&table, None);
        // To H6 (digit 1) by port 6.
        assert_eq!(state.set_up(&table, 1, &flow(5, 0, 10), count), 6);
        assert!(state.cache(1).unwrap().is_empty());
        // The default now has a flow; the first of the others has none.
        assert_eq!(state.set_up(&table, 1, &flow(5, 1, 10), count), 5);
        assert_eq!(state.cache(1).unwrap().get(flow(5, 1, 0).key), Some(5));
        let next = [2, 3, 4].map(|c| state.set_up(&table, 2, &flow(5, c, 10), count));
        assert_eq!(next, [7, 8, 6], "by the least flows, then by the default again");
        assert_eq!(state.load(6), LinkLoad { flows: 2, bytes: 20 });
        assert_eq!(state.set_up(&table, 1, &flow(2, 0, 10), count), 3, "a host's port has no alternates");
    }

    #[test]
    fn bytes_weigh_where_flows_do_not() {
        let table = leaf();
        for (heuristic, last) in [(Heuristic::FlowCount, 6), (Heuristic::Bytes, 7)] {
            let mut state = SwitchState::new(&table, None);
            let sizes = [100, 90, 10, 80];
            for (c, bytes) in (0..).zip(sizes) {
                state.set_up(&table, 1, &flow(5, c, bytes), heuristic);
            }
            assert_eq!(state.set_up(&table, 1, &flow(5, 9, 5), heuristic), last, "{heuristic}");
        }
    }

    #[test]
    fn data_follow_the_entry_and_tear_down_erases_all() {
        let table = leaf();
        let mut state = SwitchState::new(&table, None);
        let flows: Vec<Flow> = (0..12).map(|c| flow(4 + c / 6, c, u64::from(c))).collect();
        let ports: Vec<u16> =
            flows.iter().map(|f| state.set_up(&table, 1, f, Heuristic::FlowCount)).collect();
        assert_eq!((5..=8).map(|p| state.load(p).flows).collect::<Vec<_>>(), [3; 4]);
        // A set-up packet that comes again finds its entry, and is not counted twice.
        let entered = |f: &&Flow| state.cache(1).unwrap().get(f.key).is_some();
        let known: Vec<&Flow> = flows.iter().filter(entered).collect();
        assert!(known.len() > 3);
        for f in known {
            let before = state.forward(&table, 1, f.key);
            assert_eq!(state.set_up(&table, 1, f, Heuristic::FlowCount), before);
        }
        assert_eq!((5..=8).map(|p| state.load(p).flows).collect::<Vec<_>>(), [3; 4]);
        let by: Vec<u16> = flows.iter().map(|f| state.forward(&table, 1, f.key)).collect();
        assert_eq!(by, ports);
        assert!(!state.is_idle());
        let down: Vec<u16> = flows.iter().map(|f| state.tear_down(&table, 1, f)).collect();
        assert_eq!(down, ports);
        assert!(state.is_idle());
    }

    #[test]
    fn a_full_cache_means_the_default_port() {
        let table = leaf();
        let mut state = SwitchState::new(&table, Some(1));
        let ports = [0, 1, 2, 3].map(|c| state.set_up(&table, 1, &flow(5, c, 1), Heuristic::FlowCount));
        assert_eq!(ports, [6, 5, 6, 6]);
        assert_eq!(state.load(6).flows, 3, "flows without an entry are counted too");
        // Another input port has a cache of its own.
        assert_eq!(state.set_up(&table, 2, &flow(5, 4, 1), Heuristic::FlowCount), 7);
        state.tear_down(&table, 1, &flow(5, 1, 1));
        assert_eq!(state.set_up(&table, 1, &flow(5, 5, 1), Heuristic::FlowCount), 5, "there is room again");
        state.clear();
        assert!(state.is_idle());
    }
}
