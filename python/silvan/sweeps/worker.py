"""Executes one run of a study. A job and its outcome can be sent to other processes and machines."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from silvan import results
from silvan._core import SilvanError
from silvan._provenance import build
from silvan._store import Keep, Store, StoredRun, address
from silvan.steadiness import ERROR, testable_at, unsteady, untested
from silvan.sweeps.errors import SweepError
from silvan.sweeps.measures import Measure
from silvan.sweeps.study import Base

if TYPE_CHECKING:
    from silvan.results import Progress, Result
    from silvan.types import Summary

Values = dict[str, "float | None"]


@dataclass(frozen=True)
class Job:
    """A run to execute, with its measures."""

    base: Base
    overrides: tuple[tuple[str, Any], ...]
    address: str
    build: str
    store: str
    keep: Keep
    measures: tuple[Measure, ...]


@dataclass(frozen=True)
class Done:
    """The outcome of a run."""

    address: str
    values: Values = field(default_factory=dict)
    error: str | None = None
    #: Quantities and measures that are not in steady state; see :mod:`silvan.steadiness`.
    trends: tuple[str, ...] = ()
    #: Quantities with too few values for that test, and the duration in ns with which all have enough.
    untested: tuple[str, ...] = ()
    testable_at_ns: int | None = None
    #: Whether the run was already in the store.
    found: bool = False
    wall_s: float = 0.0


#: The value of a measure, and whether its time series has a trend.
Judged = tuple[float | None, bool]


@dataclass
class Known:
    """The measures of a run."""

    values: Values = field(default_factory=dict)
    with_trend: list[str] = field(default_factory=list)

    def add(self, measure: Measure, judged: Judged) -> None:
        """Add a measure."""
        self.values[measure.name], has_trend = judged
        if has_trend:
            self.with_trend.append(measure.name)

    def trends(self, summary: Summary) -> tuple[str, ...]:
        """Return the quantities and the measures of the run that are not in steady state."""
        return tuple(dict.fromkeys([*unsteady([summary]), *self.with_trend]))


@dataclass(frozen=True)
class _Performed:
    """The measures of a run, and the test of its averages."""

    known: Known
    summary: Summary
    found: bool

    def done(self, at: str, wall_s: float = 0.0) -> Done:
        """Return the outcome of the run with this address."""
        own = [self.summary]
        trends, short = self.known.trends(self.summary), tuple(untested(own))
        return Done(at, self.known.values, None, trends, short, testable_at(own), self.found, wall_s)


def perform(job: Job, progress: Progress | None = None) -> Done:
    """Find or simulate a run, and compute its measures; errors are returned as text."""
    started = time.monotonic()
    try:
        return _performed(job, progress).done(job.address, time.monotonic() - started)
    except SilvanError as refused:
        error = str(refused)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as failure:  # a panic of the simulator does not derive from Exception
        error = f"{type(failure).__name__}: {failure}"
    return Done(job.address, error=error, wall_s=time.monotonic() - started)


def _performed(job: Job, progress: Progress | None) -> _Performed:
    if build() != job.build:
        raise SweepError(
            f"this worker has another build of Silvan ({build()}) than the sender of the run ({job.build}): "
            "install the same everywhere"
        )
    scenario = job.base.at(dict(job.overrides))
    if address(scenario) != job.address:
        raise SweepError("a file that the scenario names has changed since the sweep began; run it again")
    store = Store(job.store)
    from_tables = [measure for measure in job.measures if measure.needs_tables]

    def note_all(result: Result) -> None:
        for measure in from_tables:
            try:
                _note(store, job, measure, result)
            except SweepError:
                continue  # the error is reported below; the run itself is kept

    run = store.run(scenario, keep=job.keep, progress=progress, known=job.address, finish=note_all)
    known = _measured(job, store, run, progress)
    return _Performed(known, run.result.summary, run.found)


def _measured(job: Job, store: Store, run: StoredRun, progress: Progress | None) -> Known:
    result = run.result
    known = Known()
    for measure in job.measures:
        try:
            known.add(measure, _known(store, job.address, (measure, job.measures), result.summary))
        except KeyError:
            if not result.tables:
                # The store has neither the tables nor this measure, so simulate the run again.
                result = results.run(job.base.at(dict(job.overrides)), progress=progress)
            known.add(measure, _note(store, job, measure, result))
    return known


def _note(store: Store, job: Job, measure: Measure, result: Result) -> Judged:
    """Store and return the value of a measure of a table, and whether it has a trend."""
    value, has_trend = measure.of_run(result), False
    store.note(job.address, measure.note, value)
    if measure.is_averaged:
        averaged = _averaged(job.measures)
        has_trend = measure.has_trend(result, ERROR / averaged)
        store.note(job.address, measure.note_of_trend(averaged), has_trend)
    return value, has_trend


def _averaged(measures: tuple[Measure, ...]) -> int:
    """Return the number of measures that are tested for trends, which share the probability of an error."""
    return sum(one.is_averaged for one in measures)


def _known(store: Store, at: str, measures: tuple[Measure, tuple[Measure, ...]], summary: Summary) -> Judged:
    """Return a measure, one of several, that needs no tables or that the store contains, and its trend.

    Raises `KeyError` otherwise.
    """
    measure, all_measures = measures
    if not measure.needs_tables:
        return measure.of_summary(summary), False
    value: float | None = store.noted(at, measure.note)
    is_averaged = measure.is_averaged
    return value, is_averaged and bool(store.noted(at, measure.note_of_trend(_averaged(all_measures))))


def recall(store: Store, at: str, keep: Keep, measures: tuple[Measure, ...]) -> Done | None:
    """Return the outcome of a run in the store; None if the run or a measure is missing or unreadable."""
    try:
        summary = store.summary(at, keep)
        if summary is None:
            return None
        known = Known()
        for measure in measures:
            known.add(measure, _known(store, at, (measure, measures), summary))
    except (KeyError, OSError):
        return None
    except SweepError as error:
        return Done(at, error=str(error), found=True)
    return _Performed(known, summary, found=True).done(at)
