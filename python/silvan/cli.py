"""Entry point of the command `silvan`; :mod:`silvan.commands` contains its subcommands.

Exit status: 0 success, 1 error (with a message on stderr), 2 wrong usage, 3 the routes of a fabric or a
scenario can deadlock, 130 interrupted with Ctrl-C, 141 the process that read the output has exited, 143
interrupted with SIGTERM.
"""

from __future__ import annotations

import sys

import typer

from silvan import _files, _hints, _terminal, commands
from silvan._core import SilvanError
from silvan.commands import common, completion


def application(command: str | None = None) -> typer.Typer:
    """Return the application with all commands, or only with `command` if there is such a command."""
    app = typer.Typer(
        help=(
            "Simulate congestion in lossless interconnection networks, and how congestion control reduces it."
        ),
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    commands.register(app, command)
    return app


def main() -> None:
    """Run the command. A `SilvanError` or `OSError` becomes a message and an exit status, not a traceback."""
    _terminal.prepare()
    _terminal.prepare_signals()
    _terminal.prepare_warnings()
    completion.prepare()
    try:
        application(*sys.argv[1:2])()
    except SystemExit as end:
        if _terminal.is_pipe_closed():
            sys.exit(_terminal.EXIT_PIPE)
        if _terminal.is_terminated() and end.code == _terminal.EXIT_STOPPED:
            sys.exit(_terminal.EXIT_TERMINATED)
        raise
    except KeyboardInterrupt:
        sys.exit(_terminal.EXIT_TERMINATED if _terminal.is_terminated() else _terminal.EXIT_STOPPED)
    except SilvanError as error:
        _exit(_hints.of_message(str(error)))
    except OSError as error:
        name = _files.place(error)
        where = f"{name}: " if name else ""
        _exit(where + (error.strerror or str(error)))


def _exit(message: str) -> None:
    common.complain(message)
    sys.exit(common.EXIT_FAILED)


if __name__ == "__main__":
    main()
