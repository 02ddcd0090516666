"""Tests detours in the second model: each packet uses the minimal route or a random group, by load."""

import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT))

from verify import compare, direct, drawing, mixing, quantities, reading, reference
from verify.reference import choices, ordering, switches

#: Five groups of two switches, and five groups of two leaves and two spines.
DRAGONFLY = {"kind": "dragonfly", "p": 2, "a": 2, "h": 2}
PLUS = {"kind": "dragonfly-plus", "p": 2, "leaves": 2, "spines": 2, "h": 2}
#: The hosts of the first group send to those of the second, except one, which sends within its group.
TO_NEXT = [drawing.flow(f"H{n}", f"H{n + 4}", name=f"F{n}") for n in range(1, 5)]
#: Hosts of all other groups send to one host of the second group, so lanes fill up.
TO_ONE = [drawing.flow(f"H{n}", "H5", name=f"F{n}") for n in range(9, 21)]
FLOWS = [*TO_NEXT, drawing.flow("H4", "H1", name="within", rate="1 Gbit/s")]


def scenario(topology=DRAGONFLY, bias="0 B", **more):
    return {
        "duration": "60 us",
        "measure": {"interval": "3 us"},
        "topology": topology,
        "routing": {"kind": "ugal", "bias": bias},
        "lanes": {"count": 3, "assignment": "routing"},
        "switch": {"buffer": "24 KiB"},
        "flow": FLOWS,
        **more,
    }


def detours(of, monkeypatch):
    """Return the groups that packets between groups selected, and the network after the run."""
    found = []
    group = choices.Detours.group

    def noted(self, packet):
        over = group(self, packet)
        found.append(over)
        return over

    monkeypatch.setattr(choices.Detours, "group", noted)
    net = reference.Network(reading.plan(of))
    net.run()
    return found, net


@pytest.mark.parametrize("topology", [DRAGONFLY, PLUS])
@pytest.mark.parametrize("more", [{}, {"congestion": drawing.cc(marking_rate=0)}])
def test_packets_take_detours_in_both_models(monkeypatch, topology, more):
    of = scenario(topology, **more)
    assert compare.differences(of) == []
    found, net = detours(of, monkeypatch)
    assert None in found
    assert len(set(found)) > 2
    assert net.reordering.late > 0


def test_a_large_bias_keeps_packets_on_minimal_ways(monkeypatch):
    of = scenario(bias="1 MiB")
    assert compare.differences(of) == []
    found, net = detours(of, monkeypatch)
    assert set(found) == {None}
    assert net.reordering.late == 0


def test_between_two_groups_nothing_is_drawn():
    of = scenario({**DRAGONFLY, "g": 2})
    net = reference.Network(reading.plan(of))
    net.run()
    assert all(switch.detours.count == 0 for switch in net.switches.values())
    assert compare.differences(of) == []


def test_lanes_of_minimal_ways_are_those_of_detours():
    net = reading.network(DRAGONFLY, {"kind": "ugal"})
    assert [lane for _, lane in net.way("H1", "H5").steps.values()][-1] == 2
    assert [lane for _, lane in net.way("H1", "H4").steps.values()] == [0, 0]
    plus = reading.network(PLUS, {"kind": "ugal"})
    assert [lane for _, lane in plus.way("H1", "H5").steps.values()] == [0, 0, 1, 1]


def test_packets_that_choose_need_lanes_of_their_ways():
    with pytest.raises(quantities.NotCovered, match="lanes of their ways"):
        reading.plan(scenario(lanes={"count": 3}))


@pytest.mark.parametrize(
    ("part", "name", "broken"),
    [
        (choices.Detours, "group", lambda *_: None),
        (choices, "load_of", lambda *_: 0),
        (choices, "drawn", lambda words: mixing.drawn(words[:2])),
        (switches.VoqSwitch, "waits_for", lambda *_: 0),
        (reference.Channel, "used", lambda *_: 0),
        (ordering.Order, "drained", lambda order, packet, now: [packet]),
    ],
)
def test_a_defect_of_detours_shows(monkeypatch, part, name, broken):
    monkeypatch.setattr(part, name, broken)
    assert compare.differences(scenario())


def test_lanes_of_minimal_routes_show(monkeypatch):
    of = scenario(flow=[*TO_NEXT, *TO_ONE], switch={"buffer": "12 KiB"})
    assert compare.differences(of) == []
    monkeypatch.setattr(direct.Groups, "has_lanes_of_detours", lambda _: False)
    assert compare.differences(of)


def test_drawn_scenarios_have_detours():
    """Some random scenarios with direct networks have packets that select routes, with and without bias."""
    first = len(drawing.VARIANTS) * (drawing.ROUNDS - 1)
    step = len(drawing.VARIANTS) * drawing.ROUNDS
    seeds = [first + turn * step + number for turn in range(4) for number in range(18)]
    drawn = [found for found in map(drawing.variant, seeds) if found.get("routing", {}).get("kind") == "ugal"]
    assert {found["topology"]["kind"] for found in drawn} == {"dragonfly", "dragonfly-plus"}
    assert len({found["routing"]["bias"] for found in drawn}) > 2
    for found in drawn[:6]:
        assert compare.differences(found) == []
