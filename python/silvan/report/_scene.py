"""Data that all images of a run's network need: nodes and links, positions, colors of trees."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from silvan.report import _picture
from silvan.report._frames import Clock, spans
from silvan.report._layout import Wiring, place
from silvan.report._roots import Roots
from silvan.report._roots import of as of_results

if TYPE_CHECKING:
    from silvan.results import Result


class Scene:
    """The network of a run with a forest. `result` must contain the table ``wiring``."""

    def __init__(self, result: Result, clock: Clock | None = None, roots: Roots | None = None) -> None:
        self.clock = clock or Clock.of(result)
        self.wiring = _wiring(result)
        #: Maps link names to numbers.
        self.number = {name: at for at, name in enumerate(self.wiring.link_names)}
        self._result = result
        #: Maps root names to numbers; the runs of a report share these numbers.
        self.roots = of_results([result]) if roots is None else roots

    @cached_property
    def position(self) -> NDArray[np.float32]:
        """The coordinates x and y of each node, from 0 to 1; y increases downwards."""
        return place(self.wiring)

    @cached_property
    def spans(self) -> dict[str, NDArray[np.int64]]:
        """The spans of frames in which links are in trees; see :func:`silvan.report._frames.spans`."""
        return spans(self._result, self.clock, self.number)

    @cached_property
    def hues(self) -> NDArray[np.int64]:
        """The color number of each tree, which follows from the number of its root."""
        roots = self._result.numpy("trees")["root"].tolist()
        return np.array([self.roots[root] % len(_picture.HUES) for root in roots], np.int64)

    @cached_property
    def links_in_trees(self) -> NDArray[np.int64]:
        """The number of links in trees at each frame."""
        links = np.zeros(len(self.clock.frames_ns) + 1, np.int64)
        np.add.at(links, self.spans["first"], 1)
        np.add.at(links, self.spans["last"] + 1, -1)
        sizes: NDArray[np.int64] = np.cumsum(links)[:-1]
        return sizes

    @cached_property
    def averages_from_ns(self) -> float:
        """The time from which averages are taken, that is the end of the warm-up, in ns."""
        return float(self._result.summary["averages_from_ns"])

    @property
    def busiest(self) -> int:
        """The frame with the most links in trees, or the first frame if there are no trees."""
        return int(np.argmax(self.links_in_trees)) if len(self.links_in_trees) else 0

    @property
    def typical(self) -> int:
        """The frame of :func:`typical_ns`."""
        return int(np.searchsorted(self.clock.frames_ns, typical_ns([self])))

    def still(self) -> str:
        """Return the network at its typical frame as SVG."""
        ends = (self.wiring.source, self.wiring.target)
        return _picture.still(self.position, ends, self.wiring.hosts, self.spans, (self.typical, self.hues))


def typical_ns(scenes: Sequence[Scene]) -> float:
    """Return the time (ns) at which the number of links in trees is closest to its average in each run.

    The averages and the time exclude the warm-up. Without frames after the warm-up, the result is the end of
    the shortest run. The function does not return the time with the most links in trees, because it often
    belongs to a transient at the start, which congestion control does not shorten. A report initially shows
    the time of this function, too (``mostTelling`` in ``main.js``).
    """
    since = max(scene.averages_from_ns for scene in scenes)
    end = min(
        (float(scene.clock.frames_ns[-1]) for scene in scenes if len(scene.clock.frames_ns)), default=0.0
    )
    finest = max(scenes, key=lambda scene: len(scene.clock.frames_ns)).clock.frames_ns.astype(float)
    times = finest[(finest > since) & (finest <= end)]
    if not len(times):
        return end
    away = np.zeros(len(times))
    for scene in scenes:
        frames, sizes = scene.clock.frames_ns.astype(float), scene.links_in_trees
        mean = float(sizes[frames > since].mean())
        shown = sizes[np.minimum(np.searchsorted(frames, times), len(sizes) - 1)]
        away += np.abs(shown - mean) / max(mean, 1.0)
    best = np.flatnonzero(away <= away.min() + 1e-9)
    return float(times[best[len(best) // 2]])


def _wiring(result: Result) -> Wiring:
    columns = result.numpy("wiring")
    hosts = [one["host"] for one in result.summary["hosts"]]
    ends = [*zip(columns["from_node"], columns["from_kind"], strict=True)]
    ends += zip(columns["to_node"], columns["to_kind"], strict=True)
    switches = list(dict.fromkeys(name for name, kind in ends if kind == "switch"))
    # Reduction units are connected as hosts are, but the summary does not list them.
    known = {*hosts}
    hosts += dict.fromkeys(name for name, kind in ends if kind == "host" and name not in known)
    # Include the kind in the key, because a switch may have the same name as a host.
    number = {(name, "host"): at for at, name in enumerate(hosts)}
    number |= {(name, "switch"): len(hosts) + at for at, name in enumerate(switches)}
    nodes = np.array([number[end] for end in ends] or [0], np.uint32)
    count = len(columns["link"])
    return Wiring(
        [*hosts, *switches], len(hosts), columns["link"].tolist(), nodes[:count], nodes[count : 2 * count]
    )
