"""Credit that receivers grant (Ultra Ethernet's RCCC), at sources and at receivers."""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from verify.rdma import OversubscribedControl, RcccReaction
from verify.reference.rdma import LINE, NsccControl
from verify.reference.reactions import Answer, Control, Loss
from verify.reference.streams import Stream

if TYPE_CHECKING:
    from verify.reference.hosts import Flow, Host
    from verify.reference.links import Packet

#: Unit of grants, in bytes.
QUANTUM = 256


class RcccControl(Control):
    """Credit in bytes, which may be negative, and NSCC's window if there is one."""

    def __init__(self, reaction: RcccReaction, pace: Fraction) -> None:
        super().__init__()
        self.reaction = reaction
        self.limit = most(reaction, pace)
        self.credit = self.limit if reaction.speculative is None else min(reaction.speculative, self.limit)
        self.is_speculative = True
        self.granted = self.backlog = 0
        self.has_sent = False
        #: Whether the last data packet or a request informed the receiver of waiting bytes.
        self.has_asked = False
        self.window = NsccControl(reaction.nscc, pace) if reaction.nscc else None

    def wanted(self, size: int, flows: int = 1) -> int:
        """Return the target up to which the receiver should grant, in quanta, after a packet of this size.

        If the demand is divided among the flows that may send, the result is rounded up.
        """
        backlog, credit = self.backlog - size, self.credit - size
        wanted = min(backlog, self.limit)
        if self.window:
            wanted = min(wanted, (self.window.window >> 16) + self.reaction.full)
        wanted -= credit
        if self.is_speculative and backlog > 0:
            wanted = max(wanted, self.reaction.full)
        if self.reaction.is_divided:
            wanted = ceil(Fraction(wanted, flows))
        return max(self.granted - (-wanted // QUANTUM), 0)

    def must_ask(self, size: int) -> bool:
        """Return whether a packet of this size is the first one, or uses up the credit or the window."""
        is_last = self.credit - size <= 0
        return not self.has_sent or is_last or (self.window is not None and self.window.must_ask(size))

    def queued(self, size: int) -> int:
        """Add a message of this size on the wire, and return the target to request, or zero."""
        is_idle = self.backlog == 0
        self.backlog += size
        return self.ask() if is_idle and self.credit <= 0 else 0

    def ask(self) -> int:
        """Record a request, and return its target."""
        self.has_asked = True
        return self.wanted(0)

    def end_speculation(self) -> int:
        """End speculation, and return the target to request, or zero.

        The target is not zero if bytes wait and no packet has informed the receiver of them.
        """
        is_told = not self.is_speculative or self.has_asked
        self.stop_speculating()
        return self.ask() if self.backlog > 0 and not is_told else 0

    def stop_speculating(self) -> None:
        """Discard the remaining speculative credit."""
        if self.is_speculative:
            self.credit = min(self.credit, 0)
        self.is_speculative = False

    def leaves(self, packet: Packet, now: int, end: int) -> None:
        """Subtract a sent packet from the credit and the backlog."""
        super().leaves(packet, now, end)
        self.credit -= packet.size
        self.backlog -= packet.size
        self.has_sent = True
        self.has_asked = self.backlog > 0
        if self.window:
            self.window.leaves(packet, now, end)

    def take(self, granted: int) -> None:
        """Receive a grant, which ends speculation if an acknowledgement has not."""
        self.stop_speculating()
        more = max(granted - self.granted, 0)
        self.granted += more
        self.credit = min(self.credit + more * QUANTUM, self.limit)

    def missing_grant(self) -> int:
        """Return the target to request again if bytes wait for credit, or zero."""
        return max(self.wanted(0), 1) if self.backlog > 0 and self.credit <= 0 else 0

    def arrived(self, size: int) -> None:
        """Report to the window, if there is one, that a packet has arrived."""
        if self.window:
            self.window.arrived(size)

    def lose(self, loss: Loss) -> int:
        """Count a lost packet as waiting. Return the target to request; zero if none is needed."""
        had_some, had_credit = self.backlog > 0, self.credit > 0
        self.backlog += loss.size
        self.stop_speculating()
        if self.window:
            self.window.lose_unless(loss, keeps=loss.at_last)
        is_asked_for = self.credit > 0 or (had_some and not had_credit)
        return 0 if is_asked_for else self.ask()

    def take_answer(self, answer: Answer) -> None:
        """Report an acknowledgement to the window, if there is one."""
        if self.window:
            self.window.take_answer(answer)

    def eligible_at(self, now: int) -> int | None:
        """Return `now` if there is credit and the window has room for a packet, and otherwise `None`."""
        if self.credit <= 0:
            return None
        if self.window:
            self.window.next_size = self.next_size
            return self.window.eligible_at(now)
        return now

    def strength(self, now: int) -> int:
        """Return how many packets lack credit, or the shortage of the window in packets if this is larger."""
        missing = max(min(self.backlog, self.limit) - self.credit, 0) // self.reaction.full
        return max(min(missing, 2**16 - 1), self.window.strength(now) if self.window else 0)


def most(reaction: RcccReaction, pace: Fraction) -> int:
    """Return the maximum credit of a flow in bytes, for a link with this pace."""
    usual = ceil(reaction.trip_ps / pace) * 3 // 2
    packet = ceil(Fraction(reaction.full, QUANTUM)) * QUANTUM
    return min(max(usual if reaction.limit is None else reaction.limit, packet), 2**30)


class Slowdown:
    """The rate of grants in an oversubscribed network, in 2^-30 of the largest."""

    def __init__(self, rule: OversubscribedControl, seed: int, host: int) -> None:
        self.rule, self.random = rule, Stream(seed, "oversubscribed", host)
        self.rate, self.mean, self.steps = LINE, 0, 0
        self.marks: list[bool] = []
        #: For each trimmed packet, whether it was trimmed at the last output.
        self.losses: list[bool] = []
        self.ends_at = self.length()

    def length(self) -> int:
        """Draw the length of an interval in ps, from 0.75 to 1.25 of the mean."""
        part = self.rule.interval_ps // 2 * self.random.bits() // 2**32
        return self.rule.interval_ps // 4 * 3 + part

    def pass_time(self, now: int) -> None:
        """Change the rate at the end of each interval up to a time."""
        while self.ends_at <= now:
            marked = sum(self.marks)
            share = marked * LINE // len(self.marks) if self.marks else 0
            self.mean = (self.mean + share) // 2
            excess = self.mean - int(self.rule.target * LINE)
            before = self.losses.count(False)
            if before:
                self.rate = max(self.rate - before * LINE // (len(self.marks) + len(self.losses)), 0)
            if excess > 0:
                self.rate -= int(self.rate * excess // LINE * self.rule.decrease)
            if excess > 0 or before:
                self.steps = 0
            else:
                doubled = 0 if marked else min(self.steps, 12)
                self.rate += int(self.rule.increase * LINE) * 2**doubled
                self.steps += 1
            self.rate = min(max(self.rate, int(self.rule.least * LINE)), LINE)
            self.marks, self.losses = [], []
            self.ends_at += self.length()


class Granter:
    """The paced grants of a receiving host."""

    def __init__(self, host: Host, reaction: RcccReaction, pace: Fraction) -> None:
        self.host, self.reaction, self.pace = host, reaction, pace
        self.turn = max(reaction.payload * reaction.grant_packets // QUANTUM, 1)
        self.ahead = most(reaction, pace) // QUANTUM if reaction.is_idle_granted else 0
        self.targets: dict[Flow, int] = {}
        self.grants: dict[Flow, int] = {}
        #: Flows with demand, and flows whose demand was met, with the lanes of their packets.
        self.asking: deque[tuple[Flow, int]] = deque()
        self.met: deque[tuple[Flow, int]] = deque()
        self.free_at = 0
        plan, rule = host.net.plan, reaction.oversubscribed
        self.slowdown = Slowdown(rule, plan.seed, host.net.number[host.name]) if rule else None

    def count(self, packet: Packet) -> None:
        """Count a data packet and its mark for the rate of grants."""
        if self.slowdown:
            self.slowdown.pass_time(self.host.net.now)
            self.slowdown.marks.append(packet.fecn)

    def count_lost(self, header: Packet) -> None:
        """Count a packet whose payload was lost for the rate of grants."""
        if self.slowdown:
            self.slowdown.pass_time(self.host.net.now)
            self.slowdown.losses.append(header.at_last)

    def demand(self, flow: Flow) -> int:
        """Return the quanta by which the target of a flow exceeds its grants."""
        return self.targets.get(flow, 0) - self.grants.get(flow, 0)

    def asked(self, request: Packet) -> None:
        """Receive a request. If it is repeated and its flow has no demand, the last grant is repeated."""
        has_granted = self.note(request)
        if request.validated and self.demand(request.flow) <= 0 and not has_granted:
            self.say(request.flow, request.lane)

    def note(self, packet: Packet) -> bool:
        """Process the target of a packet, and return whether a grant to any flow follows."""
        flow = packet.flow
        if packet.target <= self.targets.get(flow, 0):
            return False
        self.targets[flow] = packet.target
        # A flow without demand gets grants while these exceed its target by less than the idle credit.
        is_asking = self.demand(flow) > 0
        queue = self.asking if is_asking else self.met
        is_due = is_asking or -self.demand(flow) < self.ahead
        if is_due and all(flow is not other for other, _ in queue):
            queue.append((flow, packet.lane))
            if self.free_at <= self.host.net.now:
                self.grant()
                return True
        return False

    def say(self, flow: Flow, lane: int) -> None:
        """Send a grant that states the total that a flow has been granted so far."""
        packet = self.host.control_packet(flow, flow.origin, lane, "grant")
        packet.target = self.grants.get(flow, 0)
        self.host.reply(packet)

    def grant(self) -> None:
        """Grant credit to the next flow, if there is one, and schedule the next grant."""
        if self.asking:
            flow, lane = self.asking.popleft()
            quanta = min(self.demand(flow), self.turn)
            self.grants[flow] = self.grants.get(flow, 0) + quanta
            if self.demand(flow) > 0:
                self.asking.append((flow, lane))
            elif self.ahead and all(flow is not met for met, _ in self.met):
                self.met.append((flow, lane))
        elif self.met:
            flow, lane = self.met.popleft()
            quanta = self.turn
            self.grants[flow] += quanta
            if -self.demand(flow) < self.ahead:
                self.met.append((flow, lane))
        else:
            return
        now = self.host.net.now
        span = ceil(quanta * QUANTUM * self.pace) * 100 // self.reaction.percent
        if self.slowdown:
            self.slowdown.pass_time(now)
            span = span * LINE // self.slowdown.rate
        self.free_at = now + span
        self.say(flow, lane)
        self.host.at_timer(self.free_at, self.expire)

    def expire(self) -> None:
        """Make the next grant, unless a grant was made at this instant."""
        if self.free_at <= self.host.net.now:
            self.grant()
