"""The departures of packets in a part of a run, with indexes to search them.

Times are whole picoseconds. Packets, channels, hosts and switches are numbers; a channel is one direction of
a link.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from silvan import _core
from silvan._core import SilvanError

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: An index that stands for nothing.
NONE = 2**32 - 1
#: A time that is not known.
NEVER = 2**64 - 1
#: Departures that a recording holds at most by default (1.4 GB).
MOST_DEPARTURES = 10_000_000
#: Number of packets that are searched for one that is in a buffer.
MOST_ROWS_SEARCHED = 4096
#: The kind of data packets in the table of packets.
DATA = 0
#: Kinds of packets that answer others: notifications, acknowledgements, grants, negative acknowledgements,
#: receipts.
ANSWERS = frozenset({1, 2, 4, 10, 11})


class FlowKey(NamedTuple):
    """A flow: a sending host, the number of a traffic source in it, and a receiving host."""

    host: int
    source: int
    destination: int

    @property
    def back(self) -> FlowKey:
        """The flow of the answers."""
        return FlowKey(self.destination, self.source, self.host)


class Departure(NamedTuple):
    """A packet that crosses a channel. The times are those of its first bit, its last bit, and its arrival.

    A packet arrives at a switch when its head can be forwarded, and at a host with its tail.
    """

    packet: int
    channel: int
    start: int
    end: int
    arrival: int


@dataclass(frozen=True)
class Channel:
    """One direction of a link."""

    name: str
    from_switch: int
    from_host: int
    to_switch: int
    to_host: int
    rate_gbit_s: float
    delay_ps: int
    #: Time from the start of a packet until its head can be forwarded; without the transmission time if
    #: packets arrive with their tails.
    head_delay_ps: int
    #: Whether packets arrive with their tails: at hosts and store-and-forward switches.
    arrives_with_tail: bool


class Timeline:
    """Intervals of one kind in the order of their starts, for searches by time."""

    def __init__(self, rows: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        self.rows, self.starts, self.ends = rows.tolist(), starts.tolist(), ends.tolist()

    def within(self, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield the row, the start and the end of each interval that overlaps with a time, in order.

        The intervals must not overlap with each other.
        """
        at = max(bisect_right(self.starts, begin) - 1, 0)
        while at < len(self.starts) and self.starts[at] < end:
            if self.ends[at] > begin:
                yield self.rows[at], self.starts[at], self.ends[at]
            at += 1


class Buffer:
    """The packets that pass the buffer at the end of a channel, in the order in which they leave it."""

    def __init__(self, rows: list[tuple[int, int, int, int]]) -> None:
        rows.sort(key=lambda row: row[2])
        #: Arrival, start of the departure, end of the departure, and row of the departure (or -1).
        self.rows = rows
        self.ends = [row[2] for row in rows]

    def first_present(self, time: int) -> tuple[int, int, int, int] | None:
        """Return the packet that waits in the buffer at a time and leaves first; None if the buffer is empty.

        If no packet waits, returns one whose transmission has begun.
        """
        first = bisect_right(self.ends, time)
        leaving = None
        for row in self.rows[first : first + MOST_ROWS_SEARCHED]:
            if row[0] <= time:
                if row[1] > time:
                    return row
                leaving = leaving or row
        return leaving

    def next_arrival(self, time: int, limit: int) -> int:
        """Return the first arrival after a time; `limit` if there is none before."""
        at = bisect_right(self._arrivals, time)
        return min(self._arrivals[at], limit) if at < len(self._arrivals) else limit

    @cached_property
    def _arrivals(self) -> list[int]:
        return sorted(row[0] for row in self.rows)


class Backlog:
    """The times in which packets wait for a channel, which sends others, or lacks credit.

    A *period* lasts as long as packets wait without interruption.
    """

    #: An output is the root of a queue if it sends for at least this share of a period, as in congestion
    #: trees.
    ROOT_SHARE = 0.9

    def __init__(
        self,
        rows: NDArray[np.int64],
        arrivals: NDArray[np.int64],
        starts: NDArray[np.int64],
        ends: NDArray[np.int64],
    ) -> None:
        self._at = {row: index for index, row in enumerate(rows.tolist())}
        self._found: dict[tuple[int, tuple[int, int]], tuple[int, int] | None] = {}
        self.starts, self.ends = starts, ends
        first = np.minimum.accumulate(arrivals[::-1])[::-1] if len(rows) else arrivals
        before = np.r_[np.int64(0), ends[:-1]] if len(rows) else ends
        self.since = np.maximum(before, first)
        self.blocked = np.maximum(starts - self.since, 0)
        is_new = first >= before
        self.period = np.cumsum(is_new)
        self._blocked_sum = np.r_[0, np.cumsum(self.blocked)]
        self._busy_sum = np.r_[0, np.cumsum(ends - starts)]

    def blocked_near(self, row: int, span: tuple[int, int]) -> tuple[int, int] | None:
        """Return the lack of credit that is nearest to a departure, if the channel is no root in its period.

        Only the part of the period within `span` counts. None if the channel is a root.
        """
        key = (row, span)
        if key not in self._found:
            self._found[key] = self._blocked_near(row, span)
        return self._found[key]

    def _blocked_near(self, row: int, span: tuple[int, int]) -> tuple[int, int] | None:
        at = self._at[row]
        period = self.period[at]
        first = max(
            int(np.searchsorted(self.period, period)), int(np.searchsorted(self.starts, span[0], "right")) - 1
        )
        last = min(
            int(np.searchsorted(self.period, period, "right")), int(np.searchsorted(self.starts, span[1]))
        )
        first, last = min(first, at), max(last, at + 1)
        blocked = int(self._blocked_sum[last] - self._blocked_sum[first])
        busy = int(self._busy_sum[last] - self._busy_sum[first])
        if blocked <= (1 - self.ROOT_SHARE) * (blocked + busy):
            return None
        after = np.flatnonzero(self.blocked[at:last])
        before = np.flatnonzero(self.blocked[first:at])
        found = at + int(after[0]) if len(after) else first + int(before[-1])
        return int(self.since[found]), int(self.starts[found])


class Record:
    """A recording of a part of a run."""

    def __init__(self, recorded: _core.Record, until: int) -> None:
        tables = {name: _arrays(table) for name, table in recorded.tables().items()}
        self.until = until
        self.is_full = recorded.is_full
        self.packets = tables["packets"]
        self.losses = tables["losses"]
        self.reports = tables["reports"]
        departures = tables["departures"]
        self.packet, self.channel = departures["packet"], departures["channel"]
        self.start, self.end, self.arrival = (
            departures[name].astype(np.int64) for name in ("start_ps", "end_ps", "arrival_ps")
        )
        self.size = departures["size"]
        self.is_marked = departures["flags"] >> 8 & 1
        self.lane = departures["flags"] & 255
        self.channels = _channels(tables["channels"])
        self.hosts: list[str] = [str(name) for name in tables["hosts"]["name"]]
        self._busy, self._parcels = tables.get("busy"), tables.get("parcels")
        self._drained, self._waits = tables["drained"], tables["waits"]
        by_channel = np.lexsort((self.start, self.channel))
        edges = np.searchsorted(self.channel[by_channel], np.arange(len(self.channels) + 1))
        self._by_channel, self._edges = by_channel, edges
        by_packet = np.lexsort((self.start, self.packet))
        self._by_packet = by_packet
        self._packet_edges = np.searchsorted(self.packet[by_packet], np.arange(len(self.packets["kind"]) + 1))
        self.previous = np.full(len(self.packet), -1, np.int64)
        same = (self.packet[by_packet][1:] == self.packet[by_packet][:-1]) & (
            self.packet[by_packet][1:] != NONE
        )
        self.previous[by_packet[1:][same]] = by_packet[:-1][same]
        self._timelines: dict[int, Timeline] = {}
        self._buffers: dict[int, Buffer] = {}
        self._backlogs: dict[int, Backlog] = {}
        self._sent: dict[FlowKey, dict[int, int]] = {}
        self._answers: dict[FlowKey, dict[int, int]] = {}

    @cached_property
    def out_of_host(self) -> dict[int, int]:
        """The channel on which each host sends."""
        return {one.from_host: number for number, one in enumerate(self.channels) if one.from_host != NONE}

    def departure(self, row: int) -> Departure:
        """Return a recorded departure."""
        return Departure(
            int(self.packet[row]),
            int(self.channel[row]),
            int(self.start[row]),
            int(self.end[row]),
            int(self.arrival[row]),
        )

    def hops(self, packet: int) -> list[int]:
        """Return the rows of a packet's departures in order of time."""
        first, last = self._packet_edges[packet], self._packet_edges[packet + 1]
        return [int(row) for row in self._by_packet[first:last]]

    @cached_property
    def _has_numbers(self) -> bool:
        return bool(self.packets["number"].any())

    def number(self, packet: int) -> int:
        """Return the number of a packet in its flow, which repeated packets keep.

        Without loss and reordering, packets have no numbers. Each then has another negative number.
        """
        return int(self.packets["number"][packet]) if self._has_numbers else -1 - packet

    def flow(self, packet: int) -> FlowKey:
        """Return the flow of a packet, in the direction of the packet."""
        table = self.packets
        return FlowKey(
            int(table["source_host"][packet]),
            int(table["source"][packet]),
            int(table["destination_host"][packet]),
        )

    def timeline(self, channel: int) -> Timeline:
        """Return the departures on a channel."""
        if channel not in self._timelines:
            rows = self._by_channel[self._edges[channel] : self._edges[channel + 1]]
            self._timelines[channel] = Timeline(rows, self.start[rows], self.end[rows])
        return self._timelines[channel]

    def backlog(self, channel: int) -> Backlog:
        """Return when packets wait for a channel. Those in hosts do not count."""
        if channel not in self._backlogs:
            rows = self._by_channel[self._edges[channel] : self._edges[channel + 1]]
            before = self.previous[rows]
            arrivals = np.where(before >= 0, self.arrival[before], self.start[rows])
            self._backlogs[channel] = Backlog(rows, arrivals, self.start[rows], self.end[rows])
        return self._backlogs[channel]

    def buffer(self, channel: int) -> Buffer:
        """Return the packets in the buffer at the end of a channel."""
        if channel not in self._buffers:
            self._buffers[channel] = Buffer(list(self._passing(channel)))
        return self._buffers[channel]

    def _passing(self, channel: int) -> Iterator[tuple[int, int, int, int]]:
        rows = self._by_channel[self._edges[channel] : self._edges[channel + 1]]
        if self.channels[channel].to_host != NONE:
            of_arrival = dict(zip(self.arrival[rows].tolist(), rows.tolist(), strict=True))
            for arrival, done in self._drains.get(channel, ()):
                yield arrival, arrival, done, of_arrival.get(arrival, -1)
            return
        after = self._next[rows]
        for row, leaving in zip(rows.tolist(), after.tolist(), strict=True):
            if leaving >= 0:
                yield int(self.arrival[row]), int(self.start[leaving]), int(self.end[leaving]), leaving
            else:
                # It is still there at the end of the recording, or lost.
                loss = self.loss(int(self.packet[row]))
                lost = loss[0] if loss else NEVER >> 1
                yield int(self.arrival[row]), lost, lost, -1

    @cached_property
    def _next(self) -> NDArray[np.int64]:
        following = np.full(len(self.packet), -1, np.int64)
        has_previous = self.previous >= 0
        following[self.previous[has_previous]] = np.flatnonzero(has_previous)
        # A packet that a link sends again leaves the same place twice.
        again = (following >= 0) & (self.channel == self.channel[following])
        following[again] = -1
        return following

    @cached_property
    def _drains(self) -> dict[int, list[tuple[int, int]]]:
        found: dict[int, list[tuple[int, int]]] = {}
        columns = (self._drained[name].tolist() for name in ("channel", "arrival_ps", "done_ps"))
        for channel, arrival, done in zip(*columns, strict=True):
            found.setdefault(channel, []).append((arrival, done))
        return found

    def drained_at(self, channel: int, arrival: int) -> int:
        """Return when a host has drained a packet; its arrival if that is not known."""
        drains = self._drains.get(channel, [])
        at = bisect_left(drains, (arrival, 0))
        return drains[at][1] if at < len(drains) and drains[at][0] == arrival else arrival

    @cached_property
    def _lost(self) -> dict[int, tuple[int, int, int]]:
        columns = (self.losses[name].tolist() for name in ("packet", "time_ps", "channel", "loss"))
        return {packet: (time, channel, loss) for packet, time, channel, loss in zip(*columns, strict=True)}

    def loss(self, packet: int) -> tuple[int, int, int] | None:
        """Return the time, channel and kind of the loss of a packet; None if it was not lost."""
        return self._lost.get(packet)

    @cached_property
    def _by_flow(self) -> dict[FlowKey, NDArray[np.int64]]:
        table = self.packets
        columns = [table[name].astype(np.int64) for name in ("source_host", "source", "destination_host")]
        order = np.lexsort(columns[::-1])
        keys = np.stack([column[order] for column in columns], axis=1)
        if not len(keys):
            return {}
        starts = np.flatnonzero(np.r_[True, (keys[1:] != keys[:-1]).any(axis=1)])
        ends = np.r_[starts[1:], len(keys)]
        return {
            FlowKey(*keys[begin].tolist()): np.sort(order[begin:end])
            for begin, end in zip(starts.tolist(), ends.tolist(), strict=True)
        }

    def packets_of(self, flow: FlowKey) -> NDArray[np.int64]:
        """Return the packets of a flow, in the order in which they started."""
        return self._by_flow.get(flow, np.empty(0, np.int64))

    def sent(self, flow: FlowKey) -> dict[int, int]:
        """Return the data packets of a flow by the time at which their source started to send them."""
        if flow not in self._sent:
            times, kinds = self.packets["injected_ps"], self.packets["kind"]
            own = self.packets_of(flow).tolist()
            self._sent[flow] = {int(times[packet]): packet for packet in own if kinds[packet] == DATA}
        return self._sent[flow]

    def answers(self, flow: FlowKey) -> dict[int, int]:
        """Return the answers to a flow by the time of their last arrival."""
        if flow not in self._answers:
            kinds = self.packets["kind"]
            own = [packet for packet in self.packets_of(flow.back).tolist() if int(kinds[packet]) in ANSWERS]
            self._answers[flow] = {int(self.arrival[self.hops(packet)[-1]]): packet for packet in own}
        return self._answers[flow]

    def flows(self) -> list[FlowKey]:
        """Return all flows that have packets, including those of answers."""
        return list(self._by_flow)

    def busy(self, job: int) -> list[tuple[int, int, int, bool]]:
        """Return when CPUs of the ranks of a job were busy: rank, start, end, and whether they computed."""
        rows = self._of_job(self._busy, job, ("rank", "start_ps", "end_ps", "computes"))
        return [(rank, start, end, bool(computes)) for rank, start, end, computes in rows]

    def parcels(self, job: int) -> list[tuple[int, ...]]:
        """Return the messages of a job.

        Columns: ranks, bytes, the times at which it was handed over, left and was delivered, and its flow.
        """
        names = (
            *("from_rank", "to_rank", "bytes", "handed_ps", "left_ps", "delivered_ps"),
            *("source_host", "source", "destination_host"),
        )
        return list(self._of_job(self._parcels, job, names))

    @staticmethod
    def _of_job(
        table: Mapping[str, NDArray[Any]] | None, job: int, names: tuple[str, ...]
    ) -> Iterator[tuple[int, ...]]:
        if table is None:
            return iter(())
        is_own = table["job"] == job
        return zip(*(table[name][is_own].tolist() for name in names), strict=True)

    def waits(self, flow: FlowKey) -> list[tuple[int, int, int]]:
        """Return the waits of a flow: kind, start, and end or `NEVER`."""
        return self._flow_waits.get(flow, [])

    def injection(self, host: int) -> list[tuple[int, int]]:
        """Return the times in which a host waited for its injection limit, in order, without overlaps."""
        return self._injections.get(host, [])

    @cached_property
    def _flow_waits(self) -> dict[FlowKey, list[tuple[int, int, int]]]:
        found: dict[FlowKey, list[tuple[int, int, int]]] = {}
        names = ("host", "source", "destination_host", "wait", "since_ps", "until_ps")
        for host, source, to, wait, since, until in zip(
            *(self._waits[name].tolist() for name in names), strict=True
        ):
            if wait != INJECTION:
                found.setdefault(FlowKey(host, source, to), []).append((wait, since, until))
        return found

    @cached_property
    def _injections(self) -> dict[int, list[tuple[int, int]]]:
        found: dict[int, list[tuple[int, int]]] = {}
        chosen = self._waits["wait"] == INJECTION
        names = ("host", "since_ps", "until_ps")
        for host, since, until in zip(*(self._waits[name][chosen].tolist() for name in names), strict=True):
            known = found.setdefault(host, [])
            if known and since <= known[-1][1]:
                known[-1] = (known[-1][0], max(until, known[-1][1]))
            else:
                known.append((since, until))
        return found


#: Kinds of waits in the table of waits.
ANNOUNCEMENT, PACE, ANSWER, REOPENED, INJECTION = range(5)


def _arrays(table: Mapping[str, object]) -> dict[str, NDArray[Any]]:
    return {
        name: np.asarray(column[1])[np.asarray(column[0])]
        if isinstance(column, tuple)
        else np.asarray(column)
        for name, column in table.items()
    }


def _channels(table: Mapping[str, NDArray[Any]]) -> list[Channel]:
    names = [field.name for field in fields(Channel)]
    order = np.argsort(table["channel"])
    rows = zip(*(table[name][order].tolist() for name in names), strict=True)
    return [Channel(**dict(zip(names, row, strict=True))) for row in rows]


def record(
    scenario: _core.Scenario,
    begin: int,
    end: int,
    *,
    most: int = MOST_DEPARTURES,
    progress: Callable[[int, int, int], object] | None = None,
) -> Record:
    """Run a scenario, and record the departures from `begin` to `end` (ps).

    Raises :class:`SilvanError` if there are more than `most` departures.
    """
    recorded = _core.record(scenario, max(begin, 0), end, most, progress)
    found = Record(recorded, end)
    if found.is_full:
        raise SilvanError(
            f"{scenario.name}: more than {most:,} packets cross links from {max(begin, 0) / 1e6:,.0f} to "
            f"{end / 1e6:,.0f} us; explain fewer messages, or messages that took less time"
        )
    return found
