"""The command `silvan fabric infer`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from silvan.commands import common
from silvan.commands.fabric_collide import hosts_option

if TYPE_CHECKING:
    from silvan.types import CountedPair, CountedRoot, Inference, PortShare

#: Waiting ports of a root that are named; `--json` has all of them.
PORTS_AT_MOST = 5


def register(app: typer.Typer) -> None:
    """Add `silvan fabric infer`."""
    app.command()(infer)


def infer(  # noqa: PLR0913, PLR0917 - one argument per option
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Files and folders of the fabric, or a scenario; may be .gz."),
    ],
    after: Annotated[
        Path,
        typer.Option("--after", metavar="DUMP", help="Second dump: output of perfquery, Prometheus, or CSV."),
    ],
    before: Annotated[
        Path | None,
        typer.Option("--before", metavar="DUMP", help="First dump.", show_default="all counters were 0"),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds", metavar="S", help="Time between the dumps.", show_default="as in the dumps"
        ),
    ] = None,
    lft: common.Tables = None,
    default_rate: common.DefaultRate = None,
    hosts: Annotated[
        str | None,
        typer.Option(
            "--hosts",
            metavar="NAMES",
            help="Hosts that exchange traffic: a,b,node-\\[00-17], or @FILE.",
            show_default="all",
        ),
    ] = None,
    tick_bytes: Annotated[
        int, typer.Option("--tick-bytes", metavar="N", min=1, help="Byte times of a tick of PortXmitWait.")
    ] = 8,
    line_rate: Annotated[
        bool, typer.Option("--line-rate", help="The traffic was a test at line rate: check the units.")
    ] = False,
    top: Annotated[
        int, typer.Option("--top", metavar="N", min=1, help="Number of pairs and of roots to list.")
    ] = 10,
    error: Annotated[
        float, typer.Option("--error", metavar="SHARE", help="Relative error of a counter.")
    ] = 0.001,
    tolerance: Annotated[
        float,
        typer.Option(
            "--tolerance", metavar="SHARE", help="Relative width of an interval that is determined."
        ),
    ] = 0.05,
    out: Annotated[
        Path | None, common.out_option("Folder for the scenario of the traffic.", "no scenario is written")
    ] = None,
    run: Annotated[
        bool, typer.Option("--run/--no-run", help="Run the traffic, and compare its counters with the dumps.")
    ] = True,
    as_json: common.AsJson = False,
) -> None:
    """Find the traffic behind the counters of ports, and the outputs for which ports wait."""
    from silvan import fabric

    found = fabric.infer(
        paths,
        before=before,
        after=after,
        seconds=seconds,
        tables=lft,
        default_rate=default_rate,
        hosts=hosts_option(hosts),
        tick_bytes=tick_bytes,
        is_line_rate=line_rate,
        top=top,
        error=error,
        tolerance=tolerance,
        out=out,
        run=run,
    )
    if as_json:
        common.print_json(found)
        return
    _print(common.out_console(), found)


def _print(console: Console, found: Inference) -> None:
    # Doubts about units come first, because nothing else holds if they are wrong.
    for note in sorted(found["notes"], key=lambda note: not note.startswith("units?")):
        common.err_console().print(f"[yellow]Note:[/] {escape(note)}")
    console.print(_verdict(found), markup=False, soft_wrap=True)
    console.print(_pairs(found["pairs"]))
    if found["seconds"] is not None:
        _roots(console, found)
    forward = found["forward"]
    if forward is not None:
        worst = ""
        if forward["worst_link"] is not None and forward["worst_deviation"] is not None:
            worst = (
                f"; the largest difference is {forward['worst_deviation']:+.1%}, of {forward['worst_link']}"
            )
        console.print(
            f"\nRun with {forward['flows']:,} flows, which have {forward['sent_share']:.1%} of the "
            f"bytes: the rates of {forward['links_close']:,} of {forward['links_compared']:,} links are "
            f"within 5 % of the measured ones{worst}.",
            markup=False,
            soft_wrap=True,
        )
    if found["scenario"] is not None:
        console.print(f"Scenario written to {found['scenario']}", markup=False, soft_wrap=True)


def _verdict(found: Inference) -> str:
    pairs, free = found["pairs_possible"], found["free_parameters"]
    unknown = sum(pair["bytes"] is None for pair in found["pairs"])
    counted = f"{pairs:,} pairs of hosts may explain {found['links_measured']:,} links with traffic"
    fits = f"they explain the bytes of each link within {found['mismatch']:.2%} of the busiest link"
    if not unknown:
        return f"Determined: {counted}; {fits}."
    of = "1 number" if free == 1 else f"{free:,} numbers"
    return (
        f"Undetermined: {counted}, but leave {of} free; {fits}. The counters do not determine "
        f"{unknown:,} of the {len(found['pairs']):,} pairs below."
    )


def _pairs(pairs: Sequence[CountedPair]) -> Table:
    table = Table(box=None, header_style="bold", title="Pairs", title_justify="left")
    for name in ("from", "to"):
        table.add_column(name, overflow="fold")
    for name in ("MB", "at least", "at most"):
        table.add_column(name, justify="right")
    for row in pairs:
        octets = row["bytes"]
        cells = "undetermined" if octets is None else f"{octets / 1e6:,.3f}"
        ends = (escape(row["from"]), escape(row["to"]))
        table.add_row(*ends, cells, f"{row['low_bytes'] / 1e6:,.3f}", f"{row['high_bytes'] / 1e6:,.3f}")
    return table


def _roots(console: Console, found: Inference) -> None:
    if not found["roots"]:
        what = "port waited" if found["waiting_known"] else "output was busy all the time"
        console.print(f"\nNo root: no {what}.", markup=False)
    for root in found["roots"]:
        _root(console, root)
    if not found["waiting_known"]:
        console.print(
            "The dumps do not state for how long ports waited (PortXmitWait), so roots are busy outputs.",
            markup=False,
            soft_wrap=True,
        )


def _root(console: Console, root: CountedRoot) -> None:
    console.print(
        f"\nRoot: {root['link']} ({root['kind']}), {root['utilization']:.0%} of its rate",
        markup=False,
        soft_wrap=True,
    )
    if root["waiting"]:
        shown = [f"{one['link']} {one['share']:.0%}" for one in root["waiting"][:PORTS_AT_MOST]]
        _line(console, "ports that wait for it", shown, len(root["waiting"]))
    shares = [f"{one['host']} {_share(one)}" for one in root["contributors"]]
    _line(console, "contributors", shares, len(shares))
    victims = [f"{one['from']} -> {one['to']}" for one in root["victims"]]
    _line(console, "victims", victims, len(victims))


def _share(one: PortShare) -> str:
    if one["share"] is None:
        return f"{one['low_share']:.0%} to {one['high_share']:.0%}"
    return f"{one['share']:.0%}"


def _line(console: Console, title: str, shown: Sequence[str], count: int) -> None:
    if shown:
        rest = f", and {count - len(shown):,} more (--json)" if count > len(shown) else ""
        console.print(f"  {title}: {', '.join(shown)}{rest}", markup=False, soft_wrap=True)
