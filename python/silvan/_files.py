"""Files: only regular files are read, and a file is written completely or not at all."""

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
    """Return `path` if it leads to a regular file.

    To be called before opening: opening a FIFO blocks, and a device such as /dev/zero has no end.
    Raises `OSError`, with the file's name.
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
    """Read a regular file of text in UTF-8; raises `OSError` or `ValueError`."""
    return plain(path).read_text(encoding="utf-8")


def parse_json(text: str | bytes) -> Any:
    """Return a JSON value; raises `ValueError` for text that is not JSON or is nested too deep."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested deeper than any JSON that Silvan writes") from None


def to_json(value: object) -> str:
    """Return a value as indented JSON with a final newline."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def write_text(path: Path, text: str) -> None:
    """Write a file completely or not at all; an existing file is replaced."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the path of a file to write, which replaces `path` when the block ends without an exception.

    Only a regular file is replaced: renaming over /dev/null or a FIFO would remove it. A symbolic
    link is kept, and the file that it leads to is replaced. Errors of the system name the file to replace,
    which the system does not do when a disk is full.
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
    """Return a suffix that no other writer uses."""
    return f"{os.getpid()}-{secrets.token_hex(4)}"


def flush(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
