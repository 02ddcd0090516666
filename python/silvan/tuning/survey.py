"""All settings of a small space, without Optuna: the better half goes on to the next traffic."""

from __future__ import annotations

import itertools

from silvan.sweeps.errors import SweepError
from silvan.tuning.racing import Found, Racing, Trial


class Survey(Racing):
    """A survey; what is next to the best, one step along one axis, is tried in all traffic too."""

    def run(self) -> Found:
        """Try all settings; raises :class:`SweepError` where none runs."""
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
        # The best may change when a neighbour is tried in all traffic; then its neighbours are due.
        while missing := [one for one in self.neighbours(self._best()) if one.state == "stopped"]:
            for trial in missing:
                trial.state = "done"
            for n in range(len(self.instances)):
                self._try([one for one in missing if self.instances[n] not in one.ratios], n)
        return Found(self.reference, self.trials, self.spent, {})

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
        """Return the settings one step from another, along one axis."""
        by_steps = {one.steps: one for one in self.trials}
        found = []
        for n in range(len(self.axes)):
            for step in (trial.steps[n] - 1, trial.steps[n] + 1):
                near = (*trial.steps[:n], step, *trial.steps[n + 1 :])
                if near in by_steps:
                    found.append(by_steps[near])
        return found
