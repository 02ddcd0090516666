"""Testbed, scenario 1, congestion control on (Paper III, figure 7b; Paper I, figures 7b, d, 9)."""

import numpy as np

from silvan.fairness import jain
from silvan.papers import common, figures

staged = common("staged")

FLOWS = ("F1", "F2", "F3", "F4", "F5")
SCENARIO = "../common/testbed-scenario-1.toml"


def runs(quick):
    step_s = staged.quick_or_full(quick)
    steps = staged.overrides(5, step_s)
    hardware = {**steps, **staged.HARDWARE}
    return {
        "off": (SCENARIO, hardware),
        "on": (SCENARIO, {**hardware, **staged.HARDWARE_CC}),
        # The simulator of Paper I also has queues per output, but it answers a marked packet without delay.
        "simulator": (SCENARIO, {**steps, **staged.CC}),
    }


def compare(results):
    on, off = results["on"], results["off"]
    last = [staged.settled(on, flow, 5, 5) for flow in FLOWS]
    values = {f"F1_of_{active}": staged.settled(on, "F1", active, 5) for active in range(1, 6)}
    values |= {f"{flow}_of_5": rate for flow, rate in zip(FLOWS[1:], last[1:], strict=True)}
    values["jain"] = jain(last[1:])
    step_s = on.duration_s / 5
    for name, run in (("hardware", on), ("simulator", results["simulator"])):
        values[f"together_{name}"] = sum(staged.settled(run, flow, 3, 5) for flow in ("F2", "F3"))
        least = float(run.samples_gbit_s("F1", 2 * step_s, 3 * step_s).min())
        values[f"F1_drops_{name}"] = least / staged.settled(run, "F1", 2, 5)
    values["penalty"] = values["together_hardware"] / sum(last[1:])
    deviation = {
        name: float(np.mean([run.samples_gbit_s(f, 4.5 * step_s, 5 * step_s).std() for f in FLOWS[1:]]))
        for name, run in (("on", on), ("off", off))
    }
    values["oscillation"] = deviation["on"] / max(deviation["off"], 1e-9)
    return values


def plot(results, out):
    fig, (left, right) = figures.figure(columns=2)
    figures.throughput(left, results["off"], FLOWS, "Congestion control off")
    smooth = max(1, round(results["on"].duration_s / 5 / 0.1))
    figures.throughput(right, results["on"], FLOWS, "Congestion control on", smooth=smooth)
    figures.save(fig, out, "T2")
    _shares(results, out)


def _shares(results, out):
    """Draw each contributor's share of the link to H5, with control off and on (Paper I, figure 9)."""
    fig, (ax,) = figures.figure(size=(4.4, 4.0))
    bottom = np.zeros(2)
    for n, flow in enumerate(FLOWS[1:]):
        rates = np.array([[staged.settled(results[r], f, 5, 5) for f in FLOWS[1:]] for r in ("off", "on")])
        share = 100 * rates[:, n] / rates.sum(axis=1)
        ax.bar(["off", "on"], share, 0.6, bottom=bottom, color=figures.COLOURS[n + 1], label=flow)
        bottom += share
    ax.set_ylabel("share of the link to H5 (%)")
    ax.set_xlabel("congestion control")
    ax.set_title("Shares of the contributors")
    ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5), reverse=True)
    figures.save(fig, out, "T2-shares")
