//! The event queue: a timing wheel for the near future, a heap for the far one.
//!
//! Events come out in one total order, (time, key), that is intrinsic to the events: it does not
//! depend on the order of insertion, on the geometry of the wheel or on the machine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::units::Time;

/// Something that will happen. The model gives `key` its meaning: events of equal time are
/// ordered by it, so it must tell apart whatever does not commute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// When.
    pub time: Time,
    /// What and where; breaks ties in time.
    pub key: u32,
    /// What else the handler needs to know; breaks ties last.
    pub data: u32,
}

const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Slot {
    event: Event,
    next: u32,
}

/// Pending events, ordered by (time, key, data).
///
/// The wheel has a power of two of buckets, each `2^shift` picoseconds wide. A bucket is an
/// unordered list; it is sorted when its turn comes. Events beyond the wheel's horizon wait in
/// a binary heap and never move: they are merged when their bucket's turn comes.
#[derive(Debug)]
pub struct EventQueue {
    shift: u32,
    heads: Box<[u32]>,
    /// One bit per bucket: is it non-empty?
    occupied: Box<[u64]>,
    slots: Vec<Slot>,
    free: u32,
    /// The events of the bucket whose turn it is, latest first.
    current: Vec<Event>,
    /// Number of that bucket, counted from time zero.
    turn: u64,
    /// Pending in the wheel, besides `current`.
    in_wheel: usize,
    far: BinaryHeap<Reverse<Event>>,
}

impl EventQueue {
    const BUCKETS: u64 = 1 << 13;

    /// A queue for events that are about `spacing` apart. The spacing changes only the speed.
    #[must_use]
    pub fn new(spacing: Time) -> Self {
        let width = spacing.0.clamp(1, 1 << 40).next_power_of_two();
        Self {
            shift: width.trailing_zeros(),
            heads: vec![NONE; Self::BUCKETS as usize].into_boxed_slice(),
            occupied: vec![0; Self::BUCKETS as usize / 64].into_boxed_slice(),
            slots: Vec::new(),
            free: NONE,
            current: Vec::new(),
            turn: 0,
            in_wheel: 0,
            far: BinaryHeap::new(),
        }
    }

    /// Number of pending events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.current.len() + self.in_wheel + self.far.len()
    }

    /// Whether nothing is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an event. It may be due now, but not earlier than the last one popped.
    #[inline]
    pub fn push(&mut self, event: Event) {
        let bucket = event.time.0 >> self.shift;
        if bucket <= self.turn {
            let place = self.current.partition_point(|other| *other > event);
            self.current.insert(place, event);
        } else if bucket - self.turn < Self::BUCKETS {
            self.link(bucket, event);
        } else {
            self.far.push(Reverse(event));
        }
    }

    #[inline]
    fn link(&mut self, bucket: u64, event: Event) {
        let index = (bucket & (Self::BUCKETS - 1)) as usize;
        let slot = Slot { event, next: self.heads[index] };
        let at = if self.free == NONE {
            self.slots.push(slot);
            self.slots.len() as u32 - 1
        } else {
            let at = self.free;
            self.free = self.slots[at as usize].next;
            self.slots[at as usize] = slot;
            at
        };
        self.heads[index] = at;
        self.occupied[index / 64] |= 1 << (index % 64);
        self.in_wheel += 1;
    }

    /// The time of the next event.
    #[inline]
    pub fn next_time(&mut self) -> Option<Time> {
        if self.current.is_empty() && !self.turn_wheel() {
            return None;
        }
        self.current.last().map(|event| event.time)
    }

    /// Takes the next event if it is due at exactly `time`.
    #[inline]
    pub fn pop_at(&mut self, time: Time) -> Option<Event> {
        match self.current.last() {
            Some(event) if event.time == time => self.current.pop(),
            _ => None,
        }
    }

    /// Takes the next event.
    pub fn pop(&mut self) -> Option<Event> {
        let time = self.next_time()?;
        self.pop_at(time)
    }

    /// Moves to the next non-empty bucket and sorts it. False if nothing is pending.
    fn turn_wheel(&mut self) -> bool {
        let near = (self.in_wheel > 0).then(|| self.next_bucket());
        let far = self.far.peek().map(|event| event.0.time.0 >> self.shift);
        let Some(turn) = near.into_iter().chain(far).min() else { return false };
        self.turn = turn;
        if near == Some(turn) {
            self.drain_bucket(turn);
        }
        while self.far.peek().is_some_and(|event| event.0.time.0 >> self.shift == turn) {
            self.current.extend(self.far.pop().map(|event| event.0));
        }
        if self.current.len() > 1 {
            self.current.sort_unstable_by(|a, b| b.cmp(a));
        }
        true
    }

    fn drain_bucket(&mut self, bucket: u64) {
        let index = (bucket & (Self::BUCKETS - 1)) as usize;
        let mut at = self.heads[index];
        while at != NONE {
            let slot = self.slots[at as usize];
            self.current.push(slot.event);
            self.slots[at as usize].next = self.free;
            self.free = at;
            at = slot.next;
        }
        self.heads[index] = NONE;
        self.occupied[index / 64] &= !(1 << (index % 64));
        self.in_wheel -= self.current.len();
    }

    /// The first non-empty bucket after the current one; the wheel must not be empty.
    fn next_bucket(&self) -> u64 {
        let words = self.occupied.len();
        let start = ((self.turn + 1) & (Self::BUCKETS - 1)) as usize;
        let (mut word, bit) = (start / 64, start % 64);
        let mut bits = self.occupied[word] & (u64::MAX << bit);
        for _ in 0..=words {
            if bits != 0 {
                let index = (word * 64) as u64 + u64::from(bits.trailing_zeros());
                let ahead = index.wrapping_sub(self.turn + 1) & (Self::BUCKETS - 1);
                return self.turn + 1 + ahead;
            }
            word = (word + 1) % words;
            bits = self.occupied[word];
        }
        unreachable!("the wheel holds {} events but no bucket is marked", self.in_wheel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn events_of_one_instant_come_in_order_of_their_keys() {
        let mut queue = EventQueue::new(Time(1));
        for key in [3, 1, 2] {
            queue.push(Event { time: Time(5), key, data: 0 });
        }
        queue.push(Event { time: Time(4), key: 9, data: 0 });
        let order: Vec<(u64, u32)> = std::iter::from_fn(|| queue.pop()).map(|e| (e.time.0, e.key)).collect();
        assert_eq!(order, [(4, 9), (5, 1), (5, 2), (5, 3)]);
    }

    #[test]
    fn events_added_for_the_current_instant_still_come() {
        let mut queue = EventQueue::new(Time(1 << 20));
        queue.push(Event { time: Time(10), key: 5, data: 0 });
        assert_eq!(queue.next_time(), Some(Time(10)));
        assert_eq!(queue.pop_at(Time(10)).map(|e| e.key), Some(5));
        queue.push(Event { time: Time(10), key: 6, data: 0 });
        assert_eq!(queue.pop_at(Time(10)).map(|e| e.key), Some(6));
        assert_eq!(queue.pop_at(Time(10)), None);
        assert!(queue.is_empty());
    }

    proptest! {
        /// Against a plain sorted set: random delays near and far, pushes between pops.
        #[test]
        fn agrees_with_a_sorted_set(
            spacing in 1u64..10_000,
            script in prop::collection::vec((prop::collection::vec(0u64..1 << 34, 0..5), 0usize..6), 1..200),
        ) {
            let mut queue = EventQueue::new(Time(spacing));
            let mut model = std::collections::BTreeSet::new();
            let (mut now, mut data) = (0, 0);
            for (delays, pops) in script {
                for delay in delays {
                    // Squeeze most delays into the wheel, leave some far away.
                    let delay = if delay % 3 == 0 { delay } else { delay % (spacing * 4000) };
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
            while let Some(event) = model.pop_first() {
                prop_assert_eq!(queue.pop(), Some(event));
            }
            prop_assert!(queue.is_empty());
        }
    }
}
