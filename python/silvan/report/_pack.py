"""Packs numbers for the page: one zlib stream of all columns in base64, and the position of each column."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Maps types of numbers to the names of the typed arrays in JavaScript.
KINDS = {"uint8": "Uint8Array", "uint16": "Uint16Array", "uint32": "Uint32Array", "float32": "Float32Array"}


class Pack:
    """Collects columns. :meth:`add` returns the position of a column."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, values: Any, kind: str, *, is_rising: bool = False) -> dict[str, Any]:
        """Add a column of numbers whose type is one of :data:`KINDS`.

        With `is_rising`, the column contains differences modulo the range of the type, which compress better
        if the values mostly increase.
        """
        array: NDArray[Any] = np.asarray(values).astype(kind)
        if is_rising and array.size:
            array = np.diff(array, prepend=array.dtype.type(0))
        # A typed array in JavaScript must start at a multiple of the size of its elements.
        pad = -self._size % 8
        self._parts.append(b"\0" * pad)
        self._parts.append(array.tobytes())
        place = self._size + pad
        self._size = place + array.nbytes
        return {"kind": KINDS[kind], "at": place, "length": int(array.size), "rising": is_rising}

    def text(self) -> str:
        """Return all columns as packed text."""
        return base64.b64encode(zlib.compress(b"".join(self._parts), 9)).decode()
