"""Completion of flows on the fat tree of HPCC's evaluation: Hadoop's flow sizes, with and without incast."""

import math
from itertools import pairwise
from random import Random

import numpy as np

from silvan.papers import figures

TABLES = ()

SCENARIO = "fat.toml"
#: Sizes of flows in bytes, and the percentage of flows of at most this size (FbHdp_distribution.txt).
SIZES = (
    (0, 0), (100, 1), (200, 2), (300, 5), (350, 15), (400, 20), (500, 30), (600, 40), (700, 50), (1000, 60),
    (2000, 67), (7000, 70), (30_000, 72), (50_000, 82), (80_000, 87), (120_000, 90), (300_000, 95),
    (1_000_000, 97.5), (2_000_000, 99), (10_000_000, 100),
)  # fmt: skip
#: Number of groups of 64 hosts. The publication has five. Routes within a leaf or a group are shorter than
#: routes between groups.
PODS = 2
HOSTS, LEAVES = 64 * PODS, 4 * PODS
RATE = 100e9
#: Bytes of headers of a packet, and of its largest payload.
HEADER, PAYLOAD = 48, 1000
#: Delays of a link and of a switch, in ns.
LINK_NS, SWITCH_NS = 1000, 17
#: Time in ms during which flows start. The run is 3 ms longer, for flows to end.
MS = 3.0

#: Offered loads as shares of the rate of all hosts: of the flows of the distribution, and of incasts of 60
#: hosts.
CASES = {"a": (0.30, 0.02), "c": (0.50, 0.0)}
INCAST, INCAST_BYTES = 60, 500_000
#: Number of draws of flows, in full and in quick runs.
DRAWS, QUICK_DRAWS = 5, 1

RED = {"kind": "red", "min": "400 kB", "max": "1600 kB", "percent": 20}
#: `dcqcn`, `dcqcn_paper` and `hp` of the simulator's run.py. Receivers answer each packet.
CONTROLS = {
    "dcqcn": {"marking": RED, "reaction": {"kind": "dcqcn", "set": "tuned"}},
    "dcqcn_paper": {"marking": RED, "reaction": {"kind": "dcqcn", "set": "paper"}},
    "hpcc": {"marking": {"kind": "telemetry"}, "reaction": {"kind": "hpcc", "max_stage": 0}},
}


def draws(quick):
    return range(1, 1 + (QUICK_DRAWS if quick else DRAWS))


def size(random):
    """Draw the size of a flow, in bytes."""
    percent = random.random() * 100
    for (less, below), (more, upto) in pairwise(SIZES):
        if percent <= upto:
            return max(1, int(less + (more - less) * (percent - below) / (upto - below)))
    return SIZES[-1][0]


def mean_size():
    return sum((less + more) / 2 * (upto - below) / 100 for (less, below), (more, upto) in pairwise(SIZES))


def drawn(case, draw):
    """Draw flows: start in ns, source, destination, bytes, and whether the flow is part of an incast."""
    load, incast = CASES[case]
    random = Random(draw)
    flows = []
    between_ns = mean_size() * 8 / (RATE * load) * 1e9
    for source in range(HOSTS):
        at = random.expovariate(1 / between_ns)
        while at < MS * 1e6:
            other = random.randrange(HOSTS - 1)
            flows.append((int(at), source, other + (other >= source), size(random), False))
            at += random.expovariate(1 / between_ns)
    if incast:
        between_ns = INCAST * INCAST_BYTES * 8 / (RATE * HOSTS * incast) * 1e9
        at = between_ns / 2
        while at < MS * 1e6:
            target, *sources = random.sample(range(HOSTS), INCAST + 1)
            flows += [(int(at), source, target, INCAST_BYTES, True) for source in sources]
            at += between_ns
    return flows


def network():
    """Return the topology of fat.txt with fewer groups.

    Each group has four leaves and four switches above them.
    """
    hosts = [f"H{n + 1}" for n in range(HOSTS)]
    above = LEAVES // PODS
    links = [{"from": host, "to": f"T{n * LEAVES // HOSTS}"} for n, host in enumerate(hosts)]
    for leaf in range(LEAVES):
        for n in range(above):
            links.append({"from": f"T{leaf}", "to": f"A{leaf // above * above + n}", "rate": "400 Gbit/s"})
    for middle in range(LEAVES):
        for n in range(4):
            links.append({"from": f"A{middle}", "to": f"C{middle % above * 4 + n}", "rate": "400 Gbit/s"})
    levels = (("T", LEAVES), ("A", LEAVES), ("C", 16))
    switches = [{"name": f"{level}{n}"} for level, count in levels for n in range(count)]
    rates = {"link_rate": "100 Gbit/s", "link_delay": "1 us"}
    return {"kind": "custom", "hosts": hosts, "switches": switches, "links": links, **rates}


def links_between(source, target):
    """Return the number of links on a shortest route."""
    leaf, other = (host * LEAVES // HOSTS for host in (source, target))
    if leaf == other:
        return 2
    return 4 if leaf * PODS // LEAVES == other * PODS // LEAVES else 6


def named(flow, number):
    at, source, target, count, _ = flow
    ends = {"from": f"H{source + 1}", "to": f"H{target + 1}"}
    return {"name": f"F{number}", **ends, "start": f"{at} ns", "message": f"{count} B", "total": f"{count} B"}


def runs(quick):
    time = f"{MS + 3:g} ms"
    found = {}
    for case in CASES:
        for draw in draws(quick):
            flows = [named(flow, n) for n, flow in enumerate(drawn(case, draw))]
            parts = {"topology": network(), "flow": flows, "duration": time, "measure.interval": time}
            for name, control in CONTROLS.items():
                # Each draw also has its own hash functions in switches.
                own = {"seed": draw, "congestion": {"notification": "ack-each", **control}}
                found[f"{case} {draw} {name}"] = (SCENARIO, parts | own)
    return found


def slowdowns(run, case, draw):
    """Return the size and the slowdown of each flow of the distribution, ordered by size.

    As in the publication, a flow ends when its last acknowledgement is back at its source host, and its
    slowdown is relative to the time of its bytes on an empty network. A slowdown is at least 1, and infinite
    for a flow that has not ended.
    """
    found = []
    for (start, source, target, count, incast), flow in zip(
        drawn(case, draw), run.summary["flows"], strict=True
    ):
        if incast:
            continue
        links = links_between(source, target)
        back = links * LINK_NS
        way = back + (links - 1) * SWITCH_NS
        wire = (count + math.ceil(count / PAYLOAD) * HEADER) * 8 / RATE * 1e9
        ended = flow["completed_ns"]
        took = math.inf if ended is None else ended - start + back
        found.append((count, max(1.0, took / (way + wire + back))))
    return sorted(found)


def groups(run, case, draw):
    """Return the largest size and the 95th percentile of the slowdown of 20 equal groups, ordered by size."""
    ordered = slowdowns(run, case, draw)
    bounds = [n * len(ordered) // 20 for n in range(21)]
    parts = [ordered[start:end] for start, end in pairwise(bounds)]
    return [(part[-1][0], sorted(slow for _, slow in part)[int(0.95 * len(part))]) for part in parts]


def tails(results):
    """Return the result of :func:`groups` for each case, draw and control."""
    return {
        (case, draw, name): groups(results[f"{case} {draw} {name}"], case, draw)
        for case in CASES
        for draw in draws(results.quick)
        for name in CONTROLS
    }


def compare(results):
    found = {}
    tail = tails(results)
    largest = {key: max(slow for _, slow in each) for key, each in tail.items()}
    for case in CASES:
        of = {name: [largest[case, draw, name] for draw in draws(results.quick)] for name in CONTROLS}
        found[f"{case}_dcqcn"] = found[f"{case}_users"] = float(np.median(of["dcqcn"]))
        found[f"{case}_paper"] = float(np.median(of["dcqcn_paper"]))
        found[f"{case}_order"] = min(
            dcqcn / hpcc for dcqcn, hpcc in zip(of["dcqcn"], of["hpcc"], strict=True)
        )
        found[f"{case}_spread"] = max(of["dcqcn"]) / min(of["dcqcn"])
    found["reduction"] = max(
        1 - hpcc[1] / dcqcn[1]
        for draw in draws(results.quick)
        for hpcc, dcqcn in zip(tail["a", draw, "hpcc"], tail["a", draw, "dcqcn"], strict=True)
    )
    return found


def plot(results, out):
    fig, axes = figures.figure(2, 1)
    tail = tails(results)
    for ax, case in zip(axes, CASES, strict=True):
        for name, colour in zip(CONTROLS, figures.COLOURS, strict=False):
            for draw in draws(results.quick):
                slow = [each for _, each in tail[case, draw, name]]
                label = name if draw == 1 else None
                ax.plot(range(len(slow)), slow, color=colour, linewidth=1, alpha=0.7, label=label)
        sizes = [count for count, _ in tail[case, 1, "hpcc"]]
        ax.set(yscale="log", xlabel="size of flows, kB", title=f"figure 11 ({case})", xticks=range(0, 20, 4))
        ax.set_xticklabels([f"{count / 1e3:.2g}" for count in sizes[::4]])
    axes[0].set_ylabel("95th percentile of the slowdown")
    axes[1].legend(frameon=False, loc="upper left")
    figures.save(fig, out, "U3")
