"""The command `silvan export`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from silvan.commands import common


def register(app: typer.Typer) -> None:
    """Add `silvan export`."""
    app.command()(export)


def export(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run (silvan run --out).")],
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table", metavar="NAME", help="A table, such as flows; may be repeated.", show_default="all"
        ),
    ] = None,
    out: Annotated[
        Path | None, common.out_option("Folder for the files; - for standard output.", "RUN-csv")
    ] = None,
) -> None:
    """Write tables of a run as CSV files: flows.csv, links.csv and so on."""
    import silvan

    run = silvan.load(folder)
    try:
        chosen = {name: run.table(name) for name in table or run.tables}
    except KeyError as error:
        raise typer.BadParameter(str(error.args[0]), param_hint="--table") from None
    if out is not None and str(out) == common.STDIN:
        if len(chosen) != 1:
            raise typer.BadParameter("name one table for standard output: --table NAME", param_hint="--out")
        sys.stdout.flush()
        sys.stdout.buffer.write(run.csv(next(iter(chosen))))
        return
    target = out or folder.with_name(f"{folder.resolve().name}-csv")
    for path in run.save_csv(target, chosen):
        typer.echo(str(path))
