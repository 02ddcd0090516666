"""A store of finished runs. A run that is in the store is not simulated again.

Each run has an address: a hash of the resolved scenario with its seed, of the contents of the files that it
names, and of the version and the build of the simulator. The run's folder has the layout of
:meth:`silvan.Result.save`:

>>> from silvan._store import Store
>>> store = Store("out/runs")  # doctest: +SKIP
>>> run = store.run(scenario)  # doctest: +SKIP
>>> run.result, run.found      # doctest: +SKIP

`run.found` is true if the run was already in the store. `store.find(address(scenario))` only searches the
store. With ``keep="summary"``, a run is written without its tables and takes a few kilobytes. A result that
is later read from the store then lacks the tables, but a newly simulated result contains them.

Several processes may use a store at the same time, also from different machines that share the file system.
If the file system supports locks, a process that needs a run waits while another process simulates it. A
process may be killed at any time. It leaves no incomplete run that looks finished, and its partial files are
removed later. A run that takes longer than :data:`CHECKPOINT_EVERY_S` is saved at that interval, and the next
process that needs the run continues it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from silvan import _core, _files, _folder, checkpoints, results
from silvan._files import STALE_S
from silvan._provenance import build

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from silvan.results import Progress, Result
    from silvan.types import Summary

#: The parts of a run that are kept: all of it, or all except the tables.
Keep = Literal["tables", "summary"]

#: Version of the store layout. It is part of the address, so runs with another layout are not found.
LAYOUT = 1
#: Keys of a scenario that do not affect the result.
NAMES = ("name", "description")
#: Number of hexadecimal digits of an address, for 128 bits.
DIGITS = 32
#: Suffix of the folder of a run without tables.
COMPACT = ".summary"
#: Suffix of the checkpoint of a run that has not ended.
CHECKPOINT = ".checkpoint"
#: Suffix of the folder of notes about a run.
NOTES = ".notes"
#: Matches the names of lock files and partial folders of running or killed processes.
LEFTOVER = re.compile(
    rf"\.([0-9a-f]{{{DIGITS}}})(?:\.lock$|(?:{re.escape(COMPACT)}|{re.escape(CHECKPOINT)})?\.partial-)"
)
#: Interval in seconds between attempts to acquire the lock of a run.
LOOK_EVERY_S = 0.1
#: Wall-clock time in seconds between checkpoints of a run. Shorter runs have none.
CHECKPOINT_EVERY_S = 300.0


def address(scenario: _core.Scenario) -> str:
    """Return the address of the run of a scenario.

    The address depends on the resolved scenario including its seed but not its name and description, on the
    contents of the files that it names but not their location, and on the version and build of the simulator.

    Raises `OSError` if a file cannot be read.
    """
    resolved = tomllib.loads(scenario.to_toml())
    for name in NAMES:
        resolved.pop(name, None)
    what = {
        "layout": [LAYOUT, _folder.FORMAT],
        "version": _core.__version__,
        "build": build(),
        "scenario": _with_contents(resolved, Path(scenario.base_dir)),
    }
    text = json.dumps(what, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _with_contents(value: Any, base: Path) -> Any:
    """Replace the file name in each key `file` by a hash of the file's contents; raises `OSError`."""
    if isinstance(value, list):
        return [_with_contents(item, base) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {"sha256": _hash_of(base / item)}
        if key == "file" and isinstance(item, str)
        else _with_contents(item, base)
        for key, item in value.items()
    }


def _hash_of(path: Path) -> str:
    status = _files.plain(path).stat()
    return _hash_of_version(path, status.st_mtime_ns, status.st_size)


@cache
def _hash_of_version(path: Path, changed_ns: int, size: int) -> str:
    # The time and the size are part of the cache key, so an edited file is read again.
    return hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass(frozen=True)
class StoredRun:
    """A run in a store."""

    result: Result
    folder: Path
    #: Whether the run was already in the store.
    found: bool


class Store:
    """A folder of finished runs. The first run creates the folder."""

    def __init__(self, root: str | PathLike[str]) -> None:
        self.root = Path(root)

    def folder(self, address: str, keep: Keep = "tables") -> Path:
        """Return the folder in which a run is stored, or would be stored."""
        # Use two levels: many file systems are slow if a folder has a hundred thousand entries.
        return self.root / address[:2] / (address + (COMPACT if keep == "summary" else ""))

    def find(self, address: str, keep: Keep = "tables") -> Path | None:
        """Return the folder of a finished run; None if there is none.

        With ``keep="summary"``, the folder may lack the tables.
        """
        wanted: tuple[Keep, ...] = ("tables",) if keep == "tables" else ("tables", "summary")
        for kind in wanted:
            folder = self.folder(address, kind)
            if (folder / _folder.PROVENANCE).is_file():
                return folder
        return None

    def run(
        self,
        scenario: _core.Scenario,
        *,
        keep: Keep = "tables",
        progress: Progress | None = None,
        known: str | None = None,
        finish: Callable[[Result], object] | None = None,
    ) -> StoredRun:
        """Return a scenario's run from the store; simulate and store the run if it is missing.

        `known` is the address, if the caller has computed it. `finish` is called with a new result, including
        its tables, before the folder of the run appears.

        Raises the exceptions of :func:`silvan.run`, :class:`silvan.ResultError` if the run cannot be written
        or read, and `OSError` if the address is not `known` and a file of the scenario cannot be read.
        """
        at = known or address(scenario)
        run = self._stored(at, keep)
        if run is None:
            with self._turn(at):
                # Another process may have finished this run while this process waited.
                run = self._stored(at, keep) or self._simulate(scenario, at, keep, progress, finish)
        return run

    def _stored(self, at: str, keep: Keep) -> StoredRun | None:
        """Read a finished run; None if the run is missing or damaged.

        Raises `ResultError` if a file cannot be read.
        """
        folder = self.find(at, keep)
        if folder is None:
            return None
        try:
            return StoredRun(results.Result(**_folder.read(folder)), folder, True)
        except (_folder.NotARunError, _folder.DamagedError):
            return None
        except OSError as error:
            # Do not simulate again: the run exists, and users may be able to repair the disk or the
            # permissions.
            where = _files.place(error) or folder
            raise results.ResultError(f"{where}: cannot be read: {error.strerror or error}") from None

    def summary(self, at: str, keep: Keep = "tables") -> Summary | None:
        """Return the summary of a finished run; None if the run is missing or damaged.

        Only the sizes of the other files are checked, because reading all files of a large store is slow.
        Raises `OSError` if a file cannot be read.
        """
        folder = self.find(at, keep)
        if folder is None:
            return None
        try:
            return _folder.read_summary(folder)
        except (_folder.NotARunError, _folder.DamagedError):
            return None

    def _simulate(
        self,
        scenario: _core.Scenario,
        at: str,
        keep: Keep,
        progress: Progress | None,
        finish: Callable[[Result], object] | None,
    ) -> StoredRun:
        folder = self.folder(at, keep)
        self._clear_damaged(at)
        saved = self.root / at[:2] / (at + CHECKPOINT)
        result = _resumed_or_run(scenario, saved, progress)
        kept = result if keep == "tables" else _without_tables(result)
        if finish is not None:
            finish(result)
        try:
            # On a file system without locks, another process may have written the same result first.
            if self._stored(at, keep) is None:
                _folder.write(folder, kept)
        except OSError as error:
            if self._stored(at, keep) is None:
                where = _files.place(error) or folder
                raise results.ResultError(f"{where}: {error.strerror or error}; not written") from error
        saved.unlink(missing_ok=True)
        return StoredRun(result, folder, False)

    def _clear_damaged(self, at: str) -> None:
        """Remove a damaged run, because :meth:`find` would return it instead of an intact run."""
        for kind in ("tables", "summary"):
            folder = self.folder(at, kind)
            if not folder.is_dir() or self._stored(at, kind) is not None:
                continue
            try:
                _folder.refuse_strangers(folder)
                _folder.remove(folder)
            except OSError as error:
                raise results.ResultError(
                    f"{folder}: damaged, and {error.strerror or error}; nothing written"
                ) from None

    @contextmanager
    def _turn(self, at: str) -> Iterator[None]:
        """Hold the lock of this run during the block, after waiting for other processes that hold it."""
        shelf = self.root / at[:2]
        try:
            shelf.mkdir(parents=True, exist_ok=True)
            lock = _Lock(shelf / f".{at}.lock")
            while not lock.take():
                time.sleep(LOOK_EVERY_S)
        except OSError as error:
            raise results.ResultError(f"{shelf}: {error.strerror or error}; nothing written") from error
        try:
            if lock.held:
                _clear(shelf, at)
            yield
        finally:
            lock.release()

    def note(self, at: str, name: str, value: object) -> None:
        """Store a value computed from a run, next to the run's folder, completely or not at all.

        `name` is a file name without a suffix, and `value` is encoded as JSON. If notes are written by
        `finish` of :meth:`run`, a finished run has all of its notes. Raises `ResultError` if the note cannot
        be written.
        """
        path = self._note(at, name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _files.write_text(path, json.dumps(value))
        except OSError as error:
            raise results.ResultError(f"{path}: {error.strerror or error}; not written") from error

    def noted(self, at: str, name: str) -> Any:
        """Return a value that :meth:`note` stored.

        Raises `KeyError` if the note is missing or cannot be read.
        """
        try:
            return _files.parse_json(_files.read_text(self._note(at, name)))
        except (OSError, ValueError):
            raise KeyError(name) from None

    def _note(self, at: str, name: str) -> Path:
        return self.root / at[:2] / f"{at}{NOTES}" / f"{name}.json"

    def clear_leftovers(self) -> int:
        """Remove the partial folders of killed processes; return the number of removed folders.

        Folders of a run that a process has locked are kept. On a file system without locks, the folders of a
        run are removed if all of them are older than :data:`STALE_S`.
        """
        removed = 0
        for shelf in sorted(self.root.glob("[0-9a-f][0-9a-f]")):
            marks = (LEFTOVER.match(path.name) for path in shelf.iterdir())
            for at in sorted({mark[1] for mark in marks if mark}):
                removed += _clear_unless_held(shelf, at)
        return removed


def _resumed_or_run(scenario: _core.Scenario, saved: Path, progress: Progress | None) -> Result:
    """Simulate a run, from its checkpoint in the file `saved` if an earlier process has left one there.

    A checkpoint that cannot be used is ignored: the scenario is known to be valid, and the run is repeated.
    """
    points = checkpoints.Checkpoints(saved, every_s=CHECKPOINT_EVERY_S)
    if saved.exists():
        with contextlib.suppress(_core.ScenarioError):
            return results.run(scenario, progress=progress, checkpoints=points, resume=saved)
        saved.unlink(missing_ok=True)
    return results.run(scenario, progress=progress, checkpoints=points)


def _without_tables(result: Result) -> Result:
    return results.Result(
        scenario_toml=result.scenario_toml,
        provenance=result.provenance,
        summary=result.summary,
        account=result.account,
        warnings=result.warnings,
        tables={},
    )


class _Lock:
    """A lock file. The system releases the lock when its process ends.

    On a file system without locks, each process acquires the lock immediately.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        #: Whether this process holds the lock.
        self.held = False
        self._handle: int | None = None

    def take(self) -> bool:
        """Try to acquire the lock; return false if another process holds it."""
        while True:
            self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            free = _files.locked(self._handle)
            if free is False:
                os.close(self._handle)
                self._handle = None
                return False
            if free is None:
                return True
            # The last holder may have removed the file after this process opened it and before the lock was
            # taken.
            try:
                same = self.path.stat().st_ino == os.fstat(self._handle).st_ino
            except FileNotFoundError:
                same = False
            if same:
                self.held = True
                return True
            os.close(self._handle)

    def release(self) -> None:
        if self.held:
            self.path.unlink(missing_ok=True)
        if self._handle is not None:
            os.close(self._handle)
        self.held, self._handle = False, None


def _clear(shelf: Path, at: str) -> int:
    leftovers = [*shelf.glob(f".{at}.partial-*"), *shelf.glob(f".{at}{COMPACT}.partial-*")]
    for leftover in leftovers:
        shutil.rmtree(leftover, ignore_errors=True)
    for leftover in shelf.glob(f".{at}{CHECKPOINT}.partial-*"):
        leftover.unlink(missing_ok=True)
    for note in shelf.glob(f"{at}{NOTES}/.*.partial-*"):
        note.unlink(missing_ok=True)
    return len(leftovers)


def _clear_unless_held(shelf: Path, at: str) -> int:
    lock = _Lock(shelf / f".{at}.lock")
    try:
        if not lock.take():
            return 0
        partial = list(shelf.glob(f".{at}*.partial-*"))
        stale = all(time.time() - path.stat().st_mtime > STALE_S for path in partial)
        return _clear(shelf, at) if lock.held or stale else 0
    except OSError:
        return 0
    finally:
        lock.release()
