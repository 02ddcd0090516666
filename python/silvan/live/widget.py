"""Shows a run in a notebook while it progresses."""

from __future__ import annotations

import json
import time
from importlib import resources
from typing import TYPE_CHECKING, Any

from silvan import scenarios
from silvan._core import Scenario
from silvan.live import page
from silvan.live.recording import Recording
from silvan.results import of_keywords, run

if TYPE_CHECKING:
    from os import PathLike

    from silvan.results import Result

#: Maximum number of parts in which a widget sends new data. The notebook stores all parts, so a page that
#: opens late or again receives all of them. The time between parts increases, so that they suffice for about
#: three hours.
PARTS = 64
FIRST_S = 0.25
GROWTH = 1.15


def watch(scenario: Scenario | str | PathLike[str], *, height: int = 900, **overrides: object) -> Result:
    """Run a scenario in a notebook, and show its network and charts while it progresses.

    The result equals that of :func:`silvan.run`. Requires anywidget: ``pip install 'silvan[notebook]'``.

    Args:
        scenario: A scenario, its file, or the name of one that comes with Silvan.
        height: Height of the display in pixels.
        overrides: Values of the scenario, as those of :func:`silvan.run`.

    Raises:
        RuntimeError: outside of a notebook, or without anywidget.
        ScenarioError, ModelError, KeyboardInterrupt: as :func:`silvan.run`.

    """
    widget_class = _widget_class()
    from IPython import display

    if not isinstance(scenario, Scenario):
        scenario = scenarios.load(scenario)
    if overrides:
        scenario = scenario.with_overrides(of_keywords(overrides))
    widget = widget_class(page=page.html(scenario.name, page.MESSAGES), height=height)
    show: Any = display.display
    show(widget)
    sender = _Sender(widget)
    try:
        result = run(scenario, progress=sender.send, viewer=sender.recording)
    except BaseException as error:
        sender.recording.fail(str(error) or "The run was stopped.")
        raise
    else:
        sender.recording.finish(result)
    finally:
        sender.send(is_last=True)
    return result


def _widget_class() -> Any:
    try:
        import anywidget
        import traitlets
        from IPython.core.getipython import get_ipython
    except ImportError as error:
        raise RuntimeError(
            "silvan.watch needs a notebook and anywidget: pip install 'silvan[notebook]'. "
            "On the command line, use `silvan run --watch`."
        ) from error
    if get_ipython() is None:
        raise RuntimeError(
            "silvan.watch needs a notebook, such as JupyterLab. "
            "On the command line, use `silvan run --watch`."
        )
    traits: dict[str, Any] = {f"part_{at}": traitlets.Unicode("").tag(sync=True) for at in range(PARTS)}
    traits |= {
        "_esm": resources.files("silvan.live").joinpath("widget.js").read_text(encoding="utf-8"),
        "page": traitlets.Unicode("").tag(sync=True),
        "height": traitlets.Int(900).tag(sync=True),
        "count": traitlets.Int(0).tag(sync=True),
    }
    return type("Run", (anywidget.AnyWidget,), traits)


class _Sender:
    """Sends new data of a recording to a widget."""

    def __init__(self, widget: Any) -> None:
        self.recording = Recording()
        self._widget = widget
        self._samples = 0
        self._has_network = False
        self._due = time.monotonic()
        self._pause_s = FIRST_S

    def send(self, *_progress: int, is_last: bool = False) -> None:
        """Send new data if a part is due and available, or if `is_last` is true."""
        count = self._widget.count
        now = time.monotonic()
        if not is_last and (now < self._due or count >= PARTS - 1):
            return
        network, samples, end = self.recording.news(self._samples)
        events: list[str] = []
        if network is not None and not self._has_network:
            events.append(f'["network",{network}]')
            self._has_network = True
        if samples:
            events.append(f'["pulse",{json.dumps({"wall_s": self.recording.wall_s()})}]')
            events.append(f'["samples",[{",".join(samples)}]]')
        if end is not None:
            events.append(f'["end",{end}]')
        if not events:
            return
        self._samples += len(samples)
        setattr(self._widget, f"part_{count}", f"[{','.join(events)}]")
        self._widget.count = count + 1
        self._due = now + self._pause_s
        self._pause_s *= GROWTH


__all__ = ["watch"]
