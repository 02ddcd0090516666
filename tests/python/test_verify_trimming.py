"""Compares both models with packet trimming, and tests that the comparison detects errors."""

import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT))

from verify import compare, trimming_drawing
from verify.quantities import NotCovered
from verify.reading import plan
from verify.reference import Network, credits, fcfs, hosts, rdma, spraying


def test_scenarios_drawn_at_random():
    compared = compare.compare(trimming_drawing.many(1, 60), show=False)
    assert not compared.wrong
    assert len(compared.refused) <= 15


def runs(first, count):
    """Return the finished reference models of consecutive seeds."""
    for _, scenario in trimming_drawing.many(first, count):
        try:
            net = Network(plan(scenario))
        except NotCovered:
            continue
        net.run()
        yield scenario, net


def test_scenarios_trim_packets_in_all_ways():
    found = list(runs(1, 20))
    assert sum(net.trimmed > 0 for _, net in found) > len(found) / 2
    assert sum(net.resent for _, net in found) > 100
    kinds = {scenario["congestion"]["reaction"]["kind"] for scenario, _ in found}
    choices = {scenario["switch"]["trimming"].get("which", "either") for scenario, _ in found}
    assert kinds == {"nscc", "rccc"}
    assert choices == {"either", "arriving"}


def differing(part, name, broken, first, monkeypatch):
    """Return whether any of some scenarios differs, with one method of the reference replaced."""
    monkeypatch.setattr(part, name, broken)
    return any(compare.compare([case], show=False).wrong for case in trimming_drawing.many(first, 30))


@pytest.mark.parametrize(
    ("part", "name", "broken", "first"),
    [
        (fcfs.FcfsSwitch, "choice", lambda self, *_: type("Always", (), {"below": lambda *_: 0})(), 1),
        (rdma.NsccControl, "lose_unless", lambda self, loss, **_: self.lose_quietly(loss), 1),
        (credits.RcccControl, "lose", lambda self, loss: 0, 1),
        (credits.Granter, "count_lost", lambda *_: None, 18),
        # A value that is skipped more than three times is rare.
        (spraying, "MOST_DUE", 3, 77),
        (hosts.Host, "reopen", lambda *_: None, 1),
    ],
)
def test_a_broken_reference_is_noticed(monkeypatch, part, name, broken, first):
    def lose_quietly(self, loss):
        self.flight.acknowledged += loss.size
        return 0

    monkeypatch.setattr(rdma.NsccControl, "lose_quietly", lose_quietly, raising=False)
    assert differing(part, name, broken, first, monkeypatch)
