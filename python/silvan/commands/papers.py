"""The commands `silvan papers`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from silvan.commands import _show, _show_papers, common

app = typer.Typer(
    help="Published experiments: run them, and compare with the published numbers.", no_args_is_help=True
)


def register(parent: typer.Typer) -> None:
    """Add `silvan papers` with its commands."""
    parent.add_typer(app, name="papers")


@app.command("list")
def list_(as_json: common.AsJson = False) -> None:
    """List the published experiments."""
    from silvan.papers import list_experiments

    found = list_experiments()
    if as_json:
        common.print_json(
            [{"id": e.id, "title": e.title, "source": e.source, "rows": len(e.rows)} for e in found]
        )
        return
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for name in ("id", "what", "source"):
        table.add_column(name, overflow="fold")
    for name in ("numbers", "full, a seed", "quick, a seed"):
        table.add_column(name, justify="right")
    for e in found:
        times = (f"{e.full_seconds:g} s", f"{e.quick_seconds:g} s")
        table.add_row(e.id, escape(e.title), escape(e.source), str(len(e.rows)), *times)
    common.out_console().print(table)


@app.command()
def run(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Names of experiments, as in silvan papers list."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Run all experiments.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Shorter runs; some tolerances are wider.")] = False,
    as_json: common.AsJson = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="DIR", help="Folder for runs and figures; runs in it are reused."
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", metavar="N", min=1, help="Number of processes.", show_default="cores")
    ] = os.cpu_count() or 1,
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds", metavar="N", min=1, help="Number of seeds.", show_default="5, or 1 with --quick"
        ),
    ] = None,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="FILE", help="Update this record with the numbers.")
    ] = None,
    progress: common.ShowProgress = None,
) -> None:
    """Run published experiments and compare their numbers with the published ones."""
    from silvan.papers import run_experiments

    if bool(ids) == everything:
        raise typer.BadParameter(
            "name experiments (silvan papers list shows them) or give --all", param_hint="ID"
        )
    _, shown = common.progress_console(progress)
    rows = run_experiments(
        ids or ["all"], quick=quick, jobs=jobs, out=out, progress=shown, seeds=seeds, record=record
    )
    if as_json:
        common.print_json(rows)
    else:
        _show.papers(common.out_console(), rows)


@app.command("record")
def record_(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Experiments.", show_default="all")
    ] = None,
    as_json: common.AsJson = False,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Record to show.", show_default="the record in papers/"),
    ] = None,
) -> None:
    """Show the recorded numbers with verdicts by the present tolerances, without running anything."""
    from silvan.papers import record
    from silvan.papers.catalogue import choose

    found = record.rows_by_experiment(file or record.find_record(), choose(ids or ["all"]))
    rows = [row for _, _, own in found.values() for row in own]
    if as_json:
        common.print_json(rows)
    else:
        _show.papers(common.out_console(), rows)


@app.command("score")
def score_(
    reading: Annotated[
        int | None,
        typer.Option("--reading", metavar="N", min=1, max=4, help="Only rows that this reading added."),
    ] = None,
    over_time: Annotated[
        bool, typer.Option("--history", help="Follow the rows that commit c29aadd counted over time.")
    ] = False,
    point: Annotated[
        str | None,
        typer.Option(
            "--add", metavar="TEXT", help="Add the present verdicts to the history, with date and commit."
        ),
    ] = None,
    as_json: common.AsJson = False,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Record to count.", show_default="the record in papers/"),
    ] = None,
) -> None:
    """Count the recorded rows by category and verdict; with --json, list the rows behind each count."""
    from silvan.papers import history, list_experiments, record, score

    if point is not None and not over_time:
        raise typer.BadParameter("only with --history", param_hint="--add")
    if over_time and reading is not None:
        raise typer.BadParameter("not with --history, which follows a fixed set", param_hint="--reading")
    found = record.rows_by_experiment(file or record.find_record(), list_experiments())
    if over_time:
        if point is not None:
            history.add(history.find_history(), point, found)
        verdicts = history.points(history.read(history.find_history()), found)
        if as_json:
            common.print_json(verdicts)
        else:
            _show_papers.over_time(common.out_console(), verdicts)
        return
    rows = score.rows_by_category(found, reading)
    if as_json:
        common.print_json(rows)
    else:
        orders = score.of_category(score.compared(found, score.PAPERS), score.ORDERS)
        stated = score.by_statement(one for one in orders if reading in (None, one["reading"]))
        _show_papers.score(common.out_console(), rows)
        _show_papers.statements(common.out_console(), len(score.hold(stated)), len(stated))


@app.command()
def show(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="An experiment.")],
    as_json: common.AsJson = False,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Record to show.", show_default="the record in papers/"),
    ] = None,
) -> None:
    """Show one experiment: its numbers, verdicts and reasons, and the causes that were tested."""
    from dataclasses import asdict

    from silvan.papers import causes, record
    from silvan.papers.catalogue import choose

    (experiment,) = choose([identifier])
    found = record.rows_by_experiment(file or record.find_record(), [experiment])
    rows = found[experiment.id][2]
    tested = causes.about(causes.read_causes(), experiment.id)
    if as_json:
        common.print_json({"rows": rows, "causes": [asdict(cause) for cause in tested]})
    else:
        _show_papers.experiment(common.out_console(), experiment, rows, tested)


@app.command()
def pages(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the pages.")],
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Record to use.", show_default="the record in papers/"),
    ] = None,
) -> None:
    """Write what follows from the record: the score, and a page per paper."""
    from silvan.papers import record

    for page in record.write_pages(folder, file or record.find_record()):
        common.out_console().print(str(page), highlight=False, soft_wrap=True)
