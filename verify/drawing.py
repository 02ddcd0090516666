"""Random scenarios from seeds, on which the simulator and the second model are compared."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from verify import spreading
from verify.reading import network

Scenario = dict[str, Any]

#: A `ccti_timer`, in units of 1.024 us, that is longer than any run, so that the timer, whose phase is
#: random, does not expire in a run.
NO_TIMER = 4_000_000_000
#: A table with which marks return but have no effect.
NO_DELAYS = {"kind": "list", "delays_ns": [0] * 128}


def flow(source: str, destination: str, **more: Any) -> dict[str, Any]:
    """Describe a flow."""
    return {"from": source, "to": destination, **more}


def cc(table: Mapping[str, Any] | None = None, increase: int = 1, **marking: Any) -> dict[str, Any]:
    """Describe InfiniBand congestion control without random decisions."""
    table = table or {"kind": "quadratic", "divisor": 106, "scale": 32, "entries": 128}
    return {
        "mechanism": "ib-cc",
        "marking": {"kind": "fecn", "pattern": "regular", "hysteresis": "2112 B", **marking},
        "reaction": {"kind": "cct", "ccti_timer": NO_TIMER, "ccti_increase": increase, "table": dict(table)},
    }


def drawn(seed: int) -> Scenario:
    """Generate a small scenario with a random tree of switches, and random rates, flows and parameters."""
    rng = random.Random(seed)
    hosts = [f"H{i}" for i in range(rng.randint(2, 8))]
    topology = tree(rng, hosts)
    mtu, header = rng.choice([256, 1000, 2048, 4096]), rng.choice([0, 0, 20, 30])
    block = rng.choice([64, 64, 64, 1, 100])
    space = -(-(mtu + header) // block) * block
    packet = {
        "mtu": f"{mtu} B",
        "header": f"{header} B",
        "control": f"{rng.choice([16, 64, 64, 100])} B",
        "credit_block": f"{block} B",
    }
    host = {"buffer": f"{space * rng.randint(1, 6) + rng.randint(0, 99)} B"}
    for key in ("injection_rate", "drain_rate"):
        if rng.random() < 0.4:
            host[key] = rng.choice(["13.5 Gbit/s", "13 Gbit/s", "1.7 Gbit/s", "9.99 Gbit/s"])
    buffer = space * rng.choice([1, 2, 3, 5, 8, 20]) + rng.randint(0, 99)
    found: Scenario = {
        "seed": seed,
        "duration": f"{20 * mtu} ns",
        "measure": {"interval": f"{mtu} ns"},
        "topology": topology,
        "packet": packet,
        "host": host,
        "switch": {
            "buffer": f"{buffer} B",
            "latency": rng.choice(["0 ns", "6 ns", "100 ns", "333 ps"]),
        },
    }
    if "injection_rate" in host and random.Random(f"injection {seed}").random() < 0.5:
        host["injection_includes_control"] = True
    if random.Random(f"forwarding {seed}").random() < 0.2:
        found["switch"]["forwarding"] = "store-and-forward"
    if rng.random() < 0.7:
        found["congestion"] = _cc(rng, space, buffer // block * block)
    found["flow"] = [_flow(rng, hosts, f"F{i}", mtu) for i in range(rng.randint(1, 12))]
    return found


def with_lanes(found: Scenario) -> Scenario:
    """Add virtual lanes and further options to a random scenario, derived from its seed."""
    rng = random.Random(f"lanes {found['seed']}")
    count = rng.choice([1, 2, 2, 3, 4, 4, 15])
    lanes: dict[str, Any] = {"count": count}
    if rng.random() < 0.4:
        lanes["control"] = rng.randrange(count)
    if rng.random() < 0.4:
        lanes["sl_to_vl"] = [rng.randrange(count) for _ in range(16)]
    if count > 1 and "control" in lanes and random.Random(f"priority {found['seed']}").random() < 0.5:
        lanes["control_priority"] = True
    for part in ("host", "switch"):
        buffer = int(found[part]["buffer"].split()[0]) * count + rng.randrange(count)
        found[part] = {**found[part], "buffer": f"{buffer} B"}
    if "injection_rate" in found["host"] and rng.random() < 0.2:
        found["host"]["message_overhead"] = rng.choice(["100 ns", "1234567 ps"])
    levels = rng.choice([2, count, 16])
    flows = [{**one, "sl": rng.randrange(levels)} for one in found["flow"]]
    if "congestion" in found:
        found["congestion"]["notification"] = rng.choice(["cnp", "cnp", "ack"])
        if random.Random(f"answers {found['seed']}").random() < 0.2:
            found["congestion"]["notification"] = "ack-message"
        found["congestion"]["reaction"]["level"] = rng.choice(["qp", "qp", "qp", "sl"])
        if rng.random() < 0.5:
            found["congestion"]["marking"]["pattern"] = "random"
            found["congestion"]["reaction"]["ccti_timer"] = rng.choice([1, 2, 7, NO_TIMER])
    return {**found, "lanes": lanes, "flow": flows}


def with_coalescing(found: Scenario) -> Scenario:
    """Let receivers coalesce notification packets, unless the scenario has no congestion management."""
    if "congestion" not in found:
        return found
    rng = random.Random(f"coalescing {found['seed']}")
    interval = rng.choice(["1 ns", "333 ns", "2 us", "7 us", "50 us", "1 ms"])
    coalescing = {"interval": interval, "per": rng.choice(["flow", "port"])}
    return {**found, "congestion": {**found["congestion"], "notification": "cnp", "coalescing": coalescing}}


def with_own_timers(found: Scenario, timer: int) -> Scenario:
    """Make each BECN restart the timer of its index, with a period of `timer` units of 1.024 us."""
    congestion = found["congestion"]
    reaction = {**congestion["reaction"], "ccti_timer": timer, "timer": "notification"}
    return {**found, "congestion": {**congestion, "reaction": reaction}}


def tree(rng: random.Random, hosts: list[str]) -> dict[str, Any]:
    """Generate a tree of at most four switches with hosts at any switch. Links have one or several rates."""
    switches = [f"S{i}" for i in range(rng.randint(1, 4))]
    joints = [(s, rng.choice(switches[:i])) for i, s in enumerate(switches) if i]
    joints += [(host, rng.choice(switches)) for host in hosts]
    degree = {s: sum(s in joint for joint in joints) for s in switches}
    count = {s: max(degree[s] + rng.randint(0, 2), 1) for s in switches}
    free = {s: rng.sample(range(1, count[s] + 1), degree[s]) for s in switches}
    alike = rng.random() < 0.4
    one = rng.choice(["16 Gbit/s", "20 Gbit/s", "7 Gbit/s"])
    rates = [one] if alike else ["2 Gbit/s", "7 Gbit/s", "8 Gbit/s", "16 Gbit/s", "32 Gbit/s", "54.54 Gbit/s"]
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
    return {
        "kind": "custom",
        "hosts": hosts,
        "switches": [{"name": s, "ports": count[s]} for s in switches if degree[s]],
        "links": links,
    }


def _cc(rng: random.Random, space: int, buffer: int) -> dict[str, Any]:
    marking: dict[str, Any] = {
        "fill": rng.choice(["each", "sum", "sum-per-input"]),
        "marking_rate": rng.choice([0, 0, 1, 2, 7]),
        "packet_size": rng.choice([0, 2, 8]),
        "victim_mask": rng.choice(["hosts", "none", "all"]),
    }
    if rng.random() < 0.5:
        marking["threshold"] = rng.randint(1, 15)
        marking["hysteresis"] = rng.choice(["0 B", f"{space} B", "2112 B"])
    else:
        upper = rng.randint(1, buffer - 1)
        marking |= {"upper": f"{upper} B", "lower": f"{rng.randint(0, upper)} B"}
    divisor, scale, step = rng.choice([95, 106]), rng.choice([1, 16, 500]), rng.choice([13, 400])
    table: dict[str, Any] = {"kind": "quadratic", "divisor": divisor, "scale": scale, "entries": 128}
    if rng.random() < 0.5:
        table = {"kind": "list", "delays_ns": [i * step for i in range(128)]}
    return cc(table, increase=rng.choice([1, 1, 2, 10]), **marking)


def _flow(rng: random.Random, hosts: list[str], name: str, mtu: int) -> dict[str, Any]:
    found = flow(*rng.sample(hosts, 2), name=name)
    # To cause congestion, at least half of the flows from other hosts go to the first host on average.
    if rng.random() < 0.5 and found["from"] != hosts[0]:
        found["to"] = hosts[0]
    size = rng.choice([mtu, mtu, rng.randint(1, mtu), rng.randint(1, 6 * mtu)])
    found["message"] = f"{size} B"
    if rng.random() < 0.4:
        found["rate"] = rng.choice(["0.3 Gbit/s", "1 Gbit/s", "3.3 Gbit/s", "9 Gbit/s"])
    if rng.random() < 0.4:
        found["start"] = f"{rng.randint(0, 10 * mtu * 1000)} ps"
    if rng.random() < 0.2:
        found["stop"] = f"{rng.randint(10 * mtu * 1000, 19 * mtu * 1000)} ps"
    if rng.random() < 0.2:
        found["total"] = f"{rng.randint(1, 30 * mtu)} B"
    return found


def with_queues(found: Scenario) -> Scenario:
    """Select the architecture, queues and arbitration of switches, derived from the seed of the scenario."""
    rng = random.Random(f"queues {found['seed']}")
    architecture = rng.choice(["voq", "iq", "iq", "fcfs"])
    switch = dict(found["switch"])
    found["switch"] = switch
    if architecture == "fcfs":
        switch["arbitration"] = "fcfs"
        if "congestion" in found:
            found["congestion"]["marking"]["fill"] = "sum"
    else:
        switch["architecture"] = architecture
        _divide(rng, found)
    if architecture == "iq":
        switch["islip_iterations"] = rng.choice([1, 1, 2, 3])
        if random.Random(f"cells {found['seed']}").random() < 0.4:
            switch["islip_cell"] = f"{rng.choice([0, 1, 100, 1000])} B"
        if rng.random() < 0.4:
            switch["crossbar"] = rng.choice(["54.54 Gbit/s", "60 Gbit/s", "109 Gbit/s"])
    if rng.random() < 0.3:
        switch["control_first"] = True
    if rng.random() < 0.2:
        _hosts_with_buffers(rng, found, found.get("lanes", {}).get("count", 1) * _full_packet(found)[1])
    return found


def _divide(rng: random.Random, found: Scenario) -> None:
    """Select an organization of queues and of their memory; each region has room for a packet."""
    switch = found["switch"]
    kinds = ["single", "per-output", "per-destination", "destination-modulo", "output-modulo"]
    kind = rng.choice(kinds)
    switch["queues"] = kind
    net = network(found["topology"], found.get("routing"))
    parts = max(net.ports.values())
    if kind.endswith("modulo"):
        parts = rng.randint(1, 5)
        switch["queue_count"] = parts
    elif kind == "per-destination":
        parts = len(net.hosts)
    memory = rng.choice([None, "shared", "divided"] if kind != "single" else [None, "shared"])
    if memory:
        switch["memory"] = memory
    is_divided = memory == "divided" or (memory is None and kind not in ("single", "per-output"))
    if is_divided and (rng.random() < 0.5 or kind == "per-destination"):
        _, space = _full_packet(found)
        switch["queue_buffer"] = f"{space * rng.randint(1, 4) + rng.randint(0, 99)} B"
    elif is_divided:
        switch["buffer"] = f"{int(switch['buffer'].split()[0]) * parts} B"


def with_special_queues(found: Scenario) -> Scenario:
    """Give a random scenario a mechanism with isolation, derived from its seed."""
    rng = random.Random(f"special queues {found['seed']}")
    full, space = _full_packet(found)
    mechanism = rng.choice(["fbicm", "ccfit", "hfdi", "ecocc"])
    lanes = found.get("lanes", {}).get("count", 1)
    packets = rng.choice([3, 5, 8, 12])
    found["switch"] = {**found["switch"], "buffer": f"{lanes * (space * packets + rng.randint(0, 99))} B"}
    # Thresholds are less than the memory of a lane, so that they are sometimes exceeded.
    least = [rng.randint(0, (packets - 1) * full - 1) for _ in range(2)]
    isolation: dict[str, Any] = {
        "queues": rng.choice([0, 1, 1, 2, 3]),
        "destinations": rng.choice([1, 2, 8]),
        "detection": f"{least[0]} B",
        "stop": f"{least[1] + 1} B",
        "go": f"{rng.randint(0, least[1])} B",
        "message": rng.choice(["16 B", "16 B", "200 B"]),
    }
    isolation["arbitration"] = rng.choice(["round-robin", "strict", "weighted"])
    if isolation["arbitration"] == "strict":
        isolation["longest_wait"] = f"{rng.choice([1, 300, 2_000, 20_000])} ns"
    single = mechanism in ("fbicm", "ccfit")
    if rng.random() < 0.3:
        found["switch"]["architecture"] = rng.choice(["voq", "iq"])
    if rng.random() < 0.2:
        single = not single
        found["switch"]["queues"] = "single" if single else "per-output"
        if single:
            isolation["at_root"] = True
    if mechanism == "ecocc" and rng.random() < 0.3:
        isolation["at_root"] = True
    if rng.random() < 0.2:
        found["switch"]["control_first"] = rng.random() < 0.5
    _hosts_with_buffers(rng, found, lanes * space)
    congestion: dict[str, Any] = {"mechanism": mechanism, "isolation": isolation}
    if mechanism in ("ccfit", "ecocc"):
        parts = found.get("congestion") or _cc(rng, space, space * packets)
        upper = rng.randint(1, 2 * full)
        congestion["marking"] = {"upper": f"{upper} B", "lower": f"{rng.randint(0, upper)} B"}
        if rng.random() < 0.3:
            congestion["marking"]["percent"] = rng.randint(1, 100)
        congestion["reaction"] = {**parts["reaction"], "ccti_timer": rng.choice([1, 2, NO_TIMER])}
    return {**found, "congestion": congestion}


def _full_packet(found: Scenario) -> tuple[int, int]:
    """Return the bytes of a full packet, and of the blocks that it occupies."""
    mtu, header, block = (int(found["packet"][key].split()[0]) for key in ("mtu", "header", "credit_block"))
    return mtu + header, -(-(mtu + header) // block) * block


def _hosts_with_buffers(rng: random.Random, found: Scenario, space: int) -> None:
    """Select the queues and the output buffer of hosts. Each part of the buffer has room for a packet."""
    queues = rng.choice(["none", "single", "single", "single", "per-destination", "destination-modulo"])
    parts = found["switch"].get("queue_count", 8) if queues == "destination-modulo" else 1
    host = {**found["host"], "queues": queues}
    if queues != "none":
        host["output_buffer"] = f"{parts * space * rng.randint(1, 5) + rng.randint(0, 99)} B"
    found["host"] = host


def with_output_buffers(found: Scenario) -> Scenario:
    """Give a random scenario switches with output buffers, and suitable marks and reactions."""
    rng = random.Random(f"output buffers {found['seed']}")
    _, space = _full_packet(found)
    lanes = found.get("lanes", {}).get("count", 1)
    switch = {**found["switch"], "architecture": "cioq"}
    found["switch"] = switch
    if rng.random() < 0.3:
        _divide(rng, found)
    if rng.random() < 0.7:
        switch["output_buffer"] = f"{lanes * (space * rng.choice([1, 2, 3, 8]) + rng.randint(0, 99))} B"
    if rng.random() < 0.4:
        switch["crossbar"] = rng.choice(["54.54 Gbit/s", "60 Gbit/s", "109 Gbit/s"])
    if rng.random() < 0.2:
        switch["control_first"] = True
    fecn = _fecn_of_outputs(rng, found, space)
    if rng.random() < 0.2:
        found.pop("congestion", None)
        return {**found, "congestion": fecn} if fecn else found
    percents = {key: rng.randint(1, 99) for key in ("input_percent", "output_percent")}
    by_output = {"output_percent": percents["output_percent"]}
    kinds = [{"kind": "ipm"}, {"kind": "opm", **by_output}, {"kind": "mvpm", **percents}]
    marking = rng.choice(kinds)
    if rng.random() < 0.2:
        return {**found, "congestion": {"mechanism": rng.choice(["renato", "pfister", "mvcm"])}}
    if fecn and rng.random() < 0.2:
        marking = fecn["marking"]
    return {
        **found,
        "congestion": {"marking": marking, "notification": "ack-each", "reaction": _reaction(rng)},
    }


def _fecn_of_outputs(rng: random.Random, found: Scenario, space: int) -> dict[str, Any]:
    """Select FECN for switches with output buffers."""
    fecn = found.get("congestion") or _cc(rng, space, space)
    fill = rng.choice(["each", "sum", "sum-per-input"])
    return {**fecn, "marking": {**fecn["marking"], "kind": "fecn", "fill": fill}}


def _reaction(rng: random.Random) -> dict[str, Any]:
    """Select a reaction that counts acknowledgements, or a linear congestion control table."""
    kind = rng.choice(["static-window", "aimd", "fimd", "lipd", "mvcm", "mvcm", "cct"])
    found: dict[str, Any] = {"kind": kind}
    if kind == "static-window":
        found["packets"] = rng.choice([1, 2, 5])
    elif kind == "cct":
        timer = rng.choice([1, 2, 3])
        found |= {
            "ccti_timer": timer,
            "table": {"kind": "linear", "packets": rng.choice([1, 2]), "entries": 128},
        }
    elif rng.random() < 0.5:
        found["window"] = rng.choice([1, 2, 5])
    if kind in ("aimd", "fimd"):
        found |= {"m": rng.choice([2, 3]), "slowest": rng.choice([4, 16, 256])}
    elif kind == "lipd" and rng.random() < 0.5:
        found |= {"delay": "333333 ps", "limit": rng.choice([2, 255])}
    elif kind == "mvcm" and rng.random() < 0.7:
        found |= {"slot": "200 ns", "factor": rng.choice([1, 2, 4]), "warm": rng.random() < 0.7}
        found |= {"limit": rng.choice([1, 3])} if rng.random() < 0.7 else {"limited": False}
    if rng.random() < 0.3:
        found["level"] = "sl"
    return found


def with_patterns(found: Scenario) -> Scenario:
    """Replace some flows of a random scenario by traffic patterns, derived from its seed."""
    rng = random.Random(f"patterns {found['seed']}")
    mtu, levels = int(found["packet"]["mtu"].split()[0]), rng.choice([1, 2, 16])
    traffic = [_pattern(rng, found, mtu, levels) for _ in range(rng.choice([1, 1, 2, 3]))]
    kept = rng.randint(0, len(found["flow"]))
    flows = found["flow"][:kept]
    for one in flows:
        if "rate" in one and rng.random() < 0.5:
            one["arrivals"] = "poisson"
    # The number of a permutation counts the classes before it, and a forest has one class per role. Forests
    # are therefore last.
    traffic.sort(key=lambda pattern: pattern["pattern"]["kind"] == "forest")
    return {**found, "flow": flows, "traffic": traffic}


def _pattern(rng: random.Random, found: Scenario, mtu: int, levels: int) -> dict[str, Any]:
    """Generate a pattern."""
    hosts = network(found["topology"], found.get("routing")).hosts
    kinds = ["uniform", "uniform", "hotspots", "shift", "permutation", "all-to-all", "forest", "forest"]
    kind = rng.choice(kinds)
    pattern = {"kind": kind, **_choice_of_destinations(rng, kind, hosts, mtu)}
    least = rng.choice([mtu, mtu, rng.randint(1, mtu), rng.randint(1, 4 * mtu)])
    one: dict[str, Any] = {"pattern": pattern, "message": f"{least} B", "sl": rng.randrange(levels)}
    if rng.random() < 0.5:
        one["rate"] = rng.choice(["0.7 Gbit/s", "3.3 Gbit/s", "9 Gbit/s"])
        if kind != "forest":
            one["arrivals"] = rng.choice(["periodic", "poisson"])
    if rng.random() < 0.3:
        one["start"] = f"{rng.randint(0, 5 * mtu * 1000)} ps"
    if rng.random() < 0.2:
        one["stop"] = f"{rng.randint(10 * mtu * 1000, 19 * mtu * 1000)} ps"
    if rng.random() < 0.3:
        one["hosts"] = rng.sample(hosts, rng.randint(1, len(hosts)))
    if kind != "forest" and rng.random() < 0.3:
        one["message_max"] = f"{least + rng.randint(0, 2 * mtu)} B"
    if kind != "forest" and rng.random() < 0.3:
        one["packets_per_host"] = rng.randint(1, 40)
    return one


def _choice_of_destinations(rng: random.Random, kind: str, hosts: list[str], mtu: int) -> dict[str, Any]:
    """Generate the keys that are specific to a kind of pattern."""
    if kind == "uniform":
        return {"include_self": rng.random() < 0.3}
    if kind == "hotspots":
        return {"to": rng.sample(hosts, rng.randint(1, min(3, len(hosts))))}
    if kind == "shift":
        return {"by": rng.randint(1, len(hosts) - 1)}
    if kind != "forest":
        return {}
    shares = sorted(rng.randint(0, 100) for _ in range(2))
    found: dict[str, Any] = {"contributors": shares[0], "victims": shares[1] - shares[0]}
    found |= {"mixed": 100 - shares[1], "hotspots": rng.randint(1, min(3, len(hosts)))}
    if found["mixed"]:
        found["p"] = rng.choice([0, 10, 60, 100])
    if rng.random() < 0.6:
        found["lifetime"] = f"{rng.randint(1000, 1000 + 8 * mtu)} ns"
    return found


def with_announcements(found: Scenario) -> Scenario:
    """Let the flows of a random scenario be announced, with choices derived from its seed."""
    rng = random.Random(f"announcements {found['seed']}")
    mtu = int(found["packet"]["mtu"].split()[0])
    flows = [{**one, "message": f"{rng.randint(1, 12 * mtu)} B"} for one in found["flow"]]
    reaction: dict[str, Any] = {"probe": f"{rng.choice([100, 1000, 10_000])} ns"}
    reaction["injection"] = rng.choice(["periodic-selection", "shaped-virtual-clock"])
    if rng.random() < 0.3:
        found["switch"] = {**found["switch"], "control_first": True}
    return {**found, "flow": flows, "congestion": {"mechanism": "saa", "reaction": reaction}}


def on_trees(found: Scenario) -> Scenario:
    """Put a random scenario on a k-ary n-tree, mostly with adaptive routing per flow.

    The ends of flows are drawn again, from the hosts of the tree.
    """
    rng = random.Random(f"trees {found['seed']}")
    k, n = rng.choice([(2, 2), (2, 2), (2, 3), (3, 2)])
    topology: dict[str, Any] = {"kind": rng.choice(["k-ary-n-tree", "modified-k-ary-n-tree"]), "k": k, "n": n}
    if topology["kind"] == "modified-k-ary-n-tree":
        topology["horizontal_width"] = rng.randint(0, 2)
    topology["link_rate"] = rng.choice(["16 Gbit/s", "7 Gbit/s", "54.54 Gbit/s"])
    topology["link_delay"] = rng.choice(["20 ns", "333 ps", "400 ns"])
    hosts = [f"H{number + 1}" for number in range(k**n)]
    ends = [rng.sample(hosts, 2) for _ in found["flow"]]
    flows = [{**one, "from": near, "to": far} for one, (near, far) in zip(found["flow"], ends, strict=True)]
    found = {**found, "topology": topology, "flow": flows}
    if rng.random() < 0.8:
        found["adaptive_routing"] = {"heuristic": rng.choice(["flow-count", "bytes", "random"])}
        if rng.random() < 0.4:
            found["adaptive_routing"]["cache"] = rng.choice([0, 1, 2])
    return found


def with_feedback(found: Scenario) -> Scenario:
    """Add direct notifications from switches, marks with a severity, or QCN, derived from the seed.

    A scenario with explicit rates is returned unchanged.
    """
    rng = random.Random(f"feedback {found['seed']}")
    given = found.get("congestion", {})
    if given.get("mechanism") == "saa":
        return found
    full, _ = _full_packet(found)
    parts = {key: given[key] for key in ("mechanism", "isolation") if key in given}
    if parts.get("mechanism") in ("renato", "pfister", "mvcm"):
        del parts["mechanism"]
    marking = given.get("marking", {})
    if marking.get("kind", "ipm" if found["switch"].get("architecture") == "cioq" else "fecn") != "fecn":
        marking = {}
    if not marking or rng.random() < 0.5:
        marking = {
            "kind": "sampled",
            "set_point": f"{rng.choice([1, full, 3 * full])} B",
            "weight": rng.choice([0, 1, 2, 5]),
            "sample": f"{full * rng.choice([1, 2, 8])} B",
            "jitter_percent": rng.choice([0, 15, 50]),
        }
    reaction = given.get("reaction", {})
    if reaction.get("kind", "cct") != "cct" or rng.random() < 0.6:
        reaction = {
            "kind": "qcn",
            "cycle_time": rng.choice(["1234 ns", "5 us", "20 us"]),
            "cycle_bytes": f"{full * rng.choice([1, 3, 10]) + rng.randrange(2)} B",
            "cycles": rng.choice([1, 2, 5]),
            "active_increase": rng.choice(["1 Mbit/s", "333 Mbit/s"]),
            "hyper_increase": rng.choice(["7 Mbit/s", "2 Gbit/s"]),
            "min_rate": rng.choice(["10 Mbit/s", "500 Mbit/s"]),
            "binary_severity": rng.choice([1, 32, 63]),
        }
    elif reaction:
        reaction = {**reaction, "kind": "cct", "quantized_increase": rng.choice([0, 8, 100])}
    return {
        **found,
        "congestion": {
            **parts,
            "marking": {"kind": "fecn", **marking},
            "reaction": reaction or {"kind": "cct", "ccti_timer": 1},
            "notification": rng.choice(["backward", "backward", "backward", "cnp", "ack-each"]),
            "feedback": rng.choice(["binary", "quantized"]),
        },
    }


def on_direct_networks(found: Scenario) -> Scenario:
    """Put a random scenario on a torus, mesh, HyperX, dragonfly or dragonfly+.

    The choices follow from its seed. The ends of flows are drawn again from the hosts of the network. If
    lanes are added, their number is the number that the routing needs, or one more.
    """
    rng = random.Random(f"direct networks {found['seed']}")
    topology, needed, hosts = _direct_network(rng)
    topology["link_rate"] = rng.choice(["16 Gbit/s", "7 Gbit/s", "54.54 Gbit/s"])
    topology["link_delay"] = rng.choice(["20 ns", "333 ps", "400 ns"])
    kind = topology["kind"]
    routing: dict[str, Any] = {}
    if kind.startswith("dragonfly") and rng.random() < 0.6:
        routing = {"kind": "valiant", "draw": rng.randrange(4)}
        needed = 3 if kind == "dragonfly" else 2
        of_packets = random.Random(f"detours of packets {found['seed']}")
        if of_packets.random() < 0.5:
            routing = {"kind": "ugal", "bias": of_packets.choice(["0 B", "0 B", "1 B", "3 KiB", "1 MiB"])}
    elif rng.random() < 0.5:
        routing = {"kind": "minimal" if kind.startswith("dragonfly") else "dimension-order"}
    names = [f"H{number + 1}" for number in range(hosts)]
    ends = [rng.sample(names, 2) for _ in found["flow"]]
    flows = [{**one, "from": near, "to": far} for one, (near, far) in zip(found["flow"], ends, strict=True)]
    found = {**found, "topology": topology, "flow": flows}
    if routing:
        found["routing"] = routing
    if needed > 1 or rng.random() < 0.3:
        count = needed + rng.choice([0, 0, 1])
        found["lanes"] = {"count": count, "assignment": "routing"}
        if rng.random() < 0.3:
            found["lanes"]["sl_to_vl"] = [rng.randrange(count) for _ in range(16)]
        for part in ("host", "switch"):
            buffer = int(found[part]["buffer"].split()[0]) * count
            found[part] = {**found[part], "buffer": f"{buffer} B"}
    return found


def _direct_network(rng: random.Random) -> tuple[dict[str, Any], int, int]:
    """Return a random network, the number of lanes that it needs, and the number of its hosts."""
    kind = rng.choice(["torus", "torus", "mesh", "hyperx", "dragonfly", "dragonfly", "dragonfly-plus"])
    topology: dict[str, Any] = {"kind": kind}
    if kind.startswith("dragonfly"):
        topology |= {"p": rng.choice([1, 2]), "h": rng.choice([1, 2])}
        inside = {"a": rng.choice([2, 3])}
        if kind == "dragonfly-plus":
            inside = {"leaves": rng.choice([1, 2]), "spines": rng.choice([1, 2])}
        topology |= inside
        ports = inside.get("a", inside.get("spines", 0)) * topology["h"]
        groups = ports + 1
        if ports > 1 and rng.random() < 0.5:
            groups = topology["g"] = rng.randint(2, ports)
        if rng.random() < 0.4:
            topology["arrangement"] = rng.choice(["absolute", "relative"])
        if rng.random() < 0.3:
            topology["global_delay"] = rng.choice(["300 ns", "1 ns"])
        needed = 2 if kind == "dragonfly" else 1
        return topology, needed, groups * inside.get("a", inside.get("leaves", 0)) * topology["p"]
    sizes = rng.choice([[2], [3], [4], [5], [6], [2, 3], [4, 2], [3, 3], [2, 2, 2], [4, 4], [5, 3]])
    topology["sizes"] = sizes
    each = rng.choice([1, 1, 2])
    if each > 1 or rng.random() < 0.3:
        topology["hosts_per_switch"] = each
    needed = 2 if kind == "torus" and any(size > 4 for size in sizes) else 1
    return topology, needed, each * math.prod(sizes)


def with_ways_of_packets(found: Scenario) -> Scenario:
    """Put a random scenario on a network with several routes between hosts, derived from its seed."""
    rng = random.Random(f"several ways {found['seed']}")
    found = {**found, **spreading.network(rng)}
    hosts = network(found["topology"], found.get("routing")).hosts
    mtu = int(found["packet"]["mtu"].split()[0])
    flows = [_flow(rng, hosts, f"F{number}", mtu) for number in range(rng.randint(2, 16))]
    return {**found, "flow": flows}


#: The variations of a scenario, by its seed modulo the length of this tuple.
VARIANTS = (
    (),
    (with_lanes,),
    (with_lanes, with_patterns),
    (with_queues,),
    (with_lanes, with_queues),
    (with_queues, with_patterns),
    (with_special_queues,),
    (with_lanes, with_special_queues),
    (with_lanes, with_special_queues, with_patterns),
    (with_output_buffers,),
    (with_lanes, with_output_buffers),
    (with_lanes, with_output_buffers, with_patterns),
    (with_announcements,),
    (with_lanes, with_queues, with_announcements),
    (with_lanes, with_announcements, with_patterns),
    (on_trees,),
    (with_lanes, with_announcements, on_trees),
    (with_lanes, with_special_queues, on_trees),
)
#: A round has one seed for each entry of `VARIANTS`. Of every `ROUNDS` rounds, the last is on direct
#: networks. In the rounds with the numbers in `CHOOSING`, counted from 0, each packet chooses its route.
ROUNDS = 9
CHOOSING = (5, 6)
#: Options that exclude adaptive routing per packet: announced flows and flows that choose routes.
NOT_CHOOSING = (with_announcements, on_trees)


def with_port_settings(found: Scenario) -> Scenario:
    """Give some ports and switches their own thresholds and masks, with FECN on a custom topology."""
    marking = found.get("congestion", {}).get("marking", {})
    if marking.get("kind") != "fecn" or found["topology"]["kind"] != "custom":
        return found
    rng = random.Random(f"ports {found['seed']}")
    switches = {one["name"]: one["ports"] for one in found["topology"]["switches"]}
    names = [*switches, *(f"{name}:{port + 1}" for name, ports in switches.items() for port in range(ports))]
    block = int(found["packet"]["credit_block"].split()[0])
    lanes = found.get("lanes", {}).get("count", 1)
    lane = int(found["switch"]["buffer"].split()[0]) // lanes // block * block
    settings = []
    for name in rng.sample(names, min(rng.choice([0, 0, 1, 2, 4]), len(names))):
        own: dict[str, Any] = {"at": [name]}
        if rng.random() < 0.5:
            own["threshold"] = rng.randint(0, 15)
        elif rng.random() < 0.7:
            upper = rng.randint(1, lane - 1)
            own |= {"upper": f"{upper} B", "lower": f"{rng.randint(0, upper)} B"}
        if rng.random() < 0.5:
            own["victim_mask"] = rng.random() < 0.5
        settings.append(own)
    if not settings:
        return found
    congestion = {**found["congestion"], "marking": {**marking, "ports": settings}}
    return {**found, "congestion": congestion}


def rates(found: Scenario) -> list[str]:
    """Return the different rates of a scenario's links."""
    paces = {link.ps_per_byte for link in network(found["topology"], found.get("routing")).links}
    return [f"{Fraction(8 * 10**12) / pace} bit/s" for pace in sorted(paces)]


def with_rate_settings(found: Scenario) -> Scenario:
    """Give separate thresholds to the outputs of each link rate, in some random scenarios with FECN."""
    marking = found.get("congestion", {}).get("marking", {})
    rng = random.Random(f"rates {found['seed']}")
    if marking.get("kind") != "fecn" or rng.random() < 0.8:
        return found
    lane = int(found["switch"]["buffer"].split()[0]) // found.get("lanes", {}).get("count", 1)
    of_rates = []
    for rate in rates(found):
        own: dict[str, Any] = {"rate": rate, "threshold": rng.randint(0, 15)}
        if rng.random() < 0.5:
            upper = rng.randint(1, lane // 2)
            own = {"rate": rate, "upper": f"{upper} B", "lower": f"{rng.randint(0, upper)} B"}
        of_rates.append(own)
    rest = {key: value for key, value in marking.items() if key not in ("threshold", "upper", "lower")}
    congestion = {**found["congestion"], "marking": {**rest, "thresholds": of_rates}}
    return {**found, "congestion": congestion}


#: The reaction of mechanisms, if it is not `cct`.
REACTIONS = {
    "none": "none",
    "fbicm": "none",
    "hfdi": "none",
    "renato": "lipd",
    "mvcm": "mvcm",
    "saa": "explicit-rate",
    "qcn": "qcn",
}


def with_host_settings(found: Scenario) -> Scenario:
    """Give some hosts of a random scenario with congestion control their own reactions."""
    rng = random.Random(f"hosts {found['seed']}")
    congestion = found.get("congestion")
    if congestion is None or rng.random() < 0.6:
        return found
    hosts = network(found["topology"], found.get("routing")).hosts
    mechanism = congestion.get("mechanism", "none")
    kind = congestion.get("reaction", {}).get("kind", REACTIONS.get(mechanism, "cct"))
    buffered = "output_buffer" in found["host"]
    chosen = rng.sample(hosts, rng.randint(1, len(hosts)))
    cut = rng.randint(0, len(chosen) - 1)
    settings = [
        {"at": at, "reaction": _own_reaction(rng, kind, buffered=buffered)}
        for at in (chosen[:cut], chosen[cut:])
        if at
    ]
    return {**found, "congestion": {**congestion, "hosts": settings}}


def _own_reaction(rng: random.Random, kind: str, *, buffered: bool) -> dict[str, Any]:
    """Select a reaction for some hosts; `kind` is the reaction of all others."""
    if kind == "explicit-rate":
        injection = rng.choice(["periodic-selection", "shaped-virtual-clock"])
        found = {"injection": injection, "probe": rng.choice(["300 ns", "5 us"])}
        return found | _weights(rng, buffered=buffered)
    if rng.random() < 0.3:
        return {"kind": "none"}
    own: dict[str, Any] = {"ccti_increase": rng.choice([0, 1, 3]), "ccti_timer": rng.choice([1, 2, NO_TIMER])}
    if rng.random() < 0.5:
        own["level"] = rng.choice(["qp", "sl"])
    if rng.random() < 0.5:
        own["ccti_limit"] = rng.choice([1, 5, 127])
    if kind == "cct" and rng.random() < 0.6:
        return own
    return {"kind": "cct", **own, "table": {"kind": "linear", "packets": rng.choice([1, 3]), "entries": 128}}


def _weights(rng: random.Random, *, buffered: bool) -> dict[str, Any]:
    """Select how the weights of links are read, and whether links retain them."""
    found: dict[str, Any] = {}
    if rng.random() < 0.4:
        found["probing"] = rng.choice(["packets", "piggyback"])
    if not buffered and rng.random() < 0.4:
        found["retain"] = rng.random() < 0.8
    return found


def with_logs(found: Scenario) -> Scenario:
    """Enable congestion logs in some random scenarios with marks. With a CCT, set a trigger threshold."""
    rng = random.Random(f"logs {found['seed']}")
    congestion = found.get("congestion", {})
    silent = ("none", "fbicm", "hfdi", "saa")
    mechanism = congestion.get("mechanism")
    default = "none" if mechanism is None or mechanism in silent else "some"
    kind = congestion.get("marking", {}).get("kind", default)
    if kind in ("none", "telemetry") or rng.random() < 0.4:
        return found
    found = {**found, "measure": {**found["measure"], "congestion_log": True}}
    settings = congestion.get("hosts", [])
    reactions = [congestion.get("reaction", {}), *(one["reaction"] for one in settings)]
    if reactions[0].get("kind") != "cct":
        return found
    # The trigger threshold must lie within the index limits of all reactions.
    lowest = max(one.get("ccti_min", 0) for one in reactions)
    limit = min(one.get("ccti_limit", 127) for one in reactions)
    if limit <= lowest:
        return found
    trigger = rng.randint(lowest + 1, min(limit, lowest + 4))
    return {
        **found,
        "congestion": {**congestion, "reaction": {**reactions[0], "trigger_threshold": trigger}},
    }


def with_weights(found: Scenario) -> Scenario:
    """Select, from the seed of a random scenario, how its explicit rates read the weights of links."""
    congestion = found.get("congestion", {})
    if congestion.get("mechanism") != "saa":
        return found
    rng = random.Random(f"weights {found['seed']}")
    own = _weights(rng, buffered="output_buffer" in found["host"])
    return {**found, "congestion": {**congestion, "reaction": {**congestion["reaction"], **own}}}


def variant(seed: int) -> Scenario:
    """Generate the scenario of a seed, with variations or on a direct network."""
    found, turn = drawn(seed), seed // len(VARIANTS)
    parts = VARIANTS[seed % len(VARIANTS)]
    chooses = turn % ROUNDS in CHOOSING
    if chooses:
        parts = (with_ways_of_packets, *(part for part in parts if part not in NOT_CHOOSING))
    elif turn % ROUNDS == ROUNDS - 1:
        parts = (on_direct_networks,)
    for part in parts:
        found = part(found)
    if turn % 3 == 2:
        found = with_feedback(found)
    found = with_logs(with_host_settings(with_weights(with_rate_settings(with_port_settings(found)))))
    return spreading.choosing(found) if chooses else found


def many(first: int, count: int) -> Iterator[tuple[str, Scenario]]:
    """Generate scenarios from consecutive seeds."""
    for seed in range(first, first + count):
        yield f"drawn from seed {seed}", variant(seed)
