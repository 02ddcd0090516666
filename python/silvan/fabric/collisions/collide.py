"""Finds the links that a job's messages share, from the routes alone, and suggests a better placement.

A *flow* is an ordered pair of hosts, or of their ports, that exchange messages. The rate of a flow is that of
its source's link divided by the number of flows at its source or its destination, whichever is larger. The
*demand* on a link is the sum of the rates of its flows, relative to the capacity of the link. A demand above
1 cannot be met, and the flows take longer by this factor. The computation treats all flows as concurrent. The
rounds of a collective operation do not all overlap, so the demand is an upper bound.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from silvan._core import FabricError
from silvan.fabric._paths import Paths
from silvan.fabric.collisions import flows, routes
from silvan.fabric.collisions.routes import Fabric, Floats, Ints
from silvan.types import Collisions, Placement, RailDemand

PLACEMENTS = ("linear", "round-robin")

#: Maximum number of hosts in a range.
MOST_HOSTS = 1 << 20

#: Maximum product of the number of pairs of ranks and the number of steps of the search for a placement.
MOST_FOLLOWED = 20_000_000


@dataclass(frozen=True)
class Loads:
    """The demand that flows cause on links."""

    #: Source and destination host or port of each flow.
    sources: Ints
    destinations: Ints
    #: Pairs of a flow and a link on its route, both as numbers.
    of_flow: Ints
    of_link: Ints
    #: Number of flows on each link, and the demand relative to the link's capacity.
    flows: Ints
    demand: Floats

    def score(self, inner: Any) -> tuple[float, float, float]:
        """Return a score of the links `inner`: largest demand, total excess above 1, sum of squares.

        A smaller tuple is better.
        """
        demand = self.demand[inner]
        if not len(demand):
            return (0.0, 0.0, 0.0)
        excess = np.maximum(demand - 1, 0).sum()
        return (round(float(demand.max()), 9), round(float(excess), 9), round(float((demand**2).sum()), 9))


def loads(fabric: Fabric, ranks_on: Ints, sources: Ints, destinations: Ints) -> Loads:
    """Return the demand of messages between ranks; `ranks_on` maps a rank to its host.

    Raises `FabricError` if a route does not reach its host.
    """
    if fabric.host_ports is None:
        one, other = ranks_on[sources], ranks_on[destinations]
    else:
        one, other = fabric.host_ports.pairs(ranks_on, sources, destinations)
    pairs = np.unique(np.stack((one, other), axis=1)[one != other], axis=0).reshape(-1, 2)
    one, other = pairs[:, 0], pairs[:, 1]
    of_flow, of_link, part = fabric.ways(one, other)
    hosts, links = len(fabric.hosts), len(fabric.links)
    sends, receives = np.bincount(one, minlength=hosts), np.bincount(other, minlength=hosts)
    share = fabric.rates[fabric.first[one]] / np.maximum(sends[one], receives[other])
    return Loads(
        sources=one,
        destinations=other,
        of_flow=of_flow,
        of_link=of_link,
        flows=np.bincount(of_link, minlength=links),
        demand=np.bincount(of_link, weights=share[of_flow] * part, minlength=links) / fabric.rates,
    )


def expand(names: Sequence[str]) -> list[str]:
    """Expand ranges of hosts, such as ``node-[00-03,7]`` for five hosts.

    Raises `FabricError` if a range is invalid or has more than :data:`MOST_HOSTS` hosts.
    """
    found: list[str] = []
    for name in names:
        match = re.fullmatch(r"([^\[\]]*)\[([^\[\]]*)\]([^\[\]]*)", name)
        if match is None:
            if "[" in name or "]" in name:
                raise FabricError(f"`{name}`: write a range of hosts as node-[00-03,7]")
            found.append(name)
            continue
        for part in match[2].split(","):
            ends = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
            if ends is None or (ends[2] and int(ends[2]) < int(ends[1])):
                raise FabricError(f"`{name}`: `{part}` is not a number or a range such as 00-03")
            last = int(ends[2] or ends[1])
            if last - int(ends[1]) >= MOST_HOSTS:
                raise FabricError(f"`{name}`: a range of more than {MOST_HOSTS:,} hosts")
            found += [f"{match[1]}{n:0{len(ends[1])}}{match[3]}" for n in range(int(ends[1]), last + 1)]
    return found


def numbers(fabric: Fabric, names: Sequence[str] | None) -> Ints:
    """Return the numbers of hosts by name, of all but aggregation nodes for None.

    Raises `FabricError` for an unknown host, one that appears twice, or an invalid range.
    """
    if names is None:
        # Aggregation nodes are units inside switches (SHARP), on which no rank can run.
        is_host = ["aggregation node" not in name.lower() for name in fabric.places]
        return np.flatnonzero(is_host)
    known = {name: number for number, name in enumerate(fabric.places)}
    wanted = expand(names)
    for name in wanted:
        if name not in known:
            raise FabricError(
                f"no host `{name}` in the fabric; its hosts have names such as `{fabric.places[0]}`"
            )
    twice = [name for name, times in Counter(wanted).items() if times > 1]
    if twice:
        raise FabricError(f"host `{twice[0]}` is in the list twice")
    return np.array([known[name] for name in wanted], dtype=np.int64)


def in_turn(fabric: Fabric, hosts: Ints) -> Ints:
    """Return hosts round robin: the first host of each leaf switch, then the second of each."""
    leaves: dict[int, list[int]] = {}
    leaf_of = fabric.leaf_of_place
    for host in hosts.tolist():
        leaves.setdefault(int(leaf_of[host]), []).append(host)
    most = max(len(own) for own in leaves.values())
    order = [own[row] for row in range(most) for own in leaves.values() if row < len(own)]
    return np.array(order, dtype=np.int64)


def by_leaf(fabric: Fabric, hosts: Ints) -> Ints:
    """Return hosts leaf by leaf; leaves with the most hosts come first."""
    leaf_of = fabric.leaf_of_place
    size = Counter(leaf_of[hosts].tolist())
    return np.array(sorted(hosts.tolist(), key=lambda h: (-size[leaf_of[h]], leaf_of[h], h)))


@dataclass(frozen=True)
class Job:
    """The pairs of ranks that exchange messages, and the number of ranks per host."""

    ranks: int
    per_host: int
    sources: Ints
    destinations: Ints

    @property
    def hosts(self) -> int:
        """The number of hosts that the job needs."""
        return -(-self.ranks // self.per_host)

    def on(self, fabric: Fabric, order: Ints) -> Loads:
        """Return the demand of the job if its ranks are placed on the first hosts of `order`."""
        ranks_on = order[np.arange(self.ranks) // self.per_host]
        return loads(fabric, ranks_on, self.sources, self.destinations)


def better(fabric: Fabric, job: Job, order: Ints, tries: int, seed: int) -> tuple[Ints, str]:
    """Search for an order of hosts that causes less demand; return the order and how it was found.

    The search compares the given order with other placements, and then tries at most `tries` random exchanges
    of two hosts. It keeps an exchange unless the score becomes worse, and ends when no demand exceeds 1.
    """
    inner = fabric.inner
    known = {"linear": order, "round-robin": in_turn(fabric, order), "leaf by leaf": by_leaf(fabric, order)}
    scores = {name: job.on(fabric, own).score(inner) for name, own in known.items()}
    name = min(known, key=lambda name: scores[name])
    best, score, how = known[name].copy(), scores[name], name
    rng = random.Random(seed)
    followed = max(1, len(job.sources))
    for _ in range(min(tries, MOST_FOLLOWED // followed)):
        if score[0] <= 1 and score[1] == 0:
            break
        one, other = rng.randrange(job.hosts), rng.randrange(len(best))
        if one == other:
            continue
        best[[one, other]] = best[[other, one]]
        tried = job.on(fabric, best).score(inner)
        if tried <= score:
            how = f"{name}, then exchanges of hosts" if tried < score else how
            score = tried
        else:
            best[[one, other]] = best[[other, one]]
    return best, how


def _rails(fabric: Fabric, found: Loads, worst: Floats) -> list[RailDemand]:
    """Return the flows of the ports with each number, and the largest demand on their links."""
    if fabric.host_ports is None:
        return []
    rails = fabric.host_ports.rails()[found.sources]
    return [
        {"port": port, "flows": int((rails == port).sum()), "worst_demand": float(worst[rails == port].max())}
        for port in np.unique(rails).tolist()
    ]


def _described(fabric: Fabric, found: Loads, top: int) -> Placement:
    """Return the demand of a placement, with at most `top` links and pairs."""
    inner = np.flatnonzero(fabric.inner)
    order = inner[np.lexsort((inner, -found.flows[inner], -found.demand[inner]))]
    worst = np.zeros(len(found.sources))
    on_worst = np.zeros(len(found.sources), dtype=np.int64)
    is_inner = fabric.inner[found.of_link]
    for flow, link in zip(found.of_flow[is_inner].tolist(), found.of_link[is_inner].tolist(), strict=True):
        if found.demand[link] > worst[flow]:
            worst[flow], on_worst[flow] = found.demand[link], link
    pairs = np.argsort(-worst, kind="stable")[:top]
    counts = Counter(found.flows[inner].tolist())
    return {
        "worst_demand": float(found.demand[inner].max()) if len(inner) else 0.0,
        "links_above_one": int((found.demand[inner] > 1 + 1e-9).sum()),
        "flows_above_one": int((worst > 1 + 1e-9).sum()),
        "flows_per_link": {str(count): counts[count] for count in sorted(counts)},
        "rails": _rails(fabric, found, worst),
        "links": [
            {"link": fabric.links[at], "flows": int(found.flows[at]), "demand": float(found.demand[at])}
            for at in order[:top].tolist()
            if found.flows[at]
        ],
        "pairs": [
            {
                "from": fabric.hosts[found.sources[at]],
                "to": fabric.hosts[found.destinations[at]],
                "link": fabric.links[on_worst[at]],
                "demand": float(worst[at]),
            }
            for at in pairs.tolist()
            if worst[at] > 0
        ],
    }


def _job(
    pattern: str | None,
    trace: str | PathLike[str] | None,
    ranks: int | None,
    per_host: int,
    distance: int | None,
    hosts: int,
) -> Job:
    if (pattern is None) == (trace is None):
        raise FabricError("give either a pattern or a trace")
    if per_host < 1:
        raise FabricError(f"ranks_per_host = {per_host}: must be 1 or more")
    if trace is not None:
        if distance is not None:
            raise FabricError(f"distance = {distance}: affects only the pattern `shift`")
        sources, destinations, there = flows.of_trace(trace)
        if ranks not in (None, there):
            raise FabricError(f"ranks = {ranks}: the trace has {there}")
        job = Job(there, per_host, sources, destinations)
    else:
        count = hosts * per_host if ranks is None else ranks
        job = Job(count, per_host, *flows.of_pattern(str(pattern), count, distance))
    if job.hosts > hosts:
        raise FabricError(
            f"{job.ranks} ranks need {job.hosts} hosts, {per_host} on each (ranks_per_host), of {hosts}"
        )
    return job


def collide(  # noqa: PLR0913 - options with names and defaults
    paths: Paths,
    *,
    pattern: str | None = None,
    trace: str | PathLike[str] | None = None,
    hosts: Sequence[str] | None = None,
    placement: str = "linear",
    ranks: int | None = None,
    ranks_per_host: int = 1,
    distance: int | None = None,
    tables: str | PathLike[str] | None = None,
    default_rate: str | None = None,
    top: int = 10,
    tries: int = 1000,
    seed: int = 1,
) -> Collisions:
    """Find the links that a job's messages share; see :func:`silvan.fabric.collide`."""
    if placement not in PLACEMENTS:
        raise FabricError(f"`{placement}` is not a placement; known are {', '.join(PLACEMENTS)}")
    if top < 1 or tries < 0:
        raise FabricError(f"top = {top}, tries = {tries}: must be 1 or more, and 0 or more")
    fabric = routes.read(paths, tables, default_rate)
    order = numbers(fabric, hosts)
    job = _job(pattern, trace, ranks, ranks_per_host, distance, len(order))
    if placement == "round-robin":
        order = in_turn(fabric, order)
    found = job.on(fabric, order)
    told: Collisions = {
        "job": {
            "what": str(trace) if trace is not None else pattern,
            "ranks": job.ranks,
            "hosts": job.hosts,
            "flows": len(found.sources),
            "placement": placement,
            "routes": "forwarding tables" if fabric.shares is None else fabric.shares.core.division or "",
        },
        "deadlock": fabric.deadlock,
        "now": _described(fabric, found, top),
        "suggestion": None,
    }
    if tries and (score := found.score(fabric.inner))[0] > 1:
        best, how = better(fabric, job, order, tries, seed)
        after = job.on(fabric, best)
        if after.score(fabric.inner) < score:
            chosen = [fabric.places[host] for host in best[: job.hosts].tolist()]
            told["suggestion"] = {"how": how, "hosts": chosen, **_described(fabric, after, top)}
    return told
