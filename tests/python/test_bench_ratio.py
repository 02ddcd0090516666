"""Tests the comparison of speeds with another commit, without building that commit."""

import json
import subprocess

import pytest

import bench_ratio
import other_build
from bench_ratio import Comparison, Run
from conftest import ROOT, script
from equal_work import Case, Work

CASE = Case("case", ROOT / "scenarios" / "star.toml", ("seed=2",))


def alike(case):
    return Work(case, case.on_one_thread(), {})


WORK = alike(CASE)


def runner(name, order, set_up, run):
    def go(case, more, by_wall):
        assert by_wall == (case.name == "threads")
        order.append(name if not more else f"{name} set-up")
        return set_up if more else run

    return go


def test_builds_take_turns_and_setting_up_does_not_count():
    order = []
    here = runner("A", order, Run(10, 20, 1.0), Run(410, 820, 3.0))
    there = runner("B", order, Run(10, 20, 2.0), Run(410, 820, 6.0))
    found = bench_ratio.compare(alike(CASE), here, there, 4)
    assert order == ["A set-up", "B set-up", *"AB", *"BA", *"AB", *"BA"]
    assert found.pairs == [(Run(400, 800, 2.0), Run(400, 800, 4.0))] * 4
    assert found.ratio == 2.0
    assert found.same_traffic


def test_a_case_on_threads_is_measured_by_the_clock_and_done_by_one_thread_there(tmp_path):
    case = Case("threads", CASE.scenario, ("seed=2", "threads=2"))
    own = script(
        tmp_path / "own",
        'case "$*" in *threads=2*) ;; *) exit 1 ;; esac',
        'echo \'{"packet_hops": 9, "events": 9, "wall_s": 2.0}\'',
    )
    old = script(
        tmp_path / "old",
        'case "$*" in *threads*) exit 1 ;; esac',
        'echo \'{"packet_hops": 9, "events": 9, "wall_s": 3.0}\'',
    )
    here = bench_ratio.runner("here", own, True, tmp_path)
    there = bench_ratio.runner("there", old, True, tmp_path)
    assert here(case, (), True).seconds == 2.0
    assert there(case.on_one_thread(), (), True).seconds == 3.0
    order = []
    runs = [runner(name, order, Run(0, 0, 0.0), Run(4, 4, 1.0)) for name in "AB"]
    assert bench_ratio.compare(alike(case), *runs, 2).ratio == 1.0


def test_the_ratio_is_the_median_of_pairs_and_other_traffic_is_marked():
    there = Run(100, 1, 1.0)
    found = Comparison(
        [(Run(110, 1, 1.0), there), (Run(110, 1, 0.25), there), (Run(110, 1, 0.5), there)], WORK
    )
    assert found.ratio == pytest.approx(2.2)
    line = bench_ratio.line("name", found)
    assert "2.20" in line
    assert "1.10 - 4.40" in line
    assert "*" in line
    assert "*" not in bench_ratio.line("name", Comparison([(there, there)], WORK))


def test_ratios_are_added_to_what_was_measured(tmp_path):
    file = tmp_path / "bench.json"
    file.write_text('{"case": {"wall_s": 1.5}}')
    bench_ratio.note(file, {"case": Comparison([(Run(2, 1, 1.0), Run(1, 1, 1.0))], WORK)}, "abc")
    assert json.loads(file.read_text()) == {
        "case": {"wall_s": 1.5, "against": "abc", "ratio": 2.0, "ratio_spread": [2.0, 2.0]}
    }


def test_a_build_that_knows_no_files_runs_them_as_a_case_of_its_own(tmp_path):
    (tmp_path / "scenarios").mkdir()
    counts = '{"packet_hops": 7, "events": 9}'
    program = script(
        tmp_path / "bench",
        '[ "$*" = "--one trees_1024 seed=2 duration=1 us name=case" ] || { echo "got $*" >&2; exit 1; }',
        f"cmp scenarios/trees-1024.toml '{CASE.scenario}' && echo '{counts}'",
    )
    run = bench_ratio.runner("there", program, False, tmp_path)(CASE, ["duration=1 us"], False)
    assert (run.hops, run.events) == (7, 9)
    assert run.seconds >= 0


def test_a_case_that_one_build_cannot_run_is_no_error(tmp_path, capsys):
    program = script(tmp_path / "bench", "echo 'no key `switch.speedup`' >&2; exit 1")
    there = bench_ratio.runner("there", program, True, tmp_path)
    other = other_build.OtherBuild("abc", "Add a part", tmp_path, program)
    here = runner("here", [], Run(0, 0, 0.0), Run(1, 1, 1.0))
    assert bench_ratio.compare_all([CASE], here, there, 2, other, tmp_path / "without") == {}
    assert "not compared: there, no key `switch.speedup`" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["abc", "--rounds", "0"], ["abc", "--rounds", "x"], []])
def test_the_command_line_of_ratios_is_checked(words, capsys):
    with pytest.raises(SystemExit):
        bench_ratio.arguments(words)
    assert "usage" in capsys.readouterr().err
    assert bench_ratio.arguments(["abc", "x", "y", "--rounds", "3"]).case == ["x", "y"]


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Create a repository whose examples cannot be built."""

    def git(*words):
        person = ["-c", "user.name=N", "-c", "user.email=n@example.org"]
        subprocess.run(["git", *person, *words], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "tools").mkdir()
    script(
        tmp_path / "tools" / "with-rust",
        "pwd >&2; echo 'error: no example target named `swarm`' >&2; exit 101",
    )
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "Begin")
    monkeypatch.setattr(other_build, "ROOT", tmp_path)
    return tmp_path


def test_a_commit_that_does_not_build_is_explained(repository, capsys):
    with pytest.raises(other_build.CannotCompareError, match="no commit `abc` in this repository"):
        other_build.build("abc", "swarm")
    for _ in range(2):  # the second call uses the work tree of the first
        with pytest.raises(other_build.CannotCompareError, match="no example target named `swarm`") as error:
            other_build.build("HEAD", "swarm")
        assert "(Begin) does not build" in str(error.value)
        assert str(repository / "target" / "against") in str(error.value)
    assert "the first time takes minutes" in capsys.readouterr().out
