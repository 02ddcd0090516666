//! Limits the amount of recorded data before memory is allocated.

use silvan_congestion::isolation::Isolation;
use silvan_engine::Time;
use silvan_fabric::MOST_TREE_ROWS;
use silvan_network::topology::Topology;
use silvan_network::traffic::{Pattern, Traffic};

use crate::error::Fault;
use crate::spec::Spec;
use crate::validate::ensure;

/// Maximum number of rows in all time series together. They take 1 GB of memory, and 2 GB while they are
/// written.
pub const MOST_ROWS: u64 = 20_000_000;
/// Maximum number of sampling intervals.
pub const MOST_INTERVALS: u64 = 1_000_000;
/// Bytes per row of a time series.
pub(crate) const ROW_BYTES: f64 = 48.0;

/// Number of rows of all time series, including the maximum number of rows for congestion trees.
pub(crate) fn count(spec: &Spec, topology: &Topology) -> u64 {
    let series = intervals(spec).saturating_mul(per_interval(spec, topology));
    series.saturating_add(of_trees(spec, topology).min(MOST_TREE_ROWS))
}

/// Maximum number of rows of the table `tree_links`: one per link and sampling interval.
fn of_trees(spec: &Spec, topology: &Topology) -> u64 {
    let links = if spec.measure.forest { topology.channel_count() as u64 } else { 0 };
    intervals(spec).saturating_mul(links)
}

/// Returns a warning if the table `tree_links` may become full before the end of the run.
pub(crate) fn warning(spec: &Spec, topology: &Topology) -> Option<String> {
    if spec.external.is_some() {
        return None;
    }
    let rows = of_trees(spec, topology);
    let links = topology.channel_count() as u64;
    (rows > MOST_TREE_ROWS).then(|| {
        format!(
            "the table tree_links may be full before the end: if all {links} links are in congestion trees, {} \
             intervals give {rows} rows, and {MOST_TREE_ROWS} are kept; set measure.interval to at least {}, or \
             switch off measure.forest",
            intervals(spec),
            least(spec.duration, (MOST_TREE_ROWS / links.max(1)).max(1))
        )
    })
}

fn intervals(spec: &Spec) -> u64 {
    spec.duration.0.div_ceil(spec.measure.interval.0.max(1))
}

/// Rows per interval: one for the network, one for the special queues if there are any, and one for
/// each channel, host, flow and class that is measured.
fn per_interval(spec: &Spec, topology: &Topology) -> u64 {
    let hosts = topology.hosts.len();
    let outputs = if spec.measure.links { topology.channel_count() } else { 0 };
    let hosts = if spec.measure.hosts { hosts } else { 0 };
    // A forest has one class for each of its three roles.
    let of_pattern = |traffic: &Traffic| if matches!(traffic.pattern, Pattern::Forest(_)) { 3 } else { 1 };
    let classes = spec.flow.len() + spec.traffic.iter().map(of_pattern).sum::<usize>() + spec.job.len();
    let classes = classes + usize::from(spec.external.is_some());
    let classes = if spec.measure.classes { classes } else { 0 };
    let special = usize::from(spec.congestion.components(&spec.packet).isolation != Isolation::None);
    (1 + outputs + hosts + spec.flow.len() + classes + special) as u64
}

/// The number of intervals of which rows can be kept, if each interval has `each` rows.
fn most_intervals(each: u64) -> u64 {
    (MOST_ROWS / each).clamp(1, MOST_INTERVALS)
}

/// The time for which the rows of a scenario can be kept.
pub(crate) fn longest(spec: &Spec, topology: &Topology) -> Time {
    Time(spec.measure.interval.0.saturating_mul(most_intervals(per_interval(spec, topology))))
}

/// Rejects a scenario that would record too many rows.
pub(crate) fn check(spec: &Spec, topology: &Topology) -> Result<(), Fault> {
    // The run of a program ends before it has recorded too many rows.
    if spec.external.is_some() {
        return Ok(());
    }
    let each = per_interval(spec, topology);
    let most = most_intervals(each);
    let intervals = intervals(spec);
    ensure(intervals <= most, "measure.interval", || {
        let rows = intervals.saturating_mul(each);
        format!(
            "gives {intervals} intervals of {each} rows over the run, {rows} in all; at most {MOST_INTERVALS} intervals \
             and {MOST_ROWS} rows are kept; set it to at least {}{}",
            least(spec.duration, most),
            if each > MOST_ROWS / MOST_INTERVALS {
                ", or switch off measure.links, measure.hosts or measure.classes"
            } else {
                ""
            }
        )
    })
}

/// The smallest interval that divides a run into at most `most` intervals. It is rounded up to three
/// digits, so that the suggestion in the message is short and valid.
fn least(duration: Time, most: u64) -> Time {
    let exact = duration.0.div_ceil(most);
    let digit = 10u64.pow(exact.max(1).ilog10().saturating_sub(2));
    Time(exact.div_ceil(digit) * digit)
}
