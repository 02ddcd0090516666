"""An executor for Slurm. It submits arrays of tasks through submitit; each task executes several runs."""

from __future__ import annotations

import contextlib
import logging
import math
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from silvan.sweeps.errors import SweepError
from silvan.sweeps.executors import Options

#: Maximum number of tasks per array. Slurm's default limit is 1001.
TASKS_AT_MOST = 1000
#: Number of tasks per concurrent run. Smaller tasks reduce the delay that a slow last task causes.
TASKS_PER_JOB = 4
#: Time in seconds to wait for more calls before an array is submitted.
GATHER_S = 0.3
#: Interval in seconds at which to check for finished tasks.
LOOK_EVERY_S = {"slurm": 2.0, "local": 0.2}
#: Interval in seconds between requests to Slurm's controller, which other users share.
QUEUE_EVERY_S = 15.0

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
#: Outcome of a call: whether it succeeded, and its return value or error.
Outcome = tuple[bool, Any]


def call_all(calls: Sequence[Call]) -> list[Outcome]:
    """Execute the calls of a task in order, and return their outcomes."""
    outcomes: list[Outcome] = []
    for function, arguments, named in calls:
        try:
            outcomes.append((True, function(*arguments, **named)))
        except Exception as error:
            outcomes.append((False, error))
    return outcomes


class SlurmExecutor(Executor):
    """Combines submitted calls into arrays of Slurm tasks.

    `expected` is the total number of calls, from which the size of the tasks is computed.

    Raises :class:`SweepError` if submitit or Slurm is not available, or if the cluster is neither `slurm` nor
    `local`.
    """

    def __init__(self, options: Options, expected: int) -> None:
        submitit = _submitit()
        if options.cluster not in LOOK_EVERY_S:
            raise SweepError(f"cluster `{options.cluster}` is not one of {', '.join(LOOK_EVERY_S)}")
        self._local = options.cluster == "local"
        self._width = options.count
        self._size = options.runs_per_task or _size(expected, self._width, self._local)
        self._look_every_s = LOOK_EVERY_S[options.cluster]
        folder = options.logs or Path("submitit")
        try:
            self._tasks = submitit.AutoExecutor(folder=str(folder.absolute() / "%j"), cluster=options.cluster)
        except (RuntimeError, OSError) as error:
            raise SweepError(f"Slurm is not available: {error}") from None
        self._tasks.update_parameters(name="silvan", timeout_min=options.minutes, cpus_per_task=options.cpus)
        if not self._local:
            self._tasks.update_parameters(slurm_array_parallelism=self._width)
            if options.partition:
                self._tasks.update_parameters(slurm_partition=options.partition)
        self._lock = threading.Condition()
        self._waiting: deque[tuple[Call, Future[Any]]] = deque()
        self._running: list[tuple[Any, list[Future[Any]]]] = []
        self._missing: set[str] = set()
        self._next_queue_look = time.monotonic() + QUEUE_EVERY_S
        self._closed = self._cancelled = False
        self._thread = threading.Thread(target=self._serve, name="silvan-slurm", daemon=True)
        self._thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Add a call to the next array; raises `RuntimeError` after the shutdown."""
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot submit after shutdown")
            self._waiting.append(((fn, args, kwargs), future))
            self._lock.notify()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Stop accepting calls. With `cancel_futures`, cancel all calls; with `wait`, wait for them."""
        with self._lock:
            self._closed = True
            if cancel_futures:
                self._cancelled = True
                for _, future in self._waiting:
                    future.cancel()
                self._waiting.clear()
                self._cancel([task for task, _ in self._running])
                self._running.clear()
            self._lock.notify()
        if wait:
            self._thread.join()

    def _cancel(self, tasks: Sequence[Any]) -> None:
        if self._local:
            for task in tasks:
                task.cancel(check=False)
        elif tasks:
            # Cancel arrays, because there may be thousands of tasks.
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                subprocess.run(["scancel", *_arrays(tasks)], capture_output=True, timeout=60, check=False)

    def _serve(self) -> None:
        try:
            self._send_and_collect()
        except Exception as error:
            # Report the error to all pending calls; otherwise their callers would wait indefinitely.
            with self._lock:
                self._closed = True
                futures = [future for _, future in self._waiting]
                futures += [future for _, several in self._running for future in several]
                self._waiting.clear()
                self._running.clear()
            for future in futures:
                if not future.done():
                    future.set_exception(SweepError(f"{type(error).__name__}: {error}"))

    def _send_and_collect(self) -> None:
        while True:
            with self._lock:
                if not (self._waiting or self._running or self._closed):
                    self._lock.wait()
                if self._closed and not (self._waiting or self._running):
                    return
                gathered = len(self._waiting)
            time.sleep(GATHER_S if gathered else self._look_every_s)
            with self._lock:
                still_coming = len(self._waiting) > gathered
            if not still_coming:
                self._send()
            self._collect()

    def _send(self) -> None:
        """Submit the waiting calls as an array; without Slurm, only as many tasks as may run at a time."""
        with self._lock:
            room = self._width - len(self._running) if self._local else TASKS_AT_MOST
            chunks: list[list[tuple[Call, Future[Any]]]] = []
            while self._waiting and len(chunks) < room:
                some = [self._waiting.popleft() for _ in range(min(self._size, len(self._waiting)))]
                some = [(call, future) for call, future in some if future.set_running_or_notify_cancel()]
                if some:
                    chunks.append(some)
        if not chunks:
            return
        try:
            calls = [[call for call, _ in chunk] for chunk in chunks]
            tasks = self._tasks.map_array(call_all, calls)
        except Exception as error:
            for chunk in chunks:
                for _, future in chunk:
                    future.set_exception(SweepError(f"Slurm accepted no tasks: {error}"))
            return
        with self._lock:
            if self._cancelled:
                self._cancel(tasks)
                return
            for task, chunk in zip(tasks, chunks, strict=True):
                self._running.append((task, [future for _, future in chunk]))

    def _collect(self) -> None:
        with self._lock:
            running = list(self._running)
        lost = self._lost([task for task, _ in running])
        for task, futures in running:
            if task.job_id in lost:
                outcomes = [(False, _lost_error(task))] * len(futures)
            elif task.done() if self._local else task.paths.result_pickle.exists():
                try:
                    outcomes = task.result()
                except Exception as error:  # raised for a task that could not start
                    outcomes = [(False, SweepError(f"task {task.job_id}: {_last_line(str(error))}"))] * len(
                        futures
                    )
            else:
                continue
            with self._lock:
                self._running = [entry for entry in self._running if entry[0] is not task]
            for future, (well, value) in zip(futures, outcomes, strict=True):
                if well:
                    future.set_result(value)
                else:
                    future.set_exception(value)

    def _lost(self, tasks: Sequence[Any]) -> set[str]:
        """Return the identifiers of tasks that left Slurm's queue without a result.

        Possible causes are the time limit, `scancel` and a failed node. Slurm's accounting is not used,
        because small clusters often run without it.
        """
        if self._local or not tasks or time.monotonic() < self._next_queue_look:
            return set()
        self._next_queue_look = time.monotonic() + QUEUE_EVERY_S
        command = ["squeue", "--noheader", "--array", "--format=%i", f"--jobs={','.join(_arrays(tasks))}"]
        try:
            told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.SubprocessError):
            return set()
        # A few minutes after a job has ended, its identifier is invalid.
        if told.returncode != 0 and "Invalid job id" not in told.stderr:
            return set()
        queued = set(told.stdout.split())
        gone = {task.job_id for task in tasks if task.job_id not in queued}
        # A task is lost only if it is missing twice, because its result file may appear late on this machine.
        lost = {
            task.job_id
            for task in tasks
            if task.job_id in gone & self._missing and not task.paths.result_pickle.exists()
        }
        self._missing = gone
        return lost


def _arrays(tasks: Sequence[Any]) -> list[str]:
    return sorted({str(task.job_id).split("_")[0] for task in tasks})


def _lost_error(task: Any) -> SweepError:
    words = _last_line(task.stderr() or "")
    why = f": {words}" if words else "; its time limit (--time), scancel, or a node that went down?"
    return SweepError(f"task {task.job_id} of Slurm ended without a result{why}")


def _size(expected: int, width: int, local: bool) -> int:
    tasks = width if local else min(width * TASKS_PER_JOB, TASKS_AT_MOST)
    return max(1, math.ceil(expected / tasks))


#: Starts of lines in submitit's errors that contain no reason.
NO_REASONS = ("submitit INFO", "Error stream produced", "No error stream produced")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip("- ")]
    lines = [line for line in lines if not line.startswith(NO_REASONS)]
    return lines[-1] if lines else ""


def _submitit() -> Any:
    try:
        import submitit
    except ImportError:
        raise SweepError("the executor `slurm` needs submitit: pip install 'silvan[slurm]'") from None
    # Keep submitit's messages off standard output, which is reserved for the table.
    words = logging.getLogger("submitit")
    for handler in list(words.handlers):
        if getattr(handler, "stream", None) is sys.stdout:
            words.removeHandler(handler)
    return submitit
