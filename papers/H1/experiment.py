"""Case 1: a victim and four contributors over a dumbbell (Paper V, figures 7a and 9)."""

from silvan.fairness import jain
from silvan.papers import common

hybrid = common("hybrid")

TABLES = ("flows", "network")
FLOWS = ("F0", "F1", "F2", "F5", "F6")
CONTRIBUTORS = FLOWS[1:]


def runs(quick):
    return hybrid.case_runs("hybrids-config-1.toml")


def _rates(run, from_ms, to_ms):
    return {flow: hybrid.flow_mean(run, flow, from_ms, to_ms) for flow in FLOWS}


def compare(results):
    last = {name: hybrid.total(run, 6, 10) for name, run in results.items()}
    middle = {name: hybrid.total(run, 4, 6) for name, run in results.items()}
    rates = {name: _rates(run, 6, 10) for name, run in results.items()}
    fair = {name: jain([own[flow] for flow in CONTRIBUTORS]) for name, own in rates.items()}
    return {
        "1Q_total": last["1Q"] / last["CCFIT"],
        "1Q_victim": rates["1Q"]["F0"] / rates["VOQnet"]["F0"],
        "ITh_total": last["ITh"] / last["CCFIT"],
        "FBICM_total": last["FBICM"] / last["CCFIT"],
        "FBICM_victim": rates["FBICM"]["F0"] / rates["VOQnet"]["F0"],
        "CCFIT_victim": rates["CCFIT"]["F0"] / rates["VOQnet"]["F0"],
        "ITh_dip": middle["ITh"] / middle["FBICM"],
        "ITh_dip_only": middle["ITh"] / last["ITh"],
        "FBICM_fair": fair["FBICM"],
        "CCFIT_fair": fair["CCFIT"],
        "ITh_fair": fair["ITh"],
        "best": max(last.values()) / last["VOQnet"],
    }


def plot(results, out):
    hybrid.plot_case(results, out, 1, 140, FLOWS)
