"""The sentence in a scenario's description that states its calibration, and the note in results.

Results of a calibrated scenario state the error of the calibration, as long as its keys are not changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from silvan import _control
from silvan._core import Scenario

#: Files that the sentence names, and digits of their digests.
FILES_AT_MOST, DIGITS = 6, 12

#: Beginning of the sentence.
MARK = "Calibrated keys:"
_KEY = r"[\w.]+ = [\w. /]+"
_SENTENCE = re.compile(rf"\s*{MARK} (?P<keys>{_KEY}(, {_KEY})*); (?P<error>[^;]*); files: .*\Z", re.DOTALL)


def described(
    description: str, values: Mapping[str, str], error: str, files: Sequence[tuple[str, str]]
) -> str:
    """Return a description with the sentence about a calibration, which replaces an earlier one.

    `values` contains the calibrated keys as the resolved scenario does, and `files` names and SHA-256
    digests.
    """
    listed = [f"{name} (sha256 {digest[:DIGITS]})" for name, digest in files[:FILES_AT_MOST]]
    more = len(files) - len(listed)
    listed += [f"and {more} more"] if more else []
    own = _SENTENCE.sub("", description)
    stated = ", ".join(f"{key} = {value}" for key, value in values.items())
    return f"{own} {MARK} {stated}; {error}; files: {', '.join(listed)}.".strip()


def note(toml: str) -> str | None:
    """Return what a result states about the calibration of its resolved scenario; None for other scenarios.

    If the description is that of a calibration, but keys have other values, the note names them.
    """
    if MARK not in toml:
        return None
    settings = _control.settings(toml)
    found = _SENTENCE.search(settings.get("description", ""))
    if found is None:
        return None
    stated = dict(one.split(" = ") for one in found["keys"].split(", "))
    if changed := [key for key, value in stated.items() if settings.get(key) != value]:
        own = "has another value" if len(changed) == 1 else "have other values"
        return f"The scenario was calibrated, but {', '.join(changed)} {own} here."
    return f"The scenario is calibrated against measurements ({', '.join(stated)}): {found['error']}."


def notes(scenarios: Iterable[Scenario]) -> list[str]:
    """Return the different notes on scenarios, in their order."""
    # Most scenarios are not calibrated, and resolving a large one takes time.
    texts = (
        one.to_toml()
        for one in scenarios
        if any(MARK in str(text) for text in (one.text, *dict(one.overrides).values()))
    )
    return list(dict.fromkeys(filter(None, map(note, texts))))
