"""Messages with separate flows: distributions of sizes, loads, bursts, incasts, lists, closed loops."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING

from verify.reading import TrafficPlan
from verify.reference.sources import MOST_WAITING, Message, Source
from verify.reference.streams import Stream

if TYPE_CHECKING:
    from verify.reference.hosts import Flow
    from verify.reference.network import Network

#: The number of values of a random number of 32 bits.
ONE = 2**32


def drawn(points: tuple[tuple[int, float], ...], random: Stream) -> int:
    """Draw a size from a distribution, which is uniform between two points.

    Shares are cumulative percentages.
    """
    numbers = [floor(share / 100 * ONE + 0.5) for _, share in points]
    number = random.bits()
    after = min(bisect.bisect_right(numbers, number), len(points) - 1)
    if after == 0:
        return max(points[0][0], 1)
    least, size = points[after - 1][0], points[after][0]
    part = (size - least) * (number - numbers[after - 1]) // (numbers[after] - numbers[after - 1])
    return max(least + part, 1)


def mean_size(points: tuple[tuple[int, float], ...]) -> int:
    """Return the mean of a distribution, rounded to whole bytes."""
    numbers = [floor(share / 100 * ONE + 0.5) for _, share in points]
    whole = Fraction(points[0][0] * numbers[0], ONE)
    for at in range(1, len(points)):
        middle = Fraction(points[at - 1][0] + points[at][0], 2)
        whole += middle * Fraction(numbers[at] - numbers[at - 1], ONE)
    return max(floor(whole + Fraction(1, 2)), 1)


@dataclass(frozen=True)
class Transfer:
    """A transfer whose hosts and start are known in advance."""

    source: str
    destination: str
    size: int
    start: int
    level: int


class OwnSource(Source):
    """The flow of one message. It ends with the last acknowledgement, or without these when it is sent."""

    def __init__(self, parent: Source, destination: str, number: int, size: int) -> None:
        super().__init__(parent.name, parent.timing, parent.level, lambda: destination)
        self.parent, self.number, self.size = parent, number, size
        self.unacknowledged = size
        self.created = 0
        self.delivered: int | None = None
        self.acknowledged: int | None = None


class Generator(Source):
    """A source whose messages have separate flows."""

    def __init__(self, net: Network, plan: TrafficPlan, owner: int, choose: Callable[[], str]) -> None:
        super().__init__(plan.name, plan.timing, plan.level, choose)
        self.net, self.plan, self.given = net, plan, plan.given
        #: The times at which messages are due, in ascending order. With a rate, the list contains only the
        #: next one.
        self.due: list[int] = []
        self.listed: list[Transfer] = []
        self.random = Stream(net.plan.seed, "message sizes", owner)
        self.arrivals = Stream(net.plan.seed, "arrivals", owner)
        self.packets = plan.packets
        self.carry = Fraction(0)
        self.bytes = mean_size(self.given.points) if self.given.points else plan.timing.message
        self.busy: int | None = None
        self.periods: Stream | None = None
        self.pace: Fraction | None = None
        if self.given.bursts:
            self.periods = Stream(net.plan.seed, "bursts", owner)
            self.busy = self.periods.exponential(self.given.bursts[0])

    def start_at_rate(self, link: Fraction) -> None:
        """Begin to generate messages at the rate or load of a host. `link` is the pace of its link."""
        bits = offered_bits(self.net, self.plan, link)
        if self.given.bursts:
            on, off = self.given.bursts
            bits = bits * (on + off) // on
        self.pace = Fraction(8 * 10**12, max(bits, 1))
        spacing = ceil(self.bytes * self.pace)
        if self.timing.is_poisson:
            phase = self.arrivals.exponential(spacing)
        else:
            phase = spacing * self.arrivals.bits() >> 32
        self.due = [self.timing.start_ps + self.spaced(phase)]

    def start_loop(self) -> None:
        """Begin a closed loop, with the first messages at random times within one think time."""
        assert self.given.outstanding is not None
        times = [self.given.think * self.arrivals.bits() >> 32 for _ in range(self.given.outstanding)]
        self.due = [self.timing.start_ps + time for time in sorted(times)]

    def start_list(self, transfers: list[Transfer]) -> None:
        """Begin to generate listed transfers, in order of their starts."""
        self.listed, self.due = transfers, [transfer.start for transfer in transfers]
        self.level = transfers[0].level

    def spaced(self, busy: int) -> int:
        """Return the time in which busy periods of this total length pass; draw the periods that follow."""
        if self.periods is None or self.busy is None or self.given.bursts is None:
            return busy
        total, rest = busy, busy
        while rest > self.busy:
            rest -= self.busy
            total += self.periods.exponential(self.given.bursts[1])
            self.busy = self.periods.exponential(self.given.bursts[0])
        self.busy -= rest
        return total

    def next_draw(self, now: int, *, is_ready: bool) -> int | None:
        """Return when the next message is generated; `None` if there is none."""
        if not self.due or self.left == 0 or self.backlog >= MOST_WAITING:
            return None
        stop = self.timing.stop_ps
        return self.due[0] if stop is None or self.due[0] < stop else None

    def draw(self, now: int) -> Message:
        """Generate a message."""
        created = self.due.pop(0)
        self.backlog += 1
        if self.listed:
            transfer = self.listed.pop(0)
            return Message(transfer.destination, created, transfer.size)
        size = self.draw_size()
        if self.pace is not None:
            if self.timing.is_poisson:
                spacing = self.arrivals.exponential(ceil(self.bytes * self.pace))
            else:
                whole = self.bytes * self.pace + self.carry
                spacing = floor(whole)
                self.carry = whole - spacing
            self.due = [created + self.spaced(spacing)]
        return Message(self.choose(), created, size)

    def draw_size(self) -> int:
        """Draw the size of a message. The last message is limited to the remaining packets."""
        size = draw_size(self.plan, self.random)
        if self.packets is not None:
            mtu = self.net.plan.mtu
            size = min(size, self.packets * mtu)
            self.packets -= -(-size // mtu)
            if self.packets == 0:
                self.left = 0
        return size

    def ended(self, now: int) -> None:
        """Record that a message has ended."""
        self.backlog -= 1
        if self.given.outstanding is not None:
            self.due.append(now + self.given.think)


def draw_size(plan: TrafficPlan, random: Stream) -> int:
    """Draw the size of a message."""
    if plan.given.points:
        return drawn(plan.given.points, random)
    return plan.timing.message + (random.below(plan.spread + 1) if plan.spread else 0)


def host_bits(net: Network, link: Fraction) -> int:
    """Return the rate at which a host with a link of this pace can inject, in bit/s."""
    pace = max(link, net.plan.injection or link)
    return floor(8 * 10**12 / pace)


def offered_bits(net: Network, plan: TrafficPlan, link: Fraction) -> int:
    """Return the mean rate that a host offers, in bit/s."""
    if plan.rate_bits is not None:
        return plan.rate_bits
    assert plan.given.load_percent is not None
    return host_bits(net, link) * plan.given.load_percent // 100


def incasts(net: Network, plan: TrafficPlan) -> list[Transfer]:
    """Draw the transfers of incasts."""
    given, random = plan.given, Stream(net.plan.seed, "incast", plan.class_number)
    hosts, receivers = plan.hosts, plan.to or net.plan.wiring.hosts
    count = min(given.senders, len(hosts))
    mean = given.every
    if mean is None:
        assert given.load_percent is not None
        size = mean_size(given.points) if given.points else plan.timing.message
        whole = sum(host_bits(net, net.hosts[host].out.usual_pace) for host in hosts)
        mean = count * size * 8 * 100 * 10**12 // (given.load_percent * whole)
    stop = net.plan.duration_ps
    if plan.timing.stop_ps is not None:
        stop = min(stop, plan.timing.stop_ps)
    found, time = [], plan.timing.start_ps
    while time < stop:
        to = receivers[random.below(len(receivers))]
        others = [host for host in hosts if host != to]
        for place in range(min(count, len(others))):
            other = place + random.below(len(others) - place)
            others[place], others[other] = others[other], others[place]
            late = given.jitter * random.bits() >> 32
            size = draw_size(plan, random)
            found.append(Transfer(others[place], to, size, time + late, plan.level))
        gap = random.exponential(mean) if plan.timing.is_poisson else mean
        time += max(gap, 1)
    return found


def of_pattern(
    net: Network,
    plan: TrafficPlan,
    owners: dict[str, int],
    chooser: Callable[[int, str, int], Callable[[], str] | None],
) -> list[tuple[str, Source]]:
    """Return the hosts and sources of a pattern, in the order of the sources at each host."""
    found: list[tuple[str, Source]] = []

    def new(host: str, choose: Callable[[], str]) -> Generator:
        source = Generator(net, plan, net.number[host] << 16 | owners[host], choose)
        owners[host] += 1
        found.append((host, source))
        return source

    if plan.kind in ("incast", "listed"):
        listed = plan.given.transfers(net.plan.wiring)
        transfers = incasts(net, plan) if plan.kind == "incast" else list(listed)
        groups: dict[tuple[int, int], list[Transfer]] = {}
        for one in transfers:
            groups.setdefault((net.number[one.source], one.level), []).append(one)
        for (number, _), own in sorted(groups.items()):
            new(net.plan.wiring.hosts[number], lambda: "").start_list(sorted(own, key=lambda one: one.start))
        return found
    for position, host in enumerate(plan.hosts):
        choose = chooser(position, host, net.number[host] << 16 | owners[host])
        if choose is None:
            continue
        source = new(host, choose)
        if plan.given.outstanding is not None:
            source.start_loop()
        else:
            source.start_at_rate(net.hosts[host].out.usual_pace)
    return found


def acknowledged(flow: Flow, payload: int, now: int) -> bool:
    """Count acknowledged bytes of a flow, and return whether the message of a separate flow has ended."""
    source = flow.source
    if not isinstance(source, OwnSource):
        return False
    source.unacknowledged -= payload
    if source.unacknowledged == 0:
        source.acknowledged = now
    return source.unacknowledged == 0
