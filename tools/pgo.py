"""Makes a profile of the model for a profile-guided build.

    python tools/pgo.py target/pgo/silvan.profdata

`make setup PGO=1` and `make wheel-manylinux` run this program, and then build the extension module with the
profile. The program builds the benchmark with counters, runs a short interval of each training case, and
merges the counts. The profile depends on the sources and on the version of the compiler, so it is not kept
between builds.

The merge needs `llvm-profdata` of the compiler's LLVM version. The program adds rustup's component
`llvm-tools` if it is missing.

Exit status: 0 if the profile has been written, 2 if it cannot be made.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUST = (ROOT / "tools/with-rust",)
#: Cases of `benches/bench.rs`: one for each kernel, and one for each common kind of congestion control.
TRAINING = (
    "uniform_648",
    "hotspot_648_cc",
    "forest_648_cc",
    "forest_648_cc_sampled",
    "trees_1024_ib_cc",
    "trees_1024_fbicm",
    "trees_1024_ccfit",
    "trees_1024_hfdi",
    "trees_1024_ecocc",
    "trees_1024_voqnet",
    "cioq_512_mvcm",
    "fcfs_512_routes",
    "dcqcn_648",
    "hpcc_648",
    "nscc_1024",
)


class CannotProfileError(Exception):
    """There is no profile. The message states the reason."""


def run(command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> str:
    """Run a command and return its output; raise :class:`CannotProfileError` if it fails."""
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise CannotProfileError(f"{Path(command[0]).name} {' '.join(map(str, command[1:4]))}: {last}")
    return done.stdout


def host_target() -> str:
    """Return the name of this machine's platform in the notation of the compiler."""
    lines = run([*RUST, "rustc", "-vV"]).splitlines()
    return next(line.removeprefix("host: ") for line in lines if line.startswith("host: "))


def merge_tool(host: str) -> Path:
    """Return the program that merges profiles; add rustup's component with the program if it is missing.

    Raises :class:`CannotProfileError` if the program is missing and cannot be added.
    """
    sysroot = Path(run([*RUST, "rustc", "--print", "sysroot"]).strip())
    tool = sysroot / "lib/rustlib" / host / "bin/llvm-profdata"
    if not tool.exists():
        try:
            run([*RUST, "rustup", "component", "add", "llvm-tools"])
        except CannotProfileError as error:
            raise CannotProfileError(
                f"{tool} does not exist; add it with `rustup component add llvm-tools` ({error})"
            ) from None
    return tool


def make_profile(target: Path) -> None:
    """Write the profile to the file `target`; raises :class:`CannotProfileError`."""
    host = host_target()
    tool = merge_tool(host)
    build = target.parent / "training"
    counts = target.parent / "counts"
    shutil.rmtree(counts, ignore_errors=True)
    print("Building the benchmark with counters (minutes) ...", flush=True)
    run(
        [
            *(*RUST, "cargo", "build", "--release", "--quiet", "--locked", "--target", host),
            *("-p", "silvan-scenario", "--example", "bench", "--target-dir", build),
        ],
        # With `--target`, the flags do not apply to programs that only run while compiling.
        env={"RUSTFLAGS": f"-Cprofile-generate={counts}"},
    )
    bench = build / host / "release/examples/bench"
    for case in TRAINING:
        print(f"Training with {case} ...", flush=True)
        run([bench, "--counted", case])
    run([tool, "merge", "-o", target, counts])


def main(words: Sequence[str] | None = None) -> int:
    """Make the profile; return the exit status."""
    parser = argparse.ArgumentParser(prog="pgo.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("target", type=Path, help="the profile to write")
    target = parser.parse_args(words).target.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        make_profile(target)
    except CannotProfileError as error:
        print(f"pgo: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
