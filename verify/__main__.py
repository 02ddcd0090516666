"""Run all oracles: ``python -m verify [--quick] [--drawn N] [--first SEED | --fresh]``.

The exit status is 1 if an oracle disagrees, or if the reference model does not cover a listed scenario.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections.abc import Callable, Iterator

from verify import (
    cases,
    compare,
    drawing,
    ecmp_drawing,
    event_drawing,
    laws,
    lid_drawing,
    link_drawing,
    pause_drawing,
    ports_drawing,
    rdma_drawing,
    source_drawing,
    trimming_drawing,
)

Scenarios = Callable[[int, int], Iterator[tuple[str, compare.Scenario]]]
#: Random scenarios: their additional feature, the function that generates them, and the number by which the
#: requested count is divided.
DRAWN: tuple[tuple[str, Scenarios, int], ...] = (
    ("", drawing.many, 1),
    ("with mechanisms of RDMA over Ethernet", rdma_drawing.many, 1),
    ("with hashed packets", ecmp_drawing.many, 1),
    ("with errors of links and other rules of credits", link_drawing.many, 1),
    ("with pause frames and shared buffers", pause_drawing.many, 1),
    ("with packet trimming", trimming_drawing.many, 1),
    ("on a fabric with several LIDs per host", lid_drawing.many, 5),
    ("with messages that have flows of their own", source_drawing.many, 5),
    ("with links and hosts that change", event_drawing.many, 1),
    ("with several ports per host", ports_drawing.many, 1),
)


def report(scenarios: Scenarios, first: int, count: int) -> list[str]:
    """Compare `count` random scenarios, print those that differ, and return a sentence for each of these."""
    found = compare.compare(scenarios(first, count), show=False)
    print("".join(f"  {line}\n" for line in found.wrong), end="")
    compared = count - len(found.refused)
    same = compared - len(found.wrong)
    print(f"  {same} of {compared} are the same, {len(found.refused)} are not compared")
    return found.wrong


def main() -> int:
    """Run the oracles, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m verify", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a subset that takes seconds")
    parser.add_argument("--drawn", type=int, metavar="N", help="scenarios drawn at random (500; quick: 40)")
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument("--first", type=int, default=1, metavar="SEED", help="seed of the first of them (1)")
    seeds.add_argument("--fresh", action="store_true", help="select the first seed at random, and print it")
    given = parser.parse_args()
    if given.fresh:
        given.first = secrets.randbelow(10**9)
    count = given.drawn if given.drawn is not None else (40 if given.quick else 500)
    began = time.perf_counter()
    print("The simulator against the reference model, exactly:")
    table = compare.compare(cases.table())
    print("".join(f"  not covered: {line}\n" for line in table.refused), end="")
    print(f"Scenarios drawn from the seeds {given.first} to {given.first + count - 1}:")
    drawn_wrong: list[str] = []
    for title, scenarios, share in DRAWN:
        if title:
            print(f"The same {title}:")
        drawn_wrong += report(scenarios, given.first, max(1, count // share))
    print("The simulator against closed forms:")
    wrong = table.wrong + drawn_wrong + laws.report(quick=given.quick)
    print(
        f"{len(wrong)} disagreements, {len(table.refused)} listed scenarios not covered, "
        f"{time.perf_counter() - began:.0f} s"
    )
    return 1 if wrong or table.refused else 0


if __name__ == "__main__":
    sys.exit(main())
