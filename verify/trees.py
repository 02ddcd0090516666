"""k-ary n-trees, plain or with links between neighbors, and their tables by D-mod-K.

A level l has k^(n-1) switches, numbered from left to right. Those that reach the same hosts downward form a
row of k^(l-1) switches. Ports 1 to k lead down, and ports k + 1 to 2k up. Further ports lead to neighbors in
the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from verify.quantities import nothing_left, rate_ps_per_byte, time_ps
from verify.wiring import Link, Wiring


@dataclass(frozen=True)
class Place:
    """The position of a switch: its level (from 1), the number of its row, and its place there (from 0)."""

    level: int
    row: int
    at: int


@dataclass
class Tree(Wiring):
    """A k-ary n-tree."""

    k: int = 2
    n: int = 1

    def name(self, place: Place) -> str:
        """Return the name of a switch."""
        return f"L{place.level}.{place.row * self.row_length(place.level) + place.at + 1}"

    def row_length(self, level: int) -> int:
        """Return the number of switches of a level that reach the same hosts downward."""
        return int(self.k ** (level - 1))

    def places(self) -> list[Place]:
        """Return the positions of all switches, level by level."""
        count = self.k ** (self.n - 1)
        return [
            Place(level, *divmod(number, self.row_length(level)))
            for level in range(1, self.n + 1)
            for number in range(count)
        ]

    def is_above(self, place: Place, host: int) -> bool:
        """Return whether a switch reaches a host downward. Hosts are numbered from 0."""
        return host // int(self.k**place.level) == place.row

    def ways(self) -> dict[str, dict[str, int]]:
        """Return the output port of each switch toward each host, by D-mod-K."""
        tables = {}
        for place in self.places():
            up = self.k + 1 if place.level < self.n else 1
            ports = {}
            for number, host in enumerate(self.hosts):
                down = 1 + number // self.k ** (place.level - 1) % self.k
                climb = up + number // self.row_length(place.level) % self.k
                ports[host] = down if self.is_above(place, number) else climb
            tables[self.name(place)] = ports
        return tables


def tree(topology: Mapping[str, Any]) -> Tree:
    """Read `[topology]` of the kinds k-ary-n-tree and modified-k-ary-n-tree."""
    given = dict(topology)
    kind, k, n = given.pop("kind"), given.pop("k"), given.pop("n")
    width = given.pop("horizontal_width", 2) if kind == "modified-k-ary-n-tree" else 0
    pace = rate_ps_per_byte(given.pop("link_rate", "2 GB/s"))
    delay_ps = time_ps(given.pop("link_delay", "20 ns"))
    nothing_left("topology", given)
    hosts = [f"H{number + 1}" for number in range(k**n)]
    net = Tree(hosts, [], k=k, n=n)
    net.switches = [net.name(place) for place in net.places()]
    net.ports = {net.name(place): k * (2 if place.level < n else 1) for place in net.places()}
    for number, host in enumerate(hosts):
        leaf = net.name(Place(1, number // k, 0))
        net.links.append(Link(((host, 0), (leaf, number % k + 1)), pace, delay_ps))
    for place in net.places():
        for up in range(k if place.level < n else 0):
            parent = Place(place.level + 1, place.row // k, place.at + net.row_length(place.level) * up)
            ends = ((net.name(place), k + 1 + up), (net.name(parent), place.row % k + 1))
            net.links.append(Link(ends, pace, delay_ps))
    for place in net.places():
        if place.at + 1 == net.row_length(place.level):
            continue
        pair = net.name(place), net.name(Place(place.level, place.row, place.at + 1))
        for _ in range(width):
            for name in pair:
                net.ports[name] += 1
            left, right = ((name, net.ports[name]) for name in pair)
            net.links.append(Link((left, right), pace, delay_ps))
    return net
