"""Acknowledgements of several packets: what each receiver has received of a flow, and when it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verify.reference.hosts import Flow, Host
    from verify.reference.links import Packet


@dataclass
class Got:
    """The numbers of a flow's packets that have arrived, and the packets that are not yet acknowledged."""

    numbers: set[int] = field(default_factory=set)
    is_asked: bool = False
    waiting: list[tuple[int, Packet]] = field(default_factory=list)
    #: The time at which the oldest unacknowledged packet must be acknowledged, and a number that orders flows
    #: with equal times.
    due: int = 0
    turn: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether all packets before the newest one have arrived."""
        return len(self.numbers) == max(self.numbers) + 1

    @property
    def size(self) -> int:
        """Bytes on the wire that are not yet acknowledged."""
        return sum(packet.size for _, packet in self.waiting)


class Acknowledger:
    """Acknowledgements of a receiving host, sent after some bytes, or at the latest after a time."""

    def __init__(self, host: Host, unit: tuple[int, int]) -> None:
        self.host = host
        self.bytes, self.within = unit
        self.flows: dict[Flow, Got] = {}
        self.turns = 0

    def take(self, packet: Packet) -> None:
        """Receive a data packet."""
        now = self.host.net.now
        got = self.flows.setdefault(packet.flow, Got())
        is_new = packet.number not in got.numbers
        got.numbers.add(packet.number)
        if is_new:
            got.waiting.append((now, packet))
        got.is_asked = got.is_asked or packet.asks
        is_met = got.is_asked and got.is_whole
        if packet.fecn or packet.asks or is_met or not is_new or got.size >= self.bytes:
            self.answer(got, packet)
            got.is_asked = got.is_asked and not is_met
        elif len(got.waiting) == 1:
            self.turns += 1
            got.due, got.turn = now + self.within, self.turns
            self.host.at_timer(got.due, self.expire)

    def expire(self) -> None:
        """Acknowledge the packets that are due, after any grant that is due at the same instant."""
        if self.host.granter:
            self.host.granter.expire()
        now = self.host.net.now
        late = [got for got in self.flows.values() if got.waiting and got.due == now]
        for got in sorted(late, key=lambda got: got.turn):
            arrived, last = got.waiting[-1]
            self.answer(got, last, now - arrived)

    def answer(self, got: Got, last: Packet, waited: int = 0) -> None:
        """Acknowledge all packets of a flow that have arrived, with the marks and entropy of the last one."""
        answer = self.host.control_packet(last.flow, last.flow.origin, last.lane, "answer")
        answer.becn, answer.validated, answer.severity = last.fecn, last.validated, last.severity
        answer.answers, answer.entropy = last, last.entropy
        answer.covers = sum(packet.payload for _, packet in got.waiting)
        answer.covered_size, answer.waited = got.size, waited
        if self.host.recovery:
            answer.missing, answer.earlier = self.host.recovery.report(last.flow)
        got.waiting = []
        self.host.reply(answer)
