"""The command `silvan doctor`."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import typer
from rich.markup import escape

from silvan.commands import common

#: A small scenario, and the first digits of a hash of the bytes that its hosts receive per sample.
CHECKED = """
name = "doctor"
duration = "200 us"
[topology]
kind = "star"
hosts = 4
[congestion]
mechanism = "ib-cc"
[measure]
interval = "20 us"
[[traffic]]
pattern = { kind = "uniform" }
"""
EXPECTED = "001bf324f9ee0f88"
#: Modules of optional features, with the feature and the command that installs the module.
OPTIONAL = {
    "optuna": ("silvan tune", "pip install 'silvan[tune]'"),
    "scipy": ("silvan calibrate, and traffic from counters", "pip install 'silvan[fit]'"),
    "anywidget": ("silvan.watch in notebooks", "pip install 'silvan[notebook]'"),
    "xarray": ("sweeps as xarray cubes", "pip install 'silvan[xarray]'"),
    "distributed": ("sweeps with Dask", "pip install 'silvan[dask]'"),
    "submitit": ("sweeps with Slurm", "pip install 'silvan[slurm]'"),
    "otf2": ("OTF2 traces", "pip install 'silvan[otf2]', or the package python3-otf2"),
    "networkx": ("waiting graphs", "pip install 'silvan[graph]'"),
}
#: Programs that optional features need.
PROGRAMS = {"ffmpeg": ("silvan plot --animate FILE.mp4", "install ffmpeg, or write a .gif")}
Verdict = Literal["ok", "missing", "wrong"]


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    #: ``ok``; ``missing``: an optional part is missing; ``wrong``: Silvan does not work correctly.
    verdict: Verdict
    what: str
    #: How to fix the problem.
    advice: str = ""


def register(app: typer.Typer) -> None:
    """Add `silvan doctor`."""
    app.command()(doctor)


def doctor(as_json: common.AsJson = False) -> None:
    """Check the installation: versions, a run with a known result, optional features.

    Exit status: 0 success, 1 something is wrong.
    """
    found = list(findings())
    if as_json:
        common.print_json([asdict(one) for one in found])
    else:
        console = common.out_console()
        marks = {"ok": "[green]ok[/]     ", "missing": "[yellow]missing[/]", "wrong": "[bold red]wrong[/]  "}
        for one in found:
            console.print(f"{marks[one.verdict]}  {escape(one.what)}", soft_wrap=True)
            if one.advice:
                console.print(f"         {escape(one.advice)}", style="dim", soft_wrap=True)
    if any(one.verdict == "wrong" for one in found):
        raise typer.Exit(common.EXIT_FAILED)


def findings() -> Iterator[Finding]:
    """Perform the checks, and yield their results."""
    yield _version()
    yield Finding("ok", f"Python {platform.python_version()} at {sys.executable}, {os.cpu_count()} cores")
    yield _shipped()
    yield _run()
    yield _figures()
    for module, (purpose, advice) in OPTIONAL.items():
        there = importlib.util.find_spec(module) is not None
        yield Finding("ok" if there else "missing", f"{module}: {purpose}", "" if there else advice)
    for program, (purpose, advice) in PROGRAMS.items():
        there = shutil.which(program) is not None
        yield Finding("ok" if there else "missing", f"{program}: {purpose}", "" if there else advice)


def _version() -> Finding:
    from importlib import metadata

    from silvan._core import __version__ as built

    try:
        installed = metadata.version("silvan")
    except metadata.PackageNotFoundError:
        installed = built
    # Python writes the version 0.2.0-dev as 0.2.0.dev0, so compare only the part before the suffix.
    if built.partition("-")[0] != installed.partition(".dev")[0]:
        what = f"Silvan {installed}, but its extension module is {built}"
        return Finding("wrong", what, "install Silvan again; in a clone: make setup")
    return Finding("ok", f"Silvan {built} at {Path(__file__).parents[1]}")


def _shipped() -> Finding:
    from silvan import scenarios
    from silvan._core import SilvanError

    try:
        number = len(scenarios.listed())
    except (OSError, SilvanError, ValueError) as error:
        return Finding("wrong", "scenarios that come with Silvan", str(error))
    return Finding("ok", f"{number} scenarios and studies (silvan scenarios list)")


def _run() -> Finding:
    import silvan

    result = silvan.run(silvan.Scenario.from_toml(CHECKED))
    with tempfile.TemporaryDirectory() as folder:
        try:
            back = silvan.load(result.save(Path(folder) / "run"))
        except silvan.SilvanError as error:
            return Finding("wrong", "results cannot be written and read", str(error))
    received = back.numpy("hosts")["received_bytes"].astype("<u8").tobytes()
    if hashlib.sha256(received).hexdigest()[: len(EXPECTED)] != EXPECTED:
        what = "the results of a run differ from those on other machines"
        return Finding("wrong", what, "please report this with the output of silvan doctor --json")
    return Finding(
        "ok", f"a run of {result.summary['packets_delivered']:,} packets gives the expected results"
    )


def _figures() -> Finding:
    try:
        import matplotlib as mpl
    except ImportError as error:
        return Finding("wrong", f"figures: {error}", "pip install matplotlib")
    folder = Path(mpl.get_configdir())
    if not os.access(folder, os.W_OK):
        what = f"figures: {folder} is not writable, so the first figure takes longer"
        return Finding("missing", what, "set MPLCONFIGDIR to a folder of yours")
    return Finding("ok", f"figures (matplotlib {mpl.__version__})")
