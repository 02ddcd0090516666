"""Selects random mutants of the model, runs the tests on each, and counts those that no test detected.

    python3 tools/mutants.py [--count N] [--seed S] [MODULE...]

A mutant is a copy of the sources with one expression or one function changed. Modules are folders or files
of `crates/silvan-fabric/src`, such as `host` or `core/partition.rs`; without any, those are taken in which an
error would change results unnoticed. The same seed draws the same mutants from the same sources. It needs
cargo-mutants (`cargo install --locked cargo-mutants`); its settings are in `.cargo/mutants.toml`, its logs in
`target/mutants`.

Exit status: 0 once all were run, whatever the tests noticed; 2 where there is nothing to run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
MODEL = PurePosixPath("crates/silvan-fabric/src")
MODULES = ("outputs", "host", "switch", "setup", "core", "link", "congestion", "queueing", "simulation")
#: What cargo-mutants says of a mutant, in the order of the table.
OUTCOMES = {"CaughtMutant": "caught", "Timeout": "timeout", "MissedMutant": "missed", "Unviable": "unviable"}
OUT = ROOT / "target" / "mutants"
#: A copy of the sources, which mutants are written into.
TREE = OUT / "tree"
CARGO = [str(ROOT / "tools" / "with-rust"), "cargo", "mutants", "--dir", str(TREE)]


def copy_sources() -> None:
    """Bring the copy up to date, and leave files without a change alone."""
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
            shutil.copy2(source, copy)


def listed() -> list[dict[str, str]]:
    """Return all mutants. Raises `SystemExit` where cargo-mutants is missing."""
    done = subprocess.run([*CARGO, "--list", "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{done.stderr}cargo-mutants is needed: cargo install --locked cargo-mutants", file=sys.stderr)
        sys.exit(2)
    found: list[dict[str, str]] = json.loads(done.stdout)
    return found


def module_of(mutant: dict[str, str], modules: tuple[str, ...]) -> str | None:
    """Return the module of the list that a mutant is in."""
    path = PurePosixPath(mutant["file"])
    if MODEL not in path.parents:
        return None
    inside = str(path.relative_to(MODEL))
    return next(
        (one for one in modules if inside == one or inside.startswith((f"{one}/", f"{one}.rs"))), None
    )


def run(names: list[str]) -> list[tuple[str, str, str]]:
    """Run mutants; return the name, the file and the outcome of each."""
    only = [word for name in names for word in ("--re", f"^{re.escape(name)}$")]
    # The build folder is kept, so that packages outside of the workspace are compiled once.
    env = {**os.environ, "CARGO_TARGET_DIR": str(OUT / "build"), "CARGO_INCREMENTAL": "1"}
    subprocess.run([*CARGO, "--output", str(OUT), "--in-place", "--no-shuffle", *only], env=env, check=False)
    told = json.loads((OUT / "mutants.out" / "outcomes.json").read_text())
    return [
        (one["scenario"]["Mutant"]["name"], one["scenario"]["Mutant"]["file"], one["summary"])
        for one in told["outcomes"]
        if isinstance(one["scenario"], dict)
    ]


def report(results: list[tuple[str, str, str]], modules: tuple[str, ...]) -> None:
    """Print a row per module, and the mutants that were missed."""
    counts: dict[str, Counter[str]] = {}
    for _, file, outcome in results:
        module = module_of({"file": file}, modules) or file
        counts.setdefault(module, Counter())[OUTCOMES.get(outcome, outcome)] += 1
    columns = [*OUTCOMES.values()]
    print(f"\n{'module':<20}" + "".join(f"{name:>10}" for name in columns))
    for module, row in sorted(counts.items()):
        print(f"{module:<20}" + "".join(f"{row[name]:>10}" for name in columns))
    whole = sum(counts.values(), Counter[str]())
    noticed, viable = whole["caught"] + whole["timeout"], whole.total() - whole["unviable"]
    print(f"{'all':<20}" + "".join(f"{whole[name]:>10}" for name in columns))
    print(f"noticed: {noticed} of {viable} ({100 * noticed / max(viable, 1):.0f} %); missed:")
    for name, _, outcome in results:
        if OUTCOMES.get(outcome) == "missed":
            print(f"  {name}")


def main() -> int:
    """Select, run and report mutants; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="only print what was drawn")
    parser.add_argument("modules", nargs="*", metavar="MODULE")
    given = parser.parse_args()
    modules = tuple(given.modules or MODULES)
    copy_sources()
    mutants = [one for one in listed() if module_of(one, modules)]
    if not mutants:
        print(f"no mutants in {', '.join(modules)}", file=sys.stderr)
        return 2
    drawn = random.Random(given.seed).sample(mutants, min(given.count, len(mutants)))
    drawn.sort(key=lambda one: one["name"])
    print(f"{len(drawn)} of {len(mutants)} mutants in {', '.join(modules)}, seed {given.seed}", flush=True)
    names = [one["name"] for one in drawn]
    if given.list:
        print("\n".join(names))
        return 0
    report(run(names), modules)
    return 0


if __name__ == "__main__":
    sys.exit(main())
