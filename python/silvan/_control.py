"""Names the congestion management of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
