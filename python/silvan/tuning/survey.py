"""Surveys all settings of a small space without Optuna. After each instance, the better half continues."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace

from silvan.sweeps.axes import Axis
from silvan.sweeps.errors import SweepError
from silvan.tuning.problem import Tuning
from silvan.tuning.racing import Found, Racing, Trial
from silvan.tuning.runs import Runs


class Survey(Racing):
    """A survey that also tries the neighbors of the best setting (one step along one axis).

    `limits` contains the smallest and the largest permitted value of axes of increasing numbers. While the
    best setting is at an end of such an axis, the survey extends the axis at this end. The ratio of the new
    value to its neighbor is that of the two values at this end.
    """

    def __init__(
        self, tuning: Tuning, runs: Runs, limits: Mapping[str, tuple[float, float]] | None = None
    ) -> None:
        super().__init__(tuning, runs)
        self._limits = dict(limits or {})

    def run(self) -> Found:
        """Try all settings; raises :class:`SweepError` if the reference or all settings fail."""
        self.run_reference()
        racing = [
            self.new_trial(steps) for steps in itertools.product(*(range(len(one)) for one in self.axes))
        ]
        for n in range(len(self.instances)):
            self._try(racing, n)
            racing = [trial for trial in racing if trial.state == "done"]
            if not racing:
                failed = next((trial.error for trial in self.trials if trial.error), "none runs")
                raise SweepError(f"{self.tuning.place.origin}: no setting could be tried: {failed}")
            if n + 1 < len(self.instances):
                racing = self._better_half(racing)
        # If a neighbor becomes the best setting, try its neighbors, too.
        while self.surround(best := self._best()):
            if self._best() is best:
                break
        return Found(self.reference, self.trials, self.spent, {})

    def surround(self, trial: Trial) -> int:
        """Try the neighbors of a setting on all instances; return the number of those with missing runs."""
        for n in range(len(self.axes)):
            self._continue(trial, n)
        known = {one.steps for one in self.trials}
        for steps in self._steps_beside(trial):
            if steps not in known:
                self.new_trial(steps)
        missing = [one for one in self.neighbours(trial) if not self._is_tried(one)]
        for one in missing:
            one.state = "done"
        for n, at in enumerate(self.instances):
            self._try([one for one in missing if one.state == "done" and at not in one.ratios], n)
        self.tuning = replace(self.tuning, search=self.axes)
        return len(missing)

    def _is_tried(self, trial: Trial) -> bool:
        return trial.state == "failed" or all(at in trial.ratios for at in self.instances)

    def _continue(self, best: Trial, n: int) -> None:
        """Extend an axis with limits by one value if the best setting is at its end."""
        axis, step = self.axes[n], best.steps[n]
        if axis.name not in self._limits or len(axis) < 2:
            return
        least, most = self._limits[axis.name]
        values = axis.labels
        if step == len(axis) - 1 and values[-1] < most:
            beyond = min(most, round(values[-1] * values[-1] / values[-2]))
            self._replace(n, _longer(axis, (*values, beyond)), 0)
        elif step == 0 and values[0] > least:
            beyond = max(least, round(values[0] * values[0] / values[1]))
            self._replace(n, _longer(axis, (beyond, *values)), 1)

    def _replace(self, n: int, axis: Axis, shift: int) -> None:
        self.axes = (*self.axes[:n], axis, *self.axes[n + 1 :])
        for trial in self.trials:
            trial.steps = (*trial.steps[:n], trial.steps[n] + shift, *trial.steps[n + 1 :])

    def _try(self, trials: list[Trial], n: int) -> None:
        at = self.instances[n]
        outcomes = self.runs.values([(trial.setting, at) for trial in trials], "settings")
        self.spent += len(trials)
        for trial, outcome in zip(trials, outcomes, strict=True):
            self.note(trial, at, outcome)
            trial.runs = self.spent

    @staticmethod
    def _better_half(trials: list[Trial]) -> list[Trial]:
        order = sorted(trials, key=lambda trial: (-(trial.score or 0.0), trial.number))
        keep = {trial.number for trial in order[: (len(order) + 1) // 2]}
        for trial in trials:
            if trial.number not in keep:
                trial.state = "stopped"
        return [trial for trial in trials if trial.number in keep]

    def _best(self) -> Trial:
        done = [trial for trial in self.trials if trial.state == "done"]
        return max(done, key=lambda trial: (trial.score or 0.0, -trial.number))

    def neighbours(self, trial: Trial) -> list[Trial]:
        """Return the trials whose settings differ from that of `trial` by one step along one axis."""
        by_steps = {one.steps: one for one in self.trials}
        return [by_steps[steps] for steps in self._steps_beside(trial) if steps in by_steps]

    def _steps_beside(self, trial: Trial) -> list[tuple[int, ...]]:
        return [
            (*trial.steps[:n], step, *trial.steps[n + 1 :])
            for n, axis in enumerate(self.axes)
            for step in (trial.steps[n] - 1, trial.steps[n] + 1)
            if 0 <= step < len(axis)
        ]

    def end(self, trial: Trial, n: int) -> str:
        """Return the reason why a setting has only one neighbor along an axis; empty if it is not known."""
        axis, step = self.axes[n], trial.steps[n]
        least, most = self._limits.get(axis.name, (None, None))
        if axis.labels[step] == least:
            return "smaller values are not allowed"
        if axis.labels[step] == most:
            return "larger values are not allowed"
        failed = [one for one in self.neighbours(trial) if one.steps[n] != step and one.state == "failed"]
        return f"{failed[0].setting.keys[axis.settings[0][0]]} is rejected" if failed else ""


def _longer(axis: Axis, values: tuple[float, ...]) -> Axis:
    """Return a copy of an axis of one key, with other values."""
    return replace(axis, labels=values, settings=((axis.settings[0][0], values),))
