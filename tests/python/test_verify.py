"""The oracles of `verify/`, a quick subset, and that they would notice."""

import copy
import sys
from fractions import Fraction

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT))

from verify import cases, compare, laws, reading, reference

TABLE = dict(cases.table())


@pytest.mark.parametrize("name", TABLE)
def test_the_simulator_does_what_the_reference_does(name):
    found = compare.differences(TABLE[name])
    assert not found, f"{found[0]} ({len(found)} differences)"


def test_scenarios_drawn_at_random():
    assert compare.compare(cases.many(1000, 25), show=False) == []


def test_the_scenarios_reach_what_they_are_there_for():
    """Marks, notifications, throttling, waiting for credits, slow links before fast ones."""
    marked, throttled, full = 0, 0, 0
    for scenario in (TABLE[name] for name in TABLE if "CC" in name or "one packet" in name):
        net = reference.Network(reading.plan(scenario))
        samples = net.run()
        marked += net.fecn_marks > 10
        throttled += any(max(sample.ccti.values(), default=0) > 2 for sample in samples)
        full += any(
            min(channel.credit) < net.space(net.plan.mtu)
            for switch in net.switches.values()
            for channel in switch.out.values()
        )
    assert marked >= 8
    assert throttled >= 6
    assert full >= 3


@pytest.mark.parametrize(
    ("part", "name", "broken"),
    [
        (reference.PortState, "marks", lambda *_: False),
        (reference.Control, "notified", lambda *_: None),
        (reference.Limiter, "take", lambda _, start, size: start + size * 500),
        (reference.Channel, "span", lambda channel, size: int(size * channel.pace) + 1000),
    ],
)
def test_a_defect_of_either_model_shows(monkeypatch, part, name, broken):
    scenario = TABLE["dumbbell: CC"]
    assert compare.differences(scenario) == []
    monkeypatch.setattr(part, name, broken)
    assert compare.differences(scenario)


@pytest.mark.parametrize(
    ("part", "name", "broken"),
    [
        # Lanes always in the order of their numbers.
        (
            reference.Switch,
            "decide",
            lambda switch: [any(switch.send_from(out, lane) for lane in switch.lanes) for out in switch.out],
        ),
        (reading, "_share", lambda text, block, lanes: reading.size_bytes(text) // block * block),
        (reading, "_lanes", lambda lanes: reading.Lanes(lanes.get("count", 1), (0,) * 16, None)),
    ],
)
def test_a_defect_of_virtual_lanes_shows(monkeypatch, part, name, broken):
    scenario = TABLE["2 lanes: dumbbell, CC, control apart"]
    monkeypatch.setattr(part, name, broken)
    assert compare.differences(scenario)


def test_control_packets_wait_for_their_lane(monkeypatch):
    """There is a scenario in which they do while data of the other lane goes on."""
    waited = set()
    send_data = reference.Host.send_data

    def noting(host, lacking):
        waited.update(lacking)
        send_data(host, lacking)

    monkeypatch.setattr(reference.Host, "send_data", noting)
    reference.Network(reading.plan(TABLE["2 lanes: star, full lane"])).run()
    assert waited == {1}


@pytest.mark.parametrize("check", list(laws.checks(quick=True)), ids=lambda check: check.name)
def test_laws(check):
    assert check.passed, f"{check.simulated} where the law has {check.law} +- {check.tolerance}"


def test_a_law_that_is_missed_fails():
    assert not laws.Check("x", 1.0, 1.02, 0.01).passed
    assert laws.sampled("x", 1.0, [1.0] * 8, 0.01).passed
    assert not laws.sampled("x", 2.0, [1.0, 1.1, 0.9, 1.0, 1.05, 0.95], 0.0).passed


def test_quantities_are_read_exactly():
    assert reading.time_ps("1.5 us") == 1_500_000
    assert reading.size_bytes("2 KiB") == 2048
    assert reading.rate_ps_per_byte("13.5 Gbit/s") == Fraction(8000, 1) / Fraction(27, 2)
    assert reading.rate_ps_per_byte("2 GB/s") == 500
    with pytest.raises(ValueError, match="not whole"):
        reading.time_ps("0.5 ps")


def test_the_reference_refuses_what_it_does_not_model():
    scenario = copy.deepcopy(TABLE["star: a flow"])
    for key, value in (
        ("lanes", {"weights": [1, 2]}),
        ("traffic", []),
        ("switch", {"architecture": "iq"}),
    ):
        with pytest.raises(reading.NotCovered):
            reading.plan({**scenario, key: value})
