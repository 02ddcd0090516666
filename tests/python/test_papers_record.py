"""The record of the published experiments: kept, read, written into the page, and current."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from conftest import ROOT
from silvan.papers import PapersError, RunData, list_experiments, record, run_experiments, runner
from silvan.papers.catalogue import ONE_SIDED

PAGE = ROOT / "docs" / "papers.md"
ROWS = """
title = "A test"
source = "Nowhere"
about = "Nothing."
assumption = "The usual."

[[row]]
key = "speed"
quantity = "speed"
unit = "Gbit/s"
published = 10.0
tolerance = 0.1
reason = "It is too fast."
"""
CODE = """
def runs(quick):
    return {"only": ("scenario.toml", {"duration": "1 ms" if quick else "1 s"})}

def compare(results):
    return {"speed": results["only"].summary["value"]}

def plot(results, out):
    pass
"""


@pytest.fixture
def papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder of two experiments, X1 and X2, whose runs are made up."""
    folder = tmp_path / "papers"
    (folder / "common").mkdir(parents=True)
    for name in ("X1", "X2"):
        (folder / name).mkdir()
        (folder / name / "published.toml").write_text(ROWS)
        (folder / name / "experiment.py").write_text(CODE)
        (folder / name / "scenario.toml").write_text("seed = 1")
    monkeypatch.setenv("SILVAN_PAPERS", str(folder))
    monkeypatch.setattr(runner, "simulate", lambda task: RunData(summary={"value": 10.0 + task.repeat / 8}))
    return folder


def test_a_record_keeps_each_seed_and_gives_the_rows_again(papers: Path) -> None:
    path = record.find_record()
    assert path == papers / "record.json"
    rows = run_experiments(["X2"], seeds=2, record=path)
    more = run_experiments(["X1"], quick=True, record=path)
    assert list(record.read(path)) == ["X1", "X2"]
    entries = record.read(path)
    assert entries["X2"].values == {"speed": [10.0, 10.125]}
    assert (entries["X1"].quick, entries["X2"].quick) == (True, False)
    found = record.rows_by_experiment(path, list_experiments())
    assert found["X2"][2] == rows
    assert found["X1"][2] == more


def test_a_number_that_is_none_is_kept_as_none(papers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "simulate", lambda task: RunData(summary={"value": math.nan}))
    path = record.find_record()
    rows = run_experiments(["X1"], seeds=2, record=path)
    assert json.loads(path.read_text())["X1"]["values"] == {"speed": [None, None]}
    assert record.rows_by_experiment(path, list_experiments()[:1])["X1"][2] == rows


def test_what_has_changed_since_is_not_on_record(papers: Path) -> None:
    path = record.find_record()
    run_experiments(["X1"], record=path)

    def verdict(name: str) -> tuple[str, str | None]:
        experiments = {e.id: e for e in list_experiments()}
        _, entry, (row,) = record.rows_by_experiment(path, [experiments[name]])[name]
        assert (entry is None) == (row["verdict"] == "not run") == (row["simulated"] is None)
        return row["verdict"], row.get("reason")

    assert verdict("X2") == ("not run", "It is not on record.")
    (papers / "X1" / "scenario.toml").write_text("# A comment changes nothing.\nseed = 1")
    assert verdict("X1") == ("met", None)
    (papers / "X1" / "scenario.toml").write_text("seed = 2")
    assert verdict("X1") == ("not run", "Its runs have changed since it was recorded.")
    (papers / "X1" / "scenario.toml").write_text("seed = 1")
    (papers / "X1" / "published.toml").write_text(ROWS.replace('"speed"', '"pace"', 1))
    assert verdict("X1") == ("not run", "Its rows have changed since it was recorded.")
    assert "- **X1**, all: Its rows have changed since it was recorded." in record.markdown(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no JSON", "not a record: "),
        ("[]", "no object by experiment"),
        ('{"X1": {"version": "1"}}', "X1: must have quick, runs, values, version"),
        (
            '{"X1": {"version": "1", "quick": 1, "runs": "a", "values": {}}}',
            "X1: quick: must be true or false",
        ),
        (
            '{"X1": {"version": "1", "quick": true, "runs": "a", "values": {"speed": []}}}',
            r"values\.speed: must be a list of numbers",
        ),
        (
            '{"X1": {"version": "1", "quick": true, "runs": "a", "values": {"speed": ["fast"]}}}',
            r"values\.speed: must be a list of numbers",
        ),
    ],
)
def test_a_file_that_is_no_record_is_refused_before_anything_runs(
    papers: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    path = record.find_record()
    path.write_text(text)
    monkeypatch.setattr(runner, "simulate", lambda _: pytest.fail("simulated"))
    with pytest.raises(PapersError, match=message):
        run_experiments(["X1"], record=path)
    assert path.read_text() == text


def test_a_page_has_counts_rows_and_reasons(papers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = record.find_record()
    run_experiments(["X1"], seeds=2, record=path)
    monkeypatch.setattr(runner, "simulate", lambda _: RunData(summary={"value": 12.0}))
    run_experiments(["X2"], quick=True, record=path)
    page = papers / "page.md"
    page.write_text(f"Before.\n\n{record.BEGIN}\nold\n{record.END}\n\nAfter.\n")
    record.write_page(page, path)
    text = page.read_text()
    assert text.startswith(f"Before.\n\n{record.BEGIN}\n\n2 numbers: 1 met, 1 missed, 0 open, 0 shown")
    assert text.endswith(f"{record.END}\n\nAfter.\n")
    assert "Quick runs: X2." in text
    assert "| X1 | speed | Gbit/s | 10 | 10.06 ± 0.79 | 10 % | met |" in text
    assert "| X2 | speed | Gbit/s | 10 | 12 | 10 % | **missed** |" in text
    assert "- **X2**, speed: It is too fast." in text
    record.write_page(page, path)
    assert page.read_text() == text
    page.write_text("No place.")
    with pytest.raises(PapersError, match="no place for the record"):
        record.write_page(page, path)


def test_what_is_on_record_has_five_seeds_or_is_deterministic() -> None:
    found = record.rows_by_experiment(record.find_record(), list_experiments())
    for experiment, entry, _ in found.values():
        if entry is not None:
            seeds = {len(values) for values in entry.values.values()}
            assert seeds == {1} if experiment.deterministic else min(seeds) >= 5, experiment.id


def test_the_page_is_that_of_the_record() -> None:
    """Else `silvan papers record --page docs/papers.md` writes it."""
    text = PAGE.read_text(encoding="utf-8").split(record.BEGIN)[1].split(record.END)[0]
    assert text == f"\n\n{record.markdown(record.find_record())}\n"


def test_what_is_not_met_has_a_cause() -> None:
    found = record.rows_by_experiment(record.find_record(), list_experiments())
    rows = [row for _, _, own in found.values() for row in own]
    without = [
        (r["id"], r["quantity"]) for r in rows if r["verdict"] in ("missed", "open") and "reason" not in r
    ]
    assert without == []


def test_bounds_are_orderings_or_say_where_they_come_from() -> None:
    rows = [(e.id, row) for e in list_experiments() for row in e.rows]
    assert [
        (name, row.key)
        for name, row in rows
        if row.tolerance in ONE_SIDED and row.published != 1 and not row.basis
    ] == []
