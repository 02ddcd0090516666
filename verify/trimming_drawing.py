"""Random scenarios with packet trimming, made from those of `ecmp_drawing`, with NSCC or RCCC."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from verify import drawing, ecmp_drawing, rdma_drawing

Scenario = dict[str, Any]
#: The keys that remain of some tables of the scenario.
KEPT = {
    "switch": ("latency", "forwarding", "control_first"),
    "host": ("injection_rate", "injection_includes_control", "message_overhead", "delivery"),
}


def switch(rng: random.Random, full: int) -> dict[str, Any]:
    """Select limits of queues of a few packets, so that many packets do not fit."""
    trimming: dict[str, Any] = {
        "queue": f"{full * rng.choice([1, 1, 2, 3, 8]) + rng.choice([0, 0, rng.randrange(full)])} B"
    }
    if rng.random() < 0.5:
        trimming["size"] = f"{min(rng.choice([1, 20, 64, 128, full]), full)} B"
    if rng.random() < 0.6:
        trimming["which"] = rng.choice(["either", "arriving"])
    return {"arbitration": "fcfs", "trimming": trimming}


def other_switches(found: Scenario) -> None:
    """Give some of the scenarios round-robin arbitration, and a random architecture and kind of queues."""
    rng = random.Random(f"trimming switches {found['seed']}")
    switch = found["switch"]
    if rng.random() < 0.6:
        return
    switch["trimming"]["which"] = "arriving"
    switch["arbitration"] = "round-robin"
    switch["architecture"] = rng.choice(["voq", "voq", "iq", "cioq"])
    switch["queues"] = rng.choice(["single", "per-output", "destination-modulo", "output-modulo"])
    switch["memory"] = "shared"


def of_rates(found: Scenario, full: int) -> dict[str, Any]:
    """Select separate limits of queues for some rates, in some of the scenarios."""
    rng = random.Random(f"trimming rates {found['seed']}")
    every = drawing.rates(found)
    if rng.random() < 0.7:
        return {}
    some = rng.sample(every, rng.randint(1, len(every)))
    return {"rates": [{"rate": rate, "queue": f"{full + rng.randrange(4 * full)} B"} for rate in some]}


def congestion(rng: random.Random, full: int) -> dict[str, Any]:
    """Select NSCC, RCCC or both, with or without marks."""
    reaction = rdma_drawing.rccc(rng, full) if rng.random() < 0.6 else rdma_drawing.nscc(rng, full)
    return {
        "marking": rdma_drawing.red(rng, full) if rng.random() < 0.8 else {"kind": "none"},
        "notification": "ack-grant" if reaction["kind"] == "rccc" else "ack-each",
        "reaction": reaction,
    }


def variant(seed: int) -> Scenario:
    """Generate a scenario of the seed whose switches trim packets."""
    found, rng = ecmp_drawing.variant(seed), random.Random(f"trimming {seed}")
    full = rdma_drawing.full_packet(found)
    for place, keys in KEPT.items():
        found[place] = {key: value for key, value in found.get(place, {}).items() if key in keys}
    found["switch"] |= switch(rng, full)
    found["switch"]["trimming"] |= of_rates(found, full)
    other_switches(found)
    found["congestion"] = rdma_drawing.with_first_window(congestion(rng, full), seed, full)
    found["congestion"] = rdma_drawing.with_units(found["congestion"], seed, full)
    found["congestion"]["marking"] = rdma_drawing.without_hosts(found["congestion"]["marking"], seed)
    found["measure"] = {key: value for key, value in found["measure"].items() if key != "congestion_log"}
    count = rng.choice([2, 2, 3])
    control = rng.randrange(count)
    data = [lane for lane in range(count) if lane != control]
    found["lanes"] = {
        "count": count,
        "control": control,
        "control_priority": True,
        "sl_to_vl": [rng.choice(data) for _ in range(16)],
    }
    rules = ["oblivious", "random"]
    if found["congestion"]["marking"]["kind"] == "red":
        rules += ["bitmap", "reps", "mixed", "mixed"]
    for key in ("values", "selection"):
        found["ecmp"].pop(key, None)
    found["ecmp"]["spraying"] = rng.choice(["none", *rules])
    if found["ecmp"]["spraying"] == "none" or not found["ecmp"].get("enabled", True):
        del found["ecmp"]
    elif found["ecmp"]["spraying"] in ("bitmap", "mixed"):
        # With few values, the turn of a value comes again soon after a packet with this value was marked or
        # trimmed, so values are often skipped.
        found["ecmp"]["values"] = rng.choice([2, 4, 8])
    return {**found, "host": {**found["host"], "delivery": rng.choice(["in-order", "out-of-order"])}}


def many(first: int, count: int) -> Iterator[tuple[str, Scenario]]:
    """Generate scenarios from consecutive seeds."""
    for seed in range(first, first + count):
        yield f"drawn for trimming from seed {seed}", variant(seed)
