"""Silvan simulates congestion in lossless interconnection networks.

>>> import silvan
>>> scenario = silvan.Scenario.load("scenarios/testbed.toml")
>>> off = silvan.run(scenario)  # doctest: +SKIP
>>> on = silvan.run(scenario, congestion__mechanism="ib-cc")  # doctest: +SKIP
>>> on.summary["throughput_gbit_s"]  # doctest: +SKIP

Results are available as Arrow tables (``on.flows``), which polars, pandas, duckdb and pyarrow
can read, and as numpy arrays (``on.numpy("flows")``).

| name | what it does |
| --- | --- |
| :class:`Scenario` | what is simulated, from a file or from text |
| :func:`run`, :func:`load`, :class:`Result` | a run and its result; :class:`Forest`: its congestion trees |
| :class:`Checkpoints` | where and when a run is saved, to continue it later |
| :class:`ControlledRun` | a run whose messages a program sends |
| :func:`watch` | a run in a notebook, shown while it progresses |
| :func:`counters` | the counters of ports that hardware shows for the traffic of a run |
| :func:`compare` | runs compared: settings, then results with intervals over seeds |
| :func:`sweep`, :func:`tune` | many runs of one scenario; a search for the best settings |
| :func:`fluid`, :func:`contention` | rates and contention without packets |
| :mod:`silvan.fabric` | real fabrics: check, route, study, collide |
| :mod:`silvan.traces` | traces of parallel applications |
| :mod:`silvan.plot`, :mod:`silvan.report` | figures; reports in HTML |
| :mod:`silvan.scenarios` | scenarios and studies that come with Silvan |
| :mod:`silvan.types` | types of the dictionaries in results, with units |

Most modules are imported when they are first used, so that ``import silvan`` is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from silvan import _starting  # noqa: F401 - takes effect when it is imported, before slower modules
from silvan._core import (
    FabricError,
    ModelError,
    Scenario,
    ScenarioError,
    SilvanError,
    TraceError,
    __version__,
    schema,
)

if TYPE_CHECKING:
    from silvan import fabric, plot, report, scenarios, traces, types
    from silvan._fluid import fluid
    from silvan.checkpoints import Checkpoints
    from silvan.comparison import compare
    from silvan.controlled import ControlledRun
    from silvan.flow_level import Contention, contention
    from silvan.forest import Forest
    from silvan.hardware import counters
    from silvan.live.widget import watch
    from silvan.results import Result, ResultError, load, run
    from silvan.sweeps import Measure, Study, SweepError, sweep
    from silvan.tuning import Tuning, tune

__all__ = [
    "Checkpoints",
    "Contention",
    "ControlledRun",
    "FabricError",
    "Forest",
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
    "compare",
    "contention",
    "counters",
    "fabric",
    "fluid",
    "load",
    "plot",
    "report",
    "run",
    "scenarios",
    "schema",
    "sweep",
    "traces",
    "tune",
    "types",
    "watch",
    "why",
]

_MODULES = frozenset(("fabric", "plot", "report", "scenarios", "traces", "transfers", "types"))
_MODULE_OF = {
    "Checkpoints": "checkpoints",
    "Contention": "flow_level",
    "ControlledRun": "controlled",
    "Forest": "forest",
    "Measure": "sweeps",
    "Result": "results",
    "ResultError": "results",
    "Study": "sweeps",
    "SweepError": "sweeps",
    "Tuning": "tuning",
    "compare": "comparison",
    "contention": "flow_level",
    "counters": "hardware",
    "fluid": "_fluid",
    "load": "results",
    "run": "results",
    "sweep": "sweeps",
    "tune": "tuning",
    "watch": "live.widget",
    "why": "delays",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"silvan.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module `silvan` has no attribute `{name}`")
    value = getattr(import_module(f"silvan.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
