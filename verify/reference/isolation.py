"""Special queues for congested destinations: FBICM, HFDI and what CCFIT and EcoCC share with them.

    normal queue --head matches a line--> special queue, a line each: destinations of a root or branch
    output: lines of the next node's input, stopped or not

A normal queue above `detection` indicates a root: the output that its first packet requests. With `at_root`,
a special queue is allocated for the root. Otherwise, the normal queue gets a line. A line is propagated
upstream when its queue exceeds `stop`, or for a normal queue `detection`. The next packet that is stored
above `stop` causes Stop. A decrease to `go` causes Go. An empty queue that is not stopped causes Release.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from verify.parts import Isolation
from verify.reference.links import Packet
from verify.reference.queues import Buffers, Queue, Way

if TYPE_CHECKING:
    from verify.reading import Organisation

#: An input port and a lane.
Input = tuple[int, int]
#: The kinds of notifications.
KINDS = ("allocate", "stop", "go", "release")


@dataclass(frozen=True)
class Notice:
    """A notification from an input to the upstream output about a line: allocate, stop, go or release."""

    kind: str
    lane: int
    line: str
    destinations: tuple[str, ...] = ()
    #: Rate at which the root serves the line's flows in bit/s, if requested and available.
    rate: int | None = None


@dataclass(eq=False)
class Line:
    """The line of a special queue.

    Its destinations are those of a root at this node, or those of a line of the next node. After the release
    of that line, neither is set, and no packet matches.
    """

    way: Way
    age: int
    roots: list[str] | None = None
    branch: str | None = None
    is_propagated: bool = False
    sent_stop: bool = False


@dataclass(eq=False)
class OutputLine:
    """A line of the next node's input, which an output stores."""

    name: str
    destinations: tuple[str, ...]
    rate: int | None
    is_stopped: bool = False


@dataclass(frozen=True)
class Place:
    """The environment of the queues: the current time, and the pace of the link at an output."""

    now: Callable[[], int]
    pace: Callable[[int], Fraction] = lambda output: Fraction(0)


@dataclass
class Tally:
    """Counts since the start: allocated special queues, failed allocations, and notifications."""

    allocations: int = 0
    exhausted: int = 0
    notices: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))


class IsolatingBuffers(Buffers):
    """Queues, some of which are special queues for congestion trees."""

    def __init__(
        self,
        organisation: Organisation,
        numbers: dict[str, int],
        rule: Isolation,
        place: Place,
        *,
        control_first: bool,
        detects: bool,
    ) -> None:
        super().__init__(organisation, numbers, control_first=control_first)
        self.rule, self.place, self.detects = rule, place, detects
        self.special: dict[Input, list[Line | None]] = {}
        #: Normal queues with a line, by input and output, and whether Stop has been sent for each.
        self.own: dict[tuple[Input, int], bool] = {}
        self.known: dict[Way, list[OutputLine]] = {}
        self.wanting: set[Input] = set()
        self.taken = 0
        #: The time until which a special queue lets normal ones pass, unless all queues take turns.
        self.due: dict[Queue, int] = {}
        self.tally = Tally()
        #: Packets that changed queues, each with its input port.
        self.moved: list[tuple[Packet, int]] = []
        self.notices: list[tuple[int, Notice]] = []

    def lines(self, place: Input) -> list[Line | None]:
        """Return the lines of an input's special queues."""
        return self.special.setdefault(place, [None] * self.rule.queues)

    def special_queue(self, place: Input, number: int) -> Queue:
        """Return a special queue."""
        return self.queue(*place, "special", number)

    def say(self, place: Input, kind: str, line: str, destinations: tuple[str, ...] = ()) -> None:
        """Notify the node upstream of an input."""
        self.tally.notices[kind] += 1
        rate = self.announced_rate(place, line) if self.rule.arbitration == "weighted" else None
        self.notices.append((place[0], Notice(kind, place[1], line, destinations, rate)))

    def in_use(self, ports: int, lanes: range) -> dict[str, int]:
        """Return the counts of special queues and lines in use at a node with this number of ports."""
        taken = [
            sum(line is not None for line in self.lines((p + 1, v))) for p in range(ports) for v in lanes
        ]
        return {
            "full_ports": taken.count(self.rule.queues),
            "special_queues": sum(taken),
            "input_lines": sum(taken) + len(self.own),
            "output_lines": sum(map(len, self.known.values())),
        }

    # Events of queues.

    def store(self, packet: Packet, port: int) -> None:
        """Store a packet. A normal queue that grows may indicate a root."""
        queue, way = self.queue_for(packet, port), (packet.output, packet.lane)
        self.bytes[way] = self.bytes.get(way, 0) + packet.size
        queue.packets.append(packet)
        grown = queue.bytes
        if len(queue.packets) == 1:
            self.head_changed(queue)
        if queue.role == "normal":
            if self.detects and grown > min(self.rule.detection, self.rule.stop):
                self.detect(queue)
            self.reconsider(queue)

    def take(self, queue: Queue) -> Packet:
        """Remove the packet at the head of a queue. A special queue that is then empty may be released."""
        packet = queue.packets.popleft()
        self.bytes[packet.output, packet.lane] -= packet.size
        if queue.role == "special":
            self.charge(queue, packet)
            self.special_shrank(queue)
        elif queue.role == "normal":
            self.normal_shrank(queue, packet.output)
        self.head_changed(queue)
        if queue.role == "special" and not queue.packets:
            self.release((queue.port, queue.lane), queue.number)
        return packet

    def head_changed(self, queue: Queue) -> None:
        """Update the output that a queue requests for its head, after moving heads to special queues."""
        self.leave_seat(queue)
        self.isolate(queue)
        self.sit(queue)

    def reconsider(self, queue: Queue) -> None:
        """Check whether the head of a normal queue belongs in a special queue, and move it if so."""
        if self.isolate(queue):
            self.leave_seat(queue)
            self.sit(queue)

    def isolate(self, queue: Queue) -> bool:
        """Move packets from the head of a normal queue while they match, and return whether any did."""
        has_moved, place = False, (queue.port, queue.lane)
        while queue.role == "normal" and queue.packets and queue.packets[0].follows_data:
            number = self.special_for(queue.packets[0], place)
            if number is None:
                break
            has_moved = True
            packet = queue.packets.popleft()
            special = self.special_queue(place, number)
            special.packets.append(packet)
            self.normal_shrank(queue, packet.output)
            self.special_grew(special)
            self.moved.append((packet, queue.port))
            if len(special.packets) == 1:
                self.sit(special)
        return has_moved

    def special_for(self, packet: Packet, place: Input) -> int | None:
        """Return the number of the special queue for a packet, or `None` if the packet stays.

        This is a queue that holds packets to the same destination, otherwise the queue of the oldest line
        that lists the destination, or otherwise a new queue for a line of the next node.
        """
        way, to = (packet.output, packet.lane), packet.destination
        lines = [(number, line) for number, line in enumerate(self.lines(place)) if line is not None]
        for number, _ in lines:
            if any(other.destination == to for other in self.special_queue(place, number).packets):
                return number
        matching = [
            (line.age, number) for number, line in lines if line.way == way and to in self.listed(line)
        ]
        if matching:
            return min(matching)[1]
        for known in self.known.get(way, []):
            if to in known.destinations:
                return self.take_special(place, Line(way, self.taken, branch=known.name))
        return None

    def listed(self, line: Line) -> tuple[str, ...]:
        """Return the destinations of a line."""
        if line.roots is not None:
            return tuple(line.roots)
        known = self.named(line.way, line.branch)
        return known.destinations if known else ()

    def named(self, way: Way, name: str | None) -> OutputLine | None:
        """Return the line of an output with this name, by which the next node refers to it."""
        return next((known for known in self.known.get(way, []) if known.name == name), None)

    def take_special(self, place: Input, line: Line) -> int | None:
        """Allocate a free special queue for a line, and return its number; `None` if there is none."""
        lines = self.lines(place)
        if None not in lines:
            self.wanting.add(place)
            self.tally.exhausted += 1
            return None
        self.taken += 1
        self.tally.allocations += 1
        number = lines.index(None)
        lines[number] = line
        return number

    # Detection, propagation, Stop and Go, release.

    def detect(self, queue: Queue) -> None:
        """Check whether a normal queue indicates a root, and allocate or update its line if so."""
        if not queue.packets or (self.rule.at_root and not queue.packets[0].follows_data):
            return
        place, output = (queue.port, queue.lane), queue.packets[0].output
        waiting = [p.destination for p in queue.packets if p.output == output and p.follows_data]
        if self.rule.at_root:
            if queue.bytes > self.rule.detection:
                self.found_root(place, (output, queue.lane), waiting)
            return
        own, name = self.own.get((place, output)), f"own {output}"
        if own is False and queue.bytes > self.rule.stop:
            self.own[place, output] = True
            self.say(place, "stop", name)
        elif own is None and queue.bytes > self.rule.detection:
            self.own[place, output] = False
            self.say(place, "allocate", name, tuple(self.extended([], waiting)))

    def extended(self, known: list[str], waiting: list[str]) -> list[str]:
        """Return a list of destinations, extended by waiting ones up to the size of a line."""
        return list(dict.fromkeys(known + waiting))[: self.rule.destinations]

    def found_root(self, place: Input, way: Way, waiting: list[str]) -> None:
        """Allocate a special queue for a root at an input, or extend its line's list of destinations."""
        for number, line in enumerate(self.lines(place)):
            is_roots = line and line.way == way and line.roots is not None
            if line and is_roots and len(line.roots or []) < self.rule.destinations:
                line.roots = self.extended(line.roots or [], waiting)
                if line.is_propagated:
                    self.say(place, "allocate", f"special {number}", tuple(line.roots))
                return
        self.take_special(place, Line(way, self.taken, roots=self.extended([], waiting)))

    def normal_shrank(self, queue: Queue, output: int) -> None:
        """Update the CAM line of a normal queue for an output, after a packet for it has left."""
        place, name = (queue.port, queue.lane), f"own {output}"
        if (place, output) not in self.own:
            return
        if not queue.packets:
            del self.own[place, output]
            self.say(place, "release", name)
        elif self.own[place, output] and queue.bytes <= self.rule.go:
            self.own[place, output] = False
            self.say(place, "go", name)

    def special_grew(self, queue: Queue) -> None:
        """Propagate the line of a special queue that exceeds `stop`, or stop its senders."""
        place, name = (queue.port, queue.lane), f"special {queue.number}"
        line = self.lines(place)[queue.number]
        assert line is not None
        if queue.bytes <= self.rule.stop:
            return
        if line.is_propagated and not line.sent_stop:
            line.sent_stop = True
            self.say(place, "stop", name)
        elif not line.is_propagated and (line.roots is not None or self.named(line.way, line.branch)):
            line.is_propagated = True
            self.say(place, "allocate", name, self.listed(line))

    def special_shrank(self, queue: Queue) -> None:
        """Resume the senders to a special queue that has decreased to `go`."""
        place = queue.port, queue.lane
        line = self.lines(place)[queue.number]
        assert line is not None
        if queue.packets and line.sent_stop and queue.bytes <= self.rule.go:
            line.sent_stop = False
            self.say(place, "go", f"special {queue.number}")

    def release(self, place: Input, number: int) -> None:
        """Release an empty special queue unless it is stopped, and isolate packets that waited for one."""
        line = self.lines(place)[number]
        if line is None:
            return
        known = self.named(line.way, line.branch) if line.branch is not None else None
        if known and known.is_stopped:
            return
        self.lines(place)[number] = None
        self.due.pop(self.special_queue(place, number), None)
        if line.is_propagated:
            self.say(place, "release", f"special {number}")
        if place in self.wanting:
            self.wanting.discard(place)
            normal = [q for q in self.queues.values() if (q.port, q.lane, q.role) == (*place, "normal")]
            for queue in sorted(normal, key=lambda queue: queue.number):
                self.reconsider(queue)

    def is_stopped(self, packet: Packet) -> bool:
        """Return whether the next node has stopped packets to the destination of a packet."""
        lines = self.known.get((packet.output, packet.lane), [])
        stopped = any(line.is_stopped and packet.destination in line.destinations for line in lines)
        return stopped and packet.follows_data

    def isolates(self, packet: Packet) -> bool:
        """Return whether a root at this node or a line of a next node lists a packet's destination."""
        roots = [
            line.roots or []
            for (_, lane), lines in self.special.items()
            for line in lines
            if line and lane == packet.lane
        ]
        upstream = [
            line.destinations
            for (_, lane), known in self.known.items()
            for line in known
            if lane == packet.lane
        ]
        return any(packet.destination in listed for listed in [*roots, *upstream])

    # Turns of queues, if special queues are due only at certain times.

    def first(self, way: Way, port: int) -> Queue:
        """Return the queue whose turn it is; special queues that are not due let normal queues pass."""
        turns, now = self.turns[way][port], self.place.now()
        if self.rule.arbitration == "round-robin" or turns[0].role == "control":
            return turns[0]
        due = [queue for queue in turns if queue.role == "special" and self.due[queue] <= now]
        if due and self.rule.arbitration == "strict":
            return min(due, key=lambda queue: self.due[queue])
        return next((queue for queue in turns if queue.role == "normal" or queue in due), turns[0])

    @property
    def is_strict(self) -> bool:  # type: ignore[override]
        """Whether special queues also yield to queues for other outputs, and the longest wait comes first."""
        return self.rule.arbitration == "strict"

    def with_yielding(self, way: Way, others: set[int], yielding: set[int]) -> set[int]:
        """Return the inputs to be served. With `strict`, yielding inputs count if they waited longest."""
        if not self.is_strict:
            return super().with_yielding(way, others, yielding)
        due = {port: self.due[self.first(way, port)] for port in yielding}
        return others | {port for port in due if due[port] == min(due.values())}

    def lets_pass(self, queue: Queue) -> bool:
        """Return whether a queue is a special queue that is not due yet."""
        is_plain = queue.role != "special" or self.rule.arbitration == "round-robin"
        return not is_plain and self.due[queue] > self.place.now()

    def sit(self, queue: Queue) -> None:
        """Add a queue to the requests for its head's output. The wait of a special queue starts now."""
        super().sit(queue)
        if queue.role == "special" and queue.packets and not queue.is_aside:
            now, is_strict = self.place.now(), self.rule.arbitration == "strict"
            self.due[queue] = now + self.rule.longest_wait if is_strict else max(now, self.due.get(queue, 0))

    def charge(self, queue: Queue, packet: Packet) -> None:
        """With `weighted`, make a special queue due when its packet would have left at the queue's share."""
        line, now = self.lines((queue.port, queue.lane))[queue.number], self.place.now()
        assert line is not None
        share = self.share(line)
        passes = 0 if share is None else packet.size * 8 * 10**12 // share
        self.due[queue] = now if share is None else max(now, min(now, self.due[queue]) + passes)

    def share(self, line: Line) -> int | None:
        """Return the rate of a line's flows in bit/s, or `None` if it is unknown.

        This is the rate of the root's link or the reported rate, divided by the number of lines at this node
        for the same root or line.
        """
        if line.roots is not None:
            whole: int | None = int(8 * 10**12 / self.place.pace(line.way[0]))
        else:
            known = self.named(line.way, line.branch)
            whole = known.rate if known else None
        alike = [
            other
            for lines in self.special.values()
            for other in lines
            if other and other.way == line.way and other.branch == line.branch
            if (other.roots is None) == (line.roots is None)
        ]
        return None if whole is None else whole // len(alike)

    def announced_rate(self, place: Input, name: str) -> int | None:
        """Return the rate of a line's flows, in bit/s, that a notification reports upstream."""
        kind, number = name.split()
        if kind == "own":
            sharers = [where for where, output in self.own if output == int(number) and where[1] == place[1]]
            rate = int(8 * 10**12 / self.place.pace(int(number)))
            return rate // len(sharers) if sharers else None
        line = self.lines(place)[int(number)]
        return self.share(line) if line else None

    # Notifications from the next node.

    def received(self, port: int, notice: Notice) -> None:
        """Process a notification that arrived at an output port."""
        way = port, notice.lane
        self.note(way, notice)
        for place, number in self.branches(way, notice.line):
            if notice.kind == "release":
                line = self.lines(place)[number]
                assert line is not None
                line.branch = None
            if not self.special_queue(place, number).packets:
                self.release(place, number)
        self.return_from_aside(way)
        turns = self.turns.get(way, {})
        for queue in [queue for input_ in sorted(turns) for queue in turns[input_]]:
            self.reconsider(queue)
            if queue.seat and not queue.is_aside and self.is_stopped(queue.packets[0]):
                self.stand_aside(queue)

    def note(self, way: Way, notice: Notice) -> None:
        """Update an output's lines according to a notification from the next node."""
        lines, known = self.known.setdefault(way, []), self.named(way, notice.line)
        if known:
            known.rate = notice.rate
        if notice.kind == "allocate" and known is None:
            lines.append(OutputLine(notice.line, notice.destinations, notice.rate))
            self.adopt(way, lines[-1])
        elif known and notice.kind == "allocate":
            known.destinations = notice.destinations
        elif known and notice.kind == "release":
            lines.remove(known)
        elif known:
            known.is_stopped = notice.kind == "stop"

    def adopt(self, way: Way, known: OutputLine) -> None:
        """Assign special queues whose line was released to a new line that lists their destinations."""
        for place, lines in self.special.items():
            for number, line in enumerate(lines):
                if line and line.way == way and line.roots is None and line.branch is None:
                    held = {packet.destination for packet in self.special_queue(place, number).packets}
                    if held & set(known.destinations):
                        line.branch = known.name

    def branches(self, way: Way, name: str) -> list[tuple[Input, int]]:
        """Return the special queues that were allocated for a line of the next node."""
        return [
            (place, number)
            for place in sorted(self.special)
            for number, line in enumerate(self.special[place])
            if line and line.way == way and line.branch == name
        ]

    def telling_bytes(self, port: int, output: int, lane: int, destination: str) -> int:
        """Return the bytes of the root's special queue, if roots have special queues; zero without one."""
        if not self.rule.at_root:
            return super().telling_bytes(port, output, lane, destination)
        for number, line in enumerate(self.lines((port, lane))):
            if line and line.way == (output, lane) and line.roots is not None:
                return self.special_queue((port, lane), number).bytes
        return 0
