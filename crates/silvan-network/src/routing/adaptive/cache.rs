//! The route cache of an input port (PRC in SYSTOR 2009).

use rustc_hash::FxHashMap;
use silvan_engine::saved::Saved;

/// The identifier of a flow during its lifetime (GCID in SYSTOR 2009). A connection has at most one flow at a
/// time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Saved)]
pub struct FlowKey {
    /// Sending host.
    pub source: u32,
    /// Receiving host.
    pub destination: u32,
    /// Number of the connection at the source.
    pub connection: u32,
}

/// The output ports of the flows that arrived at one input port and do not use the default port. Flows without an
/// entry use the default port, so a full cache affects which routes are used, but not whether packets arrive.
#[derive(Debug, Clone, Saved)]
pub struct RouteCache {
    entries: FxHashMap<FlowKey, u16>,
    capacity: usize,
}

impl RouteCache {
    /// Creates an empty cache with a given capacity. `None` means that the cache is unlimited.
    #[must_use]
    pub fn new(capacity: Option<u32>) -> Self {
        // The map grows with the number of entries, so a large capacity does not use memory in advance.
        Self { entries: FxHashMap::default(), capacity: capacity.map_or(usize::MAX, |c| c as usize) }
    }

    /// The output port (from 1) of a flow. `None` if the flow has no entry.
    #[must_use]
    #[inline]
    pub fn get(&self, key: FlowKey) -> Option<u16> {
        self.entries.get(&key).copied()
    }

    /// Whether no more flows can be added.
    #[must_use]
    #[inline]
    pub fn is_full(&self) -> bool {
        self.entries.len() >= self.capacity
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a flow, or replaces the port of a flow that has an entry. Returns false, without any change, if
    /// the flow is new and the cache is full.
    pub fn insert(&mut self, key: FlowKey, port: u16) -> bool {
        let fits = !self.is_full() || self.entries.contains_key(&key);
        if fits {
            self.entries.insert(key, port);
        }
        fits
    }

    /// Removes a flow. Returns its port, or `None` if it has no entry.
    pub fn remove(&mut self, key: FlowKey) -> Option<u16> {
        self.entries.remove(&key)
    }

    /// Removes all flows.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(connection: u32) -> FlowKey {
        FlowKey { source: 1, destination: 2, connection }
    }

    #[test]
    fn a_full_cache_accepts_no_more_flows() {
        let mut cache = RouteCache::new(Some(2));
        assert!(cache.is_empty() && cache.insert(key(0), 7) && cache.insert(key(1), 8));
        assert!(cache.is_full());
        assert!(!cache.insert(key(2), 9), "the cache is full");
        assert!(cache.insert(key(1), 3), "an entry is replaced");
        assert_eq!([0, 1, 2].map(|c| cache.get(key(c))), [Some(7), Some(3), None]);
        assert_eq!((cache.remove(key(0)), cache.remove(key(0))), (Some(7), None));
        assert!(cache.insert(key(2), 9), "a removed entry can be reused");
        assert_eq!(cache.len(), 2);
        cache.clear();
        assert!(cache.is_empty());
    }

    #[test]
    fn capacities_may_be_unlimited_or_zero() {
        assert!(RouteCache::new(Some(0)).is_full());
        let mut endless = RouteCache::new(None);
        assert!((0..1000).all(|c| endless.insert(key(c), 1)) && !endless.is_full());
    }
}
