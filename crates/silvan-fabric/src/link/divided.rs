//! Selects the lane whose credit a packet needs, if receive buffers are divided.

use rustc_hash::FxHashMap;
use silvan_engine::Time;
use silvan_engine::cache::prefetch;

use super::{ChannelId, Division, Lane, Links, Way};
use crate::port::Vl;

/// The lanes of a network whose receive buffers are divided.
#[derive(Debug, Default, Clone)]
pub(super) struct Divided {
    /// One entry per channel.
    pub divisions: Vec<Division>,
    /// Index of the first lane of each channel; the lanes of destinations are created later.
    pub first: Vec<u32>,
    /// The lane for each combination of channel, virtual lane and destination.
    pub by_destination: WayTable,
    /// The most recently used entry. After a query of its credit, its packet is usually sent next.
    pub memo: Option<(Way, u32)>,
    /// The lanes that were created for each channel and virtual lane.
    pub grown: FxHashMap<(ChannelId, Vl), Vec<u32>>,
    /// Bytes of the receive buffer per region of a virtual lane, for each channel.
    pub capacities: Vec<u32>,
}

/// A table of lanes that never removes entries. An entry with its key takes a quarter of a cache line, and a lookup
/// usually reads one line; the table has an entry for each destination of each channel, so it exceeds the caches.
#[derive(Debug, Default, Clone)]
pub(super) struct WayTable {
    /// The number of slots is a power of two, or zero. At most half of them are in use.
    slots: Vec<(u64, u32)>,
    len: usize,
}

/// The key of an unused slot. No way has it, because virtual lanes are below 16.
const UNUSED: u64 = u64::MAX;

impl WayTable {
    #[inline]
    fn key((id, vl, dst): Way) -> u64 {
        // A destination is below `MAX_NODES`, which has 20 bits.
        u64::from(id) << 32 | u64::from(vl.0) << 28 | u64::from(dst)
    }

    /// The slot at which the search for a key begins.
    #[inline]
    fn start(&self, key: u64) -> usize {
        let spread = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (spread >> 32) as usize & self.slots.len().wrapping_sub(1)
    }

    #[inline]
    pub fn get(&self, way: Way) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let key = Self::key(way);
        let mut at = self.start(key);
        loop {
            match self.slots[at] {
                (known, lane) if known == key => return Some(lane),
                (UNUSED, _) => return None,
                _ => at = (at + 1) & (self.slots.len() - 1),
            }
        }
    }

    /// Adds the lane of a way that has none.
    fn insert(&mut self, way: Way, lane: u32) {
        if 2 * (self.len + 1) > self.slots.len() {
            let room = (4 * self.len).max(64).next_power_of_two();
            let old = std::mem::replace(&mut self.slots, vec![(UNUSED, 0); room]);
            old.into_iter().filter(|slot| slot.0 != UNUSED).for_each(|slot| self.place(slot));
        }
        self.place((Self::key(way), lane));
        self.len += 1;
    }

    fn place(&mut self, slot: (u64, u32)) {
        let mut at = self.start(slot.0);
        while self.slots[at].0 != UNUSED {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = slot;
    }

    /// Prefetches the slot of a way.
    #[inline]
    fn prefetch(&self, way: Way) {
        prefetch(&self.slots, self.start(Self::key(way)));
    }
}

impl Links {
    /// Prefetches what [`Self::prefetch_way`] reads.
    #[inline]
    pub fn prefetch_slot(&self, way: Way) {
        if let Some(divided) = &self.divided {
            divided.by_destination.prefetch(way);
        }
    }

    #[inline(never)]
    pub(super) fn divided_lane(&mut self, id: ChannelId, vl: Vl, dst: u32) -> usize {
        let Some(divided) = &mut self.divided else { return 0 };
        let first = |divided: &Divided| divided.first[id as usize] as usize + vl.index();
        match &divided.divisions[id as usize] {
            Division::PerDestination => {
                if let Some((way, lane)) = divided.memo
                    && way == (id, vl, dst)
                {
                    return lane as usize;
                }
                let Some(lane) = divided.by_destination.get((id, vl, dst)) else {
                    return self.grow((id, vl, dst));
                };
                divided.memo = Some(((id, vl, dst), lane));
                lane as usize
            }
            Division::Whole => first(divided),
            Division::Table(region_of, _) => {
                first(divided) + usize::from(region_of[dst as usize]) * self.lane_count
            }
        }
    }

    /// See [`Links::prefetch_way`].
    #[inline(never)]
    pub(super) fn prefetch_divided(&self, divided: &Divided, way: Way) {
        let (id, vl, dst) = way;
        let first = divided.first[id as usize] as usize + vl.index();
        let lane = match &divided.divisions[id as usize] {
            Division::PerDestination => divided.by_destination.get(way).map(|lane| lane as usize),
            Division::Whole => Some(first),
            Division::Table(region_of, _) => {
                region_of.get(dst as usize).map(|&region| first + usize::from(region) * self.lane_count)
            }
        };
        if let Some(lane) = lane {
            prefetch(&self.lanes, lane);
        }
    }

    /// Creates the lane of a destination on a virtual lane of a channel.
    #[cold]
    fn grow(&mut self, way: Way) -> usize {
        let lane = self.lanes.len();
        if let Some(divided) = &mut self.divided {
            let (id, vl, _) = way;
            divided.by_destination.insert(way, lane as u32);
            divided.grown.entry((id, vl)).or_default().push(lane as u32);
            let capacity = divided.capacities[id as usize];
            self.lanes.push(Lane::new(capacity));
            self.ready.push(Time::NEVER);
            self.capacities.push(capacity);
            #[cfg(debug_assertions)]
            self.in_flight.push(0);
        }
        lane
    }

    /// The indices of all lanes of a virtual lane of a channel.
    pub(super) fn ledgers(&self, id: ChannelId, vl: Vl) -> impl Iterator<Item = usize> {
        let (first, regions, grown): (usize, usize, &[u32]) = match &self.divided {
            None => (id as usize * self.lane_count, 1, &[]),
            Some(divided) => {
                let regions = match &divided.divisions[id as usize] {
                    Division::Whole => 1,
                    Division::Table(_, regions) => *regions as usize,
                    Division::PerDestination => 0,
                };
                let grown = divided.grown.get(&(id, vl)).map_or(&[][..], Vec::as_slice);
                (divided.first[id as usize] as usize, regions, grown)
            }
        };
        let fixed = (0..regions).map(move |region| first + region * self.lane_count + vl.index());
        fixed.chain(grown.iter().map(|&lane| lane as usize))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_table_finds_what_was_added(ways in proptest::collection::btree_set((0..40_u32, 0..4_u8, 0..40_u32), 0..400)) {
            let mut table = WayTable::default();
            for (lane, &(id, vl, dst)) in (0..).zip(&ways) {
                prop_assert_eq!(table.get((id, Vl(vl), dst)), None);
                table.insert((id, Vl(vl), dst), lane);
            }
            for (lane, &(id, vl, dst)) in (0..).zip(&ways) {
                prop_assert_eq!(table.get((id, Vl(vl), dst)), Some(lane));
            }
            prop_assert_eq!(table.get((40, Vl(0), 0)), None);
            prop_assert!(2 * ways.len() <= table.slots.len());
        }
    }
}
