"""Compares runs: first the settings that differ, then the results, with confidence intervals over seeds.

Runs with the same settings and different seeds form a group. The change of a measure between two groups is
the ratio of their means, with a 95 % confidence interval if both have several seeds. If they have the same
seeds, values of the same seed are compared. A change is *better* or *worse* if all of these conditions hold,
and otherwise *no difference* is *shown*:

- each group has at least three seeds;
- chance explains it with a probability that passes Holm's correction for all changes of the comparison, so
  that all such verdicts together are wrong with a probability of at most 5 %;
- the measure has a direction: a larger or a smaller value is better;
- the measure is tested and in steady state in all runs (see :mod:`silvan.steadiness`), and its traffic has
  not ended.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from silvan import _calibrated, _control, _series, steadiness
from silvan._core import SilvanError
from silvan._statistics import SEEDS_TO_PROVE, Difference, Interval, change, holm, mean
from silvan.quantities import COUNT, Name, direction, resolution, subject, with_reasons

if TYPE_CHECKING:
    from silvan.results import Result

#: Settings that do not change results, or change them only by chance.
_NOT_COMPARED = frozenset(("seed", "threads", "scheduler"))
#: Keys that define the network and the traffic of a scenario. Rates and placements of traffic are settings.
_NETWORK = re.compile(r"topology\..+")
_TRAFFIC = re.compile(
    r"flow\.\d+\.(name|from|to)|traffic\.\d+\.(name|hosts|pattern\.(kind|to|file))|job\.\d+\.(name|program\..+)"
)
#: Maximum number of keys in a sentence about groups that differ.
_NAMED = 4

Verdict = Literal["better", "worse", "no difference shown", "not in steady state", "no verdict"]


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
class Change:
    """The difference of a measure from the first group."""

    #: Mean of this group minus mean of the first group.
    difference: float
    #: Difference as a share of the first mean, at least -1, with its 95 % confidence interval; None if the
    #: first mean is 0. The limits are None if one of the groups has only one run.
    relative: Interval | None
    #: Probability of at least such a difference by chance, without correction; None without an interval.
    p: float | None
    verdict: Verdict
    #: Why there is no verdict; empty if there is one.
    reason: str = ""

    @property
    def is_proven(self) -> bool:
        """Whether the change is proven, in either direction."""
        return self.verdict in {"better", "worse"}


@dataclass(frozen=True)
class Row:
    """The values of a measure in all groups."""

    measure: str
    unit: str
    #: One mean per group, with its 95 % confidence interval; None for a group that lacks this measure.
    means: tuple[Interval | None, ...]
    #: One change per group, except the first group; None if a mean is missing.
    changes: tuple[Change | None, ...]
    #: Why a group lacks the mean; empty if it has the mean.
    missing: tuple[str, ...]

    @property
    def is_count(self) -> bool:
        """Whether this row is the number of finished transfers whose quantiles are in other rows."""
        return self.measure.endswith(COUNT)

    @property
    def differs(self) -> bool:
        """Whether the groups have different means or intervals."""
        return any(mean != self.means[0] for mean in self.means)

    def is_loss(self, change: Change | None) -> bool:
        """Whether a change of this measure is a proven deterioration."""
        return change is not None and change.verdict == "worse"


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
        return math.inf if self.change.relative is None else abs(self.change.relative.value)


@dataclass(frozen=True, repr=False)
class Comparison:
    """The result of :func:`silvan.compare`.

    A group has a mean of a quantity only if each of its runs has enough values, such as 100 for the 99th
    percentile.
    """

    groups: tuple[Group, ...]
    #: Keys whose values differ between groups, with one value per group; None if a group lacks the key.
    settings: dict[str, tuple[Any, ...]]
    rows: tuple[Row, ...]
    #: Sentences about groups with different networks or traffic; empty if groups are comparable.
    incomparable: tuple[str, ...] = ()

    @property
    def tests(self) -> int:
        """The number of changes in Holm's correction: those of rows that differ and may get a verdict."""
        return sum(1 for row in self.rows for change in row.changes if _is_tested(row, change))

    @property
    def notes(self) -> list[tuple[str, list[str]]]:
        """The reasons for missing values and verdicts, each with its measures."""
        found: dict[str, list[str]] = {}
        for row in self.rows:
            if row.differs:
                reasons = [*row.missing, *(change.reason for change in row.changes if change is not None)]
                for reason in dict.fromkeys(filter(None, reasons)):
                    found.setdefault(reason, []).append(row.measure)
        return list(found.items())

    @property
    def calibrations(self) -> list[tuple[str, list[int]]]:
        """What scenarios state about their calibration, each with the positions of their groups."""
        found: dict[str, list[int]] = {}
        for number, group in enumerate(self.groups):
            if note := _calibrated.note(group.runs[0].scenario_toml):
                found.setdefault(note, []).append(number)
        return list(found.items())

    @property
    def lacks_none(self) -> bool:
        """Whether groups differ in congestion control, and none of them is without it."""
        if not any(key.startswith("congestion.") for key in self.settings):
            return False
        return all(
            _control.name(own) != "none" for own in _settings([group.runs[0] for group in self.groups])
        )

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


def compare(*runs: Result, force: bool = False) -> Comparison:
    """Compare two or more runs: their settings, then their results.

    Args:
        runs: Results of :func:`silvan.run` or :func:`silvan.load`. Runs with the same settings and different
            seeds form a group, and their results are means with 95 % confidence intervals.
        force: Whether runs of different networks or traffic are compared too.

    Raises:
        SilvanError: fewer than two runs; or, without `force`, different networks or traffic.

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
    names = [group.runs[0].name for group in groups]
    incomparable = tuple(_incomparable(settings, names))
    if incomparable and not force:
        raise SilvanError(
            f"{' '.join(incomparable)} Compare runs of the same network and traffic, or force the comparison"
        )
    return Comparison(tuple(groups), settings, tuple(_judged(list(_rows(groups)))), incomparable)


def _incomparable(settings: dict[str, tuple[Any, ...]], names: Sequence[str]) -> Iterator[str]:
    """Yield a sentence if networks differ, and one if the traffic differs."""
    runs = f" of {', '.join(f'`{name}`' for name in dict.fromkeys(names))}" if len(set(names)) > 1 else ""
    for what, pattern in (("networks", _NETWORK), ("traffic", _TRAFFIC)):
        found = {key: values for key, values in settings.items() if pattern.fullmatch(key)}
        if found:
            keys = list(found)
            # A kind or a name says more than the parameters of a kind.
            keys.sort(key=lambda key: not key.endswith((".kind", ".name")))
            shown = [
                f"{key} = {', '.join('none' if one is None else str(one) for one in found[key])}"
                for key in keys[:_NAMED]
            ]
            more = f"; and {len(keys) - _NAMED} other keys" if len(keys) > _NAMED else ""
            yield f"The groups{runs} have different {what}: {'; '.join(shown)}{more}."


def groups_of(runs: Sequence[Result]) -> list[Group]:
    """Group runs with the same settings and different seeds, in the order of their first runs."""
    return _groups(runs, _settings(runs))


def _settings(runs: Sequence[Result]) -> list[dict[str, Any]]:
    return [_control.settings(run.scenario_toml) for run in runs]


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


def _rows(groups: Sequence[Group]) -> Iterator[Row]:
    found = [[with_reasons(run) for run in group.runs] for group in groups]
    names = dict.fromkeys(name for own in found for one in own for name in one)
    ended = [
        {name: time for run in group.runs for name, time in _series.ended(run).items()} for group in groups
    ]
    for name in names:
        columns = [_column(group, own, name) for group, own in zip(groups, found, strict=True)]
        values = [[] if isinstance(column, str) else column for column in columns]
        if not any(values):
            continue
        means = tuple(mean(own) if own else None for own in values)
        changes = tuple(
            _change(name, (groups[0], values[0], ended[0]), (group, own, stops))
            for group, own, stops in zip(groups[1:], values[1:], ended[1:], strict=True)
        )
        missing = tuple(column if isinstance(column, str) else "" for column in columns)
        yield Row(*name, means, changes, missing)


def _column(group: Group, found: Sequence[dict[Name, float | str]], name: Name) -> list[float] | str:
    """Return a measure for each seed, or why there is no mean: some seeds lack the measure."""
    own = [one.get(name, "not measured in this group") for one in found]
    values = [one for one in own if not isinstance(one, str)]
    if len(values) == len(own):
        return values
    reason = next(one for one in own if isinstance(one, str))
    return f"{reason} (in {len(own) - len(values)} of {len(own)} seeds)" if len(own) > 1 else reason


_Side = tuple[Group, Sequence[float], "dict[str, float]"]


def _change(name: Name, first: _Side, other: _Side) -> Change | None:
    (group, ours, stops), (their_group, theirs, their_stops) = first, other
    if not ours or not theirs:
        return None
    is_paired = set(group.seeds) == set(their_group.seeds)
    if is_paired:
        by_seed = dict(zip(their_group.seeds, theirs, strict=True))
        theirs = [by_seed[seed] for seed in group.seeds]
    measure = name[0]
    widths = (resolution(measure, max(ours)), resolution(measure, max(theirs)))
    found = change(ours, theirs, paired=is_paired, resolutions=widths)
    runs = (*group.runs, *their_group.runs)
    verdict, reason = _open_verdict(measure, runs, (stops, their_stops))
    if (
        verdict == "no difference shown"
        and found.p is not None
        and min(len(ours), len(theirs)) < SEEDS_TO_PROVE
    ):
        verdict, reason = "no verdict", f"a proof needs at least {SEEDS_TO_PROVE} seeds in each group"
    return Change(found.difference, _relative(found), found.p, verdict, reason)


def _open_verdict(
    measure: str, runs: Sequence[Result], ended: Sequence[dict[str, float]]
) -> tuple[Verdict, str]:
    """Return why a change of a measure cannot have a verdict; `no difference shown` if it can."""
    if not direction(measure):
        return "no verdict", "neither a larger nor a smaller value is better"
    own = subject(measure)
    first, last = (_series.senders(run) for run in (runs[0], runs[-1]))
    if own in first and own in last and first[own] != last[own]:
        return "no verdict", f"the senders of `{own}` differ"
    if any(own in stops for stops in ended):
        return "no verdict", f"`{own}` ends before the end of the run"
    if measure == "received by all hosts" and set(ended[0]) != set(ended[1]):
        names = ", ".join(f"`{one}`" for one in sorted(set(ended[0]) ^ set(ended[1])))
        return "no verdict", f"the active senders differ: {names} ends earlier in one group"
    summaries = [run.summary for run in runs]
    if why := steadiness.reason(summaries, measure):
        return "not in steady state", why
    why = steadiness.reason_untested(summaries, measure)
    return ("no verdict", why) if why else ("no difference shown", "")


def _relative(found: Difference) -> Interval | None:
    if found.ratio is None:
        return None
    low, high = found.ratio.low, found.ratio.high
    return Interval(
        found.ratio.value - 1, None if low is None else low - 1, None if high is None else high - 1
    )


def _is_tested(row: Row, change: Change | None) -> bool:
    return row.differs and change is not None and change.p is not None and not change.reason


def _proven(measure: str, change: Change) -> Change:
    return replace(change, verdict="better" if change.difference * direction(measure) > 0 else "worse")


def _judged(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the rows with the changes that Holm's correction for all tests of the comparison proves."""
    tested = [
        (at, n)
        for at, row in enumerate(rows)
        for n, change in enumerate(row.changes)
        if _is_tested(row, change)
    ]
    changes = [rows[at].changes[n] for at, n in tested]
    rejected = holm([change.p for change in changes if change is not None and change.p is not None])
    proven = {where for where, is_rejected in zip(tested, rejected, strict=True) if is_rejected}
    for at, row in enumerate(rows):
        yield replace(
            row,
            changes=tuple(
                _proven(row.measure, change) if change is not None and (at, n) in proven else change
                for n, change in enumerate(row.changes)
            ),
        )
