"""Decides which settings to recommend, from what they gain and which classes they harm.

Settings are always compared with no control, on the same fresh seeds. A class of traffic is *harmed* if it
receives less, or if the 99th percentile of its latency is larger, provided that the 95 % confidence interval
excludes equality or that the difference is large. A small harm rules settings out only if the class is
protected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from silvan._core import FabricError
from silvan.fabric.studies.load import Load
from silvan.tuning.objectives import USUAL, Objective, OfClass
from silvan.tuning.outcome import (
    NO_CONTROL,
    Candidate,
    Contrast,
    Interval,
    Tuned,
    contrast,
    fresh_instances,
    with_best,
)
from silvan.tuning.racing import Racing, Trial
from silvan.tuning.runs import Instance, Values

#: The class of contributors. It is judged by the objective `hotspots`, the traffic on the links to hotspots,
#: because the packets of contributors wait for the hotspot with any settings, and other traffic may take
#: their place.
HOTSPOTS = "hotspots"
#: Ratios of received traffic and of latency down to which a harm is reported, but does not rule settings out
#: unless the class is protected.
TOLERATED_RECEIVED, TOLERATED_LATENCY = 0.95, 0.8
#: Differences of single runs within this ratio count as noise in the choice of settings for fresh seeds.
NOISE = 0.98
#: Number of finalists by score, and of harmless finalists.
BY_SCORE, HARMLESS = 2, 2


@dataclass(frozen=True)
class Care:
    """The user's priorities."""

    #: Classes that the recommended settings must not harm.
    protect: tuple[str, ...] = ()
    #: Weights of objectives (`victims`, `hotspots`) or classes; if empty, the default weights apply.
    weights: tuple[tuple[str, float], ...] = ()

    def check(self, load: Load) -> None:
        """Raise `FabricError` if a name does not exist in the load."""
        classes = [group.name for group in load.groups]
        usual = [one.name for one in USUAL]
        for name in self.protect:
            if name not in classes:
                raise FabricError(f"--protect {name}: no class of this load; there are {', '.join(classes)}")
        known = list(dict.fromkeys([*usual, *classes]))
        for name, weight in self.weights:
            if name not in known:
                raise FabricError(f"--weights {name}: not one of {', '.join(known)}")
            if not 0 <= weight <= 1000:
                raise FabricError(f"--weights {name}={weight:g}: must be 0 to 1000")
        if self.weights and not any(weight for _, weight in self.weights):
            raise FabricError("--weights: at least one weight must be above 0")

    def objectives(self, load: Load) -> tuple[Objective, ...]:
        """Return the objectives of the score, and those that are compared without a weight."""
        given = dict(self.weights)
        found: list[Objective] = [
            replace(one, weight=given.get(one.name, 0.0) if given else one.weight) for one in USUAL
        ]
        for group in load.groups:
            # `hotspots` names both a class and an objective, so a weight for this name applies only to the
            # objective.
            weight = given.get(group.name, 0.0) if group.name not in {one.name for one in USUAL} else 0.0
            found.append(OfClass.received(group.name, weight))
            if group.name != HOTSPOTS:
                # Watch the latency of other classes only: packets of contributors wait for the hotspot with
                # any settings.
                found.append(OfClass.latency(group.name))
        return tuple(found)


@dataclass(frozen=True)
class Harm:
    """A class that is worse off with some settings than without control."""

    class_name: str
    #: Whether the class receives less; if false, its latency is larger.
    receives_less: bool
    #: Ratio to no control; values below 1 are worse.
    ratio: Interval
    #: Whether this harm rules the settings out.
    rules_out: bool

    def __str__(self) -> str:
        return self._text() + ("" if self.ratio.high < 1.0 else "; the interval contains no difference")

    def _text(self) -> str:
        low, high = self.ratio.low, self.ratio.high
        if self.receives_less:
            who = f"traffic `{self.class_name}` receives"
            if self.class_name == HOTSPOTS:
                who = "the links to hotspots carry"
            less = f"{100 * (1 - self.ratio.ratio):.0f} % less than without control"
            return f"{who} {less} ({100 * (1 - high):.0f} to {100 * (1 - low):.0f} %)"
        return (
            f"the 99th percentile of the latency of `{self.class_name}` is {1 / self.ratio.ratio:.2f} times "
            f"that without control ({1 / high:.2f} to {1 / low:.2f})"
        )


@dataclass(frozen=True)
class Option:
    """Settings, their score and their harm, compared with no control."""

    candidate: Candidate
    against_off: Contrast
    harms: tuple[Harm, ...]

    @property
    def is_harmless(self) -> bool:
        """Whether no harm rules these settings out."""
        return not any(harm.rules_out for harm in self.harms)

    @property
    def gains(self) -> bool:
        """Whether the score is proven to be better than without control."""
        return self.against_off.score.low > 1.0


@dataclass(frozen=True)
class Verdict:
    """The recommendation of a study."""

    #: The options that were tried on fresh seeds, best score first.
    options: tuple[Option, ...]
    #: The recommended option; None if control should be left off.
    recommended: Option | None

    @property
    def shown(self) -> Option:
        """The recommended settings; if there are none, the settings with the best score."""
        return self.recommended or self.options[0]

    def warnings(self) -> list[str]:
        """Return sentences about the harm of the shown settings, worst first."""
        harms = sorted(self.shown.harms, key=lambda one: (not one.rules_out, one.ratio.ratio))
        return [
            f"{'Harm' if harm.ratio.high < 1.0 else 'Possible harm'}: with these settings, {harm}."
            for harm in harms
        ]

    def sentence(self) -> str:
        """Return the recommendation as a sentence."""
        score = self.shown.against_off.score
        if self.recommended is not None:
            return f"Recommended: the settings below. Compared with no control: {score.in_words}."
        if self.shown.gains:
            return (
                "Recommended: leave congestion control off, unless the gain is worth the harm. All settings "
                f"that were tried and gain also harm; those with the best score are {score.in_words}. "
                "The table of options and the figure `tradeoff` show the gains and losses of all settings."
            )
        return (
            "Recommended: leave congestion control off. No settings that were tried are proven to be better; "
            f"compared with no control, those with the best score make {score.in_words}."
        )


def judge(tuned: Tuned, care: Care) -> tuple[Tuned, Verdict]:
    """Compare all finalists with no control; the returned result lists the recommended settings first."""
    off = next((one for one in tuned.known if one.name == NO_CONTROL), None)
    if off is None:
        raise FabricError(f"the fabric cannot be simulated without control: {'; '.join(tuned.notes)}")
    fresh = fresh_instances(tuned.tuning)
    options = []
    for candidate in tuned.finalists:
        against = contrast(tuned.tuning, candidate, off, fresh)
        found = harms(tuned.tuning.objectives, against, care)
        options.append(Option(candidate, against, tuple(found)))
    options.sort(key=lambda one: -one.against_off.score.ratio)
    verdict = Verdict(tuple(options), choose(options))
    return with_best(tuned, verdict.shown.candidate), verdict


def watched(objective: Objective) -> str | None:
    """Return the class whose harm an objective measures; None if it measures none."""
    if isinstance(objective, OfClass):
        return None if objective.class_name == HOTSPOTS else objective.class_name
    return HOTSPOTS if objective.name == HOTSPOTS else None


def choose(options: Sequence[Option]) -> Option | None:
    """Return the first option that gains and that no harm rules out; None if there is none."""
    return next((one for one in options if one.is_harmless and one.gains), None)


def harms(objectives: Sequence[Objective], against: Contrast, care: Care) -> list[Harm]:
    """Return the harm that settings cause, from the ratios to no control."""
    found = []
    for objective in objectives:
        name, ratio = watched(objective), against.objectives[objective.name]
        if name is None:
            continue
        tolerated = TOLERATED_RECEIVED if objective.larger else TOLERATED_LATENCY
        if name in care.protect:
            tolerated = 1.0 if ratio.high < 1.0 else NOISE
        # A large loss counts even if the seeds vary too much to prove it.
        if ratio.high < 1.0 or ratio.ratio < tolerated:
            found.append(Harm(name, objective.larger, ratio, ratio.ratio < tolerated))
    return found


def worst_loss(objectives: Sequence[Objective], one: Values, off: Values, care: Care) -> float:
    """Return the worst ratio to no control among the received traffic and the latencies of all classes.

    Latency has a larger tolerance, so its ratios are scaled accordingly, unless the class is protected.
    """
    ratios = [1.0]
    for objective, value, against in zip(objectives, one, off, strict=True):
        name = watched(objective)
        if name is not None and value and against:
            ratio = objective.ratio(value, against)
            is_free = not objective.larger and name not in care.protect
            ratios.append(min(1.0, ratio * TOLERATED_RECEIVED / TOLERATED_LATENCY) if is_free else ratio)
    return min(ratios)


def loss_of(racing: Racing, trial: Trial, off: dict[Instance, Values], care: Care) -> float | None:
    """Return the worst loss of a setting over all instances in which it was tried; None if there are none."""
    losses = [
        worst_loss(racing.tuning.objectives, values, off[at], care)
        for at, values in trial.values.items()
        if at in off
    ]
    return sum(losses) / len(losses) if losses else None


def finalists(racing: Racing, off: dict[Instance, Values], care: Care) -> list[Trial]:
    """Return the settings to try on fresh seeds: those with the best score, and the best harmless ones."""
    done = [trial for trial in racing.trials if trial.state == "done" and trial.score is not None]
    done.sort(key=lambda trial: (-(trial.score or 0.0), trial.number))
    chosen = done[:BY_SCORE]
    least = NOISE if care.protect else TOLERATED_RECEIVED
    tried = [trial for trial in racing.trials if trial.values and trial.error is None]
    tried.sort(key=lambda trial: (-(trial.score or 0.0), trial.number))
    losses = {trial.number: loss_of(racing, trial, off, care) or 0.0 for trial in tried}
    kind = [trial for trial in tried if losses[trial.number] >= least and trial not in chosen]
    if not kind and all(losses.get(trial.number, 0.0) < least for trial in chosen):
        # No setting is harmless. For the trade-off, add the setting with the least loss, and one with a
        # larger loss.
        others = sorted((one for one in tried if one not in chosen), key=lambda one: -losses[one.number])
        kind = [others[0], others[len(others) // 4]] if len(others) > 1 else others
    return chosen + kind[:HARMLESS]
