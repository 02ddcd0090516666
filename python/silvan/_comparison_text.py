"""Cells of comparisons as text, for the terminal and for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from silvan._statistics import in_words, signed

if TYPE_CHECKING:
    from silvan.comparison import Change, Mean, Row

#: Relative differences up to this one come from rounding.
ROUNDING = 1e-9
#: Maximum number of letters of a setting.
LETTERS = 60


def letter(number: int) -> str:
    """Return the short name of a group: A to Z, then A1, B1 and so on."""
    return chr(ord("A") + number % 26) + (str(number // 26) if number >= 26 else "")


def setting_cell(value: Any) -> str:
    """Return the value of a setting as text; a dash if the group lacks the key."""
    if value is None:
        return "-"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= LETTERS else f"{text[: LETTERS - 3]}..."


def is_equal(row: Row) -> bool:
    """Return whether all groups have the same value."""
    return all(mean == row.means[0] for mean in row.means)


def mean_cell(mean: Mean | None) -> str:
    """Return a mean with the half-width of its interval, if it has one."""
    return "-" if mean is None else in_words(mean.value, mean.half)


def change_cell(change: Change | None, first: Mean | None) -> str:
    """Format a change, relative to the first group unless that is 0; mark changes within the interval."""
    if change is None or first is None:
        return "-"
    scale, unit = (100 / abs(first.value), " %") if first.value else (1.0, "")
    # Differences of this size come from rounding.
    if abs(change.difference) <= ROUNDING * abs(first.value):
        return f"0{unit}"
    shown = f"{signed(change.difference * scale)}{unit}"
    if change.low is None or change.high is None:
        return shown
    interval = f"({signed(change.low * scale)} to {signed(change.high * scale)}{unit})"
    return f"{shown} {interval}" if change.is_proven else f"no difference {interval}"
