//! The part of the summary that every run has.

use schemars::JsonSchema;
use serde::Serialize;
use silvan_engine::Time;

use super::{SchedulerSummary, Summary};
use crate::config::Config;
use crate::meters::rate_gbit_s;
use crate::not_binned::NotBinned;
use crate::observe::latency_summaries;
use crate::partition::View;

/// One host's averages after the warm-up.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HostSummary {
    /// Name of the host.
    pub host: String,
    /// Payload received on average, Gbit/s.
    pub received_gbit_s: f64,
    /// Payload sent on average, Gbit/s.
    pub sent_gbit_s: f64,
}

/// The averages of a host with several ports after the warm-up.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MachineSummary {
    /// Name of the host.
    pub machine: String,
    /// Names of its ports, which are the hosts of the other results.
    pub ports: Vec<String>,
    /// Payload that all ports received on average, Gbit/s.
    pub received_gbit_s: f64,
    /// Payload that all ports sent on average, Gbit/s.
    pub sent_gbit_s: f64,
}

/// One named flow's averages after the warm-up.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FlowSummary {
    /// Name of the flow.
    pub flow: String,
    /// Sender.
    pub from: String,
    /// Receiver.
    pub to: String,
    /// Payload received on average, Gbit/s.
    pub received_gbit_s: f64,
    /// Payload received in the whole run, bytes.
    pub received_bytes: u64,
    /// Time in ns at which the last byte of a flow with a total was delivered; None for other flows and for
    /// unfinished ones.
    pub completed_ns: Option<u64>,
}

/// Delivered traffic of one class: a named flow, a traffic pattern, a role of a forest, or a job.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ClassSummary {
    /// Name of the class.
    pub class: String,
    /// Payload received on average after the warm-up, Gbit/s.
    pub received_gbit_s: f64,
    /// Packets delivered in the whole run.
    pub delivered_packets: u64,
    /// Delivered packets with the FECN bit set.
    pub marked_packets: u64,
    /// Delivered packets with the validation bit set.
    pub validated_packets: u64,
    /// Time of the last delivery in ns; None if no packet was delivered.
    pub last_delivery_ns: Option<u64>,
}

/// Averages over a group of hosts, after the warm-up.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GroupSummary {
    /// Name of the traffic pattern.
    pub traffic: String,
    /// Role: `hotspots`, `other hosts`, `contributors`, `victims`, ...
    pub group: &'static str,
    /// Number of hosts.
    pub hosts: usize,
    /// Mean of the payload received per host, Gbit/s.
    pub received_gbit_s: f64,
    /// Mean of the payload sent per host, Gbit/s.
    pub sent_gbit_s: f64,
}

/// Jain's fairness index: 1 if all shares are equal, 1/n if one of n members has everything. 1 if there are
/// no shares or all are zero.
#[must_use]
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

/// A group of hosts with the same role.
pub(crate) struct Group {
    /// The traffic pattern that defines the role.
    pub traffic: String,
    /// The name of the role.
    pub name: &'static str,
    pub hosts: Vec<u32>,
}

/// A host with several ports.
pub(crate) struct HostPorts {
    pub name: String,
    /// Indices of its ports among the hosts.
    pub ports: Vec<u32>,
}

/// The data that the summary uses.
pub(crate) struct Findings<'a> {
    pub config: &'a Config,
    /// The state at the end of the run.
    pub view: View<'a>,
    /// Names of all hosts except reduction units.
    pub hosts: &'a [String],
    /// Whether each host is the destination of any traffic.
    pub is_destination: &'a [bool],
    pub groups: &'a [Group],
    /// Hosts with several ports.
    pub machines: &'a [HostPorts],
    /// Why the event-ordered scheduler ran the switches; `Ok` if the binned one did.
    pub choice: Result<(), NotBinned>,
    /// Number of processed events.
    pub events: u64,
}

impl Findings<'_> {
    /// Creates the summary, without the sections.
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
                reason: self.choice.err().map(NotBinned::clause),
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
            flows,
            classes: self.classes(span),
            latency: meters.classes.iter().flat_map(latency_summaries).collect(),
            groups,
            machines: self.machines(&hosts),
            hosts,
            ..Summary::default()
        }
    }

    fn groups(&self, hosts: &[HostSummary]) -> Vec<GroupSummary> {
        let groups = self.groups.iter();
        groups
            .map(|group| {
                let mean = |of: fn(&HostSummary) -> f64| {
                    // The sum of no numbers is -0.0.
                    let all = group.hosts.iter().map(|&host| of(&hosts[host as usize]));
                    all.fold(0.0, |sum, one| sum + one) / group.hosts.len().max(1) as f64
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

    fn machines(&self, hosts: &[HostSummary]) -> Vec<MachineSummary> {
        let machines = self.machines.iter();
        machines
            .map(|machine| {
                let ports = machine.ports.iter().map(|&port| &hosts[port as usize]);
                MachineSummary {
                    machine: machine.name.clone(),
                    ports: ports.clone().map(|port| port.host.clone()).collect(),
                    received_gbit_s: ports.clone().fold(0.0, |sum, port| sum + port.received_gbit_s),
                    sent_gbit_s: ports.fold(0.0, |sum, port| sum + port.sent_gbit_s),
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
}

/// The sentence about all packets.
pub(crate) fn overview(summary: &Summary, now: Time) -> String {
    format!(
        "In {now} of simulated time {} data packets were sent and {} delivered, {:.3} Gbit/s in all; {} were \
         still inside at the end.",
        summary.packets_injected,
        summary.packets_delivered,
        summary.throughput_gbit_s,
        summary.packets_inside
    )
}
