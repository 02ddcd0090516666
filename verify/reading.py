"""What a scenario says, read a second time: quantities, defaults, wiring, routes.

Takes a scenario as the nested dict that its TOML text stands for. Only what the reference model
covers is read; anything else is refused, so that no scenario is compared on half of its keys.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

PS = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12}
PREFIX = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


class NotCovered(ValueError):  # noqa: N818 - it is not an error of the scenario
    """The scenario uses something that the reference model does not have."""


def time_ps(text: str) -> int:
    """Read a time in whole picoseconds."""
    number, unit = _split(text)
    return _whole(number * PS[unit], text)


def size_bytes(text: str) -> int:
    """Read a size in whole bytes."""
    number, unit = _split(text)
    return _whole(number * PREFIX[unit.removesuffix("B")], text)


def rate_ps_per_byte(text: str) -> Fraction:
    """Read a data rate, as the exact picoseconds that a byte takes."""
    number, unit = _split(text)
    prefix, per = re.fullmatch(r"(.*?)(bit|B)/s", unit).groups()  # type: ignore[union-attr]
    bits = number * PREFIX[prefix] * (8 if per == "B" else 1)
    return Fraction(8 * 10**12) / bits


def _split(text: str) -> tuple[Fraction, str]:
    number, unit = text.split()
    return Fraction(number), unit


def _whole(value: Fraction, text: str) -> int:
    if value.denominator != 1:
        raise ValueError(f"{text} is not whole in the smallest unit")
    return int(value)


@dataclass(frozen=True)
class Link:
    """A full-duplex link between two ports; a host has port 0 only, switches count from 1."""

    ends: tuple[tuple[str, int], tuple[str, int]]
    ps_per_byte: Fraction
    delay_ps: int


@dataclass
class Wiring:
    """Hosts and switches by name, and the links between their ports."""

    hosts: list[str]
    switches: list[str]
    links: list[Link] = field(default_factory=list)

    def neighbours(self, node: str) -> list[tuple[int, str]]:
        """Return the ports of a node with the node behind each."""
        found = []
        for link in self.links:
            for near, far in (link.ends, link.ends[::-1]):
                if near[0] == node:
                    found.append((near[1], far[0]))
        return sorted(found)

    def ways(self) -> dict[str, dict[str, int]]:
        """Return the output port of each switch towards each host, in a network without rings."""
        tables: dict[str, dict[str, int]] = {switch: {} for switch in self.switches}
        if len(self.links) != len(self.hosts) + len(self.switches) - 1:
            raise NotCovered("the network has rings: give the tables")
        for host in self.hosts:
            seen, front = {host}, deque([host])
            while front:
                near = front.popleft()
                for _, node in self.neighbours(near):
                    if node in seen:
                        continue
                    seen.add(node)
                    front.append(node)
                    if node in tables:
                        tables[node][host] = next(p for p, far in self.neighbours(node) if far == near)
        return tables


def wiring(topology: Mapping[str, Any]) -> Wiring:
    """Read `[topology]` of the kinds star, dumbbell and custom."""
    given = dict(topology)
    kind = given.pop("kind")
    rate = given.pop("link_rate", "2 GB/s")
    delay = given.pop("link_delay", "20 ns")
    pace, delay_ps = rate_ps_per_byte(rate), time_ps(delay)
    if kind == "star":
        hosts = [f"H{i + 1}" for i in range(given.pop("hosts", 7))]
        net = Wiring(hosts, ["S1"])
        net.links = [Link(((h, 0), ("S1", i + 1)), pace, delay_ps) for i, h in enumerate(hosts)]
    elif kind == "dumbbell":
        left, right = given.pop("left", 3), given.pop("right", 4)
        trunk = rate_ps_per_byte(given.pop("trunk_rate")) if "trunk_rate" in given else pace / 2
        hosts = [f"H{i + 1}" for i in range(left + right)]
        net = Wiring(hosts, ["S1", "S2"])
        for i, host in enumerate(hosts):
            place = ("S1", i + 1) if i < left else ("S2", i - left + 1)
            net.links.append(Link(((host, 0), place), pace, delay_ps))
        net.links.append(Link((("S1", left + 1), ("S2", right + 1)), trunk, delay_ps))
    elif kind == "custom":
        net = Wiring(given.pop("hosts"), [switch["name"] for switch in given.pop("switches")])
        for link in given.pop("links"):
            net.links.append(
                Link(
                    (_port(link["from"], net), _port(link["to"], net)),
                    rate_ps_per_byte(link["rate"]) if "rate" in link else pace,
                    time_ps(link["delay"]) if "delay" in link else delay_ps,
                )
            )
    else:
        raise NotCovered(f"topology.kind = {kind}")
    _nothing_left("topology", given)
    return net


def _port(end: str, net: Wiring) -> tuple[str, int]:
    name, colon, port = end.partition(":")
    if name in net.hosts:
        return name, 0
    if not colon:
        raise NotCovered(f"the link's end {end} must name its port")
    return name, int(port)


@dataclass(frozen=True)
class FlowPlan:
    """A flow: who sends what to whom, when. `interval_ps` is none for a saturating flow."""

    name: str
    source: str
    destination: str
    start_ps: int
    stop_ps: int | None
    message: int
    interval_ps: Fraction | None
    total: int | None
    level: int


@dataclass(frozen=True)
class Marking:
    """A switch's congestion manager: thresholds in bytes, see the scenario's keys."""

    upper: int
    lower: int
    fill: str
    every: int
    smallest: int
    victim_mask: str


@dataclass(frozen=True)
class Reaction:
    """A host's reaction: picoseconds between two full packets per index, and its bounds.

    Each flow has an index, or all flows of a service level share one.
    """

    increase: int
    limit: int
    lowest: int
    delays_ps: tuple[int, ...]
    is_per_level: bool


@dataclass(frozen=True)
class Lanes:
    """Virtual lanes: how many, that of each service level, that of control packets if they have one."""

    count: int
    of_level: tuple[int, ...]
    control: int | None


@dataclass(frozen=True)
class Plan:
    """All that the reference model needs. Sizes in bytes, times in picoseconds.

    The buffers are those of a lane; with `acknowledged`, messages are.
    """

    wiring: Wiring
    tables: dict[str, dict[str, int]]
    duration_ps: int
    interval_ps: int
    mtu: int
    header: int
    control: int
    block: int
    lanes: Lanes
    switch_buffer: int
    switch_latency_ps: int
    host_buffer: int
    injection: Fraction | None
    drain: Fraction | None
    message_overhead_ps: int
    marking: Marking | None
    reaction: Reaction | None
    acknowledged: bool
    flows: tuple[FlowPlan, ...]


def plan(scenario: Mapping[str, Any]) -> Plan:
    """Read a scenario."""
    given: dict[str, Any] = {
        key: dict(value) if isinstance(value, Mapping) else value for key, value in scenario.items()
    }
    for key in ("name", "seed"):
        given.pop(key, None)
    net = wiring(given.pop("topology"))
    packet, switch, host = (given.pop(key, {}) for key in ("packet", "switch", "host"))
    mtu, header = (size_bytes(packet.pop(key, by)) for key, by in (("mtu", "2048 B"), ("header", "0 B")))
    block = size_bytes(packet.pop("credit_block", "64 B"))
    control = size_bytes(packet.pop("control", "64 B"))
    lanes = _lanes(given.pop("lanes", {}))
    buffer = _share(switch.pop("buffer", "128 KiB"), block, lanes)
    flows = tuple(_flow(flow, mtu) for flow in given.pop("flow", []))
    marking, reaction, acknowledged = _congestion(given.pop("congestion", {}), buffer, mtu + header, net)
    measure = given.pop("measure", {})
    found = Plan(
        wiring=net,
        tables=net.ways(),
        duration_ps=time_ps(given.pop("duration")),
        interval_ps=time_ps(measure.pop("interval", "1 ms")),
        mtu=mtu,
        header=header,
        control=control,
        block=block,
        lanes=lanes,
        switch_buffer=buffer,
        switch_latency_ps=time_ps(switch.pop("latency", "100 ns")),
        host_buffer=_share(host.pop("buffer", "64 KiB"), block, lanes),
        injection=_rate_or_none(host, "injection_rate"),
        drain=_rate_or_none(host, "drain_rate"),
        message_overhead_ps=time_ps(host.pop("message_overhead", "0 ps")),
        marking=marking,
        reaction=reaction,
        acknowledged=acknowledged,
        flows=flows,
    )
    for place, table in (("packet", packet), ("switch", switch), ("host", host), ("measure", measure)):
        _nothing_left(place, table)
    _nothing_left("scenario", given)
    return found


def _lanes(lanes: Mapping[str, Any]) -> Lanes:
    given = dict(lanes)
    count = given.pop("count", 1)
    of_level = tuple(given.pop("sl_to_vl", [level % count for level in range(16)]))
    found = Lanes(count, of_level, given.pop("control", None))
    _nothing_left("lanes", given)
    return found


def _share(text: str, block: int, lanes: Lanes) -> int:
    """Read a buffer and return a lane's share of it, in whole blocks."""
    return size_bytes(text) // lanes.count // block * block


def _rate_or_none(table: dict[str, Any], key: str) -> Fraction | None:
    return rate_ps_per_byte(table.pop(key)) if key in table else None


def _flow(flow: Mapping[str, Any], mtu: int) -> FlowPlan:
    given = dict(flow)
    source, destination = given.pop("from"), given.pop("to")
    message = size_bytes(given.pop("message")) if "message" in given else mtu
    found = FlowPlan(
        name=given.pop("name", f"{source}->{destination}"),
        source=source,
        destination=destination,
        start_ps=time_ps(given.pop("start", "0 ps")),
        stop_ps=time_ps(given.pop("stop")) if "stop" in given else None,
        message=message,
        interval_ps=message * rate_ps_per_byte(given.pop("rate")) if "rate" in given else None,
        total=size_bytes(given.pop("total")) if "total" in given else None,
        level=given.pop("sl", 0),
    )
    _nothing_left("flow", given)
    return found


def _congestion(
    congestion: Mapping[str, Any], buffer: int, full: int, net: Wiring
) -> tuple[Marking | None, Reaction | None, bool]:
    given = dict(congestion)
    mechanism = given.pop("mechanism", None)
    if mechanism == "none" or (mechanism is None and not given):
        return None, None, False
    if mechanism is None:
        raise NotCovered("parts without a mechanism")
    acknowledged = given.pop("notification", "cnp") == "ack"
    marking, reaction = _marking(given.pop("marking", {}), buffer), None
    if (parts := dict(given.pop("reaction", {}))).get("kind") != "none":
        reaction = _reaction(parts, full, net)
    _nothing_left("congestion", given)
    return marking, reaction, acknowledged


def _marking(marking: Mapping[str, Any], buffer: int) -> Marking:
    given = dict(marking)
    given.pop("kind", None)
    if given.pop("pattern", "random") != "regular":
        raise NotCovered("marking at random")
    threshold = given.pop("threshold", 15)
    upper = buffer * (16 - threshold) // 16
    if "upper" in given:
        upper = size_bytes(given.pop("upper"))
    lower = max(upper - size_bytes(given.pop("hysteresis")), 0)
    if "lower" in given:
        lower = size_bytes(given.pop("lower"))
    found = Marking(
        upper=upper,
        lower=lower,
        fill=given.pop("fill", "sum"),
        every=given.pop("marking_rate", 1) + 1,
        smallest=64 * given.pop("packet_size", 8),
        victim_mask=given.pop("victim_mask", "hosts"),
    )
    _nothing_left("congestion.marking", given)
    return found


def _reaction(reaction: Mapping[str, Any], full: int, net: Wiring) -> Reaction:
    given = dict(reaction)
    given.pop("kind", None)
    if given.pop("ccti_timer") < 10**9:
        raise NotCovered("a timer that expires: its phase is drawn at random")
    table = dict(given.pop("table"))
    kind = table.pop("kind")
    if kind == "list":
        delays = [1000 * ns for ns in table.pop("delays_ns")]
    elif kind == "quadratic":
        scale, divisor = table.pop("scale"), table.pop("divisor")
        delays = [scale * i * i * 7 * 10**6 // divisor**2 for i in range(table.pop("entries"))]
    elif kind == "iba":
        paces = {link.ps_per_byte for link in net.links if link.ends[0][0] in net.hosts}
        if len(paces) != 1:
            raise NotCovered("an IBA table with hosts of several rates")
        span = -(-full * paces.pop() // 1)
        delays = [int(span * (entry & 0x3FFF) // 2 ** (entry >> 14)) for entry in table.pop("entries")]
    else:
        raise NotCovered(f"table kind {kind}")
    found = Reaction(
        increase=given.pop("ccti_increase", 1),
        limit=given.pop("ccti_limit", 127),
        lowest=given.pop("ccti_min", 0),
        delays_ps=tuple(delays),
        is_per_level=given.pop("level", "qp") == "sl",
    )
    _nothing_left("congestion.reaction", given | table)
    return found


def _nothing_left(place: str, given: Mapping[str, Any]) -> None:
    if given:
        raise NotCovered(f"{place}: {', '.join(given)}")
