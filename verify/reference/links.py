"""Packets, and the links that carry them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from verify.reference.announcing import Announcement
    from verify.reference.hosts import Flow
    from verify.reference.isolation import Notice
    from verify.reference.network import Network


@dataclass(frozen=True)
class Report:
    """The report of a switch to the source of a packet that it marks."""

    flow: Flow
    severity: int


@dataclass(frozen=True)
class Hop:
    """What a switch writes into a packet: time, bytes sent by its output, bytes that wait, ps per byte."""

    time: int
    sent: int
    queue: int
    pace: Fraction


@dataclass(eq=False)
class Packet:
    """A packet; sizes in bytes. A control packet has no payload and belongs to a flow too.

    It is an `answer` (which carries a BECN if it answers a marked packet, not if it merely
    acknowledges a message), a `request` of credit or a `grant`, a `set-up`, `probe` or `tear-down` of a
    flow, or the `reply` to one.
    """

    flow: Flow
    destination: str
    payload: int
    size: int
    space: int
    lane: int
    ends_message: bool = False
    #: The number of the packet within its flow, and whether it takes the route of the tables.
    number: int = 0
    is_pinned: bool = False
    #: The group of its detour, if its first switch selected one.
    over: int | None = None
    kind: str = "data"
    announcement: Announcement | None = None
    fecn: bool = False
    becn: bool = False
    severity: int = 0
    validated: bool = False
    created: int = 0
    injected: int = 0
    #: What switches wrote into it, and the data packet that it answers.
    hops: tuple[Hop, ...] = ()
    answers: Packet | None = None
    #: Up to where its flow is to be granted credit; in a grant, up to where it is.
    target: int = 0
    #: The value that switches hash in addition to the fields of the flow.
    entropy: int = 0
    #: The packet's position: the lane on which it arrived, its output port, and when its tail can be read.
    came: int = 0
    output: int = 0
    tail_in: int = 0

    @property
    def is_control(self) -> bool:
        """Whether it has no payload."""
        return self.kind != "data"

    @property
    def follows_data(self) -> bool:
        """Whether it must not overtake the data of its flow."""
        return self.kind in ("data", "tear-down")


class Node(Protocol):
    """The node at one end of a link."""

    def comes(self, packet: Packet, port: int, head: int, tail: int) -> None:
        """Receive the head of a packet."""

    def part(self, packet: Packet) -> Hashable:
        """Return the region of the buffer that a packet is stored in."""

    def part_size(self) -> int:
        """Return the bytes of each region."""

    def fixed_parts(self) -> Iterable[int]:
        """Return the regions that exist from the start."""

    def notice(self, port: int, notice: Notice) -> None:
        """Take a notification about a line of the node at the other end."""

    def report(self, port: int, report: Report) -> None:
        """Take a report: for this host, or to be forwarded."""

    def wake(self, port: int, time: int) -> None:
        """Try to send from a port at this time at the latest."""

    def credit_is_back(self, port: int) -> None:
        """Try to send from a port now: the credit that a packet waits for is there."""


class Channel:
    """One direction of a link: packets in this direction, credit of their lane (and region) in the other."""

    def __init__(self, net: Network, pace: Fraction, delay: int, ends: tuple[Node, int, Node, int]) -> None:
        self.net, self.pace, self.delay = net, pace, delay
        self.sender, self.sender_port, self.receiver, self.port = ends
        #: When the link is free again, and the bytes of all packets and notifications sent.
        self.free_at = self.bytes = 0
        #: Credit of each lane and region; that of destinations is created at the first use.
        self.parts: defaultdict[tuple[int, Hashable], int] = defaultdict(self.receiver.part_size)
        for lane in range(net.plan.lanes.count):
            for part in self.receiver.fixed_parts():
                self.parts[lane, part] = self.receiver.part_size()
        #: Credit on its way back, and the credit that the sender waits for.
        self.returning: defaultdict[tuple[int, Hashable], list[tuple[int, int]]] = defaultdict(list)
        self.wanted: dict[tuple[int, Hashable], int] = {}
        #: When that credit will have returned, as far as is known.
        self.ready: dict[tuple[int, Hashable], int] = {}

    def span(self, size: int) -> int:
        """Return how long a packet of this size is on the wire at one place."""
        return -floor(-size * self.pace)

    def where(self, packet: Packet) -> tuple[int, Hashable]:
        """Return the lane and region whose credit a packet needs."""
        return packet.lane, self.receiver.part(packet)

    def credit(self, packet: Packet) -> int:
        """Return the credit that there is for packets like this one."""
        return self.parts[self.where(packet)]

    def best_credit(self, lane: int) -> int:
        """Return the maximum credit for some packet of a lane."""
        known = [credit for (of, _), credit in self.parts.items() if of == lane]
        return max(known, default=self.receiver.part_size())

    def used(self, lane: int) -> int:
        """Return how much of a lane's buffer is in use, in all its regions."""
        size = self.receiver.part_size()
        return sum(size - credit for (of, _), credit in self.parts.items() if of == lane)

    def can_take(self, packet: Packet) -> bool:
        """Tell whether the link is free and the receiver has room for the whole packet."""
        return self.free_at <= self.net.now and self.credit(packet) >= packet.space

    def has_credit_or_wait(self, packet: Packet) -> bool:
        """Return whether there is credit; if not, the sender is woken when there is."""
        where = self.where(packet)
        if self.parts[where] >= packet.space:
            return True
        wanted = self.wanted.get(where, packet.space)
        # A sender that got its credit has been notified, and waits for other credit.
        self.wanted[where] = packet.space if wanted <= self.parts[where] else min(wanted, packet.space)
        self._wake_sender(where)
        return False

    def _wake_sender(self, where: tuple[int, Hashable]) -> None:
        """Schedule a wake-up of the sender when the credit that it waits for is back, if it is on its way."""
        credit = self.parts[where]
        if credit >= self.wanted[where]:
            return
        for time, space in sorted(self.returning[where], key=lambda entry: entry[0]):
            credit += space
            if credit >= self.wanted[where]:
                if self.ready.get(where) != time:
                    self.ready[where] = time
                    self.net.at(time, lambda: self._tell_sender(where))
                return

    def _tell_sender(self, where: tuple[int, Hashable]) -> None:
        """Wake the sender if it still waits for this credit."""
        if where in self.wanted and self.ready.get(where) == self.net.now:
            del self.ready[where]
            self.sender.credit_is_back(self.sender_port)

    def send(self, packet: Packet) -> int:
        """Start to send; return when the tail has left."""
        assert self.can_take(packet)
        now, where = self.net.now, self.where(packet)
        self.parts[where] -= packet.space
        self.wanted.pop(where, None)
        self.free_at = now + self.span(packet.size)
        self.net.hops += 1
        self.bytes += packet.size
        self.net.at(self.free_at)
        self.receiver.comes(packet, self.port, head=now + self.delay, tail=self.free_at + self.delay)
        return self.free_at

    def notify(self, notice: Notice, size: int) -> None:
        """Send a notification to the node at the far end."""
        self._signal(size, 0, lambda: self.receiver.notice(self.port, notice))

    def send_report(self, report: Report, size: int, latency: int) -> None:
        """Send a report; a switch that forwards it has it after a latency."""
        self._signal(size, latency, lambda: self.receiver.report(self.port, report))

    def _signal(self, size: int, latency: int, comes: Callable[[], None]) -> None:
        """Send a message that needs no credit, before any packet that has not started."""
        self.free_at = max(self.free_at, self.net.now) + self.span(size)
        self.bytes += size
        self.net.at(self.free_at + self.delay + latency, comes, rank=(3, self.port))
        self.net.at(self.free_at)

    def free(self, packet: Packet, time: int, lane: int) -> None:
        """Return a credit of a lane: the receiver frees the packet's space at a time."""
        where, entry = (lane, self.receiver.part(packet)), (time + self.delay, packet.space)

        def back() -> None:
            self.returning[where].remove(entry)
            self.parts[where] += packet.space

        self.returning[where].append(entry)
        if where in self.wanted:
            self._wake_sender(where)
        # A packet that arrives at the same instant finds the port with this credit.
        self.net.at(time + self.delay, back, rank=(0, 0))
