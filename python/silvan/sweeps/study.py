"""Defines a study: a scenario, axes of values, seeds, and the measures of each run."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from silvan import _files, scenarios
from silvan._core import Scenario, ScenarioError
from silvan.sweeps.axes import RESERVED, Axis, Point, check_size, points, read_axis, read_seeds, refuse_dates
from silvan.sweeps.errors import Place, SweepError
from silvan.sweeps.measures import Measure, read_measure

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from silvan._store import Keep
    from silvan.results import Result

#: Maximum size of a study file in bytes.
TEXT_BYTES_AT_MOST = 4 << 20
#: Maximum length of a name in bytes. File systems allow 255 bytes, and names of partial folders are longer.
NAME_BYTES_AT_MOST = 200
#: Maximum number of parts of a dotted key. The memory of the TOML parser grows with the square of this
#: number.
KEY_PARTS_AT_MOST = 64
LONG_KEY = re.compile(rf"""(?:[\w"'-]+[ \t]*\.[ \t]*){{{KEY_PARTS_AT_MOST}}}""")
STUDY_KEYS = ("name", "description", "scenario", "seeds", "keep", "set", "axis", "measure")

#: A function of a finished run that returns a number, or several numbers by name.
Function = Callable[["Result"], "float | Mapping[str, float | None] | None"]


@dataclass(frozen=True)
class Base:
    """The scenario that a study varies, as data that can be sent to other processes."""

    text: str
    origin: str
    base_dir: str
    overrides: tuple[tuple[str, Any], ...] = ()

    def at(self, overrides: Mapping[str, Any]) -> Scenario:
        """Return the scenario with more overrides; raises :class:`silvan.ScenarioError` if it is invalid."""
        return Scenario.from_toml(
            self.text,
            origin=self.origin,
            base_dir=self.base_dir,
            overrides={**dict(self.overrides), **overrides},
        )


@dataclass(frozen=True)
class Study:
    """The runs of a sweep. :meth:`load` reads a study from a file.

    Raises :class:`SweepError` if the values are not consistent, or if there are too many runs.
    """

    name: str
    base: Base
    axes: tuple[Axis, ...] = ()
    seeds: tuple[int, ...] | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)
    measures: tuple[Measure, ...] = ()
    #: Measures that are Python functions, each with the name of its result if it returns one number.
    functions: tuple[tuple[str, Function], ...] = ()
    keep: Keep = "tables"
    description: str = ""
    place: Place = field(default_factory=lambda: Place("silvan.sweep"))

    def __post_init__(self) -> None:
        check_size(self.axes, self.seeds, self.place)
        columns = [name for axis in self.axes for name in (axis.name, *axis.together)]
        columns += [*(measure.name for measure in self.measures), *(name for name, _ in self.functions)]
        for n, name in enumerate(columns):
            if name in columns[:n]:
                self.place.fail("", f"two axes or measures are called `{name}`; rename one of them")
            if not name.isprintable():
                self.place.fail("", f"the axis or measure {name!r} has control characters in its name")
            if name in RESERVED:
                self.place.fail("", f"`{name}` is the name of another column; rename the axis or measure")
        keys = [key for axis in self.axes for key, _ in axis.settings]
        for n, key in enumerate(keys):
            if key in keys[:n]:
                self.place.fail("", f"two axes set `{key}`")
        if self.keep not in ("tables", "summary"):
            self.place.fail("keep", "must be `tables` or `summary`", self.keep)
        if self.functions and self.keep != "tables":
            self.place.fail("keep", 'functions as measures read the runs\' tables: they need keep = "tables"')

    def points(self) -> list[Point]:
        """Return the runs in the order of the table."""
        return points(self.axes, self.seeds, self.fixed, self.place)

    @staticmethod
    def load(path: str | PathLike[str], overrides: Mapping[str, Any] | None = None) -> Study:
        """Read a study from a file, or by the name of one that comes with Silvan.

        `overrides` are set in the scenario and replace an axis over the same key.

        Raises :class:`SweepError` or :class:`silvan.ScenarioError`, with file, line, key and value if known.
        """
        file = _located(path)
        table, place = read_toml(file, "a study")
        return _read(table, place, file, dict(overrides or {}))


def _located(path: str | PathLike[str]) -> Path:
    try:
        return scenarios.locate(path, "study")
    except ScenarioError as error:
        raise SweepError(str(error)) from None


def read_toml(file: Path, what: str) -> tuple[dict[str, Any], Place]:
    """Read a TOML file of limited size; error messages call the file `what`.

    Raises :class:`SweepError` if the file cannot be read, is not TOML, or is too long or nested too deeply.
    """
    try:
        with _files.plain(file).open("rb") as handle:
            data = handle.read(TEXT_BYTES_AT_MOST + 1)
        if len(data) > TEXT_BYTES_AT_MOST:
            raise SweepError(f"{file}: longer than {TEXT_BYTES_AT_MOST} bytes, the limit for {what}")
        text = data.decode()
        if LONG_KEY.search(text):
            raise SweepError(f"{file}: a key has more than {KEY_PARTS_AT_MOST} parts, the limit for {what}")
        return tomllib.loads(text), Place(str(file), text)
    except OSError as error:
        raise SweepError(f"{file}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise SweepError(f"{file}: not a text in UTF-8") from None
    except ValueError as error:  # raised for invalid TOML, and for integers with thousands of digits
        raise SweepError(f"{file}: not valid TOML: {error}") from None
    except RecursionError:
        raise SweepError(f"{file}: tables or lists nested too deeply for {what}") from None


def read_base(table: Mapping[str, Any], place: Place, file: Path) -> Base:
    """Read the scenario that a study file names, relative to the study file.

    Raises :class:`SweepError` if the key or the file is missing, and :class:`silvan.ScenarioError` if the
    scenario is invalid.
    """
    if "scenario" not in table:
        place.fail("", 'names no scenario: write scenario = "FILE", relative to this file')
    scenario = file.parent / place.text("scenario", table["scenario"])
    if not scenario.exists():
        place.fail("scenario", f"there is no file {scenario}", table["scenario"])
    return of_file(scenario)


def read_axis_tables(table: Mapping[str, Any], place: Place) -> list[Axis]:
    """Parse the tables ``[[axis]]``; raises :class:`SweepError` if one is invalid."""
    return [
        read_axis(f"axis.{n}", one, place) for n, one in enumerate(place.tables("axis", table.get("axis")))
    ]


def _read(table: dict[str, Any], place: Place, file: Path, overrides: dict[str, Any]) -> Study:
    place.keys("", table, STUDY_KEYS)
    base = read_base(table, place, file)
    axes = read_axis_tables(table, place)
    measures = [
        read_measure(f"measure.{n}", one, place)
        for n, one in enumerate(place.tables("measure", table.get("measure")))
    ]
    return Study(
        name=file_name("name", table.get("name", file.stem), place),
        description=place.text("description", table.get("description"), ""),
        base=base,
        axes=tuple(axis for axis in axes if not any(key in overrides for key, _ in axis.settings)),
        seeds=read_seeds("seeds", table.get("seeds"), place),
        fixed={**read_settings("set", table.get("set", {}), place), **overrides},
        measures=tuple(measures),
        keep=cast("Keep", place.text("keep", table.get("keep"), "tables")),
        place=place,
    )


def file_name(path: str, value: Any, place: Place) -> str:
    """Parse a name that is also used as the name of a folder.

    Raises :class:`SweepError` if the name is empty or too long, starts with a dot, or contains a slash or
    control characters.
    """
    name = place.text(path, value)
    if "/" in name or os.sep in name or name.startswith("."):
        place.fail(path, "is also the name of a folder: no slash, no dot in front", name)
    if not name.isprintable() or len(name.encode()) > NAME_BYTES_AT_MOST:
        what = f"is also the name of a folder: no control characters, at most {NAME_BYTES_AT_MOST} bytes"
        place.fail(path, what, name)
    return name


def read_settings(path: str, value: Any, place: Place) -> dict[str, Any]:
    """Parse a table of scenario keys and values, such as `[set]`; return the values by dotted key.

    A quoted key that contains dots acts like `--set`: its value, even a table, replaces the value in the
    scenario. Other tables (`congestion.mechanism = ...`, `[set.congestion]`) set only the keys that they
    contain. Raises :class:`SweepError` if `value` is not a table or contains a date.
    """
    if not isinstance(value, dict):
        place.fail(path, "must be a table of keys of the scenario and their values", value)
    for key, one in value.items():
        refuse_dates(f"{path}.{key}", one, place)
    return _flat(value)


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict) and "." not in key:
            found.update(_flat(value, f"{prefix}{key}."))
        else:
            found[prefix + key] = value
    return found


def of_file(path: Path) -> Base:
    """Read the scenario of a study from its file, or by the name of one that comes with Silvan.

    Raises :class:`silvan.ScenarioError` if the scenario is missing or invalid.
    """
    path = scenarios.locate(path)
    Scenario.load(path)  # raises the errors of the scenario file
    text = _files.read_text(path)
    return Base(text, str(path), str(path.parent.absolute()))


def of_scenario(scenario: Scenario) -> Base:
    """Return the base of a loaded scenario. Axes change the scenario's own text.

    The resolved text would contain defaults that conflict with the axes: for example, without a mechanism,
    marking and reaction are `none`.
    """
    base_dir = str(Path(scenario.base_dir).absolute())
    return Base(scenario.text, scenario.origin, base_dir, tuple(scenario.overrides))


def read_axes(axes: Mapping[str, Any] | Sequence[Mapping[str, Any]], place: Place) -> tuple[Axis, ...]:
    """Parse the axes of a call: lists of values or tables by key, or a list of tables as in a study file.

    Raises :class:`SweepError` if an axis is invalid.
    """
    tables = (
        [{"key": key, **(one if isinstance(one, Mapping) else {"values": one})} for key, one in axes.items()]
        if isinstance(axes, Mapping)
        else [dict(one) for one in axes]
    )
    for table in tables:
        # Accept arrays and ranges as well as lists.
        if "values" in table and not isinstance(table["values"], str):
            table["values"] = [getattr(value, "item", lambda v=value: v)() for value in table["values"]]
    return tuple(read_axis(f"axes.{n}", table, place) for n, table in enumerate(tables))


def read_measures(given: Any, place: Place) -> tuple[tuple[Measure, ...], tuple[tuple[str, Function], ...]]:
    """Parse the measures of a call: paths in the summary, tables, :class:`Measure`, or functions.

    Returns the functions separately. Raises :class:`SweepError` if a measure is invalid.
    """
    if given is None:
        return (), ()
    if isinstance(given, str | Measure) or callable(given):
        given = [given]
    named = list(given.items()) if isinstance(given, Mapping) else [(None, one) for one in given]
    measures: list[Measure] = []
    functions: list[tuple[str, Function]] = []
    for n, (name, one) in enumerate(named):
        if isinstance(one, Measure):
            measures.append(one)
        elif callable(one):
            functions.append((name or getattr(one, "__name__", f"measure {n}"), one))
        elif isinstance(one, str):
            measures.append(read_measure(f"measure.{n}", {"name": name or one, "summary": one}, place))
        elif isinstance(one, Mapping):
            table = {**one} if name is None else {"name": name, **one}
            measures.append(read_measure(f"measure.{n}", table, place))
        else:
            place.fail(f"measure.{n}", "must be a path in the summary, a table or a function", one)
    return tuple(measures), tuple(functions)
