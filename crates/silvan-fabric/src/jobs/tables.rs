//! Creates the tables of jobs: ranks, messages and collective operations.

use std::sync::Arc;

use silvan_engine::Time;

use super::Closed;
use super::closed::ns;
use crate::outcome::{Column, Table, Values};

/// Columns under construction, in the order in which they were first used.
#[derive(Default)]
struct Columns(Vec<Column>);

impl Columns {
    fn numbers(&mut self, name: &'static str, values: impl Iterator<Item = f64>) {
        self.0.push(Column { name, values: Values::F64(values.collect()) });
    }

    fn counts(&mut self, name: &'static str, values: impl Iterator<Item = u64>) {
        self.0.push(Column { name, values: Values::U64(values.collect()) });
    }

    fn small(&mut self, name: &'static str, values: impl Iterator<Item = u32>) {
        self.0.push(Column { name, values: Values::U32(values.collect()) });
    }

    fn names(&mut self, name: &'static str, codes: impl Iterator<Item = u32>, names: &Arc<Vec<String>>) {
        self.0
            .push(Column { name, values: Values::Name { codes: codes.collect(), names: Arc::clone(names) } });
    }
}

/// Converts to nanoseconds; NaN for an event that did not occur.
fn maybe_ns(time: Option<Time>) -> f64 {
    time.map_or(f64::NAN, ns)
}

pub(crate) fn into_tables(jobs: Vec<Closed>, hosts: &[String]) -> Vec<Table> {
    let names = Arc::new(jobs.iter().map(|job| job.name.clone()).collect::<Vec<_>>());
    vec![
        Table { name: "ranks", columns: ranks(&jobs, &names, &Arc::new(hosts.to_vec())) },
        Table { name: "collectives", columns: collectives(&jobs, &names) },
        Table { name: "messages", columns: messages(&jobs, &names) },
    ]
}

/// The items of all jobs, each with the job's number.
fn all<'a, T: 'a, I: Iterator<Item = T> + 'a>(
    jobs: &'a [Closed],
    of: impl Fn(&'a Closed) -> I + 'a,
) -> impl Iterator<Item = (u32, T)> + 'a {
    jobs.iter().enumerate().flat_map(move |(number, job)| of(job).map(move |item| (number as u32, item)))
}

fn ranks(jobs: &[Closed], names: &Arc<Vec<String>>, hosts: &Arc<Vec<String>>) -> Vec<Column> {
    let rows = || all(jobs, |job| (0..job.hosts.len()).map(move |rank| (job, rank)));
    let mut columns = Columns::default();
    columns.names("job", rows().map(|row| row.0), names);
    columns.small("rank", rows().map(|(_, (_, rank))| rank as u32));
    columns.names("host", rows().map(|(_, (job, rank))| job.hosts[rank]), hosts);
    let mut time = |name, of: &dyn Fn(&Closed, usize) -> f64| {
        columns.numbers(name, rows().map(|(_, (job, rank))| of(job, rank)));
    };
    time("last_finished_ns", &|job, rank| ns(job.execution.finished[rank]));
    time("crossbar_finished_ns", &|job, rank| ns(job.alone.finished[rank]));
    time("computing_ns", &|job, rank| ns(job.execution.computing[rank]));
    time("busy_ns", &|job, rank| ns(job.execution.busy[rank]));
    // Count only until the rank's own last operation, because the time after that is not a delay.
    time("waiting_ns", &|job, rank| {
        let span = job.execution.finished[rank].saturating_sub(job.start);
        ns(span.saturating_sub(job.execution.busy[rank]))
    });
    time("host_sending_ns", &|job, rank| ns(job.spent[rank].sending));
    time("host_blocked_ns", &|job, rank| ns(job.spent[rank].blocked));
    time("host_throttled_ns", &|job, rank| ns(job.spent[rank].throttled));
    columns.counts("sent_bytes", rows().map(|(_, (job, rank))| job.sent_bytes[rank]));
    columns.counts("received_bytes", rows().map(|(_, (job, rank))| job.received_bytes[rank]));
    columns.0
}

fn messages(jobs: &[Closed], names: &Arc<Vec<String>>) -> Vec<Column> {
    let rows = || all(jobs, |job| job.log.iter());
    let mut columns = Columns::default();
    columns.names("job", rows().map(|row| row.0), names);
    columns.small("from_rank", rows().map(|(_, row)| row.from));
    columns.small("to_rank", rows().map(|(_, row)| row.to));
    columns.counts("bytes", rows().map(|(_, row)| row.bytes));
    columns.numbers("handed_ns", rows().map(|(_, row)| ns(row.handed)));
    columns.numbers("left_ns", rows().map(|(_, row)| maybe_ns(row.left)));
    columns.numbers("delivered_ns", rows().map(|(_, row)| maybe_ns(row.there)));
    columns.numbers("alone_ns", rows().map(|(_, row)| ns(row.alone)));
    columns.0
}

fn collectives(jobs: &[Closed], names: &Arc<Vec<String>>) -> Vec<Column> {
    let mut kinds: Vec<(&str, &str)> = Vec::new();
    for use_ in jobs.iter().flat_map(|job| &job.trace.collectives) {
        if !kinds.contains(&(use_.operation, use_.algorithm)) {
            kinds.push((use_.operation, use_.algorithm));
        }
    }
    let kind_of = |job: &Closed, kind: u16| {
        let use_ = &job.trace.collectives[usize::from(kind)];
        let wanted = (use_.operation, use_.algorithm);
        kinds.iter().position(|kind| *kind == wanted).unwrap_or_default() as u32
    };
    let named = |of: fn(&(&str, &str)) -> String| Arc::new(kinds.iter().map(of).collect::<Vec<_>>());
    let rows = || all(jobs, |job| job.execution.calls.iter().map(move |call| (job, call)));
    let mut columns = Columns::default();
    columns.names("job", rows().map(|row| row.0), names);
    let codes = |row: (u32, (&Closed, &silvan_trace::execute::Call))| kind_of(row.1.0, row.1.1.kind);
    columns.names("operation", rows().map(codes), &named(|kind| kind.0.to_owned()));
    columns.names("algorithm", rows().map(codes), &named(|kind| kind.1.to_owned()));
    columns.small("communicator", rows().map(|(_, (_, call))| call.comm));
    columns.small("call", rows().map(|(_, (_, call))| call.number));
    columns.small("ranks", rows().map(|(_, (_, call))| call.ranks));
    columns.numbers("start_ns", rows().map(|(_, (_, call))| maybe_ns(call.start)));
    columns.numbers("end_ns", rows().map(|(_, (_, call))| maybe_ns(call.end)));
    // Duration of each operation on an ideal crossbar.
    let alone: Vec<rustc_hash::FxHashMap<(u32, u32), f64>> = jobs
        .iter()
        .map(|job| {
            let calls = job.alone.calls.iter();
            calls.filter_map(|call| Some(((call.comm, call.number), ns(call.end? - call.start?)))).collect()
        })
        .collect();
    columns.numbers(
        "crossbar_ns",
        rows().map(|(job, (_, call))| {
            alone[job as usize].get(&(call.comm, call.number)).copied().unwrap_or(f64::NAN)
        }),
    );
    columns.0
}
