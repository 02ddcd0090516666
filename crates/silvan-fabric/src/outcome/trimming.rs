//! Packet trimming: which outputs trimmed how many packets.

use schemars::JsonSchema;
use serde::Serialize;
use silvan_congestion::reaction::{NsccRules, Reaction};
use silvan_engine::saved::Saved;

use super::section::{Ending, Recording, Section, SectionResult};
use crate::table::{Described, Layout, RowsOf, counts, links, names};

/// Packets that switches trimmed over the whole run. The table `trimming` has the outputs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct TrimmingSummary {
    /// Number of data packets whose payload a switch removed. A packet that was sent again can be trimmed
    /// again.
    pub trimmed_packets: u64,
    /// Number of data packets that were sent again; `packets_injected` includes them.
    pub retransmitted_packets: u64,
    /// The most bytes of headers and other control packets that waited for one output of a switch, without
    /// the packet that was being sent.
    pub most_header_bytes: u64,
}

/// The index of a link in the results, and the number of packets.
type Row = (u32, u64);

const TRIMMING: Layout<RowsOf<Row>> = Layout {
    name: "trimming",
    rows: "A row per output that trimmed packets.",
    columns: &[
        names("link", "the channel", links, |all| all.of(|row| row.0)),
        counts("trimmed_packets", "in the whole run", |all| all.of(|row| row.1)),
    ],
};

/// Packet trimming.
#[derive(Saved)]
pub(crate) struct TrimmingSection;

impl Section for TrimmingSection {
    type Entry = Option<TrimmingSummary>;
    const WHEN: &'static str = "with switch.trimming";
    const TABLES: &'static [&'static dyn Described] = &[&TRIMMING];

    fn new(of: &Recording) -> Option<Self> {
        of.config.switch.trimming.is_some().then_some(Self)
    }

    fn close(self, end: &mut Ending) -> SectionResult<Self::Entry> {
        let outputs = (0..).zip(end.links).filter_map(|(index, link)| Some((index, link.switch?)));
        let rows = outputs.map(|(index, (switch, output))| (index, end.view.trimmed(switch, output)));
        let tables = vec![TRIMMING.fill(rows.filter(|row| row.1 > 0).collect(), end.names)];
        let meters = end.view.totals;
        let sentence = if meters.trimmed == 0 {
            "No packet was trimmed.".to_owned()
        } else {
            format!(
                "Switches trimmed {} data packets ({:.2} % of those injected), and sources sent {} packets again; up to {} bytes \
                 of headers and other control packets waited for one output.",
                meters.trimmed,
                100.0 * meters.trimmed as f64 / meters.packets_injected.max(1) as f64,
                meters.resent,
                meters.most_header_bytes
            )
        };
        let mut warnings = Vec::new();
        if meters.trimmed > 10 * meters.packets_delivered.max(10) {
            let hint = match &end.parts.reaction {
                Reaction::Nscc(nscc) if nscc.rule == NsccRules::Htsim => {
                    " (not with congestion.reaction.rule = \"spec\")"
                }
                _ => "",
            };
            warnings.push(format!(
                "Switches trimmed {} data packets, and {} were delivered: headers, which precede data, took the time of outputs. \
                 This happens if many sources have windows for many small packets{hint}.",
                meters.trimmed, meters.packets_delivered
            ));
        }
        let entry = TrimmingSummary {
            trimmed_packets: meters.trimmed,
            retransmitted_packets: meters.resent,
            most_header_bytes: meters.most_header_bytes.into(),
        };
        SectionResult { entry: Some(entry), tables, account: vec![sentence], warnings }
    }
}
