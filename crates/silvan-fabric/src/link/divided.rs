//! Selects the lane whose credit a packet needs, if receive buffers are divided.
//!
//! A destination gets a ledger on a channel when a packet for it first needs credit. Ledgers that have all of their credit
//! again are removed from time to time, so memory is proportional to the largest number of packets in the network, not to
//! the number of all pairs of channels and destinations that were ever used.

use silvan_engine::cache::prefetch;
use silvan_engine::saved::Saved;
use silvan_engine::{EventQueue, Time};
use silvan_network::port::Vl;

use super::{BufferDivision, ChannelId, CreditWay, Lane, Ledger, Links, MAX_NODES};
use crate::packet::NO_LEDGER;

/// The lanes of a network whose receive buffers are divided.
#[derive(Debug, Default, Clone, Saved)]
pub(super) struct Divided {
    /// One entry per channel.
    #[saved(constant)]
    pub divisions: Vec<BufferDivision>,
    /// Index of the first lane of each channel; the lanes of destinations are created later.
    #[saved(constant)]
    pub first: Vec<u32>,
    /// The lane for each combination of channel, virtual lane and destination.
    by_destination: WayTable,
    /// The most recently used entry. After a query of its credit, its packet is usually sent next.
    memo: Option<(CreditWay, u32)>,
    /// The lanes of destinations of each channel and virtual lane.
    grown: Vec<Grown>,
    /// Number of virtual lanes of each channel.
    #[saved(constant)]
    lane_count: usize,
    /// Bytes of the receive buffer per region of a virtual lane, for each channel.
    #[saved(constant)]
    pub capacities: Vec<u32>,
    /// The ledgers, as the receiver of a packet stores them, indexed by the ledger whose credit the packet spent. Grows
    /// with its use.
    relays: Vec<Relay>,
    /// The ledgers of destinations, beginning with the ledger `base`.
    ledgers: Vec<OfDestination>,
    #[saved(constant)]
    base: usize,
    /// The ledgers that are not in use.
    free: Vec<u32>,
    /// Number of ledgers of destinations at which those that have all of their credit are next removed.
    tidy_at: usize,
}

/// The ledgers of destinations of a channel and virtual lane.
#[derive(Debug, Clone, Saved)]
struct Grown {
    /// The ledger that was created last; [`NO_LEDGER`] if there are none.
    first: u32,
    /// Number of ledgers, and of the destinations that have ever had one.
    count: u32,
    ever: u32,
    /// These destinations, one bit each.
    destinations: Vec<u64>,
}

/// A ledger of a destination.
#[derive(Debug, Clone, Copy, Saved)]
struct OfDestination {
    /// See [`WayTable::key`]; [`UNUSED`] if the ledger is not in use.
    key: u64,
    /// The ledgers before and after it in [`Grown`]; [`NO_LEDGER`] if there are none.
    before: u32,
    after: u32,
    /// Number of relays that lead to the ledger.
    relays: u32,
}

/// Smallest number of ledgers of destinations at which those that have all of their credit are removed.
const LEAST_TIDIED: usize = 64;

/// The path of packets for a destination through a switch, which is stored to avoid searches by destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
struct Relay {
    /// The queue of the destination at the input; [`NONE`] if there is none.
    queue: u32,
    /// The ledger of the link on which the packets leave; [`NO_LEDGER`] if not known.
    next: u32,
}

/// No queue.
const NONE: u32 = u32::MAX;

/// A table of lanes. An entry with its key takes a quarter of a cache line, and a lookup usually reads one line.
#[derive(Debug, Default, Clone, Saved)]
pub(super) struct WayTable {
    /// The number of slots is a power of two, or zero. At most half of them are in use.
    slots: Vec<(u64, u32)>,
    len: usize,
}

const _: () = assert!(size_of::<(u64, u32)>() == 16);

/// The key of an unused slot. No path has this key, because virtual lanes are below 16.
const UNUSED: u64 = u64::MAX;

impl WayTable {
    #[inline]
    fn key(CreditWay { channel: id, vl, dst }: CreditWay) -> u64 {
        // A destination is below `MAX_NODES`, which has 18 bits.
        u64::from(id) << 32 | u64::from(vl.0) << 28 | u64::from(dst)
    }

    fn way(key: u64) -> CreditWay {
        let (channel, dst) = ((key >> 32) as u32, key as u32 & (MAX_NODES - 1));
        CreditWay { channel, vl: Vl((key >> 28 & 15) as u8), dst }
    }

    /// The slot at which the search for a key begins.
    #[inline]
    fn start(&self, key: u64) -> usize {
        let spread = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (spread >> 32) as usize & self.slots.len().wrapping_sub(1)
    }

    #[inline]
    pub fn get(&self, way: CreditWay) -> Option<u32> {
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
    fn insert(&mut self, way: CreditWay, lane: u32) {
        if 2 * (self.len + 1) > self.slots.len() {
            let room = (4 * self.len).max(64).next_power_of_two();
            let old = std::mem::replace(&mut self.slots, vec![(UNUSED, 0); room]);
            old.into_iter().filter(|slot| slot.0 != UNUSED).for_each(|slot| self.place(slot));
        }
        self.place((Self::key(way), lane));
        self.len += 1;
    }

    /// Removes the lane of a key, if the table contains the key.
    fn remove(&mut self, key: u64) {
        if self.slots.is_empty() {
            return;
        }
        let mask = self.slots.len() - 1;
        let mut hole = self.start(key);
        while self.slots[hole].0 != key {
            if self.slots[hole].0 == UNUSED {
                return;
            }
            hole = (hole + 1) & mask;
        }
        // Fill the hole with the next entry that may be stored there, and so on.
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot.0 == UNUSED {
                break;
            }
            let distance = |to: usize| to.wrapping_sub(self.start(slot.0)) & mask;
            if distance(hole) < distance(at) {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole].0 = UNUSED;
        self.len -= 1;
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
    /// Completes the construction, when the channels and the `base` lanes that exist from the start are known.
    pub fn ready(&mut self, channels: usize, lane_count: usize, base: usize) {
        let none = Grown { first: NO_LEDGER, count: 0, ever: 0, destinations: Vec::new() };
        self.grown = vec![none; channels * lane_count];
        (self.lane_count, self.base) = (lane_count, base);
    }

    /// Whether ledgers that have all of their credit are to be removed.
    #[inline]
    fn is_untidy(&self) -> bool {
        self.free.is_empty() && self.ledgers.len() >= self.tidy_at
    }

    /// The ledgers of destinations of a channel and virtual lane.
    fn grown(&mut self, CreditWay { channel, vl, .. }: CreditWay) -> &mut Grown {
        &mut self.grown[channel as usize * self.lane_count + vl.index()]
    }

    fn record(&mut self, ledger: u32) -> &mut OfDestination {
        &mut self.ledgers[ledger as usize - self.base]
    }

    /// Adds a ledger to those of its channel and virtual lane.
    fn enter(&mut self, way: CreditWay, ledger: u32) {
        let grown = self.grown(way);
        let after = std::mem::replace(&mut grown.first, ledger);
        grown.count += 1;
        let (word, bit) = (way.dst as usize / 64, 1 << (way.dst % 64));
        if grown.destinations.len() <= word {
            grown.destinations.resize(word + 1, 0);
        }
        grown.ever += u32::from(grown.destinations[word] & bit == 0);
        grown.destinations[word] |= bit;
        if after != NO_LEDGER {
            self.record(after).before = ledger;
        }
        let key = WayTable::key(way);
        *self.record(ledger) = OfDestination { key, before: NO_LEDGER, after, relays: 0 };
    }

    /// Removes a ledger. It must have all of its credit, and no relay may lead to it. Returns the ledger to which its relay
    /// led, if no other relay leads there.
    fn remove(&mut self, ledger: u32) -> Option<u32> {
        let OfDestination { key, before, after, .. } = *self.record(ledger);
        let way = WayTable::way(key);
        self.record(ledger).key = UNUSED;
        if after != NO_LEDGER {
            self.record(after).before = before;
        }
        match before {
            NO_LEDGER => self.grown(way).first = after,
            before => self.record(before).after = after,
        }
        self.grown(way).count -= 1;
        self.by_destination.remove(key);
        if self.memo.is_some_and(|(_, known)| known == ledger) {
            self.memo = None;
        }
        self.free.push(ledger);
        let relay = self.relays.get_mut(ledger as usize)?;
        let next = std::mem::replace(&mut relay.next, NO_LEDGER);
        if next == NO_LEDGER {
            return None;
        }
        let record = self.record(next);
        record.relays -= 1;
        (record.relays == 0).then_some(next)
    }

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

    /// The queue that the receiver of packets has assigned to a ledger, if any.
    #[inline]
    pub fn relay_queue(&self, ledger: u32) -> Option<u32> {
        let relay = self.divided.as_ref()?.relays.get(ledger as usize)?;
        (relay.queue != NONE).then_some(relay.queue)
    }

    /// The queue that the receiver of packets has assigned to the ledger of a way, if any.
    pub fn relay_queue_of(&self, way: CreditWay) -> Option<u32> {
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

    /// Prefetches a ledger, and the ledger of the next link or, if it is not known, what a search for it reads first.
    #[inline]
    pub fn prefetch_ledgers(&self, ledger: u32, next: CreditWay) {
        prefetch(&self.lanes, ledger as usize);
        let Some(divided) = &self.divided else { return };
        match divided.relays.get(ledger as usize) {
            Some(relay) if relay.next != NO_LEDGER => prefetch(&self.lanes, relay.next as usize),
            _ => {
                let table = &divided.by_destination;
                prefetch(&table.slots, table.start(WayTable::key(next)));
                prefetch(&divided.divisions, next.channel as usize);
                prefetch(&divided.grown, self.of_vl(next.channel, next.vl));
            }
        }
    }

    /// The ledger of the last packet that was sent on a channel, if it belongs to the destination of the packet;
    /// otherwise [`NO_LEDGER`].
    #[inline]
    pub fn last_ledger(&self, channel: ChannelId) -> u32 {
        let memo = self.divided.as_ref().and_then(|divided| divided.memo);
        memo.filter(|(way, _)| way.channel == channel).map_or(NO_LEDGER, |(_, ledger)| ledger)
    }

    /// See [`crate::context::Context::has_credit_or_wait_behind`].
    #[inline(never)]
    pub fn has_credit_or_wait_behind(
        &mut self,
        ledger: u32,
        way: CreditWay,
        space: u32,
        now: Time,
        queue: &mut EventQueue,
    ) -> bool {
        let known = self.divided.as_mut().filter(|_| ledger != NO_LEDGER);
        let next = known.map_or(NO_LEDGER, |divided| divided.relay(ledger).next);
        if next == NO_LEDGER {
            let index = self.lane_index(way) as u32;
            // Only ledgers of destinations are stored in the memo.
            if ledger != NO_LEDGER
                && let Some(divided) = &mut self.divided
                && divided.memo == Some((way, index))
            {
                divided.relay(ledger).next = index;
                divided.record(index).relays += 1;
            }
        } else if let Some(divided) = &mut self.divided {
            divided.memo = Some((way, next));
        }
        self.has_credit_or_wait(way, space, now, queue)
    }

    #[inline(never)]
    pub(super) fn divided_lane(&mut self, way: CreditWay) -> usize {
        let CreditWay { channel: id, vl, dst } = way;
        let Some(divided) = &mut self.divided else { return 0 };
        let first = |divided: &Divided| divided.first[id as usize] as usize + vl.index();
        match &divided.divisions[id as usize] {
            BufferDivision::PerDestination => {
                if let Some((known, lane)) = divided.memo
                    && known == way
                {
                    return lane as usize;
                }
                let Some(lane) = divided.by_destination.get(way) else { return self.grow(way) };
                divided.memo = Some((way, lane));
                lane as usize
            }
            BufferDivision::Whole => first(divided),
            BufferDivision::Table(region_of, _) => {
                first(divided) + usize::from(region_of[dst as usize]) * self.lane_count
            }
        }
    }

    /// See [`Links::prefetch_way`].
    #[inline(never)]
    pub(super) fn prefetch_divided(&self, divided: &Divided, way: CreditWay) {
        let CreditWay { channel: id, vl, dst } = way;
        // The way is a guess: the output of a packet that has not arrived may be that of the switch before, which may be
        // a port without a link here.
        let (Some(&first), Some(division)) =
            (divided.first.get(id as usize), divided.divisions.get(id as usize))
        else {
            return;
        };
        let first = first as usize + vl.index();
        let lane = match division {
            BufferDivision::PerDestination => divided.by_destination.get(way).map(|lane| lane as usize),
            BufferDivision::Whole => Some(first),
            BufferDivision::Table(region_of, _) => {
                region_of.get(dst as usize).map(|&region| first + usize::from(region) * self.lane_count)
            }
        };
        if let Some(lane) = lane {
            prefetch(&self.lanes, lane);
        }
    }

    /// Creates the lane of a destination on a virtual lane of a channel.
    #[cold]
    fn grow(&mut self, way: CreditWay) -> usize {
        let Some(divided) = &mut self.divided else { return self.lanes.len() };
        let capacity = divided.capacities[way.channel as usize];
        let ledger = divided.free.pop().unwrap_or_else(|| {
            self.lanes.push(Lane::new(capacity));
            self.ready.push(Time::NEVER);
            self.capacities.push(capacity);
            divided.ledgers.push(OfDestination {
                key: UNUSED,
                before: NO_LEDGER,
                after: NO_LEDGER,
                relays: 0,
            });
            self.lanes.len() as u32 - 1
        });
        let lane = ledger as usize;
        // The ledger may own a list of returning credits, which is empty now.
        self.lanes[lane].available = capacity;
        self.capacities[lane] = capacity;
        self.ready[lane] = Time::NEVER;
        divided.by_destination.insert(way, ledger);
        divided.memo = Some((way, ledger));
        divided.enter(way, ledger);
        lane
    }

    /// Removes the ledgers of destinations that have all of their credit, if there is no unused ledger, and at least twice as
    /// many ledgers as remained after the last removal. Because at least half of the ledgers have come into use since then,
    /// reading all of them takes little time per ledger.
    #[inline]
    pub(super) fn tidy(&mut self, now: Time) {
        // Other rules have their own state for each ledger.
        if self.control.is_none() && self.divided.as_deref().is_some_and(Divided::is_untidy) {
            self.remove_full(now);
        }
    }

    #[inline(never)]
    fn remove_full(&mut self, now: Time) {
        let Some(Divided { base, ledgers, .. }) = self.divided.as_deref() else { return };
        for ledger in *base..*base + ledgers.len() {
            let mut next = Some(ledger as u32);
            while let Some(ledger) = next {
                next = self.remove_if_full(ledger, now);
            }
        }
        if let Some(divided) = &mut self.divided {
            let left = divided.ledgers.len() - divided.free.len();
            divided.tidy_at = (2 * left).max(LEAST_TIDIED);
        }
    }

    /// Removes a ledger of a destination if it has all of its credit, and nothing refers to it. Returns the ledger to which
    /// its relay led, if no other relay leads there.
    fn remove_if_full(&mut self, ledger: u32, now: Time) -> Option<u32> {
        let divided = self.divided.as_mut()?;
        let at = ledger as usize;
        let record = *divided.record(ledger);
        let Lane { available, wanted, returns } = &mut self.lanes[at];
        if *wanted > 0 || record.relays > 0 || record.key == UNUSED {
            return None;
        }
        Ledger { available, wanted, returns, spills: &mut self.spills }.collect(now);
        let has_queue = divided.relays.get(at).is_some_and(|relay| relay.queue != NONE);
        if *available != self.capacities[at] || has_queue {
            return None;
        }
        divided.remove(ledger)
    }

    /// Whether a wake-up for the credit of a ledger is for the sender that now owns the ledger. The key of the wake-up
    /// identifies the sender.
    #[inline]
    pub(super) fn is_of_sender(&self, ledger: usize, wake_key: u32) -> bool {
        let Some(divided) = &self.divided else { return true };
        let Some(record) = ledger.checked_sub(divided.base).and_then(|at| divided.ledgers.get(at)) else {
            return true;
        };
        record.key != UNUSED && self.channels[WayTable::way(record.key).channel as usize].wake_key == wake_key
    }

    /// The channel of a ledger that is in use.
    pub(super) fn channel_of(&self, ledger: usize) -> ChannelId {
        match &self.divided {
            None => (ledger / self.lane_count) as ChannelId,
            Some(divided) if ledger < divided.base => {
                (divided.first.partition_point(|&first| first as usize <= ledger) - 1) as ChannelId
            }
            Some(divided) => WayTable::way(divided.ledgers[ledger - divided.base].key).channel,
        }
    }

    /// Whether some destination had a ledger on a virtual lane of a channel that was removed because it has all of its
    /// credit.
    pub(super) fn has_full_ledgers(&self, id: ChannelId, vl: Vl) -> bool {
        self.divided.as_ref().is_some_and(|divided| {
            let Grown { count, ever, .. } = divided.grown[self.of_vl(id, vl)];
            ever > count
        })
    }

    /// The indices of all lanes of a virtual lane of a channel, except those of destinations that have all of their
    /// credit.
    pub(super) fn ledgers(&self, id: ChannelId, vl: Vl) -> impl Iterator<Item = usize> {
        let (first, regions, grown) = match &self.divided {
            None => (id as usize * self.lane_count, 1, NO_LEDGER),
            Some(divided) => {
                let regions = match &divided.divisions[id as usize] {
                    BufferDivision::Whole => 1,
                    BufferDivision::Table(_, regions) => *regions as usize,
                    BufferDivision::PerDestination => 0,
                };
                let grown = &divided.grown[self.of_vl(id, vl)];
                (divided.first[id as usize] as usize, regions, grown.first)
            }
        };
        let fixed = (0..regions).map(move |region| first + region * self.lane_count + vl.index());
        let after = |ledger: u32| {
            let divided = self.divided.as_ref()?;
            Some(divided.ledgers[ledger as usize - divided.base].after)
        };
        let some = |ledger: u32| (ledger != NO_LEDGER).then_some(ledger);
        let grown = std::iter::successors(some(grown), move |&ledger| after(ledger).and_then(some));
        fixed.chain(grown.map(|ledger| ledger as usize))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::ReturnTimes;
    use super::super::tests::spec;
    use super::*;

    fn links(divisions: &[BufferDivision]) -> Links {
        let specs: Vec<_> = divisions.iter().map(|division| spec(100, division.clone())).collect();
        Links::new(&specs, 1).unwrap()
    }

    /// Packets for host 7 arrive on channel 0 and leave on channel 1 or 2.
    #[test]
    fn a_ledger_leads_to_the_ledger_of_the_next_link() {
        let mut links =
            links(&[BufferDivision::PerDestination, BufferDivision::PerDestination, BufferDivision::Whole]);
        let mut queue = EventQueue::new(Time(1), Time::ZERO);
        let [here, next] =
            [0, 1].map(|channel| links.lane_index(CreditWay { channel, vl: Vl::FIRST, dst: 7 }) as u32);
        let way = CreditWay { channel: 1, vl: Vl::FIRST, dst: 7 };
        for _ in 0..2 {
            assert!(links.has_credit_or_wait_behind(here, way, 100, Time(0), &mut queue));
            assert_eq!(links.divided.as_ref().unwrap().relays[here as usize].next, next);
            assert_eq!((links.last_ledger(1), links.last_ledger(0)), (next, NO_LEDGER));
        }
        assert!(!links.has_credit_or_wait_behind(here, way, 101, Time(0), &mut queue));
        assert_eq!(links.lanes[next as usize].wanted, 101, "it waits at the ledger of the next link");
        // An undivided buffer has no ledger of a destination.
        assert!(links.has_credit_or_wait_behind(
            here + 2,
            CreditWay { channel: 2, vl: Vl::FIRST, dst: 7 },
            100,
            Time(0),
            &mut queue
        ));
        assert_eq!(links.last_ledger(2), NO_LEDGER);
    }

    #[test]
    fn a_ledger_has_a_queue_until_the_queue_is_closed() {
        let mut links = links(&[BufferDivision::PerDestination]);
        let ledger = links.lane_index(CreditWay { channel: 0, vl: Vl::FIRST, dst: 7 }) as u32;
        assert_eq!(links.relay_queue(ledger), None);
        links.open_relay(ledger, 5);
        assert_eq!(
            (
                links.relay_queue(ledger),
                links.relay_queue_of(CreditWay { channel: 0, vl: Vl::FIRST, dst: 7 })
            ),
            (Some(5), Some(5))
        );
        assert_eq!(links.relay_queue_of(CreditWay { channel: 0, vl: Vl::FIRST, dst: 8 }), None);
        links.close_relay(ledger);
        assert_eq!(links.relay_queue(ledger), None);
    }

    /// Sends a packet for a destination; its credit is back at the time `back`. Returns the ledger.
    fn send(links: &mut Links, channel: ChannelId, dst: u32, back: Time) -> usize {
        let way = CreditWay { channel, vl: Vl::FIRST, dst };
        let mut queue = EventQueue::new(Time(1), Time::ZERO);
        let ledger = links.lane_index(way);
        assert!(links.has_credit(way, 60, Time(0)));
        links.ledger(ledger).spend(60);
        links.release((way, NO_LEDGER), 60, ReturnTimes::new(back, Time(0)), &mut queue);
        ledger
    }

    #[test]
    fn a_ledger_is_removed_when_its_credit_has_returned() {
        let mut links = links(&[BufferDivision::PerDestination]);
        let first = send(&mut links, 0, 7, Time(100));
        let other = send(&mut links, 0, 8, Time(300));
        assert_eq!(links.ledgers(0, Vl::FIRST).collect::<Vec<_>>(), [other, first]);
        links.remove_full(Time(99));
        assert_eq!(links.ledgers(0, Vl::FIRST).count(), 2, "the credit is on its way");
        assert!(!links.has_full_ledgers(0, Vl::FIRST));
        links.remove_full(Time(100));
        assert_eq!(links.ledgers(0, Vl::FIRST).collect::<Vec<_>>(), [other]);
        assert!(links.has_full_ledgers(0, Vl::FIRST) && links.has_some_credit(0, Vl::FIRST, 100, Time(100)));
        // Another destination uses the ledger.
        assert_eq!(send(&mut links, 0, 9, Time(400)), first);
        assert_eq!(links.outstanding(0, Vl::FIRST, Time(100)), 120);
        // When the first destination has a ledger again, no destination is recorded as having all of its credit.
        send(&mut links, 0, 7, Time(400));
        assert!(
            !links.has_full_ledgers(0, Vl::FIRST) && !links.has_some_credit(0, Vl::FIRST, 100, Time(100))
        );
    }

    #[test]
    fn a_ledger_to_which_a_relay_leads_is_kept() {
        let mut links = links(&[BufferDivision::PerDestination, BufferDivision::PerDestination]);
        let here = send(&mut links, 0, 7, Time(10));
        let mut queue = EventQueue::new(Time(1), Time::ZERO);
        assert!(links.has_credit_or_wait_behind(
            here as u32,
            CreditWay { channel: 1, vl: Vl::FIRST, dst: 7 },
            60,
            Time(0),
            &mut queue
        ));
        let next = links.lane_index(CreditWay { channel: 1, vl: Vl::FIRST, dst: 7 });
        let of = |links: &Links, channel| links.ledgers(channel, Vl::FIRST).collect::<Vec<_>>();
        links.remove_full(Time(9));
        assert_eq!((of(&links, 0), of(&links, 1)), (vec![here], vec![next]), "the first ledger lacks credit");
        links.remove_full(Time(10));
        assert!(of(&links, 0).is_empty(), "its credit is back");
        assert!(of(&links, 1).is_empty(), "no relay leads to it any more");
        assert_eq!(links.divided.as_ref().unwrap().by_destination.len, 0);
    }

    /// The ledger of the second link precedes that of the first one, so it is checked while a relay still leads to it.
    #[test]
    fn the_ledgers_of_a_route_are_removed_together() {
        let mut links = links(&[BufferDivision::PerDestination, BufferDivision::PerDestination]);
        let way = |channel| CreditWay { channel, vl: Vl::FIRST, dst: 7 };
        let next = links.lane_index(way(1));
        let here = send(&mut links, 0, 7, Time(10));
        assert!(next < here);
        let mut queue = EventQueue::new(Time(1), Time::ZERO);
        assert!(links.has_credit_or_wait_behind(here as u32, way(1), 60, Time(0), &mut queue));
        links.remove_full(Time(9));
        assert_eq!(links.divided.as_ref().unwrap().by_destination.len, 2);
        links.remove_full(Time(10));
        assert_eq!(links.divided.as_ref().unwrap().by_destination.len, 0);
    }

    #[test]
    fn ledgers_are_checked_when_their_number_has_doubled() {
        let mut links = links(&[BufferDivision::PerDestination]);
        let count = |links: &Links| links.ledgers(0, Vl::FIRST).count();
        // The credit of the first 40 ledgers is back at 10, and that of the others is not.
        for dst in 0..90 {
            send(&mut links, 0, dst, Time(if dst < 40 { 10 } else { 1000 }));
        }
        links.remove_full(Time(10));
        assert_eq!(count(&links), 50);
        let add = |links: &mut Links, dst, back| {
            send(links, 0, dst, back);
        };
        (100..149).for_each(|dst| add(&mut links, dst, Time(100)));
        links.tidy(Time(100));
        assert_eq!(count(&links), 99, "one ledger less than twice the number");
        add(&mut links, 149, Time(100));
        links.tidy(Time(100));
        assert_eq!(count(&links), 50);
        // While one of the 100 ledgers is unused, none is removed, although there are more than the minimum.
        links.remove_full(Time(1000));
        assert_eq!(count(&links), 0);
        (200..299).for_each(|dst| add(&mut links, dst, Time(2000)));
        links.tidy(Time(2000));
        assert_eq!(count(&links), 99);
        add(&mut links, 299, Time(2000));
        links.tidy(Time(2000));
        assert_eq!(count(&links), 0);
    }

    /// A wake-up that was scheduled for another sender has no effect on the sender that now owns the ledger.
    #[test]
    fn a_wake_up_is_for_the_sender_that_owns_the_ledger() {
        let mut links = links(&[BufferDivision::PerDestination, BufferDivision::PerDestination]);
        links.channels[1].wake_key = 2;
        let ledger = send(&mut links, 0, 7, Time(10));
        assert!(links.is_of_sender(ledger, 1) && !links.is_of_sender(ledger, 2));
        links.remove_full(Time(10));
        assert!(!links.is_of_sender(ledger, 1), "the ledger is not in use");
        assert_eq!(send(&mut links, 1, 7, Time(20)), ledger);
        assert!(links.is_of_sender(ledger, 2) && !links.is_of_sender(ledger, 1));
    }

    proptest! {
        #[test]
        fn the_table_forgets_what_was_removed(
            steps in proptest::collection::vec((0..3_u32, 0..4_u8, 0..12_u32, any::<bool>()), 0..400),
        ) {
            let (mut table, mut model) = (WayTable::default(), std::collections::BTreeMap::new());
            for (lane, (id, vl, dst, adds)) in (0..).zip(steps) {
                let way = CreditWay { channel: id, vl: Vl(vl), dst };
                if !adds {
                    table.remove(WayTable::key(way));
                    model.remove(&WayTable::key(way));
                } else if table.get(way).is_none() {
                    table.insert(way, lane);
                    model.insert(WayTable::key(way), lane);
                }
                prop_assert_eq!(WayTable::way(WayTable::key(way)), way);
                prop_assert_eq!(table.len, model.len());
                prop_assert!(model.iter().all(|(&key, &lane)| table.get(WayTable::way(key)) == Some(lane)));
                prop_assert_eq!(table.get(way), model.get(&WayTable::key(way)).copied());
            }
        }

        #[test]
        fn the_table_finds_what_was_added(ways in proptest::collection::btree_set((0..40_u32, 0..4_u8, 0..40_u32), 0..400)) {
            let mut table = WayTable::default();
            for (lane, &(id, vl, dst)) in (0..).zip(&ways) {
                prop_assert_eq!(table.get(CreditWay { channel: id, vl: Vl(vl), dst }), None);
                table.insert(CreditWay { channel: id, vl: Vl(vl), dst }, lane);
            }
            for (lane, &(id, vl, dst)) in (0..).zip(&ways) {
                prop_assert_eq!(table.get(CreditWay { channel: id, vl: Vl(vl), dst }), Some(lane));
            }
            prop_assert_eq!(table.get(CreditWay { channel: 40, vl: Vl(0), dst: 0 }), None);
            prop_assert!(2 * ways.len() <= table.slots.len());
        }
    }
}
