//! Selects the lane whose credit a packet needs, if receive buffers are divided.

use rustc_hash::FxHashMap;
use silvan_engine::cache::prefetch;
use silvan_engine::{EventQueue, Time};

use super::{ChannelId, Division, Lane, Links, Way};
use crate::packet::NO_LEDGER;
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
    /// What the receiver of a packet stores with the ledger whose credit the packet spent, indexed by ledger. Grows with
    /// its use.
    relays: Vec<Relay>,
}

/// The way of the packets of a destination through a switch. It replaces look-ups by destination.
#[derive(Debug, Clone, Copy)]
struct Relay {
    /// The queue of the destination at the input; [`NONE`] if there is none.
    queue: u32,
    /// The ledger of the link on which the packets leave; [`NO_LEDGER`] if not known.
    next: u32,
}

/// No queue.
const NONE: u32 = u32::MAX;

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
}

impl Divided {
    fn relay(&mut self, ledger: u32) -> &mut Relay {
        let at = ledger as usize;
        if self.relays.len() <= at {
            // Ledgers are created one after the other.
            let room = (at + 1).next_power_of_two();
            self.relays.resize(room, Relay { queue: NONE, next: NO_LEDGER });
        }
        &mut self.relays[at]
    }
}

impl Links {
    /// Prefetches what [`Self::relay_queue`] reads.
    #[inline]
    pub fn prefetch_relay(&self, ledger: u32) {
        if let Some(divided) = &self.divided {
            prefetch(&divided.relays, ledger as usize);
        }
    }

    /// The queue that the receiver of packets has assigned to a ledger.
    #[inline]
    pub fn relay_queue(&self, ledger: u32) -> Option<u32> {
        let relay = self.divided.as_ref()?.relays.get(ledger as usize)?;
        (relay.queue != NONE).then_some(relay.queue)
    }

    /// The queue that the receiver of packets has assigned to the ledger of a way.
    pub fn relay_queue_of(&self, way: Way) -> Option<u32> {
        let ledger = self.divided.as_ref()?.by_destination.get(way)?;
        self.relay_queue(ledger)
    }

    /// Assigns a queue to a ledger.
    pub fn open_relay(&mut self, ledger: u32, queue: u32) {
        if let Some(divided) = &mut self.divided {
            divided.relay(ledger).queue = queue;
        }
    }

    /// Ends the assignment of a queue to a ledger.
    #[inline]
    pub fn close_relay(&mut self, ledger: u32) {
        if let Some(divided) = &mut self.divided
            && let Some(relay) = divided.relays.get_mut(ledger as usize)
        {
            relay.queue = NONE;
        }
    }

    /// Prefetches the ledger itself, and the ledger of the next link, as far as they are known.
    #[inline]
    pub fn prefetch_ledgers(&self, ledger: u32) {
        prefetch(&self.lanes, ledger as usize);
        if let Some(relay) = self.divided.as_ref().and_then(|divided| divided.relays.get(ledger as usize)) {
            prefetch(&self.lanes, relay.next as usize);
        }
    }

    /// The ledger of the last packet that was sent on a channel, if it belongs to the destination of the packet;
    /// otherwise [`NO_LEDGER`].
    #[inline]
    pub fn last_ledger(&self, channel: ChannelId) -> u32 {
        let memo = self.divided.as_ref().and_then(|divided| divided.memo);
        memo.filter(|((id, ..), _)| *id == channel).map_or(NO_LEDGER, |(_, ledger)| ledger)
    }

    /// See [`crate::context::Context::has_credit_or_wait_behind`].
    #[inline(never)]
    pub fn has_credit_or_wait_behind(
        &mut self,
        ledger: u32,
        way: Way,
        space: u32,
        now: Time,
        queue: &mut EventQueue,
    ) -> bool {
        let known = self.divided.as_mut().filter(|_| ledger != NO_LEDGER);
        let next = known.map_or(NO_LEDGER, |divided| divided.relay(ledger).next);
        let (id, vl, dst) = way;
        if next == NO_LEDGER {
            let index = self.lane_index(id, vl, dst) as u32;
            // Only ledgers of destinations are stored in the memo.
            if ledger != NO_LEDGER
                && let Some(divided) = &mut self.divided
                && divided.memo == Some((way, index))
            {
                divided.relay(ledger).next = index;
            }
        } else if let Some(divided) = &mut self.divided {
            divided.memo = Some((way, next));
        }
        self.has_credit_or_wait(way, space, now, queue)
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
            divided.memo = Some((way, lane as u32));
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

    use super::super::tests::spec;
    use super::*;

    fn links(divisions: &[Division]) -> Links {
        let specs: Vec<_> = divisions.iter().map(|division| spec(100, division.clone())).collect();
        Links::new(&specs, 1).unwrap()
    }

    /// Packets for host 7 arrive on channel 0 and leave on channel 1 or 2.
    #[test]
    fn a_ledger_leads_to_the_ledger_of_the_next_link() {
        let mut links = links(&[Division::PerDestination, Division::PerDestination, Division::Whole]);
        let mut queue = EventQueue::new(Time(1));
        let [here, next] = [0, 1].map(|channel| links.lane_index(channel, Vl::FIRST, 7) as u32);
        let way = (1, Vl::FIRST, 7);
        for _ in 0..2 {
            assert!(links.has_credit_or_wait_behind(here, way, 100, Time(0), &mut queue));
            assert_eq!(links.divided.as_ref().unwrap().relays[here as usize].next, next);
            assert_eq!((links.last_ledger(1), links.last_ledger(0)), (next, NO_LEDGER));
        }
        assert!(!links.has_credit_or_wait_behind(here, way, 101, Time(0), &mut queue));
        assert_eq!(links.lanes[next as usize].wanted, 101, "it waits at the ledger of the next link");
        // An undivided buffer has no ledger of a destination.
        assert!(links.has_credit_or_wait_behind(here + 2, (2, Vl::FIRST, 7), 100, Time(0), &mut queue));
        assert_eq!(links.last_ledger(2), NO_LEDGER);
    }

    #[test]
    fn a_ledger_has_a_queue_until_the_queue_is_closed() {
        let mut links = links(&[Division::PerDestination]);
        let ledger = links.lane_index(0, Vl::FIRST, 7) as u32;
        assert_eq!(links.relay_queue(ledger), None);
        links.open_relay(ledger, 5);
        assert_eq!((links.relay_queue(ledger), links.relay_queue_of((0, Vl::FIRST, 7))), (Some(5), Some(5)));
        assert_eq!(links.relay_queue_of((0, Vl::FIRST, 8)), None);
        links.close_relay(ledger);
        assert_eq!(links.relay_queue(ledger), None);
    }

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
