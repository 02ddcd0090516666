"""A victim gets the rate of the contributor at the same input (thesis, 2.2, figure 2.4)."""

from silvan.papers import figures

FLOWS = ("E1", "E2", "E6", "E7")


def runs(quick):
    return {"off": ("victim.toml", {})}


def compare(results):
    rate = {flow: results["off"].received_gbit_s(flow) for flow in FLOWS}
    shares = {f"share_{flow}": rate[flow] / 16.0 for flow in FLOWS}
    return shares | {
        "E1_over_E2": rate["E1"] / rate["E2"],
        "drop": 100 * (1 - shares["share_E1"]),
        "hot": shares["share_E2"],
        "cold_over_hot": rate["E1"] / rate["E2"],
    }


def plot(results, out):
    fig, (ax,) = figures.figure()
    shares = [results["off"].received_gbit_s(flow) / 16.0 for flow in FLOWS]
    figures.beside(ax, FLOWS, [1 / 3] * 4, shares)
    ax.set_ylabel("share of a host's link")
    ax.set_title("The victim E1 gets the share of E2")
    figures.save(fig, out, "A4")
