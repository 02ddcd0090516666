"""Counts how many flows share links on fat trees, without simulating packets.

>>> import silvan
>>> tree = {"kind": "modified-k-ary-n-tree", "k": 4, "n": 3, "horizontal_width": 2}
>>> fixed = silvan.contention(tree, "default", permutations=20)
>>> adaptive = silvan.contention(tree, "flow-count", permutations=20)
>>> bool(adaptive.maximum.mean() < fixed.maximum.mean())
True
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from silvan import _core
from silvan._progress import PATIENCE_S
from silvan._terminal import PlainConsole


@dataclass(frozen=True)
class Contention:
    """The results of random permutations; each array has one value per permutation.

    The contention of a flow is the largest number of flows on any link of its route, including itself.
    """

    #: Number of flows, which is the number of hosts that the permutation does not map to themselves.
    flows: NDArray[np.int64]
    #: Largest contention of any flow.
    maximum: NDArray[np.int64]
    #: Mean contention of the flows.
    mean: NDArray[np.float64]
    #: Mean number of switches on the route of a flow.
    mean_switches: NDArray[np.float64]


def contention(
    topology: Mapping[str, Any],
    routing: str = "flow-count",
    *,
    permutations: int = 100,
    seed: int = 1,
    first: int = 0,
    cache_entries: int | None = None,
    progress: bool | Callable[[int, int], object] = False,
) -> Contention:
    """Set up the flows of random permutations one by one, and count how many flows share each link.

    Args:
        topology: A fat tree, as the table ``[topology]`` of a scenario.
        routing: ``default`` (D-mod-K), or adaptive by ``flow-count``, ``bytes`` or ``random``.
        permutations: Number of permutations. The flows of each are set up on an empty network, in random
            order.
        seed: Seed of the random numbers.
        first: Number of the first permutation, to divide the work among several calls.
        cache_entries: Entries of the route cache of an input port; unlimited by default.
        progress: ``True`` for a bar on the terminal, or a function that is called with the number of
            finished permutations and the number of all permutations.

    Raises:
        SilvanError: the topology is wrong or not a fat tree, the routing is unknown, or a number is out of
            range.

    """
    for name, value, low in (("permutations", permutations, 1), ("seed", seed, 0), ("first", first, 0)):
        if not low <= value < 2**63:
            raise _core.SilvanError(f"{name} = {value}: must be {low} to {2**63 - 1}")
    if cache_entries is not None and not 0 <= cache_entries < 2**32:
        raise _core.SilvanError(f"cache_entries = {cache_entries}: must be 0 to {2**32 - 1}")
    with _reporter(progress, permutations) as report:
        columns = _core.contention(
            json.dumps(dict(topology)), routing, permutations, seed, first, cache_entries, report
        )
    return Contention(
        flows=np.array(columns["flows"], dtype=np.int64),
        maximum=np.array(columns["maximum"], dtype=np.int64),
        mean=np.array(columns["mean"], dtype=np.float64),
        mean_switches=np.array(columns["mean_switches"], dtype=np.float64),
    )


@contextmanager
def _reporter(
    progress: bool | Callable[[int, int], object], total: int
) -> Iterator[Callable[[int], object] | None]:
    if not progress:
        yield None
        return
    if callable(progress):
        notify = progress
        yield lambda done: notify(done, total)
        notify(total, total)
        return
    columns = (TextColumn("permutations"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    started = time.monotonic()
    with Bar(*columns, console=PlainConsole(stderr=True), transient=True) as bar:
        handle = bar.add_task("permutations", total=total, visible=False)

        def show(done: int) -> None:
            bar.update(handle, completed=done, visible=time.monotonic() - started >= PATIENCE_S)

        yield show
