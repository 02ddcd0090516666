"""Scenarios and helper functions that the tests share."""

import atexit
import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

import silvan

ROOT = Path(__file__).resolve().parents[2]
#: Modules with fast tests, which `make quick` runs.
QUICK = {
    "test_fabric_files", "test_flow_level", "test_fluid", "test_golden", "test_house", "test_papers",
    "test_scenario", "test_schema", "test_traces",
}  # fmt: skip
#: Slow tests that repeat other tests at a larger scale; only `make nightly` runs them.
NIGHTLY = {
    "test_hpc_challenge_on_network_2",
    "test_hpc_challenge_on_the_testbed",
    *(
        f"test_a_page_does_what_it_says[docs/{page}.md]"
        for page in ("papers", "questions", "sweeps", "verification")
    ),
}
#: Tests that may be skipped in CI, with the reasons. With `SILVAN_SKIPS=expected`, any other skip fails the
#: session.
EXPECTED_SKIPS = {
    "test_an_otf2_trace_is_read_whole": "not each release of Debian and Ubuntu has the package python3-otf2",
    "test_a_machine_without_slurm": "there is a Slurm on this machine",
}
FABRICS = ROOT / "tests" / "data" / "fabrics"

#: A small version of the testbed: a victim and two contributors for a few milliseconds.
SMALL = """
name = "small"
seed = 3
duration = "3 ms"
warmup = "1 ms"

[topology]
kind = "dumbbell"
left = 3
right = 4
link_rate = "16 Gbit/s"
trunk_rate = "32 Gbit/s"

[host]
injection_rate = "13 Gbit/s"
drain_rate = "13 Gbit/s"

[measure]
interval = "100 us"

[[flow]]
name = "F1"
from = "H1"
to = "H4"

[[flow]]
name = "F2"
from = "H2"
to = "H5"

[[flow]]
name = "F3"
from = "H6"
to = "H5"
start = "1 ms"
"""

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture(scope="session")
def result() -> silvan.Result:
    return silvan.run(silvan.Scenario.from_toml(SMALL))


#: Outputs are as wide as on a wide terminal, without colors.
PLAIN = {"COLUMNS": "200", "NO_COLOR": "1"}


@functools.cache
def silvan_command() -> list[str]:
    """Return the words that start `silvan` through the server of `starter.py`, which this process starts."""
    folder = tempfile.TemporaryDirectory(prefix="silvan-tests-")
    program, address = str(Path(__file__).with_name("starter.py")), f"{folder.name}/socket"
    server = subprocess.Popen(
        [sys.executable, program, "serve", address],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **PLAIN},
    )  # fmt: skip

    def end() -> None:
        with server, folder:
            server.stdin.close()

    atexit.register(end)
    assert server.stdout.readline() == b"ready\n", "the server that starts commands does not start"
    return [sys.executable, "-I", "-S", program, "ask", address]


def command(*arguments: object, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """Run the command in a separate process, as a user would."""
    return subprocess.run(
        [*silvan_command(), *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd or ROOT,
        timeout=300,
        check=False,
        env={**os.environ, **PLAIN},
    )


def draw_less(monkeypatch: pytest.MonkeyPatch, *, nothing: bool) -> None:
    """Let figures be written as PNG only, or, with `nothing`, be made but not rendered."""
    from matplotlib.figure import Figure

    write = Figure.savefig

    def savefig(figure: Figure, path: object, **options: object) -> None:
        if nothing or options.get("format") == "svg":
            Path(str(path)).touch()
        else:
            write(figure, path, **options)

    monkeypatch.setattr(Figure, "savefig", savefig)


def run_text(text: str, **changes: object) -> silvan.Result:
    """Run a scenario given as text."""
    return silvan.run(silvan.Scenario.from_toml(text, overrides=changes))


def sent_bytes(result: silvan.Result) -> dict[str, int]:
    """Return the bytes that each port has sent."""
    table = result.numpy("hosts")
    sums: dict[str, int] = {}
    for port, sent in zip(table["host"], table["sent_bytes"], strict=True):
        sums[str(port)] = sums.get(str(port), 0) + int(sent)
    return sums


def on_rails(program: str, more: str = "", ports: str = "") -> str:
    """Return a scenario of 4 hosts with 4 ports each on 4 rails."""
    return f"""
        duration = "100 ms"
        [topology]
        kind = "two-level-fat-tree"
        leaves = 4
        spines = 4
        hosts_per_leaf = 4
        link_rate = "100 Gbit/s"
        link_delay = "1 ns"
        [packet]
        mtu = "4096 B"
        [ports]
        count = 4
        wiring = "rails"
        {ports}
        [[job]]
        ranks_per_host = 4
        program = {program}
        {more}
    """


def script(path: Path, *lines: str) -> Path:
    """Write an executable shell script."""
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of quick modules, and slow tests."""
    for item in items:
        if item.name in NIGHTLY:
            item.add_marker(pytest.mark.nightly)
        if item.path.stem in QUICK:
            item.add_marker(pytest.mark.quick)


def unexpected_skips(config: pytest.Config) -> list[str]:
    """Return the tests that were skipped without an expected reason, if such skips are errors."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("SILVAN_SKIPS") != "expected" or hasattr(config, "workerinput") or reporter is None:
        return []
    skipped = [report.nodeid for report in reporter.stats.get("skipped", [])]
    return [name for name in skipped if name.rpartition("::")[2].partition("[")[0] not in EXPECTED_SKIPS]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the session if a test was skipped that should have run."""
    if unexpected_skips(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """List the tests that should have run."""
    for name in unexpected_skips(config):
        terminalreporter.write_line(f"unexpected skip, see EXPECTED_SKIPS in conftest.py: {name}")
