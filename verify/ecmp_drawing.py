"""Random scenarios in which switches hash packets onto the ports of minimal routes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from verify import drawing, rdma_drawing
from verify.parts import PRESETS, part

Scenario = dict[str, Any]


def base(seed: int) -> Scenario:
    """Generate a scenario on a network with several routes; two of three seeds have RDMA."""
    many = len(drawing.VARIANTS)
    turn = drawing.ROUNDS * (seed // many) + drawing.CHOOSING[seed % len(drawing.CHOOSING)]
    on_several_routes = turn * many + seed % many
    found = (rdma_drawing if seed % 3 else drawing).variant(on_several_routes)
    return {key: value for key, value in found.items() if key != "adaptive_routing"}


def variant(seed: int) -> Scenario:
    """Generate the scenario of a seed with a table `ecmp`, often with entropy values."""
    found, rng = base(seed), random.Random(f"ecmp {seed}")
    rule: dict[str, Any] = {}
    if rng.random() < 0.1:
        rule["enabled"] = rng.random() < 0.5
    spraying = rng.choice(["none", *possible(found)])
    if spraying != "none" or rng.random() < 0.3:
        rule["spraying"] = spraying
    if spraying != "none" and rng.random() < 0.8:
        rule["values"] = rng.choice([1, 2, 4, 4, 16, 128])
    if spraying != "none" and rule.get("enabled", True) and rng.random() < 0.5:
        found["host"] = {
            **found["host"],
            "delivery": rng.choice(["in-order", "out-of-order", "out-of-order"]),
        }
    apart = random.Random(f"source routes {seed}")
    if spraying != "none" and apart.random() < 0.25:
        # Each route needs a value.
        rule |= {"selection": "source-route", "values": apart.choice([128, 512])}
    return {**found, "ecmp": rule}


def possible(found: Scenario) -> list[str]:
    """Return the rules for entropy values that the marks and answers of a scenario permit."""
    given = dict(found.get("congestion", {}))
    preset = PRESETS[given.get("mechanism", "none")]
    marking, reaction = (part(given, key, preset)["kind"] for key in ("marking", "reaction"))
    answers = given.get("notification", preset.get("notification", "cnp"))
    if reaction == "hpcc":
        return []
    rules = ["oblivious", "random"]
    if marking in ("none", "telemetry") or answers in ("backward", "ack-message"):
        return rules
    reuses = ["reps", "mixed"] * 2 if answers in ("ack-each", "ack-grant") else []
    return [*rules, "bitmap", "path-states", *reuses]


def many(first: int, count: int) -> Iterator[tuple[str, Scenario]]:
    """Generate scenarios from consecutive seeds."""
    for seed in range(first, first + count):
        yield f"drawn for ECMP from seed {seed}", variant(seed)
