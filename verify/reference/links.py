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
    """The report of a switch to the source of a packet that the switch has marked."""

    flow: Flow
    severity: int


@dataclass(frozen=True)
class Hop:
    """Telemetry of a switch: time, bytes that its output has sent, bytes that wait, and ps per byte."""

    time: int
    sent: int
    queue: int
    pace: Fraction


@dataclass(eq=False)
class Packet:
    """A packet. Sizes are in bytes. A control packet has no payload and belongs to a flow as well.

    Kinds of control packets are: `answer`, which carries a BECN if the answered packet was marked; `request`
    and `grant` of credit; `set-up`, `probe` and `tear-down` of a flow, and the `reply` to one; the `header`
    of a data packet whose payload was lost, and the `nack` that answers it; and the `receipt` of a data
    packet.
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
    #: In an acknowledgement: the numbers of packets before that one that have arrived, if the order counts.
    #: In one of several packets, with loss recovery, they are those of the 65 up to the newest one, and all
    #: before `missing` have arrived. `sent_at` is when its packet was sent, as far as the sender knows.
    earlier: frozenset[int] = frozenset()
    missing: int = 0
    sent_at: int = 0
    #: In an acknowledgement of several packets: their bytes on the wire, and how long the last one waited.
    covered_size: int = 0
    waited: int = 0
    #: Whether the source of a data packet requests an acknowledgement.
    asks: bool = False
    #: The target of credit that a flow requests. In a grant, the target up to which credit is granted.
    target: int = 0
    #: The value that switches hash in addition to the fields of the flow.
    entropy: int = 0
    #: The packet's position: the lane on which it arrived, its output port, and when its tail can be read.
    came: int = 0
    output: int = 0
    tail_in: int = 0
    #: `at_last` is whether the payload was lost at the output to the receiver; `is_again`, whether a data
    #: packet is sent again.
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
        """Return the number from which the random streams of the outgoing link of a port are derived."""

    def comes(self, packet: Packet, port: int, head: int, tail: int) -> None:
        """Receive the head of a packet; `head` and `tail` are the times of arrival."""

    def part(self, packet: Packet) -> Hashable:
        """Return the region of the buffer in which a packet is stored."""

    def part_size(self) -> int:
        """Return the bytes of each region."""

    def fixed_parts(self) -> Iterable[int]:
        """Return the regions that exist from the start."""

    def notice(self, port: int, notice: Notice) -> None:
        """Process a notification about a line of the node at the other end."""

    def report(self, port: int, report: Report) -> None:
        """Process a report to this host, or forward it."""

    def wake(self, port: int, time: int) -> None:
        """Schedule an attempt to send from a port, at this time at the latest."""

    def credit_is_back(self, port: int) -> None:
        """Try to send from a port, because credit that a packet waits for has returned."""

    def link_was_used(self, port: int) -> None:
        """Record that something other than a packet of a queue occupies the link of a port."""


class Channel:
    """One direction of a link: packets in this direction, and credit per lane and region in the other."""

    def __init__(self, net: Network, pace: Fraction, delay: int, ends: tuple[Node, int, Node, int]) -> None:
        self.net, self.pace, self.delay = net, pace, delay
        #: The configured pace.
        self.usual_pace = pace
        self.sender, self.sender_port, self.receiver, self.port = ends
        plan, owner = net.plan, self.sender.channel_owner(self.sender_port)
        #: The time between returns of credits by the receiver, and the first time of a return.
        self.spacing, self.phase = plan.return_spacing_ps, 0
        if self.spacing:
            self.phase = Stream(plan.seed, "credit returns", owner).below(self.spacing)
        self.retry = Retry(self, plan.retry, owner) if plan.retry else None
        #: Present if the link changes during the run, or if some lanes are lossy.
        self.fault: Fault | None = None
        #: Present if the receiver sends pause frames. Credits then have no limit.
        self.pausing: Pausing | None = None
        #: The maximum credit of a lane, the reserve of each lane, and the credit that lanes share.
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
        #: Credit on its way back, by time and bytes, and the credit for which the sender waits.
        self.returning: defaultdict[tuple[int, Hashable], list[tuple[int, int]]] = defaultdict(list)
        self.wanted: dict[tuple[int, Hashable], int] = {}
        #: The time at which the credit for which a sender waits will have returned, if known.
        self.ready: dict[tuple[int, Hashable], int] = {}

    @property
    def name(self) -> str:
        """The names of both ends, with the ports of switches."""
        ends = ((self.sender, self.sender_port), (self.receiver, self.port))
        return "->".join(f"{node.name}:{port}" if port else node.name for node, port in ends)

    def span(self, size: int) -> int:
        """Return the transmission time of a packet of this size in ps, rounded up."""
        return -floor(-size * self.pace)

    def sent_by(self, time: int) -> int:
        """Return the bytes sent by a time, including the part of the current packet that has left."""
        if self.free_at >= NEVER:
            return self.bytes
        return self.bytes - max(ceil((self.free_at - time) / self.pace), 0)

    def where(self, packet: Packet) -> tuple[int, Hashable]:
        """Return the lane and region whose credit a packet needs."""
        return packet.lane, self.receiver.part(packet)

    def must_wait(self, where: tuple[int, Hashable], space: int) -> bool:
        """Return whether a packet of this space must wait for its lane and region."""
        if self.pausing:
            return self.pausing.is_paused(where[0])
        if self.retry and not self.retry.is_open:
            return True
        return self.parts[where] < space or not self.shares(where[0], space)

    def shares(self, lane: int, space: int) -> bool:
        """Return whether a lane may use `space` more of its reserve, or of the credit that lanes share."""
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
        """Return whether a packet of this lane and space may start to at least one region."""
        known = [part for of, part in self.parts if of == lane]
        if not known:
            return not (self.retry and not self.retry.is_open) and self.capacity >= space
        return any(not self.must_wait((lane, part), space) for part in known)

    def used(self, lane: int) -> int:
        """Return the bytes in use of a lane's buffer, in all its regions."""
        return sum(self.capacity - credit for (of, _), credit in self.parts.items() if of == lane)

    def can_take(self, packet: Packet) -> bool:
        """Return whether the link is free and the receiver has room for the whole packet."""
        return self.free_at <= self.net.now and not self.must_wait(self.where(packet), packet.space)

    def has_credit_or_wait(self, packet: Packet) -> bool:
        """Return whether there is credit. If not, the sender is woken when there is."""
        where = self.where(packet)
        if not self.must_wait(where, packet.space):
            return True
        wanted = self.wanted.get(where, packet.space)
        # If the credit for an earlier packet has returned, the sender has been woken and waits for other
        # credit.
        self.wanted[where] = packet.space if wanted <= self.parts[where] else min(wanted, packet.space)
        self._wake_sender(where)
        return False

    def _wake_sender(self, where: tuple[int, Hashable]) -> None:
        """Wake the sender when the credit that it waits for returns, if this time is known."""
        credit = self.parts[where]
        if credit >= self.wanted[where] or self.net.plan.shared:
            # The sender is woken by an acknowledgement or, if it waits for shared credit, by any return of
            # credit.
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
            if self.parts[where] < self.wanted[where] and not self.net.plan.shared:
                # Another packet has used the credit.
                self._wake_sender(where)
            elif not self.retry or self.retry.is_open:
                self.sender.credit_is_back(self.sender_port)

    def send(self, packet: Packet) -> int:
        """Start to send a packet, and return when its tail has left."""
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
        """Deliver the head of a packet to the receiver."""
        self.receiver.comes(packet, self.port, head=head, tail=tail)

    def loses(self, packet: Packet, head: int, rest: int) -> bool:
        """Return whether a packet that is due now was lost or dropped. If so, return its credit.

        `head` is the time at which its head has arrived, and its tail arrives in `rest` ps. Its credit then
        returns.
        """
        if self.fault is None:
            return False
        if not self.fault.loses(packet, head - self.delay):
            if not self.pausing or not self.pausing.drops(packet):
                return False
            self.fault.count(packet)
            self.fault.dropped += 1
        lost = packet.answers if packet.kind == "nack" else packet
        self.net.lost_payload += lost.payload if lost and lost.kind in ("data", "header") else 0
        self.free(packet, self.net.now + rest, packet.lane, is_stored=False)
        return True

    def store(self, packet: Packet) -> None:
        """Record that the receiver has stored a packet, if it sends pause frames."""
        if self.pausing:
            self.pausing.store(packet)

    def reopen_lane(self, lane: int) -> None:
        """Wake the sender if packets wait for a lane that has resumed."""
        waiting = [where for where in self.wanted if where[0] == lane]
        for where in waiting:
            del self.wanted[where]
        if waiting:
            self.sender.credit_is_back(self.sender_port)

    @contextmanager
    def reopening(self) -> Iterator[None]:
        """Wake the sender afterwards if packets wait and the replay buffer has room again."""
        assert self.retry is not None
        was_open = self.retry.is_open
        yield
        if not self.retry.is_open or was_open:
            return
        if self.net.plan.shared:
            may_start = bool(self.wanted)
        else:
            may_start = any(self.parts[where] >= space for where, space in self.wanted.items())
        if may_start:
            self.sender.credit_is_back(self.sender_port)

    def notify(self, notice: Notice, size: int) -> None:
        """Send a notification to the node at the far end."""
        self._signal(size, 0, lambda: self.receiver.notice(self.port, notice))

    def send_report(self, report: Report, size: int, latency: int) -> None:
        """Send a report. If a switch forwards it, `latency` is added."""
        self._signal(size, latency, lambda: self.receiver.report(self.port, report))

    def _signal(self, size: int, latency: int, comes: Callable[[], None]) -> None:
        """Send a message that needs no credit, before all packets that have not started."""
        self.free_at = max(self.free_at, self.net.now) + self.span(size)
        self.bytes += size
        self.net.at(self.free_at + self.delay + latency, comes, rank=(3, self.port))
        self.net.at(self.free_at)

    def free(self, packet: Packet, time: int, lane: int, *, is_stored: bool = True) -> None:
        """Return the credit of a packet to its lane. The receiver frees the packet's space at `time`."""
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
        # The credit is available to a packet that arrives at the same instant.
        self.net.at(time + self.delay, back, rank=(0, 0))
