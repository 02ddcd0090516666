"""Functions that adjust the rate in Renato's mechanism: AIMD, FIMD, LIPD (MVCM paper, 3.2.1)."""

from silvan.papers import common, figures

mvcm = common("mvcm")

TABLES = ("classes",)
RATES = ("aimd", "fimd", "lipd")
#: Windows in packets: that of Renato's mechanism, and a larger one.
WINDOWS = (1, 2)


def _case(quick):
    return mvcm.case(True) if quick else mvcm.case(False, duration=1_500_000)


def runs(quick):
    of = _case(quick)
    reactions = {f"{kind} {window}": {"kind": kind, "window": window} for kind in RATES for window in WINDOWS}
    own = {name: of.run({**mvcm.RENATO, "congestion.reaction": own}) for name, own in reactions.items()}
    return {"none": of.run(mvcm.NONE), **own}


def compare(results):
    of = _case(results.quick)
    peak = {name: mvcm.peak(run, of) for name, run in results.items()}
    mean = {name: mvcm.cold_mean(run, of) for name, run in results.items()}
    return {
        "worst_over_none": max(peak[f"{kind} 1"] for kind in RATES) / peak["none"],
        "fimd_over_aimd": mean["fimd 1"] / mean["aimd 1"],
        "lipd_over_aimd": mean["lipd 1"] / mean["aimd 1"],
        "window": min(peak[f"{kind} 2"] / peak[f"{kind} 1"] for kind in RATES),
    }


def plot(results, out):
    of = _case(results.quick)
    fig, axes = figures.figure(columns=2)
    for ax, window in zip(axes, WINDOWS, strict=True):
        own = {kind.upper(): results[f"{kind} {window}"] for kind in RATES}
        mvcm.draw_latency(ax, own, of, f"window of {window}")
        ax.legend(frameon=False)
    figures.save(fig, out, "M11")
