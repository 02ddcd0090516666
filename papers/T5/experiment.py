"""One switch, one or two thresholds (Paper II, IV, figures 3, 4 and 7)."""

import numpy as np

from silvan.fairness import jain
from silvan.papers import common, figures
from silvan.papers.data import smoothed

staged = common("staged")

TABLES = ("flows", "classes")
FLOWS = ("H1", "H2", "H3", "H6", "H7")
CASES = {
    "off": ("No congestion control", {}),
    "one": ("One threshold", {**staged.CC, "congestion.marking.hysteresis": "0 B"}),
    "near": ("Two thresholds, half an MTU apart", {**staged.CC, "congestion.marking.hysteresis": "1024 B"}),
    "two": ("Two thresholds, more than an MTU apart", staged.CC),
}
#: Throughput is averaged over this time, in s, before contributors are compared with each other.
WIDTH_S = 0.05
#: Marks are counted for this time after a flow has started, in s. The largest index takes as long to decrease
#: to zero, so the flow then sends more than the others.
NEW_S = 0.02


def runs(quick):
    step_s = staged.quick_or_full(quick)
    return {name: ("star.toml", staged.overrides(5, step_s, **extra)) for name, (_, extra) in CASES.items()}


def _spread(run, active):
    """Return the throughput of the fastest contributor divided by that of the slowest.

    Throughput is averaged over WIDTH_S, and the ratio over the second half of the step.
    """
    step_s = run.duration_s / 5
    width = max(1, round(min(WIDTH_S, step_s / 2) / 1e-3))
    flows = [
        smoothed(run.samples_gbit_s(f, (active - 1) * step_s, active * step_s), width)
        for f in FLOWS[1:active]
    ]
    rates = np.array(flows)[:, round(step_s / 2e-3) :]
    return float((rates.max(axis=0) / rates.min(axis=0)).mean())


def _marks(run, active, from_s, to_s):
    """Return the marked packets of the contributors in a span of the step of the last one."""
    table = run.tables["classes"]
    since = table["time_ns"] * 1e-9 - run.duration_s / 5 * (active - 1)
    inside = (since > from_s + 1e-9) & (since <= to_s + 1e-9)
    return [table["marked_packets"][inside & (table["class"] == flow)].sum() for flow in FLOWS[1:active]]


def _marks_of_last(run):
    """Return the marks of H6 in the first `NEW_S` after its start, divided by the mean of H2 and H3."""
    *others, last = _marks(run, 4, 0, NEW_S)
    return float(last / np.mean(others))


def compare(results):
    rate = {
        name: {n: [staged.settled(run, f, n, 5) for f in FLOWS[:n]] for n in range(1, 6)}
        for name, run in results.items()
    }
    off, one, two = rate["off"], rate["one"], rate["two"]
    values = {"off_H1": off[5][0]}
    for name, shares in (("off", off), ("two", two)):
        for n in range(2, 6):
            values[f"{name}_H2_of_{n}"] = shares[n][1]
        for n in range(3, 6):
            values[f"{name}_jain_of_{n}"] = jain(shares[n][1:])
    values["one_H3_of_3"] = one[3][2]
    values["one_H2_of_3"] = one[3][1]
    values["one_H3_over_H2_of_3"] = one[3][2] / one[3][1]
    values["one_H2_of_4"] = one[4][1]
    values["one_H6_over_H3_of_4"] = one[4][3] / one[4][2]
    values["one_last_is_largest_of_4"] = one[4][3] / max(one[4][1:3])
    step_s = results["one"].duration_s / 5
    marks = _marks(results["one"], 4, step_s / 2, step_s)
    values["one_marks_of_4"] = float(min(marks) / max(marks))
    values["two_over_one_marks_of_4"] = _marks_of_last(results["two"]) / _marks_of_last(results["one"])
    for n in range(3, 6):
        spread = {name: _spread(results[name], n) for name in ("one", "near", "two")}
        for name in ("one", "near"):
            values[f"{name}_over_two_of_{n}"] = spread[name] / spread["two"]
    return values


def plot(results, out):
    fig, axes = figures.figure(columns=2, rows=2, size=(6.0, 3.8))
    for ax, (name, (title, _)) in zip(axes, CASES.items(), strict=True):
        smooth = 1 if name == "off" else max(1, round(results[name].duration_s / 5 / 0.05))
        figures.throughput(ax, results[name], FLOWS, title, smooth=smooth)
    figures.save(fig, out, "T5")
