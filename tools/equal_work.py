"""Makes two builds do equal work, so that their speeds can be compared.

A newer build may record more by default, and its scenario files may contain keys that an older build does not
support. This module determines which keys of `SWITCHES` the older build lacks. It switches these keys off in
the newer build, and omits them from the file that the older build reads.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class CannotRunError(Exception):
    """A build cannot run a case. The text contains its message."""


class Switch(NamedTuple):
    """Values of a key, in TOML, that make a build do the work of a build that does not support the key."""

    #: The value with which a build without the key does the same work.
    off: str
    #: The default value of the key, if it differs from `off`.
    default: str | None = None


#: Keys that older builds lack, with the value that corresponds to their behavior.
SWITCHES: Mapping[str, Switch] = {
    "measure.forest": Switch("false", default="true"),
    "congestion.reaction.timer": Switch('"cyclic"'),
}

#: Part of the message of a build about an unknown key.
UNKNOWN = "unknown key"


@dataclass(frozen=True)
class Case:
    """A scenario file, with overrides (`key=value`)."""

    name: str
    scenario: Path
    overrides: tuple[str, ...]

    @property
    def has_threads(self) -> bool:
        """Whether an override sets the number of threads."""
        return any(_key(word) == "threads" for word in self.overrides)

    def on_one_thread(self) -> Case:
        """Return the same case with one thread."""
        return replace(self, overrides=tuple(w for w in self.overrides if _key(w) != "threads"))

    def with_(self, key: str, value: str) -> Case:
        """Return the same case with a key set."""
        return replace(self, overrides=(*self._others(key), f"{key}={value}"))

    def without(self, key: str, folder: Path) -> Case:
        """Return the same case without a key. If its file has the key, write a new file to `folder`.

        Raises :class:`CannotRunError` if the key cannot be removed.
        """
        table = tomllib.loads(self.scenario.read_text())
        if not _has(table, key):
            return replace(self, overrides=self._others(key))
        text = _cut(self.scenario.read_text(), key)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{self.name}.toml"
        file.write_text(text)
        return replace(self, scenario=file, overrides=self._others(key))

    def sets(self, key: str) -> bool:
        """Whether the file or an override has a key."""
        return self._others(key) != self.overrides or _has(tomllib.loads(self.scenario.read_text()), key)

    def _others(self, key: str) -> tuple[str, ...]:
        return tuple(word for word in self.overrides if _key(word) != key)


@dataclass(frozen=True)
class Work:
    """The changes that make both builds do the same work."""

    here: Case
    there: Case
    #: The keys that are switched off because the other build does not support them, with values.
    off: Mapping[str, Any]

    @property
    def title(self) -> str:
        """The keys that are switched off, in words."""
        return ", ".join(f"{key} = {SWITCHES[key].off}" for key in self.off)


def equal_work(case: Case, ask: Callable[[Case], object], folder: Path) -> Work:
    """Return the equal work of both builds for a case of this build.

    `ask` runs a case in the other build, and raises :class:`CannotRunError` if that fails. Files without some
    keys are written to `folder`. Raises :class:`CannotRunError` if the build lacks anything other than a key
    of :data:`SWITCHES`.
    """
    for key, switch in SWITCHES.items():
        if switch.default is not None and not case.sets(key):
            # Set the default explicitly, because the other build may have another default.
            case = case.with_(key, switch.default)
    work = Work(case, case.on_one_thread(), {})
    while True:
        try:
            ask(work.there)
        except CannotRunError as error:
            key = _lacked(str(error), work)
            if key is None:
                raise
            off = tomllib.loads(f"value = {SWITCHES[key].off}")["value"]
            here, there = work.here.with_(key, SWITCHES[key].off), work.there.without(key, folder)
            work = Work(here, there, {**work.off, key: off})
        else:
            return work


def _lacked(said: str, work: Work) -> str | None:
    """Return the key that a build does not support, if it can be switched off and has not been."""
    if UNKNOWN not in said:
        return None
    before = said.partition(UNKNOWN)[0]
    named = (key for key in SWITCHES if re.search(rf"(?<![\w.]){re.escape(key)}(?![\w.])", before))
    return next((key for key in named if key not in work.off), None)


def _key(word: str) -> str:
    return word.partition("=")[0]


def _has(table: Mapping[str, Any], key: str) -> bool:
    value: Any = table
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return False
        value = value[part]
    return True


def _cut(text: str, key: str) -> str:
    """Remove a key's line from a scenario.

    Raises :class:`CannotRunError` if no line contains only the key and its value.
    """
    way, _, last = key.rpartition(".")
    wanted = tomllib.loads(text)
    inner = wanted
    for part in way.split(".") if way else ():
        inner = inner[part]
    del inner[last]
    line = re.compile(rf"^[ \t]*(?:[\w.]+\.)?{re.escape(last)}[ \t]*=.*\n?", re.MULTILINE)
    for found in line.finditer(text):
        rest = text[: found.start()] + text[found.end() :]
        try:
            if tomllib.loads(rest) == wanted:
                return rest
        except tomllib.TOMLDecodeError:
            continue
    raise CannotRunError(f"there, no key `{key}`, which is not on a separate line")
