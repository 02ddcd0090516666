"""Closed forms that the simulator must match on longer runs, each with a number and a tolerance."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from statistics import mean
from typing import Any

import silvan
from verify import crossbar, queueing
from verify.check import Check, run, sampled
from verify.compare import toml
from verify.maxmin import max_min

#: Saturation of an N x N switch with FIFO input queues (Karol, Hluchyj, Morgan 1987, table I).
KAROL = {2: 0.75, 3: 0.6825, 4: 0.6553, 5: 0.6399, 8: 0.6184}


def karol(*, quick: bool) -> Iterator[Check]:
    """FIFO input queues saturate by head-of-line blocking."""
    for ports in (2, 8) if quick else KAROL:
        samples = []
        for seed in range(1, 7 if quick else 13):
            result = run(
                {
                    "seed": seed,
                    "duration": "8 ms" if quick else "120 ms",
                    "warmup": "2 ms" if quick else "20 ms",
                    "topology": {
                        "kind": "star",
                        "hosts": ports,
                        "link_rate": "16 Gbit/s",
                        "link_delay": "1 ns",
                    },
                    # Only the switch limits throughput: the hosts have room, and there is no latency.
                    "switch": {
                        "architecture": "iq",
                        "queues": "single",
                        "buffer": "64 KiB",
                        "latency": "0 ns",
                    },
                    "packet": {"mtu": "2 KB", "credit_block": "1 B"},
                    "traffic": [{"pattern": {"kind": "uniform", "include_self": True}}],
                    "measure": {"interval": "10 ms", "links": False, "hosts": False},
                }
            )
            samples.append(result.summary["throughput_gbit_s"] / (16 * ports))
        yield sampled(f"FIFO input queues, {ports} ports, saturation", KAROL[ports], samples, 0.0005)


def m_d_1(*, quick: bool) -> Iterator[Check]:
    """Poisson arrivals make a host an M/D/1 queue: mean waiting in packet times."""
    for percent in (50,) if quick else (10, 30, 50, 70, 80, 90):
        load, samples = percent / 100, []
        for seed in range(1, 9 if quick else 17):
            result = run(
                {
                    "seed": seed,
                    "duration": "30 ms" if quick else "500 ms",
                    "warmup": "1 ms" if quick else "50 ms",
                    "topology": {"kind": "star", "hosts": 2, "link_rate": "16 Gbit/s"},
                    "packet": {"mtu": "2 KB"},
                    "flow": [
                        {"from": "H1", "to": "H2", "rate": f"{160 * percent} Mbit/s", "arrivals": "poisson"}
                    ],
                    "measure": {"interval": "10 ms"},
                }
            )
            times = {row["since"]: row["mean_ns"] for row in result.summary["latency"]}
            samples.append((times["generation"] - times["injection"]) / 1000)
        yield sampled(f"M/D/1, load {load}, waiting", load / (2 * (1 - load)), samples, 0.0)


def chain(switches: int, rate: str) -> dict[str, Any]:
    """Describe a chain of switches with a host at each end."""
    names = [f"S{i}" for i in range(switches)]
    links = [{"from": "A", "to": "S0:1"}, {"from": "B", "to": f"{names[-1]}:2"}]
    links += [{"from": f"{near}:2", "to": f"{far}:1"} for near, far in itertools.pairwise(names)]
    return {
        "kind": "custom",
        "hosts": ["A", "B"],
        "switches": [{"name": name, "ports": 2} for name in names],
        "links": links,
        "link_rate": rate,
        "link_delay": "30 ns",
    }


def zero_load(*, quick: bool) -> Iterator[Check]:
    """Without load: a delay per link, a latency per switch, and the packet's length.

    With cut-through switches, the length counts once, with store-and-forward switches once per link.
    """
    sizes, hops, rates = (64, 777, 4096), (1, 2, 5), (2, 16, 25, 100)
    kinds = ("cut-through", "store-and-forward")
    grid = (
        itertools.product([777], [2], [16], kinds) if quick else itertools.product(sizes, hops, rates, kinds)
    )
    for size, switches, rate, forwarding in grid:
        result = run(
            {
                "duration": "1 ms",
                "topology": chain(switches, f"{rate} Gbit/s"),
                "packet": {"mtu": "4 KiB", "header": "30 B"},
                "switch": {"latency": "110 ns", "forwarding": forwarding},
                "flow": [{"from": "A", "to": "B", "message": f"{size} B", "rate": "100 Mbit/s"}],
            }
        )
        times = 1 if forwarding == "cut-through" else switches + 1
        law = 30 * (switches + 1) + 110 * switches + times * (size + 30) * 8 / rate
        simulated = next(row["mean_ns"] for row in result.summary["latency"] if row["since"] == "generation")
        # Times are rounded to whole picoseconds and, in the statistics of latency, to whole nanoseconds.
        yield Check(
            f"no load, {size} B, {switches} {forwarding} switches, {rate} Gbit/s, latency (ns)",
            law,
            simulated,
            1.0,
        )


def _rates(scenario: dict[str, Any]) -> dict[str, float]:
    return {flow["flow"]: flow["received_gbit_s"] for flow in run(scenario).summary["flows"]}


def fairness(*, quick: bool) -> Iterator[Check]:
    """Shares of flows: round robin per port, max-min where no port is shared, and equal with CC."""
    length = {"duration": "6 ms" if quick else "60 ms", "warmup": "2 ms" if quick else "10 ms"}
    net = {"kind": "dumbbell", "link_rate": "16 Gbit/s", "trunk_rate": "32 Gbit/s"}
    pairs = {
        "F1": ("H1", "H4"),
        "F2": ("H2", "H5"),
        "F3": ("H3", "H5"),
        "F4": ("H6", "H5"),
        "F5": ("H7", "H5"),
    }
    flows = [{"name": name, "from": source, "to": to} for name, (source, to) in pairs.items()]
    got = _rates({**length, "topology": net, "flow": flows})
    for name, share in {"F1": 1 / 6, "F2": 1 / 6, "F3": 1 / 6, "F4": 1 / 3, "F5": 1 / 3}.items():
        yield Check(f"parking lot, share of {name}", share, got[name] / 16, 0.005 * share)

    star = {"kind": "star", "hosts": 7, "link_rate": "16 Gbit/s"}
    one = [{"name": f"F{i}", "from": f"H{i}", "to": "H1"} for i in range(2, 8)]
    got = _rates({**length, "topology": star, "flow": one})
    for name, rate in got.items():
        yield Check(f"star, share of {name}", 1 / 6, rate / 16, 0.005 / 6)

    # F2, F3 and F4 share one output, and X shares none: round robin gives max-min shares.
    paths = {"F2": ("H2", "to H1"), "F3": ("H3", "to H1"), "F4": ("H4", "to H1"), "X": ("H5", "to H6")}
    ends = {"F2": ("H2", "H1"), "F3": ("H3", "H1"), "F4": ("H4", "H1"), "X": ("H5", "H6")}
    fair = max_min(paths, dict.fromkeys({link for path in paths.values() for link in path}, 16.0))
    flows = [{"name": name, "from": source, "to": to} for name, (source, to) in ends.items()]
    got = _rates({**length, "topology": star, "flow": flows})
    for name, rate in fair.items():
        yield Check(f"max-min, rate of {name} (Gbit/s)", rate, got[name], 0.005 * rate)

    if not quick:
        yield from _tree_shares()


def _tree_shares() -> Iterator[Check]:
    """All to one on a 4-ary 3-tree: hosts at the same leaf switch get 1/4 each, and the farthest 1/768."""
    hosts = 64
    flows = [{"name": f"F{i}", "from": f"H{i}", "to": "H1"} for i in range(2, hosts + 1)]
    got = _rates(
        {
            "duration": "400 ms",
            "warmup": "100 ms",
            "topology": {"kind": "k-ary-n-tree", "k": 4, "n": 3, "link_rate": "16 Gbit/s"},
            "measure": {"interval": "100 ms", "links": False},
            "flow": flows,
        }
    )
    levels = {"same leaf": (2, 4, 1 / 4), "same half": (5, 16, 1 / 64), "farthest": (17, hosts, 1 / 768)}
    for name, (first, last, share) in levels.items():
        mean_share = mean(got[f"F{i}"] for i in range(first, last + 1)) / 16
        yield Check(f"4-ary 3-tree, all to one, share of the {name}", share, mean_share, 0.005 * share)


def slow_receivers(*, quick: bool) -> Iterator[Check]:
    """Let a host drain slowly for some time: a buffer that fills at the rate R and drains at r1, then at r2.

    From the start of a slow phase, the buffer contains (R - r1) t bytes until it is full. The time at which
    N bytes have been received follows from what drains in each phase: while the buffer contains data, it
    drains at the rate of the phase, and nothing during a stall; when it is empty, data arrive at R.
    """
    rate, size, total = 100, 1000, 200_000  # Gbit/s, bytes of a packet, bytes in all
    # Start and end of the slow phase in us, its rate and the usual drain rate in Gbit/s.
    phases = [(2, 7, 0, 100), (2, 7, 10, 100), (3, 10, 25, 50)]
    if not quick:
        phases += [(1, 3, 1, 100), (2, 30, 40, 80), (5, 6, 0, 60), (0, 12, 5, 90)]
    for start, end, slow, usual in phases:
        event = {"kind": "drain", "rate": f"{slow} Gbit/s"} if slow else {"kind": "stall"}
        result = run(
            {
                "duration": "100 us",
                "topology": {
                    "kind": "star",
                    "hosts": 2,
                    "link_rate": f"{rate} Gbit/s",
                    "link_delay": "1 ns",
                },
                "packet": {"mtu": f"{size} B"},
                "switch": {"buffer": "1 MiB", "latency": "0 ns"},
                "host": {"buffer": "1 MiB", "drain_rate": f"{usual} Gbit/s"},
                "measure": {"interval": "1 us"},
                "flow": [{"from": "H1", "to": "H2", "message": f"{size} B", "total": f"{total} B"}],
                "event": [{**event, "hosts": ["H2"], "start": f"{start} us", "lasts": f"{end - start} us"}],
            }
        )
        # Gbit/s times us are 125 bytes.
        per_us = 125
        before = min(rate, usual) * start * per_us
        during = min(slow * (end - start) * per_us, total - before)
        law = end + (total - before - during) / (min(rate, usual) * per_us)
        name = f"{start} to {end} us at {slow} of {usual} Gbit/s"
        rows = result.numpy("hosts")
        received = rows["received_bytes"][rows["host"] == "H2"].tolist()
        done = next(at for at in range(len(received)) if sum(received[: at + 1]) == total) + 1
        # Delays of 2 ns, and one packet at the boundary of each phase.
        yield Check(f"slow receiver, {name}, end (us)", law + 0.5, done, 0.5 + 0.1)
        most = max(received[:start] + received[end:], default=0) / per_us
        yield Check(f"slow receiver, {name}, most at the usual rate (Gbit/s)", min(rate, usual), most, 8.0)
        inside = sum(received[start:end]) / per_us / (end - start)
        yield Check(f"slow receiver, {name}, rate in the phase (Gbit/s)", slow, inside, 16 / (end - start))


def round_trips(*, quick: bool) -> Iterator[Check]:
    """Compute the default round trip: delays in both directions, and the lengths of two packets."""
    for uplink_ns in (5_000,) if quick else (5_000, 100, 30):
        scenario = {
            "duration": "1 ms",
            "topology": {
                "kind": "two-level-fat-tree",
                "leaves": 2,
                "spines": 1,
                "hosts_per_leaf": 2,
                "link_rate": "100 Gbit/s",
                "link_delay": "100 ns",
                "uplink_delay": f"{uplink_ns} ns",
            },
            "packet": {"mtu": "1000 B", "header": "48 B", "control": "64 B"},
            "switch": {"latency": "70 ns"},
            "congestion": {"mechanism": "hpcc"},
            "flow": [{"from": "H1", "to": "H3", "message": "1000 B", "total": "1000 B"}],
        }
        trip = silvan.Scenario.from_toml(toml(scenario, top=True)).check()["round_trip"]
        law = 2 * (2 * 100 + 2 * uplink_ns + 3 * 70) + (1048 + 64) * 8 / 100
        yield Check(f"round trip, uplinks of {uplink_ns} ns (ns)", law, trip["shortest_ns"], 0.01)


LAWS = (zero_load, slow_receivers, round_trips, fairness, m_d_1, karol, *queueing.LAWS, *crossbar.LAWS)


def checks(*, quick: bool = False) -> Iterator[Check]:
    """Make all checks. With `quick`, runs are shorter, and some checks are left out."""
    for law in LAWS:
        yield from law(quick=quick)


def report(*, quick: bool = False) -> list[str]:
    """Print all checks as a table, and return a sentence for each that fails."""
    wrong = []
    for check in checks(quick=quick):
        verdict = "ok" if check.passed else "WRONG"
        print(
            f"  {check.name:<58} law {check.law:<12.6g} simulated {check.simulated:<12.6g} "
            f"+- {check.tolerance:<10.3g} {verdict}",
            flush=True,
        )
        if not check.passed:
            wrong.append(f"{check.name}: {check.simulated:.6g} where the law has {check.law:.6g}")
    return wrong
