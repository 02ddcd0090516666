//! Records why the flows of a host wait, if departures are recorded.

use rustc_hash::FxHashMap;
use silvan_engine::Time;

use super::Host;
use super::index::FlowId;
use crate::context::Context;
use crate::packet::FlowAddress;
use crate::recorder::{RecordedWait, RecordedWaitKind};

/// The waits of the flows of a host, from a time on.
#[derive(Debug, Default)]
pub(crate) struct WaitLog {
    from: Time,
    rows: Vec<RecordedWait>,
    /// The last wait of each flow that began before the recording, whose end is not known.
    earlier: FxHashMap<(u16, u32), RecordedWait>,
}

impl WaitLog {
    pub fn new(from: Time) -> Self {
        Self { from, ..Self::default() }
    }

    fn push(&mut self, row: RecordedWait) {
        if row.since >= self.from {
            self.rows.push(row);
        } else if row.until >= self.from {
            self.earlier.insert((row.flow.source, row.flow.destination), row);
        }
    }

    /// The waits that began during the recording.
    #[cfg(test)]
    pub fn rows(&self) -> &[RecordedWait] {
        &self.rows
    }

    /// The rows in order of time, for each flow.
    fn into_rows(self) -> impl Iterator<Item = RecordedWait> {
        let mut earlier: Vec<RecordedWait> = self.earlier.into_values().collect();
        earlier.sort_unstable_by_key(|row| (row.since, row.flow.source, row.flow.destination));
        earlier.into_iter().chain(self.rows)
    }
}

impl Host {
    /// Records that a flow waits from `since` on.
    #[inline]
    pub(super) fn note_wait(&mut self, id: FlowId, kind: RecordedWaitKind, since: Time, until: Option<Time>) {
        if let Some(log) = &mut self.waits {
            let flow = self.flows.get(id);
            let flow = FlowAddress { host: self.id, source: flow.source, destination: flow.destination };
            log.push(RecordedWait { flow, kind, since, until: until.unwrap_or(Time::NEVER) });
        }
    }

    /// Records that the host has settled, but waits for its injection limit.
    pub(super) fn note_injection(&mut self, ctx: &Context) {
        let since =
            ctx.now.max(Some(ctx.free_at(self.out)).filter(|&time| time < Time::NEVER).unwrap_or_default());
        let until = self.injection.free_at;
        if until > since {
            self.note_injection_wait(since, until);
        }
    }

    /// Records that the host has waited for an injection limit.
    pub(super) fn note_injection_wait(&mut self, since: Time, until: Time) {
        if let Some(log) = &mut self.waits {
            let flow = FlowAddress { host: self.id, source: 0, destination: 0 };
            log.push(RecordedWait { flow, kind: RecordedWaitKind::Injection, since, until });
        }
    }
}

pub(crate) fn recorded_waits(hosts: &mut [Host]) -> Vec<RecordedWait> {
    hosts.iter_mut().filter_map(|host| host.waits.take()).flat_map(|log| log.into_rows()).collect()
}
