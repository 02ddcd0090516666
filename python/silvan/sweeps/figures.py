"""Draws figures of a sweep: lines over an axis, also one per name, and surfaces and maps over two numbers.

>>> from silvan.sweeps import figures
>>> figures.surface(sweep, "victim")  # doctest: +SKIP
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import PlaceHolderLayoutEngine
from matplotlib.ticker import MaxNLocator

from silvan import _intervals, plot
from silvan.sweeps.axes import Axis
from silvan.sweeps.errors import SweepError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silvan.sweeps.table import Sweep

#: Maximum number of combinations of the other axes' values, if figures are drawn over two of several axes.
COMBINATIONS_AT_MOST = 64
#: Maximum number of cells in a map whose cells contain numbers.
CELLS_WRITTEN = 150
#: Smallest width in inches of a column of a map whose cells contain numbers.
COLUMN_WRITTEN = 0.36
#: A number with a unit, as in scenarios.
QUANTITY = re.compile(r"([+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?) ?([A-Za-zµ%][\w/%]*)")


def save_all(sweep: Sweep, folder: Path) -> int:
    """Draw every measure as PNG and SVG; return the number of figures.

    Only axes with several values count. If there are more than two, the figures use the last two, with
    separate figures for each combination of the other axes' values. Raises :class:`SweepError` if there are
    no such axes, or too many combinations.
    """
    axes = _long_axes(sweep)
    if not axes:
        raise SweepError("figures are drawn over one or two axes, and this study has 0")
    held = axes[:-2]
    combinations = math.prod(len(axis) for axis in held)
    if combinations > COMBINATIONS_AT_MOST:
        names = ", ".join(axis.name for axis in held)
        raise SweepError(
            f"figures are drawn over two axes, for each of the others' values ({names}): {combinations} "
            f"times; at most {COMBINATIONS_AT_MOST} are drawn; hold some with --set"
        )
    if not held:
        return _save(sweep, folder)
    return sum(_save(part, folder / name) for name, part in _parts(sweep, held))


def _parts(sweep: Sweep, held: list[Axis]) -> Iterator[tuple[str, Sweep]]:
    """Yield the part of the sweep at each combination of values of the `held` axes, and its name."""
    at = [sweep.axes.index(axis) for axis in held]
    for steps in itertools.product(*(range(len(axis)) for axis in held)):
        chosen = dict(zip(at, steps, strict=True))
        names = [f"{axis.name}={axis.labels[step]}" for axis, step in zip(held, steps, strict=True)]
        axes = tuple(
            replace(axis, labels=(axis.labels[chosen[n]],), settings=()) if n in chosen else axis
            for n, axis in enumerate(sweep.axes)
        )
        rows = tuple(
            row for row in sweep.rows if all(row.point.steps[n] == step for n, step in chosen.items())
        )
        yield re.sub(r"[^\w.=-]+", "-", "-".join(names)), replace(sweep, axes=axes, rows=rows)


def _save(sweep: Sweep, folder: Path) -> int:
    axes = _long_axes(sweep)
    count = 0
    for name in sweep.measures:
        stem = folder / (re.sub(r"[^\w.-]+", "-", name) or "measure")
        if len(axes) == 1 or any(_numbers(axis) is None for axis in axes):
            plot.save(lines(sweep, name), stem)
            count += 1
            continue
        plot.save(surface(sweep, name), stem.with_name(f"{stem.name}-surface"))
        plot.save(surface_map(sweep, name), stem.with_name(f"{stem.name}-map"))
        count += 2
    return count


def cube(sweep: Sweep, measure: str) -> NDArray[np.float64]:
    """Return a measure as an array over all axes and, as the last dimension, the seeds.

    Missing values and those of failed runs are NaN.

    Raises :class:`SweepError` for a measure that the sweep does not contain.
    """
    if measure not in sweep.measures:
        raise SweepError(f"no measure `{measure}` in the sweep; there are {', '.join(sweep.measures)}")
    values = [row.values.get(measure) for row in sweep.rows]
    flat = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return flat.reshape(*(len(axis) for axis in sweep.axes), -1)


@plot.style()
def lines(sweep: Sweep, measure: str) -> Figure:
    """Draw the mean of a measure over seeds, with 95 % confidence intervals if there are several seeds.

    One axis has several values, or two of which at least one has names: the figure then has a line for each
    name. Means at numbers are connected. Means at names are points, because nothing is between two names.

    Raises :class:`SweepError` unless one axis or two axes have several values, for two axes of numbers, and
    for an unknown measure.
    """
    over, names = _over_and_names(sweep)
    cells = cube(sweep, measure).reshape(*(len(axis) for axis in _long_axes(sweep)), -1)
    if names is None:
        cells = cells[np.newaxis]
    elif _long_axes(sweep)[0] is over:
        cells = cells.swapaxes(0, 1)
    labels = ["mean"] if names is None else [_short(label) for label in names.labels]
    series = {label: own.tolist() for label, own in zip(_distinct(labels), cells, strict=True)}
    figure, (axes,) = plot.new_figure()
    numbers = _numbers(over)
    with plot.style():
        at = None if numbers is None else numbers[0].tolist()
        _intervals.draw(axes, at, series, [_short(label) for label in over.labels])
        axes.set_xlabel(_called(over.name, over.unit or ("" if numbers is None else numbers[1])))
        axes.set_ylabel(_called(measure, sweep.measures[measure]))
        axes.set_title(", ".join(_held(sweep)))
        note = _intervals.note(cells.shape[-1])
        if names is not None:
            heads = [_called(names.name, names.unit), *([note] if note else [])]
            plot.legend_beside(axes, title="\n".join(heads))
        elif note:
            plot.legend_beside(axes, title=note)
        return plot.fit(figure)


def _over_and_names(sweep: Sweep) -> tuple[Axis, Axis | None]:
    """Return the horizontal axis, and the axis with one line per value; None if there is one axis.

    An axis of numbers is horizontal, otherwise the axis with more values.
    """
    axes = _long_axes(sweep)
    if len(axes) <= 1:
        return _some(sweep, 1)[0], None
    one, two = _some(sweep, 2)
    if (found := [axis for axis in (one, two) if _numbers(axis) is not None]) and len(found) == 1:
        return found[0], one if found[0] is two else two
    if found:
        raise SweepError("a figure of lines needs an axis of names; draw a surface or a map over two numbers")
    return (one, two) if len(one) >= len(two) else (two, one)


def _distinct(labels: list[str]) -> list[str]:
    """Return the labels; those that are equal, because they were cut, get a number."""
    return [label if labels.count(label) == 1 else f"{label} ({n})" for n, label in enumerate(labels, 1)]


@plot.style()
def surface(sweep: Sweep, measure: str) -> Figure:
    """Draw the mean over seeds of a measure as a surface over two axes of numbers.

    Raises :class:`SweepError` unless exactly two axes have several values, and those are numbers, and for an
    unknown measure.
    """
    one, two = _two_numbers(sweep)
    grid = _mean(cube(sweep, measure).reshape(len(one), len(two), -1))
    # Set fixed margins, because automatic layout misplaces three-dimensional labels and fails for long ones.
    with plot.style():
        figure = Figure(figsize=plot.size(6.4, 4.8), layout=PlaceHolderLayoutEngine(True, True))
        FigureCanvasAgg(figure)
        axes: Any = figure.add_axes((0.04, 0.06, 0.9, 0.9), projection="3d")
    (x, x_unit), (y, y_unit) = (_numbers(axis) or (np.arange(len(axis)), "") for axis in (one, two))
    low, high = _limits(grid)
    mesh_x, mesh_y = np.meshgrid(x, y, indexing="ij")
    axes.plot_surface(
        mesh_x, mesh_y, np.ma.masked_invalid(grid), cmap="viridis", vmin=low, vmax=high,
        rstride=1, cstride=1, edgecolor="#00000055", linewidth=0.5,
    )  # fmt: skip
    axes.set_zlim(low, high)
    axes.set_xlabel(_called(one.name, one.unit or x_unit), labelpad=6)
    axes.set_ylabel(_called(two.name, two.unit or y_unit), labelpad=6)
    for each in (axes.xaxis, axes.yaxis):
        each.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.tick_params(pad=1, labelsize=7 if plot.is_narrow() else 9)
    axes.set_title(_title(sweep, measure), fontweight="bold", y=1.0, pad=-4)
    # From this viewpoint, both axes start at the front corner, as in the published surfaces.
    axes.view_init(elev=28, azim=-128)
    axes.set_box_aspect((1.25, 1.25, 0.8), zoom=0.85 if plot.is_narrow() else 1.0)
    return figure


@plot.style()
def surface_map(sweep: Sweep, measure: str) -> Figure:
    """Draw the mean over seeds of a measure as a map. If there are few cells, each contains its number.

    Raises :class:`SweepError` unless exactly two axes have several values, and for an unknown measure.
    """
    one, two = _some(sweep, 2)
    grid = _mean(cube(sweep, measure).reshape(len(one), len(two), -1))
    # Make the columns wide enough for their labels.
    column = max(0.62, 0.11 * max(len(_short(label)) for label in one.labels))
    figure, (axes,) = plot.new_figure(
        width=max(5.0, 1.6 + column * len(one)), height=max(3.2, 1.4 + 0.42 * len(two))
    )
    # Color bar and labels take about a third of the width.
    written = figure.get_size_inches()[0] > 1.5 * COLUMN_WRITTEN * len(one) and grid.size <= CELLS_WRITTEN
    low, high = _limits(grid)
    image = axes.imshow(grid.T, origin="lower", aspect="auto", cmap="viridis", vmin=low, vmax=high)
    for (n, m), value in np.ndenumerate(grid):
        if written and np.isfinite(value):
            dark = value < low + 0.6 * (high - low)
            colour = "white" if dark else "black"
            axes.text(n, m, _written(value), ha="center", va="center", fontsize=8, color=colour)
    columns = [_short(label) for label in one.labels]
    axes.set_xticks(range(len(one)), columns)
    _intervals.turn_long_names(axes, columns)
    axes.set_yticks(range(len(two)), [_short(label) for label in two.labels])
    axes.set(
        xlabel=_called(one.name, one.unit), ylabel=_called(two.name, two.unit), title=_title(sweep, measure)
    )
    axes.grid(False)
    figure.colorbar(image, ax=axes)
    return plot.fit(figure)


def _long_axes(sweep: Sweep) -> list[Axis]:
    return [axis for axis in sweep.axes if len(axis) > 1]


def _some(sweep: Sweep, count: int) -> list[Axis]:
    axes = _long_axes(sweep)
    if len(axes) != count:
        raise SweepError(f"the figure is drawn over {count} axes with several values, not {len(axes)}")
    return axes


def _two_numbers(sweep: Sweep) -> list[Axis]:
    axes = _some(sweep, 2)
    for axis in axes:
        if _numbers(axis) is None:
            raise SweepError(
                f"a surface needs numbers, and the values of {axis.name} are names; draw lines instead"
            )
    return axes


def _numbers(axis: Axis) -> tuple[NDArray[np.float64], str] | None:
    """Return the values of an axis as numbers, with the unit that they contain; None if some are names.

    Values such as "10 Gbit/s" are numbers if all have the same unit.
    """
    if all(isinstance(label, int | float) and not isinstance(label, bool) for label in axis.labels):
        return np.array(axis.labels, dtype=np.float64), ""
    found = [QUANTITY.fullmatch(label) if isinstance(label, str) else None for label in axis.labels]
    units = {one[2] if one else None for one in found}
    if len(units) != 1 or None in units:
        return None
    return np.array([float(one[1]) for one in found if one], dtype=np.float64), str(units.pop())


def _written(value: float) -> str:
    """Return a number with three significant digits; from 1000 to a million, rounded to a whole number."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def _short(label: object) -> str:
    text = f"{label:g}" if isinstance(label, float) else str(label)
    return plot.literal(text if len(text) <= 16 else text[:14] + "...")


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    mean: NDArray[np.float64] = values.mean(axis=-1)
    return mean


def _limits(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return axis limits that include zero, so that small differences do not look large."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    low, high = min(low, 0.0), max(high, 0.0)
    return low, high if high > low else low + 1.0


def _called(name: str, unit: str) -> str:
    return plot.literal(f"{name} ({unit})" if unit else name)


def _title(sweep: Sweep, measure: str) -> str:
    return ", ".join([_called(measure, sweep.measures[measure]), *_held(sweep)])


def _held(sweep: Sweep) -> list[str]:
    """Return the axes without settings, which were reduced to one value, with this value."""
    return [f"{plot.literal(axis.name)} {_short(axis.labels[0])}" for axis in sweep.axes if not axis.settings]
