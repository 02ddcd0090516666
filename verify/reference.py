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
    """A packet; sizes in bytes. A control packet has no payload and belongs to a flow too.

    It carries a BECN if it answers a marked packet, not if it merely acknowledges a message.
    """

    flow: Flow
    destination: str
    payload: int
    size: int
    space: int
    lane: int
    ends_message: bool = False
    is_control: bool = False
    fecn: bool = False
    becn: bool = False
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
        self._events: list[tuple[int, bool, int, Callable[[], None]]] = []
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
        # A host looks through its flows in the order of their names, whatever that of the scenario.
        self.flows = [
            self.hosts[flow.source].add(flow) for flow in sorted(plan.flows, key=lambda flow: flow.name)
        ]

    def node(self, name: str) -> Host | Switch:
        """Return a host or switch by name."""
        return self.hosts[name] if name in self.hosts else self.switches[name]

    def at(self, time: int, action: Callable[[], None] = lambda: None, *, first: bool = False) -> None:
        """Let something happen at a time; without an action, all nodes are merely asked then.

        What is `first` happens before all else at that instant.
        """
        self._scheduled += 1
        heapq.heappush(self._events, (time, not first, self._scheduled, action))

    def space(self, size: int) -> int:
        """Return what a packet takes of a buffer: whole credit blocks."""
        return -(-size // self.plan.block) * self.plan.block

    def run(self) -> list[Sample]:
        """Run to the end, at which packets still arrive, but nobody decides anything.

        What arrives or is drained at the end of an interval belongs to it, what is sent then does not.
        """
        boundary = self.plan.interval_ps
        while self._events and self._events[0][0] <= self.plan.duration_ps:
            while self._events[0][0] > boundary:
                self._take_sample(boundary)
                boundary += self.plan.interval_ps
            self.now = self._events[0][0]
            while self._events and self._events[0][0] == self.now:
                heapq.heappop(self._events)[3]()
            if self.now == boundary:
                self._take_sample(boundary)
                boundary += self.plan.interval_ps
            if self.now == self.plan.duration_ps:
                break
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
                ccti={f.plan.name: f.control.index for f in self.flows},
                fecn_marks=self.fecn_marks - sum(s.fecn_marks for s in before),
                becn_received=self.becn_received - sum(s.becn_received for s in before),
            )
        )


class Channel:
    """One direction of a link: packets go there, credits of their lane come back."""

    def __init__(self, net: Network, pace: Fraction, delay: int, receiver: Host | Switch, port: int) -> None:
        self.net, self.pace, self.delay, self.receiver, self.port = net, pace, delay, receiver, port
        self.free_at = 0
        self.credit = [receiver.buffer] * net.plan.lanes.count

    def span(self, size: int) -> int:
        """Return how long a packet of this size is on the wire at one place."""
        return -floor(-size * self.pace)

    def can_take(self, packet: Packet) -> bool:
        """Tell whether the link is free and the receiver's lane has room for the whole packet."""
        return self.free_at <= self.net.now and self.credit[packet.lane] >= packet.space

    def send(self, packet: Packet) -> int:
        """Start to send; return when the tail has left."""
        assert self.can_take(packet)
        now = self.net.now
        self.credit[packet.lane] -= packet.space
        self.free_at = now + self.span(packet.size)
        packet.last_span = self.span(packet.size)
        self.net.hops += 1
        self.net.at(self.free_at)
        self.receiver.comes(packet, self.port, head=now + self.delay, tail=self.free_at + self.delay)
        return self.free_at

    def free(self, packet: Packet, time: int) -> None:
        """Return a credit: the receiver frees the packet's space at a time."""

        def back() -> None:
            self.credit[packet.lane] += packet.space

        # A packet that comes in the same instant finds the port with its credit.
        self.net.at(time + self.delay, back, first=True)


@dataclass
class PortState:
    """The congestion manager of one output port's lane."""

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
    """A switch with a queue per input, output and lane; outputs serve lanes and inputs round robin."""

    def __init__(self, net: Network, name: str) -> None:
        self.net = net
        self.table = net.plan.tables[name]
        self.buffer = net.plan.switch_buffer
        self.out: dict[int, Channel] = {}
        self.into: dict[int, Channel] = {}
        self.count = max(port for port, _ in net.plan.wiring.neighbours(name))
        self.lanes = range(net.plan.lanes.count)
        ways = [(output, lane) for output in self.ports() for lane in self.lanes]
        #: queues[output, lane][input], the input that was served last, and per output the lane.
        self.queues = {way: {i: deque[Packet]() for i in self.ports()} for way in ways}
        self.served = dict.fromkeys(ways, self.count)
        self.lane_served = dict.fromkeys(self.ports(), self.lanes[-1])
        self.states: dict[tuple[int, int], PortState] = {}

    def ports(self) -> range:
        """Return the numbers of all ports."""
        return range(1, self.count + 1)

    def connect(self, port: int, out: Channel, into: Channel) -> None:
        """Wire a port."""
        self.out[port], self.into[port] = out, into
        rule = self.net.plan.marking
        mask = rule.victim_mask if rule else "none"
        masked = mask == "all" or (mask == "hosts" and isinstance(out.receiver, Host))
        for lane in self.lanes:
            self.states[port, lane] = PortState(rule, masked)

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
        self.queues[output, packet.lane][port].append(packet)
        self.fill_changed(output, packet.lane, port)

    def fill_changed(self, output: int, lane: int, port: int) -> None:
        """Tell the congestion manager of the output's lane."""
        queues = self.queues[output, lane]
        fills = [0] + [sum(p.size for p in queues[i]) for i in self.ports()]
        # A root has credit for a full packet beyond the one it sends now or is about to send.
        full = self.net.space(self.net.plan.mtu + self.net.plan.header)
        channel = self.out[output]
        wanted = full if channel.free_at > self.net.now else 2 * full
        self.states[output, lane].fill_changed(fills, port, is_root=channel.credit[lane] >= wanted)

    def decide(self) -> None:
        """Let each output send, the lane after the one served last first."""
        for output in self.out:
            for step in self.lanes:
                lane = (self.lane_served[output] + 1 + step) % len(self.lanes)
                if self.send_from(output, lane):
                    self.lane_served[output] = lane
                    break

    def send_from(self, output: int, lane: int) -> bool:
        """Send from a lane, the input after the one served last first, if that is possible."""
        queues, last = self.queues[output, lane], self.served[output, lane]
        turns = [(last + step - 1) % self.count + 1 for step in range(1, self.count + 1)]
        asking = [port for port in turns if queues[port]]
        # The input whose turn it is keeps it while credits are missing.
        if not asking or not self.out[output].can_take(queues[asking[0]][0]):
            return False
        self.send(output, lane, asking[0])
        return True

    def send(self, output: int, lane: int, port: int) -> None:
        """Send the packet at the head of a queue."""
        packet = self.queues[output, lane][port].popleft()
        self.served[output, lane] = port
        self.fill_changed(output, lane, port)
        if self.states[output, lane].marks(packet.size):
            # Only a mark that is news counts: not one on top of another's, nor one on a control
            # packet, which nobody answers.
            self.net.fecn_marks += not (packet.fecn or packet.is_control)
            packet.fecn = True
        left = self.out[output].send(packet)
        self.into[port].free(packet, left)


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


class Control:
    """The index into the congestion control table of a flow, or of a service level at a host."""

    def __init__(self, reaction: Reaction | None, full: int) -> None:
        self.reaction, self.full = reaction, full
        self.index = reaction.lowest if reaction else 0
        self.last_end, self.last_size = -1, 0

    def eligible_at(self) -> int:
        """Return the earliest start of the next packet, as things stand."""
        if self.reaction is None or self.last_end < 0:
            return 0
        return self.last_end + self.reaction.delays_ps[self.index] * self.last_size // self.full

    def notified(self) -> None:
        """Take a BECN."""
        if self.reaction:
            self.index = min(self.index + self.reaction.increase, self.reaction.limit)


class Flow:
    """A flow at its source: its messages."""

    def __init__(self, plan: FlowPlan, lane: int, control: Control) -> None:
        self.plan, self.lane, self.control = plan, lane, control
        self.messages: deque[int] = deque()
        self.generated = self.sent = self.received = 0
        self.next_due: Fraction = Fraction(plan.start_ps)
        #: Tells the host's flows apart while there is something to remember about them.
        self.number: int | None = None
        #: Which of its host's packets its last one was.
        self.served = 0

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


class Host:
    """A host: control packets first, then its flows round robin; a sink with a rate."""

    def __init__(self, net: Network, name: str) -> None:
        self.net, self.name = net, name
        self.buffer = net.plan.host_buffer
        self.flows: list[Flow] = []
        self.ring: deque[Flow] = deque()
        self.waiting: list[tuple[int, Flow]] = []
        #: Numbers of flows, and those that forgotten flows have given back.
        self.numbers, self.given_back = 0, list[int]()
        #: What each lane lacked credit for when the host last looked, if all of them did.
        self.stalled: dict[int, int] = {}
        #: Per lane, with a number that says which of all of them waits longest.
        self.control: dict[int, deque[tuple[int, Packet]]] = {
            lane: deque() for lane in range(net.plan.lanes.count)
        }
        self.answers = 0
        #: Data packets sent so far.
        self.served = 0
        #: Where control is per service level.
        self.levels: dict[int, Control] = {}

    def connect(self, port: int, out: Channel, into: Channel) -> None:
        """Wire the host."""
        self.out, self.into = out, into
        # Nothing is injected faster than the link takes it, so what a message costs comes on top of that.
        self.injection = Limiter(max(self.net.plan.injection or out.pace, out.pace))
        self.drain = Limiter(self.net.plan.drain or into.pace)

    def add(self, plan: FlowPlan) -> Flow:
        """Add a flow that starts here."""
        reaction = self.net.plan.reaction
        control = Control(reaction, self.net.plan.mtu + self.net.plan.header)
        if reaction and reaction.is_per_level:
            control = self.levels.setdefault(plan.level, control)
        flow = Flow(plan, self.net.plan.lanes.of_level[plan.level], control)
        self.flows.append(flow)
        self.net.at(plan.start_ps)
        return flow

    def comes(self, packet: Packet, port: int, head: int, tail: int) -> None:
        """Learn that a packet is on its way."""
        self.net.at(tail, lambda: self.receive(packet, head))

    def receive(self, packet: Packet, head: int) -> None:
        """Take a packet in, whose tail has just come."""
        if packet.is_control:
            self.into.free(packet, self.net.now)
            if packet.becn:
                self.net.becn_received += 1
                packet.flow.control.notified()
                # The flow whose turn it was may be held back now, to the others' profit.
                self.stalled = {}
            return
        drained = max(self.drain.take(head, packet.size), self.net.now)
        self.into.free(packet, drained)
        self.net.at(drained, lambda: self.deliver(packet))
        if packet.fecn or (self.net.plan.acknowledged and packet.ends_message):
            answer = self.answer(packet)
            self.answers += 1
            self.control[answer.lane].append((self.answers, answer))
            self.stalled = {}

    def deliver(self, packet: Packet) -> None:
        """Count a packet that the host has taken out of its buffer."""
        self.net.delivered += 1
        packet.flow.received += packet.payload

    def answer(self, packet: Packet) -> Packet:
        """Return the notification or acknowledgement of a packet."""
        size, lane = self.net.plan.control, self.net.plan.lanes.control
        return Packet(
            packet.flow,
            packet.flow.plan.source,
            payload=0,
            size=size,
            space=self.net.space(size),
            lane=packet.lane if lane is None else lane,
            is_control=True,
            becn=packet.fecn,
        )

    def decide(self) -> None:
        """Send one packet if that is possible."""
        if self.out.free_at > self.net.now:
            return
        if self.send_control():
            self.stalled = {}
            return
        # A lane on which a control packet waits carries no data before it.
        lacking = {lane: waiting[0][1].space for lane, waiting in self.control.items() if waiting}
        if len(lacking) == self.net.plan.lanes.count:
            return
        if self.injection.free_at > self.net.now:
            return
        if self.stalled and all(self.out.credit[lane] < space for lane, space in self.stalled.items()):
            return
        self.take_stock()
        self.send_data(lacking)

    def send_control(self) -> bool:
        """Send the control packet that waits longest, of the first ones of the lanes with credit."""
        first = [waiting[0] for waiting in self.control.values() if waiting]
        able = [(number, packet) for number, packet in first if self.out.can_take(packet)]
        if not able:
            return False
        _, packet = min(able, key=lambda waits: waits[0])
        self.control[packet.lane].popleft()
        self.out.send(packet)
        return True

    def send_data(self, lacking: dict[int, int]) -> None:
        """Send a packet of the first flow that may and whose lane has credit.

        Flows whose lane lacks it keep their turn, and nobody behind them uses that lane.
        """
        self.stalled = {}
        kept: list[Flow] = []
        for _ in range(len(self.ring)):
            flow = self.ring.popleft()
            if flow.control.eligible_at() > self.net.now:
                self.wait(flow)
                continue
            packet = self.next_packet(flow)
            if packet.lane not in lacking and self.out.can_take(packet):
                self.send(flow, packet)
                break
            kept.append(flow)
            lacking.setdefault(packet.lane, packet.space)
            if len(lacking) == self.net.plan.lanes.count:
                self.stalled = lacking
                break
        self.ring.extendleft(reversed(kept))

    def take_stock(self) -> None:
        """Let flows into the ring, when the host could send.

        In their order those that have a message again, then those whose delay has passed, the
        longest released first; of those released at one instant the one that was served longest ago,
        of those that never were the one with the lower number.
        """
        for flow in self.flows:
            had = bool(flow.messages)
            while flow.may_generate(self.net.now):
                flow.generate()
                if flow.plan.interval_ps is not None:
                    self.net.at(floor(flow.next_due))
            if flow.messages and not had:
                self.remember(flow)
                self.wait(flow)
        by_turn = sorted(self.waiting, key=lambda waits: (waits[0], waits[1].served, waits[1].number))
        for release, flow in by_turn:
            if release <= self.net.now:
                self.waiting.remove((release, flow))
                self.wait(flow)

    def remember(self, flow: Flow) -> None:
        """Give a flow with a message a number, if it has none."""
        if flow.number is None and self.given_back:
            flow.number = self.given_back.pop()
        elif flow.number is None:
            flow.number = self.numbers
            self.numbers += 1

    def forget(self, flow: Flow) -> None:
        """Give back the number of a flow without messages, unless it has an index of its own."""
        reaction = self.net.plan.reaction
        if flow.number is not None and (reaction is None or reaction.is_per_level):
            self.given_back.append(flow.number)
            flow.number = None

    def wait(self, flow: Flow, since: int | None = None) -> None:
        """Let a flow into the ring, or let it wait until its delay has passed."""
        release = flow.control.eligible_at()
        if release <= (self.net.now if since is None else since):
            self.ring.append(flow)
        else:
            self.waiting.append((release, flow))
            self.net.at(release)

    def next_packet(self, flow: Flow) -> Packet:
        """Cut the next packet from the flow's message."""
        payload = min(flow.messages[0], self.net.plan.mtu)
        size = payload + self.net.plan.header
        return Packet(
            flow,
            flow.plan.destination,
            payload,
            size,
            self.net.space(size),
            flow.lane,
            ends_message=payload == flow.messages[0],
        )

    def send(self, flow: Flow, packet: Packet) -> None:
        """Send the next packet of a flow."""
        flow.messages[0] -= packet.payload
        flow.sent += packet.payload
        self.served += 1
        flow.served = self.served
        self.net.injected += 1
        self.injection.take(self.net.now, packet.size)
        if packet.ends_message:
            flow.messages.popleft()
            self.injection.free_at += self.net.plan.message_overhead_ps
        self.net.at(self.injection.free_at)
        flow.control.last_end, flow.control.last_size = self.out.send(packet), packet.size
        if flow.messages:
            # Nobody else sends before the tail has left: without a delay it is in turn at once.
            self.wait(flow, since=flow.control.last_end)
        else:
            self.forget(flow)
