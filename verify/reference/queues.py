"""The queues of a node's inputs, for any organization, and their requests for outputs.

A queue requests the output of the packet at its head. The queues of an input that request the same output and
lane take turns. A queue whose head has changed becomes the last of them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from verify.reading import Organisation
from verify.reference.links import Packet

#: An output and a lane.
Way = tuple[int, int]


@dataclass(eq=False)
class Queue:
    """A queue of an input and lane: for control packets, a normal queue, or a special queue."""

    port: int
    lane: int
    role: str
    number: int
    packets: deque[Packet] = field(default_factory=deque)
    #: The output and lane for which the queue takes turns or stands aside; `None` if the queue is empty.
    seat: Way | None = None
    is_aside: bool = False

    @property
    def bytes(self) -> int:
        """Bytes in the queue."""
        return sum(packet.size for packet in self.packets)


class Buffers:
    """All queues of a node."""

    def __init__(self, organisation: Organisation, numbers: dict[str, int], *, control_first: bool) -> None:
        self.organisation, self.numbers, self.control_first = organisation, numbers, control_first
        self.queues: dict[tuple[int, int, str, int], Queue] = {}
        #: For each output and lane: the queues in turn by input, the queues that stand aside, and the bytes.
        self.turns: dict[Way, dict[int, list[Queue]]] = {}
        self.aside: dict[Way, list[Queue]] = {}
        self.bytes: dict[Way, int] = {}
        #: New requests: outputs with lane, and inputs.
        self.asked: list[tuple[Way, int]] = []

    def queue(self, port: int, lane: int, role: str, number: int) -> Queue:
        """Return a queue. It is created when it is first needed."""
        return self.queues.setdefault((port, lane, role, number), Queue(port, lane, role, number))

    def queue_for(self, packet: Packet, port: int) -> Queue:
        """Return the queue in which a packet is stored."""
        if self.control_first and not packet.follows_data:
            return self.queue(port, packet.lane, "control", 0)
        number = self.organisation.index(packet.output, self.numbers[packet.destination])
        return self.queue(port, packet.lane, "normal", number)

    def asking(self, way: Way) -> list[int]:
        """Return the inputs with queues whose turn may come at an output."""
        return sorted(port for port, queues in self.turns.get(way, {}).items() if queues)

    def in_turn(self, way: Way, busy: set[int]) -> set[int]:
        """Return the inputs to serve: those whose queues yield only if all other inputs are busy."""
        asking = set(self.asking(way))
        others = {port for port in asking if not self.lets_pass(self.first(way, port))}
        if others - busy or not asking:
            return others
        return self.with_yielding(way, others, asking - busy)

    def with_yielding(self, way: Way, others: set[int], yielding: set[int]) -> set[int]:
        """Return the inputs to serve if all that do not yield are busy."""
        return set(self.asking(way))

    #: Whether special queues yield to queues for other outputs, and are served in the order of their waits.
    is_strict = False

    def lets_pass(self, queue: Queue) -> bool:
        """Return whether a queue yields to other queues."""
        return False

    def standing_aside(self, way: Way) -> list[int]:
        """Return the inputs of the queues that stand aside."""
        return [queue.port for queue in self.aside.get(way, [])]

    def first(self, way: Way, port: int) -> Queue:
        """Return the next queue in turn of an input."""
        return self.turns[way][port][0]

    def store(self, packet: Packet, port: int) -> None:
        """Store a packet that has arrived."""
        queue, way = self.queue_for(packet, port), (packet.output, packet.lane)
        self.bytes[way] = self.bytes.get(way, 0) + packet.size
        queue.packets.append(packet)
        if len(queue.packets) == 1:
            self.head_changed(queue)

    def take(self, queue: Queue) -> Packet:
        """Remove and return the packet at the head of a queue."""
        packet = queue.packets.popleft()
        self.bytes[packet.output, packet.lane] -= packet.size
        self.head_changed(queue)
        return packet

    def head_changed(self, queue: Queue) -> None:
        """Update the output that a queue requests for its head."""
        self.leave_seat(queue)
        self.sit(queue)

    def sit(self, queue: Queue) -> None:
        """Request the output of a queue's head as the last queue of its input. Control packets are first."""
        if not queue.packets:
            return
        way = queue.packets[0].output, queue.lane
        queue.seat = way
        if self.is_stopped(queue.packets[0]):
            self.stand_aside(queue)
            return
        queue.is_aside = False
        turns = self.turns.setdefault(way, {}).setdefault(queue.port, [])
        turns.insert(0 if queue.role == "control" else len(turns), queue)
        self.asked.append((way, queue.port))

    def is_stopped(self, packet: Packet) -> bool:
        """Return whether the next node has stopped packets to the destination of a packet."""
        return False

    def leave_seat(self, queue: Queue) -> None:
        """Remove the request of a queue."""
        if queue.seat is None:
            return
        place = self.aside[queue.seat] if queue.is_aside else self.turns[queue.seat][queue.port]
        place.remove(queue)
        queue.seat = None

    def stand_aside(self, queue: Queue) -> None:
        """Let a queue that lacks credit or is stopped yield to other queues, until `return_from_aside`."""
        assert queue.seat is not None
        turns = self.turns.get(queue.seat, {}).get(queue.port, [])
        if queue in turns:
            turns.remove(queue)
        queue.is_aside = True
        self.aside.setdefault(queue.seat, []).append(queue)

    def return_from_aside(self, way: Way) -> None:
        """Let queues that stood aside take turns again, as the last ones."""
        waiting, self.aside[way] = self.aside.get(way, []), []
        for queue in waiting:
            self.sit(queue)

    def filled(self, port: int) -> bool:
        """Return whether any bytes wait for an output."""
        return any(size > 0 for (output, _), size in self.bytes.items() if output == port)

    def telling_bytes(self, port: int, output: int, lane: int, destination: str) -> int:
        """Return the bytes of the queue whose fill indicates an output's congestion."""
        number = self.organisation.index(output, self.numbers[destination])
        return self.queue(port, lane, "normal", number).bytes
