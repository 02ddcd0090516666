"""Runs experiments, over processes where asked, and sets the numbers side by side."""

from __future__ import annotations

import json
import math
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

import silvan
from silvan.papers.catalogue import Experiment, PapersError, Published, choose
from silvan.papers.data import Results, RunData

#: ``id, quantity, unit, published, simulated, ratio, tolerance, verdict, assumption``, and for
#: missed rows ``reason`` where it is known.
Row = dict[str, Any]

#: Called with the number of finished runs, that of all runs, and the name of the last one.
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Task:
    """One run of one experiment: plain data, to be sent to another process."""

    experiment: str
    name: str
    scenario: Path
    overrides: Mapping[str, Any]
    tables: tuple[str, ...]
    save: Path | None


def simulate(task: Task) -> RunData:
    """Run one scenario, through the same doors as any user."""
    started = perf_counter()
    scenario = silvan.Scenario.load(str(task.scenario), dict(task.overrides))
    result = silvan.run(scenario)
    if task.save is not None:
        result.save(task.save)
    # Copies: the arrays of a result are views of memory that does not travel between processes.
    tables = {
        name: {key: np.array(column) for key, column in result.numpy(name).items()} for name in task.tables
    }
    return RunData(
        summary=dict(result.summary),
        tables=tables,
        warnings=list(result.warnings),
        wall_s=perf_counter() - started,
    )


def _tasks(experiment: Experiment, quick: bool, out: Path | None) -> list[Task]:
    tasks = []
    for name, (scenario, overrides) in experiment.code.runs(quick).items():
        path = (experiment.folder / scenario).resolve()
        if not path.is_file():
            raise PapersError(f"{experiment.folder / 'experiment.py'}: run {name}: no scenario {path}")
        save = out / experiment.id / "runs" / name if out else None
        tables = tuple(getattr(experiment.code, "TABLES", ("flows",)))
        tasks.append(Task(experiment.id, name, path, overrides, tables, save))
    return tasks


def _finished(tasks: list[Task], jobs: int) -> Iterator[tuple[Task, RunData]]:
    """Run the tasks and yield each when it is done."""
    if jobs <= 1 or len(tasks) <= 1:
        for task in tasks:
            yield task, _told(task, partial(simulate, task))
        return
    # Fresh processes: forking one that has threads (a progress bar, say) can hang.
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=context, initializer=_quiet) as pool:
        futures = {pool.submit(simulate, task): task for task in tasks}
        try:
            for future in as_completed(futures):
                task = futures[future]
                yield task, _told(task, future.result)
        except BaseException:
            # Without this, Ctrl-C would wait for the runs that have begun.
            for worker in set(multiprocessing.active_children()) - others:
                worker.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _quiet() -> None:
    """Let a worker go without a traceback when Ctrl-C reaches the whole group of processes."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _told(task: Task, call: Callable[[], RunData]) -> RunData:
    """Call, and say which run an error belongs to."""
    try:
        return call()
    except Exception as error:
        raise PapersError(f"{task.experiment}, run {task.name} ({task.scenario}): {error}") from error


def _row(experiment: Experiment, published: Published, simulated: float, quick: bool) -> Row:
    usable = math.isfinite(simulated)
    verdict = published.verdict(simulated, quick)
    row: Row = {
        "id": experiment.id,
        "quantity": published.quantity,
        "unit": published.unit,
        "published": published.published,
        "simulated": simulated if usable else None,
        "ratio": simulated / published.published if usable and published.published else None,
        "tolerance": published.quick_tolerance if quick else published.tolerance,
        "verdict": verdict,
        "assumption": published.assumption,
    }
    if verdict == "missed" and published.reason:
        row["reason"] = published.reason
    return row


def compare(experiment: Experiment, results: Results) -> list[Row]:
    """Set the published numbers of an experiment beside those of its runs."""
    simulated = {key: float(value) for key, value in experiment.code.compare(results).items()}
    missing = [row.key for row in experiment.rows if row.key not in simulated]
    unknown = sorted(set(simulated) - {row.key for row in experiment.rows})
    if missing or unknown:
        raise PapersError(
            f"{experiment.folder}: experiment.py and published.toml do not fit: "
            f"not computed: {', '.join(missing) or 'none'}; not published: {', '.join(unknown) or 'none'}"
        )
    return [_row(experiment, row, simulated[row.key], results.quick) for row in experiment.rows]


def run_experiments(
    ids: Iterable[str],
    quick: bool = False,
    jobs: int = 1,
    out: str | Path | None = None,
    progress: Progress | bool | None = None,
) -> list[Row]:
    """Run experiments and compare.

    Args:
        ids: Rows of the list of experiments (``T1``, ``a2``), or ``all``.
        quick: Shorter runs, for a first look: less precise.
        jobs: Processes to use.
        out: Where to put plots, rows and run folders, if anywhere.
        progress: ``True`` for a bar on the terminal, or a function called after each run.

    Returns:
        One row per published number.

    Raises:
        PapersError: an unknown id, a broken experiment, or a run that failed.

    """
    experiments = choose(ids)
    folder = Path(out) if out is not None else None
    tasks = [task for experiment in experiments for task in _tasks(experiment, quick, folder)]
    results: dict[str, dict[str, RunData]] = {experiment.id: {} for experiment in experiments}
    with _reporter(progress, len(tasks)) as report:
        for done, (task, data) in enumerate(_finished(tasks, jobs), 1):
            results[task.experiment][task.name] = data
            report(done, len(tasks), f"{task.experiment} {task.name}")
    rows: list[Row] = []
    for experiment in experiments:
        own_runs = Results(results[experiment.id], quick)
        own = compare(experiment, own_runs)
        rows += own
        if folder is not None:
            _write(experiment, own_runs, own, folder / experiment.id)
    return rows


def _write(experiment: Experiment, results: Results, rows: list[Row], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    experiment.code.plot(results, folder)
    text = json.dumps(rows, indent=2) + "\n"
    (folder / "rows.json").write_text(text, encoding="utf-8")


@contextmanager
def _reporter(progress: Progress | bool | None, total: int) -> Iterator[Progress]:
    if progress is None or progress is False:
        yield lambda done, total, label: None
        return
    if progress is not True:
        yield progress
        return

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        handle = bar.add_task("runs", total=total)
        yield lambda done, total, label: bar.update(handle, completed=done, description=label)
