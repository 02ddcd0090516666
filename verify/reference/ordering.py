"""The order of a flow's packets at its receiver, if they may overtake each other."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from verify.reference.links import Packet


@dataclass
class Reordering:
    """Counts over all receivers: packets, time in picoseconds, and bytes of payload.

    `released` counts the packets that were held and then delivered, and `waited_ps` is the sum of their
    waits.
    """

    late: int = 0
    held: int = 0
    released: int = 0
    waited_ps: int = 0
    most_bytes: int = 0


class Order:
    """The state of the flows that one host receives."""

    def __init__(self, tally: Reordering, *, accepts: bool = False) -> None:
        self.tally, self.accepts = tally, accepts
        #: For each flow, the number of the packet that is delivered next, and the highest drained number.
        self.next: dict[Hashable, int] = {}
        self.highest: dict[Hashable, int] = {}
        #: The numbers of packets that were delivered before earlier ones.
        self.early: set[tuple[Hashable, int]] = set()
        #: Packets that wait for earlier ones, and the times at which they were drained.
        self.held: dict[tuple[Hashable, int], tuple[Packet, int]] = {}

    def drained(self, packet: Packet, now: int) -> list[Packet]:
        """Record a drained packet, and return the packets that can be delivered now, in order."""
        highest = self.highest.get(packet.flow, -1)
        self.tally.late += packet.number < highest
        self.highest[packet.flow] = max(highest, packet.number)
        wanted = self.next.get(packet.flow, 0)
        if packet.number != wanted and self.accepts and not packet.ends_message:
            self.early.add((packet.flow, packet.number))
            return [packet]
        if packet.number != wanted:
            self.held[packet.flow, packet.number] = packet, now
            self.tally.held += 1
            held_bytes = sum(other.payload for other, _ in self.held.values())
            self.tally.most_bytes = max(self.tally.most_bytes, held_bytes)
            return []
        found = [packet]
        following = packet.flow, wanted + 1
        while following in self.held or following in self.early:
            if following in self.held:
                other, since = self.held.pop(following)
                self.tally.released += 1
                self.tally.waited_ps += now - since
                found.append(other)
            self.early.discard(following)
            following = packet.flow, following[1] + 1
        self.next[packet.flow] = following[1]
        return found
