"""The expected contents of a run's folder: columns of tables, and keys of the summary and the provenance.

The hashes in a folder only show that its files have not changed. This version of Silvan may be unable to use
the files, because another version may have written other columns or keys.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from silvan._columns import ALWAYS, TABLES, TOGETHER
from silvan.types import Provenance, Summary

if TYPE_CHECKING:
    from arro3.core import Table

Check = Callable[[Any, str], None]


class LayoutError(Exception):
    """The contents of a folder do not have the layout of this version."""


#: The columns of each table, with :attr:`Column.kind`. Increase :data:`silvan._folder.FORMAT` when a column
#: that readers need is added or renamed.
COLUMNS: Mapping[str, Mapping[str, str]] = {
    table.name: {column.name: column.kind for column in table.columns} for table in TABLES.values()
}


def check_tables(names: Iterable[str]) -> None:
    """Raise :class:`LayoutError` if a table of every run, or a part of an optional group, is missing.

    A run without any tables is valid.
    """
    there = set(names)
    if not there:
        return
    missing = ALWAYS - there
    for group in TOGETHER:
        missing |= group - there if group & there else frozenset()
    if missing:
        raise LayoutError(f"the table `{min(missing)}` is missing")


def check_table(name: str, table: Table) -> None:
    """Raise :class:`LayoutError` if a column is missing, has missing values, or is of another kind."""
    # Commands that read no tables start faster without numpy.
    from silvan import _tables

    there = set(table.column_names)
    for column, wanted in COLUMNS[name].items():
        if column not in there:
            raise LayoutError(f"the table `{name}` has no column `{column}`")
        kind = table.schema.field(column).type
        if kind == _tables.NAMES:
            found = "names"
        elif kind == _tables.KINDS["float64"]:
            found = "numbers"
        elif kind in _tables.KINDS.values():
            found = "whole numbers"
        else:
            found = f"values of type {str(kind).strip()}"
        if found != wanted:
            raise LayoutError(f"the column `{column}` of the table `{name}` contains {found}, not {wanted}")
        if table.column(column).null_count > 0:
            raise LayoutError(f"the column `{column}` of the table `{name}` has missing values")


def check_summary(value: Mapping[str, Any]) -> None:
    """Raise :class:`LayoutError` if a summary lacks a required key or has a value of the wrong type."""
    _check_of(Summary)(value, "the summary")


def check_provenance(value: Mapping[str, Any]) -> None:
    """Raise :class:`LayoutError` if a provenance lacks a required key or has a value of the wrong type."""
    _check_of(Provenance)(value, "the provenance")


@cache
def _check_of(hint: Any) -> Check:
    """Return a function that raises :class:`LayoutError` unless a JSON value has the type `hint`."""
    if is_typeddict(hint):
        return _check_of_keys(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _check_of_union(arguments)
    if origin is list:
        return _check_of_list(_check_of(arguments[0]))
    if origin is dict:
        return _check_of_dict(_check_of(arguments[1]))
    accepted = (int, float) if hint is float else hint

    def check(value: Any, where: str) -> None:
        if not isinstance(value, accepted) or (isinstance(value, bool) and hint is not bool):
            what = "null" if hint is type(None) else hint.__name__
            raise LayoutError(f"{where} is {str(value)[:40]!r}, not of type {what}")

    return check


def _check_of_keys(hint: Any) -> Check:
    checks = {key: _check_of(one) for key, one in get_type_hints(hint).items()}
    required = frozenset(hint.__required_keys__)

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise LayoutError(f"{where} is not a table of keys")
        if missing := sorted(required - value.keys()):
            raise LayoutError(f"{where} has no key `{missing[0]}`")
        for key, one in value.items():
            if key in checks:
                checks[key](one, f"{where}: `{key}`")

    return check


def _check_of_union(arguments: tuple[Any, ...]) -> Check:
    others = [_check_of(one) for one in arguments if one is not type(None)]

    def check(value: Any, where: str) -> None:
        if value is None and type(None) in arguments:
            return
        others[0](value, where)

    if len(others) != 1:
        raise TypeError(f"only unions with None are supported, not {arguments}")
    return check


def _check_of_list(of: Check) -> Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, list):
            raise LayoutError(f"{where} is not a list")
        for one in value:
            of(one, f"an entry of {where}")

    return check


def _check_of_dict(of: Check) -> Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise LayoutError(f"{where} is not a table of keys")
        for key, one in value.items():
            of(one, f"{where}: `{key}`")

    return check
