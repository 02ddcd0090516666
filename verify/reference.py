"""A second model of a lossless network with InfiniBand congestion control: slow, short, separate.

It shares no code with the simulator and does nothing cleverly: every credit that returns, every
output that becomes free, every delay that ends is an event, and after the arrivals of an instant
every node is asked what it wants to do. Time is in whole picoseconds; fractions are exact.

    host --channel--> switch --channel--> switch --channel--> host
         <--credits--        <--credits--        <--credits--
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

from verify.reading import FlowPlan, Marking, Plan, Reaction


@dataclass
class Packet:
    """A packet; sizes in bytes. A control packet has no payload and belongs to a flow too."""

    flow: Flow
    destination: str
    payload: int
    size: int
    space: int
    is_control: bool = False
    fecn: bool = False
    last_span: int = 0


@dataclass
class Sample:
    """What happened in one interval."""

    received: dict[str, int]
    sent: dict[str, int]
    ccti: dict[str, int]
    fecn_marks: int
    becn_received: int


class Network:
    """The clock, the nodes, the counters."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.now = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._scheduled = 0
        self.injected = self.delivered = self.hops = self.fecn_marks = self.becn_received = 0
        self.samples: list[Sample] = []
        self.hosts = {name: Host(self, name) for name in plan.wiring.hosts}
        self.switches = {name: Switch(self, name) for name in plan.wiring.switches}
        for link in plan.wiring.links:
            (near, near_port), (far, far_port) = link.ends
            there = Channel(self, link.ps_per_byte, link.delay_ps, self.node(far), far_port)
            back = Channel(self, link.ps_per_byte, link.delay_ps, self.node(near), near_port)
            self.node(near).connect(near_port, out=there, into=back)
            self.node(far).connect(far_port, out=back, into=there)
        self.flows = [self.hosts[flow.source].add(flow) for flow in plan.flows]

    def node(self, name: str) -> Host | Switch:
        """Return a host or switch by name."""
        return self.hosts[name] if name in self.hosts else self.switches[name]

    def at(self, time: int, action: Callable[[], None] = lambda: None) -> None:
        """Let something happen at a time; without an action, all nodes are merely asked then."""
        self._scheduled += 1
        heapq.heappush(self._events, (time, self._scheduled, action))

    def space(self, size: int) -> int:
        """Return what a packet takes of a buffer: whole credit blocks."""
        return -(-size // self.plan.block) * self.plan.block

    def run(self) -> list[Sample]:
        """Run to the end, which is still part of the run.

        What arrives at the end of an interval belongs to it, what is sent then does not.
        """
        boundary = self.plan.interval_ps
        while self._events and self._events[0][0] <= self.plan.duration_ps:
            while self._events[0][0] > boundary:
                self._take_sample(boundary)
                boundary += self.plan.interval_ps
            self.now = self._events[0][0]
            while self._events and self._events[0][0] == self.now:
                heapq.heappop(self._events)[2]()
            if self.now == boundary:
                self._take_sample(boundary)
                boundary += self.plan.interval_ps
            nodes: list[Host | Switch] = [*self.hosts.values(), *self.switches.values()]
            for node in nodes:
                node.decide()
        while boundary <= self.plan.duration_ps:
            self._take_sample(boundary)
            boundary += self.plan.interval_ps
        return self.samples

    def _take_sample(self, boundary: int) -> None:
        self.now = boundary
        before = self.samples
        self.samples.append(
            Sample(
                received={
                    f.plan.name: f.received - sum(s.received[f.plan.name] for s in before) for f in self.flows
                },
                sent={f.plan.name: f.sent - sum(s.sent[f.plan.name] for s in before) for f in self.flows},
                ccti={f.plan.name: f.index for f in self.flows},
                fecn_marks=self.fecn_marks - sum(s.fecn_marks for s in before),
                becn_received=self.becn_received - sum(s.becn_received for s in before),
            )
        )


class Channel:
    """One direction of a link: packets go there, credits come back."""

    def __init__(self, net: Network, pace: Fraction, delay: int, receiver: Host | Switch, port: int) -> None:
        self.net, self.pace, self.delay, self.receiver, self.port = net, pace, delay, receiver, port
        self.free_at = 0
        self.credit = receiver.buffer

    def span(self, size: int) -> int:
        """Return how long a packet of this size is on the wire at one place."""
        return -floor(-size * self.pace)

    def can_take(self, packet: Packet) -> bool:
        """Tell whether the link is free and the receiver has room for the whole packet."""
        return self.free_at <= self.net.now and self.credit >= packet.space

    def send(self, packet: Packet) -> int:
        """Start to send; return when the tail has left."""
        assert self.can_take(packet)
        now = self.net.now
        self.credit -= packet.space
        self.free_at = now + self.span(packet.size)
        packet.last_span = self.span(packet.size)
        self.net.hops += 1
        self.net.at(self.free_at)
        self.receiver.comes(packet, self.port, head=now + self.delay, tail=self.free_at + self.delay)
        return self.free_at

    def free(self, space: int, time: int) -> None:
        """Return a credit: the receiver frees the space at a time."""

        def back() -> None:
            self.credit += space

        self.net.at(time + self.delay, back)


@dataclass
class PortState:
    """The congestion manager of one output port."""

    rule: Marking | None
    masked: bool
    over: set[int | str] = field(default_factory=set)
    congested: bool = False
    eligible: int = 0

    def fill_changed(self, queues: list[int], changed: int, is_root: bool) -> None:
        """Hold the fill of the queues that feed the port against the thresholds.

        A watched fill is over from above the upper threshold until at or below the lower one.
        The state lasts as long as one is; only a root may enter it, or a masked port.
        """
        if self.rule is None:
            return
        share = 1
        watched: int | str = "sum"
        fill = sum(queues)
        if self.rule.fill == "each":
            watched, fill = changed, queues[changed]
        elif self.rule.fill == "sum-per-input":
            share = sum(1 for queue in queues if queue)
        if fill * share > self.rule.upper:
            self.over.add(watched)
        elif fill * share <= self.rule.lower:
            self.over.discard(watched)
        self.congested = bool(self.over) and (self.congested or is_root or self.masked)

    def marks(self, size: int) -> bool:
        """Tell whether a packet that leaves now is marked: every so many eligible ones."""
        if self.rule is None or not self.congested or size < self.rule.smallest:
            return False
        self.eligible += 1
        if self.eligible < self.rule.every:
            return False
        self.eligible = 0
        return True


class Switch:
    """A switch with a queue per input and output; outputs serve inputs round robin."""

    def __init__(self, net: Network, name: str) -> None:
        self.net = net
        self.table = net.plan.tables[name]
        self.buffer = net.plan.switch_buffer
        self.out: dict[int, Channel] = {}
        self.into: dict[int, Channel] = {}
        self.count = max(port for port, _ in net.plan.wiring.neighbours(name))
        #: queues[output][input], and per output the input that was served last.
        self.queues = {o: {i: deque[Packet]() for i in self.ports()} for o in self.ports()}
        self.served = dict.fromkeys(self.ports(), self.count)
        self.states: dict[int, PortState] = {}

    def ports(self) -> range:
        """Return the numbers of all ports."""
        return range(1, self.count + 1)

    def connect(self, port: int, out: Channel, into: Channel) -> None:
        """Wire a port."""
        self.out[port], self.into[port] = out, into
        rule = self.net.plan.marking
        mask = rule.victim_mask if rule else "none"
        masked = mask == "all" or (mask == "hosts" and isinstance(out.receiver, Host))
        self.states[port] = PortState(rule, masked)

    def comes(self, packet: Packet, port: int, head: int, tail: int) -> None:
        """Learn that a packet is on its way.

        It is ready after the switch's pipeline, and not before the output can send it without
        running out of bytes.
        """
        output = self.table[packet.destination]
        ready = head + self.net.plan.switch_latency_ps
        lag = (tail - head) - self.out[output].span(packet.size)
        self.net.at(ready + max(lag, 0), lambda: self.enqueue(packet, port, output))

    def enqueue(self, packet: Packet, port: int, output: int) -> None:
        """Let a packet ask for its output."""
        self.queues[output][port].append(packet)
        self.fill_changed(output, port)

    def fill_changed(self, output: int, port: int) -> None:
        """Tell the output's congestion manager."""
        fills = [0] + [sum(p.size for p in self.queues[output][i]) for i in self.ports()]
        # A root has credit for a full packet beyond the one it sends now or is about to send.
        full = self.net.space(self.net.plan.mtu + self.net.plan.header)
        channel = self.out[output]
        wanted = full if channel.free_at > self.net.now else 2 * full
        self.states[output].fill_changed(fills, port, is_root=channel.credit >= wanted)

    def decide(self) -> None:
        """Let each output send, the input after the one served last first."""
        for output, channel in self.out.items():
            turns = [(self.served[output] + step - 1) % self.count + 1 for step in range(1, self.count + 1)]
            asking = [port for port in turns if self.queues[output][port]]
            # The input whose turn it is keeps it while credits are missing.
            if asking and channel.can_take(self.queues[output][asking[0]][0]):
                self.send(output, asking[0])

    def send(self, output: int, port: int) -> None:
        """Send the packet at the head of a queue."""
        packet = self.queues[output][port].popleft()
        self.served[output] = port
        self.fill_changed(output, port)
        if self.states[output].marks(packet.size):
            packet.fecn = True
            self.net.fecn_marks += 1
        left = self.out[output].send(packet)
        self.into[port].free(packet.space, left)


@dataclass
class Limiter:
    """A rate limit, exact over any number of packets: what is less than a picosecond is kept."""

    pace: Fraction
    free_at: int = 0
    rest: Fraction = Fraction(0)

    def take(self, start: int, size: int) -> int:
        """Let bytes pass from a time on, after those before; return when they are through."""
        through = size * self.pace + self.rest
        self.rest = through - floor(through)
        self.free_at = max(start, self.free_at) + floor(through)
        return self.free_at


class Flow:
    """A flow at its source: messages, and the index into the congestion control table."""

    def __init__(self, plan: FlowPlan, reaction: Reaction | None, full: int) -> None:
        self.plan, self.reaction, self.full = plan, reaction, full
        self.messages: deque[int] = deque()
        self.generated = self.sent = self.received = 0
        self.next_due: Fraction = Fraction(plan.start_ps)
        self.index = reaction.lowest if reaction else 0
        self.last_end, self.last_size = -1, 0

    def may_generate(self, now: int) -> bool:
        """Tell whether a message is due: at its time, or whenever a saturating flow has none."""
        if floor(self.next_due) > now or (self.plan.total is not None and self.generated >= self.plan.total):
            return False
        due = now if self.plan.interval_ps is None else floor(self.next_due)
        if self.plan.stop_ps is not None and due >= self.plan.stop_ps:
            return False
        return self.plan.interval_ps is not None or not self.messages

    def generate(self) -> None:
        """Add a message."""
        left = self.plan.message if self.plan.total is None else self.plan.total - self.generated
        self.messages.append(min(self.plan.message, left))
        self.generated += self.messages[-1]
        if self.plan.interval_ps is not None:
            self.next_due += self.plan.interval_ps

    def eligible_at(self) -> int:
        """Return the earliest start of the next packet, as things stand."""
        if self.reaction is None or self.last_end < 0:
            return 0
        return self.last_end + self.reaction.delays_ps[self.index] * self.last_size // self.full

    def notified(self) -> None:
        """Take a BECN."""
        if self.reaction:
            self.index = min(self.index + self.reaction.increase, self.reaction.limit)


class Host:
    """A host: control packets first, then its flows round robin; a sink with a rate."""

    def __init__(self, net: Network, name: str) -> None:
        self.net, self.name = net, name
        self.buffer = net.plan.host_buffer
        self.flows: list[Flow] = []
        self.ring: deque[Flow] = deque()
        self.waiting: list[tuple[int, Flow]] = []
        #: The flows in the order in which they had their first message.
        self.begun: list[Flow] = []
        #: The flow whose turn it is lacked credit when the host last looked.
        self.stalled = False
        self.control: deque[Packet] = deque()

    def connect(self, port: int, out: Channel, into: Channel) -> None:
        """Wire the host."""
        self.out, self.into = out, into
        self.injection = Limiter(self.net.plan.injection or out.pace)
        self.drain = Limiter(self.net.plan.drain or into.pace)

    def add(self, plan: FlowPlan) -> Flow:
        """Add a flow that starts here."""
        flow = Flow(plan, self.net.plan.reaction, self.net.plan.mtu + self.net.plan.header)
        self.flows.append(flow)
        self.net.at(plan.start_ps)
        return flow

    def comes(self, packet: Packet, port: int, head: int, tail: int) -> None:
        """Learn that a packet is on its way."""
        self.net.at(tail, lambda: self.receive(packet, head))

    def receive(self, packet: Packet, head: int) -> None:
        """Take a packet in, whose tail has just come."""
        if packet.is_control:
            self.into.free(packet.space, self.net.now)
            self.net.becn_received += 1
            packet.flow.notified()
            # The flow whose turn it was may be held back now, to the others' profit.
            self.stalled = False
            return
        self.net.delivered += 1
        packet.flow.received += packet.payload
        self.into.free(packet.space, max(self.drain.take(head, packet.size), self.net.now))
        if packet.fecn:
            size = self.net.plan.control
            back = packet.flow.plan.source
            self.control.append(Packet(packet.flow, back, 0, size, self.net.space(size), is_control=True))

    def decide(self) -> None:
        """Send one packet if that is possible."""
        if self.out.free_at > self.net.now:
            return
        if self.control:
            if self.out.can_take(self.control[0]):
                self.out.send(self.control.popleft())
                self.stalled = False
            return
        if self.injection.free_at > self.net.now or (
            self.stalled and not self.out.can_take(self.next_packet(self.ring[0]))
        ):
            return
        self.take_stock()
        self.stalled = False
        while self.ring:
            flow = self.ring[0]
            if flow.eligible_at() > self.net.now:
                self.ring.popleft()
                self.wait(flow)
                continue
            self.stalled = not self.out.can_take(self.next_packet(flow))
            if not self.stalled:
                self.ring.popleft()
                self.send(flow)
            return

    def take_stock(self) -> None:
        """Let flows into the ring, when the host could send.

        In their order those that have a message again, then those whose delay has passed, the
        longest released first; of those released at one instant the one that had a message first.
        """
        for flow in self.flows:
            had = bool(flow.messages)
            while flow.may_generate(self.net.now):
                flow.generate()
                if flow.plan.interval_ps is not None:
                    self.net.at(floor(flow.next_due))
            if flow.messages and flow not in self.begun:
                self.begun.append(flow)
            if flow.messages and not had:
                self.wait(flow)
        for release, flow in sorted(self.waiting, key=lambda waits: (waits[0], self.begun.index(waits[1]))):
            if release <= self.net.now:
                self.waiting.remove((release, flow))
                self.wait(flow)

    def wait(self, flow: Flow, since: int | None = None) -> None:
        """Let a flow into the ring, or let it wait until its delay has passed."""
        if flow.eligible_at() <= (self.net.now if since is None else since):
            self.ring.append(flow)
        else:
            self.waiting.append((flow.eligible_at(), flow))
            self.net.at(flow.eligible_at())

    def next_packet(self, flow: Flow) -> Packet:
        """Cut the next packet from the flow's message."""
        payload = min(flow.messages[0], self.net.plan.mtu)
        size = payload + self.net.plan.header
        return Packet(flow, flow.plan.destination, payload, size, self.net.space(size))

    def send(self, flow: Flow) -> None:
        """Send the next packet of a flow."""
        packet = self.next_packet(flow)
        flow.messages[0] -= packet.payload
        if not flow.messages[0]:
            flow.messages.popleft()
        flow.sent += packet.payload
        self.net.injected += 1
        self.injection.take(self.net.now, packet.size)
        self.net.at(self.injection.free_at)
        flow.last_end, flow.last_size = self.out.send(packet), packet.size
        if flow.messages:
            # Nobody else sends before the tail has left: without a delay it is in turn at once.
            self.wait(flow, since=flow.last_end)
