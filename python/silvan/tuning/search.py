"""The search: Optuna proposes settings, runs evaluate them, and poor settings are stopped early.

Every setting runs on the same kinds of traffic with the same seeds (common random numbers), one instance
after another. When some settings have finished, a setting is stopped after an instance unless its score is
among the best quarter at that point (racing), except with the mix `pareto`. The same tuning tries the same
settings again, because the batch size does not depend on the number of concurrent runs and Optuna's sampler
has a seed. An interrupted tuning therefore finds its earlier runs in the store.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from silvan.sweeps.axes import Axis
from silvan.sweeps.errors import SweepError
from silvan.tuning.objectives import mean_ratio
from silvan.tuning.presets import EXPONENT, LONGEST, PRESETS, TABLE
from silvan.tuning.problem import Tuning
from silvan.tuning.racing import Found, Racing, Trial
from silvan.tuning.runs import Runs

#: Number of settings that finish before others may be stopped, and number of proposals before the sampler
#: uses its model.
FREE, STARTUP = 4, 10
#: A setting continues after an instance if its score is in this top percentage.
GO_ON_PERCENT = 25
#: Number of candidates of the sampler. With few parameters, Optuna's default of 24 is often too small.
CANDIDATES = 128
#: After this number of proposals in a batch that were already tried, a setting is selected at random.
REPEATS_AT_MOST = 20


def import_optuna() -> Any:
    """Import Optuna; if it is missing, the :class:`SweepError` states how to install it."""
    try:
        import optuna
    except ImportError:
        raise SweepError("tuning needs Optuna: pip install 'silvan[tune]'") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def nearest_steps(search: Sequence[Axis], keys: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the step on each axis that is closest to known settings; the first step for unknown keys."""
    known = dict(keys)
    table = known.get(TABLE, {})
    if table.get("kind") == "quadratic":
        known[f"{TABLE}.scale"] = table["scale"]
        known[LONGEST] = table["scale"] * 127**2 * 7 / table["divisor"] ** 2
        known[EXPONENT] = 2
    steps = []
    for axis in search:
        key, values = axis.settings[0]
        steps.append(0 if key not in known else _nearest(values, known[key]))
    return tuple(steps)


def _nearest(values: Sequence[Any], wanted: Any) -> int:
    if wanted in values:
        return values.index(wanted)
    numbers = [value if isinstance(value, int | float) else math.inf for value in values]
    if not isinstance(wanted, int | float) or all(math.isinf(number) for number in numbers):
        return 0
    return min(range(len(values)), key=lambda step: abs(numbers[step] - wanted))


class Search(Racing):
    """A search in progress; raises :class:`SweepError` without Optuna."""

    def __init__(self, tuning: Tuning, runs: Runs) -> None:
        super().__init__(tuning, runs)
        self._by_steps: dict[tuple[int, ...], Trial] = {}
        self._random = random.Random(tuning.sampler_seed)
        self._optuna = import_optuna()
        self._study = self._new_study()

    def _new_study(self) -> Any:
        optuna = self._optuna
        pareto = self.tuning.mix == "pareto"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sampler = optuna.samplers.TPESampler(
                seed=self.tuning.sampler_seed,
                multivariate=True,
                n_startup_trials=STARTUP,
                n_ei_candidates=CANDIDATES,
                constant_liar=True,
            )
            pruner = (
                optuna.pruners.NopPruner()
                if pareto
                else optuna.pruners.PercentilePruner(GO_ON_PERCENT, n_startup_trials=FREE)
            )
            directions = ["maximize"] * (len(self.tuning.objectives) if pareto else 1)
            study = optuna.create_study(sampler=sampler, pruner=pruner, directions=directions)
            for keys in PRESETS.values():
                steps = nearest_steps(self.axes, keys)
                study.enqueue_trial(self._parameters(steps), skip_if_exists=True)
        return study

    def run(self) -> Found:
        """Search until no runs or no settings remain.

        Raises :class:`SweepError` if the reference fails, or if no setting finishes.
        """
        self.run_reference()
        while self.spent < self.tuning.runs and len(self._by_steps) < self.tuning.size:
            batch = self._ask_batch()
            self._race(batch)
        if not any(trial.state == "done" for trial in self.trials):
            failed = next((trial.error for trial in self.trials if trial.error), "none finished")
            raise SweepError(f"{self.tuning.place.origin}: no setting could be tried: {failed}")
        return Found(self.reference, self.trials, self.spent, self._importance())

    def _ask_batch(self) -> list[tuple[Any, Trial]]:
        """Request settings that were not tried; report known results of other proposals to the sampler."""
        batch: list[tuple[Any, Trial]] = []
        room = min(self.tuning.batch, self.tuning.runs - self.spent, self.tuning.size - len(self._by_steps))
        repeats = 0
        while len(batch) < room:
            asked = self._ask()
            steps = tuple(asked.params[f"{n}"] for n in range(len(self.axes)))
            if steps in self._by_steps:
                repeats += 1
                self._report(asked, self._by_steps[steps])
                if repeats < REPEATS_AT_MOST:
                    continue
                self._study.enqueue_trial(self._parameters(self._untried()))
                repeats = 0
                continue
            trial = self._by_steps[steps] = self.new_trial(steps)
            batch.append((asked, trial))
        return batch

    def _ask(self) -> Any:
        distributions = self._optuna.distributions
        space = {
            f"{n}": distributions.IntDistribution(0, len(axis) - 1)
            if _is_ordered(axis)
            else distributions.CategoricalDistribution(range(len(axis)))
            for n, axis in enumerate(self.axes)
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._study.ask(space)

    def _untried(self) -> tuple[int, ...]:
        while True:
            steps = tuple(self._random.randrange(len(axis)) for axis in self.axes)
            if steps not in self._by_steps:
                return steps

    @staticmethod
    def _parameters(steps: Sequence[int]) -> dict[str, int]:
        return {f"{n}": step for n, step in enumerate(steps)}

    def _race(self, batch: list[tuple[Any, Trial]]) -> None:
        """Try settings on one instance after another; stop those with poor scores."""
        racing = list(batch)
        for step, at in enumerate(self.instances):
            racing = self._affordable(racing)
            outcomes = self.runs.values(
                [(trial.setting, at) for _, trial in racing], f"trial {len(self.trials)}"
            )
            self.spent += len(racing)
            going = []
            for (asked, trial), outcome in zip(racing, outcomes, strict=True):
                self.note(trial, at, outcome)
                if trial.state == "failed":
                    continue
                asked_more = step + 1 < len(self.instances)
                if self.tuning.mix != "pareto":
                    asked.report(trial.score, step)
                    if asked_more and asked.should_prune():
                        trial.state = "stopped"
                        continue
                going.append((asked, trial))
            racing = going
        for asked, trial in batch:
            trial.runs = self.spent
            self._report(asked, trial)

    def _affordable(self, racing: list[tuple[Any, Trial]]) -> list[tuple[Any, Trial]]:
        """Return the best settings so far, at most as many as the remaining runs allow."""
        left = self.tuning.runs - self.spent
        if len(racing) <= left:
            return racing
        best = sorted(racing, key=lambda pair: (-(pair[1].score or 0.0), pair[1].number))
        for _, trial in best[left:]:
            trial.state = "stopped"
        return best[:left]

    def _report(self, asked: Any, trial: Trial) -> None:
        states = self._optuna.trial.TrialState
        if trial.state == "failed" or trial.score is None:
            self._study.tell(asked, state=states.FAIL)
        elif trial.state == "stopped":
            if not self._study.trials[asked.number].intermediate_values:
                asked.report(trial.score, len(trial.ratios) - 1)
            self._study.tell(asked, state=states.PRUNED)
        else:
            self._study.tell(asked, self.parts(trial) if self.tuning.mix == "pareto" else trial.score)

    def parts(self, trial: Trial) -> list[float]:
        """Return the mean ratio of each objective over all instances except short ones."""
        full = [one for at, one in trial.ratios.items() if not at.short]
        return [
            mean_ratio([one[n] for one in full], [1.0] * len(full))
            for n in range(len(self.tuning.objectives))
        ]

    def _importance(self) -> dict[str, float]:
        """Return the share of each parameter in the variation of the score (PED-ANOVA).

        Only finished settings contribute. The result is empty if there are too few of them.
        """
        optuna = self._optuna

        def product(frozen: Any) -> float:
            return float(math.prod(frozen.values))

        target = product if self.tuning.mix == "pareto" else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                evaluator = optuna.importance.PedAnovaImportanceEvaluator()
                shares = optuna.importance.get_param_importances(
                    self._study, evaluator=evaluator, target=target
                )
            except (ValueError, RuntimeError):
                return {}
        return {self.axes[int(n)].name: float(share) for n, share in shares.items() if math.isfinite(share)}


def _is_ordered(axis: Axis) -> bool:
    """Return whether the values of an axis are monotonically increasing or decreasing numbers."""
    if not all(isinstance(label, int | float) and not isinstance(label, bool) for label in axis.labels):
        return False
    return list(axis.labels) in (sorted(axis.labels), sorted(axis.labels, reverse=True))
