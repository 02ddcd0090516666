"""The folder of a run on disk, written whole or not at all.

Everything is written to a hidden folder beside the target, flushed to the disk, and renamed
in one step. `provenance.json` comes last, so even a folder that somebody renamed by hand
cannot look finished unless it is.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import arro3.io

if TYPE_CHECKING:
    from silvan.results import Result

#: Version of the folder's layout.
FORMAT = 1
PROVENANCE = "provenance.json"


class NotARunError(Exception):
    """The folder is not that of a finished run."""


def write(target: Path, result: Result) -> Path:
    """Write `result` to the folder `target`; see :meth:`silvan.Result.save`."""
    refuse_foreign(target)
    parent = target.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    mark = f"{os.getpid()}-{secrets.token_hex(4)}"
    partial = parent / f".{target.name}.partial-{mark}"
    partial.mkdir()
    try:
        _write_files(partial, result)
        _flush(partial)
        _put_in_place(partial, target, parent / f".{target.name}.replaced-{mark}")
        _flush(parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return target


def refuse_foreign(target: Path) -> None:
    """Raise `FileExistsError` where `target` holds anything but an earlier run."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise FileExistsError(0, "exists and is not a folder", str(target))
    if target.is_dir() and any(target.iterdir()) and not (target / PROVENANCE).is_file():
        raise FileExistsError(
            0, "is not empty and not the folder of a run; choose another or empty it", str(target)
        )


def _write_files(folder: Path, result: Result) -> None:
    def text(name: str, content: str) -> None:
        (folder / name).write_text(content, encoding="utf-8")
        _flush(folder / name)

    text("scenario.toml", result.scenario_toml)
    text("summary.json", _json(result.summary))
    account = [*result.account, *(f"Warning: {warning}" for warning in result.warnings)]
    text("account.txt", "".join(f"{line}\n" for line in account))
    for name, table in result.tables.items():
        path = folder / f"{name}.parquet"
        arro3.io.write_parquet(table, path, compression="zstd(3)")
        _flush(path)
    marks = {
        "format": FORMAT,
        "tables": list(result.tables),
        "account": result.account,
        "warnings": result.warnings,
    }
    text(PROVENANCE, _json({**result.provenance, **marks}))


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all; one that is there is replaced."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give the path of a file to write, which then takes the place of `path` unless that failed."""
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        yield partial
        _flush(partial)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _put_in_place(partial: Path, target: Path, aside: Path) -> None:
    """Rename `partial` to `target`; an earlier run there is kept until that has worked."""
    if not target.exists() or not any(target.iterdir()):
        partial.rename(target)
        return
    target.rename(aside)
    try:
        partial.rename(target)
    except BaseException:
        aside.rename(target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def read(folder: Path) -> dict[str, Any]:
    """Read the parts of a :class:`silvan.Result`."""
    path = folder / PROVENANCE
    if ".partial-" in folder.name or not path.is_file():
        raise NotARunError(f"{folder}: not the folder of a finished run (no {PROVENANCE})")
    provenance: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if provenance.pop("format") != FORMAT:
        raise NotARunError(f"{folder}: written by another version of Silvan ({provenance.get('version')})")
    return {
        "account": provenance.pop("account"),
        "warnings": provenance.pop("warnings"),
        "tables": {
            name: arro3.io.read_parquet(folder / f"{name}.parquet").read_all()
            for name in provenance.pop("tables")
        },
        "provenance": provenance,
        "summary": json.loads((folder / "summary.json").read_text(encoding="utf-8")),
        "scenario_toml": (folder / "scenario.toml").read_text(encoding="utf-8"),
    }
