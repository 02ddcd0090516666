"""Executes a study: finds finished runs, starts the others, and orders the rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from silvan import _calibrated, _files, _folder, _provenance, results
from silvan._core import Scenario, ScenarioError, SilvanError, __version__
from silvan._executor import DEFAULT_EXECUTOR
from silvan._provenance import build
from silvan._store import Store, address
from silvan.sweeps.axes import Point
from silvan.sweeps.errors import SweepError
from silvan.sweeps.executors import Options, perform_all
from silvan.sweeps.measures import defaults, number
from silvan.sweeps.remote_dask import LostError
from silvan.sweeps.study import Function, Study
from silvan.sweeps.table import Row, Sweep
from silvan.sweeps.worker import Done, Job, recall

#: Name of the table in the folder of a sweep.
TABLE = "table.parquet"

#: Called with the numbers of finished runs, of failed runs, of all runs, and of runs found in the store.
Notify = Callable[[int, int, int, int], object]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C was pressed. `kept` of all runs of the study are in the store."""

    def __init__(self, kept: int, total: int) -> None:
        super().__init__()
        self.kept = kept
        self.total = total


@dataclass(frozen=True)
class _Planned:
    """A run of a study with its address, or the reason why the run is impossible."""

    point: Point
    seed: int | None = None
    address: str | None = None
    error: str | None = None


def run_study(
    study: Study,
    *,
    store: Path,
    out: Path | None = None,
    executor: str | Executor = DEFAULT_EXECUTOR,
    options: Options | None = None,
    notify: Notify | None = None,
) -> Sweep:
    """Run a study and return its table; runs that the store contains are not repeated.

    The table and its provenance are written to `out`, if given. Failed runs become rows with an error. Raises
    :class:`silvan.ScenarioError` if no run has a valid scenario, and :class:`SweepError` if the executor is
    not available, or if files cannot be read or written.
    """
    started = time.time()
    options = options or Options()
    if out is not None:
        _refuse_foreign(out)
    shelf = Store(store)
    planned = _plan(study)
    shelf.clear_leftovers()
    outcomes = _outcomes(study, planned, shelf, executor, options, notify or (lambda *_: None))
    sweep = _sweep(study, planned, outcomes, shelf)
    scenarios = (study.base.at(one.point.overrides) for one in planned if one.error is None)
    told = _calibrated.notes(scenarios) if _calibrated.MARK in study.base.text else []
    sweep = replace(sweep, calibrations=tuple(told), out=out, wall_s=time.time() - started)
    if out is not None:
        _write(out, study, sweep, store, executor, options, started)
    return sweep


def _plan(study: Study) -> list[_Planned]:
    planned = []
    refused: SilvanError | None = None
    for point in study.points():
        try:
            scenario: Scenario = study.base.at(point.overrides)
            planned.append(_Planned(point, scenario.seed, address(scenario)))
        except ScenarioError as error:
            refused = refused or error
            planned.append(_Planned(point, point.seed, error=str(error)))
        except OSError as error:
            raise SweepError(f"{error.filename}: cannot be read: {error.strerror}") from None
    if refused is not None and all(one.error for one in planned):
        raise refused
    return planned


def _outcomes(
    study: Study,
    planned: Sequence[_Planned],
    shelf: Store,
    executor: str | Executor,
    options: Options,
    notify: Notify,
) -> dict[str, Done]:
    """Find or execute every run. Runs with equal addresses are executed once."""
    outcomes: dict[str, Done] = {}
    jobs: dict[str, Job] = {}
    root = str(shelf.root.absolute())
    for one in planned:
        if one.address is None or one.address in outcomes or one.address in jobs:
            continue
        known = recall(shelf, one.address, study.keep, study.measures)
        if known is not None:
            outcomes[one.address] = known
        else:
            settings = tuple(one.point.overrides.items())
            jobs[one.address] = Job(
                study.base, settings, one.address, build(), root, study.keep, study.measures
            )
    refused = sum(one.error is not None for one in planned)
    found = len(outcomes)
    total = len(outcomes) + len(jobs) + refused

    def report() -> None:
        bad = refused + sum(done.error is not None for done in outcomes.values())
        notify(len(outcomes) + refused, bad, total, found)

    def kept() -> int:
        addresses = {one.address for one in planned if one.address is not None}
        return sum(shelf.find(at, study.keep) is not None for at in addresses)

    report()
    try:
        with closing(perform_all(list(jobs.values()), executor, options) if jobs else _nothing()) as runs:
            for done in runs:
                outcomes[done.address] = _seen(done, jobs[done.address], shelf)
                report()
    except LostError as lost:
        raise SweepError(lost.told(f"{kept()} of {total} runs")) from None
    except KeyboardInterrupt:
        raise Interrupted(kept(), total) from None
    return outcomes


def _nothing() -> Generator[Done]:
    yield from ()


def _seen(done: Done, job: Job, shelf: Store) -> Done:
    """Check the store: a lost worker may have finished the run, and a remote worker may use another store."""
    if done.error is None:
        if shelf.find(job.address, job.keep) is not None:
            return done
        return replace(
            done,
            error=f"finished, but its folder is not in {shelf.root}: workers must share that file system",
        )
    return recall(shelf, job.address, job.keep, job.measures) or done


def _sweep(study: Study, planned: Sequence[_Planned], outcomes: Mapping[str, Done], shelf: Store) -> Sweep:
    measures = {measure.name: measure.unit for measure in study.measures}
    rows = []
    called: dict[str, tuple[dict[str, float | None], str | None]] = {}
    for one in planned:
        done = outcomes[one.address] if one.address is not None else None
        error = one.error or (done.error if done else None)
        values: dict[str, float | None] = dict(done.values) if done and error is None else {}
        folder = shelf.find(one.address, study.keep) if one.address else None
        if error is None and folder is not None and one.address is not None:
            if one.address not in called:
                called[one.address] = _late(study, one, shelf, measures)
            more, error = called[one.address]
            values = {**values, **more} if error is None else {}
        kept = folder if error is None else None
        row = Row(one.point, one.seed, one.address, kept, values, error)
        if done and error is None:
            short, testable = done.untested, done.testable_at_ns
            row = replace(row, trends=done.trends, untested=short, testable_at_ns=testable)
        rows.append(row)
    fresh = [done for done in outcomes.values() if not done.found]
    return Sweep(
        name=study.name,
        description=study.description,
        axes=study.axes,
        measures=measures,
        rows=tuple(rows),
        found=len(outcomes) - len(fresh),
        simulated=sum(done.error is None for done in fresh),
    )


def _late(
    study: Study, one: _Planned, shelf: Store, measures: dict[str, str]
) -> tuple[dict[str, float | None], str | None]:
    """Return the measures that are functions, or the default measures if the study has none, and an error."""
    values: dict[str, float | None] = {}
    try:
        if not study.measures and not study.functions:
            summary = _stored(study, one, shelf).summary
            for measure in defaults(summary):
                measures.setdefault(measure.name, measure.unit)
                values[measure.name] = measure.of_summary(summary)
            return values, None
        if study.functions:
            result = _stored(study, one, shelf)
            for name, function in study.functions:
                values.update(_given(name, function, result))
    except SilvanError as error:
        return {}, str(error)
    except Exception as error:
        return {}, f"{type(error).__name__} in a measure: {error}"
    for name in values:
        measures.setdefault(name, "")
    return values, None


def _stored(study: Study, one: _Planned, shelf: Store) -> results.Result:
    """Read a run; if its folder is damaged, simulate the run again in this process."""
    return shelf.run(study.base.at(one.point.overrides), keep=study.keep, known=one.address).result


def _given(name: str, function: Function, result: results.Result) -> dict[str, float | None]:
    given = function(result)
    if isinstance(given, Mapping):
        return {str(key): number(value, str(key)) for key, value in given.items()}
    return {name: number(given, name)}


def _refuse_foreign(out: Path) -> None:
    """Raise :class:`SweepError` if the table would overwrite a file that no sweep wrote."""
    provenance = out / _folder.PROVENANCE
    try:
        facts = _files.parse_json(_files.read_text(provenance)) if provenance.exists() else None
        there = [path.name for path in (provenance, out / TABLE) if path.exists()]
    except ValueError:
        facts, there = None, [provenance.name]
    except OSError as error:
        raise SweepError(f"{out}: {error.strerror or error}; choose another folder with --out") from None
    if out.exists() and not out.is_dir():
        raise SweepError(f"{out}: exists and is not a folder; choose another with --out")
    if there and not (isinstance(facts, dict) and "study" in facts):
        raise SweepError(
            f"{out}: its {' and '.join(there)} would be overwritten, and no sweep wrote that; "
            "choose another folder with --out, or move it away"
        )


def _write(
    out: Path,
    study: Study,
    sweep: Sweep,
    store: Path,
    executor: str | Executor,
    options: Options,
    started: float,
) -> None:
    """Write the table, and a separate file with its provenance, which differs between executions."""
    try:
        facts: dict[str, Any] = {
            "study": study.name,
            "description": study.description,
            "origin": study.place.origin,
            "scenario": study.base.origin,
            "runs": len(sweep.rows),
            "failed": len(sweep.failures),
            "calibrations": list(sweep.calibrations),
            "found": sweep.found,
            "simulated": sweep.simulated,
            "store": str(store),
            "executor": executor if isinstance(executor, str) else type(executor).__name__,
            "jobs": options.count,
            "version": __version__,
            "build": build(),
            "git_commit": _provenance.git_commit(),
            "started": datetime.fromtimestamp(started, timezone.utc).isoformat(timespec="seconds"),
            "wall_s": round(sweep.wall_s, 3),
            "machine": _provenance.machine(),
        }
        out.mkdir(parents=True, exist_ok=True)
        # Write the provenance first, because it shows that a sweep may overwrite the table.
        _files.write_text(out / _folder.PROVENANCE, _files.to_json(facts))
        sweep.to_parquet(out / TABLE)
    except OSError as error:
        raise SweepError(f"{out}: {error.strerror or error}; the runs are in {store}") from error
