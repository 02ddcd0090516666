"""Case 3: as case 2, with three hosts that send to random hosts (Paper V, figure 7c)."""

from silvan.papers import common

hybrid = common("hybrid")

TABLES = ("flows", "network")
FLOWS = ("F1", "F0", "F4", "F2", "F3")


def runs(quick):
    return hybrid.case_runs("hybrids-config-2-uniform.toml")


def compare(results):
    last = {name: hybrid.total(run, 6, 10) for name, run in results.items()}
    first = {name: hybrid.total(run, 6, 6.5) for name, run in results.items()}
    return {
        "1Q_total": last["1Q"] / last["CCFIT"],
        "1Q_worst": last["1Q"] / min(value for name, value in last.items() if name != "1Q"),
        "FBICM_total": last["FBICM"] / last["CCFIT"],
        "ITh_late": first["ITh"] / first["CCFIT"],
        "ITh_total": last["ITh"] / last["CCFIT"],
        "CCFIT_total": last["CCFIT"] / last["VOQnet"],
        "best": max(last.values()) / last["VOQnet"],
    }


def plot(results, out):
    hybrid.plot_case(results, out, 3, 160, FLOWS)
