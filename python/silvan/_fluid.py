"""Fluid rates, without packets."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Literal

from silvan import _core, scenarios
from silvan._core import Scenario
from silvan.types import Fluid, FluidTotal

Rule = Literal["uncontrolled", "max_min", "saa"]
#: The rules: keys of the answer, and their names.
RULES: dict[Rule, str] = {"uncontrolled": "no control", "max_min": "max-min", "saa": "SAA"}


def fluid(scenario: Scenario | str | PathLike[str], **overrides: object) -> Fluid:
    """Compute the fluid rates of a scenario's flows, and the ends of flows with a total.

    Three rules: ``uncontrolled`` (back pressure only; None if it cannot be computed, with the reason
    in ``uncontrolled_missing``), ``max_min`` fair rates, and ``saa``, the single application
    assignment, with which the last flow ends soonest. ``answer["flows"]`` has a row per flow with rate,
    bottleneck and end under each rule, ``answer["saa"]`` and so on the sums. Scenario and overrides are
    those of :func:`silvan.run`.
    """
    if not isinstance(scenario, Scenario):
        scenario = scenarios.load(scenario)
    if overrides:
        scenario = scenario.with_overrides(
            {key.replace("__", "."): value for key, value in overrides.items()}
        )
    return _core.fluid(scenario)


def rules(report: Fluid) -> Iterator[tuple[Rule, str, FluidTotal]]:
    """Yield key, name and total of the rules that an answer of :func:`fluid` has rates for."""
    for key, name in RULES.items():
        total = report[key]
        if total is not None:
            yield key, name, total
