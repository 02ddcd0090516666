"""The command `silvan schema`."""

from __future__ import annotations

from typing import Annotated

import typer

from silvan.commands import common


def register(app: typer.Typer) -> None:
    """Add `silvan schema`."""
    app.command()(schema)


def schema(
    study: Annotated[
        bool, typer.Option("--study", help="Print the schema of study files (silvan sweep).")
    ] = False,
) -> None:
    """Print the JSON Schema of scenario files."""
    if study:
        from silvan.sweeps.schema import schema as of_studies

        common.print_json(of_studies())
        return
    from silvan import _core

    typer.echo(_core.schema())
