"""Follows a fixed set of rows over time, ``papers/history.csv``.

The headline of the score counts other rows whenever rows are added, merged or excluded. The fixed set
contains the same 185 rows at each time: those that commit c29aadd counted. Expected numbers and tolerances
are those of the file at all times, and the confidence interval of the mean decides the verdict. Progress can
therefore only result from simulated numbers.

A line of the file contains a row (``<ID>.<key>`` in commit c29aadd), its expected number and tolerance,
whether the tolerance applies to the difference from 1 (``gain``), the row that has the number now if it was
renamed, split or merged since (``now``), and the verdict at each point, a date and a commit.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass, replace
from pathlib import Path

from silvan import _files
from silvan.papers.catalogue import NOT_RUN, VERDICTS, PapersError, find_papers
from silvan.papers.record import Found

COLUMNS = ("row", "expected", "tolerance", "gain", "now")
#: The label of the verdicts that follow from the record.
NOW = "now"


@dataclass(frozen=True)
class Fixed:
    """A row of the fixed set."""

    name: str
    expected: float
    #: Relative; of the difference from 1 with ``gain``.
    tolerance: float
    gain: bool
    #: ``<ID>.<key>`` of the row that has the number now.
    now: str
    #: One verdict for each point.
    verdicts: tuple[str, ...]


@dataclass(frozen=True)
class History:
    """The fixed set with its verdicts."""

    #: Date and commit of each point, the oldest first.
    points: tuple[str, ...]
    rows: tuple[Fixed, ...]


def find_history() -> Path:
    """Return the path of the history that comes with the experiments."""
    return find_papers() / "history.csv"


def of_papers() -> History | None:
    """Return the history that comes with the experiments; None without the file."""
    return read(find_history()) if find_history().exists() else None


def read(path: Path) -> History:
    """Return the history; raises `PapersError` if the file is invalid."""
    try:
        head, *lines = list(csv.reader(io.StringIO(_files.read_text(path))))
    except (OSError, UnicodeDecodeError, ValueError, csv.Error) as error:
        raise PapersError(f"{path}: not a history: {error}") from error
    if tuple(head[: len(COLUMNS)]) != COLUMNS:
        raise PapersError(f"{path}: line 1: must begin with {','.join(COLUMNS)}")
    rows = tuple(_fixed(line, len(head), f"{path}: line {n}") for n, line in enumerate(lines, 2))
    if len({row.name for row in rows}) != len(rows):
        raise PapersError(f"{path}: two lines have the same row")
    return History(tuple(head[len(COLUMNS) :]), rows)


def _fixed(line: list[str], width: int, where: str) -> Fixed:
    if len(line) != width:
        raise PapersError(f"{where}: has {len(line)} fields instead of {width}")
    name, expected, tolerance, gain, now, *verdicts = line
    try:
        numbers = float(expected), float(tolerance)
    except ValueError as error:
        raise PapersError(f"{where}: expected and tolerance must be numbers: {error}") from error
    if gain not in ("", "gain") or not set(verdicts) <= set(VERDICTS):
        raise PapersError(f"{where}: gain must be empty or `gain`, and verdicts {', '.join(VERDICTS)}")
    return Fixed(name, *numbers, gain == "gain", now or name, tuple(verdicts))


def judge(history: History, found: Found) -> tuple[str, ...]:
    """Return the verdict of each row of the fixed set that follows from recorded results.

    Raises `PapersError` if a row does not exist any more.
    """
    rows = {
        f"{experiment.id}.{published.key}": (published, row)
        for experiment, _, own in found.values()
        for published, row in zip(experiment.rows, own, strict=True)
    }
    verdicts = []
    for fixed in history.rows:
        if fixed.now not in rows:
            raise PapersError(
                f"{fixed.name} of the history: there is no row {fixed.now}; the column `now` must name the "
                "row that has its number"
            )
        published, row = rows[fixed.now]
        if row["verdict"] == NOT_RUN:
            verdicts.append(NOT_RUN)
            continue
        judged = replace(published, expected=fixed.expected, tolerance=fixed.tolerance, gain=fixed.gain)
        simulated = math.nan if row["simulated"] is None else row["simulated"]
        verdicts.append(judged.verdict(simulated, row.get("interval") or 0.0))
    return tuple(verdicts)


def points(history: History, found: Found) -> dict[str, dict[str, str]]:
    """Return the verdict of each row by point; the last point, `NOW`, follows from recorded results."""
    names = [row.name for row in history.rows]
    stored = zip(*(row.verdicts for row in history.rows), strict=True)
    columns = [*zip(history.points, stored, strict=True), (NOW, judge(history, found))]
    return {label: dict(zip(names, verdicts, strict=True)) for label, verdicts in columns}


def add(path: Path, label: str, found: Found) -> None:
    """Add a point with the verdicts that follow from recorded results.

    ``label`` is a date and a commit. Raises `PapersError` if the history has this point already.
    """
    history = read(path)
    if label in (*history.points, NOW):
        raise PapersError(f"{path}: there is a point `{label}` already")
    verdicts = judge(history, found)
    head, *lines = list(csv.reader(io.StringIO(_files.read_text(path))))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*head, label])
    writer.writerows([*line, verdict] for line, verdict in zip(lines, verdicts, strict=True))
    _files.write_text(path, out.getvalue())
