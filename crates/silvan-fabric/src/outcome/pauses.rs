//! The pauses of virtual lanes by pause frames or on/off messages: a table, and the watchdog for long pauses.

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::Serialize;
use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_network::port::Vl;

use super::section::{Ending, Recording, Section, SectionResult, times};
use crate::config::FlowControl;
use crate::link::{Overflow, Paused};
use crate::observe::LinkName;
use crate::partition::View;
use crate::table::{Described, Layout, RowsOf, counts, links, names, numbers, small};

/// Pauses of virtual lanes by pause frames or on/off messages over the whole run. The table `pauses` has the
/// values of single lanes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct PauseSummary {
    /// Number of lanes that were paused; each direction of a link has its own lanes.
    pub lanes: u64,
    /// Number of pause frames or stop messages, counted once per lane that they paused.
    pub pause_frames: u64,
    /// Sum of the times for which lanes were paused, ns.
    pub paused_ns: f64,
    /// The longest pause without interruption, ns.
    pub longest_ns: f64,
    /// The link of that pause; None without any.
    pub longest_link: Option<String>,
    /// The virtual lane of that pause; None without any.
    pub longest_vl: Option<u8>,
}

/// A lane that was paused: the index of its link in the results, and the lane.
type Lane = (usize, Vl);

/// All lanes that were paused, in the order of the links.
fn lanes<'v>(view: View<'v>, links: &'v [LinkName]) -> impl Iterator<Item = (Lane, Paused)> + 'v {
    links.iter().enumerate().flat_map(move |(index, link)| {
        let lanes = Vl::all(link.lanes);
        lanes.filter_map(move |vl| Some(((index, vl), view.paused(link.channel, vl)?)))
    })
}

/// The message about a packet that did not fit into the buffer at the end of a link. `advice` states how a
/// lane gets more space above its threshold.
pub(crate) fn overflow_in_words(found: Overflow, link: &str, advice: &str) -> String {
    let Overflow { vl, lack, .. } = found;
    let (missing, headroom) = (lack.missing, lack.headroom);
    let (whose, advice) = if lack.is_pool {
        ("all lanes of the switch", "increase flow_control.shared.headroom_pool")
    } else {
        ("the lane", advice)
    };
    format!(
        "the receiver of {link} lacks {missing} B for a packet on VL {vl}, because the headroom of {whose} is only \
         {headroom} B; {advice}, or leave it out"
    )
}

const PAUSES: Layout<RowsOf<(Lane, Paused)>> = Layout {
    name: "pauses",
    rows: "A row per virtual lane that was paused at least once, with pause frames or on/off messages.",
    columns: &[
        names("link", "the channel", links, |all| all.of(|row| row.0.0 as u32)),
        small("vl", "the lane", |all| all.of(|row| row.0.1.0.into())),
        counts("pause_frames", "frames (or messages) that took effect at the sender", |all| {
            all.of(|row| row.1.pauses)
        }),
        counts("resume_frames", "frames (or messages) that took effect at the sender", |all| {
            all.of(|row| row.1.resumes)
        }),
        numbers("paused_ns", "sum of all pauses", |all| all.of(|row| row.1.total.as_ns_f64())),
        numbers("longest_ns", "longest pause, including one that lasts at the end of the run", |all| {
            all.of(|row| row.1.longest.as_ns_f64())
        }),
        numbers("first_ns", "start of the first pause", |all| all.of(|row| row.1.first.as_ns_f64())),
    ],
};

/// Pauses by pause frames or on/off messages.
#[derive(Saved)]
pub(crate) struct PauseSection {
    /// The minimum length of the pauses that the watchdog reports; `None` without a watchdog.
    watchdog: Option<Time>,
}

impl Section for PauseSection {
    type Entry = Option<PauseSummary>;
    const WHEN: &'static str = "with flow_control.kind = \"pfc\" or \"on-off\"";
    const TABLES: &'static [&'static dyn Described] = &[&PAUSES];

    fn new(of: &Recording) -> Option<Self> {
        match &of.config.flow_control {
            FlowControl::OnOff(_) => Some(Self { watchdog: None }),
            FlowControl::Pfc(pfc) => Some(Self { watchdog: pfc.watchdog }),
            _ => None,
        }
    }

    fn close(self, end: &mut Ending) -> SectionResult<Self::Entry> {
        let rows: RowsOf<(Lane, Paused)> = lanes(end.view, end.links).collect();
        let mut sum = PauseSummary::default();
        let mut longest = Time::ZERO;
        for ((link, vl), paused) in &rows.0 {
            sum.lanes += 1;
            sum.pause_frames += paused.pauses;
            sum.paused_ns += paused.total.as_ns_f64();
            if paused.longest > longest {
                longest = paused.longest;
                sum.longest_ns = longest.as_ns_f64();
                sum.longest_link = Some(end.link(*link).to_owned());
                sum.longest_vl = Some(vl.0);
            }
        }
        let warnings = self.watchdog.and_then(|limit| warning(&rows, limit, end)).into_iter().collect();
        let account = vec![sentence(&sum)];
        SectionResult { entry: Some(sum), tables: vec![PAUSES.fill(rows, end.names)], account, warnings }
    }
}

fn sentence(pauses: &PauseSummary) -> String {
    let Some(link) = &pauses.longest_link else { return "No lane was paused.".into() };
    let lanes = if pauses.lanes == 1 { "one lane".to_owned() } else { format!("{} lanes", pauses.lanes) };
    let times = times(pauses.pause_frames);
    let longest = pauses.longest_ns / 1_000.0;
    format!("Pause frames stopped {lanes} {times}; the longest pause, of {link}, took {longest:.1} us.")
}

/// The warning about lanes that were paused for at least `limit` without interruption; `None` without such
/// lanes. The warning names the longest pause.
fn warning(rows: &RowsOf<(Lane, Paused)>, limit: Time, end: &Ending) -> Option<String> {
    let long = || rows.0.iter().filter(|(_, paused)| paused.longest >= limit);
    let ((link, vl), paused) =
        long().min_by_key(|((link, vl), paused)| (Reverse(paused.longest), *link, vl.0))?;
    let others = match long().count() - 1 {
        0 => String::new(),
        1 => ", and one other lane was paused for longer than flow_control.watchdog, too".to_owned(),
        count => format!(", and {count} other lanes were paused for longer than flow_control.watchdog, too"),
    };
    Some(format!(
        "Pause watchdog: {} (VL {vl}) was paused for {} without interruption{others}.",
        end.link(*link),
        paused.longest
    ))
}
