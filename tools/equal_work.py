"""What two builds are to do so that their speeds compare equal work.

A newer build records more by default, and its scenario files have keys that an older build does not
know. Both would then be timed at different work, or not at all. So the other build is asked which of
these keys it knows; what it cannot do is switched off here, and left out of the file that it reads.
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
    """A build cannot run a case, and what it said."""


class Switch(NamedTuple):
    """How a build that knows a key does the work of one that does not. Values are as in TOML."""

    #: The value by which it does so.
    off: str
    #: Its default, if that is another one.
    default: str | None = None


#: Keys that older builds lack, of which one value is what these builds always do.
SWITCHES: Mapping[str, Switch] = {
    "measure.forest": Switch("false", default="true"),
    "congestion.reaction.timer": Switch('"cyclic"'),
}

#: What a build says of a key that it does not know.
UNKNOWN = "unknown key"


@dataclass(frozen=True)
class Case:
    """A scenario file, with overrides (`key=value`)."""

    name: str
    scenario: Path
    overrides: tuple[str, ...]

    @property
    def has_threads(self) -> bool:
        """Whether several threads work at it."""
        return any(_key(word) == "threads" for word in self.overrides)

    def on_one_thread(self) -> Case:
        """Return the same for one thread."""
        return replace(self, overrides=tuple(w for w in self.overrides if _key(w) != "threads"))

    def with_(self, key: str, value: str) -> Case:
        """Return the same with a key set, whatever it was."""
        return replace(self, overrides=(*self._others(key), f"{key}={value}"))

    def without(self, key: str, folder: Path) -> Case:
        """Return the same without a key: if the file has it, as a file in `folder`."""
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
    """The same work for both builds."""

    here: Case
    there: Case
    #: What is switched off here, as the other build does not know it: values by key.
    off: Mapping[str, Any]

    @property
    def title(self) -> str:
        """What is switched off, in words."""
        return ", ".join(f"{key} = {SWITCHES[key].off}" for key in self.off)


def equal_work(case: Case, ask: Callable[[Case], object], folder: Path) -> Work:
    """Return what both builds are to do of a case of this one.

    `ask` has the other build try a case, and raises :class:`CannotRunError` where it cannot. Files that it
    is to read without some key are written to `folder`. Raises :class:`CannotRunError` where it lacks
    something else than a key of :data:`SWITCHES`.
    """
    for key, switch in SWITCHES.items():
        if switch.default is not None and not case.sets(key):
            # Said aloud, or the other build may have another default.
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
    """Return the key that a build does not know, if it is one that can be switched off and has not been."""
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
    """Leave a key's line out of a scenario.

    Raises :class:`CannotRunError` unless nothing but the key goes: its line may be more than one.
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
    raise CannotRunError(f"there, no key `{key}`, which does not stand on a line of its own")
