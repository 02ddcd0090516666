"""Tests sweeps: any executor gives the same table, and no run is lost or repeated after a kill."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest

import silvan
from conftest import ROOT, SMALL, command
from silvan import _store
from silvan._store import Store, address
from silvan.sweeps import executors, slurm, worker
from silvan.sweeps.executors import Options

#: A run takes a few tenths of a second, so that the test can kill a sweep before it ends.
STUDY = """\
name = "little"
scenario = "small.toml"
seeds = 2
set = { "duration" = "60 ms", "measure.interval" = "1 ms" }

[[axis]]
key = "host.injection_rate"
name = "rate"
unit = "Gbit/s"
values = [5, 9, 13]

[[axis]]
key = "congestion.mechanism"
values = ["none", "ib-cc"]

[[measure]]
name = "victim"
unit = "Gbit/s"
table = "flows"
column = "received_gbit_s"
of = "F1"

[[measure]]
name = "jain"
summary = "jain_flows"
"""
RUNS = 12
AXES = {"congestion.mechanism": ["none", "ib-cc"], "host.injection_rate": ["5 Gbit/s", "13 Gbit/s"]}
MEASURES = ["jain_flows", {"name": "victim", "table": "flows", "column": "received_gbit_s", "of": "F1"}]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "study.toml"
    path.write_text(STUDY)
    path.with_name("small.toml").write_text(SMALL)
    return path


@pytest.fixture(scope="module")
def reference(study: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, str]:
    """Return the table and the output of the study in one process, without interruption."""
    out = tmp_path_factory.mktemp("reference")
    done = command("sweep", study, "--out", out, "--jobs", 1)
    assert done.returncode == 0, done.stderr
    return (out / "table.parquet").read_bytes(), done.stdout


@pytest.fixture
def scenario() -> silvan.Scenario:
    return silvan.Scenario.from_toml(SMALL)


def folders(store: Path) -> dict[str, int]:
    """Return the finished runs, with the time at which each was written."""
    written = store.glob("*/[!.]*/provenance.json")  # names that start with a dot belong to unfinished runs
    return {path.parent.name: path.stat().st_mtime_ns for path in written}


def begin(study: Path, out: Path, *options: str) -> "subprocess.Popen[str]":
    # If a script runs the tests in the background, their processes ignore Ctrl-C. Restore the handler,
    # because processes on a user's terminal do not ignore the signal.
    listening = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    start = listening + "from silvan import cli; cli.main()"
    return subprocess.Popen(
        [sys.executable, "-c", start, "sweep", str(study), "--out", str(out), "--jobs", "2", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=ROOT,
    )


# The limit is long because the machine may be busy with other work.
def wait_for(what, seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "the wait timed out"
        time.sleep(0.02)


def until_in_the_middle(process: "subprocess.Popen[str]", store: Path) -> None:
    wait_for(lambda: len(folders(store)) >= 3 or process.poll() is not None)
    assert process.poll() is None, process.communicate()


def test_the_number_of_processes_changes_no_byte(study, reference, tmp_path):
    done = command("sweep", study, "--out", tmp_path, "--jobs", 3, "--executor", "processes")
    assert (tmp_path / "table.parquet").read_bytes() == reference[0]
    assert done.stdout == reference[1]
    assert f"{RUNS} runs simulated, 0 found" in done.stderr


def test_killed_in_the_middle_nothing_is_lost_or_done_twice(study, reference, tmp_path):
    process = begin(study, tmp_path)
    until_in_the_middle(process, tmp_path / "runs")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    before = folders(tmp_path / "runs")
    assert 3 <= len(before) < RUNS
    # Simulate a kill in the middle of writing.
    name = next(iter(before))
    partial = tmp_path / "runs" / name[:2] / f".{name}.partial-1-abc"
    shutil.copytree(tmp_path / "runs" / name[:2] / name, partial)
    done = command("sweep", study, "--out", tmp_path, "--jobs", 2)
    assert done.returncode == 0
    assert f"{RUNS - len(before)} runs simulated, {len(before)} found" in done.stderr
    after = folders(tmp_path / "runs")
    assert {name: after[name] for name in before} == before
    assert len(after) == RUNS
    assert (tmp_path / "table.parquet").read_bytes() == reference[0]
    assert done.stdout == reference[1]
    assert not list(tmp_path.rglob(".*"))


def test_workers_go_when_only_their_parent_is_killed(study, tmp_path):
    process = begin(study, tmp_path, "--executor", "processes")
    until_in_the_middle(process, tmp_path / "runs")
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 2
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_ctrl_c_keeps_what_is_finished(study, tmp_path, executor):
    process = begin(study, tmp_path, "--executor", executor)
    until_in_the_middle(process, tmp_path / "runs")
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == ""
    assert f" of {RUNS} runs are done and kept; repeat the command to continue" in err
    assert "Traceback" not in err
    assert 3 <= len(folders(tmp_path / "runs")) < RUNS


def test_a_worker_that_dies_takes_no_run_with_it(study, reference, tmp_path):
    process = begin(study, tmp_path, "--executor", "processes")
    until_in_the_middle(process, tmp_path / "runs")
    children = psutil.Process(process.pid).children(recursive=True)
    workers = [child for child in children if "spawn_main" in " ".join(child.cmdline())]
    workers[-1].kill()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert (tmp_path / "table.parquet").read_bytes() == reference[0]


def test_two_sweeps_of_one_store_do_the_work_once(study, tmp_path):
    both = [begin(study, tmp_path / name, "--store", str(tmp_path / "runs")) for name in "ab"]
    told = [process.communicate(timeout=120)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    simulated = [int(err.split(" runs simulated")[0].split()[-1]) for err in told]
    assert sum(simulated) == RUNS
    tables = [(tmp_path / name / "table.parquet").read_bytes() for name in "ab"]
    assert tables[0] == tables[1]


@pytest.fixture(scope="module")
def in_threads(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    root = tmp_path_factory.mktemp("threads")
    swept = silvan.sweep(
        silvan.Scenario.from_toml(SMALL), AXES, seeds=2, measure=MEASURES, executor="threads", store=root
    )
    return swept.to_parquet(root / "table.parquet").read_bytes()


# Dask opens sockets and files that it closes only when it ends.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("executor", ["processes", "slurm", "dask", "own"])
def test_the_executor_changes_no_byte(scenario, in_threads, tmp_path, executor):
    options = Options(jobs=2, cluster="local", runs_per_task=3, logs=tmp_path / "slurm")
    with ThreadPoolExecutor(3) as own:
        swept = silvan.sweep(
            scenario,
            AXES,
            seeds=2,
            measure=MEASURES,
            store=tmp_path / "runs",
            executor=own if executor == "own" else executor,
            options=options,
        )
    assert not swept.failures
    assert swept.to_parquet(tmp_path / "table.parquet").read_bytes() == in_threads
    if executor == "slurm":
        # Eight runs with three per task make three tasks.
        assert len(list((tmp_path / "slurm").rglob("*_result.pkl"))) == 3


def swept(scenario, tmp_path, axes=AXES, **more):
    return silvan.sweep(scenario, axes, executor="threads", jobs=2, store=tmp_path / "runs", **more)


def test_a_cube_over_the_axes(scenario, tmp_path):
    got = swept(scenario, tmp_path, seeds=[3, 4], measure=MEASURES[:1])
    cube = got.to_xarray()
    assert dict(cube.sizes) == {"congestion.mechanism": 2, "host.injection_rate": 2, "seed": 2}
    point = {"congestion.mechanism": "ib-cc", "host.injection_rate": "5 Gbit/s", "seed": 4}
    alone = silvan.run(scenario, congestion__mechanism="ib-cc", host__injection_rate="5 Gbit/s", seed=4)
    assert cube["jain_flows"].sel(point).item() == alone.summary["jain_flows"]
    assert got.result(5).summary == alone.summary
    assert list(cube["seed"].values) == [3, 4]


def test_units_and_keys_that_move_together(scenario, tmp_path):
    axis = {"name": "rate", "unit": "Gbit/s", "values": [5, 13]}
    zipped = {
        "host.injection_rate": ["5 Gbit/s", "13 Gbit/s"],
        "host.drain_rate": ["6 Gbit/s", "13 Gbit/s"],
    }
    measure = {"victim": {"summary": "flows.F1.received_gbit_s", "unit": "Gbit/s"}}
    got = swept(scenario, tmp_path, [{**axis, "zip": zipped}], measure=measure)
    cube = got.to_xarray()
    assert cube["rate"].attrs == cube["victim"].attrs == {"units": "Gbit/s"}
    assert list(cube["host.drain_rate"].values) == ["6 Gbit/s", "13 Gbit/s"]
    assert cube["host.drain_rate"].dims == ("rate",)
    fields = {field.name: field for field in got.table.schema}
    assert fields["victim"].metadata_str == {"unit": "Gbit/s"}
    assert list(fields) == [
        "rate",
        "host.injection_rate",
        "host.drain_rate",
        "seed",
        "victim",
        "not_in_steady_state",
        "error",
        "run",
    ]


def test_functions_are_measures_too(scenario, tmp_path):
    def both(result: silvan.Result) -> dict[str, float]:
        return {"rows": result.flows.num_rows, "nothing": float("nan")}

    got = swept(scenario, tmp_path, measure=[both, lambda result: result.summary["events"]])
    assert got.measures == {"rows": "", "nothing": "", "<lambda>": ""}
    assert {row.values["rows"] for row in got.rows} == {90.0}
    assert {row.values["nothing"] for row in got.rows} == {None}
    with pytest.raises(silvan.SweepError, match='they need keep = "tables"'):
        swept(scenario, tmp_path, measure=both, keep="summary")


def test_without_measures_the_summary_is_taken(scenario, tmp_path):
    got = swept(scenario, tmp_path, {"congestion.mechanism": ["none"]})
    assert got.measures["throughput_gbit_s"] == "Gbit/s"
    assert got.rows[0].values["jain_flows"] == silvan.run(scenario).summary["jain_flows"]


def test_axes_act_on_what_was_written_also_without_a_file(tmp_path):
    whole = silvan.Scenario.from_toml(SMALL, origin="made up")
    got = swept(whole, tmp_path, {"congestion.mechanism": ["none", "ib-cc"]}, seeds=1)
    marks = [row.values["fecn_marks"] for row in got.rows]
    assert marks[0] == 0
    assert marks[1] > 0


def test_summaries_alone_need_little_room(scenario, tmp_path):
    got = swept(scenario, tmp_path, measure=MEASURES, keep="summary")
    assert not list(tmp_path.rglob("*.parquet"))
    again = swept(scenario, tmp_path, measure=MEASURES, keep="summary")
    assert (again.found, again.simulated) == (4, 0)
    assert [row.values for row in again.rows] == [row.values for row in got.rows]
    # A measure that was not taken cannot be computed from a summary, so the runs are repeated.
    more = {"name": "ccti", "table": "flows", "column": "ccti", "over_time": "max"}
    later = swept(scenario, tmp_path, measure=[*MEASURES, more], keep="summary")
    full = swept(scenario, tmp_path / "full", measure=[*MEASURES, more])
    assert [row.values for row in later.rows] == [row.values for row in full.rows]


def test_a_run_that_fails_is_a_row(tmp_path, study):
    text = STUDY.replace("values = [5, 9, 13]", "values = [5, -1]").replace("60 ms", "3 ms")
    path = study.with_name("half.toml")
    path.write_text(text.replace("seeds = 2\n", ""))
    done = command("sweep", path, "--out", tmp_path, "--jobs", 1)
    assert done.returncode == 1
    assert "Error: 2 of 4 runs failed:" in done.stderr
    assert "host.injection_rate=-1 Gbit/s congestion.mechanism=none: --set host.injection_rate" in done.stderr
    assert done.stdout.count("failed") == 4
    again = command("sweep", path, "--out", tmp_path, "--jobs", 1)
    assert "0 runs simulated, 2 found" in again.stderr
    assert again.stdout == done.stdout


def test_where_no_run_can_begin_the_reason_is_told_once(scenario, tmp_path):
    with pytest.raises(silvan.ScenarioError, match=r'--set congestion\.mechanizm = "x": unknown key; did'):
        swept(scenario, tmp_path, {"congestion.mechanizm": ["x", "y"]})


def test_a_measure_that_fails_costs_no_run(scenario, tmp_path):
    wrong = {"name": "m", "table": "flows", "column": "ccti", "of": "F9"}
    got = swept(scenario, tmp_path, measure=[wrong])
    assert len(got.failures) == 4
    assert "measure `m`: the table `flows` has no names like F9; there are F1, F2, F3" in str(got.failures[0])
    mended = swept(scenario, tmp_path, measure=[{**wrong, "of": "F1"}])
    assert (mended.found, mended.simulated, mended.failures) == (4, 0, [])


@pytest.mark.parametrize(
    ("module", "message"),
    [("submitit", r"pip install 'silvan\[slurm\]'"), ("distributed", r"pip install 'silvan\[dask\]'")],
)
def test_what_is_not_installed_is_named(scenario, tmp_path, monkeypatch, module, message):
    monkeypatch.setitem(sys.modules, module, None)
    kind = {"submitit": "slurm", "distributed": "dask"}[module]
    with pytest.raises(silvan.SweepError, match=message):
        silvan.sweep(scenario, AXES, executor=kind, store=tmp_path)


def test_a_cube_needs_xarray(scenario, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(silvan.SweepError, match=r"pip install 'silvan\[xarray\]'"):
        swept(scenario, tmp_path).to_xarray()


def test_executors_that_do_not_exist(scenario, tmp_path):
    with pytest.raises(
        silvan.SweepError, match="executor `pbs` is not one of threads, processes, slurm, dask"
    ):
        silvan.sweep(scenario, AXES, executor="pbs", store=tmp_path)
    with pytest.raises(silvan.SweepError, match="cluster `lsf` is not one of slurm, local"):
        silvan.sweep(scenario, AXES, executor="slurm", store=tmp_path, options=Options(cluster="lsf"))


def test_the_reason_of_a_lost_task_is_not_a_step_of_submitit():
    error = (
        "Job 7 (task: 0) with path out/7_0_result.pkl\nhas not produced any output (state: FINISHED)\n"
        "No error stream produced. Look at stdout: out/7_0_log.out\n----\n"
        "submitit INFO (2026-01-01 00:00:00,000) - Loading pickle: out/7_submitted.pkl"
    )
    assert slurm._last_line(error) == "has not produced any output (state: FINISHED)"
    assert slurm._last_line(error + "\nMemoryError: no memory") == "MemoryError: no memory"


@pytest.mark.skipif(shutil.which("srun") is not None, reason="there is a Slurm here")
def test_a_machine_without_slurm(scenario, tmp_path):
    with pytest.raises(silvan.SweepError, match="Slurm is not available: "):
        silvan.sweep(scenario, AXES, executor="slurm", store=tmp_path)


def test_a_worker_of_another_build_refuses(scenario, tmp_path, monkeypatch):
    def other(job: worker.Job, **more: object) -> worker.Done:
        monkeypatch.setattr(worker, "build", lambda: "0123")
        return worker.perform(job)

    monkeypatch.setattr(executors, "perform", other)
    got = swept(scenario, tmp_path, {"congestion.mechanism": ["none"]})
    assert "this worker has another build of Silvan (0123) than the sender of the run" in str(got.failures[0])


def test_addresses(scenario, monkeypatch):
    at = address(scenario)
    named = silvan.Scenario.from_toml(SMALL.replace('"small"', '"other"') + "\n# a remark")
    assert address(named) == at
    assert address(scenario.with_overrides({"congestion.mechanism": "none"})) == at
    assert address(scenario.with_overrides({"seed": 4})) != at
    monkeypatch.setattr(_store, "build", lambda: "another")
    assert address(scenario) != at


def test_an_edited_file_of_a_scenario_is_another_run(tmp_path):
    source = ROOT / "tests" / "data" / "fabrics" / "ft2-36p-h648" / "ftree"
    for name in ("ibnetdiscover.topo.gz", "opensm-lfts.dump.gz"):
        shutil.copy(source / name, tmp_path / name)
    text = (ROOT / "scenarios" / "fabric-648.toml").read_text()
    text = text.replace("../tests/data/fabrics/ft2-36p-h648/ftree/", "")
    (tmp_path / "moved").mkdir()
    here = silvan.Scenario.from_toml(text, base_dir=tmp_path)
    at = address(here)
    for path in list(tmp_path.glob("*.gz")):
        path.rename(tmp_path / "moved" / path.name)
    assert address(silvan.Scenario.from_toml(text, base_dir=tmp_path / "moved")) == at
    with (tmp_path / "moved" / "opensm-lfts.dump.gz").open("ab") as file:
        file.write(b"\n")
    assert address(silvan.Scenario.from_toml(text, base_dir=tmp_path / "moved")) != at


def test_a_store_waits_for_who_is_at_it(scenario, tmp_path):
    store = Store(tmp_path)
    at = address(scenario)
    runs = []
    with store._turn(at):
        waiting = threading.Thread(target=lambda: runs.append(store.run(scenario)))
        waiting.start()
        time.sleep(0.3)
        assert not runs
        assert store.clear_leftovers() == 0
        store._simulate(scenario, at, "tables", None, None)
    waiting.join(30)
    assert [run.found for run in runs] == [True]


def test_figures_over_one_axis_and_two(scenario, tmp_path):
    from silvan.sweeps import figures

    numbers = {"host.injection_rate": AXES["host.injection_rate"], "packet.mtu": ["1 KiB", "2 KiB"]}
    two = swept(scenario, tmp_path, numbers, measure="jain_flows")
    assert figures.save_all(two, tmp_path / "two") == 2
    assert sorted(path.name for path in (tmp_path / "two").glob("*.png")) == [
        "jain_flows-map.png",
        "jain_flows-surface.png",
    ]
    one = swept(scenario, tmp_path, {"host.injection_rate": AXES["host.injection_rate"]}, seeds=2)
    drawn = figures.lines(one, "throughput_gbit_s").axes[0]
    means = figures.cube(one, "throughput_gbit_s").mean(axis=-1)
    np.testing.assert_array_equal(drawn.lines[0].get_ydata(), means)
    with pytest.raises(silvan.SweepError, match="over one or two axes, and this study has 0"):
        figures.save_all(swept(scenario, tmp_path, {}), tmp_path / "none")


def test_maps_write_large_numbers_in_full(scenario, tmp_path):
    from silvan.sweeps import figures

    two = swept(scenario, tmp_path, measure="packets_delivered")
    means = figures.cube(two, "packets_delivered").mean(axis=-1)
    assert (means >= 1000).any()
    written = {text.get_text() for text in figures.surface_map(two, "packets_delivered").axes[0].texts}
    assert written == {f"{mean:.0f}" if mean >= 1000 else f"{mean:.3g}" for mean in means.flat}


def test_figures_over_three_axes_are_over_the_last_two(scenario, tmp_path):
    from silvan.sweeps import figures

    axes = {**AXES, "packet.mtu": ["1 KiB", "2 KiB"]}
    three = swept(scenario, tmp_path, axes, measure="jain_flows")
    assert figures.save_all(three, tmp_path / "three") == 2 * 2
    folders = sorted(path.name for path in (tmp_path / "three").iterdir())
    assert folders == ["congestion.mechanism=ib-cc", "congestion.mechanism=none"]
    held = [axis for axis in three.axes if axis.name == "congestion.mechanism"]
    parts = dict(figures._parts(three, held))
    whole = figures.cube(three, "jain_flows")
    for step, part in enumerate(parts.values()):
        np.testing.assert_array_equal(figures.cube(part, "jain_flows")[0], whole[step])
        assert figures._title(part, "jain_flows").endswith(f"congestion.mechanism {['none', 'ib-cc'][step]}")


#: Prints the ports of a process on which another user can connect.
CONNECT = """\
import encodings.idna, os, socket, sys
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
for port in map(int, sys.argv[1:]):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except OSError:
        continue
    print(port)
"""


def reachable(process: psutil.Process) -> set[int]:
    """Return the listening ports of a process and its children that a second user can connect to."""
    ports = set()
    for one in (process, *process.children(recursive=True)):
        ports |= {link.laddr.port for link in one.net_connections("inet") if link.status == "LISTEN"}
    done = subprocess.run(
        [sys.executable, "-I", "-c", CONNECT, *map(str, sorted(ports))],
        check=True,
        capture_output=True,
        text=True,
        cwd="/",
    )
    return {int(port) for port in done.stdout.split()}


def test_the_dask_cluster_of_a_sweep_cannot_be_reached(study: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as open_port:
        # The check finds a port that is open.
        assert open_port.getsockname()[1] in reachable(psutil.Process())
    arguments = ["sweep", study, "--out", tmp_path, "--executor", "dask", "--jobs", "2"]
    looks = 0
    with subprocess.Popen(
        [sys.executable, "-m", "silvan.cli", *map(str, arguments)], stderr=subprocess.PIPE, text=True
    ) as process:
        sweep = psutil.Process(process.pid)
        while process.poll() is None:
            with contextlib.suppress(psutil.NoSuchProcess):
                assert not reachable(sweep)
                # The servers would exist since the start of the first thread of Dask.
                looks += sweep.num_threads() > 2
        assert process.returncode == 0, process.stderr.read()
    assert looks > 1
