"""Code that the commands share: exit codes, consoles, options, values of `--set`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from silvan import _terminal, scenarios
from silvan._progress import RunProgress, simulated
from silvan._terminal import HIDDEN, PlainConsole
from silvan.commands import completion

if TYPE_CHECKING:
    import silvan
    from silvan.checkpoints import Checkpoints
    from silvan.results import Viewer

#: Exit codes. typer itself reports wrong usage (2).
EXIT_FAILED = 1
EXIT_CAN_DEADLOCK = 3
EXIT_STOPPED = _terminal.EXIT_STOPPED
#: Argument that stands for standard input or output instead of a file.
STDIN = "-"
#: Maximum number of characters of a scenario from standard input. A file may have the same number of bytes.
MAX_STDIN = 16 << 20

ScenarioFile = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO",
        help="Scenario file (TOML), the name of a scenario that comes with Silvan, or - for standard input.",
        autocompletion=completion.scenarios,
    ),
]
#: The argument of a command that can also take its scenario from another option.
OptionalScenarioFile = Annotated[
    str | None,
    typer.Argument(
        metavar="[SCENARIO]",
        help="Scenario file (TOML), the name of a scenario that comes with Silvan, or - for standard input.",
        autocompletion=completion.scenarios,
        show_default=False,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a dotted key of the scenario; may be repeated."),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", min=0, help="Set the seed of the scenario; short for --set seed=N."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Titles = Annotated[
    list[str] | None,
    typer.Option("--title", metavar="TEXT", help="Title of a run; give one for each run."),
]
ShowProgress = Annotated[
    bool | None,
    typer.Option("--progress/--no-progress", help="Show a progress bar.", show_default="on a terminal"),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", metavar="N", min=1, help="Number of concurrent runs.", show_default="cores"),
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace the run in --out even if it is a run of another scenario.")
]


Width = Annotated[
    str | None,
    typer.Option(
        "--width", metavar="WIDTH", help="Width of figures: ieee-column, ieee-page, slide, or inches."
    ),
]
Print = Annotated[
    bool,
    typer.Option("--print", help="Draw in black and white: shades of gray, dashes and a serif font."),
]


def look(
    width: str | None, *, is_print: bool, drawn: bool = True, by: str = ""
) -> AbstractContextManager[None]:
    """Return a context in which figures have a width and are for print, as the options say.

    `drawn` is whether there are figures; otherwise the options have no effect without the option `by`, which
    is an error.
    """
    if width is None and not is_print:
        return nullcontext()
    if not drawn:
        hint = "--print" if width is None else "--width"
        raise typer.BadParameter(f"has no effect without {by}", param_hint=hint)
    from silvan import plot

    try:
        return plot.formatted(None if width is None else plot.inches(width), is_print=is_print)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--width") from None


def out_option(text: str, default: str) -> Any:
    """Return the option `--out` for a folder; `text` is its help, and `default` its default in words."""
    return typer.Option("--out", "-o", metavar="DIR", help=text, show_default=default)


Tables = Annotated[
    Path | None,
    typer.Option(
        "--lft", metavar="DUMP", help="File with the forwarding tables, if there are several; may be .gz."
    ),
]
DefaultRate = Annotated[
    str | None,
    typer.Option(
        "--default-rate", metavar="RATE", help='Rate of links whose files state none, such as "16 Gbit/s".'
    ),
]


def out_console() -> Console:
    """Return a console that writes to standard output."""
    # Wrap piped output at 200 columns instead of 80, because other programs read it.
    return PlainConsole(width=None if sys.stdout.isatty() else 200)


def err_console(*, live: bool | None = None) -> Console:
    """Return a console that writes to standard error; `live` forces progress bars without a terminal."""
    return PlainConsole(stderr=True, soft_wrap=True, force_terminal=live or None)


def progress_console(progress: bool | None) -> tuple[Console, bool]:
    """Return the console for a progress bar, and whether to show the bar.

    If `progress` is None, the bar is shown on a terminal.
    """
    console = err_console(live=progress)
    return console, console.is_terminal if progress is None else progress


def complain(message: str) -> None:
    """Print an error message on standard error."""
    err_console().print(f"[bold red]Error:[/] {escape(message)}")


def fail(message: str) -> NoReturn:
    """Print an error message on standard error and exit with status 1."""
    complain(message)
    raise typer.Exit(EXIT_FAILED)


def print_json(value: object) -> None:
    """Print a value as JSON on standard output."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2)
    typer.echo(HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def pairs(settings: Sequence[str] | None, option: str, shape: str = "NAME=VALUE") -> dict[str, str]:
    """Parse the values of an option of the form NAME=VALUE; the last value of a name counts.

    Raises `typer.BadParameter` if a value has another form or is not UTF-8.
    """
    found: dict[str, str] = {}
    for setting in settings or ():
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"`{setting}` is not {shape}", param_hint=option)
        if not _is_utf8(setting):
            raise typer.BadParameter(f"{setting!r} is not text in UTF-8", param_hint=option)
        found[name.strip()] = value.strip()
    return found


def overrides(settings: Sequence[str] | None, seed: int | None = None) -> dict[str, str]:
    """Parse the options `--set` and `--seed`.

    Raises `typer.BadParameter` if a value of `--set` is malformed, or if both options set the seed.
    """
    found = pairs(settings, "--set", "KEY=VALUE, such as congestion.mechanism=ib-cc")
    if seed is not None:
        if "seed" in found:
            raise typer.BadParameter("--set seed is given too; give one of them", param_hint="--seed")
        found["seed"] = str(seed)
    return found


def _is_utf8(text: str) -> bool:
    # Python maps bytes of the command line that are not UTF-8 to lone surrogates.
    return not any("\ud800" <= character <= "\udfff" for character in text)


def load_scenario(scenario: str, given: dict[str, str]) -> silvan.Scenario:
    """Load a scenario from a file, from standard input, or by the name of one that comes with Silvan."""
    return source(scenario)(given)


def source(scenario: str) -> Callable[[dict[str, str]], silvan.Scenario]:
    """Return a function that loads the scenario with overrides.

    Standard input is read before this function returns. If it is too long or not UTF-8, the command exits
    with status 1.
    """
    if scenario != STDIN:
        return partial(scenarios.load, scenario)
    try:
        text = sys.stdin.read(MAX_STDIN + 1)
    except UnicodeDecodeError:
        fail("stdin: not text in UTF-8")
    if len(text) > MAX_STDIN:
        fail(f"stdin: has more than {MAX_STDIN:,} characters, the limit of a scenario")
    return partial(scenarios.from_toml, text, "stdin")


def simulate(
    scenario: silvan.Scenario,
    *,
    title: str,
    progress: bool | None = None,
    alone: bool = False,
    viewer: Viewer | None = None,
    saving: Saving | None = None,
    warmup: str | None = None,
) -> silvan.Result:
    """Run a scenario with a progress bar; after Ctrl-C, print the simulated time and exit with status 130.

    SIGTERM has the same effect, with exit status 143. If `warmup` is "auto", a pilot run determines the
    warm-up.
    """
    import silvan

    console, shown = progress_console(progress)
    bar = RunProgress(console, title, show=shown)
    checkpoints = saving.checkpoints(bar) if saving else None
    try:
        with bar:
            return silvan.run(
                scenario,
                progress=bar,
                alone=alone,
                viewer=viewer,
                checkpoints=checkpoints,
                resume=saving.resume if saving else None,
                resume_other_build=saving is not None and saving.other_build,
                **({} if warmup is None else {"warmup": warmup}),
            )
    except KeyboardInterrupt:
        end = bar.end_ns or scenario.duration_ns
        kept = "nothing written"
        if checkpoints is not None and checkpoints.saved_ns is not None:
            kept = (
                f"continue at {simulated(checkpoints.saved_ns)} with: silvan run --resume {checkpoints.path}"
            )
            if saving is not None and saving.other_build:
                kept += " --resume-other-build"
        console.print(f"stopped at {simulated(bar.now_ns)} of {simulated(end)}; {kept}", markup=False)
        raise typer.Exit(EXIT_STOPPED) from None


@dataclass(frozen=True)
class Saving:
    """The options about checkpoints of a run."""

    #: The file for checkpoints.
    file: Path
    #: Simulated time between checkpoints, as given.
    every: str | None
    #: The checkpoint from which the run continues; None for a new run.
    resume: Path | None
    #: Whether another build may have written that checkpoint.
    other_build: bool = False

    #: Wall-clock time in seconds after which Ctrl-C on a terminal offers to save a run.
    WORTH_S: ClassVar[float] = 10.0

    def checkpoints(self, bar: RunProgress) -> Checkpoints | None:
        """Return when to save the run: after each time `every` and after Ctrl-C.

        Without `every`, the run is saved only if the user confirms after Ctrl-C. None without `every` and
        without a terminal.
        """
        from silvan.checkpoints import Checkpoints

        def warn(message: str) -> None:
            err_console().print(f"Warning: {message}", markup=False)

        if self.every is not None:
            return Checkpoints(self.file, self.every, warn=warn)
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return None
        started = time.monotonic()

        def ask() -> bool:
            # The sender of SIGTERM does not wait for an answer.
            if time.monotonic() - started < self.WORTH_S or _terminal.is_terminated():
                return False
            bar.stop()
            try:
                return typer.confirm(f"Save the run in {self.file}, to continue it later?", err=True)
            except typer.Abort:
                return False

        return Checkpoints(self.file, ask=ask, warn=warn)


@contextmanager
def task_bar(console: Console, title: str, total: int | None, *, show: bool) -> Iterator[Callable[..., None]]:
    """Show the progress of `total` tasks: number done, elapsed time, remaining time and a note.

    Yields the function that updates the bar, with the arguments `completed`, `total` and `note`.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True, disable=not show) as progress:
        yield partial(progress.update, progress.add_task(title, total=total, note=""))


@contextmanager
def search_bar(
    console: Console, title: str, runs: int, *, show: bool
) -> Iterator[Callable[[int, int, str], None]]:
    """Show the progress of the runs of a search, and then of the comparison that follows the search.

    Yields a function that updates the bar. Its arguments are the number of finished runs, the total number of
    runs, where 0 means `runs`, and a note.
    """
    with task_bar(console, title, runs, show=show) as update:

        def notify(done: int, total: int, note: str) -> None:
            update(completed=done, total=total or runs, note=note)

        yield notify
