//! The credits of one virtual lane that are on their way back to the sender.

use std::collections::VecDeque;

use silvan_engine::Time;
use silvan_engine::saved::{Saved, Writer};

/// Number of returning credits that a [`Returns`] contains directly.
pub(super) const HELD: usize = 4;

/// Means that the returning credits of a lane have always fit into its own entries.
const NO_SPILL: u32 = u32::MAX;

/// Returning credits that do not fit into their [`Returns`], ordered by time. There is one list for each lane that has
/// ever needed this.
pub(crate) type Spills = Vec<VecDeque<(Time, u32)>>;

/// Space that was freed downstream, ordered by time. Each entry has the amount, and the time at which its credit returns
/// to the sender. There are few entries, because returned credit is booked when another entry does not fit. If there are
/// still too many, [`Spills`] contains the latest ones, and is read when all entries here have returned.
#[derive(Debug, Clone, Copy, Saved)]
#[saved(relative(Self::save_relative))]
pub(crate) struct Returns {
    times: [Time; HELD],
    spaces: [u32; HELD],
    count: u8,
    /// Whether there are spilled entries.
    has_spilled: bool,
    /// The index of this lane in [`Spills`], assigned when the lane first needs it.
    spill: u32,
}

impl Default for Returns {
    fn default() -> Self {
        Self { times: [Time::ZERO; HELD], spaces: [0; HELD], count: 0, has_spilled: false, spill: NO_SPILL }
    }
}

impl Returns {
    /// Notes that entries after the last one have no meaning.
    fn save_relative(&self, to: &mut Writer<'_>) {
        let Self { times, spaces, count, has_spilled, spill } = self;
        for (at, time) in times.iter().enumerate() {
            if at < self.len() { time.save(to) } else { to.put_any(&time.0.to_le_bytes()) }
        }
        for (at, space) in spaces.iter().enumerate() {
            if at < self.len() { space.save(to) } else { to.put_any(&space.to_le_bytes()) }
        }
        count.save(to);
        has_spilled.save(to);
        spill.save(to);
    }

    #[inline]
    fn len(&self) -> usize {
        usize::from(self.count).min(HELD)
    }

    /// Whether there is no space for another entry.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.has_spilled || self.len() == HELD
    }

    /// Removes the credit that has returned by now. Returns its sum.
    #[inline(always)]
    pub fn collect(&mut self, now: Time, spills: &mut Spills) -> u32 {
        let count = self.len();
        let (mut sum, mut back) = (0, 0);
        while back < count && self.times[back] <= now {
            sum += self.spaces[back];
            back += 1;
        }
        for at in back..count {
            self.times[at - back] = self.times[at];
            self.spaces[at - back] = self.spaces[at];
        }
        self.count -= back as u8;
        if self.count == 0 && self.has_spilled { sum + self.collect_spill(now, spills) } else { sum }
    }

    /// Same as [`Self::collect`], for the spilled entries. Moves the next of them here.
    #[inline(never)]
    fn collect_spill(&mut self, now: Time, spills: &mut Spills) -> u32 {
        let spill = &mut spills[self.spill as usize];
        let mut sum = 0;
        while let Some(&(time, space)) = spill.front() {
            if time <= now {
                sum += space;
            } else if self.len() < HELD {
                self.hold(self.len(), time, space);
                self.count += 1;
            } else {
                break;
            }
            spill.pop_front();
        }
        self.has_spilled = !spill.is_empty();
        sum
    }

    #[inline]
    fn hold(&mut self, place: usize, time: Time, space: u32) {
        self.times[place] = time;
        self.spaces[place] = space;
    }

    /// Adds a credit that returns at a given time.
    #[inline]
    pub fn add(&mut self, time: Time, space: u32, spills: &mut Spills) {
        if let Some(over) = self.insert(time, space) {
            self.add_spill(over, spills);
        }
    }

    /// Adds a credit. Returns the entry that does not fit, if any.
    #[inline]
    fn insert(&mut self, time: Time, space: u32) -> Option<(Time, u32)> {
        let mut over = None;
        let mut place = self.len();
        let is_last = place == 0 || self.times[place - 1] <= time;
        if is_last && self.has_spilled {
            return Some((time, space));
        }
        if place == HELD {
            let last = (self.times[HELD - 1], self.spaces[HELD - 1]);
            if last.0 <= time {
                return Some((time, space));
            }
            over = Some(last);
            place = HELD - 1;
        } else {
            self.count += 1;
        }
        while place > 0 && self.times[place - 1] > time {
            self.times[place] = self.times[place - 1];
            self.spaces[place] = self.spaces[place - 1];
            place -= 1;
        }
        self.hold(place, time, space);
        over
    }

    #[inline(never)]
    fn add_spill(&mut self, entry: (Time, u32), spills: &mut Spills) {
        if self.spill == NO_SPILL {
            self.spill = spills.len() as u32;
            spills.push(VecDeque::new());
        }
        self.has_spilled = true;
        let spill = &mut spills[self.spill as usize];
        // A host frees its buffer in order, and a switch nearly so, so the search starts at the end.
        let mut place = spill.len();
        while place > 0 && spill[place - 1].0 > entry.0 {
            place -= 1;
        }
        spill.insert(place, entry);
    }

    /// The time at which there will be `wanted` bytes of credit if there are `available` bytes now; `None` if the
    /// credit on its way is not sufficient.
    #[inline]
    pub fn ready_at(&self, available: u32, wanted: u32, spills: &Spills) -> Option<Time> {
        if available >= wanted {
            return None;
        }
        let mut sum = available;
        let mut enough = |(time, space): (Time, u32)| {
            sum += space;
            (sum >= wanted).then_some(time)
        };
        self.iter(spills).find_map(&mut enough)
    }

    /// All returning credits, in order of time.
    pub fn iter<'s>(&'s self, spills: &'s Spills) -> impl Iterator<Item = (Time, u32)> + 's {
        let held = (0..self.len()).map(|at| (self.times[at], self.spaces[at]));
        held.chain(spills.get(self.spill as usize).into_iter().flatten().copied())
    }
}

#[cfg(test)]
mod tests {
    use silvan_engine::random::Stream;

    use super::*;

    #[test]
    fn what_returns_is_collected_in_order_of_time() {
        for seed in 0..200 {
            let mut stream = Stream::new(seed, "returns", 0);
            let mut draw = |below: u32| u64::from(stream.below(below));
            let (mut returns, mut spills) = (Returns::default(), Spills::new());
            let mut plain: Vec<(Time, u32)> = Vec::new();
            let (mut now, mut last) = (0, 0);
            for _ in 0..400 {
                // Most credits return in order, as from a host; some return earlier.
                last = (last + draw(30)).max(now);
                let back = if draw(5) == 0 { now + draw(200) } else { last };
                let space = 1 + draw(9) as u32;
                returns.add(Time(back), space, &mut spills);
                plain.push((Time(back), space));
                plain.sort_by_key(|entry| entry.0);
                now += draw(25);
                let wanted = 1 + draw(40) as u32;
                let mut sum = 0;
                let enough = plain.iter().find(|(_, space)| {
                    sum += space;
                    sum >= wanted
                });
                assert_eq!(returns.ready_at(0, wanted, &spills), enough.map(|entry| entry.0), "seed {seed}");
                if draw(3) == 0 {
                    let back: u32 = plain.extract_if(.., |entry| entry.0.0 <= now).map(|entry| entry.1).sum();
                    assert_eq!(returns.collect(Time(now), &mut spills), back, "seed {seed}, at {now}");
                }
            }
            assert!(seed > 0 || spills.iter().any(|spill| spill.capacity() > 0), "some found no place");
        }
    }
}
