"""Testbed, scenario 1, congestion control off (Paper III, figure 7a; Paper I, figures 7a and c)."""

from silvan.papers import common, figures

staged = common("staged")

FLOWS = ("F1", "F2", "F3", "F4", "F5")


def runs(quick):
    step_s = staged.quick_or_full(quick)
    return {"off": ("../common/testbed-scenario-1.toml", staged.overrides(5, step_s, **staged.HARDWARE))}


def compare(results):
    rates = {}
    for active in range(1, 6):
        for flow in FLOWS[:active]:
            rates[f"{flow}_of_{active}"] = staged.settled(results["off"], flow, active, 5)
    rates["F4_over_F2_and_F3_of_4"] = rates["F4_of_4"] / (rates["F2_of_4"] + rates["F3_of_4"])
    return rates


def plot(results, out):
    fig, (ax,) = figures.figure()
    figures.throughput(ax, results["off"], FLOWS, "Scenario 1 without congestion control: F1 is a victim")
    figures.save(fig, out, "T1")
