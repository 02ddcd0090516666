"""Compares both models on networks whose hosts have several ports, and checks that this detects errors."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT))

from verify import compare, ports, ports_drawing, reading

#: Eight hosts at four leaves, with two flows to one port and one to another.
TREE: dict[str, Any] = {
    "duration": "100 us",
    "measure": {"interval": "20 us"},
    "topology": {"kind": "k-ary-n-tree", "k": 2, "n": 3, "link_rate": "16 Gbit/s"},
    "flow": [
        {"name": "one", "from": "H1.1", "to": "H3.1"},
        {"name": "two", "from": "H2.1", "to": "H3.1"},
        {"name": "three", "from": "H4.2", "to": "H2.2"},
    ],
}


def on(wiring: str) -> dict[str, Any]:
    return {**TREE, "ports": {"count": 2, "wiring": wiring}}


def test_scenarios_drawn_at_random() -> None:
    compared = compare.compare(ports_drawing.many(1, 60), show=False)
    assert not compared.wrong
    assert not compared.refused


@pytest.mark.parametrize("wiring", ["planes", "rails", "block"])
def test_ports_are_where_the_wiring_puts_them(wiring: str) -> None:
    assert compare.differences(on(wiring)) == []


def test_other_places_of_ports_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    in_rows = ports.in_rows
    monkeypatch.setattr(ports, "rails", lambda net, count: in_rows(net.hosts, count))
    monkeypatch.setattr(ports, "in_rows", lambda hosts, count: in_rows(hosts[::-1], count))
    for wiring in ("rails", "block"):
        # The links have other names.
        with pytest.raises(KeyError):
            compare.differences(on(wiring))


def test_planes_are_copies_with_names_of_their_own() -> None:
    net = reading.plan(on("planes")).wiring
    assert net.hosts[:2] == ["H1.1", "H2.1"]
    assert net.hosts[8] == "H1.2"
    assert len(net.switches) == 24
    assert net.home_of("H3.2").startswith("P2.L1.")
