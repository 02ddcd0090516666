"""The command `silvan compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from silvan._comparison_text import change_cell, letter, losses, mean_cell, rows_that_differ, setting_cell
from silvan.commands import common

if TYPE_CHECKING:
    from silvan.comparison import Comparison, Group


def register(app: typer.Typer) -> None:
    """Add `silvan compare`."""
    app.command()(compare)


def compare(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of two or more runs (silvan run --out).")
    ],
    everything: Annotated[
        bool,
        typer.Option("--all", help="Also list parameters that only one mechanism has, and equal results."),
    ] = False,
    as_json: common.AsJson = False,
) -> None:
    """Compare runs: proven losses, the settings that differ, then the results.

    Runs that differ only in their seed form a group; the results of a group are means with 95 % confidence
    intervals. Changes are relative to the first run or group. The 95th percentile of fewer than 20 values and
    the 99th of fewer than 100 are left out.
    """
    import silvan

    if len(folders) < 2:
        raise typer.BadParameter("give two or more runs", param_hint="RUN")
    found = silvan.compare(*(silvan.load(folder) for folder in folders))
    if as_json:
        common.print_json(numbers(found, folders))
        return
    show(common.out_console(), found, folders, everything=everything)


def show(console: Console, found: Comparison, folders: list[Path], *, everything: bool) -> None:
    """Print a comparison."""
    letters = [letter(number) for number in range(len(found.groups))]
    for name, group in zip(letters, found.groups, strict=True):
        console.print(f"[bold]{name}[/]  {escape(_members(group, folders))}", soft_wrap=True)
    console.print()
    for groups, lost in losses(found, letters):
        console.print(f"Proven losses of {groups}:", style="bold red")
        for line in lost:
            console.print(f" {line}", markup=False, soft_wrap=True)
        console.print()
    _show_settings(console, found, letters, everything=everything)
    console.print()
    heads = [part for name in letters[1:] for part in (name, "change")]
    table = _table("Results", ["", "unit"], [letters[0], *heads])
    for row in found.rows if everything else rows_that_differ(found):
        cells = [mean_cell(row.means[0])]
        for mean, change in zip(row.means[1:], row.changes, strict=True):
            cells += [mean_cell(mean), change_cell(change, row.means[0])]
        table.add_row(escape(row.measure), row.unit, *cells)
    if table.row_count:
        console.print(table)
    else:
        console.print("The results do not differ.")
    if any(len(group.runs) == 1 for group in found.groups) and table.row_count:
        console.print()
        console.print(
            "Runs with one seed have no intervals, so a small change may be due to chance. Repeat each with "
            "--seed 2, --seed 3 and so on, and give all folders.",
            style="dim",
        )


def _show_settings(console: Console, found: Comparison, letters: list[str], *, everything: bool) -> None:
    """Print the settings that differ."""
    if found.settings:
        table = _table("Settings that differ", ["key"], letters)
        hidden = set() if everything else _of_one_kind(found.settings)
        for key, values in found.settings.items():
            if key not in hidden:
                table.add_row(escape(key), *(escape(setting_cell(value)) for value in values))
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


def _table(title: str, left: list[str], right: list[str]) -> Table:
    table = Table(title=title, box=None, header_style="bold", title_style="bold", title_justify="left")
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", overflow="fold")
    return table


def _of_one_kind(settings: dict[str, tuple[Any, ...]]) -> set[str]:
    """Return the keys that some groups lack because the `kind` of an enclosing table differs."""
    differ = {key.removesuffix("kind") for key in settings if key.endswith(".kind")}
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
        "settings": {key: list(values) for key, values in found.settings.items()},
        "results": [
            {
                "measure": row.measure,
                "unit": row.unit,
                "means": [
                    None if one is None else {"mean": one.value, "half_width": one.half} for one in row.means
                ],
                "changes": [
                    None if one is None else {"difference": one.difference, "low": one.low, "high": one.high}
                    for one in row.changes
                ],
            }
            for row in found.rows
        ],
    }
