"""The commands of `silvan`.

Each command module has a function `register(app)` that adds its commands to a typer application. The module
of a command is imported when the command runs, or when all commands are listed. A command imports slow
modules only when it runs.

| module | content |
| --- | --- |
| `run`, `check`, `schema` | `silvan run`, `silvan check`, `silvan schema` |
| `compare`, `why` | `silvan compare`, `silvan why` |
| `export`, `counters` | `silvan export`, `silvan counters` |
| `plot`, `report` | `silvan plot`, `silvan report` |
| `new`, `doctor`, `completion` | `silvan new`, `silvan doctor`, `silvan completion` |
| `sweep`, `tune` | `silvan sweep`, `silvan tune` |
| `calibrate` | `silvan calibrate` |
| `fabric`, `fabric_collide`, `fabric_infer`, `fabric_study` | `silvan fabric ...` |
| `trace` | `silvan trace ...` |
| `scenarios` | `silvan scenarios ...` |
| `papers` | `silvan papers ...` |
| `demo`, `version` | `silvan demo`, `silvan version` |
| `common` | code that commands share: exit codes, consoles, options, `--set` |
| `_show`, `_show_fluid`, `_show_papers` | functions that print tables on the terminal |
"""

from __future__ import annotations

from importlib import import_module

import typer

#: Modules of the commands, which have the names of the commands, in the order of `silvan --help`.
MODULES = (
    "demo", "run", "check", "new", "scenarios", "compare", "why", "plot", "report", "export", "counters",
    "sweep", "tune", "calibrate", "fabric", "trace", "papers", "schema", "doctor", "completion", "version",
)  # fmt: skip


def register(app: typer.Typer, command: str | None = None) -> None:
    """Add all commands, or only `command` if it is the name of one, so that this command starts sooner."""
    from silvan.commands import version

    for name in (command,) if command in MODULES else MODULES:
        import_module(f"silvan.commands.{name}").register(app)
    version.register_option(app)
