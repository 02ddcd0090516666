//! What a relative state ([`silvan_engine::repeats`]) of jobs does not contain: the times of collective operations and the rows
//! of messages.

use silvan_engine::Time;
use silvan_trace::execute::CallsAt;

use super::Jobs;
use super::log::LogAt;

/// The progress of all jobs at a time.
#[derive(Debug)]
pub(crate) struct JobsAt(Vec<(CallsAt, LogAt)>);

/// The progress of collective operations after a number of periods.
pub(crate) struct PlannedJobs(Vec<CallsAt>);

impl Jobs {
    /// Has the run stop whenever a rank of the first job begins to repeat a part of its program. Returns whether a program
    /// repeats a part.
    pub fn watch_repetitions(&mut self) -> bool {
        self.list.first_mut().is_some_and(super::running::Running::watch_repetitions)
    }

    /// If the run has stopped because a repetition begins, the number of operations that are repeated; otherwise zero.
    pub fn take_boundary(&mut self) -> u32 {
        self.list.first_mut().map_or(0, |job| std::mem::take(&mut job.boundary))
    }

    pub fn progress(&self) -> JobsAt {
        JobsAt(self.list.iter().map(|job| (job.ranks.calls_now(), job.log.at())).collect())
    }

    /// The number of times that all ranks can repeat what they did since `earlier`, at which their state was equal.
    pub fn most_repetitions(&self, earlier: &JobsAt) -> u64 {
        let jobs = self.list.iter().zip(&earlier.0);
        let of_each = jobs.map(|(job, (calls, log))| {
            // A job that has finished, or has not started, does nothing.
            let is_idle = job.ranks.is_idle_since(calls);
            if is_idle {
                u64::MAX
            } else {
                u64::from(job.log.can_repeat(*log)) * job.ranks.most_repetitions(calls)
            }
        });
        let most = of_each.min().unwrap_or(0);
        if most == u64::MAX { 0 } else { most }
    }

    /// See [`silvan_trace::execute::Ranks::plan_calls`].
    pub fn plan(&self, earlier: &JobsAt, period: Time, periods: u64) -> Option<PlannedJobs> {
        let jobs = self.list.iter().zip(&earlier.0);
        jobs.map(|(job, (calls, _))| job.ranks.plan_calls(calls, period, periods))
            .collect::<Option<_>>()
            .map(PlannedJobs)
    }

    /// Adds what a number of periods adds to results, after the relative state has been restored.
    pub fn repeat(&mut self, earlier: &JobsAt, planned: PlannedJobs, period: Time, periods: u64) {
        for ((job, (_, log)), calls) in self.list.iter_mut().zip(&earlier.0).zip(planned.0) {
            job.log.repeat(*log, period, periods);
            job.ranks.set_calls(calls);
            job.pass_boundaries();
        }
    }
}
