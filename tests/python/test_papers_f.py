"""Tests reduced experiments of Paper IV, with invented runs and with short simulations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import silvan
from made_up import compare_and_draw
from silvan._statistics import half_width
from silvan.papers import RunData, common, find_papers, list_experiments, run_experiments, runner
from silvan.papers.data import Results
from silvan.papers.rows import rows_of

forest = common("forest")


def scenario(**overrides: Any) -> silvan.Scenario:
    path = find_papers() / "common" / "forest-648.toml"
    return silvan.Scenario.load(str(path), {key.replace("__", "."): v for key, v in overrides.items()})


def small(**overrides: Any) -> silvan.Scenario:
    """Return the same trees on 36 hosts, because 648 hosts would take too long."""
    text = (find_papers() / "common" / "forest-648.toml").read_text(encoding="utf-8")
    text = text.replace(
        'kind = "fat-tree-648"', 'kind = "two-level-fat-tree"\nleaves = 6\nspines = 6\nhosts_per_leaf = 6'
    )
    text = text.replace("hotspots = 8", "hotspots = 2")
    more = {key.replace("__", "."): value for key, value in overrides.items()}
    short = {"duration": "4 ms", "warmup": "2 ms", "congestion.mechanism": "none"}
    return silvan.Scenario.from_toml(text, overrides=short | more)


def groups(result: silvan.Result) -> dict[str, float]:
    return {group["group"]: group["received_gbit_s"] for group in result.summary["groups"]}


def test_check_tells_who_is_what_and_what_could_be_reached() -> None:
    (found,) = scenario(**forest.shares(25, 60)).check()["forests"]
    assert (found["contributors"], found["victims"], found["mixed"]) == (389, 97, 162)
    assert len(set(found["hotspots"])) == 8
    assert found["moves"] == 0
    assert sum(found["subset_sizes"]) == 389 + 162
    assert found["tmax_gbit_s"] == pytest.approx(13.5 * (97 + 0.4 * 162) / 648)
    again, other = (scenario(**forest.shares(25, 60), seed=seed).check()["forests"][0] for seed in (1, 2))
    assert again == found
    assert other["hotspots"] != found["hotspots"]


@pytest.mark.parametrize(
    ("mixed", "p", "published"), [(0, 0, 2.7), (25, 0, 5.4), (100, 0, 13.5), (100, 100, 0.0)]
)
def test_tmax_is_that_of_the_paper(mixed: int, p: int, published: float) -> None:
    assert forest.tmax_gbit_s(forest.shares(mixed, p)) == pytest.approx(published, rel=0.01)


def test_moves_are_counted() -> None:
    (found,) = scenario(**forest.shares(lifetime_ms=1)).check()["forests"]
    assert found["moves"] == 99


def test_shares_make_the_whole() -> None:
    for mixed in (0, 25, 50, 75, 100):
        own = forest.shares(mixed, 10)
        sizes = [own.get(f"traffic.0.pattern.{role}", 0) for role in ("victims", "contributors", "mixed")]
        assert sum(sizes) == 100
        assert sizes[1] == 4 * sizes[0]
    assert forest.shares(victims=60)["traffic.0.pattern.contributors"] == 40


def test_trees_starve_the_others_and_control_frees_them() -> None:
    off = groups(silvan.run(small()))
    assert off["hotspots"] == pytest.approx(13.6, rel=0.02)
    alone = groups(silvan.run(small(traffic__0__pattern__contributors=0)))
    assert off["other hosts"] < 0.5 * alone["other hosts"]
    # There are fewer contributors per hotspot than in the large network, so shorter delays are enough, and
    # control settles in time.
    table = {"kind": "quadratic", "divisor": 106, "scale": 2, "entries": 128}
    settings = {"congestion.mechanism": "ib-cc", "congestion.reaction.table": table}
    on = groups(silvan.run(small(**settings, duration="20 ms", warmup="15 ms")))
    assert on["other hosts"] > 0.8 * alone["other hosts"]
    assert on["hotspots"] > 0.85 * off["hotspots"]


def test_what_moves_helps_itself() -> None:
    standing = silvan.run(small())
    moving = silvan.run(small(traffic__0__pattern__lifetime="200 us"))
    assert "hotspots" not in groups(moving)
    assert moving.summary["throughput_gbit_s"] > 1.2 * standing.summary["throughput_gbit_s"]


def _made_up(task: runner.Task) -> RunData:
    """Invent a run in which control always gives four times as much, with a small random variation."""
    rate = (4.0 if " on" in f" {task.name}" else 1.0) + 0.01 * task.repeat
    summary = {
        "throughput_gbit_s": 648 * rate,
        "simulated_ns": 10**8,
        "groups": [{"group": g, "received_gbit_s": rate} for g in ("hotspots", "other hosts")],
    }
    network = {"time_ns": np.arange(1, 5) * 10**6, "received_bytes": np.full(4, 10**6)}
    return RunData(summary=summary, tables={"network": network}, wall_s=1.0, peak_memory_mb=100.0)


@pytest.mark.parametrize("name", [f"F{n}" for n in range(1, 9)])
@pytest.mark.parametrize("quick", [True, False])
def test_every_experiment_compares_and_draws(
    name: str, quick: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = compare_and_draw(name, _made_up, tmp_path, monkeypatch, quick=quick)
    assert {row["verdict"] for row in rows} <= {"met", "missed", "open", "compatible", "incompatible"}


def test_full_experiments_have_the_points_of_the_paper() -> None:
    experiments = {e.id: e for e in list_experiments()}
    assert len(experiments["F2"].code.runs(False)) == 2 * 11
    assert len(experiments["F3"].code.runs(False)) == 2 * 2 * 11
    code = experiments["F7"].code
    assert len(code.runs(False) | code.runs_for_plot(False)) == 3 * 2 * 10
    assert code.runs_for_plot(True) == {}
    for name in ("F2", "F4", "F7"):
        for path, overrides in experiments[name].code.runs(False).values():
            scenario = silvan.Scenario.load(str(experiments[name].folder / path), overrides)
            assert scenario.duration_ns == 100_000_000


def test_gains_are_on_over_off() -> None:
    rows = {row["quantity"]: row for row in _rows_of_f5()}
    assert rows["rate of all hosts, lifetime 10 ms, ratio of CC on to CC off"]["simulated"] == pytest.approx(
        4.0
    )
    assert rows["rate of all hosts, lifetime 10 ms, CC on"]["simulated"] == pytest.approx(4000)


def _rows_of_f5() -> list[dict[str, Any]]:
    experiment = next(e for e in list_experiments() if e.id == "F5")
    runs = {}
    for name, (path, overrides) in experiment.code.runs(True).items():
        runs[name] = _made_up(runner.Task("F5", name, experiment.folder / path, overrides, (), None))
    return rows_of(experiment, runner.compare(experiment, [Results(runs, True)]), True)


def test_seeds_give_confidence_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "simulate", _made_up)
    row = next(
        r
        for r in run_experiments(["F1"], quick=True, seeds=3)
        if r["quantity"] == "rate of other hosts, CC off"
    )
    assert (row["seeds"], row["simulated"]) == (3, pytest.approx(1.01))
    # 4.303 times the standard deviation of 0.01, divided by the root of 3.
    assert row["interval"] == pytest.approx(0.02484, rel=1e-3)
    assert half_width([1.0] * 40) == 0


def test_what_is_finished_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run_experiments(["M8"], quick=True, out=tmp_path, seeds=2)
    monkeypatch.setattr("silvan.results.run", lambda *_, **__: pytest.fail("simulated again"))
    assert run_experiments(["M8"], quick=True, out=tmp_path, seeds=2) == first
    runs = json.loads((tmp_path / "M8" / "runs.json").read_text())
    folders = {silvan.load(tmp_path / "runs" / folder).provenance["seed"] for folder in runs["none"]}
    assert folders == {1, 2}
