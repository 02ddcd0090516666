"""Tori, meshes, HyperX, dragonflies and dragonfly+, and the route of each pair of hosts with its lanes.

Routes are computed link by link from their definitions, without forwarding tables. Lanes are derived from the
whole route.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Any

from verify.mixing import drawn
from verify.quantities import NotCovered, nothing_left, rate_ps_per_byte, size_bytes, time_ps
from verify.wiring import Link, Wiring

GRIDS = ("torus", "mesh", "hyperx")
GROUPS = ("dragonfly", "dragonfly-plus")


@dataclass
class Way:
    """A route: its service level, and at each switch the next neighbor or host and the lane."""

    level: int
    steps: dict[str, tuple[str, int]]


@dataclass
class Direct(Wiring):
    """A network in which each pair of hosts has its own route."""

    #: The ports of each switch that lead to each neighbor.
    port_to: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    home: dict[str, str] = field(default_factory=dict)
    routing: str = ""
    draw: int = 0
    #: Advantage of minimal routes over detours if packets choose between them, in bytes times links.
    bias: int = 0
    _ways: dict[tuple[str, str, int | None], Way] = field(default_factory=dict)

    def join(self, near: str, far: str, like: Link) -> None:
        """Join two switches by their next free ports, or a host with a switch."""
        ends = []
        for name in (near, far):
            if name in self.hosts:
                ends.append((name, 0))
                continue
            self.ports[name] = self.ports.get(name, 0) + 1
            ends.append((name, self.ports[name]))
        self.join_at(ends[0], ends[1], like)

    def join_at(self, near: tuple[str, int], far: tuple[str, int], like: Link) -> None:
        """Join two ports."""
        self.links.append(Link((near, far), like.ps_per_byte, like.delay_ps))
        for (name, port), (other, _) in ((near, far), (far, near)):
            self.port_to.setdefault(name, {}).setdefault(other, []).append(port)

    def way(self, source: str, destination: str, over: int | None = None) -> Way:
        """Return the route of a pair of hosts, or the detour of its packets over the group `over`."""
        which = source, destination, over
        if which not in self._ways:
            self._ways[which] = self.walk(source, destination, over)
        return self._ways[which]

    def hop(self, switch: str, source: str, destination: str, over: int | None = None) -> tuple[int, int]:
        """Return the port by which a switch sends from one host to another, and the lane.

        `over` is the group of the detour, or `None` if the packet takes none.
        """
        following, lane = self.way(source, destination, over).steps[switch]
        return self.port(switch, following, destination), lane

    def port(self, switch: str, following: str, destination: str) -> int:
        """Return the port by which a switch sends to a neighbor packets for a host."""
        assert destination in self.home
        return self.port_to[switch][following][0]

    def ways(self) -> dict[str, dict[str, int]]:
        """Return the output of each switch toward each host, on routes that do not depend on the sender."""
        tables: dict[str, dict[str, int]] = {switch: {} for switch in self.switches}
        for switch, host in product(self.switches, self.hosts):
            following = host if self.home[host] == switch else self.following(switch, host)
            tables[switch][host] = self.port(switch, following, host)
        return tables

    def output(self, tables: dict[str, dict[str, int]], switch: str, near: str, far: str) -> int:
        """Return the output of a switch on the route of a pair of hosts."""
        assert switch in tables
        return self.hop(switch, near, far)[0]

    @abstractmethod
    def following(self, switch: str, destination: str) -> str:
        """Return the next switch on the route to a host of another switch, regardless of the sender."""

    @abstractmethod
    def walk(self, source: str, destination: str, over: int | None) -> Way:
        """Return the route of a pair of hosts, over the group `over` if it is not `None`."""


@dataclass
class Grid(Direct):
    """Switches in rows in one or more dimensions: rings, lines or full meshes."""

    sizes: tuple[int, ...] = ()
    kind: str = "torus"
    place: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def walk(self, source: str, destination: str, over: int | None) -> Way:
        """Return the route from the source's switch. There are no groups, so `over` is ignored."""
        return self.walk_from(self.home[source], destination)

    def following(self, switch: str, destination: str) -> str:
        """Return the next switch toward a host at another switch."""
        return self.walk_from(switch, destination).steps[switch][0]

    def walk_from(self, start: str, destination: str) -> Way:
        """Return the route from a switch to a host, dimension by dimension.

        `NotCovered` is raised unless the routing is in dimension order.
        """
        if self.routing != "dimension-order":
            raise NotCovered(f"routing.kind = {self.routing} on a {self.kind}")
        at, end = list(self.place[start]), self.place[self.home[destination]]
        level, bit, steps = 0, 0, dict[str, tuple[str, int]]()
        for dimension, size in enumerate(self.sizes):
            stations = [at[dimension], *self.stations(at[dimension], end[dimension], size)]
            crosses = any(abs(far - near) > 1 for near, far in pairwise(stations))
            has_dateline = self.kind == "torus" and size >= 5
            lane = int(has_dateline and crosses)
            level |= lane << bit
            bit += has_dateline
            for station in stations[1:]:
                here = grid_name(at)
                at[dimension] = station
                steps[here] = grid_name(at), lane
        steps[grid_name(at)] = destination, 0
        return Way(level, steps)

    def stations(self, near: int, far: int, size: int) -> list[int]:
        """Return the coordinates after `near` up to `far`, in the order of the route."""
        if near == far:
            return []
        if self.kind == "hyperx":
            return [far]
        straight = line(near, far)
        if self.kind == "mesh" or size == 2:
            return straight
        over = list(range(near + 1, size)) + list(range(far + 1))
        if far > near:
            over = list(range(near - 1, -1, -1)) + list(range(size - 1, far - 1, -1))
        if len(over) != len(straight):
            return min(over, straight, key=len)
        rises = straight if far > near else over
        return rises if near % 2 == 0 else (over if rises is straight else straight)


def line(near: int, far: int) -> list[int]:
    """Return the coordinates after `near` up to `far` in a straight line."""
    return list(range(near + 1, far + 1)) if far > near else list(range(near - 1, far - 1, -1))


def grid_name(place: list[int] | tuple[int, ...]) -> str:
    """Return the name of a switch."""
    return "S" + ".".join(map(str, place))


def grid(given: dict[str, Any], like: Link) -> Grid:
    """Wire a torus, mesh or HyperX."""
    kind, sizes, each = given.pop("kind"), tuple(given.pop("sizes")), given.pop("hosts_per_switch", 1)
    places = [tuple(reversed(place)) for place in product(*(range(size) for size in reversed(sizes)))]
    net = Grid([f"H{n + 1}" for n in range(each * len(places))], [grid_name(p) for p in places])
    net.sizes, net.kind = sizes, kind
    net.place = dict(zip(net.switches, places, strict=True))
    for number, host in enumerate(net.hosts):
        net.home[host] = net.switches[number // each]
        net.join(host, net.home[host], like)
    first = each
    for dimension, size in enumerate(sizes):
        wide = size - 1 if kind == "hyperx" else 2
        for place, name in zip(places, net.switches, strict=True):
            net.ports[name] = first + wide
            row = [grid_name((*place[:dimension], at, *place[dimension + 1 :])) for at in range(size)]
            at = place[dimension]
            if kind == "hyperx":
                for other in range(at + 1, size):
                    net.join_at((name, first + other), (row[other], first + 1 + at), like)
            elif at + 1 < size or (kind == "torus" and size > 2):
                net.join_at((name, first + 1), (row[(at + 1) % size], first + 2), like)
        first += wide
    return net


@dataclass
class Groups(Direct):
    """Groups of switches: each switch connected to all others of its group, or leaves and spines."""

    leaves: int | None = None
    groups: list[list[str]] = field(default_factory=list)
    #: The two ends of each link between groups, by the two groups.
    gates: dict[tuple[int, int], list[tuple[str, str]]] = field(default_factory=dict)

    def group(self, switch: str) -> int:
        """Return the number of a switch's group."""
        return next(number for number, group in enumerate(self.groups) if switch in group)

    def port(self, switch: str, following: str, destination: str) -> int:
        """Return a port; among several links between two switches, the destination selects one."""
        ports = self.port_to[switch][following]
        if len(ports) == 1:
            return ports[0]
        own = [gate for gate in self.gates[self.group(switch), self.group(following)] if gate[0] == switch]
        chosen = self.hosts.index(destination) % len(own)
        return ports[[gate[1] == following for gate in own[: chosen + 1]].count(True) - 1]

    def ends(self, source: str, destination: str) -> tuple[int, int]:
        """Return the groups of two hosts."""
        return self.group(self.home[source]), self.group(self.home[destination])

    def between(self, source: str, destination: str) -> list[int]:
        """Return the groups over which a route of two hosts may go: none if these are in one group."""
        ends = self.ends(source, destination)
        return [] if ends[0] == ends[1] else [n for n in range(len(self.groups)) if n not in ends]

    def walk(self, source: str, destination: str, over: int | None) -> Way:
        """Return the route over the group `over`, or the minimal route if it is `None`.

        With Valiant routing, the pair of hosts and the setting `draw` determine the group instead.
        """
        start, target = self.home[source], self.home[destination]
        ends, between = self.ends(source, destination), self.between(source, destination)
        if self.routing == "valiant" and between:
            pair = self.draw, self.hosts.index(source), self.hosts.index(destination)
            over = between[drawn(pair) % len(between)]
        legs = [ends[1]] if over is None else [over, ends[1]]
        links = self.links_over(start, legs, destination)
        lanes = self.lanes_of(links, ends)
        # If detours have lanes and the hosts are in different groups, the link to the host has the last lane.
        # Otherwise, it has lane 0.
        last = 0
        if ends[0] != ends[1] and self.has_lanes_of_detours():
            last = 2 if self.leaves is None else 1
        steps = {near: (far, lane) for (near, far), lane in zip(links, lanes, strict=True)}
        return Way(0, {**steps, target: (destination, last)})

    def following(self, switch: str, destination: str) -> str:
        """Return the next switch toward a host at another switch, on a minimal route."""
        legs = [self.group(self.home[destination])]
        return self.links_over(switch, legs, destination)[0][1]

    def links_over(self, at: str, legs: list[int], destination: str) -> list[tuple[str, str]]:
        """Return the links from a switch over some groups; the last group is that of the destination."""
        number, target = self.hosts.index(destination), self.home[destination]
        links = list[tuple[str, str]]()
        for leg in legs:
            while self.group(at) != leg:
                links.append((at, self.towards(at, leg, number)))
                at = links[-1][1]
        while at != target:
            joined = target in self.port_to[at]
            links.append((at, target if joined else self.groups[legs[-1]][self.spine(number)]))
            at = links[-1][1]
        return links

    def spine(self, number: int) -> int:
        """Return the index of the spine by which leaves send to host `number` of their group."""
        assert self.leaves is not None
        return self.leaves + number % (len(self.groups[0]) - self.leaves)

    def towards(self, at: str, group: int, number: int) -> str:
        """Return the next switch to another group. The destination `number` selects among several."""
        gates = self.gates[self.group(at), group]
        own = [far for near, far in gates if near == at]
        if own:
            return own[number % len(own)]
        gate = gates[number % len(gates)][0]
        if gate in self.port_to[at]:
            return gate
        assert self.leaves is not None
        return self.groups[self.group(at)][number % self.leaves]

    def lanes_of(self, links: list[tuple[str, str]], ends: tuple[int, int]) -> list[int]:
        """Return the lane of each link of a route: it increases where a cycle could close."""
        lanes, lane, crossed = [], 0, False
        is_over_others = self.has_lanes_of_detours() and ends[0] != ends[1]
        for near, far in links:
            is_last = self.group(near) == ends[1]
            if self.leaves is not None:
                # Routes that go up and down twice use two lanes, and other routes use one.
                is_again = crossed and (is_last or not self.is_leaf(far))
                lane = max(lane, int(is_over_others and is_again))
            elif is_over_others and is_last:
                lane = 2
            lanes.append(lane)
            if self.group(near) != self.group(far):
                crossed = True
                lane += self.leaves is None
        return lanes

    def has_lanes_of_detours(self) -> bool:
        """Return whether packets use the lanes of routes over other groups, also on minimal routes."""
        return self.routing in ("valiant", "ugal")

    def is_leaf(self, switch: str) -> bool:
        """Return whether a switch is a leaf."""
        return self.leaves is not None and switch in self.groups[self.group(switch)][: self.leaves]


def groups(given: dict[str, Any], like: Link) -> Groups:
    """Wire a dragonfly or dragonfly+."""
    kind, each, global_each = given.pop("kind"), given.pop("p"), given.pop("h")
    leaves = given.pop("leaves") if kind == "dragonfly-plus" else None
    with_global = given.pop("a") if leaves is None else given.pop("spines")
    size = with_global + (leaves or 0)
    count = given.pop("g", with_global * global_each + 1)
    long = given.pop("global_delay", None)
    far_like = like if long is None else Link(like.ends, like.ps_per_byte, time_ps(long))
    names = [[f"G{group}.{place}" for place in range(size)] for group in range(count)]
    net = Groups([], [name for group in names for name in group])
    net.leaves, net.groups = leaves, names
    for switch in [switch for group in names for switch in group[: leaves or size]]:
        for _ in range(each):
            host = f"H{len(net.hosts) + 1}"
            net.hosts.append(host)
            net.home[host] = switch
            net.join(host, switch, like)
    for group in names:
        pairs = [(near, far) for n, near in enumerate(group) for far in group[n + 1 :]]
        if leaves is not None:
            pairs = [(leaf, spine) for leaf in group[:leaves] for spine in group[leaves:]]
        for near, far in pairs:
            net.join(near, far, like)
    others = {one: sorted(set(range(count)) - {one}) for one in range(count)}
    if given.pop("arrangement", "absolute") == "relative":
        others = {one: [(one + n) % count for n in range(1, count)] for one in range(count)}
    join_groups(net, others, (with_global, global_each), far_like)
    return net


def join_groups(net: Groups, others: Mapping[int, list[int]], numbers: tuple[int, int], like: Link) -> None:
    """Join each pair of groups by links between their global ports.

    The global ports of a group lead to `others` in that order, repeatedly. Ports after the last complete
    round are not used. `numbers` are how many of a group's last switches have global ports, and how many such
    ports each of them has.
    """
    switches, each = numbers
    used = {switch: net.ports.get(switch, 0) for switch in net.switches}

    def end(near: int, far: int, turn: int) -> tuple[str, int]:
        number = turn * len(others[near]) + others[near].index(far)
        switch = net.groups[near][len(net.groups[near]) - switches + number // each]
        return switch, used[switch] + 1 + number % each

    for turn in range(switches * each // len(others[0])):
        for one in others:
            for other in range(one + 1, len(others)):
                ends = end(one, other, turn), end(other, one, turn)
                net.join_at(*ends, like)
                net.gates.setdefault((one, other), []).append((ends[0][0], ends[1][0]))
                net.gates.setdefault((other, one), []).append((ends[1][0], ends[0][0]))
    for group in net.groups:
        for switch in group[len(group) - switches :]:
            net.ports[switch] = used[switch] + each


def direct(topology: Mapping[str, Any], routing: Mapping[str, Any] | None) -> Direct:
    """Read `[topology]` and `[routing]` of direct networks."""
    given, rule = dict(topology), dict(routing or {})
    like = Link(
        (("", 0), ("", 0)),
        rate_ps_per_byte(given.pop("link_rate", "2 GB/s")),
        time_ps(given.pop("link_delay", "20 ns")),
    )
    is_grid = given["kind"] in GRIDS
    net: Direct = grid(given, like) if is_grid else groups(given, like)
    nothing_left("topology", given)
    net.routing = rule.pop("kind", "dimension-order" if is_grid else "minimal")
    net.draw = rule.pop("draw", 0)
    net.bias = size_bytes(rule.pop("bias", "0 B"))
    nothing_left("routing", rule)
    return net
