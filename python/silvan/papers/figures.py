"""Draws figures of the experiments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from silvan.papers.data import RunData, smoothed

#: Okabe and Ito's colors, which color-blind readers can distinguish.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def figure(
    columns: int = 1, rows: int = 1, size: tuple[float, float] = (6.4, 4.0)
) -> tuple[Figure, list[Axes]]:
    """Return a figure with equal panels, and the panels row by row; `size` is that of a panel in inches."""
    fig = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    FigureCanvasAgg(fig)
    axes = [fig.add_subplot(rows, columns, n + 1) for n in range(columns * rows)]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(True, color="0.9", linewidth=0.8)
        ax.set_axisbelow(True)
        ax.set_prop_cycle(color=COLOURS)
    return fig, axes


def throughput(
    ax: Axes,
    run: RunData,
    flows: Iterable[str],
    title: str,
    smooth: int = 1,
    labels: Sequence[str] | None = None,
) -> None:
    """Draw the throughput of flows over time, on an axis up to 16 Gbit/s.

    If ``smooth`` is above 1, draw pale samples, and their moving mean over this number of samples.
    """
    for n, flow in enumerate(flows):
        end_s, rate = run.rate_gbit_s(flow)
        shown = np.where(np.cumsum(rate) > 0, rate, np.nan)
        colour = COLOURS[n % len(COLOURS)]
        label = labels[n] if labels else flow
        if smooth > 1:
            ax.plot(end_s, shown, color=colour, linewidth=0.5, alpha=0.35)
            ax.plot(end_s, smoothed(rate, smooth) + 0 * shown, color=colour, linewidth=1.4, label=label)
        else:
            ax.plot(end_s, shown, color=colour, linewidth=1.3, label=label)
    ax.set_title(title)
    ax.set_xlabel("time (s)")
    ax.set_ylabel("throughput (Gbit/s)")
    ax.set_xlim(0, run.duration_s)
    ax.set_ylim(0, 16)
    ax.legend(frameon=False, ncols=3, loc="upper right", fontsize="small")


def beside(ax: Axes, names: Sequence[str], published: Sequence[float], simulated: Sequence[float]) -> None:
    """Draw bars of published and simulated numbers, side by side."""
    at = np.arange(len(names))
    ax.bar(at - 0.2, published, 0.38, color="0.7", label="published")
    ax.bar(at + 0.2, simulated, 0.38, color=COLOURS[0], label="simulated")
    ax.set_xticks(at, names)
    ax.grid(False, axis="x")
    ax.legend(frameon=False)


def save(fig: Any, out: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG; return the paths."""
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / f"{name}.{ending}" for ending in ("png", "svg")]
    for path in paths:
        fig.savefig(path, dpi=150)
    return paths
