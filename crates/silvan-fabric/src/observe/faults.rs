//! Changes of links and hosts during a run: the table of changes, and the packets that were lost on each link.

use std::sync::Arc;

use silvan_engine::{Rate, Time};

use crate::faults::{HostChange, LinkChange, PlannedChanges};
use crate::link::LossCounts;
use crate::observe::series::LinkName;
use crate::outcome::{Column, LossSummary, RecoverySummary, Table, Values};
use crate::partition::View;

/// The changes of a run.
#[derive(Debug, Default)]
pub(crate) struct ChangeLog {
    pub changes: PlannedChanges,
    /// The times at which switches change their tables.
    pub tables: Vec<Time>,
    /// Names of all links, followed by those of all hosts.
    pub names: Vec<String>,
    /// Number of links.
    pub links: usize,
    /// The rates of the links of hosts.
    pub rates: Vec<Rate>,
}

/// What happened, by index.
const WHAT: [&str; 4] = ["down", "up", "stalls", "drains"];

/// A row of the table of changes.
struct Row {
    time: Time,
    name: usize,
    what: u32,
    rate: Rate,
}

impl ChangeLog {
    /// The changes of links that had occurred at a time.
    fn of_links(&self, now: Time) -> &[LinkChange] {
        let all = &self.changes.links;
        &all[..all.partition_point(|change| change.time <= now)]
    }

    /// The changes of hosts that had occurred at a time.
    fn of_hosts(&self, now: Time) -> &[HostChange] {
        let all = &self.changes.hosts;
        &all[..all.partition_point(|change| change.time <= now)]
    }

    fn rows(&self, now: Time) -> Vec<Row> {
        let of_link = |&LinkChange { time, link, state }: &LinkChange| Row {
            time,
            name: link,
            what: u32::from(state.is_up),
            rate: state.rate,
        };
        let of_host = |&HostChange { time, host, state }: &HostChange| {
            let stalls = state.stalls_until > Time::ZERO;
            let usual = self.rates[host];
            let rate = if stalls { Rate(0) } else { state.drain.unwrap_or(usual).min(usual) };
            Row { time, name: self.links + host, what: if stalls { 2 } else { 3 }, rate }
        };
        let links = self.of_links(now).iter().map(of_link);
        let mut rows: Vec<Row> = links.chain(self.of_hosts(now).iter().map(of_host)).collect();
        rows.sort_by_key(|row| row.time);
        rows
    }

    /// The table: a row for each change of a link or host, with its state from then on.
    pub fn table(&self, now: Time) -> Table {
        let rows = self.rows(now);
        let name = |codes: Vec<u32>, names: Vec<String>| Values::Name { codes, names: Arc::new(names) };
        let numbers = |of: fn(&Row) -> f64| Values::F64(rows.iter().map(of).collect());
        let places = rows.iter().map(|row| row.name as u32).collect();
        let states = rows.iter().map(|row| row.what).collect();
        Table {
            name: "events",
            columns: vec![
                Column { name: "place", values: name(places, self.names.clone()) },
                Column { name: "time_ns", values: numbers(|row| row.time.0 as f64 / 1_000.0) },
                Column { name: "state", values: name(states, WHAT.map(str::to_owned).to_vec()) },
                Column { name: "rate_gbit_s", values: numbers(|row| row.rate.0 as f64 / 1e9) },
            ],
        }
    }

    /// Describes the changes.
    pub fn sentences(&self, now: Time) -> Vec<String> {
        let mut found = vec![self.sentence_of_links(now)];
        let mut hosts: Vec<usize> = self.of_hosts(now).iter().map(|change| change.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        if !self.changes.hosts.is_empty() {
            let count = match hosts.len() {
                0 => "No host".to_owned(),
                1 => self.names[self.links + hosts[0]].clone(),
                count => format!("{count} hosts"),
            };
            found
                .push(format!("{count} stalled, or took packets out of the input buffer slower than usual."));
        }
        let tables = self.tables.iter().filter(|&&time| time <= now);
        match (tables.clone().next(), tables.count()) {
            (None, _) => {}
            (Some(first), 1) => found.push(format!("Switches changed their forwarding tables at {first}.")),
            (Some(first), count) => {
                found.push(format!(
                    "Switches changed their forwarding tables {count} times, first at {first}."
                ));
            }
        }
        if self.changes.links.is_empty() && !self.changes.hosts.is_empty() {
            found.remove(0);
        }
        found
    }

    fn sentence_of_links(&self, now: Time) -> String {
        let list = self.of_links(now);
        let mut links: Vec<usize> = list.iter().map(|change| change.link).collect();
        links.sort_unstable();
        links.dedup();
        let shown = links.iter().take(3).map(|&link| {
            let (mut is_up, mut downs, mut last) = (true, 0, None);
            for change in list.iter().filter(|change| change.link == link) {
                downs += u32::from(is_up && !change.state.is_up);
                is_up = change.state.is_up;
                last = Some(change.state);
            }
            let at_end = match last {
                Some(state) if state.is_up => format!("up at {}", state.rate),
                _ => "down".to_owned(),
            };
            let went_down = match downs {
                0 => "did not go down".to_owned(),
                1 => "went down once".to_owned(),
                _ => format!("went down {downs} times"),
            };
            format!("{} {went_down} and was {at_end} at the end", self.names[link])
        });
        let shown = shown.collect::<Vec<_>>().join("; ");
        match links.len() {
            0 => "No link changed before the end of the run.".to_owned(),
            1..=3 => format!("Links changed during the run: {shown}."),
            4 => format!("Links changed during the run: {shown}; one other link changed."),
            count => format!("Links changed during the run: {shown}; {} other links changed.", count - 3),
        }
    }
}

/// All links on which packets were lost, by their index in the results.
fn links(view: View, of: &[LinkName]) -> Vec<(u32, LossCounts)> {
    let all = of.iter().enumerate().map(|(index, link)| (index as u32, view.lost(link.channel)));
    all.filter(|(_, lost)| *lost != LossCounts::default()).collect()
}

/// What was lost on all links.
pub(crate) fn summary(view: View, of: &[LinkName], (recovers, drops): (bool, bool)) -> LossSummary {
    let meters = view.totals;
    let payload_bytes = meters.classes.iter().map(|class| class.lost_bytes).sum();
    let recovery = recovers.then(|| RecoverySummary {
        resent_packets: meters.resent,
        repeated_bytes: meters.classes.iter().map(|class| class.repeated_bytes).sum(),
        discarded_packets: meters.discarded,
        timeouts: meters.timeouts,
    });
    let dropped_packets = drops.then_some(0);
    let mut sum = LossSummary { payload_bytes, recovery, dropped_packets, ..LossSummary::default() };
    for (_, lost) in links(view, of) {
        sum.links += 1;
        sum.data_packets += lost.data_packets;
        sum.control_packets += lost.control_packets;
        sum.dropped_packets = sum.dropped_packets.map(|count| count + lost.dropped_packets);
    }
    sum
}

/// The table: a row for each link on which packets were lost.
pub(crate) fn table(view: View, of: &[LinkName], names: &[String]) -> Table {
    let (codes, lost): (Vec<u32>, Vec<LossCounts>) = links(view, of).into_iter().unzip();
    let column = |name, of: fn(&LossCounts) -> u64| Column {
        name,
        values: Values::U64(lost.iter().map(of).collect()),
    };
    let names = Arc::new(names.to_vec());
    Table {
        name: "losses",
        columns: vec![
            Column { name: "link", values: Values::Name { codes, names } },
            column("data_packets", |lost| lost.data_packets),
            column("control_packets", |lost| lost.control_packets),
            column("bytes", |lost| lost.bytes),
        ],
    }
}

/// From a change of links on: the payload rate of all flows together that the remaining network permits, and the time until
/// an interval in which hosts receive nearly that, if there is one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Recovered {
    pub time: Time,
    pub permitted_gbit_s: f64,
    pub after_ns: Option<u64>,
}

/// The share of the permitted rate at which the network has recovered.
const ENOUGH: f64 = 0.95;

/// Determines how long the network took to recover from each change, from the payload received in each interval. A change
/// lasts until the next one.
pub(crate) fn recoveries(
    permitted: &[(Time, f64)],
    received: impl Iterator<Item = (u64, u64)> + Clone,
) -> Vec<Recovered> {
    let ends = permitted.iter().skip(1).map(|(time, _)| time.0 / 1_000).chain([u64::MAX]);
    let recovered = permitted.iter().zip(ends).map(|(&(time, permitted_gbit_s), until)| {
        let from = time.0.div_ceil(1_000);
        let mut begin = 0;
        let mut intervals =
            received.clone().map(|(end, bytes)| (std::mem::replace(&mut begin, end), end, bytes));
        let first = intervals.find(|&(begin, end, bytes)| {
            let gbit_s = bytes as f64 * 8.0 / (end - begin).max(1) as f64;
            begin >= from && end <= until && gbit_s >= ENOUGH * permitted_gbit_s
        });
        Recovered { time, permitted_gbit_s, after_ns: first.map(|(begin, ..)| begin - from) }
    });
    recovered.collect()
}

/// The table: a row for each instant at which links change.
pub(crate) fn recovery_table(list: &[Recovered]) -> Table {
    let numbers = |of: fn(&Recovered) -> f64| Values::F64(list.iter().map(of).collect());
    Table {
        name: "recoveries",
        columns: vec![
            Column { name: "time_ns", values: numbers(|one| one.time.0 as f64 / 1_000.0) },
            Column { name: "permitted_gbit_s", values: numbers(|one| one.permitted_gbit_s) },
            Column {
                name: "recovered_ns",
                values: numbers(|one| one.after_ns.map_or(f64::NAN, |ns| ns as f64)),
            },
        ],
    }
}

/// Describes the recoveries in sentences, for the first changes.
pub(crate) fn recovery_sentences(list: &[Recovered]) -> Vec<String> {
    const SHOWN: usize = 4;
    let each = list.iter().take(SHOWN).map(|one| {
        let Recovered { time, permitted_gbit_s, after_ns } = *one;
        let rate = format!("95 % of the {permitted_gbit_s:.3} Gbit/s that the network then permits");
        match after_ns {
            Some(0) => format!("After the change at {time}, hosts received {rate} at once."),
            Some(ns) => {
                format!("After the change at {time}, hosts received {rate} within {}.", Time::from_ns(ns))
            }
            None => format!(
                "After the change at {time}, hosts never received {rate} before the next change or the end."
            ),
        }
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Intervals of 10 ns with these bytes.
    fn recovered(bytes: &[u64], permitted: &[(u64, f64)]) -> Vec<Option<u64>> {
        let permitted: Vec<(Time, f64)> =
            permitted.iter().map(|&(ns, rate)| (Time::from_ns(ns), rate)).collect();
        let ends = (1..).map(|number| 10 * number).zip(bytes.iter().copied());
        recoveries(&permitted, ends).iter().map(|one| one.after_ns).collect()
    }

    #[test]
    fn sentences_state_when_hosts_receive_the_permitted_rate() {
        let one = |after_ns| Recovered { time: Time::from_us(2), permitted_gbit_s: 4.5, after_ns };
        let rate =
            "After the change at 2 us, hosts received 95 % of the 4.500 Gbit/s that the network then permits";
        let never = "After the change at 2 us, hosts never received 95 % of the 4.500 Gbit/s that the network then permits \
                     before the next change or the end.";
        assert_eq!(
            recovery_sentences(&[one(Some(0)), one(Some(1_500)), one(None)]),
            [format!("{rate} at once."), format!("{rate} within 1.5 us."), never.to_owned()]
        );
    }

    #[test]
    fn the_first_whole_interval_near_the_permitted_rate_ends_the_recovery() {
        // 10 bytes in 10 ns are 8 Gbit/s.
        let bytes = [10, 10, 2, 5, 9, 10, 10, 4, 4];
        assert_eq!(recovered(&bytes, &[(20, 8.0)]), [Some(30)], "9 bytes are not enough");
        assert_eq!(recovered(&bytes, &[(15, 7.2)]), [Some(25)]);
        assert_eq!(recovered(&bytes, &[(20, 4.0), (70, 8.0)]), [Some(10), None]);
        assert_eq!(recovered(&bytes, &[(20, 8.0), (45, 8.0)]), [None, Some(5)], "until the next change");
    }
}
