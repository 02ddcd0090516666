"""The clock, the nodes and the counters of a simulated network."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from verify.reading import Plan
from verify.reference import architectures, own_flows, pausing, sources
from verify.reference.adapters import AdapterHost
from verify.reference.faults import Faults
from verify.reference.hosts import Flow, Host
from verify.reference.isolation import IsolatingBuffers
from verify.reference.links import Channel, Packet
from verify.reference.ordering import Reordering
from verify.reference.pausing import OverflowedError, PausedTooLongError
from verify.reference.queued import QueuedSwitch
from verify.reference.switches import Switch
from verify.reference.windows import Windows


@dataclass
class Tally:
    """Counts of delivered packets, and their latencies in ps.

    `since_generation` and `since_injection` are sums of latencies. `longest` is the largest latency since
    generation.
    """

    packets: int = 0
    marked: int = 0
    validated: int = 0
    since_generation: int = 0
    since_injection: int = 0
    longest: int = 0

    def count(self, packet: Packet, now: int) -> None:
        """Count a packet that is delivered now."""
        self.packets += 1
        self.marked += packet.fecn
        self.validated += packet.validated
        self.since_generation += now - packet.created
        self.since_injection += now - packet.injected
        self.longest = max(self.longest, now - packet.created)


@dataclass
class Sample:
    """Counts of one sampling interval, and at its end, indices of flows and totals of hosts and links."""

    received: dict[str, int]
    sent: dict[str, int]
    ccti: dict[str, int]
    hosts: dict[str, tuple[int, int]]
    links: dict[str, int]
    classes: dict[str, Tally]
    fecn_marks: int
    becn_received: int
    isolation: dict[str, int]


#: Counts of special queues at the time of a sample. Other counts of special queues cover the interval.
AT_ONCE = ("full_ports", "special_queues", "input_lines", "output_lines")


class Network:
    """The clock, the nodes and the counters of a simulated network."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.now = 0
        self._events: list[tuple[int, tuple[int, int], int, Callable[[], None]]] = []
        self._scheduled = 0
        self.injected = self.delivered = self.hops = self.fecn_marks = self.becn_received = (
            self.validations
        ) = 0
        self.trimmed = self.resent = self.most_headers = self.lost_payload = 0
        #: With loss recovery: packets that receivers discarded, bytes that were queued again, and timeouts.
        self.discarded = self.repeated = self.timeouts = self.overtaken = 0
        #: Entropy values that were taken out of use and used again, and their probes.
        self.retired = self.restored = self.path_probes = 0
        self.samples: list[Sample] = []
        #: Values of counts at the last sample, by count and flow.
        self._at_last_sample: dict[tuple[str, str], int] = {}
        self.reordering = Reordering()
        #: The flows that were created for single messages.
        self.own_flows: list[Flow] = []
        #: Number of each destination, in the order of the hosts.
        self.number = {name: number for number, name in enumerate(plan.wiring.hosts)}
        self.windows = Windows(self)
        self.hosts = {name: architectures.host(self, name) for name in plan.wiring.hosts}
        self.switches = {name: architectures.switch(self, name) for name in plan.wiring.switches}
        #: The first packet that did not fit, if receivers send pause frames.
        self.overflow: pausing.Overflow | None = None
        self.channels: list[Channel] = []
        for link in plan.wiring.links:
            (near, near_port), (far, far_port) = link.ends
            ends = (self.node(near), near_port, self.node(far), far_port)
            there = Channel(self, link.ps_per_byte, link.delay_ps, ends)
            back = Channel(self, link.ps_per_byte, link.delay_ps, (*ends[2:], *ends[:2]))
            self.channels += [there, back]
            self.node(near).connect(near_port, out=there, into=back)
            self.node(far).connect(far_port, out=back, into=there)
        pausing.build(self)
        #: Delivered packets of each flow, pattern, or role in a forest.
        self.classes: dict[str, Tally] = {}
        #: The flows that have names.
        self.flows: dict[str, Flow] = {}
        self._add_sources()
        self.faults = Faults(self)

    def _add_sources(self) -> None:
        """Create the sources of hosts.

        A host serves its flows in the order of their names, regardless of the order in the scenario. Patterns
        follow.
        """
        for flow in sorted(self.plan.flows, key=lambda flow: flow.name):
            host, source = self.hosts[flow.source], sources.of_flow(self, flow)
            host.add(source)
            self.flows[flow.name] = host.flow(source, flow.destination)
            self.classes[flow.name] = Tally()
        owners = dict.fromkeys(self.plan.wiring.hosts, 0)
        for number, traffic in enumerate(self.plan.traffic):
            if not traffic.forest:
                self.classes[traffic.name] = Tally()
            if traffic.has_own_flows:
                choose = sources.chooser_of(self, traffic)
                for name, own in own_flows.of_pattern(self, traffic, owners, choose):
                    self.hosts[name].add(own)
                continue
            for name, source in sources.of_pattern(self, traffic, number, owners).items():
                self.hosts[name].add(source)
                self.classes.setdefault(source.name, Tally())

    def node(self, name: str) -> Host | Switch:
        """Return a host or switch by name."""
        return self.hosts[name] if name in self.hosts else self.switches[name]

    def at(
        self, time: int, action: Callable[[], None] = lambda: None, *, rank: tuple[int, int] = (9, 0)
    ) -> None:
        """Schedule an action at a time. Without an action, nodes only send what they can at that time.

        At one instant, credits come first (0), then packets (1), those that had to wait for their tails (2)
        and notifications (3), each in the order of the ports (the second number). Higher ranks follow.
        """
        self._scheduled += 1
        heapq.heappush(self._events, (time, rank, self._scheduled, action))

    def space(self, size: int) -> int:
        """Return the space that a packet occupies in a buffer: whole credit blocks."""
        return -(-size // self.plan.block) * self.plan.block

    def run(self) -> list[Sample]:
        """Run to the end, and return the samples. At the end, packets still arrive, but no node sends.

        An interval includes what arrives or is drained at its end, but not what is sent then.
        """
        boundary = self.plan.interval_ps
        nodes: list[Host | Switch] = [*self.hosts.values(), *self.switches.values()]
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
            for node in nodes:
                node.decide()
            for switch in self.switches.values():
                switch.send_reports()
        while boundary <= self.plan.duration_ps:
            self._take_sample(boundary)
            boundary += self.plan.interval_ps
        return self.samples

    def _check_pauses(self) -> None:
        """Raise an error if a packet did not fit, or if the watchdog stops the run after a long pause."""
        too_long = self.first_long_pause()
        if self.overflow and (too_long is None or self.overflow.time <= too_long.time):
            raise OverflowedError(self.overflow)
        if too_long:
            raise too_long

    def first_long_pause(self) -> PausedTooLongError | None:
        """Return the error for the first pause that has reached the limit of the watchdog.

        It is `None` if there is no such pause, or if the watchdog does not stop the run. The pause may have
        ended.
        """
        rule = self.plan.pfc
        if rule is None or not rule.stops or rule.watchdog_ps is None:
            return None
        limit = rule.watchdog_ps
        found = [
            (since + limit, number, lane)
            for number, channel in enumerate(self.channels)
            if channel.pausing
            for lane, pause in enumerate(channel.pausing.lanes)
            for since, end in [*pause.ended, (pause.since, self.now)]
            if since is not None and end - since >= limit
        ]
        if not found:
            return None
        time, number, lane = min(found)
        return PausedTooLongError(time, self.channels[number].name, lane, time - limit)

    def long_pauses(self) -> list[tuple[str, int, int]]:
        """Return the links, lanes and lengths of the pauses that the watchdog reports, the longest first."""
        rule = self.plan.pfc
        if rule is None or rule.watchdog_ps is None:
            return []
        found = [
            (channel.name, lane, pause.until(self.now)[1])
            for channel in self.channels
            if channel.pausing
            for lane, pause in enumerate(channel.pausing.lanes)
        ]
        return sorted((one for one in found if one[2] >= rule.watchdog_ps), key=lambda one: -one[2])

    def _take_sample(self, boundary: int) -> None:
        self.now = boundary
        self._check_pauses()
        flows = self.flows.items()
        self.samples.append(
            Sample(
                received={name: self._since_last(("received", name), flow.received) for name, flow in flows},
                sent={name: self._since_last(("sent", name), flow.sent) for name, flow in flows},
                ccti={name: flow.control.strength(boundary) for name, flow in flows},
                hosts={name: (host.received, host.sent) for name, host in self.hosts.items()},
                links={channel.name: channel.sent_by(boundary) for channel in self.channels},
                classes=self.classes,
                fecn_marks=self._since_last(("fecn_marks", ""), self.fecn_marks),
                becn_received=self._since_last(("becn_received", ""), self.becn_received),
                isolation=self._isolation(),
            )
        )

        self.classes = {name: Tally() for name in self.classes}

    def _since_last(self, count: tuple[str, str], total: int) -> int:
        """Return by how much a count has increased since the last sample."""
        before, self._at_last_sample[count] = self._at_last_sample.get(count, 0), total
        return total - before

    def _isolation(self) -> dict[str, int]:
        """Return the counts of special queues, and of their events since the last sample."""
        found = dict.fromkeys(AT_ONCE, 0)
        for switch in self.switches.values():
            if not isinstance(switch, QueuedSwitch) or not isinstance(switch.buffers, IsolatingBuffers):
                return {}
            for key, count in switch.buffers.in_use(switch.count, switch.lanes).items():
                found[key] += count
        nodes = [*self.switches.values(), *self.hosts.values()]
        all_buffers = [node.buffers for node in nodes if isinstance(node, QueuedSwitch | AdapterHost)]
        for tally in (buffers.tally for buffers in all_buffers if isinstance(buffers, IsolatingBuffers)):
            counts = {"allocations": tally.allocations, "exhausted": tally.exhausted, **tally.notices}
            for key, count in counts.items():
                found[key] = found.get(key, 0) + count
        for key in found.keys() - set(AT_ONCE):
            found[key] = self._since_last(("special queues", key), found[key])
        return found
