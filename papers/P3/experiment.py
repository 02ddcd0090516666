"""A ring all-reduce with one to 16 queue pairs per pair of hosts, and with MRC."""

from silvan.papers import figures

TABLES = ()

SCENARIO = "ring.toml"
PAIRS = (1, 2, 4, 8, 16)
RED = {"kind": "red", "min": "400 kB", "max": "1600 kB", "percent": 100}
ROCE = {
    "flow_control": {"kind": "pfc"},
    "switch.buffer": "1 MiB",
    "congestion": {"mechanism": "dcqcn", "marking": RED},
}
MRC = {
    "lanes": {"count": 2, "control": 1, "control_priority": True},
    "switch.trimming": {"queue": "600 kB"},
    "host.delivery": "out-of-order",
    "ecmp": {"spraying": "path-states", "values": 64},
    "congestion": {
        "marking": {"kind": "red", "min": "80 kB", "max": "320 kB", "percent": 100, "hosts": False},
        "notification": "ack-each",
        "reaction": {"kind": "nscc", "level": "destination"},
    },
}


def runs(quick):
    size = {"job.0.program.bytes": "16 MB"} if quick else {}
    pairs = {count: {"job.0.queue_pairs": {"count": count, "split": count > 1}} for count in PAIRS}
    found = {f"roce-{count}": (SCENARIO, ROCE | size | pairs[count]) for count in PAIRS}
    return found | {"mrc": (SCENARIO, MRC | size)}


def bandwidth(run):
    """Return the bandwidth of the job, relative to an ideal crossbar."""
    return 1 / run.summary["jobs"][0]["slowdown"]


def compare(results):
    """Return the bandwidths relative to an ideal crossbar, and to each other."""
    found = {case: bandwidth(run) for case, run in results.items()}
    return {
        "one": found["roce-1"],
        "beyond_8": found["roce-16"] / found["roce-8"],
        "mrc_over_16": found["mrc"] / found["roce-16"],
    }


def plot(results, out):
    fig, (ax,) = figures.figure()
    shares = [bandwidth(results[f"roce-{count}"]) for count in PAIRS]
    ax.plot(PAIRS, shares, marker="o", color=figures.COLOURS[0], label="RoCE")
    ax.axhline(
        bandwidth(results["mrc"]), color="0.4", linestyle="--", linewidth=1, label="MRC, one queue pair"
    )
    ax.set_xscale("log", base=2)
    ax.set_xticks(PAIRS, [str(count) for count in PAIRS])
    ax.set(xlabel="queue pairs", ylabel="bandwidth relative to the ideal crossbar", ylim=(0, 1.05))
    ax.legend(frameon=False)
    figures.save(fig, out, "P3")
