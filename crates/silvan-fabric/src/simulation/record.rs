//! Runs that record departures.

use rustc_hash::FxHashMap;
use silvan_engine::Time;

use super::{ModelError, Progress, Simulation};
use crate::host::wait_table;
use crate::jobs::Jobs;
use crate::link::ChannelId;
use crate::outcome::{Table, Values};
use crate::recorder::{RecordPlan, Recorder, table};
use crate::setup::Network;

impl Simulation {
    /// Records departures from now on.
    ///
    /// # Errors
    /// What a recording needs, as a noun, if the run does not have it: the event-ordered scheduler, or one thread.
    pub fn record(&mut self, plan: RecordPlan) -> Result<(), &'static str> {
        if self.is_binned() {
            return Err("the event-ordered scheduler");
        }
        let [partition] = &mut self.network.partitions[..] else { return Err("one thread") };
        partition.ctx.record(Recorder::new(plan));
        partition.hosts.iter_mut().for_each(|host| host.record_waits(plan.from));
        partition.jobs.iter_mut().for_each(Jobs::record);
        Ok(())
    }

    /// Same as [`Self::advance`], but a run that records ends when it has reached `until`, or when the recording is full.
    ///
    /// # Errors
    /// Those of [`Self::advance`].
    pub fn advance_recording(&mut self, events: u64, until: Time) -> Result<Progress, ModelError> {
        let mut progress = self.advance(events)?;
        let is_full = self.is_record_full();
        progress.done |= is_full || self.network.partitions.iter().all(|partition| partition.ctx.now > until);
        Ok(progress)
    }

    /// Whether the recording has reached its limit, so that its end is missing.
    #[must_use]
    pub fn is_record_full(&self) -> bool {
        let mut recorders = self.network.partitions.iter().filter_map(|partition| partition.ctx.recorder());
        recorders.any(Recorder::is_full)
    }

    /// Ends the recording. Returns its tables: `packets`, `departures`, `drained`, `losses`, `reports`, `waits`,
    /// `hosts`, `channels` and, if there are jobs, `busy` and `parcels`. Columns `packet`, `channel` and `*host` contain
    /// indexes of packets, channels and hosts. Times are in picoseconds.
    #[must_use]
    pub fn into_record(mut self) -> Vec<Table> {
        let channels = self.channel_table();
        let Network { partitions, .. } = &mut self.network;
        let mut tables = Vec::new();
        for partition in partitions {
            if let Some(recorder) = partition.ctx.take_recorder() {
                tables.extend(recorder.into_tables(&partition.ctx.links));
                tables.push(wait_table(&mut partition.hosts));
                tables.extend(partition.jobs.iter_mut().flat_map(Jobs::take_record));
            }
        }
        let names = &self.network.names.hosts;
        let codes = (0..names.len() as u32).collect();
        tables.push(table("hosts", vec![("name", Values::Name { codes, names: names.clone() })]));
        tables.push(channels);
        tables
    }

    /// A row for each channel: its name, its ends, and its parameters at the end of the run.
    fn channel_table(&self) -> Table {
        const NONE: u32 = u32::MAX;
        let Network { partitions, receiver, names, series, .. } = &self.network;
        let links = &partitions[0].ctx.links;
        let hosts = &partitions[0].hosts;
        let channels: Vec<ChannelId> = series.links.iter().map(|link| link.channel).collect();
        let numbers =
            |value: &dyn Fn(ChannelId) -> u32| Values::U32(channels.iter().map(|&id| value(id)).collect());
        let times =
            |value: &dyn Fn(ChannelId) -> Time| Values::U64(channels.iter().map(|&id| value(id).0).collect());
        let from: FxHashMap<ChannelId, u32> = hosts.iter().map(|host| (host.out, host.id)).collect();
        let to: FxHashMap<ChannelId, u32> = hosts.iter().map(|host| (host.into, host.id)).collect();
        let codes = (0..channels.len() as u32).collect();
        let rates = channels.iter().map(|&id| links.rate(id).as_gbit_f64()).collect();
        table(
            "channels",
            vec![
                ("channel", numbers(&|id| id)),
                ("name", Values::Name { codes, names: names.links.clone() }),
                ("from_switch", numbers(&|id| links.sending_switch(id).map_or(NONE, |(switch, _)| switch))),
                ("from_host", numbers(&|id| from.get(&id).copied().unwrap_or(NONE))),
                ("to_switch", numbers(&|id| receiver[id as usize].map_or(NONE, |(switch, _)| switch))),
                ("to_host", numbers(&|id| to.get(&id).copied().unwrap_or(NONE))),
                ("rate_gbit_s", Values::F64(rates)),
                ("delay_ps", times(&|id| links.delay(id))),
                ("head_delay_ps", times(&|id| links.arrival_delay(id).0)),
                ("arrives_with_tail", numbers(&|id| links.arrival_delay(id).1.into())),
            ],
        )
    }
}
