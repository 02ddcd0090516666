"""Tests the search for scenarios whose results differ between two builds, without building any."""

from pathlib import Path

import pytest

import other_build
import same
from conftest import script
from same import Verdict


class Stub:
    """Replaces the swarm: output lines by seed, and whether it can read the scenarios of the other build."""

    program = Path("swarm")

    def __init__(self, lines, of_file="0 f done"):
        self.lines = lines
        self.of_file = of_file

    def fingerprints(self, first, count):
        return {seed: self.lines.get(seed, "0 a done") for seed in range(first, first + count)}

    def draw(self, seed, attempt):
        return f"seed = {seed}\n# attempt {attempt}\n"

    def fingerprint_of(self, file):
        assert file.read_text().startswith("seed")
        return self.of_file


def verdicts(here, there, out):
    return [(one.seed, one.kind) for one in same.compare(1, 3, here, there, out)]


def test_a_seed_differs_only_if_its_scenario_gives_something_else(tmp_path):
    there = Stub({2: "1 b done"})
    assert verdicts(Stub({}), there, tmp_path) == [(1, same.SAME), (2, same.DRAWN_OTHERWISE), (3, same.SAME)]
    assert not list(tmp_path.iterdir())
    there.of_file = None
    assert verdicts(Stub({}), there, tmp_path)[1] == (2, same.REFUSED_THERE)
    there.of_file = "0 g done"
    assert verdicts(Stub({}), there, tmp_path)[1] == (2, same.DIFFERS)
    assert (tmp_path / "2.toml").read_text() == "seed = 2\n# attempt 0\n"
    assert verdicts(Stub({2: "refused"}), there, tmp_path)[1] == (2, same.DIFFERS)


def test_a_build_that_prints_no_digests_of_trees_is_compared_by_the_rest(tmp_path):
    digests = " | trees 01 tree_links - contributors - victims - wiring 02"
    lines = dict.fromkeys((1, 2, 3), "0 a done" + digests)
    here = Stub(lines)
    assert [kind for _, kind in verdicts(here, Stub({}), tmp_path)] == [same.SAME] * 3
    assert [kind for _, kind in verdicts(Stub({}), here, tmp_path)] == [same.SAME] * 3
    assert verdicts(here, Stub({2: "0 b done"}, "0 g done"), tmp_path)[1] == (2, same.DIFFERS)
    # The two builds must agree if both print a result.
    other = Stub({**lines, 2: lines[2].replace("01", "03")}, "0 f done" + digests.replace("01", "03"))
    here.of_file = "0 f done" + digests
    assert [kind for _, kind in verdicts(here, other, tmp_path)] == [same.SAME, same.DIFFERS, same.SAME]
    other.of_file = "0 f done"
    assert verdicts(here, other, tmp_path)[1] == (2, same.DRAWN_OTHERWISE)


def test_the_report_says_how_to_run_one_again(tmp_path, capsys):
    swarm = Stub({})
    assert same.report([Verdict(1, same.SAME, "a", "a")], swarm, swarm, tmp_path)
    found = [Verdict(1, same.SAME, "a", "a"), Verdict(7, same.DIFFERS, "0 a done", "0 b done")]
    assert not same.report(found, swarm, swarm, tmp_path)
    said = capsys.readouterr().out
    assert "2 scenarios compared, 1 with other results" in said
    assert f"swarm --fingerprint-of {tmp_path}/7.toml" in said


def test_a_seed_that_ends_the_process_is_named_and_the_rest_go_on(tmp_path):
    program = script(
        tmp_path / "swarm",
        "first=$2; last=$(($2 + $3))",
        "while [ $first -lt $last ]; do",
        "  [ $first = 2 ] && kill -9 $$",
        '  echo "$first 0 a done"; first=$((first + 1))',
        "done",
    )
    lines = same.Swarm(program).fingerprints(1, 4)
    assert lines == {
        1: "0 a done", 2: "the process ended with status -9", 3: "0 a done", 4: "0 a done",
    }  # fmt: skip
    script(program, "echo 'unknown option --fingerprints' >&2; exit 2")
    with pytest.raises(other_build.CannotCompareError, match="unknown option"):
        same.Swarm(program).fingerprints(1, 4)
