"""The command `silvan fabric collide`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from silvan import _files
from silvan.commands import common

if TYPE_CHECKING:
    from silvan.fabric import Collisions, LinkDemand, PairDemand, Placement, RailDemand

#: Maximum number of suggested hosts that are printed; `--json` prints all of them.
HOSTS_AT_MOST = 256


def hosts_option(text: str | None) -> list[str] | None:
    """Parse `--hosts`: names or ranges separated by commas, or @FILE with a name or range per line."""
    if text is None:
        return None
    if text.startswith("@"):
        lines = _files.read_text(Path(text[1:])).splitlines()
        return [name for line in lines if (name := line.split("#")[0].strip())]
    # Commas within brackets are part of a range and do not separate names.
    names, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            names.append(text[start:at].strip())
            start = at + 1
    return [name for name in (*names, text[start:].strip()) if name]


def register(app: typer.Typer) -> None:
    """Add `silvan fabric collide`."""
    app.command()(collide)


def collide(  # noqa: PLR0913, PLR0917 - one argument per option
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Files and folders of the fabric, or a scenario; may be .gz."),
    ],
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern",
            metavar="NAME",
            help="shift, ring, all-to-all, or a collective operation: all-reduce, or all-reduce=ring.",
        ),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", metavar="FILE", help="Trace to use instead of a pattern.")
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(
            "--hosts",
            metavar="NAMES",
            help="Hosts in the order of the ranks: a,b,node-\\[00-17], or @FILE.",
            show_default="all",
        ),
    ] = None,
    placement: Annotated[
        str, typer.Option("--placement", metavar="KIND", help="linear, or round-robin over leaf switches.")
    ] = "linear",
    ranks: Annotated[
        int | None,
        typer.Option("--ranks", metavar="N", help="Number of ranks.", show_default="as many as fit"),
    ] = None,
    ranks_per_host: Annotated[
        int, typer.Option("--ranks-per-host", metavar="N", help="Ranks that share a host.")
    ] = 1,
    distance: Annotated[
        int | None,
        typer.Option("--distance", metavar="N", help="Distance of a shift.", show_default="1"),
    ] = None,
    lft: common.Tables = None,
    default_rate: common.DefaultRate = None,
    top: Annotated[
        int, typer.Option("--top", metavar="N", help="Number of links and of pairs to list.")
    ] = 10,
    tries: Annotated[
        int,
        typer.Option(
            "--tries",
            metavar="N",
            help="Number of host exchanges to try for a better placement; 0 for no suggestion.",
        ),
    ] = 1000,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the random exchanges.")] = 1,
    as_json: common.AsJson = False,
) -> None:
    """List the links that a job's messages share, without a run, and suggest a better placement."""
    from silvan import fabric

    found = fabric.collide(
        paths,
        pattern=pattern,
        trace=trace,
        hosts=hosts_option(hosts),
        placement=placement,
        ranks=ranks,
        ranks_per_host=ranks_per_host,
        distance=distance,
        tables=lft,
        default_rate=default_rate,
        top=top,
        tries=tries,
        seed=seed,
    )
    if as_json:
        common.print_json(found)
        return
    _print(common.out_console(), found)


def _print(console: Console, found: Collisions) -> None:
    job, now = found["job"], found["now"]
    if found["deadlock"] is not None:
        console.print(
            f"[red]Deadlock:[/] these routes can deadlock: {escape(found['deadlock'])}", soft_wrap=True
        )
    console.print(
        f"{job['what']}: {job['ranks']} ranks on {job['hosts']} hosts ({job['placement']}), "
        f"{job['flows']:,} flows between {'ports' if now['rails'] else 'hosts'}",
        markup=False,
    )
    if job["routes"] != "forwarding tables":
        console.print(f"routes: {job['routes']}", markup=False)
    _verdict(console, now)
    if now["rails"]:
        console.print(_rails(now["rails"]))
    if now["links"]:
        console.print(_links(now["links"]))
        console.print(_pairs(now["pairs"]))
    better = found["suggestion"]
    if better is None:
        if now["worst_demand"] > 1:
            console.print("No placement was found that collides less.")
        return
    console.print(f"\nSuggested ({better['how']}):", markup=False)
    _verdict(console, better)
    shown = better["hosts"][:HOSTS_AT_MOST]
    rest = len(better["hosts"]) - len(shown)
    names = ", ".join(f'"{name}"' for name in shown) + (f", and {rest} more (--json)" if rest else "")
    console.print(f"hosts = [{names}]", markup=False, soft_wrap=True)


def _verdict(console: Console, found: Placement) -> None:
    counts = ", ".join(f"{links:,} with {flows}" for flows, links in found["flows_per_link"].items())
    console.print(f"links between switches by flows: {counts or 'none'}", markup=False, soft_wrap=True)
    worst = found["worst_demand"]
    if worst <= 1:
        console.print(f"No collision: the largest demand on a link is {worst:.2f} of its capacity.")
        return
    links = found["links_above_one"]
    asked = (
        "The demand on 1 link exceeds its capacity"
        if links == 1
        else f"The demand on {links:,} links exceeds their capacity"
    )
    console.print(
        f"{asked}, by a factor of up to {worst:.2f}; this affects {found['flows_above_one']:,} flows."
    )


def _rails(rows: Sequence[RailDemand]) -> Table:
    table = Table(box=None, header_style="bold", title="By port of the sender", title_justify="left")
    for name in ("port", "flows", "demand"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(str(row["port"]), f"{row['flows']:,}", f"{row['worst_demand']:.2f}")
    return table


def _links(rows: Sequence[LinkDemand]) -> Table:
    table = Table(box=None, header_style="bold", title="Worst links", title_justify="left")
    table.add_column("link", overflow="fold")
    for name in ("flows", "demand"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(escape(row["link"]), f"{row['flows']:,}", f"{row['demand']:.2f}")
    return table


def _pairs(rows: Sequence[PairDemand]) -> Table:
    table = Table(box=None, header_style="bold", title="Worst pairs", title_justify="left")
    for name in ("from", "to", "at"):
        table.add_column(name, overflow="fold")
    table.add_column("times as long", justify="right")
    for row in rows:
        ends = (escape(row["from"]), escape(row["to"]), escape(row["link"]))
        table.add_row(*ends, f"{max(1.0, row['demand']):.2f}")
    return table
