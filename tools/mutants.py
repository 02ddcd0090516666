"""Runs the tests of the model on a random sample of mutants, and reports the mutants that no test caught.

    python3 tools/mutants.py [--count N] [--seed S...] [--jobs J] [MODULE...]

A mutant is a copy of the sources with one changed expression or function. Modules are folders or files of
the crates of the model (`CRATES`), such as `host` or `partition/events.rs`. The default is all modules that
compute results. The same seed selects the same mutants while their functions keep their names, and a larger
count adds mutants to the sample. cargo-mutants (`cargo install --locked cargo-mutants`) lists the mutants;
`.cargo/mutants.toml` excludes some. The tests are those of `cargo test` of these crates, without
documentation tests.

One build contains all mutants of all samples, each behind a switch (see `mutant_switches.py`). Mutants that
do not compile are removed from the build ("unviable"), as are those that can have no switch ("skipped"). A
mutant runs in the tests that reach its function, the shortest first, until one fails. J tests (default: one
per processor) run at the same time. The output is in `target/mutants/log`.

Exit status: 0 if the mutants were run or listed, 1 if the sources do not build, 2 if there are no mutants.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TextIO

from mutant_switches import REACHED, VARIABLE, body, switch, switched

ROOT = Path(__file__).resolve().parents[1]
#: The crates of the model.
CRATES = ("silvan-network", "silvan-congestion", "silvan-fabric")
#: The sources of these crates.
MODEL = tuple(PurePosixPath("crates", name, "src") for name in CRATES)
#: Modules that only describe a run, that other programs check value by value, or that only tests use.
LEFT_OUT = {"fluid", "lib", "outcome", "tests", "topology"}
#: Possible results of a mutant, in the order of the table.
OUTCOMES = ("caught", "timeout", "missed", "unviable", "skipped")
#: A test is stopped after this many times its time without a mutant, but not before `LEAST_PATIENCE_S`.
PATIENCE = 5
LEAST_PATIENCE_S = 10.0
#: Limit of the address space of a test in KiB, because a mutant can allocate unlimited memory.
MEMORY_KIB = 4 << 20
OUT = ROOT / "target" / "mutants"
#: The copy of the sources that is changed.
TREE = OUT / "tree"
CARGO = [str(ROOT / "tools" / "with-rust"), "cargo"]
PACKAGES = [word for name in CRATES for word in ("-p", name)]
CHECK = [*CARGO, "check", *PACKAGES, "--lib", "--message-format", "json"]
BUILD = [*CARGO, "test", *PACKAGES, "--lib", "--tests", "--no-run", "--message-format", "json"]
#: Environment variables that make tests repeatable.
FIXED = {"RUST_BACKTRACE": "0", "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "1", "PROPTEST_RNG_SEED": "1"}


def copy_sources() -> None:
    """Update the copy. Unchanged files keep their modification times, so that cargo does not rebuild them."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    wanted = {name for name in names.split("\0") if name and (ROOT / name).is_file()}
    for path in [path for path in TREE.rglob("*") if path.is_file() or path.is_symlink()]:
        if str(path.relative_to(TREE)) not in wanted:
            path.unlink()
    for name in wanted:
        source, copy = ROOT / name, TREE / name
        if not copy.is_file() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)


def write(path: Path, text: str) -> None:
    """Write a file unless it already has this content."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def listed() -> list[dict[str, Any]]:
    """Return all mutants except those of fields. Exits if cargo-mutants is missing or fails."""
    command = [*CARGO, "mutants", "--dir", str(TREE), "--list", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{done.stderr}cargo-mutants is needed: cargo install --locked cargo-mutants", file=sys.stderr)
        sys.exit(2)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    # cargo-mutants gives no exact position of a field.
    return [one for one in found if one["genre"] != "StructField"]


def module_of(mutant: dict[str, Any], modules: tuple[str, ...]) -> str | None:
    """Return the module that contains a mutant; None if it is in none of the modules."""
    path = PurePosixPath(mutant["file"])
    source = next((folder for folder in MODEL if folder in path.parents), None)
    if source is None:
        return None
    inside = str(path.relative_to(source))
    return next(
        (one for one in modules if inside == one or inside.startswith((f"{one}/", f"{one}.rs"))), None
    )


def sample(mutants: list[dict[str, Any]], seed: int, count: int) -> list[dict[str, Any]]:
    """Return a random sample of mutants, sorted by name.

    Mutants are drawn in the order of a hash of the seed and the mutant's name without its position. Changes
    of other functions therefore do not change this order.
    """
    alike: Counter[str] = Counter()
    ranked = []
    for mutant in mutants:
        name = re.sub(r"^([^:]*):\d+:\d+", r"\1", mutant["name"])
        alike[name] += 1
        rank = hashlib.sha256(f"{seed} {alike[name]} {name}".encode()).digest()
        ranked.append((rank, mutant))
    drawn = [mutant for _, mutant in sorted(ranked, key=lambda one: one[0])[:count]]
    return sorted(drawn, key=lambda one: str(one["name"]))


def build(command: list[str], log: TextIO) -> tuple[dict[str, Path], list[tuple[str, int, str]]]:
    """Build or check the copy.

    Return the programs with the folders of their crates, or the file, line and message of each error. Exits
    if the build fails without such an error.
    """
    env = {**os.environ, "CARGO_TARGET_DIR": str(OUT / "build")}
    done = subprocess.run(command, cwd=TREE, env=env, stdout=subprocess.PIPE, stderr=log, check=False)
    programs: dict[str, Path] = {}
    errors = []
    for line in done.stdout.decode().splitlines():
        message = json.loads(line) if line.startswith("{") else {}
        if message.get("reason") == "compiler-artifact" and message.get("executable"):
            programs[message["executable"]] = Path(message["manifest_path"]).parent
        elif message.get("reason") == "compiler-message" and message["message"]["level"] == "error":
            log.write(message["message"]["rendered"])
            errors += [(*place, message["message"]["message"]) for place in places(message["message"])]
    log.flush()
    if done.returncode == 0:
        return programs, []
    if not errors:
        sys.exit(f"the sources do not build: see {log.name}")
    return {}, errors


def places(message: dict[str, Any]) -> set[tuple[str, int]]:
    """Return the files and lines that an error points to. If it is inside a macro, the call counts."""
    found = set()
    for span in message["spans"]:
        if span["is_primary"]:
            while span["expansion"]:
                span = span["expansion"]["span"]  # noqa: PLW2901
            found.add((span["file_name"], span["line_start"]))
    return found


def build_with(mutants: dict[int, dict[str, Any]], log: TextIO) -> tuple[dict[str, Path], set[int]]:
    """Build the copy with all mutants that compile. Return the test programs and these mutants.

    Exits if no mutant explains an error.
    """
    roots = {str(folder / "lib.rs") for folder in MODEL}
    names = {*roots, *(mutant["file"] for mutant in mutants.values())}
    sources = {name: (TREE / name).read_text(encoding="utf-8") for name in names}
    kept = set(mutants)
    # Repeat this, because the compiler reports errors of types, of borrowing and of constants separately.
    while True:
        lines: dict[tuple[str, int], int] = {}
        for name, text in sources.items():
            here = {number: mutants[number] for number in sorted(kept) if mutants[number]["file"] == name}
            changed, added = switched(text, here)
            write(TREE / name, changed + (switch(max(mutants, default=0)) if name in roots else ""))
            lines.update({(name, line): number for line, number in added.items()})
        _, errors = build(CHECK, log)
        if not errors:
            programs, errors = build(BUILD, log)
        if not errors:
            return programs, kept
        unviable = {lines[file, line] for file, line, _ in errors if (file, line) in lines}
        if not unviable:
            file, line, message = errors[0]
            sys.exit(f"{file}:{line}: {message}, which no mutant explains: see {log.name}")
        kept -= unviable
        print(f"{len(unviable)} mutants do not compile", flush=True)


@dataclass(frozen=True)
class Test:
    """A test, with its time without a mutant and the mutants whose functions it reaches."""

    program: str
    #: The folder of the test's crate, in which the test runs.
    folder: Path
    name: str
    seconds: float
    reaches: frozenset[int]

    @property
    def patience_s(self) -> float:
        """The time after which the test is stopped."""
        return max(LEAST_PATIENCE_S, PATIENCE * self.seconds)


def passes(
    program: str, folder: Path, name: str, env: dict[str, str], patience_s: float | None
) -> tuple[bool | None, str]:
    """Run a test in the folder of its crate.

    Return whether it passed, or `None` if it exceeded its time limit, and its output.
    """
    command = ["sh", "-c", f'ulimit -v {MEMORY_KIB}; exec "$0" --exact "$1" --test-threads 1', program, name]
    process = subprocess.Popen(
        command, cwd=folder, env={**os.environ, **FIXED, **env}, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=patience_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return None, output
    return process.returncode == 0, output


def measured(program: str, folder: Path, name: str, logs: str) -> Test | None:
    """Run a test without a mutant; return `None` if it fails, because it then cannot detect mutants."""
    reached = Path(logs) / f"{Path(program).name}-{name.replace('::', '-')}"
    began = time.monotonic()
    passed, output = passes(program, folder, name, {REACHED: str(reached)}, None)
    if not passed or "1 passed" not in output:
        print(f"{name} fails without a mutant and is left out:\n{output}", flush=True)
        return None
    numbers = reached.read_text(encoding="utf-8").split() if reached.is_file() else []
    return Test(program, folder, name, time.monotonic() - began, frozenset(map(int, numbers)))


def tests_of(programs: dict[str, Path], pool: ThreadPoolExecutor) -> list[Test]:
    """Run all tests without a mutant, and return those that pass, the shortest first."""
    names = []
    for program, folder in sorted(programs.items()):
        command = [program, "--list", "--format", "terse"]
        lines = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout
        names += [
            (program, folder, line.removesuffix(": test"))
            for line in lines.splitlines()
            if line.endswith(": test")
        ]
    with tempfile.TemporaryDirectory() as logs:
        tests = list(pool.map(lambda one: measured(*one, logs), names))
    return sorted((test for test in tests if test), key=lambda test: test.seconds)


def outcome(number: int, tests: list[Test]) -> tuple[str, str]:
    """Run a mutant; return its result, and the output of the test that failed or a note."""
    for test in tests:
        passed, output = passes(
            test.program, test.folder, test.name, {VARIABLE: str(number)}, test.patience_s
        )
        if not passed:
            return "timeout" if passed is None else "caught", output
    return "missed", f"{len(tests)} tests reach its function\n"


def run(drawn: list[dict[str, Any]], jobs: int) -> list[tuple[dict[str, Any], str]]:
    """Run all mutants; return each with its result."""
    results: dict[int, str] = {}
    mutants = dict(enumerate(drawn, start=1))
    for number, mutant in mutants.items():
        if body((TREE / mutant["file"]).read_text(encoding="utf-8"), mutant) is None:
            results[number] = "skipped"
    with (OUT / "log").open("w", encoding="utf-8") as log, ThreadPoolExecutor(jobs) as pool:
        began = time.monotonic()
        programs, kept = build_with({n: m for n, m in mutants.items() if n not in results}, log)
        results.update({number: "unviable" for number in mutants if number not in kept | results.keys()})
        print(f"{len(kept)} mutants in one build: {time.monotonic() - began:.0f} s", flush=True)
        began = time.monotonic()
        tests = tests_of(programs, pool)
        print(f"{len(tests)} tests without a mutant: {time.monotonic() - began:.0f} s", flush=True)

        def one(number: int) -> None:
            began, name = time.monotonic(), mutants[number]["name"]
            result, output = outcome(number, [test for test in tests if number in test.reaches])
            results[number] = result
            log.write(f"=== {result}: {name}\n{output}")
            print(f"{result:<9} {time.monotonic() - began:5.0f} s  {name}", flush=True)

        list(pool.map(one, sorted(kept)))
    return [(mutant, results[number]) for number, mutant in mutants.items()]


def report(results: list[tuple[dict[str, Any], str]], modules: tuple[str, ...]) -> None:
    """Print a row per module, and the mutants that no test caught."""
    counts: dict[str, Counter[str]] = {}
    for mutant, result in results:
        counts.setdefault(module_of(mutant, modules) or mutant["file"], Counter())[result] += 1
    print(f"\n{'module':<20}" + "".join(f"{name:>10}" for name in OUTCOMES))
    for module, row in sorted(counts.items()):
        print(f"{module:<20}" + "".join(f"{row[name]:>10}" for name in OUTCOMES))
    whole = sum(counts.values(), Counter[str]())
    noticed = whole["caught"] + whole["timeout"]
    viable = noticed + whole["missed"]
    print(f"{'all':<20}" + "".join(f"{whole[name]:>10}" for name in OUTCOMES))
    print(f"caught: {noticed} of {viable} ({100 * noticed / max(viable, 1):.0f} %); missed:")
    print("\n".join(f"  {mutant['name']}" for mutant, result in results if result == "missed"))


def main() -> int:
    """Sample mutants, run them and report; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, nargs="+", default=[1], help="one sample per seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true", help="only print the sample")
    parser.add_argument("modules", nargs="*", metavar="MODULE")
    given = parser.parse_args()
    every = sorted({path.stem for folder in MODEL for path in (ROOT / folder).iterdir()} - LEFT_OUT)
    modules = tuple(given.modules or every)
    copy_sources()
    mutants = [one for one in listed() if module_of(one, modules)]
    if not mutants:
        print(f"no mutants in {', '.join(modules)}", file=sys.stderr)
        return 2
    samples = {seed: sample(mutants, seed, given.count) for seed in given.seed}
    together = {one["name"]: one for drawn in samples.values() for one in drawn}
    drawn = [one for _, one in sorted(together.items())]
    seeds = ", ".join(map(str, samples))
    print(f"{len(drawn)} of {len(mutants)} mutants in {', '.join(modules)}, seed {seeds}", flush=True)
    if given.list:
        print("\n".join(one["name"] for one in drawn))
        return 0
    results = {mutant["name"]: result for mutant, result in run(drawn, given.jobs)}
    for seed, own in samples.items():
        print(f"\nseed {seed}")
        report([(mutant, results[mutant["name"]]) for mutant in own], modules)
    return 0


if __name__ == "__main__":
    sys.exit(main())
