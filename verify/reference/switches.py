"""The state that all switches share, and the VOQ switch."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from verify.direct import Direct, Groups
from verify.parts import Marking, SampledMarking
from verify.rdma import RedMarking, TelemetryMarking
from verify.reading import AdaptiveRouting, Trimming
from verify.reference.announcing import weight_ps
from verify.reference.choices import Choices, Detours
from verify.reference.hashing import Hashing
from verify.reference.hosts import Host
from verify.reference.links import Channel, Hop, Packet, Report
from verify.reference.marking import Fill, PortState, RedState, Sampler
from verify.reference.queues import Way
from verify.reference.routes import FlowRoutes
from verify.reference.streams import Stream

if TYPE_CHECKING:
    from verify.reference.isolation import Notice
    from verify.reference.network import Network


@functools.cache
def lane_turns(last: int, count: int, first: int | None) -> tuple[int, ...]:
    """Return lanes in turn after the last one; a lane with priority precedes them."""
    turns = [(last + 1 + step) % count for step in range(count)]
    return tuple(sorted(turns, key=lambda lane: lane != first))


class Switch:
    """The state of a switch that does not depend on its architecture: ports, table, and marking."""

    def __init__(self, net: Network, name: str) -> None:
        self.net = net
        self.number = net.plan.wiring.switches.index(name)
        self.name = name
        self.table = net.plan.tables[name]
        self.out: dict[int, Channel] = {}
        self.into: dict[int, Channel] = {}
        self.count = net.plan.wiring.ports[name]
        self.lanes = range(net.plan.lanes.count)
        self.states: dict[tuple[int, int], PortState] = {}
        self.samplers: dict[tuple[int, int], Sampler] = {}
        #: Reports to sources, sent at the end of the instant: first received ones by port, then own ones by
        #: output.
        self.reports: list[tuple[tuple[bool, int], Report]] = []
        #: Logged marks of data packets: time, port, source, destination, and level.
        self.marked: list[tuple[int, int, int, int, int]] = []
        #: For each output, the time of its only scheduled wake-up.
        self.wake_at: dict[int, int] = {}
        self.woken: list[int] = []
        rule = net.plan.adaptive
        self.routes = FlowRoutes(net, name, rule) if isinstance(rule, AdaptiveRouting) else None
        self.choices = Choices(self, net.plan.by_packet) if net.plan.by_packet else None
        self.hashing = Hashing(self, net.plan.ecmp) if net.plan.ecmp else None
        wiring = net.plan.wiring
        self.detours = None
        if isinstance(wiring, Groups) and wiring.routing == "ugal":
            self.detours = Detours(self, wiring)
        #: Ports that are not used for packets that may use several ports.
        self.avoided = set[int]()
        #: The total time that each output's link needs for the flows announced to it, in ps.
        self.weights = dict.fromkeys(self.ports(), 0)
        #: Number of packets that each output has trimmed.
        self.trimmed = dict.fromkeys(self.ports(), 0)

    def lane_order(self, last: int) -> Sequence[int]:
        """Return the lanes in turn after the last one. A lane with priority precedes them."""
        return lane_turns(last, len(self.lanes), self.net.plan.lanes.first)

    def note_lane(self, served: dict[int, int], output: int, lane: int) -> None:
        """Record the turn of a lane, unless it has priority."""
        if lane != self.net.plan.lanes.first:
            served[output] = lane

    def ports(self) -> range:
        """Return the numbers of all ports."""
        return range(1, self.count + 1)

    def connect(self, port: int, out: Channel, into: Channel) -> None:
        """Connect a port, and create the state of marking of its lanes."""
        self.out[port], self.into[port] = out, into
        own = self.net.plan.congestion.marking
        rule = own.of(self.name, port, out.pace) if isinstance(own, Marking) else None
        mask = rule.victim_mask if rule else "none"
        masked = mask == "all" or (mask == "hosts" and isinstance(out.receiver, Host))
        for lane in self.lanes:
            owner = self.number << 16 | (port - 1) * len(self.lanes) + lane
            random = Stream(self.net.plan.seed, "marking", owner)
            self.states[port, lane] = PortState(rule, masked, random)
            if isinstance(own, RedMarking):
                faces_host = isinstance(out.receiver, Host)
                self.states[port, lane] = RedState(own.of(out.pace, faces_host=faces_host), random)
            if isinstance(own, SampledMarking):
                self.samplers[port, lane] = Sampler(own, random)

    def part(self, packet: Packet) -> Hashable:
        """Return the region of an input's memory in which a packet is stored."""
        queues = self.net.plan.switch.queues
        if not queues.is_divided:
            return 0
        return queues.index(self.table[packet.destination], self.net.number[packet.destination])

    def channel_owner(self, port: int) -> int:
        """Return the number from which the random streams of the outgoing link of a port are derived."""
        return self.number << 8 | port - 1

    def part_size(self) -> int:
        """Return the bytes of each region."""
        return self.net.plan.part_size(self.count)

    def fixed_parts(self) -> Iterable[int]:
        """Return the regions that exist from the start."""
        queues = self.net.plan.switch.queues
        return range(queues.fixed(self.count)) if queues.is_divided else [0]

    def comes(self, packet: Packet, port: int, head: int, tail: int) -> None:
        """Receive the head of a packet.

        A store-and-forward switch waits for the tail. The packet is ready after the switch's latency, and not
        before the output can send it without interruption.
        """
        plan = self.net.plan.switch
        # The time from the head to the tail, for which only a store-and-forward switch waits.
        rest = 0 if plan.stores else tail - head
        ready = tail - rest + plan.latency_ps

        def is_directed() -> None:
            if self.into[port].loses(packet, head, rest=rest):
                return
            self.into[port].store(packet)
            packet.output, packet.tail_in = self.direct(packet, port), ready + rest
            lag = rest - self.out[packet.output].span(packet.size)
            if lag > 0:
                self.net.at(ready + lag, lambda: self.admit(packet, port), rank=(2, port))
            else:
                self.admit(packet, port)

        self.net.at(ready, is_directed, rank=(1, port))

    def direct(self, packet: Packet, port: int) -> int:
        """Return the output of a packet. Set-ups and tear-downs change the announced weight of the output."""
        packet.came = packet.lane
        if self.net.plan.lanes.by_way:
            return self.on_its_way(packet)
        if self.choices:
            return self.choices.output(packet)
        if self.hashing:
            return self.hashing.output(packet)
        output = self.routes.route(packet, port) if self.routes else self.table[packet.destination]
        if packet.announcement and packet.kind != "reply":
            own = weight_ps(packet.announcement.size, self.out[output].pace)
            added = {"set-up": own, "tear-down": -own}.get(packet.kind, 0)
            self.weights[output] = max(self.weights[output] + added, 0)
            packet.announcement.largest_ps = max(packet.announcement.largest_ps, self.weights[output])
        return output

    def on_its_way(self, packet: Packet) -> int:
        """Return the output of a packet, and set the lane of its route there."""
        net = self.net.plan.wiring
        assert isinstance(net, Direct)
        ends = packet.flow.ends
        source, destination = ends if packet.destination == ends[1] else ends[::-1]
        if self.detours and not packet.is_control and net.home[source] == self.name:
            packet.over = self.detours.group(packet)
        output, packet.lane = net.hop(self.name, source, destination, packet.over)
        return output

    def use_groups(self, groups: Mapping[str, tuple[int, ...]]) -> None:
        """Set the ports that packets to each destination may use, if packets or hashes select ports."""
        for rule in (self.choices, self.hashing):
            if rule:
                rule.groups = groups

    def notice(self, port: int, notice: Notice) -> None:
        """Process a notification from the next node. Only switches with special queues receive any."""
        raise NotImplementedError

    def enqueue(self, packet: Packet, port: int) -> None:
        """Queue a packet for its output."""
        raise NotImplementedError

    def waiting_bytes(self, way: Way) -> int:
        """Return the bytes that wait for an output's lane."""
        raise NotImplementedError

    def decide(self) -> None:
        """Send the packets that can be sent now."""
        raise NotImplementedError

    def wake(self, port: int, time: int) -> None:
        """Schedule a decision of an output, unless an earlier one is scheduled."""
        if port in self.wake_at and self.wake_at[port] <= time:
            return
        self.wake_at[port] = time

        def wakes() -> None:
            if self.wake_at.get(port) == self.net.now:
                del self.wake_at[port]
                self.credit_is_back(port)

        self.net.at(time, wakes)

    def credit_is_back(self, port: int) -> None:
        """Schedule a decision of an output at the end of this instant."""
        if port not in self.woken:
            self.woken.append(port)

    def fill_changed(self, output: int, lane: int, fill: Fill) -> None:
        """Report the fill of a lane of an output to the lane's congestion manager.

        The port is a root if it has credit for a full packet in addition to the one that it sends or is about
        to send.
        """
        full = self.net.space(self.net.plan.full)
        channel = self.out[output]
        wanted = full if channel.free_at > self.net.now else 2 * full
        self.states[output, lane].fill_changed(fill, channel.has_some_credit(lane, wanted))

    def sample(self, packet: Packet, total: int) -> None:
        """Mark a packet that has arrived, if it is a sample. `total` bytes wait for its output."""
        sampler = self.samplers.get((packet.output, packet.lane))
        if sampler and not packet.is_control:
            found = sampler.takes(packet.size, total)
            if found:
                self.mark(packet, found if self.net.plan.congestion.is_quantized else 0)

    def severity(self, packet: Packet) -> int:
        """Return the severity of a mark that the congestion manager sets now, or 0 if marks are binary."""
        state = self.states[packet.output, packet.lane]
        return state.severity() if self.net.plan.congestion.is_quantized else 0

    def mark(self, packet: Packet, severity: int = 0) -> None:
        """Mark a packet, or notify its source.

        Only the first mark of a data packet is counted; with direct notification, every mark of a data packet
        is.
        """
        if self.net.plan.congestion.notification == "backward":
            if not packet.is_control:
                self.net.fecn_marks += 1
                self.log(packet)
                self.reports.append(((True, packet.output), Report(packet.flow, severity)))
            return
        if not (packet.fecn or packet.is_control):
            self.net.fecn_marks += 1
            self.log(packet)
        packet.fecn = True
        if packet.answers is None:
            # An answer carries the severity of the packet that it answers.
            packet.severity = max(packet.severity, severity)

    def log(self, packet: Packet) -> None:
        """Log a data packet that is marked."""
        flow, number = packet.flow, self.net.number
        ends = number[flow.origin], number[flow.destination]
        self.marked.append((self.net.now, packet.output, *ends, flow.level))

    def stamp(self, packet: Packet) -> None:
        """Add the state of its output to a departing data packet, if switches write telemetry."""
        if isinstance(self.net.plan.congestion.marking, TelemetryMarking) and not packet.is_control:
            out, waiting = self.out[packet.output], self.states[packet.output, packet.lane].total
            packet.hops += (Hop(self.net.now, out.bytes, waiting, out.pace),)

    def report(self, port: int, report: Report) -> None:
        """Queue a report to be forwarded."""
        self.reports.append(((False, port), report))

    def waits_for(self, output: int) -> int:
        """Return the bytes of all packets that wait for an output, on any lane."""
        raise NotImplementedError

    def isolates(self, packet: Packet) -> bool:
        """Return whether a CAM line for the packet's lane lists its destination."""
        return False

    def is_awaited(self, output: int) -> bool:
        """Return whether any packets wait for an output."""
        return False

    def link_was_used(self, port: int) -> None:
        """Schedule a decision for when the link is free again, if packets wait."""
        if self.is_awaited(port):
            self.wake(port, self.out[port].free_at)

    def send_reports(self) -> None:
        """Send the reports to sources, after the packets of this instant."""
        reports, self.reports = sorted(self.reports, key=lambda entry: entry[0]), []
        for _, report in reports:
            output = self.table[report.flow.origin]
            is_last = isinstance(self.out[output].receiver, Host)
            latency = 0 if is_last else self.net.plan.switch.latency_ps
            self.out[output].send_report(report, self.net.plan.control, latency)
            self.link_was_used(output)

    def admit(self, packet: Packet, port: int) -> None:
        """Queue a packet, or its header if its queue is full."""
        rule = self.net.plan.switch.trimming
        if rule is not None and not packet.is_control:
            self.make_room(packet, port, rule)
        self.enqueue(packet, port)
        self.note_headers(packet)

    def make_room(self, packet: Packet, port: int, rule: Trimming) -> None:
        """Trim a data packet if it does not fit behind the packets of all inputs."""
        waiting = self.waiting_bytes((packet.output, packet.lane))
        if waiting + packet.size > rule.limit(self.out[packet.output].usual_pace):
            self.trim(packet, port)

    def trim(self, packet: Packet, port: int) -> None:
        """Remove the payload of a packet, whose header continues on the lane of control packets.

        Until it leaves, the header occupies no memory of its input.
        """
        plan = self.net.plan
        assert plan.switch.trimming
        assert plan.lanes.control is not None
        self.into[port].free(packet, self.net.now, packet.lane)
        self.net.trimmed += 1
        self.trimmed[packet.output] += 1
        packet.kind, packet.lane, packet.space = "header", plan.lanes.control, 0
        packet.size = min(packet.size, plan.switch.trimming.size)
        packet.at_last = isinstance(self.out[packet.output].receiver, Host)

    def note_headers(self, packet: Packet) -> None:
        """Record the bytes on the lane of headers after a packet has joined a queue."""
        if self.net.plan.switch.trimming and packet.lane == self.net.plan.lanes.control:
            waiting = self.waiting_bytes((packet.output, packet.lane))
            self.net.most_headers = max(self.net.most_headers, waiting)

    def put_on_wire(self, packet: Packet) -> int:
        """Send a packet. A header that was trimmed at this switch gets its space in the next buffer."""
        packet.space = packet.space or self.net.space(packet.size)
        return self.out[packet.output].send(packet)

    def transmit(self, packet: Packet, port: int, read_by: int | None = None) -> int:
        """Send a packet of an input. Its space is free at `read_by`, or if that is None, when it has left."""
        if self.states[packet.output, packet.lane].marks(packet.size, is_control=packet.is_control):
            self.mark(packet, self.severity(packet))
        self.stamp(packet)
        is_stored = packet.space > 0
        left = self.put_on_wire(packet)
        if is_stored:
            self.into[port].free(packet, left if read_by is None else read_by, packet.came)
        return left


class VoqSwitch(Switch):
    """A VOQ switch, whose outputs serve lanes and inputs by round robin."""

    def __init__(self, net: Network, name: str) -> None:
        super().__init__(net, name)
        ways = [(output, lane) for output in self.ports() for lane in self.lanes]
        #: Queues by output, lane and input. `served` has the last served input of each output and lane, and
        #: `lane_served` the last served lane of each output.
        self.queues = {way: {i: deque[Packet]() for i in self.ports()} for way in ways}
        self.served = dict.fromkeys(ways, self.count)
        self.lane_served = dict.fromkeys(self.ports(), self.lanes[-1])

    def enqueue(self, packet: Packet, port: int) -> None:
        """Queue a packet for its output."""
        queues = self.queues[packet.output, packet.lane]
        queues[port].append(packet)
        self.sample(packet, sum(other.size for queue in queues.values() for other in queue))
        self.queue_changed(packet.output, packet.lane, port)

    def waiting_bytes(self, way: Way) -> int:
        """Return the bytes that wait for an output's lane."""
        return sum(packet.size for queue in self.queues[way].values() for packet in queue)

    def waits_for(self, output: int) -> int:
        """Return the bytes of all packets that wait for an output, on any lane."""
        of_lanes = [self.queues[output, lane].values() for lane in self.lanes]
        return sum(packet.size for queues in of_lanes for queue in queues for packet in queue)

    def queue_changed(self, output: int, lane: int, port: int) -> None:
        """Report a changed queue to the congestion manager."""
        queues = self.queues[output, lane]
        fills = {port: sum(packet.size for packet in queue) for port, queue in queues.items()}
        asking = sum(1 for queue in queues.values() if queue)
        self.fill_changed(output, lane, Fill(sum(fills.values()), fills[port], port, asking))

    def decide(self) -> None:
        """Send from each output, beginning with the lane after the one served last."""
        for output in self.out:
            for lane in self.lane_order(self.lane_served[output]):
                if self.send_from(output, lane):
                    self.note_lane(self.lane_served, output, lane)
                    break

    def send_from(self, output: int, lane: int) -> bool:
        """Send from a lane, beginning with the input after the one served last, if possible."""
        queues, last = self.queues[output, lane], self.served[output, lane]
        if not any(queues.values()):
            return False
        turns = [(last + step - 1) % self.count + 1 for step in range(1, self.count + 1)]
        asking = [port for port in turns if queues[port]]
        # An input keeps its turn while it lacks credit.
        if not self.out[output].can_take(queues[asking[0]][0]):
            return False
        packet = queues[asking[0]].popleft()
        self.served[output, lane] = asking[0]
        self.queue_changed(output, lane, asking[0])
        self.transmit(packet, asking[0])
        return True
