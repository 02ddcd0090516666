"""The result of a run: summary and provenance."""

from __future__ import annotations

from typing import TypedDict

# Keys that are keywords of Python cannot be written in a class.
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
    """One named flow; `from` and `to` are its sending and receiving host."""

    #: Name of the flow.
    flow: str
    #: Payload received on average, Gbit/s.
    received_gbit_s: float
    #: Payload received in the whole run, bytes.
    received_bytes: int
    #: Time at which the last byte of a flow with a total arrived, ns; None otherwise.
    completed_ns: int | None


class ClassSummary(_OfClass):
    """One class of traffic: a named flow, a traffic pattern, or a job, named by `class`."""

    #: Payload received on average, Gbit/s.
    received_gbit_s: float
    #: Packets delivered in the whole run.
    delivered_packets: int
    #: Delivered packets with the FECN bit set.
    marked_packets: int
    #: Marked packets with the validation bit set.
    validated_packets: int
    #: Time of the last delivery, ns; None if no packet was delivered.
    last_delivery_ns: int | None


class LatencySummary(_OfClass):
    """Packet latency of one class of traffic."""

    #: ``generation`` of the message, or ``injection`` of the packet.
    since: str
    #: Number of packets; with 0 the latencies below are 0.
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
    #: The same on an ideal crossbar, ns.
    crossbar_ns: float


class JobSummary(TypedDict):
    """One job."""

    #: Name of the job.
    job: str
    #: Number of ranks.
    ranks: int
    #: Number of hosts.
    hosts: int
    #: Time at which the ranks start, ns.
    started_ns: float
    #: Time at which the last rank finished, ns; None if one did not.
    finished_ns: float | None
    #: From the start to the finish, or to the end of the run, ns.
    span_ns: float
    #: Span on an ideal crossbar: the same host links and latencies, no congestion inside, ns.
    crossbar_ns: float
    #: `span_ns` / `crossbar_ns`; None if the job did not finish.
    slowdown: float | None
    #: Operations that had not finished at the end.
    unfinished_operations: int
    #: Messages delivered over the network, without requests and permissions of the rendezvous protocol.
    messages: int
    #: Their payload, bytes.
    bytes: int
    #: Mean of message latency / latency on an empty network; None without messages.
    message_slowdown_mean: float | None
    #: 99th percentile of the same.
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


class AnnouncedSummary(TypedDict):
    """Flows that are announced before they start (adaptive routing per flow, explicit rates)."""

    #: Flows that were permitted to start.
    flows: int
    #: Probes that returned.
    probes: int
    #: The largest time that a link needs for all flows announced to it at once, ns: a lower bound.
    busiest_link_ns: int


class ReorderingSummary(TypedDict):
    """Packets that overtook each other (adaptive routing per packet); receivers deliver in order."""

    #: Packets that arrived after a later packet of their flow.
    late_packets: int
    #: Packets that waited at the receiver for an earlier one.
    held_packets: int
    #: Mean of this waiting time, ns; 0 if no packet waited.
    mean_held_ns: float
    #: The most payload that one host held at a time, bytes.
    most_held_bytes: int


class TriggerSummary(_OfClass):
    """Traffic that starts when a number of packets has been delivered in the whole network."""

    #: Number of packets.
    after_packets: int
    #: Time at which it started, ns; None if it did not.
    started_ns: int | None


class IsolationSummary(TypedDict):
    """Special queues for congested flows, over the whole run, and their cost."""

    #: Special queues allocated.
    allocations: int
    #: Times a packet was to be isolated and no special queue was free.
    exhausted: int
    #: Special queues in use at the end.
    in_use: int
    #: CAM lines in use at the end, of inputs and outputs.
    lines_in_use: int
    #: Mean lifetime of the special queues that were released, ns.
    mean_life_ns: float
    #: Notifications sent: allocate (new or changed CAM lines), stop, go, release.
    allocate: int
    stop: int
    go: int
    release: int
    #: CAM lines of an input port of the largest switch.
    cam_lines_per_port: int
    #: Their content-addressable memory, cells (bits); Paper VI, supplement 8.
    cam_cells_per_port: int
    #: Their plain memory, cells (bits).
    sram_cells_per_port: int


class RootShare(_RootShare):
    """A root of congestion trees that slows a job down.

    `root` is the link, `share` (0 to 1) its share of the samples at which the job's hosts are in a tree and
    are not when the job runs alone, `with` the other classes of traffic that feed the root.
    """


class AloneSummary(TypedDict):
    """A job compared with the same job alone on the network (``alone=True``)."""

    #: Name of the job.
    job: str
    #: Span in the run, ns; None if one of both did not finish.
    span_ns: float | None
    #: Span alone, ns.
    alone_ns: float | None
    #: `span_ns` / `alone_ns` - 1; None if one of both did not finish.
    slower: float | None
    #: Mean over messages of latency / latency alone - 1; None without messages.
    message_slower_mean: float | None
    #: Roots of the trees that slow the job down, the largest share first.
    roots: list[RootShare]


class _SummaryOfAll(TypedDict):
    #: Simulated time, ns.
    simulated_ns: int
    #: Averages are over the time from here to the end, ns.
    averages_from_ns: int
    #: Events processed.
    events: int
    #: Packets that crossed a link, counted once per link.
    packet_hops: int
    #: Data packets injected.
    packets_injected: int
    #: Data packets delivered.
    packets_delivered: int
    #: Data packets inside the network at the end.
    packets_inside: int
    #: Payload that all hosts received on average, Gbit/s.
    throughput_gbit_s: float
    #: Jain's index of the received throughput of hosts that are a destination; 1 without any.
    jain_hosts: float
    #: Jain's index of the throughput of named flows that are active to the end; 1 without any.
    jain_flows: float
    #: Packets marked by switches (FECN).
    fecn_marks: int
    #: Notifications that reached their source (BECN).
    becn_received: int
    hosts: list[HostSummary]
    flows: list[FlowSummary]
    classes: list[ClassSummary]
    latency: list[LatencySummary]


class Summary(_SummaryOfAll, total=False):
    """Totals over a run, and averages from the end of the warm-up to its end.

    The keys below are there only if the scenario has such jobs, flows or queues.
    """

    jobs: list[JobSummary]
    announced: AnnouncedSummary
    reordering: ReorderingSummary
    triggers: list[TriggerSummary]
    groups: list[GroupSummary]
    isolation: IsolationSummary
    alone: list[AloneSummary]


class Machine(TypedDict):
    """The machine of a run, without its name."""

    #: Operating system.
    system: str
    #: Model of the processor.
    cpu: str
    #: Number of cores; None if unknown.
    cores: int | None


class Provenance(TypedDict):
    """Where a result comes from: scenario, program, machine, time."""

    #: Name of the scenario.
    scenario: str
    #: Where the scenario was read from: a path, ``stdin`` or ``<text>``.
    origin: str
    #: Folder of the files that the scenario names.
    base_dir: str
    #: Overrides by dotted key, as text.
    overrides: dict[str, str]
    #: Seed of all randomness.
    seed: int
    #: Version of Silvan.
    version: str
    #: Commit of the clone that it ran from; None for an installed package.
    git_commit: str | None
    #: Start of the run, ISO 8601, UTC.
    started: str
    #: Wall time, building the network included, s.
    wall_s: float
    #: Events per second of wall time; None if the time was too short to measure.
    events_per_s: int | None
    machine: Machine
    #: Version of Python.
    python: str
