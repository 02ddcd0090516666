//! Link-level retry: the frames of each link that were bad, discarded or sent again.

use std::sync::Arc;

use crate::link::Retries;
use crate::observe::series::LinkName;
use crate::outcome::{Column, RetrySummary, Table, Values};
use crate::partition::View;

/// All links on which frames were sent, by their index in the results.
fn links<'v>(view: View<'v>, links: &'v [LinkName]) -> impl Iterator<Item = (usize, Retries)> + 'v {
    links.iter().enumerate().filter_map(move |(index, link)| Some((index, view.retries(link.channel)?)))
}

/// Totals over all links, with link-level retry.
pub(crate) fn summary(view: View, of: &[LinkName]) -> Option<RetrySummary> {
    view.partitions.first()?.ctx.links.retry()?;
    let mut sum = RetrySummary::default();
    for (_, counts) in links(view, of) {
        let Retries { frames, replayed, bad, discarded, acks, nacks, lost, timeouts } = counts;
        sum.frames += frames;
        sum.replayed += replayed;
        sum.bad += bad;
        sum.discarded += discarded;
        sum.acks += acks;
        sum.nacks += nacks;
        sum.lost += lost;
        sum.timeouts += timeouts;
    }
    Some(sum)
}

/// The table: a row for each link on which frames were sent.
pub(crate) fn table(view: View, of: &[LinkName], names: &[String]) -> Option<Table> {
    view.partitions.first()?.ctx.links.retry()?;
    let (rows, counts): (Vec<u32>, Vec<Retries>) =
        links(view, of).map(|(index, counts)| (index as u32, counts)).unzip();
    let column =
        |name, of: fn(&Retries) -> u64| Column { name, values: Values::U64(counts.iter().map(of).collect()) };
    let names = Arc::new(names.to_vec());
    Some(Table {
        name: "retries",
        columns: vec![
            Column { name: "link", values: Values::Name { codes: rows, names } },
            column("frames", |counts| counts.frames),
            column("replayed", |counts| counts.replayed),
            column("bad", |counts| counts.bad),
            column("discarded", |counts| counts.discarded),
            column("acks", |counts| counts.acks),
            column("nacks", |counts| counts.nacks),
            column("lost", |counts| counts.lost),
            column("timeouts", |counts| counts.timeouts),
        ],
    })
}
