"""Compares both models with hashed packets, and tests that the comparison detects errors."""

import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT))

from verify import compare, ecmp_drawing, reading
from verify.reference import hashing, ordering, spraying


def test_scenarios_drawn_at_random():
    compared = compare.compare(ecmp_drawing.many(1, 60), show=False)
    assert not compared.wrong
    assert len(compared.refused) <= 6


@pytest.mark.parametrize(
    ("part", "name", "broken", "seed"),
    [
        (hashing.Hashing, "output", lambda self, packet: self.switch.table[packet.destination], 1),
        (hashing, "drawn", lambda words: words[1], 1),
        (spraying.Sprayer, "turn", lambda *_: None, 4),
        (spraying.Sprayer, "take_answer", lambda *_, **__: None, 4),
        (spraying, "KEPT", 1, 1),
        (ordering.Order, "drained", lambda self, packet, now: [packet], 1),
        (spraying, "MOST_DUE", 1, 17),
    ],
)
def test_a_broken_reference_is_noticed(monkeypatch, part, name, broken, seed):
    scenario = ecmp_drawing.variant(seed)
    assert compare.differences(scenario) == []
    monkeypatch.setattr(part, name, broken)
    assert compare.differences(scenario)


def test_scenarios_cover_every_rule():
    scenarios = [ecmp_drawing.variant(seed) for seed in range(1, 100)]
    rules = {scenario["ecmp"].get("spraying") for scenario in scenarios}
    assert rules >= {"none", "oblivious", "random", "bitmap", "reps", "mixed"}
    assert {scenario["host"].get("delivery") for scenario in scenarios} >= {"in-order", "out-of-order"}


def test_most_switches_with_a_choice_use_several_ports():
    """The flows of a scenario with many flows leave a leaf through several ports."""
    scenario = {
        "duration": "20 us",
        "topology": {"kind": "k-ary-n-tree", "k": 3, "n": 2},
        "ecmp": {},
        "flow": [
            {"name": f"F{n}", "from": f"H{n}", "to": f"H{n % 9 + 1}", "rate": "1 Gbit/s"}
            for n in range(1, 10)
        ],
    }
    plan = reading.plan(scenario)
    assert plan.ecmp is not None
    assert plan.ecmp.groups["L1.1"]["H5"] == (4, 5, 6)
    assert compare.differences(scenario) == []
