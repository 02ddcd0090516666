"""The commands of `silvan`.

Each command module has one function `register(app)`, which adds its commands to an application of typer.
Modules that take long to import are imported by the command that needs them.

| module | commands |
| --- | --- |
| `run`, `check`, `schema` | `silvan run`, `silvan check`, `silvan schema` |
| `plot`, `report` | figures and reports of runs |
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
    demo,
    fabric,
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

#: In the order of `silvan --help`.
MODULES = (run, check, sweep, tune, fabric, trace, scenarios, plot, report, schema, papers, demo, version)


def register(app: typer.Typer) -> None:
    """Add all commands."""
    for module in MODULES:
        module.register(app)
