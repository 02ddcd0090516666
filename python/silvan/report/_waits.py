"""Explanations of delays for reports: rows of a table, links on the network, and trace events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from silvan.delays.explanation import Label
from silvan.report import _text

if TYPE_CHECKING:
    from silvan.delays import Cause, Explanation, Why

#: Causes of a message that are shown.
MOST_CAUSES = 4
#: Spans of time of a cause in the page; if there are more, the shortest gaps between them are closed.
MOST_SPANS = 200

Span = tuple[int, int]


def spans(found: Explanation) -> list[tuple[Span, Label, str]]:
    """Return what happened when, in order: consecutive pieces with the same label and place are one span."""
    merged: list[tuple[Span, Label, str]] = []
    for piece in found.pieces:
        if merged and merged[-1][1:] == (piece.label, piece.place):
            merged[-1] = ((merged[-1][0][0], piece.end), piece.label, piece.place)
        else:
            merged.append(((piece.start, piece.end), piece.label, piece.place))
    return merged


def _thinned(own: list[Span]) -> list[Span]:
    """Return at most :data:`MOST_SPANS` spans, which cover the given ones."""
    if len(own) <= MOST_SPANS:
        return own
    gaps = sorted(range(1, len(own)), key=lambda at: (own[at - 1][1] - own[at][0], at))
    edges = [0, *sorted(gaps[: MOST_SPANS - 1]), len(own)]
    return [(own[first][0], own[last - 1][1]) for first, last in pairwise(edges)]


def _links(cause: Cause, number: dict[str, int]) -> list[int]:
    """Return the numbers of the links from the waiting packet to the place of a cause."""
    names = [*cause.chain, cause.place, *([cause.signal.queue] if cause.signal else [])]
    return list(dict.fromkeys(number[name] for name in names if name in number))


def _shown(explained: Sequence[Why]) -> Iterator[tuple[int, Why, Cause]]:
    """Yield the causes that are shown, with their numbers from 1 on."""
    rows = [(one, cause) for one in explained for cause in one.explanation.causes[:MOST_CAUSES]]
    for number, (one, cause) in enumerate(rows, start=1):
        yield number, one, cause


def for_page(explained: Sequence[Why], links: Sequence[str]) -> list[dict[str, Any]]:
    """Return for each shown cause its links, its spans in us, and what is said about it, in lines."""
    place = {name: number for number, name in enumerate(links)}
    rows = []
    merged = {id(one): spans(one.explanation) for one in explained}
    for _, one, cause in _shown(explained):
        own = [span for span, label, where in merged[id(one)] if (label, where) == _key(cause)]
        rows.append(
            {
                "links": _links(cause, place),
                "spans": [[start / 1e6, end / 1e6] for start, end in _thinned(own)],
                "lines": [one.subject, *one.lines_of(cause)],
            }
        )
    return rows


def _key(cause: Cause) -> tuple[Label, str]:
    return cause.label, cause.place


def table(explained: Sequence[Why], run: int) -> str:
    """Return the table of the causes, largest first for each message or job; empty without explanations."""
    if not explained:
        return ""
    rows = []
    for number, one, cause in _shown(explained):
        found = one.explanation
        owners = ", ".join(list(dict.fromkeys(one.name_of(flow) for flow, _ in cause.owners))[:3])
        rows.append(
            (
                _text.count(number),
                _text.name(one.subject),
                _text.time(found.subject.start / 1000),
                _text.time(found.subject.end / 1000),
                _text.time(found.delay / 1000),
                _text.share(cause.ps / found.whole if found.whole > 0 else 0.0),
                _text.name(cause.label.value),
                _text.name(cause.place),
                _text.name(owners),
                _text.name(" \N{LEFTWARDS ARROW} ".join(cause.chain)),
            )
        )
    heads = (
        "cause", "message or job", "from", "to", "delay", "share", "kind", "place", "flows there",
        "reached through",
    )  # fmt: skip
    return _text.table("Causes of delays", f"causes-{run}", heads, rows)


def events(explained: Sequence[Why], process: int) -> Iterator[dict[str, Any]]:
    """Yield trace events: a thread for each message or job, others for its causes, and arrows to these.

    The threads of causes have at most :data:`MOST_SPANS` spans, because a message may have thousands of
    waits. The times are microseconds with six decimals, and thus exact.
    """
    threads: dict[str, int] = {}

    def thread(name: str) -> Iterator[dict[str, Any]]:
        threads[name] = len(threads) + 1
        named = {"name": name}
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": threads[name], "args": named}

    def piece(thread: str, name: str, start: int, end: int) -> dict[str, Any]:
        return {
            "cat": "delay", "pid": process, "tid": threads[thread], "ph": "X", "name": name,
            "ts": start / 1e6, "dur": (end - start) / 1e6, "args": {"start_ps": start, "end_ps": end},
        }  # fmt: skip

    arrow = process * 1_000_000
    for number, one in enumerate(explained, start=1):
        own = f"{number}. {one.subject}"
        yield from thread(own)
        causes: dict[str, list[Span]] = {}
        for (start, end), label, place in spans(one.explanation):
            name = f"{label.value} at {place}" if place else label.value
            yield piece(own, name, start, end)
            if label is not Label.NECESSARY and place:
                causes.setdefault(name, []).append((start, end))
        for name, times in causes.items():
            # Slices of a thread must not overlap, so each cause has a thread of its own.
            there = f"{number}. {name}"
            yield from thread(there)
            for start, end in _thinned(times):
                yield piece(there, f"{name}: {one.subject}", start, end)
                arrow += 1
                base = {"cat": "delay", "pid": process, "ts": start / 1e6, "name": "because", "id": arrow}
                yield base | {"ph": "s", "tid": threads[own]}
                yield base | {"ph": "f", "bp": "e", "tid": threads[there]}
