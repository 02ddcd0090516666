"""Links and hosts that change during a run."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from verify.reading import end_of
from verify.reference.draining import InputBuffer
from verify.reference.streams import Stream

if TYPE_CHECKING:
    from verify.reading import EventPlan
    from verify.reference.hosts import Host
    from verify.reference.links import Channel, Packet
    from verify.reference.network import Network

#: Later than the end of any run.
NEVER = 1 << 62


@dataclass
class Fault:
    """The state of a channel that can change, and the packets that were lost on it."""

    down_until: int = 0
    #: The time at which a host that waits for its link would have finished its last packet.
    free_at: int = 0
    loss_ppb: int = 0
    stream: Stream | None = None
    data_packets: int = 0
    control_packets: int = 0
    bytes: int = 0
    #: Number of lost packets that the receiver dropped.
    dropped: int = 0

    @property
    def is_down(self) -> bool:
        """Whether the link is down."""
        return self.down_until == NEVER

    def loses(self, packet: Packet, started: int) -> bool:
        """Return whether a packet that is due now is lost, and count it if so."""
        is_bad = self.stream is not None and self.loss_ppb > 0 and self.stream.chance(self.loss_ppb, 10**9)
        if not is_bad and self.down_until <= started:
            return False
        self.count(packet)
        return True

    def count(self, packet: Packet) -> None:
        """Count a lost packet."""
        self.data_packets += not packet.is_control
        self.control_packets += packet.is_control
        self.bytes += packet.size


class Faults:
    """The changes of a network's links and hosts."""

    def __init__(self, net: Network) -> None:
        self.net = net
        #: The configured pace of each channel.
        self.paces = {channel: channel.usual_pace for channel in net.channels}
        self.states: dict[Host, tuple[Fraction, bool, int]] = {}
        #: The tables at the start of the run.
        self.tables = {name: dict(switch.table) for name, switch in net.switches.items()}
        rule = net.plan.ecmp or net.plan.by_packet
        #: The groups of ports at the start. Empty if packets cannot choose among ports.
        self.groups = rule.groups if rule else {}
        times = {time for event in net.plan.events for span in self.spans(event) for time in span}
        for time in sorted(times):
            if time < net.plan.duration_ps:
                net.at(time, self.change, rank=(8, 0))
        if net.plan.pfc and net.plan.pfc.lossy:
            for channel in net.channels:
                channel.fault = Fault()
        for event in net.plan.events:
            for channel in self.channels(event):
                channel.fault = channel.fault or Fault()
            for host in self.hosts(event):
                host.buffer = InputBuffer(net, host.usual_drain)
                self.states[host] = host.usual_drain, False, 0

    def reroute(self, down: frozenset[Channel]) -> None:
        """Give all switches the tables of the network without some links.

        Tables that the scenario gives apply to all switches. Entries that they lack are those of the start.
        Without such tables, a route remains if it is still a shortest one, or if there is none. Others are
        distributed over the ports of shortest routes by the number of the destination. A switch that no
        shortest route from a host passes keeps its route.
        """
        given = self.net.plan.tables_after if down else {}
        if given is not None:
            for name, switch in self.net.switches.items():
                switch.table.update({**self.tables[name], **given.get(name, {})})
                switch.use_groups(self.groups.get(name, {}))
            return
        groups: dict[str, dict[str, tuple[int, ...]]] = {name: {} for name in self.net.switches}
        to_host, edges = self.edges(down)
        for destination, number in self.net.number.items():
            if destination not in to_host:
                for name, switch in self.net.switches.items():
                    port = switch.table[destination] = self.tables[name][destination]
                    groups[name][destination] = (port,)
                continue
            home, port = to_host[destination]
            hops = self.hops(home, edges)
            passed = {switch for switch, _ in to_host.values() if switch in hops}
            for name in sorted(hops, key=lambda one: -hops[one]):
                if name in passed:
                    passed |= {far for _, far in edges[name] if hops.get(far, NEVER) < hops[name]}
            for name, switch in self.net.switches.items():
                nearer = [out for out, far in edges[name] if hops.get(far, NEVER) < hops.get(name, NEVER)]
                if name == home:
                    nearer = [port]
                ports = nearer if name in passed else []
                own = self.tables[name][destination]
                own = own if own in ports or not ports else ports[number % len(ports)]
                switch.table[destination] = own
                groups[name][destination] = tuple(nearer) if own in nearer else (own,)
        for name, switch in self.net.switches.items():
            switch.use_groups(groups[name])

    def edges(
        self, down: frozenset[Channel]
    ) -> tuple[dict[str, tuple[str, int]], dict[str, list[tuple[int, str]]]]:
        """Return the switch and the port of each host, and the ports of each switch to other switches."""
        to_host: dict[str, tuple[str, int]] = {}
        edges: dict[str, list[tuple[int, str]]] = {name: [] for name in self.net.switches}
        for channel in self.net.channels:
            sender, receiver = channel.sender.name, channel.receiver.name
            if channel in down or sender not in edges:
                continue
            if receiver in edges:
                edges[sender].append((channel.sender_port, receiver))
            else:
                to_host[receiver] = sender, channel.sender_port
        return to_host, {name: sorted(found) for name, found in edges.items()}

    @staticmethod
    def hops(home: str, edges: dict[str, list[tuple[int, str]]]) -> dict[str, int]:
        """Return the number of links from each switch to a given one, for switches that reach it."""
        found, now = {home: 0}, [home]
        while now:
            near = [name for name in edges if name not in found and any(far in now for _, far in edges[name])]
            found |= dict.fromkeys(near, found[now[0]] + 1)
            now = near
        return found

    def spans(self, event: EventPlan) -> list[tuple[int, int]]:
        """Return the start and end times of each occurrence of an event, in ps."""
        begins = [event.start_ps]
        if event.every_ps:
            begins = list(range(event.start_ps, self.net.plan.duration_ps, event.every_ps))
        lasts = NEVER if event.lasts_ps is None else event.lasts_ps
        return [(begin, min(begin + lasts, NEVER)) for begin in begins]

    def end_of_span(self, event: EventPlan, now: int) -> int | None:
        """Return when the occurrence of an event at a time ends; `None` if there is none at this time.

        Occurrences of an event do not overlap.
        """
        begin = event.start_ps
        if event.every_ps and now > begin:
            begin += (now - begin) // event.every_ps * event.every_ps
        end = NEVER if event.lasts_ps is None else min(begin + event.lasts_ps, NEVER)
        return end if begin <= now < end else None

    def channels(self, event: EventPlan) -> list[Channel]:
        """Return both directions of the links of an event."""
        ends = {end_of(place) for place in event.places}
        return [
            channel
            for channel in self.net.channels
            if (event.kind == "stop" or not event.is_of_hosts)
            and ends & {(channel.sender.name, channel.sender_port), (channel.receiver.name, channel.port)}
        ]

    def hosts(self, event: EventPlan) -> list[Host]:
        """Return the hosts of an event."""
        return [self.net.hosts[name] for name in event.places] if event.is_of_hosts else []

    def change_port(self, channel: Channel, *, is_down: bool) -> None:
        """Let the switch that sends into a channel avoid the port, or use it again, after the delay."""
        delay, switch = self.net.plan.ports_after_ps, self.net.switches.get(channel.sender.name)
        if delay is None or switch is None:
            return
        change = switch.avoided.add if is_down else switch.avoided.discard
        self.net.at(self.net.now + delay, lambda: change(channel.sender_port), rank=(8, 1))

    def change(self) -> None:
        """Apply the state of links and hosts at this instant."""
        now = self.net.now
        active = [
            (event, end)
            for event in self.net.plan.events
            if (end := self.end_of_span(event, now)) is not None
        ]
        for channel, usual in self.paces.items():
            if channel.fault is None:
                continue
            own = [event for event, _ in active if channel in self.channels(event)]
            paces = (event.slower(usual) for event in own)
            channel.pace = max([usual, *(pace for pace in paces if pace is not None)])
            channel.fault.loss_ppb = max([0, *(event.loss_ppb for event in own)])
            if channel.fault.loss_ppb and channel.fault.stream is None:
                owner = channel.sender.channel_owner(channel.sender_port)
                channel.fault.stream = Stream(self.net.plan.seed, "losses", owner)
            is_down = any(event.kind in ("down", "stop") for event in own)
            if is_down != (channel.fault.down_until == NEVER):
                channel.fault.down_until = NEVER if is_down else now
                self.change_port(channel, is_down=is_down)
                if channel.sender.name in self.net.hosts:
                    # A host does not send until its link is up again.
                    before, channel.fault.free_at = channel.fault.free_at, channel.free_at
                    channel.free_at = NEVER if is_down else max(before, now)
                    if not is_down:
                        self.net.at(channel.free_at)
                        channel.sender.credit_is_back(channel.sender_port)
        delay = self.net.plan.reroutes_after_ps
        if delay is not None:
            down = frozenset(
                channel for channel in self.paces if channel.fault and channel.fault.down_until == NEVER
            )
            self.net.at(now + delay, lambda: self.reroute(down), rank=(8, 2))
        for host, before in self.states.items():
            mine = [(event, end) for event, end in active if host in self.hosts(event)]
            if any(event.kind == "stop" for event, _ in mine):
                host.stop()
                mine = []
            slowest = max([Fraction(0), *(event.pace for event, _ in mine if event.pace is not None)])
            pace = max(host.usual_drain, slowest)
            is_shared = any(event.shared for event, _ in mine)
            until = max([0, *(end for event, end in mine if event.kind == "stall")])
            state = self.states[host] = pace, is_shared, until
            if state != before:
                host.buffer.change(None if until else pace)
                host.share(slowest if is_shared else None)
