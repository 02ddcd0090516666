//! Records why the flows of a host wait, if departures are recorded.

use rustc_hash::FxHashMap;
use silvan_engine::Time;

use super::Host;
use super::flows::FlowId;
use crate::context::Context;

use crate::recorder::{small, table, times};
use crate::table::Table;

/// Why a flow, or a host, does not send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlowWait {
    /// The flow waits for its announcement, or for a probe of it.
    Announcement = 0,
    /// The reaction permits the next packet at a known time.
    Pace = 1,
    /// The reaction permits the next packet after an answer, a grant or a timer.
    Answer = 2,
    /// The flow no longer waits for an answer.
    Reopened = 3,
    /// The host waits for its injection limit or the overhead of a message.
    Injection = 4,
}

/// A wait that begins.
#[derive(Debug, Clone, Copy)]
struct WaitRow {
    source: u16,
    destination: u32,
    wait: FlowWait,
    since: Time,
    /// `Time::NEVER` if it is not known.
    until: Time,
}

/// The waits of the flows of a host, from a time on. For [`FlowWait::Injection`], source and destination have no meaning.
#[derive(Debug, Default)]
pub(crate) struct WaitLog {
    from: Time,
    rows: Vec<WaitRow>,
    /// The last wait of each flow that began before the recording, whose end is not known.
    earlier: FxHashMap<(u16, u32), WaitRow>,
}

impl WaitLog {
    pub fn new(from: Time) -> Self {
        Self { from, ..Self::default() }
    }

    fn push(&mut self, row: WaitRow) {
        if row.since >= self.from {
            self.rows.push(row);
        } else if row.until >= self.from {
            self.earlier.insert((row.source, row.destination), row);
        }
    }

    /// The rows in order of time, for each flow.
    fn into_rows(self) -> impl Iterator<Item = WaitRow> {
        let mut earlier: Vec<WaitRow> = self.earlier.into_values().collect();
        earlier.sort_unstable_by_key(|row| (row.since, row.source, row.destination));
        earlier.into_iter().chain(self.rows)
    }
}

impl Host {
    /// Records that a flow waits from `since` on.
    #[inline]
    pub(super) fn note_wait(&mut self, id: FlowId, wait: FlowWait, since: Time, until: Option<Time>) {
        if let Some(log) = &mut self.waits {
            let flow = self.flows.get(id);
            let (source, destination) = (flow.source, flow.destination);
            log.push(WaitRow { source, destination, wait, since, until: until.unwrap_or(Time::NEVER) });
        }
    }

    /// Records that the host has settled, but waits for its injection limit.
    pub(super) fn note_injection(&mut self, ctx: &Context) {
        let since =
            ctx.now.max(Some(ctx.free_at(self.out)).filter(|&time| time < Time::NEVER).unwrap_or_default());
        let until = self.injection.free_at;
        if let Some(log) = &mut self.waits
            && until > since
        {
            log.push(WaitRow { source: 0, destination: 0, wait: FlowWait::Injection, since, until });
        }
    }
}

/// The table of the waits of all hosts.
pub(crate) fn wait_table(hosts: &mut [Host]) -> Table {
    let logs = hosts.iter_mut().filter_map(|host| Some((host.id, host.waits.take()?)));
    let rows: Vec<(u32, WaitRow)> =
        logs.flat_map(|(host, log)| log.into_rows().map(move |row| (host, row))).collect();
    table(
        "waits",
        vec![
            ("host", small(&rows, |row| row.0)),
            ("source", small(&rows, |row| row.1.source.into())),
            ("destination_host", small(&rows, |row| row.1.destination)),
            ("wait", small(&rows, |row| row.1.wait as u32)),
            ("since_ps", times(&rows, |row| row.1.since)),
            ("until_ps", times(&rows, |row| row.1.until)),
        ],
    )
}
