"""Tries settings on the same instances, one instance after another, for the search and the survey."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from silvan.sweeps.axes import Axis
from silvan.sweeps.errors import SweepError
from silvan.tuning.objectives import mean_ratio
from silvan.tuning.presets import PRESETS, REFERENCE
from silvan.tuning.problem import Tuning
from silvan.tuning.runs import Instance, Runs, Setting, Values


@dataclass
class Trial:
    """A setting that was tried, and its results."""

    #: Number of the trial, from 1.
    number: int
    #: Step along each axis of the search space.
    steps: tuple[int, ...]
    setting: Setting
    #: Ratios of the objectives to the reference, for each instance (kind of traffic and seed).
    ratios: dict[Instance, tuple[float, ...]] = field(default_factory=dict)
    #: Values of the objectives, in their units, for each instance.
    values: dict[Instance, Values] = field(default_factory=dict)
    #: Weighted mean ratio; None before the first result, or if the setting failed.
    score: float | None = None
    #: ``done``, ``stopped`` (early) or ``failed``. A running trial is ``done``.
    state: str = "done"
    #: The reason why the setting failed; None otherwise.
    error: str | None = None
    #: Number of runs that the search had executed when the trial ended.
    runs: int = 0


@dataclass
class Found:
    """The result of a search."""

    #: Values of the objectives with the reference settings, for each instance.
    reference: dict[Instance, Values]
    #: All settings that were tried, in order.
    trials: list[Trial]
    #: Number of executed runs.
    runs: int
    #: Importance of each parameter, from 0 to 1; empty if unknown.
    importance: dict[str, float]

    @property
    def finished(self) -> list[Trial]:
        """Trials that ran on all instances, best first."""
        done = [trial for trial in self.trials if trial.state == "done"]
        return sorted(done, key=lambda trial: (-(trial.score or 0.0), trial.number))


def instances(tuning: Tuning) -> list[Instance]:
    """Return the instances in execution order: short runs, then each kind of traffic with each seed."""
    short = [Instance(kind, 1, short=True) for kind in tuning.kinds] if tuning.short else []
    return short + [Instance(kind, seed + 1) for seed in range(tuning.seeds) for kind in tuning.kinds]


def setting_at(search: Sequence[Axis], steps: Sequence[int]) -> Setting:
    """Return the setting at a point of the search space."""
    keys: dict[str, Any] = {}
    for axis, step in zip(search, steps, strict=True):
        keys.update(axis.at(step))
    return Setting(keys)


def score(tuning: Tuning, ratios: Mapping[Instance, Sequence[float]]) -> float:
    """Return the score relative to the reference, from the ratios on some instances.

    Short runs count only if there are no other runs.
    """
    full = {at: one for at, one in ratios.items() if not at.short} or dict(ratios)
    weights = [objective.weight for objective in tuning.objectives]
    by_kind: dict[str, list[float]] = {}
    for at, one in full.items():
        by_kind.setdefault(at.kind.name, []).append(mean_ratio(one, weights))
    kinds = [mean_ratio(own, [1.0] * len(own)) for own in by_kind.values()]
    return min(kinds) if tuning.mix == "worst" else mean_ratio(kinds, [1.0] * len(kinds))


class Racing:
    """A set of trials that are compared with the reference on the same traffic and seeds."""

    def __init__(self, tuning: Tuning, runs: Runs) -> None:
        self.tuning = tuning
        self.runs = runs
        self.axes = tuning.search
        self.instances = instances(tuning)
        self.reference: dict[Instance, Values] = {}
        self.trials: list[Trial] = []
        self.spent = 0

    def run_reference(self) -> None:
        """Run the reference on all instances.

        Raises :class:`SweepError` if a run fails, or if an objective with a weight has no positive value.
        """
        setting = Setting(PRESETS[REFERENCE])
        outcomes = self.runs.values([(setting, at) for at in self.instances], "the reference")
        self.spent += len(self.instances)
        for at, outcome in zip(self.instances, outcomes, strict=True):
            if isinstance(outcome, str):
                raise SweepError(f"{self.tuning.place.origin}: the reference, {at}: {outcome}")
            for objective, value in zip(self.tuning.objectives, outcome, strict=True):
                if objective.weight and (value is None or value <= 0):
                    raise SweepError(
                        f"{self.tuning.place.origin}: objective `{objective.name}` is "
                        f"{'nothing' if value is None else f'{value:g}'} with the reference settings ({at}), "
                        "so nothing can be compared with it; a longer duration or another objective may help"
                    )
            self.reference[at] = outcome

    def note(self, trial: Trial, at: Instance, outcome: Values | str) -> None:
        """Record the outcome of one run of a trial."""
        if isinstance(outcome, str):
            trial.state, trial.error, trial.score = "failed", outcome, None
            return
        pairs = zip(self.tuning.objectives, outcome, self.reference[at], strict=True)
        trial.values[at] = outcome
        trial.ratios[at] = tuple(one.ratio(value, against) for one, value, against in pairs)
        trial.score = score(self.tuning, trial.ratios)

    def new_trial(self, steps: tuple[int, ...]) -> Trial:
        """Add a trial of the setting at `steps`."""
        trial = Trial(len(self.trials) + 1, steps, setting_at(self.axes, steps))
        self.trials.append(trial)
        return trial

    def score_in(self, trial: Trial, shared: Sequence[Instance]) -> float:
        """Return a setting's score on some instances, on which it must have run."""
        return score(self.tuning, {at: trial.ratios[at] for at in shared})
