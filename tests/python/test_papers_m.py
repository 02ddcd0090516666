"""Tests the experiments on marking and validation with invented runs, and with a short hot phase."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import silvan
from made_up import compare_and_draw, compared
from silvan.papers import RunData, common, find_papers, list_experiments, runner
from silvan.papers.data import Results

mvcm = common("mvcm")

EXPERIMENTS = ["A6", "M1", "M2", "M3", "M4", "M5", "M6", "M8"]
PER_INTERVAL = 50


def _latency(name: str) -> float:
    """Return an invented latency for each mechanism, in the order that the paper reports."""
    order = ("MVCM", "Pfister", "Renato", "none")
    return next((100.0 * (n + 1) for n, own in enumerate(order) if own in name), 100.0)


def _classes(names: list[str], time_ns: Any, latency: float, hot_from: float) -> dict[str, Any]:
    later = np.repeat(time_ns, len(names)) > hot_from
    # Add some variation, so that ratios are defined.
    uneven = np.repeat(np.arange(len(time_ns)) % 2 * 20 - 10, len(names))
    return {
        "time_ns": np.repeat(time_ns, len(names)),
        "class": np.tile(np.array(names, dtype=object), len(time_ns)),
        "delivered_packets": PER_INTERVAL + uneven,
        "marked_packets": np.where(later, 10, 0),
        "validated_packets": np.where(later, 5, 0),
        "mean_since_generation_ns": np.where(later, latency, 50.0),
    }


def _hosts(names: list[str], time_ns: Any, sends: Callable[[int], bool]) -> dict[str, Any]:
    sent = [256 if sends(n) else 0 for n in range(len(time_ns))]
    return {
        "time_ns": np.repeat(time_ns, len(names)),
        "host": np.tile(np.array(names, dtype=object), len(time_ns)),
        "sent_bytes": np.repeat(sent, len(names)),
    }


def _made_up(task: runner.Task) -> RunData:
    """Invent a run with nearly constant deliveries and, later, with the latency of a mechanism."""
    scenario = silvan.Scenario.load(str(task.scenario), dict(task.overrides))
    step_ns = int(str(task.overrides.get("measure.interval", "4000 cycles")).split()[0])
    time_ns = np.arange(1, scenario.duration_ns // step_ns + 1) * step_ns
    start = min(100_000.0, scenario.duration_ns / 3)
    names = ["cold 001", "cold 010", "hot 000", "hot 011"] if task.experiment == "M8" else ["cold", "hot"]
    links = [f"S1.1:1->{case.target}" for case in (mvcm.FULL, mvcm.QUICK)] + ["S1.1:2->H513"]
    tables = {
        "classes": _classes(names, time_ns, _latency(task.name), start),
        "links": {
            "time_ns": np.repeat(time_ns, len(links)),
            "link": np.tile(np.array(links, dtype=object), len(time_ns)),
            "utilisation": np.tile([1.0, 1.0, 0.25], len(time_ns)),
        },
    }
    if "hosts" in task.tables:
        tables["hosts"] = _hosts(mvcm.FULL.senders, time_ns, lambda n: n % 3 == 0)
    if "after" in task.name:
        # The hot phase ends in the middle of the run, and utilization then varies.
        later = np.repeat(time_ns > time_ns[-1] / 2, len(names))
        own = tables["classes"]
        own["delivered_packets"][later & (own["class"] == "hot")] = 0
        tables["links"]["utilisation"] *= np.repeat(
            np.where(np.arange(len(time_ns)) % 2, 0.8, 1.0), len(links)
        )
    total = len(time_ns) * PER_INTERVAL
    marks = {"delivered_packets": total, "marked_packets": total // 2, "validated_packets": total // 4}
    summary = {
        "triggers": [{"class": "hot", "after_packets": 1, "started_ns": start}],
        "classes": [{"class": name, **marks} for name in names],
        "flows": [{"flow": "alone", "received_gbit_s": 5.0}],
    }
    return RunData(summary=summary, tables={name: tables[name] for name in task.tables})


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_compares_and_draws(
    name: str, quick: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_and_draw(name, _made_up, tmp_path, monkeypatch, quick=quick)


def _rows(name: str) -> dict[str, Any]:
    return compared(name, _made_up)


def test_ratios_are_the_right_way_up() -> None:
    rows = _rows("M1")
    assert rows["MVCM_over_Pfister"] == pytest.approx(1 / 2)
    assert rows["Pfister_over_Renato"] == pytest.approx(2 / 3)
    assert rows["none_peak"] == pytest.approx(400)
    rows = _rows("M2")
    assert (rows["cold_Renato"], rows["cold_MVCM"]) == (50, 25), "MVCM acts on what is validated"
    rows = _rows("M4")
    assert rows["latency_high_MVCM_over_Pfister"] < 1
    assert rows["accepted_low_MVCM_over_best"] == 1
    rows = _rows("M8")
    assert rows["MVCM_over_none"] == pytest.approx(1 / 4)


def test_windows_are_those_of_the_paper() -> None:
    assert mvcm.Window().round_trip_cycles == 354
    assert mvcm.Window().packets == pytest.approx(1.273, abs=1e-3)
    assert mvcm.Window(payload=0).packets == pytest.approx(98 / 22)
    assert mvcm.Window(bandwidth=16).packets == pytest.approx(4.187, abs=1e-3)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.4])
def test_hot_hosts_are_silent_at_first_and_all_others_send_to_anybody(share: float) -> None:
    of = mvcm.case(True, share=share)
    cold, hot = of.overrides({})["traffic"]
    assert len(hot["hosts"]) == of.hot_hosts == round(share * 512)
    # A hot host that sends to itself would send less to the hot host than others do.
    assert hot["pattern"]["to"] == [of.target]
    assert of.target in cold["hosts"]
    assert sorted(cold["hosts"] + hot["hosts"]) == sorted(f"H{n + 1}" for n in range(512))
    assert (hot["packets_per_host"], hot["start_after_packets"]) == (1000, 10_000)
    # All hosts together send 58 bytes per cycle, including headers.
    payload_bit_s = int(cold["rate"].split()[0])
    assert 512 * payload_bit_s / 8e9 * 278 / 256 == pytest.approx(57.6)


def test_the_scenario_is_the_network_of_the_paper() -> None:
    path = find_papers() / "common" / "mvcm.toml"
    check = silvan.Scenario.load(str(path), mvcm.FULL.overrides(mvcm.MVCM)).check()
    assert (check["hosts"], check["switches"]) == (512, 640)


def test_intervals_are_folded_by_what_they_delivered() -> None:
    table = {
        "time_ns": np.arange(1, 6) * 10,
        "class": np.array(["cold"] * 5, dtype=object),
        "delivered_packets": np.array([3, 1, 0, 0, 9]),
        "marked_packets": np.array([1, 1, 0, 0, 0]),
        "validated_packets": np.array([0, 1, 0, 0, 0]),
        "mean_since_generation_ns": np.array([100.0, 300.0, math.nan, math.nan, 1.0]),
    }
    own = mvcm.series(RunData(summary={}, tables={"classes": table}), "cold", 20)
    assert own.end_cycles.tolist() == [20, 40]
    assert own.packets.tolist() == [4, 0]
    assert own.latency[0] == 150
    assert math.isnan(own.latency[1])
    assert (own.marked[0], own.validated[0], own.length) == (2, 1, 20)
    assert own.peak() == own.mean() == 150
    assert own.between(20, 40).packets.tolist() == [0]


def test_the_longest_silence_is_that_of_one_host() -> None:
    of = mvcm.QUICK
    time_ns = np.arange(1, 61) * 10_000
    summary = {"triggers": [{"class": "hot", "after_packets": 1, "started_ns": 100_000}]}
    # The host sends nothing at first, which does not count, and later for five intervals of 10,000 cycles.
    table = _hosts(of.senders, time_ns, lambda n: n >= 15 and not 30 <= n < 35)
    own = RunData(summary=summary, tables={"hosts": table})
    assert mvcm.longest_silence(own, of) == 50_000
    one = table["host"] == of.senders[7]
    table["sent_bytes"][one & (table["time_ns"] > 400_000)] = 0
    assert mvcm.longest_silence(own, of) == 200_000


#: The first tenth of a million cycles of a hot phase.
SHORT = replace(mvcm.QUICK, start_after=2_000, duration=120_000, window=10_000)


def _simulated(own: dict[str, Any], of: mvcm.Case = SHORT) -> RunData:
    path, overrides = of.run(own)
    scenario = silvan.Scenario.load(str(find_papers() / "common" / Path(path).name), overrides)
    result = silvan.run(scenario)
    return RunData(summary=result.summary, tables={"classes": result.numpy("classes")})


def test_mvcm_spares_cold_flows() -> None:
    none, managed = (_simulated(own) for own in (mvcm.NONE, mvcm.MVCM))
    assert mvcm.hot_start(none) > 0
    assert mvcm.peak(managed, SHORT) < 0.5 * mvcm.peak(none, SHORT)
    assert mvcm.share(managed, "hot", "validated") > 10 * mvcm.share(managed, "cold", "validated")
    assert mvcm.share(none, "hot", "marked") == 0


def test_larger_static_windows_let_more_into_the_tree() -> None:
    one, five = (_simulated(mvcm.static_window(packets)) for packets in (1, 5))
    assert mvcm.cold_mean(one, SHORT) < 0.8 * mvcm.cold_mean(five, SHORT)


def test_near_saturation_is_the_largest_load_of_which_nearly_all_is_accepted(tmp_path: Path) -> None:
    (experiment,) = (e for e in list_experiments() if e.id == "M9")
    hosts = 512
    runs = {}
    for load, accepted in ((1.6, 1.0), (2.0, 1.0), (2.4, 0.99), (2.8, 0.8)):
        rate = accepted * load / 4
        links = {
            "time_ns": np.array([10_000, 40_000, 40_000, 40_000]),
            "link": np.array(["S1.1:1->S2.1", "S1.1:1->S2.1", "H1->S1.1", "S1.1:2->H1"], dtype=object),
            # Data before the warm-up, or in the buffer of a host, does not count.
            "downstream_bytes": np.array([1024, 256 * load, 512 * load, 1024]),
            "queued_bytes": np.array([1024, 102.4, 1024, 307.2]),
        }
        summary = {
            "throughput_gbit_s": rate * hosts * 8 * mvcm.PAYLOAD / mvcm.PACKET,
            "latency": [{"class": "cold", "since": "injection", "mean_ns": 500.0}],
        }
        runs[f"{load:g}"] = RunData(summary=summary, tables={"links": links})
    results = Results(runs, False)
    numbers = experiment.code.compare(results)
    assert numbers["input"] == pytest.approx(37.5 * 2.4)
    assert numbers["output"] == pytest.approx(20)
    packets_per_cycle = 0.99 * 2.4 / 4 / 278
    assert numbers["outstanding"] == pytest.approx(packets_per_cycle * (500 + 22 + 27))
    assert numbers["above_formula"] == pytest.approx(numbers["outstanding"] / 1.28)
    experiment.code.plot(results, tmp_path)
    assert (tmp_path / "M9.png").stat().st_size > 5_000
