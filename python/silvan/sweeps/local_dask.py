"""A Dask cluster inside this process.

Dask's own local cluster runs each worker in a process and listens on ports of the loopback interface.
A program that connects to such a port can run code, and every user of the machine can connect. The cluster
here has its scheduler and its workers in threads of this process, which use no network.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import partial
from typing import Any

from silvan.sweeps.errors import SweepError
from silvan.sweeps.worker import Done, Job, perform

#: Closed clusters. Their runs stop at the next report of progress.
_closed: set[str] = set()


def _stop_if_closed(cluster: str, now_ns: int, end_ns: int, events: int) -> None:
    if cluster in _closed:
        raise SweepError("stopped")


@contextmanager
def cluster(workers: int) -> Iterator[tuple[Executor, Callable[[Job], Done]]]:
    """Start a cluster; yield its executor, and the function that performs a run in it.

    Raises `ImportError` without Dask.
    """
    from distributed import Client, Scheduler, SpecCluster, Worker

    class QuietScheduler(Scheduler):
        def start_http_server(self, *arguments: Any, **options: Any) -> None:
            """Start no server; Dask has no option for that."""

    class QuietWorker(Worker):
        def start_http_server(self, *arguments: Any, **options: Any) -> None:
            """Start no server; Dask has no option for that."""

    options = {"protocol": "inproc://", "dashboard": False}
    worker = {"cls": QuietWorker, "options": {**options, "nthreads": 1, "memory_limit": 0}}
    scheduler = {"cls": QuietScheduler, "options": {**options, "dashboard_address": None}}
    name = uuid.uuid4().hex
    started = SpecCluster(
        scheduler=scheduler, workers=dict.fromkeys(range(workers), worker), silence_logs=logging.CRITICAL
    )
    with started, Client(started) as client:
        try:
            yield client.get_executor(), partial(perform, progress=partial(_stop_if_closed, name))
        finally:
            _closed.add(name)
