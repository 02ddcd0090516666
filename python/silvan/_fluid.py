"""Flow rates from fluid models, which do not simulate packets."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Literal

from silvan import _core, scenarios
from silvan._core import Scenario
from silvan.types import Fluid, FluidTotal

Rule = Literal["uncontrolled", "max_min", "saa"]
#: The allocation rules: their keys in the answer, and their names in print.
RULES: dict[Rule, str] = {"uncontrolled": "no control", "max_min": "max-min", "saa": "SAA"}


def fluid(scenario: Scenario | str | PathLike[str], **overrides: object) -> Fluid:
    """Compute the fluid rates of all flows, and the completion times of flows that have a total.

    There are three rules. ``uncontrolled`` has back pressure only; its value is None if the rates cannot be
    computed, and ``uncontrolled_missing`` contains the reason. ``max_min`` gives max-min fair rates. ``saa``,
    the single application assignment, lets the last flow end as early as possible. ``answer["flows"]`` has
    one row per flow, with rate, bottleneck and completion time under each rule; ``answer["saa"]`` and its
    counterparts contain the sums. The scenario and the overrides are the arguments of :func:`silvan.run`.
    """
    if not isinstance(scenario, Scenario):
        scenario = scenarios.load(scenario)
    if overrides:
        scenario = scenario.with_overrides(
            {key.replace("__", "."): value for key, value in overrides.items()}
        )
    return _core.fluid(scenario)


def rules(report: Fluid) -> Iterator[tuple[Rule, str, FluidTotal]]:
    """Yield the key, the name and the total of each rule for which `report` contains rates."""
    for key, name in RULES.items():
        total = report[key]
        if total is not None:
            yield key, name, total
