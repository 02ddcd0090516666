"""The state of an output port on which marking depends."""

from __future__ import annotations

from dataclasses import dataclass, field

from verify.parts import Marking, SampledMarking
from verify.rdma import RedMarking
from verify.reference.streams import Stream


def severity(total: int, before: int, set_point: int, weight: int) -> int:
    """Return quantized feedback from 0 to 63; it is 63 if a queue grew from zero to twice the set point."""
    worst = max(set_point, 1) * (1 + 2 * weight)
    return min(max(total - set_point + weight * (total - before), 0), worst) * 63 // worst


class Sampler:
    """The congestion point of one lane of an output port."""

    def __init__(self, rule: SampledMarking, random: Stream) -> None:
        self.rule, self.random = rule, random
        self.before = self.last = self.arrived = 0
        self.due = self.draw()

    def draw(self) -> int:
        """Draw the number of bytes up to the next sample."""
        mean = self.rule.sample // (1 + self.last // 8)
        most = mean * self.rule.jitter_percent // 100
        return mean - most + self.random.below(2 * most + 1)

    def takes(self, size: int, total: int) -> int:
        """Count a packet that has arrived, and return the severity of its mark, or zero."""
        self.arrived += size
        if self.arrived < self.due:
            return 0
        self.last = severity(total, self.before, self.rule.set_point, self.rule.weight)
        self.before, self.arrived = total, 0
        self.due = self.draw()
        return self.last


@dataclass(frozen=True)
class Fill:
    """The bytes that wait for a lane of an output: in all queues, and in that of the changed input `port`.

    `port` is 0 if no single queue has changed. `asking` is the number of inputs with packets whose turn may
    come.
    """

    total: int
    queue: int
    port: int
    asking: int


@dataclass
class PortState:
    """The congestion manager of one lane of an output port."""

    rule: Marking | None
    masked: bool
    random: Stream
    over: set[int | str] = field(default_factory=set)
    congested: bool = False
    eligible: int = 0
    total: int = 0
    marked_at: int = 0

    def fill_changed(self, fill: Fill, is_root: bool) -> None:
        """Compare the fill of the queues that feed the port with the thresholds.

        A fill is high after it has exceeded the upper threshold, until it is at or below the lower threshold.
        The port becomes congested if a fill is high and the port is a root or masked. It stays congested
        while a fill is high.
        """
        self.total = fill.total
        if self.rule is None or self.rule.is_off:
            return
        share = 1
        watched: int | str = "sum"
        waiting = fill.total
        if self.rule.fill == "each":
            watched, waiting = fill.port, fill.queue
        elif self.rule.fill == "sum-per-input":
            share = max(fill.asking, 1)
        if watched == 0:
            # No individual queue has changed.
            pass
        elif waiting * share > self.rule.upper:
            self.over.add(watched)
        elif waiting * share <= self.rule.lower:
            self.over.discard(watched)
        self.congested = bool(self.over) and (self.congested or is_root or self.masked)

    def severity(self) -> int:
        """Return the severity of a mark that is set now (1 to 63), and store the fill for the next mark."""
        assert self.rule
        found = max(severity(self.total, self.marked_at, self.rule.upper, 2), 1)
        self.marked_at = self.total
        return found

    def marks(self, size: int, *, is_control: bool) -> bool:
        """Count a packet that leaves now, and return whether the share of marked packets marks it."""
        if self.rule is None or not self.congested or size < self.rule.smallest:
            return False
        marked, of = self.rule.share
        if self.rule.is_random:
            return marked == of or self.random.chance(marked, of)
        self.eligible += marked
        if self.eligible < of:
            return False
        self.eligible -= of
        return True


class RedState(PortState):
    """A lane of an output port on which packets are marked by the bytes that wait for it."""

    #: The share that represents all packets.
    one = 2**24

    def __init__(self, red: RedMarking, random: Stream) -> None:
        super().__init__(None, masked=False, random=random)
        self.red = red
        self.due = 0

    def share(self) -> int:
        """Return the share of packets that are marked at the current fill, in units of 1 / `one`."""
        excess, span = self.total - self.red.least, self.red.most - self.red.least
        if excess > span:
            return self.one
        return self.red.percent * excess * self.one // (100 * span) if excess > 0 else 0

    def marks(self, size: int, *, is_control: bool) -> bool:
        """Return whether a packet that leaves now is marked. Control packets are never marked."""
        if is_control:
            return False
        share = self.share()
        if not self.red.is_regular:
            return share == self.one or (share > 0 and self.random.bits() >> 8 < share)
        self.due += share
        is_due = self.due >= self.one
        self.due -= self.one * is_due
        return is_due
