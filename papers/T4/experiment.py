"""Testbed, scenario 2: only contributors (Paper III, V.B, table II, figure 10; Paper I, figure 8)."""

import numpy as np

from silvan.papers import common, figures

staged = common("staged")

FLOWS = ("F1", "F2", "F3")
SCENARIO = "../common/testbed-scenario-2.toml"


def runs(quick):
    step_s = staged.quick_or_full(quick)
    return {
        "off": (SCENARIO, staged.overrides(3, step_s)),
        "on": (SCENARIO, staged.overrides(3, step_s, **staged.CC)),
    }


def _samples(run):
    """Throughput in Mbit/s by flow and sample, over the second half of the last step."""
    step_s = run.duration_s / 3
    return np.array([run.samples_gbit_s(flow, 2.5 * step_s, 3 * step_s) for flow in FLOWS]) * 1000


def compare(results):
    off, on = _samples(results["off"]), _samples(results["on"])
    means = on.mean(axis=1)
    return {
        **{f"off_mean_{flow}": own.mean() for flow, own in zip(FLOWS, off, strict=True)},
        **{f"on_mean_{flow}": own.mean() for flow, own in zip(FLOWS, on, strict=True)},
        **{f"on_sd_{flow}": own.std() for flow, own in zip(FLOWS, on, strict=True)},
        "off_mean_I": off.mean(),
        "on_mean_I": on.mean(),
        "off_sd": off.std(),
        "off_min": off.min(),
        "off_max": off.max(),
        "off_mean": off.mean(),
        "on_mean": on.mean(),
        "change": on.mean() / off.mean(),
        "on_sd": on.std(),
        "sd_ratio": on.std() / max(off.std(), 1e-9),
        "on_min": on.min(),
        "on_max": on.max(),
        "fairness": min(means) / max(means),
    }


def plot(results, out):
    fig, (left, right) = figures.figure(columns=2)
    figures.throughput(left, results["off"], FLOWS, "Scenario 2, congestion control off")
    smooth = max(1, round(results["on"].duration_s / 3 / 0.1))
    figures.throughput(right, results["on"], FLOWS, "Scenario 2, congestion control on", smooth=smooth)
    figures.save(fig, out, "T4")
