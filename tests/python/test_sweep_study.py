"""Tests the contents of study files, and the messages about errors in them."""

import json
from pathlib import Path

import numpy as np
import pytest
import tomllib

import silvan
from conftest import ROOT, SMALL
from silvan.fairness import rates_gbit_s, treatment_variation
from silvan.sweeps.axes import AXIS_KEYS, RANGE_KEYS, read_axis, read_range
from silvan.sweeps.errors import Place
from silvan.sweeps.measures import MEASURE_KEYS, REDUCTIONS, read_measure
from silvan.sweeps.schema import schema
from silvan.sweeps.study import STUDY_KEYS
from silvan.tuning.problem import Tuning

PLACE = Place("study.toml")
STUDY = """\
name = "little"
scenario = "small.toml"
seeds = 2

[[axis]]
key = "congestion.mechanism"
values = ["none", "ib-cc"]

[[axis]]
key = "host.injection_rate"
name = "rate"
unit = "Gbit/s"
range = { from = 5, to = 13, step = 4 }

[[measure]]
name = "victim"
unit = "Gbit/s"
table = "flows"
column = "received_gbit_s"
of = "F1"
"""


@pytest.fixture
def written(tmp_path: Path, small: Path):
    def write(text: str) -> Path:
        path = tmp_path / "study.toml"
        path.write_text(text)
        return path

    return write


def test_a_study_spans_its_axes_and_seeds(written):
    study = silvan.Study.load(written(STUDY))
    points = study.points()
    assert (study.name, len(points)) == ("little", 2 * 3 * 2)
    assert [point.seed for point in points[:3]] == [1, 2, 1]
    assert points[0].overrides == {
        "congestion.mechanism": "none",
        "host.injection_rate": "5 Gbit/s",
        "seed": 1,
    }
    assert points[-1].steps == (1, 2)


def test_a_setting_takes_the_place_of_an_axis(written):
    study = silvan.Study.load(written(STUDY), {"congestion.mechanism": "ib-cc"})
    assert [axis.name for axis in study.axes] == ["rate"]
    assert all(point.overrides["congestion.mechanism"] == "ib-cc" for point in study.points())


def test_nested_settings_are_dotted_keys(written):
    head = STUDY.replace("seeds = 2", "seeds = 2\n[set]\nmeasure.interval = '1 ms'\n'flow.0.start' = '1 us'")
    study = silvan.Study.load(written(head))
    assert study.fixed == {"measure.interval": "1 ms", "flow.0.start": "1 us"}


#: Settings, their dotted keys, and the result with a marking rate of 3, for which the default is 1.
TABLES = {
    "a key in quotes": (
        "'congestion.marking' = { threshold = 7 }",
        {"congestion.marking": {"threshold": 7}},
        (7, 1),
    ),
    "a table": ("[set.congestion.marking]\nthreshold = 7", {"congestion.marking.threshold": 7}, (7, 3)),
    "a key without quotes": (
        "congestion.marking = { threshold = 7 }",
        {"congestion.marking.threshold": 7},
        (7, 3),
    ),
    "a table of keys in quotes": (
        "[set.congestion]\n'marking.threshold' = 7",
        {"congestion.marking.threshold": 7},
        (7, 3),
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_takes_the_place_of_another_where_its_key_is_one_of_the_command_line(written, small, name):
    text, fixed, (threshold, rate) = TABLES[name]
    small.write_text(small.read_text() + "\n[congestion]\nmechanism = 'ib-cc'\nmarking.marking_rate = 3\n")
    found = [
        silvan.Study.load(written(f"{STUDY}[set]\n{text}\n")),
        Tuning.load(written(f"scenario = 'small.toml'\n[set]\n{text}\n")),
    ]
    for one in found:
        assert one.fixed == fixed
        resolved = one.base.at(one.fixed).to_toml()
        marking = tomllib.loads(resolved)["congestion"]["marking"]
        assert (marking["threshold"], marking["marking_rate"]) == (threshold, rate)
    if rate == 1:
        same = silvan.Scenario.load(small, fixed).to_toml()
        assert tomllib.loads(same) == tomllib.loads(resolved), "as after --set"


@pytest.mark.parametrize(
    ("table", "values"),
    [
        ({"from": 0, "to": 20, "step": 5}, (0, 5, 10, 15, 20)),
        ({"from": 0.1, "to": 0.4, "step": 0.1}, (0.1, 0.2, 0.3, 0.4)),
        ({"from": 10, "to": 1, "step": -3}, (10, 7, 4, 1)),
        ({"from": 0.0, "to": 1.0, "count": 5}, (0.0, 0.25, 0.5, 0.75, 1.0)),
        ({"from": 1, "to": 1000, "count": 4, "scale": "log"}, (1, 10, 100, 1000)),
        ({"from": 1.0, "to": 2.0, "count": 3, "scale": "log"}, (1.0, 1.41421356237, 2.0)),
    ],
)
def test_ranges(table, values):
    given = read_range("range", table, PLACE)
    assert given == values
    assert [type(value) for value in given] == [type(value) for value in values]


def test_keys_that_move_together():
    axis = read_axis("axis.0", {"zip": {"topology.k": [4, 6], "topology.n": [2, 3]}}, PLACE)
    assert axis.name == "topology.k"
    assert axis.at(1) == {"topology.k": 6, "topology.n": 3}
    assert axis.together == {"topology.n": (2, 3)}
    labelled = read_axis("axis.0", {"name": "size", "values": ["S", "L"], "zip": {"k": [4, 6]}}, PLACE)
    assert (labelled.labels, labelled.at(0)) == (("S", "L"), {"k": 4})


REFUSED = {
    "no scenario": ('name = "x"', 'study.toml: names no scenario: write scenario = "FILE", relative'),
    "not there": ('scenario = "no.toml"', 'study.toml:1: scenario = "no.toml": there is no file '),
    "no TOML": ("scenario =", "study.toml: not valid TOML: "),
    "unknown key": (
        'scenario = "small.toml"\n\nsed = 3',
        "study.toml:3: sed = 3: unknown key; did you mean `seeds`? known here: `name`,",
    ),
    "seeds": (
        STUDY.replace("seeds = 2", "seeds = 0"),
        "study.toml:3: seeds = 0: must be the number of seeds (1, 2, ...), or a list of different seeds",
    ),
    "keep": (STUDY.replace("seeds = 2", 'keep = "all"'), "must be `tables` or `summary`"),
    "unknown key of an axis": (
        STUDY.replace("values =", "valuse ="),
        "study.toml:7: axis.0.valuse = ['none', 'ib-cc']: unknown key; did you mean `values`?",
    ),
    "no values": (
        STUDY.replace('["none", "ib-cc"]', "[]"),
        "study.toml:7: axis.0.values = []: must be a list with at least one value",
    ),
    "date": (
        STUDY.replace('["none", "ib-cc"]', '["none", [2026-01-01]]'),
        'study.toml:7: axis.0.values = "2026-01-01": is a date or a time of day, which no key of a ',
    ),
    "date of a setting": (
        STUDY + "[set]\nname = { a = 07:32:00 }\n",
        'set.name = "07:32:00": is a date or a time of day',
    ),
    "twice": (STUDY.replace('"ib-cc"]', '"none"]'), "study.toml:5: axis.0: the value 'none' occurs twice"),
    "range": (
        STUDY.replace("step = 4", "step = 3"),
        "study.toml:13: axis.1.range = {'from': 5, 'to': 13, 'step': 3}: "
        "`step` must lead from `from` to `to` in whole steps",
    ),
    "range of endlessly many": (
        STUDY.replace("step = 4", "step = 1e-300"),
        "axis.1.range.step = 1e-300: gives more than 100,000 values, which is the maximum",
    ),
    "range beyond all numbers": (
        STUDY.replace("step = 4", "step = 5e-324"),
        "axis.1.range.step = 5e-324: gives more than 100,000 values, which is the maximum",
    ),
    "range to infinity": (
        STUDY.replace("to = 13, step = 4", f"to = 1{'0' * 400}, step = 4"),
        "must be a number, at most 1e+300 in size",
    ),
    "range of too many values": (
        STUDY.replace("step = 4", f"count = 1{'0' * 299}"),
        "axis.1.range.count = 1e+299: must be at most 100,000",
    ),
    "range without step": (
        STUDY.replace(", step = 4", ""),
        "axis.1.range: needs `from`, `to`, and either `step` or `count`",
    ),
    "seed as an axis": (
        STUDY.replace("congestion.mechanism", "seed"),
        'study.toml:6: axis.0.key = "seed": seeds are a separate axis',
    ),
    "same key": (STUDY.replace("host.injection_rate", "congestion.mechanism"), "two axes set `congestion.me"),
    "same name": (STUDY.replace('"victim"', '"rate"'), "two axes or measures are called `rate`"),
    "reserved": (STUDY.replace('"victim"', '"error"'), "`error` is the name of another column"),
    "unit of a text": (
        STUDY.replace('key = "congestion', "unit = 'ms'\nkey = \"congestion"),
        'axis.0.values = "none": the axis has the unit ms, so its values are numbers',
    ),
    "table": (
        STUDY.replace('"flows"', '"flow"'),
        'study.toml:18: measure.0.table = "flow": must be one of `flows`, `hosts`, `links`, `classes`, '
        "`network`",
    ),
    "time": (
        STUDY + 'start = "1 h"\n',
        'study.toml:21: measure.0.start = "1 h": not a time; write for example',
    ),
    "statistic": (STUDY + 'across = "gini"\n', 'measure.0.across = "gini": must be one of `mean`, `min`,'),
    "either": (STUDY + 'summary = "x"\n', "measure.0: needs either `summary = "),
    "too many": (
        STUDY.replace("to = 13, step = 4", "to = 90004, step = 1"),
        "360,000 runs in all; at most 100,000 are accepted",
    ),
    "lengths": (
        'scenario = "small.toml"\n[[axis]]\nzip = { a = [1, 2], b = [1] }',
        "study.toml:3: axis.0.zip.b: has 1 values, and the axis 2 steps",
    ),
    "name": ('name = "../x"\nscenario = "small.toml"', 'name = "../x": is also the name of a folder'),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_say_where_what_and_what_is_right(written, case):
    text, message = REFUSED[case]
    path = written(text)
    with pytest.raises(silvan.SweepError) as refused:
        silvan.Study.load(path)
    assert message in str(refused.value)
    assert str(refused.value).startswith(str(path))


def test_a_wrong_scenario_is_told_before_anything_runs(written, tmp_path):
    (tmp_path / "small.toml").write_text(SMALL.replace("duration", "duratio"))
    with pytest.raises(silvan.ScenarioError, match=r"small.toml:4: duratio = "):
        silvan.Study.load(written(STUDY))


def measure(result: silvan.Result, **table: object) -> float | None:
    return read_measure("measure.0", {"name": "m", **table}, PLACE).of_run(result)


def test_measures_of_the_summary(result):
    summary = result.summary
    assert measure(result, summary="jain_flows") == summary["jain_flows"]
    assert measure(result, summary="flows.F2.received_gbit_s") == summary["flows"][1]["received_gbit_s"]
    of_f1 = [entry for entry in summary["latency"] if entry["class"] == "F1"]
    injected = next(entry for entry in of_f1 if entry["since"] == "injection")
    assert measure(result, summary="latency.F1.injection.p99_ns") == injected["p99_ns"]
    assert measure(result, summary="flows.F1.completed_ns") is None


def test_measures_of_tables(result):
    rates = rates_gbit_s(result, ["F2", "F3"], start_s=1e-3)
    common = {"table": "flows", "column": "received_gbit_s", "of": ["F2", "F3"]}
    assert measure(result, **common) == pytest.approx(rates.mean(), rel=1e-12)
    assert measure(result, **common, over_time="max", across="min") == pytest.approx(rates.max(axis=1).min())
    late = rates_gbit_s(result, ["F2", "F3"], start_s=2e-3, end_s=2.5e-3)
    variation = measure(result, **common, statistic="treatment_variation", start="2 ms", end="2500 us")
    assert variation == pytest.approx(treatment_variation(late), rel=1e-12)
    assert measure(result, table="flows", column="received_gbit_s", of="F[23]") == measure(result, **common)
    inside = result.numpy("network")["packets_inside"]
    assert measure(result, table="network", column="packets_inside", over_time="last") == inside[-1]


@pytest.mark.parametrize("name", sorted(REDUCTIONS))
def test_reductions_go_along_the_last_axis(name):
    values = np.array([[1.0, 2.0, 6.0], [3.0, 3.0, 3.0]])
    reduced = REDUCTIONS[name](values)
    assert reduced.shape == (2,)
    assert reduced[1] == pytest.approx({"sum": 9.0, "std": 0.0}.get(name, 3.0))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"summary": "jain"}, "measure `m`: the summary has no `jain`; there are simulated_ns,"),
        ({"summary": "flows.F9.x"}, "measure `m`: the summary has no `flows.F9`; there are F1, F2, F3"),
        (
            {"summary": "flows.F1"},
            "measure `m`: `flows.F1` of the summary is not a number; continue with one of f",
        ),
        ({"summary": "latency.F1"}, "continue with one of generation, injection"),
        (
            {"table": "flows", "column": "rate"},
            "measure `m`: `flows` has no column `rate`; there are received_gbit_s, sent_gbit_s, rec",
        ),
        (
            {"table": "flows", "column": "ccti", "of": "G*"},
            "measure `m`: the table `flows` has no names like G*; there are F1, F2, F3",
        ),
        (
            {"table": "flows", "column": "ccti", "start": "1 s"},
            "measure `m`: no sampling interval is between 1 s and 0.003 s",
        ),
    ],
)
def test_a_measure_that_a_run_does_not_have(result, table, message):
    with pytest.raises(silvan.SweepError) as refused:
        measure(result, **table)
    assert message in str(refused.value)


TRANSFERS = """
seed = 2
duration = "200 us"
warmup = "40 us"
topology = { kind = "star", hosts = 8, link_rate = "100 Gbit/s" }
[[traffic]]
name = "small"
pattern = { kind = "uniform" }
sizes = { kind = "rpc" }
load_percent = 30
arrivals = "poisson"
[[traffic]]
name = "large"
pattern = { kind = "uniform" }
sizes = { kind = "hadoop" }
load_percent = 30
"""


def test_measures_of_transfers():
    result = silvan.run(silvan.Scenario.from_toml(TRANSFERS))
    table = result.numpy("transfers")
    common = {"table": "transfers", "column": "slowdown"}
    counted = (table["start_ns"] >= 40_000) & ~np.isnan(table["slowdown"])
    # The same numbers as in the summary, whose first entries are about all sizes of a class.
    for entry in result.summary["transfers"]["sizes"]:
        sizes = (
            {"above": f"{entry['above_bytes']} B", "up_to": f"{entry['up_to_bytes']} B"}
            if ("up_to_bytes" in entry)
            else {}
        )
        if "up_to_bytes" not in entry and "above_bytes" in entry:
            sizes = {"above": f"{entry['above_bytes']} B"}
        of = {**common, "of": entry["class"], **sizes}
        assert measure(result, **of, across="count") == entry["transfers"]
        assert measure(result, **of, across="p99") == entry["slowdown"]["p99"]
        assert measure(result, **of, across="median") == entry["slowdown"]["p50"]
    assert measure(result, **common) == pytest.approx(table["slowdown"][counted].mean(), rel=1e-12)
    # Transfers that started in a span, whether finished or not.
    inside = (table["start_ns"] >= 100_000) & (table["start_ns"] <= 150_000)
    span = {"column": "bytes", "start": "100 us", "end": "150 us"}
    assert measure(result, table="transfers", **span, across="sum") == table["bytes"][inside].sum()
    assert measure(result, **common, above="1 GB") is None
    assert measure(result, **common, above="1 GB", across="count") == 0


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"over_time": "max"},
            "measure.0.over_time: the table `transfers` has a row per transfer, not per in",
        ),
        ({"statistic": "treatment_variation"}, "measure.0.statistic: the table `transfers` has a row per"),
        (
            {"across": "jain"},
            'measure.0.across = "jain": must be one of `mean`, `min`, `max`, `sum`, `std`, ',
        ),
        ({"above": "3 k"}, 'measure.0.above = "3 k": not a size; write for example "100 kB"'),
        ({"above": "3 kB", "up_to": "2 kB"}, 'measure.0.up_to = "2 kB": must be more than `above`'),
        ({"table": "flows", "up_to": "2 kB"}, "measure.0.up_to: is for measures of the table `transfers`"),
        ({}, "measure `m`: no transfers were recorded; set measure.transfers = true"),
    ],
)
def test_measures_of_transfers_that_are_refused(result, table, message):
    with pytest.raises(silvan.SweepError) as refused:
        measure(result, **{"table": "transfers", "column": "slowdown", **table})
    assert message in str(refused.value)


def test_an_optional_measure_has_no_value_where_the_summary_lacks_it(result):
    assert measure(result, summary="flows.F9.x", optional=True) is None
    assert measure(result, summary="jain_flows", optional=True) == result.summary["jain_flows"]
    with pytest.raises(silvan.SweepError, match="is not a number"):
        measure(result, summary="flows.F1", optional=True)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"summary": "jain", "optional": 1}, "optional = 1: must be true or false"),
        ({"table": "flows", "column": "ccti", "optional": True}, "is for measures of the `summary`"),
    ],
)
def test_an_optional_measure_that_is_not_one(result, table, message):
    with pytest.raises(silvan.SweepError) as refused:
        measure(result, **table)
    assert message in str(refused.value)


def test_the_published_schema_is_that_of_the_reader():
    published = json.loads((ROOT / "docs" / "study.schema.json").read_text())
    assert published == schema(), "update it: silvan schema --study > docs/study.schema.json"
    of_lists = {name: published["properties"][name]["items"]["properties"] for name in ("axis", "measure")}
    assert set(published["properties"]) == set(STUDY_KEYS)
    assert set(of_lists["axis"]) == set(AXIS_KEYS)
    assert set(of_lists["axis"]["range"]["properties"]) == set(RANGE_KEYS)
    assert set(of_lists["measure"]) == set(MEASURE_KEYS)


@pytest.mark.parametrize("path", sorted((ROOT / "studies").glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_studies_can_begin(path):
    study = silvan.Study.load(path)
    assert study.name == path.stem
    for point in study.points():
        study.base.at(point.overrides)


def test_the_example_of_the_documentation_is_a_study(tmp_path):
    text = (ROOT / "docs" / "sweeps.md").read_text()
    example = text.split("```toml\n")[1].split("```")[0]
    path = tmp_path / "study.toml"
    path.write_text(example.replace("../scenarios/testbed.toml", str(ROOT / "scenarios" / "testbed.toml")))
    study = silvan.Study.load(path)
    assert len(study.points()) == 4 * 3 * 2 * 5
    study.base.at(study.points()[-1].overrides)
