"""Random scenarios with the mechanisms of RDMA over Ethernet, made from scenarios of `drawing`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from verify import drawing
from verify.reading import network

Scenario = dict[str, Any]


def full_packet(found: Scenario) -> int:
    """Return the bytes of a full packet."""
    mtu, header = (int(found["packet"][key].split()[0]) for key in ("mtu", "header"))
    return mtu + header


def red(rng: random.Random, full: int) -> dict[str, Any]:
    """Select marking by thresholds that a few packets exceed."""
    least = rng.choice([0, rng.randint(0, full), rng.randint(0, 4 * full)])
    return {
        "kind": "red",
        "min": f"{least} B",
        "max": f"{least + rng.choice([0, rng.randint(1, full), rng.randint(1, 8 * full)])} B",
        "percent": rng.choice([1, 20, 100, rng.randint(1, 100)]),
        "pattern": rng.choice(["random", "regular"]),
    }


def _limits(rng: random.Random, full: int, keys: tuple[str, ...]) -> dict[str, Any]:
    """Select marking by thresholds, and return only the given keys."""
    found = red(rng, full)
    return {key: found[key] for key in keys}


def dcqcn(rng: random.Random, full: int) -> dict[str, Any]:
    """Select DCQCN, mostly with timers that expire several times in a run."""
    found: dict[str, Any] = {"kind": "dcqcn"}
    for key in ("alpha_interval", "decrease_interval", "increase_interval"):
        if rng.random() < 0.9:
            found[key] = rng.choice(["100 ns", "200 ns", "777 ns", "1 us", "2 us", "5 us", "12345 ps"])
    if rng.random() < 0.3:
        found["set"] = rng.choice(["tuned", "paper"])
    if rng.random() < 0.4:
        found["increase_bytes"] = f"{full * rng.choice([1, 3, 10]) + rng.randrange(2)} B"
    if rng.random() < 0.5:
        found["gain_divisor"] = rng.choice([1, 2, 16, 1000])
    if rng.random() < 0.5:
        found["fast_recovery"] = rng.choice([1, 2, 5])
    for key in ("additive_increase", "hyper_increase", "min_rate"):
        if rng.random() < 0.5:
            found[key] = rng.choice(["1 Mbit/s", "333 Mbit/s", "2 Gbit/s", "100 Gbit/s"])
    found |= {key: True for key in ("clamp_target", "after_losses") if rng.random() < 0.3}
    if rng.random() < 0.3:
        found["first_rate_percent"] = rng.choice([1, 50, 99])
    if rng.random() < 0.5:
        found["order"] = rng.choice(["alpha-first", "decrease-first"])
    return found


def dctcp(rng: random.Random) -> dict[str, Any]:
    """Select DCTCP."""
    return {
        "kind": "dctcp",
        "gain_divisor": rng.choice([1, 4, 16, 16]),
        "initial_packets": rng.choice([1, 2, 4, 10]),
        "min_packets": rng.choice([1, 1, 2]),
        "slow_start": rng.random() < 0.5,
    }


def timely(rng: random.Random, full: int) -> dict[str, Any]:
    """Select TIMELY."""
    found: dict[str, Any] = {"kind": "timely"}
    if rng.random() < 0.6:
        low = rng.randint(1, 8 * full)
        found |= {"low": f"{low} ns", "high": f"{low + rng.randint(0, 8 * full)} ns"}
    if rng.random() < 0.5:
        found["min_delay"] = f"{rng.randint(1, 3 * full)} ns"
    if rng.random() < 0.5:
        found |= {
            "weight_permille": rng.choice([1, 500, 1000]),
            "beta_permille": rng.choice([100, 800, 1000]),
        }
    if rng.random() < 0.5:
        found["stages"] = rng.choice([1, 2, 5])
    for key in ("additive_increase", "hyper_increase", "min_rate"):
        if rng.random() < 0.5:
            found[key] = rng.choice(["1 Mbit/s", "333 Mbit/s", "2 Gbit/s"])
    return found


def swift(rng: random.Random, full: int) -> dict[str, Any]:
    """Select Swift."""
    found: dict[str, Any] = {"kind": "swift"}
    if rng.random() < 0.6:
        found["base_target"] = f"{rng.randint(1, 8 * full)} ns"
    if rng.random() < 0.6:
        found["per_hop"] = rng.choice(["0 ns", "777 ns", "100 ns"])
    if rng.random() < 0.6:
        found["flow_scaling"] = rng.choice(["0 ns", "3 us", "20 us"])
    if rng.random() < 0.5:
        found |= {
            "scaling_from_percent": rng.choice([1, 10, 99]),
            "scaling_to_packets": rng.choice([1, 8, 100]),
        }
    if rng.random() < 0.5:
        found |= {"increase_packets": rng.choice([1, 3]), "beta_percent": rng.choice([20, 80, 100])}
        found["max_decrease_percent"] = rng.choice([10, 50, 99])
    found["initial_packets"] = rng.choice([1, 2, 10])
    return found


def hpcc(rng: random.Random, full: int) -> dict[str, Any]:
    """Select HPCC."""
    found: dict[str, Any] = {"kind": "hpcc", "max_stage": rng.choice([0, 0, 1, 5])}
    if rng.random() < 0.5:
        found["utilization_percent"] = rng.choice([50, 95, 100])
    if rng.random() < 0.5:
        found["round_trip"] = f"{rng.randint(1, 6 * full)} ns"
    for key in ("additive_increase", "min_rate"):
        if rng.random() < 0.5:
            found[key] = rng.choice(["1 Mbit/s", "333 Mbit/s", "2 Gbit/s"])
    return found


def pcc(rng: random.Random, full: int, *, is_one_route: bool) -> dict[str, Any]:
    """Select PCC by the round-trip time, or by telemetry."""
    found: dict[str, Any] = {"kind": rng.choice(["pcc-rtt", "pcc-telemetry"])}
    if rng.random() < 0.6:
        found["decrease_permille"] = rng.choice([1, 100, 300, 499])
    keys = ["additive_increase", "min_rate"]
    if found["kind"] == "pcc-rtt":
        allowed = rng.randint(1, 8 * full)
        found |= {
            "allowed_delay": f"{allowed} ns",
            "max_delay": f"{allowed + rng.randint(0, 20 * full)} ns",
            "forget_samples": rng.choice([0, 1, 2, 5, 20, 256]),
        }
    else:
        keys.append("hyper_increase")
        found["queue"] = f"{rng.choice([0, rng.randint(1, full), rng.randint(1, 8 * full)])} B"
        if rng.random() < 0.6:
            found["busy_permille"] = rng.choice([0, 300, 800, 1000])
        if is_one_route and rng.random() < 0.6:
            found["hop"] = rng.choice(["last", "longest-queue"])
    for key in keys:
        if rng.random() < 0.5:
            found[key] = rng.choice(["1 Mbit/s", "333 Mbit/s", "2 Gbit/s"])
    return found


def nscc(rng: random.Random, full: int) -> dict[str, Any]:
    """Select NSCC."""
    found: dict[str, Any] = {"kind": "nscc", "quick_adapt": rng.random() < 0.8}
    for key in ("round_trip", "target"):
        if rng.random() < 0.6:
            found[key] = f"{rng.randint(1, 6 * full)} ns"
    if rng.random() < 0.5:
        found["quick_adapt_gate"] = rng.choice([0, 1, 3])
    return found


def rccc(rng: random.Random, full: int) -> dict[str, Any]:
    """Select RCCC, sometimes with NSCC."""
    found: dict[str, Any] = {"kind": "rccc", "idle_credit": rng.random() < 0.7}
    if rng.random() < 0.5:
        found["round_trip"] = f"{rng.randint(1, 6 * full)} ns"
    limit = full * 1000
    if rng.random() < 0.5:
        limit = rng.choice([full, full + rng.randint(1, full), 5 * full, 20 * full])
        found["limit"] = f"{limit} B"
    if rng.random() < 0.6:
        found["speculative"] = f"{min(rng.choice([0, 1, full, 3 * full]), limit)} B"
    if rng.random() < 0.6:
        found["grant_percent"] = rng.choice([1, 30, 99, 100])
    if rng.random() < 0.6:
        found["grant_packets"] = rng.choice([1, 2, 64])
    if rng.random() < 0.4:
        found["nscc"] = {key: value for key, value in nscc(rng, full).items() if key != "kind"}
    if rng.random() < 0.5:
        found["divide_requests"] = rng.random() < 0.8
        found["idle_credit"] |= found["divide_requests"]
    if rng.random() < 0.5:
        found["oversubscribed"] = oversubscribed(rng, full)
    return found


def oversubscribed(rng: random.Random, full: int) -> dict[str, Any]:
    """Select a control of grants whose intervals end several times in a run."""
    found: dict[str, Any] = {}
    if rng.random() < 0.7:
        found["interval"] = f"{rng.randint(100, 200 + 4 * full)} ns"
    if rng.random() < 0.7:
        found |= {
            "target_percent": rng.choice([0, 10, 30]),
            "decrease_percent": rng.choice([1, 50, 100]),
            "increase_permille": rng.choice([1, 10, 100, 1000]),
            "min_rate_permille": rng.choice([1, 100, 225, 1000]),
        }
    return found


def returns(rng: random.Random) -> dict[str, Any]:
    """Select how marks return for DCQCN, which needs no acknowledgement of every packet."""
    found: dict[str, Any] = {"notification": rng.choice(["cnp", "cnp", "cnp", "ack", "ack-each", "backward"])}
    if found["notification"] == "cnp":
        if rng.random() < 0.5:
            interval = rng.choice(["1 ns", "333 ns", "2 us", "7 us"])
            found["coalescing"] = {"interval": interval, "per": rng.choice(["flow", "port"])}
        if rng.random() < 0.5:
            found["notification_delay"] = rng.choice(["1 ps", "100 ns", "1234567 ps", "5 us"])
    return found


def with_first_window(congestion: dict[str, Any], seed: int, full: int) -> dict[str, Any]:
    """Vary the first window, the rules and the level of NSCC in some of the scenarios."""
    rng = random.Random(f"first window {seed}")
    reaction = congestion["reaction"]
    window = {"first_window": f"{full * rng.choice([1, 2, 5, 50]) + rng.randrange(full)} B"}
    if rng.random() < 0.7:
        window = {}
    if rng.random() < 0.3:
        window["rule"] = "spec"
    if reaction["kind"] == "nscc":
        if random.Random(f"window level {seed}").random() < 0.5:
            window["level"] = "destination"
        return {**congestion, "reaction": {**reaction, **window}}
    if "nscc" in reaction:
        return {**congestion, "reaction": {**reaction, "nscc": {**reaction["nscc"], **window}}}
    return congestion


def without_hosts(marking: dict[str, Any], seed: int) -> dict[str, Any]:
    """Set `hosts` in some of the scenarios with `red`, mostly so that outputs to hosts mark nothing."""
    rng = random.Random(f"marks at hosts {seed}")
    if marking["kind"] != "red" or rng.random() < 0.7:
        return marking
    return {**marking, "hosts": rng.random() < 0.1}


def with_units(congestion: dict[str, Any], seed: int, full: int) -> dict[str, Any]:
    """Let acknowledgements cover several packets, in some of the scenarios with NSCC or RCCC."""
    rng = random.Random(f"units {seed}")
    if congestion["reaction"]["kind"] not in ("nscc", "rccc") or rng.random() < 0.5:
        return congestion
    size = full * rng.choice([1, 2, 4, 16]) + rng.randint(-1, 1)
    within = rng.choice(["1 us", "333 ns", "5 us", "20 us", "100 us"])
    return {**congestion, "acknowledge": {"bytes": f"{size} B", "within": within}}


def variant(seed: int) -> Scenario:
    """Generate a scenario from a seed with marking and a reaction of RDMA over Ethernet."""
    found = drawing.variant(seed)
    # Congestion logs require marks, which some combinations here lack.
    found["measure"] = {key: value for key, value in found["measure"].items() if key != "congestion_log"}
    rng = random.Random(f"rdma {seed}")
    given = found.get("congestion", {})
    parts = {key: given[key] for key in ("mechanism", "isolation") if key in given}
    if parts.get("mechanism") in ("renato", "pfister", "mvcm", "saa", "none", "qcn"):
        del parts["mechanism"]
    full = full_packet(found)
    kind = rng.choice(["dcqcn", "dcqcn", "dctcp", "timely", "swift", "hpcc", "nscc"])
    if kind == "hpcc" and takes_several_routes(found):
        kind = "swift"
    own = {
        "dcqcn": lambda: dcqcn(rng, full),
        "dctcp": lambda: dctcp(rng),
        "timely": lambda: timely(rng, full),
        "swift": lambda: swift(rng, full),
        "hpcc": lambda: hpcc(rng, full),
        "nscc": lambda: nscc(rng, full),
    }
    marking = red(rng, full)
    if kind == "hpcc" or (kind == "swift" and rng.random() < 0.5):
        marking = {"kind": "telemetry"}
    back = returns(rng) if kind == "dcqcn" else {"notification": "ack-each"}
    reaction = own[kind]()
    if seed % 7 == 0:
        # The random stream is separate, so that scenarios of other seeds do not depend on it.
        reaction, back = rccc(random.Random(f"rccc {seed}"), full), {"notification": "ack-grant"}
        marking = marking if marking["kind"] == "red" else {"kind": "none"}
    elif seed % 11 == 5:
        own_rng = random.Random(f"pcc {seed}")
        reaction = pcc(own_rng, full, is_one_route=not takes_several_routes(found))
        back = {"notification": "ack-each"}
        is_stamped = reaction["kind"] == "pcc-telemetry"
        marking = {"kind": "telemetry"} if is_stamped else red(own_rng, full)
    own_rng = random.Random(f"rates {seed}")
    if marking["kind"] == "red" and own_rng.random() < 0.2:
        limits = ("min", "max", "percent")
        of_rates = [{"rate": rate} | _limits(own_rng, full, limits) for rate in drawing.rates(found)]
        marking = {key: value for key, value in marking.items() if key not in limits}
        marking["thresholds"] = of_rates
    congestion = {**parts, "marking": marking, "reaction": reaction, "feedback": "binary", **back}
    congestion = with_units(with_first_window(congestion, seed, full), seed, full)
    congestion["marking"] = without_hosts(congestion["marking"], seed)
    # Some switches serve inputs by round robin instead of in the default order of Ethernet.
    if random.Random(f"arbitration {seed}").random() < 0.4:
        found["switch"] = {"arbitration": "round-robin", **found["switch"]}
    return with_host_settings({**found, "congestion": congestion})


def with_host_settings(found: Scenario) -> Scenario:
    """Give some hosts of some random scenarios their own reaction, which the acknowledgements permit."""
    rng = random.Random(f"rdma hosts {found['seed']}")
    if rng.random() < 0.6:
        return found
    full, kind = full_packet(found), found["congestion"]["reaction"]["kind"]
    own: dict[str, Any] = {"kind": "none"}
    if kind == "rccc":
        own = rccc(rng, full)
    elif rng.random() < 0.7:
        own = dcqcn(rng, full)
        if kind != "dcqcn":
            others = (dctcp(rng), timely(rng, full), swift(rng, full), nscc(rng, full))
            own = rng.choice(others if "acknowledge" not in found["congestion"] else others[3:])
    hosts = network(found["topology"], found.get("routing")).hosts
    setting = {"at": rng.sample(hosts, rng.randint(1, len(hosts))), "reaction": own}
    return {**found, "congestion": {**found["congestion"], "hosts": [setting]}}


def takes_several_routes(found: Scenario) -> bool:
    """Return whether packets of a flow may take different routes."""
    kind, per = found.get("routing", {}).get("kind"), found.get("adaptive_routing", {}).get("per")
    return bool(kind == "ugal" or per == "packet")


def many(first: int, count: int) -> Iterator[tuple[str, Scenario]]:
    """Generate scenarios from consecutive seeds."""
    for seed in range(first, first + count):
        yield f"drawn for RDMA from seed {seed}", variant(seed)
