"""Starts the command `silvan` in a small fraction of the time that Python takes to import it.

A server imports Silvan once, and forks for each command, so each command is still a process with its own
arguments, environment, folder and standard streams, as a user would start it. Tests of starting and stopping
themselves (`test_terminal.py`, Ctrl-C in `test_cli.py`) start Python instead.

    python starter.py serve SOCKET             serve until the standard input ends
    python -I -S starter.py ask SOCKET ARG...  run `silvan ARG...` through the server
"""

# The client needs few modules, so it starts in milliseconds. The server imports others where it uses them.
import os
import socket
import sys

#: At most this many bytes of arguments and environment.
MOST = 1 << 20


def ask(address: str, arguments: list[str]) -> int:
    """Run a command with the streams, folder and environment of this process; return its exit status."""
    words = [
        os.getcwd(),  # noqa: PTH109 - pathlib is slow to import
        str(len(arguments)),
        *arguments,
        *(f"{k}={v}" for k, v in os.environ.items()),
    ]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.connect(address)
        socket.send_fds(server, ["\0".join(words).encode("utf-8", "surrogateescape")], [0, 1, 2])
        answer = server.recv(16)
    return int(answer) if answer else 70


def serve(address: str) -> None:
    """Import Silvan, print "ready", and run commands until the standard input ends."""
    import select

    prepare()
    running = 0
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(address)
        server.listen(64)
        print("ready", flush=True)
        while 0 not in select.select([server, 0], [], [])[0]:
            client, _ = server.accept()
            if os.fork() == 0:
                server.close()
                answer(client)
            client.close()
            running += 1
            # The processor time of commands counts as that of the server, and so as that of the tests.
            while running and os.waitpid(-1, os.WNOHANG)[0]:
                running -= 1


def answer(client: socket.socket) -> None:
    """Run the command of a client in a separate process, send the exit status, and end this process."""
    data, streams, _, _ = socket.recv_fds(client, MOST, 3)
    process = os.fork()
    if process == 0:
        client.close()
        for stream, number in enumerate(streams):
            os.dup2(number, stream)
        os.closerange(3, max(streams) + 1)
        run(data.decode("utf-8", "surrogateescape").split("\0"))
    _, status = os.waitpid(process, 0)
    code = os.waitstatus_to_exitcode(status)
    client.send(str(code if code >= 0 else 128 - code).encode())
    os._exit(0)


def run(words: list[str]) -> None:
    """Run the command in this process, and end the process."""
    import atexit
    import threading
    import traceback

    from silvan import cli

    folder, count, *rest = words
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(word.split("=", 1) for word in rest[int(count) :])
    sys.argv = ["silvan", *rest[: int(count)]]
    # The standard streams of the server may be files of another kind.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - open until the end
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, errors="backslashreplace", buffering=1)  # noqa: SIM115
    status = 0
    try:
        cli.main()
    except SystemExit as ended:
        status = end(ended)
    except BaseException:
        traceback.print_exc()
        status = 1
    # To end as usual, Python would release all objects of the server, and so copy most of its memory.
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


def end(ended: SystemExit) -> int:
    """Return the status with which Python would end, after a message if there is one."""
    if ended.code is None or isinstance(ended.code, int):
        return ended.code or 0
    print(ended.code, file=sys.stderr)
    return 1


def prepare() -> None:
    """Import what commands use."""
    import contextlib
    import gc
    import io

    import silvan.fabric.examples
    import silvan.fabric.studies.study
    import silvan.forest_figures
    import silvan.papers.causes
    import silvan.papers.runner
    import silvan.report
    import silvan.sweeps.driver
    import silvan.sweeps.figures  # noqa: F401 - all of them are only imported
    from silvan import cli

    # `--version` imports all commands. The arguments of `check` make typer import what converts arguments.
    for words in (["--version"], ["check", "testbed"]):
        sys.argv = ["silvan", *words]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            cli.main()
    # Collections of garbage in commands need not visit, and so copy, what the server has imported.
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        sys.exit(ask(sys.argv[2], sys.argv[3:]))
    serve(sys.argv[2])
