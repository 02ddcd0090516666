"""Compares Silvan with SimAI's ns-3: the same collective operations on the same network.

    python tools/simai_race.py --simai SimAI/bin/SimAI_simulator --out out/simai

Both programs read the same topology (SimAI's format) and the same workload (AICB's format). The operations
are all-reduces by ring. The numbers in the names of cases are those of GPUs:

- `server-8`: 16 MiB (`microAllReduce`) at an NVSwitch with 2,880 Gbit/s;
- `ring-16`, `ring-32`, `ring-64`: 64 MiB at one switch with ports of 400 Gbit/s;
- `layer-16`, `layer-64`, `layer-128`: the gradients of a layer of GPT-13B, of which each GPU of a server has
  an eighth, between servers with 8 GPUs and 8 rails of 200 Gbit/s;
- `shared-16`: the same gradients, between two servers, each at a switch with 400 Gbit/s per GPU, and one link
  of 1,600 Gbit/s between the switches.

All have DCQCN, pause frames, and packets of 1,000 bytes (`server-8`: 9,000 bytes). Only `shared-16` has
congestion. Neither program has a send latency. In SimAI's ns-3, a receiver gets its message when the last
acknowledgement has reached the sender.

With `--simai`, the programs run in turns: A B, B A, A B. Without it, only Silvan runs. For each case, the
program prints the simulated times, the CPU times and the peak memory of the processes.

SimAI's build is a debug build by default. For a comparison of speed, use the optimized profile of ns-3.
`docs/astra.md` has the results.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ns3_race import MECHANISMS, RaceError, Run, in_turns, measured

MIB = 2**20
#: Bytes of the gradients of a GPU for a layer of GPT-13B: 12 matrices of 5,120 times 5,120 numbers of two
#: bytes, divided among 8 GPUs.
LAYER = 12 * 5120**2 * 2 // 8
#: Bytes of headers, and of an acknowledgement.
HEADER, ACK = MECHANISMS["dcqcn"].header, MECHANISMS["dcqcn"].control
#: Links to NVSwitches.
NV_GBIT_S, NV_DELAY_NS = 2880, 25


@dataclass(frozen=True)
class Case:
    """A collective operation and its network."""

    name: str
    gpus: int
    #: GPUs of a server with an NVSwitch.
    per_server: int
    #: Whether the GPUs of a server perform the operation (tensor parallelism), or those with the same number
    #: in all servers (data parallelism).
    is_inside: bool
    #: GPUs of a tensor-parallel group.
    tensor: int
    #: Bytes of each GPU.
    size: int
    #: Payload of a packet.
    mtu: int
    #: The rate of a port of a GPU in Gbit/s.
    gbit_s: int
    link_delay_ns: int
    #: The rate of the link between two switches in Gbit/s; 0: a switch per GPU of a server.
    trunk_gbit_s: int = 0

    @property
    def servers(self) -> int:
        """The number of servers."""
        return self.gpus // self.per_server

    @property
    def ranks(self) -> int:
        """The number of ranks in a ring."""
        return self.tensor if self.is_inside else self.gpus // self.tensor

    def closed_form_ns(self) -> float:
        """Return the time of a ring without headers and acknowledgements, on links that are not shared."""
        rate, delay = (NV_GBIT_S, NV_DELAY_NS) if self.is_inside else (self.gbit_s, self.link_delay_ns)
        links = 2
        byte_ns = 8 / rate
        if self.trunk_gbit_s:
            links, byte_ns = 3, max(byte_ns, 8 * self.gpus / 2 / self.trunk_gbit_s)
        return 2 * (self.ranks - 1) * (self.size / self.ranks * byte_ns + links * delay)

    def packets(self) -> Case:
        """Return the case for Silvan, in which only links between hosts and switches have packets."""
        if not self.is_inside:
            return self
        return dataclasses.replace(self, per_server=1, gbit_s=NV_GBIT_S, link_delay_ns=NV_DELAY_NS)

    def topology(self) -> str:
        """Return the network in SimAI's format: GPUs, NVSwitches, switches."""
        first = self.gpus + self.servers
        count = 2 if self.trunk_gbit_s else self.per_server
        links = []
        for gpu in range(self.gpus):
            at = gpu * 2 // self.gpus if self.trunk_gbit_s else gpu % self.per_server
            links.append((gpu, first + at, self.gbit_s, self.link_delay_ns))
        for gpu in range(self.gpus):
            links.append((gpu, self.gpus + gpu // self.per_server, NV_GBIT_S, NV_DELAY_NS))
        if self.trunk_gbit_s:
            links.append((first, first + 1, self.trunk_gbit_s, self.link_delay_ns))
        heads = [
            f"{first + count} {self.per_server} {self.servers} {count} {len(links)} A100",
            " ".join(str(number) for number in range(self.gpus, first + count)),
        ]
        rows = [f"{one} {other} {rate}Gbps {delay / 1e6:.6f}ms 0" for one, other, rate, delay in links]
        return "\n".join([*heads, *rows]) + "\n"

    def workload(self) -> str:
        """Return the operation as a layer of a workload in AICB's format."""
        groups = f"model_parallel_NPU_group: {self.tensor} ep: 1 pp: 1 vpp: 1 ga: 1 all_gpus: {self.gpus}"
        forward, weights = ("ALLREDUCE", "NONE") if self.is_inside else ("NONE", "ALLREDUCE")
        sizes = (self.size, 0) if self.is_inside else (0, self.size)
        return (
            f"HYBRID_TRANSFORMER_FWD_IN_BCKWD {groups} checkpoints: 0 checkpoint_initiates: 0\n1\n"
            f"layer -1 1 {forward} {sizes[0]} 1 NONE 0 1 {weights} {sizes[1]} 1\n"
        )


CASES = (
    Case("server-8", 8, 8, True, 8, 16 * MIB, 9000, 400, 500),
    *(Case(f"ring-{ranks}", ranks, 1, False, 1, 64 * MIB, 1000, 400, 500) for ranks in (16, 32, 64)),
    *(Case(f"layer-{gpus}", gpus, 8, False, 8, LAYER, 1000, 200, 500) for gpus in (16, 64, 128)),
    Case("shared-16", 16, 8, False, 8, LAYER, 1000, 400, 500, 1600),
)

SCENARIO = """\
# {name}, written by tools/simai_race.py.
name = "simai-{name}"
duration = "1 s"
end_with_jobs = true

[topology]
kind = "file"
file = "topology-silvan.txt"

[routing]
kind = "shortest-path"

[packet]
mtu = "{mtu} B"
header = "{header} B"
control = "{control} B"

[switch]
latency = "0 ns"
arbitration = "fcfs"

[host]
buffer = "1 MiB"

[flow_control]
kind = "pfc"
shared = {{ memory = "32 MiB", alpha_shift = 3, alpha_by_rate = true, reserve = "4 KiB" }}

[congestion]
notification = "ack-each"
reaction = {{ kind = "dcqcn", set = "tuned" }}

[congestion.marking]
kind = "red"
thresholds = [
{thresholds}]

[measure]
interval = "10 ms"
hosts = false
links = false
classes = false
forest = false

[[job]]
name = "job"
algorithms = {{ all_reduce = "ring" }}
{ranks_per_host}program = {{ kind = "trace", file = "workload.txt", format = "workload" }}
"""

#: The configuration file of SimAI: parameters of its own file, but those of DCQCN are the defaults of Silvan.
CONFIGURATION = """\
ENABLE_QCN 1
USE_DYNAMIC_PFC_THRESHOLD 1
PACKET_PAYLOAD_SIZE {mtu}
FLOW_FILE {folder}/none.txt
TRACE_FILE {folder}/none.txt
TRACE_OUTPUT_FILE {folder}/trace.tr
FCT_OUTPUT_FILE {folder}/fct.txt
PFC_OUTPUT_FILE {folder}/pfc.txt
SIMULATOR_STOP_TIME 40000000000000.00
CC_MODE 1
ALPHA_RESUME_INTERVAL 1
RATE_DECREASE_INTERVAL 4
CLAMP_TARGET_RATE 0
RP_TIMER 300
EWMA_GAIN 0.00390625
FAST_RECOVERY_TIMES 1
RATE_AI 20Mb/s
RATE_HAI 200Mb/s
MIN_RATE 1000Mb/s
DCTCP_RATE_AI 1000Mb/s
ERROR_RATE_PER_LINK 0.0000
L2_CHUNK_SIZE 4000
L2_ACK_INTERVAL 1
L2_BACK_TO_ZERO 0
HAS_WIN 0
GLOBAL_T 0
VAR_WIN 0
FAST_REACT 0
U_TARGET 0.95
MI_THRESH 0
INT_MULTI 1
MULTI_RATE 0
SAMPLE_FEEDBACK 0
PINT_LOG_BASE 1.05
PINT_PROB 1.0
RATE_BOUND 1
ACK_HIGH_PRIO 0
LINK_DOWN 0 0 0
ENABLE_TRACE 0
KMAX_MAP {kmax}
KMIN_MAP {kmin}
PMAX_MAP {pmax}
BUFFER_SIZE 32
QLEN_MON_FILE {folder}/qlen.txt
BW_MON_FILE {folder}/bandwidth.txt
RATE_MON_FILE {folder}/rate.txt
CNP_MON_FILE {folder}/cnp.txt
MON_START 0
MON_END 0
QP_MON_INTERVAL 1000000000
QLEN_MON_INTERVAL 1000000000
BW_MON_INTERVAL 1000000000
"""


def thresholds(case: Case) -> dict[int, tuple[int, int]]:
    """Return the thresholds of marking in kB by rate in Gbit/s: 4 kB and 16 kB per Gbit/s, as in HPCC."""
    rates = {case.gbit_s, case.trunk_gbit_s, NV_GBIT_S} - {0}
    return {rate: (4 * rate, 16 * rate) for rate in sorted(rates)}


def write(case: Case, folder: Path) -> None:
    """Write the files of both programs."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "topology-simai.txt").write_text(case.topology())
    (folder / "topology-silvan.txt").write_text(case.packets().topology())
    (folder / "workload.txt").write_text(case.workload())
    (folder / "none.txt").write_text("0\n")
    marks = thresholds(case)
    row = '  {{ rate = "{0} Gbit/s", min = "{1} kB", max = "{2} kB", percent = 20 }},\n'
    per_host = case.packets().per_server
    ranks_per_host = f"ranks_per_host = {per_host}\n" if per_host > 1 else ""
    (folder / "silvan.toml").write_text(
        SCENARIO.format(
            name=case.name, mtu=case.mtu, header=HEADER, control=ACK, ranks_per_host=ranks_per_host,
            thresholds="".join(row.format(rate, *limits) for rate, limits in marks.items()),
        )
    )  # fmt: skip

    def table(values: dict[int, float]) -> str:
        return " ".join([str(len(values)), *(f"{rate}000000000 {value}" for rate, value in values.items())])

    (folder / "simai.conf").write_text(
        CONFIGURATION.format(
            folder=folder, mtu=case.mtu,
            kmin=table({rate: low for rate, (low, _) in marks.items()}),
            kmax=table({rate: high for rate, (_, high) in marks.items()}),
            pmax=table(dict.fromkeys(marks, 0.2)),
        )
    )  # fmt: skip


def of_simai(program: Path, folder: Path) -> Run:
    """Run SimAI; its output is in a file of the folder."""
    words: list[str | Path] = [
        "env", "AS_SEND_LAT=0", program,
        "-t", "1",
        "-w", folder / "workload.txt",
        "-n", folder / "topology-simai.txt",
        "-c", folder / "simai.conf",
    ]  # fmt: skip
    return measured(words, folder / "simai.log", cwd=folder)


def time_of_simai(log: Path) -> int:
    """Return the time in ns at which the last GPU has finished, from SimAI's output."""
    text = log.read_text(errors="replace")
    ends = [int(end) for end in re.findall(r"all passes finished at time: (\d+)", text)]
    if not ends:
        raise RaceError(f"SimAI has not finished; its output is in {log}")
    return max(ends)


def time_of_silvan(folder: Path) -> float:
    """Return the time in ns at which the job of a run has finished."""
    (job,) = json.loads((folder / "summary.json").read_text())["jobs"]
    if job["finished_ns"] is None:
        raise RaceError(f"the job has not finished in {folder}")
    return float(job["finished_ns"])


def race(case: Case, options: argparse.Namespace) -> str:
    """Run a case in both programs; return a row of the table. Raises :class:`RaceError`."""
    folder = options.out.resolve() / case.name
    write(case, folder)
    result, scenario = folder / "silvan", folder / "silvan.toml"
    own = [options.silvan, "run", scenario, "--out", result, "--force"]
    programs: dict[str, Callable[[], Run]] = {}
    if options.simai:
        programs["simai"] = lambda: of_simai(options.simai, folder)
    programs["silvan"] = lambda: measured(own, folder / "silvan.log")
    runs = in_turns(programs, options.pairs)
    times = {"silvan": time_of_silvan(result)}
    if options.simai:
        times["simai"] = time_of_simai(folder / "simai.log")
    cells = [case.name, f"{case.closed_form_ns():,.0f}"]
    for name in programs:
        cpu_s, memory = (min(run.cpu_s for run in runs[name]), max(run.memory_mb for run in runs[name]))
        cells += [f"{times[name]:,.0f}", f"{cpu_s:.2f}", f"{memory:.0f}"]
    if options.simai:
        ratios = [one.cpu_s / two.cpu_s for one, two in zip(runs["simai"], runs["silvan"], strict=True)]
        cells += [f"{100 * (times['silvan'] / times['simai'] - 1):+.2f} %", f"{min(ratios):.1f}"]
    return f"| {' | '.join(cells)} |"


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simai", type=Path, help="SimAI's program; without it, only Silvan runs")
    default = Path(sys.executable).parent / "silvan"
    parser.add_argument("--silvan", type=Path, default=default, help="the program of Silvan")
    names = [case.name for case in CASES]
    parser.add_argument("--case", nargs="+", choices=names, default=names)
    parser.add_argument("--pairs", type=int, default=3, help="runs of each program (3)")
    parser.add_argument("--out", type=Path, default=Path("out/simai-race"), help="folder of all files")
    options = parser.parse_args(words)
    if options.simai and not options.simai.is_file():
        parser.error(f"--simai {options.simai}: no such file")
    if options.simai:
        options.simai = options.simai.resolve()
    return options


def main(words: Sequence[str] | None = None) -> int:
    """Run all cases; return the exit status."""
    options = arguments(words)
    heads = ["case", "closed form, ns"]
    for name in ("ns-3", "Silvan") if options.simai else ("Silvan",):
        heads += [f"{name}, ns", f"{name}, s", f"{name}, MB"]
    heads += ["difference", "worst ratio of times"] if options.simai else []
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}", flush=True)
    try:
        for case in CASES:
            if case.name in options.case:
                print(race(case, options), flush=True)
    except (OSError, RaceError) as error:
        print(f"simai_race: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
