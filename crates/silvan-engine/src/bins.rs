//! A ring of time bins. Each bin holds the items of one span of time, in no particular order.
//!
//! If units affect each other only after a minimum delay, the lookahead, then the order of events within a
//! shorter span does not matter: when a bin is processed, it already contains everything that affects its
//! units. Bins are therefore not wider than the lookahead, and a sort is needed only among the items of
//! one unit in one bin.

use crate::saved::Saved;
use crate::units::Time;

/// A ring of bins, which are numbered from time zero. The ring contains the current bin and those that
/// follow.
#[derive(Debug, Saved)]
pub struct Bins<T> {
    #[saved(constant)]
    shift: u32,
    ring: Box<[Vec<T>]>,
    /// One bit per bin, set if the bin is not empty.
    occupied: Box<[u64]>,
    /// Number of the current bin.
    current: u64,
}

impl<T> Bins<T> {
    /// Creates `count` bins, rounded up to a power of two of at least 64, each `2^shift` picoseconds wide.
    #[must_use]
    pub fn new(shift: u32, count: usize) -> Self {
        let count = count.next_power_of_two().max(64);
        Self {
            shift,
            ring: (0..count).map(|_| Vec::new()).collect(),
            occupied: vec![0; count / 64].into(),
            current: 0,
        }
    }

    /// Number of bins in the ring.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ring.len()
    }

    /// The index of a bin in the ring.
    #[inline]
    #[must_use]
    pub fn slot(&self, bin: u64) -> usize {
        bin as usize & (self.ring.len() - 1)
    }

    /// The bin that contains a time: the current bin for earlier times, the last bin for times beyond the
    /// ring.
    #[inline]
    #[must_use]
    pub fn bin(&self, time: Time) -> u64 {
        (time.0 >> self.shift).clamp(self.current, self.current + (self.ring.len() as u64 - 1))
    }

    /// Adds an item to a bin, which must be in the ring.
    #[inline(always)]
    pub fn push(&mut self, bin: u64, item: T) {
        debug_assert!(bin >= self.current && bin - self.current < self.ring.len() as u64);
        let slot = self.slot(bin);
        let items = &mut self.ring[slot];
        if items.is_empty() {
            self.occupied[slot / 64] |= 1 << (slot % 64);
        }
        items.push(item);
    }

    /// All items, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.ring.iter().flatten()
    }

    /// Whether all bins are empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.occupied.iter().all(|&word| word == 0)
    }

    /// Makes a bin the current one. All earlier bins must be empty.
    #[inline]
    pub fn turn_to(&mut self, bin: u64) {
        self.current = bin;
    }

    /// The first non-empty bin, starting with the current one. `None` if all bins are empty.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        let start = self.slot(self.current);
        let words = self.occupied.len();
        let first = self.occupied[start / 64] & (u64::MAX << (start % 64));
        let (word, bits) = if first != 0 {
            (start / 64, first)
        } else {
            // The search wraps around the ring and ends with the lower bits of the first word.
            let next = (1..=words).map(|step| (start / 64 + step) % words);
            next.map(|word| (word, self.occupied[word])).find(|(_, bits)| *bits != 0)?
        };
        let slot = word * 64 + bits.trailing_zeros() as usize;
        Some(self.current + (slot.wrapping_sub(start) & (self.ring.len() - 1)) as u64)
    }

    /// Exchanges the items of the current bin for the list `empty`, which must be empty.
    #[inline]
    pub fn take(&mut self, empty: &mut Vec<T>) {
        debug_assert!(empty.is_empty());
        let slot = self.slot(self.current);
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        std::mem::swap(&mut self.ring[slot], empty);
    }
}

/// The slot of an item that is not scheduled.
pub const UNSCHEDULED: u16 = u16::MAX;

/// Bins of items that wait for a time. Each item stores the slot of the bin in which it is scheduled. An item
/// may also be in later bins, where the caller must ignore it. There must be fewer bins than [`UNSCHEDULED`].
impl Bins<u32> {
    /// Schedules an item, unless it is scheduled in the same bin or an earlier one.
    #[inline(always)]
    pub fn schedule(&mut self, item: u32, time: Time, slot: &mut u16) {
        let bin = self.bin(time);
        let mask = self.ring.len() - 1;
        let ahead = |slot: usize| slot.wrapping_sub(self.current as usize) & mask;
        if *slot == UNSCHEDULED || ahead(self.slot(bin)) < ahead(usize::from(*slot)) {
            *slot = self.slot(bin) as u16;
            self.push(bin, item);
        }
    }

    /// Schedules an item that was taken out of the bin in which it was scheduled. `Time::NEVER` means that it does not
    /// wait.
    #[inline(always)]
    pub fn schedule_again(&mut self, item: u32, time: Time, slot: &mut u16) {
        *slot = UNSCHEDULED;
        if time != Time::NEVER {
            let bin = self.bin(time);
            *slot = self.slot(bin) as u16;
            self.push(bin, item);
        }
    }

    /// Whether an item is scheduled in the current bin.
    #[inline]
    #[must_use]
    pub fn is_due(&self, slot: u16) -> bool {
        usize::from(slot) == self.slot(self.current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_beyond_the_ring_are_in_its_last_bin() {
        let mut bins = Bins::new(4, 64);
        bins.turn_to(10);
        assert_eq!(bins.bin(Time(3)), 10);
        assert_eq!(bins.bin(Time(16 * 12 + 5)), 12);
        assert_eq!(bins.bin(Time(1 << 30)), 10 + 63);
        bins.push(10 + 63, ());
        assert_eq!(bins.next(), Some(10 + 63));
    }

    #[test]
    fn an_item_is_scheduled_once_in_its_earliest_bin() {
        let mut bins = Bins::new(4, 64);
        let (mut slot, mut due) = (UNSCHEDULED, Vec::new());
        bins.schedule(7, Time(16 * 5), &mut slot);
        bins.schedule(7, Time(16 * 9), &mut slot);
        bins.schedule(7, Time(16 * 3), &mut slot);
        assert_eq!(bins.next(), Some(3));
        bins.turn_to(3);
        bins.take(&mut due);
        assert_eq!((due.as_slice(), bins.is_due(slot)), (&[7][..], true));
        bins.schedule_again(7, Time(16 * 4), &mut slot);
        bins.turn_to(4);
        assert!(bins.is_due(slot));
        due.clear();
        bins.take(&mut due);
        bins.schedule_again(7, Time::NEVER, &mut slot);
        assert_eq!((due.as_slice(), slot), (&[7][..], UNSCHEDULED));
        // The entry of the item's first time remains, and must be ignored.
        assert_eq!(bins.next(), Some(5));
        bins.turn_to(5);
        assert!(!bins.is_due(slot));
    }

    proptest! {
        /// Compares with a plain list: items come out in the bin of their time, in the order of the bins.
        #[test]
        fn items_come_out_in_their_bins(
            steps in prop::collection::vec((0u64..3, prop::collection::vec(0u64..900, 0..4)), 1..200),
        ) {
            let mut bins = Bins::new(3, 128);
            let mut model = Vec::new();
            for (skip, delays) in steps {
                let bin = bins.next().unwrap_or(bins.current);
                bins.turn_to(bin);
                let mut found: Vec<u64> = Vec::new();
                bins.take(&mut found);
                let mut expected: Vec<u64> = model.iter().copied().filter(|time| time >> 3 == bin).collect();
                prop_assert!(model.iter().all(|time| time >> 3 >= bin), "no item is left in an earlier bin");
                model.retain(|time| time >> 3 != bin);
                found.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(found, expected);
                if bins.is_empty() {
                    bins.turn_to(bin + skip);
                }
                for delay in delays {
                    let time = (bins.current << 3) + delay;
                    bins.push(bins.bin(Time(time)), time);
                    model.push(time);
                }
            }
        }
    }
}
