"""A victim in a rack of seven contributors, with pause frames only, with DCQCN, and with MRC."""

from silvan.papers import figures

TABLES = ()

SCENARIO = "rack.toml"
PAUSES = {"flow_control": {"kind": "pfc"}, "switch.buffer": "1 MiB"}
RED = {"kind": "red", "min": "400 kB", "max": "1600 kB", "percent": 100}
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
CASES = {
    "pauses": PAUSES,
    "dcqcn": PAUSES | {"congestion": {"mechanism": "dcqcn", "marking": RED}},
    "mrc": MRC,
}
NAMES = {"pauses": "pause frames only", "dcqcn": "DCQCN", "mrc": "MRC"}


def runs(quick):
    found = {case: (SCENARIO, changes) for case, changes in CASES.items()}
    return found | {"alone": (SCENARIO, MRC | {"traffic": []})}


def compare(results):
    """Return the throughput of the victim with pause frames, and relative to that without incast."""
    victim = {case: run.received_gbit_s("victim") for case, run in results.items()}
    return {
        "pauses": victim["pauses"],
        "dcqcn": victim["dcqcn"] / victim["alone"],
        "mrc": victim["mrc"] / victim["alone"],
    }


def plot(results, out):
    fig, (ax,) = figures.figure()
    rates = [results[case].received_gbit_s("victim") for case in NAMES]
    ax.bar(list(NAMES.values()), rates, color=figures.COLOURS[0], width=0.5)
    alone = results["alone"].received_gbit_s("victim")
    ax.axhline(alone, color="0.4", linestyle="--", linewidth=1, label="without incast")
    ax.set(ylabel="throughput of the victim, Gbit/s", ylim=(0, 440))
    ax.legend(frameon=False)
    figures.save(fig, out, "P2")
