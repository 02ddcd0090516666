"""Converts tables to numpy arrays and to Arrow tables.

Numbers of a new run are not copied between the simulator, numpy and Arrow.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from arro3.core import (
    Array,
    ChunkedArray,
    DataType,
    Field,
    Schema,
    Table,
    dictionary_dictionary,
    dictionary_indices,
)
from numpy.typing import NDArray

from silvan import _columns
from silvan._core import ArrayView

#: A read-only column: numbers, or codes with the list of names that the codes index.
Column = NDArray[Any] | tuple[NDArray[Any], list[str]]
Value = TypeVar("Value")


class ByColumn(dict[str, Value]):
    """The columns of a table by name. For an unknown name, the `KeyError` lists the columns."""

    def __init__(self, table: str, columns: Mapping[str, Value]) -> None:
        super().__init__(columns)
        self._table = table

    def __missing__(self, name: str) -> Value:
        near = difflib.get_close_matches(str(name), self, n=1)
        hint = f"did you mean `{near[0]}`? " if near else ""
        raise KeyError(f"no column `{name}` in the table `{self._table}`; {hint}it has {', '.join(self)}")


class ByName(dict[str, Table]):
    """The tables of a run by name. For a missing table, the `KeyError` states the reason, if it is known."""

    def __missing__(self, name: str) -> Table:
        raise KeyError(_columns.missing(str(name), self))


Columns = Mapping[str, Column]

NAMES = DataType.dictionary(DataType.uint32(), DataType.utf8())
KINDS = {"uint64": DataType.uint64(), "uint32": DataType.uint32(), "float64": DataType.float64()}


def of_run(table: Mapping[str, ArrayView | tuple[ArrayView, list[str]]]) -> Columns:
    """Return a table of the simulator as numpy arrays that share the simulator's memory."""
    return {
        name: (np.asarray(view[0]), view[1]) if isinstance(view, tuple) else np.asarray(view)
        for name, view in table.items()
    }


def has_all_names(columns: Columns) -> bool:
    """Return whether each code of a column of names has a name."""
    coded = (values for values in columns.values() if isinstance(values, tuple))
    return all(not len(codes) or int(codes.max()) < len(names) for codes, names in coded)


def to_arrow(columns: Columns) -> Table:
    """Return columns as an Arrow table with one batch, in which numbers share the memory of the arrays."""
    arrays = [_array(values) for values in columns.values()]
    fields = [Field(name, array.type, nullable=False) for name, array in zip(columns, arrays, strict=True)]
    return Table.from_arrays(arrays, schema=Schema(fields))


def _array(values: Column) -> Array:
    if isinstance(values, tuple):
        codes, names = values
        # The dictionary contains each name once and in order, so the codes index it directly.
        return Array(names, type=DataType.utf8()).cast(NAMES).take(_array(codes))
    # arro3 rejects empty numpy arrays.
    return Array.from_numpy(values) if len(values) else _empty(KINDS[values.dtype.name])


def of_arrow(table: Table) -> Columns:
    """Return the columns of an Arrow table as read-only arrays.

    Raises `TypeError` for a column that contains neither numbers nor names, or that has missing values.
    """
    columns: dict[str, Column] = {}
    for name in table.column_names:
        kind, column = table.schema.field(name).type, table.column(name)
        if kind != NAMES and kind not in KINDS.values():
            raise TypeError(f"column `{name}` is {kind}, not numbers or names")
        if column.null_count > 0:
            raise TypeError(f"column `{name}` has missing values")
        # arro3 cannot combine an empty list of chunks.
        array = column.combine_chunks() if column.num_chunks else _empty(kind)
        if kind == NAMES:
            names = [str(one) for one in dictionary_dictionary(array).to_pylist()]
            columns[name] = (_read_only(dictionary_indices(array)), names)
        else:
            columns[name] = _read_only(array)
    return columns


#: First characters of a cell that spreadsheets execute, or remove before they look for one.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def plain(table: Table) -> Table:
    """Return a table for CSV with the same columns, in which text replaces the codes of names.

    A name that a spreadsheet would execute is preceded by an apostrophe.
    """
    columns = [table.column(name) for name in table.column_names]
    arrays = [_as_text(column) if column.type == NAMES else column for column in columns]
    fields = [
        Field(name, array.type, nullable=False)
        for name, array in zip(table.column_names, arrays, strict=True)
    ]
    return Table.from_arrays(arrays, schema=Schema(fields))


def _as_text(column: ChunkedArray) -> ChunkedArray:
    names = {name for chunk in column.chunks for name in dictionary_dictionary(chunk).to_pylist()}
    texts = column.cast(DataType.utf8())
    if not any(str(name).startswith(FORMULA) for name in names):
        return texts
    guarded = [f"'{text}" if text.startswith(FORMULA) else text for text in texts.to_pylist()]
    return ChunkedArray([Array(guarded, type=DataType.utf8())])


def _empty(kind: DataType) -> Array:
    return Array([], type=DataType.utf8()).cast(NAMES) if kind == NAMES else Array([], type=kind)


def _read_only(array: Array) -> NDArray[Any]:
    values = array.to_numpy()
    values.flags.writeable = False
    return values
