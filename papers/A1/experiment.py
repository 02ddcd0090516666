"""The damage of congestion: two switches, six flows, with and without explicit rates (figure 1)."""

from pathlib import Path

import silvan
from silvan.papers import figures

TABLES = ()
FLOWS = ("f1", "f2", "f3", "f4", "f5", "f6")
SCENARIO = Path(__file__).with_name("damage.toml")
LINK_GBIT_S = 16.0


def runs(quick):
    # The same flows with so much data that none of them ends, to measure their rates in the steady state.
    endless = {f"flow.{n}.total": "1 GB" for n in range(len(FLOWS))}
    steady = {"duration": "12 ms" if quick else "62 ms", "warmup": "2 ms", "measure.interval": "1 ms"}
    # The mechanism `saa` assigns a rate to each message, so each flow is one message of 2 MB.
    rates = {"congestion.mechanism": "saa"} | {f"flow.{n}.message": "2 MB" for n in range(len(FLOWS))}
    return {
        "finite": (SCENARIO.name, {}),
        "steady": (SCENARIO.name, endless | steady),
        "rates": (SCENARIO.name, rates),
    }


def _shares(results):
    """Return each flow's share of a link: as a fluid under two rules, and simulated without control."""
    fluid = silvan.fluid(SCENARIO)
    by_rule = {
        f"{short}_{flow['flow']}": flow[rule]["gbit_s"] / LINK_GBIT_S
        for short, rule in (("fluid", "uncontrolled"), ("saa", "saa"))
        for flow in fluid["flows"]
    }
    packets = {f"packets_{flow}": results["steady"].received_gbit_s(flow) / LINK_GBIT_S for flow in FLOWS}
    return by_rule | packets


def compare(results):
    fluid = silvan.fluid(SCENARIO)
    ended = {flow["flow"]: flow["completed_ns"] for flow in results["finite"].summary["flows"]}
    shares = _shares(results)
    return shares | {
        "fluid_trunk": sum(shares[f"fluid_{flow}"] for flow in FLOWS[:4]),
        "fluid_first_end_ms": fluid["flows"][4]["uncontrolled"]["completed_ns"] * 1e-6,
        "fluid_end_ms": fluid["uncontrolled"]["completed_ns"] * 1e-6,
        "saa_end_ms": fluid["saa"]["completed_ns"] * 1e-6,
        "longer": fluid["uncontrolled"]["completed_ns"] / fluid["saa"]["completed_ns"],
        "packets_trunk": sum(shares[f"packets_{flow}"] for flow in FLOWS[:4]),
        "packets_first_end_ms": ended["f5"] * 1e-6,
        "packets_end_ms": max(ended.values()) * 1e-6,
        "packets_saa_end_ms": max(flow["completed_ns"] for flow in results["rates"].summary["flows"]) * 1e-6,
    }


def plot(results, out):
    shares = _shares(results)
    fig, (ax,) = figures.figure()
    published = [1 / 6] * 4 + [1 / 3] * 2
    figures.beside(ax, FLOWS, published, [shares[f"packets_{flow}"] for flow in FLOWS])
    ax.axhline(0.25, linewidth=0.8, linestyle="--", color="0.4")
    ax.set_ylabel("share of a link")
    ax.set_title("Without control (dashed: what each could have)")
    figures.save(fig, out, "A1")
