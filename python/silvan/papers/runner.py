"""Runs experiments, in several processes if requested, and compares the numbers."""

from __future__ import annotations

import hashlib
import json
import math
import multiprocessing
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

import silvan
from silvan import _files
from silvan._provenance import build
from silvan._store import DIGITS, Store, address
from silvan._terminal import PlainConsole
from silvan.papers import record as recorded
from silvan.papers.catalogue import Experiment, PapersError, choose, find_papers, load_module
from silvan.papers.data import Results, RunData
from silvan.papers.rows import Row, Values, rows_of

try:
    import resource
except ImportError:  # not on every system
    resource = None  # type: ignore[assignment]

#: Default number of seeds of full runs.
SEEDS = 5

#: Called with the number of finished runs, the number of all runs, and the name of the run that finished
#: last.
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Task:
    """One run of one experiment, which can be sent to another process."""

    experiment: str
    name: str
    scenario: Path
    overrides: Mapping[str, Any]
    tables: tuple[str, ...]
    #: The folder of the store of finished runs; None for no store.
    store: Path | None
    #: Added to the scenario's seed.
    repeat: int = 0
    #: Name of the function of `experiment.py` that computes the summary from the overrides and `repeat`;
    #: `scenario` is then the path of this file. None for a simulated scenario.
    function: str | None = None


def simulate(task: Task) -> RunData:
    """Execute a task, and return its data. A run that the store contains is not simulated again."""
    if task.function is not None:
        return _computed(task, task.function)
    scenario = silvan.Scenario.load(str(task.scenario), dict(task.overrides))
    if task.repeat:
        scenario = scenario.with_overrides({"seed": scenario.seed + task.repeat})
    if task.store is None:
        result, folder, peak_mb = silvan.run(scenario), None, _peak_mb()
    else:
        store, at = Store(task.store), address(scenario)
        stored = store.run(
            scenario, known=at, finish=lambda _: store.note(at, "cost", {"peak_memory_mb": _peak_mb()})
        )
        result, folder = stored.result, str(stored.folder.relative_to(task.store))
        peak_mb = _noted_peak_mb(store, at)
    # Copy the arrays, because views of the simulator's memory cannot be sent to another process.
    tables = {
        name: {key: np.array(column) for key, column in result.numpy(name).items()} for name in task.tables
    }
    return RunData(
        summary=dict(result.summary),
        tables=tables,
        warnings=list(result.warnings),
        wall_s=float(result.provenance["wall_s"]),
        peak_memory_mb=peak_mb,
        folder=folder,
    )


def _computed(task: Task, function: str) -> RunData:
    """Call a function of an experiment, unless the store has its result already."""
    store, at = (None, "") if task.store is None else (Store(task.store), _address(task))
    if store is not None:
        try:
            return RunData(**store.noted(at, "result"))
        except KeyError:
            pass
    module = load_module(task.scenario, f"silvan_papers_{task.experiment}")
    started = time.perf_counter()
    summary = getattr(module, function)(repeat=task.repeat, **task.overrides)
    found = RunData(summary=summary, wall_s=time.perf_counter() - started, peak_memory_mb=_peak_mb())
    if store is not None:
        kept = ("summary", "wall_s", "peak_memory_mb")
        store.note(at, "result", {name: getattr(found, name) for name in kept})
    return found


def _address(task: Task) -> str:
    """Return the address of a function's result: a hash of the build, the source files and the arguments."""
    files = [task.scenario, *sorted((find_papers() / "common").iterdir())]
    what = {
        "build": build(),
        "files": {path.name: _files.read_text(path) for path in files if path.is_file()},
        "function": task.function,
        "overrides": dict(task.overrides),
        "repeat": task.repeat,
    }
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:DIGITS]


def _peak_mb() -> float:
    """Return the peak memory of this process so far, in MB (1e6 bytes); NaN if it is unknown."""
    if resource is None:
        return math.nan
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # In KiB, but on macOS in bytes.
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def _noted_peak_mb(store: Store, at: str) -> float:
    # A sweep may have stored the run without this note.
    try:
        return float(store.noted(at, "cost")["peak_memory_mb"])
    except KeyError:
        return math.nan


def _tasks(experiment: Experiment, quick: bool, out: Path | None, seeds: int) -> list[Task]:
    repeats = range(1 if experiment.deterministic else seeds)
    tasks = []
    if hasattr(experiment.code, "runs_of_seed"):
        for n in repeats:
            tasks += _of(experiment, experiment.code.runs_of_seed(quick, n), out, [n])
    else:
        tasks += _of(experiment, experiment.code.runs(quick), out, repeats)
    if out is not None:
        further = getattr(experiment.code, "runs_for_plot", None)
        tasks += _of(experiment, further(quick), out, [0]) if further else []
    return tasks


def _of(
    experiment: Experiment, runs: Mapping[str, Any], out: Path | None, repeats: Iterable[int]
) -> list[Task]:
    tasks = []
    for name, (scenario, overrides) in runs.items():
        function = None if scenario.endswith(".toml") else scenario
        path = (experiment.folder / ("experiment.py" if function else scenario)).resolve()
        if not path.is_file():
            raise PapersError(f"{experiment.folder / 'experiment.py'}: run {name}: no scenario {path}")
        store = (out / "runs").absolute() if out else None
        tables = tuple(getattr(experiment.code, "TABLES", ("flows",)))
        tasks += [Task(experiment.id, name, path, overrides, tables, store, n, function) for n in repeats]
    return tasks


def _finished(tasks: list[Task], jobs: int) -> Iterator[tuple[Task, RunData]]:
    """Run the tasks, and yield each task with its result when it is done."""
    if jobs <= 1 or len(tasks) <= 1:
        for task in tasks:
            yield task, _outcome(task, partial(simulate, task))
        return
    # Start new processes, because forking a process that has threads can hang.
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=context, initializer=_quiet) as pool:
        futures = {pool.submit(simulate, task): task for task in tasks}
        try:
            for future in as_completed(futures):
                task = futures[future]
                yield task, _outcome(task, future.result)
        except BaseException:
            # Otherwise, Ctrl-C would wait for the runs that have started.
            for worker in set(multiprocessing.active_children()) - others:
                worker.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _quiet() -> None:
    """Make a worker exit without a traceback when Ctrl-C reaches the whole process group."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _outcome(task: Task, call: Callable[[], RunData]) -> RunData:
    """Return the result of `call`; raises a `PapersError` that names the run if it fails."""
    try:
        return call()
    except Exception as error:
        raise PapersError(f"{task.experiment}, run {task.name} ({task.scenario}): {error}") from error


def compare(experiment: Experiment, repeats: Sequence[Results]) -> Values:
    """Return the simulated numbers of an experiment by key, one for each seed.

    Raises `PapersError` if ``compare`` of the experiment does not return exactly the keys of its rows.
    """
    computed = [experiment.code.compare(results) for results in repeats]
    missing = [row.key for row in experiment.rows if row.key not in computed[0]]
    unknown = sorted(set(computed[0]) - {row.key for row in experiment.rows})
    if missing or unknown:
        raise PapersError(
            f"{experiment.folder}: experiment.py and published.toml do not agree: "
            f"not computed: {', '.join(missing) or 'none'}; not published: {', '.join(unknown) or 'none'}"
        )
    return {row.key: [float(values[row.key]) for values in computed] for row in experiment.rows}


def run_experiments(
    ids: Iterable[str],
    quick: bool = False,
    jobs: int = 1,
    out: str | Path | None = None,
    progress: Progress | bool | None = None,
    seeds: int | None = None,
    record: str | Path | None = None,
) -> list[Row]:
    """Run experiments, and compare their numbers with the published numbers.

    Args:
        ids: Ids of experiments (``T1``, ``a2``), or ``all``.
        quick: Whether to execute shorter, less precise runs.
        jobs: Maximum number of processes.
        out: Folder for plots, rows and runs; by default, they are not written. Finished runs in it are
            reused.
        progress: ``True`` for a bar on the terminal, or a function that is called after each run.
        seeds: Number of seeds, by default 5, or 1 for quick runs. With several seeds, rows contain means and
            confidence intervals. A deterministic experiment is run once.
        record: Record (:mod:`silvan.papers.record`) to which the numbers are written, if any.

    Returns:
        One row per expected number.

    Raises:
        PapersError: an unknown id, fewer than 1 seed, an invalid experiment or record, or a run that failed.

    """
    experiments = choose(ids)
    folder = Path(out) if out is not None else None
    seeds = (1 if quick else SEEDS) if seeds is None else seeds
    if seeds < 1:
        raise PapersError(f"seeds = {seeds}: must be at least 1")
    if record is not None:
        recorded.check(Path(record))
    tasks = [task for experiment in experiments for task in _tasks(experiment, quick, folder, seeds)]
    runs: dict[str, list[dict[str, RunData]]] = {
        e.id: [{} for _ in range(1 if e.deterministic else seeds)] for e in experiments
    }
    with _reporter(progress, len(tasks)) as report:
        for done, (task, data) in enumerate(_finished(tasks, jobs), 1):
            runs[task.experiment][task.repeat][task.name] = data
            report(done, len(tasks), f"{task.experiment} {task.name}")
    rows: list[Row] = []
    for experiment in experiments:
        repeats = [Results(own, quick) for own in runs[experiment.id]]
        values = compare(experiment, repeats)
        own = rows_of(experiment, values, quick)
        rows += own
        if folder is not None:
            _write(experiment, repeats, own, folder / experiment.id)
        if record is not None:
            recorded.put(Path(record), experiment, values, quick)
    return rows


def _write(experiment: Experiment, repeats: Sequence[Results], rows: list[Row], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    experiment.code.plot(repeats[0], folder)
    where = {
        name: [results[name].folder for results in repeats if name in results] for name in sorted(repeats[0])
    }
    for name, what in (("rows", rows), ("runs", where)):
        (folder / f"{name}.json").write_text(json.dumps(what, indent=2) + "\n", encoding="utf-8")


@contextmanager
def _reporter(progress: Progress | bool | None, total: int) -> Iterator[Progress]:
    if progress is None or progress is False:
        yield lambda done, total, label: None
        return
    if progress is not True:
        yield progress
        return

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=PlainConsole(stderr=True), transient=True) as bar:
        handle = bar.add_task("runs", total=total)
        yield lambda done, total, label: bar.update(handle, completed=done, description=label)
