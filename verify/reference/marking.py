"""The state of an output port that FECN marking looks at."""

from __future__ import annotations

from dataclasses import dataclass, field

from verify.parts import Marking
from verify.reference.streams import Stream


@dataclass(frozen=True)
class Fill:
    """What waits for an output's lane: bytes in all queues, and in that of `port` (0: none) that changed.

    `asking` counts the inputs with someone whose turn may come.
    """

    total: int
    queue: int
    port: int
    asking: int


@dataclass
class PortState:
    """The congestion manager of one output port's lane."""

    rule: Marking | None
    masked: bool
    random: Stream
    over: set[int | str] = field(default_factory=set)
    congested: bool = False
    eligible: int = 0

    def fill_changed(self, fill: Fill, is_root: bool) -> None:
        """Hold the fill of the queues that feed the port against the thresholds.

        A watched fill is over from above the upper threshold until at or below the lower one.
        The state lasts as long as one is; only a root may enter it, or a masked port.
        """
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
            # No single queue has changed.
            pass
        elif waiting * share > self.rule.upper:
            self.over.add(watched)
        elif waiting * share <= self.rule.lower:
            self.over.discard(watched)
        self.congested = bool(self.over) and (self.congested or is_root or self.masked)

    def marks(self, size: int) -> bool:
        """Tell whether a packet that leaves now is marked: so many of so many eligible ones."""
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
