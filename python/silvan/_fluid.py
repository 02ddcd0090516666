"""Fluid rates beside the packet simulation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any

from silvan import _core
from silvan._core import Scenario

#: The rules, as keys of the answer and as people read them.
RULES = {"uncontrolled": "no control", "max_min": "max-min", "saa": "SAA"}


def fluid(scenario: Scenario | str | PathLike[str], **overrides: object) -> dict[str, Any]:
    """Compute the rates of a scenario's flows as fluids, and when those with a total end.

    Three rules: ``uncontrolled`` (back pressure alone; None where it cannot be said, with the reason
    in ``uncontrolled_missing``), ``max_min`` fair rates, and ``saa``, the single application
    assignment, which ends all flows soonest. ``answer["flows"]`` has a row per flow with rate,
    bottleneck and end under each, ``answer["saa"]`` and the like the sums. Overrides are those of
    :func:`silvan.run`.
    """
    if not isinstance(scenario, Scenario):
        scenario = Scenario.load(scenario)
    if overrides:
        scenario = scenario.with_overrides(
            {key.replace("__", "."): value for key, value in overrides.items()}
        )
    return _core.fluid(scenario)


def rules(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return key and name of the rules that an answer of :func:`fluid` has rates for."""
    return ((key, name) for key, name in RULES.items() if report[key] is not None)
