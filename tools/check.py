"""Runs the stages of `make check`, two at a time, and prints a summary.

    python3 tools/check.py [STAGE...]

Each stage is a target of the Makefile, so a failed stage can be repeated by its name. Its output goes to
`target/check/STAGE.log`; if it failed, the end of the log is shown. Stages named on the command line are run
with the stages that they need. The summary lists the time of each stage, the closing lines of the test
runners, and all skipped tests of pytest, with the reason.

Exit status: 0 if all stages passed, else 1.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "target" / "check"
#: Number of stages that run at the same time. Most use one core for most of their time.
AT_ONCE = 2
#: Number of lines shown of the log of a failed stage.
LINES_SHOWN = 60
#: Results of a stage; those after RUNNING are final.
WAITING, RUNNING, PASSED, FAILED, LEFT_OUT = "waiting", "running", "passed", "FAILED", "left out"

CARGO_TEST = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)
PYTEST = re.compile(r"^[= ]*(\d+ (?:passed|failed|error|skipped).* in [\d.]+s[^=\n]*)", re.MULTILINE)
SKIPPED = re.compile(r"^SKIPPED \[\d+\] (.*)$", re.MULTILINE)


@dataclass
class Stage:
    """A target of the Makefile, and the stages whose results it uses."""

    name: str
    needs: tuple[str, ...] = ()
    result: str = WAITING
    wall_s: float = 0.0
    cpu_s: float = 0.0

    @property
    def log(self) -> Path:
        """The file with the output."""
        return LOGS / f"{self.name}.log"

    def run(self) -> str:
        """Run the target, record its times, and return its result."""
        began = time.monotonic()
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                [os.environ.get("MAKE", "make"), "--no-print-directory", self.name],
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.wall_s = time.monotonic() - began
        self.cpu_s = used.ru_utime + used.ru_stime
        return PASSED if process.returncode == 0 else FAILED


def stages() -> list[Stage]:
    """Return the stages, in the order in which they should start.

    Cargo allows one build at a time in the debug folder, so `lint-rust` and `examples-check` follow
    `test-crates-build`. Lint comes early, because it fails most often. Tests in Python take the longest, so
    they come before other stages that need the extension module.
    """
    return [
        Stage("toolchain"),
        Stage("environment", ("toolchain",)),
        Stage("setup", ("environment",)),
        Stage("test-crates-build", ("toolchain",)),
        Stage("lint-python", ("environment",)),
        Stage("test-tools", ("environment",)),
        Stage("test-python", ("setup", "test-tools")),
        Stage("lint-rust", ("test-crates-build",)),
        Stage("test-crates", ("test-crates-build",)),
        Stage("examples-check", ("setup", "test-crates-build")),
        Stage("swarm-check", ("setup", "test-crates-build")),
        Stage("site-check", ("setup",)),
        Stage("library-check", ("swarm-check",)),
        Stage("instructions", ("swarm-check", "test-tools")),
        Stage("loom", ("test-crates-build",)),
        Stage("wheel-check", ("setup",)),
        Stage("release-files", ("wheel-check", "site-check")),
        Stage("schema-check", ("setup",)),
    ]


def selected(every: list[Stage], names: list[str]) -> list[Stage]:
    """Return the stages with these names and all stages that they need. Without names, return all stages.

    Exits if a name is unknown.
    """
    by_name = {stage.name: stage for stage in every}
    if unknown := [name for name in names if name not in by_name]:
        sys.exit(f"no stage {', '.join(unknown)}; there are {', '.join(by_name)}")
    wanted: set[str] = set()
    following = list(names or by_name)
    while following:
        name = following.pop()
        if name not in wanted:
            wanted.add(name)
            following += by_name[name].needs
    return [stage for stage in every if stage.name in wanted]


def run_all(todo: list[Stage]) -> None:
    """Run stages, at most `AT_ONCE` at a time, each after the stages that it needs have passed."""
    by_name = {stage.name: stage for stage in todo}
    changed = threading.Condition()
    began = time.monotonic()

    def work(stage: Stage) -> None:
        result = stage.run()
        with changed:
            stage.result = result
            at = int(time.monotonic() - began)
            times = f"{stage.wall_s:.0f} s, of processors {stage.cpu_s:.0f} s"
            print(f"[{at // 60:2}:{at % 60:02}] {result} {stage.name} ({times})", flush=True)
            if result == FAILED:
                show_end(stage)
            changed.notify()

    def next_one() -> Stage | None:
        for stage in todo:
            results = {by_name[name].result for name in stage.needs}
            if stage.result == WAITING and results & {FAILED, LEFT_OUT}:
                stage.result = LEFT_OUT
            elif stage.result == WAITING and results <= {PASSED}:
                return stage
        return None

    with changed:
        while True:
            running = sum(stage.result == RUNNING for stage in todo)
            stage = next_one() if running < AT_ONCE else None
            if stage is not None:
                stage.result = RUNNING
                threading.Thread(target=work, args=(stage,)).start()
            elif running:
                changed.wait()
            else:
                return


def show_end(stage: Stage) -> None:
    """Print the end of a stage's log."""
    lines = stage.log.read_text(errors="replace").splitlines()
    print(f"--- the last lines of {stage.log.relative_to(ROOT)} ---")
    print("\n".join(lines[-LINES_SHOWN:]))
    print("---", flush=True)


def closing_lines(todo: list[Stage]) -> list[str]:
    """Return the results of the test runners, and the skipped tests of pytest."""
    text = "\n".join(stage.log.read_text(errors="replace") for stage in todo if stage.log.is_file())
    found = []
    if counts := CARGO_TEST.findall(text):
        passed, failed, ignored = (sum(map(int, column)) for column in zip(*counts, strict=True))
        found.append(f"cargo test: {passed} passed; {failed} failed; {ignored} ignored")
    found += [f"pytest: {line}" for line in PYTEST.findall(text)]
    found += [f"skipped: {line}" for line in SKIPPED.findall(text)]
    return found


def main() -> int:
    """Run the stages; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("stages", nargs="*", metavar="STAGE")
    todo = selected(stages(), parser.parse_args().stages)
    LOGS.mkdir(parents=True, exist_ok=True)
    for stage in todo:
        stage.log.unlink(missing_ok=True)
    began = time.monotonic()
    run_all(todo)
    wall = time.monotonic() - began

    print(f"\n{'stage':<16} {'result':<8} {'wall s':>7} {'CPU s':>7}")
    for stage in todo:
        print(f"{stage.name:<16} {stage.result:<8} {stage.wall_s:7.0f} {stage.cpu_s:7.0f}")
    print(f"{'all':<16} {'':<8} {wall:7.0f} {sum(stage.cpu_s for stage in todo):7.0f}\n")
    print("\n".join(closing_lines(todo)))
    return 0 if all(stage.result == PASSED for stage in todo) else 1


if __name__ == "__main__":
    sys.exit(main())
