"""The command `silvan demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from silvan.commands import common


def register(app: typer.Typer) -> None:
    """Add `silvan demo`."""
    app.command()(demo)


def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for results and figures.")
    ] = Path("out/demo"),
    progress: common.ShowProgress = None,
) -> None:
    """Run the published testbed without and with congestion control, and compare."""
    from silvan import demo as demonstration

    demonstration.run(
        common.out_console(),
        out,
        lambda scenario, title: common.simulate(scenario, title=title, progress=progress),
    )
