"""Running a scenario, and what a run gives."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from silvan import _core, _folder, _provenance, _tables
from silvan import alone as _alone
from silvan._core import Scenario, SilvanError
from silvan.forest import Forest

if TYPE_CHECKING:
    from arro3.core import Table
    from numpy.typing import NDArray

#: Called with simulated nanoseconds, those of the end, and events so far.
Progress = Callable[[int, int, int], object]


class ResultError(SilvanError):
    """A folder of results cannot be written or read."""


class Result:
    """A finished run, fresh from :func:`run` or read back by :func:`load`.

    Tables (:attr:`flows`, :attr:`hosts`, :attr:`links`, :attr:`classes`, :attr:`latency`) are `arro3` tables:
    anything that speaks Arrow's PyCapsule interface takes them as they are, for instance
    ``polars.from_arrow(result.flows)``. Their columns are described in ``docs/results.md``.
    """

    def __init__(
        self,
        *,
        scenario_toml: str,
        provenance: dict[str, Any],
        summary: dict[str, Any],
        account: list[str],
        warnings: list[str],
        tables: dict[str, Table],
        columns: dict[str, _tables.Columns] | None = None,
    ) -> None:
        self.scenario_toml = scenario_toml
        self.provenance = provenance
        self.summary = summary
        self.account = account
        self.warnings = warnings
        self.tables = tables
        #: Tables as numpy has them: those of the simulator, or made at the first call.
        self._columns = dict(columns or {})
        self._numpy: dict[str, dict[str, NDArray[Any]]] = {}

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

    def table(self, name: str) -> Table:
        """Return a table by name."""
        try:
            return self.tables[name]
        except KeyError:
            raise KeyError(f"no table `{name}`; there are {', '.join(self.tables)}") from None

    @property
    def flows(self) -> Table:
        """Named flows over time."""
        return self.table("flows")

    @property
    def hosts(self) -> Table:
        """Hosts over time."""
        return self.table("hosts")

    @property
    def links(self) -> Table:
        """Directed links over time."""
        return self.table("links")

    @property
    def classes(self) -> Table:
        """Classes of traffic (flows and patterns) over time."""
        return self.table("classes")

    @property
    def latency(self) -> Table:
        """Latency histograms."""
        return self.table("latency")

    @cached_property
    def forest(self) -> Forest:
        """The congestion trees; raises `KeyError` where they were not recorded (``measure.forest``)."""
        return Forest(self)

    def numpy(self, name: str) -> dict[str, NDArray[Any]]:
        """Return a table as arrays by column name.

        Numbers of a fresh run are read in place; all are read-only. Columns of names become arrays
        of texts, made at the first call.
        """
        if name not in self._numpy:
            arrays: dict[str, NDArray[Any]] = {}
            for column, values in self.columns(name).items():
                if isinstance(values, tuple):
                    codes, names = values
                    arrays[column] = np.array(names, dtype=object)[codes]
                else:
                    arrays[column] = values
            self._numpy[name] = arrays
        return self._numpy[name]

    def columns(self, name: str) -> _tables.Columns:
        """Return a table as :meth:`numpy` does, but columns of names as codes and list of names."""
        if name not in self._columns:
            self._columns[name] = _tables.of_arrow(self.table(name))
        return self._columns[name]

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write the run's folder, all of it or nothing; return its path.

        An earlier run's folder of the same name is replaced, if it holds nothing but what a run
        writes; any other folder with something in it is refused with :class:`ResultError`.
        """
        try:
            return _folder.write(Path(folder), self)
        except OSError as error:
            raise ResultError(f"{folder}: {error.strerror or error}; nothing written") from error

    def _repr_html_(self) -> str:
        from silvan import _notebook

        return _notebook.of_result(self)

    def __repr__(self) -> str:
        seconds = self.summary.get("simulated_ns", 0) / 1e9
        return f"<silvan.Result {self.name!r}: {seconds:g} s simulated, tables {', '.join(self.tables)}>"


def run(
    scenario: Scenario | str | PathLike[str],
    *,
    progress: Progress | None = None,
    alone: bool = False,
    **overrides: object,
) -> Result:
    """Run a scenario (or the file of one) to its end.

    Overrides name their keys with double underscores for dots: ``congestion__mechanism="ib-cc"``
    (or as given, ``**{"congestion.mechanism": "ib-cc"}``). Other threads go on running. Ctrl-C
    raises `KeyboardInterrupt` within a fraction of a second.

    With `alone`, each job of the scenario runs once more, alone on the network; ``summary["alone"]`` and
    the account then say how much slower it is beside all else, at which links, and who shares them.
    """
    if not isinstance(scenario, Scenario):
        scenario = Scenario.load(scenario)
    if overrides:
        scenario = scenario.with_overrides(
            {key.replace("__", "."): value for key, value in overrides.items()}
        )
    if alone:
        # Better now than after an hour.
        next(_alone.scenarios(scenario))
    result = _run(scenario, progress)
    if alone:
        _alone.add(result, lambda own: _run(own, progress))
    return result


def _run(scenario: Scenario, progress: Progress | None) -> Result:
    started = time.time()
    done = _core.run(scenario, progress)
    summary = done.summary
    columns = {name: _tables.of_run(done.table(name)) for name in done.table_names}
    return Result(
        scenario_toml=scenario.to_toml(standalone=True),
        provenance=_provenance.of_run(scenario, summary, started, done.wall_s),
        summary=summary,
        account=done.account,
        warnings=done.warnings,
        tables={name: _tables.to_arrow(table) for name, table in columns.items()},
        columns=columns,
    )


def load(folder: str | PathLike[str]) -> Result:
    """Read back what :meth:`Result.save` or ``silvan run --out`` wrote."""
    try:
        return Result(**_folder.read(Path(folder)))
    except _folder.NotARunError as error:
        raise ResultError(str(error)) from None
    except _folder.DamagedError as error:
        raise ResultError(f"{folder}: cannot be read as a run: {error}") from None
    except OSError as error:
        where = error.filename or folder
        raise ResultError(f"{where}: cannot be read: {error.strerror or error}") from None
