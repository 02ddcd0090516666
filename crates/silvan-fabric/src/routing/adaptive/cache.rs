//! The route cache of an input port (the paper's PRC).

use rustc_hash::FxHashMap;

/// What names a flow while it lasts: the paper's GCID. One connection has one flow at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Sending host.
    pub source: u32,
    /// Receiving host.
    pub destination: u32,
    /// Which of the source's connections.
    pub connection: u32,
}

/// The output ports of the flows that came in by one port and left the default. What has no
/// entry takes the default port, so its size is a matter of quality alone.
#[derive(Debug, Clone)]
pub struct RouteCache {
    entries: FxHashMap<FlowKey, u16>,
    capacity: usize,
}

impl RouteCache {
    /// An empty cache of so many entries; without a number, of as many as there are.
    #[must_use]
    pub fn new(capacity: Option<u32>) -> Self {
        // The map grows as it is filled: a capacity costs nothing by itself.
        Self { entries: FxHashMap::default(), capacity: capacity.map_or(usize::MAX, |c| c as usize) }
    }

    /// The output port of a flow, if it has an entry.
    #[must_use]
    #[inline]
    pub fn get(&self, key: FlowKey) -> Option<u16> {
        self.entries.get(&key).copied()
    }

    /// Whether no flow more can be entered.
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

    /// Enters a flow; false, and nothing done, if the cache is full.
    pub fn insert(&mut self, key: FlowKey, port: u16) -> bool {
        let fits = !self.is_full() || self.entries.contains_key(&key);
        if fits {
            self.entries.insert(key, port);
        }
        fits
    }

    /// Forgets a flow; gives the port it had.
    pub fn remove(&mut self, key: FlowKey) -> Option<u16> {
        self.entries.remove(&key)
    }

    /// Forgets all flows.
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
    fn a_full_cache_takes_nothing_more() {
        let mut cache = RouteCache::new(Some(2));
        assert!(cache.is_empty() && cache.insert(key(0), 7) && cache.insert(key(1), 8));
        assert!(cache.is_full());
        assert!(!cache.insert(key(2), 9), "there is no room");
        assert!(cache.insert(key(1), 3), "an entry is replaced");
        assert_eq!([0, 1, 2].map(|c| cache.get(key(c))), [Some(7), Some(3), None]);
        assert_eq!((cache.remove(key(0)), cache.remove(key(0))), (Some(7), None));
        assert!(cache.insert(key(2), 9), "an erased entry makes room");
        assert_eq!(cache.len(), 2);
        cache.clear();
        assert!(cache.is_empty());
    }

    #[test]
    fn capacities_may_be_none_and_nothing() {
        assert!(RouteCache::new(Some(0)).is_full());
        let mut endless = RouteCache::new(None);
        assert!((0..1000).all(|c| endless.insert(key(c), 1)) && !endless.is_full());
    }
}
