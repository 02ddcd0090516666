"""Draws the figures of a fabric study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import MaxNLocator

from silvan import _intervals, plot
from silvan.fabric.studies.account import classes, offered_by_class, overloaded, utilisation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from silvan.fabric.studies.study import Simulated, Studied


def save_all(simulated: Simulated, folder: Path) -> list[str]:
    """Draw the figures that the results allow, and save each as PNG and SVG. Return their names."""
    from silvan.fabric.studies.study import Studied

    figures = {"offered": offered(simulated)}
    if simulated.runs:
        figures |= {"links": links(simulated), "traffic": traffic(simulated), "trees": trees(simulated)}
    if isinstance(simulated, Studied):
        figures |= {"comparison": comparison(simulated), "margin": margin(simulated)}
        figures["tradeoff"] = tradeoff(simulated)
    for name, figure in figures.items():
        plot.save(figure, folder / name)
    return list(figures)


@plot.style()
def offered(studied: Simulated) -> Figure:
    """Draw the offered load of links to hosts and between switches as a share of the capacity."""
    figure, (axes,) = plot.new_figure()
    share = studied.offered / studied.site.capacity
    inner, to_host = overloaded(studied)
    for k, (label, order) in enumerate((("to hosts", to_host), ("between switches", inner))):
        if order:
            ranks = np.arange(1, len(order) + 1)
            axes.step(
                ranks, share[order], where="mid", label=f"{label} ({len(order):,})", **plot.line_look(1 - k),
            )  # fmt: skip
    axes.axhline(1.0, color="0.4", linestyle="--", linewidth=1.0, label="all that a link carries")
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=1.0)
    ticks = [0, 0.5, 1, 2, 5, 10, 20, 50, 100, 200]
    top = max(2.0, 1.3 * float(share.max()))
    axes.set_yticks([tick for tick in ticks if tick <= top], [f"{tick:g}" for tick in ticks if tick <= top])
    axes.set_ylim(0, top)
    axes.minorticks_off()
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set(
        xlabel="Links, the worst first", ylabel="Offered (times the capacity)",
        title="Oversubscription: load offered to links",
    )  # fmt: skip
    plot.legend_beside(axes)
    return plot.fit(figure)


@plot.style()
def links(studied: Simulated) -> Figure:
    """Draw the mean utilization of the links between switches in each run, largest first."""
    figure, (axes,) = plot.new_figure()
    names = [
        studied.site.routes.links[n] for n in range(len(studied.offered)) if studied.site.routes.inner[n]
    ]
    for k, (title, result) in enumerate(studied.runs.items()):
        means = utilisation(result)
        used = np.sort([means.get(name, 0.0) for name in names])[::-1]
        if len(used):
            axes.step(
                np.arange(1, len(used) + 1), 100 * used, where="mid", label=plot.literal(title),
                **plot.line_look(k) | {"linestyle": plot.DASHES[k % len(plot.DASHES)]},
            )  # fmt: skip
    axes.set_ylim(0, 100)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(
        xlabel="Links between switches, the busiest of each run first", ylabel="Mean utilisation (%)",
        title="Load per link",
    )  # fmt: skip
    plot.legend_beside(axes)
    return plot.fit(figure)


@plot.style()
def traffic(studied: Simulated) -> Figure:
    """Draw the received share of the offered load of each class of traffic, and its tail latency."""
    figure, (left, right) = plot.new_figure(2, width=10.0)
    wanted = offered_by_class(studied)
    width = 0.8 / len(studied.runs)
    for k, (title, result) in enumerate(studied.runs.items()):
        found = classes(result)
        at = np.arange(len(wanted)) + (k - (len(studied.runs) - 1) / 2) * width
        left.bar(
            at,
            [100 * found[name][0] / wanted[name] for name in wanted],
            width,
            color=plot.point_look(k)["color"],
            label=plot.literal(title),
        )
        tails = [found[name][1] or np.nan for name in wanted]
        # A bar on a logarithmic axis has no start, so its length means nothing.
        right.plot(at, tails, linestyle="", markersize=7, **plot.point_look(k))
    for axes in (left, right):
        names = [plot.literal(name) for name in wanted]
        axes.set_xticks(range(len(names)), names)
        _intervals.turn_long_names(axes, names, columns=2)
        axes.grid(False, axis="x")
    right.set_yscale("log")
    seed = studied.asked.seed
    left.set(ylabel="Received (% of what is offered)", title=f"Throughput: one run each, seed {seed}")
    right.set(ylabel="99th percentile since injection (µs)", title=f"Tail latency: one run each, seed {seed}")
    for axes in (left, right):
        axes.set_xlim(-0.5, len(wanted) - 0.5)
    plot.legend_beside(right, left.get_legend_handles_labels())
    return plot.fit(figure)


@plot.style()
def trees(studied: Simulated) -> Figure:
    """Draw the number of links in congestion trees over time."""
    figure, (axes,) = plot.new_figure()
    for k, (title, result) in enumerate(studied.runs.items()):
        ends = result.numpy("network")["time_ns"]
        inside = np.searchsorted(ends, result.numpy("tree_links")["time_ns"])
        counts = np.bincount(inside, minlength=len(ends))
        edges = np.concatenate(([0.0], ends.astype(float))) / 1e6
        axes.stairs(
            counts, edges, baseline=None, label=plot.literal(title), linewidth=1.6,
            **plot.line_look(k) | {"linestyle": plot.DASHES[k % len(plot.DASHES)]},
        )  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, float(edges[-1]))
    axes.set(xlabel="Simulated time (ms)", ylabel="Links in trees", title="Size of all congestion trees")
    plot.legend_beside(axes)
    return plot.fit(figure)


def comparison(studied: Studied) -> Figure:
    """Draw the ratio of the settings of the verdict to each known setting, with confidence intervals."""
    from silvan.tuning import figures

    return figures.comparison(studied.tuned)


@plot.style()
def margin(studied: Studied) -> Figure:
    """Draw the scores of the values next to the recommended values, relative to the recommended score."""
    figure, panels = plot.new_figure(len(studied.margins), width=9.0, height=3.2, sharey=True)
    for axes, (name, found) in zip(panels, studied.margins.items(), strict=True):
        value = found.value
        points = sorted([(value, 1.0), *found.near])
        axes.plot(range(len(points)), [ratio for _, ratio in points], "-", **plot.point_look(0))
        best = [label for label, _ in points].index(value)
        axes.plot(best, 1.0, "*", color=plot.point_look(1)["color"], markersize=14, zorder=5)
        axes.set_xticks(range(len(points)), [plot.literal(f"{label}") for label, _ in points])
        axes.set_xlim(-0.5, len(points) - 0.5)
        axes.set_ylim(0, 1.15)
        axes.set(
            title=plot.literal(name),
            xlabel=next(a.unit for a in studied.tuned.tuning.search if a.name == name),
        )
    panels[0].set_ylabel("Score (of that of the star)")
    return plot.fit(figure)


@plot.style()
def tradeoff(studied: Studied) -> Figure:
    """Draw the score of each setting against its worst loss of a class, both relative to no control."""
    figure, (axes,) = plot.new_figure()
    points = studied.tradeoff
    shown = studied.verdict.shown.candidate.setting
    chosen = next((one.number for one in studied.tuned.found.trials if one.setting == shown), None)
    loss = {number: 100 * (1 - least) for number, (_, least) in points.items()}
    gain = {number: score for number, (score, _) in points.items()}
    axes.plot(
        list(loss.values()), list(gain.values()), ".", color=plot.point_look(0)["color"],
        label="settings that were tried",
    )  # fmt: skip
    front, best = [], 0.0
    for number in sorted(points, key=lambda one: (loss[one], -gain[one])):
        if gain[number] > best:
            front.append(number)
            best = gain[number]
    axes.plot(
        [loss[number] for number in front], [gain[number] for number in front],
        "-", color="0.4", linewidth=1.0, label="none is better in both",
    )  # fmt: skip
    if chosen in points:
        axes.plot(
            loss[chosen],
            gain[chosen],
            "*",
            color=plot.point_look(1)["color"],
            markersize=14,
            label=plot.literal(studied.title),
        )
    axes.plot(0, 1, "o", color="0.2", label="without control")
    axes.set_xlim(left=min(-1.0, *axes.get_xlim()))
    axes.set(
        xlabel="Largest loss of a class of traffic (%)", ylabel="Score (times that without control)",
        title="Gain and loss of all settings",
    )  # fmt: skip
    plot.legend_beside(axes)
    return plot.fit(figure)
