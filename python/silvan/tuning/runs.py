"""Executes the runs of a search. Runs that the store contains are not simulated again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from silvan import steadiness
from silvan._core import ScenarioError
from silvan._provenance import build
from silvan._store import Store, address
from silvan.sweeps.errors import SweepError
from silvan.sweeps.executors import Options, perform_all
from silvan.sweeps.worker import Done, Job, recall
from silvan.tuning.objectives import Roles, require, roles_of
from silvan.tuning.problem import Kind, Tuning

#: Called with the number of available runs, the number that may be needed (0 if unknown), and the current
#: activity.
Notify = Callable[[int, int, str], object]
#: The values of the objectives in a run.
Values = tuple["float | None", ...]


@dataclass(frozen=True)
class Instance:
    """A kind of traffic with a seed. All settings run on the same instances, with the same random numbers."""

    kind: Kind
    seed: int
    short: bool = False

    def __str__(self) -> str:
        return f"{self.kind.name}, seed {self.seed}{', short' if self.short else ''}"


@dataclass(frozen=True)
class Setting:
    """Scenario keys and the values to which a setting sets them."""

    keys: Mapping[str, Any]

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Setting) and self.text == other.text

    @property
    def text(self) -> str:
        """A text that is equal for equal keys and values."""
        return repr(sorted(self.keys.items()))


@dataclass
class Runs:
    """Executes runs and caches their outcomes."""

    tuning: Tuning
    store: Store
    executor: str | Executor
    options: Options
    notify: Notify
    #: Outcome of each setting on each instance: its values, or the reason why it failed.
    known: dict[tuple[Setting, Instance], Values | str] = field(default_factory=dict)
    #: Quantities of each run that are not in steady state; see :func:`silvan.steadiness.unsteady`.
    trends: dict[tuple[Setting, Instance], list[str]] = field(default_factory=dict)
    #: Quantities of each run with too few values for the test, and the duration in ns that has enough.
    untested: dict[tuple[Setting, Instance], tuple[list[str], int | None]] = field(default_factory=dict)
    #: Total number of runs if known; otherwise 0.
    expected: int = 0
    found: int = 0
    simulated: int = 0
    _roles: dict[tuple[str, int], Roles] = field(default_factory=dict)

    def roles(self, instance: Instance) -> Roles:
        """Return the roles of hosts in an instance, which do not depend on the setting.

        Raises :class:`SweepError` if an objective is undefined for them.
        """
        at = (instance.kind.name, instance.seed)
        if at not in self._roles:
            overrides = self.tuning.overrides({}, instance.kind, instance.seed)
            roles = roles_of(self.tuning.base.at(overrides), self.tuning.hotspots)
            require(self.tuning.objectives, roles, f"{self.tuning.place.origin}: {instance.kind.name}")
            self._roles[at] = roles
        return self._roles[at]

    def values(self, wanted: Sequence[tuple[Setting, Instance]], done: str = "") -> list[Values | str]:
        """Return the values of the objectives of each run, in order; for a failed run, the reason as text.

        Runs that are not known and not stored are simulated. Raises :class:`SweepError` if a file cannot be
        read or the executor is not available.
        """
        measures = tuple(one.measure for one in self.tuning.objectives if one.measure is not None)
        pending: dict[str, list[tuple[Setting, Instance]]] = {}
        jobs: dict[str, Job] = {}
        for setting, instance in wanted:
            key = (setting, instance)
            if key in self.known:
                continue
            try:
                overrides = self.tuning.overrides(setting.keys, instance.kind, instance.seed, instance.short)
                at = address(self.tuning.base.at(overrides))
            except ScenarioError as error:
                self.known[key] = str(error)
                continue
            except OSError as error:
                raise SweepError(f"{error.filename}: cannot be read: {error.strerror}") from None
            if at in pending:
                pending[at].append(key)
                continue
            pending[at] = [key]
            known = recall(self.store, at, "summary", measures)
            if known is not None:
                self.found += 1
                self._keep(known, pending[at])
                continue
            root = str(self.store.root.absolute())
            settings = tuple(overrides.items())
            jobs[at] = Job(self.tuning.base, settings, at, build(), root, "summary", measures)
        if jobs:
            with closing(perform_all(list(jobs.values()), self.executor, self.options)) as outcomes:
                for outcome in outcomes:
                    self.simulated += 1
                    self._keep(outcome, pending[outcome.address])
                    self.notify(len(self.known), self.expected, done)
        for keys in pending.values():
            for key in keys:
                self.known.setdefault(key, self.known[keys[0]])
                self.trends.setdefault(key, self.trends.get(keys[0], []))
                self.untested.setdefault(key, self.untested.get(keys[0], ([], None)))
        return [self.known[setting, instance] for setting, instance in wanted]

    def failed(self) -> list[tuple[Setting, Instance, str]]:
        """Return the runs that failed, each with the reason."""
        return [(*key, outcome) for key, outcome in self.known.items() if isinstance(outcome, str)]

    def _keep(self, done: Done, keys: Sequence[tuple[Setting, Instance]]) -> None:
        outcome: Values | str
        summary = None if done.error else self.store.summary(done.address, "summary")
        if done.error or summary is None:
            outcome = (
                done.error or f"its folder is not in {self.store.root}: workers must share that file system"
            )
        else:
            roles = self.roles(keys[0][1])
            outcome = tuple(one.value(summary, roles, done.values) for one in self.tuning.objectives)
            self.trends |= dict.fromkeys(keys, steadiness.unsteady([summary]))
            short = (steadiness.untested([summary]), steadiness.testable_at([summary]))
            self.untested |= dict.fromkeys(keys, short)
        for key in keys:
            self.known[key] = outcome


def open_runs(
    tuning: Tuning, store: Path, executor: str | Executor, options: Options, notify: Notify
) -> Runs:
    """Open the store, and return the runs of a search."""
    shelf = Store(store)
    shelf.clear_leftovers()
    return Runs(tuning, shelf, executor, options, notify)
