r"""Compares Silvan with uet-htsim, the simulator of the Ultra Ethernet Consortium: the same transfers.

    python tools/htsim_race.py --htsim uet-htsim/htsim/sim/datacenter/htsim_uec --out out/htsim-race

1,024 hosts on a fat tree of three levels send 2 MB each at 100 Gbit/s, sprayed over 128 paths (`mixed`), with
the control of sources (NSCC) and with queues that trim packets. Receivers acknowledge 16 KiB at a time. These
are the settings of an experiment that uet-htsim validates ("Large permutation, mixed"). Both simulators run
in turns: A B, B A, A B. Without `--htsim`, only Silvan runs.

The program prints the CPU time and the peak memory of each process, the ratio of each pair, and percentiles
of the times until the last acknowledgement of a transfer is back at its source.

`--matrix` names a file of connections of uet-htsim, such as its `perm_1024n_1024c_0u_2000000b.cm`; by
default, the hosts are paired at random. To build uet-htsim:

    cd uet-htsim/htsim/sim
    cmake -S . -B build -DCMAKE_BUILD_TYPE=Release
    cmake --build build --target htsim_uec

`docs/performance.md` has the results.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ns3_race import RaceError, Run, in_turns, measured, percentile, times

HOSTS = 1024
BYTES = 2_000_000
PERCENTILES = (1, 50, 95, 99)

CONNECTION = re.compile(r"(\d+)->(\d+) id \d+ start (\d+) size (\d+)")
FINISHED = re.compile(r"Flow Uec_(\d+)_(\d+) .*finished at ([\d.]+) ")

#: The scenario of the experiments on Ultra Ethernet (papers/common/uec-trimming.toml) with this permutation.
SCENARIO = """\
name = "htsim-race"
seed = {seed}
duration = "{duration_us} us"

[topology]
kind = "three-level-fat-tree"
radix = 16
link_rate = "100 Gbit/s"
link_delay = "1 us"

[lanes]
count = 2
control = 1
control_priority = true

[packet]
mtu = "4086 B"
header = "64 B"
control = "64 B"

# Half the time of a full packet: switches of uet-htsim store data, and forward control packets at once.
[switch]
arbitration = "fcfs"
latency = "166 ns"
trimming = {{ queue = "174300 B", size = "64 B" }}

[host]
delivery = "out-of-order"

[ecmp]
spraying = "mixed"
values = 128

[congestion]
marking = {{ kind = "red", min = "37350 B", max = "145250 B", percent = 100 }}
notification = "ack-each"
reaction = {{ kind = "nscc" }}
acknowledge = {{ bytes = "16384 B" }}

[measure]
interval = "{duration_us} us"
hosts = false
links = false
classes = false
forest = false

[[traffic]]
name = "permutation"
pattern = {{ kind = "listed", file = "flows.csv" }}
"""


def permutation(seed: int) -> list[tuple[int, int]]:
    """Pair all hosts at random; no host sends to itself."""
    rng = random.Random(seed)
    order = list(range(HOSTS))
    rng.shuffle(order)
    return sorted(zip(order, order[1:] + order[:1], strict=True))


def read_matrix(text: str) -> list[tuple[int, int]]:
    """Read a file of connections. Raises :class:`RaceError` unless it is a permutation with 2 MB per host."""
    found = [tuple(map(int, words)) for words in CONNECTION.findall(text)]
    pairs = sorted((source, to) for source, to, start, size in found if (start, size) == (0, BYTES))
    ends = [sorted(side) for side in zip(*pairs, strict=True)]
    if len(pairs) != len(found) or ends != [list(range(HOSTS))] * 2:
        raise RaceError(f"not a permutation of {HOSTS} hosts with {BYTES} bytes that start at 0")
    return pairs


def matrix(pairs: Sequence[tuple[int, int]]) -> str:
    """Return the connections as a file of uet-htsim."""
    rows = [f"{source}->{to} id {at} start 0 size {BYTES}" for at, (source, to) in enumerate(pairs, 1)]
    return "\n".join([f"Nodes {HOSTS}", f"Connections {len(pairs)}", *rows]) + "\n"


def listing(pairs: Sequence[tuple[int, int]]) -> str:
    """Return the transfers as a list for Silvan."""
    return "\n".join(["from,to,bytes,start_ns", *(f"{source},{to},{BYTES},0" for source, to in pairs)]) + "\n"


def of_silvan(folder: Path) -> dict[tuple[int, int], float]:
    """Read the times of transfers in microseconds, by the numbers of both hosts, from 0."""
    import silvan

    table = silvan.load(folder).numpy("transfers")
    hosts = ((int(str(name)[1:]) - 1 for name in table[end].tolist()) for end in ("from", "to"))
    acked = (time / 1e3 for time in table["acked_ns"].tolist() if not math.isnan(time))
    return dict(zip(zip(*hosts, strict=True), acked, strict=False))


def of_htsim(log: str) -> dict[tuple[int, int], float]:
    """Read the times of transfers in microseconds, by the numbers of both hosts, from 0."""
    return {(int(source), int(to)): float(time) for source, to, time in FINISHED.findall(log)}


def table(results: Mapping[str, Mapping[tuple[int, int], float]]) -> str:
    """Return the percentiles of times, and the difference between two programs in percent."""
    names = list(results)
    heads = [*names, "diff"] if len(names) > 1 else names
    lines = [f"{'percentile':>11} " + " ".join(f"{head:>10}" for head in heads)]
    for percent in (*PERCENTILES, 100):
        values = [percentile(list(one.values()), percent) for one in results.values()]
        cells = [f"{value:10.2f}" for value in values]
        if len(values) > 1:
            cells.append(f"{100 * (values[1] / values[0] - 1):+9.1f}%")
        lines.append(f"{percent:>11} " + " ".join(cells))
    return "\n".join(lines)


def race(options: argparse.Namespace) -> None:
    """Run both simulators, and print the comparison.

    Raises :class:`RaceError` if a program fails, the matrix is invalid, or a transfer does not end.
    """
    folder = options.out.resolve()
    pairs = read_matrix(options.matrix.read_text()) if options.matrix else permutation(options.seed)
    (folder / "flows.cm").write_text(matrix(pairs))
    (folder / "flows.csv").write_text(listing(pairs))
    scenario, result, log = folder / "race.toml", folder / "run", folder / "htsim.log"
    scenario.write_text(SCENARIO.format(seed=options.seed, duration_us=options.duration))
    own = [Path(sys.executable).parent / "silvan", "run", scenario, "--out", result, "--force"]
    other = [
        options.htsim,
        *("-tm", folder / "flows.cm", "-o", folder / "htsim.dat", "-end", options.duration),
        *("-sender_cc_only", "-load_balancing_algo", "mixed", "-paths", 128),
    ]
    programs: dict[str, Callable[[], Run]] = {}
    if options.htsim:
        programs["htsim"] = lambda: measured(other, log)
    programs["Silvan"] = lambda: measured(own, folder / "silvan.log")
    runs = in_turns(programs, options.pairs)
    results = {"htsim": of_htsim(log.read_text())} if options.htsim else {}
    results["Silvan"] = of_silvan(result)
    for name, found in results.items():
        if found.keys() != set(pairs):
            raise RaceError(f"{name}: {len(found)} of {len(pairs)} transfers ended")
    print(f"{len(pairs)} transfers of {BYTES} bytes; times in us until the last acknowledgement")
    print(times(runs))
    print(table(results), flush=True)


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--htsim", type=Path, help="the built program; without it, only Silvan runs")
    parser.add_argument("--matrix", type=Path, help="a permutation of 1,024 hosts (by default, at random)")
    parser.add_argument(
        "--out", type=Path, default=Path("out/htsim-race"), help="folder of all files (out/htsim-race)"
    )
    parser.add_argument("--pairs", type=int, default=3, help="runs of each program (3)")
    parser.add_argument("--duration", type=int, default=1000, help="the most simulated time, in us (1000)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(words)
    for key in ("htsim", "matrix"):
        file = getattr(options, key)
        if file and not file.is_file():
            parser.error(f"--{key} {file}: no such file")
        setattr(options, key, file and file.resolve())
    return options


def main() -> int:
    """Write the files, and compare; return the exit status."""
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        race(options)
    except RaceError as error:
        print(f"htsim_race: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
