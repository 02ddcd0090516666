"""Times of tests by formulas: the start of a fit, and what the measurements can separate.

The formulas hold on the empty network with links of equal delay. The simulator then refines the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from silvan._core import Scenario
from silvan.calibration import keys
from silvan.calibration.keys import (
    CABLE,
    COLLECTIVE,
    HEADER,
    INJECTION,
    MEMORY,
    MESSAGES,
    OVERHEAD,
    SWITCH,
    Values,
)
from silvan.calibration.measurements import Measurement
from silvan.calibration.paths import Paths, Route, is_inner

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Operations of perftest whose latency is that of a whole round trip.
WHOLE_ROUND_TRIP = frozenset(("RDMA_Read", "Atomic"))
#: Number of pairs of neighbors in a ring whose routes are averaged.
RING_AT_MOST = 64


class Model(Protocol):
    """Computes the times that measurements would have."""

    def times(self, values: Values) -> list[NDArray[np.float64]]:
        """Return the times in seconds: for each measurement, those of its rows."""


@dataclass(frozen=True)
class Closed:
    """A model by formulas."""

    measurements: Sequence[Measurement]
    routes: Sequence[Route]
    #: Largest payload of a packet in bytes.
    mtu: int
    #: Least bytes of a packet on a link: those of a control packet.
    least: int
    #: Rate in bytes per second at which a receiver drains its buffer; infinite without a limit.
    drain: float
    #: Whether switches forward a packet only after all of it has arrived.
    stores: bool

    @classmethod
    def of(cls, scenario: Scenario, measurements: Sequence[Measurement], *, stores: bool) -> Closed:
        """Return the model of measurements whose hosts are known."""
        paths, table = Paths(scenario), keys.parsed(scenario)
        routes = [_route(one, paths) for one in measurements]
        least = round(keys.parse(HEADER, table["packet"]["control"]))
        drain = table.get("host", {}).get("drain_rate")
        rate = math.inf if drain is None else keys.parse(INJECTION, drain)
        return cls(measurements, routes, keys.mtu(scenario), least, rate, stores)

    def times(self, values: Values) -> list[NDArray[np.float64]]:
        """Return the times in seconds: for each measurement, those of its rows."""
        return [
            np.array([self._time(one, route, row.size, values) for row in one.rows])
            for one, route in zip(self.measurements, self.routes, strict=True)
        ]

    def _time(self, one: Measurement, route: Route, size: int, values: Values) -> float:
        if one.kind == "latency":
            whole = 0.0 if one.operation not in WHOLE_ROUND_TRIP else self._path(route, 0, values)
            return 2 * values[OVERHEAD] + self._path(route, size, values) + whole
        if one.kind == "bandwidth":
            return self._per_message(one, route, size, values)
        return self._collective(one, route, size, values)

    def wire(self, size: int, values: Values) -> float:
        """Return the bytes of a message on a link."""
        full, rest = divmod(size, self.mtu)
        if full and not rest:
            full, rest = full - 1, self.mtu
        return full * (self.mtu + values[HEADER]) + max(rest + values[HEADER], self.least)

    def _path(self, route: Route, size: int, values: Values) -> float:
        """Return the time from the first byte sent to the last byte received."""
        time = route.switches * values[SWITCH] + route.cables * values[CABLE]
        rate = min(route.slowest, self.drain, values[INJECTION] or math.inf)
        time += self.wire(size, values) / rate
        if self.stores:
            time += route.switches * self.wire(min(size, self.mtu), values) / route.slowest
        return time

    def _per_message(self, one: Measurement, route: Route, size: int, values: Values) -> float:
        """Return the time per message of a sender with a number of outstanding messages."""
        wire = self.wire(size, values)
        injection = min(route.first, values[INJECTION] or math.inf)
        round_trip = 2 * values[OVERHEAD] + self._path(route, size, values) + self._path(route, 0, values)
        return max(
            wire / min(route.slowest, self.drain),
            wire / injection + values[MESSAGES],
            round_trip / one.outstanding,
        )

    def _collective(self, one: Measurement, route: Route, size: int, values: Values) -> float:
        """Return the time of an operation; rings, except for reductions to and broadcasts from a root."""
        ranks, chunk = one.ranks, max(1, round(size / one.ranks))
        if is_inner(one):

            def step(part: int) -> float:
                return 2 * values[COLLECTIVE] + (part / values[MEMORY] if values[MEMORY] else 0.0)
        else:

            def step(part: int) -> float:
                return 2 * values[COLLECTIVE] + self._path(route, part, values)

        if one.operation in {"broadcast", "reduce"}:
            steps = ranks - 1 if one.operation == "broadcast" else math.ceil(math.log2(ranks))
            return steps * step(size)
        if one.operation == "all-to-all" and not is_inner(one):
            handled, sent = 2 * values[COLLECTIVE], self.wire(chunk, values) / route.first
            return (ranks - 1) * max(handled, sent) + self._path(route, 0, values)
        rounds = 2 * (ranks - 1) if one.operation == "all-reduce" else ranks - 1
        return rounds * step(chunk)


@dataclass(frozen=True)
class Corrected:
    """Formulas that agree with the simulator for some values: times are multiplied by constant ratios."""

    formulas: Closed
    ratios: Sequence[NDArray[np.float64]]

    @classmethod
    def at(cls, formulas: Closed, simulated: Model, values: Values) -> Corrected:
        """Return formulas that agree with the simulator for these values."""
        pairs = zip(simulated.times(values), formulas.times(values), strict=True)
        return cls(formulas, [time / formula for time, formula in pairs])

    def times(self, values: Values) -> list[NDArray[np.float64]]:
        """Return the times in seconds: for each measurement, those of its rows."""
        return [own * ratio for own, ratio in zip(self.formulas.times(values), self.ratios, strict=True)]


def _route(one: Measurement, paths: Paths) -> Route:
    """Return the route of a test; of a collective operation, the mean one between neighbors in a ring."""
    if is_inner(one):
        return Route(0, math.inf, math.inf)
    if one.kind != "collective":
        return paths.route(one.hosts[0], one.hosts[1])
    ring = list(zip(one.hosts, (*one.hosts[1:], one.hosts[0]), strict=True))[:RING_AT_MOST]
    found = [paths.route(source, destination) for source, destination in ring]
    cables = sum(route.cables for route in found) / len(found)
    return Route(cables, found[0].first, min(route.slowest for route in found))


def header_of(rate: float, bandwidth: float, mtu: int) -> float:
    """Return the header in bytes with which packets of `mtu` bytes have a payload bandwidth on a link.

    >>> [round(header_of(800e9, rate, 4096)) for rate in (769.9e9, 769.2e9)]
    [160, 164]
    """
    return mtu * (rate / bandwidth - 1)
