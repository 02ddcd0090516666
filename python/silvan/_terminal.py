"""Consoles and streams of the command.

Names come from untrusted files, such as a scenario, a fabric or a folder of results. A terminal interprets
control characters, and rich interprets markup and emoji codes. :class:`PlainConsole` shows emoji codes as
they are, and control characters and invisible characters as escapes. Its callers escape or disable markup.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from silvan import _starting

#: Exit status if the reader of the output has closed the pipe: 128 + SIGPIPE, as shells report it.
EXIT_PIPE = 141
#: Exit status after Ctrl-C and after SIGTERM: 128 + the number of the signal, as shells report it.
EXIT_STOPPED = 130
EXIT_TERMINATED = 143
#: Control characters except tab and newline, line and paragraph separators, characters that change the
#: direction of text, zero-width and invisible characters, and surrogates.
HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def clean(text: str) -> str:
    r"""Replace hidden characters by escapes.

    >>> clean("F1 \x1b[31m")
    'F1 \\x1b[31m'
    """
    return HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class PlainConsole(Console):
    """A console that shows hidden characters as escapes and emoji codes as they are."""

    def __init__(self, **options: Any) -> None:
        super().__init__(emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Clean a string before its width is measured."""
        return super().render_str(clean(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Clean the text of other renderables, except the control sequences of rich."""
        for segment in super().render(renderable, options):
            is_clean = segment.control or HIDDEN.search(segment.text) is None
            yield segment if is_clean else Segment(clean(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """Exit without a message if the process that read the output has exited."""
        self.quiet = True
        discard_output()
        raise SystemExit(EXIT_PIPE)


def prepare() -> None:
    """Make the standard streams usable.

    A closed stream is replaced by the null device, and characters that the encoding of a stream lacks are
    written as escapes.
    """
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - open until the end
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # Keep it open until the end of the process.
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


class _Termination:
    """Whether the process has received SIGTERM."""

    received = False


def is_terminated() -> bool:
    """Return whether SIGTERM has been received."""
    return _Termination.received


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    _Termination.received = True
    raise KeyboardInterrupt


def prepare_signals() -> None:
    """Make Ctrl-C and SIGTERM raise `KeyboardInterrupt`, unless the caller of the program ignores the signal.

    Batch systems and containers send SIGTERM some time before they kill a process. The command then does the
    same as after Ctrl-C.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if _starting.ends_at_ctrl_c():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def prepare_warnings() -> None:
    """Show a warning of Python or of a library as one clean line, without the place in its source."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        PlainConsole(stderr=True, soft_wrap=True).print(f"Warning: {message}", markup=False)

    warnings.showwarning = show


def discard_output() -> None:
    """Redirect standard output to the null device, so that Python does not report the closed pipe at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_pipe_closed() -> bool:
    """Return whether typer has ended the command because the process that read its output has exited.

    In this case, typer replaces `sys.stdout` and exits with status 1.
    """
    return type(sys.stdout).__name__ == "PacifyFlushWrapper"
