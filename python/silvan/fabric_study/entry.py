"""The command `silvan fabric study`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from silvan import _files, _folder
from silvan._core import Scenario, SilvanError
from silvan.results import Result
from silvan.sweeps.entry import Jobs, ShowProgress

if TYPE_CHECKING:
    from silvan.fabric_study.study import Studied

EXIT_STOPPED = 130
ACCOUNT, NUMBERS, REPORT, SITE, TUNE = "account.md", "study.json", "report.html", "site.toml", "tune.toml"
PLUGIN = "ccmgr.conf"

Paths = Annotated[
    list[Path],
    typer.Argument(metavar="FABRIC...", help="Files and folders of the fabric, as of fabric check."),
]
Tables = Annotated[
    Path | None,
    typer.Option("--lft", metavar="DUMP", help="Forwarding tables, where the files have several."),
]
Rate = Annotated[
    str | None, typer.Option("--default-rate", metavar="RATE", help="Rate of links that state none.")
]
Count = Annotated[
    int | None, typer.Option("--hotspots", metavar="N", help="Hosts drawn as hotspots [default: one in 80].")
]
Names = Annotated[
    list[str] | None,
    typer.Option("--hotspot", metavar="HOST", help="A host that is a hotspot; may be repeated."),
]
Contributors = Annotated[
    float, typer.Option("--contributors", metavar="SHARE", help="Share of the hosts that send to hotspots.")
]
Incast = Annotated[
    float,
    typer.Option("--incast", metavar="SHARE", help="Share of the hosts that write to storage; 0: none."),
]
Background = Annotated[
    float, typer.Option("--background", metavar="SHARE", help="What the other hosts offer, of their links.")
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Who is what is drawn from it.")]
Conf = Annotated[
    Path | None,
    typer.Option("--opensm-conf", metavar="FILE", help="Options set now, to be compared with the others."),
]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for all that is written.")]


def add_to(
    fabric: typer.Typer,
    *,
    out_console: Callable[[], Console],
    err_console: Callable[..., Console],
    simulate: Callable[..., Result],
) -> None:
    """Give `silvan fabric` the command `study`."""

    @fabric.command("study")
    def study(  # noqa: PLR0913, PLR0917 - a command has as many as it has options
        paths: Paths,
        lft: Tables = None,
        default_rate: Rate = None,
        hotspots: Count = None,
        hotspot: Names = None,
        contributors: Contributors = 0.5,
        incast: Incast = 0.1,
        background: Background = 1.0,
        seed: Seed = 1,
        opensm_conf: Conf = None,
        out: Out = Path("out/fabric-study"),
        jobs: Jobs = None,
        progress: ShowProgress = None,
    ) -> None:
        """Put hotspots, a storage incast and a background on a fabric, and say what to set.

        Runs it without congestion control, with the defaults and with the best of a few settings, and
        writes an account, figures, a report and lines for opensm.conf.
        """
        from silvan.fabric_study.load import Shape
        from silvan.fabric_study.study import Asked
        from silvan.fabric_study.study import study as do
        from silvan.tuning.entry import bar

        shape = Shape(hotspots, tuple(hotspot or ()), contributors, incast, background)
        refuse_foreign(out)
        asked = Asked(paths, out, lft, default_rate, shape, seed, opensm_conf, jobs)
        errors = err_console(live=progress)
        shown = errors.is_terminal if progress is None else progress

        def run(scenario: Scenario, title: str) -> Result:
            return simulate(scenario, title=title, progress=progress)

        try:
            with bar(errors, "settings", 1, show=shown) as tell:
                studied = do(asked, run, tell)
        except KeyboardInterrupt:
            errors.print(
                f"stopped: finished runs are kept in {out / 'runs'}; the same command goes on from there"
            )
            raise typer.Exit(EXIT_STOPPED) from None
        write(studied, out)
        show(out_console(), studied, out)


def refuse_foreign(out: Path) -> None:
    """Raise :class:`SilvanError` where a study would replace what no study wrote."""
    if out.exists() and not out.is_dir():
        raise SilvanError(f"{out}: exists and is not a folder; choose another with --out")
    if not out.is_dir() or not any(out.iterdir()):
        return
    text = ""
    with contextlib.suppress(OSError, ValueError):
        text = _files.read_text(out / SITE)
    if "Written by `silvan fabric study`" not in text[:200]:
        raise SilvanError(
            f"{out}: is not empty and not the folder of a fabric study; choose another with --out"
        )


def write(studied: Studied, out: Path) -> None:
    """Write account, figures, report, runs, and lines to paste; raises :class:`SilvanError`."""
    from silvan import report
    from silvan.fabric_study import account, figures
    from silvan.tuning.presets import CCMGR

    try:
        for title, result in studied.runs.items():
            folder = out / title.replace(" ", "-").replace(".", "-")
            _folder.refuse_foreign(folder)
            result.save(folder)
        drawn = figures.save_all(studied, out / "figures")
        _files.write_text(out / PLUGIN, CCMGR)
        _files.write_text(out / TUNE, tune_text())
        _files.write_text(out / NUMBERS, _files.to_json(account.numbers(studied)))
        _files.write_text(out / ACCOUNT, account.write(studied, drawn))
        report.write(list(studied.runs.values()), out / REPORT, titles=list(studied.runs))
    except OSError as error:
        raise SilvanError(f"{error.filename or out}: {error.strerror or error}") from error


def tune_text() -> str:
    """Return a file of `silvan tune` that searches finer on the same load."""
    return "\n".join(
        [
            "# Written by `silvan fabric study`: searches all settings on the same load.",
            f"#   silvan tune {TUNE}",
            'name = "site"',
            f'scenario = "{SITE}"',
            "runs = 64",
            "",
            "[set]",
            '"measure.forest" = false',
            '"measure.links" = false',
            "",
        ]
    )


def show(console: Console, studied: Studied, out: Path) -> None:
    """Print the account in brief, and where the rest is."""
    from silvan.fabric_study import account
    from silvan.tuning import report as tune_report

    for line in account.headline(studied):
        console.print(escape(line.replace("`", "")))
    console.print()
    console.print("[bold]Recommended settings[/]")
    for key, value in tune_report.shown_settings(studied.tuned).items():
        console.print(f"  {key} = {escape(value)}")
    for one in studied.tuned.contrasts:
        console.print(f"Beside {escape(one.name)}: {one.score} times as good")
    for name, value, kept in account.margin_rows(studied):
        console.print(f"Margin: {escape(name)} = {value}; one step away is left of the score: {kept}")
    for note in studied.notes:
        console.print(f"[yellow]Note:[/] {escape(note)}")
    console.print()
    for what, name in (
        ("Account", ACCOUNT),
        ("Report", REPORT),
        ("Lines to paste", "opensm.conf"),
        ("Finer search", TUNE),
    ):
        console.print(f"{what}: {out / name}", markup=False)
