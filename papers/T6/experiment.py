"""Few marks and a slow timer: contributors take long to become fair (Paper II, V, figures 11 and 12)."""

from silvan.papers import common, figures
from silvan.papers.data import jain_over_time, settling_s

staged = common("staged")

FLOWS = ("F1", "F2", "F3", "F4", "F5")
SCENARIO = "../common/testbed-scenario-1.toml"
CASES = {
    "usual": staged.CC,
    "slow": {
        **staged.CC,
        "congestion.marking.marking_rate": 10,
        "congestion.reaction.ccti_timer": 1500,
    },
}
#: Throughput is averaged over this time, in s, before Jain's index is computed.
WIDTH_S = 0.05


def runs(quick):
    # The runs measure how long settling takes, so quick runs cannot be shorter.
    return {name: (SCENARIO, extra) for name, extra in CASES.items()}


def compare(results):
    settling = {
        (name, n): settling_s(run, FLOWS[1:n], n - 1.0, float(n), WIDTH_S)
        for name, run in results.items()
        for n in range(3, 6)
    }
    return {"shortest": min(settling["slow", n] for n in range(3, 6))}


def plot(results, out):
    fig, axes = figures.figure(columns=2, rows=2)
    titles = {"usual": "Marking_Rate 1, CCTI_Timer 150", "slow": "Marking_Rate 10, CCTI_Timer 1500"}
    for ax, (name, title) in zip(axes, titles.items(), strict=False):
        figures.throughput(ax, results[name], FLOWS, title, smooth=10)
    for ax, name in zip(axes[2:], titles, strict=True):
        fairness(ax, results[name])
    figures.save(fig, out, "T6")


def fairness(ax, run):
    """Draw Jain's index of the active contributors over time."""
    for n in range(3, 6):
        time_s, index = jain_over_time(run, FLOWS[1:n], n - 1.0, float(n), WIDTH_S)
        ax.plot(n - 1 + time_s, index, label=f"{n - 1} contributors")
    ax.axhline(0.99, color="0.5", linewidth=0.8)
    ax.set_xlim(0, run.duration_s)
    ax.set_ylim(0.5, 1.01)
    ax.set_xlabel("time (s)")
    ax.set_ylabel("Jain's index of the contributors")
    ax.legend(frameon=False, loc="lower left")
