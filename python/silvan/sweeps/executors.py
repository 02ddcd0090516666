"""Executes runs in threads (the default), processes, Slurm, Dask, or an executor of `concurrent.futures`."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    as_completed,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import connection
from pathlib import Path

from silvan.sweeps.errors import SweepError
from silvan.sweeps.worker import Done, Job, perform

NAMES = ("threads", "processes", "slurm", "dask")


@dataclass(frozen=True)
class Options:
    """Options of executors. Each executor uses some of them."""

    #: Number of concurrent threads, processes, Dask workers, or tasks of a Slurm array; None for all cores.
    jobs: int | None = None
    #: Address of a Dask scheduler; None starts a cluster in this process.
    address: str | None = None
    #: `slurm`, or `local` to use processes instead of Slurm tasks.
    cluster: str = "slurm"
    partition: str | None = None
    #: Time limit of a Slurm task in minutes.
    minutes: int = 60
    #: Number of cores of a Slurm task.
    cpus: int = 1
    #: Number of runs that a Slurm task executes, one after the other; None for even shares.
    runs_per_task: int | None = None
    #: Folder for Slurm's scripts and logs.
    logs: Path | None = None

    @property
    def count(self) -> int:
        """Number of concurrent runs."""
        return self.jobs or available_cores()


def available_cores() -> int:
    """Return the number of cores available to this process, which a batch system may limit."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def perform_all(jobs: Sequence[Job], executor: str | Executor, options: Options) -> Generator[Done]:
    """Execute jobs, and yield the outcome of each job when it is done.

    Closing the generator also stops running jobs, but not in an executor or a Dask cluster of the caller.

    Raises :class:`SweepError` for an executor that is unknown or not available.
    """
    if isinstance(executor, Executor):
        yield from _through(executor, jobs, perform)
    elif executor == "processes":
        yield from _in_processes(jobs, options.count)
    elif executor == "threads":
        yield from _in_threads(jobs, options.count)
    elif executor == "slurm":
        from silvan.sweeps.slurm import SlurmExecutor

        with _ended(SlurmExecutor(options, len(jobs))) as slurm:
            yield from _through(slurm, jobs, perform)
    elif executor == "dask":
        try:
            yield from _in_dask(jobs, options)
        except ImportError:
            raise SweepError("the executor `dask` needs Dask: pip install 'silvan[dask]'") from None
    else:
        raise SweepError(f"executor `{executor}` is not one of {', '.join(NAMES)}, nor an Executor")


def failed(job: Job, why: BaseException | str) -> Done:
    """Return the outcome of a run that failed without its own outcome, for example because a worker died."""
    text = why if isinstance(why, str) else f"{type(why).__name__}: {why}".rstrip(": ")
    return Done(job.address, error=text)


def _through(executor: Executor, jobs: Sequence[Job], what: Callable[[Job], Done]) -> Generator[Done]:
    futures: dict[Future[Done], Job] = {executor.submit(what, job): job for job in jobs}
    try:
        for future in as_completed(futures):
            try:
                done = future.result()
            except CancelledError:
                done = failed(futures[future], "the executor has cancelled it; repeat the sweep")
            except Exception as error:
                done = failed(futures[future], error)
            yield done
    finally:
        for future in futures:
            future.cancel()


@contextmanager
def _ended(executor: Executor) -> Iterator[Executor]:
    try:
        yield executor
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _in_dask(jobs: Sequence[Job], options: Options) -> Generator[Done]:
    """Run in a cluster in this process, or in an existing one; raises `ImportError` without Dask."""
    from silvan.sweeps import local_dask, remote_dask

    if options.address is not None:
        yield from remote_dask.perform_all(options.address, jobs)
        return
    with local_dask.cluster(options.count) as (dask, what):
        yield from _through(dask, jobs, what)


def _in_threads(jobs: Sequence[Job], count: int) -> Generator[Done]:
    """Run in threads, which works in parallel because the simulator releases the GIL."""
    stopped = threading.Event()

    def stop_if_closed(now_ns: int, end_ns: int, events: int) -> None:
        if stopped.is_set():
            raise SweepError("stopped")

    with _ended(ThreadPoolExecutor(count, "silvan-sweep")) as pool:
        try:
            with closing(_through(pool, jobs, partial(perform, progress=stop_if_closed))) as runs:
                yield from runs
        finally:
            stopped.set()


def _in_processes(jobs: Sequence[Job], count: int) -> Generator[Done]:
    """Run in processes; if a process dies, only its run is lost."""
    waiting: Sequence[Job] = jobs
    while waiting:
        waiting, suspects = yield from _until_broken(waiting, count)
        # Repeat the runs that were in progress one by one, to find the run that killed its process.
        for job in suspects:
            _, alone = yield from _until_broken([job], 1)
            if alone:
                yield failed(job, "its process died: killed from outside, or out of memory")


def _until_broken(
    jobs: Sequence[Job], count: int
) -> Generator[Done, None, tuple[Sequence[Job], Sequence[Job]]]:
    """Run jobs until all are done or a process dies; return the jobs not started, and those in progress."""
    waiting = deque(jobs)
    running: dict[Future[Done], Job] = {}
    with _pool(min(count, len(jobs))) as pool:
        while waiting or running:
            try:
                # Submit one job more than there are processes, so that no process becomes idle.
                while waiting and len(running) <= count:
                    running[pool.submit(perform, waiting[0])] = waiting[0]
                    waiting.popleft()
            except BrokenProcessPool:
                if not running:
                    suspect = waiting.popleft()
                    return list(waiting), [suspect]
            broken = []
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job = running.pop(future)
                try:
                    done = future.result()
                except BrokenProcessPool:
                    broken.append(job)
                    continue
                yield done
            if broken:
                return list(waiting), [*broken, *(running[future] for future in running)]
    return [], []


@contextmanager
def _pool(count: int) -> Iterator[ProcessPoolExecutor]:
    # Start new processes, because forking a process with threads (such as a progress bar) can hang.
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_begin_worker)
    finished = False
    try:
        yield pool
        finished = True
    finally:
        if not finished:
            # Terminate the workers; otherwise, Ctrl-C would wait for the runs in progress.
            for worker in set(multiprocessing.active_children()) - others:
                worker.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


def _begin_worker() -> None:
    """Make a worker exit without a traceback on Ctrl-C, and exit when its parent is killed."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
