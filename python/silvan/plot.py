"""Draws figures of a run.

The functions that draw one figure use the given axes or create new ones, and return the axes:

>>> from silvan import plot
>>> axes = plot.throughput(result)  # doctest: +SKIP
>>> plot.save(axes.get_figure(root=True), "throughput")  # doctest: +SKIP

:func:`save_all` writes all figures for which a result contains data, as PNG and SVG.
"""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import LogLocator, MaxNLocator, StrMethodFormatter

from silvan import _control, _files

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silvan.results import Result

#: The palette of Okabe and Ito, which color-blind readers can distinguish, with gray instead of yellow.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#999999")
DASHES = ("-", "--", ":", "-.")
MARKERS = "osD^vPX*"
#: Length of the dashes of overlapping lines, in line widths.
STRIPE = 6
#: Maximum number of lines. If there are more, a figure over time shows a band from the 5th to the 95th
#: percentile instead.
LINES_AT_MOST = 12
#: Maximum number of lines with nearly equal ends whose names are written next to them.
NAMES_AT_MOST = 3
#: Ratio of the largest to the smallest latency above which the axis is logarithmic.
FAR_APART = 20
#: Maximum number of rows of a heat map, which shows the busiest links.
ROWS_AT_MOST = 30
#: Links whose utilization (0 to 1) stays below this value are omitted from a heat map.
WORTH_SHOWING = 0.02

STYLE: dict[Any, Any] = {
    "figure.figsize": (8.0, 4.2),
    "figure.dpi": 150,
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.prop_cycle": cycler(color=COLOURS),
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "silvan",
}


#: Widths of figures in inches, by name: a column and the page of an IEEE journal, a slide.
WIDTHS: Mapping[str, float] = {"ieee-column": 3.5, "ieee-page": 7.16, "slide": 10.0}
#: Below this width, in inches, legends are below the axes.
NARROW = 5.0
#: Average width of a letter, and width of a legend's handle with its spaces, in font sizes.
LETTER_WIDTH, HANDLE_WIDTH = 0.6, 5.0
#: Largest width of the names of rows, as a share of the width of a narrow figure.
ROW_NAMES = 0.3
#: Shades of gray for black-and-white print.
GRAYS = ("#000000", "#6e6e6e", "#a8a8a8")
#: Changes of the style for black-and-white print.
PRINT: dict[Any, Any] = {
    "axes.prop_cycle": cycler(color=GRAYS) * cycler(linestyle=DASHES),
    "axes.titleweight": "normal",
    "grid.color": "#d9d9d9",
    "font.family": "serif",
}


@dataclass(frozen=True)
class Format:
    """Width and colors of figures, see :func:`formatted`."""

    #: Width in inches; None for each figure's own width.
    width: float | None = None
    #: Whether figures are for black-and-white print.
    is_print: bool = False


_format: ContextVar[Format] = ContextVar("silvan.plot.format", default=Format())  # noqa: B039


@contextmanager
def formatted(width: str | float | None = None, *, is_print: bool = False) -> Iterator[None]:
    """Draw figures inside the block with a width, or for black-and-white print.

    Args:
        width: A name of :data:`WIDTHS`, or inches (1 to 40). Text is then smaller, and the height changes
            less than the width, so that the labels have space.
        is_print: Use shades of gray, dashes and a serif font.

    Raises:
        ValueError: the width is not valid.

    """
    token = _format.set(Format(None if width is None else inches(width), is_print))
    try:
        yield
    finally:
        _format.reset(token)


def inches(width: str | float) -> float:
    """Return a width in inches from a name of :data:`WIDTHS` or a number.

    Raises `ValueError` for another name, or unless the width is from 1 to 40 inches.
    """
    try:
        value = WIDTHS.get(str(width)) or float(width)
    except ValueError:
        value = math.nan
    if not 1 <= value <= 40:
        raise ValueError(f"`{width}` is no width: must be {', '.join(WIDTHS)}, or 1 to 40 inches")
    return value


def line_look(number: int) -> dict[str, Any]:
    """Return the color and the dashes of the line with this number, counted from 0."""
    if _format.get().is_print:
        return {
            "color": GRAYS[number // len(DASHES) % len(GRAYS)],
            "linestyle": DASHES[number % len(DASHES)],
        }
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": DASHES[number // len(COLOURS) % len(DASHES)],
    }


def point_look(number: int) -> dict[str, Any]:
    """Return the color and the marker of the points with this number, counted from 0."""
    colours = GRAYS if _format.get().is_print else COLOURS
    return {"color": colours[number % len(colours)], "marker": MARKERS[number % len(MARKERS)]}


def literal(text: str) -> str:
    r"""Escape a name for a figure: matplotlib reads text between dollar signs as a formula.

    It also leaves labels that start with an underscore out of a legend, so a blank precedes them.

    >>> literal("_a$b$")
    ' _a\\$b\\$'
    """
    escaped = text.replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped


@contextmanager
def style() -> Iterator[None]:
    """Apply Silvan's style to figures that are created inside the block."""
    chosen = _format.get()
    look = STYLE | (PRINT if chosen.is_print else {})
    if chosen.width is not None:
        look |= {"font.size": 8, "axes.titlesize": 8, "legend.fontsize": 7, "figure.dpi": 300}
    with mpl.rc_context(look):
        yield


class Picture(Figure):
    """A figure that notebooks show as an image, with or without matplotlib's support for notebooks."""

    def _repr_png_(self) -> bytes:
        data = BytesIO()
        with style():
            self.savefig(data, format="png")
        return data.getvalue()


def size(width: float, height: float) -> tuple[float, float]:
    """Return the size in inches of a figure with these inches by default, see :func:`formatted`."""
    wanted = _format.get().width
    # Labels keep their size, so the height shrinks less than the width.
    return (width, height) if wanted is None else (wanted, height * math.sqrt(wanted / width))


def new_figure(
    columns: int = 1, width: float = 8.0, height: float = 4.2, **shared: Any
) -> tuple[Figure, list[Axes]]:
    """Create a figure in Silvan's style with `columns` axes side by side, independent of pyplot.

    `width` and `height` are in inches; :func:`formatted` changes them.
    """
    with style():
        figure = Picture(figsize=size(width, height))
        FigureCanvasAgg(figure)
        axes = figure.subplots(1, columns, squeeze=False, **shared)
    return figure, list(axes.flat)


def _axes(given: Axes | None) -> Axes:
    return new_figure()[1][0] if given is None else given


def legend_beside(
    ax: Axes,
    entries: tuple[Sequence[Any], Sequence[str]] | None = None,
    *,
    title: str | None = None,
    at: float = 1.01,
) -> None:
    """Place the legend outside the axes, where it covers no data: to the right, or below in a narrow figure.

    `entries` contains handles and labels; the default is those of the axes. `at` is the left edge, relative
    to the width of the axes. A legend below the figure replaces earlier ones.
    """
    handles, labels = entries or ax.get_legend_handles_labels()
    figure = ax.get_figure(root=True)
    wanted = _format.get().width
    if figure is None or wanted is None or not is_narrow():
        ax.legend(
            handles, labels, title=title, loc="upper left", bbox_to_anchor=(at, 1.0), borderaxespad=0.0,
            alignment="left",
        )  # fmt: skip
        return
    for old in list(figure.legends):
        old.remove()
    size = mpl.rcParams["legend.fontsize"] / 72
    entry = size * (LETTER_WIDTH * max(map(len, labels), default=1) + HANDLE_WIDTH)
    rows = math.ceil(len(labels) / max(1, int(wanted / entry)))
    columns = math.ceil(len(labels) / max(1, rows))
    figure.legend(handles, labels, title=title, loc="outside lower center", ncols=columns)


def is_narrow() -> bool:
    """Return whether figures are so narrow that legends are below the axes."""
    wanted = _format.get().width
    return wanted is not None and wanted < NARROW


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Label the rows of a vertical axis, which start at 0, with names; a narrow figure divides long names."""
    wanted = _format.get().width
    if is_narrow() and wanted is not None:
        letters = int(ROW_NAMES * wanted * 72 / (LETTER_WIDTH * mpl.rcParams["font.size"]))
        names = [textwrap.fill(name, letters) for name in names]
    ax.set_yticks(range(len(names)), [literal(name) for name in names])


def fit(figure: Figure) -> Figure:
    """Divide titles and labels that are longer than a narrow figure into lines; return the figure."""
    if not is_narrow():
        return figure
    figure.canvas.draw()
    boxes = {ax: ax.get_window_extent() for ax in figure.axes if ax.get_visible()}
    whole = figure.bbox
    for ax, box in boxes.items():
        beside = [other for other in boxes.values() if other.y0 < box.y1 and other.y1 > box.y0]
        right = min((other.x0 for other in beside if other.x0 > box.x1), default=whole.x1)
        left = max((other.x1 for other in beside if other.x1 < box.x0), default=whole.x0)
        middle, height = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
        spaces: tuple[tuple[Any, float], ...] = (
            (ax.title, right - box.x0),
            (ax._left_title, right - box.x0),  # type: ignore[attr-defined]
            (ax.xaxis.label, 2 * min(right - middle, middle - left)),
            (ax.yaxis.label, 2 * min(whole.y1 - height, height - whole.y0)),
        )
        for text, space in spaces:
            letters = int(space / figure.dpi * 72 / (LETTER_WIDTH * text.get_fontsize()))
            # A space that does not break keeps a number and its unit on one line.
            text.set_text(
                textwrap.fill(text.get_text().replace(" %", "\N{NO-BREAK SPACE}%"), max(letters, 8))
            )
    return figure


def save(figure: Figure | SubFigure, path: str | PathLike[str]) -> list[Path]:
    """Write a figure, or the figure that contains a subfigure, as PNG and as SVG, to `path` plus suffix."""
    whole = figure.figure
    stem = Path(path)
    stem.parent.mkdir(parents=True, exist_ok=True)
    written = [stem.with_name(f"{stem.name}.{ending}") for ending in ("png", "svg")]
    with style():
        for target in written:
            dates: Mapping[str, Any] = {"Date": None} if target.suffix == ".svg" else {}
            with _files.replacing(target) as partial:
                whole.savefig(partial, format=target.suffix[1:], metadata=dates)
    return written


class Series:
    """A column of a table as time series, with one row per name and one column per sample.

    Missing values are 0.
    """

    def __init__(self, result: Result, table: str, key: str, column: str) -> None:
        columns = result.numpy(table)
        names, positions = np.unique(columns[key].astype(str), return_inverse=True)
        times, steps = np.unique(columns["time_ns"], return_inverse=True)
        grid = np.zeros((len(names), len(times)))
        grid[positions, steps] = columns[column]
        # Restore the order of the scenario, because `unique` sorts the names.
        order = np.argsort(np.unique(positions, return_index=True)[1])
        self.names: list[str] = [str(names[i]) for i in order]
        self.values: NDArray[np.float64] = grid[order]
        self.end_ns: NDArray[np.float64] = times.astype(float)

    @property
    def interval_ns(self) -> NDArray[np.float64]:
        """Length of each sampling interval in ns."""
        return np.diff(self.end_ns, prepend=0.0)

    @property
    def labels(self) -> list[str]:
        """The names as labels of a figure."""
        return [literal(name) for name in self.names]

    def rates_gbit_s(self) -> NDArray[np.float64]:
        """Return the values, which must be bytes per interval, in Gbit/s."""
        return self.values * 8.0 / self.interval_ns

    @property
    def edges_ns(self) -> NDArray[np.float64]:
        """Limits of the sampling intervals in ns."""
        return np.concatenate(([0.0], self.end_ns))


def _time_unit(end_ns: float) -> tuple[float, str]:
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if end_ns >= size:
            return size, unit
    return 1.0, "ns"


def _time_axis(ax: Axes, end_ns: float) -> float:
    size, unit = _time_unit(end_ns)
    ax.set_xlabel(f"Simulated time ({unit})")
    ax.set_xlim(0, end_ns / size)
    return size


def _steps(
    ax: Axes, series: Series, values: NDArray[np.float64], what: str, *, logarithmic: bool = False
) -> None:
    """Draw one line per name over time. Draw a band, the median and three lines if there are many names."""
    if logarithmic:
        ax.set_yscale("log")
    end = float(series.end_ns[-1]) if len(series.end_ns) else 1.0
    size = _time_axis(ax, end)
    edges = series.edges_ns / size
    if len(series.names) > LINES_AT_MOST:
        with warnings.catch_warnings():
            # numpy warns about samples without any value; these are not drawn.
            warnings.simplefilter("ignore", RuntimeWarning)
            low, half, high = np.nanpercentile(values, (5, 50, 95), axis=0)
        ax.stairs(
            high,
            edges,
            baseline=low,
            fill=True,
            color=to_rgba(line_look(0)["color"], 0.25),
            label=f"middle 90 % of {what}",
        )
        ax.stairs(half, edges, baseline=None, label="median", **line_look(0))
        top = np.argsort(np.nan_to_num(values).mean(axis=1))[::-1][:3]
        for rank, i in enumerate(top, start=1):
            ax.stairs(
                values[i], edges, baseline=None, linewidth=1.2, label=series.labels[i], **line_look(rank)
            )
    else:
        # Omit the zeros before the first positive value of a line.
        shown = np.where(np.maximum.accumulate(values > 0, axis=1), values, np.nan)
        place, many = _overlaps(shown, logarithmic=logarithmic)
        for i, name in enumerate(series.labels):
            look = line_look(i) | {"linewidth": 1.6, "baseline": None}
            ax.stairs(shown[i], edges, label=name, **look)
            # Draw overlapping lines as alternating dashes, so that all of them are visible.
            for size_here in np.unique(many[i][many[i] > 1]):
                for rank_here in np.unique(place[i][many[i] == size_here]):
                    if rank_here == size_here - 1:
                        # This line is drawn solid below the others, so it appears in the gaps between their
                        # dashes.
                        continue
                    is_here = (many[i] == size_here) & (place[i] == rank_here)
                    pattern = (rank_here * STRIPE, (STRIPE, (size_here - 1) * STRIPE))
                    part = np.where(is_here, shown[i], np.nan)
                    ax.stairs(part, edges, zorder=3, **look | {"linestyle": pattern})
        _name_ends(ax, series, values)
        ax.margins(y=0.1)
    if not logarithmic:
        ax.set_ylim(bottom=0)
    if series.names:
        legend_beside(ax)


def _overlaps(values: NDArray[np.float64], *, logarithmic: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return for each line and sample its rank among lines with nearly equal values, and their number."""
    near = 0.01 * max(float(np.nanmax(values, initial=0.0)), 1e-9)
    rank = np.zeros(values.shape, int)
    number = np.ones(values.shape, int)
    for i, own in enumerate(values):
        with np.errstate(invalid="ignore"):
            is_near = np.abs(values - own) <= (0.02 * np.abs(own) if logarithmic else near)
        rank[i] = is_near[:i].sum(axis=0)
        number[i] = np.maximum(is_near.sum(axis=0), 1)
    return rank, number


def _name_ends(ax: Axes, series: Series, values: NDArray[np.float64]) -> None:
    """Write names at the right end of the lines. Lines with nearly equal ends share a label."""
    at_end = slice(-max(1, values.shape[1] // 20), None)
    alive: NDArray[np.bool_] = np.asarray(np.isfinite(values[:, at_end]).any(axis=1))
    values = np.nan_to_num(values)
    last = values[:, at_end].mean(axis=1)
    # Minimum distance of labels: a ratio on a logarithmic axis, a difference on a linear one.
    factor, gap = (1.3, 0.0) if ax.get_yscale() == "log" else (1.0, 0.05 * max(float(values.max()), 1e-9))
    groups: list[list[int]] = []
    for i in np.argsort(last):
        if not alive[i]:
            continue
        if groups and last[i] <= factor * last[groups[-1][0]] + gap:
            groups[-1].append(int(i))
        else:
            groups.append([int(i)])
    for group in groups:
        if len(group) > NAMES_AT_MOST:
            # A longer label would cover lines, and the legend has all names.
            continue
        ax.annotate(
            ", ".join(series.labels[i] for i in sorted(group)),
            (1.0, float(values[group][:, -max(1, values.shape[1] // 6) :].max())),
            xycoords=("axes fraction", "data"),
            xytext=(-3, 5),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=8,
            color="0.25",
            zorder=4,
        )


def _named(result: Result) -> str:
    """Return the name of a run with its congestion management, as part of a title."""
    own = _control.of_toml(result.scenario_toml)
    return literal(result.name if own == "none" else f"{result.name}, {own}")


@style()
def throughput(result: Result, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw the received throughput of each named flow over time."""
    ax = _axes(ax)
    series = Series(result, "flows", "flow", "received_bytes")
    _steps(ax, series, series.rates_gbit_s(), "flows")
    ax.set_ylabel("Received (Gbit/s)")
    ax.set_title(title or f"Throughput of the flows: {_named(result)}")
    return ax


@style()
def hosts(result: Result, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw the received throughput of each host over time."""
    ax = _axes(ax)
    series = Series(result, "hosts", "host", "received_bytes")
    _steps(ax, series, series.rates_gbit_s(), "hosts")
    ax.set_ylabel("Received (Gbit/s)")
    ax.set_title(title or f"Throughput of the hosts: {_named(result)}")
    return ax


@style()
def class_throughput(result: Result, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw the received throughput of each class of traffic over time."""
    ax = _axes(ax)
    series = Series(result, "classes", "class", "throughput_gbit_s")
    _steps(ax, series, series.values, "classes")
    ax.set_ylabel("Received (Gbit/s)")
    ax.set_title(title or f"Throughput of the classes: {_named(result)}")
    return ax


@style()
def class_latency(
    result: Result, ax: Axes | None = None, *, since: str = "generation", title: str | None = None
) -> Axes:
    """Draw the mean packet latency of each class of traffic over time.

    The axis is logarithmic if the latencies differ widely.
    """
    ax = _axes(ax)
    series = Series(result, "classes", "class", f"mean_since_{since}_ns")
    values = series.values / 1e3
    seen = values[values > 0]
    far_apart = bool(seen.size) and float(seen.max()) > FAR_APART * float(seen.min())
    _steps(ax, series, values, "classes", logarithmic=far_apart)
    ax.set_ylabel(f"Mean latency since {since} (µs)")
    ax.set_title(title or f"Latency of the classes: {_named(result)}")
    return ax


@style()
def ccti(result: Result, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw the CCT index of each named flow over time, which shows how much the flow is throttled."""
    ax = _axes(ax)
    series = Series(result, "flows", "flow", "ccti")
    _steps(ax, series, series.values, "flows")
    ax.set_ylabel("Congestion control table index (CCTI)")
    ax.set_title(title or f"Throttling of the flows: {_named(result)}")
    return ax


@style()
def utilisation(result: Result, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw a heat map of the utilization of the busiest directed links over time, busiest links on top."""
    series = Series(result, "links", "link", "utilisation")
    busy = np.flatnonzero(series.values.max(axis=1, initial=0.0) >= WORTH_SHOWING)
    order = busy[np.argsort(-series.values[busy].mean(axis=1), kind="stable")][:ROWS_AT_MOST]
    if ax is None:
        ax = new_figure(height=max(2.4, 1.4 + 0.16 * len(order)))[1][0]
    size = _time_axis(ax, float(series.end_ns[-1]) if len(series.end_ns) else 1.0)
    rows = np.arange(len(order) + 1)
    percent = 100.0 * series.values[order]
    shades = "Greys" if _format.get().is_print else "YlGnBu"
    mesh = ax.pcolormesh(
        series.edges_ns / size,
        rows,
        percent,
        cmap=shades,
        vmin=0,
        vmax=100,
        rasterized=True,
    )
    ax.set_yticks(rows[:-1] + 0.5, [series.labels[i] for i in order], fontsize=7 if len(order) > 20 else 9)
    ax.invert_yaxis()
    ax.grid(False)
    ax.figure.colorbar(mesh, ax=ax, label="Utilization (%)", pad=0.01)
    shown = "links in use" if len(busy) == len(order) else f"{len(order)} busiest of {len(busy)} links in use"
    ax.set_title(title or f"Utilization of the {shown}: {_named(result)}")
    return ax


def in_trees(result: Result) -> dict[str, NDArray[np.float64]]:
    """Count, per sample, the roots of congestion trees, and the links that wait for any of them.

    Requires the tables of `Result.forest`. The counts are NaN for samples after the table `tree_links` became
    full.
    """
    rows, end_ns = result.numpy("tree_links"), result.numpy("network")["time_ns"]
    at = np.searchsorted(end_ns, rows["time_ns"])
    is_root = rows["depth"] == 0
    counts = {
        "roots of trees": np.bincount(at[is_root], minlength=len(end_ns)).astype(float),
        "links that wait for them": np.bincount(at[~is_root], minlength=len(end_ns)).astype(float),
    }
    last = result.numpy("trees")["last_ns"].max(initial=0)
    if len(rows["time_ns"]) and last > rows["time_ns"][-1]:
        for values in counts.values():
            values[end_ns > rows["time_ns"][-1]] = np.nan
    return counts


@style()
def congestion(result: Result, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw the numbers of roots, waiting links, throttled flows and, if any mark, marking outputs over time.

    If trees were not recorded (``measure.forest``), draw the number of packets inside the network, on a
    separate axis, instead of the roots and links.
    """
    ax = _axes(ax)
    network = result.numpy("network")
    end_ns = network["time_ns"].astype(float)
    edges = np.concatenate(([0.0], end_ns)) / _time_axis(ax, float(end_ns[-1]) if len(end_ns) else 1.0)
    where = "tree_links" in result.tables
    lines = {"throttled flows": network["throttled_flows"].astype(float)}
    if where:
        lines = {**in_trees(result), **lines}
    if network["congested_outputs"].any():
        lines["outputs that mark"] = network["congested_outputs"].astype(float)
    for i, (label, values) in enumerate(lines.items(), start=0 if where else 1):
        dashes = line_look(i) | {"linestyle": DASHES[i]}
        ax.stairs(values, edges, baseline=None, label=label, linewidth=1.6, **dashes)
    ax.set_ylim(0, _top(*lines.values()))
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_ylabel("Number")
    handles, labels = ax.get_legend_handles_labels()
    if not where:
        inside = _packets_inside(ax, network["packets_inside"], edges)
        handles, labels = [inside, *handles], ["packets inside", *labels]
    legend_beside(ax, (handles, labels), at=1.01 if where else 1.2)
    ax.set_title(title or f"Congestion and throttling: {_named(result)}")
    return ax


def _packets_inside(ax: Axes, values: NDArray[Any], edges: NDArray[np.float64]) -> Any:
    """Draw the number of packets inside the network on an axis on the right; return the line."""
    right = ax.twinx()
    line = right.stairs(values, edges, baseline=None, linewidth=1.6, **line_look(0))
    right.set_ylim(0, _top(values))
    right.grid(False)
    right.spines["right"].set_visible(True)
    right.set_ylabel("Packets inside the network", color=line_look(0)["color"])
    return line


def _top(*lines: NDArray[Any]) -> float:
    """Return an upper axis limit that leaves some space above the lines."""
    return max(1.0, 1.06 * max((float(np.nanmax(line, initial=0)) for line in lines), default=0.0))


def _cumulative(
    columns: Mapping[str, NDArray[Any]], rows: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bin limits in us (lower, upper, lower, ...), and the share of packets below each limit."""
    order = np.argsort(columns["lower_ns"][rows])
    lower, upper = (columns[name][rows][order].astype(float) for name in ("lower_ns", "upper_ns"))
    counts = columns["count"][rows][order].astype(float)
    above = np.cumsum(counts) / counts.sum()
    below = np.concatenate(([0.0], above[:-1]))
    # Times are whole nanoseconds, so a bin is at least 1 ns wide. A logarithmic axis has no zero.
    bounds = np.column_stack((np.maximum(lower, 0.5), np.maximum(upper, lower) + 1.0)).ravel()
    return bounds / 1e3, np.column_stack((below, above)).ravel()


@style()
def latency(
    result: Result, ax: Axes | None = None, *, since: str = "injection", title: str | None = None
) -> Axes:
    """Draw the cumulative distribution of the packet latency of the first :data:`LINES_AT_MOST` classes."""
    ax = _axes(ax)
    columns = result.numpy("latency")
    chosen = columns["since"] == since
    classes = list(dict.fromkeys(columns["class"][chosen]))
    for i, name in enumerate(classes[:LINES_AT_MOST]):
        rows = chosen & (columns["class"] == name)
        bounds_us, share = _cumulative(columns, rows)
        # Later lines are wider and lie below earlier lines, so that equal distributions are visible.
        width, order = 1.3 + 0.5 * min(i, 4), 3.0 - 0.05 * i
        ax.plot(bounds_us, share, label=literal(str(name)), linewidth=width, zorder=order, **line_look(i))
    ax.set_xscale("log")
    low, high = ax.get_xlim()
    ax.set_xlim(low / 1.5, high * 1.5)
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    if high / low < 20:
        ax.xaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
        ax.xaxis.set_minor_formatter(StrMethodFormatter("{x:g}"))
    ax.set_ylim(0, 1.02)
    ax.set_xlabel(f"Latency since {since} (µs)")
    ax.set_ylabel("Share of packets that are faster")
    if classes:
        legend_beside(ax)
    ax.set_title(title or f"Latency of packets: {_named(result)}")
    return ax


@style()
def compare(
    results: Sequence[Result], titles: Sequence[str], draw: Callable[..., Axes] = throughput
) -> Figure:
    """Draw the same figure for several results side by side, with the same vertical axis."""
    figure, axes = new_figure(len(results), width=5.6 * len(results), sharey=True)
    for ax, result, title in zip(axes, results, titles, strict=True):
        draw(result, ax, title=title)
        legend = ax.get_legend()
        if legend is not None and ax is not axes[-1]:
            legend.remove()
            ax.set_ylabel(ax.get_ylabel() if ax is axes[0] else "")
    for ax in axes[1:]:
        ax.set_ylabel("")
    if axes[0].get_yscale() == "linear":
        # Each call of `draw` sets the shared limits, so set them again for all data.
        axes[0].set_ylim(top=max(1.1 * float(ax.dataLim.y1) for ax in axes))
    return figure


#: Maps the file name of a figure to its function, and to the table and column that it needs.
FIGURES: Mapping[str, tuple[Callable[..., Axes], str, str]] = {
    "throughput": (throughput, "flows", "received_bytes"),
    "ccti": (ccti, "flows", "ccti"),
    "hosts": (hosts, "hosts", "received_bytes"),
    "links": (utilisation, "links", "utilisation"),
    "congestion": (congestion, "network", "congested_outputs"),
    "latency": (latency, "latency", "count"),
    "class-throughput": (class_throughput, "classes", "throughput_gbit_s"),
    "class-latency": (class_latency, "classes", "mean_since_generation_ns"),
}


def save_all(result: Result, folder: str | PathLike[str]) -> Path:
    """Write all figures for which the result contains data; return the folder.

    The figure of the CCT indices is omitted if all of them are zero.
    """
    target = Path(folder)
    for name, (draw, table, column) in FIGURES.items():
        if table in result.tables and len(result.numpy(table).get(column, ())) > 0:
            # Skip the figure if all indices are zero.
            if name == "ccti" and not result.numpy(table)[column].any():
                continue
            figure = draw(result).get_figure(root=True)
            if figure is not None:
                save(figure, target / name)
    return target
