"""Custom networks with rings or `[routing]`: tables of shortest routes, or of routes up and down from roots.

Destinations are distributed among equally good ports: each goes to the port with the fewest destinations so
far, and to the first of several such ports. Only destinations count whose packets pass the switch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from verify.quantities import NotCovered, nothing_left
from verify.wiring import Wiring

#: A port and the switch at its far end.
Edge = tuple[int, str]


@dataclass
class Searched(Wiring):
    """A network with the routing from which its tables follow: `up-down` or `shortest-path`."""

    routing: str = "up-down"
    roots: tuple[str, ...] = ()

    def ways(self) -> dict[str, dict[str, int]]:
        """Return the output port of each switch toward each host."""
        edges = {switch: self.edges(switch) for switch in self.switches}
        homes = {host: self.home_of(host) for host in self.hosts}
        rank = self.ranks(edges, set(homes.values()))
        tables: dict[str, dict[str, int]] = {switch: {} for switch in self.switches}
        loads: dict[tuple[str, int], int] = {}
        for home in [switch for switch in self.switches if switch in homes.values()]:
            if self.routing == "shortest-path":
                cost = distances(edges, [home])
                good = {
                    near: [edge for edge in edges[near] if cost[edge[1]] < cost[near]]
                    for near in self.switches
                }
            else:
                cost, good = up_and_down(edges, home, rank)
            for host in [host for host in self.hosts if homes[host] == home]:
                passed = set(homes.values())
                for switch in sorted(self.switches, key=lambda s: (-cost[s], self.switches.index(s))):
                    if switch == home:
                        tables[switch][host] = next(p for p, far in self.neighbours(switch) if far == host)
                        continue
                    port, far = min(good[switch], key=lambda edge: loads.get((switch, edge[0]), 0))
                    tables[switch][host] = port
                    if switch in passed:
                        loads[switch, port] = loads.get((switch, port), 0) + 1
                        passed.add(far)
        return tables

    def edges(self, switch: str) -> list[Edge]:
        """Return the ports of a switch that lead to other switches, with these switches."""
        return [(port, far) for port, far in self.neighbours(switch) if far in self.switches]

    def ranks(self, edges: Mapping[str, list[Edge]], homes: set[str]) -> dict[str, tuple[int, int]]:
        """Return the rank of each switch. Ranks increase with the distance from the roots."""
        levels = distances(edges, list(self.roots) or [self.central(edges, homes)])
        return {switch: (levels[switch], number) for number, switch in enumerate(self.switches)}

    def central(self, edges: Mapping[str, list[Edge]], homes: set[str]) -> str:
        """Return the switch with the shortest distance to its farthest host."""
        farthest = {s: max(distances(edges, [s])[home] for home in homes) for s in self.switches}
        return min(self.switches, key=lambda switch: farthest[switch])

    def with_root(self, scenario: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the scenario with this model's root, if it names none and has up-down routing.

        The comparison does not include the selection of roots, which tests of the simulator compare with
        OpenSM's tables.
        """
        if self.routing != "up-down" or self.roots:
            return scenario
        edges = {switch: self.edges(switch) for switch in self.switches}
        root = self.central(edges, {self.home_of(host) for host in self.hosts})
        rule = {**(scenario.get("routing") or {}), "kind": "up-down", "root": [root]}
        return {**scenario, "routing": rule}


def distances(
    edges: Mapping[str, list[Edge]], start: list[str], allow: Callable[[str, str], bool] = lambda *_: True
) -> dict[str, int]:
    """Return the hops from the nearest of some switches to each switch that allowed hops reach."""
    found, front = dict.fromkeys(start, 0), deque(start)
    while front:
        near = front.popleft()
        for _, far in edges[near]:
            if far not in found and allow(near, far):
                found[far] = found[near] + 1
                front.append(far)
    return found


def up_and_down(
    edges: Mapping[str, list[Edge]], home: str, rank: Mapping[str, tuple[int, int]]
) -> tuple[dict[str, int], dict[str, list[Edge]]]:
    """Return the hops of each switch to a switch, and the ports that lead there.

    If only downward links lead from a switch to `home`, its route goes down. Any other route goes up, on the
    shortest way to such a switch. `NotCovered` is raised if there is no such way.
    """
    down = distances(edges, [home], lambda near, far: rank[far] < rank[near])
    cost, good = dict(down), dict[str, list[Edge]]()
    for switch in sorted(edges, key=lambda switch: rank[switch]):
        if switch in down:
            below = [edge for edge in edges[switch] if rank[edge[1]] > rank[switch]]
            good[switch] = [edge for edge in below if down.get(edge[1]) == down[switch] - 1]
            continue
        above = [edge for edge in edges[switch] if rank[edge[1]] < rank[switch]]
        reaching = [edge for edge in above if edge[1] in cost]
        if not reaching:
            raise NotCovered(f"routing.root: no way goes up from {switch} and down to {home}")
        cost[switch] = 1 + min(cost[far] for _, far in reaching)
        good[switch] = [edge for edge in reaching if cost[edge[1]] == cost[switch] - 1]
    return cost, good


def searched(net: Wiring, routing: Mapping[str, Any] | None) -> Searched:
    """Read `[routing]` of a custom network."""
    rule = dict(routing or {})
    kind, roots = rule.pop("kind", "up-down"), rule.pop("root", [])
    if kind not in ("up-down", "shortest-path"):
        raise NotCovered(f"routing.kind = {kind} on a custom network")
    nothing_left("routing", rule)
    tops = (roots,) if isinstance(roots, str) else tuple(roots)
    return Searched(net.hosts, net.switches, net.links, net.ports, kind, tops)
