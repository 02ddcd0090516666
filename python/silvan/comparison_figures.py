"""Draws comparisons: the mean of a measure in each group of runs, with confidence intervals.

>>> from silvan import comparison_figures
>>> figure = comparison_figures.means(silvan.compare(*runs), "received by all hosts")  # doctest: +SKIP
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from silvan import _intervals, plot
from silvan._comparison_text import change_cell
from silvan._core import SilvanError
from silvan.quantities import measures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from silvan.comparison import Comparison


@plot.style()
def means(found: Comparison, measure: str, titles: Sequence[str] | None = None) -> Figure:
    """Draw the mean of a measure in each group, with 95 % confidence intervals over seeds.

    Groups are names, so their means are not connected. The verdict on each change is next to its mean. The
    default of `titles` (one per group) is :func:`group_titles`.

    Raises `SilvanError` for a measure that the comparison does not contain.
    """
    row = next((one for one in found.rows if one.measure == measure), None)
    if row is None:
        raise SilvanError(f"no measure `{measure}`; there are {', '.join(one.measure for one in found.rows)}")
    names = [plot.literal(title) for title in titles or group_titles(found)]
    values = [
        [] if mean is None else [measures(run)[row.measure, row.unit] for run in group.runs]
        for group, mean in zip(found.groups, row.means, strict=True)
    ]
    figure, (axes,) = plot.new_figure(width=6.4, height=3.6)
    with plot.style():
        _intervals.draw(axes, None, {"mean": values}, names)
        for at, change in enumerate(row.changes, start=1):
            if change is not None and change.is_proven:
                axes.annotate(
                    change_cell(change).partition(" (")[0], (at, sum(values[at]) / len(values[at])),
                    xytext=(5, 0), textcoords="offset points", va="center", fontsize=7,
                )  # fmt: skip
        axes.set_ylabel(plot.literal(f"{row.measure} ({row.unit})" if row.unit else row.measure))
        axes.grid(False, axis="x")
        most = max(len(group.runs) for group in found.groups)
        plot.legend_beside(axes, title=_intervals.note(most))
    return figure


def group_titles(found: Comparison) -> list[str]:
    """Return a title per group: its mechanism if the mechanisms differ, else as the title of a run."""
    from silvan.report import run_titles

    return run_titles([group.runs[0] for group in found.groups], brief=True)


def save_all(found: Comparison, folder: Path) -> list[Path]:
    """Draw all measures that differ between groups, as PNG and SVG; return the files."""
    written = []
    for row in found.rows:
        if row.differs:
            stem = folder / re.sub(r"[^\w.=-]+", "-", row.measure)
            written += plot.save(means(found, row.measure), stem)
    return written
