//! The run, which is built from topology, tables and configuration, and advances in steps.

mod exchange;
mod external;
mod record;
mod restored;
mod skipping;
mod steps;
#[cfg(test)]
mod tests;
mod threads;

use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_network::routing::Tables;
use silvan_network::topology::Topology;

use crate::config::{Config, FlowControl};
pub use crate::error::ModelError;
use crate::jobs::Jobs;
pub use crate::jobs::{ExternalMessage, Fate, Heard};
use crate::link::{ChannelId, OverlongPause};
use crate::observe::{
    Invariants, SwitchLane, Violation, check_all_credits, check_traffic, find_deadlock, latency_table,
    left_waiting,
};
pub use crate::observe::{Latest, LatestTree, TreeLink};
pub use crate::outcome::jain;
use crate::outcome::{Ending, Expected, Findings, Outcome, SkippingSummary, overflow_in_words, overview};
use crate::setup::{FaultPlan, Network, ShortCredit, build, check_routes};
pub use external::{Refused, Stop};
pub use skipping::Differences;
use skipping::Skipping;
pub use steps::Steps;

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Simulated time reached.
    pub now: Time,
    /// Simulated time of the end.
    pub end: Time,
    /// Events processed so far.
    pub events: u64,
    /// Whether the end has been reached.
    pub done: bool,
}

/// The size of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Number of hosts, including reduction units.
    pub hosts: usize,
    /// Number of links. The two directions of a link count as one link.
    pub links: usize,
}

/// A run: all partitions, and the observers that record them.
#[derive(Saved)]
pub struct Simulation {
    #[saved(constant)]
    config: Config,
    network: Network,
    /// Number of hosts without the reduction units, which are the last hosts.
    #[saved(constant)]
    end_hosts: usize,
    #[saved(constant)]
    links: usize,
    #[saved(constant)]
    steps: Option<Steps>,
    /// Simulated time reached.
    now: Time,
    events: u64,
    invariants: Invariants,
    next_watch: Time,
    /// The end of the current interval; `None` if it is after the end of the run.
    next_sample: Option<Time>,
    done: bool,
    /// Whether events were pending when the run reached its duration.
    is_cut: bool,
    /// Warnings about the network, which are added to those of the run.
    #[saved(constant)]
    warnings: Vec<String>,
    /// See [`Self::with_expectations`].
    #[saved(constant)]
    expected: Vec<Expected>,
    /// What was skipped so far, if [`Config::skip`] is set.
    skipping: Option<SkippingSummary>,
    /// The boundaries since the last sample.
    #[saved(constant)]
    boundaries: Skipping,
}

impl Simulation {
    /// Time between two searches for a deadlock.
    const WATCH_INTERVAL: Time = Time::from_us(100);

    /// Builds the network.
    ///
    /// # Errors
    /// [`ModelError::Configuration`] if topology, tables and configuration do not match.
    pub fn new(topology: &Topology, tables: &Tables, config: &Config) -> Result<Self, ModelError> {
        check_routes(config, topology, tables)?;
        let faults = FaultPlan::of(config, topology, tables)?;
        Self::with_checked_routes(topology, tables, config, faults)
    }

    /// Same as [`Self::new`], for inputs that passed [`crate::check_routes`] and changes of links and hosts
    /// that have been determined. The check takes most of the time in a large network.
    ///
    /// # Errors
    /// Same as [`Self::new`], except for those of [`crate::check_routes`].
    pub fn with_checked_routes(
        topology: &Topology,
        tables: &Tables,
        config: &Config,
        faults: FaultPlan,
    ) -> Result<Self, ModelError> {
        let mut network = build(topology, tables, config, faults)?;
        let first = config.measure.interval.min(config.duration);
        network.expect_sample(first);
        network.partitions.iter_mut().for_each(|partition| partition.start(config.warmup));
        let mut simulation = Self {
            config: config.clone(),
            network,
            end_hosts: topology.end_hosts() as usize,
            links: topology.links.len(),
            steps: None,
            now: Time::ZERO,
            events: 0,
            invariants: Invariants::default(),
            next_watch: Self::WATCH_INTERVAL,
            next_sample: Some(first),
            done: false,
            is_cut: false,
            warnings: Vec::new(),
            expected: Vec::new(),
            skipping: None,
            boundaries: Skipping::default(),
        };
        simulation.expect_repetitions();
        Ok(simulation)
    }

    /// Adds the rates that the network permits after each change of links. The outcome then states how long
    /// the network takes to reach them, and the victims of each change.
    #[must_use]
    pub fn with_expectations(self, expected: Vec<Expected>) -> Self {
        Self { expected, ..self }
    }

    /// The direction of a link whose lanes can use the smallest share of its rate because they lack credit; see
    /// [`short_credit`](crate::short_credit).
    #[must_use]
    pub fn short_credit(&self) -> Option<&ShortCredit> {
        self.network.short_credit.as_ref()
    }

    /// Adds warnings to the outcome.
    #[must_use]
    pub fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    /// Number of partitions, which equals the number of threads unless [`Self::record_steps`] was called.
    ///
    /// # Errors
    /// The reason why the network cannot be divided.
    pub fn partitions(&self) -> Result<usize, &'static str> {
        self.network.lookahead.map(|_| self.network.partitions.len())
    }

    /// Whether the binned scheduler runs the switches, instead of the event-ordered one.
    #[must_use]
    pub fn is_binned(&self) -> bool {
        self.network.choice.is_ok()
    }

    /// Simulated time reached.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// The size of the network.
    #[must_use]
    pub fn size(&self) -> Size {
        Size { hosts: self.network.names.hosts.len(), links: self.links }
    }

    /// Processes about `events` events, or fewer if the run ends earlier.
    ///
    /// # Errors
    /// All kinds of [`ModelError`] except [`ModelError::Configuration`].
    pub fn advance(&mut self, events: u64) -> Result<Progress, ModelError> {
        let target = self.events.saturating_add(events);
        while !self.done && self.events < target {
            self.run_partitions(target)?;
        }
        Ok(Progress { now: self.now, end: self.config.duration, events: self.events, done: self.done })
    }

    /// Same as [`Self::advance`], but stops at the next sample. Returns whether the run reached it.
    ///
    /// # Errors
    /// Those of [`Self::advance`].
    pub fn advance_to_sample(&mut self, events: u64) -> Result<(Progress, bool), ModelError> {
        let (target, sample) = (self.events.saturating_add(events), self.next_sample);
        while !self.done && self.events < target && self.next_sample == sample {
            self.run_partitions(target)?;
        }
        let progress =
            Progress { now: self.now, end: self.config.duration, events: self.events, done: self.done };
        Ok((progress, self.next_sample != sample))
    }

    /// The values that the last sample recorded, with the congestion trees at that time if trees are
    /// recorded.
    #[must_use]
    pub fn latest(&self) -> Latest<'_> {
        let mut latest = self.network.series.latest();
        if let Some(forest) = &self.network.forest {
            (latest.trees, latest.tree_links) = forest.latest(self.network.view(self.now));
        }
        let view = self.network.view(self.now);
        let links = (0..).zip(&self.network.series.links);
        latest.links_down =
            links.filter(|(_, link)| view.is_down(link.channel)).map(|(index, _)| index).collect();
        latest
    }

    /// Names of the classes of traffic, in the order of [`Latest::class_throughput_gbit_s`].
    pub fn class_names(&self) -> impl Iterator<Item = &str> {
        self.network.totals.classes.iter().map(|class| class.name.as_str())
    }

    /// Number of packets that have crossed a link so far, counted once per link.
    #[must_use]
    pub fn packet_hops(&self) -> u64 {
        self.network.view(self.now).packet_hops()
    }

    /// Checks that no invariant was violated while an event was handled. The error contains the time of that
    /// event.
    fn check_broken(&self) -> Result<(), ModelError> {
        let broken = self.network.view(self.now).broken();
        broken.map_or(Ok(()), |(now, what)| Err(ModelError::Broken { now, what }))
    }

    /// If receivers stop their senders, checks that all packets fitted into their buffers, and that no lane
    /// was paused for too long. The error is that of the earliest cause and contains its time.
    fn check_pauses(&self) -> Result<(), ModelError> {
        let (watchdog, advice) = match &self.config.flow_control {
            FlowControl::Credits(_) => return Ok(()),
            FlowControl::OnOff(_) => (None, "decrease flow_control.xoff"),
            FlowControl::Pfc(pfc) => (pfc.watchdog, "increase flow_control.headroom"),
        };
        let view = self.network.view(self.now);
        let paused = view.paused_too_long();
        if let Some(found) = view.overflow().filter(|lost| paused.is_none_or(|long| lost.time <= long.time)) {
            let what = overflow_in_words(found, self.link_name(found.channel), advice);
            return Err(ModelError::Overflow { now: found.time, what });
        }
        match (paused, watchdog) {
            (Some(OverlongPause { time, channel, vl }), Some(limit)) => Err(ModelError::PausedTooLong {
                now: time,
                link: self.link_name(channel).to_owned(),
                vl,
                since: time - limit,
                limit,
            }),
            _ => Ok(()),
        }
    }

    /// Checks that no link has failed.
    fn check_retries(&self) -> Result<(), ModelError> {
        let Some(retry) = &self.config.link.retry else { return Ok(()) };
        let Some((now, channel)) = self.network.view(self.now).failed_link() else { return Ok(()) };
        Err(ModelError::LinkFailed { now, link: self.link_name(channel).to_owned(), count: retry.count })
    }

    /// The name of the link that a channel belongs to, as in the results.
    fn link_name(&self, channel: ChannelId) -> &str {
        let Network { series, names, .. } = &self.network;
        let at = series.links.iter().position(|link| link.channel == channel);
        at.map_or("?", |at| &names.links[at])
    }

    fn broken(&self, (channel, what): Violation) -> ModelError {
        let what = channel.map_or(what.clone(), |channel| format!("{}: {what}", self.link_name(channel)));
        ModelError::Broken { now: self.now, what }
    }

    /// The time of the next sample, or the end of the run.
    fn next_stop(&self) -> Time {
        let duration = self.config.duration;
        self.next_sample.map_or(duration, |time| time.min(duration))
    }

    /// Takes a sample if one is due, and ends the run if its duration is over. All partitions have reached
    /// `time`.
    fn reach(&mut self, time: Time) -> Result<(), ModelError> {
        self.now = time;
        self.network.partitions.iter_mut().for_each(|partition| partition.ctx.now = time);
        if self.skipping.is_some() {
            self.forget_boundaries();
        }
        self.check_broken()?;
        self.check_pauses()?;
        self.check_retries()?;
        if self.next_sample == Some(time) {
            self.events += 1;
            self.sample()?;
        }
        if time == self.config.duration {
            self.is_cut = !self.network.view(self.now).is_idle();
            return self.end();
        }
        Ok(())
    }

    /// Ends the run; no more events occur.
    fn end(&mut self) -> Result<(), ModelError> {
        self.now = self.config.duration;
        if !self.is_cut {
            self.check_for_stall()?;
        }
        self.done = true;
        Ok(())
    }

    fn sample(&mut self) -> Result<(), ModelError> {
        self.check_for_stall()?;
        self.network.gather(self.now);
        if self.config.ends_with_jobs && self.jobs_are_over() {
            self.config.duration = self.now;
        }
        let Self { network, invariants, now, .. } = self;
        let checked = invariants.check(network.view(*now));
        checked.map_err(|violation| self.broken(violation))?;
        self.observe();
        let next = self.now + self.network.series.interval;
        self.next_sample = (next <= self.config.duration).then_some(next);
        self.network.expect_sample(next.min(self.config.duration));
        self.watch()
    }

    fn jobs_are_over(&self) -> bool {
        Jobs::are_over(self.network.partitions.iter().filter_map(|partition| partition.jobs.as_ref()))
    }

    /// Records the interval that ends now.
    fn observe(&mut self) {
        self.network.collect_transfers(self.now);
        let Network { partitions, places, receiver, totals, series, sections, forest, .. } =
            &mut self.network;
        let view = crate::partition::View { now: self.now, totals, receiver, places, partitions };
        let has_rows = series.sample(view);
        if has_rows {
            sections.sample(view);
        }
        let watch = forest.as_mut().and_then(|forest| forest.sample(view));
        if let Some(watch) = watch {
            for partition in partitions {
                partition.ctx.meters.deliveries.watch(watch);
            }
        }
        if has_rows {
            totals.close_interval();
        }
    }

    /// Searches for a deadlock, at most once per [`WATCH_INTERVAL`].
    fn watch(&mut self) -> Result<(), ModelError> {
        if self.now < self.next_watch {
            return Ok(());
        }
        self.next_watch = self.now + Self::WATCH_INTERVAL;
        self.check_for_deadlock()
    }

    fn check_for_deadlock(&self) -> Result<(), ModelError> {
        let view = self.network.view(self.now);
        let Some(cycle) = find_deadlock(view) else { return Ok(()) };
        let names: Vec<String> = cycle
            .iter()
            .map(|&SwitchLane { switch, output, vl }| {
                format!("{} (VL {vl})", self.link_name(view.ports(switch).out(output)))
            })
            .collect();
        Err(ModelError::Deadlock { now: self.now, cycle: names.join(", ") })
    }

    /// Checks that no packet waits when no event is pending. If packets may get lost, this is not checked,
    /// because traffic may then wait for lost packets.
    fn check_for_stall(&self) -> Result<(), ModelError> {
        let view = self.network.view(self.now);
        if self.config.loses_packets() || !view.is_idle() {
            return Ok(());
        }
        let Some(waiting) = left_waiting(view, &self.network.names.hosts) else { return Ok(()) };
        self.check_for_deadlock()?;
        Err(ModelError::Stalled { now: self.now, waiting })
    }

    /// Checks the counts of packets and all credits, even if the run was stopped early, and returns the
    /// results.
    ///
    /// # Errors
    /// [`ModelError::Broken`] if an invariant is violated.
    pub fn finish(mut self) -> Result<Outcome, ModelError> {
        self.check_broken()?;
        let now = self.now;
        self.network.gather(now);
        self.network.collect_transfers(now);
        let Network { partitions, places, receiver, totals, series, sections, .. } = &mut self.network;
        totals.gather_latencies(partitions.iter_mut().map(|partition| &mut partition.ctx.meters));
        let view = crate::partition::View { now, totals, receiver, places, partitions };
        if series.sample(view) {
            sections.sample(view);
            totals.close_interval();
        }
        let jobs: Vec<Jobs> = partitions.iter_mut().filter_map(|partition| partition.jobs.take()).collect();
        let view = self.network.view(now);
        check_traffic(view).map_err(|what| self.broken((None, what)))?;
        check_all_credits(view).map_err(|violation| self.broken(violation))?;
        let jobs = Jobs::close(jobs.into_iter(), |host| view.host(host as usize), now);
        let summary = self.findings().summary();
        let mut warnings = std::mem::take(&mut self.warnings);
        // A program decides itself when its run ends.
        if !self.done && self.config.external.is_none() {
            warnings.push(format!(
                "The run was stopped at {now} of {}: averages cover the completed part.",
                self.config.duration
            ));
        }
        let account = vec![overview(&summary, now)];
        let mut outcome = Outcome { summary, tables: Vec::new(), account, warnings };
        let sections = std::mem::take(&mut self.network.sections);
        let forest = self.network.forest.take();
        let Network { series, changes, names, parts, round_trip, .. } = &self.network;
        let view = self.network.view(now);
        let mut end = Ending {
            config: &self.config,
            parts,
            view,
            links: &series.links,
            names,
            series,
            forest: forest.map(|forest| forest.judge(view)),
            jobs,
            changes,
            expected: &self.expected,
            round_trip: *round_trip,
        };
        sections.close(&mut end, &mut outcome);
        outcome.account.push(outcome.summary.scheduler.sentence());
        if let Some(skipping) = self.skipping.take() {
            outcome.account.push(skipping.sentence());
            outcome.summary.skipping = Some(skipping);
        }
        let Network { series, totals, names, .. } = self.network;
        let mut tables = series.into_tables(&names);
        tables.push(latency_table(&totals.classes, &names));
        tables.append(&mut outcome.tables);
        Ok(Outcome { tables, ..outcome })
    }

    fn findings(&self) -> Findings<'_> {
        Findings {
            config: &self.config,
            view: self.network.view(self.now),
            hosts: &self.network.names.hosts[..self.end_hosts],
            is_destination: &self.network.is_destination,
            groups: &self.network.groups,
            machines: &self.network.machines,
            choice: self.network.choice,
            events: self.events,
        }
    }
}
