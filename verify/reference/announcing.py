"""Flows that are announced before they start, and get a rate that depends on the links of their route.

A flow is a message here. A set-up packet adds the time that the flow needs at a link's full rate to the sum
of each link on its route, and returns the largest sum. Probes query the largest sum again, each after twice
the time of the last one. A tear-down packet behind the data subtracts the time. The flow sends at the ratio
of its own time to the largest sum.

Instead of probes, data packets may carry the sum that the source has and collect the largest sum. The
receiver returns the largest sum if it differs from the carried one. Retained flows have no tear-down until a
message of another size follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from verify.parts import ExplicitRates
from verify.reference.links import Packet

if TYPE_CHECKING:
    from verify.reference.hosts import Flow, Host
    from verify.reference.sources import Source

#: The share that is the whole rate of a link.
WHOLE = 2**32


@dataclass
class Announcement:
    """The content of an announcement: the bytes of the flow, the largest sum so far, and the source's sum."""

    kind: str
    size: int
    largest_ps: int = 0
    known_ps: int = 0


@dataclass
class Trip:
    """A flow from its announcement to its end: `announced`, `running`, then `retained` or `ending`."""

    size: int
    weight_ps: int
    #: Time to the next probe; `None` without probe packets.
    probe_after_ps: int | None
    stage: str = "announced"
    largest_ps: int = 0
    sent: int = 0
    last: tuple[int, int] | None = None

    def share(self, own_ps: int) -> int:
        """Return the flow's share of its host's link in units of 1 / `WHOLE`, given the sum of that link."""
        return max(self.weight_ps * WHOLE // max(self.largest_ps, own_ps, self.weight_ps, 1), 1)


def weight_ps(size: int, pace: Fraction) -> int:
    """Return the time in ps in which a link transmits this number of bytes, rounded down."""
    return int(size * pace)


class Announcer:
    """The state of the flows that a host has announced."""

    def __init__(self, host: Host, rates: ExplicitRates | None) -> None:
        self.host, self.rates = host, rates
        self.trips: dict[tuple[Source, str], Trip] = {}
        self.own_ps = 0
        #: Probes to be sent: time, source and destination (by number).
        self.probes: list[tuple[int, int, int]] = []

    def leave(self, flow: Flow, asked: int) -> int | None:
        """Return when a flow may send according to its announcement; `None` if this is not yet known.

        A flow without an announcement is announced. The next message of a retained flow starts or ends the
        flow.
        """
        trip = self.trips.get((flow.source, flow.destination))
        if trip is None:
            size = flow.messages[0].left
            probe_ps = self.rates.probe_ps if self.rates else None
            trip = Trip(size, weight_ps(size, self.host.out.pace), probe_ps)
            self.trips[flow.source, flow.destination] = trip
            self.own_ps += trip.weight_ps
            self.say(flow, "set-up", size)
            return None
        if trip.stage == "retained":
            self.go_on(trip, flow, asked)
        if trip.stage != "running":
            return None
        if self.rates and self.rates.is_clocked and trip.last:
            start, span = trip.last
            return max(asked, start + span * WHOLE // trip.share(self.own_ps))
        return asked

    def go_on(self, trip: Trip, flow: Flow, start: int) -> None:
        """Start the next message of a retained flow, or end the flow if the sizes of its messages differ."""
        assert self.rates
        if trip.size != flow.messages[0].left:
            trip.stage = "ending"
            self.own_ps -= trip.weight_ps
            self.say(flow, "tear-down", trip.size)
            return
        trip.stage, trip.sent, trip.probe_after_ps = "running", 0, self.rates.probe_ps
        self.plan_probe(trip, flow, start)

    def plan_probe(self, trip: Trip, flow: Flow, start: int) -> None:
        """Schedule the next probe of a flow, if it has probes."""
        if trip.probe_after_ps is not None:
            due = start + trip.probe_after_ps
            trip.probe_after_ps *= 2
            number = self.host.net.number[flow.destination]
            self.probes.append((due, flow.source.number, number))

    def carry(self, flow: Flow, packet: Packet) -> None:
        """With explicit rates and without probes, let a data packet collect the sums of its links."""
        if self.rates and self.rates.probe_ps is None:
            known_ps = self.trips[flow.source, flow.destination].largest_ps
            packet.announcement = Announcement("probe", 0, known_ps=known_ps)

    def say(self, flow: Flow, kind: str, size: int) -> None:
        """Queue a packet that announces, probes or ends a flow."""
        host, lanes = self.host, self.host.net.plan.lanes
        lane = flow.lane if kind == "tear-down" or lanes.control is None else lanes.control
        packet = host.control_packet(flow, flow.destination, lane, kind)
        packet.announcement = Announcement(kind, size)
        host.say(packet)

    def urgency(self, flow: Flow) -> int:
        """Return the bytes that a flow has sent divided by its rate, or zero without an announcement."""
        trip = self.trips.get((flow.source, flow.destination))
        return trip.sent * WHOLE // trip.share(self.own_ps) if trip else 0

    def sent(self, flow: Flow, size: int, *, is_last: bool) -> None:
        """Record a sent packet.

        With periodic selection, the sum of all rates determines when the next packet may be sent.
        """
        trip, now = self.trips[flow.source, flow.destination], self.host.net.now
        span = ceil(size * self.host.out.pace)
        trip.sent += size
        trip.last = now, span
        if self.rates and not self.rates.is_clocked:
            together = sum(t.share(self.own_ps) for t in self.trips.values() if t.stage == "running")
            limiter = self.host.injection
            limiter.free_at = max(limiter.free_at, now + span * WHOLE // together)
        if is_last and self.rates and self.rates.is_retained:
            trip.stage = "retained"
        elif is_last:
            trip.stage = "ending"
            self.own_ps -= trip.weight_ps
            self.say(flow, "tear-down", trip.size)

    def send_probes(self) -> None:
        """Send the probes that are due, for flows that still send."""
        now, net = self.host.net.now, self.host.net
        for entry in sorted(entry for entry in self.probes if entry[0] <= now):
            self.probes.remove(entry)
            source, destination = self.host.sources[entry[1]], net.plan.wiring.hosts[entry[2]]
            trip = self.trips.get((source, destination))
            if trip and trip.stage == "running":
                self.say(self.host.flow(source, destination), "probe", 0)

    def came_back(self, packet: Packet) -> bool:
        """Process a returned announcement, and return whether it changed anything."""
        flow, announcement = packet.flow, packet.announcement
        assert announcement
        key = flow.source, flow.destination
        trip = self.trips.get(key)
        if trip is None:
            return False
        if announcement.kind == "tear-down":
            del self.trips[key]
        elif (announcement.kind, trip.stage) in (("set-up", "announced"), ("probe", "running")):
            trip.stage = "running"
            trip.largest_ps = announcement.largest_ps
            self.plan_probe(trip, flow, self.host.net.now)
        else:
            # The flow sent its last packet before the probe returned.
            return False
        # Flows take their turns in the order in which they may send.
        self.host.release_due()
        self.host.reopen(flow)
        return True
