//! The summary of a run.

use silvan_congestion::Components;
use silvan_congestion::isolation::Isolation;
use silvan_congestion::reaction::Reaction;
use silvan_engine::Time;

use crate::config::{Config, RoutePer};
use crate::observe::isolation_summary;
use crate::outcome::{
    AnnouncedSummary, ClassSummary, FlowSummary, GroupSummary, HostSummary, IsolationSummary, LatencySummary,
    ReorderingSummary, SchedulerSummary, Summary, TriggerSummary, TrimmingSummary, jain, rate_gbit_s,
};
use crate::partition::View;

/// A group of hosts with the same role.
pub(crate) struct Group {
    /// The traffic pattern that defines the role.
    pub traffic: String,
    /// The name of the role.
    pub name: &'static str,
    pub hosts: Vec<u32>,
}

/// The data that the summary uses.
pub(crate) struct Findings<'a> {
    pub config: &'a Config,
    /// The components of congestion management in effect.
    pub parts: &'a Components,
    /// The state at the end of the run.
    pub view: View<'a>,
    /// Names of all hosts without the reduction units.
    pub hosts: &'a [String],
    /// Whether each host is the destination of any traffic.
    pub is_destination: &'a [bool],
    pub groups: &'a [Group],
    /// Why the event-ordered scheduler ran the switches; `Ok` if the binned one did.
    pub choice: Result<(), &'static str>,
    /// Number of processed events.
    pub events: u64,
}

impl Findings<'_> {
    /// Creates the summary, without the jobs, the pauses, the retries and the losses.
    pub fn summary(&self) -> Summary {
        let meters = self.view.totals;
        let from = if meters.warm { self.config.warmup } else { Time::ZERO };
        let span = self.view.now.saturating_sub(from);
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
            .zip(self.is_destination)
            .filter_map(|(host, &is)| is.then_some(host.received_gbit_s))
            .collect();
        let lasting: Vec<f64> = self
            .config
            .flows
            .iter()
            .zip(&flows)
            .filter(|(spec, _)| spec.total.is_none() && spec.stop.is_none_or(|stop| stop >= self.view.now))
            .map(|(_, flow)| flow.received_gbit_s)
            .collect();
        Summary {
            simulated_ns: self.view.now.0 / 1_000,
            averages_from_ns: from.0 / 1_000,
            scheduler: SchedulerSummary {
                kind: if self.choice.is_ok() { "binned" } else { "event-ordered" },
                reason: self.choice.err(),
            },
            events: self.events,
            packet_hops: self.view.packet_hops(),
            packets_injected: meters.packets_injected,
            packets_delivered: meters.packets_delivered,
            packets_inside: meters.data_inside().unwrap_or_default(),
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
            pauses: None,
            retries: None,
            congestion_log: None,
            trimming: self.trimming(),
            losses: None,
            transfers: None,
        }
    }

    fn isolation(&self) -> Option<IsolationSummary> {
        let Isolation::SpecialQueues(special) = &self.parts.isolation else { return None };
        isolation_summary(special, self.view)
    }

    fn trimming(&self) -> Option<TrimmingSummary> {
        let meters = self.view.totals;
        self.config.switch.trimming.as_ref().map(|_| TrimmingSummary {
            trimmed_packets: meters.trimmed,
            retransmitted_packets: meters.resent,
            most_header_bytes: meters.most_header_bytes.into(),
        })
    }

    fn groups(&self, hosts: &[HostSummary]) -> Vec<GroupSummary> {
        let groups = self.groups.iter();
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
        let classes = &self.view.totals.classes;
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
        let classes = self.view.totals.classes.iter();
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
        let meters = self.view.totals;
        let explicit = matches!(self.parts.reaction, Reaction::ExplicitRate(_));
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
        let found = self.view.totals.reordering;
        Some(ReorderingSummary {
            late_packets: found.late,
            held_packets: found.held,
            mean_held_ns: found.waited_ps as f64 / found.released.max(1) as f64 / 1_000.0,
            most_held_bytes: found.most_bytes,
        })
    }

    fn triggers(&self) -> Vec<TriggerSummary> {
        let classes = &self.view.totals.classes;
        // All partitions have the same triggers.
        let triggers = self.view.partitions.iter().take(1).flat_map(|partition| partition.triggers.iter());
        triggers
            .map(|trigger| TriggerSummary {
                class: classes[usize::from(trigger.class)].name.clone(),
                after_packets: trigger.after_packets,
                started_ns: trigger.started.map(|time| time.0 / 1_000),
            })
            .collect()
    }

    fn latencies(&self) -> Vec<LatencySummary> {
        let classes = self.view.totals.classes.iter();
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
