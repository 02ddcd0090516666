"""Exact times, sizes and rates of a scenario, read independently of the simulator."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

PS = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12}
PREFIX = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


class NotCovered(ValueError):  # noqa: N818 - it is not an error of the scenario
    """The scenario uses something that the second model does not cover."""


def time_ps(text: str) -> int:
    """Read a time in picoseconds. `ValueError` is raised if it is not whole."""
    number, unit = _split(text)
    return _whole(number * PS[unit], text)


def size_bytes(text: str) -> int:
    """Read a size in bytes. `ValueError` is raised if it is not whole."""
    number, unit = _split(text)
    return _whole(number * PREFIX[unit.removesuffix("B")], text)


def rate_ps_per_byte(text: str) -> Fraction:
    """Read a data rate, as the exact time per byte in picoseconds."""
    number, unit = _split(text)
    prefix, per = re.fullmatch(r"(.*?)(bit|B)/s", unit).groups()  # type: ignore[union-attr]
    bits = number * PREFIX[prefix] * (8 if per == "B" else 1)
    return Fraction(8 * 10**12) / bits


def _split(text: str) -> tuple[Fraction, str]:
    number, unit = text.split()
    return Fraction(number), unit


def _whole(value: Fraction, text: str) -> int:
    if value.denominator != 1:
        raise ValueError(f"{text} is not whole in the smallest unit")
    return int(value)


def nothing_left(place: str, given: Mapping[str, Any]) -> None:
    """Raise `NotCovered` if keys were not read."""
    if given:
        raise NotCovered(f"{place}: {', '.join(given)}")
