"""The command `silvan sweep`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from silvan._executor import DEFAULT_EXECUTOR
from silvan.commands import common

if TYPE_CHECKING:
    from silvan._store import Keep
    from silvan.sweeps.driver import Notify
    from silvan.sweeps.executors import Options
    from silvan.sweeps.table import Sweep

#: Longer tables are cut on the terminal; the file contains all rows.
ROWS_SHOWN = 60
FAILURES_SHOWN = 20

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Set a key in all runs, instead of an axis over the same key."
    ),
]
Runs = Annotated[
    Path | None,
    typer.Option("--store", metavar="DIR", help="Folder of the store of runs.", show_default="OUT/runs"),
]
Executor = Annotated[
    str,
    typer.Option(
        "--executor", metavar="KIND", help="Executor of the runs: threads, processes, slurm or dask."
    ),
]
Cluster = Annotated[
    str,
    typer.Option(
        "--cluster", metavar="KIND", help="slurm, or local to use processes instead of Slurm tasks."
    ),
]
Partition = Annotated[
    str | None,
    typer.Option("--partition", metavar="NAME", help="Slurm partition.", show_default="Slurm's"),
]
Minutes = Annotated[int, typer.Option("--time", metavar="MIN", min=1, help="Time limit of a Slurm task.")]
Cores = Annotated[int, typer.Option("--cpus", metavar="N", min=1, help="Number of cores per Slurm task.")]
PerTask = Annotated[
    int | None,
    typer.Option(
        "--runs-per-task",
        metavar="N",
        min=1,
        help="Number of runs per Slurm task.",
        show_default="even shares",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--dask-address",
        metavar="ADDRESS",
        help="Address of a Dask scheduler.",
        show_default="a local cluster",
    ),
]


def register(app: typer.Typer) -> None:
    """Add `silvan sweep`."""
    app.command()(sweep)


def sweep(  # noqa: PLR0913, PLR0917 - one argument per option
    study: Annotated[
        Path,
        typer.Argument(metavar="STUDY", help="Study file (docs/sweeps.md), or one that comes with Silvan."),
    ],
    settings: Settings = None,
    out: Annotated[Path | None, common.out_option("Folder of the table.", "out/NAME")] = None,
    store: Runs = None,
    executor: Executor = DEFAULT_EXECUTOR,
    jobs: common.Jobs = None,
    keep: Annotated[
        str | None,
        typer.Option(
            "--keep",
            metavar="WHAT",
            help="Parts of each run to keep: tables or summary.",
            show_default="as in the study",
        ),
    ] = None,
    cluster: Cluster = "slurm",
    partition: Partition = None,
    minutes: Minutes = 60,
    cpus: Cores = 1,
    runs_per_task: PerTask = None,
    address: Address = None,
    plot: Annotated[bool, typer.Option("--plot", help="Draw figures, in the folder of --out.")] = False,
    width: common.Width = None,
    is_print: common.Print = False,
    as_json: common.AsJson = False,
    progress: common.ShowProgress = None,
) -> None:
    """Run a scenario over axes and seeds; finished runs are reused.

    Exit status: 0 success, 1 some runs failed (they are listed), 130 interrupted with Ctrl-C, 143
    with SIGTERM.
    """
    from silvan.sweeps.executors import Options

    request = Request(
        study=study,
        settings=common.overrides(settings),
        out=out,
        store=store,
        executor=executor,
        options=Options(jobs, address, cluster, partition, minutes, cpus, runs_per_task),
        keep=cast("Keep | None", keep),
        plot=plot,
        look=common.look(width, is_print=is_print, drawn=plot, by="--plot"),
        as_json=as_json,
    )
    errors, shown = common.progress_console(progress)
    raise typer.Exit(run(request, common.out_console(), errors, shown))


@dataclass(frozen=True)
class Request:
    """The options of the command line."""

    study: Path
    settings: Mapping[str, str]
    out: Path | None
    store: Path | None
    executor: str
    options: Options
    keep: Keep | None
    plot: bool
    look: AbstractContextManager[None]
    as_json: bool


def run(request: Request, console: Console, errors: Console, shown: bool) -> int:
    """Run the study, print its table, and return the exit status.

    Only the table, or its JSON form, goes to standard output, which does not depend on how the study
    was run.
    """
    from silvan.sweeps.driver import Interrupted, run_study
    from silvan.sweeps.study import Study

    study = Study.load(request.study, request.settings)
    if request.keep is not None:
        study = replace(study, keep=request.keep)
    out = request.out or Path("out") / study.name
    store = request.store or out / "runs"
    options = replace(request.options, logs=out / "slurm")
    try:
        with bar(errors, study.name, show=shown) as notify:
            sweep = run_study(
                study, store=store, out=out, executor=request.executor, options=options, notify=notify
            )
    except Interrupted as stop:
        errors.print(
            f"stopped: {stop.kept} of {stop.total} runs are done and kept; repeat the command to continue"
        )
        return common.EXIT_STOPPED
    if request.as_json:
        common.print_json(rows_of(sweep))
    else:
        print_table(sweep, console)
    errors.print(
        f"{sweep.simulated} runs simulated, {sweep.found} found in {store}; table in {out / 'table.parquet'}",
        markup=False,
    )
    for line in sweep.calibrations:
        errors.print(line, markup=False, soft_wrap=True)
    _warn_of_trends(sweep, errors)
    status = _failures(sweep, errors)
    if request.plot:
        with request.look:
            _draw(sweep, out, errors)
    return status


@contextmanager
def bar(console: Console, title: str, *, show: bool) -> Iterator[Notify]:
    """Show the finished runs and the elapsed and remaining time; do not count runs found in the store."""
    with common.task_bar(console, title, None, show=show) as update:

        def notify(finished: int, failed: int, total: int, found: int) -> None:
            notes = [f"{found} found"] * bool(found) + [f"{failed} failed"] * bool(failed)
            update(completed=finished - found, total=total - found, note=", ".join(notes))

        yield notify


def print_table(sweep: Sweep, console: Console) -> None:
    """Print one row per run."""
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
        console.print(f"... and {len(sweep.rows) - ROWS_SHOWN:,} more rows in the file of the table")


def _heading(name: str, unit: str) -> str:
    return escape(f"{name} ({unit})" if unit else name)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else escape(str(value))


def rows_of(sweep: Sweep) -> list[dict[str, Any]]:
    """Return the rows as objects for JSON: axes, seed, measures, trends, error and address of the run."""
    rows = []
    for row in sweep.rows:
        axes = {}
        for axis, step in zip(sweep.axes, row.point.steps, strict=True):
            axes[axis.name] = axis.labels[step]
            axes.update({key: values[step] for key, values in axis.together.items()})
        measures = {name: row.values.get(name) for name in sweep.measures}
        trends = {"not_in_steady_state": list(row.trends)}
        rows.append({**axes, "seed": row.seed, **measures, **trends, "error": row.error, "run": row.address})
    return rows


def _warn_of_trends(sweep: Sweep, errors: Console) -> None:
    number = sum(bool(row.trends) for row in sweep.rows)
    if number:
        names = sweep.unsteady
        more = f" and {len(names) - FAILURES_SHOWN} more" if len(names) > FAILURES_SHOWN else ""
        errors.print(
            f"[yellow]Warning:[/] {number} of {len(sweep.rows)} runs are not in steady state after the "
            f"warm-up: {escape('; '.join(names[:FAILURES_SHOWN]))}{more}. Averages of these quantities "
            "depend on the warm-up and the duration. The column `not_in_steady_state` has them by run.",
            soft_wrap=True,
        )
    short = [row for row in sweep.rows if row.untested]
    if short:
        from silvan import steadiness

        names = list(dict.fromkeys(name for row in short for name in row.untested))
        more = f" and {len(names) - FAILURES_SHOWN} more" if len(names) > FAILURES_SHOWN else ""
        testable = max(row.testable_at_ns or 0 for row in short) or None
        errors.print(
            f"[yellow]Warning:[/] in {len(short)} of {len(sweep.rows)} runs, steady state is not tested for "
            f"{escape('; '.join(names[:FAILURES_SHOWN]))}{more}: {steadiness.advice(testable)}.",
            soft_wrap=True,
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
    return common.EXIT_FAILED


def _draw(sweep: Sweep, out: Path, errors: Console) -> None:
    from silvan.sweeps.errors import SweepError
    from silvan.sweeps.figures import save_all

    try:
        written = save_all(sweep, out / "figures")
    except SweepError as error:
        errors.print(f"no figures: {error}", markup=False)
    else:
        errors.print(f"{written} figures in {out / 'figures'}", markup=False)
