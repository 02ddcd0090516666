"""Tests the equal work of two builds for a case if one build supports fewer keys."""

import json

import pytest
import tomllib

import bench_ratio
import other_build
from bench_ratio import Run
from conftest import ROOT, script
from equal_work import SWITCHES, CannotRunError, Case, equal_work

FOREST = ROOT / "papers" / "common" / "forest-648.toml"
FOREST_CC = Case("forest", FOREST, ("duration=20 us", "measure.links=false"))


def lacking(*keys, format_="`{key}` is an unknown key"):
    """Return a function that runs a case as a build without some keys would."""

    def ask(case):
        table = tomllib.loads(case.scenario.read_text())
        for key in keys:
            inner = table
            for part in key.split("."):
                inner = inner.get(part, {})
            if inner != {} or any(word.startswith(f"{key}=") for word in case.overrides):
                raise CannotRunError(f"there, {format_.format(key=key)}; known here: `interval`")

    return ask


def test_what_the_other_build_knows_is_said_to_both(tmp_path):
    work = equal_work(FOREST_CC, lacking(), tmp_path)
    assert work.here == work.there
    assert work.here.scenario == FOREST
    assert work.here.overrides == (*FOREST_CC.overrides, "measure.forest=true"), "the default, aloud"
    assert work.off == {}
    off = FOREST_CC.with_("measure.forest", "false")
    assert equal_work(off, lacking(), tmp_path).here == off, "as the case has it"


def test_what_it_lacks_is_switched_off_here_and_left_out_there(tmp_path):
    message = 'Error: ScenarioError {{ place: "a.toml:49", key: Some("{key}"), what: "unknown key"'
    work = equal_work(FOREST_CC, lacking(*SWITCHES, format_=message), tmp_path)
    assert work.off == {"measure.forest": False, "congestion.reaction.timer": "cyclic"}
    assert work.title == 'measure.forest = false, congestion.reaction.timer = "cyclic"'
    assert set(work.here.overrides) == {
        *FOREST_CC.overrides,
        "measure.forest=false",
        'congestion.reaction.timer="cyclic"',
    }
    assert work.there.overrides == FOREST_CC.overrides
    own, left = (tomllib.loads(case.scenario.read_text()) for case in (work.here, work.there))
    assert work.here.scenario == FOREST
    assert own["congestion"]["reaction"].pop("timer") == "notification"
    assert own == left, "nothing else is left out"


def test_a_case_that_says_itself_what_the_other_build_lacks(tmp_path):
    case = FOREST_CC.with_("measure.forest", "true")
    work = equal_work(case, lacking("measure.forest"), tmp_path)
    assert "measure.forest=false" in work.here.overrides
    assert "measure.forest=true" not in work.here.overrides
    assert work.there.overrides == FOREST_CC.overrides


@pytest.mark.parametrize("said", ["no key `measure.forest`", "`flow.0.measure.forest`: unknown key"])
def test_any_other_refusal_is_passed_on(said, tmp_path):
    def ask(_case):
        raise CannotRunError(said)

    with pytest.raises(CannotRunError, match=said):
        equal_work(FOREST_CC, ask, tmp_path)


def test_a_key_that_is_switched_off_in_vain_is_passed_on(tmp_path):
    def ask(_case):
        raise CannotRunError("measure.forest: unknown key")

    with pytest.raises(CannotRunError, match=r"measure\.forest"):
        equal_work(FOREST_CC, ask, tmp_path)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("measure.links = true\nmeasure.forest = true # both\n", {"measure": {"links": True}}),
        ("[a]\nforest = 1\n[measure]\n  forest = true", {"a": {"forest": 1}, "measure": {}}),
        ("measure = { forest = true, links = true }\n", None),
        ("[measure]\nforest = [\n1,\n]\n", None),
    ],
)
def test_a_line_is_cut_where_nothing_else_goes_with_it(text, left, tmp_path):
    file = tmp_path / "a.toml"
    file.write_text(text)
    case = Case("case", file, ())
    if left is None:
        with pytest.raises(CannotRunError, match="is not on a separate line"):
            case.without("measure.forest", tmp_path / "out")
        return
    cut = case.without("measure.forest", tmp_path / "out")
    assert tomllib.loads(cut.scenario.read_text()) == left
    assert file.read_text() == text


def test_the_table_and_the_file_say_what_was_switched_off(tmp_path, capsys):
    program = script(
        tmp_path / "bench",
        'case "$*" in *measure.forest*) echo "measure.forest: unknown key" >&2; exit 1 ;; esac',
        'grep -q "^timer" "$2" && { echo "congestion.reaction.timer: unknown key" >&2; exit 1; }',
        'case "$*" in *"duration=2 us"*) hops=0 ;; *) hops=7 ;; esac',
        'echo "{\\"packet_hops\\": $hops, \\"events\\": 9}"',
    )
    there = bench_ratio.runner("there", program, True, tmp_path)
    ran = []

    def here(case, more, _by_wall):
        ran.append((case.name, case.overrides))
        return Run(0, 0, 0.0) if more else Run(7, 9, 1.0)

    cases = [FOREST_CC, Case("star", ROOT / "scenarios" / "star.toml", ("measure.forest=false",))]
    other = other_build.OtherBuild("abc", "Add a part", tmp_path, program)
    found = bench_ratio.compare_all(cases, here, there, 1, other, tmp_path / "without")
    assert all("measure.forest=false" in overrides for _, overrides in ran)
    said = capsys.readouterr().out.splitlines()
    marks = {line.split()[0]: line.split()[-1] for line in said if line.split()[-1] in ("[1]", "[2]")}
    assert marks == {"forest": "[1]", "star": "[2]"}
    assert any(
        line.startswith("[1] here with") and 'timer = "cyclic"' in line and "measure.forest = false" in line
        for line in said
    )
    assert any(line.startswith("[2] here with measure.forest = false: ") for line in said)
    file = tmp_path / "bench.json"
    bench_ratio.note(file, found, "abc")
    written = json.loads(file.read_text())
    assert written["forest"]["switched_off"] == {
        "congestion.reaction.timer": "cyclic",
        "measure.forest": False,
    }
    assert written["star"]["switched_off"] == {"measure.forest": False}
    # A later comparison with a build that supports all keys removes this entry.
    bench_ratio.note(
        file,
        {"star": bench_ratio.Comparison(found["star"].pairs, equal_work(cases[1], lacking(), tmp_path))},
        "abd",
    )
    assert "switched_off" not in json.loads(file.read_text())["star"]
