"""Random scenarios whose messages have separate flows.

They have distributions of sizes, loads, bursts, incasts, lists of transfers, and closed loops.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from verify import drawing, rdma_drawing, reading

Scenario = dict[str, Any]

#: The folder of the files that scenarios read.
FOLDER = tempfile.TemporaryDirectory(prefix="silvan-sources-")
#: The kinds of sources. `load` occurs twice and is therefore more frequent.
KINDS = ("load", "load", "closed", "incast", "listed")
ACKNOWLEDGING = ("ack", "ack-message", "ack-each")


def base(seed: int) -> Scenario:
    """Generate a scenario, mostly with RDMA, without announcements, trimming and receiver credit."""
    for turn in range(seed, seed + 100_000, 1_000):
        found = (rdma_drawing if seed % 3 else drawing).variant(turn)
        for key in ("adaptive_routing", "flow", "traffic"):
            found.pop(key, None)
        given = found.get("congestion", {})
        reaction = given.get("reaction", {}).get("kind", "none")
        if given.get("mechanism", "none") == "saa" or reaction in ("rccc", "explicit-rate"):
            continue
        if "trimming" not in found.get("switch", {}) and given.get("notification") != "ack-grant":
            return found
    raise AssertionError("no scenario without credit of receivers")


def variant(seed: int) -> Scenario:
    """Generate a scenario of the seed with one to three patterns."""
    found, rng = base(seed), random.Random(f"sources {seed}")
    net = reading.network(found["topology"], found.get("routing"))
    mtu = int(found["packet"]["mtu"].split()[0])
    probe = {"pattern": {"kind": "uniform"}, "rate": "1 Gbit/s"}
    plan = reading.plan({**found, "traffic": [probe]})
    duration = plan.duration_ps
    has_acks = plan.congestion.notification in ACKNOWLEDGING
    kinds = [kind for kind in KINDS if has_acks or kind != "closed"]
    patterns = [
        pattern(rng, rng.choice(kinds), list(net.hosts), (mtu, duration), f"{seed}-{number}")
        for number in range(rng.choice([1, 1, 2, 3]))
    ]
    return {**found, "traffic": patterns}


def pattern(
    rng: random.Random, kind: str, hosts: list[str], scale: tuple[int, int], name: str
) -> dict[str, Any]:
    """Generate a pattern of a kind.

    `scale` has the MTU in bytes and the duration of the run in ps, which limit sizes and times.
    """
    mtu, duration = scale
    if kind == "listed":
        return {"pattern": {"kind": "listed", "file": listed(rng, hosts, scale, name)}}
    found: dict[str, Any] = {}
    if rng.random() < 0.3 and len(hosts) > 3:
        found["hosts"] = sorted(rng.sample(hosts, rng.randint(3, len(hosts))))
    senders = found.get("hosts", hosts)
    if kind == "incast":
        found.update(incast(rng, hosts, len(senders), duration))
    else:
        found.update({"pattern": {"kind": "uniform"}}, **times(rng, kind, duration))
    if kind != "closed" and rng.random() < 0.6:
        found["arrivals"] = "poisson"
    if rng.random() < 0.75 or kind == "load":
        found["sizes"] = {"kind": "file", "file": distribution(rng, mtu, name)}
    elif rng.random() < 0.5:
        found["message"] = f"{rng.randint(1, 4 * mtu)} B"
    if kind != "incast" and rng.random() < 0.2:
        found["packets_per_host"] = rng.choice([1, 5, 20])
    if rng.random() < 0.3:
        found["start"] = f"{rng.randint(0, duration // 2)} ps"
    if rng.random() < 0.2:
        found["stop"] = f"{rng.randint(duration // 2, duration)} ps"
    return found


def incast(rng: random.Random, hosts: list[str], senders: int, duration: int) -> dict[str, Any]:
    """Generate the pattern and the load of an incast."""
    pattern: dict[str, Any] = {"kind": "incast", "senders": rng.randint(1, senders - 1)}
    if rng.random() < 0.5:
        pattern["to"] = rng.sample(hosts, rng.randint(1, len(hosts)))
    if rng.random() < 0.6:
        pattern["jitter"] = f"{rng.randint(0, duration // 10)} ps"
    if rng.random() < 0.4:
        return {"pattern": pattern, "load_percent": rng.choice([1, 5, 20])}
    return {"pattern": {**pattern, "every": f"{rng.randint(duration // 8 + 1_000, duration + 1_000)} ps"}}


def times(rng: random.Random, kind: str, duration: int) -> dict[str, Any]:
    """Generate the keys that determine when messages are generated."""
    if kind == "closed":
        found: dict[str, Any] = {"outstanding": rng.choice([1, 1, 2, 5])}
        if rng.random() < 0.7:
            found["think"] = f"{rng.randint(0, duration // 10)} ps"
        return found
    found = {"load_percent": rng.choice([1, 10, 30, 60, 100])}
    if rng.random() < 0.4:
        on, off = (rng.randint(duration // 50 + 1_000, duration // 3 + 2_000) for _ in range(2))
        found["bursts"] = {"on": f"{on} ps", "off": f"{off} ps"}
    return found


def distribution(rng: random.Random, mtu: int, name: str) -> str:
    """Write a distribution of sizes of up to five packets, and return the path of its file."""
    count = rng.randint(1, 5)
    sizes = sorted(rng.randint(1, 5 * mtu) for _ in range(count))
    whole = rng.choice([1, 100])
    shares = [*sorted(round(rng.random() * whole, 3) for _ in range(count - 1)), whole]
    file = Path(FOLDER.name) / f"sizes-{name}.txt"
    file.write_text("".join(f"{size} {share}\n" for size, share in zip(sizes, shares, strict=True)))
    return str(file)


def listed(rng: random.Random, hosts: list[str], scale: tuple[int, int], name: str) -> str:
    """Write a list of transfers in one of the two formats, and return the path of its file."""
    mtu, duration = scale
    rows = []
    for _ in range(rng.randint(1, 40)):
        ends = rng.sample(range(len(hosts)), 2)
        rows.append((*ends, rng.randint(1, 5 * mtu), rng.randrange(duration), rng.choice([0, 0, 1])))
    file = Path(FOLDER.name) / f"flows-{name}.txt"
    if rng.random() < 0.5:
        lines = [f"{a} {b} {sl} 100 {size} {ps / 1e12:.12f}" for a, b, size, ps, sl in rows]
        file.write_text("\n".join([str(len(lines)), *lines]) + "\n")
    else:
        lines = [
            f"{hosts[a]},{hosts[b]},{size},{ps // 1000}.{ps % 1000:03},{sl}" for a, b, size, ps, sl in rows
        ]
        file.write_text("\n".join(["from,to,bytes,start_ns,sl", *lines]) + "\n")
    return str(file)


def many(first: int, count: int) -> Iterator[tuple[str, Scenario]]:
    """Generate scenarios from consecutive seeds."""
    for seed in range(first, first + count):
        yield f"drawn for sources from seed {seed}", variant(seed)
