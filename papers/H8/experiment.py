"""Execution time of HPC Challenge on network 2, alone and with hot senders (Paper VI, figure 8)."""

import random

import numpy as np

from silvan.papers import common, figures

hybrid = common("hybrid")

TABLES = ()
NETWORK = hybrid.NETWORKS[2]
#: The overhead that was calibrated on the testbed (T9), and the size above which sends wait for the receiver.
#: All messages are longer.
OVERHEAD, RENDEZVOUS = "820 ns", "12 KiB"
#: The benchmark runs on the paper's even nodes. The paper counts nodes from 0, so they are H1, H3, ...
EVEN = [f"H{node + 1}" for node in range(0, NETWORK.hosts, 2)]
ODD = [f"H{node + 1}" for node in range(1, NETWORK.hosts, 2)]
#: Programs of full runs. Quick runs exchange a quarter of the data: see `QUICK`.
PROGRAMS = {
    "mpifft": {"kernel": "fft", "points": 1 << 20, "flops": 1e9},
    "natural ring": {"kernel": "natural-ring", "bytes": 2_000_000, "iterations": 1},
    "ptrans": {"kernel": "ptrans", "n": 4096, "nb": 64, "flops": 1e9},
}
#: Numbers of hot senders and of hotspots. The hotspot of SC2 is node 123, as in the paper. Those of SC3 are
#: drawn from the odd nodes, because a rank on a hotspot would get only 1/65 of the rate of its link.
SCENARIOS = {"SC1": (0, 0), "SC2": (32, 1), "SC3": (64, 4)}
NODE_123 = "H124"
TOO_LONG = "100 ms"
QUICK = {
    "mpifft": {"points": 1 << 18},
    "natural ring": {"bytes": 500_000},
    "ptrans": {"n": 2048},
}


def _hot(scenario):
    senders, hotspots = SCENARIOS[scenario]
    draw = random.Random(f"{scenario} of {NETWORK.hosts} hosts")
    targets = [NODE_123] if hotspots == 1 else draw.sample(ODD, hotspots)
    return sorted(draw.sample([host for host in ODD if host not in targets], senders), key=ODD.index), targets


def _traffic(scenario):
    senders, targets = _hot(scenario)
    return [
        {"name": f"hot {target}", "hosts": senders, "pattern": {"kind": "hotspots", "to": [target]}}
        for target in targets
    ]


def runs(quick):
    return {
        f"{scenario} {program} {name}": (
            "../common/hybrids-hotspots.toml",
            {
                **own,
                **NETWORK.overrides(own),
                "duration": TOO_LONG,
                "traffic": _traffic(scenario),
                "measure.forest": False,
                "job": [
                    {
                        "name": program,
                        "program": {
                            "kind": "hpc-challenge",
                            "ranks": len(EVEN),
                            **sizes,
                            **(QUICK[program] if quick else {}),
                        },
                        "hosts": EVEN,
                        "overhead": OVERHEAD,
                        "rendezvous_above": RENDEZVOUS,
                    }
                ],
            },
        )
        for scenario in SCENARIOS
        for program, sizes in PROGRAMS.items()
        for name, own in hybrid.PAPER_VI.items()
    }


def _time_ns(results, scenario, program, name):
    (job,) = results[f"{scenario} {program} {name}"].summary["jobs"]
    return float("nan") if job["finished_ns"] is None else job["span_ns"]


def _relative(results, scenario, program, name, to="1VL"):
    return _time_ns(results, scenario, program, name) / _time_ns(results, scenario, program, to)


def compare(results):
    numbers = {
        f"{scenario}_{program}_{name}": _relative(results, scenario, program, name)
        for scenario in ("SC1", "SC2")
        for program in ("natural ring", "ptrans")
        for name in ("VOQnet", "EcoCC", "HFDI")
    }
    for scenario in SCENARIOS:
        others = [_relative(results, scenario, "mpifft", name) for name in hybrid.PAPER_VI]
        numbers[f"{scenario}_mpifft"] = min(others) / max(others)
    for scenario in ("SC2", "SC3"):
        numbers[f"{scenario}_EcoCC_over_HFDI"] = _relative(results, scenario, "ptrans", "EcoCC", "HFDI")
    return numbers


def plot(results, out):
    fig, axes = figures.figure(columns=3, size=(4.6, 3.4))
    at = np.arange(len(PROGRAMS))
    for ax, scenario in zip(axes, SCENARIOS, strict=True):
        for n, name in enumerate(hybrid.PAPER_VI):
            times = [_relative(results, scenario, program, name) for program in PROGRAMS]
            ax.bar(at + 0.16 * (n - 2), times, 0.15, color=figures.COLOURS[n], label=name)
        ax.set_xticks(at, list(PROGRAMS))
        ax.set(title=scenario, ylabel="execution time over that of 1VL")
        ax.grid(False, axis="x")
    axes[0].legend(frameon=False, fontsize="small", ncols=2, loc="lower right")
    figures.save(fig, out, "H8")
