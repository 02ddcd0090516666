"""Types of the result of a run: summary and provenance."""

from __future__ import annotations

from typing import TypedDict

# A class cannot define keys that are Python keywords.
_Ends = TypedDict("_Ends", {"from": str, "to": str})
_OfClass = TypedDict("_OfClass", {"class": str})
_RootShare = TypedDict("_RootShare", {"root": str, "share": float, "with": list[str]})


class HostSummary(TypedDict):
    """Averages of one host."""

    #: Name of the host.
    host: str
    #: Payload received, Gbit/s.
    received_gbit_s: float
    #: Payload sent, Gbit/s.
    sent_gbit_s: float


class FlowSummary(_Ends):
    """One named flow. `from` and `to` are its source and destination hosts."""

    #: Name of the flow.
    flow: str
    #: Payload received on average, Gbit/s.
    received_gbit_s: float
    #: Payload received in the whole run, bytes.
    received_bytes: int
    #: Time in ns at which the last byte of a flow with a total arrived; None for other flows.
    completed_ns: int | None


class ClassSummary(_OfClass):
    """One class of traffic: a named flow, a traffic pattern, or a job. `class` is its name."""

    #: Payload received on average, Gbit/s.
    received_gbit_s: float
    #: Packets delivered in the whole run.
    delivered_packets: int
    #: Delivered packets with the FECN bit set.
    marked_packets: int
    #: Marked packets with the validation bit set.
    validated_packets: int
    #: Time of the last delivery in ns; None if no packet was delivered.
    last_delivery_ns: int | None


class LatencySummary(_OfClass):
    """Packet latency of one class of traffic."""

    #: Start of the measurement: ``generation`` of the message, or ``injection`` of the packet.
    since: str
    #: Number of packets. If it is 0, the latencies below are 0.
    count: int
    #: Mean, ns.
    mean_ns: float
    #: Median, ns.
    p50_ns: int
    #: 99th percentile, ns.
    p99_ns: int
    #: Maximum, ns.
    max_ns: int


class GroupSummary(TypedDict):
    """Averages over the hosts that have the same role in a traffic pattern."""

    #: Name of the traffic pattern.
    traffic: str
    #: Role: ``hotspots``, ``other hosts``, ``contributors``, ``victims``, ...
    group: str
    #: Number of hosts.
    hosts: int
    #: Payload received per host, Gbit/s.
    received_gbit_s: float
    #: Payload sent per host, Gbit/s.
    sent_gbit_s: float


class CollectiveSummary(TypedDict):
    """Collective operations of one kind in a job."""

    #: Operation, such as ``all-reduce``.
    operation: str
    #: Algorithm, such as ``ring``.
    algorithm: str
    #: Number of operations that finished.
    finished: int
    #: Mean time from the first rank's start to the last rank's end, ns.
    mean_ns: float
    #: Mean time of the same operations on an ideal crossbar, ns.
    crossbar_ns: float


class _JobOfAll(TypedDict):
    #: Name of the job.
    job: str
    #: Number of ranks.
    ranks: int
    #: Number of hosts.
    hosts: int
    #: Time at which the ranks started, ns.
    started_ns: float
    #: Time at which the last rank finished, ns; None if a rank did not finish.
    finished_ns: float | None
    #: Time from the start until the job finished, or until the end of the run, ns.
    span_ns: float
    #: Span on an ideal crossbar with the same host links and latencies but no internal congestion, ns.
    crossbar_ns: float
    #: `span_ns` / `crossbar_ns`; None if the job did not finish.
    slowdown: float | None
    #: Number of operations that had not finished at the end.
    unfinished_operations: int
    #: Number of messages delivered over the network, excluding control messages of the rendezvous protocol.
    messages: int
    #: Total payload of these messages, bytes.
    bytes: int
    #: Mean ratio of message latency to the latency on an empty network; None without messages.
    message_slowdown_mean: float | None
    #: 99th percentile of this ratio; None without messages.
    message_slowdown_p99: float | None
    #: Share of the time in which ranks computed, 0 to 1.
    computing_share: float
    #: Share of the time in which ranks computed or processed messages, 0 to 1.
    busy_share: float
    #: Share of the time in which hosts sent, 0 to 1.
    sending_share: float
    #: Share of the time in which hosts had data to send but no credit, 0 to 1.
    blocked_share: float
    #: Share of the time in which congestion control held back all data to send, 0 to 1.
    throttled_share: float
    #: Collective operations by kind.
    collectives: list[CollectiveSummary]


class JobSummary(_JobOfAll, total=False):
    """One job. `units` exists only if the job uses reduction units."""

    #: Number of reduction units. Each is a rank of its own in the tables of ranks and messages.
    units: int


class AnnouncedSummary(TypedDict):
    """Flows that are announced before they start (adaptive routing per flow, explicit rates)."""

    #: Number of flows that were permitted to start.
    flows: int
    #: Number of probes that returned, or of the weights of data packets that receivers returned.
    probes: int
    #: Largest time in ns that any link needs for all flows announced to it together: a lower bound.
    busiest_link_ns: int


class ReorderingSummary(TypedDict):
    """Packets that overtook others (spraying, adaptive routing per packet, UGAL)."""

    #: Number of packets that arrived after a later packet of their flow.
    late_packets: int
    #: Number of packets that waited at the receiver for an earlier one.
    held_packets: int
    #: Mean waiting time of these packets, ns; 0 if no packet waited.
    mean_held_ns: float
    #: Largest payload that one host held at any time, bytes.
    most_held_bytes: int


class TriggerSummary(_OfClass):
    """Traffic that starts after a given number of packets has been delivered in the whole network."""

    #: Number of delivered packets after which the traffic starts.
    after_packets: int
    #: Time at which the traffic started, ns; None if it did not start.
    started_ns: int | None


class IsolationSummary(TypedDict):
    """Special queues for congested flows: statistics of the whole run, and hardware cost."""

    #: Number of times that a special queue was allocated.
    allocations: int
    #: Number of times that a packet required a special queue but none was free.
    exhausted: int
    #: Number of special queues in use at the end.
    in_use: int
    #: Number of CAM lines of inputs and outputs in use at the end.
    lines_in_use: int
    #: Mean lifetime of the special queues that were released, ns.
    mean_life_ns: float
    #: Number of notifications that create or change CAM lines; the next fields count stop, go and release.
    allocate: int
    stop: int
    go: int
    release: int
    #: Number of CAM lines per input port of the largest switch.
    cam_lines_per_port: int
    #: Content-addressable memory of these lines, in cells (bits); Paper VI, supplement 8.
    cam_cells_per_port: int
    #: Ordinary memory of these lines, in cells (bits).
    sram_cells_per_port: int


class RootShare(_RootShare):
    """A root of congestion trees that slows a job down.

    `root` is the link. `share` (0 to 1) is its share of the samples at which the job's hosts are in a tree
    but would not be if the job ran alone. `with` lists the other classes of traffic that feed the root.
    """


class AloneSummary(TypedDict):
    """A comparison of a job with the same job alone on the network (``alone=True``)."""

    #: Name of the job.
    job: str
    #: Span in the run, ns; None if the job did not finish in both runs.
    span_ns: float | None
    #: Span of the job alone, ns.
    alone_ns: float | None
    #: `span_ns` / `alone_ns` - 1; None if the job did not finish in both runs.
    slower: float | None
    #: Mean over all messages of latency / latency alone - 1; None without messages.
    message_slower_mean: float | None
    #: Roots of the trees that slow the job down, largest share first.
    roots: list[RootShare]


class PauseSummary(TypedDict):
    """Pauses of virtual lanes by pause frames over the whole run."""

    #: Number of lanes that were paused; each direction of a link has its own lanes.
    lanes: int
    #: Number of frames that paused a lane, counted once per lane.
    pause_frames: int
    #: Sum of the times for which lanes were paused, ns.
    paused_ns: float
    #: The longest pause without interruption, ns.
    longest_ns: float
    #: The link of that pause; None without any.
    longest_link: str | None
    #: The virtual lane of that pause; None without any.
    longest_vl: int | None


class RetrySummary(TypedDict):
    """Frames and messages of link-level retry over the whole run, on all links together."""

    #: Number of frames that were sent for the first time, counted once per link.
    frames: int
    #: Number of frames that were sent again.
    replayed: int
    #: Number of frames that were discarded because they were bad.
    bad: int
    #: Number of good frames that were discarded because the receiver expected another one.
    discarded: int
    #: Number of acknowledgements.
    acks: int
    #: Number of NACKs.
    nacks: int
    #: Number of acknowledgements and NACKs that got lost.
    lost: int
    #: Number of replays that a timer triggered.
    timeouts: int


class SwitchLogSummary(TypedDict):
    """Totals of the congestion log of a switch."""

    switch: str
    #: Number of data packets that it marked first (`LogEventsCounter`).
    events: int
    #: Numbers of the ports that marked them (`PortMap`).
    ports: list[int]


class HostLogSummary(TypedDict):
    """Totals of the congestion log of a channel adapter."""

    host: str
    #: Number of times that an index reached its trigger threshold (`ThresholdEventCounter`).
    events: int
    #: The service levels of these indexes (`ThresholdCongestionEventMap`).
    service_levels: list[int]


class CongestionLogSummary(TypedDict):
    """Totals of the congestion logs over the whole run."""

    #: The switches that marked packets.
    switches: list[SwitchLogSummary]
    #: The hosts in which an index reached its trigger threshold.
    hosts: list[HostLogSummary]


class TrimmingSummary(TypedDict):
    """Packets that switches trimmed over the whole run. The table `trimming` has the outputs."""

    #: Number of data packets whose payload a switch removed.
    trimmed_packets: int
    #: Number of data packets that were sent again; `packets_injected` includes them.
    retransmitted_packets: int
    #: The most bytes of headers and other control packets that waited for one output of a switch.
    most_header_bytes: int


class RecoverySummary(TypedDict):
    """What hosts sent again over the whole run, with loss recovery."""

    #: Number of data packets that were sent again; `packets_injected` includes them.
    resent_packets: int
    #: Payload that hosts decided to send again, bytes.
    repeated_bytes: int
    #: Number of data packets that arrived but were discarded.
    discarded_packets: int
    #: Number of timeouts.
    timeouts: int


class _LossOfAll(TypedDict):
    #: Number of links on which packets were lost; each direction counts.
    links: int
    #: Number of data packets that were lost.
    data_packets: int
    #: Number of control packets and of headers of trimmed packets that were lost.
    control_packets: int
    #: Payload that was lost, including that of headers, bytes.
    payload_bytes: int


class LossSummary(_LossOfAll, total=False):
    """Packets that were lost on links over the whole run. The table `losses` has the links."""

    #: Those of these packets that were dropped at full buffers. Exists only with lossy lanes.
    dropped_packets: int
    #: Results of loss recovery. Exists only if the scenario has one.
    recovery: RecoverySummary


class SlowdownQuantiles(TypedDict):
    """Quantiles of the durations of transfers, divided by those on the empty network."""

    p50: float
    p95: float
    p99: float


class _TransferSizesOfAll(_OfClass):
    #: Number of transfers.
    transfers: int
    #: Until the last byte is delivered.
    slowdown: SlowdownQuantiles


class TransferSizes(_TransferSizesOfAll, total=False):
    """Finished transfers of a class in a range of sizes. `class` is ``flows`` for all named flows together.

    Without `above_bytes`, it covers all sizes; without `up_to_bytes`, the range has no upper limit.
    """

    #: Transfers of the range have more payload than this, bytes.
    above_bytes: int
    #: Largest payload of the range, bytes.
    up_to_bytes: int
    #: Until the last acknowledgement, if receivers acknowledge all data.
    acked_slowdown: SlowdownQuantiles


class TransferSummary(TypedDict):
    """Completion times of transfers. The table `transfers` has single transfers."""

    #: Number of transfers that started.
    started: int
    #: Number of these that were not delivered or, if receivers acknowledge all data, not acknowledged.
    unfinished: int
    #: Number of these that were not delivered.
    undelivered: int
    #: Largest relative error of the quantiles; 0 if they are exact.
    quantile_error: float
    #: Finished transfers that started after the warm-up, by class and size.
    sizes: list[TransferSizes]


class SchedulerSummary(TypedDict):
    """The scheduler that ran the switches. Only the number of events depends on it."""

    #: ``binned`` or ``event-ordered``.
    kind: str
    #: Why it is the event-ordered one, as a clause that follows "because"; None if it is the binned one.
    reason: str | None


class _SummaryOfAll(TypedDict):
    #: Simulated time, ns.
    simulated_ns: int
    #: Start of the time span that averages cover, ns.
    averages_from_ns: int
    scheduler: SchedulerSummary
    #: Number of processed events.
    events: int
    #: Number of packet hops: each packet counts once per link that it crosses.
    packet_hops: int
    #: Number of injected data packets.
    packets_injected: int
    #: Number of delivered data packets.
    packets_delivered: int
    #: Number of data packets inside the network at the end.
    packets_inside: int
    #: Payload that all hosts together received on average, Gbit/s.
    throughput_gbit_s: float
    #: Jain's index of the received throughput of hosts that are destinations; 1 without any.
    jain_hosts: float
    #: Jain's index of the throughput of named flows that are active until the end; 1 without any.
    jain_flows: float
    #: Number of packets that switches marked (FECN).
    fecn_marks: int
    #: Number of notifications that reached their source (BECN).
    becn_received: int
    hosts: list[HostSummary]
    flows: list[FlowSummary]
    classes: list[ClassSummary]
    latency: list[LatencySummary]


class Summary(_SummaryOfAll, total=False):
    """Totals over a run, and averages from the end of the warm-up to its end.

    The keys below exist only if the scenario contains such jobs, flows or queues.
    """

    jobs: list[JobSummary]
    announced: AnnouncedSummary
    reordering: ReorderingSummary
    triggers: list[TriggerSummary]
    groups: list[GroupSummary]
    isolation: IsolationSummary
    pauses: PauseSummary
    retries: RetrySummary
    congestion_log: CongestionLogSummary
    trimming: TrimmingSummary
    losses: LossSummary
    transfers: TransferSummary
    alone: list[AloneSummary]


class Machine(TypedDict):
    """The machine that executed a run, without its host name."""

    #: Operating system.
    system: str
    #: Model of the processor.
    cpu: str
    #: Number of cores; None if unknown.
    cores: int | None


class Provenance(TypedDict):
    """The origin of a result: scenario, program, machine, time."""

    #: Name of the scenario.
    scenario: str
    #: The scenario's path, ``stdin`` or ``<text>``.
    origin: str
    #: Folder from which relative file names in the scenario start.
    base_dir: str
    #: Overrides as text by dotted key.
    overrides: dict[str, str]
    #: The seed of all random streams.
    seed: int
    #: Version of Silvan.
    version: str
    #: Commit of the source clone from which Silvan ran; None for an installed package.
    git_commit: str | None
    #: Start of the run, ISO 8601, UTC.
    started: str
    #: Wall-clock time including the time to build the network, s.
    wall_s: float
    #: Events per second of wall-clock time; None if the time was too short to measure.
    events_per_s: int | None
    machine: Machine
    #: Version of Python.
    python: str
