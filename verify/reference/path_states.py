"""The states of the entropy values of a flow: in use, spare, or bad until a probe is answered."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from verify.reading import Ecmp
    from verify.reference.hosts import Flow, Host


class PathStates:
    """The entropy values of one flow. Each place of the round has a value, or none."""

    def __init__(self, host: Host, flow: Flow, rule: Ecmp) -> None:
        self.host, self.flow, self.rule = host, flow, rule
        self.places: list[int | None] = list(range(rule.values))
        self.spares = deque(range(rule.values, rule.values + rule.spares))
        self.empty: list[int] = []
        #: Values that packets pass over once, values that lost packets, and those of them that have a probe.
        self.skipped: set[int] = set()
        self.bad: set[int] = set()
        self.probed: set[int] = set()
        #: Values whose probes wait for the next packet of the flow.
        self.waiting: list[int] = []

    def next(self, turn: Callable[[], int]) -> int:
        """Select the next value that is not skipped. The first one passed over is skipped no more."""
        passed: int | None = None
        for _ in 2 * self.places:
            value = self.places[turn()]
            if value is None:
                continue
            if value not in self.skipped:
                break
            if passed is None:
                passed = value
                self.skipped.remove(value)
        else:
            assert passed is not None
            value = passed
        for one in self.waiting:
            self.probe_later(one)
        self.waiting.clear()
        return value

    def pass_over(self, value: int) -> None:
        """Let the next packet that would take a value pass over it."""
        if value in self.places:
            self.skipped.add(value)

    def lose(self, value: int) -> None:
        """Take a value out of use, and replace it by a spare, if enough values stay in use."""
        if value not in self.places:
            return
        in_use = len(self.places) - len(self.empty)
        if not self.spares and in_use <= self.rule.least_active:
            self.skipped.add(value)
            return
        place = self.places.index(value)
        self.skipped.discard(value)
        self.bad.add(value)
        self.host.net.retired += 1
        self.places[place] = self.spares.popleft() if self.spares else None
        if self.places[place] is None:
            self.empty.append(place)
        if value not in self.probed:
            self.probed.add(value)
            self.probe_later(value)

    def probe_later(self, value: int, unanswered: int = 0) -> None:
        """Probe a value after the interval, which doubles up to five times without an answer.

        Probes follow the timers of this instant.
        """
        net = self.host.net
        wait = self.rule.probe_ps << min(unanswered, 5)
        net.at(net.now + wait, lambda: self.probe(value, unanswered), rank=(4, 1))

    def probe(self, value: int, unanswered: int) -> None:
        """Send a probe, if the value is still bad and the flow has packets that were not acknowledged."""
        host, flow = self.host, self.flow
        if host.is_stopped:
            return
        if value not in self.bad:
            self.probed.discard(value)
            return
        assert host.recovery
        if not host.recovery.sent.get(flow):
            self.waiting.append(value)
            return
        if not host.is_cut_off:
            probe = host.control_packet(flow, flow.destination, flow.lane, "path-probe")
            probe.entropy = value
            host.reply(probe)
            host.net.path_probes += 1
        self.probe_later(value, unanswered + 1)

    def take_answer(self, value: int, *, is_marked: bool) -> None:
        """Use a bad value again after the answer to its probe, or make it a spare."""
        if value not in self.bad:
            return
        self.bad.remove(value)
        self.host.net.restored += 1
        if not self.empty:
            self.spares.append(value)
            return
        self.places[self.empty.pop()] = value
        if is_marked:
            self.skipped.add(value)
