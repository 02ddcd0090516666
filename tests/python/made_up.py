"""Runs published experiments on made-up results, which a function computes from the task of a run."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import draw_less
from silvan.papers import RunData, list_experiments, run_experiments, runner
from silvan.papers.data import Results

MadeUp = Callable[[runner.Task], RunData]


def compare_and_draw(
    name: str, made_up: MadeUp, out: Path, monkeypatch: pytest.MonkeyPatch, *, quick: bool
) -> list[Any]:
    """Run an experiment; check that it has finite numbers and a figure, and return its rows."""
    monkeypatch.setattr(runner, "simulate", made_up)
    draw_less(monkeypatch, nothing=quick)
    rows = run_experiments([name], quick=quick, out=out)
    assert all(row["simulated"] is not None and math.isfinite(row["simulated"]) for row in rows)
    size = (out / name / f"{name}.png").stat().st_size
    assert size == 0 if quick else size > 5_000
    return rows


def compared(name: str, made_up: MadeUp) -> dict[str, Any]:
    """Return the simulated value of each row of an experiment in quick form."""
    experiment = next(one for one in list_experiments() if one.id == name)
    tables = tuple(experiment.code.TABLES)
    runs = {
        key: made_up(runner.Task(name, key, (experiment.folder / path).resolve(), overrides, tables, None))
        for key, (path, overrides) in experiment.code.runs(True).items()
    }
    return dict(experiment.code.compare(Results(runs, True)))
