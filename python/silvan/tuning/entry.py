"""The command `silvan tune`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from silvan.sweeps.entry import (
    Address,
    AsJson,
    Cluster,
    Cores,
    Jobs,
    Minutes,
    Partition,
    PerTask,
    Settings,
    ShowProgress,
)

EXIT_STOPPED = 130

TuneFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="A file of silvan tune (docs/tune.md), or a scenario.")
]
Count = Annotated[
    int | None, typer.Option("--runs", metavar="N", help="Simulations of the search [default: 64].")
]
Seeds = Annotated[
    int | None, typer.Option("--seeds", metavar="N", help="Seeds of each traffic in the search.")
]
Confirm = Annotated[
    int | None, typer.Option("--confirm", metavar="N", help="Further seeds for the comparison [default: 5].")
]
Batch = Annotated[
    int | None, typer.Option("--batch", metavar="N", help="Settings proposed at a time [default: 2].")
]
Objectives = Annotated[
    list[str] | None,
    typer.Option(
        "--objective",
        metavar="NAME[=WEIGHT]",
        help="victims, hotspots, latency or fairness; may be repeated. In place of the file's.",
    ),
]
Mix = Annotated[str | None, typer.Option("--mix", metavar="KIND", help="weighted, worst or pareto.")]
Unseen = Annotated[
    int | None,
    typer.Option(
        "--unseen",
        metavar="N",
        help="Simulations of the search for the best in each kind of traffic kept apart; 0: none.",
    ),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Folder; default: out/tune-NAME.")]
Runs = Annotated[
    Path | None, typer.Option("--store", metavar="DIR", help="Folder of the runs; default: OUT/runs.")
]
Kind = Annotated[str, typer.Option("--executor", metavar="KIND", help="threads, processes, slurm or dask.")]


def add_to(
    app: typer.Typer,
    *,
    out_console: Callable[[], Console],
    err_console: Callable[..., Console],
    overrides: Callable[[list[str] | None], dict[str, str]],
    print_json: Callable[[object], None],
) -> None:
    """Give the application the command `tune`."""

    @app.command()
    def tune(  # noqa: PLR0913, PLR0917 - a command has as many as it has options
        file: TuneFile,
        settings: Settings = None,
        runs: Count = None,
        seeds: Seeds = None,
        confirm: Confirm = None,
        batch: Batch = None,
        objective: Objectives = None,
        mix: Mix = None,
        unseen: Unseen = None,
        out: Out = None,
        store: Runs = None,
        executor: Kind = "threads",
        jobs: Jobs = None,
        cluster: Cluster = "slurm",
        partition: Partition = None,
        minutes: Minutes = 60,
        cpus: Cores = 1,
        runs_per_task: PerTask = None,
        address: Address = None,
        as_json: AsJson = False,
        progress: ShowProgress = None,
    ) -> None:
        """Search for the congestion control that serves a scenario best, and write lines for opensm.conf.

        Exit status: 0 fine, 1 an error, 130 stopped with Ctrl-C: the same command goes on from there.
        """
        from silvan.sweeps.executors import Options
        from silvan.tuning import report, tune
        from silvan.tuning.problem import Tuning

        tuning = Tuning.load(file, overrides(settings))
        given = {
            "runs": runs,
            "seeds": seeds,
            "confirm": confirm,
            "mix": mix,
            "batch": batch,
            "unseen_runs": unseen,
        }
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        tuning = replace(tuning, **changes)
        folder = out or Path("out") / f"tune-{tuning.name}"
        keep = store or folder / "runs"
        options = Options(jobs, address, cluster, partition, minutes, cpus, runs_per_task, folder / "slurm")
        errors = err_console(live=progress)
        shown = errors.is_terminal if progress is None else progress
        try:
            with bar(errors, tuning.name, tuning.runs, show=shown) as tell:
                tuned = tune(
                    tuning,
                    objectives=_objectives(objective),
                    executor=executor,
                    options=options,
                    store=keep,
                    out=folder,
                    tell=tell,
                )
        except KeyboardInterrupt:
            errors.print(f"stopped: finished runs are kept in {keep}; the same command goes on from there")
            raise typer.Exit(EXIT_STOPPED) from None
        if as_json:
            print_json(report.numbers(tuned))
        else:
            show(out_console(), tuned)
        errors.print(
            f"{tuned.simulated} runs simulated, {tuned.reused} found in {keep}; account in "
            f"{folder / report.ACCOUNT}, lines to paste in {folder / report.OPTIONS}",
            markup=False,
        )


def _objectives(given: list[str] | None) -> dict[str, float] | None:
    if not given:
        return None
    weights = {}
    for one in given:
        name, equals, weight = one.partition("=")
        try:
            weights[name] = float(weight) if equals else 1.0
        except ValueError:
            raise typer.BadParameter(f"`{one}` is not NAME=WEIGHT", param_hint="--objective") from None
    return weights


@contextmanager
def bar(console: Console, title: str, runs: int, *, show: bool) -> Iterator[Callable[[int, int, str], None]]:
    """Show how many runs of the search are done, then how many of the comparison."""
    from silvan.sweeps.command import task_bar

    with task_bar(console, title, runs, show=show) as update:

        def tell(done: int, total: int, note: str) -> None:
            update(completed=done, total=total or runs, note=note)

        yield tell


def show(console: Console, tuned: Any) -> None:
    """Print the best settings, what they are worth, and the account."""
    from silvan.tuning import report

    table = Table(title=escape(f"{tuned.tuning.name}: the best settings"), box=None, header_style="bold")
    table.title_style, table.title_justify = "bold", "left"
    table.add_column("key")
    table.add_column("value")
    for key, value in report.shown_settings(tuned).items():
        table.add_row(key, escape(value))
    console.print(table)
    console.print()
    against = Table(
        title="Times as good, with 95 % intervals over fresh seeds", box=None, header_style="bold"
    )
    against.title_style, against.title_justify = "bold", "left"
    against.add_column("beside")
    for name in ("score", *(objective.name for objective in tuned.tuning.objectives)):
        against.add_column(escape(name), justify="right")
    for one in tuned.contrasts:
        cells = [str(one.score), *(str(interval) for interval in one.objectives.values())]
        against.add_row(escape(one.name), *cells)
    console.print(against)
    console.print()
    for line in report.sentences(tuned):
        if not line.startswith("Beside "):
            console.print(escape(line))
    if tuned.importance:
        shares = ", ".join(f"{name} {share:.2f}" for name, share in tuned.importance.items())
        console.print(f"Importance of the parameters: {escape(shares)}")
