"""Compares simulated and expected numbers, in rows with verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from silvan._statistics import half_width, prediction
from silvan.papers.catalogue import (
    NOT_RUN,
    SHOWN,
    TWO_SIDED,
    UNMET,
    VERDICTS,
    Experiment,
    PapersError,
    Published,
)

#: ``id, key, quantity, unit, published, expected, provenance, kind, simulated, ratio, tolerance, verdict,
#: source, assumption, reading``. ``expected`` is the number with which ``simulated`` is compared, and
#: ``published`` is the same number if the source prints it, else None. With several seeds also their number,
#: ``seeds``, and half the width of the 95 % confidence interval of ``simulated``, ``interval``; for
#: two-sided rows with at least :data:`DRAWS` seeds and different numbers also ``spread``, half the width of
#: the 95 % prediction interval of a single draw. Where they apply: ``margin`` (a ratio to the bound that is
#: at least 1 if the row is met), ``reason`` and ``cause`` (why a row is not met), ``basis`` (the origin of a
#: number that is not published), ``gain`` (the tolerance applies to the difference from 1), ``mean_of`` (the
#: source prints the mean of this number of runs), ``statement`` (the statement that an ordering tests
#: together with others), and the marks ``weak``, ``calibrated``, ``computed``,
#: ``restated``, ``trivial``, ``undecidable``, ``duplicate_of`` and ``smoke`` (see `MARKS`).
Row = dict[str, Any]

#: Fields of rows that exist only where they apply and do not depend on simulated numbers.
DESCRIPTIONS = (
    "basis",
    "weak",
    "calibrated",
    "computed",
    "restated",
    "gain",
    "trivial",
    "undecidable",
    "duplicate_of",
    "mean_of",
    "statement",
)

#: An experiment's numbers by key: one for each seed.
Values = Mapping[str, Sequence[float]]

#: Relative differences up to this value are treated as rounding errors.
EQUAL = 1e-12

#: Minimum number of seeds for a prediction interval.
DRAWS = 3

#: A row that is met with a larger margin (the ratio to its bound) is weak.
WEAK_MARGIN = 2.0

#: Marks of rows, with their meaning.
MARKS = {
    "computed": "computed from formulas or by counting, without simulating packets",
    "calibrated": "a parameter of the model was chosen to meet it",
    "trivial": "cannot fail; a note states why",
    "undecidable": "the source does not allow a decision; a note states why",
    "duplicate_of": "another row has the same printed number",
    "restated": "a level or a result of another row, which is counted instead",
    "weak": "clears its bound by a factor of more than two, or could hardly be missed",
    "smoke": "a quick run, which checks the number only roughly",
}


def rows_of(experiment: Experiment, values: Values, quick: bool) -> list[Row]:
    """Compare the expected numbers of an experiment with simulated numbers.

    Raises `PapersError` if a row has no simulated number.
    """
    missing = [row.key for row in experiment.rows if not values.get(row.key)]
    if missing:
        raise PapersError(f"{experiment.id}: no numbers for {', '.join(missing)}")
    return [_row(experiment, row, values[row.key], quick) for row in experiment.rows]


def not_run(experiment: Experiment, why: str) -> list[Row]:
    """Return an experiment's rows without simulated numbers; `why` is their reason."""
    rows = [_described(experiment, row, row.tolerance) for row in experiment.rows]
    return [row | {"reason": why} for row in rows]


def _described(experiment: Experiment, published: Published, tolerance: float | str) -> Row:
    """Return the fields of a row that do not depend on simulated numbers."""
    row: Row = {
        "id": experiment.id,
        "key": published.key,
        "quantity": published.quantity,
        "unit": published.unit,
        "published": published.published,
        "expected": published.expected,
        "provenance": published.provenance,
        "kind": published.kind,
        "simulated": None,
        "ratio": None,
        "tolerance": tolerance,
        "verdict": NOT_RUN,
        "source": published.source,
        "assumption": published.assumption,
        "reading": published.reading,
    }
    for name in DESCRIPTIONS:
        if getattr(published, name):
            row[name] = getattr(published, name)
    return row


def _row(experiment: Experiment, published: Published, values: Sequence[float], quick: bool) -> Row:
    row = _described(experiment, published, published.quick_tolerance if quick else published.tolerance)
    # The mean of equal numbers may differ from them in the last digits.
    are_equal = max(values) - min(values) <= EQUAL * abs(values[0])
    simulated = values[0] if are_equal else float(np.mean(values))
    is_usable = math.isfinite(simulated)
    interval = half_width(values) if is_usable and not are_equal else 0.0
    # A prediction interval of fewer draws is not reliable.
    spread = prediction(values) if is_usable and len(values) >= DRAWS and not are_equal else 0.0
    row["verdict"] = published.verdict(simulated, interval, quick, spread)
    if is_usable:
        row["simulated"] = simulated
        row["ratio"] = simulated / published.expected if published.expected else None
        row |= _margin(published, simulated, row)
    if len(values) > 1:
        row["seeds"], row["interval"] = len(values), interval if is_usable else None
    if spread and published.kind == TWO_SIDED:
        row["spread"] = spread
    if row["verdict"] in UNMET and published.reason:
        row["reason"] = published.reason
        if published.cause:
            row["cause"] = published.cause
    if quick and published.smoke and row["verdict"] != SHOWN:
        row["smoke"] = True
    return row


def _margin(published: Published, simulated: float, row: Row) -> Row:
    """Return the fields `margin` and `weak` of a row with a bound."""
    margin = published.margin(simulated)
    if margin is None:
        return {}
    found: Row = {"margin": margin}
    if row["verdict"] == "met" and margin > WEAK_MARGIN and not published.weak:
        found["weak"] = "It clears its bound by a factor of more than two."
    return found


def marks(row: Mapping[str, Any]) -> list[str]:
    """Return the names of a row's marks."""
    return [name for name in MARKS if row.get(name)]


def counts(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many rows have each verdict."""
    found = dict.fromkeys(VERDICTS, 0)
    for row in rows:
        found[row["verdict"]] += 1
    return found


def simulated_text(row: Mapping[str, Any]) -> str:
    """Return a row's simulated number, with its confidence interval if it has one, for a table."""
    if row["simulated"] is None:
        return "-"
    interval = f" ± {row['interval']:.2g}" if row.get("interval") else ""
    return f"{row['simulated']:.4g}{interval}"


def expected_text(row: Mapping[str, Any]) -> str:
    """Return a row's expected number for a table, with its provenance unless it is published."""
    text = f"{row['expected']:.4g}"
    return text if row["published"] is not None else f"{text} ({row['provenance']})"


def tolerance_text(row: Mapping[str, Any]) -> str:
    """Return a row's tolerance for a table."""
    tolerance = row["tolerance"]
    if tolerance == SHOWN:
        return "-"
    if isinstance(tolerance, str):
        return tolerance
    return f"{100 * tolerance:g} %{' of the gain' if row.get('gain') else ''}"
