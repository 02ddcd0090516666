//! Histograms of the latency of packets, by class of traffic.

use schemars::JsonSchema;
use serde::Serialize;

use crate::meters::{Bin, ClassMeter};
use crate::table::{Layout, ResultNames, RowsOf, Table, classes, counts, fixed, names};

/// Packet latency of one class: a named flow, a traffic pattern, a role of a forest, or a job.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LatencySummary {
    /// Name of the class.
    pub class: String,
    /// Start of the measurement: `generation` of the message, or `injection` of the packet.
    pub since: &'static str,
    /// Number of packets. If it is 0, the latencies below are 0.
    pub count: u64,
    /// Mean, ns.
    pub mean_ns: f64,
    /// Median, ns.
    pub p50_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
    /// Maximum, ns.
    pub max_ns: u64,
}

/// The starts of the measurement.
const SINCE: [&str; 2] = ["generation", "injection"];

/// The latencies of a class since its messages were generated, and since its packets were injected.
pub(crate) fn summaries(class: &ClassMeter) -> impl Iterator<Item = LatencySummary> + '_ {
    SINCE.into_iter().zip([&class.since_generation, &class.since_injection]).map(|(since, latency)| {
        LatencySummary {
            class: class.name.clone(),
            since,
            count: latency.count(),
            mean_ns: latency.mean_ns(),
            p50_ns: latency.quantile_ns(0.5),
            p99_ns: latency.quantile_ns(0.99),
            max_ns: latency.max_ps / 1_000,
        }
    })
}

/// The numbers of a class and of a start of the measurement, and a non-empty bin.
type Row = (u32, u32, Bin);

pub(crate) const LATENCY: Layout<RowsOf<Row>> = Layout {
    name: "latency",
    rows: "Histograms after the warm-up, a row per class and range.",
    columns: &[
        names("class", "a flow or a pattern of traffic", classes, |all| all.of(|row| row.0)),
        names(
            "since",
            "generation of the message, or injection of the packet",
            |_, _| fixed(&SINCE),
            |all| all.of(|row| row.1),
        ),
        counts("lower_ns", "lower end of the range", |all| all.of(|row| row.2.lower)),
        counts("upper_ns", "its upper end", |all| all.of(|row| row.2.upper)),
        counts("count", "packets", |all| all.of(|row| row.2.count)),
    ],
};

/// The histograms of all classes.
pub(crate) fn table(meters: &[ClassMeter], names: &ResultNames) -> Table {
    let mut rows = Vec::new();
    for (number, class) in (0..).zip(meters) {
        for (since, latency) in (0..).zip([&class.since_generation, &class.since_injection]) {
            rows.extend(latency.bins().map(|bin| (number, since, bin)));
        }
    }
    LATENCY.fill(RowsOf(rows), names)
}
