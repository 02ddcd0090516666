"""The difference of two dumps of counters, for each directed link of a fabric."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from silvan._core import FabricError
from silvan._terminal import clean
from silvan.fabric.collisions.routes import Fabric, Floats
from silvan.hardware import units
from silvan.hardware.readers import FRAMES, PAUSED, RECEIVED, SENT, WAIT, Dump, Key

#: Utilization above which units or the time between the dumps must be wrong, and below which a test at line
#: rate shows wrong units.
ABOVE, BELOW = 1.01, 0.3
#: Bytes of a pause frame of Ethernet on the link.
FRAME_BYTES = 84
#: Relative difference of the two ends of a cable above which a note names it.
DIFFERENT = 0.05


@dataclass(frozen=True)
class Measured:
    """What the ports counted between two dumps; NaN where a port has no counter."""

    #: For each link: bytes that its sender sent or, without its counter, that its receiver received, without
    #: pause frames.
    octets: Floats
    #: For each link: the fraction of the time in which its sender waited or was paused; NaN without a time.
    waits: Floats
    #: For each link: the fraction of its rate that was used; NaN without a time.
    utilization: Floats
    #: Time between the dumps in seconds; None if it is unknown.
    seconds: float | None
    #: Statements about the dumps.
    notes: list[str]


def difference(
    fabric: Fabric,
    before: Dump | None,
    after: Dump,
    *,
    seconds: float | None = None,
    tick_bytes: int = units.TICK_BYTES,
    is_line_rate: bool = False,
) -> Measured:
    """Return what the ports of a fabric counted between two dumps.

    Args:
        fabric: The fabric, whose ports are found by LID or by the name of the node.
        before: The first dump; None if all counters were 0.
        after: The second dump.
        seconds: Time between the dumps, by default that which the dumps state.
        tick_bytes: Byte times of a tick of PortXmitWait.
        is_line_rate: Whether the ports were tested at line rate, so that low utilization shows wrong units.

    Raises:
        FabricError: no port of the dump belongs to the fabric, a counter fell, or the time is not positive.

    """
    notes: list[str] = []
    place = _Places(fabric)
    columns = {name: np.full(len(fabric.links), np.nan) for name in (SENT, RECEIVED, WAIT, PAUSED, FRAMES)}
    unknown: list[Key] = []
    for key, reading in after.ports.items():
        at = place.find(key)
        if at is None:
            unknown.append(key)
            continue
        for name, value in reading.values.items():
            columns[name][at] = value - _earlier(before, after, key, name, value)
    if len(unknown) == len(after.ports):
        raise FabricError(
            f"{after.file}: none of its {len(unknown):,} ports belongs to the fabric, such as "
            f"{_shown(unknown[0])}; a node of the fabric is {fabric.senders[0].node} with LID "
            f"{fabric.senders[0].lid}"
        )
    if unknown:
        notes.append(
            f"{after.file}: {len(unknown):,} ports are not connected in the fabric, such as "
            f"{_shown(unknown[0])}"
        )
    sent, received = columns[SENT], columns[RECEIVED][fabric.opposite]
    octets = np.where(np.isnan(sent), received, sent)
    frames = np.nan_to_num(columns[FRAMES][fabric.opposite])
    if frames.any():
        octets = np.maximum(octets - FRAME_BYTES * frames, 0)
        notes.append(f"{int(frames.sum()):,} pause frames are not part of the traffic of hosts")
    notes += _differences(fabric, sent, received)
    missing = int(np.isnan(octets).sum())
    if missing:
        notes.append(f"{missing:,} of {len(octets):,} directed links have no counter at either end")
    time = _seconds(before, after, seconds)
    if time is None:
        return Measured(octets, np.full(len(octets), np.nan), np.full(len(octets), np.nan), None, notes)
    utilization = octets * 8 / (fabric.rates * 1e9 * time)
    waited = np.fmax(units.waited_ns(columns[WAIT], fabric.rates, tick_bytes), columns[PAUSED] * 1000)
    notes += implausible(fabric, utilization, is_line_rate=is_line_rate)
    return Measured(octets, waited / (time * 1e9), utilization, time, notes)


class _Places:
    """Finds the link on which a port sends."""

    def __init__(self, fabric: Fabric) -> None:
        self._by_lid = {(end.lid, end.number): at for at, end in enumerate(fabric.senders)}
        self._by_name: dict[Key, list[int]] = defaultdict(list)
        self._of_host: dict[str, list[int]] = defaultdict(list)
        is_first = set(fabric.first.tolist())
        for at, end in enumerate(fabric.senders):
            self._by_name[clean(end.node), end.number].append(at)
            if at in is_first:
                self._of_host[clean(end.node)].append(at)

    def find(self, key: Key) -> int | None:
        """Return the number of the link; None for a port that is not connected.

        Raises `FabricError` if several nodes have the name.
        """
        node, number = key
        if isinstance(node, int):
            return self._by_lid.get((node, number))
        # Ports of an adapter with several ports are hosts with the names `name/1`, `name/2`, ...
        found = self._by_name.get(key) or self._by_name.get((f"{node}/{number}", number), [])
        if not found and len(own := self._of_host.get(node, [])) == 1:
            # Exporters number the ports of adapters, which are hosts of their own here.
            found = own
        if len(found) > 1:
            raise FabricError(f"{len(found)} nodes have the name `{node}`; use counters by LID")
        return found[0] if found else None


def _earlier(before: Dump | None, after: Dump, key: Key, name: str, value: int) -> int:
    if before is None:
        return 0
    reading = before.ports.get(key)
    if reading is None or name not in reading.values:
        raise FabricError(
            f"{after.at(after.ports[key].line)}: {_shown(key)} has {name}, but not in {before.file}; dump "
            "the same counters of the same ports twice"
        )
    earlier = reading.values[name]
    if value < earlier:
        raise FabricError(
            f"{after.at(after.ports[key].line)}: {name} of {_shown(key)} fell from {earlier:,} "
            f"({before.at(reading.line)}) to {value:,}; the counters were cleared, or the dumps are exchanged"
        )
    return earlier


def _seconds(before: Dump | None, after: Dump, given: float | None) -> float | None:
    if given is None:
        times = (0 if before is None else before.time_ns), after.time_ns
        if times[0] is None or times[1] is None or (before is None and after.kind == "Prometheus"):
            return None
        given = (times[1] - times[0]) / 1e9
    if not (math.isfinite(given) and given > 0):
        raise FabricError(f"seconds = {given:g}: the time between the dumps must be positive")
    return given


def _differences(fabric: Fabric, sent: Floats, received: Floats) -> list[str]:
    """Return a note if the ends of cables counted differently."""
    largest = np.fmax(sent, received)
    counted = np.nan_to_num(largest)
    relevant = counted > 0.01 * counted.max() if len(counted) else counted > 0
    ratio = np.zeros(len(sent))
    np.divide(np.abs(sent - received), largest, out=ratio, where=relevant & ~np.isnan(sent - received))
    wrong = np.flatnonzero(ratio > DIFFERENT)
    if not len(wrong):
        return []
    worst = int(wrong[np.argmax(ratio[wrong])])
    return [
        f"the ends of {len(wrong):,} links counted differently, {fabric.links[worst]} by {ratio[worst]:.0%}: "
        "the dumps are not of one time, or a cable is not where the fabric has it"
    ]


def implausible(fabric: Fabric, utilization: Floats, *, is_line_rate: bool) -> list[str]:
    """Return notes about a utilization that only wrong units or a wrong time can explain."""
    known = utilization[~np.isnan(utilization)]
    if not len(known):
        return []
    at = int(np.nanargmax(utilization))
    if known.max() > ABOVE:
        return [
            f"units? {fabric.links[at]} would have sent at {known.max():.0%} of its rate: check the time "
            "between the dumps, and whether data are counted in words of 4 bytes or in bytes"
        ]
    if is_line_rate and known.max() < BELOW:
        return [
            f"units? no link reached {BELOW:.0%} of its rate in a test at line rate, at most "
            f"{known.max():.0%}: data may be words of 4 bytes that were read as bytes"
        ]
    return []


def _shown(key: Key) -> str:
    node = f"LID {key[0]}" if isinstance(key[0], int) else key[0]
    return f"port {key[1]} of {node}"
