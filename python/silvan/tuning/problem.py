"""Defines a tuning: scenario, kinds of traffic, search space, objectives and length of the search."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from silvan import scenarios
from silvan._core import Scenario
from silvan.sweeps.axes import Axis
from silvan.sweeps.errors import Place, SweepError
from silvan.sweeps.study import (
    Base,
    file_name,
    of_file,
    of_scenario,
    read_axes,
    read_axis_tables,
    read_base,
    read_settings,
    read_toml,
)
from silvan.tuning.objectives import USUAL, Objective, read_objective
from silvan.tuning.presets import usual_space, with_table

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TUNE_KEYS = (
    "name", "description", "scenario", "set", "hotspots", "runs", "seeds", "confirm", "mix", "short", "batch",
    "sampler_seed", "traffic", "axis", "objective", "unseen", "unseen_runs",
)  # fmt: skip
MIXES = ("weighted", "worst", "pareto")
#: Maximum numbers of runs, seeds and kinds of traffic.
RUNS_AT_MOST, SEEDS_AT_MOST, KINDS_AT_MOST = 100_000, 100, 50
RUNS, SEEDS, CONFIRM, BATCH = 64, 1, 5, 2


@dataclass(frozen=True)
class Kind:
    """A kind of traffic, defined by scenario settings."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    #: Names of the objectives that count in this kind; None for all. Only unseen kinds have such a list.
    objectives: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Tuning:
    """The input of :func:`silvan.tune`. :meth:`load` reads it from a file.

    Raises :class:`SweepError` if a value is invalid.
    """

    name: str
    base: Base
    description: str = ""
    #: The parameters, each with its values in order.
    search: tuple[Axis, ...] = field(default_factory=usual_space)
    kinds: tuple[Kind, ...] = (Kind("traffic"),)
    objectives: tuple[Objective, ...] = USUAL
    #: ``weighted``: the score is a weighted geometric mean over objectives and kinds; ``worst``: the score is
    #: that of the worst kind; ``pareto``: the objectives are not combined.
    mix: str = "weighted"
    #: Number of simulations of the search, including short runs and runs of the reference.
    runs: int = RUNS
    #: Number of seeds (1, 2, ...) of each kind in the search, the same for all settings.
    seeds: int = SEEDS
    #: Number of further seeds on which the best settings are compared with known settings.
    confirm: int = CONFIRM
    #: Scenario keys of the short first runs, such as a shorter duration; empty if there are no short runs.
    short: Mapping[str, Any] = field(default_factory=dict)
    hotspots: tuple[str, ...] | None = None
    #: Number of settings proposed at a time. Larger batches use more cores, but base each proposal on fewer
    #: results.
    batch: int = BATCH
    sampler_seed: int = 1
    #: Kinds of traffic that the search does not use. For each, a separate search of `unseen_runs` simulations
    #: (default `runs`, 0 for none) finds the settings that are best for this kind alone. The result of the
    #: tuning is compared with these settings.
    unseen: tuple[Kind, ...] = ()
    unseen_runs: int | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)
    place: Place = field(default_factory=lambda: Place("silvan.tune"))

    def __post_init__(self) -> None:
        whole = (("runs", RUNS_AT_MOST, 1), ("seeds", SEEDS_AT_MOST, 1), ("confirm", SEEDS_AT_MOST, 2))
        for name, most, least in (*whole, ("batch", 1000, 1), ("sampler_seed", 2**32 - 1, 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                self.place.fail(name, f"must be a whole number from {least} to {most:,}", value)
        if self.mix not in MIXES:
            self.place.fail("mix", "must be one of " + ", ".join(f"`{mix}`" for mix in MIXES), self.mix)
        if not 1 <= len(self.kinds) <= KINDS_AT_MOST:
            self.place.fail("traffic", f"{len(self.kinds)} kinds; 1 to {KINDS_AT_MOST} are accepted")
        if not any(len(axis) > 1 for axis in self.search):
            self.place.fail("axis", "there is nothing to search: define an axis with at least two values")
        self._check_names()
        least_runs = len(self.kinds) * (self.seeds + bool(self.short)) * 2
        if self.runs < least_runs:
            what = f"must be at least {least_runs}: the reference and one setting, on all traffic and seeds"
            self.place.fail("runs", what, self.runs)
        self._check_unseen()

    def _check_unseen(self) -> None:
        """Raise :class:`SweepError` for wrong runs, kinds or objectives of unseen traffic."""
        least, runs = 2 * (self.seeds + bool(self.short)), self.unseen_runs
        if runs is not None and (
            isinstance(runs, bool)
            or not isinstance(runs, int)
            or (runs != 0 and not least <= runs <= RUNS_AT_MOST)
        ):
            what = f"must be 0, or a whole number from {least} to {RUNS_AT_MOST:,}"
            self.place.fail("unseen_runs", what, runs)
        if len(self.unseen) > KINDS_AT_MOST:
            self.place.fail("unseen", f"{len(self.unseen)} kinds; at most {KINDS_AT_MOST} are accepted")
        names = [objective.name for objective in self.objectives]
        for kind in self.unseen:
            same = next((one for one in self.kinds if dict(one.settings) == dict(kind.settings)), None)
            if same is not None:
                what = f"equals the traffic `{same.name}`, which the search uses; change its settings"
                self.place.fail(f"unseen.{kind.name}", what)
            unknown = [name for name in kind.objectives or () if name not in names]
            if unknown:
                known = ", ".join(f"`{name}`" for name in names)
                self.place.fail(f"unseen.{kind.name}", f"`{unknown[0]}` is not one of the objectives {known}")

    def _check_names(self) -> None:
        """Raise :class:`SweepError` for duplicate names, and for settings that conflict with the search."""
        for what, names in (
            ("axis", [axis.name for axis in self.search]),
            ("traffic", [kind.name for kind in self.kinds]),
            ("unseen", [kind.name for kind in (*self.kinds, *self.unseen)]),
            ("objective", [objective.name for objective in self.objectives]),
        ):
            twice = [name for name in names if names.count(name) > 1]
            if twice:
                self.place.fail(what, f"the name `{twice[0]}` occurs twice")
        keys = [key for axis in self.search for key, _ in axis.settings]
        for n, kind in enumerate((*self.kinds, *self.unseen)):
            shared = [key for key in kind.settings if key in keys]
            if shared:
                what = "traffic" if n < len(self.kinds) else "unseen"
                self.place.fail(f"{what}.{kind.name}", f"sets `{shared[0]}`, which is searched")
        if not self.objectives:
            self.place.fail("objective", "none is given")
        if self.mix == "pareto" and len(self.objectives) < 2:
            self.place.fail("mix", "`pareto` needs at least two objectives")

    def of_unseen(self, kind: Kind) -> Tuning:
        """Return the tuning that searches for the best settings in one unseen kind of traffic."""
        own = tuple(one for one in self.objectives if kind.objectives is None or one.name in kind.objectives)
        runs = self.runs if self.unseen_runs is None else self.unseen_runs
        changes: dict[str, Any] = {"kinds": (kind,), "objectives": own, "runs": runs, "mix": "weighted"}
        return replace(self, name=f"{self.name}: {kind.name}", unseen=(), unseen_runs=None, **changes)

    @property
    def size(self) -> int:
        """Number of settings in the search space."""
        return math.prod(len(axis) for axis in self.search)

    @cached_property
    def without_control(self) -> bool:
        """Whether the scenario has no congestion control. The search then tunes the control of InfiniBand."""
        parts = tomllib.loads(self.base.at(self.fixed).to_toml())["congestion"]
        return bool(parts["mechanism"] == "none" and parts["reaction"]["kind"] == "none")

    def _check_control(self) -> None:
        """Raise :class:`SweepError` if the default search space does not suit the scenario."""
        parts = tomllib.loads(self.base.at(self.fixed).to_toml())["congestion"]
        if (kind := parts["reaction"]["kind"]) not in ("none", "cct"):
            raise SweepError(
                f"{self.place.origin}: the reaction of the scenario is `{kind}`, and without axes, the "
                "parameters of InfiniBand congestion control are varied; write a tuning file with [[axis]] "
                f"over the parameters of `{kind}` (docs/tune.md)"
            )

    def overrides(
        self, setting: Mapping[str, Any], kind: Kind, seed: int | None, short: bool = False
    ) -> dict[str, Any]:
        """Return the overrides of a run. A setting takes precedence over the other keys.

        If the setting turns congestion control off, other keys of `congestion` are omitted. If the scenario
        has no congestion control, but the setting has keys of `congestion`, the default mechanism is `ib-cc`.

        Raises :class:`SweepError` if the exponent and the longest delay do not define a table.
        """
        own = with_table(setting)
        held = {**self.fixed, **kind.settings, **(self.short if short else {})}
        if own.get("congestion.mechanism") == "none":
            held = {key: value for key, value in held.items() if not key.startswith("congestion.")}
        elif self.without_control and any(key.startswith("congestion.") for key in own):
            own = {"congestion.mechanism": "ib-cc", **own}
        return {**held, **own} if seed is None else {**held, **own, "seed": seed}

    @staticmethod
    def load(path: str | PathLike[str], overrides: Mapping[str, Any] | None = None) -> Tuning:
        """Read a file of `silvan tune`, or a scenario, which is tuned with the defaults.

        `overrides` are set in the scenario and replace an axis over the same key. Raises :class:`SweepError`
        or :class:`silvan.ScenarioError`, with file, line, key and value if known.
        """
        file = scenarios.locate(path)
        table, place = read_toml(file, "a tuning file")
        if "topology" in table and "scenario" not in table:
            found = Tuning(
                name=_folder_name(file.stem, place),
                base=of_file(file),
                fixed=dict(overrides or {}),
                place=place,
            )
        else:
            found = _read(table, place, file, dict(overrides or {}))
        if "axis" not in table:
            found._check_control()
        return found


def _folder_name(value: Any, place: Place) -> str:
    return file_name("name", value, place)


def _read(table: dict[str, Any], place: Place, file: Path, overrides: dict[str, Any]) -> Tuning:
    place.keys("", table, TUNE_KEYS)
    axes = read_axis_tables(table, place)
    search = tuple(axes) if "axis" in table else usual_space()
    plain = {
        key: table[key]
        for key in ("runs", "seeds", "confirm", "mix", "batch", "sampler_seed", "unseen_runs")
        if key in table
    }
    return Tuning(
        name=_folder_name(table.get("name", file.stem), place),
        description=place.text("description", table.get("description"), ""),
        base=read_base(table, place, file),
        search=tuple(axis for axis in search if not any(key in overrides for key, _ in axis.settings)),
        kinds=read_kinds(place.tables("traffic", table.get("traffic")), place),
        unseen=read_unseen(place.tables("unseen", table.get("unseen")), place),
        objectives=read_objectives(place.tables("objective", table.get("objective")), place),
        short=read_settings("short", table.get("short", {}), place),
        hotspots=read_hotspots(table.get("hotspots"), place),
        fixed={**read_settings("set", table.get("set", {}), place), **overrides},
        place=place,
        **plain,
    )


def read_kinds(tables: Sequence[Mapping[str, Any]], place: Place) -> tuple[Kind, ...]:
    """Parse ``[[traffic]]``: kinds with scenario settings. The default is the scenario's own traffic.

    Raises :class:`SweepError` if a table is invalid.
    """
    kinds = (_kind(f"traffic.{n}", table, ("name", "set"), place) for n, table in enumerate(tables))
    return tuple(kinds) or (Kind("traffic"),)


def read_unseen(tables: Sequence[Mapping[str, Any]], place: Place) -> tuple[Kind, ...]:
    """Parse ``[[unseen]]``: the keys of ``[[traffic]]``, and optionally the objectives that count.

    Raises :class:`SweepError` if a table is invalid.
    """
    known = ("name", "set", "objectives")
    return tuple(_kind(f"unseen.{n}", table, known, place) for n, table in enumerate(tables))


def _kind(path: str, table: Mapping[str, Any], known: tuple[str, ...], place: Place) -> Kind:
    place.keys(path, dict(table), known)
    name = place.text(f"{path}.name", table.get("name"))
    settings = read_settings(f"{path}.set", table.get("set", {}), place)
    named = table.get("objectives")
    if named is not None and not _is_names(named):
        place.fail(f"{path}.objectives", "must be a list of names of objectives", named)
    return Kind(name, settings, None if named is None else tuple(named))


def _is_names(value: Any) -> bool:
    """Return whether a value is a non-empty list of names."""
    is_list = isinstance(value, list | tuple) and bool(value)
    return is_list and all(isinstance(one, str) and one for one in value)


def read_objectives(tables: Sequence[Mapping[str, Any]], place: Place) -> tuple[Objective, ...]:
    """Parse ``[[objective]]``; without such tables, return the default objectives.

    Raises :class:`SweepError` if a table is invalid.
    """
    found = tuple(read_objective(f"objective.{n}", dict(one), place) for n, one in enumerate(tables))
    return found or USUAL


def read_hotspots(value: Any, place: Place) -> tuple[str, ...] | None:
    """Parse the list of the names of hotspots, which may be None.

    Raises :class:`SweepError` unless the value is None or a non-empty list of names.
    """
    if value is None:
        return None
    if not _is_names(value):
        place.fail("hotspots", "must be a list of names of hosts", value)
    return tuple(value)


def of_call(
    scenario: Tuning | Scenario | str | PathLike[str],
    search: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
    objectives: Any,
    traffic: Mapping[str, Mapping[str, Any]] | None,
    unseen: Mapping[str, Mapping[str, Any]] | None,
    hotspots: Sequence[str] | None,
    overrides: Mapping[str, Any] | None,
    plain: Mapping[str, Any],
) -> Tuning:
    """Create a tuning from the arguments of :func:`silvan.tune`, with the same errors."""
    given = {key: value for key, value in plain.items() if value is not None}
    place = Place("silvan.tune")
    changes: dict[str, Any] = dict(given)
    if search is not None:
        changes["search"] = read_axes(search, place)
    if objectives is not None:
        changes["objectives"] = _called_objectives(objectives, place)
    if traffic is not None:
        changes["kinds"] = read_kinds(_named(traffic), place)
    if unseen is not None:
        changes["unseen"] = read_unseen(_named(unseen), place)
    if hotspots is not None:
        changes["hotspots"] = read_hotspots(list(hotspots), place)
    if isinstance(scenario, Tuning):
        fixed = {**scenario.fixed, **(overrides or {})}
        return replace(scenario, fixed=fixed, **changes)
    if isinstance(scenario, Scenario):
        return Tuning(base=of_scenario(scenario), fixed=dict(overrides or {}), **{"name": "tune", **changes})
    return replace(Tuning.load(scenario, overrides), **changes)


def _named(kinds: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Convert kinds of traffic to tables as in a file."""
    return [{"name": name, "set": dict(one)} for name, one in kinds.items()]


def _called_objectives(given: Any, place: Place) -> tuple[Objective, ...]:
    if isinstance(given, str):
        given = {given: 1.0}
    if isinstance(given, Mapping):
        given = [{"of": name, "weight": weight} for name, weight in given.items()]
    if not isinstance(given, list | tuple) or not all(isinstance(one, str | Mapping) for one in given):
        place.fail(
            "objectives", "must be a name, names with weights, or a list of tables as in a file", given
        )
    return read_objectives([{"of": one} if isinstance(one, str) else one for one in given], place)
