//! The event queue: a timing wheel for the near future, a heap for the distant future.
//!
//! Events are removed in a total order, (time, key, data), that depends only on the events: not on the order
//! of insertion, the size of the wheel or the machine.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::cache::prefetch_lines;
use crate::saved::{Damaged, Reader, Saved, Writer};
use crate::units::Time;

/// A future event. The model defines the meaning of `key`. Events of equal time are ordered by key, so
/// events that do not commute must have different keys.
// The order of the fields in memory makes an event one 128-bit number with the time in its upper half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
#[repr(C)]
pub struct Event {
    /// Additional data for the handler. Orders events of equal time and key.
    pub data: u32,
    /// Identifies the action and its location, and orders events of equal time.
    pub key: u32,
    /// The time of the event.
    pub time: Time,
}

const _: () = assert!(size_of::<Event>() == 16);

impl Event {
    /// Time, key and data as one number, which can be compared without branches.
    #[inline]
    fn order(&self) -> u128 {
        u128::from(self.time.0) << 64 | u128::from(self.key) << 32 | u128::from(self.data)
    }
}

impl Ord for Event {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for Event {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

const NONE: u32 = u32::MAX;

/// Number of buckets of the wheel.
const BUCKETS: usize = 1 << 14;

/// No further bucket is staged once this number of events is staged. The number is large enough that
/// prefetching the state for the staged events overlaps with the handling of the current events.
const BATCH: usize = 8;

/// Minimum number of processed events in `current` for which adding an event removes them.
const PAST: usize = 256;

/// Maximum number of events that are added for the time of the last event removed. Many times as many as a correct model
/// needs, in which the parts of a network add a few events each.
const MOST_AT_ONCE: u32 = if cfg!(test) { 1 << 16 } else { 1 << 26 };

/// Maximum number of events that are sorted by insertion.
const FEW: usize = 16;

/// Number of bits for the index of an event in a bucket that is being sorted.
const PLACE_BITS: u32 = 16;

/// Maximum distance of staged buckets from the current ones. Between distant buckets, new events are
/// likely, and adding an event to the staged events is more expensive than adding it to the wheel.
const AHEAD: u64 = 64;

/// Number of events in a [`Chunk`].
const HELD: usize = 7;

/// Some events of a bucket, in the order of insertion. A chunk has two cache lines, so draining a bucket
/// waits for memory only once per seven events. This matters if hosts run in lockstep, because many events
/// then have the same time.
#[derive(Debug, Clone, Copy, Saved)]
#[repr(C, align(64))]
struct Chunk {
    events: [Event; HELD],
    len: u32,
    /// Index of the previous chunk.
    next: u32,
}

const _: () = assert!(size_of::<Chunk>() == 128);

/// Pending events, ordered by (time, key, data).
///
/// The number of buckets is a power of two. Each bucket is `2^shift` picoseconds wide, and contains an
/// unordered list of chunks, which is sorted when the bucket is removed from the wheel. A few buckets are
/// removed at a time. They form the *current* events, which are being processed, and the *staged* events,
/// which follow. While the current events are processed, the model can prefetch the state that the staged
/// events will need ([`EventQueue::staged`]). Events beyond the range of the wheel wait in a binary heap, and
/// are merged when their bucket is staged.
#[derive(Debug, Saved)]
#[saved(relative(Self::save_pending, Self::restore_pending))]
pub struct EventQueue {
    #[saved(constant)]
    shift: u32,
    heads: Box<[u32; BUCKETS]>,
    /// One bit per bucket, set if the bucket is not empty.
    occupied: Box<[u64; BUCKETS / 64]>,
    /// One bit per word of `occupied`, set if the word is not zero.
    summary: [u64; BUCKETS / 64 / 64],
    chunks: Vec<Chunk>,
    free: u32,
    /// The events of the current buckets, sorted.
    current: Vec<Event>,
    /// Index of the next event in `current`.
    at: usize,
    /// Number of the last current bucket, counted from time zero.
    turn: u64,
    /// The events of the next few non-empty buckets, sorted.
    staged: Vec<Event>,
    /// Number of the last staged bucket; equal to `turn` if no bucket is staged.
    staged_turn: u64,
    /// Buffers for sorting, kept to avoid allocations.
    #[saved(scratch)]
    order: Vec<u64>,
    #[saved(scratch)]
    room: Vec<Event>,
    /// Number of events in the wheel, excluding `current` and `staged`. All of them are less than one
    /// revolution after `turn`.
    in_wheel: usize,
    far: BinaryHeap<Reverse<Event>>,
    /// The last time for which an event was added while it was the time of the last event removed, and the number of such
    /// events.
    #[saved(scratch)]
    at_once: (Time, u32),
}

impl EventQueue {
    /// Creates a queue for events that are about `spacing` apart, most of which are added at most `reach` before their
    /// time. Both affect speed, not results.
    #[must_use]
    pub fn new(spacing: Time, reach: Time) -> Self {
        let width = spacing.0.saturating_mul(8).max(reach.0.div_ceil(BUCKETS as u64));
        // A width of at least 2 ps ensures that no bucket has the number `u64::MAX`.
        let width = width.clamp(2, 1 << 40).next_power_of_two();
        Self {
            shift: width.trailing_zeros(),
            heads: Box::new([NONE; BUCKETS]),
            occupied: Box::new([0; BUCKETS / 64]),
            summary: [0; BUCKETS / 64 / 64],
            chunks: Vec::new(),
            free: NONE,
            current: Vec::new(),
            at: 0,
            turn: 0,
            staged: Vec::new(),
            staged_turn: 0,
            order: Vec::new(),
            room: Vec::new(),
            in_wheel: 0,
            far: BinaryHeap::new(),
            at_once: (Time::ZERO, 0),
        }
    }

    /// Saves the pending events in order. Their places in the wheel depend on the time.
    fn save_pending(&self, to: &mut Writer<'_>) {
        let mut pending: Vec<Event> = self.iter().copied().collect();
        pending.sort_unstable();
        pending.save(to);
    }

    fn restore_pending(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        let pending = Vec::<Event>::load(from)?;
        self.heads.fill(NONE);
        self.occupied.fill(0);
        self.summary.fill(0);
        (self.in_wheel, self.free, self.at) = (0, NONE, 0);
        [&mut self.current, &mut self.staged].into_iter().for_each(Vec::clear);
        self.chunks.clear();
        self.far.clear();
        self.turn = pending.first().map_or(self.turn, |event| event.time.0 >> self.shift);
        self.staged_turn = self.turn;
        pending.into_iter().for_each(|event| self.push(event));
        Ok(())
    }

    /// Number of pending events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.current().len() + self.staged.len() + self.in_wheel + self.far.len()
    }

    /// Whether no event is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pending events, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Event> {
        let chunk = |at: u32| self.chunks.get(at as usize);
        let buckets = self.heads.iter().filter_map(move |&head| chunk(head));
        let chunks =
            buckets.flat_map(move |first| std::iter::successors(Some(first), move |one| chunk(one.next)));
        let in_wheel = chunks.flat_map(|chunk| chunk.events.iter().take(chunk.len as usize));
        let far = self.far.iter().map(|event| &event.0);
        self.current().iter().chain(&self.staged).chain(in_wheel).chain(far)
    }

    /// Whether the parts of the queue fit together, so that each operation ends and events come in order. A queue that was
    /// restored from changed data may be inconsistent.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        let (mut seen, mut events) = (0, 0);
        let lists = (0..).map(Some).zip(self.heads.iter()).chain([(None, &self.free)]);
        for (bucket, &head) in lists {
            let mut at = head;
            while let Some(chunk) = self.chunks.get(at as usize) {
                seen += 1;
                // More steps than chunks mean that a list meets itself or another list.
                if seen > self.chunks.len() || chunk.len as usize > HELD {
                    return false;
                }
                if let Some(bucket) = bucket {
                    let held = &chunk.events[..chunk.len as usize];
                    events += held.len();
                    if !held.iter().all(|event| self.belongs_to(event, bucket)) {
                        return false;
                    }
                }
                at = chunk.next;
            }
        }
        let bit = |words: &[u64], at: usize| words[at / 64] >> (at % 64) & 1 == 1;
        let are_marked = (0..BUCKETS).all(|at| bit(&self.occupied[..], at) == (self.heads[at] != NONE));
        let are_summed = (0..BUCKETS / 64).all(|at| bit(&self.summary, at) == (self.occupied[at] != 0));
        let is_in_order = self.current().is_sorted() && self.staged.is_sorted();
        let is_in_turn = self.turn <= self.staged_turn && self.at <= self.current.len();
        events == self.in_wheel && are_marked && are_summed && is_in_order && is_in_turn
    }

    /// Whether an event may be in the wheel, in the bucket with an index.
    fn belongs_to(&self, event: &Event, index: usize) -> bool {
        let bucket = event.time.0 >> self.shift;
        bucket as usize % BUCKETS == index
            && bucket > self.staged_turn
            && bucket.wrapping_sub(self.turn) < BUCKETS as u64
    }

    /// The time at which the model adds an unlimited number of events; see [`Self::push`].
    #[must_use]
    pub fn endless_time(&self) -> Option<Time> {
        let (time, count) = self.at_once;
        (count >= MOST_AT_ONCE).then_some(time)
    }

    /// Adds an event. Its time must not be earlier than that of the last event removed.
    ///
    /// An event for the time of the last event removed is discarded if very many such events have been added. The model then
    /// is in an endless loop, which ends for this reason; see [`Self::endless_time`].
    #[inline]
    pub fn push(&mut self, event: Event) {
        let bucket = event.time.0 >> self.shift;
        if bucket > self.staged_turn && bucket - self.turn < BUCKETS as u64 {
            self.link(bucket, event);
        } else {
            self.push_elsewhere(bucket, event);
        }
    }

    #[cold]
    #[inline(never)]
    fn push_elsewhere(&mut self, bucket: u64, event: Event) {
        if bucket > self.staged_turn {
            self.far.push(Reverse(event));
        } else if bucket > self.turn {
            let place = self.staged.partition_point(|other| *other < event);
            self.staged.insert(place, event);
        } else {
            let last = self.at.checked_sub(1).and_then(|last| self.current.get(last));
            if last.is_some_and(|last| last.time == event.time) && !self.counts_at_once(event.time) {
                return;
            }
            // Remove processed events: if few events are pending, `current` may never become empty.
            if self.at >= PAST && self.at >= self.current().len() {
                self.current.drain(..self.at);
                self.at = 0;
            }
            let place = self.at + self.current().partition_point(|other| *other < event);
            self.current.insert(place, event);
        }
    }

    /// Counts an event for the time of the last event removed. Returns false if it is one too many.
    fn counts_at_once(&mut self, time: Time) -> bool {
        if self.at_once.0 != time {
            self.at_once = (time, 0);
        }
        self.at_once.1 = self.at_once.1.saturating_add(1);
        self.at_once.1 < MOST_AT_ONCE
    }

    #[inline]
    fn link(&mut self, bucket: u64, event: Event) {
        let index = bucket as usize % BUCKETS;
        self.in_wheel += 1;
        if let Some(chunk) = self.chunks.get_mut(self.heads[index] as usize)
            && let Some(place) = chunk.events.get_mut(chunk.len as usize)
        {
            // Write the fields one by one: copying an event that was just built would stall the processor.
            place.time = event.time;
            place.key = event.key;
            place.data = event.data;
            chunk.len += 1;
        } else {
            self.link_chunk(index, event);
        }
    }

    /// Starts another chunk for a bucket.
    #[inline(never)]
    fn link_chunk(&mut self, index: usize, event: Event) {
        let at = self.free;
        if let Some(chunk) = self.chunks.get_mut(at as usize) {
            self.free = std::mem::replace(&mut chunk.next, self.heads[index]);
            chunk.events[0] = event;
            chunk.len = 1;
            self.heads[index] = at;
        } else {
            self.chunks.push(Chunk { events: [event; HELD], len: 1, next: self.heads[index] });
            self.heads[index] = self.chunks.len() as u32 - 1;
        }
        self.occupied[index / 64] |= 1 << (index % 64);
        self.summary[index / 64 / 64] |= 1 << (index / 64 % 64);
    }

    /// The time of the next event. `None` if no event is pending.
    #[inline]
    pub fn next_time(&mut self) -> Option<Time> {
        if self.is_turn_over() && !self.turn_wheel() {
            return None;
        }
        self.current.get(self.at).map(|event| event.time)
    }

    /// Removes the next current event if its time is exactly `time`. [`Self::next_time`] makes events
    /// current.
    #[inline]
    pub fn pop_at(&mut self, time: Time) -> Option<Event> {
        let event = *self.current.get(self.at)?;
        (event.time == time).then(|| {
            self.at += 1;
            event
        })
    }

    /// Removes the next current event if both its time and its key match.
    #[inline]
    pub fn pop_alike(&mut self, time: Time, key: u32) -> Option<Event> {
        self.current.get(self.at).filter(|event| event.key == key)?;
        self.pop_at(time)
    }

    /// Removes the next current event if its time matches and its key is lower than `key`.
    #[inline]
    pub fn pop_before(&mut self, time: Time, key: u32) -> Option<Event> {
        self.current.get(self.at).filter(|event| event.key < key)?;
        self.pop_at(time)
    }

    /// Removes the next event. `None` if no event is pending.
    pub fn pop(&mut self) -> Option<Event> {
        let time = self.next_time()?;
        self.pop_at(time)
    }

    /// Whether all current events have been processed, so that the next call to [`Self::next_time`] turns
    /// the wheel.
    #[inline]
    #[must_use]
    pub fn is_turn_over(&self) -> bool {
        self.at == self.current.len()
    }

    /// The current events, in order.
    #[inline]
    #[must_use]
    pub fn current(&self) -> &[Event] {
        self.current.get(self.at..).unwrap_or_default()
    }

    /// The staged events, which follow the current ones.
    #[inline]
    #[must_use]
    pub fn staged(&self) -> &[Event] {
        &self.staged
    }

    /// Makes the staged events the current ones and stages the next buckets. All current events must have
    /// been processed. Returns false if no event is pending.
    pub fn turn_wheel(&mut self) -> bool {
        self.current.clear();
        self.at = 0;
        if self.staged.is_empty() {
            self.stage(u64::MAX);
        }
        std::mem::swap(&mut self.current, &mut self.staged);
        self.turn = self.staged_turn;
        if self.current.is_empty() {
            return false;
        }
        self.stage(self.turn + AHEAD);
        self.prefetch_next_buckets();
        true
    }

    /// Prefetches the first events of the buckets that will be staged next, limited to buckets in the same
    /// word of `occupied`.
    #[inline]
    fn prefetch_next_buckets(&self) {
        let start = (self.staged_turn + 1) as usize % BUCKETS;
        let mut bits = self.occupied[start / 64] & (u64::MAX << (start % 64));
        for _ in 0..BATCH {
            if bits == 0 {
                return;
            }
            let index = start / 64 * 64 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            prefetch_lines::<_, 2>(&self.chunks, self.heads[index] as usize);
        }
    }

    /// Removes the next non-empty buckets up to `last` from the wheel, until there are [`BATCH`] staged
    /// events.
    fn stage(&mut self, last: u64) {
        let mut far = self.far.peek().map_or(u64::MAX, |event| event.0.time.0 >> self.shift);
        while self.staged.len() < BATCH {
            let near = if self.in_wheel > 0 { self.next_bucket() } else { u64::MAX };
            let next = near.min(far);
            // `u64::MAX` means that no event is pending; no bucket has this number.
            if next > last || next == u64::MAX {
                return;
            }
            let from = self.staged.len();
            self.staged_turn = next;
            if near == next {
                self.drain_bucket(next);
            }
            while far == next {
                self.staged.extend(self.far.pop().map(|event| event.0));
                far = self.far.peek().map_or(u64::MAX, |event| event.0.time.0 >> self.shift);
            }
            self.sort_staged(from);
        }
    }

    fn drain_bucket(&mut self, bucket: u64) {
        let index = bucket as usize % BUCKETS;
        let mut at = self.heads[index];
        while let Some(next) = self.chunks.get(at as usize).map(|chunk| chunk.next) {
            prefetch_lines::<_, 2>(&self.chunks, next as usize);
            let chunk = &mut self.chunks[at as usize];
            let events = chunk.events.get(..chunk.len as usize).unwrap_or_default();
            self.staged.extend(events.iter().rev());
            self.in_wheel -= events.len();
            chunk.next = std::mem::replace(&mut self.free, at);
            at = next;
        }
        self.heads[index] = NONE;
        self.occupied[index / 64] &= !(1 << (index % 64));
        if self.occupied[index / 64] == 0 {
            self.summary[index / 64 / 64] &= !(1 << (index / 64 % 64));
        }
    }

    /// Sorts the staged events starting with index `from`, which belong to one bucket. Before the sort, events from
    /// the wheel are in reverse order of insertion.
    #[inline]
    fn sort_staged(&mut self, from: usize) {
        match &mut self.staged[from..] {
            [_] => {}
            [first, second] => {
                if first > second {
                    std::mem::swap(first, second);
                }
            }
            _ => self.sort_many(from),
        }
    }

    #[inline(never)]
    fn sort_many(&mut self, from: usize) {
        let events = &mut self.staged[from..];
        if events.len() <= FEW {
            // Events caused at the same time are added nearly in order, so the reversed list is nearly
            // sorted.
            events.reverse();
            insert(events);
        } else if events.len() >= 1 << PLACE_BITS || self.shift > 32 - PLACE_BITS {
            events.sort_unstable();
        } else {
            // The lower bits of the time, the key and the index of an event fit into one word, which is
            // fast to sort.
            let mask = (1 << self.shift) - 1;
            self.order.extend(events.iter().enumerate().map(|(place, event)| {
                let order = (event.time.0 & mask) << 32 | u64::from(event.key);
                order << PLACE_BITS | place as u64
            }));
            self.order.sort_unstable();
            let place = |order: &u64| (order & ((1 << PLACE_BITS) - 1)) as usize;
            self.room.extend_from_slice(events);
            let (mut before, mut are_alike) = (u64::MAX, false);
            for (event, order) in events.iter_mut().zip(&self.order) {
                *event = self.room[place(order)];
                are_alike |= order >> PLACE_BITS == before;
                before = order >> PLACE_BITS;
            }
            self.order.clear();
            self.room.clear();
            // The sort has ignored `data`, so order events with the same time and key. They are rare.
            if are_alike {
                insert(events);
            }
        }
    }

    /// The first non-empty bucket after the last staged one; the wheel must not be empty.
    fn next_bucket(&self) -> u64 {
        let from = self.staged_turn + 1;
        let start = from as usize % BUCKETS;
        let (word, bit) = (start / 64, start % 64);
        let bits = self.occupied[word] & (u64::MAX << bit);
        let (word, bits) = if bits == 0 {
            let word = self.next_word(word + 1);
            (word, self.occupied[word])
        } else {
            (word, bits)
        };
        let index = word * 64 + bits.trailing_zeros() as usize;
        from + (index.wrapping_sub(start) % BUCKETS) as u64
    }

    /// The first non-zero word of `occupied` at or after `word`, wrapping around.
    fn next_word(&self, word: usize) -> usize {
        let start = word % (BUCKETS / 64);
        let (half, bit) = (start / 64, start % 64);
        let bits = self.summary[half] & (u64::MAX << bit);
        if bits != 0 {
            return half * 64 + bits.trailing_zeros() as usize;
        }
        let halves = self.summary.len();
        let next = (1..=halves).map(|step| (half + step) % halves).find(|&half| self.summary[half] != 0);
        let Some(half) = next else {
            unreachable!("the wheel holds {} events but no bucket is marked", self.in_wheel)
        };
        half * 64 + self.summary[half].trailing_zeros() as usize
    }
}

/// Sorts by insertion, which suits lists that are short or nearly sorted.
#[inline]
fn insert(events: &mut [Event]) {
    for from in 1..events.len() {
        let event = events[from];
        let mut place = from;
        while place > 0 && events[place - 1] > event {
            events[place] = events[place - 1];
            place -= 1;
        }
        events[place] = event;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn events_of_one_instant_are_removed_in_order_of_their_keys() {
        let mut queue = EventQueue::new(Time(1), Time::ZERO);
        for key in [3, 1, 2] {
            queue.push(Event { time: Time(5), key, data: 0 });
        }
        queue.push(Event { time: Time(4), key: 9, data: 0 });
        let order: Vec<(u64, u32)> = std::iter::from_fn(|| queue.pop()).map(|e| (e.time.0, e.key)).collect();
        assert_eq!(order, [(4, 9), (5, 1), (5, 2), (5, 3)]);
    }

    #[test]
    fn events_added_for_the_current_instant_are_removed_next() {
        let mut queue = EventQueue::new(Time(1 << 20), Time::ZERO);
        queue.push(Event { time: Time(10), key: 5, data: 0 });
        assert_eq!(queue.next_time(), Some(Time(10)));
        assert_eq!(queue.pop_at(Time(10)).map(|e| e.key), Some(5));
        queue.push(Event { time: Time(10), key: 6, data: 0 });
        assert_eq!(queue.pop_at(Time(10)).map(|e| e.key), Some(6));
        assert_eq!(queue.pop_at(Time(10)), None);
        assert!(queue.is_empty());
    }

    #[test]
    fn an_endless_loop_at_an_instant_ends() {
        let mut queue = EventQueue::new(Time(1 << 20), Time::ZERO);
        let event = |key| Event { time: Time(10), key, data: 0 };
        queue.push(event(0));
        queue.push(Event { time: Time(11), ..event(0) });
        let mut count = 0;
        while queue.next_time() == Some(Time(10)) {
            let event = queue.pop().unwrap();
            count += 1;
            // An event that the model adds for another time does not change the count.
            if count == 1000 {
                queue.push(Event { time: Time(12), ..event });
            }
            queue.push(Event { key: count, ..event });
        }
        assert_eq!((count, queue.endless_time()), (MOST_AT_ONCE, Some(Time(10))));
        assert!(queue.current.capacity() <= 4 * PAST, "{}", queue.current.capacity());
        assert_eq!(queue.pop().map(|event| event.time), Some(Time(11)));
        assert_eq!(queue.pop().map(|event| event.time), Some(Time(12)));
    }

    #[test]
    fn past_events_use_no_memory_if_few_events_are_pending() {
        let mut queue = EventQueue::new(Time(1 << 36), Time::ZERO);
        for pending in 0..3 {
            queue.push(Event { time: Time(pending), key: 0, data: 0 });
        }
        for popped in 0..10_000 {
            let event = queue.pop().unwrap();
            assert_eq!(event.time, Time(popped));
            queue.push(Event { time: Time(popped + 3), ..event });
        }
        assert_eq!(queue.len(), 3);
        assert!(queue.current.capacity() <= 4 * PAST, "{}", queue.current.capacity());
    }

    /// A queue that was changed as a damaged checkpoint changes it is recognized.
    #[test]
    fn changed_queues_are_not_intact() {
        let full = || {
            let mut queue = EventQueue::new(Time(100), Time::ZERO);
            (1..500).for_each(|at| queue.push(Event { time: Time(at * 700), key: 1, data: at as u32 }));
            assert!(queue.pop().is_some() && queue.is_intact());
            queue
        };
        let changes: [fn(&mut EventQueue); 7] = [
            |queue| queue.chunks[3].next = 3,
            |queue| queue.chunks[3].len = 8,
            |queue| queue.chunks.iter_mut().for_each(|chunk| chunk.events[0].time.0 += 1 << 50),
            |queue| queue.in_wheel += 1,
            |queue| queue.at = 1 << 20,
            |queue| queue.summary[0] ^= 1,
            |queue| queue.turn = queue.staged_turn + 1,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut queue = full();
            change(&mut queue);
            assert!(!queue.is_intact(), "change {number}");
        }
    }

    proptest! {
        /// Compares the queue with a sorted set, with short and long random delays, and pushes between
        /// pops.
        #[test]
        fn agrees_with_a_sorted_set(
            spacing in 1u64..10_000,
            script in prop::collection::vec((prop::collection::vec(0u64..1 << 34, 0..20), 0usize..20), 1..200),
        ) {
            let mut queue = EventQueue::new(Time(spacing), Time::ZERO);
            let mut model = std::collections::BTreeSet::new();
            let (mut now, mut data) = (0, 0);
            for (delays, pops) in script {
                for delay in delays {
                    // Most delays are within the wheel, many of them in few buckets; some are beyond the
                    // wheel.
                    let delay = match delay % 4 {
                        0 => delay,
                        1 => delay % (spacing * 4000),
                        _ => delay % (spacing * 20),
                    };
                    data += 1;
                    let event = Event { time: Time(now + delay), key: (delay % 7) as u32, data };
                    queue.push(event);
                    model.insert(event);
                }
                for _ in 0..pops {
                    let popped = queue.pop();
                    prop_assert_eq!(popped, model.pop_first());
                    now = popped.map_or(now, |event| event.time.0);
                }
                prop_assert_eq!(queue.len(), model.len());
            }
            prop_assert!(queue.is_intact());
            while let Some(event) = model.pop_first() {
                prop_assert_eq!(queue.pop(), Some(event));
            }
            prop_assert!(queue.is_empty());
        }
    }
}
