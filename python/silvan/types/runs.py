"""Types of the result of a run: the part of the summary that Python adds, and the provenance."""

from __future__ import annotations

from typing import TypedDict

from silvan.types._summary import RunSummary

# A class cannot define keys that are Python keywords.
_RootShare = TypedDict("_RootShare", {"root": str, "share": float, "with": list[str]})


class RootShare(_RootShare):
    """A root of congestion trees that slows a job down.

    `root` is the link. `share` (0 to 1) is its share of the samples at which the job's hosts are in a tree
    but would not be if the job ran alone. `with` lists the other classes of traffic that feed the root.
    """


class AloneSummary(TypedDict):
    """A comparison of a job with the same job alone on the network (``alone=True``)."""

    #: Name of the job.
    job: str
    #: Span in the run, ns; None if the job did not finish in both runs.
    span_ns: float | None
    #: Span of the job alone, ns; None if the job did not finish in both runs.
    alone_ns: float | None
    #: `span_ns` / `alone_ns` - 1; None if the job did not finish in both runs.
    slower: float | None
    #: Mean of latency / latency alone - 1 over the messages that both runs delivered; None without any.
    message_slower_mean: float | None
    #: Roots of the trees that slow the job down, largest share first.
    roots: list[RootShare]


class TrendSummary(TypedDict):
    """A quantity that is not level over the averaged time; see :mod:`silvan.steadiness`."""

    #: Name as in a comparison, without a statistic.
    quantity: str
    #: Unit of `early` and `late`.
    unit: str
    #: Means over the first fifth and the second half of the averaged time.
    early: float
    late: float
    #: Time from which the quantity is level, ns; None if it is not level within the run.
    level_from_ns: int | None


class SteadinessSummary(TypedDict):
    """The test whether averaged quantities are in steady state after the warm-up."""

    #: Quantities with a trend.
    trends: list[TrendSummary]
    #: What changes during the averaged time: events, jobs, traffic that starts, ends or moves.
    changes: list[str]
    #: Quantities with too few values for a test; without those that have no value at all.
    untested: list[str]
    #: Approximate duration with which all of them have enough values, ns; None if all are tested.
    testable_at_ns: int | None


class Summary(RunSummary, total=False):
    """Totals over a run, and averages from the end of the warm-up to the end of the run."""

    #: Comparison of each job with the job alone, after a run with ``alone=True``.
    alone: list[AloneSummary]
    #: Test for steady state; missing in runs of earlier versions.
    steadiness: SteadinessSummary


class Machine(TypedDict):
    """The machine that executed a run, without its host name."""

    #: Operating system.
    system: str
    #: Model of the processor.
    cpu: str
    #: Number of cores; None if unknown.
    cores: int | None


class RunPart(TypedDict):
    """A part of a run that one process simulated without interruption."""

    #: Simulated time at which the part begins, ns.
    at_ns: int
    #: The build that simulated the part: a hash of the simulator.
    build: str
    #: Wall-clock time, s. The time after the checkpoint with which a part ends does not count.
    wall_s: float


class _Provenance(TypedDict):
    #: Name of the scenario.
    scenario: str
    #: The scenario's path, ``stdin`` or ``<text>``.
    origin: str
    #: Folder to which relative file names in the scenario refer.
    base_dir: str
    #: Overrides as text by dotted key.
    overrides: dict[str, str]
    #: The seed of all random streams.
    seed: int
    #: Version of Silvan.
    version: str
    #: Commit of the source clone from which Silvan ran, with ``-dirty`` if tracked files had changed. None
    #: for an installed package, or if Git failed.
    git_commit: str | None
    #: Start of the run or, for a resumed run, of its last part, ISO 8601, UTC.
    started: str
    #: Wall-clock time of all parts, including the time to build the network, s.
    wall_s: float
    #: Events per second of wall-clock time; None if the time was too short to measure.
    events_per_s: int | None
    machine: Machine
    #: Version of Python.
    python: str


class Provenance(_Provenance, total=False):
    """The origin of a result: scenario, program, machine, time."""

    #: All parts of a run that was resumed from a checkpoint, in order. Other runs lack this key.
    resumed: list[RunPart]
