"""Finds the links that slow down jobs and transfers without a congestion tree, and the flows that share them.

Routes can lead several flows over one link while other links are free, because of a hash collision,
unbalanced tables or the placement of a job. If their demand exceeds the rate of the link, the flows divide
this rate, and no output has to wait for another one: there is no congestion tree.

The *critical* messages of a job or of a class of transfers are the 10 % that lost the most time, compared
with an empty network. The utilization of a link during a critical message is the data of all recorded
messages and transfers that crosses the link in this time, relative to the capacity of the link. Each message
counts in proportion to the time for which it overlaps with the critical message.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from silvan._core import FabricError, FlowRoutes

if TYPE_CHECKING:
    from silvan.results import Result

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

#: Minimum slowdown of a job, and of the 95th percentile of transfers, for which links are reported. The
#: second is larger, because single transfers collide by chance at any load. Minimum utilization of such a
#: link.
SLOW, SLOW_TAIL, BUSY = 1.05, 2.0, 0.5
#: Roots that exist in at most this share of the samples are ignored, as in the account of a run.
RARE = 0.1
#: Maximum numbers of critical messages that are examined, of links, and of flows per link.
MESSAGES_AT_MOST, LINKS_AT_MOST, FLOWS_AT_MOST = 100, 3, 4

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Shared:
    """A link between switches that several flows share."""

    link: str
    #: Mean utilization while critical messages are on their way, from 0 to 1.
    utilisation: float
    #: The flows on the link at the same time as critical messages: class, sending host, receiving host.
    flows: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class _Messages:
    """Delivered messages between different hosts, as columns."""

    class_: NDArray[Any]
    source: NDArray[Any]
    destination: NDArray[Any]
    bytes_: Floats
    start_ns: Floats
    end_ns: Floats
    ideal_ns: Floats

    @property
    def lost_ns(self) -> Floats:
        """The additional time of each message compared with an empty network."""
        return self.end_ns - self.start_ns - self.ideal_ns


def add(result: Result) -> None:
    """Add a sentence to the account for each job and class of transfers that is slow without a tree.

    Nothing is added if the flows on a link are unknown, or if no link is shared.
    """
    slow = list(_slow(result))
    if not slow or (routes := _routes(result)) is None:
        return
    messages = _messages(result)
    for name, what in slow:
        if found := _links(messages, routes, name):
            result.account.append(_sentence(routes, what, found))


def _slow(result: Result) -> Iterator[tuple[str, str]]:
    """Yield each class that is slow and in no congestion tree, with its description."""
    if "trees" not in result.tables:
        return
    held = _held(result)
    for job in result.summary.get("jobs", ()):
        if (job["slowdown"] or 0.0) >= SLOW and job["job"] not in held:
            yield job["job"], f"job `{job['job']}`"
    flows = [flow["flow"] for flow in result.summary["flows"]]
    slowdown: dict[str, float] = {}
    for own in result.summary.get("transfers", {}).get("sizes", ()):
        slowdown[own["class"]] = max(slowdown.get(own["class"], 0.0), own["slowdown"]["p95"])
    for name, ratio in slowdown.items():
        if ratio >= SLOW_TAIL and held.isdisjoint((name, *(flows if name == "flows" else ()))):
            yield name, f"transfers of `{name}`"


def _held(result: Result) -> set[str]:
    """Return the contributors and victims of trees whose roots exist in more than 10 % of the samples."""
    samples: Counter[str] = Counter()
    for tree in result.forest.trees:
        samples[tree.root] += tree.samples
    least = RARE * result.tables["network"].num_rows
    found: set[str] = set()
    for tree in result.forest.trees:
        if samples[tree.root] > least:
            found |= {one.class_ for one in tree.contributors} | {one.class_ for one in tree.victims}
    return found


def links(result: Result, name: str) -> list[Shared]:
    """Return the links between switches that a job's or a class's critical messages share with other flows.

    Only links with a utilization of at least :data:`BUSY` are returned, largest utilization first. The list
    is empty if the routes depend on the load, or on a hash that includes the number of one of several
    sources, or if switches reduce data of a job.
    """
    routes = _routes(result)
    return [] if routes is None else _links(_messages(result), routes, name)


def _routes(result: Result) -> FlowRoutes | None:
    """Return the routes of a run; None if the flows on a link are unknown."""
    if any("port_use" in job for job in result.summary.get("jobs", ())):
        return None  # results do not state which ports of its hosts a message has used
    try:
        routes = result.scenario.routes()
    except FabricError:
        return None
    spec = tomllib.loads(result.scenario_toml)
    sources = sum(len(spec.get(key, ())) for key in ("flow", "traffic", "job"))
    return None if routes.division and sources > 1 else routes


def _links(messages: _Messages, routes: FlowRoutes, name: str) -> list[Shared]:
    own = np.flatnonzero((messages.class_ == name) & (messages.lost_ns > 0))
    if not len(own):
        return []
    number = {host: at for at, host in enumerate(routes.hosts)}
    if not {*messages.source, *messages.destination} <= number.keys():
        return []  # reduction units are not hosts of the routes, so the flows on a link are unknown
    source, destination = (
        np.array([number[host] for host in ends]) for ends in (messages.source, messages.destination)
    )
    pairs, pair = np.unique(source * len(number) + destination, return_inverse=True)
    ends = np.divmod(pairs, len(number))
    of_pair, of_link, part = (np.array(one) for one in routes.ways(*(one.tolist() for one in ends)))
    inner = np.array(routes.are_between_switches)[of_link]
    order = np.flatnonzero(inner)[np.argsort(of_link[inner], kind="stable")]
    of_pair, of_link, part = of_pair[order], of_link[order], part[order]
    # The messages of pair p are `by_pair[first[p]:first[p + 1]]`.
    by_pair = np.argsort(pair, kind="stable")
    first = np.searchsorted(pair[by_pair], np.arange(len(pairs) + 1))
    share = np.zeros(len(pairs))
    threshold = np.quantile(messages.lost_ns[own], 0.9)
    critical = own[messages.lost_ns[own] >= threshold]
    critical = critical[np.argsort(-messages.lost_ns[critical], kind="stable")][:MESSAGES_AT_MOST]
    # Each access to an attribute of `routes` copies a list.
    names, rates = routes.links, routes.rates_gbit_s
    found: list[Shared] = []
    for link in np.unique(of_link[np.isin(of_pair, pair[critical])]).tolist():
        ways = slice(*np.searchsorted(of_link, [link, link + 1]))
        share[of_pair[ways]] = part[ways]
        crossing = [by_pair[first[at] : first[at + 1]] for at in of_pair[ways]]
        over = np.sort(np.concatenate(crossing))
        mine = critical[share[pair[critical]] > 0]
        used, there = _used(messages, mine, over, share[pair[over]], rates[link])
        share[of_pair[ways]] = 0.0
        flows = sorted(
            {(messages.class_[at], messages.source[at], messages.destination[at]) for at in there.tolist()}
        )
        if len(flows) > 1 and used >= BUSY:
            found.append(Shared(names[link], min(used, 1.0), tuple(flows)))
    return sorted(found, key=lambda one: (-round(one.utilisation, 2), -len(one.flows), one.link))


def _used(
    messages: _Messages, mine: Ints, over: Ints, share: Floats, rate_gbit_s: float
) -> tuple[float, Ints]:
    """Return the mean utilization of a link during critical messages, and the messages that overlap them.

    `mine` and `over` are the indices of the critical messages and of all messages that cross the link.
    `share` is the share of each message in `over` that crosses the link.
    """
    start, end = messages.start_ns[over], messages.end_ns[over]
    bits = messages.bytes_[over] * share * 8 / np.maximum(end - start, 1e-9)
    there = np.zeros(len(over), bool)
    used = []
    for at in mine.tolist():
        first, last = messages.start_ns[at], messages.end_ns[at]
        overlap = np.maximum(np.minimum(end, last) - np.maximum(start, first), 0.0)
        there |= overlap > 0
        used.append(float(overlap @ bits) / (last - first) / rate_gbit_s)
    return float(np.mean(used)), over[there]


def _messages(result: Result) -> _Messages:
    """Return the delivered messages of all jobs and the delivered transfers."""
    columns: list[list[NDArray[Any]]] = [[] for _ in range(7)]
    if "messages" in result.tables:
        table, ranks = result.numpy("messages"), result.numpy("ranks")
        host = {
            (job, rank): name
            for job, rank, name in zip(ranks["job"], ranks["rank"].tolist(), ranks["host"], strict=True)
        }
        ends = (
            np.array(
                [host[key] for key in zip(table["job"], table[rank].tolist(), strict=True)], dtype=object
            )
            for rank in ("from_rank", "to_rank")
        )
        rest = (table[name] for name in ("bytes", "handed_ns", "delivered_ns", "alone_ns"))
        for column, values in zip(columns, (table["job"], *ends, *rest), strict=True):
            column.append(values)
    if "transfers" in result.tables:
        table = result.numpy("transfers")
        names = ("class", "from", "to", "bytes", "start_ns", "delivered_ns", "ideal_ns")
        for column, key in zip(columns, names, strict=True):
            column.append(table[key])
    found = [np.concatenate(column) if column else np.array([]) for column in columns]
    fine = np.isfinite(found[5].astype(float)) & (found[1] != found[2])
    text, numbers = found[:3], found[3:]
    return _Messages(*(one[fine] for one in text), *(one[fine].astype(np.float64) for one in numbers))


def _sentence(routes: FlowRoutes, what: str, found: list[Shared]) -> str:
    cause = f"{routes.division}" if routes.division else "the forwarding tables"
    places = []
    for one in found[:LINKS_AT_MOST]:
        classes = {class_ for class_, _, _ in one.flows}
        named = [
            f"{source}->{target}{f' of `{class_}`' if len(classes) > 1 else ''}"
            for class_, source, target in one.flows[:FLOWS_AT_MOST]
        ]
        rest = len(one.flows) - len(named)
        places.append(
            f"{one.link} ({100 * one.utilisation:.0f} % used) by {len(one.flows)} flows: "
            f"{', '.join(named)}{f' and {rest} more' if rest else ''}"
        )
    more = len(found) - len(places)
    hint = " `silvan fabric collide` may find a better placement." if what.startswith("job ") else ""
    return (
        f"No congestion tree explains the time of {what}. Its slowest messages share links between switches "
        f"(routes: {cause}): {'; '.join(places)}{f'; and {more} more links' if more else ''}.{hint}"
    )
