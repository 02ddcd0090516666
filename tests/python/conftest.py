"""Scenarios and helpers that the tests share."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import silvan

ROOT = Path(__file__).resolve().parents[2]
FABRICS = ROOT / "tests" / "data" / "fabrics"

#: The testbed in small: a victim, two contributors, a few milliseconds.
SMALL = """
name = "small"
seed = 3
duration = "3 ms"
warmup = "1 ms"

[topology]
kind = "dumbbell"
left = 3
right = 4
link_rate = "16 Gbit/s"
trunk_rate = "32 Gbit/s"

[host]
injection_rate = "13 Gbit/s"
drain_rate = "13 Gbit/s"

[measure]
interval = "100 us"

[[flow]]
name = "F1"
from = "H1"
to = "H4"

[[flow]]
name = "F2"
from = "H2"
to = "H5"

[[flow]]
name = "F3"
from = "H6"
to = "H5"
start = "1 ms"
"""

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture(scope="session")
def result() -> silvan.Result:
    return silvan.run(silvan.Scenario.from_toml(SMALL))


def command(*arguments: object, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """Run the command as a user would, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "silvan.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd or ROOT,
        timeout=300,
        check=False,
        env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1"},
    )


def script(path: Path, *lines: str) -> Path:
    """Write a script of the shell that can be run."""
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path
