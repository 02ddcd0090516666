"""Stores the data that a run has sent to its viewers."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from silvan.results import Result

#: Maximum number of samples that a viewer receives, and approximate limit of their size in bytes. If a run
#: is longer or its network is large, the viewer receives every second sample, every third sample, and so on.
MOST_SAMPLES = 1000
MOST_BYTES = 100_000_000
#: Typical number of bytes of a sample as JSON, for each link, host and flow, and for the rest.
BYTES = {"links": 3, "hosts": 8, "flows": 8, "rest": 1500}

RUNNING, DONE, FAILED = "running", "done", "failed"


class Recording:
    """The network and the samples of a run, and its end. Any thread may read them.

    Pass an instance as `viewer` to :func:`silvan.run`.
    """

    def __init__(self) -> None:
        self.state = RUNNING
        #: The finished run.
        self.result: Result | None = None
        self._changed = threading.Condition()
        self._network: str | None = None
        self._samples: list[str] = []
        self._end: str | None = None
        self._began = time.monotonic()

    def network(self, text: str) -> int:
        """Store the network of the run (JSON); return n to receive every n-th sample."""
        network: dict[str, Any] = json.loads(text)
        every = _every(network)
        network["interval_ns"] *= every
        with self._changed:
            self._network = json.dumps(network, ensure_ascii=False)
            self._samples.clear()
            self._began = time.monotonic()
            self._changed.notify_all()
        return every

    def sample(self, text: str) -> None:
        """Store a sample (JSON)."""
        with self._changed:
            self._samples.append(text)
            self._changed.notify_all()

    def finish(self, result: Result) -> None:
        """Notify viewers that the run has ended; send its account, its warnings and its roots."""
        self.result = result
        # Imported here, because `silvan.report` imports numpy, which is slow.
        from silvan.report import _roots

        told = {"account": result.account, "warnings": result.warnings, "roots": list(_roots.of([result]))}
        self._close(DONE, told)

    def fail(self, message: str) -> None:
        """Notify viewers that the run has failed, with the reason."""
        self._close(FAILED, {"error": message})

    def _close(self, state: str, what: dict[str, Any]) -> None:
        with self._changed:
            wall_s = time.monotonic() - self._began
            self._end = json.dumps({"state": state, "wall_s": wall_s, **what}, ensure_ascii=False)
            self.state = state
            self._changed.notify_all()

    def wait(self, count: int, timeout_s: float) -> None:
        """Wait until there are more than `count` samples or the run has ended, or until the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._samples) > count or self._end is not None, timeout_s)

    def news(self, count: int) -> tuple[str | None, Sequence[str], str | None]:
        """Return the network, the samples after the first `count`, and the end of the run, as JSON."""
        with self._changed:
            return self._network, self._samples[count:], self._end

    def wall_s(self) -> float:
        """Return the wall-clock time since the start of the run, in seconds."""
        return time.monotonic() - self._began


def _every(network: dict[str, Any]) -> int:
    samples: float = network["duration_ns"] / network["interval_ns"]
    size: int = BYTES["rest"] + sum(
        BYTES[key] * (len(network[key]) if key == "links" else network[key])
        for key in ("links", "hosts", "flows")
    )
    return max(1, math.ceil(samples / MOST_SAMPLES), math.ceil(samples * size / MOST_BYTES))


__all__ = ["DONE", "FAILED", "RUNNING", "Recording"]
