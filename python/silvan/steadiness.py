"""Tests whether the quantities that a run averages are in steady state after the warm-up.

Averages from the end of the warm-up to the end of the run describe a network only if the averaged quantities
are level over this time. Otherwise they depend on the warm-up and on the duration, and repeating a run with
other seeds does not show that, because all seeds have the same transient.

Each quantity (see :func:`silvan._series.of_run`) is tested with the diagnostic of Geweke on batch means: the
mean of the first fifth of the averaged time is compared with that of its second half (J. Geweke, Evaluating
the accuracy of sampling-based approaches to the calculation of posterior moments, Bayesian Statistics 4,
1992). The standard error is that of batch means, corrected for their correlation (first order). A trend must
be significant and change the mean by more than :data:`LEVEL`.

The time from which a quantity is level is the truncation point of MSER-5 (K. P. White, An effective
truncation heuristic for bias reduction in simulation output, Simulation 69, 1997; K. P. White, M. J. Cobb and
S. C. Spratt, A comparison of five steady-state truncation heuristics for simulation, Winter Simulation
Conference 2000), or the first later time after which the test finds no trend.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from silvan import _series
from silvan._core import SilvanError
from silvan._statistics import two_sided_p

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silvan.results import Result
    from silvan.types import SteadinessSummary, Summary, TrendSummary

#: Number of batches of the test, and of those in its early and in its late part.
BATCHES, EARLY, LATE = 20, 4, 10
#: Minimum number of values for a test. The correlation of fewer values cannot be estimated.
LEAST = 40
#: Relative difference between the early and the late mean up to which a quantity is level.
LEVEL = 0.05
#: Probability that a run in steady state has a trend in any of its quantities, if values are independent or
#: if their correlation is short compared with the averaged time.
ERROR = 0.01
#: Number of values in a batch of MSER-5.
MSER_BATCH = 5
#: Largest correlation of neighboring batches for which standard errors are corrected.
_LARGEST_CORRELATION = 0.9
#: Maximum number of quantities in a sentence.
_NAMED = 3


@dataclass(frozen=True)
class Trend:
    """A trend in a series."""

    #: Means of the early and of the late part of the series.
    early: float
    late: float
    #: Number of values before the part that is level; None if no part of the second half is.
    level_from: int | None


def trend(values: NDArray[np.float64], error: float = ERROR) -> Trend | None:
    """Return the trend in a series without NaN; None if it is level.

    Raises `ValueError` for a series with fewer than :data:`LEAST` values.
    """
    if len(values) < LEAST:
        raise ValueError(f"{len(values)} values, but a test of a trend needs {LEAST}")
    p, early, late = geweke(values)
    if not _is_trend(p, early, late, error):
        return None
    at = truncation(values)
    step = max(1, len(values) // BATCHES)
    most = min(len(values) // 2, len(values) - BATCHES)
    while at is not None and at <= most:
        if at and not _is_trend(*geweke(values[at:]), error):
            return Trend(early, late, at)
        at += step
    return Trend(early, late, None)


def geweke(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the probability of the difference between the early and the late mean, and these means.

    The series has at least one value per batch.
    """
    each = len(values) // BATCHES
    batches = values[len(values) - each * BATCHES :].reshape(BATCHES, each).mean(axis=1)
    early, late = batches[:EARLY], batches[-LATE:]
    # A trend within a part must not hide the difference between the parts.
    residuals = [_detrended(part) for part in (early, late)]
    freedom = EARLY + LATE - 4
    squares = sum(float(part @ part) for part in residuals)
    difference = float(early.mean() - late.mean())
    if squares <= freedom * (1e-9 * float(np.abs(batches).max())) ** 2:
        return float(abs(difference) <= 1e-9 * float(np.abs(batches).max())), early.mean(), late.mean()
    own = sum(float(part[1:] @ part[:-1]) for part in residuals) / squares
    # The estimate is too small, because residuals are those of a line with few points.
    correlation = min(max(own + (1 + 4 * max(own, 0.0)) / LATE, 0.0), _LARGEST_CORRELATION)
    inflation = (1 + correlation) / (1 - correlation)
    deviation = math.sqrt(squares / freedom * inflation * (1 / EARLY + 1 / LATE))
    return two_sided_p(difference / deviation, freedom), float(early.mean()), float(late.mean())


def _is_trend(p: float, early: float, late: float, error: float) -> bool:
    return p < error and abs(early - late) > LEVEL * abs(late)


def _detrended(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the residuals of the line through values."""
    at = np.arange(len(values)) - (len(values) - 1) / 2
    residuals: NDArray[np.float64] = values - values.mean() - at * float(at @ values) / float(at @ at)
    return residuals


def truncation(values: NDArray[np.float64]) -> int | None:
    """Return the number of values to drop at the start by MSER-5; None if the series is too short for it.

    The rule minimizes the standard error of the mean of the remaining batches of five values. Only the first
    half is searched, because few batches have similar values by chance. The series is too short if the
    minimum is at the end of this half.
    """
    number = len(values) // MSER_BATCH
    if number < 4:
        return None
    batches = values[: number * MSER_BATCH].reshape(number, MSER_BATCH).mean(axis=1)
    errors = [float(batches[at:].var()) / (number - at) for at in range(number // 2 + 1)]
    best = int(np.argmin(errors))
    return best * MSER_BATCH if best < number // 2 else None


def of_run(result: Result) -> SteadinessSummary:
    """Test the quantities of a run with tables; see :class:`silvan.types.SteadinessSummary`."""
    begin, end = result.summary["averages_from_ns"], result.summary["simulated_ns"]
    tested: list[tuple[_series.Series, NDArray[np.float64], NDArray[np.float64]]] = []
    short: list[str] = []
    testable: list[float] = []
    for series in _series.of_run(result):
        starts = np.concatenate(([0.0], series.ends_ns[:-1]))
        spans = series.ends_ns - starts
        # The last interval may be shorter than the others.
        inside = (starts >= begin - 0.5) & (spans > 0.5 * spans[0]) & ~np.isnan(series.values)
        number = int(inside.sum())
        if 0 < number < LEAST:
            short.append(series.name)
            testable.append(begin + (end - begin) * LEAST / number)
        elif number:
            tested.append((series, starts[inside], series.values[inside]))
    trends: list[TrendSummary] = []
    for series, starts, values in tested:
        found = trend(values, ERROR / len(tested))
        if found is not None:
            level = None if found.level_from is None else round(float(starts[found.level_from]))
            trends.append(
                {
                    "quantity": series.name,
                    "unit": series.unit,
                    "early": found.early,
                    "late": found.late,
                    "level_from_ns": level,
                }
            )
    changes = _series.changes(result) if begin < end else []
    testable_at = _rounded_up(max(testable)) if testable else None
    return {"trends": trends, "changes": changes, "untested": short, "testable_at_ns": testable_at}


def _rounded_up(time_ns: float) -> int:
    """Round a time up to two significant digits."""
    unit: int = 10 ** max(0, len(str(math.ceil(time_ns))) - 2)
    return math.ceil(time_ns / unit) * unit


def add(result: Result) -> None:
    """Test the quantities of a run, and add the result to its summary, its account and its warnings."""
    result.summary["steadiness"] = found = of_run(result)
    if not found["trends"]:
        return
    if found["changes"]:
        result.account.append(
            f"The averages contain a change: {'; '.join(found['changes'])}. Not level over this time: "
            f"{_named(found['trends'])}."
        )
    else:
        result.warnings.append(_warning(result, found["trends"]))


def warm_up(pilot: Result) -> str:
    """Return the warm-up after which all quantities of a run without warm-up are level, such as "20 ms".

    The latest of the times from which quantities are level is rounded up to 1, 2 or 5 times a power of ten,
    so that runs with different seeds usually have the same warm-up. Raises :class:`silvan.SilvanError` if a
    quantity is not level within the run, or only in its second half.
    """
    from silvan._progress import simulated

    found, end = of_run(pilot), pilot.summary["simulated_ns"]
    if found["untested"]:
        raise SilvanError(
            f'warmup = "auto": {found["untested"][0]} has fewer than {LEAST} values; use a longer duration '
            "or a shorter measure.interval"
        )
    drifting = [one for one in found["trends"] if one["level_from_ns"] is None]
    latest = max((one["level_from_ns"] or 0 for one in found["trends"]), default=0)
    power = 10 ** max(0, len(str(latest)) - 1)
    rounded = next(factor * power for factor in (0, 1, 2, 5, 10) if factor * power >= latest)
    if drifting:
        raise SilvanError(
            f'warmup = "auto": not level within the run of {simulated(end)}: {_named(drifting)}. Use a '
            "longer duration"
        )
    if rounded > end / 2:
        raise SilvanError(
            f'warmup = "auto": the averages are level only from {simulated(latest)}, and a warm-up may be at '
            f"most half of the run of {simulated(end)}. Use a longer duration"
        )
    return f"{rounded} ns"


def _warning(result: Result, trends: list[TrendSummary]) -> str:
    from silvan._progress import simulated

    begin, end = result.summary["averages_from_ns"], result.summary["simulated_ns"]
    levels = [one["level_from_ns"] for one in trends]
    if None in levels:
        advice = f"not level within the run of {simulated(end)}: use a longer duration, then a longer warm-up"
    else:
        latest = max(level for level in levels if level is not None)
        advice = f"level from {simulated(latest)}: use at least this warm-up"
    return (
        f"Not in steady state after the warm-up of {simulated(begin)}: {_named(trends)}. They are {advice}. "
        "Until then, averages depend on the warm-up and the duration."
    )


def _named(trends: list[TrendSummary]) -> str:
    from silvan._comparison_text import in_words

    parts = [
        f"{one['quantity']} ({in_words(one['early'])} at first, later {in_words(one['late'])}"
        f"{' ' * bool(one['unit'])}{one['unit']})"
        for one in trends[:_NAMED]
    ]
    more = len(trends) - _NAMED
    return "; ".join(parts) + (f"; and {more} more" if more > 0 else "")


def reason(summaries: Iterable[Summary], measure: str) -> str:
    """Return why a measure of a comparison is not in steady state; empty if it is, or is not tested.

    A trend in a run whose traffic changes during the averaged time is no lack of steady state.
    """
    from silvan._progress import simulated

    levels = [
        one["level_from_ns"]
        for found in _unchanged(summaries)
        for one in found["trends"]
        if _measures(measure, one["quantity"])
    ]
    if not levels:
        return ""
    if None in levels:
        return "not in steady state, and not level within the run"
    return f"not in steady state before {simulated(max(level for level in levels if level is not None))}"


def reason_untested(summaries: Sequence[Summary], measure: str) -> str:
    """Return why a measure of a comparison is not tested for steady state; empty if it is tested."""
    short = any(
        _measures(measure, quantity) for found in _unchanged(summaries) for quantity in found["untested"]
    )
    return f"steady state not tested: {advice(testable_at(summaries))}" if short else ""


def advice(testable_at_ns: int | None) -> str:
    """Return in words what makes a test possible, for runs with too few values."""
    from silvan._progress import simulated

    longer = "a longer duration" if testable_at_ns is None else f"a duration of {simulated(testable_at_ns)}"
    return f"fewer than {LEAST} values after the warm-up; {longer} or a shorter measure.interval has enough"


def _measures(measure: str, quantity: str) -> bool:
    """Return whether a measure of a comparison is a statistic of a quantity."""
    return measure == quantity or measure.startswith((f"{quantity}:", f"{quantity},"))


def _unchanged(summaries: Iterable[Summary]) -> Iterator[SteadinessSummary]:
    """Yield the tests of the runs without a change during the averaged time."""
    for summary in summaries:
        found = summary.get("steadiness")
        if found is not None and not found["changes"]:
            yield found


def untested(summaries: Iterable[Summary]) -> list[str]:
    """Return the quantities with too few values for a test in at least one run without a change, in order."""
    return list(dict.fromkeys(name for found in _unchanged(summaries) for name in found["untested"]))


def testable_at(summaries: Iterable[Summary]) -> int | None:
    """Return the duration in ns with which all quantities of these runs can be tested; None if unknown."""
    return max((found.get("testable_at_ns") or 0 for found in _unchanged(summaries)), default=0) or None


def unsteady(summaries: Iterable[Summary]) -> list[str]:
    """Return the quantities that are not in steady state in at least one run without a change, in order."""
    names = [one["quantity"] for found in _unchanged(summaries) for one in found["trends"]]
    return list(dict.fromkeys(names))
