"""Runs the tests of the model on a random sample of mutants, and reports the mutants that no test caught.

    python3 tools/mutants.py [--count N] [--seed S] [MODULE...]

A mutant is a copy of the sources with one changed expression or function. Modules are folders or files of
`crates/silvan-fabric/src`, such as `host` or `partition/lookahead.rs`. The default is all modules that
compute results. The same seed selects the same mutants from the same sources. cargo-mutants (`cargo install
--locked cargo-mutants`) lists the mutants; `.cargo/mutants.toml` excludes some. The output of the tests is
in `target/mutants/log`.

Exit status: 0 if all mutants were run, 2 if there are none.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Any, TextIO

ROOT = Path(__file__).resolve().parents[1]
MODEL = PurePosixPath("crates/silvan-fabric/src")
#: Modules that only describe a run, or whose values other programs check one by one.
LEFT_OUT = {"fluid", "lib", "outcome", "topology"}
#: Possible results of a mutant, in the order of the table.
OUTCOMES = ("caught", "timeout", "missed", "unviable")
#: A test program that takes longer than this many times its time without a mutant is stopped.
PATIENCE = 5
LEAST_PATIENCE_S = 30.0
OUT = ROOT / "target" / "mutants"
#: The copy of the sources that is changed.
TREE = OUT / "tree"
CARGO = [str(ROOT / "tools" / "with-rust"), "cargo"]
TEST = [*CARGO, "test", "--quiet", "--profile", "mutants", "-p", "silvan-fabric"]
#: Test programs in the order in which they are built and run. If the first one catches a mutant, the second
#: one is not run.
PROGRAMS = (["--lib"], ["--test", "all"])


def copy_sources() -> None:
    """Update the copy. Unchanged files keep their modification times."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    wanted = {name for name in names.split("\0") if name and (ROOT / name).is_file()}
    for path in [path for path in TREE.rglob("*") if path.is_file() or path.is_symlink()]:
        if str(path.relative_to(TREE)) not in wanted and path.name != "all.rs":
            path.unlink()
    for name in wanted:
        source, copy = ROOT / name, TREE / name
        if name == "crates/silvan-fabric/Cargo.toml":
            continue
        if not copy.is_file() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)


def merge_tests() -> None:
    """Combine the integration tests of the copy in one program, because linking each one is slow."""
    tests = TREE / "crates" / "silvan-fabric" / "tests"
    names = sorted(path.stem for path in tests.glob("*.rs") if path.stem != "all")
    modules = "".join(f'#[path = "{name}.rs"]\nmod {name};\n' for name in names)
    write(tests / "all.rs", f"#![allow(missing_docs)]\n{modules}")
    manifest = (ROOT / "crates" / "silvan-fabric" / "Cargo.toml").read_text(encoding="utf-8")
    merged = manifest.replace("[package]", "[package]\nautotests = false", 1)
    write(tests.parent / "Cargo.toml", f'{merged}\n[[test]]\nname = "all"\n')


def write(path: Path, text: str) -> None:
    """Write a file if its content changes."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def listed() -> list[dict[str, Any]]:
    """Return all mutants. Raises `SystemExit` if cargo-mutants is missing."""
    command = [*CARGO, "mutants", "--dir", str(TREE), "--list", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{done.stderr}cargo-mutants is needed: cargo install --locked cargo-mutants", file=sys.stderr)
        sys.exit(2)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    # cargo-mutants gives no exact position of a field.
    return [one for one in found if one["genre"] != "StructField"]


def module_of(mutant: dict[str, Any], modules: tuple[str, ...]) -> str | None:
    """Return the module that contains a mutant."""
    path = PurePosixPath(mutant["file"])
    if MODEL not in path.parents:
        return None
    inside = str(path.relative_to(MODEL))
    return next(
        (one for one in modules if inside == one or inside.startswith((f"{one}/", f"{one}.rs"))), None
    )


def mutated(text: str, mutant: dict[str, Any]) -> str:
    """Return the text of a file with the mutant applied."""
    lines = text.splitlines(keepends=True)

    def offset(place: dict[str, int]) -> int:
        return sum(map(len, lines[: place["line"] - 1])) + place["column"] - 1

    start, end = (offset(mutant["span"][name]) for name in ("start", "end"))
    return f"{text[:start]}{mutant['replacement']} /* mutant */ {text[end:]}"


def passes(program: list[str], log: TextIO, patience_s: float | None) -> bool | None:
    """Run a test program; return whether it passed, or `None` if it exceeded its time limit."""
    # All mutants share a build folder, so dependencies are compiled once.
    env = {**os.environ, "CARGO_TARGET_DIR": str(OUT / "build"), "RUST_BACKTRACE": "0"}
    process = subprocess.Popen(
        [*TEST, *program], cwd=TREE, env=env, stdout=log, stderr=log, start_new_session=True
    )
    try:
        return process.wait(patience_s) == 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def outcome(log: TextIO, patience_s: list[float]) -> str:
    """Run the tests on the present state of the copy; return the result."""
    for program, seconds in zip(PROGRAMS, patience_s, strict=True):
        if not passes([*program, "--no-run"], log, None):
            return "unviable"
        passed = passes(program, log, seconds)
        if passed is None:
            return "timeout"
        if not passed:
            return "caught"
    return "missed"


def run(drawn: list[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
    """Run mutants one after the other; return each with its result."""
    with (OUT / "log").open("w", encoding="utf-8") as log:
        patience_s = []
        for program in PROGRAMS:
            if not passes([*program, "--no-run"], log, None):
                sys.exit(f"the sources do not build: see {log.name}")
            began = time.monotonic()
            if not passes(program, log, None):
                sys.exit(f"tests fail without a mutant: see {log.name}")
            patience_s.append(max(LEAST_PATIENCE_S, PATIENCE * (time.monotonic() - began)))
        results = []
        for mutant in drawn:
            print(f"=== {mutant['name']}", file=log, flush=True)
            file = TREE / mutant["file"]
            text = file.read_text(encoding="utf-8")
            began = time.monotonic()
            try:
                file.write_text(mutated(text, mutant), encoding="utf-8")
                result = outcome(log, patience_s)
            finally:
                file.write_text(text, encoding="utf-8")
            results.append((mutant, result))
            print(f"{result:<9} {time.monotonic() - began:5.0f} s  {mutant['name']}", flush=True)
    return results


def report(results: list[tuple[dict[str, Any], str]], modules: tuple[str, ...]) -> None:
    """Print a row per module, and the mutants that no test caught."""
    counts: dict[str, Counter[str]] = {}
    for mutant, result in results:
        counts.setdefault(module_of(mutant, modules) or mutant["file"], Counter())[result] += 1
    print(f"\n{'module':<20}" + "".join(f"{name:>10}" for name in OUTCOMES))
    for module, row in sorted(counts.items()):
        print(f"{module:<20}" + "".join(f"{row[name]:>10}" for name in OUTCOMES))
    whole = sum(counts.values(), Counter[str]())
    noticed, viable = whole["caught"] + whole["timeout"], whole.total() - whole["unviable"]
    print(f"{'all':<20}" + "".join(f"{whole[name]:>10}" for name in OUTCOMES))
    print(f"caught: {noticed} of {viable} ({100 * noticed / max(viable, 1):.0f} %); missed:")
    print("\n".join(f"  {mutant['name']}" for mutant, result in results if result == "missed"))


def main() -> int:
    """Sample mutants, run them and report; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="only print the sample")
    parser.add_argument("modules", nargs="*", metavar="MODULE")
    given = parser.parse_args()
    every = sorted({path.stem for path in (ROOT / MODEL).iterdir()} - LEFT_OUT)
    modules = tuple(given.modules or every)
    copy_sources()
    merge_tests()
    mutants = [one for one in listed() if module_of(one, modules)]
    if not mutants:
        print(f"no mutants in {', '.join(modules)}", file=sys.stderr)
        return 2
    drawn = random.Random(given.seed).sample(mutants, min(given.count, len(mutants)))
    drawn.sort(key=lambda one: one["name"])
    print(f"{len(drawn)} of {len(mutants)} mutants in {', '.join(modules)}, seed {given.seed}", flush=True)
    if given.list:
        print("\n".join(one["name"] for one in drawn))
        return 0
    report(run(drawn), modules)
    return 0


if __name__ == "__main__":
    sys.exit(main())
