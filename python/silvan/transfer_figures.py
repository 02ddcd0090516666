"""Draws the slowdown of transfers: quantiles by size, and distributions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from silvan import _intervals, plot, transfers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from silvan.results import Result

#: Default quantiles of a figure of slowdowns.
SHARES = (0.5, 0.99)
NAMES = {0.5: "Median", 0.95: "95th percentile", 0.99: "99th percentile"}


@plot.style()
def slowdowns(
    groups: Sequence[Sequence[Result]],
    titles: Sequence[str],
    *,
    shares: Sequence[float] = SHARES,
    acked: bool = False,
) -> Figure:
    """Draw quantiles of the slowdown over the size of transfers, with a line per group of runs.

    A group contains runs that differ only in their seed. Its line shows the mean of the runs, with 95 %
    confidence intervals if there are several runs. Raises `SilvanError` as :func:`silvan.transfers.finished`.
    """
    figure, all_axes = plot.new_figure(len(shares), width=4.6 * len(shares) + 0.8, height=4.0)
    for share, ax in zip(shares, all_axes, strict=True):
        curves = transfers.by_size(groups, share=share, acked=acked)
        for number, (curve, title) in enumerate(zip(curves, titles, strict=True)):
            ends = None if curve.low is None or curve.high is None else (curve.low, curve.high)
            look = {"label": plot.literal(title), "linewidth": 1.6}
            _intervals.draw_one(ax, number, curve.sizes, curve.slowdowns, ends, **look)
        _size_axis(ax)
        ax.set_title(NAMES.get(share, f"{100 * share:g}th percentile"))
        ax.set_ylabel(_slowdown_label(acked=acked))
        # Intervals of few seeds are wide, so only the lines determine the range of the axis.
        values = np.concatenate([curve.slowdowns for curve in curves])
        ax.set_yscale("log")
        ax.set_ylim(0.95 * np.nanmin(values), 1.6 * np.nanmax(values))
        _plain_log(ax.yaxis, ax.get_ylim())
    several = any(len(group) > 1 for group in groups)
    plot.legend_beside(all_axes[-1], title="95 % intervals over seeds" if several else None)
    return figure


@plot.style()
def distribution(groups: Sequence[Sequence[Result]], titles: Sequence[str], *, acked: bool = False) -> Figure:
    """Draw the distribution of the slowdown of finished transfers, with a line per group of runs.

    Raises `SilvanError` as :func:`silvan.transfers.finished`.
    """
    figure, (ax,) = plot.new_figure(width=6.4, height=4.0)
    for number, (group, title) in enumerate(zip(groups, titles, strict=True)):
        values = np.sort(np.concatenate([transfers.finished(run, acked=acked)[1] for run in group]))
        shares = np.arange(1, len(values) + 1) / len(values)
        look = plot.line_look(number)
        ax.step(
            np.concatenate((values[:1], values)),
            np.concatenate(([0.0], shares)),
            where="post",
            color=look["color"],
            linestyle=plot.DASHES[number % len(plot.DASHES)],
            label=plot.literal(title),
        )
    ax.set_xscale("log")
    ax.set_ylim(0, 1.02)
    ax.set_ylabel("Share of transfers")
    ax.set_xlabel(_slowdown_label(acked=acked))
    _plain_log(ax.xaxis, ax.get_xlim())
    plot.legend_beside(ax)
    return figure


def _slowdown_label(*, acked: bool) -> str:
    return "Slowdown until the last acknowledgement" if acked else "Slowdown until delivery"


def _size_axis(ax: Axes) -> None:
    ax.set_xscale("log")
    ax.set_xlabel("Size of transfers")
    # The labels have units, so there is space for fewer.
    _plain_log(ax.xaxis, ax.get_xlim(), label=_size, most=5)


def _plain_log(
    axis: Axis,
    limits: tuple[float, float],
    *,
    label: Callable[[float], str] = "{:g}".format,
    most: int = 10,
) -> None:
    """Label a logarithmic axis with at most `most` plain numbers instead of powers of ten."""
    low, high = limits
    # Start with many numbers per decade, and take fewer until they fit.
    inside: list[float] = []
    for factors in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        inside = [
            f * 10.0**power for power in range(-1, 14) for f in factors if low <= f * 10.0**power <= high
        ]
        if len(inside) <= most:
            break
    inside = inside[:: max(1, math.ceil(len(inside) / most))]
    axis.set_ticks(inside, labels=[label(tick) for tick in inside])
    axis.set_ticks([], minor=True)


def _size(value: float) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= unit:
            return f"{value / unit:g} {name}"
    return f"{value:g} B"
