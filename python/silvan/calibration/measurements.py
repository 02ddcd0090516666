"""What a measurement file states: sizes and times of one test, and the settings that its model needs."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

from silvan import _files
from silvan._core import SilvanError
from silvan._terminal import clean

Kind = Literal["latency", "bandwidth", "collective"]

#: Largest file of text, and of JSON, which can contain the time of each iteration, in bytes.
TEXT_AT_MOST, JSON_AT_MOST = 4 << 20, 16 << 20
#: Most characters of a line of text.
LINE_AT_MOST = 4096
#: Most rows of a file.
ROWS_AT_MOST = 10_000
#: Largest size of a message or an array, in bytes.
SIZE_AT_MOST = 1 << 40
#: Longest time of a row, in seconds.
TIME_AT_MOST = 3600.0
#: What to do about numbers with a decimal comma.
DECIMAL_POINTS = "(run the test with LC_ALL=C)"
#: Most characters of a value in a message.
SHOWN_AT_MOST = 40

#: A decimal number as C's `printf` writes it in the C locale.
NUMBER = re.compile(r"\d+(\.\d*)?([eE][+-]?\d+)?", re.ASCII)
#: Place in a file: its line, from 1, or the name of a value in JSON.
Place = int | str


class CalibrationError(SilvanError):
    """A measurement cannot be used, or a key cannot be fitted. The message states what would be valid."""


@dataclass(frozen=True)
class Row:
    """The measured time for one size."""

    #: Payload of a message, or bytes of the whole array of a collective operation.
    size: int
    #: Time in seconds: of a message (latency), per message (bandwidth), or of an operation.
    time_s: float
    place: Place
    #: The shortest time in seconds, if the file states it.
    least_s: float | None = None


@dataclass(frozen=True)
class Measurement:
    """One test between two hosts, or of one collective operation."""

    kind: Kind
    file: Path
    #: SHA-256 of the file, in hexadecimal.
    digest: str
    #: Rows by increasing size; no size occurs twice.
    rows: tuple[Row, ...]
    #: perftest's operation, such as `RDMA_Write`; or the collective operation as in scenarios.
    operation: str
    #: What the reader ignored or assumed, as sentences.
    notes: tuple[str, ...] = ()
    #: Messages that the sender has outstanding: depth of a queue pair times their number (bandwidth).
    outstanding: int = 128
    #: MTU in bytes, if the file states it.
    mtu: int | None = None
    #: The node of each rank, as a number from 0 in the order of the file (collective).
    nodes: tuple[int, ...] = ()
    #: Names of the nodes; empty if the file does not state them.
    node_names: tuple[str, ...] = ()
    #: Sender and receiver in the scenario, or the hosts of the ranks; empty until they are known.
    hosts: tuple[str, ...] = ()

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.nodes)

    @property
    def name(self) -> str:
        """Name of the file, with the hosts if they are known."""
        ends = f" ({self.hosts[0]} to {self.hosts[-1]})" if self.hosts and self.kind != "collective" else ""
        return f"{self.file.name}{ends}"


def shown(text: str) -> str:
    """Return a value for a message: short, on one line, and without characters that a terminal hides."""
    return one_line(text if len(text) <= SHOWN_AT_MOST else f"{text[:SHOWN_AT_MOST]}...")


def one_line(text: str) -> str:
    r"""Return a text with escapes for line ends and for characters that a terminal hides.

    >>> one_line("a\n\x1b")
    'a\\n\\x1b'
    """
    return clean(text).replace("\n", "\\n").replace("\t", "\\t")


def fail(file: Path, place: Place | None, what: str) -> NoReturn:
    """Raise :class:`CalibrationError` with the place of an error."""
    inside = "" if place is None else f":{place}" if isinstance(place, int) else f": {place}"
    raise CalibrationError(f"{file}{inside}: {what}")


def content(file: Path, at_most: int = TEXT_AT_MOST) -> bytes:
    """Read a regular file of at most `at_most` bytes; the size is checked before it is read.

    Raises `OSError`, or :class:`CalibrationError` if the file is larger.
    """
    size = _files.plain(file).stat().st_size
    if size > at_most:
        fail(file, None, f"has {size:,} bytes; a file of measurements has at most {at_most:,}")
    with file.open("rb") as opened:
        data = opened.read(at_most + 1)
    if len(data) > at_most:
        fail(file, None, f"grows while it is read; a file of measurements has at most {at_most:,} bytes")
    return data


def lines(file: Path, data: bytes) -> list[str]:
    """Return the lines of a text, without their ends; Windows line ends and a byte order mark are accepted.

    Raises :class:`CalibrationError` for text that is not UTF-8, contains control characters, or has a line
    that is too long.
    """
    found = []
    for number, whole in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        raw = whole.removesuffix(b"\r")
        if len(raw) > LINE_AT_MOST:
            fail(file, number, f"has {len(raw):,} characters; a line of a test has at most {LINE_AT_MOST:,}")
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError:
            fail(file, number, "is not text in UTF-8; give the output of the test as it was printed")
        if bad := next((one for one in line if one < " " and one != "\t"), None):
            what = f"contains the control character {ord(bad):#04x}"
            fail(file, number, f"{what}; give the output of the test as plain text")
        found.append(line)
    return found


def of_others(count: int) -> list[str]:
    """Return the note about lines that are not of a test, such as warnings, if there are any."""
    lines = "1 line of other text is" if count == 1 else f"{count} lines of other text are"
    return [f"{lines} not used"] if count else []


def digest(data: bytes) -> str:
    """Return the SHA-256 of a file's content in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def number(file: Path, place: Place, column: str, text: str) -> float:
    """Parse a number of a row that must not be negative.

    Raises :class:`CalibrationError` for other text, such as `nan`, `N/A` or a number with a comma.
    """
    if not NUMBER.fullmatch(text) or not math.isfinite(float(text)):
        hint = "a number of at least 0 with a decimal point, such as 2.10"
        if "," in text:
            hint += f" {DECIMAL_POINTS}"
        fail(file, place, f"{column} = `{shown(text)}`: must be {hint}")
    return float(text)


def size(file: Path, place: Place, text: str, column: str) -> int:
    """Parse a size in bytes; raises :class:`CalibrationError`."""
    if not text.isascii() or not text.isdigit() or len(text) > 15 or int(text) > SIZE_AT_MOST:
        fail(file, place, f"{column} = `{shown(text)}`: must be a whole number of bytes, at most 2^40")
    return int(text)


def time(file: Path, place: Place, column: str, seconds: float) -> float:
    """Check a time in seconds; raises :class:`CalibrationError` for 0 and for more than an hour."""
    if not 0.0 < seconds <= TIME_AT_MOST:
        fail(file, place, f"{column} means {seconds:g} s: must be more than 0 and at most an hour")
    return seconds


def ordered(file: Path, rows: list[Row]) -> tuple[Row, ...]:
    """Return rows by size; raises :class:`CalibrationError` if there are none, too many, or a size twice."""
    if not rows:
        fail(file, None, "contains no rows; give what the client of a finished test printed")
    if len(rows) > ROWS_AT_MOST:
        fail(file, rows[ROWS_AT_MOST].place, f"a file has at most {ROWS_AT_MOST:,} rows")
    known: dict[int, Row] = {}
    for row in rows:
        if row.size in known:
            first = known[row.size].place
            other = f"line {first}" if isinstance(first, int) else first
            fail(
                file,
                row.place,
                f"has the size {row.size} again, which {other} has too; "
                "give each test of other hosts or settings in a file of its own",
            )
        known[row.size] = row
    return tuple(known[one] for one in sorted(known))
