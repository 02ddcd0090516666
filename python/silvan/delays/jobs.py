"""Explains how long a job, or one of its collective operations, took: the critical path through its ranks.

The path begins at the operation that ended last, and continues with what it waited for: computation of the
same rank, or a message, and then with the rank that sent the message. A rank that is late because it waited
for another one is therefore not blamed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, replace
from statistics import median_low
from typing import TYPE_CHECKING

from silvan._core import SilvanError
from silvan.delays.causes import Label, Piece
from silvan.delays.explain import Explanation, summed, walk
from silvan.delays.record import NEVER, FlowKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from silvan.delays.explain import Message
    from silvan.delays.subjects import Network


@dataclass(frozen=True)
class Parcel:
    """A message of a rank. Times are picoseconds, or `NEVER`."""

    sender: int
    receiver: int
    bytes: int
    handed: int
    left: int
    delivered: int
    flow: FlowKey


@dataclass(frozen=True)
class Step:
    """A job, or one of its collective operations."""

    #: In words, such as "job step".
    name: str
    start: int
    end: int


class Ranks:
    """What the ranks of a job did."""

    def __init__(self, network: Network, job: int, name: str) -> None:
        self.network, self.name = network, name
        record = network.record
        self.busy: dict[int, list[tuple[int, int, bool]]] = {}
        for rank, start, end, computes in record.busy(job):
            self.busy.setdefault(rank, []).append((end, start, computes))
        self.arrivals: dict[int, list[tuple[int, Parcel]]] = {}
        self.departures: dict[int, list[tuple[int, Parcel]]] = {}
        for row in record.parcels(job):
            sender, receiver, size, handed, left, delivered, *flow = row
            parcel = Parcel(sender, receiver, size, handed, left, delivered, FlowKey(*flow))
            if parcel.delivered != NEVER:
                self.arrivals.setdefault(parcel.receiver, []).append((parcel.delivered, parcel))
            if parcel.left != NEVER:
                self.departures.setdefault(parcel.sender, []).append((parcel.left, parcel))
        for rows in self.busy.values():
            rows.sort()
        for events in (*self.arrivals.values(), *self.departures.values()):
            events.sort(key=lambda event: event[0])
        self.messages: dict[FlowKey, dict[int, Message]] = {}

    def first(self) -> int:
        """Return when a rank first computed or posted a message."""
        starts = [start for rows in self.busy.values() for _, start, _ in rows]
        handed = [parcel.handed for rows in self.departures.values() for _, parcel in rows]
        return min([*starts, *handed], default=0)

    def last(self, until: int) -> tuple[int, int]:
        """Return the time and the rank of the last event until a time.

        Raises :class:`SilvanError` if there is none.
        """
        found = []
        for events in (self.busy, self.arrivals):
            for rank, rows in events.items():
                at = bisect_right(rows, until, key=lambda row: row[0])
                if at:
                    found.append((rows[at - 1][0], -rank))
        if not found:
            raise SilvanError(f"job {self.name}: no rank did anything before {until / 1000:,.0f} ns")
        time, rank = max(found)
        return time, -rank

    def path(self, start: int, end: int) -> list[Piece]:
        """Divide the time from `start` to the last event before `end` along the critical path."""
        time, rank = self.last(end)
        pieces: list[Piece] = []
        while time > start:
            begin, rank, parts = self._before(rank, time)
            pieces += reversed([piece for piece in parts if piece.end > piece.start])
            time = begin
        clipped = (replace(piece, start=max(piece.start, start)) for piece in pieces[::-1])
        return [piece for piece in clipped if piece.end > piece.start]

    def _before(self, rank: int, time: int) -> tuple[int, int, list[Piece]]:
        """Return where the path continues before a time, with the pieces up to this time."""
        place = self.place(rank)
        for end, start, computes in _at(self.busy.get(rank, []), time):
            label = Label.COMPUTE if computes else Label.OVERHEAD
            return start, rank, [Piece(start, end, label, place)]
        for _, parcel in _at(self.arrivals.get(rank, []), time):
            return parcel.handed, parcel.sender, self._carried(parcel, time)
        for _, parcel in _at(self.departures.get(rank, []), time):
            return parcel.handed, rank, self._carried(parcel, time)
        earlier = [
            rows[at - 1][0]
            for rows in (self.busy.get(rank, []), self.arrivals.get(rank, []), self.departures.get(rank, []))
            if (at := bisect_left(rows, time, key=lambda row: row[0]))
        ]
        begin = max(earlier, default=0)
        return begin, rank, [Piece(begin, time, Label.LOCAL, place)]

    def _carried(self, parcel: Parcel, until: int) -> list[Piece]:
        if parcel.flow not in self.messages:
            found = self.network.messages_of(parcel.flow)
            self.messages[parcel.flow] = {message.start: message for message in found}
        message = self.messages[parcel.flow].get(parcel.handed)
        if message is None:
            host = self.network.hosts[parcel.flow.host]
            return [Piece(parcel.handed, until, Label.EARLIER, host)]
        pieces = walk(message, self.network.causes(message))
        # The earlier messages of the flow belong to the same rank, which could not send this one sooner.
        own = (
            replace(piece, label=Label.NECESSARY)
            if piece.label == Label.OUTPUT_BUSY and piece.owner == parcel.flow
            else piece
            for piece in pieces
        )
        inside = (replace(piece, end=min(piece.end, until)) for piece in own)
        parts = [piece for piece in inside if piece.end > piece.start]
        if parts[-1].end < until:
            # The host passes the message to the rank later.
            parts.append(Piece(parts[-1].end, until, Label.LOCAL, self.place(parcel.receiver)))
        return parts

    def place(self, rank: int) -> str:
        """Return the name of a rank."""
        return f"rank {rank} of {self.name}"

    def usual_computation(self) -> int:
        """Return the median of the times that ranks computed, in ps."""
        sums = [sum(end - start for end, start, computes in rows if computes) for rows in self.busy.values()]
        return median_low(sums) if sums else 0


def _at(rows: list[tuple[int, int, bool]] | list[tuple[int, Parcel]], time: int) -> Iterator[tuple]:  # type: ignore[type-arg]
    """Yield the rows of a time."""
    at = bisect_left(rows, time, key=lambda row: row[0])
    while at < len(rows) and rows[at][0] == time:
        yield rows[at]
        at += 1


def explain(ranks: Ranks, step: Step) -> Explanation:
    """Explain the duration of a job, or of one of its operations.

    Computation counts as a delay as far as the rank computes longer than the median of the ranks. All other
    computation, the overheads of ranks, and the necessary times of messages are the ideal duration.
    """
    pieces = ranks.path(step.start, step.end)
    usual = ranks.usual_computation()
    kept: Counter[str] = Counter()
    found: list[Piece] = []
    for piece in pieces:
        if piece.label in {Label.OVERHEAD, Label.LOCAL}:
            found.append(replace(piece, label=Label.NECESSARY))
        elif piece.label == Label.COMPUTE:
            free = max(usual - kept[piece.place], 0)
            edge = min(piece.start + free, piece.end)
            kept[piece.place] += edge - piece.start
            parts = (replace(piece, end=edge, label=Label.NECESSARY), replace(piece, start=edge))
            found += [part for part in parts if part.end > part.start]
        else:
            found.append(piece)
    causes = tuple(summed(found))
    end = found[-1].end if found else step.start
    ideal = end - step.start - sum(cause.ps for cause in causes)
    return Explanation(replace(step, end=end), tuple(found), ideal, causes)
