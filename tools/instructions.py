"""Counts the instructions of a packet hop, by function, and compares them with those on record.

    python tools/instructions.py [CASE...]              compare with benches/instructions.json
    python tools/instructions.py --update [CASE...]     write benches/instructions.json
    python tools/instructions.py --released VERSION     note the counts on record as those of a release
    python tools/instructions.py --caches --json bench.json [CASE...]

`make instructions` runs this program. Valgrind's tool Callgrind counts while the benchmark runs the second
of two equal intervals of a case (`--counted` in `benches/bench.rs`), so neither the setup nor the start of
the traffic counts. The counts are the same in each run, so they show changes that are much smaller than the
noise of times. They depend on the compiler and on the instruction sets of the processor, because the C
library chooses its functions by them. Counts are therefore compared only if the environments are equal.

The record also states mispredicted branches (of Callgrind's simulated predictor) and hot code: the size of
the 64-byte lines of code with 99 % of the executed instructions. Only instructions have a limit. The cases
do not sample congestion trees, because the sampler would hide changes of the model; only
`forest_648_cc_sampled` does, to measure the sampler.

With `--caches`, Callgrind also simulates caches. The results are only printed and added to the file
`--json`; they are not on record.

Many small increases may add up although each is within the limit. The record therefore also has the counts of
the last release, with a limit of their own. `--bench` counts with another build, such as that of a release.

Exit status: 0 if no case needs over 3 % more instructions than on record and over 5 % more than at the last
release (or if nothing can be compared), 1 if a case does, 2 if instructions cannot be counted.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "target/release/examples/bench"
RECORD = ROOT / "benches/instructions.json"
#: Short cases that are on record: one for each part of the model with separate code.
RECORDED = (
    "uniform_648",
    "hotspot_648_cc",
    "forest_648_cc",
    "forest_648_cc_sampled",
    "hotspot_648_dcqcn",
    "dcqcn_648",
    "hpcc_648",
    "nscc_1024",
    "testbed_cc",
    "trees_1024_ccfit",
    "trees_1024_ecocc",
    "cioq_512_mvcm",
    "fcfs_512_routes",
)
#: Larger relative increases are an error.
LIMIT = 0.03
#: Larger relative increases since the last release are an error, too, even if each step was below `LIMIT`.
LIMIT_SINCE_RELEASE = 0.05
#: Functions with fewer instructions per hop are recorded together.
LEAST = 1.0
#: Name of the other functions together.
OTHERS = "all others"
#: Size of a line of code in bytes.
CODE_LINE = 64
#: Share of the instructions that the hot code must contain.
HOT_SHARE = 0.99
#: Maximum number of functions that a comparison names for a case.
NAMED = 5
#: Instruction sets by which the C library chooses its functions.
SETS = ("avx2", "bmi2", "erms")
#: Callgrind's events of mispredicted branches.
MISPREDICTED = ("Bcm", "Bim")
#: Callgrind's events that are added for each name in `bench.json`.
EVENTS = {
    "instructions": ("Ir",),
    "branch_misses": MISPREDICTED,
    "l1_misses": ("I1mr", "D1mr", "D1mw"),
    "last_level_misses": ("ILmr", "DLmr", "DLmw"),
}


class CannotCountError(Exception):
    """The reason why instructions cannot be counted."""


@dataclass(frozen=True)
class Count:
    """Events of a case."""

    hops: int
    #: For each function, counters of Callgrind's events.
    functions: Mapping[str, Counter[str]]
    #: Instructions executed in each line of code, by object file and number of the line in it.
    code: Mapping[tuple[str, int], int]

    def per_hop(self, *events: str) -> float:
        """Return the number of events per packet hop."""
        return sum(found[event] for found in self.functions.values() for event in events) / self.hops

    def hot_code_kib(self) -> float:
        """Return the size of the smallest set of code lines that executes `HOT_SHARE` of the instructions."""
        left = HOT_SHARE * sum(self.code.values())
        lines = 0
        for executed in sorted(self.code.values(), reverse=True):
            if left <= 0:
                break
            left -= executed
            lines += 1
        return lines * CODE_LINE / 1024

    def instructions(self) -> dict[str, float]:
        """Return the instructions per hop of each function with at least `LEAST`, and of the others."""
        all_of_them = {name: found["Ir"] / self.hops for name, found in self.functions.items()}
        large = {name: count for name, count in all_of_them.items() if count >= LEAST}
        rest = sum(all_of_them.values()) - sum(large.values())
        ordered = sorted(large.items(), key=lambda item: -item[1])
        return {name: round(count, 2) for name, count in [*ordered, (OTHERS, rest)]}


@dataclass
class Profile:
    """Events of a profile in Callgrind's format."""

    #: For each function, counters of its events, without those of functions that it calls.
    functions: dict[str, Counter[str]]
    #: Instructions by line of code; empty if the profile has no addresses.
    code: Counter[tuple[str, int]]


class _Names:
    """Names in a profile: `fn=(3) name` defines an abbreviation that `fn=(3)` uses."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def resolve(self, word: str) -> str:
        """Return the name for the text after the equals sign."""
        number, _, name = word.partition(" ")
        return self._known.setdefault(number, name)


def read_profile(text: str) -> Profile:
    """Read a profile whose positions are not compressed."""
    head: dict[str, list[str]] = {"positions": ["line"]}
    functions, objects = _Names(), _Names()
    found: dict[str, Counter[str]] = {}
    code: Counter[tuple[str, int]] = Counter()
    here: Counter[str] = Counter()
    object_file = ""
    is_call = False
    for line in text.splitlines():
        kind, separator, rest = line.partition("=")
        if not separator and ": " in line:
            key, _, values = line.partition(": ")
            head[key] = values.split()
        elif kind in ("ob", "cob"):
            name = objects.resolve(rest)
            object_file = name if kind == "ob" else object_file
        elif kind in ("fn", "cfn"):
            name = plain(functions.resolve(rest))
            here = found.setdefault(name, Counter()) if kind == "fn" else here
        elif kind == "calls":
            # The next line has the events of the call, which are counted where they occur.
            is_call = True
        elif line and (line[0].isdigit() or line[0] in "+-*"):
            words = line.split()
            counts = dict(zip(head["events"], map(int, words[len(head["positions"]) :]), strict=False))
            if not is_call:
                here.update(counts)
                if head["positions"][0] == "instr":
                    code[object_file, int(words[0], 16) // CODE_LINE] += counts.get("Ir", 0)
            is_call = False
    return Profile({name: events for name, events in found.items() if events}, code)


def plain(name: str) -> str:
    """Return the name of a function without the parts that differ between builds and machines."""
    # The number of a recursive call, the hash of a symbol, and the processor in names of the C library.
    name = re.sub(r"'\d+$", "", name)
    name = re.sub(r"::h[0-9a-f]{16}$", "", name)
    return re.sub(r"_(avx|evex|avx512|sse\d*)[a-z0-9_]*$", "", name)


def count(case: str, bench: Path = BENCH, *, caches: bool = False) -> Count:
    """Count the events of a case; raises :class:`CannotCountError` if it fails or no packet moves."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "profile"
        more = ("--cache-sim=yes",) if caches else ()
        done = subprocess.run(
            [
                *("valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"),
                *("--branch-sim=yes", "--dump-instr=yes", "--compress-pos=no"),
                *("--toggle-collect=bench::counted*", *more, str(bench), "--counted", case),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise CannotCountError(f"{case}: {(done.stderr.strip().splitlines() or ['valgrind failed'])[-1]}")
        profile = read_profile(out.read_text())
    hops = json.loads(done.stdout)["packet_hops"]
    if not hops or not profile.functions:
        raise CannotCountError(f"{case}: no packet moved while instructions were counted")
    return Count(hops, profile.functions, profile.code)


def count_all(cases: Sequence[str], bench: Path, *, caches: bool, jobs: int) -> dict[str, Count]:
    """Count several cases, `jobs` of them at the same time."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        found = pool.map(lambda case: count(case, bench, caches=caches), cases)
        return dict(zip(cases, found, strict=True))


def environment() -> dict[str, str]:
    """Return the facts, in addition to the sources, on which instruction counts depend."""
    rustc = subprocess.run(
        [ROOT / "tools/with-rust", "rustc", "--version"], capture_output=True, text=True, check=False
    ).stdout.strip()
    flags = Path("/proc/cpuinfo").read_text().split() if Path("/proc/cpuinfo").exists() else []
    sets = " ".join(name for name in SETS if name in flags)
    libc = " ".join(platform.libc_ver())
    return {"rustc": rustc, "machine": platform.machine(), "instruction_sets": sets, "libc": libc}


def changes(before: Mapping[str, float], after: Mapping[str, float]) -> list[tuple[str, float, float]]:
    """Return the functions whose instructions per hop grew most, with the values before and after.

    At most `NAMED` functions are returned, without those that grew by less than half of `LEAST`.
    """
    names = {*before, *after}
    grown = [(name, before.get(name, 0.0), after.get(name, 0.0)) for name in names]
    grown = [one for one in grown if one[2] - one[1] >= LEAST / 2]
    return sorted(grown, key=lambda one: (one[1] - one[2], one[0]))[:NAMED]


def compare(
    record: Mapping[str, Any], found: Mapping[str, Count], released: Mapping[str, float] | None = None
) -> bool:
    """Print a line for each case, and the functions responsible for large increases.

    `released` has the instructions per hop of the last release. Return whether there is a large increase over
    the record or the release.
    """
    is_worse = False
    head = ("case", "on record", "now", "change", "released", "mispredicted", "hot KiB")
    print("{:<24} {:>10} {:>10} {:>8} {:>8} {:>13} {:>8}   instructions per hop".format(*head))
    for case, now in found.items():
        after = now.per_hop("Ir")
        since = after / released[case] - 1 if released and case in released else None
        is_worse |= since is not None and since > LIMIT_SINCE_RELEASE
        others = f"{'-' if since is None else f'{since:+.1%}':>8}"
        others += f" {now.per_hop(*MISPREDICTED):>13.2f} {now.hot_code_kib():>8.1f}"
        if case not in record:
            print(f"{case:<24} {'-':>10} {after:>10.1f} {'':>8} {others}")
            continue
        before = record[case]["instructions_per_hop"]
        change = after / before - 1
        print(f"{case:<24} {before:>10.1f} {after:>10.1f} {change:>+8.1%} {others}")
        if change > LIMIT:
            is_worse = True
            for name, old, new in changes(record[case]["functions"], now.instructions()):
                print(f"    {old:>8.1f} -> {new:>8.1f}  {name}")
    return is_worse


def recorded(found: Mapping[str, Count]) -> dict[str, Any]:
    """Return the entries of the record for some cases."""
    return {
        case: {
            "instructions_per_hop": round(one.per_hop("Ir"), 1),
            "mispredicted_per_hop": round(one.per_hop(*MISPREDICTED), 2),
            "hot_code_kib": round(one.hot_code_kib(), 1),
            "packet_hops": one.hops,
            "functions": one.instructions(),
        }
        for case, one in found.items()
    }


def show_events(found: Mapping[str, Count], file: Path | None) -> None:
    """Print the events per hop of each case, and add them to the results of the benchmark."""
    head = ("case", "instructions", "branch misses", "L1 misses", "LL misses")
    print("{:<24} {:>12} {:>14} {:>10} {:>10}   per hop".format(*head))
    results: dict[str, Any] = json.loads(file.read_text()) if file and file.exists() else {}
    for case, one in found.items():
        values = {name: one.per_hop(*events) for name, events in EVENTS.items()}
        print("{:<24} {:>12.0f} {:>14.2f} {:>10.2f} {:>10.3f}".format(case, *values.values()))
        results.setdefault(case, {})["per_hop"] = {name: round(value, 3) for name, value in values.items()}
    if file:
        file.write_text(json.dumps(results, indent=2) + "\n")


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="instructions.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("case", nargs="*", help="cases (those on record; with --caches all)")
    parser.add_argument("--update", action="store_true", help="write the record")
    parser.add_argument(
        "--released", metavar="VERSION", help="copy the counts on record to those of a release"
    )
    parser.add_argument("--caches", action="store_true", help="also simulate caches and branches")
    parser.add_argument("--json", type=Path, help="with --caches: results of `bench`, to be completed")
    parser.add_argument("--bench", type=Path, default=BENCH, help="the benchmark")
    parser.add_argument("--record", type=Path, default=RECORD, help="the record")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cases counted at once")
    options = parser.parse_args(words)
    if options.update and options.caches:
        parser.error("--caches counts nothing for the record; leave out --update")
    return options


def known_cases(bench: Path, wanted: Sequence[str]) -> list[str]:
    """Return the wanted cases that can be counted, or all such cases with one thread.

    Raises :class:`CannotCountError` for an unknown case.
    """
    listed = subprocess.run([bench, "--cases"], capture_output=True, text=True, check=True).stdout
    is_counted = {one["name"]: one["is_counted"] for one in json.loads(listed)}
    if strange := [name for name in wanted if name not in is_counted]:
        raise CannotCountError(f"no case `{strange[0]}`; there are {', '.join(is_counted)}")
    chosen = wanted or [name for name in is_counted if not name.endswith("_threads")]
    return [name for name in chosen if is_counted[name]]


def main(words: Sequence[str] | None = None) -> int:
    """Count, and print, compare or record the counts; return the exit status."""
    options = arguments(words)
    if not shutil.which("valgrind"):
        print("no instructions are counted: valgrind is not installed (Debian, Ubuntu: apt install valgrind)")
        return 0
    here = environment()
    record: dict[str, Any] = json.loads(options.record.read_text()) if options.record.exists() else {}
    if options.released:
        counts = {case: one["instructions_per_hop"] for case, one in record.get("cases", {}).items()}
        record["released"] = {"version": options.released, "instructions_per_hop": counts}
        options.record.write_text(json.dumps(record, indent=1) + "\n")
        return 0
    try:
        if options.caches:
            cases = known_cases(options.bench, options.case)
            show_events(count_all(cases, options.bench, caches=True, jobs=options.jobs), options.json)
            return 0
        there = record.get("environment", here)
        if there != here and not options.update:
            differing = [key for key in here if there.get(key) != here[key]]
            other = "; ".join(f"{key} {there.get(key)!r}, here {here[key]!r}" for key in differing)
            print(f"instructions are not compared: the record was made with {other}")
            return 0
        cases = known_cases(options.bench, options.case or RECORDED)
        found = count_all(cases, options.bench, caches=False, jobs=options.jobs)
    except CannotCountError as error:
        print(f"instructions: {error}", file=sys.stderr)
        return 2
    released = record.get("released", {}) if there == here else {}
    is_worse = compare(record.get("cases", {}), found, released.get("instructions_per_hop"))
    if options.update:
        kept = record.get("cases", {}) if there == here else {}
        new = {"environment": here, "released": released, "cases": {**kept, **recorded(found)}}
        options.record.write_text(json.dumps(new, indent=1) + "\n")
        print(f"written to {options.record}")
    elif is_worse:
        print(
            f"A case needs over {LIMIT:.0%} more instructions than on record (if intended: "
            f"make instructions UPDATE=1), or over {LIMIT_SINCE_RELEASE:.0%} more than at the last release."
        )
    return 1 if is_worse and not options.update else 0


if __name__ == "__main__":
    sys.exit(main())
