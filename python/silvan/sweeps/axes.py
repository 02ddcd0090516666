"""Axes of a study: the values of scenario keys, and the points of the grid."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from typing import Any

from silvan.sweeps.errors import Place

#: Maximum number of runs in a study.
RUNS_AT_MOST = 100_000
#: Largest number in a range, because computations with larger numbers overflow.
LARGEST = 1e300
#: Largest whole number, which is stored with 64 bits.
MOST_WHOLE = 2**63 - 1

AXIS_KEYS = ("key", "values", "range", "unit", "name", "zip")
RANGE_KEYS = ("from", "to", "step", "count", "scale")
#: Names of other columns of the table.
RESERVED = ("seed", "run", "error")


@dataclass(frozen=True)
class Axis:
    """An axis with its name, its values, and the scenario keys that each value sets.

    `settings` usually has one key. It has several if keys change together.
    """

    name: str
    unit: str
    #: Label of each step in tables and figures.
    labels: tuple[Any, ...]
    #: For each scenario key, its values at all steps.
    settings: tuple[tuple[str, tuple[Any, ...]], ...]

    def __len__(self) -> int:
        return len(self.labels)

    def at(self, step: int) -> dict[str, Any]:
        """Return the overrides of one step."""
        return {key: values[step] for key, values in self.settings}

    @property
    def together(self) -> dict[str, tuple[Any, ...]]:
        """Keys with separate columns in the table, in addition to the column of the axis."""
        return {key: values for key, values in self.settings if len(self.settings) > 1 and key != self.name}


@dataclass(frozen=True)
class Point:
    """One run of a study."""

    #: Position along each axis.
    steps: tuple[int, ...]
    seed: int | None
    overrides: Mapping[str, Any]


def points(
    axes: Sequence[Axis], seeds: Sequence[int] | None, fixed: Mapping[str, Any], place: Place
) -> list[Point]:
    """Return all runs in order: the seeds change fastest, followed by the last axis.

    Raises :class:`SweepError` if there are too many runs.
    """
    check_size(axes, seeds, place)
    return list(_points(axes, seeds, fixed))


def check_size(axes: Sequence[Axis], seeds: Sequence[int] | None, place: Place) -> None:
    """Raise :class:`SweepError` if a study has too many runs."""
    total = math.prod(len(axis) for axis in axes) * len(seeds or (0,))
    if total > RUNS_AT_MOST:
        place.fail("axis", f"{total:,} runs in all; at most {RUNS_AT_MOST:,} are accepted")


def _points(axes: Sequence[Axis], seeds: Sequence[int] | None, fixed: Mapping[str, Any]) -> Iterator[Point]:
    for steps in itertools.product(*(range(len(axis)) for axis in axes)):
        overrides = dict(fixed)
        for axis, step in zip(axes, steps, strict=True):
            overrides.update(axis.at(step))
        for seed in seeds or (None,):
            own = overrides if seed is None else {**overrides, "seed": seed}
            yield Point(steps, seed, own)


def read_axis(path: str, table: dict[str, Any], place: Place) -> Axis:
    """Parse one ``[[axis]]``: `key` with `values` or a `range`, or a `zip` of keys.

    Raises :class:`SweepError` if the table is invalid.
    """
    place.keys(path, table, AXIS_KEYS)
    unit = place.text(f"{path}.unit", table.get("unit"), "")
    if ("key" in table) == ("zip" in table):
        place.fail(path, 'needs either `key = "..."` or `zip` with several keys and their lists')
    if "zip" in table:
        return _zipped(path, table, unit, place)
    key = _key(f"{path}.key", table["key"], place)
    if ("values" in table) == ("range" in table):
        place.fail(path, "needs either `values = [...]` or `range = { from = ..., to = ..., step = ... }`")
    values = (
        _list(f"{path}.values", table["values"], place)
        if "values" in table
        else read_range(f"{path}.range", table["range"], place)
    )
    settings = tuple(_with_unit(f"{path}.values", value, unit, place) for value in values)
    name = place.text(f"{path}.name", table.get("name"), key)
    return _axis(path, name, unit, values, ((key, settings),), place)


def _zipped(path: str, table: dict[str, Any], unit: str, place: Place) -> Axis:
    zipped = table["zip"]
    if not isinstance(zipped, dict) or not zipped:
        place.fail(f"{path}.zip", 'must be a table of lists, such as { "topology.k" = [4, 6] }', zipped)
    if "range" in table:
        labels = read_range(f"{path}.range", table["range"], place)
    elif "values" in table:
        labels = _list(f"{path}.values", table["values"], place)
    else:
        labels = None
    settings = []
    for key, values in zipped.items():
        _key(f"{path}.zip.{key}", key, place)
        settings.append((key, _list(f"{path}.zip.{key}", values, place)))
    first = settings[0][0]
    if labels is not None and "name" not in table:
        place.fail(path, "`values` are the labels of a zip's steps: also give the axis a `name`")
    steps = labels if labels is not None else settings[0][1]
    for key, values in settings:
        if len(values) != len(steps):
            place.fail(f"{path}.zip.{key}", f"has {len(values)} values, and the axis {len(steps)} steps")
    name = place.text(f"{path}.name", table.get("name"), first)
    return _axis(path, name, unit, steps, tuple(settings), place)


def _axis(
    path: str,
    name: str,
    unit: str,
    labels: tuple[Any, ...],
    settings: tuple[tuple[str, tuple[Any, ...]], ...],
    place: Place,
) -> Axis:
    if name in RESERVED:
        place.fail(f"{path}.name", f"`{name}` is the name of another column; choose a different name")
    shown = tuple(label(value) for value in labels)
    if len(set(shown)) < len(shown):
        twice = next(one for one, count in Counter(shown).items() if count > 1)
        place.fail(path, f"the value {twice!r} occurs twice")
    for value in (*labels, *(value for _, values in settings for value in values)):
        check_value(path, value, place)
    return Axis(name, unit, shown, settings)


def check_value(path: str, value: Any, place: Place) -> None:
    """Raise :class:`SweepError` for a value that the table of the runs cannot contain."""
    if isinstance(value, int) and not isinstance(value, bool) and not -MOST_WHOLE <= value <= MOST_WHOLE:
        place.fail(path, f"whole numbers are at most {MOST_WHOLE} in size", value)
    if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        place.fail(path, "is not text in UTF-8", value)
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    for item in inside:
        check_value(path, item, place)


def label(value: Any) -> Any:
    """Return the label of a value: the value itself, or text for a list or table."""
    return value if isinstance(value, str | int | float | bool) else as_text(value)


def as_text(value: Any) -> str:
    """Return a value as written in a scenario, but a string without quotes."""
    return value if isinstance(value, str) else _toml(value)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _key(path: str, value: Any, place: Place) -> str:
    key = place.text(path, value)
    if key == "seed":
        place.fail(path, "seeds are a separate axis: write `seeds = 5` or `seeds = [1, 2]`", key)
    return key


def _list(path: str, value: Any, place: Place) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple) or not value:
        place.fail(path, "must be a list with at least one value", value)
    refuse_dates(path, value, place)
    return tuple(value)


def refuse_dates(path: str, value: Any, place: Place) -> None:
    """Raise :class:`SweepError` if a value contains a date or a time of day: no scenario key accepts one."""
    if isinstance(value, date | time):
        place.fail(path, "is a date or a time of day, which no key of a scenario takes", str(value))
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    for item in inside:
        refuse_dates(path, item, place)


def _with_unit(path: str, value: Any, unit: str, place: Place) -> Any:
    if not unit:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        place.fail(path, f"the axis has the unit {unit}, so its values are numbers", value)
    return f"{value} {unit}"


def read_range(path: str, value: Any, place: Place) -> tuple[int | float, ...]:
    """Parse ``{ from, to, step }`` or ``{ from, to, count, scale }``; `to` is the last value.

    Raises :class:`SweepError` if the range is invalid.
    """
    if not isinstance(value, dict):
        place.fail(path, "must be a table such as { from = 0, to = 100, step = 10 }", value)
    place.keys(path, value, RANGE_KEYS)
    for key in ("from", "to", "step", "count"):
        number = value.get(key, 1)
        if isinstance(number, bool) or not isinstance(number, int | float) or not abs(number) <= LARGEST:
            place.fail(f"{path}.{key}", f"must be a number, at most {LARGEST:g} in size", number)
    if "from" not in value or "to" not in value or ("step" in value) == ("count" in value):
        place.fail(path, "needs `from`, `to`, and either `step` or `count`")
    first, last = value["from"], value["to"]
    scale = value.get("scale", "linear")
    if scale not in ("linear", "log"):
        place.fail(f"{path}.scale", "must be `linear` or `log`", scale)
    if scale == "log" and ("step" in value or first <= 0 or last <= 0):
        place.fail(path, "a log scale needs `count`, and two limits above zero")
    count = _count(path, value, place)
    whole = all(isinstance(value.get(key, 0), int) for key in ("from", "to", "step"))
    numbers = (_between(value, n, count, scale) for n in range(count))
    return tuple(round(x) if whole else float(f"{x:.12g}") for x in numbers)


def _count(path: str, value: dict[str, Any], place: Place) -> int:
    if "count" in value:
        count = value["count"]
        if not isinstance(count, int) or count < 2:
            place.fail(f"{path}.count", "must be a whole number of at least 2", count)
        if count > RUNS_AT_MOST:
            place.fail(f"{path}.count", f"must be at most {RUNS_AT_MOST:,}", float(count))
        return count
    step = value["step"]
    # Floats overflow to infinity instead of raising an error.
    way = float(value["to"]) - float(value["from"])
    steps = way / float(step) if step else math.nan
    if steps >= RUNS_AT_MOST:
        place.fail(f"{path}.step", f"gives more than {RUNS_AT_MOST:,} values, which is the maximum", step)
    if not steps >= 0 or abs(steps - round(steps)) > 1e-9 * max(1.0, steps):
        place.fail(path, "`step` must lead from `from` to `to` in whole steps", value)
    return round(steps) + 1


def _between(value: dict[str, Any], n: int, count: int, scale: str) -> float:
    first, last = float(value["from"]), float(value["to"])
    if "step" in value:
        return first + n * float(value["step"])
    part = n / (count - 1)
    if scale == "log":
        return float(first * (last / first) ** part)
    return first + (last - first) * part


def read_seeds(path: str, value: Any, place: Place) -> tuple[int, ...] | None:
    """Parse `seeds`: a number of seeds (1, 2, ...) or a list; None selects the scenario's own seed.

    Raises :class:`SweepError` for other values.
    """
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= RUNS_AT_MOST:
        return tuple(range(1, value + 1))
    seeds = tuple(value) if isinstance(value, list | tuple | range) else ()
    fine = all(
        isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed <= MOST_WHOLE for seed in seeds
    )
    if not seeds or not fine or len(set(seeds)) != len(seeds):
        what = f"must be the number of seeds (1, 2, ...), or a list of different seeds from 0 to {MOST_WHOLE}"
        place.fail(path, what, value)
    return seeds
