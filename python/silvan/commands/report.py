"""The command `silvan report`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from silvan.commands import common

if TYPE_CHECKING:
    from silvan.delays import Why
    from silvan.results import Result


def register(app: typer.Typer) -> None:
    """Add `silvan report`."""
    app.command()(report)


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, 1 to 6.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="File for the report.",
            show_default="RUN.html, or report.html next to the first run",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace --out even if it is not a report of Silvan.")
    ] = False,
    titles: common.Titles = None,
    why: Annotated[
        int,
        typer.Option(
            "--why",
            metavar="K",
            min=0,
            max=100,
            help="Explain the jobs and the K messages with the longest delays, by further runs.",
        ),
    ] = 0,
    trace_events: Annotated[
        Path | None,
        typer.Option(
            "--trace-events",
            metavar="FILE",
            help="Also write trace events for Perfetto: trace.json, or trace.json.gz.",
        ),
    ] = None,
) -> None:
    """Write one HTML file about runs, for any browser, offline: the network over time, charts, tables."""
    import silvan
    from silvan import report as reports

    if len(folders) > reports.MOST_RUNS:
        raise typer.BadParameter(f"a report has 1 to {reports.MOST_RUNS} runs", param_hint="RUN")
    if titles and len(titles) != len(folders):
        raise typer.BadParameter(f"{len(titles)} titles for {len(folders)} runs", param_hint="--title")
    first = Path(os.path.normpath(folders[0].absolute()))
    beside = first.with_name(f"{first.name}.html" if len(folders) == 1 else "report.html")
    target = out or Path(os.path.relpath(beside))
    if trace_events is not None and os.path.realpath(trace_events) == os.path.realpath(target):
        raise typer.BadParameter(f"{target} is also the file of --out", param_hint="--trace-events")
    if not force and target.is_file() and not reports.is_report(target):
        common.fail(f"{target}: exists and is not a report of Silvan; choose another file, or use --force")
    runs = [silvan.load(folder) for folder in folders]
    explained = [_explained(run, why) for run in runs] if why else []
    written = reports.write(runs, target, titles=titles or None, explained=explained)
    typer.echo(f"Report in {written}")
    if trace_events is not None:
        written = reports.trace_events(runs, trace_events, titles=titles or None, explained=explained)
        typer.echo(f"Trace events in {written}")


def _explained(run: Result, most: int) -> list[Why]:
    """Explain the finished jobs of a run, and its messages with the longest delays, if there are any."""
    import silvan
    from silvan._terminal import clean
    from silvan.delays.subjects import NoMessageError

    jobs = [job["job"] for job in run.summary.get("jobs", []) if job["finished_ns"] is not None]
    found: list[Why] = [one for job in jobs for one in silvan.why(run, job=job)]
    try:
        return [*found, *silvan.why(run, slowest=most)]
    except NoMessageError as error:
        typer.echo(f"Note: {clean(str(error))}", err=True)
        return found
