//! Runs that record departures.

use rustc_hash::FxHashMap;
use silvan_engine::Time;

use super::{ModelError, Progress, Simulation};
use crate::host::recorded_waits;
use crate::jobs::Jobs;
use crate::link::ChannelId;
use crate::observe::LinkName;
use crate::recorder::{NOT_RECORDED, RecordPlan, RecordedChannel, Recorder, RunRecord};
use crate::setup::Network;

impl Simulation {
    /// Records departures from now on.
    ///
    /// # Errors
    /// What a recording needs, as a noun, if the run does not have it: one thread, and
    /// [`crate::config::Config::records`].
    pub fn record(&mut self, plan: RecordPlan) -> Result<(), &'static str> {
        let [partition] = &mut self.network.partitions[..] else { return Err("one thread") };
        if !partition.ctx.is_recorded() {
            return Err("`Config::records`");
        }
        let (bin, channels) = match &partition.outputs {
            Some(outputs) => (outputs.start_of_bin(1), outputs.channels()),
            None => (Time(1), Box::default()),
        };
        partition.ctx.record(Recorder::new(plan, bin, channels));
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
        let mut recorders =
            self.network.partitions.iter().filter_map(|partition| partition.ctx.recorder.as_ref());
        recorders.any(|recorder| recorder.is_full())
    }

    /// Ends the recording.
    #[must_use]
    pub fn take_recording(&mut self) -> RunRecord {
        let (channels, end) = (self.channels(), self.config.duration);
        let Network { partitions, names, .. } = &mut self.network;
        let mut recording = RunRecord::default();
        // There is one partition.
        for partition in partitions {
            if let Some(recorder) = partition.ctx.take_recorder() {
                recording = recorder.into_recording(&partition.ctx.links, end);
            }
            recording.waits = recorded_waits(&mut partition.hosts);
            partition.jobs.iter_mut().for_each(|jobs| jobs.add_to(&mut recording));
        }
        RunRecord { hosts: names.hosts.to_vec(), channels, ..recording }
    }

    /// Each direction of a link, with its parameters at the end of the run.
    fn channels(&self) -> Vec<RecordedChannel> {
        let Network { partitions, receiver, names, series, .. } = &self.network;
        let links = &partitions[0].ctx.links;
        let hosts = &partitions[0].hosts;
        let from: FxHashMap<ChannelId, u32> = hosts.iter().map(|host| (host.out, host.id)).collect();
        let to: FxHashMap<ChannelId, u32> = hosts.iter().map(|host| (host.into, host.id)).collect();
        let named = |(link, name): (&LinkName, &String)| {
            let id = link.channel;
            let (head_delay, arrives_with_tail) = links.arrival_delay(id);
            let channel = RecordedChannel {
                name: name.clone(),
                from_switch: links.sending_switch(id).map_or(NOT_RECORDED, |(switch, _)| switch),
                from_host: from.get(&id).copied().unwrap_or(NOT_RECORDED),
                to_switch: receiver[id as usize].map_or(NOT_RECORDED, |(switch, _)| switch),
                to_host: to.get(&id).copied().unwrap_or(NOT_RECORDED),
                rate_gbit_s: links.rate(id).as_gbit_f64(),
                delay: links.delay(id),
                head_delay,
                arrives_with_tail,
            };
            (id, channel)
        };
        let mut channels: Vec<_> = series.links.iter().zip(names.links.iter()).map(named).collect();
        channels.sort_unstable_by_key(|&(id, _)| id);
        channels.into_iter().map(|(_, channel)| channel).collect()
    }
}
