"""Draws figures of a tuning: the search, the effect of each parameter, the comparison with known settings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from silvan import plot
from silvan.sweeps.axes import Axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from silvan.tuning.outcome import Interval, Tuned
    from silvan.tuning.racing import Trial

#: Number of panels in a row, and in a row of a narrow figure.
COLUMNS, NARROW_COLUMNS = 3, 2
#: Maximum number of letters of labels next to each other on the axis of a panel of a narrow figure.
LETTERS = 12
#: Height of the points of one comparison, as a share of the distance of comparisons.
ROWS_WIDE = 0.75
#: Possible labels of an axis of ratios.
TICKS = (
    0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0,
    20.0, 50.0, 100.0, 1000.0,
)  # fmt: skip
#: Color of settings that the search gave up early.
STOPPED = "#999999"


def _done() -> str:
    """Return the color of settings that were tried in all traffic."""
    return str(plot.point_look(0)["color"])


def _best() -> str:
    """Return the color of the best settings."""
    return str(plot.point_look(1)["color"])


def save_all(tuned: Tuned, folder: Path) -> list[str]:
    """Draw all figures for which there is data, as PNG and SVG; return their names."""
    figures = {"search": search(tuned), "parameters": parameters(tuned), "comparison": comparison(tuned)}
    if len(tuned.tuning.objectives) > 1:
        figures["objectives"] = objectives(tuned)
    if tuned.kept:
        figures["unseen"] = unseen(tuned)
    for name, figure in figures.items():
        plot.save(figure, folder / name)
    return list(figures)


@plot.style()
def search(tuned: Tuned) -> Figure:
    """Draw the scores of all settings that did not fail, and the best score so far."""
    figure, (axes,) = plot.new_figure()
    done = [trial for trial in tuned.found.trials if trial.state == "done"]
    stopped = [trial for trial in tuned.found.trials if trial.state == "stopped" and trial.score is not None]
    if stopped:
        axes.plot(
            [trial.runs for trial in stopped], [trial.score or 0.0 for trial in stopped], "o", color=STOPPED,
            fillstyle="none", markersize=5, label="given up early: score so far",
        )  # fmt: skip
    axes.plot(
        [trial.runs for trial in done], [trial.score or 0.0 for trial in done], "o", color=_done(),
        markersize=5, label="tried in all traffic",
    )  # fmt: skip
    best = np.maximum.accumulate([trial.score or 0.0 for trial in done])
    ends = [trial.runs for trial in done]
    axes.step(
        [*ends, tuned.found.runs],
        [*best, best[-1]],
        where="post",
        color=_best(),
        linestyle="-",
        linewidth=1.6,
        label="best so far",
    )
    axes.axhline(1.0, color="0.4", linestyle="--", linewidth=1.0, label="defaults")
    axes.set(
        xlabel="Runs",
        ylabel="Score (times the defaults')",
        title=f"The search: {plot.literal(tuned.tuning.name)}",
    )
    axes.set_xlim(0, 1.02 * tuned.found.runs)
    axes.set_ylim(0, 1.1 * max(axes.get_ylim()[1], 1.0))
    plot.legend_beside(axes)
    return plot.fit(figure)


@plot.style()
def parameters(tuned: Tuned) -> Figure:
    """Draw the scores against the values of each parameter. Points also differ in the other parameters."""
    axes_searched = [(n, axis) for n, axis in enumerate(tuned.tuning.search) if len(axis) > 1]
    columns = min(NARROW_COLUMNS if plot.is_narrow() else COLUMNS, len(axes_searched))
    rows = math.ceil(len(axes_searched) / columns)
    with plot.style():
        figure, _ = plot.new_figure(width=3.4 * columns + 0.6, height=2.7 * rows + 0.4)
        figure.clear()
        panels = figure.subplots(rows, columns, squeeze=False, sharey=True)
    steps = tuned.found.trials
    best = next(one for one in steps if one.setting == tuned.finalists[0].setting)
    for panel, (n, axis) in zip(panels.flat, axes_searched, strict=False):
        _parameter(panel, tuned, n, axis, best)
    for panel in list(panels.flat)[len(axes_searched) :]:
        panel.set_visible(False)
    for row in panels:
        row[0].set_ylabel("Score")
    return plot.fit(figure)


def _parameter(panel: Axes, tuned: Tuned, n: int, axis: Axis, best: Trial) -> None:
    for state, colour, fill in (("stopped", STOPPED, "none"), ("done", _done(), "full")):
        own = [one for one in tuned.found.trials if one.state == state and one.score is not None]
        style: dict[str, Any] = {"fillstyle": fill}
        panel.plot(
            [one.steps[n] for one in own],
            [one.score or 0.0 for one in own],
            "o",
            color=colour,
            markersize=4,
            **style,
        )
    panel.plot(best.steps[n], best.score or 0.0, "*", color=_best(), markersize=14, zorder=5)
    panel.set_xticks(range(len(axis)), [plot.literal(f"{label}") for label in axis.labels], fontsize=7)
    if len(axis) > 6 or (plot.is_narrow() and sum(len(f"{label}") for label in axis.labels) > LETTERS):
        panel.tick_params(axis="x", rotation=60)
    share = tuned.importance.get(axis.name)
    # The table of the key would make the title wider than the panel.
    name = axis.name.rpartition(".")[2]
    title = name if share is None else f"{name}: importance {share:.2f}"
    panel.set_title(plot.literal(title), fontsize=8 if plot.is_narrow() else 9)
    panel.set_xlabel(plot.literal(axis.unit), fontsize=8)
    panel.set_xlim(-0.5, len(axis) - 0.5)
    panel.set_ylim(0, 1.1 * max(one.score or 0.0 for one in tuned.found.trials))


@plot.style()
def comparison(tuned: Tuned) -> Figure:
    """Draw the ratio of the best settings to each known setting, with confidence intervals.

    Intervals that leave the axis belong to seeds that differ too much.
    """
    contrasts = list(tuned.contrasts)
    names = ["score", *(objective.name for objective in tuned.tuning.objectives)]
    figure, (axes,) = plot.new_figure(height=1.6 + 0.16 * len(names) * len(contrasts))
    step = ROWS_WIDE / len(names)
    for k, name in enumerate(names):
        look = plot.point_look(k) | {"linestyle": "-", "linewidth": 2, "markersize": 5}
        for y, one in enumerate(contrasts):
            interval = one.score if k == 0 else one.objectives[name]
            at = y + step * (k - (len(names) - 1) / 2)
            axes.plot([interval.low, interval.high], [at, at], **look | {"marker": ""})
            label = plot.literal(name) if y == 0 else None
            axes.plot(interval.ratio, at, **look | {"linestyle": ""}, label=label)
    axes.axvline(1.0, color="0.4", linestyle="--", linewidth=1.0)
    _ratio_axis(axes, [ratio for one in contrasts for ratio in (one.score, *one.objectives.values())])
    plot.name_rows(axes, [f"compared with {one.name}" for one in contrasts])
    axes.set_ylim(len(contrasts) - 0.5, -0.5)
    axes.grid(False, axis="y")
    axes.set(
        xlabel="Times as good, with intervals over fresh seeds that hold together with 95 %",
        title=f"The best settings: {plot.literal(tuned.tuning.name)}",
    )
    plot.legend_beside(axes)
    return plot.fit(figure)


def _ratio_axis(axes: Axes, ratios: Sequence[Interval]) -> None:
    """Set a logarithmic axis that includes all ratios, and the intervals that are not very wide."""
    ends = [end for one in ratios if not one.is_wide for end in (one.low, one.high)]
    values = [1.0, *(one.ratio for one in ratios), *ends]
    low, high = min(values) / 1.15, max(values) * 1.15
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    ticks = [tick for tick in TICKS if low <= tick <= high]
    # Ticks next to each other need space for their labels.
    space = math.log(high / low) / 12
    shown = [1.0]
    for tick in sorted(ticks, key=lambda tick: abs(math.log(tick))):
        if all(abs(math.log(tick / other)) >= space for other in shown):
            shown.append(tick)
    axes.set_xticks(sorted(shown))
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter("{x:g}")


@plot.style()
def unseen(tuned: Tuned) -> Figure:
    """Draw the relative score of the best settings in unseen traffic, with 95 % confidence intervals."""
    figure, (axes,) = plot.new_figure(height=1.6 + 0.5 * len(tuned.kept))
    for y, one in enumerate(tuned.kept):
        axes.plot([one.score.low, one.score.high], [y, y], color=_done(), linestyle="-", linewidth=2)
        axes.plot(one.score.ratio, y, "o", color=_done(), markersize=6)
    axes.axvline(1.0, color="0.4", linestyle="--", linewidth=1.0)
    plot.name_rows(axes, [one.kind for one in tuned.kept])
    axes.set_ylim(len(tuned.kept) - 0.5, -0.5)
    axes.set_xlim(0, 1.05 * max(1.0, *(one.score.high for one in tuned.kept)))
    axes.set(
        xlabel="Kept of the best for this traffic alone, 95 % interval over fresh seeds",
        title=f"Traffic that the search did not see: {plot.literal(tuned.tuning.name)}",
    )
    return plot.fit(figure)


@plot.style()
def objectives(tuned: Tuned) -> Figure:
    """Draw the first two objectives of all finished settings against each other, to show the trade-off."""
    one, other = tuned.tuning.objectives[:2]
    figure, (axes,) = plot.new_figure(width=6.4)
    done = [trial for trial in tuned.found.trials if trial.state == "done"]
    points = np.array([_pair(trial) for trial in done])
    axes.plot(points[:, 0], points[:, 1], "o", color=_done(), markersize=5, label="settings")
    order = np.lexsort((points[:, 0], -points[:, 1]))
    best, edge = -np.inf, []
    for x, y in points[order]:
        if x > best:
            best = x
            edge.append((x, y))
    axes.step(
        *zip(*edge, strict=True), where="pre", color=_best(), linestyle="-", linewidth=1.2,
        label="none is better in both",
    )  # fmt: skip
    axes.plot(1.0, 1.0, "s", color="black", markersize=7, label="defaults")
    axes.set(
        xlabel=f"{plot.literal(one.name)} (times the defaults')",
        ylabel=f"{plot.literal(other.name)} (times the defaults')",
        title=f"What one objective costs the other: {plot.literal(tuned.tuning.name)}",
    )  # fmt: skip
    plot.legend_beside(axes)
    return plot.fit(figure)


def _pair(trial: Trial) -> tuple[float, float]:
    full = [ratios for at, ratios in trial.ratios.items() if not at.short]
    logs = np.log(np.array(full)[:, :2]).mean(axis=0)
    return float(np.exp(logs[0])), float(np.exp(logs[1]))
