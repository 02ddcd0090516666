"""Reads ``papers/causes.toml``: possible causes of missed numbers, and results of runs that test them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from silvan import _files
from silvan.papers.catalogue import PapersError, find_papers

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

ADOPTED, REJECTED = "adopted", "rejected"
#: An adopted cause holds for all experiments of its system. ``no change``: the source excludes the cause, or
#: does not state which of several choices is right. ``open``: the runs do not decide.
DECISIONS = (ADOPTED, REJECTED, "no change", "open")
TEXTS = ("paper", "cause", "quantity", "published", "before", "after", "decision", "why")


@dataclass(frozen=True)
class Cause:
    """A possible cause of missed numbers, and a quantity before and after the model included it."""

    paper: str
    #: The experiments with numbers that the cause would explain.
    ids: tuple[str, ...]
    cause: str
    quantity: str
    published: str
    before: str
    after: str
    #: One of `DECISIONS`.
    decision: str
    why: str


def read_causes() -> list[Cause]:
    """Return all causes that were tested, none without the file; raises `PapersError` if it is invalid."""
    path = find_papers() / "causes.toml"
    if not path.exists():
        return []
    try:
        raw = tomllib.loads(_files.read_text(path))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PapersError(f"{path}: {error}") from error
    texts = raw.get("texts", {})
    return [_cause(own, texts, f"{path}: cause {n}") for n, own in enumerate(raw.get("cause", ()), 1)]


def _cause(raw: dict[str, Any], texts: dict[str, Any], where: str) -> Cause:
    if set(raw) != {"ids", *TEXTS}:
        wrong = ", ".join(sorted(set(raw) ^ {"ids", *TEXTS}))
        raise PapersError(f"{where}: must have ids, {', '.join(TEXTS)}; missing or unknown: {wrong}")
    found = {}
    for name in TEXTS:
        value = raw[name]
        if isinstance(value, str) and value.startswith("@"):
            value = texts.get(value[1:])
        if not isinstance(value, str):
            raise PapersError(f"{where}: {name} = {raw[name]!r}: must be text, or @name of a text of [texts]")
        found[name] = " ".join(value.split())
    if found["decision"] not in DECISIONS:
        raise PapersError(f"{where}: decision = {found['decision']!r}: must be one of {', '.join(DECISIONS)}")
    if not isinstance(raw["ids"], list) or not raw["ids"]:
        raise PapersError(f"{where}: ids = {raw['ids']!r}: must be a list of experiments")
    return Cause(ids=tuple(map(str, raw["ids"])), **found)


def about(causes: Iterable[Cause], experiment: str) -> list[Cause]:
    """Return the causes that would explain numbers of an experiment."""
    return [cause for cause in causes if experiment in cause.ids]
