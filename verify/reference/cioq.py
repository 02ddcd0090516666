"""Switches with buffers at inputs and outputs, and a crossbar faster than the links.

    input queues --crossbar: one read port per input, one write port per output--> output queues -> link

A packet moves at the crossbar's rate, but no faster than it arrives, when the ports are free and the output
buffer has room for the whole packet. It may leave as soon as it begins to move. It occupies its space in a
buffer from the arrival of its head until its tail has left.
"""

from __future__ import annotations

from collections import deque
from math import ceil
from typing import TYPE_CHECKING

from verify.parts import BufferMarking, Marking
from verify.rdma import RedMarking, TelemetryMarking
from verify.reference.links import Packet
from verify.reference.marking import Fill
from verify.reference.queued import QueuedSwitch
from verify.reference.queues import Queue, Way
from verify.reference.rounds import Round, first_from

if TYPE_CHECKING:
    from verify.reference.network import Network


class CioqSwitch(QueuedSwitch):
    """A switch whose outputs serve inputs in rounds."""

    def __init__(self, net: Network, name: str) -> None:
        super().__init__(net, name)
        ways = [(port, lane) for port in self.ports() for lane in self.lanes]
        #: Bytes in use of each lane of inputs and outputs.
        self.used_in, self.used_out = dict.fromkeys(ways, 0), dict.fromkeys(ways, 0)
        self.leaving = {way: deque[Packet]() for way in ways}
        self.read_free = dict.fromkeys(self.ports(), 0)
        self.write_free = dict.fromkeys(self.ports(), 0)
        self.rounds = {way: Round(is_patient=not self.is_fifo) for way in ways}
        self.served = dict.fromkeys(ways, 0)
        self.write_lane = dict.fromkeys(self.ports(), self.lanes[-1])
        self.link_lane = dict.fromkeys(self.ports(), self.lanes[-1])
        self.pending: list[int] = []

    def enqueue(self, packet: Packet, port: int) -> None:
        """Store a packet that has arrived."""
        self.used_in[port, packet.lane] += packet.space
        self.buffers.store(packet, port)
        self.mark_at_input(packet, port)
        self.sample(packet, self.waiting_bytes((packet.output, packet.lane)))
        self.queue_changed(packet, port)
        self.spread()

    def spread(self) -> None:
        """Schedule outputs with new requests, the latest request first."""
        asked, self.buffers.asked = self.buffers.asked, []
        for way, port in reversed(asked):
            self.ask(way, port)

    def ask(self, way: Way, port: int) -> None:
        """Schedule a decision of an output for when both ports are free, or make it if they are."""
        free = max(self.read_free[port], self.write_free[way[0]])
        if free > self.net.now:
            self.wake(way[0], free)
        elif way[0] not in self.pending:
            self.pending.append(way[0])

    def waiting_bytes(self, way: Way) -> int:
        """Return the bytes that wait for an output, on both sides of the crossbar."""
        return super().waiting_bytes(way) + sum(packet.size for packet in self.leaving[way])

    def decide(self) -> None:
        """Decide for woken outputs in the order of ports, then for those with new requests."""
        for output in sorted(self.woken):
            if output not in self.pending:
                self.settle(output)
        self.woken = []
        while self.pending:
            self.settle(self.pending.pop(0))

    def settle(self, output: int) -> None:
        """Send from an output, move a packet to it, and send this packet if the link is free."""
        self.send(output)
        if self.take_in(output):
            self.send(output)
        self.spread()
        self.plan_wake(output)

    def plan_wake(self, output: int) -> None:
        """Schedule an attempt for when the link or a port that packets wait for is free.

        The return of credit causes an attempt separately.
        """
        ways = [(output, lane) for lane in self.lanes]
        asking = {port for way in ways for port in self.buffers.asking(way)}
        times = []
        if asking or any(self.leaving[way] for way in ways):
            times.append(self.out[output].free_at)
        if asking:
            times += [self.write_free[output], *(self.read_free[port] for port in asking)]
        times = [time for time in times if time > self.net.now]
        if times:
            self.wake(output, min(times))

    def send(self, output: int) -> None:
        """Send a packet from the first lane with credit, starting with the lane after the last served one."""
        channel = self.out[output]
        if channel.free_at > self.net.now:
            return
        for lane in self.lane_order(self.link_lane[output]):
            queue = self.leaving[output, lane]
            if queue and channel.has_credit_or_wait(queue[0]):
                packet = queue.popleft()
                self.note_lane(self.link_lane, output, lane)
                self.mark_at_output(packet)
                space = packet.space
                end = self.put_on_wire(packet)
                self.free_memory(self.used_out, (output, lane), space, end)
                return

    def free_memory(self, used: dict[Way, int], way: Way, space: int, time: int) -> None:
        """Free the space of a packet at the time at which its tail leaves."""

        def frees() -> None:
            used[way] -= space

        self.net.at(time, frees, rank=(0, 0))

    def take_in(self, output: int) -> bool:
        """Start to move a packet to an output, beginning with the lane after the one served last."""
        if self.write_free[output] > self.net.now:
            return False
        for lane in self.lane_order(self.write_lane[output]):
            queue = self.choose((output, lane))
            if queue is not None:
                self.note_lane(self.write_lane, output, lane)
                self.move(queue, output)
                return True
        return False

    def choose(self, way: Way) -> Queue | None:
        """Return the next queue in turn whose input can be read, if its packet has room at the output."""
        asking = set(self.buffers.asking(way))
        if not asking:
            return None
        busy = {port: free for port, free in self.read_free.items() if free > self.net.now}
        port = first_from(self.rounds[way].choice(asking, set(), busy, self.net.now), self.served[way] + 1)
        if port is None:
            return None
        queue = self.buffers.first(way, port)
        has_room = self.used_out[way] + queue.packets[0].space <= self.net.plan.switch.output_buffer
        return queue if has_room else None

    def move(self, queue: Queue, output: int) -> None:
        """Move the packet at the head of a queue through the crossbar."""
        packet, now, port = self.buffers.take(queue), self.net.now, queue.port
        way = output, packet.lane
        assert self.crossbar is not None
        end = max(now + ceil(packet.size * self.crossbar), packet.tail_in)
        self.read_free[port] = self.write_free[output] = end
        self.free_memory(self.used_in, (port, packet.lane), packet.space, end)
        if packet.space:
            self.into[port].free(packet, end, packet.came)
        self.served[way] = port
        self.leaving[way].append(packet)
        self.used_out[way] += packet.space
        self.rounds[way].serve(port, now, end)
        self.queue_changed(packet, port)

    def mark_data(self, packet: Packet) -> None:
        """Mark a packet, unless it is a control packet."""
        if not packet.is_control:
            self.mark(packet)

    def mark_at_input(self, packet: Packet, port: int) -> None:
        """Mark by the fill of the input buffer that a packet entered."""
        rule, lane = self.net.plan.congestion.marking, packet.lane
        if not isinstance(rule, BufferMarking) or self.used_in[port, lane] <= rule.input:
            return
        if rule.kind == "mvpm":
            self.mark_data(packet)
        elif rule.kind == "ipm":
            # Another full packet has no room. All packets are marked that wait for the same outputs as the
            # packets of this input.
            wanted = {other.output for other in self.waiting(port, lane)}
            for input_ in self.ports():
                for other in self.waiting(input_, lane):
                    if other.output in wanted:
                        self.mark_data(other)

    def waiting(self, port: int, lane: int) -> list[Packet]:
        """Return the packets that wait at an input on a lane."""
        queues = [q for q in self.buffers.queues.values() if (q.port, q.lane) == (port, lane)]
        return [packet for queue in queues for packet in queue.packets]

    def mark_at_output(self, packet: Packet) -> None:
        """Mark or validate by the fill of the output buffer that a packet leaves."""
        rule, way = self.net.plan.congestion.marking, (packet.output, packet.lane)
        if isinstance(rule, Marking | RedMarking | TelemetryMarking):
            asking = len(self.buffers.asking(way))
            self.fill_changed(*way, Fill(self.waiting_bytes(way), 0, port=0, asking=asking))
            if self.states[way].marks(packet.size, is_control=packet.is_control):
                self.mark(packet, self.severity(packet))
            self.stamp(packet)
        if not isinstance(rule, BufferMarking) or packet.is_control or self.used_out[way] <= rule.output:
            return
        if rule.kind == "opm":
            self.mark(packet)
        elif rule.kind == "mvpm" and packet.fecn:
            self.net.validations += not packet.validated
            packet.validated = True
