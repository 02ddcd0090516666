"""Tests of runs that are saved and continued."""

import contextlib
import gzip
import os
import shutil
import signal
import subprocess
import sys

import pytest

import silvan
from conftest import SMALL, command, on_rails
from silvan import _files, _provenance, _store
from silvan._store import Store

MAGIC = b"Silvan checkpoint\n"


def contents(folder):
    """Return the files of a run by name, without the provenance, which has the time of the run."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "provenance.json"}


@pytest.mark.parametrize("threads", [1, 2])
def test_a_resumed_run_writes_the_same_bytes(small, tmp_path, threads):
    saved, whole, continued = tmp_path / "small.checkpoint", tmp_path / "whole", tmp_path / "continued"
    arguments = ("run", small, "--quiet", "--set", "measure.forest=true", "--threads", threads)
    done = command(*arguments, "--out", whole, "--checkpoint", "500 us", "--checkpoint-file", saved)
    assert (done.returncode, done.stderr) == (0, "")
    done = command("run", "--resume", saved, "--quiet", "--out", continued)
    assert (done.returncode, done.stderr) == (0, "")
    assert contents(continued) == contents(whole)
    one, other = (silvan.load(folder).provenance for folder in (whole, continued))
    for key in ("scenario", "overrides", "seed", "version", "origin"):
        assert one[key] == other[key]
    assert "resumed" not in one
    first, second = other["resumed"]
    assert (first["at_ns"], first["build"], second["build"]) == (0, *[_provenance.build()] * 2)
    assert second["at_ns"] == 2_500_000
    # The rate is that of all events in the time of all parts.
    assert other["wall_s"] == pytest.approx(first["wall_s"] + second["wall_s"], abs=0.0011)
    events = silvan.load(continued).summary["events"]
    assert other["events_per_s"] == pytest.approx(events / other["wall_s"], rel=0.2)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "continued", "small.checkpoint", "small.toml", "whole",
    ]  # fmt: skip


def test_a_run_is_saved_and_continued_in_python(tmp_path):
    scenario = silvan.Scenario.from_toml(SMALL, "own.toml")
    checkpoints = silvan.Checkpoints(tmp_path / "own.checkpoint", "1 ms")
    whole = silvan.run(scenario, checkpoints=checkpoints)
    assert checkpoints.saved_ns == 2_000_000
    for given in (None, scenario):
        continued = silvan.run(given, resume=checkpoints.path)
        assert continued.summary == whole.summary
        assert continued.account == whole.account
        assert continued.scenario_toml == whole.scenario_toml
        assert continued.flows == whole.flows
    with pytest.raises(silvan.ScenarioError, match=r"belongs to another scenario than own\.toml: line "):
        silvan.run(scenario, resume=checkpoints.path, seed=7)
    with pytest.raises(TypeError, match="needs a scenario, or a checkpoint"):
        silvan.run()


def test_equal_runs_save_equal_bytes(tmp_path):
    # Messages are posted, under way and unexpected at the time of the checkpoint, in hosts and between them.
    program = """{ kind = "moe", ranks = 16, experts = 32, top_k = 2, tokens = 512, layers = 4, zipf = 0.5,
        dispatch = "host", other_compute = "20 us" }"""
    more = 'algorithms = { all_to_all = "linear" }\nrendezvous_above = "64 KiB"'
    text = on_rails(program, more, 'inner_rate = "400 Gbit/s"').replace("100 ms", "1 ms")
    file = tmp_path / "job.toml"
    file.write_text(text)
    states = []
    for number in range(3):
        saved = tmp_path / f"{number}.checkpoint"
        done = command("run", file, "--quiet", "--checkpoint", "300 us", "--checkpoint-file", saved)
        assert done.returncode == 0
        states.append(gzip.decompress(saved.read_bytes()[len(MAGIC) :]))
    for other in states[1:]:
        assert len(other) == len(states[0])
        differ = [at for at, (one, two) in enumerate(zip(states[0], other, strict=True)) if one != two]
        # The wall-clock time is a number of eight bytes.
        assert not differ or differ[-1] - differ[0] < 8


@pytest.mark.parametrize("every", ["0 s", "10", "often"])
def test_a_wrong_time_between_checkpoints_is_explained(small, tmp_path, every):
    done = command("run", small, "--checkpoint", every, "--checkpoint-file", tmp_path / "x")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: checkpoint: ")
    assert "10 ms" in done.stderr or "us" in done.stderr


def test_checkpoints_that_cannot_be_used_are_explained(small, tmp_path):
    saved = tmp_path / "small.checkpoint"
    assert command("run", small, "-q", "--checkpoint", "1 ms", "--checkpoint-file", saved).returncode == 0
    short = tmp_path / "short.checkpoint"
    short.write_bytes(saved.read_bytes()[:-100])
    for arguments, status, what in (
        (("--resume", small), 1, f"{small}: is not a checkpoint; `silvan run --checkpoint` writes them"),
        (("--resume", tmp_path / "none"), 1, "none: no such file"),
        (("--resume", short), 1, f"{short}: is incomplete or damaged"),
        ((small, "--set", "seed=4", "--resume", saved), 1, "belongs to another scenario than"),
        (("--resume", saved, "--seed", "4"), 2, "the scenario of a checkpoint cannot be changed"),
        (("--resume", saved, "--threads", "2"), 2, "a resumed run has the threads of its checkpoint"),
        ((), 2, "a scenario is needed, unless --resume is given"),
    ):
        done = command("run", *arguments)
        assert done.returncode == status, arguments
        assert what in " ".join(done.stderr.replace("│", " ").split()), done.stderr


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_and_sigterm_save_a_run_that_has_checkpoints(small, tmp_path, number, status):
    saved = tmp_path / "long.checkpoint"
    arguments = ["run", small, "--set", "duration=3600 s", "--set", "measure.interval=1 s"]
    arguments += ["--checkpoint", "1 s", "--checkpoint-file", saved]
    # See `test_ctrl_c_stops_cleanly`. The run prints a line when it has begun.
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    start += "from silvan import _progress, cli; call = _progress.RunProgress.__call__; "
    start += (
        "_progress.RunProgress.__call__ = lambda self, *now: (print('ready', flush=True), call(self, *now)); "
    )
    process = subprocess.Popen(
        [sys.executable, "-c", start + "cli.main()", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == status
    assert stderr.startswith("stopped at ")
    assert stderr.endswith(f"with: silvan run --resume {saved}\n"), stderr
    done = command("run", small, "--resume", saved)
    assert "belongs to another scenario" in done.stderr


#: Waits in an import, as the command `silvan` or as another program.
SLOW = """\
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv[0] = {program!r}
class Finder:
    def find_spec(self, name, *more):
        if name == "typer":
            print("ready", flush=True)
            time.sleep(60)
sys.meta_path.insert(0, Finder())
from silvan.cli import main
"""


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize(("program", "has_traceback"), [("/usr/bin/silvan", False), ("own.py", True)])
def test_ctrl_c_during_imports_ends_the_command_without_a_traceback(program, has_traceback):
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW.format(program=program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    # Other programs are not affected.
    assert ("Traceback" in stderr) is has_traceback
    assert has_traceback or not stderr


class Interrupter:
    """A viewer that stops the run at the third sample, as Ctrl-C does."""

    samples = 0

    def network(self, text):
        return 1

    def sample(self, text):
        self.samples += 1
        if self.samples == 3:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(("answer", "is_saved"), [(True, True), (False, False)])
def test_ctrl_c_asks_whether_to_save_a_run(tmp_path, answer, is_saved):
    """`ask` decides whether the run is saved. A continued run has the results of an uninterrupted run."""
    scenario = silvan.Scenario.from_toml(SMALL)
    checkpoints = silvan.Checkpoints(tmp_path / "own.checkpoint", ask=lambda: answer)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            silvan.run(scenario, checkpoints=checkpoints, viewer=Interrupter())
    finally:
        signal.signal(signal.SIGINT, before)
    assert checkpoints.saved_ns == (300_000 if is_saved else None)
    if is_saved:
        assert silvan.run(resume=checkpoints.path).summary == silvan.run(scenario).summary


def checkpoint(small, path):
    done = command("run", small, "-q", "--checkpoint", "1 ms", "--checkpoint-file", path)
    assert (done.returncode, done.stderr) == (0, "")
    return path


@pytest.mark.skipif(os.name != "posix", reason="needs FIFOs and symbolic links")
def test_only_a_checkpoint_is_replaced(small, tmp_path):
    own, fifo, text, link = (tmp_path / name for name in ("own", "fifo", "text", "link"))
    os.mkfifo(fifo)
    text.write_text("my data")
    for path, what in (
        (fifo, "not a regular file but a FIFO"),
        ("/dev/null", "not a regular file but a FIFO, a device"),
        (text, "exists and is not a checkpoint; choose another file for checkpoints"),
        (tmp_path, "is a folder"),
        (tmp_path / "none" / "file", "the folder for the checkpoint does not exist"),
    ):
        done = command("run", small, "--checkpoint", "1 ms", "--checkpoint-file", path)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"Error: {path}: {what}"), done.stderr
    assert fifo.is_fifo()
    assert text.read_text() == "my data"
    checkpoint(small, own)
    link.symlink_to(own)
    own.write_bytes(MAGIC)
    checkpoint(small, link)
    assert link.is_symlink()
    assert len(own.read_bytes()) > 1000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "link", "own", "small.toml", "text"]


def test_the_name_of_a_scenario_does_not_choose_a_folder(small, tmp_path):
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    small.write_text(SMALL.replace('"small"', '"../../evil"'))
    assert command("run", small, "-q", "--checkpoint", "1 ms", cwd=inside).returncode == 0
    assert [path.name for path in inside.iterdir()] == ["evil.checkpoint"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "small.toml"]


def test_files_of_killed_processes_are_removed(small, tmp_path):
    saved = tmp_path / "own[1].checkpoint"
    with _files.replacing(saved) as in_use:
        in_use.write_bytes(MAGIC)
        left = saved.with_name(f".{saved.name}.partial-1-0123abcd")
        left.write_bytes(MAGIC)
        other = saved.with_name(".other.partial-1-0123abcd")
        other.write_bytes(MAGIC)
        checkpoint(small, saved)
        assert not left.exists()
        assert in_use.exists()
        assert other.exists()


def test_a_temporary_file_is_new(tmp_path, monkeypatch):
    """A link with the name of the temporary file, which another user may have made, is not followed."""
    monkeypatch.setattr(_files, "mark", lambda: "1-0")
    (tmp_path / ".a.partial-1-0").symlink_to(tmp_path / "victim")
    with pytest.raises(FileExistsError), _files.replacing(tmp_path / "a"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == [".a.partial-1-0"]


class Fragile(silvan.Checkpoints):
    """Checkpoints whose folder disappears after the second one, and returns after two failures."""

    count = failures = 0

    def saved(self, now_ns):
        super().saved(now_ns)
        self.count += 1
        if self.count == 2:
            shutil.rmtree(os.path.dirname(self.path))  # noqa: PTH120

    def failed(self, error, now_ns):
        super().failed(error, now_ns)
        self.failures += 1
        if self.failures == 2:
            os.mkdir(os.path.dirname(self.path))  # noqa: PTH102, PTH120


def test_a_run_goes_on_if_a_checkpoint_cannot_be_written(tmp_path):
    messages = []
    (tmp_path / "own").mkdir()
    path = tmp_path / "own" / "a.checkpoint"
    checkpoints = Fragile(path, "500 us", warn=messages.append)
    scenario = silvan.Scenario.from_toml(SMALL)
    result = silvan.run(scenario, checkpoints=checkpoints)
    assert result.summary == silvan.run(scenario).summary
    (message,) = messages
    assert message.startswith(f"{path}: the checkpoint at 1.5 ms cannot be written (the folder ")
    assert message.endswith("; the last one is of 1 ms; the run continues")
    assert (checkpoints.failures, checkpoints.saved_ns) == (2, 2_500_000)
    assert silvan.run(resume=path).summary == result.summary
    # Without `warn`, the message is a warning of Python.
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        silvan.run(scenario, checkpoints=Fragile(path, "500 us"))


def test_another_build_continues_a_run_only_on_request(small, tmp_path, monkeypatch):
    saved = checkpoint(small, tmp_path / "own.checkpoint")
    builds = [_provenance.build(), "0123456789abcdef"]
    monkeypatch.setattr(_provenance, "build", lambda: builds[1])
    with pytest.raises(silvan.ScenarioError, match="was written by another build of Silvan") as caught:
        silvan.run(resume=saved)
    assert f"({builds[0]}; this is {builds[1]})" in str(caught.value)
    assert "--resume-other-build (resume_other_build=True)" in str(caught.value)
    result = silvan.run(resume=saved, resume_other_build=True)
    assert [part["build"] for part in result.provenance["resumed"]] == builds
    done = command("run", small, "--resume-other-build")
    assert done.returncode == 2
    assert "needs a checkpoint: --resume FILE" in done.stderr


def test_a_checkpoint_with_wrong_values_and_a_valid_checksum_is_an_error(small, tmp_path, capfd):
    """The process does not end, and Python sees no panic."""
    saved = checkpoint(small, tmp_path / "own.checkpoint")
    content = gzip.decompress(saved.read_bytes()[len(MAGIC) :])
    results = damaged = 0
    for number, at in enumerate(range(0, len(content), len(content) // 150)):
        other = bytearray(content)
        other[at : at + 4] = bytes([(0xFF, 0x01, 0x80)[number % 3]]) * 4
        saved.write_bytes(MAGIC + gzip.compress(bytes(other), 1))
        with contextlib.suppress(silvan.ModelError):
            try:
                silvan.run(resume=saved)
                results += 1
            except silvan.ScenarioError as error:
                damaged += str(error).startswith(f"{saved}: is incomplete or damaged (")
    assert results > 5
    assert damaged > 5
    assert capfd.readouterr().err == ""


def test_bytes_after_the_end_of_a_checkpoint_are_an_error(small, tmp_path):
    saved = checkpoint(small, tmp_path / "own.checkpoint")
    with saved.open("ab") as file:
        file.write(b"more")
    with pytest.raises(silvan.ScenarioError, match=r"damaged .*bytes follow the end of the state"):
        silvan.run(resume=saved)


#: A run of a store in which each checkpoint ends the process.
KILLED = """\
import os, sys
import silvan
from silvan import _store, checkpoints
_store.CHECKPOINT_EVERY_S = 0.0
saved = checkpoints.Checkpoints.saved
checkpoints.Checkpoints.saved = lambda self, ns: ns > int(sys.argv[2]) and os._exit(9)
_store.Store(sys.argv[1]).run(silvan.Scenario.load(sys.argv[3]))
"""


def test_the_store_continues_the_run_of_a_killed_process(small, tmp_path):
    """Twice, so that the run has three parts; a damaged checkpoint is not used."""
    root, scenario = tmp_path / "runs", silvan.Scenario.load(small, {"duration": "30 ms"})
    small.write_text(SMALL.replace('"3 ms"', '"30 ms"'))
    for at_ns in (5_000_000, 15_000_000):
        arguments = [sys.executable, "-c", KILLED, str(root), str(at_ns), str(small)]
        assert subprocess.run(arguments, check=False).returncode == 9
        (left,) = root.glob("*/*.checkpoint")
    whole = silvan.run(scenario)
    content = left.read_bytes()
    run = Store(root).run(scenario)
    assert run.result.summary == whole.summary
    first, second, third = (part["at_ns"] for part in run.result.provenance["resumed"])
    assert 0 == first < 5_000_000 < second < 15_000_000 < third
    assert silvan.load(run.folder).provenance["resumed"] == run.result.provenance["resumed"]
    assert not left.exists()
    shutil.rmtree(run.folder)
    left.write_bytes(content[:-10])
    again = Store(root).run(scenario).result
    assert "resumed" not in again.provenance
    assert again.summary == whole.summary
    assert not left.exists()


def test_short_runs_of_a_store_leave_no_checkpoints(small, tmp_path):
    assert _store.CHECKPOINT_EVERY_S > 60
    store = Store(tmp_path / "runs")
    store.run(silvan.Scenario.load(small))
    assert not list(tmp_path.rglob("*.checkpoint"))
    # Partial checkpoints of killed processes are removed at the start of a sweep.
    at = _store.address(silvan.Scenario.load(small))
    left = store.root / at[:2] / f".{at}.checkpoint.partial-1-0123abcd"
    left.write_text("x")
    store.clear_leftovers()
    assert not left.exists()
