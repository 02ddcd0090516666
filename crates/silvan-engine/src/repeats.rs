//! Relative states: whether the state of a run repeats an earlier one, and the state after further repetitions.
//!
//! A [`Snapshot`] is a state as [`crate::saved`] writes it, with notes about each value: how it changes if the run repeats what
//! it did. Two states are equal if all their values are, where a [`crate::Time`] is relative to the time of its state. A run
//! whose state is equal to an earlier one continues in the same way, later by the time between the two states (the
//! *period*), if nothing outside the state affects it. [`Snapshot::continued`] computes the state after a number of periods.
//!
//! The rules of [`Change`] come from attributes of the derive macro. Without an attribute, a value must be equal, so that a
//! missing attribute prevents a repetition and never causes a wrong one.

use std::io;

use crate::notes::{Change, Notes, Token};
use crate::saved::{Damaged, Reader, Saved, Writer};

/// A state, with the rules of its values.
#[derive(Debug)]
pub struct Snapshot {
    /// The time of the state in picoseconds.
    now: u64,
    bytes: Vec<u8>,
    tokens: Vec<Token>,
    hash: u64,
}

/// A part of a state that is not equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// The type and the field.
    pub label: &'static str,
    /// Whether the states have different parts after this one, so that they were not compared further.
    pub ends: bool,
}

/// A number of up to 16 bytes; the first ones of a longer value.
fn number(bytes: &[u8]) -> u128 {
    let mut all = [0; 16];
    let known = bytes.len().min(16);
    all[..known].copy_from_slice(&bytes[..known]);
    u128::from_le_bytes(all)
}

impl Snapshot {
    /// Takes a snapshot of a state at a time in picoseconds.
    #[must_use]
    pub fn of(state: &impl Saved, now: u64) -> Self {
        let (mut bytes, mut notes) = (Vec::new(), Notes::new());
        let mut writer = Writer::relative(&mut bytes, &mut notes);
        state.save(&mut writer);
        // Memory accepts all bytes.
        let _: io::Result<()> = writer.finish();
        let mut snapshot = Self { now, bytes, tokens: notes.tokens, hash: 0 };
        snapshot.hash = snapshot.relative_hash();
        snapshot
    }

    /// The time of the state in picoseconds.
    #[must_use]
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// A hash of the relative state. Equal states have equal hashes.
    #[must_use]
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// The bytes of memory that the snapshot takes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len() + self.tokens.len() * size_of::<Token>()
    }

    fn values(&self) -> impl Iterator<Item = (&Token, &[u8])> {
        self.tokens.iter().scan(0, |at, token| {
            let start = *at;
            *at += token.len as usize;
            Some((token, &self.bytes[start..*at]))
        })
    }

    fn relative_hash(&self) -> u64 {
        const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut hash = 0_u64;
        let mut add = |value: u64| hash = (hash.rotate_left(5) ^ value).wrapping_mul(PRIME);
        for (token, bytes) in self.values() {
            match token.change {
                Change::State | Change::Span => {
                    bytes.chunks(8).for_each(|part| add(number(part) as u64));
                }
                Change::Time => {
                    let time = number(bytes) as u64;
                    add(if time == u64::MAX { time } else { time.wrapping_sub(self.now) });
                }
                Change::Count | Change::Most | Change::Latest | Change::Past => {}
                Change::Serial(_) | Change::Order | Change::Any => {}
            }
        }
        hash
    }

    /// Calls `found` for each value of a later state that is not equal.
    fn compare(&self, later: &Self, mut found: impl FnMut(Difference)) {
        let period = later.now - self.now;
        let mut series: Vec<Option<u64>> = Vec::new();
        let mut orders = Vec::new();
        for ((one, before), (other, after)) in self.values().zip(later.values()) {
            let is_same = |one: &Token, other: &Token| {
                one.change == other.change && one.len == other.len && one.label == other.label
            };
            if !is_same(one, other) {
                return found(Difference { label: other.label, ends: true });
            }
            let (from, to) = (number(before) as u64, number(after) as u64);
            let is_later = || from != u64::MAX && from.checked_add(period) == Some(to);
            let is_equal = match one.change {
                Change::State | Change::Span => before == after,
                Change::Time => is_later() || from == u64::MAX && to == from,
                Change::Count | Change::Most | Change::Any => true,
                Change::Order => {
                    orders.push((one.order, from, to, one.label));
                    true
                }
                Change::Latest => is_later() || from == to,
                Change::Past => {
                    let is_never = from == u64::MAX && to == from;
                    is_later() || is_never || from <= self.now && to <= later.now
                }
                Change::Serial(number) => {
                    let number = number as usize;
                    series.resize(series.len().max(number + 1), None);
                    to >= from
                        && *series[number].get_or_insert(to.wrapping_sub(from)) == to.wrapping_sub(from)
                }
            };
            if !is_equal {
                found(Difference { label: one.label, ends: false });
            }
        }
        orders.sort_unstable();
        for pair in orders.windows(2) {
            let [(group, from, to, label), (next_group, next_from, next_to, _)] = pair else { continue };
            if group == next_group && from.cmp(next_from) != to.cmp(next_to) {
                found(Difference { label, ends: false });
            }
        }
        if self.tokens.len() != later.tokens.len() {
            found(Difference { label: "the end", ends: true });
        }
    }

    /// The values of a later state that are not equal, by field, without repetition. Empty if the states are equal.
    #[must_use]
    pub fn differences(&self, later: &Self) -> Vec<Difference> {
        let mut all = Vec::new();
        self.compare(later, |found| all.push(found));
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether a later state is equal.
    #[must_use]
    pub fn equals(&self, later: &Self) -> bool {
        let mut is_equal = self.tokens.len() == later.tokens.len();
        if is_equal {
            self.compare(later, |_| is_equal = false);
        }
        is_equal
    }

    /// The latest time that the state contains and that may matter, in picoseconds.
    #[must_use]
    pub fn horizon(&self) -> u64 {
        let times = self.values().filter(|(token, _)| matches!(token.change, Change::Time | Change::Past));
        let times = times.map(|(_, bytes)| number(bytes) as u64).filter(|time| *time < u64::MAX);
        times.max().unwrap_or(self.now).max(self.now)
    }

    /// The bytes of the state `periods` periods after a later state, which equals this one. `None` if a number exceeds its
    /// range.
    #[must_use]
    pub fn continued(&self, later: &Self, periods: u64) -> Option<Vec<u8>> {
        let period = later.now - self.now;
        let span = period.checked_mul(periods)?;
        let mut result = Vec::with_capacity(later.bytes.len());
        for ((token, before), (_, after)) in self.values().zip(later.values()) {
            let (from, to) = (number(before), number(after));
            let value = match token.change {
                Change::State | Change::Span | Change::Most | Change::Order | Change::Any => {
                    result.extend_from_slice(after);
                    continue;
                }
                Change::Time | Change::Latest | Change::Past => {
                    let is_later = from != u128::from(u64::MAX) && to.wrapping_sub(from) as u64 == period;
                    to.checked_add(u128::from(is_later) * u128::from(span))?
                }
                Change::Count | Change::Serial(_) if to >= from => {
                    to.checked_add((to - from).checked_mul(periods.into())?)?
                }
                Change::Count | Change::Serial(_) => {
                    to.checked_sub((from - to).checked_mul(periods.into())?)?
                }
            };
            let bytes = value.to_le_bytes();
            if bytes[after.len()..].iter().any(|byte| *byte != 0) {
                return None;
            }
            result.extend_from_slice(&bytes[..after.len()]);
        }
        Some(result)
    }
}

/// Replaces a state with one whose bytes [`Snapshot::continued`] returned.
///
/// # Errors
/// [`Damaged`] if the bytes belong to a state that was built differently.
pub fn restore(state: &mut impl Saved, bytes: &[u8]) -> Result<(), Damaged> {
    let mut reader = Reader::relative(bytes);
    state.restore(&mut reader)?;
    reader.finish()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::random::Stream;
    use crate::{Event, EventQueue, Time};

    #[derive(Debug, Saved)]
    struct Node {
        fill: u32,
        due: Time,
        #[saved(count)]
        sent: u64,
        #[saved(most)]
        longest: Time,
        #[saved(latest)]
        last: Time,
        #[saved(past)]
        free_at: Time,
        #[saved(span)]
        span: Time,
        #[saved(order)]
        turns: Vec<u64>,
    }

    /// A node at 100 ps, and the same node 50 ps later.
    fn nodes() -> [Node; 2] {
        let node = |now: u64, sent, longest, free_at, turns: [u64; 3]| Node {
            fill: 3,
            due: Time(now + 7),
            sent,
            longest: Time(longest),
            last: Time(now - 1),
            free_at: Time(free_at),
            span: Time(9),
            turns: turns.into(),
        };
        [node(100, 10, 4, 20, [4, 9, 9]), node(150, 17, 6, 144, [10, 12, 12])]
    }

    #[test]
    fn a_state_recurs_relative_to_the_time() {
        let [one, mut other] = nodes();
        let (before, after) = (Snapshot::of(&one, 100), Snapshot::of(&other, 150));
        assert!(before.equals(&after), "{:?}", before.differences(&after));
        assert_eq!((before.hash(), after.horizon()), (after.hash(), 157));
        let bytes = before.continued(&after, 3).unwrap();
        restore(&mut other, &bytes).unwrap();
        assert_eq!((other.fill, other.due, other.sent), (3, Time(307), 38));
        assert_eq!((other.longest, other.last, other.free_at), (Time(6), Time(299), Time(144)));
        assert_eq!((other.span, other.turns), (Time(9), vec![10, 12, 12]));
        assert!(before.continued(&after, u64::MAX / 10).is_none(), "out of range");
    }

    #[test]
    fn each_difference_is_found() {
        let [one, _] = nodes();
        let before = Snapshot::of(&one, 100);
        type Change = fn(&mut Node);
        let changes: [(&str, Change); 7] = [
            ("Node.fill", |node| node.fill = 4),
            ("Node.due", |node| node.due = Time(107)),
            ("Node.last", |node| node.last = Time(120)),
            ("Node.free_at", |node| node.free_at = Time(151)),
            ("Node.span", |node| node.span = Time(59)),
            ("Node.turns", |node| node.turns.swap(0, 1)),
            ("Node.turns", |node| node.turns[2] += 1),
        ];
        for (label, change) in changes {
            let [_, mut other] = nodes();
            change(&mut other);
            let after = Snapshot::of(&other, 150);
            assert!(!before.equals(&after), "{label}");
            assert_eq!(before.differences(&after), [Difference { label, ends: false }]);
        }
        let [_, mut other] = nodes();
        other.turns.push(13);
        assert!(!before.equals(&Snapshot::of(&other, 150)), "another length");
    }

    #[test]
    fn a_random_number_ends_equality() {
        let mut stream = Stream::new(1, "test", 2);
        let before = Snapshot::of(&stream, 0);
        assert!(before.equals(&Snapshot::of(&stream, 5)));
        stream.below(7);
        assert!(!before.equals(&Snapshot::of(&stream, 5)));
    }

    #[test]
    fn an_event_queue_recurs_regardless_of_its_wheel() {
        let fill = |queue: &mut EventQueue, from: u64, count: u64| {
            for at in 0..count {
                queue.push(Event { time: Time(from + at * at * 977), key: at as u32, data: 3 });
            }
        };
        let period = 123_456_789;
        let (mut one, mut other) =
            (EventQueue::new(Time(100), Time::ZERO), EventQueue::new(Time(100), Time::ZERO));
        fill(&mut one, 1_000, 500);
        let before = Snapshot::of(&one, 1_000);
        fill(&mut other, 7, 200);
        while other.pop().is_some() {}
        fill(&mut other, 1_000 + period, 500);
        let after = Snapshot::of(&other, 1_000 + period);
        assert!(before.equals(&after), "{:?}", before.differences(&after));
        restore(&mut other, &before.continued(&after, 4).unwrap()).unwrap();
        assert!(other.is_intact());
        while let Some(event) = one.pop() {
            let later = other.pop().unwrap();
            assert_eq!((later.time, later.key), (event.time + Time(5 * period), event.key));
        }
        assert!(other.is_empty());
    }
}
