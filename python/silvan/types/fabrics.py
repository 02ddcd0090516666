"""Checks of real fabrics, and the links that a job shares."""

from __future__ import annotations

from typing import TypedDict

from silvan.types.scenarios import LinkLoad


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
