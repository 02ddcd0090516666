"""Counts rows by category, for the eight papers and for other sources.

The headline counts the numbers that the eight papers print and that can be decided, and the orderings that
they state. Numbers of other sources are counted separately. The category of any other row states why the
headline does not count the row. `rows_by_category` lists the rows of each count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from silvan.papers.catalogue import BOUND, COMPATIBLE, ORDERING, PUBLISHED, SHOWN, TWO_SIDED
from silvan.papers.record import Found
from silvan.papers.rows import Row

#: Lines of the score.
PAPERS, OTHERS = "the eight papers", "other sources"
LINES = (PAPERS, OTHERS)

#: Categories that the headline counts.
NUMBERS = "published numbers, two-sided"
ORDERS = "orderings"
HEADLINE = (NUMBERS, ORDERS)
RESTATED = "restated: levels and results of other rows"
#: All categories. The fifth and later categories exclude a row from the headline. If several of these apply,
#: the last one counts.
CATEGORIES = (
    *HEADLINE,
    "published bounds",
    "other numbers and bounds: read, derived or assumed",
    "compatible: draws vary by more than the tolerance",
    "weak numbers",
    RESTATED,
    "quick runs with wide tolerances",
    "computed, no packets simulated",
    "shown without a verdict",
    "duplicates of other rows",
    "not decidable",
    "trivial: cannot fail",
)


def category(row: Mapping[str, Any]) -> str:
    """Return the category of a row."""
    fits = {
        NUMBERS: row["kind"] == TWO_SIDED and row["provenance"] == PUBLISHED,
        ORDERS: row["kind"] == ORDERING,
        "published bounds": row["kind"] == BOUND and row["provenance"] == PUBLISHED,
        "other numbers and bounds: read, derived or assumed": row["provenance"] != PUBLISHED,
        "compatible: draws vary by more than the tolerance": row["verdict"] == COMPATIBLE,
        "weak numbers": row["kind"] == TWO_SIDED and "weak" in row,
        RESTATED: "restated" in row,
        "quick runs with wide tolerances": "smoke" in row,
        "computed, no packets simulated": "computed" in row,
        "shown without a verdict": row["kind"] == SHOWN,
        "duplicates of other rows": "duplicate_of" in row,
        "not decidable": "undecidable" in row,
        "trivial: cannot fail": "trivial" in row,
    }
    # Categories that exclude a row take precedence. An ordering keeps its category with any provenance.
    excluded = [name for name in reversed(CATEGORIES[4:]) if fits[name]]
    return excluded[0] if excluded else next(name for name in CATEGORIES if fits[name])


def compared(found: Found, line: str | None = None) -> list[Row]:
    """Return the rows of the experiments of a line of the score, or of both lines, except laws."""
    return [
        row
        for experiment, _, own in found.values()
        if not experiment.law and line in (None, line_of(experiment.other_source))
        for row in own
    ]


def line_of(other_source: bool) -> str:
    """Return the line of the score on which an experiment is counted."""
    return OTHERS if other_source else PAPERS


def of_category(rows: Iterable[Row], name: str) -> list[Row]:
    """Return the rows of a category."""
    return [row for row in rows if category(row) == name]


def met(rows: Iterable[Row]) -> list[Row]:
    """Return the rows that are met."""
    return [row for row in rows if row["verdict"] == "met"]


def printed(rows: Iterable[Row]) -> list[Row]:
    """Return the rows whose expected number the source prints, counted or not."""
    return [row for row in rows if row["provenance"] == PUBLISHED]


def by_calibration(rows: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows that chose no parameter of the model, and the rows that did."""
    rows = list(rows)
    return [row for row in rows if "calibrated" not in row], [row for row in rows if "calibrated" in row]


def by_statement(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return orderings by the statement of the source that they test.

    An ordering that tests a statement alone has its own name, ``<ID>.<key>``.
    """
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.get("statement") or f"{row['id']}.{row['key']}", []).append(row)
    return found


def hold(statements: Mapping[str, list[Row]]) -> list[str]:
    """Return the names of the statements of which all orderings are met."""
    return [name for name, rows in statements.items() if len(met(rows)) == len(rows)]


def rows_by_category(found: Found, reading: int | None = None) -> dict[str, dict[str, dict[str, list[str]]]]:
    """Return ``<ID>.<key>`` of all rows, or of those of a reading, by line, category and verdict."""
    names: dict[str, dict[str, dict[str, list[str]]]] = {}
    for line in LINES:
        for row in compared(found, line):
            if reading in (None, row["reading"]):
                own = names.setdefault(line, {}).setdefault(category(row), {})
                own.setdefault(row["verdict"], []).append(f"{row['id']}.{row['key']}")
    return names
