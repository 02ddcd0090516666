"""Times, sizes and destinations of the messages that hosts generate for flows and patterns."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING

from verify.reading import FlowPlan, Timing, TrafficPlan
from verify.reference.forests import Generator, Placement
from verify.reference.streams import Stream

if TYPE_CHECKING:
    from verify.reference.network import Network

#: Number of waiting messages at which a source generates no more.
MOST_WAITING = 1024


@dataclass(eq=False)
class Message:
    """A message, or its remaining bytes."""

    destination: str
    created: int
    left: int
    is_hot: bool = False


@dataclass
class Sizes:
    """Messages of different sizes, and a limit on the number of packets."""

    spread: int
    packets: int | None
    mtu: int
    random: Stream

    def draw(self, least: int) -> tuple[int, bool]:
        """Draw the size of the next message; return it, and whether the message is the last one."""
        size = least + self.random.below(self.spread + 1)
        if self.packets is None:
            return size, False
        size = min(size, self.packets * self.mtu)
        self.packets -= ceil(Fraction(size, self.mtu))
        return size, self.packets == 0


class Source:
    """A flow, or a host's share of a pattern: a series of messages.

    A saturating source with one destination has one message at a time. One with several destinations
    generates the next message when none of its messages may be sent, so that no message delays another.
    """

    def __init__(self, name: str, timing: Timing, level: int, choose: Callable[[], str]) -> None:
        self.name, self.timing, self.level, self.choose = name, timing, level, choose
        self.has_one_destination = False
        self.sizes: Sizes | None = None
        self.arrivals: Stream | None = None
        self.generator: Generator | None = None
        self.next_due: Fraction = Fraction(timing.start_ps)
        self.left = timing.total
        #: Messages that were generated but not completely sent.
        self.backlog = 0
        #: The source's number at its host.
        self.number = 0
        #: The number of the source's last packet among all data packets that its host has sent.
        self.served = 0

    def is_over(self, time: int) -> bool:
        """Return whether no more messages are generated at or after a time."""
        return self.left == 0 or (self.timing.stop_ps is not None and time >= self.timing.stop_ps)

    def next_draw(self, now: int, *, is_ready: bool) -> int | None:
        """Return when the next message is generated; `None` if none is.

        A time in the past means that the message may be generated now. `is_ready` states whether the turn of
        any of the source's flows may come.
        """
        due, has_room = floor(self.next_due), self.backlog < MOST_WAITING
        if self.generator:
            if is_ready:
                return None
            times = self.generator.times(now, has_room=has_room)
            return None if not times or self.is_over(max(min(times), now)) else min(times)
        if self.is_over(due):
            return None
        if self.timing.interval_ps is not None:
            return due if has_room else None
        waits = self.backlog > 0 if self.has_one_destination else is_ready or not has_room
        return None if waits or self.is_over(now) else due

    def draw(self, now: int) -> Message:
        """Generate a message."""
        size, is_last = self.timing.message, False
        if self.sizes:
            size, is_last = self.sizes.draw(size)
        if self.left is not None:
            size = min(size, self.left)
            self.left -= size
        if is_last:
            self.left = 0
        created = now
        if self.timing.interval_ps is not None and not self.generator:
            created = floor(self.next_due)
            self.next_due += self.interval()
        has_room = self.backlog < MOST_WAITING
        self.backlog += 1
        if self.generator:
            destination, is_hot = self.generator.choose(now, self.timing.message, has_room=has_room)
            return Message(destination, created, size, is_hot)
        return Message(self.choose(), created, size)

    def interval(self) -> Fraction:
        """Return the time to the next message."""
        assert self.timing.interval_ps is not None
        if self.timing.is_poisson and self.arrivals:
            return Fraction(self.arrivals.exponential(ceil(self.timing.interval_ps)))
        return self.timing.interval_ps

    def finished(self, message: Message) -> None:
        """Record that a message has been sent."""
        self.backlog -= 1
        if self.generator:
            self.generator.finished(message.created, is_hot=message.is_hot)


def of_flow(net: Network, plan: FlowPlan) -> Source:
    """Return the source of a flow."""
    source = Source(plan.name, plan.timing, plan.level, lambda: plan.destination)
    source.has_one_destination = True
    source.arrivals = Stream(net.plan.seed, f"arrivals of flow {plan.name}", net.number[plan.source])
    return source


def of_pattern(net: Network, plan: TrafficPlan, number: int, owners: dict[str, int]) -> dict[str, Source]:
    """Return the sources of a pattern by host. `owners` counts the patterns of each host so far."""
    found = {}
    if plan.kind == "forest":
        placement = Placement(net.plan, plan, number)
        for host, role in placement.roles.items():
            owner = net.number[host] << 16 | owners[host]
            generator = placement.generator(host, role, owner)
            name = {"victim": "victims", "mixed": "mixed hosts"}.get(role.kind, "contributors")
            found[host] = Source(f"{plan.name}: {name}", plan.timing, plan.level, lambda: "")
            found[host].generator = generator
    else:
        for position, host in enumerate(plan.hosts):
            owner = net.number[host] << 16 | owners[host]
            choose = _chooser(net, plan, position, host, owner)
            if choose is None:
                continue
            source = found[host] = Source(plan.name, plan.timing, plan.level, choose)
            source.has_one_destination = plan.kind in ("hotspots", "shift", "permutation")
            source.arrivals = Stream(net.plan.seed, "arrivals", owner)
            source.next_due += _phase(plan.timing, source.arrivals)
            if plan.spread or plan.packets is not None:
                random = Stream(net.plan.seed, "message sizes", owner)
                source.sizes = Sizes(plan.spread, plan.packets, net.plan.mtu, random)
    for host in found:
        owners[host] += 1
    return found


def chooser_of(net: Network, plan: TrafficPlan) -> Callable[[int, str, int], Callable[[], str] | None]:
    """Return a function from position, name and owner of a sender to its choice of destinations."""
    return lambda position, host, owner: _chooser(net, plan, position, host, owner)


def _phase(timing: Timing, arrivals: Stream) -> int:
    """Draw the time at which a source of a pattern begins."""
    if timing.interval_ps is None:
        return 0
    spacing = ceil(timing.interval_ps)
    return arrivals.exponential(spacing) if timing.is_poisson else spacing * arrivals.bits() >> 32


def _chooser(
    net: Network, plan: TrafficPlan, position: int, host: str, owner: int
) -> Callable[[], str] | None:
    """Return the function with which a sender selects destinations; `None` if it has none."""
    hosts, me = net.plan.wiring.hosts, net.number[host]
    if plan.kind == "uniform":
        drawn = Stream(net.plan.seed, "destinations", owner)
        if plan.include_self:
            return lambda: hosts[drawn.below(len(hosts))]
        others = hosts[:me] + hosts[me + 1 :]
        return lambda: others[drawn.below(len(others))]
    if plan.kind == "all-to-all":
        order = itertools.cycle([hosts[(me + step) % len(hosts)] for step in range(1, len(hosts))])
        return lambda: next(order)
    to = {
        "hotspots": lambda: plan.to[position % len(plan.to)],
        "shift": lambda: hosts[(me + plan.by) % len(hosts)],
        "permutation": lambda: permutation(net.plan.seed, plan.class_number, hosts)[me],
    }[plan.kind]()
    return None if to == host else lambda: to


def permutation(seed: int, class_number: int, hosts: list[str]) -> list[str]:
    """Draw a random permutation of at least two hosts, in which no host sends to itself."""
    random, images = Stream(seed, "permutation", class_number), list(hosts)
    while any(image == host for image, host in zip(images, hosts, strict=True)):
        random.shuffle(images)
    return images
