"""The command `silvan run`."""

from __future__ import annotations

import contextlib
import errno
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from silvan import _folder, _notes, _opensm, checkpoints
from silvan._core import SilvanError
from silvan._terminal import clean
from silvan.commands import _show, common
from silvan.results import AUTOMATIC

if TYPE_CHECKING:
    from silvan._core import Scenario
    from silvan.live import Server
    from silvan.results import Result


def register(app: typer.Typer) -> None:
    """Add `silvan run`."""
    app.command()(run)


def run(  # noqa: PLR0913, PLR0917 - one argument per option
    scenario: common.OptionalScenarioFile = None,
    settings: common.Settings = None,
    seed: common.Seed = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Folder for the results.")
    ] = None,
    force: common.Force = False,
    as_json: common.AsJson = False,
    plot: Annotated[bool, typer.Option("--plot", help="Also draw figures, in the folder of --out.")] = False,
    threads: Annotated[
        str | None,
        typer.Option(
            "--threads",
            metavar="N",
            help="Number of threads, or `auto`; the results do not depend on it.",
            show_default="as in the scenario",
        ),
    ] = None,
    progress: common.ShowProgress = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing but warnings and errors.")
    ] = False,
    alone: Annotated[
        bool,
        typer.Option(
            "--alone", help="Also run each job alone on the network, and report what slows it down."
        ),
    ] = False,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Serve a page on this machine that shows the run while it progresses."),
    ] = False,
    watch_limit: Annotated[
        float,
        typer.Option(
            "--watch-limit",
            metavar="SECONDS",
            min=0,
            help="Longest time for which the page of --watch is served after the run.",
        ),
    ] = 600.0,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            metavar="EVERY",
            help='Save the run after each such simulated time, such as "10 ms", and at Ctrl-C and SIGTERM.',
        ),
    ] = None,
    checkpoint_file: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint-file",
            metavar="FILE",
            help="File for the last checkpoint. Only a checkpoint is replaced.",
            show_default="that of --resume, or NAME.checkpoint",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume", metavar="FILE", help="Continue the run of a checkpoint; SCENARIO is then optional."
        ),
    ] = None,
    resume_other_build: Annotated[
        bool,
        typer.Option(
            "--resume-other-build",
            help="Accept a checkpoint of another build of this version, whose results may differ.",
        ),
    ] = False,
    opensm_conf: Annotated[
        Path | None,
        typer.Option(
            "--opensm-conf",
            metavar="FILE",
            help="Take congestion control from OpenSM's configuration file; --set takes precedence.",
        ),
    ] = None,
) -> None:
    """Run a scenario and print its results."""
    if plot and out is None:
        raise typer.BadParameter("needs a folder for the figures: --out DIR", param_hint="--plot")
    given = common.overrides(settings, seed) | ({} if threads is None else {"threads": threads})
    if resume is None and resume_other_build:
        raise typer.BadParameter("needs a checkpoint: --resume FILE", param_hint="--resume-other-build")
    if resume is not None and threads is not None:
        raise typer.BadParameter("a resumed run has the threads of its checkpoint", param_hint="--threads")
    warmup = given.pop("warmup") if given.get("warmup") == AUTOMATIC else None
    loaded = _load(scenario, given, opensm_conf, (resume, resume_other_build))
    if out is not None:
        # Check the folder before the run, so that a long simulation is not wasted.
        _folder.refuse_foreign(out, scenario=loaded.name, force=force)
    # A scenario from elsewhere must not choose the folder, so only the last part of its name counts.
    file = checkpoint_file or resume or Path(f"{Path(loaded.name).name or 'scenario'}.checkpoint")
    for note in [] if quiet else _notes.of_scenario(loaded):
        common.err_console().print(f"note: {note}", markup=False)
    saving = common.Saving(file, checkpoint, resume, resume_other_build)
    with contextlib.ExitStack() as stack:
        server = _serve(stack, loaded.name) if watch else None
        viewer = server.recording if server else None
        shown = False if quiet and progress is None else progress
        result = common.simulate(
            loaded,
            title=loaded.name,
            progress=shown,
            alone=alone,
            viewer=viewer,
            saving=saving,
            warmup=warmup,
        )
        for note in [] if quiet else _notes.of_summary(result.summary):
            common.err_console().print(f"note: {note}", markup=False)
        try:
            written = _write(result, out, plot, force)
        except (OSError, SilvanError) as error:
            cause = error if isinstance(error, OSError) else error.__cause__
            if server is None or getattr(cause, "errno", None) not in (errno.EMFILE, errno.ENFILE):
                raise
            # Connections to the page may use all file descriptors. Close them, and write the results again.
            server.close()
            written = _write(result, out, plot, force)
        if quiet and not as_json:
            _show.warnings(common.err_console(), result)
        else:
            run = _run_of(out, scenario, settings, seed) if resume is None and opensm_conf is None else None
            _show_result(result, [*written, *_explanation(result, run)], out, as_json)
        if server:
            _linger(server, result, watch_limit)


def _load(
    scenario: str | None,
    given: dict[str, str],
    opensm_conf: Path | None,
    resumed: tuple[Path | None, bool],
) -> Scenario:
    """Load the scenario, or that of a checkpoint: its file, and whether another build may have written it."""
    resume, other_build = resumed
    if scenario is None:
        if resume is None:
            raise typer.BadParameter("a scenario is needed, unless --resume is given", param_hint="SCENARIO")
        if given or opensm_conf is not None:
            raise typer.BadParameter(
                "the scenario of a checkpoint cannot be changed; leave out --set, --seed and --opensm-conf",
                param_hint="--resume",
            )
        return checkpoints.scenario(resume, other_build=other_build)
    if opensm_conf is None:
        return common.load_scenario(scenario, given)
    try:
        loaded, notes = _opensm.load(common.source(scenario), opensm_conf, given)
    except _opensm.OtherOptionsError as error:
        raise typer.BadParameter(str(error), param_hint="--opensm-conf") from None
    for note in notes:
        common.err_console().print(f"note: {note}", markup=False)
    return loaded


def _run_of(
    out: Path | None, scenario: str | None, settings: list[str] | None, seed: int | None
) -> list[str] | None:
    """Return the words of a command line that name a run; None if no command can name it."""
    if out is not None:
        return [str(out)]
    if scenario in {None, common.STDIN}:
        return None
    assert scenario is not None
    # The end of the warm-up affects averages, but no message.
    kept = [setting for setting in settings or [] if setting != f"warmup={AUTOMATIC}"]
    words = [scenario, *(word for setting in kept for word in ("--set", setting))]
    return words if seed is None else [*words, "--seed", str(seed)]


def _explanation(result: Result, run: list[str] | None) -> list[str]:
    """Return the lines that name the command which explains the slowest job or transfer, if there is one."""
    if run is None:
        return []
    finished = [job for job in result.summary.get("jobs", []) if job["slowdown"] is not None]
    if finished:
        slowest = max(finished, key=lambda job: job["slowdown"] or 0)
        run = [*run, "--job", slowest["job"]]
        what = f"what job `{slowest['job']}` waited for"
    elif (known := result.summary.get("transfers")) and known["started"] > known["undelivered"]:
        what = "why the slowest transfer was slow"
    else:
        return []
    return ["", clean(f"Find out {what}: silvan why {shlex.join(run)}")]


def _serve(stack: contextlib.ExitStack, title: str) -> Server:
    from silvan.live import Server

    server = stack.enter_context(Server(title))
    common.err_console().print(f"Watch the run at {server.url}", markup=False)
    return server


def _linger(server: Server, result: Result, limit_s: float) -> None:
    server.recording.finish(result)
    if limit_s > 0:
        sys.stdout.flush()
        common.err_console().print("The page is served until it is closed (Ctrl-C ends it now).")
    # The run has finished, so Ctrl-C only ends the page.
    with contextlib.suppress(KeyboardInterrupt):
        server.linger(limit_s)


def _show_result(result: Result, written: list[str], out: Path | None, as_json: bool) -> None:
    if as_json:
        common.print_json(
            {
                "scenario": result.name,
                "summary": result.summary,
                "account": result.account,
                "warnings": result.warnings,
                "provenance": result.provenance,
                "out": str(out) if out else None,
            }
        )
        return
    console = common.out_console()
    _show.result(console, result)
    for line in written:
        console.print(line, markup=False)


def _write(result: Result, out: Path | None, plot: bool, force: bool) -> list[str]:
    """Write a run and its figures; return the lines to print about them."""
    if out is None:
        return []
    result.save(out, force=force)
    lines = ["", f"Written to {out}"]
    if plot:
        from silvan import plot as drawing

        lines.append(f"Figures in {drawing.save_all(result, out / 'figures')}")
    return lines
