"""Prints published experiments and the score on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from silvan.commands._show import VERDICT_COLOURS

if TYPE_CHECKING:
    from silvan.papers import Experiment
    from silvan.papers.causes import Cause


def experiment(
    console: Console, shown: Experiment, rows: Sequence[Mapping[str, Any]], tested: Sequence[Cause]
) -> None:
    """Print an experiment: rows with verdicts and causes, reasons, and the causes that were tested."""
    from silvan.papers.catalogue import CAUSES, UNMET
    from silvan.papers.rows import counts, expected_text, marks, simulated_text

    console.print(f"[bold]{shown.id}: {escape(shown.title)}[/] ({escape(shown.source)})")
    console.print(escape(shown.about))
    table = Table(box=None, header_style="bold")
    table.add_column("quantity", overflow="fold")
    for name in ("expected", "simulated"):
        table.add_column(name, justify="right")
    for name in ("verdict", "cause"):
        table.add_column(name)
    for row in rows:
        unit = f" {row['unit']}" if row["unit"] else ""
        table.add_row(
            escape(row["quantity"]),
            escape(expected_text(row) + unit),
            simulated_text(row),
            f"[{VERDICT_COLOURS[row['verdict']]}]{', '.join((row['verdict'], *marks(row)))}[/]",
            row.get("cause", ""),
        )
    console.print(table)
    found = counts(rows)
    console.print(", ".join(f"{number} {verdict}" for verdict, number in found.items() if number))
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row["verdict"] in UNMET and row.get("reason"):
            cause = CAUSES.get(row.get("cause", ""), "")
            text = f"{cause[:1].upper()}{cause[1:]}. {row['reason']}" if cause else row["reason"]
            reasons.setdefault(text, []).append(row["quantity"])
    for text, quantities in reasons.items():
        console.print(f"[bold]{escape('; '.join(quantities))}[/]: {escape(text)}")
    if tested:
        console.print("\n[bold]Causes that were tested[/]")
    for one in tested:
        console.print(
            escape(
                f"{one.decision}: {one.cause} {one.quantity}: published {one.published}, "
                f"before {one.before}, after {one.after}. {one.why}"
            )
        )


def score(console: Console, rows: Mapping[str, Mapping[str, Mapping[str, Sequence[str]]]]) -> None:
    """Print how many rows have each verdict, by line of the score and category."""
    from silvan.papers.catalogue import VERDICTS
    from silvan.papers.score import CATEGORIES

    for line, categories in rows.items():
        shown = [one for one in VERDICTS if any(one in own for own in categories.values())]
        table = Table(title=line, title_justify="left", box=None, header_style="bold")
        table.add_column("category")
        for name in ("rows", *shown):
            table.add_column(name, justify="right")
        for category in CATEGORIES:
            own = categories.get(category)
            if own:
                numbers = [len(own.get(one, ())) for one in shown]
                table.add_row(category, str(sum(numbers)), *map(str, numbers))
        console.print(table)


def statements(console: Console, hold: int, number: int) -> None:
    """Print how many of the statements that the orderings of the eight papers test hold."""
    console.print(
        f"The orderings of the eight papers test {number} statements; {hold} hold in all their orderings."
    )


def over_time(console: Console, points: Mapping[str, Mapping[str, str]]) -> None:
    """Print how many rows of a fixed set have each verdict at each point, and what changed."""
    from silvan.papers.catalogue import VERDICTS

    shown = [one for one in VERDICTS if any(one in own.values() for own in points.values())]
    table = Table(box=None, header_style="bold")
    table.add_column("date and commit")
    for name in ("rows", *shown, "changed"):
        table.add_column(name, justify="right")
    before: Mapping[str, str] = {}
    for label, own in points.items():
        verdicts = list(own.values())
        changed = sum(before.get(name, one) != one for name, one in own.items())
        numbers = [len(verdicts), *map(verdicts.count, shown), changed]
        table.add_row(escape(label), *map(str, numbers))
        before = own
    console.print(table)
