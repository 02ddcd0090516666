"""Tests the experiments of Papers V and VI with invented runs, and the formulas that they use."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import silvan
from made_up import compare_and_draw, compared
from silvan.papers import RunData, common, find_papers, list_experiments, runner

hybrid = common("hybrid")

EXPERIMENTS = [f"H{n}" for n in range(1, 8)]

#: Throughput of each mechanism, in the order of the papers.
RATE = {"1": 1.0, "I": 2.0, "H": 3.0, "F": 3.0, "E": 4.0, "C": 4.0, "V": 4.0}


def rate_of(name: str) -> float:
    return RATE[name.rsplit(maxsplit=1)[-1][0]]


def _made_up(task: runner.Task) -> RunData:
    """Invent a run in which the mechanism alone determines the throughput of all hosts and flows."""
    rate = rate_of(task.name)
    scenario = silvan.Scenario.load(str(task.scenario))
    step_ns = 250_000
    time_ns = np.arange(1, scenario.duration_ns // step_ns + 1) * step_ns
    received = round(rate * step_ns / 8)
    levels = int(task.overrides.get("topology.n", 3))
    tables: dict[str, dict[str, Any]] = {
        "network": {"time_ns": time_ns, "received_bytes": np.full(len(time_ns), 64 * received)},
        "isolation": {"time_ns": time_ns, "full_ports": np.full(len(time_ns), round(10 / rate))},
    }
    for table, column, names in (
        ("flows", "flow", ["F0", "F1", "F2", "F3", "F4", "F5", "F6"]),
        ("hosts", "host", [f"H{n + 1}" for n in range(4**levels)]),
    ):
        tables[table] = {
            "time_ns": np.repeat(time_ns, len(names)),
            column: np.tile(np.array(names, dtype=object), len(time_ns)),
            "received_bytes": np.full(len(time_ns) * len(names), received),
        }
    return RunData(summary={"simulated_ns": scenario.duration_ns}, tables={n: tables[n] for n in task.tables})


#: Experiments whose quick runs differ from the full ones, and all experiments in full.
WAYS = [(name, True) for name in ("H5", "H6", "H7")] + [(name, False) for name in (*EXPERIMENTS, "A7")]


@pytest.mark.parametrize(("name", "quick"), WAYS)
def test_every_experiment_compares_and_draws(
    name: str, quick: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_and_draw(name, _made_up, tmp_path, monkeypatch, quick=quick)


def test_full_experiments_have_the_runs_of_the_papers() -> None:
    experiments = {e.id: e for e in list_experiments()}
    sizes = {name: len(experiments[name].code.runs(False)) for name in EXPERIMENTS}
    assert sizes == {
        "H1": 5,
        "H2": 5,
        "H3": 5,
        "H4": 3 * 5,
        "H5": 3 * 3 * 5,
        "H6": 2 * 2 * 5,
        "H7": 3 * 3 * 2,
    }


def _rows(name: str) -> dict[str, Any]:
    return compared(name, _made_up)


def test_ratios_are_the_right_way_up() -> None:
    rows = _rows("H4")
    assert rows["CCFIT_over_FBICM_4"] == pytest.approx(4 / 3, rel=1e-3)
    assert rows["1Q_worst_6"] == pytest.approx(1 / 2, rel=1e-3)
    rows = _rows("H5")
    assert rows["EcoCC_over_HFDI_6"] == pytest.approx(4 / 3, rel=1e-3)
    assert rows["IB-ITh_1"] == pytest.approx(2 / 4, rel=1e-3)
    assert rows["best"] == pytest.approx(1, rel=1e-3)
    rows = _rows("H6")
    assert rows["EcoCC_1VL_2"] == pytest.approx(4, rel=1e-3)
    assert rows["CCFIT_HFDI_1"] == pytest.approx(4 / 3, rel=1e-3)


def test_ports_are_averaged_while_hot_senders_send() -> None:
    end_ns = np.arange(1, 7) * 500_000
    table = {"time_ns": end_ns, "full_ports": np.array([9, 9, 4, 6, 9, 9])}
    series = hybrid.ports_series(RunData(summary={}, tables={"isolation": table}))
    assert hybrid.mean_between(*series, *hybrid.Hotspots.SPAN_MS) == 5
    assert math.isnan(hybrid.mean_between(*series, 7, 8))


CASES = [(network.hosts, p) for network in hybrid.NETWORKS.values() for p in hybrid.PATTERNS.values()]


@pytest.mark.parametrize(("hosts", "pattern"), CASES + [(64, p) for p in hybrid.CASE_4.values()])
def test_patterns_are_those_of_the_papers(hosts: int, pattern: hybrid.Hotspots) -> None:
    senders = pattern.senders(hosts)
    hot = [host for own in senders.values() for host in own]
    assert len(set(hot)) == len(hot) == hosts * pattern.eighths // 8
    assert max(map(len, senders.values())) - min(map(len, senders.values())) <= 1
    targets = pattern.targets(hosts)
    assert len(set(targets)) == pattern.roots
    # A sender that is a hotspot would send less to that hotspot than other senders do.
    assert not set(hot) & set(targets)
    uniform, *to_one = pattern.overrides(hosts, "40 Gbit/s")["traffic"]
    assert [part["pattern"]["to"] for part in to_one] == [[f"H{n + 1}"] for n in targets]
    everybody = sum((part["hosts"] for part in to_one), uniform["hosts"])
    assert sorted(everybody) == sorted(f"H{n + 1}" for n in range(hosts))


def test_victims_are_everybody_but_the_hotspots() -> None:
    pattern = hybrid.Hotspots(1, 1)
    (target,) = pattern.targets(8)
    names = [f"H{n + 1}" for n in range(8)]
    received = np.array([1000 if n == target else 125 for n in range(8)])
    table = {
        "time_ns": np.repeat([1_000_000, 2_000_000], 8),
        "host": np.tile(np.array(names, dtype=object), 2),
        "received_bytes": np.concatenate([np.full(8, 10**6), received * 1000]),
    }
    run = RunData(summary={}, tables={"hosts": table})
    # Seven hosts receive 125 kB in a millisecond.
    assert hybrid.victims(run, pattern, 8) == pytest.approx(7.0)


@pytest.mark.parametrize(
    ("hosts", "destinations", "cam", "port_bytes"),
    [(64, 8, 64, 111.4), (256, 16, 144, 201.4), (1024, 32, 336, 417.4)],
)
def test_the_memory_of_a_line(hosts: int, destinations: int, cam: int, port_bytes: float) -> None:
    memory = hybrid.ControlMemory(hosts, destinations)
    assert (memory.cam_per_line, memory.sram_per_line) == (cam, 35)
    assert memory.bytes_per_port == pytest.approx(port_bytes, abs=0.1)


def test_networks_are_those_of_paper_vi() -> None:
    assert [n.hosts for n in hybrid.NETWORKS.values()] == [64, 256, 1024]
    for network in hybrid.NETWORKS.values():
        path, overrides = hybrid.paper_vi_run(network, hybrid.PATTERNS[2], {})
        scenario = silvan.Scenario.load(str(find_papers() / "common" / Path(path).name), overrides)
        check = scenario.check()
        assert check["hosts"] == network.hosts
        # Each host has one link, and there are as many links between adjacent levels, in both directions.
        assert 2 * check["links"] - network.hosts == network.switch_inputs


def test_the_parking_lots_are_those_that_rows_name() -> None:
    """Without isolation, the topology determines the shares of contributors, and the victim is slow."""
    common = find_papers() / "common"

    def rates(name: str, **more: Any) -> dict[str, float]:
        run = silvan.run(
            silvan.Scenario.load(str(common / name), {"duration": "8 ms", "warmup": "7 ms", **more})
        )
        return {flow["flow"]: flow["received_gbit_s"] for flow in run.summary["flows"]}

    case_1 = rates("hybrids-config-1.toml")
    assert [case_1[f] for f in ("F0", "F1", "F2", "F5", "F6")] == pytest.approx(
        [20 / 6, 20 / 6, 20 / 6, 20 / 3, 20 / 3], rel=0.02
    )
    case_2 = rates("hybrids-config-2.toml")
    assert [case_2[f] for f in ("F1", "F0", "F4", "F2", "F3")] == pytest.approx(
        [5, 5, 10, 2.5, 2.5], rel=0.02
    )
