"""Types of the dictionaries that the simulator returns and writes as JSON.

Each is a plain `dict`: ``result.summary["throughput_gbit_s"]``. The names of keys end with the unit if they
have one (`_ns`, `_bytes`, `_gbit_s`, `_share` of 1). Averages are from the end of the warm-up to the end of
the run. A test compares the keys with those of real results.

| function | type |
| --- | --- |
| :attr:`silvan.Result.summary`, ``summary.json`` | :class:`Summary` |
| :attr:`silvan.Result.provenance`, ``provenance.json`` | :class:`Provenance` |
| :meth:`silvan.Scenario.check`, ``silvan check --json`` | :class:`ScenarioCheck` |
| :func:`silvan.fluid` | :class:`Fluid` |
| :func:`silvan.fabric.check`, ``silvan fabric check --json`` | :class:`FabricCheck` |
| :func:`silvan.fabric.collide`, ``silvan fabric collide --json`` | :class:`Collisions` |
| :func:`silvan.traces.check`, ``silvan trace check --json`` | :class:`TraceCheck` |
| :func:`silvan.traces.convert`, :func:`silvan.traces.generate` | :class:`WrittenTrace` |
"""

from __future__ import annotations

from typing import TypedDict

# --- Keys that are words of Python, and so cannot be written in a class.

_Ends = TypedDict("_Ends", {"from": str, "to": str})
_OfClass = TypedDict("_OfClass", {"class": str})
_RootShare = TypedDict("_RootShare", {"root": str, "share": float, "with": list[str]})

# --- The summary of a run.


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


# --- The check of a scenario.


class LinkLoad(TypedDict):
    """Flows per directed link between switches if every host sent to every other."""

    #: Number of such links.
    links: int
    #: Fewest flows on a link.
    min: int
    #: Most flows on a link.
    max: int
    #: Mean number of flows.
    mean: float


class CollectiveUse(TypedDict):
    """A collective operation that is expanded into messages."""

    #: Operation, such as ``all-reduce``.
    operation: str
    #: Algorithm, such as ``ring``.
    algorithm: str
    #: Number of calls, each counted once per rank that takes part.
    calls: int


class JobCheck(TypedDict):
    """What a job's ranks will do."""

    #: Name of the job.
    job: str
    #: Number of ranks.
    ranks: int
    #: Their hosts, in the order of the ranks.
    hosts: list[str]
    #: Messages that will be sent.
    messages: int
    #: Their payload, bytes.
    bytes: int
    #: Collective operations that are expanded into messages.
    collectives: list[CollectiveUse]
    #: Notes of the trace reader.
    notes: list[str]


class ForestCheck(TypedDict):
    """Roles of the hosts in a forest of congestion trees, as drawn from the seed."""

    #: Key or name of the traffic pattern.
    traffic: str
    #: Hotspots (at the start, if they move), one for each subset of senders.
    hotspots: list[str]
    #: How often the hotspots move before the end.
    moves: int
    #: Hosts that send only to their hotspot.
    contributors: int
    #: Hosts that send only to random hosts.
    victims: int
    #: Hosts that do both.
    mixed: int
    #: Number of senders of each subset.
    subset_sizes: list[int]
    #: The most that a host which is no hotspot could receive without the hotspots, Gbit/s (Paper IV, t_max).
    tmax_gbit_s: float


class RoundTrip(TypedDict):
    """The longest round trip through an empty network, and the window that it requires."""

    #: Switches on the longest route.
    hops: int
    #: Stages of the network.
    stages: int
    #: The most hosts at one switch.
    radix: int
    #: Duration of the round trip, ns.
    shortest_ns: float
    #: Packets that fill it.
    window: float
    #: The smallest window that does not slow a flow down: `window`, rounded up.
    packets: int


class Estimate(TypedDict):
    """Estimated cost of a run."""

    #: Data packets sent.
    packets: float
    #: Packets times links crossed.
    packet_hops: float
    #: Events to process.
    events: float
    #: Memory, MB (1e6 bytes).
    memory_mb: float
    #: Wall time on one core, s.
    wall_s: float


class _ScenarioCheckOfAll(TypedDict):
    #: Name of the scenario, if it has one.
    name: str | None
    #: Family or origin of the network.
    topology: str
    hosts: int
    switches: int
    #: Number of links, full-duplex or one-way.
    links: int
    #: Kind of routing.
    routing: str
    #: A cycle of channels in which packets can wait for each other; None if there is none.
    deadlock: str | None
    #: Ordered pairs of hosts with a route.
    pairs_routed: int
    #: Ordered pairs of hosts without a route.
    pairs_unroutable: int
    all_to_all: LinkLoad
    #: Number of named flows.
    flows: int
    #: Number of traffic patterns.
    traffic: int
    estimate: Estimate
    #: Keys of the scenario that have no effect.
    warnings: list[str]


class ScenarioCheck(_ScenarioCheckOfAll, total=False):
    """What is known of a scenario before a run.

    `jobs` and `forests` are there only if the scenario has any; `round_trip` only if sources require
    acknowledgements or switches have buffers at inputs and outputs.
    """

    jobs: list[JobCheck]
    forests: list[ForestCheck]
    round_trip: RoundTrip


# --- Fluid rates.


class FluidShare(TypedDict):
    """What one flow gets under one rule."""

    #: Payload rate while all flows are active, Gbit/s.
    gbit_s: float
    #: What limits it: a link, a host that injects or drains no faster, or ``its own rate``.
    bottleneck: str
    #: Time from the start of the scenario at which its total has been sent, ns; None without a total.
    completed_ns: int | None


class FluidTotal(TypedDict):
    """What all flows get under one rule."""

    #: Sum of the rates, Gbit/s.
    gbit_s: float
    #: Time at which the last flow with a total has sent it, ns; None without such flows.
    completed_ns: int | None


class FluidFlow(_Ends):
    """One flow and its rates; `from` and `to` are hosts."""

    #: Name of the flow; for a pattern the pattern's name and the hosts.
    flow: str
    #: Payload to send, bytes; None without a total.
    total_bytes: int | None
    #: Without congestion control; None if this cannot be computed.
    uncontrolled: FluidShare | None
    #: Max-min fair rates.
    max_min: FluidShare
    #: Single application assignment.
    saa: FluidShare


class Fluid(TypedDict):
    """Fluid rates of a scenario's flows under three rules."""

    flows: list[FluidFlow]
    #: Without congestion control; None if this cannot be computed, see `uncontrolled_missing`.
    uncontrolled: FluidTotal | None
    #: Max-min fair rates.
    max_min: FluidTotal
    #: Single application assignment, with which the last flow ends soonest.
    saa: FluidTotal
    #: Why there are no rates without congestion control; None if there are.
    uncontrolled_missing: str | None
    #: Weights of SAA: ``total`` if every flow has a total, otherwise ``equal``.
    weights: str


# --- Real fabrics.


class FabricLoad(LinkLoad):
    """Flows per directed link between switches if every host sent to every other."""

    #: Number of links by number of flows (as text, since keys of JSON are text).
    histogram: dict[str, int]


class Lane(TypedDict):
    """One virtual lane of all channels between switches."""

    #: Number of the lane.
    lane: int
    #: Channels on which a pair of hosts uses it.
    channels: int
    #: Channels of them that are in cycles; 0 if the lane cannot deadlock.
    in_circles: int


class Lanes(TypedDict):
    """The check for deadlock lane by lane."""

    lanes: list[Lane]
    #: A cycle with its lanes; None if there is none.
    cycle: str | None
    #: Pairs of hosts whose packets a switch discards (lane 15 for their service level).
    discarded: int


class FabricFile(TypedDict):
    """A file that was given or found."""

    #: Path.
    file: str
    #: What it is; None if unknown.
    kind: str | None
    #: What was read from it, or why it was ignored.
    note: str


class FabricCheck(TypedDict):
    """What is known of a real fabric and its forwarding tables."""

    #: Name of the network.
    topology: str
    hosts: int
    switches: int
    links: int
    #: Ordered pairs of hosts with a route.
    pairs_routed: int
    #: Ordered pairs of hosts without a route.
    pairs_unroutable: int
    #: Why the first of them have no route.
    problems: list[str]
    #: Number of pairs by number of switches crossed (as text).
    hops: dict[str, int]
    all_to_all: FabricLoad
    #: A cycle of channels in which packets can wait for each other; None if there is none.
    deadlock: str | None
    #: The same lane by lane; None if service levels and SL-to-VL tables are unknown.
    lanes: Lanes | None
    #: The SL-to-VL table, if all links have the same: the scenario key `lanes.sl_to_vl`.
    sl_to_vl: list[int] | None
    #: Groups of ports for adaptive routing; they are not simulated.
    adaptive_groups: int
    #: Files that were used, with what was read from them.
    used: list[FabricFile]
    #: Files that were ignored, with the reason.
    ignored: list[FabricFile]


class LinkDemand(TypedDict):
    """A link between switches that flows of a job share."""

    #: Name of the directed link.
    link: str
    #: Number of flows on it.
    flows: int
    #: Demand, as a multiple of its capacity.
    demand: float


_PairEnds = TypedDict("_PairEnds", {"from": str, "to": str, "link": str, "demand": float})


class PairDemand(_PairEnds):
    """Two hosts (`from`, `to`), their worst `link`, and the `demand` there as a multiple of its capacity."""


class Placement(TypedDict):
    """The links that a job shares on some hosts."""

    #: The largest demand on a link between switches, as a multiple of its capacity.
    worst_demand: float
    #: Links with a demand above 1.
    links_above_one: int
    #: Flows that cross such a link.
    flows_above_one: int
    #: Number of links between switches by number of flows (as text).
    flows_per_link: dict[str, int]
    #: The links with the largest demand.
    links: list[LinkDemand]
    #: The pairs of hosts with the largest demand on their route.
    pairs: list[PairDemand]


class SuggestedPlacement(Placement):
    """A placement with less demand."""

    #: How it was found.
    how: str
    #: Hosts in the order of the ranks.
    hosts: list[str]


class CountedJob(TypedDict):
    """The job whose flows were counted."""

    #: Pattern, or path of the trace.
    what: str | None
    #: Number of ranks.
    ranks: int
    #: Number of hosts.
    hosts: int
    #: Pairs of hosts with messages.
    flows: int
    #: ``linear`` or ``round-robin``.
    placement: str


class Collisions(TypedDict):
    """The links that a job's messages share, and a better placement."""

    job: CountedJob
    #: With the given placement.
    now: Placement
    #: A better placement; None if none was found or needed.
    suggestion: SuggestedPlacement | None


# --- Traces.


class TraceContents(TypedDict):
    """What a trace contains."""

    #: Number of ranks.
    ranks: int
    #: Messages sent.
    sends: int
    #: Messages received.
    receives: int
    #: Computations.
    computations: int
    #: Operations that only let time pass.
    delays: int
    #: Dependencies between operations.
    dependencies: int
    #: Payload sent, bytes.
    bytes: int
    #: Payload of the largest message, bytes.
    largest: int
    #: Computing time of all ranks, ns.
    computing_ns: int


class TraceRun(TypedDict):
    """The run of a trace without a network."""

    #: Whether all operations finished.
    complete: bool
    #: Time at which the last rank finished, ps.
    span_ps: int
    #: Time at which each rank finished, ps.
    finished_ps: list[int]
    #: Messages received.
    messages: int
    #: Operations that never finished.
    unfinished: int
    #: The first of those that wait for another rank, with the reason.
    stuck: list[str]
    #: Ranks that wait for each other in a cycle.
    circle: list[int]
    #: Errors of the trace that do not stop the run.
    warnings: list[str]


class TraceCheck(TypedDict):
    """What :func:`silvan.traces.check` finds."""

    #: Name of the format.
    format: str
    #: Files that the trace consists of.
    files: list[str]
    contents: TraceContents
    #: Collective operations and their algorithms.
    collectives: list[CollectiveUse]
    #: Notes of the reader.
    notes: list[str]
    #: The run; None if the trace was only read.
    run: TraceRun | None


class WrittenTrace(TypedDict):
    """What :func:`silvan.traces.convert` and :func:`silvan.traces.generate` wrote."""

    contents: TraceContents
    #: Collective operations and their algorithms.
    collectives: list[CollectiveUse]
    #: Notes of the reader.
    notes: list[str]
