//! Repeated work that was not simulated.

use schemars::JsonSchema;
use serde::Serialize;
use silvan_engine::saved::Saved;

/// An interval that was not simulated.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, Saved)]
pub struct SkippedInterval {
    /// Start of the skipped interval, ns.
    pub from_ns: f64,
    /// End of the skipped interval, ns.
    pub to_ns: f64,
    /// Start of the simulated interval that each skipped period repeats, ns. It ends where the skipped interval starts.
    pub repeats_from_ns: f64,
    /// Number of periods in the skipped interval.
    pub periods: u64,
    /// Hash of the relative state at the start and at the end of each period. The states were also compared byte by byte.
    pub state: String,
}

/// The repeated work that was skipped.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema, Saved)]
pub struct SkippingSummary {
    /// Number of compared states: at times at which a rank has begun to repeat a part of its program.
    pub boundaries: u64,
    /// Number of these states that equal an earlier one of the same sampling interval.
    pub equal: u64,
    /// Number of skipped periods.
    pub skipped_periods: u64,
    /// Simulated time that was skipped, ns.
    pub skipped_ns: f64,
    /// The skipped intervals.
    pub intervals: Vec<SkippedInterval>,
    /// Why nothing can be skipped, as a clause; None if something might be.
    pub obstacle: Option<String>,
}

impl SkippingSummary {
    /// A sentence for the account.
    pub(crate) fn sentence(&self) -> String {
        if let Some(obstacle) = &self.obstacle {
            return format!("No repeated work was skipped because {obstacle}.");
        }
        format!(
            "{} repetitions of work ({:.3} ms) were skipped, in {} intervals; {} of {} compared states were equal to earlier ones.",
            self.skipped_periods,
            self.skipped_ns / 1e6,
            self.intervals.len(),
            self.equal,
            self.boundaries
        )
    }
}
