"""Flow control by pause frames, read independently of the simulator.

On/off messages are modeled as pause frames of zero bytes, which do not wait for the link.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Any

from verify.quantities import NotCovered, nothing_left, size_bytes, time_ps
from verify.wiring import Link, Wiring

#: An end of a link: a switch and its port, or a host and 0.
End = tuple[str, int]


@dataclass(frozen=True)
class Packets:
    """Sizes in bytes of a full packet, a control packet, all packets that occur, and a credit block."""

    full: int
    control: int
    kinds: tuple[int, ...]
    block: int

    def space(self, size: int) -> int:
        """Return the buffer space of a packet: whole blocks."""
        return -(-size // self.block) * self.block

    @property
    def densest(self) -> Fraction:
        """The most space that packets need per byte on the link."""
        return max(Fraction(self.space(size), size) for size in self.kinds)


@dataclass(frozen=True)
class Buffers:
    """`switch.buffer`, the bytes of a lane at switches and hosts, and the number of lanes.

    A packet is in the buffer of a switch `switch.latency` after its head or, if switches store whole packets,
    its tail.
    """

    whole: int
    of_switch: int
    of_host: int
    latency_ps: int
    stores: bool
    lanes: int


@dataclass(frozen=True)
class SharedMemory:
    """Memory that all inputs of a switch share.

    If `memory` is `None`, it is `switch.buffer` for each input.
    """

    memory: int | None
    alpha_shift: int
    is_by_rate: bool
    reserve: int
    resume_offset: int
    headroom_pool: int | None


@dataclass(frozen=True)
class Fixed:
    """Separate memory of a lane: its thresholds, and the space above the upper one, in bytes."""

    xoff: int
    xon: int
    headroom: int


@dataclass(frozen=True)
class Pfc:
    """The settings of pause frames. Those of buffers are `None` if they follow from the link."""

    xoff: int | None
    xon: int | None
    headroom: int | None
    frame: int
    response_ps: int
    watchdog_ps: int | None
    #: Whether the watchdog stops the run.
    stops: bool
    shared: SharedMemory | None
    #: Lanes that are never paused.
    lossy: frozenset[int]
    packets: Packets
    buffers: Buffers
    #: The most picoseconds per byte during the run, by the ends of links whose rate changes.
    slowest: Mapping[End, Fraction]

    @property
    def paused_lanes(self) -> int:
        """The number of lanes that can be paused."""
        return self.buffers.lanes - len(self.lossy)

    def capacity_of(self, *, to_host: bool) -> int:
        """Return the bytes of a lane with separate memory."""
        return self.buffers.of_host if to_host else self.buffers.of_switch

    def headroom_of(self, link: Link, *, to_host: bool) -> int:
        """Return the space that a lane needs above its threshold, in bytes.

        This is the space of one full packet, and of the data sent during a time with five parts: the storage
        of the packet that exceeds the threshold, the wait of the pause frame for a packet that has just
        started, the transmission of the pause frame, two link delays, and the response time. Two picoseconds
        are subtracted, one for the packet that delays the pause frame and one for the last data packet. Pause
        frames may still have the lowest rate of the link when the sender already has the usual rate.
        """
        if self.headroom is not None:
            return self.headroom

        back = max([link.ps_per_byte, *(self.slowest[end] for end in link.ends if end in self.slowest)])
        full = self.packets.full
        stored_after = 0 if to_host else self.buffers.latency_ps
        if to_host or self.buffers.stores:
            stored_after += ceil(full * link.ps_per_byte)
        waits = ceil(max(full, self.packets.control, self.frame) * back)
        time = stored_after + waits + ceil(self.frame * back) + 2 * link.delay_ps + self.response_ps
        passed = floor(max(time - 2, 0) / link.ps_per_byte)
        return self.packets.space(self.packets.full) + ceil(passed * self.packets.densest)

    def fixed(self, link: Link, *, to_host: bool) -> Fixed:
        """Return the thresholds of a lane with separate memory.

        `ValueError` is raised if there is no space below the headroom, or a threshold is too large.
        """
        if self.frame == 0 and self.xoff is not None and self.xon is not None:
            return Fixed(self.xoff, self.xon, self.capacity_of(to_host=to_host) - self.xoff)
        headroom = self.headroom_of(link, to_host=to_host) if self.paused_lanes else 0
        most = self.capacity_of(to_host=to_host) - headroom
        xoff = most if self.xoff is None else self.xoff
        if xoff > most or most <= 0:
            raise ValueError(f"a link has room for {most} B below its headroom")
        usual = max(xoff - 2 * self.packets.space(self.packets.full), xoff // 2)
        xon = usual if self.xon is None else self.xon
        if xon > xoff:
            raise ValueError(f"xon is more than {xoff} B")
        return Fixed(xoff, xon, headroom)

    def sizes_of(self, net: Wiring, switch: str) -> tuple[int, int]:
        """Return the shared part of a switch's memory, and the headroom of all of its inputs and lanes.

        `ValueError` is raised if the shared part has no space for a packet.
        """
        assert self.shared is not None
        links = [link for link in net.links if switch in (node for node, _ in link.ends)]
        pool = self.shared.headroom_pool
        if pool is None:
            pool = self.paused_lanes * sum(self.headroom_of(link, to_host=False) for link in links)
        memory = self.shared.memory
        if memory is None:
            memory = self.buffers.whole * len(links)
        size = memory - pool - self.buffers.lanes * len(links) * self.shared.reserve
        if size < self.packets.space(self.packets.full):
            raise ValueError(f"switch {switch} has no room for a packet")
        return size, pool

    def shift_of(self, net: Wiring, link: Link) -> int:
        """Return the exponent of the power of two by which the free memory is divided for a link."""
        assert self.shared is not None
        shift, slowest = self.shared.alpha_shift, max(other.ps_per_byte for other in net.links)
        while self.shared.is_by_rate and slowest >= 2 * link.ps_per_byte:
            shift, slowest = shift - 1, slowest / 2
        return shift


def payloads(flows: Iterable[Mapping[str, Any]], traffic: Iterable[Mapping[str, Any]], mtu: int) -> set[int]:
    """Return the payloads of data packets that the traffic can generate."""
    found = {mtu}
    for one in flows:
        message = size_bytes(one["message"]) if "message" in one else mtu
        found.add(rest(message, mtu))
        if "total" in one:
            found.add(rest(rest(size_bytes(one["total"]), message), mtu))
    for pattern in traffic:
        found.add(rest(size_bytes(pattern["message"]) if "message" in pattern else mtu, mtu))
        if "message_max" in pattern or "sizes" in pattern or pattern["pattern"]["kind"] == "listed":
            # The sizes of messages are random or listed, so their last packets may have any size.
            found |= set(range(1, mtu + 1))
    return found


def rest(size: int, piece: int) -> int:
    """Return the size of the last piece if `size` is divided into pieces of `piece`."""
    return (size - 1) % piece + 1


def shared_memory(table: Mapping[str, Any]) -> SharedMemory:
    """Read `[flow_control.shared]`."""
    given = dict(table)
    found = SharedMemory(
        memory=size_bytes(given.pop("memory")) if "memory" in given else None,
        alpha_shift=given.pop("alpha_shift", 3),
        is_by_rate=given.pop("alpha_by_rate", False),
        reserve=size_bytes(given.pop("reserve", "4096 B")),
        resume_offset=size_bytes(given.pop("resume_offset", "3072 B")),
        headroom_pool=size_bytes(given.pop("headroom_pool")) if "headroom_pool" in given else None,
    )
    nothing_left("flow_control.shared", given)
    return found


def pfc(table: Mapping[str, Any], packets: Packets, buffers: Buffers, slowest: Mapping[End, Fraction]) -> Pfc:
    """Read `[flow_control]` with pause frames or on/off messages.

    `NotCovered` is raised for on/off messages without thresholds, and for unknown keys.
    """
    given = {key: value for key, value in table.items() if key != "kind"}
    is_on_off = table["kind"] == "on-off"
    if is_on_off and not {"xoff", "xon"} <= given.keys():
        raise NotCovered("flow_control: usual thresholds of on/off flow control")

    def size(key: str) -> int | None:
        return size_bytes(given.pop(key)) if key in given else None

    shared = given.pop("shared", None)
    found = Pfc(
        xoff=size("xoff"),
        xon=size("xon"),
        headroom=size("headroom"),
        frame=0 if is_on_off else size_bytes(given.pop("frame", "84 B")),
        response_ps=time_ps(given.pop("response_time", "0 ps")),
        watchdog_ps=time_ps(given.pop("watchdog")) if "watchdog" in given else None,
        stops=given.pop("watchdog_action", "warn") == "stop",
        shared=None if shared is None else shared_memory(shared),
        lossy=frozenset(given.pop("lossy_lanes", ())),
        packets=packets,
        buffers=buffers,
        slowest=slowest,
    )
    nothing_left("flow_control", given)
    return found
