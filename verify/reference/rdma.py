"""Reactions of RDMA over Ethernet."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from fractions import Fraction
from math import ceil, isqrt
from typing import TYPE_CHECKING

from verify.rdma import (
    DcqcnReaction,
    DctcpReaction,
    HpccReaction,
    NsccReaction,
    PccRttReaction,
    PccTelemetryReaction,
    RdmaReaction,
    SwiftReaction,
    TimelyReaction,
)
from verify.reference.reactions import Control

if TYPE_CHECKING:
    from verify.reference.links import Hop, Packet
    from verify.reference.reactions import Answer, Loss

#: The rate of a link, and an alpha of 1, in the units of this module.
LINE = 2**30


def part(bits: int | None, pace: Fraction, usual: int) -> int:
    """Return a rate in units of the link's rate / `LINE`.

    `bits` is the rate in bit/s. Without `bits`, the rate is that of the link / `usual`.
    """
    if bits is None:
        return LINE // usual
    return min(max(int(bits * LINE * pace / (8 * 10**12)), 1), LINE)


class DcqcnControl(Control):
    """DCQCN: a rate with three timers, of alpha, of decreases and of increases.

    The state is updated whenever it is needed. A timer is its time of expiry, or `None` if it does not run.
    The timers of alpha and of decreases run from the first notification until the flow is released.
    """

    def __init__(self, reaction: DcqcnReaction, pace: Fraction) -> None:
        super().__init__()
        self.reaction, self.pace = reaction, pace
        self.additive = part(reaction.additive, pace, 5000)
        self.hyper = part(reaction.hyper, pace, 500)
        self.least = part(reaction.least, pace, 100)
        self.release()

    def release(self) -> None:
        """Reset the state to that of a flow that was never notified."""
        self.rate = self.target = LINE
        self.alpha = 0
        self.alpha_at: int | None = None
        self.decrease_at: int | None = None
        self.increase_at: int | None = None
        self.alpha_noted = self.rate_noted = False
        self.raises = {"time": 0, "bytes": 0}
        self.bytes_left = 0

    def expiries(self) -> list[tuple[int, int, str]]:
        """Return when each running timer expires, in the order of processing."""
        order = {"alpha": 1, "decrease": 2, "increase": 3}
        if not self.reaction.is_alpha_first:
            order["alpha"], order["decrease"] = 2, 1
        clocks = {"alpha": self.alpha_at, "decrease": self.decrease_at, "increase": self.increase_at}
        return sorted((at, order[name], name) for name, at in clocks.items() if at is not None)

    def pass_time(self, now: int) -> None:
        """Process the expiries of timers up to a time."""
        while (found := self.expiries()) and found[0][0] <= now:
            at, _, name = found[0]
            if name == "alpha":
                self.update_alpha(at)
            elif name == "decrease":
                self.decrease(at)
            else:
                self.increase_at = at + self.reaction.increase_ps
                self.raise_rate("time")
            is_noted = self.alpha_noted or self.rate_noted
            if self.rate == LINE and self.alpha == 0 and not is_noted:
                self.release()

    def update_alpha(self, at: int) -> None:
        """Change alpha toward one if a notification has arrived, and otherwise toward zero."""
        self.alpha -= -(-self.alpha // self.reaction.divisor)
        if self.alpha_noted:
            self.alpha += LINE // self.reaction.divisor
        self.alpha_noted = False
        self.alpha_at = at + self.reaction.alpha_ps

    def decrease(self, at: int) -> None:
        """Decrease the rate, if a notification has arrived since the last expiry."""
        self.decrease_at = at + self.reaction.decrease_ps
        if not self.rate_noted:
            return
        self.rate_noted = False
        if self.reaction.is_clamped or any(self.raises.values()):
            self.target = self.rate
        lower = self.rate - self.rate * self.alpha // (2 * LINE)
        self.rate = min(max(lower, self.least), self.rate)
        self.raises = {"time": 0, "bytes": 0}
        self.bytes_left = self.reaction.increase_bytes or 0
        self.increase_at = at + self.reaction.increase_ps if self.rate < LINE else None

    def raise_rate(self, why: str) -> None:
        """Raise the rate, and after fast recovery its target."""
        counts = list(self.raises.values()) if self.reaction.increase_bytes else [self.raises["time"]]
        if min(counts) > self.reaction.fast:
            self.target += self.hyper
        elif max(counts) >= self.reaction.fast:
            self.target += self.additive
        self.target = min(self.target, LINE)
        self.rate = self.target - (self.target - self.rate) // 2
        # The simulator stores this count in one byte.
        self.raises[why] = min(self.raises[why] + 1, 255)
        if self.rate == LINE:
            self.increase_at = None

    def lose(self, loss: Loss) -> int:
        """Take a loss as a notification, if losses count."""
        if self.reaction.after_losses:
            self.answered("hot", loss.now)
        return 0

    def answered(self, mark: str, now: int, severity: int = 0) -> None:
        """Record a notification. The first one starts the timers."""
        if mark != "hot":
            return
        self.pass_time(now)
        if self.alpha_at is None:
            self.alpha, self.alpha_noted = LINE, False
            self.rate = self.target = LINE * self.reaction.first_percent // 100
            self.bytes_left = self.reaction.increase_bytes or 0
            self.alpha_at, self.decrease_at = now + self.reaction.alpha_ps, now + self.reaction.decrease_ps
        else:
            self.alpha_noted = True
        self.rate_noted = True

    def leaves(self, packet: Packet, now: int, end: int) -> None:
        """Record a packet. With `increase_bytes`, its bytes count toward the next increase of the rate."""
        self.sent(end, packet.size)
        if self.reaction.increase_bytes is None:
            return
        self.pass_time(now)
        if self.rate == LINE:
            return
        self.bytes_left -= packet.size
        if self.bytes_left <= 0:
            self.bytes_left = self.reaction.increase_bytes
            self.raise_rate("bytes")

    def eligible_at(self, now: int) -> int | None:
        """Return when the next packet may start, if timers raise the rate until then."""
        later, time = copy(self), now
        later.raises = dict(self.raises)
        while True:
            later.pass_time(time)
            span = ceil(later.last_size * later.pace)
            due = max(later.last_end + span * (LINE - later.rate) // later.rate, time)
            coming = later.expiries()
            if not coming or due < coming[0][0]:
                return due
            time = coming[0][0]

    def next_timer(self) -> int | None:
        """Return the time of the next possible decrease; `None` without a new notification."""
        return self.decrease_at if self.rate_noted else None

    def strength(self, now: int) -> int:
        """Return the rate of the link divided by that of the flow, rounded down, minus 1; at most 65,535."""
        later = copy(self)
        later.raises = dict(self.raises)
        later.pass_time(now)
        return min(LINE // later.rate - 1, 2**16 - 1)


class Flight:
    """The bytes of a flow in flight, and its round trips.

    A round trip lasts until a packet that was sent after its beginning is acknowledged. The first one begins
    with the first acknowledgement.
    """

    def __init__(self) -> None:
        self.sent = self.acknowledged = self.round_ends = 0

    @property
    def bytes(self) -> int:
        """Return the bytes in flight."""
        return self.sent - self.acknowledged

    def take(self, answer: Answer) -> bool:
        """Count an acknowledgement, and return whether it ends a round trip, or begins the first one."""
        self.acknowledged += answer.size
        if self.acknowledged <= self.round_ends:
            return False
        self.round_ends = self.sent
        return True


class FlightControl(Control):
    """A control that counts the bytes in flight."""

    flight: Flight

    def lose(self, loss: Loss) -> int:
        """Count a packet that is no longer in flight."""
        self.flight.acknowledged += loss.size
        return 0

    def arrived(self, size: int) -> None:
        """Count a packet that is no longer in flight."""
        self.flight.acknowledged += size


class DctcpControl(FlightControl):
    """DCTCP: a window that decreases with the share of marked bytes."""

    def __init__(self, reaction: DctcpReaction) -> None:
        super().__init__()
        self.reaction, self.flight = reaction, Flight()
        #: The window in units of 2^-16 bytes. `alpha` is in units of 2^-30.
        self.window = reaction.initial * reaction.full << 16
        self.alpha = LINE
        self.is_slow = reaction.is_slow
        #: The bytes sent when the window was last reduced.
        self.high = 0
        self.acknowledged = self.marked = 0

    def leaves(self, packet: Packet, now: int, end: int) -> None:
        """Record a packet in flight."""
        self.flight.sent += packet.size

    def eligible_at(self, now: int) -> int | None:
        """Return `now` if the window is open, and otherwise `None`."""
        return now if self.flight.bytes < self.window >> 16 else None

    def take_answer(self, answer: Answer) -> None:
        """Process an acknowledgement."""
        is_used = 2 * self.flight.bytes >= self.window >> 16
        is_marked, is_first = answer.mark == "hot", self.flight.round_ends == 0
        self.acknowledged += answer.size
        self.marked += answer.size * is_marked
        if self.flight.take(answer):
            if not is_first:
                share = self.marked * LINE // self.acknowledged
                self.alpha = (self.alpha * (self.reaction.divisor - 1) + share) // self.reaction.divisor
            self.acknowledged = self.marked = 0
        # Data in flight at a reduction causes neither another reduction nor an increase (RFC 8257, 3.3).
        if self.flight.acknowledged <= self.high:
            return
        if is_marked:
            self.high, self.is_slow = self.flight.sent, False
            least = self.reaction.least * self.reaction.full << 16
            self.window = max(self.window - self.window * self.alpha // (2 * LINE), least)
        elif is_used:
            more = answer.size << 16
            if not self.is_slow:
                more = (self.reaction.full * answer.size << 16) // (self.window >> 16)
            self.window = min(self.window + more, 2**56)

    def lose(self, loss: Loss) -> int:
        """Count a lost packet, and halve the window once per window of data."""
        super().lose(loss)
        if self.flight.acknowledged > self.high:
            self.high, self.is_slow = self.flight.sent, False
            self.window = max(self.window // 2, self.reaction.least * self.reaction.full << 16)
        return 0

    def strength(self, now: int) -> int:
        """Return by how many packets the window is smaller than the first one."""
        first = self.reaction.initial * self.reaction.full << 16
        return min((max(first - self.window, 0) >> 16) // self.reaction.full, 2**16 - 1)


class PacedControl(FlightControl):
    """A rate that acknowledgements change."""

    def __init__(self, pace: Fraction) -> None:
        super().__init__()
        self.pace, self.flight, self.rate = pace, Flight(), LINE

    def leaves(self, packet: Packet, now: int, end: int) -> None:
        """Record a packet in flight."""
        self.sent(end, packet.size)
        self.flight.sent += packet.size

    def eligible_at(self, now: int) -> int | None:
        """Return when the time of the last packet at the current rate has passed."""
        span = ceil(self.last_size * self.pace)
        return max(now, self.last_end + span * (LINE - self.rate) // self.rate)

    def strength(self, now: int) -> int:
        """Return the rate of the link divided by that of the flow, rounded down, minus 1; at most 65,535."""
        return min(LINE // self.rate - 1, 2**16 - 1)


class TimelyControl(PacedControl):
    """TIMELY: a rate that follows from the gradient of the delay."""

    def __init__(self, reaction: TimelyReaction, pace: Fraction) -> None:
        super().__init__(pace)
        self.reaction = reaction
        self.additive = part(reaction.additive, pace, 1000)
        self.hyper = part(reaction.hyper, pace, 200)
        self.slowest = part(reaction.slowest, pace, 100)
        self.delay: int | None = None
        self.difference = self.increases = 0

    def take_answer(self, answer: Answer) -> None:
        """Process an acknowledgement. Its delay counts once per round trip."""
        if not self.flight.take(answer):
            return
        before, self.delay = self.delay, answer.now - answer.sent_at
        if before is not None:
            weight = self.reaction.weight
            own, new = (1000 - weight) * self.difference, weight * (self.delay - before)
            self.difference = (own + new) // 1000
            self.change(self.delay)

    def change(self, delay: int) -> None:
        """Change the rate by the delay and its gradient."""
        if delay >= self.reaction.low_ps and delay > self.reaction.high_ps:
            loss = Fraction(delay - self.reaction.high_ps, delay)
        elif delay >= self.reaction.low_ps and self.difference > 0:
            loss = Fraction(self.difference, self.reaction.least_ps)
        else:
            step = self.additive if self.increases < self.reaction.stages else self.hyper
            self.rate = min(self.rate + step, LINE)
            self.increases = min(self.increases + 1, 255)
            return
        slower = self.rate - int(self.rate * loss * self.reaction.beta / 1000)
        self.rate = min(max(slower, self.slowest), self.rate)
        self.increases = 0


class HpccControl(PacedControl):
    """HPCC: a rate that follows from the utilization of links, and a window that follows from the rate."""

    #: A utilization of 1 in the units of this class.
    one = 2**20

    def __init__(self, reaction: HpccReaction, pace: Fraction) -> None:
        super().__init__(pace)
        self.reaction = reaction
        self.additive = part(reaction.additive, pace, 2500)
        self.least = part(reaction.least, pace, 100)
        self.reference, self.stage, self.utilization = LINE, 0, self.one
        self.target = self.one * reaction.percent // 100
        self.hops: tuple[Hop, ...] = ()

    def eligible_at(self, now: int) -> int | None:
        """Return when the flow may send; `None` if its window is closed."""
        window = max(ceil(self.reaction.trip_ps / self.pace) * self.rate // LINE, 1)
        return super().eligible_at(now) if self.flight.bytes < window else None

    def busiest(self, hops: tuple[Hop, ...]) -> tuple[int, int] | None:
        """Return the utilization of the busiest hop, and the time in ps to which it applies.

        `None` if the telemetry cannot be compared with the last one.
        """
        if len(hops) != len(self.hops) or not hops:
            return None
        found = (0, 0)
        for old, new in zip(self.hops, hops, strict=True):
            tau, sent = new.time - old.time, new.sent - old.sent
            if tau <= 0 or sent < 0 or new.pace != old.pace:
                return None
            queue = min(old.queue, new.queue)
            used = int(sent * new.pace * self.one / tau) + int(
                queue * new.pace * self.one / self.reaction.trip_ps
            )
            if used > found[0]:
                found = used, tau
        return found

    def take_answer(self, answer: Answer) -> None:
        """Process an acknowledgement with telemetry."""
        found, self.hops = self.busiest(answer.hops), answer.hops
        is_round = self.flight.take(answer)
        if found is None:
            return
        trip, tau = self.reaction.trip_ps, min(found[1], self.reaction.trip_ps)
        self.utilization = (self.utilization * (trip - tau) + found[0] * tau) // trip
        is_additive = self.utilization < self.target and self.stage < self.reaction.most_stages
        kept = self.reference
        if not is_additive:
            kept = self.reference * self.target // max(self.utilization, 1)
        self.rate = min(max(kept + self.additive, self.least), LINE)
        if is_round:
            self.reference = self.rate
            self.stage = self.stage + 1 if is_additive else 0


class PccRttControl(PacedControl):
    """PCC by the round-trip time: a rate that follows from the delay of one packet of each round trip."""

    def __init__(self, reaction: PccRttReaction, pace: Fraction) -> None:
        super().__init__(pace)
        self.reaction = reaction
        self.additive = part(reaction.additive, pace, 20)
        self.slowest = part(reaction.slowest, pace, 2**14)
        #: The delays since the shortest delay was last discarded, except those that count as marks. `samples`
        #: is the number of samples since then.
        self.delays: list[int] = []
        self.samples = 0
        self.is_noted = False

    def take_answer(self, answer: Answer) -> None:
        """Process an acknowledgement. It is a sample if its packet was sent after the last sample."""
        self.is_noted = self.is_noted or answer.mark == "hot"
        if self.flight.take(answer):
            self.sample(answer.now - answer.sent_at)

    def sample(self, delay: int) -> None:
        """Change the rate by a mark, or by the difference between a delay and the shortest one."""
        self.samples += 1
        if self.samples == self.reaction.forget:
            self.delays, self.samples = [], 0
        if self.is_noted or delay >= self.reaction.longest_ps:
            self.is_noted = False
            self.shrink(2)
            return
        shortest = min([2 * 10**8, *self.delays])
        self.delays.append(delay)
        above = delay if delay < shortest else delay - shortest
        if above > self.reaction.allowed_ps:
            self.shrink(1)
        else:
            self.rate = min(self.rate + self.additive, LINE)

    def shrink(self, times: int) -> None:
        """Reduce the rate by `times` the decrease."""
        kept = self.rate * (1000 - times * self.reaction.decrease) // 1000
        self.rate = max(kept, self.slowest)


class PccTelemetryControl(PacedControl):
    """PCC by telemetry: a rate that follows from the queue and the use of one output, once per round trip."""

    def __init__(self, reaction: PccTelemetryReaction, pace: Fraction) -> None:
        super().__init__(pace)
        self.reaction = reaction
        self.additive = part(reaction.additive, pace, 2**20) * (1 if reaction.additive else 40)
        self.hyper = part(reaction.hyper, pace, 2**7)
        self.slowest = part(reaction.slowest, pace, 2**14)
        self.hops: tuple[Hop, ...] = ()

    def take_answer(self, answer: Answer) -> None:
        """Process an acknowledgement. It is the next sample if its packet was sent after the last sample."""
        if not self.flight.take(answer):
            return
        before, self.hops = self.hops, answer.hops
        if not answer.hops:
            return
        at = len(answer.hops) - 1
        if not self.reaction.is_last:
            at = max(range(at + 1), key=lambda place: (answer.hops[place].queue, -place))
        old = None
        if before and (self.reaction.is_last or len(before) == len(answer.hops)):
            old = before[-1 if self.reaction.is_last else at]
        if answer.hops[at].queue > self.reaction.queue:
            self.rate = max(self.rate * (1000 - self.reaction.decrease) // 1000, self.slowest)
        elif old is not None:
            self.rate = min(self.rate + self.step(old, answer.hops[at]), LINE)

    def step(self, old: Hop, new: Hop) -> int:
        """Return the increase of the rate, which is 0 if two samples of an output cannot be compared."""
        if new.time <= old.time or new.sent < old.sent or new.pace != old.pace:
            return 0
        used = (new.sent - old.sent) * new.pace / (new.time - old.time)
        return self.hyper if used < Fraction(self.reaction.busy, 1000) else self.additive


class SwiftControl(Control):
    """Swift: a window in packets, with a target of the delay."""

    #: A window of one packet in the units of this class.
    one = 2**16

    def __init__(self, reaction: SwiftReaction) -> None:
        super().__init__()
        self.reaction = reaction
        self.window = reaction.initial * self.one
        self.outstanding = self.started = self.delay = self.shrunk_at = 0

    def leaves(self, packet: Packet, now: int, end: int) -> None:
        """Record a packet in flight."""
        self.outstanding += 1
        self.started = now

    def root(self, window: int) -> int:
        """Return 1 / sqrt(window) in units of 2^-16."""
        return isqrt(2**48 // max(window, 1))

    def target(self, hops: int) -> int:
        """Return the target of the delay, in ps."""
        given = self.reaction
        low = self.root(given.scaling_to * self.one // 100)
        high = self.root(given.scaling_from * self.one // 100)
        slope = (given.range_ps << 16) // max(high - low, 1)
        above = max(self.root(self.window) - low, 0)
        return given.base_ps + given.hop_ps * hops + min(slope * above >> 16, given.range_ps)

    def take_answer(self, answer: Answer) -> None:
        """Process an acknowledgement."""
        is_used = 2 * self.outstanding * self.one >= self.window
        self.outstanding -= 1
        self.delay = delay = answer.now - answer.sent_at
        target = self.target(len(answer.hops) or self.reaction.hops)
        if delay < target:
            more = self.reaction.increase * self.one
            if self.window >= self.one:
                more = more * self.one // self.window
            self.window += more * is_used
        elif answer.now - self.shrunk_at >= delay:
            less = self.window * self.reaction.beta * (delay - target) // (100 * delay)
            self.window -= min(less, self.window * self.reaction.most_less // 100)
            self.shrunk_at = answer.now
        self.window = min(max(self.window, self.one // 1000), self.one << 15)

    def lose(self, loss: Loss) -> int:
        """Count a lost packet, and apply the largest decrease to the window once per window of data."""
        self.outstanding -= 1
        if loss.sent_at >= self.shrunk_at:
            less = self.window * self.reaction.most_less // 100
            self.window, self.shrunk_at = max(self.window - less, self.one // 1000), loss.now
        return 0

    def arrived(self, size: int) -> None:
        """Count a packet that is no longer in flight."""
        self.outstanding -= 1

    def eligible_at(self, now: int) -> int | None:
        """Return when the flow may send; `None` if its window is closed.

        If the window is less than a packet, only one packet is in flight at a time, and a pause follows.
        """
        if self.window >= self.one:
            return now if (self.outstanding + 1) * self.one <= self.window else None
        pause = self.delay * self.one // self.window
        return None if self.outstanding else max(now, self.started + pause)

    def strength(self, now: int) -> int:
        """Return by how many packets the window is smaller than the first one."""
        return max(self.reaction.initial * self.one - self.window, 0) // self.one


class NsccControl(FlightControl):
    """NSCC: a window that follows from marks and from the delay of queues.

    `window` is in units of 2^-16 bytes, and `mean` in units of 2^-16 ps.
    """

    def __init__(self, reaction: NsccReaction, pace: Fraction) -> None:
        super().__init__()
        self.reaction, self.pace, self.flight = reaction, pace, Flight()
        #: The bandwidth-delay product of the network relative to that of 12 us at 100 Gbit/s.
        self.scale = Fraction(ceil(reaction.trip_ps / pace), 150_000)
        self.least = reaction.trip_ps
        self.window = self.most()
        if reaction.first is not None:
            self.window = min(self.window, reaction.first << 16)
        self.mean = self.adjusted_at = self.received = self.short = 0
        self.pending = 0
        self.reduced_at: int | None = None
        self.is_fast = False
        self.interval_ends: int | None = None
        self.achieved = self.to_ignore = self.ignored = 0
        self.has_lost = False
        #: With the rules of the text: the delays since a time, and that time.
        self.delays: list[int] = []
        self.delays_from = 0

    def most(self) -> int:
        """Return the largest window."""
        return max(ceil(self.least / self.pace) * 3 // 2, self.reaction.full) << 16

    def bound(self) -> None:
        """Limit the window to its bounds."""
        self.window = min(max(self.window, self.reaction.full << 16), self.most())

    def leaves(self, packet: Packet, now: int, end: int) -> None:
        """Record a packet in flight."""
        self.flight.sent += packet.size

    def eligible_at(self, now: int) -> int | None:
        """Return `now` if the window has room for the next packet, and otherwise `None`."""
        size = self.reaction.full if self.reaction.is_text else self.next_size
        return now if self.flight.bytes + size <= self.window >> 16 else None

    def must_ask(self, size: int) -> bool:
        """Return whether the packet is the first, or leaves no room in the window for another of its size."""
        after = self.reaction.full if self.reaction.is_text else size
        return self.flight.sent == 0 or self.flight.bytes + size + after > self.window >> 16

    def adapts(self, now: int, delay: int, *, is_marked: bool) -> bool:
        """Apply quick adapt if it is due. Return whether it set the window, or makes a mark ignored."""
        if self.reaction.gate is None:
            return False
        if is_marked and self.ignored < self.to_ignore:
            return True
        if self.interval_ends is not None and now <= self.interval_ends:
            return False
        is_late = self.has_lost or (self.reaction.adapts_to_delay and delay > 4 * self.reaction.target_ps)
        is_late = is_late and self.interval_ends is not None
        is_done = is_late and self.achieved < self.most() >> 16 >> self.reaction.gate
        if is_done:
            self.has_lost = False
            self.window = max(self.achieved, self.reaction.full) << 16
            self.to_ignore, self.ignored = self.flight.bytes, 0
        self.achieved = 0
        self.interval_ends = now + self.least + self.reaction.target_ps
        return is_done

    def take_answer(self, answer: Answer) -> None:
        """Process an acknowledgement."""
        now, is_marked, target = answer.now, answer.mark == "hot", self.reaction.target_ps
        self.flight.take(answer)
        self.achieved += answer.size
        self.received += answer.size
        self.ignored += answer.size
        self.least = min(self.least, now - answer.sent_at)
        delay = now - answer.sent_at - self.least
        counted = self.least // 4 if delay > target and not is_marked else delay
        self.average(now, counted)
        if self.adapts(now, delay, is_marked=is_marked):
            self.pending = self.received = 0
            self.bound()
            return
        if is_marked and delay >= target:
            self.reduce(now)
        elif not is_marked and delay >= target:
            self.pending += int(5 * self.reaction.payload * self.scale * answer.size)
        elif not is_marked:
            self.increase(answer.size, delay)
        self.bound()
        self.adjust(now)
        self.bound()

    def lose(self, loss: Loss) -> int:
        """Reduce the window by a lost packet."""
        return self.lose_unless(loss, keeps=False)

    def lose_unless(self, loss: Loss, *, keeps: bool) -> int:
        """Reduce the window by a lost packet, unless quick adapt is in control or `keeps` is set."""
        if loss.is_answer:
            self.least = min(self.least, loss.now - loss.sent_at)
        self.ignored += loss.size
        self.average(loss.now, self.reaction.trip_ps)
        self.has_lost = True
        if self.adapts(loss.now, 0, is_marked=True):
            self.pending = self.received = 0
        elif not keeps:
            self.window -= loss.size << 16
        self.bound()
        self.flight.acknowledged += loss.size
        return 0

    def average(self, now: int, delay: int) -> None:
        """Add a delay to the mean: an exponential one or, by the text, that of the last round trip."""
        if not self.reaction.is_text:
            self.mean = (79 * self.mean + (delay << 16)) // 80
            return
        if now > self.delays_from + self.least:
            self.mean = sum(self.delays) // len(self.delays) << 16 if self.delays else 0
            self.delays, self.delays_from = [], now
        self.delays.append(delay)

    def increase(self, size: int, delay: int) -> None:
        """Increase the window: fast after a window of short delays, else by the distance to the target."""
        is_short = delay < 10**6
        self.short = self.short + size if is_short else 0
        self.is_fast = is_short and (self.is_fast or self.short > self.window >> 16)
        if self.is_fast:
            self.window += int((size << 16) * self.scale / 4)
        else:
            share = Fraction(self.reaction.target_ps - delay, 12 * 10**6)
            self.pending += int(4 * self.reaction.payload * self.scale * size * share)

    def reduce(self, now: int) -> None:
        """Reduce the window by the excess of the mean delay over the target, at most once per round trip."""
        self.is_fast, self.short = False, 0
        mean = self.mean >> 16
        is_due = self.reduced_at is None or now > self.reduced_at + self.least
        if mean > self.reaction.target_ps and is_due:
            less = self.window * 4 * (mean - self.reaction.target_ps) // (5 * mean)
            self.window -= min(less, self.window // 2)
            self.reduced_at = now

    def adjust(self, now: int) -> None:
        """Apply pending increases, if enough bytes were received or a round trip has passed."""
        since = now - self.adjusted_at
        if self.received <= 8 * self.reaction.full and since <= self.reaction.trip_ps:
            return
        self.window += (self.pending << 32) // self.window
        if since >= self.reaction.trip_ps:
            self.window += int((15 * self.reaction.payload << 16) * self.scale / 100)
            self.adjusted_at = now
        self.pending = self.received = 0

    def strength(self, now: int) -> int:
        """Return by how many packets the window is smaller than the largest one."""
        return min((max(self.most() - self.window, 0) >> 16) // self.reaction.full, 2**16 - 1)


#: The controls that depend on the rate of the link, by reaction.
WITH_PACE: dict[type, Callable[..., Control]] = {
    DcqcnReaction: DcqcnControl,
    TimelyReaction: TimelyControl,
    HpccReaction: HpccControl,
    NsccReaction: NsccControl,
    PccRttReaction: PccRttControl,
    PccTelemetryReaction: PccTelemetryControl,
}


def control(reaction: RdmaReaction, pace: Fraction) -> Control:
    """Return the control of a flow of a host. `pace` is that of the host's link."""
    if isinstance(reaction, DctcpReaction):
        return DctcpControl(reaction)
    if isinstance(reaction, SwiftReaction):
        return SwiftControl(reaction)
    return WITH_PACE[type(reaction)](reaction, pace)
