"""What measurements determine only together: sums of delays, and the share of payload on a link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from silvan.calibration import keys
from silvan.calibration.closed import WHOLE_ROUND_TRIP, Closed
from silvan.calibration.keys import CABLE, HEADER, OVERHEAD, SWITCH, Values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silvan.calibration.fit import Masks, Problem

#: Delays of a message, in the order in which a sum names them.
DELAYS = (OVERHEAD, SWITCH, CABLE)
#: Relative change of a key below which it does not compensate another one.
WORTH = 1e-3


@dataclass(frozen=True)
class Sum:
    """A sum of delays that the latency tests determine."""

    #: Number of times that each key occurs.
    terms: dict[str, float]
    #: Its value in seconds.
    value_s: float
    #: Size in bytes of the message whose transmission the sum contains; None for a difference.
    size: int | None = None

    def __str__(self) -> str:
        parts = [f"{_count(times)}{name}" for name, times in self.terms.items() if times]
        parts += [] if self.size is None else [f"sending {self.size} B"]
        return f"{' + '.join(parts)} = {keys.time_in_words(self.value_s)}"


def _count(times: float) -> str:
    return "" if times == 1 else f"{times:.4g} "


def of_latency(
    model: Closed, values: Values, masks: Masks, modeled: Sequence[NDArray[np.float64]]
) -> list[Sum]:
    """Return the sums that latency tests determine, from the shortest path to longer ones.

    One path determines one sum, a longer one the delays of the further switches and cables. `modeled` has the
    modeled times of rows in seconds.
    """
    tests = sorted(
        (route.cables, one.rows[0].size, float(times[0]))
        for one, route, mask, times in zip(model.measurements, model.routes, masks, modeled, strict=True)
        if one.kind == "latency" and one.operation not in WHOLE_ROUND_TRIP and mask.any()
    )
    found: list[Sum] = []
    shorter = 0.0
    for cables, size, time in tests:
        if not found:
            found.append(Sum({OVERHEAD: 2.0, SWITCH: cables - 1, CABLE: cables}, time, size))
        elif cables > shorter:
            more = {SWITCH: cables - shorter, CABLE: cables - shorter}
            found.append(Sum(more, sum(times * values[name] for name, times in more.items())))
        shorter = cables
    return found


def directions(problem: Problem, fitted: Sequence[str], values: Values, masks: Masks) -> list[str]:
    """Return a sentence for each delay that is not fitted because fitted ones have the same effect.

    `masks` selects the latency tests. The direction is that of a singular vector of the Jacobian with the
    singular value 0, in units of keys.
    """
    told = []
    for name in DELAYS:
        if name in fitted or values[name] <= 0.0:
            continue
        jacobian = problem.jacobian([*fitted, name], values, masks)
        vector = null_vector(jacobian)
        if vector is None or abs(vector[-1]) < WORTH:
            continue
        slopes = {key: _slope(key, values, problem.mtu) for key in (*fitted, name)}
        move = {
            key: part * slopes[key] / (vector[-1] * slopes[name])
            for key, part in zip(fitted, vector, strict=False)
        }
        if parts := [_part(key, name, change) for key, change in move.items() if abs(change) > WORTH]:
            told.append(f"1 {_unit(name)} more of {name} has the same effect as {' and '.join(parts)}")
    return told


def null_vector(jacobian: np.ndarray) -> np.ndarray | None:
    """Return the singular vector of a matrix whose singular value is 0, or None without one."""
    if not jacobian.size:
        return None
    _, sizes, vectors = np.linalg.svd(jacobian, full_matrices=True)
    smallest = sizes[-1] if len(sizes) == jacobian.shape[1] else 0.0
    return vectors[-1] if smallest <= 1e-4 * sizes[0] else None


def _slope(name: str, values: Values, mtu: int) -> float:
    """Return the change of a key per change of its coordinate."""
    return mtu + values[name] if name == HEADER else values[name]


def _unit(name: str) -> str:
    return {"time": "ns", "size": "B", "rate": "Gbit/s"}[keys.KEYS[name].unit]


def _part(key: str, other: str, change: float) -> str:
    """Return the change of a key that has the effect of one unit of another key."""
    scale = {"time": 1e9, "size": 1.0, "rate": 8e-9}
    amount = -change * scale[keys.KEYS[key].unit] / scale[keys.KEYS[other].unit]
    more = "more" if amount > 0 else "less"
    return f"{abs(amount):.3g} {_unit(key)} {more} of {key}"
