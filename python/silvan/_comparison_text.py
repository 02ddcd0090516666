"""Formats the cells of comparisons as text, for the terminal and for notebooks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from silvan.comparison import Change, Comparison, Mean, Row

#: Relative differences of at most this size are treated as rounding errors.
ROUNDING = 1e-9
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


def is_equal(row: Row) -> bool:
    """Return whether all groups have the same mean and the same interval."""
    return all(mean == row.means[0] for mean in row.means)


def rows_that_differ(found: Comparison) -> list[Row]:
    """Return the rows that differ between groups, each slowdown together with its number of transfers."""
    differ = {row.measure for row in found.rows if not is_equal(row)}
    subjects = {measure.rpartition(": slowdown")[0] for measure in differ}
    return [
        row
        for row in found.rows
        if row.measure in differ or (row.is_count and row.measure.rpartition(":")[0] in subjects)
    ]


def mean_cell(mean: Mean | None) -> str:
    """Format a mean with the half-width of its interval, if it has one; a dash for no mean."""
    return "-" if mean is None else in_words(mean.value, mean.half)


def change_cell(change: Change | None, first: Mean | None) -> str:
    """Format a change in percent of the first group's mean, or as a difference if this mean is 0.

    A change of at most :data:`ROUNDING` of this mean becomes 0, and a missing change becomes a dash. A change
    whose interval contains 0 is called undecided.
    """
    if change is None or first is None:
        return "-"
    scale, unit = (100 / abs(first.value), " %") if first.value else (1.0, "")
    if abs(change.difference) <= ROUNDING * abs(first.value):
        return f"0{unit}"
    shown = f"{signed(change.difference * scale)}{unit}"
    if change.low is None or change.high is None:
        return shown
    interval = f"({signed(change.low * scale)} to {signed(change.high * scale)}{unit})"
    return f"{shown} {interval}" if change.is_proven else f"undecided {interval}"


def losses(found: Comparison, names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return, for each group with proven losses, a title such as "B compared with A" and a text per loss.

    `names` contains one name per group.
    """
    return [
        (
            f"{names[number]} compared with {names[0]}",
            [
                f"{loss.row.measure} {change_cell(loss.change, loss.row.means[0])}"
                for loss in found.losses
                if loss.group == number
            ],
        )
        for number in dict.fromkeys(loss.group for loss in found.losses)
    ]
