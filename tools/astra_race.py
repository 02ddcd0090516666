r"""Compares networks of ASTRA-sim: its analytical, htsim and ns-3 back ends, and Silvan.

    python tools/astra_race.py --silvan target/astra/AstraSim_Silvan \
        --analytical build/astra_analytical/build/bin/AstraSim_Analytical_Congestion_Aware

The workloads are a ring all-reduce and an all-to-all in which each rank sends all its messages at once, of
the same bytes for each number of ranks. For 4, 8 and 16 ranks, the traces are those of ASTRA-sim's examples.
All ranks are at one switch, with links of 400 Gbit/s and 500 ns from rank to rank. For the all-reduce, the
analytical network is a ring of links with 500 ns, as in the examples. The ranks have ASTRA-sim's smallest
delay, 1 ns per message, and a fast memory.

For each workload, the program prints the simulated time of each program, the closed form, and the smallest
CPU time of `--rounds` runs, in which the programs take turns. The closed forms are those of links of
50 bytes per nanosecond without headers:

    all-reduce    2 (n - 1) (S / (n B) + L)
    all-to-all    (n - 1) S / (n B) + L

Silvan's packets also have headers, and ASTRA-sim waits for whole nanoseconds. The program computes the
resulting time of Silvan, and fails if it differs.

`docs/astra.md` has the results. The programs of other networks are built by ASTRA-sim's own scripts.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

#: Bytes per nanosecond of a link, and nanoseconds from rank to rank.
RATE, LATENCY_NS = 50, 500
#: Bytes of the header of a packet in Silvan.
HEADER = 64
#: The delay of a message in its rank, ns.
ENDPOINT_NS = 1
#: ASTRA-sim's analytical network counts 2^30 bytes as a gigabyte.
ANALYTICAL_GB = 2**30 / 1e9
#: Numbers of collective operations in Chakra's format, and the algorithms of ASTRA-sim for these.
COLLECTIVES = {"all_reduce": (0, "ring"), "all_to_all": (6, "direct")}

SCENARIO = """\
# Written by tools/astra_race.py.
[topology]
kind = "star"
hosts = {ranks}
link_rate = "400 Gbit/s"
link_delay = "200 ns"

[switch]
latency = "100 ns"

[packet]
mtu = "{mtu} B"
header = "{header} B"
"""

#: A fat tree of htsim with two tiers, of which the lower one has a single switch. Few links leave it, because
#: htsim allows a switch at most 96 ports.
HTSIM_TOPOLOGY = """\
Nodes {ranks}
Tiers 2
Podsize {ranks}

Tier 0
Downlink_speed_Gbps 400
Radix_Down {ranks}
Radix_Up {uplinks}
Oversubscribed 4
Downlink_Latency_ns 250

Tier 1
Downlink_speed_Gbps 400
Radix_Down 1
Downlink_Latency_ns 250
"""


#: The configuration file of ns-3: that of ASTRA-sim's example, with other packets.
NS3_CONFIGURATION = """\
ENABLE_QCN 1
USE_DYNAMIC_PFC_THRESHOLD 1
PACKET_PAYLOAD_SIZE {mtu}
TOPOLOGY_FILE {folder}/ns3-topology.txt
FLOW_FILE {folder}/ns3-none.txt
TRACE_FILE {folder}/ns3-none.txt
TRACE_OUTPUT_FILE {folder}/ns3-trace.tr
FCT_OUTPUT_FILE {folder}/ns3-fct.txt
PFC_OUTPUT_FILE {folder}/ns3-pfc.txt
QLEN_MON_FILE {folder}/ns3-qlen.txt
QLEN_MON_START 0
QLEN_MON_END 20000
SIMULATOR_STOP_TIME 40000000000000.00
CC_MODE 12
ALPHA_RESUME_INTERVAL 1
RATE_DECREASE_INTERVAL 4
CLAMP_TARGET_RATE 0
RP_TIMER 900
EWMA_GAIN 0.00390625
FAST_RECOVERY_TIMES 1
RATE_AI 50Mb/s
RATE_HAI 100Mb/s
MIN_RATE 100Mb/s
DCTCP_RATE_AI 1000Mb/s
ERROR_RATE_PER_LINK 0.0000
L2_CHUNK_SIZE 4000
L2_ACK_INTERVAL 1
L2_BACK_TO_ZERO 0
HAS_WIN 1
GLOBAL_T 0
VAR_WIN 1
FAST_REACT 1
U_TARGET 0.95
MI_THRESH 0
INT_MULTI 1
MULTI_RATE 0
SAMPLE_FEEDBACK 0
PINT_LOG_BASE 1.05
PINT_PROB 1.0
NIC_TOTAL_PAUSE_TIME 0
RATE_BOUND 1
ACK_HIGH_PRIO 0
LINK_DOWN 0 0 0
ENABLE_TRACE 0
KMAX_MAP 1 400000000000 3200
KMIN_MAP 1 400000000000 800
PMAX_MAP 1 400000000000 0.2
BUFFER_SIZE 32
"""


class RaceError(Exception):
    """A program failed."""


@dataclass(frozen=True)
class Workload:
    """A collective operation of all ranks."""

    collective: str
    ranks: int
    size: int
    #: Bytes of a packet of Silvan and ns-3 without its header.
    mtu: int

    def closed_form_ns(self) -> float:
        """Return the time without headers and overheads."""
        message_ns = self.size / self.ranks / RATE
        if self.collective == "all_reduce":
            return 2 * (self.ranks - 1) * (message_ns + LATENCY_NS)
        return (self.ranks - 1) * message_ns + LATENCY_NS

    def silvan_ns(self) -> int:
        """Return the time with the headers of Silvan, and the delays and whole nanoseconds of ASTRA-sim.

        Each step of the all-reduce starts at a whole nanosecond, after the delay of the rank. A rank also has
        this delay before the first step. In the all-to-all, it has the delay before and after all messages.
        """
        message = self.size // self.ranks
        message_ns = Fraction(message + -(-message // self.mtu) * HEADER, RATE)
        if self.collective == "all_reduce":
            return 2 * (self.ranks - 1) * (math.ceil(message_ns + LATENCY_NS) + ENDPOINT_NS) + ENDPOINT_NS
        return math.ceil((self.ranks - 1) * message_ns + LATENCY_NS) + 2 * ENDPOINT_NS


def varint(number: int) -> bytes:
    """Return a number in the variable-length encoding of protocol buffers."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def field(number: int, value: int | str | bytes) -> bytes:
    """Return a field of a message of protocol buffers."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def trace(workload: Workload) -> bytes:
    """Return the trace of a rank: metadata, and one node, which is the operation."""
    attributes = [
        field(1, "is_cpu_op") + field(27, 0),
        field(1, "comm_type") + field(9, COLLECTIVES[workload.collective][0]),
        field(1, "comm_size") + field(9, workload.size),
    ]
    mebibytes = workload.size // 2**20
    name = f"{workload.collective}_{workload.ranks}npus_{mebibytes}MB"
    collective_node = 7
    # The examples of ASTRA-sim number the nodes of all ranks; the number 0 is always right.
    node = field(2, name) + field(3, collective_node) + b"".join(field(10, one) for one in attributes)
    messages = [field(1, "0.0.4"), node]
    return b"".join(varint(len(message)) + message for message in messages)


def write(workload: Workload, folder: Path) -> None:
    """Write the files of all programs for a workload."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(workload.ranks):
        (folder / f"trace.{rank}.et").write_bytes(trace(workload))
    algorithm = [COLLECTIVES[workload.collective][1]]
    system = {
        "scheduling-policy": "LIFO",
        "endpoint-delay": ENDPOINT_NS,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 1,
        "all-reduce-implementation": algorithm,
        "all-to-all-implementation": algorithm,
        "all-gather-implementation": ["ring"],
        "reduce-scatter-implementation": ["ring"],
        "collective-optimization": "localBWAware",
        "local-mem-bw": 1e15,
        "boost-mode": 0,
    }
    (folder / "system.json").write_text(json.dumps(system))
    (folder / "memory.json").write_text(json.dumps({"memory-type": "NO_MEMORY_EXPANSION"}))
    (folder / "silvan.toml").write_text(
        SCENARIO.format(ranks=workload.ranks, mtu=workload.mtu, header=HEADER)
    )
    (folder / "htsim.topo").write_text(
        HTSIM_TOPOLOGY.format(ranks=workload.ranks, uplinks=workload.ranks // 4)
    )
    (folder / "ns3.txt").write_text(NS3_CONFIGURATION.format(folder=folder.resolve(), mtu=workload.mtu))
    (folder / "ns3-none.txt").write_text("0\n")
    (folder / "ns3-dimensions.json").write_text(json.dumps({"logical-dims": [str(workload.ranks)]}))
    links = [f"{workload.ranks} {rank} 400Gbps 0.00025ms 0" for rank in range(workload.ranks)]
    heads = [f"{workload.ranks + 1} 1 {workload.ranks}", str(workload.ranks)]
    (folder / "ns3-topology.txt").write_text("\n".join([*heads, *links]) + "\n")
    kind, latency = (
        ("Ring", LATENCY_NS) if workload.collective == "all_reduce" else ("Switch", LATENCY_NS / 2)
    )
    (folder / "analytical.yml").write_text(
        f"topology: [ {kind} ]\nnpus_count: [ {workload.ranks} ]\n"
        f"bandwidth: [ {RATE / ANALYTICAL_GB!r} ]\nlatency: [ {latency:.1f} ]\n"
    )


def command(network: str, program: Path, folder: Path) -> list[str]:
    """Return the command that simulates the workload of a folder with a network."""
    file = {"silvan": "silvan.toml", "ns3": "ns3.txt"}.get(network, "analytical.yml")
    words = [
        str(program),
        f"--workload-configuration={folder / 'trace'}",
        f"--system-configuration={folder / 'system.json'}",
        f"--remote-memory-configuration={folder / 'memory.json'}",
        f"--network-configuration={folder / file}",
    ]
    if network == "htsim":
        words += ["--htsim_opts", "-topo", str(folder / "htsim.topo"), "-o", str(folder / "htsim.dat")]
    if network == "ns3":
        words.append(f"--logical-topology-configuration={folder / 'ns3-dimensions.json'}")
    return words


def simulated(words: Sequence[str], folder: Path, ranks: int) -> tuple[int, float]:
    """Run a program; return the end of the last rank in ns, and the CPU time in seconds."""
    log = folder / "output.txt"
    with log.open("w") as output:
        process = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, cwd=folder)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    text = log.read_text(errors="replace")
    ends = [int(end) for end in re.findall(r"finished, (\d+) cycles", text)]
    if process.returncode != 0 or len(ends) != ranks:
        tail = "\n".join(text.splitlines()[-5:])
        raise RaceError(f"{len(ends)} of {ranks} ranks have finished in {' '.join(words)}\n{tail}")
    return max(ends), usage.ru_utime + usage.ru_stime


def race(
    workload: Workload, programs: dict[str, Path], out: Path, rounds: int
) -> dict[str, tuple[int, float]]:
    """Return the simulated time and the smallest CPU time of each program, which run in turns."""
    folder = (out / f"{workload.collective}-{workload.ranks}").resolve()
    write(workload, folder)
    found: dict[str, tuple[int, float]] = {}
    for _ in range(rounds):
        for name, program in programs.items():
            end, cpu_s = simulated(command(name, program, folder), folder, workload.ranks)
            if name == "silvan" and end != workload.silvan_ns():
                raise RaceError(f"{workload} takes {end} ns with Silvan instead of {workload.silvan_ns()} ns")
            found[name] = end, min(cpu_s, found.get(name, (0, cpu_s))[1])
    return found


def rows(options: argparse.Namespace, programs: dict[str, Path]) -> Iterator[str]:
    """Yield the lines of the table."""
    heads = [f"{name}, ns | {name}, s" for name in programs]
    yield f"| collective | ranks | closed form, ns | {' | '.join(heads)} |"
    yield "| --- |" + " --- |" * (2 + 2 * len(programs))
    for collective in COLLECTIVES:
        for ranks in options.ranks:
            workload = Workload(collective, ranks, options.size, options.mtu)
            found = race(workload, programs, options.out, options.rounds)
            cells = [f"{end:,} | {cpu_s:.2f}" for end, cpu_s in found.values()]
            name = collective.replace("_", "-")
            yield f"| {name} | {ranks} | {workload.closed_form_ns():,.1f} | {' | '.join(cells)} |"


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("silvan", "analytical", "htsim", "ns3"):
        parser.add_argument(f"--{name}", type=Path, help="the program; without it, this network is left out")
    parser.add_argument("--ranks", type=int, nargs="+", default=[4, 8, 16, 32, 64])
    parser.add_argument("--size", type=int, default=2**20, help="bytes of each rank")
    parser.add_argument("--mtu", type=int, default=4096, help="bytes of a packet of Silvan and ns-3")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("out/astra"))
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Run the program; return the exit status."""
    options = arguments(words)
    every = {name: getattr(options, name) for name in ("analytical", "htsim", "ns3", "silvan")}
    programs = {name: path.resolve() for name, path in every.items() if path}
    if not programs:
        print("name at least one program: --silvan, --analytical, --htsim or --ns3", file=sys.stderr)
        return 2
    try:
        for line in rows(options, programs):
            print(line, flush=True)
    except (OSError, RaceError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
