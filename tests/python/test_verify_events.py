"""Compares both models with links and hosts that change, and tests that the comparison detects errors."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT))

from verify import compare, event_drawing, lid_drawing, reading
from verify.reference import draining, faults, hosts, links, pausing, recovering

STAR = {
    "duration": "300 us",
    "measure": {"interval": "100 us"},
    "topology": {"kind": "star", "hosts": 4, "link_rate": "16 Gbit/s", "link_delay": "200 ns"},
    "flow": [{"name": f"F{at}", "from": f"H{at}", "to": "H1" if at < 4 else "H2"} for at in (2, 3, 4)],
}
DOWN = {"kind": "down", "links": ["S1:1"], "start": "50 us", "lasts": "60 us"}
OWN = {"kind": "down", "links": ["H2"], "start": "50 us", "lasts": "60 us"}
ERRORS = {"kind": "errors", "links": ["S1:1"], "loss_ppb": 10_000_000}
SLOW = {"kind": "rate", "links": ["H1"], "rate": "5 Gbit/s", "start": "50 us", "lasts": "60 us"}
STALL = {"kind": "stall", "hosts": ["H1"], "start": "50 us", "lasts": "60 us"}
DRAIN = {"kind": "drain", "hosts": ["H1"], "rate": "5 Gbit/s", "start": "50 us"}


def test_scenarios_drawn_at_random() -> None:
    compared = compare.compare(event_drawing.many(1, 60), show=False)
    assert not compared.wrong
    assert len(compared.refused) <= 12, compared.refused


@pytest.mark.parametrize("seed", [343132565, 343132810, 343132875, 513000006])
def test_lost_answers_unchanged_rates_and_the_order_of_links_have_no_effect(seed: int) -> None:
    assert compare.differences(event_drawing.variant(seed)) == []


def test_scenarios_cover_every_kind() -> None:
    events = [event for seed in range(1, 60) for event in event_drawing.variant(seed)["event"]]
    assert {event["kind"] for event in events} == {"down", "rate", "errors", "stall", "drain", "stop"}
    assert any("every" in event for event in events)
    assert any("lasts" not in event for event in events)
    scenarios = [event_drawing.variant(seed) for seed in range(1, 60)]
    rerouting = [one["rerouting"] for one in scenarios if "rerouting" in one]
    assert len(rerouting) >= 4
    assert {tuple(one) for one in rerouting} == {("delay",), ("port_delay",), ("delay", "port_delay")}
    assert any("tables" in event_drawing.variant(seed).get("rerouting", {}) for seed in range(105, 115))
    assert any(one.get("flow_control", {}).get("lossy_lanes") for one in scenarios)
    kinds = [one["recovery"]["kind"] for one in scenarios if "recovery" in one]
    assert kinds.count("selective-repeat") >= 4
    assert kinds.count("go-back-n") >= 3


SELECTIVE = {"kind": "selective-repeat", "timeout": "30 us"}
GO_BACK = {"kind": "go-back-n", "timeout": "30 us"}


@pytest.mark.parametrize(
    ("name", "broken", "recovery"),
    [
        ("expire", lambda *_: None, SELECTIVE),
        ("take", lambda self, packet: (True, True), SELECTIVE),
        ("take_receipt", lambda *_: None, GO_BACK),
        ("answer", lambda *_, **__: None, GO_BACK),
    ],
)
def test_broken_recovery_is_noticed(
    monkeypatch: pytest.MonkeyPatch, name: str, broken: Any, recovery: dict[str, Any]
) -> None:
    scenario = {**STAR, "event": [DOWN, {**ERRORS, "links": ["H2"]}], "recovery": recovery}
    assert compare.differences(scenario) == []
    monkeypatch.setattr(recovering.Recovery, name, broken)
    assert compare.differences(scenario)


def tree() -> dict[str, Any]:
    """Two leaves with three hosts each, two spines, and a flow from each host of the first leaf."""
    ports = {"L1": 5, "L2": 5, "S1": 2, "S2": 2}
    links = [(f"H{at}", f"L{1 + (at > 3)}:{(at - 1) % 3 + 1}") for at in range(1, 7)]
    links += [(f"L{leaf}:{3 + spine}", f"S{spine}:{leaf}") for leaf in (1, 2) for spine in (1, 2)]
    topology = {
        "kind": "custom", "link_rate": "16 Gbit/s", "link_delay": "200 ns",
        "hosts": [f"H{at}" for at in range(1, 7)],
        "switches": [{"name": name, "ports": count} for name, count in ports.items()],
        "links": [{"from": one, "to": other} for one, other in links],
    }  # fmt: skip
    flows = [{"name": f"F{at}", "from": f"H{at}", "to": f"H{at + 3}"} for at in (1, 2, 3)]
    event = {"kind": "down", "links": ["L1:4"], "start": "50 us", "lasts": "100 us"}
    return {**STAR, "topology": topology, "flow": flows, "event": [event]}


@pytest.mark.parametrize(
    ("rerouting", "choice", "name"),
    [
        ({"delay": "20 us"}, {}, "reroute"),
        ({"delay": "20 us"}, {"ecmp": {}}, "reroute"),
        ({"delay": "20 us"}, {"adaptive_routing": {"per": "packet"}}, "reroute"),
        ({"port_delay": "20 us"}, {"ecmp": {}}, "change_port"),
        ({"port_delay": "20 us"}, {"adaptive_routing": {"per": "packet"}}, "change_port"),
    ],
)
def test_broken_rerouting_is_noticed(
    monkeypatch: pytest.MonkeyPatch, rerouting: dict[str, str], choice: dict[str, Any], name: str
) -> None:
    scenario = {**tree(), **choice, "rerouting": rerouting}
    assert compare.differences(scenario) == []
    monkeypatch.setattr(faults.Faults, name, lambda *_, **__: None)
    assert compare.differences(scenario)


def test_broken_tables_of_a_file_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts of one switch send to those of another over one of two links, which fails."""
    flows = [{"name": f"F{at}", "from": f"node-{at}", "to": f"node-{at + 3}"} for at in range(3)]
    folder = lid_drawing.FOLDER
    scenario = {
        **STAR,
        "topology": {"kind": "file", "file": str(folder / "fabric.topo")},
        "routing": {"kind": "table", "file": str(folder / "fabric.lft")},
        "flow": [*flows, {"name": "F3", "from": "node-0", "to": "node-6"}],
        "event": [{"kind": "down", "links": ["swA:8"], "start": "50 us", "lasts": "100 us"}],
        "rerouting": {"delay": "20 us", "tables": str(lid_drawing.AFTER / "fabric.lft")},
    }
    assert compare.differences(scenario) == []
    monkeypatch.setattr(reading, "ports_of", lambda *_: {})
    assert compare.differences(scenario)


@pytest.mark.parametrize("shared", [{}, {"shared": {"alpha_shift": 0, "reserve": "4 KiB"}}])
def test_broken_headroom_of_slow_links_is_noticed(
    monkeypatch: pytest.MonkeyPatch, shared: dict[str, Any]
) -> None:
    control, slow = {"kind": "pfc", **shared}, {**SLOW, "links": ["H2"]}
    scenario = {**STAR, "flow_control": control, "switch": {"buffer": "64 KiB"}, "event": [slow]}
    assert compare.differences(scenario) == []
    monkeypatch.setattr(reading, "slowest_paces", lambda *_: {})
    assert compare.differences(scenario)


def test_broken_requests_for_lost_grants_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = {
        **STAR,
        "congestion": {"notification": "ack-grant", "reaction": {"kind": "rccc", "round_trip": "2 us"}},
        "event": [DOWN, {**ERRORS, "loss_ppb": 200_000_000}],
        "recovery": SELECTIVE,
    }
    assert compare.differences(scenario) == []
    monkeypatch.setattr(recovering.Recovery, "ask_again", lambda *_: None)
    assert compare.differences(scenario)


@pytest.mark.parametrize("shared", [{}, {"shared": {"alpha_shift": 0, "reserve": "4 KiB"}}])
def test_broken_lossy_lanes_are_noticed(monkeypatch: pytest.MonkeyPatch, shared: dict[str, Any]) -> None:
    control = {"kind": "pfc", "lossy_lanes": [0], **shared}
    scenario = {**STAR, "flow_control": control, "switch": {"buffer": "64 KiB"}, "recovery": SELECTIVE}
    assert compare.differences(scenario) == []
    monkeypatch.setattr(pausing.Pausing, "drops", lambda *_: False)
    assert compare.differences(scenario)


def test_receipts_let_a_host_check_its_flow_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow whose delay has passed joins the ring then, before flows that get a new message later."""
    scenario = event_drawing.variant(208)
    assert scenario["congestion"]["reaction"]["kind"] == "qcn"
    assert compare.differences(scenario) == []
    monkeypatch.setattr(hosts.Host, "reopen", lambda *_: None)
    assert compare.differences(scenario)


@pytest.mark.parametrize(
    ("part", "name", "broken", "event"),
    [
        (faults.Fault, "loses", lambda *_: False, DOWN),
        (faults.Fault, "loses", lambda self, packet, started: self.down_until > started + 100, OWN),
        (faults, "NEVER", 60_000_000, OWN),
        (faults.Stream, "chance", lambda *_: True, ERRORS),
        (links.Channel, "span", lambda self, size: -(-size * 500), SLOW),
        (draining.InputBuffer, "change", lambda self, pace: None, STALL),
        (draining.InputBuffer, "change", lambda self, pace: None, DRAIN),
    ],
)
def test_a_broken_reference_is_noticed(
    monkeypatch: pytest.MonkeyPatch, part: Any, name: str, broken: Any, event: dict[str, Any]
) -> None:
    scenario = {**STAR, "event": [event]}
    assert compare.differences(scenario) == []
    monkeypatch.setattr(part, name, broken)
    assert compare.differences(scenario)
