"""The options of `silvan sweep`; what it does is in `command`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.console import Console

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="Study file (TOML): see docs/sweeps.md.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a key in all runs; an axis over it goes."),
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Folder of the table; default: out/NAME.")
]
Runs = Annotated[
    Path | None, typer.Option("--store", metavar="DIR", help="Folder of the runs; default: OUT/runs.")
]
Kind = Annotated[str, typer.Option("--executor", metavar="KIND", help="processes, threads, slurm or dask.")]
Jobs = Annotated[
    int | None, typer.Option("--jobs", metavar="N", min=1, help="Runs at a time; default: cores.")
]
Kept = Annotated[
    str | None,
    typer.Option("--keep", metavar="WHAT", help="Of each run: tables or summary; default: the study's."),
]
Cluster = Annotated[
    str,
    typer.Option("--cluster", metavar="KIND", help="slurm, or local: processes here in Slurm's place."),
]
Partition = Annotated[
    str | None, typer.Option("--partition", metavar="NAME", help="Slurm's partition; default: Slurm's.")
]
Minutes = Annotated[int, typer.Option("--time", metavar="MIN", min=1, help="Time limit of a Slurm task.")]
Cores = Annotated[int, typer.Option("--cpus", metavar="N", min=1, help="Cores of a Slurm task.")]
PerTask = Annotated[
    int | None,
    typer.Option("--runs-per-task", metavar="N", min=1, help="Runs of a Slurm task; default: even shares."),
]
Address = Annotated[
    str | None,
    typer.Option("--dask-address", metavar="ADDRESS", help="Dask's scheduler; default: a cluster here."),
]
Plot = Annotated[bool, typer.Option("--plot", help="Draw figures, in the folder of --out.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
ShowProgress = Annotated[
    bool | None,
    typer.Option("--progress/--no-progress", help="Show a progress bar; by default on a terminal."),
]


def add_to(
    app: typer.Typer,
    *,
    out_console: Callable[[], Console],
    err_console: Callable[..., Console],
    overrides: Callable[[list[str] | None], dict[str, str]],
) -> None:
    """Give the application the command `sweep`."""

    @app.command()
    def sweep(  # noqa: PLR0913, PLR0917 - a command has as many as it has options
        study: StudyFile,
        settings: Settings = None,
        out: Out = None,
        store: Runs = None,
        executor: Kind = "processes",
        jobs: Jobs = None,
        keep: Kept = None,
        cluster: Cluster = "slurm",
        partition: Partition = None,
        minutes: Minutes = 60,
        cpus: Cores = 1,
        runs_per_task: PerTask = None,
        address: Address = None,
        plot: Plot = False,
        as_json: AsJson = False,
        progress: ShowProgress = None,
    ) -> None:
        """Run a scenario over axes and seeds; what was run before is found again.

        Exit status: 0 fine, 1 some runs failed (they are named), 130 stopped with Ctrl-C.
        """
        from silvan._store import Keep
        from silvan.sweeps import command
        from silvan.sweeps.executors import Options

        request = command.Request(
            study=study,
            settings=overrides(settings),
            out=out,
            store=store,
            executor=executor,
            options=Options(jobs, address, cluster, partition, minutes, cpus, runs_per_task),
            keep=cast("Keep | None", keep),
            plot=plot,
            as_json=as_json,
        )
        errors = err_console(live=progress)
        shown = errors.is_terminal if progress is None else progress
        raise typer.Exit(command.run(request, out_console(), errors, shown))
