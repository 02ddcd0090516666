"""Tests some experiments with real simulations in several processes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import silvan
from silvan.papers import PapersError, list_experiments, run_experiments, runner
from silvan.papers.catalogue import choose


def test_exact_laws_hold_over_two_processes(tmp_path: Path) -> None:
    rows = run_experiments(["A1", "A4", "A5"], quick=True, jobs=2, out=tmp_path)
    assert len(rows) == 47
    assert [row["quantity"] for row in rows if row["verdict"] != "met"] == []
    assert (tmp_path / "A4" / "A4.png").stat().st_size > 10_000
    runs = json.loads((tmp_path / "A5" / "runs.json").read_text())
    assert silvan.load(tmp_path / "runs" / runs["64"][0]).summary["packets_delivered"] > 1000


def test_jobs_do_not_change_the_numbers() -> None:
    one, two = (run_experiments(["A5"], quick=True, jobs=jobs) for jobs in (1, 2))
    assert one == two


@pytest.mark.parametrize("name", [e.id for e in list_experiments() if e.deterministic])
def test_what_is_deterministic_has_the_same_numbers_with_any_seed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (experiment,) = choose([name])
    once = [row["simulated"] for row in run_experiments([name], quick=True)]
    monkeypatch.setattr(runner, "choose", lambda _: [replace(experiment, deterministic=False)])
    rows = run_experiments([name], quick=True, seeds=2)
    assert [(row["simulated"], row["interval"]) for row in rows] == [(number, 0) for number in once]


def test_a_refused_scenario_is_told_from_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("common", "X1"):
        (tmp_path / name).mkdir()
    (tmp_path / "X1" / "scenario.toml").write_text("duraton = '1 s'\n")
    (tmp_path / "X1" / "published.toml").write_text(
        'title = "t"\nsource = "s"\nabout = "a"\n[[row]]\nkey = "k"\nquantity = "q"\nunit = "1"\n'
        "published = 1\ntolerance = 0.1\n"
    )
    (tmp_path / "X1" / "experiment.py").write_text(
        "def runs(quick):\n    return {n: ('scenario.toml', {}) for n in 'ab'}\n"
        "def compare(results):\n    return {}\n"
        "def plot(results, out):\n    pass\n"
    )
    monkeypatch.setenv("SILVAN_PAPERS", str(tmp_path))
    with pytest.raises(PapersError, match=r"X1, run [ab] .*did you mean `duration`"):
        run_experiments(["X1"], jobs=2)


def test_results_of_functions_are_stored_until_the_code_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    papers, out = tmp_path / "papers", tmp_path / "out"
    for name in ("common", "X1"):
        (papers / name).mkdir(parents=True)
    (papers / "X1" / "published.toml").write_text(
        'title = "t"\nsource = "s"\nabout = "a"\n[[row]]\nkey = "k"\nquantity = "q"\nunit = "1"\n'
        "published = 1\ntolerance = 0.1\n"
    )
    code = papers / "X1" / "experiment.py"
    code.write_text(
        "from pathlib import Path\n"
        "def runs(quick):\n    return {'only': ('work', {'size': 3})}\n"
        "def work(size, repeat):\n"
        f"    with Path({str(tmp_path / 'calls')!r}).open('a') as file:\n        file.write('x')\n"
        "    return {'value': size + repeat}\n"
        "def compare(results):\n    return {'k': results['only'].summary['value']}\n"
        "def plot(results, out):\n    pass\n"
    )
    monkeypatch.setenv("SILVAN_PAPERS", str(papers))

    def calls() -> int:
        (row,) = run_experiments(["X1"], seeds=2, out=out)
        assert row["simulated"] == 3.5
        return len((tmp_path / "calls").read_text())

    assert (calls(), calls()) == (2, 2)
    (papers / "common" / "more.py").write_text("")
    assert calls() == 4
    code.write_text(code.read_text() + "\n")
    assert calls() == 6
