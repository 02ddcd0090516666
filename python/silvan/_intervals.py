"""Draws means with their confidence intervals: lines over numbers, points over names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from silvan import plot
from silvan._statistics import mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

#: Width of the range of a name on an axis in which the points of several series are next to each other.
SPREAD = 0.6
#: Maximum number of positions that are labeled with their own numbers.
TICKS = 6
#: An axis ends at most this many times as far from zero as the means, as intervals of few seeds are wide.
WIDEST = 2.0


def draw(
    ax: Axes,
    at: Sequence[float] | None,
    series: Mapping[str, Sequence[Sequence[float]]],
    names: Sequence[str] = (),
) -> None:
    """Draw the mean of the values at each position, with a 95 % confidence interval, for each series.

    `series` maps a label to the values of each position, one per seed. Means are connected only if `at`
    contains the positions, which are then numbers. Without it, the positions have `names`, and the points of
    several series are next to each other. A mean of one value has no interval. Positions without a finite
    value remain empty.
    """
    for number, (label, values) in enumerate(series.items()):
        middle, low, high = _intervals(values)
        # Later lines are thinner and lie above earlier lines, so that equal lines are visible.
        look: dict[str, Any] = {"label": label, "linewidth": 1.2 + 0.6 * min(len(series) - 1 - number, 3)}
        if at is None:
            shift = SPREAD * ((number + 0.5) / len(series) - 0.5)
            places = np.arange(len(names)) + shift
            look["linestyle"] = ""
        else:
            places = np.array(at, dtype=np.float64)
        draw_one(ax, number, places, middle, None if np.isnan(low).all() else (low, high), **look)
    if at is None:
        ax.set_xticks(range(len(names)), list(names))
        ax.set_xlim(-0.5, len(names) - 0.5)
        turn_long_names(ax, names)
    elif len(at) <= TICKS:
        ax.set_xticks(at, [f"{value:g}" for value in at])
    ax.set_ylim(*limits(series))


def draw_one(
    ax: Axes,
    number: int,
    at: NDArray[Any],
    middle: NDArray[np.float64],
    ends: tuple[NDArray[np.float64], NDArray[np.float64]] | None,
    **look: Any,
) -> None:
    """Draw the means of series `number` at the given positions, with the ends of their intervals, if any."""
    errors = None if ends is None else (middle - ends[0], ends[1] - middle)
    usual: dict[str, Any] = plot.line_look(number) | {"marker": plot.MARKERS[number % len(plot.MARKERS)]}
    usual |= {"markersize": 4, "capsize": 2, "elinewidth": 1.2}
    ax.errorbar(at, middle, yerr=errors, **usual | look)


def note(seeds: int) -> str | None:
    """Return the title of a legend that explains the intervals; None for one seed, which has none."""
    return f"95 % intervals of {seeds} seeds" if seeds > 1 else None


def limits(series: Mapping[str, Sequence[Sequence[float]]]) -> tuple[float, float]:
    """Return axis limits that include zero and the intervals, unless these are very wide."""
    found = [_intervals(values) for values in series.values()]
    middles = np.concatenate([one[0] for one in found])
    middles = middles[np.isfinite(middles)]
    if not middles.size:
        return 0.0, 1.0
    low, high = min(float(middles.min()), 0.0), max(float(middles.max()), 0.0)
    ends = np.concatenate([end for one in found for end in one[1:]])
    ends = ends[np.isfinite(ends)]
    if ends.size:
        low = max(min(low, float(ends.min())), WIDEST * low)
        high = min(max(high, float(ends.max())), WIDEST * high)
    if high <= low:
        return low, low + 1.0
    return low, high + 0.05 * (high - low)


def _intervals(values: Sequence[Sequence[float]]) -> tuple[NDArray[np.float64], ...]:
    """Return the means and the limits of their intervals; NaN where there is none."""
    rows = []
    for own in values:
        finite = len(own) > 0 and bool(np.isfinite(own).all())
        one = mean(own) if finite else None
        rows.append(
            [np.nan if end is None else end for end in (one.value, one.low, one.high)]
            if one
            else [np.nan] * 3
        )
    return tuple(np.array(rows, dtype=np.float64).T)


def turn_long_names(ax: Axes, names: Sequence[str], columns: int = 1) -> None:
    """Turn names that would overlap on the axis of one of several panels (`columns`) side by side."""
    figure = ax.get_figure(root=True)
    inches = (figure.get_size_inches()[0] if figure is not None else 8.0) / columns
    # A letter is about 0.07 inches wide.
    if names and 0.07 * max(map(len, names)) * len(names) > 0.75 * inches:
        ax.tick_params(axis="x", labelrotation=30)
        for label in ax.get_xticklabels():
            label.set_horizontalalignment("right")
