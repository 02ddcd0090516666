"""Runs a scenario many times, with different values of its keys and different seeds.

| module | what it does |
| --- | --- |
| `study` | reads a study: the scenario, axes, seeds, measures |
| `axes` | axes and the points of their grid |
| `measures` | numbers of a run, from its summary or its tables |
| `driver` | finds finished runs, executes the others, orders the rows |
| `worker` | executes one run |
| `executors`, `slurm`, `local_dask`, `remote_dask` | threads, processes or machines that execute runs |
| `table` | the result of a sweep |
| `figures` | figures of a sweep |
| `errors`, `schema` | error messages, and the JSON Schema of study files |

:mod:`silvan.commands.sweep` implements the command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from silvan._core import Scenario
from silvan._executor import DEFAULT_EXECUTOR
from silvan.sweeps.axes import read_seeds
from silvan.sweeps.errors import Place, SweepError
from silvan.sweeps.measures import Measure
from silvan.sweeps.study import Study, of_file, of_scenario, read_axes, read_measures

if TYPE_CHECKING:
    from silvan._store import Keep
    from silvan.sweeps.driver import Notify
    from silvan.sweeps.executors import Options
    from silvan.sweeps.table import Sweep

__all__ = ["Measure", "Study", "SweepError", "sweep"]

#: Default folder of the store of runs.
STORE = Path("out") / "runs"


def sweep(  # noqa: PLR0913 - most are named and have defaults
    scenario: Study | Scenario | str | PathLike[str],
    axes: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (),
    *,
    seeds: int | Sequence[int] | None = None,
    measure: Any = None,
    overrides: Mapping[str, Any] | None = None,
    keep: Keep = "tables",
    name: str = "sweep",
    executor: str | Executor = DEFAULT_EXECUTOR,
    jobs: int | None = None,
    options: Options | None = None,
    store: str | PathLike[str] = STORE,
    out: str | PathLike[str] | None = None,
    notify: Notify | None = None,
) -> Sweep:
    """Run a scenario at all points of a grid; runs that the store contains are not repeated.

    Args:
        scenario: A scenario, its file or its name; or a :class:`Study`, which has its own axes, seeds,
            measures, overrides, `keep` and name.
        axes: Values by dotted key, such as ``{"congestion.reaction.ccti_timer": [50, 150]}``. A value may
            also be a table as in a study file, such as ``{"range": {"from": 0, "to": 20, "step": 5}}``.
            Alternatively, a list of such tables with `key` or `zip`.
        seeds: Number of seeds (1, 2, ...), or a list of seeds; the scenario's seed by default.
        measure: A function of :class:`silvan.Result` that returns a number or numbers by name, a path in the
            summary (``"flows.F1.received_gbit_s"``), a :class:`Measure` or a table as in a study file; also a
            list of these, or a dict by name. By default, the numbers of the summary.
        overrides: Keys that are set in every run.
        keep: ``"tables"``, or ``"summary"`` to keep only a few kilobytes of each run.
        name: Name of the sweep.
        executor: ``"threads"``, ``"processes"``, ``"slurm"``, ``"dask"``, or any
            :class:`concurrent.futures.Executor`.
        jobs: Number of concurrent runs; the number of cores by default.
        options: Options of the executor, which then replace `jobs`: :class:`silvan.sweeps.executors.Options`.
        store: Folder of the runs.
        out: Folder for the table (Parquet) and its provenance; not written by default.
        notify: Called after each run; see :data:`silvan.sweeps.driver.Notify`.

    Returns:
        A :class:`silvan.sweeps.table.Sweep`: `.table`, `.to_xarray()`, `.to_parquet(path)`,
        `.failures`. A run that failed is a row with its error.

    Raises:
        SweepError: the study is wrong, `out` contains other files, or an executor is not available.
        ScenarioError: no run of the sweep has a valid scenario.

    """
    from silvan.sweeps.driver import run_study
    from silvan.sweeps.executors import Options as AllOptions

    if isinstance(scenario, Study):
        study = scenario
    else:
        place = Place("silvan.sweep")
        measures, functions = read_measures(measure, place)
        study = Study(
            name=name,
            base=of_scenario(scenario) if isinstance(scenario, Scenario) else of_file(Path(scenario)),
            axes=read_axes(axes, place),
            seeds=read_seeds("seeds", seeds, place),
            fixed=dict(overrides or {}),
            measures=measures,
            functions=functions,
            keep=keep,
            place=place,
        )
    return run_study(
        study,
        store=Path(store),
        out=None if out is None else Path(out),
        executor=executor,
        options=options or AllOptions(jobs=jobs, logs=Path(store) / "slurm"),
        notify=notify,
    )
