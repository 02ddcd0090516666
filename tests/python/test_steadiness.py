"""Tests the test for steady state: trends, stationary series, and runs whose traffic changes."""

import json

import numpy as np
import pytest

import silvan
from conftest import command
from silvan import steadiness, templates
from silvan.comparison import compare

RUN = """
name = "start-up"
duration = "400 us"
warmup = "0 us"
[topology]
kind = "star"
hosts = 6
[measure]
interval = "2 us"
[[traffic]]
name = "all"
pattern = { kind = "uniform" }
rate = "5 Gbit/s"
arrivals = "poisson"
message = "1 KiB"
"""
LATE = """
[[traffic]]
name = "late"
hosts = ["H2", "H3"]
pattern = { kind = "hotspots", to = ["H1"] }
rate = "7 Gbit/s"
start = "200 us"
"""


def noise(random, number, correlation, spread):
    """Return a first-order autoregressive series with mean 1."""
    steps = random.normal(size=number + 300)
    values = np.zeros(number + 300)
    for n in range(1, number + 300):
        values[n] = correlation * values[n - 1] + steps[n] * np.sqrt(1 - correlation**2)
    return 1 + spread * values[300:]


def alarms(series, number=200):
    return sum(steadiness.trend(series()) is not None for _ in range(number)) / number


@pytest.mark.parametrize(
    ("number", "correlation"), [(40, 0.0), (40, 0.5), (100, 0.5), (200, 0.8), (400, 0.8), (400, 0.9)]
)
@pytest.mark.parametrize("spread", [0.1, 0.5])
def test_noise_has_no_trend(number, correlation, spread):
    random = np.random.default_rng(1)
    assert alarms(lambda: noise(random, number, correlation, spread)) <= 0.05


@pytest.mark.parametrize("number", [40, 200])
@pytest.mark.parametrize("periods", [3, 4.5, 10, 25])
def test_periodic_series_have_no_trend(number, periods):
    random = np.random.default_rng(2)

    def sawtooth():
        phase = (np.arange(number) * periods / number + random.uniform()) % 1
        return 1 + 0.8 * phase + 0.02 * random.normal(size=number)

    assert alarms(sawtooth) <= 0.05


@pytest.mark.parametrize("number", [40, 200])
@pytest.mark.parametrize("sign", [1, -1])
def test_ramps_have_a_trend_and_are_nowhere_level(number, sign):
    random = np.random.default_rng(3)
    for _ in range(20):
        values = 3 + sign * np.linspace(-1, 1, number) + 0.1 * random.normal(size=number)
        found = steadiness.trend(values)
        assert found is not None
        assert (found.late - found.early) * sign > 0
        assert found.level_from is None


def test_a_transient_is_found_with_its_end():
    random = np.random.default_rng(4)
    found = [
        steadiness.trend(noise(random, 400, 0.5, 0.05) + 3 * np.exp(-np.arange(400) / 24)) for _ in range(40)
    ]
    assert None not in found
    ends = [one.level_from for one in found]
    assert None not in ends
    # After 80 values, 11 % of the mean are left; after 200 values, nothing.
    assert 70 <= np.median(ends) <= 200
    assert not steadiness.trend(np.full(100, 7.0))
    step = steadiness.trend(np.repeat([2.0, 1.0], [30, 170]))
    assert (step.late, step.level_from) == (1.0, 30)


def test_small_trends_and_short_series_are_not_reported():
    values = 100 + np.linspace(0, 4, 200)
    assert steadiness.trend(values) is None
    assert steadiness.trend(100 + np.linspace(0, 12, 200)) is not None
    with pytest.raises(ValueError, match="39 values, but a test of a trend needs 40"):
        steadiness.trend(np.ones(39))


def test_mser_finds_the_start_of_the_level_part():
    values = np.concatenate((np.linspace(10, 1, 50), 1 + 0.1 * np.sin(np.arange(150))))
    assert steadiness.truncation(values) in (45, 50)
    assert steadiness.truncation(np.linspace(0, 1, 100)) is None


@pytest.fixture(scope="module")
def steady():
    return silvan.run(silvan.Scenario.from_toml(RUN))


def test_a_steady_run_has_no_warning(steady):
    found = steady.summary["steadiness"]
    assert (found["trends"], found["changes"]) == ([], [])
    assert not [line for line in steady.warnings if "steady" in line]
    short = silvan.run(silvan.Scenario.from_toml(RUN), duration="60 us").summary["steadiness"]
    assert short["untested"][0] == "received by all hosts"
    assert short["testable_at_ns"] > 60_000
    assert steady.summary["steadiness"]["testable_at_ns"] is None


def test_noisy_runs_in_steady_state_rarely_have_a_warning():
    scenario = silvan.Scenario.from_toml(RUN)
    runs = [silvan.run(scenario, seed=seed, warmup="20 us") for seed in range(1, 61)]
    assert sum(bool(run.summary["steadiness"]["trends"]) for run in runs) <= 3


def test_a_growing_backlog_has_a_warning():
    """Hosts offer more than their destinations drain, so messages wait ever longer at their sources."""
    text = RUN.replace("5 Gbit/s", "14 Gbit/s").replace('"uniform"', '"shift", by = 1')
    slow = {"host__drain_rate": "12 Gbit/s", "duration": "2 ms", "measure__interval": "10 us"}
    run = silvan.run(silvan.Scenario.from_toml(text), **slow)
    (warning,) = [line for line in run.warnings if line.startswith("Not in steady state")]
    assert "all: latency since generation (" in warning
    assert "not level within the run of 2 ms: use a longer duration" in warning
    trends = {one["quantity"]: one for one in run.summary["steadiness"]["trends"]}
    grown = trends["all: latency since generation"]
    assert grown["late"] > 3 * grown["early"]
    assert grown["level_from_ns"] is None


def test_traffic_that_changes_is_no_lack_of_steady_state():
    run = silvan.run(silvan.Scenario.from_toml(RUN + LATE))
    found = run.summary["steadiness"]
    assert "`late` starts at 200 us" in found["changes"]
    assert [one["quantity"] for one in found["trends"]]
    assert not [line for line in run.warnings if "steady" in line]
    (line,) = [line for line in run.account if line.startswith("The averages contain a change: ")]
    assert "`late` starts at 200 us" in line
    assert steadiness.reason([run.summary], "received by all hosts") == ""


@pytest.mark.parametrize(
    ("more", "change"),
    [
        ('[[flow]]\nname = "few"\nfrom = "H1"\nto = "H2"\ntotal = "64 KiB"\n', "`few` ends at "),
        (LATE.replace("start", "stop"), "`late` ends at 200 us"),
        ('[[event]]\nkind = "down"\nlinks = ["H1"]\nstart = "200 us"\n', "at 200 us"),
        (
            '[[job]]\nname = "sum"\nhosts = ["H1", "H2"]\nprogram = { kind = "collective", operation = '
            '"all-reduce", ranks = 2, bytes = "64 KiB" }\n',
            "job `sum` runs until ",
        ),
    ],
)
def test_changes_are_named(more, change):
    head = "end_with_jobs = false\n" if "[[job]]" in more else ""
    run = silvan.run(silvan.Scenario.from_toml(head + RUN + more))
    assert [one for one in run.summary["steadiness"]["changes"] if change in one]


def test_a_comparison_has_no_verdict_without_steady_state(steady, tmp_path):
    drifting = {"host__drain_rate": "4500 Mbit/s"}
    seeds = (1, 2, 3, 4)
    scenario = silvan.Scenario.from_toml(RUN)
    runs = [silvan.run(scenario, seed=seed, **more) for more in ({}, drifting) for seed in seeds]
    row = next(row for row in compare(*runs).rows if row.measure == "all: latency since generation, median")
    (change,) = row.changes
    assert change.verdict == "not in steady state"
    assert change.reason.startswith("not in steady state")
    assert change.p < 0.05


def test_a_pilot_run_determines_the_warm_up(tmp_path):
    steady = silvan.run(silvan.Scenario.from_toml(RUN), warmup="auto")
    assert steady.summary["averages_from_ns"] <= 20_000
    drifting = silvan.Scenario.from_toml(RUN, overrides={"host.drain_rate": "4500 Mbit/s"})
    with pytest.raises(silvan.SilvanError, match=r'warmup = "auto": not level within the run of 400 us: '):
        silvan.run(drifting, warmup="auto")
    with pytest.raises(silvan.SilvanError, match="fewer than 40 values; use a longer duration"):
        silvan.run(drifting, warmup="auto", duration="60 us")
    new = templates.write("mine", "fat-tree", 16, "hotspot", "ib-cc").replace('"500 us"', '"0 us"')
    (tmp_path / "mine.toml").write_text(new)
    done = command("run", tmp_path / "mine.toml", "--set", "warmup=auto", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)["summary"]
    assert summary["averages_from_ns"] in (10_000_000, 20_000_000)
    assert not summary["steadiness"]["trends"]


def test_a_sweep_lists_the_runs_without_steady_state(tmp_path):
    (tmp_path / "scenario.toml").write_text(RUN)
    axis = '[[axis]]\nkey = "host.drain_rate"\nvalues = ["13 Gbit/s", "4500 Mbit/s"]\n'
    (tmp_path / "study.toml").write_text(f'name = "drain"\nscenario = "scenario.toml"\n{axis}')
    done = command("sweep", tmp_path / "study.toml", "--out", tmp_path / "out", "--json", "--keep", "summary")
    assert done.returncode == 0, done.stderr
    steady, drifting = (row["not_in_steady_state"] for row in json.loads(done.stdout))
    assert steady == []
    assert "all: latency since generation" in drifting
    assert "Warning: 1 of 2 runs are not in steady state after the warm-up: " in done.stderr
    assert "steady state is not tested" not in done.stderr
    for _found_in_the_store in (False, True):
        done = command(
            "sweep", tmp_path / "study.toml", "--out", tmp_path / "short", "--set", "duration=60 us"
        )
        assert done.returncode == 0, done.stderr
        text = "Warning: in 2 of 2 runs, steady state is not tested for received by all hosts; "
        assert text in done.stderr
        assert "fewer than 40 values after the warm-up; a duration of " in done.stderr


WAITING = """
[[measure]]
name = "waiting"
table = "network"
column = "packets_inside"

[[measure]]
name = "waiting at the end"
table = "network"
column = "packets_inside"
over_time = "last"
"""


@pytest.mark.parametrize("keep", ["tables", "summary"])
def test_a_sweep_tests_its_own_averages_of_time_series(tmp_path, keep):
    """A run tests no numbers of waiting packets."""
    (tmp_path / "scenario.toml").write_text(
        RUN.replace('interval = "2 us"', 'interval = "2 us"\nclasses = false')
    )
    axis = '[[axis]]\nkey = "host.drain_rate"\nvalues = ["13 Gbit/s", "3 Gbit/s"]\n'
    (tmp_path / "study.toml").write_text(f'name = "own"\nscenario = "scenario.toml"\n{axis}{WAITING}')
    drifting = [[], ["waiting"]]
    for found in (False, True):
        done = command("sweep", tmp_path / "study.toml", "--out", tmp_path / "out", "--json", "--keep", keep)
        assert done.returncode == 0, done.stderr
        assert [row["not_in_steady_state"] for row in json.loads(done.stdout)] == drifting, found
        assert "Warning: 1 of 2 runs are not in steady state after the warm-up: waiting." in done.stderr
    changed = command(
        "sweep", tmp_path / "study.toml", "--json", "--out", tmp_path / "other",
        "--set", "traffic.0.stop=390 us",
    )  # fmt: skip
    assert [row["not_in_steady_state"] for row in json.loads(changed.stdout)] == [[], []]
