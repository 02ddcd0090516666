"""Times of tests by the simulator: each test is a job on the scenario's network, without other traffic.

A latency test is a ping-pong. A bandwidth test is a sender that has a number of messages outstanding, each
of which the receiver answers with an empty message, as a completion. Neither depends on values of keys, so a
trace is written once. Large messages are not simulated: their time continues the line through two smaller
sizes, from which on it is a line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from silvan import _files, results
from silvan._core import Scenario
from silvan.calibration import keys
from silvan.calibration.closed import WHOLE_ROUND_TRIP
from silvan.calibration.keys import (
    CABLE,
    COLLECTIVE,
    HEADER,
    INJECTION,
    MEMORY,
    MESSAGES,
    OVERHEAD,
    SWITCH,
    Values,
    text,
)
from silvan.calibration.measurements import CalibrationError, Measurement
from silvan.calibration.paths import Route, is_inner

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Sizes from which on times are extrapolated, in bytes: the line through the two.
LATENCY_LINE = (1 << 18, 1 << 19)
BANDWIDTH_LINE = (1 << 17, 1 << 18)
#: Bytes of a bandwidth test per size, and the fewest messages.
BYTES_PER_SIZE, MESSAGES_AT_LEAST = 2 << 20, 8
#: Packets per step from which on the time of a collective operation is extrapolated.
PACKETS_PER_STEP = (4, 8)
#: Unit of the computations that stand for the overhead of a completion, in nanoseconds.
UNIT_NS = 1_000_000
#: Algorithms of collective operations by default, as in NCCL.
ALGORITHMS = {
    "all-reduce": "ring", "all-gather": "ring", "reduce-scatter": "ring", "all-to-all": "linear",
    "broadcast": "ring", "reduce": "binomial",
}  # fmt: skip
#: The keys on which the times of a kind of test depend.
CONCERNS = {
    "latency": (OVERHEAD, SWITCH, CABLE, HEADER),
    "bandwidth": (OVERHEAD, SWITCH, CABLE, HEADER, MESSAGES, INJECTION),
    "collective": (COLLECTIVE, MEMORY, SWITCH, CABLE, HEADER, MESSAGES, INJECTION),
}

#: Settings of all runs: no other traffic, and no time series.
_QUIET: dict[str, Any] = {
    "flow": [], "traffic": [], "duration": "1000 s", "warmup": "0 s", "end_with_jobs": True,
    "measure": {"interval": "10 ms", "links": False, "hosts": False, "classes": False, "forest": False},
}  # fmt: skip


class Simulated:
    """A model by the simulator."""

    def __init__(
        self,
        scenario: Scenario,
        measurements: Sequence[Measurement],
        routes: Sequence[Route],
        folder: Path,
        algorithms: Mapping[str, str] | None = None,
        *,
        keeps_events: bool = False,
    ) -> None:
        """Write the traces of tests between two hosts to a folder; omit events unless they are kept."""
        self._scenario = scenario
        self._quiet = _QUIET if keeps_events else {**_QUIET, "event": []}
        self._measurements = measurements
        self._mtu = keys.mtu(scenario)
        self._first_rates = [route.first for route in routes]
        if unknown := [name for name in algorithms or {} if name not in ALGORITHMS]:
            raise CalibrationError(
                f"--algorithm {unknown[0]}: must be an algorithm of one of {', '.join(ALGORITHMS)}"
            )
        self._algorithms = ALGORITHMS | dict(algorithms or {})
        self._known: dict[tuple[int | str, ...], NDArray[np.float64]] = {}
        self._sizes: list[list[int]] = []
        self._traces: list[Path | None] = []
        #: Number of finished runs.
        self.runs = 0
        for at, one in enumerate(measurements):
            sizes = _simulated_sizes(one, scenario)
            self._sizes.append(sizes)
            trace = folder / f"test-{at}.goal" if one.kind != "collective" else None
            self._traces.append(trace)
            if trace is not None:
                is_latency = one.kind == "latency"
                _files.write_text(trace, ping_pong(sizes) if is_latency else stream(sizes, one.outstanding))

    def times(self, values: Values) -> list[NDArray[np.float64]]:
        """Return the times in seconds: for each measurement, those of its rows.

        Values are rounded to whole units, except a header: its times are interpolated between whole bytes, so
        that a fit finds the direction of the best header.
        """
        low = math.floor(values[HEADER] + 1e-9)
        share = max(values[HEADER] - low, 0.0)
        times = self._whole({**values, HEADER: float(low)})
        if share < 1e-6:
            return times
        above = self._whole({**values, HEADER: float(low + 1)})
        return [first + share * (second - first) for first, second in zip(times, above, strict=True)]

    def _whole(self, values: Values) -> list[NDArray[np.float64]]:
        found = []
        for at, one in enumerate(self._measurements):
            given: tuple[int | str, ...] = (at, *(text(name, values[name]) for name in CONCERNS[one.kind]))
            if given not in self._known:
                self._known[given] = self._measured(at, one, values)
            found.append(self._known[given])
        return found

    def _measured(self, at: int, one: Measurement, values: Values) -> NDArray[np.float64]:
        sizes = self._sizes[at]
        if one.kind == "collective":
            known = self._collective(one, sizes, values)
        else:
            known = self._between_hosts(at, one, sizes, values)
        wanted = [row.size for row in one.rows]
        if one.kind == "latency" and one.operation in WHOLE_ROUND_TRIP:
            # The request is empty, and the adapter of the other host answers.
            known = known + known[0] - 2 * values[OVERHEAD]
        times = extended(wanted, sizes, known)
        if one.operation == "all-to-all" and one.ranks == len(one.hosts):
            # Where overheads hide the time on the link, the line is too flat.
            rate = min(self._first_rates[at], values[INJECTION] or math.inf)
            share = 1 + values[HEADER] / self._mtu
            least = np.array(wanted) * ((one.ranks - 1) / one.ranks * share / rate)
            times = np.maximum(times, least)
        return times

    def _run(self, jobs: list[dict[str, Any]], values: Values) -> results.Result:
        settings: dict[str, Any] = {
            name: text(name, values[name])
            for name in (SWITCH, CABLE, HEADER, MESSAGES, INJECTION)
            if name != INJECTION or values[name]
        }
        self.runs += 1
        return results.run(self._scenario.with_overrides({**self._quiet, **settings, "job": jobs}))

    def _between_hosts(
        self, at: int, one: Measurement, sizes: Sequence[int], values: Values
    ) -> NDArray[np.float64]:
        job: dict[str, Any] = {
            "name": "test",
            "hosts": list(one.hosts),
            "program": {"kind": "trace", "file": str(self._traces[at])},
        }
        if one.kind == "latency":
            job["overhead"] = text(OVERHEAD, values[OVERHEAD])
        else:
            job["program"]["compute_scale"] = 2 * values[OVERHEAD] * 1e9 / UNIT_NS
        messages = self._run([job], values).numpy("messages")
        sent = messages["from_rank"] == 0
        if one.kind == "latency":
            starts = np.sort(messages["handed_ns"][sent])
            return np.diff(starts) / 2 * 1e-9
        return _per_message(np.sort(messages["delivered_ns"][sent]), sizes, one.outstanding)

    def _collective(self, one: Measurement, sizes: Sequence[int], values: Values) -> NDArray[np.float64]:
        spacing_ns = 10e6
        for _ in range(4):
            jobs = [self._job(one, size, at, spacing_ns, values) for at, size in enumerate(sizes)]
            done = self._run(jobs, values).summary["jobs"]
            ends = [job["finished_ns"] for job in done]
            starts = [job["started_ns"] for job in done]
            if all(end is not None and end <= start for end, start in zip(ends, starts[1:], strict=False)):
                return np.array([job["collectives"][0]["mean_ns"] * 1e-9 for job in done])
            spacing_ns *= 100
        raise CalibrationError(
            f"{one.file}: a simulated {one.operation} takes longer than {spacing_ns / 1e11:g} s"
        )

    def _job(self, one: Measurement, size: int, at: int, spacing_ns: float, values: Values) -> dict[str, Any]:
        is_vector = one.operation in {"all-reduce", "broadcast", "reduce"}
        job: dict[str, Any] = {
            "name": f"size-{size}",
            "hosts": list(one.hosts),
            "ranks_per_host": one.ranks // len(one.hosts),
            "start": f"{round(at * spacing_ns)} ns",
            "overhead": text(COLLECTIVE, values[COLLECTIVE]),
            "program": {
                "kind": "collective",
                "operation": one.operation,
                "ranks": one.ranks,
                "bytes": f"{size if is_vector else max(1, round(size / one.ranks))} B",
            },
            "algorithms": {one.operation.replace("-", "_"): self._algorithms[one.operation]},
        }
        if values[MEMORY] and one.ranks > len(one.hosts):
            job["memory_rate"] = text(MEMORY, values[MEMORY])
        return job


def _simulated_sizes(one: Measurement, scenario: Scenario) -> list[int]:
    """Return the sizes to simulate, in increasing order: small ones, and two of a line for large ones."""
    wanted = [row.size for row in one.rows]
    if one.kind == "collective":
        payload = keys.mtu(scenario)
        ends = [one.ranks * payload * packets for packets in PACKETS_PER_STEP]
        near = [one.ranks * payload, *ends] if not is_inner(one) else ends
        # In between, the time is a line: a step is one packet, or a number of full packets.
        return sorted({min(wanted[0], near[0]), *near})
    line = LATENCY_LINE if one.kind == "latency" else BANDWIDTH_LINE
    first = [0] if one.operation in WHOLE_ROUND_TRIP and one.kind == "latency" else []
    return sorted({*first, *(size for size in wanted if size < line[0]), *line})


def extended(wanted: Sequence[int], sizes: Sequence[int], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return times of wanted sizes: interpolated, and above the last size on the line of the last two."""
    found = np.interp(wanted, sizes, times)
    slope = (times[-1] - times[-2]) / (sizes[-1] - sizes[-2])
    above = np.maximum(np.asarray(wanted, dtype=float) - sizes[-1], 0.0)
    return np.asarray(found + above * slope)


def ping_pong(sizes: Sequence[int]) -> str:
    """Return a trace in GOAL in which two ranks exchange a message of each size, one after another.

    A last empty message marks the end of the exchange before it.
    """
    lines: tuple[list[str], list[str]] = ([], [])
    for at, size in enumerate([*sizes, 0]):
        for rank in (0, 1):
            own = lines[rank]
            send, receive = f"s{at}", f"r{at}"
            own.append(f"{send}: send {size}b to {1 - rank} tag {at} cpu 0")
            own.append(f"{receive}: recv {size}b from {1 - rank} tag {at} cpu 0")
            if rank == 1:
                own.append(f"{send} requires {receive}")
            elif at:
                own.append(f"{send} requires r{at - 1}")
    return _goal(lines)


def count(size: int, outstanding: int) -> int:
    """Return the number of messages of a size in a bandwidth test."""
    return max(MESSAGES_AT_LEAST, min(2 * outstanding, math.ceil(BYTES_PER_SIZE / size)))


def stream(sizes: Sequence[int], outstanding: int) -> str:
    """Return a trace in GOAL in which rank 0 sends messages of each size, with a number outstanding.

    Before each message, a computation of :data:`UNIT_NS` on a CPU of its own stands for the overhead of its
    completion, so overheads of messages overlap.
    """
    lines: tuple[list[str], list[str]] = ([], [])
    at, first = 0, 0
    for size in sizes:
        first = at
        for _ in range(count(size, outstanding)):
            lines[0].append(f"c{at}: calc {UNIT_NS} cpu {1 + at % outstanding}")
            lines[0].append(f"s{at}: send {size}b to 1 tag {at} cpu 0")
            lines[0].append(f"s{at} requires c{at}")
            lines[0].append(f"r{at}: recv 0b from 1 tag {at} cpu 0")
            waits_for = at - outstanding if at - first >= outstanding else first - 1
            if waits_for >= 0:
                lines[0].append(f"c{at} requires r{waits_for}")
            lines[1].append(f"r{at}: recv {size}b from 0 tag {at} cpu 0")
            lines[1].append(f"s{at}: send 0b to 0 tag {at} cpu 0")
            lines[1].append(f"s{at} requires r{at}")
            at += 1
    return _goal(lines)


def _goal(lines: Sequence[Sequence[str]]) -> str:
    ranks = [f"rank {rank} {{\n" + "\n".join(own) + "\n}" for rank, own in enumerate(lines)]
    return "\n".join([f"num_ranks {len(lines)}", *ranks, ""])


def _per_message(
    delivered_ns: NDArray[np.float64], sizes: Sequence[int], outstanding: int
) -> NDArray[np.float64]:
    """Return the mean time per message of each size in seconds, after the first window."""
    found, start = [], 0
    for size in sizes:
        own = delivered_ns[start : start + count(size, outstanding)]
        start += len(own)
        # Whole windows, because their messages arrive in bursts if the window limits the rate.
        first = outstanding - 1 if len(own) >= 2 * outstanding else len(own) // 2 - 1
        found.append((own[-1] - own[first]) / (len(own) - 1 - first) * 1e-9)
    return np.array(found)
