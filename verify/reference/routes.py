"""Routes that are selected per flow on a tree, from the local state of each switch.

A switch that is not above a flow's destination may use any upward port. A switch above it may use its
downward port, or send sideways to the neighbor on one side. This is the side with more switches left in the
row, or the side toward which the flow already moves. The least loaded port is selected. Of equal ports, a
hash selects one on the way up, and the default port is preferred on the way down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from verify.mixing import drawn
from verify.reading import AdaptiveRouting
from verify.reference.links import Packet
from verify.trees import Place, Tree

if TYPE_CHECKING:
    from verify.reference.network import Network

#: The numbers of the source, of the destination, and of the traffic source at its host.
Key = tuple[int, int, int]


class FlowRoutes:
    """The state of flows at one switch: the load of its ports, and the entries of its inputs."""

    def __init__(self, net: Network, name: str, rule: AdaptiveRouting) -> None:
        tree = net.plan.wiring
        assert isinstance(tree, Tree)
        self.net, self.tree, self.rule = net, tree, rule
        self.number, self.table = tree.switches.index(name), net.plan.tables[name]
        places = {tree.name(place): place for place in tree.places()}
        self.place = places[name]
        self.up, self.left, self.right = list[int](), list[int](), list[int]()
        self.onward: dict[int, list[int]] = {}
        for port, far in tree.neighbours(name):
            self.onward[port] = self.longer_side()
            if far in places:
                self.note_neighbour(port, places[far])
        self.flows: dict[int, int] = {}
        self.bytes: dict[int, int] = {}
        self.entries: dict[int, dict[Key, int]] = {port: {} for port in self.onward}

    def longer_side(self) -> list[int]:
        """Return the ports to the side with more switches left in the row, or to the right if equal."""
        rest = self.tree.row_length(self.place.level) - 1 - self.place.at
        return self.right if rest >= self.place.at else self.left

    def note_neighbour(self, port: int, other: Place) -> None:
        """Record the node to which a port leads."""
        if other.level > self.place.level:
            self.up.append(port)
        elif other.level == self.place.level and other.at > self.place.at:
            self.right.append(port)
            self.onward[port] = self.left
        elif other.level == self.place.level:
            self.left.append(port)
            self.onward[port] = self.right

    def route(self, packet: Packet, port: int) -> int:
        """Return the output of a packet that arrived at a port, and record announcements."""
        default = self.table[packet.destination]
        if packet.kind not in ("data", "set-up", "probe", "tear-down"):
            return default
        number = self.net.number
        key = number[packet.flow.origin], number[packet.destination], packet.flow.source.number
        entries = self.entries[port]
        if packet.kind == "set-up" and key not in entries:
            output = self.choose(key, port, default)
            if output != default:
                entries[key] = output
            self.count(output, 1, packet)
            return output
        output = entries.get(key, default)
        if packet.kind == "tear-down":
            entries.pop(key, None)
            self.count(output, -1, packet)
        return output

    def count(self, output: int, flows: int, packet: Packet) -> None:
        """Count a flow that is set up or torn down."""
        assert packet.announcement
        self.flows[output] = max(self.flows.get(output, 0) + flows, 0)
        self.bytes[output] = max(self.bytes.get(output, 0) + flows * packet.announcement.size, 0)

    def choose(self, key: Key, port: int, default: int) -> int:
        """Return the port over which a flow is set up."""
        is_up = not self.tree.is_above(self.place, key[1])
        others = [other for other in (self.up if is_up else self.onward[port]) if other != default]
        is_full = self.rule.cache is not None and len(self.entries[port]) >= self.rule.cache
        if not others or is_full:
            return default
        best = min(self.measure(other, key) for other in [default, *others])
        ties = [other for other in [default, *others] if self.measure(other, key) == best]
        if ties[0] == default and not is_up:
            return default
        return ties[drawn((self.number, 0, *key)) % len(ties)]

    def measure(self, port: int, key: Key) -> int:
        """Return the load of a port by the heuristic, or a hash with `random`."""
        if self.rule.heuristic == "flow-count":
            return self.flows.get(port, 0)
        return self.bytes.get(port, 0) if self.rule.heuristic == "bytes" else drawn((self.number, port, *key))
