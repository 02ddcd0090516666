//! Packets that overtook others of their flow.

use schemars::JsonSchema;
use serde::Serialize;
use silvan_engine::saved::Saved;

use super::section::{Ending, Recording, Section, SectionResult};

/// Packets that overtook others of their flow. Causes are spraying, adaptive routing per packet, UGAL, and
/// packets that are sent again.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ReorderingSummary {
    /// Number of packets that arrived after a later packet of their flow.
    pub late_packets: u64,
    /// Number of packets that waited at the receiver for an earlier one.
    pub held_packets: u64,
    /// Mean time in ns that these packets waited for delivery after they had been drained; 0 if none waited.
    pub mean_held_ns: f64,
    /// Largest payload that one host held at a time, bytes.
    pub most_held_bytes: u64,
}

#[derive(Saved)]
pub(crate) struct ReorderingSection;

impl Section for ReorderingSection {
    type Entry = Option<ReorderingSummary>;

    fn new(of: &Recording) -> Option<Self> {
        of.config.may_reorder().then_some(Self)
    }

    fn close(self, end: &mut Ending) -> SectionResult<Self::Entry> {
        let meters = end.view.totals;
        let found = meters.reordering;
        let sentence = format!(
            "{} packets arrived after a later packet of their flow ({:.2} % of those delivered); hosts held up to {} bytes \
             until earlier packets had arrived.",
            found.late,
            100.0 * found.late as f64 / meters.packets_delivered.max(1) as f64,
            found.most_bytes
        );
        let entry = ReorderingSummary {
            late_packets: found.late,
            held_packets: found.held,
            mean_held_ns: found.waited_ps as f64 / found.released.max(1) as f64 / 1_000.0,
            most_held_bytes: found.most_bytes,
        };
        SectionResult { entry: Some(entry), account: vec![sentence], ..SectionResult::default() }
    }
}
