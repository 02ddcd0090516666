"""Testbed, scenario 2: only contributors (Paper III, V.B, table II, figure 10; Paper I, figure 8)."""

import numpy as np

from silvan.papers import common, figures

staged = common("staged")

FLOWS = ("F1", "F2", "F3")
SCENARIO = "../common/testbed-scenario-2.toml"


#: Number of steps of a run without and with control, and with the parameters of Paper I. The third flow
#: starts after two steps.
STEPS = {"off": 3, "on": 10, "Paper I": 4}


def runs(quick):
    step_s = staged.quick_or_full(quick)

    def run(name, control):
        length = {"duration": f"{round(STEPS[name] * step_s * 1000)} ms"}
        return SCENARIO, {
            **staged.overrides(3, step_s),
            **length,
            **staged.HOSTS,
            **control,
        }

    paper_i = {**staged.SWITCHES, **staged.HARDWARE_CC}
    return {"off": run("off", {}), "on": run("on", staged.PAPER_III_CC), "Paper I": run("Paper I", paper_i)}


def _samples(results, name):
    """Return the throughput in Mbit/s by flow and sample.

    Samples begin half a step after the start of the last flow.
    """
    run, steps = results[name], STEPS[name]
    step_s = run.duration_s / steps
    return np.array([run.samples_gbit_s(flow, 2.5 * step_s, steps * step_s) for flow in FLOWS]) * 1000


def compare(results):
    off, on = _samples(results, "off"), _samples(results, "on")
    means = on.mean(axis=1)
    # The extremes of more samples are larger, so both cases have equally many.
    first = on[:, : off.shape[1]]
    single = {}
    for name, case in (("off", off), ("on", first)):
        for flow, own in zip(FLOWS, case, strict=True):
            single[f"{name}_min_{flow}"], single[f"{name}_max_{flow}"] = own.min(), own.max()
    # The published extremes of F3 are those of all flows, `off_min` and `off_max`.
    del single["off_min_F3"], single["off_max_F3"]
    return {
        **single,
        **{f"off_sd_{flow}": own.std() for flow, own in zip(FLOWS, off, strict=True)},
        **{
            f"jitter_{flow}": own.std() / max(before.std(), 1e-9)
            for flow, own, before in zip(FLOWS, on, off, strict=True)
        },
        "on_sd_within": (on - means[:, None]).std(),
        **{f"off_mean_{flow}": own.mean() for flow, own in zip(FLOWS, off, strict=True)},
        **{f"on_mean_{flow}": own.mean() for flow, own in zip(FLOWS, on, strict=True)},
        **{f"on_sd_{flow}": own.std() for flow, own in zip(FLOWS, on, strict=True)},
        "off_mean_I": off.mean(),
        "on_mean_I": _samples(results, "Paper I").mean(),
        "off_sd": off.std(),
        "off_min": off.min(),
        "off_max": off.max(),
        "off_mean": off.mean(),
        "on_mean": on.mean(),
        "change": on.mean() / off.mean(),
        "sd_ratio": on.std() / max(off.std(), 1e-9),
        "on_min": first.min(),
        "on_max": first.max(),
        "fairness": min(means) / max(means),
    }


def plot(results, out):
    fig, (left, right) = figures.figure(columns=2)
    figures.throughput(left, results["off"], FLOWS, "Scenario 2, congestion control off")
    smooth = max(1, round(results["on"].duration_s / STEPS["on"] / 0.1))
    figures.throughput(right, results["on"], FLOWS, "Scenario 2, congestion control on", smooth=smooth)
    figures.save(fig, out, "T4")
