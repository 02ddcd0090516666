"""Draws the measured and the simulated times of a calibration, and their residuals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from silvan import plot
from silvan.calibration.anomalies import size_in_words
from silvan.calibration.outcome import Calibration
from silvan.calibration.paths import is_inner

#: Most files in a figure.
FILES_AT_MOST = 12


def draw(done: Calibration) -> Figure:
    """Return a figure: rates over sizes, measured (points) and simulated (lines), above their residuals.

    Rates are sizes divided by times, so that latencies and bandwidths share an axis. Rows that the fit does
    not use have hollow points.
    """
    figure, _ = plot.new_figure(width=8.0, height=6.0)
    figure.clear()
    with plot.style():
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        for at, one in enumerate(done.measurements[:FILES_AT_MOST]):
            sizes = np.array([max(row.size, 1) for row in one.rows])
            times = np.array([row.time_s for row in one.rows])
            look = plot.point_look(at)
            line = plot.line_look(at)
            name = one.file.name if one.kind == "collective" or is_inner(one) else one.name
            above.plot(sizes, sizes / done.modeled[at] * 8e-9, **line)
            mask = done.masks[at]
            residuals = 100 * np.expm1(done.found.residuals[at])
            for ax, values in ((above, sizes / times * 8e-9), (below, residuals)):
                for chosen, face in ((mask, look["color"]), (~mask, "none")):
                    label = plot.literal(name) if ax is above and chosen is mask else None
                    ax.plot(
                        sizes[chosen], values[chosen], linestyle="none", markersize=4,
                        markerfacecolor=face, label=label, **look,
                    )  # fmt: skip
        above.set_xscale("log", base=2)
        above.set_yscale("log")
        above.xaxis.set_major_locator(LogLocator(base=2, numticks=5 if plot.is_narrow() else 8))
        above.xaxis.set_major_formatter(FuncFormatter(lambda size, _: size_in_words(round(size))))
        above.set_ylabel("size / time (Gbit/s)")
        more = len(done.measurements) - FILES_AT_MOST
        files = f"; without {more} more files" if more > 0 else ""
        above.set_title(f"Measured (points; hollow: not fitted) and simulated (lines){files}")
        below.axhline(0.0, color="black", linewidth=0.8)
        below.set_ylabel("residual of time (%)")
        below.set_xlabel("size")
        plot.legend_beside(above)
        return plot.fit(figure)


def save(done: Calibration, path: Path) -> list[Path]:
    """Write the figure as PNG and SVG, to `path` plus suffix; return the paths."""
    return plot.save(draw(done), path)
