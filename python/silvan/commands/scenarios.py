"""The commands `silvan scenarios`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from silvan import scenarios
from silvan.commands import common

app = typer.Typer(help="Scenarios and studies that come with Silvan.", no_args_is_help=True)


def register(parent: typer.Typer) -> None:
    """Add `silvan scenarios` with its commands."""
    parent.add_typer(app, name="scenarios")


@app.command("list")
def list_(as_json: common.AsJson = False) -> None:
    """List scenarios, for `silvan run`, and studies, for `silvan sweep`."""
    found = scenarios.listed()
    if as_json:
        common.print_json(
            [
                {"name": e.name, "kind": e.kind, "description": e.description, "path": str(e.path)}
                for e in found
            ]
        )
        return
    table = Table(box=None, header_style="bold")
    for column in ("name", "kind", "what"):
        table.add_column(column, overflow="fold")
    for e in found:
        table.add_row(e.name, e.kind, escape(e.description))
    common.out_console().print(table)


@app.command()
def copy(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name, as in silvan scenarios list.")],
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Folder for the copy.")] = Path(),
) -> None:
    """Copy a scenario or study, with the files that it names, to run and change it."""
    for path in scenarios.copy(name, folder):
        typer.echo(str(path))
