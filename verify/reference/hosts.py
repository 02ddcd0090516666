"""Hosts: flows, injection, and sinks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING

from verify.direct import Direct
from verify.parts import Reaction
from verify.rdma import RcccReaction
from verify.reading import UNLIMITED
from verify.reference.acknowledging import Acknowledger
from verify.reference.announcing import Announcer
from verify.reference.credits import Granter
from verify.reference.draining import InputBuffer
from verify.reference.links import Channel, Packet, Report
from verify.reference.ordering import Order
from verify.reference.own_flows import Generator, OwnSource, acknowledged
from verify.reference.reactions import Answer, Control, Loss, control
from verify.reference.recovering import Recovery
from verify.reference.sources import Message, Source
from verify.reference.spraying import Sprayer

if TYPE_CHECKING:
    from verify.reference.isolation import Notice
    from verify.reference.network import Network

#: The rank of timers among the events of an instant: after all arrivals.
TIMERS = (4, 0)


@dataclass
class Limiter:
    """A rate limit that is exact for any number of packets, because fractions of a picosecond are kept.

    `pace` is the time per byte, in picoseconds.
    """

    pace: Fraction
    free_at: int = 0
    rest: Fraction = Fraction(0)

    def take(self, start: int, size: int) -> int:
        """Transmit bytes from `start` or after the previous bytes, and return when they have passed."""
        through = size * self.pace + self.rest
        self.rest = through - floor(through)
        self.free_at = max(start, self.free_at) + floor(through)
        return self.free_at


class Flow:
    """The flow from one source of a host to one destination."""

    def __init__(
        self, source: Source, ends: tuple[str, str], ways: tuple[int, int], control: Control
    ) -> None:
        self.source, self.control = source, control
        #: The service level of the flow's packets, and their lane on the link of the host.
        self.level, self.lane = ways
        self.ends = self.origin, self.destination = ends
        self.messages: deque[Message] = deque()
        self.sent = self.received = 0
        #: Data packets sent.
        self.packets = 0
        #: Packets to be sent again, by number.
        self.lost: dict[int, Packet] = {}
        #: The number of the flow within the host while its state is stored.
        self.number: int | None = None
        #: The scheduled times at which the reaction may throttle the flow.
        self.timers: set[int] = set()
        #: The value of `served` of the flow's source when the flow began to wait.
        self.served_before = 0
        #: The number of the latest check whether the flow may send. For a waiting flow, this is the check
        #: with which it began to wait.
        self.began = 0


class Host:
    """A host that sends control packets first and serves flows by round robin, and a sink with a rate."""

    def __init__(self, net: Network, name: str) -> None:
        self.net, self.name = net, name
        #: The components of congestion management at this host.
        self.congestion = net.plan.congestion.at(name)
        self.sources: list[Source] = []
        self.flows: dict[tuple[Source, str], Flow] = {}
        self.ring: deque[Flow] = deque()
        self.waiting: list[tuple[int, Flow]] = []
        #: Flows whose windows are closed, and flows that lack credit while others have some.
        self.closed: list[Flow] = []
        self.held: list[Flow] = []
        #: The next number of a flow, and numbers that are free for reuse.
        self.numbers, self.given_back = 0, list[int]()
        #: Control packets that wait on each lane, with a number in their order over all lanes.
        self.control: dict[int, deque[tuple[int, Packet]]] = {
            lane: deque() for lane in range(net.plan.lanes.count)
        }
        self.answers = 0
        #: The time of the last notification, by the source of the received flow, or for all flows together.
        self.notified: dict[Source | None, int] = {}
        #: For each flow, the marks of the packets that have arrived since the last answer to a message.
        self.arrived: dict[Flow, list[tuple[bool, bool, int]]] = {}
        #: Whether there is a reason to try to send.
        self.is_asked = False
        #: Present if flows are announced.
        self.announcer: Announcer | None = None
        #: Data packets sent so far, and payload sent and received.
        self.served = self.sent = self.received = 0
        #: Present if packets may overtake each other.
        self.order = Order(net.reordering, accepts=net.plan.accepts) if net.plan.reorders else None
        #: Present if packets have entropy values.
        self.sprayer = Sprayer(self, net.plan.ecmp) if net.plan.ecmp and net.plan.sprays else None
        #: The controls of service levels, if control is per service level.
        self.levels: dict[int, Control] = {}
        #: The windows per destination, and those that answers to other ports of the host have changed.
        self.windows = net.windows
        self.changed: list[Control] = []
        #: Number of checks whether a flow may send.
        self.begun = 0
        #: Answers that raised an index to the trigger threshold or beyond: time, number of the other host,
        #: level, and source.
        self.raised: list[tuple[int, int, int, str]] = []
        #: Number of sources that were created for single messages.
        self.own_sources = 0
        #: For each received flow, the bytes that are not yet acknowledged.
        self.uncovered: dict[Flow, int] = {}
        #: Present if receivers grant credit.
        self.granter: Granter | None = None
        unit = self.congestion.acknowledge
        #: Present if acknowledgements cover several packets.
        self.acknowledger = Acknowledger(self, unit) if unit else None
        #: Present if lost packets are sent again after a timeout.
        self.recovery = Recovery(self, net.plan.recovery) if net.plan.recovery else None

    def channel_owner(self, port: int) -> int:
        """Return the number from which the random streams of the host's link are derived."""
        return 1 << 32 | self.net.number[self.name] << 8

    def link_was_used(self, port: int) -> None:
        """Do nothing, because the next attempt finds the link occupied."""

    def connect(self, port: int, out: Channel, into: Channel) -> None:
        """Connect the host to its link, and create the parts that depend on the rate of the link."""
        self.out, self.into = out, into
        plan = self.net.plan
        has_limit = plan.injection is not None or plan.message_overhead_ps > 0 or plan.adapter is not None
        # The link limits the rate, so that the time per message is added to the time on the link.
        self.usual_injection = max(plan.injection or out.pace, out.pace) if has_limit else Fraction(0)
        self.injection = Limiter(self.usual_injection)
        #: When the bytes of all packets so far have passed the injection limit. Control packets wait for this
        #: time if the limit includes them, and data also for the time per message and other pauses.
        self.passed_at = 0
        self.usual_drain = max(plan.drain or into.pace, into.pace)
        self.drain = Limiter(self.usual_drain)
        #: Replaces `drain` if the rate of the host changes.
        self.buffer: InputBuffer | None = None
        #: Whether packets in both directions share the pace of the host.
        self.is_shared = False
        #: Whether the host has failed.
        self.is_stopped = False
        reaction = self.congestion.reaction
        if isinstance(reaction, RcccReaction):
            self.granter = Granter(self, reaction, into.pace)
        if self.net.plan.announces:
            self.announcer = Announcer(self, self.congestion.rates)

    def stop(self) -> None:
        """Fail. A failed host sends nothing."""
        self.is_stopped = True

    def share(self, pace: Fraction | None) -> None:
        """Inject no faster than a pace that both directions share. `None` restores the usual pace."""
        present = max(self.usual_injection, pace or Fraction(0))
        if present != self.injection.pace:
            self.injection.pace, self.injection.rest = present, Fraction(0)
        self.is_shared = pace is not None

    def part(self, packet: Packet) -> Hashable:
        """Return the region of the buffer in which a packet is stored, which is the only one."""
        return 0

    def part_size(self) -> int:
        """Return the bytes of each lane's receive buffer, which is unlimited with packet trimming."""
        return UNLIMITED if self.net.plan.switch.trimming else self.net.plan.host_buffer

    def fixed_parts(self) -> Iterable[int]:
        """Return the regions that exist from the start."""
        return [0]

    def notice(self, port: int, notice: Notice) -> None:
        """Ignore a notification from the switch, because a host without an output buffer has no lines."""

    def report(self, port: int, report: Report) -> None:
        """Process the report of a switch that has marked a packet of this host."""
        self.net.becn_received += 1
        before = report.flow.control.strength(self.net.now)
        report.flow.control.answered("hot", self.net.now, report.severity)
        self.log(report.flow, before)
        self.set_timer(report.flow)
        self.is_asked = True

    def wake(self, port: int, time: int) -> None:
        """Schedule an attempt to send, unless an earlier one is scheduled."""
        raise NotImplementedError

    def credit_is_back(self, port: int) -> None:
        """Try to send."""
        raise NotImplementedError

    def add(self, source: Source) -> None:
        """Add a source, and schedule its first message."""
        source.number = len(self.sources)
        self.sources.append(source)
        self.net.at(floor(source.next_due))
        if isinstance(source, Generator) and source.due:
            self.net.at(source.due[0])

    def flow(self, source: Source, destination: str) -> Flow:
        """Return the flow from a source to a destination. It is created at its first use."""
        if (source, destination) not in self.flows:
            level = self.level(destination, source.level)
            held_back = control(self.net, self.name, level, self.out.usual_pace)
            if self.congestion.has_control_per_level:
                held_back = self.levels.setdefault(level, held_back)
            elif self.congestion.has_control_per_destination:
                held_back = self.windows.control(self, destination)
            lane = self.net.plan.lanes.of_level[level]
            self.flows[source, destination] = Flow(source, (self.name, destination), (level, lane), held_back)
        return self.flows[source, destination]

    def level(self, destination: str, level: int) -> int:
        """Return the service level of packets to a host: that of the route if it has one, or `level`."""
        net = self.net.plan.wiring
        if self.net.plan.lanes.by_way and isinstance(net, Direct):
            return net.way(self.name, destination).level
        return level

    def comes(self, packet: Packet, port: int, head: int, tail: int) -> None:
        """Schedule the reception of a packet for when its tail arrives, unless it is lost."""

        def arrives() -> None:
            if not self.into.loses(packet, head, rest=0):
                self.receive(packet, head)

        self.net.at(tail, arrives, rank=(1, 0))

    def receive(self, packet: Packet, head: int) -> None:
        """Process a packet whose tail has just arrived."""
        self.into.store(packet)
        if packet.is_control:
            self.into.free(packet, self.net.now, packet.lane)
            self.take_control(packet)
            return
        is_slowed = self.is_shared and self.injection.free_at > self.net.now
        size = packet.size * (2 if is_slowed else 1)
        is_new, is_answered = self.recovery.take(packet) if self.recovery else (True, True)
        if self.buffer:
            self.buffer.add(head, size, lambda: self.leaves(packet, self.net.now, is_new=is_new))
        else:
            self.leaves(packet, max(self.drain.take(head, size), self.net.now), is_new=is_new)
        if not is_answered:
            return
        how = self.congestion.notification
        if self.granter:
            self.granter.count(packet)
            self.granter.note(packet)
        self.return_weights(packet)
        if how == "backward":
            return
        if self.acknowledger:
            self.acknowledger.take(packet)
            return
        if how == "ack-message":
            self.answer_message(packet)
            return
        self.uncovered[packet.flow] = self.uncovered.get(packet.flow, 0) + packet.payload
        marked = packet.fecn and (how != "cnp" or self.may_notify(packet.flow))
        if marked or how in ("ack-each", "ack-grant") or (how == "ack" and packet.ends_message):
            answer = self.control_packet(packet.flow, packet.flow.origin, packet.lane, "answer")
            answer.becn, answer.validated = packet.fecn, packet.validated
            answer.severity, answer.answers, answer.entropy = packet.severity, packet, packet.entropy
            answer.covers = self.covered(packet)
            if self.recovery and self.recovery.rule.reordering:
                answer.earlier = self.recovery.before(packet)
            delay = self.congestion.notification_delay
            if delay:
                self.net.at(self.net.now + delay, lambda: self.reply(answer), rank=TIMERS)
            else:
                self.reply(answer)

    def take_control(self, packet: Packet) -> None:
        """Process a control packet, or the header of a trimmed data packet."""
        if packet.announcement:
            self.take_reply(packet)
        elif packet.kind == "request":
            assert self.granter
            self.granter.asked(packet)
        elif packet.kind == "grant":
            self.take_grant(packet)
        elif packet.kind == "header":
            self.lack(packet)
        elif packet.kind == "nack":
            self.was_lost(packet)
        elif packet.kind == "receipt":
            assert self.recovery
            self.recovery.take_receipt(packet)
        elif packet.kind == "path-probe":
            reply = self.control_packet(packet.flow, packet.flow.origin, packet.lane, "path-reply")
            reply.becn, reply.entropy = packet.fecn, packet.entropy
            self.reply(reply)
        elif packet.kind == "path-reply":
            states = self.sprayer.path(packet.flow).states if self.sprayer else None
            assert states
            states.take_answer(packet.entropy, is_marked=packet.becn)
        else:
            self.take_answer(packet)

    def take_answer(self, packet: Packet) -> None:
        """Process a notification or an acknowledgement."""
        if self.sprayer:
            self.sprayer.take_answer(packet.flow, packet.entropy, is_marked=packet.becn)
        if self.has_receipts and packet.answers and not self.settles(packet, packet.answers):
            self.find_gaps(packet)
            return
        self.net.becn_received += packet.becn
        if packet.becn or self.congestion.has_windows:
            self.answered(packet)
            self.heard()
        counts = self.awaits_acks and (self.recovery is None or self.has_receipts)
        if packet.answers and counts and acknowledged(packet.flow, packet.covers, self.net.now):
            self.end(packet.flow)
        self.find_gaps(packet)

    def settles(self, ack: Packet, data: Packet) -> bool:
        """Return whether an acknowledgement covers outstanding packets, and have it count for these."""
        if not self.acknowledger:
            return self.settled(ack.flow, data.number)
        assert self.recovery
        arrived = self.recovery.take_report(ack)
        ack.covers = sum(packet.payload for packet in arrived)
        ack.covered_size = ack.covers + len(arrived) * self.net.plan.header
        return bool(arrived)

    def heard(self) -> None:
        """Note that an answer may have changed what the host may send."""

    def find_gaps(self, ack: Packet) -> None:
        """Send packets again that an acknowledgement shows to be lost, if the order of sending counts."""
        if self.recovery and self.recovery.rule.reordering and ack.answers:
            earlier = frozenset() if self.acknowledger else ack.earlier
            sent_at = ack.sent_at if self.acknowledger else ack.answers.injected
            self.recovery.find_gaps(ack.flow, ack.answers, earlier, sent_at)

    @property
    def is_cut_off(self) -> bool:
        """Whether the host's link is down."""
        return self.out.fault is not None and self.out.fault.is_down

    def take_grant(self, packet: Packet) -> None:
        """Process a grant of credit for a flow."""
        packet.flow.control.take(packet.target)
        self.is_asked = True
        self.reopen(packet.flow)
        if self.recovery:
            self.recovery.granted(packet.flow)

    def lack(self, header: Packet) -> None:
        """Answer the header of a packet whose payload was trimmed."""
        if self.granter:
            self.granter.count_lost(header)
            self.granter.note(header)
        nack = self.control_packet(header.flow, header.flow.origin, header.lane, "nack")
        nack.becn, nack.entropy, nack.answers = header.fecn, header.entropy, header
        self.reply(nack)

    def was_lost(self, nack: Packet) -> None:
        """Schedule a trimmed packet to be sent again before messages, if no timeout has done so."""
        flow, header = nack.flow, nack.answers
        assert header
        if self.sprayer:
            is_lost = not header.at_last
            self.sprayer.take_answer(
                flow, nack.entropy, is_marked=nack.becn or is_lost, skips=4 if is_lost else 1
            )
        if self.recovery and not self.recovery.settle(flow, header.number)[0]:
            # The packet has already been sent again after a timeout.
            return
        is_idle = not flow.messages and not flow.lost
        flow.lost[header.number] = header
        size = header.payload + self.net.plan.header
        loss = Loss(self.net.now, header.injected, size, at_last=header.at_last)
        self.ask(flow, flow.control.lose(loss))
        self.set_timer(flow)
        self.is_asked = True
        if is_idle:
            self.wait(flow)
        if not is_idle or self.congestion.has_control_per_destination:
            self.reopen(flow)

    @property
    def has_receipts(self) -> bool:
        """Whether acknowledgements report which packets have arrived, for loss recovery."""
        return self.recovery is not None and self.recovery.rule.has_acks

    def settled(self, flow: Flow, number: int, *, by_others: bool = False) -> bool:
        """Process the acknowledgement of a packet, and return whether the packet was outstanding.

        With `by_others`, the acknowledgement of another packet reports it as arrived.
        """
        assert self.recovery
        kept = self.recovery.sent.get(flow, {}).get(number)
        was_outstanding, arrived = self.recovery.settle(flow, number)
        if kept and (by_others or not self.has_receipts):
            arrived.append(kept[0])
        for packet in arrived:
            flow.control.arrived(packet.payload + self.net.plan.header)
        if arrived:
            self.is_asked = True
            if self.congestion.has_windows or not self.congestion.has_control_per_level:
                self.reopen(flow)
        if self.awaits_acks:
            ends = [acknowledged(flow, packet.payload, self.net.now) for packet in arrived]
            if any(ends):
                self.end(flow)
        return was_outstanding

    def send_again(self, packets: list[Packet]) -> None:
        """Schedule packets of a flow to be sent again, before its messages."""
        flow = packets[0].flow
        is_idle = not flow.messages and not flow.lost
        for packet in packets:
            flow.lost[packet.number] = packet
            self.net.repeated += packet.payload
            # A trimmed packet has the size of its header, so its original size is computed.
            size = packet.payload + self.net.plan.header
            flow.control.lose(Loss(self.net.now, packet.injected, size, at_last=False, is_answer=False))
            if self.sprayer:
                self.sprayer.lose(flow, packet.entropy)
        # The lost packets may have requested credit.
        self.ask(flow, flow.control.missing_grant())
        self.set_timer(flow)
        self.is_asked = True
        if is_idle:
            self.remember(flow)
            self.wait(flow)
        if not is_idle or self.congestion.has_control_per_destination:
            self.reopen(flow)
        self.await_grant(flow)

    def at_timer(self, time: int, act: Callable[[], None]) -> None:
        """Schedule an action for a time, after all arrivals of this instant."""
        self.net.at(time, act, rank=TIMERS)

    def reply(self, answer: Packet) -> None:
        """Queue an answer to a data packet, and request an attempt to send."""
        self.say(answer)
        self.is_asked = True

    def answer_message(self, packet: Packet) -> None:
        """Record the marks of a packet. If it ends a message, answer it with the marks of all its packets."""
        marks = self.arrived.setdefault(packet.flow, [])
        marks.append((packet.fecn, packet.validated, packet.severity))
        if packet.ends_message:
            answer = self.control_packet(packet.flow, packet.flow.origin, packet.lane, "answer")
            answer.becn = any(fecn for fecn, _, _ in marks)
            answer.validated = any(validated for _, validated, _ in marks)
            answer.severity, answer.answers = max(severity for _, _, severity in marks), packet
            answer.entropy = packet.entropy
            marks.clear()
            if isinstance(packet.flow.source, OwnSource):
                answer.covers = packet.flow.source.size
            self.reply(answer)

    def covered(self, packet: Packet) -> int:
        """Return the bytes of a flow that an answer to a packet acknowledges."""
        if self.congestion.notification in ("ack-each", "ack-grant"):
            return packet.payload
        return self.uncovered.pop(packet.flow, 0)

    @property
    def awaits_acks(self) -> bool:
        """Whether receivers acknowledge all data, in answers or receipts."""
        answers = self.congestion.notification in ("ack", "ack-message", "ack-each", "ack-grant")
        return answers or self.recovery is not None

    def may_notify(self, flow: Flow) -> bool:
        """Return whether a mark causes a notification packet, and if so, note the time.

        With coalescing, a mark causes none within the interval after the last notification.
        """
        if self.congestion.coalescing is None:
            return True
        interval, is_per_flow = self.congestion.coalescing
        about = flow.source if is_per_flow else None
        before = self.notified.get(about)
        if before is not None and self.net.now < before + interval:
            return False
        self.notified[about] = self.net.now
        return True

    def say(self, packet: Packet) -> None:
        """Queue a control packet."""
        self.answers += 1
        self.control[packet.lane].append((self.answers, packet))

    def return_weights(self, packet: Packet) -> None:
        """Send back the largest sum that a data packet has collected, if it differs from its source's sum."""
        if packet.announcement and packet.announcement.largest_ps != packet.announcement.known_ps:
            self.take_reply(packet)

    def take_reply(self, packet: Packet) -> None:
        """Answer an announcement of another host's flow, or process the answer to an announcement here."""
        if packet.kind == "reply":
            assert self.announcer
            self.is_asked |= self.announcer.came_back(packet)
            return
        reply = self.control_packet(packet.flow, packet.flow.origin, packet.lane, "reply")
        reply.announcement = packet.announcement
        self.say(reply)

    def answered(self, packet: Packet) -> None:
        """Process the answer to a packet of a flow."""
        flow, mark = packet.flow, "cold"
        if packet.becn:
            is_warm = self.congestion.validates and not packet.validated
            mark = "warm" if is_warm else "hot"
        data = packet.answers
        assert data
        if self.congestion.has_windows:
            self.ask(flow, flow.control.end_speculation())
            self.await_grant(flow)
        before = flow.control.strength(self.net.now)
        sent_at, size = data.injected + packet.waited, packet.covered_size or data.size
        flow.control.take_answer(Answer(mark, self.net.now, packet.severity, sent_at, size, data.hops))
        self.log(flow, before)
        self.set_timer(flow)
        # Windows may open and pauses may end. An index, however, only increases when an answer arrives.
        if self.congestion.has_windows:
            self.reopen(flow)

    def log(self, flow: Flow, before: int) -> None:
        """Log an answer that has raised an index to its threshold or beyond."""
        reaction = self.congestion.reaction
        if not isinstance(reaction, Reaction):
            return
        if before < reaction.trigger <= flow.control.strength(self.net.now):
            to = self.net.number[flow.destination]
            self.raised.append((self.net.now, to, flow.level, flow.source.name))

    def set_timer(self, flow: Flow) -> None:
        """Schedule the time at which the reaction may throttle a flow."""
        due = flow.control.next_timer()
        if due is not None and due not in flow.timers:
            flow.timers.add(due)
            self.net.at(due, lambda: self.expire(flow), rank=TIMERS)

    def expire(self, flow: Flow) -> None:
        """Check again whether a flow, and flows that share its control, may send."""
        flow.timers.discard(self.net.now)
        self.is_asked = True
        self.reopen(flow)

    def reopen(self, flow: Flow) -> None:
        """Check again when a waiting flow, and waiting flows that share its control, may send."""
        all_waiting = [waiting for _, waiting in self.waiting] + self.closed
        if self.congestion.has_control_per_destination:
            self.windows.changed(flow.control, self)
        if self.congestion.has_control_per_level or self.congestion.has_control_per_destination:
            # All flows with this control are checked in the order in which they began to wait.
            again = sorted(
                (other for other in all_waiting if other.control is flow.control), key=lambda one: one.began
            )
        else:
            again = [other for other in all_waiting if other is flow]
        self.waiting = [entry for entry in self.waiting if entry[1] not in again]
        self.closed = [closed for closed in self.closed if closed not in again]
        for other in again:
            self.wait(other)

    def reopen_changed(self) -> None:
        """Check the waiting flows whose windows answers to other ports of the host have changed."""
        changed, self.changed = self.changed, []
        for other in [flow for flow in self.closed if flow.control in changed]:
            self.closed.remove(other)
            self.wait(other)

    def leaves(self, packet: Packet, drained: int, *, is_new: bool) -> None:
        """Let a packet leave the input buffer at a time, and deliver it if it is new."""
        self.into.free(packet, drained, packet.lane)
        if is_new:
            self.net.at(drained, lambda: self.take_out(packet))

    def take_out(self, packet: Packet) -> None:
        """Remove a packet from the receive buffer, and deliver the packets that are then in order."""
        for ready in self.order.drained(packet, self.net.now) if self.order else [packet]:
            self.deliver(ready)

    def deliver(self, packet: Packet) -> None:
        """Count a delivered packet."""
        self.net.delivered += 1
        packet.flow.received += packet.payload
        self.received += packet.payload
        self.net.classes[packet.flow.source.name].count(packet, self.net.now)
        if packet.ends_message and isinstance(packet.flow.source, OwnSource):
            packet.flow.source.delivered = self.net.now

    def control_packet(self, flow: Flow, to: str, lane: int, kind: str) -> Packet:
        """Return a new control packet, on the lane of control packets if there is one.

        A tear-down uses the lane of its data. If routes determine lanes, any control packet uses the lane of
        its route.
        """
        size, own_lane = self.net.plan.control, self.net.plan.lanes.control
        if own_lane is not None and kind != "tear-down":
            lane = own_lane
        if self.net.plan.lanes.by_way:
            lane = self.net.plan.lanes.of_level[self.level(to, flow.level)]
        packet = Packet(flow, to, payload=0, size=size, space=self.net.space(size), lane=lane, kind=kind)
        if self.sprayer:
            packet.entropy = self.sprayer.of_control(packet)
        return packet

    def decide(self) -> None:
        """Send one packet, if there is a reason for an attempt and it is possible."""
        raise NotImplementedError

    def draw_and_send(self, lacking: dict[int, int]) -> str:
        """Generate messages and send a packet if one may be sent. Return `sent`, `blocked` or `idle`."""
        self.enlist_held()
        attempt, wants = "idle", True
        while attempt == "idle" and wants:
            self.take_stock()
            attempt = self.send_data(dict(lacking))
            # Sources may generate further messages if the flows of earlier ones were found to be throttled.
            wants = any(self.is_due(source) for source in self.sources)
        return attempt

    def next_draw(self, source: Source) -> int | None:
        """Return when a source generates its next message; `None` if this is not determined."""
        return source.next_draw(self.net.now, is_ready=any(flow.source is source for flow in self.ring))

    def is_due(self, source: Source) -> bool:
        """Return whether a source generates a message now."""
        due = self.next_draw(source)
        return due is not None and due <= self.net.now

    def send_data(self, lacking: dict[int, int]) -> str:
        """Send a packet of the first flow that may send and whose lane has credit.

        Flows whose lane lacks credit keep their turn, and no flow behind them uses that lane. Return `sent`,
        `blocked` if all lanes lack credit, or `idle`.
        """
        attempt = "idle"
        kept: list[Flow] = []
        self.select()
        for _ in range(len(self.ring)):
            flow = self.ring.popleft()
            if self.holds_back(flow):
                continue
            packet = self.next_packet(flow)
            if packet.lane not in lacking and self.has_credit(packet):
                self.send(flow, packet, len(kept))
                attempt = "sent"
                break
            if packet.lane not in lacking and self.net.plan.switch.queues.is_divided:
                self.held.append(flow)
                continue
            kept.append(flow)
            lacking.setdefault(packet.lane, packet.space)
            if len(lacking) == self.net.plan.lanes.count:
                attempt = "blocked"
                break
        self.ring.extendleft(reversed(kept))
        return attempt

    def has_credit(self, packet: Packet) -> bool:
        """Return whether a packet can be sent. If not, schedule an attempt for when it can."""
        raise NotImplementedError

    def select(self) -> None:
        """With explicit rates, move the flow that has sent least relative to its rate to the ring's front."""
        if self.announcer and self.announcer.rates and self.ring:
            first = min(self.ring, key=self.announcer.urgency)
            self.ring.remove(first)
            self.ring.appendleft(first)

    def enlist_held(self) -> None:
        """Return the held flows, which lacked credit or room in the buffer, to the ring."""
        held, self.held = self.held, []
        for flow in held:
            self.wait(flow)

    def take_stock(self) -> None:
        """Generate the messages that are due, and put flows that may send into the ring.

        Flows with a new message come first, then those whose delay has passed, in the order of release. Of
        flows released at one instant, the first is the one whose source had been served longest ago when it
        began to wait, then the one with the lower number.
        """
        for source in self.sources:
            while self.is_due(source):
                message = source.draw(self.net.now)
                flow = self.flow(self.sender(source, message), message.destination)
                sharing = [other for other in self.flows.values() if other.control is flow.control]
                if not any(other.messages for other in sharing):
                    flow.control.restarted()
                flow.messages.append(message)
                self.request(flow, message)
                if len(flow.messages) == 1:
                    self.remember(flow)
                if len(flow.messages) == 1 and not flow.lost:
                    self.wait(flow)
        self.release_due()

    def release_due(self) -> None:
        """Put the flows whose wait has ended into the ring."""
        due = [(release, flow) for release, flow in self.waiting if release <= self.net.now]
        by_turn = sorted(due, key=lambda waits: (waits[0], waits[1].served_before, waits[1].number))
        for release, flow in by_turn:
            self.waiting.remove((release, flow))
            self.wait(flow)

    def sender(self, source: Source, message: Message) -> Source:
        """Return the source of a message; create it if each message has a separate flow."""
        if not isinstance(source, Generator):
            return source
        number = len(self.sources) + self.own_sources
        self.own_sources += 1
        own = OwnSource(source, message.destination, number, message.left)
        own.created = message.created
        own.backlog = 1
        self.net.own_flows.append(self.flow(own, message.destination))
        return own

    def end(self, flow: Flow) -> None:
        """Record that the message of a separate flow has ended."""
        assert isinstance(flow.source, OwnSource)
        assert isinstance(flow.source.parent, Generator)
        if flow.number is not None:
            self.given_back.append(flow.number)
            flow.number = None
        flow.source.parent.ended(self.net.now)
        self.is_asked = True

    def request(self, flow: Flow, message: Message) -> None:
        """Pass a message to the control of its flow, and send the request that it returns."""
        packets = max(-(-message.left // self.net.plan.mtu), 1)
        self.ask(flow, flow.control.queued(message.left + packets * self.net.plan.header))
        self.await_grant(flow)

    def await_grant(self, flow: Flow) -> None:
        """With loss recovery, repeat the request of a flow that waits for a grant after the timeout."""
        if self.recovery:
            self.recovery.await_grant(flow)

    def ask(self, flow: Flow, target: int, *, is_repeated: bool = False) -> None:
        """Request credit up to a target, unless the target is zero. The validation bit marks a repetition."""
        if target:
            request = self.control_packet(flow, flow.destination, flow.lane, "request")
            request.target, request.validated = target, is_repeated
            self.say(request)

    def remember(self, flow: Flow) -> None:
        """Give a flow a number, if it has none."""
        if flow.number is None and self.given_back:
            flow.number = self.given_back.pop()
        elif flow.number is None:
            flow.number = self.numbers
            self.numbers += 1

    def forget(self, flow: Flow) -> None:
        """Free the number of a flow without messages, unless control is per flow."""
        if flow.number is not None and not self.congestion.has_control_per_flow:
            self.given_back.append(flow.number)
            flow.number = None

    def wait(self, flow: Flow, since: int | None = None) -> None:
        """Put a flow into the ring, or let it wait until it may send."""
        if not self.holds_back(flow, since):
            self.ring.append(flow)

    def holds_back(self, flow: Flow, since: int | None = None) -> bool:
        """Return whether a flow may not send yet. If so, it waits."""
        asked = self.net.now if since is None else since
        release = self.release(flow, asked)
        self.begun += 1
        flow.began = self.begun
        if release is None:
            self.closed.append(flow)
            if self.congestion.has_control_per_destination:
                self.windows.wait(flow.control, self)
        elif release > asked:
            flow.served_before = flow.source.served
            self.waiting.append((release, flow))
            self.net.at(release)
        return release != asked

    def release(self, flow: Flow, asked: int) -> int | None:
        """Return when a flow may send, not before `asked`; `None` if this depends on an answer."""
        release = self.announcer.leave(flow, asked) if self.announcer else asked
        flow.control.next_size = self.next_packet(flow).size
        return flow.control.eligible_at(asked) if release == asked else release

    def next_packet(self, flow: Flow) -> Packet:
        """Return the next packet of a flow: one to be sent again, or one of its first message."""
        if flow.lost:
            before = flow.lost[min(flow.lost)]
            size = before.payload + self.net.plan.header
            return Packet(
                flow,
                flow.destination,
                before.payload,
                size,
                self.net.space(size),
                flow.lane,
                ends_message=before.ends_message,
                created=before.created,
                number=before.number,
                is_again=True,
            )
        message = flow.messages[0]
        payload = min(message.left, self.net.plan.mtu)
        size = payload + self.net.plan.header
        return Packet(
            flow,
            flow.destination,
            payload,
            size,
            self.net.space(size),
            flow.lane,
            ends_message=payload == message.left,
            created=message.created,
        )

    def put(self, packet: Packet) -> int:
        """Send a packet on the link, and return when its tail has left."""
        self.count_sent(packet)
        return self.out.send(packet)

    def count_sent(self, packet: Packet) -> None:
        """Count a packet that leaves the host."""
        packet.flow.sent += packet.payload
        packet.injected = self.net.now
        self.sent += packet.payload
        self.net.injected += 1

    def injected_bytes(self, packet: Packet) -> int:
        """Return the bytes for which a packet occupies the injection limit."""
        is_draining = self.buffer.is_draining() if self.buffer else self.drain.free_at > self.net.now
        return packet.size * (2 if self.is_shared and is_draining else 1)

    def may_inject_control(self) -> bool:
        """Return whether the injection limit permits a control packet to start."""
        return not self.net.plan.limits_control or self.passed_at <= self.net.now

    def inject_control(self, packet: Packet) -> None:
        """Let a control packet pass the injection limit, if that includes control packets."""
        if not self.net.plan.limits_control:
            return
        pause_ends = self.injection.free_at
        self.injection.free_at = self.passed_at
        self.passed_at = self.injection.take(self.net.now, self.injected_bytes(packet))
        self.injection.free_at = max(pause_ends, self.passed_at)
        self.net.at(self.passed_at)
        self.net.at(self.injection.free_at)

    def send(self, flow: Flow, packet: Packet, kept: int = 0) -> None:
        """Send the next packet of a flow. `kept` is the number of flows that keep their turn."""
        if packet.is_again:
            del flow.lost[packet.number]
            self.net.resent += 1
        else:
            packet.number = flow.packets
            flow.packets += 1
            flow.messages[0].left -= packet.payload
        if self.sprayer:
            packet.entropy = self.sprayer.next(flow)
        if self.recovery:
            self.recovery.keep(flow, packet)
        rule = self.net.plan.by_packet
        if rule and "throttled" in rule.pinned and not packet.is_again:
            packet.is_pinned = flow.control.strength(self.net.now) > 0
        packet.target = flow.control.wanted(packet.size, len(self.ring) + len(self.held) + kept + 1)
        packet.asks = packet.ends_message or packet.is_again or flow.control.must_ask(packet.size)
        self.served += 1
        flow.source.served = self.served
        self.passed_at = self.injection.take(self.net.now, self.injected_bytes(packet))
        end = self.put(packet)
        if packet.ends_message and not packet.is_again:
            flow.source.finished(flow.messages.popleft())
            if isinstance(flow.source, OwnSource) and not self.awaits_acks:
                assert isinstance(flow.source.parent, Generator)
                flow.source.parent.ended(self.net.now)
            self.injection.free_at += self.net.plan.message_overhead_ps
        self.net.at(self.injection.free_at)
        flow.control.leaves(packet, self.net.now, end)
        if self.announcer:
            self.announcer.carry(flow, packet)
            self.announcer.sent(flow, packet.size, is_last=packet.ends_message)
        if flow.messages or flow.lost:
            # No other flow sends before the tail has left, so a flow without a delay joins the ring now.
            self.wait(flow, since=end)
        else:
            self.forget(flow)
        self.await_grant(flow)
