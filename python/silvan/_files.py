"""Files, read only where they are plain ones and written whole or not at all."""

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
    """Return `path` if it leads to a plain file.

    To be asked before opening: a FIFO keeps whoever opens it waiting, and a device such as
    /dev/zero has no end. Raises `OSError`, with the file's name.
    """
    try:
        mode = path.stat().st_mode
    except ValueError:
        raise OSError(errno.EINVAL, "no file has a NUL character in its name", repr(str(path))) from None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder; a file is needed here", str(path))
    if not stat.S_ISREG(mode):
        what = "not a regular file but a FIFO, a device or a socket; write its content to a file first"
        raise OSError(errno.EINVAL, what, str(path))
    return path


def read_text(path: Path) -> str:
    """Read a plain file of text in UTF-8; raises `OSError` or `ValueError`."""
    return plain(path).read_text(encoding="utf-8")


def parse_json(text: str | bytes) -> Any:
    """Return a JSON value; raises `ValueError` for whatever is not one that we would write."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep for JSON that Silvan wrote") from None


def to_json(value: object) -> str:
    """Write a value as the JSON of a file that people read too."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all; one that is there is replaced."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give the path of a file to write, which then takes the place of `path` unless that failed.

    Only of a plain file: renaming over /dev/null or a FIFO would take it from everybody else. A
    link stays, and the file that it leads to is replaced.
    """
    target = Path(os.path.realpath(path))
    if target.exists():
        plain(target)
    partial = target.with_name(f".{target.name}.partial-{mark()}")
    try:
        yield partial
        flush(partial)
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def mark() -> str:
    """Return an ending that no other writer uses."""
    return f"{os.getpid()}-{secrets.token_hex(4)}"


def flush(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
