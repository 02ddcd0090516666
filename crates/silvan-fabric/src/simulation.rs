//! The run itself: built from topology, tables and configuration, advanced in slices.

use silvan_engine::{Event, Time};

use crate::config::{Config, RoutePer};
use crate::congestion::reaction::Reaction;
use crate::jobs::{Closed, Jobs, into_tables};
use crate::link::{Class, key};
use crate::measure::{Nodes, Story, check_traffic, find_deadlock, isolation_summary, left_waiting, tell};
use crate::outcome::{
    AnnouncedSummary, ClassSummary, FlowSummary, GroupSummary, HostSummary, IsolationSummary, LatencySummary,
    Outcome, ReorderingSummary, Summary, Table, TriggerSummary,
};
use crate::outcome::{latency_table, rate_gbit_s};
use crate::port::Port;
use crate::queueing::Isolation;
use crate::routing::Tables;
use crate::setup::{Network, SetupError, build};
use crate::topology::Topology;
use crate::traffic::trigger::Triggers;

/// Why a run could not be built or go on, with its context.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The configuration cannot be run as it stands.
    #[error(transparent)]
    Configuration(#[from] SetupError),
    /// Packets wait for each other in a circle.
    #[error(
        "deadlock at {now}: each of these outputs waits for buffer space that only the next can free: {cycle}"
    )]
    Deadlock {
        /// Simulated time of the discovery.
        now: Time,
        /// The circle, port by port.
        cycle: String,
    },
    /// Something waits, but nothing is on its way that it could wait for.
    #[error("the network stands still from {now} on, and these wait for ever: {waiting}")]
    Stalled {
        /// Simulated time of the discovery.
        now: Time,
        /// What waits, and where.
        waiting: String,
    },
    /// An invariant of the model is broken: a defect of the simulator.
    #[error("model error at {now}: {what}")]
    Broken {
        /// Simulated time.
        now: Time,
        /// What does not hold.
        what: String,
    },
}

/// How a run is done. The results are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// Output by output where the network allows it.
    #[default]
    Fastest,
    /// All events in their order.
    General,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Simulated time reached.
    pub now: Time,
    /// Simulated time of the end.
    pub end: Time,
    /// Events processed so far.
    pub events: u64,
    /// Whether the end is reached.
    pub done: bool,
}

/// A run.
pub struct Simulation {
    config: Config,
    network: Network,
    /// Names of all hosts, for the summary.
    hosts: Vec<String>,
    events: u64,
    next_watch: Time,
    /// The end of the current interval, if it is before the end of the run.
    next_sample: Option<Time>,
    done: bool,
    /// Whether the end came before decisions that were due.
    is_cut: bool,
    /// Whether the network is too large for the cache that is close to a core.
    is_large: bool,
}

impl Simulation {
    /// Between two looks for a deadlock.
    const WATCH_INTERVAL: Time = Time::from_us(100);

    /// Switch ports from which on it pays to look ahead (measured: it costs a tenth with 400, and
    /// wins a twentieth with 2,000 and half with 20,000).
    const MANY_PORTS: usize = 1_000;

    /// Builds the network.
    ///
    /// # Errors
    /// [`ModelError::Configuration`] where topology, tables and configuration do not fit.
    pub fn new(topology: &Topology, tables: &Tables, config: &Config) -> Result<Self, ModelError> {
        Self::with_engine(topology, tables, config, Engine::default())
    }

    /// As [`Self::new`], with the choice of how the run is done.
    ///
    /// # Errors
    /// As of [`Self::new`].
    pub fn with_engine(
        topology: &Topology,
        tables: &Tables,
        config: &Config,
        engine: Engine,
    ) -> Result<Self, ModelError> {
        let mut network = build(topology, tables, config, engine)?;
        let ctx = &mut network.ctx;
        let first = config.measure.interval.min(config.duration);
        let warmup = Event { time: config.warmup, key: key(Class::Warmup, 0, Port::FIRST), data: 0 };
        if ctx.parts.is_empty() {
            ctx.queue.push(warmup);
        }
        ctx.parts.iter_mut().for_each(|part| part.queue.push(warmup));
        ctx.expect_sample(first);
        for host in &mut network.hosts {
            host.start(ctx.part_mut(host.part));
        }
        let ports: usize = network.switches.iter().map(|switch| switch.ports().count()).sum();
        Ok(Self {
            config: config.clone(),
            is_large: ports > Self::MANY_PORTS,
            network,
            hosts: topology.hosts.iter().map(|host| host.name.clone()).collect(),
            events: 0,
            next_watch: Self::WATCH_INTERVAL,
            next_sample: Some(first),
            done: false,
            is_cut: false,
        })
    }

    /// Partitions, each of which a thread of its own works at.
    ///
    /// # Errors
    /// Why one thread does everything, in words.
    pub fn partitions(&self) -> Result<usize, &'static str> {
        self.network.lookahead.map(|_| self.network.ctx.parts.len().max(1))
    }

    /// Whether the outputs of switches are run apart, rather than all events handled in their order.
    #[must_use]
    pub fn is_apart(&self) -> bool {
        self.network.is_apart()
    }

    /// Processes about `events` events, or fewer if the end comes first.
    ///
    /// # Errors
    /// [`ModelError::Deadlock`] and [`ModelError::Broken`].
    pub fn advance(&mut self, events: u64) -> Result<Progress, ModelError> {
        let target = self.events.saturating_add(events);
        while !self.done && self.events < target {
            self.run_partitions(target)?;
        }
        let now = self.network.ctx.now;
        Ok(Progress { now, end: self.config.duration, events: self.events, done: self.done })
    }

    /// Nothing more happens.
    fn end(&mut self) -> Result<(), ModelError> {
        self.network.ctx.now = self.config.duration;
        if !self.is_cut {
            self.look_for_stall()?;
        }
        self.done = true;
        Ok(())
    }

    fn sample(&mut self) -> Result<(), ModelError> {
        self.look_for_stall()?;
        self.network.count_drained();
        let Network { ctx, hosts, switches, series, forest, receiver, jobs, .. } = &mut self.network;
        if self.config.ends_with_jobs && Jobs::are_over(jobs) {
            self.config.duration = ctx.now;
        }
        series.sample(ctx, hosts, switches);
        if let Some(forest) = forest {
            forest.sample(ctx, Nodes { switches, hosts, receiver });
        }
        let next = ctx.now + series.interval;
        self.next_sample = (next <= self.config.duration).then_some(next);
        self.check_all()?;
        self.network.ctx.expect_sample(next.min(self.config.duration));
        self.watch()
    }

    /// Looks for a deadlock, not too often.
    fn watch(&mut self) -> Result<(), ModelError> {
        let now = self.network.ctx.now;
        if now < self.next_watch {
            return Ok(());
        }
        self.next_watch = now + Self::WATCH_INTERVAL;
        self.look_for_deadlock()
    }

    fn look_for_deadlock(&self) -> Result<(), ModelError> {
        let Network { ctx, switches, receiver, series, link_names, .. } = &self.network;
        let Some(circle) = find_deadlock(ctx, switches, receiver) else { return Ok(()) };
        let names: Vec<String> = circle
            .iter()
            .map(|&(switch, output, vl)| {
                let channel = switches[switch as usize].ports().out(output);
                let at = series.links.iter().position(|link| link.channel == channel);
                format!("{} (VL {vl})", at.map_or("?", |at| &link_names[at]))
            })
            .collect();
        Err(ModelError::Deadlock { now: ctx.now, cycle: names.join(", ") })
    }

    #[cfg(debug_assertions)]
    fn check_all(&self) -> Result<(), ModelError> {
        let Network { ctx, switches, hosts, receiver, .. } = &self.network;
        crate::measure::check_all(ctx, (switches, hosts), receiver)
            .map_err(|what| ModelError::Broken { now: ctx.now, what })
    }

    #[cfg(not(debug_assertions))]
    fn check_all(&self) -> Result<(), ModelError> {
        Ok(())
    }

    /// Looks whether anything waits although no event is pending.
    fn look_for_stall(&self) -> Result<(), ModelError> {
        let Network { ctx, hosts, .. } = &self.network;
        if !ctx.is_idle() {
            return Ok(());
        }
        let Some(waiting) = left_waiting(ctx, hosts, &self.hosts) else { return Ok(()) };
        self.look_for_deadlock()?;
        Err(ModelError::Stalled { now: ctx.now, waiting })
    }

    /// Closes the books, also of a run that was stopped early.
    ///
    /// # Errors
    /// [`ModelError::Broken`] where traffic was lost.
    pub fn finish(mut self) -> Result<Outcome, ModelError> {
        {
            self.network.count_drained();
            let Network { ctx, hosts, switches, series, .. } = &mut self.network;
            ctx.gather_latencies();
            series.sample(ctx, hosts, switches);
            check_traffic(ctx, hosts).map_err(|what| ModelError::Broken { now: ctx.now, what })?;
        }
        let Network { ctx, hosts, jobs, .. } = &mut self.network;
        let jobs = Jobs::close(std::mem::take(jobs), hosts, ctx.now);
        let mut summary = self.summary();
        summary.jobs = jobs.iter().map(Closed::summary).collect();
        let Network { ctx, switches, hosts, receiver, link_names, series, forest, parts, .. } = self.network;
        let nodes = Nodes { switches: &switches, hosts: &hosts, receiver: &receiver };
        let forest = forest.map(|forest| forest.judge(nodes));
        let (mut account, mut warnings) = tell(&Story {
            config: &self.config,
            parts: &parts,
            ctx: &ctx,
            forest: forest.as_ref(),
            link_names: &link_names,
            triggers: &summary.triggers,
            throughput_gbit_s: summary.throughput_gbit_s,
            inside: summary.packets_inside,
            isolation: summary.isolation.as_ref(),
            stopped_early: !self.done,
        });
        for (sentence, warning) in jobs.iter().map(Closed::tell) {
            account.push(sentence);
            warnings.extend(warning);
        }
        let latency = latency_table(&ctx.meters.classes);
        let mut tables: Vec<Table> = series.into_tables();
        tables.push(latency);
        if !jobs.is_empty() {
            tables.extend(into_tables(jobs, &self.hosts));
        }
        if let Some(forest) = forest {
            let classes: Vec<String> = ctx.meters.classes.iter().map(|class| class.name.clone()).collect();
            tables.extend(forest.into_tables(&ctx, nodes, (&link_names, &self.hosts, &classes)));
        }
        Ok(Outcome { summary, tables, account, warnings })
    }

    fn summary(&self) -> Summary {
        let ctx = &self.network.ctx;
        let meters = &ctx.meters;
        let from = if meters.warm { self.config.warmup } else { Time::ZERO };
        let span = ctx.now.saturating_sub(from);
        let hosts: Vec<HostSummary> = (0..self.hosts.len())
            .map(|host| HostSummary {
                host: self.hosts[host].clone(),
                received_gbit_s: rate_gbit_s(
                    meters.received_bytes[host] - meters.received_warmup[host],
                    span,
                ),
                sent_gbit_s: rate_gbit_s(meters.sent_bytes[host] - meters.sent_warmup[host], span),
            })
            .collect();
        let flows = self.flow_summaries(span);
        let groups = self.groups(&hosts);
        let received: Vec<f64> = hosts
            .iter()
            .zip(&self.network.is_destination)
            .filter_map(|(host, &is)| is.then_some(host.received_gbit_s))
            .collect();
        let lasting: Vec<f64> = self
            .config
            .flows
            .iter()
            .zip(&flows)
            .filter(|(spec, _)| spec.total.is_none() && spec.stop.is_none_or(|stop| stop >= ctx.now))
            .map(|(_, flow)| flow.received_gbit_s)
            .collect();
        Summary {
            simulated_ns: ctx.now.0 / 1_000,
            averages_from_ns: from.0 / 1_000,
            events: self.events,
            packet_hops: ctx.links.packet_hops,
            packets_injected: meters.packets_injected,
            packets_delivered: meters.packets_delivered,
            packets_inside: meters.packets_injected - meters.packets_delivered,
            throughput_gbit_s: hosts.iter().map(|host| host.received_gbit_s).sum(),
            jain_hosts: jain(&received),
            jain_flows: jain(&lasting),
            fecn_marks: meters.fecn_marks,
            becn_received: meters.becn_received,
            hosts,
            flows,
            classes: self.classes(span),
            jobs: Vec::new(),
            latency: self.latencies(),
            announced: self.announced(),
            reordering: self.reordering(),
            triggers: self.triggers(),
            groups,
            isolation: self.isolation(),
        }
    }

    fn isolation(&self) -> Option<IsolationSummary> {
        let Isolation::SpecialQueues(special) = &self.network.parts.isolation else { return None };
        isolation_summary(special, &self.network.hosts, &self.network.switches)
    }

    fn groups(&self, hosts: &[HostSummary]) -> Vec<GroupSummary> {
        let groups = self.network.groups.iter();
        groups
            .map(|group| {
                let mean = |of: fn(&HostSummary) -> f64| {
                    let sum: f64 = group.hosts.iter().map(|&host| of(&hosts[host as usize])).sum();
                    sum / group.hosts.len().max(1) as f64
                };
                GroupSummary {
                    traffic: group.traffic.clone(),
                    group: group.name,
                    hosts: group.hosts.len(),
                    received_gbit_s: mean(|host| host.received_gbit_s),
                    sent_gbit_s: mean(|host| host.sent_gbit_s),
                }
            })
            .collect()
    }

    fn flow_summaries(&self, span: Time) -> Vec<FlowSummary> {
        let classes = &self.network.ctx.meters.classes;
        let flows = self.config.flows.iter().zip(classes);
        flows
            .map(|(flow, class)| FlowSummary {
                flow: class.name.clone(),
                from: flow.from.clone(),
                to: flow.to.clone(),
                received_gbit_s: rate_gbit_s(class.delivered_bytes - class.warmup_bytes, span),
                received_bytes: class.delivered_bytes,
                completed_ns: flow
                    .total
                    .filter(|total| class.delivered_bytes >= total.0)
                    .map(|_| class.last_delivery.0 / 1_000),
            })
            .collect()
    }

    fn classes(&self, span: Time) -> Vec<ClassSummary> {
        let classes = self.network.ctx.meters.classes.iter();
        classes
            .map(|class| ClassSummary {
                class: class.name.clone(),
                received_gbit_s: rate_gbit_s(class.delivered_bytes - class.warmup_bytes, span),
                delivered_packets: class.total.packets,
                marked_packets: class.total.marked,
                validated_packets: class.total.validated,
                last_delivery_ns: (class.total.packets > 0).then_some(class.last_delivery.0 / 1_000),
            })
            .collect()
    }

    fn announced(&self) -> Option<AnnouncedSummary> {
        let meters = &self.network.ctx.meters;
        let explicit = matches!(self.network.parts.reaction, Reaction::ExplicitRate(_));
        (explicit || self.config.chosen_routes(RoutePer::Flow).is_some()).then_some(AnnouncedSummary {
            flows: meters.announced,
            probes: meters.probes,
            busiest_link_ns: meters.busiest_link_ps / 1_000,
        })
    }

    fn reordering(&self) -> Option<ReorderingSummary> {
        if !self.config.may_reorder() {
            return None;
        }
        let found = self.network.ctx.meters.reordering;
        Some(ReorderingSummary {
            late_packets: found.late,
            held_packets: found.held,
            mean_held_ns: found.waited_ps as f64 / found.released.max(1) as f64 / 1_000.0,
            most_held_bytes: found.most_bytes,
        })
    }

    fn triggers(&self) -> Vec<TriggerSummary> {
        let classes = &self.network.ctx.meters.classes;
        // All partitions know of the same.
        let triggers = self.network.triggers.first();
        let triggers = triggers.into_iter().flat_map(Triggers::iter);
        triggers
            .map(|trigger| TriggerSummary {
                class: classes[usize::from(trigger.class)].name.clone(),
                after_packets: trigger.after_packets,
                started_ns: trigger.started.map(|time| time.0 / 1_000),
            })
            .collect()
    }

    fn latencies(&self) -> Vec<LatencySummary> {
        let classes = self.network.ctx.meters.classes.iter();
        classes
            .flat_map(|class| {
                [("generation", &class.since_generation), ("injection", &class.since_injection)].map(
                    |(since, latency)| LatencySummary {
                        class: class.name.clone(),
                        since,
                        count: latency.count(),
                        mean_ns: latency.mean_ns(),
                        p50_ns: latency.quantile_ns(0.5),
                        p99_ns: latency.quantile_ns(0.99),
                        max_ns: latency.max_ps / 1_000,
                    },
                )
            })
            .collect()
    }
}

/// Jain's fairness index: 1 if all shares are equal, 1/n if one has everything.
#[must_use]
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

mod part;
#[cfg(test)]
mod tests;
mod threads;
