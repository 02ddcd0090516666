"""Least squares on the logarithms of times, their intervals, and the check of intervals by a bootstrap."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from silvan import _statistics
from silvan.calibration import keys
from silvan.calibration.closed import Model
from silvan.calibration.measurements import CalibrationError, Measurement

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Masks = Sequence[NDArray[np.bool_]]
    #: Keys that are fitted together, and the rows that determine them, in the order of the fits.
    Stages = Sequence[tuple[tuple[str, ...], Masks]]

#: Step of a coordinate for derivatives, and the smallest change of a time in seconds that the simulator sees.
STEP, LEAST_CHANGE_S = 1e-3, 2e-11
#: Step of a coordinate for derivatives of formulas.
EXACT_STEP = 1e-7
#: A key is separable if its column of the Jacobian has at least this length next to those of other keys.
SEPARABLE = 1e-3
#: Resamples of the bootstrap, and its seed.
RESAMPLES, SEED = 400, 1
#: Residual from which on the loss `soft_l1` grows less than its square.
LARGE_RESIDUAL = 0.02
#: Most evaluations of the model in a search.
EVALUATIONS = 30

Interval = tuple[float, float]


@dataclass(frozen=True)
class Fit:
    """Values of keys that a fit found."""

    #: Fitted keys.
    names: tuple[str, ...]
    #: Values of all keys, fitted or not.
    values: Mapping[str, float]
    #: Logarithm of measured over modeled time, for the rows of each measurement.
    residuals: tuple[NDArray[np.float64], ...]
    #: 95 % intervals by the Jacobian and by the bootstrap; empty with as many keys as rows.
    intervals: Mapping[str, Interval]
    resampled: Mapping[str, Interval]
    #: Fitted keys whose value is at the end of its range.
    at_end: tuple[str, ...]


def logs(measurements: Sequence[Measurement]) -> list[NDArray[np.float64]]:
    """Return the logarithms of measured times."""
    return [np.log([row.time_s for row in one.rows]) for one in measurements]


def everything(measurements: Sequence[Measurement]) -> list[NDArray[np.bool_]]:
    """Return masks that select all rows."""
    return [np.ones(len(one.rows), dtype=bool) for one in measurements]


def _selected(parts: Sequence[NDArray[Any]], masks: Masks) -> NDArray[Any]:
    return np.concatenate([part[mask] for part, mask in zip(parts, masks, strict=True)])


class Problem:
    """A model, measured times, and the rows that a fit uses."""

    def __init__(
        self,
        model: Model,
        measurements: Sequence[Measurement],
        mtu: int,
        formulas: Problem | None = None,
    ) -> None:
        """`formulas`: a problem that states the derivatives for the search, if `model` is the simulator."""
        self.model = model
        self.measurements = measurements
        self._formulas = formulas
        # The simulator rounds values to whole units.
        self._is_exact = formulas is None
        self.mtu = mtu
        self.measured = logs(measurements)

    def residuals(self, values: keys.Values) -> tuple[NDArray[np.float64], ...]:
        """Return the logarithms of measured over modeled time."""
        times = self.model.times(values)
        return tuple(own - np.log(time) for own, time in zip(self.measured, times, strict=True))

    def jacobian(self, names: Sequence[str], values: keys.Values, masks: Masks) -> NDArray[np.float64]:
        """Return the derivatives of the logarithms of modeled times by the coordinates of keys."""
        base = _selected(self.residuals(values), masks)
        columns = []
        for name in names:
            x = keys.to_x(name, values[name], self.mtu)
            moved = keys.from_x(name, x + self._step(name, values[name]), self.mtu)
            step = keys.to_x(name, moved, self.mtu) - x
            columns.append((base - _selected(self.residuals({**values, name: moved}), masks)) / step)
        return np.column_stack(columns) if columns else np.empty((len(base), 0))

    def _step(self, name: str, value: float) -> float:
        if self._is_exact:
            return EXACT_STEP
        if name == keys.HEADER:
            return math.log1p(1 / (self.mtu + value))
        if keys.KEYS[name].unit == "time":
            return max(STEP, math.log1p(LEAST_CHANGE_S / max(value, 1e-15)))
        return STEP

    def solve(
        self, names: Sequence[str], start: keys.Values, masks: Masks, *, loss: str = "linear"
    ) -> dict[str, float]:
        """Return the values of all keys with the least squares of the used rows."""
        least_squares = optimizer()
        slopes = self._formulas or self
        if not names:
            return dict(start)
        ranges = np.array([keys.bounds(name, self.mtu) for name in names])
        x0 = np.array([keys.to_x(name, start[name], self.mtu) for name in names])
        inside = 1e-6 * (ranges[:, 1] - ranges[:, 0])
        x0 = np.clip(x0, ranges[:, 0] + inside, ranges[:, 1] - inside)

        def values(x: NDArray[np.float64]) -> dict[str, float]:
            found = (keys.from_x(name, float(one), self.mtu) for name, one in zip(names, x, strict=True))
            return {**start, **dict(zip(names, found, strict=True))}

        done = least_squares(
            lambda x: -_selected(self.residuals(values(x)), masks),
            x0,
            jac=lambda x: slopes.jacobian(names, values(x), masks),
            bounds=(ranges[:, 0], ranges[:, 1]),
            x_scale="jac",
            loss=loss,
            f_scale=LARGE_RESIDUAL,
            xtol=1e-10 if self._is_exact else 1e-6,
            ftol=1e-12 if self._is_exact else 1e-4,
            gtol=1e-12,
            max_nfev=EVALUATIONS,
        )
        return values(done.x)

    def fit(self, stages: Stages, start: keys.Values) -> Fit:
        """Return the fit of one stage after the other with its intervals.

        Keys of an earlier stage affect the rows of a later one, so intervals of the later one contain their
        errors. Without errors, as with as many keys as rows, the keys of the earlier stage count as exact.
        """
        values = self.solve_all(stages, start)
        residuals = self.residuals(values)
        slopes, random = self._formulas or self, np.random.default_rng(SEED)
        intervals: dict[str, Interval] = {}
        resampled: dict[str, Interval] = {}
        before: tuple[str, ...] = ()
        spread, moves = np.empty((0, 0)), np.empty((1, 0))
        for names, masks in stages:
            jacobian, errors = self.jacobian(names, values, masks), _selected(residuals, masks)
            effect = np.linalg.pinv(jacobian) @ slopes.jacobian(before, values, masks)
            own, drawn = by_jacobian(jacobian, errors), by_bootstrap(jacobian, errors, random)
            if own is not None:
                own = own + effect @ spread @ effect.T
                half = np.sqrt(np.diag(own))
                intervals |= self._named(names, values, np.column_stack((-half, half)))
            if drawn is not None:
                drawn = drawn - random.choice(moves, len(drawn)) @ effect.T
                resampled |= self._named(names, values, np.quantile(drawn, (0.025, 0.975), axis=0).T)
            before, size = names, len(names)
            spread = np.zeros((size, size)) if own is None else own
            moves = np.zeros((1, size)) if drawn is None else drawn
        fitted = tuple(name for names, _ in stages for name in names)
        ends = tuple(name for name in fitted if self._is_at_end(name, values[name]))
        return Fit(fitted, values, residuals, intervals, resampled, ends)

    def solve_all(self, stages: Stages, start: keys.Values, *, loss: str = "linear") -> dict[str, float]:
        """Return the values of all keys after one stage after the other, see :meth:`solve`."""
        values = dict(start)
        for names, masks in stages:
            values = self.solve(names, values, masks, loss=loss)
        return values

    def best(
        self, stages: Stages, starts: Sequence[keys.Values], *, loss: str = "linear"
    ) -> dict[str, float]:
        """Return the best values after searches from several starts, see :meth:`solve_all`.

        A limit that does not bind, such as the rate of messages next to the messages in flight, has no slope
        at a start, so one search can end far from the least squares.
        """
        found = [self.solve_all(stages, start, loss=loss) for start in starts]
        return min(found, key=lambda values: self.cost(stages, values, loss))

    def cost(self, stages: Stages, values: keys.Values, loss: str = "linear") -> float:
        """Return the sum of the squares of the used rows, as the loss counts them."""
        residuals = self.residuals(values)
        squares = np.concatenate([_selected(residuals, masks) ** 2 for _, masks in stages] or [np.zeros(0)])
        if loss == "soft_l1":
            squares = 2 * LARGE_RESIDUAL**2 * (np.sqrt(1 + squares / LARGE_RESIDUAL**2) - 1)
        return float(squares.sum())

    def _is_at_end(self, name: str, value: float) -> bool:
        low, high = keys.bounds(name, self.mtu)
        x, near = keys.to_x(name, value, self.mtu), 1e-3 * (high - low)
        return not low + near < x < high - near

    def _named(
        self, names: Sequence[str], values: keys.Values, relative: NDArray[np.float64]
    ) -> dict[str, Interval]:
        """Return intervals by key from their ends relative to the coordinates."""
        found = {}
        for name, (low, high) in zip(names, relative, strict=True):
            x = keys.to_x(name, values[name], self.mtu)
            least = 0.0 if keys.KEYS[name].unit == "size" else -math.inf
            # A coordinate beyond the range of floating point numbers means that nothing is known.
            ends = (keys.from_x(name, min(max(x + end, -80.0), 80.0), self.mtu) for end in (low, high))
            found[name] = tuple(max(end, least) for end in ends)
        return found  # type: ignore[return-value]


def optimizer() -> Any:
    """Return SciPy's `least_squares`; raises :class:`CalibrationError` if SciPy is missing."""
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise CalibrationError("a calibration needs SciPy: pip install 'silvan[fit]'") from None
    return least_squares


def separable(problem: Problem, names: Sequence[str], values: keys.Values, masks: Masks) -> tuple[str, ...]:
    """Return the keys that the used rows determine, each together with those before it."""
    jacobian = problem.jacobian(names, values, masks)
    kept: list[int] = []
    for at in range(len(names)):
        column = jacobian[:, at]
        if kept:
            others = jacobian[:, kept]
            column = column - others @ np.linalg.lstsq(others, column, rcond=None)[0]
        if np.linalg.norm(column) > SEPARABLE * max(1.0, float(np.linalg.norm(jacobian[:, at]))):
            kept.append(at)
    return tuple(names[at] for at in kept)


def by_jacobian(jacobian: NDArray[np.float64], errors: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return the covariance of the solution, in squares of half widths of 95 % intervals.

    None with as many keys as rows.
    """
    rows, count = jacobian.shape
    if rows <= count or count == 0:
        return None
    deviation = math.sqrt(float(errors @ errors) / (rows - count))
    inverse: NDArray[np.float64] = np.linalg.pinv(jacobian.T @ jacobian)
    return (_statistics.quantile(rows - count) * deviation) ** 2 * inverse


def by_bootstrap(
    jacobian: NDArray[np.float64], errors: NDArray[np.float64], random: np.random.Generator
) -> NDArray[np.float64] | None:
    """Return solutions for resampled rows relative to the solution, around which the model is a line.

    None with fewer than two rows more than keys.
    """
    rows, count = jacobian.shape
    if rows <= count + 1 or count == 0:
        return None
    moves = []
    for _ in range(RESAMPLES):
        drawn = random.integers(rows, size=rows)
        own = jacobian[drawn]
        if np.linalg.matrix_rank(own) == count:
            moves.append(np.linalg.lstsq(own, errors[drawn], rcond=None)[0])
    return np.array(moves) if len(moves) >= RESAMPLES // 2 else None


def rms(errors: NDArray[np.float64]) -> float | None:
    """Return the root mean square of logarithmic errors as a relative error; None without rows."""
    return math.expm1(math.sqrt(float(np.mean(errors**2)))) if len(errors) else None


def _half(masks: Masks, rest: int) -> list[NDArray[np.bool_]]:
    """Return masks of each second used row of each measurement, from the first (0) or the second (1) on."""
    return [mask & ((np.cumsum(mask) - 1) % 2 == rest) for mask in masks]


def hold_out(problem: Problem, found: Fit, stages: Stages, masks: Masks) -> float | None:
    """Fit the odd rows of each measurement; return the relative error of the even ones.

    None if the odd rows do not determine the keys, or if there are no even rows.
    """
    odd = [(names, _half(own, 0)) for names, own in stages]
    for names, own in odd:
        is_enough = sum(int(mask.sum()) for mask in own) > len(names)
        if not is_enough or separable(problem, names, found.values, own) != names:
            return None
    values = problem.solve_all(odd, found.values)
    return rms(_selected(problem.residuals(values), _half(masks, 1)))
