"""Draws images and animations of the network with its congestion trees.

>>> from silvan import forest_figures
>>> forest_figures.save(forest_figures.still([off, on], 4.5e9), "forest")  # doctest: +SKIP
>>> forest_figures.animate([off, on], "forest.gif")  # doctest: +SKIP

Hosts are at the bottom, with the levels of switches above. Links that wait for a root have the color of its
tree. Roots have rings, victims have dashed rings, and contributors have the color of their tree. Links that
are down are dotted, with a cross, and listed.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.animation import FFMpegWriter
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_rgba
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from silvan import _files, plot, report
from silvan._core import SilvanError
from silvan.report import _roots
from silvan.report._picture import HUES
from silvan.report._roots import Roots
from silvan.report._scene import Scene, typical_ns
from silvan.report._text import time as time_cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from silvan.results import Result

#: Names of times: the number of links in trees is closest to its average; most links are in trees.
TYPICAL, BUSIEST = "typical", "busiest"
#: Default number of frames of an animation, and frames per second.
FRAMES, FRAMES_PER_S = 120, 12
#: Size of the image of a network in inches, and dots per inch of a GIF. An MP4 has twice as many.
WIDTH, HEIGHT, DPI = 6.4, 3.2, 90
#: Number of colors of a GIF, and approximate number of frames from which the palette is computed.
COLOURS, PALETTE_FRAMES = 64, 8
#: Maximum number of nodes for which markers are large, and for which nodes have names.
FEW, NAMED = 48, 24
#: Colors of links, hosts and switches that are not in a tree.
IDLE, HOST, SWITCH = "#c3c8ce", "#6b7480", "#2f363d"
#: Color of links that are down, and the maximum number of them that are listed by name.
DEAD, DEAD_LINKS = "#c02020", 4
NOWHERE = np.zeros((0, 2))
_UNITS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}


def read_time(text: str) -> float:
    """Return a time such as ``4.5 s`` in nanoseconds; raises `ValueError` for other text."""
    number = text.strip().rstrip("nuµms")
    unit = text.strip()[len(number) :]
    try:
        value = float(number) * _UNITS[unit]
    except (KeyError, ValueError):
        raise ValueError(f"`{text}` is not a time, such as `4.5 s` or `250 us`") from None
    return value


def still(
    results: Sequence[Result], time_ns: float | None = None, *, titles: Sequence[str] | None = None
) -> Figure:
    """Draw networks side by side at a time.

    The default is the time at which the number of links in trees is closest to its average in each run.

    Raises `ValueError` for a time outside a run, without runs, or for a wrong number of titles. Raises
    `KeyError` for a run without a forest.
    """
    picture = _Picture(results, titles)
    picture.show(picture.typical_ns if time_ns is None else time_ns)
    return picture.figure


def named_time(results: Sequence[Result], text: str) -> float:
    """Return the time of a text such as ``4.5 s``, ``typical`` or ``busiest``, in ns.

    Raises `ValueError` for another text. For ``typical`` and ``busiest``, raises `KeyError` if a run has no
    forest.
    """
    if text == TYPICAL:
        return _Picture(results, None).typical_ns
    if text == BUSIEST:
        return _Picture(results, None).busiest_ns
    try:
        return read_time(text)
    except ValueError as error:
        raise ValueError(f"{error}, or {TYPICAL}, or {BUSIEST}") from None


def save(figure: Figure, path: str | PathLike[str]) -> list[Path]:
    """Write a figure as SVG and as PDF, to `path` plus suffix; return the paths."""
    stem = Path(path)
    stem.parent.mkdir(parents=True, exist_ok=True)
    written = [stem.with_name(f"{stem.name}.{ending}") for ending in ("svg", "pdf")]
    with plot.style():
        for target in written:
            # Omit the date, so that equal figures give equal files.
            date = {"Date": None} if target.suffix == ".svg" else {"CreationDate": None}
            with _files.replacing(target) as partial:
                figure.savefig(partial, format=target.suffix[1:], metadata=date)
    return written


def animate(
    results: Sequence[Result],
    file: str | PathLike[str],
    *,
    titles: Sequence[str] | None = None,
    frames: int = FRAMES,
    frames_per_s: int = FRAMES_PER_S,
    span_ns: tuple[float, float] | None = None,
) -> Path:
    """Write an animation of the networks of runs as GIF or (with ffmpeg) MP4; return its path.

    The frames are evenly spaced over the span (ns). The default span is from 0 to the end of the shortest
    run.

    Raises `ValueError` for another suffix, a span outside the runs, a wrong number of titles, or without
    runs or frames, and `KeyError` for a run without a forest. Raises :class:`silvan.SilvanError` for MP4
    without ffmpeg, and `OSError` if the file cannot be written.
    """
    path = Path(file)
    if path.suffix not in (".gif", ".mp4"):
        raise ValueError(f"{path}: an animation is a .gif or .mp4")
    if path.suffix == ".mp4" and not FFMpegWriter.isAvailable():
        raise SilvanError(f"{path}: MP4 needs the program ffmpeg; a .gif does not")
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; name a file, such as forest.gif", str(path))
    picture = _Picture(results, titles)
    first, last = span_ns or (0.0, picture.end_ns)
    if frames < 1 or not 0 <= first < last <= picture.end_ns:
        raise ValueError(
            f"{frames} frames from {first:g} to {last:g} ns: not in runs of {picture.end_ns:g} ns"
        )
    times = np.linspace(first, last, frames + 1)[1:]
    path.parent.mkdir(parents=True, exist_ok=True)
    with _files.replacing(path) as partial:
        if path.suffix == ".gif":
            _write_gif(picture, times, partial, frames_per_s)
        else:
            # ffmpeg recognizes the format by the suffix.
            named = partial.with_name(partial.name + ".mp4")
            try:
                _write_mp4(picture, times, named, frames_per_s)
                named.replace(partial)
            finally:
                named.unlink(missing_ok=True)
    return path


def _write_gif(picture: _Picture, times: NDArray[np.float64], path: Path, frames_per_s: int) -> None:
    from PIL import Image

    frames = [Image.fromarray(pixels) for pixels in _drawn(picture, times)]
    # Use one palette for all frames, so that the GIF stores unchanged areas only once.
    some = frames[:: max(1, len(frames) // PALETTE_FRAMES)]
    together = Image.new("RGB", (some[0].width, some[0].height * len(some)))
    for at, frame in enumerate(some):
        together.paste(frame, (0, at * frame.height))
    palette = together.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE)
    images = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    images[0].save(
        path, "GIF", save_all=True, append_images=images[1:], duration=round(1000 / frames_per_s), loop=0,
        optimize=True,
    )  # fmt: skip


def _write_mp4(picture: _Picture, times: NDArray[np.float64], path: Path, frames_per_s: int) -> None:
    writer = FFMpegWriter(fps=frames_per_s)
    with plot.style(), writer.saving(picture.figure, str(path), dpi=2 * DPI):
        for time_ns in times.tolist():
            picture.show(time_ns)
            writer.grab_frame()


def _drawn(picture: _Picture, times: NDArray[np.float64]) -> Iterator[NDArray[np.uint8]]:
    picture.figure.set_dpi(DPI)
    with plot.style():
        for time_ns in times.tolist():
            picture.show(time_ns)
            picture.figure.canvas.draw()
            # Keep the first layout, because computing a layout takes longer than drawing the frame.
            picture.figure.set_layout_engine("none")
            yield np.asarray(picture.figure.canvas.buffer_rgba())[:, :, :3].copy()  # type: ignore[attr-defined]


def _rings(axes: Axes, size: float, line: str, width: float) -> PathCollection:
    return axes.scatter(
        [], [], size, facecolors="none", edgecolors=SWITCH, linestyles=line, linewidths=width, zorder=4
    )


def _cut(name: str, letters: int = 12) -> str:
    return plot.literal(name if len(name) <= letters else f"{name[: letters - 1]}…")


class _Picture:
    """An image of the networks of several runs side by side at any simulated time."""

    def __init__(self, results: Sequence[Result], titles: Sequence[str] | None) -> None:
        if not results:
            raise ValueError("an image needs at least one run")
        titles = titles or report.run_titles(results)
        if len(titles) != len(results):
            raise ValueError(f"{len(titles)} titles for {len(results)} runs")
        self.figure, axes = plot.new_figure(len(results), WIDTH * len(results), HEIGHT)
        # Number the roots of all runs together, so that a root has the same color in all networks.
        roots = _roots.of(results)
        self._networks = [_Network(*one, roots) for one in zip(axes, results, titles, strict=True)]
        _legend(self.figure, has_dead=any(network.has_dead for network in self._networks))

    @property
    def end_ns(self) -> float:
        """The end of the shortest run, in ns."""
        return min(network.end_ns for network in self._networks)

    @property
    def typical_ns(self) -> float:
        """The time at which the number of links in trees is closest to its average in each run, in ns."""
        return typical_ns([network.scene for network in self._networks])

    @property
    def busiest_ns(self) -> float:
        """The time at which most links are in trees, in the run with the most rows in `tree_links`.

        The time is at most the end of the shortest run.
        """
        scene = max((one.scene for one in self._networks), key=lambda one: len(one.spans["link"]))
        return min(float(scene.clock.frames_ns[scene.busiest]), self.end_ns)

    def show(self, time_ns: float) -> None:
        """Draw all networks at a time, in nanoseconds."""
        for network in self._networks:
            network.show(time_ns)


def _legend(figure: Figure, *, has_dead: bool) -> None:
    """Explain the markers below the networks."""

    def mark(label: str, **look: Any) -> Line2D:
        return Line2D([], [], label=label, **{"linestyle": "none", "markersize": 7, "color": SWITCH, **look})

    open_ring = {"marker": "o", "markerfacecolor": "none", "markersize": 9}
    dead = mark("down", linestyle=":", linewidth=2, marker="x", markersize=5, color=DEAD)
    figure.legend(
        handles=[
            *([dead] if has_dead else []),
            mark("switch", marker="s"),
            mark("host", marker="o", color=HOST),
            mark("root of a tree", **open_ring, markeredgecolor=HUES[0], markeredgewidth=2),
            mark("waits for this root", linestyle="-", linewidth=2.4, color=HUES[0]),
            mark("contributor", marker="o", color=HUES[0]),
            Patch(label="victim", facecolor="none", edgecolor=SWITCH, linestyle="--", linewidth=0.9),
        ],
        loc="outside lower center", ncols=7, frameon=False, fontsize=8, handletextpad=0.4, columnspacing=1.2,
    )  # fmt: skip


class _Dead:
    """The links of a network that are down."""

    def __init__(self, axes: Axes, size: float, width: float) -> None:
        # The lines cover the links that wait for a root.
        self._lines = LineCollection([], colors=DEAD, linewidths=width, linestyles=":", zorder=2.5)
        axes.add_collection(self._lines)
        self._crosses = axes.scatter([], [], size, DEAD, marker="x", linewidths=1.4, zorder=4)
        self._list = axes.text(
            0.0, 0.0, "", size=7, color=DEAD, ha="left", va="top", transform=axes.transAxes
        )

    def show(self, names: Sequence[str], lines: NDArray[np.float32]) -> None:
        """Draw links, given by the names of both directions and their ends, and list them."""
        segments: Any = list(lines)
        self._lines.set_segments(segments)
        self._crosses.set_offsets(lines.mean(axis=1) if segments else NOWHERE)
        # One name for both directions of a link.
        links = list(dict.fromkeys(" - ".join(sorted(name.split("->"))) for name in names))
        more = [f"{len(links) - DEAD_LINKS} more"] if len(links) > DEAD_LINKS else []
        self._list.set_text(plot.literal(f"down: {', '.join(links[:DEAD_LINKS] + more)}") if links else "")


class _Network:
    """The network of one run, drawn in its own axes."""

    def __init__(self, axes: Axes, result: Result, title: str, roots: Roots) -> None:
        self._forest, self._title, self._axes = result.forest, _cut(title, 48), axes
        self.scene = scene = Scene(result, None, roots)
        self.end_ns = float(scene.clock.time_ns[-1]) if len(scene.clock.time_ns) else 0.0
        wiring, place = scene.wiring, scene.position
        self._lines = np.stack([place[wiring.source], place[wiring.target]], axis=1)
        self._host = {name: at for at, name in enumerate(wiring.names[: wiring.hosts])}
        few = len(place) <= FEW
        size = 40.0 if few else 200.0 / np.sqrt(len(place))
        axes.set(xlim=(-0.03, 1.03), ylim=(1.12, -0.08))
        axes.set_axis_off()
        segments: Any = list(self._lines)
        axes.add_collection(LineCollection(segments, colors=IDLE, linewidths=0.8 if few else 0.3, zorder=1))
        self._waiting = LineCollection([], linewidths=2.4 if few else 1.2, zorder=2)
        axes.add_collection(self._waiting)
        hosts, switches = place[: wiring.hosts], place[wiring.hosts :]
        axes.scatter(switches[:, 0], switches[:, 1], 1.5 * size, SWITCH, marker="s", zorder=3, linewidths=0)
        self._hosts = axes.scatter(hosts[:, 0], hosts[:, 1], size, HOST, zorder=3, linewidths=0)
        self._victims = _rings(axes, 4 * size, "--", 0.9)
        self._roots = _rings(axes, 6 * size, "-", 2.0)
        self._dead = _Dead(axes, 1.2 * size, 2.0 if few else 1.0) if self._forest.failures else None
        if len(place) <= NAMED:
            for at, (name, where) in enumerate(zip(wiring.names, place.tolist(), strict=True)):
                side, away = ("top", -9) if at < wiring.hosts else ("bottom", 9)
                axes.annotate(
                    _cut(name), where, (0, away), textcoords="offset points", ha="center", va=side, fontsize=7
                )

    @property
    def has_dead(self) -> bool:
        """Whether any link is down at some time."""
        return self._dead is not None

    def show(self, time_ns: float) -> None:
        links = self._forest.at(time_ns)
        wiring, place, number = self.scene.wiring, self.scene.position, self.scene.number
        at = [number[link.link] for link in links]
        colours = [self._colour(link.tree) for link in links]
        segments: Any = list(self._lines[at])
        self._waiting.set_segments(segments)
        self._waiting.set_color(colours)
        if self._dead:
            names = self._forest.down(time_ns)
            self._dead.show(names, self._lines[[number[name] for name in names]])
        roots = [n for n, link in enumerate(links) if link.is_root]
        self._roots.set_offsets(place[wiring.target[[at[n] for n in roots]]] if roots else NOWHERE)
        self._roots.set_edgecolor([colours[n] for n in roots])
        trees = [tree for tree in self._forest.trees if tree.born_ns < time_ns <= tree.last_ns]
        hosts: list[Any] = [to_rgba(HOST)] * wiring.hosts
        victims = set()
        for tree in trees:
            for one in tree.contributors:
                if one.first_ns < time_ns <= one.last_ns:
                    hosts[self._host[one.host]] = self._colour(tree.tree)
            victims |= {self._host[one.host] for one in tree.victims if one.first_ns < time_ns <= one.last_ns}
        self._hosts.set_facecolor(hosts)
        self._victims.set_offsets(place[sorted(victims)] if victims else NOWHERE)
        now = f"{len(trees)} tree{'' if len(trees) == 1 else 's'}, {len(links)} links" if trees else "no tree"
        words = f"{self._title}   {time_cell(time_ns)[0]}: {now}"
        self._axes.set_title(words, loc="left", fontsize=11, fontweight="bold")

    def _colour(self, tree: int) -> Any:
        return to_rgba(HUES[self.scene.hues[tree - 1]])
