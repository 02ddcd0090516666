"""Explains the duration of a message: which part was necessary, and what caused the rest."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from silvan._core import SilvanError
from silvan.delays.causes import Causes, Label, Piece, Pieces, span_at
from silvan.delays.record import DATA, NONE, Channel, FlowKey, Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Kinds of packets with parts of messages: data, and headers of trimmed packets.
CARRIERS = frozenset({DATA, 9})
#: Number of packets of a message that are sent one by one to compute the ideal time. The others follow at the
#: pace of the slowest link.
PACKETS_ONE_BY_ONE = 64


@dataclass(frozen=True)
class Message:
    """A message whose last packet has been delivered."""

    flow: FlowKey
    #: When it was generated, and when its last packet was delivered, ps.
    start: int
    end: int
    #: The packets that carry its data, in the order in which they left the host, repeated ones included.
    packets: tuple[int, ...]
    #: The packet that was delivered last.
    last: int
    #: Payload.
    bytes: int
    #: Number of the class of its traffic.
    traffic: int


def messages(record: Record, flow: FlowKey) -> Iterator[Message]:
    """Yield the messages of a flow that were recorded from their first packet to their delivery."""
    table = record.packets
    carriers = [
        packet for packet in record.packets_of(flow).tolist() if int(table["kind"][packet]) in CARRIERS
    ]
    parts: dict[int, list[int]] = {}
    for packet in carriers:
        parts.setdefault(int(table["created_ps"][packet]), []).append(packet)
    for created, packets in parts.items():
        # Messages that a source generates at the same time follow each other.
        for group in _split(record, packets):
            if (message := _message(record, flow, created, group)) is not None:
                yield message


def _split(record: Record, packets: Sequence[int]) -> Iterator[list[int]]:
    """Divide the packets of messages of the same time. A message ends with its last packet."""
    group: list[int] = []
    numbers: set[int] = set()
    has_ended = False
    for packet in packets:
        if has_ended and record.number(packet) not in numbers:
            yield group
            group, has_ended = [], False
            numbers.clear()
        group.append(packet)
        numbers.add(record.number(packet))
        has_ended |= bool(record.packets["is_last"][packet])
    if group:
        yield group


def _message(record: Record, flow: FlowKey, created: int, packets: list[int]) -> Message | None:
    table = record.packets
    if not any(table["is_last"][packet] for packet in packets):
        return None
    first: dict[int, tuple[int, int]] = {}
    for packet in packets:
        number = record.number(packet)
        done = _delivered(record, packet) if table["kind"][packet] == DATA else None
        if done is not None:
            first[number] = min(first.get(number, (done, packet)), (done, packet))
    parts = {record.number(packet): int(table["payload"][packet]) for packet in packets}
    if set(first) != set(parts):
        return None
    end, last = max(first.values())
    traffic = int(table["class"][packets[0]])
    return Message(flow, created, end, tuple(packets), last, sum(parts.values()), traffic)


def _delivered(record: Record, packet: int) -> int | None:
    """Return when a host has drained a packet; None if that was not recorded."""
    rows = record.hops(packet)
    final = record.departure(rows[-1])
    channel = record.channels[final.channel]
    if channel.to_host != int(record.packets["destination_host"][packet]) or record.loss(packet):
        return None
    first = record.channels[int(record.channel[rows[0]])]
    if first.from_host == NONE or final.arrival > record.until:
        return None
    return record.drained_at(final.channel, final.arrival)


class _Walk:
    """Walks back in time along the packets of a message, from its delivery to its generation.

    At each moment, the walk is at one packet of the message. If this packet waits behind an earlier packet of
    the message, the walk continues with that one at the same place. The walk thus stays at the narrowest
    place of the route.
    """

    def __init__(self, message: Message, causes: Causes) -> None:
        self.message, self.causes, self.record = message, causes, causes.record
        self.pieces: list[Piece] = []
        self.routes = {packet: self._route(packet) for packet in message.packets}
        on_channel: dict[int, list[tuple[int, int, int, int]]] = {}
        for packet, rows in self.routes.items():
            for stage, row in enumerate(rows):
                departure = self.record.departure(row)
                place = (departure.start, departure.end, packet, stage)
                on_channel.setdefault(departure.channel, []).append(place)
        self.on_channel = {channel: sorted(places) for channel, places in on_channel.items()}
        final = {
            packet: done
            for packet in message.packets
            if (done := _delivered(self.record, packet)) is not None
        }
        self.drained = sorted((done, packet) for packet, done in final.items())

    def _route(self, packet: int) -> list[int]:
        """Return the last departure of a packet on each channel of its route."""
        rows: list[int] = []
        for row in self.record.hops(packet):
            if rows and self.record.channel[rows[-1]] == self.record.channel[row]:
                rows[-1] = row
            else:
                rows.append(row)
        return rows

    def walk(self) -> list[Piece]:
        """Return the pieces in order of time."""
        packet, time = self._from_drain(self.message.last, self.message.end)
        stage = len(self.routes[packet]) - 1
        while stage > 0:
            row = self.routes[packet][stage]
            before = self.routes[packet][stage - 1]
            arrival = int(self.record.arrival[before])
            earlier = self._earlier(row, time)
            if earlier is not None and earlier[1] > arrival:
                start, end, packet, stage = earlier
                own = self.routes[packet][stage]
                self._add(self.causes.waits_for_output(row, end, time, ()))
                self._add(self.causes.busy(own, start, end, ()))
                time = start
            else:
                self._add(self.causes.waits_for_output(row, arrival, time, ()))
                start = int(self.record.start[before])
                self._add(self._wire(before, start, arrival))
                time, stage = start, stage - 1
        self._at_host(packet, time)
        return self.pieces[::-1]

    def _add(self, pieces: Pieces) -> None:
        self.pieces += reversed([piece for piece in pieces if piece.end > piece.start])

    def _earlier(self, row: int, time: int) -> tuple[int, int, int, int] | None:
        """Return the departure of the message on the channel of another one, and before it."""
        places = self.on_channel[int(self.record.channel[row])]
        at = bisect_left(places, (time,)) - 1
        return places[at] if at >= 0 else None

    def _wire(self, row: int, start: int, end: int) -> Pieces:
        """Divide the time from the start of a packet on a channel to its arrival."""
        departure = self.record.departure(row)
        channel = self.record.channels[departure.channel]
        first = int(self.record.hops(departure.packet)[0])
        if not channel.arrives_with_tail or departure.start != start or row < first:
            yield Piece(start, end, Label.NECESSARY, channel.name, self.message.flow)
            return
        yield from self.causes.busy(row, start, departure.end, ())
        yield Piece(departure.end, end, Label.NECESSARY, channel.name, self.message.flow)

    def _from_drain(self, packet: int, time: int) -> tuple[int, int]:
        """Walk back to a packet that waited for no earlier one at the host, and to its last departure."""
        at = bisect_left(self.drained, (time, packet))
        record = self.record
        while True:
            row = self.routes[packet][-1]
            channel, arrival = record.channels[int(record.channel[row])], int(record.arrival[row])
            place = self.causes.hosts[channel.to_host]
            before = self.drained[at - 1] if at > 0 else (0, packet)
            if before[0] <= arrival:
                self._add(iter([Piece(arrival, time, Label.SLOW_RECEIVER, place)]))
                start = int(record.start[row])
                self._add(self._wire(row, start, arrival))
                return packet, start
            edge = min(before[0] + self.causes.usual_span(row), time)
            self._add(
                iter(
                    [
                        Piece(before[0], edge, Label.NECESSARY, place, self.message.flow),
                        Piece(edge, time, Label.SLOW_RECEIVER, place),
                    ]
                )
            )
            (time, packet), at = before, at - 1

    def _at_host(self, packet: int, time: int) -> None:
        """Walk back from the departure of a packet from its host to the generation of the message."""
        record = self.record
        while True:
            row = self.routes[packet][0]
            channel = int(record.channel[row])
            earlier = self._earlier(row, time)
            begin = max(earlier[1], self.message.start) if earlier else self.message.start
            if packet in self.causes.repeated:
                self._add(_lost(record, self.message, packet, begin, time))
            else:
                self._add(self.causes.at_host(begin, time))
            if earlier is None:
                return
            start, end, packet, _ = earlier
            self._add(self.causes.busy(self.routes[packet][0], max(start, self.message.start), end, ()))
            time = start
            if int(record.channel[self.routes[packet][0]]) != channel:
                return


def walk(message: Message, causes: Causes) -> tuple[Piece, ...]:
    """Divide the time of a message from its generation to its delivery into pieces, in order."""
    return tuple(_Walk(message, causes).walk())


def _lost(record: Record, message: Message, packet: int, start: int, end: int) -> Pieces:
    """Return the time before a packet is sent again, with the place where it, or its answer, was lost."""
    number = record.number(packet)
    alike = [other for other in message.packets if record.number(other) == number]
    answers = record.packets_of(message.flow.back).tolist()
    for others in (alike, answers):
        losses = [loss for other in others if (loss := record.loss(other)) and loss[0] <= end]
        if losses and losses[-1][1] != NONE:
            yield Piece(start, end, Label.LOSS, record.channels[losses[-1][1]].name)
            return
    yield Piece(start, end, Label.LOSS, "")


def repeated(record: Record, packets: Sequence[int]) -> frozenset[int]:
    """Return the packets that repeat earlier ones."""
    seen: set[int] = set()
    found = set()
    for packet in packets:
        if record.number(packet) in seen:
            found.add(packet)
        seen.add(record.number(packet))
    return frozenset(found)


def shape(message: Message, record: Record) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the channels of the route of a message, and the sizes of its packets with headers."""
    channels = (int(record.channel[row]) for row in record.hops(message.last))
    first_hops = ((record.number(packet), record.hops(packet)[0]) for packet in message.packets)
    sizes = {number: int(record.size[row]) for number, row in first_hops}
    return tuple(dict.fromkeys(channels)), tuple(sizes.values())


def ideal_time(
    route: Sequence[int], sizes: Sequence[int], channels: Sequence[Channel], usual_rates: Sequence[float]
) -> int:
    """Return the time (ps) that packets take alone on a route, with usual rates."""
    spans = {size: [span_at(size, usual_rates[channel]) for channel in route] for size in set(sizes)}
    left_out = max(len(sizes) - PACKETS_ONE_BY_ONE, 0)
    extra = sum(max(spans[size]) for size in sizes[1 : 1 + left_out])
    free = [0] * len(route)
    arrival = 0
    for size in [sizes[0], *sizes[1 + left_out :]]:
        arrival = 0
        before = 0
        for hop, channel in enumerate(route):
            known, span = channels[channel], spans[size][hop]
            ready = arrival
            if hop and not channels[route[hop - 1]].arrives_with_tail:
                ready += max(before - span, 0)
            start = max(ready, free[hop])
            free[hop] = start + span
            arrival = start + known.head_delay_ps + (span if known.arrives_with_tail else 0)
            before = span
    return arrival + extra


@dataclass(frozen=True)
class Cause:
    """What caused a part of a delay."""

    label: Label
    #: A channel or a host.
    place: str
    #: Picoseconds.
    ps: int
    #: The flows that used the place meanwhile, with their picoseconds, the largest first.
    owners: tuple[tuple[FlowKey, int], ...]
    #: The channels from the waiting packet to the place; those of the longest wait.
    chain: tuple[str, ...]
    #: The time (ps) and the channel of the mark that caused a reaction; those of the longest wait.
    mark: tuple[int, str] | None


class Span(Protocol):
    """What is explained."""

    @property
    def start(self) -> int:
        """Start in ps."""

    @property
    def end(self) -> int:
        """End in ps."""


@dataclass(frozen=True)
class Explanation:
    """The causes of the duration of a message, a job or an operation. Times are picoseconds."""

    subject: Span
    pieces: tuple[Piece, ...]
    ideal: int
    #: By share, the largest first. They and `pipeline` add up to `delay`.
    causes: tuple[Cause, ...]

    @property
    def duration(self) -> int:
        """Time from the start to the end, for messages from generation to delivery."""
        return self.subject.end - self.subject.start

    @property
    def delay(self) -> int:
        """Duration beyond the ideal one."""
        return self.duration - self.ideal

    @property
    def pipeline(self) -> int:
        """Necessary time beyond the ideal one; negative if transmissions overlap with waits."""
        return self.delay - sum(cause.ps for cause in self.causes)


def explain(message: Message, causes: Causes, least: int) -> Explanation:
    """Explain the duration of a message, whose ideal duration is `least` ps.

    Raises :class:`SilvanError` if the pieces do not add up, which would be an error in Silvan.
    """
    pieces = walk(message, causes)
    at = message.start
    for piece in pieces:
        if piece.start != at:
            raise SilvanError(f"the causes of a message leave a gap at {at} ps (next: {piece.start} ps)")
        at = piece.end
    if at != message.end:
        raise SilvanError(f"the causes of a message end at {at} ps instead of {message.end} ps")
    return Explanation(message, pieces, least, tuple(summed(pieces)))


def summed(pieces: Sequence[Piece]) -> list[Cause]:
    """Return the causes of pieces by label and place, the largest first."""
    groups: dict[tuple[Label, str], list[Piece]] = {}
    for piece in pieces:
        if piece.label != Label.NECESSARY:
            groups.setdefault((piece.label, piece.place), []).append(piece)
    found = []
    for (label, place), parts in groups.items():
        owners: Counter[FlowKey] = Counter()
        chains: Counter[tuple[str, ...]] = Counter()
        marks: Counter[tuple[int, str]] = Counter()
        for part in parts:
            chains[part.chain] += part.length
            if part.owner is not None:
                owners[part.owner] += part.length
            if part.mark is not None:
                marks[part.mark] += part.length
        ranked = sorted(owners.items(), key=lambda item: (-item[1], item[0]))
        chain = min(chains, key=lambda one: (-chains[one], one))
        mark = min(marks, key=lambda one: (-marks[one], one)) if marks else None
        total = sum(part.length for part in parts)
        found.append(Cause(label, place, total, tuple(ranked), chain, mark))
    return sorted(found, key=lambda cause: (-cause.ps, cause.label.value, cause.place))


def usual_rates(record: Record) -> list[float]:
    """Return the usual rate of each channel in Gbit/s.

    It is the most frequent rate of the channels with the same kinds of ends.
    """
    kinds: dict[tuple[bool, bool], Counter[float]] = {}
    for channel in record.channels:
        kind = (channel.from_host != NONE, channel.to_host != NONE)
        kinds.setdefault(kind, Counter())[channel.rate_gbit_s] += 1
    usual = {kind: max(rates, key=lambda rate: (rates[rate], rate)) for kind, rates in kinds.items()}
    return [usual[channel.from_host != NONE, channel.to_host != NONE] for channel in record.channels]
