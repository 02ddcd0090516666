"""Objectives of a tuning: numbers of a run, as ratios to those of the reference settings.

The predefined objectives depend on the roles of hosts. *Hotspots* are the hosts that the user names. If none
are named, they are the hotspots of the patterns `hotspots` and of forests that do not move, and the
destinations of several named flows. *Contributors* send only to hotspots.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from silvan import _written
from silvan._core import Scenario
from silvan.fairness import jain
from silvan.sweeps.errors import Place, SweepError
from silvan.sweeps.measures import MEASURE_KEYS, Measure, read_measure
from silvan.types import Summary

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Limits of ratios, so that a run that delivers nothing still has a finite score.
LEAST, MOST = 1e-6, 1e6
OBJECTIVE_KEYS = ("of", "weight", "goal", *MEASURE_KEYS)


@dataclass(frozen=True)
class Roles:
    """The roles of hosts and traffic in a scenario with a given seed."""

    hotspots: frozenset[str]
    #: Classes of traffic whose destinations are all hotspots.
    contributors: frozenset[str]
    #: Named flows to hotspots, and hosts whose patterns send only to hotspots.
    flows: tuple[str, ...]
    senders: tuple[str, ...]
    #: Rate at which a host drains packets in Gbit/s; None if unlimited.
    drain_gbit_s: float | None


def roles_of(scenario: Scenario, named: Sequence[str] | None) -> Roles:
    """Return the roles in a scenario. The hotspots are the hosts in `named`, unless it is None."""
    table = tomllib.loads(scenario.to_toml())
    flows, patterns = _written.flows(table), _written.patterns(table)
    hotspots = set(named or ())
    if named is None:
        goals = [flow["to"] for flow in flows]
        hotspots |= {host for host in goals if goals.count(host) > 1}
        for pattern in patterns:
            hotspots |= set(pattern["pattern"].get("to", ()))
        if any(pattern["pattern"]["kind"] == "forest" for pattern in patterns):
            standing = [forest for forest in scenario.check()["forests"] if not forest["moves"]]
            hotspots |= {host for forest in standing for host in forest["hotspots"]}
    contributors = {flow["name"] for flow in flows if flow["to"] in hotspots}
    senders: list[str] = []
    for pattern in patterns:
        name, kind = pattern["name"], pattern["pattern"]["kind"]
        if kind == "forest":
            contributors.add(f"{name}: contributors")
        elif kind == "hotspots" and set(pattern["pattern"]["to"]) <= hotspots:
            contributors.add(name)
            senders += pattern.get("hosts", ())
    drain = table["host"].get("drain_rate")
    return Roles(
        hotspots=frozenset(hotspots),
        contributors=frozenset(contributors),
        flows=tuple(flow["name"] for flow in flows if flow["to"] in hotspots),
        senders=tuple(senders),
        drain_gbit_s=None if drain is None else _written.gbit_s(drain),
    )


def _victims(summary: Summary, roles: Roles) -> float | None:
    received = [host["received_gbit_s"] for host in summary["hosts"] if host["host"] not in roles.hotspots]
    return float(np.mean(received)) if received else None


def _hotspots(summary: Summary, roles: Roles) -> float | None:
    received = [host["received_gbit_s"] for host in summary["hosts"] if host["host"] in roles.hotspots]
    return float(np.mean(received)) if received else None


def _latency(summary: Summary, roles: Roles) -> float | None:
    tails = [
        row["p99_ns"]
        for row in summary["latency"]
        if row["since"] == "injection" and row["class"] not in roles.contributors and row["count"]
    ]
    return max(tails) / 1000 if tails else None


def _fairness(summary: Summary, roles: Roles) -> float | None:
    if len(roles.flows) > 1:
        received = {flow["flow"]: flow["received_gbit_s"] for flow in summary["flows"]}
        shares = [received[name] for name in roles.flows]
    else:
        sent = {host["host"]: host["sent_gbit_s"] for host in summary["hosts"]}
        shares = [sent[name] for name in roles.senders]
    value = jain(shares) if len(shares) > 1 else math.nan
    return value if math.isfinite(value) else None


Function = Callable[[Summary, Roles], "float | None"]
#: Predefined objectives: unit, whether larger values are better, function, description.
READY: Mapping[str, tuple[str, bool, Function, str]] = {
    "victims": ("Gbit/s", True, _victims, "mean received throughput of hosts that are not hotspots"),
    "hotspots": ("Gbit/s", True, _hotspots, "mean received throughput of hotspots"),
    "latency": ("us", False, _latency, "99th percentile of latency since injection, without contributors"),
    "fairness": ("", True, _fairness, "Jain's index of the contributors' throughput"),
}
#: Objectives that are undefined if there are no hotspots.
NEEDS_HOTSPOTS = ("hotspots", "fairness")


@dataclass(frozen=True)
class Objective:
    """A number to maximize or minimize, with its weight."""

    name: str
    unit: str = ""
    larger: bool = True
    weight: float = 1.0
    #: The measure; None if `name` is a predefined objective.
    measure: Measure | None = None

    def value(self, summary: Summary, roles: Roles, measured: Mapping[str, float | None]) -> float | None:
        """Return the value of the objective in a run; None if the run has none."""
        if self.measure is not None:
            return measured.get(self.measure.name)
        return READY[self.name][2](summary, roles)

    def ratio(self, value: float | None, reference: float | None) -> float:
        """Return the ratio of a value to the reference, or its inverse if smaller values are better.

        The ratio is limited to :data:`LEAST` and :data:`MOST`. A run without a value is as bad as possible.
        If larger values are better, a value of zero is equally bad. The ratio of equally bad runs is 1.
        """
        if self._is_worst(reference):
            return 1.0 if self._is_worst(value) else MOST
        if value is None:
            return LEAST
        assert reference is not None
        if reference <= 0:
            # Smaller values are better, and the reference has the best value.
            return LEAST if value > 0 else 1.0
        ratio = value / reference if self.larger else reference / max(value, reference / MOST)
        return min(max(ratio, LEAST), MOST)

    def averages(self, quantity: str) -> bool:
        """Return whether the objective may average a quantity of :mod:`silvan.steadiness`."""
        if self.measure is not None:
            return True
        if self.name == "latency":
            return quantity.endswith(": latency since injection")
        return "received" in quantity

    def _is_worst(self, value: float | None) -> bool:
        return value is None or (self.larger and value <= 0)


@dataclass(frozen=True)
class OfClass(Objective):
    """The throughput or tail latency of a class of traffic. With weight 0 it does not affect the score."""

    class_name: str = ""

    @staticmethod
    def received(name: str, weight: float = 0.0) -> OfClass:
        """Return the objective for the received throughput of a class."""
        return OfClass(f"{name}: received", "Gbit/s", True, weight, None, name)

    @staticmethod
    def latency(name: str) -> OfClass:
        """Return the objective for the 99th percentile of a class's latency since injection."""
        return OfClass(f"{name}: p99 latency", "us", False, 0.0, None, name)

    def averages(self, quantity: str) -> bool:
        """Return whether the objective averages a quantity of :mod:`silvan.steadiness`."""
        name = self.class_name
        own = (f"class {name}: received", f"flow {name}: received")
        return quantity in own if self.larger else quantity == f"{name}: latency since injection"

    def value(self, summary: Summary, roles: Roles, measured: Mapping[str, float | None]) -> float | None:
        """Return the value of the objective in a run; None if the run lacks the class or its latency."""
        if self.larger:
            return next(
                (one["received_gbit_s"] for one in summary["classes"] if one["class"] == self.class_name),
                None,
            )
        tails = (
            row["p99_ns"] / 1000
            for row in summary["latency"]
            if row["class"] == self.class_name and row["since"] == "injection" and row["count"]
        )
        return next(tails, None)


#: Default objectives: the throughput of victims and of hotspots.
USUAL = (Objective("victims", "Gbit/s"), Objective("hotspots", "Gbit/s"))


def read_objective(path: str, table: dict[str, Any], place: Place) -> Objective:
    """Parse one ``[[objective]]``: a predefined objective, selected with `of`, or a measure as in a study.

    Raises :class:`SweepError` if it is invalid.
    """
    place.keys(path, table, OBJECTIVE_KEYS)
    weight = table.get("weight", 1.0)
    numeric = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not numeric or not 0 < weight <= 1000:
        place.fail(f"{path}.weight", "must be a number above 0, at most 1000", weight)
    goal = table.get("goal")
    if goal not in (None, "max", "min"):
        place.fail(f"{path}.goal", "must be `max` or `min`", goal)
    if "summary" not in table and "table" not in table:
        extra = [key for key in table if key not in ("of", "weight", "goal")]
        if "of" not in table or extra:
            names = ", ".join(f"`{name}`" for name in READY)
            place.fail(path, f"needs `of` with one of {names}, or a measure: `name` and `summary` or `table`")
        of = table["of"]
        if not isinstance(of, str) or of not in READY:
            place.fail(f"{path}.of", "must be one of " + ", ".join(f"`{name}`" for name in READY), of)
        unit, larger, _, _ = READY[of]
        return Objective(of, unit, larger if goal is None else goal == "max", float(weight))
    if goal is None:
        place.fail(path, 'a measure needs `goal = "max"` or `goal = "min"`')
    own = {key: value for key, value in table.items() if key not in ("weight", "goal")}
    measure = read_measure(path, own, place)
    return Objective(measure.name, measure.unit, goal == "max", float(weight), measure)


def mean_ratio(ratios: Sequence[float], weights: Sequence[float]) -> float:
    """Return the weighted geometric mean of ratios."""
    logs = np.log(np.asarray(ratios, dtype=np.float64))
    return float(np.exp(np.average(logs, weights=np.asarray(weights, dtype=np.float64))))


def require(objectives: Sequence[Objective], roles: Roles, where: str) -> None:
    """Raise :class:`SweepError` if an objective is undefined for this traffic."""
    for objective in objectives:
        if objective.measure is not None:
            continue
        if objective.name in NEEDS_HOTSPOTS and not roles.hotspots:
            raise SweepError(
                f"{where}: objective `{objective.name}` needs hotspots, and this traffic has none that "
                'stay in place: name them (hotspots = ["HOST", ...]) or select another objective'
            )
        if objective.name == "fairness" and max(len(roles.flows), len(roles.senders)) < 2:
            raise SweepError(
                f"{where}: objective `fairness` needs named flows to a hotspot, or a pattern "
                "`hotspots` that names its hosts; for a forest, define a measure instead"
            )
