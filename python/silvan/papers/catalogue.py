"""Finds the experiments and reads their expected numbers."""

from __future__ import annotations

import hashlib
import importlib.util
import math
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from silvan import _files, scenarios
from silvan._core import SilvanError

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

#: Tolerances that are not numbers: a bound on one side, or no comparison.
ONE_SIDED = ("at least", "at most")
SHOWN = "shown"
#: All verdicts. `open`: the confidence interval contains a bound. `compatible` and `incompatible`: single
#: draws vary by more than the tolerance, so the prediction interval of a draw decides the verdict. `not run`:
#: there is no valid result on record.
COMPATIBLE, INCOMPATIBLE = "compatible", "incompatible"
NOT_RUN = "not run"
VERDICTS = ("met", "missed", "open", INCOMPATIBLE, COMPATIBLE, SHOWN, NOT_RUN)
#: Verdicts of rows that need a reason.
UNMET = ("missed", "open", INCOMPATIBLE)

#: Origins of expected numbers: printed in the text or in a table of the source; read from its wording
#: ("almost 7"); derived from a rule of the source; or assumed because the source has no number.
PUBLISHED = "published"
PROVENANCES = (PUBLISHED, "read", "derived", "assumed")
#: Readings of the sources. Each added rows.
READINGS = (1, 2, 3, 4)
#: Kinds of comparisons: a number with a tolerance on both sides; an ordering, which compares the ratio of two
#: simulated numbers with 1; and another bound. `SHOWN` is the fourth kind.
TWO_SIDED, ORDERING, BOUND = "two-sided", "ordering", "bound"


#: Causes of numbers that are missed, open or incompatible, by their names in ``published.toml``.
CAUSES = {
    "rule": "the model lacks a rule of the system",
    "input": "the source omits an input that affects the number",
    "trace": "a trace or a figure of the source is not available",
    "source": "the source contradicts itself",
    "measurement": "the measured system varies in a way that the model does not",
    "draw": "the source reports one run or random selection, and results vary by more than the tolerance",
    "tie": "the two simulated numbers differ by less than one percent",
    "choice": "a parameter was calibrated on other numbers of the paper",
    "restated": "it follows from other rows and amplifies their difference",
}


class PapersError(SilvanError):
    """An experiment, the record or an argument is invalid, or a run has failed."""


@dataclass(frozen=True)
class Published:
    """An expected number, its origin, and its tolerance."""

    #: The name under which ``compare`` returns the simulated number.
    key: str
    #: Description for readers.
    quantity: str
    unit: str
    #: The number with which the simulated number is compared.
    expected: float
    #: One of `PROVENANCES`.
    provenance: str
    #: One of: a relative tolerance; ``at least`` or ``at most``, for orderings and bounds; or ``shown``.
    tolerance: float | str
    #: The tolerance for quick runs, which are less precise because they are shorter.
    quick_tolerance: float | str
    #: Paper, section, table or figure.
    source: str
    #: The assumption where the source does not state a value.
    assumption: str
    #: The reason why the row is missed, open or incompatible, in a few sentences.
    reason: str
    #: The cause in one word, one of `CAUSES`.
    cause: str
    #: The words or the rule of the source from which an unpublished expected number follows.
    basis: str
    #: The reason why the row is weak; empty if it is not.
    weak: str
    #: Whether a parameter of the model was chosen to meet this number.
    calibrated: bool
    #: Whether the number is computed from formulas or by counting, without simulating packets.
    computed: bool
    #: ``<ID>.<key>`` of a row that states the same and is counted instead: the effect to which this level
    #: belongs, or a level from which the source derives this number. Empty if there is none.
    restated: str
    #: The reading of the sources that added the row, one of `READINGS`.
    reading: int = 1
    #: Whether the number is a ratio that states a gain or a loss. The tolerance then applies to the gain,
    #: which is the difference from 1.
    gain: bool = False
    #: The reason why the row cannot fail; empty if it can.
    trivial: str = ""
    #: The reason why the source does not allow a decision; empty if it does.
    undecidable: str = ""
    #: ``<ID>.<key>`` of the row that has the same printed number, if there is one.
    duplicate_of: str = ""
    #: The number of runs whose mean the source prints; 0 if it prints one run. With a mean, the mean of the
    #: model and its confidence interval decide the verdict, even if single draws spread widely.
    mean_of: int = 0
    #: The name of the statement of the source that an ordering tests together with the other orderings of
    #: this name; empty if it tests a statement alone.
    statement: str = ""

    @property
    def published(self) -> float | None:
        """The expected number if the source prints it."""
        return self.expected if self.provenance == PUBLISHED else None

    @property
    def kind(self) -> str:
        """The kind of comparison: `TWO_SIDED`, `ORDERING`, `BOUND` or `SHOWN`."""
        if self.tolerance == SHOWN:
            return SHOWN
        if self.tolerance not in ONE_SIDED:
            return TWO_SIDED
        return ORDERING if self.expected == 1.0 and self.unit == "1" else BOUND

    @property
    def smoke(self) -> bool:
        """Whether quick runs have a different tolerance, so that they check the number only roughly."""
        return self.quick_tolerance != self.tolerance

    def bounds(self, quick: bool = False) -> tuple[float, float]:
        """Return the limits between which a simulated number meets the row; infinite without a limit."""
        tolerance = self.quick_tolerance if quick else self.tolerance
        if isinstance(tolerance, str):
            least = self.expected if tolerance == "at least" else -math.inf
            return least, self.expected if tolerance == "at most" else math.inf
        width = self._width(tolerance)
        return self.expected - width, self.expected + width

    def _width(self, tolerance: float) -> float:
        if self.gain:
            # Gains are printed in percent, so the tolerance is at least one unit of the last digit.
            decimals = len(repr(self.expected).partition(".")[2])
            return max(tolerance * abs(self.expected - 1), 10.0 ** -max(decimals, 2))
        return tolerance * abs(self.expected)

    def margin(self, simulated: float) -> float | None:
        """Return the ratio of a simulated number to its bound (``at least``), or the inverse (``at most``).

        The ratio is at least 1 if the bound is met. None if there is no bound, or if the number or the bound
        is not positive.
        """
        if self.tolerance not in ONE_SIDED or not (self.expected > 0 and simulated > 0):
            return None
        ratio = simulated / self.expected
        return ratio if self.tolerance == "at least" else 1 / ratio

    def verdict(
        self, simulated: float, interval: float = 0.0, quick: bool = False, spread: float = 0.0
    ) -> str:
        """Return one of `VERDICTS` except ``not run``.

        ``interval`` is half the width of the confidence interval of ``simulated``, and ``spread`` is half
        the width of the prediction interval of a single draw. If ``spread`` exceeds the tolerance of a
        published number that is not a mean, the prediction interval decides instead of the tolerance.
        """
        tolerance = self.quick_tolerance if quick else self.tolerance
        if tolerance == SHOWN:
            return SHOWN
        is_draw = self.published is not None and not self.mean_of
        if is_draw and isinstance(tolerance, float) and spread > self._width(tolerance):
            return COMPATIBLE if abs(self.expected - simulated) <= spread else INCOMPATIBLE
        least, most = self.bounds(quick)
        if least <= simulated - interval and simulated + interval <= most:
            return "met"
        # NaN fails every comparison, so it is missed.
        straddles = simulated + interval >= least and simulated - interval <= most
        return "open" if straddles else "missed"


@dataclass(frozen=True)
class Experiment:
    """A published experiment: its folder, its title and its expected numbers."""

    id: str
    title: str
    source: str
    #: The paper under which the experiment is listed.
    paper: str
    #: Whether its numbers are laws and closed forms, which follow from the rules of the model.
    law: bool
    #: Whether the source is not one of the eight papers, so that its rows are counted separately.
    other_source: bool
    folder: Path
    #: The runs and the comparison, in a few sentences.
    about: str
    #: The assumption where the source does not state a value.
    assumption: str
    #: Rough wall time of a full and of a quick run with one seed on one core, in seconds.
    full_seconds: float
    quick_seconds: float
    #: File in `docs/img` with its plot of a recorded run, if there is one.
    figure: str
    #: Whether the experiment's numbers involve no random choices, so that one seed is sufficient.
    deterministic: bool
    rows: tuple[Published, ...]

    @cached_property
    def code(self) -> ModuleType:
        """The module ``experiment.py``; raises `PapersError` if the file or a function is missing."""
        module = load_module(self.folder / "experiment.py", f"silvan_papers_{self.id}")
        for name in ("runs", "compare", "plot"):
            if not callable(getattr(module, name, None)):
                raise PapersError(f"{module.__file__}: a function `{name}` is missing")
        return module


class _Loader(SourceFileLoader):
    """Compiles a file at each import. Python's cache does not detect all changes within a second."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def load_module(path: Path, name: str) -> ModuleType:
    """Import a Python file that is not part of a package; raises `PapersError` if it does not exist."""
    spec = importlib.util.spec_from_file_location(name, path, loader=_Loader(name, str(path)))
    if spec is None or spec.loader is None or not path.is_file():
        raise PapersError(f"{path}: no such Python file")
    module = importlib.util.module_from_spec(spec)
    # Data classes need the module in which they are defined.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def common(name: str) -> ModuleType:
    """Import ``papers/common/<name>.py``, which several experiments share.

    Each file is imported only once. Raises `PapersError` if there is no such file.
    """
    return _common(find_papers() / "common" / f"{name}.py")


@cache
def _common(path: Path) -> ModuleType:
    # Another folder of experiments may have a file of this name, so the module name includes the folder.
    folder = hashlib.sha256(str(path.parent).encode()).hexdigest()[:8]
    return load_module(path, f"silvan_papers_common_{folder}_{path.stem}")


def find_papers() -> Path:
    """Return the folder ``papers/``: that in ``SILVAN_PAPERS`` if set, otherwise that of this package.

    Raises `SilvanError` if there is no such folder.
    """
    chosen = os.environ.get("SILVAN_PAPERS")
    if not chosen:
        return scenarios.folder("papers")
    if not (Path(chosen) / "common").is_dir():
        raise PapersError(f"SILVAN_PAPERS={chosen}: not the folder papers/ of Silvan's repository")
    return Path(chosen).resolve()


def _tolerance(value: Any, where: str) -> float | str:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1:
        return float(value)
    if value in (*ONE_SIDED, SHOWN):
        return str(value)
    raise PapersError(f'{where}: tolerance = {value!r}: must be 0 to 1, "at least", "at most" or "shown"')


def _flag(raw: dict[str, Any], key: str, where: str) -> bool:
    value = raw.get(key, False)
    if not isinstance(value, bool):
        raise PapersError(f"{where}: {key} = {value!r}: must be true or false")
    return value


def _mean_of(raw: dict[str, Any], where: str) -> int:
    value = raw.get("mean_of", 0)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise PapersError(f"{where}: mean_of = {value!r}: must be a number of runs")
    return value


def _reading(raw: dict[str, Any], where: str) -> int:
    value = raw.get("reading", 1)
    if value not in READINGS or isinstance(value, bool):
        raise PapersError(f"{where}: reading = {value!r}: must be one of {', '.join(map(str, READINGS))}")
    return int(value)


def _text(raw: dict[str, Any], key: str, where: str, default: str = "") -> str:
    value = raw.get(key, default)
    if not isinstance(value, str):
        raise PapersError(f"{where}: {key} = {value!r}: must be text")
    return " ".join(value.split())


def _of_texts(raw: dict[str, Any], texts: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the keys of a row, with each ``@name`` replaced by the text ``texts.name``."""
    found = {}
    for key, value in raw.items():
        if isinstance(value, str) and value.startswith("@"):
            if value[1:] not in texts:
                raise PapersError(f"{where}: {key} = {value!r}: there is no texts.{value[1:]}")
            found[key] = texts[value[1:]]
        else:
            found[key] = value
    return found


def _expected(raw: dict[str, Any], where: str) -> tuple[str, float]:
    """Return the provenance of a row's expected number, and the number."""
    given = [name for name in PROVENANCES if name in raw]
    if len(given) != 1:
        raise PapersError(f"{where}: exactly one of {', '.join(PROVENANCES)} must give the number")
    value = raw[given[0]]
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise PapersError(f"{where}: {given[0]} = {value!r}: must be a number")
    return given[0], float(value)


def _row(raw: dict[str, Any], common: dict[str, Any], where: str) -> Published:
    raw = _of_texts(raw, common["texts"], where)
    known = (set(Published.__dataclass_fields__) - {"expected", "provenance"}) | set(PROVENANCES)
    for key in raw:
        if key not in known:
            raise PapersError(f"{where}: unknown key `{key}`; known are {', '.join(sorted(known))}")
    for key in ("key", "quantity", "unit", "tolerance"):
        if key not in raw:
            raise PapersError(f"{where}: `{key}` is missing")
    cause = _text(raw, "cause", where)
    if cause and cause not in CAUSES:
        raise PapersError(f"{where}: cause = {cause!r}: must be one of {', '.join(CAUSES)}")
    if cause and "reason" not in raw:
        raise PapersError(f"{where}: `reason` must say more about the cause")
    provenance, expected = _expected(raw, where)
    basis = _text(raw, "basis", where, "" if provenance == PUBLISHED else common["basis"])
    if provenance != PUBLISHED and not basis:
        raise PapersError(f"{where}: `basis` must state the origin of the {provenance} number")
    tolerance = _tolerance(raw["tolerance"], where)
    row = Published(
        key=raw["key"],
        quantity=_text(raw, "quantity", where),
        unit=raw["unit"],
        expected=expected,
        provenance=provenance,
        tolerance=tolerance,
        quick_tolerance=_tolerance(raw.get("quick_tolerance", tolerance), where),
        source=raw.get("source", common["source"]),
        assumption=_text(raw, "assumption", where, common["assumption"]),
        reason=_text(raw, "reason", where),
        cause=cause,
        basis=basis,
        weak=_text(raw, "weak", where),
        calibrated=_flag(raw, "calibrated", where) or common["calibrated"],
        computed=_flag(raw, "computed", where) or common["computed"],
        restated=_text(raw, "restated", where),
        reading=_reading(raw, where),
        gain=_flag(raw, "gain", where),
        trivial=_text(raw, "trivial", where),
        undecidable=_text(raw, "undecidable", where, common["undecidable"]),
        duplicate_of=_text(raw, "duplicate_of", where),
        mean_of=_mean_of(raw, where) or common["mean_of"],
        statement=_text(raw, "statement", where),
    )
    if row.statement and row.kind != ORDERING:
        raise PapersError(
            f"{where}: statement = {row.statement!r}: only an ordering can be part of a statement"
        )
    return row


def read_experiment(folder: Path) -> Experiment:
    """Read ``published.toml`` of one experiment; raises `PapersError` if it is invalid."""
    path = folder / "published.toml"
    try:
        raw = tomllib.loads(_files.read_text(path))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PapersError(f"{path}: {error}") from error
    for key in ("title", "source", "about", "row"):
        if key not in raw:
            raise PapersError(f"{path}: `{key}` is missing")
    common = {
        "source": raw["source"],
        "assumption": raw.get("assumption", ""),
        "basis": raw.get("basis", ""),
        "calibrated": _flag(raw, "calibrated", str(path)),
        "computed": _flag(raw, "computed", str(path)),
        "undecidable": _text(raw, "undecidable", str(path)),
        "mean_of": _mean_of(raw, str(path)),
        "texts": raw.get("texts", {}),
    }
    rows = tuple(_row(row, common, f"{path}: row {n}") for n, row in enumerate(raw["row"], 1))
    keys = [row.key for row in rows]
    if len(set(keys)) != len(keys):
        raise PapersError(f"{path}: two rows have the same key")
    return Experiment(
        id=folder.name,
        title=raw["title"],
        source=raw["source"],
        paper=_text(raw, "paper", str(path), raw["source"].partition(",")[0]),
        law=_flag(raw, "law", str(path)),
        other_source=_flag(raw, "other_source", str(path)),
        folder=folder,
        about=" ".join(raw["about"].split()),
        assumption=" ".join(common["assumption"].split()),
        full_seconds=float(raw.get("full_seconds", 60)),
        quick_seconds=float(raw.get("quick_seconds", 10)),
        figure=_text(raw, "figure", str(path)),
        deterministic=_flag(raw, "deterministic", str(path)),
        rows=rows,
    )


def _order(name: str) -> tuple[str, int]:
    match = re.fullmatch(r"([A-Za-z]+)(\d+)", name)
    return (match[1], int(match[2])) if match else (name, 0)


def list_experiments() -> list[Experiment]:
    """Return all experiments, in the order of their ids; raises `PapersError` if one is invalid."""
    folders = [f.parent for f in find_papers().glob("*/published.toml")]
    return [read_experiment(f) for f in sorted(folders, key=lambda f: _order(f.name))]


def choose(ids: Iterable[str]) -> list[Experiment]:
    """Return the experiments with the given ids, in upper or lower case; ``all`` selects all experiments.

    Raises `PapersError` for an unknown id, or if no id is given.
    """
    experiments = {e.id.lower(): e for e in list_experiments()}
    chosen: dict[str, Experiment] = {}
    for wanted in ids:
        key = wanted.lower()
        if key == "all":
            chosen.update(experiments)
        elif key in experiments:
            chosen[key] = experiments[key]
        else:
            known = ", ".join(e.id for e in experiments.values())
            raise PapersError(f"there is no experiment `{wanted}`; known are {known}, and `all`")
    if not chosen:
        raise PapersError("name at least one experiment, or `all`")
    return list(chosen.values())
