"""Silvan simulates congestion in lossless interconnection networks.

>>> import silvan
>>> scenario = silvan.Scenario.load("scenarios/testbed.toml")
>>> off = silvan.run(scenario)
>>> on = silvan.run(scenario, congestion__mechanism="ib-cc")
>>> on.summary["throughput_gbit_s"]  # doctest: +SKIP

Results are Arrow tables (``on.flows``), which polars, pandas, duckdb and pyarrow read without
a copy, and numpy arrays (``on.numpy("flows")``). Figures: :mod:`silvan.plot`.
"""

from silvan._core import (
    FabricError,
    ModelError,
    Scenario,
    ScenarioError,
    SilvanError,
    TraceError,
    __version__,
    fabric_check,
    fabric_ibdmchk,
    fabric_route,
    schema,
)
from silvan._fluid import fluid
from silvan.collide import collide as fabric_collide
from silvan.flow_level import Contention, contention
from silvan.results import Result, ResultError, load, run
from silvan.sweeps import Measure, Study, SweepError, sweep
from silvan.tuning import Tuning, tune

__all__ = [
    "Contention",
    "FabricError",
    "Measure",
    "ModelError",
    "Result",
    "ResultError",
    "Scenario",
    "ScenarioError",
    "SilvanError",
    "Study",
    "SweepError",
    "TraceError",
    "Tuning",
    "__version__",
    "contention",
    "fabric_check",
    "fabric_collide",
    "fabric_ibdmchk",
    "fabric_route",
    "fluid",
    "load",
    "run",
    "schema",
    "sweep",
    "tune",
]
