//! Estimates the cost of a run to an order of magnitude, from the offered traffic, regardless of the capacity
//! of links between switches.

use serde::Serialize;
use silvan_congestion::reaction::Reaction;
use silvan_engine::{Bytes, Rate, Time};
use silvan_fabric::config::Packet;
use silvan_network::topology::{NodeRef, Topology};
use silvan_network::traffic::{Flow, Job, Pattern, Traffic};
use silvan_trace::Kind;

use crate::rows;
use crate::spec::Spec;

/// The estimated cost of a run. Serialized to JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// Data packets sent.
    pub packets: f64,
    /// Number of packet hops: each packet, including acknowledgements and announcements, counts once per link that it crosses.
    pub packet_hops: f64,
    /// Events to process.
    pub events: f64,
    /// Memory in MB (1e6 bytes).
    pub memory_mb: f64,
    /// Wall-clock time in seconds, at 10 million packet hops per second.
    pub wall_s: f64,
}

/// Packet hops per second of wall-clock time on one core.
const PACKET_HOPS_PER_S: f64 = 1e7;
/// Events per packet hop: one arrival, and occasionally the wake-up of a blocked output.
const EVENTS_PER_HOP: f64 = 1.6;
/// Bytes of memory per buffered packet.
const PACKET_BYTES: f64 = 64.0;

/// Bytes per class of traffic (a flow, a pattern or a job), with its text in the scenario.
const CLASS_BYTES: f64 = 9_000.0;
/// Bytes of the latency histograms of a class with many packets.
const HISTOGRAM_BYTES: f64 = 160_000.0;
/// Bytes of the histograms per packet, up to a total of `HISTOGRAM_BYTES` per class.
const SPARSE_BYTES: f64 = 64.0;
/// Bytes per recorded transfer.
const TRANSFER_BYTES: f64 = 300.0;
/// Maximum number of recorded transfers.
const MOST_TRANSFERS: f64 = 2e6;

/// Estimates a run in which packets cross `hops` links on average.
/// `patterns` is the traffic of the scenario with the content of its files.
pub(crate) fn estimate(
    (spec, patterns, jobs): (&Spec, &[Traffic], &[Job]),
    topology: &Topology,
    hops: f64,
) -> Estimate {
    let (host, drain) = rates(spec, topology);
    let hosts = topology.hosts.len();
    let flows = spec.flow.iter().map(|flow| of_flow(spec, flow, host));
    let traffic = patterns.iter().map(|traffic| of_traffic(spec, traffic, (host, drain), hosts));
    let (mut packets, mut messages, mut wire) = (0.0, 0.0, 0.0);
    let own_flows: f64 = patterns
        .iter()
        .filter(|traffic| traffic.has_own_flows())
        .map(|traffic| of_traffic(spec, traffic, (host, drain), hosts).messages)
        .map(|messages| messages.min(OWN_FLOWS_OF_HOST * hosts as f64) * OWN_FLOW_BYTES)
        .sum();
    let mut classes = own_flows;
    for offered in flows.chain(traffic).chain(jobs.iter().map(|job| of_job(spec, job))) {
        packets += offered.packets;
        messages += offered.messages;
        wire += offered.wire;
        classes += CLASS_BYTES + HISTOGRAM_BYTES.min(offered.packets * SPARSE_BYTES);
    }
    // Many flows may start at one host, but together they cannot send more than the host can.
    let bound = bytes(host, spec.duration) * hosts as f64;
    if wire > bound {
        packets *= bound / wire;
        messages *= bound / wire;
    }
    let packet_hops = (packets + control_packets(spec, packets, messages)) * hops;
    let ports = topology.channel_count() as f64;
    let per_port = (spec.switch.buffer.0 as f64 / spec.packet.mtu.0 as f64).min(256.0);
    let rows = rows::count(spec, topology) as f64;
    let tables = (topology.switches.len() * topology.hosts.len() * 2) as f64;
    let memory = 2e7 + ports * (1_000.0 + per_port * PACKET_BYTES) + rows * rows::ROW_BYTES + tables;
    let is_recorded = spec.measure.transfers.unwrap_or_else(|| patterns.iter().any(Traffic::has_own_flows));
    let transfers = if is_recorded { messages.min(MOST_TRANSFERS) * TRANSFER_BYTES } else { 0.0 };
    Estimate {
        packets: packets.round(),
        packet_hops: packet_hops.round(),
        events: (packet_hops * EVENTS_PER_HOP).round(),
        memory_mb: (memory + classes + transfers) / 1e6,
        wall_s: packet_hops / PACKET_HOPS_PER_S,
    }
}

/// The rates at which a host sends and receives, limited by the fastest host link.
pub(crate) fn rates(spec: &Spec, topology: &Topology) -> (Rate, Rate) {
    let of_host = |end: NodeRef| matches!(end, NodeRef::Host(_));
    let links = topology.links.iter().filter(|link| of_host(link.a.node) || of_host(link.b.node));
    let link = links.map(|link| link.rate).max().unwrap_or(Rate(0));
    (spec.host.injection_rate.unwrap_or(link).min(link), spec.host.drain_rate.unwrap_or(link).min(link))
}

/// Bytes of memory per flow, if each message has a separate flow.
const OWN_FLOW_BYTES: f64 = 500.0;
/// Number of separate flows that a host creates for the messages of a pattern before it reuses flows.
const OWN_FLOWS_OF_HOST: f64 = 1_024.0;

/// Number of control packets that announce a message and withdraw it, with their answers.
const ANNOUNCEMENTS: f64 = 4.0;

/// The number of control packets: answers to data packets without marks, and announcements.
fn control_packets(spec: &Spec, packets: f64, messages: f64) -> f64 {
    let components = spec.congestion.components(&spec.packet);
    let notification = components.notification;
    // With loss recovery, each packet has a receipt, which may be an acknowledgement.
    let answers = match (
        notification.acknowledges_each() || spec.recovery.is_some(),
        notification.answers_unmarked(),
    ) {
        (true, _) => packets,
        (false, true) => messages,
        (false, false) => 0.0,
    };
    let announces = matches!(components.reaction, Reaction::ExplicitRate(_));
    answers + if announces { messages * ANNOUNCEMENTS } else { 0.0 }
}

/// Traffic that a source sends: numbers of packets and messages, and number of bytes on the wire.
struct Offered {
    packets: f64,
    messages: f64,
    wire: f64,
}

/// The average message of a source.
struct Messages {
    payload: f64,
    packets: f64,
    /// Size in bytes on the wire.
    wire: f64,
}

impl Messages {
    fn new(packet: &Packet, least: Option<Bytes>, most: Option<Bytes>) -> Self {
        let least = least.unwrap_or(packet.mtu).0.max(1);
        let most = most.map_or(least, |most| most.0.max(least));
        // Mean over all sizes from the smallest to the largest.
        let sizes = (most - least + 1) as f64;
        let packets = (packets_up_to(most, packet.mtu.0) - packets_up_to(least - 1, packet.mtu.0)) / sizes;
        let payload = (least as f64 + most as f64) / 2.0;
        Self { payload, packets, wire: payload + packets * packet.header.0 as f64 }
    }

    /// Messages of a distribution of sizes: on average, half of the last packet is empty.
    fn of_sizes(packet: &Packet, mean: u32) -> Self {
        let payload = f64::from(mean);
        let packets = (payload / packet.mtu.0 as f64 + 0.5).max(1.0);
        Self { payload, packets, wire: payload + packets * packet.header.0 as f64 }
    }

    /// The traffic of a number of messages.
    fn times(&self, count: f64) -> Offered {
        Offered { packets: count * self.packets, messages: count, wire: count * self.wire }
    }

    /// Traffic sent in a given time. It is limited by the offered rate, the rate of the host, the rate at
    /// which messages can start, and the number of messages.
    fn sent(&self, spec: &Spec, offered: Option<Rate>, host: Rate, time: Time, most: f64) -> Offered {
        let overhead = spec.host.message_overhead.as_secs_f64();
        let each = self.wire / (host.0.max(1) as f64 / 8.0) + overhead;
        let able = time.as_secs_f64() / each;
        let wanted = offered.map_or(f64::INFINITY, |rate| bytes(rate, time) / self.payload);
        let count = able.min(wanted).min(most);
        self.times(count)
    }
}

/// Total number of packets of one message of each size from 1 to `size` bytes.
fn packets_up_to(size: u64, mtu: u64) -> f64 {
    let (full, rest) = ((size / mtu) as f64, (size % mtu) as f64);
    mtu as f64 * full * (full + 1.0) / 2.0 + rest * (full + 1.0)
}

fn bytes(rate: Rate, time: Time) -> f64 {
    rate.0 as f64 / 8.0 * time.as_secs_f64()
}

fn active(start: Time, stop: Option<Time>, duration: Time) -> Time {
    stop.unwrap_or(duration).min(duration).saturating_sub(start)
}

fn of_flow(spec: &Spec, flow: &Flow, host: Rate) -> Offered {
    let messages = Messages::new(&spec.packet, flow.message, None);
    let most = flow.total.map_or(f64::INFINITY, |total| total.0 as f64 / messages.payload);
    messages.sent(spec, flow.rate, host, active(flow.start, flow.stop, spec.duration), most)
}

fn of_traffic(spec: &Spec, traffic: &Traffic, (host, drain): (Rate, Rate), hosts: usize) -> Offered {
    let time = active(traffic.start, traffic.stop, spec.duration);
    if let Some(transfers) = &traffic.loaded.transfers {
        let inside = transfers.iter().filter(|one| one.start < spec.duration);
        let (mut packets, mut payload, mut count) = (0, 0, 0.0);
        for one in inside {
            packets += one.bytes.div_ceil(spec.packet.mtu.0);
            payload += one.bytes;
            count += 1.0;
        }
        let wire = payload as f64 + packets as f64 * spec.packet.header.0 as f64;
        return Offered { packets: packets as f64, messages: count, wire };
    }
    let messages = match traffic.cdf() {
        Some(sizes) => Messages::of_sizes(&spec.packet, sizes.mean()),
        None => Messages::new(&spec.packet, traffic.message, traffic.message_max),
    };
    let senders = traffic.hosts.as_ref().map_or(hosts, Vec::len) as f64;
    let load = traffic.load_percent.map(|percent| Rate(host.0 / 100 * u64::from(percent)));
    if let Pattern::Incast(incast) = &traffic.pattern {
        let count = match (incast.every, load) {
            (Some(every), _) => {
                time.as_secs_f64() / every.as_secs_f64().max(1e-12) * f64::from(incast.senders)
            }
            (None, load) => bytes(load.unwrap_or(Rate(0)), time) * senders / messages.payload,
        };
        return messages.times(count);
    }
    let most = traffic.packets_per_host.map_or(f64::INFINITY, |packets| packets as f64 / messages.packets);
    let each = messages.sent(spec, traffic.rate.or(load), host, time, most);
    let wire = each.wire * senders;
    let arrives = match &traffic.pattern {
        Pattern::Hotspots { to } => wire.min(bytes(drain, time) * to.len() as f64),
        Pattern::Forest(forest) => {
            let percent = |percent: u8| wire * f64::from(percent) / 100.0;
            let hot = percent(forest.contributors) + percent(forest.mixed) * f64::from(forest.p) / 100.0;
            let random = percent(forest.victims) + percent(forest.mixed) * f64::from(100 - forest.p) / 100.0;
            hot.min(bytes(drain, time) * f64::from(forest.hotspots)) + random
        }
        _ => wire,
    };
    let count = arrives / messages.wire;
    Offered { packets: count * messages.packets, messages: count, wire: arrives }
}

/// All messages of a job.
fn of_job(spec: &Spec, job: &Job) -> Offered {
    let packet = &spec.packet;
    let (mut packets, mut messages, mut payload) = (0, 0, 0);
    for send in (0..job.trace.operations()).map(|at| job.trace.operation(at)) {
        if send.kind == Kind::Send {
            packets += send.size.div_ceil(packet.mtu.0).max(1);
            messages += 1;
            payload += send.size;
        }
    }
    let wire = payload as f64 + packets as f64 * packet.header.0 as f64;
    Offered { packets: packets as f64, messages: f64::from(messages), wire }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_in_packets() {
        let packet = Packet { mtu: Bytes(1000), header: Bytes(20), ..Packet::default() };
        let mean = |least: u64, most: u64| {
            let messages = Messages::new(&packet, Some(Bytes(least)), Some(Bytes(most)));
            let sizes = least..=most;
            let count = sizes.clone().count() as f64;
            let packets = sizes.clone().map(|size| size.div_ceil(1000)).sum::<u64>() as f64 / count;
            let payload = sizes.sum::<u64>() as f64 / count;
            assert!((messages.packets - packets).abs() < 1e-9, "{least} to {most}");
            assert!((messages.payload - payload).abs() < 1e-9, "{least} to {most}");
            (messages.packets, messages.wire)
        };
        assert_eq!(mean(1, 1), (1.0, 21.0));
        assert_eq!(mean(1000, 1000), (1.0, 1020.0));
        assert_eq!(mean(1001, 1001), (2.0, 1041.0));
        mean(1, 5000);
        mean(999, 2001);
    }
}
