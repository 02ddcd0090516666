"""Writes files as perftest and nccl-tests do, with the times that a scenario has.

They show which measurements would determine a key, before a real fabric is measured, and they test the
readers and the fit.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from silvan import _files
from silvan._core import Scenario
from silvan.calibration import keys, nccl
from silvan.calibration.closed import Closed
from silvan.calibration.measurements import CalibrationError, Measurement, Row
from silvan.calibration.paths import Paths, ends_of, file_of_ranks, placed
from silvan.calibration.perftest import DEPTH
from silvan.calibration.simulated import Simulated

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Sizes of a test by default, in bytes: those of perftest with -a, and of nccl-tests with -b 8 -e 128M -f 2.
PERFTEST_SIZES = tuple(2 << power for power in range(23))
NCCL_SIZES = tuple(8 << power for power in range(25))

_DASHES = "-" * 87
_LATENCY_HEADER = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   "
    "99% percentile[usec]   99.9% percentile[usec] "
)
_BANDWIDTH_HEADER = " #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]"


def write(
    scenario: Scenario,
    latency: Sequence[str] = (),
    bandwidth: Sequence[str] = (),
    nccl_tests: Sequence[str] = (),
    *,
    collective: str = "all-reduce",
    ranks: int | None = None,
    noise: float = 0.0,
    seed: int = 1,
    algorithms: Mapping[str, str] | None = None,
) -> list[Path]:
    """Write the measurements that a scenario would have; return the paths.

    Args:
        scenario: The scenario. Its events apply, its traffic does not.
        latency: Files of latency tests to write, each as ``FILE`` or ``FILE@FROM,TO``.
        bandwidth: Files of bandwidth tests.
        nccl_tests: Files of nccl-tests; `.json` and `.csv` select these formats.
        collective: The operation of nccl-tests.
        ranks: The number of ranks; by default the number of hosts, at most 8.
        noise: Standard deviation of the logarithm of times, such as 0.02.
        seed: Seed of the noise.
        algorithms: Algorithms of collective operations by operation.

    Raises:
        CalibrationError: a file exists, hosts are unknown, or there are too few.
        OSError: a file cannot be written.

    """
    nccl.Given(collective)
    if not (latency or bandwidth or nccl_tests):
        raise CalibrationError("no file to write: give at least one with --latency, --bandwidth or --nccl")
    network = Paths(scenario)
    count = ranks or min(len(network.hosts), 8)
    plan = [_planned("latency", text, PERFTEST_SIZES, scenario) for text in latency]
    plan += [_planned("bandwidth", text, PERFTEST_SIZES, scenario) for text in bandwidth]
    for text in nccl_tests:
        one = _planned("collective", str(file_of_ranks(text)), NCCL_SIZES, scenario)
        plan.append(replace(one, operation=collective, nodes=tuple(range(count))))
    for one in plan:
        if one.file.exists():
            raise CalibrationError(f"{one.file}: exists already; choose another name, or move it away")
    tests = placed(plan, network, scenario)
    random = np.random.default_rng(seed)
    for one, times in zip(tests, times_of(scenario, tests, algorithms), strict=True):
        noisy = times * np.exp(noise * random.standard_normal(len(times)))
        _files.write_text(one.file, text_of(one, noisy))
    return [one.file for one in tests]


def _planned(kind: str, text: str, sizes: Sequence[int], scenario: Scenario) -> Measurement:
    file, hosts = ends_of(text)
    rows = tuple(Row(size, 1.0, at) for at, size in enumerate(sizes, start=1))
    mtu = None if kind == "collective" else keys.mtu(scenario)
    return Measurement(kind, file, "", rows, "RDMA_Write", hosts=hosts, mtu=mtu)  # type: ignore[arg-type]


def times_of(
    scenario: Scenario, tests: Sequence[Measurement], algorithms: Mapping[str, str] | None = None
) -> list[NDArray[np.float64]]:
    """Return the times in seconds of tests whose hosts are known, by the simulator, with its events."""
    formulas = Closed.of(scenario, tests, stores=False)
    with tempfile.TemporaryDirectory(prefix="silvan-calibrate-") as folder:
        model = Simulated(scenario, tests, formulas.routes, Path(folder), algorithms, keeps_events=True)
        return model.times(keys.base(scenario))


def text_of(one: Measurement, times: NDArray[np.float64]) -> str:
    """Return the content of a file with these times in seconds."""
    sizes = [row.size for row in one.rows]
    if one.kind == "latency":
        return latency_text(sizes, times, mtu=one.mtu)
    if one.kind == "bandwidth":
        return bandwidth_text(sizes, times, mtu=one.mtu, depth=one.outstanding)
    if one.file.suffix == ".json":
        return nccl_json(one.operation, one.ranks, sizes, times)
    if one.file.suffix == ".csv":
        return nccl_csv(one.operation, one.ranks, sizes, times)
    return nccl_text(one.operation, one.ranks, sizes, times)


def _front(title: str, mtu: int | None, depth: int | None) -> list[str]:
    lines = [_DASHES, f"                    RDMA_Write {title} Test", " Dual-port       : OFF"]
    lines += [" Number of qps   : 1\t\tTransport type : IB"]
    lines += [f" TX depth        : {depth}"] if depth else []
    lines += [f" Mtu             : {mtu}[B]"] if mtu else []
    return [*lines, " Link type       : IB", _DASHES]


def latency_text(
    sizes: Sequence[int], times: Sequence[float] | NDArray[np.float64], *, mtu: int | None
) -> str:
    """Return the output of `ib_write_lat -a` with times in seconds."""
    lines = [*_front("Latency", mtu, None), _LATENCY_HEADER]
    for size, time in zip(sizes, times, strict=True):
        cell = f"{time * 1e6:<7.2f}"
        lines.append(
            f" {size:<7d} 1000          {cell}        {cell}      {cell}  \t       {cell}     \t"
            f"{0.0:<7.2f}\t\t{cell} \t\t{cell}"
        )
    return "\n".join([*lines, _DASHES, ""])


def bandwidth_text(
    sizes: Sequence[int],
    times: Sequence[float] | NDArray[np.float64],
    *,
    mtu: int | None,
    depth: int = DEPTH,
    unit: str = "MiB/sec",
) -> str:
    """Return the output of `ib_write_bw -a` with times per message in seconds; `unit` is that of rates."""
    from silvan.calibration.perftest import UNITS

    lines = [*_front("BW", mtu, depth), _BANDWIDTH_HEADER.format(unit=unit)]
    for size, time in zip(sizes, times, strict=True):
        rate = f"{size / time / UNITS[unit]:<7.2f}"
        lines.append(f" {size:<7d}    5000             {rate}            {rate}\t\t     {1e-6 / time:<7.6f}")
    return "\n".join([*lines, _DASHES, ""])


def _shortened(value: float, width: int) -> str:
    """Return a number in a column of nccl-tests, with fewer decimals if it is large."""
    for decimals in (2, 1, 0):
        if len(text := f"{value:.{decimals}f}") <= width:
            return text
    return f"{value:.1e}" if width >= 7 else f"{value:.0e}"


def _rates(operation: str, ranks: int, size: int, time: float) -> tuple[float, float]:
    """Return algorithm bandwidth and bus bandwidth in GB/s."""
    algorithm = size / time / 1e9
    return algorithm, algorithm * nccl.factor(operation, ranks)


def _program(operation: str) -> str:
    return next(name for name, own in nccl.OPERATIONS.items() if own == operation) + "_perf"


def nccl_text(
    operation: str, ranks: int, sizes: Sequence[int], times: Sequence[float] | NDArray[np.float64]
) -> str:
    """Return the output of nccl-tests with times in seconds, for one rank on each node."""
    lines = [f"# Collective test starting: {_program(operation)}", "# Using devices"]
    lines += [
        f"#  Rank {rank:2d} Group  0 Pid {rank + 1:6d} on    node-{rank} device  0 [0000:1b:00] GPU"
        for rank in range(ranks)
    ]
    names = ("size", "count", "type", "redop", "root", *("time", "algbw", "busbw", "#wrong") * 2)
    lines += ["#", f"# {'  '.join(names)}"]
    for size, time in zip(sizes, times, strict=True):
        algorithm, bus = _rates(operation, ranks, size, time)
        cells = (
            f"  {_shortened(time * 1e6, 7):>7}  {_shortened(algorithm, 6):>6}  {_shortened(bus, 6):>6}    N/A"
        )
        lines.append(f"{size:12d}  {max(size // 4, 1):12d}     float     sum      -1{cells * 2}")
    return "\n".join([*lines, "# Out of bounds values : 0 OK", "#", ""])


def nccl_json(
    operation: str, ranks: int, sizes: Sequence[int], times: Sequence[float] | NDArray[np.float64]
) -> str:
    """Return the JSON of nccl-tests with times in seconds."""

    def place(size: int, time: float) -> dict[str, float | None]:
        algorithm, bus = _rates(operation, ranks, size, time)
        return {
            "time": round(time * 1e6, 6), "alg_bw": round(algorithm, 6), "bus_bw": round(bus, 6),
            "nwrong": None,
        }  # fmt: skip

    devices = [
        {"rank": rank, "group": 0, "pid": rank + 1, "hostname": f"node-{rank}", "device": 0}
        for rank in range(ranks)
    ]
    results = [
        {
            "size": size, "count": max(size // 4, 1), "type": "float", "redop": "sum", "root": "    -1",
            "out_of_place": place(size, float(time)), "in_place": place(size, float(time)),
        }
        for size, time in zip(sizes, times, strict=True)
    ]  # fmt: skip
    document = {
        "version": nccl.VERSION,
        "args": [_program(operation)],
        "env": [],
        "config": {"nthreads": 1, "ngpus": 1, "devices": devices},
        "results": results,
    }
    return _files.to_json(document)


def nccl_csv(
    operation: str, ranks: int, sizes: Sequence[int], times: Sequence[float] | NDArray[np.float64]
) -> str:
    """Return the CSV of nccl-tests with times in seconds."""
    places = ",".join(["out-of-place"] * 4 + ["in-place"] * 4)
    lines = [
        f",,,,,{places}",
        "size, count, type, redop, root, time, algbw, busbw, #wrong, time, algbw, busbw, #wrong",
        "(B), (elements),,,,(us),(GB/s),(GB/s),,(us),(GB/s),(GB/s),",
    ]
    for size, time in zip(sizes, times, strict=True):
        algorithm, bus = _rates(operation, ranks, size, time)
        microseconds = time * 1e6
        decimals = 2 if microseconds < 1e4 else max(0, 5 - math.ceil(math.log10(microseconds)))
        cells = f"{microseconds:.{decimals}f}, {algorithm:.6f}, {bus:.6f}, -1"
        lines.append(f"{size}, {max(size // 4, 1)}, float, sum, -1, {cells}, {cells}")
    return "\n".join([*lines, ""])
