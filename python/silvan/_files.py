"""Reads only regular files, and writes a file completely or not at all."""

from __future__ import annotations

import errno
import glob
import json
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # missing on some systems; see `locked`
    fcntl = None  # type: ignore[assignment]

#: Age in seconds at which a partial file counts as abandoned on a file system without locks.
STALE_S = 24 * 3600.0


def plain(path: Path) -> Path:
    """Return `path` if it leads to a regular file; raise `OSError` with the file's name otherwise.

    Call this before opening a file: opening a FIFO blocks, and a device such as /dev/zero has no end.
    """
    try:
        mode = path.stat().st_mode
    except ValueError:
        raise OSError(errno.EINVAL, "a file name cannot contain a NUL character", repr(str(path))) from None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder; a file is needed here", str(path))
    if not stat.S_ISREG(mode):
        what = "not a regular file but a FIFO, a device or a socket; write its content to a file first"
        raise OSError(errno.EINVAL, what, str(path))
    return path


def read_text(path: Path) -> str:
    """Read a regular text file; raises `OSError`, or `ValueError` if it is not UTF-8."""
    return plain(path).read_text(encoding="utf-8")


def parse_json(text: str | bytes, *, parse_constant: Callable[[str], object] | None = None) -> Any:
    """Parse JSON; raises `ValueError` if the text is not JSON or is nested too deeply.

    `parse_constant` receives `NaN` and `Infinity`, which are not JSON but are accepted without it.
    """
    try:
        return json.loads(text, parse_constant=parse_constant)
    except RecursionError:
        raise ValueError("nested deeper than any JSON that Silvan writes") from None


def to_json(value: object) -> str:
    """Return a value as indented JSON with a final newline."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def write_text(path: Path, text: str) -> None:
    """Write a file in UTF-8 completely or not at all, as :func:`replacing` does; raises `OSError`."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file that replaces `path` if the block ends without an exception.

    Raises `OSError` if `path` exists and is not a regular file, because renaming over /dev/null or a FIFO
    would remove it. If `path` is a symbolic link, the link is kept and its target is replaced. An `OSError`
    that names no file or the temporary file is raised with the name `path`.

    The temporary file is new and locked during the block. Those of processes that were killed have no lock
    and are removed.
    """
    target = Path(os.path.realpath(path))
    if target.exists():
        plain(target)
    partial = target.with_name(f".{target.name}.partial-{mark()}")
    handle = None
    try:
        clear_leftovers(target)
        handle = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0), 0o666)
        locked(handle)
        yield partial
        flush(partial)
        partial.replace(target)
    except BaseException as error:
        if handle is not None:
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and (error.filename is None or place(error) == str(partial)):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        if handle is not None:
            os.close(handle)


def clear_leftovers(target: Path) -> None:
    """Remove the temporary files for `target` that killed processes have left; errors are ignored."""
    for leftover in target.parent.glob(f".{glob.escape(target.name)}.partial-*"):
        try:
            handle = os.open(
                leftover, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
            )
        except OSError:
            continue
        try:
            free = locked(handle)
            age_s = time.time() - os.fstat(handle).st_mtime
            if free or (free is None and age_s > STALE_S):
                leftover.unlink(missing_ok=True)
        except OSError:
            continue
        finally:
            os.close(handle)


def locked(handle: int) -> bool | None:
    """Try to lock a file; return whether that succeeded, or None on a file system without locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # Some network file systems have no locks.
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True


def place(error: OSError) -> str | None:
    """Return the name of the file that an error concerns: of a copy or a renaming, the target."""
    name = error.filename2 if error.filename2 is not None else error.filename
    return None if name is None else str(name)


def mark() -> str:
    """Return a file name suffix that consists of the process ID and a random number."""
    return f"{os.getpid()}-{secrets.token_hex(4)}"


def flush(path: Path) -> None:
    """Wait until the contents of a file or folder are on the disk; raises `OSError`."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
