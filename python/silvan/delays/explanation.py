"""Explanations of messages, jobs and operations: which part was necessary, and what caused the rest.

Times are whole picoseconds. Hosts are numbers in flows, and otherwise names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from silvan import _core


class FlowKey(NamedTuple):
    """A flow: a sending host, the number of a traffic source in it, and a receiving host."""

    host: int
    source: int
    destination: int


class Signal(NamedTuple):
    """What caused a reaction: a packet was marked in a queue, or waited there."""

    #: When it was marked, or joined the queue in which it waited longest, ps.
    ps: int
    #: The channel of the queue.
    queue: str
    is_mark: bool


class Label(str, Enum):
    """What happens at a moment."""

    NECESSARY = "necessary"
    OUTPUT_BUSY = "output-busy"
    HASH_COLLISION = "hash-collision"
    SLOW_LINK = "slow-link"
    SLOW_RECEIVER = "slow-receiver"
    SMALL_BUFFER = "small-buffer"
    INJECTION = "injection"
    PACING = "pacing"
    WINDOW = "window"
    GRANT = "grant"
    ANNOUNCEMENT = "announcement"
    LOSS = "loss"
    LINK_DOWN = "link-down"
    LINK_ERRORS = "link-errors"
    DEADLOCK = "deadlock"
    COMPUTE = "compute"
    OVERHEAD = "overhead"
    LOCAL = "local"
    EARLIER = "earlier"


@dataclass(frozen=True)
class Message:
    """A message whose last packet has been delivered."""

    flow: FlowKey
    #: Its number among the recorded messages of the flow, from 0 on.
    number: int
    #: When it was generated, and when its last packet was delivered, ps.
    start: int
    end: int
    #: Payload.
    bytes: int
    #: The time (ps) that it takes alone on its route, with the usual rates of links.
    ideal: int

    @property
    def delay(self) -> int:
        """Duration beyond the ideal one."""
        return self.end - self.start - self.ideal


class RankTime(NamedTuple):
    """What a rank did in a job or an operation. Times are picoseconds."""

    rank: int
    #: When it posted its first message.
    arrival: int
    #: From then to its last event, the times in which its CPUs were busy, and in which they were not.
    busy: int
    waiting: int


@dataclass(frozen=True)
class Step:
    """A job, or one of its collective operations."""

    #: In words, such as "job step".
    name: str
    start: int
    end: int
    #: The ranks that post messages.
    ranks: tuple[RankTime, ...] = ()


@dataclass(frozen=True)
class Piece:
    """A part of the time of a message, in picoseconds."""

    start: int
    end: int
    label: Label
    #: A channel (one direction of a link), a host, or a rank, by name; empty if it is not known.
    place: str
    #: The flow that used the place; None if that has no meaning.
    owner: FlowKey | None
    #: The channels from the waiting packet to the place.
    chain: tuple[str, ...]
    #: What caused a reaction.
    signal: Signal | None

    @property
    def length(self) -> int:
        """Duration in picoseconds."""
        return self.end - self.start


@dataclass(frozen=True)
class Cause:
    """What caused a part of a delay."""

    label: Label
    #: A channel, a host or a rank, by name; empty if it is not known.
    place: str
    #: Picoseconds.
    ps: int
    #: The flows that used the place meanwhile, with their picoseconds, the largest first.
    owners: tuple[tuple[FlowKey, int], ...]
    #: The channels from the waiting packet to the place; those of the longest wait.
    chain: tuple[str, ...]
    #: What caused a reaction; that of the longest wait.
    signal: Signal | None
    #: How packets were lost: `link-down`, `errors`, `full-buffer` or `trimmed`; None if that is not known.
    loss: str | None = None


def _without_repeats(chain: list[str]) -> tuple[str, ...]:
    """Return a chain without repeats, which are packets that wait behind others of the same input."""
    return tuple(channel for channel, _ in groupby(chain))


@dataclass(frozen=True)
class Explanation:
    """The causes of the duration of a message, a job or an operation. Times are picoseconds."""

    subject: Message | Step
    _found: _core.Explanation

    @property
    def ideal(self) -> int:
        """The duration without delays."""
        return self._found.ideal_ps

    @property
    def duration(self) -> int:
        """Time from the start to the end, for messages from generation to delivery."""
        return self.subject.end - self.subject.start

    @property
    def delay(self) -> int:
        """Duration beyond the ideal one."""
        return self.duration - self.ideal

    @cached_property
    def causes(self) -> tuple[Cause, ...]:
        """The causes by share, the largest first. They and `pipeline` add up to `delay`."""
        return tuple(
            Cause(
                Label(label),
                place,
                ps,
                tuple((FlowKey(*flow), share) for flow, share in owners),
                _without_repeats(chain),
                Signal(*signal) if signal else None,
                loss,
            )
            for label, place, ps, owners, chain, signal, loss in self._found.causes()
        )

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """What happened when, in order, without gaps."""
        return tuple(
            Piece(
                start,
                end,
                Label(label),
                place,
                FlowKey(*owner) if owner else None,
                _without_repeats(chain),
                Signal(*signal) if signal else None,
            )
            for start, end, label, place, owner, chain, signal in self._found.pieces()
        )

    @property
    def whole(self) -> int:
        """What the shares of causes refer to: the delay, or the sum of the causes if that is larger."""
        return max(self.delay, self.delay - self.pipeline)

    @property
    def pipeline(self) -> int:
        """Necessary time beyond the ideal one; negative if transmissions overlap with waits."""
        return self.delay - sum(cause.ps for cause in self.causes)
