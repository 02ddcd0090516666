"""Confidence intervals of mean values, and prediction intervals of single values."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

#: Student's t for a 95 % confidence interval with 1, 2, ... degrees of freedom. For more degrees of freedom,
#: 1.96 + 2.5 / freedom is an approximation.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160)


def half_width(values: Sequence[float]) -> float:
    """Return the half-width of the 95 % confidence interval of the mean of two or more independent values."""
    freedom = len(values) - 1
    quantile = STUDENT[freedom - 1] if freedom <= len(STUDENT) else 1.96 + 2.5 / freedom
    return quantile * float(np.std(values, ddof=1)) / math.sqrt(len(values))


def prediction(values: Sequence[float]) -> float:
    """Return the half-width of the 95 % prediction interval for a further value.

    The interval is centered at the mean of two or more independent values.
    """
    return half_width(values) * math.sqrt(len(values) + 1)
