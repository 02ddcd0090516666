//! Jobs: ranks, messages and collective operations.

use std::mem::take;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_trace::execute::Call;

use super::section::{Ending, Recording, Section, SectionResult};
use crate::jobs::{Closed, JobSummary};
use crate::table::{Described, Layout, RowsOf, counts, hosts, names, numbers, small};

/// Rows of a table, each with the number of its job and its index in the job.
struct OfJobs {
    jobs: Arc<Vec<Closed>>,
    rows: RowsOf<(u32, usize)>,
}

impl OfJobs {
    /// All rows; `count` returns the number of rows of a job.
    fn new(jobs: &Arc<Vec<Closed>>, count: fn(&Closed) -> usize) -> Self {
        let rows = (0..).zip(&**jobs).flat_map(|(number, job)| (0..count(job)).map(move |at| (number, at)));
        Self { jobs: Arc::clone(jobs), rows: rows.collect() }
    }

    fn names(&self) -> Arc<Vec<String>> {
        Arc::new(self.jobs.iter().map(|job| job.name.clone()).collect())
    }

    fn numbers(&self) -> Vec<u32> {
        self.rows.of(|row| row.0)
    }

    fn of<V>(&self, value: fn(&Closed, usize) -> V) -> Vec<V> {
        self.rows.of(|&(job, at)| value(&self.jobs[job as usize], at))
    }
}

/// Converts to nanoseconds; NaN for an event that did not occur.
fn maybe_ns(time: Option<Time>) -> f64 {
    time.map_or(f64::NAN, Time::as_ns_f64)
}

const RANKS: Layout<OfJobs> = Layout {
    name: "ranks",
    rows: "A row per rank of a job.",
    columns: &[
        names("job", "the job", |all, _| all.names(), |all| all.numbers()),
        small("rank", "number", |all| all.of(|_, rank| rank as u32)),
        names("host", "its host", hosts, |all| all.of(|job, rank| job.hosts[rank])),
        numbers("last_finished_ns", "end of its last operation", |all| {
            all.of(|job, rank| job.execution.finished[rank].as_ns_f64())
        }),
        numbers("crossbar_finished_ns", "the same on an ideal crossbar", |all| {
            all.of(|job, rank| job.alone.finished[rank].as_ns_f64())
        }),
        numbers("computing_ns", "time that its CPUs spent computing", |all| {
            all.of(|job, rank| job.execution.computing[rank].as_ns_f64())
        }),
        numbers("busy_ns", "time in which a CPU computed or handled a message", |all| {
            all.of(|job, rank| job.execution.busy[rank].as_ns_f64())
        }),
        // Time after the rank's own last operation is not a delay.
        numbers("waiting_ns", "other time until its last operation", |all| {
            all.of(|job, rank| {
                let span = job.execution.finished[rank].saturating_sub(job.start);
                span.saturating_sub(job.execution.busy[rank]).as_ns_f64()
            })
        }),
        numbers("host_sending_ns", "time in which its host sent", |all| {
            all.of(|job, rank| job.spent[rank].sending.as_ns_f64())
        }),
        numbers("host_blocked_ns", "time in which its host had data to send but no credit", |all| {
            all.of(|job, rank| job.spent[rank].blocked.as_ns_f64())
        }),
        numbers(
            "host_throttled_ns",
            "time in which congestion control held back all data of its host",
            |all| all.of(|job, rank| job.spent[rank].throttled.as_ns_f64()),
        ),
        counts("sent_bytes", "sent", |all| all.of(|job, rank| job.sent_bytes[rank])),
        counts("received_bytes", "received", |all| all.of(|job, rank| job.received_bytes[rank])),
    ],
};

const MESSAGES: Layout<OfJobs> = Layout {
    name: "messages",
    rows: "A row per message of a job over the network.",
    columns: &[
        names("job", "the job", |all, _| all.names(), |all| all.numbers()),
        small("from_rank", "source", |all| all.of(|job, at| job.log[at].from)),
        small("to_rank", "destination", |all| all.of(|job, at| job.log[at].to)),
        counts("bytes", "size", |all| all.of(|job, at| job.log[at].bytes)),
        numbers("handed_ns", "when the rank posted it", |all| {
            all.of(|job, at| job.log[at].handed.as_ns_f64())
        }),
        numbers("left_ns", "when its last byte left the host", |all| {
            all.of(|job, at| maybe_ns(job.log[at].left))
        }),
        numbers("delivered_ns", "when it was delivered", |all| all.of(|job, at| maybe_ns(job.log[at].there))),
        numbers("alone_ns", "duration on an empty network", |all| {
            all.of(|job, at| job.log[at].alone.as_ns_f64())
        }),
    ],
};

/// Collective operations.
struct Calls {
    rows: OfJobs,
    /// The operations and algorithms of all jobs.
    kinds: Vec<(&'static str, &'static str)>,
}

const COLLECTIVES: Layout<Calls> = Layout {
    name: "collectives",
    rows: "A row per collective operation of a job.",
    columns: &[
        names("job", "the job", |all, _| all.rows.names(), |all| all.rows.numbers()),
        names("operation", "such as all-reduce", |all, _| all.named(|kind| kind.0), |all| all.codes()),
        names("algorithm", "such as ring", |all, _| all.named(|kind| kind.1), |all| all.codes()),
        small("communicator", "number of the group of ranks", |all| all.of(|call| call.comm)),
        small("call", "number of earlier operations in that group", |all| all.of(|call| call.number)),
        small("ranks", "ranks of the group", |all| all.of(|call| call.ranks)),
        numbers("start_ns", "when the first rank started", |all| all.of(|call| maybe_ns(call.start))),
        numbers("end_ns", "when the last rank finished", |all| all.of(|call| maybe_ns(call.end))),
        numbers("crossbar_ns", "duration on an ideal crossbar", |all| all.crossbar()),
    ],
};

/// The operation and the algorithm of a call.
fn kind_of(job: &Closed, call: &Call) -> (&'static str, &'static str) {
    let of = &job.trace.collectives[usize::from(call.kind)];
    (of.operation, of.algorithm)
}

impl Calls {
    fn new(jobs: &Arc<Vec<Closed>>) -> Self {
        let mut kinds = Vec::new();
        for of in jobs.iter().flat_map(|job| &job.trace.collectives) {
            if !kinds.contains(&(of.operation, of.algorithm)) {
                kinds.push((of.operation, of.algorithm));
            }
        }
        Self { rows: OfJobs::new(jobs, |job| job.execution.calls.len()), kinds }
    }

    fn of<V>(&self, value: impl Fn(&Call) -> V) -> Vec<V> {
        self.rows.rows.of(|&(job, at)| value(&self.rows.jobs[job as usize].execution.calls[at]))
    }

    fn codes(&self) -> Vec<u32> {
        self.rows.rows.of(|&(job, at)| {
            let job = &self.rows.jobs[job as usize];
            let of = kind_of(job, &job.execution.calls[at]);
            self.kinds.iter().position(|kind| *kind == of).unwrap_or_default() as u32
        })
    }

    fn named(&self, of: fn(&(&'static str, &'static str)) -> &'static str) -> Arc<Vec<String>> {
        Arc::new(self.kinds.iter().map(|kind| of(kind).to_owned()).collect())
    }

    /// The duration of each operation on an ideal crossbar, in nanoseconds; NaN if it did not finish there.
    fn crossbar(&self) -> Vec<f64> {
        let alone = self.rows.jobs.iter().map(|job| {
            let calls = job.alone.calls.iter();
            calls
                .filter_map(|call| Some(((call.comm, call.number), (call.end? - call.start?).as_ns_f64())))
                .collect()
        });
        let alone: Vec<FxHashMap<(u32, u32), f64>> = alone.collect();
        self.rows.rows.of(|&(job, at)| {
            let call = &self.rows.jobs[job as usize].execution.calls[at];
            alone[job as usize].get(&(call.comm, call.number)).copied().unwrap_or(f64::NAN)
        })
    }
}

/// Parallel applications.
#[derive(Saved)]
pub(crate) struct JobSection;

impl Section for JobSection {
    type Entry = Vec<JobSummary>;
    const WHEN: &'static str = "with [[job]]";
    const TABLES: &'static [&'static dyn Described] = &[&RANKS, &COLLECTIVES, &MESSAGES];

    fn new(of: &Recording) -> Option<Self> {
        (!of.config.jobs.is_empty()).then_some(Self)
    }

    fn close(self, end: &mut Ending) -> SectionResult<Self::Entry> {
        let jobs = Arc::new(take(&mut end.jobs));
        let (account, warnings): (Vec<String>, Vec<Option<String>>) =
            jobs.iter().map(Closed::describe).unzip();
        SectionResult {
            entry: jobs.iter().map(Closed::summary).collect(),
            tables: vec![
                RANKS.fill(OfJobs::new(&jobs, |job| job.hosts.len()), end.names),
                COLLECTIVES.fill(Calls::new(&jobs), end.names),
                MESSAGES.fill(OfJobs::new(&jobs, |job| job.log.len()), end.names),
            ],
            account,
            warnings: warnings.into_iter().flatten().collect(),
        }
    }
}
