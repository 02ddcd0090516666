"""CCTI_Timer of 2000 us: contributors do not become fair within a step (Paper III, VII.B, figure 13)."""

from silvan.papers import common, figures
from silvan.papers.data import jain_over_time, settling_s

staged = common("staged")

FLOWS = ("F1", "F2", "F3", "F4", "F5")
#: Throughput is averaged over this time, in s, before fairness is tested.
WIDTH_S = 0.05


def runs(quick):
    # The runs measure how long settling takes, so quick runs cannot be shorter.
    scenario = "../common/testbed-scenario-1.toml"
    return {
        "usual": (scenario, {**staged.HOSTS, **staged.PAPER_III_CC}),
        "slow": (scenario, {**staged.HOSTS, **staged.PAPER_III_CC, "congestion.reaction.ccti_timer": 1953}),
    }


def _settling(run):
    """Return the times in s from the starts of F3, F4 and F5 until the contributors get fair shares."""
    return [settling_s(run, FLOWS[1:n], n - 1.0, float(n), WIDTH_S) for n in range(3, 6)]


def compare(results):
    slow, usual = _settling(results["slow"]), _settling(results["usual"])
    values = {f"settling_{n}": seconds for n, seconds in zip(range(3, 6), slow, strict=True)}
    return values | {"longer": sum(slow) / max(sum(usual), 1e-3)}


def plot(results, out):
    run = results["slow"]
    fig, (left, right) = figures.figure(columns=2)
    figures.throughput(left, run, FLOWS, "CCTI_Timer 2000 us", smooth=10)
    for n in range(3, 6):
        time_s, index = jain_over_time(run, FLOWS[1:n], n - 1.0, float(n), WIDTH_S)
        right.plot(n - 1 + time_s, index, label=f"{n - 1} contributors")
    right.axhline(0.99, color="0.5", linewidth=0.8)
    right.set(
        xlim=(0, run.duration_s),
        ylim=(0.5, 1.01),
        xlabel="time (s)",
        ylabel="Jain's index of the contributors",
    )
    right.set_title("Fairness: above 0.99 is settled")
    right.legend(frameon=False, loc="lower left")
    figures.save(fig, out, "T7")
