"""Follows waits to their causes: which link, host or packet delayed a packet at each moment.

Each function divides an interval into pieces without gaps and overlaps. A piece has one label, so the pieces
of a message add up exactly to its duration.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property, partial

from silvan.delays.record import (
    ANNOUNCEMENT,
    ANSWER,
    ANSWERS,
    NEVER,
    NONE,
    REOPENED,
    FlowKey,
    Record,
)

#: Number of buffers that are followed at most, one behind the other. Longer chains are cycles, because no
#: route is longer.
MOST_HOPS = 64
#: Length of the chain to a place that is reached through a lack of credit.
BEHIND_CREDIT = 2


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
class Piece:
    """A part of the time of a message, in picoseconds."""

    start: int
    end: int
    label: Label
    #: The channel or, for hosts, the host, by name.
    place: str
    #: The flow that used the place; None if that has no meaning.
    owner: FlowKey | None = None
    #: The channels from the waiting packet to the place.
    chain: tuple[str, ...] = ()
    #: The time and the channel of the mark that caused a reaction.
    mark: tuple[int, str] | None = None

    @property
    def length(self) -> int:
        """Duration in picoseconds."""
        return self.end - self.start


Pieces = Iterator[Piece]
#: Divides a time from its start to its end.
Divide = Callable[[int, int], Pieces]


@dataclass
class Causes:
    """Follows the waits of one flow."""

    record: Record
    flow: FlowKey
    #: The usual rate of each channel, Gbit/s.
    usual_rates: list[float]
    #: Names of hosts.
    hosts: list[str]
    #: Other channels that a packet for a host could have used instead, by channel; empty without multiple
    #: paths.
    alternatives: dict[int, list[int]] = field(default_factory=dict)
    #: The times in which links are down, by channel, and those in which hosts are stopped or slow.
    down: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    #: Whether each input of a switch has one queue, so that packets for other outputs may be in front.
    has_one_queue: bool = False
    #: Whether an input sends to one output at a time.
    shares_inputs: bool = False
    #: Whether the reaction asks receivers for permission.
    requests_grants: bool = False
    #: The time of the message that is explained.
    span: tuple[int, int] = (0, NEVER)
    #: The packets of the message that is explained, and those among them that repeat earlier ones.
    own: frozenset[int] = frozenset()
    repeated: frozenset[int] = frozenset()
    _owners: dict[tuple[int, int], FlowKey | None] = field(default_factory=dict)
    _main_causes: dict[tuple[int, int, tuple[str, ...]], Piece] = field(default_factory=dict)

    def busy(self, row: int, start: int, end: int, chain: tuple[str, ...]) -> Pieces:
        """Divide a time in which a packet crosses a channel into the usual time and that due to a slow link.

        If the channel often lacked credit in this period, it had a queue only because of what is behind it,
        so the time is attributed to the cause of the nearest lack of credit.
        """
        gap = None
        if not self._is_own(row, chain) and len(chain) < MOST_HOPS:
            gap = self.record.backlog(int(self.record.channel[row])).blocked_near(row, self.span)
        if gap is None:
            yield from self._busy(row, start, end, chain)
            return
        cause = self._main_cause(int(self.record.channel[row]), gap, chain)
        yield replace(cause, start=start, end=end)

    def _is_own(self, row: int, chain: tuple[str, ...]) -> bool:
        """Return whether a departure is a necessary one of the message.

        A packet of the message that is in front of another one behind a lack of credit is not: the
        transmission of each packet is necessary once, at the place of the walk.
        """
        return len(chain) < BEHIND_CREDIT and int(self.record.packet[row]) in self.own

    def _main_cause(self, channel: int, gap: tuple[int, int], chain: tuple[str, ...]) -> Piece:
        """Return the longest piece of a time in which a channel lacked credit."""
        key = (channel, gap[0], chain)
        if key not in self._main_causes:
            pieces = list(self._idle(channel, None, *gap, chain))
            self._main_causes[key] = max(pieces, key=lambda piece: (piece.length, -piece.start))
        return self._main_causes[key]

    def _busy(self, row: int, start: int, end: int, chain: tuple[str, ...]) -> Pieces:
        departure = self.record.departure(row)
        channel = self.record.channels[departure.channel]
        packet = departure.packet
        is_own = self._is_own(row, chain)
        label = Label.NECESSARY if is_own else Label.OUTPUT_BUSY
        if packet in self.repeated:
            label = Label.LOSS
        elif not is_own and self._collides(departure.channel, start, end):
            label = Label.HASH_COLLISION
        owner = None if packet == NONE else self.data_flow(packet)
        piece = Piece(start, end, label, channel.name, owner, chain)
        span, least = departure.end - departure.start, self.usual_span(row)
        if packet == NONE or span <= least + 1:
            yield piece
            return
        # The first part of the transmission would also have been necessary on a link with the usual rate.
        edge = departure.start + least
        middle = min(max(edge, start), end)
        if start < middle:
            yield replace(piece, end=middle)
        if middle < end:
            yield replace(piece, start=middle, label=Label.SLOW_LINK)

    def data_flow(self, packet: int) -> FlowKey:
        """Return the flow of a packet; for answers, the flow that they answer."""
        flow = self.record.flow(packet)
        is_answer = int(self.record.packets["kind"][packet]) in ANSWERS
        return flow.back if is_answer else flow

    def _collides(self, channel: int, start: int, end: int) -> bool:
        others = self.alternatives.get(channel, ())
        return any(next(self.record.timeline(other).within(start, end), None) is None for other in others)

    def waits_for_output(self, row: int, start: int, end: int, chain: tuple[str, ...]) -> Pieces:
        """Divide a time in which a packet waits in a switch for its departure `row`."""
        ready, usual = self._ready_times(row)
        place = self.record.channels[int(self.record.channel[int(self.record.previous[row])])].name
        owner = self.data_flow(int(self.record.packet[row]))
        for label, edge in ((Label.NECESSARY, usual), (Label.SLOW_LINK, ready)):
            if start < min(edge, end):
                yield Piece(start, min(edge, end), label, place, owner, chain)
                start = min(edge, end)
        if start < end:
            yield from self._at_channel(int(self.record.channel[row]), row, start, end, chain)

    def _ready_times(self, row: int) -> tuple[int, int]:
        """Return when a departure could start at the earliest, because its tail must not arrive too late.

        Also returns the same time if the packet had come over a link with its usual rate.
        """
        record = self.record
        before = int(record.previous[row])
        if before < 0:
            return 0, 0
        channel, arrival = int(record.channel[before]), int(record.arrival[before])
        if record.channels[channel].arrives_with_tail:
            return arrival, arrival
        own, span = (int(record.end[one] - record.start[one]) for one in (row, before))
        least = min(self.usual_span(before), span)
        return arrival + max(span - own, 0), arrival + max(least - own, 0)

    def usual_span(self, row: int) -> int:
        """Return how long a departure takes at the usual rate of its channel, in ps."""
        return span_at(int(self.record.size[row]), self.usual_rates[int(self.record.channel[row])])

    def _at_channel(
        self, channel: int, row: int | None, start: int, end: int, chain: tuple[str, ...]
    ) -> Pieces:
        chain = (*chain, self.record.channels[channel].name)
        idle = partial(self._idle, channel, row, chain=chain)
        yield from self._use(channel, start, end, chain, idle)

    def _use(self, channel: int, start: int, end: int, chain: tuple[str, ...], idle: Divide) -> Pieces:
        """Divide a time into packets on a channel, and what `idle` returns for the times between them."""
        at = start
        for row, begin, stop in self.record.timeline(channel).within(start, end):
            if begin > at:
                yield from idle(at, begin)
            last = min(stop, end)
            yield from self.busy(row, max(begin, at), last, chain)
            at = last
        if at < end:
            yield from idle(at, end)

    def _idle(self, channel: int, row: int | None, start: int, end: int, chain: tuple[str, ...]) -> Pieces:
        """Divide a time in which a channel sends nothing although a packet waits for it."""
        for begin, stop, is_down in _cut(self.down.get(channel, ()), start, end):
            if is_down:
                yield Piece(begin, stop, Label.LINK_DOWN, self.record.channels[channel].name, None, chain)
            elif row is not None:
                yield from self._behind(channel, row, begin, stop, chain)
            else:
                yield from self.blocked(channel, begin, stop, chain)

    def _behind(self, channel: int, row: int, start: int, end: int, chain: tuple[str, ...]) -> Pieces:
        """Divide a time in which a packet in a switch waits although its output is idle."""
        before = int(self.record.previous[row])
        if before < 0 or not (self.has_one_queue or self.shares_inputs):
            yield from self.blocked(channel, start, end, chain)
            return
        input_ = int(self.record.channel[before])
        at = start
        while at < end:
            first = self.record.buffer(input_).first_present(at)
            if first is None or first[3] in (-1, row):
                yield from self.blocked(channel, at, end, chain)
                return
            _, leaves, left, other = first
            stop = min(left, end)
            if at >= leaves:
                # The input sends another packet.
                yield from self.busy(other, at, stop, chain)
            elif self.has_one_queue and len(chain) < MOST_HOPS:
                stop = min(leaves, end)
                yield from self._at_channel(int(self.record.channel[other]), other, at, stop, chain)
            else:
                stop = min(leaves, end)
                yield from self.blocked(channel, at, stop, chain)
            at = stop

    def blocked(self, channel: int, start: int, end: int, chain: tuple[str, ...]) -> Pieces:
        """Divide a time in which the sender of a channel lacks credit, or is paused.

        The time is that of the packet that is in the buffer at the end of the channel and leaves it first,
        one delay earlier, because its space returns with that delay.
        """
        known = self.record.channels[channel]
        if len(chain) >= MOST_HOPS:
            yield Piece(start, end, Label.DEADLOCK, known.name, None, chain)
            return
        buffer, delay = self.record.buffer(channel), known.delay_ps
        at = start
        while at < end:
            first = buffer.first_present(at - delay)
            if first is None:
                stop = buffer.next_arrival(at - delay, end - delay) + delay
                label = Label.SMALL_BUFFER if at - delay >= int(self.record.start[0]) else Label.EARLIER
                yield Piece(at, stop, label, known.name, None, chain)
                at = stop
                continue
            _, leaves, left, row = first
            stop = min(left + delay, end)
            if known.to_host != NONE:
                owner = self.data_flow(int(self.record.packet[row])) if row >= 0 else None
                yield Piece(at, stop, Label.SLOW_RECEIVER, self.hosts[known.to_host], owner, chain)
            elif row < 0:
                yield Piece(at, stop, Label.EARLIER, known.name, None, chain)
            else:
                middle = min(max(leaves + delay, at), stop)
                if at < middle:
                    yield from self._moved(row, at, middle, delay, chain)
                if middle < stop:
                    yield from self._shift(self.busy(row, middle - delay, stop - delay, chain), delay)
            at = stop

    def _moved(self, row: int, start: int, end: int, delay: int, chain: tuple[str, ...]) -> Pieces:
        yield from self._shift(self.waits_for_output(row, start - delay, end - delay, chain), delay)

    @staticmethod
    def _shift(pieces: Pieces, by: int) -> Pieces:
        for piece in pieces:
            yield replace(piece, start=piece.start + by, end=piece.end + by)

    def at_host(self, start: int, end: int) -> Pieces:
        """Divide a time in which the flow has data to send, but its host sends none of it."""
        for begin, stop, wait in self._flow_waits(start, end):
            if wait is None:
                yield from self._host_link(begin, stop)
            elif wait == ANSWER:
                yield from self._answer(begin, stop)
            elif wait == ANNOUNCEMENT:
                yield Piece(begin, stop, Label.ANNOUNCEMENT, self.hosts[self.flow.host])
            else:
                yield from self._paced(begin, stop)

    def _flow_waits(self, start: int, end: int) -> Iterator[tuple[int, int, int | None]]:
        """Divide a time into waits of the flow for its reaction or announcement, and others (None)."""
        rows = self.record.waits(self.flow)
        at = start
        # The last wait that began before `start` may last longer. A few rows may be out of order, because a
        # wait can begin at the end of a packet that is still being sent.
        first = max(bisect_right(rows, start, key=lambda row: row[1]) - 8, 0)
        for index, (wait, since, known) in enumerate(rows[first:], start=first):
            if since >= end:
                break
            following = rows[index + 1][1] if index + 1 < len(rows) else NEVER
            begin, stop = max(since, at), min(known, following, end)
            if wait == REOPENED or begin >= stop:
                continue
            if at < begin:
                yield at, begin, None
            yield begin, stop, wait
            at = stop
        if at < end:
            yield at, end, None

    def _host_link(self, start: int, end: int) -> Pieces:
        channel = self.record.out_of_host[self.flow.host]
        chain = (self.record.channels[channel].name,)

        def injecting(begin: int, stop: int) -> Pieces:
            yield Piece(begin, stop, Label.INJECTION, self.hosts[self.flow.host])

        for begin, stop, is_slow in _cut(self.record.injection(self.flow.host), start, end):
            if is_slow:
                yield from self._use(channel, begin, stop, chain, injecting)
            else:
                yield from self._at_channel(channel, None, begin, stop, ())

    def _paced(self, start: int, end: int) -> Pieces:
        mark = self.last_mark(start)
        place = self.hosts[self.flow.host]
        owner = None
        if mark is not None:
            owner = self.owner_of_queue(mark[1], mark[0])
        told = (mark[0], self.record.channels[mark[1]].name) if mark else None
        yield Piece(start, end, Label.PACING, place, owner, (), told)

    def last_mark(self, time: int) -> tuple[int, int] | None:
        """Return the time and the channel of the mark of which the flow was last notified before a time."""
        at = bisect_right(self._marks, time, key=lambda mark: mark[0])
        return self._marks[at - 1][1:] if at else None

    @cached_property
    def _marks(self) -> list[tuple[int, int, int]]:
        return sorted(self._find_marks())

    def _find_marks(self) -> Iterator[tuple[int, int, int]]:
        """Yield the arrival of each notification of the flow, and the time and channel of its mark."""
        record = self.record
        sent = record.sent(self.flow)
        for answer in record.packets_of(self.flow.back):
            if not record.packets["echo_is_marked"][answer]:
                continue
            hops = record.hops(int(answer))
            data = sent.get(int(record.packets["echo_sent_ps"][answer]))
            if data is None or record.channels[int(record.channel[hops[-1]])].to_host != self.flow.host:
                continue
            marked = [row for row in record.hops(data) if record.is_marked[row]]
            if marked:
                yield (
                    int(record.arrival[hops[-1]]),
                    int(record.start[marked[0]]),
                    int(record.channel[marked[0]]),
                )
        reports = record.reports
        is_own = (
            (reports["source_host"] == self.flow.host)
            & (reports["source"] == self.flow.source)
            & (reports["destination_host"] == self.flow.destination)
        )
        for time, channel in zip(
            reports["time_ps"][is_own].tolist(), reports["channel"][is_own].tolist(), strict=True
        ):
            if channel != NONE:
                yield time, time, channel

    def owner_of_queue(self, channel: int, time: int) -> FlowKey | None:
        """Return the flow that has most bytes in the queue of an output at a time, except the own flow."""
        key = (channel, time)
        if key not in self._owners:
            self._owners[key] = self._find_owner(channel, time)
        return self._owners[key]

    def _find_owner(self, channel: int, time: int) -> FlowKey | None:
        record = self.record
        rows = [row for row, _, _ in record.timeline(channel).within(time, time + 50_000_000)]
        sums: dict[FlowKey, int] = {}
        for row in rows[:4096]:
            before = int(record.previous[row])
            if before >= 0 and int(record.arrival[before]) <= time:
                flow = self.data_flow(int(record.packet[row]))
                sums[flow] = sums.get(flow, 0) + int(record.size[row])
        others = {flow: size for flow, size in sums.items() if flow != self.flow} or sums
        return min(others, key=lambda flow: (-others[flow], flow)) if others else None

    def _answer(self, start: int, end: int) -> Pieces:
        """Divide a time in which the flow waits for an answer or a grant."""
        label = Label.GRANT if self.requests_grants else Label.WINDOW
        place = self.hosts[self.flow.host]
        pieces = list(self._followed_answer(start, end)) if not self.requests_grants else []
        at = start
        # The answer may leave while the host still drains the packet.
        for piece in sorted(pieces, key=lambda one: (one.start, one.end)):
            if at < piece.start:
                yield Piece(at, piece.start, label, place)
            if at < piece.end:
                yield replace(piece, start=max(at, piece.start))
                at = piece.end
        if at < end:
            yield Piece(at, end, label, place)

    def _followed_answer(self, start: int, end: int) -> Pieces:
        """Yield the waits in a time of the answer that ends it, and of the packet that is answered."""
        record = self.record
        ending = record.answers(self.flow).get(end)
        if ending is None:
            return
        data = record.sent(self.flow).get(int(record.packets["echo_sent_ps"][ending]))
        for packet in (data, ending):
            if packet is not None:
                for piece in self.waits_of(packet, start, end):
                    if piece.label != Label.NECESSARY:
                        yield piece

    def waits_of(self, packet: int, start: int, end: int) -> Pieces:
        """Divide the part of a time in which a packet is on its way, until its host has drained it."""
        record = self.record
        rows = record.hops(packet)
        at = int(record.start[rows[0]])
        for row, following in zip(rows, [*rows[1:], None], strict=True):
            departure = record.departure(row)
            channel = record.channels[departure.channel]
            begin, stop = max(at, start), min(departure.arrival, end)
            if begin < stop:
                yield Piece(begin, stop, Label.NECESSARY, channel.name, self.flow)
            if following is None:
                at = departure.arrival
                if channel.to_host != NONE:
                    at = record.drained_at(departure.channel, departure.arrival)
                begin, stop = max(departure.arrival, start), min(at, end)
                if begin < stop:
                    yield Piece(begin, stop, Label.SLOW_RECEIVER, self.hosts[channel.to_host], self.flow)
                return
            at = int(record.start[following])
            begin, stop = max(departure.arrival, start), min(at, end)
            if begin >= stop:
                continue
            if int(record.channel[following]) == departure.channel:
                # The link sends the packet again after an error.
                yield Piece(begin, stop, Label.LINK_ERRORS, channel.name)
            else:
                yield from self.waits_for_output(following, begin, stop, ())


def span_at(size: int, rate_gbit_s: float) -> int:
    """Return the transmission time of bytes in ps."""
    return round(size * 8000 / rate_gbit_s)


def _cut(spans: list[tuple[int, int]] | tuple[()], start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Divide a time into parts inside and outside of ordered spans."""
    at = start
    for begin, stop in spans:
        if stop <= at:
            continue
        if begin >= end:
            break
        if at < begin:
            yield at, begin, False
        last = min(stop, end)
        yield max(begin, at), last, True
        at = last
        if at >= end:
            return
    if at < end:
        yield at, end, False
