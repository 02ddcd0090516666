"""Ends the command without a traceback if Ctrl-C is pressed while its modules are imported.

`silvan/__init__.py` imports this module before the others. Importing numpy and other packages takes up to a
second, in which Python would report Ctrl-C by the traceback of an import. Other programs that import the
package are not affected.
"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

#: Names of the program that `pip` installs.
PROGRAMS = ("silvan", "silvan.exe")


def begin() -> None:
    """Let Ctrl-C end the process at once, if the process is the command `silvan`."""
    program = Path(sys.argv[0]).name if sys.argv else ""
    is_main = threading.current_thread() is threading.main_thread()
    # A shell lets background processes ignore Ctrl-C; that is kept.
    if program in PROGRAMS and is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def ends_at_ctrl_c() -> bool:
    """Return whether :func:`begin` has changed the effect of Ctrl-C."""
    return signal.getsignal(signal.SIGINT) == signal.SIG_DFL


begin()
