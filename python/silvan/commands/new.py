"""The command `silvan new`."""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

from silvan import _files, templates
from silvan.commands import common

#: Default network, and default minimum number of hosts.
USUAL = {"network": "fat-tree", "hosts": "64"}


def register(app: typer.Typer) -> None:
    """Add `silvan new`."""
    app.command()(new)


def new(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="File for the scenario, such as mine.toml.")
    ] = None,
    fabric: Annotated[
        str | None,
        typer.Option(
            "--fabric",
            metavar="KIND",
            help=", ".join(templates.FABRICS) + "; if omitted, that of the mechanism.",
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate",
            metavar="RATE",
            help="Rate of links, such as 400G; if omitted, 16G on InfiniBand, 400G on Ethernet.",
        ),
    ] = None,
    network: Annotated[
        str | None, typer.Option("--network", metavar="KIND", help=", ".join(templates.NETWORKS) + ".")
    ] = None,
    hosts: Annotated[
        int | None, typer.Option("--hosts", metavar="N", help="Minimum number of hosts.")
    ] = None,
    traffic: Annotated[
        str | None, typer.Option("--traffic", metavar="KIND", help=", ".join(templates.TRAFFICS) + ".")
    ] = None,
    mechanism: Annotated[
        str | None,
        typer.Option("--mechanism", metavar="NAME", help=", ".join(templates.MECHANISMS) + "."),
    ] = None,
) -> None:
    """Write a commented scenario to start from; ask for missing options on a terminal."""
    from silvan._core import Scenario

    asks = sys.stdin.isatty()
    path = file or Path(_ask("File", "mine.toml", {}, asks))
    if path.suffix != ".toml":
        path = path.with_name(f"{path.name}.toml")
    if path.exists():
        common.fail(f"{path}: already exists; choose another name")
    fabric = fabric or templates.fabric_of(mechanism or "none")
    if fabric not in templates.FABRICS:
        common.fail(f"fabric `{fabric}` is not known; there are {', '.join(templates.FABRICS)}")
    of_fabric = templates.FABRICS[fabric]
    gbit_s = None if rate is None else templates.rate_gbit_s(rate)
    networks = {name: templates.NETWORKS[name].about for name in of_fabric.networks}
    kind = network or _ask("Network", USUAL["network"], networks, asks, templates.OTHER_NAMES)
    number = hosts if hosts is not None else _ask("Hosts, at least", USUAL["hosts"], {}, asks)
    sends = traffic or _ask("Traffic", of_fabric.traffic, templates.TRAFFICS, asks)
    control = mechanism or _ask("Congestion control", of_fabric.mechanisms[0], templates.MECHANISMS, asks)
    try:
        count = int(number)
    except ValueError:
        common.fail(f"hosts: `{number}` is not a whole number")
    text = templates.write(path.stem, kind, count, sends, control, fabric, gbit_s)
    # Load the new scenario, to ensure that it can be run.
    report = Scenario.from_toml(text, origin=path.name).check()
    _files.write_text(path, text)
    typer.echo(
        f"{path}: hosts: {report['hosts']}, switches: {report['switches']}; a run takes about "
        f"{report['estimate']['wall_s']:.2g} s"
    )
    typer.echo(f"Run it: silvan run {path} --out out/{path.stem}")


def _ask(question: str, usual: str, choices: dict[str, str], asks: bool, others: Collection[str] = ()) -> str:
    """Prompt for a value on the terminal until it is a choice or another name of one.

    Without a terminal, return the default.
    """
    if not asks:
        return usual
    for name, about in choices.items():
        typer.echo(f"  {name:10} {about}")
    while True:
        answer = str(typer.prompt(question, default=usual))
        if not choices or answer in choices or answer in others:
            return answer
        typer.echo(f"`{answer}` is not one of {', '.join(choices)}")
