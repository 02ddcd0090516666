"""Tests that `silvan tune` and `silvan fabric study` reject malicious input with clear messages."""

import os
import re

import pytest

import silvan
from conftest import FABRICS, command
from silvan.fabric.studies import load
from silvan.tuning import presets
from silvan.tuning.problem import Tuning

GOOD = """
name = "good"
scenario = "small.toml"
runs = 8
confirm = 2
[set]
duration = "1 ms"
warmup = "500 us"
[[traffic]]
name = "one"
[[axis]]
key = "congestion.reaction.ccti_increase"
values = [1, 2, 4, 8]
[[objective]]
of = "victims"
[[unseen]]
name = "two"
set = { "flow.1.start" = "100 us" }
"""
#: Each case is a text, its replacement, and the expected message.
WRONG = [
    ('name = "good"', 'name = "a/b"', r"tune.toml:2: name = \"a/b\": is also the name of a folder"),
    ('name = "good"', 'name = "\\u0007"', "no control characters"),
    ('"small.toml"', '"missing.toml"', r"tune.toml:3: scenario = \"missing.toml\": there is no file"),
    ('scenario = "small.toml"', "", "names no scenario: write scenario ="),
    ('scenario = "small.toml"', "scenario = 7", "scenario = 7: must be a text"),
    ("runs = 8", "runs = 0", r"tune.toml:4: runs = 0: must be a whole number from 1 to 100,000"),
    ("runs = 8", "runs = 1", "must be at least 2: the reference and one setting"),
    ("runs = 8", "runs = 10000000000000000000000", "runs = 10000000000000000000000: must be a whole number"),
    ("runs = 8", "runs = true", "runs = true: must be a whole number"),
    ("runs = 8", 'runs = "8"', "must be a whole number"),
    ("runs = 8", "runs = 1e3", "must be a whole number"),
    ("runs = 8", "run = 8", r"run = 8: unknown key; did you mean `runs`\?"),
    ("confirm = 2", "confirm = 1", "confirm = 1: must be a whole number from 2 to 100"),
    ("confirm = 2", "seeds = -1", "seeds = -1: must be a whole number from 1 to 100"),
    ("confirm = 2", "batch = 0", "batch = 0: must be a whole number from 1 to 1,000"),
    ("confirm = 2", "sampler_seed = -1", "sampler_seed = -1: must be a whole number"),
    ("confirm = 2", 'mix = "best"', 'mix = "best": must be one of `weighted`, `worst`, `pareto`'),
    ("confirm = 2", 'mix = "pareto"', "`pareto` needs at least two objectives"),
    ("confirm = 2", "hotspots = []", "hotspots = \\[\\]: must be a list of names of hosts"),
    ("confirm = 2", "short = 3", "short = 3: must be a table of keys"),
    ("confirm = 2", "short = { duration = 2026-01-01 }", "is a date or a time of day"),
    ("[set]\n", "[set]\na.b = 1979-05-27\n", "is a date or a time of day"),
    (
        '[[traffic]]\nname = "one"',
        "[[traffic]]",
        r"traffic.0.name: must be a text|traffic.0.name = \"\": must be a text",
    ),
    ('[[traffic]]\nname = "one"', "[traffic]\nname = 1", r"must be written as \[\[traffic\]\]"),
    ('name = "one"', 'name = "one"\nsets = 1', "traffic.0.sets = 1: unknown key; did you mean `set`"),
    ('name = "one"', 'name = "one"\n[[traffic]]\nname = "one"', "the name `one` occurs twice"),
    (
        'name = "one"',
        'name = "one"\nset = { "congestion.reaction.ccti_increase" = 3 }',
        "sets `congestion.reaction.ccti_increase`, which is searched",
    ),
    ("values = [1, 2, 4, 8]", "values = [1]", "nothing to search: define an axis with at least two values"),
    ("values = [1, 2, 4, 8]", "values = []", "must be a list with at least one value"),
    ("values = [1, 2, 4, 8]", "values = [1, 1]", "the value 1 occurs twice"),
    ("values = [1, 2, 4, 8]", "range = { from = 1, to = 1e308, step = 1 }", "must be a number, at most 1e"),
    (
        "values = [1, 2, 4, 8]",
        "values = [1, 9999999999999999999999]",
        "whole numbers are at most 9223372036854775807",
    ),
    ('of = "victims"', "of = [1]", r"objective.0.of = \[1\]: must be one of `victims`"),
    ('of = "victims"', "of = {}", "objective.0.of = {}: must be one of `victims`"),
    ('of = "victims"', 'of = "victims"\nweight = 1e400', "must be a number above 0, at most 1000"),
    ('of = "victims"', f'of = "victims"\nweight = {"9" * 400}', "must be a number above 0, at most 1000"),
    ("confirm = 2", "unseen_runs = -1", "unseen_runs = -1: must be 0, or a whole number from 2 to 100,000"),
    ("confirm = 2", "unseen_runs = 1", "unseen_runs = 1: must be 0, or a whole number from 2"),
    ("confirm = 2", "unseen_runs = true", "unseen_runs = true: must be 0, or a whole number"),
    ("[[unseen]]", "[unseen]", r"must be written as \[\[unseen\]\]"),
    ('name = "two"', "", r"unseen.0.name = \"\": must be a text"),
    ('name = "two"', 'name = "one"', "the name `one` occurs twice"),
    ('name = "two"', 'name = "two"\nobjective = ["victims"]', "unknown key; did you mean `objectives`"),
    ('name = "two"', 'name = "two"\nobjectives = "victims"', "must be a list of names of objectives"),
    ('name = "two"', 'name = "two"\nobjectives = []', "must be a list of names of objectives"),
    (
        'name = "two"',
        'name = "two"\nobjectives = ["latency"]',
        "unseen.two: `latency` is not one of the objectives `victims`",
    ),
    ('set = { "flow.1.start" = "100 us" }', "", "unseen.two: equals the traffic `one`, which the search"),
    (
        'set = { "flow.1.start" = "100 us" }',
        'set = { "congestion.reaction.ccti_increase" = 3 }',
        "unseen.two: sets `congestion.reaction.ccti_increase`, which is searched",
    ),
    ('set = { "flow.1.start" = "100 us" }', "set = { a = 2026-01-01 }", "is a date or a time of day"),
    ('of = "victims"', 'of = "speed"', "must be one of `victims`, `hotspots`, `latency`, `fairness`"),
    ('of = "victims"', 'of = "victims"\nweight = 0', "weight = 0: must be a number above 0"),
    ('of = "victims"', 'of = "victims"\nweight = nan', "must be a number above 0"),
    ('of = "victims"', 'of = "victims"\ngoal = "up"', "must be `max` or `min`"),
    ('of = "victims"', 'name = "x"\nsummary = "throughput_gbit_s"', 'a measure needs `goal = "max"` or'),
    ('of = "victims"', 'name = "x"', "needs `of` with one of `victims`"),
    ('name = "good"', 'name = "good', "not valid TOML"),
    ('name = "good"', f"{'.'.join('a' * 70)} = 1", "a key has more than 64 parts"),
    ('name = "good"', f"name = {'[' * 3000}{']' * 3000}", "nested too deep|not valid TOML"),
]


def changed(small, old, new):
    path = small.parent / "tune.toml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    return path


@pytest.mark.parametrize(("old", "new", "message"), WRONG)
def test_wrong_files_are_refused_before_anything_runs(small, old, new, message):
    with pytest.raises(silvan.SweepError) as error:
        Tuning.load(changed(small, old, new))
    assert re.search(message, str(error.value)), error.value
    assert "tune.toml" in str(error.value)
    assert len(str(error.value)) < 400


def test_the_file_that_they_are_made_of_is_fine(small):
    assert Tuning.load(changed(small, "runs = 8", "runs = 9")).runs == 9


def test_what_is_no_short_text_is_not_read(small, tmp_path):
    path = tmp_path / "tune.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(silvan.SweepError, match="not a text in UTF-8"):
        Tuning.load(path)
    path.write_bytes(b"#" * ((4 << 20) + 2))
    with pytest.raises(silvan.SweepError, match="longer than 4194304 bytes"):
        Tuning.load(path)
    with pytest.raises(silvan.SweepError, match="is a folder"):
        Tuning.load(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "fifo")
        with pytest.raises(silvan.SweepError, match="not a regular file"):
            Tuning.load(tmp_path / "fifo")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({presets.EXPONENT: 2}, "give its longest delay too"),
        ({presets.LONGEST: "long"}, "must be a number from 0.1 to 100000"),
        ({presets.LONGEST: float("nan")}, "must be a number"),
        ({presets.LONGEST: True}, "must be a number"),
        ({presets.LONGEST: 10, presets.EXPONENT: 99}, "must be a number from 0.25 to 8"),
    ],
)
def test_a_table_that_cannot_be_is_refused(keys, message):
    with pytest.raises(silvan.SweepError, match=message):
        presets.with_table(keys)


def test_what_the_scenario_lacks_is_told_where_it_is_missed(small, tmp_path):
    given = {
        "runs": 4,
        "confirm": 2,
        "store": tmp_path / "runs",
        "overrides": {"duration": "1 ms", "warmup": "0 s"},
    }
    space = {"congestion.reaction.ccti_increase": [1, 2]}
    lonely = {"flow.2.to": "H6", "flow.2.from": "H5"}
    with pytest.raises(silvan.SweepError, match="objective `hotspots` needs hotspots"):
        silvan.tune(small, space, objectives="hotspots", traffic={"none": lonely}, **given)
    with pytest.raises(silvan.SweepError, match="`fairness` needs named flows to a hotspot"):
        silvan.tune(small, space, objectives="fairness", hotspots=["H4"], **given)
    unknown = [{"name": "x", "summary": "flows.F9.received_gbit_s", "goal": "max"}]
    with pytest.raises(silvan.SweepError, match=r"the summary has no `flows\.F9`"):
        silvan.tune(small, space, objectives=unknown, **given)
    with pytest.raises(silvan.SilvanError, match="no_such"):
        silvan.tune(small, {"congestion.no_such": [1, 2]}, **given)


def test_nothing_that_no_tuning_wrote_is_overwritten(small, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "opensm.conf").write_text("mine\n")
    done = command("tune", changed(small, "runs = 8", "runs = 4"), "--out", tmp_path / "out")
    assert done.returncode == 1
    assert "its opensm.conf would be overwritten, and no tuning wrote that" in done.stderr
    assert (tmp_path / "out" / "opensm.conf").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hot_share": 2.0}, r"--contributors = 2: must be a share"),
        ({"hot_share": float("nan")}, "must be a share"),
        ({"hot_share": 0.0}, "the first must be above 0"),
        ({"hot_share": 0.9, "storage_share": 0.1}, "the sum at most 0.95"),
        ({"background": 0.0}, "--background = 0: must be a share of the link"),
        ({"hotspots": 1, "names": ("h1",)}, "give a number or names"),
        ({"names": ("h1", "h1")}, "a host is named twice"),
        ({"names": ("x",)}, "--hotspot x: no host of the fabric has that name; hosts are h0, h1"),
        ({"hotspots": 0}, "0 hotspots: must be 1 to a quarter"),
        ({"hotspots": 6}, "6 hotspots: must be 1 to a quarter of the 16 hosts"),
        ({"hotspots": 4, "hot_share": 0.2}, "two each are needed"),
    ],
)
def test_a_load_that_cannot_be_is_refused(options, message):
    with pytest.raises(silvan.FabricError, match=message):
        load.draw([f"h{n}" for n in range(16)], 10.0, load.Shape(**options), 1)


def test_a_fabric_of_too_few_hosts_is_refused():
    with pytest.raises(silvan.FabricError, match="needs 4 hosts at least, and the fabric has 3"):
        load.draw(["a", "b", "c"], 10.0, load.Shape(), 1)


STUDIES = [
    ((FABRICS / "no-such",), "no-such"),
    ((FABRICS / "README.md",), "README.md"),
    ((FABRICS / "sw2-h7" / "input.topo",), "there are no forwarding tables"),
    ((FABRICS / "sw2-h7" / "minhop", "--hotspot", "nobody"), "no host of the fabric has that name"),
    ((FABRICS / "sw2-h7" / "minhop", "--opensm-conf", "none.conf"), "none.conf: cannot be read"),
]


@pytest.mark.parametrize(("arguments", "message"), STUDIES)
def test_a_study_that_cannot_be_is_refused_and_leaves_nothing(tmp_path, arguments, message):
    done = command("fabric", "study", *arguments, "--out", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
