//! Changes of links and hosts during a run, the packets that were lost on each link, and the time until the
//! network recovered.

use std::collections::VecDeque;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use silvan_engine::saved::Saved;
use silvan_engine::{Rate, Time};

use super::section::{ChangeLog, Ending, Expected, Recording, Section, SectionResult, Spared};
use crate::faults::{HostChange, LinkChange};
use crate::link::LossCounts;
use crate::observe::Series;
use crate::observe::left_waiting;
use crate::table::{Described, Layout, ResultNames, RowsOf, counts, fixed, links, names, numbers};

/// Packets that were lost on links or dropped at full buffers over the whole run. The table `losses` has the
/// values of single links.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LossSummary {
    /// Number of links on which packets were lost; each direction counts.
    pub links: u64,
    /// Number of data packets that were lost.
    pub data_packets: u64,
    /// Number of control packets and of headers of trimmed packets that were lost.
    pub control_packets: u64,
    /// Payload that was lost, including that of headers, bytes.
    pub payload_bytes: u64,
    /// Number of these packets that were dropped at full buffers. Exists only with lossy lanes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_packets: Option<u64>,
    /// Results of loss recovery. Exists only in scenarios with loss recovery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoverySummary>,
}

/// Packets that hosts sent again over the whole run, with loss recovery.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RecoverySummary {
    /// Number of data packets that were sent again; `packets_injected` includes them.
    pub resent_packets: u64,
    /// Payload that hosts decided to send again, bytes.
    pub repeated_bytes: u64,
    /// Number of data packets that arrived but were discarded, because they had arrived before or were out of
    /// sequence.
    pub discarded_packets: u64,
    /// Number of timeouts of data packets.
    pub timeouts: u64,
    /// Number of data packets that counted as lost because packets that were sent later had been acknowledged
    /// (`recovery.reordering`).
    pub overtaken_packets: u64,
    /// Number of entropy values that hosts retired after losses, each time that they did so, with the spraying `path-states`.
    pub retired_values: u64,
    /// Number of entropy values that were restored because a probe was answered.
    pub restored_values: u64,
    /// Number of probes of retired entropy values.
    pub probes: u64,
}

/// The states in the table of changes, by index.
const WHAT: [&str; 5] = ["down", "up", "stalls", "drains", "stops"];

/// A row of the table of changes.
struct Row {
    time: Time,
    name: usize,
    what: u32,
    rate: Rate,
}

/// The names of links and hosts, and the rows.
struct ChangeRows {
    places: Arc<Vec<String>>,
    rows: RowsOf<Row>,
}

const EVENTS: Layout<ChangeRows> = Layout {
    name: "events",
    rows: "A row per change of a link or host (`[[event]]`).",
    columns: &[
        names(
            "place",
            "both ends of a link, or a host",
            |all, _| Arc::clone(&all.places),
            |all| all.rows.of(|row| row.name as u32),
        ),
        numbers("time_ns", "time of the change", |all| all.rows.of(|row| row.time.as_ns_f64())),
        names(
            "state",
            "up or down, stalls, drains or stops",
            |_, _| fixed(&WHAT),
            |all| all.rows.of(|row| row.what),
        ),
        numbers("rate_gbit_s", "rate from then on", |all| all.rows.of(|row| row.rate.0 as f64 / 1e9)),
    ],
};

/// Changes of links and hosts.
#[derive(Saved)]
pub(crate) struct ChangeSection;

impl Section for ChangeSection {
    type Entry = ();
    const WHEN: &'static str = "with [[event]]";
    const TABLES: &'static [&'static dyn Described] = &[&EVENTS];

    fn new(of: &Recording) -> Option<Self> {
        (!of.config.events.is_empty()).then_some(Self)
    }

    fn close(self, end: &mut Ending) -> SectionResult<()> {
        let (log, now) = (end.changes, end.now());
        let rows = ChangeRows { places: Arc::new(log.names.clone()), rows: RowsOf(log.rows(now)) };
        SectionResult {
            tables: vec![EVENTS.fill(rows, end.names)],
            account: log.sentences(now),
            ..SectionResult::default()
        }
    }
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
            let stands = stalls || state.is_stopped;
            let rate = if stands { Rate(0) } else { state.drain.unwrap_or(usual).min(usual) };
            let what = match (state.is_stopped, stalls) {
                (true, _) => 4,
                (false, true) => 2,
                (false, false) => 3,
            };
            Row { time, name: self.links + host, what, rate }
        };
        let links = self.of_links(now).iter().map(of_link);
        let mut rows: Vec<Row> = links.chain(self.of_hosts(now).iter().map(of_host)).collect();
        rows.sort_by_key(|row| row.time);
        rows
    }

    /// Describes the changes.
    fn sentences(&self, now: Time) -> Vec<String> {
        let mut found = vec![self.sentence_of_links(now)];
        let (stopped, others): (Vec<HostChange>, Vec<HostChange>) =
            self.of_hosts(now).iter().copied().partition(|change| change.state.is_stopped);
        let mut hosts: Vec<usize> = others.iter().map(|change| change.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        if self.changes.hosts.iter().any(|change| !change.state.is_stopped) {
            let count = match hosts.len() {
                0 => "No host".to_owned(),
                1 => self.names[self.links + hosts[0]].clone(),
                count => format!("{count} hosts"),
            };
            found
                .push(format!("{count} stalled, or took packets out of the input buffer slower than usual."));
        }
        found.extend(self.sentence_of_stopped(&stopped));
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

    /// Describes the hosts that have stopped, in the order of their first stops.
    fn sentence_of_stopped(&self, stopped: &[HostChange]) -> Option<String> {
        const NAMED: usize = 3;
        let mut first: Vec<&HostChange> = Vec::new();
        for change in stopped {
            if first.iter().all(|before| before.host != change.host) {
                first.push(change);
            }
        }
        let named = first
            .iter()
            .take(NAMED)
            .map(|change| format!("{} stopped at {}", self.names[self.links + change.host], change.time));
        let list = named.collect::<Vec<_>>().join(", ");
        match first.len().saturating_sub(NAMED) {
            0 if first.is_empty() => None,
            0 => Some(format!("{list}.")),
            1 => Some(format!("{list}, and one other host.")),
            count => Some(format!("{list}, and {count} other hosts.")),
        }
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

/// The index of a link in the results, and the losses on the link.
type LostRow = (u32, LossCounts);

const LOSSES: Layout<RowsOf<LostRow>> = Layout {
    name: "losses",
    rows: "A row per link on which packets were lost, or arrived at a full buffer and were dropped.",
    columns: &[
        names("link", "the channel; for dropped packets, the one on which they arrived", links, |all| {
            all.of(|row| row.0)
        }),
        counts("data_packets", "lost", |all| all.of(|row| row.1.data_packets)),
        counts("control_packets", "lost", |all| all.of(|row| row.1.control_packets)),
        counts("dropped_packets", "those of both kinds that arrived at a full buffer", |all| {
            all.of(|row| row.1.dropped_packets)
        }),
        counts("bytes", "lost, on the link", |all| all.of(|row| row.1.bytes)),
    ],
};

/// Lost packets.
#[derive(Saved)]
pub(crate) struct LossSection;

impl Section for LossSection {
    type Entry = Option<LossSummary>;
    const WHEN: &'static str = "with events that lose packets, or flow_control.lossy_lanes";
    const TABLES: &'static [&'static dyn Described] = &[&LOSSES];

    fn new(of: &Recording) -> Option<Self> {
        of.config.loses_packets().then_some(Self)
    }

    fn close(self, end: &mut Ending) -> SectionResult<Self::Entry> {
        let meters = end.view.totals;
        let rows = (0..).zip(end.links).map(|(index, link)| (index, end.view.lost(link.channel)));
        let rows: RowsOf<LostRow> = rows.filter(|(_, lost)| *lost != LossCounts::default()).collect();
        let sum = |of: fn(&LossCounts) -> u64| rows.0.iter().map(|(_, lost)| of(lost)).sum::<u64>();
        let recovery = end.config.recovery.as_ref().map(|_| RecoverySummary {
            resent_packets: meters.resent,
            repeated_bytes: meters.classes.iter().map(|class| class.repeated_bytes).sum(),
            discarded_packets: meters.discarded,
            timeouts: meters.timeouts,
            overtaken_packets: meters.overtaken,
            retired_values: meters.retired,
            restored_values: meters.restored,
            probes: meters.path_probes,
        });
        let summary = LossSummary {
            links: rows.0.len() as u64,
            data_packets: sum(|lost| lost.data_packets),
            control_packets: sum(|lost| lost.control_packets),
            payload_bytes: meters.classes.iter().map(|class| class.lost_bytes).sum(),
            dropped_packets: (end.config.lossy_lanes() != 0).then(|| sum(|lost| lost.dropped_packets)),
            recovery,
        };
        let stuck = if end.view.is_idle() { left_waiting(end.view, &end.names.hosts) } else { None };
        SectionResult {
            entry: Some(summary),
            tables: vec![LOSSES.fill(rows, end.names)],
            account: vec![loss_sentence(&summary, stuck)],
            warnings: too_short_timeout(&summary, end).into_iter().collect(),
        }
    }
}

/// Describes the losses, and the traffic that waits indefinitely because of them.
fn loss_sentence(summary: &LossSummary, stuck: Option<String>) -> String {
    let LossSummary { links, data_packets, control_packets, payload_bytes, recovery, dropped_packets } =
        *summary;
    let again = match recovery {
        None => "; they were not sent again".to_owned(),
        Some(recovery) => recovery_clause(&recovery),
    };
    let dropped = dropped_packets.map(|count| format!("; {count} of them were dropped at full buffers"));
    let dropped = dropped.unwrap_or_default();
    let stuck =
        stuck.map(|what| format!(" At the end, this waited indefinitely: {what}.")).unwrap_or_default();
    if links == 0 && recovery.is_none_or(|recovery| recovery.resent_packets == 0) {
        return format!("No packet was lost.{stuck}");
    }
    format!(
        "{data_packets} data packets with {payload_bytes} B of payload and {control_packets} control packets were lost on {links} \
         links, of which each direction counts{dropped}{again}.{stuck}"
    )
}

/// How hosts repeated packets, as the end of a sentence.
fn recovery_clause(recovery: &RecoverySummary) -> String {
    let &RecoverySummary { resent_packets, discarded_packets, timeouts, overtaken_packets, .. } = recovery;
    let &RecoverySummary { retired_values, restored_values, probes, .. } = recovery;
    let overtaken = match overtaken_packets {
        0 => String::new(),
        count => format!(", later packets showed {count} to be lost"),
    };
    let retired = match retired_values {
        0 => String::new(),
        count => format!(
            "; hosts retired {count} entropy values, and restored {restored_values} of them after {probes} probes"
        ),
    };
    format!(
        "; {resent_packets} packets were sent again, {discarded_packets} were discarded by receivers{overtaken}, and timeouts \
         expired {timeouts} times{retired}"
    )
}

/// Warns if selective repeat sends more than twice as many packets again as were lost, because then the
/// timeout is too short.
fn too_short_timeout(losses: &LossSummary, end: &Ending) -> Option<String> {
    let recovery = end.config.recovery.as_ref()?;
    let RecoverySummary { resent_packets: resent, overtaken_packets, timeouts, .. } = losses.recovery?;
    let needed = losses.data_packets + losses.control_packets;
    let within = end.config.components().acknowledge.map(|unit| unit.within);
    let cause = match recovery.reordering.filter(|_| overtaken_packets > timeouts) {
        Some(distance) => {
            format!("packets overtake others by more than recovery.reordering = {distance}")
        }
        None => match within.filter(|&within| within >= recovery.timeout) {
            Some(within) => format!(
                "recovery.timeout ({}) is not longer than packets may wait for their acknowledgement \
                 (congestion.acknowledge.within, {within})",
                recovery.timeout
            ),
            None => {
                format!("recovery.timeout ({}) is shorter than packets and receipts wait", recovery.timeout)
            }
        },
    };
    (recovery.repeats_only_lost() && resent > 2 * needed).then(|| {
        format!("Of {resent} packets that were sent again, at most {needed} were lost or lost their receipt: {cause}.")
    })
}

/// The recovery after a change of links: the total payload rate that the remaining network permits, the time
/// until an interval in which hosts receive 95 % of this rate, and the victims. `after_ns` is `None` if there
/// is no such interval before the next change, and `victims` is `None` if they are unknown.
#[derive(Debug, Clone, PartialEq)]
struct Recovered {
    pub time: Time,
    pub permitted_gbit_s: f64,
    pub after_ns: Option<u64>,
    pub victims: Option<Vec<String>>,
}

/// The share of the permitted rate at which the network has recovered.
const ENOUGH: f64 = 0.95;

/// A victim receives less than this share of its earlier rate.
const SUFFERS: f64 = 0.9;

/// The largest number of intervals before and after a change that are compared.
const COMPARED: usize = 10;

/// Determines how long the network took to recover from each change until the next one, from the payload
/// received in each interval.
fn recoveries(expected: &[Expected], series: &Series, names: &ResultNames) -> Vec<Recovered> {
    let times: Vec<u64> = expected.iter().map(|one| one.time.0.div_ceil(1_000)).collect();
    let recovered = expected.iter().enumerate().map(|(at, one)| {
        let (from, until) = (times[at], times.get(at + 1).copied().unwrap_or(u64::MAX));
        let after_ns = match one.permitted_gbit_s {
            // There is nothing to wait for.
            0.0 => Some(0),
            permitted => first_enough(series.received(), (from, until), permitted),
        };
        let before = at.checked_sub(1).map_or(0, |at| times[at]);
        let change = ChangeTimes { before, at: from, until };
        let victims = one.spared.as_ref().map(|spared| victims_of(spared, (series, names), change));
        Recovered { time: one.time, permitted_gbit_s: one.permitted_gbit_s, after_ns, victims }
    });
    recovered.collect()
}

/// The time from `from` until the start of the first interval before `until` in which hosts receive enough.
/// Each item is the end of an interval and the bytes received in it. Times are in nanoseconds.
fn first_enough(
    received: impl Iterator<Item = (u64, u64)>,
    (from, until): (u64, u64),
    permitted_gbit_s: f64,
) -> Option<u64> {
    let mut begin = 0;
    let mut intervals = received.map(|(end, bytes)| (std::mem::replace(&mut begin, end), end, bytes));
    let first = intervals.find(|&(begin, end, bytes)| {
        let gbit_s = bytes as f64 * 8.0 / (end - begin).max(1) as f64;
        begin >= from && end <= until && gbit_s >= ENOUGH * permitted_gbit_s
    });
    first.map(|(begin, ..)| begin - from)
}

/// The time of a change, of the change before it, and of the next one, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct ChangeTimes {
    before: u64,
    at: u64,
    until: u64,
}

/// Names of the spared flows and hosts that receive less after a change; see [`suffers`].
fn victims_of(spared: &Spared, (series, names): (&Series, &ResultNames), change: ChangeTimes) -> Vec<String> {
    let flows = spared.flows.iter().filter(|flow| suffers(series.received_of_flow(**flow), change));
    let hosts = spared.hosts.iter().filter(|host| suffers(series.received_of_host(**host), change));
    let flows = flows.map(|&flow| names.flows[flow as usize].clone());
    flows.chain(hosts.map(|&host| names.hosts[host as usize].clone())).collect()
}

/// Whether less is received after a change than before. Compares up to ten intervals on each side, which lie between
/// the changes before and after it. Each item is the end of an interval in nanoseconds and the bytes received in it.
fn suffers(received: impl Iterator<Item = (u64, u64)>, change: ChangeTimes) -> bool {
    let ChangeTimes { before, at, until } = change;
    let mut begin = 0;
    let (mut earlier, mut later) = (VecDeque::new(), Vec::new());
    for (end, bytes) in received {
        let (start, rate) = (std::mem::replace(&mut begin, end), bytes as f64 / (end - begin).max(1) as f64);
        if start >= before && end <= at {
            earlier.push_back(rate);
            if earlier.len() > COMPARED {
                earlier.pop_front();
            }
        } else if start >= at && end <= until && later.len() < COMPARED {
            later.push(rate);
        }
    }
    let mean = |sum: f64, count: usize| sum / count.max(1) as f64;
    let usual = mean(earlier.iter().sum(), earlier.len());
    !later.is_empty() && usual > 0.0 && mean(later.iter().sum(), later.len()) < SUFFERS * usual
}

const RECOVERIES: Layout<RowsOf<Recovered>> = Layout {
    name: "recoveries",
    rows: "A row per instant at which links change, if what the network permits can be computed.",
    columns: &[
        numbers("time_ns", "time of the change", |all| all.of(|one| one.time.as_ns_f64())),
        numbers(
            "permitted_gbit_s",
            "payload rate that the remaining network permits: max-min fair rates of all flows on routes around links that \
             are down",
            |all| all.of(|one| one.permitted_gbit_s),
        ),
        numbers(
            "recovered_ns",
            "time until the first interval in which hosts receive 95 % of it; NaN if there is none before the next change \
             or the end",
            |all| all.of(|one| one.after_ns.map_or(f64::NAN, |ns| ns as f64)),
        ),
        numbers(
            "victims",
            "flows and hosts that lose more than 10 % without using a link that changes; NaN if unknown",
            |all| all.of(|one| one.victims.as_ref().map_or(f64::NAN, |found| found.len() as f64)),
        ),
    ],
};

/// The time that the network took to recover from each change of links.
#[derive(Saved)]
pub(crate) struct RecoverySection;

impl Section for RecoverySection {
    type Entry = ();
    const WHEN: &'static str = "with links that change under traffic whose fair rates can be computed";
    const TABLES: &'static [&'static dyn Described] = &[&RECOVERIES];

    fn new(of: &Recording) -> Option<Self> {
        (!of.config.events.is_empty()).then_some(Self)
    }

    fn close(self, end: &mut Ending) -> SectionResult<()> {
        let rows: RowsOf<Recovered> = recoveries(end.expected, end.series, end.names).into_iter().collect();
        if rows.0.is_empty() {
            return SectionResult::default();
        }
        let account = recovery_sentences(&rows.0);
        SectionResult { tables: vec![RECOVERIES.fill(rows, end.names)], account, ..SectionResult::default() }
    }
}

/// Describes the recoveries in sentences, for the first changes.
fn recovery_sentences(list: &[Recovered]) -> Vec<String> {
    const SHOWN: usize = 4;
    let permitted = list.iter().filter(|one| one.permitted_gbit_s > 0.0);
    let each = permitted.take(SHOWN).map(|one| {
        let Recovered { time, permitted_gbit_s, after_ns, victims } = one;
        let rate = format!("95 % of the {permitted_gbit_s:.3} Gbit/s that the network then permits");
        let suffering = victims.as_ref().and_then(|names| victim_sentence(names)).unwrap_or_default();
        let recovery = match *after_ns {
            Some(0) => format!("After the change at {time}, hosts at once received {rate}."),
            Some(ns) => {
                format!("After the change at {time}, hosts received {rate} within {}.", Time::from_ns(ns))
            }
            None => format!(
                "After the change at {time}, hosts never received {rate} before the next change or the end."
            ),
        };
        recovery + &suffering
    });
    each.collect()
}

/// Names the first victims of a change.
fn victim_sentence(names: &[String]) -> Option<String> {
    const NAMED: usize = 3;
    let (first, others) = (names.iter().take(NAMED), names.len().saturating_sub(NAMED));
    let mut list = first.cloned().collect::<Vec<_>>().join(", ");
    match others {
        0 => {}
        1 => list += " and another one",
        count => list += &format!(" and {count} others"),
    }
    (!names.is_empty()).then(|| {
        format!(" Less than 90 % of what they received before went to {list}, whose routes did not use the links that changed.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::PlannedChanges;

    /// The recovery times for intervals of 10 ns with these bytes.
    fn recovered(bytes: &[u64], permitted: &[(u64, f64)]) -> Vec<Option<u64>> {
        let ends = || (1..).map(|number| 10 * number).zip(bytes.iter().copied());
        let until = permitted.iter().skip(1).map(|one| one.0).chain([u64::MAX]);
        let spans = permitted.iter().zip(until);
        spans.map(|(&(from, rate), until)| first_enough(ends(), (from, until), rate)).collect()
    }

    #[test]
    fn rows_of_hosts_follow_those_of_links_and_have_the_lower_rate() {
        use crate::faults::HostState;
        use crate::link::LinkState;
        let gbit = Rate::from_gbit;
        let link = |time, link, is_up| LinkChange {
            time: Time(time),
            link,
            state: LinkState { is_up, rate: gbit(16), loss_ppb: 0 },
        };
        let host = |time, stalls_until, drain| HostChange {
            time: Time(time),
            host: 2,
            state: HostState { stalls_until: Time(stalls_until), drain, ..HostState::USUAL },
        };
        let changes = PlannedChanges {
            links: vec![link(10, 4, false), link(40, 4, true)],
            hosts: vec![host(20, 30, None), host(30, 0, Some(gbit(5))), host(35, 0, Some(gbit(99)))],
        };
        let log =
            ChangeLog { names: Vec::new(), links: 7, rates: vec![gbit(16); 3], changes, tables: Vec::new() };
        let rows = |now| {
            let of = |row: Row| (row.time.0, row.name, row.what, row.rate);
            log.rows(Time(now)).into_iter().map(of).collect::<Vec<_>>()
        };
        let all = [
            (10, 4, 0, gbit(16)),
            (20, 9, 2, Rate(0)),
            (30, 9, 3, gbit(5)),
            (35, 9, 3, gbit(16)),
            (40, 4, 1, gbit(16)),
        ];
        assert_eq!(rows(40), all);
        assert_eq!(rows(30), all[..3], "later changes have not occurred");
    }

    #[test]
    fn hosts_that_stop_have_rows_and_sentences() {
        use crate::faults::HostState;
        let stops = |time, host| HostChange {
            time: Time(time),
            host,
            state: HostState { is_stopped: true, ..HostState::USUAL },
        };
        let of = |hosts: Vec<HostChange>| ChangeLog {
            names: (0..10).map(|number| format!("N{number}")).collect(),
            links: 4,
            rates: vec![Rate::from_gbit(16); 6],
            changes: PlannedChanges { hosts, ..PlannedChanges::default() },
            tables: Vec::new(),
        };
        let log = of(vec![stops(37, 1), stops(50, 0)]);
        let rows = log.rows(Time(40)).into_iter().map(|row| (row.time.0, row.name, row.what, row.rate));
        assert_eq!(rows.collect::<Vec<_>>(), [(37, 5, 4, Rate(0))]);
        assert_eq!(log.sentences(Time(40)), ["N5 stopped at 37 ps."]);
        assert_eq!(log.sentences(Time(50)), ["N5 stopped at 37 ps, N4 stopped at 50 ps."]);
        let many = of((0..5).map(|host| stops(10, host)).collect());
        let expected = "N4 stopped at 10 ps, N5 stopped at 10 ps, N6 stopped at 10 ps, and 2 other hosts.";
        assert_eq!(many.sentences(Time(10)), [expected]);
    }

    #[test]
    fn victims_receive_less_than_in_the_intervals_before() {
        let bytes = [99, 10, 10, 10, 9, 9, 8, 10, 0];
        let ends = || (1..).map(|number| 10 * number).zip(bytes);
        let suffers = |before, at, until| suffers(ends(), ChangeTimes { before, at, until });
        assert!(!suffers(10, 40, 60), "9 of 10 are enough");
        assert!(suffers(10, 40, 70));
        assert!(!suffers(10, 60, 80), "9 after 9.5");
        assert!(suffers(0, 20, 40) && !suffers(5, 20, 40), "only whole intervals count");
        assert!(!suffers(10, 85, 99) && !suffers(35, 40, 50), "without one of the sides");
    }

    #[test]
    fn sentences_state_when_hosts_receive_the_permitted_rate() {
        let one = |after_ns| Recovered {
            time: Time::from_us(2),
            permitted_gbit_s: 4.5,
            after_ns,
            victims: Some(Vec::new()),
        };
        let rate = "received 95 % of the 4.500 Gbit/s that the network then permits";
        let never = "After the change at 2 us, hosts never received 95 % of the 4.500 Gbit/s that the network then permits \
                     before the next change or the end.";
        assert_eq!(
            recovery_sentences(&[one(Some(0)), one(Some(1_500)), one(None)]),
            [
                format!("After the change at 2 us, hosts at once {rate}."),
                format!("After the change at 2 us, hosts {rate} within 1.5 us."),
                never.to_owned()
            ]
        );
        let nothing = Recovered { permitted_gbit_s: 0.0, ..one(Some(0)) };
        assert_eq!(recovery_sentences(&[nothing]), [""; 0], "no traffic has a route");
        let names = |count: u32| (1..=count).map(|number| format!("F{number}")).collect::<Vec<_>>();
        assert_eq!(victim_sentence(&names(0)), None);
        assert!(victim_sentence(&names(2)).is_some_and(|text| text.contains("to F1, F2, whose")));
        assert!(
            victim_sentence(&names(5)).is_some_and(|text| text.contains("to F1, F2, F3 and 2 others, whose"))
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
