"""Parses quantities of resolved scenarios."""

from __future__ import annotations

from fractions import Fraction

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
