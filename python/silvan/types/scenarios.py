"""The check of a scenario, and its fluid rates."""

from __future__ import annotations

from typing import TypedDict

# Keys that are keywords of Python cannot be written in a class.
_Ends = TypedDict("_Ends", {"from": str, "to": str})


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
