"""A number that a run of the simulator must match."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

import silvan
from verify.compare import toml

#: Two-sided 99.9 % points of Student's t by degrees of freedom.
STUDENT = {5: 6.869, 7: 5.408, 11: 4.437, 15: 4.073, 39: 3.558}


@dataclass(frozen=True)
class Check:
    """A number and its expected value; `tolerance` is absolute."""

    name: str
    law: float
    simulated: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """Return whether the number is within its tolerance."""
        return abs(self.simulated - self.law) <= self.tolerance


def run(scenario: dict[str, Any]) -> silvan.Result:
    """Run a scenario given as nested dicts."""
    return silvan.run(silvan.Scenario.from_toml(toml(scenario, top=True)))


def half_width(samples: list[float]) -> float:
    """Return half the width of the 99.9 % confidence interval of a mean over seeds.

    `KeyError` is raised for numbers of samples that `STUDENT` does not cover.
    """
    return STUDENT[len(samples) - 1] * stdev(samples) / math.sqrt(len(samples))


def sampled(name: str, law: float, samples: list[float], least: float) -> Check:
    """Compare the mean over seeds with a law.

    The tolerance is half the width of the 99.9 % confidence interval, but at least `least`.
    """
    return Check(name, law, mean(samples), max(half_width(samples), least))


def alike(name: str, laws: list[float], samples: list[float], least: float) -> Check:
    """Compare the means over seeds of two models.

    The tolerance is the share `least` of the mean of `laws`, or half the width of the 99.9 % confidence
    interval of the difference if this is larger.
    """
    noise = math.hypot(half_width(laws), half_width(samples))
    return Check(name, mean(laws), mean(samples), max(least * mean(laws), noise))
