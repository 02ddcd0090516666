//! The results of a job.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use silvan_engine::Time;
use silvan_network::traffic::PortUse;
use silvan_trace::Trace;
use silvan_trace::execute::Execution;

use super::running::Running;
use super::{Logged, Place, Setup};
use crate::host::{Host, Spent};

/// The results of a job. Shares relate to the job's span, and are averages over its ranks or their hosts.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct JobSummary {
    /// Name of the job.
    pub job: String,
    /// Number of ranks.
    pub ranks: usize,
    /// Number of hosts on which the ranks run.
    pub hosts: usize,
    /// Number of reduction units that the ranks use, if any. In the tables of ranks and messages, units
    /// appear as additional ranks. The other fields of this summary count units only in messages, bytes and
    /// message slowdowns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<usize>,
    /// Time at which the ranks started, ns.
    pub started_ns: f64,
    /// Time at which the last rank finished, ns; None if a rank did not finish.
    pub finished_ns: Option<f64>,
    /// Time from the start until the job finished, or until the end of the run, ns.
    pub span_ns: f64,
    /// Span on an ideal crossbar with the same host links and latencies but no internal congestion, ns.
    pub crossbar_ns: f64,
    /// `span_ns` / `crossbar_ns`; None if the job did not finish.
    pub slowdown: Option<f64>,
    /// Number of operations that had not finished at the end.
    pub unfinished_operations: u64,
    /// Number of delivered messages that crossed the network, excluding requests and permissions.
    pub messages: u64,
    /// Total payload of the messages that crossed the network, counted when they were posted, bytes.
    pub bytes: u64,
    /// How messages use the ports of hosts: "rank", "hash", "stripe" or "spray"; None if hosts have one port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_use: Option<&'static str>,
    /// Payload that moved to other ports because its port had failed, bytes; None without `ports.failover`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_bytes: Option<u64>,
    /// The mean ratio of the duration of a message to its duration on an empty network. With adaptive
    /// routing, the reference is the best route. None without messages.
    pub message_slowdown_mean: Option<f64>,
    /// The 99th percentile of the ratio whose mean is `message_slowdown_mean`; None without messages.
    pub message_slowdown_p99: Option<f64>,
    /// Share of time in which ranks computed, 0 to 1.
    pub computing_share: f64,
    /// Share of time in which ranks computed or handled messages, 0 to 1. In the rest of the time, they
    /// waited.
    pub busy_share: f64,
    /// Share of time in which hosts sent or waited for their injection limit, 0 to 1.
    pub sending_share: f64,
    /// Share of time in which hosts had packets to send but lacked credit, 0 to 1.
    pub blocked_share: f64,
    /// Share of time in which congestion control throttled all packets that hosts had to send, 0 to 1.
    pub throttled_share: f64,
    /// Collective operations by kind.
    pub collectives: Vec<CollectiveSummary>,
}

/// Collective operations of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CollectiveSummary {
    /// The operation, such as "all-reduce".
    pub operation: &'static str,
    /// The algorithm, such as "ring".
    pub algorithm: &'static str,
    /// Number of operations that finished.
    pub finished: u64,
    /// Mean time from the first rank's start to the last rank's end, ns; 0 if no operation finished.
    pub mean_ns: f64,
    /// Mean time of the operations of this kind on an ideal crossbar, ns.
    pub crossbar_ns: f64,
}

/// A job at the end of the run.
#[derive(Debug)]
pub(crate) struct Closed {
    pub name: String,
    pub trace: Arc<Trace>,
    /// The host of each rank, or its port.
    pub hosts: Vec<u32>,
    /// The host of each rank, or the index of its host among those with several ports.
    pub machine_of: Vec<u32>,
    /// Number of ranks that are not reduction units; they come first.
    pub members: usize,
    pub start: Time,
    /// The time at which the last rank finished, if all did.
    pub done: Option<Time>,
    /// The end of the time that counts for the job's ranks: the time at which the job finished, or the end of
    /// the run.
    pub until: Time,
    pub execution: Execution,
    /// The execution of the job on an ideal crossbar, with the same start.
    pub alone: Execution,
    /// For each rank, the time its host spent in each state.
    pub spent: Vec<Spent>,
    pub sent_bytes: Vec<u64>,
    pub received_bytes: Vec<u64>,
    pub port_use: Option<PortUse>,
    /// Payload that moved to other ports, if messages do.
    pub moved_bytes: Option<u64>,
    /// Slowdowns of messages, in thousandths.
    pub slowdowns: hdrhistogram::Histogram<u64>,
    /// Sum of the slowdowns, in thousandths.
    pub slowdown_sum: u64,
    pub log: Vec<Logged>,
    pub unlogged: u64,
    pub failed: Option<String>,
}

/// The share of `span` in `whole`; 0 if `whole` is zero.
fn share(span: Time, whole: Time) -> f64 {
    if whole == Time::ZERO { 0.0 } else { span.0 as f64 / whole.0 as f64 }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

impl Closed {
    pub(super) fn new<'h>(mut job: Running, host: &impl Fn(u32) -> &'h Host, now: Time) -> Self {
        let until = job.done.unwrap_or(now);
        job.ranks.cut(until);
        let Setup { name, trace, places, ports, senders, units, alone, start, .. } = &*job.setup;
        let spent_at = |place: &Place| {
            let at = job.hosts.iter().find(|at| at.host == place.host);
            let now = || host(place.host).hours.as_ref().map(|hours| hours.until(now));
            at.and_then(|at| at.spent).or_else(now).unwrap_or_default()
        };
        let is_shared = ports.as_ref().is_some_and(|ports| ports.used != PortUse::Rank);
        // The mean over the ports that a rank uses.
        let spent = |(rank, place): (usize, &Place)| match senders.get(rank) {
            Some(senders) if is_shared => Spent::mean(senders.iter().map(spent_at)),
            _ => spent_at(place),
        };
        let moved_bytes = job.setup.moves_messages().then_some(job.moved_bytes);
        Self {
            name: name.clone(),
            trace: Arc::clone(trace),
            hosts: places.iter().map(|place| place.host).collect(),
            machine_of: job.setup.machine_of.clone(),
            members: places.len() - *units as usize,
            start: *start,
            done: job.done,
            until,
            spent: places.iter().enumerate().map(spent).collect(),
            execution: job.ranks.close(),
            alone: alone.clone(),
            port_use: ports.as_ref().map(|ports| ports.used),
            moved_bytes,
            sent_bytes: job.sent_bytes,
            received_bytes: job.received_bytes,
            slowdowns: job.slowdowns,
            slowdown_sum: job.slowdown_sum,
            log: job.log.into_rows(),
            unlogged: job.unlogged,
            failed: job.failed.map(|(_, error)| error.to_string()),
        }
    }

    /// The time from the start of the job until it finished, or until the end of the run.
    pub fn span(&self) -> Time {
        self.until.saturating_sub(self.start)
    }

    /// Returns the results for the summary.
    pub fn summary(&self) -> JobSummary {
        let span = self.span();
        let alone = self.alone.span.saturating_sub(self.start);
        let distinct = |hosts: &[u32]| {
            let mut hosts = hosts.to_vec();
            hosts.sort_unstable();
            hosts.dedup();
            hosts.len()
        };
        let (hosts, units) = self.machine_of.split_at(self.members);
        let of_ranks = |times: &[Time]| mean(times[..self.members].iter().map(|&time| share(time, span)));
        let spent = &self.spent[..self.members];
        let of_hosts = |of: fn(&Spent) -> Time| mean(spent.iter().map(|spent| share(of(spent), span)));
        let messages = self.slowdowns.len();
        let quantile = |quantile| self.slowdowns.value_at_quantile(quantile) as f64 / 1_000.0;
        JobSummary {
            job: self.name.clone(),
            ranks: self.members,
            hosts: distinct(hosts),
            units: (!units.is_empty()).then(|| distinct(units)),
            started_ns: self.start.as_ns_f64(),
            finished_ns: self.done.map(Time::as_ns_f64),
            span_ns: span.as_ns_f64(),
            crossbar_ns: alone.as_ns_f64(),
            slowdown: (self.done.is_some() && alone > Time::ZERO).then(|| share(span, alone)),
            unfinished_operations: self.execution.unfinished,
            messages,
            bytes: self.sent_bytes.iter().sum(),
            port_use: self.port_use.map(PortUse::name),
            moved_bytes: self.moved_bytes,
            message_slowdown_mean: (messages > 0)
                .then(|| self.slowdown_sum as f64 / messages as f64 / 1_000.0),
            message_slowdown_p99: (messages > 0).then(|| quantile(0.99)),
            computing_share: of_ranks(&self.execution.computing),
            busy_share: of_ranks(&self.execution.busy),
            sending_share: of_hosts(|spent| spent.sending),
            blocked_share: of_hosts(|spent| spent.blocked),
            throttled_share: of_hosts(|spent| spent.throttled),
            collectives: self.collectives(),
        }
    }

    fn collectives(&self) -> Vec<CollectiveSummary> {
        let kinds = self.trace.collectives.iter().enumerate();
        kinds
            .map(|(kind, of)| {
                let spans = |execution: &Execution| {
                    let own = execution.calls.iter().filter(|call| usize::from(call.kind) == kind);
                    let spans: Vec<f64> =
                        own.filter_map(|call| Some((call.end? - call.start?).as_ns_f64())).collect();
                    (spans.len() as u64, mean(spans.into_iter()))
                };
                let (finished, mean_ns) = spans(&self.execution);
                CollectiveSummary {
                    operation: of.operation,
                    algorithm: of.algorithm,
                    finished,
                    mean_ns,
                    crossbar_ns: spans(&self.alone).1,
                }
            })
            .collect()
    }

    /// The sentences about the job for the account, and a warning if the job did not finish or messages were
    /// not logged.
    pub fn describe(&self) -> (String, Option<String>) {
        let summary = self.summary();
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let JobSummary { job, ranks, hosts, units, .. } = &summary;
        let with = units.map_or_else(String::new, |units| format!(", {units} reduction units"));
        let mut text = format!("Job `{job}` ({ranks} ranks on {hosts} hosts{with}) ");
        match summary.slowdown {
            Some(slowdown) => {
                text += &format!(
                    "finished after {}, {slowdown:.2} times its duration on an ideal crossbar ({}).",
                    self.span().rounded(),
                    self.alone.span.saturating_sub(self.start).rounded()
                )
            }
            None if self.done.is_some() => text += &format!("finished after {}.", self.span().rounded()),
            None => text += &format!("had {} operations left at the end.", summary.unfinished_operations),
        }
        text += &format!(
            " On average its ranks were busy for {} of that time and computed for {}; their hosts sent for {}, lacked \
             credit for {} and were throttled for {}.",
            percent(summary.busy_share),
            percent(summary.computing_share),
            percent(summary.sending_share),
            percent(summary.blocked_share),
            percent(summary.throttled_share),
        );
        if let (Some(mean), Some(p99)) = (summary.message_slowdown_mean, summary.message_slowdown_p99) {
            text += &format!(
                " A message took {mean:.2} times as long as on an empty network, one in a hundred {p99:.2} times or more."
            );
        }
        if let Some(bytes) = summary.moved_bytes.filter(|&bytes| bytes > 0) {
            text += &format!(" Of its data, {bytes} bytes moved to other ports because theirs had failed.");
        }
        for one in &summary.collectives {
            let (name, algorithm) = (one.operation, one.algorithm);
            text += &format!(
                " {} of {name} by {algorithm} finished, after {} on average ({} on a crossbar).",
                one.finished,
                Time((one.mean_ns * 1e3).round() as u64).rounded(),
                Time((one.crossbar_ns * 1e3).round() as u64).rounded()
            );
        }
        (text, self.warning())
    }

    fn warning(&self) -> Option<String> {
        let name = &self.name;
        if let Some(failed) = &self.failed {
            return Some(format!("job `{name}` could not continue: {failed}"));
        }
        if self.done.is_none() {
            let left = self.execution.unfinished;
            return Some(format!(
                "job `{name}` did not finish: {left} operations were left; set a longer duration, or find \
                 the cause of the delay"
            ));
        }
        (self.unlogged > 0).then(|| {
            let (kept, all) = (self.log.len(), self.log.len() as u64 + self.unlogged);
            format!(
                "job `{name}`: the table of messages contains only the first {kept} of {all}; the summary counts all"
            )
        })
    }
}
