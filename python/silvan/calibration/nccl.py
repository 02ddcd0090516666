"""Reads the output of nccl-tests: text, JSON (`-J`) and CSV (`-F`).

Source: NVIDIA/nccl-tests, `src/util.cu` (text and JSON), the `GetBw` functions of its collective operations
(factors of bus bandwidth), and commit 6f2c44c (CSV). GB are 10^9 bytes. Sizes are those of the whole array,
also for all-gather and reduce-scatter.

The JSON contains the environment of the process. It is dropped when the file is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from silvan import _files
from silvan.calibration import fields, measurements
from silvan.calibration.measurements import CalibrationError, Measurement, Place, Row, fail, shown

#: Names of programs, and their operations in scenarios.
OPERATIONS = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
    "reduce": "reduce",
}
#: Largest relative difference of columns, or of bus bandwidth and its formula, in addition to rounding.
AGREE = 0.01
#: Significant digits from which a printed time is used; otherwise the bandwidth has more digits.
DIGITS = 4
RANKS_AT_MOST = 1 << 16
#: Version of the JSON format.
VERSION = 2

_RANK = re.compile(r"#\s+Rank\s+(\d+)(?:\s+Group\s+(\d+))?\s+Pid\s+\d+\s+on\s+(\S+)\s+device\s+", re.ASCII)
_STARTING = re.compile(r"#\s*Collective test starting:\s*(\S+)")
_WRONG = re.compile(r"#\s*Out of bounds values\s*:\s*(\d+)", re.ASCII)
_PER_ITERATION = ("i_min", "i_max", "i_p99", "i_cv%")
_FRONT = ("size", "count", "type", "redop", "root")
_GROUP = ("time", "algbw", "busbw", "#wrong")


@dataclass(frozen=True)
class Given:
    """What the user states about files that do not contain it."""

    #: Collective operation, as in scenarios.
    operation: str | None = None
    #: Number of ranks.
    ranks: int | None = None

    def __post_init__(self) -> None:
        """Raise :class:`CalibrationError` for an unknown operation."""
        if self.operation is not None and self.operation not in OPERATIONS.values():
            raise CalibrationError(
                f"--collective {shown(self.operation)}: must be one of {', '.join(OPERATIONS.values())}"
            )


@dataclass(frozen=True)
class _Cells:
    """The values of one row that are used, as text."""

    place: Place
    size: str
    time: str
    algbw: str
    busbw: str
    wrong: str
    #: Whether the numbers have six decimals, as in JSON, and are not shortened to the width of a column.
    is_exact: bool = False


def factor(operation: str, ranks: int) -> float:
    """Return the ratio of bus bandwidth to algorithm bandwidth of an operation.

    >>> [factor("all-reduce", ranks) for ranks in (2, 8, 128)]
    [1.0, 1.75, 1.984375]
    """
    if operation in {"broadcast", "reduce"}:
        return 1.0
    twice = 2 if operation == "all-reduce" else 1
    return twice * (ranks - 1) / ranks


def read(file: Path, given: Given | None = None) -> Measurement:
    """Read a test of a collective operation; the content determines the format.

    Raises `OSError`, or :class:`CalibrationError` with the file, the line, and what would be valid.
    """
    data = measurements.content(file, measurements.JSON_AT_MOST)
    head = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith(b"{"):
        return _of_json(file, data, given or Given())
    if len(data) > measurements.TEXT_AT_MOST:
        fail(file, None, f"has {len(data):,} bytes; text has at most {measurements.TEXT_AT_MOST:,}")
    lines = measurements.lines(file, data)
    if head.startswith(b",,,,,out-of-place"):
        return _of_csv(file, data, lines, given or Given())
    return _of_text(file, data, lines, given or Given())


def _of_text(file: Path, data: bytes, lines: Sequence[str], given: Given) -> Measurement:
    nodes: dict[int, str] = {}
    names = [*_FRONT, *_GROUP, *_GROUP]
    cells: list[_Cells] = []
    notes: set[str] = set()
    program, others = None, 0
    for at, line in enumerate(lines, start=1):
        words = line.split()
        if words and words[0] == "#bytes":
            fail(file, at, "is a table of perftest; give it with --latency or --bandwidth")
        if line.startswith("#"):
            program = _comment(file, at, line, nodes, notes, program)
            if words[1:3] == ["size", "count"]:
                names = _names(file, at, words[1:])
        elif words and words[0].isascii() and words[0].isdigit():
            cells.append(_text_cells(file, at, names, words))
            if len(cells) > measurements.ROWS_AT_MOST:
                fail(file, at, f"a file has at most {measurements.ROWS_AT_MOST:,} rows")
        elif words:
            others += 1
    noted = {name for name in names if fields.NCCL_TEXT.get(name) == "noted"} | {"in-place"}
    remarks = [*fields.note(noted), *sorted(notes)]
    remarks += measurements.of_others(others)
    if not any(map(_WRONG.match, lines)):
        remarks.append("the table does not end with `# Out of bounds values`, so the test may be incomplete")
    if not cells:
        fail(
            file,
            None,
            "contains no results of nccl-tests: lines that begin with a size in bytes; "
            "give the output of all_reduce_perf or a similar program",
        )
    ranks = [nodes.get(rank, "") for rank in range(len(nodes))]
    if nodes and sorted(nodes) != list(range(len(nodes))):
        fail(file, None, f"lists {len(nodes)} devices, but not the ranks from 0 to {len(nodes) - 1}")
    return _measurement(file, data, cells, _operation(program, given), ranks, given, remarks)


def _comment(
    file: Path, at: int, line: str, nodes: dict[int, str], notes: set[str], program: str | None
) -> str | None:
    """Read a comment: a device, the name of the program, or a number of errors; return the name."""
    if found := _RANK.match(line):
        rank = int(found[1])
        if rank in nodes or rank >= RANKS_AT_MOST:
            fail(file, at, f"rank {shown(found[1])}: must be listed once and be below {RANKS_AT_MOST:,}")
        if found[2] is not None and int(found[2]) != 0:
            fail(file, at, f"Group {shown(found[2])}: must be 0; measure without NCCL_TESTS_SPLIT")
        nodes[rank] = found[3]
    elif found := _STARTING.match(line):
        if program is not None:
            fail(file, at, "begins a second test; give each test in a file of its own")
        return found[1]
    elif (found := _WRONG.match(line)) and int(found[1]):
        notes.add(f"{found[1]} values were out of bounds (Out of bounds values): check the fabric first")
    return program


def _names(file: Path, at: int, names: list[str]) -> list[str]:
    """Check the names of columns."""
    known = {*_FRONT, *_GROUP, *_PER_ITERATION, "timestamp", "error"}
    for name in names:
        if name == "cputime":
            fail(file, at, "cputime is the time of the CPU, not of the operation; measure without -C 1")
        if name not in known:
            fail(file, at, f"`{shown(name)}` is no column of nccl-tests; it has {', '.join(sorted(known))}")
    if names[0] != "size" or "time" not in names or "algbw" not in names or "busbw" not in names:
        fail(file, at, "the table must have the columns size, time, algbw and busbw")
    return names


def _text_cells(file: Path, at: int, names: list[str], words: list[str]) -> _Cells:
    # A time stamp consists of a date and a time.
    expected = len(names) + ("timestamp" in names)
    if len(words) != expected:
        fail(
            file,
            at,
            f"has {len(words)} values, but the table has {expected} ({' '.join(names)}); "
            "give the complete output",
        )
    at_of = {name: names.index(name) for name in names}
    wrong = words[at_of["#wrong"]] if "#wrong" in at_of else "N/A"
    size, time, algbw, busbw = (words[at_of[name]] for name in ("size", "time", "algbw", "busbw"))
    return _Cells(at, size, time, algbw, busbw, wrong)


def _of_csv(file: Path, data: bytes, lines: Sequence[str], given: Given) -> Measurement:
    cells: list[_Cells] = []
    names = [name.strip() for name in lines[1].split(",")] if len(lines) > 1 else []
    if "cputime" in names:
        fail(file, 2, "cputime is the time of the CPU, not of the operation; measure without -C 1")
    if names[:9] != [*_FRONT, *_GROUP]:
        fail(file, 2, f"must have the columns {', '.join([*_FRONT, *_GROUP])}, as nccl-tests writes them")
    for at, line in enumerate(lines[3:], start=4):
        words = [word.strip() for word in line.split(",")]
        if words == [""]:
            continue
        if len(words) != len(names):
            fail(
                file,
                at,
                f"has {len(words)} values, but the table has {len(names)} columns; give the complete file, "
                f"and numbers with decimal points {measurements.DECIMAL_POINTS}",
            )
        # -1 means that results were not checked.
        wrong = "N/A" if words[8] == "-1" else words[8]
        cells.append(_Cells(at, words[0], words[5], words[6], words[7], wrong))
    if not cells:
        fail(file, None, "contains no results: rows after the three rows of names")
    notes = [*fields.note({"count", "type", "in-place"})]
    return _measurement(file, data, cells, _operation(None, given), [], given, notes)


def _of_json(file: Path, data: bytes, given: Given) -> Measurement:
    def refuse(text: str) -> None:
        raise ValueError(f"{text} is no number of JSON")

    try:
        document = _files.parse_json(data, parse_constant=refuse)
    except ValueError as error:
        fail(file, None, f"is not JSON: {error}; give the file that nccl-tests wrote with -J")
    # The environment can contain passwords.
    document.pop("env", None)
    version = document.get("version")
    if version != VERSION:
        fail(file, None, f"version = {shown(str(version))}: must be {VERSION}, as nccl-tests 2.17 writes it")
    results = document.get("results")
    if not isinstance(results, list) or not results:
        fail(file, None, "results: must be a list with at least one result")
    if len(results) > measurements.ROWS_AT_MOST:
        fail(file, None, f"has {len(results):,} results; at most {measurements.ROWS_AT_MOST:,} are read")
    args = document.get("args")
    program = str(args[0]) if isinstance(args, list) and args else None
    notes = [*fields.note(_json_noted(document, results))]
    bounds = document.get("out_of_bounds")
    if isinstance(bounds, dict) and bounds.get("count"):
        count = shown(str(bounds["count"]))
        notes.append(f"{count} values were out of bounds (out_of_bounds): check the fabric first")
    cells = [_json_cells(file, f"results[{at}]", one) for at, one in enumerate(results)]
    nodes = _json_nodes(file, document.get("config"))
    return _measurement(file, data, cells, _operation(program, given), nodes, given, notes)


def _json_noted(document: Mapping[str, Any], results: Sequence[Any]) -> set[str]:
    found = set(document) | {name for one in results if isinstance(one, dict) for name in one}
    noted = {name for name in found if fields.NCCL_JSON.get(name) == "noted"} - {"out_of_bounds"}
    if document.get("errors") == []:
        noted.discard("errors")
    known = set(fields.NCCL_JSON)
    return (noted | {f"`{shown(name)}`" for name in found - known}) | {"in_place"}


def _json_cells(file: Path, place: str, result: Any) -> _Cells:
    if not isinstance(result, dict):
        fail(file, place, "must be a table with size and out_of_place")
    body, name = result.get("out_of_place"), "out_of_place"
    if body is None:
        body, name = result.get("in_place"), "in_place"
    if not isinstance(body, dict):
        fail(file, place, f"{name} must be a table with time, alg_bw and bus_bw")
    if "cpu_time" in body:
        fail(file, place, f"{name}.cpu_time is the time of the CPU; measure without -C 1")
    texts = []
    for name, value in (("size", result.get("size")), *((one, body.get(one)) for one in _JSON_NUMBERS)):
        if isinstance(value, bool) or not isinstance(value, int | float):
            fail(file, place, f"{name} = `{shown(str(value))}`: must be a number")
        texts.append(repr(value))
    wrong = body.get("nwrong")
    size, time, algbw, busbw = texts
    return _Cells(place, size, time, algbw, busbw, "N/A" if wrong is None else str(wrong), is_exact=True)


_JSON_NUMBERS = ("time", "alg_bw", "bus_bw")


def _json_nodes(file: Path, config: Any) -> list[str]:
    devices = config.get("devices") if isinstance(config, dict) else None
    if not isinstance(devices, list) or len(devices) > RANKS_AT_MOST:
        fail(file, None, f"config.devices: must be a list of at most {RANKS_AT_MOST:,} devices")
    nodes: dict[int, str] = {}
    for device in devices:
        rank = device.get("rank") if isinstance(device, dict) else None
        if type(rank) is not int or not isinstance(device.get("hostname"), str):
            fail(file, None, "config.devices: each must have a rank and a hostname")
        if device.get("group", 0) != 0:
            fail(file, None, "config.devices: all must be in group 0; measure without NCCL_TESTS_SPLIT")
        nodes[rank] = device["hostname"]
    if sorted(nodes) != list(range(len(devices))):
        fail(file, None, f"config.devices: must list the ranks from 0 to {len(devices) - 1} once each")
    return [nodes[rank] for rank in range(len(nodes))]


def _operation(program: str | None, given: Given) -> str | None:
    """Return the operation from the name of a program, or the one that the user states."""
    if program is None:
        return given.operation
    name = PurePosixPath(program).name
    return OPERATIONS.get(name.removesuffix("_perf").removesuffix("_perf_mpi"), name)


def _measurement(
    file: Path,
    data: bytes,
    cells: Sequence[_Cells],
    operation: str | None,
    nodes: Sequence[str],
    given: Given,
    notes: Sequence[str],
) -> Measurement:
    """Check rows and return them as a measurement."""
    remarks = list(notes)
    used = [one for one in cells if one.size != "0"]
    if len(used) < len(cells):
        remarks.append(f"{len(cells) - len(used)} rows of size 0 are not used")
    rows = [_row(file, one) for one in used]
    if not rows:
        fail(file, None, "contains no results with a size above 0")
    best = max(used, key=lambda one: float(one.algbw))
    ratio = float(best.busbw) / (float(best.algbw) or 1.0)
    if operation is None and ratio > 1 + AGREE:
        operation = "all-reduce"
    if operation is None or operation not in OPERATIONS.values():
        what = "does not name its operation" if operation is None else f"is a test of `{shown(operation)}`"
        fail(file, None, f"{what}; state one with --collective: {', '.join(OPERATIONS.values())}")
    ranks = len(nodes) or given.ranks or _ranks(operation, ratio)
    if ranks is None or not 2 <= ranks <= RANKS_AT_MOST:
        fail(file, None, f"does not state at least 2 ranks; state their number with --ranks ({ranks})")
    for one in used:
        _check_factor(file, one, operation, ranks)
    order = {name: at for at, name in enumerate(dict.fromkeys(nodes))}
    return Measurement(
        "collective",
        file,
        measurements.digest(data),
        measurements.ordered(file, rows),
        operation,
        tuple(remarks),
        node_names=tuple(order),
        nodes=tuple(order[name] for name in nodes) or tuple(range(ranks)),
    )


def _ranks(operation: str, ratio: float) -> int | None:
    """Return the number of ranks that explains a ratio of bus bandwidth to algorithm bandwidth."""
    share = ratio / 2 if operation == "all-reduce" else ratio
    if operation in {"broadcast", "reduce"} or not 0.0 < share < 0.995:
        return None
    return round(1 / (1 - share))


def _row(file: Path, cells: _Cells) -> Row:
    """Return the size and the time of a row; raise :class:`CalibrationError` if its columns disagree."""
    at = cells.place
    size = measurements.size(file, at, cells.size, "size")
    time_us = measurements.number(file, at, "time", cells.time)
    algbw = measurements.number(file, at, "algbw", cells.algbw)
    measurements.number(file, at, "busbw", cells.busbw)
    if cells.wrong not in {"N/A", "0", "0.0"}:
        count = measurements.number(file, at, "#wrong", cells.wrong)
        fail(file, at, f"#wrong = {count:g}: the operation computed wrong values; fix this first")
    time_s = measurements.time(file, at, "time", time_us * 1e-6)
    by_bandwidth = size / (algbw * 1e9) if algbw else None
    slack = AGREE + _half_digit(cells, cells.time) / time_us
    slack += _half_digit(cells, cells.algbw) / algbw if algbw else 0.0
    if by_bandwidth is not None and abs(by_bandwidth / time_s - 1) > slack:
        fail(
            file,
            at,
            f"algbw = {algbw:.4g} GB/s is not size / time = {size / time_s / 1e9:.4g} GB/s; "
            "the columns must agree within 1 % (time is in microseconds, GB are 10^9 bytes)",
        )
    is_coarse = not cells.is_exact and _digits(cells.time) < min(DIGITS, _digits(cells.algbw))
    if is_coarse and by_bandwidth is not None:
        time_s = by_bandwidth
    return Row(size, time_s, at)


def _check_factor(file: Path, cells: _Cells, operation: str, ranks: int) -> None:
    """Raise :class:`CalibrationError` if the bus bandwidth of a row contradicts its formula."""
    algbw, busbw = float(cells.algbw), float(cells.busbw)
    right = factor(operation, ranks)
    if algbw == 0.0 or busbw == 0.0:
        return
    slack = AGREE + _half_digit(cells, cells.algbw) / algbw + _half_digit(cells, cells.busbw) / busbw
    if abs(busbw / algbw / right - 1) > slack:
        fail(
            file,
            cells.place,
            f"busbw / algbw = {busbw / algbw:.4g}, but {operation} of {ranks} ranks has "
            f"{right:.6g}; the operation or the number of ranks must be another",
        )


def _digits(text: str) -> int:
    """Return the number of significant digits of a printed number."""
    mantissa = re.split("[eE]", text)[0].replace(".", "").lstrip("0")
    return len(mantissa)


def _half_digit(cells: _Cells, text: str) -> float:
    """Return half of the last digit of a printed number of a row."""
    if cells.is_exact:
        return 5e-7
    mantissa, _, exponent = text.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 0.5 * 10.0 ** (int(exponent or 0) - decimals)
