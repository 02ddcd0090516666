"""The latency of small writes between hosts of a leaf, and over a spine."""

from silvan.papers import figures

TABLES = ()

SCENARIO = "write.toml"
PAIRS = {"same_leaf": ["H1", "H2"], "over_spine": ["H1", "H3"]}
NAMES = {"same_leaf": "same leaf", "over_spine": "over a spine"}
PUBLISHED_US = {"same_leaf": 5.09, "over_spine": 6.54}


def runs(quick):
    return {case: (SCENARIO, {"job.0.hosts": hosts}) for case, hosts in PAIRS.items()}


def latency_us(run):
    """Return the time of a message of a ping-pong in microseconds, with the overhead at both ends."""
    (job,) = run.summary["jobs"]
    return job["span_ns"] * 1e-3 / job["messages"]


def compare(results):
    return {case: latency_us(run) for case, run in results.items()}


def plot(results, out):
    fig, (ax,) = figures.figure()
    names = list(NAMES.values())
    ax.bar(names, [latency_us(results[case]) for case in NAMES], color=figures.COLOURS[0], width=0.5)
    ax.plot(names, [PUBLISHED_US[case] for case in NAMES], "_", color="0.2", markersize=40, label="published")
    ax.set(ylabel="latency of a write of two bytes, us")
    ax.legend(frameon=False)
    figures.save(fig, out, "P4")
