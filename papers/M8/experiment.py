"""Two hot flows and two cold ones in a small butterfly (MVCM paper, figure 8)."""

import numpy as np

from silvan.papers import common, figures

mvcm = common("mvcm")

TABLES = ("classes",)
SCENARIO = "../common/mvcm-two-flows.toml"
COLD = ("cold 001", "cold 010")
HOT = ("hot 000", "hot 011")
SPAN = (100_000, 200_000)
STEP = 4_000


def runs(quick):
    return {"none": (SCENARIO, mvcm.NONE), "MVCM": (SCENARIO, mvcm.MVCM)}


def _cold(run):
    """Return the ends of the samples in cycles, and the mean latency of both cold flows in them."""
    both = [mvcm.series(run, name, STEP) for name in COLD]
    packets = sum(own.packets for own in both)
    total = sum(np.nan_to_num(own.latency) * own.packets for own in both)
    with np.errstate(invalid="ignore", divide="ignore"):
        return both[0].end_cycles, total / packets


def _before_and_peak(run):
    end, latency = _cold(run)
    return float(np.nanmean(latency[end <= SPAN[0]])), float(np.nanmax(latency[end > SPAN[0]]))


def _hot_rate(run):
    parts = [mvcm.series(run, name, STEP).between(SPAN[0] + STEP, SPAN[1]) for name in HOT]
    return float(sum(part.bytes_per_cycle.mean() for part in parts))


def compare(results):
    before, none = _before_and_peak(results["none"])
    _, managed = _before_and_peak(results["MVCM"])
    return {
        "none_harm": none / before,
        "MVCM_over_none": managed / none,
        "hot": _hot_rate(results["MVCM"]),
    }


def plot(results, out):
    fig, (ax,) = figures.figure()
    for n, name in enumerate(("none", "MVCM")):
        end, latency = _cold(results[name])
        ax.plot(end / 1e3, latency, color=figures.COLOURS[n], label=name)
    ax.axvspan(SPAN[0] / 1e3, SPAN[1] / 1e3, color="0.93", zorder=0)
    ax.set(xlabel="time (1000 cycles)", ylabel="latency of cold flows (cycles)", title="Two hot flows")
    ax.legend(frameon=False)
    figures.save(fig, out, "M8")
