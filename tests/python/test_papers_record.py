"""Tests the record of the published experiments: it is stored, read, written into the page, and current."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from conftest import ROOT
from silvan import cli
from silvan.papers import (
    PapersError,
    RunData,
    history,
    list_experiments,
    page,
    record,
    run_experiments,
    runner,
    score,
)
from silvan.papers.catalogue import ONE_SIDED, READINGS, UNMET
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
    assert text.startswith("# The score\n\n**Of 2 values that the eight papers print, 2 are counted; ")
    assert "Silvan reproduces 1 of them (50 %): 1 of 2 free of calibration, and 0 of 0 that were used" in text
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
        "restated: levels and results of other rows": 'published = 10.0\nrestated = "X1.k0"',
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
    text = page.summary(record.rows_by_experiment(path, list_experiments()), None)
    for name in own:
        verdicts = "0 | 0 | 0 | 0 | 0 | 1 | 0" if name.startswith("shown") else "1 | 0 | 0 | 0 | 0 | 0 | 0"
        assert f"| {name} | 1 | {verdicts} |" in text
    assert "1 laws and closed forms are not counted; 1 of them are met." in text
    # The ordering has a margin of ten, so this result proves little.
    assert (
        "1 rows compare two simulated values of which the papers state the larger one; "
        "1 of these orderings hold (1 of 1 free of calibration). "
        "For these, the median ratio of the two simulated values is 10, and 1 ratios are more than 2. "
        "The orderings test 1 statements; 1 of these hold in all their orderings." in text
    )


def test_a_statement_holds_if_all_its_orderings_hold(papers: Path) -> None:
    row = '[[row]]\nkey = "{}"\nquantity = "q"\nunit = "1"\nread = 1.0\nbasis = "More."\ntolerance = "{}"\n'
    text = 'title = "A test"\nsource = "Nowhere"\nabout = "Nothing."\n'
    for key, tolerance, name in (("a", "at least", "S"), ("b", "at most", "S"), ("c", "at least", "")):
        text += row.format(key, tolerance) + (f'statement = "{name}"\n' if name else "")
    (papers / "X1" / "published.toml").write_text(text)
    (papers / "X1" / "experiment.py").write_text(
        CODE.replace('"speed": results["only"].summary["value"]', '"a": 10.0, "b": 10.0, "c": 10.0')
    )
    path = record.find_record()
    run_experiments(["X1"], quick=True, record=path)
    found = record.rows_by_experiment(path, list_experiments())
    statements = score.by_statement(score.of_category(score.compared(found, score.PAPERS), score.ORDERS))
    assert {name: [row["key"] for row in rows] for name, rows in statements.items()} == {
        "S": ["a", "b"],
        "X1.c": ["c"],
    }
    assert score.hold(statements) == ["X1.c"]
    summary = page.summary(found, None)
    assert "The orderings test 2 statements; 1 of these hold in all their orderings." in summary
    assert "| S | 1 of 2 | X1.a, X1.b |" in summary
    (papers / "X1" / "published.toml").write_text(text.replace('"at most"', "0.1"))
    with pytest.raises(PapersError, match="row 2: statement = 'S': only an ordering can be part of"):
        list_experiments()


def test_the_orderings_of_a_statement_are_of_one_paper(recorded: dict[str, Any]) -> None:
    rows = [(e.paper, row) for e, _, own in recorded.values() for row in own if "statement" in row]
    papers_of: dict[str, set[str]] = {}
    for paper, row in rows:
        papers_of.setdefault(row["statement"], set()).add(paper)
        assert row["statement"].startswith(f"{paper}: ")
        assert score.category(row) == score.ORDERS
    assert all(len(names) == 1 for names in papers_of.values())
    assert all(sum(row["statement"] == name for _, row in rows) > 1 for name in papers_of)


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
    assert page.headline(recorded, history.of_papers()) in text


def test_the_readme_states_the_three_figures_of_the_rows(recorded: dict[str, Any]) -> None:
    """Count the figures from the rows themselves instead of with the functions that write them."""
    rows = [
        row
        for experiment, _, own in recorded.values()
        for row in own
        if not experiment.law and not experiment.other_source
    ]
    counted = [row for row in rows if score.category(row) == score.NUMBERS]
    figures = {}
    for mark in (False, True):
        own = [row["verdict"] for row in counted if ("calibrated" in row) is mark]
        figures[mark] = f"{own.count('met')} of {len(own)}"
    printed = sum(row["published"] is not None for row in rows)
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"Of {printed} values that the eight papers print, {len(counted)} are counted" in text
    assert f"{figures[False]} free of calibration, and {figures[True]} that were used to choose" in text


def test_each_row_has_one_verdict_and_one_category(recorded: dict[str, Any]) -> None:
    names = [f"{row['id']}.{row['key']}" for _, _, own in recorded.values() for row in own]
    laws = {e.id for e, _, _ in recorded.values() if e.law}
    listed = [
        name
        for categories in score.rows_by_category(recorded).values()
        for verdicts in categories.values()
        for own in verdicts.values()
        for name in own
    ]
    assert sorted(listed) == sorted(name for name in names if name.partition(".")[0] not in laws)
    assert len(set(listed)) == len(listed)


#: Rows whose own numbers chose a parameter, a rule or a time span of the model.
CALIBRATED = (
    *(f"T4.on_mean{suffix}" for suffix in ("", "_F1", "_F2", "_F3", "_I")),
    *(f"S3.n{flows}_b{packets}" for flows in range(1, 6) for packets in (2, 4)),
    *("T9.b_random_latency", "T9.c_random_bandwidth", "F5.gain_10", "F6.gain_10", "T2.together_hardware"),
    *("H7.EcoCC_over_HFDI_4", "H7.EcoCC_over_HFDI_6", "M1.none_peak", "F1.hotspots_loss", "H6.EcoCC_1VL_1"),
    *("F5.gain_falls", "F6.gain_falls"),
    *(f"H5.{name}" for name in ("EcoCC_over_HFDI_4", "EcoCC_victims_6", "IB-ITh_4", "1VL_worst_4", "best")),
    *(f"H7.{name}" for name in ("HFDI_4_over_1", "HFDI_6_over_4", "HFDI_stays_4", "HFDI_stays_6")),
)


def test_a_calibrated_row_is_never_counted_as_free(recorded: dict[str, Any]) -> None:
    rows = [row for _, _, own in recorded.values() for row in own]
    free, calibrated = score.by_calibration(rows)
    assert not [row for row in free if row.get("calibrated")]
    assert len(free) + len(calibrated) == len(rows)
    marked = {f"{row['id']}.{row['key']}" for row in calibrated}
    assert set(CALIBRATED) <= marked
    # Every row of an experiment whose rule was chosen by its rows.
    assert {row["id"] for row in free}.isdisjoint({"H6"})


def test_effects_are_counted_and_their_levels_are_not(recorded: dict[str, Any]) -> None:
    rows = {f"{row['id']}.{row['key']}": row for _, _, own in recorded.values() for row in own}
    for name, row in rows.items():
        if "restated" in row:
            other = rows[row["restated"]]
            assert "restated" not in other, name
            assert score.category(row) not in score.HEADLINE, name
    for effect in ("T4.change", "F5.gain_10", "F1.hotspots_loss", "F1.others_left", "F2.loss_percent"):
        assert score.category(rows[effect]) == score.NUMBERS
        assert rows[effect]["verdict"] in ("missed", "incompatible")
    assert all(rows[f"S3.n{n}_b16"]["duplicate_of"] == f"S3.n{n}_b8" for n in range(1, 6))
    assert (rows["M1.none_peak"]["kind"], rows["M1.none_peak"]["verdict"]) == ("two-sided", "incompatible")
    assert (score.category(rows["H3.best"]), rows["H3.best"]["verdict"]) == (score.ORDERS, "open")
    assert score.category(rows["M9.outstanding"]) == "not decidable"


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


def _assumptions(name: str, texts: dict[str, str], seen: set[str]) -> str:
    """Return the assumptions of an experiment and of those to which they refer."""
    seen.add(name)
    others = [other for other in re.findall(r"\b[A-Z]\d+\b", texts[name]) if other in texts]
    return " ".join([texts[name], *(_assumptions(own, texts, seen) for own in others if own not in seen)])


def test_assumptions_state_each_value_that_a_scenario_marks_as_not_published() -> None:
    experiments = list_experiments()
    texts = {e.id: " ".join(e.assumption.split()) for e in experiments}
    silent = []
    for own in experiments:
        files = {own.folder / scenario for scenario, _ in own.code.runs(True).values()}
        scenarios = [path.read_text() for path in sorted(files) if path.suffix == ".toml"]
        values = re.findall(r'= (?:{ \w+ = )?"?([\w ]*\w)"?(?: })? +# not published', "\n".join(scenarios))
        stated = _assumptions(own.id, texts, set())
        silent += [(own.id, value) for value in values if not re.search(rf"\b{value}\b", stated)]
    assert silent == []


def test_each_row_has_a_unit() -> None:
    assert [(own.id, row.key) for own in list_experiments() for row in own.rows if not row.unit] == []


def test_the_page_of_papers_explains_each_tolerance() -> None:
    found = {row.tolerance for e in list_experiments() for row in e.rows if isinstance(row.tolerance, float)}
    page_text = (ROOT / "docs" / "papers.md").read_text()
    explained = {
        float(percent) / 100 for percent in re.findall(r"^\| ([\d.]+) % \|", page_text, re.MULTILINE)
    }
    assert {tolerance for tolerance in found if tolerance > 0.001} == explained


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
    assert "| published numbers, two-sided | 0/1 | 0 | 0/1 | 0 | 0 | 0 | 0 | 0 |" in page.summary(found, None)
    assert score.rows_by_category(found, reading=3) == {}
    assert page.headline(found, None).endswith("Of 1 values from other sources, Silvan reproduces 0 (0 %).")


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
    assert f" values that the eight papers print, {total} are counted; " in page.headline(found, None)
    assert f"Silvan reproduces {met} of them (" in page.headline(found, None)
    readings = [score.rows_by_category(found, reading) for reading in READINGS]
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


def test_an_experiment_is_shown_with_its_causes(recorded: dict[str, Any]) -> None:
    result = CliRunner().invoke(cli.application(), ["papers", "show", "t5", "--json"])
    shown = json.loads(result.stdout)
    assert {row["id"] for row in shown["rows"]} == {"T5"}
    assert shown["causes"]
    assert all("T5" in cause["ids"] for cause in shown["causes"])
    result = CliRunner().invoke(cli.application(), ["papers", "show", "T5"])
    assert "T5: One switch, one or two thresholds" in result.stdout
    assert "Causes that were tested" in result.stdout
    result = CliRunner().invoke(cli.application(), ["papers", "score"])
    stated = score.by_statement(score.of_category(score.compared(recorded, score.PAPERS), score.ORDERS))
    assert f"test {len(stated)} statements; {len(score.hold(stated))} hold in all" in result.stdout
    assert "the eight papers" in result.stdout
    assert "other sources" in result.stdout


def test_the_history_has_the_fixed_set_and_its_totals(recorded: dict[str, Any]) -> None:
    fixed = history.read(history.find_history())
    assert len(fixed.rows) == 185
    result = CliRunner().invoke(cli.application(), ["papers", "score", "--history", "--json"])
    shown = json.loads(result.stdout)
    assert list(shown) == [*fixed.points, "now"]
    for n, label in enumerate(fixed.points):
        assert shown[label] == {row.name: row.verdicts[n] for row in fixed.rows}
    assert fixed.points[0].endswith(" c29aaddd")
    # What was recorded in the past stays the same.
    stored = [[row.verdicts[n] for row in fixed.rows] for n in range(7)]
    assert [own.count("met") for own in stored] == [113, 116, 120, 120, 120, 120, 120]
    assert [own.count("open") for own in stored] == [7, 6, 6, 9, 8, 10, 10]
    table = CliRunner().invoke(cli.application(), ["papers", "score", "--history"]).stdout
    over_time = page.summary(recorded, fixed)
    for label, own in shown.items():
        verdicts = list(own.values())
        counts = [verdicts.count(one) for one in ("met", "missed", "open", "not run")]
        assert sum(counts) == 185
        assert f"| {label} | {' | '.join(map(str, counts))} |" in over_time
        (line,) = (line for line in table.splitlines() if line.strip().startswith(f"{label} "))
        assert line.split()[-5:-1] == ["185", *map(str, counts[:3])]
    now = list(shown["now"].values()).count("met")
    assert f"Silvan reproduced 113 then and reproduces {now} now, by the same tolerances." in page.headline(
        recorded, fixed
    )


#: A row that was called X1.pace when it was missed.
HISTORY = "row,expected,tolerance,gain,now,2026-01-01 abc\nX1.pace,10.0,0.1,,X1.speed,missed\n"


def test_a_row_that_was_renamed_is_followed(papers: Path) -> None:
    run_experiments(["X1"], seeds=2, record=record.find_record())
    path = history.find_history()
    path.write_text(HISTORY)
    # Later changes of the tolerance do not change the verdicts of the fixed set.
    (papers / "X1" / "published.toml").write_text(ROWS.replace("tolerance = 0.1", "tolerance = 0.0"))
    found = record.rows_by_experiment(record.find_record(), list_experiments())
    assert found["X1"][2][0]["verdict"] == "open"
    history.add(path, "2026-01-02 def", found)
    assert path.read_text() == HISTORY.replace(" abc", " abc,2026-01-02 def").replace("missed", "missed,met")
    assert history.points(history.read(path), found) == {
        "2026-01-01 abc": {"X1.pace": "missed"},
        "2026-01-02 def": {"X1.pace": "met"},
        "now": {"X1.pace": "met"},
    }
    with pytest.raises(PapersError, match="there is a point `2026-01-02 def` already"):
        history.add(path, "2026-01-02 def", found)
    (papers / "X1" / "scenario.toml").write_text("seed = 2")
    found = record.rows_by_experiment(record.find_record(), list_experiments())
    assert history.judge(history.read(path), found) == ("not run",)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("", "not a history"),
        (HISTORY.replace("row,", "name,"), "line 1: must begin with row,expected,tolerance,gain,now"),
        (HISTORY.replace(",missed", ""), "line 2: has 5 fields instead of 6"),
        (HISTORY.replace("10.0", "ten"), "line 2: expected and tolerance must be numbers"),
        (HISTORY.replace("missed", "lost"), "line 2: gain must be empty or `gain`, and verdicts met, missed"),
        (HISTORY + HISTORY.splitlines()[1], "two lines have the same row"),
        (
            HISTORY.replace(",X1.speed", ","),
            "X1.pace of the history: there is no row X1.pace; the column `now`",
        ),
    ],
)
def test_a_history_that_is_invalid_is_refused(papers: Path, wrong: str, message: str) -> None:
    run_experiments(["X1"], record=record.find_record())
    history.find_history().write_text(wrong)
    result = CliRunner().invoke(cli.application(), ["papers", "score", "--history"])
    assert result.exit_code != 0
    with pytest.raises(PapersError, match=message):
        history.judge(
            history.read(history.find_history()),
            record.rows_by_experiment(record.find_record(), list_experiments()),
        )


@pytest.mark.parametrize("options", [["--add", "2026-01-02 def"], ["--history", "--reading", "1"]])
def test_options_of_the_score_that_exclude_each_other_are_refused(options: list[str]) -> None:
    result = CliRunner().invoke(cli.application(), ["papers", "score", *options])
    assert result.exit_code == 2
