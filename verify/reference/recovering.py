"""Loss recovery at hosts: packets are stored until they are answered, and sent again after a timeout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from verify.reference.links import Packet

if TYPE_CHECKING:
    from verify.reading import RecoveryPlan
    from verify.reference.hosts import Flow, Host


class Recovery:
    """The packets that a host has sent and that are not answered, and the numbers that it has received."""

    def __init__(self, host: Host, rule: RecoveryPlan) -> None:
        self.host, self.rule = host, rule
        #: For each flow, the packets that are not acknowledged, and the times at which they were sent.
        self.sent: dict[Flow, dict[int, tuple[Packet, int]]] = {}
        #: For each received flow, the numbers that have arrived. `asked` has the flows whose missing packet
        #: was requested.
        self.arrived: dict[Flow, set[int]] = {}
        self.asked: set[Flow] = set()
        #: For each flow, all packets in the order of sending, with the times of sending, the number of them
        #: whose fate is clear, the highest place of an acknowledged one, and the numbers that other
        #: acknowledgements report.
        self.order: dict[Flow, list[tuple[int, int]]] = {}
        self.judged: dict[Flow, int] = {}
        #: The number of packets that were looked up in the reports of other acknowledgements.
        self.looked: dict[Flow, int] = {}
        self.highest: dict[Flow, int] = {}
        self.reported: dict[Flow, set[int]] = {}
        #: The times at which flows that wait for a grant request it again.
        self.waits: dict[Flow, int] = {}

    def keep(self, flow: Flow, packet: Packet) -> None:
        """Store a packet that is being sent, and start its timeout."""
        now = self.host.net.now
        self.sent.setdefault(flow, {})[packet.number] = packet, now
        self.order.setdefault(flow, []).append((packet.number, now))
        self.host.at_timer(now + self.rule.timeout_ps, lambda: self.expire(flow, packet.number, now))

    def expire(self, flow: Flow, number: int, sent_at: int) -> None:
        """Send a packet again after a timeout, unless it is acknowledged or was sent again since."""
        if self.host.is_stopped:
            return
        if self.is_out(flow, number, sent_at):
            if number in self.reported.get(flow, ()):
                self.host.settled(flow, number, by_others=True)
                return
            self.host.net.timeouts += 1
            self.repeat(flow, number)

    def is_out(self, flow: Flow, number: int, sent_at: int) -> bool:
        """Return whether the copy of a packet that was sent at a time is not acknowledged."""
        return self.sent.get(flow, {}).get(number, (None, -1))[1] == sent_at

    def before(self, packet: Packet) -> frozenset[int]:
        """Return which of the 64 packets before a packet have arrived."""
        arrived = self.arrived.get(packet.flow, set())
        return frozenset(one for one in range(packet.number - 64, packet.number) if one in arrived)

    def report(self, flow: Flow) -> tuple[int, frozenset[int]]:
        """Return the first missing packet of a received flow, and those of the 65 up to the newest one."""
        arrived = self.arrived[flow]
        missing = next(one for one in range(len(arrived) + 1) if one not in arrived)
        newest = max(arrived)
        return missing, frozenset(one for one in range(newest - 64, newest + 1) if one in arrived)

    def take_report(self, ack: Packet) -> list[Packet]:
        """Process an acknowledgement of several packets, and return those that were outstanding.

        If its packet has waited for it, it does not tell exactly when the packet was sent: the last time
        before that counts.
        """
        assert ack.answers
        kept = self.sent.get(ack.flow, {})
        known, echoed = ack.earlier | {ack.answers.number}, ack.answers.injected + ack.waited
        last_sent = kept.get(ack.answers.number, (None, -1))[1]
        ack.sent_at = last_sent if 0 <= last_sent <= echoed else echoed
        return [kept.pop(one)[0] for one in sorted(kept) if one < ack.missing or one in known]

    def find_gaps(self, flow: Flow, packet: Packet, earlier: frozenset[int], last_sent: int) -> None:
        """Process what the acknowledgement of a packet that was sent at `last_sent` says about others."""
        order, judged = self.order[flow], self.judged.get(flow, 0)
        if (packet.number, last_sent) in order:
            place = order.index((packet.number, last_sent))
            self.highest[flow] = max(self.highest.get(flow, -1), place)
        if not self.sent.get(flow) and not flow.lost:
            # All packets have been acknowledged.
            self.judged[flow] = self.looked[flow] = len(order)
            self.reported[flow] = set()
            return
        self.reported.setdefault(flow, set()).update(earlier)
        looked = self.looked.get(flow, 0)
        self.looked[flow] = max(self.highest.get(flow, -1) - 16 + 1, looked)
        for number, sent_at in order[looked : self.looked[flow]]:
            if self.is_out(flow, number, sent_at) and number in self.reported[flow]:
                self.host.settled(flow, number, by_others=True)
        end = self.highest.get(flow, -1) - self.rule.reordering + 1
        for number, sent_at in order[judged : max(end, judged)]:
            self.judged[flow] = self.judged.get(flow, 0) + 1
            if not self.is_out(flow, number, sent_at):
                continue
            if number in self.reported[flow]:
                self.host.settled(flow, number, by_others=True)
            else:
                self.host.net.overtaken += 1
                self.repeat(flow, number)

    def repeat(self, flow: Flow, number: int) -> None:
        """Send a packet again, and with go-back-N all unacknowledged packets after it."""
        kept = self.sent.get(flow, {})
        if self.rule.goes_back:
            missing = sorted(one for one in kept if one >= number)
        else:
            missing = [number] if number in kept else []
        if missing:
            self.host.send_again([kept.pop(one)[0] for one in missing])

    def await_grant(self, flow: Flow) -> None:
        """Let a flow that waits for a grant request it again after the timeout."""
        if flow.control.missing_grant() and flow not in self.waits:
            self.waits[flow] = time = self.host.net.now + self.rule.timeout_ps
            self.host.at_timer(time, lambda: self.host.at_timer(time, lambda: self.ask_again(flow, time)))

    def ask_again(self, flow: Flow, time: int) -> None:
        """Request a grant again, unless one has arrived. The request follows packets that are sent again."""
        if self.host.is_stopped or self.waits.get(flow) != time:
            return
        del self.waits[flow]
        self.host.ask(flow, flow.control.missing_grant(), is_repeated=True)
        self.host.is_asked = True
        self.await_grant(flow)

    def granted(self, flow: Flow) -> None:
        """Record a grant, and schedule the repetition of the next request."""
        self.waits.pop(flow, None)
        self.await_grant(flow)

    def settle(self, flow: Flow, number: int) -> tuple[bool, list[Packet]]:
        """Process an acknowledgement.

        Return whether its packet was outstanding, and the other packets that it acknowledges.
        """
        kept = self.sent.get(flow, {})
        earlier = sorted(one for one in kept if one < number) if self.rule.goes_back else []
        was_outstanding = kept.pop(number, None) is not None
        return was_outstanding, [kept.pop(one)[0] for one in earlier]

    def take_receipt(self, receipt: Packet) -> None:
        """Process a receipt. If it has the validation bit, it requests a packet."""
        flow, number = receipt.flow, receipt.number
        if not receipt.validated:
            self.host.settled(flow, number)
            return
        if number > 0:
            self.host.settled(flow, number - 1)
        self.repeat(flow, number)

    def take(self, packet: Packet) -> tuple[bool, bool]:
        """Process a data packet that has arrived. Return whether it is new, and whether it is answered."""
        flow, number = packet.flow, packet.number
        before = self.arrived.setdefault(flow, set())
        expected = next(one for one in range(len(before) + 1) if one not in before)
        if number in before:
            if not self.rule.has_acks:
                self.answer(packet, expected - 1 if self.rule.goes_back else number)
            self.host.net.discarded += 1
            return False, True
        if self.rule.goes_back and number > expected:
            if flow not in self.asked:
                self.asked.add(flow)
                self.answer(packet, expected, asks=True)
            self.host.net.discarded += 1
            return False, False
        before.add(number)
        self.asked.discard(flow)
        if not self.rule.has_acks:
            self.answer(packet, number)
        return True, True

    def answer(self, packet: Packet, number: int, *, asks: bool = False) -> None:
        """Send a receipt, which requests a packet with `asks`."""
        receipt = self.host.control_packet(packet.flow, packet.flow.origin, packet.lane, "receipt")
        receipt.number, receipt.validated = number, asks
        self.host.reply(receipt)
