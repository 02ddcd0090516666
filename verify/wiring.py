"""The wiring of a network, read independently of the simulator, and routes in networks without rings."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import permutations
from typing import Any

from verify.quantities import NotCovered, nothing_left, rate_ps_per_byte, time_ps


@dataclass(frozen=True)
class Link:
    """A full-duplex link between two ports. A host has only port 0, and the ports of switches begin at 1."""

    ends: tuple[tuple[str, int], tuple[str, int]]
    ps_per_byte: Fraction
    delay_ps: int


@dataclass
class Wiring:
    """Hosts and switches by name, the number of ports of switches, and the links between ports."""

    hosts: list[str]
    switches: list[str]
    links: list[Link] = field(default_factory=list)
    ports: dict[str, int] = field(default_factory=dict)
    #: The senders and receivers that exchange traffic. If empty, all hosts do.
    pairs: set[tuple[str, str]] = field(default_factory=set, kw_only=True)

    def host_paces(self) -> set[Fraction]:
        """Return the picoseconds per byte of the hosts' links."""
        return {link.ps_per_byte for link in self.links if any(end[0] in self.hosts for end in link.ends)}

    def sets_of_hosts(self) -> list[set[str]]:
        """Return the groups of hosts that exchange traffic, directly or through others."""
        groups: list[set[str]] = []
        for pair in self.pairs or {(self.hosts[0], host) for host in self.hosts}:
            joined = [group for group in groups if group & set(pair)]
            groups = [group for group in groups if group not in joined] + [set(pair).union(*joined)]
        return groups

    def round_routes(self, group: set[str]) -> Iterator[tuple[list[Link], list[Link]]]:
        """Yield the routes, there and back, of all pairs of a group that exchange traffic."""
        tables = self.ways()
        behind = {end: link for link in self.links for end in link.ends}

        def route(near: str, far: str) -> list[Link]:
            node, port, found = near, 0, []
            while node != far:
                link = behind[node, port]
                found.append(link)
                node = next(name for name, _ in link.ends if name != node)
                if node != far:
                    port = self.output(tables, node, near, far)
            return found

        for near, far in self.pairs or permutations(self.hosts, 2):
            if near in group:
                yield route(near, far), route(far, near)

    def output(self, tables: dict[str, dict[str, int]], switch: str, near: str, far: str) -> int:
        """Return the output of a switch for a pair of hosts."""
        assert near in self.hosts
        return tables[switch][far]

    def home_of(self, host: str) -> str:
        """Return the switch of a host."""
        return self.neighbours(host)[0][1]

    def neighbours(self, node: str) -> list[tuple[int, str]]:
        """Return the ports of a node, in ascending order, and the node at the other end of each."""
        found = []
        for link in self.links:
            for near, far in (link.ends, link.ends[::-1]):
                if near[0] == node:
                    found.append((near[1], far[0]))
        return sorted(found)

    def has_rings(self) -> bool:
        """Return whether the number of links differs from that of a tree."""
        return len(self.links) != len(self.hosts) + len(self.switches) - 1

    def ways(self) -> dict[str, dict[str, int]]:
        """Return the output port of each switch toward each host, in a network without rings.

        `NotCovered` is raised if the network has rings.
        """
        tables: dict[str, dict[str, int]] = {switch: {} for switch in self.switches}
        if self.has_rings():
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
        net = Wiring(hosts, ["S1"], ports={"S1": len(hosts)})
        net.links = [Link(((h, 0), ("S1", i + 1)), pace, delay_ps) for i, h in enumerate(hosts)]
    elif kind == "dumbbell":
        left, right = given.pop("left", 3), given.pop("right", 4)
        trunk = rate_ps_per_byte(given.pop("trunk_rate")) if "trunk_rate" in given else pace / 2
        hosts = [f"H{i + 1}" for i in range(left + right)]
        net = Wiring(hosts, ["S1", "S2"], ports={"S1": left + 1, "S2": right + 1})
        for i, host in enumerate(hosts):
            place = ("S1", i + 1) if i < left else ("S2", i - left + 1)
            net.links.append(Link(((host, 0), place), pace, delay_ps))
        net.links.append(Link((("S1", left + 1), ("S2", right + 1)), trunk, delay_ps))
    elif kind == "custom":
        switches = given.pop("switches")
        net = Wiring(given.pop("hosts"), [switch["name"] for switch in switches])
        for link in given.pop("links"):
            net.links.append(
                Link(
                    (_port(link["from"], net), _port(link["to"], net)),
                    rate_ps_per_byte(link["rate"]) if "rate" in link else pace,
                    time_ps(link["delay"]) if "delay" in link else delay_ps,
                )
            )
        used = [end for link in net.links for end in link.ends]
        for switch in switches:
            most = max(port for name, port in used if name == switch["name"])
            net.ports[switch["name"]] = switch.get("ports", most)
    else:
        raise NotCovered(f"topology.kind = {kind}")
    nothing_left("topology", given)
    return net


def _port(end: str, net: Wiring) -> tuple[str, int]:
    name, colon, port = end.partition(":")
    if name in net.hosts:
        return name, 0
    if not colon:
        raise NotCovered(f"the link's end {end} must name its port")
    return name, int(port)
