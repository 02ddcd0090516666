"""Reads dumps of port counters: text of perfquery, text of Prometheus, CSV.

Dumps come from other machines. A file has a maximum size, values have 64 bits, and messages name the file
and the line. Bytes in a dump are converted to bytes on the link: words of InfiniBand are multiplied by 4.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path

from silvan import _files
from silvan._core import FabricError
from silvan._tables import FORMULA
from silvan._terminal import clean
from silvan.hardware.units import WORD_BYTES

#: Maximum size of a file in bytes, number of its lines, and size of a line in characters.
MAX_BYTES, MAX_LINES, MAX_LINE = 64 << 20, 4 << 20, 64 << 10
MAX_VALUE = 2**64 - 1
#: Value at which 32-bit counters stop.
STUCK = 2**32 - 1
#: The counters that are read: transmitted and received data, the times for which a port waited and was
#: paused, and the pause frames that it received.
SENT, RECEIVED, WAIT, PAUSED, FRAMES = (
    "xmit_bytes",
    "rcv_bytes",
    "xmit_wait_ticks",
    "paused_us",
    "pause_frames_received",
)
#: Names in perfquery, also in releases before 2009; and the factor from the value to the quantity.
INFINIBAND = {
    "PortXmitData": (SENT, WORD_BYTES),
    "XmtData": (SENT, WORD_BYTES),
    "PortRcvData": (RECEIVED, WORD_BYTES),
    "RcvData": (RECEIVED, WORD_BYTES),
    "PortXmitWait": (WAIT, 1),
    "XmtWait": (WAIT, 1),
}
PROMETHEUS = {
    "node_infiniband_port_data_transmitted_bytes_total": (SENT, 1),
    "node_infiniband_port_data_received_bytes_total": (RECEIVED, 1),
    "node_infiniband_port_transmit_wait_total": (WAIT, 1),
    "silvan_port_paused_microseconds_total": (PAUSED, 1),
    "silvan_port_pause_frames_received_total": (FRAMES, 1),
}
#: Columns of CSV. Of two columns of a quantity, the later one in this list counts.
COLUMNS = {
    **INFINIBAND,
    "xmit_words": (SENT, WORD_BYTES),
    "rcv_words": (RECEIVED, WORD_BYTES),
    "xmit_wait_ticks": (WAIT, 1),
    "paused_us": (PAUSED, 1),
    "pause_frames_received": (FRAMES, 1),
    "xmit_bytes": (SENT, 1),
    "rcv_bytes": (RECEIVED, 1),
}
_HEADER = re.compile(r"# Port (extended )?counters:")
_ADDRESS = re.compile(r"# Port (?:extended )?counters: Lid (\d{1,9}) (?:\([^()]{0,40}\) )?port (\d{1,9})\b")

_LABEL = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?')

#: A port by its LID, or by the name of its node; and the number of the port.
Key = tuple[int | str, int]


@dataclass
class Reading:
    """The counters of a port."""

    #: Line of the file at which the counters begin.
    line: int
    values: dict[str, int] = field(default_factory=dict)


@dataclass
class Dump:
    """The counters in a file."""

    file: Path
    #: Format of the file, in words.
    kind: str
    ports: dict[Key, Reading] = field(default_factory=dict)
    #: Time of the counters in ns, if the file states it.
    time_ns: int | None = None

    def at(self, line: int) -> str:
        """Return the name of the file and a line, for messages."""
        return f"{self.file}, line {line}"

    def add(self, key: Key, line: int, name: str, value: int) -> None:
        """Add a value of a port; raises `FabricError` if the port already has one."""
        reading = self.ports.setdefault(key, Reading(line))
        if name in reading.values:
            raise FabricError(
                f"{self.at(line)}: {name} of {_port(key)} appears twice; it is also in the counters at line "
                f"{reading.line}"
            )
        reading.values[name] = value


def read(path: Path) -> Dump:
    """Read a dump of counters in a format that its content shows.

    Raises `FabricError` if the file cannot be read, or if its content is invalid.
    """
    lines = _lines(path)
    if any(_HEADER.match(line) for line in lines):
        found = _perfquery(Dump(path, "perfquery"), lines)
    elif any(line.startswith(tuple(PROMETHEUS)) for line in lines):
        found = _prometheus(Dump(path, "Prometheus"), lines)
    elif lines and "port" in lines[0].split(","):
        found = _csv(Dump(path, "CSV"), lines)
    else:
        raise FabricError(
            f"{path}: has no counters of ports; use the output of `perfquery -x` for each port, metrics of "
            "node_exporter, or CSV with the columns node or lid, port and xmit_bytes or PortXmitData"
        )
    if not found.ports:
        raise FabricError(f"{path}: has no counters of ports, such as PortXmitData")
    return found


def _lines(path: Path) -> list[str]:
    try:
        if _files.plain(path).stat().st_size > MAX_BYTES:
            raise FabricError(f"{path}: has more than {MAX_BYTES >> 20} MiB, the limit of a dump of counters")
        content = path.read_bytes()
    except OSError as error:
        raise FabricError(f"{_files.place(error) or path}: {error.strerror or error}") from None
    if content.count(b"\n") >= MAX_LINES:
        raise FabricError(f"{path}: has more than {MAX_LINES:,} lines, the limit of a dump of counters")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FabricError(f"{path}, line {line}: is not text in UTF-8") from None
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    long = next((number for number, line in enumerate(lines, 1) if len(line) > MAX_LINE), None)
    if long is not None:
        raise FabricError(f"{path}, line {long}: has more than {MAX_LINE:,} characters")
    return lines


def _perfquery(dump: Dump, lines: list[str]) -> Dump:
    key: Key | None = None
    is_extended = True
    for number, line in enumerate(lines, 1):
        if header := _HEADER.match(line):
            address = _ADDRESS.match(line)
            if address is None:
                raise FabricError(
                    f"{dump.at(number)}: `{_short(line)}` has no `Lid N port N`; query the port by its LID"
                )
            key, is_extended = (int(address[1]), int(address[2])), header[1] is not None
            continue
        counter, _, text = line.partition(":")
        counter = counter.strip()
        if counter not in INFINIBAND:
            continue
        if key is None:
            raise FabricError(f"{dump.at(number)}: {counter} is above the first `# Port extended counters`")
        name, factor = INFINIBAND[counter]
        value = _number(dump.at(number), counter, text.lstrip(". \t").rstrip())
        if not is_extended and value == STUCK:
            raise FabricError(
                f"{dump.at(number)}: {counter} is {STUCK:,}, at which 32-bit counters stop; use "
                "`perfquery -x`"
            )
        dump.add(key, number, name, value * factor)
    return dump


def _number(where: str, name: str, text: str) -> int:
    """Parse a whole number, which exporters may write as 1.5e+12."""
    try:
        if re.fullmatch("0[xX][0-9a-fA-F]{1,16}", text):
            return int(text, 16)
        value = Decimal(text if len(text) <= 64 else "NaN")
    except InvalidOperation:
        value = Decimal("NaN")
    if (
        not value.is_finite()
        or value.is_signed()
        or value.adjusted() > 30
        or value != value.to_integral_value()
    ):
        raise FabricError(f"{where}: {name} is `{_short(text)}`; it must be a whole number, such as 3125000")
    if value > MAX_VALUE:
        raise FabricError(f"{where}: {name} is {_short(text)}; counters have at most 64 bits")
    return int(value)


def _prometheus(dump: Dump, lines: list[str]) -> Dump:
    times: set[int] = set()
    lanes: set[tuple[Key, str, str]] = set()
    for number, line in enumerate(lines, 1):
        name = re.match(r"\w*", line)
        if name is None or name[0] not in PROMETHEUS:
            continue
        where = dump.at(number)
        labels, rest = _labels(where, line[name.end() :])
        parts = rest.split()
        if not 1 <= len(parts) <= 2:
            raise FabricError(f"{where}: `{_short(rest)}` must be a value, or a value and a time in ms")
        quantity, factor = PROMETHEUS[name[0]]
        key = _key_of_labels(where, labels)
        value = _number(where, name[0], parts[0]) * factor
        if len(parts) == 2:
            times.add(_number(where, "the time", parts[1]))
        lane = labels.get("priority", "")
        if lane and (key, quantity, lane) not in lanes and key in dump.ports:
            # The pauses of a port are a sum over its priorities.
            lanes.add((key, quantity, lane))
            own = dump.ports[key].values
            own[quantity] = own.get(quantity, 0) + value
        else:
            lanes.add((key, quantity, lane))
            dump.add(key, number, quantity, value)
    if len(times) == 1:
        dump.time_ns = times.pop() * 10**6
    return dump


def _labels(where: str, text: str) -> tuple[dict[str, str], str]:
    """Return the labels at the start of a text, and the rest of the text."""
    if not text.startswith("{"):
        return {}, text
    labels, at = {}, 1
    while found := _LABEL.match(text, at):
        labels[found[1]] = re.sub(r"\\(.)", lambda one: {"n": "\n"}.get(one[1], one[1]), found[2])
        at = found.end()
    if text[at : at + 1] != "}":
        raise FabricError(f'{where}: `{_short(text[at:])}` is not a label such as port="1"')
    return labels, text[at + 1 :]


def _key_of_labels(where: str, labels: dict[str, str]) -> Key:
    """Return the port of labels; a device such as mlx5_0 is an adapter of the host in `instance`."""
    node, port = labels.get("device", ""), labels.get("port", "")
    instance = labels.get("instance", "").rpartition(":")
    if instance[2] and (not node or re.fullmatch(r"mlx\d+_\d+|ib\d+|hfi\d+_\d+", node)):
        node = instance[0] or instance[2]
    if not node or not re.fullmatch(r"\d{1,9}", port):
        raise FabricError(f'{where}: needs the labels device="NODE" and port="NUMBER"')
    return clean(node), int(port)


def _csv(dump: Dump, lines: list[str]) -> Dump:
    rows = _rows(dump, lines)
    _, head = next(rows)
    place = {name: at for at, name in enumerate(head)}
    if not ({"node", "lid"} & place.keys()):
        raise FabricError(f"{dump.at(1)}: has no column `node` or `lid`")
    quantities = [name for name in COLUMNS if name in place]
    if not quantities:
        raise FabricError(f"{dump.at(1)}: has no column such as xmit_bytes or PortXmitData")
    times: dict[Key, int] = {}
    for line, row in rows:
        if len(row) != len(head):
            raise FabricError(f"{dump.at(line)}: has {len(row)} columns instead of {len(head)}")
        key = _key_of_row(dump.at(line), {name: row[at] for name, at in place.items()})
        time = _number(dump.at(line), "time_ns", row[place["time_ns"]]) if "time_ns" in place else 0
        if key in times and time == times[key]:
            raise FabricError(
                f"{dump.at(line)}: {_port(key)} appears twice; it is also in line {dump.ports[key].line}"
            )
        if time < times.get(key, 0):
            continue
        times[key] = time
        reading = Reading(line)
        for name in quantities:
            quantity, factor = COLUMNS[name]
            if text := row[place[name]].strip():
                reading.values[quantity] = _number(dump.at(line), name, text) * factor
        dump.ports[key] = reading
    if "time_ns" in place and len(last := set(times.values())) == 1:
        dump.time_ns = last.pop()
    return dump


def _rows(dump: Dump, lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the last line and the cells of each row that is not empty."""
    rows = csv.reader(lines)
    try:
        yield from ((rows.line_num, row) for row in rows if row)
    except csv.Error as error:
        raise FabricError(f"{dump.at(rows.line_num)}: is not CSV: {error}") from None


def _key_of_row(where: str, cells: dict[str, str]) -> Key:
    port = _number(where, "port", cells["port"].strip())
    if "lid" in cells:
        return _number(where, "lid", cells["lid"].strip()), port
    node = cells["node"]
    # Tables of Silvan have an apostrophe in front of names that a spreadsheet would execute.
    return clean(node[1:] if node.startswith("'") and node[1:].startswith(FORMULA) else node), port


def _port(key: Key) -> str:
    return f"port {key[1]} of {f'LID {key[0]}' if isinstance(key[0], int) else _short(key[0])}"


def _short(text: str) -> str:
    return clean(text if len(text) <= 60 else text[:60] + "...")
