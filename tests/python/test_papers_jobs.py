"""Tests the published experiments with applications: HPC Challenge, and two jobs on a fly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from silvan.papers import list_experiments, run_experiments


def _verdicts(name: str, out: Path) -> tuple[dict[str, str], dict[str, float]]:
    rows = run_experiments([name], quick=True, jobs=2, out=out)
    (experiment,) = (e for e in list_experiments() if e.id == name)
    keys = [row.key for row in experiment.rows]
    assert (out / name / f"{name}.svg").stat().st_size > 10_000
    assert json.loads((out / name / "rows.json").read_text()) == rows
    # Every missed number has a reason.
    assert [row["quantity"] for row in rows if row["verdict"] == "missed" and not row.get("reason")] == []
    values = {key: float(row["simulated"]) for key, row in zip(keys, rows, strict=True)}
    return {key: row["verdict"] for key, row in zip(keys, rows, strict=True)}, values


def test_hpc_challenge_on_the_testbed(tmp_path: Path) -> None:
    verdicts, values = _verdicts("T9", tmp_path)
    calibrated = ("latency_max", "bandwidth_max", "ptrans", "hpl", "ra", "fft")
    assert [key for key in calibrated if verdicts[f"a_{key}"] != "met"] == []
    # The calibration has these consequences: the tree costs throughput, and control restores it.
    for key in ("ptrans", "ra", "fft", "natural_bandwidth"):
        assert values[f"b_{key}"] < 0.96 * values[f"a_{key}"]
        assert values[f"c_{key}"] == pytest.approx(values[f"a_{key}"], rel=0.06)
    assert verdicts["b_fft"] == verdicts["b_natural_bandwidth"] == verdicts["b_random_bandwidth"] == "met"
    # The messages of two ranks of a host share its link, and neither message waits for the other.
    assert verdicts["a_natural_bandwidth"] == verdicts["c_natural_bandwidth"] == "met"
    # Messages of RandomAccess wait for each other, rings send to both neighbors at the same time if this is
    # faster, and copies inside a host compete with the network.
    assert [verdicts[key] for key in ("b_ra", "b_random_latency", "c_random_bandwidth")] == ["met"] * 3
    assert values["b_natural_latency"] < 0.8 * values["b_latency_max"]


def test_hpc_challenge_on_network_2(tmp_path: Path) -> None:
    verdicts, values = _verdicts("H8", tmp_path)
    assert all(verdicts[f"SC{n}_mpifft"] == "met" for n in (1, 2, 3))
    # The job shares no link with the hot senders.
    assert values["SC2_ptrans_VOQnet"] == values["SC1_ptrans_VOQnet"]


def test_two_applications_on_a_fly(tmp_path: Path) -> None:
    verdicts, _ = _verdicts("M7", tmp_path)
    assert verdicts["none_over_others"] == verdicts["MVCM_over_others"] == verdicts["MVCM_peak"] == "met"
