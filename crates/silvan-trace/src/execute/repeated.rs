//! The state of ranks relative to their positions in their programs, and the repetition of a part of the programs.
//!
//! The position of a rank is the number of its first operation that has not finished. In a relative state, the numbers of
//! operations count from there. Two equal states have the same future for as long as the programs after the two positions are
//! equal, which [`Ranks::most_repetitions`] determines. The times of collective operations are not part of the state:
//! [`CallsAt`] keeps them.

use std::collections::HashMap;
use std::ops::Deref;

use silvan_engine::Time;
use silvan_engine::saved::{Change, Damaged, Reader, Saved, Writer};

use super::ranks::Ranks;
use crate::trace::{Trace, When};

/// The programs of larger ranks are not examined for repetition, because that takes 50 bytes per operation.
const MOST_WATCHED: usize = 1 << 22;

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

    /// The position of a rank, if it is at least `from`.
    #[must_use]
    pub fn position(&self, rank: u32, from: u32) -> u32 {
        self.waits.window(rank).unfinished(from)
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
        let of_each = (0..).zip(&earlier.positions).filter_map(|(rank, before)| {
            let (now, touched) = self.window(rank);
            let period = now - before;
            (period > 0).then(|| {
                let all = self.trace.of_rank(rank).len() as u32;
                let end = (now..all).find(|at| !self.is_alike(rank, *at, period)).unwrap_or(all);
                u64::from(end.saturating_sub(touched) / period)
            })
        });
        of_each.min().unwrap_or(0)
    }

    /// Whether the positions of all ranks are those at `earlier`.
    #[must_use]
    pub fn is_idle_since(&self, earlier: &CallsAt) -> bool {
        (0..).zip(&earlier.positions).all(|(rank, before)| self.window(rank).0 == *before)
    }

    /// Whether an operation of a rank equals the one that is `period` operations earlier, with its dependencies and its place
    /// in a collective operation.
    fn is_alike(&self, rank: u32, index: u32, period: u32) -> bool {
        let trace = &*self.trace;
        let (at, before) =
            (trace.first(rank) + index as usize, trace.first(rank) + (index - period) as usize);
        let same_edges = |when: When| {
            let (own, earlier) = (trace.successors(at, when), trace.successors(before, when));
            own.len() == earlier.len()
                && own.iter().zip(earlier.iter()).all(|(own, earlier)| *own == earlier + period)
        };
        let same_marks = || match (trace.mark_of(at), trace.mark_of(before)) {
            (None, None) => true,
            (Some(own), Some(earlier)) => {
                let (own, earlier) = (&trace.marks()[own], &trace.marks()[earlier]);
                let period = period as usize;
                own.first == earlier.first + period
                    && own.end == earlier.end + period
                    && (own.kind, own.comm) == (earlier.kind, earlier.comm)
            }
            _ => false,
        };
        trace.operation(at) == trace.operation(before)
            && trace.waits(at) == trace.waits(before)
            && same_edges(When::Finish)
            && same_edges(When::Start)
            && same_marks()
    }

    /// For each communicator, how much the numbers of its operations grow in a period; `None` if its ranks differ in this.
    fn growth(&self, earlier: &CallsAt) -> Option<HashMap<u32, u32>> {
        let mut growth = HashMap::new();
        for (rank, before) in (0..).zip(&earlier.positions) {
            let (now, first) = (self.window(rank).0, self.trace.first(rank));
            if now == *before {
                continue;
            }
            for at in *before..now {
                let marks = [at, at + (now - before)].map(|at| {
                    let at = first + at as usize;
                    (at < self.trace.of_rank(rank).end).then(|| self.trace.mark_of(at)).flatten()
                });
                let [Some(one), Some(next)] = marks else { continue };
                let (one, next) = (&self.trace.marks()[one], &self.trace.marks()[next]);
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

    /// The number of operations after which the program of a rank repeats itself up to its end, apart from dependencies;
    /// `None` if it does not, or if it is too long to be examined.
    #[must_use]
    pub fn period(&self, rank: u32) -> Option<u32> {
        if self.trace.of_rank(rank).len() > MOST_WATCHED {
            return None;
        }
        // The longest proper suffix that is also a prefix (Knuth, Morris and Pratt). Operations of collective operations are
        // equal if they have the same place in them.
        let place = |at: usize| self.trace.mark_of(at).map(|mark| at - self.trace.marks()[mark].first);
        let of_rank = self.trace.of_rank(rank);
        let operations: Vec<_> = of_rank.map(|at| (self.trace.operation(at), place(at))).collect();
        let mut border = vec![0; operations.len()];
        for at in 1..operations.len() {
            let mut length: usize = border[at - 1];
            while length > 0 && operations[at] != operations[length] {
                length = border[length - 1];
            }
            border[at] = length + usize::from(operations[at] == operations[length]);
        }
        let period = operations.len() - border.last()?;
        (2 * period <= operations.len()).then_some(period as u32)
    }
}
