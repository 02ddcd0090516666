r"""Compares Silvan with ns3-datacenter, a fork of ns-3 with RDMA: the same flows on the same network.

    python tools/ns3_race.py --out out/race --ns3 ns3-datacenter/simulator/ns-3.39/build/examples/PowerTCP/...

The network is that of HPCC's evaluation (Li et al., SIGCOMM 2019): 320 hosts at 100 Gbit/s, switches in
three levels at 400 Gbit/s, with shared memory, pause frames and ECMP. Flows arrive at random (Poisson) and
have the sizes of a Hadoop cluster. Both simulators read them from the same file, in the format of HPCC's
simulator. With `--ns3`, they run in turns: A B, B A, A B. Without it, only Silvan runs.

For each mechanism and load, the program prints the CPU time and the peak memory of each process, the ratio
of each pair, and the slowdown by size. The slowdown is the time from the start of a flow to its last
acknowledgement, relative to the time that HPCC's simulator states for an empty network: the delay of all
links in both directions, the transmission of a packet on each link, and the transmission of the flow at the
rate of its host.

In the switches of both simulators, acknowledgements share the queues of data.

The simulators hash flows onto routes with different functions. With `--draws N`, Silvan simulates the same
flows N more times with other salts of its hash. The program then prints the smallest and the largest
difference from ns-3 for each size. The routes alone can explain differences between these two.

The fork is built from its own sources, unchanged; its program `powertcp-evaluation-burst` reads parameters,
topology and flows from files:

    cd ns3-datacenter/simulator/ns-3.39
    ./ns3 configure --build-profile=optimized --enable-examples --disable-tests \
        --enable-modules="point-to-point;applications;internet;traffic-control"
    ./ns3 build powertcp-evaluation-burst

`docs/performance.md` has the results.
"""

from __future__ import annotations

import argparse
import bisect
import itertools
import math
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PODS = 5
#: Number of leaves of a pod, of spines of a pod, and of cores that each spine reaches.
WIDTH = 4
HOSTS_PER_LEAF = 16
LEAVES = PODS * WIDTH
HOSTS = LEAVES * HOSTS_PER_LEAF
CORES = WIDTH * WIDTH
HOST_GBIT_S, SWITCH_GBIT_S = 100, 400
LINK_DELAY_NS = 1000
MTU = 1000

#: Sizes of flows in bytes, and the percentage of flows that are not larger (Roy et al., SIGCOMM 2015, as
#: HPCC's simulator reads them). Sizes between two points are equally likely.
SIZES = (
    (0, 0), (100, 1), (200, 2), (300, 5), (350, 15), (400, 20), (500, 30), (600, 40), (700, 50), (1_000, 60),
    (2_000, 67), (7_000, 70), (30_000, 72), (50_000, 82), (80_000, 87), (120_000, 90), (300_000, 95),
    (1_000_000, 97.5), (2_000_000, 99), (10_000_000, 100),
)  # fmt: skip

#: The upper limits of the groups of sizes for which slowdowns are printed, in bytes.
BINS = (500, 1_000, 7_000, 50_000, 120_000, 300_000, 1_000_000, 2_000_000, 10_000_000)
PERCENTILES = (50, 95, 99)


@dataclass(frozen=True)
class Mechanism:
    """The parameters of a mechanism in both simulators."""

    #: The keys of `[congestion]`.
    congestion: str
    #: Bytes of headers, and of a control packet.
    header: int
    control: int
    #: Parameters in the fork's configuration: the number of the mechanism, whether flows have a window, and
    #: the values of `RATE_AI`, `RATE_HAI` and `INT_MULTI`.
    number: int
    has_window: bool
    rate_ai: str
    rate_hai: str
    int_multi: int


#: The parameters that HPCC's simulator uses for hosts at 100 Gbit/s.
MECHANISMS = {
    "dcqcn": Mechanism(
        congestion="""\
notification = "ack-each"
reaction = { kind = "dcqcn", set = "tuned" }

[congestion.marking]
kind = "red"
thresholds = [
  { rate = "100 Gbit/s", min = "400 kB", max = "1600 kB", percent = 20 },
  { rate = "400 Gbit/s", min = "1600 kB", max = "6400 kB", percent = 20 },
]""",
        header=48,
        control=60,
        number=1,
        has_window=False,
        rate_ai="20Mb/s",
        rate_hai="200Mb/s",
        int_multi=1,
    ),
    "hpcc": Mechanism(
        congestion="""\
marking = { kind = "telemetry" }
notification = "ack-each"
reaction = { kind = "hpcc", max_stage = 0, round_trip = "12240 ns" }""",
        header=90,
        control=88,
        number=3,
        has_window=True,
        rate_ai="40Mb/s",
        rate_hai="40Mb/s",
        int_multi=4,
    ),
}

SCENARIO = """\
# {mechanism} at {load} % load, written by tools/ns3_race.py.
name = "ns3-race-{mechanism}-{load}"
seed = {seed}
duration = "{duration_us} us"

[topology]
kind = "file"
file = "topology.txt"

[routing]
kind = "shortest-path"

[ecmp]

[packet]
mtu = "{mtu} B"
header = "{header} B"
control = "{control} B"

# Switches of ns-3 store a packet before they forward it; 17 ns is the mean of what that takes on six links.
[switch]
latency = "17 ns"
arbitration = "fcfs"

[host]
buffer = "1 MiB"

[flow_control]
kind = "pfc"
shared = {{ memory = "32 MiB", alpha_shift = 3, alpha_by_rate = false, reserve = "4 KiB" }}

[congestion]
{congestion}

[measure]
interval = "{duration_us} us"
hosts = false
links = false
classes = false
forest = false

[[traffic]]
name = "flows"
pattern = {{ kind = "listed", file = "flows-{load}.txt" }}
"""

#: The configuration file of the fork's program.
CONFIGURATION = """\
ENABLE_QCN 1
USE_DYNAMIC_PFC_THRESHOLD 1
PACKET_PAYLOAD_SIZE {mtu}
TOPOLOGY_FILE {folder}/topology-ns3.txt
FLOW_FILE {folder}/flows-{load}.txt
TRACE_FILE {folder}/no-trace.txt
TRACE_OUTPUT_FILE {folder}/no-trace.tr
FCT_OUTPUT_FILE {fct}
PFC_OUTPUT_FILE {fct}.pfc
SIMULATOR_STOP_TIME {stop_s}
CC_MODE {number}
ALPHA_RESUME_INTERVAL 1
RATE_DECREASE_INTERVAL 4
CLAMP_TARGET_RATE 0
RP_TIMER 300
EWMA_GAIN 0.00390625
FAST_RECOVERY_TIMES 1
RATE_AI {rate_ai}
RATE_HAI {rate_hai}
MIN_RATE 1000Mb/s
DCTCP_RATE_AI 1000Mb/s
ERROR_RATE_PER_LINK 0.0000
L2_CHUNK_SIZE 4000
L2_ACK_INTERVAL 1
L2_BACK_TO_ZERO 0
HAS_WIN {has_window}
GLOBAL_T 1
VAR_WIN {has_window}
FAST_REACT {has_window}
U_TARGET 0.95
MI_THRESH 0
INT_MULTI {int_multi}
MULTI_RATE 0
SAMPLE_FEEDBACK 0
PINT_LOG_BASE 1.05
PINT_PROB 1.0
RATE_BOUND 1
ACK_HIGH_PRIO 0
LINK_DOWN 0 0 0
ENABLE_TRACE 0
KMAX_MAP 2 100000000000 1600 400000000000 6400
KMIN_MAP 2 100000000000 400 400000000000 1600
PMAX_MAP 2 100000000000 0.2 400000000000 0.2
BUFFER_SIZE 32
QLEN_MON_FILE {fct}.qlen
QLEN_MON_START 0
QLEN_MON_END 0
"""


@dataclass(frozen=True)
class Flow:
    """A flow: start in nanoseconds, numbers of the hosts, size in bytes."""

    start: int
    source: int
    destination: int
    size: int


@dataclass(frozen=True)
class Run:
    """CPU time in seconds, and peak memory in MiB."""

    cpu_s: float
    memory_mb: float


class RaceError(Exception):
    """A program failed, or its results cannot be compared."""


def links() -> Iterator[tuple[int, int, int]]:
    """Yield both ends of each link, and its rate in Gbit/s: hosts first, then leaves, spines and cores."""
    leaf, spine, core = HOSTS, HOSTS + LEAVES, HOSTS + 2 * LEAVES
    for host in range(HOSTS):
        yield host, leaf + host // HOSTS_PER_LEAF, HOST_GBIT_S
    for at, other in itertools.product(range(LEAVES), range(WIDTH)):
        yield leaf + at, spine + at // WIDTH * WIDTH + other, SWITCH_GBIT_S
    for at, other in itertools.product(range(LEAVES), range(WIDTH)):
        yield spine + at, core + at % WIDTH * WIDTH + other, SWITCH_GBIT_S


def topology(*, is_for_fork: bool) -> str:
    """Return the topology in the format of HPCC's simulator; the fork's format has one more number."""
    every = list(links())
    switches = range(HOSTS, HOSTS + 2 * LEAVES + CORES)
    counts = [HOSTS + len(switches), len(switches), *([LEAVES] if is_for_fork else []), len(every)]
    lines = [" ".join(map(str, counts)), " ".join(map(str, switches))]
    lines += [f"{one} {other} {rate}Gbps {LINK_DELAY_NS / 1000}us 0.000000" for one, other, rate in every]
    return "\n".join(lines) + "\n"


def mean_size() -> float:
    """Return the mean size of a flow in bytes."""
    return sum((a + b) / 2 * (q - p) / 100 for (a, p), (b, q) in itertools.pairwise(SIZES))


def size(rng: random.Random) -> int:
    """Draw the size of a flow in bytes."""
    percent = rng.random() * 100
    above = bisect.bisect_right([percent for _, percent in SIZES], percent)
    (least, p), (most, q) = SIZES[above - 1], SIZES[above]
    return max(1, round(least + (most - least) * (percent - p) / (q - p)))


def flows(load: int, arrivals_us: int, seed: int) -> list[Flow]:
    """Draw the flows that arrive at all hosts, ordered by start; `load` in percent of a host's rate."""
    gap_ns = mean_size() * 8 / HOST_GBIT_S / (load / 100)
    found = []
    for host in range(HOSTS):
        rng = random.Random(f"{seed} {load} {host}")
        start = rng.expovariate(1 / gap_ns)
        while start < arrivals_us * 1000:
            other = rng.randrange(HOSTS - 1)
            found.append(Flow(round(start), host, other + (other >= host), size(rng)))
            start += rng.expovariate(1 / gap_ns)
    return sorted(found, key=lambda flow: flow.start)


def listing(drawn: Sequence[Flow]) -> str:
    """Return flows as a file of HPCC's simulator: hosts, priority, port, bytes, start in seconds."""
    rows = [f"{one.source} {one.destination} 3 100 {one.size} {one.start / 1e9:.9f}" for one in drawn]
    return "\n".join([str(len(rows)), *rows]) + "\n"


def alone_ns(flow: Flow, header: int) -> float:
    """Return the completion time on an empty network in ns, as HPCC's simulator defines it."""
    leaves = flow.source // HOSTS_PER_LEAF, flow.destination // HOSTS_PER_LEAF
    between = 0 if leaves[0] == leaves[1] else 2 if leaves[0] // WIDTH == leaves[1] // WIDTH else 4
    stored = MTU * 8 * (2 / HOST_GBIT_S + between / SWITCH_GBIT_S)
    total = flow.size + -(-flow.size // MTU) * header
    return 2 * (2 + between) * LINK_DELAY_NS + stored + total * 8 / HOST_GBIT_S


def measured(command: Sequence[str | Path], log: Path, cwd: Path | None = None) -> Run:
    """Run a process; its output goes to a file. Raises :class:`RaceError` if it fails."""
    words = [str(word) for word in command]
    with log.open("w") as output:
        process = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, cwd=cwd)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RaceError(f"{command[0]} ended with status {process.returncode}; its output is in {log}")
    return Run(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def in_turns(programs: Mapping[str, Callable[[], Run]], pairs: int) -> dict[str, list[Run]]:
    """Run one or two programs a number of times: A B, B A, A B."""
    runs: dict[str, list[Run]] = {one: [] for one in programs}
    for number in range(pairs):
        order = list(programs) if number % 2 == 0 else list(reversed(programs))
        for one in order:
            runs[one].append(programs[one]())
    return runs


def times(runs: Mapping[str, Sequence[Run]]) -> str:
    """Return the CPU times and the memory of programs, and the ratios of two programs."""
    lines = []
    for one, own in runs.items():
        cpu = ", ".join(f"{run.cpu_s:.2f}" for run in own)
        lines.append(f"{one:>7}: {cpu} s of CPU time; {max(run.memory_mb for run in own):.0f} MB")
    if len(runs) == 2:
        ratios = [one.cpu_s / two.cpu_s for one, two in zip(*runs.values(), strict=True)]
        shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        lines.append(f"  ratio: {shown}; median {statistics.median(ratios):.2f}, worst {min(ratios):.2f}")
    return "\n".join(lines)


def of_silvan(folder: Path) -> dict[tuple[int, int, int, int], list[int]]:
    """Read the times of flows in nanoseconds, by hosts, bytes and start (ns)."""
    import silvan

    table = silvan.load(folder).numpy("transfers")
    found: dict[tuple[int, int, int, int], list[int]] = {}
    columns = (table[name] for name in ("from", "to", "bytes", "start_ns", "acked_ns"))
    for source, to, size_, start, acked in zip(*columns, strict=True):
        if not math.isnan(acked):
            key = int(source), int(to), int(size_), round(start)
            found.setdefault(key, []).append(round(acked - start))
    return found


def of_ns3(file: Path) -> dict[tuple[int, int, int, int], list[int]]:
    """Read the times of flows from a file of the fork, as `of_silvan`.

    The middle two bytes of an address are the number of a host.
    """
    found: dict[tuple[int, int, int, int], list[int]] = {}
    for line in file.read_text().splitlines():
        source, to, _, _, size_, start, took, _ = line.split()
        key = *((int(word, 16) >> 8) & 0xFFFF for word in (source, to)), int(size_), int(start)
        found.setdefault(key, []).append(int(took))
    return found


def percentile(values: Sequence[float], percent: int) -> float:
    """Return a percentile as the scripts of HPCC's simulator do."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def slowdowns(
    drawn: Sequence[Flow], header: int, results: Sequence[Mapping[tuple[int, int, int, int], list[int]]]
) -> list[tuple[int, list[float]]]:
    """Return the size and the slowdowns, at least 1, of all flows that have ended in all results."""
    taken = [{key: list(times) for key, times in one.items()} for one in results]
    found = []
    for flow in drawn:
        key = flow.source, flow.destination, flow.size, flow.start
        times = [one.get(key) for one in taken]
        if all(times):
            alone = alone_ns(flow, header)
            found.append((flow.size, [max(1.0, own.pop(0) / alone) for own in times if own]))
    return found


def groups(rows: Sequence[tuple[int, list[float]]]) -> Iterator[tuple[int | None, list[list[float]]]]:
    """Yield the limit of each group of sizes with flows, and the slowdowns of these; then those of all."""
    below = 0
    for limit in (*BINS, None):
        chosen = [slow for size_, slow in rows if limit is None or below < size_ <= limit]
        below = limit or below
        if chosen:
            yield limit, chosen


def spread(rows: Sequence[tuple[int, list[float]]], draws: int) -> str:
    """Return the smallest and the largest difference of all runs of Silvan from ns-3, in percent."""
    heads = [f"p{percent} least, most" for percent in PERCENTILES]
    lines = [f"Silvan with {draws + 1} draws of routes, relative to ns-3:"]
    lines.append(f"{'bytes up to':>11} " + " ".join(f"{head:>17}" for head in heads))
    for limit, chosen in groups(rows):
        cells = []
        for percent in PERCENTILES:
            base, *others = (percentile(values, percent) for values in zip(*chosen, strict=True))
            ratios = [100 * (other / base - 1) for other in others]
            cells.append(f"{min(ratios):+8.1f} {max(ratios):+7.1f}%")
        lines.append(f"{limit or 'all':>11} " + " ".join(cells))
    return "\n".join(lines)


def table(rows: Sequence[tuple[int, list[float]]], names: Sequence[str]) -> str:
    """Return the percentiles of slowdowns by size, and the difference between two programs in percent."""
    columns = (*names, "diff") if len(names) > 1 else names
    heads = [f"p{percent} {name}" for percent in PERCENTILES for name in columns]
    lines = [f"{'bytes up to':>11} {'flows':>6} " + " ".join(f"{head:>10}" for head in heads)]
    for limit, chosen in groups(rows):
        cells = []
        for percent in PERCENTILES:
            values = [percentile([one[at] for one in chosen], percent) for at in range(len(names))]
            cells += [f"{value:10.2f}" for value in values]
            if len(values) > 1:
                cells.append(f"{100 * (values[1] / values[0] - 1):+9.1f}%")
        lines.append(f"{limit or 'all':>11} {len(chosen):6} " + " ".join(cells))
    return "\n".join(lines)


def race(name: str, load: int, options: argparse.Namespace) -> None:
    """Run a mechanism at a load in both simulators, and print the comparison; raises :class:`RaceError`."""
    folder, mechanism = options.out.resolve(), MECHANISMS[name]
    drawn = flows(load, options.arrivals, options.seed)
    (folder / f"flows-{load}.txt").write_text(listing(drawn))
    scenario = folder / f"{name}-{load}.toml"
    scenario.write_text(
        SCENARIO.format(
            mechanism=name, load=load, seed=options.seed, duration_us=options.duration, mtu=MTU,
            **vars(mechanism),
        )
    )  # fmt: skip
    result, fct = folder / f"{name}-{load}", folder / f"{name}-{load}.fct"
    configuration = folder / f"{name}-{load}.conf"
    fields = {**vars(mechanism), "has_window": int(mechanism.has_window)}
    configuration.write_text(
        CONFIGURATION.format(
            folder=folder, load=load, fct=fct, stop_s=options.duration / 1e6, mtu=MTU,
            **fields,
        )
    )  # fmt: skip
    own = [Path(sys.executable).parent / "silvan", "run", scenario, "--out", result, "--force"]
    window = fields["has_window"]
    others = [
        options.ns3,
        f"--conf={configuration}",
        *("--wien=0", "--delayWien=0", f"--algorithm={mechanism.number}", f"--windowCheck={window}"),
    ]
    programs: dict[str, Callable[[], Run]] = {}
    if options.ns3:
        programs["ns-3"] = lambda: measured(others, folder / f"{name}-{load}-ns3.log")
    programs["Silvan"] = lambda: measured(own, folder / f"{name}-{load}-silvan.log")
    runs = in_turns(programs, options.pairs)
    results = [of_ns3(fct)] if options.ns3 else []
    results.append(of_silvan(result))
    for seed in range(1, options.draws + 1):
        other = folder / f"{name}-{load}-draw"
        again = [*own[:2], scenario, "--set", f"seed={options.seed + seed}", "--out", other, "--force"]
        measured(again, folder / f"{name}-{load}-draw.log")
        results.append(of_silvan(other))
    rows = slowdowns(drawn, mechanism.header - (42 if name == "hpcc" else 0), results)
    print(f"\n{name}, {load} % load, {len(drawn)} flows; {len(rows)} ended in all runs")
    print(times(runs))
    print(table(rows, list(programs)), flush=True)
    if options.draws:
        print(spread(rows, options.draws), flush=True)


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--ns3", type=Path, help="the built program of the fork; without it, only Silvan runs"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out/ns3-race"), help="folder of all files (out/ns3-race)"
    )
    parser.add_argument("--mechanism", nargs="+", choices=list(MECHANISMS), default=list(MECHANISMS))
    parser.add_argument(
        "--load", nargs="+", type=int, default=[30, 50], help="percent of the hosts' rate (30 50)"
    )
    parser.add_argument("--pairs", type=int, default=3, help="runs of each program (3)")
    parser.add_argument("--draws", type=int, default=0, help="further runs of Silvan with other routes (0)")
    parser.add_argument("--arrivals", type=int, default=1000, help="time in which flows start, in us (1000)")
    parser.add_argument("--duration", type=int, default=6000, help="simulated time, in us (6000)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(words)
    if options.ns3 and not options.ns3.is_file():
        parser.error(f"--ns3 {options.ns3}: no such file")
    if options.ns3:
        options.ns3 = options.ns3.resolve()
    elif options.draws:
        parser.error("--draws: needs --ns3, with which it compares")
    return options


def main() -> int:
    """Write the files, and compare case by case; return the exit status."""
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "topology.txt").write_text(topology(is_for_fork=False))
    (options.out / "topology-ns3.txt").write_text(topology(is_for_fork=True))
    try:
        for name, load in itertools.product(options.mechanism, options.load):
            race(name, load, options)
    except RaceError as error:
        print(f"ns3_race: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
