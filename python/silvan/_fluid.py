"""Flow rates from fluid models, which do not simulate packets."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Literal

from silvan import _core, scenarios
from silvan._core import Scenario
from silvan.types import Fluid, FluidTotal

Rule = Literal["uncontrolled", "max_min", "saa"]
#: Maps the key of each allocation rule in :class:`Fluid` to its display name.
RULES: dict[Rule, str] = {"uncontrolled": "no control", "max_min": "max-min", "saa": "SAA"}


def fluid(scenario: Scenario | str | PathLike[str], **overrides: object) -> Fluid:
    """Compute the fluid rates of all flows, and the completion times of flows that have a total.

    There are three rules. ``uncontrolled`` has back pressure only; its value is None if the rates cannot be
    computed, and ``uncontrolled_missing`` contains the reason. ``max_min`` gives max-min fair rates. With
    ``saa``, the single application assignment, the last flow ends as early as possible. The result contains
    a total for each rule. ``result["flows"]`` has one row per flow, with the rate in Gbit/s, the bottleneck
    and the completion time in ns under each rule.

    The scenario and the overrides are the arguments of :func:`silvan.run`. Raises
    :class:`silvan.ScenarioError` if they are wrong.
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
