"""Results of runs, and measures that several experiments use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass
class RunData:
    """The part of a run's result that an experiment compares.

    The arrays are copies, so that other processes can return them.
    """

    summary: dict[str, Any]
    #: Columns by name, for each requested table.
    tables: dict[str, dict[str, NDArray[Any]]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    wall_s: float = 0.0
    #: Peak memory of the process at the end of the run, in 1e6 bytes; NaN if it was not measured.
    peak_memory_mb: float = float("nan")
    #: Path of the run's folder within the folder of runs.
    folder: str | None = None

    @property
    def duration_s(self) -> float:
        """Simulated time in seconds."""
        return float(self.summary["simulated_ns"]) * 1e-9

    def received_gbit_s(self, flow: str) -> float:
        """Return a flow's average throughput after the warm-up; raises `KeyError` for an unknown flow."""
        return float(self._of("flows", "flow", flow)["received_gbit_s"])

    def mean_latency_ns(self, name: str, since: str) -> float:
        """Return the mean packet latency of a class of traffic, since ``generation`` or ``injection``.

        Raises `KeyError` if the summary does not contain this latency.
        """
        for entry in self.summary["latency"]:
            if entry["class"] == name and entry["since"] == since:
                return float(entry["mean_ns"])
        raise KeyError(f"no latency of `{name}` since {since} in the summary")

    def group(self, name: str, column: str = "received_gbit_s") -> float:
        """Return an average over a group of hosts of the first forest, such as ``hotspots``.

        Raises `KeyError` for an unknown group.
        """
        return float(self._of("groups", "group", name)[column])

    def host(self, name: str) -> dict[str, Any]:
        """Return the row of a host in the summary; raises `KeyError` for an unknown host."""
        return self._of("hosts", "host", name)

    def _of(self, table: str, key: str, name: str) -> dict[str, Any]:
        for entry in self.summary[table]:
            if entry[key] == name:
                return dict(entry)
        raise KeyError(f"no {key} `{name}` in the summary")

    def flow_series(self, flow: str, column: str = "received_bytes") -> tuple[Floats, Floats]:
        """Return the end of each sampling interval in seconds, and the values of a column of a flow.

        Raises `KeyError` for an unknown flow.
        """
        table = self.tables["flows"]
        mask = table["flow"] == flow
        if not mask.any():
            raise KeyError(f"no flow `{flow}` in the time series")
        return table["time_ns"][mask] * 1e-9, table[column][mask].astype(np.float64)

    def rate_gbit_s(self, flow: str) -> tuple[Floats, Floats]:
        """Return the end of each sampling interval in seconds, and a flow's throughput in Gbit/s."""
        end_s, received = self.flow_series(flow)
        length_s = np.diff(end_s, prepend=0.0)
        return end_s, received * 8e-9 / length_s

    def mean_gbit_s(self, flow: str, from_s: float, to_s: float) -> float:
        """Return a flow's throughput over the sampling intervals inside a span of time; NaN without any."""
        end_s, received = self.flow_series(flow)
        start_s = np.concatenate(([0.0], end_s[:-1]))
        inside = (start_s >= from_s - 1e-9) & (end_s <= to_s + 1e-9)
        if not inside.any():
            return float("nan")
        length_s = end_s[inside][-1] - start_s[inside][0]
        return float(received[inside].sum() * 8e-9 / length_s)

    def samples_gbit_s(self, flow: str, from_s: float, to_s: float) -> Floats:
        """Return a flow's throughput in each sampling interval that ends inside a span of time."""
        end_s, rate = self.rate_gbit_s(flow)
        return rate[(end_s > from_s + 1e-9) & (end_s <= to_s + 1e-9)]


class Results(dict[str, RunData]):
    """The runs of an experiment by name."""

    def __init__(self, runs: Mapping[str, RunData], quick: bool) -> None:
        super().__init__(runs)
        #: Whether these are quick runs.
        self.quick = quick


def smoothed(values: Floats, width: int) -> Floats:
    """Return the moving mean over the last ``width`` values (fewer at the beginning)."""
    total = np.cumsum(values)
    head = total[:width] / np.arange(1, min(width, len(total)) + 1)
    tail = (total[width:] - total[:-width]) / width
    return np.concatenate((head, tail))


def jain_over_time(
    run: RunData, flows: Sequence[str], from_s: float, to_s: float, width_s: float
) -> tuple[Floats, Floats]:
    """Return times since ``from_s``, in seconds, and Jain's index of the flows' throughput at these times.

    Throughput is averaged over ``width_s``, so that the oscillation of a single flow does not count as
    unfairness. The index is NaN while no flow receives data.
    """
    end_s, _ = run.rate_gbit_s(flows[0])
    inside = (end_s > from_s + 1e-9) & (end_s <= to_s + 1e-9)
    step_s = float(np.median(np.diff(end_s)))
    width = max(1, round(width_s / step_s))
    rates = np.array([smoothed(run.rate_gbit_s(flow)[1][inside], width) for flow in flows])
    square = (rates * rates).sum(axis=0)
    index = rates.sum(axis=0) ** 2 / (len(flows) * np.where(square > 0, square, np.nan))
    return end_s[inside] - from_s, index


def settling_s(
    run: RunData, flows: Sequence[str], from_s: float, to_s: float, width_s: float, level: float = 0.99
) -> float:
    """Return the last time since ``from_s`` at which Jain's index of the flows is NaN or below ``level``.

    The time is in seconds, and 0 if there is no such time. :func:`jain_over_time` computes the index.
    """
    time_s, index = jain_over_time(run, flows, from_s, to_s, width_s)
    below = np.nonzero(~(index >= level))[0]
    return float(time_s[below[-1]]) if len(below) else 0.0
