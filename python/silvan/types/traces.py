"""Types for checks and conversions of traces."""

from __future__ import annotations

from typing import TypedDict

from silvan.types.scenarios import CollectiveUse


class TraceContents(TypedDict):
    """Statistics of a trace."""

    #: Number of ranks.
    ranks: int
    #: Number of messages sent.
    sends: int
    #: Number of messages received.
    receives: int
    #: Number of computations.
    computations: int
    #: Number of operations that take time without occupying a CPU.
    delays: int
    #: Number of dependencies between operations.
    dependencies: int
    #: Total payload sent, bytes.
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
    #: Number of messages received.
    messages: int
    #: Number of operations that never finished.
    unfinished: int
    #: The first operations that wait for another rank, with the reasons.
    stuck: list[str]
    #: Ranks that wait for each other in a cycle; empty if there is no cycle.
    circle: list[int]
    #: Errors in the trace that do not prevent the run.
    warnings: list[str]


class TraceCheck(TypedDict):
    """The result of :func:`silvan.traces.check`."""

    #: Name of the format.
    format: str
    #: Paths of all files that belong to the trace.
    files: list[str]
    contents: TraceContents
    #: Collective operations with their algorithms.
    collectives: list[CollectiveUse]
    #: Notes of the reader.
    notes: list[str]
    #: The run; None if the trace was only read.
    run: TraceRun | None


class WrittenTrace(TypedDict):
    """The result of :func:`silvan.traces.convert` and :func:`silvan.traces.generate`."""

    contents: TraceContents
    #: Collective operations with their algorithms.
    collectives: list[CollectiveUse]
    #: Notes of the reader.
    notes: list[str]
