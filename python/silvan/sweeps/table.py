"""The result of a sweep: one row per run, as an Arrow table, a Parquet file, or an xarray dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from arro3.core import Array, DataType, Field, Schema, Table

from silvan import _files, _folder, results
from silvan._core import __version__
from silvan.sweeps.axes import Axis, Point, as_text
from silvan.sweeps.errors import SweepError

if TYPE_CHECKING:
    import xarray

    from silvan.results import Result


@dataclass(frozen=True)
class Failure:
    """A failed run, with its overrides and the error."""

    overrides: Mapping[str, Any]
    error: str

    def __str__(self) -> str:
        settings = " ".join(f"{key}={value}" for key, value in self.overrides.items())
        return f"{settings or 'the scenario as it is'}: {self.error}"


@dataclass(frozen=True)
class Row:
    """A run of a sweep."""

    #: The run's step along each axis, and the overrides of the steps.
    point: Point
    #: Seed; None if the run's scenario is invalid and the study lists no seeds.
    seed: int | None
    #: Address in the store; None if the run's scenario is invalid.
    address: str | None
    #: Folder in the store; None if the run failed.
    folder: Path | None
    #: Measures by name, in the units of :attr:`Sweep.measures`; None for a value that does not exist.
    values: Mapping[str, float | None]
    #: The reason why the run failed; None if it succeeded.
    error: str | None
    #: Quantities that are not in steady state after the warm-up; see :mod:`silvan.steadiness`.
    trends: tuple[str, ...] = ()
    #: Quantities with too few values for that test, and the duration in ns with which all have enough.
    untested: tuple[str, ...] = ()
    testable_at_ns: int | None = None


@dataclass(frozen=True)
class Sweep:
    """A finished sweep. The rows are in the order of the axes."""

    name: str
    description: str
    axes: tuple[Axis, ...]
    #: Unit of each measure, by name.
    measures: Mapping[str, str]
    rows: Sequence[Row]
    #: What the scenarios of the runs state about their calibration.
    calibrations: tuple[str, ...] = ()
    #: Number of runs that were already in the store.
    found: int = 0
    #: Number of runs that this sweep simulated.
    simulated: int = 0
    #: Folder of the table; None if it was not written.
    out: Path | None = None
    #: Wall-clock time in seconds.
    wall_s: float = 0.0

    @property
    def failures(self) -> list[Failure]:
        """The failed runs."""
        return [Failure(row.point.overrides, row.error) for row in self.rows if row.error is not None]

    @property
    def unsteady(self) -> list[str]:
        """The quantities that are not in steady state in at least one run."""
        return list(dict.fromkeys(quantity for row in self.rows for quantity in row.trends))

    @cached_property
    def table(self) -> Table:
        """The axes, seed, measures, quantities without steady state, error and address of each run."""
        fields: list[Field] = []
        arrays: list[Array] = []

        def add(name: str, values: list[Any], kind: DataType, unit: str = "") -> None:
            metadata = {"unit": unit} if unit else None
            fields.append(Field(name, kind, nullable=True, metadata=metadata))
            arrays.append(Array(values, type=kind))

        for n, axis in enumerate(self.axes):
            for name, labels in {axis.name: axis.labels, **axis.together}.items():
                kind, values = _column(labels)
                unit = axis.unit if name == axis.name else ""
                add(name, [values[row.point.steps[n]] for row in self.rows], kind, unit)
        add("seed", [row.seed for row in self.rows], DataType.uint64())
        for name, unit in self.measures.items():
            add(name, [row.values.get(name) for row in self.rows], DataType.float64(), unit)
        trends = ["; ".join(row.trends) or None for row in self.rows]
        add("not_in_steady_state", trends, DataType.utf8())
        add("error", [row.error for row in self.rows], DataType.utf8())
        add("run", [row.address for row in self.rows], DataType.utf8())
        return Table.from_arrays(arrays, schema=Schema(fields))

    def to_parquet(self, path: str | PathLike[str]) -> Path:
        """Write the table to a Parquet file, and return its path; raises `OSError` if that fails.

        The file does not depend on how the study was executed.
        """
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with _files.replacing(target) as partial:
            partial.write_bytes(_folder.parquet(self.table))
        return target

    def to_xarray(self) -> xarray.Dataset:
        """Return the measures as arrays over the axes and the seeds; NaN for failed runs and missing values.

        Attributes contain the units. Keys that change together with an axis are coordinates along that axis.
        Raises :class:`SweepError` without xarray.
        """
        try:
            import xarray
        except ImportError:
            raise SweepError("to_xarray needs xarray: pip install 'silvan[xarray]'") from None
        dims = [*(axis.name for axis in self.axes), "seed"]
        shape = [len(axis) for axis in self.axes]
        seeds = len(self.rows) // int(np.prod(shape, dtype=int))
        coords: dict[str, Any] = {}
        for axis in self.axes:
            coords[axis.name] = (axis.name, list(_column(axis.labels)[1]), _attributes(axis.unit))
            for key, values in axis.together.items():
                coords[key] = (axis.name, list(_column(values)[1]))
        coords["seed"] = ("seed", [row.seed for row in self.rows[:seeds]])
        data = {}
        for name, unit in self.measures.items():
            flat = [row.values.get(name) for row in self.rows]
            cube = np.array([np.nan if value is None else value for value in flat], dtype=np.float64)
            data[name] = (dims, cube.reshape(*shape, seeds), _attributes(unit))
        notes = {"name": self.name, "description": self.description, "silvan": __version__}
        return xarray.Dataset(data, coords, {key: value for key, value in notes.items() if value})

    def result(self, row: int) -> Result:
        """Read the run of a row in the table.

        Raises :class:`silvan.ResultError` if the run failed or cannot be read.
        """
        found = self.rows[row]
        if found.folder is None:
            raise results.ResultError(f"run {row} of the sweep failed: {found.error}")
        return results.load(found.folder)

    def _repr_html_(self) -> str:
        from silvan import _notebook

        return _notebook.of_sweep(self)

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        axes = " x ".join(f"{axis.name} ({len(axis)})" for axis in self.axes) or "no axes"
        return f"<silvan.Sweep {self.name!r}: {len(self.rows)} runs over {axes}{failed}>"


def _attributes(unit: str) -> dict[str, str]:
    return {"units": unit} if unit else {}


def _column(values: Sequence[Any]) -> tuple[DataType, Sequence[Any]]:
    """Return the type of a column for the values of an axis, and the values converted to this type."""
    if all(isinstance(value, bool) for value in values):
        return DataType.bool(), values
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    if numbers and all(isinstance(value, int) for value in values):
        return DataType.int64(), values
    if numbers:
        return DataType.float64(), [float(value) for value in values]
    return DataType.utf8(), [as_text(value) for value in values]
