"""The parking lot: shares of the link to H5 on the testbed, without congestion control."""

from silvan.papers import figures

FLOWS = ("F1", "F2", "F3", "F4", "F5")


def runs(quick):
    starts = {f"flow.{n}.start": "0 s" for n in range(5)}
    extra = {"duration": "150 ms" if quick else "1050 ms", "warmup": "50 ms"}
    return {"off": ("../common/testbed-scenario-1.toml", starts | extra)}


def _rates(results):
    return {flow: results["off"].received_gbit_s(flow) for flow in FLOWS}


def compare(results):
    rate = _rates(results)
    total = sum(rate[flow] for flow in FLOWS[1:])
    shares = {f"share_{flow}": rate[flow] / total for flow in FLOWS[1:]}
    return shares | {
        "F1_over_F2": rate["F1"] / rate["F2"],
        "F1_over_F3": rate["F1"] / rate["F3"],
        "F4_over_F2": rate["F4"] / rate["F2"],
    }


def plot(results, out):
    rate = _rates(results)
    total = sum(rate[flow] for flow in FLOWS[1:])
    fig, (ax,) = figures.figure()
    figures.beside(ax, FLOWS[1:], [1 / 6, 1 / 6, 1 / 3, 1 / 3], [rate[f] / total for f in FLOWS[1:]])
    ax.set_ylabel("share of the link to H5")
    ax.set_title("Parking lot: F2 and F3 share one turn")
    figures.save(fig, out, "A2")
