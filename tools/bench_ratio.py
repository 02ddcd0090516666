"""Compares the speed of this build with that of another commit, by interleaved rounds.

    python tools/bench_ratio.py COMMIT [CASE...] [--rounds 5] [--json bench.json]

`make bench AGAINST=COMMIT` runs this program. Both builds run the scenario files of this checkout in
alternating order (here, there, there, here, and so on), so that a drift of the machine affects both. Features
that the other build lacks are switched off in this build (`equal_work.py`).

The speed is the number of packet-hops per second of CPU time, which depends less on other programs than wall
time. The work and the time of a run of two simulated microseconds, mainly the setup, are subtracted. For a
case with several threads, wall time is used instead, and the other build runs with one thread, because it may
not support several.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equal_work import CannotRunError, Case, Work, equal_work
from other_build import ROOT, CannotCompareError, OtherBuild, build

#: Overrides for a run that is long enough to be valid, but has almost no events.
SET_UP_ONLY = ("duration=2 us", "warmup=0 s", "measure.interval=2 us")
ROW = "{:<24} {:>6} {:>15} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}"


@dataclass(frozen=True)
class Run:
    """The work of a process."""

    hops: int
    events: int
    #: CPU time, or wall time of a case with several threads.
    seconds: float

    def without(self, set_up: Run) -> Run:
        """Return the work without that of another run, which only sets up."""
        seconds = max(self.seconds - set_up.seconds, 1e-9)
        return Run(self.hops - set_up.hops, self.events - set_up.events, seconds)

    @property
    def hops_per_s(self) -> float:
        """Packet-hops per second."""
        return self.hops / self.seconds


#: Runs a case with further overrides, and measures wall time if the last argument is true, or else CPU time.
Runner = Callable[[Case, Sequence[str], bool], Run]


@dataclass(frozen=True)
class Comparison:
    """Pairs of a run of this build and a run of the other build."""

    pairs: Sequence[tuple[Run, Run]]
    #: Work of both builds.
    work: Work

    @property
    def ratios(self) -> list[float]:
        """The speed of this build relative to the other build, for each pair."""
        return [here.hops_per_s / there.hops_per_s for here, there in self.pairs]

    @property
    def ratio(self) -> float:
        """The median of the ratios."""
        return statistics.median(self.ratios)

    @property
    def same_traffic(self) -> bool:
        """Whether the runs of each pair have equal numbers of packet-hops."""
        return all(here.hops == there.hops for here, there in self.pairs)


def compare(work: Work, here: Runner, there: Runner, rounds: int) -> Comparison:
    """Run a case in both builds, in alternating order."""
    by_wall = work.here.has_threads
    base_here, base_there = here(work.here, SET_UP_ONLY, by_wall), there(work.there, SET_UP_ONLY, by_wall)
    pairs = []
    for is_swapped in turns(rounds):
        if is_swapped:
            other, own = there(work.there, (), by_wall), here(work.here, (), by_wall)
        else:
            own, other = here(work.here, (), by_wall), there(work.there, (), by_wall)
        pairs.append((own.without(base_here), other.without(base_there)))
    return Comparison(pairs, work)


def turns(rounds: int) -> Iterator[bool]:
    """Yield, for each round, whether the other build runs first: A B, B A, A B, ..."""
    return (number % 2 == 1 for number in range(rounds))


def runner(who: str, program: Path, knows_files: bool, scratch: Path) -> Runner:
    """Return a function that runs cases with the example `bench` of a build, named `who` in messages."""

    def run(case: Case, more: Sequence[str], by_wall: bool) -> Run:
        words = (*case.overrides, *more)
        if knows_files:
            return measured(who, [str(program), "--file", str(case.scenario), *words], ROOT, by_wall)
        # Replace the scenario of the case `trees_1024`. With an override, `bench` omits the reference loop.
        shutil.copy(case.scenario, scratch / "scenarios" / "trees-1024.toml")
        command = [str(program), "--one", "trees_1024", *words, f"name={case.name}"]
        return measured(who, command, scratch, by_wall)

    return run


def measured(who: str, command: Sequence[str], folder: Path, by_wall: bool) -> Run:
    """Run a process of `bench`; return its work, with its CPU time or the wall time of the run.

    Raises :class:`CannotRunError` if the process fails.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"]
        raise CannotRunError(f"{who}, {said[0]}")
    result = json.loads(done.stdout)
    cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Run(result["packet_hops"], result["events"], result["wall_s"] if by_wall else cpu_s)


def runner_of(other: OtherBuild, scratch: Path) -> Runner:
    """Return a function that runs this checkout's scenarios with another commit's build.

    Raises :class:`CannotCompareError` if the benchmark of the commit cannot run them.
    """
    source = other.tree / "benches" / "bench.rs"
    text = source.read_text() if source.exists() else ""
    knows_files = '"--file"' in text
    if not knows_files and '"trees_1024"' not in text:
        raise CannotCompareError(f"the benchmark of {other.title} cannot be given a scenario: it is too old")
    (scratch / "scenarios").mkdir()
    return runner("there", other.program, knows_files, scratch)


def cases(program: Path, wanted: Sequence[str]) -> list[Case]:
    """Return this build's cases, or those with the given names.

    Raises :class:`CannotCompareError` for an unknown name.
    """
    listed = json.loads(
        subprocess.run([program, "--cases"], capture_output=True, text=True, check=True).stdout
    )
    known = {
        one["name"]: Case(
            one["name"], ROOT / one["scenario"], tuple(f"{key}={value}" for key, value in one["overrides"])
        )
        for one in listed
    }
    if strange := [name for name in wanted if name not in known]:
        raise CannotCompareError(f"no case `{strange[0]}`; there are {', '.join(known)}")
    return [known[name] for name in wanted or known]


def head() -> str:
    """Return the head of the table."""
    top = ROW.format("", "ratio", "", "M hops/s", "", "M hops", "", "M events", "")
    return top + "\n" + ROW.format("case", "median", "least - most", *("here", "there") * 3)


def line(name: str, found: Comparison, mark: str = "") -> str:
    """Return a line of the table, followed by a mark; a star marks different numbers of hops."""
    here, there = zip(*found.pairs, strict=True)
    counts = [runs[0].hops for runs in (here, there)], [runs[0].events for runs in (here, there)]
    speeds = [statistics.median(run.hops_per_s for run in runs) for runs in (here, there)]
    shown = [f"{number / 1e6:.2f}" for number in (*speeds, *counts[0], *counts[1])]
    shown[3] += "" if found.same_traffic else "*"
    spread = f"{min(found.ratios):.2f} - {max(found.ratios):.2f}"
    return f"{ROW.format(name, f'{found.ratio:.2f}', spread, *shown)} {mark}".rstrip()


def note(file: Path, found: dict[str, Comparison], commit: str) -> None:
    """Add the ratios to the file with the output of `bench`."""
    results: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    for name, comparison in found.items():
        spread = [min(comparison.ratios), max(comparison.ratios)]
        entry = {"against": commit, "ratio": comparison.ratio, "ratio_spread": spread}
        if comparison.work.off:
            entry["switched_off"] = dict(comparison.work.off)
        one = results.setdefault(name, {})
        one.pop("switched_off", None)
        one.update(entry)
    file.write_text(json.dumps(results, indent=2) + "\n")


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="bench_ratio.py", description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="what to compare with")
    parser.add_argument("case", nargs="*", help="cases (all)")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs of each case (5)")
    parser.add_argument("--json", type=Path, help="file of `bench` to which the ratios are added")
    parser.add_argument("--bench", type=Path, default=ROOT / "target/release/examples/bench")
    options = parser.parse_args(words)
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: must be 1 or more")
    return options


def main() -> int:
    """Build the other commit, compare, and print a line per case; return the exit status."""
    options = arguments()
    try:
        chosen = cases(options.bench, options.case)
        other = build(options.commit, "bench")
        with tempfile.TemporaryDirectory() as scratch:
            here = runner("here", options.bench, True, Path(scratch))
            there = runner_of(other, Path(scratch))
            found = compare_all(chosen, here, there, options.rounds, other, Path(scratch) / "without")
    except CannotCompareError as error:
        print(f"bench_ratio: {error}", file=sys.stderr)
        return 2
    if options.json:
        note(options.json, found, other.commit)
        print(f"ratios added to {options.json}")
    return 0


def compare_all(
    chosen: Sequence[Case], here: Runner, there: Runner, rounds: int, other: OtherBuild, folder: Path
) -> dict[str, Comparison]:
    """Compare the cases, and print a line for each. Scenarios without some keys are written to `folder`."""
    print(f"Here: this checkout. There: {other.title}.")
    print(f"{rounds} pairs of runs, in turns; speeds per second of CPU time (of wall time for cases on")
    print("several threads, which the other build does with one), without setting up.")
    print(head(), flush=True)
    found = {}
    notes: list[str] = []
    for case in chosen:
        try:
            by_wall = case.has_threads
            work = equal_work(case, lambda one, wall=by_wall: there(one, SET_UP_ONLY, wall), folder)
            found[case.name] = compare(work, here, there, rounds)
        except CannotRunError as error:
            print(f"{case.name:<24} not compared: {error}", flush=True)
            continue
        if work.off and work.title not in notes:
            notes.append(work.title)
        mark = f"[{notes.index(work.title) + 1}]" if work.off else ""
        print(line(case.name, found[case.name], mark), flush=True)
    if not all(comparison.same_traffic for comparison in found.values()):
        print("* another number of hops: results differ between the builds")
    for number, what in enumerate(notes, start=1):
        print(f"[{number}] here with {what}: the other build knows no such key, and does just that")
    return found


if __name__ == "__main__":
    sys.exit(main())
