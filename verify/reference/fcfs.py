"""Outputs that serve first come, first served, regardless of the input.

Several packets may leave an input's memory at the same time. With packet trimming, the data that waits for a
lane of an output has a limit.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from verify.reading import Trimming
from verify.reference.links import Packet
from verify.reference.marking import Fill
from verify.reference.queues import Way
from verify.reference.streams import Stream
from verify.reference.switches import Switch

if TYPE_CHECKING:
    from verify.reference.network import Network


class FcfsSwitch(Switch):
    """A switch with a queue per output and lane, and another for control packets if these have priority."""

    def __init__(self, net: Network, name: str) -> None:
        super().__init__(net, name)
        self.queues = {
            (output, lane, is_control): deque[tuple[Packet, int]]()
            for output in self.ports()
            for lane in self.lanes
            for is_control in (True, False)
        }
        #: The queues of each output.
        self.queues_of = {
            output: [queue for (to, _, _), queue in self.queues.items() if to == output]
            for output in self.ports()
        }
        self.lane_served = dict.fromkeys(self.ports(), self.lanes[-1])

        #: The random choices for each output and lane, if packets are trimmed.
        self.choices_of: dict[tuple[int, int], Stream] = {}

    def make_room(self, packet: Packet, port: int, rule: Trimming) -> None:
        """Trim a data packet that would exceed the limit of its queue.

        The newest packet of the queue is trimmed instead at random, if this makes enough room.
        """
        queue = self.queues[packet.output, packet.lane, False]
        limit = rule.limit(self.out[packet.output].usual_pace)
        waiting = sum(other.size for other, _ in queue)
        if waiting + packet.size <= limit:
            return
        takes_newest = rule.is_random is not False and self.choice(packet.output, packet.lane).below(2) == 0
        if takes_newest and waiting - queue[-1][0].size + packet.size <= limit:
            newest, its_port = queue.pop()
            self.trim(newest, its_port)
            self.enqueue(newest, its_port)
            self.note_headers(newest)
        else:
            self.trim(packet, port)

    def waiting_bytes(self, way: Way) -> int:
        """Return the bytes that wait for an output's lane."""
        return sum(other.size for first in (True, False) for other, _ in self.queues[(*way, first)])

    def choice(self, output: int, lane: int) -> Stream:
        """Return the random stream for an output and lane."""
        owner = self.number << 16 | (output - 1) * len(self.lanes) + lane
        if (output, lane) not in self.choices_of:
            self.choices_of[output, lane] = Stream(self.net.plan.seed, "trimming", owner)
        return self.choices_of[output, lane]

    def enqueue(self, packet: Packet, port: int) -> None:
        """Append a packet to the queue of its output and lane."""
        is_first = not packet.follows_data and self.net.plan.switch.control_first
        self.queues[packet.output, packet.lane, is_first].append((packet, port))
        self.sample(packet, self.waiting_bytes((packet.output, packet.lane)))
        self.queue_changed(packet.output, packet.lane)

    def waits_for(self, output: int) -> int:
        """Return the bytes of all packets that wait for an output, on any lane."""
        return sum(packet.size for queue in self.queues_of[output] for packet, _ in queue)

    def queue_changed(self, output: int, lane: int) -> None:
        """Report the fill of an output and lane to its congestion manager."""
        waiting = [*self.queues[output, lane, True], *self.queues[output, lane, False]]
        total = sum(packet.size for packet, _ in waiting)
        self.fill_changed(output, lane, Fill(total, total, port=0, asking=0))

    def decide(self) -> None:
        """Send from each output, from the first lane with credit after the one served last."""
        for output in self.out:
            if not any(self.queues_of[output]):
                continue
            for lane in self.lane_order(self.lane_served[output]):
                queue = self.queues[output, lane, True] or self.queues[output, lane, False]
                if queue and self.out[output].can_take(queue[0][0]):
                    packet, port = queue.popleft()
                    self.queue_changed(output, lane)
                    self.transmit(packet, port)
                    self.note_lane(self.lane_served, output, lane)
                    break
