"""A store of finished runs: each is simulated once, whoever asks for it and however often.

A run is found again by its address, a hash of all that decides its result: the resolved scenario
with its seed, the contents of the files that it names, and the very build of the simulator. Its
folder is that of :meth:`silvan.Result.save` and is never changed once it is there:

>>> from silvan._store import Store
>>> store = Store("out/runs")  # doctest: +SKIP
>>> run = store.run(scenario)  # doctest: +SKIP
>>> run.result, run.found      # doctest: +SKIP

`run.found` tells whether it was there already. `store.find(address(scenario))` looks without
simulating. With ``keep="summary"`` a run that has to be simulated is written without its tables,
at some kilobytes; a run of the store may then be one without tables, although the result in hand
right after a simulation has them.

Any number of processes may use a store at once, on any machines that share its file system. Who
asks for a run that another is simulating waits for it. Killing any of them at any moment leaves
nothing that looks finished and is not; what it was writing is cleared away by whoever comes next.
"""

from __future__ import annotations

import errno
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

from silvan import _core, _files, _folder, results

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from silvan.results import Progress, Result
    from silvan.types import Summary

try:
    import fcntl
except ImportError:  # not on every system; see Store._turn
    fcntl = None  # type: ignore[assignment]

#: What is kept of a run: everything, or all but the tables.
Keep = Literal["tables", "summary"]

#: Layout of the store; part of the address, so that another layout finds nothing of this one.
LAYOUT = 1
#: What a scenario is called changes nothing that is simulated.
NAMES = ("name", "description")
#: Hexadecimal digits of an address: no two runs of anybody's will ever share one.
DIGITS = 32
#: Ending of a folder without tables.
COMPACT = ".summary"
#: Ending of a folder of noted values.
NOTES = ".notes"
#: Names of what a run that is being simulated has in a store.
LEFTOVER = re.compile(rf"\.([0-9a-f]{{{DIGITS}}})(?:\.lock$|(?:{re.escape(COMPACT)})?\.partial-)")
#: How often to look whether another's run is finished.
LOOK_EVERY_S = 0.1
#: Where locks do not work, leftovers of this age are nobody's.
STALE_S = 24 * 3600.0


@cache
def build() -> str:
    """Identity of this build of the simulator, as digits of a hash of the program itself."""
    return hashlib.sha256(Path(_core.__file__).read_bytes()).hexdigest()[:16]


def address(scenario: _core.Scenario) -> str:
    """Return the address of a scenario's run.

    It depends on the resolved scenario (its seed too, its name and description not), on the
    contents of the files that it names rather than on where they lie, and on the build.

    Raises `OSError` for a file that cannot be read.
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
    """Put a hash of its contents in the place of each file that a scenario names."""
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
    # The arguments beside the path make an edited file another entry of the cache.
    return hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass(frozen=True)
class StoredRun:
    """A run in a store."""

    result: Result
    folder: Path
    #: Whether it had been simulated before.
    found: bool


class Store:
    """A folder of finished runs; made when the first is written."""

    def __init__(self, root: str | PathLike[str]) -> None:
        self.root = Path(root)

    def folder(self, address: str, keep: Keep = "tables") -> Path:
        """Return where a run is, or would be."""
        # Two levels: a folder with a hundred thousand entries is slow on many file systems.
        return self.root / address[:2] / (address + (COMPACT if keep == "summary" else ""))

    def find(self, address: str, keep: Keep = "tables") -> Path | None:
        """Return the folder of a finished run; where a summary is enough, with or without tables."""
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
        """Return a scenario's run from the store, simulated and written now if it is not there.

        `known` is the run's address, where the caller has it already. `finish` is called with a
        fresh result, tables and all, before its folder appears.

        Raises what :func:`silvan.run` raises; :class:`silvan.ResultError` where the run cannot be
        written or read back.
        """
        at = known or address(scenario)
        run = self._stored(at, keep)
        if run is None:
            with self._turn(at):
                # Another may have finished it meanwhile.
                run = self._stored(at, keep) or self._simulate(scenario, at, keep, progress, finish)
        return run

    def _stored(self, at: str, keep: Keep) -> StoredRun | None:
        """Read a finished run; None where there is none, or one that was damaged since."""
        folder = self.find(at, keep)
        if folder is None:
            return None
        try:
            return StoredRun(results.Result(**_folder.read(folder)), folder, True)
        except (_folder.NotARunError, _folder.DamagedError):
            return None
        except OSError as error:
            # No reason to simulate: its disk may be back tomorrow, and its owner let us read.
            where = error.filename or folder
            raise results.ResultError(f"{where}: cannot be read: {error.strerror or error}") from None

    def summary(self, at: str, keep: Keep = "tables") -> Summary | None:
        """Return a finished run's summary; None where there is none, or one that was damaged since.

        Of the other files only the sizes are looked at: reading all of a large store takes hours.
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
        result = results.run(scenario, progress=progress)
        kept = result if keep == "tables" else _without_tables(result)
        if finish is not None:
            finish(result)
        try:
            # Where locks do not work another may have been faster, with the same result.
            if self._stored(at, keep) is None:
                _folder.write(folder, kept)
        except OSError as error:
            if self._stored(at, keep) is None:
                where = error.filename or folder
                raise results.ResultError(f"{where}: {error.strerror or error}; not written") from error
        return StoredRun(result, folder, False)

    def _clear_damaged(self, at: str) -> None:
        """Remove what is left of a run that cannot be read: found first, it would hide a sound one."""
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
        """Wait until nobody else simulates this run."""
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
        """Keep a value that was computed from a run, beside its folder, whole or not at all.

        `name` is a file name; `value` is written as JSON. Written before the run's folder, so
        that a finished run has all that was to be noted.
        """
        path = self._note(at, name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _files.write_text(path, json.dumps(value))
        except OSError as error:
            raise results.ResultError(f"{path}: {error.strerror or error}; not written") from error

    def noted(self, at: str, name: str) -> Any:
        """Return a noted value.

        Raises `KeyError` where there is none.
        """
        try:
            return _files.parse_json(_files.read_text(self._note(at, name)))
        except (OSError, ValueError):
            raise KeyError(name) from None

    def _note(self, at: str, name: str) -> Path:
        return self.root / at[:2] / f"{at}{NOTES}" / f"{name}.json"

    def clear_leftovers(self) -> int:
        """Remove what killed processes left half written; return how many folders that were.

        Those that somebody is writing now are left alone.
        """
        removed = 0
        for shelf in sorted(self.root.glob("[0-9a-f][0-9a-f]")):
            marks = (LEFTOVER.match(path.name) for path in shelf.iterdir())
            for at in sorted({mark[1] for mark in marks if mark}):
                removed += _clear_unless_held(shelf, at)
        return removed


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
    """A lock that ends with the process that holds it; free where the file system has no locks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: Whether it is ours for certain.
        self.held = False
        self._handle: int | None = None

    def take(self) -> bool:
        """Try to take it; false while another holds it."""
        while True:
            self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            free = _locked(self._handle)
            if free is False:
                os.close(self._handle)
                self._handle = None
                return False
            if free is None:
                return True
            # Its last holder may have removed the file between our opening and locking it.
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


def _locked(handle: int) -> bool | None:
    """Lock a file if it is free, and tell whether it was; None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # Some network file systems have no locks; then a run may be simulated twice, no more.
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True


def _clear(shelf: Path, at: str) -> int:
    leftovers = [*shelf.glob(f".{at}.partial-*"), *shelf.glob(f".{at}{COMPACT}.partial-*")]
    for leftover in leftovers:
        shutil.rmtree(leftover, ignore_errors=True)
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
