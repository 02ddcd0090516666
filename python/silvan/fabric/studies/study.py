"""Runs that show the effect of hotspots and of congestion control on a fabric, and a survey of settings."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silvan import _core, _files, _opensm, results
from silvan._core import FabricError, Scenario
from silvan._executor import DEFAULT_EXECUTOR
from silvan.fabric.studies import routes as paths
from silvan.fabric.studies import verdict as verdicts
from silvan.fabric.studies.load import Load, Shape, draw
from silvan.fabric.studies.verdict import Care, Verdict
from silvan.results import Result
from silvan.sweeps.axes import Axis, as_text
from silvan.sweeps.executors import Options
from silvan.sweeps.study import Base, of_file
from silvan.tuning.outcome import Tuned, confirm
from silvan.tuning.presets import DELAYS_US, LONGEST, NONE, PRESETS, REFERENCE
from silvan.tuning.problem import Kind, Tuning
from silvan.tuning.racing import Trial
from silvan.tuning.runs import Instance, Setting, Tell, Values, open_runs
from silvan.tuning.survey import Survey
from silvan.types import FabricCheck

#: Simulated time of a run with host links of 32 Gbit/s; with other rates, hosts send the same number of
#: bytes. Shorter runs would favor settings that throttle hotspots for a long time. On large fabrics, a limit
#: on packet-hops shortens the runs.
DURATION_NS, LINK_GBIT_S = 6_000_000, 32.0
HOPS_AT_MOST = 36e6
#: Number of random draws of the roles, number of fresh seeds for each draw, and maximum number of settings
#: that are tried with these seeds.
DRAWS, SEEDS, FINALISTS = 2, 3, verdicts.BY_SCORE + verdicts.HARMLESS
#: Initial values of the axes. The longest delay is a multiple of the delay that gives each contributor its
#: fair share of a hotspot.
LONGEST_TIMES, INCREASES, TIMERS = (2, 4, 8), (2, 4, 8), (5, 20, 80)
#: Limits of the axes when the survey extends them: an index has at most 127 steps in a table of 128 entries,
#: the timer has 16 bits, and delays must fit into generated tables.
LIMITS = {"cct_longest": (1, int(DELAYS_US[1])), "ccti_increase": (1, 127), "ccti_timer": (1, 65535)}
MTU_BITS = 2048 * 8

Simulate = Callable[[Scenario, str], Result]


@dataclass(frozen=True)
class Site:
    """The files, the hosts and the routes of a fabric."""

    #: The result of the fabric check.
    report: FabricCheck
    wiring: Path
    tables: Path
    routes: paths.Routes
    #: Capacity of each directed link in Gbit/s, in the order of the links in `routes`.
    capacity: NDArray[np.float64]
    #: Rate of the slowest host link, Gbit/s.
    host_gbit_s: float
    default_rate: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Asked:
    """The options that the user chose for a study."""

    fabric: Sequence[Path]
    out: Path
    tables: Path | None = None
    default_rate: str | None = None
    shape: Shape = field(default_factory=Shape)
    seed: int = 1
    #: OpenSM's configuration file, whose settings the study compares with others.
    conf: Path | None = None
    jobs: int | None = None
    care: Care = field(default_factory=Care)


@dataclass(frozen=True)
class Margin:
    """How the score changes if a parameter moves one step away from its recommended value."""

    #: The recommended value.
    value: Any
    #: The neighboring values, each with its score relative to the score of the recommended value.
    near: list[tuple[Any, float]]
    #: The reason why there is only one neighbor; empty if there are two.
    end: str


@dataclass(frozen=True)
class Studied:
    """The results of a study."""

    asked: Asked
    site: Site
    load: Load
    #: Offered load of each link in Gbit/s.
    offered: NDArray[np.float64]
    #: Runs by title: without control, with the defaults, with the user's opensm.conf, with the best settings.
    runs: dict[str, Result]
    #: The recommendation, which also selects the settings that `tuned` presents.
    verdict: Verdict
    #: Maps each trial to its score relative to no control and its worst loss of a class; for the trade-off.
    tradeoff: dict[int, tuple[float, float]]
    #: The survey of settings.
    tuned: Tuned
    #: The margin of each parameter.
    margins: dict[str, Margin]
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """The title of the run with the best settings."""
        return BEST if self.verdict.recommended is not None else COSTLY


#: Names of the files with the scenario and with the option lines.
SITE, OPTIONS = "site.toml", "opensm.conf"
OFF, DEFAULTS, MINE, BEST = "without control", "defaults", "opensm.conf", "recommended"
#: If leaving control off is recommended: title of the run with the best score, and file of its option lines.
COSTLY, COSTLY_OPTIONS = "best score, not recommended", "not-recommended.conf"


def read_site(asked: Asked) -> Site:
    """Read the fabric without writing any files."""
    report = _core.fabric_check(list(asked.fabric), asked.tables, asked.default_rate)
    if report["pairs_unroutable"]:
        raise FabricError(
            f"{asked.tables or asked.fabric[0]}: {report['pairs_unroutable']:,} pairs have no route: "
            f"{'; '.join(report['problems'][:3])}"
        )
    used = {one["kind"].partition(" (")[0]: Path(one["file"]) for one in report["used"] if one["kind"]}
    wiring = used["wiring"]
    notes: list[str] = []
    tables = used["forwarding tables"]
    if report["lanes"] is not None:
        notes.append(
            "lanes and service levels of paths are checked for deadlock, but not used in the runs of a study"
        )
    routes = paths.read(_core.fabric_ibdmchk([wiring, tables], None, asked.default_rate))
    rates = _rates(wiring, tables, asked.default_rate)
    missing = [link for link in routes.links if link not in rates]
    if missing:
        raise FabricError(f"{wiring}: the link {missing[0]} of the tables is not one of the wiring")
    capacity = np.array([rates[link] for link in routes.links])
    slowest = float(capacity[routes.first_link].min())
    return Site(report, wiring, tables, routes, capacity, slowest, asked.default_rate, tuple(notes))


def _kept(site: Site, folder: Path) -> Site:
    """Copy the fabric's files to the study's folder, so that the scenario can refer to the copies."""
    folder.mkdir(parents=True, exist_ok=True)
    wiring, tables = _copied(site.wiring, folder / "wiring"), _copied(site.tables, folder / "tables")
    return replace(site, wiring=wiring, tables=tables)


def _copied(source: Path, stem: Path) -> Path:
    """Copy a plain or compressed file; the copy of a compressed file keeps its suffix."""
    with _files.plain(source).open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    target = stem.with_name(stem.name + ".gz") if packed else stem
    with contextlib.suppress(shutil.SameFileError):
        shutil.copyfile(source, target)
    return target


def _rates(wiring: Path, tables: Path, default_rate: str | None) -> dict[str, float]:
    """Return the rate of each directed link in a run in Gbit/s."""
    head = 'duration = "1 ns"\n' + _scenario_text(wiring, tables, default_rate)
    scenario = Scenario.from_toml(head + '[[traffic]]\nrate = "1 Mbit/s"\npattern = { kind = "uniform" }\n')
    columns = results.run(scenario).numpy("wiring")
    return dict(zip(columns["link"].tolist(), columns["rate_gbit_s"].tolist(), strict=True))


def _scenario_text(wiring: Path, tables: Path, default_rate: str | None) -> str:
    rate = f"default_rate = {_quoted(default_rate)}\n" if default_rate else ""
    return (
        f'[topology]\nkind = "file"\nfile = {_quoted(str(wiring))}\n{rate}\n'
        f'[routing]\nkind = "table"\nfile = {_quoted(str(tables))}\n# Deadlock is reported.\n'
        "allow_deadlock = true\n\n"
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def scenario_text(site: Site, load: Load, duration_ns: int, seed: int) -> str:
    """Return the scenario of the study, with fabric and load but without congestion control."""
    where = _scenario_text(
        Path("fabric") / site.wiring.name, Path("fabric") / site.tables.name, site.default_rate
    )
    lines = [
        "# Written by `silvan fabric study`: hotspots, a storage incast and a background on the fabric.",
        'name = "site"',
        f"seed = {seed}",
        f'duration = "{duration_ns} ns"',
        f'warmup = "{duration_ns // 2} ns"',
        "",
        where,
        "# Notifications have a separate lane, so that congestion trees do not delay them.",
        "[lanes]\ncount = 2\ncontrol = 1\n",
        f'[measure]\ninterval = "{duration_ns // 50} ns"\n',
    ]
    for table in load.tables():
        lines.append("[[traffic]]")
        lines += [f"{key} = {_toml(value)}" for key, value in table.items()] + [""]
    return "\n".join(lines)


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_quoted(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    return _quoted(value) if isinstance(value, str) else as_text(value)


def duration_ns(site: Site) -> int:
    """Return the simulated time of a run (ns), which depends on the speed and the size of the fabric."""
    hops = site.report["hops"]
    mean = sum(int(length) * pairs for length, pairs in hops.items()) / max(1, sum(hops.values())) + 1
    per_ns = len(site.routes.hosts) * site.host_gbit_s / MTU_BITS * mean
    scale = LINK_GBIT_S / site.host_gbit_s
    return int(max(50_000, round(min(DURATION_NS * scale, HOPS_AT_MOST / per_ns), -3)))


def space(site: Site, load: Load) -> tuple[Axis, ...]:
    """Return the axes of the survey, which depend on the contributors per hotspot and the link rate."""
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


def study(asked: Asked, simulate: Simulate, tell: Tell) -> Studied:
    """Execute the runs and the survey, and compute the margins; see :func:`silvan.fabric.study`."""
    if asked.conf is not None:
        # Read the file now, so that its errors appear before the runs.
        _opensm.read(asked.conf)
    site = read_site(asked)
    load = draw(site.routes.hosts, site.host_gbit_s, asked.shape, asked.seed)
    asked.care.check(load)
    site = _kept(site, asked.out / "fabric")
    file = asked.out / SITE
    _files.write_text(file, scenario_text(site, load, duration_ns(site), asked.seed))
    tuning = _tuning(asked, site, load, of_file(file))
    options = Options(jobs=asked.jobs)
    done = open_runs(tuning, asked.out / "runs", DEFAULT_EXECUTOR, options, tell)
    survey = Survey(tuning, done, LIMITS)
    done.expected = tuning.size * len(tuning.kinds) + (FINALISTS + 4) * tuning.confirm * len(tuning.kinds)
    found = survey.run()
    outcomes = done.values([(Setting(NONE), at) for at in survey.instances], "without control")
    off = {at: one for at, one in zip(survey.instances, outcomes, strict=True) if not isinstance(one, str)}
    chosen = verdicts.finalists(survey, off, asked.care)
    tuned, verdict = verdicts.judge(confirm(survey.tuning, done, found, chosen), asked.care)
    # Fresh seeds may favor another setting than the survey did. The margins need all of its neighbors, so try
    # those that are missing.
    best = next(one for one in survey.trials if one.setting == tuned.finalists[0].setting)
    survey.surround(best)
    tuned = replace(tuned, tuning=survey.tuning, simulated=done.simulated, reused=done.found)
    titles: dict[str, Mapping[str, Any]] = {OFF: NONE, DEFAULTS: PRESETS[REFERENCE]}
    notes = [*site.notes, *load.notes]
    if asked.conf is not None:
        own, said = _opensm.load(file, asked.conf, {})
        notes += said
        titles[MINE] = dict(own.overrides)
    # Simulate the settings as users would paste them: OpenSM's table has rounded delays of 16 bits.
    lines = _write_options(asked.out, tuned, verdict)
    titles[BEST if verdict.recommended else COSTLY] = dict(_opensm.load(file, lines, {})[0].overrides)
    runs = {title: simulate(Scenario.load(file, dict(keys)), title) for title, keys in titles.items()}
    return Studied(
        asked,
        site,
        load,
        site.routes.load(load.demand()),
        runs,
        verdict,
        _tradeoff(survey, off, asked.care),
        tuned,
        _margins(survey, best),
        tuple(notes),
    )


def _write_options(out: Path, tuned: Tuned, verdict: Verdict) -> Path:
    """Write the option lines, preceded by a note about their harm; return the file with the best settings."""
    said = [*verdict.warnings(), verdict.sentence()]
    head = "".join(f"# {line.replace('`', '')}\n" for line in said)
    costly, options = out / COSTLY_OPTIONS, out / OPTIONS
    if verdict.recommended is not None:
        costly.unlink(missing_ok=True)
        _files.write_text(options, head + tuned.opensm_options())
        return options
    _files.write_text(options, f"{head}congestion_control FALSE\n")
    _files.write_text(costly, head + tuned.opensm_options())
    return costly


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
    """Return for each axis the relative scores one step away from the best setting."""
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
