"""Measures of fairness among flows or hosts: Jain's index, and the variation over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from silvan.results import Result
    from silvan.types import Summary


def jain(shares: ArrayLike) -> float:
    """Return Jain's index: 1 if all shares are equal, 1/n if one of n has everything; NaN if all are zero."""
    values = np.asarray(shares, dtype=np.float64)
    squares = float((values * values).sum())
    return float(values.sum()) ** 2 / (len(values) * squares) if squares > 0 else float("nan")


def jain_of_hosts(summary: Summary) -> float | None:
    """Return Jain's index of the hosts that are destinations; None if fewer than two of them receive."""
    receivers = sum(host["received_gbit_s"] > 0 for host in summary["hosts"])
    return summary["jain_hosts"] if receivers > 1 else None


def treatment_variation(rates: ArrayLike) -> float:
    """Return Var of Paper III, VII.B: the variance over time of the spread between the extreme rates.

    `rates` has one row per flow and one column per interval. The result has the squared unit of `rates`.
    """
    values = np.asarray(rates, dtype=np.float64)
    return float((values.max(axis=0) - values.min(axis=0)).var())


def rates_gbit_s(
    result: Result,
    names: Sequence[str],
    *,
    table: str = "flows",
    start_s: float = 0.0,
    end_s: float = float("inf"),
) -> NDArray[Any]:
    """Return received Gbit/s of flows or hosts, with a row per name and a column per sampling interval.

    Only intervals from `start_s` to `end_s` are included. `table` is ``flows`` or ``hosts``. Raises
    `KeyError` for a name that the table does not contain.
    """
    columns = result.numpy(table)
    key = {"flows": "flow", "hosts": "host"}[table]
    rows = []
    for name in names:
        mine = columns[key] == name
        if not mine.any():
            raise KeyError(f"no `{name}` among the {table}")
        ends_ns = columns["time_ns"][mine].astype(np.float64)
        spans_ns = np.diff(ends_ns, prepend=0.0)
        inside = (ends_ns - spans_ns >= start_s * 1e9 - 0.5) & (ends_ns <= end_s * 1e9 + 0.5)
        rows.append(columns["received_bytes"][mine][inside] * 8.0 / spans_ns[inside])
    return np.array(rows)
