//! Flows that are announced before they start.

use schemars::JsonSchema;
use serde::Serialize;
use silvan_congestion::reaction::Reaction;
use silvan_engine::saved::Saved;

use super::section::{Ending, Recording, Section, SectionResult};
use crate::config::RoutePer;

/// Flows that are announced before they start (adaptive routing per flow, explicit rates).
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AnnouncedSummary {
    /// Number of flows that were permitted to start.
    pub flows: u64,
    /// Number of probes that returned. If data packets read the weights of links, number of returned weights.
    pub probes: u64,
    /// The maximum, over all links and times, of the time in ns that a link needs for all flows announced to
    /// it. No assignment of rates can finish these flows sooner.
    pub busiest_link_ns: u64,
}

/// Announced flows.
#[derive(Saved)]
pub(crate) struct AnnouncedSection;

impl Section for AnnouncedSection {
    type Entry = Option<AnnouncedSummary>;

    fn new(of: &Recording) -> Option<Self> {
        let explicit = matches!(of.parts.reaction, Reaction::ExplicitRate(_));
        (explicit || of.config.chosen_routes(RoutePer::Flow).is_some()).then_some(Self)
    }

    fn close(self, end: &mut Ending) -> SectionResult<Self::Entry> {
        let meters = end.view.totals;
        let entry = AnnouncedSummary {
            flows: meters.announced,
            probes: meters.probes,
            busiest_link_ns: meters.busiest_link_ps / 1_000,
        };
        SectionResult {
            entry: Some(entry),
            warnings: end.config.announced_packets(),
            ..SectionResult::default()
        }
    }
}
