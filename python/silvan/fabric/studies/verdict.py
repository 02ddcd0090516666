"""Decides which settings to recommend, from their gain and from the traffic that they harm.

Settings are always compared with no control, on the same fresh seeds. A class is *harmed* if the
confidence interval proves that its throughput is lower, or that the 99th percentile of its latency is larger.
Settings are recommended only without harm, and if their gain is proven and at least
:data:`silvan._statistics.WORTH`. Settings with a small harm are a choice of the user: the verdict shows both
their gain and their price. A large harm, and any harm of a protected class, rules settings out. A comparison
is *undecided* if a harm that would rule settings out is neither proven nor excluded. The best settings get
more seeds until their gain and their harm are decided, up to a limit. To test growing data does not increase
the probability of a false recommendation: each test may spend a share of the 5 %
(:func:`silvan._statistics.spending`), which is divided by the number of settings that are compared. The
confidence of an interval (:class:`Stages`) is therefore higher than 95 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from silvan._core import FabricError
from silvan._statistics import BETTER, WORTH, spending
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
    tried,
    with_best,
)
from silvan.tuning.presets import NONE
from silvan.tuning.racing import Racing, Trial
from silvan.tuning.runs import Instance, Runs, Setting, Values

#: The class of contributors. For this class, only a loss of throughput on the links to hotspots (the
#: objective `hotspots`) rules settings out: its packets wait for the hotspot with any settings, and other
#: traffic may use the capacity that it loses.
HOTSPOTS = "hotspots"
#: Ratios of received traffic and of latency down to which a harm is reported, but does not rule settings out
#: unless the class is protected.
TOLERATED_RECEIVED, TOLERATED_LATENCY = 0.95, 0.8
#: Ratio to no control down to which a loss counts as noise, in single runs during the choice of settings for
#: fresh seeds, and at the lower limit of an interval of a comparison that may be undecided.
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
        """Raise `FabricError` for a name that does not exist in the load, and for invalid weights."""
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
class Effect:
    """The effect of settings on one kind of traffic, compared with no control."""

    #: The class of traffic, or `victims`.
    class_name: str
    #: The objective that measures the effect.
    objective: Objective
    #: Ratio to no control; values below 1 are worse.
    ratio: Interval
    #: Ratio down to which a proven harm does not rule the settings out; 0 if no harm rules them out.
    tolerated: float

    @property
    def is_harm(self) -> bool:
        """Whether a harm is proven."""
        return self.ratio.high < 1.0

    @property
    def rules_out(self) -> bool:
        """Whether the settings are not recommended because of a harm."""
        return self.is_harm and self.ratio.ratio < self.tolerated

    @property
    def is_undecided(self) -> bool:
        """Whether a harm that would rule the settings out is neither proven nor excluded."""
        return not self.is_harm and self.ratio.low < min(self.tolerated, NOISE)

    def __str__(self) -> str:
        low, high = self.ratio.low, self.ratio.high
        if not self.is_harm:
            return self._open()
        if self.objective.larger:
            who = f"{self._who()} {'carry' if self._is_links() else 'receives'}"
            if self.ratio.is_wide:
                return f"{who} at least {percent(1 - high)} % less than without control"
            less = f"{percent(1 - self.ratio.ratio)} % less than without control"
            return f"{who} {less} ({percent(1 - high)} to {percent(1 - low)} %)"
        who = f"the 99th percentile of the latency of {self._who()} is"
        if self.ratio.is_wide:
            return f"{who} at least {1 / high:.2f} times that without control"
        return (
            f"{who} {1 / self.ratio.ratio:.2f} times that without control ({1 / high:.2f} to {1 / low:.2f})"
        )

    def _open(self) -> str:
        """Return the possible effect in words if no harm is proven."""
        who = self._who() if self.objective.larger else f"the 99th percentile of the latency of {self._who()}"
        if self.ratio.is_wide:
            verb = "differ" if self._is_links() else "differs"
            return f"{who} {verb} too much between seeds"
        low, high = self.ratio.low, self.ratio.high
        if self.objective.larger:
            verb = "carry" if self._is_links() else "receive"
            most = f"{percent(high - 1)} % more" if high > 1 else "as much"
            return f"{who} may {verb} from {percent(1 - low)} % less to {most} than without control"
        return f"{who} may be {1 / high:.2f} to {1 / low:.2f} times that without control"

    def _is_links(self) -> bool:
        return self.objective.name == HOTSPOTS

    def _who(self) -> str:
        if self._is_links():
            return "the links to hotspots"
        return f"traffic `{self.class_name}`" if isinstance(self.objective, OfClass) else "the mean victim"


def percent(share: float) -> str:
    """Format a positive share in percent: two significant digits below 9.95 %, else a whole number."""
    return f"{100 * share:.0f}" if share >= 0.0995 else f"{100 * share:.2g}"


@dataclass(frozen=True)
class Option:
    """Settings, their score and their effects, compared with no control."""

    candidate: Candidate
    against_off: Contrast
    effects: tuple[Effect, ...]

    @property
    def seeds(self) -> int:
        """The number of fresh seeds of the comparison."""
        return len({at.seed for at in self.candidate.values})

    @property
    def harms(self) -> tuple[Effect, ...]:
        """The proven harms, first those that rule the settings out, with increasing ratios in each group."""
        found = (one for one in self.effects if one.is_harm)
        return tuple(sorted(found, key=lambda one: (not one.rules_out, one.ratio.ratio)))

    @property
    def undecided(self) -> tuple[Effect, ...]:
        """The effects that are undecided."""
        return tuple(one for one in self.effects if one.is_undecided)

    @property
    def gains(self) -> bool:
        """Whether the score is proven to be better than without control."""
        return self.against_off.score.low > 1.0

    @property
    def is_out(self) -> bool:
        """Whether a proven harm rules these settings out, or their gain is below the minimum."""
        score = self.against_off.score
        useless = score.ratio < WORTH if self.gains else score.high <= WORTH
        return useless or any(harm.rules_out for harm in self.harms)

    @property
    def is_fine(self) -> bool:
        """Whether a proven gain is in steady state and without harm, and a relevant harm is excluded."""
        return self._is_decided and not self.harms

    @property
    def is_choice(self) -> bool:
        """Whether a proven gain has a price: a proven harm that does not rule the settings out."""
        return self._is_decided and bool(self.harms)

    @property
    def _is_decided(self) -> bool:
        return self.gains and not self.is_out and not self.undecided and not self.against_off.doubt

    @property
    def is_open(self) -> bool:
        """Whether more seeds may decide for or against the settings."""
        return not self.is_out and not self._is_decided

    def benefits(self) -> list[str]:
        """Return the objectives that are proven to be better than without control, in words."""
        return [
            f"`{name}` {ratio.in_words}"
            for name, ratio in self.against_off.objectives.items()
            if ratio.verdict == BETTER
        ]

    def reasons(self) -> list[str]:
        """Return the undecided effects, an unproven gain, and a lack of steady state, in words."""
        score = [] if self.gains else [f"compared with no control, {self.against_off.score.in_words}"]
        off = self.against_off
        steady = [f"{off.doubt}: {', '.join(off.trends or off.untested)}"] if off.doubt else []
        return [*score, *steady, *map(str, self.undecided)]

    def in_words(self) -> str:
        """Return the proven harms and the undecided effects, for tables."""
        harm = "; ".join(map(str, self.harms)) or "none proven"
        return harm + (f"; undecided: {'; '.join(map(str, self.undecided))}" if self.undecided else "")


@dataclass(frozen=True)
class Verdict:
    """The recommendation of a study."""

    #: The options that were tried on fresh seeds, best score first.
    options: tuple[Option, ...]

    @property
    def recommended(self) -> Option | None:
        """The first option with a proven gain and no harm; None if there is no such option."""
        return next((one for one in self.options if one.is_fine), None)

    @property
    def is_undecided(self) -> bool:
        """Whether nothing is recommended, but more seeds may decide for an option."""
        return self.recommended is None and self.choice is None and any(one.is_open for one in self.options)

    @property
    def choice(self) -> Option | None:
        """The first option with a gain and a price, if nothing is recommended."""
        return next((one for one in self.options if one.is_choice and self.recommended is None), None)

    @property
    def shown(self) -> Option:
        """The recommended settings, else a choice, undecided settings, or those with the best score."""
        undecided = next((one for one in self.options if one.is_open), None)
        return self.recommended or self.choice or undecided or self.options[0]

    def warnings(self) -> list[str]:
        """Return sentences about the proven harm of the shown settings, worst first."""
        return [f"Harm: with these settings, {harm}." for harm in self.shown.harms]

    def sentence(self) -> str:
        """Return the recommendation as a sentence."""
        shown, score = self.shown, self.shown.against_off
        seeds = f"on {shown.seeds} seeds: "
        if self.recommended is not None:
            return (
                f"Recommended: the settings below. Compared with no control, {seeds}{score.in_words}. No "
                "class of traffic is shown to be worse."
            )
        if self.choice is not None:
            helped = "; ".join(shown.benefits()) or "no single objective is shown to be better"
            return (
                f"Choose: the settings below help at a price. Compared with no control, {seeds}score "
                f"{score.in_words}; {helped}. The price: {'; '.join(map(str, shown.harms))}. Otherwise, "
                "leave congestion control off."
            )
        if self.is_undecided:
            advice = "" if shown.against_off.doubt else " `--seeds` allows more."
            return (
                "Undecided: leave congestion control off. For the settings with the best score, after "
                f"{shown.seeds} seeds: {'; '.join(shown.reasons())}.{advice}"
            )
        if any(one.gains for one in self.options):
            return (
                "Leave it: leave congestion control off. All settings on fresh seeds that are shown to be "
                f"better gain less than {percent(WORTH - 1)} % or harm traffic too much. Those with the best "
                f"score: {score.in_words}. The table of options and the figure `tradeoff` show gain and loss."
            )
        return (
            "Leave it: leave congestion control off. No settings that were tried are shown to be better. "
            f"Those with the best score, compared with no control: {score.in_words}."
        )


@dataclass(frozen=True)
class Stages:
    """The numbers of seeds at which a comparison of settings is tested until it is decided."""

    first: int
    most: int
    #: Number of settings that are compared.
    options: int

    @property
    def seeds(self) -> list[int]:
        """The numbers of seeds, which double up to the maximum."""
        found = [self.first]
        while found[-1] < self.most:
            found.append(min(self.most, 2 * found[-1]))
        return found

    def after(self, seeds: int) -> int:
        """Return the next number of seeds."""
        return next((one for one in self.seeds if one > seeds), self.most)

    def confidence(self, seeds: int) -> float:
        """Return the confidence of the intervals of a comparison with this number of seeds."""
        shares = dict(zip(self.seeds, spending(self.seeds), strict=True))
        return 1 - shares[seeds] / self.options


def judge(tuned: Tuned, runs: Runs, care: Care, most: int) -> tuple[Tuned, Verdict]:
    """Compare all finalists with no control, on at most `most` seeds.

    In the returned result, the settings that the verdict shows come first. Raises :class:`FabricError` if a
    run without control failed, or if no settings could be compared.
    """
    off = next((one for one in tuned.known if one.name == NO_CONTROL), None)
    if off is None:
        raise FabricError(f"the fabric cannot be simulated without control: {'; '.join(tuned.notes)}")
    stages = Stages(tuned.tuning.confirm, most, len(tuned.finalists))
    options = {one.name: option(tuned, one, off, care, stages) for one in tuned.finalists}
    while (best := _unsettled(options, most)) is not None:
        fresh = fresh_instances(replace(tuned.tuning, confirm=stages.after(best.seeds)))
        asked = [(best.candidate.name, best.candidate.setting), (NO_CONTROL, Setting(NONE))]
        runs.expected = max(runs.expected, len(runs.known) + len(asked) * len(fresh))
        found, notes = tried(runs, asked, fresh)
        tuned = replace(tuned, notes=(*tuned.notes, *notes))
        if NO_CONTROL not in found:
            raise FabricError(f"the fabric cannot be simulated without control: {'; '.join(notes)}")
        off = max(off, found[NO_CONTROL], key=lambda one: len(one.values))
        if best.candidate.name in found:
            options[best.candidate.name] = option(tuned, found[best.candidate.name], off, care, stages)
        else:
            del options[best.candidate.name]
    if not options:
        raise FabricError(f"no settings could be compared: {'; '.join(tuned.notes)}")
    verdict = Verdict(_sorted(options))
    known = tuple(off if one.name == NO_CONTROL else one for one in tuned.known)
    finalists = tuple(one.candidate for one in verdict.options)
    tuned = replace(tuned, known=known, finalists=finalists)
    shown = verdict.shown
    return with_best(tuned, shown.candidate, stages.confidence(shown.seeds)), verdict


def option(tuned: Tuned, candidate: Candidate, off: Candidate, care: Care, stages: Stages) -> Option:
    """Return the comparison of settings with no control, on the seeds that both have."""
    shared = [at for at in candidate.values if at in off.values]
    confidence = stages.confidence(len({at.seed for at in shared}))
    against = contrast(tuned.tuning, candidate, off, shared, confidence)
    return Option(candidate, against, effects(tuned.tuning.objectives, against, care))


def _sorted(options: Mapping[str, Option]) -> tuple[Option, ...]:
    return tuple(sorted(options.values(), key=lambda one: -one.against_off.score.ratio))


def _unsettled(options: Mapping[str, Option], most: int) -> Option | None:
    """Return the best open option that may run on more seeds; None if a better option is already fine."""
    for one in _sorted(options):
        if one.is_fine:
            return None
        # More seeds do not show a transient that all of them have.
        if one.is_open and one.seeds < most and not one.against_off.doubt:
            return one
    return None


def watched(objective: Objective) -> str | None:
    """Return the class that an objective measures, if a harm to this class rules settings out; else None."""
    if isinstance(objective, OfClass):
        return None if objective.class_name == HOTSPOTS else objective.class_name
    return HOTSPOTS if objective.name == HOTSPOTS else None


def effects(objectives: Sequence[Objective], against: Contrast, care: Care) -> tuple[Effect, ...]:
    """Return the effects of settings on each kind of traffic, from the ratios to no control."""
    found = []
    for objective in objectives:
        name = watched(objective)
        tolerated = TOLERATED_RECEIVED if objective.larger else TOLERATED_LATENCY
        if name in care.protect:
            tolerated = 1.0
        whose = objective.class_name if isinstance(objective, OfClass) else objective.name
        ratio = against.objectives[objective.name]
        found.append(Effect(name or whose, objective, ratio, 0.0 if name is None else tolerated))
    return tuple(found)


def worst_loss(objectives: Sequence[Objective], one: Values, off: Values, care: Care) -> float:
    """Return the worst ratio to no control of the objectives whose harm can rule settings out, at most 1.

    Ratios of latency are scaled, because their tolerance is larger, unless the class is protected.
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
    """Return the mean of the worst ratios of a setting over the instances in which it was tried.

    None if there are no instances that were also run without control.
    """
    losses = [
        worst_loss(racing.tuning.objectives, values, off[at], care)
        for at, values in trial.values.items()
        if at in off
    ]
    return sum(losses) / len(losses) if losses else None


def finalists(racing: Racing, off: dict[Instance, Values], care: Care) -> list[Trial]:
    """Return the settings to try on fresh seeds: those with the best score, and the best without harm."""
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
