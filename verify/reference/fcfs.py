"""Outputs that serve first come, first served, regardless of the input.

Any number of packets may leave an input's memory at the same time.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from verify.reference.links import Packet
from verify.reference.marking import Fill
from verify.reference.switches import Switch

if TYPE_CHECKING:
    from verify.reference.network import Network


class FcfsSwitch(Switch):
    """Per output and lane a queue, and one for control packets where these have priority."""

    def __init__(self, net: Network, name: str) -> None:
        super().__init__(net, name)
        self.queues = {
            (output, lane, is_control): deque[tuple[Packet, int]]()
            for output in self.ports()
            for lane in self.lanes
            for is_control in (True, False)
        }
        self.lane_served = dict.fromkeys(self.ports(), self.lanes[-1])

    def enqueue(self, packet: Packet, port: int) -> None:
        """Queue a packet behind those that arrived before."""
        is_first = not packet.follows_data and self.net.plan.switch.control_first
        self.queues[packet.output, packet.lane, is_first].append((packet, port))
        waiting = [
            *self.queues[packet.output, packet.lane, True],
            *self.queues[packet.output, packet.lane, False],
        ]
        self.sample(packet, sum(other.size for other, _ in waiting))
        self.queue_changed(packet.output, packet.lane)

    def waits_for(self, output: int) -> int:
        """Return the bytes of all packets that wait for an output, on any lane."""
        waiting = [queue for (to, _, _), queue in self.queues.items() if to == output]
        return sum(packet.size for queue in waiting for packet, _ in queue)

    def queue_changed(self, output: int, lane: int) -> None:
        """Report to the congestion manager of an output."""
        waiting = [*self.queues[output, lane, True], *self.queues[output, lane, False]]
        total = sum(packet.size for packet, _ in waiting)
        self.fill_changed(output, lane, Fill(total, total, port=0, asking=0))

    def decide(self) -> None:
        """Send from each output, beginning with the lane after the one served last that has credit."""
        for output in self.out:
            for lane in self.lane_order(self.lane_served[output]):
                queue = self.queues[output, lane, True] or self.queues[output, lane, False]
                if queue and self.out[output].can_take(queue[0][0]):
                    packet, port = queue.popleft()
                    self.queue_changed(output, lane)
                    self.transmit(packet, port)
                    self.note_lane(self.lane_served, output, lane)
                    break
