"""Random scenarios whose links and hosts change during the run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from verify import drawing, ecmp_drawing, lid_drawing, pause_drawing, rdma_drawing, trimming_drawing
from verify.pause_drawing import largest_headroom
from verify.quantities import NotCovered, size_bytes, time_ps
from verify.reading import KINDS_OF_HOSTS, network, plan

Scenario = dict[str, Any]


def base(seed: int) -> Scenario:
    """Generate a scenario without events. Some are on a fabric with a second file of tables."""
    kinds = (drawing, drawing, rdma_drawing, ecmp_drawing, pause_drawing, trimming_drawing)
    found: Scenario = kinds[seed % len(kinds)].variant(seed)
    if found.get("ecmp", {}).get("spraying") == "bitmap" and seed % 4:
        found["ecmp"] = {**found["ecmp"], "spraying": "path-states"}
    # The buffers that pause frames require depend on the network.
    has_pauses = found.get("flow_control", {}).get("kind") == "pfc"
    if seed % 2 == 0 and not has_pauses and not found.get("ecmp") and lid_drawing.fits(found):
        return lid_drawing.placed(found)
    return found


def variant(seed: int) -> Scenario:
    """Generate a scenario of the seed with events, and often with new routes and loss recovery."""
    found, rng = base(seed), random.Random(f"events {seed}")
    found.pop("link", None)
    if found.get("adaptive_routing", {}).get("per") != "packet":
        found.pop("adaptive_routing", None)
    duration = time_ps(found["duration"])
    wiring = network(found["topology"], found.get("routing"))
    links = list(wiring.links)
    # With pause frames, only links between switches change.
    if found.get("flow_control", {}).get("kind") == "pfc":
        links = [link for link in links if all(port for _, port in link.ends)]
    ends = [f"{node}:{port}" if port else node for link in links for node, port in link.ends]
    if is_on_fabric(found):
        # Most events concern the links between the switches.
        ends += 8 * [end for end in ends if end.startswith("swA:") and int(end[4:]) > 3]
    kinds = ["down", "down", "rate", "errors", "stop", "stall", "drain"]
    has_messages = found.get("flow_control", {}).get("kind") in ("pfc", "on-off")
    if has_messages:
        kinds.remove("stop")
    if "trimming" in found["switch"]:
        kinds = [kind for kind in kinds if kind not in ("stall", "drain")]
    # Announcements must not be lost, and explicit rates are calculated from the configured rates of links.
    congestion = found.get("congestion", {})
    if congestion.get("mechanism") == "saa" or congestion.get("reaction", {}).get("kind") == "explicit-rate":
        kinds = ["stall", "drain"]
    if not ends:
        kinds = ["stall", "drain"]
    for source in found.get("flow", []) + found.get("traffic", []):
        source.pop("start_after_packets", None)
    is_lossy = kinds[0] == "down" and has_lossy_lanes(found, rng)
    # A drain rate that both directions of a host share must not exceed these rates.
    is_limited = bool({"drain_rate", "injection_rate"} & found.get("host", {}).keys())
    places = (ends, list(wiring.hosts))
    found["event"] = [
        event(rng, kinds, places, duration, has_widths=not has_messages, is_limited=is_limited)
        for _ in range(rng.randint(1, 3))
    ]
    enlarge_buffers(found)
    drawn = {one["kind"] for one in found["event"]}
    if "down" in drawn and rng.random() < (0.9 if is_on_fabric(found) else 0.6):
        add(found, "rerouting", rerouting(found, rng, duration))
    if (is_lossy or drawn & {"down", "errors", "stop"}) and rng.random() < 0.7:
        kinds_of_recovery = ["selective-repeat", "go-back-n"]
        # Acknowledgements of several packets need selective repeat. The draw is made in any case.
        kind = rng.choice(kinds_of_recovery)
        kind = kinds_of_recovery[0] if "acknowledge" in found.get("congestion", {}) else kind
        timeout = max(rng.choice([duration // 200, duration // 30, duration // 5]), 1)
        table = {"kind": kind, "timeout": f"{timeout} ps"}
        if kind == "selective-repeat" and acknowledges_each(found) and rng.random() < 0.6:
            table["reordering"] = rng.choice([1, 2, 5, 20])
        add(found, "recovery", table)
        retire(found, rng, duration)
    return found


def acknowledges_each(found: Scenario) -> bool:
    """Return whether each packet has an acknowledgement."""
    try:
        return plan(found).congestion.notification in ("ack-each", "ack-grant")
    except NotCovered:
        return False


def retire(found: Scenario, rng: random.Random, duration: int) -> None:
    """Draw how values with states are retired, if lost packets are sent again."""
    rule = found.get("ecmp", {})
    if "recovery" in found and rule.get("spraying") == "path-states":
        interval = max(rng.choice([duration // 100, duration // 10]), 1)
        found["ecmp"] = {
            **rule,
            "retirement": {
                "spares": rng.choice([0, 1, 4]),
                "least_active": rng.randint(1, rule.get("values", 64)),
                "probe_interval": f"{interval} ps",
            },
        }


def is_on_fabric(found: Scenario) -> bool:
    """Return whether there is a second file of tables for the network."""
    return bool(found["topology"]["kind"] == "file")


def enlarge_buffers(found: Scenario) -> None:
    """Give receivers of pause frames the additional headroom that changes of rates require."""
    if found.get("flow_control", {}).get("kind") != "pfc":
        return
    before, after = (plan({**found, "event": events}) for events in ([], found["event"]))
    more = after.lanes.count * (largest_headroom(after) - largest_headroom(before))
    for table in (found["host"], found["switch"]):
        table["buffer"] = f"{size_bytes(table['buffer']) + more} B"
    shared = found["flow_control"].get("shared", {})
    if "memory" in shared:
        ports = max(len(after.wiring.neighbours(switch)) for switch in after.wiring.switches)
        shared["memory"] = f"{size_bytes(shared['memory']) + ports * more} B"


def has_lossy_lanes(found: Scenario, rng: random.Random) -> bool:
    """Make some lanes of some scenarios with pause frames lossy, and return whether any lanes are lossy."""
    if found.get("flow_control", {}).get("kind") != "pfc" or rng.random() < 0.5:
        return False
    count = found.get("lanes", {}).get("count", 1)
    lanes = [lane for lane in range(count) if rng.random() < 0.6]
    found["flow_control"] = {**found["flow_control"], "lossy_lanes": lanes}
    return bool(lanes)


def rerouting(found: Scenario, rng: random.Random, duration: int) -> Scenario:
    """Select the delay of new tables, the delay after which packets that choose avoid ports, or both."""
    can_choose = "adaptive_routing" in found or found.get("ecmp", {}).get("enabled", "ecmp" in found)
    keys = rng.choice([("delay",), ("port_delay",), ("delay", "port_delay")]) if can_choose else ("delay",)
    times = {key: f"{rng.choice([0, 1, duration // 100, duration // 10])} ps" for key in keys}
    if is_on_fabric(found) and rng.random() < 0.8:
        return {**times, "tables": str(lid_drawing.AFTER / "fabric.lft")}
    return times


def add(found: Scenario, key: str, table: Scenario) -> None:
    """Add a table, if Silvan and the second model support it in this scenario."""
    try:
        read = plan({**found, key: table})
    except NotCovered:
        return
    recovers = read.recovery is not None
    has_buffers = read.adapter is not None or read.congestion.isolation is not None
    overtakes = read.by_packet is not None or read.sprays or read.switch.trimming is not None
    goes_back = recovers and read.recovery is not None and read.recovery.goes_back
    if not (recovers and has_buffers) and not (goes_back and (overtakes or "rerouting" in found)):
        found[key] = table


def event(
    rng: random.Random,
    kinds: list[str],
    places: tuple[list[str], list[str]],
    duration: int,
    *,
    has_widths: bool,
    is_limited: bool,
) -> Scenario:
    """Select an event of links at these ends, or of these hosts."""
    ends, hosts = places
    kind = rng.choice(kinds)
    found: Scenario = {"kind": kind}
    if kind in KINDS_OF_HOSTS:
        found["hosts"] = rng.sample(hosts, min(len(hosts), rng.choice([1, 1, 2])))
    else:
        found["links"] = [rng.choice(ends)]
    if kind == "rate" and has_widths and rng.random() < 0.3:
        found["width"] = rng.choice(["1x", "2x", "1x of 12x"])
    elif kind in ("rate", "drain"):
        found["rate"] = rng.choice(["1 Gbit/s", "1 Gbit/s", "1999999999 bit/s", "333 Mbit/s"])
    if kind == "drain" and not is_limited and rng.random() < 0.5:
        found["shared"] = True
    if kind == "errors":
        found["loss_ppb"] = rng.choice([1_000_000, 50_000_000, 500_000_000])
    found["start"] = f"{rng.randint(0, duration * 9 // 10)} ps"
    if kind != "stop" and (kind == "stall" or rng.random() < 0.8):
        lasts = rng.choice([1, duration // 50, duration // 7])
        found["lasts"] = f"{lasts} ps"
        if rng.random() < 0.3:
            found["every"] = f"{lasts + rng.randint(1, duration // 6)} ps"
    return found


def many(first: int, count: int) -> Iterator[tuple[str, Scenario]]:
    """Generate scenarios from consecutive seeds."""
    for seed in range(first, first + count):
        yield f"drawn for events from seed {seed}", variant(seed)
