"""Testbed: HPC Challenge with a congestion tree (Paper III, VI, table III)."""

import tempfile
from pathlib import Path

import numpy as np

import silvan
from silvan.papers import common, figures

staged = common("staged")

TABLES = ("messages",)
SCENARIO = "../common/testbed-scenario-1.toml"
NONE = {"congestion.mechanism": "none"}
CASES = {"a": (False, NONE), "b": (True, NONE), "c": (True, staged.HARDWARE_CC)}
CONTRIBUTORS = ("H2", "H3", "H6")
#: The overhead of a message, fitted to case (a): see `published.toml`.
OVERHEAD = "820 ns"
#: The overhead of messages between ranks of one host in the ping-pong. In the rings, these messages have the
#: usual overhead, because there a rank also waits for a message from the network.
SAME_HOST_OVERHEAD = "566 ns"
#: The overhead of messages of a ring that sends in both directions at the same time.
AT_ONCE_OVERHEAD = "1020 ns"
#: Sends of messages above this size wait for the receiver. Fitted to RandomAccess in (b), whose messages have
#: 2 KiB.
RENDEZVOUS = "1 KiB"
#: Rates of copies between ranks of a host: as published for the ping-pong, and while the host also uses the
#: network.
MEMORY_MB_S, SHARED_MEMORY_MB_S = 880.5, 624
UPDATE_NS = 252.4
SHORT, LONG = 8, 2_000_000
ITERATIONS = {SHORT: 20, LONG: 4}
#: The three orders of a ring of four ranks. In the natural one, all neighbors are on the other host. In the
#: two others, which the seeds select, each rank has one neighbor on its own host.
RINGS = {
    "natural": {"kernel": "natural-ring"},
    "second": {"kernel": "random-ring", "seed": 2},
    "third": {"kernel": "random-ring", "seed": 3},
}
#: The same three orders as lists of ranks.
ORDERS = {"natural": (0, 1, 2, 3), "second": (0, 2, 1, 3), "third": (0, 1, 3, 2)}
N, NB, POINTS, MESSAGES = 1000, 80, 1 << 17, 1536
UPDATES = 1 << 21
KERNELS = {
    "ptrans": {"kernel": "ptrans", "n": N // 2, "nb": NB, "flops": 26.7e6},
    "hpl": {"kernel": "hpl", "n": N, "nb": NB, "flops": 524e6},
    "fft": {"kernel": "fft", "points": POINTS, "flops": 431e6},
    "ra": {"kernel": "random-access", "messages": MESSAGES, "blocking": True},
}


def _programs():
    for size in (SHORT, LONG):
        common = {"bytes": size, "iterations": ITERATIONS[size]}
        yield f"ping-pong {size}", 1, {"kernel": "ping-pong", "ranks": 2, "pairs": 1, **common}
        for name, ring in RINGS.items():
            yield f"{name} {size}", 2, {"ranks": 4, **ring, **common}
    # Two ranks on one host.
    same = {"kernel": "ping-pong", "ranks": 2, "pairs": 1, "bytes": SHORT, "iterations": ITERATIONS[SHORT]}
    yield "same host", 2, same
    for name, sizes in KERNELS.items():
        yield name, 2, {"ranks": 4, **sizes}


def runs(quick):
    every = {}
    for case, (congested, control) in CASES.items():
        contributors = [
            {"name": f"F{n}", "from": host, "to": "H5", "message": "64 KiB"}
            for n, host in enumerate(CONTRIBUTORS, 2)
        ]
        for name, ranks_per_host, sizes in _programs():
            job = {
                "name": "HPCC",
                "program": {"kind": "hpc-challenge", **sizes},
                "hosts": ["H1", "H4"],
                "ranks_per_host": ranks_per_host,
                "sharing": "cyclic" if ranks_per_host > 1 else "block",
                "start": "100 ms" if congested else "1 ms",
                "overhead": SAME_HOST_OVERHEAD if name == "same host" else OVERHEAD,
                "rendezvous_above": RENDEZVOUS,
                "memory_rate": f"{SHARED_MEMORY_MB_S} MB/s",
            }
            parts = {
                "duration": "2 s",
                "flow": contributors if congested else [],
                "job": [job],
                **staged.SWITCHES,
                **control,
            }
            every[f"{case} {name}"] = (SCENARIO, parts)
            if name.removesuffix(f" {SHORT}") in ORDERS:
                at_once = {**parts, "job": [{**job, "overhead": AT_ONCE_OVERHEAD}]}
                order = ORDERS[name.split()[0]]
                every[f"{case} {name} at once"] = ("at_once", {"parts": at_once, "order": order})
    return every


def at_once(parts, order, repeat):
    """Simulate a ring whose ranks send to both neighbors at the same time.

    Return the part of the summary about jobs.
    """
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "ring.goal"
        trace.write_text(_ring(order), encoding="utf-8")
        (job,) = parts["job"]
        parts = {**parts, "job": [{**job, "program": {"kind": "trace", "file": str(trace)}}]}
        scenario = silvan.Scenario.load(str(Path(__file__).parent / SCENARIO), parts)
        run = silvan.run(scenario.with_overrides({"seed": scenario.seed + repeat}))
    return {"jobs": run.summary["jobs"]}


def _ring(order):
    """Return the trace of a ring in the format GOAL. Messages to the right have tag 1, to the left 2."""
    lines = [f"num_ranks {len(order)}"]
    for place, rank in enumerate(order):
        left, right = order[place - 1], order[(place + 1) % len(order)]
        lines.append(f"rank {rank} {{")
        for n in range(ITERATIONS[SHORT]):
            both = (f"recv {SHORT}b from {left} tag 1", f"recv {SHORT}b from {right} tag 2")
            both += (f"send {SHORT}b to {right} tag 1", f"send {SHORT}b to {left} tag 2")
            lines += [f"i{n}o{part}: {what}" for part, what in enumerate(both)]
            if n:
                lines += [
                    f"i{n}o{part} requires i{n - 1}o{before}" for part in range(4) for before in range(4)
                ]
        lines.append("}")
    return "\n".join(lines) + "\n"


def _span_s(run):
    (job,) = run.summary["jobs"]
    if job["finished_ns"] is None:
        raise ValueError("a kernel did not end")
    return job["span_ns"] * 1e-9


def _one_way_s(run, size):
    """Return half the mean round trip of the ping-pong, in s.

    A round trip is the time from one message to the second message after it.
    """
    table = run.tables["messages"]
    handed = np.sort(table["handed_ns"][table["bytes"] == size])
    return float(np.diff(handed[::2]).mean()) / 2 * 1e-9


def _ring_s(runs, size):
    """Return the time of one message of a ring, in s.

    All ranks send to the right and then to the left, or to both sides at the same time, and the shorter time
    counts. Long messages are only sent to the right and then to the left.
    """
    return min(map(_span_s, runs)) / (2 * ITERATIONS[size])


def _case(results, case):
    def of(name):
        return results[f"{case} {name}"]

    rings = {
        SHORT: [_ring_s([of(f"{name} {SHORT}"), of(f"{name} {SHORT} at once")], SHORT) for name in RINGS],
        LONG: [_ring_s([of(f"{name} {LONG}")], LONG) for name in RINGS],
    }
    between = _one_way_s(of("ping-pong 8"), SHORT)
    # Messages between ranks of a host take only the overheads at both ends.
    same = _span_s(of("same host")) / (2 * ITERATIONS[SHORT] + 1)
    bandwidth = LONG / _one_way_s(of(f"ping-pong {LONG}"), LONG) * 1e-6
    of_all = [MEMORY_MB_S] * 2 + [bandwidth] * 4
    update_s = UPDATES / 4 * UPDATE_NS * 1e-9
    return {
        "latency_min": same * 1e6,
        "latency_avg": (2 * same + 4 * between) / 6 * 1e6,
        "latency_max": between * 1e6,
        "natural_latency": rings[SHORT][0] * 1e6,
        "random_latency": np.mean(rings[SHORT]) * 1e6,
        "bandwidth_min": min(of_all),
        "bandwidth_avg": np.mean(of_all),
        "bandwidth_max": max(of_all),
        "natural_bandwidth": LONG / rings[LONG][0] * 1e-6,
        "random_bandwidth": np.mean([LONG / time for time in rings[LONG]]) * 1e-6,
        "ptrans": 8 * (N // 2) ** 2 / _span_s(of("ptrans")) * 1e-9,
        "hpl": (2 / 3 * N**3 + 3 / 2 * N**2) / _span_s(of("hpl")) * 1e-9,
        "ra": UPDATES / (_span_s(of("ra")) + update_s) * 1e-9,
        "fft": 5 * POINTS * np.log2(POINTS) / _span_s(of("fft")) * 1e-9,
    }


def compare(results):
    cases = {case: {name: float(value) for name, value in _case(results, case).items()} for case in CASES}
    numbers = {f"{case}_{name}": value for case, own in cases.items() for name, value in own.items()}
    a, b, c = cases.values()
    for name, with_control in c.items():
        ratio = with_control / b[name]
        numbers[f"gain_{name}"] = 100 * (1 - ratio if "latency" in name else ratio - 1)
    numbers["ring_latency_rise"] = 100 * (b["random_latency"] / a["random_latency"] - 1)
    numbers["ring_latency_left"] = c["random_latency"] / a["random_latency"]
    numbers["ring_bandwidth_drop"] = 100 * (1 - b["random_bandwidth"] / a["random_bandwidth"])
    return numbers


#: The quantities of each row of panels, by their unit.
PANELS = {
    "latency (us)": ("latency_avg", "latency_max", "natural_latency", "random_latency"),
    "bandwidth (MB/s)": ("bandwidth_avg", "bandwidth_min", "natural_bandwidth", "random_bandwidth"),
    "relative to (a)": ("ptrans", "hpl", "ra", "fft"),
}
LABELS = (
    ("ping-pong\naverage", "ping-pong\nmost", "natural\nring", "random\nring"),
    ("ping-pong\naverage", "ping-pong\nleast", "natural\nring", "random\nring"),
    ("PTRANS", "HPL", "Random-\nAccess", "FFT"),
)
PUBLISHED = {
    "latency_avg": (1.678, 12.385, 1.729),
    "latency_max": (1.957, 18.001, 2.056),
    "natural_latency": (2.193, 11.396, 2.098),
    "random_latency": (2.036, 11.088, 2.073),
    "bandwidth_avg": (1354.0, 733.2, 1360.3),
    "bandwidth_min": (880.5, 663.2, 876.0),
    "natural_bandwidth": (742.5, 213.7, 743.8),
    "random_bandwidth": (684.7, 350.4, 683.5),
    "ptrans": (0.755, 0.348, 0.612),
    "hpl": (1.819, 1.790, 1.827),
    "ra": (0.01512, 0.01195, 0.01441),
    "fft": (1.377, 0.982, 1.369),
}
TITLES = {"a": "no congestion", "b": "congestion, control off", "c": "congestion, control on"}


def plot(results, out):
    numbers = compare(results)
    fig, axes = figures.figure(columns=3, rows=3, size=(4.6, 3.0))
    panels = iter(axes)
    for row, (unit, keys) in enumerate(PANELS.items()):
        for n, case in enumerate(CASES):
            ax = next(panels)
            published = [PUBLISHED[key][n] for key in keys]
            simulated = [numbers[f"{case}_{key}"] for key in keys]
            if row == 2:
                published = [value / PUBLISHED[key][0] for key, value in zip(keys, published, strict=True)]
                simulated = [value / numbers[f"a_{key}"] for key, value in zip(keys, simulated, strict=True)]
            figures.beside(ax, LABELS[row], published, simulated)
            ax.set(ylabel=unit, title=f"({case}) {TITLES[case]}")
    figures.save(fig, out, "T9")
