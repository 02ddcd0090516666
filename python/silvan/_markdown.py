"""Writes Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return the lines of a table."""
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    # Names may contain a vertical bar, which would start another cell.
    return lines + [f"| {' | '.join(str(cell).replace('|', '/') for cell in row)} |" for row in rows]
