"""Numbers for the page: one zlib stream of all columns, in base64, and the position of each column."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Types of numbers, by the name of their array in JavaScript.
KINDS = {"uint8": "Uint8Array", "uint16": "Uint16Array", "uint32": "Uint32Array", "float32": "Float32Array"}


class Pack:
    """Collects columns; :meth:`add` returns the position of one."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, values: Any, kind: str, *, is_rising: bool = False) -> dict[str, Any]:
        """Add a column of whole numbers or floats of a kind in :data:`KINDS`.

        A column that mostly rises is kept as differences, which compress better (modulo the kind's range).
        """
        array: NDArray[Any] = np.asarray(values).astype(kind)
        if is_rising and array.size:
            array = np.diff(array, prepend=array.dtype.type(0))
        # Typed arrays in JavaScript start at multiples of the size of their numbers.
        pad = -self._size % 8
        self._parts.append(b"\0" * pad)
        self._parts.append(array.tobytes())
        place = self._size + pad
        self._size = place + array.nbytes
        return {"kind": KINDS[kind], "at": place, "length": int(array.size), "rising": is_rising}

    def text(self) -> str:
        """Return all columns, packed."""
        return base64.b64encode(zlib.compress(b"".join(self._parts), 9)).decode()
