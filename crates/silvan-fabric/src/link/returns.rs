//! The sender's account of one virtual lane: the credits that are on their way back to it.

use std::collections::VecDeque;

use silvan_engine::Time;

/// Returning credits that a [`Returns`] holds itself.
pub(super) const HELD: usize = 4;

/// A lane that never had more returning credits than it holds itself.
const NO_SPILL: u32 = u32::MAX;

/// Returning credits that found no place in their [`Returns`], in order of time, for those that ever needed it.
pub(crate) type Spills = Vec<VecDeque<(Time, u32)>>;

/// Space being freed downstream: when the sender learns of it, and how much. Few at a time, as what is back is booked
/// when another finds no place; the latest ones beyond what fits here are in [`Spills`], which is looked at when
/// those held here are all back.
///
/// Those held are in no order: which of them are back is a comparison each, without a branch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Returns {
    times: [Time; HELD],
    spaces: [u32; HELD],
    /// Which places are taken, a bit each.
    taken: u8,
    /// Whether some are among the spills.
    has_spilled: bool,
    /// Which of the [`Spills`] is this lane's, from the first time it needs one.
    spill: u32,
}

impl Default for Returns {
    fn default() -> Self {
        Self { times: [Time::ZERO; HELD], spaces: [0; HELD], taken: 0, has_spilled: false, spill: NO_SPILL }
    }
}

/// All places.
const ALL: u8 = (1 << HELD) - 1;

impl Returns {
    /// Whether one more finds no place here.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.has_spilled || self.taken == ALL
    }

    /// Takes out what is back by now, and gives its sum.
    #[inline(always)]
    pub fn collect(&mut self, now: Time, spills: &mut Spills) -> u32 {
        let (mut sum, mut back) = (0, 0);
        for at in 0..HELD {
            let is_back = self.taken >> at & u8::from(self.times[at] <= now);
            sum += self.spaces[at] * u32::from(is_back);
            back |= is_back << at;
        }
        self.taken &= !back;
        if self.taken == 0 && self.has_spilled { sum + self.collect_spill(now, spills) } else { sum }
    }

    /// As [`Self::collect`], of what found no place; takes the next ones in.
    #[inline(never)]
    fn collect_spill(&mut self, now: Time, spills: &mut Spills) -> u32 {
        let spill = &mut spills[self.spill as usize];
        let mut sum = 0;
        while let Some(&(time, space)) = spill.front() {
            if time <= now {
                sum += space;
            } else if self.taken != ALL {
                self.hold(time, space);
            } else {
                break;
            }
            spill.pop_front();
        }
        self.has_spilled = !spill.is_empty();
        sum
    }

    /// Takes one in where there is a place.
    #[inline]
    fn hold(&mut self, time: Time, space: u32) {
        let place = self.taken.trailing_ones() as usize % HELD;
        (self.times[place], self.spaces[place]) = (time, space);
        self.taken |= 1 << place;
    }

    /// Adds a credit that is back at a given time.
    #[inline]
    pub fn add(&mut self, time: Time, space: u32, spills: &mut Spills) {
        if self.is_full() {
            self.add_beyond(time, space, spills);
        } else {
            self.hold(time, space);
        }
    }

    /// As [`Self::add`], where some may have to go to the spills: no one there is back before one held here.
    #[inline(never)]
    fn add_beyond(&mut self, time: Time, space: u32, spills: &mut Spills) {
        let held = (0..HELD).filter(|at| self.taken >> at & 1 == 1);
        match held.max_by_key(|&at| self.times[at]) {
            Some(last) if time < self.times[last] => {
                if self.taken != ALL {
                    return self.hold(time, space);
                }
                let over = (self.times[last], self.spaces[last]);
                (self.times[last], self.spaces[last]) = (time, space);
                self.add_spill(over, spills);
            }
            _ => self.add_spill((time, space), spills),
        }
    }

    fn add_spill(&mut self, entry: (Time, u32), spills: &mut Spills) {
        if self.spill == NO_SPILL {
            self.spill = spills.len() as u32;
            spills.push(VecDeque::new());
        }
        self.has_spilled = true;
        let spill = &mut spills[self.spill as usize];
        // A host frees its buffer in order, a switch nearly so: the place is near the end.
        let mut place = spill.len();
        while place > 0 && spill[place - 1].0 > entry.0 {
            place -= 1;
        }
        spill.insert(place, entry);
    }

    /// When there will be `wanted` bytes of credit, if `available` are there now and the rest is on its way; not if
    /// they are there.
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

    /// All of them, in order of time.
    pub fn iter<'s>(&self, spills: &'s Spills) -> impl Iterator<Item = (Time, u32)> + use<'s> {
        let mut held = [(Time::NEVER, 0); HELD];
        let mut len = 0;
        for at in (0..HELD).filter(|at| self.taken >> at & 1 == 1) {
            let mut place = len;
            while place > 0 && held[place - 1].0 > self.times[at] {
                held[place] = held[place - 1];
                place -= 1;
            }
            held[place] = (self.times[at], self.spaces[at]);
            len += 1;
        }
        let spilled = spills.get(self.spill as usize).into_iter().flatten().copied();
        held.into_iter().take(len).chain(spilled)
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
                // Most come in order, as from a host; some before others.
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
