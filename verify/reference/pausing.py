"""Pause frames: the buffers of receivers, the frames that receivers send, and the pauses of senders.

On/off messages are modeled as frames without bytes, which do not wait for the link.

    sender --packets--> buffer of a lane: is it to be paused?
           <--frames---

At one instant, packets leave buffers after all arrivals (rank 4, 5). Then receivers check their buffers and
start frames (4, 6), and frames take effect (4, 7).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verify.pauses import Fixed, Pfc, SharedMemory
    from verify.reference.links import Channel, Packet
    from verify.reference.network import Network


@dataclass(frozen=True, order=True)
class Lack:
    """The lack of space for a packet that did not fit.

    `missing` and `headroom` are in bytes, and `is_pool` is whether the headroom is that of all lanes.
    """

    missing: int
    headroom: int
    is_pool: bool


@dataclass(frozen=True, order=True)
class Overflow:
    """A packet that did not fit: time, number of the channel, lane, lack of space, and name of the link."""

    time: int
    channel: int
    lane: int
    lack: Lack
    link: str


class OverflowedError(Exception):
    """A packet did not fit into a buffer."""

    def __init__(self, overflow: Overflow) -> None:
        super().__init__(overflow)
        self.overflow = overflow


class PausedTooLongError(Exception):
    """The watchdog stops the run: the time at which a pause reached the limit, its lane, and its start."""

    def __init__(self, time: int, link: str, lane: int, since: int) -> None:
        super().__init__(time, link, lane, since)
        self.time, self.link, self.lane, self.since = time, link, lane, since


class OwnBuffer:
    """Separate memory of a lane, with fixed thresholds."""

    def __init__(self, rule: Fixed) -> None:
        self.rule, self.fill = rule, 0

    def store(self, space: int) -> Lack | None:
        """Store a packet, and return its lack of space if it does not fit."""
        self.fill += space
        missing = self.fill - self.rule.xoff - self.rule.headroom
        return Lack(missing, self.rule.headroom, is_pool=False) if missing > 0 else None

    def remove(self, space: int) -> None:
        """Remove a packet."""
        self.fill -= space

    def must_pause(self) -> bool:
        """Return whether an arrival has made the lane so full that it is paused."""
        return self.fill > self.rule.xoff

    def may_resume(self) -> bool:
        """Return whether a departure lets the lane resume."""
        return self.fill <= self.rule.xon

    def fits(self, space: int, capacity: int) -> bool:
        """Return whether a packet of a lossy lane fits into the memory of the lane."""
        return self.fill + space <= capacity


class SwitchMemory:
    """The memory that the inputs of a switch share."""

    def __init__(self, rule: SharedMemory, size: int, headroom: int) -> None:
        self.rule, self.size, self.headroom = rule, size, headroom
        self.lanes: list[SharedBuffer] = []

    @property
    def free(self) -> int:
        """Shared bytes that no lane uses."""
        return self.size - sum(lane.shared for lane in self.lanes)


class SharedBuffer:
    """The bytes that a lane uses of its reserve, of the shared memory, and of its headroom."""

    def __init__(self, memory: SwitchMemory, shift: int, headroom: int) -> None:
        self.memory, self.shift, self.headroom = memory, shift, headroom
        self.reserved = self.shared = self.over = 0
        memory.lanes.append(self)

    @property
    def threshold(self) -> int:
        """Bytes of the shared memory that the lane may use at present."""
        return floor(Fraction(self.memory.free) / Fraction(2) ** self.shift)

    def store(self, space: int) -> Lack | None:
        """Store a packet, and return its lack of space if it does not fit.

        The packet is stored in the reserve and the rest in shared memory, or completely in the headroom.
        """
        if self.fits(space):
            of_reserve = min(space, self.memory.rule.reserve - self.reserved)
            self.reserved += of_reserve
            self.shared += space - of_reserve
            return None
        self.over += space
        of_all = sum(lane.over for lane in self.memory.lanes)
        if self.over > self.headroom:
            return Lack(self.over - self.headroom, self.headroom, is_pool=False)
        pool = self.memory.headroom
        return Lack(of_all - pool, pool, is_pool=True) if of_all > pool else None

    def fits(self, space: int, capacity: int = 0) -> bool:
        """Return whether a packet fits without headroom."""
        of_shared = space - min(space, self.memory.rule.reserve - self.reserved)
        is_below = of_shared <= self.memory.free and self.shared + of_shared <= self.threshold
        return of_shared == 0 or is_below

    def remove(self, space: int) -> None:
        """Remove a packet: from the headroom, then from shared memory, then from the reserve."""
        for part in ("over", "shared", "reserved"):
            freed = min(space, getattr(self, part))
            setattr(self, part, getattr(self, part) - freed)
            space -= freed

    def must_pause(self) -> bool:
        """Return whether an arrival has made the lane so full that it is paused."""
        return self.over > 0 or self.shared >= self.threshold

    def may_resume(self) -> bool:
        """Return whether a departure lets the lane resume."""
        is_below = self.shared + self.memory.rule.resume_offset <= self.threshold
        return self.over == 0 and (self.shared == 0 or is_below)


#: The buffers of all lanes of a receiver.
Buffers = list[OwnBuffer] | list[SharedBuffer]


@dataclass
class Pause:
    """The pauses of a lane: counts of frames and times in ps. `since` is the start of a current pause."""

    pauses: int = 0
    resumes: int = 0
    total: int = 0
    longest: int = 0
    first: int | None = None
    since: int | None = None
    #: The start and the end of each pause that has ended.
    ended: list[tuple[int, int]] = field(default_factory=list)

    def until(self, now: int) -> tuple[int, int]:
        """Return the sum of all pauses, and the longest one, up to a time."""
        lasts = 0 if self.since is None else now - self.since
        return self.total + lasts, max(self.longest, lasts)


class Pausing:
    """The pauses of one direction of a link, at the receiver and at the sender."""

    def __init__(self, channel: Channel, number: int, rule: Pfc, buffers: Buffers) -> None:
        self.channel, self.number, self.net, self.rule = channel, number, channel.net, rule
        self.back, self.buffers = channel.net.channels[number ^ 1], buffers
        #: State of the receiver: lanes to be paused, lanes paused by its last frame, and lanes whose buffers
        #: have changed since the last check.
        self.stopped, self.announced = set[int](), frozenset[int]()
        self.arrived, self.left = set[int](), set[int]()
        #: The pauses of lanes at the sender.
        self.lanes = [Pause() for _ in buffers]

    def is_paused(self, lane: int) -> bool:
        """Return whether the sender may not start packets of a lane."""
        return self.lanes[lane].since is not None

    def store(self, packet: Packet) -> None:
        """Store a packet that has arrived."""
        lack = self.buffers[packet.lane].store(packet.space)
        if lack and packet.lane not in self.rule.lossy:
            found = Overflow(self.net.now, self.number, packet.lane, lack, self.channel.name)
            self.net.overflow = min(self.net.overflow or found, found)
        self.arrived.add(packet.lane)
        self.look_at(self.net.now)

    def drops(self, packet: Packet) -> bool:
        """Return whether a packet of a lossy lane that has arrived does not fit, and is dropped."""
        to_host = self.channel.receiver.name in self.net.hosts
        capacity = self.rule.capacity_of(to_host=to_host)
        return packet.lane in self.rule.lossy and not self.buffers[packet.lane].fits(packet.space, capacity)

    def will_leave(self, lane: int, space: int, time: int) -> None:
        """Schedule the removal of a packet."""

        def leaves() -> None:
            self.buffers[lane].remove(space)
            self.left.add(lane)
            self.look_at(self.net.now)

        self.net.at(time, leaves, rank=(4, 5))

    def look_at(self, time: int) -> None:
        """Schedule a check of the receiver's buffers, after all arrivals and departures of an instant."""
        self.net.at(time, self.look, rank=(4, 6))

    def look(self) -> None:
        """Decide which lanes to pause, and start a frame if these have changed and the link is free."""
        for lane in (self.arrived | self.left) - self.rule.lossy:
            if lane in self.stopped:
                if lane in self.left and self.buffers[lane].may_resume():
                    self.stopped.remove(lane)
            elif lane in self.arrived and self.buffers[lane].must_pause():
                self.stopped.add(lane)
        self.arrived, self.left = set(), set()
        back = self.back
        if self.stopped == self.announced:
            return
        starts, takes_space = self.net.now, self.rule.frame > 0
        if takes_space and back.free_at > starts:
            self.look_at(back.free_at)
            return
        self.announced = announced = frozenset(self.stopped)
        if takes_space:
            back.occupy(self.rule.frame)
            back.sender.link_was_used(back.sender_port)
            starts = back.free_at
        due = starts + back.delay + self.rule.response_ps
        self.net.at(due, lambda: self.obey(announced), rank=(4, 7))

    def obey(self, announced: Iterable[int]) -> None:
        """Let a frame take effect at the sender."""
        now = self.net.now
        for lane, pause in enumerate(self.lanes):
            if lane in announced and pause.since is None:
                pause.since, pause.pauses = now, pause.pauses + 1
                pause.first = now if pause.first is None else pause.first
            elif lane not in announced and pause.since is not None:
                pause.total, pause.longest = pause.until(now)
                pause.ended.append((pause.since, now))
                pause.since, pause.resumes = None, pause.resumes + 1
                self.channel.reopen_lane(lane)


def build(net: Network) -> None:
    """Give all channels of a network their buffers and pauses, if receivers send pause frames."""
    rule, wiring = net.plan.pfc, net.plan.wiring
    if rule is None:
        return
    memories = {}
    if rule.shared:
        for switch in wiring.switches:
            memories[switch] = SwitchMemory(rule.shared, *rule.sizes_of(wiring, switch))
    for number, channel in enumerate(net.channels):
        link = wiring.links[number // 2]
        to = channel.receiver.name
        lanes = range(net.plan.lanes.count)
        if to in memories:
            shift, headroom = rule.shift_of(wiring, link), rule.headroom_of(link, to_host=False)
            shared = [SharedBuffer(memories[to], shift, headroom) for _ in lanes]
            channel.pausing = Pausing(channel, number, rule, shared)
            continue
        thresholds = rule.fixed(link, to_host=to in wiring.hosts)
        channel.pausing = Pausing(channel, number, rule, [OwnBuffer(thresholds) for _ in lanes])
