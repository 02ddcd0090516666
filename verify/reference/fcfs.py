"""Outputs that serve first come, first served, regardless of the input.

Any number of packets may leave an input's memory at the same time. With packet trimming, the data that waits
for an output has a limit.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from verify.reference.hosts import Host
from verify.reference.links import Packet
from verify.reference.marking import Fill
from verify.reference.streams import Stream
from verify.reference.switches import Switch

if TYPE_CHECKING:
    from verify.reference.network import Network


class FcfsSwitch(Switch):
    """Per output and lane a queue, and one for control packets where these have priority."""

    def __init__(self, net: Network, name: str) -> None:
        super().__init__(net, name)
        self.queues = {
            (output, lane, is_control): deque[tuple[Packet, int | None]]()
            for output in self.ports()
            for lane in self.lanes
            for is_control in (True, False)
        }
        #: The queues of each output. Outputs for which nothing waits are passed over quickly.
        self.queues_of = {
            output: [queue for (to, _, _), queue in self.queues.items() if to == output]
            for output in self.ports()
        }
        self.lane_served = dict.fromkeys(self.ports(), self.lanes[-1])

        #: The choices of each output's lane, where packets are trimmed, and the trimmed packets of outputs.
        self.choices_of: dict[tuple[int, int], Stream] = {}
        self.trimmed = dict.fromkeys(self.ports(), 0)

    def enqueue(self, packet: Packet, port: int) -> None:
        """Queue a packet behind those that arrived before, or trim it or the newest one of these."""
        rule = self.net.plan.switch.trimming
        if rule is None or packet.is_control:
            self.store(packet, port)
            return
        queue = self.queues[packet.output, packet.lane, False]
        limit = rule.of_rates.get(self.out[packet.output].usual_pace, rule.queue)
        waiting = sum(other.size for other, _ in queue)
        if waiting + packet.size <= limit:
            self.store(packet, port)
            return
        takes_newest = rule.is_random and self.choice(packet.output, packet.lane).below(2) == 0
        if takes_newest and waiting - queue[-1][0].size + packet.size <= limit:
            newest, its_port = queue.pop()
            assert its_port is not None
            self.trim(newest, its_port)
            self.store(newest, None)
            self.store(packet, port)
        else:
            self.trim(packet, port)
            self.store(packet, None)

    def choice(self, output: int, lane: int) -> Stream:
        """Return the stream of choices of an output's lane."""
        owner = self.number << 16 | (output - 1) * len(self.lanes) + lane
        if (output, lane) not in self.choices_of:
            self.choices_of[output, lane] = Stream(self.net.plan.seed, "trimming", owner)
        return self.choices_of[output, lane]

    def trim(self, packet: Packet, port: int) -> None:
        """Remove the payload of a packet, whose header continues on the lane of control packets."""
        plan = self.net.plan
        assert plan.switch.trimming
        assert plan.lanes.control is not None
        self.into[port].free(packet, self.net.now, packet.lane)
        self.net.trimmed += 1
        self.trimmed[packet.output] += 1
        size = plan.switch.trimming.size
        packet.kind, packet.lane = "header", plan.lanes.control
        packet.space = min(packet.space, self.net.space(size))
        packet.size = min(packet.size, size)
        packet.at_last = isinstance(self.out[packet.output].receiver, Host)

    def store(self, packet: Packet, port: int | None) -> None:
        """Add a packet to its queue, in the memory of an input or, if it was trimmed here, of none."""
        is_first = not packet.follows_data and self.net.plan.switch.control_first
        self.queues[packet.output, packet.lane, is_first].append((packet, port))
        waiting = [
            *self.queues[packet.output, packet.lane, True],
            *self.queues[packet.output, packet.lane, False],
        ]
        total = sum(other.size for other, _ in waiting)
        if self.net.plan.switch.trimming and packet.lane == self.net.plan.lanes.control:
            self.net.most_headers = max(self.net.most_headers, total)
        self.sample(packet, total)
        self.queue_changed(packet.output, packet.lane)

    def waits_for(self, output: int) -> int:
        """Return the bytes of all packets that wait for an output, on any lane."""
        return sum(packet.size for queue in self.queues_of[output] for packet, _ in queue)

    def queue_changed(self, output: int, lane: int) -> None:
        """Report to the congestion manager of an output."""
        waiting = [*self.queues[output, lane, True], *self.queues[output, lane, False]]
        total = sum(packet.size for packet, _ in waiting)
        self.fill_changed(output, lane, Fill(total, total, port=0, asking=0))

    def decide(self) -> None:
        """Send from each output, beginning with the lane after the one served last that has credit."""
        for output in self.out:
            if not any(self.queues_of[output]):
                continue
            for lane in self.lane_order(self.lane_served[output]):
                queue = self.queues[output, lane, True] or self.queues[output, lane, False]
                if queue and self.out[output].can_take(queue[0][0]):
                    packet, port = queue.popleft()
                    self.queue_changed(output, lane)
                    if port is None:
                        self.out[output].send(packet)
                    else:
                        self.transmit(packet, port)
                    self.note_lane(self.lane_served, output, lane)
                    break
