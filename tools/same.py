"""Looks for scenarios whose results differ between this build and that of another commit.

    python tools/same.py COMMIT [--first 1] [--count 2000] [--out out/same]

`make same AGAINST=COMMIT N=2000` runs this program. Both builds run the scenarios that the example `swarm`
draws from seeds, and print a fingerprint of each result. If two fingerprints differ, both builds run the
scenario that this build draws, from a file. Neither a scenario that the other build draws differently nor one
that it refuses therefore counts as a difference.

Exit status: 0 if no results differ, 1 if results differ, 2 if the builds cannot be compared.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from other_build import ROOT, CannotCompareError, build, last_lines

#: Number of seeds of a pair of processes. It is small, so that all cores are busy until the end.
CHUNK = 25
#: Number of differences that are listed with the lines of both builds.
LISTED = 10
SAME, DRAWN_OTHERWISE, REFUSED_THERE, DIFFERS = "same", "drawn otherwise", "refused there", "differs"
#: Separates the data that every build prints for a seed from its digests of the tables about trees.
TREES = " | trees "


@dataclass(frozen=True)
class Verdict:
    """The finding for a seed, with the lines of both builds."""

    seed: int
    kind: str
    here: str
    there: str


@dataclass(frozen=True)
class Swarm:
    """The example `swarm` of a build."""

    program: Path

    def fingerprints(self, first: int, count: int) -> dict[int, str]:
        """Return a line per seed. If a seed ends the process, its line states the exit status.

        Raises :class:`CannotCompareError` if the program has no fingerprints.
        """
        lines: dict[int, str] = {}
        seed = first
        while seed < first + count:
            done = self._ask("--fingerprints", str(seed), str(first + count - seed))
            if done.returncode == 2:
                raise CannotCompareError(f"{self.program} prints no fingerprints:\n{last_lines(done.stderr)}")
            for one, _, rest in (line.partition(" ") for line in done.stdout.splitlines()):
                lines[int(one)] = rest
            seed = first + len(lines)
            if seed < first + count:
                lines[seed] = f"the process ended with status {done.returncode}"
                seed += 1
        return lines

    def draw(self, seed: int, attempt: int) -> str:
        """Return the scenario of a seed as TOML."""
        return self._ask("--show", str(seed), str(attempt)).stdout

    def fingerprint_of(self, file: Path) -> str | None:
        """Return the line of a scenario file; None if the scenario is refused."""
        done = self._ask("--fingerprint-of", str(file))
        if done.returncode == 2:
            return None
        return done.stdout.strip() or f"the process ended with status {done.returncode}"

    def _ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.program), *words]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def compare(first: int, count: int, here: Swarm, there: Swarm, out: Path) -> Iterator[Verdict]:
    """Yield the verdicts about `count` seeds from `first`."""
    own, other = here.fingerprints(first, count), there.fingerprints(first, count)
    for seed, line in own.items():
        if are_same(line, other[seed]):
            yield Verdict(seed, SAME, line, other[seed])
        else:
            yield look_closer(Verdict(seed, DIFFERS, line, other[seed]), here, there, out)


def are_same(one: str, two: str) -> bool:
    """Return whether two lines are equal, except data about congestion trees that only one line contains."""
    if TREES in one and TREES in two:
        return one == two
    return one.partition(TREES)[0] == two.partition(TREES)[0]


def look_closer(found: Verdict, here: Swarm, there: Swarm, out: Path) -> Verdict:
    """Run the scenario that this build generates in both builds, and keep it if results differ."""
    attempt = found.here.partition(" ")[0]
    if not attempt.isdigit():
        return found
    file = out / f"{found.seed}.toml"
    file.write_text(here.draw(found.seed, int(attempt)))
    own, other = here.fingerprint_of(file), there.fingerprint_of(file)
    if other is None:
        kind = REFUSED_THERE
    else:
        kind = DRAWN_OTHERWISE if own is not None and are_same(own, other) else DIFFERS
    if kind != DIFFERS:
        file.unlink()
    return Verdict(found.seed, kind, own or "refused", other or "refused")


def report(verdicts: Sequence[Verdict], here: Swarm, there: Swarm, out: Path) -> bool:
    """Print the differences and the commands that repeat them; return whether there are none."""
    differing = [verdict for verdict in verdicts if verdict.kind == DIFFERS]
    for verdict in differing[:LISTED]:
        print(f"seed {verdict.seed}\n  here   {verdict.here}\n  there  {verdict.there}")
    if differing:
        seeds = " ".join(str(verdict.seed) for verdict in differing)
        print(f"results differ for {len(differing)} seeds: {seeds}")
        print(f"their scenarios, as this build draws them, are in {out}; one again, here and there:")
        for swarm in (here, there):
            print(f"  {swarm.program} --fingerprint-of {out}/{differing[0].seed}.toml")
    counts = Counter(verdict.kind for verdict in verdicts)
    if counts[DRAWN_OTHERWISE]:
        print(f"{counts[DRAWN_OTHERWISE]} seeds give other scenarios there; those of this build agree")
    if counts[REFUSED_THERE]:
        print(f"{counts[REFUSED_THERE]} seeds are not compared: there, the scenario of this build is refused")
    compared = len(verdicts) - counts[REFUSED_THERE]
    print(f"{compared} scenarios compared, {len(differing)} with other results")
    return not differing


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="same.py", description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="what to compare with")
    parser.add_argument("--first", type=int, default=1, help="first seed (1)")
    parser.add_argument("--count", type=int, default=2000, help="number of seeds (2000)")
    parser.add_argument("--out", type=Path, default=Path("out/same"), help="folder of scenarios that differ")
    parser.add_argument("--swarm", type=Path, default=Path("target/release/examples/swarm"))
    options = parser.parse_args(words)
    if options.first < 0 or options.count < 1:
        parser.error("--first must be 0 or more, --count 1 or more")
    return options


def main() -> int:
    """Build the other commit, compare, and print the differences; return the exit status."""
    options = arguments()
    try:
        other = build(options.commit, "swarm")
        here, there = Swarm(options.swarm), Swarm(other.program.relative_to(ROOT))
        print(f"Here: this checkout. There: {other.title}.", flush=True)
        options.out.mkdir(parents=True, exist_ok=True)
        last = options.first + options.count
        chunks = [(first, min(CHUNK, last - first)) for first in range(options.first, last, CHUNK)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = pool.map(lambda chunk: list(compare(*chunk, here, there, options.out)), chunks)
            verdicts = [verdict for some in found for verdict in some]
    except CannotCompareError as error:
        print(f"same: {error}", file=sys.stderr)
        return 2
    return 0 if report(verdicts, here, there, options.out) else 1


if __name__ == "__main__":
    sys.exit(main())
