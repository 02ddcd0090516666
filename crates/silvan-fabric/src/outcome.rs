//! The results of a run: a summary, tables over time, and an account in sentences.

use std::sync::Arc;

use serde::Serialize;
use silvan_engine::Time;

use crate::meters::{Bin, ClassMeter};

/// A named table of equally long columns, ready to become an Arrow record batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Name of the table: `hosts`, `flows`, `links`, `latency`, ...
    pub name: &'static str,
    /// Columns in order. Their names end with units (`time_ns`).
    pub columns: Vec<Column>,
}

/// One column of a [`Table`].
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// The name, which ends with the unit.
    pub name: &'static str,
    /// The values.
    pub values: Values,
}

/// The values of a column. Two columns are equal if their bits are equal: a missing value (NaN) equals itself.
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
        /// For each row, an index into `names`.
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

/// The results of a completed run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Totals and averages.
    pub summary: Summary,
    /// Time series and histograms.
    pub tables: Vec<Table>,
    /// A description of the run in sentences.
    pub account: Vec<String>,
    /// Warnings about settings that had no effect.
    pub warnings: Vec<String>,
}

impl Outcome {
    /// The results without what depends on the scheduler: its name and the number of its events.
    #[must_use]
    pub fn regardless_of_scheduler(mut self) -> Self {
        let sentence = self.summary.scheduler.sentence();
        self.account.retain(|line| *line != sentence);
        self.summary.scheduler = SchedulerSummary::default();
        self.summary.events = 0;
        self
    }
}

/// The scheduler that ran the switches.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct SchedulerSummary {
    /// `binned` or `event-ordered`.
    pub kind: &'static str,
    /// Why it is the event-ordered one, as a clause that follows "because".
    pub reason: Option<&'static str>,
}

impl SchedulerSummary {
    /// A sentence for the account.
    pub(crate) fn sentence(&self) -> String {
        let because = self.reason.map(|reason| format!(", because {reason}")).unwrap_or_default();
        format!("The {} scheduler ran the switches{because}.", self.kind)
    }
}

/// The results of a job. Shares relate to the job's span, and are averages over its ranks or their hosts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobSummary {
    /// Name of the job.
    pub job: String,
    /// Number of ranks.
    pub ranks: usize,
    /// Number of hosts on which the ranks run.
    pub hosts: usize,
    /// Number of reduction units that the ranks use, if any. Each is a rank of its own in the tables of ranks and
    /// messages. The other fields of this summary count units only in messages and bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<usize>,
    /// The time at which the ranks started.
    pub started_ns: f64,
    /// The time at which the last rank finished, if all did.
    pub finished_ns: Option<f64>,
    /// The time from the job's start until it finished, or until the end of the run.
    pub span_ns: f64,
    /// The duration on an ideal crossbar with the same host links and latencies but no internal congestion.
    pub crossbar_ns: f64,
    /// The job's span divided by that on the crossbar, if the job finished.
    pub slowdown: Option<f64>,
    /// Number of operations that had not finished at the end.
    pub unfinished_operations: u64,
    /// Number of delivered messages that crossed the network, excluding requests and permissions.
    pub messages: u64,
    /// Bytes of these messages, counted when they were posted.
    pub bytes: u64,
    /// The mean ratio of the duration of a message to its duration on an empty network. With adaptive routing, the
    /// reference is the best route.
    pub message_slowdown_mean: Option<f64>,
    /// The 99th percentile of that ratio.
    pub message_slowdown_p99: Option<f64>,
    /// Share of time in which ranks computed.
    pub computing_share: f64,
    /// Share of time in which ranks computed or handled messages. In the rest of the time, they waited.
    pub busy_share: f64,
    /// Share of time in which hosts sent.
    pub sending_share: f64,
    /// Share of time in which hosts had packets to send but lacked credit.
    pub blocked_share: f64,
    /// Share of time in which congestion control throttled all packets that hosts had to send.
    pub throttled_share: f64,
    /// Collective operations by kind.
    pub collectives: Vec<CollectiveSummary>,
}

/// Collective operations of one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CollectiveSummary {
    /// The operation, such as "all-reduce".
    pub operation: &'static str,
    /// The algorithm, such as "ring".
    pub algorithm: &'static str,
    /// Number of operations that finished.
    pub finished: u64,
    /// Mean time from the first rank's start to the last rank's end.
    pub mean_ns: f64,
    /// Mean time on an ideal crossbar.
    pub crossbar_ns: f64,
}

/// Totals over the whole run, and averages from the end of the warm-up to the end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Simulated time in nanoseconds.
    pub simulated_ns: u64,
    /// Start of the time that averages cover. The time ends with the run.
    pub averages_from_ns: u64,
    /// The scheduler that ran the switches.
    pub scheduler: SchedulerSummary,
    /// Events processed.
    pub events: u64,
    /// Packets that crossed a link, counted once per link.
    pub packet_hops: u64,
    /// Data packets injected and delivered.
    pub packets_injected: u64,
    /// See `packets_injected`.
    pub packets_delivered: u64,
    /// Packets still inside the network when the run ended.
    pub packets_inside: u64,
    /// Payload received by all hosts per time after the warm-up.
    pub throughput_gbit_s: f64,
    /// Jain's index of the received throughput of hosts that are the destination of any traffic.
    pub jain_hosts: f64,
    /// Jain's index of the throughput of named flows that were active until the end.
    pub jain_flows: f64,
    /// Packets marked by switches.
    pub fecn_marks: u64,
    /// Notifications that reached their source.
    pub becn_received: u64,
    /// Received throughput per host.
    pub hosts: Vec<HostSummary>,
    /// Received throughput per named flow.
    pub flows: Vec<FlowSummary>,
    /// Delivered traffic per class.
    pub classes: Vec<ClassSummary>,
    /// Latency per class of traffic.
    pub latency: Vec<LatencySummary>,
    /// Averages over groups of hosts, such as the hotspots or the victims of a forest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupSummary>,
    /// Traffic that starts after a given number of deliveries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<TriggerSummary>,
    /// Use of special queues, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<IsolationSummary>,
    /// Pauses of virtual lanes, with pause frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pauses: Option<PauseSummary>,
    /// Frames that were sent again, with link-level retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<RetrySummary>,
    /// Packets that were lost on links. Present if links go down or have errors during the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub losses: Option<LossSummary>,
    /// Packet reordering. Present if packets of a flow may overtake each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reordering: Option<ReorderingSummary>,
    /// Packets that switches trimmed, with packet trimming.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trimming: Option<TrimmingSummary>,
    /// Results of each job.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobSummary>,
    /// Results of flows that are announced before they start. Present if there are such flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub announced: Option<AnnouncedSummary>,
    /// Completion times of transfers, if they are recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfers: Option<TransferSummary>,
    /// Totals of the congestion logs, if there are such logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_log: Option<CongestionLogSummary>,
}

/// Completion times of transfers (messages that do not belong to jobs). The table `transfers` has single transfers.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TransferSummary {
    /// Number of transfers that started.
    pub started: u64,
    /// Number of these that had not finished at the end: not delivered or, if receivers acknowledge all data, not
    /// acknowledged.
    pub unfinished: u64,
    /// Number of these that had not been delivered.
    pub undelivered: u64,
    /// The largest relative error of the quantiles: 0 if they are exact.
    pub quantile_error: f64,
    /// Finished transfers that started after the warm-up: for each class, all of them, followed by ranges of sizes.
    pub sizes: Vec<TransferSizes>,
}

/// Finished transfers of a class in a range of sizes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TransferSizes {
    /// Name of the traffic pattern; `flows` for all flows together.
    pub class: String,
    /// Transfers of the range have more payload than this; absent for all sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above_bytes: Option<u64>,
    /// Largest payload of the range; absent without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_to_bytes: Option<u64>,
    /// Number of transfers.
    pub transfers: u64,
    /// The time until delivery, divided by that on the empty network.
    pub slowdown: SlowdownQuantiles,
    /// The time until the last acknowledgement, divided by that on the empty network, if receivers acknowledge all data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acked_slowdown: Option<SlowdownQuantiles>,
}

/// Quantiles of slowdowns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct SlowdownQuantiles {
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl From<[f64; 3]> for SlowdownQuantiles {
    fn from([p50, p95, p99]: [f64; 3]) -> Self {
        Self { p50, p95, p99 }
    }
}

/// Packets that were lost on links over the whole run. The table `losses` has the links, and the table
/// `events` the times at which they changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LossSummary {
    /// Number of links on which packets were lost; each direction counts.
    pub links: u64,
    /// Data packets that were lost.
    pub data_packets: u64,
    /// Control packets and headers of trimmed packets that were lost.
    pub control_packets: u64,
    /// Payload that was lost, including that of headers.
    pub payload_bytes: u64,
    /// Those of these packets that were dropped at a full buffer, with lossy lanes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_packets: Option<u64>,
    /// Results of loss recovery, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoverySummary>,
}

/// What hosts sent again over the whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RecoverySummary {
    /// Data packets that were sent again. `packets_injected` includes them.
    pub resent_packets: u64,
    /// Payload that hosts decided to send again.
    pub repeated_bytes: u64,
    /// Data packets that arrived but were discarded, because they had arrived before or were not expected yet.
    pub discarded_packets: u64,
    /// Number of timeouts.
    pub timeouts: u64,
}

/// Packets that switches trimmed over the whole run. The table `trimming` has the outputs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TrimmingSummary {
    /// Data packets whose payload a switch removed. A packet that was sent again can be trimmed again.
    pub trimmed_packets: u64,
    /// Data packets that were sent again. `packets_injected` includes them.
    pub retransmitted_packets: u64,
    /// The most bytes of headers and other control packets that waited for one output of a switch, without the packet
    /// that was being sent.
    pub most_header_bytes: u64,
}

/// Totals of the congestion logs over the whole run. The tables `congestion_log_switches` and `congestion_log_hosts`
/// have the latest events.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CongestionLogSummary {
    /// The switches that marked packets.
    pub switches: Vec<SwitchLogSummary>,
    /// The hosts in which an index reached its trigger threshold.
    pub hosts: Vec<HostLogSummary>,
}

/// The totals of the congestion log of a switch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SwitchLogSummary {
    /// Name of the switch.
    pub switch: String,
    /// Number of data packets that it marked first (`LogEventsCounter`).
    pub events: u64,
    /// Numbers of the ports that marked them (`PortMap`).
    pub ports: Vec<u16>,
}

/// The totals of the congestion log of a channel adapter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostLogSummary {
    /// Name of the host.
    pub host: String,
    /// Number of times that an index reached its trigger threshold (`ThresholdEventCounter`).
    pub events: u64,
    /// The service levels of these indexes (`ThresholdCongestionEventMap`).
    pub service_levels: Vec<u8>,
}

/// Pauses of virtual lanes by pause frames over the whole run. The table `pauses` has the values of single lanes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PauseSummary {
    /// Number of lanes that were paused; each direction of a link has its own lanes.
    pub lanes: u64,
    /// Number of frames that paused a lane, counted once per lane.
    pub pause_frames: u64,
    /// Sum of the times for which lanes were paused.
    pub paused_ns: f64,
    /// The longest pause without interruption.
    pub longest_ns: f64,
    /// The link of that pause, if there was one.
    pub longest_link: Option<String>,
    /// The virtual lane of that pause.
    pub longest_vl: Option<u8>,
}

/// Frames and messages of link-level retry over the whole run, including those that are on their way at its end. The table
/// `retries` has the values of single links.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RetrySummary {
    /// Frames that were sent for the first time, counted once per link.
    pub frames: u64,
    /// Frames that were sent again.
    pub replayed: u64,
    /// Frames that were discarded because they were bad.
    pub bad: u64,
    /// Good frames that were discarded because the receiver expected another one.
    pub discarded: u64,
    /// Acknowledgements.
    pub acks: u64,
    /// NACKs.
    pub nacks: u64,
    /// Acknowledgements and NACKs that got lost.
    pub lost: u64,
    /// Replays that a timer triggered.
    pub timeouts: u64,
}

/// Use of the special queues of switches and hosts over the whole run, and their cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IsolationSummary {
    /// Number of allocations of special queues.
    pub allocations: u64,
    /// Number of times that no special queue was free for a packet that should be isolated.
    pub exhausted: u64,
    /// Number of special queues in use at the end.
    pub in_use: u64,
    /// Number of CAM lines of inputs and outputs in use at the end.
    pub lines_in_use: u64,
    /// Mean time for which a special queue was allocated, over those that were released.
    pub mean_life_ns: f64,
    /// Notifications sent: new or changed CAM lines.
    pub allocate: u64,
    /// Notifications sent: Stop.
    pub stop: u64,
    /// Notifications sent: Go.
    pub go: u64,
    /// Notifications sent: released CAM lines.
    pub release: u64,
    /// CAM lines per input port (of the largest switch).
    pub cam_lines_per_port: u64,
    /// Content-addressable memory of these lines in cells (bits), according to Paper VI, supplement 8.
    pub cam_cells_per_port: u64,
    /// Ordinary memory of these lines in cells (bits).
    pub sram_cells_per_port: u64,
}

/// Averages over a group of hosts, after the warm-up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupSummary {
    /// Name of the traffic pattern.
    pub traffic: String,
    /// The role of the hosts in the pattern.
    pub group: &'static str,
    /// Number of hosts.
    pub hosts: usize,
    /// Payload received per host and time.
    pub received_gbit_s: f64,
    /// Payload sent per host and time.
    pub sent_gbit_s: f64,
}

/// One host's averages after the warm-up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostSummary {
    /// Name of the host.
    pub host: String,
    /// Payload received per time.
    pub received_gbit_s: f64,
    /// Payload sent per time.
    pub sent_gbit_s: f64,
}

/// One named flow's averages after the warm-up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowSummary {
    /// Name of the flow.
    pub flow: String,
    /// Sender.
    pub from: String,
    /// Receiver.
    pub to: String,
    /// Payload received per time.
    pub received_gbit_s: f64,
    /// Total payload received, in bytes, over the whole run.
    pub received_bytes: u64,
    /// The time at which the last byte arrived, if the flow has a total and completed it.
    pub completed_ns: Option<u64>,
}

/// Delivered traffic of one class (a named flow, or one traffic pattern).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassSummary {
    /// Name of the flow or traffic pattern.
    pub class: String,
    /// Payload received per time, after the warm-up.
    pub received_gbit_s: f64,
    /// Packets delivered over the whole run.
    pub delivered_packets: u64,
    /// Delivered packets with the FECN bit set.
    pub marked_packets: u64,
    /// Delivered packets with the validation bit set, too.
    pub validated_packets: u64,
    /// The time at which the last delivered packet was drained; `None` if no packet was delivered.
    pub last_delivery_ns: Option<u64>,
}

/// Flows that are announced before they start (`adaptive_routing`, `explicit-rate`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnnouncedSummary {
    /// Number of flows that were permitted to start.
    pub flows: u64,
    /// Number of probes that returned, or of the weights of data packets that receivers returned.
    pub probes: u64,
    /// The maximum, over all links and times, of the time that a link needs for all flows announced to it. No
    /// assignment of rates can finish all flows sooner, and explicit rates achieve this time.
    pub busiest_link_ns: u64,
}

/// Packets that overtook others of their flow (spraying, adaptive routing per packet, UGAL).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReorderingSummary {
    /// Packets that arrived after a later packet of their flow.
    pub late_packets: u64,
    /// Packets that had to wait for an earlier one.
    pub held_packets: u64,
    /// Mean time that these packets waited for delivery after they had been drained; 0 if none waited.
    pub mean_held_ns: f64,
    /// The largest payload that one host held at a time.
    pub most_held_bytes: u64,
}

/// Traffic that starts after a given number of deliveries of data packets in the whole network.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TriggerSummary {
    /// Name of the flow or traffic pattern.
    pub class: String,
    /// The number of deliveries after which the traffic starts.
    pub after_packets: u64,
    /// The time at which the traffic started, if it did.
    pub started_ns: Option<u64>,
}

/// Packet latency of one class of traffic (a named flow, or one traffic pattern).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatencySummary {
    /// Name of the flow or traffic pattern.
    pub class: String,
    /// The event from which latency is measured: `generation` of the message or `injection` of the packet.
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

/// Bytes per time span in Gbit/s; zero for an empty span.
pub(crate) fn rate_gbit_s(bytes: u64, span: Time) -> f64 {
    if span == Time::ZERO { 0.0 } else { bytes as f64 * 8_000.0 / span.0 as f64 }
}

/// Jain's fairness index: 1 if all shares are equal, 1/n if one of n members has everything.
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
