"""Progress of a run on the terminal."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

#: Delay in seconds before a progress bar appears.
PATIENCE_S = 1.0


def simulated(ns: float) -> str:
    """Format a simulated time with a suitable unit, such as "1.25 ms"."""
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if ns >= size:
            return f"{ns / size:.4g} {unit}"
    return f"{ns:.4g} ns"


def count(number: float) -> str:
    """Format a count with an SI prefix, such as "12.3 M"."""
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g} {prefix}"
    return f"{number:.3g} "


class _Simulated(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{simulated(task.completed)} of {simulated(task.total or 0)}")


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{count(task.fields['rate'])}events/s")


class RunProgress:
    """A progress bar with the simulated time, the event rate and the remaining time.

    Pass an instance as `progress` to :func:`silvan.run`. The bar appears only if `show` is set, and only
    after the run has lasted one second. The instance stores the latest simulated time in any case.
    """

    def __init__(self, console: Console, title: str, *, show: bool) -> None:
        self.now_ns = 0
        self.end_ns = 0
        self._console = console
        self._title = title
        self._show = show
        self._bar: Progress | None = None
        self._started = time.monotonic()
        self._last = (self._started, 0)

    def __call__(self, now_ns: int, end_ns: int, events: int) -> None:
        self.now_ns, self.end_ns = now_ns, end_ns
        at = time.monotonic()
        if not self._show or at - self._started < PATIENCE_S:
            return
        before, events_before = self._last
        rate = (events - events_before) / max(at - before, 1e-3)
        self._last = (at, events)
        if self._bar is None:
            self._bar = self._start(rate)
        self._bar.update(self._bar.task_ids[0], completed=now_ns, total=end_ns, rate=rate)

    def _start(self, rate: float) -> Progress:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            _Simulated(),
            _Rate(),
            TimeRemainingColumn(),
        )
        bar = Progress(*columns, console=self._console, transient=True)
        bar.add_task(self._title, total=self.end_ns, rate=rate)
        bar.start()
        return bar

    def stop(self) -> None:
        """Remove the bar if it is shown."""
        if self._bar is not None:
            self._bar.stop()

    def __enter__(self) -> RunProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
