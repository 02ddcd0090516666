"""The command `silvan version`, and the option `silvan --version`."""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add `silvan version`."""
    app.command()(version)


def register_option(app: typer.Typer) -> None:
    """Add `silvan --version`."""
    app.callback()(_options)


def version() -> None:
    """Print the version."""
    from silvan._core import __version__
    from silvan._provenance import git_commit

    commit = git_commit()
    typer.echo(f"silvan {__version__}" + (f" ({commit})" if commit else ""))


def _print_and_exit(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


def _options(
    asked: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_print_and_exit, is_eager=True
        ),
    ] = False,
) -> None:
    pass
