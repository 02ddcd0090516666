"""All oracles: ``python -m verify [--quick] [--drawn N] [--first SEED]``; status 1 if one disagrees."""

from __future__ import annotations

import argparse
import sys
import time

from verify import (
    cases,
    compare,
    drawing,
    ecmp_drawing,
    laws,
    lid_drawing,
    link_drawing,
    rdma_drawing,
    trimming_drawing,
)


def main() -> int:
    """Run the oracles; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m verify", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a subset that takes seconds")
    parser.add_argument("--drawn", type=int, metavar="N", help="scenarios drawn at random (500; quick: 40)")
    parser.add_argument("--first", type=int, default=1, metavar="SEED", help="seed of the first of them (1)")
    given = parser.parse_args()
    count = given.drawn if given.drawn is not None else (40 if given.quick else 500)
    began = time.perf_counter()
    print("The simulator against the reference model, exactly:")
    table = compare.compare(cases.table())
    print(f"Scenarios drawn from the seeds {given.first} to {given.first + count - 1}:")
    drawn = compare.compare(drawing.many(given.first, count), show=False)
    print("".join(f"  {line}\n" for line in drawn.wrong), end="")
    compared = count - len(drawn.refused)
    print(
        f"  {compared - len(drawn.wrong)} of {compared} are the same, {len(drawn.refused)} are not compared"
    )
    print("The same with mechanisms of RDMA over Ethernet:")
    rdma = compare.compare(rdma_drawing.many(given.first, count), show=False)
    print("".join(f"  {line}\n" for line in rdma.wrong), end="")
    compared = count - len(rdma.refused)
    print(f"  {compared - len(rdma.wrong)} of {compared} are the same, {len(rdma.refused)} are not compared")
    print("The same with hashed packets:")
    ecmp = compare.compare(ecmp_drawing.many(given.first, count), show=False)
    print("".join(f"  {line}\n" for line in ecmp.wrong), end="")
    compared = count - len(ecmp.refused)
    print(f"  {compared - len(ecmp.wrong)} of {compared} are the same, {len(ecmp.refused)} are not compared")
    print("The same with errors of links and other rules of credits:")
    links = compare.compare(link_drawing.many(given.first, count), show=False)
    print("".join(f"  {line}\n" for line in links.wrong), end="")
    compared = count - len(links.refused)
    print(
        f"  {compared - len(links.wrong)} of {compared} are the same, {len(links.refused)} are not compared"
    )
    print("The same with packet trimming:")
    trimmed = compare.compare(trimming_drawing.many(given.first, count), show=False)
    print("".join(f"  {line}\n" for line in trimmed.wrong), end="")
    compared = count - len(trimmed.refused)
    same = compared - len(trimmed.wrong)
    print(f"  {same} of {compared} are the same, {len(trimmed.refused)} are not compared")
    print("The same on a fabric with several LIDs per host:")
    count = max(1, count // 5)
    lids = compare.compare(lid_drawing.many(given.first, count), show=False)
    print("".join(f"  {line}\n" for line in lids.wrong), end="")
    compared = count - len(lids.refused)
    print(f"  {compared - len(lids.wrong)} of {compared} are the same, {len(lids.refused)} are not compared")
    print("The simulator against closed forms:")
    drawn_wrong = drawn.wrong + rdma.wrong + ecmp.wrong + links.wrong + trimmed.wrong + lids.wrong
    wrong = table.wrong + table.refused + drawn_wrong + laws.report(quick=given.quick)
    print(f"{len(wrong)} disagreements, {time.perf_counter() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
