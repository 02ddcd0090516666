//! Completion times of transfers: a table of transfers, and quantiles of their slowdowns by class and size.
//!
//! The slowdown of a transfer is its duration divided by that on the empty network ([`super::ideal`]).
//! Quantiles are exact unless more transfers have finished than the table has rows. They then come from
//! histograms (`hdrhistogram`) with three significant digits.

use std::collections::BTreeMap;
use std::sync::Arc;

use hdrhistogram::Histogram;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::Serialize;
use silvan_engine::Time;
use silvan_engine::saved::Saved;

use super::ideal::{IdealTimes, Route};
use super::section::{Ending, Recording, Section, SectionResult, TransferPlan};
use crate::meters::{Transfer, Transfers};
use crate::partition::View;
use crate::table::{Described, Layout, RowsOf, counts, hosts, names, numbers};

/// Completion times of transfers (messages that do not belong to jobs). The table `transfers` has single
/// transfers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct TransferSummary {
    /// Number of transfers that started.
    pub started: u64,
    /// Number of these that were not delivered or, if receivers acknowledge all data, not acknowledged.
    pub unfinished: u64,
    /// Number of these that were not delivered.
    pub undelivered: u64,
    /// Largest relative error of the quantiles; 0 if they are exact.
    pub quantile_error: f64,
    /// Finished transfers that started after the warm-up: for each class, all of them, followed by ranges of
    /// sizes.
    pub sizes: Vec<TransferSizes>,
}

/// Finished transfers of a class in a range of sizes.
///
/// Without `above_bytes`, the range covers all sizes; without `up_to_bytes`, the range has no upper limit.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TransferSizes {
    /// Name of the traffic pattern; `flows` for all named flows together.
    pub class: String,
    /// Transfers of the range have more payload than this, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above_bytes: Option<u64>,
    /// Largest payload of the range, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_to_bytes: Option<u64>,
    /// Number of transfers.
    pub transfers: u64,
    /// The time until delivery, divided by that on the empty network.
    pub slowdown: SlowdownQuantiles,
    /// The time until the last acknowledgement, divided by that on the empty network, if receivers
    /// acknowledge all data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acked_slowdown: Option<SlowdownQuantiles>,
}

/// Quantiles of the durations of transfers, divided by those on the empty network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct SlowdownQuantiles {
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl From<[f64; 3]> for SlowdownQuantiles {
    fn from([p50, p95, p99]: [f64; 3]) -> Self {
        Self { p50, p95, p99 }
    }
}

/// Maximum number of rows of the table of transfers.
const MOST_ROWS: usize = 2_000_000;

/// The largest transfer of each range of sizes, in bytes. Larger ones are in a further range.
const SIZES: [u64; 10] =
    [1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000];

/// The value in histograms that represents a slowdown of 1.
const UNIT: f64 = 1e6;

/// The transfers that have finished so far.
#[derive(Debug, Saved)]
pub(crate) struct Completions {
    #[saved(constant)]
    plan: TransferPlan,
    routes: FxHashMap<(u32, u32), Option<Route>>,
    rows: Vec<Row>,
    #[saved(constant)]
    most_rows: usize,
    /// Number of transfers that have finished.
    finished: u64,
    /// Number of finished transfers that are in the summary.
    counted: u64,
    /// Slowdowns by class and range of sizes, once more transfers have finished than the table has rows.
    sketches: Option<BTreeMap<Group, Sketch>>,
}

/// A class, and the index of a range of sizes; `None` for all sizes.
type Group = (u16, Option<usize>);

/// Slowdowns until delivery and until the last acknowledgement.
#[derive(Debug, Default, Saved)]
struct Sketch([Quantiles; 2]);

/// Values from which quantiles are computed.
#[derive(Debug, Saved)]
enum Quantiles {
    Exact(Vec<f64>),
    Rounded(Histogram<u64>),
}

impl Default for Quantiles {
    fn default() -> Self {
        Self::Exact(Vec::new())
    }
}

impl Quantiles {
    fn record(&mut self, value: f64) {
        match self {
            Self::Exact(values) => values.push(value),
            Self::Rounded(histogram) => histogram.saturating_record((value * UNIT).round() as u64),
        }
    }

    /// Replaces exact values by a histogram, if one can be created.
    fn round(&mut self) {
        if let Self::Exact(values) = self
            && let Ok(mut histogram) = Histogram::new_with_bounds(1, 1 << 44, 3)
        {
            values.iter().for_each(|value| histogram.saturating_record((value * UNIT).round() as u64));
            *self = Self::Rounded(histogram);
        }
    }

    fn count(&self) -> u64 {
        match self {
            Self::Exact(values) => values.len() as u64,
            Self::Rounded(histogram) => histogram.len(),
        }
    }

    /// For each share, the smallest value that at least this share of the values does not exceed; `None`
    /// without values.
    fn at(&mut self, shares: [f64; 3]) -> Option<[f64; 3]> {
        if self.count() == 0 {
            return None;
        }
        Some(match self {
            Self::Exact(values) => {
                values.sort_unstable_by(f64::total_cmp);
                shares.map(|share| {
                    let rank = (share * values.len() as f64).ceil().max(1.0) as usize;
                    values[rank.min(values.len()) - 1]
                })
            }
            Self::Rounded(histogram) => shares.map(|share| histogram.value_at_quantile(share) as f64 / UNIT),
        })
    }
}

fn ratio(span: Time, ideal: Time) -> f64 {
    span.0 as f64 / ideal.0.max(1) as f64
}

/// The span from the start of a transfer to one of its events, if that has occurred.
fn span(transfer: &Transfer, event: Time) -> Option<Time> {
    (event != Time::NEVER).then(|| event.saturating_sub(transfer.start))
}

/// Nanoseconds; NaN for an event that has not occurred.
fn event_ns(time: Time) -> f64 {
    if time == Time::NEVER { f64::NAN } else { time.as_ns_f64() }
}

impl Completions {
    fn of(plan: TransferPlan) -> Self {
        Self {
            plan,
            routes: FxHashMap::default(),
            rows: Vec::new(),
            most_rows: MOST_ROWS,
            finished: 0,
            counted: 0,
            sketches: None,
        }
    }

    /// Adds the transfers that have finished since the last sample.
    pub fn add(&mut self, view: View, finished: Vec<Transfer>) {
        for transfer in finished {
            self.finished += 1;
            if self.sketches.is_none() && self.rows.len() == self.most_rows {
                let mut sketches = self.sketches(view);
                sketches.values_mut().flat_map(|sketch| &mut sketch.0).for_each(Quantiles::round);
                self.sketches = Some(sketches);
            }
            match self.sketches.take() {
                None => self.rows.push((transfer, None)),
                Some(mut sketches) => {
                    let ideal = self.ideal(view, &transfer);
                    self.record(&mut sketches, &transfer, ideal);
                    self.sketches = Some(sketches);
                }
            }
        }
    }

    fn route(&mut self, view: View, from: u32, to: u32) -> Option<&Route> {
        let paces = self.plan.host_paces;
        self.routes.entry((from, to)).or_insert_with(|| Route::trace(view, (from, to), paces)).as_ref()
    }

    fn ideal(&mut self, view: View, transfer: &Transfer) -> Option<IdealTimes> {
        let TransferPlan { sizes, awaits_acks, is_each, .. } = self.plan;
        let back = if awaits_acks { self.route(view, transfer.to, transfer.from).cloned() } else { None };
        let route = self.route(view, transfer.from, transfer.to)?;
        Some(route.ideal(transfer.bytes, sizes, back.as_ref(), is_each))
    }

    /// The class under which a transfer appears: 0 for all named flows, otherwise the transfer's own class.
    fn class(&self, class: u16) -> u16 {
        if class < self.plan.flows { 0 } else { class }
    }

    fn record(
        &mut self,
        sketches: &mut BTreeMap<Group, Sketch>,
        transfer: &Transfer,
        ideal: Option<IdealTimes>,
    ) {
        let Some(ideal) = ideal else { return };
        if transfer.start < self.plan.from {
            return;
        }
        self.counted += 1;
        let class = self.class(transfer.class);
        let range = SIZES.partition_point(|&most| most < transfer.bytes);
        for group in [(class, None), (class, Some(range))] {
            let sketch = sketches.entry(group).or_insert_with(|| {
                let mut sketch = Sketch::default();
                if self.sketches.is_some() {
                    sketch.0.iter_mut().for_each(Quantiles::round);
                }
                sketch
            });
            let events = [(transfer.delivered, ideal.delivered), (transfer.acked, ideal.acked)];
            for (values, (event, ideal)) in sketch.0.iter_mut().zip(events) {
                if let Some(span) = span(transfer, event) {
                    values.record(ratio(span, ideal));
                }
            }
        }
    }

    /// The slowdowns of all rows. Afterwards, each row has its ideal times.
    fn sketches(&mut self, view: View) -> BTreeMap<Group, Sketch> {
        let (mut rows, mut sketches) = (std::mem::take(&mut self.rows), BTreeMap::new());
        for (transfer, ideal) in &mut rows {
            *ideal = self.ideal(view, transfer);
            self.record(&mut sketches, transfer, *ideal);
        }
        self.rows = rows;
        sketches
    }
}

/// A transfer, with its times on the empty network if a route exists.
type Row = (Transfer, Option<IdealTimes>);

/// The names of classes in the table, and the rows.
struct TransferRows {
    classes: Arc<Vec<String>>,
    rows: RowsOf<Row>,
}

impl TransferRows {
    /// A column of numbers, from a transfer and its times on the empty network.
    fn of(&self, value: fn(&Transfer, IdealTimes) -> f64) -> Vec<f64> {
        let never = IdealTimes { delivered: Time::NEVER, acked: Time::NEVER };
        self.rows.of(|(one, ideal)| value(one, ideal.unwrap_or(never)))
    }
}

fn slowdown(one: &Transfer, event: Time, ideal: Time) -> f64 {
    match span(one, event) {
        Some(span) if ideal != Time::NEVER => ratio(span, ideal),
        _ => f64::NAN,
    }
}

const TRANSFERS: Layout<TransferRows> = Layout {
    name: "transfers",
    rows: "A row per message of a flow or pattern, with measure.transfers. Events that did not occur are NaN.",
    columns: &[
        names(
            "class",
            "the pattern, or flows for all named flows",
            |all, _| Arc::clone(&all.classes),
            |all| all.rows.of(|(one, _)| one.class.into()),
        ),
        names("from", "source", hosts, |all| all.rows.of(|(one, _)| one.from)),
        names("to", "destination", hosts, |all| all.rows.of(|(one, _)| one.to)),
        counts("bytes", "size", |all| all.rows.of(|(one, _)| one.bytes)),
        numbers("start_ns", "when it was generated", |all| all.of(|one, _| one.start.as_ns_f64())),
        numbers("delivered_ns", "when its last byte was delivered", |all| {
            all.of(|one, _| event_ns(one.delivered))
        }),
        numbers("acked_ns", "when its source received the last acknowledgement", |all| {
            all.of(|one, _| event_ns(one.acked))
        }),
        numbers("ideal_ns", "duration until delivery on an empty network", |all| {
            all.of(|_, ideal| event_ns(ideal.delivered))
        }),
        numbers("ideal_acked_ns", "duration until the last acknowledgement on an empty network", |all| {
            all.of(|_, ideal| event_ns(ideal.acked))
        }),
        numbers("slowdown", "duration relative to `ideal_ns`", |all| {
            all.of(|one, ideal| slowdown(one, one.delivered, ideal.delivered))
        }),
        numbers("acked_slowdown", "duration relative to `ideal_acked_ns`", |all| {
            all.of(|one, ideal| slowdown(one, one.acked, ideal.acked))
        }),
    ],
};

impl Section for Completions {
    type Entry = Option<TransferSummary>;
    const WHEN: &'static str = "with measure.transfers = true";
    const TABLES: &'static [&'static dyn Described] = &[&TRANSFERS];

    fn new(of: &Recording) -> Option<Self> {
        of.transfers.clone().map(Self::of)
    }

    /// The results, with the transfers that have not finished.
    fn close(mut self, end: &mut Ending) -> SectionResult<Self::Entry> {
        let view = end.view;
        let mut sketches = match self.sketches.take() {
            None => self.sketches(view),
            Some(sketches) => sketches,
        };
        let of_partitions = view.partitions.iter().filter_map(|one| one.ctx.meters.transfers.as_deref());
        let mut open: Vec<Transfer> = of_partitions.flat_map(Transfers::open).copied().collect();
        open.sort_unstable_by_key(Transfer::order);
        let undelivered = open.iter().filter(|one| one.delivered == Time::NEVER).count() as u64;
        let unfinished = open.len() as u64;
        let rows_of_all = self.finished + unfinished;
        let room = self.most_rows.saturating_sub(self.rows.len());
        for transfer in open.into_iter().take(room) {
            let ideal = self.ideal(view, &transfer);
            self.rows.push((transfer, ideal));
        }
        self.rows.sort_by_key(|(transfer, _)| transfer.order());
        let classes = &end.names.classes;
        let name = |class: u16| match class < self.plan.flows {
            true => "flows".to_owned(),
            false => classes[usize::from(class)].clone(),
        };
        let is_rounded = self.finished > self.most_rows as u64;
        let sizes = sketches.iter_mut().map(|(&(class, range), sketch)| {
            let [delivered, acked] = &mut sketch.0;
            let count = delivered.count();
            let shares = [0.5, 0.95, 0.99];
            TransferSizes {
                class: name(class),
                above_bytes: range.map(|range| range.checked_sub(1).map_or(0, |below| SIZES[below])),
                up_to_bytes: range.and_then(|range| SIZES.get(range).copied()),
                transfers: count,
                slowdown: delivered.at(shares).unwrap_or_default().into(),
                acked_slowdown: acked.at(shares).map(Into::into),
            }
        });
        let summary = TransferSummary {
            started: rows_of_all,
            unfinished,
            undelivered,
            quantile_error: if is_rounded { 0.001 } else { 0.0 },
            sizes: sizes.collect(),
        };
        let kept = self.rows.len() as u64;
        let warning = (kept < rows_of_all).then(|| {
            format!(
                "the table of transfers contains only the first {kept} of {rows_of_all}; the summary counts all, and its \
                 quantiles have an error of up to 0.1 %"
            )
        });
        let classes = Arc::new((0..classes.len() as u16).map(name).collect());
        let table = TRANSFERS.fill(TransferRows { classes, rows: RowsOf(self.rows) }, end.names);
        let account = vec![sentence(&summary)];
        SectionResult {
            entry: Some(summary),
            tables: vec![table],
            account,
            warnings: warning.into_iter().collect(),
        }
    }
}

fn sentence(summary: &TransferSummary) -> String {
    let TransferSummary { started, unfinished, .. } = *summary;
    let all = summary.sizes.iter().filter(|one| one.above_bytes.is_none());
    let each = all.map(|one| {
        // The highest percentile that at least one transfer exceeds.
        let highest = match one.transfers {
            0..20 => None,
            20..100 => Some("95th"),
            _ => Some("99th"),
        };
        let of = |found: &SlowdownQuantiles| if one.transfers < 100 { found.p95 } else { found.p99 };
        let high =
            highest.map(|name| format!(", and {:.2} times at the {name} percentile", of(&one.slowdown)));
        let end = one.acked_slowdown.as_ref().map(|acked| {
            let high = highest.map(|_| format!(" and {:.2}", of(acked))).unwrap_or_default();
            format!(", until the last acknowledgement {:.2}{high}", acked.p50)
        });
        format!(
            " Those of `{}` took {:.2} times as long as on an empty network in the median{}{}.",
            one.class,
            one.slowdown.p50,
            high.unwrap_or_default(),
            end.unwrap_or_default()
        )
    });
    format!("{unfinished} of {started} transfers were unfinished at the end.{}", each.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_ranks_and_histograms_are_close_to_them() {
        let mut exact = Quantiles::default();
        assert_eq!(exact.at([0.5, 0.95, 0.99]), None);
        (1..=200).rev().for_each(|value| exact.record(f64::from(value)));
        let mut rounded = Quantiles::default();
        (1..=200).for_each(|value| rounded.record(f64::from(value)));
        rounded.round();
        assert!(matches!(rounded, Quantiles::Rounded(_)));
        assert_eq!(exact.at([0.5, 0.95, 0.99]), Some([100.0, 190.0, 198.0]));
        let close = rounded.at([0.5, 0.95, 0.99]).unwrap_or_default();
        for (close, exact) in close.into_iter().zip([100.0, 190.0, 198.0]) {
            assert!((close / exact - 1.0_f64).abs() <= 0.001, "{close} {exact}");
        }
        assert_eq!((exact.count(), rounded.count()), (200, 200));
    }
}
