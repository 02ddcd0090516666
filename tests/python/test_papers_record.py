"""Tests the record of the published experiments: it is stored, read, written into the page, and current."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from conftest import ROOT
from silvan import cli
from silvan.papers import PapersError, RunData, list_experiments, page, record, run_experiments, runner, score
from silvan.papers.catalogue import ONE_SIDED, UNMET
from silvan.papers.causes import read_causes

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
cause = "input"
"""
CODE = """
def runs(quick):
    return {"only": ("scenario.toml", {"duration": "1 ms" if quick else "1 s"})}

def compare(results):
    return {"speed": results["only"].summary["value"]}

def plot(results, out):
    pass
"""


CAUSES = """
[[cause]]
paper = "Nowhere"
ids = ["X1"]
cause = "Slower links."
quantity = "speed"
published = "10"
before = "12"
after = "11"
decision = "rejected"
why = "@fast"

[texts]
fast = "Still too fast."
"""


@pytest.fixture
def papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a folder with two experiments, X1 and X2, whose runs are invented."""
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
    _, written = record.write_pages(papers / "pages", path)
    assert "- *all rows*: Its rows have changed since it was recorded." in written.read_text()


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
    (papers / "causes.toml").write_text(CAUSES)
    (papers / "notes").mkdir()
    (papers / "notes" / "nowhere.md").write_text("The speed was chosen.\n")
    overview, written = record.write_pages(papers / "pages", path)
    text = overview.read_text()
    assert text.startswith("# The score\n\n**The eight papers print 2 values that simulation can check; ")
    assert "Silvan reproduces 1 of them (50 %). The papers state 0 times" in text
    assert "| published numbers, two-sided | 2 | 1 | 1 | 0 | 0 | 0 | 0 | 0 |" in text
    assert "| Nowhere | 1 of 2 | 0 of 0 | 1, 2 |" in text
    assert "Experiments recorded from quick runs: X2." in text
    assert (overview.name, written.name) == ("score.md", "nowhere.md")
    own = written.read_text()
    assert own.startswith("# Nowhere\n\nSimulations meet 1 of 2 two-sided numbers that can be decided; ")
    assert "## X1: A test\n\nNowhere. Nothing. Full runs, 2 seeds.\n" in own
    assert "**Assumptions.** The same as in X1." in own
    assert "| speed | Gbit/s | 10 |  | 10.06 ± 0.79 | 10 % | met | Nowhere |" in own
    assert "| speed | Gbit/s | 10 |  | 12 | 10 % | **missed** | Nowhere |" in own
    assert "- *speed*: The source omits an input that affects the number. It is too fast." in own
    assert "| X1 | Slower links. | speed | 10 | 12 | 11 | rejected | Still too fast. |" in own
    assert own.endswith("## How parameters were chosen\n\nThe speed was chosen.\n")
    assert "| the source omits an input that affects the number | 1 | 0 | 0 | 0 | X2 |" in text
    assert "no cause is given" not in text


def test_each_row_is_counted_once(papers: Path) -> None:
    own = {
        "published numbers, two-sided": "published = 10.0",
        "other numbers and bounds: read, derived or assumed": 'read = 10.0\nbasis = "Ten or so."',
        "orderings": 'read = 1.0\nbasis = "More."',
        "published bounds": "published = 9.0",
        "computed, no packets simulated": "published = 10.0\ncomputed = true",
        "restated: gains and losses between other rows": "published = 10.0\nrestated = true",
        "weak numbers": 'published = 10.0\nweak = "Hardly."',
        "quick runs with wide tolerances": "published = 10.0\nquick_tolerance = 0.5",
        "shown without a verdict": 'read = 10.0\nbasis = "Ten or so."',
        "duplicates of other rows": 'published = 10.0\nduplicate_of = "X1.k0"',
        "not decidable": 'published = 10.0\nundecidable = "Its trace is lost."',
        "trivial: cannot fail": 'published = 10.0\ntrivial = "It is configured."\nweak = "Hardly."',
    }
    unit = {"orderings": "1"}
    tolerance = {
        "orderings": '"at least"',
        "published bounds": '"at least"',
        "shown without a verdict": '"shown"',
    }
    text = 'title = "A test"\nsource = "Nowhere"\nabout = "Nothing."\n'
    for n, (name, number) in enumerate(own.items()):
        text += f'[[row]]\nkey = "k{n}"\nquantity = "q{n}"\nunit = "{unit.get(name, "s")}"\n{number}\n'
        text += f"tolerance = {tolerance.get(name, 0.1)}\n"
    keys = ", ".join(f'"k{n}": 10.0' for n in range(len(own)))
    (papers / "X1" / "published.toml").write_text(text)
    (papers / "X1" / "experiment.py").write_text(
        CODE.replace('"speed": results["only"].summary["value"]', keys)
    )
    (papers / "X2" / "published.toml").write_text("law = true\n" + ROWS)
    path = record.find_record()
    run_experiments(["X1", "X2"], quick=True, record=path)
    text = page.summary(record.rows_by_experiment(path, list_experiments()))
    for name in own:
        verdicts = "0 | 0 | 0 | 0 | 0 | 1 | 0" if name.startswith("shown") else "1 | 0 | 0 | 0 | 0 | 0 | 0"
        assert f"| {name} | 1 | {verdicts} |" in text
    assert "1 laws and closed forms are not counted; 1 of them are met." in text
    # The ordering has a margin of ten, so this result proves little.
    assert (
        "The papers state 1 times that one value is larger than another; 1 of these orderings hold. "
        "For these, the median ratio of the two simulated values is 10, and 1 ratios are more than 2." in text
    )


@pytest.fixture(scope="module", name="recorded")
def rows_on_record() -> dict[str, Any]:
    """Return the experiments with their entries in the record and their rows, by their names."""
    return record.rows_by_experiment(record.find_record(), list_experiments())


def test_what_is_on_record_has_five_seeds_or_is_deterministic(recorded: dict[str, Any]) -> None:
    """Experiments that take a minute or more per seed may have fewer seeds."""
    for experiment, entry, _ in recorded.values():
        if entry is not None:
            seeds = {len(values) for values in entry.values.values()}
            least = 1 if experiment.full_seconds >= 60 else 5
            assert seeds == {1} if experiment.deterministic else min(seeds) >= least, experiment.id


def test_the_readme_has_the_headline_of_the_record(recorded: dict[str, Any]) -> None:
    """`silvan papers pages DIR` writes the headline into the first lines of `score.md`."""
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert page.headline(recorded) in text


def test_what_is_not_met_has_a_cause(recorded: dict[str, Any]) -> None:
    rows = [row for _, _, own in recorded.values() for row in own]
    without = [
        (r["id"], r["quantity"])
        for r in rows
        if r["verdict"] in UNMET and "undecidable" not in r and not {"reason", "cause"} <= r.keys()
    ]
    assert without == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (ROWS.replace('"input"', '"weather"'), "cause = 'weather': must be one of rule, input, "),
        (ROWS.replace('reason = "It is too fast."\n', ""), "`reason` must say more about the cause"),
    ],
)
def test_a_cause_is_a_known_one_with_a_reason(papers: Path, wrong: str, message: str) -> None:
    (papers / "X1" / "published.toml").write_text(wrong)
    with pytest.raises(PapersError, match=message):
        list_experiments()


def test_bounds_are_orderings_or_say_where_they_come_from() -> None:
    rows = [(e.id, row) for e in list_experiments() for row in e.rows]
    assert [
        (name, row.key)
        for name, row in rows
        if row.tolerance in ONE_SIDED and row.kind != "ordering" and not row.basis
    ] == []


def test_other_sources_and_compatible_draws_are_counted_on_their_own(
    papers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (papers / "X2" / "published.toml").write_text("other_source = true\n" + ROWS)
    monkeypatch.setattr(runner, "simulate", lambda task: RunData(summary={"value": 8.0 + 2 * task.repeat}))
    path = record.find_record()
    run_experiments(["X1"], seeds=5, record=path)
    run_experiments(["X2"], seeds=1, record=path)
    found = record.rows_by_experiment(path, list_experiments())
    assert score.rows_by_category(found) == {
        score.PAPERS: {"compatible: draws vary by more than the tolerance": {"compatible": ["X1.speed"]}},
        score.OTHERS: {score.NUMBERS: {"missed": ["X2.speed"]}},
    }
    assert "| published numbers, two-sided | 0/1 | 0 | 0/1 | 0 | 0 | 0 | 0 | 0 |" in page.summary(found)
    assert score.rows_by_category(found, reading=3) == {}
    assert page.headline(found).endswith("Of 1 values from other sources, Silvan reproduces 0 (0 %).")


def test_duplicates_name_a_row_with_the_same_printed_number() -> None:
    rows = {f"{e.id}.{row.key}": row for e in list_experiments() for row in e.rows}
    for name, row in rows.items():
        if row.duplicate_of:
            other = rows[row.duplicate_of]
            assert (other.expected, other.duplicate_of) == (row.expected, ""), name


def test_every_published_count_is_that_of_a_list_of_rows(recorded: dict[str, Any]) -> None:
    """`silvan papers score --json` lists the rows behind the headline."""
    found = recorded
    lists = score.rows_by_category(found)
    numbers = lists[score.PAPERS][score.NUMBERS]
    total, met = sum(map(len, numbers.values())), len(numbers["met"])
    assert page.headline(found).startswith(f"The eight papers print {total} values ")
    assert f"Silvan reproduces {met} of them (" in page.headline(found)
    readings = [score.rows_by_category(found, reading) for reading in (1, 2, 3)]
    for line, categories in lists.items():
        for name, verdicts in categories.items():
            for verdict, rows in verdicts.items():
                parts = [one.get(line, {}).get(name, {}).get(verdict, []) for one in readings]
                assert sorted(rows) == sorted(row for part in parts for row in part)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (CAUSES.replace('"rejected"', '"likely"'), "decision = 'likely': must be one of adopted, rejected"),
        (CAUSES.replace('before = "12"\n', ""), "missing or unknown: before"),
        (
            CAUSES.replace('"@fast"', '"@slow"'),
            r"why = '@slow': must be text, or @name of a text of \[texts\]",
        ),
        (CAUSES.replace('["X1"]', "[]"), r"ids = \[\]: must be a list of experiments"),
    ],
)
def test_a_cause_has_a_quantity_before_and_after_and_a_decision(
    papers: Path, wrong: str, message: str
) -> None:
    (papers / "causes.toml").write_text(wrong)
    with pytest.raises(PapersError, match=message):
        read_causes()


def test_causes_name_experiments_of_their_paper_first() -> None:
    experiments = {e.id: e for e in list_experiments()}
    for cause in read_causes():
        assert set(cause.ids) <= experiments.keys(), cause
        assert experiments[cause.ids[0]].paper == cause.paper, cause


def test_an_experiment_is_shown_with_its_causes() -> None:
    result = CliRunner().invoke(cli.application(), ["papers", "show", "t5", "--json"])
    shown = json.loads(result.stdout)
    assert {row["id"] for row in shown["rows"]} == {"T5"}
    assert shown["causes"]
    assert all("T5" in cause["ids"] for cause in shown["causes"])
    result = CliRunner().invoke(cli.application(), ["papers", "show", "T5"])
    assert "T5: One switch, one or two thresholds" in result.stdout
    assert "Causes that were tested" in result.stdout
    result = CliRunner().invoke(cli.application(), ["papers", "score"])
    assert "the eight papers" in result.stdout
    assert "other sources" in result.stdout
