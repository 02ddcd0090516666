"""Fills the templates of pages and creates the hashes of their content security policies."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping


def digest(text: str) -> str:
    """Return the hash of a script or a style sheet for a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace each ``{{KEY}}`` of a template by its value, but not inside values.

    Raises `KeyError` for a key without a value.
    """
    parts = template.split("{{")
    return parts[0] + "".join(
        values[key] + rest for key, _, rest in (part.partition("}}") for part in parts[1:])
    )


__all__ = ["digest", "fill"]
