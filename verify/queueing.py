"""Closed forms of queues, credits and recovery, and max-min fair rates of random networks."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import silvan
from verify import drawing
from verify.check import Check, run, sampled
from verify.compare import toml
from verify.maxmin import max_min
from verify.wiring import Wiring, wiring


def waiting(load: float, least: int, largest: int) -> float:
    """Return the mean waiting time of an M/G/1 queue (Pollaczek, Khinchine), in mean service times.

    Service times are those of messages of whole bytes, uniform between the smallest and the largest.
    """
    mean, variance = (least + largest) / 2, ((largest - least + 1) ** 2 - 1) / 12
    return load * (1 + variance / mean**2) / (2 * (1 - load))


def _since(result: silvan.Result, event: str) -> float:
    """Return the mean latency since an event, in nanoseconds, from a result with one class."""
    return next(float(row["mean_ns"]) for row in result.summary["latency"] if row["since"] == event)


def _sizes(least: int, largest: int) -> dict[str, str]:
    return {"message": f"{least} B"} | ({"message_max": f"{largest} B"} if largest > least else {})


def hosts_as_queues(*, quick: bool) -> Iterator[Check]:
    """Compare a host with Poisson arrivals of messages of random sizes with an M/G/1 queue."""
    for load in (0.5,) if quick else (0.3, 0.5, 0.8):
        least, largest = 100, 2000
        law, samples = waiting(load, least, largest), []
        for seed in range(1, 9 if quick else 17):
            result = run(
                {
                    "seed": seed,
                    "duration": "20 ms" if quick else "200 ms",
                    "warmup": "1 ms" if quick else "10 ms",
                    "topology": {"kind": "star", "hosts": 2, "link_rate": "16 Gbit/s"},
                    "packet": {"mtu": "2 KB"},
                    "traffic": [
                        {
                            "pattern": {"kind": "shift", "by": 1},
                            "rate": f"{round(16000 * load)} Mbit/s",
                            "arrivals": "poisson",
                            **_sizes(least, largest),
                        }
                    ],
                    "measure": {"interval": "10 ms", "links": False},
                }
            )
            waited = _since(result, "generation") - _since(result, "injection")
            samples.append(waited / ((least + largest) / 2 / 2))
        yield sampled(f"M/G/1 at hosts, load {load}, waiting", law, samples, 0.0)


def output_queues(*, quick: bool) -> Iterator[Check]:
    """Many fast hosts and a slow one make the output to the slow one an M/D/1 or M/G/1 queue.

    The link of each sending host is 25 times as fast as the output. It limits how closely packets can follow
    each other, which changes the waiting time by less than the tolerance of 2 %.
    """
    sources = [f"H{number}" for number in range(16)]
    links = [{"from": host, "to": f"S:{port}", "rate": "400 Gbit/s"} for port, host in enumerate(sources, 1)]
    net = {
        "kind": "custom",
        "hosts": [*sources, "Sink"],
        "switches": [{"name": "S", "ports": 17}],
        "links": [*links, {"from": "Sink", "to": "S:17", "rate": "16 Gbit/s"}],
        "link_delay": "1 ns",
    }
    cases = [(0.5, 2000, 2000), (0.8, 2000, 2000), (0.5, 100, 2000), (0.8, 100, 2000)]
    for load, least, largest in cases[2:3] if quick else cases:
        law, samples, mean = waiting(load, least, largest), [], (least + largest) / 2 / 2
        for seed in range(1, 9 if quick else 17):
            result = run(
                {
                    "seed": seed,
                    "duration": "20 ms" if quick else "120 ms",
                    "warmup": "1 ms" if quick else "10 ms",
                    "topology": net,
                    "packet": {"mtu": "2 KB"},
                    "switch": {"buffer": "64 MiB", "latency": "0 ns"},
                    "host": {"buffer": "1 MiB"},
                    "traffic": [
                        {
                            "hosts": sources,
                            "pattern": {"kind": "hotspots", "to": ["Sink"]},
                            "rate": f"{round(16000 * load / len(sources))} Mbit/s",
                            "arrivals": "poisson",
                            **_sizes(least, largest),
                        }
                    ],
                    "measure": {"interval": "10 ms", "links": False, "hosts": False},
                }
            )
            # Two links add a nanosecond each, and the transmission time on the slow link counts once.
            samples.append((_since(result, "injection") - 2 - mean) / mean)
        name = f"M/{'D' if least == largest else 'G'}/1 at an output, load {load}, waiting"
        yield sampled(name, law, samples, 0.02 * law)


def credit_windows(*, quick: bool) -> Iterator[Check]:
    """Check that a buffer of k packets admits k packets per round trip.

    The round trip consists of two link delays, the latency of a switch, and the transmission time of a
    packet.
    """
    size, rate, delay, latency = 2048, 16, 3_000, 500
    for packets in (1, 5) if quick else (1, 2, 3, 5, 7, 8, 12):
        got = run(
            {
                "duration": "12 ms",
                "warmup": "2 ms",
                "topology": {
                    "kind": "star",
                    "hosts": 2,
                    "link_rate": f"{rate} Gbit/s",
                    "link_delay": f"{delay} ns",
                },
                "switch": {"buffer": f"{packets * size} B", "latency": f"{latency} ns"},
                "host": {"buffer": "1 MiB"},
                "flow": [{"from": "H1", "to": "H2"}],
            }
        ).summary["flows"][0]["received_gbit_s"]
        span = 8 * size / rate
        law = min(rate, 8 * packets * size / (2 * delay + latency + span))
        yield Check(f"credits for {packets} packets, throughput (Gbit/s)", law, got, 0.005 * law)


def recovery(*, quick: bool) -> Iterator[Check]:
    """After the last mark, an index of k is zero after k periods of the timer, minus a phase."""
    for timer, increase in ((5, 4),) if quick else ((2, 8), (5, 4), (20, 10)):
        period_ns = timer * 1024
        result = run(
            {
                "duration": f"{600 + 300 * timer} us",
                "topology": {"kind": "star", "hosts": 4, "link_rate": "16 Gbit/s"},
                "measure": {"interval": "128 ns", "links": False, "hosts": False, "classes": False},
                "flow": [
                    {"name": "stays", "from": "H1", "to": "H4", "rate": "1 Gbit/s"},
                    *({"from": f"H{i}", "to": "H4", "stop": "300 us"} for i in (2, 3)),
                ],
                "congestion": {
                    "mechanism": "ib-cc",
                    "marking": {"packet_size": 0, "marking_rate": 0},
                    "reaction": {"ccti_timer": timer, "ccti_increase": increase},
                },
            }
        )
        flows = result.numpy("flows")
        index = flows["ccti"][flows["flow"] == "stays"]
        last = max(at for at in range(1, len(index)) if index[at] > index[at - 1])
        gone = next(at for at in range(last, len(index)) if index[at] == 0)
        # The index first decreases within a period, then once per period. A sample is late by up to its
        # interval.
        level = int(index[last])
        law, periods = level - 0.5, (gone - last) * 128 / period_ns
        name = f"timer of {timer}, index {level} to 0, periods"
        yield Check(name, law, periods, 0.5 + 256 / period_ns)


def _route(net: Wiring, source: str, destination: str) -> Iterator[tuple[str, str]]:
    """Return the links from one host to another, in a network without rings."""
    tables, near = net.ways(), source
    ahead = {node: dict(net.neighbours(node)) for node in (*net.switches, *net.hosts)}
    while near != destination:
        far = ahead[near][tables[near][destination] if near in tables else 0]
        yield near, far
        near = far


def fair_rates(*, quick: bool) -> Iterator[Check]:
    """Compare the max-min rates of the fluid solver with those of water-filling, on random trees."""
    worst = 0.0
    for seed in range(1, 6 if quick else 101):
        rng = random.Random(f"max-min {seed}")
        hosts = [f"H{number}" for number in range(rng.randint(2, 12))]
        topology = drawing.tree(rng, hosts)
        ends = [rng.sample(hosts, 2) for _ in range(rng.randint(1, 20))]
        net = wiring(topology)
        paths = {f"F{number}": tuple(_route(net, *pair)) for number, pair in enumerate(ends)}
        capacity: dict[Any, float] = {}
        for link in net.links:
            (near, _), (far, _) = link.ends
            rate = float(Fraction(8000) / link.ps_per_byte)
            capacity[near, far] = capacity[far, near] = rate
        law = max_min(paths, capacity)
        flows = [
            {"name": name, "from": near, "to": far} for name, (near, far) in zip(paths, ends, strict=True)
        ]
        scenario = {"duration": "1 ms", "topology": topology, "flow": flows}
        report = silvan.fluid(silvan.Scenario.from_toml(toml(scenario, top=True)))
        for flow in report["flows"]:
            worst = max(worst, math.fabs(flow["max_min"]["gbit_s"] / law[flow["flow"]] - 1))
    yield Check("max-min on random trees, worst relative difference", 0.0, worst, 1e-6)


LAWS = (hosts_as_queues, output_queues, credit_windows, recovery, fair_rates)
