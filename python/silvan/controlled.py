"""A run that a program controls: it sends messages, and its functions are called when they arrive.

:class:`ControlledRun` has the functions of the C library; docs/library.md describes both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from os import PathLike

from silvan import _tables, scenarios
from silvan._core import Controlled, Scenario
from silvan.results import Result, add_notes, of_keywords, of_run

Callback = Callable[[], object]


class ControlledRun:
    """A run that the caller controls.

    >>> run = silvan.ControlledRun("network.toml")  # doctest: +SKIP
    >>> run.send(0, 1, 4096, delivered=lambda: print(run.now_ps))  # doctest: +SKIP
    >>> run.run()  # doctest: +SKIP

    The first argument is a scenario file, a scenario that comes with Silvan, or a :class:`silvan.Scenario`
    with the key ``external``. If nothing in a file sends, the caller may send. Overrides are like those of
    :func:`silvan.run`.

    Times are in picoseconds, and hosts have numbers from 0. Functions are called only by :meth:`run`, in the
    order of time, and at one time in the order in which they were given. They may use all methods except
    :meth:`run` and :meth:`finish`. Invalid arguments raise `ValueError`. Raises
    :class:`silvan.ScenarioError` if the scenario is invalid.
    """

    def __init__(self, scenario: str | PathLike[str] | Scenario, **overrides: object) -> None:
        given = of_keywords(overrides)
        if isinstance(scenario, Scenario):
            self._scenario = scenario.with_overrides(given) if given else scenario
        else:
            self._scenario = Scenario.load_controlled(scenario, given)
        self._file, self._given = scenario, given
        self._started = time.time()
        self._run = Controlled(self._scenario)
        self._is_running = False

    @property
    def hosts(self) -> int:
        """Number of hosts."""
        return self._run.hosts

    @property
    def now_ps(self) -> int:
        """Simulated time, ps."""
        return self._run.now_ps

    @property
    def next_ps(self) -> int | None:
        """A time before which no function is called, ps; None if none will be called."""
        return self._run.next_ps

    def bandwidth_gbit_s(self, host: int) -> float:
        """Return the current rate of the link on which a host sends, Gbit/s."""
        return self._run.bandwidth_gbit_s(host)

    def quantity(self, name: str, host: int = 0) -> float:
        """Return a quantity of the run by name.

        These are "events", "packet_hops", "pending_messages" and "pending_receives", and of a host
        "unsent_bytes", "sent_bytes" and "received_bytes".
        """
        return self._run.quantity(name, host)

    def send(
        self,
        src: int,
        dst: int,
        size: int,
        *,
        tag: int = 0,
        sl: int = 0,
        sent: Callback | None = None,
        delivered: Callback | None = None,
    ) -> None:
        """Send a message of `size` bytes now.

        `sent` is called when its last byte has left the host, and `delivered` when the other host has drained
        it. `sl` is the service level.
        """
        self._run.send(src, dst, size, tag, sl, None, sent, delivered)

    def try_send(
        self,
        src: int,
        dst: int,
        size: int,
        room: int,
        *,
        tag: int = 0,
        sl: int = 0,
        sent: Callback | None = None,
        delivered: Callback | None = None,
    ) -> bool:
        """Send a message if, with it, at most `room` bytes of messages of the host have not left completely.

        Returns whether the message was sent. If no other message waits, it is always sent.
        """
        return self._run.send(src, dst, size, tag, sl, room, sent, delivered)

    def recv(self, dst: int, src: int, size: int, arrived: Callback, *, tag: int = 0) -> None:
        """Call `arrived` when `size` bytes have arrived at `dst` from `src` with this tag.

        Receives match bytes, not messages; see docs/library.md.
        """
        self._run.recv(dst, src, size, tag, arrived)

    def at(self, time_ps: int, function: Callback) -> None:
        """Call a function at a time, which must not have passed."""
        self._run.at(time_ps, function)

    def stop(self) -> None:
        """Have :meth:`run` return after the function that calls this method."""
        if self._is_running:
            self._run.stop()

    def run(self, until_ps: int | None = None) -> None:
        """Simulate, and call functions, up to a time, inclusive.

        Without a time, until nothing is left that could cause a call. If the caller may not send, the run
        then continues to the duration of the scenario.

        Raises :class:`silvan.ModelError` if messages will never arrive, or if the run reaches its duration.
        """
        if self._is_running:
            raise ValueError("a function that the run calls must not call run()")
        self._is_running = True
        try:
            while (call := self._run.next_call(until_ps)) is not None:
                call()
        finally:
            self._is_running = False

    def finish(self) -> Result:
        """End the run, and return its results."""
        if self._is_running:
            raise ValueError("a function that the run calls must not call finish()")
        is_own = not self._run.may_send
        done = self._run.finish()
        columns = {name: _tables.of_run(done.table(name)) for name in done.table_names}
        result = of_run(self._scenario, self._started, done, columns)
        if is_own:
            # As in `silvan.run`. The messages of a program have no steady state.
            add_notes(result, self._as_run())
        return result

    def _as_run(self) -> Scenario:
        """Return the scenario as `silvan.run` reads it, without values that the mechanism has set."""
        if isinstance(self._file, Scenario):
            return self._scenario
        return scenarios.load(self._file, self._given)
