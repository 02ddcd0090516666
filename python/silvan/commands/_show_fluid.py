"""Prints the tables of `silvan check --fluid`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from silvan._fluid import rules
from silvan._progress import simulated
from silvan.commands._show import LIST_AT_MOST, gbit
from silvan.types import Fluid, FluidFlow, FluidShare, FluidTotal


def rates(console: Console, report: Fluid) -> None:
    """Print the fluid rates of a scenario's flows."""
    flows = report["flows"]
    console.print()
    for rule, name, total in rules(report):
        # The heading is printed separately, because a table title would wrap at the width of the table.
        console.print(f"[bold]{name}: {gbit(total['gbit_s'])} Gbit/s in all{_until(total)}[/]")
        shares = [(flow, share) for flow in flows if (share := flow[rule]) is not None]
        console.print(_few(shares) if len(flows) <= LIST_AT_MOST else _many([share for _, share in shares]))
        console.print()
    if report["uncontrolled_missing"]:
        console.print(f"[yellow]Note:[/] {escape(report['uncontrolled_missing'])}")
    by_size = report["weights"] == "total"
    console.print(
        "Payload rates while all flows are active; SAA weighs flows "
        + ("by their totals." if by_size else "equally, as not all have a total.")
    )


def _until(total: FluidTotal) -> str:
    end = total["completed_ns"]
    return "" if end is None else f", the last total sent after {simulated(end)}"


def _table(left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(header_style="bold", box=None)
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right")
    return table


def _few(shares: Sequence[tuple[FluidFlow, FluidShare]]) -> Table:
    table = _table(("flow", "from", "to", "limited by"), ("Gbit/s", "total sent"))
    for flow, share in shares:
        end = share["completed_ns"]
        names = (escape(flow["flow"]), escape(flow["from"]), escape(flow["to"]), escape(share["bottleneck"]))
        table.add_row(*names, gbit(share["gbit_s"]), "-" if end is None else simulated(end))
    return table


def _many(shares: Sequence[FluidShare]) -> Table:
    """Return the number and the rates of flows, for the bottlenecks with the most flows and for all flows."""
    import numpy as np

    behind = Counter(share["bottleneck"] for share in shares)
    table = _table(("limited by",), ("flows", "min Gbit/s", "mean", "max"))

    def add(name: str, of: Sequence[float]) -> None:
        spread = (float(np.min(of)), float(np.mean(of)), float(np.max(of)))
        table.add_row(escape(name), f"{len(of):,}", *(gbit(value) for value in spread))

    for bottleneck, _ in behind.most_common(LIST_AT_MOST):
        add(bottleneck, [share["gbit_s"] for share in shares if share["bottleneck"] == bottleneck])
    add(f"all ({len(behind):,} bottlenecks)", [share["gbit_s"] for share in shares])
    return table
