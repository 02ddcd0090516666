"""Windows that fill the shortest round trip (MVCM paper, 4.3)."""

import math

from silvan.papers import common, figures

mvcm = common("mvcm")

TABLES = ()
SCENARIO = "../common/mvcm-one-flow.toml"
WINDOWS = (1, 2)


def runs(quick):
    return {str(packets): (SCENARIO, {"congestion.reaction.packets": packets}) for packets in WINDOWS}


def _rate(run):
    """Return the flow's rate, in bytes of packets per cycle."""
    return run.received_gbit_s("alone") / 8 * mvcm.PACKET / mvcm.PAYLOAD


def compare(results):
    return {
        "round_trip": mvcm.Window().round_trip_cycles,
        "payload_256": mvcm.Window().packets,
        "payload_0": mvcm.Window(payload=0).packets,
        "wide": mvcm.Window(bandwidth=16).packets,
        "wide_window": float(math.ceil(mvcm.Window(bandwidth=16).packets)),
        # Compared with a packet of 1 MB, the acknowledgement and the hops take almost no time.
        "long": mvcm.Window(payload=1_000_000).packets,
        "simulated_round_trip": mvcm.PACKET / _rate(results["1"]),
        "simulated": 1 / _rate(results["1"]),
        "two": _rate(results["2"]),
    }


def plot(results, out):
    fig, (ax,) = figures.figure()
    names = ("256 bytes", "no payload", "16 bytes/cycle")
    own = compare(results)
    figures.beside(ax, names, (1.28, 4.45, 4.18), [own[key] for key in ("payload_256", "payload_0", "wide")])
    ax.set(ylabel="packets", title="The window that fills a round trip")
    figures.save(fig, out, "A6")
