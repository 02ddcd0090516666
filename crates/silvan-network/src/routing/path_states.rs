//! The states of the entropy values of a flow after Multipath Reliable Connection (MRC, specification 1.0 of the Open Compute
//! Project, 2026).
//!
//! ```text
//!  good     -> skip      after a mark, or the report that a switch trimmed a packet before the last output
//!  skip     -> good      when a packet passes over the value; a packet does so for at most one value
//!  any      -> retired   after a loss that no switch reported (in MRC: assumed bad), if enough values remain
//!  retired  -> good      when a probe with the value is answered; skip if the probe was marked
//! ```
//!
//! The active values have slots, and packets take the values of the slots in turn. A spare value takes the slot of a retired
//! one. If there is none, the slot is empty until a retired value is restored; a value that is restored while no slot is empty
//! becomes a spare.
//!
//! Probes of a value follow each other at an interval that doubles while they are not answered, so that flows over failed links
//! and to failed hosts do not fill the network with probes.
//!
//! The specification defines neither the number of spares, nor the least number of active values, nor the interval of probes;
//! their defaults are assumptions.

use std::collections::{BTreeMap, VecDeque};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::Time;
use silvan_engine::saved::Saved;

/// How entropy values are retired after losses, and restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Saved)]
#[serde(deny_unknown_fields, default)]
pub struct Retirement {
    /// Number of spare entropy values of a flow, which replace retired ones.
    #[schemars(range(max = 16_384))]
    pub spares: u16,
    /// A value without a spare is retired only if at least this many values remain active. Default: a quarter of `values`.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_active: Option<u16>,
    /// The time from the retirement of a value to the first probe. It doubles with each probe that is not answered, up to 32
    /// times.
    pub probe_interval: Time,
}

impl Default for Retirement {
    fn default() -> Self {
        Self { spares: 16, least_active: None, probe_interval: Time(100_000_000) }
    }
}

impl Retirement {
    /// The least number of active values of a flow with this number of values.
    #[must_use]
    pub fn least_active(&self, values: u16) -> u16 {
        self.least_active.unwrap_or(values / 4).max(1)
    }
}

/// The state of a route, as an answer reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteFeedback {
    /// The packet arrived without a mark.
    Good,
    /// A switch marked the packet.
    Marked,
    /// A switch removed the payload before the last output.
    Trimmed,
    /// The packet was lost.
    Lost,
}

impl RouteFeedback {
    /// The feedback of a packet that was not lost.
    pub fn of_mark(is_marked: bool) -> Self {
        if is_marked { Self::Marked } else { Self::Good }
    }
}

/// The state of an entropy value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
enum PathState {
    /// Packets take the value in the turn of this slot.
    Active(u16),
    Spare,
    Retired,
}

/// A packet that tests a retired entropy value of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub struct Probe {
    /// Index of the flow's source at its host.
    pub source: u16,
    /// The host that receives the flow.
    pub destination: u32,
    /// The entropy value.
    pub value: u16,
}

/// The number of times that the interval of a probe doubles while it is not answered.
const DOUBLINGS: u8 = 5;

/// The probes of a host.
#[derive(Debug, Default, Saved)]
pub(super) struct Probes {
    /// Probes by the time at which they are due, in the order in which they were added, with the number of those of the value
    /// that were sent without an answer.
    due: BTreeMap<(Time, u64), (Probe, u8)>,
    added: u64,
}

impl Probes {
    /// Adds a probe after `unanswered` ones of its value.
    pub fn add(&mut self, probe: Probe, unanswered: u8, now: Time, interval: Time) {
        let time = now + Time(interval.0 << unanswered.min(DOUBLINGS));
        self.due.insert((time, self.added), (probe, unanswered));
        self.added += 1;
    }

    pub fn next(&self) -> Option<Time> {
        self.due.keys().next().map(|(time, _)| *time)
    }

    pub fn take(&mut self, now: Time) -> Option<(Probe, u8)> {
        self.next().filter(|time| *time <= now)?;
        self.due.pop_first().map(|(_, due)| due)
    }

    /// Removes the probes of a flow.
    pub fn forget(&mut self, source: u16, destination: u32) {
        self.due.retain(|_, (probe, _)| (probe.source, probe.destination) != (source, destination));
    }
}

/// The entropy values of a flow.
#[derive(Debug, Saved)]
pub(super) struct PathSet {
    /// The state of each value.
    states: Box<[PathState]>,
    /// Whether each value has a probe that is due in the future or suspended.
    is_probed: Box<[bool]>,
    /// The value of each slot; `None` if the slot is empty.
    slots: Box<[Option<u16>]>,
    /// Whether a packet is to pass over a slot.
    skips: Box<[bool]>,
    /// Spare values, the one to use first in front.
    spares: VecDeque<u16>,
    /// Empty slots.
    vacant: Vec<u16>,
    /// Values whose probes are suspended.
    suspended: Vec<u16>,
    least_active: u16,
}

impl PathSet {
    /// `values` is the number of slots.
    pub fn new(values: u16, retirement: &Retirement) -> Self {
        let all = values + retirement.spares;
        Self {
            states: (0..values)
                .map(PathState::Active)
                .chain((values..all).map(|_| PathState::Spare))
                .collect(),
            is_probed: vec![false; usize::from(all)].into(),
            slots: (0..values).map(Some).collect(),
            skips: vec![false; usize::from(values)].into(),
            spares: (values..all).collect(),
            vacant: Vec::new(),
            suspended: Vec::new(),
            least_active: retirement.least_active(values),
        }
    }

    fn active(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// Selects a value. `turn` returns the slot whose turn it is, and ends this turn.
    pub fn next(&mut self, mut turn: impl FnMut() -> u16) -> u16 {
        let (mut first, mut is_restored) = (None, false);
        // The rest of this round and all of the next one contain each slot.
        for _ in 0..2 * self.slots.len() {
            let slot = usize::from(turn());
            let Some(value) = self.slots[slot] else { continue };
            if !self.skips[slot] {
                return value;
            }
            if !std::mem::replace(&mut is_restored, true) {
                self.skips[slot] = false;
                first = Some(value);
            }
        }
        // All active values are to be skipped, so the packet takes the first of them.
        first.unwrap_or(0)
    }

    /// Handles the answer to a packet with a value, or its loss. Returns whether the value has been retired, and whether it
    /// then needs a probe.
    pub fn answered(&mut self, value: u16, feedback: RouteFeedback) -> (bool, bool) {
        let PathState::Active(slot) = self.states[usize::from(value)] else { return (false, false) };
        match feedback {
            RouteFeedback::Good => (false, false),
            RouteFeedback::Lost
                if !self.spares.is_empty() || self.active() > usize::from(self.least_active) =>
            {
                self.retire(value, slot);
                let is_probed = std::mem::replace(&mut self.is_probed[usize::from(value)], true);
                (true, !is_probed)
            }
            RouteFeedback::Marked | RouteFeedback::Trimmed | RouteFeedback::Lost => {
                self.skips[usize::from(slot)] = true;
                (false, false)
            }
        }
    }

    fn retire(&mut self, value: u16, slot: u16) {
        self.states[usize::from(value)] = PathState::Retired;
        self.skips[usize::from(slot)] = false;
        let spare = self.spares.pop_front();
        self.slots[usize::from(slot)] = spare;
        match spare {
            Some(spare) => self.states[usize::from(spare)] = PathState::Active(slot),
            None => self.vacant.push(slot),
        }
    }

    /// Makes a retired value active again, or a spare. Returns whether the value was retired.
    pub fn restore(&mut self, value: u16, is_marked: bool) -> bool {
        if self.states[usize::from(value)] != PathState::Retired {
            return false;
        }
        match self.vacant.pop() {
            Some(slot) => {
                self.states[usize::from(value)] = PathState::Active(slot);
                self.slots[usize::from(slot)] = Some(value);
                self.skips[usize::from(slot)] = is_marked;
            }
            None => {
                self.states[usize::from(value)] = PathState::Spare;
                self.spares.push_back(value);
            }
        }
        true
    }

    /// Whether a value whose probe is due is retired. Otherwise, it has no probe any more.
    pub fn confirm_probe(&mut self, value: u16) -> bool {
        let is_retired = self.states[usize::from(value)] == PathState::Retired;
        self.is_probed[usize::from(value)] = is_retired;
        is_retired
    }

    pub fn suspend(&mut self, value: u16) {
        self.suspended.push(value);
    }

    pub fn take_suspended(&mut self) -> impl Iterator<Item = u16> + use<> {
        std::mem::take(&mut self.suspended).into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four values with spares, of which at least two stay active, and the slot whose turn it is.
    struct Paths(PathSet, u16);

    impl Paths {
        fn new(spares: u16) -> Self {
            let retirement = Retirement { spares, least_active: Some(2), ..Retirement::default() };
            Self(PathSet::new(4, &retirement), 0)
        }

        fn take<const N: usize>(&mut self) -> [u16; N] {
            let Self(paths, at) = self;
            [(); N].map(|()| {
                paths.next(|| {
                    *at = (*at + 1) % 4;
                    (*at + 3) % 4
                })
            })
        }

        fn marked(&mut self, value: u16) {
            assert_eq!(self.0.answered(value, RouteFeedback::Marked), (false, false));
        }

        fn lost(&mut self, value: u16) -> (bool, bool) {
            self.0.answered(value, RouteFeedback::Lost)
        }
    }

    #[test]
    fn a_packet_restores_one_skipped_value_and_takes_the_next_good_one() {
        let mut paths = Paths::new(0);
        paths.marked(0);
        paths.marked(1);
        // The first packet passes over 0, which is good then, and over 1, which it does not restore.
        assert_eq!(paths.take::<5>(), [2, 3, 0, 2, 3]);
        assert_eq!(paths.take::<4>(), [0, 1, 2, 3]);
        for value in 0..4 {
            paths.marked(value);
        }
        assert_eq!(paths.take::<1>(), [0], "all are skipped");
    }

    #[test]
    fn spares_replace_retired_values_and_the_rest_stays_active() {
        let mut paths = Paths::new(1);
        assert_eq!(paths.lost(1), (true, true));
        assert_eq!(paths.take::<4>(), [0, 4, 2, 3]);
        assert_eq!(paths.lost(1), (false, false), "late losses have no effect");
        assert_eq!((paths.lost(0), paths.lost(4)), ((true, true), (true, true)));
        assert_eq!(paths.take::<4>(), [2, 3, 2, 3]);
        // Two values must stay active, so 2 is only skipped.
        assert_eq!(paths.lost(2), (false, false));
        assert_eq!(paths.take::<3>(), [3, 2, 3]);
    }

    #[test]
    fn restored_values_take_empty_slots_or_become_spares() {
        let mut paths = Paths::new(1);
        assert!(!paths.0.restore(1, false), "1 is active");
        for value in [0, 1] {
            paths.lost(value);
        }
        assert!(paths.0.restore(0, true), "slot 1 is empty");
        assert_eq!(paths.take::<4>(), [4, 2, 3, 4], "0 was marked");
        assert_eq!(paths.take::<3>(), [0, 2, 3]);
        assert!(paths.0.restore(1, false));
        assert_eq!(paths.0.spares, [1]);
    }

    #[test]
    fn a_value_has_one_probe_at_a_time() {
        let mut paths = Paths::new(0);
        assert_eq!(paths.lost(1), (true, true));
        assert!(paths.0.restore(1, false));
        assert_eq!(paths.lost(1), (true, false), "the probe of the first retirement is still due");
        assert!(paths.0.confirm_probe(1));
        assert!(paths.0.restore(1, false));
        assert!(!paths.0.confirm_probe(1));
        assert_eq!(paths.lost(1), (true, true));
        paths.0.suspend(1);
        assert_eq!(
            (paths.0.take_suspended().collect::<Vec<_>>(), paths.0.take_suspended().count()),
            (vec![1], 0)
        );
    }
}
