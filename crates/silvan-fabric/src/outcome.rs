//! What a run leaves behind: a summary, tables over time, an account in words.

use std::sync::Arc;

use serde::Serialize;
use silvan_engine::Time;

use crate::meters::{Bin, ClassMeter};

/// A named table of equally long columns, ready to become an Arrow record batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// `hosts`, `flows`, `links`, `latency`, ...
    pub name: &'static str,
    /// Columns in order; units are in their names, last (`time_ns`).
    pub columns: Vec<Column>,
}

/// One column of a [`Table`].
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// With its unit, last.
    pub name: &'static str,
    /// The values.
    pub values: Values,
}

/// The values of a column. Equal ones have the same bits: what is missing (NaN) equals itself.
#[derive(Debug, Clone)]
pub enum Values {
    /// Counts, bytes, nanoseconds.
    U64(Vec<u64>),
    /// Small counts.
    U32(Vec<u32>),
    /// Ratios and rates.
    F64(Vec<f64>),
    /// Names, dictionary-encoded: `codes` index into `names`.
    Name {
        /// Per row, an index into `names`.
        codes: Vec<u32>,
        /// Each name once.
        names: Arc<Vec<String>>,
    },
}

impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::U64(own), Self::U64(other)) => own == other,
            (Self::U32(own), Self::U32(other)) => own == other,
            (Self::F64(own), Self::F64(other)) => {
                own.iter().map(|value| value.to_bits()).eq(other.iter().map(|value| value.to_bits()))
            }
            (Self::Name { codes, names }, Self::Name { codes: other_codes, names: other_names }) => {
                codes == other_codes && names == other_names
            }
            _ => false,
        }
    }
}

/// What a finished run gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Totals and averages.
    pub summary: Summary,
    /// Time series and histograms.
    pub tables: Vec<Table>,
    /// What happened, in sentences.
    pub account: Vec<String>,
    /// Whatever was asked for and had no effect.
    pub warnings: Vec<String>,
}

/// What came of a job. Shares are of its span, on average over its ranks or over their hosts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobSummary {
    /// Its name.
    pub job: String,
    /// Number of ranks.
    pub ranks: usize,
    /// Number of hosts that they are on.
    pub hosts: usize,
    /// When its ranks began.
    pub started_ns: f64,
    /// When the last rank had finished, if all did.
    pub finished_ns: Option<f64>,
    /// From its start until it had finished, or until the end of the run.
    pub span_ns: f64,
    /// What it takes on an ideal crossbar: the same links of hosts and latencies, no congestion inside.
    pub crossbar_ns: f64,
    /// Its span over that on the crossbar, if it finished.
    pub slowdown: Option<f64>,
    /// Operations that had not finished at the end.
    pub unfinished_operations: u64,
    /// Messages delivered that crossed the network, requests and permissions not counted.
    pub messages: u64,
    /// Their bytes, counted when they were handed over.
    pub bytes: u64,
    /// How many times as long as on an empty network they took; where routes are chosen, by the best of them.
    pub message_slowdown_mean: Option<f64>,
    /// The same, which one in a hundred reaches or exceeds.
    pub message_slowdown_p99: Option<f64>,
    /// Time in which ranks computed.
    pub computing_share: f64,
    /// Time in which ranks computed or handled messages; for the rest they waited.
    pub busy_share: f64,
    /// Time in which hosts sent.
    pub sending_share: f64,
    /// Time in which they had something to send, but lacked credit.
    pub blocked_share: f64,
    /// Time in which all that they had was held back by congestion control.
    pub throttled_share: f64,
    /// Collective operations by kind.
    pub collectives: Vec<CollectiveSummary>,
}

/// Collective operations of one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CollectiveSummary {
    /// The operation: "all-reduce".
    pub operation: &'static str,
    /// How it is done: "ring".
    pub algorithm: &'static str,
    /// How many finished.
    pub finished: u64,
    /// From the first rank's start to the last one's end, on average.
    pub mean_ns: f64,
    /// The same on an ideal crossbar.
    pub crossbar_ns: f64,
}

/// Totals over the whole run, and averages from the end of the warm-up to the end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Simulated time in nanoseconds.
    pub simulated_ns: u64,
    /// Averages are over the time from here to the end.
    pub averages_from_ns: u64,
    /// Events processed.
    pub events: u64,
    /// Packets that crossed a link, counted once per link.
    pub packet_hops: u64,
    /// Data packets injected and delivered.
    pub packets_injected: u64,
    /// See `packets_injected`.
    pub packets_delivered: u64,
    /// Still inside when the run ended.
    pub packets_inside: u64,
    /// Payload received by all hosts per time, after the warm-up.
    pub throughput_gbit_s: f64,
    /// Jain's index of the hosts' received throughput, over hosts that are anyone's destination.
    pub jain_hosts: f64,
    /// Jain's index of the flows' throughput, over named flows active to the end.
    pub jain_flows: f64,
    /// Packets marked by switches.
    pub fecn_marks: u64,
    /// Notifications that reached their source.
    pub becn_received: u64,
    /// Received throughput per host.
    pub hosts: Vec<HostSummary>,
    /// Received throughput per named flow.
    pub flows: Vec<FlowSummary>,
    /// What arrived per class of traffic.
    pub classes: Vec<ClassSummary>,
    /// Latency per class of traffic.
    pub latency: Vec<LatencySummary>,
    /// What came of each job.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobSummary>,
    /// What flows that are announced before they start found, where they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub announced: Option<AnnouncedSummary>,
    /// What came of packets that overtook each other, where each chooses its ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reordering: Option<ReorderingSummary>,
    /// Traffic that starts when so many packets have been delivered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<TriggerSummary>,
    /// Averages over hosts with something in common: the hotspots of a forest, its victims.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupSummary>,
    /// What special queues did, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<IsolationSummary>,
}

/// What the special queues of switches and hosts did over the whole run, and what they cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IsolationSummary {
    /// Special queues taken.
    pub allocations: u64,
    /// Times a packet was to be isolated and no special queue was free.
    pub exhausted: u64,
    /// Special queues in use at the end.
    pub in_use: u64,
    /// CAM lines in use at the end, of inputs and outputs.
    pub lines_in_use: u64,
    /// How long a special queue was taken, on average over those given back.
    pub mean_life_ns: f64,
    /// Notifications sent: new or changed CAM lines.
    pub allocate: u64,
    /// Notifications sent: Stop.
    pub stop: u64,
    /// Notifications sent: Go.
    pub go: u64,
    /// Notifications sent: CAM lines given back.
    pub release: u64,
    /// CAM lines of an input port (of the largest switch).
    pub cam_lines_per_port: u64,
    /// Their content-addressable memory in cells (bits), by Paper VI, supplement 8.
    pub cam_cells_per_port: u64,
    /// Their plain memory in cells (bits).
    pub sram_cells_per_port: u64,
}

/// Averages over a group of hosts, after the warm-up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupSummary {
    /// Name of the traffic pattern.
    pub traffic: String,
    /// What the hosts are in it.
    pub group: &'static str,
    /// Their number.
    pub hosts: usize,
    /// Payload received per host and time.
    pub received_gbit_s: f64,
    /// Payload sent per host and time.
    pub sent_gbit_s: f64,
}

/// One host's averages after the warm-up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostSummary {
    /// Its name.
    pub host: String,
    /// Payload received per time.
    pub received_gbit_s: f64,
    /// Payload sent per time.
    pub sent_gbit_s: f64,
}

/// One named flow's averages after the warm-up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowSummary {
    /// Its name.
    pub flow: String,
    /// Sender.
    pub from: String,
    /// Receiver.
    pub to: String,
    /// Payload received per time.
    pub received_gbit_s: f64,
    /// Payload received in all, in bytes, over the whole run.
    pub received_bytes: u64,
    /// When its last byte arrived, for flows with a given total that ended.
    pub completed_ns: Option<u64>,
}

/// What arrived of one class of traffic (a named flow, or one traffic pattern).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassSummary {
    /// Name of the flow or traffic pattern.
    pub class: String,
    /// Payload received per time, after the warm-up.
    pub received_gbit_s: f64,
    /// Packets delivered over the whole run.
    pub delivered_packets: u64,
    /// Those of them with the FECN bit set.
    pub marked_packets: u64,
    /// Those of them with the validation bit set, too.
    pub validated_packets: u64,
    /// When the last packet so far was delivered (drained); none if none was.
    pub last_delivery_ns: Option<u64>,
}

/// Flows that are announced before they start (`adaptive_routing`, `explicit-rate`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnnouncedSummary {
    /// Flows that were given leave to start.
    pub flows: u64,
    /// Probes that came back.
    pub probes: u64,
    /// The longest that a link takes for all flows announced to it at a time: no rates bring all of
    /// them to their end sooner, and explicit rates do by then.
    pub busiest_link_ns: u64,
}

/// Packets that overtook each other (`adaptive_routing.per = "packet"`); receivers deliver in order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReorderingSummary {
    /// Packets that came after a later one of their flow.
    pub late_packets: u64,
    /// Packets that had to wait for an earlier one.
    pub held_packets: u64,
    /// How long they waited in the mean, from when they had been drained until they were delivered; 0 if none was.
    pub mean_held_ns: f64,
    /// The most payload that one host held at a time.
    pub most_held_bytes: u64,
}

/// Traffic that starts when so many data packets have been delivered in the whole network.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TriggerSummary {
    /// Name of the flow or traffic pattern.
    pub class: String,
    /// Packets delivered at which it starts.
    pub after_packets: u64,
    /// When it started, if it did.
    pub started_ns: Option<u64>,
}

/// Packet latency of one class of traffic (a named flow, or one traffic pattern).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatencySummary {
    /// Name of the flow or traffic pattern.
    pub class: String,
    /// Counted from `generation` of the message or `injection` of the packet.
    pub since: &'static str,
    /// Number of packets.
    pub count: u64,
    /// Mean in nanoseconds.
    pub mean_ns: f64,
    /// Median in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile in nanoseconds.
    pub p99_ns: u64,
    /// Largest in nanoseconds.
    pub max_ns: u64,
}

/// Bytes over a span as Gbit/s; zero over an empty span.
pub(crate) fn rate_gbit_s(bytes: u64, span: Time) -> f64 {
    if span == Time::ZERO { 0.0 } else { bytes as f64 * 8_000.0 / span.0 as f64 }
}

/// Jain's fairness index: 1 if all shares are equal, 1/n if one has everything.
#[must_use]
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

/// The latency histograms as a table: one row per class, origin and non-empty bin.
pub(crate) fn latency_table(classes: &[ClassMeter]) -> Table {
    let class_names = Arc::new(classes.iter().map(|class| class.name.clone()).collect::<Vec<_>>());
    let since_names = Arc::new(vec!["generation".to_string(), "injection".to_string()]);
    let (mut class_codes, mut since_codes) = (Vec::new(), Vec::new());
    let (mut lower, mut upper, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for (number, class) in classes.iter().enumerate() {
        for (origin, latency) in [&class.since_generation, &class.since_injection].into_iter().enumerate() {
            for Bin { lower: shortest, upper: longest, count } in latency.bins() {
                class_codes.push(number as u32);
                since_codes.push(origin as u32);
                lower.push(shortest);
                upper.push(longest);
                counts.push(count);
            }
        }
    }
    let column = |name, values| Column { name, values };
    Table {
        name: "latency",
        columns: vec![
            column("class", Values::Name { codes: class_codes, names: class_names }),
            column("since", Values::Name { codes: since_codes, names: since_names }),
            column("lower_ns", Values::U64(lower)),
            column("upper_ns", Values::U64(upper)),
            column("count", Values::U64(counts)),
        ],
    }
}
