"""Adaptive routing per packet: the least loaded of the ports that lead nearer to the destination.

The load of a port is the sum of the bytes that wait for it in the switch and the bytes in use of the next
node's buffer on the packet's lane. Loads are compared in grades. A hash selects one of several equal ports.

With UGAL-L, the first switch of a packet compares the loads of two routes, each multiplied by the number of
its links.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from verify.direct import Groups
from verify.mixing import drawn
from verify.reading import PacketRouting
from verify.reference.links import Packet

if TYPE_CHECKING:
    from verify.reference.switches import Switch


class Choices:
    """The choices of one switch among ports."""

    def __init__(self, switch: Switch, rule: PacketRouting) -> None:
        self.switch, self.rule = switch, rule
        self.groups = rule.groups[switch.name]
        #: The number of choices so far.
        self.count = 0

    def output(self, packet: Packet) -> int:
        """Return the output of a packet: that of the table, or a random one of the least loaded ports."""
        group = self.groups[packet.destination]
        if not self.is_free(packet, group):
            return self.switch.table[packet.destination]
        grades = {
            port: self.load(port, packet.lane) // self.rule.grade
            for port in group
            if port not in self.switch.avoided
        }
        best = [port for port, grade in grades.items() if grade == min(grades.values())]
        words = self.switch.net.plan.seed & 0xFFFFFFFF, self.switch.number, self.count
        self.count = (self.count + 1) % 2**32
        return best[drawn(words) % len(best)] if best else self.switch.table[packet.destination]

    def is_free(self, packet: Packet, group: tuple[int, ...]) -> bool:
        """Return whether a packet is routed adaptively here."""
        may_choose = not packet.is_control and packet.flow.level in self.rule.levels
        return may_choose and len(group) > 1 and not packet.is_pinned and not self.keeps(packet)

    def keeps(self, packet: Packet) -> bool:
        """Return whether a packet takes the table's port because its destination is isolated here."""
        return "isolated" in self.rule.pinned and self.switch.isolates(packet)

    def load(self, port: int, lane: int) -> int:
        """Return the load of a port for packets of a lane, in bytes."""
        return load_of(self.switch, port, lane)


class Detours:
    """The choices of one switch between minimal routes and those over a random group."""

    def __init__(self, switch: Switch, wiring: Groups) -> None:
        self.switch, self.wiring = switch, wiring
        #: The number of random groups so far.
        self.count = 0

    def group(self, packet: Packet) -> int | None:
        """Draw a group for the detour of a local host's packet; return `None` for the minimal route."""
        between = self.wiring.between(*packet.flow.ends)
        if not between:
            return None
        words = self.switch.net.plan.seed & 0xFFFFFFFF, self.switch.number, self.count
        self.count = (self.count + 1) % 2**32
        over = between[drawn(words) % len(between)]
        is_minimal = self.cost(packet, None) <= self.cost(packet, over) + self.wiring.bias
        return None if is_minimal else over

    def cost(self, packet: Packet, over: int | None) -> int:
        """Return the load of a route's first port, multiplied by the number of links between switches."""
        source, destination = packet.flow.ends
        port, lane = self.wiring.hop(self.switch.name, source, destination, over)
        # A route has one link between switches for each of its switches except the last.
        links = len(self.wiring.way(source, destination, over).steps) - 1
        return load_of(self.switch, port, lane) * links


def load_of(switch: Switch, port: int, lane: int) -> int:
    """Return the load of a port of a switch for packets of a lane, in bytes."""
    return switch.waits_for(port) + switch.out[port].used(lane)
