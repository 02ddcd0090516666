"""The command `silvan completion`, and completions of arguments."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

#: Shells for which typer can write completion scripts.
SHELLS = ("bash", "zsh", "fish")
#: The completion scripts set this variable when they request completions.
VARIABLE = "_SILVAN_COMPLETE"


def register(app: typer.Typer) -> None:
    """Add `silvan completion`."""
    app.command()(completion)


def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help=f"{', '.join(SHELLS[:-1])} or {SHELLS[-1]}.")],
) -> None:
    """Print a script that completes commands and options: eval "$(silvan completion bash)"."""
    from typer import completion as shells

    if shell not in SHELLS:
        raise typer.BadParameter(f"`{shell}` is not one of {', '.join(SHELLS)}", param_hint="SHELL")
    script = shells.get_completion_script(  # type: ignore[attr-defined]
        prog_name="silvan", complete_var=VARIABLE, shell=shell
    )
    typer.echo(script)


def prepare() -> None:
    """Set up typer if a shell requests completions."""
    if VARIABLE in os.environ:
        from typer import completion as shells

        shells.completion_init()  # type: ignore[attr-defined]


def scenarios(incomplete: str) -> list[str]:
    """Return the names of shipped scenarios, the folders and the TOML files that start with `incomplete`."""
    from silvan import scenarios as shipped

    names = [one.name for one in shipped.listed() if one.kind == "scenario"] if "/" not in incomplete else []
    folder = Path(incomplete).parent if not incomplete.endswith("/") else Path(incomplete)
    try:
        here = [path for path in folder.iterdir() if path.is_dir() or path.suffix == ".toml"]
    except OSError:
        here = []
    paths = [f"{path}/" if path.is_dir() else str(path) for path in here if not path.name.startswith(".")]
    return [name for name in sorted(names) + sorted(paths) if name.startswith(incomplete)]
