"""Random scenarios of other modules, changed to pause frames or on/off messages, and often with an incast."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from verify import drawing, ecmp_drawing, rdma_drawing
from verify.pauses import Pfc
from verify.quantities import NotCovered
from verify.reading import Plan, network, plan

Scenario = dict[str, Any]


def base(seed: int) -> Scenario:
    """Generate a scenario without control packets of switches, which could delay a pause frame.

    Lanes that depend on routes are excluded, because they require credits.
    """
    found: Scenario = (drawing, drawing, rdma_drawing, ecmp_drawing)[seed % 4].variant(seed)
    if found.get("lanes", {}).get("assignment") == "routing":
        found = drawing.with_patterns(drawing.with_lanes(drawing.drawn(seed)))
    congestion = dict(found.get("congestion", {}))
    if congestion.get("mechanism") in ("fbicm", "ccfit", "hfdi", "ecocc"):
        congestion["isolation"] = {"kind": "none"}
        if "isolated" in found.get("adaptive_routing", {}).get("pinned", ()):
            pinned = [what for what in found["adaptive_routing"]["pinned"] if what != "isolated"]
            found["adaptive_routing"] = {**found["adaptive_routing"], "pinned": pinned}
    if congestion.get("notification") == "backward":
        congestion["notification"] = "cnp"
    if congestion:
        found["congestion"] = congestion
    switch = {key: value for key, value in found["switch"].items() if key != "queue_buffer"}
    if switch.get("queues", "single") not in ("single", "per-output") or "memory" in switch:
        switch["memory"] = "shared"
    return {**found, "switch": switch}


def with_incast(found: Scenario, rng: random.Random) -> Scenario:
    """Add flows from one to five hosts to another host, with one or several service levels."""
    hosts = network(found["topology"], found.get("routing")).hosts
    to, *others = rng.sample(hosts, min(len(hosts), rng.randint(2, 6)))
    mtu = int(found["packet"]["mtu"].split()[0])
    levels = rng.choice([1, 2, 16])
    flows = [
        drawing.flow(
            host,
            to,
            name=f"incast {host}",
            message=f"{rng.choice([mtu, 3 * mtu, rng.randint(1, 2 * mtu)])} B",
            sl=rng.randrange(levels),
        )
        for host in others
    ]
    return {**found, "flow": [*found["flow"], *flows]}


def frames(rng: random.Random) -> dict[str, Any]:
    """Select the size of pause frames, the time until they take effect, and the watchdog."""
    found: dict[str, Any] = {"kind": "pfc"}
    if rng.random() < 0.5:
        found["frame"] = f"{rng.choice([64, 72, 84, 1_024])} B"
    if rng.random() < 0.7:
        found["response_time"] = rng.choice(
            ["0 ps", "1 ps", "333 ps", "100 ns", "777777 ps", "3 us", "20 us"]
        )
    if rng.random() < 0.4:
        found["watchdog"] = rng.choice(["1 ps", "300 ns", "1234567 ps", "5 us", "50 us"])
        if rng.random() < 0.25:
            found["watchdog_action"] = rng.choice(["warn", "stop"])
    return found


def largest_headroom(given: Plan) -> int:
    """Return the largest headroom of any lane, in bytes."""
    rule = given.pfc
    assert isinstance(rule, Pfc)
    ends = [(link, node in given.wiring.hosts) for link in given.wiring.links for node, _ in link.ends]
    return max(rule.headroom_of(link, to_host=to_host) for link, to_host in ends)


def own_memory(rng: random.Random, packets: int, space: int) -> dict[str, Any]:
    """Select thresholds of up to `packets` packets, or omit them for the defaults."""
    found: dict[str, Any] = {}
    if rng.random() < 0.6:
        xoff = rng.choice([0, rng.randint(0, space), rng.randint(0, packets * space), packets * space])
        found["xoff"] = f"{xoff} B"
        if rng.random() < 0.6:
            found["xon"] = f"{rng.choice([0, rng.randint(0, xoff), xoff])} B"
    return found


def shared_memory(rng: random.Random, given: Plan, headroom: int, packets: int) -> dict[str, Any]:
    """Select memory that all inputs of a switch share, sufficient for the switch with most ports."""
    full = given.full
    space = -(-full // given.block) * given.block
    found: dict[str, Any] = {}
    if rng.random() < 0.8:
        found["alpha_shift"] = rng.choice([-7, -2, -1, 0, 0, 1, 2, 3, 5, 10])
    if rng.random() < 0.4:
        found["alpha_by_rate"] = rng.random() < 0.8
    reserve = 4_096
    if rng.random() < 0.8:
        reserve = rng.choice([0, 1, space, rng.randint(0, 3 * space)])
        found["reserve"] = f"{reserve} B"
    if rng.random() < 0.7:
        found["resume_offset"] = f"{rng.choice([0, 1, space, rng.randint(0, 4 * space)])} B"
    lanes, wiring = given.lanes.count, given.wiring
    ports = {switch: len(wiring.neighbours(switch)) for switch in wiring.switches}
    pool = max(ports.values()) * lanes * headroom
    if rng.random() < 0.15:
        pool = rng.randint(pool // 8, pool)
        found["headroom_pool"] = f"{pool} B"
    if "headroom_pool" in found or rng.random() < 0.7:
        size = packets * space * rng.choice([1, 1, 2, 4]) + rng.randint(0, space)
        found["memory"] = f"{pool + max(ports.values()) * lanes * reserve + size} B"
    return found


def on_off(found: Scenario, rng: random.Random) -> Scenario:
    """Replace pause frames by on/off messages, with thresholds and ample space above them."""
    full = int(found["packet"]["mtu"].split()[0]) + 128
    space = full + 4_096
    xoff = rng.choice([0, rng.randint(0, space), rng.randint(0, 10 * space)])
    rule = {"kind": "on-off", "xoff": f"{xoff} B", "xon": f"{rng.choice([0, xoff // 2, xoff])} B"}
    lanes = found.get("lanes", {}).get("count", 1)
    size = {"buffer": f"{lanes * (xoff + 40 * space + 200_000)} B"}
    host, switch = {**found["host"], **size}, {**found["switch"], **size}
    return {**found, "flow_control": rule, "host": host, "switch": switch}


def variant(seed: int) -> Scenario:
    """Generate a scenario of the seed with pause frames, or sometimes with on/off messages."""
    found, rng = base(seed), random.Random(f"pauses {seed}")
    if rng.random() < 0.7:
        found = with_incast(found, rng)
    if seed % 5 == 0:
        return on_off(found, rng)
    rule = frames(rng)
    found["flow_control"] = rule
    try:
        given = plan(found)
    except NotCovered:
        return found
    headroom, lanes = largest_headroom(given), given.lanes.count
    space = -(-given.full // given.block) * given.block
    if rng.random() < 0.2:
        headroom = rng.choice(
            [headroom, headroom + 1000, rng.randint(0, headroom), rng.randint(0, 2 * space)]
        )
        rule["headroom"] = f"{headroom} B"
    packets = rng.choice([1, 1, 2, 3, 5, 10])
    reserve = 0
    if rng.random() < 0.45:
        rule["shared"] = shared_memory(rng, given, headroom, packets)
        reserve = int(rule["shared"].get("reserve", "4096 B").split()[0])
    else:
        rule |= own_memory(rng, packets, space)
    marking = found.get("congestion", {}).get("marking", {})
    settings = (marking, *marking.get("ports", ()), *marking.get("thresholds", ()))
    for place in ("host", "switch"):
        # The share of each lane is rounded down to whole blocks.
        size = lanes * (headroom + packets * space + reserve + given.block)
        if place == "switch" and any("upper" in one for one in settings):
            # Thresholds of marks must not exceed the buffer.
            size = max(size, int(found["switch"]["buffer"].split()[0]))
        found[place] = {**found[place], "buffer": f"{size} B"}
    return found


def many(first: int, count: int) -> Iterator[tuple[str, Scenario]]:
    """Generate scenarios from consecutive seeds."""
    for seed in range(first, first + count):
        yield f"drawn for pauses from seed {seed}", variant(seed)
