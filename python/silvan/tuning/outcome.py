"""The result of a tuning: the best settings, compared with known settings on fresh seeds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from silvan import _calibrated
from silvan._core import Scenario, ScenarioError
from silvan._statistics import BETTER, CONFIDENCE, NOT_SHOWN, WORSE, geometric_mean
from silvan.sweeps.errors import SweepError
from silvan.tuning.objectives import mean_ratio
from silvan.tuning.presets import NONE, PRESETS, REFERENCE
from silvan.tuning.problem import Kind, Tuning
from silvan.tuning.racing import Found, Trial, score
from silvan.tuning.runs import Instance, Runs, Setting, Values

if TYPE_CHECKING:
    from silvan.tuning.unseen import Kept

#: Number of settings of the search that are repeated on fresh seeds, and maximum size of a Pareto front.
FINALISTS, FRONT = 3, 8
NO_CONTROL, OWN = "no control", "the scenario as it is"
#: Share of the runs with a trend above which a quantity is not in steady state. In a few of many runs, a test
#: finds a trend by chance.
UNSTEADY = 0.2
#: An interval is wide if the ratio of its limits is larger.
WIDE = 10.0


@dataclass(frozen=True)
class Interval:
    """A ratio with its confidence interval over seeds."""

    #: Geometric mean over seeds.
    ratio: float
    #: Limits of the interval.
    low: float
    high: float

    @staticmethod
    def of(ratios: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
        """Return the geometric mean of the ratios of two or more seeds, with its confidence interval."""
        found = geometric_mean(ratios, confidence)
        assert found.low is not None
        assert found.high is not None
        return Interval(found.value, found.low, found.high)

    @property
    def is_proven(self) -> bool:
        """Whether the interval excludes 1."""
        return self.low > 1.0 or self.high < 1.0

    @property
    def is_wide(self) -> bool:
        """Whether the interval is so wide that its mean is not reported."""
        return self.high > WIDE * self.low

    @property
    def verdict(self) -> str:
        """One of :data:`silvan._statistics.VERDICTS`."""
        if not self.is_proven:
            return NOT_SHOWN
        return BETTER if self.low > 1.0 else WORSE

    @property
    def in_words(self) -> str:
        """The verdict and the ratio, such as "better, 1.400 times as good (1.300 to 1.500)".

        For a wide interval, the text contains only the limit that excludes 1, if there is one.
        """
        if self.is_wide:
            if not self.is_proven:
                return f"{self.verdict}, as the seeds differ too much"
            bound = {"above": "at least", "below": "at most"}
            word, _, limit = str(self).partition(" ")
            return f"{self.verdict}, {bound[word]} {limit} times as good"
        ratio, _, interval = str(self).partition(" ")
        return f"{self.verdict}, {ratio} times as good {interval}"

    def __str__(self) -> str:
        if self.is_wide:
            if self.low > 1.0:
                return f"above {self.low:.3g}"
            return f"below {self.high:.3g}" if self.high < 1.0 else "seeds differ too much"
        digits = 3 if self.ratio < 10 else 1
        return f"{self.ratio:.{digits}f} ({self.low:.{digits}f} to {self.high:.{digits}f})"


@dataclass(frozen=True)
class Contrast:
    """A comparison with known settings. Ratios above 1 mean that the best settings are better."""

    #: Name of the known settings.
    name: str
    #: Ratio of the scores.
    score: Interval
    #: Ratio for each objective, over all kinds of traffic.
    objectives: dict[str, Interval]
    #: Ratio of the scores for each kind of traffic.
    kinds: dict[str, Interval]
    #: Quantities that are not in steady state with one of the settings, so that the ratios prove nothing.
    trends: tuple[str, ...] = ()
    #: Quantities whose steady state is not tested with one of the settings, because the runs are too short.
    untested: tuple[str, ...] = ()
    #: Duration in ns with which all of them can be tested; None if all are tested.
    testable_at_ns: int | None = None

    @property
    def doubt(self) -> str:
        """Why the ratios prove nothing; empty if all averages are tested and in steady state."""
        if self.trends:
            return "not in steady state"
        return "steady state not tested" if self.untested else ""

    @property
    def in_words(self) -> str:
        """The score with its verdict, or with the reason why there is none."""
        return f"{self.doubt}, {self.score}" if self.doubt else self.score.in_words


@dataclass(frozen=True)
class Candidate:
    """Settings that were tried on fresh seeds."""

    name: str
    setting: Setting
    #: Values of the objectives, in their units, for each instance (kind of traffic and seed).
    values: dict[Instance, Values]
    #: Quantities of the objectives that are not in steady state in more than :data:`UNSTEADY` of the runs.
    trends: tuple[str, ...] = ()
    #: Quantities of the objectives that are not tested in more than this share of the runs, and the duration
    #: in ns with which they can be tested.
    untested: tuple[str, ...] = ()
    testable_at_ns: int | None = None


@dataclass(frozen=True)
class Tuned:
    """The result of :func:`silvan.tune`."""

    tuning: Tuning
    found: Found
    #: The best settings of the search, ordered by their score on fresh seeds; for the mix `pareto`, the
    #: front.
    finalists: tuple[Candidate, ...]
    #: Comparisons of the best settings with each of the known settings.
    contrasts: tuple[Contrast, ...]
    #: Names of settings that could not be compared, with the reasons.
    notes: tuple[str, ...]
    #: Number of simulated runs, and number of runs that were already in the store.
    simulated: int
    reused: int
    #: Comparisons in kinds of traffic that the search did not use.
    kept: tuple[Kept, ...] = ()
    #: Results of the known settings (no control, published settings) on fresh seeds.
    known: tuple[Candidate, ...] = ()

    @property
    def best(self) -> dict[str, Any]:
        """The best settings by scenario key. Keys that start with `cct.` define a table."""
        return dict(self.finalists[0].setting.keys)

    @property
    def importance(self) -> dict[str, float]:
        """The share of each parameter in the variation of the score (PED-ANOVA), 0 to 1; may be empty."""
        return self.found.importance

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario with the best settings."""
        return self.scenario_of(self.finalists[0])

    def scenario_of(self, candidate: Candidate) -> Scenario:
        """Return the scenario with a candidate's settings, its own traffic and its own seed."""
        return self.tuning.base.at(self.tuning.overrides(candidate.setting.keys, Kind("own"), None))

    def opensm_options(self) -> str:
        """Return the best settings as options of OpenSM's configuration file.

        Raises `ScenarioError` if OpenSM has no such options.
        """
        return self.scenario.opensm_options()

    def values(self, candidate: Candidate) -> dict[str, float]:
        """Return a candidate's objectives in their units: means over kinds of traffic and fresh seeds.

        The mean is NaN if no run has a value.
        """
        means = {}
        for n, objective in enumerate(self.tuning.objectives):
            own = [value for values in candidate.values.values() if (value := values[n]) is not None]
            means[objective.name] = math.fsum(own) / len(own) if own else math.nan
        return means

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write the account, settings, numbers and figures to a folder; see `docs/tune.md`.

        Raises `SweepError` if the folder contains other files or cannot be written.
        """
        from silvan.tuning.report import save

        return save(self, Path(folder))

    def __repr__(self) -> str:
        return (
            f"<silvan.Tuned {self.tuning.name!r}: {len(self.found.trials)} settings, {self.found.runs} runs>"
        )


def confirm(
    tuning: Tuning,
    runs: Runs,
    found: Found,
    chosen: Sequence[Trial] | None = None,
    present: Mapping[str, Mapping[str, Any]] | None = None,
) -> Tuned:
    """Try the finalists (`chosen`, or the best settings) and the known settings on fresh seeds; compare them.

    `present` contains further known settings by name, such as those that a fabric has now.
    Raises :class:`SweepError` if the reference or all finalists fail.
    """
    fresh = fresh_instances(tuning)
    if chosen is None:
        chosen = front(tuning, found) if tuning.mix == "pareto" else found.finished[:FINALISTS]
    settings = [(f"setting {trial.number}", trial.setting) for trial in chosen]
    known = [(NO_CONTROL, Setting(NONE)), *((name, Setting(keys)) for name, keys in PRESETS.items())]
    if not tuning.without_control:
        known.append((OWN, Setting({})))
    known += [(name, Setting(keys)) for name, keys in (present or {}).items()]
    runs.expected = len(runs.known) + len(settings + known) * len(fresh)
    candidates, notes = tried(runs, settings + known, fresh)
    notes += [text.rstrip(".") for text in _calibrated.notes([tuning.base.at(tuning.fixed)])]
    reference = candidates.get(REFERENCE)
    finalists = [candidates[name] for name, _ in settings if name in candidates]
    if reference is None or not finalists:
        raise SweepError(f"{tuning.place.origin}: on fresh seeds: {'; '.join(notes)}")
    finalists = best_first(tuning, finalists, reference, fresh)
    compared = [name for name, _ in known if name in candidates]
    confidence = together(len(finalists) * len(compared))
    contrasts = tuple(
        contrast(tuning, finalists[0], candidates[name], fresh, confidence) for name in compared
    )
    others = tuple(candidates[name] for name in compared)
    return Tuned(
        tuning, found, tuple(finalists), contrasts, tuple(notes), runs.simulated, runs.found, known=others
    )


def together(number: int) -> float:
    """Return the confidence of each of several intervals that all hold together with 95 % (Bonferroni).

    A comparison of the best of several finalists counts once for each finalist, because the same seeds select
    it and compare it.
    """
    return 1 - (1 - CONFIDENCE) / number


def with_best(tuned: Tuned, best: Candidate, confidence: float) -> Tuned:
    """Return the result with another finalist as the best; it may have run on further seeds."""
    finalists = (best, *(one for one in tuned.finalists if one.name != best.name))
    contrasts = tuple(
        contrast(tuned.tuning, best, other, [at for at in best.values if at in other.values], confidence)
        for other in tuned.known
    )
    return replace(tuned, finalists=finalists, contrasts=contrasts)


def fresh_instances(tuning: Tuning) -> list[Instance]:
    """Return all pairs of a kind of traffic and a seed that the search did not use."""
    return [Instance(kind, tuning.seeds + 1 + n) for n in range(tuning.confirm) for kind in tuning.kinds]


def tried(
    runs: Runs, settings: Sequence[tuple[str, Setting]], fresh: Sequence[Instance]
) -> tuple[dict[str, Candidate], list[str]]:
    """Try settings on fresh seeds; return the results by name, and the reasons for failures."""
    outcomes = runs.values([(setting, at) for _, setting in settings for at in fresh], "on fresh seeds")
    candidates: dict[str, Candidate] = {}
    notes = []
    for n, (name, setting) in enumerate(settings):
        own = outcomes[n * len(fresh) : (n + 1) * len(fresh)]
        failed = next((outcome for outcome in own if isinstance(outcome, str)), None)
        if failed is not None:
            notes.append(f"{name}: not compared: {failed}")
            continue
        values = {at: one for at, one in zip(fresh, own, strict=True) if not isinstance(one, str)}
        short = [runs.untested.get((setting, at), ([], None)) for at in fresh]
        trends = _often(runs.tuning, [runs.trends.get((setting, at), []) for at in fresh])
        untested = _often(runs.tuning, [names for names, _ in short])
        testable = max((at_ns or 0 for _, at_ns in short), default=0) if untested else 0
        candidates[name] = Candidate(name, setting, values, trends, untested, testable or None)
    return candidates, notes


def _often(tuning: Tuning, by_run: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the quantities of the objectives that are listed for more than :data:`UNSTEADY` of the runs."""
    found = Counter(quantity for names in by_run for quantity in names)
    return tuple(
        quantity
        for quantity, number in found.items()
        if number > UNSTEADY * len(by_run)
        and any(objective.averages(quantity) for objective in tuning.objectives)
    )


def best_first(
    tuning: Tuning, finalists: Sequence[Candidate], other: Candidate, fresh: Sequence[Instance]
) -> list[Candidate]:
    """Order candidates by score, best first. Each run is compared with that of `other` on the same seed."""
    return sorted(finalists, key=lambda one: -_mean_score(tuning, one, other, fresh))


def front(tuning: Tuning, found: Found) -> list[Trial]:
    """Return the Pareto front: at most :data:`FRONT` settings that no other setting dominates."""
    ratios = {trial.number: _parts(tuning, trial) for trial in found.finished}

    def beaten(own: tuple[float, ...]) -> bool:
        return any(
            all(a >= b for a, b in zip(other, own, strict=True)) and other != own for other in ratios.values()
        )

    return [trial for trial in found.finished if not beaten(ratios[trial.number])][:FRONT]


def _parts(tuning: Tuning, trial: Trial) -> tuple[float, ...]:
    full = [one for at, one in trial.ratios.items() if not at.short]
    return tuple(
        mean_ratio([one[n] for one in full], [1.0] * len(full)) for n in range(len(tuning.objectives))
    )


def _ratios(tuning: Tuning, one: Values, other: Values) -> tuple[float, ...]:
    """Return the ratio of two runs for each objective."""
    pairs = zip(tuning.objectives, one, other, strict=True)
    return tuple(objective.ratio(value, against) for objective, value, against in pairs)


def _mean_score(tuning: Tuning, one: Candidate, other: Candidate, fresh: Sequence[Instance]) -> float:
    return score(tuning, {at: _ratios(tuning, one.values[at], other.values[at]) for at in fresh})


def contrast(
    tuning: Tuning,
    best: Candidate,
    other: Candidate,
    fresh: Sequence[Instance],
    confidence: float = CONFIDENCE,
) -> Contrast:
    """Compare two candidates on the same seeds; return the mean ratios with their intervals."""
    ratios = {at: _ratios(tuning, best.values[at], other.values[at]) for at in fresh}
    seeds = sorted({at.seed for at in fresh})

    def interval(of: Callable[[dict[Instance, tuple[float, ...]]], float]) -> Interval:
        by_seed = [{at: one for at, one in ratios.items() if at.seed == seed} for seed in seeds]
        return Interval.of([of(one) for one in by_seed], confidence)

    def of_objective(n: int) -> Callable[[dict[Instance, tuple[float, ...]]], float]:
        return lambda own: mean_ratio([one[n] for one in own.values()], [1.0] * len(own))

    def of_kind(name: str) -> Callable[[dict[Instance, tuple[float, ...]]], float]:
        return lambda own: score(tuning, {at: one for at, one in own.items() if at.kind.name == name})

    return Contrast(
        name=other.name,
        score=interval(lambda own: score(tuning, own)),
        objectives={one.name: interval(of_objective(n)) for n, one in enumerate(tuning.objectives)},
        kinds={kind.name: interval(of_kind(kind.name)) for kind in tuning.kinds},
        trends=tuple(dict.fromkeys((*best.trends, *other.trends))),
        untested=tuple(dict.fromkeys((*best.untested, *other.untested))),
        testable_at_ns=max(best.testable_at_ns or 0, other.testable_at_ns or 0) or None,
    )


def options_or_reason(tuned: Tuned) -> tuple[str | None, str]:
    """Return the settings as options for OpenSM, or None and the reason why that is impossible."""
    try:
        return tuned.opensm_options(), ""
    except ScenarioError as error:
        return None, str(error)
