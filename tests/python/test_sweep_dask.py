"""Tests sweeps on a Dask cluster whose processes die: no run is lost or doubled, and no sweep hangs."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import silvan
from conftest import ROOT, SMALL
from test_sweep import folders, wait_for

pytest.importorskip("distributed")

SEEDS = 8
#: A run takes about half a second, so that processes can be killed before the sweep ends.
STUDY = f"""\
name = "little"
scenario = "small.toml"
seeds = {SEEDS}
keep = "summary"
set = {{ "duration" = "100 ms", "measure.interval" = "1 ms" }}

[[measure]]
name = "jain"
summary = "jain_flows"
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "study.toml"
    path.write_text(STUDY)
    path.with_name("small.toml").write_text(SMALL)
    return path


@pytest.fixture(scope="module")
def reference(study, tmp_path_factory):
    """Return the table of the study in threads."""
    out = tmp_path_factory.mktemp("reference")
    silvan.sweep(silvan.Study.load(study), store=out / "runs", out=out)
    return (out / "table.parquet").read_bytes()


class Cluster:
    """A scheduler and workers, each in a process."""

    def __init__(self, folder, scheme="tcp", environment=None):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.address = f"{scheme}://127.0.0.1:{self.port}"
        self.folder, self.worker_options = folder, ("--protocol", scheme, "--no-nanny")
        self.environment = {**os.environ, **(environment or {})}
        self.processes = []
        self.scheduler = None
        self.workers = []

    def _start(self, kind, *arguments):
        with (self.folder / f"{kind}.log").open("ab") as log:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    f"distributed.cli.dask_{kind}",
                    *arguments,
                    "--no-dashboard",
                ],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self.environment,
            )
        self.processes.append(process)
        return process

    def start_scheduler(self):
        self.scheduler = self._start(
            "scheduler", "--host", self.address.rpartition(":")[0], "--port", str(self.port)
        )

    def start_workers(self, count=2):
        here = (
            "--host",
            "127.0.0.1",
            "--nthreads",
            "1",
            "--local-directory",
            str(self.folder),
            *self.worker_options,
        )
        self.workers = [self._start("worker", self.address, *here) for _ in range(count)]

    def end(self):
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path):
    (tmp_path / "dask").mkdir()
    made = Cluster(tmp_path / "dask")
    made.start_scheduler()
    made.start_workers()
    yield made
    made.end()


def begin(study, out, cluster, connect_s=8):
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    start += f"from silvan.sweeps import remote_dask; remote_dask.CONNECT_S = {connect_s}; "
    start += "from silvan import cli; cli.main()"
    options = ["--out", str(out), "--executor", "dask", "--dask-address", cluster.address]
    return subprocess.Popen(
        [sys.executable, "-c", start, "sweep", str(study), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=cluster.environment,
    )


def until_in_the_middle(process, out):
    wait_for(lambda: len(folders(out / "runs")) >= 2 or process.poll() is not None)
    assert process.poll() is None, process.communicate()


def ends_as_expected(process, out, reference, seconds=120):
    _stdout, stderr = process.communicate(timeout=seconds)
    assert (process.returncode, "Traceback" in stderr) == (0, False), stderr
    # A run whose outcome died with its worker is submitted again, and found in the store.
    simulated, found = (int(part.split()[0]) for part in stderr.split(" in ")[0].split(", "))
    assert simulated + found == SEEDS, stderr
    assert (out / "table.parquet").read_bytes() == reference
    assert len(folders(out / "runs")) == SEEDS


def test_a_sweep_ends_if_the_scheduler_dies_and_continues_elsewhere(study, reference, cluster, tmp_path):
    out = tmp_path / "out"
    process = begin(study, out, cluster)
    until_in_the_middle(process, out)
    cluster.scheduler.kill()
    began = time.monotonic()
    stdout, stderr = process.communicate(timeout=60)
    assert time.monotonic() - began < 45
    assert (process.returncode, stdout) == (1, "")
    # The workers end with the scheduler, so the number of runs does not change afterwards.
    for worker in cluster.workers:
        worker.wait(30)
    kept = folders(out / "runs")
    assert 2 <= len(kept) <= SEEDS
    told = f"Error: the Dask scheduler at {cluster.address} was lost; "
    assert stderr == f"{told}{len(kept)} of {SEEDS} runs are kept; repeat the command to continue\n"
    swept = silvan.sweep(silvan.Study.load(study), store=out / "runs", out=out)
    assert (swept.found, swept.simulated) == (len(kept), SEEDS - len(kept))
    assert (out / "table.parquet").read_bytes() == reference
    after = folders(out / "runs")
    assert {name: after[name] for name in kept} == kept


@pytest.mark.nightly
@pytest.mark.parametrize("number", [1, 2])
def test_a_sweep_continues_if_workers_die_and_others_start(study, reference, cluster, tmp_path, number):
    out = tmp_path / "out"
    process = begin(study, out, cluster)
    until_in_the_middle(process, out)
    for worker in cluster.workers[:number]:
        worker.kill()
    if number == 2:
        cluster.start_workers()
    ends_as_expected(process, out, reference)


@pytest.mark.nightly
def test_a_sweep_continues_with_a_scheduler_that_returns(study, reference, cluster, tmp_path):
    out = tmp_path / "out"
    # A scheduler takes some seconds to start, more on a busy machine.
    process = begin(study, out, cluster, connect_s=60)
    until_in_the_middle(process, out)
    cluster.scheduler.kill()
    cluster.scheduler.wait()
    cluster.start_scheduler()
    cluster.start_workers()
    ends_as_expected(process, out, reference)


@pytest.mark.nightly
def test_ctrl_c_states_the_runs_in_the_store(study, cluster, tmp_path):
    out = tmp_path / "out"
    process = begin(study, out, cluster)
    until_in_the_middle(process, out)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    told = int(stderr.split("stopped: ")[1].split()[0])
    assert 2 <= told <= len(folders(out / "runs"))


#: A worker executes this file at its start. It may do so twice.
KILLER = """\
import os
from silvan._store import Store
if not hasattr(Store, "own"):
    Store.own = Store.run
    Store.run = lambda self, one, **more: one.seed == 3 and os._exit(1) or self.own(one, **more)
"""


@pytest.mark.nightly
def test_a_run_that_kills_its_workers_is_a_failure(study, tmp_path):
    """As a run that exceeds the memory of a worker. The other runs continue."""
    (tmp_path / "dask").mkdir()
    # The scheduler allows fewer failures than usual, so that the test needs fewer workers.
    settings = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
    cluster = Cluster(tmp_path / "dask", environment=settings)
    killer = tmp_path / "killer.py"
    killer.write_text(KILLER)
    with contextlib.ExitStack() as stack:
        stack.callback(cluster.end)
        cluster.start_scheduler()
        cluster.worker_options += ("--preload", str(killer))
        cluster.start_workers(4)
        process = begin(study, tmp_path / "out", cluster)
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 1
    assert " seed=3: 2 workers died while executing it: killed from outside, or out of memory\n" in stderr
    # The scheduler also counts the deaths for runs that waited at these workers.
    failures = int(stderr.split("Error: ")[1].split()[0])
    assert failures <= 3
    assert len(folders(tmp_path / "out" / "runs")) == SEEDS - failures


#: As `KILLER`, but the run with seed 3 needs more memory than a worker may have: the first time, or always.
HUNGRY = """\
import time
from pathlib import Path
from silvan._store import Store
def run(self, one, **more):
    seen = Path("seen")
    if one.seed == 3 and (ALWAYS or not seen.exists()):
        seen.touch()
        held = b"x" * 2**30
        time.sleep(60)
    return self.own(one, **more)
if not hasattr(Store, "own"):
    Store.own, Store.run = Store.run, run
"""


@pytest.mark.nightly
@pytest.mark.parametrize("always", [False, True])
def test_a_worker_that_exceeds_its_memory_is_replaced(study, reference, tmp_path, always):
    """The nanny of the only worker ends it, and starts another one."""
    (tmp_path / "dask").mkdir()
    settings = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
    cluster = Cluster(tmp_path / "dask", environment=settings)
    hungry = tmp_path / "hungry.py"
    hungry.write_text(f"ALWAYS = {always}\n{HUNGRY}")
    cluster.worker_options = ("--nanny", "--memory-limit", "700MB", "--preload", str(hungry))
    out = tmp_path / "out"
    with contextlib.ExitStack() as stack:
        stack.callback(cluster.end)
        cluster.start_scheduler()
        cluster.start_workers(1)
        process = begin(study, out, cluster)
        if not always:
            ends_as_expected(process, out, reference)
            assert (tmp_path / "dask" / "seen").exists()
            return
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 1
    assert " seed=3: 2 workers died while executing it: killed from outside, or out of memory\n" in stderr
    failures = int(stderr.split("Error: ")[1].split()[0])
    kept = folders(out / "runs")
    assert len(kept) == SEEDS - failures
    # Elsewhere, the same sweep repeats the failed runs only.
    swept = silvan.sweep(silvan.Study.load(study), store=out / "runs", out=out)
    assert (swept.found, swept.simulated) == (len(kept), failures)
    assert (out / "table.parquet").read_bytes() == reference
    after = folders(out / "runs")
    assert {name: after[name] for name in kept} == kept


def certificates(folder: Path) -> dict[str, str]:
    """Return the settings of Dask for TLS with a certificate that only this test knows."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    settings = {"DASK_DISTRIBUTED__COMM__TLS__CA_FILE": str(certificate)}
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        settings[f"DASK_DISTRIBUTED__COMM__TLS__{role}__CERT"] = str(certificate)
        settings[f"DASK_DISTRIBUTED__COMM__TLS__{role}__KEY"] = str(key)
    return settings


@pytest.mark.nightly
def test_a_sweep_uses_a_cluster_with_tls(study, reference, tmp_path):
    (tmp_path / "dask").mkdir()
    cluster = Cluster(tmp_path / "dask", "tls", environment=certificates(tmp_path))
    with contextlib.ExitStack() as stack:
        stack.callback(cluster.end)
        cluster.start_scheduler()
        cluster.start_workers()
        ends_as_expected(begin(study, tmp_path / "out", cluster), tmp_path / "out", reference)
        cluster.environment = dict(os.environ)
        process = begin(study, tmp_path / "other", cluster)
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == 1
        told = "TLS needs certificates; set distributed.comm.tls in Dask's configuration"
        assert stderr == f"Error: no Dask scheduler at {cluster.address}: {told}\n"


def test_a_missing_scheduler_is_an_error(study, tmp_path):
    cluster = Cluster(tmp_path)
    process = begin(study, tmp_path / "out", cluster)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 1
    assert stderr.startswith(f"Error: no Dask scheduler at {cluster.address}: "), stderr
    assert "Traceback" not in stderr
