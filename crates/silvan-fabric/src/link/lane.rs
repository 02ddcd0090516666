//! The sender's account of one virtual lane: its credits, and those that return.

use std::collections::VecDeque;

use silvan_engine::Time;

/// Credits of one virtual lane of a channel, in bytes. One cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Lane {
    pub available: u32,
    /// The credit that the sender waits for; zero if it waits for none.
    pub wanted: u32,
    /// Space being freed downstream: when the sender learns of it, and how much. In order of
    /// time. Few at a time, as what is back is booked when another finds no place; the latest ones
    /// beyond what fits here are in [`super::Links::spills`].
    pub times: [Time; RETURNING],
    pub spaces: [u32; RETURNING],
    pub count: u8,
    /// Which of [`super::Links::spills`] is this lane's, from the first time it needs one.
    pub spill: u32,
}

/// A lane that never had more returning credits than it holds itself.
pub(super) const NO_SPILL: u32 = u32::MAX;

/// Returning credits that a [`Lane`] holds itself.
pub(super) const RETURNING: usize = 4;

impl Lane {
    pub fn new(capacity: u32) -> Self {
        Self {
            available: capacity,
            wanted: 0,
            times: [Time::ZERO; RETURNING],
            spaces: [0; RETURNING],
            count: 0,
            spill: NO_SPILL,
        }
    }

    /// Books the credits that are back by now.
    #[inline]
    pub fn collect(&mut self, now: Time) {
        let count = usize::from(self.count).min(RETURNING);
        let mut back = 0;
        while back < count && self.times[back] <= now {
            self.available += self.spaces[back];
            back += 1;
        }
        for at in back..count {
            self.times[at - back] = self.times[at];
            self.spaces[at - back] = self.spaces[at];
        }
        self.count -= back as u8;
    }

    /// When the credit that the sender waits for is back, if it is on its way; `spill` holds
    /// the credits that follow those in the lane.
    #[inline]
    pub fn ready_at(&self, spill: Option<&VecDeque<(Time, u32)>>) -> Option<Time> {
        let mut sum = self.available;
        let mut enough = |(time, space): (Time, u32)| {
            sum += space;
            (sum >= self.wanted).then_some(time)
        };
        let own = (0..usize::from(self.count).min(RETURNING)).map(|at| (self.times[at], self.spaces[at]));
        own.chain(spill.into_iter().flatten().copied()).find_map(&mut enough)
    }

    /// Adds a credit that is back at a given time; returns the one that found no place.
    #[inline]
    pub fn add(&mut self, time: Time, space: u32) -> Option<(Time, u32)> {
        let count = usize::from(self.count).min(RETURNING);
        let mut over = None;
        let mut place = count;
        if count == RETURNING {
            let last = (self.times[RETURNING - 1], self.spaces[RETURNING - 1]);
            if last.0 <= time {
                return Some((time, space));
            }
            over = Some(last);
            place = RETURNING - 1;
        } else {
            self.count += 1;
        }
        while place > 0 && self.times[place - 1] > time {
            self.times[place] = self.times[place - 1];
            self.spaces[place] = self.spaces[place - 1];
            place -= 1;
        }
        self.times[place] = time;
        self.spaces[place] = space;
        over
    }
}
