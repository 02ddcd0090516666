"""Draws the gallery's pictures. The gallery shows each picture with the source code of its function."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import silvan
from silvan import forest_figures, plot, scenarios


@cache
def testbed(mechanism: str) -> silvan.Result:
    """Run the testbed with a mechanism, or without one (``none``)."""
    return silvan.run(scenarios.find("testbed").path, congestion__mechanism=mechanism)


@cache
def silent(mechanism: str) -> silvan.Result:
    """Run a silent forest on 648 hosts, shorter than in the scenario."""
    settings = {"duration": "20 ms", "warmup": "10 ms", "congestion.mechanism": mechanism}
    return silvan.run(silvan.Scenario.load(scenarios.find("silent-forest").path, settings))


def demo(out: Path) -> Path:
    """Five flows on the testbed, without and with congestion control."""
    figure = plot.compare([testbed("none"), testbed("ib-cc")], ("CC off", "CC on"))
    return plot.save(figure, out / "demo")[1]


def still(out: Path) -> Path:
    """The testbed's congestion tree: its root, its branches, the victim H1."""
    figure = forest_figures.still([testbed("none"), testbed("ib-cc")], 4.5e9, titles=("CC off", "CC on"))
    return forest_figures.save(figure, out / "still")[0]


def forest(out: Path) -> Path:
    """Eight silent trees on 648 hosts, at a typical time."""
    return forest_figures.save(forest_figures.still([silent("none")]), out / "forest")[0]


def moving(out: Path) -> Path:
    """A forest whose hotspots move after 6 ms, without and with congestion control."""
    small = {
        "topology.leaves": 8, "topology.spines": 4, "topology.hosts_per_leaf": 4, "duration": "12 ms",
        "traffic.0.pattern.hotspots": 2, "traffic.0.pattern.lifetime": "6 ms",
    }  # fmt: skip
    scenario = silvan.Scenario.load(scenarios.find("moving-forest").path, small)
    runs = [silvan.run(scenario, congestion__mechanism="none"), silvan.run(scenario)]
    return forest_figures.animate(
        runs, out / "moving.gif", titles=("CC off", "CC on"), frames=60, frames_per_s=6
    )


def ccti(out: Path) -> Path:
    """The CCT indices of the flows: how much each is throttled."""
    return _saved(plot.ccti(testbed("ib-cc")), out / "ccti")


def congestion(out: Path) -> Path:
    """Roots and waiting links of congestion trees on 648 hosts."""
    return _saved(plot.congestion(silent("none")), out / "congestion")


def latency(out: Path) -> Path:
    """Latencies of packets of the victim and the contributors."""
    return _saved(plot.latency(testbed("ib-cc")), out / "latency")


def utilisation(out: Path) -> Path:
    """Utilization of the testbed's links, without control."""
    return _saved(plot.utilisation(testbed("none")), out / "utilisation")


def _saved(axes: plot.Axes, path: Path) -> Path:
    figure = axes.get_figure(root=True)
    assert figure is not None
    # PNG: heat maps are large as SVG.
    return plot.save(figure, path)[0]


PICTURES: tuple[Callable[[Path], Path], ...] = (
    demo, moving, still, forest, ccti, congestion, utilisation, latency,
)  # fmt: skip
