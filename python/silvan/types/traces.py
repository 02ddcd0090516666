"""Checks and conversions of traces."""

from __future__ import annotations

from typing import TypedDict

from silvan.types.scenarios import CollectiveUse


class TraceContents(TypedDict):
    """What a trace contains."""

    #: Number of ranks.
    ranks: int
    #: Messages sent.
    sends: int
    #: Messages received.
    receives: int
    #: Computations.
    computations: int
    #: Operations that only let time pass.
    delays: int
    #: Dependencies between operations.
    dependencies: int
    #: Payload sent, bytes.
    bytes: int
    #: Payload of the largest message, bytes.
    largest: int
    #: Computing time of all ranks, ns.
    computing_ns: int


class TraceRun(TypedDict):
    """The run of a trace without a network."""

    #: Whether all operations finished.
    complete: bool
    #: Time at which the last rank finished, ps.
    span_ps: int
    #: Time at which each rank finished, ps.
    finished_ps: list[int]
    #: Messages received.
    messages: int
    #: Operations that never finished.
    unfinished: int
    #: The first of those that wait for another rank, with the reason.
    stuck: list[str]
    #: Ranks that wait for each other in a cycle.
    circle: list[int]
    #: Errors of the trace that do not stop the run.
    warnings: list[str]


class TraceCheck(TypedDict):
    """What :func:`silvan.traces.check` finds."""

    #: Name of the format.
    format: str
    #: Files that the trace consists of.
    files: list[str]
    contents: TraceContents
    #: Collective operations and their algorithms.
    collectives: list[CollectiveUse]
    #: Notes of the reader.
    notes: list[str]
    #: The run; None if the trace was only read.
    run: TraceRun | None


class WrittenTrace(TypedDict):
    """What :func:`silvan.traces.convert` and :func:`silvan.traces.generate` wrote."""

    contents: TraceContents
    #: Collective operations and their algorithms.
    collectives: list[CollectiveUse]
    #: Notes of the reader.
    notes: list[str]
