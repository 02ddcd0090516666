"""Common code of the experiments of Paper IV: forests of congestion trees on 648 hosts.

All runs simulate ``papers/common/forest-648.toml`` with different shares of hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

import silvan
from silvan.papers.catalogue import find_papers
from silvan.papers.data import Results, RunData
from silvan.papers.figures import COLOURS

SCENARIO = "../common/forest-648.toml"
#: Averages of full runs cover the whole run, including the start. Quick runs are too short for that, so their
#: averages begin after control has settled.
QUICK = {"duration": "40 ms", "warmup": "32 ms"}
CONTROL = {"off": "none", "on": "ib-cc"}
HOSTS = 648

Overrides = dict[str, Any]
Runs = dict[str, tuple[str, Overrides]]
#: Published points: abscissa and ordinate.
Points = Sequence[tuple[float, float]]


def shares(mixed: int = 0, p: int = 0, victims: int = 20, lifetime_ms: int | None = None) -> Overrides:
    """Return overrides for a share of mixed (B) hosts; the others are contributors and victims.

    ``victims`` is the percentage of victims (V nodes) among the hosts that are not mixed. It is converted to
    a percentage of all hosts and rounded down.
    """
    rest = 100 - mixed
    own = rest * victims // 100
    pattern: Overrides = {"victims": own, "contributors": rest - own}
    if mixed:
        pattern |= {"mixed": mixed, "p": p}
    if lifetime_ms is not None:
        pattern["lifetime"] = f"{lifetime_ms} ms"
    return {f"traffic.0.pattern.{key}": value for key, value in pattern.items()}


def run(quick: bool, control: str, own: Mapping[str, Any]) -> tuple[str, Overrides]:
    """Return one run with control ``on`` or ``off``."""
    length = QUICK if quick else {}
    return SCENARIO, {**length, "congestion.mechanism": CONTROL[control], **own}


def both(quick: bool, points: Iterable[tuple[str, Mapping[str, Any]]]) -> Runs:
    """Return two runs for each named point, with control off and on, such as ``"60 off"``."""
    return {f"{name} {control}": run(quick, control, own) for name, own in points for control in CONTROL}


@cache
def _tmax_gbit_s(own: tuple[tuple[str, Any], ...]) -> float:
    scenario = silvan.Scenario.load(str(Path(find_papers()) / "common" / "forest-648.toml"), dict(own))
    return float(scenario.check()["forests"][0]["tmax_gbit_s"])


def tmax_gbit_s(own: Mapping[str, Any]) -> float:
    """Return the largest mean rate in Gbit/s that hosts other than hotspots could receive."""
    return _tmax_gbit_s(tuple(own.items()))


def mean_mbit_s(run: RunData) -> float:
    """Return the mean received rate over all hosts, including hotspots, in Mbit/s."""
    return float(run.summary["throughput_gbit_s"]) * 1e3 / HOSTS


class Sweep:
    """The runs of a forest with a share of mixed hosts, for several p. Rates are in Gbit/s per host."""

    def __init__(self, results: Results, mixed: int, points: Sequence[int], prefix: str = "") -> None:
        self.points = list(points)
        self._runs = {(p, c): results[f"{prefix}{p} {c}"] for p in points for c in CONTROL}
        self._mixed = mixed

    def others(self, p: int, control: str) -> float:
        """Return the mean received rate of hosts that are not hotspots."""
        return self._runs[p, control].group("other hosts")

    def hotspots(self, p: int, control: str) -> float:
        """Return the mean received rate of hotspots."""
        return self._runs[p, control].group("hotspots")

    def tmax(self, p: int) -> float:
        """Return the largest rate that hosts other than hotspots could receive."""
        return tmax_gbit_s(shares(self._mixed, p))

    def gain(self, p: int) -> float:
        """Return the rate of the other hosts with control, divided by that without."""
        return self.others(p, "on") / self.others(p, "off")

    def total_gain(self, p: int) -> float:
        """Return the total rate with control, divided by that without."""
        on, off = (self._runs[p, c].summary["throughput_gbit_s"] for c in ("on", "off"))
        return float(on / off)

    def peak(self) -> int:
        """Return the p of the largest total gain."""
        return max(self.points, key=self.total_gain)

    def reaches(self, points: Iterable[int]) -> float:
        """Return the smallest share of `tmax` that the other hosts reach with control.

        Only those ``points`` count that were run.
        """
        return min(self.others(p, "on") / self.tmax(p) for p in points if p in self.points)

    def draw(self, axes: Sequence[Axes], published: Mapping[str, Points], label: str) -> None:
        """Draw the three panels of a published figure, with published numbers as open circles."""
        others, hotspots, total = axes
        curve(others, self.points, [self.others(p, "off") for p in self.points], "CC off", 1)
        curve(others, self.points, [self.others(p, "on") for p in self.points], "CC on", 0)
        others.plot(self.points, [self.tmax(p) for p in self.points], "--", color="0.4", label="$t_{max}$")
        curve(hotspots, self.points, [self.hotspots(p, "off") for p in self.points], "CC off", 1)
        curve(hotspots, self.points, [self.hotspots(p, "on") for p in self.points], "CC on", 0)
        curve(total, self.points, [self.total_gain(p) for p in self.points], "CC on / CC off", 2)
        for ax, name in zip(axes, ("others", "hotspots", "total"), strict=True):
            circles(ax, published.get(name, ()))
        others.set(ylabel="received per host (Gbit/s)", title=f"{label}: other hosts")
        hotspots.set(ylabel="received per host (Gbit/s)", title=f"{label}: hotspots", ylim=(0, 15))
        total.set(ylabel="improvement (times)", title=f"{label}: total throughput", ylim=(0, None))
        # Leave space for the circles at the top.
        total.set_ylim(top=1.12 * max(float(np.max(line.get_ydata())) for line in total.get_lines()))
        for ax in axes:
            ax.set_xlabel("p (%)")
            ax.legend(frameon=False, fontsize="small")


def curve(ax: Axes, x: Sequence[float], y: Sequence[float], label: str, colour: int) -> None:
    """Draw simulated points."""
    ax.plot(x, y, "o-", color=COLOURS[colour], markersize=4, linewidth=1.3, label=label)


def circles(ax: Axes, points: Points) -> None:
    """Draw published numbers as open circles. A simulated number that agrees is visible inside its circle."""
    if points:
        x, y = zip(*points, strict=True)
        ax.plot(x, y, "o", color="black", fillstyle="none", markersize=10, label="published")


class Lifetimes:
    """The runs of a forest with several lifetimes of hotspots. Rates are in Mbit/s per host."""

    def __init__(self, results: Results, lifetimes_ms: Sequence[int], prefix: str = "") -> None:
        self.lifetimes_ms = list(lifetimes_ms)
        self._runs = {(ms, c): results[f"{prefix}{ms} {c}"] for ms in lifetimes_ms for c in CONTROL}

    def mean(self, lifetime_ms: int, control: str) -> float:
        """Return the mean received rate of all hosts."""
        return mean_mbit_s(self._runs[lifetime_ms, control])

    def gain(self, lifetime_ms: int) -> float:
        """Return the mean rate with control, divided by that without."""
        return self.mean(lifetime_ms, "on") / self.mean(lifetime_ms, "off")

    def growth(self, control: str) -> float:
        """Return the mean rate with the shortest lifetime, divided by that with the longest."""
        return self.mean(min(self.lifetimes_ms), control) / self.mean(max(self.lifetimes_ms), control)

    def draw(self, ax: Axes, published: Points, title: str) -> None:
        """Draw the panel of a published figure."""
        for control, colour in (("off", 1), ("on", 0)):
            values = [self.mean(ms, control) for ms in self.lifetimes_ms]
            curve(ax, self.lifetimes_ms, values, f"CC {control}", colour)
        circles(ax, published)
        ax.invert_xaxis()
        ax.set(
            xlabel="lifetime of a hotspot (ms)",
            ylabel="received per host (Mbit/s)",
            title=title,
            ylim=(0, None),
        )
        ax.legend(frameon=False, fontsize="small")


#: Lifetimes of hotspots, in ms: those whose results are compared, and those that full runs draw.
#: Hotspots move 10 to 100 times in 0.1 s, and 4 to 40 times in quick runs.
COMPARED_MS = (10, 2, 1)
CURVE_MS = (10, 9, 8, 7, 6, 5, 4, 3, 2, 1)


def lifetimes_ms(quick: bool) -> tuple[int, ...]:
    """Return the lifetimes to draw, in ms."""
    return COMPARED_MS if quick else CURVE_MS


def further_ms(quick: bool) -> tuple[int, ...]:
    """Return the lifetimes that are drawn but not compared, in ms."""
    return tuple(ms for ms in lifetimes_ms(quick) if ms not in COMPARED_MS)


#: Values of p in full runs.
PERCENT = tuple(range(0, 101, 10))


def percent(quick: bool, quick_points: Sequence[int]) -> Sequence[int]:
    """Return the values of p to run: ``quick_points`` in quick runs."""
    return quick_points if quick else PERCENT
