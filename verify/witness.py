"""Comparison with other simulators: ``python -m verify.witness [--quick] [--figure FILE]``.

BookSim 2 and CAMINOS ran the scenarios of this module. Their results are in ``witness.csv`` in this folder.
This program runs the same scenarios in Silvan and prints both. docs/verification.md states how parameters
correspond and what differs. The exit status is 1 if a number is out of tolerance.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from silvan import plot
from verify.check import run

ORIGIN = Path(__file__).with_name("witness.csv")

#: Rate of every link in Mbit/s, payload of every packet in bytes, and its transmission time in ns.
RATE, PACKET, PACKET_NS = 16_000, 2048, 1024.0
#: Tenths of a sender's packets that go to the hotspot. One tenth goes to each of the seven other hosts.
HOT = 3


@dataclass(frozen=True)
class Case:
    """A network and its traffic, and the required agreement with another simulator, the witness.

    Delays are those of the witness, in nanoseconds. Up to the load `stable`, the mean latencies may differ by
    the share `latency`. Above it, throughput may differ by the share `saturation`.
    """

    name: str
    title: str
    witness: str
    hosts: int
    architecture: str
    queues: str
    link_ns: int
    switch_ns: int
    duration_ms: int
    stable: float
    latency: float
    saturation: float


CASES = (
    Case("fifo", "one queue per input", "CAMINOS", 8, "iq", "single", 8, 0, 30, 0.55, 0.06, 0.01),
    Case("ports", "VOQ, a read port each", "CAMINOS", 8, "voq", "per-output", 8, 0, 30, 0.9, 0.06, 0.01),
    Case("voq", "VOQ and iSLIP", "BookSim", 8, "iq", "per-output", 16, 48, 30, 0.9, 0.06, 0.04),
    Case("hotspot", "VOQ, iSLIP, a hotspot", "BookSim", 8, "iq", "per-output", 16, 48, 30, 0.35, 0.06, 0.06),
    Case("tree", "4-ary 3-tree", "BookSim", 64, "iq", "per-output", 64, 192, 2, 0.8, 0.06, 0.02),
)


@dataclass(frozen=True)
class Point:
    """Throughput as a share of the hosts' links, and mean latency in packet times."""

    throughput: float
    latency: float


def witnessed() -> dict[tuple[str, float], Point]:
    """Return the results of the witnesses by case and load, as means over seeds."""
    lines = [line for line in ORIGIN.read_text().splitlines() if not line.startswith("#")]
    rows: dict[tuple[str, float], list[Point]] = {}
    for row in csv.DictReader(lines):
        point = Point(float(row["throughput"]), float(row["latency"]))
        rows.setdefault((row["case"], float(row["load"])), []).append(point)
    return {
        key: Point(mean(one.throughput for one in seeds), mean(one.latency for one in seeds))
        for key, seeds in rows.items()
    }


def _network(case: Case) -> dict[str, Any]:
    """Describe the network, with room for 32 packets at each input of a switch."""
    rates = {"link_rate": f"{RATE} Mbit/s", "link_delay": f"{case.link_ns} ns"}
    # With a hotspot, hosts 1 to 8 send and hosts 9 to 16 receive, because no flow can have equal ends.
    star = {"kind": "star", "hosts": case.hosts * (2 if case.name == "hotspot" else 1)}
    switch: dict[str, Any] = {
        "architecture": case.architecture,
        "queues": case.queues,
        "buffer": f"{32 * PACKET} B",
        "latency": f"{case.switch_ns} ns",
    }
    if case.architecture == "iq":
        # BookSim matches again in each cycle, which is a small fraction of a packet, and so finds pairs that
        # were left free. Several iterations approximate this.
        switch["islip_iterations"] = 4
    return {
        "duration": f"{case.duration_ms} ms",
        "warmup": f"{case.duration_ms * 100} us",
        "topology": ({"kind": "k-ary-n-tree", "k": 4, "n": 3} if case.name == "tree" else star) | rates,
        "switch": switch,
        "packet": {"mtu": f"{PACKET} B"},
        "measure": {"links": False, "hosts": False, "classes": False, "forest": False},
    }


def _traffic(case: Case, load: float) -> dict[str, Any]:
    """Describe the traffic: packets to random hosts, or three of ten packets to one host."""
    offered = round(RATE * load)
    if case.name == "hotspot":
        return {
            "flow": [
                {
                    "from": f"H{sender}",
                    "to": f"H{receiver}",
                    "rate": f"{offered * (HOT if receiver == 9 else 1) * 100} kbit/s",
                    "arrivals": "poisson",
                }
                for sender in range(1, 9)
                for receiver in range(9, 17)
            ]
        }
    pattern: dict[str, Any] = {"pattern": {"kind": "uniform", "include_self": case.witness == "BookSim"}}
    # Without a rate, a host generates a packet whenever it may send.
    pace = {"rate": f"{offered} Mbit/s", "arrivals": "poisson"} if load < 1 else {}
    return {"traffic": [pattern | pace]}


def scenario(case: Case, load: float) -> dict[str, Any]:
    """Describe a case at a load as a scenario."""
    return _network(case) | _traffic(case, load)


def simulate(case: Case, load: float) -> Point:
    """Run a case in Silvan."""
    summary = run(scenario(case, load)).summary
    rows = [row for row in summary["latency"] if row["since"] == "generation"]
    waited = sum(row["count"] * row["mean_ns"] for row in rows) / sum(row["count"] for row in rows)
    return Point(summary["throughput_gbit_s"] * 1000 / (RATE * case.hosts), waited / PACKET_NS)


@dataclass(frozen=True)
class Row:
    """A case at a load: the results of the witness and of Silvan."""

    case: Case
    load: float
    theirs: Point
    ours: Point

    @property
    def agrees(self) -> bool:
        """Return whether the two agree as closely as the case requires."""
        if self.load > self.case.stable:
            return abs(self.ours.throughput / self.theirs.throughput - 1) <= self.case.saturation
        # At stable loads, all offered traffic arrives, up to the randomness of Poisson arrivals.
        arrives = abs(self.ours.throughput / self.load - 1) <= 0.05
        return arrives and abs(self.ours.latency / self.theirs.latency - 1) <= self.case.latency

    def __str__(self) -> str:
        """Return a line of the table."""
        stable = self.load <= self.case.stable
        latency = f"{self.theirs.latency:9.2f}{self.ours.latency:9.2f}" if stable else f"{'-':>9}{'-':>9}"
        throughput = f"{self.theirs.throughput:10.3f}{self.ours.throughput:9.3f}"
        verdict = "" if self.agrees else "  out of tolerance"
        return f"{self.case.name:9}{self.load:6.2f}{throughput}{latency}{verdict}"


def compared(case: Case, *, quick: bool) -> Iterator[Row]:
    """Run a case at all loads of its witness, or with `quick` at the stable and at the highest load."""
    witness = {load: point for (name, load), point in witnessed().items() if name == case.name}
    for load in (case.stable, max(witness)) if quick else sorted(witness):
        yield Row(case, load, witness[load], simulate(case, load))


def draw(rows: list[Row], target: Path) -> None:
    """Plot latency and throughput against load, in two panels per case.

    Lines show the witness, and points show Silvan.
    """
    from matplotlib.figure import Figure

    with plot.style():
        figure = Figure(figsize=(15, 5.5))
        panels = figure.subplots(2, len(CASES), sharex=True, squeeze=False)
        for (latency, throughput), case in zip(panels.T, CASES, strict=True):
            of_case = [row for row in rows if row.case is case]
            for panel, name in ((latency, "latency"), (throughput, "throughput")):
                shown = [row for row in of_case if name == "throughput" or row.load <= case.stable]
                load = [row.load for row in shown]
                theirs = [getattr(row.theirs, name) for row in shown]
                panel.plot(load, theirs, lw=4, alpha=0.5, label=case.witness)
                panel.plot(load, [getattr(row.ours, name) for row in shown], "k.", label="Silvan")
            latency.set_title(case.title)
            latency.legend()
            throughput.set_xlabel("offered load")
        panels[0][0].set_ylabel("mean latency (packets)")
        panels[1][0].set_ylabel("throughput")
        figure.savefig(target, metadata={"Date": None})


def main() -> int:
    """Run all cases, print the table, plot the figure if requested, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m verify.witness", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two loads of each case")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw both here")
    given = parser.parse_args()
    print("case       load  throughput: witness, Silvan  mean latency in packet times: witness, Silvan")
    rows = []
    for case in CASES:
        for row in compared(case, quick=given.quick):
            print(row)
            rows.append(row)
    wrong = sum(not row.agrees for row in rows)
    print(f"{len(rows) - wrong} of {len(rows)} points are within tolerance")
    if given.figure:
        given.figure.parent.mkdir(parents=True, exist_ok=True)
        draw(rows, given.figure)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
