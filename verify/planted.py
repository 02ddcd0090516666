"""Plants a cause of delay in a random fabric, and checks that `silvan.why` finds it.

``python -m verify.planted [--first SEED] [--count N]``. The exit status is 1 if fewer explanations than
:data:`LEAST` are right.

Each scenario has one message or job that is explained, one planted cause and, in half of the scenarios, quiet
other traffic. The expected cause follows from the scenario: routes come from the forwarding tables, and a
place is where the routes of flows first meet. No recording is used. The checks:

- The first cause has the expected label, place and owners.
- The pieces have no gaps and overlaps from the start to the end, and the causes add up to the delay.
- A run without the cause gains at least 90 % of what is predicted, or parallel causes are reported. It gains
  less if the cause hid another one: a message that is injected slowly does not wait for quiet traffic.

A scenario whose planted cause delays the message by less than a tenth is replaced by another one.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import silvan
from verify.compare import toml

#: Share of the predicted gain that a run without the cause must have.
GAIN = 0.9
#: Share of the time of the owners that planted flows must have.
OWNED = 0.9
#: The least delay, relative to the ideal duration, that a planted cause must have.
NOTICEABLE = 0.1
#: The shares of explanations that must be right.
LEAST = {"is_right": 0.95, "is_exact": 1.0, "keeps_gain": 0.9}
#: Scenarios that are drawn at most for one seed.
MOST_TRIES = 200


@dataclass(frozen=True)
class Planted:
    """A scenario with a planted cause."""

    seed: int
    kind: str
    scenario: dict[str, Any]
    #: The label and the place of the expected first cause. One of several is enough.
    roots: frozenset[tuple[str, str]]
    #: The ends of the flows that own the time, such as `H1->H2`.
    owners: frozenset[str] = frozenset()
    #: The flow or the job that is explained.
    flow: str | None = None
    job: str | None = None


@dataclass
class Fabric:
    """A random fabric, and its routes."""

    rng: random.Random
    spec: dict[str, Any]
    hosts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Find the names of the hosts and the routes."""
        self.routes = _scenario({**self.spec, "duration": "1 us", "flow": [load("", ("H1", "H2"))]}).routes()
        self.hosts = list(self.routes.hosts)
        self._ways: dict[tuple[str, str], list[str]] = {}

    @property
    def rate(self) -> int:
        """The rate of the links in Gbit/s."""
        return int(self.spec["topology"]["link_rate"].split()[0])

    def way(self, source: str, destination: str) -> list[str]:
        """Return the links from a host to another one, for the first traffic source of the host."""
        if (source, destination) not in self._ways:
            ends = [self.hosts.index(host) for host in (source, destination)]
            _, links, _ = self.routes.ways([ends[0]], [ends[1]], [0])
            left = {_ends(self.routes.links[link])[0]: self.routes.links[link] for link in links}
            found, at = [], source
            while at != destination:
                found.append(left[at])
                at = _ends(found[-1])[1]
            self._ways[source, destination] = found
        return self._ways[source, destination]

    def meets(self, victim: tuple[str, str], other: tuple[str, str]) -> str | None:
        """Return the first link that the route of a flow shares with that of another one."""
        own, others = self.way(*victim), set(self.way(*other))
        return next((link for link in own if link in others), None)

    def pair(self) -> tuple[str, str]:
        """Draw two hosts."""
        source, destination = self.rng.sample(self.hosts, 2)
        return source, destination


def _ends(link: str) -> tuple[str, str]:
    """Return the nodes of a link such as `L1.1:5->L2.1:1`."""
    source, destination = (end.partition(":")[0] for end in link.split("->"))
    return source, destination


def _scenario(spec: dict[str, Any]) -> silvan.Scenario:
    return silvan.Scenario.from_toml(toml(spec, top=True))


#: Kinds of fabrics: a star, two levels and three levels.
SHAPES = ("star", "leaf-spine", "fat-tree")
#: Kinds of switches.
SWITCHES: tuple[dict[str, str], ...] = (
    {},
    {"arbitration": "fcfs"},
    {"queues": "single"},
    {"architecture": "cioq"},
    {"architecture": "iq"},
)


def fabric(rng: random.Random, shapes: Sequence[str] = SHAPES, **more: Any) -> Fabric:
    """Draw a fabric whose buffers do not limit the rate of a link."""
    rate, delay_ns = rng.choice([25, 100, 200, 400]), rng.choice([20, 100, 300])
    shape = rng.choice(shapes)
    topology: dict[str, Any] = {"kind": "star", "hosts": rng.randint(4, 12)}
    if shape == "leaf-spine":
        topology = {
            "kind": "two-level-fat-tree",
            "leaves": rng.randint(2, 4),
            "spines": rng.randint(1, 3),
            "hosts_per_leaf": rng.randint(3, 6),
        }
    elif shape == "fat-tree":
        topology = {"kind": "three-level-fat-tree", "radix": 4}
    # The bytes on a link and back, and in a switch, with a packet at each end.
    trip = rate * (2 * delay_ns + 300) // 8 + 4 * 4200
    is_pfc = rng.random() < 0.5
    buffer = trip * rng.choice([3, 4, 8] if is_pfc else [1, 2, 4])
    spec = {
        "seed": rng.randint(1, 10**6),
        "topology": {**topology, "link_rate": f"{rate} Gbit/s", "link_delay": f"{delay_ns} ns"},
        "packet": {
            "mtu": f"{rng.choice([1024, 2048, 4096])} B",
            "header": f"{rng.choice([0, 30, 58])} B",
        },
        "flow_control": {"kind": "pfc" if is_pfc else "credits"},
        "switch": {
            "buffer": f"{buffer} B",
            "forwarding": rng.choice(["cut-through", "store-and-forward"]),
            **rng.choice(SWITCHES),
        },
        "host": {"buffer": f"{4 * trip} B"},
        "measure": {"transfers": True},
        **more,
    }
    return Fabric(rng, spec)


def finished(
    net: Fabric, victim: tuple[str, str], flows: Sequence[dict[str, Any]], *, longest_us: float, **more: Any
) -> dict[str, Any]:
    """Return a scenario with flows and, in half of all cases, quiet traffic of a few other flows.

    `longest_us` is an upper bound of the time until the victim's message is delivered.
    """
    rng, quiet = net.rng, []
    planted = [(str(flow["from"]), str(flow["to"])) for flow in flows]
    # Where the victim meets planted flows, more traffic would make a later link the narrowest one.
    shared = set(net.way(*victim)) & {link for ends in planted if ends != victim for link in net.way(*ends)}
    sources = [host for host in net.hosts if host not in {*victim, *(ends[0] for ends in planted)}]
    rng.shuffle(sources)
    for number, source in enumerate(sources[: rng.randint(1, 4)] if rng.random() < 0.5 else []):
        destination = rng.choice(
            [victim[1], *(host for host in net.hosts if host not in {source, victim[0]})]
        )
        if not shared & set(net.way(source, destination)):
            quiet.append(
                {
                    "name": f"quiet {number}",
                    "from": source,
                    "to": destination,
                    "rate": f"{net.rate * rng.choice([5, 10, 20])} Mbit/s",
                    "arrivals": "poisson",
                    "message": f"{rng.choice([500, 2000, 8000])} B",
                }
            )
    return {**net.spec, "duration": f"{int(longest_us) + 1} us", "flow": [*flows, *quiet], **more}


def message(net: Fabric, ends: tuple[str, str], kilobytes: int, start_us: float = 0.0) -> dict[str, Any]:
    """Return the flow with the message that is explained.

    Its name sorts first, so it is source 0. Without a rate, it would be generated when its host can send.
    """
    size = f"{kilobytes} kB"
    return {
        "name": "a victim",
        "from": ends[0],
        "to": ends[1],
        "message": size,
        "total": size,
        "rate": f"{net.rate} Gbit/s",
        "start": f"{round(start_us * 1000)} ns",
    }


def load(name: str, ends: tuple[str, str], kilobytes: int | None = None) -> dict[str, Any]:
    """Return a flow that sends as fast as it can, unlimited if it has no size."""
    total = {} if kilobytes is None else {"total": f"{kilobytes} kB"}
    return {"name": name, "from": ends[0], "to": ends[1], **total}


def alone_us(net: Fabric, kilobytes: int) -> float:
    """Return about how long a message takes alone, us."""
    return kilobytes * 8 / net.rate * 1.1 + 5


def competitors(
    net: Fabric, victim: tuple[str, str], is_wanted: Callable[[str, tuple[str, str]], bool]
) -> tuple[str, list[tuple[str, str]]] | None:
    """Draw flows of other hosts that meet the victim's flow at one link; None if there are none."""
    others = [host for host in net.hosts if host not in victim]
    found: dict[str, list[tuple[str, str]]] = {}
    for source in others:
        ends = [host for host in [*others, victim[1]] if host != source]
        net.rng.shuffle(ends)
        for destination in ends:
            link = net.meets(victim, (source, destination))
            if link is not None and is_wanted(link, (source, destination)):
                found.setdefault(link, []).append((source, destination))
    if not found:
        return None
    link = net.rng.choice(sorted(found))
    chosen: list[tuple[str, str]] = []
    net.rng.shuffle(found[link])
    most = net.rng.randint(1, 3)
    for ends in found[link]:
        # All have their own source. Competitors for other receivers do not meet there.
        sources, receivers = {one[0] for one in chosen}, {one[1] for one in chosen}
        if (
            len(chosen) < most
            and ends[0] not in sources
            and (ends[1] == victim[1] or ends[1] not in receivers)
        ):
            chosen.append(ends)
    return link, chosen


def competing_flow(rng: random.Random, seed: int) -> Planted | None:
    """Let other flows share the last link, or a link between switches."""
    is_last = rng.random() < 0.5
    net = fabric(rng, SHAPES if is_last else SHAPES[1:])
    victim = net.pair()
    last = net.way(*victim)[-1]

    def is_wanted(link: str, ends: tuple[str, str]) -> bool:
        return link == last if is_last else link != last and ends[1] != victim[1]

    chosen = competitors(net, victim, is_wanted)
    if chosen is None:
        return None
    link, ends = chosen
    size = rng.randint(100, 2000)
    flows = [load(f"load {at}", one, size * rng.randint(1, 3)) for at, one in enumerate(ends)]
    spec = finished(net, victim, [message(net, victim, size), *flows], longest_us=12 * alone_us(net, size))
    return Planted(seed, "competing flow", spec, _root("output-busy", link), _flows(ends), flow="a victim")


def _root(label: str, place: str) -> frozenset[tuple[str, str]]:
    return frozenset({(label, place)})


def _flows(ends: Sequence[tuple[str, str]]) -> frozenset[str]:
    return frozenset(f"{source}->{destination}" for source, destination in ends)


def slow_receiver(rng: random.Random, seed: int) -> Planted:
    """Let the receiver drain slowly, or not at all for some time."""
    net = fabric(rng)
    victim, size = net.pair(), rng.randint(100, 2000)
    alone = alone_us(net, size)
    share = rng.uniform(0.1, 0.7)
    more: dict[str, Any] = {}
    way = rng.choice(["drain", "stall", "key"])
    if way == "drain":
        rate = f"{round(net.rate * share * 1000)} Mbit/s"
        more["event"] = [{"kind": "drain", "hosts": [victim[1]], "rate": rate}]
    elif way == "stall":
        lasts = f"{round(alone * rng.uniform(1, 3)) + 1} us"
        start = f"{round(alone * 300)} ns"
        more["event"] = [{"kind": "stall", "hosts": [victim[1]], "start": start, "lasts": lasts}]
    else:
        more["host"] = {**net.spec["host"], "drain_rate": f"{round(net.rate * share * 1000)} Mbit/s"}
    spec = finished(net, victim, [message(net, victim, size)], longest_us=15 * alone, **more)
    return Planted(seed, "slow receiver", spec, _root("slow-receiver", victim[1]), flow="a victim")


def slow_link(rng: random.Random, seed: int) -> Planted:
    """Take a part of the rate from a link of the route, for the whole run or for some time."""
    net = fabric(rng)
    victim, size = net.pair(), rng.randint(100, 2000)
    alone = alone_us(net, size)
    link = rng.choice(net.way(*victim))
    event = {"kind": "rate", "links": [_port(link)]}
    event["rate"] = f"{round(net.rate * rng.uniform(0.1, 0.6) * 1000)} Mbit/s"
    if rng.random() < 0.5:
        event |= {"start": f"{round(alone * 200)} ns", "lasts": f"{round(alone * rng.uniform(1, 4)) + 1} us"}
    spec = finished(net, victim, [message(net, victim, size)], longest_us=15 * alone, event=[event])
    return Planted(seed, "slow link", spec, _root("slow-link", link), flow="a victim")


def _port(link: str) -> str:
    """Return the name of a link for events: a port, or a host."""
    source, destination = link.split("->")
    return source if ":" in source else destination


def link_down(rng: random.Random, seed: int) -> Planted:
    """Generate the message while the link of the sending host is down. Nothing is lost."""
    net = fabric(rng)
    victim, size = net.pair(), rng.randint(100, 2000)
    alone = alone_us(net, size)
    link = net.way(*victim)[0]
    lasts = alone * rng.uniform(1, 5)
    start = rng.uniform(0, 0.7) * lasts
    event = {"kind": "down", "links": [_port(link)], "lasts": f"{round(lasts)} us"}
    flows = [message(net, victim, size, start)]
    spec = finished(net, victim, flows, longest_us=15 * alone + lasts, event=[event])
    return Planted(seed, "link down", spec, _root("link-down", link), flow="a victim")


def lossy_link(rng: random.Random, seed: int) -> Planted:
    """Lose packets on a link of the route, at random or while it is down. Hosts send them again."""
    net = fabric(rng)
    victim, size = net.pair(), rng.randint(100, 2000)
    alone = alone_us(net, size)
    link = rng.choice(net.way(*victim))
    packets = size * 1000 / int(net.spec["packet"]["mtu"].split()[0])
    event: dict[str, Any] = {"links": [_port(link)]}
    if rng.random() < 0.5:
        event |= {"kind": "errors", "loss_ppb": min(round(4e9 / packets), 200_000_000)}
    else:
        start, lasts = alone * rng.uniform(0.2, 0.6), alone * rng.uniform(0.05, 0.2)
        event |= {"kind": "down", "start": f"{round(start * 1000)} ns", "lasts": f"{round(lasts * 1000)} ns"}
    timeout = round(alone * rng.uniform(0.5, 2)) + 30
    kind = rng.choice(["selective-repeat", "go-back-n"])
    more = {"event": [event], "recovery": {"kind": kind, "timeout": f"{timeout} us"}}
    spec = finished(net, victim, [message(net, victim, size)], longest_us=10 * alone + 40 * timeout, **more)
    # Answers are lost on the same link in the other direction.
    back = "->".join(reversed(link.split("->")))
    roots = {("loss", link), ("loss", back)}
    if event["kind"] == "down" and link == net.way(*victim)[0]:
        # The host keeps its later packets until its link is up, which may take longer than to repeat others.
        roots.add(("link-down", link))
    return Planted(seed, "lossy link", spec, frozenset(roots), flow="a victim")


def small_window(rng: random.Random, seed: int) -> Planted | None:
    """Give the flow a window that is smaller than its rate times its round trip."""
    net = fabric(rng)
    net.spec["topology"]["link_delay"] = f"{rng.choice([500, 1000, 2000])} ns"
    for key in ("switch", "host"):
        net.spec[key]["buffer"] = "4 MiB"
    victim = net.pair()
    reaction = {"kind": "static-window", "packets": 1}
    more = {"congestion": {"notification": "ack-each", "reaction": reaction}}
    flow = message(net, victim, 1)
    trip = _scenario({**net.spec, "duration": "1 us", "flow": [flow], **more}).check()["round_trip"]
    assert trip is not None
    window = int(trip["packets"] * rng.uniform(0.1, 0.6))
    if window < 1:
        return None
    reaction["packets"] = window
    mtu = int(net.spec["packet"]["mtu"].split()[0])
    size = max(100, rng.randint(3, 12) * window * mtu // 1000)
    longest = alone_us(net, size) * 20 + 100
    spec = finished(net, victim, [message(net, victim, size)], longest_us=longest, **more)
    return Planted(seed, "small window", spec, _root("window", victim[0]), flow="a victim")


def slow_injection(rng: random.Random, seed: int) -> Planted:
    """Let the sending host inject slowly."""
    net = fabric(rng)
    victim, size = net.pair(), rng.randint(100, 2000)
    rate = f"{round(net.rate * rng.uniform(0.15, 0.8) * 1000)} Mbit/s"
    more: dict[str, Any] = {"host": {**net.spec["host"], "injection_rate": rate}}
    if rng.random() < 0.5:
        more = {"event": [{"kind": "drain", "hosts": [victim[0]], "rate": rate, "shared": True}]}
    spec = finished(net, victim, [message(net, victim, size)], longest_us=15 * alone_us(net, size), **more)
    return Planted(seed, "slow injection", spec, _root("injection", victim[0]), flow="a victim")


def hash_collision(rng: random.Random, seed: int) -> Planted | None:
    """Choose two flows that are hashed to one link upwards, while another one is idle."""
    net = fabric(rng, SHAPES[1:], ecmp={})
    if net.spec["topology"].get("spines") == 1:
        return None
    victim = net.pair()
    chosen = competitors(net, victim, lambda link, ends: _is_upward(link) and ends[1] != victim[1])
    if chosen is None:
        return None
    link, ends = chosen[0], chosen[1][:1]
    size = rng.randint(100, 2000)
    flows = [message(net, victim, size), load("load", ends[0], size * rng.randint(1, 3))]
    spec = finished(net, victim, flows, longest_us=10 * alone_us(net, size))
    return Planted(seed, "hash collision", spec, _root("hash-collision", link), _flows(ends), flow="a victim")


def _is_upward(link: str) -> bool:
    levels = [node[1] if node.startswith("L") else "0" for node in _ends(link)]
    return "0" < levels[0] < levels[1]


def victim_of_incast(rng: random.Random, seed: int) -> Planted | None:
    """Let a message wait on a link that an incast for another host shares and blocks."""
    net = fabric(rng, SHAPES[1:])
    victim = net.pair()
    receivers = [host for host in net.hosts if host not in victim]
    rng.shuffle(receivers)
    for receiver in receivers:
        sources = [host for host in net.hosts if host not in {*victim, receiver}]
        met = [source for source in sources if _shares(net, victim, (source, receiver))]
        others = [source for source in sources if net.meets(victim, (source, receiver)) is None]
        if met and len(others) >= 2:
            break
    else:
        return None
    rng.shuffle(met)
    rng.shuffle(others)
    senders = [*met[: rng.randint(1, 2)], *others[: rng.randint(2, 6)]]
    size = rng.randint(100, 800)
    ends = [(source, receiver) for source in senders]
    # The flows use the whole rate of each link at which they meet. The last of these limits all others.
    inputs: dict[str, set[str]] = {}
    for one in ends:
        for link, following in itertools.pairwise(net.way(*one)):
            inputs.setdefault(following, set()).add(link)
    # If the incast left its share of the link to the victim, that link would be the root.
    count = sum(source in met for source in senders)
    used = sum(
        math.prod(1 / len(inputs.get(link, "1")) for link in net.way(source, receiver))
        for source in senders
        if source in met
    )
    if used > count / (count + 1) / 2:
        return None
    place = next(link for link in reversed(net.way(*ends[0])) if len(inputs.get(link, ())) > 1)
    start = 10 + 30 * int(net.spec["switch"]["buffer"].split()[0]) * 8 / net.rate / 1000
    flows = [message(net, victim, size, start)]
    flows += [load(f"incast {at}", one) for at, one in enumerate(ends)]
    longest = start + 6 * (len(senders) + 1) * alone_us(net, size)
    spec = finished(net, victim, flows, longest_us=longest)
    return Planted(
        seed, "victim of an incast", spec, _root("output-busy", place), _flows(ends), flow="a victim"
    )


def _shares(net: Fabric, victim: tuple[str, str], other: tuple[str, str]) -> bool:
    """Return whether a flow shares a link between switches with another one."""
    link = net.meets(victim, other)
    return link is not None and all(node.startswith("L") for node in _ends(link))


def late_rank(rng: random.Random, seed: int, folder: Path) -> Planted:
    """Let a rank of a job compute longer than the others, before they exchange data."""
    net = fabric(rng)
    # Pause frames need much more memory for control packets without headers.
    net.spec["packet"]["header"] = "64 B"
    ranks = rng.randint(3, min(8, len(net.hosts)))
    late, usual = rng.randrange(ranks), rng.randint(10_000, 100_000)
    extra = rng.randint(usual // 2, 3 * usual)
    file = folder / f"{seed}.goal"
    # If all messages followed each other on one link, they would take half of the additional time.
    size = min(rng.randint(1, 200) * 1000, max(extra * net.rate // 8 // (4 * ranks * ranks), 100))
    exchange = rng.choice(["ring", "all-to-all", "rounds"])
    file.write_text(program(ranks, exchange, size, [usual + extra * (rank == late) for rank in range(ranks)]))
    hosts = rng.sample(net.hosts, ranks)
    job = {"name": "job", "hosts": hosts, "program": {"kind": "trace", "file": str(file)}}
    longest = (usual + extra) / 1000 * 3 + 4 * ranks * ranks * alone_us(net, size // 1000)
    spec = finished(net, (hosts[0], hosts[1]), [], longest_us=longest, job=[job])
    return Planted(seed, "late rank", spec, _root("compute", f"rank {late} of job"), job="job")


def program(ranks: int, exchange: str, size: int, compute_ns: Sequence[int]) -> str:
    """Return a program in GOAL: ranks compute, and then exchange messages of `size` bytes."""
    lines = [f"num_ranks {ranks}"]
    for rank in range(ranks):
        lines += [f"rank {rank} {{", f"c: calc {compute_ns[rank]}"]
        if exchange == "ring":
            peers = [((rank + 1) % ranks, (rank - 1) % ranks)] * (2 * ranks - 2)
        else:
            peers = [((rank + step) % ranks, (rank - step) % ranks) for step in range(1, ranks)]
        for step, (to, source) in enumerate(peers):
            lines += [
                f"s{step}: send {size}b to {to} tag {step}",
                f"r{step}: recv {size}b from {source} tag {step}",
            ]
            before = f"r{step - 1}" if step and exchange != "all-to-all" else "c"
            lines += [f"s{step} requires {before}", f"r{step} requires {before}"]
        lines.append("}")
    return "\n".join([*lines, ""])


KINDS: dict[str, Callable[..., Planted | None]] = {
    "competing flow": competing_flow,
    "slow receiver": slow_receiver,
    "slow link": slow_link,
    "link down": link_down,
    "lossy link": lossy_link,
    "small window": small_window,
    "slow injection": slow_injection,
    "hash collision": hash_collision,
    "late rank": late_rank,
    "victim of an incast": victim_of_incast,
}


@dataclass
class Verdict:
    """What an explanation of a planted cause got right."""

    planted: Planted
    is_right: bool = False
    is_exact: bool = False
    keeps_gain: bool = False
    text: str = ""

    @property
    def is_good(self) -> bool:
        """Whether all is right."""
        return self.is_right and self.is_exact and self.keeps_gain


def judged(planted: Planted) -> Verdict | None:
    """Explain a scenario, and compare the explanation with the planted cause; None if it delays nothing."""
    result = silvan.run(_scenario(planted.scenario))
    try:
        (found,) = silvan.why(result, flow=planted.flow, job=planted.job, prove=True)
    except silvan.SilvanError as error:
        return Verdict(planted, text=str(error))
    value, proof = found.to_dict(), found.proof
    assert proof is not None
    if value["delay_ps"] < NOTICEABLE * value["ideal_ps"]:
        return None
    verdict = Verdict(planted, text=str(found))
    cause = value["causes"][0]
    owners = {owner["flow"]: owner["ps"] for owner in cause["owners"]}
    own = sum(ps for name, ps in owners.items() if any(end in name for end in planted.owners))
    verdict.is_right = (cause["label"], cause["place"]) in planted.roots and (
        not planted.owners or own >= OWNED * sum(owners.values())
    )
    pieces = found.explanation.pieces
    edges = [value["start_ps"], *(piece.end for piece in pieces)]
    total = value["pipeline_ps"] + sum(one["ps"] for one in value["causes"])
    verdict.is_exact = (
        [piece.start for piece in pieces] == edges[:-1]
        and edges[-1] == value["end_ps"]
        and total == value["delay_ps"] == edges[-1] - edges[0] - value["ideal_ps"]
    )
    first = proof.trials[0] if proof.trials else None
    is_kept = first is not None and first.actual is not None and first.actual >= GAIN * first.predicted
    verdict.keeps_gain = is_kept or len(proof.trials) > 1
    return verdict


def drawn(seed: int, folder: Path) -> Verdict:
    """Judge the first noticeable scenario of a seed. The seed modulo the number of kinds selects the kind."""
    kind = list(KINDS)[seed % len(KINDS)]
    for attempt in range(MOST_TRIES):
        rng = random.Random(f"{seed} {attempt}")
        planted = late_rank(rng, seed, folder) if kind == "late rank" else KINDS[kind](rng, seed)
        if planted is not None and (verdict := judged(planted)) is not None:
            return verdict
    raise RuntimeError(f"no noticeable scenario of the seed {seed}")


def verdicts(first: int, count: int) -> Iterator[Verdict]:
    """Judge the scenarios of seeds."""
    with TemporaryDirectory(prefix="silvan-planted-") as folder:
        for seed in range(first, first + count):
            yield drawn(seed, Path(folder))


def main() -> int:
    """Print a table by kind and the failures, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m verify.planted", description=__doc__)
    parser.add_argument("--first", type=int, default=1, metavar="SEED", help="the first seed (1)")
    parser.add_argument("--count", type=int, default=100, metavar="N", help="number of seeds (100)")
    given = parser.parse_args()
    began = time.perf_counter()
    found = list(verdicts(given.first, given.count))
    print(f"{'planted cause':22}{'drawn':>7}{'right':>7}{'exact':>7}{'gain':>7}")
    for kind in [*KINDS, "all"]:
        rows = [one for one in found if kind in {one.planted.kind, "all"}]
        print(f"{kind:22}{len(rows):7}" + "".join(f"{count(rows, name):7}" for name in LEAST))
    for one in found:
        if not one.is_good:
            planted = one.planted
            wanted = " or ".join(f"{label} at {place}" for label, place in sorted(planted.roots))
            print(f"\nseed {planted.seed}, {planted.kind}: expected {wanted}")
            print(toml(planted.scenario, top=True) + one.text)
    print(f"{time.perf_counter() - began:.0f} s")
    return 0 if all(count(found, name) >= least * len(found) for name, least in LEAST.items()) else 1


def count(found: Sequence[Verdict], name: str) -> int:
    """Count the verdicts that have a property of :data:`LEAST`."""
    return sum(getattr(one, name) for one in found)


if __name__ == "__main__":
    sys.exit(main())
