"""Random scenarios of other modules with at most seven hosts, on a fabric whose hosts have several LIDs."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from verify import drawing, rdma_drawing
from verify.quantities import NotCovered
from verify.reading import network

Scenario = dict[str, Any]
FOLDER = Path(__file__).parents[1] / "tests/data/lmc"
#: Tables that send packets over the other link between the switches, and lack entries for one host.
AFTER = FOLDER.with_name("lmc-after")
HOSTS = {f"H{number}" for number in range(1, 8)}
NAME = re.compile(r"H([1-7])")
PLACE = re.compile(r"[SL]\d")


def on_fabric(value: Any) -> Any:
    """Replace the names of hosts in a value, including nested ones, by those of the fabric."""
    if isinstance(value, dict):
        return {key: on_fabric(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [on_fabric(inner) for inner in value]
    name = NAME.fullmatch(value) if isinstance(value, str) else None
    return f"node-{int(name[1]) - 1}" if name else value


def words(value: Any) -> Iterator[str]:
    """Yield all strings in a value, including nested ones."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from itertools.chain.from_iterable(map(words, value.values()))
    elif isinstance(value, list):
        yield from itertools.chain.from_iterable(map(words, value))


def fits(found: Scenario) -> bool:
    """Return whether the fabric has all hosts of a scenario, and the scenario names no switch."""
    try:
        hosts = set(network(found["topology"], found.get("routing")).hosts)
    except NotCovered:
        return False
    others = {key: value for key, value in found.items() if key not in ("topology", "routing")}
    return hosts <= HOSTS and not any(PLACE.match(word) for word in words(others))


def variant(seed: int) -> Scenario | None:
    """Generate a scenario from a seed; `None` if the scenario of that seed does not fit."""
    rng = random.Random(f"lids {seed}")
    found = (rdma_drawing if seed % 3 else drawing).variant(seed)
    if not fits(found):
        return None
    found = placed(found)
    reaction = found.get("congestion", {}).get("reaction", {})
    kinds = ["zero", "per-flow", "per-flow", "per-packet", "per-packet"]
    path_bits = "per-flow" if "hpcc" in words(reaction) else rng.choice(kinds)
    if path_bits == "per-packet" and rng.random() < 0.5:
        found["host"] = {**found.get("host", {}), "delivery": rng.choice(["in-order", "out-of-order"])}
    found["routing"]["path_bits"] = path_bits
    return found


def placed(found: Scenario) -> Scenario:
    """Place a scenario that fits on the fabric, with the tables of the base LIDs."""
    others = {
        key: on_fabric(value) for key, value in found.items() if key not in ("adaptive_routing", "routing")
    }
    topology = {"kind": "file", "file": str(FOLDER / "fabric.topo")}
    routing = {"kind": "table", "file": str(FOLDER / "fabric.lft")}
    return with_rates_of_fabric({**others, "topology": topology, "routing": routing})


def with_rates_of_fabric(found: Scenario) -> Scenario:
    """Change the rates of drawn thresholds to those of the fabric's links."""
    congestion = found.get("congestion", {})
    of_rates = congestion.get("marking", {}).get("thresholds")
    if not of_rates:
        return found
    own = [
        {**one, "rate": rate}
        for one, rate in zip(itertools.cycle(of_rates), drawing.rates(found), strict=False)
    ]
    return {**found, "congestion": {**congestion, "marking": {**congestion["marking"], "thresholds": own}}}


def many(first: int, count: int) -> Iterator[tuple[str, Scenario]]:
    """Generate the first `count` scenarios that fit, from consecutive seeds that begin with `first`."""
    drawn = ((seed, variant(seed)) for seed in itertools.count(first))
    fitting = ((f"drawn for LIDs from seed {seed}", found) for seed, found in drawn if found is not None)
    return itertools.islice(fitting, count)
