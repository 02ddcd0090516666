"""Reads quantities and names of traffic in resolved scenarios."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

#: Units of times, in ns.
_UNITS_NS = {
    "ps": Fraction(1, 1000),
    "ns": Fraction(1),
    "us": Fraction(10**3),
    "ms": Fraction(10**6),
    "s": Fraction(10**9),
}


def time_ns(written: str) -> Fraction:
    """Parse a time of a resolved scenario, such as "20 us"."""
    number, unit = written.split()
    return Fraction(number) * _UNITS_NS[unit]


def gbit_s(written: str) -> float:
    """Parse a rate of a resolved scenario, such as "13.5 Gbit/s", as a number of Gbit/s."""
    number, unit = written.split()
    prefix = {"": 1e-9, "k": 1e-6, "M": 1e-3, "G": 1.0, "T": 1e3}
    bits = 8.0 if unit.endswith("B/s") else 1.0
    return float(number) * bits * prefix[unit.removesuffix("bit/s").removesuffix("B/s")]


def flows(scenario: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tables of the flows; flows without a name get the one that results use."""
    return [{"name": f"{one['from']}->{one['to']}", **one} for one in scenario.get("flow", ())]


def patterns(scenario: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tables of the traffic patterns; patterns without a name get the one that results use."""
    return [{"name": f"traffic.{n}", **one} for n, one in enumerate(scenario.get("traffic", ()))]
