"""Runs a scenario, and represents the result of a run."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import arro3.io
import numpy as np

from silvan import (
    _calibrated,
    _core,
    _files,
    _folder,
    _presets,
    _provenance,
    _tables,
    scenarios,
    sharing,
    steadiness,
)
from silvan import alone as _alone
from silvan._core import Scenario, ScenarioError, SilvanError
from silvan.forest import Forest
from silvan.types import Provenance, Summary

if TYPE_CHECKING:
    from arro3.core import Table
    from numpy.typing import NDArray

    from silvan.checkpoints import Checkpoints

#: The value of `warmup` for which a pilot run determines the warm-up.
AUTOMATIC = "auto"
#: Function that is called with the simulated time (ns), the end of the run (ns), and the number of events.
Progress = Callable[[int, int, int], object]


class Viewer(Protocol):
    """Receives the network and the samples of a run, as JSON, while the run progresses.

    An example is :class:`silvan.live.Recording`.
    """

    def network(self, text: str, /) -> int:
        """Receive the network at the start of the run; return n to receive every n-th sample."""

    def sample(self, text: str, /) -> object:
        """Receive a sample."""


class ResultError(SilvanError):
    """A folder of results cannot be written or read."""


class Result:
    """A finished run, from :func:`silvan.run` or read by :func:`silvan.load`.

    Tables (:attr:`flows`, :attr:`hosts`, :attr:`links`, :attr:`classes`, :attr:`latency`) are `arro3` tables.
    Any library that supports Arrow's PyCapsule interface reads them, for instance
    ``polars.from_arrow(result.flows)``. :attr:`columns` lists their columns; ``docs/results.md`` describes
    the columns and their units.
    """

    #: The resolved scenario in TOML, with all defaults.
    scenario_toml: str
    #: Scenario, program, machine and time; see :class:`silvan.types.Provenance` for keys and units.
    provenance: Provenance
    #: Totals and averages; see :class:`silvan.types.Summary` for keys and units.
    summary: Summary
    #: An account of the run, as a list of sentences.
    account: list[str]
    #: Keys of the scenario that had no effect, and limits that the run reached.
    warnings: list[str]
    #: Maps table names to tables. For a missing table, the `KeyError` states the reason, if it is known.
    tables: dict[str, Table]

    def __init__(
        self,
        *,
        scenario_toml: str,
        provenance: Provenance,
        summary: Summary,
        account: list[str],
        warnings: list[str],
        tables: dict[str, Table],
        columns: Mapping[str, _tables.Columns] | None = None,
    ) -> None:
        self.scenario_toml = scenario_toml
        self.provenance = provenance
        self.summary = summary
        self.account = account
        self.warnings = warnings
        self.tables = _tables.ByName(tables)
        # Columns as numpy arrays: either those of the simulator, or converted at the first use.
        self._coded: dict[str, _tables.ByColumn[_tables.Column]] = {
            name: _tables.ByColumn(name, own) for name, own in (columns or {}).items()
        }
        self._numpy: dict[str, _tables.ByColumn[NDArray[Any]]] = {}

    @cached_property
    def scenario(self) -> Scenario:
        """The resolved scenario."""
        return Scenario.from_toml(
            self.scenario_toml, origin="scenario.toml", base_dir=self.provenance.get("base_dir")
        )

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return str(self.provenance.get("scenario", "scenario"))

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """Column names by table. The name of a quantity with a unit ends with it, as in `time_ns`."""
        return {name: tuple(table.column_names) for name, table in self.tables.items()}

    def table(self, name: str) -> Table:
        """Return a table by name, as :attr:`tables` does."""
        return self.tables[name]

    @property
    def flows(self) -> Table:
        """Time series of the named flows."""
        return self.table("flows")

    @property
    def hosts(self) -> Table:
        """Time series of the hosts."""
        return self.table("hosts")

    @cached_property
    def machines(self) -> Table:
        """Time series of hosts with several ports: the sums over the ports of each.

        Its columns are those of :attr:`hosts`, with `machine` instead of `host`. Raises `KeyError` if all
        hosts have one port.
        """
        if "machines" not in self.summary:
            raise KeyError("no table `machines`: all hosts have one port (`ports` gives them more)")
        machines = [machine["machine"] for machine in self.summary["machines"]]
        of_port = {
            port: number
            for number, machine in enumerate(self.summary["machines"])
            for port in machine["ports"]
        }
        hosts = self.numpy("hosts")
        times, row = np.unique(hosts["time_ns"], return_inverse=True)
        number = np.array([of_port[port] for port in hosts["host"]], dtype=np.uint32)
        columns: dict[str, _tables.Column] = {
            "time_ns": np.repeat(times, len(machines)),
            "machine": (np.tile(np.arange(len(machines), dtype=np.uint32), len(times)), machines),
        }
        for name in ("received_bytes", "sent_bytes"):
            sums = np.zeros((len(times), len(machines)), dtype=np.uint64)
            np.add.at(sums, (row, number), hosts[name])
            columns[name] = sums.ravel()
        return _tables.to_arrow(columns)

    @property
    def links(self) -> Table:
        """Time series of the directed links."""
        return self.table("links")

    @property
    def classes(self) -> Table:
        """Time series of the classes of traffic."""
        return self.table("classes")

    @property
    def latency(self) -> Table:
        """Histograms of the packet latency."""
        return self.table("latency")

    @cached_property
    def forest(self) -> Forest:
        """The congestion trees; raises `KeyError` if the run did not record them (``measure.forest``)."""
        return Forest(self)

    def numpy(self, name: str) -> Mapping[str, NDArray[Any]]:
        """Return a table as arrays by column name; raises `KeyError` for a missing table.

        Numeric columns are read-only, and those of a new run share the simulator's memory. Columns of names
        become arrays of strings at the first call. For an unknown column, the `KeyError` lists the columns.
        """
        if name not in self._numpy:
            arrays: dict[str, NDArray[Any]] = {}
            for column, values in self.coded(name).items():
                if isinstance(values, tuple):
                    codes, names = values
                    arrays[column] = np.array(names, dtype=object)[codes]
                else:
                    arrays[column] = values
            self._numpy[name] = _tables.ByColumn(name, arrays)
        return self._numpy[name]

    def coded(self, name: str) -> _tables.Columns:
        """Return a table like :meth:`numpy`, but each column of names as indices and a list of names."""
        if name not in self._coded:
            self._coded[name] = _tables.ByColumn(name, _tables.of_arrow(self.table(name)))
        return self._coded[name]

    def save(self, folder: str | PathLike[str], *, force: bool = False) -> Path:
        """Write the run's folder completely or not at all; return its path.

        The run replaces an earlier run of a scenario with the same name; with `force`, a run of any scenario.
        Raises :class:`ResultError` if the folder contains anything else, or cannot be written.
        """
        try:
            return _folder.write(Path(folder), self, force=force)
        except OSError as error:
            raise ResultError(f"{folder}: {error.strerror or error}; nothing written") from error

    def csv(self, name: str) -> bytes:
        """Return a table as UTF-8 CSV, with the column names in the first line.

        Spreadsheets execute a cell that starts with ``=``, ``+``, ``-`` or ``@``. A name that starts with one
        of these characters, a tab or a carriage return is therefore preceded by an apostrophe.

        Raises `KeyError` for a missing table.
        """
        content = io.BytesIO()
        arro3.io.write_csv(_tables.plain(self.table(name)), content, header=True)
        return content.getvalue()

    def save_csv(self, folder: str | PathLike[str], tables: Iterable[str] | None = None) -> list[Path]:
        """Write tables (by default all) to ``NAME.csv`` in a folder; return the paths.

        Raises :class:`ResultError` if a file cannot be written, and `KeyError` for a missing table.
        """
        target, paths = Path(folder), []
        try:
            target.mkdir(parents=True, exist_ok=True)
            for name in self.tables if tables is None else tables:
                content = self.csv(name)
                with _files.replacing(target / f"{name}.csv") as partial:
                    partial.write_bytes(content)
                paths.append(target / f"{name}.csv")
        except OSError as error:
            raise ResultError(f"{_files.place(error) or folder}: {error.strerror or error}") from error
        return paths

    def _repr_html_(self) -> str:
        from silvan import _notebook

        return _notebook.of_result(self)

    def __repr__(self) -> str:
        seconds = self.summary.get("simulated_ns", 0) / 1e9
        return f"<silvan.Result {self.name!r}: {seconds:g} s simulated, tables {', '.join(self.tables)}>"


def run(
    scenario: Scenario | str | PathLike[str] | None = None,
    *,
    progress: Progress | None = None,
    alone: bool = False,
    viewer: Viewer | None = None,
    checkpoints: Checkpoints | None = None,
    resume: str | PathLike[str] | None = None,
    resume_other_build: bool = False,
    **overrides: object,
) -> Result:
    """Run a scenario to its end.

    Args:
        scenario: A scenario, its file, or the name of one that comes with Silvan, such as ``"testbed"``; with
            `resume`, it is optional.
        progress: Called at most five times a second with the simulated time (ns), the end of the run (ns),
            and the number of events.
        alone: Also run each job of the scenario alone on the network: ``summary["alone"]`` and the account
            then state how much slower the job is in the scenario, at which links, and which traffic shares
            them.
        viewer: Receives the network and samples while the run progresses.
        checkpoints: Where and when to save the run.
        resume: A checkpoint of the scenario, from which the run continues.
        resume_other_build: Also accept a checkpoint of another build of the same version of Silvan, whose
            results may differ. ``provenance["resumed"]`` names the builds.
        overrides: Values of the scenario by dotted key, with double underscores for dots:
            ``congestion__mechanism="ib-cc"``, or ``**{"congestion.mechanism": "ib-cc"}``. With
            ``warmup="auto"``, a pilot run determines the warm-up (:func:`silvan.steadiness.warm_up`).

    Raises:
        TypeError: neither a scenario nor a checkpoint is given.
        SilvanError: ``warmup="auto"``, and the pilot run is not level.
        ScenarioError: the scenario is wrong or, with `alone`, has no jobs; or the checkpoint is damaged or
            belongs to another scenario or build.
        ResultError: the file for checkpoints exists and is not a checkpoint, or its folder does not exist.
        ModelError: the run cannot be built or cannot continue.
        KeyboardInterrupt: Ctrl-C was pressed.

    """
    if scenario is None:
        if resume is None:
            raise TypeError("run() needs a scenario, or a checkpoint to resume")
        scenario = _core.checkpoint_scenario(resume, _provenance.build(), resume_other_build)
    if not isinstance(scenario, Scenario):
        scenario = scenarios.load(scenario)
    given = of_keywords(overrides)
    is_automatic = given.get("warmup") == AUTOMATIC
    if is_automatic:
        given["warmup"] = "0 s"
    if given:
        scenario = scenario.with_overrides(given)
    if is_automatic:
        scenario = scenario.with_overrides({"warmup": steadiness.warm_up(_run(scenario, progress))})
    if alone:
        # Raise errors before a long simulation.
        next(_alone.scenarios(scenario))
    if checkpoints is not None:
        checkpoints.prepare()
    result = _run(scenario, progress, viewer, checkpoints, resume, resume_other_build)
    add_notes(result, scenario)
    if alone:
        _alone.add(result, lambda own: _run(own, progress))
    return result


def add_notes(result: Result, scenario: Scenario) -> None:
    """Add sentences to the account of a finished run: what its tables and its settings imply."""
    sharing.add(result)
    steadiness.add(result)
    if note := _presets.note(scenario):
        result.account.append(note)
    if note := _calibrated.note(result.scenario_toml):
        result.account.append(note)


def of_keywords(overrides: Mapping[str, object]) -> dict[str, object]:
    """Replace double underscores in the keys of overrides by dots."""
    return {key.replace("__", "."): value for key, value in overrides.items()}


def _run(
    scenario: Scenario,
    progress: Progress | None,
    viewer: Viewer | None = None,
    checkpoints: Checkpoints | None = None,
    resume: str | PathLike[str] | None = None,
    other_build: bool = False,
) -> Result:
    started = time.time()
    # Only checkpoints need the name of the build, which takes some milliseconds.
    build = "" if checkpoints is None and resume is None else _provenance.build()
    done = _core.run(scenario, build, progress, viewer, checkpoints, resume, other_build)
    columns = {name: _tables.of_run(done.table(name)) for name in done.table_names}
    # Arrow panics if a code has no name. Only a damaged checkpoint causes this.
    if resume is not None and not all(map(_tables.has_all_names, columns.values())):
        raise ScenarioError(
            f"{fspath(resume)}: is incomplete or damaged (the tables refer to unknown names); "
            "use another checkpoint, or run the scenario from the start"
        )
    return of_run(scenario, started, done, columns)


def of_run(
    scenario: Scenario, started: float, done: _core.Run, columns: Mapping[str, _tables.Columns]
) -> Result:
    """Return the results of a run of the simulator, which began at `started` (Unix time)."""
    summary = done.summary
    return Result(
        scenario_toml=scenario.to_toml(standalone=True),
        provenance=_provenance.of_run(scenario, summary, started, done.parts),
        summary=summary,
        account=done.account,
        warnings=done.warnings,
        tables={name: _tables.to_arrow(table) for name, table in columns.items()},
        columns=columns,
    )


def load(folder: str | PathLike[str]) -> Result:
    """Read a folder that :meth:`Result.save` or ``silvan run --out`` wrote.

    Raises :class:`ResultError` if the folder contains no finished run, or if a file is damaged or cannot be
    read.
    """
    try:
        return Result(**_folder.read(Path(folder)))
    except _folder.NotARunError as error:
        raise ResultError(str(error)) from None
    except _folder.DamagedError as error:
        raise ResultError(f"{folder}: cannot be read as a run: {error}") from None
    except OSError as error:
        where = _files.place(error) or folder
        raise ResultError(f"{where}: cannot be read: {error.strerror or error}") from None
