"""Tests tuning: proposals, early stops, comparisons and output files."""

import csv
import dataclasses
import json
import math
import re
import shutil
import subprocess
from types import SimpleNamespace
from typing import get_args

import pytest
import tomllib

import silvan
from conftest import ROOT, command
from silvan import _calibrated, _opensm, comparison, templates
from silvan._statistics import BETTER, NOT_SHOWN, VERDICTS, WORSE
from silvan.sweeps.axes import Axis
from silvan.tuning import outcome, presets, racing, report, search
from silvan.tuning.objectives import Objective, Roles, roles_of
from silvan.tuning.problem import Kind, Tuning

SEARCH = {
    "congestion.marking.threshold": [3, 9, 15],
    "cct.longest_us": [5, 20, 80],
    "congestion.reaction.ccti_increase": [1, 4],
}
SHORT_RUNS = {"duration": "1 ms", "warmup": "500 us", "flow.2.start": "0 s"}


def tuned(small, tmp_path, **more):
    given = {"runs": 12, "confirm": 2, "overrides": SHORT_RUNS, "store": tmp_path / "runs", **more}
    return silvan.tune(small, given.pop("search", SEARCH), **given)


def test_the_same_tuning_takes_the_same_way_and_finds_its_runs(small, tmp_path):
    first = tuned(small, tmp_path, jobs=1, out=tmp_path / "first")
    again = tuned(small, tmp_path, jobs=2, out=tmp_path / "again")
    assert first.simulated > 12
    assert (again.simulated, again.reused) == (0, first.simulated)
    for name in ("tune.json", "account.md", "best.toml", "opensm.conf"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name
    fresh = tuned(small, tmp_path, jobs=2, store=tmp_path / "other", out=tmp_path / "third")
    assert fresh.simulated == first.simulated
    assert (tmp_path / "third" / "tune.json").read_bytes() == (tmp_path / "first" / "tune.json").read_bytes()


def test_a_tuning_names_the_calibration_of_its_scenario(small, tmp_path):
    told = _calibrated.described("", {"switch.latency": "1 ns"}, "error 1 %", [("near.txt", "0" * 64)])
    done = tuned(
        small, tmp_path, overrides={**SHORT_RUNS, "description": json.dumps(told)}, out=tmp_path / "o"
    )
    note = "The scenario was calibrated, but switch.latency has another value here"
    assert note in done.notes
    assert f"Note: {note}." in (tmp_path / "o" / "account.md").read_text()


def test_an_interrupted_tuning_goes_on_from_its_runs(small, tmp_path):
    whole = tuned(small, tmp_path, store=tmp_path / "whole")

    def stop(done, total, note):
        if done >= 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuned(small, tmp_path, notify=stop, jobs=1)
    again = tuned(small, tmp_path)
    assert again.reused >= 6
    assert again.best == whole.best
    assert [trial.score for trial in again.found.trials] == [trial.score for trial in whole.found.trials]


def test_the_best_is_at_least_as_good_as_the_reference_in_its_own_search(small, tmp_path):
    result = tuned(small, tmp_path, runs=19)
    assert len(result.found.trials) == 18, "the space has 18 settings, and each is tried once"
    assert result.found.runs == 19
    assert max(trial.score for trial in result.found.trials) >= 1.0
    assert result.best == dict(result.finalists[0].setting.keys)
    assert sum(result.importance.values()) == pytest.approx(1.0)
    names = [one.name for one in result.contrasts]
    assert names == ["no control", *presets.PRESETS]
    for one in result.contrasts:
        assert one.score.low <= one.score.ratio <= one.score.high
        parts = one.objectives["victims"].ratio * one.objectives["hotspots"].ratio
        assert one.score.ratio == pytest.approx(parts**0.5)


def test_runs_are_never_more_than_were_asked_for(small, tmp_path):
    kinds = {"one": {}, "late": {"flow.1.start": "200 us"}, "slow": {"host.injection_rate": "10 Gbit/s"}}
    result = tuned(small, tmp_path, runs=20, traffic=kinds, batch=4)
    assert result.found.runs <= 20
    tried = sum(len(trial.ratios) for trial in result.found.trials)
    assert tried + len(kinds) == result.found.runs
    stopped = [trial for trial in result.found.trials if trial.state == "stopped"]
    assert all(len(trial.ratios) < 3 for trial in stopped)
    assert all(len(trial.ratios) == 3 for trial in result.found.trials if trial.state == "done")


def test_short_runs_come_first(small, tmp_path):
    result = tuned(small, tmp_path, short={"duration": "600 us", "warmup": "300 us"}, runs=24)
    best = result.found.finished[0]
    assert [at.short for at in best.ratios] == [True, False]
    long = {at: ratios for at, ratios in best.ratios.items() if not at.short}
    assert best.score == racing.score(result.tuning, long), "short runs do not count once there are others"


def test_the_worst_traffic_counts_where_asked_for(small):
    base = silvan.Tuning.load(small)
    kinds = (Kind("one"), Kind("other"))
    ratios = {racing.Instance(kinds[0], 1): (4.0, 1.0), racing.Instance(kinds[1], 1): (1.0, 1.0)}
    scores = {}
    for mix in ("weighted", "worst"):
        tuning = Tuning(name="t", base=base.base, kinds=kinds, mix=mix)
        scores[mix] = racing.score(tuning, ratios)
    assert scores == {"weighted": pytest.approx(2**0.5), "worst": pytest.approx(1.0)}


def test_weights_and_goals_enter_the_score():
    more, less = Objective("a", weight=3.0), Objective("b", larger=False)
    assert more.ratio(2.0, 1.0) == 2.0
    assert less.ratio(2.0, 1.0) == 0.5
    assert less.ratio(0.0, 1.0) == more.ratio(1e9, 1.0) == 1e6
    assert more.ratio(None, 1.0) == 1e-6


@pytest.mark.parametrize(
    ("larger", "value", "reference", "ratio"),
    [
        # A run that delivers nothing has no latency and no throughput.
        (False, 5.0, None, 1e6),
        (False, None, 5.0, 1e-6),
        (False, None, None, 1.0),
        (True, 5.0, None, 1e6),
        (True, 5.0, 0.0, 1e6),
        (True, None, 0.0, 1.0),
        (True, 0.0, 0.0, 1.0),
        # A measure such as the number of marks can be zero, which is the best value.
        (False, 5.0, 0.0, 1e-6),
        (False, None, 0.0, 1e-6),
        (False, 0.0, 0.0, 1.0),
        (False, 0.0, None, 1e6),
    ],
)
def test_runs_without_a_value_are_the_worst(larger, value, reference, ratio):
    tuning = SimpleNamespace(objectives=[Objective("a", larger=larger)])
    assert outcome._ratios(tuning, (value,), (reference,)) == (ratio,)
    at, trial = "an instance", racing.Trial(1, (0,), SimpleNamespace())
    race = SimpleNamespace(tuning=tuning, reference={at: (reference,)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(racing, "score", lambda tuning, ratios: 1.0)
        racing.Racing.note(race, trial, at, (value,))
    assert trial.ratios == {at: (ratio,)}


def test_a_pareto_front_has_nothing_that_another_beats(small, tmp_path):
    result = tuned(small, tmp_path, mix="pareto", runs=19, out=tmp_path / "out")
    chosen = outcome.front(result.tuning, result.found)
    parts = [outcome._parts(result.tuning, trial) for trial in result.found.finished]
    for trial in chosen:
        own = outcome._parts(result.tuning, trial)
        assert not any(all(a > b for a, b in zip(other, own, strict=True)) for other in parts)
    assert "## Pareto front" in (tmp_path / "out" / "account.md").read_text()


def test_a_measure_of_ones_own_is_tuned(small, tmp_path):
    own = [
        {"name": "F1", "summary": "flows.F1.received_gbit_s", "goal": "max"},
        {"of": "latency", "weight": 0.5},
    ]
    result = tuned(small, tmp_path, objectives=own)
    values = result.values(result.finalists[0])
    assert values["F1"] > 0
    assert values["latency"] > 0


def test_fairness_is_that_of_the_flows_to_the_hotspot(small, tmp_path):
    result = tuned(small, tmp_path, objectives="fairness")
    assert 0 < result.values(result.finalists[0])["fairness"] <= 1


def test_who_is_who_is_told_by_the_traffic(small):
    roles = roles_of(silvan.Scenario.load(small), None)
    assert roles == Roles(frozenset({"H5"}), frozenset({"F2", "F3"}), ("F2", "F3"), (), 13.0)
    named = roles_of(silvan.Scenario.load(small), ["H4"])
    assert (named.hotspots, named.flows) == (frozenset({"H4"}), ("F1",))


def test_a_table_has_its_shape_and_its_longest_delay():
    made = presets.with_table({presets.LONGEST: 127, presets.EXPONENT: 1, "seed": 2})
    delays = made[presets.TABLE]["delays_ns"]
    assert delays == [1000 * i for i in range(128)]
    assert made["seed"] == 2
    assert presets.with_table({presets.LONGEST: 10})[presets.TABLE]["delays_ns"][127] == 10_000


def test_known_settings_are_found_in_the_space():
    axes = presets.usual_space()
    steps = search.nearest_steps(axes, presets.PRESETS["longer delays"])
    labels = {axis.name: axis.labels[step] for axis, step in zip(axes, steps, strict=True)}
    assert labels == {
        "threshold": 15, "marking_rate": 0, "packet_size": 0, "cct_exponent": 2, "cct_longest": 160,
        "ccti_timer": 150, "ccti_increase": 1, "ccti_limit": 127, "level": "qp",
    }  # fmt: skip


def test_only_numbers_in_order_are_stepped_along():
    def ordered(*labels):
        return search._is_ordered(Axis("a", "", labels, (("a", labels),)))

    assert ordered(1, 2, 5)
    assert ordered(5, 2, 1)
    assert not ordered(1, 5, 2)
    assert not ordered("qp", "sl")
    assert not ordered(True, False)


def test_the_defaults_are_paper_iii(small):
    plain = silvan.Scenario.load(small, {"congestion.mechanism": "ib-cc"})
    known = silvan.Scenario.load(small, dict(presets.PRESETS[presets.REFERENCE]))
    assert tomllib.loads(known.to_toml())["congestion"] == tomllib.loads(plain.to_toml())["congestion"]


def test_what_is_written_is_read_back(small, tmp_path):
    result = tuned(small, tmp_path, out=tmp_path / "out")
    options = (tmp_path / "out" / "opensm.conf").read_text()
    again, _ = _opensm.load(small, tmp_path / "out" / "opensm.conf", SHORT_RUNS)
    comments = [line for line in options.splitlines() if line.startswith("# ")]
    assert comments[0] == f"# {report.verdict(result)}"
    assert options.endswith(again.opensm_options())
    assert again.opensm_options() == result.opensm_options()
    best = silvan.Scenario.load(tmp_path / "out" / "best.toml")
    assert best.opensm_options() == result.opensm_options()
    plugin = (tmp_path / "out" / "ccmgr.conf").read_text()
    for line in (
        "threshold 0xf",
        "marking_rate 0xa",
        "packet_size 0x200",
        "ccti_increase 1",
        "trigger_threshold 2",
    ):
        assert f"\n{line}\n" in plugin
    numbers = json.loads((tmp_path / "out" / "tune.json").read_text())
    assert numbers["best"] == result.best
    assert {path.name for path in (tmp_path / "out" / "figures").iterdir()} >= {
        "search.png",
        "comparison.svg",
    }


@pytest.mark.skipif(shutil.which("opensm") is None, reason="opensm is not installed")
def test_opensm_itself_reads_the_lines_to_paste(small, tmp_path):
    """`opensm -F FILE -c FILE` writes the options back with the same effect, and rejects none."""
    tuned(small, tmp_path, out=tmp_path / "out")
    files = ("-F", "out/opensm.conf", "-c", "read.conf", "-f", "opensm.log")
    done = subprocess.run(
        ["opensm", *files], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert "nrecognized" not in done.stdout + done.stderr
    ours, theirs = _opensm.read(tmp_path / "out" / "opensm.conf"), _opensm.read(tmp_path / "read.conf")
    assert theirs.keys == ours.keys
    assert theirs.victim_mask == ours.victim_mask


def test_other_mechanisms_need_axes(tmp_path):
    file = tmp_path / "roce.toml"
    file.write_text(templates.write("roce", "fat-tree", 16, "incast", "dcqcn"))
    with pytest.raises(
        silvan.SweepError, match=r"is `dcqcn`, and without axes.* write a tuning file with \[\[axis\]\]"
    ):
        Tuning.load(file)
    assert Tuning.load(file, {"congestion.mechanism": "none"}).search == presets.usual_space()


def test_a_setting_that_is_refused_does_not_end_the_search(small, tmp_path):
    space = {"congestion.marking.threshold": [15, 99], "congestion.reaction.ccti_timer": [50, 150]}
    result = tuned(small, tmp_path, search=space, runs=5)
    failed = [trial for trial in result.found.trials if trial.state == "failed"]
    assert [trial.setting.keys["congestion.marking.threshold"] for trial in failed] == [99, 99]
    assert "must be 0 to 15" in failed[0].error


def test_the_command_tunes_and_says_what_it_found(small, tmp_path):
    path = tmp_path / "tune.toml"
    path.write_text(
        f'name = "mine"\nscenario = "{small.name}"\nruns = 6\nconfirm = 2\n'
        "[set]\nduration = '1 ms'\nwarmup = '500 us'\n"
        "[[axis]]\nkey = 'congestion.reaction.ccti_increase'\nvalues = [1, 2, 4, 8]\n"
    )
    done = command("tune", path, "--out", tmp_path / "out", "--progress", "--objective", "victims=2")
    assert done.returncode == 0, done.stderr
    assert "mine: the best settings" in done.stdout
    assert "compared with" in done.stdout
    # Only 5 of 40 samples are after the warm-up.
    assert "steady state not tested, " in done.stdout
    assert not re.search(r"\b(better|worse), ", done.stdout)
    assert "runs simulated" in done.stderr
    again = command("tune", path, "--out", tmp_path / "out", "--objective", "victims=2", "--json")
    assert json.loads(again.stdout) == json.loads((tmp_path / "out" / "tune.json").read_text())
    assert "0 runs simulated" in again.stderr


def test_the_shipped_file_can_begin():
    tuning = Tuning.load(ROOT / "studies" / "tune" / "forest-648.toml")
    assert (tuning.size, tuning.runs, [kind.name for kind in tuning.kinds]) == (1000, 64, ["silent", "windy"])
    grid = silvan.Study.load(ROOT / "studies" / "cc-grid-648.toml")
    assert tuning.search == grid.axes[1:], "the tuner searches the very grid"
    for kind, step in (("silent", 0), ("windy", 1)):
        own = next(one for one in tuning.kinds if one.name == kind)
        setting = racing.setting_at(tuning.search, (0, 0, 0))
        ours = tuning.base.at(tuning.overrides(setting.keys, own, 1))
        theirs = grid.base.at(grid.points()[1000 * step].overrides)
        assert ours.to_toml() == theirs.to_toml()
    apart = silvan.Study.load(ROOT / "studies" / "cc-unseen-648.toml")
    moving = silvan.Study.load(ROOT / "studies" / "cc-moving-648.toml")
    kinds = {kind.name: kind for kind in tuning.unseen}
    assert len(kinds) == 5
    steps = tuple(axis.labels.index(value) for axis, value in zip(tuning.search, (16, 10, 3), strict=True))
    setting = racing.setting_at(tuning.search, steps)
    for study in (apart, moving):
        for step, name in enumerate(study.axes[0].labels):
            ours = tuning.base.at(tuning.overrides(setting.keys, kinds.pop(name), 1))
            assert ours.to_toml() == study.base.at(study.points()[105 * step].overrides).to_toml(), name
    assert not kinds


def test_without_optuna_it_is_said_what_to_install(small, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(silvan.SweepError, match=r"pip install 'silvan\[tune\]'"):
        tuned(small, tmp_path)


def test_what_is_kept_in_traffic_that_the_search_did_not_see(small, tmp_path):
    apart = {"late": {"flow.1.start": "200 us"}, "slow": {"host.injection_rate": "10 Gbit/s"}}
    result = tuned(small, tmp_path, unseen=apart, unseen_runs=19, out=tmp_path / "out")
    assert [one.kind for one in result.kept] == ["late", "slow"]
    seen = {at.kind.name for trial in result.found.trials for at in trial.ratios}
    assert seen == {"traffic"}, "unseen kinds are not used for tuning"
    for one in result.kept:
        assert (one.runs, one.settings) == (19, 18), "the whole space, so that nothing is better"
        assert one.score.low <= one.score.ratio <= one.score.high
        parts = one.objectives["victims"].ratio * one.objectives["hotspots"].ratio
        assert one.score.ratio == pytest.approx(parts**0.5)
        # Repeat the computation by hand: the same runs, and the best finalist on the same seeds.
        ratios = []
        for seed in (2, 3):
            values = []
            for keys in (result.best, one.best):
                settings = result.tuning.overrides(keys, Kind(one.kind, apart[one.kind]), seed)
                summary = silvan.run(result.tuning.base.at(settings)).summary
                hosts = {host["host"]: host["received_gbit_s"] for host in summary["hosts"]}
                roles = roles_of(result.tuning.base.at(settings), None)
                hot = [hosts.pop(name) for name in sorted(roles.hotspots)]
                values.append((sum(hot) / len(hot) * sum(hosts.values()) / len(hosts)) ** 0.5)
            ratios.append(values[0] / values[1])
        assert one.score.ratio == pytest.approx((ratios[0] * ratios[1]) ** 0.5)
    account = (tmp_path / "out" / "account.md").read_text()
    assert "## On unseen traffic" in account
    assert (tmp_path / "out" / "figures" / "unseen.png").stat().st_size > 5000
    numbers = json.loads((tmp_path / "out" / "tune.json").read_text())
    assert [one["traffic"] for one in numbers["unseen"]] == ["late", "slow"]
    without = tuned(small, tmp_path, unseen=apart, unseen_runs=0)
    assert (without.kept, without.best) == ((), result.best)


def test_an_objective_that_a_kind_kept_apart_lacks_is_told_before_anything_runs(small, tmp_path):
    lonely = {"flow.2.to": "H6", "flow.2.from": "H5"}
    with pytest.raises(silvan.SweepError, match="lonely: objective `hotspots` needs hotspots"):
        tuned(small, tmp_path, unseen={"lonely": lonely})
    assert not any((tmp_path / "runs").rglob("summary.json"))
    kind = Kind("lonely", lonely, ("victims",))
    tuning = dataclasses.replace(Tuning.load(small, SHORT_RUNS), unseen=(kind,), runs=4, confirm=2)
    result = silvan.tune(tuning, {"congestion.reaction.ccti_increase": [1, 4]}, store=tmp_path / "runs")
    assert list(result.kept[0].objectives) == ["victims"]


class Looked:
    """Runs whose objectives come from the table of the grid, so that a search needs no simulation."""

    #: Only ratios to the reference count, and the reference cancels in comparisons of settings.
    REFERENCE = (0.4, 13.6)

    def __init__(self):
        with (ROOT / "tests" / "data" / "tune" / "cc-grid-648.csv").open() as file:
            rows = csv.DictReader(file)
            self.table = {
                (row["traffic"], *(int(row[name]) for name in ("scale", "CCTI_Timer", "CCTI_Increase"))): (
                    float(row["others"]),
                    float(row["hotspots"]),
                )
                for row in rows
            }

    def values(self, wanted, _note=""):
        return [self.value(setting.keys, at.kind.name) for setting, at in wanted]

    def value(self, keys, kind):
        if "congestion.marking.threshold" in keys:
            return self.REFERENCE
        return self.table[(kind, *keys.values())]

    def score(self, *labels):
        values = [value for kind in ("silent", "windy") for value in self.table[(kind, *labels)]]
        return math.prod(values) ** 0.25


def test_the_search_comes_near_the_best_of_a_thousand_settings():
    looked = Looked()
    settings = {key[1:] for key in looked.table}
    assert len(settings) == 1000
    best = max(looked.score(*labels) for labels in settings)
    shipped = Tuning.load(ROOT / "studies" / "tune" / "forest-648.toml")

    def reached(seed, runs):
        tuning = dataclasses.replace(shipped, sampler_seed=seed, runs=runs)
        found = search.Search(tuning, looked).run()
        labels = [
            axis.labels[step] for axis, step in zip(tuning.search, found.finished[0].steps, strict=True)
        ]
        return looked.score(*labels) / best

    assert reached(shipped.sampler_seed, shipped.runs) >= 0.99
    assert min(reached(seed, 64) for seed in (2, 3)) >= 0.88
    assert min(reached(seed, 160) for seed in (2, 3)) >= 0.99


def test_objectives_that_are_worse_than_without_control_come_first():

    worse, same = outcome.Interval(0.9, 0.85, 0.95), outcome.Interval(1.2, 0.9, 1.5)
    contrast = outcome.Contrast(outcome.NO_CONTROL, same, {"hotspots": worse, "victims": same}, {})
    tuned = SimpleNamespace(contrasts=(contrast,))
    assert report.harms(tuned) == [
        "Harm: compared with no control, `hotspots` is worse, 0.900 times as good (0.850 to 0.950)."
    ]
    assert same.in_words == "no difference shown, 1.200 times as good (0.900 to 1.500)"
    assert report.harms(SimpleNamespace(contrasts=())) == []


GAIN, LOSS = outcome.Interval(1.2, 1.1, 1.3), outcome.Interval(0.9, 0.85, 0.95)
OPEN, SMALL = outcome.Interval(1.2, 0.9, 1.5), outcome.Interval(1.03, 1.02, 1.04)


@pytest.mark.parametrize(
    ("score", "objectives", "others", "doubts", "word"),
    [
        (GAIN, {"victims": GAIN, "hotspots": OPEN}, {}, {}, "Recommended"),
        (GAIN, {"victims": GAIN, "hotspots": LOSS}, {}, {}, "Choose"),
        (OPEN, {"victims": OPEN}, {}, {}, "Leave it"),
        (LOSS, {"victims": OPEN}, {}, {}, "Leave it"),
        # A proven gain below the minimum is not worth a change.
        (SMALL, {"victims": SMALL}, {}, {}, "Leave it"),
        (GAIN, {"victims": GAIN}, {"ccmgr": LOSS}, {}, "Leave it"),
        (GAIN, {"victims": GAIN}, {"ccmgr": OPEN}, {}, "Recommended"),
        (GAIN, {"victims": GAIN}, {}, {"trends": ("class hot: received",)}, "Leave it"),
        (GAIN, {"victims": GAIN}, {}, {"untested": ("class hot: received",)}, "Leave it"),
    ],
)
def test_settings_are_recommended_only_without_harm_and_with_a_gain(score, objectives, others, doubts, word):
    off = outcome.Contrast(outcome.NO_CONTROL, score, objectives, {}, **doubts)
    beside = [outcome.Contrast(name, one, {}, {}) for name, one in others.items()]
    said = report.verdict(SimpleNamespace(contrasts=(off, *beside)))
    assert said.startswith(f"{word}: ")
    assert str(score) in said or others or score.in_words in said
    if word == "Choose":
        assert f"Helped: `victims` {GAIN.in_words}. The price: `hotspots` {LOSS.in_words}." in said


def test_a_tuning_has_no_verdict_if_its_runs_are_too_short_for_a_test(small, tmp_path):
    keys = {"congestion.marking.threshold": [3, 9, 15]}
    short = tuned(small, tmp_path, search=keys, runs=3)
    off = next(one for one in short.contrasts if one.name == outcome.NO_CONTROL)
    # There are 5 of 40 samples after the warm-up of 500 us.
    assert (off.doubt, off.testable_at_ns) == ("steady state not tested", 4_500_000)
    assert "received by all hosts" in off.untested
    said = report.verdict(short)
    assert said.startswith("Leave it: steady state not tested (fewer than 40 values after the warm-up; ")
    assert (
        "; a duration of 4.5 ms or a shorter measure.interval has enough), so no difference is shown" in said
    )
    (line,) = [line for line in report.sentences(short) if line.startswith("Steady state not tested: ")]
    assert line.endswith("These averages have no verdict.")
    assert report.harms(short) == []
    assert not re.search(r"\b(better|worse), ", report.account(short, []))
    fine = {**SHORT_RUNS, "measure.interval": "10 us"}
    longer = tuned(small, tmp_path, search=keys, runs=3, overrides=fine)
    assert not any(one.untested for one in longer.contrasts)


def test_verdicts_have_one_vocabulary():
    found = [outcome.Interval(2.0, 0.5, 8.0), GAIN, LOSS, outcome.Interval(3.0, 0.01, 90.0)]
    words = [one.in_words.partition(",")[0] for one in found]
    assert words == [one.verdict for one in found] == [NOT_SHOWN, BETTER, WORSE, NOT_SHOWN]
    assert set(VERDICTS) < set(get_args(comparison.Verdict))
