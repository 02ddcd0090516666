//! The state of ranks relative to their positions in their programs, and the repetition of a part of the programs.
//!
//! The position of a rank is the number of its first operation that has not finished. In a relative state, the numbers of
//! operations count from there. Two equal states have the same future for as long as the programs after the two positions are
//! equal, which [`Ranks::most_repetitions`] determines. The times of collective operations are not part of the state:
//! [`CallsAt`] keeps them.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;

use silvan_engine::Time;
use silvan_engine::saved::{Change, Damaged, Reader, Saved, Writer};

use super::ranks::Ranks;
use crate::trace::{Mark, Trace, When};

/// The programs of larger ranks are not examined for repetition, because that may take 150 bytes per operation.
const MOST_WATCHED: usize = 1 << 21;

/// The average number of times that an operation of a program is compared with earlier ones.
const MOST_COMPARED: u64 = 64;

fn put_length(length: usize, to: &mut Writer<'_>) {
    to.put_state(&(length as u64).to_le_bytes());
}

/// Saves numbers that are equal in equal states.
fn put_states<'v>(values: impl ExactSizeIterator<Item = &'v u32>, to: &mut Writer<'_>) {
    put_length(values.len(), to);
    values.for_each(|value| to.put_state(&value.to_le_bytes()));
}

/// The positions of the ranks and the progress of collective operations at a time.
#[derive(Debug)]
pub struct CallsAt {
    positions: Vec<u32>,
    /// Start, end and number of unfinished operations of each call.
    calls: Vec<(Option<Time>, Option<Time>, u64)>,
}

impl<T: Deref<Target = Trace>> Ranks<T> {
    /// Saves the state relative to the positions of the ranks.
    pub(super) fn save_relative(&self, to: &mut Writer<'_>) {
        let count = self.trace.ranks();
        let first = to.series(count);
        to.number_operations(first);
        self.agenda.save(to);
        to.label("Ranks.waits");
        for rank in 0..count {
            let window = self.waits.window(rank);
            to.put_operation(window.origin(), rank);
            put_states(window.values(), to);
        }
        to.label("Ranks.ranks");
        self.ranks.save(to);
        self.matching.save(to);
        to.label("Ranks.receives");
        let mut receives: Vec<(usize, u32)> =
            self.receives.iter().map(|(at, receive)| (*at, *receive)).collect();
        receives.sort_unstable();
        put_length(receives.len(), to);
        for (at, receive) in receives {
            to.put_serial(at as u64, first + self.trace.rank_of(at));
            to.put_operation(receive, self.trace.operation(at).peer);
        }
        to.label("Execution");
        let outcome = &self.outcome;
        let outer = to.begin(Change::Latest);
        outcome.finished.save(to);
        outcome.span.save(to);
        to.end(outer);
        let outer = to.begin(Change::Count);
        outcome.computing.save(to);
        outcome.busy.save(to);
        outcome.messages.save(to);
        outcome.unfinished.save(to);
        outcome.truncated.0.save(to);
        to.end(outer);
        outcome.truncated.1.save(to);
    }

    /// Restores what [`Self::save_relative`] saved.
    pub(super) fn restore_relative(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        self.agenda.restore(from)?;
        for rank in 0..self.trace.ranks() {
            let (origin, values) = (u32::load(from)?, Vec::<u32>::load(from)?);
            let operations = self.trace.of_rank(rank).len();
            if (origin as usize).checked_add(values.len()).is_none_or(|end| end > operations) {
                return Err(Damaged::Wrong(format!("rank {rank} has operations after the last one")));
            }
            self.waits.restore(rank, origin, values);
        }
        self.ranks.restore(from)?;
        self.matching.restore(from)?;
        self.receives = Vec::<(usize, u32)>::load(from)?.into_iter().collect();
        let outcome = &mut self.outcome;
        outcome.finished.restore(from)?;
        outcome.span.restore(from)?;
        outcome.computing.restore(from)?;
        outcome.busy.restore(from)?;
        outcome.messages.restore(from)?;
        outcome.unfinished.restore(from)?;
        outcome.truncated.0.restore(from)?;
        outcome.truncated.1.restore(from)
    }

    /// The position of a rank, and the end of the operations that have started or for which an earlier operation has finished.
    fn window(&self, rank: u32) -> (u32, u32) {
        let window = self.waits.window(rank);
        (window.origin(), window.end())
    }

    /// The position of a rank.
    #[must_use]
    pub fn position(&self, rank: u32) -> u32 {
        self.waits.window(rank).origin()
    }

    /// The positions of the ranks and the progress of collective operations.
    #[must_use]
    pub fn calls_now(&self) -> CallsAt {
        let positions = (0..self.trace.ranks()).map(|rank| self.window(rank).0).collect();
        let calls = self.outcome.calls.iter().zip(&self.open);
        CallsAt { positions, calls: calls.map(|(call, open)| (call.start, call.end, *open)).collect() }
    }

    /// The number of times that the ranks can repeat what they did since `earlier`, for programs that are equal so far, if their
    /// state equals that at `earlier`.
    #[must_use]
    pub fn most_repetitions(&self, earlier: &CallsAt) -> u64 {
        let Some(growth) = self.growth(earlier) else { return 0 };
        let of_each = (0..).zip(&earlier.positions).filter_map(|(rank, before)| {
            let (now, touched) = self.window(rank);
            let period = now - before;
            (period > 0).then(|| {
                let all = self.trace.of_rank(rank).len() as u32;
                let first = self.trace.first(rank);
                let is_alike = |at: &u32| {
                    let (at, before) = (first + *at as usize, first + (*at - period) as usize);
                    self.is_alike(at, before)
                        && self.marks_of(before, at).is_none_or(|[one, next]| {
                            growth.get(&one.comm) == next.number.checked_sub(one.number).as_ref()
                        })
                };
                let end = (now..all).find(|at| !is_alike(at)).unwrap_or(all);
                u64::from(end.saturating_sub(touched) / period)
            })
        });
        // A collective operation that each repetition continues must not end in one of them.
        let calls = earlier.calls.iter().zip(self.outcome.calls.iter().zip(&self.open));
        let of_calls = calls.filter_map(|((_, _, before), (call, now))| {
            let each = before.checked_sub(*now).filter(|each| *each > 0)?;
            (growth.get(&call.comm) == Some(&0)).then(|| now.saturating_sub(1) / each)
        });
        of_each.chain(of_calls).min().unwrap_or(0)
    }

    /// Whether the positions of all ranks are those at `earlier`.
    #[must_use]
    pub fn is_idle_since(&self, earlier: &CallsAt) -> bool {
        (0..).zip(&earlier.positions).all(|(rank, before)| self.window(rank).0 == *before)
    }

    /// The marks of the collective operations of two operations; `None` unless both have one.
    fn marks_of(&self, before: usize, at: usize) -> Option<[&Mark; 2]> {
        let marks = self.trace.marks();
        Some([&marks[self.trace.mark_of(before)?], &marks[self.trace.mark_of(at)?]])
    }

    /// Whether an operation `at` equals an earlier one of the same rank, with its dependencies and its place: both belong to no
    /// collective operation, to the same one, or to the same place of two.
    fn is_alike(&self, at: usize, before: usize) -> bool {
        let trace = &*self.trace;
        let period = at - before;
        let same_edges = |when: When| {
            let (own, earlier) = (trace.successors(at, when), trace.successors(before, when));
            own.len() == earlier.len()
                && own
                    .iter()
                    .zip(earlier.iter())
                    .all(|(own, earlier)| *own as usize == *earlier as usize + period)
        };
        let same_marks = || match (trace.mark_of(before), trace.mark_of(at)) {
            (None, None) => true,
            (Some(before), Some(at)) => {
                let (earlier, own) = (&trace.marks()[before], &trace.marks()[at]);
                let is_shifted = own.first == earlier.first + period && own.end == earlier.end + period;
                before == at || is_shifted && (own.kind, own.comm) == (earlier.kind, earlier.comm)
            }
            _ => false,
        };
        trace.operation(at) == trace.operation(before)
            && trace.waits(at) == trace.waits(before)
            && same_edges(When::Finish)
            && same_edges(When::Start)
            && same_marks()
    }

    /// For each communicator, how much the numbers of its operations grow in a period; zero if each period continues the same
    /// operation. `None` if its ranks differ in this.
    fn growth(&self, earlier: &CallsAt) -> Option<HashMap<u32, u32>> {
        let mut growth = HashMap::new();
        for (rank, before) in (0..).zip(&earlier.positions) {
            let (now, first) = (self.window(rank).0, self.trace.first(rank));
            if now == *before {
                continue;
            }
            let period = (now - before) as usize;
            for at in first + *before as usize..first + now as usize {
                if at + period >= self.trace.of_rank(rank).end {
                    break;
                }
                let Some([one, next]) = self.marks_of(at, at + period) else { continue };
                let by = next.number.checked_sub(one.number).filter(|_| next.comm == one.comm)?;
                if *growth.entry(one.comm).or_insert(by) != by {
                    return None;
                }
            }
        }
        Some(growth)
    }

    /// Plans the progress of collective operations after `periods` periods more. Its state now equals that at `earlier`, `period`
    /// before. `None` if the operations of the two times do not correspond.
    #[must_use]
    pub fn plan_calls(&self, earlier: &CallsAt, period: Time, periods: u64) -> Option<CallsAt> {
        let growth = self.growth(earlier)?;
        let known: HashMap<(u32, u32), usize> =
            self.outcome.calls.iter().enumerate().map(|(at, call)| ((call.comm, call.number), at)).collect();
        let shifted = |at: usize, times: u64| {
            let call = &self.outcome.calls[at];
            let by = u64::from(*growth.get(&call.comm)?).checked_mul(times)?;
            let number = u32::try_from(u64::from(call.number).checked_add(by)?).ok()?;
            known.get(&(call.comm, number)).copied()
        };
        let later = |time: Option<Time>, times: u64| time.map(|time| time + Time(period.0 * times));
        let now = self.calls_now();
        let mut planned = now.calls.clone();
        let (mut open_before, mut open_now) = (0, 0);
        for (at, (before, after)) in earlier.calls.iter().zip(&now.calls).enumerate() {
            if growth.get(&self.outcome.calls[at].comm).is_none_or(|by| *by == 0) {
                let each = before.2.checked_sub(after.2)?;
                let is_in_progress = before.0.is_some() && after.2 > 0;
                if (before.0, before.1) != (after.0, after.1) || each > 0 && !is_in_progress {
                    return None;
                }
                let left = after.2.checked_sub(each.checked_mul(periods)?)?;
                if each > 0 && left == 0 {
                    return None;
                }
                planned[at].2 = left;
                continue;
            }
            if before.0.is_some() && before.2 > 0 {
                open_before += 1;
                let next = now.calls[shifted(at, 1)?];
                if (later(before.0, 1), later(before.1, 1), before.2) != next {
                    return None;
                }
            }
            if before.2 > 0 && after.2 == 0 {
                for times in 1..=periods {
                    planned[shifted(at, times)?] = (later(after.0, times), later(after.1, times), 0);
                }
            }
            open_now += u64::from(after.0.is_some() && after.2 > 0);
        }
        if open_before != open_now {
            return None;
        }
        for (at, after) in now.calls.iter().enumerate().filter(|(_, after)| after.0.is_some() && after.2 > 0)
        {
            if growth.get(&self.outcome.calls[at].comm).is_none_or(|by| *by == 0) {
                continue;
            }
            planned[shifted(at, periods)?] = (later(after.0, periods), later(after.1, periods), after.2);
        }
        Some(CallsAt { positions: now.positions, calls: planned })
    }

    /// Sets the planned progress of collective operations.
    pub fn set_calls(&mut self, planned: CallsAt) {
        for ((call, open), planned) in self.outcome.calls.iter_mut().zip(&mut self.open).zip(planned.calls) {
            (call.start, call.end, *open) = planned;
        }
    }

    /// A hash of an operation with its dependencies. It is equal for operations that are alike.
    fn shape(&self, at: usize) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.trace.operation(at).hash(&mut hasher);
        self.trace.waits(at).hash(&mut hasher);
        let index = (at - self.trace.first(self.trace.rank_of(at))) as u32;
        for when in [When::Finish, When::Start] {
            let successors = self.trace.successors(at, when);
            successors.len().hash(&mut hasher);
            successors.iter().for_each(|successor| successor.wrapping_sub(index).hash(&mut hasher));
        }
        hasher.finish()
    }

    /// The positions of a rank at which a part of its program begins to repeat itself, with the number of operations of the part
    /// (the longest one, if several do). A part is repeated at least twice in a row. Empty if the program is too long to be
    /// examined.
    #[must_use]
    pub fn repetitions(&self, rank: u32) -> Vec<(u32, u32)> {
        let of_rank = self.trace.of_rank(rank);
        let (first, all) = (of_rank.start, of_rank.len() as u32);
        if all as usize > MOST_WATCHED {
            return Vec::new();
        }
        let mut left = MOST_COMPARED * u64::from(all);
        let mut recent = Recent::default();
        // The ends of the parts that were examined for each period.
        let mut examined: HashMap<u32, u32> = HashMap::new();
        let mut found: BTreeMap<u32, u32> = BTreeMap::new();
        for index in 0..all {
            let at = first + index as usize;
            let place = self.trace.mark_of(at).map(|mark| at - self.trace.marks()[mark].first);
            for period in recent.distances(self.shape(at), place) {
                if left == 0 || examined.get(&period).is_some_and(|end| index < *end) {
                    continue;
                }
                let differs = |index: &u32| {
                    left = left.saturating_sub(1);
                    let at = first + *index as usize;
                    left == 0 || !self.is_alike(at, at - period as usize)
                };
                let end = (index..all).find(differs).unwrap_or(all);
                examined.insert(period, end.max(index + 1));
                if end - index >= 2 * period {
                    for begin in (index - period..=end - period).step_by(period as usize) {
                        let longest = found.entry(begin).or_default();
                        *longest = period.max(*longest);
                    }
                }
            }
        }
        found.into_iter().collect()
    }
}

/// Numbers of successive operations whose last occurrence is searched for. Short sequences recur in rounds, and long ones in
/// iterations.
const LENGTHS: [u32; 5] = [1, 8, 64, 512, 4096];

/// The last occurrences of sequences of operations in a program.
#[derive(Default)]
struct Recent {
    /// For each number of operations, a polynomial hash of them.
    sums: Vec<u64>,
    /// The operations in any place, by their hash.
    anywhere: HashMap<u64, u32>,
    /// For each of [`LENGTHS`], the ends of sequences by their hash, which counts the places in collective operations.
    ends: [HashMap<u64, u32>; LENGTHS.len()],
}

impl Recent {
    /// Adds an operation by its hash. It may have a place in a collective operation. Returns the distances to earlier ends of the
    /// same sequences. Different sequences may have the same hash, so the distances are only likely periods.
    fn distances(&mut self, operation: u64, place: Option<usize>) -> Vec<u32> {
        const BASE: u64 = 0x9e37_79b9_7f4a_7c15;
        let index = self.sums.len() as u32;
        let mut hasher = DefaultHasher::new();
        (operation, place).hash(&mut hasher);
        let before = self.sums.last().copied().unwrap_or(0);
        self.sums.push(before.wrapping_mul(BASE).wrapping_add(hasher.finish()));
        let mut earlier: Vec<u32> = self.anywhere.insert(operation, index).into_iter().collect();
        for (length, ends) in
            LENGTHS.into_iter().zip(&mut self.ends).filter(|(length, _)| *length <= index + 1)
        {
            let sum = |end: u32| end.checked_sub(1).map_or(0, |last| self.sums[last as usize]);
            let shift = BASE.wrapping_pow(length);
            let hash = sum(index + 1).wrapping_sub(sum(index + 1 - length).wrapping_mul(shift));
            earlier.extend(ends.insert(hash, index));
        }
        let mut distances: Vec<u32> = earlier.into_iter().map(|earlier| index - earlier).collect();
        distances.sort_unstable();
        distances.dedup();
        distances
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::Parameters;
    use super::*;
    use crate::collective::{Choice, Collective};
    use crate::generate::{Moe, Repeated, Transformer};

    /// The periods that a rank of a trace repeats, each with the number of times that one begins.
    fn periods(trace: &Trace) -> BTreeMap<u32, usize> {
        let ranks = Ranks::new(trace, &Parameters::default(), Time::ZERO);
        let mut found = BTreeMap::new();
        ranks.repetitions(0).into_iter().for_each(|(_, period)| *found.entry(period).or_default() += 1);
        found
    }

    /// The ring of four ranks has six rounds of a send and a receive. The first round has no dependencies, and the last one
    /// has other successors.
    #[test]
    fn rounds_and_operations_are_parts() {
        let all_reduces = |iterations, compute_ns| {
            let program = Repeated { ranks: 4, bytes: 4000, iterations, compute_ns, ..Repeated::default() };
            let mut ring = Choice::default();
            ring.set("all-reduce", "ring").unwrap();
            program.trace(&ring, 1 << 20).unwrap()
        };
        let of_one = all_reduces(1, 0);
        assert_eq!(of_one.of_rank(0).len(), 12);
        assert_eq!(periods(&of_one).into_keys().collect::<Vec<_>>(), [2]);
        assert_eq!(periods(&all_reduces(2, 0)).into_keys().collect::<Vec<_>>(), [2], "twice is not enough");
        let of_ten = periods(&all_reduces(10, 5));
        assert_eq!(of_ten.keys().copied().collect::<Vec<_>>(), [2, 13]);
        assert!((8..=10).contains(&of_ten[&13]), "{of_ten:?}");
    }

    /// Two layers with two all-reduces each are equal, and so are two steps.
    #[test]
    fn layers_and_steps_are_parts() {
        let model =
            Transformer { tensor: 2, pipeline: 1, data: 2, layers: 6, steps: 5, ..Transformer::default() };
        let trace = model.trace(&Choice::default(), 1 << 20).unwrap();
        let step = trace.of_rank(0).len() as u32 / 5;
        let found = periods(&trace);
        assert_eq!(found.keys().max(), Some(&step), "{found:?}");
        assert!(found.keys().any(|period| *period < step / 10), "parts of a layer: {found:?}");
    }

    /// The two layers of a step are equal, apart from the dependencies at its ends.
    #[test]
    fn steps_of_equal_layers_are_parts() {
        let model = Moe { ranks: 8, experts: 16, layers: 2, steps: 6, overlap: true, ..Moe::default() };
        let trace = model.trace(&Choice::default(), 1 << 20).unwrap();
        let step = trace.of_rank(0).len() as u32 / 6;
        assert!((4..=6).contains(&periods(&trace)[&step]), "{:?}", periods(&trace));
    }

    /// Each operation of a step has an equal one in the same step, but only the steps repeat.
    #[test]
    fn steps_with_equal_parts_in_changing_order_are_found() {
        let mut build = crate::trace::TraceBuilder::new(2, 1 << 20).unwrap();
        let mut sequence = crate::sequence::Sequence::new(0);
        for _ in 0..10 {
            for nanoseconds in [1, 2, 1, 3, 2, 2, 3, 1, 1, 3, 3, 2] {
                sequence.compute(&mut build, nanoseconds).unwrap();
            }
        }
        let found = periods(&build.finish().unwrap());
        assert_eq!(found.keys().max(), Some(&12), "{found:?}");
    }

    /// Operations that are equal but belong to different places of collective operations are no repetition.
    #[test]
    fn a_part_ends_with_its_collective_operation() {
        let of = |operation| {
            let program = Repeated { operation, ranks: 4, bytes: 4000, iterations: 1, ..Repeated::default() };
            periods(&program.trace(&Choice::default(), 1 << 20).unwrap())
        };
        assert!(of(Collective::Broadcast).is_empty());
        assert!(of(Collective::AllToAll).is_empty(), "each round has another partner");
    }
}
