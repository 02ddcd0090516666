"""Compares counters of ports before and after the tests with the routes of the scenario.

A test over another adapter than the one that the scenario names, or over other routes, shows in the bytes of
each link.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from silvan import _files
from silvan._core import Scenario
from silvan.calibration.measurements import CalibrationError, Measurement
from silvan.fabric.collisions import routes
from silvan.fabric.inference.measured import difference
from silvan.hardware import readers

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Share of the bytes of the busiest link above which a link that no test uses is named, and below which a
#: link that a test uses counts as idle.
MUCH, NOTHING = 0.05, 1e-6
#: Most links in a list.
LINKS_AT_MOST = 5


def files_of(text: str) -> tuple[Path | None, Path]:
    """Divide `[BEFORE,]AFTER` into two files; without the first, counters were 0 before the tests."""
    before, comma, after = text.rpartition(",")
    if comma and (not before or not after):
        raise CalibrationError(f"`{text}`: must be BEFORE,AFTER with two files, or AFTER")
    return (Path(before) if comma else None), Path(after)


def sentences(
    scenario: Scenario, tests: Sequence[Measurement], before: Path | None, after: Path
) -> list[str]:
    """Return a sentence for links that carried bytes although no test uses them, and for idle links of tests.

    Raises :class:`silvan.FabricError` if a dump is invalid or does not belong to the fabric.
    """
    with tempfile.TemporaryDirectory(prefix="silvan-calibrate-") as folder:
        file = Path(folder) / "scenario.toml"
        _files.write_text(file, scenario.to_toml(standalone=True))
        fabric = routes.read([file])
    number = {name: at for at, name in enumerate(fabric.hosts)}
    pairs = sorted({(number[source], number[to]) for one in tests for source, to in _pairs(one)})
    if not pairs:
        return []
    sources, destinations = (np.array(ends, dtype=np.int64) for ends in zip(*pairs, strict=True))
    _, links, _ = fabric.ways(sources, destinations)
    found = difference(fabric, None if before is None else readers.read(before), readers.read(after))
    most = float(np.nanmax(found.octets))
    is_used = np.zeros(len(fabric.links), dtype=bool)
    is_used[links] = True
    idle = np.flatnonzero(is_used & (found.octets <= NOTHING * most))
    # Answers take the way back.
    is_used[fabric.opposite[links]] = True
    foreign = np.flatnonzero(~is_used & (found.octets > MUCH * most))
    told = []
    if len(idle):
        told.append(
            f"{after.name}: {_listed(fabric.links, idle)} carried no bytes, although the tests use "
            f"{_them(idle)}: the tests used other adapters or routes than the scenario states"
        )
    if len(foreign):
        told.append(
            f"{after.name}: {_listed(fabric.links, foreign)} carried more than {100 * MUCH:.0f} % of the "
            f"busiest link, although no test uses {_them(foreign)}: another adapter, other routes or other "
            "traffic"
        )
    return told


def _pairs(one: Measurement) -> Iterator[tuple[str, str]]:
    """Yield sender and receiver of each route of a test; of collective operations, those of a ring."""
    if one.kind == "collective":
        if len(one.hosts) > 1:
            yield from zip(one.hosts, (*one.hosts[1:], one.hosts[0]), strict=True)
        return
    yield one.hosts[0], one.hosts[1]
    if one.kind == "latency":
        yield one.hosts[1], one.hosts[0]


def _them(numbers: NDArray[np.int64]) -> str:
    return "it" if len(numbers) == 1 else "them"


def _listed(names: Sequence[str], numbers: NDArray[np.int64]) -> str:
    shown = ", ".join(names[at] for at in numbers[:LINKS_AT_MOST])
    more = len(numbers) - LINKS_AT_MOST
    return f"{shown} and {more} more" if more > 0 else shown
