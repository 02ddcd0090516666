"""The command `silvan calibrate`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from silvan.commands import common

if TYPE_CHECKING:
    from silvan.calibration.outcome import Calibration


def _files(option: str, text: str) -> object:
    return typer.Option(option, metavar="FILE[@FROM,TO]", help=f"{text}; may be repeated.")


def register(app: typer.Typer) -> None:
    """Add `silvan calibrate`."""
    app.command()(calibrate)


def calibrate(  # noqa: PLR0913, PLR0917 - one argument per option
    scenario: common.ScenarioFile,
    latency: Annotated[
        list[str] | None, _files("--latency", "Output of ib_write_lat or ib_send_lat, with the hosts")
    ] = None,
    bandwidth: Annotated[
        list[str] | None, _files("--bandwidth", "Output of ib_write_bw or ib_send_bw, with the hosts")
    ] = None,
    nccl: Annotated[
        list[str] | None,
        typer.Option(
            "--nccl", metavar="FILE", help="Output of nccl-tests: text, JSON or CSV; may be repeated."
        ),
    ] = None,
    counters: Annotated[
        str | None,
        typer.Option(
            "--counters",
            metavar="[BEFORE,]AFTER",
            help="Counters of ports before and after the tests: which adapters and routes were used.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="The calibrated scenario (.toml) and its record."),
    ] = None,
    fit: Annotated[
        list[str] | None,
        typer.Option(
            "--fit",
            metavar="KEY",
            help="Fit only this key; may be repeated.",
            show_default="all that the measurements determine",
        ),
    ] = None,
    fix: Annotated[
        list[str] | None,
        typer.Option(
            "--fix",
            metavar="KEY=VALUE",
            help="State a key that is known, such as topology.link_delay='25 ns'; may be repeated.",
        ),
    ] = None,
    settings: common.Settings = None,
    collective: Annotated[
        str | None,
        typer.Option("--collective", metavar="NAME", help="Operation of nccl-tests that do not name it."),
    ] = None,
    ranks: Annotated[
        int | None,
        typer.Option("--ranks", metavar="N", min=2, help="Ranks of nccl-tests that do not state them."),
    ] = None,
    algorithm: Annotated[
        list[str] | None,
        typer.Option(
            "--algorithm",
            metavar="OPERATION=NAME",
            help="Algorithm of a collective operation; may be repeated.",
            show_default="ring for most",
        ),
    ] = None,
    hardware: Annotated[
        list[str] | None,
        typer.Option(
            "--hardware",
            metavar="NAME",
            help="Compare ports and rates with a switch or an adapter (docs/calibrate.md); may be repeated.",
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option("--figure", metavar="NAME", help="Draw NAME.png and NAME.svg."),
    ] = None,
    rows: Annotated[bool, typer.Option("--rows", help="Print each row: measured and simulated.")] = False,
    write: Annotated[
        bool,
        typer.Option(
            "--write", help="Write the files instead of reading them, with the times that SCENARIO has."
        ),
    ] = False,
    noise: Annotated[
        float,
        typer.Option("--noise", metavar="PERCENT", min=0.0, max=50.0, help="Noise of --write."),
    ] = 0.0,
    width: common.Width = None,
    is_print: common.Print = False,
    as_json: common.AsJson = False,
) -> None:
    """Fit a scenario to measurements of a real fabric, and state its error and what does not fit.

    Exit status: 0 success, 1 error, such as a file that is no measurement.
    """
    from silvan import calibration
    from silvan.calibration import published, report

    of_nccl = {"--collective": collective, "--ranks": ranks, "--algorithm": algorithm}
    of_fits: dict[str, object] = {
        "--out": out,
        "--fit": fit,
        "--fix": fix,
        "--counters": counters,
        "--hardware": hardware,
    }
    of_fits |= {"--figure": figure, "--rows": rows, "--json": as_json}
    _refuse("without --nccl", {} if nccl else of_nccl)
    _refuse(*(("with --write", of_fits) if write else ("without --write", {"--noise": noise})))
    algorithms = common.pairs(algorithm, "--algorithm")
    given = common.load_scenario(scenario, common.overrides(settings))
    if write:
        from silvan.calibration import written

        paths = written.write(
            given,
            latency or (),
            bandwidth or (),
            nccl or (),
            collective=collective or "all-reduce",
            ranks=ranks,
            noise=noise / 100,
            algorithms=algorithms,
        )
        for path in paths:
            typer.echo(f"{path} written")
        return
    if out is not None:
        report.check_out(out)
    compared = [published.check(given, name) for name in hardware or ()]
    read = calibration.read(latency or (), bandwidth or (), nccl or (), collective=collective, ranks=ranks)
    fixed = common.pairs(fix, "--fix", "KEY=VALUE, such as topology.link_delay='25 ns'")
    look = common.look(width, is_print=is_print, drawn=figure is not None, by="--figure")
    done = calibration.calibrate(given, read, fix=fixed, fit=fit or (), algorithms=algorithms)
    if counters is not None:
        from silvan.calibration import counted

        told = counted.sentences(done.scenario, done.measurements, *counted.files_of(counters))
        done = replace(done, anomalies=(*done.anomalies, *told))
    if as_json:
        common.print_json(report.numbers(done))
    else:
        show(common.out_console(), done, compared, rows=rows)
    errors = common.err_console()
    if out is not None:
        for path in report.save(done, out):
            errors.print(f"{path} written", markup=False)
    if figure is not None:
        from silvan.calibration import figures

        with look:
            for path in figures.save(done, figure):
                errors.print(f"{path} written", markup=False)


def _refuse(when: str, given: Mapping[str, object]) -> None:
    """Raise `BadParameter` for the first given option, because it has no effect."""
    for name, value in given.items():
        if value:
            raise typer.BadParameter(f"has no effect {when}", param_hint=name)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, box=None, header_style="bold")
    table.title_style, table.title_justify = "bold", "left"
    for at, name in enumerate(columns):
        table.add_column(escape(name), justify="right" if at else "left", overflow="fold")
    return table


def show(console: Console, done: Calibration, compared: Sequence[str], *, rows: bool) -> None:
    """Print the fitted keys, what could not be identified, the anomalies, and the error of each file."""
    from silvan.calibration.outcome import error_in_words

    _show_keys(console, done)
    if done.sums:
        console.print("\nThe latency tests determine these sums:", style="bold")
        for one in done.sums:
            console.print(f"  {escape(str(one))}")
    for text in done.directions:
        console.print(f"  {escape(text)}; state one with --fix")
    if done.missing:
        console.print("\nNot identified, and unchanged:", style="bold")
        for name, needs in done.missing.items():
            console.print(f"  {name} {escape(needs)}")
    console.print()
    _show_files(console, done)
    if done.anomalies:
        console.print("\nAnomalies:", style="bold")
        for text in done.anomalies:
            console.print(f"  {escape(text)}")
    if notes := [*done.notes, *compared, *_notes(done)]:
        console.print("\nNotes:", style="bold")
        for text in notes:
            console.print(f"  {escape(text)}")
    if rows:
        console.print()
        _show_rows(console, done)
    console.print(
        f"\nCalibration: {error_in_words(done.error, done.masks)}; {done.runs} runs of the simulator"
    )


def _notes(done: Calibration) -> Iterator[str]:
    """Yield the notes about files; files with the same note are named together."""
    files: dict[str, list[str]] = {}
    for one in done.measurements:
        for text in one.notes:
            files.setdefault(text, []).append(one.file.name)
    for text, names in files.items():
        yield f"{', '.join(names)}: {text}"


def _show_keys(console: Console, done: Calibration) -> None:
    from silvan.calibration import keys

    if not done.found.names:
        console.print("The measurements determine no key.", style="bold")
        return
    table = _table("Fitted keys", "key", "before", "fitted", "95 % interval", "by resampling rows")
    for name in done.found.names:
        cells = []
        for intervals in (done.found.intervals, done.found.resampled):
            interval = intervals.get(name)
            ends = (keys.in_words(name, end) for end in interval or ())
            cells.append(" to ".join(ends) or "needs more rows")
        before = keys.in_words(name, done.before[name])
        table.add_row(name, before, keys.in_words(name, done.found.values[name]), *cells)
    console.print(table)


def _show_files(console: Console, done: Calibration) -> None:
    from silvan.calibration import fit

    table = _table("Measured and simulated", "file", "test", "rows", "fitted", "error", "largest residual")
    for one, residuals, mask in zip(done.measurements, done.found.residuals, done.masks, strict=True):
        error = fit.rms(residuals[mask])
        largest = max(residuals, key=abs)
        table.add_row(
            escape(one.name),
            escape(f"{one.operation} {one.kind}"),
            str(len(one.rows)),
            str(int(mask.sum())),
            "-" if error is None else f"{100 * error:.2g} %",
            f"{100 * math.expm1(largest):+.1f} %",
        )
    console.print(table)


def _show_rows(console: Console, done: Calibration) -> None:
    from silvan.calibration import keys
    from silvan.calibration.anomalies import size_in_words

    for at, one in enumerate(done.measurements):
        table = _table(escape(one.name), "size", "measured", "simulated", "residual", "fitted")
        for row, time, residual, used in zip(
            one.rows, done.modeled[at], done.found.residuals[at], done.masks[at], strict=True
        ):
            table.add_row(
                size_in_words(row.size),
                keys.time_in_words(row.time_s),
                keys.time_in_words(float(time)),
                f"{100 * math.expm1(residual):+.1f} %",
                "yes" if used else "no",
            )
        console.print(table)
