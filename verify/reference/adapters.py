"""Hosts with a buffer between their flows and the link, some of which have special queues.

    flows (one queue per destination) -> arbiter -> normal queues  -> link
                                                    special queues ->

The arbiter moves one packet at a time, at the injection rate. It selects flows whose delay has passed, for
which there is room, and whose destinations no line has stopped. If the injection rate includes control
packets, these precede data at the arbiter, too, and then wait for the link without occupying the buffer.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from verify.reference.isolation import IsolatingBuffers, Notice, Place
from verify.reference.links import Channel, Packet
from verify.reference.queues import Buffers
from verify.reference.waking import WakingHost

if TYPE_CHECKING:
    from verify.reference.network import Network


class AdapterHost(WakingHost):
    """A host with an output buffer, which is a node with one input and one output."""

    def __init__(self, net: Network, name: str) -> None:
        super().__init__(net, name)
        assert net.plan.adapter
        self.organisation, self.room = net.plan.adapter
        rule, numbers = net.plan.congestion.isolation, net.number
        if rule and self.organisation.kind == "single":
            self.buffers: Buffers = IsolatingBuffers(
                self.organisation, numbers, rule, Place(lambda: net.now), control_first=False, detects=False
            )
        else:
            self.buffers = Buffers(self.organisation, numbers, control_first=False)
        self.used: dict[tuple[int, int], int] = {}
        self.lane_served = net.plan.lanes.count - 1
        #: Control packets that have not passed the injection limit, with their numbers.
        self.outside: deque[tuple[int, Packet]] = deque()

    def notice(self, port: int, notice: Notice) -> None:
        """Receive a notification about a line of the switch."""
        if isinstance(self.buffers, IsolatingBuffers):
            self.buffers.received(1, notice)
            self.buffers.notices = []
        self.is_asked = True

    def settle(self) -> None:
        """Send from the buffer, move a packet into it, and send this packet if the link is free."""
        now = self.net.now
        self.move_control()
        has_sent = self.send_buffered()
        has_moved = self.injection.free_at <= now and self.draw_and_move()
        self.move_control()
        wants = has_moved or any(self.control.values())
        if not has_sent and wants and self.send_buffered() and self.injection.free_at <= now:
            # The departure may have made room for a waiting flow.
            has_moved = self.draw_and_move()
        self.plan_wakes(has_moved=has_moved)

    def plan_wakes(self, *, has_moved: bool) -> None:
        """Schedule attempts for when the link is free, and for when the next packet may be moved."""
        now, has_control = self.net.now, bool(self.outside) or any(self.control.values())
        if (any(self.buffers.bytes.values()) or has_control) and self.out.free_at > now:
            self.wake(0, self.out.free_at)
        if self.outside:
            self.wake(0, self.passed_at)
        waits = self.ring or self.held or (has_moved and self.outside)
        times = [now] if waits else self.next_looks(has_sent=has_moved)
        if times and max(min(times), self.injection.free_at) > now:
            self.wake(0, max(min(times), self.injection.free_at))

    def draw_and_move(self) -> bool:
        """Move a packet of the first flow that may send and has room, and return whether there was one."""
        self.enlist_held()
        while True:
            self.take_stock()
            if self.move_one():
                return True
            if not any(self.is_due(source) for source in self.sources):
                return False

    def move_one(self) -> bool:
        """Move a packet of the first flow in the ring that may send. Others are throttled or held."""
        self.select()
        for _ in range(len(self.ring)):
            flow = self.ring.popleft()
            if self.holds_back(flow):
                continue
            packet = self.next_packet(flow)
            packet.output = 1
            part = self.part_of(packet)
            if self.used.get(part, 0) + packet.space <= self.room and not self.buffers.is_stopped(packet):
                self.used[part] = self.used.get(part, 0) + packet.space
                self.send(flow, packet)
                return True
            self.held.append(flow)
        return False

    def part_of(self, packet: Packet) -> tuple[int, int]:
        """Return the lane and region of the buffer in which a packet is stored."""
        return packet.lane, self.organisation.index(1, self.net.number[packet.destination])

    def put(self, packet: Packet) -> int:
        """Move a packet into the buffer, and return when it is there completely."""
        self.buffers.store(packet, 1)
        self.forget_changes()
        return self.injection.free_at

    def say(self, packet: Packet) -> None:
        """Queue a control packet. A tear-down waits behind the data in the buffer."""
        if not packet.follows_data and not self.net.plan.limits_control:
            super().say(packet)
            return
        if not packet.follows_data:
            self.answers += 1
            self.outside.append((self.answers, packet))
            return
        self.inject_control(packet)
        packet.output = 1
        self.used[self.part_of(packet)] = self.used.get(self.part_of(packet), 0) + packet.space
        self.buffers.store(packet, 1)
        self.forget_changes()

    def move_control(self) -> None:
        """Move a control packet to the adapter, if the injection limit permits it."""
        if self.outside and self.may_inject_control():
            number, packet = self.outside.popleft()
            self.control[packet.lane].append((number, packet))
            self.inject_control(packet)

    def leaves_as_control(self, packet: Packet) -> None:
        """Do nothing, because the packet has passed the injection limit on its way to the adapter."""

    def forget_changes(self) -> None:
        """Discard notifications for the upstream node, which a host does not have."""
        self.buffers.asked = []
        if isinstance(self.buffers, IsolatingBuffers):
            self.buffers.moved, self.buffers.notices = [], []

    def send_buffered(self) -> bool:
        """Send a control packet, or a packet of the buffer by round robin among the lanes."""
        if self.out.free_at > self.net.now:
            return False
        if self.send_oldest_control({}):
            return True
        count = self.net.plan.lanes.count
        return any(self.send_lane((self.lane_served + 1 + step) % count, self.out) for step in range(count))

    def send_lane(self, lane: int, out: Channel) -> bool:
        """Send from a lane of the buffer. In divided memory, packets may pass those that lack credit."""
        self.buffers.return_from_aside((1, lane))
        while self.buffers.asking((1, lane)):
            queue = self.buffers.first((1, lane), 1)
            packet = queue.packets[0]
            if out.has_credit_or_wait(packet):
                self.buffers.take(queue)
                self.forget_changes()
                self.used[self.part_of(packet)] -= packet.space
                self.lane_served = lane
                if not packet.is_control:
                    self.count_sent(packet)
                out.send(packet)
                return True
            if not self.net.plan.switch.queues.is_divided:
                return False
            self.buffers.stand_aside(queue)
        return False
