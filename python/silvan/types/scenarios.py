"""Types for the check of a scenario, and for its fluid rates."""

from __future__ import annotations

from typing import TypedDict

# A class cannot define keys that are Python keywords.
_Ends = TypedDict("_Ends", {"from": str, "to": str})


class LinkLoad(TypedDict):
    """Load of the links between switches if every host sends to every other host."""

    #: Number of directed links between switches.
    links: int
    #: Smallest number of flows on a link.
    min: int
    #: Largest number of flows on a link.
    max: int
    #: Mean number of flows on a link.
    mean: float


class CollectiveUse(TypedDict):
    """A collective operation that the job expands into messages."""

    #: Operation, such as ``all-reduce``.
    operation: str
    #: Algorithm, such as ``ring``.
    algorithm: str
    #: Number of calls; each call counts once per participating rank.
    calls: int


class JobCheck(TypedDict):
    """The operations that a job's ranks will perform."""

    #: Name of the job.
    job: str
    #: Number of ranks.
    ranks: int
    #: Hosts of the ranks, in the order of the ranks.
    hosts: list[str]
    #: Number of reduction units that the ranks use.
    units: int
    #: Number of messages that the ranks and the reduction units will send.
    messages: int
    #: Total payload of the messages, bytes.
    bytes: int
    #: Collective operations that are expanded into messages.
    collectives: list[CollectiveUse]
    #: Notes of the trace reader.
    notes: list[str]


class ForestCheck(TypedDict):
    """Roles of the hosts in a forest of congestion trees, as drawn from the seed."""

    #: Key or name of the traffic pattern.
    traffic: str
    #: Hotspots, one for each subset of senders. If hotspots move, these are the first ones.
    hotspots: list[str]
    #: Number of times that the hotspots move before the end.
    moves: int
    #: Number of hosts that send only to their hotspot.
    contributors: int
    #: Number of hosts that send only to random hosts.
    victims: int
    #: Number of hosts that send to their hotspot and to random hosts.
    mixed: int
    #: Number of senders in each subset.
    subset_sizes: list[int]
    #: Paper IV, t_max: upper bound of the mean throughput of a host that is not a hotspot, if there were no
    #: hotspots, Gbit/s.
    tmax_gbit_s: float


class RoundTrip(_Ends):
    """The longest round trip of hosts that exchange traffic, without load, and its window.

    `from` and `to` are the sender and the receiver with this round trip.
    """

    #: Number of groups of hosts that have no traffic with each other. Each has a round trip of its own.
    groups: int
    #: Most switches on a route.
    hops: int
    #: Number of stages of the network.
    stages: int
    #: Largest number of hosts at one switch.
    radix: int
    #: Time from the start of a full packet until its acknowledgement has arrived, ns.
    shortest_ns: float
    #: Number of packets that can be sent during the round trip.
    window: float
    #: Smallest window that does not slow down a flow: `window`, rounded up.
    packets: int


class Estimate(TypedDict):
    """Estimated cost of a run."""

    #: Number of data packets sent.
    packets: float
    #: Number of packet hops.
    packet_hops: float
    #: Number of events to process.
    events: float
    #: Memory, MB (1e6 bytes).
    memory_mb: float
    #: Wall-clock time on one core, s.
    wall_s: float


class Thresholds(TypedDict):
    """Thresholds of marks at outputs with a given rate."""

    #: Rate of the link, Gbit/s.
    gbit_s: float
    #: Fill of the queue up to which no packet is marked, bytes.
    min_bytes: int
    #: Fill of the queue above which all packets are marked, bytes.
    max_bytes: int


class SharedCheck(TypedDict):
    """The memory that the inputs of a switch share, in bytes."""

    #: All memory of the switch, bytes.
    memory_bytes: int
    #: Headroom of all inputs and lanes, bytes.
    headroom_bytes: int
    #: Reserves of all inputs and lanes, bytes.
    reserve_bytes: int
    #: Memory that remains for lanes to share, bytes.
    left_bytes: int


class _PauseCheckOfAll(TypedDict):
    #: Smallest headroom of a lane of a switch's input, bytes.
    least_headroom_bytes: int
    #: Largest headroom of a lane of a switch's input, bytes.
    most_headroom_bytes: int


class PauseCheck(_PauseCheckOfAll, total=False):
    """The memory of switches with pause frames."""

    #: The switch with the least memory to share. Exists only if inputs share memory.
    shared: SharedCheck


class _ScenarioCheckOfAll(TypedDict):
    #: Name of the scenario, if it has one.
    name: str | None
    #: Kind or origin of the network.
    topology: str
    hosts: int
    switches: int
    #: Number of links, either full-duplex or one-way.
    links: int
    #: Kind of routing.
    routing: str
    #: The order in which outputs of switches serve packets, `fcfs` or `round-robin`.
    arbitration: str
    #: A cycle of channels in which packets can wait for each other; None if there is none.
    deadlock: str | None
    #: The error with which a run fails because its routes can deadlock; None if it does not fail.
    refusal: str | None
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
    """Facts about a scenario that do not need a run.

    `choice` exists only if packets deviate from the tables. `jobs` and `forests` exist only if the scenario
    has jobs or forests. `round_trip` exists only if sources require acknowledgements, or if switches have
    both input and output buffers. `ethernet` exists only if a component is one of Ethernet, `thresholds`
    only if they depend on the rate of links, `pauses` only with pause frames.
    """

    #: The component that makes the network an Ethernet network, in the notation of scenarios.
    ethernet: str
    #: Thresholds of marks at outputs, for each rate of links.
    thresholds: list[Thresholds]
    #: The memory of switches with pause frames.
    pauses: PauseCheck
    #: How packets deviate from the tables, in words: hashing, spraying, adaptive routing, several LIDs.
    choice: str
    jobs: list[JobCheck]
    forests: list[ForestCheck]
    round_trip: RoundTrip


class FluidShare(TypedDict):
    """Rate of one flow under one rule."""

    #: Payload rate while all flows are active, Gbit/s.
    gbit_s: float
    #: The limit of the flow: a link, the injection or drain rate of a host, or ``its own rate``.
    bottleneck: str
    #: Time from the start of the scenario until the flow has sent its total, ns; None without a total.
    completed_ns: int | None


class FluidTotal(TypedDict):
    """Total rate of all flows under one rule."""

    #: Sum of the rates, Gbit/s.
    gbit_s: float
    #: Time at which the last flow with a total has sent everything, ns; None without such flows.
    completed_ns: int | None


class FluidFlow(_Ends):
    """One flow and its rates. `from` and `to` are its hosts."""

    #: Name of the flow. The name of a flow from a pattern consists of the pattern's name and the hosts.
    flow: str
    #: Payload to send, bytes; None without a total.
    total_bytes: int | None
    #: Rate without congestion control; None if it cannot be computed.
    uncontrolled: FluidShare | None
    #: Max-min fair rate.
    max_min: FluidShare
    #: Rate of the single application assignment.
    saa: FluidShare


class Fluid(TypedDict):
    """Fluid rates of a scenario's flows under three rules."""

    flows: list[FluidFlow]
    #: Total without congestion control; None if it cannot be computed, see `uncontrolled_missing`.
    uncontrolled: FluidTotal | None
    #: Total of max-min fair rates.
    max_min: FluidTotal
    #: Total of the single application assignment, with which the last flow ends as early as possible.
    saa: FluidTotal
    #: Reason why the rates without congestion control are missing; None if they are present.
    uncontrolled_missing: str | None
    #: Weights of SAA: ``total`` if every flow has a total, otherwise ``equal``.
    weights: str
