"""The commands `silvan fabric`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from silvan import _files
from silvan.commands import _show, common, fabric_collide, fabric_infer, fabric_study

app = typer.Typer(
    help="Real fabrics: check, route and study the output of ibnetdiscover and OpenSM.", no_args_is_help=True
)


def register(parent: typer.Typer) -> None:
    """Add `silvan fabric` with its commands."""
    parent.add_typer(app, name="fabric")


def check(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help="Files and folders of the fabric, recognized by their contents; may be .gz.",
        ),
    ],
    lft: common.Tables = None,
    default_rate: common.DefaultRate = None,
    as_json: common.AsJson = False,
    ibdmchk: Annotated[
        Path | None,
        typer.Option("--ibdmchk", metavar="DIR", help="Folder for the same fabric in ibdmchk's formats."),
    ] = None,
) -> None:
    """Check a fabric: routes of all pairs of hosts, load of the links, possible deadlocks.

    Exit status: 0 success, 3 usable but can deadlock (the cycle is printed), 1 unusable.
    """
    from silvan import fabric

    report = fabric.check(paths, lft, default_rate)
    if as_json:
        common.print_json(report)
    else:
        _show.fabric(common.out_console(), report)
    if ibdmchk is not None:
        _write_for_ibdmchk(ibdmchk, fabric.ibdmchk(paths, lft, default_rate))
    if report["pairs_unroutable"]:
        common.fail(f"{lft or paths[0]}: {report['pairs_unroutable']:,} pairs of hosts have no route")
    if report["deadlock"] is not None:
        raise typer.Exit(common.EXIT_CAN_DEADLOCK)


def _write_for_ibdmchk(folder: Path, files: dict[str, str]) -> None:
    """Write the files to a new or empty folder, and print the command that reads them."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise typer.BadParameter(f"{folder} already exists; name a new folder", param_hint="--ibdmchk")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        _files.write_text(folder / name, text)
    flags = {"opensm-subnet.lst": "-s", "opensm.fdbs": "-f", "opensm.mcfdbs": "-m"}
    flags |= {"path-sl.txt": "-c", "sl2vl.txt": "-d"}
    options = " ".join(f"{flags[name]} {folder / name}" for name in files)
    common.err_console().print(f"ibdmchk {options}", markup=False)


def route(
    topology: Annotated[
        Path,
        typer.Argument(
            metavar="TOPO",
            help="Wiring (output of ibnetdiscover, a list of links, ...; may be .gz) or a scenario.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DUMP", help="File for the tables.")],
    routing: Annotated[
        str | None,
        typer.Option(
            "--routing",
            metavar="KIND",
            help="d-mod-k, up-down or shortest-path.",
            show_default="that of the scenario, or one that suits the fabric",
        ),
    ] = None,
    root: Annotated[
        list[str] | None,
        typer.Option(
            "--root",
            metavar="SWITCH",
            help="Switch at the top of up-down routing; may be repeated.",
            show_default="selected by the layers and distances of the network",
        ),
    ] = None,
    network: Annotated[
        Path | None,
        typer.Option(
            "--network", metavar="FILE", help="Also write the network, in the format of ibnetdiscover."
        ),
    ] = None,
    default_rate: common.DefaultRate = None,
) -> None:
    """Route a fabric, or the network of a scenario, and write tables that OpenSM reads."""
    from silvan import fabric

    _refuse_own_files(topology, out, network)
    routes = fabric.route(topology, routing, default_rate, root)
    _files.write_text(out, routes.tables)
    typer.echo(f"Forwarding tables written to {out}")
    if network is not None:
        _files.write_text(network, routes.network)
        typer.echo(f"Network written to {network}")
    for note in routes.notes:
        common.err_console().print(f"[yellow]Note:[/] {escape(note)}")
    for finding in routes.findings:
        common.err_console().print(f"[yellow]Warning:[/] {escape(finding)}")


def options(scenario: common.ScenarioFile, settings: common.Settings = None) -> None:
    """Print a scenario's congestion control as options of OpenSM's configuration file."""
    loaded = common.load_scenario(scenario, common.overrides(settings))
    typer.echo(loaded.opensm_options(), nl=False)


def examples(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Folder for the copies.")] = Path("fabrics"),
) -> None:
    """Copy the fabrics that come with Silvan: ibnetdiscover output and OpenSM tables, to try the commands."""
    from silvan import fabric

    for path in fabric.examples(folder):
        typer.echo(str(path))


def _refuse_own_files(topology: Path, out: Path, network: Path | None) -> None:
    """Refuse an output file that is also the input, or another output."""
    read_and_written = {"TOPO": topology, "--out": out} | ({"--network": network} if network else {})
    seen: dict[str, str] = {}
    for name, path in read_and_written.items():
        other = seen.setdefault(os.path.realpath(path), name)
        if other != name:
            raise typer.BadParameter(f"{path} is also the file of {other}; choose another", param_hint=name)


app.command()(check)
app.command()(route)
app.command()(options)
app.command()(examples)
fabric_collide.register(app)
fabric_infer.register(app)
fabric_study.register(app)
