"""Predicts the speed of many threads from measurements on two cores.

    python tools/predict_threads.py [CASE...] [--threads 4 16 64] [--json threads.json]

`make threads-model` runs this program. For each number of threads, the benchmark runs a case with as many
partitions, one after the other on one core. It records the events of each partition between two exchanges of
messages, and how often all partitions meet, that is, wait for each other (`--steps` in `benches/bench.rs`).
The prediction assumes that an event takes as long as on average in a run with one partition. The cost of an
exchange is measured with two real threads (`--exchange`). The program computes:

- ideal: each step takes as long as its slowest partition;
- barrier: all partitions meet after each step. Each thread reads the counters of all others, so the cost of a
  meeting grows with their number;
- steps: as implemented. A partition starts a step when its neighbors have finished the previous one, and all
  partitions meet after a number of steps, which the run adapts. It reads only the mailboxes of its neighbors.

The speed-up is relative to a run with one partition. The recorded times of partitions are not used, because
these partitions share the caches of one core. The prediction ignores that threads share memory bandwidth.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "target/release/examples/bench"
CASES = ("uniform_4096", "trees_1024_ecocc", "forest_11664_cc")
#: Overrides of each case for a short run in which all hosts are busy.
SHORT = {
    "uniform_4096": ("duration=60 us", "warmup=0 s", "measure.interval=60 us"),
    "trees_1024_ecocc": ("duration=60 us", "warmup=0 s", "measure.interval=60 us"),
    "forest_11664_cc": ("duration=60 us", "measure.interval=60 us"),
}


@dataclass(frozen=True)
class Exchange:
    """Costs of an exchange of messages between two threads, in nanoseconds."""

    wait_ns: float
    mailbox_ns: float
    #: Cost of reading the step counter of another thread, which that thread writes at the same time.
    counter_ns: float

    def wait_for_ns(self, threads: int) -> float:
        """Return the cost of waiting for `threads` other threads; `wait_ns` is the cost for one thread."""
        return self.wait_ns + self.counter_ns * max(threads - 1, 0)

    def mail_ns(self, mailboxes: float) -> float:
        """Return the cost of receiving messages from a number of mailboxes."""
        return self.mailbox_ns * mailboxes


class Log(TypedDict):
    """The recorded work of partitions."""

    #: Events of each partition in each step.
    events: list[list[int]]
    #: Numbers of steps between two meetings of all partitions.
    rounds: list[int]
    #: For each partition, the partitions with which it exchanges messages.
    neighbors: list[list[int]]


@dataclass(frozen=True)
class Prediction:
    """Speed-up of a number of threads."""

    threads: int
    steps: int
    #: Events of the busiest partition of the run relative to the mean.
    imbalance: float
    ideal: float
    barrier: float
    steps_and_meetings: float
    #: Number of times that all partitions met.
    meetings: int
    #: Mean number of neighbors of a partition.
    neighbors: float


def predict(one_ns: float, log: Log, cost: Exchange) -> Prediction:
    """Predict the speed-up of as many threads as there are partitions.

    A single partition takes `one_ns` for all events.
    """
    count = len(log["neighbors"])
    event_ns = one_ns / sum(map(sum, log["events"]))
    work = [[event_ns * number for number in step] for step in log["events"]]
    totals = [sum(column) for column in zip(*work, strict=True)]
    ideal = float(sum(max(step) for step in work))
    barrier = ideal + len(work) * (cost.wait_for_ns(count - 1) + cost.mail_ns(count - 1))
    done = [0.0] * count
    following = iter(work)
    for steps in log["rounds"]:
        met = max(done) + cost.wait_for_ns(count - 1)
        done = [met] * count
        for number in range(steps):
            step = next(following)
            done = [
                max(done[other] for other in (me, *near))
                + step[me]
                + (cost.wait_for_ns(len(near)) if number else 0.0)
                + cost.mail_ns(len(near))
                for me, near in enumerate(log["neighbors"])
            ]
    return Prediction(
        threads=count,
        steps=len(work),
        imbalance=max(totals) * count / sum(totals),
        ideal=one_ns / ideal,
        barrier=one_ns / barrier,
        steps_and_meetings=one_ns / max(done),
        meetings=len(log["rounds"]),
        neighbors=sum(map(len, log["neighbors"])) / count,
    )


def measured(*words: str, bench: Path) -> Any:
    """Return the parsed output of the benchmark; exits if it fails."""
    done = subprocess.run([bench, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"predict_threads: {done.stderr.strip()}")
    return json.loads(done.stdout)


def fastest(words: Sequence[str], key: str, bench: Path, runs: int) -> Any:
    """Return the fastest of several runs, because other programs slow runs down."""
    return min((measured(*words, bench=bench) for _ in range(runs)), key=lambda result: result[key])


def study(case: str, threads: Sequence[int], cost: Exchange, bench: Path, runs: int) -> list[Prediction]:
    """Predict the speed-up of a case for several numbers of threads."""
    keys = SHORT.get(case, ())
    one = fastest(("--one", case, *keys), "wall_s", bench, runs)["wall_s"] * 1e9
    found = []
    for count in threads:
        log = measured("--steps", case, str(count), *keys, bench=bench)
        found.append(predict(one, log, cost))
    return found


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="predict_threads.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("case", nargs="*", default=CASES, help="cases of the benchmark")
    parser.add_argument("--threads", type=int, nargs="+", default=[2, 4, 16, 64], help="numbers of threads")
    parser.add_argument("--runs", type=int, default=3, help="runs of one partition; the fastest counts")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--bench", type=Path, default=BENCH, help="the benchmark")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Measure and predict; print a line per case and number of threads."""
    options = arguments(words)
    cost = Exchange(**measured("--exchange", bench=options.bench))
    print(
        f"exchange of two threads: {cost.wait_ns:.0f} ns; {cost.mailbox_ns:.0f} ns per mailbox, "
        f"{cost.counter_ns:.0f} ns per further counter"
    )
    row = "{:<18} {:>7} {:>7} {:>8} {:>9} {:>9} {:>7} {:>8} {:>7}"
    head = ("case", "threads", "steps", "meetings", "neighbors", "imbalance", "ideal", "barrier", "steps")
    print(row.format(*head), flush=True)
    results: dict[str, Any] = {"exchange": vars(cost)}
    for case in options.case:
        found = study(case, options.threads, cost, options.bench, options.runs)
        results[case] = [vars(one) for one in found]
        for one in found:
            numbers = (
                f"{one.neighbors:.1f}",
                *(f"{x:.2f}" for x in (one.imbalance, one.ideal, one.barrier, one.steps_and_meetings)),
            )
            print(row.format(case, one.threads, one.steps, one.meetings, *numbers), flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
