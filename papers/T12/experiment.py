"""Testbed, scenario 2: oscillation in the simulator and on the hardware (Paper I, figures 8b and 8d)."""

from silvan.papers import common, figures

staged = common("staged")

FLOWS = ("F1", "F2", "F3")
#: Number of steps. The third flow starts after two steps.
STEPS = 4


def runs(quick):
    step_s = staged.quick_or_full(quick)
    length = {"duration": f"{round(STEPS * step_s * 1000)} ms", "measure.interval": "2500 us"}
    steps = staged.overrides(3, step_s) | length
    scenario = "../common/testbed-scenario-2.toml"
    return {
        "hardware": (scenario, {**steps, **staged.HARDWARE, **staged.HARDWARE_CC}),
        "simulator": (scenario, {**steps, **staged.CC}),
    }


def _deviation(run):
    step_s = run.duration_s / STEPS
    return max(run.samples_gbit_s(flow, 2.5 * step_s, STEPS * step_s).std() for flow in FLOWS)


def compare(results):
    return {"simulator_over_hardware": _deviation(results["simulator"]) / _deviation(results["hardware"])}


def plot(results, out):
    fig, axes = figures.figure(columns=2)
    for ax, name in zip(axes, ("hardware", "simulator"), strict=True):
        figures.throughput(ax, results[name], FLOWS, f"Scenario 2, congestion control on: {name}")
    figures.save(fig, out, "T12")
