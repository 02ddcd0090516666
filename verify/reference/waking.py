"""Hosts that schedule their own attempts to send.

Such a host makes an attempt when its link is free and packets wait for it, when the next packet may be
injected, when a message or a probe is due, when lacking credit has returned, and when it has received an
answer. A scheduled attempt is made even if the host has lacked credit since. A packet that follows the last
packet of a message, such as a tear-down, therefore waits for the injection limit, unless the host receives an
answer before.
"""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

from verify.reference.hosts import Host
from verify.reference.links import Packet
from verify.reference.sources import Source

if TYPE_CHECKING:
    from verify.reference.network import Network


class WakingHost(Host):
    """A host without an output buffer."""

    def __init__(self, net: Network, name: str) -> None:
        super().__init__(net, name)
        self.wake_at: int | None = None

    def add(self, source: Source) -> None:
        """Add a source."""
        super().add(source)
        self.wake(0, floor(source.next_due))

    def wake(self, port: int, time: int) -> None:
        """Schedule an attempt to send, unless an earlier one is scheduled."""
        if self.wake_at is not None and self.wake_at <= time:
            return
        self.wake_at = time

        def wakes() -> None:
            if self.wake_at == self.net.now:
                self.wake_at = None
                self.is_asked = True

        self.net.at(time, wakes)

    def credit_is_back(self, port: int) -> None:
        """Request an attempt to send."""
        self.is_asked = True

    def receive(self, packet: Packet, head: int) -> None:
        """Process a packet. An answer, or a packet that is answered, causes an attempt to send."""
        before = self.answers
        super().receive(packet, head)
        is_other = packet.is_control and packet.kind not in ("request", "answer")
        heard = is_other and (packet.becn or self.congestion.has_windows)
        self.is_asked |= heard or self.answers > before

    def heard(self) -> None:
        """Request an attempt to send."""
        self.is_asked = True

    def has_credit(self, packet: Packet) -> bool:
        """Return whether a packet can be sent. If not, an attempt is scheduled for when it can."""
        return self.out.has_credit_or_wait(packet)

    def decide(self) -> None:
        """Try to send, if there is a reason."""
        if not self.is_asked:
            return
        self.reopen_changed()
        if not self.is_stopped:
            self.attempt()
        self.windows.wake()

    def attempt(self) -> None:
        """Send what may be sent now."""
        self.is_asked = False
        if self.announcer:
            self.announcer.send_probes()
        self.settle()

    def settle(self) -> None:
        """Send one packet if possible: a control packet, or a packet of a flow."""
        now = self.net.now
        if self.out.free_at > now:
            self.wake(0, self.out.free_at)
            return
        lacking: dict[int, int] = {}
        if any(self.control.values()) and not self.may_inject_control():
            self.wake(0, self.passed_at)
            return
        if self.send_oldest_control(lacking):
            self.wake(0, self.out.free_at)
            return
        if len(lacking) == self.net.plan.lanes.count:
            return
        if self.injection.free_at > now:
            self.wake(0, self.injection.free_at)
            return
        attempt = self.draw_and_send(lacking)
        # Flows whose messages were just generated may have queued announcements.
        if attempt != "sent" and self.send_oldest_control(lacking):
            self.wake(0, self.out.free_at)
            return
        times = self.next_looks(has_sent=attempt == "sent")
        if times and (attempt == "sent" or (attempt == "idle" and min(times) > now)):
            self.wake(0, max(min(times), self.out.free_at, self.injection.free_at))

    def send_oldest_control(self, lacking: dict[int, int]) -> bool:
        """Send the oldest control packet among the first ones of the lanes with credit, if there is one."""
        first = [waiting[0] for waiting in self.control.values() if waiting]
        for _, packet in sorted(first, key=lambda waits: waits[0]):
            if packet.lane in lacking:
                continue
            if self.out.has_credit_or_wait(packet):
                self.control[packet.lane].popleft()
                self.leaves_as_control(packet)
                self.out.send(packet)
                return True
            lacking[packet.lane] = packet.space
        return False

    def leaves_as_control(self, packet: Packet) -> None:
        """Let a control packet that starts on the link pass the injection limit."""
        self.inject_control(packet)

    def next_looks(self, *, has_sent: bool) -> list[int]:
        """Return the times at which a packet may be ready, as determined when flows began to wait."""
        if has_sent and (self.ring or self.held or any(self.control.values())):
            return [self.net.now]
        due = [self.next_draw(source) for source in self.sources]
        probes = [time for time, _, _ in self.announcer.probes] if self.announcer else []
        released = [time for time, _ in self.waiting]
        return [time for time in due if time is not None] + released + probes
