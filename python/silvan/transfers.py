"""Completion times of transfers: quantiles of their slowdowns by size, over runs and seeds.

>>> from silvan import transfers
>>> groups = transfers.by_size([[off], [on]], share=0.99)  # doctest: +SKIP

The slowdown of a transfer is its duration divided by its duration on an empty network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from silvan._core import SilvanError
from silvan._statistics import mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silvan.results import Result

#: Number of ranges of sizes with equally many transfers, as in the figures of the HPCC family.
RANGES = 20


@dataclass(frozen=True)
class Curve:
    """A quantile of the slowdown for each range of sizes, as the mean over runs with different seeds."""

    #: Largest size of each range in bytes.
    sizes: NDArray[np.float64]
    #: Quantile of each range; NaN if a run has no transfers in the range.
    slowdowns: NDArray[np.float64]
    #: Limits of the 95 % confidence interval; None for a single run.
    low: NDArray[np.float64] | None
    high: NDArray[np.float64] | None


def finished(result: Result, *, acked: bool = False) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sizes (bytes) and slowdowns of the transfers that started after the warm-up and finished.

    Raises :class:`SilvanError` if the run did not record transfers, or if none of them was delivered or,
    with `acked`, acknowledged.
    """
    if "transfers" not in result.tables:
        raise SilvanError(f"{result.name}: no transfers were recorded; set measure.transfers = true")
    table = result.numpy("transfers")
    slowdowns = table["acked_slowdown" if acked else "slowdown"]
    is_counted = ~np.isnan(slowdowns) & (table["start_ns"] >= result.summary["averages_from_ns"])
    if not is_counted.any():
        what = "was acknowledged" if acked else "was delivered"
        raise SilvanError(f"{result.name}: no transfer {what} before the end of the run")
    return table["bytes"][is_counted].astype(float), slowdowns[is_counted]


def edges(sizes: Sequence[NDArray[np.float64]], ranges: int = RANGES) -> NDArray[np.float64]:
    """Return the largest sizes in bytes of at most `ranges` ranges with about equally many transfers."""
    shares = np.arange(1, ranges + 1) / ranges
    return np.unique(np.quantile(np.concatenate(sizes), shares, method="inverted_cdf"))


def by_size(
    groups: Sequence[Sequence[Result]], *, share: float, acked: bool = False, ranges: int = RANGES
) -> list[Curve]:
    """Return a curve for each group of runs; all have the same ranges of sizes.

    Args:
        groups: Runs that differ only in their seed form a group.
        share: The quantile, such as 0.99.
        acked: Whether a transfer lasts until its last acknowledgement instead of its delivery.
        ranges: Maximum number of ranges.

    Raises:
        SilvanError: a run has no finished transfers; see :func:`finished`.

    """
    found = [[finished(run, acked=acked) for run in group] for group in groups]
    limits = edges([sizes for group in found for sizes, _ in group], ranges)
    return [_curve(group, limits, share) for group in found]


def _curve(
    runs: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]],
    limits: NDArray[np.float64],
    share: float,
) -> Curve:
    rows = []
    for sizes, slowdowns in runs:
        place = np.searchsorted(limits, sizes)
        rows.append([quantile(slowdowns[place == at], share) for at in range(len(limits))])
    values = np.array(rows)
    if len(rows) < 2:
        return Curve(limits, values.mean(axis=0), None, None)
    intervals = [mean(column) for column in values.T.tolist()]
    low, high = (np.array([getattr(one, end) for one in intervals]) for end in ("low", "high"))
    return Curve(limits, values.mean(axis=0), low, high)


def quantile(values: NDArray[np.float64], share: float) -> float:
    """Return the smallest value that this share of the values does not exceed; NaN without values."""
    if not len(values):
        return math.nan
    return float(np.quantile(values, share, method="inverted_cdf"))
