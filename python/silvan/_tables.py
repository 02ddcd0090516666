"""Tables as numpy has them, and as Arrow has them.

Numbers are not copied from the simulator to numpy, nor from there to Arrow; the codes of names are, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from arro3.core import Array, DataType, Field, Schema, Table, dictionary_dictionary, dictionary_indices
from numpy.typing import NDArray

from silvan._core import ArrayView

#: Columns by name: numbers, or codes and the list of names that they number. Read-only.
Columns = dict[str, NDArray[Any] | tuple[NDArray[Any], list[str]]]

NAMES = DataType.dictionary(DataType.uint32(), DataType.utf8())
KINDS = {"uint64": DataType.uint64(), "uint32": DataType.uint32(), "float64": DataType.float64()}


def of_run(table: Mapping[str, ArrayView | tuple[ArrayView, list[str]]]) -> Columns:
    """Return a table of the simulator as arrays over the simulator's memory."""
    return {
        name: (np.asarray(view[0]), view[1]) if isinstance(view, tuple) else np.asarray(view)
        for name, view in table.items()
    }


def to_arrow(columns: Columns) -> Table:
    """Return columns as an Arrow table of one batch, over the memory of the arrays."""
    arrays = [_array(values) for values in columns.values()]
    fields = [Field(name, array.type, nullable=False) for name, array in zip(columns, arrays, strict=True)]
    return Table.from_arrays(arrays, schema=Schema(fields))


def _array(values: NDArray[Any] | tuple[NDArray[Any], list[str]]) -> Array:
    if isinstance(values, tuple):
        codes, names = values
        # Each name once, in order: what numbers the names are the codes themselves.
        return Array(names, type=DataType.utf8()).cast(NAMES).take(_array(codes))
    # arro3 refuses empty arrays of numpy.
    return Array.from_numpy(values) if len(values) else _empty(KINDS[values.dtype.name])


def of_arrow(table: Table) -> Columns:
    """Return copies of an Arrow table's columns.

    Raises `TypeError` where one is neither numbers nor names, or has missing values.
    """
    columns: Columns = {}
    for name in table.column_names:
        kind, column = table.schema.field(name).type, table.column(name)
        if kind != NAMES and kind not in KINDS.values():
            raise TypeError(f"column `{name}` is {kind}, not numbers or names")
        if column.null_count > 0:
            raise TypeError(f"column `{name}` has missing values")
        # arro3 refuses to combine no chunks at all.
        array = column.combine_chunks() if column.num_chunks else _empty(kind)
        if kind == NAMES:
            names = [str(one) for one in dictionary_dictionary(array).to_pylist()]
            columns[name] = (_read_only(dictionary_indices(array)), names)
        else:
            columns[name] = _read_only(array)
    return columns


def _empty(kind: DataType) -> Array:
    return Array([], type=DataType.utf8()).cast(NAMES) if kind == NAMES else Array([], type=kind)


def _read_only(array: Array) -> NDArray[Any]:
    values = array.to_numpy()
    values.flags.writeable = False
    return values
