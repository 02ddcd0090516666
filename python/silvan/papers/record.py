"""The record: the numbers that the experiments gave, kept in a file beside them.

``papers/record.json`` has, by experiment, the version that was run, whether its runs were quick ones, a
digest of them, and by row the number of each seed. Verdicts are not in it: they follow from
``published.toml``. :func:`write_page` writes the record into a page.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from silvan import _core, _files
from silvan.papers.catalogue import NOT_RUN, VERDICTS, Experiment, PapersError, find_papers, list_experiments
from silvan.papers.rows import (
    MARKS,
    Row,
    Values,
    counts,
    marks,
    not_run,
    rows_of,
    simulated_text,
    tolerance_text,
)

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

#: What is between these lines of a page is written by `write_page`.
BEGIN = "<!-- The record: `silvan papers record --page` writes what follows. -->"
END = "<!-- End of the record. -->"
#: Hexadecimal digits of a digest.
DIGITS = 16
KEYS = {"version", "quick", "runs", "values"}


@dataclass(frozen=True)
class Entry:
    """What is on record of an experiment."""

    #: The version of Silvan that was run.
    version: str
    quick: bool
    #: Digest of the runs; see `digest`.
    runs: str
    values: Values


def find_record() -> Path:
    """Return the record that comes with the experiments."""
    return find_papers() / "record.json"


def digest(experiment: Experiment, quick: bool) -> str:
    """Return a digest of an experiment's runs: of their scenario files and overrides."""
    what = {}
    for name, (scenario, overrides) in experiment.code.runs(quick).items():
        is_file = scenario.endswith(".toml")
        content = tomllib.loads(_files.read_text(experiment.folder / scenario)) if is_file else scenario
        what[name] = [content, overrides]
    text = json.dumps(what, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def read(path: Path) -> dict[str, Entry]:
    """Return what is on record, by experiment."""
    try:
        raw = _files.parse_json(_files.read_text(path))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise PapersError(f"{path}: not a record: {error}") from error
    if not isinstance(raw, dict):
        raise PapersError(f"{path}: not a record: no object by experiment")
    return {name: _entry(own, f"{path}: {name}") for name, own in raw.items()}


def _entry(raw: Any, where: str) -> Entry:
    if not isinstance(raw, dict) or set(raw) != KEYS or not isinstance(raw["values"], dict):
        raise PapersError(f"{where}: must have {', '.join(sorted(KEYS))}")
    if not isinstance(raw["quick"], bool):
        raise PapersError(f"{where}: quick: must be true or false")
    values = {}
    for key, own in raw["values"].items():
        is_list = isinstance(own, list) and len(own) > 0
        if not is_list or not all(isinstance(value, (int, float, type(None))) for value in own):
            raise PapersError(f"{where}: values.{key}: must be a list of numbers, one for each seed")
        values[key] = [math.nan if value is None else float(value) for value in own]
    return Entry(str(raw["version"]), raw["quick"], str(raw["runs"]), values)


def check(path: Path) -> None:
    """Raise `PapersError` where a record is there that cannot be read, before anything is run for it."""
    if path.exists():
        read(path)


def put(path: Path, experiment: Experiment, values: Values, quick: bool) -> None:
    """Put an experiment's numbers into a record, in place of those that it has of it."""
    entries = read(path) if path.exists() else {}
    entries[experiment.id] = Entry(_core.__version__, quick, digest(experiment, quick), values)
    order = {own.id: n for n, own in enumerate(list_experiments())}
    names = sorted(entries, key=lambda name: (order.get(name, len(order)), name))
    text = ",\n".join(f"{json.dumps(name)}: {_text(entries[name])}" for name in names)
    _files.write_text(path, f"{{\n{text}\n}}\n")


def _text(entry: Entry) -> str:
    values = ",\n".join(
        f"  {json.dumps(key)}: {json.dumps([_number(value) for value in own])}"
        for key, own in entry.values.items()
    )
    head = f'"version": {json.dumps(entry.version)}, "quick": {json.dumps(entry.quick)}'
    return f'{{{head}, "runs": {json.dumps(entry.runs)}, "values": {{\n{values}}}}}'


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def rows_by_experiment(
    path: Path, experiments: Iterable[Experiment]
) -> dict[str, tuple[Experiment, Entry | None, list[Row]]]:
    """Return by id what is on record of experiments, with their rows.

    There is no entry, and the verdict of all rows is ``not run``, where an experiment is not on record
    or has other rows or runs now than when it was recorded.
    """
    entries = read(path)
    found: dict[str, tuple[Experiment, Entry | None, list[Row]]] = {}
    for experiment in experiments:
        entry = entries.get(experiment.id)
        why = _stale(experiment, entry)
        if entry is None or why:
            found[experiment.id] = experiment, None, not_run(experiment, why)
        else:
            found[experiment.id] = experiment, entry, rows_of(experiment, entry.values, entry.quick)
    return found


def _stale(experiment: Experiment, entry: Entry | None) -> str:
    """Return why what is on record of an experiment does not hold; nothing where it does."""
    if entry is None:
        return "It is not on record."
    if set(entry.values) != {row.key for row in experiment.rows}:
        return "Its rows have changed since it was recorded."
    if entry.runs != digest(experiment, entry.quick):
        return "Its runs have changed since it was recorded."
    return ""


def write_page(page: Path, record: Path) -> None:
    """Write the record of all experiments into a page, between the two lines that are there for it."""
    try:
        text = _files.read_text(page)
    except (OSError, UnicodeDecodeError) as error:
        raise PapersError(f"{page}: {error}") from error
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise PapersError(f"{page}: no place for the record: there must be a line {BEGIN!r} and then {END!r}")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    _files.write_text(page, f"{before}{BEGIN}\n\n{markdown(record)}\n{END}{after}")


def markdown(record: Path) -> str:
    """Return the record of all experiments as Markdown: counts, rows, and why some are not met."""
    found = rows_by_experiment(record, list_experiments())
    rows = [row for _, _, own in found.values() for row in own]
    return "\n".join((*_counts(found, rows), *_table(rows), *_reasons(rows)))


def _counts(
    found: Mapping[str, tuple[Experiment, Entry | None, list[Row]]], rows: Sequence[Row]
) -> list[str]:
    met = [row for row in rows if row["verdict"] == "met"]
    marked = {name: sum(name in marks(row) for row in met) for name in MARKS}
    number = counts(rows)
    quick = [name for name, (_, entry, _) in found.items() if entry and entry.quick]
    once = [name for name, (own, entry, _) in found.items() if entry and own.deterministic]
    seeds = sorted({row["seeds"] for row in rows if "seeds" in row})
    lines = [
        f"{len(rows)} numbers: {number['met']} met, {number['missed']} missed, {number['open']} open, "
        f"{number['shown']} shown without a verdict, and {number['not run']} not on record. Of those met "
        f"{marked['computed']} are computed, {marked['weak']} can hardly be missed and {marked['smoke']} are "
        f"held against the wider tolerances of quick runs. Means over "
        f"{' or '.join(map(str, seeds))} seeds; deterministic, and run once: {', '.join(once)}. "
        + (f"Quick runs: {', '.join(quick)}." if quick else "All runs are full ones."),
        "",
        f"| experiments | rows | {' | '.join(VERDICTS)} |",
        f"| --- | --- | {' | '.join('---' for _ in VERDICTS)} |",
    ]
    for letter, group in groupby(rows, key=lambda row: row["id"][0]):
        members = list(group)
        lines.append(f"| {letter} | {len(members)} | {' | '.join(map(str, counts(members).values()))} |")
    return [*lines, f"| all | {len(rows)} | {' | '.join(map(str, number.values()))} |", ""]


def _table(rows: Iterable[Row]) -> list[str]:
    lines = [
        "| id | quantity | unit | published | simulated | tolerance | verdict |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        verdict = row["verdict"] if row["verdict"] in ("met", "shown") else f"**{row['verdict']}**"
        cells = (
            row["id"],
            row["quantity"],
            row["unit"],
            f"{row['published']:.4g}",
            simulated_text(row),
            tolerance_text(row["tolerance"]),
            ", ".join((verdict, *marks(row))),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _reasons(rows: Iterable[Row]) -> list[str]:
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if "reason" in row:
            what = "all" if row["verdict"] == NOT_RUN else row["quantity"]
            own = found.setdefault((row["id"], row["reason"]), [])
            own += [what] if what not in own else []
    lines = ["What is missed, open or not run, and why:", ""]
    lines += [f"- **{name}**, {'; '.join(own)}: {reason}" for (name, reason), own in found.items()]
    return [*lines, ""]
