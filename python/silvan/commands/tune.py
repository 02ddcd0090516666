"""The command `silvan tune`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from silvan._executor import DEFAULT_EXECUTOR
from silvan.commands import common
from silvan.commands.sweep import (
    Address,
    Cluster,
    Cores,
    Executor,
    Minutes,
    Partition,
    PerTask,
    Runs,
    Settings,
)

if TYPE_CHECKING:
    from silvan.tuning.outcome import Tuned

Objectives = Annotated[
    list[str] | None,
    typer.Option(
        "--objective",
        metavar="NAME[=WEIGHT]",
        help="Replaces the file's objectives: victims, hotspots, latency or fairness; may be repeated.",
    ),
]


def _number(option: str, text: str, default: str) -> Any:
    """Return a numeric option, which overrides the value in the file."""
    return typer.Option(option, metavar="N", help=text, show_default=f"the file's, or {default}")


def register(app: typer.Typer) -> None:
    """Add `silvan tune`."""
    app.command()(tune)


def tune(  # noqa: PLR0913, PLR0917 - one argument per option
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file of silvan tune (docs/tune.md), or a scenario.")
    ],
    settings: Settings = None,
    runs: Annotated[int | None, _number("--runs", "Number of simulations of the search.", "64")] = None,
    seeds: Annotated[
        int | None, _number("--seeds", "Number of seeds per kind of traffic in the search.", "1")
    ] = None,
    confirm: Annotated[
        int | None, _number("--confirm", "Number of further seeds for the comparison.", "5")
    ] = None,
    batch: Annotated[int | None, _number("--batch", "Number of settings proposed at once.", "2")] = None,
    objective: Objectives = None,
    mix: Annotated[
        str | None,
        typer.Option(
            "--mix",
            metavar="KIND",
            help="How objectives are combined: weighted, worst or pareto.",
            show_default="the file's, or weighted",
        ),
    ] = None,
    unseen: Annotated[
        int | None,
        _number(
            "--unseen",
            "Number of simulations of the search for each unseen kind of traffic; 0 for none.",
            "--runs",
        ),
    ] = None,
    out: Annotated[
        Path | None, common.out_option("Folder for account and settings.", "out/tune-NAME")
    ] = None,
    store: Runs = None,
    executor: Executor = DEFAULT_EXECUTOR,
    jobs: common.Jobs = None,
    cluster: Cluster = "slurm",
    partition: Partition = None,
    minutes: Minutes = 60,
    cpus: Cores = 1,
    runs_per_task: PerTask = None,
    address: Address = None,
    width: common.Width = None,
    is_print: common.Print = False,
    as_json: common.AsJson = False,
    progress: common.ShowProgress = None,
) -> None:
    """Search for the best congestion control of a scenario, and write lines for opensm.conf.

    Exit status: 0 success, 1 error, 130 interrupted with Ctrl-C; repeat the command to continue.
    """
    from silvan import tuning as tunings
    from silvan.sweeps.executors import Options
    from silvan.tuning import report
    from silvan.tuning.problem import Tuning

    tuning = Tuning.load(file, common.overrides(settings))
    given = {
        "runs": runs,
        "seeds": seeds,
        "confirm": confirm,
        "mix": mix,
        "batch": batch,
        "unseen_runs": unseen,
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    tuning = replace(tuning, **changes)
    folder = out or Path("out") / f"tune-{tuning.name}"
    keep = store or folder / "runs"
    options = Options(jobs, address, cluster, partition, minutes, cpus, runs_per_task, folder / "slurm")
    errors, shown = common.progress_console(progress)
    look = common.look(width, is_print=is_print)
    try:
        with look, common.search_bar(errors, tuning.name, tuning.runs, show=shown) as notify:
            tuned = tunings.tune(
                tuning,
                objectives=_objectives(objective),
                executor=executor,
                options=options,
                store=keep,
                out=folder,
                notify=notify,
            )
    except KeyboardInterrupt:
        errors.print(f"stopped: finished runs are kept in {keep}; repeat the command to continue")
        raise typer.Exit(common.EXIT_STOPPED) from None
    if as_json:
        common.print_json(report.numbers(tuned))
    else:
        show(common.out_console(), tuned)
    errors.print(
        f"{tuned.simulated} runs simulated, {tuned.reused} found in {keep}; account in "
        f"{folder / report.ACCOUNT}, lines to paste in {folder / report.OPTIONS}",
        markup=False,
    )


def _objectives(given: list[str] | None) -> dict[str, float] | None:
    if not given:
        return None
    weights = {}
    for one in given:
        name, equals, weight = one.partition("=")
        try:
            weights[name] = float(weight) if equals else 1.0
        except ValueError:
            raise typer.BadParameter(f"`{one}` is not NAME=WEIGHT", param_hint="--objective") from None
    return weights


def _show_values(console: Console, tuned: Tuned) -> None:
    """Print the objectives with the best settings and with the known ones."""
    from silvan._comparison_text import in_words
    from silvan.tuning import report

    table = Table(title="Means over fresh seeds", box=None, header_style="bold")
    table.title_style, table.title_justify = "bold", "left"
    table.add_column("settings")
    for one in tuned.tuning.objectives:
        table.add_column(escape(f"{one.name} ({one.unit})" if one.unit else one.name), justify="right")
    for name, values in report.known_values(tuned).items():
        table.add_row(escape(name), *(in_words(value) for value in values.values()))
    console.print(table)


def show(console: Console, tuned: Tuned) -> None:
    """Print the best settings, their gain over the reference settings, and the account."""
    from silvan.tuning import report

    for line in report.harms(tuned):
        console.print(escape(line.replace("`", "")), style="bold red")
    console.print(escape(report.verdict(tuned).replace("`", "")), style="bold", soft_wrap=True)
    table = Table(title=escape(f"{tuned.tuning.name}: the best settings"), box=None, header_style="bold")
    table.title_style, table.title_justify = "bold", "left"
    table.add_column("key")
    table.add_column("value")
    for key, value in report.shown_settings(tuned).items():
        table.add_row(key, escape(value))
    console.print(table)
    console.print()
    against = Table(
        title="Times as good, with 95 % intervals over fresh seeds", box=None, header_style="bold"
    )
    against.title_style, against.title_justify = "bold", "left"
    against.add_column("compared with")
    for name in ("score", *(objective.name for objective in tuned.tuning.objectives)):
        against.add_column(escape(name), justify="right")
    for one in tuned.contrasts:
        cells = [one.in_words, *(str(interval) for interval in one.objectives.values())]
        against.add_row(escape(one.name), *cells)
    console.print(against)
    console.print()
    _show_values(console, tuned)
    console.print()
    for line in report.sentences(tuned):
        if not line.startswith("Compared with "):
            console.print(escape(line))
    if tuned.importance:
        shares = ", ".join(f"{name} {share:.2f}" for name, share in tuned.importance.items())
        console.print(f"Importance of the parameters: {escape(shares)}")
