"""The command `silvan`.

Exit status: 0 fine, 1 an error (one message on stderr), 2 wrong usage, 3 a fabric that works
but can deadlock, 130 stopped with Ctrl-C.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import typer
from rich.console import Console
from rich.markup import escape

import silvan
from silvan import (
    _files,
    _folder,
    _opensm,
    _show,
    _show_fluid,
    collide_command,
    scenario_commands,
    trace_commands,
)
from silvan._progress import RunProgress, simulated
from silvan.fabric_study import entry as study_entry
from silvan.sweeps import entry
from silvan.tuning import entry as tune_entry

EXIT_CAN_DEADLOCK = 3
EXIT_STOPPED = 130
Drawn = TypeVar("Drawn")

app = typer.Typer(
    help="Simulate congestion in lossless interconnection networks, and what prunes its trees.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
fabric = typer.Typer(
    help="Real fabrics: check and route what ibnetdiscover and OpenSM wrote.", no_args_is_help=True
)
papers = typer.Typer(help="Published experiments, beside their published numbers.", no_args_is_help=True)
app.add_typer(fabric, name="fabric")
app.add_typer(papers, name="papers")

ScenarioFile = Annotated[Path, typer.Argument(metavar="SCENARIO", help="Scenario file (TOML).")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the scenario, dotted; may be repeated."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Titles = Annotated[
    list[str] | None,
    typer.Option("--title", metavar="TEXT", help="What a run is called there; once for each run."),
]
ShowProgress = Annotated[
    bool | None,
    typer.Option("--progress/--no-progress", help="Show a progress bar; by default on a terminal."),
]


def _out() -> Console:
    # Piped output is for programs and files: it is not folded at 80 columns.
    return Console(width=None if sys.stdout.isatty() else 200, highlight=False)


def _err(*, live: bool | None = None) -> Console:
    # `live`: draw a bar where there is no terminal either, if that was asked for.
    return Console(stderr=True, highlight=False, soft_wrap=True, force_terminal=live or None)


def fail(message: str, status: int = 1) -> NoReturn:
    """Print one message on stderr and exit."""
    _err().print(f"[bold red]Error:[/] {escape(message)}")
    raise typer.Exit(status)


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def overrides(settings: list[str] | None) -> dict[str, str]:
    """Read `--set` options."""
    pairs: dict[str, str] = {}
    for setting in settings or []:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(
                f"`{setting}` is not KEY=VALUE, such as congestion.mechanism=ib-cc", param_hint="--set"
            )
        if not _is_utf8(setting):
            raise typer.BadParameter(f"{setting!r} is not text in UTF-8", param_hint="--set")
        pairs[key.strip()] = value.strip()
    return pairs


def _is_utf8(text: str) -> bool:
    # Python keeps bytes of the command line that are not as lone surrogates.
    return not any("\ud800" <= character <= "\udfff" for character in text)


def simulate(
    scenario: silvan.Scenario, *, title: str, progress: bool | None = None, alone: bool = False
) -> silvan.Result:
    """Run a scenario with a progress bar; Ctrl-C exits with a word on how far it was."""
    console = _err(live=progress)
    shown = console.is_terminal if progress is None else progress
    bar = RunProgress(console, title, show=shown)
    try:
        with bar:
            return silvan.run(scenario, progress=bar, alone=alone)
    except KeyboardInterrupt:
        end = bar.end_ns or scenario.duration_ns
        console.print(f"stopped at {simulated(bar.now_ns)} of {simulated(end)}; nothing written")
        raise typer.Exit(EXIT_STOPPED) from None


@app.command()
def run(
    scenario: ScenarioFile,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Folder for the results.")] = None,
    as_json: AsJson = False,
    plot: Annotated[bool, typer.Option("--plot", help="Draw figures too, in the folder of --out.")] = False,
    threads: Annotated[
        str | None,
        typer.Option(
            "--threads",
            metavar="N",
            help="Threads that may work at it, or `auto`: results are the same. Else as the scenario says.",
        ),
    ] = None,
    progress: ShowProgress = None,
    alone: Annotated[
        bool,
        typer.Option("--alone", help="Run each job alone on the network too, and say what slows it down."),
    ] = False,
    opensm_conf: Annotated[
        Path | None,
        typer.Option(
            "--opensm-conf",
            metavar="FILE",
            help="Take congestion control from OpenSM's configuration file; --set goes before it.",
        ),
    ] = None,
) -> None:
    """Run a scenario and say what happened."""
    if plot and out is None:
        raise typer.BadParameter("needs a folder for the figures: --out DIR", param_hint="--plot")
    given = overrides(settings) | ({} if threads is None else {"threads": threads})
    if opensm_conf is None:
        loaded = silvan.Scenario.load(scenario, given)
    else:
        loaded, notes = _opensm.load(scenario, opensm_conf, given)
        for note in notes:
            _err().print(f"note: {note}", markup=False)
    if out is not None:
        # Better now than after an hour.
        _folder.refuse_foreign(out)
    result = simulate(loaded, title=loaded.name, progress=progress, alone=alone)
    written = _written(result, out, plot)
    if as_json:
        _print_json(
            {
                "scenario": result.name,
                "summary": result.summary,
                "account": result.account,
                "warnings": result.warnings,
                "provenance": result.provenance,
                "out": str(out) if out else None,
            }
        )
        return
    console = _out()
    _show.result(console, result)
    for line in written:
        console.print(line, markup=False)


def _written(result: silvan.Result, out: Path | None, plot: bool) -> list[str]:
    if out is None:
        return []
    result.save(out)
    lines = ["", f"Written to {out}"]
    if plot:
        from silvan import plot as drawing

        lines.append(f"Figures in {drawing.save_all(result, out / 'figures')}")
    return lines


@app.command()
def check(
    scenario: ScenarioFile,
    settings: Settings = None,
    fluid: Annotated[
        bool,
        typer.Option("--fluid", help="Rates of its flows as fluids too: without control, max-min, SAA."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a scenario without running it: keys and values, routes, deadlock, cost."""
    loaded = silvan.Scenario.load(scenario, overrides(settings))
    report = loaded.check()
    rates = silvan.fluid(loaded) if fluid else None
    if as_json:
        _print_json(report if rates is None else report | {"fluid": rates})
        return
    _show.check(_out(), loaded.name, report)
    if rates is not None:
        _show_fluid.rates(_out(), rates)


entry.add_to(app, out_console=_out, err_console=_err, overrides=overrides)
collide_command.add_to(fabric, out_console=_out, print_json=_print_json)
tune_entry.add_to(app, out_console=_out, err_console=_err, overrides=overrides, print_json=_print_json)
trace_commands.add_to(app, out_console=_out, err_console=_err, print_json=_print_json)
scenario_commands.add_to(app, out_console=_out, print_json=_print_json)


@app.command()
def schema(
    study: Annotated[bool, typer.Option("--study", help="That of the studies of silvan sweep.")] = False,
) -> None:
    """Print the JSON Schema of scenario files."""
    if not study:
        typer.echo(silvan.schema())
        return
    from silvan.sweeps.schema import schema as of_studies

    _print_json(of_studies())


@app.command()
def plot(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Folder of a run; several with --forest, --animate."),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for the figures [default: DIR/figures]."),
    ] = None,
    forest: Annotated[
        str | None,
        typer.Option(
            "--forest", metavar="AT", help='Only the network at a time ("4.5 s", busiest), as SVG and PDF.'
        ),
    ] = None,
    animate: Annotated[
        Path | None,
        typer.Option("--animate", metavar="FILE", help="Only a moving picture of the network: .gif or .mp4."),
    ] = None,
    frames: Annotated[
        int, typer.Option("--frames", metavar="N", min=1, max=2_000, help="Frames of --animate.")
    ] = 120,
    titles: Titles = None,
) -> None:
    """Draw the figures of a run that was written with --out, or the network with its trees."""
    if titles and len(titles) != len(folders):
        raise typer.BadParameter(f"{len(titles)} titles for {len(folders)} runs", param_hint="--title")
    if forest is None and animate is None:
        from silvan import plot as drawing

        if len(folders) > 1:
            raise typer.BadParameter("several runs need --forest or --animate", param_hint="DIR")
        target = drawing.save_all(silvan.load(folders[0]), out or folders[0] / "figures")
        typer.echo(f"Figures in {target}")
        return
    from silvan import forest_figures

    runs = [silvan.load(folder) for folder in folders]
    if forest is not None:
        at = None if forest == forest_figures.BUSIEST else _time(forest, "--forest")
        target = (out or folders[0] / "figures") / f"forest-{forest.replace(' ', '')}"
        figure = _on_forests(lambda: forest_figures.still(runs, at, titles=titles or None), "--forest")
        typer.echo(f"Forest in {' and '.join(map(str, forest_figures.save(figure, target)))}")
    if animate is not None:
        path = _on_forests(
            lambda: forest_figures.animate(runs, animate, titles=titles or None, frames=frames), "--animate"
        )
        typer.echo(f"Forest in {path}")


def _time(text: str, option: str) -> float:
    from silvan import forest_figures

    try:
        return forest_figures.read_time(text)
    except ValueError as error:
        raise typer.BadParameter(f"{error}, or {forest_figures.BUSIEST}", param_hint=option) from None


def _on_forests(draw: Callable[[], Drawn], option: str) -> Drawn:
    """Draw; what was asked for and is not there (a forest, a time) is a wrong use of the option."""
    try:
        return draw()
    except (KeyError, ValueError) as error:
        raise typer.BadParameter(str(error.args[0]), param_hint=option) from None


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, 1 to 6.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="File for the report.")] = Path(
        "report.html"
    ),
    titles: Titles = None,
    trace_events: Annotated[
        Path | None,
        typer.Option(
            "--trace-events",
            metavar="FILE",
            help="File for trace events too, which Perfetto opens: trace.json, or trace.json.gz.",
        ),
    ] = None,
) -> None:
    """Make one HTML file of runs: the network over time, charts, tables; any browser opens it, offline."""
    from silvan import report as reports

    if len(folders) > reports.MOST_RUNS:
        raise typer.BadParameter(f"a report has 1 to {reports.MOST_RUNS} runs", param_hint="RUN")
    if titles and len(titles) != len(folders):
        raise typer.BadParameter(f"{len(titles)} titles for {len(folders)} runs", param_hint="--title")
    if trace_events is not None and os.path.realpath(trace_events) == os.path.realpath(out):
        raise typer.BadParameter(f"{out} is also the file of --out", param_hint="--trace-events")
    runs = [silvan.load(folder) for folder in folders]
    typer.echo(f"Report in {reports.write(runs, out, titles=titles or None)}")
    if trace_events is not None:
        typer.echo(f"Trace events in {reports.trace_events(runs, trace_events, titles=titles or None)}")


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for results and figures.")] = Path(
        "out/demo"
    ),
    progress: ShowProgress = None,
) -> None:
    """Run the published testbed with congestion control off and on, and compare."""
    from silvan import demo as demonstration

    demonstration.run(_out(), out, lambda scenario, title: simulate(scenario, title=title, progress=progress))


@app.command()
def version() -> None:
    """Print the version."""
    from silvan._provenance import git_commit

    commit = git_commit()
    typer.echo(f"silvan {silvan.__version__}" + (f" ({commit})" if commit else ""))


study_entry.add_to(fabric, out_console=_out, err_console=_err, simulate=simulate)

Topology = Annotated[
    Path,
    typer.Argument(metavar="TOPO", help="Wiring: output of ibnetdiscover, a list of links, ...; may be .gz."),
]
DefaultRate = Annotated[
    str | None,
    typer.Option(
        "--default-rate", metavar="RATE", help='Rate of links that state none, such as "16 Gbit/s".'
    ),
]


@fabric.command("check")
def fabric_check(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help="Files and folders of the fabric, told apart by what stands in them; may be .gz.",
        ),
    ],
    lft: Annotated[
        Path | None,
        typer.Option(
            "--lft", metavar="DUMP", help="Forwarding tables, where the files have several; may be .gz."
        ),
    ] = None,
    default_rate: DefaultRate = None,
    as_json: AsJson = False,
    ibdmchk: Annotated[
        Path | None,
        typer.Option("--ibdmchk", metavar="DIR", help="Folder for the same fabric as ibdmchk reads it."),
    ] = None,
) -> None:
    """Check a fabric: do all pairs route, how even is the load, can it deadlock.

    Exit status: 0 fine; 3 loads and routes, but can deadlock (the cycle is named); 1 unusable.
    """
    report = silvan.fabric_check(paths, lft, default_rate)
    if as_json:
        _print_json(report)
    else:
        _show.fabric(_out(), report)
    if ibdmchk is not None:
        _write_for_ibdmchk(ibdmchk, silvan.fabric_ibdmchk(paths, lft, default_rate))
    if report["pairs_unroutable"]:
        fail(f"{lft or paths[0]}: {report['pairs_unroutable']:,} pairs of hosts have no route")
    if report["deadlock"] is not None:
        raise typer.Exit(EXIT_CAN_DEADLOCK)


def _write_for_ibdmchk(folder: Path, files: dict[str, str]) -> None:
    """Write the files of a new or empty folder, and say how to use them."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise typer.BadParameter(f"{folder} is there already; name a new folder", param_hint="--ibdmchk")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        _files.write_text(folder / name, text)
    flags = {"opensm-subnet.lst": "-s", "opensm.fdbs": "-f", "opensm.mcfdbs": "-m"}
    flags |= {"path-sl.txt": "-c", "sl2vl.txt": "-d"}
    options = " ".join(f"{flags[name]} {folder / name}" for name in files)
    _err().print(f"ibdmchk {options}", markup=False)


@fabric.command("route")
def fabric_route(
    topology: Topology,
    out: Annotated[Path, typer.Option("--out", metavar="DUMP", help="File for the tables.")],
    routing: Annotated[
        str | None,
        typer.Option(
            "--routing",
            metavar="KIND",
            help="d-mod-k, up-down or shortest-path [default: the scenario's, or what suits the fabric].",
        ),
    ] = None,
    network: Annotated[
        Path | None,
        typer.Option(
            "--network", metavar="FILE", help="File for the network too, as ibnetdiscover writes it."
        ),
    ] = None,
    default_rate: DefaultRate = None,
) -> None:
    """Route a fabric, or the network of a scenario (.toml), and write tables that OpenSM reads."""
    _refuse_own_files(topology, out, network)
    tables, wiring = silvan.fabric_route(topology, routing, default_rate)
    _files.write_text(out, tables)
    typer.echo(f"Forwarding tables written to {out}")
    if network is not None:
        _files.write_text(network, wiring)
        typer.echo(f"Network written to {network}")


@fabric.command("options")
def fabric_options(scenario: ScenarioFile, settings: Settings = None) -> None:
    """Print a scenario's congestion control as options of OpenSM's configuration file."""
    typer.echo(silvan.Scenario.load(scenario, overrides(settings)).opensm_options(), nl=False)


def _refuse_own_files(topology: Path, out: Path, network: Path | None) -> None:
    """Say so where what is to be written would take the place of what is read, or of one another."""
    read_and_written = {"TOPO": topology, "--out": out} | ({"--network": network} if network else {})
    seen: dict[str, str] = {}
    for name, path in read_and_written.items():
        other = seen.setdefault(os.path.realpath(path), name)
        if other != name:
            raise typer.BadParameter(f"{path} is also the file of {other}; choose another", param_hint=name)


@papers.command("list")
def papers_list(as_json: AsJson = False) -> None:
    """List the published experiments."""
    from silvan.papers import list_experiments

    found = list_experiments()
    if as_json:
        _print_json([{"id": e.id, "title": e.title, "source": e.source, "rows": len(e.rows)} for e in found])
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
    _out().print(table)


@papers.command("run")
def papers_run(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Experiments, as listed.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Shorter runs, within the same laws.")] = False,
    as_json: AsJson = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for runs and figures; what it has is kept."),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", metavar="N", min=1, help="Processes.")] = os.cpu_count() or 1,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", metavar="N", min=1, help="Seeds: 5, or 1 with --quick, if not given."),
    ] = None,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="FILE", help="Put the numbers into this record.")
    ] = None,
    progress: ShowProgress = None,
) -> None:
    """Run published experiments and set the numbers beside the published ones."""
    from silvan.papers import run_experiments

    if bool(ids) == everything:
        raise typer.BadParameter(
            "name experiments (silvan papers list shows them) or give --all", param_hint="ID"
        )
    shown = _err().is_terminal if progress is None else progress
    rows = run_experiments(
        ids or ["all"], quick=quick, jobs=jobs, out=out, progress=shown, seeds=seeds, record=record
    )
    if as_json:
        _print_json(rows)
    else:
        _show.papers(_out(), rows)


@papers.command("record")
def papers_record(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Experiments; all if none is given.")
    ] = None,
    as_json: AsJson = False,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="A record other than the one of papers/.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--page", metavar="FILE", help="Write all of it into this Markdown page.")
    ] = None,
) -> None:
    """Show the numbers on record, with today's verdicts, without running anything."""
    from silvan.papers import record
    from silvan.papers.catalogue import choose

    path = file or record.find_record()
    if page is not None:
        record.write_page(page, path)
        return
    found = record.rows_by_experiment(path, choose(ids or ["all"]))
    rows = [row for _, _, own in found.values() for row in own]
    if as_json:
        _print_json(rows)
    else:
        _show.papers(_out(), rows)


def main() -> None:
    """Entry point: errors become one message and an exit status, never a traceback."""
    from silvan.papers import PapersError

    try:
        app()
    except BrokenPipeError:
        # Whoever reads us has gone; Python must not complain about it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (silvan.SilvanError, PapersError) as error:
        _complain(str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _complain(where + (error.strerror or str(error)))


def _complain(message: str) -> NoReturn:
    _err().print(f"[bold red]Error:[/] {escape(message)}")
    sys.exit(1)


if __name__ == "__main__":
    main()
