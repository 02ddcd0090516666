"""Tests the second model's packet routes: port groups, selection among them, and order at receivers."""

import random
import sys

import pytest

import silvan
from conftest import ROOT

sys.path.insert(0, str(ROOT))

from verify import compare, drawing, groups, mixing, quantities, reading, reference, spreading
from verify.reference import choices, ordering, switches

#: Two leaves with two hosts each, and two spines. One spine has two links, and ports are out of order.
LEAVES = {
    "kind": "custom",
    "hosts": ["A", "B", "C", "D"],
    "switches": [{"name": name, "ports": 6} for name in ("L1", "L2", "S1", "S2")],
    "links": [
        {"from": "A", "to": "L1:6"},
        {"from": "B", "to": "L1:2"},
        {"from": "C", "to": "L2:1"},
        {"from": "D", "to": "L2:2", "rate": "4 Gbit/s"},
        {"from": "L1:5", "to": "S1:1"},
        {"from": "L1:1", "to": "S1:3"},
        {"from": "L1:3", "to": "S2:6", "rate": "8 Gbit/s", "delay": "700 ns"},
        {"from": "L2:4", "to": "S1:2"},
        {"from": "L2:5", "to": "S1:5"},
        {"from": "L2:6", "to": "S2:1"},
    ],
}
TO_C = [
    drawing.flow("A", "C", name="A-C"),
    drawing.flow("B", "C", name="B-C", sl=1),
    drawing.flow("B", "D", name="B-D", message="700 B"),
    drawing.flow("D", "A", name="D-A", rate="3 Gbit/s"),
]
SMALL = {"buffer": "8 KiB"}


def scenario(rule, topology=LEAVES, flows=TO_C, **more):
    return {
        "duration": "60 us",
        "measure": {"interval": "3 us"},
        "topology": topology,
        "switch": SMALL,
        "adaptive_routing": {"per": "packet", **rule},
        "flow": flows,
        **more,
    }


def ports(topology, routing=None):
    net = reading.network(topology, routing)
    return groups.groups(net, net.ways())


def test_groups_of_a_tree():
    """A leaf can use all up ports, but only one down port if the destination is below it."""
    found = ports({"kind": "k-ary-n-tree", "k": 2, "n": 3})
    assert found["L1.1"] == {"H1": (1,), "H2": (2,)} | {f"H{n}": (3, 4) for n in range(3, 9)}
    assert found["L2.3"]["H5"] == (1,)
    assert found["L2.3"]["H7"] == (2,)
    assert found["L2.3"]["H2"] == (3, 4)
    assert found["L3.4"]["H2"] == (1,)
    assert found["L3.4"]["H5"] == (2,)


def test_parallel_links_are_several_ports():
    found = ports(LEAVES, {"kind": "shortest-path"})
    assert found["L1"] == {"A": (6,), "B": (2,), "C": (1, 3, 5), "D": (1, 3, 5)}
    assert found["S1"]["C"] == (2, 5)
    assert found["S1"]["A"] == (1, 3)
    assert found["S2"]["D"] == (1,)


def test_links_between_neighbours_of_a_tree_lead_no_nearer():
    tree = {"kind": "modified-k-ary-n-tree", "k": 2, "n": 2, "horizontal_width": 2}
    assert ports(tree) == ports({"kind": "k-ary-n-tree", "k": 2, "n": 2})


def test_a_table_that_goes_a_longer_way_stands_alone():
    net = reading.network(LEAVES, {"kind": "shortest-path"})
    tables = net.ways()
    # The route goes from the first leaf's spine back to the leaf. It is useless, but a table may contain it.
    tables["S1"]["C"] = 3
    found = groups.groups(net, tables)
    assert found["S1"]["C"] == (3,)
    assert found["S1"]["D"] == (2, 5)


def test_links_between_groups():
    """A spine has two links to the other group, and each leaf is connected to both spines."""
    found = ports({"kind": "dragonfly-plus", "p": 1, "leaves": 2, "spines": 2, "h": 2, "g": 2})
    assert {host: len(group) for host, group in found["G0.0"].items()} == {"H1": 1, "H2": 2, "H3": 2, "H4": 2}
    assert {host: len(group) for host, group in found["G0.2"].items()} == {"H1": 1, "H2": 1, "H3": 2, "H4": 2}


@pytest.mark.parametrize("kind", ["torus", "mesh", "hyperx"])
def test_a_cycle_of_groups_is_refused_by_both(kind):
    """On a square, packets that may use both directions can wait for each other in a cycle."""
    grid = {"kind": kind, "sizes": [2, 2]}
    flows = [drawing.flow("H1", "H4", name="F")]
    free = {"routing": {"kind": "dimension-order", "allow_deadlock": True}}
    assert compare.differences(scenario({}, grid, flows, **free)) == []
    refused = scenario({}, grid, flows)
    with pytest.raises(quantities.NotCovered, match="wait in a cycle"):
        reading.plan(refused)
    with pytest.raises(silvan.ScenarioError, match="wait for each other along"):
        silvan.run(silvan.Scenario.from_toml(compare.toml(refused, top=True)))


@pytest.mark.parametrize(
    ("rule", "more"),
    [
        ({"pinned": ["throttled"]}, {}),
        ({"pinned": ["isolated"]}, {"congestion": drawing.cc()}),
        ({"heuristic": "bytes"}, {}),
        (
            {"per": "flow", "grade": "1 KiB"},
            {"topology": {"kind": "k-ary-n-tree", "k": 2, "n": 2}, "flow": []},
        ),
        ({}, {"congestion": {"mechanism": "saa"}}),
        ({}, {"switch": {"queues": "output-modulo"}}),
        ({}, {"switch": {"queues": "per-output", "memory": "divided"}}),
        (
            {},
            {
                "topology": {"kind": "mesh", "sizes": [4]},
                "lanes": {"assignment": "routing"},
                "flow": [drawing.flow("H1", "H2")],
            },
        ),
    ],
)
def test_both_models_refuse_the_same(rule, more):
    refused = scenario(rule) | more
    with pytest.raises(quantities.NotCovered):
        reading.plan(refused)
    with pytest.raises(silvan.ScenarioError, match="adaptive_routing"):
        silvan.run(silvan.Scenario.from_toml(compare.toml(refused, top=True)))


def test_without_it_packets_keep_to_the_tables():
    off = scenario({"enabled": False})
    assert reading.plan(off).adaptive is None
    assert compare.differences(off) == []


def test_a_cycle_is_named():
    net = reading.network({"kind": "mesh", "sizes": [2, 2]}, None)
    found = groups.circle(net, groups.groups(net, net.ways()))
    assert {switch for switch, _ in found} == {"S0.0", "S1.0", "S0.1", "S1.1"}
    assert len(found) == 4
    tree = reading.network({"kind": "k-ary-n-tree", "k": 2, "n": 3}, None)
    assert groups.circle(tree, groups.groups(tree, tree.ways())) == []


class Loaded(choices.Choices):
    """Selects ports by given loads."""

    def __init__(self, switch, rule):
        super().__init__(switch, rule)
        self.loads = {1: 0, 3: 0, 5: 0}

    def load(self, port, lane):
        return self.loads[port]


def chooser(**rule):
    """Return the port selection of the first leaf (number 0), and a function that creates a packet."""
    net = reference.Network(reading.plan(scenario({"grade": "1000 B", **rule})))
    flows = {flow.source.level: flow for name, flow in net.flows.items() if name in ("A-C", "B-C")}

    def packet(level=0, kind="data", **more):
        return reference.Packet(flows[level], "C", 1000, 1000, 1024, lane=0, kind=kind, **more)

    return Loaded(net.switches["L1"], net.plan.by_packet), packet


def test_loads_of_one_grade_are_alike():
    leaf, packet = chooser()
    table = leaf.switch.table["C"]
    for count, (loads, best) in enumerate(
        [
            ((0, 0, 0), (1, 3, 5)),
            ((999, 0, 1000), (1, 3)),
            ((3999, 2999, 3000), (3,)),
            ((3999, 3000, 3500), (1, 3, 5)),
        ]
    ):
        leaf.loads = dict(zip((1, 3, 5), loads, strict=True))
        assert leaf.output(packet()) == best[mixing.drawn((1, 0, count)) % len(best)]
    assert leaf.count == 4
    # Packets of other kinds use the table.
    assert leaf.output(packet(kind="answer")) == table
    assert leaf.output(packet(is_pinned=True)) == table
    assert leaf.count == 4
    assert {leaf.output(packet()) for _ in range(40)} == {1, 3, 5}


def test_levels_that_do_not_choose_take_the_table_s_port():
    leaf, packet = chooser(levels=[1])
    table = leaf.switch.table["C"]
    leaf.loads = dict.fromkeys((1, 3, 5), 0) | {table: 5000}
    assert leaf.output(packet(level=0)) == table
    assert leaf.count == 0
    assert leaf.output(packet(level=1)) != table


def test_a_load_is_what_waits_and_what_the_far_end_holds():
    net = reference.Network(reading.plan(scenario({})))
    leaf, flow = net.switches["L1"], net.flows["A-C"]
    packet = reference.Packet(flow, "C", 1000, 1000, net.space(1000), lane=0)
    packet.output = 5
    leaf.enqueue(packet, 6)
    leaf.enqueue(packet, 2)
    assert leaf.choices.load(5, 0) == 2000
    leaf.send_from(5, 0)
    # One packet is on its way and occupies sixteen blocks.
    assert leaf.choices.load(5, 0) == 1000 + 1024
    assert leaf.choices.load(1, 0) == 0


def test_the_order_of_a_receiver():
    """Packets 3 and 2 wait for 1, and 5 waits for 4. The other flow does not wait."""
    tally = ordering.Reordering()
    order = ordering.Order(tally)

    def packet(flow, number):
        return reference.Packet(flow, "B", 100 * (number + 1), 0, 0, 0, number=number)

    got = []
    for time, (flow, number) in enumerate(
        [("F", 0), ("F", 3), ("G", 0), ("F", 2), ("F", 1), ("F", 5), ("F", 4), ("F", 7), ("G", 2)]
    ):
        ready = order.drained(packet(flow, number), 10 * time)
        got.append([(one.flow, one.number) for one in ready])
    assert got == [
        [("F", 0)],
        [],
        [("G", 0)],
        [],
        [("F", 1), ("F", 2), ("F", 3)],
        [],
        [("F", 4), ("F", 5)],
        [],
        [],
    ]
    waited = (40 - 10) + (40 - 30) + (60 - 50)
    assert tally == ordering.Reordering(late=3, held=5, released=3, waited_ps=waited, most_bytes=800 + 300)


CCFIT = {
    "mechanism": "ccfit",
    "isolation": {"detection": "2 KiB", "stop": "4 KiB", "go": "1 KiB"},
    "reaction": {"ccti_timer": 1},
}
SCENARIOS = {
    "loads": scenario({"grade": "512 B"}),
    "throttled": scenario({"pinned": ["throttled"]}, congestion=drawing.cc(marking_rate=0, threshold=15)),
    "isolated": scenario({"grade": "1 B", "pinned": ["throttled", "isolated"]}, congestion=CCFIT),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_both_models_send_packets_the_same_ways(name):
    assert compare.differences(SCENARIOS[name]) == []


@pytest.mark.parametrize(
    ("part", "name", "broken", "of"),
    [
        (choices.Choices, "load", lambda *_: 0, "loads"),
        (choices, "drawn", lambda words: words[2], "loads"),
        (switches.VoqSwitch, "waits_for", lambda *_: 0, "loads"),
        (reference.Channel, "used", lambda *_: 0, "loads"),
        (ordering.Order, "drained", lambda order, packet, now: [packet], "loads"),
        (reference.TableControl, "strength", lambda *_: 0, "throttled"),
        (choices.Choices, "keeps", lambda *_: False, "isolated"),
    ],
)
def test_a_defect_of_ways_of_packets_shows(monkeypatch, part, name, broken, of):
    monkeypatch.setattr(part, name, broken)
    assert compare.differences(SCENARIOS[of])


@pytest.mark.parametrize("first", [90, 252])
def test_drawn_scenarios_whose_packets_choose(first):
    compared = compare.compare(drawing.many(first, 24), show=False)
    assert not compared.wrong
    assert not compared.refused


def test_what_is_drawn_for_packets_that_choose():
    """Covers every architecture, both kinds of pinned packets, several grades, and several networks."""
    turns = [turn for turn in range(18) if turn % drawing.ROUNDS in drawing.CHOOSING]
    found = [drawing.variant(len(drawing.VARIANTS) * turn + number) for turn in turns for number in range(18)]
    rules = [scenario["adaptive_routing"] for scenario in found]
    assert {rule["per"] for rule in rules} == {"packet"}
    assert {rule.get("grade") for rule in rules} >= {None, "1 B", "64 B"}
    assert {name for rule in rules for name in rule.get("pinned", ())} == {"throttled", "isolated"}
    assert any("levels" in rule for rule in rules)
    architectures = {
        (one["switch"].get("architecture", "voq"), one["switch"].get("arbitration")) for one in found
    }
    assert architectures >= {("voq", None), ("voq", "fcfs"), ("iq", None), ("cioq", None)}
    kinds = {one["topology"]["kind"] for one in found}
    assert kinds == {"k-ary-n-tree", "modified-k-ary-n-tree", "dragonfly-plus", "custom"}
    assert len({one["switch"].get("queues") for one in found}) == 6


def graph(seed):
    """Generate a random graph with hosts at random switches, and a random routing."""
    rng = random.Random(seed)
    names = [f"S{number}" for number in range(rng.randint(3, 7))]
    hosts = [f"H{number}" for number in range(rng.randint(2, 6))]
    pairs = [(names[at], names[rng.randrange(at)]) for at in range(1, len(names))]
    pairs += [tuple(rng.sample(names, 2)) for _ in range(rng.randint(1, 6))]
    pairs += [(host, rng.choice(names)) for host in hosts]
    ends = {name: iter(range(1, 99)) for name in names}
    links = [
        {
            key: end if end in hosts else f"{end}:{next(ends[end])}"
            for key, end in zip(("from", "to"), pair, strict=True)
        }
        for pair in rng.sample(pairs, len(pairs))
    ]
    routing = rng.choice([{"kind": "up-down"}, {"kind": "shortest-path"}, {"root": rng.choice(names)}])
    return {
        "routing": {"kind": "up-down", **routing, "allow_deadlock": True},
        "topology": {
            "kind": "custom",
            "hosts": hosts,
            "switches": [{"name": name} for name in names],
            "links": links,
        },
        "flows": [
            drawing.flow(near, far, name=f"{near}-{far}", rate="0.5 Gbit/s")
            for near in hosts
            for far in hosts
            if near != far
        ],
        "host": {"buffer": "1 MiB"},
    }


@pytest.mark.parametrize("seed", range(12))
def test_tables_of_any_graph(seed):
    """If the tables leave the shortest routes, packets use only the routes of the tables."""
    drawn = scenario({"grade": "1 B"}, **graph(seed)) | {"switch": {"buffer": "1 MiB"}}
    assert compare.differences(drawn) == []
    del drawn["adaptive_routing"]
    assert compare.differences(drawn) == []


def test_spreading_refuses_nothing_that_it_draws():
    """The networks have no cycles, and each switch of a tree or leaf has several ports to some host."""
    for seed in range(60):
        found = spreading.network(random.Random(seed))
        net = reading.network(found["topology"], found.get("routing"))
        of_switches = groups.groups(net, net.ways())
        assert groups.circle(net, of_switches) == []
        assert any(len(group) > 1 for of_hosts in of_switches.values() for group in of_hosts.values())
