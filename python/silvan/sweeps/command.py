"""The command `silvan sweep`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.progress import TimeRemainingColumn as TimeLeft
from rich.table import Table

from silvan._store import Keep
from silvan.sweeps.driver import Tell, run_study
from silvan.sweeps.errors import SweepError
from silvan.sweeps.executors import Options
from silvan.sweeps.study import Study
from silvan.sweeps.table import Sweep

EXIT_FAILED = 1
EXIT_STOPPED = 130
#: More rows than this are for programs to read.
ROWS_SHOWN = 60
FAILURES_SHOWN = 20


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    study: Path
    settings: Mapping[str, str]
    out: Path | None
    store: Path | None
    executor: str
    options: Options
    keep: Keep | None
    plot: bool
    as_json: bool


def run(request: Request, console: Console, errors: Console, shown: bool) -> int:
    """Run the study, print its table, and return the exit status.

    The table alone goes to `console`: it is the same however the study was run.
    """
    study = Study.load(request.study, request.settings)
    if request.keep is not None:
        study = replace(study, keep=request.keep)
    out = request.out or Path("out") / study.name
    store = request.store or out / "runs"
    options = replace(request.options, logs=out / "slurm")
    done = [0, 0]
    try:
        with bar(errors, study.name, show=shown) as shows:

            def tell(finished: int, failed: int, total: int, found: int) -> None:
                done[:] = [finished, total]
                shows(finished, failed, total, found)

            sweep = run_study(
                study, store=store, out=out, executor=request.executor, options=options, tell=tell
            )
    except KeyboardInterrupt:
        errors.print(
            f"stopped: {done[0]} of {done[1]} runs are done and kept; the same command goes on from there"
        )
        return EXIT_STOPPED
    if request.as_json:
        print_json(sweep, console)
    else:
        print_table(sweep, console)
    errors.print(
        f"{sweep.simulated} runs simulated, {sweep.found} found in {store}; table in {out / 'table.parquet'}",
        markup=False,
    )
    status = _failures(sweep, errors)
    if request.plot:
        _draw(sweep, out, errors)
    return status


@contextmanager
def task_bar(console: Console, title: str, total: int | None, *, show: bool) -> Iterator[Callable[..., None]]:
    """Show how many of `total` are done, the time since the beginning and that left, and a note.

    Gives what updates it: `completed`, `total` and `note`.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeLeft(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console, transient=True, disable=not show) as progress:
        yield partial(progress.update, progress.add_task(escape(title), total=total, note=""))


@contextmanager
def bar(console: Console, title: str, *, show: bool) -> Iterator[Tell]:
    """Show runs done, the time since the beginning and that left; what was found counts for neither."""
    with task_bar(console, title, None, show=show) as update:

        def tell(finished: int, failed: int, total: int, found: int) -> None:
            notes = [f"{found} found"] * bool(found) + [f"{failed} failed"] * bool(failed)
            update(completed=finished - found, total=total - found, note=", ".join(notes))

        yield tell


def print_table(sweep: Sweep, console: Console) -> None:
    """Print a row per run."""
    table = Table(box=None, header_style="bold")
    constant = {axis.name for axis in sweep.axes if len(axis) == 1}
    for axis in sweep.axes:
        if axis.name not in constant:
            table.add_column(_heading(axis.name, axis.unit), justify="right", overflow="fold")
    table.add_column("seed", justify="right")
    for name, unit in sweep.measures.items():
        table.add_column(_heading(name, unit), justify="right", overflow="fold")
    for row in sweep.rows[:ROWS_SHOWN]:
        cells = [
            _cell(axis.labels[step])
            for axis, step in zip(sweep.axes, row.point.steps, strict=True)
            if axis.name not in constant
        ]
        cells.append("" if row.seed is None else str(row.seed))
        values = [_cell(row.values.get(name)) for name in sweep.measures]
        table.add_row(*cells, *(["failed"] * len(values) if row.error is not None else values))
    console.print(table)
    if len(sweep.rows) > ROWS_SHOWN:
        console.print(f"... and {len(sweep.rows) - ROWS_SHOWN:,} rows more in the table's file")


def _heading(name: str, unit: str) -> str:
    return escape(f"{name} ({unit})" if unit else name)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else escape(str(value))


def print_json(sweep: Sweep, console: Console) -> None:
    """Print the rows as a list of objects."""
    rows = []
    for row in sweep.rows:
        axes = {}
        for axis, step in zip(sweep.axes, row.point.steps, strict=True):
            axes[axis.name] = axis.labels[step]
            axes.update({key: values[step] for key, values in axis.together.items()})
        measures = {name: row.values.get(name) for name in sweep.measures}
        rows.append({**axes, "seed": row.seed, **measures, "error": row.error, "run": row.address})
    console.print(
        json.dumps(rows, indent=2, ensure_ascii=False), markup=False, soft_wrap=True, highlight=False
    )


def _failures(sweep: Sweep, errors: Console) -> int:
    failures = sweep.failures
    if not failures:
        return 0
    errors.print(f"[bold red]Error:[/] {len(failures)} of {len(sweep.rows)} runs failed:")
    for failure in failures[:FAILURES_SHOWN]:
        errors.print(f"  {failure}", markup=False)
    if len(failures) > FAILURES_SHOWN:
        errors.print(f"  ... and {len(failures) - FAILURES_SHOWN} more, in the table's column `error`")
    return EXIT_FAILED


def _draw(sweep: Sweep, out: Path, errors: Console) -> None:
    from silvan.sweeps.figures import save_all

    try:
        written = save_all(sweep, out / "figures")
    except SweepError as error:
        errors.print(f"no figures: {error}", markup=False)
    else:
        errors.print(f"{written} figures in {out / 'figures'}", markup=False)
