//! Records why the flows of a host wait, if departures are recorded.

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

/// The waits of the flows of a host. For [`FlowWait::Injection`], source and destination have no meaning.
#[derive(Debug, Default)]
pub(crate) struct WaitLog {
    rows: Vec<WaitRow>,
}

impl Host {
    /// Records that a flow waits from `since` on.
    #[inline]
    pub(super) fn note_wait(&mut self, id: FlowId, wait: FlowWait, since: Time, until: Option<Time>) {
        if let Some(log) = &mut self.waits {
            let flow = self.flows.get(id);
            let (source, destination) = (flow.source, flow.destination);
            log.rows.push(WaitRow { source, destination, wait, since, until: until.unwrap_or(Time::NEVER) });
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
            log.rows.push(WaitRow { source: 0, destination: 0, wait: FlowWait::Injection, since, until });
        }
    }
}

/// The table of the waits of all hosts.
pub(crate) fn wait_table(hosts: &mut [Host]) -> Table {
    let logs = hosts.iter_mut().filter_map(|host| Some((host.id, host.waits.take()?)));
    let rows: Vec<(u32, WaitRow)> =
        logs.flat_map(|(host, log)| log.rows.into_iter().map(move |row| (host, row))).collect();
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
