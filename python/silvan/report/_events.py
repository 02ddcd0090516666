"""Writes the trees of runs as trace events for Perfetto, in the format of Chrome's tracing.

Each run has a process for its counters. If trees were recorded, there are two more processes: one for the
trees, with a thread for each tree, and one for their links, with a thread for each link. A link's thread has
one slice for each span of time in which the link keeps its position in a tree. If delays were explained,
another process has a thread for each message or job, with arrows to the threads of the places that delayed
it. Times of trees have the resolution of the run's samples: a slice starts with the first interval at whose
end the link was waiting.

Google's document "Trace Event Format" (2016) describes the format. The events are the list
`traceEvents` of a JSON object.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

import silvan
from silvan import _files
from silvan.report import _series, _waits
from silvan.report._frames import Clock, spans

if TYPE_CHECKING:
    from silvan.delays import Why
    from silvan.results import Result

Event = dict[str, Any]
#: Processes of a run.
PROCESSES = 4


def write(
    results: Sequence[Result], titles: Sequence[str], path: Path, explained: Sequence[Sequence[Why]]
) -> None:
    """Write the events of runs to a file, one per line; compress it if its name ends in ``.gz``.

    `explained` contains explanations of each run.
    """
    head = {"displayTimeUnit": "ns", "otherData": {"generator": f"silvan {silvan.__version__}"}}
    with _files.replacing(path) as partial, _opened(partial, is_packed=path.suffix == ".gz") as file:
        file.write(json.dumps(head)[:-1] + ', "traceEvents": [')
        separator = "\n"
        for number, (result, title, found) in enumerate(zip(results, titles, explained, strict=True)):
            for event in _of_run(result, title, found, PROCESSES * number + 1):
                file.write(separator + json.dumps(event, ensure_ascii=False, allow_nan=False))
                separator = ",\n"
        file.write("\n]}\n")


@contextlib.contextmanager
def _opened(path: Path, *, is_packed: bool) -> Iterator[IO[str]]:
    if not is_packed:
        with path.open("w", encoding="utf-8") as file:
            yield file
        return
    # Omit the file name and the time, so that equal runs give equal files.
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8") as file,
    ):
        yield file


def _of_run(result: Result, title: str, explained: Sequence[Why], process: int) -> Iterator[Event]:
    clock = Clock.of(result, most=len(result.numpy("network")["time_ns"]) or 1)
    yield from _named_process(process, f"{title}: counters")
    yield from _counters(result, clock, process)
    if explained:
        yield from _named_process(process + 3, f"{title}: causes of delays")
        yield from _waits.events(explained, process + 3)
    if "wiring" not in result.tables:
        return
    yield from _named_process(process + 1, f"{title}: trees")
    yield from _trees(result, process + 1)
    yield from _named_process(process + 2, f"{title}: links in trees")
    yield from _links(result, clock, process + 2)


def _named_process(process: int, name: str) -> Iterator[Event]:
    yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": name}}
    yield {"ph": "M", "name": "process_sort_index", "pid": process, "tid": 0, "args": {"sort_index": process}}


def _named_thread(process: int, thread: int, name: str) -> Event:
    return {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": name}}


def _slice(process: int, thread: int, span_ns: tuple[float, float], name: str, args: Event) -> Event:
    begin, end = span_ns
    return {
        "ph": "X", "cat": "congestion", "name": name, "pid": process, "tid": thread,
        "ts": begin / 1e3, "dur": (end - begin) / 1e3, "args": args,
    }  # fmt: skip


def _counters(result: Result, clock: Clock, process: int) -> Iterator[Event]:
    """Yield the values of the charts. Each value is set at the start of its interval."""
    starts = np.concatenate([[0.0], clock.time_ns[:-1]]) / 1e3
    for _, title, unit, lines in _series.found(result, clock):
        name = f"{title} ({unit})"
        columns = [values.tolist() for _, values in lines]
        for at, values in zip(starts.tolist(), zip(*columns, strict=True), strict=True):
            args = {
                line: value for (line, _), value in zip(lines, values, strict=True) if math.isfinite(value)
            }
            if args:
                yield {"ph": "C", "name": name, "pid": process, "tid": 0, "ts": at, "args": args}


def _trees(result: Result, process: int) -> Iterator[Event]:
    for tree in result.forest.trees:
        yield _named_thread(process, tree.tree, f"tree {tree.tree}")
        args = {
            "root": tree.root, "root_kind": tree.root_kind, "kind": tree.kind, "began": tree.origin,
            "ended": tree.end, "peak_branches": tree.peak_branches, "peak_depth": tree.peak_depth,
            "peak_queued_bytes": tree.peak_queued_bytes,
            "contributors": [one.host for one in tree.contributors],
            "victims": [one.host for one in tree.victims],
        }  # fmt: skip
        span_ns = (tree.born_ns, tree.last_ns)
        yield _slice(process, tree.tree, span_ns, f"{tree.kind} tree at {tree.root}", args)


def _links(result: Result, clock: Clock, process: int) -> Iterator[Event]:
    names = result.numpy("wiring")["link"].tolist()
    rows = spans(result, clock, {name: at for at, name in enumerate(names)})
    begin = np.concatenate([[0.0], clock.time_ns[:-1]])
    columns = (
        rows[name].tolist() for name in ("link", "tree", "waits_for", "depth", "trees", "queued", "held")
    )
    times = zip(begin[rows["first"]].tolist(), clock.time_ns[rows["last"]].tolist(), strict=True)
    before = None
    for span_ns, link, tree, waits_for, depth, trees, queued, held in zip(times, *columns, strict=True):
        if link != before:
            yield _named_thread(process, link + 1, names[link])
            before = link
        name = f"tree {tree}: waits for {names[waits_for]}" if depth else f"root of tree {tree}"
        args = {
            "tree": tree, "trees": trees, "depth": depth,
            "peak_queued_bytes": queued, "peak_downstream_bytes": held,
        }  # fmt: skip
        yield _slice(process, link + 1, span_ns, name, args)
