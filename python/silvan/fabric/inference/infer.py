"""Finds the traffic and the causes behind counters of ports; see :func:`silvan.fabric.infer`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from silvan import _files
from silvan._core import FabricError, Scenario, SilvanError
from silvan.fabric._paths import Paths
from silvan.fabric.collisions import routes
from silvan.fabric.collisions.collide import numbers
from silvan.fabric.collisions.routes import Floats
from silvan.fabric.inference import forward, measured, roots, traffic
from silvan.fabric.inference.measured import Measured
from silvan.fabric.inference.roots import Root
from silvan.fabric.inference.traffic import IDLE, Traffic
from silvan.hardware import readers
from silvan.results import Result
from silvan.types import CountedPair, CountedRoot, Inference, PortShare

#: Hosts of a root that are examined, and pairs that may be its victims.
SHARES, VICTIMS = 5, 5
#: Largest difference of a link, relative to the busiest link, that counting errors explain.
MISMATCH = 0.05
#: Share of the bytes of a root up to which a host is not named.
SMALLEST = 0.01
#: Name of the scenario that is written.
SCENARIO = "counters.toml"

Run = Callable[[Scenario], Result]


def infer(  # noqa: PLR0913 - options with names and defaults
    paths: Paths,
    *,
    before: str | PathLike[str] | None,
    after: str | PathLike[str],
    seconds: float | None,
    run: Run | None,
    tables: str | PathLike[str] | None = None,
    default_rate: str | None = None,
    hosts: Sequence[str] | None = None,
    tick_bytes: int = 8,
    is_line_rate: bool = False,
    top: int = 10,
    error: float = 0.001,
    tolerance: float = 0.05,
    out: str | PathLike[str] | None = None,
) -> Inference:
    """Find the traffic behind counters; `run` runs a scenario, and None omits the run."""
    traffic.scipy_is_needed()
    _check(top, tick_bytes, error, tolerance)
    fabric = routes.read(paths, tables, default_rate)
    first = None if before is None else readers.read(Path(before))
    found = measured.difference(
        fabric,
        first,
        readers.read(Path(after)),
        seconds=seconds,
        tick_bytes=tick_bytes,
        is_line_rate=is_line_rate,
    )
    chosen = None if hosts is None else numbers(fabric, hosts)
    own = traffic.solve(traffic.system(fabric, found.octets, chosen, error))
    claims = _Claims(own, found, tolerance)
    notes = [*found.notes, *own.system.notes]
    if own.mismatch > MISMATCH:
        notes.append(
            f"no traffic on these routes explains the counters: {fabric.links[own.worst]} differs by "
            f"{own.mismatch:.0%} of the busiest link; check the tables, the cables, and the hosts"
        )
    told: Inference = {
        "seconds": found.seconds,
        "links_measured": len(own.system.links),
        "pairs_possible": len(own.system.sources),
        "free_parameters": own.free,
        "mismatch": own.mismatch,
        "pairs": claims.pairs(top),
        "waiting_known": bool((~np.isnan(found.waits)).any()),
        "roots": [] if found.seconds is None else claims.roots(top),
        "forward": None,
        "scenario": None,
        "notes": notes,
    }
    if found.seconds is None:
        notes.append("the time between the dumps is unknown, so roots are not searched and nothing is run")
        return told
    if np.nanmax(found.utilization) > measured.ABOVE:
        return told
    try:
        prepared = forward.prepare(paths, tables, default_rate, own, found)
        if out is not None:
            told["scenario"] = _written(prepared.scenario, Path(out))
        if run is not None:
            told["forward"] = forward.compare(run(prepared.scenario), prepared, own, found)
    except SilvanError as failed:
        # The other results do not depend on the run.
        notes.append(f"the traffic could not be run: {failed}")
    return told


def _check(top: int, tick_bytes: int, error: float, tolerance: float) -> None:
    if top < 1 or tick_bytes < 1:
        raise FabricError(f"top = {top}, tick_bytes = {tick_bytes}: must be 1 or more")
    if not (0 <= error < 1 and 0 < tolerance < 1):
        raise FabricError(f"error = {error:g}, tolerance = {tolerance:g}: must be between 0 and 1")


def _written(scenario: Scenario, folder: Path) -> str:
    """Write a scenario to a folder; return its path. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    _files.write_text(folder / SCENARIO, scenario.to_toml(standalone=True))
    return str(folder / SCENARIO)


class _Claims:
    """Statements about pairs and roots, each with the interval that the counters permit."""

    def __init__(self, own: Traffic, found: Measured, tolerance: float) -> None:
        self._own = own
        self._system = own.system
        self._found = found
        self._tolerance = tolerance
        self._dense_rows = own.system.all_routes.tocsr()

    def _on(self, link: int) -> Floats:
        """Return the share of each pair's bytes that passes a link."""
        row: Floats = self._dense_rows[[link]].toarray()[0]
        return row

    def is_determined(self, low: float, high: float) -> bool:
        """Return whether an interval is so narrow that its claim is determined."""
        return high - low <= self._tolerance * high

    def pair(self, at: int) -> CountedPair:
        """Return the bytes of a pair."""
        weights = np.zeros(len(self._system.sources))
        weights[at] = 1
        low, high = self._own.interval(weights)
        fabric = self._system.fabric
        is_determined = self.is_determined(low, high)
        return {
            "from": fabric.hosts[self._system.sources[at]],
            "to": fabric.hosts[self._system.destinations[at]],
            "bytes": float(min(max(self._own.octets[at], low), high)) if is_determined else None,
            "low_bytes": low,
            "high_bytes": high,
        }

    def pairs(self, top: int) -> list[CountedPair]:
        """Return the pairs that may have exchanged most."""
        # The least squares omit most pairs of a large set of solutions, so also regard what links permit.
        by_pair = self._system.routes.tocsc()
        most = np.array(
            [
                (self._system.octets[by_pair.indices[start:end]] / by_pair.data[start:end]).min()
                for start, end in zip(by_pair.indptr, by_pair.indptr[1:], strict=False)
            ]
        )
        order = np.lexsort((-most, -np.round(self._own.octets / self._system.octets.max(), 6)))
        told = [self.pair(at) for at in order[:top].tolist()]
        return sorted(told, key=lambda one: (-one["high_bytes"], one["from"], one["to"]))

    def roots(self, top: int) -> list[CountedRoot]:
        """Return the outputs for which other ports wait."""
        found = roots.find(self._system, self._found.utilization, self._found.waits)
        return [self._root(root) for root in found[:top]]

    def _root(self, root: Root) -> CountedRoot:
        fabric, waits = self._system.fabric, self._found.waits
        ports = sorted(root.waiting, key=lambda link: (-waits[link], link))
        return {
            "link": fabric.links[root.link],
            "kind": root.kind,
            "utilization": float(self._found.utilization[root.link]),
            "waiting": [{"link": fabric.links[link], "share": float(waits[link])} for link in ports],
            "contributors": self._contributors(root.link),
            "victims": self._victims(root),
        }

    def _contributors(self, link: int) -> list[PortShare]:
        """Return the hosts that sent most through a root, with their shares of its bytes."""
        on = self._on(link)
        octets = self._found.octets[link]
        if not octets > 0:
            return []
        sent = np.zeros(len(self._system.fabric.hosts))
        np.add.at(sent, self._system.sources, on * self._own.octets)
        # The least squares may omit hosts that could have sent as well.
        could = np.zeros(len(sent))
        could[self._system.sources[on > 0]] = 1
        total = np.nan_to_num(self._found.octets[self._system.fabric.first], nan=octets)
        order = np.argsort(-(sent + IDLE * could * np.minimum(total, octets)), kind="stable")
        told: list[PortShare] = []
        for host in order[:SHARES].tolist():
            if not could[host]:
                continue
            low, high = self._own.interval(np.where(self._system.sources == host, on, 0.0))
            low, high = float(low / octets), float(high / octets)
            if high < SMALLEST:
                continue
            told.append(
                {
                    "host": self._system.fabric.hosts[host],
                    "share": float(sent[host] / octets) if self.is_determined(low, high) else None,
                    "low_share": low,
                    "high_share": min(1.0, high),
                }
            )
        return told

    def _victims(self, root: Root) -> list[CountedPair]:
        """Return the pairs that have certainly crossed a port that waits for a root, but not the root."""
        if not root.waiting:
            return []
        crosses = np.zeros(len(self._system.sources), dtype=bool)
        for link in root.waiting:
            crosses |= self._on(link) > 0
        crosses &= self._on(root.link) == 0
        octets = np.where(crosses, self._own.octets, 0.0)
        order = np.argsort(-octets, kind="stable")[:VICTIMS].tolist()
        told = [self.pair(at) for at in order if octets[at] > 0]
        return [one for one in told if one["low_bytes"] > 0]
