"""Packets, and the links that carry them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING, Protocol

from verify.reading import UNLIMITED
from verify.reference.faults import NEVER
from verify.reference.retrying import Retry
from verify.reference.streams import Stream

if TYPE_CHECKING:
    from verify.reference.announcing import Announcement
    from verify.reference.faults import Fault
    from verify.reference.hosts import Flow
    from verify.reference.isolation import Notice
    from verify.reference.network import Network
    from verify.reference.pausing import Pausing


@dataclass(frozen=True)
class Report:
    """The report of a switch to the source of a packet that it marks."""

    flow: Flow
    severity: int


@dataclass(frozen=True)
class Hop:
    """Telemetry of a switch: time, bytes sent by its output, bytes that wait, ps per byte."""

    time: int
    sent: int
    queue: int
    pace: Fraction


@dataclass(eq=False)
class Packet:
    """A packet; sizes in bytes. A control packet has no payload and belongs to a flow too.

    It is an `answer` (which carries a BECN if it answers a marked packet, not if it merely
    acknowledges a message), a `request` of credit or a `grant`, a `set-up`, `probe` or `tear-down` of a
    flow, or the `reply` to one; or the `header` of a data packet whose payload was lost, or the `nack` that
    answers that; or the `receipt` of a data packet.
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
    #: Telemetry that the packet has collected, and the data packet that it answers.
    hops: tuple[Hop, ...] = ()
    answers: Packet | None = None
    #: In an acknowledgement, the bytes that it covers.
    covers: int = 0
    #: In an acknowledgement of several packets: their bytes on the wire, and how long the last one waited.
    covered_size: int = 0
    waited: int = 0
    #: Whether the source of a data packet requests an acknowledgement.
    asks: bool = False
    #: Up to where its flow is to be granted credit; in a grant, up to where it is.
    target: int = 0
    #: The value that switches hash in addition to the fields of the flow.
    entropy: int = 0
    #: The packet's position: the lane on which it arrived, its output port, and when its tail can be read.
    came: int = 0
    output: int = 0
    tail_in: int = 0
    #: Whether its payload was lost at the output to its receiver; for data, whether it is sent again.
    at_last: bool = False
    is_again: bool = False

    @property
    def is_control(self) -> bool:
        """Whether the packet has no payload."""
        return self.kind != "data"

    @property
    def follows_data(self) -> bool:
        """Whether the packet must not overtake the data of its flow."""
        return self.kind in ("data", "tear-down")


class Node(Protocol):
    """The node at one end of a link."""

    name: str

    def channel_owner(self, port: int) -> int:
        """Return the number from which the random streams of the link out of a port are derived."""

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

    def link_was_used(self, port: int) -> None:
        """Note that something other than a packet of a queue occupies the link of a port."""


class Channel:
    """One direction of a link: packets in this direction, credit of their lane (and region) in the other."""

    def __init__(self, net: Network, pace: Fraction, delay: int, ends: tuple[Node, int, Node, int]) -> None:
        self.net, self.pace, self.delay = net, pace, delay
        #: The pace without changes, by which switches are configured.
        self.usual_pace = pace
        self.sender, self.sender_port, self.receiver, self.port = ends
        plan, owner = net.plan, self.sender.channel_owner(self.sender_port)
        #: The first time at which the receiver returns credits, and the period.
        self.spacing, self.phase = plan.return_spacing_ps, 0
        if self.spacing:
            self.phase = Stream(plan.seed, "credit returns", owner).below(self.spacing)
        self.retry = Retry(self, plan.retry, owner) if plan.retry else None
        #: Present if the link changes during the run.
        self.fault: Fault | None = None
        #: Present if the receiver sends pause frames. Then, credits have no limit.
        self.pausing: Pausing | None = None
        #: The maximum that a lane can use, and the credits that lanes share.
        self.capacity = UNLIMITED if plan.pfc else self.receiver.part_size()
        self.reserve = self.pool = 0
        if plan.shared:
            self.reserve = plan.shared.reserve
            self.pool = (self.capacity - self.reserve) * plan.lanes.count
            self.capacity = self.reserve + self.pool
        #: The time at which the link is free again, and the bytes of all packets and notifications sent.
        self.free_at = self.bytes = 0
        #: Credit of each lane and region; the region of a destination is created at its first use.
        self.parts: defaultdict[tuple[int, Hashable], int] = defaultdict(lambda: self.capacity)
        for lane in range(net.plan.lanes.count):
            for part in self.receiver.fixed_parts():
                self.parts[lane, part] = self.capacity
        #: Credit on its way back, and the credit that the sender waits for.
        self.returning: defaultdict[tuple[int, Hashable], list[tuple[int, int]]] = defaultdict(list)
        self.wanted: dict[tuple[int, Hashable], int] = {}
        #: The time at which the credit that a sender waits for will have returned, if it is known.
        self.ready: dict[tuple[int, Hashable], int] = {}

    @property
    def name(self) -> str:
        """The names of both ends, with the ports of switches."""
        ends = ((self.sender, self.sender_port), (self.receiver, self.port))
        return "->".join(f"{node.name}:{port}" if port else node.name for node, port in ends)

    def span(self, size: int) -> int:
        """Return how long a packet of this size is on the wire at one place."""
        return -floor(-size * self.pace)

    def sent_by(self, time: int) -> int:
        """Return the bytes sent by a time, including the part of a packet that has left."""
        if self.free_at >= NEVER:
            return self.bytes
        return self.bytes - max(ceil((self.free_at - time) / self.pace), 0)

    def where(self, packet: Packet) -> tuple[int, Hashable]:
        """Return the lane and region whose credit a packet needs."""
        return packet.lane, self.receiver.part(packet)

    def must_wait(self, where: tuple[int, Hashable], space: int) -> bool:
        """Return whether a packet of a lane, a region and this space must wait."""
        if self.pausing:
            return self.pausing.is_paused(where[0])
        if self.retry and not self.retry.is_open:
            return True
        return self.parts[where] < space or not self.shares(where[0], space)

    def shares(self, lane: int, space: int) -> bool:
        """Return whether a lane may use this much more of its reserve, or of what all lanes share."""
        rule = self.net.plan.shared
        if rule is None:
            return True
        beyond = [max(self.used(of) - self.reserve, 0) for of in range(self.net.plan.lanes.count)]
        free = self.pool - sum(beyond)
        wanted = max(self.used(lane) + space - self.reserve, 0)
        limit = self.pool if rule.limit is None else rule.limit
        if rule.alpha_shift is not None:
            limit = floor(Fraction(free) / Fraction(2) ** rule.alpha_shift)
        return wanted == beyond[lane] or (wanted - beyond[lane] <= free and wanted <= limit)

    def has_some_credit(self, lane: int, space: int) -> bool:
        """Return whether some packet of a lane and of this space may start."""
        known = [part for of, part in self.parts if of == lane]
        if not known:
            return not (self.retry and not self.retry.is_open) and self.capacity >= space
        return any(not self.must_wait((lane, part), space) for part in known)

    def used(self, lane: int) -> int:
        """Return how much of a lane's buffer is in use, in all its regions."""
        return sum(self.capacity - credit for (of, _), credit in self.parts.items() if of == lane)

    def can_take(self, packet: Packet) -> bool:
        """Return whether the link is free and the receiver has room for the whole packet."""
        return self.free_at <= self.net.now and not self.must_wait(self.where(packet), packet.space)

    def has_credit_or_wait(self, packet: Packet) -> bool:
        """Return whether there is credit; if not, the sender is woken when there is."""
        where = self.where(packet)
        if not self.must_wait(where, packet.space):
            return True
        wanted = self.wanted.get(where, packet.space)
        # A sender that got its credit has been woken, and waits for other credit.
        self.wanted[where] = packet.space if wanted <= self.parts[where] else min(wanted, packet.space)
        self._wake_sender(where)
        return False

    def _wake_sender(self, where: tuple[int, Hashable]) -> None:
        """Schedule a wake-up of the sender when the credit that it waits for is back, if it is on its way."""
        credit = self.parts[where]
        if credit >= self.wanted[where] or self.net.plan.shared:
            # An acknowledgement or, for a packet that waits for the pool, any credit of the pool wakes the
            # sender.
            return
        for time, space in sorted(self.returning[where], key=lambda entry: entry[0]):
            credit += space
            if credit >= self.wanted[where]:
                if self.ready.get(where) != time:
                    self.ready[where] = time
                    self.net.at(time, lambda: self._notify_sender(where))
                return

    def _notify_sender(self, where: tuple[int, Hashable]) -> None:
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
        self.net.hops += 1
        self.occupy(packet.size)
        if self.retry:
            self.retry.send(packet)
        else:
            self.deliver(packet, now + self.delay, self.free_at + self.delay)
        return self.free_at

    def occupy(self, size: int) -> None:
        """Occupy the link with a packet that starts now."""
        self.free_at = self.net.now + self.span(size)
        self.bytes += size
        self.net.at(self.free_at)

    def deliver(self, packet: Packet, head: int, tail: int) -> None:
        """Let a packet reach the receiver."""
        self.receiver.comes(packet, self.port, head=head, tail=tail)

    def loses(self, packet: Packet, head: int, tail: int) -> bool:
        """Return whether a packet that arrives now was lost. Its credit returns when its tail is there."""
        if self.fault is None:
            return False
        if not self.fault.loses(packet, head - self.delay):
            if not self.pausing or not self.pausing.drops(packet):
                return False
            self.fault.count(packet)
            self.fault.dropped += 1
        lost = packet.answers if packet.kind == "nack" else packet
        self.net.lost_payload += lost.payload if lost and lost.kind in ("data", "header") else 0
        is_of_switch = self.receiver.name in self.net.switches
        self.free(packet, self.net.now + (tail - head if is_of_switch else 0), packet.lane, is_stored=False)
        return True

    def store(self, packet: Packet) -> None:
        """Let the receiver store a packet that has arrived, where it sends pause frames."""
        if self.pausing:
            self.pausing.store(packet)

    def reopen_lane(self, lane: int) -> None:
        """Wake the sender of a lane that has resumed, if packets wait for that."""
        waiting = [where for where in self.wanted if where[0] == lane]
        for where in waiting:
            del self.wanted[where]
        if waiting:
            self.sender.credit_is_back(self.sender_port)

    @contextmanager
    def reopening(self) -> Iterator[None]:
        """Wake the sender if packets wait and the replay buffer has room again."""
        assert self.retry is not None
        was_open = self.retry.is_open
        yield
        if self.retry.is_open and not was_open and self.wanted:
            self.sender.credit_is_back(self.sender_port)

    def notify(self, notice: Notice, size: int) -> None:
        """Send a notification to the node at the far end."""
        self._signal(size, 0, lambda: self.receiver.notice(self.port, notice))

    def send_report(self, report: Report, size: int, latency: int) -> None:
        """Send a report; it reaches a switch that forwards it after a latency."""
        self._signal(size, latency, lambda: self.receiver.report(self.port, report))

    def _signal(self, size: int, latency: int, comes: Callable[[], None]) -> None:
        """Send a message that needs no credit, before any packet that has not started."""
        self.free_at = max(self.free_at, self.net.now) + self.span(size)
        self.bytes += size
        self.net.at(self.free_at + self.delay + latency, comes, rank=(3, self.port))
        self.net.at(self.free_at)

    def free(self, packet: Packet, time: int, lane: int, *, is_stored: bool = True) -> None:
        """Return a credit of a lane: the receiver frees the packet's space at a time."""
        if self.pausing and is_stored:
            self.pausing.will_leave(lane, packet.space, time)
        if self.spacing:
            time = self.phase + max(-((self.phase - time) // self.spacing), 0) * self.spacing
        where, entry = (lane, self.receiver.part(packet)), (time + self.delay, packet.space)

        def back() -> None:
            self.returning[where].remove(entry)
            self.parts[where] += entry[1]
            if self.net.plan.shared and self.wanted:
                self.sender.credit_is_back(self.sender_port)

        self.returning[where].append(entry)
        if where in self.wanted:
            self._wake_sender(where)
        # A packet that arrives at the same instant finds the port with this credit.
        self.net.at(time + self.delay, back, rank=(0, 0))
