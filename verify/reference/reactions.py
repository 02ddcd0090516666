"""The reactions of sources to marks that return: when a flow may send its next packet."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isqrt
from typing import TYPE_CHECKING

from verify.parts import QcnReaction, Reaction, WindowReaction
from verify.reference.streams import Stream

if TYPE_CHECKING:
    from verify.reference.links import Hop, Packet
    from verify.reference.network import Network

#: The lowest rate of AIMD and FIMD, in the unit of their rates.
ONE = 2**16
#: The maximum pause between two packets of a flow with MVCM, in picoseconds.
LONGEST_WAIT = 10**12


@dataclass(frozen=True)
class Answer:
    """An answer to a data packet of a flow, with its mark, times and telemetry."""

    mark: str
    now: int
    severity: int
    #: The time at which the host began to send the packet, and the bytes on the wire that the answer covers.
    sent_at: int
    size: int
    hops: tuple[Hop, ...]


@dataclass(frozen=True)
class Loss:
    """A lost packet: when the source is informed, when it was sent, and its bytes on the wire.

    `at_last` is whether it was lost at the last output.
    """

    now: int
    sent_at: int
    size: int
    at_last: bool
    #: Whether an answer to the packet reports its loss.
    is_answer: bool = True


class Control:
    """The control of a flow, or of a service level at a host. This base class never throttles."""

    def __init__(self) -> None:
        self.last_end, self.last_size = 0, 0
        #: Bytes of the next packet of the flow, which the host sets.
        self.next_size = 0

    def eligible_at(self, now: int) -> int | None:
        """Return the earliest start of the next packet, not before `now`.

        `None` if an answer must arrive first.
        """
        return now

    def sent(self, end: int, size: int) -> None:
        """Record a packet of `size` bytes whose tail leaves the host at `end`."""
        self.last_end, self.last_size = end, size

    def leaves(self, packet: Packet, now: int, end: int) -> None:
        """Record a packet that the host begins to send."""
        self.sent(end, packet.size)

    def next_timer(self) -> int | None:
        """Return when time alone may throttle the flow next; `None` if it does not."""
        return None

    def end_speculation(self) -> int:
        """Record the arrival of an acknowledgement. Return the target to request, or zero."""
        return 0

    def take_answer(self, answer: Answer) -> None:
        """Process an answer with all its content."""
        self.answered(answer.mark, answer.now, answer.severity)

    def answered(self, mark: str, now: int, severity: int = 0) -> None:
        """Process the mark of an answer: `cold` (no mark), `warm` (a mark that was not validated) or `hot`.

        The severity of a mark is 0 if the mark is one bit.
        """

    def lose(self, loss: Loss) -> int:
        """Process the loss of a packet that the host sends again. Return the target to request, or zero."""
        return 0

    def arrived(self, size: int) -> None:
        """Record that a packet has arrived whose answer was lost."""

    def restarted(self) -> None:
        """Record a message that enters the flow's empty queue."""

    def queued(self, size: int) -> int:
        """Record a message of this size on the wire, and return the target to request, or zero."""
        return 0

    def wanted(self, size: int, flows: int = 1) -> int:
        """Return the target that a packet of this size carries while `flows` flows may send, or zero."""
        return 0

    def must_ask(self, size: int) -> bool:
        """Return whether a packet of this size must request an answer."""
        return False

    def take(self, granted: int) -> None:
        """Process a grant."""

    def missing_grant(self) -> int:
        """Return the target to request again while the flow waits for a grant, or zero."""
        return 0

    def strength(self, now: int) -> int:
        """Return the degree of throttling, in a unit of the reaction. Zero means no throttling."""
        return 0


class TableControl(Control):
    """InfiniBand's reaction: the index into a table of delays. It rises with BECNs and falls with time."""

    def __init__(self, reaction: Reaction, pace: Fraction, full: int, phase: int) -> None:
        super().__init__()
        self.reaction, self.full, self.phase = reaction, full, phase
        self.delays = reaction.delays_ps[pace]
        self.index, self.since = reaction.lowest, 0

    def expiries(self, now: int) -> int:
        """Return how often the timer has expired."""
        return (now + self.phase) // self.reaction.period_ps

    def strength(self, now: int) -> int:
        """Return the index.

        Each expiry since the last notification decrements it by one, down to its minimum.
        """
        lowest = self.reaction.lowest
        return max(self.index - (self.expiries(now) - self.since), min(self.index, lowest))

    def due(self, now: int) -> int:
        """Return when the next packet may start with the current index."""
        return self.last_end + self.delays[self.strength(now)] * self.last_size // self.full

    def eligible_at(self, now: int) -> int | None:
        """Return when the next packet may start, if timers reduce the index until then."""
        time = now
        while (due := self.due(time)) > time:
            expiry = (self.expiries(time) + 1) * self.reaction.period_ps - self.phase
            if due <= expiry or self.strength(time) <= self.reaction.lowest:
                return due
            time = expiry
        return time

    def answered(self, mark: str, now: int, severity: int = 0) -> None:
        """Increase the index for a BECN."""
        if mark == "hot":
            by = max(self.reaction.increase, -(-severity * self.reaction.quantized_increase // 63))
            self.index = min(self.strength(now) + by, self.reaction.limit)
            self.start_anew(now)
            self.since = self.expiries(now)

    def start_anew(self, now: int) -> None:
        """Restart the timer at a BECN, if the reaction requires this."""
        if self.reaction.is_restarted:
            self.phase = -now


class QcnControl(Control):
    """QCN: a rate that marks reduce and that recovers in cycles of bytes and of time."""

    #: The rate of a link in the units of this class.
    line = 2**30

    def __init__(self, reaction: QcnReaction, pace: Fraction) -> None:
        super().__init__()
        self.reaction, self.pace = reaction, pace
        link = Fraction(8 * 10**12) / pace
        rates = (reaction.min_rate, reaction.active, reaction.hyper)
        self.least, self.active, self.hyper = (
            min(max(int(rate * self.line / link), 1), self.line) for rate in rates
        )
        self.let_go()

    def let_go(self) -> None:
        """End the throttling of the flow."""
        self.rate = self.target = self.line
        self.cycle_ends: int | None = None
        self.start_cycles()

    def start_cycles(self) -> None:
        """Restart the count of cycles."""
        self.byte_cycles = self.time_cycles = 0
        self.cycle_left = self.reaction.cycle_bytes

    def pass_time(self, now: int) -> None:
        """End the cycles of time that are over."""
        while self.cycle_ends is not None and self.cycle_ends <= now:
            self.time_cycles += 1
            is_late = self.time_cycles >= self.reaction.cycles
            self.cycle_ends += max(self.reaction.cycle_ps // (2 if is_late else 1), 1)
            self.recover()

    def recover(self) -> None:
        """Raise the rate at the end of a cycle."""
        # The simulator stores each count in one byte.
        cycles = sorted(min(count, 255) for count in (self.byte_cycles, self.time_cycles))
        beyond = [count - self.reaction.cycles for count in cycles]
        if 1 in (self.byte_cycles, self.time_cycles) and self.target > 10 * self.rate:
            self.target = max(self.target // 8, self.rate)
        elif beyond[0] > 0:
            self.target = min(self.target + self.hyper * beyond[0], self.line)
        elif beyond[1] > 0:
            self.target = min(self.target + self.active, self.line)
        self.rate += (self.target - self.rate + 1) // 2
        if self.rate >= self.line - self.line // 1024:
            self.let_go()

    def answered(self, mark: str, now: int, severity: int = 0) -> None:
        """Reduce the rate for a mark."""
        if mark != "hot":
            return
        self.pass_time(now)
        if self.byte_cycles or self.time_cycles:
            self.target = self.rate
        slower = self.rate * (128 - (severity or self.reaction.binary_severity)) // 128
        self.rate = min(self.rate, max(slower, self.least))
        self.start_cycles()
        self.cycle_ends = now + self.reaction.cycle_ps

    def sent(self, end: int, size: int) -> None:
        """Record a packet. Its bytes count toward the current cycle of bytes."""
        super().sent(end, size)
        self.pass_time(end)
        if self.cycle_ends is None:
            return
        self.cycle_left -= size
        if self.cycle_left <= 0:
            self.byte_cycles += 1
            is_late = self.byte_cycles >= self.reaction.cycles
            self.cycle_left = max(self.reaction.cycle_bytes // (2 if is_late else 1), 1)
            self.recover()

    def eligible_at(self, now: int) -> int | None:
        """Return when the next packet may start, if timers raise the rate until then."""
        later, time = copy(self), now
        while True:
            later.pass_time(time)
            span = ceil(later.last_size * later.pace)
            due = max(later.last_end + span * (later.line - later.rate) // later.rate, time)
            if later.cycle_ends is None or due <= later.cycle_ends:
                return due
            time = later.cycle_ends

    def strength(self, now: int) -> int:
        """Return the rate of the link divided by that of the flow, rounded down, minus 1."""
        later = copy(self)
        later.pass_time(now)
        return later.line // later.rate - 1


class WindowControl(Control):
    """A static window, which limits the number of packets without an answer."""

    def __init__(self, reaction: WindowReaction, pace: Fraction) -> None:
        super().__init__()
        self.reaction, self.pace = reaction, pace
        self.window, self.unanswered = reaction.window, 0

    def eligible_at(self, now: int) -> int | None:
        """Return `now` if the window is open, and otherwise `None`."""
        return now if self.unanswered < self.window else None

    def sent(self, end: int, size: int) -> None:
        """Record a packet that has no answer yet."""
        super().sent(end, size)
        self.unanswered += 1

    def answered(self, mark: str, now: int, severity: int = 0) -> None:
        """Record that a packet has been answered."""
        self.unanswered = max(self.unanswered - 1, 0)

    def lose(self, loss: Loss) -> int:
        """Record that a packet no longer needs an answer."""
        self.unanswered = max(self.unanswered - 1, 0)
        return 0

    def arrived(self, size: int) -> None:
        """Record that a packet no longer needs an answer."""
        self.unanswered = max(self.unanswered - 1, 0)


class PauseControl(WindowControl):
    """A window, and a pause after each packet."""

    def eligible_at(self, now: int) -> int | None:
        """Return the end of the pause after the last packet; `None` if the window is closed."""
        return None if super().eligible_at(now) is None else max(now, self.last_end + self.pause())

    def pause(self) -> int:
        """Return the pause after the last packet."""
        raise NotImplementedError


class RateControl(PauseControl):
    """AIMD and FIMD: a rate between that of the link and a small part of it."""

    def __init__(self, reaction: WindowReaction, pace: Fraction) -> None:
        super().__init__(reaction, pace)
        self.rate = reaction.slowest * ONE

    def pause(self) -> int:
        """Return the pause after the last packet at the current rate."""
        full, span = self.reaction.slowest * ONE, ceil(self.last_size * self.pace)
        return span * (full - self.rate) // self.rate

    def answered(self, mark: str, now: int, severity: int = 0) -> None:
        """Change the rate. A mark divides the rate by the factor m.

        An answer without a mark adds the lowest rate, or with FIMD multiplies the rate by m^(lowest / rate).
        """
        super().answered(mark, now, severity)
        if mark == "hot":
            self.rate = max(self.rate // self.reaction.factor, ONE)
        elif mark == "cold":
            faster = self.rate + ONE
            if self.reaction.kind == "fimd":
                faster = self.rate * power(self.reaction.factor, ONE * ONE // self.rate) // ONE
            self.rate = min(faster, self.reaction.slowest * ONE)

    def strength(self, now: int) -> int:
        """Return the rate of the link divided by that of the flow, rounded down, minus 1."""
        return self.reaction.slowest * ONE // self.rate - 1


def power(base: int, exponent: int) -> int:
    """Return base^exponent for exponents up to one. Exponent and result are in units of 1 / `ONE`.

    The result is the product of roots of the base whose exponents add up to the exponent, in units of 2^-32.
    """
    if exponent >= ONE:
        return base * ONE
    root, result = base << 32, 1 << 32
    for bit in range(15, -1, -1):
        root = isqrt(root << 32)
        if exponent >> bit & 1:
            result = result * root >> 32
    return result >> 16


class DelayControl(PauseControl):
    """LIPD, which adds a delay for each mark and removes one for each answer without a mark."""

    delays = 0

    def pause(self) -> int:
        """Return the sum of the delays."""
        return self.delays * self.reaction.step_ps

    def answered(self, mark: str, now: int, severity: int = 0) -> None:
        """Add or remove a delay."""
        super().answered(mark, now, severity)
        if mark == "hot":
            self.delays = min(self.delays + 1, self.reaction.limit or 0)
        elif mark == "cold":
            self.delays = max(self.delays - 1, 0)

    def strength(self, now: int) -> int:
        """Return the number of delays."""
        return self.delays


class SlotControl(PauseControl):
    """MVCM: a window that closes with marks, then waiting slots: 0, 1, k, k^2, ..."""

    slots = raises = 0

    def pause(self) -> int:
        """Return the duration of the slots."""
        return self.slots * self.reaction.step_ps

    def answered(self, mark: str, now: int, severity: int = 0) -> None:
        """Reduce the window for a mark, or add waiting slots if the window is one packet.

        Without a mark, remove the slots, or open the window if there are none.
        """
        super().answered(mark, now, severity)
        if mark == "warm" and not self.reaction.hears_warm:
            mark = "cold"
        if mark != "cold" and self.window > 1:
            self.window -= 1
        elif mark == "hot" and (self.reaction.limit is None or self.raises < self.reaction.limit):
            most = max(LONGEST_WAIT // self.reaction.step_ps, 1)
            self.slots = min(self.slots * self.reaction.factor, most) if self.slots else 1
            self.raises += 1
        elif mark == "cold" and self.slots:
            self.slots = self.raises = 0
        elif mark == "cold":
            self.window = min(self.window + 1, self.reaction.window)

    def restarted(self) -> None:
        """Reset the window and the slots, if all packets have been answered."""
        if not self.unanswered:
            self.window, self.slots, self.raises = self.reaction.window, 0, 0
            self.last_end = 0

    def strength(self, now: int) -> int:
        """Return the number of slots."""
        return min(self.slots, 2**16 - 1)


KINDS = {
    "static-window": WindowControl,
    "aimd": RateControl,
    "fimd": RateControl,
    "lipd": DelayControl,
    "mvcm": SlotControl,
}


def control(net: Network, host: str, level: int, pace: Fraction) -> Control:
    """Return the control of a flow or service level at a host. `pace` is that of the host's link."""
    from verify.rdma import RcccReaction
    from verify.reference import credits, rdma

    reaction = net.plan.congestion.at(host).reaction
    if reaction is None:
        return Control()
    if isinstance(reaction, QcnReaction):
        return QcnControl(reaction, pace)
    if isinstance(reaction, WindowReaction):
        return KINDS[reaction.kind](reaction, pace)
    if isinstance(reaction, RcccReaction):
        return credits.RcccControl(reaction, pace)
    if not isinstance(reaction, Reaction):
        return rdma.control(reaction, pace)
    # The timer of each service level has a separate random phase. The phases are drawn in order.
    stream = Stream(net.plan.seed, "ccti timer", net.plan.wiring.hosts.index(host))
    drawn = [stream.bits() for _ in range(16)][level]
    return TableControl(reaction, pace, net.plan.full, reaction.period_ps * drawn >> 32)
