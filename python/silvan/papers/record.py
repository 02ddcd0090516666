"""Reads and writes the record of the results of the experiments, ``papers/record.json``.

For each experiment, the record contains the version of Silvan, whether the runs were quick, a digest of the
runs, and for each row the number of each seed. It contains no verdicts, which follow from ``published.toml``.
:mod:`silvan.papers.page` formats the record.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from silvan import _core, _files
from silvan.papers.catalogue import (
    Experiment,
    PapersError,
    find_papers,
    list_experiments,
)
from silvan.papers.rows import Row, Values, not_run, rows_of

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

#: Hexadecimal digits of a digest.
DIGITS = 16
KEYS = {"version", "quick", "runs", "values"}


@dataclass(frozen=True)
class Entry:
    """The recorded results of an experiment."""

    #: The version of Silvan that was run.
    version: str
    quick: bool
    #: Digest of the runs; see `digest`.
    runs: str
    values: Values


#: Experiments by id, with their recorded results and their rows.
Found = Mapping[str, tuple[Experiment, Entry | None, list[Row]]]


def find_record() -> Path:
    """Return the path of the record that comes with the experiments."""
    return find_papers() / "record.json"


def digest(experiment: Experiment, quick: bool) -> str:
    """Return a digest of the scenario files, function names and overrides of an experiment's runs."""
    runs = dict(experiment.code.runs(quick))
    if hasattr(experiment.code, "runs_of_seed"):
        # Include the runs of the second seed, because the seed changes the runs.
        runs |= {f"{name}, next seed": run for name, run in experiment.code.runs_of_seed(quick, 1).items()}
    what = {}
    for name, (scenario, overrides) in runs.items():
        is_file = scenario.endswith(".toml")
        content = tomllib.loads(_files.read_text(experiment.folder / scenario)) if is_file else scenario
        what[name] = [content, overrides]
    text = json.dumps(what, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def read(path: Path) -> dict[str, Entry]:
    """Return the recorded results by experiment; raises `PapersError` if the file is invalid."""
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
    """Raise `PapersError` for an existing record that cannot be read."""
    if path.exists():
        read(path)


def put(path: Path, experiment: Experiment, values: Values, quick: bool) -> None:
    """Write the numbers of an experiment to a record, and replace earlier numbers of the experiment.

    Raises `PapersError` if there is a record that cannot be read.
    """
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
    """Return the recorded results of experiments and their rows, by id.

    If an experiment is not on record, or if its rows or runs have changed since, the entry is None and the
    verdict of all its rows is ``not run``. Raises `PapersError` if the record cannot be read.
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
    """Return why the recorded results of an experiment are not valid; empty if they are valid."""
    if entry is None:
        return "It is not on record."
    if set(entry.values) != {row.key for row in experiment.rows}:
        return "Its rows have changed since it was recorded."
    if entry.runs != digest(experiment, entry.quick):
        return "Its runs have changed since it was recorded."
    return ""


def write_pages(folder: Path, record: Path) -> list[Path]:
    """Write the score, a page per paper and the figures that these show into a folder; return the pages."""
    # `page` imports this module.
    from silvan.papers.causes import read_causes
    from silvan.papers.history import of_papers
    from silvan.papers.page import paper_pages, summary

    experiments = list_experiments()
    found = rows_by_experiment(record, experiments)
    papers = find_papers()
    folder.mkdir(parents=True, exist_ok=True)
    pages = {"score.md": f"# The score\n\n{summary(found, of_papers())}\n"}
    pages |= paper_pages(found, read_causes(), papers / "notes", "img")
    written = []
    for name, text in pages.items():
        written.append(folder / name)
        _files.write_text(written[-1], text)
    figures = papers.parent / "docs" / "img"
    for experiment in experiments:
        if experiment.figure and (figures / experiment.figure).is_file():
            (folder / "img").mkdir(exist_ok=True)
            shutil.copyfile(figures / experiment.figure, folder / "img" / experiment.figure)
    return written
