"""Types for checks of real fabrics, and for the links that the flows of a job share."""

from __future__ import annotations

from typing import TypedDict

from silvan.types.scenarios import LinkLoad


class FabricLoad(LinkLoad):
    """Load of the links between switches if every host sends to every other host."""

    #: Maps the number of flows (as text, because JSON requires it) to the number of links with this load.
    histogram: dict[str, int]


class Lane(TypedDict):
    """One virtual lane of all channels between switches."""

    #: Number of the lane.
    lane: int
    #: Number of channels on which a pair of hosts uses the lane.
    channels: int
    #: Number of the lane's channels that are in cycles; 0 if the lane cannot deadlock.
    in_circles: int


class Lanes(TypedDict):
    """The deadlock check of each virtual lane."""

    lanes: list[Lane]
    #: A cycle with its lanes; None if there is none.
    cycle: str | None
    #: Number of host pairs whose packets a switch discards, because their service level maps to lane 15.
    discarded: int


class FabricFile(TypedDict):
    """A file that the user named, or that was found in a folder."""

    #: Path of the file.
    file: str
    #: Kind of file; None if unknown.
    kind: str | None
    #: Description of the data read from the file, or reason why the file was ignored.
    note: str


class FabricCheck(TypedDict):
    """Facts about a real fabric and its forwarding tables."""

    #: Name of the network.
    topology: str
    hosts: int
    #: Names of the aggregation nodes among the hosts: units inside switches that reduce values (SHARP).
    aggregation_nodes: list[str]
    switches: int
    links: int
    #: The largest number of LIDs of a host: 1, or more if LMC > 0. Each pair has a route to each LID.
    lids_per_host: int
    #: Ordered pairs of hosts with a route to each LID.
    pairs_routed: int
    #: Ordered pairs of hosts without a route to some LID.
    pairs_unroutable: int
    #: Reasons why pairs have no route, for the first few pairs.
    problems: list[str]
    #: Maps the number of switches on a route (as text) to the number of routes.
    hops: dict[str, int]
    all_to_all: FabricLoad
    #: Number of directed links between switches that have no flows, although shortest paths could use them
    #: without closing a cycle.
    unused_links: int
    #: Flows on the most loaded link if flows were divided evenly over all shortest paths.
    even_flows: float
    #: Faults of the routes: unused links, and more than twice `even_flows` on a link.
    findings: list[str]
    #: A cycle of channels in which packets can wait for each other; None if there is none.
    deadlock: str | None
    #: The deadlock check of each lane; None if service levels and SL-to-VL tables are unknown.
    lanes: Lanes | None
    #: The SL-to-VL table if all links have the same table; else None. The scenario key is `lanes.sl_to_vl`.
    sl_to_vl: list[int] | None
    #: Number of port groups for adaptive routing, which are not simulated.
    adaptive_groups: int
    #: Files that were used.
    used: list[FabricFile]
    #: Files that were ignored.
    ignored: list[FabricFile]


class LinkDemand(TypedDict):
    """A link between switches that several flows of a job share."""

    #: Name of the directed link.
    link: str
    #: Number of flows on the link.
    flows: int
    #: Demand, as a multiple of the link's capacity.
    demand: float


_PairEnds = TypedDict("_PairEnds", {"from": str, "to": str, "link": str, "demand": float})


class PairDemand(_PairEnds):
    """Two hosts or ports (`from`, `to`), their worst `link`, and its `demand` relative to its capacity."""


class RailDemand(TypedDict):
    """The flows that leave hosts by the ports with a number, from 1."""

    port: int
    #: Number of flows.
    flows: int
    #: The largest demand on a link between switches on their routes, as a multiple of its capacity.
    worst_demand: float


class Placement(TypedDict):
    """The links that the flows of a job share with a given placement of its ranks."""

    #: The largest demand on a link between switches, as a multiple of its capacity.
    worst_demand: float
    #: Number of links with a demand above 1.
    links_above_one: int
    #: Number of flows that cross such a link.
    flows_above_one: int
    #: Maps the number of flows (as text) to the number of links between switches.
    flows_per_link: dict[str, int]
    #: The flows by port of the sender; empty if each host has one port.
    rails: list[RailDemand]
    #: The links with the largest demand.
    links: list[LinkDemand]
    #: The pairs of hosts with the largest demand on their route.
    pairs: list[PairDemand]


class SuggestedPlacement(Placement):
    """A placement of the ranks that causes less demand on links."""

    #: The method that found the placement.
    how: str
    #: Hosts in the order of the ranks.
    hosts: list[str]


class CountedJob(TypedDict):
    """The job whose flows were counted."""

    #: Name of the pattern, or path of the trace.
    what: str | None
    #: Number of ranks.
    ranks: int
    #: Number of hosts.
    hosts: int
    #: Number of ordered pairs of hosts, or of their ports, that exchange messages.
    flows: int
    #: ``linear`` or ``round-robin``.
    placement: str
    #: How packets are routed: ``forwarding tables``, or how packets deviate from the tables.
    routes: str


class Collisions(TypedDict):
    """The links that a job's messages share, and a better placement."""

    job: CountedJob
    #: A cycle of channels in which packets can wait for each other with these routes; None if there is none.
    deadlock: str | None
    #: Collisions with the given placement.
    now: Placement
    #: A better placement; None if none was found, needed or requested.
    suggestion: SuggestedPlacement | None
