"""The pairs of ranks that exchange messages, from a pattern, a collective operation, or a trace."""

from __future__ import annotations

import re
import tempfile
from os import PathLike
from pathlib import Path

import numpy as np

from silvan import traces
from silvan._core import TraceError
from silvan.fabric.collisions.routes import Ints

PATTERNS = ("shift", "ring", "all-to-all")

_RANKS = re.compile(r"num_ranks (\d+)")
_RANK = re.compile(r"rank (\d+) \{")
_SEND = re.compile(r"(?:\w+: )?send (\d+)b to (\d+)")

#: Maximum number of ranks of a pattern.
MOST_RANKS = 4096


def of_pattern(pattern: str, ranks: int, distance: int | None) -> tuple[Ints, Ints]:
    """Return the pairs of ranks that exchange messages, as two columns.

    `pattern` is one of :data:`PATTERNS`, or a collective operation, ``NAME`` or ``NAME=ALGORITHM``, with the
    messages of all its rounds. Raises `TraceError` for an unknown pattern or algorithm,
    or an invalid number of ranks or distance.
    """
    if not 2 <= ranks <= MOST_RANKS:
        raise TraceError(f"ranks = {ranks}: must be 2 to {MOST_RANKS:,}")
    if distance is not None and pattern != "shift":
        raise TraceError(f"distance = {distance}: affects only `shift`, not `{pattern}`")
    every = np.arange(ranks)
    if pattern == "shift":
        by = 1 if distance is None else distance
        if by % ranks == 0:
            raise TraceError(f"distance = {by}: each of {ranks} ranks would send to itself")
        return every, (every + by) % ranks
    if pattern == "ring":
        pairs = {(one, (one + step) % ranks) for one in range(ranks) for step in (1, ranks - 1)}
        both = np.array(sorted(pairs))
        return both[:, 0], both[:, 1]
    if pattern == "all-to-all":
        sources, destinations = (part.ravel() for part in np.meshgrid(every, every, indexing="ij"))
        return sources[sources != destinations], destinations[sources != destinations]
    return _of_collective(pattern, ranks)


def _of_collective(pattern: str, ranks: int) -> tuple[Ints, Ints]:
    operation, _, algorithm = pattern.partition("=")
    if operation not in traces.COLLECTIVES:
        known = ", ".join((*PATTERNS, *(name for name in traces.COLLECTIVES if name != "all-to-all")))
        raise TraceError(
            f"`{pattern}` is not a pattern; known are {known}; collective operations also as NAME=ALGORITHM"
        )
    algorithms = {operation: algorithm} if algorithm else {}
    sizes = {} if operation == "barrier" else {"bytes": 1024 * ranks}
    with tempfile.TemporaryDirectory(prefix="silvan-") as folder:
        goal = Path(folder) / "pattern.goal"
        traces.generate(operation, goal, algorithms=algorithms, ranks=ranks, **sizes)
        return _pairs(goal)[:2]


def of_trace(path: str | PathLike[str]) -> tuple[Ints, Ints, int]:
    """Return the pairs of ranks that exchange messages in a trace, and the number of ranks of the trace.

    Raises `TraceError` if the trace cannot be read, or if no rank sends a message to another.
    """
    with tempfile.TemporaryDirectory(prefix="silvan-") as folder:
        goal = Path(folder) / "trace.goal"
        # Durations have no effect on the pairs, so any speed will do for nodes that state only their work.
        traces.convert(path, goal, host_flops=1e12, host_bandwidth="1000 GB/s")
        sources, destinations, ranks = _pairs(goal)
    if not len(sources):
        raise TraceError(f"{path}: no rank sends a message to another")
    return sources, destinations, ranks


def _pairs(goal: Path) -> tuple[Ints, Ints, int]:
    """Read the pairs of ranks of a GOAL file that Silvan wrote."""
    pairs: set[tuple[int, int]] = set()
    ranks, rank = 0, -1
    with goal.open(encoding="utf-8") as lines:
        for line in lines:
            if send := _SEND.match(line):
                pairs.add((rank, int(send[2])))
            elif start := _RANK.match(line):
                rank = int(start[1])
            elif count := _RANKS.match(line):
                ranks = int(count[1])
    both = np.array(sorted(pair for pair in pairs if pair[0] != pair[1]), dtype=np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1], ranks
