"""Names and descriptions of the tables of a run and of their columns, from the simulator.

`silvan schema --results` prints them, `tools/site` writes a page with them, and
:mod:`silvan._layout` checks that tables have these columns.
"""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from silvan import _core


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    #: Kind of the values: ``names``, ``whole numbers`` or ``numbers``.
    kind: str
    meaning: str


@dataclass(frozen=True)
class Table:
    """A table of a run."""

    name: str
    rows: str
    columns: tuple[Column, ...]


def _read() -> list[tuple[str, list[Table]]]:
    return [
        (
            group["when"],
            [
                Table(one["name"], one["rows"], tuple(Column(**column) for column in one["columns"]))
                for one in group["tables"]
            ],
        )
        for group in _core.tables_of_results()
    ]


_GROUPS = _read()
#: All tables by name.
TABLES: Mapping[str, Table] = {table.name: table for _, tables in _GROUPS for table in tables}
#: The tables that every run has.
ALWAYS = frozenset(table.name for when, tables in _GROUPS if not when for table in tables)
#: Groups of optional tables. A run has either all tables of a group or none.
TOGETHER = tuple(frozenset(table.name for table in tables) for when, tables in _GROUPS if when)
#: Maps each optional table to the condition under which a run writes it.
CONDITIONS: Mapping[str, str] = {table.name: when for when, tables in _GROUPS if when for table in tables}


def overview() -> str:
    """Return the name and the description of each table, one table per line."""
    width = max(map(len, TABLES))
    return "\n".join(f"{one.name:<{width}}  {one.rows}" for one in TABLES.values())


def unknown(name: str) -> str:
    """Return the error message for a table name that no run has."""
    near = difflib.get_close_matches(name, TABLES, n=3) or TABLES
    return f"no table `{name}`; there are {', '.join(near)}"


def missing(name: str, there: Collection[str]) -> str:
    """Return the error message for a table that is missing in a run with the tables `there`."""
    if not there:
        return f"no table `{name}`: this run was kept without its tables; run the scenario again"
    names = f"the tables of this run are {', '.join(there)}"
    if name in CONDITIONS:
        return f"no table `{name}`: a run has it {CONDITIONS[name]}; {names}"
    near = difflib.get_close_matches(name, TABLES, n=1)
    hint = f"did you mean `{near[0]}`? " if near else ""
    return f"no table `{name}`; {hint}{names}"


def describe(name: str, width: int) -> str:
    """Return the descriptions of a table and its columns, in lines of at most `width` characters."""
    table = TABLES[name]
    columns = max(len(one.name) for one in table.columns)
    lines = textwrap.wrap(f"{name}: {table.rows}", width)
    for one in table.columns:
        lines += textwrap.wrap(
            one.meaning,
            width,
            initial_indent=f"  {one.name:<{columns}}  ",
            subsequent_indent=" " * (columns + 4),
        )
    return "\n".join(lines)


def markdown() -> str:
    """Return the descriptions of all tables in Markdown, for the page about results."""
    parts = []
    for table in TABLES.values():
        rows = [f"| `{one.name}` | {one.meaning} |" for one in table.columns]
        parts.append(
            "\n".join(
                [f"**`{table.name}`**: {table.rows}", "", "| column | meaning |", "| --- | --- |", *rows]
            )
        )
    return "\n\n".join(parts)
