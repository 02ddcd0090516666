//! The size of what is recorded over time, bounded before anything is allocated.

use silvan_engine::Time;
use silvan_fabric::MOST_TREE_ROWS;
use silvan_fabric::queueing::Isolation;
use silvan_fabric::topology::Topology;
use silvan_fabric::traffic::{Pattern, Traffic};

use crate::error::Fault;
use crate::spec::Spec;
use crate::validate::ensure;

/// The most rows that time series may have, all tables together: 1 GB, and as much again while they
/// are written.
pub const MOST_ROWS: u64 = 20_000_000;
/// The most intervals: at the end of each, every output and flow is looked at.
pub const MOST_INTERVALS: u64 = 1_000_000;
/// Bytes per row of a time series.
pub(crate) const ROW_BYTES: f64 = 48.0;

/// Rows of all time series together, and of congestion trees as many as there may be.
pub(crate) fn count(spec: &Spec, topology: &Topology) -> u64 {
    let series = intervals(spec).saturating_mul(per_interval(spec, topology));
    series.saturating_add(of_trees(spec, topology).min(MOST_TREE_ROWS))
}

/// The most rows of the table `tree_links` that a run may come to: each link at the end of each interval.
fn of_trees(spec: &Spec, topology: &Topology) -> u64 {
    let links = if spec.measure.forest { topology.channel_count() as u64 } else { 0 };
    intervals(spec).saturating_mul(links)
}

/// Says that the table `tree_links` may be full before the end of the run, if it may.
pub(crate) fn warning(spec: &Spec, topology: &Topology) -> Option<String> {
    let rows = of_trees(spec, topology);
    let links = topology.channel_count() as u64;
    (rows > MOST_TREE_ROWS).then(|| {
        format!(
            "the table tree_links may be full before the end: if all {links} links are in congestion trees, {} \
             intervals give {rows} rows, and {MOST_TREE_ROWS} are kept; give measure.interval at least {}, or \
             switch off measure.forest",
            intervals(spec),
            least(spec.duration, (MOST_TREE_ROWS / links.max(1)).max(1))
        )
    })
}

fn intervals(spec: &Spec) -> u64 {
    spec.duration.0.div_ceil(spec.measure.interval.0.max(1))
}

/// Rows per interval: the network, outputs of switches and hosts, hosts, flows, classes, special queues.
fn per_interval(spec: &Spec, topology: &Topology) -> u64 {
    let hosts = topology.hosts.len();
    let outputs = if spec.measure.links { topology.channel_count() } else { 0 };
    let hosts = if spec.measure.hosts { hosts } else { 0 };
    // A forest has a class for each of three roles.
    let of_pattern = |traffic: &Traffic| if matches!(traffic.pattern, Pattern::Forest(_)) { 3 } else { 1 };
    let classes = spec.flow.len() + spec.traffic.iter().map(of_pattern).sum::<usize>() + spec.job.len();
    let classes = if spec.measure.classes { classes } else { 0 };
    let special = usize::from(spec.congestion.parts(&spec.packet).isolation != Isolation::None);
    (1 + outputs + hosts + spec.flow.len() + classes + special) as u64
}

/// Refuses more rows than a machine can be expected to hold.
pub(crate) fn check(spec: &Spec, topology: &Topology) -> Result<(), Fault> {
    let each = per_interval(spec, topology);
    let most = (MOST_ROWS / each).clamp(1, MOST_INTERVALS);
    let intervals = intervals(spec);
    ensure(intervals <= most, "measure.interval", || {
        let rows = intervals.saturating_mul(each);
        format!(
            "gives {intervals} intervals of {each} rows over the run, {rows} in all; at most {MOST_INTERVALS} intervals \
             and {MOST_ROWS} rows are kept; give at least {}{}",
            least(spec.duration, most),
            if each > MOST_ROWS / MOST_INTERVALS {
                ", or switch off measure.links, measure.hosts or measure.classes"
            } else {
                ""
            }
        )
    })
}

/// The smallest interval of which a run has at most so many, rounded up to three digits, so that
/// the advice is short and holds.
fn least(duration: Time, most: u64) -> Time {
    let exact = duration.0.div_ceil(most);
    let digit = 10u64.pow(exact.max(1).ilog10().saturating_sub(2));
    Time(exact.div_ceil(digit) * digit)
}
