"""The command `silvan check`."""

from __future__ import annotations

from typing import Annotated

import typer

from silvan import _calibrated, _notes, _presets
from silvan.commands import _show, common


def register(app: typer.Typer) -> None:
    """Add `silvan check`."""
    app.command()(check)


def check(
    scenario: common.ScenarioFile,
    settings: common.Settings = None,
    seed: common.Seed = None,
    fluid: Annotated[
        bool,
        typer.Option("--fluid", help="Also compute fluid rates of the flows: uncontrolled, max-min, SAA."),
    ] = False,
    as_json: common.AsJson = False,
) -> None:
    """Check a scenario without running it: keys and values, routes, deadlock, cost.

    Exit status: 0 success, 3 a run is refused because its routes can deadlock, 1 or 2 an error.
    """
    loaded = common.load_scenario(scenario, common.overrides(settings, seed))
    report = loaded.check()
    rates = None
    if fluid:
        import silvan

        rates = silvan.fluid(loaded)
    if as_json:
        common.print_json(report if rates is None else {**report, "fluid": rates})
    else:
        _show.check(common.out_console(), loaded.name, report)
        if note := _presets.note(loaded):
            common.out_console().print(note, markup=False, soft_wrap=True)
        for line in _calibrated.notes([loaded]):
            common.out_console().print(line, markup=False, soft_wrap=True)
        for line in _notes.of_scenario(loaded):
            common.out_console().print(f"note: {line}", markup=False, soft_wrap=True)
        if rates is not None:
            from silvan.commands import _show_fluid

            _show_fluid.rates(common.out_console(), rates)
    if report["refusal"] is not None:
        common.err_console().print(f"Error: {report['refusal']}", markup=False, soft_wrap=True)
        raise typer.Exit(common.EXIT_CAN_DEADLOCK)
