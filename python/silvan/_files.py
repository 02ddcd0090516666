"""Reads only regular files, and writes a file completely or not at all."""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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


def parse_json(text: str | bytes) -> Any:
    """Parse JSON; raises `ValueError` if the text is not JSON or is nested too deeply."""
    try:
        return json.loads(text)
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
    """
    target = Path(os.path.realpath(path))
    if target.exists():
        plain(target)
    partial = target.with_name(f".{target.name}.partial-{mark()}")
    try:
        yield partial
        flush(partial)
        partial.replace(target)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(partial)):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


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
