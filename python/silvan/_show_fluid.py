"""What `silvan check --fluid` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from silvan._fluid import rules
from silvan._progress import simulated
from silvan._show import LIST_AT_MOST, gbit


def rates(console: Console, report: Mapping[str, Any]) -> None:
    """Print the fluid rates of a scenario's flows."""
    flows = report["flows"]
    console.print()
    for rule, name in rules(report):
        # Not as the table's title, which would be folded at the table's width.
        total = f"{gbit(report[rule]['gbit_s'])} Gbit/s in all{_until(report[rule])}"
        console.print(f"[bold]{name}: {total}[/]")
        console.print(_few(flows, rule) if len(flows) <= LIST_AT_MOST else _many(flows, rule))
        console.print()
    if report["uncontrolled_missing"]:
        console.print(f"[yellow]Note:[/] {escape(report['uncontrolled_missing'])}")
    by_size = report["weights"] == "total"
    console.print(
        "Payload rates while all flows are there; SAA weighs flows "
        + ("by their totals." if by_size else "alike, as not all have a total.")
    )


def _until(total: Mapping[str, Any]) -> str:
    end = total["completed_ns"]
    return "" if end is None else f", the last total sent after {simulated(end)}"


def _table(left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(header_style="bold", box=None)
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right")
    return table


def _few(flows: Sequence[Mapping[str, Any]], rule: str) -> Table:
    table = _table(("flow", "from", "to", "held back by"), ("Gbit/s", "total sent"))
    for flow in flows:
        share = flow[rule]
        end = share["completed_ns"]
        names = (escape(flow[key]) for key in ("flow", "from", "to"))
        cells = (gbit(share["gbit_s"]), "-" if end is None else simulated(end))
        table.add_row(*names, escape(share["bottleneck"]), *cells)
    return table


def _many(flows: Sequence[Mapping[str, Any]], rule: str) -> Table:
    """Return the bottlenecks that hold back most flows, and how the rates behind them spread."""
    behind = Counter(flow[rule]["bottleneck"] for flow in flows)
    table = _table(("held back by",), ("flows", "min Gbit/s", "mean", "max"))

    def add(name: str, of: Sequence[float]) -> None:
        spread = (float(np.min(of)), float(np.mean(of)), float(np.max(of)))
        table.add_row(escape(name), f"{len(of):,}", *(gbit(value) for value in spread))

    for bottleneck, _ in behind.most_common(LIST_AT_MOST):
        add(bottleneck, [f[rule]["gbit_s"] for f in flows if f[rule]["bottleneck"] == bottleneck])
    add(f"all ({len(behind):,} bottlenecks)", [f[rule]["gbit_s"] for f in flows])
    return table
