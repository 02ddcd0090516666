"""The sentence in a scenario's description that states its calibration, and the note in results.

Results of a calibrated scenario state the error of the calibration, as long as its keys are not changed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from silvan._core import Scenario

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

#: Files that the sentence names, and digits of their digests.
FILES_AT_MOST, DIGITS = 6, 12

#: Beginning of the sentence.
MARK = "Calibrated keys:"
_SENTENCE = re.compile(rf"\s*{MARK} (?P<keys>[\w., ]*); (?P<error>[^;]*); files: .*\Z", re.DOTALL)


def described(description: str, names: Sequence[str], error: str, files: Sequence[tuple[str, str]]) -> str:
    """Return a description with the sentence about a calibration, which replaces an earlier one.

    `files` contains names and SHA-256 digests.
    """
    listed = [f"{name} (sha256 {digest[:DIGITS]})" for name, digest in files[:FILES_AT_MOST]]
    more = len(files) - len(listed)
    listed += [f"and {more} more"] if more else []
    own = _SENTENCE.sub("", description)
    told = f"{MARK} {', '.join(names)}; {error}; files: {', '.join(listed)}."
    return f"{own} {told}".strip()


def note(scenario: Scenario) -> str | None:
    """Return what a run states about the calibration of its scenario; None for other scenarios."""
    texts = (scenario.text, *(value for _, value in scenario.overrides))
    if not any(MARK in text for text in texts):
        return None
    description = tomllib.loads(scenario.to_toml()).get("description", "")
    found = _SENTENCE.search(description)
    if found is None:
        return None
    names = [name.strip() for name in found["keys"].split(",")]
    changed = sorted({key for key, _ in scenario.overrides} & set(names))
    if changed:
        return f"The scenario was calibrated, but {', '.join(changed)} has another value here."
    return f"The scenario is calibrated against measurements ({', '.join(names)}): {found['error']}."
