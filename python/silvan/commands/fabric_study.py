"""The command `silvan fabric study`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from silvan.commands import common

if TYPE_CHECKING:
    from silvan._core import Scenario
    from silvan.fabric.studies.study import Studied
    from silvan.results import Result


def register(app: typer.Typer) -> None:
    """Add `silvan fabric study`."""
    app.command()(study)


def study(  # noqa: PLR0913, PLR0917 - one argument per option
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="FABRIC...", help="Files and folders of the fabric, as of fabric check."),
    ],
    lft: common.Tables = None,
    default_rate: common.DefaultRate = None,
    hotspots: Annotated[
        int | None,
        typer.Option("--hotspots", metavar="N", help="Hosts drawn as hotspots.", show_default="one in 80"),
    ] = None,
    hotspot: Annotated[
        list[str] | None,
        typer.Option("--hotspot", metavar="HOST", help="A host that is a hotspot; may be repeated."),
    ] = None,
    contributors: Annotated[
        float,
        typer.Option("--contributors", metavar="SHARE", help="Share of the hosts that send to hotspots."),
    ] = 0.5,
    incast: Annotated[
        float,
        typer.Option("--incast", metavar="SHARE", help="Share of the hosts that write to storage; 0: none."),
    ] = 0.1,
    background: Annotated[
        float,
        typer.Option(
            "--background",
            metavar="SHARE",
            help="Load that the other hosts offer, as a share of their links.",
        ),
    ] = 1.0,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="Seed from which the roles of hosts are drawn.")
    ] = 1,
    opensm_conf: Annotated[
        Path | None,
        typer.Option("--opensm-conf", metavar="FILE", help="Options in use now, for the comparison."),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for everything that is written.")
    ] = Path("out/fabric-study"),
    jobs: common.Jobs = None,
    progress: common.ShowProgress = None,
) -> None:
    """Simulate hotspots, a storage incast and a background on a fabric, and recommend settings.

    Runs it without congestion control, with the defaults and with the best of a few settings, and
    writes an account, figures, a report and lines for opensm.conf.
    """
    from silvan.fabric.studies import files
    from silvan.fabric.studies.load import Shape
    from silvan.fabric.studies.study import Asked
    from silvan.fabric.studies.study import study as run_study

    shape = Shape(hotspots, tuple(hotspot or ()), contributors, incast, background)
    files.refuse_foreign(out)
    asked = Asked(paths, out, lft, default_rate, shape, seed, opensm_conf, jobs)
    errors, shown = common.progress_console(progress)

    def run(scenario: Scenario, title: str) -> Result:
        return common.simulate(scenario, title=title, progress=progress)

    try:
        with common.search_bar(errors, "settings", 1, show=shown) as tell:
            studied = run_study(asked, run, tell)
    except KeyboardInterrupt:
        errors.print(f"stopped: finished runs are kept in {out / 'runs'}; repeat the command to continue")
        raise typer.Exit(common.EXIT_STOPPED) from None
    files.write(studied, out)
    show(common.out_console(), studied, out)


def show(console: Console, studied: Studied, out: Path) -> None:
    """Print the main results, and where the files are."""
    from silvan.fabric.studies import account, files
    from silvan.tuning import report as tune_report

    for line in account.headline(studied):
        console.print(escape(line.replace("`", "")))
    console.print()
    console.print("[bold]Recommended settings[/]")
    for key, value in tune_report.shown_settings(studied.tuned).items():
        console.print(f"  {key} = {escape(value)}")
    for one in studied.tuned.contrasts:
        console.print(f"Compared with {escape(one.name)}: {one.score} times as good")
    for name, value, kept in account.margin_rows(studied):
        console.print(f"Margin: {escape(name)} = {value}; relative score one step away: {kept}")
    for note in studied.notes:
        console.print(f"[yellow]Note:[/] {escape(note)}")
    console.print()
    for what, name in (
        ("Account", files.ACCOUNT),
        ("Report", files.REPORT),
        ("Lines to paste", files.OPTIONS),
        ("Finer search", files.TUNE),
    ):
        console.print(f"{what}: {out / name}", markup=False)
