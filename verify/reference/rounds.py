"""The input that an output serves next, if inputs may be busy or lack credit for one destination only.

Inputs that were not served in the current round come first. A round ends when all waiting inputs have been
served. While the inputs in turn are busy with another output, the others take turns, which count for the next
round, and the time given away is added up. The output stays idle for a busy input only if that input becomes
free within a limit. The limit is a sixteenth of the time given away, divided by the number of the other
requesting inputs, plus half of the time for which the output was idle between the packets of the round,
without waits for inputs. An output never waits for first-in first-out inputs.
"""

from __future__ import annotations

from collections.abc import Iterable

PATIENCE = 16


def first_from(inputs: Iterable[int], start: int) -> int | None:
    """Return the first input in cyclic order from `start` on; `None` if there are none."""
    return min(inputs, key=lambda port: (port < start, port), default=None)


class Round:
    """The round of one output and lane."""

    def __init__(self, *, is_patient: bool) -> None:
        self.is_patient = is_patient
        self.next_out = 0
        self.begin(set())

    def begin(self, served: set[int]) -> None:
        """Begin a round in which some inputs count as served already."""
        self.served, self.ahead = served, set[int]()
        self.given_away = self.idle = 0
        #: The time at which the last packet of the round has left, and the time since which the output waits
        #: for an input.
        self.free_at: int | None = None
        self.waits_since: int | None = None

    def gap(self, now: int) -> int:
        """Return the time for which the output has been idle, without waits for inputs."""
        until = now if self.waits_since is None else self.waits_since
        return 0 if self.free_at is None else max(until - self.free_at, 0)

    def choice(self, asking: set[int], aside: set[int], busy: dict[int, int], now: int) -> set[int]:
        """Return the inputs that may be served now, and none if the output must wait.

        `busy` has the times at which busy inputs become free. If all inputs have been served, a new round
        begins.
        """
        for _ in range(2):
            if not (asking | aside) - self.served:
                self.begin(self.ahead)
        in_turn = asking - self.served
        free = asking - set(busy)
        if in_turn & free:
            return in_turn & free
        patience = (self.idle + self.gap(now)) // 2 + self.given_away // (PATIENCE * max(len(asking) - 1, 1))
        if self.is_patient and any(busy[port] - now <= patience for port in in_turn):
            self.waits_since = now if self.waits_since is None else self.waits_since
            return set()
        rest = (free - self.ahead) or free
        if not in_turn or not rest:
            return rest
        chosen = first_from(rest, self.next_out)
        return set() if chosen is None else {chosen}

    def serve(self, port: int, now: int, end: int) -> None:
        """Record that an input is served from `now` to `end`."""
        self.idle += self.gap(now)
        self.free_at, self.waits_since = end, None
        if port not in self.served:
            self.served.add(port)
        elif end > now:
            self.ahead.add(port)
            self.next_out = port + 1
            self.given_away += end - now
