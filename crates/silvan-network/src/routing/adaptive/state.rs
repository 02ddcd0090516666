//! The state of one switch, and its handling of set-up, data and tear-down packets.
//!
//! [`super::flow_level`] and simulated switches use these functions.

use super::cache::{FlowKey, RouteCache};
use super::heuristic::{Heuristic, tie_break};
use super::table::ExtendedTable;
use silvan_engine::saved::Saved;

/// A flow as announced by its set-up packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdaptiveFlow {
    /// Identifier of the flow.
    pub key: FlowKey,
    /// Number of bytes that the flow will send.
    pub bytes: u64,
}

/// Number and total bytes of the flows that are set up over an output link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Saved)]
pub struct AnnouncedFlows {
    /// Number of flows.
    pub flows: u32,
    /// Total bytes of these flows.
    pub bytes: u64,
}

/// State of a switch: a counter for each output link, and a cache for each input port.
#[derive(Debug, Clone, Saved)]
pub struct SwitchState {
    loads: Vec<AnnouncedFlows>,
    caches: Vec<RouteCache>,
}

/// Selects the output port for the set-up packet of a flow that arrived at port `input` (from 1). The result
/// depends only on the arguments. It is the default port if the destination has no alternate ports or the
/// cache is full.
///
/// Among ports of equal cost, a random port is selected. A switch above the destination instead keeps the
/// default port if its cost is the lowest, because a horizontal hop makes the route longer. SYSTOR 2009 does
/// not define how to break ties. This rule agrees better with its figure 5 than a rule that always prefers
/// the default port, or never.
#[must_use]
pub fn choose(
    table: &ExtendedTable,
    state: &SwitchState,
    input: u16,
    flow: &AdaptiveFlow,
    heuristic: Heuristic,
) -> u16 {
    let (default, alternates) = table.candidates(input, flow.key.destination);
    if alternates.is_empty() || state.cache(input).is_none_or(RouteCache::is_full) {
        return default;
    }
    let measure = |port| heuristic.measure(state.load(port), (table.switch(), port), flow.key);
    let others = || alternates.iter().copied().filter(|port| *port != default);
    let least = others().map(measure).fold(measure(default), u64::min);
    let default_ties = measure(default) == least;
    if default_ties && !table.is_up(flow.key.destination) {
        return default;
    }
    let best =
        || default_ties.then_some(default).into_iter().chain(others().filter(|p| measure(*p) == least));
    let number = tie_break(table.switch(), flow.key) % best().count().max(1) as u64;
    best().nth(number as usize).unwrap_or(default)
}

impl SwitchState {
    /// The state of a switch without flows. `cache_entries` limits the cache of each input port; `None` means
    /// no limit.
    #[must_use]
    pub fn new(table: &ExtendedTable, cache_entries: Option<u32>) -> Self {
        let ports = usize::from(table.ports());
        Self {
            loads: vec![AnnouncedFlows::default(); ports],
            caches: vec![RouteCache::new(cache_entries); ports],
        }
    }

    /// The flows that are set up over an output port (from 1); none if the port does not exist.
    #[must_use]
    #[inline]
    pub fn load(&self, port: u16) -> AnnouncedFlows {
        self.loads.get(usize::from(port).wrapping_sub(1)).copied().unwrap_or_default()
    }

    /// The cache of an input port (from 1). `None` if the port does not exist.
    #[must_use]
    #[inline]
    pub fn cache(&self, input: u16) -> Option<&RouteCache> {
        self.caches.get(usize::from(input).wrapping_sub(1))
    }

    /// Routes a set-up packet and counts its flow. Returns the output port. If the output port is not the
    /// default port, the flow is added to the cache. A flow that already has an entry keeps its port and is
    /// not counted again.
    pub fn set_up(
        &mut self,
        table: &ExtendedTable,
        input: u16,
        flow: &AdaptiveFlow,
        heuristic: Heuristic,
    ) -> u16 {
        if let Some(port) = self.cache(input).and_then(|cache| cache.get(flow.key)) {
            return port;
        }
        let port = choose(table, self, input, flow, heuristic);
        if table.entry(flow.key.destination).is_some_and(|entry| entry.default != port)
            && let Some(cache) = self.caches.get_mut(usize::from(input).wrapping_sub(1))
        {
            cache.insert(flow.key, port);
        }
        if let Some(load) = self.loads.get_mut(usize::from(port).wrapping_sub(1)) {
            load.flows = load.flows.saturating_add(1);
            load.bytes = load.bytes.saturating_add(flow.bytes);
        }
        port
    }

    /// Routes a data packet according to the entry of its flow, or else through the default port.
    #[must_use]
    #[inline]
    pub fn forward(&self, table: &ExtendedTable, input: u16, key: FlowKey) -> u16 {
        let cached = self.cache(input).and_then(|cache| cache.get(key));
        cached.unwrap_or_else(|| table.default_port(key.destination))
    }

    /// Routes a tear-down packet like data, and removes its flow from the cache and the counter.
    pub fn tear_down(&mut self, table: &ExtendedTable, input: u16, flow: &AdaptiveFlow) -> u16 {
        let cache = self.caches.get_mut(usize::from(input).wrapping_sub(1));
        let cached = cache.and_then(|cache| cache.remove(flow.key));
        let port = cached.unwrap_or_else(|| table.default_port(flow.key.destination));
        if let Some(load) = self.loads.get_mut(usize::from(port).wrapping_sub(1)) {
            load.flows = load.flows.saturating_sub(1);
            load.bytes = load.bytes.saturating_sub(flow.bytes);
        }
        port
    }

    /// Whether no flow is set up over any link and all caches are empty.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.loads.iter().all(|load| *load == AnnouncedFlows::default())
            && self.caches.iter().all(RouteCache::is_empty)
    }

    /// Removes all flows.
    pub fn clear(&mut self) {
        self.loads.fill(AnnouncedFlows::default());
        self.caches.iter_mut().filter(|cache| !cache.is_empty()).for_each(RouteCache::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::AdaptiveTables;
    use super::*;
    use crate::topology::modified_tree::ModifiedTree;

    /// The table of leaf L1.1 of a 4-ary 2-tree, with hosts at ports 1 to 4, and ports 5 to 8 up.
    fn leaf() -> ExtendedTable {
        let topology = ModifiedTree::new(4, 2, 1).build().unwrap();
        AdaptiveTables::new(&topology).unwrap().switches.swap_remove(0)
    }

    fn flow(destination: u32, connection: u32, bytes: u64) -> AdaptiveFlow {
        AdaptiveFlow { key: FlowKey { source: 0, destination, connection }, bytes }
    }

    #[test]
    fn ties_on_the_way_up_are_broken_randomly() {
        let (table, count) = (leaf(), Heuristic::FlowCount);
        let empty = SwitchState::new(&table, None);
        let mut taken = [0; 4];
        for connection in 0..4000 {
            let port = choose(&table, &empty, 1, &flow(5, connection, 10), count);
            assert_eq!(port, choose(&table, &empty, 2, &flow(5, connection, 20), count));
            taken[usize::from(port) - 5] += 1;
        }
        assert!(taken.iter().all(|n| (900..1100).contains(n)), "{taken:?}");
        let mut state = empty;
        for connection in 0..16 {
            state.set_up(&table, 1, &flow(5, connection, 10), count);
            let flows = [5, 6, 7, 8].map(|port| state.load(port).flows);
            assert!(flows.iter().all(|n| n.abs_diff(connection / 4) <= 1), "{flows:?}");
        }
        assert_eq!(state.load(6), AnnouncedFlows { flows: 4, bytes: 40 });
        assert_eq!(state.set_up(&table, 1, &flow(2, 0, 10), count), 3, "a host's port has no alternates");
    }

    #[test]
    fn the_default_port_wins_ties_on_the_way_down_and_leaves_no_entry() {
        let topology = ModifiedTree::new(4, 2, 1).build().unwrap();
        let table = AdaptiveTables::new(&topology).unwrap().switches.swap_remove(4);
        let mut state = SwitchState::new(&table, None);
        let mut ports = (0..6).map(|c| state.set_up(&table, 1, &flow(5, c, 10), Heuristic::FlowCount));
        let (down, aside) = (ports.next(), ports.next());
        assert_eq!(down, Some(table.entry(5).unwrap().default));
        assert_ne!(aside, down);
        assert_eq!(ports.collect::<Vec<_>>(), [down, aside, down, aside].map(Option::unwrap));
        let entered = |c| state.cache(1).unwrap().get(flow(5, c, 0).key);
        assert_eq!([0, 1, 2].map(entered), [None, aside, None]);
    }

    #[test]
    fn bytes_decide_if_flow_counts_are_equal() {
        let table = leaf();
        for (heuristic, wanted) in [(Heuristic::FlowCount, 4), (Heuristic::Bytes, 1)] {
            let mut state = SwitchState::new(&table, None);
            let sizes = [100, 90, 10, 80];
            let ports: Vec<u16> =
                (0..).zip(sizes).map(|(c, b)| state.set_up(&table, 1, &flow(5, c, b), heuristic)).collect();
            let next = (4..100).map(|c| choose(&table, &state, 1, &flow(5, c, 5), heuristic));
            let next: std::collections::BTreeSet<u16> = next.collect();
            assert!(next.contains(&ports[2]));
            assert_eq!(next.len(), wanted, "{heuristic}");
        }
    }

    #[test]
    fn data_follow_the_entry_and_tear_down_erases_all() {
        let table = leaf();
        let mut state = SwitchState::new(&table, None);
        let flows: Vec<AdaptiveFlow> = (0..12).map(|c| flow(4 + c / 6, c, u64::from(c))).collect();
        let ports: Vec<u16> =
            flows.iter().map(|f| state.set_up(&table, 1, f, Heuristic::FlowCount)).collect();
        assert_eq!((5..=8).map(|p| state.load(p).flows).collect::<Vec<_>>(), [3; 4]);
        // A repeated set-up packet finds its entry, and is not counted twice.
        let entered = |f: &&AdaptiveFlow| state.cache(1).unwrap().get(f.key).is_some();
        let known: Vec<&AdaptiveFlow> = flows.iter().filter(entered).collect();
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
        let (table, count) = (leaf(), Heuristic::FlowCount);
        let mut state = SwitchState::new(&table, Some(1));
        let ports: Vec<u16> = (0..20).map(|c| state.set_up(&table, 1, &flow(5, c, 1), count)).collect();
        let other = ports.iter().position(|port| *port != 6).unwrap();
        assert!(ports[other + 1..].iter().all(|port| *port == 6), "{ports:?}");
        assert_eq!(state.load(6).flows, 19, "flows without an entry are counted too");
        // Another input port has a separate cache.
        assert_ne!(state.set_up(&table, 2, &flow(5, 20, 1), count), 6);
        state.tear_down(&table, 1, &flow(5, other as u32, 1));
        assert_ne!(state.set_up(&table, 1, &flow(5, 21, 1), count), 6, "the cache has a free entry again");
        state.clear();
        assert!(state.is_idle());
    }
}
