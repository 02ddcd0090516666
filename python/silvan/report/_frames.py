"""Converts the trees of a run to spans of frames in which each link is in a tree, for the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from silvan.results import Result

#: Maximum number of frames. If there are more samples, several of them form a frame.
MOST_FRAMES = 1_000


@dataclass(frozen=True)
class Clock:
    """The sampling intervals of a run, and the frame to which each belongs."""

    #: Ends of the intervals in ns.
    time_ns: NDArray[np.float64]
    #: Number of samples per frame; the last frame may have fewer.
    step: int

    @classmethod
    def of(cls, result: Result, most: int = MOST_FRAMES) -> Clock:
        """Return the clock of a run, with at most `most` frames."""
        times = result.numpy("network")["time_ns"].astype(np.float64)
        return cls(times, max(1, -(-len(times) // most)))

    @property
    def frames_ns(self) -> NDArray[np.float64]:
        """End of each frame in ns."""
        last = np.arange(self.step - 1, len(self.time_ns) + self.step - 1, self.step)
        return self.time_ns[np.minimum(last, len(self.time_ns) - 1)] if len(self.time_ns) else self.time_ns

    def frame(self, time_ns: NDArray[Any]) -> NDArray[np.int64]:
        """Return the frame of each interval whose end, in ns, is given."""
        frames: NDArray[np.int64] = np.searchsorted(self.time_ns, time_ns) // self.step
        return frames

    def mean(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return the mean of the samples in each frame, along the last axis, ignoring NaN.

        NaN for a frame without other samples.
        """
        values = values.astype(np.float64)
        starts = np.arange(0, values.shape[-1], self.step)
        present = ~np.isnan(values)
        sums = np.add.reduceat(np.where(present, values, 0.0), starts, axis=-1)
        counts = np.add.reduceat(present, starts, axis=-1)
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def spans(result: Result, clock: Clock, place: dict[str, int]) -> dict[str, NDArray[np.int64]]:
    """Return spans of frames in which a link keeps its position in a tree, ordered by link and frame.

    The keys are `link`, `first` and `last` (frames), `tree`, `trees`, `waits_for` (a link), `depth`, `queued`
    and `held` (maximum bytes), `share` (share of the samples, scaled to 0 to 255), and `isolated` (1 if only
    packets in special queues wait). `place` maps link names to numbers.
    """
    rows = result.coded("tree_links")
    link, waits_for = (_numbers(rows[name], place) for name in ("link", "waits_for"))
    columns = [np.asarray(rows[name]).astype(np.int64) for name in ("tree", "trees", "depth", "isolated")]
    queued, held = (np.asarray(rows[name]).astype(np.int64) for name in ("queued_bytes", "downstream_bytes"))
    frame = clock.frame(np.asarray(rows["time_ns"]))
    order = np.lexsort((frame, link))
    sort = [values[order] for values in (link, frame, waits_for, *columns, queued, held)]
    link, frame, waits_for, tree, trees, depth, isolated, queued, held = sort
    names = (
        "link", "first", "last", "tree", "trees", "waits_for", "depth", "isolated", "queued", "held", "share",
    )  # fmt: skip
    if not len(link):
        return {name: np.zeros(0, np.int64) for name in names}
    # First reduce each frame to its last sample, then merge equal consecutive frames.
    ends = _ends(link, frame)
    samples = np.diff(ends, prepend=-1)
    starts = ends - samples + 1
    queued, held = np.maximum.reduceat(queued, starts), np.maximum.reduceat(held, starts)
    link, frame, waits_for, tree, trees, depth, isolated = (
        values[ends] for values in (link, frame, waits_for, tree, trees, depth, isolated)
    )
    share = np.minimum(samples * 255 // clock.step, 255)
    # Round shares with the same appearance on the page to the same value, so that more frames are equal.
    share = np.where(share < 255, share // 32 * 32 + 16, share)
    follows = frame - np.arange(len(frame))
    ends = _ends(link, follows, tree, trees, waits_for, depth, isolated, share)
    starts = np.concatenate([[0], ends[:-1] + 1])
    found = (
        link[ends], frame[starts], frame[ends], tree[ends], trees[ends], waits_for[ends], depth[ends],
        isolated[ends], np.maximum.reduceat(queued, starts), np.maximum.reduceat(held, starts), share[ends],
    )  # fmt: skip
    return dict(zip(names, found, strict=True))


def _ends(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """Return the index of the last row of each sequence of equal rows."""
    changes = np.zeros(len(columns[0]) - 1, bool)
    for column in columns:
        changes |= column[1:] != column[:-1]
    return np.append(np.flatnonzero(changes), len(columns[0]) - 1)


def _numbers(column: Any, place: dict[str, int]) -> NDArray[np.int64]:
    codes, names = column
    # The dictionary may contain names that do not occur in any row.
    numbers: NDArray[np.int64] = np.array([place.get(name, 0) for name in names] or [0], np.int64)[codes]
    return numbers
