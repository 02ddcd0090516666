"""Simulates hotspots on a fabric without and with congestion control, and surveys settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silvan import _files, _opensm
from silvan._core import FabricError, ModelError, Scenario
from silvan._executor import DEFAULT_EXECUTOR
from silvan._statistics import BETTER
from silvan.fabric.studies import failure
from silvan.fabric.studies import site as sites
from silvan.fabric.studies import verdict as verdicts
from silvan.fabric.studies.load import Load, Shape, draw
from silvan.fabric.studies.site import MTU_BITS, Site
from silvan.fabric.studies.verdict import Care, Verdict
from silvan.results import Result
from silvan.sweeps.axes import Axis
from silvan.sweeps.errors import SweepError
from silvan.sweeps.executors import Options
from silvan.sweeps.study import Base, of_file
from silvan.tuning.outcome import Contrast, Tuned, confirm
from silvan.tuning.presets import DELAYS_US, LONGEST, NONE, PRESETS, REFERENCE
from silvan.tuning.problem import Kind, Tuning
from silvan.tuning.racing import Trial
from silvan.tuning.report import shown_keys
from silvan.tuning.runs import Instance, Notify, Runs, Setting, Values, open_runs
from silvan.tuning.survey import Survey

#: Number of random draws of the roles, number of fresh seeds for each draw, and maximum number of settings
#: that are tried with these seeds.
DRAWS, SEEDS, FINALISTS = 2, 3, verdicts.BY_SCORE + verdicts.HARMLESS
#: Maximum number of fresh seeds of an undecided comparison: the default, and the upper limit of the option.
SEEDS_AT_MOST, SEEDS_LIMIT = 16, 100
#: Initial values of the axes. The longest delay is a multiple of the delay that gives each contributor its
#: fair share of a hotspot.
LONGEST_TIMES, INCREASES, TIMERS = (2, 4, 8), (2, 4, 8), (5, 20, 80)
#: Limits of the axes when the survey extends them: an index has at most 127 steps in a table of 128 entries,
#: the timer has 16 bits, and delays must fit into generated tables.
LIMITS = {"cct_longest": (1, int(DELAYS_US[1])), "ccti_increase": (1, 127), "ccti_timer": (1, 65535)}
#: Start of the message of a run that deadlocked, and number of such runs that sentences name.
DEADLOCK, NAMED = "deadlock at ", 3

Simulate = Callable[[Scenario, str], Result]


@dataclass(frozen=True)
class Asked:
    """The options that the user chose for a study; raises `FabricError` if `seeds` is out of range."""

    fabric: Sequence[Path]
    out: Path
    tables: Path | None = None
    default_rate: str | None = None
    shape: Shape = field(default_factory=Shape)
    seed: int = 1
    #: OpenSM's configuration file with settings that the study also simulates.
    conf: Path | None = None
    jobs: int | None = None
    care: Care = field(default_factory=Care)
    #: Maximum number of fresh seeds of a comparison.
    seeds: int = SEEDS_AT_MOST
    #: Whether aggregation nodes (SHARP) send and receive like hosts.
    aggregation_nodes: bool = False
    #: Names of switches, hosts or ports whose failure is simulated, each in a run of its own.
    down: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not SEEDS <= self.seeds <= SEEDS_LIMIT:
            raise FabricError(f"--seeds {self.seeds}: must be {SEEDS} to {SEEDS_LIMIT}")


@dataclass(frozen=True)
class Margin:
    """How the score changes if a parameter moves one step away from its recommended value."""

    #: The recommended value.
    value: Any
    #: The neighboring values, each with its score relative to the score of the recommended value.
    near: list[tuple[Any, float]]
    #: The reason why there are fewer than two neighbors; empty if there are two.
    end: str


@dataclass(frozen=True)
class Unfinished:
    """A run that deadlocked."""

    settings: str
    #: Name of the draw of the load, and seed.
    traffic: str
    #: The simulator's message: the time and the cycle of outputs.
    reason: str

    def __str__(self) -> str:
        return f"{self.settings}, {self.traffic} ({self.reason.partition(':')[0]})"


@dataclass(frozen=True)
class Simulated:
    """The results of a study; a :class:`Studied` unless runs that its verdict needs deadlocked."""

    asked: Asked
    site: Site
    load: Load
    #: Offered load of each link in Gbit/s.
    offered: NDArray[np.float64]
    #: Finished runs by title: without control, with the defaults, with the user's opensm.conf, with the best
    #: settings.
    runs: dict[str, Result]
    #: Runs that deadlocked.
    unfinished: tuple[Unfinished, ...]
    notes: tuple[str, ...]
    #: Sentences on failures of switches and links.
    failures: tuple[str, ...]

    @property
    def shown(self) -> list[str]:
        """Titles of the runs that tables of links compare."""
        return [title for title in (OFF,) if title in self.runs]

    @property
    def can_deadlock(self) -> bool:
        """Whether the routes can deadlock, or a run did."""
        return self.site.report["deadlock"] is not None or bool(self.unfinished)

    def lead(self) -> list[str]:
        """Return the first sentences of the output: deadlocks, and that no settings are recommended."""
        lines = self._deadlock()
        return [*lines, "No settings are recommended, because runs that a comparison needs deadlocked."]

    def _deadlock(self) -> list[str]:
        lines = []
        if cycle := self.site.report["deadlock"]:
            lines.append(
                f"Deadlock: the routes of this fabric can deadlock: {cycle}. No settings of congestion "
                "control exclude that; correct the routes first."
            )
        elif cycle := self.site.one_lane_cycle:
            lines.append(
                "Lanes: the routes cannot deadlock on the lanes of the fabric, but they can on one lane, as "
                f"in the runs of a study: {cycle}."
            )
        if self.unfinished:
            few = "; ".join(str(one) for one in self.unfinished[:NAMED])
            rest = len(self.unfinished) - NAMED
            more = f"; and {rest} more, see the account" if rest > 0 else ""
            number = f"{len(self.unfinished)} run{'s' * (len(self.unfinished) > 1)}"
            lines.append(f"Deadlock: {number} did not finish: {few}{more}.")
        return lines


@dataclass(frozen=True)
class Studied(Simulated):
    """The results of a study."""

    #: The recommendation, which also selects the settings that `tuned` presents.
    verdict: Verdict
    #: Maps the number of a trial to its score and its worst ratio of a class, both relative to no control.
    tradeoff: dict[int, tuple[float, float]]
    #: The survey of settings.
    tuned: Tuned
    #: The margin of each parameter.
    margins: dict[str, Margin]

    @property
    def title(self) -> str:
        """The title of the run with the best settings."""
        return _title(self.verdict)

    @property
    def shown(self) -> list[str]:
        """Titles of the runs that tables of links compare."""
        return [OFF, self.title]

    def lead(self) -> list[str]:
        """Return the first sentences of the output: deadlocks, harm, recommendation, present settings."""
        return [
            *self._deadlock(),
            *self.verdict.warnings(),
            self.verdict.sentence(),
            *(_beside_present(one) for one in self.tuned.contrasts if one.name == MINE),
        ]


#: Names of the files with the scenario and with the option lines.
SITE, OPTIONS = "site.toml", "opensm.conf"
OFF, DEFAULTS, MINE, BEST = "without control", "defaults", "opensm.conf", "recommended"
#: If no settings are recommended: title of the run with the best settings, and file of its option lines.
COSTLY, COSTLY_OPTIONS = "best score, not recommended", "not-recommended.conf"


def _beside_present(one: Contrast) -> str:
    """Return a sentence that compares the settings of the verdict with those that the fabric has now."""
    told = f"no difference shown, {one.in_words}" if one.doubt else one.in_words
    keep = "" if one.score.verdict == BETTER and not one.doubt else " Nothing speaks for a change."
    return f"Present settings: compared with those of {MINE}, the settings below are: {told}.{keep}"


def _title(verdict: Verdict) -> str:
    return BEST if verdict.recommended is not None else COSTLY


def space(site: Site, load: Load) -> tuple[Axis, ...]:
    """Return the axes of the survey. Delays depend on the contributors per hotspot and the link rate."""
    hot = load.groups[0]
    share = len(hot.hosts) / len(hot.targets)
    fair_us = share * MTU_BITS / site.host_gbit_s / 1000
    longest = tuple(max(1, round(times * fair_us)) for times in LONGEST_TIMES)
    longest = tuple(sorted(set(longest)))
    every = (
        ("marking_rate", "congestion.marking.marking_rate"),
        ("packet_size", "congestion.marking.packet_size"),
    )
    return (
        *(Axis(name, "", (0,), ((key, (0,)),)) for name, key in every),
        Axis("cct_longest", "us", longest, ((LONGEST, longest),)),
        Axis("ccti_increase", "", INCREASES, (("congestion.reaction.ccti_increase", INCREASES),)),
        Axis("ccti_timer", "1.024 us", TIMERS, (("congestion.reaction.ccti_timer", TIMERS),)),
    )


def _tuning(asked: Asked, site: Site, load: Load, base: Base) -> Tuning:
    """Return the survey problem, which contains the drawn load and further draws."""
    kinds = [Kind("as drawn")]
    for n in range(1, DRAWS):
        other = draw(load.hosts, load.rate_gbit_s, asked.shape, asked.seed + 1000 * n)
        settings: dict[str, Any] = {}
        for number, table in enumerate(other.tables()):
            settings |= {
                f"traffic.{number}.hosts": table["hosts"],
                f"traffic.{number}.pattern": table["pattern"],
            }
        kinds.append(Kind(f"drawn again {n}", settings))
    return Tuning(
        name="survey",
        base=base,
        search=space(site, load),
        kinds=tuple(kinds),
        objectives=asked.care.objectives(load),
        confirm=SEEDS,
        fixed={"measure.forest": False, "measure.links": False},
    )


def study(asked: Asked, simulate: Simulate, notify: Notify) -> Simulated:
    """Execute the runs and the survey, and compute the margins; see :func:`silvan.fabric.study`."""
    if asked.conf is not None:
        # Raise errors of the file before the runs.
        _opensm.read(asked.conf)
    site = sites.read_site(asked.fabric, asked.tables, asked.default_rate, whole=asked.aggregation_nodes)
    load = draw(site.routes.hosts, site.host_gbit_s, asked.shape, asked.seed)
    asked.care.check(load)
    for name in asked.down:
        failure.is_link(site.routes.links, site.routes.hosts, name)
    site = sites.keep(site, asked.out / "fabric")
    file = asked.out / SITE
    _files.write_text(file, sites.scenario_text(site, load, sites.duration_ns(site), asked.seed))
    tuning = _tuning(asked, site, load, of_file(file))
    done = open_runs(tuning, asked.out / "runs", DEFAULT_EXECUTOR, Options(jobs=asked.jobs), notify)
    notes = [*site.notes, *load.notes]
    present: dict[str, Mapping[str, Any]] = {}
    if asked.conf is not None:
        own, said = _opensm.load(file, asked.conf, {})
        notes += said
        present[MINE] = dict(own.overrides)
    judged: _Judged | None = None
    try:
        judged = _judge(asked, tuning, done, present)
    except (SweepError, FabricError):
        if not _deadlocked(done):
            raise
    titles: dict[str, Mapping[str, Any]] = {OFF: NONE, DEFAULTS: PRESETS[REFERENCE], **present}
    if judged is not None:
        # Simulate the settings of the option file, because the delays in OpenSM's table are rounded.
        lines = asked.out / COSTLY_OPTIONS
        _files.write_text(lines, judged.tuned.opensm_options())
        titles[_title(judged.verdict)] = dict(_opensm.load(file, lines, {})[0].overrides)
    scenarios = {title: Scenario.load(file, dict(keys)) for title, keys in titles.items()}
    runs, stopped = _finish(scenarios, simulate, f"{tuning.kinds[0].name}, seed {asked.seed}")
    # The same run may be in both lists.
    unfinished = tuple({(one.settings, one.traffic): one for one in (*_deadlocked(done), *stopped)}.values())
    failures = failure.sentences(file, runs[OFF], asked.down, simulate) if OFF in runs else []
    offered = site.routes.load(load.demand())
    simulated = Simulated(asked, site, load, offered, runs, unfinished, tuple(notes), tuple(failures))
    if judged is None or not {OFF, _title(judged.verdict)} <= runs.keys():
        return simulated
    return Studied(**vars(simulated), **vars(judged))


@dataclass(frozen=True)
class _Judged:
    """The fields of :class:`Studied` that a comparison of settings yields."""

    verdict: Verdict
    tradeoff: dict[int, tuple[float, float]]
    tuned: Tuned
    margins: dict[str, Margin]


def _judge(asked: Asked, tuning: Tuning, done: Runs, present: Mapping[str, Mapping[str, Any]]) -> _Judged:
    """Survey the settings, compare the best with known ones on fresh seeds, and compute the margins.

    `present` contains the settings that the fabric has now, by name.
    """
    survey = Survey(tuning, done, LIMITS)
    done.expected = tuning.size * len(tuning.kinds) + (FINALISTS + 4 + len(present)) * tuning.confirm * len(
        tuning.kinds
    )
    found = survey.run()
    outcomes = done.values([(Setting(NONE), at) for at in survey.instances], OFF)
    off = {at: one for at, one in zip(survey.instances, outcomes, strict=True) if not isinstance(one, str)}
    chosen = verdicts.finalists(survey, off, asked.care)
    tuned, verdict = verdicts.judge(
        confirm(survey.tuning, done, found, chosen, present), done, asked.care, asked.seeds
    )
    # Fresh seeds may favor another setting than the survey did. The margins need all of its neighbors, so try
    # those that are missing.
    best = next(one for one in survey.trials if one.setting == tuned.finalists[0].setting)
    survey.surround(best)
    tuned = replace(tuned, tuning=survey.tuning, simulated=done.simulated, reused=done.found)
    return _Judged(verdict, _tradeoff(survey, off, asked.care), tuned, _margins(survey, best))


def _deadlocked(done: Runs) -> list[Unfinished]:
    """Return the runs of the survey that deadlocked."""
    known = {Setting(NONE): OFF, Setting(PRESETS[REFERENCE]): DEFAULTS}

    def name(setting: Setting) -> str:
        shown = (f"{key.rpartition('.')[2]} {value}" for key, value in shown_keys(setting.keys).items())
        return known.get(setting) or ", ".join(shown)

    return [
        Unfinished(name(setting), str(at), reason)
        for setting, at, reason in done.failed()
        if reason.startswith(DEADLOCK)
    ]


def _finish(
    scenarios: Mapping[str, Scenario], simulate: Simulate, traffic: str
) -> tuple[dict[str, Result], list[Unfinished]]:
    """Run scenarios by title; return the finished runs, and those that deadlocked."""
    runs: dict[str, Result] = {}
    stopped = []
    for title, scenario in scenarios.items():
        try:
            runs[title] = simulate(scenario, title)
        except ModelError as error:
            if not str(error).startswith(DEADLOCK):
                raise
            stopped.append(Unfinished(title, traffic, str(error)))
    return runs, stopped


def _tradeoff(survey: Survey, off: dict[Instance, Values], care: Care) -> dict[int, tuple[float, float]]:
    """Return for each trial its score and its worst ratio of a class, both relative to no control."""
    found = {}
    base = Trial(0, (), Setting(NONE))
    for at, values in off.items():
        survey.note(base, at, values)
    for trial in survey.trials:
        shared = [at for at in trial.ratios if at in off]
        loss = verdicts.loss_of(survey, trial, off, care)
        if shared and loss is not None:
            found[trial.number] = (survey.score_in(trial, shared) / survey.score_in(base, shared), loss)
    return found


def _margins(survey: Survey, best: Trial) -> dict[str, Margin]:
    """Return, for each axis with several values, the relative scores one step away from the best setting."""
    margins = {}
    for n, axis in enumerate(survey.axes):
        if len(axis) == 1:
            continue
        near = []
        for other in survey.neighbours(best):
            if other.steps[n] != best.steps[n] and other.score is not None:
                shared = [at for at in best.ratios if at in other.ratios]
                own = survey.score_in(best, shared)
                near.append((axis.labels[other.steps[n]], survey.score_in(other, shared) / own))
        end = "" if len(near) > 1 else survey.end(best, n)
        margins[axis.name] = Margin(axis.labels[best.steps[n]], near, end)
    return margins
