"""The command `silvan schema`."""

from __future__ import annotations

import shutil
from typing import Annotated

import typer

from silvan.commands import common

#: Longest lines of descriptions, in characters.
WIDTH = 100


def register(app: typer.Typer) -> None:
    """Add `silvan schema`."""
    app.command()(schema)


def schema(
    key: Annotated[
        str | None,
        typer.Argument(
            metavar="KEY",
            help="Describe a key, a table or one kind of a table: traffic.rate, topology, topology.torus.",
            show_default=False,
        ),
    ] = None,
    list_tables: Annotated[bool, typer.Option("--list", help="List the tables of scenario files.")] = False,
    study: Annotated[
        bool, typer.Option("--study", help="Print the schema of study files (silvan sweep).")
    ] = False,
) -> None:
    """Describe keys of scenario files, or print their JSON Schema."""
    if study + list_tables + (key is not None) > 1:
        raise typer.BadParameter("give one of KEY, --list and --study")
    if study:
        from silvan.sweeps.schema import schema as of_studies

        common.print_json(of_studies())
        return
    from silvan import _core, _reference

    if not list_tables and key is None:
        typer.echo(_core.schema())
        return
    reference = _reference.Reference(_core.schema())
    if key is None:
        typer.echo(_reference.overview(reference))
        return
    try:
        tables = reference.find(key)
    except _reference.UnknownKeyError as error:
        raise typer.BadParameter(str(error), param_hint="KEY") from None
    typer.echo(_reference.text(tables, min(shutil.get_terminal_size().columns, WIDTH)))
