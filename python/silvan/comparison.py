"""Compares runs: first the settings that differ, then the results, with confidence intervals over seeds.

Runs with the same settings and different seeds form a group. A difference between two groups has a 95 %
confidence interval if both have several seeds. If they have the same seeds, the interval is that of the
paired differences.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from silvan import _control
from silvan._core import SilvanError
from silvan._statistics import STUDENT, half_width
from silvan.fairness import jain_of_hosts

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

if TYPE_CHECKING:
    from silvan.results import Result
    from silvan.types import Summary, TransferSizes

#: Settings that do not change results, or change them only by chance.
_NOT_COMPARED = frozenset(("seed", "threads", "scheduler"))
#: Quantiles of slowdowns, their names, and the shares of the values that do not exceed them.
_QUANTILES: tuple[tuple[Literal["p50", "p95", "p99"], str, float], ...] = (
    ("p50", "median", 0.5),
    ("p95", "95 %", 0.95),
    ("p99", "99 %", 0.99),
)
#: Units of times, in ns.
_UNITS_NS = {
    "ps": Fraction(1, 1000),
    "ns": Fraction(1),
    "us": Fraction(10**3),
    "ms": Fraction(10**6),
    "s": Fraction(10**9),
}
#: Suffix of the names of measures that are numbers of finished transfers.
_COUNT = ": finished"
#: Words in the names of measures for which larger values are better, and for which smaller values are better.
_LARGER, _SMALLER = (
    ("received", "Jain's index"),
    ("latency", "slowdown", "unfinished", "span", "links in congestion trees"),
)
#: Maximum number of named flows. If there are more, their rates and latencies are not compared individually.
FLOWS_AT_MOST = 16


@dataclass(frozen=True)
class Group:
    """Runs with the same settings."""

    runs: tuple[Result, ...]
    #: Positions of the group's runs in the arguments, from 0.
    given: tuple[int, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the runs in the group."""
        return tuple(run.provenance["seed"] for run in self.runs)


@dataclass(frozen=True)
class Mean:
    """The mean of a measure over the runs of a group."""

    value: float
    #: Half-width of the 95 % confidence interval; None if the group has one run.
    half: float | None


@dataclass(frozen=True)
class Change:
    """The difference of a measure from the first group."""

    difference: float
    #: Limits of the 95 % confidence interval; None if one of the groups has only one run.
    low: float | None
    high: float | None

    @property
    def is_proven(self) -> bool | None:
        """Whether the interval excludes 0; None if there is no interval."""
        return None if self.low is None or self.high is None else self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Row:
    """The values of a measure in all groups."""

    measure: str
    unit: str
    #: One mean per group; None for a group that lacks this measure.
    means: tuple[Mean | None, ...]
    #: One change per group, except the first group; None if a mean is missing.
    changes: tuple[Change | None, ...]

    @property
    def is_count(self) -> bool:
        """Whether this row is the number of finished transfers whose quantiles are in other rows."""
        return self.measure.endswith(_COUNT)

    def is_loss(self, change: Change | None) -> bool:
        """Whether a change of this measure is a proven deterioration."""
        if change is None or not change.is_proven:
            return False
        signs = (1, _LARGER), (-1, _SMALLER)
        goal = next((sign for sign, words in signs if any(word in self.measure for word in words)), 0)
        return change.difference * goal < 0


@dataclass(frozen=True)
class Loss:
    """A measure that is proven to be worse in a group than in the first group."""

    #: Position of the group in `Comparison.groups`, at least 1.
    group: int
    row: Row
    change: Change

    @property
    def size(self) -> float:
        """The relative difference from the first group's mean, without sign; infinite if the mean is 0."""
        first = self.row.means[0]
        return abs(self.change.difference) / abs(first.value) if first and first.value else math.inf


@dataclass(frozen=True, repr=False)
class Comparison:
    """The result of :func:`silvan.compare`.

    A group has a mean of a quantile only if each of its runs has enough values, such as 100 for the 99th
    percentile.
    """

    groups: tuple[Group, ...]
    #: Keys whose values differ between groups, with one value per group; None if a group lacks the key.
    settings: dict[str, tuple[Any, ...]]
    rows: tuple[Row, ...]

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The proven losses, group by group, the largest relative difference first."""
        found = (
            Loss(number, row, change)
            for row in self.rows
            for number, change in enumerate(row.changes, 1)
            if change is not None and row.is_loss(change)
        )
        return tuple(sorted(found, key=lambda loss: (loss.group, -loss.size)))

    def __repr__(self) -> str:
        groups = " with ".join(f"{len(group.runs)} run{'s' * (len(group.runs) > 1)}" for group in self.groups)
        return f"<Comparison of {groups}: {len(self.settings)} settings differ, {len(self.rows)} results>"

    def _repr_html_(self) -> str:
        """Return the comparison as HTML for notebooks."""
        from silvan import _notebook

        return _notebook.of_comparison(self)


def compare(*runs: Result) -> Comparison:
    """Compare two or more runs: their settings, then their results.

    Args:
        runs: Results of :func:`silvan.run` or :func:`silvan.load`. Runs with the same settings and different
            seeds form a group, and their results are means with 95 % confidence intervals.

    Raises:
        SilvanError: fewer than two runs.

    """
    if len(runs) < 2:
        raise SilvanError(f"{len(runs)} run to compare; give two or more")
    flat = _settings(runs)
    groups = _groups(runs, flat)
    firsts = [flat[group.given[0]] for group in groups]
    for own in firsts:
        # A scenario without a mechanism is named by its components.
        own.setdefault("congestion.mechanism", _control.name(own))
    keys = list(dict.fromkeys(key for one in firsts for key in one))
    values = {key: tuple(one.get(key) for one in firsts) for key in keys if key not in _NOT_COMPARED}
    settings = {key: own for key, own in values.items() if any(value != own[0] for value in own)}
    return Comparison(tuple(groups), settings, tuple(_rows(groups)))


def groups_of(runs: Sequence[Result]) -> list[Group]:
    """Group runs with the same settings and different seeds, in the order of their first runs."""
    return _groups(runs, _settings(runs))


def _settings(runs: Sequence[Result]) -> list[dict[str, Any]]:
    return [dict(_flat(tomllib.loads(run.scenario_toml))) for run in runs]


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys and the values of nested tables; elements of lists of tables have numbers."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _flat(one, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for number, one in enumerate(value):
            yield from _flat(one, f"{path}.{number}")
    else:
        yield path, value


def _groups(runs: Sequence[Result], flat: Sequence[dict[str, Any]]) -> list[Group]:
    """Group runs by settings; a run whose seed is already in the group starts or joins another group."""
    found: list[list[int]] = []
    for number, own in enumerate(flat):
        settings = {key: value for key, value in own.items() if key not in _NOT_COMPARED}
        for members in found:
            same = {key: value for key, value in flat[members[0]].items() if key not in _NOT_COMPARED}
            if settings == same and own.get("seed") not in (flat[other].get("seed") for other in members):
                members.append(number)
                break
        else:
            found.append([number])
    return [Group(tuple(runs[number] for number in members), tuple(members)) for members in found]


def links_in_trees(result: Result) -> float:
    """Return the number of links in congestion trees, averaged over the samples after the warm-up."""
    after = result.summary["averages_from_ns"]
    samples = int((result.numpy("network")["time_ns"] > after).sum())
    return float((result.numpy("tree_links")["time_ns"] > after).sum()) / max(1, samples)


def size_range(sizes: TransferSizes) -> str:
    """Return a limit of a range of sizes of transfers in words, with a leading comma; empty for all sizes.

    The limit is the upper limit, or the lower limit of a range without an upper limit.
    """
    if "above_bytes" not in sizes:
        return ""
    if "up_to_bytes" not in sizes:
        return f", above {sizes['above_bytes'] / 1e6:g} MB"
    most = sizes["up_to_bytes"]
    return f", up to {most / 1e6:g} MB" if most >= 1e6 else f", up to {most / 1e3:g} kB"


def by_size(sizes: Sequence[TransferSizes]) -> list[TransferSizes]:
    """Return the rows of transfers, except ranges of sizes that contain all transfers of their class."""
    whole = {one["class"]: one["transfers"] for one in sizes if "above_bytes" not in one}
    return [one for one in sizes if "above_bytes" not in one or one["transfers"] < whole[one["class"]]]


def is_supported(share: float, count: int) -> bool:
    """Return whether `count` values are enough for the quantile `share`, from 0 to 1.

    For example, the 99th percentile of fewer than 100 values is only the largest value. Its expectation
    grows with the number of values.
    """
    return count > 0 and round(count * (1 - share), 9) >= 1


def measures(result: Result) -> dict[tuple[str, str], float]:
    """Return the numbers of a run that a comparison uses, by name and unit."""
    summary = result.summary
    found: dict[tuple[str, str], float] = {}
    # The rate of a job that has finished depends on how long the run continues.
    idle = _finished_before_end(result)
    if not idle:
        found["received by all hosts", "Gbit/s"] = summary["throughput_gbit_s"]
    flows = {flow["flow"] for flow in summary["flows"]}
    shown = {one["class"] for one in summary["classes"]} - (flows if len(flows) > FLOWS_AT_MOST else set())
    for one in summary["classes"]:
        if one["class"] in shown - idle:
            kind = "flow" if one["class"] in flows else "class"
            found[f"{kind} {one['class']}: received", "Gbit/s"] = one["received_gbit_s"]
    for row in summary["latency"]:
        if row["count"] and row["class"] in shown:
            name = f"{row['class']}: latency since {row['since']}"
            found[f"{name}, median", "us"] = row["p50_ns"] / 1000
            if is_supported(0.99, row["count"]):
                found[f"{name}, 99 %", "us"] = row["p99_ns"] / 1000
    found |= _of_transfers(summary)
    for job in summary.get("jobs", ()):
        # An unfinished job lasts until the end of the run, so its span is that of the run.
        if job["finished_ns"] is not None:
            found[f"job {job['job']}: span", "us"] = job["span_ns"] / 1000
        found[f"job {job['job']}: operations unfinished", ""] = job["unfinished_operations"]
    if "tree_links" in result.tables:
        found["links in congestion trees", ""] = links_in_trees(result)
    if (index := jain_of_hosts(summary)) is not None:
        found["Jain's index of the hosts", ""] = index
    found["packets marked (FECN)", ""] = summary["fecn_marks"]
    return found


def _of_transfers(summary: Summary) -> dict[tuple[str, str], float]:
    """Return the number and the slowdowns of transfers by class and range of sizes, if they were recorded."""
    found: dict[tuple[str, str], float] = {}
    if transfers := summary.get("transfers"):
        found["transfers unfinished", ""] = transfers["unfinished"]
        for own in by_size(transfers["sizes"]):
            of = f"transfers of {own['class']}{size_range(own)}"
            name = f"{of}: slowdown"
            found[f"{of}{_COUNT}", ""] = own["transfers"]
            for key, what, share in _QUANTILES:
                if not is_supported(share, own["transfers"]):
                    continue
                found[f"{name}, {what}", ""] = own["slowdown"][key]
                if "acked_slowdown" in own:
                    acked = f"{name} until the last acknowledgement, {what}"
                    found[acked, ""] = own["acked_slowdown"][key]
    return found


def _finished_before_end(result: Result) -> set[str]:
    """Return the jobs that finished before the last sampling interval of the run."""
    if not (jobs := result.summary.get("jobs")):
        return set()
    # A run may have been kept without its tables, so the time of the last sample is computed.
    interval = _time_ns(tomllib.loads(result.scenario_toml)["measure"]["interval"])
    begin = (math.ceil(result.summary["simulated_ns"] / interval) - 1) * interval
    return {job["job"] for job in jobs if job["finished_ns"] is not None and job["finished_ns"] < begin}


def _time_ns(written: str) -> Fraction:
    """Parse a time of a resolved scenario, such as "20 us"."""
    number, unit = written.split()
    return Fraction(number) * _UNITS_NS[unit]


def _rows(groups: Sequence[Group]) -> Iterator[Row]:
    found = [[measures(run) for run in group.runs] for group in groups]
    for name in dict.fromkeys(name for own in found for one in own for name in one):
        values = [[one[name] for one in own if name in one] for own in found]
        # If only some seeds of a group have a measure, its mean over the seeds is undefined.
        whole = [
            own if len(own) == len(group.runs) else [] for own, group in zip(values, groups, strict=True)
        ]
        means = tuple(_mean(own) for own in whole)
        changes = tuple(
            _change((groups[0], whole[0]), (group, own))
            for group, own in zip(groups[1:], whole[1:], strict=True)
        )
        yield Row(*name, means, changes)


def _mean(values: Sequence[float]) -> Mean | None:
    if not values:
        return None
    return Mean(math.fsum(values) / len(values), half_width(values) if len(values) > 1 else None)


def _change(first: tuple[Group, Sequence[float]], other: tuple[Group, Sequence[float]]) -> Change | None:
    (group, ours), (their_group, theirs) = first, other
    if not ours or not theirs:
        return None
    difference = math.fsum(theirs) / len(theirs) - math.fsum(ours) / len(ours)
    if min(len(ours), len(theirs)) < 2:
        return Change(difference, None, None)
    if set(group.seeds) == set(their_group.seeds):
        by_seed = dict(zip(group.seeds, ours, strict=True))
        half = half_width(
            [value - by_seed[seed] for seed, value in zip(their_group.seeds, theirs, strict=True)]
        )
    else:
        # Welch's interval. The degrees of freedom are those of the smaller group, which is conservative.
        freedom = min(len(ours), len(theirs)) - 1
        quantile = STUDENT[freedom - 1] if freedom <= len(STUDENT) else 1.96 + 2.5 / freedom
        half = quantile * math.sqrt(sum(float(np.var(own, ddof=1)) / len(own) for own in (ours, theirs)))
    return Change(difference, difference - half, difference + half)
