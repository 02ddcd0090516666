"""Entropy values of a host's packets, and how answers change their selection."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from verify.mixing import drawn
from verify.reading import Ecmp
from verify.reference.path_states import PathStates
from verify.reference.streams import Stream

if TYPE_CHECKING:
    from verify.reference.hosts import Flow, Host
    from verify.reference.links import Packet

#: Maximum number of entropy values that REPS stores for a flow, and of pending skips of an entropy value.
KEPT, MOST_DUE = 8, 15


@dataclass
class Path:
    """The state of a flow: the round over all entropy values, pending skips, and values to use again."""

    flip: int
    step: int = 0
    due: dict[int, int] = field(default_factory=dict)
    again: deque[int] = field(default_factory=deque)
    states: PathStates | None = None

    @property
    def value(self) -> int:
        """The value that is next in the round."""
        return self.step ^ self.flip


class Sprayer:
    """Selects the entropy values of one host's packets."""

    def __init__(self, host: Host, rule: Ecmp) -> None:
        self.rule, self.host = rule, host
        net = host.net
        self.random = Stream(net.plan.seed, "entropy", net.number[host.name])
        self.paths: dict[Flow, Path] = {}

    def path(self, flow: Flow) -> Path:
        """Return the state of a flow."""
        if flow not in self.paths:
            path = self.paths[flow] = Path(self.random.below(self.rule.values))
            if self.rule.spraying == "path-states":
                path.states = PathStates(self.host, flow, self.rule)
        return self.paths[flow]

    def next(self, flow: Flow) -> int:
        """Select the entropy value of the next packet of a flow."""
        path = self.path(flow)
        kind = self.rule.spraying
        if path.states:
            return path.states.next(lambda: self.place(path))
        if kind in ("reps", "mixed") and path.again:
            return path.again.popleft()
        if kind in ("reps", "random"):
            return self.random.below(self.rule.values)
        return self.in_turn(path)

    def of_control(self, packet: Packet) -> int:
        """Select the value of a control packet that answers no packet.

        Its flow determines the value if values are positions of ports.
        """
        if not (self.rule.by_digit or self.rule.by_lid):
            return 0
        numbers = self.host.net.number
        words = (numbers[self.host.name], numbers[packet.destination], packet.flow.source.number)
        return drawn(words) % self.rule.values

    def in_turn(self, path: Path) -> int:
        """Return the next value of the round without a pending skip, and advance the round.

        Of the values that are skipped, only the first uses up one of its skips.
        """
        if path.due.get(path.value, 0):
            path.due[path.value] -= 1
            tries = 0
            self.turn(path)
            while path.due.get(path.value, 0) and tries < self.rule.values - 1:
                self.turn(path)
                tries += 1
        value = path.value
        self.turn(path)
        return value

    def place(self, path: Path) -> int:
        """Return the current place of the round, and advance the round."""
        place = path.value
        self.turn(path)
        return place

    def turn(self, path: Path) -> None:
        """Advance the round. Each round has a random order."""
        path.step += 1
        if path.step == self.rule.values:
            path.step, path.flip = 0, self.random.below(self.rule.values)

    def lose(self, flow: Flow, value: int) -> None:
        """Process the loss of a packet that no switch reported."""
        if self.rule.spraying == "path-states":
            states = self.path(flow).states
            assert states
            states.lose(value)
        else:
            self.take_answer(flow, value, is_marked=True, skips=4)

    def take_answer(self, flow: Flow, value: int, *, is_marked: bool, skips: int = 1) -> None:
        """Process the answer to a packet with an entropy value: add skips, or store the value for reuse."""
        kind = self.rule.spraying
        if kind in ("oblivious", "random"):
            return
        path = self.path(flow)
        if path.states:
            if is_marked:
                path.states.pass_over(value)
            return
        if is_marked and kind != "reps":
            path.due[value] = min(path.due.get(value, 0) + skips, MOST_DUE)
        if not is_marked and kind != "bitmap":
            path.again.append(value)
            if kind == "reps" and len(path.again) > KEPT:
                path.again.popleft()
