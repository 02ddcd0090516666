"""Cold flows in a hot phase: no mechanism, Renato's, Pfister's, MVCM (MVCM paper, figures 5 and 11)."""

from silvan.papers import common, figures

mvcm = common("mvcm")

TABLES = ("classes",)
NAMES = ("none", "Renato", "Pfister", "MVCM")

#: Values for the plot of sensitivity: the share of hot hosts, and Pfister's increase, timer (in units of
#: 1.024 us, or 1024 cycles) and delay per step (in packets). These runs are shorter, because peaks occur
#: early.
SHARES = (0.03, 0.05, 0.07, 0.085, 0.1, 0.125)
PFISTER = (
    (1, 10, 1),
    (1, 40, 1),
    (4, 40, 1),
    (8, 20, 1),
    (16, 40, 1),
    (51, 40, 1),
    (51, 150, 1),
    (51, 40, 2),
)
SHORT = 1_500_000


def _short(share=0.1):
    return mvcm.case(False, share=share, duration=SHORT)


def _label(chosen):
    return "Pfister +{} / {} / {}".format(*chosen)


def runs_of_seed(quick, n):
    """Return the runs of a seed. The hot hosts are not published, so each seed selects new ones."""
    return mvcm.runs(mvcm.case(quick, draw=n))


def runs(quick):
    return runs_of_seed(quick, 0)


def runs_for_plot(quick):
    own = {}
    if not quick:
        for share in SHARES:
            own |= {f"{share} {name}": run for name, run in mvcm.runs(_short(share)).items()}
        for chosen in PFISTER:
            own[_label(chosen)] = _short().run(mvcm.pfister(_short(), *chosen))
    return own


def compare(results):
    of = mvcm.case(results.quick)
    peak = {name: mvcm.peak(results[name], of) for name in NAMES}
    dip = {name: mvcm.dip(results[name], of) for name in NAMES}
    return {
        **{f"{name}_peak": peak[name] for name in NAMES},
        "Renato_over_none": peak["Renato"] / peak["none"],
        "Pfister_over_Renato": peak["Pfister"] / peak["Renato"],
        "MVCM_over_Pfister": peak["MVCM"] / peak["Pfister"],
        "MVCM_dip": dip["MVCM"],
        "MVCM_dip_over_none": dip["MVCM"] / dip["none"],
        "MVCM_dip_over_others": dip["MVCM"] / max(dip["Renato"], dip["Pfister"]),
        "MVCM_swing": mvcm.deviation(results["MVCM"], of)
        / min(mvcm.deviation(results["Renato"], of), mvcm.deviation(results["Pfister"], of)),
    }


def plot(results, out):
    of = mvcm.case(results.quick)
    own = mvcm.ordered(results, NAMES)
    fig, axes = figures.figure(columns=4, rows=2, size=(4.2, 3.2))
    for (name, run), above, below in zip(own.items(), axes[:4], axes[4:], strict=True):
        mvcm.draw_latency(above, {name: run}, of, name)
        mvcm.draw_throughput(below, {name: run}, of, "")
    figures.save(fig, out, "M1")
    if not results.quick:
        _sensitivity(results, out)


def _sensitivity(results, out):
    fig, (shares, chosen) = figures.figure(columns=2, size=(6.4, 4.4))
    for name in NAMES:
        peaks = [mvcm.peak(results[f"{share} {name}"], _short(share)) for share in SHARES]
        shares.plot([100 * share for share in SHARES], peaks, "o-", markersize=4, label=name)
    shares.set(yscale="log", xlabel="hot hosts (%)", ylabel="peak latency of cold flows (cycles)")
    shares.set_title(f"Peaks within {SHORT / 1e6} million cycles")
    shares.legend(frameon=False)
    labels = [_label(own) for own in PFISTER]
    chosen.barh(labels, [mvcm.peak(results[label], _short()) for label in labels], color=figures.COLOURS[2])
    chosen.axvline(8_000, color="0.4", linestyle="--")
    chosen.set(xscale="log", xlabel="peak latency of cold flows (cycles)")
    chosen.set_title("increase / timer (1024 cycles) / packets a step")
    figures.save(fig, out, "M1-sensitivity")
