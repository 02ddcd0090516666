//! The pauses of virtual lanes by pause frames: a table, and the watchdog for long pauses.

use std::sync::Arc;

use silvan_engine::Time;
use silvan_network::port::Vl;

use crate::link::{Overflow, Paused};
use crate::observe::series::LinkName;
use crate::outcome::{Column, PauseSummary, Table, Values};
use crate::partition::View;

/// A lane that was paused: the index of its link in the results, and the lane.
type Lane = (usize, Vl);

/// All lanes that were paused, in the order of the links.
fn lanes<'v>(view: View<'v>, links: &'v [LinkName]) -> impl Iterator<Item = (Lane, Paused)> + 'v {
    links.iter().enumerate().flat_map(move |(index, link)| {
        let lanes = Vl::all(link.lanes);
        lanes.filter_map(move |vl| Some(((index, vl), view.paused(link.channel, vl)?)))
    })
}

/// A pause that has reached the limit of the watchdog.
#[derive(Debug, Clone)]
pub(crate) struct LongPause {
    pub link: usize,
    pub vl: Vl,
    pub longest: Time,
}

/// The lanes that have been paused for at least `limit` without interruption, the longest pause first.
pub(crate) fn long_pauses(view: View, links: &[LinkName], limit: Time) -> Vec<LongPause> {
    let long = lanes(view, links).filter(|(_, paused)| paused.longest >= limit);
    let mut found: Vec<LongPause> =
        long.map(|((link, vl), paused)| LongPause { link, vl, longest: paused.longest }).collect();
    found.sort_by_key(|pause| (std::cmp::Reverse(pause.longest), pause.link, pause.vl.0));
    found
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

/// Totals over all lanes, with pause frames or on/off flow control.
pub(crate) fn summary(view: View, links: &[LinkName], names: &[String]) -> Option<PauseSummary> {
    view.partitions.first()?.ctx.links.frames()?;
    let mut found = PauseSummary::default();
    let mut longest = Time::ZERO;
    for ((link, vl), paused) in lanes(view, links) {
        found.lanes += 1;
        found.pause_frames += paused.pauses;
        found.paused_ns += paused.total.0 as f64 / 1e3;
        if paused.longest > longest {
            longest = paused.longest;
            found.longest_ns = longest.0 as f64 / 1e3;
            found.longest_link = Some(names[link].clone());
            found.longest_vl = Some(vl.0);
        }
    }
    Some(found)
}

/// The table: a row for each lane that was paused.
pub(crate) fn table(view: View, links: &[LinkName], names: &[String]) -> Option<Table> {
    view.partitions.first()?.ctx.links.frames()?;
    let ns = |time: Time| time.0 as f64 / 1e3;
    let (mut codes, mut vls, mut pauses, mut resumes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut total, mut longest, mut first) = (Vec::new(), Vec::new(), Vec::new());
    for ((link, vl), paused) in lanes(view, links) {
        codes.push(link as u32);
        vls.push(vl.0.into());
        pauses.push(paused.pauses);
        resumes.push(paused.resumes);
        total.push(ns(paused.total));
        longest.push(ns(paused.longest));
        first.push(ns(paused.first));
    }
    let column = |name, values| Column { name, values };
    let names = Arc::new(names.to_vec());
    Some(Table {
        name: "pauses",
        columns: vec![
            column("link", Values::Name { codes, names }),
            column("vl", Values::U32(vls)),
            column("pause_frames", Values::U64(pauses)),
            column("resume_frames", Values::U64(resumes)),
            column("paused_ns", Values::F64(total)),
            column("longest_ns", Values::F64(longest)),
            column("first_ns", Values::F64(first)),
        ],
    })
}
