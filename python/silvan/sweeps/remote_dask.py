"""Executes runs on an existing Dask cluster, which may lose workers, its scheduler or the connection.

A run may be submitted again at any time, because a worker finds runs that are already in the store. The
client tries to reach a lost scheduler for some time (:data:`CONNECT_S`). If it succeeds, the remaining runs
are submitted again. Otherwise, the sweep ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import uuid
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from silvan.sweeps.errors import SweepError
from silvan.sweeps.executors import failed
from silvan.sweeps.worker import Done, Job, perform

#: Time in seconds for which a scheduler is searched, at the start and after the connection is lost.
CONNECT_S = 20
#: Interval in seconds at which the state of the connection is checked.
LOOK_EVERY_S = 0.5
#: Maximum time in seconds to receive outcomes. Then their runs are submitted again.
RECEIVE_S = 30
#: Maximum number of outcomes that are received together.
BATCH = 500
#: Time in seconds in which the client says goodbye.
CLOSE_S = 5
#: Loggers of Dask and of its libraries. Their messages about lost connections repeat what the sweep reports.
LOGGERS = ("distributed", "tornado", "asyncio")


class LostError(SweepError):
    """The scheduler of the cluster was lost, and did not return in time."""

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(self.told("finished runs"))

    def told(self, kept: str) -> str:
        """Return the message, where `kept` states the runs in the store."""
        return (
            f"the Dask scheduler at {self.address} was lost; {kept} are kept; repeat the command to continue"
        )


def perform_all(address: str, jobs: Sequence[Job]) -> Generator[Done]:
    """Execute jobs on the cluster with this scheduler, and yield the outcome of each job when it is done.

    Raises :class:`SweepError` if there is no scheduler at the address, and :class:`LostError` if it is lost.
    Raises `ImportError` without Dask.
    """
    from distributed import Client, Security

    wrong = f"no Dask scheduler at {address}"
    with _quiet():
        # The client itself would report this by a traceback.
        if address.startswith("tls:") and not Security().get_connection_args("client").get("ssl_context"):
            raise SweepError(
                f"{wrong}: TLS needs certificates; set distributed.comm.tls in Dask's configuration"
            )
        try:
            client = Client(address, timeout=f"{CONNECT_S}s", set_as_default=False)
        except (OSError, ValueError) as error:
            raise SweepError(f"{wrong}: {error}") from None
        try:
            yield from _Runs(client, address).all(jobs)
        finally:
            with contextlib.suppress(OSError, TimeoutError, asyncio.TimeoutError, CancelledError):
                client.close(timeout=CLOSE_S)


class _Runs:
    """The runs that a client has submitted."""

    def __init__(self, client: Any, address: str) -> None:
        self._client = client
        self._address = address
        #: Futures by key, with their jobs.
        self._running: dict[str, tuple[Any, Job]] = {}
        #: Keys of futures whose state may have changed.
        self._changed: queue.SimpleQueue[str] = queue.SimpleQueue()

    def all(self, jobs: Sequence[Job]) -> Generator[Done]:
        waiting = list(jobs)
        try:
            while waiting or self._running:
                if self._client.status in ("closing", "closed"):
                    raise LostError(self._address)
                if waiting and self._client.status == "running":
                    self._submit(waiting)
                    waiting = []
                for job, done in self._ended():
                    if done is None:
                        waiting.append(job)
                    else:
                        yield done
        finally:
            if self._client.status == "running":
                with contextlib.suppress(OSError, TimeoutError, asyncio.TimeoutError, CancelledError):
                    futures = [future for future, _ in self._running.values()]
                    self._client.sync(
                        self._client.cancel, futures, callback_timeout=CLOSE_S, asynchronous=None
                    )

    def _submit(self, jobs: Sequence[Job]) -> None:
        # The name of a run must be new, because the scheduler may still know an earlier attempt.
        keys = [f"silvan-{job.address}-{uuid.uuid4().hex[:8]}" for job in jobs]
        futures = self._client.map(perform, jobs, key=keys, pure=False)
        for key, future, job in zip(keys, futures, jobs, strict=True):
            self._running[key] = (future, job)
            future.add_done_callback(lambda done: self._changed.put(done.key))

    def _ended(self) -> Iterator[tuple[Job, Done | None]]:
        """Wait a moment; return jobs that ended with their outcomes, or with None to submit them again."""
        keys = set()
        with contextlib.suppress(queue.Empty):
            keys.add(self._changed.get(timeout=LOOK_EVERY_S))
            while len(keys) < BATCH:
                keys.add(self._changed.get_nowait())
        if not keys:
            # A callback may be lost with the connection.
            ended = (key for key, (future, _) in self._running.items() if future.status != "pending")
            keys = set(list(ended)[:BATCH])
        known = [self._running.pop(key) for key in keys if key in self._running]
        results = self._received([future for future, _ in known if future.status == "finished"])
        for future, job in known:
            if future.status == "error":
                yield job, failed(job, _reason(future))
            else:
                yield job, results.get(future.key)

    def _received(self, futures: list[Any]) -> dict[str, Done]:
        """Receive outcomes from the workers; those that are lost on the way are missing."""
        if not futures:
            return {}
        try:
            # The connection may break while the client waits for an answer, which then never arrives.
            got = self._client.sync(self._client._gather, futures, errors="skip", callback_timeout=RECEIVE_S)
        except (OSError, TimeoutError, asyncio.TimeoutError, CancelledError, asyncio.CancelledError):
            return {}
        results = [done for done in got if isinstance(done, Done)]
        by_address = {done.address: done for done in results}
        jobs = {future.key: future.key.split("-")[1] for future in futures}
        return {key: by_address[address] for key, address in jobs.items() if address in by_address}


def _reason(future: Any) -> BaseException | str:
    from distributed import KilledWorker

    try:
        error: BaseException = future.exception(timeout=RECEIVE_S)
    except (TimeoutError, asyncio.TimeoutError, CancelledError):
        return "the worker reported an error that was lost with the connection"
    if isinstance(error, KilledWorker):
        count = error.allowed_failures + 1
        died = "a worker died" if count == 1 else f"{count} workers died"
        return f"{died} while executing it: killed from outside, or out of memory"
    return error


@contextmanager
def _quiet() -> Iterator[None]:
    """Turn off the messages of Dask, whose handlers write to the terminal."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in LOGGERS]
    loggers = [logging.getLogger(name) for name in {*names, *LOGGERS}]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
