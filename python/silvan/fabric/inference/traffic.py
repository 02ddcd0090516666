"""The bytes of pairs of hosts that explain the bytes of links.

With the routes R (a row per link, a column per pair of hosts, entries from 0 to 1) and the measured bytes y
of the links, the bytes x >= 0 of the pairs satisfy R x = y within the counting error. Often many x do. The
module returns the x of the least squares and, for any sum of elements of x, the smallest and the largest
value that the counters permit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from silvan._core import FabricError, SilvanError
from silvan._terminal import clean
from silvan.fabric.collisions.routes import Fabric, Floats, Ints

#: A link with a smaller share of the bytes of the busiest link counts as idle.
IDLE = 1e-3
#: Maximum number of pairs of active hosts whose routes are followed, and of pairs that may exchange traffic.
MOST_FOLLOWED, MOST_PAIRS = 2_000_000, 5_000
#: Bytes by which a counter of words can be wrong at two readings.
ROUNDING = 8.0


@dataclass(frozen=True)
class System:
    """Pairs of hosts, and the links that measure them."""

    fabric: Fabric
    #: For each pair: its source and its destination.
    sources: Ints
    destinations: Ints
    #: The measured links, their bytes, and the counting errors of these.
    links: Ints
    octets: Floats
    errors: Floats
    #: Share of the bytes of a pair (column) that passes a measured link (row), as a sparse array.
    routes: Any
    #: The same for all links of the fabric.
    all_routes: Any
    #: Statements about pairs and links that are left out.
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Traffic:
    """The bytes of pairs that explain the counters best."""

    system: System
    #: For each pair: the bytes of the least squares. If the counters do not determine them, one of many
    #: solutions.
    octets: Floats
    #: Largest difference of a link, relative to the bytes of the busiest link; and this link.
    mismatch: float
    worst: int
    #: Number of bytes of pairs that could be chosen freely, without regard to the signs of the others.
    free: int

    def interval(self, weights: Floats) -> tuple[float, float]:
        """Return the smallest and the largest weighted sum of the bytes of pairs that the counters permit."""
        from scipy.optimize import linprog
        from scipy.sparse import vstack

        own = self.system
        scale = float(own.octets.max())
        limits = np.concatenate([own.octets + own.errors, own.errors - own.octets]) / scale
        ends = []
        for sign in (1.0, -1.0):
            found = linprog(
                sign * weights, A_ub=vstack([own.routes, -own.routes]).tocsr(), b_ub=limits, method="highs"
            )
            if found.status != 0:
                raise SilvanError(f"the linear program of an interval failed: {found.message}")
            ends.append(sign * float(found.fun) * scale)
        return max(0.0, ends[0]), max(0.0, ends[1])


def scipy_is_needed() -> None:
    """Raise `SilvanError` if SciPy is not installed."""
    try:
        import scipy.optimize  # noqa: F401
    except ImportError:
        raise SilvanError(
            "traffic from counters needs SciPy: install Silvan with its extra `fit`, or SciPy itself"
        ) from None


def system(fabric: Fabric, octets: Floats, hosts: Ints | None, error: float) -> System:
    """Return the pairs of hosts that may exchange traffic, and the links that measure them.

    Args:
        fabric: The fabric with its routes.
        octets: For each link: the measured bytes; NaN if they are unknown.
        hosts: The hosts that exchange traffic, by default all.
        error: Relative error of each counter.

    Raises:
        FabricError: no link has traffic, too many pairs may exchange traffic, or a route is invalid.

    """
    from scipy.sparse import csr_array

    largest = float(np.nanmax(octets, initial=0.0))
    if largest <= 0:
        raise FabricError("no port has sent data between the dumps, so there is no traffic to find")
    idle = octets <= IDLE * largest
    sources, destinations = _candidates(fabric, idle, hosts)
    of_pair, of_link, share = fabric.ways(sources, destinations)
    measures, notes = _measuring(fabric, octets, of_link, share)
    # A pair that crosses an idle link has exchanged almost nothing.
    keeps = np.ones(len(sources), dtype=bool)
    keeps[of_pair[idle[of_link] & measures[of_link]]] = False
    is_measured = np.zeros(len(sources), dtype=bool)
    is_measured[of_pair[measures[of_link]]] = True
    if unmeasured := int((keeps & ~is_measured).sum()):
        notes.append(f"{unmeasured:,} pairs of hosts cross no measured link and are left out")
    keeps &= is_measured
    count = int(keeps.sum())
    if count > MOST_PAIRS:
        raise FabricError(
            f"{count:,} pairs of hosts may have exchanged traffic, and at most {MOST_PAIRS:,} can be "
            "distinguished; name the hosts of the traffic (hosts, --hosts)"
        )
    if count == 0:
        raise FabricError("no pair of hosts has a route over links that all have traffic; check the tables")
    number = np.cumsum(keeps) - 1
    kept = keeps[of_pair]
    shape = (len(fabric.links), count)
    routes = csr_array((share[kept], (of_link[kept], number[of_pair[kept]])), shape=shape)
    links = np.flatnonzero(measures & ~idle)
    own = octets[links]
    return System(
        fabric,
        sources[keeps],
        destinations[keeps],
        links,
        own,
        error * own + ROUNDING,
        routes[links],
        routes,
        tuple(notes),
    )


def _measuring(fabric: Fabric, octets: Floats, of_link: Ints, share: Floats) -> tuple[Any, list[str]]:
    """Return which links measure the traffic of pairs, and notes about the others."""
    notes = [f"links with at most {IDLE:.1%} of the bytes of the busiest link count as idle"]
    measures = ~np.isnan(octets)
    if fabric.shares is None:
        return measures, notes
    division = clean(fabric.shares.core.division or "")
    notes.append(f"routes: {division}; those of the first traffic source of each host are used")
    divided = np.zeros(len(fabric.links), dtype=bool)
    divided[of_link[share < 1]] = True
    if divided.any():
        count = int(divided.sum())
        notes.append(f"{count:,} links, on which the share of a pair is unknown, are not used")
    return measures & ~divided, notes


def _candidates(fabric: Fabric, idle: Any, hosts: Ints | None) -> tuple[Ints, Ints]:
    """Return the pairs of hosts of which one may have sent, and the other may have received."""
    last = np.full(len(fabric.hosts), -1, dtype=np.int64)
    ends = np.flatnonzero(fabric.to_host >= 0)
    last[fabric.to_host[ends]] = ends
    chosen = np.arange(len(fabric.hosts)) if hosts is None else hosts
    sends, receives = chosen[~idle[fabric.first[chosen]]], chosen[~idle[last[chosen]]]
    if len(sends) * len(receives) > MOST_FOLLOWED:
        raise FabricError(
            f"{len(sends):,} hosts may have sent and {len(receives):,} received, which are more than "
            f"{MOST_FOLLOWED:,} pairs; name the hosts of the traffic (hosts, --hosts)"
        )
    one, other = (part.ravel() for part in np.meshgrid(sends, receives, indexing="ij"))
    return one[one != other], other[one != other]


def solve(own: System) -> Traffic:
    """Return the bytes of pairs with the least sum of squared differences from the counters.

    Data in buffers, and dumps that are not of one instant, make counters of links disagree. The largest
    difference that remains shows by how much, so each counting error of the result is at least as large.
    """
    from scipy.optimize import nnls

    scale = float(own.octets.max())
    dense = own.routes.toarray()
    try:
        found, _ = nnls(dense, own.octets / scale, maxiter=20 * dense.shape[1])
    except RuntimeError as error:
        pairs = f"{dense.shape[1]:,} pairs"
        raise SilvanError(f"the least squares of {pairs} failed: {error}; name fewer hosts") from None
    rest = np.abs(dense @ found * scale - own.octets)
    errors = np.maximum(own.errors, rest.max() * (1 + 1e-9) + ROUNDING)
    rank = np.linalg.matrix_rank((own.routes @ own.routes.T).toarray(), hermitian=True)
    return Traffic(
        replace(own, errors=errors),
        found * scale,
        float(rest.max()) / scale,
        int(own.links[np.argmax(rest)]),
        dense.shape[1] - int(rank),
    )
