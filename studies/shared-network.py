"""Prints how much longer than alone two applications take that share a network.

docs/questions/shared-network.md describes the networks and the weights.

    .venv/bin/python studies/shared-network.py [SEED...]
"""

import random
import sys

import silvan
from silvan.papers import find_papers

TREE = str(find_papers() / "A3" / "all-to-one.toml")


def flows(name, hosts, permutations, size, rng):
    """Return random permutations of flows: name, source, destination, bytes."""
    found = []
    while len(found) < permutations * len(hosts):
        to = rng.sample(hosts, len(hosts))
        if all(a != b for a, b in zip(hosts, to, strict=True)):
            n = len(found)
            found += [(f"{name}{n}.{a}", f"H{a}", f"H{b}", size) for a, b in zip(hosts, to, strict=True)]
    return found


def assigned(flows):
    """Return the rate of each flow under single application assignment."""
    keys = ("name", "from", "to", "total")
    rows = [dict(zip(keys, (*flow[:3], f"{round(flow[3])} B"), strict=True)) for flow in flows]
    report = silvan.fluid(silvan.Scenario.load(TREE, {"flow": rows, "traffic": []}))
    return {row["flow"]: row["saa"]["gbit_s"] for row in report["flows"]}


def end(application, rates):
    """Return the time at which the last flow of an application ends."""
    return max(size * 8 / rates[name] for name, _, _, size in application)


for seed in map(int, sys.argv[1:] or ("1", "2", "3")):
    rng = random.Random(seed)
    hosts = rng.sample(range(1, 65), 64)
    small = flows("small", hosts[:32], 1, 2**20, rng)
    large = flows("large", hosts[32:], 4, 2**22, rng)
    alone = [end(own, assigned(own)) for own in (small, large)]
    by_size = assigned(small + large)
    # The unit does not matter, but totals are whole numbers of bytes.
    weighted = [
        (*flow[:3], flow[3] / time * 1e9)
        for own, time in zip((small, large), alone, strict=True)
        for flow in own
    ]
    fair = assigned(weighted)
    print(
        [
            round(end(own, r) / time, 2)
            for r in (by_size, fair)
            for own, time in zip((small, large), alone, strict=True)
        ]
    )
