"""Types of the dictionaries that the simulator returns and writes as JSON.

The dictionaries are of type `dict`: ``result.summary["throughput_gbit_s"]``. Most names of quantities end
with the unit (`_ns`, `_bytes`, `_gbit_s`), or with `_share` for values from 0 to 1. Averages cover the time
from the end of the warm-up to the end of the run. A test compares the keys with those of real results.

| function | type |
| --- | --- |
| :attr:`silvan.Result.summary`, ``summary.json`` | :class:`Summary` |
| :attr:`silvan.Result.provenance`, ``provenance.json`` | :class:`Provenance` |
| :meth:`silvan.Scenario.check`, ``silvan check --json`` | :class:`ScenarioCheck` |
| :func:`silvan.fluid` | :class:`Fluid` |
| :func:`silvan.fabric.check`, ``silvan fabric check --json`` | :class:`FabricCheck` |
| :func:`silvan.fabric.collide`, ``silvan fabric collide --json`` | :class:`Collisions` |
| :func:`silvan.fabric.infer`, ``silvan fabric infer --json`` | :class:`Inference` |
| :func:`silvan.traces.check`, ``silvan trace check --json`` | :class:`TraceCheck` |
| :func:`silvan.traces.convert`, :func:`silvan.traces.generate` | :class:`WrittenTrace` |
"""

from __future__ import annotations

from silvan.types import _summary
from silvan.types._summary import *  # noqa: F403 (names that the simulator determines)
from silvan.types.counters import (
    CountedPair,
    CountedRoot,
    Forward,
    Inference,
    PortShare,
    WaitingPort,
)
from silvan.types.fabrics import (
    Collisions,
    CountedJob,
    FabricCheck,
    FabricFile,
    FabricLoad,
    Lane,
    Lanes,
    LinkDemand,
    PairDemand,
    Placement,
    RailDemand,
    SuggestedPlacement,
)
from silvan.types.runs import (
    AloneSummary,
    Machine,
    Provenance,
    RootShare,
    RunPart,
    SteadinessSummary,
    Summary,
    TrendSummary,
)
from silvan.types.scenarios import (
    CollectiveUse,
    Estimate,
    Fluid,
    FluidFlow,
    FluidShare,
    FluidTotal,
    ForestCheck,
    JobCheck,
    LinkLoad,
    PauseCheck,
    RoundTrip,
    ScenarioCheck,
    SharedCheck,
    Thresholds,
)
from silvan.types.traces import (
    TraceCheck,
    TraceContents,
    TraceRun,
    WrittenTrace,
)

__all__ = [
    "AloneSummary",
    "CollectiveUse",
    "Collisions",
    "CountedJob",
    "CountedPair",
    "CountedRoot",
    "Estimate",
    "FabricCheck",
    "FabricFile",
    "FabricLoad",
    "Fluid",
    "FluidFlow",
    "FluidShare",
    "FluidTotal",
    "ForestCheck",
    "Forward",
    "Inference",
    "JobCheck",
    "Lane",
    "Lanes",
    "LinkDemand",
    "LinkLoad",
    "Machine",
    "PairDemand",
    "PauseCheck",
    "Placement",
    "PortShare",
    "Provenance",
    "RailDemand",
    "RootShare",
    "RoundTrip",
    "RunPart",
    "ScenarioCheck",
    "SharedCheck",
    "SteadinessSummary",
    "SuggestedPlacement",
    "Summary",
    "Thresholds",
    "TraceCheck",
    "TraceContents",
    "TraceRun",
    "TrendSummary",
    "WaitingPort",
    "WrittenTrace",
]
__all__ += _summary.__all__
