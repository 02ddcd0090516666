"""Finds measurements that the fitted model does not explain, and states each in a sentence."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from silvan.calibration import keys
from silvan.calibration.measurements import Measurement

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silvan.calibration.fit import Fit, Masks

#: Neighboring rows with residuals of one sign, and the least relative residual, that make an anomaly. A file
#: with fewer rows needs all of them.
NEIGHBORS, WORTH = 5, 0.05
#: Rows of a file that are enough if all of them have such residuals.
ROWS_AT_LEAST = 2
#: Ratio of the typical to the shortest latency above which other traffic is likely.
JITTER = 1.5
#: Growth of the time of a collective operation, relative to that of its size, that is a jump.
JUMP = 1.25
#: Latency of a switch with its cable above which another reason is likely, in seconds.
LONG_HOP_S = 1e-6
#: Size in bytes from which on a bandwidth is that of the link, and by how much it may exceed the link's.
LARGE, ABOVE = 65536, 0.005
#: Factor by which the intervals of the Jacobian and of the bootstrap may differ in width.
WIDER = 2.0


@dataclass(frozen=True)
class Run:
    """Neighboring rows of a measurement that are slower or faster than the model."""

    #: Number of the measurement, and its first and last row.
    measurement: int
    first: int
    last: int
    #: Median of measured over modeled time.
    ratio: float


def runs(residuals: Sequence[NDArray[np.float64]]) -> list[Run]:
    """Return all runs of residuals of one sign that exceed 5 % over five or more neighboring rows."""
    found = []
    for number, own in enumerate(residuals):
        signs = np.where(own > math.log1p(WORTH), 1, np.where(own < -math.log1p(WORTH), -1, 0))
        start = 0
        for at in range(1, len(signs) + 1):
            if at < len(signs) and signs[at] == signs[start]:
                continue
            is_whole = at - start == len(signs) >= ROWS_AT_LEAST
            if signs[start] and (at - start >= NEIGHBORS or is_whole):
                ratio = float(np.exp(np.median(own[start:at])))
                found.append(Run(number, start, at - 1, ratio))
            start = at
    return found


def without_slow(residuals: Sequence[NDArray[np.float64]], masks: Masks) -> list[NDArray[np.bool_]]:
    """Return masks without rows of runs that are slower than the model."""
    left = [mask.copy() for mask in masks]
    for run in runs(residuals):
        if run.ratio > 1.0:
            left[run.measurement][run.first : run.last + 1] = False
    return left


def sentences(measurements: Sequence[Measurement], found: Fit, masks: Masks) -> list[str]:
    """Return a sentence for each anomaly."""
    told = [
        _of_run(measurements[run.measurement], run, masks[run.measurement]) for run in runs(found.residuals)
    ]
    told += [text for one in measurements if (text := _of_jitter(one))]
    told += [text for one in measurements for text in _of_jumps(one)]
    told += [
        _of_end(name, found.values[name])
        for name in found.at_end
        if name != keys.HEADER or found.values[name] > 1.0 or _is_above(measurements, found)
    ]
    hop = found.values[keys.SWITCH] + found.values[keys.CABLE]
    if keys.SWITCH in found.names and hop > LONG_HOP_S:
        told.append(
            f"a switch and its cable take {keys.time_in_words(hop)}: unusually long; a detour, a retimer or "
            "other traffic on the longer path is likely, so compare it with another pair of hosts"
        )
    return told


def of_intervals(found: Fit) -> list[str]:
    """Return a sentence for each key whose interval is much wider if rows are resampled."""
    told = []
    for name, interval in found.intervals.items():
        other = found.resampled.get(name)
        if other is not None and interval[1] - interval[0] > 0:
            ratio = (other[1] - other[0]) / (interval[1] - interval[0])
            if ratio > WIDER:
                told.append(
                    f"the interval of {name} is {ratio:.1f} times as wide if rows are resampled: few rows "
                    "determine it"
                )
    return told


def _of_run(one: Measurement, run: Run, mask: NDArray[np.bool_]) -> str:
    """Return the sentence for a run of rows."""
    first, last = one.rows[run.first].size, one.rows[run.last].size
    if run.first == 0 and run.last == len(one.rows) - 1:
        where = "all sizes"
    elif run.last == len(one.rows) - 1:
        where = f"sizes from {size_in_words(first)} on"
    elif run.first == 0:
        where = f"sizes up to {size_in_words(last)}"
    else:
        where = f"sizes from {size_in_words(first)} to {size_in_words(last)}"
    used = "" if mask[run.first : run.last + 1].any() else "; these rows are not used for the fit"
    speed = 100 / run.ratio
    if one.kind == "latency":
        more = "more" if run.ratio > 1.0 else "less"
        what = f"take {100 * abs(run.ratio - 1):.0f} % {more} time than the model"
    else:
        what = f"reach {speed:.0f} % of the model"
    return f"{one.name}: {where} {what}: {_reason(one, run)}{used}"


def _reason(one: Measurement, run: Run) -> str:
    if run.ratio < 1.0:
        return "faster than the fitted values permit, so they do not suit this test"
    if one.kind == "collective":
        return "a change of protocol or algorithm, a host limit or other traffic"
    if one.kind == "bandwidth" and run.last == len(one.rows) - 1:
        return "host limit, a link with a lower rate or errors, or other traffic"
    if one.kind == "latency" and run.first == 0:
        # A constant delay, which is small next to the time of large messages.
        return "other hosts or a longer path than stated, a link with errors, or other traffic"
    return "a change of protocol in the host, or other traffic"


def _of_jitter(one: Measurement) -> str | None:
    ratios = [row.time_s / row.least_s for row in one.rows if row.least_s]
    if ratios and float(np.median(ratios)) > JITTER:
        return (
            f"{one.name}: the typical latency is {np.median(ratios):.1f} times the shortest one: "
            "other traffic, or a host that saves power"
        )
    return None


def _of_jumps(one: Measurement) -> list[str]:
    """Return a sentence for each size from which on a collective operation takes disproportionately long."""
    if one.kind != "collective":
        return []
    return [
        f"{one.name}: from {size_in_words(first.size)} to {size_in_words(second.size)}, the time grows by a "
        f"factor of {second.time_s / first.time_s:.2g}: a change of protocol or algorithm, "
        "which the model does not contain"
        for first, second in itertools.pairwise(one.rows)
        if second.time_s / first.time_s > JUMP * second.size / first.size
    ]


def _is_above(measurements: Sequence[Measurement], found: Fit) -> bool:
    """Return whether a bandwidth of large messages exceeds that of a link without headers."""
    large = [
        own[[row.size >= LARGE for row in one.rows]]
        for one, own in zip(measurements, found.residuals, strict=True)
        if one.kind == "bandwidth"
    ]
    return any(len(own) and float(np.median(own)) < -ABOVE for own in large)


def _of_end(name: str, value: float) -> str:
    if name == keys.HEADER:
        if value > 1.0:
            return (
                f"packet.header is at its upper limit of {keys.HEADER_AT_MOST:g} B: headers do not explain "
                "the bandwidth, so a host limit is likely (--fix packet.header, --fit host.injection_rate)"
            )
        return (
            "packet.header is 0 B: the tests reach the whole rate of the link or more, "
            "so topology.link_rate may be too low"
        )
    return (
        f"{name} is at the end of its range ({keys.in_words(name, value)}): the tests do not agree with the "
        "number of switches between their hosts in the scenario"
    )


def size_in_words(size: int) -> str:
    """Return a size with a binary unit if it is a whole number of it.

    >>> size_in_words(4 << 20), size_in_words(3000)
    ('4 MiB', '3000 B')
    """
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale and size % scale == 0:
            return f"{size // scale} {unit}"
    return f"{size} B"
