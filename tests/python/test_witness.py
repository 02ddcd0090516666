"""Tests the comparison with results of other simulators (`verify/witness.py`)."""

import sys
from dataclasses import replace

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT))

from verify import witness
from verify.check import run

CASES = {case.name: case for case in witness.CASES}
WITNESSED = witness.witnessed()


@pytest.mark.parametrize("name", CASES)
def test_silvan_is_as_near_to_its_witness_as_is_stated(name):
    rows = list(witness.compared(CASES[name], quick=True))
    assert len(rows) == 2
    assert all(row.agrees for row in rows), "\n".join(map(str, rows))


@pytest.mark.parametrize("name", CASES)
def test_what_was_witnessed_is_whole(name):
    """Loads range from below 0.1 to 1. Up to the highest stable load, all packets arrive."""
    case, points = CASES[name], {load: point for (case, load), point in WITNESSED.items() if case == name}
    assert min(points) < 0.1
    assert max(points) == 1
    assert case.stable in points
    for load, point in points.items():
        assert point.throughput == pytest.approx(load, rel=0.05) or load > case.stable


def test_the_witnesses_know_the_published_saturation():
    """With FIFO queues, eight ports and no host that sends to itself, throughput is slightly above 0.6184."""
    assert 0.6184 < WITNESSED["fifo", 1.0].throughput < 0.64


@pytest.mark.parametrize(
    ("name", "load", "otherwise"),
    [
        ("voq", 0.9, {"queues": "single"}),
        ("voq", 1.0, {"queues": "single"}),
        ("ports", 0.9, {"architecture": "iq"}),
        ("fifo", 1.0, {"architecture": "voq", "queues": "per-output"}),
        ("tree", 0.8, {"switch_ns": 600}),
    ],
)
def test_another_switch_would_not_agree(name, load, otherwise):
    case = CASES[name]
    ours = witness.simulate(replace(case, **otherwise), load)
    assert not witness.Row(case, load, WITNESSED[name, load], ours).agrees


def test_one_iteration_of_islip_needs_to_be_repeated():
    def carried(load, cell):
        once = witness.scenario(CASES["voq"], load)
        once["switch"] |= {"islip_iterations": 1, "islip_cell": cell}
        return run(once).summary["throughput_gbit_s"] / 128

    assert carried(1.0, "64 B") == pytest.approx(0.953, abs=0.005)
    assert carried(1.0, "0 B") == pytest.approx(0.86, abs=0.005)
    assert carried(0.9, "0 B") < 0.895


def test_the_table_tells_what_is_out_of_tolerance(monkeypatch, capsys, tmp_path):
    far = {key: replace(point, throughput=point.throughput / 2) for key, point in WITNESSED.items()}
    monkeypatch.setattr(witness, "CASES", (CASES["fifo"],))
    monkeypatch.setattr(sys, "argv", ["witness", "--quick", "--figure", str(tmp_path / "both.svg")])
    assert witness.main() == 0
    assert "2 of 2 points" in capsys.readouterr().out
    assert "CAMINOS" in (tmp_path / "both.svg").read_text()
    monkeypatch.setattr(witness, "witnessed", lambda: far)
    assert witness.main() == 1
    assert capsys.readouterr().out.count("out of tolerance") == 1
