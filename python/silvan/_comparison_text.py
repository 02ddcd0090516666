"""Formats the cells of comparisons as text, for the terminal and for notebooks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from silvan._statistics import Interval
    from silvan.comparison import Change, Comparison, Row

#: Relative differences of at most this size are treated as rounding errors.
ROUNDING = 1e-9
#: Maximum half-width of an interval, relative to the mean, that is written with ±.
SYMMETRIC = 0.25
#: Maximum number of measures in a note.
NOTED = 4
#: Maximum number of characters of a setting.
LETTERS = 60
#: Significant digits of numbers without an interval, and of half-widths of intervals.
_DIGITS, _DIGITS_OF_HALF = 4, 2
#: Numbers, except 0, whose magnitude is at least this value or below its inverse have an exponent.
_LARGE = 1e12


def in_words(value: float, half: float | None = None) -> str:
    """Format a number and the half-width of its confidence interval: ``10,540``, ``1,895 ± 120``, ``0.0213``.

    The half-width is rounded to two significant digits, and the value to as many decimals. Without a
    half-width, or if it is 0, the value is rounded to four significant digits. Digits of the value
    before the decimal point are not rounded. Whole numbers have no decimals, and very large or very small
    numbers have an exponent.
    """
    if half is None:
        return _rounded(value, _decimals(value, _DIGITS))
    decimals = _decimals(half, _DIGITS_OF_HALF) if half else _decimals(value, _DIGITS)
    if half and decimals < 0:
        return f"{_rounded(value, 0)} ± {round(half, decimals):,.0f}"
    return f"{_rounded(value, decimals)} ± {_rounded(half, decimals)}"


def signed(value: float, digits: int = 3) -> str:
    """Format a difference with its sign, rounded to `digits` significant digits.

    Digits before the decimal point are not rounded, and whole numbers have no decimals. 0 has no sign.
    """
    text = _rounded(value, _decimals(value, digits))
    return text if text.startswith("-") or value == 0 else f"+{text}"


def _decimals(value: float, digits: int) -> int:
    """Return the number of decimals for `digits` significant digits, negative to round before the point.

    0 if `value` is 0, infinite or NaN.
    """
    return digits - 1 - math.floor(math.log10(abs(value))) if value and math.isfinite(value) else 0


def _rounded(value: float, decimals: int) -> str:
    if not math.isfinite(value) or abs(value) >= _LARGE or 0 < abs(value) < 1 / _LARGE:
        return f"{value:.3g}"
    # A whole number has no decimals.
    return f"{value:,.{0 if float(value).is_integer() else max(decimals, 0)}f}"


def letter(number: int) -> str:
    """Return the short name of a group: A to Z, then A1, B1 and so on."""
    return chr(ord("A") + number % 26) + (str(number // 26) if number >= 26 else "")


def setting_cell(value: Any) -> str:
    """Return a setting as text of at most :data:`LETTERS` characters; a dash if the group lacks the key."""
    if value is None:
        return "-"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= LETTERS else f"{text[: LETTERS - 3]}..."


def rows_that_differ(found: Comparison) -> list[Row]:
    """Return the rows that differ between groups, each slowdown together with its number of transfers."""
    differ = {row.measure for row in found.rows if row.differs}
    subjects = {measure.rpartition(": slowdown")[0] for measure in differ}
    return [
        row
        for row in found.rows
        if row.measure in differ or (row.is_count and row.measure.rpartition(":")[0] in subjects)
    ]


def calibrations(found: Comparison) -> list[str]:
    """Return the sentences on the calibration of scenarios, each with the names of its groups."""
    return [f"{', '.join(map(letter, groups))}: {note}" for note, groups in found.calibrations]


def mean_cell(mean: Interval | None) -> str:
    """Format a mean with its interval, if it has one; a dash for no mean.

    The interval is a half-width if the limits are about equally far from the mean, and otherwise both limits.
    """
    if mean is None:
        return "-"
    if mean.low is None or mean.high is None:
        return in_words(mean.value)
    half = (mean.high - mean.low) / 2
    if half <= SYMMETRIC * abs(mean.value):
        return in_words(mean.value, half)
    digits = _DIGITS_OF_HALF
    limits = (_rounded(limit, _decimals(limit, digits)) for limit in (mean.low, mean.high))
    return f"{_rounded(mean.value, _decimals(mean.value, digits + 1))} ({' to '.join(limits)})"


def change_cell(change: Change | None) -> str:
    """Format a change in percent of the first group's mean, or as a difference if this mean is 0.

    A change of at most :data:`ROUNDING` of this mean becomes 0, and a missing change becomes a dash. A
    verdict precedes its change and interval; if no difference is shown, only the interval follows. Changes
    without a verdict have no interval.
    """
    if change is None:
        return "-"
    relative = change.relative
    if relative is None:
        shown = signed(change.difference)
    elif abs(relative.value) <= ROUNDING:
        return "0 %"
    else:
        shown = f"{signed(100 * relative.value)} %"
    if change.reason:
        return f"{shown} ({change.verdict})"
    if change.p is None:
        return shown
    interval = ""
    if relative is not None and relative.low is not None and relative.high is not None:
        low, high = (math.inf if math.isinf(one) else 100 * one for one in (relative.low, relative.high))
        # Both limits of a mean that is always 0 are -100 %.
        interval = f" ({signed(low)} to {signed(high)} %)" if low < high < math.inf else ""
    return f"{change.verdict}, {shown}{interval}" if change.is_proven else f"{change.verdict}{interval}"


def footnotes(found: Comparison) -> list[str]:
    """Return sentences on intervals, on the correction, and on missing values and verdicts."""
    lines = []
    if found.tests:
        lines.append(
            "Intervals: 95 % for each mean or change alone. `better` and `worse` are proven: among the "
            f"{found.tests} tested change{'s' * (found.tests > 1)}, one or more false verdicts have a "
            "probability of at most 5 % (Holm)."
        )
    if found.lacks_none:
        lines.append(
            "All groups have congestion control, so nothing shows whether it is better than none: add runs "
            "with --set congestion.mechanism=none."
        )
    for reason, measures in found.notes:
        more = f" and {len(measures) - NOTED} more" if len(measures) > NOTED else ""
        lines.append(f"No verdict or value ({reason}): {'; '.join(measures[:NOTED])}{more}.")
    return lines


def losses(found: Comparison, names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return, for each group that is worse, a title such as "B compared with A" and a text per measure.

    `names` contains one name per group.
    """
    return [
        (
            f"{names[number]} compared with {names[0]}",
            [
                f"{loss.row.measure} {change_cell(loss.change).removeprefix('worse, ')}"
                for loss in found.losses
                if loss.group == number
            ],
        )
        for number in dict.fromkeys(loss.group for loss in found.losses)
    ]
