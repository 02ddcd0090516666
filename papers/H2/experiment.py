"""Case 2: several points of congestion in a 2-ary 3-tree (Paper V, figures 7b and 10)."""

from silvan.fairness import jain
from silvan.papers import common

hybrid = common("hybrid")

TABLES = ("flows", "network")
FLOWS = ("F1", "F0", "F4", "F2", "F3")
CONTRIBUTORS = FLOWS[1:]


def runs(quick):
    return hybrid.case_runs("hybrids-config-2.toml")


def _rates(run):
    return {flow: hybrid.flow_mean(run, flow, 7, 10) for flow in FLOWS}


def compare(results):
    last = {name: hybrid.total(run, 6, 10) for name, run in results.items()}
    rates = {name: _rates(run) for name, run in results.items()}
    fair = {name: jain([own[flow] for flow in CONTRIBUTORS]) for name, own in rates.items()}
    return {
        "1Q_total": last["1Q"] / last["CCFIT"],
        "ITh_total": last["ITh"] / last["CCFIT"],
        "FBICM_total": last["FBICM"] / last["CCFIT"],
        "F1_FBICM": rates["FBICM"]["F1"] / rates["1Q"]["F1"],
        "F1_CCFIT": rates["CCFIT"]["F1"] / rates["1Q"]["F1"],
        "FBICM_fair": fair["FBICM"],
        "FBICM_F4_over_F2": rates["FBICM"]["F4"] / rates["FBICM"]["F2"],
        "CCFIT_fair": fair["CCFIT"],
        "CCFIT_over_FBICM_fair": fair["CCFIT"] / fair["FBICM"],
        "best": max(last.values()) / last["VOQnet"],
    }


def plot(results, out):
    hybrid.plot_case(results, out, 2, 160, FLOWS)
