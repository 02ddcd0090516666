"""Confidence intervals of mean values, and prediction intervals of single values."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

#: Student's t for a 95 % confidence interval, by degrees of freedom. For more degrees of freedom, the value
#: of the normal distribution is close enough.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160)


#: Significant digits of numbers without an interval, and of half-widths of intervals.
_DIGITS, _DIGITS_OF_HALF = 4, 2
#: Numbers from this size on, and below its inverse, are written with an exponent.
_LARGE = 1e12


def in_words(value: float, half: float | None = None) -> str:
    """Format a number with sensible digits, without an exponent: ``10,540``, ``1,895 ± 120``, ``0.0213``.

    `half` is the half-width of its confidence interval. It has two significant digits, and the value as many
    decimals. Digits before the decimal point are never rounded away.
    """
    if half is None:
        return _rounded(value, _decimals(value, _DIGITS))
    decimals = _decimals(half, _DIGITS_OF_HALF) if half else _decimals(value, _DIGITS)
    if half and decimals < 0:
        return f"{_rounded(value, 0)} ± {round(half, decimals):,.0f}"
    return f"{_rounded(value, decimals)} ± {_rounded(half, decimals)}"


def signed(value: float, digits: int = 3) -> str:
    """Format a difference with its sign and some significant digits, without an exponent."""
    text = _rounded(value, _decimals(value, digits))
    return text if text.startswith("-") or value == 0 else f"+{text}"


def _decimals(value: float, digits: int) -> int:
    """Return the number of decimals for some significant digits, negative if it ends before the point."""
    return digits - 1 - math.floor(math.log10(abs(value))) if value and math.isfinite(value) else 0


def _rounded(value: float, decimals: int) -> str:
    if not math.isfinite(value) or abs(value) >= _LARGE or 0 < abs(value) < 1 / _LARGE:
        return f"{value:.3g}"
    # Zeros at the end say nothing about a whole number.
    return f"{value:,.{0 if float(value).is_integer() else max(decimals, 0)}f}"


def half_width(values: Sequence[float]) -> float:
    """Return the half-width of the 95 % confidence interval of the mean of independent values."""
    freedom = len(values) - 1
    quantile = STUDENT[freedom - 1] if freedom <= len(STUDENT) else 1.96 + 2.5 / freedom
    return quantile * float(np.std(values, ddof=1)) / math.sqrt(len(values))


def prediction(values: Sequence[float]) -> float:
    """Return the half-width of the 95 % interval around the mean in which one more independent value lies."""
    return half_width(values) * math.sqrt(len(values) + 1)
