"""Assigns letters and colors to roots, which are the same in all runs and panels of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from silvan.results import Result

#: Maps the names of roots to numbers from 0. The order is by lifetime in all runs together, longest first.
Roots = Mapping[str, int]


def of(results: Sequence[Result]) -> Roots:
    """Assign a number to each root of the runs."""
    samples: Counter[str] = Counter()
    for result in results:
        if "trees" in result.tables:
            columns = result.numpy("trees")
            for root, count in zip(columns["root"].tolist(), columns["samples"].tolist(), strict=True):
                samples[root] += int(count)
    order = sorted(samples, key=lambda root: (-samples[root], root))
    return {root: number for number, root in enumerate(order)}


def letter(number: int) -> str:
    """Return the letters for a root: A to Z, AA, AB and so on."""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("A") + rest) + text
    return text
