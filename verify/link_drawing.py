"""Random scenarios with spaced returns of credits, with credits that lanes share, or with link errors."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from verify import drawing, ecmp_drawing, rdma_drawing

Scenario = dict[str, Any]


def base(seed: int) -> Scenario:
    """Generate a scenario without these options."""
    found: Scenario = (drawing, drawing, rdma_drawing, ecmp_drawing)[seed % 4].variant(seed)
    return found


def variant(seed: int) -> Scenario:
    """Generate the scenario of a seed with one or all of the options. Shared credits need several lanes."""
    found, rng = base(seed), random.Random(f"links {seed}")
    options = rng.choice(["retry", "retry", "retry", "spacing", "shared", "all", "all"])
    flow_control: dict[str, Any] = {}
    if options in ("spacing", "all"):
        flow_control["return_spacing"] = rng.choice(["1 ps", "333 ps", "100 ns", "777 ns", "2 us"])
    if options in ("shared", "all"):
        found, shared = with_shared_credits(found, rng)
        flow_control |= shared
    if flow_control or rng.random() < 0.2:
        found["flow_control"] = {"kind": "credits", **flow_control}
    if options in ("retry", "all"):
        found["link"] = link(found, rng)
    return found


def with_shared_credits(found: Scenario, rng: random.Random) -> tuple[Scenario, dict[str, Any]]:
    """Return the scenario, and keys for shared credits if it has several lanes and undivided memory."""
    lanes = found.get("lanes", {})
    switch = found["switch"]
    usual = "shared" if switch.get("queues", "single") in ("single", "per-output") else "divided"
    if lanes.get("count", 1) == 1 or switch.get("memory", usual) == "divided":
        return found, {}
    mtu, header, block, control = (
        int(found["packet"][key].split()[0]) for key in ("mtu", "header", "credit_block", "control")
    )
    space = -(-max(mtu + header, control) // block) * block
    rule: dict[str, Any] = {}
    if rng.random() < 0.5:
        share = min(int(found[node]["buffer"].split()[0]) for node in ("host", "switch"))
        most = share // lanes["count"] // block * block
        rule["reserve"] = f"{rng.randint(space, max(most, space))} B"
    threshold = rng.choice(["none", "static", "dynamic"])
    if threshold == "static":
        rule["limit"] = f"{rng.randint(0, 8 * space)} B"
    if threshold == "dynamic":
        rule["alpha_shift"] = rng.choice([-2, -1, 0, 1, 3])
    return found, {"shared": rule}


def link(found: Scenario, rng: random.Random) -> dict[str, Any]:
    """Select an error rate, and link-level retry with a timer that is longer than every round trip."""
    mtu, header, control = (int(found["packet"][key].split()[0]) for key in ("mtu", "header", "control"))
    largest = max(mtu + header, control)
    spacing = rng.choice([0, 1, largest, 3 * largest])
    # The slowest links have 2 Gbit/s, at which a byte takes 4 ns, and no delay exceeds 1 us.
    least = 2_000 + 4 * (2 * largest + spacing) + 2
    retry: dict[str, Any] = {
        "timer": f"{least + rng.choice([0, rng.randint(0, 2 * least), 20 * largest])} ns",
        "count": 100_000,
        "ack_spacing": f"{spacing} B",
    }
    if rng.random() < 0.5:
        retry["frames"] = rng.choice([1, 2, 3, 10])
    if rng.random() < 0.5:
        retry["bytes"] = f"{largest * rng.choice([1, 2, 3, 10]) + rng.randint(0, largest - 1)} B"
    errors = rng.choice([0, 1_000_000, 20_000_000, 100_000_000, 300_000_000, 500_000_000])
    return {"error_rate_ppb": errors, "retry": retry}


def many(first: int, count: int) -> Iterator[tuple[str, Scenario]]:
    """Generate scenarios from consecutive seeds."""
    for seed in range(first, first + count):
        yield f"drawn for links from seed {seed}", variant(seed)
