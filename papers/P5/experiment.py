"""The packets that are lost when a spine restarts, with MRC."""

import numpy as np

from silvan.papers import figures

TABLES = ("losses",)

SCENARIO = "restart.toml"
#: How hosts find lost packets: also by later acknowledgements, or by timeouts only.
CASES = {"lost": {}, "lost_timeouts": {"recovery": {"kind": "selective-repeat", "timeout": "100 us"}}}
NAMES = {"lost": "later acknowledgements", "lost_timeouts": "timeouts only"}
#: Hosts of the published cluster, and of the model in quick runs.
PUBLISHED_HOSTS, QUICK_HOSTS = 75_000, 32
SMALL = {
    "topology.leaves": QUICK_HOSTS,
    "job.0.program.ranks": QUICK_HOSTS,
    "job.0.program.groups": QUICK_HOSTS // 2,
}


def runs(quick):
    return {case: (SCENARIO, changes | (SMALL if quick else {})) for case, changes in CASES.items()}


def hosts(run):
    (job,) = run.summary["jobs"]
    return job["ranks"]


def lost(run):
    """Return the data packets that are lost, in thousands, for as many hosts as published."""
    return run.summary["losses"]["data_packets"] * 1e-3 * PUBLISHED_HOSTS / hosts(run)


def touched(run):
    """Return the share of queue pairs that lose data packets on the uplink of their leaf to the spine."""
    table = run.tables["losses"]
    is_up = np.char.find(table["link"].astype(str), "->P1.L2.") >= 0
    return float(np.count_nonzero(is_up & (table["data_packets"] > 0))) / hosts(run)


def compare(results):
    return {case: lost(run) for case, run in results.items()} | {"touched": touched(results["lost"])}


def plot(results, out):
    fig, (ax,) = figures.figure()
    ax.bar(list(NAMES.values()), [lost(results[case]) for case in NAMES], color=figures.COLOURS[0], width=0.5)
    ax.axhline(580, color="0.4", linestyle="--", linewidth=1, label="published")
    ax.set(ylabel="lost packets for 75,000 hosts, thousands", xlabel="how hosts find lost packets")
    ax.legend(frameon=False)
    figures.save(fig, out, "P5")
