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
    from silvan.fabric.studies.study import Simulated, Studied
    from silvan.results import Result

#: Styles of sentences by their first word.
STYLES = {
    "Deadlock": "bold red",
    "Lanes": "bold",
    "Harm": "bold red",
    "Undecided": "bold yellow",
    "Recommended": "bold",
    "Choose": "bold yellow",
    "Leave it": "bold",
    "Present settings": "bold",
}


def register(app: typer.Typer) -> None:
    """Add `silvan fabric study`."""
    app.command()(study)


def study(  # noqa: PLR0913, PLR0917 - one argument per option
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="FABRIC...", help="Files and folders of the fabric, as for silvan fabric check."
        ),
    ],
    lft: common.Tables = None,
    default_rate: common.DefaultRate = None,
    hotspots: Annotated[
        int | None,
        typer.Option(
            "--hotspots", metavar="N", help="Number of hosts drawn as hotspots.", show_default="one in 80"
        ),
    ] = None,
    hotspot: Annotated[
        list[str] | None,
        typer.Option("--hotspot", metavar="HOST", help="Name of a host that is a hotspot; may be repeated."),
    ] = None,
    contributors: Annotated[
        float,
        typer.Option("--contributors", metavar="SHARE", help="Share of the hosts that send to hotspots."),
    ] = 0.5,
    incast: Annotated[
        float,
        typer.Option(
            "--incast", metavar="SHARE", help="Share of the hosts that write to storage; 0 for none."
        ),
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
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds",
            metavar="N",
            min=3,
            max=100,
            help="Maximum number of seeds for a comparison that fewer do not decide.",
        ),
    ] = 16,
    aggregation_nodes: Annotated[
        bool,
        typer.Option(
            "--aggregation-nodes", help="Let aggregation nodes (SHARP) send and receive like hosts."
        ),
    ] = False,
    opensm_conf: Annotated[
        Path | None,
        typer.Option(
            "--opensm-conf", metavar="FILE", help="OpenSM's option file in use now, for the comparison."
        ),
    ] = None,
    down: Annotated[
        list[str] | None,
        typer.Option(
            "--down",
            metavar="SWITCH|LINK",
            help="Also simulate a failure of this switch, host or port (S1:3); may be repeated.",
        ),
    ] = None,
    protect: Annotated[
        list[str] | None,
        typer.Option(
            "--protect",
            metavar="CLASS",
            help="Class that settings must not harm (hotspots, storage, background); may be repeated.",
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            metavar="NAME=W,...",
            help="Weights of the score: victims, hotspots, storage, background.",
            show_default="victims=1,hotspots=1",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for everything that is written.")
    ] = Path("out/fabric-study"),
    jobs: common.Jobs = None,
    width: common.Width = None,
    is_print: common.Print = False,
    progress: common.ShowProgress = None,
) -> None:
    """Simulate hotspots, a storage incast and a background on a fabric, and recommend settings.

    Simulates the fabric without congestion control, with the defaults and with the best of a few
    settings, and writes an account, figures, a report and lines for opensm.conf.

    Exit status: 0 success, 3 the routes can deadlock or a run did, 1 or 2 an error.
    """
    from silvan.fabric.studies import files
    from silvan.fabric.studies.load import Shape
    from silvan.fabric.studies.study import Asked
    from silvan.fabric.studies.study import study as run_study
    from silvan.fabric.studies.verdict import Care

    shape = Shape(hotspots, tuple(hotspot or ()), contributors, incast, background)
    files.refuse_foreign(out)
    care = Care(tuple(protect or ()), _weights(weights))
    asked = Asked(
        paths,
        out,
        lft,
        default_rate,
        shape,
        seed,
        opensm_conf,
        jobs,
        care,
        seeds,
        aggregation_nodes,
        tuple(down or ()),
    )
    errors, shown = common.progress_console(progress)
    look = common.look(width, is_print=is_print)

    def run(scenario: Scenario, title: str) -> Result:
        return common.simulate(scenario, title=title, progress=progress)

    try:
        with common.search_bar(errors, "settings", 1, show=shown) as notify:
            studied = run_study(asked, run, notify)
    except KeyboardInterrupt:
        errors.print(f"stopped: finished runs are kept in {out / 'runs'}; repeat the command to continue")
        raise typer.Exit(common.EXIT_STOPPED) from None
    with look:
        files.write(studied, out)
    show(common.out_console(), studied, out)
    if studied.can_deadlock:
        raise typer.Exit(common.EXIT_CAN_DEADLOCK)


def _weights(text: str | None) -> tuple[tuple[str, float], ...]:
    """Parse `--weights`."""
    found = (
        common.pairs(text.split(","), "--weights", "NAME=W,..., such as victims=1,storage=2") if text else {}
    )
    try:
        return tuple((name, float(value)) for name, value in found.items())
    except ValueError:
        raise typer.BadParameter(f"`{text}` is not NAME=W,...", param_hint="--weights") from None


def _show_options(console: Console, studied: Studied) -> None:
    """Print the score and the harm of each option."""
    from rich.table import Table

    table = Table(title="Options compared with no control", box=None, header_style="bold")
    table.title_style, table.title_justify = "bold", "left"
    for head in ("seeds", "score", "harm"):
        table.add_column(head, overflow="fold")
    for one in studied.verdict.options:
        table.add_row(f"{one.seeds}", one.against_off.in_words, escape(one.in_words().replace("`", "")))
    console.print()
    console.print(table)
    console.print()


def show(console: Console, studied: Simulated, out: Path) -> None:
    """Print the main results and the location of the files; deadlock and harm come first."""
    from silvan.fabric.studies import account, files
    from silvan.fabric.studies.study import Studied

    for line in account.headline(studied):
        style = STYLES.get(line.partition(":")[0])
        console.print(escape(line.replace("`", "")), style=style, soft_wrap=True)
    if isinstance(studied, Studied):
        _show_settings(console, studied)
    for note in studied.notes:
        console.print(f"[yellow]Note:[/] {escape(note)}")
    console.print()
    named = [("Account", files.ACCOUNT)]
    if studied.runs:
        named.append(("Report", files.REPORT))
    if isinstance(studied, Studied):
        lines = "Lines to paste" if studied.verdict.recommended else "Lines that leave control off"
        named += [(lines, files.OPTIONS), ("Finer search", files.TUNE)]
    for what, name in named:
        console.print(f"{what}: {out / name}", markup=False)


def _show_settings(console: Console, studied: Studied) -> None:
    """Print the settings of the verdict, the options if none is recommended, the scores and the margins."""
    from silvan.fabric.studies import account
    from silvan.tuning import report as tune_report

    console.print()
    heading = "Recommended settings" if studied.verdict.recommended else "Settings with the best score"
    console.print(f"[bold]{heading}[/]")
    for key, value in tune_report.shown_settings(studied.tuned).items():
        console.print(f"  {key} = {escape(value)}")
    if not studied.verdict.recommended:
        _show_options(console, studied)
    for one in studied.tuned.contrasts:
        console.print(f"Compared with {escape(one.name)}: {one.score.in_words}")
    for name, value, kept in account.margin_rows(studied):
        console.print(f"Margin: {escape(name)} = {value}; the score relative to that: {kept}")
