"""The commands of `silvan`.

Each command module has a function `register(app)` that adds its commands to a typer application. A command
imports slow modules only when it runs.

| module | commands |
| --- | --- |
| `run`, `check`, `schema` | `silvan run`, `silvan check`, `silvan schema` |
| `compare`, `export` | runs compared; tables as CSV |
| `plot`, `report` | figures and reports of runs |
| `new`, `doctor`, `completion` | a new scenario, a check of the installation, completion in shells |
| `sweep`, `tune` | many runs of one scenario |
| `fabric`, `fabric_collide`, `fabric_study` | `silvan fabric ...` |
| `trace` | `silvan trace ...` |
| `scenarios` | `silvan scenarios ...` |
| `papers` | `silvan papers ...` |
| `demo`, `version` | `silvan demo`, `silvan version` |
| `common` | what they share: exit codes, consoles, options, `--set` |
| `_show`, `_show_fluid` | tables on the terminal |
"""

from __future__ import annotations

import typer

from silvan.commands import (
    check,
    compare,
    completion,
    demo,
    doctor,
    export,
    fabric,
    new,
    papers,
    plot,
    report,
    run,
    scenarios,
    schema,
    sweep,
    trace,
    tune,
    version,
)

#: The order of the commands in `silvan --help`.
MODULES = (
    demo, run, check, new, scenarios, compare, plot, report, export, sweep, tune, fabric, trace, papers,
    schema, doctor, completion, version,
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add all commands."""
    for module in MODULES:
        module.register(app)
