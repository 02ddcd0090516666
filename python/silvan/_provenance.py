"""Provenance of a result: program, scenario, machine, time."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from silvan import _core
from silvan._core import __version__

if TYPE_CHECKING:
    from silvan._core import Scenario
    from silvan.types import Machine, Provenance, RunPart, Summary


@cache
def build() -> str:
    """Identify this build of the simulator by a hash of the extension module."""
    return hashlib.sha256(Path(_core.__file__).read_bytes()).hexdigest()[:16]


def of_run(
    scenario: Scenario, summary: Summary, started: float, parts: Sequence[tuple[int, str, float]]
) -> Provenance:
    """Return the provenance of a run.

    `started` is the start of this process's part (Unix time). Each part of the run has its first simulated
    time in ns, its build, and its wall-clock time in seconds.
    """
    wall_s = sum(part_s for _, _, part_s in parts)
    provenance: Provenance = {
        "scenario": scenario.name,
        "origin": scenario.origin,
        "base_dir": str(Path(scenario.base_dir).absolute()),
        "overrides": dict(scenario.overrides),
        "seed": scenario.seed,
        "version": __version__,
        "git_commit": git_commit(),
        "started": datetime.fromtimestamp(started, timezone.utc).isoformat(timespec="seconds"),
        "wall_s": round(wall_s, 3),
        "events_per_s": round(summary["events"] / wall_s) if wall_s > 0 else None,
        "machine": machine(),
        "python": platform.python_version(),
    }
    if len(parts) > 1:
        resumed: list[RunPart] = [
            {"at_ns": at_ns, "build": by, "wall_s": round(part_s, 3)} for at_ns, by, part_s in parts
        ]
        provenance["resumed"] = resumed
    return provenance


@cache
def git_commit() -> str | None:
    """Return the commit of the source clone, with `-dirty` if tracked files have changed.

    None if the package is not in a clone, or if Git fails.
    """
    root = source_root()
    if root is None or not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def source_root() -> Path | None:
    """Return the folder of the clone from which the package is imported; None for an installed package."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "crates" / "silvan-python").is_dir() else None


@cache
def machine() -> Machine:
    """Return the operating system, the processor model and the number of logical cores."""
    return {"system": platform.platform(), "cpu": _cpu(), "cores": os.cpu_count()}


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
