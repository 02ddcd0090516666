"""Names the congestion management of a run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib


def name(settings: Mapping[str, Any]) -> str:
    """Return the mechanism; without it, the reaction; without both, the marking rule and the isolation.

    A reaction has the suffix ``+ nscc`` if it has settings of NSCC, and the prefix ``fecn +`` if it reacts
    to this marking rule but is not ``cct``. Returns ``none`` if the run has no congestion management.

    `settings` maps the dotted keys of a resolved scenario to values.
    """

    def kind(part: str) -> str:
        return str(settings.get(f"congestion.{part}.kind", "none"))

    if (mechanism := str(settings.get("congestion.mechanism", "none"))) != "none":
        return mechanism
    marking, reaction = kind("marking"), kind("reaction")
    if reaction == "none":
        found = [part for part in (marking, kind("isolation")) if part != "none"]
        return " + ".join(found) or "none"
    if any(key.startswith("congestion.reaction.nscc.") for key in settings):
        reaction += " + nscc"
    # The CCT is the usual reaction to FECN, so the name contains the marking rule only for other reactions.
    return f"fecn + {reaction}" if marking == "fecn" and reaction != "cct" else reaction


def of_toml(text: str) -> str:
    """Return the name of the congestion management in a resolved scenario; see :func:`name`."""
    return name(settings(text))


def settings(text: str) -> dict[str, Any]:
    """Return the dotted keys and the values of a scenario in TOML."""
    return dict(_flat(tomllib.loads(text)))


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys and the values of nested tables; elements of lists of tables have numbers."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _flat(one, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for number, one in enumerate(value):
            yield from _flat(one, f"{path}.{number}")
    else:
        yield path, value
