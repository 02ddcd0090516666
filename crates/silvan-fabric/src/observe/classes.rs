//! Time series of traffic classes: delivered payload, latency, and share of marked packets.

use std::mem::take;
use std::sync::Arc;

use silvan_engine::Time;
use silvan_engine::saved::Saved;

use crate::meters::{ClassMeter, rate_gbit_s};
use crate::observe::latest::tail;
use crate::table::{Layout, counts, names, numbers};

/// The series over time, with one row per class and interval.
#[derive(Debug, Default, Saved)]
pub(crate) struct ClassRows {
    /// `None` if the series are not recorded.
    names: Option<Arc<Vec<String>>>,
    time_ns: Vec<u64>,
    class: Vec<u32>,
    packets: Vec<u64>,
    marked: Vec<u64>,
    validated: Vec<u64>,
    throughput: Vec<f64>,
    since_generation: Vec<f64>,
    since_injection: Vec<f64>,
    longest: Vec<f64>,
    /// For each class, the payload delivered up to the end of the last interval.
    last: Vec<u64>,
}

impl ClassRows {
    pub fn new(names: Option<Arc<Vec<String>>>) -> Self {
        let last = vec![0; names.as_ref().map_or(0, |names| names.len())];
        Self { names, last, ..Self::default() }
    }

    /// Adds the rows of the interval of length `span` that ends now.
    pub fn sample(&mut self, now: Time, span: Time, classes: &[ClassMeter]) {
        for (index, class) in classes.iter().enumerate() {
            let tally = &class.interval;
            // There are no values if the series are not recorded.
            let Some(last) = self.last.get_mut(index) else { continue };
            let of_packets = |sum_ps: u128| match tally.packets {
                0 => f64::NAN,
                packets => sum_ps as f64 / packets as f64 / 1_000.0,
            };
            let longest = if tally.packets == 0 { f64::NAN } else { tally.longest.as_ns_f64() };
            self.time_ns.push(now.0 / 1_000);
            self.class.push(index as u32);
            self.packets.push(tally.packets);
            self.marked.push(tally.marked);
            self.validated.push(tally.validated);
            self.throughput.push(rate_gbit_s(class.delivered_bytes - *last, span));
            self.since_generation.push(of_packets(tally.generation_ps));
            self.since_injection.push(of_packets(tally.injection_ps));
            self.longest.push(longest);
            *last = class.delivered_bytes;
        }
    }

    /// Throughput in Gbit/s and mean latency since injection in ns, for each class in the last interval.
    pub fn latest(&self) -> (&[f64], &[f64]) {
        let classes = self.last.len();
        (tail(&self.throughput, classes), tail(&self.since_injection, classes))
    }
}

pub(super) const CLASSES: Layout<ClassRows> = Layout {
    name: "classes",
    rows: "A row per class (a flow, a pattern of traffic, a role of a forest) and interval; empty with measure.classes = false.",
    columns: &[
        counts("time_ns", "end of the interval", |all| take(&mut all.time_ns)),
        names(
            "class",
            "the name",
            |all, _| all.names.clone().unwrap_or_default(),
            |all| take(&mut all.class),
        ),
        counts("delivered_packets", "delivered", |all| take(&mut all.packets)),
        counts("marked_packets", "delivered packets with the FECN bit", |all| take(&mut all.marked)),
        counts("validated_packets", "those of them that also have the validation bit", |all| {
            take(&mut all.validated)
        }),
        numbers("throughput_gbit_s", "payload delivered", |all| take(&mut all.throughput)),
        numbers(
            "mean_since_generation_ns",
            "mean latency of these packets since the generation of their message (or NaN)",
            |all| take(&mut all.since_generation),
        ),
        numbers("mean_since_injection_ns", "the same since the packet began to leave its host", |all| {
            take(&mut all.since_injection)
        }),
        numbers("max_since_generation_ns", "the largest such latency", |all| take(&mut all.longest)),
    ],
};
