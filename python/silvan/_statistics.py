"""Intervals, tests and corrections: the only module that draws conclusions from samples.

All commands that compare use these functions:

| function | answers |
| --- | --- |
| :func:`mean` | In which range is the mean of a non-negative quantity? |
| :func:`geometric_mean` | In which range is the mean of a ratio? |
| :func:`change` | By which factor do two means differ, and how probable is such a difference by chance? |
| :func:`holm` | Which of several changes remain significant together? |
| :func:`spending` | Which share of the errors may each test of growing data have? |
| :func:`prediction` | In which range is a further value? |

Conclusions have three :data:`VERDICTS`, which all commands use.

Values are independent: one per seed. Intervals of means and of ratios of means are symmetric on a logarithmic
scale (the delta method for logarithms), so the mean of latencies has no limit below 0, and no change is below
-100 %. With Student's quantiles, they are as wide as the usual intervals if the values differ little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

#: The verdicts on a difference: both proven directions, and everything else.
BETTER, WORSE, NOT_SHOWN = "better", "worse", "no difference shown"
VERDICTS = (BETTER, WORSE, NOT_SHOWN)
#: Confidence of intervals.
CONFIDENCE = 0.95
#: Probability of a false claim among all claims of a table, at most 5 %. The nominal value is smaller,
#: because a test of few skewed values, such as latencies, errs slightly more often than it should.
ERROR = 0.03
#: Minimum ratio to no control of settings that are recommended. A smaller proven gain is not worth a change,
#: and settings are not tried further if their interval excludes this ratio.
WORTH = 1.05
#: Minimum number of seeds in each group for a proven change.
SEEDS_TO_PROVE = 3
#: Relative differences of at most this size are treated as rounding errors.
ROUNDING = 1e-9
#: Larger limits of ratios have no meaning.
_LARGEST_LOG = 50.0


@dataclass(frozen=True)
class Interval:
    """An estimate with the limits of its confidence interval.

    Without an interval (one value), both limits are None.
    """

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Difference:
    """The difference between the means of two groups."""

    #: Second mean minus first mean.
    difference: float
    #: Second mean divided by the first, at least 0; None if the first mean is 0. The upper limit is infinite
    #: if the second mean is 0 and the first does not differ significantly from 0.
    ratio: Interval | None
    #: Probability of at least such a difference if the groups do not differ; None if a group has one value.
    p: float | None


def two_sided_p(t: float, freedom: float) -> float:
    """Return the probability that Student's t with `freedom` degrees is at least as far from 0 as `t`."""
    if math.isinf(t):
        return 0.0
    return _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)


@lru_cache(maxsize=4096)
def quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """Return the limit that Student's t with `freedom` degrees exceeds, up or down, in 1 - `confidence`."""
    low, high = 0.0, 1.0
    while two_sided_p(high, freedom) > 1 - confidence:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided_p(middle, freedom) > 1 - confidence else (low, middle)
    return (low + high) / 2


def half_width(values: Sequence[float], confidence: float = CONFIDENCE) -> float:
    """Return the half-width of the confidence interval of the mean of two or more independent values."""
    return quantile(len(values) - 1, confidence) * _error(values)


def prediction(values: Sequence[float], confidence: float = CONFIDENCE) -> float:
    """Return the half-width of the prediction interval for a further value.

    The interval is centered at the mean of two or more independent values.
    """
    return half_width(values, confidence) * math.sqrt(len(values) + 1)


def mean(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the mean of values that are never negative; its limits are not negative either.

    The interval is that of the logarithm of the mean, whose standard error is that of the mean divided by the
    mean. If a value is negative, the interval is the usual one.
    """
    middle = math.fsum(values) / len(values)
    if len(values) < 2:
        return Interval(middle, None, None)
    if min(values) < 0 or middle == 0:
        half = half_width(values, confidence)
        return Interval(middle, middle - half, middle + half)
    return _around(middle, half_width(values, confidence) / middle)


def geometric_mean(ratios: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the geometric mean of one or more positive ratios, with the interval of its logarithm."""
    logs = [math.log(ratio) for ratio in ratios]
    middle = math.exp(math.fsum(logs) / len(logs))
    if len(logs) < 2:
        return Interval(middle, None, None)
    return _around(middle, half_width(logs, confidence))


def change(
    first: Sequence[float],
    other: Sequence[float],
    *,
    paired: bool,
    resolutions: tuple[float, float] = (0.0, 0.0),
    confidence: float = CONFIDENCE,
) -> Difference:
    """Compare the means of two groups of values that are never negative.

    The ratio of the means has an interval that is symmetric on a logarithmic scale. If `paired`, values with
    the same position belong together and their relative deviations are subtracted; otherwise, the degrees of
    freedom are those of Welch and Satterthwaite. Rounding to multiples of `resolutions` (one per group)
    increases the variance, so that equal rounded values do not seem to be exact. If one mean is 0, the test
    is that of the difference, and the interval of the ratio is Fieller's (J. R. Statist. Soc. B 16, 1954),
    which is then a single number or unbounded.
    """
    ours, theirs = (math.fsum(values) / len(values) for values in (first, other))
    ratio = theirs / ours if ours else None
    if min(len(first), len(other)) < 2:
        return Difference(theirs - ours, None if ratio is None else Interval(ratio, None, None), None)
    if ratio is None or theirs <= 0 or ours < 0:
        error, freedom = _error_of_difference(first, other, (1.0, 1.0), resolutions, paired=paired)
        p = _p(theirs - ours, error, freedom)
        if ratio is None or ours < 0:
            return Difference(theirs - ours, None, p)
        return Difference(theirs - ours, Interval(ratio, 0.0, 0.0 if p <= 1 - confidence else math.inf), p)
    error, freedom = _error_of_difference(first, other, (ours, theirs), resolutions, paired=paired)
    if abs(ratio - 1) <= ROUNDING:
        ratio = 1.0
    interval = _around(ratio, quantile(freedom, confidence) * error if error else 0.0)
    return Difference(theirs - ours, interval, _p(math.log(ratio), error, freedom))


def holm(probabilities: Sequence[float], error: float = ERROR) -> list[bool]:
    """Return which tests reject, such that one or more false rejections have at most probability `error`.

    S. Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6, 1979. The tests
    may depend on each other.
    """
    order = sorted(range(len(probabilities)), key=lambda at: probabilities[at])
    rejected = [False] * len(probabilities)
    for rank, at in enumerate(order):
        if probabilities[at] > error / (len(order) - rank):
            break
        rejected[at] = True
    return rejected


def spending(stages: Sequence[int], error: float = 1 - CONFIDENCE) -> list[float]:
    """Return the probability of a false claim that each test of growing data may have.

    `stages` contains the increasing numbers of values at which data are tested; further values are collected
    only if a test does not decide. The share of a test is that of its further values in the final number: the
    uniform spending function of K. K. G. Lan and D. L. DeMets (Biometrika 70, 1983), with Bonferroni's bound
    for the sum of the tests.
    """
    steps = [now - before for before, now in zip((0, *stages), stages, strict=False)]
    return [error * step / stages[-1] for step in steps]


def _around(middle: float, half: float) -> Interval:
    """Return an interval whose limits are `middle` divided and multiplied by exp(`half`)."""
    factor = math.exp(min(half, _LARGEST_LOG))
    return Interval(middle, middle / factor, middle * factor)


def _error(values: Sequence[float]) -> float:
    """Return the standard error of a mean; 0 if values differ only by rounding errors."""
    deviation = float(np.std(values, ddof=1))
    largest = max(abs(value) for value in values)
    return 0.0 if deviation <= ROUNDING * largest else deviation / math.sqrt(len(values))


def _error_of_difference(
    first: Sequence[float],
    other: Sequence[float],
    scales: tuple[float, float],
    resolutions: tuple[float, float],
    *,
    paired: bool,
) -> tuple[float, float]:
    """Return the standard error of the difference of two means, and its degrees of freedom.

    The values of the groups are divided by `scales`.
    """
    one, two = ([value / by for value in own] for own, by in zip((first, other), scales, strict=True))
    # Variances of uniformly distributed rounding errors.
    rounding = [(width / by) ** 2 / 12 for width, by in zip(resolutions, scales, strict=True)]
    if paired:
        own = _error([b - a for a, b in zip(one, two, strict=True)])
        return math.sqrt(own**2 + sum(rounding) / len(one)), len(one) - 1
    parts = [
        (_error(values) ** 2 + extra / len(values), len(values) - 1)
        for values, extra in zip((one, two), rounding, strict=True)
    ]
    total = sum(part for part, _ in parts)
    if not total:
        return 0.0, min(freedom for _, freedom in parts)
    return math.sqrt(total), total**2 / sum(part**2 / freedom for part, freedom in parts)


def _p(difference: float, error: float, freedom: float) -> float:
    if error:
        return two_sided_p(difference / error, freedom)
    return 0.0 if difference else 1.0


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function (Numerical Recipes, section 6.4)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(1 - x, b, a)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    # Lentz's method for the continued fraction, whose denominators are not 0 for these arguments.
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 500):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + numerator * d)
            c = 1 + numerator / c
            fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return math.exp(front) * fraction / a
