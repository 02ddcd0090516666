//! Link-level retry: the frames of each link that were bad, discarded or sent again.

use schemars::JsonSchema;
use serde::Serialize;
use silvan_engine::saved::Saved;

use super::section::{Ending, Recording, Section, SectionResult, times};
use crate::link::Retries;
use crate::table::{Described, Layout, RowsOf, counts, links, names};

/// Frames and messages of link-level retry over the whole run, on all links together. The table `retries` has
/// the values of single links. Frames and messages that have not arrived at the end of the run are included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RetrySummary {
    /// Number of frames that were sent for the first time, counted once per link.
    pub frames: u64,
    /// Number of frames that were sent again.
    pub replayed: u64,
    /// Number of frames that were discarded because they were bad.
    pub bad: u64,
    /// Number of good frames that were discarded because the receiver expected another one.
    pub discarded: u64,
    /// Number of acknowledgements.
    pub acks: u64,
    /// Number of NACKs.
    pub nacks: u64,
    /// Number of acknowledgements and NACKs that got lost.
    pub lost: u64,
    /// Number of replays that a timer triggered.
    pub timeouts: u64,
}

/// The index of a link in the results, and its counts.
type Row = (u32, Retries);

const RETRIES: Layout<RowsOf<Row>> = Layout {
    name: "retries",
    rows: "A row per channel on which frames were sent, with link-level retry.",
    columns: &[
        names("link", "the channel", links, |all| all.of(|row| row.0)),
        counts("frames", "frames sent for the first time, which `packet_hops` counts", |all| {
            all.of(|row| row.1.frames)
        }),
        counts("replayed", "frames sent again, which only the `sent_bytes` of links count", |all| {
            all.of(|row| row.1.replayed)
        }),
        counts("bad", "frames with an error", |all| all.of(|row| row.1.bad)),
        counts("discarded", "good frames, but the receiver expected another one", |all| {
            all.of(|row| row.1.discarded)
        }),
        counts("acks", "acknowledgements", |all| all.of(|row| row.1.acks)),
        counts("nacks", "negative acknowledgements", |all| all.of(|row| row.1.nacks)),
        counts("lost", "acknowledgements of either kind that did not arrive", |all| all.of(|row| row.1.lost)),
        counts("timeouts", "replays because the timer expired", |all| all.of(|row| row.1.timeouts)),
    ],
};

/// Link-level retry.
#[derive(Saved)]
pub(crate) struct RetrySection;

impl Section for RetrySection {
    type Entry = Option<RetrySummary>;
    const WHEN: &'static str = "with link.retry";
    const TABLES: &'static [&'static dyn Described] = &[&RETRIES];

    fn new(of: &Recording) -> Option<Self> {
        of.config.link.retry.is_some().then_some(Self)
    }

    fn close(self, end: &mut Ending) -> SectionResult<Self::Entry> {
        let links = (0..).zip(end.links);
        let rows: RowsOf<Row> =
            links.filter_map(|(index, link)| Some((index, end.view.retries(link.channel)?))).collect();
        let mut sum = RetrySummary::default();
        for (_, counts) in &rows.0 {
            let Retries { frames, replayed, bad, discarded, acks, nacks, lost, timeouts } = *counts;
            sum.frames += frames;
            sum.replayed += replayed;
            sum.bad += bad;
            sum.discarded += discarded;
            sum.acks += acks;
            sum.nacks += nacks;
            sum.lost += lost;
            sum.timeouts += timeouts;
        }
        let RetrySummary { frames, replayed, bad, timeouts, .. } = sum;
        let expired = times(timeouts);
        let sentence = format!(
            "Of {frames} frames on links, {bad} were bad; {replayed} were sent again, and timers of links expired {expired}."
        );
        let tables = vec![RETRIES.fill(rows, end.names)];
        SectionResult { entry: Some(sum), tables, account: vec![sentence], ..SectionResult::default() }
    }
}
