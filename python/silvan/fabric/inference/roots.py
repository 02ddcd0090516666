"""Outputs for which other ports wait, from the time in which ports waited and from the use of links.

A port that waits is followed to the node at the other end of its cable. If that is a host, it does not take
the data. If it is a switch, the port waits for those of its outputs to which pairs of hosts lead from the
port. Such an output is the root if it is busy; if it waits, it is followed. Counters are sums over time, so
an output that was busy only at times is the root if no other output explains the wait.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from silvan.fabric.collisions.routes import Fabric, Floats
from silvan.fabric.inference.traffic import System

#: Fraction of the time from which a port counts as waiting, and fractions of its rate from which it is busy,
#: and busy at times.
WAITS, BUSY, AT_TIMES = 0.02, 0.9, 0.5
#: Fraction of its rate from which a link never waits.
FULL = 0.99


@dataclass
class Root:
    """An output for which other ports wait."""

    link: int
    #: `busy`, `busy at times`, `slow receiver`, `cable or receiver`, or `cycle`.
    kind: str
    #: The ports that wait for it, as numbers of links.
    waiting: set[int] = field(default_factory=set)


def following(own: System) -> Mapping[int, set[int]]:
    """Return, for each link, the links to which pairs of hosts lead from it."""
    fabric = own.fabric
    begins = fabric.to_switch[fabric.opposite]
    found: dict[int, set[int]] = defaultdict(set)
    by_pair = own.all_routes.tocsc()
    for pair in range(by_pair.shape[1]):
        links = by_pair.indices[by_pair.indptr[pair] : by_pair.indptr[pair + 1]].tolist()
        at = defaultdict(list)
        for link in links:
            if begins[link] >= 0:
                at[int(begins[link])].append(link)
        for link in links:
            found[link].update(at.get(int(fabric.to_switch[link]), ()))
    return found


def find(own: System, utilization: Floats, waits: Floats) -> list[Root]:
    """Return the roots, those with most waiting ports first.

    Without any known waiting time, the roots are the busy outputs that several links lead to.
    """
    after = following(own)
    before: dict[int, set[int]] = defaultdict(set)
    for link, outputs in after.items():
        for output in outputs:
            before[output].add(link)
    if np.isnan(waits).all():
        busy = np.flatnonzero(utilization >= BUSY).tolist()
        roots = [Root(link, "busy") for link in busy if len(before[link]) > 1]
        # A link that is busy all the time does not wait, so what it leads to is not congested because of it.
        is_fed = {link: any(utilization[one] >= FULL for one in before[link]) for link in busy}
        return sorted(roots, key=lambda root: (is_fed[root.link], -utilization[root.link], root.link))
    merging = {link for link, inputs in before.items() if len(inputs) > 1}
    search = _Search(own.fabric, after, merging, utilization, waits)
    found: dict[int, Root] = {}
    for link in np.flatnonzero(waits >= WAITS).tolist():
        for at, kind in search.of(link).items():
            found.setdefault(at, Root(at, kind)).waiting.add(link)
    for root in found.values():
        root.waiting.discard(root.link)
    return sorted(found.values(), key=lambda root: (-len(root.waiting), root.link))


class _Search:
    """Follows ports that wait."""

    def __init__(
        self,
        fabric: Fabric,
        after: Mapping[int, set[int]],
        merging: set[int],
        utilization: Floats,
        waits: Floats,
    ) -> None:
        self._fabric = fabric
        self._after = after
        self._is_idle = np.array([link not in after for link in range(len(fabric.links))])
        #: Outputs to which several links lead.
        self._merging = merging
        self._utilization = utilization
        self._waits = waits

    def _blocked(self, link: int) -> set[int]:
        """Return waiting outputs to which an unknown pair may lead, because they or the link sent nothing."""
        begins = self._fabric.to_switch[self._fabric.opposite]
        outputs = (begins == self._fabric.to_switch[link]) & (self._waits >= WAITS)
        if not self._is_idle[link]:
            outputs &= self._is_idle
        return set(np.flatnonzero(outputs).tolist()) - {int(self._fabric.opposite[link])}

    def of(self, start: int) -> dict[int, str]:
        """Return the roots for which a port waits, with their kinds."""
        roots: dict[int, str] = {}
        seen, open_ = {start}, [start]
        while open_:
            link = open_.pop()
            if self._fabric.to_switch[link] < 0:
                roots[link] = "slow receiver"
                continue
            outputs = self._after.get(link, set()) | self._blocked(link)
            waiting = {one for one in outputs if self._waits[one] >= WAITS}
            busy = {one for one in outputs - waiting if self._utilization[one] >= BUSY}
            roots |= dict.fromkeys(busy, "busy")
            if not busy and not waiting and self._utilization[link] >= BUSY:
                # It waited only for moments.
                roots[link] = "busy"
            elif not busy and not waiting:
                partly = max(outputs & self._merging, key=lambda one: self._utilization[one], default=link)
                is_partly = partly != link and self._utilization[partly] >= AT_TIMES
                roots |= {partly: "busy at times"} if is_partly else {link: "cable or receiver"}
            open_ += sorted(waiting - seen)
            seen |= waiting
        return roots or {start: "cycle"}
