"""Compares both models with a separate flow per message, and checks that the comparison detects errors."""

import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT))

from verify import compare, source_drawing
from verify.reference import hosts, own_flows


def test_scenarios_drawn_at_random():
    compared = compare.compare(source_drawing.many(1, 60), show=False)
    assert not compared.wrong
    assert len(compared.refused) <= 6


@pytest.mark.parametrize(
    ("part", "name", "broken"),
    [
        (own_flows, "drawn", lambda points, random: points[-1][0]),
        (own_flows, "mean_size", lambda points: points[-1][0]),
        (own_flows, "host_bits", lambda net, link: 10**9),
        (own_flows.Generator, "spaced", lambda self, busy: busy),
        (own_flows.Generator, "ended", lambda self, now: None),
        (hosts, "acknowledged", lambda flow, payload, now: False),
    ],
)
def test_a_broken_reference_is_noticed(monkeypatch, part, name, broken):
    monkeypatch.setattr(part, name, broken)
    assert any(compare.differences(source_drawing.variant(seed)) for seed in range(1, 30))


def test_scenarios_cover_every_kind():
    patterns = [one for seed in range(1, 80) for one in source_drawing.variant(seed)["traffic"]]
    kinds = {one["pattern"]["kind"] for one in patterns}
    assert kinds >= {"uniform", "incast", "listed"}
    keys = {key for one in patterns for key in one}
    assert keys >= {"sizes", "load_percent", "bursts", "outstanding", "think", "packets_per_host", "stop"}
