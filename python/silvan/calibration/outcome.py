"""A calibration: the steps of the fit, and its results."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from silvan import ModelError, _calibrated, _control
from silvan._core import Scenario
from silvan.calibration import anomalies, fit, keys, sums
from silvan.calibration.closed import Closed, Corrected, header_of
from silvan.calibration.fit import Fit, Problem
from silvan.calibration.keys import (
    COLLECTIVE,
    HEADER,
    INJECTION,
    MEMORY,
    MESSAGES,
    OVERHEAD,
    SWITCH,
)
from silvan.calibration.measurements import CalibrationError, Measurement, shown
from silvan.calibration.paths import is_inner
from silvan.calibration.simulated import Simulated

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silvan.calibration.fit import Masks, Stages
    from silvan.calibration.sums import Sum

#: Largest ratio of the ends of an interval to the value, and largest half width of that of a header in bytes.
#: Keys with wider intervals are not fitted unless the user asks for them.
WIDE, WIDE_B = 2.0, 128.0
#: Rounds in which slow rows are left out.
ROUNDS = 3
#: Twice the logarithm of the ratio of likelihoods from which the other kind of forwarding is chosen.
DECISIVE = 12.0
#: Sizes of messages whose latencies determine the kind of forwarding, relative to the MTU.
PART_OF_MTU = 0.1


@dataclass(frozen=True)
class Fixed:
    """What the user states about keys."""

    #: Values of keys that are not fitted, in seconds, bytes or bytes per second.
    values: Mapping[str, float] = field(default_factory=dict)
    #: The keys to fit; by default all that the measurements determine.
    asked: tuple[str, ...] = ()


@dataclass(frozen=True)
class Calibration:
    """Fitted keys of a scenario, and how well they explain the measurements."""

    #: The scenario with the fitted and fixed keys; its description states the error.
    scenario: Scenario
    measurements: tuple[Measurement, ...]
    found: Fit
    #: Modeled times in seconds, for the rows of each measurement.
    modeled: tuple[NDArray[np.float64], ...]
    #: Values of all keys before the fit.
    before: Mapping[str, float]
    #: Rows that the fit uses.
    masks: tuple[NDArray[np.bool_], ...]
    #: Relative error (root mean square) of the even rows of a fit to the odd rows; None if there are too few.
    error: float | None
    #: The same error over all rows of the fit itself, also over those that it does not use.
    error_of_all: float
    #: Sums of delays that the latency tests determine.
    sums: tuple[Sum, ...]
    #: Keys that have the same effect as fitted ones, as sentences.
    directions: tuple[str, ...]
    #: For each key that is not fitted: what would identify it.
    missing: Mapping[str, str]
    anomalies: tuple[str, ...]
    notes: tuple[str, ...]
    #: Number of runs of the simulator.
    runs: int


@dataclass(frozen=True)
class _Trial:
    """The fit with one kind of forwarding."""

    scenario: Scenario
    closed: Closed
    #: The problem with formulas that agree with the simulator near the solution.
    formulas: Problem
    found: Fit
    tried: tuple[str, ...]
    masks: Masks
    modeled: tuple[NDArray[np.float64], ...]
    error: float | None
    runs: int

    @property
    def cost(self) -> float:
        """Mean square of the residuals of used rows."""
        parts = [own[mask] for own, mask in zip(self.found.residuals, self.masks, strict=True)]
        return float(np.mean(np.concatenate(parts) ** 2))


def calibrate(
    scenario: Scenario,
    measurements: Sequence[Measurement],
    fixed: Fixed,
    algorithms: Mapping[str, str] | None = None,
) -> Calibration:
    """Fit the keys of a scenario to measurements whose hosts are known.

    Raises :class:`CalibrationError` if keys cannot be separated, and :class:`silvan.SilvanError` if the
    scenario cannot be run.
    """
    base = keys.base(scenario) | dict(fixed.values)
    trials, notes = [], list[str]()
    for own, closed in _kinds(scenario, measurements, base, fixed):
        trials.append(_trial(own, closed, measurements, base, fixed, algorithms))
    best = min(trials, key=lambda trial: trial.cost)
    if best is not trials[0]:
        kind = keys.parsed(best.scenario)["switch"]["forwarding"]
        before = keys.parsed(scenario)["switch"]["forwarding"]
        notes.append(f"switch.forwarding is {kind}: latencies of messages below the MTU contradict {before}")
    found, masks = best.found, best.masks
    notes += _without_jobs(best.scenario, found)
    latencies = [mask & (one.kind == "latency") for mask, one in zip(masks, measurements, strict=True)]
    delays = [name for name in found.names if name in sums.DELAYS]
    return Calibration(
        _with(best.scenario, measurements, best, fixed),
        tuple(measurements),
        found,
        best.modeled,
        base,
        tuple(masks),
        best.error,
        math.expm1(math.sqrt(float(np.mean(np.concatenate(found.residuals) ** 2)))),
        tuple(sums.of_latency(best.closed, found.values, masks, best.modeled)),
        tuple(sums.directions(best.formulas, delays, found.values, latencies)),
        _missing(found, best.tried, measurements, fixed),
        tuple(anomalies.sentences(measurements, found, masks)),
        (*notes, *anomalies.of_intervals(found)),
        sum(trial.runs for trial in trials),
    )


def _without_jobs(scenario: Scenario, found: Fit) -> list[str]:
    """Return a note for each fitted key of jobs of which the scenario has none."""
    jobs = keys.parsed(scenario).get("job", ())
    are_collective = {job.get("program", {}).get("kind") in keys.COLLECTIVES for job in jobs}
    return [
        f"the scenario has no job for {name}: set {name.split('.')[1]} = "
        f'"{keys.in_words(name, found.values[name])}" in each {kind}[[job]] that you add'
        for name, kind, of in (
            (OVERHEAD, "", False),
            (COLLECTIVE, "collective ", True),
            (MEMORY, "collective ", True),
        )
        if name in found.names and not ({of, True} if name == OVERHEAD else {of}) & are_collective
    ]


def _trial(
    scenario: Scenario,
    closed: Closed,
    measurements: Sequence[Measurement],
    base: Mapping[str, float],
    fixed: Fixed,
    algorithms: Mapping[str, str] | None,
) -> _Trial:
    """Fit by formulas, then by formulas that agree with the simulator there, and then by the simulator."""
    mtu = keys.mtu(scenario)
    masks: Masks
    values, _, _ = _start(Problem(closed, measurements, mtu), closed, base, fixed)
    with tempfile.TemporaryDirectory(prefix="silvan-calibrate-") as folder:
        model = Simulated(scenario, measurements, closed.routes, Path(folder), algorithms)
        try:
            formulas = Problem(Corrected.at(closed, model, values), measurements, mtu)
            values, masks, names = _start(formulas, closed, base, fixed)
            simulated = Problem(model, measurements, mtu, formulas)
            found, stages, masks = _fitted(simulated, formulas, names, masks, values, base, fixed)
            error = fit.hold_out(simulated, found, stages, masks)
            modeled = tuple(model.times(found.values))
        except ModelError as problem:
            raise CalibrationError(f"a simulated test stops: {problem}") from None
    return _Trial(scenario, closed, formulas, found, names, masks, modeled, error, model.runs)


def _with(
    scenario: Scenario,
    measurements: Sequence[Measurement],
    best: _Trial,
    fixed: Fixed,
) -> Scenario:
    """Return the scenario with the fitted and fixed keys, and a description that states the error."""
    found, error = best.found, error_in_words(best.error, best.masks)
    wanted = {name: found.values[name] for name in (*found.names, *fixed.values)}
    own = scenario.with_overrides(keys.overrides(scenario, wanted))
    resolved = _control.settings(own.to_toml())
    values = {key: resolved[key] for key in keys.overrides(scenario, wanted)}
    files = [(shown(one.file.name), one.digest) for one in measurements]
    told = _calibrated.described(resolved.get("description", ""), values, error, files)
    own = own.with_overrides({"description": json.dumps(told, ensure_ascii=False)})
    return Scenario.from_toml(
        own.to_toml(standalone=True), origin=scenario.origin, base_dir=scenario.base_dir
    )


def error_in_words(error: float | None, masks: Masks) -> str:
    """Return the error of a calibration as part of a sentence.

    `masks` selects the rows that suit the model.
    """
    if error is None:
        return "too few rows to state an error"
    text = f"error {100 * error:.2g} % on rows that the fit did not use"
    rows, used = sum(map(len, masks)), sum(int(mask.sum()) for mask in masks)
    return text if used == rows else f"{text} ({rows - used} of {rows} rows are left out)"


def _start(
    problem: Problem, closed: Closed, base: Mapping[str, float], fixed: Fixed
) -> tuple[dict[str, float], list[NDArray[np.bool_]], tuple[str, ...]]:
    """Return the values by formulas, the rows to use, and the keys to fit."""
    measurements = problem.measurements
    masks = fit.everything(measurements)
    guess = _guess(closed, measurements, base) | dict(fixed.values)
    for _ in range(ROUNDS):
        names = _names(problem, guess, masks, fixed, measurements)
        start = {name: guess[name] if name in names else base[name] for name in keys.KEYS}
        starts = [start, {**start, MESSAGES: start[MESSAGES] / 2}]
        values = problem.best(_stages(names, measurements, masks), starts, loss="soft_l1")
        left = anomalies.without_slow(problem.residuals(values), masks)
        if all(np.array_equal(one, other) for one, other in zip(left, masks, strict=True)):
            break
        masks = left
    names = _names(problem, guess, masks, fixed, measurements)
    starts = [
        {name: one[name] if name in names else base[name] for name in keys.KEYS} for one in (*starts, values)
    ]
    return problem.best(_stages(names, measurements, masks), starts), masks, names


def _stages(names: Sequence[str], measurements: Sequence[Measurement], masks: Masks) -> Stages:
    """Return the keys of the fabric with the tests between hosts, and those of collective operations.

    Collective operations depend on software that the model does not contain, so they do not determine keys of
    the fabric.
    """
    inner = {COLLECTIVE, MEMORY}
    fabric = tuple(name for name in names if name not in inner)
    software = tuple(name for name in names if name in inner)
    between = [mask & (one.kind != "collective") for mask, one in zip(masks, measurements, strict=True)]
    together = [mask & (one.kind == "collective") for mask, one in zip(masks, measurements, strict=True)]
    return [(own, rows) for own, rows in ((fabric, between), (software, together)) if own]


def _names(
    problem: Problem,
    guess: Mapping[str, float],
    masks: Masks,
    fixed: Fixed,
    measurements: Sequence[Measurement],
) -> tuple[str, ...]:
    """Return the keys to fit; raise :class:`CalibrationError` if asked keys cannot be separated."""
    candidates = [
        name
        for name in keys.KEYS
        if name not in fixed.values
        and (name in fixed.asked if fixed.asked else name not in keys.ASKED_ONLY)
        and guess[name] > 0.0
    ]
    has_large = any(
        row.size > problem.mtu and used
        for one, mask in zip(measurements, masks, strict=True)
        if one.kind == "bandwidth"
        for row, used in zip(one.rows, mask, strict=True)
    )
    if not has_large and MESSAGES in candidates and HEADER in candidates:
        # For messages of one packet, both are a time per message, which is hardly that of a header.
        candidates.remove(HEADER)
        candidates.insert(candidates.index(MESSAGES) + 1, HEADER)
    stages = _stages(candidates, measurements, masks)
    names = tuple(name for own, rows in stages for name in fit.separable(problem, own, guess, rows))
    if lost := [name for name in fixed.asked if name not in names]:
        rows = sum(int(mask.sum()) for mask in masks)
        with_others = [name for name in fixed.asked if name in names]
        together = (
            f"{lost[0]} cannot be separated from {' and '.join(with_others)} by"
            if with_others
            else f"{lost[0]} has no effect on"
        )
        raise CalibrationError(
            f"{together} {rows} {'row' if rows == 1 else 'rows'} of {len(measurements)} "
            f"{'file' if len(measurements) == 1 else 'files'}: it needs {keys.KEYS[lost[0]].needs}; "
            f"or state a value, such as --fix {(with_others or lost)[0]}=..."
        )
    return names


def _fitted(
    problem: Problem,
    formulas: Problem,
    names: Sequence[str],
    masks: Masks,
    start: Mapping[str, float],
    base: Mapping[str, float],
    fixed: Fixed,
) -> tuple[Fit, Stages, Masks]:
    """Fit with the simulator, without keys about which the rows say nothing, and without slow rows.

    The simulator decides which rows are slow; formulas only gave a first choice.
    """
    measurements = problem.measurements
    for _ in range(ROUNDS):
        stages = _stages(names, measurements, masks)
        found = problem.fit(stages, start)
        kept = {name for own, rows in stages for name in fit.separable(formulas, own, found.values, rows)}
        while lost := [name for name in found.names if name not in kept or _is_wide(name, found)]:
            if fixed.asked:
                break
            names = tuple(name for name in found.names if name != lost[-1])
            stages = _stages(names, measurements, masks)
            found = problem.fit(stages, {**found.values, lost[-1]: base[lost[-1]]})
        names, start = found.names, found.values
        left = anomalies.without_slow(found.residuals, fit.everything(measurements))
        if all(np.array_equal(one, other) for one, other in zip(left, masks, strict=True)):
            break
        masks = left
    return found, stages, masks


def _is_wide(name: str, found: Fit) -> bool:
    if name not in found.intervals:
        return False
    low, high = found.intervals[name]
    if name == HEADER:
        return high - low > 2 * WIDE_B
    return high > WIDE * found.values[name]


def _guess(
    closed: Closed, measurements: Sequence[Measurement], base: Mapping[str, float]
) -> dict[str, float]:
    """Return values of all keys by the formulas of single rows, above 0 if a test concerns the key."""
    guess = dict(base)
    pairs = list(zip(measurements, closed.routes, strict=True))
    latencies = [(route.switches, one.rows[0].time_s) for one, route in pairs if one.kind == "latency"]
    guess[SWITCH] = max(base[SWITCH], 1e-9)
    if latencies:
        near, far = min(latencies), max(latencies)
        if far[0] > near[0]:
            hop = (far[1] - near[1]) / (far[0] - near[0])
            guess[SWITCH] = max(hop - base[keys.CABLE], 1e-9)
        guess[OVERHEAD] = max((near[1] - near[0] * guess[SWITCH]) / 2, 1e-9)
    if streams := [(one, route) for one, route in pairs if one.kind == "bandwidth"]:
        best = max(row.size / row.time_s / route.slowest for one, route in streams for row in one.rows)
        header = header_of(1.0, best, closed.mtu)
        guess[HEADER] = min(max(header, 1.0), keys.HEADER_AT_MOST - 1)
        # Below the rate of the link, so that it has an effect.
        wire = best * min(route.slowest for _, route in streams) * (1 + base[HEADER] / closed.mtu)
        first = min(route.first for _, route in streams)
        guess[INJECTION] = min(guess[INJECTION] or math.inf, 0.99 * wire, 0.99 * first)
        quickest = min(one.rows[0].time_s - one.rows[0].size / route.slowest for one, route in streams)
        guess[MESSAGES] = max(quickest, 1e-10)
    else:
        guess[HEADER] = max(base[HEADER], 1.0)
        guess[MESSAGES] = 0.0
    for one, _ in pairs:
        if one.kind == "collective":
            rounds = (2 if one.operation == "all-reduce" else 1) * max(one.ranks - 1, 1)
            guess[COLLECTIVE] = max(one.rows[0].time_s / rounds / 2, 1e-9)
            if is_inner(one):
                last = one.rows[-1]
                guess[MEMORY] = rounds * last.size / one.ranks / last.time_s
    return guess


def _kinds(
    scenario: Scenario, measurements: Sequence[Measurement], base: Mapping[str, float], fixed: Fixed
) -> list[tuple[Scenario, Closed]]:
    """Return the scenario, and with the other kind of forwarding if formulas suit that much better."""
    mtu = keys.mtu(scenario)
    stores = keys.parsed(scenario)["switch"].get("forwarding") == "store-and-forward"
    own, other = (Closed.of(scenario, measurements, stores=one) for one in (stores, not stores))
    sizes = {
        row.size
        for one in measurements
        if one.kind == "latency"
        for row in one.rows
        if PART_OF_MTU * mtu < row.size <= mtu
    }
    if not sizes:
        return [(scenario, own)]
    costs = []
    for closed in (own, other):
        problem = Problem(closed, measurements, mtu)
        values, masks, _ = _start(problem, closed, base, fixed)
        errors = np.concatenate(
            [part[mask] for part, mask in zip(problem.residuals(values), masks, strict=True)]
        )
        # The least error of printed numbers keeps the ratio finite.
        costs.append(float(np.sum(errors**2)) + len(errors) * 1e-8)
    rows = sum(len(one.rows) for one in measurements)
    if rows * math.log(costs[0] / costs[1]) < DECISIVE:
        return [(scenario, own)]
    kind = "cut-through" if stores else "store-and-forward"
    return [(scenario, own), (scenario.with_overrides({"switch.forwarding": kind}), other)]


def _missing(
    found: Fit, tried: Sequence[str], measurements: Sequence[Measurement], fixed: Fixed
) -> dict[str, str]:
    """Return why each key is not fitted: what would identify it, or that its fit says nothing."""
    kinds = {one.kind for one in measurements}
    has_inner = any(is_inner(one) for one in measurements)
    told = {}
    for name, key in keys.KEYS.items():
        if name in found.names or name in fixed.values or name in keys.ASKED_ONLY:
            continue
        if (name == MEMORY and not has_inner) or (name == COLLECTIVE and "collective" not in kinds):
            continue
        told[name] = "is so small or so uncertain that the tests do not determine it"
        if name not in tried:
            told[name] = f"needs {key.needs}"
    return told
