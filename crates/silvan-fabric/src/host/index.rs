//! Finds a host's flows by source and destination: a hash table with linear probing that is at most half
//! full.
//!
//! The table stores the hashes, so that a search reads only flows with an equal hash.

use silvan_engine::cache::prefetch;
use silvan_engine::saved::Saved;

/// Index of a flow in its [`super::flows::FlowTable`].
pub(crate) type FlowId = u32;

/// No flow.
pub(super) const NONE: FlowId = FlowId::MAX;

/// Hash of a flow's source and destination.
pub(super) type Hash = u32;

#[inline]
pub(super) fn hash(source: u16, destination: u32) -> Hash {
    let pair = u64::from(source) << 32 | u64::from(destination);
    // Fibonacci hashing: the factor is 2^64 divided by the golden ratio.
    (pair.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as Hash
}

#[derive(Debug, Clone, Copy, Saved)]
struct IndexSlot {
    hash: Hash,
    /// [`NONE`] if the slot is free.
    id: FlowId,
}

const GAP: IndexSlot = IndexSlot { hash: 0, id: NONE };

#[derive(Debug, Saved)]
pub(super) struct Index {
    slots: Box<[IndexSlot]>,
    len: usize,
}

impl Default for Index {
    fn default() -> Self {
        Self { slots: vec![GAP; 8].into_boxed_slice(), len: 0 }
    }
}

impl Index {
    /// Number of flows in the index.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn mask(&self) -> usize {
        self.slots.len() - 1
    }

    /// The first slot, starting from the hash's position, that is empty or for which `is_wanted` returns
    /// true.
    #[inline]
    fn probe(&self, hash: Hash, is_wanted: impl Fn(&IndexSlot) -> bool) -> usize {
        let mut at = hash as usize & self.mask();
        while self.slots[at].id != NONE && !is_wanted(&self.slots[at]) {
            at = (at + 1) & self.mask();
        }
        at
    }

    /// The flow with this hash for which `is_it` returns true; `None` without such a flow.
    #[inline]
    pub fn find(&self, hash: Hash, is_it: impl Fn(FlowId) -> bool) -> Option<FlowId> {
        let slot = self.slots[self.probe(hash, |slot| slot.hash == hash && is_it(slot.id))];
        (slot.id != NONE).then_some(slot.id)
    }

    /// Adds a flow that must not be in the index.
    #[inline]
    pub fn insert(&mut self, hash: Hash, id: FlowId) {
        let at = self.probe(hash, |_| false);
        self.slots[at] = IndexSlot { hash, id };
        self.len += 1;
        if 2 * self.len > self.slots.len() {
            self.grow();
        }
    }

    #[inline(never)]
    fn grow(&mut self) {
        let larger = vec![GAP; 2 * self.slots.len()].into_boxed_slice();
        for slot in std::mem::replace(&mut self.slots, larger) {
            if slot.id != NONE {
                let at = self.probe(slot.hash, |_| false);
                self.slots[at] = slot;
            }
        }
    }

    /// Removes a flow, which must be in the index, and moves up later entries that probing would not reach
    /// otherwise.
    #[inline]
    pub fn remove(&mut self, hash: Hash, id: FlowId) {
        let mask = self.mask();
        let mut gap = self.probe(hash, |slot| slot.id == id);
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot.id == NONE {
                break;
            }
            let home = slot.hash as usize;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(gap) & mask {
                self.slots[gap] = slot;
                gap = at;
            }
        }
        self.slots[gap] = GAP;
        self.len -= 1;
    }

    /// Prefetches the first slot of a hash.
    #[inline]
    pub fn prefetch_slot(&self, hash: Hash) {
        prefetch(&self.slots, hash as usize & self.mask());
    }

    /// Prefetches the beginning of the table.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(&self.slots, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares the index with a map. Some hashes are equal, and their lower bits have only three values.
        #[test]
        fn an_index_is_a_map(steps in prop::collection::vec((0u32..16, any::<bool>()), 1..200)) {
            let hash = |id: u32| ((id / 2 % 4) << 30) | (id % 3);
            let (mut index, mut map) = (Index::default(), BTreeMap::new());
            for (id, adds) in steps {
                match (adds, map.contains_key(&id)) {
                    (true, false) => {
                        index.insert(hash(id), id);
                        map.insert(id, ());
                    }
                    (false, true) => {
                        index.remove(hash(id), id);
                        map.remove(&id);
                    }
                    _ => {}
                }
                prop_assert_eq!(index.len(), map.len());
                for id in 0..16 {
                    let found = index.find(hash(id), |other| other == id);
                    prop_assert_eq!(found, map.contains_key(&id).then_some(id));
                }
            }
        }
    }
}
