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
    results: Annotated[
        bool,
        typer.Option(
            "--results",
            help="List the tables of results, or with the name of one its columns (--results trees).",
        ),
    ] = False,
) -> None:
    """Describe keys of scenario files or columns of results, or print the JSON Schema of scenario files."""
    if study + list_tables + (key is not None or results) > 1:
        raise typer.BadParameter("give one of KEY, --list, --study and --results")
    if results:
        _results(key)
        return
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
    typer.echo(_reference.text(tables, _width()))


def _results(table: str | None) -> None:
    """Print all tables of results, or the columns of one."""
    from silvan import _columns

    if table is None:
        typer.echo(_columns.overview())
        return
    if table not in _columns.TABLES:
        raise typer.BadParameter(_columns.unknown(table), param_hint="KEY")
    typer.echo(_columns.describe(table, _width()))


def _width() -> int:
    return min(shutil.get_terminal_size().columns, WIDTH)
