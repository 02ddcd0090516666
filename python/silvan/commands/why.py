"""The command `silvan why`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from silvan._progress import RunProgress
from silvan.commands import common

if TYPE_CHECKING:
    from silvan.results import Result


def register(app: typer.Typer) -> None:
    """Add `silvan why`."""
    app.command()(why)


def why(  # noqa: PLR0913, PLR0917 - one argument per option
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Folder of a run (silvan run --out), or a scenario.")
    ],
    settings: common.Settings = None,
    seed: common.Seed = None,
    flow: Annotated[
        str | None,
        typer.Option(
            "--flow",
            metavar="FLOW",
            help="Explain messages of this flow, pattern or job by its name, or between two hosts (H1->H2).",
        ),
    ] = None,
    slowest: Annotated[
        int,
        typer.Option(
            "--slowest", metavar="K", min=1, max=1000, help="Explain the K messages with the longest delays."
        ),
    ] = 1,
    message: Annotated[
        int | None,
        typer.Option(
            "--message",
            metavar="N",
            min=1,
            help="Explain the N-th message in order of generation; with --flow, of the flow.",
        ),
    ] = None,
    job: Annotated[
        str | None,
        typer.Option("--job", metavar="JOB", help="Explain how long this job took, not single messages."),
    ] = None,
    step: Annotated[
        int | None,
        typer.Option("--step", metavar="N", min=1, help="Explain the N-th collective operation of --job."),
    ] = None,
    prove: Annotated[
        bool, typer.Option("--prove", help="Run again without the first cause, and compare the durations.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of sentences.")] = False,
    progress: common.ShowProgress = None,
) -> None:
    """Explain why messages were slow: the causes of their delay, which add up exactly."""
    import silvan

    if step is not None and job is None:
        raise typer.BadParameter("needs a job: --job NAME", param_hint="--step")
    if message is not None and slowest != 1:
        raise typer.BadParameter("has no effect with --message", param_hint="--slowest")
    of_messages = {"--flow": flow is not None, "--slowest": slowest != 1, "--message": message is not None}
    for hint, is_given in of_messages.items():
        if job is not None and is_given:
            raise typer.BadParameter("has no effect with --job", param_hint=hint)
    result = _result(run, common.overrides(settings, seed), progress)
    console, shown = common.progress_console(progress)
    with RunProgress(console, f"{result.name}, recorded", show=shown) as bar:
        found = silvan.why(
            result,
            flow=flow,
            slowest=slowest,
            message=message,
            job=job,
            step=step,
            prove=prove,
            progress=bar,
        )
    if as_json:
        typer.echo(json.dumps([one.to_dict() for one in found], indent=1))
        return
    typer.echo("\n\n".join(str(one) for one in found))


def _result(run: str, overrides: dict[str, str], progress: bool | None) -> Result:
    import silvan

    if not Path(run).is_dir():
        scenario = common.load_scenario(run, overrides)
        if "measure.transfers" not in overrides:
            # Otherwise, the whole run is recorded to find the slowest messages.
            scenario = scenario.with_overrides({"measure.transfers": True})
        return common.simulate(scenario, title=scenario.name, progress=progress)
    if overrides:
        raise typer.BadParameter("a finished run cannot be changed; give its scenario", param_hint="--set")
    return silvan.load(run)
