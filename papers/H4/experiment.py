"""Case 4: one, four and six trees in a 4-ary 3-tree (Paper V, figure 8)."""

from silvan.papers import common, figures

hybrid = common("hybrid")

TABLES = ("network", "hosts")
HOSTS = 64
TREES = tuple(hybrid.CASE_4)


def runs(quick):
    return hybrid.case_4_runs()


def compare(results):
    total = {key: hybrid.hot_total(run) for key, run in results.items()}
    cold = {
        key: hybrid.victims(run, hybrid.CASE_4[int(key.split()[0])], HOSTS) for key, run in results.items()
    }
    rest = [name for name in hybrid.PAPER_V if name != "1Q"]
    return {
        "FBICM_1": total["1 FBICM"] / total["1 VOQnet"],
        "CCFIT_1": total["1 CCFIT"] / total["1 VOQnet"],
        "CCFIT_over_FBICM_1": total["1 CCFIT"] / total["1 FBICM"],
        "ITh_1": total["1 ITh"] / total["1 CCFIT"],
        "FBICM_victims_1": cold["1 FBICM"] / cold["1 VOQnet"],
        "CCFIT_victims_1": cold["1 CCFIT"] / cold["1 VOQnet"],
        "CCFIT_over_FBICM_4": total["4 CCFIT"] / total["4 FBICM"],
        "ITh_4": total["4 ITh"] / total["4 CCFIT"],
        "1Q_worst_4": total["4 1Q"] / min(total[f"4 {name}"] for name in rest),
        "CCFIT_over_FBICM_6": total["6 CCFIT"] / total["6 FBICM"],
        "ITh_6": total["6 ITh"] / total["6 CCFIT"],
        "1Q_worst_6": total["6 1Q"] / min(total[f"6 {name}"] for name in rest),
        "best": max(value / total[f"{key.split()[0]} VOQnet"] for key, value in total.items()),
    }


def plot(results, out):
    fig, axes = figures.figure(columns=len(TREES), size=(4.8, 3.6))
    for ax, trees in zip(axes, TREES, strict=True):
        own = {name: results[f"{trees} {name}"] for name in hybrid.PAPER_V}
        hybrid.draw_total(ax, own, HOSTS * 20, f"{trees} tree{'s' if trees > 1 else ''}")
    axes[0].legend(frameon=False, fontsize="small", ncols=2)
    figures.save(fig, out, "H4")
