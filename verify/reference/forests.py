"""Silent, windy and moving congestion trees: hosts with roles, and hotspots.

Victims send to random hosts, and contributors to the hotspot of their subset. Mixed hosts send p percent to
their hotspot and the rest to random hosts. With a lifetime, new hotspots are selected after each period.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor

from verify.reading import Plan, TrafficPlan
from verify.reference.streams import Stream


@dataclass(frozen=True)
class Role:
    """The role of a host, `victim`, `mixed` or `contributor`, and its subset."""

    kind: str
    subset: int = 0


class Placement:
    """The role of each host, and the hotspots of each period."""

    def __init__(self, plan: Plan, traffic: TrafficPlan, number: int) -> None:
        self.plan, self.traffic = plan, traffic
        forest = traffic.forest
        assert forest
        hosts = plan.wiring.hosts
        self.subsets = min(forest.hotspots, len(hosts))
        stop = plan.duration_ps if traffic.timing.stop_ps is None else traffic.timing.stop_ps
        span = max(min(stop, plan.duration_ps) - traffic.timing.start_ps, 0)
        self.periods = max(-(-span // forest.lifetime_ps), 1) if forest.lifetime_ps else 1
        self.hotspots = [self._draw_hotspots(number, period) for period in range(self.periods)]
        order = list(traffic.hosts)
        Stream(plan.seed, "roles", number).shuffle(order)
        self.roles: dict[str, Role] = {}
        first, percent = 0, 0
        for kind, share in (
            ("victim", forest.victims),
            ("mixed", forest.mixed),
            ("contributor", forest.contributors),
        ):
            percent += share
            # Sums of shares are rounded, so that the total never exceeds the number of senders.
            end = (2 * len(order) * min(percent, 100) + 100) // 200
            for place, host in enumerate(order[first:end]):
                self.roles[host] = Role(kind, 0 if kind == "victim" else place % self.subsets)
            first = max(first, end)

    def _draw_hotspots(self, number: int, period: int) -> list[str]:
        """Select distinct hotspots, one for each subset. Each period has its own random stream."""
        random, hosts = Stream(self.plan.seed, "hotspots", number << 32 | period), self.plan.wiring.hosts
        found: list[str] = []
        while len(found) < self.subsets:
            host = hosts[random.below(len(hosts))]
            if host not in found:
                found.append(host)
        return found

    def period(self, now: int) -> int:
        """Return the number of the period that contains a time."""
        forest = self.traffic.forest
        if not forest or not forest.lifetime_ps:
            return 0
        return min(max(now - self.traffic.timing.start_ps, 0) // forest.lifetime_ps, self.periods - 1)

    def target(self, period: int, subset: int, me: str) -> str | None:
        """Return the hotspot to which the host `me` of a subset sends.

        If `me` is the hotspot of the subset, the hotspot of the next subset; `None` if `me` is that one, too.
        """
        hotspots = self.hotspots[period]
        own, following = hotspots[subset], hotspots[(subset + 1) % len(hotspots)]
        if own != me:
            return own
        return following if following != me else None

    def generator(self, host: str, role: Role, owner: int) -> Generator:
        """Return the generator of a host's messages."""
        forest = self.traffic.forest
        assert forest
        percent = {"contributor": 100, "victim": 0}.get(role.kind, forest.p)
        return Generator(self, host, role.subset, percent, owner)

    def pace(self, host: str, percent: int) -> Fraction:
        """Return the pace of a percentage of a host's traffic, in ps per byte.

        It is 0 if the host sends all of its traffic without a rate limit, or none.
        """
        if self.traffic.rate_bits is None and percent == 100:
            return Fraction(0)
        rate = self.traffic.rate_bits
        if rate is None:
            link = next(link for link in self.plan.wiring.links if host in (end[0] for end in link.ends))
            pace = max(link.ps_per_byte, self.plan.injection or Fraction(0))
            rate = int(Fraction(8 * 10**12) / pace)
        share = rate * percent // 100
        return Fraction(8 * 10**12, share) if share else Fraction(0)


class Generator:
    """The messages of a host of a forest: to hotspots and to random hosts, each with its own rate."""

    def __init__(self, placement: Placement, host: str, subset: int, percent: int, owner: int) -> None:
        self.placement, self.host, self.subset, self.percent = placement, host, subset, percent
        seed = placement.plan.seed
        self.choices = Stream(seed, "arrivals", owner)
        self.destinations = Stream(seed, "destinations", owner)
        self.hot_pace, self.random_pace = (placement.pace(host, share) for share in (percent, 100 - percent))
        start = Fraction(placement.traffic.timing.start_ps)
        self.hot_due = self.random_due = start
        #: The period of the latest message for a hotspot, and the number of waiting messages of this period.
        self.period = self.on_hand = 0

    def hot_time(self, now: int) -> int | None:
        """Return when a message for the hotspot may be generated; `None` if never.

        One message waits at a time, except after the hotspots have moved.
        """
        if self.percent == 0:
            return None
        period = self.placement.period(now)
        is_free = self.on_hand == 0 or period > self.period
        if is_free and self.placement.target(period, self.subset, self.host) is not None:
            return floor(self.hot_due)
        lifetime = self.placement.traffic.forest and self.placement.traffic.forest.lifetime_ps
        if not lifetime or period + 1 >= self.placement.periods:
            return None
        return max(self.placement.traffic.timing.start_ps + (period + 1) * lifetime, floor(self.hot_due))

    def random_time(self, *, has_room: bool) -> int | None:
        """Return when a message for a random host may be generated; `None` if never, or without room."""
        return floor(self.random_due) if self.percent < 100 and has_room else None

    def times(self, now: int, *, has_room: bool) -> list[int]:
        """Return the times at which a message of either kind may be generated."""
        both = (self.hot_time(now), self.random_time(has_room=has_room))
        return [time for time in both if time is not None]

    def choose(self, now: int, size: int, *, has_room: bool) -> tuple[str, bool]:
        """Select the destination of a message that is due; return it, and whether it is the hotspot.

        If both kinds are due, one is selected at random. The next message of this kind is due later.
        """
        hot, random = self.hot_time(now), self.random_time(has_room=has_room)
        is_random_due = random is not None and random <= now
        if hot is not None and hot <= now and (not is_random_due or self.choices.chance(self.percent, 100)):
            period = self.placement.period(now)
            if period > self.period:
                self.period, self.on_hand = period, 0
            target = self.placement.target(period, self.subset, self.host)
            if target is not None:
                self.on_hand += 1
                self.hot_due += size * self.hot_pace
                return target, True
        self.random_due += size * self.random_pace
        others = [host for host in self.placement.plan.wiring.hosts if host != self.host]
        return others[self.destinations.below(len(others))], False

    def finished(self, created: int, *, is_hot: bool) -> None:
        """Record that a message has left the host."""
        if is_hot and self.placement.period(created) == self.period:
            self.on_hand -= 1
