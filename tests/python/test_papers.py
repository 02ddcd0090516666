"""Tests the code that runs the published experiments, without the model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from silvan.fairness import jain
from silvan.papers import (
    PapersError,
    RunData,
    common,
    find_papers,
    list_experiments,
    record,
    run_experiments,
    runner,
)
from silvan.papers.catalogue import Published, choose, load_module
from silvan.papers.data import settling_s, smoothed
from silvan.papers.rows import counts, expected_text, marks

ROW_KEYS = ["id", "key", "quantity", "unit", "published", "expected", "provenance", "kind", "simulated"]
ROW_KEYS += ["ratio", "tolerance", "verdict", "source", "assumption", "reading"]

PUBLISHED = """
title = "A test"
source = "Nowhere"
about = "Nothing."
assumption = "The usual."

[[row]]
key = "close"
quantity = "close enough"
unit = "Gbit/s"
published = 10.0
tolerance = 0.1

[[row]]
key = "far"
quantity = "too far"
unit = "Gbit/s"
published = 10.0
tolerance = 0.1
reason = "The paper's switch differs."
assumption = "Another."

[[row]]
key = "bound"
quantity = "a bound"
unit = "1"
published = 0.99
tolerance = "at least"
"""

CODE = """
def runs(quick):
    return {"only": ("scenario.toml", {"duration": "1 ms" if quick else "1 s"})}

def compare(results):
    value = results["only"].summary["value"]
    return {"close": value, "far": 2 * value, "bound": 0.99}

def plot(results, out):
    (out / "drawn.txt").write_text("yes")
"""


@pytest.fixture
def papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a folder with one experiment, X1, whose run is invented."""
    folder = tmp_path / "papers"
    (folder / "common").mkdir(parents=True)
    (folder / "X1").mkdir()
    (folder / "X1" / "published.toml").write_text(PUBLISHED)
    (folder / "X1" / "experiment.py").write_text(CODE)
    (folder / "X1" / "scenario.toml").write_text("")
    monkeypatch.setenv("SILVAN_PAPERS", str(folder))
    monkeypatch.setattr(runner, "simulate", lambda task: RunData(summary={"value": 9.5}))
    return folder


def test_all_experiments_are_there_and_load() -> None:
    experiments = {e.id: e for e in list_experiments()}
    wanted = {"A1", "A2", "A3", "A4", "A5", "A8", "T1", "T2", "T3", "T4", "T5", "T6", "T7"}
    assert wanted <= set(experiments)
    for experiment in experiments.values():
        assert experiment.rows
        assert experiment.about
        assert experiment.source
        for quick in (False, True):
            for scenario, _ in experiment.code.runs(quick).values():
                if scenario.endswith(".toml"):
                    assert (experiment.folder / scenario).is_file()
                else:
                    assert callable(getattr(experiment.code, scenario))


def test_the_order_of_ids_is_that_of_numbers() -> None:
    ids = [e.id for e in list_experiments()]
    assert ids.index("A2") < ids.index("A8") < ids.index("T1") < ids.index("T7")


def test_rows_set_published_beside_simulated(papers: Path) -> None:
    rows = run_experiments(["x1"], seeds=1)
    assert [list(row) for row in rows] == [ROW_KEYS, [*ROW_KEYS, "reason"], [*ROW_KEYS, "margin"]]
    assert [row["verdict"] for row in rows] == ["met", "missed", "met"]
    assert rows[0]["ratio"] == pytest.approx(0.95)
    assert rows[1]["reason"] == "The paper's switch differs."
    assert [row["assumption"] for row in rows] == ["The usual.", "Another.", "The usual."]
    assert [row["tolerance"] for row in rows] == [0.1, 0.1, "at least"]


def test_out_holds_plots_and_rows(papers: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    rows = run_experiments(["all"], out=tmp_path / "out", progress=lambda *state: seen.append(state), seeds=1)
    assert json.loads((tmp_path / "out" / "X1" / "rows.json").read_text()) == rows
    assert (tmp_path / "out" / "X1" / "drawn.txt").exists()
    assert seen == [(1, 1, "X1 only")]


def test_a_number_that_is_none_is_missed(papers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "simulate", lambda task: RunData(summary={"value": float("nan")}))
    row = run_experiments(["X1"])[0]
    assert (row["simulated"], row["ratio"], row["verdict"]) == (None, None, "missed")
    json.dumps(row, allow_nan=False)


def test_an_unknown_id_is_refused_with_those_known(papers: Path) -> None:
    with pytest.raises(PapersError, match=r"no experiment `X2`; known are X1, and `all`"):
        run_experiments(["X2"])
    with pytest.raises(PapersError, match="name at least one"):
        run_experiments([])


def test_a_failed_run_is_named(papers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(task: runner.Task) -> RunData:
        raise ValueError("threshold = 99")

    monkeypatch.setattr(runner, "simulate", fail)
    with pytest.raises(PapersError, match=r"X1, run only \(.*scenario\.toml\): threshold = 99"):
        run_experiments(["X1"])


def test_full_runs_have_five_seeds_quick_ones_one_and_what_is_deterministic_one(
    papers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "simulate", lambda task: RunData(summary={"value": 9.0 + task.repeat}))
    row = run_experiments(["X1"])[0]
    # The values are 9 to 13: 2.776 times the standard deviation of 1.581, divided by the root of 5.
    assert (row["seeds"], row["simulated"]) == (5, 11.0)
    assert row["interval"] == pytest.approx(1.963, abs=1e-3)
    assert "seeds" not in run_experiments(["X1"], quick=True)[0]
    (papers / "X1" / "published.toml").write_text("deterministic = true\n" + PUBLISHED)
    seen: list[tuple[int, int, str]] = []
    row = run_experiments(["X1"], progress=lambda *state: seen.append(state))[0]
    assert (row["simulated"], len(seen)) == (9.0, 1)
    assert "seeds" not in row


@pytest.mark.parametrize(
    ("tolerance", "simulated", "interval", "verdict"),
    [
        (0.1, 10.5, 0.4, "met"),
        (0.1, 10.5, 0.6, "open"),
        (0.1, 11.5, 0.6, "open"),
        (0.1, 11.5, 0.4, "missed"),
        (0.1, 8.5, 0.4, "missed"),
        (0.1, 10.0, 5.0, "open"),
        ("at least", 10.0, 0.0, "met"),
        ("at least", 10.1, 0.2, "open"),
        ("at least", 9.9, 0.2, "open"),
        ("at least", 9.7, 0.2, "missed"),
        ("at most", 9.7, 0.2, "met"),
        ("at most", 10.1, 0.2, "open"),
        ("at most", 10.3, 0.2, "missed"),
        ("at most", float("nan"), 0.0, "missed"),
        ("shown", 1.0, 0.0, "shown"),
    ],
)
def test_an_interval_that_straddles_a_bound_leaves_a_row_open(
    tolerance: float | str, simulated: float, interval: float, verdict: str
) -> None:
    assert _expected(10.0, tolerance).verdict(simulated, interval) == verdict


def _expected(number: float, tolerance: float | str, unit: str = "1") -> Published:
    return Published("k", "q", unit, number, "read", tolerance, tolerance, *[""] * 6, *[False] * 3)


@pytest.mark.parametrize(
    ("simulated", "interval", "spread", "verdict"),
    [
        # The tolerance is 1.
        (10.5, 0.1, 0.9, "met"),
        (10.5, 0.1, 1.1, "compatible"),
        (11.5, 0.1, 1.6, "compatible"),
        (11.5, 0.1, 1.4, "incompatible"),
        (11.5, 0.1, 0.9, "missed"),
        (11.1, 0.2, 0.5, "open"),
    ],
)
def test_draws_that_spread_by_more_than_the_tolerance_decide_by_their_prediction_interval(
    simulated: float, interval: float, spread: float, verdict: str
) -> None:
    published = Published("k", "q", "1", 10.0, "published", 0.1, 0.1, *[""] * 6, *[False] * 3)
    assert published.verdict(simulated, interval, spread=spread) == verdict
    # A number that the publication does not print is not one of its random results.
    read = _expected(10.0, 0.1).verdict(simulated, interval, spread=spread)
    assert read == _expected(10.0, 0.1).verdict(simulated, interval)
    # A mean of several runs is not one of these results either.
    mean = replace(published, mean_of=50).verdict(simulated, interval, spread=spread)
    assert mean == published.verdict(simulated, interval)


@pytest.mark.parametrize(
    ("number", "tolerance", "least", "most"),
    [
        (1.58, 0.2, 1.464, 1.696),
        (0.97, 0.5, 0.955, 0.985),
        # Not narrower than the last printed digit.
        (1.0, 0.2, 0.99, 1.01),
        (1.04, 0.1, 1.03, 1.05),
        (0.975, 0.1, 0.9725, 0.9775),
    ],
)
def test_the_tolerance_on_a_gain_is_relative_to_the_gain(
    number: float, tolerance: float, least: float, most: float
) -> None:
    gain = Published(
        "k", "q", "1", number, "published", tolerance, tolerance, *[""] * 6, *[False] * 3, gain=True
    )
    assert gain.bounds() == pytest.approx((least, most))


@pytest.mark.parametrize(
    ("number", "tolerance", "unit", "kind"),
    [
        (1.0, "at least", "1", "ordering"),
        (1.0, "at most", "1", "ordering"),
        (1.0, "at most", "s", "bound"),
        (0.9, "at least", "1", "bound"),
        (1.0, 0.1, "1", "two-sided"),
        (1.0, "shown", "1", "shown"),
    ],
)
def test_a_ratio_held_against_one_is_an_ordering(
    number: float, tolerance: float | str, unit: str, kind: str
) -> None:
    assert _expected(number, tolerance, unit).kind == kind


@pytest.mark.parametrize(
    ("tolerance", "simulated", "margin"),
    [
        ("at least", 5.0, 2.5),
        ("at most", 1.0, 2.0),
        ("at most", 4.0, 0.5),
        (0.1, 2.0, None),
        ("at most", 0.0, None),
    ],
)
def test_a_margin_is_the_factor_by_which_a_bound_is_cleared(
    tolerance: float | str, simulated: float, margin: float | None
) -> None:
    assert _expected(2.0, tolerance).margin(simulated) == margin


def test_a_met_bound_with_a_margin_above_two_is_weak(papers: Path) -> None:
    path = papers / "X1" / "experiment.py"
    for bound, weak in ((0.99 * 1.9, False), (0.99 * 2.1, True), (0.99 / 2.1, False)):
        path.write_text(CODE.replace('"bound": 0.99', f'"bound": {bound}'))
        row = run_experiments(["X1"], seeds=1)[2]
        assert row["margin"] == pytest.approx(bound / 0.99)
        assert ("weak" in row) == weak


@pytest.mark.parametrize("provenance", ["read", "derived", "assumed"])
def test_only_printed_numbers_are_published(papers: Path, provenance: str) -> None:
    path = papers / "X1" / "published.toml"
    path.write_text(PUBLISHED.replace("published = 10.0", f'{provenance} = 10.0\nbasis = "Ten or so."', 1))
    first, second, _ = run_experiments(["X1"], seeds=1)
    assert (first["published"], first["expected"], first["provenance"]) == (None, 10.0, provenance)
    assert (second["published"], second["expected"], second["provenance"]) == (10.0, 10.0, "published")
    assert expected_text(first) == f"10 ({provenance})"
    assert expected_text(second) == "10"


def test_rows_share_texts(papers: Path) -> None:
    text = PUBLISHED.replace('reason = "The paper\'s switch differs."', 'reason = "@switch"')
    path = papers / "X1" / "published.toml"
    path.write_text(text.replace("\n[[row]]", '\n[texts]\nswitch = "Another switch."\n\n[[row]]', 1))
    assert run_experiments(["X1"], seeds=1)[1]["reason"] == "Another switch."
    path.write_text(text)
    with pytest.raises(PapersError, match=r"row 2: reason = .@switch.: there is no texts\.switch"):
        run_experiments(["X1"], seeds=1)


def test_rows_say_what_they_are(papers: Path) -> None:
    marked = PUBLISHED.replace('key = "close"', 'key = "close"\nquick_tolerance = 0.5\nbasis = "Words."', 1)
    marked = marked.replace('key = "far"', 'key = "far"\nweak = "Cannot fail."', 1)
    marked = marked.replace('key = "bound"', 'key = "bound"\ncomputed = true', 1)
    (papers / "X1" / "published.toml").write_text(marked)
    rows = run_experiments(["X1"], quick=True)
    assert [marks(row) for row in rows] == [["smoke"], ["weak"], ["computed"]]
    assert (rows[0]["basis"], rows[1]["weak"]) == ("Words.", "Cannot fail.")
    assert marks(run_experiments(["X1"], seeds=1)[0]) == []
    assert {verdict: number for verdict, number in counts(rows).items() if number} == {"met": 2, "missed": 1}
    (papers / "X1" / "published.toml").write_text("computed = true\n" + PUBLISHED)
    assert [marks(row) for row in run_experiments(["X1"], seeds=1)] == [["computed"]] * 3


def test_what_only_a_plot_needs_is_run_once_and_only_for_it(papers: Path, tmp_path: Path) -> None:
    code = CODE + "\ndef runs_for_plot(quick):\n    return {'more': ('scenario.toml', {})}\n"
    code = code.replace('"yes"', '" ".join(sorted(results))')
    (papers / "X1" / "experiment.py").write_text(code)
    seen: list[tuple[int, int, str]] = []
    run_experiments(["X1"], seeds=2, progress=lambda *state: seen.append(state))
    assert [label for _, _, label in seen] == ["X1 only"] * 2
    seen.clear()
    run_experiments(["X1"], seeds=2, out=tmp_path / "out", progress=lambda *state: seen.append(state))
    assert [label for _, _, label in seen] == ["X1 only", "X1 only", "X1 more"]
    assert (tmp_path / "out" / "X1" / "drawn.txt").read_text() == "more only"


def test_seeds_may_have_runs_of_their_own(papers: Path) -> None:
    own = (
        "\ndef runs_of_seed(quick, n):\n    return {'only': ('scenario.toml', {'duration': f'{n + 1} s'})}\n"
    )
    (papers / "X1" / "experiment.py").write_text(CODE + own)
    tasks = runner._tasks(choose(["X1"])[0], quick=False, out=None, seeds=3)
    assert [(task.repeat, task.overrides["duration"]) for task in tasks] == [
        (0, "1 s"),
        (1, "2 s"),
        (2, "3 s"),
    ]
    usual = record.digest(choose(["X1"])[0], quick=False)
    (papers / "X1" / "experiment.py").write_text(CODE + own.replace("n + 1", "n + 2"))
    assert record.digest(choose(["X1"])[0], quick=False) != usual


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tolerance = 0.1", "tolerance = 0.1\nweak = true", "row 1: weak = True: must be text"),
        ("tolerance = 0.1", "tolerance = 0.1\ncomputed = 1", "row 1: computed = 1: must be true or false"),
        ('title = "A test"', 'title = "A test"\ndeterministic = "yes"', "deterministic = .yes.: must"),
        ("tolerance = 0.1", "tolerance = 10", "row 1: tolerance = 10: must be 0 to 1"),
        ('tolerance = "at least"', 'tolerance = "about"', "row 3: tolerance = 'about': must be 0 to 1"),
        ('unit = "Gbit/s"', 'units = "Gbit/s"', "row 1: unknown key `units`"),
        ("published = 10.0", "", "row 1: exactly one of published, read, derived, assumed must give"),
        ("published = 10.0", "published = 10.0\nread = 9", "row 1: exactly one of"),
        ("published = 10.0", "published = true", "row 1: published = True: must be a number"),
        ("published = 10.0", "read = 10.0", "row 1: `basis` must state the origin of the read number"),
        ('key = "far"', 'key = "close"', "two rows have the same key"),
        ('title = "A test"', "", "`title` is missing"),
    ],
)
def test_wrong_data_is_refused(papers: Path, old: str, new: str, message: str) -> None:
    (papers / "X1" / "published.toml").write_text(PUBLISHED.replace(old, new, 1))
    with pytest.raises(PapersError, match=message):
        run_experiments(["X1"])


def test_data_and_code_must_fit(papers: Path) -> None:
    (papers / "X1" / "experiment.py").write_text(CODE.replace('"bound"', '"bond"'))
    with pytest.raises(PapersError, match="not computed: bound; not published: bond"):
        run_experiments(["X1"])


def test_code_of_several_experiments_is_imported_once(papers: Path) -> None:
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Pair:\n    least: float\n    most: float\n"
    )
    (papers / "common" / "pairs.py").write_text(text)
    pairs = common("pairs")
    assert pairs.Pair(1, 2).most == 2
    assert common("pairs") is pairs
    with pytest.raises(PapersError, match=r"others\.py: no such Python file"):
        common("others")


def test_code_that_fails_to_import_can_be_corrected(papers: Path) -> None:
    path = papers / "common" / "broken.py"
    path.write_text("VALUE = 1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        common("broken")
    path.write_text("VALUE = 12345\n")
    assert common("broken").VALUE == 12345


def test_a_wrong_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SILVAN_PAPERS", str(tmp_path))
    with pytest.raises(PapersError, match="not the folder papers/"):
        find_papers()


def _run(rates: dict[str, list[float]], step_s: float) -> RunData:
    """Create a run whose flows have the given throughputs in Gbit/s, one per interval."""
    names, times, received = [], [], []
    for name, series in rates.items():
        for n, rate in enumerate(series, 1):
            names.append(name)
            times.append(round(n * step_s * 1e9))
            received.append(round(rate * 1e9 / 8 * step_s))
    table = {
        "flow": np.array(names),
        "time_ns": np.array(times, dtype=np.uint64),
        "received_bytes": np.array(received, dtype=np.uint64),
    }
    return RunData(summary={}, tables={"flows": table})


def test_mean_counts_whole_intervals_only() -> None:
    run = _run({"F": [0, 4, 8, 8]}, 0.1)
    assert run.mean_gbit_s("F", 0.1, 0.3) == pytest.approx(6.0)
    assert run.mean_gbit_s("F", 0.15, 0.45) == pytest.approx(8.0)
    assert list(run.samples_gbit_s("F", 0.1, 0.2)) == pytest.approx([4.0])
    assert np.isnan(run.mean_gbit_s("F", 0.11, 0.19))


def test_jain() -> None:
    assert jain([3, 3, 3]) == pytest.approx(1)
    assert jain([1, 0, 0, 0]) == pytest.approx(0.25)
    assert np.isnan(jain([0, 0]))


def test_smoothed_is_the_mean_of_what_was() -> None:
    assert list(smoothed(np.array([1.0, 3, 5, 7]), 2)) == [1, 2, 4, 6]
    assert list(smoothed(np.array([1.0, 3]), 5)) == [1, 2]


def test_settling_is_when_fairness_stays() -> None:
    run = _run({"A": [8, 8, 5, 8, 5, 5], "B": [2, 2, 5, 2, 5, 5]}, 0.1)
    assert settling_s(run, ["A", "B"], 0.0, 0.6, 0.1) == pytest.approx(0.4)
    assert settling_s(run, ["A", "B"], 0.4, 0.6, 0.1) == 0
    assert settling_s(run, ["A", "B"], 0.0, 0.4, 0.1) == pytest.approx(0.4)


MAXMIN = load_module(Path(__file__).parents[2] / "verify" / "maxmin.py", "maxmin").max_min


def test_max_min_of_textbook_cases() -> None:
    assert MAXMIN({"a": ["x"], "b": ["x", "y"], "c": ["y"]}, {"x": 1, "y": 3}) == {
        "a": 0.5,
        "b": 0.5,
        "c": 2.5,
    }
    paths = {"F1": ("t", "4"), "F2": ("t", "5"), "F3": ("t", "5"), "F4": ("5",), "F5": ("5",)}
    rates = MAXMIN(paths, {"t": 32, "4": 13, "5": 13})
    assert rates == {"F1": 13, "F2": 3.25, "F3": 3.25, "F4": 3.25, "F5": 3.25}


def test_max_min_refuses_a_flow_without_a_bound() -> None:
    with pytest.raises(ValueError, match="flow a crosses no link"):
        MAXMIN({"a": []}, {})


def test_a_row_may_be_compared_with_a_mean_of_runs(papers: Path) -> None:
    file = papers / "X1" / "published.toml"
    file.write_text("mean_of = 50\n" + PUBLISHED.replace('key = "far"', 'key = "far"\nmean_of = 10', 1))
    assert [row.mean_of for row in list_experiments()[0].rows] == [50, 10, 50]
    assert [row["mean_of"] for row in run_experiments(["X1"], seeds=1)] == [50, 10, 50]
    file.write_text("mean_of = -1\n" + PUBLISHED)
    with pytest.raises(PapersError, match="mean_of = -1: must be a number of runs"):
        list_experiments()
