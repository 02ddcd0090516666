"""The command `silvan compare`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from silvan._comparison_text import (
    calibrations,
    change_cell,
    footnotes,
    letter,
    losses,
    mean_cell,
    rows_that_differ,
    setting_cell,
)
from silvan.commands import common

if TYPE_CHECKING:
    from silvan.comparison import Change, Comparison, Group


def register(app: typer.Typer) -> None:
    """Add `silvan compare`."""
    app.command()(compare)


def compare(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of two or more runs (silvan run --out).")
    ],
    everything: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Also list parameters of congestion control that only one mechanism has, and equal results.",
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also compare runs of different networks or traffic.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="DIR",
            help="Also draw each result that differs, with intervals, to this folder.",
        ),
    ] = None,
    width: common.Width = None,
    is_print: common.Print = False,
    as_json: common.AsJson = False,
) -> None:
    """Compare runs: what is worse, the settings that differ, then the results.

    Runs that differ only in their seed form a group; the results of a group are means with 95 % confidence
    intervals. Changes are relative to the first run or group. A change is called better or worse if it
    is proven with three or more seeds per group, after a correction for the number of tested changes, if its
    measure is in steady state. Otherwise, no difference is shown. The 95th percentile of fewer than 20
    values and the 99th of fewer than 100 are left out.
    """
    import silvan

    if len(folders) < 2:
        raise typer.BadParameter("give two or more runs", param_hint="RUN")
    runs = [silvan.load(folder) for folder in folders]
    try:
        found = silvan.compare(*runs, force=force)
    except silvan.SilvanError as error:
        raise silvan.SilvanError(f"{error} with --force") from None
    with common.look(width, is_print=is_print, drawn=plot is not None, by="--plot"):
        if plot is not None:
            from silvan import comparison_figures

            comparison_figures.save_all(found, plot)
    if as_json:
        common.print_json(numbers(found, folders))
        return
    show(common.out_console(), found, folders, everything=everything)
    if plot is not None:
        typer.echo(f"Figures in {plot}")


def show(console: Console, found: Comparison, folders: list[Path], *, everything: bool) -> None:
    """Print a comparison."""
    letters = [letter(number) for number in range(len(found.groups))]
    for line in found.incomparable:
        console.print(f"[yellow]Warning:[/] {escape(line)}", soft_wrap=True)
    for name, group in zip(letters, found.groups, strict=True):
        console.print(f"[bold]{name}[/]  {escape(_members(group, folders))}", soft_wrap=True)
    for line in calibrations(found):
        console.print(line, markup=False, soft_wrap=True)
    console.print()
    for groups, lost in losses(found, letters):
        console.print(f"Worse in {groups}:", style="bold red")
        for line in lost:
            console.print(f" {line}", markup=False, soft_wrap=True)
        console.print()
    _show_settings(console, found, letters, everything=everything)
    console.print()
    heads = [part for name in letters[1:] for part in (name, "change")]
    table = _table(["", "unit"], [letters[0], *heads])
    for row in found.rows if everything else rows_that_differ(found):
        cells = [mean_cell(row.means[0])]
        for mean, change in zip(row.means[1:], row.changes, strict=True):
            cells += [mean_cell(mean), change_cell(change)]
        table.add_row(escape(row.measure), row.unit, *cells)
    if table.row_count:
        console.print("Results", style="bold")
        console.print(table)
    else:
        console.print("The results do not differ.")
        return
    console.print()
    for line in footnotes(found):
        console.print(line, style="dim", markup=False, soft_wrap=True)
    if any(len(group.runs) == 1 for group in found.groups):
        console.print(
            "Runs with one seed have no intervals, so a small change may be due to chance. Repeat each with "
            "--seed 2, --seed 3 and so on, and give all folders.",
            style="dim",
        )


def _show_settings(console: Console, found: Comparison, letters: list[str], *, everything: bool) -> None:
    """Print the settings that differ."""
    if found.settings:
        table = _table(["key"], letters)
        hidden = set() if everything else _of_one_kind(found.settings)
        for key, values in found.settings.items():
            if key not in hidden:
                table.add_row(escape(key), *(escape(setting_cell(value)) for value in values))
        # A title of a narrow table would be wrapped.
        console.print("Settings that differ", style="bold")
        console.print(table)
        if hidden:
            more = f"{len(hidden)} parameters that not all of these kinds have: --all lists them"
            console.print(f" and {more}", style="dim")
    else:
        console.print("The settings do not differ.")


def _members(group: Group, folders: list[Path]) -> str:
    runs = ", ".join(str(folders[number]) for number in group.given)
    seeds = ", ".join(map(str, group.seeds))
    return f"{runs} (seed{'s' if len(group.seeds) > 1 else ''} {seeds})"


def _table(left: list[str], right: list[str]) -> Table:
    table = Table(box=None, header_style="bold")
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", overflow="fold")
    return table


def _of_one_kind(settings: dict[str, tuple[Any, ...]]) -> set[str]:
    """Return the parameters of congestion control that some groups lack because a `kind` differs.

    Other differences are listed even if only one group has the table, such as events and loss recovery.
    """
    differ = {
        key.removesuffix("kind")
        for key in settings
        if key.startswith("congestion.") and key.endswith(".kind")
    }
    return {
        key
        for key, values in settings.items()
        if None in values
        and not key.endswith(".mechanism")
        and any(key.startswith(table) for table in differ)
    }


def numbers(found: Comparison, folders: list[Path]) -> dict[str, Any]:
    """Return a comparison as the value that `--json` prints."""
    return {
        "groups": [
            {"runs": [str(folders[number]) for number in group.given], "seeds": list(group.seeds)}
            for group in found.groups
        ],
        "incomparable": list(found.incomparable),
        "calibrations": calibrations(found),
        "settings": {key: list(values) for key, values in found.settings.items()},
        "results": [
            {
                "measure": row.measure,
                "unit": row.unit,
                "means": [
                    None if one is None else {"mean": one.value, "low": one.low, "high": one.high}
                    for one in row.means
                ],
                "missing": list(row.missing),
                "changes": [None if one is None else _change(one) for one in row.changes],
            }
            for row in found.rows
        ],
    }


def _change(change: Change) -> dict[str, Any]:
    relative = change.relative
    limits = (None, None) if relative is None else (relative.low, relative.high)
    low, high = (None if one is None or math.isinf(one) else one for one in limits)
    return {
        "difference": change.difference,
        "relative": None if relative is None else relative.value,
        "low": low,
        "high": high,
        "p": change.p,
        "verdict": change.verdict,
        "reason": change.reason,
    }
