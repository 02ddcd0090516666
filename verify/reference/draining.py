"""Input buffers of hosts whose rates change: queues that are followed event by event."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from verify.reference.network import Network


@dataclass
class Entry:
    """A packet in the buffer, the time at which its head arrived, and the bytes that remain."""

    head: int
    left: Fraction
    leave: Callable[[], None]


class InputBuffer:
    """A queue of packets, whose first one drains at the present rate.

    A packet begins to drain when its head has arrived and the packet before it has left, and leaves when its
    last byte has been drained and its tail has arrived, in whole picoseconds. What the last picosecond does
    not drain is added to the next packet.
    """

    def __init__(self, net: Network, pace: Fraction) -> None:
        self.net = net
        self.waiting: deque[Entry] = deque()
        #: The times at which the rate changed, with the picoseconds per byte from then on; `None` in a stall.
        self.paces: list[tuple[int, Fraction | None]] = [(0, pace)]
        #: The time until which the bytes of the first packet are counted.
        self.counted = 0
        #: The bytes that the packets before have left over.
        self.rest = Fraction(0)
        #: The time at which the last packet had been drained.
        self.free_at = 0
        self.plans = 0

    def is_draining(self) -> bool:
        """Return whether packets that have arrived are being drained."""
        return bool(self.waiting)

    def add(self, head: int, size: int, leave: Callable[[], None]) -> None:
        """Store a packet whose tail arrives now, and whose head arrived at `head`."""
        self.waiting.append(Entry(head, Fraction(size), leave))
        if len(self.waiting) == 1:
            self.begin()

    def begin(self) -> None:
        """Begin to drain the first packet."""
        first = self.waiting[0]
        first.left += self.rest
        self.rest = Fraction(0)
        self.counted = max(first.head, self.free_at)
        self.follow()

    def change(self, pace: Fraction | None) -> None:
        """Drain at another rate from now on."""
        if pace == self.paces[-1][1]:
            return
        self.paces.append((self.net.now, pace))
        if self.waiting:
            self.follow()

    def follow(self) -> None:
        """Count what has been drained before the present rate, and plan the end of the first packet."""
        first, last = self.waiting[0], len(self.paces) - 1
        for number, (_, pace) in enumerate(self.paces):
            end = None if number == last else self.paces[number + 1][0]
            if end is not None and end <= self.counted:
                continue
            if pace is not None:
                done = self.counted + floor(first.left * pace)
                if end is None or done <= end:
                    self.plan(done, first.left - (done - self.counted) / pace if pace else Fraction(0))
                    return
            if end is None:
                # The host stalls.
                self.plans += 1
                return
            if pace is not None:
                first.left -= (end - self.counted) / pace
            self.counted = end

    def plan(self, done: int, rest: Fraction) -> None:
        """Let the first packet leave at `done`, unless the rate changes before."""
        self.plans += 1
        number = self.plans

        def end() -> None:
            if number != self.plans:
                return
            self.free_at, self.rest = done, rest
            leave = self.waiting.popleft().leave
            if self.waiting:
                self.begin()
            leave()

        self.net.at(max(done, self.net.now), end, rank=(0, 1))
