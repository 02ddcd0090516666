"""Writes the folder of a run completely or not at all, and reads it.

All files are written to a hidden folder next to the target and flushed to the disk. The folder is then
renamed. `provenance.json` is written last, so a folder without this file is incomplete. This
file contains the size and the hash of every other file, so that damage can be detected.

The files of an earlier run are removed only by their known names. A run is replaced only if its folder
contains only files with these names.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

import arro3.io

from silvan import _files, _layout
from silvan._columns import TABLES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from arro3.core import Table

    from silvan.results import Result
    from silvan.types import Provenance, Summary

#: Version of the folder layout. Increase it when a change of tables or keys is not compatible.
FORMAT = 4
PROVENANCE = "provenance.json"
SCENARIO, SUMMARY, ACCOUNT = "scenario.toml", "summary.json", "account.txt"
#: Subfolder and names of the figures that `silvan.plot` draws.
FIGURES_FOLDER = "figures"
FIGURES = (
    "throughput", "ccti", "hosts", "links", "congestion", "latency", "class-throughput", "class-latency",
)  # fmt: skip
FIGURE_ENDINGS = (".png", ".svg")
#: The first four and the last four bytes of a Parquet file.
PARQUET = b"PAR1"
#: The files that the folder of a run may contain, and those of its subfolder of figures.
FILES = frozenset((SCENARIO, SUMMARY, ACCOUNT, PROVENANCE, *(f"{name}.parquet" for name in TABLES)))
FIGURE_FILES = frozenset(f"{name}{ending}" for name in FIGURES for ending in FIGURE_ENDINGS)
#: Maximum number of unknown files that a message lists.
NAMES_SHOWN = 4


class NotARunError(Exception):
    """The folder contains no finished run, or one that another version of Silvan wrote."""


class DamagedError(Exception):
    """A file of the run is missing, is invalid, or has changed since it was written."""


def write(target: Path, result: Result, *, force: bool = False) -> Path:
    """Write `result` to the folder `target`; see :meth:`silvan.Result.save`."""
    refuse_foreign(target, scenario=result.name, force=force)
    parent = target.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    mark = _files.mark()
    partial = parent / f".{target.name}.partial-{mark}"
    partial.mkdir()
    try:
        _write_files(partial, result)
        _files.flush(partial)
        aside = parent / f".{target.name}.replaced-{mark}"
        _put_in_place(partial, target, aside, scenario=result.name, force=force)
        _files.flush(parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return target


def refuse_foreign(target: Path, *, scenario: str | None = None, force: bool = False) -> None:
    """Raise `FileExistsError` unless `target` is a new or empty folder, or contains only an earlier run.

    The error is also raised for a symbolic link, and for the current folder and its parents. If `scenario` is
    given and `force` is not set, the error is also raised for a run of a scenario with another name.
    """
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise FileExistsError(errno.EEXIST, "exists and is not a folder", str(target))
    here = Path.cwd()
    if target.resolve() in (here, *here.parents):
        what = "is the current folder or one above it; name a folder inside"
        raise FileExistsError(errno.EEXIST, what, str(target))
    if not target.is_dir() or not any(target.iterdir()):
        return
    written_by = _scenario_of(target)
    if written_by is None:
        what = "is not empty and not the folder of a run; choose another or empty it"
        raise FileExistsError(errno.EEXIST, what, str(target))
    refuse_strangers(target)
    if scenario is not None and written_by != scenario and not force:
        what = (
            f"has a run of the scenario `{written_by}`, not of `{scenario}`; "
            "choose another folder, or replace it with --force (force=True)"
        )
        raise FileExistsError(errno.EEXIST, what, str(target))


def refuse_strangers(target: Path) -> None:
    """Raise `FileExistsError` if the folder of a run also contains files that no run writes."""
    if strange := strangers(target):
        more = f" and {len(strange) - NAMES_SHOWN} more" if len(strange) > NAMES_SHOWN else ""
        what = (
            "is not replaced, since it contains files that no run writes: "
            f"{', '.join(strange[:NAMES_SHOWN])}{more}; choose another folder, or move these away"
        )
        raise FileExistsError(errno.EEXIST, what, str(target))


def _scenario_of(folder: Path) -> str | None:
    """Return the scenario name of the run in the folder; None if the folder contains no run."""
    # The `provenance.json` of a sweep does not have the keys `format` and `tables`.
    try:
        provenance = _files.parse_json(_files.read_text(folder / PROVENANCE))
    except (OSError, ValueError):
        return None
    if not isinstance(provenance, dict) or "format" not in provenance or "tables" not in provenance:
        return None
    return str(provenance.get("scenario", "scenario"))


def strangers(folder: Path) -> list[str]:
    """Return the names in the folder of a run, and in its subfolder of figures, that no run writes."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.name == FIGURES_FOLDER and path.is_dir() and not path.is_symlink():
            found += [
                f"{FIGURES_FOLDER}/{figure.name}"
                for figure in sorted(path.iterdir())
                if figure.name not in FIGURE_FILES or not _is_own_file(figure)
            ]
        elif path.name not in FILES or not _is_own_file(path):
            found.append(path.name)
    return found


def _is_own_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def remove(folder: Path) -> None:
    """Remove the files of a run by name, and then the folder; raises `OSError` if other files remain."""
    # Remove the file that marks a finished run first. After an interruption, the run is then incomplete.
    for name in (PROVENANCE, *sorted(FILES - {PROVENANCE})):
        (folder / name).unlink(missing_ok=True)
    figures = folder / FIGURES_FOLDER
    if figures.is_dir() and not figures.is_symlink():
        for name in sorted(FIGURE_FILES):
            (figures / name).unlink(missing_ok=True)
        figures.rmdir()
    folder.rmdir()


def _write_files(folder: Path, result: Result) -> None:
    files: dict[str, dict[str, Any]] = {}

    def put(name: str, content: bytes) -> None:
        (folder / name).write_bytes(content)
        _files.flush(folder / name)
        files[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}

    put(SCENARIO, result.scenario_toml.encode())
    put(SUMMARY, _files.to_json(result.summary).encode())
    account = [*result.account, *(f"Warning: {warning}" for warning in result.warnings)]
    put(ACCOUNT, "".join(f"{line}\n" for line in account).encode())
    for name, table in result.tables.items():
        put(f"{name}.parquet", parquet(table))
    marks = {
        "format": FORMAT,
        "tables": list(result.tables),
        "account": result.account,
        "warnings": result.warnings,
        "files": files,
    }
    put(PROVENANCE, _files.to_json({**result.provenance, **marks}).encode())


def parquet(table: Table) -> bytes:
    """Encode a table in the Parquet format.

    The table is written to memory, because arro3 panics if a write fails, for example on a full disk.
    """
    content = io.BytesIO()
    arro3.io.write_parquet(table, content, compression="zstd(3)")
    return content.getvalue()


def _put_in_place(partial: Path, target: Path, aside: Path, *, scenario: str, force: bool) -> None:
    """Rename `partial` to `target`. An earlier run is first renamed to `aside`, and removed afterwards.

    After an error, the earlier run is renamed back.
    """
    if not target.exists() or not any(target.iterdir()):
        partial.rename(target)
        return
    target.rename(aside)
    try:
        # Another process may have changed the folder since the first check.
        refuse_foreign(aside, scenario=scenario, force=force)
        partial.rename(target)
    except BaseException as error:
        aside.rename(target)
        if isinstance(error, FileExistsError):
            error.filename = str(target)
        raise
    with contextlib.suppress(OSError):
        remove(aside)


class Contents(TypedDict):
    """Arguments of :class:`silvan.Result`."""

    scenario_toml: str
    provenance: Provenance
    summary: Summary
    account: list[str]
    warnings: list[str]
    tables: dict[str, Table]


def read(folder: Path) -> Contents:
    """Read the files in the folder of a run.

    Raises :class:`NotARunError`, :class:`DamagedError`, or `OSError` if a file cannot be read.
    """
    provenance = _provenance(folder)
    files = provenance.pop("files", {})
    tables = {name: f"{name}.parquet" for name in provenance.pop("tables")}
    return {
        "account": provenance.pop("account"),
        "warnings": provenance.pop("warnings"),
        "tables": {name: _table(name, file, _content(folder, file, files)) for name, file in tables.items()},
        "provenance": cast("Provenance", provenance),
        "summary": _summary(folder, files),
        "scenario_toml": _scenario(_content(folder, SCENARIO, files)),
    }


def read_summary(folder: Path) -> Summary:
    """Read only the summary of a run, and check that the other files exist and have the recorded sizes.

    Raises the same errors as :func:`read`.
    """
    files = _provenance(folder).get("files", {})
    for name, facts in files.items():
        try:
            size = (folder / name).stat().st_size
        except FileNotFoundError:
            raise DamagedError(f"{name}: missing") from None
        if size != facts.get("bytes"):
            raise DamagedError(f"{name}: {size} bytes instead of {facts.get('bytes')}")
    return _summary(folder, files)


def _summary(folder: Path, files: dict[str, dict[str, Any]]) -> Summary:
    value = _object(SUMMARY, _content(folder, SUMMARY, files))
    try:
        _layout.check_summary(value)
    except _layout.LayoutError as error:
        raise DamagedError(f"{SUMMARY}: {error}") from None
    return cast("Summary", value)


def _scenario(content: bytes) -> str:
    text = _text(SCENARIO, content)
    try:
        tomllib.loads(text)
    except ValueError as error:
        raise DamagedError(f"{SCENARIO}: not valid TOML: {error}") from None
    except RecursionError:
        raise DamagedError(f"{SCENARIO}: tables or lists nested too deeply") from None
    return text


def _content(folder: Path, name: str, files: dict[str, dict[str, Any]]) -> bytes:
    """Read a file of a run and check its hash, if recorded, because arro3 may panic on a damaged file."""
    try:
        content = _files.plain(folder / name).read_bytes()
    except (FileNotFoundError, IsADirectoryError) as error:
        raise DamagedError(f"{name}: {error.strerror}") from None
    if name in files and files[name].get("sha256") != hashlib.sha256(content).hexdigest():
        raise DamagedError(f"{name}: changed since it was written")
    return content


def _provenance(folder: Path) -> dict[str, Any]:
    path = folder / PROVENANCE
    if not folder.exists():
        raise NotARunError(f"{folder}: no such folder; `silvan run SCENARIO --out {folder}` writes one")
    if ".partial-" in folder.name or not path.is_file():
        report = folder / "report.html"
        hint = f"; its report is {report}" if report.is_file() else ""
        raise NotARunError(f"{folder}: not the folder of a finished run (no {PROVENANCE}){hint}")
    provenance = _object(PROVENANCE, path.read_bytes())
    if "format" not in provenance or "tables" not in provenance:
        raise NotARunError(f"{folder}: not the folder of a run ({PROVENANCE} is not one of a run)")
    if provenance.pop("format") != FORMAT or not set(_names(provenance)) <= set(TABLES):
        raise NotARunError(f"{folder}: written by another version of Silvan ({provenance.get('version')})")
    for key in ("account", "warnings"):
        lines = provenance.get(key)
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            raise DamagedError(f"{PROVENANCE}: `{key}` is not a list of texts")
    files = provenance.get("files", {})
    if not isinstance(files, dict) or not all(isinstance(facts, dict) for facts in files.values()):
        raise DamagedError(f"{PROVENANCE}: `files` is not a table of files")
    if not set(files) <= FILES:
        raise DamagedError(f"{PROVENANCE}: `files` names files that no run writes")
    try:
        _layout.check_provenance(provenance)
        _layout.check_tables(_names(provenance))
    except _layout.LayoutError as error:
        raise DamagedError(f"{PROVENANCE}: {error}") from None
    return provenance


def _names(provenance: dict[str, Any]) -> Sequence[str]:
    names = provenance["tables"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DamagedError(f"{PROVENANCE}: `tables` is not a list of names")
    return names


def _text(name: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise DamagedError(f"{name}: not a text in UTF-8") from None


def _object(name: str, content: bytes) -> dict[str, Any]:
    try:
        value = _files.parse_json(_text(name, content))
    except ValueError as error:
        raise DamagedError(f"{name}: {error}") from None
    if not isinstance(value, dict):
        raise DamagedError(f"{name}: not a JSON object")
    return value


def _table(name: str, file: str, content: bytes) -> Table:
    # arro3 panics on a file that is not a Parquet file, and prints a message.
    if content[:4] != PARQUET or content[-4:] != PARQUET or len(content) < 12:
        raise DamagedError(f"{file}: not a Parquet file")
    try:
        table = arro3.io.read_parquet(io.BytesIO(content)).read_all()
        _layout.check_table(name, table)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of arro3 does not derive from Exception
        raise DamagedError(f"{file}: {(str(error).splitlines() or [type(error).__name__])[0]}") from None
    return table
