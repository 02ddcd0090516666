"""Random scenarios whose hosts have several ports, made from those of other drawings."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

from verify import drawing, ecmp_drawing, event_drawing, rdma_drawing
from verify.ports import COPIED, named
from verify.quantities import NotCovered
from verify.reading import network
from verify.wiring import Wiring

Scenario = dict[str, Any]
#: Returns the new name of a node or the end of a link.
Namer = Callable[[str], str]

DRAWINGS = (drawing.variant, ecmp_drawing.variant, rdma_drawing.variant, event_drawing.variant)
#: Networks that the second model can copy.
KINDS = ("star", "dumbbell", "custom", "k-ary-n-tree", "modified-k-ary-n-tree")


def variant(seed: int) -> Scenario:
    """Generate the scenario of a seed, from the next seed of another drawing that permits several ports."""
    rng = random.Random(f"ports {seed}")
    draw = rng.choice(DRAWINGS)
    for other in count(100 * seed):
        found = draw(other)
        is_possible = found.get("flow") and found["topology"]["kind"] in KINDS and not is_tied(found)
        if is_possible and type(network(found["topology"], None)) in COPIED:
            return with_ports(found, rng)
    raise AssertionError


def is_tied(found: Scenario) -> bool:
    """Return whether settings refer to names or numbers of hosts, or to the routes of the network."""
    reaction = found.get("congestion", {}).get("reaction", {})
    return bool(
        "routing" in found
        or "rerouting" in found
        or found.get("lanes", {}).get("assignment") in ("routing", "destination-hash")
        or reaction.get("kind") == "explicit-rate"
        or "hosts" in found.get("congestion", {})
        or "ports" in found.get("congestion", {}).get("marking", {})
    )


def with_ports(found: Scenario, rng: random.Random) -> Scenario:
    """Give the hosts of a scenario several ports; its flows and events then refer to ports."""
    found = {key: value for key, value in found.items() if key not in ("traffic", "adaptive_routing")}
    net = network(found["topology"], None)
    ports = {"count": rng.choice([2, 2, 3]), "wiring": rng.choice(["planes", "planes", "rails", "block"])}
    if not can_divide(net, ports):
        ports["wiring"] = "planes"
    copies = named(net, ports["wiring"], ports["count"])
    if rng.random() < 0.2:
        ports["use"] = "rank"
    flows = [renamed(flow, namer(rng.choice(copies)), ("from", "to")) for flow in found["flow"]]
    events = [
        renamed(event, namer(rng.choice(copies)), ("links", "hosts", "switches"))
        for event in found.get("event", [])
    ]
    more = {"event": events} if events else {}
    return {**found, "ports": ports, "flow": flows, **more}


def can_divide(net: Wiring, ports: Mapping[str, Any]) -> bool:
    """Return whether the hosts of a network can be divided among hosts with several ports."""
    if ports["wiring"] == "block":
        return len(net.hosts) % ports["count"] == 0
    try:
        named(net, ports["wiring"], ports["count"])
    except NotCovered:
        return False
    homes = [net.home_of(host) for host in net.hosts]
    leaves = [home for home, before in zip(homes, [None, *homes], strict=False) if home != before]
    return ports["wiring"] == "planes" or len(leaves) == len(set(leaves))


def namer(names: Mapping[str, str]) -> Namer:
    """Return the function that names the nodes of a copy, with the ports of switches."""

    def name(end: str) -> str:
        node, colon, port = end.partition(":")
        return names[node] + colon + port

    return name


def renamed(table: Mapping[str, Any], name: Namer, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return a table in which the names of some keys are new."""
    return {
        key: value
        if key not in keys
        else name(value)
        if isinstance(value, str)
        else [name(one) for one in value]
        for key, value in table.items()
    }


def many(first: int, number: int) -> Iterator[tuple[str, Scenario]]:
    """Generate scenarios from consecutive seeds."""
    for seed in range(first, first + number):
        yield f"drawn for ports from seed {seed}", variant(seed)
