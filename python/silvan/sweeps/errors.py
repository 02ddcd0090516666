"""Errors of sweeps, and the positions in a study file to which they refer."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any, NoReturn

from silvan._core import SilvanError

#: Maximum length of a value in messages; longer values are truncated.
SHOWN = 60


class SweepError(SilvanError):
    """A study is invalid, or a sweep cannot run. The message contains the position in the study, if known."""


class Place:
    """The origin of a study for error messages: a file with line numbers, or a call."""

    def __init__(self, origin: str, text: str | None = None) -> None:
        self.origin = origin
        self._lines = text.splitlines() if text is not None else []

    def fail(self, path: str, what: str, value: object = None) -> NoReturn:
        """Raise a :class:`SweepError` about the key `path`, such as ``axis.0.values``."""
        line = self._line(path)
        where = f"{self.origin}:{line}" if line else self.origin
        shown = "" if value is None else f" = {_shown(value)}"
        raise SweepError(f"{where}: {path}{shown}: {what}" if path else f"{where}: {what}")

    def keys(self, path: str, table: dict[str, Any], known: Iterable[str]) -> None:
        """Raise :class:`SweepError` for keys that are not in `known`."""
        known = tuple(known)
        for key, value in table.items():
            if key in known:
                continue
            close = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean `{close[0]}`? " if close else ""
            names = ", ".join(f"`{name}`" for name in known)
            self.fail(f"{path}.{key}".lstrip("."), f"unknown key; {hint}known here: {names}", value)

    def text(self, path: str, value: object, default: str | None = None) -> str:
        """Return a value, or the default for None; raise `SweepError` unless it is a non-empty string."""
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or not value.strip():
            self.fail(path, "must be a text", "" if value is None else value)
        return value

    def tables(self, path: str, value: object) -> list[dict[str, Any]]:
        """Return a value, or an empty list for None; raise `SweepError` unless it is a list of tables."""
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.fail(path, f"must be written as [[{path}]]", value)
        return value

    def _line(self, path: str) -> int | None:
        """Return the line number of the key, or of the innermost table that contains it; None without either.

        The TOML parser of the standard library reports no line numbers, so this function searches for headers
        and keys at the start of lines.
        """
        wanted = path.split(".")
        best: tuple[int, int | None] = (0, None)
        here: list[str] = []
        counts: dict[str, int] = {}
        for number, line in enumerate(self._lines, 1):
            if header := re.match(r"\s*(\[\[?)\s*([^\]]+?)\s*\]", line):
                here = _segments(header[2])
                if header[1] == "[[":
                    counts[header[2]] = counts.get(header[2], -1) + 1
                if here[0] in counts:
                    here.insert(1, str(counts[here[0]]))
                found = here
            elif key := re.match(r"""\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*[\w-]+)*)\s*=""", line):
                found = here + _segments(key[1])
            else:
                continue
            length = _common(found, wanted)
            if length == len(found) and length > best[0]:
                best = (length, number)
        return best[1]


def _segments(written: str) -> list[str]:
    quoted = re.findall(r""""([^"]*)"|'([^']*)'|([\w-]+)""", written)
    return [part for parts in quoted for segment in parts if segment for part in segment.split(".")]


def _common(found: list[str], wanted: list[str]) -> int:
    length = 0
    for one, other in zip(found, wanted, strict=False):
        if one != other:
            break
        length += 1
    return length


def _shown(value: object) -> str:
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    if isinstance(value, bool):
        text = text.lower()
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
