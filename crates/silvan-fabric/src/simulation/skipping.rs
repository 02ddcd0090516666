//! Exact skipping: a run whose jobs repeat what they did is not simulated again.
//!
//! The run stops whenever the program of a rank begins to repeat a part (a *boundary*: a round, a collective operation, an
//! iteration), and compares its relative state ([`silvan_engine::repeats`]) with those at earlier boundaries of the same sampling
//! interval. If it equals one of them byte by
//! byte, the run would do the same again, later by the time between the two boundaries (the *period*), until something from
//! outside happens: the next sample, or programs that are not equal any more. The run then continues after as many periods as
//! precede that. All results are those of a run without skipping.
//!
//! What would act from outside in between prevents skipping from the start ([`obstacle`]). Random numbers need no rule: a
//! stream that has drawn a number has another state.

use std::collections::BTreeMap;

use silvan_engine::Time;
use silvan_engine::repeats::{Snapshot, restore};

use super::{ModelError, Simulation};
use crate::config::{Config, FlowControl};
use crate::jobs::{Jobs, JobsAt, PlannedJobs};
use crate::outcome::{SkippedInterval, SkippingSummary};

/// Maximum number of boundaries that are kept at which the same number of operations begins to be repeated.
const KEPT: usize = 8;

/// For each part of the program that is repeated, states are taken whose size in bytes is at most this number per event, so
/// that taking and comparing them takes less time than the events, and additional [`FREE`] states.
const BYTES_PER_EVENT: u64 = 30;

/// See [`BYTES_PER_EVENT`].
const FREE: u64 = 16;

/// Maximum memory in bytes of the states of these boundaries.
const MOST_MEMORY: usize = 1 << 30;

/// A boundary, with what is needed to compare another one with it.
struct Boundary {
    state: Snapshot,
    jobs: JobsAt,
    events: u64,
    /// The number of operations of the part of its program that the watched rank begins to repeat.
    operations: u32,
}

/// The fields whose values differ between two boundaries, and whether the comparison ended early.
pub type Differences = Vec<(&'static str, bool)>;

/// The boundaries of the current sampling interval.
#[derive(Default)]
pub(super) struct Skipping {
    kept: Vec<Boundary>,
    /// For each number of operations that the watched rank begins to repeat, the size of the states at such boundaries.
    taken: BTreeMap<u32, u64>,
    /// For each boundary, the fields that differ from those of the earlier boundary that differs least, if they are recorded; see
    /// [`Simulation::explain_boundaries`].
    explained: Option<Vec<Differences>>,
    /// Makes all hashes equal, for tests.
    has_equal_hashes: bool,
}

impl Skipping {
    /// Whether the state at a boundary at which `operations` operations begin to be repeated can be taken after a number of
    /// events.
    fn can_compare(&self, operations: u32, events: u64) -> bool {
        let size = self.kept.last().map_or(0, |last| last.state.size() as u64);
        let taken = self.taken.get(&operations).copied().unwrap_or(0);
        self.explained.is_some()
            || taken <= events.saturating_mul(BYTES_PER_EVENT).saturating_add(FREE * size)
    }
}

/// Why a run can skip nothing, as a clause that follows "because".
fn obstacle(config: &Config, jobs: Option<&Jobs>) -> Option<&'static str> {
    let has_clock =
        matches!(&config.flow_control, FlowControl::Credits(credits) if credits.return_spacing.is_some());
    if jobs.is_none() {
        Some("there is no job")
    } else if jobs.is_some_and(Jobs::choose_ports_by_number) {
        Some("the number of a message selects the port of its first packet (ports.use)")
    } else if !config.flows.is_empty() || !config.traffic.is_empty() {
        Some("there is traffic other than jobs")
    } else if !config.events.is_empty() {
        Some("links or hosts change during the run")
    } else if has_clock {
        Some("credits return at the ticks of a clock")
    } else if config.records {
        Some("the run is recorded")
    } else if config.measure.transfers == Some(true) {
        Some("transfers are recorded")
    } else if config.measure.congestion_log {
        Some("congestion logs are recorded")
    } else {
        None
    }
}

impl Simulation {
    /// Prepares for skipping, if the configuration asks for it.
    pub(super) fn expect_repetitions(&mut self) {
        if !self.config.skip {
            return;
        }
        let partition = &mut self.network.partitions[0];
        partition.ctx.packets.keep_order();
        if let Some(frames) = partition.ctx.links.frames_mut() {
            frames.keep_order();
        }
        let jobs = partition.jobs.as_mut();
        let mut found = obstacle(&self.config, jobs.as_deref());
        if found.is_none() && !jobs.is_some_and(Jobs::watch_repetitions) {
            found = Some("the program of no rank of the first job was found to repeat a part twice");
        }
        let obstacle = found.map(str::to_owned);
        self.skipping = Some(SkippingSummary { obstacle, ..SkippingSummary::default() });
    }

    /// Records for each boundary which fields differ from those at the earlier one that differs least. Nothing is then skipped.
    /// [`Config::skip`] must be set.
    pub fn explain_boundaries(&mut self) {
        self.boundaries.explained = Some(Vec::new());
        if let Some(jobs) = &mut self.network.partitions[0].jobs {
            jobs.watch_repetitions();
        }
    }

    /// The recorded differences, if [`Self::explain_boundaries`] was called. A boundary without differences repeats an
    /// earlier one.
    #[must_use]
    pub fn explained_boundaries(&self) -> Option<&[Differences]> {
        self.boundaries.explained.as_deref()
    }

    /// What was skipped so far; `None` without skipping.
    #[must_use]
    pub fn skipped(&self) -> Option<&SkippingSummary> {
        self.skipping.as_ref()
    }

    /// Makes the hashes of all states equal, for tests of the comparison of bytes.
    pub fn collide_hashes(&mut self) {
        self.boundaries.has_equal_hashes = true;
    }

    /// Forgets the boundaries before a sample.
    pub(super) fn forget_boundaries(&mut self) {
        if self.boundaries.explained.is_none() {
            self.boundaries.kept.clear();
        }
        if let Some(jobs) = &mut self.network.partitions[0].jobs {
            jobs.take_boundary();
        }
    }

    /// If the run has stopped at a boundary, compares its state with those at earlier ones, and skips repeated work before
    /// the next sample.
    pub(super) fn look_for_repetition(&mut self) -> Result<(), ModelError> {
        let operations = self.network.partitions[0].jobs.as_mut().map_or(0, Jobs::take_boundary);
        if operations == 0 || self.skipping.is_none() {
            return Ok(());
        }
        if !self.boundaries.can_compare(operations, self.events) {
            return Ok(());
        }
        let partition = &self.network.partitions[0];
        let Some(jobs) = &partition.jobs else { return Ok(()) };
        let state = Snapshot::of(partition, self.now.0);
        let boundary = Boundary { state, jobs: jobs.progress(), events: self.events, operations };
        *self.boundaries.taken.entry(operations).or_default() += boundary.state.size() as u64;
        let has_equal_hashes = self.boundaries.has_equal_hashes;
        let is_alike = |other: &&Boundary| has_equal_hashes || other.state.hash() == boundary.state.hash();
        let mut kept = std::mem::take(&mut self.boundaries.kept);
        let equal = kept.iter().rev().filter(is_alike).filter(|other| other.state.equals(&boundary.state));
        let equal: Vec<&Boundary> = equal.collect();
        let summary = self.skipping.get_or_insert_default();
        summary.boundaries += 1;
        summary.equal += u64::from(!equal.is_empty());
        if let Some(explained) = &mut self.boundaries.explained {
            let all = kept.iter().map(|other| other.state.differences(&boundary.state));
            let least = all.min_by_key(|found| (found.iter().any(|one| one.ends), found.len()));
            let found = least.unwrap_or_default().into_iter().map(|one| (one.label, one.ends));
            explained.push(found.collect());
        } else if let Some((earlier, skipped)) = equal
            .into_iter()
            .filter_map(|earlier| Some((earlier, self.skip(earlier, &boundary)?)))
            .max_by_key(|(_, skipped)| skipped.end)
        {
            let Skipped { end, events, bytes, planned, interval } = skipped;
            let periods = interval.periods;
            let period = Time(boundary.state.now() - earlier.state.now());
            let partition = &mut self.network.partitions[0];
            let restored = restore(partition, &bytes);
            restored.map_err(|error| ModelError::Broken {
                now: self.now,
                what: format!("repeated work cannot be skipped: {error}"),
            })?;
            if let Some(jobs) = &mut partition.jobs {
                jobs.repeat(&earlier.jobs, planned, period, periods);
            }
            (self.now, self.events) = (end, events);
            let summary = self.skipping.get_or_insert_default();
            summary.skipped_periods += periods;
            summary.skipped_ns += interval.to_ns - interval.from_ns;
            summary.intervals.push(interval);
            // Longer parts may repeat, too, with what was skipped in them.
            kept.retain(|one| one.operations > operations);
            self.boundaries.kept = kept;
            return Ok(());
        }
        kept.push(boundary);
        if kept.iter().filter(|one| one.operations == operations).count() > KEPT {
            let oldest = kept.iter().position(|one| one.operations == operations);
            oldest.map(|at| kept.remove(at));
        }
        while kept.iter().map(|one| one.state.size()).sum::<usize>() > MOST_MEMORY {
            kept.remove(0);
        }
        self.boundaries.kept = kept;
        Ok(())
    }

    /// Plans what to skip after a boundary whose state equals that of an earlier one; `None` if nothing can be skipped.
    fn skip(&self, earlier: &Boundary, boundary: &Boundary) -> Option<Skipped> {
        let jobs = self.network.partitions[0].jobs.as_ref()?;
        let period = boundary.state.now() - earlier.state.now();
        // Nothing that the skipped periods determine in advance may reach the next sample.
        let room = self.next_stop().0.checked_sub(boundary.state.horizon())?.checked_sub(1)?;
        let periods = room.checked_div(period)?.min(jobs.most_repetitions(&earlier.jobs));
        if periods == 0 {
            return None;
        }
        let planned = jobs.plan(&earlier.jobs, Time(period), periods)?;
        let bytes = earlier.state.continued(&boundary.state, periods)?;
        let end = Time(boundary.state.now().checked_add(period.checked_mul(periods)?)?);
        let events = (boundary.events - earlier.events).checked_mul(periods)?.checked_add(boundary.events)?;
        let ns = |ps: u64| ps as f64 / 1e3;
        let interval = SkippedInterval {
            from_ns: ns(boundary.state.now()),
            to_ns: ns(end.0),
            repeats_from_ns: ns(earlier.state.now()),
            periods,
            state: format!("{:016x}", boundary.state.hash()),
        };
        Some(Skipped { end, events, bytes, planned, interval })
    }
}

/// A state after skipped periods.
struct Skipped {
    end: Time,
    events: u64,
    bytes: Vec<u8>,
    planned: PlannedJobs,
    interval: SkippedInterval,
}
