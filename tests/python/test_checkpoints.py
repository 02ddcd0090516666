"""Tests of runs that are saved and continued."""

import os
import signal
import subprocess
import sys

import pytest

import silvan
from conftest import SMALL, command


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
        (("--resume", tmp_path / "none"), 1, "none: cannot be read: "),
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
def test_ctrl_c_saves_a_run_that_has_checkpoints(small, tmp_path):
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
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.startswith("stopped at ")
    assert stderr.endswith(f"with: silvan run --resume {saved}\n"), stderr
    done = command("run", small, "--resume", saved)
    assert "belongs to another scenario" in done.stderr


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
