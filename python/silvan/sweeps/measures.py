"""Defines measures, which are numbers taken from a run's summary or tables."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from silvan import steadiness
from silvan.fairness import jain, treatment_variation
from silvan.sweeps.errors import Place, SweepError
from silvan.transfers import quantile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silvan.results import Result

#: Part of the names of stored values. Increase it when the meaning of a measure changes.
VERSION = 1

MEASURE_KEYS = (
    "name", "unit", "summary", "optional", "table", "column", "of", "over_time", "across", "statistic",
    "start", "end", "above", "up_to",
)  # fmt: skip
#: Column with the names in each table; empty if the table has one row per interval.
TABLES = {
    "flows": "flow",
    "hosts": "host",
    "links": "link",
    "classes": "class",
    "network": "",
    "transfers": "class",
}
#: Columns derived from others: Gbit/s from bytes per interval.
RATES = {"received_gbit_s": "received_bytes", "sent_gbit_s": "sent_bytes"}
#: Keys that identify an entry of a list in the summary.
CALLED = ("flow", "host", "class", "since", "link", "name", "job", "traffic", "group")
#: Longest duration of a run in seconds.
LONGEST_S = 3600.0
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12}
BYTES = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}

Along = Callable[["NDArray[Any]"], Any]
REDUCTIONS: dict[str, Along] = {
    "mean": lambda values: values.mean(axis=-1),
    "min": lambda values: values.min(axis=-1),
    "max": lambda values: values.max(axis=-1),
    "sum": lambda values: values.sum(axis=-1),
    "std": lambda values: values.std(axis=-1),
    "median": lambda values: np.median(values, axis=-1),
    "p5": lambda values: np.percentile(values, 5, axis=-1),
    "p95": lambda values: np.percentile(values, 95, axis=-1),
    "p99": lambda values: np.percentile(values, 99, axis=-1),
    "last": lambda values: values[..., -1],
}
ACROSS: dict[str, Along] = {
    **{name: REDUCTIONS[name] for name in ("mean", "min", "max", "sum", "std", "median")},
    "jain": jain,
}
#: Quantiles of transfers, as in the summary and in figures.
SHARES = {"median": 0.5, "p5": 0.05, "p95": 0.95, "p99": 0.99}
#: Reductions of transfers, which have one row each.
OF_TRANSFERS: dict[str, Along] = {
    **{name: REDUCTIONS[name] for name in ("mean", "min", "max", "sum", "std")},
    **{name: partial(quantile, share=share) for name, share in SHARES.items()},
    "count": np.size,
}
#: Statistics that reduce names and intervals together.
STATISTICS: dict[str, Along] = {"treatment_variation": treatment_variation}


class _MissingError(SweepError):
    """The summary does not contain the number of a measure."""


@dataclass(frozen=True)
class Measure:
    """A number of a run: an entry of its summary, or a statistic of a column of a table.

    A measure of a table uses the rows with the names in `of` (which may be patterns such as ``F[2-5]``) in
    the intervals between `start_s` and `end_s`, by default from the end of the warm-up to the end of the run.
    `over_time` reduces the values of each name, and `across` reduces the results of all names. Alternatively,
    `statistic` reduces all values together.

    The table ``transfers`` has a row per transfer instead of one per interval. `across` reduces the values of
    all transfers of the classes in `of` that started in the span, have a value, and have more than `above`
    and at most `up_to` bytes. Unfinished transfers have no slowdown.
    """

    name: str
    unit: str = ""
    summary: tuple[str, ...] = ()
    table: str = ""
    column: str = ""
    of: tuple[str, ...] = ("*",)
    over_time: str = "mean"
    across: str = "mean"
    statistic: str = ""
    start_s: float | None = None
    end_s: float | None = None
    above: float | None = None
    up_to: float | None = None
    #: Whether a run whose summary lacks the number has no value, instead of an error.
    optional: bool = False

    @property
    def needs_tables(self) -> bool:
        """Whether the measure needs more than the run's summary."""
        return not self.summary

    @property
    def note(self) -> str:
        """Name of the value in a store. Measures with the same meaning have the same name."""
        meaning = {
            key: value
            for key, value in asdict(self).items()
            if key not in ("name", "unit", "optional") and not (key in ("above", "up_to") and value is None)
        }
        text = json.dumps([VERSION, meaning], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def selects(self, name: str) -> bool:
        """Return whether `of` contains a name, or a pattern that it matches."""
        return any(name == one or fnmatchcase(name, one) for one in self.of)

    def span_ns(self, result: Result) -> tuple[float, float]:
        """Return the start and the end of the time span in ns; the end is infinite if none is given."""
        return (
            result.summary["averages_from_ns"] if self.start_s is None else self.start_s * 1e9,
            np.inf if self.end_s is None else self.end_s * 1e9,
        )

    def of_run(self, result: Result) -> float | None:
        """Return the value; None if it does not exist, such as the latency of a flow without packets.

        Raises :class:`SweepError` if the run lacks the table, column or key.
        """
        return (
            self.of_summary(result.summary) if self.summary else number(self._from_table(result), self.name)
        )

    def note_of_trend(self, averaged: int) -> str:
        """Return the name of the stored answer of :meth:`has_trend`, for a number of averaged measures."""
        return f"{self.note}-trend-{averaged}"

    @property
    def is_averaged(self) -> bool:
        """Whether the measure averages a time series, so that it describes a network in steady state."""
        return self.table not in ("", "transfers") and not self.statistic and self.over_time == "mean"

    def has_trend(self, result: Result, error: float = steadiness.ERROR) -> bool:
        """Return whether the averaged time series has a trend; see :mod:`silvan.steadiness`.

        In each interval, the values of all names are reduced as `across` says. `error` is the probability of
        a trend by chance. The result is False for measures that average no time series, for series with fewer
        than :data:`silvan.steadiness.LEAST` values, and if the traffic changes during the averaged time.
        """
        found = result.summary.get("steadiness")
        if not self.is_averaged or found is None or found["changes"]:
            return False
        values = np.array([ACROSS[self.across](column) for column in _grid(result, self).T])
        values = values[np.isfinite(values)]
        return len(values) >= steadiness.LEAST and steadiness.trend(values, error) is not None

    def of_summary(self, summary: Mapping[str, Any]) -> float | None:
        """Return the value of a measure that needs no tables; raises the same errors as :meth:`of_run`."""
        try:
            return number(_from_summary(summary, self.summary, self.name), self.name)
        except _MissingError:
            if self.optional:
                return None
            raise

    def _from_table(self, result: Result) -> Any:
        if self.table == "transfers":
            values = _transfers(result, self)
            return OF_TRANSFERS[self.across](values) if values.size or self.across == "count" else None
        values = _grid(result, self)
        if self.statistic:
            return STATISTICS[self.statistic](values)
        return ACROSS[self.across](REDUCTIONS[self.over_time](values))


def number(value: object, name: str) -> float | None:
    """Return the value of a measure as a float; None for None and for values that are not finite.

    Raises :class:`SweepError` if it is not a number.
    """
    if value is None:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, int | float):
        raise SweepError(f"measure `{name}` gave {value!r}, which is not a number")
    return float(value) if math.isfinite(value) else None


def _from_summary(summary: Mapping[str, Any], path: tuple[str, ...], name: str) -> Any:
    here: Any = summary
    for depth, segment in enumerate(path):
        try:
            here = _step(here, segment)
        except KeyError:
            known = _names(here, path[:depth])
            hint = f"; there are {known}" if known else ""
            missing = ".".join(path[: depth + 1])
            raise _MissingError(f"measure `{name}`: the summary has no `{missing}`{hint}") from None
    if isinstance(here, list | dict):
        raise SweepError(
            f"measure `{name}`: `{'.'.join(path)}` of the summary is not a number; "
            f"continue with one of {_names(here, path)}"
        )
    return here


def _step(here: Any, segment: str) -> Any:
    """Return a member of a dictionary or list in the summary; members of lists are found by name."""
    if isinstance(here, dict):
        return here[segment]
    found = [one for one in here if segment in _called(one)] if isinstance(here, list) else []
    if not found:
        raise KeyError(segment)
    return found[0] if len(found) == 1 else found


def _called(entry: Mapping[str, Any]) -> list[str]:
    return [entry[field] for field in CALLED if field in entry]


def _names(here: Any, path: tuple[str, ...]) -> str:
    """Return a few names that can follow a path in the summary."""
    names = list(here) if isinstance(here, dict) else []
    if isinstance(here, list):
        fresh = ([name for name in _called(one) if name not in path] for one in here)
        names = list(dict.fromkeys(one[0] for one in fresh if one))
    return _few(names)


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")


def _grid(result: Result, measure: Measure) -> NDArray[np.float64]:
    """Return the values of a column, with a row per name and a column per interval of the span."""
    columns = result.coded(measure.table)
    arrays = {name: values for name, values in columns.items() if not isinstance(values, tuple)}
    column = RATES.get(measure.column, measure.column)
    if column not in arrays:
        rates = [rate for rate, source in RATES.items() if source in arrays]
        known = ", ".join([*rates, *(name for name in arrays if name != "time_ns")])
        raise SweepError(
            f"measure `{measure.name}`: `{measure.table}` has no column `{measure.column}`; there are {known}"
        )
    ends, steps = np.unique(arrays["time_ns"], return_inverse=True)
    coded = columns.get(TABLES[measure.table])
    codes, names = coded if isinstance(coded, tuple) else (np.zeros(len(steps), dtype=np.uint32), [""])
    present = set(np.unique(codes).tolist())
    chosen = [code for code, name in enumerate(names) if code in present and measure.selects(name)]
    if not chosen:
        what = f"names like {', '.join(measure.of)}" if present else "rows at all"
        hint = f"; there are {_few(names)}" if present else f"; see measure.{measure.table} of the scenario"
        raise SweepError(f"measure `{measure.name}`: the table `{measure.table}` has no {what}{hint}")
    grid = np.zeros((len(names), len(ends)))
    grid[codes, steps] = arrays[column]
    spans_ns = np.diff(ends.astype(np.float64), prepend=0.0)
    if measure.column in RATES:
        grid *= 8.0 / spans_ns
    return grid[chosen][:, _inside(result, measure, ends.astype(np.float64), spans_ns)]


def _transfers(result: Result, measure: Measure) -> NDArray[np.float64]:
    """Return the values of a column of the transfers that a measure selects, without missing values."""
    if "transfers" not in result.tables:
        raise SweepError(
            f"measure `{measure.name}`: no transfers were recorded; set measure.transfers = true"
        )
    columns = result.coded("transfers")
    arrays = {name: values for name, values in columns.items() if not isinstance(values, tuple)}
    if measure.column not in arrays:
        raise SweepError(
            f"measure `{measure.name}`: `transfers` has no column `{measure.column}`; "
            f"there are {', '.join(arrays)}"
        )
    classes = result.numpy("transfers")["class"]
    present = [str(name) for name in np.unique(classes)]
    chosen = [name for name in present if measure.selects(name)]
    if len(classes) and not chosen:
        raise SweepError(
            f"measure `{measure.name}`: the table `transfers` has no classes like {', '.join(measure.of)}; "
            f"there are {_few(present)}"
        )
    start_ns, end_ns = measure.span_ns(result)
    values = arrays[measure.column].astype(np.float64)
    selected = (
        np.isin(classes, chosen)
        & (arrays["start_ns"] >= start_ns)
        & (arrays["start_ns"] <= end_ns)
        & (arrays["bytes"] > (0.0 if measure.above is None else measure.above))
        & (arrays["bytes"] <= (np.inf if measure.up_to is None else measure.up_to))
        & ~np.isnan(values)
    )
    return values[selected]


def _inside(
    result: Result, measure: Measure, ends_ns: NDArray[np.float64], spans_ns: NDArray[np.float64]
) -> NDArray[np.bool_]:
    start_ns, end_ns = measure.span_ns(result)
    inside: NDArray[np.bool_] = (ends_ns - spans_ns >= start_ns - 0.5) & (ends_ns <= end_ns + 0.5)
    if not inside.any():
        raise SweepError(
            f"measure `{measure.name}`: no sampling interval is between {start_ns * 1e-9:g} s and "
            f"{min(end_ns, ends_ns[-1] if len(ends_ns) else 0.0) * 1e-9:g} s"
        )
    return inside


def read_measure(path: str, table: dict[str, Any], place: Place) -> Measure:
    """Parse one ``[[measure]]`` of the `summary`, or of a `column` of a `table`.

    Raises :class:`SweepError` if the measure is invalid.
    """
    place.keys(path, table, MEASURE_KEYS)
    name = place.text(f"{path}.name", table.get("name"))
    unit = place.text(f"{path}.unit", table.get("unit"), "")
    if ("summary" in table) == ("table" in table):
        place.fail(path, 'needs either `summary = "path.in.the.summary"` or `table` and `column`')
    if "summary" in table:
        extra = [key for key in table if key not in ("name", "unit", "summary", "optional")]
        if extra:
            place.fail(f"{path}.{extra[0]}", "is for measures of a `table`, not of the `summary`")
        optional = table.get("optional", False)
        if not isinstance(optional, bool):
            place.fail(f"{path}.optional", "must be true or false", optional)
        return Measure(
            name, unit, summary=_path(f"{path}.summary", table["summary"], place), optional=optional
        )
    if "optional" in table:
        place.fail(f"{path}.optional", "is for measures of the `summary`, not of a `table`")
    kind = _choice(f"{path}.table", table["table"], TABLES, place)
    if "statistic" in table and ("over_time" in table or "across" in table):
        place.fail(f"{path}.statistic", "reduces names and intervals together: omit `over_time` and `across`")
    of_transfers = kind == "transfers"
    for key in ("over_time", "statistic") if of_transfers else ("above", "up_to"):
        if key in table:
            place.fail(
                f"{path}.{key}",
                "the table `transfers` has a row per transfer, not per interval: use `across` alone"
                if of_transfers
                else "is for measures of the table `transfers`",
            )
    above, up_to = (_bytes(f"{path}.{key}", table.get(key), place) for key in ("above", "up_to"))
    if above is not None and up_to is not None and above >= up_to:
        place.fail(f"{path}.up_to", "must be more than `above`", table["up_to"])
    if kind == "network" and ("of" in table or "across" in table):
        place.fail(path, "the table `network` has no names: omit `of` and `across`")
    of = table.get("of", ["*"])
    of = [of] if isinstance(of, str) else of
    if not isinstance(of, list | tuple) or not of or not all(isinstance(one, str) for one in of):
        place.fail(f"{path}.of", 'must be names or patterns, such as ["F2", "F3"] or "F[2-5]"', of)
    return Measure(
        name,
        unit,
        table=kind,
        column=place.text(f"{path}.column", table.get("column")),
        of=tuple(of),
        over_time=_choice(f"{path}.over_time", table.get("over_time", "mean"), REDUCTIONS, place),
        across=_choice(
            f"{path}.across", table.get("across", "mean"), OF_TRANSFERS if of_transfers else ACROSS, place
        ),
        statistic=_choice(f"{path}.statistic", table["statistic"], STATISTICS, place)
        if "statistic" in table
        else "",
        start_s=_seconds(f"{path}.start", table.get("start"), place),
        end_s=_seconds(f"{path}.end", table.get("end"), place),
        above=above,
        up_to=up_to,
    )


def _path(path: str, value: Any, place: Place) -> tuple[str, ...]:
    if isinstance(value, list) and value and all(isinstance(part, str) and part for part in value):
        return tuple(value)
    parts = tuple(place.text(path, value).split("."))
    if not all(parts):
        place.fail(path, 'must be a dotted path, such as "flows.F1.received_gbit_s"', value)
    return parts


def _choice(path: str, value: Any, known: Mapping[str, Any], place: Place) -> str:
    if not isinstance(value, str) or value not in known:
        place.fail(path, "must be one of " + ", ".join(f"`{name}`" for name in known), value)
    return value


def _seconds(path: str, value: Any, place: Place) -> float | None:
    seconds = _quantity(path, value, SECONDS, 'a time; write for example "150 us" (ps, ns, us, ms, s)', place)
    if seconds is not None and seconds > LONGEST_S:
        place.fail(path, f"must be at most {LONGEST_S:g} s, the longest duration of a run", value)
    return seconds


def _bytes(path: str, value: Any, place: Place) -> float | None:
    return _quantity(path, value, BYTES, f'a size; write for example "100 kB" ({", ".join(BYTES)})', place)


def _quantity(path: str, value: Any, units: Mapping[str, float], right: str, place: Place) -> float | None:
    """Parse a number with a unit, and convert it; None if the key is not given."""
    if value is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", value) if isinstance(value, str) else None
    if match is None or match[2] not in units:
        place.fail(path, f"not {right}", value)
    return float(match[1]) * units[match[2]]


def defaults(summary: Mapping[str, Any]) -> list[Measure]:
    """Return the default measures: the numbers at the top level of the summary, except two times."""
    return [
        Measure(key, _unit(key), summary=(key,))
        for key, value in summary.items()
        if isinstance(value, int | float) and key not in ("simulated_ns", "averages_from_ns")
    ]


def _unit(key: str) -> str:
    return next((unit for end, unit in (("gbit_s", "Gbit/s"), ("_ns", "ns")) if key.endswith(end)), "")
