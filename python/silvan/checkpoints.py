"""Checkpoints: files from which a run can be continued."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike, fspath

from silvan._core import Scenario, checkpoint_scenario


class Checkpoints:
    """Where and when :func:`silvan.run` saves a run.

    ``silvan.run(resume=path)`` continues the run. The results are the same as without an interruption.
    """

    #: The file. It is replaced only when a new checkpoint is complete.
    path: str
    #: Simulated time between checkpoints, such as ``"10 ms"``; None for no checkpoints before Ctrl-C.
    every: str | None
    #: Simulated time of the last checkpoint in ns; None if there is none.
    saved_ns: int | None

    def __init__(
        self,
        path: str | PathLike[str],
        every: str | None = None,
        *,
        ask: Callable[[], bool] | None = None,
    ) -> None:
        """Set where and when to save a run.

        Args:
            path: The file.
            every: Simulated time between checkpoints, such as ``"10 ms"``. By default, the run is saved only
                after Ctrl-C.
            ask: Called after Ctrl-C; the run is saved if it returns true. By default, the run is saved.

        """
        self.path = fspath(path)
        self.every = every
        self.saved_ns = None
        self._ask = ask

    def interrupted(self) -> bool:
        """Return whether to save the run after Ctrl-C."""
        return self._ask is None or self._ask()

    def saved(self, now_ns: int) -> None:
        """Record the simulated time of a checkpoint, in ns."""
        self.saved_ns = now_ns


def scenario(path: str | PathLike[str]) -> Scenario:
    """Return the scenario of a checkpoint; raises :class:`silvan.ScenarioError` for an unreadable file."""
    return checkpoint_scenario(path)
