"""Checkpoints: files from which a run can be continued."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from os import PathLike, fspath
from pathlib import Path

from silvan import _files, _provenance
from silvan._core import Scenario, checkpoint_scenario
from silvan._progress import simulated
from silvan.results import ResultError

#: The first bytes of each checkpoint.
MAGIC = b"Silvan checkpoint\n"


class Checkpoints:
    """Where and when :func:`silvan.run` saves a run.

    ``silvan.run(resume=path)`` continues the run. The results are the same as without an interruption. If a
    checkpoint cannot be written, the run continues, and the previous checkpoint remains.
    """

    #: The file. It is replaced only when a new checkpoint is complete.
    path: str
    #: Simulated time between checkpoints, such as ``"10 ms"``; None if it does not determine them.
    every: str | None
    #: Wall-clock time between checkpoints in seconds; None if it does not determine them.
    every_s: float | None
    #: Simulated time of the last checkpoint in ns; None if there is none.
    saved_ns: int | None

    def __init__(
        self,
        path: str | PathLike[str],
        every: str | None = None,
        *,
        every_s: float | None = None,
        ask: Callable[[], bool] | None = None,
        warn: Callable[[str], object] | None = None,
    ) -> None:
        """Set where and when to save a run.

        Args:
            path: The file. Only a checkpoint is replaced, and a symbolic link is followed.
            every: Simulated time between checkpoints, such as ``"10 ms"``.
            every_s: Wall-clock time between checkpoints in seconds. Without `every` and `every_s`, the run is
                saved only after Ctrl-C.
            ask: Called after Ctrl-C; the run is saved if it returns true. By default, the run is saved.
            warn: Receives a message if a checkpoint cannot be written. By default, it becomes a
                `RuntimeWarning`.

        """
        self.path = fspath(path)
        self.every = every
        self.every_s = every_s
        self.saved_ns = None
        self._ask = ask
        self._warn = warn or (lambda message: warnings.warn(message, RuntimeWarning, stacklevel=2))
        self._has_failed = False

    def prepare(self) -> None:
        """Raise :class:`silvan.ResultError` if a checkpoint cannot be written, unless `ask` decides about it.

        This avoids that a long run continues without checkpoints because of a wrong file name.
        """
        if self._ask is not None:
            return
        try:
            self._refuse_foreign()
            _files.clear_leftovers(Path(self.path).resolve())
        except OSError as error:
            raise ResultError(f"{_files.place(error) or self.path}: {error.strerror or error}") from None

    def _refuse_foreign(self) -> None:
        """Raise `OSError` if the file exists and is not a checkpoint, or if its folder does not exist."""
        path = Path(self.path)
        if not path.exists():
            if not path.resolve().parent.is_dir():
                raise NotADirectoryError(
                    errno.ENOTDIR, "the folder for the checkpoint does not exist", self.path
                )
            return
        with _files.plain(path).open("rb") as file:
            start = file.read(len(MAGIC))
        if start != MAGIC:
            what = "exists and is not a checkpoint; choose another file for checkpoints, or move it away"
            raise FileExistsError(errno.EEXIST, what, self.path)

    def replacing(self) -> AbstractContextManager[Path]:
        """Return the context manager whose file becomes the checkpoint; raises `OSError`."""
        self._refuse_foreign()
        return _files.replacing(Path(self.path))

    def interrupted(self) -> bool:
        """Return whether to save the run after Ctrl-C."""
        return self._ask is None or self._ask()

    def saved(self, now_ns: int) -> None:
        """Record the simulated time of a checkpoint, in ns."""
        self.saved_ns = now_ns
        self._has_failed = False

    def failed(self, error: OSError, now_ns: int) -> None:
        """Report a checkpoint that cannot be written, and the previous one.

        Of several failures in a row, only the first is reported.
        """
        if self._has_failed:
            return
        self._has_failed = True
        last = (
            "there is no earlier one"
            if self.saved_ns is None
            else f"the last one is of {simulated(self.saved_ns)}"
        )
        where = _files.place(error) or self.path
        self._warn(
            f"{where}: the checkpoint at {simulated(now_ns)} cannot be written ({error.strerror or error}); "
            f"{last}; the run continues"
        )


def scenario(path: str | PathLike[str], *, other_build: bool = False) -> Scenario:
    """Return the scenario of a checkpoint.

    Raises :class:`silvan.ScenarioError` for an unreadable file and, unless `other_build` is set, for a
    checkpoint of another build.
    """
    return checkpoint_scenario(path, _provenance.build(), other_build)
