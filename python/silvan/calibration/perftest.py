"""Reads the output of perftest (`ib_write_lat`, `ib_send_bw` and similar programs).

Source: linux-rdma/perftest, `src/perftest_parameters.h` (headers of tables) and `perftest_parameters.c`. Also
there: MB and MiB are 2^20 bytes, Gb is 10^9 bits; the latency is half of a round trip, except for reads and
atomic operations.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from silvan.calibration import fields, measurements
from silvan.calibration.measurements import Kind, Measurement, Row, fail, shown

#: Bytes in the units of bandwidth.
UNITS = {"MB/sec": float(1 << 20), "MiB/sec": float(1 << 20), "Gb/sec": 1e9 / 8}
#: Largest relative difference of two columns that state the same quantity.
AGREE = 0.01
#: Default number of outstanding messages of a bandwidth test (`-t`).
DEPTH = 128

_OPERATIONS = "Send_imm|Send|RDMA_Write_imm|RDMA_Write|RDMA_Read|Atomic"
_TITLE = re.compile(rf"\s*({_OPERATIONS})\s+(.*?)(BW|Latency)\s+(.*?)Test\s*")
_SETTING = re.compile(r"\s*([A-Za-z][\w .*-]*?)\s*:\s*(\S+)")
_DASHES = re.compile(r"\s*-{10,}\s*")
#: Columns, longest names first, because one name can be the start of another.
_COLUMNS = sorted(
    {*(name for name in fields.PERFTEST if name.startswith("#") or "[" in name), "tps average"},
    key=lambda name: (-len(name), name),
)
_REFUSED = {
    "Bidirectional": "states the sum of both directions; measure one direction, without -b",
    "Multicast": "measures a multicast group; measure between two hosts",
    "forwarding": "measures forwarding; measure between two hosts",
}


@dataclass
class _Block:
    """A table of results and the settings before it."""

    line: int
    columns: list[str]
    title: re.Match[str] | None
    settings: dict[str, str]
    rows: list[Row] = field(default_factory=list)
    #: Lines between the rows that are no rows.
    others: int = 0


def read(file: Path, kind: Kind) -> Measurement:
    """Read a latency test or a bandwidth test, as `kind` states.

    Several tables in one file are one test if no size occurs twice, as from a loop over sizes. Raises
    `OSError`, or :class:`CalibrationError` with the file, the line, and what would be valid.
    """
    data = measurements.content(file)
    blocks, is_complete = _blocks(file, measurements.lines(file, data), kind)
    if not blocks:
        fail(
            file,
            None,
            "contains no table of perftest: a line that begins with `#bytes`; "
            "give the output of ib_write_lat or ib_write_bw",
        )
    notes = list(fields.note(_ignored(blocks)))
    if not is_complete:
        notes.append("the table does not end with a line of dashes, so the test may be incomplete")
    first = blocks[0]
    if first.title is None:
        notes.append("the file has no title: a write is assumed")
    notes += measurements.of_others(sum(one.others for one in blocks))
    operations = {one.title[1] for one in blocks if one.title}
    settings = {
        tuple(one.settings.get(key) for key in ("Number of qps", "TX depth", "Mtu")) for one in blocks
    }
    if len(operations) > 1 or len(settings) > 1:
        fail(file, blocks[1].line, "begins a test with other settings; give each test in a file of its own")
    return Measurement(
        kind,
        file,
        measurements.digest(data),
        measurements.ordered(file, [row for block in blocks for row in block.rows]),
        min(operations, default="RDMA_Write"),
        tuple(notes),
        _whole(file, first, "Number of qps", 1) * _whole(file, first, "TX depth", DEPTH),
        _whole(file, first, "Mtu", 0) or None,
    )


def _blocks(file: Path, lines: list[str], kind: Kind) -> tuple[list[_Block], bool]:
    """Return the tables of a file, and whether the last one ends with a line of dashes."""
    blocks: list[_Block] = []
    title: re.Match[str] | None = None
    settings: dict[str, str] = {}
    block: _Block | None = None
    for at, line in enumerate(lines, start=1):
        if line.lstrip().startswith("#flows"):
            fail(file, at, "is a test of flow steering; give a latency or a bandwidth test")
        if line.startswith("#") and line.split()[1:3] == ["size", "count"]:
            fail(file, at, "is the table of nccl-tests; give it with --nccl")
        if line.lstrip().startswith("#bytes"):
            block = _Block(at, _columns(file, at, line), title, dict(settings))
            _check_kind(file, block, kind)
            blocks.append(block)
        elif _DASHES.fullmatch(line):
            block = None
        elif block is not None and line.strip()[:1].isalpha():
            # Warnings, such as "Conflicting CPU frequency values detected", which perftest prints there.
            block.others += 1
        elif block is not None and line.strip():
            block.rows.append(_row(file, at, block.columns, line, kind))
            if len(block.rows) > measurements.ROWS_AT_MOST:
                fail(file, at, f"a file has at most {measurements.ROWS_AT_MOST:,} rows")
        elif block is None and (found := _TITLE.fullmatch(line)):
            _check_title(file, at, found)
            title, settings = found, {}
        elif block is None:
            _add_settings(file, at, line, settings)
    return blocks, block is None


def _check_title(file: Path, at: int, title: re.Match[str]) -> None:
    for word, why in _REFUSED.items():
        if word in title[2] or word in title[4]:
            fail(file, at, f"the test `{title[0].strip()}` {why}")


def _add_settings(file: Path, at: int, line: str, settings: dict[str, str]) -> None:
    """Add the settings of a line, of which there can be two, separated by tabs."""
    for part in line.split("\t"):
        if not (found := _SETTING.match(part)):
            continue
        name, value = found[1].strip(), found[2]
        settings[name] = value
        if name == "Dual-port" and value == "ON":
            settings["_dual_line"] = str(at)


def _columns(file: Path, at: int, line: str) -> list[str]:
    """Return the names of the columns of a header line."""
    rest, columns = line.strip(), []
    while rest:
        text = " ".join(rest.split())
        name = next((one for one in _COLUMNS if text == one or text.startswith(f"{one} ")), None)
        if name is None:
            known = "#bytes, #iterations, t_typical[usec], BW average[MiB/sec] and the others of perftest"
            fail(file, at, f"`{shown(text)}` is no column of perftest that Silvan knows; it knows {known}")
        columns.append(name)
        rest = text[len(name) :]
    return columns


def _check_kind(file: Path, block: _Block, kind: Kind) -> None:
    """Raise :class:`CalibrationError` unless a table has the columns of a kind of test."""
    names = block.columns
    is_latency = any(name.startswith("t_") for name in names)
    is_bandwidth = any(name.startswith("BW average") for name in names)
    if kind == "latency" and not is_latency:
        other = "a bandwidth test; give it with --bandwidth" if is_bandwidth else "no latency test"
        fail(file, block.line, f"is {other}: its table has no column t_typical[usec] or t_avg[usec]")
    if kind == "bandwidth" and not is_bandwidth:
        other = "a latency test; give it with --latency" if is_latency else "no bandwidth test"
        fail(file, block.line, f"is {other}: its table has no column `BW average`")
    line = block.settings.pop("_dual_line", None)
    if line and not any(name.startswith("BW Port1") for name in names):
        fail(
            file,
            int(line),
            "Dual-port = ON: the table states the sum of both ports; "
            "measure one port, or with --report-per-port",
        )


def _row(file: Path, at: int, columns: list[str], line: str, kind: Kind) -> Row:
    """Parse a row of a table."""
    words = line.split()
    if len(words) != len(columns):
        fail(
            file,
            at,
            f"has {len(words)} values, but the table has {len(columns)} columns "
            f"({', '.join(columns)}); give the complete output",
        )
    cells = dict(zip(columns, words, strict=True))
    size = measurements.size(file, at, cells["#bytes"], "#bytes")
    values = {
        name: measurements.number(file, at, name, text)
        for name, text in cells.items()
        if name not in {"#bytes", "#sl"}
    }
    if kind == "latency":
        return _latency_row(file, at, size, values)
    return _bandwidth_row(file, at, size, values)


def _latency_row(file: Path, at: int, size: int, values: dict[str, float]) -> Row:
    column = "t_typical[usec]" if "t_typical[usec]" in values else "t_avg[usec]"
    if column not in values:
        fail(file, at, "the table has no column t_typical[usec] or t_avg[usec]")
    time_s = measurements.time(file, at, column, values[column] * 1e-6)
    least = values.get("t_min[usec]")
    if least is not None and least > values[column]:
        fail(file, at, f"t_min[usec] = {least:g} is more than {column} = {values[column]:g}")
    return Row(size, time_s, at, None if not least else least * 1e-6)


def _bandwidth_row(file: Path, at: int, size: int, values: dict[str, float]) -> Row:
    names = [one for one in values if one.startswith("BW Port1")]
    names += [one for one in values if one.startswith("BW average")]
    column = names[0]
    factor = UNITS[column.split("[")[1].rstrip("]")]
    if size == 0:
        fail(file, at, "#bytes = 0: a bandwidth needs sizes of at least 1 byte")
    if values[column] == 0.0:
        fail(file, at, f"{column} = 0: must be more than 0; the size is too small for this unit or test")
    rate = values[column] * factor
    messages = values.get("MsgRate[Mpps]", 0.0) * 1e6
    # The bandwidth has two decimals, which is coarse for small messages; the rate of messages has six.
    rounding = 0.005 / values[column] + (0.5 / messages if messages else 0.0)
    if column.startswith("BW average") and messages:
        if abs(messages * size / rate - 1) > AGREE + rounding:
            fail(
                file,
                at,
                f"MsgRate[Mpps] = {messages / 1e6:g} times {size} bytes is not {column} = "
                f"{values[column]:g}: the columns must agree within 1 % (MB and MiB are 2^20 bytes, "
                "Gb is 10^9 bits)",
            )
        if 0.5 / messages < 0.005 / values[column]:
            rate = messages * size
    return Row(size, measurements.time(file, at, column, size / rate), at)


def _ignored(blocks: list[_Block]) -> set[str]:
    """Return the columns and settings of tables that are ignored, but that another program might use."""
    found = {name for block in blocks for name in (*block.columns, *block.settings)}
    noted = {name for name in found if fields.PERFTEST.get(name) == "noted"}
    if any(name.startswith("BW Port1") for name in found):
        noted |= {name for name in found if name.startswith("BW average")}
    return noted


def _whole(file: Path, block: _Block, name: str, default: int) -> int:
    """Return a setting that is a whole number, with or without the unit [B]."""
    text = block.settings.get(name)
    if text is None:
        return default
    plain = text.removesuffix("[B]")
    if not plain.isascii() or not plain.isdigit() or not 1 <= len(plain) <= 9 or int(plain) == 0:
        fail(file, block.line, f"{name} = `{shown(text)}` before this table: must be a whole number above 0")
    return int(plain)
