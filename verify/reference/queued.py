"""Switches with queues of any organization: a read port for each queue, or one per input."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from verify.reference.isolation import IsolatingBuffers, Notice, Place
from verify.reference.links import Packet
from verify.reference.marking import Fill
from verify.reference.queues import Buffers, Queue, Way
from verify.reference.rounds import Round, first_from
from verify.reference.switches import Switch

if TYPE_CHECKING:
    from verify.reference.network import Network


class QueuedSwitch(Switch):
    """The common base of switches with queues of any organization."""

    def __init__(self, net: Network, name: str) -> None:
        super().__init__(net, name)
        plan = net.plan.switch
        self.buffers = self.make_buffers()
        self.crossbar = plan.crossbar
        self.is_divided = plan.queues.is_divided
        self.is_fifo = (
            len(self.lanes) == 1
            and plan.queues.fixed(self.count) == 1
            and not plan.control_first
            and net.plan.congestion.isolation is None
        )
        self.rounds: dict[Way, Round] = {}

    def make_buffers(self) -> Buffers:
        """Create the queues."""
        plan, rule = self.net.plan.switch, self.net.plan.congestion.isolation
        if rule:
            place = Place(lambda: self.net.now, lambda port: self.out[port].pace)
            return IsolatingBuffers(
                plan.queues, self.net.number, rule, place, control_first=plan.control_first, detects=True
            )
        return Buffers(plan.queues, self.net.number, control_first=plan.control_first)

    def enqueue(self, packet: Packet, port: int) -> None:
        """Store a packet."""
        self.buffers.store(packet, port)
        self.sample(packet, self.waiting_bytes((packet.output, packet.lane)))
        self.queue_changed(packet, port)
        self.spread()

    def queue_changed(self, packet: Packet, port: int) -> None:
        """Report to the congestion manager of the packet's output that a queue grew or shrank."""
        way = packet.output, packet.lane
        queue = self.buffers.telling_bytes(port, *way, packet.destination)
        asking = len(self.buffers.asking(way))
        self.fill_changed(*way, Fill(self.waiting_bytes(way), queue, port, asking))

    def waiting_bytes(self, way: Way) -> int:
        """Return the bytes that wait for an output."""
        return self.buffers.bytes.get(way, 0)

    def waits_for(self, output: int) -> int:
        """Return the bytes of all packets that wait for an output, on any lane."""
        return sum(self.waiting_bytes((output, lane)) for lane in self.lanes)

    def isolates(self, packet: Packet) -> bool:
        """Return whether a CAM line for the packet's lane lists its destination."""
        return isinstance(self.buffers, IsolatingBuffers) and self.buffers.isolates(packet)

    def is_awaited(self, output: int) -> bool:
        """Return whether any packets wait for an output."""
        return self.waits_for(output) > 0

    def spread(self) -> None:
        """Schedule the outputs with new requests, and send notifications of changes."""
        self.mark_moved()
        asked, self.buffers.asked = self.buffers.asked, []
        for way, port in asked:
            self.ask(way, port)
        self.send_notices()

    def mark_moved(self) -> None:
        """Report packets that changed queues to the congestion managers."""
        if isinstance(self.buffers, IsolatingBuffers):
            moved, self.buffers.moved = self.buffers.moved, []
            for packet, port in moved:
                self.queue_changed(packet, port)

    def send_notices(self) -> None:
        """Send the notifications that are due, before packets that have not started."""
        if isinstance(self.buffers, IsolatingBuffers):
            notices, self.buffers.notices = self.buffers.notices, []
            for port, notice in notices:
                size = self.buffers.rule.message + 2 * len(notice.destinations)
                self.out[port].notify(notice, size)

    def notice(self, port: int, notice: Notice) -> None:
        """Process a notification from the next node."""
        if isinstance(self.buffers, IsolatingBuffers):
            self.buffers.received(port, notice)
            self.spread()

    def ask(self, way: Way, port: int) -> None:
        """Handle a new request of an input for an output."""
        raise NotImplementedError

    def candidate(self, way: Way, port: int) -> Queue | int:
        """Return the queue of an input to serve, the lacking credit, or 0 if all queues stand aside.

        In divided memory, queues that lack credit stand aside for others.
        """
        channel = self.out[way[0]]
        while port in self.buffers.asking(way):
            queue = self.buffers.first(way, port)
            if channel.has_credit_or_wait(queue.packets[0]):
                return queue
            if not self.is_divided:
                return queue.packets[0].space
            self.buffers.stand_aside(queue)
        return 0

    def serve(self, queue: Queue) -> tuple[int, int]:
        """Send the packet at the head of a queue, and return when its input and its output are free."""
        packet = self.buffers.take(queue)
        self.queue_changed(packet, queue.port)
        read = None
        if self.crossbar is not None:
            read = max(self.net.now + ceil(packet.size * self.crossbar), packet.tail_in)
        end = self.transmit(packet, queue.port, read)
        return end if read is None else read, end


class RoundRobinSwitch(QueuedSwitch):
    """A switch with a read port per queue, whose outputs serve lanes and inputs by round robin."""

    def __init__(self, net: Network, name: str) -> None:
        super().__init__(net, name)
        #: Outputs to decide for, in this order. `served` has the input served last, and `lacking` the lacking
        #: credit.
        self.pending: list[int] = []
        self.served: dict[Way, int] = {}
        self.lane_served = dict.fromkeys(self.ports(), self.lanes[-1])
        self.lacking: dict[Way, int] = {}

    def ask(self, way: Way, port: int) -> None:
        """Schedule a decision, unless the packet needs at least the credit that the output already lacks."""
        channel, lacking = self.out[way[0]], self.lacking.get(way, 0)
        asking = port in self.buffers.asking(way)
        if lacking and asking and self.buffers.first(way, port).packets[0].space >= lacking:
            return
        if channel.free_at > self.net.now:
            self.wake(way[0], channel.free_at)
        elif way[0] not in self.pending:
            self.pending.append(way[0])

    def decide(self) -> None:
        """Decide for outputs that are free or whose credit has returned, then for those with new requests."""
        for output in sorted(self.woken):
            for lane in self.lanes:
                if self.is_divided:
                    self.buffers.return_from_aside((output, lane))
                self.lacking.pop((output, lane), None)
            self.buffers.asked = []
            if output not in self.pending:
                self.settle(output)
        self.woken = []
        while self.pending:
            self.settle(self.pending.pop(0))

    def settle(self, output: int) -> None:
        """Send from an output, beginning with the lane after the one served last."""
        channel = self.out[output]
        if channel.free_at > self.net.now:
            self.wake(output, channel.free_at)
            return
        for lane in self.lane_order(self.lane_served[output]):
            if self.send_from((output, lane)):
                self.note_lane(self.lane_served, output, lane)
                return

    def send_from(self, way: Way) -> bool:
        """Send from a lane if possible, and return whether a packet was sent."""
        while (port := self.next_input(way)) is not None:
            queue = self.candidate(way, port)
            if queue == 0:
                continue
            if isinstance(queue, int):
                self.lacking[way] = queue
                return False
            self.served[way] = port
            if way in self.rounds:
                self.rounds[way].serve(port, self.net.now, self.net.now)
            _, end = self.serve(queue)
            self.spread()
            if self.buffers.filled(way[0]):
                self.wake(way[0], end)
            return True
        return False

    def next_input(self, way: Way) -> int | None:
        """Return the next input in turn; `None` if there is none."""
        asking = self.buffers.in_turn(way, set())
        if self.net.plan.switch.has_rounds:
            round_ = self.rounds.setdefault(way, Round(is_patient=False))
            asking = round_.choice(asking, set(self.buffers.standing_aside(way)), {}, self.net.now)
        return first_from(asking, self.served.get(way, 0) + 1)


class IslipSwitch(QueuedSwitch):
    """A switch with one read port per input, which iSLIP with rounds matches to outputs."""

    def __init__(self, net: Network, name: str) -> None:
        super().__init__(net, name)
        self.read_free = dict.fromkeys(self.ports(), 0)
        #: The output for which an input was last read. It is woken when the input is free.
        self.feeding: dict[int, int] = {}
        self.granted = dict.fromkeys(self.ports(), 0)
        self.accepted = dict.fromkeys(self.ports(), 0)
        #: The lane that each output served last.
        self.lane_served = dict.fromkeys(self.ports(), self.lanes[-1])
        self.is_asked = False

    def ask(self, way: Way, port: int) -> None:
        """Schedule a matching for when input and output are free."""
        if self.read_free[port] > self.net.now:
            self.wake(self.feeding[port], self.read_free[port])
        elif self.out[way[0]].free_at > self.net.now:
            self.wake(way[0], self.out[way[0]].free_at)
        else:
            self.is_asked = True

    def decide(self) -> None:
        """Match inputs and outputs that have requests. Each output tries one lane after another."""
        for output in self.woken:
            for lane in self.lanes if self.is_divided else ():
                self.buffers.return_from_aside((output, lane))
            self.buffers.asked = []
        if not self.woken and not self.is_asked:
            return
        self.woken, self.is_asked = [], False
        for step in self.lanes:
            self.refused: set[int] = set()
            for iteration in range(self.net.plan.switch.iterations):
                matched = self.match(step, moves_pointers=iteration == 0)
                if not matched:
                    break
                for port in sorted(matched):
                    self.send(*matched[port])
                self.tell_of_matches()
            self.repeat(step)
        self.plan_wakes()

    def lane_at(self, output: int, step: int) -> int:
        """Return the lane that an output considers in a step of a matching."""
        return self.lane_order(self.lane_served[output])[step]

    def repeat(self, step: int) -> None:
        """Schedule a matching after a cell if a grant was refused and a free input requests the output."""
        now, cell = self.net.now, self.net.plan.switch.cell
        for output in sorted(self.refused) if cell else ():
            asking = self.buffers.asking((output, self.lane_at(output, step)))
            if self.out[output].free_at <= now and any(self.read_free[port] <= now for port in asking):
                pace = self.crossbar
                self.wake(output, now + (self.out[output].span(cell) if pace is None else ceil(cell * pace)))

    def tell_of_matches(self) -> None:
        """Report changed queues and send notifications, after all matched packets have started."""
        # Inputs of the matched packets are busy, so their new requests are handled when they are free.
        self.buffers.asked = []
        self.mark_moved()
        self.send_notices()

    def match(self, step: int, *, moves_pointers: bool) -> dict[int, tuple[int, Queue]]:
        """Match free outputs with free inputs. Each input accepts the grant next to its pointer."""
        found: dict[int, tuple[int, Queue]] = {}
        later: list[int] = []
        self.refused = set()
        for output in self.ports():
            way = output, self.lane_at(output, step)
            if not self.buffers.asking(way) or self.out[output].free_at > self.net.now:
                continue
            queue = self.grant(way, set())
            if queue is not None and self.buffers.is_strict and self.buffers.lets_pass(queue):
                later.append(output)
            elif queue is not None:
                self.offer(output, queue, found)
        # With strict arbitration, outputs with yielding special queues choose among the remaining inputs.
        taken = set(found)
        for output in later:
            queue = self.grant((output, self.lane_at(output, step)), taken)
            if queue is not None:
                self.offer(output, queue, found)
        if moves_pointers:
            for port, (output, _) in found.items():
                self.granted[output], self.accepted[port] = port + 1, output + 1
        return found

    def offer(self, output: int, queue: Queue, found: dict[int, tuple[int, Queue]]) -> None:
        """Accept a grant for its input, unless the input prefers a grant that it has accepted before."""
        other = found.get(queue.port)
        if other is None or self.prefers((output, queue), other):
            found[queue.port] = output, queue
            self.refused |= {other[0]} if other else set()
        else:
            self.refused.add(output)

    def prefers(self, grant: tuple[int, Queue], other: tuple[int, Queue]) -> bool:
        """Return whether an input prefers a grant to another.

        Queues that yield come after others. Otherwise, the output that is nearer to the pointer is preferred.
        """
        passes = [self.buffers.lets_pass(queue) for _, queue in (grant, other)]
        if passes[0] != passes[1]:
            return passes[1]
        return first_from([grant[0], other[0]], self.accepted[grant[1].port]) == grant[0]

    def grant(self, way: Way, taken: set[int]) -> Queue | None:
        """Return the queue that an output grants, of the first free input from its pointer on, or `None`.

        Inputs in `taken` count as busy for longer than the output waits.
        """
        now = self.net.now
        while True:
            busy = {port: free for port, free in self.read_free.items() if free > now}
            busy |= dict.fromkeys(taken, 2**64)
            round_ = self.rounds.setdefault(way, Round(is_patient=not self.is_fifo))
            asking, aside = self.buffers.in_turn(way, set(busy)), set(self.buffers.standing_aside(way))
            left, has_changed = round_.choice(asking, aside, busy, now), False
            while (port := first_from(left, self.granted[way[0]])) is not None:
                left = left - {port}
                queue = self.candidate(way, port)
                if isinstance(queue, Queue):
                    return queue
                if queue != 0:
                    return None
                has_changed = True
            if not has_changed:
                return None

    def send(self, output: int, queue: Queue) -> None:
        """Send from a matched queue."""
        read, end = self.serve(queue)
        self.read_free[queue.port], self.feeding[queue.port] = read, output
        self.rounds[output, queue.lane].serve(queue.port, self.net.now, end)
        self.note_lane(self.lane_served, output, queue.lane)

    def plan_wakes(self) -> None:
        """Schedule a matching for when inputs and outputs become free, if packets wait."""
        filled = [output for output in self.ports() if self.buffers.filled(output)]
        for output in filled:
            if self.out[output].free_at > self.net.now:
                self.wake(output, self.out[output].free_at)
        for port, free in self.read_free.items():
            if filled and free > self.net.now:
                self.wake(self.feeding[port], free)
