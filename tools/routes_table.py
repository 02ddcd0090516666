#!/usr/bin/env python3
"""Compares Silvan's default routes for the fabrics of the test data with the tables of OpenSM.

    .venv/bin/python tools/routes_table.py

One or several routing engines of OpenSM have computed tables for each fabric. Silvan routes the wiring again
with the default routing of `silvan fabric route`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from silvan import fabric
from silvan.types import FabricCheck

ROOT = Path(__file__).resolve().parent.parent
HEAD = "| fabric | routes | all-to-all flows per link between switches | mean | unused links | deadlock |\n"


def folders() -> list[Path]:
    """Return the folders with the tables of one engine each, in the order of the rows."""
    dumps = sorted((ROOT / "tests" / "data").glob("*/*/*/opensm-lfts.dump*"))
    return [dump.parent for dump in dumps]


def wiring(folder: Path) -> Path:
    """Return the file with the wiring of a fabric."""
    return next(folder.glob("ibnetdiscover.topo*"))


def routed(folder: Path) -> FabricCheck:
    """Return the check of a fabric with Silvan's routes."""
    with tempfile.TemporaryDirectory(prefix="silvan-") as own:
        tables = Path(own) / "opensm-lfts.dump"
        tables.write_text(fabric.route(wiring(folder)).tables, encoding="utf-8")
        return fabric.check(wiring(folder), tables)


def row(name: str, routes: str, report: FabricCheck) -> str:
    """Return a row of the table."""
    load = report["all_to_all"]
    unused = load["histogram"].get("0", 0)
    lanes = report["lanes"] is not None and len(report["lanes"]["lanes"]) > 1
    deadlock = "possible" if report["deadlock"] else "impossible on its lanes" if lanes else "impossible"
    flows = f"{load['min']:,} to {load['max']:,} | {load['mean']:.1f}"
    return f"| {name} | {routes} | {flows} | {unused:,} | {deadlock} |\n"


def table() -> str:
    """Return the table of all fabrics."""
    lines = [HEAD, "| --- | --- | --- | --- | --- | --- |\n"]
    done: set[str] = set()
    for folder in folders():
        name = folder.parent.name
        if name not in done:
            done.add(name)
            lines.append(row(f"`{name}`", "Silvan", routed(folder)))
        lines.append(row("", f"OpenSM, {folder.name}", fabric.check(folder)))
    return "".join(lines)


if __name__ == "__main__":
    print(table(), end="")
