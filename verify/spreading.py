"""Random networks with several routes, and adaptive routing per packet on them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from verify.parts import PRESETS, part

Scenario = dict[str, Any]


def network(rng: random.Random) -> dict[str, Any]:
    """Generate a network in which switches have several ports to some hosts, and its routing."""
    kind = rng.choice(["k-ary-n-tree", "modified-k-ary-n-tree", "dragonfly-plus", *["custom"] * 5])
    if kind == "custom":
        return leaves_and_spines(rng)
    topology: dict[str, Any] = {"kind": kind}
    topology["link_rate"] = rng.choice(["16 Gbit/s", "7 Gbit/s", "54.54 Gbit/s"])
    topology["link_delay"] = rng.choice(["20 ns", "333 ps", "400 ns"])
    if kind == "dragonfly-plus":
        # There are fewer groups than the spines have links for, so several links lead to each group.
        topology |= {"p": rng.choice([1, 2]), "leaves": 2, "spines": 2, "h": rng.choice([1, 2]), "g": 2}
        return {"topology": topology}
    topology["k"], topology["n"] = rng.choice([(2, 2), (2, 3), (3, 2)])
    if kind == "modified-k-ary-n-tree":
        topology["horizontal_width"] = rng.randint(0, 2)
    return {"topology": topology}


def leaves_and_spines(rng: random.Random) -> dict[str, Any]:
    """Generate leaves and spines with parallel links of one or several rates, on ports in any order."""
    leaves = [f"L{number + 1}" for number in range(rng.randint(2, 4))]
    spines = [f"S{number + 1}" for number in range(rng.choice([1, 2, 2, 3]))]
    links_each = [1, 1, 2, 3] if len(spines) > 1 else [2, 3]
    hosts = [f"H{number + 1}" for number in range(rng.randint(4, 9))]
    # The first host, to which most flows go, has few other hosts at its leaf.
    joints = [(hosts[0], leaves[0])] + [(host, rng.choice(leaves[rng.randrange(2) :])) for host in hosts[1:]]
    joints += [(leaf, spine) for leaf in leaves for spine in spines for _ in range(rng.choice(links_each))]
    if rng.random() < 0.2:
        joints.append((leaves[0], leaves[1]))
    switches = rng.sample([*leaves, *spines], len(leaves) + len(spines))
    degree = {switch: sum(switch in joint for joint in joints) for switch in switches}
    count = {switch: degree[switch] + rng.choice([0, 0, 1, 2]) for switch in switches}
    free = {switch: rng.sample(range(1, count[switch] + 1), degree[switch]) for switch in switches}
    alike = rng.random() < 0.5
    rates = ["16 Gbit/s"] if alike else ["4 Gbit/s", "7 Gbit/s", "16 Gbit/s", "32 Gbit/s", "54.54 Gbit/s"]
    delays = ["20 ns"] if alike else ["1 ns", "20 ns", "333 ps", "400 ns"]
    links = [
        {
            "from": near if near in hosts else f"{near}:{free[near].pop()}",
            "to": f"{far}:{free[far].pop()}",
            "rate": rng.choice(rates),
            "delay": rng.choice(delays),
        }
        for near, far in joints
    ]
    found: dict[str, Any] = {
        "topology": {
            "kind": "custom",
            "hosts": hosts,
            "switches": [{"name": switch, "ports": count[switch]} for switch in switches],
            "links": links,
        }
    }
    routing = rng.choice([{}, {"kind": "shortest-path"}, {"kind": "up-down", "root": spines}])
    return {**found, "routing": routing} if routing else found


def choosing(found: Scenario) -> Scenario:
    """Let each packet of a random scenario choose its route. The options follow from the seed."""
    rng = random.Random(f"ways of packets {found['seed']}")
    switch = dict(found["switch"])
    if switch.get("queues", "per-output") in ("per-output", "output-modulo"):
        # The sender cannot determine which output of the next switch a packet takes, so memory is shared.
        switch["memory"] = "shared"
        switch.pop("queue_buffer", None)
    rule: dict[str, Any] = {"per": "packet"}
    mtu = int(found["packet"]["mtu"].split()[0])
    grade = rng.choice([None, 1, 64, mtu // 2, 2 * mtu, 10 * mtu])
    if grade:
        rule["grade"] = f"{grade} B"
    flows = found["flow"]
    if rng.random() < 0.4:
        rule["levels"] = sorted({0, *rng.sample(range(16), rng.choice([1, 8, 14]))})
        flows = [{"sl": rng.randrange(2), **one} for one in flows]
    likely = [name for name in ("throttled", "isolated") if _has(found, name) and rng.random() < 0.6]
    if likely:
        rule["pinned"] = rng.sample(likely, len(likely))
    return {**found, "switch": switch, "flow": flows, "adaptive_routing": rule}


def _has(found: Mapping[str, Any], pinned: str) -> bool:
    """Return whether a scenario has the component that `pinned` requires."""
    given = dict(found.get("congestion", {}))
    preset = PRESETS[given.get("mechanism", "none")]
    key = {"throttled": "reaction", "isolated": "isolation"}[pinned]
    return bool(part(given, key, preset)["kind"] != "none")
